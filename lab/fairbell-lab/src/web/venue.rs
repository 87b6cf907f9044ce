//! An exchange of our own in this process, with doors for OUCH and FIX and a web door before it.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use exchange::{
    Account, ExchangeConfig, FixLogin, FixRole, FixVersion, Life, LoginTerms, Role, Root, Throttle,
    deploy,
};
use host::config::Config;
use host::failure::Failure;
use host::sockets::io;
use net::{Clock, Directory, Loop, LoopConfig, job_channel, peer_addr};
use types::{AccountId, Channel, Input, Nanos, NodeId, Symbol};
use web::account::Login;
use web::auth::{Key, Keys, Scope};
use web::market::Market;
use web::request::Instruments;
use web::{Door, Settings, WEB_NODE, WebNode, serve};

const HOME: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// The secret of every key.
pub const SECRET: &str = "0123456789abcdef";
/// The password of every account.
pub const PASSWORD: &str = "secret";
/// Thread of the web door's connections, as the system knows it.
pub(super) const DOOR_THREAD: &str = "web-door";
/// Thread of the node behind the web door.
pub(super) const NODE_THREAD: &str = "web-node";
/// Thread of the exchange's nodes.
pub(super) const EXCHANGE_THREAD: &str = "exchange";
/// CompID of the drop-copy session, and the firm of all accounts.
pub const COPIES: &str = "COPY";
const FIRM: &str = "HOUSE";

/// What the exchange is like.
#[derive(Clone)]
pub struct Terms {
    /// Accounts; the name of number `n` from 1 is `A{n}`.
    pub accounts: u16,
    /// They log on over FIX, under this name as CompID, and not over OUCH.
    pub fix: bool,
    /// Their rate, and whether their orders go with their sessions.
    pub throttle: Throttle,
    /// See `throttle`.
    pub cancel_on_disconnect: bool,
    /// There is a drop-copy session of their firm.
    pub copies: bool,
    /// Accounts that the web door has a session for: all from this number on.
    pub web_from: u16,
    /// Keys of each of them: `K{n}` of the first, `K{n}.{key}` of the others, from 1.
    pub keys: u16,
    /// Credits of a key.
    pub credits_per_s: u32,
    /// Of the door.
    pub settings: Settings,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms {
            accounts: 4,
            fix: false,
            throttle: Throttle::default(),
            cancel_on_disconnect: false,
            copies: false,
            web_from: 1,
            keys: 1,
            credits_per_s: 100_000,
            settings: Settings { sandbox: true, ..Settings::default() },
        }
    }
}

impl Terms {
    fn exchange(&self, clock: &Clock) -> ExchangeConfig {
        let mut config = Config::default();
        config.engine.log_capacity = 4_000_000;
        config.day.auctions = false;
        config.instruments.0.truncate(1);
        let mut exchange = host::deployment::exchange_config(&config, clock);
        (exchange.depth, exchange.fanout, exchange.receivers, exchange.hedge) = (1, 2, 2, 0);
        exchange.accounts = (1..=self.accounts)
            .map(|id| Account {
                id: AccountId(id),
                username: format!("A{id}"),
                password: PASSWORD.to_string(),
                terms: LoginTerms::default(),
                cancel_on_disconnect: self.cancel_on_disconnect,
                throttle: self.throttle,
                fix: self
                    .fix
                    .then(|| FixLogin::new(&format!("A{id}"), FixVersion::Fix44, FixRole::Orders)),
                firm: FIRM.to_string(),
            })
            .collect();
        if self.copies {
            let login = FixLogin::new(COPIES, FixVersion::Fix44, FixRole::DropCopy);
            exchange.accounts.push(Account {
                id: AccountId(self.accounts + 1),
                username: COPIES.to_string(),
                password: PASSWORD.to_string(),
                terms: LoginTerms::default(),
                cancel_on_disconnect: false,
                throttle: Throttle::default(),
                fix: Some(login),
                firm: FIRM.to_string(),
            });
        }
        exchange.connections_max = 4_096;
        exchange.timetable = exchange::Timetable::open_at_once();
        exchange
    }
}

type Nodes = std::io::Result<Vec<(NodeId, Role)>>;

