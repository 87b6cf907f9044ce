//! What a request's body asks for, read in one place: whatever the bytes, a request or a refusal.

use serde_json::{Map, Value};
use types::{ClOrdId, Instrument, Price, Qty, Side, TimeInForce};

use crate::decimal;
use crate::error::ApiError;
use crate::unique::Unique;

/// Longest body, bytes.
pub const BODY_MAX: usize = 64 * 1_024;
/// Longest client order id, bytes.
pub const CLIENT_ID_MAX: usize = 14;
/// Longest part of an unknown field's name that its refusal repeats, characters.
const NAME_MAX: usize = 32;

/// Fields of a new order.
pub(crate) const NEW: [&str; 10] = [
    "symbol",
    "side",
    "type",
    "qty",
    "price",
    "time_in_force",
    "post_only",
    "client_order_id",
    "deadline_ms",
    "validate_only",
];
/// Fields of a replace, but the order that it is of.
pub(crate) const REPLACE: [&str; 5] =
    ["client_order_id", "qty", "price", "deadline_ms", "validate_only"];
/// Fields of a dead man's switch.
pub(crate) const CANCEL_AFTER: [&str; 1] = ["timeout_ms"];

/// The instruments of the venue.
#[derive(Clone, Debug, Default)]
pub struct Instruments(pub Vec<Instrument>);

impl Instruments {
    /// By symbol.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn by_symbol(&self, symbol: &str) -> Result<&Instrument, ApiError> {
        let found = self.0.iter().find(|one| one.symbol.as_str() == symbol);
        found.ok_or_else(|| ApiError::new("not_found", format!("no symbol {symbol:?}")))
    }
}

/// How a request to trade is dealt with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Handling {
    /// It is not sent after this time, ms since the epoch by the door's clock.
    pub deadline_ms: Option<u64>,
    /// It is checked and not sent.
    pub validate_only: bool,
}

/// A new order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct New {
    /// The client's own name for it; `None`: the door makes one.
    pub client_id: Option<ClOrdId>,
    /// The instrument that is bought or sold.
    pub instrument: Instrument,
    /// Whether it buys or sells.
    pub side: Side,
    /// Quantity in lots of the instrument, 1 to 2^32 - 1.
    pub qty: Qty,
    /// Limit; `None`: a market order.
    pub price: Option<Price>,
    /// Time in force.
    pub time_in_force: TimeInForce,
    /// Rest or be refused.
    pub post_only: bool,
    /// Deadline, and whether it is only checked.
    pub handling: Handling,
}

/// Another order in the place of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Replace {
    /// The replacement's name.
    pub client_id: ClOrdId,
    /// Lots in total, including what has traded; as decimal text of the instrument, which the replaced
    /// order names.
    pub qty: Decimal,
    /// Limit price, above 0, in units of 1/10000.
    pub price: Price,
    /// Deadline, and whether it is only checked.
    pub handling: Handling,
}

/// A decimal whose places depend on an instrument that is known later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decimal {
    bytes: [u8; 24],
    len: u8,
}

impl Decimal {
    fn new(text: &str) -> Option<Decimal> {
        let mut bytes = [0; 24];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        Some(Decimal { bytes, len: u8::try_from(text.len()).ok()? })
    }

    /// In lots of an instrument; `None`: it is none of its quantities.
    pub fn lots(&self, instrument: &Instrument) -> Option<Qty> {
        let text = std::str::from_utf8(self.bytes.get(..usize::from(self.len))?).ok()?;
        decimal::lots(text, instrument).map(Qty)
    }
}

/// Times in force by their names.
pub const TIMES_IN_FORCE: [(&str, TimeInForce); 4] = [
    ("day", TimeInForce::Day),
    ("gtc", TimeInForce::GoodTillCancelled),
    ("ioc", TimeInForce::ImmediateOrCancel),
    ("fok", TimeInForce::FillOrKill),
];

/// The name of a time in force; others than these come from other doors.
pub fn time_in_force_name(of: TimeInForce) -> &'static str {
    TIMES_IN_FORCE.iter().find(|(_, known)| *known == of).map_or("other", |(name, _)| name)
}

/// The name of a side.
pub fn side_name(side: Side) -> &'static str {
    match side {
        Side::Buy => "buy",
        Side::Sell => "sell",
    }
}

