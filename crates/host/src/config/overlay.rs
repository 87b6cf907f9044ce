//! `[overlay]`: the tree, how it is guarded and changed, and what else it can do.

use exchange::{OverlayOptions, Secret, Spread, TreeShape};
use net::plane::PlaneKind;
use overlay::{
    egress::{QueueConfig, QueuePolicy},
    estimator::Estimator,
    hedger::HedgeMode,
    hedging::{HedgePolicy, Hedging},
    membership::RollCallConfig,
    pacing::PacerConfig,
    repair_cache::CacheConfig,
    topology::DEPTH_MAX,
    upstream_queue::{Pace, UpstreamConfig},
};
use serde::{Deserialize, Serialize};
use types::Nanos;

use super::Hold;

/// Whose children a node helps.
pub const POLICIES: &[&str] = &["sibling", "path-disjoint", "extra-fanout"];
/// Which messages are hedged.
pub const MODES: &[&str] = &["all", "odd-only", "adaptive"];
/// What the planes are used for.
pub const PLANE_USES: &[&str] = &["messages", "symbols"];
/// Orders that wait at a proxy.
pub const QUEUES: &[&str] = &["none", "fifo", "simple", "limit-order"];
/// What sets the pace of orders upwards.
pub const PACES: &[&str] = &["free", "paper", "credits"];
/// How overlay datagrams get from sockets to the network ([`net::plane`]).
pub const DATA_PLANES: &[&str] = &["udp", "tc-clone", "af_xdp", "dpdk"];
/// How delays become deadlines.
pub const ESTIMATORS: &[&str] = &["max-of-percentiles", "message-percentile", "miss-rate"];
/// No H of a layer's own.
const SAME: &str = "same";
/// What an adaptive hedge demands of a copy more, in thousandths of the delay.
const GAIN_PERMILLE: u16 = 50;
/// Most ways up of an order where no number is given: with three none is lost for longer than the sequencer waits.
const WAYS: u32 = 3;
/// Sampled messages behind a percentile of messages.
const MESSAGES: u16 = 1_000;

/// The tree of proxies.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Overlay {
    /// Hops from the root to a receiver (D).
    pub depth: u32,
    /// Children of a node (F).
    pub fanout: u32,
    /// Receiver VMs, each with a gateway (N).
    pub receivers: u32,
    /// Siblings whose children a node also sends to (H).
    pub hedge: u32,
    /// Parents change with every message.
    pub dynamic_parents: bool,
    /// Least time between two datagrams of market data that are not full, microseconds: the longest
    /// that a message waits, and only when others went just before.
    pub linger_us: u64,
    /// Datagrams between nodes are sealed.
    pub sealed: bool,
    /// How they leave a machine: the first of these that can be had there.
    pub data_plane: Vec<String>,
    /// Machines of proxies and edges drop duplicates of market data in front of their stacks.
    pub duplicate_filter: bool,
    /// Requests of participants came in when the kernel had them, not when the gateway took them.
    pub kernel_stamps: bool,
    /// Between two roll calls of the root, milliseconds; 0: none.
    pub roll_call_ms: u64,
    /// When another tree takes over, in percent of the play; 0: never.
    pub change_tree_at_percent: u32,
    /// Depth of that tree; 0: as it is.
    pub change_depth: u32,
    /// Its fan-out; 0: as it is.
    pub change_fanout: u32,
    /// Proxies that stand by, to take the place of one that turns out to be slow.
    pub standby: u32,
    /// A proxy that has been silent for so long is replaced by one that stands by, milliseconds; 0:
    /// never.
    pub replace_after_ms: u64,
    /// From when on slow proxies are replaced, in percent of the play; 0: never.
    pub revise_at_percent: u32,
    /// What the slowest way must gain by it, microseconds.
    pub revise_gain_us: u64,
    /// Whose children a node helps.
    pub hedging: String,
    /// H of the copies into each layer, the one below the root first; or `same`.
    pub layer_hedges: String,
    /// Which messages are hedged.
    pub hedge_mode: String,
    /// Times the proxy layers exist.
    pub planes: u32,
    /// Messages take turns in the planes, or each plane is the tree of some of the symbols.
    pub plane_use: String,
    /// Copies of an order that a gateway sends at a time, each by another parent; 0: as many as there are of
    /// market data, at most three.
    pub order_ways: u32,
    /// A node serves the slowest of its children first.
    pub slowest_first: bool,
    /// Datagrams behind one parity datagram; 0: none.
    pub parity: u32,
    /// Datagrams that a proxy above receivers keeps for repairs; 0: none.
    pub repair_cache: u32,
    /// How orders wait at proxies.
    pub queue: String,
    /// Wait after which an order is served before more critical ones, milliseconds.
    pub queue_age_ms: u64,
    /// Least time between two orders that leave a queue, microseconds.
    pub queue_gap_us: u64,
    /// What sets the pace of orders that leave a queue.
    pub pacing: String,
    /// Orders that a node grants its children, per millisecond.
    pub credits_per_ms: u32,
}