/// A running exchange.
pub struct Venue {
    /// Door for OUCH.
    pub ouch: SocketAddr,
    /// Door for FIX.
    pub fix: SocketAddr,
    /// The web door.
    pub web: SocketAddr,
    /// Its clock.
    pub clock: Clock,
    /// Its configuration.
    pub exchange: ExchangeConfig,
    /// Of the nodes.
    pub handle: net::LoopHandle<Role>,
    stop: Arc<AtomicBool>,
    nodes: JoinHandle<Nodes>,
    others: Vec<JoinHandle<()>>,
}

impl Venue {
    /// Starts one.
    ///
    /// # Errors
    /// The system refuses sockets or threads.
    pub fn start(terms: &Terms) -> Result<Venue, Failure> {
        let clock = Clock::start(0);
        let exchange = terms.exchange(&clock);
        let bind = || UdpSocket::bind((HOME, 0)).map_err(io);
        let address = |socket: &UdpSocket| socket.local_addr().map_err(io);
        let (releases, ear, mut public) = (bind()?, bind()?, Some(bind()?));
        let feed = address(&ear)?;
        let retransmission = public.as_ref().map(address).transpose()?;
        let nodes = deploy(&exchange, Life::of(1), |_| peer_addr(feed))
            .map_err(|error| Failure::Run(error.to_string()))?;
        let (mut sockets, mut known) = (Vec::new(), Vec::new());
        for index in 0..nodes.len() as u16 {
            let socket = bind()?;
            known.push((NodeId(index), address(&socket)?));
            sockets.push(socket);
        }
        let directory = Directory::new(&known).map_err(|error| Failure::Run(error.to_string()))?;
        let habits =
            LoopConfig { local_delivery: true, accepted_max: 4_096, ..LoopConfig::default() };
        let mut of = Loop::new(clock, Arc::new(directory), habits).map_err(io)?;
        let listen = || TcpListener::bind((HOME, 0)).map_err(io);
        let mut doors = Vec::new();
        for ((index, role), socket) in (0u16..).zip(nodes).zip(sockets) {
            let mut own = vec![(Channel::OVERLAY, socket)];
            let mut listeners = Vec::new();
            if index == 0 {
                own.extend(public.take().map(|socket| (Channel::FEED, socket)));
            }
            if role.as_edge().is_some() {
                own.push((Channel::FEED, releases.try_clone().map_err(io)?));
                listeners = vec![listen()?, listen()?];
                for door in &listeners {
                    doors.push(door.local_addr().map_err(io)?);
                }
            }
            of.add_node(NodeId(index), role, own, listeners).map_err(io)?;
        }
        let &[ouch, fix, ..] = &doors[..] else {
            return Err(Failure::Run("a gateway was asked for".to_string()));
        };
        let mut settings =
            exchange::listener(&exchange, retransmission.map(peer_addr).into_iter().collect());
        settings.sources = Some(vec![peer_addr(address(&releases)?)]);
        let subscriber = exchange::subscriber(&exchange, &settings);
        let stop = Arc::new(AtomicBool::new(false));
        let (web, mut others) = door(terms, &exchange, (subscriber, ear), ouch, &stop)?;
        let (jobs_out, jobs) = job_channel(16);
        of.set_worker(jobs_out);
        let handle = of.handle();
        others.push(thread::spawn({
            let handle = handle.clone();
            move || jobs.serve(&handle, host::password::work)
        }));
        let flag = Arc::clone(&stop);
        let run = move || of.run(&flag, Duration::from_millis(100), |_, _| {});
        let nodes = named(EXCHANGE_THREAD, run)?;
        Ok(Venue { ouch, fix, web, clock, exchange, handle, stop, nodes, others })
    }

    /// Its one instrument.
    pub fn symbol(&self) -> Symbol {
        self.exchange.instruments.first().map_or(Symbol([b' '; 8]), |first| first.symbol)
    }

    /// Ends it; its log.
    ///
    /// # Errors
    /// A thread failed.
    pub fn end(self) -> Result<Vec<Input>, Failure> {
        self.stop.store(true, Ordering::Relaxed);
        let panicked = |_| Failure::Run("a thread of the exchange panicked".to_string());
        let nodes = self.nodes.join().map_err(panicked)?.map_err(io)?;
        for other in self.others {
            other.join().map_err(panicked)?;
        }
        let root = nodes.iter().find_map(|(_, role)| role.as_root());
        let root = root.ok_or_else(|| Failure::Run("no root survived".to_string()))?;
        Ok(root.log().iter().copied().collect())
    }
}

