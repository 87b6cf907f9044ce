//! The web door of `fairbell up --web` or of an edge of a venue, its keys, and the thread that serves it.
//!
//! To the exchange it is a participant: it subscribes to the feed at an edge's door, and has an
//! ordinary OUCH session for each account with a key, opened when the key is first used.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use feed::{CatchUpConfig, ListenerConfig, Subscriber};
use host::admin::protocol::Request as AdminRequest;
use host::alarms::Alarms;
use host::config::Config;
use host::deployment::Addresses;
use host::failure::{Failure, on};
use host::fleet::credentials::Credentials;
use host::fleet::file::{ClusterFile, NodeEntry, NodeRole, Port};
use host::sockets::{io, listener, udp_anywhere};
use host::subscriber::Session;
use host::telemetry::{Telemetry, web_door};
use net::{ClientTls, Clock, Directory, Loop, LoopConfig, LoopHandle, WaitStrategy, peer_addr};
use serde::Deserialize;
use serde_json::{Value, json};
use types::{Channel, Nanos, Qty};
use web::account::{Account, Login};
use web::auth::{Key, Keys, Scope};
use web::counters::{Counters, Unproved};
use web::market::Market;
use web::request::Instruments;
use web::venue::Venue;
use web::{Door, Settings, WEB_NODE, WebNode};
use wire::moldudp;
use wire::subscription::{Subscribed, Way};

/// Between two attempts to subscribe, and after how many there is an alarm.
const RETRY: Duration = Duration::from_millis(500);
const RETRIES: u32 = 20;
/// The alarm of a door that is not served.
pub const ALARM: &str = "web-door";
/// Between two times that its counts are told, and how many of them pass between two that refused keys are.
const TELL_EVERY: Duration = Duration::from_millis(250);
const REFUSED_EVERY: u64 = 4;
/// Credits of a key that names none.
const CREDITS: u32 = 100;

/// The file of the door.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct File {
    /// Where the door listens, without TLS a loopback address; by default a free port of one, or of an edge
    /// its own.
    listen: Option<SocketAddr>,
    /// Keys of the scope `sandbox` may ask for faults.
    #[serde(default)]
    sandbox: bool,
    /// Sites, beside the door's own, whose pages may ask.
    #[serde(default)]
    origins: Vec<String>,
    /// Connections at a time.
    #[serde(default = "connections")]
    connections: usize,
    /// Of one address; by default half of `connections`.
    connections_per_address: Option<usize>,
    /// Credits of an address for requests without a key that come back in a second, 1 to 1000000.
    #[serde(default = "public_credits")]
    public_credits_per_s: u32,
    tls: Option<Tls>,
    #[serde(rename = "key", default)]
    keys: Vec<Entry>,
}

/// `[tls]`: files of the door's certificates and their key, PEM.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Tls {
    certificate: String,
    key: String,
}

/// `[[key]]`.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    secret: String,
    /// The account: its login at the exchange.
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
    #[serde(default = "all_scopes")]
    scopes: Vec<String>,
    #[serde(default)]
    addresses: Vec<IpAddr>,
    /// End of the key, as in `2027-01-01T00:00:00Z`.
    expires: Option<String>,
    #[serde(default = "credits")]
    credits_per_s: u32,
}

fn all_scopes() -> Vec<String> {
    vec!["read".to_string(), "trade".to_string()]
}

fn credits() -> u32 {
    CREDITS
}

fn public_credits() -> u32 {
    web::public::PUBLIC_CREDITS_PER_S
}

fn connections() -> usize {
    web::server::CONNECTIONS_MAX
}

impl File {
    fn read(path: &Path) -> Result<File, Failure> {
        let text = std::fs::read_to_string(path).map_err(|error| on(path, error))?;
        toml::from_str(&text).map_err(|error| on(path, error))
    }

