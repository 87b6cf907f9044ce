//! The roots' end of control connections: each replica has a door, and the one that leads answers.
//!
//! A node that connects proves its number at the gate and its name by certificate, says which venue it
//! believes in, and gets its keys once its start is in the log. The connection stays: new keys, a
//! drain and a revocation go out on it as soon as they are committed. A replica that does not lead
//! says who does.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::Nodes;
use exchange::Root;
use net::{Sealed, ServerTls};
use overlay::sealed_link::Fleet;
use replication::ReplicaId;
use types::{Command, Input, Nanos, NodeAction, NodeId, Seq};

use super::credentials::{OPERATOR, RootSecret, named};
use super::file::{ClusterFile, NodeEntry, NodeRole, Port};
use super::keys;
use super::messages::{
    EdgeHint, Followed, FromNode, FromRoot, Health, OBSERVED_MAX, Operation, Reader, write,
};
use super::observer::Observer;
use super::reference::References;
use super::subscriptions;
use crate::alarms::Alarms;
use crate::clock_agent::UNKNOWN_NS;
use crate::failure::Failure;
use crate::replica::gate::{self, Entrant, Gate, Limits};
use crate::replica::line::RootLine;
use crate::replica::node::StatusHandle;

mod doubles;
mod greeting;
mod joins;
mod learners;
mod operations;
mod planning;
mod scaling;
mod status;
mod telemetry;

use greeting::slot;
pub use joins::Issuing;
use joins::set_node;

/// How often a replica is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a connection may be silent before what there is to tell it is looked at.
const TURN: Duration = Duration::from_millis(50);
/// A connection that takes nothing for so long is given up.
const STUCK: Duration = Duration::from_secs(2);
/// How long the first message may take.
const HELLO: Duration = Duration::from_secs(2);
/// A node that said nothing for so long is silent.
const SILENT: Duration = Duration::from_secs(5);
/// How long a command may take to be committed.
const COMMIT: Duration = Duration::from_secs(3);
/// Inputs that are looked at between two looks at most.
const INPUTS_MAX: u64 = 4_096;
/// Longest answer of a loop.
const ANSWER: Duration = Duration::from_secs(1);

/// Why a message of a kind that its sender has no use for is refused.
const NOT_ITS_OWN: &str = "a message that is not its to send";
/// Why a connection that stood is ended.
const REVOKED: &str = "its certificate was revoked";

/// What a venue's control connections are about.
pub struct Venue {
    /// Who is where.
    pub file: ClusterFile,
    /// [`super::file::venue_digest`] of the settings.
    pub digest: u64,
    /// Overlay nodes but the root: id, number of the machine, port.
    pub overlay: Vec<(NodeId, u16, Port)>,
    /// Which overlay nodes speak with which.
    pub fleet: Fleet,
    /// Clock agents keep the machines' clocks together.
    pub keeps_clocks: bool,
    /// User names of the accounts, that of account 1 first.
    pub accounts: Vec<String>,
}

/// How the replica stands, looked at every 50 ms.
#[derive(Clone, Default)]
struct Standing {
    /// It was looked at.
    seen: bool,
    /// The term in which it leads and serves; 0: it does not.
    term: u64,
    /// Who leads, from 1; 0: nobody known.
    leader: u8,
    nodes: Nodes,
    /// When it was looked at, by the replica's clock.
    at: Nanos,
    /// By replica: positions of a leader's log that it lacks; `None` for one that is not in the group.
    behind: Vec<Option<u64>>,
    /// By replica: whether it votes; `None` for one that is not in the group.
    votes: Vec<Option<bool>>,
}

impl Standing {
    /// Whether a replica votes; `None` for one that is not in the group.
    fn votes(&self, replica: u8) -> Option<bool> {
        self.votes.get(usize::from(replica).checked_sub(1)?).copied().flatten()
    }

    /// By replica: records that one which votes lacks of the log of this one, if it leads.
    fn voters_lack(&self) -> Vec<Option<u64>> {
        let lacks =
            |(lacks, votes): (&Option<u64>, &Option<bool>)| lacks.filter(|_| *votes == Some(true));
        self.behind.iter().zip(&self.votes).map(lacks).collect()
    }
}

/// What there is to look at since the last time.
struct News {
    /// The term in which the replica leads and serves; 0: it does not.
    term: u64,
    /// Of one that leads.
    inputs: Option<Inputs>,
}

