//! The AWS prototype, "Low latency cloud-native exchanges" (AWS for Industries, 15 November 2023).

use super::Aim::Less;
use super::Kind::Measured;
use super::{Item, Ours, Session};
use host::failure::Failure;

const ONE_MACHINE: &str =
    "client, gateway and engine share the cores of one machine, the source has one for each";
const QUEUES: &str =
    "the source's figure has no numbers; its statement is that a queue costs the tail";

/// 99th percentile of a transport over ours.
fn tail(session: &mut Session, name: &str) -> Result<Ours, Failure> {
    let found = session.ratio("transports", &format!("{name}: p99"), "ours: p99");
    match found {
        Err(Failure::Run(_)) => {
            let why = "this build has no ZeroMQ; `make bench-transports` makes one that has it";
            Err(Failure::Unavailable(why.to_string()))
        }
        found => found,
    }
}

pub(super) const ITEMS: &[Item] = &[
    Item::impossible(
        ("figure 1", "architecture"),
        "a drawing without a measurement; the same parts here are gateway, root with engine, feed, journal and store (`fairbell up`)",
    ),
    Item::impossible(
        ("figure 1", "multicast by the Transit Gateway"),
        "the provider's multicast is proprietary and runs on its machines only; ours is the tree of docs/papers/jasper.md",
    ),
    Item::impossible(
        ("figure 1", "Kinesis and CloudWatch"),
        "services of the provider; metrics and records go to Prometheus and Redis Streams here, beside none in the same run: \
         `fairbell-lab bench telemetry`",
    ),
    Item::unprinted(("round trip", "FIX, 10,000 orders a second, p50"), "us", Measured, |s| {
        s.row("order-fix", "p50", "us")
    })
    .printed(55.0, 124.0, "us")
    .less()
    .note(ONE_MACHINE),
    Item::unprinted(("round trip", "FIX, 10,000 orders a second, p99"), "us", Measured, |s| {
        s.row("order-fix", "p99", "us")
    })
    .printed(75.0, 157.0, "us")
    .less()
    .note(ONE_MACHINE),
    Item::unprinted(
        ("round trip", "floor of the same run: bare TCP echo, p50"),
        "us",
        Measured,
        |s| s.row("order-fix", "floor p50", "us"),
    ),
    Item::unprinted(
        ("round trip", "floor of the same run: bare TCP echo, p99"),
        "us",
        Measured,
        |s| s.row("order-fix", "floor p99", "us"),
    ),
    Item::unprinted(("round trip", "the same from 300 clients, p50"), "us", Measured, |s| {
        s.row("order-clients", "p50", "us")
    })
    .printed(55.0, 124.0, "us")
    .less()
    .note(ONE_MACHINE),
    Item::unprinted(("round trip", "the same from 300 clients, p99"), "us", Measured, |s| {
        s.row("order-clients", "p99", "us")
    })
    .printed(75.0, 157.0, "us")
    .less()
    .note(ONE_MACHINE),
    Item::impossible(
        ("round trip", "by instance type"),
        "one kind of machine is to be had here; each result says which",
    ),
    Item::unprinted(
        ("figure 2", "gateway to engine and back at 2,000/s, ours, p99"),
        "us",
        Measured,
        |s| s.row("transports", "ours: p99", "us"),
    )
    .note(QUEUES),
    Item::unprinted(("figure 2", "a Redis list with LMOVE, p99 over ours"), "x", Measured, |s| {
        tail(s, "redis_lmove")
    })
    .note(QUEUES),
    Item::unprinted(
        ("figure 2", "a Redis list with LPOP, pipelined, p99 over ours"),
        "x",
        Measured,
        |s| tail(s, "redis_lpop_pipelined"),
    )
    .note(QUEUES),
    Item::unprinted(("figure 2", "ZeroMQ, DEALER, p99 over ours"), "x", Measured, |s| {
        tail(s, "zeromq_dealer")
    })
    .note(QUEUES),
];

impl Item {
    /// Of which less is better.
    const fn less(mut self) -> Item {
        self.aim = Less;
        self
    }
}