    /// How the door is kept, with `usual` as its TLS where the file has none.
    fn settings(&self, usual: Option<web::server::Tls>) -> Result<Settings, String> {
        let (most, share) = (self.connections, self.connections_per_address);
        if !(1..=65_536).contains(&most) {
            return Err("connections: 1 to 65536".to_string());
        }
        let share = share.unwrap_or(most.div_ceil(2));
        if !(1..=most).contains(&share) {
            return Err(format!("connections_per_address: 1 to {most}, which is `connections`"));
        }
        let public_credits_per_s = self.public_credits_per_s;
        if !(1..=1_000_000).contains(&public_credits_per_s) {
            return Err("public_credits_per_s: 1 to 1000000".to_string());
        }
        for origin in &self.origins {
            let site = origin.split_once("://").map(|(_, site)| site);
            if site.is_none_or(|site| site.is_empty() || site.contains('/')) {
                return Err(format!("origins: {origin:?} is no site, as https://desk.example is"));
            }
        }
        let tls = match &self.tls {
            None => usual,
            Some(of) => {
                let read = |path: &str| host::tls::read(path).map_err(|why| why.to_string());
                let (chain, key) = (read(&of.certificate)?, read(&of.key)?);
                let made = web::server::Tls::new(&chain, &key);
                Some(made.map_err(|why| format!("tls: {why}"))?)
            }
        };
        Ok(Settings {
            connections_max: most,
            connections_per_address: share,
            public_credits_per_s,
            origins: self.origins.clone(),
            sandbox: self.sandbox,
            tls,
            venue: Arc::default(),
            counters: Arc::default(),
        })
    }
}

/// What a door stands before.
struct Behind {
    instruments: Instruments,
    /// Smallest quantities of orders, lots, in the order of the instruments.
    qty_min: Vec<Qty>,
    /// Where participants connect, and where they subscribe.
    gateways: Vec<SocketAddr>,
    subscriptions: Vec<SocketAddr>,
    /// How they speak with both; `None`: in clear.
    tls: Option<ClientTls>,
    /// What the venue tells of itself.
    venue: Venue,
    /// Where the door listens, and its TLS, unless its file says it.
    listen: SocketAddr,
    own_tls: Option<web::server::Tls>,
}

/// A door that is bound and not served yet.
pub struct Web {
    listener: TcpListener,
    behind: Behind,
    /// Logins, one for each account with a key, and the keys.
    logins: Vec<(String, String)>,
    keys: Vec<Key>,
    settings: Settings,
    greeting: String,
}

impl Web {
    /// Binds the door of `fairbell up`; with no file there is a key for the first account that nobody plays.
    ///
    /// # Errors
    /// A file that can't be read, names no key or a wrong value; the address is not to be had.
    pub fn of_run(
        file: Option<&Path>,
        config: &Config,
        addresses: &Addresses,
        operators: Option<PathBuf>,
    ) -> Result<Web, Failure> {
        let venue = operators.map_or_else(Venue::default, |socket| {
            Venue::with_operators(Box::new(move |who, action| operate(&socket, who, action)))
        });
        let behind = Behind {
            instruments: Instruments(config.instruments()),
            qty_min: config.rules().iter().map(|rules| rules.qty_min).collect(),
            gateways: addresses.gateways.clone(),
            subscriptions: addresses.subscriptions.clone(),
            tls: host::tls::doors(&config.doors)?.map(|(_, client)| client),
            venue,
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            own_tls: None,
        };
        let read = match file {
            Some(path) => File::read(path)?,
            None => sandbox(config)?,
        };
        Web::bind(behind, read, file)
    }

    /// Binds the door that an edge serves, if its entry in the cluster file names one. It trades at this edge,
    /// and at another one while this one is away.
    ///
    /// # Errors
    /// As [`Web::of_run`]; certificates of the cluster that are none.
    pub fn of_machine(
        file: &ClusterFile,
        entry: &NodeEntry,
        config: &Config,
        keys: &Path,
    ) -> Result<Option<Web>, Failure> {
        let Some(path) = &entry.web else { return Ok(None) };
        let path = file.path.with_file_name("").join(path);
        let credentials = Credentials::read(file, keys, &entry.name)?;
        let mut edges: Vec<_> = file.of(NodeRole::Edge).map(|(_, node)| node).collect();
        edges.sort_by_key(|node| node.name != entry.name);
        // One that has no address at present is left out.
        let all = |port| edges.iter().filter_map(|node| file.at(node, port).ok()).collect();
        let (chain, key) = credentials.own();
        let own_tls = web::server::Tls::new(chain.as_bytes(), key.as_bytes());
        let tls = match host::tls::doors(&config.doors)? {
            Some((_, client)) => client,
            None => credentials.participant(file)?,
        };
        let behind = Behind {
            instruments: Instruments(config.instruments()),
            qty_min: config.rules().iter().map(|rules| rules.qty_min).collect(),
            gateways: all(Port::Ouch),
            subscriptions: all(Port::Subscriptions),
            tls: Some(tls),
            venue: Venue::elsewhere(),
            listen: file.bound(entry, Port::Web),
            own_tls: Some(own_tls.map_err(|why| on(&path, format!("the node's own: {why}")))?),
        };
        Web::bind(behind, File::read(&path)?, Some(&path)).map(Some)
    }

