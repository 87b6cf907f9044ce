//! The OpenAPI document of the REST paths, made of the same tables as the refusals.

mod schemas;

use axum::http::{Method, Uri};
use serde_json::{Map, Value, json};

use crate::error::{ApiError, CODES};
use crate::uri::pairs;

/// Parameters of a query, with the schema of each.
type Query = &'static [(&'static str, Parameter)];

/// What a parameter of a query may be.
#[derive(Clone, Copy)]
enum Parameter {
    /// 1 to this; [`DEPTH`] without it.
    Count(u64),
    /// A place in a stream.
    Since,
    /// A symbol.
    Symbol,
    /// A span of candles.
    Span,
}

/// A path and what is told of it.
struct Operation {
    method: &'static str,
    path: &'static str,
    /// It is signed.
    signed: bool,
    summary: &'static str,
    query: Query,
    /// Schema of the body.
    body: Option<&'static str>,
    /// Schema of the answer.
    answer: &'static str,
}

/// Levels, trades and others that are told unless more are asked for.
const DEPTH: u64 = 100;

const fn get(path: &'static str, answer: &'static str, summary: &'static str) -> Operation {
    Operation { method: "get", path, signed: false, summary, query: &[], body: None, answer }
}

const fn signed(
    method: &'static str,
    path: &'static str,
    (body, answer): (Option<&'static str>, &'static str),
    summary: &'static str,
) -> Operation {
    Operation { method, path, signed: true, summary, query: &[], body, answer }
}

const OPERATIONS: [Operation; 28] = [
    get("/v1/time", "Time", "The door's clock, ms since the epoch"),
    get(
        "/v1/instruments",
        "Instruments",
        "All instruments: tick, lot, largest price, smallest and largest quantity of an order",
    ),
    Operation {
        query: &[("depth", Parameter::Count(500))],
        ..get("/v1/book/{symbol}", "Book", "Levels of a book, best first")
    },
    Operation {
        query: &[("limit", Parameter::Count(5_000))],
        ..get(
            "/v1/l3/{symbol}",
            "Queues",
            "Orders of a book, best level first, each level in its queue's order",
        )
    },
    Operation {
        query: &[("limit", Parameter::Count(1_000)), ("since", Parameter::Since)],
        ..get("/v1/trades/{symbol}", "Trades", "The last trades, newest first")
    },
    Operation {
        query: &[("limit", Parameter::Count(2_880)), ("interval", Parameter::Span)],
        ..get("/v1/candles/{symbol}", "Candles", "Trades by the minute or longer, newest first")
    },
    get("/v1/ticker/{symbol}", "Ticker", "Best prices, last trade, volume"),
    get("/v1/auctions/{symbol}", "Auction", "What the feed said last of an auction"),
    get("/v1/status/{symbol}", "Status", "State of trading"),
    get(
        "/v1/fairness",
        "Fairness",
        "How long the feed takes to this door, and what the venue says of its fairness",
    ),
    get("/v1/openapi.json", "Document", "This document"),
    signed("get", "/v1/orders", (None, "Orders"), "Open orders of the account"),
    signed(
        "post",
        "/v1/orders",
        (Some("NewOrder"), "Order"),
        "Enters an order; again with the same client_order_id and terms: its state",
    ),
    Operation {
        query: &[("symbol", Parameter::Symbol)],
        ..signed(
            "delete",
            "/v1/orders",
            (None, "Cancelled"),
            "Cancels all orders of the account, of one symbol or all",
        )
    },
    signed(
        "get",
        "/v1/orders/{id}",
        (None, "Order"),
        "An order by its client_order_id, with its place in the queue",
    ),
    signed("put", "/v1/orders/{id}", (Some("Replace"), "Order"), "Replaces an order"),
    signed("delete", "/v1/orders/{id}", (None, "Order"), "Cancels an order"),
    signed(
        "post",
        "/v1/batch",
        (Some("Batch"), "Results"),
        "2 to 15 requests, each answered for itself",
    ),
    signed("get", "/v1/positions", (None, "Positions"), "Positions and cash of the account"),
    Operation {
        query: &[("limit", Parameter::Count(10_000)), ("since", Parameter::Since)],
        ..signed("get", "/v1/fills", (None, "Fills"), "The last fills, newest first")
    },
    signed(
        "get",
        "/v1/latency",
        (None, "Latency"),
        "How long the account's last accepted orders were under way",
    ),
    signed(
        "post",
        "/v1/cancel_after",
        (Some("CancelAfter"), "Switch"),
        "Cancels all orders unless asked again in time; 0: off",
    ),
    signed("post", "/v1/ws_token", (None, "Token"), "A token for a WebSocket: good once, for 30 s"),
    signed(
        "post",
        "/v1/sandbox/faults",
        (Some("Fault"), "State"),
        "Something goes wrong on purpose, on a sandbox",
    ),
    get("/v1/tree", "Tree", "The tree that market data comes by, with delays and copies"),
    signed("get", "/v1/operator", (None, "Done"), "How the exchange is; scope operate"),
    signed(
        "post",
        "/v1/operator",
        (Some("Operator"), "Done"),
        "Carries out an operator's action; scope operate",
    ),
    get("/v1/ws", "", "WebSocket; see docs/web.md for its messages"),
];