pub(crate) fn object(body: &[u8]) -> Result<Map<String, Value>, ApiError> {
    let wrong = |why: String| ApiError::new("bad_json", why);
    match serde_json::from_slice(body) {
        Ok(Unique(Value::Object(map))) => Ok(map),
        Ok(_) => Err(wrong("the body is JSON, but no object".to_string())),
        Err(error) => Err(wrong(format!("the body is no JSON: {error}"))),
    }
}

pub(crate) fn missing(field: &str) -> ApiError {
    ApiError::new("missing_field", format!("{field} is missing"))
}

pub(crate) fn bad(field: &str, why: &str) -> ApiError {
    ApiError::new("bad_field", format!("{field}: {why}"))
}

/// Refuses a field that a request does not have, by its name: passed over, it would widen what it was to
/// narrow, such as the orders that are cancelled.
pub(crate) fn only(map: &Map<String, Value>, fields: &[&[&str]]) -> Result<(), ApiError> {
    let is_known = |name: &str| fields.iter().any(|some| some.contains(&name));
    let Some(name) = map.keys().find(|name| !is_known(name)) else { return Ok(()) };
    let shown: String = name.chars().take(NAME_MAX).collect();
    let why = match fields.concat().join(", ") {
        all if all.is_empty() => "no field; this request has no body".to_string(),
        all => format!("no field of this request, which has {all}"),
    };
    Err(bad(&shown, &why))
}

/// Refuses a body with fields where there are none: nothing and an empty object are the same.
///
/// # Errors
/// The first field, or it is no JSON object.
pub(crate) fn no_fields(body: &[u8]) -> Result<(), ApiError> {
    if body.trim_ascii().is_empty() { Ok(()) } else { only(&object(body)?, &[]) }
}

/// A text; JSON numbers are refused, because their decimals are not exact in every client.
pub(crate) fn text<'a>(
    map: &'a Map<String, Value>,
    field: &str,
) -> Result<Option<&'a str>, ApiError> {
    match map.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(bad(field, "write a string")),
    }
}

pub(crate) fn switch(map: &Map<String, Value>, field: &str) -> Result<bool, ApiError> {
    match map.get(field) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(on)) => Ok(*on),
        Some(_) => Err(bad(field, "write true or false")),
    }
}

/// A whole number that JSON writes as one.
pub(crate) fn number(map: &Map<String, Value>, field: &str) -> Result<Option<u64>, ApiError> {
    match map.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value.as_u64().map(Some).ok_or_else(|| bad(field, "write a whole number")),
    }
}

fn handling(map: &Map<String, Value>) -> Result<Handling, ApiError> {
    let deadline_ms = number(map, "deadline_ms")?;
    Ok(Handling { deadline_ms, validate_only: switch(map, "validate_only")? })
}

/// A client order id: 1 to 14 letters, digits, `-`, `_` or `.`.
///
/// # Errors
/// The field, and what it may be.
pub fn client_id(text: &str) -> Result<ClOrdId, ApiError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let mut id = [b' '; CLIENT_ID_MAX];
    match id.get_mut(..text.len()) {
        Some(room) if !text.is_empty() && text.bytes().all(plain) => {
            room.copy_from_slice(text.as_bytes());
            Ok(ClOrdId(id))
        }
        _ => Err(bad("client_order_id", "1 to 14 of letters, digits, - _ and .")),
    }
}

/// A client order id of an order that is to be entered: neither `.` nor `..`, which clients take out of a path as
/// steps, so that it could not be asked for.
///
/// # Errors
/// The field, and what it may be.
pub(crate) fn new_client_id(text: &str) -> Result<ClOrdId, ApiError> {
    match text {
        "." | ".." => Err(bad("client_order_id", "neither . nor .., which are steps of a path")),
        name => client_id(name),
    }
}

pub(crate) fn one_of<T: Copy>(field: &str, text: &str, all: &[(&str, T)]) -> Result<T, ApiError> {
    let found = all.iter().find(|(name, _)| *name == text);
    let names = || all.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    found.map(|(_, value)| *value).ok_or_else(|| bad(field, &format!("one of {}", names())))
}