    fn bind(mut behind: Behind, read: File, file: Option<&Path>) -> Result<Web, Failure> {
        let named = |why: String| match file {
            Some(path) => on(path, why),
            None => Failure::Usage(format!("--web: {why}")),
        };
        let listen = read.listen.unwrap_or(behind.listen);
        let mut settings = read.settings(behind.own_tls.take()).map_err(named)?;
        settings.venue = Arc::new(std::mem::take(&mut behind.venue));
        if settings.tls.is_none() && !listen.ip().is_loopback() {
            let why = "listen: without [tls] the door listens on a loopback address only: name a certificate, \
                       or put a proxy that has one before it";
            return Err(named(why.to_string()));
        }
        if read.keys.is_empty() {
            return Err(named("no [[key]]".to_string()));
        }
        let (mut logins, mut keys) = (Vec::new(), Vec::new());
        for entry in &read.keys {
            keys.push(
                key(entry, &mut logins)
                    .map_err(|why| named(format!("key {:?}: {why}", entry.name)))?,
            );
        }
        if logins.is_empty() {
            return Err(named("no key of an account: operators alone hear no market".to_string()));
        }
        let listener =
            listener(listen).map_err(|error| named(format!("listen {listen}: {error}")))?;
        let at = listener.local_addr().map_err(io)?;
        let shown = match (file, keys.first()) {
            (None, Some(key)) => format!(": key {} secret {}", key.name, key.secret),
            _ => format!(", {} keys", keys.len()),
        };
        let scheme = if settings.tls.is_some() { "https" } else { "http" };
        let greeting = format!("REST and WebSocket: {scheme}://{at}/v1{shown}");
        Ok(Web { listener, behind, logins, keys, settings, greeting })
    }

    /// Where it is told how the exchange is.
    pub fn venue(&self) -> Arc<Venue> {
        Arc::clone(&self.settings.venue)
    }

    /// What a user needs to connect.
    pub fn greeting(&self) -> &str {
        &self.greeting
    }

    /// Serves the door until `stop` is set, and tells what it counts and which keys it refuses.
    ///
    /// # Errors
    /// The system refuses.
    pub fn serve(
        self,
        stop: &AtomicBool,
        told: (&Alarms, Option<&Telemetry>),
    ) -> Result<(), Failure> {
        let (alarms, telemetry) = told;
        let socket = udp_anywhere().map_err(io)?;
        let port = socket.local_addr().map_err(io)?.port();
        let Some(first) = self.logins.first().cloned() else { return Ok(()) };
        let subscribe = || -> Result<(Session, Subscribed), Failure> {
            let mut last = Failure::Run("no edge to subscribe at".to_string());
            for at in &self.behind.subscriptions {
                let opened = Session::open(*at, (&first.0, &first.1), self.behind.tls.as_ref());
                let told = opened.and_then(|mut session| {
                    let to = SocketAddr::new(session.local(), port);
                    session.subscribe(Way::Unicast, to).map(|told| (session, told))
                });
                match told {
                    Ok(told) => return Ok(told),
                    Err(failure) => last = failure,
                }
            }
            Err(last)
        };
        let patiently = || {
            for attempt in 1u32.. {
                match subscribe() {
                    Ok(told) => {
                        alarms.clear(ALARM, "the feed is there");
                        return Some(told);
                    }
                    Err(_) if stop.load(Ordering::Relaxed) => return None,
                    Err(why) if attempt > RETRIES => {
                        alarms.raise(ALARM, format!("the door waits for the feed: {why}"));
                    }
                    Err(_) => {}
                }
                thread::sleep(RETRY);
            }
            None
        };
        let Some((mut session, told)) = patiently() else { return Ok(()) };
        let channels: Vec<_> =
            told.streams.iter().map(|(name, _)| (moldudp::Session(*name), Vec::new())).collect();
        let market = Arc::new(Market::new(self.behind.instruments.clone()));
        let gateways: Vec<_> = self.behind.gateways.iter().map(|at| peer_addr(*at)).collect();
        let account = |(username, password): &(String, String)| {
            let (username, password) = (username.clone(), password.clone());
            let login = Login { username, password, gateways: gateways.clone() };
            Account::new(login, self.behind.instruments.clone())
                .map_err(|error| Failure::Usage(format!("the web door: {error}")))
        };
        let accounts = self.logins.iter().map(account).collect::<Result<Vec<_>, _>>()?;
        let events = accounts.iter().map(Account::events).collect();
        let mut node = WebNode::new(
            Subscriber::new(&settings(&told), channels),
            Arc::clone(&market),
            accounts,
        );
        node.set_midnight(Nanos(told.midnight_ns));
        node.set_qty_min(&self.behind.qty_min);
        if let Some(mut records) = telemetry.and_then(Telemetry::web_requests) {
            node.tell_stamps(move |account, stamps| {
                records.push(web_door::record(account, &stamps).encode());
            });
        }
        let wait = WaitStrategy { spin_ns: 0, timer_spin_ns: 0 };
        let habits = LoopConfig { wait, ..LoopConfig::default() };
        let mut of =
            Loop::new(Clock::start(0), Arc::new(Directory::default()), habits).map_err(io)?;
        of.add_node(WEB_NODE, node, vec![(Channel::FEED, socket)], None).map_err(io)?;
        // Servers of snapshots speak none.
        if let Some(tls) = &self.behind.tls {
            of.secure_outgoing_to(WEB_NODE, ClientTls::clone(tls), gateways.clone());
        }
        let (handle, counters) = (of.handle(), Arc::clone(&self.settings.counters));
        let door = Door::new(market, Keys::new(self.keys), of.handle(), events, self.settings);
        thread::scope(|scope| {
            let heard =
                scope.spawn(|| of.run(stop, Duration::from_secs(3_600), |_, _| {}).map(drop));
            let listener = self.listener;
            let served = scope.spawn(move || web::serve(listener, Arc::new(door), stop));
            scope.spawn(move || tell((alarms, telemetry), &counters, stop));
            while !stop.load(Ordering::Relaxed) {
                if session.turn().is_err() {
                    // The edge is gone: the feed goes on from another one.
                    let Some((again, told)) = patiently() else { break };
                    session = again;
                    follow(&handle, &told);
                }
            }
            session.leave();
            let panicked = || Failure::Run("the web door panicked".to_string());
            heard.join().map_err(|_| panicked())?.map_err(io)?;
            served.join().map_err(|_| panicked())?.map_err(io)
        })
    }
}