/// Longest part of an unknown parameter's name that its refusal repeats, characters.
const NAME_MAX: usize = 32;

/// Whether a path is one of these: `/v1/orders/{id}`.
fn is_of(path: &str, of: &str) -> bool {
    let (mut parts, mut named) = (path.split('/'), of.split('/'));
    let part = |of: &str| parts.next().is_some_and(|part| part == of || of.starts_with('{'));
    named.all(part) && parts.next().is_none()
}

/// Refuses a parameter of a query that its path does not have, that can't be read or has no value, or that comes
/// twice: left out, it would widen what it was to narrow, such as the orders that are cancelled. Paths that are not in the
/// document refuse nothing here; nor does the WebSocket's, whose query tells a client's connections apart.
///
/// # Errors
/// The first such parameter.
pub(crate) fn check_query(method: &Method, uri: &Uri) -> Result<(), ApiError> {
    let path = uri.path();
    let asks = if method == Method::HEAD { &Method::GET } else { method };
    let is = |of: &&Operation| {
        of.method.eq_ignore_ascii_case(asks.as_str()) && is_of(path, of.path) && path != "/v1/ws"
    };
    let Some(of) = OPERATIONS.iter().find(is) else { return Ok(()) };
    let mut seen = Vec::new();
    for pair in pairs(uri.query()) {
        let (name, value) = pair?;
        let shown: String = name.chars().take(NAME_MAX).collect();
        let bad = |why: &str| Err(ApiError::new("bad_field", format!("{shown}: {why}")));
        if !of.query.iter().any(|(known, _)| name == *known) {
            let known: Vec<&str> = of.query.iter().map(|(known, _)| *known).collect();
            return match known.is_empty() {
                true => bad("no parameter; this path has none"),
                false => bad(&format!("no parameter of this path, which has {}", known.join(", "))),
            };
        }
        if value.is_none() {
            return bad("a parameter without a value");
        }
        if seen.contains(&name) {
            return bad("a parameter that comes twice");
        }
        seen.push(name);
    }
    Ok(())
}

fn parameter(name: &str, of: Parameter) -> Value {
    let schema = match of {
        Parameter::Count(most) => {
            json!({ "type": "integer", "minimum": 1, "maximum": most, "default": DEPTH.min(most) })
        }
        Parameter::Since => json!({ "type": "integer", "minimum": 0 }),
        Parameter::Symbol => json!({ "type": "string" }),
        Parameter::Span => {
            let names = crate::market::SPANS.map(|(name, _)| name);
            json!({ "type": "string", "enum": names, "default": names[0] })
        }
    };
    json!({ "name": name, "in": "query", "required": false, "schema": schema })
}

fn content(schema: &str) -> Value {
    let schema = json!({ "$ref": format!("#/components/schemas/{schema}") });
    json!({ "application/json": { "schema": schema } })
}

fn operation(of: &Operation) -> Value {
    let names = of.path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let mut parameters: Vec<Value> = names
        .map(|name| {
            json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
        })
        .collect();
    parameters.extend(of.query.iter().map(|(name, of)| parameter(name, *of)));
    let refused = json!({ "description": "refused", "content": content("Error") });
    let done = json!({ "description": "done", "content": content(of.answer) });
    let mut responses = json!({ "200": done, "default": refused });
    let mut operation = json!({ "summary": of.summary, "parameters": parameters });
    if let Some(name) = of.body {
        operation["requestBody"] = json!({ "required": true, "content": content(name) });
    }
    if of.signed {
        operation["security"] = json!([{ "key": [], "timestamp": [], "sign": [] }]);
        let late = "sent, not answered within 3 s: ask for the order";
        responses["202"] = json!({ "description": late, "content": content("State") });
    }
    if of.path == "/v1/ws" {
        let upgraded = json!({ "description": "the connection is a WebSocket" });
        let refused = json!({ "description": "refused", "content": content("Error") });
        responses = json!({ "101": upgraded, "default": refused });
    }
    operation["responses"] = responses;
    operation
}

