//! The exchange that is attacked: a root and two gateways on one thread, one gateway with TLS at
//! its doors, the other plain; and what it came to.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use exchange::{
    AccessConfig, Account, ExchangeConfig, FIX_DOOR, FixLogin, FixRole, FixVersion, Life,
    LoginTerms, OUCH_DOOR, Rate, Refusal, Role, Throttle, deploy,
};
use net::{
    ClientTls, Clients, Clock, Counters, Directory, Identity, Loop, LoopConfig, LoopHandle,
    ServerTls, job_channel, peer_addr,
};
use types::{AccountId, Channel, Input, Nanos, NodeId, Seq, Side, Symbol};

use super::strangers::FORGED_PRICE;
use host::authority::{Authority, End, Pair};
use host::config::Config;
use host::failure::Failure;
use host::sockets::io;

/// Where honest clients connect from, and attackers.
pub const HONEST: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// See [`HONEST`].
pub const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// Accounts of attackers, who may log on: their session messages are in the log, too.
const ATTACKERS: [AccountId; 4] = [AccountId(4), AccountId(5), AccountId(6), AccountId(7)];
/// How often strangers are counted.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Whom the second-logon attack logs on as, with the right passwords.
#[derive(Clone, Copy)]
pub struct LogonTarget {
    /// Where it comes from.
    pub address: Ipv4Addr,
    /// User name and password at the OUCH doors.
    pub ouch: (&'static str, &'static str),
    /// CompID at the FIX door.
    pub fix: &'static str,
}

impl LogonTarget {
    /// Honest clients, who are logged on.
    pub const BUSY: LogonTarget =
        LogonTarget { address: HONEST, ouch: ("HON2", "victim"), fix: "HON3" };
    /// Accounts that are not logged on.
    pub const IDLE: LogonTarget =
        LogonTarget { address: ATTACKER, ouch: ("ATT1", "secret"), fix: "ATTF" };
}

/// Certificates, passwords and limits, the same for every run; what a control takes away is public.
pub struct Terms {
    server: Pair,
    authority: String,
    /// TLS of the honest client, of an attacker with a certificate of his own, and of one whose
    /// certificate nobody trusts.
    pub honest: ClientTls,
    /// See `honest`.
    pub other: ClientTls,
    /// See `honest`.
    pub foreign: ClientTls,
    hash: String,
    /// Limits of connections that are not logged on.
    pub access: AccessConfig,
    /// TLS handshakes under way at a door.
    pub handshakes_max: usize,
    /// Bytes that a client may leave unread before its connection is cut.
    pub unread_max: usize,
    /// The sealed doors ask for a certificate.
    pub certificates_required: bool,
    /// HON1 and BOUND are bound to a certificate.
    pub bound: bool,
    /// Whom the second logon is of.
    pub second: LogonTarget,
    /// The CompIDs of the wrong-comp-id attack are nobody's.
    pub comp_ids_unknown: bool,
    /// The sequence attack sends what is in sequence.
    pub in_sequence: bool,
    /// Orders whose reports resend storms can ask for.
    pub history: u32,
    /// Bytes that the retransmission server answers for each byte of an address without a token; 0: as
    /// many as it likes.
    pub amplification: u64,
    /// The listener takes the feed from its receivers' address alone.
    pub sources_checked: bool,
}

impl Terms {
    /// Attempts to log on from one address.
    pub const STRICT_TRIES: Rate = Rate { burst: 32, per_s: 4 };
    /// Connections of a gateway that are not logged on.
    pub const STRANGERS_MAX: u64 = 128;

    /// Fresh ones, with all limits.
    ///
    /// # Errors
    /// Certificates can't be made.
    pub fn new() -> Result<Terms, Failure> {
        let (authority, stranger) = (Authority::new("trusted")?, Authority::new("unknown")?);
        let hosts = ["localhost".to_string()];
        let client = |pair: Pair| {
            let (chain, key) = (pair.certificate.as_bytes(), pair.key.as_bytes());
            let own = Some(Identity { chain, key });
            ClientTls::new(authority.pair.certificate.as_bytes(), "localhost", own)
                .map_err(|error| Failure::Run(error.to_string()))
        };
        Ok(Terms {
            server: authority.sign("fairbell", &hosts, End::Server)?,
            honest: client(authority.sign("hon1", &[], End::Client)?)?,
            other: client(authority.sign("attacker", &[], End::Client)?)?,
            foreign: client(stranger.sign("hon1", &[], End::Client)?)?,
            authority: authority.pair.certificate,
            hash: host::password::hash(b"victim")?,
            access: AccessConfig {
                strangers_max: Terms::STRANGERS_MAX as usize,
                strangers_per_source_max: 64,
                logon_wait_ns: 2 * Nanos::SECOND,
                tries_per_source: Terms::STRICT_TRIES,
                ..AccessConfig::default()
            },
            handshakes_max: 64,
            unread_max: LoopConfig::default().unread_max,
            certificates_required: true,
            bound: true,
            second: LogonTarget::BUSY,
            comp_ids_unknown: true,
            in_sequence: false,
            history: 200,
            amplification: 3,
            sources_checked: true,
        })
    }

