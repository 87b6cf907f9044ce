//! The OpenAPI document of the REST paths, made of the same tables as the refusals.

use serde_json::{Map, Value, json};

use crate::error::CODES;
use crate::request::TIMES_IN_FORCE;

/// A path and what is told of it: method, path, whether it is signed, one line, parameters of the query.
type Operation =
    (&'static str, &'static str, bool, &'static str, &'static [(&'static str, &'static str)]);

const OPERATIONS: [Operation; 17] = [
    ("get", "/v1/time", false, "The door's clock, ms since the epoch", &[]),
    (
        "get",
        "/v1/instruments",
        false,
        "All instruments: tick, lot, largest price and quantity",
        &[],
    ),
    (
        "get",
        "/v1/book/{symbol}",
        false,
        "Levels of a book, best first",
        &[("depth", "1 to 500, default 100")],
    ),
    (
        "get",
        "/v1/trades/{symbol}",
        false,
        "The last trades, newest first",
        &[("limit", "1 to 1000, default 100")],
    ),
    ("get", "/v1/ticker/{symbol}", false, "Best prices, last trade, volume", &[]),
    ("get", "/v1/status/{symbol}", false, "State of trading", &[]),
    ("get", "/v1/openapi.json", false, "This document", &[]),
    ("get", "/v1/orders", true, "Open orders of the account", &[]),
    (
        "post",
        "/v1/orders",
        true,
        "Enters an order; again with the same client_order_id and terms: its state",
        &[],
    ),
    (
        "delete",
        "/v1/orders",
        true,
        "Cancels all orders of the account",
        &[("symbol", "of this symbol only")],
    ),
    ("get", "/v1/orders/{id}", true, "An order by its client_order_id", &[]),
    ("put", "/v1/orders/{id}", true, "Replaces an order", &[]),
    ("delete", "/v1/orders/{id}", true, "Cancels an order", &[]),
    ("get", "/v1/positions", true, "Positions and cash of the account", &[]),
    (
        "get",
        "/v1/fills",
        true,
        "The last fills, newest first",
        &[("limit", "1 to 10000, default 100")],
    ),
    (
        "post",
        "/v1/cancel_after",
        true,
        "Cancels all orders unless asked again in time; 0: off",
        &[],
    ),
    ("get", "/v1/ws", false, "WebSocket; see docs/web.md for its messages", &[]),
];

fn text() -> Value {
    json!({ "type": "string" })
}

fn object(required: &[&str], properties: &[(&str, Value)]) -> Value {
    let properties: Map<String, Value> =
        properties.iter().map(|(name, kind)| ((*name).to_string(), kind.clone())).collect();
    json!({ "type": "object", "required": required, "properties": properties })
}

fn schemas() -> Value {
    let decimal = json!({ "type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?$" });
    let id = json!({ "type": "string", "pattern": "^[A-Za-z0-9._-]{1,14}$" });
    let lives: Vec<&str> = TIMES_IN_FORCE.iter().map(|(name, _)| *name).collect();
    let codes: Vec<&str> = CODES.iter().map(|(name, ..)| *name).collect();
    let new = object(
        &["symbol", "side", "qty"],
        &[
            ("symbol", text()),
            ("side", json!({ "type": "string", "enum": ["buy", "sell"] })),
            ("type", json!({ "type": "string", "enum": ["limit", "market"], "default": "limit" })),
            ("qty", decimal.clone()),
            ("price", decimal.clone()),
            ("time_in_force", json!({ "type": "string", "enum": lives, "default": "day" })),
            ("post_only", json!({ "type": "boolean", "default": false })),
            ("client_order_id", id.clone()),
        ],
    );
    let order = object(
        &["client_order_id", "order_id", "symbol", "side", "qty", "filled", "open", "state"],
        &[
            ("client_order_id", text()),
            ("order_id", text()),
            ("order_ref", text()),
            ("symbol", text()),
            ("side", text()),
            ("type", text()),
            ("qty", text()),
            ("filled", text()),
            ("open", text()),
            ("price", json!({ "type": ["string", "null"] })),
            ("time_in_force", text()),
            (
                "state",
                json!({ "type": "string", "enum":
                ["pending", "open", "filled", "cancelled", "rejected", "replaced"] }),
            ),
            ("reason", json!({ "type": ["string", "null"] })),
            ("replaces", json!({ "type": ["string", "null"] })),
        ],
    );
    let code = json!({ "type": "string", "enum": codes });
    let error = object(
        &["error"],
        &[("error", object(&["code", "message"], &[("code", code), ("message", text())]))],
    );
    let replace = object(
        &["client_order_id", "qty", "price"],
        &[("client_order_id", id), ("qty", decimal.clone()), ("price", decimal)],
    );
    let switch =
        object(&["timeout_ms"], &[("timeout_ms", json!({ "type": "integer", "minimum": 0 }))]);
    json!({ "NewOrder": new, "Order": order, "Replace": replace, "CancelAfter": switch, "Error": error })
}

/// The document.
pub(crate) fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for (method, path, signed, summary, query) in OPERATIONS {
        let mut parameters: Vec<Value> = path
            .split('{')
            .skip(1)
            .filter_map(|rest| rest.split('}').next())
            .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": text() }))
            .collect();
        parameters.extend(query.iter().map(|(name, what)| {
            json!({ "name": name, "in": "query", "required": false, "description": what, "schema": text() })
        }));
        let refusal = json!({ "$ref": "#/components/schemas/Error" });
        let error = json!({ "description": "refused", "content": { "application/json": { "schema": refusal } } });
        let done = json!({ "description": "done", "content": { "application/json": { "schema": { "type": "object" } } } });
        let mut responses = json!({ "200": done, "default": error });
        let mut operation = json!({ "summary": summary, "parameters": parameters });
        let body = match (method, path) {
            ("post", "/v1/orders") => Some("NewOrder"),
            ("put", _) => Some("Replace"),
            ("post", _) => Some("CancelAfter"),
            _ => None,
        };
        if let Some(name) = body {
            let schema = json!({ "$ref": format!("#/components/schemas/{name}") });
            operation["requestBody"] = json!({ "required": true, "content": { "application/json": { "schema": schema } } });
        }
        if signed {
            operation["security"] = json!([{ "key": [], "timestamp": [], "sign": [] }]);
            responses["202"] =
                json!({ "description": "sent, not answered within 3 s: ask for the order" });
        }
        if path == "/v1/ws" {
            responses = json!({ "101": { "description": "the connection is a WebSocket" }, "default": error });
        }
        operation["responses"] = responses;
        let entry = paths.entry(path.to_string()).or_insert_with(|| json!({}));
        entry[method] = operation;
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
            "Prices and quantities are decimals in strings. Unknown fields are ignored." },
        "paths": paths,
        "components": {
            "schemas": schemas(),
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

    #[test]
    fn every_operation_and_code_is_in_the_document() {
        let document = document();
        for (method, path, ..) in OPERATIONS {
            assert!(document["paths"][path][method]["responses"].is_object(), "{method} {path}");
        }
        for (name, status, _) in CODES {
            assert_eq!(document["x-error-codes"][name]["status"], status);
        }
    }
}
