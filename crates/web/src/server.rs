//! HTTP: paths, signatures, replies; and how many connections there may be, and for how long.
//!
//! Runs on one thread with a tokio runtime of its own. Bounds: 1,024 connections; a request's head within
//! 10 s, which also ends connections that say nothing; its body of 64 KiB within 10 s.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{ConnectInfo, Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use net::LoopHandle;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, broadcast, oneshot};
use tower::ServiceExt;
use types::{Instrument, Symbol};

use crate::account::{Ask, OwnEvent, Reply};
use crate::auth::{Admitted, Keys, Scope, Signed};
use crate::error::ApiError;
use crate::market::{Market, Topic};
use crate::node::{WEB_NODE, WebNode};
use crate::request::{self, BODY_MAX};
use crate::{openapi, page, socket};

/// Connections at a time.
pub const CONNECTIONS_MAX: usize = 1_024;
/// For a request's head, and between two requests of a connection.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// For its body.
const BODY_TIME: Duration = Duration::from_secs(10);
/// How long the exchange's answer is waited for; then the order is `pending`.
const ANSWER_TIME: Duration = Duration::from_secs(3);
/// How often a stop is looked for.
const STOP_EVERY: Duration = Duration::from_millis(50);
/// Levels and trades that are told unless more are asked for.
const DEPTH: usize = 100;

/// What requests are answered from.
pub struct Door {
    /// Public data.
    pub market: Arc<Market>,
    /// Whoever may ask for more.
    pub keys: Mutex<Keys>,
    /// The node with the accounts.
    pub node: LoopHandle<WebNode>,
    /// By account: its events.
    pub events: Vec<broadcast::Sender<Arc<OwnEvent>>>,
}

/// Milliseconds since the epoch.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

impl Door {
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
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.check(now_ms(), from, signed, scope)
    }

    /// Asks an account; `None`: the exchange has not answered in time.
    ///
    /// # Errors
    /// The refusal.
    pub async fn ask(&self, account: usize, ask: Ask) -> Option<Reply> {
        let (to, from) = oneshot::channel();
        let called = self.node.call(WEB_NODE, move |node: &mut WebNode, now, out| {
            node.ask(now, (account, ask), to, out);
        });
        if called.is_err() {
            return Some(Err(ApiError::new("busy", "the door has too much to do: try again")));
        }
        match tokio::time::timeout(ANSWER_TIME, from).await {
            Ok(Ok(reply)) => Some(reply),
            // Forgotten, or late: it may still be carried out.
            Ok(Err(_)) | Err(_) => None,
        }
    }
}

fn json_response(status: StatusCode, value: &Value) -> Response {
    let mut response = (status, value.to_string()).into_response();
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn answer(reply: Result<Value, ApiError>) -> Response {
    match reply {
        Ok(value) => json_response(StatusCode::OK, &value),
        Err(refused) => refused.into_response(),
    }
}

/// A parameter of the query.
fn parameter<'a>(query: Option<&'a str>, name: &str) -> Option<&'a str> {
    query?
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .find_map(|(key, value)| (key == name).then_some(value))
}

/// A number of the query, at most `most`.
fn count(query: Option<&str>, name: &str, most: usize) -> Result<usize, ApiError> {
    let Some(text) = parameter(query, name) else { return Ok(DEPTH.min(most)) };
    let good = text.parse().ok().filter(|number| (1..=most).contains(number));
    good.ok_or_else(|| ApiError::new("bad_field", format!("{name}: a number of 1 to {most}")))
}

async fn body_of(request: Request) -> Result<Vec<u8>, ApiError> {
    let (head, body) = request.into_parts();
    let length = head.headers.get(header::CONTENT_LENGTH);
    let told = length.and_then(|of| of.to_str().ok()).and_then(|text| text.parse::<usize>().ok());
    let too_large = || ApiError::new("too_large", format!("a body has {BODY_MAX} bytes at most"));
    if told.is_some_and(|told| told > BODY_MAX) {
        return Err(too_large());
    }
    match tokio::time::timeout(BODY_TIME, to_bytes(body, BODY_MAX)).await {
        Ok(Ok(bytes)) => Ok(bytes.to_vec()),
        Ok(Err(_)) => Err(too_large()),
        Err(_) => Err(ApiError::new("timeout", "the body did not come in time")),
    }
}

fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, ApiError> {
    let wrong = |_| ApiError::new("missing_header", format!("{name} is no text"));
    headers.get(name).map(|value| value.to_str().map_err(wrong)).transpose()
}

