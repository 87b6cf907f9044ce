//! The FX trading paper: BJSS, "Low-Latency Trading in a Cloud Environment" (2018).

use super::Aim::{Less, More};
use super::Kind::{Measured, Simulated};
use super::{Item, Runner};

const DRAWING: &str =
    "a drawing without a measurement; our five stamps are the rows of that name below";
const ONE_MACHINE: &str =
    "client, gateway and engine share the cores of one machine with whatever else runs there";
const LONG: &str = "a run of that length does not fit into the command; `fairbell-lab cloud soak --for 4h` plays hours with a fault a minute, `fairbell-lab sim soak` seven days in minutes, `make soak` 10,000/s for 34 minutes (docs/benchmarks.md)";
const SWEPT: &str =
    "rate x clients x bytes: `fairbell-lab bench orders scenarios/papers/fx-trading.toml --sweep`";
const METAL: &str = "one machine is to be had here, a virtual one";

/// A latency that should be at most the published one.
const fn order(what: (&'static str, &'static str), published: f64, run: Runner) -> Item {
    Item::new(what, (published, "us"), Less, Measured, run).note(ONE_MACHINE)
}

pub(super) const ITEMS: &[Item] = &[
    Item::impossible(("figure 1", "architecture"), DRAWING),
    Item::impossible(("figure 2", "where the five stamps are taken"), DRAWING),
    Item::impossible(
        ("table 1", "options of the Java machine"),
        "there is no collector of garbage here; that hot paths allocate nothing is tested",
    ),
    order(("goal", "average at 10,000 orders a second, below"), 500.0, |s| {
        s.row("order-fix", "average", "us")
    }),
    Item::new(("goal", "answered within 1 ms"), (99.0, "%"), More, Measured, |s| {
        s.row("order-fix", "answered within 1 ms", "%")
    })
    .note(ONE_MACHINE),
    order(("table 2", "1,000/s, average"), 377.0, |s| s.row("order-fix-1000", "average", "us")),
    order(("table 2", "1,000/s, least"), 231.0, |s| s.row("order-fix-1000", "least", "us")),
    order(("table 2", "1,000/s, p50"), 318.0, |s| s.row("order-fix-1000", "p50", "us")),
    order(("table 2", "1,000/s, p75"), 413.0, |s| s.row("order-fix-1000", "p75", "us")),
    order(("table 2", "1,000/s, p95"), 577.0, |s| s.row("order-fix-1000", "p95", "us")),
    order(("table 2", "1,000/s, p99"), 669.0, |s| s.row("order-fix-1000", "p99", "us")),
    order(("table 2", "1,000/s, p99.9"), 5_017.0, |s| s.row("order-fix-1000", "p99.9", "us")),
    Item::unprinted(
        ("table 2", "1,000/s, floor of the same run: bare TCP echo, average"),
        "us",
        Measured,
        |s| s.row("order-fix-1000", "floor average", "us"),
    ),
    order(("table 3", "1,000/s, virtual, average"), 497.0, |s| {
        s.row("order-fix-1000", "average", "us")
    }),
    order(("table 3", "1,000/s, virtual, least"), 282.0, |s| {
        s.row("order-fix-1000", "least", "us")
    }),
    order(("table 3", "1,000/s, virtual, p50"), 486.0, |s| s.row("order-fix-1000", "p50", "us")),
    order(("table 3", "1,000/s, virtual, p95"), 590.0, |s| s.row("order-fix-1000", "p95", "us")),
    order(("table 3", "1,000/s, virtual, p99"), 657.0, |s| s.row("order-fix-1000", "p99", "us")),
    order(("table 3", "1,000/s, virtual, largest"), 133_000.0, |s| {
        s.row("order-fix-1000", "largest", "us")
    }),
    Item::impossible(("table 3", "1,000/s, bare metal"), METAL),
    order(("table 4", "10,000/s, cloud 1 (their best), average"), 251.0, |s| {
        s.row("order-fix", "average", "us")
    }),
    order(("table 4", "10,000/s, cloud 1, standard deviation"), 185.0, |s| {
        s.row("order-fix", "standard deviation", "us")
    }),
    order(("table 4", "10,000/s, cloud 1, least"), 173.0, |s| s.row("order-fix", "least", "us")),
    order(("table 4", "10,000/s, cloud 1, p50"), 242.0, |s| s.row("order-fix", "p50", "us")),
    order(("table 4", "10,000/s, cloud 1, p95"), 314.0, |s| s.row("order-fix", "p95", "us")),
    order(("table 4", "10,000/s, cloud 1, p99"), 357.0, |s| s.row("order-fix", "p99", "us")),
    order(("table 4", "10,000/s, cloud 1, largest"), 45_000.0, |s| {
        s.row("order-fix", "largest", "us")
    }),
    order(("table 4", "10,000/s, cloud 2, average"), 399.0, |s| {
        s.row("order-fix", "average", "us")
    }),
    order(("table 4", "10,000/s, cloud 2, p99"), 1_012.0, |s| s.row("order-fix", "p99", "us")),
    order(("table 4", "10,000/s, cloud 3, average"), 633.0, |s| {
        s.row("order-fix", "average", "us")
    }),
    order(("table 4", "10,000/s, cloud 3, p99"), 1_519.0, |s| s.row("order-fix", "p99", "us")),
    Item::unprinted(
        ("table 4", "10,000/s, floor of the same run: bare TCP echo, average"),
        "us",
        Measured,
        |s| s.row("order-fix", "floor average", "us"),
    ),
    Item::unprinted(
        ("table 4", "10,000/s, floor of the same run: bare TCP echo, p99"),
        "us",
        Measured,
        |s| s.row("order-fix", "floor p99", "us"),
    ),
    order(("table 5", "10,000/s, 7 hours (ours: a minute of a full run), average"), 240.0, |s| {
        s.row("order-fix", "average", "us")
    }),
    order(("table 5", "10,000/s, 7 hours (ours: a minute of a full run), p99"), 345.0, |s| {
        s.row("order-fix", "p99", "us")
    }),
    order(
        ("table 5", "1,000/s, cloud 2, 24 hours (ours: a minute of a full run), average"),
        328.0,
        |s| s.row("order-fix-1000", "average", "us"),
    ),
    order(
        ("table 5", "1,000/s, cloud 3, 24 hours (ours: a minute of a full run), average"),
        350.0,
        |s| s.row("order-fix-1000", "average", "us"),
    ),
    order(
        ("table 5", "1,000/s, cloud 3, 24 hours (ours: a minute of a full run), p99"),
        727.0,
        |s| s.row("order-fix-1000", "p99", "us"),
    ),
    Item::impossible(("figures 3 to 5", "latency over 7 and 24 hours"), LONG),
    Item::impossible(
        ("table 6", "7 days: average, least and largest, virtual and bare metal"),
        LONG,
    ),
    Item::unprinted(("section 6", "bytes of an order (theirs: 100)"), "bytes", Measured, |s| {
        s.row("order-fix", "bytes of a request", "bytes")
    }),
    Item::unprinted(
        ("section 6", "8 clients, orders a second at the knee: p99 at most three times the least"),
        "1/s",
        Measured,
        |s| s.row("order-sweep", "8 clients, 0 bytes: knee", "1/s"),
    )
    .note(SWEPT),
    Item::unprinted(("section 6", "8 clients, p99 at the knee"), "us", Measured, |s| {
        s.row("order-sweep", "8 clients, 0 bytes: p99 at the knee", "us")
    })
    .note(SWEPT),
    Item::unprinted(("section 6", "8 clients, most answered a second"), "1/s", Measured, |s| {
        s.row("order-sweep", "8 clients, 0 bytes: most answered", "1/s")
    })
    .note(SWEPT),
    Item::unprinted(("stamps", "1. due to sent, p50"), "us", Measured, |s| {
        s.row("order-fix", "sender late: p50", "us")
    }),
    Item::unprinted(("stamps", "2. client to gateway, p50"), "us", Measured, |s| {
        s.row("order-fix", "client to gateway: p50", "us")
    }),
    Item::unprinted(("stamps", "3. gateway to engine, p50"), "us", Measured, |s| {
        s.row("order-fix", "gateway to engine: p50", "us")
    }),
    Item::unprinted(("stamps", "4. engine to client, p50"), "us", Measured, |s| {
        s.row("order-fix", "engine to client: p50", "us")
    }),
    Item::unprinted(("stamps", "5. reading, p50"), "us", Measured, |s| {
        s.row("order-fix", "reading: p50", "us")
    }),
    order(("stamps", "own work, not on a wire: average, below"), 5.0, |s| {
        s.row("order-fix", "own work: average", "us")
    }),
    Item::new(("clock skew", "within 100 us of each other"), (84.0, "%"), More, Simulated, |s| {
        s.row("clock-skew", "within 100 us", "%")
    }),
    Item::new(("clock skew", "99th percentile"), (225.0, "us"), Less, Simulated, |s| {
        s.row("clock-skew", "p99", "us")
    }),
    Item::new(("clock skew", "largest"), (285.0, "us"), Less, Simulated, |s| {
        s.row("clock-skew", "largest", "us")
    }),
];