/// Refuses what is no quantity of an instrument.
pub(crate) fn bad_qty(of: &Instrument) -> ApiError {
    let most = decimal::lots_text(of.qty_max.0, of.lot_decimals);
    let places = of.lot_decimals;
    bad(
        "qty",
        &format!("a decimal above 0, {most} at most, with at most {places} places, in a string"),
    )
}

fn price_of(map: &Map<String, Value>) -> Result<Option<Price>, ApiError> {
    let Some(text) = text(map, "price")? else { return Ok(None) };
    let price = decimal::price(text).filter(|price| price.0 > 0);
    price
        .map(Some)
        .ok_or_else(|| bad("price", "a decimal above 0 with at most 4 places, in a string"))
}

/// Reads the body of a new order.
///
/// # Errors
/// The refusal.
pub fn new_order(body: &[u8], instruments: &Instruments) -> Result<New, ApiError> {
    let map = object(body)?;
    only(&map, &[&NEW])?;
    new_of(&map, instruments)
}

/// A new order of the fields of an object.
///
/// # Errors
/// The refusal.
pub(crate) fn new_of(map: &Map<String, Value>, instruments: &Instruments) -> Result<New, ApiError> {
    let symbol = text(map, "symbol")?.ok_or_else(|| missing("symbol"))?;
    let instrument = *instruments.by_symbol(symbol)?;
    let sides = [("buy", Side::Buy), ("sell", Side::Sell)];
    let side = text(map, "side")?.ok_or_else(|| missing("side"))?;
    let kinds = [("limit", false), ("market", true)];
    let market = match text(map, "type")? {
        Some(kind) => one_of("type", kind, &kinds)?,
        None => false,
    };
    let price = price_of(map)?;
    match (market, price) {
        (false, None) => return Err(missing("price")),
        (true, Some(_)) => return Err(bad("price", "a market order has none")),
        _ => {}
    }
    let qty = text(map, "qty")?.ok_or_else(|| missing("qty"))?;
    let lots =
        decimal::lots(qty, &instrument).filter(|lots| (1..=u64::from(u32::MAX)).contains(lots));
    let lots = lots.ok_or_else(|| bad_qty(&instrument))?;
    let time_in_force = match text(map, "time_in_force")? {
        Some(name) => one_of("time_in_force", name, &TIMES_IN_FORCE)?,
        None => TimeInForce::Day,
    };
    Ok(New {
        client_id: text(map, "client_order_id")?.map(new_client_id).transpose()?,
        instrument,
        side: one_of("side", side, &sides)?,
        qty: Qty(lots),
        price,
        time_in_force,
        post_only: switch(map, "post_only")?,
        handling: handling(map)?,
    })
}

/// Reads the body of a replace.
///
/// # Errors
/// The refusal.
pub fn replace(body: &[u8]) -> Result<Replace, ApiError> {
    let map = object(body)?;
    only(&map, &[&REPLACE])?;
    replace_of(&map)
}

/// A replace of the fields of an object.
///
/// # Errors
/// The refusal.
pub(crate) fn replace_of(map: &Map<String, Value>) -> Result<Replace, ApiError> {
    let id = text(map, "client_order_id")?.ok_or_else(|| missing("client_order_id"))?;
    let qty = text(map, "qty")?.ok_or_else(|| missing("qty"))?;
    let qty = Decimal::new(qty).ok_or_else(|| bad("qty", "a decimal in a string"))?;
    let price = price_of(map)?.ok_or_else(|| missing("price"))?;
    Ok(Replace { client_id: new_client_id(id)?, qty, price, handling: handling(map)? })
}

/// Reads the body of a dead man's switch: milliseconds until all orders are cancelled; 0: off.
///
/// # Errors
/// The refusal.
pub fn cancel_after(body: &[u8]) -> Result<u64, ApiError> {
    let map = object(body)?;
    only(&map, &[&CANCEL_AFTER])?;
    cancel_after_of(&map)
}