/// Gives the exchange a command of its operator.
///
/// # Errors
/// It does not take it.
pub fn operate(venue: &Venue, command: types::Command) -> Result<(), Failure> {
    let (to, from) = std::sync::mpsc::sync_channel(1);
    let call = move |role: &mut Role, now, out: &mut types::Outbox| {
        let done = role.with_root(out, |root, out| root.operator(now, command, out));
        let _ = to.send(done.flatten().is_some());
    };
    let called = venue.handle.call(ExchangeConfig::ROOT, call);
    let done = called.is_ok() && from.recv_timeout(Duration::from_secs(5)) == Ok(true);
    if done { Ok(()) } else { Err(Failure::Run("the root takes no command".to_string())) }
}

/// What is seen of the exchange's centre.
///
/// # Errors
/// It does not answer.
pub fn look<T: Send + 'static>(
    venue: &Venue,
    look: impl FnOnce(&Root) -> T + Send + 'static,
) -> Result<T, Failure> {
    let (to, from) = std::sync::mpsc::sync_channel(1);
    let call = move |role: &mut Role, _, _: &mut types::Outbox| {
        if let Some(seen) = role.as_root().map(look) {
            let _ = to.send(seen);
        }
    };
    let called = venue.handle.call(ExchangeConfig::ROOT, call).ok();
    let seen = called.and_then(|()| from.recv_timeout(Duration::from_secs(30)).ok());
    seen.ok_or_else(|| Failure::Run("the root does not answer".to_string()))
}

/// Waits until something is so at the exchange's centre; false where it was not in time.
///
/// # Errors
/// It does not answer.
pub fn wait_for(
    venue: &Venue,
    patience: Duration,
    is: impl Fn(&Root) -> bool + Copy + Send + 'static,
) -> Result<bool, Failure> {
    let until = Instant::now() + patience;
    while !look(venue, is)? {
        if Instant::now() > until {
            return Ok(false);
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(true)
}

/// The web door: its address and its threads.
fn door(
    terms: &Terms,
    exchange: &ExchangeConfig,
    (subscriber, ear): (feed::Subscriber, UdpSocket),
    gateway: SocketAddr,
    stop: &Arc<AtomicBool>,
) -> Result<(SocketAddr, Vec<JoinHandle<()>>), Failure> {
    let instruments = Instruments(exchange.instruments.clone());
    let (mut accounts, mut keys) = (Vec::new(), Vec::new());
    for id in terms.web_from..=terms.accounts {
        let login = Login {
            username: format!("A{id}"),
            password: PASSWORD.to_string(),
            gateways: vec![peer_addr(gateway)],
        };
        for key in 1..=terms.keys {
            keys.push(Key {
                name: if key == 1 { format!("K{id}") } else { format!("K{id}.{key}") },
                secret: SECRET.to_string(),
                account: accounts.len(),
                scopes: vec![Scope::Read, Scope::Trade, Scope::Sandbox],
                addresses: Vec::new(),
                expires_ms: 0,
                credits_per_s: terms.credits_per_s,
            });
        }
        let account = web::account::Account::new(login, instruments.clone());
        accounts.push(account.map_err(|error| Failure::Usage(error.to_string()))?);
    }
    let events = accounts.iter().map(web::account::Account::events).collect();
    let market = Arc::new(Market::new(instruments));
    let mut node = WebNode::new(subscriber, Arc::clone(&market), accounts);
    node.set_midnight(Nanos(exchange.midnight.0));
    let mut of = Loop::new(Clock::start(0), Arc::new(Directory::default()), LoopConfig::default())
        .map_err(io)?;
    of.add_node(WEB_NODE, node, vec![(Channel::FEED, ear)], Vec::new()).map_err(io)?;
    let door = Door::new(market, Keys::new(keys), of.handle(), events, terms.settings.clone());
    let listener = TcpListener::bind((HOME, 0)).map_err(io)?;
    let at = listener.local_addr().map_err(io)?;
    let (heard, served) = (Arc::clone(stop), Arc::clone(stop));
    let heard = named(NODE_THREAD, move || {
        let _ = of.run(&heard, Duration::from_secs(3_600), |_, _| {});
    })?;
    let served = named(DOOR_THREAD, move || {
        let _ = serve(listener, Arc::new(door), &served);
    })?;
    Ok((at, vec![heard, served]))
}

/// A thread whose processor time can be asked for by its name.
pub(super) fn named<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, Failure> {
    thread::Builder::new().name(name.to_string()).spawn(run).map_err(io)
}