/// Inputs of a log.
struct Inputs {
    /// When it was asked, on the root's clock.
    now: Nanos,
    /// Inputs applied so far.
    applied: u64,
    /// Those that were not looked at yet; none where that is not known, or they are too many.
    new: Vec<Input>,
}

impl Inputs {
    fn of(root: &Root, now: Nanos, known: Option<u64>) -> Inputs {
        let applied = root.engine().applied();
        let new = match known {
            // Too many at once would hold up the root: what is beyond is not looked at.
            Some(known) if applied - known.min(applied) <= INPUTS_MAX => {
                let new = root.log().after(Seq(known));
                new.take_while(|input| input.seq.0 <= applied).copied().collect()
            }
            _ => Vec::new(),
        };
        Inputs { now, applied, new }
    }
}

/// How a node was when it last said so.
struct Heard {
    at: Instant,
    health: Health,
    generation: u32,
    requests_per_s: u64,
}

impl Heard {
    /// Heard now; `last`: what was heard before.
    fn now(health: Health, generation: u32, last: Option<&Heard>) -> Heard {
        let at = Instant::now();
        let rate = last.map_or(0, |last| {
            let ms = at.duration_since(last.at).as_millis().max(1) as u64;
            health.requests.saturating_sub(last.health.requests).saturating_mul(1_000) / ms
        });
        Heard { at, health, generation, requests_per_s: rate }
    }
}

/// The door of one replica.
pub struct Server {
    venue: Venue,
    secret: RootSecret,
    claims: Vec<[u8; 32]>,
    root: RootLine,
    replica: StatusHandle,
    alarms: Alarms,
    standing: Mutex<Arc<Standing>>,
    heard: Mutex<BTreeMap<u16, Heard>>,
    /// Of the certificate that each node showed last.
    generations: Mutex<BTreeMap<u16, u32>>,
    references: Mutex<References>,
    observer: Mutex<Observed>,
    learners: Mutex<learners::Learners>,
    doubles: Mutex<doubles::Doubles>,
    planning: planning::Planning,
    scaling: scaling::Scaling,
    joins: joins::Joins,
}

/// What machines have seen while this replica leads.
#[derive(Default)]
struct Observed {
    /// The term that it is of.
    term: u64,
    of: Observer,
    /// Since when; none before the first.
    since: Option<Instant>,
    /// Observations that had no room at their machines.
    lost: u64,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The keys that a process of a node has.
struct Admitted {
    /// Their epoch.
    epoch: u32,
    /// Which of the node's starts it is.
    life: u32,
}

/// Who is at the other end.
struct Caller {
    /// 0: an operator.
    number: u16,
    name: String,
    generation: u32,
}

impl Server {
    /// The door of the replica behind `root`, and for how it stands. `claims`: secrets of claims by node, the first of number 1.
    pub fn new(
        venue: Venue,
        secret: RootSecret,
        claims: Vec<[u8; 32]>,
        (root, replica): (RootLine, StatusHandle),
        alarms: Alarms,
    ) -> Server {
        Server {
            venue,
            secret,
            claims,
            root,
            replica,
            alarms,
            standing: Mutex::default(),
            heard: Mutex::default(),
            generations: Mutex::default(),
            references: Mutex::default(),
            observer: Mutex::default(),
            learners: Mutex::default(),
            doubles: Mutex::default(),
            planning: planning::Planning::default(),
            scaling: scaling::Scaling::default(),
            joins: joins::Joins::default(),
        }
    }