/// Milliseconds of a dead man's switch, of the fields of an object.
///
/// # Errors
/// The refusal.
pub(crate) fn cancel_after_of(map: &Map<String, Value>) -> Result<u64, ApiError> {
    let ms = map.get("timeout_ms").ok_or_else(|| missing("timeout_ms"))?.as_u64();
    let good = ms.filter(|ms| *ms == 0 || (500..=86_400_000).contains(ms));
    good.ok_or_else(|| bad("timeout_ms", "a number of 500 to 86400000, or 0 for off"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use types::{InstrumentId, Symbol, limits};

    use super::*;

    fn instruments() -> Instruments {
        let one = |(id, name, lot_decimals)| Instrument {
            id: InstrumentId(id),
            symbol: Symbol::new(name).expect("a symbol"),
            tick: Price(100),
            price_max: Price(limits::PRICE_MAX),
            qty_max: Qty(limits::QTY_MAX),
            lot_decimals,
        };
        Instruments([(1, "BTCUSD", 8), (2, "AAA", 0)].map(one).into())
    }

    #[test]
    fn an_order_is_read() {
        let body = br#"{"symbol":"BTCUSD","side":"sell","qty":"0.5","price":"78000.25",
            "client_order_id":"a-1","time_in_force":"gtc","post_only":true,"deadline_ms":null}"#;
        let order = new_order(body, &instruments()).expect("an order");
        assert_eq!((order.side, order.qty, order.post_only), (Side::Sell, Qty(50_000_000), true));
        assert_eq!(order.price, Some(Price(780_002_500)));
        assert_eq!(order.client_id, Some(ClOrdId(*b"a-1           ")));
        let market = br#"{"symbol":"AAA","side":"buy","qty":"7","type":"market"}"#;
        let order = new_order(market, &instruments()).expect("an order");
        assert_eq!(
            (order.price, order.client_id, order.time_in_force),
            (None, None, TimeInForce::Day)
        );
    }

    #[test]
    fn mistakes_name_their_field() {
        let with = |field: &str, value: Value| {
            let mut map = Map::new();
            for (field, value) in [("symbol", "AAA"), ("side", "buy"), ("qty", "1"), ("price", "2")]
            {
                map.insert(field.to_string(), Value::from(value));
            }
            map.insert(field.to_string(), value);
            let body = Value::Object(map).to_string();
            new_order(body.as_bytes(), &instruments()).err().map(|refused| {
                assert!(
                    refused.code == "not_found" || refused.message.contains(field),
                    "{refused:?}"
                );
                refused.code
            })
        };
        assert_eq!(with("post_only", Value::from(false)), None);
        for (field, value, code) in [
            ("symbol", Value::from("ZZZ"), "not_found"),
            ("symbol", Value::Null, "missing_field"),
            ("side", Value::from("BUY"), "bad_field"),
            ("qty", Value::from(1), "bad_field"),
            ("qty", Value::from("1.5"), "bad_field"),
            ("qty", Value::from("0"), "bad_field"),
            ("qty", Value::from("4294967296"), "bad_field"),
            ("price", Value::from("1.00001"), "bad_field"),
            ("price", Value::from("0"), "bad_field"),
            ("price", Value::Null, "missing_field"),
            ("type", Value::from("stop"), "bad_field"),
            ("time_in_force", Value::from("gtd"), "bad_field"),
            ("client_order_id", Value::from("with space"), "bad_field"),
            ("client_order_id", Value::from("fifteen-letters"), "bad_field"),
            ("post_only", Value::from("yes"), "bad_field"),
        ] {
            assert_eq!(with(field, value.clone()), Some(code), "{field} {value}");
        }
        for (symbol, qty, most) in [
            ("AAA", "0", "4294967295"),
            ("AAA", "4294967296", "4294967295"),
            ("BTCUSD", "43", "42.94967295"),
        ] {
            let body = format!(r#"{{"symbol":"{symbol}","side":"buy","qty":"{qty}","price":"1"}}"#);
            let refused = new_order(body.as_bytes(), &instruments()).unwrap_err();
            assert!(refused.message.contains(most), "{refused:?}");
        }
        for body in ["", "[]", "{", "\"x\"", "{\"symbol\":}"] {
            assert_eq!(new_order(body.as_bytes(), &instruments()).unwrap_err().code, "bad_json");
        }
        let deep = "[".repeat(100_000);
        let refused = new_order(deep.as_bytes(), &instruments()).unwrap_err();
        assert_eq!(refused.code, "bad_json", "no deep recursion");
    }

    #[test]
    fn replaces_and_switches_are_read() {
        let body = br#"{"client_order_id":"b","qty":"0.25","price":"1"}"#;
        let read = replace(body).expect("a replace");
        assert_eq!(read.qty.lots(&instruments().0[0]), Some(Qty(25_000_000)));
        assert_eq!(read.qty.lots(&instruments().0[1]), None, "no half lots");
        assert!(replace(br#"{"client_order_id":"b","qty":"1"}"#).is_err());
        assert_eq!(cancel_after(br#"{"timeout_ms":0}"#), Ok(0));
        assert!(cancel_after(br#"{"timeout_ms":1}"#).is_err());
    }

    #[test]
    fn fields_that_a_request_does_not_have_are_refused_by_name() {
        let new = r#""symbol":"AAA","side":"buy","qty":"1","price":"2""#;
        let replace_by = r#""client_order_id":"b","qty":"1","price":"1""#;
        let off = r#""timeout_ms":0"#;
        let read = |of: &str, body: &str| match of {
            "new" => new_order(body.as_bytes(), &instruments()).map(drop),
            "replace" => replace(body.as_bytes()).map(drop),
            "switch" => cancel_after(body.as_bytes()).map(drop),
            _ => no_fields(body.as_bytes()),
        };
        for (of, fields) in [("new", new), ("replace", replace_by), ("switch", off), ("none", "")] {
            assert_eq!(read(of, &format!("{{{fields}}}")), Ok(()), "control: {of}");
            let comma = if fields.is_empty() { "" } else { "," };
            // Whatever its value is, and also where it is a field of something else.
            for (name, value) in
                [("symb", "\"AAA\""), ("tif", "null"), ("op", "\"new\""), ("", "0")]
            {
                let body = format!("{{{fields}{comma}\"{name}\":{value}}}");
                let refused = read(of, &body).expect_err(&body);
                assert_eq!(refused.code, "bad_field");
                assert!(refused.message.starts_with(&format!("{name}: no field")), "{refused:?}");
            }
        }
        let long = format!("{{\"{}\":1}}", "é".repeat(10_000));
        let refused = cancel_after(long.as_bytes()).unwrap_err();
        assert!(refused.code == "bad_field" && refused.message.len() < 200, "{refused:?}");
        assert!(refused.message.contains("which has timeout_ms"), "{refused:?}");
        for (body, due) in
            [("", None), (" \r\n", None), ("null", Some("bad_json")), ("x", Some("bad_json"))]
        {
            assert_eq!(no_fields(body.as_bytes()).err().map(|of| of.code), due, "{body:?}");
        }
    }

    /// Pieces that bodies are made of, so that many get far.
    fn piece() -> impl Strategy<Value = String> {
        prop_oneof![
            Just("{".to_string()),
            Just("}".to_string()),
            Just("\"".to_string()),
            Just(":".to_string()),
            Just(",".to_string()),
            Just("\"symbol\":\"AAA\"".to_string()),
            Just("\"side\":\"buy\"".to_string()),
            Just("\"qty\":\"1\"".to_string()),
            Just("\"price\":\"2.5\"".to_string()),
            Just("\"op\":\"subscribe\"".to_string()),
            Just("\"channels\":[\"book\"]".to_string()),
            Just("\"timeout_ms\":5e9".to_string()),
            ".{0,6}",
        ]
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_request_or_a_refusal(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (new_order(&bytes, &instruments()), replace(&bytes), cancel_after(&bytes));
        }

        #[test]
        fn any_mixture_of_pieces_is_a_request_or_a_refusal(pieces in proptest::collection::vec(piece(), 0..14)) {
            let text = pieces.concat();
            let bytes = text.as_bytes();
            let _ = (new_order(bytes, &instruments()), replace(bytes), cancel_after(bytes));
        }

        #[test]
        fn what_is_read_is_in_range(qty in ".{0,24}", price in "[0-9.]{0,14}") {
            let mut map = Map::new();
            for (field, value) in [("symbol", "AAA"), ("side", "buy"), ("qty", &qty), ("price", &price)] {
                map.insert(field.to_string(), Value::from(value));
            }
            if let Ok(order) = new_order(Value::Object(map).to_string().as_bytes(), &instruments()) {
                prop_assert!(order.qty.0 > 0 && order.qty.0 <= u64::from(u32::MAX));
                prop_assert!(order.price.is_some_and(|price| price.0 > 0));
            }
        }
    }
}
