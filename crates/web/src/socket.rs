//! WebSocket: public channels of symbols, private channels of a key's account, orders, heartbeats.
//!
//! A connection that subscribes to nothing and proves no key within 5 s is closed. Every 5 s comes a
//! heartbeat with a counter. A message of more than 64 KiB, or one that can't be written within 10 s, ends
//! it. Whoever is 4,096 updates behind is told `resync_required` and gets a snapshot of each subscription,
//! never a gap that it can't see. Requests to trade are begun in the order in which they come and answered
//! as the exchange answers; 256 may be under way, then nothing more is read.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{
    Message, Utf8Bytes, WebSocket, WebSocketUpgrade, rejection::WebSocketUpgradeRejection,
};
use axum::extract::{ConnectInfo, Extension, State};
use axum::response::{IntoResponse, Response};
use futures_util::SinkExt;
use serde_json::{Value, json};
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::broadcast::{Receiver, Sender};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, interval_at, timeout};

use crate::account::{Ask, OwnEvent};
use crate::auth::{Admitted, Scope, Signed};
use crate::command::{SocketMessage, SocketOp, socket_message};
use crate::counters::{Counters, Way};
use crate::error::ApiError;
use crate::market::{Event, Topic};
use crate::node::WebNode;
use crate::request::BODY_MAX;
use crate::routes::{batched, place_of, placed, result_json};
use crate::server::{Door, Place};

/// For the first subscription.
const FIRST: Duration = Duration::from_secs(5);
/// Between two heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// For a message to be written.
const WRITE_TIME: Duration = Duration::from_secs(10);
/// Bytes that may wait to be written: an account's open orders are told in messages of [`ORDERS`].
const WRITE_MAX: usize = 8 * 1_024 * 1_024;
/// Open orders in a message, some 330 bytes each.
const ORDERS: usize = 20_000;
/// Levels, trades and candles of a snapshot.
const SNAPSHOT: usize = crate::market::DEPTH;
/// Orders a side in a snapshot of single orders.
const QUEUE: usize = 5_000;
/// Requests that are under way.
const UNDER_WAY: usize = 256;
/// Updates that are written before the connection is flushed.
const TOGETHER: usize = 256;
/// Private channels.
const PRIVATE: [&str; 3] = ["orders", "fills", "positions"];

/// Takes a connection up.
pub(crate) async fn upgrade(
    State(door): State<Arc<Door>>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    Extension(place): Extension<Arc<Place>>,
    asked: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    match asked {
        Ok(asked) => asked
            .max_message_size(BODY_MAX)
            .max_frame_size(BODY_MAX)
            .max_write_buffer_size(WRITE_MAX)
            .on_upgrade(move |socket| async move {
                Connection::new(socket, door, (from.ip(), place)).serve().await;
            }),
        Err(_) => {
            ApiError::new("bad_field", "this path takes WebSocket connections").into_response()
        }
    }
}

/// It is over.
struct Ended;

type Went = Result<(), Ended>;

/// One WebSocket.
struct Connection {
    socket: WebSocket,
    door: Arc<Door>,
    from: IpAddr,
    /// Given back when it ends.
    place: Arc<Place>,
    topics: BTreeSet<(usize, &'static str)>,
    private: BTreeSet<&'static str>,
    account: Option<Admitted>,
    /// The account's orders go with it.
    cancels: bool,
    own: Option<Receiver<Arc<OwnEvent>>>,
    /// Counts up when a fault closes it.
    drops: Option<watch::Receiver<u64>>,
    /// Requests under way, each with its answer.
    asks: JoinSet<String>,
}

async fn private_event(
    of: &mut Option<Receiver<Arc<OwnEvent>>>,
) -> Result<Arc<OwnEvent>, RecvError> {
    match of {
        Some(of) => of.recv().await,
        None => std::future::pending().await,
    }
}

async fn dropped(of: &mut Option<watch::Receiver<u64>>) {
    match of {
        Some(of) => drop(of.changed().await),
        None => std::future::pending().await,
    }
}

async fn answered(of: &mut JoinSet<String>) -> String {
    loop {
        match of.join_next().await {
            Some(Ok(text)) => return text,
            // One that panicked has no answer.
            Some(Err(_)) => {}
            None => return std::future::pending().await,
        }
    }
}

impl Connection {
    fn new(socket: WebSocket, door: Arc<Door>, (from, place): (IpAddr, Arc<Place>)) -> Connection {
        Connection {
            socket,
            door,
            from,
            place,
            topics: BTreeSet::new(),
            private: BTreeSet::new(),
            account: None,
            cancels: false,
            own: None,
            drops: None,
            asks: JoinSet::new(),
        }
    }

