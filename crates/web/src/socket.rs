//! WebSocket: public channels of symbols, private channels of a key's account, orders, heartbeats.
//!
//! A connection that subscribes to nothing and proves no key within 5 s is closed ([`close`] says how). Every 5 s comes a
//! heartbeat with a counter. A message of more than 64 KiB, or one that can't be written within 10 s, ends
//! it. Whoever is 4,096 updates behind is told `resync_required` and gets a snapshot of each subscription,
//! never a gap that it can't see. Requests to trade are begun in the order in which they come and answered
//! as the exchange answers; 256 may be under way, then nothing more is read. What is to be written goes to the
//! system when nothing else waits to be dealt with, so that whoever asks or hears much costs fewer calls.

mod close;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{
    Message, Utf8Bytes, WebSocket, WebSocketUpgrade, rejection::WebSocketUpgradeRejection,
};
use axum::extract::{ConnectInfo, Extension, State};
use axum::response::{IntoResponse, Response};
use futures_util::future::poll_fn;
use futures_util::{FutureExt, SinkExt};
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, Interval, Sleep, interval_at, sleep, timeout};
use types::Nanos;

use crate::account::{Ask, OwnEvent};
use crate::auth::{Admitted, Scope, Signed};
use crate::command::{SocketMessage, SocketOp, socket_message};
use crate::counters::{Counters, Way};
use crate::error::ApiError;
use crate::hub::{Came, Mailbox};
use crate::market::Topic;
use crate::node::WebNode;
use crate::request::BODY_MAX;
use crate::routes::{batched, place_of, refused_json, result_json};
use crate::server::{Door, Place, now, now_ms};
use close::{BUSY, Ended, GONE, IDLE, STOPPED, Went, unreadable};

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
/// Requests that are under way.
const UNDER_WAY: usize = 256;
/// Messages that are dealt with before what they wrote is flushed and others have their turn.
const TOGETHER: usize = 64;
/// Bytes that are read at a time: they are cleared for each reading, and kept for each connection.
const READ: usize = 4_096;
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
            .read_buffer_size(READ)
            .on_upgrade(move |socket| async move {
                Connection::new(socket, door, (from.ip(), place)).serve().await;
            }),
        Err(_) => {
            ApiError::new("bad_field", "this path takes WebSocket connections").into_response()
        }
    }
}

/// One WebSocket.
struct Connection {
    socket: WebSocket,
    door: Arc<Door>,
    from: IpAddr,
    /// Given back when it ends.
    place: Arc<Place>,
    topics: BTreeSet<(usize, Topic)>,
    /// Those that it has ever been told how they stand: asking again costs credits of its address.
    told: BTreeSet<(usize, Topic)>,
    /// Private channels, each with the `seq` of its snapshot, which has all up to there.
    private: BTreeMap<&'static str, u64>,
    account: Option<Admitted>,
    /// The account's orders go with it.
    cancels: bool,
    /// Public updates for it.
    mailbox: Arc<Mailbox>,
    /// The account's events, once it is subscribed to any.
    own: Option<Receiver<Arc<OwnEvent>>>,
    /// Requests under way, each with its answer.
    asks: JoinSet<String>,
    beat: Interval,
    beats: u64,
    /// Until it has to subscribe or prove a key; `None`: that is past.
    first: Option<Pin<Box<Sleep>>>,
    /// Something may wait to be flushed.
    unflushed: bool,
    /// The door is stopped when this changes.
    stopped: watch::Receiver<bool>,
}

/// What a connection deals with.
enum Next {
    Heard(Option<Result<Message, axum::Error>>),
    Public(Came),
    Own(Result<Arc<OwnEvent>, RecvError>),
    Answer(String),
    Beat,
    /// No subscription came in time.
    Late,
    Stopped,
}

async fn private_event(
    of: &mut Option<Receiver<Arc<OwnEvent>>>,
) -> Result<Arc<OwnEvent>, RecvError> {
    match of {
        Some(of) => of.recv().await,
        None => std::future::pending().await,
    }
}

