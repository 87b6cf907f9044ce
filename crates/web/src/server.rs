//! Connections of the door: how many there may be, for how long, with TLS or without; and how requests of
//! accounts get to the node and back.
//!
//! Runs on one thread with a tokio runtime of its own. Bounds: [`Settings::connections_max`] connections,
//! of one address [`Settings::connections_per_address`]; a TLS handshake and a request's head within 10 s
//! each, which also ends connections that say nothing; a body of 64 KiB within 10 s; nothing is written to
//! a client that takes nothing for 10 s.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::response::Response;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use net::LoopHandle;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{broadcast, oneshot, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tower::ServiceExt;
use types::Nanos;

use crate::account::{Ask, OwnEvent, Reply, ReplyTo};
use crate::auth::{Admitted, Credits, Keys, Scope, Signed};
use crate::command::SandboxFault;
use crate::counters::{Counters, Way};
use crate::error::ApiError;
use crate::hub::Mailbox;
use crate::market::Market;
use crate::node::{Inbox, WEB_NODE, WebNode};
use crate::public::{PUBLIC_CREDITS_PER_S, PublicCredits};
use crate::routes;
use crate::stall::Impatient;
use crate::venue::Venue;

/// Connections at a time, unless the settings say otherwise.
pub const CONNECTIONS_MAX: usize = 4_096;
/// For a TLS handshake, for a request's head, and between two requests of a connection.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// For the other side to take something.
const WRITE_TIME: Duration = Duration::from_secs(10);
/// How long the exchange's answer is waited for; then the order is `pending`.
const ANSWER_TIME: Duration = Duration::from_secs(3);
/// For WebSockets to be closed at a stop.
const FAREWELL_TIME: Duration = Duration::from_millis(500);
/// How often a stop is looked for.
const STOP_EVERY: Duration = Duration::from_millis(50);

/// TLS 1.3 of the door, with rustls' choice of ciphers. Cheap to copy.
#[derive(Clone, Debug)]
pub struct Tls(Arc<ServerConfig>);

impl Tls {
    /// Shows this chain, PEM, the door's own certificate first, of this private key.
    ///
    /// # Errors
    /// What of them is wrong.
    pub fn new(chain: &[u8], key: &[u8]) -> Result<Tls, String> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
        let chain = chain.map_err(|error| format!("certificate: {error}"))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("key: {error}"))?;
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|config| config.with_no_client_auth().with_single_cert(chain, key));
        config.map(|config| Tls(Arc::new(config))).map_err(|error| error.to_string())
    }
}

/// How the door is kept.
#[derive(Clone)]
pub struct Settings {
    /// Connections at a time.
    pub connections_max: usize,
    /// Of one address.
    pub connections_per_address: usize,
    /// Credits of an address for requests without a key that come back in a second: see [`crate::public`].
    pub public_credits_per_s: u32,
    /// Sites, beside the door's own, whose pages may ask: `https://example.org`.
    pub origins: Vec<String>,
    /// Keys of the scope `sandbox` may ask for faults.
    pub sandbox: bool,
    /// TLS of the door; without it the door speaks none.
    pub tls: Option<Tls>,
    /// What the venue tells of its fairness and its tree, and the way of its operators in.
    pub venue: Arc<Venue>,
    /// What the door counts.
    pub counters: Arc<Counters>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            connections_max: CONNECTIONS_MAX,
            connections_per_address: CONNECTIONS_MAX / 2,
            public_credits_per_s: PUBLIC_CREDITS_PER_S,
            origins: Vec::new(),
            sandbox: false,
            tls: None,
            venue: Arc::default(),
            counters: Arc::default(),
        }
    }
}

/// What HTTP's thread knows of an account.
pub(crate) struct Own {
    /// Its events.
    pub events: broadcast::Sender<Arc<OwnEvent>>,
    /// Queues of its WebSockets.
    sockets: Mutex<Vec<Arc<Mailbox>>>,
    drop_answers: AtomicU32,
    skips: AtomicU32,
}