    fn counters(&self) -> &Counters {
        self.place.counters()
    }

    async fn serve(mut self) {
        self.counters().socket_begun();
        let mut events = self.door.market.events();
        let mut beat = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
        let (mut counter, born) = (0u64, Instant::now());
        let first = tokio::time::sleep(FIRST);
        tokio::pin!(first);
        loop {
            let quiet = self.topics.is_empty() && self.private.is_empty() && self.account.is_none();
            let went = tokio::select! {
                message = self.socket.recv(), if self.asks.len() < UNDER_WAY => match message {
                    Some(Ok(Message::Text(text))) => self.take(text.as_bytes()).await,
                    Some(Ok(Message::Binary(_))) => {
                        let refused = ApiError::new("bad_json", "messages are texts");
                        self.counters().answered(Way::Socket, refused.status());
                        self.send(error(&refused, None)).await
                    }
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(()),
                    Some(Ok(Message::Close(_)) | Err(_)) | None => Err(Ended),
                },
                event = events.recv() => match event {
                    Ok(event) => match self.pass(event, &mut events).await {
                        Ok(true) => Ok(()),
                        Ok(false) => {
                            events = self.door.market.events();
                            self.resync().await
                        }
                        Err(Ended) => Err(Ended),
                    },
                    Err(RecvError::Lagged(_)) => {
                        events = self.door.market.events();
                        self.resync().await
                    }
                    Err(RecvError::Closed) => Err(Ended),
                },
                event = private_event(&mut self.own) => match event {
                    Ok(event) if self.private.contains(event.channel) => {
                        self.send(event.text.clone()).await
                    }
                    Ok(_) => Ok(()),
                    Err(RecvError::Lagged(_)) => {
                        self.own = self.own.as_ref().map(Receiver::resubscribe);
                        self.resync().await
                    }
                    Err(RecvError::Closed) => Err(Ended),
                },
                text = answered(&mut self.asks) => self.send(text).await,
                () = dropped(&mut self.drops) => Err(Ended),
                _ = beat.tick() => {
                    counter += 1;
                    self.send(json!({ "channel": "heartbeat", "counter": counter }).to_string()).await
                }
                () = &mut first, if quiet && born.elapsed() < FIRST + Duration::from_secs(1) => {
                    let refused = ApiError::new("timeout", "no subscription within 5 s");
                    let _ = self.send(error(&refused, None)).await;
                    Err(Ended)
                }
            };
            if went.is_err() {
                break;
            }
        }
        self.counters().socket_ended(self.topics.len() + self.private.len());
        for (place, name) in &self.topics {
            if *name == Topic::Queue.name() {
                self.door.market.unwant(*place);
            }
        }
        if let (Some(admitted), true) = (&self.account, self.cancels) {
            let _ = self.door.ask(admitted.account, Ask::MassCancel(None)).await;
        }
    }

    /// Writes a message, to be flushed later.
    async fn feed(&mut self, text: impl Into<Utf8Bytes>) -> Went {
        let fed = timeout(WRITE_TIME, self.socket.feed(Message::Text(text.into()))).await;
        self.written(fed)
    }

    async fn flush(&mut self) -> Went {
        let flushed = timeout(WRITE_TIME, self.socket.flush()).await;
        self.written(flushed)
    }

    /// What became of a write.
    fn written(&self, outcome: Result<Result<(), axum::Error>, Elapsed>) -> Went {
        match outcome {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Ended),
            Err(_) => {
                self.place.is_slow();
                Err(Ended)
            }
        }
    }

