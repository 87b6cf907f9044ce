//! What a WebSocket message, a part of a batch or a call of the sandbox asks for, read in one place.

use serde_json::{Map, Value};

use crate::account::{Ask, Fault};
use crate::auth::Scope;
use crate::error::ApiError;
use crate::request::{
    CANCEL_AFTER, Instruments, NEW, REPLACE, bad, cancel_after_of, client_id, missing, new_of,
    number, object, only, replace_of, switch, text,
};

/// Requests of a batch at least.
pub const BATCH_MIN: usize = 2;
/// Requests of a batch at most.
pub const BATCH_MAX: usize = 15;
/// Names in a list at most.
const NAMES_MAX: usize = 256;
/// Longest `id` of a message, bytes.
const ID_MAX: usize = 64;

/// Fields that every message may have, and every part of a batch.
pub(crate) const COMMON: [&str; 2] = ["op", "id"];
/// Fields of a batch.
pub(crate) const BATCH: [&str; 1] = ["requests"];
/// Fields of a fault.
pub(crate) const FAULT: [&str; 3] = ["fault", "count", "ms"];
/// Fields of a signature, in a message that proves a key by one.
const SIGNATURE: [&str; 4] = ["key", "timestamp", "nonce", "signature"];
/// What messages ask for, and the fields that each has besides [`COMMON`].
const OPS: [(&str, &[&[&str]]); 12] = [
    ("subscribe", &[&["channels", "symbols", "since"]]),
    ("unsubscribe", &[&["channels", "symbols"]]),
    ("auth", &[&["token"], &SIGNATURE]),
    ("cancel_on_disconnect", &[&["enabled"]]),
    ("new", &[&NEW]),
    ("replace", &[&["order"], &REPLACE]),
    ("cancel", &[&["order"]]),
    ("cancel_all", &[&["symbol"]]),
    ("cancel_after", &[&CANCEL_AFTER]),
    ("order", &[&["order"]]),
    ("batch", &[&BATCH]),
    ("ping", &[]),
];

/// What a WebSocket message asks for.
#[derive(Clone, Debug)]
pub enum SocketOp {
    /// Channels of symbols from now on.
    Subscribe {
        /// Names of channels.
        channels: Vec<String>,
        /// Symbols; empty for private channels.
        symbols: Vec<String>,
        /// What came after this `seq` is told again instead of a snapshot, where it is still known.
        since: Option<u64>,
    },
    /// No longer.
    Unsubscribe {
        /// Names of channels.
        channels: Vec<String>,
        /// Symbols of these channels; empty for private ones.
        symbols: Vec<String>,
    },
    /// Proves a key: the parts of a signature of `GET /v1/ws`.
    Auth {
        /// The key.
        key: String,
        /// Its timestamp.
        timestamp: String,
        /// Its nonce, or nothing.
        nonce: String,
        /// The signature.
        signature: String,
    },
    /// Proves a key by a token of `POST /v1/ws_token`.
    Token(String),
    /// Whether the account's orders go with this connection.
    CancelOnDisconnect(bool),
    /// A request of the account.
    Ask(Ask),
    /// Several, each answered for itself.
    Batch(Vec<Result<Ask, ApiError>>),
    /// A request or a batch that can't be read, and the scope that it needs.
    Refused(Scope, ApiError),
    /// Is answered by `pong`.
    Ping,
}

/// A WebSocket message: what it asks for, and the client's own name for it.
#[derive(Clone, Debug)]
pub struct SocketMessage {
    /// `id`, a text or a whole number, that the answer repeats.
    pub id: Option<Value>,
    /// What it asks for, or why not.
    pub op: Result<SocketOp, ApiError>,
}

/// What goes wrong on purpose on a sandbox.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SandboxFault {
    /// With requests to trade.
    Requests(Fault),
    /// All WebSockets of the account are closed.
    Drop,
    /// So many requests to trade are carried out, and their connections end instead of an answer.
    DropAnswers(u32),
    /// So many updates of public channels are not sent to the account's WebSockets.
    Skip(u32),
}

/// Refuses a message of an unknown `op`, or with a field that it does not have.
fn check_fields(op: &str, map: &Map<String, Value>) -> Result<(), ApiError> {
    let Some((_, fields)) = OPS.iter().find(|(known, _)| *known == op) else {
        let all = OPS.map(|(name, _)| name).join(", ");
        return Err(bad("op", &format!("one of {all}")));
    };
    only(map, &[&[&COMMON[..]], *fields].concat())
}