/// Reads a request of a key: whose it is, and its body.
async fn private(
    door: &Door,
    from: SocketAddr,
    request: Request,
    scope: Scope,
) -> Result<(Admitted, Option<String>, Vec<u8>), ApiError> {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let headers = request.headers().clone();
    let body = body_of(request).await?;
    let need = |name: &str| {
        header_text(&headers, name)?
            .ok_or_else(|| ApiError::new("missing_header", format!("{name} is missing")))
    };
    let signed = Signed {
        key: need("fb-key")?,
        timestamp: need("fb-timestamp")?,
        nonce: header_text(&headers, "fb-nonce")?.unwrap_or(""),
        signature: need("fb-sign")?,
        method: method.as_str(),
        path: uri.path_and_query().map_or("/", |path| path.as_str()),
        body: &body,
    };
    let admitted = door.admit(from.ip(), &signed, scope)?;
    Ok((admitted, uri.query().map(str::to_string), body))
}

type Here = State<Arc<Door>>;
type From = ConnectInfo<SocketAddr>;

/// The reply to a key, with what it has left.
fn with_credits(admitted: Admitted, mut response: Response) -> Response {
    response.headers_mut().insert("fb-credits-left", HeaderValue::from(admitted.credits_left));
    response
}

/// Asks an account what `read` makes of the request.
async fn asked(
    (door, from): (Arc<Door>, SocketAddr),
    request: Request,
    scope: Scope,
    read: impl FnOnce(Option<&str>, &[u8]) -> Result<Ask, ApiError>,
) -> Response {
    let (admitted, query, body) = match private(&door, from, request, scope).await {
        Ok(read) => read,
        Err(refused) => return refused.into_response(),
    };
    let response = match read(query.as_deref(), &body) {
        Err(refused) => refused.into_response(),
        Ok(ask) => match door.ask(admitted.account, ask).await {
            Some(reply) => answer(reply),
            None => json_response(StatusCode::ACCEPTED, &json!({ "state": "pending" })),
        },
    };
    with_credits(admitted, response)
}

async fn new_order(State(door): Here, ConnectInfo(from): From, request: Request) -> Response {
    let market = Arc::clone(&door.market);
    let read = move |_: Option<&str>, body: &[u8]| {
        request::new_order(body, market.instruments()).map(Ask::New)
    };
    asked((door, from), request, Scope::Trade, read).await
}

async fn replace(
    State(door): Here,
    ConnectInfo(from): From,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    let read = move |_: Option<&str>, body: &[u8]| {
        Ok(Ask::Replace(request::client_id(&id)?, request::replace(body)?))
    };
    asked((door, from), request, Scope::Trade, read).await
}

async fn cancel(
    State(door): Here,
    ConnectInfo(from): From,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    let read = move |_: Option<&str>, _: &[u8]| Ok(Ask::Cancel(request::client_id(&id)?));
    asked((door, from), request, Scope::Trade, read).await
}

async fn mass_cancel(State(door): Here, ConnectInfo(from): From, request: Request) -> Response {
    let market = Arc::clone(&door.market);
    let read = move |query: Option<&str>, _: &[u8]| {
        let symbol = |name: &str| -> Result<Symbol, ApiError> {
            market.instruments().by_symbol(name).map(|one| one.symbol)
        };
        Ok(Ask::MassCancel(parameter(query, "symbol").map(symbol).transpose()?))
    };
    asked((door, from), request, Scope::Trade, read).await
}

async fn cancel_after(State(door): Here, ConnectInfo(from): From, request: Request) -> Response {
    let read = |_: Option<&str>, body: &[u8]| request::cancel_after(body).map(Ask::CancelAfter);
    asked((door, from), request, Scope::Trade, read).await
}

async fn open_orders(State(door): Here, ConnectInfo(from): From, request: Request) -> Response {
    asked((door, from), request, Scope::Read, |_, _| Ok(Ask::OpenOrders)).await
}

async fn order(
    State(door): Here,
    ConnectInfo(from): From,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    let read = move |_: Option<&str>, _: &[u8]| Ok(Ask::Order(request::client_id(&id)?));
    asked((door, from), request, Scope::Read, read).await
}

async fn positions(State(door): Here, ConnectInfo(from): From, request: Request) -> Response {
    asked((door, from), request, Scope::Read, |_, _| Ok(Ask::Positions)).await
}

async fn fills(State(door): Here, ConnectInfo(from): From, request: Request) -> Response {
    let read = |query: Option<&str>, _: &[u8]| count(query, "limit", 10_000).map(Ask::Fills);
    asked((door, from), request, Scope::Read, read).await
}

async fn time() -> Response {
    json_response(StatusCode::OK, &json!({ "time_ms": now_ms() }))
}

fn instrument_json(of: &Instrument) -> Value {
    json!({
        "symbol": of.symbol.to_string(),
        "tick": of.tick.to_string(),
        "price_max": of.price_max.to_string(),
        "lot": crate::decimal::lots_text(1, of.lot_decimals),
        "qty_max": crate::decimal::lots_text(of.qty_max.0, of.lot_decimals),
    })
}