    async fn send(&mut self, text: impl Into<Utf8Bytes>) -> Went {
        self.feed(text).await?;
        self.flush().await
    }

    /// Passes a public update on, and those behind it; false: some are lost.
    async fn pass(&mut self, event: Event, events: &mut Receiver<Event>) -> Result<bool, Ended> {
        let (mut next, mut whole) = (Some(event), true);
        for _ in 0..TOGETHER {
            let Some(event) = next else { break };
            if self.topics.contains(&(event.instrument, event.topic.name())) && !self.skips() {
                self.feed(event.text()).await?;
            }
            next = match events.try_recv() {
                Ok(event) => Some(event),
                Err(TryRecvError::Lagged(_)) => {
                    whole = false;
                    None
                }
                Err(TryRecvError::Empty | TryRecvError::Closed) => None,
            };
        }
        if let Some(event) = next
            && self.topics.contains(&(event.instrument, event.topic.name()))
        {
            self.feed(event.text()).await?;
        }
        self.flush().await?;
        Ok(whole)
    }

    /// Whether a fault of the sandbox swallows an update.
    fn skips(&self) -> bool {
        let own = self.account.as_ref().and_then(|of| self.door.own(of.account));
        own.is_some_and(crate::server::Own::skips_update)
    }

    /// Tells a connection that lost updates how things stand on all its channels, or ends it.
    async fn resync(&mut self) -> Went {
        self.counters().resynced();
        let told =
            json!({ "channel": "resync_required", "reason": "this connection was too slow" });
        self.send(told.to_string()).await?;
        for (place, name) in self.topics.clone() {
            self.snapshot(place, name, None).await?;
        }
        for name in self.private.clone() {
            // Whoever's account does not tell how it stands would have a gap.
            self.private_snapshot(name).await?.map_err(|_| Ended)?;
        }
        Ok(())
    }

    /// What came on a channel behind `since`, or how it stands now.
    async fn snapshot(&mut self, place: usize, name: &str, since: Option<u64>) -> Went {
        let topic = Topic::named(name).ok_or(Ended)?;
        if topic == Topic::Queue {
            self.door.call(move |node: &mut WebNode| node.look(place)).await.ok_or(Ended)?;
        }
        let missed = since.and_then(|since| self.door.market.since(place, topic, since));
        if let Some(missed) = missed {
            for text in missed {
                self.feed(text).await?;
            }
            return self.flush().await;
        }
        let most = if topic == Topic::Queue { QUEUE } else { SNAPSHOT };
        match self.door.market.snapshot(place, topic, most) {
            Some((_, value)) => self.send(value.to_string()).await,
            None => Ok(()),
        }
    }

    /// How things stand on a private channel; the account's refusal, of which nothing is told here.
    async fn private_snapshot(&mut self, name: &str) -> Result<Result<(), ApiError>, Ended> {
        let Some(account) = self.account.as_ref().map(|of| of.account) else { return Ok(Ok(())) };
        let ask = match name {
            "orders" => Ask::OpenOrders,
            "positions" => Ask::Positions,
            _ => Ask::Fills(100, 0),
        };
        let mut told = match self.door.ask(account, ask).await {
            Some(Ok(told)) => told,
            Some(Err(refused)) => return Ok(Err(refused)),
            None => {
                return Ok(Err(ApiError::new("session_down", "the session does not answer")));
            }
        };
        (told["channel"], told["type"]) = (name.into(), "snapshot".into());
        let mut rest = match told.get_mut("orders").and_then(Value::as_array_mut) {
            Some(orders) if orders.len() > ORDERS => orders.split_off(ORDERS),
            _ => Vec::new(),
        };
        let seq = told["seq"].clone();
        self.send(told.to_string()).await?;
        while !rest.is_empty() {
            let later = rest.split_off(rest.len().min(ORDERS));
            let more = json!({ "channel": name, "type": "more", "seq": seq, "orders": rest });
            self.send(more.to_string()).await?;
            rest = later;
        }
        Ok(Ok(()))
    }

