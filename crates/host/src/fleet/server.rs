//! The roots' end of control connections: each replica has a door, and the one that leads answers.
//!
//! A node that connects proves its number at the gate and its name by certificate, says which venue it
//! believes in, and gets its keys once its start is in the log. The connection stays: new keys, a
//! drain and a revocation go out on it as soon as they are committed. A replica that does not lead
//! says who does.

use std::collections::BTreeMap;
use std::net::{IpAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::Nodes;
use net::{Sealed, ServerTls};
use overlay::sealed_link::Fleet;
use replication::{Refusal, ReplicaId};
use serde_json::json;
use types::{ClOrdId, Command, CommandKind, NodeAction, NodeId, UserRefNum};

use super::credentials::{OPERATOR, RootSecret, named};
use super::file::{ClusterFile, NodeRole, Port};
use super::keys;
use super::messages::{
    EdgeHint, Followed, FromNode, FromRoot, Health, Operation, Reader, VERSION, write,
};
use super::reference::References;
use super::subscriptions;
use crate::alarms::Alarms;
use crate::clock_agent::UNKNOWN_NS;
use crate::failure::Failure;
use crate::replica::gate::{self, Entrant, Gate, Limits};
use crate::replica::line::RootLine;

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
/// Longest answer of a loop.
const ANSWER: Duration = Duration::from_secs(1);

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
    /// By replica: positions of a leader's log that it lacks; `None` for one that is not in the group.
    behind: Vec<Option<u64>>,
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
    alarms: Alarms,
    standing: Mutex<Arc<Standing>>,
    heard: Mutex<BTreeMap<u16, Heard>>,
    /// Of the certificate that each node showed last.
    generations: Mutex<BTreeMap<u16, u32>>,
    references: Mutex<References>,
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
    /// The door of the replica behind `root`. `claims`: secrets of claims by node, the first of number 1.
    pub fn new(
        venue: Venue,
        secret: RootSecret,
        claims: Vec<[u8; 32]>,
        root: RootLine,
        alarms: Alarms,
    ) -> Server {
        let (standing, heard, generations, references) = Default::default();
        Server { venue, secret, claims, root, alarms, standing, heard, generations, references }
    }

    /// Keeps looking how the replica stands, and whose clock is to be followed, until `stop`.
    pub fn watch(&self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            self.look();
            self.refer();
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Appoints another reference where one is wanted.
    fn refer(&self) {
        let standing = self.standing();
        if !self.venue.keeps_clocks || !standing.seen {
            return;
        }
        let roots: Vec<u16> = self.venue.file.of(NodeRole::Root).map(|(at, _)| at).collect();
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
        let (to, from) = sync_channel(1);
        let replicas = self.root.places();
        let asked = self.root.call_member(move |member, _, _| {
            let leader = member.replica().standing().leader.map_or(0, |leader| leader.0);
            let term = member.leading().unwrap_or(0);
            let nodes = member.role().as_root().map(|root| root.engine().nodes().clone());
            let last = member.replica().last();
            let behind = |id| Some(last.saturating_sub(member.replica().matched(ReplicaId(id))?));
            let _ = to.try_send(Standing {
                seen: true,
                behind: replicas.map(behind).collect(),
                term,
                leader,
                nodes: nodes.unwrap_or_default(),
            });
        });
        if let Some(found) = asked.ok().and_then(|()| from.recv_timeout(ANSWER).ok()) {
            *lock(&self.standing) = Arc::new(found);
        }
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
        door: &TcpListener,
        tls: &ServerTls,
        stop: &AtomicBool,
    ) -> Result<(), Failure> {
        let known: Vec<IpAddr> = (self.venue.file.nodes.iter())
            .filter_map(|node| self.venue.file.at(node, Port::Control).ok())
            .map(|at| IpAddr::V4(*at.ip()))
            .collect();
        let (key, own) = (self.secret.gate()?, replica.into());
        let gate = Gate { key, own, known, limits: Limits::FAIR };
        let served = gate::serve(&gate, door, stop, |entrant| {
            // A connection that ends, by whatever, is opened again by the other side.
            let _ = self.converse(&entrant, tls, stop);
        });
        served.map_err(|error| Failure::Run(format!("control connections: {error}")))
    }

    fn converse(
        &self,
        entrant: &Entrant<'_>,
        tls: &ServerTls,
        stop: &AtomicBool,
    ) -> std::io::Result<()> {
        let stream = &entrant.stream;
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
        let (boot, follows) = match self.greet(&mut sealed, &mut reader, &caller, stop)? {
            Ok(greeted) => greeted,
            Err(why) => return self.refuse(&mut sealed, &caller.name, &why),
        };
        let standing = self.standing();
        if standing.term == 0 {
            return write(&mut sealed, &FromRoot::Elsewhere { leader: standing.leader });
        }
        if caller.number == 0 {
            return self.hear(&mut sealed, &mut reader, &caller, None, stop);
        }
        let admitted = match self.welcome(&mut sealed, &caller, boot)? {
            Ok(admitted) => admitted,
            Err(why) => {
                return write(&mut sealed, &FromRoot::Refused { why, again: true });
            }
        };
        // How wrong its clock is it says with its health.
        lock(&self.references).hear(caller.number, follows, UNKNOWN_NS);
        let left = self.hear(&mut sealed, &mut reader, &caller, Some(admitted), stop);
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

    /// Hears the first message; the boot nonce in it and whose clock the node follows, or why it isn't
    /// let in.
    fn greet(
        &self,
        sealed: &mut Sealed,
        reader: &mut Reader,
        caller: &Caller,
        stop: &AtomicBool,
    ) -> std::io::Result<Result<(u32, Followed), String>> {
        let until = Instant::now() + HELLO;
        while !stop.load(Ordering::Relaxed) && Instant::now() < until {
            let Some(message) = reader.next::<FromNode>(sealed)? else { continue };
            let FromNode::Hello { version, cluster, venue, name, boot, follows } = message else {
                return Ok(Err("the first message was no hello".to_string()));
            };
            let (file, digest) = (&self.venue.file, self.venue.digest);
            let revoked = self.standing().nodes.get(caller.number.into()).revoked;
            let why = if version != VERSION {
                format!("it speaks version {version} of control messages, and this root {VERSION}")
            } else if cluster != file.id {
                format!("it is of cluster {cluster:016x}, and this is {:016x}", file.id)
            } else if name != caller.name {
                format!("it calls itself {name}, and its certificate is of {}", caller.name)
            } else if caller.number != 0 && venue != digest {
                format!(
                    "its settings have digest {venue:016x}, and those of the roots {digest:016x}: compare \
                     venue.toml and cluster.toml"
                )
            } else if caller.number != 0 && caller.generation <= revoked {
                let generation = caller.generation;
                format!("its certificate, generation {generation}, is revoked: issue another one")
            } else if self.standing().nodes.get(caller.number.into()).drained {
                "it is drained: `fairbell cluster drain --undo NODE` first".to_string()
            } else {
                return Ok(Ok((boot, follows)));
            };
            return Ok(Err(why));
        }
        Ok(Err("no hello in time".to_string()))
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

    /// Goes on with a connection: hears how the node is, tells it what is new. `admitted`: none for an
    /// operator.
    fn hear(
        &self,
        sealed: &mut Sealed,
        reader: &mut Reader,
        caller: &Caller,
        mut admitted: Option<Admitted>,
        stop: &AtomicBool,
    ) -> std::io::Result<()> {
        let (number, mut followed) = (u32::from(caller.number), Followed::default());
        let node = self.venue.file.numbered(caller.number);
        let is_edge = node.is_some_and(|node| node.is(NodeRole::Edge));
        let mut edges_at = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            match reader.next::<FromNode>(sealed)? {
                Some(FromNode::Health(health)) if admitted.is_some() => {
                    self.tell_quarantine(&caller.name, &health);
                    let (follows, bound_ns) = (health.follows, health.clock_bound_ns);
                    lock(&self.references).hear(caller.number, follows, bound_ns);
                    let mut all = lock(&self.heard);
                    let last = all.get(&caller.number);
                    let heard = Heard::now(health, caller.generation, last);
                    all.insert(caller.number, heard);
                }
                Some(FromNode::Operate(operation)) if caller.number == 0 => {
                    let answer = match self.operate(&operation) {
                        Ok(answer) => answer,
                        Err((why, again)) => FromRoot::Refused { why, again },
                    };
                    write(sealed, &answer)?;
                }
                Some(_) => {
                    return self.refuse(sealed, &caller.name, "a message that is not its to send");
                }
                None => {}
            }
            let standing = self.standing();
            if standing.term == 0 {
                return write(sealed, &FromRoot::Elsewhere { leader: standing.leader });
            }
            let Some(known) = &mut admitted else { continue };
            let node = standing.nodes.get(number);
            if caller.generation <= node.revoked {
                return self.refuse(sealed, &caller.name, "its certificate was revoked");
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
            let reference = lock(&self.references).newest();
            if reference != followed {
                write(sealed, &FromRoot::Reference(reference))?;
                followed = reference;
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
            let is_out = node.drained || one.generation <= node.revoked || one.health.quarantined;
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

    fn tell_quarantine(&self, name: &str, health: &Health) {
        let key = format!("quarantine-{name}");
        match health.quarantined {
            true => self.alarms.raise(
                &key,
                format!(
                    "{name}'s clock is within {} ns only: nobody waits for it",
                    health.clock_bound_ns
                ),
            ),
            false => self.alarms.clear(&key, format!("{name}'s clock is good enough again")),
        }
    }

    /// Does what an operator wants; else why not, and whether it may be otherwise in a moment.
    fn operate(&self, operation: &Operation) -> Result<FromRoot, (String, bool)> {
        let number = |name: &str| {
            let found = self.venue.file.node(name).map_err(|why| (why.to_string(), false))?;
            Ok::<u32, (String, bool)>(found.0.into())
        };
        let command = |command, done: &dyn Fn(&Nodes) -> bool| {
            self.command(command, done).map_err(|why| (why, true))
        };
        let epoch = self.standing().nodes.key_epoch();
        let text = match operation {
            Operation::Status => return Ok(self.status()),
            Operation::Revoke { node, generation } => {
                let (at, upto) = (number(node)?, *generation);
                let set = set_node(NodeAction::Revoke, at, upto, OPERATOR);
                command(set, &|nodes| nodes.get(at).revoked >= upto)?;
                format!("{node}: certificates up to generation {upto} are refused")
            }
            Operation::Rotate => {
                let set = set_node(NodeAction::RotateKeys, 0, 0, OPERATOR);
                command(set, &|nodes| nodes.key_epoch() > epoch)?;
                "all nodes are given other keys".to_string()
            }
            Operation::Replace { nodes, by } => self.replace(nodes, by)?,
            Operation::Lead { node } => {
                let to = self.hand_over(node)?;
                let data = json!({ "leader": to });
                return Ok(FromRoot::Answer { text: format!("{node} leads"), data });
            }
            Operation::Drain { node, on } => {
                let at = number(node)?;
                let set = set_node(NodeAction::Drain, at, u32::from(*on), OPERATOR);
                command(set, &|nodes| nodes.get(at).drained == *on)?;
                let what = if *on { "ends its sessions and stops" } else { "may join again" };
                format!("{node} {what}")
            }
        };
        let epoch = self.standing().nodes.key_epoch();
        let data = json!({ "key_epoch": epoch });
        Ok(FromRoot::Answer { text: format!("{text}; keys are of epoch {epoch}"), data })
    }

    /// The overlay node of a proxy's machine.
    fn proxy(&self, name: &str) -> Result<NodeId, (String, bool)> {
        let (number, _) = self.venue.file.node(name).map_err(|why| (why.to_string(), false))?;
        let mut here = self.venue.overlay.iter().filter(|(_, machine, _)| *machine == number);
        let proxy = here.find(|(.., port)| *port == Port::Proxy).map(|(id, ..)| *id);
        proxy.ok_or_else(|| (format!("{name} is no proxy and does not stand by"), false))
    }

    /// Name of the machine of an overlay node.
    fn machine(&self, id: NodeId) -> &str {
        let number = self.venue.overlay.iter().find(|(of, ..)| *of == id).map(|of| of.1);
        let node = number.and_then(|number| self.venue.file.numbered(number));
        node.map_or("", |node| &node.name[..])
    }

    fn replace(&self, nodes: &[String], by: &[String]) -> Result<String, (String, bool)> {
        if nodes.is_empty() || !(by.is_empty() || by.len() == nodes.len()) {
            return Err(("as many come as leave".to_string(), false));
        }
        let mut wanted = Vec::new();
        for (at, old) in nodes.iter().enumerate() {
            let new = by.get(at).map(|new| self.proxy(new)).transpose()?;
            wanted.push((self.proxy(old)?, new));
        }
        let (to, from) = sync_channel(1);
        let asked = self.root.call(move |root, now, out| {
            let come = root.replace_proxies(now, &wanted, out);
            let changes = root.engine().nodes().tree().changes;
            let _ = to.try_send(come.map(|come| (come, changes)));
        });
        let busy = |why: String| (why, true);
        asked.map_err(|error| busy(error.to_string()))?;
        let told = from.recv_timeout(ANSWER).map_err(|error| busy(error.to_string()))?;
        let (come, before) = told.map_err(|why| (why.to_string(), false))?;
        let until = Instant::now() + COMMIT;
        while self.standing().nodes.tree().changes <= before && Instant::now() < until {
            self.look();
            std::thread::sleep(Duration::from_millis(2));
        }
        let changes = self.standing().nodes.tree().changes;
        if changes <= before {
            return Err(busy("not committed in time: again".to_string()));
        }
        let pairs = nodes.iter().zip(&come);
        let pairs = pairs.map(|(old, new)| format!("{} stands for {old}", self.machine(*new)));
        Ok(format!(
            "{}; the tree is of epoch {}",
            pairs.collect::<Vec<_>>().join(", "),
            changes + 1
        ))
    }

    /// Lets a root lead in place of this one; its number among the replicas once it does.
    fn hand_over(&self, node: &str) -> Result<u8, (String, bool)> {
        let (number, _) = self.venue.file.node(node).map_err(|why| (why.to_string(), false))?;
        let replica = self.venue.file.replica(number);
        let id = replica.ok_or_else(|| (format!("{node} is no root"), false))?;
        let (to, from) = sync_channel(1);
        let asked = self.root.call_member(move |member, now, out| {
            let _ = to.try_send(member.hand_over(now, ReplicaId(id), out));
        });
        let taken = asked.ok().and_then(|()| from.recv_timeout(ANSWER).ok());
        match taken {
            Some(Ok(())) => {}
            // Whoever leads now is asked by the other side.
            None | Some(Err(Refusal::NotLeading(_))) => {
                return Err(("this root leads no more: again".to_string(), true));
            }
            Some(Err(why)) => return Err((why.to_string(), false)),
        }
        let until = Instant::now() + COMMIT;
        while Instant::now() < until {
            self.look();
            if self.standing().leader == id {
                return Ok(id);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Err((format!("{node} does not lead within {} s: again", COMMIT.as_secs()), true))
    }

    fn status(&self) -> FromRoot {
        let standing = self.standing();
        let epoch = standing.nodes.key_epoch();
        let (heard, generations) = (lock(&self.heard), lock(&self.generations));
        let tree = standing.nodes.tree();
        let replaced = tree.replaced.iter().map(|(old, new)| {
            (self.machine(NodeId(*old)).to_string(), self.machine(NodeId(*new)).to_string())
        });
        let replaced: Vec<(String, String)> = replaced.collect();
        let tree_epoch = tree.changes + 1;
        let mut lines = vec![format!(
            "replica {} leads in term {}; keys are of epoch {epoch}, the tree is of epoch {tree_epoch}",
            standing.leader, standing.term
        )];
        lines.extend(replaced.iter().map(|(old, new)| format!("{new} took the place of {old}")));
        lines.push(format!(
            "{:<16} {:<14} {:>5} {:>6} {:>12} {:>9} {:>10} {:>10} {:>8}",
            "node", "is", "life", "epoch", "clock +-ns", "sessions", "requests", "released", "late"
        ));
        let mut rows = Vec::new();
        for (number, node) in (1u16..).zip(&self.venue.file.nodes) {
            let known = standing.nodes.get(number.into());
            let one = heard.get(&number);
            let is = match one {
                _ if known.drained => "drained",
                Some(one) if one.at.elapsed() > SILENT => "silent",
                Some(one) if one.health.quarantined => "quarantined",
                Some(_) => "up",
                None if generations.get(&number).is_some_and(|last| *last <= known.revoked) => {
                    "revoked"
                }
                None => "away",
            };
            let health = one.map(|one| one.health.clone()).unwrap_or_default();
            lines.push(format!(
                "{:<16} {is:<14} {:>5} {:>6} {:>12} {:>9} {:>10} {:>10} {:>8}",
                node.name,
                known.life(),
                health.key_epoch,
                health.clock_bound_ns,
                health.sessions,
                health.requests,
                health.released,
                health.late
            ));
            rows.push(json!({
                "node": node.name, "is": is, "life": known.life(), "revoked": known.revoked,
                "drained": known.drained, "generation": one.map(|one| one.generation),
                "health": one.map(|one| &one.health),
            }));
        }
        for (number, one) in heard.iter().filter(|(_, one)| !one.health.alarms.is_empty()) {
            let name = self.venue.file.numbered(*number).map_or("", |node| &node.name[..]);
            lines.extend(one.health.alarms.iter().map(|alarm| format!("ALARM at {name}: {alarm}")));
        }
        let data = json!({
            "leader": standing.leader, "term": standing.term, "key_epoch": epoch,
            "tree_epoch": tree_epoch, "replaced": replaced, "nodes": rows,
            "leader": standing.leader, "term": standing.term, "key_epoch": epoch, "nodes": rows,
            "behind": standing.behind,
        });
        FromRoot::Answer { text: lines.join("\n"), data }
    }
}

/// The command of an action on a node, in the name of whoever asked.
fn set_node(action: NodeAction, number: u32, operand: u32, asked_by: &str) -> Command {
    let mut operator = ClOrdId::default();
    operator.0.iter_mut().zip(asked_by.bytes()).for_each(|(to, byte)| *to = byte);
    Command {
        param: action as u8,
        orig_user_ref: UserRefNum(number),
        user_ref: UserRefNum(operand),
        cl_ord_id: operator,
        ..Command::new(CommandKind::SetNode)
    }
}
