//! The OPRA decoder: IBM Research, "Streaming, Low-latency Communication in On-line Trading Systems" (2010).

use super::Aim::{Less, More, Same};
use super::Kind::{Computed, Measured};
use super::{Item, Runner, Session};
use host::failure::Failure;

/// One way by DBL, us.
#[allow(clippy::approx_constant)]
const DBL_US: f64 = 3.14;

const DRAWING: &str = "a drawing without a measurement";
const NICS: &str = "no Myricom card, and no card that bypasses the kernel; loopback and shared memory are what one machine has";
const SPINNING: &str =
    "each end needs a core of its own while it looks; what other work leaves in the caches counts";
const KERNEL: &str =
    "a datagram goes through the kernel's stack twice on one machine; the source's cards bypass it";
const DAY: &str = "a synthetic day of 14 billion messages, the average of a day that the source expects: `fairbell-lab bench opra-day`";
const CABLE: &str = "the receiving end is the kernel's stack in another namespace, and a socket";

/// A delay of a data plane over the cable; where this build has no such plane, that is the reason.
fn plane(session: &mut Session, name: &str) -> Result<super::Ours, Failure> {
    match session.row("opra-planes", &format!("{name}: p50"), "us") {
        Err(Failure::Run(_)) => {
            Err(Failure::Unavailable(format!("this build or kernel has no plane {name}")))
        }
        found => found,
    }
}

/// From the call of a data plane to the event.
const fn over_cable(what: &'static str, run: Runner) -> Item {
    Item::new(("figure 11", what), (4.0, "us"), Less, Measured, run).note(CABLE)
}