    async fn subscribe(
        &mut self,
        channels: &[String],
        symbols: &[String],
        since: Option<u64>,
    ) -> Result<Result<(), ApiError>, Ended> {
        let (topics, private) = match self.wanted(channels, symbols) {
            Ok(wanted) => wanted,
            Err(refused) => return Ok(Err(refused)),
        };
        // Before the snapshots, so that nothing between is lost: updates that a snapshot has already are
        // told again, with a seq that is not above its own.
        for (place, name) in topics {
            if self.topics.insert((place, name)) {
                self.counters().subscribed();
                if name == Topic::Queue.name() {
                    self.door.market.want(place);
                }
            }
            self.snapshot(place, name, since).await?;
        }
        for name in private {
            if self.private.insert(name) {
                self.counters().subscribed();
            }
            let begun = self.private_snapshot(name).await?;
            if begun.is_err() {
                self.private.remove(name);
                self.counters().unsubscribed();
                return Ok(begun);
            }
        }
        Ok(Ok(()))
    }

    fn unsubscribe(&mut self, channels: &[String], symbols: &[String]) -> Result<(), ApiError> {
        let (topics, private) = self.wanted(channels, symbols)?;
        for topic in topics {
            if self.topics.remove(&topic) {
                self.counters().unsubscribed();
                if topic.1 == Topic::Queue.name() {
                    self.door.market.unwant(topic.0);
                }
            }
        }
        for name in private {
            if self.private.remove(name) {
                self.counters().unsubscribed();
            }
        }
        Ok(())
    }

    fn proved(&mut self, admitted: Admitted) {
        let own = self.door.own(admitted.account);
        self.own = own.map(|own| Sender::subscribe(&own.events));
        self.drops = own.map(|own| own.drops.subscribe());
        self.account = Some(admitted);
    }

    /// The account of a connection that has proved one.
    fn admitted(&self) -> Result<&Admitted, ApiError> {
        let first = || ApiError::new("missing_header", "auth comes first");
        self.account.as_ref().ok_or_else(first)
    }

    /// Begins a request or a batch; its answer comes when the exchange has answered.
    fn begin(&mut self, id: Option<&Value>, op: SocketOp) -> Result<Went, ApiError> {
        let admitted = self.admitted()?;
        let account = admitted.account;
        let (cost, scope, trades) = match &op {
            SocketOp::Batch(requests) => (requests.len(), Scope::Trade, true),
            SocketOp::Ask(Ask::Order(..)) => (1, Scope::Read, false),
            SocketOp::Ask(ask) => (1, Scope::Trade, ask.trades()),
            _ => return Ok(Ok(())),
        };
        let cost = u32::try_from(cost).unwrap_or(u32::MAX);
        let left = self.door.charge((&admitted.key, self.from), (scope, cost))?.left;
        let (door, id) = (Arc::clone(&self.door), id.cloned());
        let place = Arc::clone(&self.place);
        let finish = move |mut told: Value| {
            let status = told["status"].as_u64().and_then(|status| u16::try_from(status).ok());
            place.counters().answered(Way::Socket, status.unwrap_or(0));
            (told["channel"], told["id"]) = ("answer".into(), id.unwrap_or_default());
            told["credits_left"] = left.into();
            told.to_string()
        };
        match op {
            SocketOp::Ask(ask) => {
                // Begun here, so that requests reach the account in their order.
                let reply = door.begin(account, [ask.clone()]).pop();
                self.asks.spawn(async move {
                    let reply = match reply {
                        Some(reply) => Door::reply(reply).await,
                        None => None,
                    };
                    finish(result_json(match reply {
                        Some(reply) => Some(placed(&door, account, &ask, reply).await),
                        None => None,
                    }))
                });
            }
            SocketOp::Batch(requests) => {
                let asks = requests.iter().filter_map(|ask| ask.as_ref().ok().cloned());
                let replies = door.begin(account, asks.collect::<Vec<_>>());
                self.asks.spawn(async move {
                    let told = batched(&door, account, requests, replies).await;
                    finish(json!({ "status": 200, "result": told }))
                });
            }
            _ => {}
        }
        let dropped = trades && self.door.own(account).is_some_and(|own| own.drops_answer());
        Ok(if dropped { Err(Ended) } else { Ok(()) })
    }