/// Tells what the door counts and refuses until `stop`.
fn tell(
    (alarms, telemetry): (&Alarms, Option<&Telemetry>),
    counters: &Counters,
    stop: &AtomicBool,
) {
    for turn in 1u64.. {
        let over = stop.load(Ordering::Relaxed);
        if let Some(telemetry) = telemetry {
            telemetry.tell("web", |samples| web_door::counted(samples, &counters.figures()));
        }
        if over || turn.is_multiple_of(REFUSED_EVERY) {
            let Unproved { lines, more } = counters.take_unproved();
            let lines = lines.into_iter().map(|(line, times)| (format!("web door: {line}"), times));
            host::refused::note(lines.collect(), more, alarms);
        }
        if over {
            return;
        }
        thread::sleep(TELL_EVERY);
    }
}

/// Asks the exchange's operators' socket for an action, in somebody's name.
fn operate(socket: &Path, who: &str, action: &Value) -> Result<Value, String> {
    let action =
        serde_json::from_value(action.clone()).map_err(|error| format!("action: {error}"))?;
    let request = AdminRequest { operator: Some(who.to_string()), action };
    request.check()?;
    let reply = host::admin::ask(socket, &request).map_err(|failure| failure.to_string())?;
    if reply.ok { Ok(json!({ "text": reply.text, "data": reply.data })) } else { Err(reply.text) }
}

/// A key for whoever tries it out.
fn sandbox(config: &Config) -> Result<File, Failure> {
    let free = config.accounts.0.iter().skip(config.flow.participants as usize);
    let plain = |account: &&host::config::AccountEntry| {
        account.fix_comp_id.is_empty() && !account.password.is_empty()
    };
    let mut free = free.filter(plain);
    let account = free.next().ok_or_else(|| {
        let why = "no account with a password is free for a key: name a file with keys";
        Failure::Usage(format!("--web: {why}"))
    })?;
    let secret = exchange::Secret::random();
    let secret = secret.ok_or_else(|| Failure::Run("no randomness for a secret".to_string()))?;
    let entry = Entry {
        name: "sandbox".to_string(),
        secret: secret.0.iter().map(|byte| format!("{byte:02x}")).collect(),
        username: account.username.clone(),
        password: account.password.clone(),
        scopes: [all_scopes(), vec!["sandbox".to_string()]].concat(),
        addresses: Vec::new(),
        expires: None,
        credits_per_s: CREDITS,
    };
    Ok(File {
        listen: None,
        sandbox: true,
        origins: Vec::new(),
        connections: connections(),
        connections_per_address: None,
        public_credits_per_s: public_credits(),
        tls: None,
        keys: vec![entry],
    })
}