    /// Takes all limits of connections and attempts away.
    pub fn without_limits(&mut self) {
        self.access = AccessConfig {
            strangers_max: usize::MAX,
            strangers_per_source_max: usize::MAX,
            logon_wait_ns: 3_600 * Nanos::SECOND,
            tries_per_source: Rate::UNLIMITED,
            guesses_free: u32::MAX,
            new_address_every_ns: 0,
            ..self.access
        };
        self.handshakes_max = 4_096;
    }

    /// The one instrument.
    pub fn symbol(&self) -> Symbol {
        Config::default().instruments().first().map_or(Symbol([b' '; 8]), |first| first.symbol)
    }

    /// Three honest accounts: one bound to its certificate, one to its address with a hashed
    /// password, one over FIX; two of attackers; one whose hashed password is being guessed; one
    /// bound to a certificate that nobody uses.
    fn accounts(&self) -> Vec<Account> {
        let account = |id: u16, name: &str, terms: LoginTerms, fix: bool| Account {
            id: AccountId(id),
            username: name.to_string(),
            password: "secret".to_string(),
            terms,
            cancel_on_disconnect: false,
            throttle: Throttle::default(),
            fix: fix.then(|| FixLogin::new(name, FixVersion::Fix44, FixRole::Orders)),
            firm: String::new(),
        };
        let bound = |certificate: &str, addresses: &str, hash: &str| {
            let entry = host::config::AccountEntry {
                certificate: certificate.to_string(),
                addresses: addresses.to_string(),
                password_hash: hash.to_string(),
                ..Config::default().accounts.0.remove(0)
            };
            entry.terms().unwrap_or_default()
        };
        let certificate = if self.bound { "name:hon1" } else { "" };
        vec![
            account(1, "HON1", bound(certificate, "", ""), false),
            account(2, "HON2", bound("", "127.0.0.1/32", &self.hash), false),
            account(3, "HON3", LoginTerms::default(), true),
            account(4, "ATT1", LoginTerms::default(), false),
            account(5, "ATTF", LoginTerms::default(), true),
            account(6, "VICTIM", bound("", "", &self.hash), false),
            account(7, "BOUND", bound(certificate, "", ""), false),
        ]
    }

    fn exchange(&self, clock: &Clock) -> ExchangeConfig {
        let mut config = Config::default();
        config.engine.log_capacity = 1_000_000;
        config.day.auctions = false;
        config.instruments.0.truncate(1);
        let mut exchange = host::deployment::exchange_config(&config, clock);
        (exchange.depth, exchange.fanout, exchange.receivers, exchange.hedge) = (1, 2, 2, 0);
        exchange.accounts = self.accounts();
        exchange.connections_max = 4_096;
        exchange.access = AccessConfig { key: exchange.access.key, ..self.access };
        exchange.timetable = exchange::Timetable::open_at_once();
        exchange.store.answers.amplification = self.amplification;
        exchange
    }
}

/// Addresses of the doors.
#[derive(Clone, Copy)]
pub struct Doors {
    /// OUCH, sealed and plain.
    pub ouch: [SocketAddr; 2],
    /// FIX, sealed and plain.
    pub fix: [SocketAddr; 2],
    /// The public retransmission server.
    pub retransmission: SocketAddr,
    /// Where the listener hears the feed.
    pub feed: SocketAddr,
    /// Of the feed.
    pub session: [u8; 10],
}

type Nodes = std::io::Result<Vec<(NodeId, Role)>>;

/// A running exchange.
pub struct Site {
    /// Where to connect.
    pub doors: Doors,
    /// Its clock.
    pub clock: Clock,
    exchange: ExchangeConfig,
    handle: LoopHandle<Role>,
    stop: Arc<AtomicBool>,
    strangers: Arc<AtomicUsize>,
    nodes: JoinHandle<Nodes>,
    worker: JoinHandle<()>,
}