    /// Keeps looking how the replica stands, and whose clock is to be followed, until `stop`.
    pub fn watch(&self, stop: &AtomicBool) {
        let mut first = true;
        while !stop.load(Ordering::Relaxed) {
            let seen = {
                let observed = lock(&self.observer);
                (observed.term, observed.of.inputs())
            };
            let news = self.ask(seen);
            self.keep_learners(first);
            first &= !self.standing().seen;
            self.refer();
            self.tell_single();
            if let Some(news) = news {
                self.observe(news);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Settles what machines have seen, and looks at the order of new inputs.
    fn observe(&self, news: News) {
        let term = news.term;
        let known = {
            let mut observed = lock(&self.observer);
            let same = observed.term == term;
            observed.term = term;
            observed.since = observed.since.filter(|_| same).or_else(|| Some(Instant::now()));
            same.then(|| observed.of.inputs())
        };
        let Some(Inputs { now, applied, new }) = news.inputs else { return };
        let expected: BTreeSet<u16> = {
            let heard = lock(&self.heard);
            let fair = |number: &u16| {
                let one = heard.get(number);
                one.is_some_and(|one| one.at.elapsed() < SILENT && !one.health.quarantined)
            };
            let edges = self.venue.overlay.iter().filter(|(.., port)| *port == Port::Edge);
            edges.filter(|(_, number, _)| fair(number)).map(|(id, ..)| id.0).collect()
        };
        let mut observed = lock(&self.observer);
        match known {
            Some(known) if known + new.len() as u64 == applied => observed.of.handle(new),
            _ => {
                observed.of.begin(applied);
                observed.lost = 0;
            }
        }
        observed.of.settle(now, &expected);
    }

    /// Appoints another reference where one is wanted.
    fn refer(&self) {
        let standing = self.standing();
        if !self.venue.keeps_clocks || !standing.seen {
            return;
        }
        let roots: Vec<u16> = self.venue.file.replicated().map(|(at, _)| at).collect();
        let place = usize::from(standing.leader).checked_sub(1);
        let leader = place.and_then(|place| roots.get(place)).copied();
        let leads = leader.map_or((0, 0), |leader| (standing.term, leader));
        let machines = 1..=self.venue.file.nodes.len() as u32;
        let fresh = machines.into_iter().all(|number| standing.nodes.get(number).life() == 0);
        let mut references = lock(&self.references);
        if references.look(Instant::now(), leads, &roots, fresh) {
            let name = self.venue.file.numbered(references.newest().number);
            let name = name.map_or("", |node| &node.name[..]);
            self.alarms.note("clock-reference", format!("all clocks follow {name}'s from now on"));
        }
    }

    fn look(&self) {
        // Another term's inputs than any: none are wanted.
        let _ = self.ask((0, 0));
    }

    /// Asks the replica's loop, once, how it stands and what is new in its log since so many inputs of
    /// a term; nothing when it does not answer.
    fn ask(&self, (seen_in, seen): (u64, u64)) -> Option<News> {
        let (to, from) = sync_channel(1);
        let replicas = self.root.places();
        let asked = self.root.call_member(move |member, now, _| {
            let leader = member.replica().standing().leader.map_or(0, |leader| leader.0);
            let term = member.leading().unwrap_or(0);
            let root = member.role().as_root();
            let last = member.replica().last();
            let behind = |id| Some(last.saturating_sub(member.replica().matched(ReplicaId(id))?));
            let members = member.replica().membership();
            let votes = |id| members.get(ReplicaId(id)).map(|member| member.votes);
            let standing = Standing {
                seen: true,
                at: now.now,
                behind: replicas.clone().map(behind).collect(),
                votes: replicas.map(votes).collect(),
                term,
                leader,
                nodes: root.map(|root| root.engine().nodes().clone()).unwrap_or_default(),
            };
            let known = (seen_in == term).then_some(seen);
            let inputs = root.filter(|_| term > 0).map(|root| Inputs::of(root, now.now, known));
            let _ = to.try_send((standing, News { term, inputs }));
        });
        let (standing, news) = asked.ok().and_then(|()| from.recv_timeout(ANSWER).ok())?;
        *lock(&self.standing) = Arc::new(standing);
        Some(news)
    }

    fn standing(&self) -> Arc<Standing> {
        Arc::clone(&lock(&self.standing))
    }

    /// The epoch of the keys, as far as it is committed here; `None` before the replica was looked at.
    pub fn key_epoch(&self) -> Option<u32> {
        let standing = self.standing();
        standing.seen.then(|| standing.nodes.key_epoch())
    }

    /// The keys of the replica's own machine in an epoch: of its root, and of its clock agent. Their
    /// lives are drawn, because nobody grants a root one.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn own_keys(&self, number: u16, epoch: u32) -> Result<super::messages::Keys, Failure> {
        keys::of_root(&self.venue, &self.secret, number, epoch)
    }

    /// Takes connections at `door` until `stop`.
    ///
    /// # Errors
    /// See [`gate::serve`].
    pub fn serve(
        &self,
        replica: u8,
        (door, limits): (&TcpListener, Limits),
        tls: &ServerTls,
        stop: &AtomicBool,
    ) -> Result<(), Failure> {
        let known: Vec<IpAddr> = (self.venue.file.nodes.iter())
            .filter_map(|node| self.venue.file.places(node, Port::Control).ok())
            .flat_map(|places| places.into_iter().map(|at| at.ip()))
            .collect();
        let (key, own) = (self.secret.gate()?, replica.into());
        let refused = Arc::clone(&self.joins.strangers);
        let gate = Gate { key, own, known, limits, refused };
        let served = gate::serve(&gate, door, stop, |entrant| {
            // A connection that ends, by whatever, is opened again by the other side.
            let _ = match Server::joining(entrant.number) {
                Some(number) => self.join(&entrant, number, stop),
                None => self.converse(&entrant, tls, stop),
            };
        });
        served.map_err(|error| Failure::Run(format!("control connections: {error}")))
    }

    fn converse(
        &self,
        entrant: &Entrant<'_>,
        tls: &ServerTls,
        stop: &AtomicBool,
    ) -> std::io::Result<()> {
        let (stream, at) = (&entrant.stream, entrant.stream.peer_addr()?);
        let mut sealed = tls.accept(Arc::clone(stream), entrant.until).inspect_err(|error| {
            self.tell_refused(entrant.number, &format!("node {}", entrant.number), error);
        })?;
        stream.set_read_timeout(Some(TURN))?;
        stream.set_write_timeout(Some(STUCK))?;
        let subject = sealed.certificate().map(|certificate| certificate.name.clone());
        let caller = subject.and_then(|name| named(self.venue.file.id, &name));
        let Some((name, generation)) = caller else {
            return self.refuse(&mut sealed, "somebody", "the certificate is of another cluster");
        };
        let number = match &name[..] {
            OPERATOR if sealed.certificates_shown() > 1 => {
                let why = "an operator's certificate is signed by the authority itself";
                return self.refuse(&mut sealed, OPERATOR, why);
            }
            OPERATOR => 0,
            name => match self.venue.file.node(name) {
                Ok((number, _)) => number,
                Err(why) => return self.refuse(&mut sealed, name, &why.to_string()),
            },
        };
        if number != entrant.number {
            let why = format!("the gate's key is that of number {}", entrant.number);
            return self.refuse(&mut sealed, &name, &why);
        }
        entrant.settle();
        lock(&self.generations).insert(number, generation);
        let caller = Caller { number, name, generation };
        let mut reader = Reader::default();
        let (boot, follows, plan) = match self.greet(&mut sealed, &mut reader, &caller, stop)? {
            Ok(greeted) => greeted,
            Err(why) => return self.refuse(&mut sealed, &caller.name, &why),
        };
        if caller.number == 0 {
            return self.hear_operator(&mut sealed, &mut reader, &caller, stop);
        }
        let standing = self.standing();
        if standing.term == 0 {
            return write(&mut sealed, &FromRoot::Elsewhere { leader: standing.leader });
        }
        let admitted = match self.welcome(&mut sealed, &caller, boot)? {
            Ok(admitted) => admitted,
            Err(why) => {
                return write(&mut sealed, &FromRoot::Refused { why, again: true });
            }
        };
        if let Some(plan) = plan
            && self.venue.file.numbered(caller.number).is_some_and(|node| node.is(NodeRole::Root))
        {
            self.planning.remind(&plan, crate::alarms::now_ns());
        }
        // How wrong its clock is it says with its health.
        lock(&self.references).hear(caller.number, follows, UNKNOWN_NS);
        let life = (caller.number, admitted.life);
        lock(&self.doubles).enter(Instant::now(), life, at);
        let left = self.hear(&mut sealed, &mut reader, &caller, admitted, stop);
        lock(&self.doubles).leave(life);
        lock(&self.heard).remove(&caller.number);
        lock(&self.references).leave(caller.number);
        left
    }

    /// Tells operators who wanted in; once, however often it asks again.
    fn tell_refused(&self, number: u16, name: &str, why: &impl std::fmt::Display) {
        self.alarms.raise(&format!("refused-{number}"), format!("{name} is not let in: {why}"));
    }

    /// Tells a node why it isn't in, and operators who wanted in.
    fn refuse(&self, sealed: &mut Sealed, name: &str, why: &str) -> std::io::Result<()> {
        self.tell_refused(self.venue.file.node(name).map_or(0, |(number, _)| number), name, &why);
        write(sealed, &FromRoot::Refused { why: why.to_string(), again: false })
    }

    /// Puts a command into the log; waits until `done` holds of what is committed.
    fn command(&self, command: Command, done: impl Fn(&Nodes) -> bool) -> Result<(), String> {
        let asked = self.root.call(move |root, now, out| {
            let _ = root.operator(now, command, out);
        });
        asked.map_err(|error| format!("the root was not asked: {error}"))?;
        let until = Instant::now() + COMMIT;
        while Instant::now() < until {
            self.look();
            let standing = self.standing();
            if done(&standing.nodes) {
                return Ok(());
            }
            if standing.term == 0 {
                return Err("this root leads no more: again".to_string());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Err(format!("not committed within {} s: again", COMMIT.as_secs()))
    }

    /// Lets a node in: its start is in the log, and it has its keys. Which, or why not.
    fn welcome(
        &self,
        sealed: &mut Sealed,
        caller: &Caller,
        boot: u32,
    ) -> std::io::Result<Result<Admitted, String>> {
        let number = u32::from(caller.number);
        let join = set_node(NodeAction::Join, number, boot, &caller.name);
        if self.standing().nodes.get(number).life_of(boot).is_none()
            && let Err(why) = self.command(join, |nodes| nodes.get(number).life_of(boot).is_some())
        {
            return Ok(Err(why));
        }
        let standing = self.standing();
        let node = standing.nodes.get(number);
        let epoch = standing.nodes.key_epoch();
        let Some(life) = node.life_of(boot) else {
            return Ok(Err("it was started too often meanwhile: again".to_string()));
        };
        let keys = self.keys(caller.number, epoch, life).map_err(std::io::Error::other)?;
        let place = usize::from(caller.number) - 1;
        let claims = self.claims.get(place).map_or_else(String::new, |key| crate::tls::hex(key));
        let (leader, term) = (standing.leader, standing.term);
        self.alarms.clear(&format!("refused-{number}"), format!("{} is in", caller.name));
        write(sealed, &FromRoot::Welcome { leader, term, life, claims, keys })?;
        Ok(Ok(Admitted { epoch, life }))
    }

    fn keys(&self, number: u16, epoch: u32, life: u32) -> Result<super::messages::Keys, Failure> {
        keys::of(&self.venue, &self.secret, number, epoch, life)
    }

    /// Does what an operator asks for. How it stands each replica says; all else whoever leads does.
    fn hear_operator(
        &self,
        sealed: &mut Sealed,
        reader: &mut Reader,
        caller: &Caller,
        stop: &AtomicBool,
    ) -> std::io::Result<()> {
        while !stop.load(Ordering::Relaxed) {
            let Some(message) = reader.next::<FromNode>(sealed)? else { continue };
            let FromNode::Operate(operation) = message else {
                return self.refuse(sealed, OPERATOR, NOT_ITS_OWN);
            };
            let standing = self.standing();
            if caller.generation <= standing.nodes.get(slot(caller.number)).revoked {
                return self.refuse(sealed, OPERATOR, REVOKED);
            }
            if standing.term == 0 && operation != Operation::Replica {
                return write(sealed, &FromRoot::Elsewhere { leader: standing.leader });
            }
            let answer = self.operate(&operation);
            write(sealed, &answer.unwrap_or_else(|(why, again)| FromRoot::Refused { why, again }))?;
        }
        Ok(())
    }

    /// Goes on with a node's connection: hears how it is, tells it what is new.
    fn hear(
        &self,
        sealed: &mut Sealed,
        reader: &mut Reader,
        caller: &Caller,
        mut known: Admitted,
        stop: &AtomicBool,
    ) -> std::io::Result<()> {
        let (number, mut followed) = (u32::from(caller.number), Followed::default());
        let node = self.venue.file.numbered(caller.number);
        let is_edge = node.is_some_and(|node| node.is(NodeRole::Edge));
        let is_root = node.is_some_and(|node| node.is(NodeRole::Root));
        let (mut edges_at, mut probing) = (Instant::now(), 0);
        let (mut remembers, mut remembered) = (false, Default::default());
        let (mut sheds, mut leaves) = (false, false);
        while !stop.load(Ordering::Relaxed) {
            match reader.next::<FromNode>(sealed)? {
                Some(FromNode::Health(health)) => {
                    self.tell_quarantine(&caller.name, &health);
                    self.tell_doubled(caller, known.life);
                    let (follows, bound_ns) = (health.follows, health.clock_bound_ns);
                    lock(&self.references).hear(caller.number, follows, bound_ns);
                    remembers = is_root && health.plans;
                    sheds = is_edge && health.sheds;
                    let mut all = lock(&self.heard);
                    let last = all.get(&caller.number);
                    let heard = Heard::now(health, caller.generation, last);
                    all.insert(caller.number, heard);
                }
                Some(FromNode::Observed(seen)) => self.take_observed(caller.number, &seen),
                Some(FromNode::Probed(probed)) => self.planning.hear(caller.number, probed),
                Some(_) => return self.refuse(sealed, &caller.name, NOT_ITS_OWN),
                None => {}
            }
            let standing = self.standing();
            if standing.term == 0 {
                return write(sealed, &FromRoot::Elsewhere { leader: standing.leader });
            }
            let node = standing.nodes.get(number);
            if caller.generation <= node.revoked {
                return self.refuse(sealed, &caller.name, REVOKED);
            }
            if node.drained {
                return write(sealed, &FromRoot::Drain);
            }
            let newest = standing.nodes.key_epoch();
            if newest != known.epoch {
                // Of its own start: another process of the node may have been started since.
                let keys = self.keys(caller.number, newest, known.life);
                write(sealed, &FromRoot::Keys(keys.map_err(std::io::Error::other)?))?;
                known.epoch = newest;
            }
            let reference = lock(&self.references).to_tell(caller.number);
            if reference != followed {
                write(sealed, &FromRoot::Reference(reference))?;
                followed = reference;
            }
            if let Some(order) = self.planning.order(caller.number, &mut probing) {
                write(sealed, &FromRoot::Probe(order))?;
            }
            if remembers
                && let Some(plan) = self.planning.to_remember(caller.number, &mut remembered)
            {
                write(sealed, &plan)?;
            }
            // Not in the log: the connection stays, so that it is seen to go.
            if is_edge && !leaves && self.scaling.is_leaving(caller.number) {
                leaves = true;
                write(sealed, &FromRoot::Drain)?;
            }
            if sheds && let Some(sessions) = self.scaling.shed(caller.number) {
                write(sealed, &FromRoot::Shed { sessions })?;
            }
            if is_edge && edges_at.elapsed() >= subscriptions::EVERY {
                edges_at = Instant::now();
                write(sealed, &self.edges(&standing))?;
            }
        }
        Ok(())
    }

    /// Edges that take participants at this moment, as far as is known here.
    fn edges(&self, standing: &Standing) -> FromRoot {
        let heard = lock(&self.heard);
        let mut age = Duration::ZERO;
        let edges = self.venue.file.of(NodeRole::Edge).filter_map(|(number, _)| {
            let one = heard.get(&number)?;
            let node = standing.nodes.get(number.into());
            let is_fresh = one.at.elapsed() <= subscriptions::HEARD;
            let is_out = node.drained
                || one.generation <= node.revoked
                || one.health.quarantined
                || self.scaling.is_leaving(number);
            if !is_fresh || is_out {
                return None;
            }
            age = age.max(one.at.elapsed());
            let (sessions, requests_per_s) = (one.health.sessions, one.requests_per_s);
            Some(EdgeHint { node: number, sessions, requests_per_s })
        });
        let edges = subscriptions::least_loaded(edges.collect());
        FromRoot::Edges { age_ms: age.as_millis() as u64, edges }
    }

    /// Takes what a machine saw with its own nodes.
    fn take_observed(&self, number: u16, seen: &super::messages::Observed) {
        let node = self.venue.file.numbered(number);
        let is_root = node.is_some_and(NodeEntry::keeps_log);
        let here = self.venue.overlay.iter().filter(|(_, machine, _)| *machine == number);
        let own: Vec<u16> = here.map(|(id, ..)| id.0).collect();
        let mut observed = lock(&self.observer);
        observed.lost = observed.lost.saturating_add(seen.lost);
        for one in seen.seen.iter().take(OBSERVED_MAX) {
            if own.contains(&one.1) || (is_root && one.1 == keys::ROOT.0) {
                observed.of.observe(*one);
            }
        }
    }
}