/// Takes one of a count, if there is one.
fn take_one(of: &AtomicU32) -> bool {
    let less = |count: u32| count.checked_sub(1);
    of.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
}

impl Own {
    fn sockets(&self) -> MutexGuard<'_, Vec<Arc<Mailbox>>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A WebSocket has proved the account.
    pub fn joins(&self, mailbox: &Arc<Mailbox>) {
        self.sockets().push(Arc::clone(mailbox));
    }

    /// It has ended, or proves another account.
    pub fn leaves(&self, mailbox: &Arc<Mailbox>) {
        self.sockets().retain(|one| !Arc::ptr_eq(one, mailbox));
    }

    /// Whether a fault ends the connection instead of an answer.
    pub fn drops_answer(&self) -> bool {
        take_one(&self.drop_answers)
    }

    /// Whether a fault swallows an update.
    pub fn skips_update(&self) -> bool {
        take_one(&self.skips)
    }
}

/// What requests are answered from.
pub struct Door {
    /// Public data.
    pub market: Arc<Market>,
    /// How it is kept.
    pub settings: Settings,
    pub(crate) public: PublicCredits,
    keys: Mutex<Keys>,
    node: LoopHandle<WebNode>,
    inbox: Arc<Inbox>,
    accounts: Vec<Own>,
    /// It is stopped.
    stopped: watch::Sender<bool>,
}

/// The time, ns since the epoch.
pub(crate) fn now() -> Nanos {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Nanos(since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)))
}

/// Milliseconds since the epoch.
pub(crate) fn now_ms() -> u64 {
    now().0 / Nanos::MILLI
}

impl Door {
    /// A door of a node with accounts, whose events these are, in their order.
    pub fn new(
        market: Arc<Market>,
        keys: Keys,
        node: LoopHandle<WebNode>,
        events: Vec<broadcast::Sender<Arc<OwnEvent>>>,
        settings: Settings,
    ) -> Door {
        let own = |events| Own {
            events,
            sockets: Mutex::default(),
            drop_answers: AtomicU32::new(0),
            skips: AtomicU32::new(0),
        };
        let accounts = events.into_iter().map(own).collect();
        let inbox = Arc::new(Inbox::default());
        let public = PublicCredits::new(settings.public_credits_per_s);
        let (keys, stopped) = (Mutex::new(keys), watch::Sender::new(false));
        Door { market, settings, public, keys, node, inbox, accounts, stopped }
    }

    /// Changes when the door is stopped, and at once if it is already.
    pub(crate) fn stopped(&self) -> watch::Receiver<bool> {
        let mut stopped = self.stopped.subscribe();
        if *stopped.borrow() {
            stopped.mark_changed();
        }
        stopped
    }

    /// Has all WebSockets end, and waits until they have, or a little.
    async fn stop(&self) {
        self.stopped.send_replace(true);
        let _ = tokio::time::timeout(FAREWELL_TIME, self.stopped.closed()).await;
    }