/// What became of it.
pub struct Outcome {
    /// Digest of the engine's state after what honest participants asked for, at times of our own.
    pub digest: u64,
    /// Inputs of theirs.
    pub inputs: usize,
    /// Refusals of both gateways.
    pub refusals: Vec<(Refusal, u64)>,
    /// Of the sockets.
    pub counters: Counters,
    /// Most connections not logged on at a time, at the gateway that had more.
    pub strangers: usize,
    /// FIX sessions ended because they caused too many messages.
    pub floods: u64,
    /// Messages that the listener heard, and orders of forgers in its books.
    pub heard: u64,
    /// See `heard`.
    pub forged: u64,
    /// Packets that the listener refused for where they came from.
    pub foreign: u64,
}

impl Outcome {
    /// Refusals for one reason.
    pub fn refused(&self, why: Refusal) -> u64 {
        self.refusals.iter().find(|(of, _)| *of == why).map_or(0, |(_, count)| *count)
    }
}

impl Site {
    /// Starts one.
    pub fn start(terms: &Terms) -> Result<Site, Failure> {
        let clock = Clock::start(0);
        let exchange = terms.exchange(&clock);
        let bind = || UdpSocket::bind((HONEST, 0)).map_err(io);
        let address = |socket: &UdpSocket| socket.local_addr().map_err(io);
        // Receivers release from one socket, the listener hears at another.
        let (releases, ear, public) = (bind()?, bind()?, bind()?);
        let (feed, retransmission) = (address(&ear)?, address(&public)?);
        // One life for all that are compared, as their inputs name it; secrets of their own.
        let mut nodes = deploy(&exchange, Life::of(1), |_| peer_addr(feed))
            .map_err(|e| Failure::Run(e.to_string()))?;
        let mut settings = exchange::listener(&exchange, vec![peer_addr(retransmission)]);
        let receivers = terms.sources_checked.then(|| address(&releases)).transpose()?;
        settings.sources = receivers.map(|receivers| vec![peer_addr(receivers)]);
        nodes.push(Role::Listener(Box::new(exchange::subscriber(&exchange, &settings))));
        let (mut ear, mut public) = (Some(ear), Some(public));
        let mut sockets = Vec::new();
        let mut known = Vec::new();
        for index in 0..nodes.len() as u16 {
            let socket = UdpSocket::bind((HONEST, 0)).map_err(io)?;
            known.push((NodeId(index), socket.local_addr().map_err(io)?));
            sockets.push(socket);
        }
        let directory = Directory::new(&known).map_err(|e| Failure::Run(e.to_string()))?;
        let habits = LoopConfig {
            local_delivery: true,
            accepted_max: 4_096,
            handshakes_max: terms.handshakes_max,
            handshakes_per_source_max: terms.handshakes_max,
            handshake_ns: Nanos::SECOND,
            unread_max: terms.unread_max,
            ..LoopConfig::default()
        };
        let mut of = Loop::new(clock, Arc::new(directory), habits).map_err(io)?;
        let identity = Identity {
            chain: terms.server.certificate.as_bytes(),
            key: terms.server.key.as_bytes(),
        };
        let clients = match terms.certificates_required {
            true => Clients::Required(terms.authority.as_bytes()),
            false => Clients::Any,
        };
        let tls =
            ServerTls::new(identity, clients).map_err(|error| Failure::Run(error.to_string()))?;
        let listen = || TcpListener::bind((HONEST, 0)).map_err(io);
        let (mut ouch, mut fix) = (Vec::new(), Vec::new());
        for ((index, role), socket) in (0u16..).zip(nodes).zip(sockets) {
            let mut own = vec![(Channel::OVERLAY, socket)];
            let mut doors = Vec::new();
            let edge = role.as_edge().is_some();
            let at = match role.as_listener() {
                Some(_) => ear.take(),
                None if index == 0 => public.take(),
                None => None,
            };
            own.extend(at.map(|socket| (Channel::FEED, socket)));
            if edge {
                own.push((Channel::FEED, releases.try_clone().map_err(io)?));
                doors = vec![listen()?, listen()?];
                ouch.push(doors[0].local_addr().map_err(io)?);
                fix.push(doors[1].local_addr().map_err(io)?);
            }
            of.add_node(NodeId(index), role, own, doors).map_err(io)?;
            if edge && ouch.len() == 1 {
                of.secure_door(NodeId(index), OUCH_DOOR, tls.clone());
                of.secure_door(NodeId(index), FIX_DOOR, tls.clone());
            }
        }
        let (&[sealed, plain], &[fix_sealed, fix_plain]) = (&ouch[..], &fix[..]) else {
            return Err(Failure::Run("two gateways were asked for".to_string()));
        };
        let (ouch, fix, session) = ([sealed, plain], [fix_sealed, fix_plain], exchange.session);
        let doors = Doors { ouch, fix, retransmission, feed, session };
        Ok(Site::run(of, clock, exchange, doors))
    }

