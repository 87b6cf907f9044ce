//! The Jasper paper (arXiv 2402.09527): tables 1 to 4, figures 1 to 14, and the numbers of its text.

use overlay::duplicate_filter::{Arrival, DuplicateFilter};

use super::Aim::{Less, More, Same};
use super::Kind::{Computed, Measured, Simulated};
use super::{Item, Ours, Session};

const OVERVIEW: &str =
    "a drawing without a measurement; the tree is `overlay::topology`, its nodes `overlay::feed`";
const CLOUD: &str = "a measurement of a provider's network, which is not to be had here; how the modelled cloud's paths behave is \
     chosen, so a figure of it would show the choice";
const PROVIDER: &str = "the provider's multicast is proprietary and runs on its machines only";
const ENCLAVE: &str = "no machine here has a Nitro Enclave; participants' programs run in a cage beside a receiver instead \
     (`fairbell-lab bench strategy MODULE` times it)";
const WHO_IS_SLOW: &str = "one deployment's figure; how P(F) falls with N depends on the slowest VMs, which the paper does not describe \
     (`fairbell-lab reproduce stragglers`)";
const SENDER: &str = "the paper's table 1 has 351 us for the same system: its figure 5 sends by io_uring, which has another cost per copy";
const RULE: &str = "the paper gives neither the rule's interval nor T nor P0; in bursts the rule acts when the burst is over, with credits \
     nothing is dropped (`fairbell-lab reproduce pacing`)";

const WINDOWS: &str = "the paper's windows are of 5,000 messages: a median of fewer ranges further";
const EIGHTH: &str = "equal shares are the paper's statement, its table is not in the text we have; within a seed chance alone makes shares differ";
/// What the paper leaves to its successor, which prints no figures of it.
const INBOUND: &str = "beyond the paper, inbound order";

/// An item of table 1.
const fn table1(what: &'static str, published: f64, run: super::Runner) -> Item {
    Item::new(("table 1", what), (published, "us"), Same(0.1), Simulated, run)
}

/// What our techniques come to beside table 2, %.
const fn beyond(what: &'static str, run: super::Runner) -> Item {
    Item::unprinted(("table 2", what), "%", Simulated, run)
}

/// A share of pairs of orders in order of generation, of those that the clocks can tell apart.
const fn kept(what: &'static str, run: super::Runner) -> Item {
    Item::unprinted((INBOUND, what), "%", Simulated, run)
}

/// Standard deviations of the shared tree at D=4 over those at D=1, by H.
fn spread(session: &mut Session, hedge: &str) -> Result<Ours, host::failure::Failure> {
    let of = |depth: u32| format!("shared copies, D={depth} H={hedge}: sd");
    session.ratio("hedging-montecarlo", &of(4), &of(1))
}