/// The document.
pub(crate) fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for of in &OPERATIONS {
        let entry = paths.entry(of.path.to_string()).or_insert_with(|| json!({}));
        entry[of.method] = operation(of);
    }
    let header = |name: &str| json!({ "type": "apiKey", "in": "header", "name": name });
    let codes: Map<String, Value> = CODES
        .iter()
        .map(|(name, status, what)| {
            ((*name).to_string(), json!({ "status": status, "meaning": what }))
        })
        .collect();
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Fairbell web door", "version": "1", "description":
            "Prices and quantities are decimals in strings. A field of a body that the request does not have is refused \
             (bad_field), and so is a parameter of a query that the path does not have, that has no value or that \
             comes twice." },
        "paths": paths,
        "components": {
            "schemas": schemas::schemas(),
            "securitySchemes": {
                "key": header("FB-KEY"), "timestamp": header("FB-TIMESTAMP"), "sign": header("FB-SIGN"),
            },
        },
        "x-error-codes": codes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{command, request};

    /// All references of a document.
    fn references(of: &Value, found: &mut Vec<String>) {
        match of {
            Value::Object(map) => {
                if let Some(Value::String(to)) = map.get("$ref") {
                    found.push(to.clone());
                }
                map.values().for_each(|value| references(value, found));
            }
            Value::Array(list) => list.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn parameters_that_a_path_does_not_have_are_refused_by_name() {
        let check = |method: Method, uri: &str| {
            let uri: Uri = uri.parse().expect("a uri");
            check_query(&method, &uri).map_err(|refused| refused.message)
        };
        for (method, uri) in [
            (Method::DELETE, "/v1/orders"),
            (Method::DELETE, "/v1/orders?"),
            (Method::DELETE, "/v1/orders?symbol=AAA"),
            (Method::DELETE, "/v1/orders?symbol="),
            (Method::DELETE, "/v1/orders?%73ymbol=BRK%2FA%26%2B"),
            (Method::GET, "/v1/candles/AAA?limit=5&interval=1m&"),
            (Method::HEAD, "/v1/fills?since=1"),
            // Neither in the document nor of this method, or told apart by its query.
            (Method::GET, "/index.html?v=1"),
            (Method::PATCH, "/v1/orders?x=1"),
            (Method::GET, "/v1/ws?private"),
        ] {
            assert_eq!(check(method, uri), Ok(()), "{uri}");
        }
        for (method, uri, named) in [
            (
                Method::DELETE,
                "/v1/orders?sym=AAA",
                "sym: no parameter of this path, which has symbol",
            ),
            (Method::DELETE, "/v1/orders?symbo%6C=A&symb%6Fl=B", "symbol: a parameter that comes"),
            (Method::DELETE, "/v1/orders?%73ym=AAA", "sym: no parameter"),
            (Method::DELETE, "/v1/orders?symbol%3DAAA", "symbol=AAA: no parameter"),
            (Method::DELETE, "/v1/orders?symbol=A%2", "symbol=A%2: %"),
            (Method::DELETE, "/v1/orders?symb%FFol=A", "symb%FFol=A: "),
            (Method::DELETE, "/v1/orders?symbol", "symbol: a parameter without"),
            (
                Method::DELETE,
                "/v1/orders?symbol=AAA&symbol=BBB",
                "symbol: a parameter that comes twice",
            ),
            (Method::DELETE, "/v1/orders/a?symbol=AAA", "symbol: no parameter; this path has none"),
            (Method::GET, "/v1/orders?symbol=AAA", "symbol: no parameter"),
            (
                Method::HEAD,
                "/v1/fills?from=1",
                "from: no parameter of this path, which has limit, since",
            ),
            (Method::GET, "/v1/book/AAA?limit=1", "limit: no parameter"),
        ] {
            let refused = check(method, uri).expect_err(uri);
            assert!(refused.starts_with(named), "{uri}: {refused}");
        }
        let long = check(Method::GET, &format!("/v1/time?{}", "x".repeat(10_000)));
        assert!(long.is_err_and(|why| why.len() < 100));
    }

    #[test]
    fn every_operation_and_code_is_in_the_document_and_refers_to_what_is_there() {
        let document = document();
        for Operation { method, path, .. } in &OPERATIONS {
            let of = &document["paths"][path][method];
            assert!(of["responses"].is_object(), "{method} {path}");
            let named = path.matches('{').count();
            let told = of["parameters"].as_array().expect("a list");
            assert_eq!(told.iter().filter(|of| of["in"] == "path").count(), named, "{path}");
        }
        for (name, status, _) in CODES {
            assert_eq!(document["x-error-codes"][name]["status"], status);
        }
        // What a body has is what is read of it.
        let schemas = &document["components"]["schemas"];
        for (name, fields) in [
            ("NewOrder", &request::NEW[..]),
            ("Replace", &request::REPLACE),
            ("CancelAfter", &request::CANCEL_AFTER),
            ("Batch", &command::BATCH),
            ("Fault", &command::FAULT),
            ("Operator", &crate::venue::OPERATE),
        ] {
            let told = schemas[name]["properties"].as_object().expect("an object");
            assert_eq!(told.len(), fields.len(), "{name}");
            assert!(fields.iter().all(|field| told.contains_key(*field)), "{name}");
            assert_eq!(schemas[name]["additionalProperties"], false, "{name}");
        }
        let parts = schemas["Batch"]["properties"]["requests"]["items"]["oneOf"].as_array();
        for part in parts.expect("a list") {
            assert_eq!(part["additionalProperties"], false);
            assert!(command::COMMON.iter().all(|field| part["properties"][field].is_object()));
        }
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > OPERATIONS.len());
        for to in found {
            let to = to.trim_start_matches('#');
            assert!(document.pointer(to).is_some_and(Value::is_object), "{to}");
        }
    }
}