    fn run(mut of: Loop<Role>, clock: Clock, exchange: ExchangeConfig, doors: Doors) -> Site {
        let (jobs_out, jobs) = job_channel(16);
        of.set_worker(jobs_out);
        let handle = of.handle();
        let worker = thread::spawn({
            let handle = handle.clone();
            move || jobs.serve(&handle, host::password::work)
        });
        let (stop, strangers) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (flag, most) = (Arc::clone(&stop), Arc::clone(&strangers));
        let nodes = thread::spawn(move || {
            of.run(&flag, LOOK_EVERY, |of, _| {
                let edges = of.nodes().filter_map(|(_, role)| role.as_edge());
                let now = edges.map(|edge| edge.gateway().strangers()).max();
                most.fetch_max(now.unwrap_or(0), Ordering::Relaxed);
            })
        });
        Site { doors, clock, exchange, handle, stop, strangers, nodes, worker }
    }

    /// Ends it and sums up.
    pub fn end(self) -> Result<Outcome, Failure> {
        self.stop.store(true, Ordering::Relaxed);
        let counters = self.handle.counters();
        let panicked = |_| Failure::Run("the exchange's thread panicked".to_string());
        let nodes = self.nodes.join().map_err(panicked)?.map_err(io)?;
        self.worker.join().map_err(panicked)?;
        let root = nodes.iter().find_map(|(_, role)| role.as_root());
        let root = root.ok_or_else(|| Failure::Run("no root survived".to_string()))?;
        let inputs = honest(root.log().iter());
        let engine = engine::replay(self.exchange.engine(), &inputs, |_, _, _, _| {});
        let edges: Vec<_> = nodes.iter().filter_map(|(_, role)| role.as_edge()).collect();
        let listener = nodes.iter().find_map(|(_, role)| role.as_listener());
        let listener = listener.ok_or_else(|| Failure::Run("no listener survived".to_string()))?;
        let heard = listener.counters();
        let forged = self.exchange.instruments.iter().map(|instrument| {
            let image = listener.carrying(instrument.id, None).map(feed::Listener::image);
            let bids = image.into_iter().flat_map(|image| image.depth(instrument.id, Side::Buy));
            bids.filter(|level| level.price == FORGED_PRICE)
                .map(|level| u64::from(level.orders))
                .sum::<u64>()
        });
        let count = |why: &Refusal| {
            let of = edges.iter().map(|edge| edge.gateway().refusals().count(*why)).sum();
            (*why, of)
        };
        Ok(Outcome {
            digest: engine.state_digest(),
            inputs: inputs.len(),
            refusals: Refusal::ALL.iter().map(count).collect(),
            counters,
            strangers: self.strangers.load(Ordering::Relaxed),
            floods: edges.iter().map(|edge| edge.gateway().fix_counters().floods).sum(),
            heard: heard.messages,
            forged: forged.sum(),
            foreign: heard.foreign,
        })
    }
}

/// The inputs that are not of attackers, numbered and timed as if there had been no others: two
/// runs differ in their times by nature, and attackers may have a log of their own sessions.
fn honest<'a>(log: impl Iterator<Item = &'a Input>) -> Vec<Input> {
    let mut kept: Vec<Input> = Vec::new();
    let mut first = None;
    for input in log.filter(|input| !ATTACKERS.contains(&input.command.account)) {
        let first = *first.get_or_insert(Nanos(input.t_seq.0 / Nanos::SECOND * Nanos::SECOND));
        let mut input = *input;
        let number = kept.len() as u64 + 1;
        let same = |other: &&Input| {
            let (one, two) = (other.source, input.source);
            (one.gateway, one.incarnation, one.shard) == (two.gateway, two.incarnation, two.shard)
        };
        if input.source.seq > 0 {
            input.source.seq = kept.iter().filter(same).count() as u64 + 1;
        }
        input.seq = Seq(number);
        let at = Nanos(first.0 - first.0 % (86_400 * Nanos::SECOND)).after(number);
        (input.t_in, input.t_seq, input.flags) = (at, at, 0);
        kept.push(input);
    }
    kept
}