pub(super) const ITEMS: &[Item] = &[
    Item::impossible(("figure 1", "latency between a pair of VMs over time"), CLOUD),
    Item::impossible(("figure 2", "overview of the tree"), OVERVIEW),
    Item::unprinted(
        ("figure 3", "direct unicast to 100: last receiver later than the first"),
        "us",
        Simulated,
        |s| s.row("unicast", "direct unicast: last receiver later than the first", "us"),
    ),
    Item::unprinted(
        ("figure 3", "tree F=10 to 100: last receiver later than the first"),
        "us",
        Simulated,
        |s| s.row("unicast", "tree F=10: last receiver later than the first", "us"),
    ),
    table1("N=10 D=1 F=10, median OML", 66.0, |s| s.row("table1", "N=10 D=1 F=10: median OML", "us")),
    table1("N=10 D=2 F=4, median OML", 88.0, |s| s.row("table1", "N=10 D=2 F=4: median OML", "us")),
    table1("N=100 D=1 F=100, median OML", 351.0, |s| {
        s.row("table1", "N=100 D=1 F=100: median OML", "us")
    }),
    table1("N=100 D=2 F=10, median OML", 139.0, |s| {
        s.row("table1", "N=100 D=2 F=10: median OML", "us")
    }),
    table1("N=100 D=3 F=5, median OML", 141.0, |s| {
        s.row("table1", "N=100 D=3 F=5: median OML", "us")
    }),
    table1("N=1000 D=2 F=32, median OML", 282.0, |s| {
        s.row("table1", "N=1000 D=2 F=32: median OML", "us")
    }),
    table1("N=1000 D=3 F=10, median OML", 217.0, |s| {
        s.row("table1", "N=1000 D=3 F=10: median OML", "us")
    }),
    table1("N=1000 D=4 F=6, median OML", 226.0, |s| {
        s.row("table1", "N=1000 D=4 F=6: median OML", "us")
    }),
    Item::unprinted(("section 4", "one hop more"), "us", Simulated, |s| {
        s.row("unicast", "one hop more", "us")
    })
    .printed(20.0, 40.0, "us"),
    Item::unprinted(("section 4", "one child more, each layer"), "us", Simulated, |s| {
        s.row("unicast", "one child more", "us")
    })
    .printed(1.8, 3.6, "us"),
    Item::new(
        ("section 5", "parents that change: change of the median OML, load-induced bursts"),
        (-10.0, "%"),
        Same(0.5),
        Simulated,
        |s| s.row("dynamic", "load-induced: change of the median OML", "%"),
    )
    .note("with few seeds the interval is wider than the effect (`fairbell-lab reproduce dynamic`)"),
    Item::new(
        ("section 5", "the same in bursts, up to"),
        (-80.0, "%"),
        Same(0.2),
        Simulated,
        |s| {
            s.row(
                "dynamic",
                "load-induced: change of the median OML in bursts (paper, up to)",
                "%",
            )
        },
    ),
    Item::new(
        ("section 7.1", "pacing by the paper's rule in large bursts: drops divided by"),
        (10.0, "x"),
        More,
        Simulated,
        |s| {
            let rule = "bursts, paper's rule every 50 ms: drops divided by (paper, more than)";
            s.row("pacing", rule, "x")
        },
    )
    .note(RULE),
    Item::unprinted(
        ("section 7.1", "packets dropped in the same bursts with our credits"),
        "packets",
        Simulated,
        |s| s.row("pacing", "bursts, credits: packets dropped", "packets"),
    ),
    Item::impossible(("figure 4", "latency between a VM and its enclave"), ENCLAVE),
    Item::new(("figure 5", "direct unicast, N=100, median OML"), (254.0, "us"), Same(0.1), Simulated, |s| {
        s.row("figure5", "direct unicast, Table-1 sender, N=100: median OML", "us")
    })
    .note(SENDER),
    Item::impossible(("figure 5", "AWS Transit Gateway, N=100, median 228 us"), PROVIDER),
    Item::new(("figure 5", "Jasper, N=100, median OML"), (129.0, "us"), Same(0.1), Simulated, |s| {
        s.row("figure5", "Jasper tree, H=2, N=100: median OML", "us")
    }),
    Item::unprinted(("figure 6", "(a) H=0, p99 of the OML"), "us", Simulated, |s| {
        s.row("hedging", "H=0: figure 6(a), p99 OML", "us")
    }),
    Item::unprinted(("figure 6", "(a) H=1, p99 of the OML"), "us", Simulated, |s| {
        s.row("hedging", "H=1: figure 6(a), p99 OML", "us")
    }),
    Item::unprinted(
        ("figure 6", "(b) H=0, range of the median OML of 500 messages"),
        "us",
        Simulated,
        |s| s.row("hedging", "H=0: figure 6(b), range of the median OML of 500 messages", "us"),
    )
    .note(WINDOWS),
    Item::unprinted(
        ("figure 6", "(b) H=1, range of the median OML of 500 messages"),
        "us",
        Simulated,
        |s| s.row("hedging", "H=1: figure 6(b), range of the median OML of 500 messages", "us"),
    )
    .note(WINDOWS),
    Item::new(("figure 6", "(c) H=0, p99 of the delivery window"), (350.0, "us"), Same(0.2), Simulated, |s| {
        s.row("hedging", "H=0: figure 6(c), p99 delivery window", "us")
    }),
    Item::new(("figure 6", "(c) H=1, p99 of the delivery window"), (150.0, "us"), Less, Simulated, |s| {
        s.row("hedging", "H=1: figure 6(c), p99 delivery window", "us")
    }),
    Item::new(("figure 6", "(c) H=2, p99 of the delivery window"), (120.0, "us"), Less, Simulated, |s| {
        s.row("hedging", "H=2: figure 6(c), p99 delivery window", "us")
    }),
    Item::unprinted(
        ("figure 7", "(a) median of a receiver's delay, H=1 over H=0"),
        "x",
        Simulated,
        |s| {
            let [odd, even] = [
                "figure 7, 50th percentile of a receiver's delay, odd messages, H=1",
                "figure 7, 50th percentile of a receiver's delay, even messages, H=0",
            ];
            s.ratio("hedging", odd, even)
        },
    ),
    Item::unprinted(
        ("figure 7", "(b) 99th percentile of a receiver's delay, H=1 over H=0"),
        "x",
        Simulated,
        |s| {
            let [odd, even] = [
                "figure 7, 99th percentile of a receiver's delay, odd messages, H=1",
                "figure 7, 99th percentile of a receiver's delay, even messages, H=0",
            ];
            s.ratio("hedging", odd, even)
        },
    ),
    Item::unprinted(("figure 8", "N=100 H=2, median OML"), "us", Simulated, |s| {
        s.row("scale", "N=100 H=2: median OML", "us")
    }),
    Item::unprinted(("figure 8", "N=1000 H=2, median OML"), "us", Simulated, |s| {
        s.row("scale", "N=1000 H=2: median OML", "us")
    }),
    Item::new(("figure 8", "N=5000 H=2, median OML, below"), (350.0, "us"), Less, Simulated, |s| {
        s.row("scale", "N=5000 H=2: median OML", "us")
    }),
    Item::new(
        ("figure 9", "(a) Jasper H=2, N=100, median delivery window"),
        (0.0, "us"),
        Same(0.0),
        Simulated,
        |s| s.row("fairness", "figure 9, Jasper H=2, N=100: median DWS, own clocks", "us"),
    ),
    Item::unprinted(("figure 9", "(b) Jasper H=0, N=100, median release OML"), "us", Simulated, |s| {
        s.row("fairness", "figure 9, Jasper H=0, N=100: median release OML", "us")
    }),
    Item::unprinted(("figure 9", "(b) CloudEx-like, N=100, median release OML"), "us", Simulated, |s| {
        s.row("fairness", "figure 9, CloudEx-like, N=100: median release OML", "us")
    }),
    Item::new(("figure 9", "(c) Jasper H=2, N=100, mean hold"), (60.0, "us"), Same(0.2), Simulated, |s| {
        s.row("fairness", "figure 9, Jasper H=2, N=100: mean hold", "us")
    }),
    Item::new(("table 2", "N=100 H=2, median delivery window"), (0.0, "us"), Same(0.0), Simulated, |s| {
        s.row("fairness", "table 2, N=100 H=2, max of p95s: median DWS, own clocks", "us")
    }),
    Item::new(("table 2", "N=100 H=2, P(F)"), (92.0, "%"), Same(0.05), Simulated, |s| {
        s.row("fairness", "table 2, N=100 H=2, max of p95s: P(F)", "%")
    })
    .note(WHO_IS_SLOW),
    Item::new(("table 2", "N=100 H=2, median OML"), (175.0, "us"), Same(0.1), Simulated, |s| {
        s.row("fairness", "table 2, N=100 H=2, max of p95s: median release OML", "us")
    }),
    Item::new(("table 2", "N=1000 H=2, median delivery window"), (0.0, "us"), Same(0.0), Simulated, |s| {
        s.row("fairness", "table 2, N=1000 H=2, max of p95s: median DWS, own clocks", "us")
    }),
    Item::new(
        ("table 2", "N=1000 H=2, P(F); the text of section 11.4 says 93 %"),
        (84.0, "%"),
        Same(0.1),
        Simulated,
        |s| s.row("fairness", "table 2, N=1000 H=2, max of p95s: P(F)", "%"),
    )
    .note(WHO_IS_SLOW),
    Item::new(("table 2", "N=1000 H=2, median OML"), (238.0, "us"), Same(0.1), Simulated, |s| {
        s.row("fairness", "table 2, N=1000 H=2, max of p95s: median release OML", "us")
    }),
    Item::new(("table 2", "N=1000 H=2, P(F) of our estimator, p97 of the maximum"), (84.0, "%"), More, Simulated, |s| {
        s.row("fairness", "N=1000 H=2, p97 of the maximum: P(F)", "%")
    }),
    Item::unprinted(
        ("table 2", "N=5000 H=2, P(F) of our estimator, p97 of the maximum"),
        "%",
        Simulated,
        |s| s.row("fairness", "N=5000 H=2, p97 of the maximum: P(F)", "%"),
    ),
    Item::new(
        ("table 2", "N=1000 H=2, P(F) of ours with proxies placed, slowest first, path-disjoint, p98.7 of the maximum"),
        (84.0, "%"),
        More,
        Simulated,
        |s| s.row("frontier", "N=1000 H=2, slowest first, path-disjoint, placed proxies: P(F)", "%"),
    ),
    beyond("N=1000 H=2, its median OML over that of the paper's estimator in the same clouds", |s| {
        let what = "N=1000 H=2, slowest first, path-disjoint, placed proxies: release OML against the paper's";
        s.row("frontier", what, "%")
    }),
    beyond("N=1000 H=2, the same without placement, P(F)", |s| {
        s.row("frontier", "N=1000 H=2, slowest first, path-disjoint: P(F)", "%")
    }),
    beyond("N=1000 H=2, the same without placement, OML over that of the paper's estimator", |s| {
        let what = "N=1000 H=2, slowest first, path-disjoint: release OML against the paper's";
        s.row("frontier", what, "%")
    }),
    beyond("N=1000 H=2, the least that a constant delay costs in that tree for P(F) of 99 %", |s| {
        let what = "N=1000 H=2, slowest first, path-disjoint, placed proxies: best constant delay for 99 %, against the paper's";
        s.row("frontier", what, "%")
    }),
    beyond("N=5000 H=2, P(F) of ours with proxies placed, slowest first, path-disjoint, p98.7 of the maximum", |s| {
        s.row("frontier", "N=5000 H=2, slowest first, path-disjoint, placed proxies: P(F)", "%")
    }),
    beyond("N=5000 H=2, its median OML over that of the paper's estimator in the same clouds", |s| {
        let what = "N=5000 H=2, slowest first, path-disjoint, placed proxies: release OML against the paper's";
        s.row("frontier", what, "%")
    }),
    Item::new(
        ("section 11.5", "one tree, N=100 H=2, packets filled, messages a second"),
        (35_000.0, "1/s"),
        More,
        Measured,
        |s| s.row("throughput", "one tree, N=100 H=2, packets filled: measured on this machine", "1/s"),
    ),
    Item::new(
        ("section 11.5", "one tree, N=100 H=2, a packet for each message, messages a second"),
        (35_000.0, "1/s"),
        More,
        Measured,
        |s| {
            let what = "one tree, N=100 H=2, a packet for each message: measured on this machine";
            s.row("throughput", what, "1/s")
        },
    )
    .note("the source has a VM of eight cores and kernel bypass for each node, these share the cores of one machine"),
    Item::new(
        ("section 11.5", "five trees (175,000 messages a second in its successor's abstract)"),
        (175_000.0, "1/s"),
        More,
        Measured,
        |s| {
            let what = "5 trees by symbol, each below its own root, N=100 H=2, packets filled: measured on this machine";
            s.row("throughput", what, "1/s")
        },
    )
    .note("five trees share the cores of one machine, the source's had five machines"),
    Item::new(
        ("figure 10", "direct unicast, median OML (254 us in figure 5)"),
        (254.0, "us"),
        Same(0.1),
        Simulated,
        |s| s.row("components", "direct unicast: median OML", "us"),
    )
    .note(SENDER),
    Item::new(
        ("figure 10", "tree, median OML (139 us in table 1)"),
        (139.0, "us"),
        Same(0.1),
        Simulated,
        |s| s.row("components", "tree, fixed parents: median OML", "us"),
    ),
    Item::new(
        ("figure 10", "and hedging, median OML (129 us in figure 5)"),
        (129.0, "us"),
        Same(0.1),
        Simulated,
        |s| s.row("components", "and hedging H=2: median OML", "us"),
    ),
    Item::new(
        ("figure 10", "and hold-and-release, median release OML (175 us in table 2)"),
        (175.0, "us"),
        Same(0.1),
        Simulated,
        |s| s.row("components", "and hold-and-release, the paper's estimator: median release OML", "us"),
    ),
    Item::new(("table 3", "proxies, N=100 H=0"), (10.0, "VMs"), Same(0.0), Computed, |s| {
        s.row("cost", "N=100 H=0: proxy VMs", "VMs")
    }),
    Item::new(("table 3", "proxies, N=100 H=2"), (30.0, "VMs"), Same(0.0), Computed, |s| {
        s.row("cost", "N=100 H=2: proxy VMs", "VMs")
    }),
    Item::new(("table 3", "cost of an hour, N=100 H=2"), (10.2, "$/h"), Same(0.0), Computed, |s| {
        s.row("cost", "N=100 H=2: dollars an hour", "$/h")
    }),
    Item::new(("table 3", "proxies, N=1000 H=0"), (110.0, "VMs"), Same(0.0), Computed, |s| {
        s.row("cost", "N=1000 H=0: proxy VMs", "VMs")
    }),
    Item::new(("table 3", "proxies, N=1000 H=2"), (330.0, "VMs"), Same(0.0), Computed, |s| {
        s.row("cost", "N=1000 H=2: proxy VMs", "VMs")
    }),
    Item::new(("table 3", "cost of an hour, N=1000 H=2"), (112.2, "$/h"), Same(0.0), Computed, |s| {
        s.row("cost", "N=1000 H=2: dollars an hour", "$/h")
    }),
    Item::unprinted(("figure 11", "10/40, trades a second in bursts, SimplePQ"), "1/s", Simulated, |s| {
        s.row("fancypq", "10/40 SimplePQ: trades a second in bursts", "1/s")
    }),
    Item::unprinted(("figure 11", "10/40, trades a second in bursts, FancyPQ"), "1/s", Simulated, |s| {
        s.row("fancypq", "10/40 FancyPQ: trades a second in bursts", "1/s")
    }),
    Item::new(("figure 12", "10/160, more trades in bursts, up to"), (150.0, "%"), Same(0.05), Simulated, |s| {
        s.row("fancypq", "10/160 FancyPQ against SimplePQ: trades in bursts", "%")
    }),
    Item::new(("figure 12", "10/160, latency to the engine, down by up to"), (-99.9, "%"), Same(0.005), Simulated, |s| {
        s.row("fancypq", "10/160 FancyPQ against SimplePQ: latency to engine", "%")
    }),
    Item::unprinted(("appendix A", "copies of a message that come through the filter, H=2"), "copies", Simulated, filtered),
    Item::impossible(("figure 13", "violations of the triangle inequality in GCP"), CLOUD),
    Item::new(
        ("appendix C", "share of participant 1 of four, tree H=2 with hold-and-release"),
        (25.0, "%"),
        Same(0.04),
        Simulated,
        |s| s.row("profit-share", "tree H=2, hold-and-release: share of participant 1", "%"),
    )
    .note("the paper's table of shares is not in the text we have; equal shares are its statement"),
    Item::new(
        ("appendix C", "share of participant 100, tree H=2 with hold-and-release"),
        (25.0, "%"),
        Same(0.04),
        Simulated,
        |s| s.row("profit-share", "tree H=2, hold-and-release: share of participant 100", "%"),
    )
    .note("the paper's table of shares is not in the text we have; equal shares are its statement"),
    Item::unprinted(("appendix C", "share of participant 1, direct unicast without hold"), "%", Simulated, |s| {
        s.row("profit-share", "direct unicast, no hold: share of participant 1", "%")
    }),
    Item::new(
        ("appendix C", "profit of the nearest of eight accounts in the engine, hold and sequencer"),
        (12.5, "%"),
        Same(0.08),
        Simulated,
        |s| s.row("races", "hold and sequencer: profit of account 1 at 0 us", "%"),
    )
    .note(EIGHTH),
    Item::new(
        ("appendix C", "profit of the furthest of eight accounts in the engine, hold and sequencer"),
        (12.5, "%"),
        Same(0.08),
        Simulated,
        |s| s.row("races", "hold and sequencer: profit of account 8 at 150 us", "%"),
    )
    .note(EIGHTH),
    Item::unprinted(
        ("appendix C", "profit of the nearest of eight accounts in the engine, neither"),
        "%",
        Simulated,
        |s| s.row("races", "no hold, arrival order: profit of account 1 at 0 us", "%"),
    ),
    Item::unprinted(
        ("appendix C", "profit of the furthest of eight accounts in the engine, neither"),
        "%",
        Simulated,
        |s| s.row("races", "no hold, arrival order: profit of account 8 at 150 us", "%"),
    ),
    Item::new(("table 4", "N=100 H=2, median delivery window, GCP"), (0.0, "us"), Same(0.0), Simulated, |s| {
        s.row("fairness", "table 4 (gcp-like), N=100 H=2, max of p95s: median DWS, own clocks", "us")
    }),
    Item::new(("table 4", "N=100 H=2, P(F), GCP"), (78.0, "%"), Same(0.1), Simulated, |s| {
        s.row("fairness", "table 4 (gcp-like), N=100 H=2, max of p95s: P(F)", "%")
    })
    .note(WHO_IS_SLOW),
    Item::new(("table 4", "N=100 H=2, median OML, GCP"), (169.0, "us"), Same(0.1), Simulated, |s| {
        s.row("fairness", "table 4 (gcp-like), N=100 H=2, max of p95s: median release OML", "us")
    })
    .note("the profile of that provider is chosen, not fitted"),
    Item::new(("table 4", "N=1000 H=2, median delivery window, GCP"), (0.0, "us"), Same(0.0), Simulated, |s| {
        s.row("fairness", "table 4 (gcp-like), N=1000 H=2, max of p95s: median DWS, own clocks", "us")
    })
    .note("seeds differ, and the median is not zero where fewer than half of the messages come in time"),
    Item::new(("table 4", "N=1000 H=2, P(F), GCP"), (75.0, "%"), Same(0.1), Simulated, |s| {
        s.row("fairness", "table 4 (gcp-like), N=1000 H=2, max of p95s: P(F)", "%")
    })
    .note(WHO_IS_SLOW),
    Item::new(("table 4", "N=1000 H=2, median OML, GCP"), (245.0, "us"), Same(0.1), Simulated, |s| {
        s.row("fairness", "table 4 (gcp-like), N=1000 H=2, max of p95s: median release OML", "us")
    })
    .note("the profile of that provider is chosen, not fitted"),
    Item::unprinted(
        ("figure 14", "(a) standard deviation at D=4 over that at D=1, H=0"),
        "x",
        Simulated,
        |s| spread(s, "0"),
    ),
    Item::unprinted(
        ("figure 14", "(b) the same, H=1"),
        "x",
        Simulated,
        |s| spread(s, "1"),
    ),
    Item::unprinted(("figure 14", "(c) mean at D=3, H=1 over H=0"), "x", Simulated, |s| {
        s.ratio("hedging-montecarlo", "shared copies, D=3 H=1: mean", "shared copies, D=3 H=0: mean")
    }),
    Item::unprinted(("figure 14", "(c) mean at D=3, H=2 over H=1"), "x", Simulated, |s| {
        s.ratio("hedging-montecarlo", "shared copies, D=3 H=2: mean", "shared copies, D=3 H=1: mean")
    }),
    kept("one way up", |s| s.row("inbound-order", "one way up, window of 500 us: pairs kept, x = 0", "%")),
    kept("two ways up, the default with H=1", |s| {
        s.row("inbound-order", "two ways up, window of 500 us: pairs kept, x = 0", "%")
    }),
    kept("three ways up, the default with H=2", |s| {
        s.row("inbound-order", "three ways up, window of 500 us: pairs kept, x = 0", "%")
    }),
    kept("three ways up, adaptive window", |s| {
        s.row("inbound-order", "three ways up, adaptive window: pairs kept, x = 0", "%")
    }),
    Item::unprinted(
        (INBOUND, "what the least window for 99.99 % of pairs adds to the median order, three ways up"),
        "us",
        Simulated,
        |s| s.row("inbound-order", "three ways up, x = 0 us: what it adds to the median order", "us"),
    ),
    Item::unprinted((INBOUND, "what the adaptive window adds, three ways up"), "us", Simulated, |s| {
        s.row("inbound-order", "three ways up, adaptive window: what it adds to the median order", "us")
    }),
    Item::unprinted(
        (INBOUND, "pairs kept, three ways up, times within twice the largest clock error drawn (after Tommy)"),
        "%",
        Simulated,
        drawn,
    ),
];