    fn keys(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn own(&self, account: usize) -> Option<&Own> {
        self.accounts.get(account)
    }

    /// Whether a request is of a key that may do this.
    ///
    /// # Errors
    /// The refusal.
    pub fn admit(
        &self,
        from: IpAddr,
        signed: &Signed<'_>,
        scope: Scope,
    ) -> Result<Admitted, ApiError> {
        let admitted = self.keys().check(now_ms(), from, signed, scope);
        self.noted((signed.key, from), admitted)
    }

    fn noted(
        &self,
        who: (&str, IpAddr),
        admitted: Result<Admitted, ApiError>,
    ) -> Result<Admitted, ApiError> {
        admitted.inspect_err(|why| self.settings.counters.unproved(who, why))
    }

    /// Takes credits of a key for requests that are not signed by themselves.
    pub(crate) fn charge(
        &self,
        (key, from): (&str, IpAddr),
        (scope, cost): (Scope, u32),
    ) -> Result<Credits, ApiError> {
        self.keys().charge(now_ms(), (key, from), (scope, cost))
    }

    pub(crate) fn token(&self, key: &str) -> Result<(String, u64), ApiError> {
        self.keys().token(now_ms(), key)
    }

    pub(crate) fn redeem(&self, from: IpAddr, token: &str) -> Result<Admitted, ApiError> {
        let admitted = self.keys().redeem(now_ms(), from, token);
        self.noted(("", from), admitted)
    }

    /// Asks an account for several things that came at this time, in this order; the replies come one by
    /// one.
    pub(crate) fn begin(
        &self,
        (account, came): (usize, Nanos),
        asks: impl IntoIterator<Item = Ask>,
    ) -> Vec<oneshot::Receiver<Reply>> {
        let mut replies = Vec::new();
        let asks = asks.into_iter().map(|ask| {
            let (to, from) = ReplyTo::new(came);
            replies.push(from);
            (ask, to)
        });
        if self.inbox.put(account, asks) {
            let inbox = Arc::clone(&self.inbox);
            let serve = move |node: &mut WebNode, now, out: &mut _| node.serve(now, &inbox, out);
            if self.node.call(WEB_NODE, serve).is_err() {
                for (_, _, reply) in self.inbox.take() {
                    let busy = ApiError::new("busy", "the door has too much to do: try again");
                    reply.send(Err(busy));
                }
            }
        }
        replies
    }

    /// What has been asked for; `None`: the exchange has not answered in time, and may still.
    pub(crate) async fn reply(from: oneshot::Receiver<Reply>) -> Option<Reply> {
        tokio::time::timeout(ANSWER_TIME, from).await.ok()?.ok()
    }

    /// Asks an account for one thing.
    pub(crate) async fn ask(&self, account: usize, ask: Ask) -> Option<Reply> {
        self.ask_at((account, now()), ask).await
    }

    /// Asks an account for one thing that came at this time.
    pub(crate) async fn ask_at(&self, of: (usize, Nanos), ask: Ask) -> Option<Reply> {
        Door::reply(self.begin(of, [ask]).pop()?).await
    }

    /// Has the node do something, and what it makes of it.
    pub(crate) async fn call<R: Send + 'static>(
        &self,
        call: impl FnOnce(&mut WebNode) -> R + Send + 'static,
    ) -> Option<R> {
        let (to, from) = oneshot::channel();
        let called = self.node.call(WEB_NODE, move |node: &mut WebNode, _, _| {
            let _ = to.send(call(node));
        });
        called.ok()?;
        tokio::time::timeout(ANSWER_TIME, from).await.ok()?.ok()
    }

    /// Sets a fault of a sandbox.
    pub(crate) async fn fault(&self, account: usize, fault: SandboxFault) -> Option<Reply> {
        let own = self.own(account)?;
        let set = || Some(Ok(serde_json::json!({ "state": "set" })));
        match fault {
            SandboxFault::Requests(fault) => self.ask(account, Ask::Fault(fault)).await,
            SandboxFault::Drop => {
                own.sockets().iter().for_each(|socket| socket.close());
                set()
            }
            SandboxFault::DropAnswers(count) => {
                own.drop_answers.store(count, Ordering::Relaxed);
                set()
            }
            SandboxFault::Skip(count) => {
                own.skips.store(count, Ordering::Relaxed);
                set()
            }
        }
    }
}

/// Connections now, all and by address.
#[derive(Default)]
struct Places {
    by: Mutex<HashMap<IpAddr, usize>>,
    counters: Arc<Counters>,
}

impl Places {
    /// A place for a connection, until it is dropped.
    fn take(self: &Arc<Self>, from: IpAddr, settings: &Settings) -> Option<Place> {
        let mut by = self.by.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = by.values().sum();
        let own = by.get(&from).copied().unwrap_or(0);
        if all >= settings.connections_max || own >= settings.connections_per_address {
            self.counters.refused();
            return None;
        }
        by.insert(from, own + 1);
        self.counters.begun();
        let (slow, leaves) = (AtomicBool::new(false), AtomicBool::new(false));
        Some(Place { of: Arc::clone(self), from, slow, leaves })
    }
}