impl Default for Overlay {
    fn default() -> Self {
        let first = |words: &[&str]| words.first().copied().unwrap_or_default().to_string();
        Overlay {
            depth: 2,
            fanout: 3,
            receivers: 9,
            hedge: 1,
            dynamic_parents: true,
            linger_us: 200,
            sealed: true,
            data_plane: vec![first(DATA_PLANES)],
            duplicate_filter: false,
            kernel_stamps: true,
            roll_call_ms: 50,
            change_tree_at_percent: 60,
            change_depth: 0,
            change_fanout: 5,
            standby: 0,
            replace_after_ms: 0,
            revise_at_percent: 0,
            revise_gain_us: 30,
            hedging: first(POLICIES),
            layer_hedges: SAME.to_string(),
            hedge_mode: first(MODES),
            planes: 1,
            plane_use: first(PLANE_USES),
            order_ways: 0,
            slowest_first: false,
            parity: 0,
            repair_cache: 0,
            queue: first(QUEUES),
            queue_age_ms: 20,
            queue_gap_us: 0,
            pacing: first(PACES),
            credits_per_ms: 64,
        }
    }
}

impl Overlay {
    /// The shape that the tree changes to, if it does: it must be another one, and the root must
    /// be watching.
    pub fn change_to(&self) -> Option<TreeShape> {
        let or = |given: u32, present: u32| if given == 0 { present } else { given } as usize;
        let shape = TreeShape {
            depth: or(self.change_depth, self.depth),
            fanout: or(self.change_fanout, self.fanout),
        };
        let wanted = self.change_tree_at_percent > 0 && self.roll_call_ms > 0;
        wanted.then_some(shape)
    }

    /// The shape it starts with.
    pub fn shape(&self) -> TreeShape {
        TreeShape { depth: self.depth as usize, fanout: self.fanout as usize }
    }

    /// How overlay datagrams leave a machine: the first of these that can be had there.
    pub fn data_planes(&self) -> Vec<PlaneKind> {
        // Checked when the configuration was read.
        self.data_plane.iter().filter_map(|name| name.parse().ok()).collect()
    }

    /// Whether each plane is the tree of some of the symbols.
    pub fn by_symbol(&self) -> bool {
        self.plane_use == "symbols"
    }

    /// Most parents by which an order can be sent at once: a gateway knows H + 1 of them, but two
    /// even without hedging.
    pub fn ways_max(&self) -> u32 {
        if self.hedging == "extra-fanout" { 1 } else { self.hedge.max(1) + 1 }
    }

    /// Parents by which an order is sent at once.
    pub fn ways(&self) -> u32 {
        match self.order_ways {
            0 => (self.hedge + 1).min(WAYS).min(self.ways_max()),
            given => given,
        }
    }

    /// H by layer; the reason why there is none when the text is wrong.
    pub fn layer_hedges(&self) -> Result<[u8; DEPTH_MAX], String> {
        let mut layers = [Hedging::TREE; DEPTH_MAX];
        if self.layer_hedges == SAME {
            return Ok(layers);
        }
        let parts: Vec<&str> = self.layer_hedges.split(',').map(str::trim).collect();
        let wrong = || {
            let depth = self.depth;
            let given = &self.layer_hedges;
            format!("must be \"same\" or {depth} numbers 0..=8 like \"0,1\", is {given:?}")
        };
        if parts.len() != self.depth as usize || parts.len() > DEPTH_MAX {
            return Err(wrong());
        }
        for (layer, part) in layers.iter_mut().zip(parts) {
            *layer = part.parse().ok().filter(|hedge| *hedge <= 8).ok_or_else(wrong)?;
        }
        Ok(layers)
    }