fn names(map: &Map<String, Value>, field: &str) -> Result<Vec<String>, ApiError> {
    let list = match map.get(field) {
        None => return Ok(Vec::new()),
        Some(Value::Array(list)) if list.len() <= NAMES_MAX => list,
        Some(_) => return Err(bad(field, &format!("a list of at most {NAMES_MAX} strings"))),
    };
    let name = |value: &Value| value.as_str().filter(|name| name.len() <= 32).map(str::to_string);
    let names: Option<Vec<String>> = list.iter().map(name).collect();
    names.ok_or_else(|| bad(field, "a list of strings"))
}

fn channels(map: &Map<String, Value>) -> Result<Vec<String>, ApiError> {
    let channels = names(map, "channels")?;
    if channels.is_empty() { Err(missing("channels")) } else { Ok(channels) }
}

fn need(map: &Map<String, Value>, field: &str) -> Result<String, ApiError> {
    text(map, field)?.map(str::to_string).ok_or_else(|| missing(field))
}

/// The request of an account that `op` names; `None`: it names none.
fn ask(
    op: &str,
    map: &Map<String, Value>,
    instruments: &Instruments,
) -> Result<Option<Ask>, ApiError> {
    let order = || client_id(&need(map, "order")?);
    Ok(Some(match op {
        "new" => Ask::New(new_of(map, instruments)?),
        "replace" => Ask::Replace(order()?, replace_of(map)?),
        "cancel" => Ask::Cancel(order()?),
        "cancel_all" => {
            let symbol = text(map, "symbol")?;
            let of = |name: &str| instruments.by_symbol(name).map(|one| one.symbol);
            Ask::MassCancel(symbol.map(of).transpose()?)
        }
        "cancel_after" => Ask::CancelAfter(cancel_after_of(map)?),
        "order" => Ask::Order(order()?, None),
        _ => return Ok(None),
    }))
}

/// Reads the requests of a batch: each a request or its refusal.
///
/// # Errors
/// There are too few or too many, or it is no list.
pub(crate) fn batch_of(
    map: &Map<String, Value>,
    instruments: &Instruments,
) -> Result<Vec<Result<Ask, ApiError>>, ApiError> {
    let list = match map.get("requests") {
        None | Some(Value::Null) => return Err(missing("requests")),
        Some(Value::Array(list)) if (BATCH_MIN..=BATCH_MAX).contains(&list.len()) => list,
        Some(_) => {
            let why = format!("a list of {BATCH_MIN} to {BATCH_MAX} requests");
            return Err(bad("requests", &why));
        }
    };
    let one = |value: &Value| {
        let Value::Object(map) = value else { return Err(bad("requests", "each is an object")) };
        let of = "one of new, replace, cancel";
        match text(map, "op")?.ok_or_else(|| missing("op"))? {
            op @ ("new" | "replace" | "cancel") => {
                check_fields(op, map)?;
                id_of(map)?;
                ask(op, map, instruments)?.ok_or_else(|| bad("op", of))
            }
            _ => Err(bad("op", of)),
        }
    };
    Ok(list.iter().map(one).collect())
}

/// Reads the body of a batch.
///
/// # Errors
/// See [`batch_of`], or it is no JSON object.
pub(crate) fn batch(
    body: &[u8],
    instruments: &Instruments,
) -> Result<Vec<Result<Ask, ApiError>>, ApiError> {
    let map = object(body)?;
    only(&map, &[&BATCH])?;
    batch_of(&map, instruments)
}

/// Reads the body of a fault: `{"fault": "reject" | "delay" | "drop" | "drop_answer" | "skip"}`, with
/// `count` (1) and of a delay `ms`.
///
/// # Errors
/// The refusal.
pub fn fault(body: &[u8]) -> Result<SandboxFault, ApiError> {
    let map = object(body)?;
    only(&map, &[&FAULT])?;
    let count = number(&map, "count")?.unwrap_or(1);
    let count = u32::try_from(count).ok().filter(|count| *count <= 1_000);
    let count = count.ok_or_else(|| bad("count", "0 to 1000"))?;
    match need(&map, "fault")?.as_str() {
        "reject" => Ok(SandboxFault::Requests(Fault::Reject(count))),
        "delay" => {
            let ms = number(&map, "ms")?.ok_or_else(|| missing("ms"))?;
            if ms > 60_000 {
                return Err(bad("ms", "0 to 60000"));
            }
            Ok(SandboxFault::Requests(Fault::Delay(count, ms)))
        }
        "drop" => Ok(SandboxFault::Drop),
        "drop_answer" => Ok(SandboxFault::DropAnswers(count)),
        "skip" => Ok(SandboxFault::Skip(count)),
        _ => Err(bad("fault", "one of reject, delay, drop, drop_answer, skip")),
    }
}