/// A key of the file; its login goes to `logins` unless it is there.
fn key(entry: &Entry, logins: &mut Vec<(String, String)>) -> Result<Key, String> {
    let login = (entry.username.clone(), entry.password.clone());
    let operator = entry.scopes == ["operate"];
    let account = match (operator, login.0.as_str()) {
        // It may ask for nothing of an account.
        (true, "") => usize::MAX,
        (_, "") => return Err("username: the account's login at the exchange".to_string()),
        _ => logins.iter().position(|known| known.0 == login.0).unwrap_or(logins.len()),
    };
    match logins.get(account) {
        Some(known) if *known != login => return Err("two passwords for one username".to_string()),
        Some(_) => {}
        None if account == usize::MAX => {}
        None => logins.push(login),
    }
    let scope = |name: &String| match name.as_str() {
        "read" => Ok(Scope::Read),
        "trade" => Ok(Scope::Trade),
        "sandbox" => Ok(Scope::Sandbox),
        "operate" => Ok(Scope::Operate),
        _ => Err(format!("scopes: no {name:?}; there are read, trade, sandbox and operate")),
    };
    let expires_ms = match &entry.expires {
        None => 0,
        Some(text) => {
            let at = crate::query::moment(text, 0).filter(|_| text.contains('-'));
            let at = at.ok_or("expires: write a time like 2027-01-01T00:00:00Z, UTC")?;
            (at / types::Nanos::MILLI).max(1)
        }
    };
    if entry.secret.len() < 16 {
        return Err("secret: 16 characters or more".to_string());
    }
    if entry.credits_per_s == 0 {
        return Err("credits_per_s: must be above 0".to_string());
    }
    Ok(Key {
        name: entry.name.clone(),
        secret: entry.secret.clone(),
        account,
        scopes: entry.scopes.iter().map(scope).collect::<Result<_, _>>()?,
        addresses: entry.addresses.clone(),
        expires_ms,
        credits_per_s: entry.credits_per_s,
    })
}

fn settings(told: &Subscribed) -> ListenerConfig {
    let servers = told.repair.iter().map(|at| peer_addr(*at)).collect();
    let mut settings = ListenerConfig::new(moldudp::Session([b' '; 10]), servers, Vec::new());
    settings.sources = Some(vec![peer_addr(told.from)]);
    settings.orders_max = 1 << 20;
    if let Some(first) = told.snapshots.first() {
        let mut catch_up = CatchUpConfig::new(peer_addr(*first));
        catch_up.servers = told.snapshots.iter().map(|at| peer_addr(*at)).collect();
        settings.catch_up = Some(catch_up);
    }
    settings
}

fn follow(handle: &LoopHandle<WebNode>, told: &Subscribed) {
    let sources = vec![peer_addr(told.from)];
    // The loop runs: it takes the call.
    let _ = handle.call(WEB_NODE, move |node: &mut WebNode, _, _| node.set_sources(sources));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<File, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn keys_are_read_and_mistakes_are_named() {
        let good = "[[key]]\nname = \"a\"\nsecret = \"0123456789abcdef\"\nusername = \"U\"\n\
                    password = \"p\"\n";
        let file = read(good).expect("keys");
        let mut logins = Vec::new();
        let made = key(&file.keys[0], &mut logins).expect("a key");
        assert_eq!((made.account, made.scopes.len(), made.credits_per_s), (0, 2, CREDITS));
        assert_eq!((logins.len(), file.listen), (1, None));
        for (more, why) in [
            ("scopes = [\"fly\"]", "fly"),
            ("expires = \"tomorrow\"", "expires"),
            ("credits_per_s = 0", "credits_per_s"),
        ] {
            let file = read(&format!("{good}{more}\n")).expect("a file");
            assert!(key(&file.keys[0], &mut logins).expect_err(why).contains(why));
        }
        let other = good.replace("\"p\"", "\"q\"");
        let file = read(&other).expect("a file");
        assert!(key(&file.keys[0], &mut logins).is_err(), "two passwords");
        for (more, why) in [
            ("connections = 0", "connections"),
            ("connections_per_address = 5000", "connections_per_address"),
            ("origins = [\"desk\"]", "origins"),
            ("origins = [\"https://desk.example/page\"]", "origins"),
            ("[tls]\ncertificate = \"none.pem\"\nkey = \"none.pem\"", "none.pem"),
        ] {
            let file = read(&format!("{more}\n{good}")).expect("a file");
            let refused = file.settings(None).map(|_| ()).expect_err(why);
            assert!(refused.contains(why), "{refused}");
        }
        assert!(read(&format!("{good}colour = \"red\"\n")).is_err());
    }
}