/// A connection's place; its WebSocket keeps it on.
pub(crate) struct Place {
    of: Arc<Places>,
    from: IpAddr,
    slow: AtomicBool,
    leaves: AtomicBool,
}

impl Place {
    /// What the door counts.
    pub fn counters(&self) -> &Counters {
        &self.of.counters
    }

    /// The next flush is the last: behind it the connection is ended, and what comes is thrown away.
    pub fn leave(&self) {
        self.leaves.store(true, Ordering::Relaxed);
    }

    /// Whether that was said.
    pub fn leaves(&self) -> bool {
        self.leaves.load(Ordering::Relaxed)
    }

    /// Its connection is closed because the client takes nothing; counted once.
    pub fn is_slow(&self) {
        if !self.slow.swap(true, Ordering::Relaxed) {
            self.counters().slow();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.counters().ended();
        let mut by = self.of.by.lock().unwrap_or_else(PoisonError::into_inner);
        match by.get_mut(&self.from) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(by.remove(&self.from)),
        }
    }
}

/// When the head of a request had come.
#[derive(Clone, Copy)]
pub(crate) struct Came(pub Nanos);

/// An answer that a fault takes away: the connection ends instead.
#[derive(Clone, Copy)]
pub(crate) struct Dropped;

/// Serves one connection until it ends.
async fn attend<T>(stream: T, routes: Router, from: SocketAddr, place: Arc<Place>)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = TokioIo::new(Impatient::new(stream, WRITE_TIME, Arc::clone(&place)));
    let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let (routes, place) = (routes.clone(), Arc::clone(&place));
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(from));
        request.extensions_mut().insert(Came(now()));
        request.extensions_mut().insert(Arc::clone(&place));
        async move {
            let response: Response = match routes.oneshot(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            };
            place.counters().answered(Way::Rest, response.status().as_u16());
            // One answer of each connection in turn: who sends many requests at once delays the others by one of them.
            tokio::task::yield_now().await;
            match response.extensions().get::<Dropped>() {
                Some(Dropped) => Err(std::io::Error::from(std::io::ErrorKind::ConnectionAborted)),
                None => Ok(response),
            }
        }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(64 * 1_024);
    // Whatever ended it, the client knows.
    let _ = http.serve_connection(stream, service).with_upgrades().await;
}