    fn hedging(&self) -> Hedging {
        let policy = match self.hedging.as_str() {
            "path-disjoint" => HedgePolicy::PathDisjoint,
            "extra-fanout" => HedgePolicy::ExtraFanout,
            _ => HedgePolicy::Sibling,
        };
        let layers = self.layer_hedges().unwrap_or([Hedging::TREE; DEPTH_MAX]);
        let spares = if policy == HedgePolicy::ExtraFanout { self.hedge.min(8) as u8 } else { 0 };
        Hedging { policy, layers, spares, planes: self.planes.max(1) as u16 }
    }

    fn lift(&self) -> Option<UpstreamConfig> {
        let policy = match self.queue.as_str() {
            "fifo" => QueuePolicy::Fifo,
            "simple" => QueuePolicy::SimplePq,
            "limit-order" => QueuePolicy::LimitOrder,
            _ => return None,
        };
        let age_ns = self.queue_age_ms * Nanos::MILLI;
        let pace = match self.pacing.as_str() {
            "paper" => Pace::Paper(PacerConfig::default()),
            "credits" => Pace::Credits { rate: self.credits_per_ms },
            _ => Pace::Free,
        };
        let queue = QueueConfig { policy, age_ns, ..QueueConfig::default() };
        Some(UpstreamConfig { queue, pace, gap_ns: self.queue_gap_us * Nanos::MICRO })
    }

    /// All of it, as the nodes take it; sealed under `secret`.
    pub fn options(&self, hold: &Hold, secret: Option<Secret>) -> OverlayOptions {
        let first = self.shape();
        let every_ns = self.roll_call_ms * Nanos::MILLI;
        let calls = RollCallConfig { every_ns, ..RollCallConfig::default() };
        let cache = CacheConfig { datagrams: self.repair_cache as usize, ..CacheConfig::default() };
        let (hedge, most) = (self.hedge.min(8) as u8, (self.hedge + 1).min(8) as u8);
        OverlayOptions {
            secret,
            release_at_once: !hold.enabled,
            quarantine_ns: 0,
            roll_call: (self.roll_call_ms > 0).then_some(calls),
            shapes: self.change_to().map_or(Vec::new(), |shape| vec![first, shape]),
            standby: self.standby as u16,
            replace_after_ns: self.replace_after_ms * Nanos::MILLI,
            hedging: self.hedging(),
            // Which instrument is on which tree is no matter of the overlay alone.
            spread: if self.by_symbol() { Spread::Symbols(Vec::new()) } else { Spread::Messages },
            order_ways: self.ways() as usize,
            hedge_mode: match self.hedge_mode.as_str() {
                "odd-only" => HedgeMode::OddOnly,
                "adaptive" => {
                    HedgeMode::Adaptive { first: hedge, most, gain_permille: GAIN_PERMILLE }
                }
                _ => HedgeMode::Tree,
            },
            estimator: hold.estimator(),
            samples: hold.samples as usize,
            slowest_first: self.slowest_first,
            // These are the sequencer's section's.
            late_ppm: 0,
            tie_ns: 0,
            upstream: self.lift(),
            parity: self.parity as u16,
            cache: (self.repair_cache > 0).then_some(cache),
            tokens: None,
        }
    }
}

impl Hold {
    /// How delays become deadlines.
    pub fn estimator(&self) -> Estimator {
        let permille = (self.target_percent * 10.0).round().clamp(1.0, 999.0) as u16;
        match self.estimator.as_str() {
            "message-percentile" => Estimator::MessagePercentile { permille, window: MESSAGES },
            "miss-rate" => Estimator::MissRate { permille },
            _ => Estimator::MaxOfPercentiles,
        }
    }
}