pub(super) const ITEMS: &[Item] = &[
    Item::impossible(
        ("figure 1", "(a) a ticker plant"),
        "a drawing without a measurement; ours is `fairbell feed serve`",
    ),
    Item::new(
        ("figure 1", "(b) peak of the feed, decoded on one core"),
        (1.0, "million/s"),
        More,
        Measured,
        |s| s.row("opra-channels", "messages a second and core", "million/s"),
    ),
    Item::unprinted(
        ("figure 1", "(b) opening of a day with that peak, in bursts of three times it: packets lost, datagrams"),
        "%",
        Measured,
        |s| s.row("opra-day", "datagrams, 1x: lost", "%"),
    )
    .note(DAY),
    Item::unprinted(("figure 1", "(b) the same in shared memory"), "%", Measured, |s| {
        s.row("opra-day", "shared memory, 1x: lost", "%")
    })
    .note(DAY),
    Item::unprinted(
        ("figure 1", "(b) the same at ten times the speed, messages a second decoded"),
        "million/s",
        Measured,
        |s| s.row("opra-day", "shared memory, 10x: a second", "million/s"),
    )
    .note(DAY),
    Item::unprinted(
        ("figure 1", "(b) the same at ten times the speed, packets lost"),
        "%",
        Measured,
        |s| s.row("opra-day", "shared memory, 10x: lost", "%"),
    )
    .note(DAY),
    Item::impossible(
        ("figure 2", "the format of a packet"),
        "a drawing without a measurement; ours is the description `fast::opra::V2`",
    ),
    Item::new(("table 1", "categories of messages"), (10.0, "categories"), More, Computed, |s| {
        let mut ours = s.row("opra-stream", "categories", "")?;
        ours.interval = None;
        Ok(ours)
    }),
    Item::new(
        ("figure 3", "bytes of a message, mean"),
        (21.0, "bytes"),
        Same(0.1),
        Computed,
        |s| s.row("opra-stream", "bytes of a message", "bytes"),
    ),
    Item::new(
        ("figure 3", "bytes of a packet, mean"),
        (400.0, "bytes"),
        Same(0.1),
        Computed,
        |s| s.row("opra-stream", "bytes of a packet", "bytes"),
    ),
    Item::new(
        ("figure 3", "messages of a packet, mean"),
        (19.0, "messages"),
        Same(0.1),
        Computed,
        |s| s.row("opra-stream", "messages of a packet", "messages"),
    ),
    Item::unprinted(("figure 3", "messages of 10 to 50 bytes"), "%", Computed, |s| {
        s.row("opra-stream", "messages of 10 to 50 bytes", "%")
    }),
    Item::unprinted(("figure 4", "slowest of 24 channels below the fastest"), "%", Measured, |s| {
        s.row("opra-channels", "slowest channel below the fastest", "%")
    })
    .note("the source says that rates are almost the same, its figure has no numbers"),
    Item::new(("figure 5", "quotes"), (99.0, "%"), Same(0.01), Computed, |s| {
        s.row("opra-stream", "quotes", "%")
    }),
    Item::unprinted(("figure 6", "presence maps of five bytes"), "%", Computed, |s| {
        s.row("opra-stream", "presence maps of five bytes", "%")
    })
    .note("the source says that they are the majority, its figure has no numbers"),
    Item::new(
        ("figure 7", "encoded integers below two bytes, more than (ours: all fields)"),
        (80.0, "%"),
        More,
        Computed,
        |s| s.row("opra-stream", "fields of one byte", "%"),
    ),
    Item::impossible(("figures 8 and 9", "protocols and topology"), DRAWING),
    Item::new(
        ("figure 10", "(a) MX over Ethernet, one way; ours: UDP over loopback, 8 bytes"),
        (2.45, "us"),
        Less,
        Measured,
        |s| s.row("opra-pingpong", "half a round trip, 8 bytes: p50", "us"),
    )
    .note(KERNEL),
    Item::new(
        ("figure 10", "(a) DBL, one way; ours: UDP over loopback, 64 bytes"),
        (DBL_US, "us"),
        Less,
        Measured,
        |s| s.row("opra-pingpong", "half a round trip, 64 bytes: p50", "us"),
    )
    .note(KERNEL),
    Item::new(
        ("figure 10", "(a) DBL, one way; ours: a ring in shared memory, 256 bytes"),
        (DBL_US, "us"),
        Less,
        Measured,
        |s| s.row("opra-wire", "shared memory: to the program, p50", "us"),
    )
    .note(SPINNING),
    Item::unprinted(
        ("figure 10", "(a) plane udp over a cable of two namespaces, 256 bytes"),
        "us",
        Measured,
        |s| plane(s, "udp"),
    ),
    Item::unprinted(("figure 10", "(a) plane tc-clone over the same"), "us", Measured, |s| {
        plane(s, "tc-clone")
    }),
    Item::unprinted(("figure 10", "(a) plane af_xdp over the same"), "us", Measured, |s| {
        plane(s, "af_xdp")
    }),
    Item::impossible(("figure 10", "MX and DBL on cards of their own"), NICS),
    Item::unprinted(("figure 10", "(b) datagrams of 256 bytes, a second"), "1/s", Measured, |s| {
        s.row("opra-pingpong", "1 receivers, 256 bytes: messages a second", "1/s")
    }),
    Item::new(
        ("figure 11", "bytes of the packets measured, mean"),
        (256.0, "bytes"),
        Same(0.1),
        Measured,
        |s| s.row("opra-wire", "datagrams: bytes of a packet", "bytes"),
    ),
    Item::new(
        ("figure 11", "to the event, 256-byte datagrams over loopback, p50, below"),
        (4.0, "us"),
        Less,
        Measured,
        |s| s.row("opra-wire", "datagrams: to the event, p50", "us"),
    )
    .note(KERNEL),
    Item::unprinted(
        ("figure 11", "to the event, 256-byte datagrams over loopback, p99"),
        "us",
        Measured,
        |s| s.row("opra-wire", "datagrams: to the event, p99", "us"),
    ),
    Item::unprinted(
        ("figure 11", "floor of the same: to a program that spins on its socket and decodes nothing, p50"),
        "us",
        Measured,
        |s| s.row("opra-wire", "datagrams: to the program, p50", "us"),
    )
    .note(KERNEL),
    Item::unprinted(("figure 11", "the same floor, p99"), "us", Measured, |s| {
        s.row("opra-wire", "datagrams: to the program, p99", "us")
    }),
    Item::new(
        ("figure 11", "to the event, 256-byte packets in shared memory, p50, below"),
        (4.0, "us"),
        Less,
        Measured,
        |s| s.row("opra-wire", "shared memory: to the event, p50", "us"),
    )
    .note(SPINNING),
    Item::unprinted(
        ("figure 11", "to the event, 256-byte packets in shared memory, p99"),
        "us",
        Measured,
        |s| s.row("opra-wire", "shared memory: to the event, p99", "us"),
    ),
    over_cable("to the event, 256 bytes by plane udp over a cable, p50, below", |s| {
        s.row("opra-plane-events", "p50", "us")
    }),
    Item::unprinted(("figure 11", "the same by plane udp, p99"), "us", Measured, |s| {
        s.row("opra-plane-events", "p99", "us")
    }),
    over_cable("to the event, 256 bytes by plane tc-clone over a cable, p50, below", |s| {
        s.row("opra-plane-events-tc-clone", "p50", "us")
    }),
    Item::unprinted(("figure 11", "the same by plane tc-clone, p99"), "us", Measured, |s| {
        s.row("opra-plane-events-tc-clone", "p99", "us")
    }),
    over_cable("to the event, 256 bytes by plane af_xdp over a cable, p50, below", |s| {
        s.row("opra-plane-events-af-xdp", "p50", "us")
    }),
    Item::unprinted(("figure 11", "the same by plane af_xdp, p99"), "us", Measured, |s| {
        s.row("opra-plane-events-af-xdp", "p99", "us")
    }),
    Item::unprinted(
        ("figure 11", "packets on whose way a core was away, not in these rows, shared memory"),
        "%",
        Measured,
        |s| s.row("opra-wire", "shared memory: a core away", "%"),
    ),
    Item::unprinted(("figure 11", "what decoding a packet adds"), "ns", Measured, |s| {
        s.row("opra-wire", "shared memory: decoding a packet, p50", "ns")
    })
    .note(SPINNING)
    .printed(150.0, 300.0, "ns")
    .bounded(),
    Item::new(
        ("figure 11", "messages a second, end to end (MX)"),
        (3.2, "million/s"),
        More,
        Measured,
        |s| s.row("opra-wire", "datagrams: messages a second", "million/s"),
    )
    .note("datagrams of 256 bytes through the kernel"),
    Item::new(
        ("figure 11", "messages a second, end to end (DBL), shared memory"),
        (2.8, "million/s"),
        More,
        Measured,
        |s| s.row("opra-wire", "shared memory: messages a second", "million/s"),
    )
    .note(SPINNING),
    Item::new(
        ("section 4.1", "decoding alone, messages a second and core (derived: 15 million on four)"),
        (3.75, "million/s"),
        More,
        Measured,
        |s| s.row("opra-channels", "messages a second and core", "million/s"),
    ),
    Item::unprinted(
        ("figure 12", "arrivals within 10 % of their distance, datagrams"),
        "%",
        Measured,
        |s| s.row("opra-wire", "datagrams: arrivals within 10 % of their distance", "%"),
    ),
    Item::unprinted(("figure 12", "the same, shared memory"), "%", Measured, |s| {
        s.row("opra-wire", "shared memory: arrivals within 10 % of their distance", "%")
    }),
    Item::unprinted(
        ("figure 13", "99th percentile between two datagrams, one receiver"),
        "us",
        Measured,
        |s| s.row("opra-pingpong", "1 receivers, 256 bytes: between two, p99", "us"),
    ),
    Item::unprinted(("figure 13", "the same, two receivers"), "us", Measured, |s| {
        s.row("opra-pingpong", "2 receivers, 256 bytes: between two, p99", "us")
    }),
];

impl Item {
    /// Of which less is better, up to what is published at most.
    const fn bounded(mut self) -> Item {
        self.aim = Less;
        self
    }
}