async fn elapsed(of: &mut Option<Pin<Box<Sleep>>>) {
    match of {
        Some(of) => of.await,
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
            stopped: door.stopped(),
            door,
            from,
            place,
            topics: BTreeSet::new(),
            told: BTreeSet::new(),
            private: BTreeMap::new(),
            account: None,
            cancels: false,
            mailbox: Arc::default(),
            own: None,
            asks: JoinSet::new(),
            beat: interval_at(Instant::now() + HEARTBEAT, HEARTBEAT),
            beats: 0,
            first: Some(Box::pin(sleep(FIRST))),
            unflushed: false,
        }
    }

    fn counters(&self) -> &Counters {
        self.place.counters()
    }

    async fn next(&mut self) -> Next {
        let mailbox = &*self.mailbox;
        tokio::select! {
            message = self.socket.recv(), if self.asks.len() < UNDER_WAY => Next::Heard(message),
            came = poll_fn(|cx| mailbox.poll_next(cx)) => Next::Public(came),
            event = private_event(&mut self.own) => Next::Own(event),
            text = answered(&mut self.asks) => Next::Answer(text),
            _ = self.beat.tick() => Next::Beat,
            () = elapsed(&mut self.first) => Next::Late,
            _ = self.stopped.changed() => Next::Stopped,
        }
    }

    async fn serve(mut self) {
        self.counters().socket_begun();
        let mut together = 0;
        let Ended(why) = loop {
            let next = match self.next().now_or_never() {
                Some(next) if together < TOGETHER => next,
                at_once => {
                    // Whatever has been taken out is dealt with behind the flush.
                    if let Err(ended) = self.flush().await {
                        break ended;
                    }
                    if together == TOGETHER {
                        tokio::task::yield_now().await;
                    }
                    together = 0;
                    match at_once {
                        Some(next) => next,
                        None => self.next().await,
                    }
                }
            };
            together += 1;
            if let Err(ended) = self.deal_with(next).await {
                break ended;
            }
        };
        self.counters().socket_ended(self.topics.len() + self.private.len());
        for &(place, topic) in &self.topics {
            self.leave(place, topic);
        }
        if let Some(own) = self.account.as_ref().and_then(|of| self.door.own(of.account)) {
            own.leaves(&self.mailbox);
        }
        let account = self.account.as_ref().filter(|_| self.cancels).map(|of| of.account);
        let door = Arc::clone(&self.door);
        let cancel = async {
            if let Some(account) = account {
                let _ = door.ask(account, Ask::MassCancel(None)).await;
            }
        };
        let close = async {
            if let Some(why) = why {
                self.close(why).await;
            }
        };
        tokio::join!(cancel, close);
    }

    /// Does what is next; what it writes is flushed later.
    async fn deal_with(&mut self, next: Next) -> Went {
        match next {
            Next::Heard(Some(Ok(message))) => match message {
                Message::Text(text) => self.take(text.as_bytes()).await,
                Message::Binary(_) => {
                    let refused = ApiError::new("bad_json", "messages are texts");
                    self.counters().answered(Way::Socket, refused.status());
                    self.feed(error(&refused, None)).await
                }
                // A pong is written by itself, and goes with the next flush.
                Message::Ping(_) | Message::Pong(_) => {
                    self.unflushed = true;
                    Ok(())
                }
                Message::Close(_) => {
                    self.unflushed = true;
                    self.flush().await?;
                    Err(GONE)
                }
            },
            Next::Heard(Some(Err(error))) => Err(unreadable(&error)),
            Next::Heard(None) => Err(GONE),
            Next::Public(Came::Update(event)) => {
                if self.topics.contains(&(event.instrument, event.topic)) && !self.skips() {
                    self.feed(event.text()).await?;
                }
                Ok(())
            }
            Next::Public(Came::Behind) => self.resync().await,
            Next::Public(Came::Closed) => Err(GONE),
            Next::Own(Ok(event)) => {
                let has = |of: &u64| event.seq.is_some_and(|seq| seq <= *of);
                if self.private.get(event.channel).is_some_and(|of| !has(of)) {
                    self.feed(event.text.clone()).await?;
                }
                Ok(())
            }
            Next::Own(Err(RecvError::Lagged(_))) => {
                self.own = self.own.as_ref().map(Receiver::resubscribe);
                self.resync().await
            }
            Next::Own(Err(RecvError::Closed)) => Err(Ended(Some(BUSY))),
            Next::Stopped => Err(Ended(Some(STOPPED))),
            Next::Answer(text) => self.feed(text).await,
            Next::Beat => {
                self.beats += 1;
                let beat = json!({ "channel": "heartbeat", "counter": self.beats });
                self.feed(beat.to_string()).await
            }
            Next::Late => {
                self.first = None;
                if self.topics.is_empty() && self.private.is_empty() && self.account.is_none() {
                    let refused = ApiError::new("timeout", "no subscription within 5 s");
                    self.feed(error(&refused, None)).await?;
                    return Err(Ended(Some(IDLE)));
                }
                Ok(())
            }
        }
    }

    /// Is not subscribed any more.
    fn leave(&self, place: usize, topic: Topic) {
        self.door.market.hub().unsubscribe((place, topic), &self.mailbox);
        if topic == Topic::Queue {
            self.door.market.unwant(place);
        }
    }

    /// Writes a message, to be flushed later.
    async fn feed(&mut self, text: impl Into<Utf8Bytes>) -> Went {
        self.unflushed = true;
        let socket = &mut self.socket;
        let mut ready = poll_fn(|cx| socket.poll_ready_unpin(cx));
        // Hardly ever it has to wait, and needs a timer.
        let is = match (&mut ready).now_or_never() {
            Some(is) => Ok(is),
            None => timeout(WRITE_TIME, ready).await,
        };
        self.written(is)?;
        self.socket.start_send_unpin(Message::Text(text.into())).map_err(|_| GONE)
    }

    async fn flush(&mut self) -> Went {
        if !std::mem::take(&mut self.unflushed) {
            return Ok(());
        }
        let mut flushed = self.socket.flush();
        let is = match (&mut flushed).now_or_never() {
            Some(is) => Ok(is),
            None => timeout(WRITE_TIME, flushed).await,
        };
        self.written(is)
    }

    /// What became of a write.
    fn written(&self, outcome: Result<Result<(), axum::Error>, Elapsed>) -> Went {
        match outcome {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(GONE),
            Err(_) => {
                self.place.is_slow();
                Err(GONE)
            }
        }
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
        self.feed(told.to_string()).await?;
        for (place, topic) in self.topics.clone() {
            self.snapshot(place, topic, None).await?;
        }
        for name in self.private.clone().into_keys() {
            // Whoever's account does not tell how it stands would have a gap.
            self.private_snapshot(name).await?.map_err(|_| Ended(Some(BUSY)))?;
        }
        Ok(())
    }

    /// What came on a channel behind `since`, or how it stands now.
    async fn snapshot(&mut self, place: usize, topic: Topic, since: Option<u64>) -> Went {
        if topic == Topic::Queue {
            let looked = self.door.call(move |node: &mut WebNode| node.look(place)).await;
            looked.ok_or(Ended(Some(BUSY)))?;
        }
        let missed = since.and_then(|since| self.door.market.since(place, topic, since));
        if let Some(missed) = missed {
            for text in missed {
                self.feed(text).await?;
            }
            return Ok(());
        }
        match self.door.market.snapshot_text(place, topic) {
            Some(text) => self.feed(text).await,
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
        if let Some(has) = self.private.get_mut(name) {
            *has = seq.as_u64().unwrap_or(0);
        }
        self.feed(told.to_string()).await?;
        while !rest.is_empty() {
            let later = rest.split_off(rest.len().min(ORDERS));
            let more = json!({ "channel": name, "type": "more", "seq": seq, "orders": rest });
            self.feed(more.to_string()).await?;
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
        // Before the snapshots, so that nothing between is lost: public updates that a snapshot has already are
        // told again, with a seq that is not above its own; private ones are not.
        for (place, topic) in topics {
            if !self.told.insert((place, topic)) {
                if let Err(refused) = self.door.public.admit(now_ms(), self.from) {
                    return Ok(Err(refused));
                }
                let bytes = self.door.market.snapshot_text(place, topic).map_or(0, |of| of.len());
                self.door.public.charge(self.from, bytes as u64);
            }
            if self.topics.insert((place, topic)) {
                self.counters().subscribed();
                self.door.market.hub().subscribe((place, topic), &self.mailbox);
                if topic == Topic::Queue {
                    self.door.market.want(place);
                }
            }
            self.snapshot(place, topic, since).await?;
        }
        for name in private {
            self.hear_own();
            if !self.private.contains_key(name) {
                self.private.insert(name, 0);
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
                self.leave(topic.0, topic.1);
            }
        }
        for name in private {
            if self.private.remove(name).is_some() {
                self.counters().unsubscribed();
            }
        }
        if self.private.is_empty() {
            self.own = None;
        }
        Ok(())
    }

    fn proved(&mut self, admitted: Admitted) {
        let account = admitted.account;
        let before = self.account.replace(admitted);
        if before.as_ref().is_some_and(|of| of.account != account) {
            // What it has of the other account's stream says nothing of this one's.
            self.private.values_mut().for_each(|has| *has = 0);
        }
        if let Some(own) = before.and_then(|of| self.door.own(of.account)) {
            own.leaves(&self.mailbox);
        }
        if let Some(own) = self.account.as_ref().and_then(|of| self.door.own(of.account)) {
            own.joins(&self.mailbox);
        }
        if self.own.take().is_some() {
            self.hear_own();
        }
    }

    /// From now on it hears the events of its account.
    fn hear_own(&mut self) {
        let own = self.account.as_ref().and_then(|of| self.door.own(of.account));
        if self.own.is_none() {
            self.own = own.map(|own| Sender::subscribe(&own.events));
        }
    }

    /// The account of a connection that has proved one.
    fn admitted(&self) -> Result<&Admitted, ApiError> {
        let first = || ApiError::new("missing_header", "auth comes first");
        self.account.as_ref().ok_or_else(first)
    }

    /// Begins a request or a batch; its answer comes when the exchange has answered.
    fn begin(
        &mut self,
        came: Nanos,
        (id, op): (Option<&Value>, SocketOp),
    ) -> Result<Went, ApiError> {
        let admitted = self.admitted()?;
        let account = admitted.account;
        let (cost, scope, trades) = match &op {
            SocketOp::Batch(requests) => (requests.len(), Scope::Trade, true),
            SocketOp::Refused(scope, _) => (1, *scope, false),
            SocketOp::Ask(Ask::Order(..)) => (1, Scope::Read, false),
            SocketOp::Ask(ask) => (1, Scope::Trade, ask.trades()),
            _ => return Ok(Ok(())),
        };
        let cost = u32::try_from(cost).unwrap_or(u32::MAX);
        let left = self.door.charge((&admitted.key, self.from), (scope, cost))?.left;
        let (place, id) = (Arc::clone(&self.place), id.cloned());
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
                let reply = self.door.begin((account, came), [ask]).pop();
                self.asks.spawn(async move {
                    finish(result_json(match reply {
                        Some(reply) => Door::reply(reply).await,
                        None => None,
                    }))
                });
            }
            SocketOp::Batch(requests) => {
                let asks = requests.iter().filter_map(|ask| ask.as_ref().ok().cloned());
                let replies = self.door.begin((account, came), asks.collect::<Vec<_>>());
                self.asks.spawn(async move {
                    let told = batched(requests, replies).await;
                    finish(json!({ "status": 200, "result": told }))
                });
            }
            SocketOp::Refused(_, refused) => {
                self.asks.spawn(async move { finish(refused_json(&refused)) });
            }
            _ => {}
        }
        let dropped = trades && self.door.own(account).is_some_and(|own| own.drops_answer());
        Ok(if dropped { Err(GONE) } else { Ok(()) })
    }

    /// Does what a message asks for.
    async fn take(&mut self, message: &[u8]) -> Went {
        let came = now();
        let SocketMessage { id, op } = socket_message(message, self.door.market.instruments());
        let done = match op {
            Ok(SocketOp::Ping) => {
                let mut pong = json!({ "channel": "pong" });
                name(&mut pong, id.as_ref());
                self.counters().answered(Way::Socket, 200);
                return self.feed(pong.to_string()).await;
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
            Ok(op @ (SocketOp::Ask(_) | SocketOp::Batch(_) | SocketOp::Refused(..))) => {
                match self.begin(came, (id.as_ref(), op)) {
                    // A fault ends it before this answer, not before those that are written.
                    Ok(Err(ended)) => {
                        self.flush().await?;
                        return Err(ended);
                    }
                    Ok(Ok(())) => return Ok(()),
                    Err(refused) => {
                        self.counters().answered(Way::Socket, refused.status());
                        let mut told = refused_json(&refused);
                        told["channel"] = "answer".into();
                        if let Some(credits) = refused.credits {
                            told["credits_left"] = credits.left.into();
                        }
                        name(&mut told, id.as_ref());
                        return self.feed(told.to_string()).await;
                    }
                }
            }
            Err(refused) => Err(refused),
        };
        let status = done.as_ref().map_or_else(ApiError::status, |()| 200);
        self.counters().answered(Way::Socket, status);
        match done {
            Ok(()) => {
                let mut ok = json!({ "channel": "ok" });
                name(&mut ok, id.as_ref());
                self.feed(ok.to_string()).await
            }
            Err(refused) => self.feed(error(&refused, id.as_ref())).await,
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
                topics.push((place_of(&self.door.market, symbol)?, topic));
            }
        }
        Ok((topics, private))
    }
}

/// Public channels with the places of their instruments, and private ones.
type Wanted = (Vec<(usize, Topic)>, Vec<&'static str>);

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
