//! FAST for OPRA, versions 1 and 2, as descriptions for [`crate::slots`].

use crate::slots::{
    Appendage, Category, Description, Format, Framing, Kind, More, Repeat, Rule, Slot, slot,
};

const fn number(name: &'static str) -> Slot {
    Slot { name, kind: Kind::Number, rule: Rule::Copy }
}

const fn short(name: &'static str) -> Slot {
    Slot { name, kind: Kind::Short, rule: Rule::Copy }
}

const fn long(name: &'static str) -> Slot {
    Slot { name, kind: Kind::Long, rule: Rule::Copy }
}

const fn counter(name: &'static str) -> Slot {
    Slot { name, kind: Kind::Number, rule: Rule::Increment }
}

/// Most repetitions in a message: their number has two digits.
const REPEATED_MAX: u64 = 99;

/// Values of the BBO indicator that append nothing.
const NO_BEST: &[u8] = b"ABDEFHIJL ";
const BEST_OFFER: &[u8] = b"CGK";
const BEST_BID: &[u8] = b"MNP";
const BEST_BOTH: &[u8] = b"O";

const fn category(code: u8, name: &'static str, slots: &'static [u8], more: More) -> Category {
    Category { code, name, slots, more }
}

/// FAST for OPRA, version 2.
#[derive(Clone, Copy, Debug)]
pub struct V2;

impl Description for V2 {
    const FORMAT: Format = Format {
        name: "opra-fast-v2",
        slots: &[
            number("category"),
            number("type"),
            number("participant"),
            number("retransmission"),
            counter("sequence"),
            number("time"),
            short("symbol"),
            number("expiration month"),
            number("expiration day"),
            number("expiration year"),
            number("strike denominator"),
            number("strike"),
            number("strike code"),
            number("volume"),
            number("open interest"),
            number("premium denominator"),
            number("premium"),
            number("open"),
            number("high"),
            number("low"),
            number("last"),
            number("net change indicator"),
            number("net change"),
            number("underlying denominator"),
            number("underlying"),
            number("bid"),
            number("bid size"),
            number("offer"),
            number("offer size"),
            number("session"),
            number("bbo indicator"),
            number("best bid participant"),
            number("best bid denominator"),
            number("best bid"),
            number("best bid size"),
            number("best offer participant"),
            number("best offer denominator"),
            number("best offer"),
            number("best offer size"),
            number("indices"),
            number("spot values"),
            short("index symbol"),
            short("index value"),
            short("bid index value"),
            short("offer index value"),
            short("currency symbol"),
            number("decimal places"),
            number("spot value"),
            long("text"),
            long("unknown"),
        ],
        category: 0,
        other: &[0, 49],
        categories: &[
            category(
                b'a',
                "equity and index last sale",
                &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 29],
                More::Nothing,
            ),
            category(
                b'd',
                "open interest",
                &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14],
                More::Nothing,
            ),
            category(
                b'f',
                "equity and index end of day summary",
                &[
                    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 18, 19, 20, 21, 22,
                    23, 24, 25, 27,
                ],
                More::Nothing,
            ),
            category(
                b'k',
                "equity and index quote",
                &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15, 25, 26, 27, 28, 29, 30],
                More::Appendage(Appendage {
                    by: 30,
                    cases: &[
                        (NO_BEST, &[]),
                        (BEST_BID, &[31, 32, 33, 34]),
                        (BEST_OFFER, &[35, 36, 37, 38]),
                        (BEST_BOTH, &[31, 32, 33, 34, 35, 36, 37, 38]),
                    ],
                }),
            ),
            category(b'C', "administrative", &[0, 1, 2, 3, 4, 5, 48], More::Nothing),
            category(b'H', "control", &[0, 1, 2, 3, 4, 5, 48], More::Nothing),
            category(
                b'F',
                "currency option end of day summary",
                &[0, 1, 2, 3, 4, 5, 6, 8, 12, 13, 14, 17, 18, 19, 20, 21, 22, 24],
                More::Nothing,
            ),
            category(
                b'O',
                "currency option last sale",
                &[0, 1, 2, 3, 4, 5, 6, 8, 12, 13, 16],
                More::Nothing,
            ),
            category(
                b'U',
                "currency option quote",
                &[0, 1, 2, 3, 4, 5, 6, 8, 12, 25, 27],
                More::Nothing,
            ),
            category(
                b'Y',
                "underlying value",
                &[0, 1, 2, 3, 4, 5],
                More::Repeat(Repeat {
                    by: 1,
                    cases: &[
                        (b" ", 39, &[41, 42]),
                        (b"I", 39, &[41, 43, 44]),
                        (b"FC", 40, &[45, 46, 47]),
                    ],
                    most: REPEATED_MAX,
                }),
            ),
        ],
        framing: Framing {
            start: 1,
            end: 3,
            version: Some(2),
            sequence_digits: 10,
            count_digits: 3,
        },
    };
}

/// FAST for OPRA, version 1: other slots, no header.
#[derive(Clone, Copy, Debug)]
pub struct V1;