    /// Does what a message asks for.
    async fn take(&mut self, message: &[u8]) -> Went {
        let SocketMessage { id, op } = socket_message(message, self.door.market.instruments());
        let done = match op {
            Ok(SocketOp::Ping) => {
                let mut pong = json!({ "channel": "pong" });
                name(&mut pong, id.as_ref());
                self.counters().answered(Way::Socket, 200);
                return self.send(pong.to_string()).await;
            }
            Ok(SocketOp::Subscribe { channels, symbols, since }) => {
                self.subscribe(&channels, &symbols, since).await?
            }
            Ok(SocketOp::Unsubscribe { channels, symbols }) => {
                self.unsubscribe(&channels, &symbols)
            }
            Ok(SocketOp::Auth { key, timestamp, nonce, signature }) => {
                let signed = Signed {
                    key: &key,
                    timestamp: &timestamp,
                    nonce: &nonce,
                    signature: &signature,
                    method: "GET",
                    path: "/v1/ws",
                    body: b"",
                };
                let admitted = self.door.admit(self.from, &signed, Scope::Read);
                admitted.map(|admitted| self.proved(admitted))
            }
            Ok(SocketOp::Token(token)) => {
                let admitted = self.door.redeem(self.from, &token);
                admitted.map(|admitted| self.proved(admitted))
            }
            Ok(SocketOp::CancelOnDisconnect(on)) => match self.admitted().map(|of| of.trades) {
                Ok(true) => {
                    self.cancels = on;
                    Ok(())
                }
                Ok(false) => Err(ApiError::new("wrong_scope", "the key lacks the scope trade")),
                Err(refused) => Err(refused),
            },
            Ok(op @ (SocketOp::Ask(_) | SocketOp::Batch(_))) => match self.begin(id.as_ref(), op) {
                Ok(went) => return went,
                Err(refused) => Err(refused),
            },
            Err(refused) => Err(refused),
        };
        let status = done.as_ref().map_or_else(ApiError::status, |()| 200);
        self.counters().answered(Way::Socket, status);
        match done {
            Ok(()) => {
                let mut ok = json!({ "channel": "ok" });
                name(&mut ok, id.as_ref());
                self.send(ok.to_string()).await
            }
            Err(refused) => self.send(error(&refused, id.as_ref())).await,
        }
    }

    fn wanted(&self, channels: &[String], symbols: &[String]) -> Result<Wanted, ApiError> {
        let (mut topics, mut private) = (Vec::new(), Vec::new());
        for channel in channels {
            if let Some(name) = PRIVATE.into_iter().find(|name| name == channel) {
                if self.account.is_none() {
                    let why = format!("{name}: auth comes first");
                    return Err(ApiError::new("missing_header", why));
                }
                private.push(name);
                continue;
            }
            let topic = Topic::named(channel).ok_or_else(|| {
                let all = Topic::ALL.map(Topic::name).join(", ");
                let private = PRIVATE.join(", ");
                let why = format!("channels: no {channel:?}; there are {all}, {private}");
                ApiError::new("bad_field", why)
            })?;
            if symbols.is_empty() {
                return Err(ApiError::new("missing_field", "symbols is missing"));
            }
            for symbol in symbols {
                topics.push((place_of(&self.door.market, symbol)?, topic.name()));
            }
        }
        Ok((topics, private))
    }
}

/// Public channels with the places of their instruments, and private ones.
type Wanted = (Vec<(usize, &'static str)>, Vec<&'static str>);

/// Repeats the client's name for its message.
fn name(told: &mut Value, id: Option<&Value>) {
    if let Some(id) = id {
        told["id"] = id.clone();
    }
}

fn error(refused: &ApiError, id: Option<&Value>) -> String {
    let mut body = refused.body();
    body["channel"] = "error".into();
    name(&mut body, id);
    body.to_string()
}
