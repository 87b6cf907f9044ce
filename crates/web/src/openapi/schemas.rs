//! What bodies of requests and answers look like, as JSON Schema.

use serde_json::{Map, Value, json};

use crate::command::{BATCH_MAX, BATCH_MIN};
use crate::error::CODES;
use crate::market::SPANS;
use crate::request::TIMES_IN_FORCE;

fn text() -> Value {
    json!({ "type": "string" })
}

fn maybe(kind: &str) -> Value {
    json!({ "type": [kind, "null"] })
}

fn whole() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}

fn list(of: &Value) -> Value {
    json!({ "type": "array", "items": of })
}

fn a(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn choice(names: &[&str]) -> Value {
    json!({ "type": "string", "enum": names })
}

fn object(required: &[&str], properties: &[(&str, Value)]) -> Value {
    let properties: Map<String, Value> =
        properties.iter().map(|(name, kind)| ((*name).to_string(), kind.clone())).collect();
    json!({ "type": "object", "required": required, "properties": properties })
}

/// An object whose fields are all there.
fn whole_object(properties: &[(&str, Value)]) -> Value {
    let names: Vec<&str> = properties.iter().map(|(name, _)| *name).collect();
    object(&names, properties)
}

/// What a request has, and nothing else.
fn asked(required: &[&str], properties: &[(&str, Value)]) -> Value {
    let mut schema = object(required, properties);
    schema["additionalProperties"] = false.into();
    schema
}

/// A decimal above 0 is told apart by the door; the pattern is that of the text.
fn decimal() -> Value {
    json!({ "type": "string", "pattern": "^[0-9]{1,12}(\\.[0-9]{1,8})?$" })
}

fn id() -> Value {
    json!({ "type": "string", "pattern": "^[A-Za-z0-9._-]{1,14}$" })
}

/// The id of an order that is to be entered: neither `.` nor `..`.
fn new_id() -> Value {
    let pattern = concat!(
        "^([A-Za-z0-9_-][A-Za-z0-9._-]{0,13}",
        "|\\.[A-Za-z0-9_-][A-Za-z0-9._-]{0,12}",
        "|\\.\\.[A-Za-z0-9._-]{1,12})$"
    );
    json!({ "type": "string", "pattern": pattern })
}

fn handling() -> [(&'static str, Value); 2] {
    [("deadline_ms", whole()), ("validate_only", json!({ "type": "boolean", "default": false }))]
}

fn requests() -> Vec<(&'static str, Value)> {
    let lives: Vec<&str> = TIMES_IN_FORCE.iter().map(|(name, _)| *name).collect();
    let mut new = vec![
        ("symbol", text()),
        ("side", choice(&["buy", "sell"])),
        ("type", json!({ "type": "string", "enum": ["limit", "market"], "default": "limit" })),
        ("qty", decimal()),
        ("price", decimal()),
        ("time_in_force", json!({ "type": "string", "enum": lives, "default": "day" })),
        ("post_only", json!({ "type": "boolean", "default": false })),
        ("client_order_id", new_id()),
    ];
    new.extend(handling());
    let mut replace = vec![("client_order_id", new_id()), ("qty", decimal()), ("price", decimal())];
    replace.extend(handling());
    let with =
        |first: &[(&'static str, Value)], rest: &[(&'static str, Value)]| [first, rest].concat();
    let op = |name: &str| ("op", json!({ "const": name }));
    // The client's own; nothing repeats it.
    let own = || ("id", json!({ "type": ["string", "integer", "null"] }));
    let parts = json!({ "oneOf": [
        asked(&["op", "symbol", "side", "qty"], &with(&[op("new"), own()], &new)),
        asked(&["op", "order", "client_order_id", "qty", "price"],
              &with(&[op("replace"), own(), ("order", id())], &replace)),
        asked(&["op", "order"], &[op("cancel"), own(), ("order", id())]),
    ] });
    let requests = json!({
        "type": "array", "minItems": BATCH_MIN, "maxItems": BATCH_MAX, "items": parts,
    });
    let timeout = json!({ "type": "integer", "minimum": 0, "maximum": 86_400_000,
                          "description": "0: off; else 500 or more" });
    let count = json!({ "type": "integer", "minimum": 0, "maximum": 1_000, "default": 1 });
    let ms = json!({ "type": "integer", "minimum": 0, "maximum": 60_000 });
    let faults = ["reject", "delay", "drop", "drop_answer", "skip"];
    vec![
        ("NewOrder", asked(&["symbol", "side", "qty"], &new)),
        ("Replace", asked(&["client_order_id", "qty", "price"], &replace)),
        ("Batch", asked(&["requests"], &[("requests", requests)])),
        ("CancelAfter", asked(&["timeout_ms"], &[("timeout_ms", timeout)])),
        ("Fault", asked(&["fault"], &[("fault", choice(&faults)), ("count", count), ("ms", ms)])),
    ]
}

fn private() -> Vec<(&'static str, Value)> {
    let states = ["pending", "open", "filled", "cancelled", "rejected", "replaced", "valid"];
    let queue = object(
        &["seq", "seen", "orders_ahead", "qty_ahead"],
        &[
            ("seq", whole()),
            ("seen", json!({ "type": "boolean" })),
            ("orders_ahead", whole()),
            ("qty_ahead", text()),
        ],
    );
    let order = object(
        &["state"],
        &[
            ("client_order_id", text()),
            ("order_id", text()),
            ("order_ref", text()),
            ("symbol", text()),
            ("side", choice(&["buy", "sell"])),
            ("type", choice(&["limit", "market"])),
            ("qty", text()),
            ("filled", text()),
            ("open", text()),
            ("price", maybe("string")),
            ("time_in_force", text()),
            ("state", choice(&states)),
            ("reason", maybe("string")),
            ("replaces", maybe("string")),
            ("queue", json!({ "oneOf": [queue, { "type": "null" }] })),
        ],
    );
    let fill = whole_object(&[
        ("trade_id", text()),
        ("order_id", text()),
        ("client_order_id", maybe("string")),
        ("symbol", text()),
        ("side", choice(&["buy", "sell"])),
        ("qty", text()),
        ("price", text()),
        ("time_ns", text()),
        ("time_ms", maybe("integer")),
        ("seq", whole()),
    ]);
    let position = whole_object(&[
        ("symbol", text()),
        ("position", text()),
        ("bought", text()),
        ("sold", text()),
        ("cash", text()),
    ]);
    let result = object(
        &["status"],
        &[("status", whole()), ("result", a("Order")), ("error", json!({ "type": "object" }))],
    );
    let trip = whole_object(&[
        ("p50_ns", maybe("integer")),
        ("p99_ns", maybe("integer")),
        ("max_ns", maybe("integer")),
    ]);
    let code: Vec<&str> = CODES.iter().map(|(name, ..)| *name).collect();
    let error = whole_object(&[("code", choice(&code)), ("message", text())]);
    vec![
        ("Order", order),
        ("Orders", whole_object(&[("seq", whole()), ("orders", list(&a("Order")))])),
        ("Positions", whole_object(&[("seq", whole()), ("positions", list(&position))])),
        ("Fills", whole_object(&[("seq", whole()), ("fills", list(&fill))])),
        ("Results", whole_object(&[("results", list(&result))])),
        ("Cancelled", object(&[], &[("cancelled", whole())])),
        (
            "Latency",
            whole_object(&[("orders", whole()), ("inbound", trip.clone()), ("round_trip", trip)]),
        ),
        ("Switch", whole_object(&[("timeout_ms", whole())])),
        ("Token", whole_object(&[("token", text()), ("expires_ms", whole())])),
        ("State", whole_object(&[("state", text())])),
        ("Error", whole_object(&[("error", error)])),
    ]
}

fn public() -> Vec<(&'static str, Value)> {
    let pair = json!({ "type": "array", "items": text(), "minItems": 2, "maxItems": 2 });
    let triple = json!({ "type": "array", "items": text(), "minItems": 3, "maxItems": 3 });
    let snapshot = |rest: &[(&str, Value)]| {
        let head =
            [("channel", text()), ("type", json!({ "const": "snapshot" })), ("symbol", text())];
        whole_object(&[&head, rest].concat())
    };
    let sides = |of: &Value| {
        [("seq", whole()), ("bids", list(of)), ("asks", list(of)), ("checksum", whole())]
    };
    let trade = whole_object(&[
        ("trade_id", text()),
        ("price", text()),
        ("qty", text()),
        ("aggressor", maybe("string")),
        ("time_ns", text()),
        ("time_ms", whole()),
        ("seq", whole()),
        ("broken", json!({ "type": "boolean" })),
    ]);
    let candle = whole_object(&[
        ("time_ms", whole()),
        ("open", text()),
        ("high", text()),
        ("low", text()),
        ("close", text()),
        ("volume", text()),
        ("trades", whole()),
    ]);
    let best = json!({ "oneOf": [pair, { "type": "null" }] });
    let ticker = whole_object(&[
        ("symbol", text()),
        ("bid", best.clone()),
        ("ask", best),
        ("last", maybe("string")),
        ("volume", text()),
        ("trades", whole()),
    ]);
    let auction = whole_object(&[
        ("kind", text()),
        ("paired", text()),
        ("imbalance", text()),
        ("imbalance_side", maybe("string")),
        ("reference_price", maybe("string")),
        ("near_price", maybe("string")),
        ("far_price", maybe("string")),
    ]);
    let instrument = whole_object(&[
        ("symbol", text()),
        ("tick", text()),
        ("price_max", text()),
        ("lot", text()),
        ("qty_min", text()),
        ("qty_max", text()),
    ]);
    let spans: Vec<&str> = SPANS.iter().map(|(name, _)| *name).collect();
    let states = ["trading", "quotation", "paused", "halted", "unknown"];
    let none = |of: Value| json!({ "oneOf": [of, { "type": "null" }] });
    vec![
        ("Time", whole_object(&[("time_ms", whole())])),
        ("Instruments", whole_object(&[("instruments", list(&instrument))])),
        ("Book", snapshot(&sides(&pair))),
        ("Queues", snapshot(&sides(&triple))),
        ("Trades", snapshot(&[("trades", list(&trade))])),
        ("Ticker", snapshot(&[("ticker", none(ticker))])),
        ("Auction", snapshot(&[("auction", none(auction))])),
        ("Status", snapshot(&[("status", choice(&states))])),
        (
            "Candles",
            whole_object(&[
                ("symbol", text()),
                ("interval", choice(&spans)),
                ("candles", list(&candle)),
            ]),
        ),
        (
            "Fairness",
            whole_object(&[
                ("feed", json!({ "type": "object" })),
                ("venue", json!({ "type": ["object", "null"] })),
            ]),
        ),
        (
            "Tree",
            whole_object(&[
                ("epoch", whole()),
                ("hedge", whole()),
                ("nodes", list(&json!({ "type": "object" }))),
            ]),
        ),
        ("Done", whole_object(&[("text", text()), ("data", json!({}))])),
        (
            "Operator",
            asked(
                &["action"],
                &[(
                    "action",
                    json!({ "type": ["string", "object"], "description":
                format!("one of {}, with its parameters", crate::venue::ACTIONS.join(", ")) }),
                )],
            ),
        ),
        ("Document", json!({ "type": "object", "required": ["openapi", "paths"] })),
    ]
}

/// All schemas by name.
pub(super) fn schemas() -> Value {
    let all = [requests(), private(), public()].concat();
    let all: Map<String, Value> =
        all.into_iter().map(|(name, schema)| (name.to_string(), schema)).collect();
    Value::Object(all)
}