async fn instruments(State(door): Here) -> Response {
    let all = door.market.instruments().0.iter().map(instrument_json);
    json_response(StatusCode::OK, &json!({ "instruments": all.collect::<Vec<_>>() }))
}

fn public(door: &Door, symbol: &str, query: Option<&str>, topic: Topic) -> Response {
    let most = if topic == Topic::Book { crate::market::DEPTH } else { 1_000 };
    let told = count(query, if topic == Topic::Book { "depth" } else { "limit" }, most);
    let snapshot = told.and_then(|depth| {
        let place = place_of(&door.market, symbol)?;
        let missing = || ApiError::new("not_found", format!("no symbol {symbol:?}"));
        door.market.snapshot(place, topic, depth).ok_or_else(missing)
    });
    answer(snapshot.map(|(_, value)| value))
}

/// Place of a symbol.
///
/// # Errors
/// There is none.
pub(crate) fn place_of(market: &Market, symbol: &str) -> Result<usize, ApiError> {
    let all = &market.instruments().0;
    let found = all.iter().position(|one| one.symbol.as_str() == symbol);
    found.ok_or_else(|| ApiError::new("not_found", format!("no symbol {symbol:?}")))
}

async fn book(State(door): Here, Path(symbol): Path<String>, request: Request) -> Response {
    public(&door, &symbol, request.uri().query(), Topic::Book)
}

async fn trades(State(door): Here, Path(symbol): Path<String>, request: Request) -> Response {
    public(&door, &symbol, request.uri().query(), Topic::Trades)
}

async fn ticker(State(door): Here, Path(symbol): Path<String>, request: Request) -> Response {
    public(&door, &symbol, request.uri().query(), Topic::Ticker)
}

async fn status(State(door): Here, Path(symbol): Path<String>, request: Request) -> Response {
    public(&door, &symbol, request.uri().query(), Topic::Status)
}

async fn document() -> Response {
    json_response(StatusCode::OK, &openapi::document())
}

/// What is no path of the API: the page, or nothing.
async fn other(method: Method, uri: Uri) -> Response {
    let page = if method == Method::GET { page::file(&uri) } else { None };
    page.unwrap_or_else(|| {
        ApiError::new("not_found", "no such path; see /v1/openapi.json").into_response()
    })
}

async fn no_such_method() -> Response {
    ApiError::new("method_not_allowed", "the path does not take this method").into_response()
}

fn router(door: Arc<Door>) -> Router {
    Router::new()
        .route("/v1/time", get(time))
        .route("/v1/instruments", get(instruments))
        .route("/v1/book/{symbol}", get(book))
        .route("/v1/trades/{symbol}", get(trades))
        .route("/v1/ticker/{symbol}", get(ticker))
        .route("/v1/status/{symbol}", get(status))
        .route("/v1/orders", get(open_orders).post(new_order).delete(mass_cancel))
        .route("/v1/orders/{id}", get(order).put(replace).delete(cancel))
        .route("/v1/positions", get(positions))
        .route("/v1/fills", get(fills))
        .route("/v1/cancel_after", post(cancel_after))
        .route("/v1/ws", get(socket::upgrade))
        .route("/v1/openapi.json", get(document))
        .method_not_allowed_fallback(no_such_method)
        .fallback(other)
        .with_state(door)
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
    let routes = router(door);
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
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
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
            let _ = stream.set_nodelay(true);
            let routes = routes.clone();
            tokio::spawn(async move {
                let service =
                    routes.map_request(move |request: hyper::Request<hyper::body::Incoming>| {
                        let mut request = request.map(Body::new);
                        request.extensions_mut().insert(ConnectInfo(from));
                        request
                    });
                let mut http = hyper::server::conn::http1::Builder::new();
                http.timer(TokioTimer::new())
                    .header_read_timeout(HEAD_TIME)
                    .max_buf_size(64 * 1_024);
                let serving =
                    http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
                // Whatever ended it, the client knows.
                let _ = serving.with_upgrades().await;
                drop(place);
            });
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found_and_bounded() {
        let query = Some("depth=5&x&symbol=AAA");
        assert_eq!(parameter(query, "symbol"), Some("AAA"));
        assert_eq!(parameter(query, "x"), None);
        assert_eq!(parameter(None, "depth"), None);
        assert_eq!(count(query, "depth", 10), Ok(5));
        assert_eq!(count(query, "limit", 10), Ok(10));
        for wrong in ["depth=0", "depth=11", "depth=-1", "depth=", "depth=1e2"] {
            assert_eq!(count(Some(wrong), "depth", 10).unwrap_err().code, "bad_field", "{wrong}");
        }
    }
}
