//! WebSocket: public channels of symbols, private channels of a key's account, heartbeats.
//!
//! A connection that subscribes to nothing within 5 s is closed. Every 5 s comes a heartbeat with a
//! counter. A message of more than 64 KiB, or one that can't be written within 10 s, ends it. Whoever is
//! 4,096 updates behind is told `resync_required` and gets a snapshot of each subscription, never a gap
//! that it can't see.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{
    Message, WebSocket, WebSocketUpgrade, rejection::WebSocketUpgradeRejection,
};
use axum::extract::{ConnectInfo, State};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender};
use tokio::time::{Instant, interval_at, timeout};

use crate::account::{Ask, OwnEvent};
use crate::auth::{Admitted, Scope, Signed};
use crate::error::ApiError;
use crate::market::{Event, Topic};
use crate::request::{self, BODY_MAX, SocketOp};
use crate::server::{Door, place_of};

/// For the first subscription.
const FIRST: Duration = Duration::from_secs(5);
/// Between two heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// For a message to be written.
const WRITE_TIME: Duration = Duration::from_secs(10);
/// Bytes that may wait to be written: all of an account's open orders are one message, some 330 bytes each.
const WRITE_MAX: usize = 8 * 1_024 * 1_024;
/// Levels and trades of a snapshot.
const SNAPSHOT: usize = crate::market::DEPTH;
/// Private channels.
const PRIVATE: [&str; 2] = ["orders", "fills"];

/// Takes a connection up.
pub(crate) async fn upgrade(
    State(door): State<Arc<Door>>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    asked: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    match asked {
        Ok(asked) => asked
            .max_message_size(BODY_MAX)
            .max_frame_size(BODY_MAX)
            .max_write_buffer_size(WRITE_MAX)
            .on_upgrade(move |socket| serve(socket, door, from.ip())),
        Err(_) => {
            ApiError::new("bad_field", "this path takes WebSocket connections").into_response()
        }
    }
}