/// Reads a WebSocket message: whatever the bytes, what it asks for or a refusal.
pub fn socket_message(message: &[u8], instruments: &Instruments) -> SocketMessage {
    let map = match object(message) {
        Ok(map) => map,
        Err(refused) => return SocketMessage { id: None, op: Err(refused) },
    };
    let (id, read) = match id_of(&map) {
        Ok(id) => (id, op_of(&map, instruments)),
        Err(refused) => (None, Err(refused)),
    };
    let op = match (read, needs(&map)) {
        (Err(refused), Some(scope)) => Ok(SocketOp::Refused(scope, refused)),
        (read, _) => read,
    };
    SocketMessage { id, op }
}

/// The client's name for its message: one that the answer can repeat as it came.
fn id_of(map: &Map<String, Value>) -> Result<Option<Value>, ApiError> {
    match map.get("id") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.len() > ID_MAX => {
            Err(bad("id", &format!("a string has {ID_MAX} bytes at most")))
        }
        Some(id) if id.is_string() || id.is_i64() || id.is_u64() => Ok(Some(id.clone())),
        Some(_) => Err(bad("id", "a string, or a whole number of -2^63 to 2^64 - 1")),
    }
}

/// The scope that a message needs which is a request of the account or a batch.
fn needs(map: &Map<String, Value>) -> Option<Scope> {
    match map.get("op")?.as_str()? {
        "order" => Some(Scope::Read),
        "new" | "replace" | "cancel" | "cancel_all" | "cancel_after" | "batch" => {
            Some(Scope::Trade)
        }
        _ => None,
    }
}

/// The timestamp of a signature: a number, or its digits, which are what is signed.
fn timestamp(map: &Map<String, Value>) -> Result<String, ApiError> {
    match map.get("timestamp") {
        Some(Value::Number(at)) => {
            let wrong = || bad("timestamp", "whole milliseconds since the epoch");
            at.as_u64().map(|at| at.to_string()).ok_or_else(wrong)
        }
        _ => need(map, "timestamp"),
    }
}