/// Serves the door until `stop` is set.
///
/// # Errors
/// The runtime or the listener fails at the start.
pub fn serve(
    listener: std::net::TcpListener,
    door: Arc<Door>,
    stop: &AtomicBool,
) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    listener.set_nonblocking(true)?;
    let settings = door.settings.clone();
    let tls = settings.tls.as_ref().map(|tls| TlsAcceptor::from(Arc::clone(&tls.0)));
    let market = Arc::clone(&door.market);
    let routes = routes::router(Arc::clone(&door));
    runtime.block_on(async {
        tokio::spawn(async move { market.distribute().await });
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let counters = Arc::clone(&settings.counters);
        let places = Arc::new(Places { counters, ..Places::default() });
        while !stop.load(Ordering::Relaxed) {
            let Ok(accepted) = tokio::time::timeout(STOP_EVERY, listener.accept()).await else {
                continue;
            };
            let Ok((stream, from)) = accepted else {
                // No descriptor is free: soon again.
                tokio::time::sleep(STOP_EVERY).await;
                continue;
            };
            // One too many is closed at once.
            let Some(place) = places.take(from.ip().to_canonical(), &settings) else { continue };
            let _ = stream.set_nodelay(true);
            let (routes, tls, place) = (routes.clone(), tls.clone(), Arc::new(place));
            tokio::spawn(async move {
                match tls {
                    None => attend(stream, routes, from, place).await,
                    Some(tls) => {
                        let shaken = tokio::time::timeout(HEAD_TIME, tls.accept(stream)).await;
                        if let Ok(Ok(stream)) = shaken {
                            attend(stream, routes, from, place).await;
                        }
                    }
                }
            });
        }
        door.stop().await;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[test]
    fn a_client_that_takes_nothing_is_left_and_counted_once() {
        let places = Arc::new(Places::default());
        let from = IpAddr::from([127, 0, 0, 1]);
        let place = Arc::new(places.take(from, &Settings::default()).expect("free"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(async {
            let patience = Duration::from_millis(20);
            let (own, other) = tokio::io::duplex(8);
            let mut stream = Impatient::new(own, patience, Arc::clone(&place));
            let written = stream.write_all(&[0; 100]).await;
            assert_eq!(written.expect_err("nobody reads").kind(), std::io::ErrorKind::TimedOut);
            place.is_slow();
            let told = places.counters.figures();
            assert_eq!((told.slow, told.sent), (1, 8));
            // Control: one that reads is not.
            drop(other);
            let (own, mut other) = tokio::io::duplex(8);
            let mut stream = Impatient::new(own, patience, Arc::clone(&place));
            let reading = async {
                let mut all = [0; 100];
                tokio::io::AsyncReadExt::read_exact(&mut other, &mut all).await
            };
            let (written, read) = tokio::join!(stream.write_all(&[0; 100]), reading);
            assert!(written.is_ok() && read.is_ok());
        });
        assert_eq!(places.counters.figures().slow, 1);
    }

    #[test]
    fn who_sends_many_requests_at_once_leaves_others_their_turn() {
        const ASK: &str = "GET / HTTP/1.1\r\nhost: door\r\n\r\n";
        let places = Arc::new(Places::default());
        let from = SocketAddr::from(([127, 0, 0, 1], 1));
        let place = || Arc::new(places.take(from.ip(), &Settings::default()).expect("free"));
        let routes = Router::new().route("/", axum::routing::get(|| async { "here" }));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(async {
            let (mut many, own) = tokio::io::duplex(1 << 20);
            many.write_all(ASK.repeat(100).as_bytes()).await.expect("room");
            tokio::spawn(attend(own, routes.clone(), from, place()));
            let (mut one, own) = tokio::io::duplex(1 << 20);
            let last = ASK.replace("host", "connection: close\r\nhost");
            one.write_all(last.as_bytes()).await.expect("room");
            tokio::spawn(attend(own, routes, from, place()));
            let mut answer = String::new();
            tokio::io::AsyncReadExt::read_to_string(&mut one, &mut answer).await.expect("a text");
            assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("here"), "{answer}");
            let mut before = vec![0; 1 << 20];
            let read = tokio::io::AsyncReadExt::read(&mut many, &mut before).await;
            let before = String::from_utf8_lossy(&before[..read.expect("answers")]);
            let before = before.matches("HTTP/1.1 200").count();
            assert!((1..8).contains(&before), "{before} answers of another came before");
        });
    }

    #[test]
    fn places_are_bounded_and_given_back() {
        let settings =
            Settings { connections_max: 3, connections_per_address: 2, ..Settings::default() };
        let places = Arc::new(Places::default());
        let at = |last: u8| IpAddr::from([127, 0, 0, last]);
        let one = places.take(at(1), &settings).expect("free");
        let two = places.take(at(1), &settings).expect("free");
        assert!(places.take(at(1), &settings).is_none(), "its own share");
        let other = places.take(at(2), &settings).expect("others are let in");
        assert!(places.take(at(3), &settings).is_none(), "all are taken");
        drop(one);
        assert!(places.take(at(1), &settings).is_some());
        drop((two, other));
        assert!(places.by.lock().expect("not poisoned").is_empty());
        let counted = places.counters.figures();
        assert_eq!((counted.connections, counted.accepted, counted.refused), (0, 4, 2));
    }
}