impl Description for V1 {
    const FORMAT: Format = Format {
        name: "opra-fast-v1",
        slots: &[
            number("template"),
            number("category"),
            number("type"),
            number("participant"),
            number("retransmission"),
            counter("sequence"),
            number("time"),
            short("symbol"),
            number("expiration day"),
            number("expiration year"),
            number("strike code"),
            number("strike denominator"),
            number("strike"),
            number("premium denominator"),
            number("bid"),
            number("bid size"),
            number("offer"),
            number("offer size"),
            number("session"),
            number("bbo indicator"),
            number("best bid participant"),
            number("best bid denominator"),
            number("best bid"),
            number("best bid size"),
            number("best offer participant"),
            number("best offer denominator"),
            number("best offer"),
            number("best offer size"),
            short("reserved 1"),
            short("reserved 2"),
            short("reserved 3"),
            number("open interest"),
            number("volume"),
            number("premium"),
            number("open"),
            number("high"),
            number("low"),
            number("last"),
            number("net change indicator"),
            number("net change"),
            number("underlying denominator"),
            number("underlying"),
            number("indices"),
            short("index symbol"),
            short("index value"),
            short("bid index value"),
            short("offer index value"),
            number("spot values"),
            short("currency symbol"),
            number("decimal places"),
            number("spot value"),
            long("text"),
            long("unknown"),
        ],
        category: 1,
        other: &[1, 52],
        categories: &[
            category(
                b'a',
                "equity and index last sale",
                &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 18, 32, 33],
                More::Nothing,
            ),
            category(
                b'd',
                "open interest",
                &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 31],
                More::Nothing,
            ),
            category(
                b'f',
                "equity and index end of day summary",
                &[
                    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 31, 32, 34, 35, 36, 37, 38,
                    39, 40, 41,
                ],
                More::Nothing,
            ),
            category(
                b'k',
                "equity and index quote",
                &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19],
                More::Appendage(Appendage {
                    by: 19,
                    cases: &[
                        (NO_BEST, &[]),
                        (BEST_BID, &[20, 21, 22, 23]),
                        (BEST_OFFER, &[24, 25, 26, 27]),
                        (BEST_BOTH, &[20, 21, 22, 23, 24, 25, 26, 27]),
                    ],
                }),
            ),
            category(b'C', "administrative", &[1, 2, 3, 4, 5, 6, 51], More::Nothing),
            category(b'H', "control", &[1, 2, 3, 4, 5, 6, 51], More::Nothing),
            category(
                b'F',
                "currency option end of day summary",
                &[1, 2, 3, 4, 5, 6, 7, 8, 10, 31, 32, 34, 35, 36, 37, 38, 39, 41],
                More::Nothing,
            ),
            category(
                b'O',
                "currency option last sale",
                &[1, 2, 3, 4, 5, 6, 7, 8, 10, 32, 33],
                More::Nothing,
            ),
            category(
                b'U',
                "currency option quote",
                &[1, 2, 3, 4, 5, 6, 7, 8, 10, 14, 16],
                More::Nothing,
            ),
            category(
                b'Y',
                "underlying value",
                &[1, 2, 3, 4, 5, 6],
                More::Repeat(Repeat {
                    by: 2,
                    cases: &[
                        (b" ", 42, &[43, 44]),
                        (b"I", 42, &[43, 45, 46]),
                        (b"FC", 47, &[48, 49, 50]),
                    ],
                    most: REPEATED_MAX,
                }),
            ),
        ],
        framing: Framing { start: 1, end: 3, version: None, sequence_digits: 0, count_digits: 0 },
    };
}

/// Defines the slot number of each field that events need.
macro_rules! names {
    ($($field:ident $name:literal,)*) => {
        /// The slots of a version by meaning.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct Names {
            $(#[doc = concat!("Slot of the ", $name, ".")] pub $field: usize,)*
            /// Slot of the expiration month; version 1 has it in another code, and 63 here.
            pub month: usize,
        }

        impl Names {
            const fn of(format: &Format, month: usize) -> Names {
                Names { $($field: slot(format, $name),)* month }
            }
        }
    };
}

names! {
    category "category",
    kind "type",
    participant "participant",
    retransmission "retransmission",
    sequence "sequence",
    time "time",
    symbol "symbol",
    day "expiration day",
    year "expiration year",
    strike_denominator "strike denominator",
    strike "strike",
    strike_code "strike code",
    volume "volume",
    open_interest "open interest",
    premium_denominator "premium denominator",
    premium "premium",
    open "open",
    high "high",
    low "low",
    last "last",
    net_change_indicator "net change indicator",
    net_change "net change",
    underlying_denominator "underlying denominator",
    underlying "underlying",
    bid "bid",
    bid_size "bid size",
    offer "offer",
    offer_size "offer size",
    session "session",
    bbo "bbo indicator",
    best_bid_participant "best bid participant",
    best_bid_denominator "best bid denominator",
    best_bid "best bid",
    best_bid_size "best bid size",
    best_offer_participant "best offer participant",
    best_offer_denominator "best offer denominator",
    best_offer "best offer",
    best_offer_size "best offer size",
    text "text",
    unknown "unknown",
}

/// A version of FAST for OPRA.
pub trait Opra: Description {
    /// Slot number of each field that events need.
    const NAMES: Names;
}

impl Opra for V1 {
    const NAMES: Names = Names::of(&V1::FORMAT, 63);
}

impl Opra for V2 {
    const NAMES: Names = Names::of(&V2::FORMAT, slot(&V2::FORMAT, "expiration month"));
}