/// What a connection hears.
struct Subscriptions {
    topics: BTreeSet<(usize, &'static str)>,
    private: BTreeSet<&'static str>,
    account: Option<Admitted>,
    cancels: bool,
}

async fn send(socket: &mut WebSocket, text: &str) -> Result<(), ()> {
    let sent = timeout(WRITE_TIME, socket.send(Message::text(text.to_string()))).await;
    if matches!(sent, Ok(Ok(()))) { Ok(()) } else { Err(()) }
}

async fn private_event(
    of: &mut Option<Receiver<Arc<OwnEvent>>>,
) -> Result<Arc<OwnEvent>, RecvError> {
    match of {
        Some(of) => of.recv().await,
        None => std::future::pending().await,
    }
}

async fn serve(mut socket: WebSocket, door: Arc<Door>, from: IpAddr) {
    let mut of = Subscriptions {
        topics: BTreeSet::new(),
        private: BTreeSet::new(),
        account: None,
        cancels: false,
    };
    let mut events = door.market.events();
    let mut own: Option<Receiver<Arc<OwnEvent>>> = None;
    let mut beat = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
    let (mut counter, born) = (0u64, Instant::now());
    let first = tokio::time::sleep(FIRST);
    tokio::pin!(first);
    loop {
        let quiet = of.topics.is_empty() && of.private.is_empty();
        let went = tokio::select! {
            message = socket.recv() => match message {
                Some(Ok(Message::Text(text))) => {
                    take(&mut socket, &door, from, &mut of, &mut own, text.as_bytes()).await
                }
                Some(Ok(Message::Binary(_))) => {
                    let refused = ApiError::new("bad_json", "messages are texts");
                    send(&mut socket, &error(&refused)).await
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(()),
                Some(Ok(Message::Close(_)) | Err(_)) | None => Err(()),
            },
            event = events.recv() => match event {
                Ok(event) => pass(&mut socket, &of, &event).await,
                Err(RecvError::Lagged(_)) => {
                    events = door.market.events();
                    resync(&mut socket, &door, &of).await
                }
                Err(RecvError::Closed) => Err(()),
            },
            event = private_event(&mut own) => match event {
                Ok(event) => pass_private(&mut socket, &of, &event).await,
                Err(RecvError::Lagged(_)) => {
                    own = own.as_ref().map(Receiver::resubscribe);
                    resync(&mut socket, &door, &of).await
                }
                Err(RecvError::Closed) => Err(()),
            },
            _ = beat.tick() => {
                counter += 1;
                send(&mut socket, &json!({ "channel": "heartbeat", "counter": counter }).to_string()).await
            }
            () = &mut first, if quiet && born.elapsed() < FIRST + Duration::from_secs(1) => {
                let refused = ApiError::new("timeout", "no subscription within 5 s");
                let _ = send(&mut socket, &error(&refused)).await;
                Err(())
            }
        };
        if went.is_err() {
            break;
        }
    }
    if let (Some(admitted), true) = (of.account, of.cancels) {
        let _ = door.ask(admitted.account, Ask::MassCancel(None)).await;
    }
}

fn error(refused: &ApiError) -> String {
    let mut body = refused.body();
    body["channel"] = "error".into();
    body.to_string()
}

async fn pass_private(
    socket: &mut WebSocket,
    of: &Subscriptions,
    event: &OwnEvent,
) -> Result<(), ()> {
    if of.private.contains(event.channel) { send(socket, &event.text).await } else { Ok(()) }
}

async fn pass(socket: &mut WebSocket, of: &Subscriptions, event: &Event) -> Result<(), ()> {
    let wanted = of.topics.contains(&(event.instrument, event.topic.name()));
    if wanted { send(socket, &event.text).await } else { Ok(()) }
}

/// Tells a connection that lost updates how things stand on all its channels, or ends it.
async fn resync(socket: &mut WebSocket, door: &Door, of: &Subscriptions) -> Result<(), ()> {
    let told = json!({ "channel": "resync_required", "reason": "this connection was too slow" });
    send(socket, &told.to_string()).await?;
    for (place, name) in of.topics.clone() {
        snapshot(socket, door, place, name).await?;
    }
    for name in of.private.clone() {
        let account = of.account.map(|admitted| admitted.account).ok_or(())?;
        private_snapshot(socket, door, account, name).await?.map_err(drop)?;
    }
    Ok(())
}

async fn snapshot(socket: &mut WebSocket, door: &Door, place: usize, name: &str) -> Result<(), ()> {
    let topic = Topic::named(name).ok_or(())?;
    match door.market.snapshot(place, topic, SNAPSHOT) {
        Some((_, value)) => send(socket, &value.to_string()).await,
        None => Ok(()),
    }
}

/// How things stand on a private channel; the account's refusal, of which nothing is told here.
async fn private_snapshot(
    socket: &mut WebSocket,
    door: &Door,
    account: usize,
    name: &str,
) -> Result<Result<(), ApiError>, ()> {
    let ask = if name == "orders" { Ask::OpenOrders } else { Ask::Fills(100) };
    match door.ask(account, ask).await {
        Some(Ok(mut told)) => {
            told["channel"] = name.into();
            told["type"] = "snapshot".into();
            send(socket, &told.to_string()).await.map(Ok)
        }
        Some(Err(refused)) => Ok(Err(refused)),
        None => Ok(Err(ApiError::new("session_down", "the session does not answer"))),
    }
}

/// Begins private channels, up to the first whose account refuses.
async fn begin_private(
    socket: &mut WebSocket,
    door: &Door,
    of: &mut Subscriptions,
    names: Vec<&'static str>,
) -> Result<Result<(), ApiError>, ()> {
    for name in names {
        let Some(admitted) = of.account else { continue };
        of.private.insert(name);
        let begun = private_snapshot(socket, door, admitted.account, name).await?;
        if begun.is_err() {
            of.private.remove(name);
            return Ok(begun);
        }
    }
    Ok(Ok(()))
}

/// Does what a message asks for.
async fn take(
    socket: &mut WebSocket,
    door: &Door,
    from: IpAddr,
    of: &mut Subscriptions,
    own: &mut Option<Receiver<Arc<OwnEvent>>>,
    message: &[u8],
) -> Result<(), ()> {
    let done = match request::socket_op(message) {
        Ok(SocketOp::Ping) => return send(socket, &json!({ "channel": "pong" }).to_string()).await,
        Ok(SocketOp::Subscribe { channels, symbols }) => {
            match wanted(door, of, &channels, &symbols) {
                Ok((topics, private)) => {
                    // Before the snapshots, so that nothing between is lost: updates that a snapshot has
                    // already are told again, with a seq that is not above its own.
                    for (place, name) in topics {
                        of.topics.insert((place, name));
                        snapshot(socket, door, place, name).await?;
                    }
                    begin_private(socket, door, of, private).await?
                }
                Err(refused) => Err(refused),
            }
        }
        Ok(SocketOp::Unsubscribe { channels, symbols }) => wanted(door, of, &channels, &symbols)
            .map(|(topics, private)| {
                of.topics.retain(|known| !topics.contains(known));
                of.private.retain(|known| !private.contains(known));
            }),
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
            door.admit(from, &signed, Scope::Read).map(|admitted| {
                of.account = Some(admitted);
                *own = door.events.get(admitted.account).map(Sender::subscribe);
            })
        }
        Ok(SocketOp::CancelOnDisconnect(on)) => match of.account {
            Some(Admitted { trades: true, .. }) => {
                of.cancels = on;
                Ok(())
            }
            Some(_) => Err(ApiError::new("wrong_scope", "the key lacks the scope trade")),
            None => Err(ApiError::new("missing_header", "auth comes first")),
        },
        Err(refused) => Err(refused),
    };
    match done {
        Ok(()) => send(socket, &json!({ "channel": "ok" }).to_string()).await,
        Err(refused) => send(socket, &error(&refused)).await,
    }
}

type Wanted = (Vec<(usize, &'static str)>, Vec<&'static str>);

fn wanted(
    door: &Door,
    of: &Subscriptions,
    channels: &[String],
    symbols: &[String],
) -> Result<Wanted, ApiError> {
    let (mut topics, mut private) = (Vec::new(), Vec::new());
    for channel in channels {
        if let Some(name) = PRIVATE.into_iter().find(|name| name == channel) {
            if of.account.is_none() {
                return Err(ApiError::new("missing_header", format!("{name}: auth comes first")));
            }
            private.push(name);
            continue;
        }
        let topic = Topic::named(channel);
        let topic = topic.ok_or_else(|| {
            let all = "book, trades, ticker, status, orders, fills";
            ApiError::new("bad_field", format!("channels: no {channel:?}; there are {all}"))
        })?;
        if symbols.is_empty() {
            return Err(ApiError::new("missing_field", "symbols is missing"));
        }
        for symbol in symbols {
            topics.push((place_of(&door.market, symbol)?, topic.name()));
        }
    }
    Ok((topics, private))
}
