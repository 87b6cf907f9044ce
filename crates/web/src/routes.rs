//! REST: paths, who may ask, what is answered.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use types::{Instrument, Nanos, Qty, Symbol};

use crate::account::{Ask, Reply};
use crate::auth::{Admitted, Credits, Scope, Signed};
use crate::command;
use crate::error::ApiError;
use crate::market::{Market, SPANS, Topic};
use crate::node::WebNode;
use crate::request::{self, BODY_MAX};
use crate::server::{Came, Door, Dropped, now, now_ms};
use crate::uri::{Segment, parameter};
use crate::venue;
use crate::{openapi, page, public as public_credits, socket};

/// For a request's body.
const BODY_TIME: Duration = Duration::from_secs(10);
/// Levels, orders, trades and candles that are told unless more are asked for.
const DEPTH: usize = 100;

fn json_response(status: StatusCode, value: &Value) -> Response {
    let mut response = (status, value.to_string()).into_response();
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

pub(crate) fn answer(reply: Result<Value, ApiError>) -> Response {
    match reply {
        Ok(value) => json_response(StatusCode::OK, &value),
        Err(refused) => refused.into_response(),
    }
}

/// A number of the query, 1 to `most`; [`DEPTH`] without it.
fn count(query: Option<&str>, name: &str, most: usize) -> Result<usize, ApiError> {
    let Some(text) = parameter(query, name)? else { return Ok(DEPTH.min(most)) };
    let good = text.parse().ok().filter(|number| (1..=most).contains(number));
    good.ok_or_else(|| ApiError::new("bad_field", format!("{name}: a number of 1 to {most}")))
}

/// `since` of the query: a place in a stream; 0 without it.
fn since(query: Option<&str>) -> Result<u64, ApiError> {
    let Some(text) = parameter(query, "since")? else { return Ok(0) };
    let wrong = |_| ApiError::new("bad_field", "since: a number, as seq of what is known");
    text.parse().map_err(wrong)
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

/// Reads a request of a key: whose it is, its query and its body.
pub(crate) async fn private(
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

/// When a request came.
fn came(request: &Request) -> Nanos {
    request.extensions().get().map_or_else(now, |Came(at)| *at)
}

type Here = State<Arc<Door>>;
type From = ConnectInfo<SocketAddr>;

/// The reply to a key, with what it has left.
pub(crate) fn with_credits(credits: Credits, mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert("fb-credits-left", HeaderValue::from(credits.left));
    headers.insert("fb-credits-limit", HeaderValue::from(credits.limit));
    headers.insert("fb-credits-per-second", HeaderValue::from(credits.per_s));
    response
}

/// Asks an account what `read` makes of the request.
async fn asked(
    (door, from): (Arc<Door>, SocketAddr),
    request: Request,
    scope: Scope,
    read: impl FnOnce(Option<&str>, &[u8]) -> Result<Ask, ApiError>,
) -> Response {
    let came = came(&request);
    let (admitted, query, body) = match private(&door, from, request, scope).await {
        Ok(read) => read,
        Err(refused) => return refused.into_response(),
    };
    let response = match read(query.as_deref(), &body) {
        Err(refused) => refused.into_response(),
        Ok(ask) => {
            let dropped = ask.trades()
                && door.own(admitted.account).is_some_and(super::server::Own::drops_answer);
            let mut response = match door.ask_at((admitted.account, came), ask).await {
                Some(reply) => answer(reply),
                None => json_response(StatusCode::ACCEPTED, &json!({ "state": "pending" })),
            };
            if dropped {
                response.extensions_mut().insert(Dropped);
            }
            response
        }
    };
    with_credits(admitted.credits, response)
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
    Segment(id): Segment,
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
    Segment(id): Segment,
    request: Request,
) -> Response {
    let read = move |_: Option<&str>, body: &[u8]| {
        request::no_fields(body)?;
        Ok(Ask::Cancel(request::client_id(&id)?))
    };
    asked((door, from), request, Scope::Trade, read).await
}

async fn mass_cancel(State(door): Here, ConnectInfo(from): From, request: Request) -> Response {
    let market = Arc::clone(&door.market);
    let read = move |query: Option<&str>, body: &[u8]| {
        // A symbol in there would be passed over, and the orders of all be cancelled.
        request::no_fields(body)?;
        let symbol = |name: &str| -> Result<Symbol, ApiError> {
            market.instruments().by_symbol(name).map(|one| one.symbol)
        };
        let name = parameter(query, "symbol")?;
        Ok(Ask::MassCancel(name.as_deref().map(symbol).transpose()?))
    };
    asked((door, from), request, Scope::Trade, read).await
}

/// The answers to a batch whose good requests were begun, in their order.
pub(crate) async fn batched(
    requests: Vec<Result<Ask, ApiError>>,
    replies: Vec<oneshot::Receiver<Reply>>,
) -> Value {
    let mut replies = replies.into_iter();
    let mut told = Vec::new();
    for ask in requests {
        let reply = match ask.map(|_| replies.next()) {
            Err(refused) => Some(Err(refused)),
            Ok(Some(from)) => Door::reply(from).await,
            Ok(None) => None,
        };
        told.push(result_json(reply));
    }
    json!({ "results": told })
}

/// A refusal inside of a message, with its status.
pub(crate) fn refused_json(refused: &ApiError) -> Value {
    let mut told = refused.body();
    told["status"] = refused.status().into();
    told
}

/// An answer inside of a message: its status, and what it is or why not.
pub(crate) fn result_json(reply: Option<Reply>) -> Value {
    match reply {
        Some(Ok(value)) => json!({ "status": 200, "result": value }),
        Some(Err(refused)) => refused_json(&refused),
        None => json!({ "status": 202, "result": { "state": "pending" } }),
    }
}

async fn batch(State(door): Here, ConnectInfo(from): From, request: Request) -> Response {
    let came = came(&request);
    let (admitted, _, body) = match private(&door, from, request, Scope::Trade).await {
        Ok(read) => read,
        Err(refused) => return refused.into_response(),
    };
    let read = command::batch(&body, door.market.instruments()).and_then(|requests| {
        // The request itself was the first.
        let more = u32::try_from(requests.len()).unwrap_or(u32::MAX) - 1;
        let left = door.charge((&admitted.key, from.ip()), (Scope::Trade, more))?;
        Ok((requests, left))
    });
    match read {
        Err(refused) => with_credits(admitted.credits, refused.into_response()),
        Ok((requests, left)) => {
            let dropped = door.own(admitted.account).is_some_and(|own| own.drops_answer());
            let asks: Vec<Ask> = requests.iter().filter_map(|ask| ask.clone().ok()).collect();
            let replies = door.begin((admitted.account, came), asks);
            let told = batched(requests, replies).await;
            let mut response = json_response(StatusCode::OK, &told);
            if dropped {
                response.extensions_mut().insert(Dropped);
            }
            with_credits(left, response)
        }
    }
}

async fn cancel_after(State(door): Here, ConnectInfo(from): From, request: Request) -> Response {
    let read = |_: Option<&str>, body: &[u8]| request::cancel_after(body).map(Ask::CancelAfter);
    asked((door, from), request, Scope::Trade, read).await
}

async fn open_orders(State(door): Here, ConnectInfo(from): From, request: Request) -> Response {
    asked((door, from), request, Scope::Read, |_, body| {
        request::no_fields(body).map(|()| Ask::OpenOrders)
    })
    .await
}

async fn order(
    State(door): Here,
    ConnectInfo(from): From,
    Segment(id): Segment,
    request: Request,
) -> Response {
    let read = move |_: Option<&str>, body: &[u8]| {
        request::no_fields(body)?;
        Ok(Ask::Order(request::client_id(&id)?, None))
    };
    asked((door, from), request, Scope::Read, read).await
}

async fn positions(State(door): Here, ConnectInfo(from): From, request: Request) -> Response {
    asked((door, from), request, Scope::Read, |_, body| {
        request::no_fields(body).map(|()| Ask::Positions)
    })
    .await
}

async fn fills(State(door): Here, ConnectInfo(from): From, request: Request) -> Response {
    let read = |query: Option<&str>, body: &[u8]| {
        request::no_fields(body)?;
        Ok(Ask::Fills(count(query, "limit", 10_000)?, since(query)?))
    };
    asked((door, from), request, Scope::Read, read).await
}

async fn latency(State(door): Here, ConnectInfo(from): From, request: Request) -> Response {
    asked((door, from), request, Scope::Read, |_, body| {
        request::no_fields(body).map(|()| Ask::Trips)
    })
    .await
}

async fn token(State(door): Here, ConnectInfo(from): From, request: Request) -> Response {
    let (admitted, body) = match private(&door, from, request, Scope::Read).await {
        Ok((admitted, _, body)) => (admitted, body),
        Err(refused) => return refused.into_response(),
    };
    let token = request::no_fields(&body).and_then(|()| door.token(&admitted.key));
    let told = token.map(|(token, until)| json!({ "token": token, "expires_ms": until }));
    with_credits(admitted.credits, answer(told))
}

async fn fault(State(door): Here, ConnectInfo(from): From, request: Request) -> Response {
    if !door.settings.sandbox {
        let why = "this door serves no sandbox: faults are not to be had";
        return ApiError::new("no_sandbox", why).into_response();
    }
    let (admitted, body) = match private(&door, from, request, Scope::Sandbox).await {
        Ok((admitted, _, body)) => (admitted, body),
        Err(refused) => return refused.into_response(),
    };
    let response = match command::fault(&body) {
        Err(refused) => refused.into_response(),
        Ok(fault) => match door.fault(admitted.account, fault).await {
            Some(reply) => answer(reply),
            None => ApiError::new("busy", "the account does not answer").into_response(),
        },
    };
    with_credits(admitted.credits, response)
}

async fn time() -> Response {
    json_response(StatusCode::OK, &json!({ "time_ms": now_ms() }))
}

fn instrument_json(of: &Instrument, qty_min: Qty) -> Value {
    json!({
        "symbol": of.symbol.to_string(),
        "tick": of.tick.to_string(),
        "price_max": of.price_max.to_string(),
        "lot": crate::decimal::lots_text(1, of.lot_decimals),
        "qty_min": crate::decimal::lots_text(qty_min.0, of.lot_decimals),
        "qty_max": crate::decimal::lots_text(of.qty_max.0, of.lot_decimals),
    })
}

async fn instruments(State(door): Here) -> Response {
    let all = door.market.instruments().0.iter().enumerate();
    let all = all.map(|(place, of)| instrument_json(of, door.market.qty_min(place)));
    json_response(StatusCode::OK, &json!({ "instruments": all.collect::<Vec<_>>() }))
}

fn public(door: &Door, symbol: &str, query: Option<&str>, topic: Topic) -> Response {
    let (name, most) = match topic {
        Topic::Book => ("depth", crate::market::DEPTH),
        Topic::Queue => ("limit", 5_000),
        _ => ("limit", 1_000),
    };
    let snapshot = count(query, name, most).and_then(|depth| {
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

async fn book(State(door): Here, Segment(symbol): Segment, request: Request) -> Response {
    public(&door, &symbol, request.uri().query(), Topic::Book)
}

/// Single orders are followed while somebody wants them: this asks for them once.
async fn queue(State(door): Here, Segment(symbol): Segment, request: Request) -> Response {
    let place = match place_of(&door.market, &symbol) {
        Ok(place) => place,
        Err(refused) => return refused.into_response(),
    };
    door.market.want(place);
    let looked = door.call(move |node: &mut WebNode| node.look(place)).await;
    let response = match looked {
        Some(()) => public(&door, &symbol, request.uri().query(), Topic::Queue),
        None => ApiError::new("busy", "the door has too much to do: try again").into_response(),
    };
    door.market.unwant(place);
    response
}

async fn trades(State(door): Here, Segment(symbol): Segment, request: Request) -> Response {
    let query = request.uri().query();
    let told = count(query, "limit", 1_000).and_then(|most| {
        let (place, since) = (place_of(&door.market, &symbol)?, since(query)?);
        let trades = door.market.trades(place, since, most);
        Ok(json!({ "channel": "trades", "type": "snapshot", "symbol": symbol, "trades": trades }))
    });
    answer(told)
}

async fn candles(State(door): Here, Segment(symbol): Segment, request: Request) -> Response {
    let query = request.uri().query();
    let told = count(query, "limit", 2_880).and_then(|most| {
        let place = place_of(&door.market, &symbol)?;
        let name = parameter(query, "interval")?;
        let name = name.as_deref().unwrap_or(SPANS[0].0);
        let span_ms = request::one_of("interval", name, &SPANS)?;
        let candles = door.market.candles(place, span_ms, most);
        Ok(json!({ "symbol": symbol, "interval": name, "candles": candles }))
    });
    answer(told)
}

async fn ticker(State(door): Here, Segment(symbol): Segment, request: Request) -> Response {
    public(&door, &symbol, request.uri().query(), Topic::Ticker)
}

async fn auctions(State(door): Here, Segment(symbol): Segment, request: Request) -> Response {
    public(&door, &symbol, request.uri().query(), Topic::Auctions)
}

async fn status(State(door): Here, Segment(symbol): Segment, request: Request) -> Response {
    public(&door, &symbol, request.uri().query(), Topic::Status)
}

async fn fairness(State(door): Here) -> Response {
    match door.call(|node: &mut WebNode| node.evidence()).await {
        Some(feed) => {
            let venue = door.settings.venue.fairness();
            json_response(StatusCode::OK, &json!({ "feed": feed, "venue": venue }))
        }
        None => ApiError::new("busy", "the door has too much to do: try again").into_response(),
    }
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

/// Refuses parameters of a query that the path does not have.
async fn known_parameters(request: Request, next: Next) -> Response {
    match openapi::check_query(request.method(), request.uri()) {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.into_response(),
    }
}

async fn no_such_method() -> Response {
    ApiError::new("method_not_allowed", "the path does not take this method").into_response()
}

/// Whether a page of this origin may ask: the door's own, or one of the settings.
fn is_own_site(headers: &HeaderMap, origins: &[String]) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else { return true };
    let Ok(origin) = origin.to_str() else { return false };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let own = origin.split_once("://").is_some_and(|(_, at)| Some(at) == host);
    own || origins.iter().any(|known| known == origin)
}

/// Refuses what pages of other sites ask in their visitors' browsers.
async fn same_site(State(door): Here, request: Request, next: Next) -> Response {
    if is_own_site(request.headers(), &door.settings.origins) {
        return next.run(request).await;
    }
    let why = "the origin of the page is not this door's, nor one of its `origins`";
    ApiError::new("cross_site", why).into_response()
}

pub(crate) fn router(door: Arc<Door>) -> Router {
    // Each of these costs credits of the address, whatever headers it has; the others cost credits of a key.
    let public = Router::new()
        .route("/v1/time", get(time))
        .route("/v1/instruments", get(instruments))
        .route("/v1/book/{symbol}", get(book))
        .route("/v1/l3/{symbol}", get(queue))
        .route("/v1/trades/{symbol}", get(trades))
        .route("/v1/candles/{symbol}", get(candles))
        .route("/v1/ticker/{symbol}", get(ticker))
        .route("/v1/auctions/{symbol}", get(auctions))
        .route("/v1/status/{symbol}", get(status))
        .route("/v1/fairness", get(fairness))
        .route("/v1/tree", get(venue::tree))
        .route("/v1/ws", get(socket::upgrade))
        .route("/v1/openapi.json", get(document))
        .fallback(other)
        .layer(from_fn(known_parameters))
        .layer(from_fn_with_state(Arc::clone(&door), public_credits::charged));
    Router::new()
        .route("/v1/orders", get(open_orders).post(new_order).delete(mass_cancel))
        .route("/v1/orders/{id}", get(order).put(replace).delete(cancel))
        .route("/v1/batch", post(batch))
        .route("/v1/positions", get(positions))
        .route("/v1/fills", get(fills))
        .route("/v1/latency", get(latency))
        .route("/v1/cancel_after", post(cancel_after))
        .route("/v1/ws_token", post(token))
        .route("/v1/sandbox/faults", post(fault))
        .route("/v1/operator", get(venue::operate).post(venue::operate))
        .layer(from_fn(known_parameters))
        .merge(public)
        .method_not_allowed_fallback(no_such_method)
        .layer(from_fn_with_state(Arc::clone(&door), same_site))
        .with_state(door)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found_and_bounded() {
        let query = Some("depth=5&x&symbol=AAA");
        assert_eq!(count(query, "depth", 10), Ok(5));
        assert_eq!(count(Some("d%65pth=%37"), "depth", 10), Ok(7));
        assert_eq!(count(query, "limit", 10), Ok(10));
        for wrong in
            ["depth=0", "depth=11", "depth=-1", "depth=", "depth=1e2", "depth=%", "depth=%FF"]
        {
            assert_eq!(count(Some(wrong), "depth", 10).unwrap_err().code, "bad_field", "{wrong}");
        }
        assert_eq!((since(query), since(Some("since=7"))), (Ok(0), Ok(7)));
        assert_eq!(since(Some("since=x")).unwrap_err().code, "bad_field");
    }

    #[test]
    fn pages_of_other_sites_are_told_apart() {
        let known = ["https://desk.example".to_string()];
        let own = |origin: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static("127.0.0.1:8080"));
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
            }
            is_own_site(&headers, &known)
        };
        for good in [None, Some("http://127.0.0.1:8080"), Some("https://desk.example")] {
            assert!(own(good), "{good:?}");
        }
        for bad in
            ["null", "http://127.0.0.1:8081", "https://evil.example", "https://desk.example.evil"]
        {
            assert!(!own(Some(bad)), "{bad}");
        }
    }
}