/// Pairs kept where orders within the clocks' largest difference leave in a drawn order; the row's name has that time.
fn drawn(session: &mut Session) -> Result<Ours, host::failure::Failure> {
    let rows = &session.report("inbound-order")?.rows;
    let widest = rows.iter().rev().find(|row| row.what.ends_with("drawn: pairs kept, x = 0"));
    let none = || host::failure::Failure::Run("inbound-order draws no ties any more".to_string());
    let what = widest.ok_or_else(none)?.what.clone();
    session.row("inbound-order", &what, "%")
}

/// The overlay's filter, told all copies of a thousand messages that three senders send in any order within a buffer.
fn filtered(session: &mut Session) -> Result<Ours, host::failure::Failure> {
    const MESSAGES: u64 = 1_000;
    const COPIES: u64 = 3;
    let mut filter = DuplicateFilter::new(1_024, 1, COPIES as usize);
    let mut rng = types::SplitMix64::new(session.options.first_seed);
    let mut passed = 0_u64;
    let mut copies: Vec<(u64, u64)> =
        (1..=MESSAGES).flat_map(|id| (0..COPIES).map(move |_| (id, 0))).collect();
    for copy in &mut copies {
        copy.1 = copy.0 * 10 + rng.below(500);
    }
    copies.sort_by_key(|copy| copy.1);
    for (id, _) in copies {
        passed += u64::from(filter.accept(1, id, None) == Arrival::First);
    }
    Ok(Ours { value: passed as f64 / MESSAGES as f64, interval: None })
}