fn op_of(map: &Map<String, Value>, instruments: &Instruments) -> Result<SocketOp, ApiError> {
    let op = text(map, "op")?.ok_or_else(|| missing("op"))?;
    check_fields(op, map)?;
    Ok(match op {
        "subscribe" => SocketOp::Subscribe {
            channels: channels(map)?,
            symbols: names(map, "symbols")?,
            since: number(map, "since")?,
        },
        "unsubscribe" => {
            SocketOp::Unsubscribe { channels: channels(map)?, symbols: names(map, "symbols")? }
        }
        "auth" => match text(map, "token")? {
            Some(token) => {
                if let Some(other) =
                    SIGNATURE.iter().find(|name| map.get(**name).is_some_and(|of| !of.is_null()))
                {
                    return Err(bad(other, "a token proves the key alone"));
                }
                SocketOp::Token(token.to_string())
            }
            None => SocketOp::Auth {
                key: need(map, "key")?,
                timestamp: timestamp(map)?,
                nonce: text(map, "nonce")?.unwrap_or("").to_string(),
                signature: need(map, "signature")?,
            },
        },
        "cancel_on_disconnect" => SocketOp::CancelOnDisconnect(switch(map, "enabled")?),
        "batch" => SocketOp::Batch(batch_of(map, instruments)?),
        "ping" => SocketOp::Ping,
        _ => SocketOp::Ask(ask(op, map, instruments)?.ok_or_else(|| bad("op", "no request"))?),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use types::{Instrument, InstrumentId, Price, Qty, Symbol, limits};

    use super::*;

    fn instruments() -> Instruments {
        Instruments(vec![Instrument {
            id: InstrumentId(1),
            symbol: Symbol::new("AAA").expect("a symbol"),
            tick: Price(100),
            price_max: Price(limits::PRICE_MAX),
            qty_max: Qty(limits::QTY_MAX),
            lot_decimals: 0,
        }])
    }

    fn refused(message: &str) -> &'static str {
        match socket_message(message.as_bytes(), &instruments()).op {
            Ok(SocketOp::Refused(_, refused)) => refused.code,
            Ok(op) => panic!("{message}: {op:?}"),
            Err(refused) => refused.code,
        }
    }

    #[test]
    fn messages_are_read_and_keep_their_names() {
        let read = |text: &str| socket_message(text.as_bytes(), &instruments());
        let message = read(
            r#"{"id":7,"op":"new","symbol":"AAA","side":"buy","qty":"2","price":"1.5","validate_only":true}"#,
        );
        assert_eq!(message.id, Some(Value::from(7)));
        let Ok(SocketOp::Ask(Ask::New(new))) = message.op else { panic!("{:?}", message.op) };
        assert!(new.handling.validate_only && new.qty == Qty(2));
        let batch = read(
            r#"{"id":"b","op":"batch","requests":[{"op":"cancel","order":"a"},{"op":"fly"},
                {"op":"replace","order":"a","client_order_id":"b","qty":"1","price":"1","deadline_ms":9}]}"#,
        );
        let Ok(SocketOp::Batch(all)) = batch.op else { panic!("{:?}", batch.op) };
        assert!(matches!(all[0], Ok(Ask::Cancel(_))) && all[1].is_err());
        let Ok(Ask::Replace(_, replace)) = &all[2] else { panic!("{:?}", all[2]) };
        assert_eq!(replace.handling.deadline_ms, Some(9));
        let since = read(r#"{"op":"subscribe","channels":["book"],"symbols":["AAA"],"since":12}"#);
        assert!(matches!(since.op, Ok(SocketOp::Subscribe { since: Some(12), .. })));
        for (message, code) in [
            ("{", "bad_json"),
            (r#"{"op":"fly"}"#, "bad_field"),
            (r#"{"op":"cancel"}"#, "missing_field"),
            (r#"{"op":"cancel_all","symbol":"ZZZ"}"#, "not_found"),
            (r#"{"op":"batch","requests":[{"op":"cancel","order":"a"}]}"#, "bad_field"),
            (
                r#"{"op":"new","symbol":"AAA","side":"buy","qty":"2","price":"1","deadline_ms":-1}"#,
                "bad_field",
            ),
            (r#"{"op":"subscribe"}"#, "missing_field"),
        ] {
            assert_eq!(refused(message), code, "{message}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(refused(&deep), "bad_json", "no deep recursion");
        let named = |id: &str| {
            let message = read(&format!("{{\"op\":\"ping\",\"id\":{id}}}"));
            (message.id.map(|id| id.to_string()), message.op.map(drop).map_err(|of| of.message))
        };
        let text = |length: usize| format!("\"{}\"", "x".repeat(length));
        for good in [&text(64), "0", "-9223372036854775808", "18446744073709551615", "\"\""] {
            assert_eq!(named(good), (Some(good.to_string()), Ok(())), "{good}");
        }
        assert_eq!(named("null"), (None, Ok(())));
        for wrong in [&text(65), "18446744073709551616", "1.5", "true", "[1]"] {
            let (id, op) = named(wrong);
            let why = op.expect_err(wrong);
            assert!(id.is_none() && why.starts_with("id: "), "{wrong}: {why}");
        }
    }

    #[test]
    fn fields_that_a_message_does_not_have_are_refused_by_name() {
        // Everything that each message may have, with its values.
        let whole = [
            r#""op":"subscribe","channels":["book"],"symbols":["AAA"],"since":1"#,
            r#""op":"unsubscribe","channels":["book"],"symbols":["AAA"]"#,
            r#""op":"auth","key":"k","timestamp":1,"nonce":"n","signature":"s""#,
            r#""op":"auth","token":"t","key":null"#,
            r#""op":"cancel_on_disconnect","enabled":true"#,
            r#""op":"new","symbol":"AAA","side":"buy","type":"limit","qty":"1","price":"1","time_in_force":"day",
               "post_only":false,"client_order_id":"a","deadline_ms":1,"validate_only":false"#,
            r#""op":"replace","order":"a","client_order_id":"b","qty":"1","price":"1","deadline_ms":1,
               "validate_only":false"#,
            r#""op":"cancel","order":"a""#,
            r#""op":"cancel_all","symbol":"AAA""#,
            r#""op":"cancel_all""#,
            r#""op":"cancel_after","timeout_ms":500"#,
            r#""op":"order","order":"a""#,
            r#""op":"batch","requests":[{"op":"cancel","order":"a","id":1},{"op":"cancel","order":"b"}]"#,
            r#""op":"ping""#,
        ];
        let read = |fields: &str| {
            let text = format!("{{\"id\":\"mine\",{fields}}}");
            let SocketMessage { id, op } = socket_message(text.as_bytes(), &instruments());
            assert_eq!(id, Some(Value::from("mine")));
            match op {
                Ok(SocketOp::Refused(_, refused)) | Err(refused) => {
                    Err((refused.code, refused.message))
                }
                Ok(_) => Ok(()),
            }
        };
        let mut seen = Vec::new();
        for fields in whole {
            assert_eq!(read(fields), Ok(()), "control");
            seen.push(fields.split('"').nth(3).expect("an op"));
            for (name, value) in [("symb", "\"AAA\""), ("tag", "null"), ("Symbol", "[]")] {
                let (code, why) = read(&format!("{fields},\"{name}\":{value}")).expect_err(fields);
                assert!(
                    code == "bad_field" && why.starts_with(&format!("{name}: no field")),
                    "{why}"
                );
            }
        }
        assert!(OPS.iter().all(|(op, _)| seen.contains(op)), "each is tried");
        let refused = read(r#""op":"cancel_all","symb":"AAA""#).unwrap_err().1;
        assert!(refused.ends_with("which has op, id, symbol"), "{refused}");
        // A part of a batch is refused alone, and a second way to prove a key is none to pass over.
        let parts = r#"{"requests":[{"op":"cancel","order":"a","x":1},{"op":"cancel","order":"b"},
            {"op":"cancel","order":"b","id":[]}]}"#;
        let parts = batch(parts.as_bytes(), &instruments()).expect("a batch");
        assert_eq!(parts.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true, false]);
        let refused = read(r#""op":"auth","token":"t","key":"k""#).unwrap_err().1;
        assert!(refused.starts_with("key: "), "{refused}");
        for body in [r#"{"requests":[{},{}],"x":1}"#, r#"{"fault":"skip","counts":3}"#] {
            let refused = match body.contains("fault") {
                true => fault(body.as_bytes()).map(drop),
                false => batch(body.as_bytes(), &instruments()).map(drop),
            };
            assert_eq!(refused.expect_err(body).code, "bad_field");
        }
    }

    #[test]
    fn faults_are_read() {
        let read = |text: &str| fault(text.as_bytes()).map_err(|refused| refused.code);
        assert_eq!(
            read(r#"{"fault":"delay","ms":50,"count":3}"#),
            Ok(SandboxFault::Requests(Fault::Delay(3, 50)))
        );
        assert_eq!(read(r#"{"fault":"skip"}"#), Ok(SandboxFault::Skip(1)));
        assert_eq!(read(r#"{"fault":"delay"}"#), Err("missing_field"));
        assert_eq!(read(r#"{"fault":"delay","ms":60001}"#), Err("bad_field"));
        assert_eq!(read(r#"{"fault":"reject","count":1001}"#), Err("bad_field"));
        assert_eq!(read(r#"{"fault":"earthquake"}"#), Err("bad_field"));
    }

    proptest! {
        #[test]
        fn any_message_is_an_op_or_a_refusal(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            parts in proptest::collection::vec(prop_oneof![
                Just("{".to_string()), Just("}".to_string()), Just(",".to_string()), Just(":".to_string()),
                Just("\"op\":\"batch\"".to_string()), Just("\"op\":\"new\"".to_string()),
                Just("\"requests\":[{},1]".to_string()), Just("\"order\":\"a\"".to_string()),
                Just("\"channels\":[\"book\"]".to_string()), Just("\"id\":1e99".to_string()),
                Just("\"fault\":\"delay\"".to_string()), Just("\"ms\":5".to_string()), ".{0,6}",
            ], 0..14),
        ) {
            let _ = (socket_message(&bytes, &instruments()), fault(&bytes));
            let text = parts.concat();
            let _ = (socket_message(text.as_bytes(), &instruments()), fault(text.as_bytes()));
        }
    }
}
