//! Links between nodes: delay, jitter, loss, duplication, reordering, partitions; what they did.
//!
//! Every node is in a group; a link class belongs to each ordered pair of groups (or, for single
//! links, to a pair of nodes) and holds one [`LinkModel`] and its [`LinkStats`]. One random draw
//! decides a datagram's fate unless something rare happens to it. What differs by path and time is
//! [`Weather`]. Floats appear only here.

mod weather;

use std::collections::BTreeMap;

use types::{Nanos, SplitMix64};

use crate::cloud::math::{exp, normal_quantile};
pub(crate) use weather::Sky;
pub use weather::{Bursts, PathQueue, Weather, WeatherStats};

/// Groups a node can be in.
pub const GROUPS_MAX: usize = 16;

const QUANTILES: usize = 4_096;

/// How one link behaves; the default one is perfect and takes no time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct LinkModel {
    /// Delay every datagram has.
    pub base_ns: u64,
    /// Median of the delay added on top, which is log-normal.
    pub jitter_ns: u64,
    /// Sigma of that log-normal.
    pub jitter_sigma: f64,
    /// Datagrams lost, of a thousand.
    pub loss_permille: u16,
    /// Datagrams delivered twice, of a thousand.
    pub duplicate_permille: u16,
    /// Datagrams held back, of a thousand.
    pub reorder_permille: u16,
    /// Longest time a datagram is held back.
    pub reorder_ns: u64,
}

/// What happened on the links of one class; datagrams, except for `bytes`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkStats {
    /// Handed to the link by a node.
    pub sent: u64,
    /// Lost by the model.
    pub dropped: u64,
    /// Lost to a partition or a tap.
    pub blocked: u64,
    /// Extra copies made.
    pub duplicated: u64,
    /// Held back.
    pub reordered: u64,
    /// Given to a node, copies included.
    pub delivered: u64,
    /// Arrived at a dead node.
    pub to_dead: u64,
    /// Bytes of `sent`.
    pub bytes: u64,
}

impl LinkStats {
    /// Adds another class's figures.
    pub fn add(&mut self, other: &LinkStats) {
        self.sent += other.sent;
        self.dropped += other.dropped;
        self.blocked += other.blocked;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.delivered += other.delivered;
        self.to_dead += other.to_dead;
        self.bytes += other.bytes;
    }
}

/// When the copies of one datagram arrive, as delays; `None` for no (second) copy.
pub(crate) struct Fate {
    pub(crate) first: Option<u64>,
    pub(crate) second: Option<u64>,
}

struct Class {
    name: &'static str,
    model: LinkModel,
    delays: Vec<u64>,
    loss: u64,
    duplicate: u64,
    reorder: u64,
    stats: LinkStats,
}

#[derive(Clone, Copy)]
struct Block {
    from: u32,
    to: u32,
    start: Nanos,
    end: Nanos,
}

/// In a block: whoever it is.
const ANYBODY: u32 = u32::MAX;

/// All links of a world.
pub struct Links {
    classes: Vec<Class>,
    /// Measured delays in ascending order, in place of the models' base and jitter.
    measured: Vec<u64>,
    sky: Option<Sky>,
    groups: [[u8; GROUPS_MAX]; GROUPS_MAX],
    pairs: BTreeMap<(u32, u32), u8>,
    blocks: Vec<Block>,
}

impl Links {
    /// All links alike.
    pub fn new(model: LinkModel) -> Links {
        Links {
            classes: vec![Class::new("default", model, &[])],
            measured: Vec::new(),
            sky: None,
            groups: [[0; GROUPS_MAX]; GROUPS_MAX],
            pairs: BTreeMap::new(),
            blocks: Vec::new(),
        }
    }

    /// The links from nodes of group `from` to nodes of group `to` form a class of their own.
    ///
    /// # Panics
    /// When a group is out of range or there are more than 255 classes.
    pub fn between(&mut self, from: u8, to: u8, name: &'static str, model: LinkModel) {
        let class = self.class(name, model);
        self.groups[usize::from(from)][usize::from(to)] = class;
    }

    /// The link from node `from` to node `to` (indexes) forms a class of its own.
    ///
    /// # Panics
    /// When there are more than 255 classes.
    pub fn pair(&mut self, from: usize, to: usize, name: &'static str, model: LinkModel) {
        let class = self.class(name, model);
        self.pairs.insert((from as u32, to as u32), class);
    }

    /// Nothing passes from `from` to `to` between two true times; streams wait for the end.
    pub fn block(&mut self, from: usize, to: usize, start: Nanos, end: Nanos) {
        self.blocks.push(Block { from: from as u32, to: to as u32, start, end });
    }

    /// As [`Links::block`] for everything that `node` sends or is sent.
    pub fn isolate(&mut self, node: usize, start: Nanos, end: Nanos) {
        let node = node as u32;
        self.blocks.push(Block { from: node, to: ANYBODY, start, end });
        self.blocks.push(Block { from: ANYBODY, to: node, start, end });
    }

    /// Forgets the blocks that have ended by a true time that has come.
    pub fn forget_blocks_before(&mut self, now: Nanos) {
        self.blocks.retain(|block| block.end > now);
    }

    /// Every model becomes `change` of itself, say to heal all links.
    pub fn change_models(&mut self, change: impl Fn(LinkModel) -> LinkModel) {
        for class in &mut self.classes {
            let changed = Class::new(class.name, change(class.model), &self.measured);
            *class = Class { stats: class.stats, ..changed };
        }
    }

    /// Delays as measured, in ns, in place of every model's base and jitter; none: as modelled.
    pub fn measured(&mut self, mut delays_ns: Vec<u64>) {
        delays_ns.sort_unstable();
        self.measured = delays_ns;
        self.change_models(|model| model);
    }

    /// Sets the weather; `seed` decides everything random about it.
    pub fn set_weather(&mut self, weather: Weather, seed: u64) {
        self.sky = Some(Sky::new(weather, seed));
    }

    /// Delays from and to `node` are `permille` thousandths of what they would be; the weather has
    /// to be set before.
    pub fn slow_node(&mut self, node: usize, permille: u64) {
        if let Some(sky) = &mut self.sky {
            sky.slow_node(node, permille);
        }
    }

    /// Bursts and queues end.
    pub fn clear_weather(&mut self) {
        if let Some(sky) = &mut self.sky {
            sky.clear();
        }
    }

    /// What the weather did.
    pub fn weather_stats(&self) -> WeatherStats {
        self.sky.as_ref().map(Sky::stats).unwrap_or_default()
    }

    /// Name and figures of each class.
    pub fn stats(&self) -> impl Iterator<Item = (&'static str, LinkStats)> + '_ {
        self.classes.iter().map(|class| (class.name, class.stats))
    }

    /// Figures of all classes together.
    pub fn total(&self) -> LinkStats {
        let mut total = LinkStats::default();
        self.classes.iter().for_each(|class| total.add(&class.stats));
        total
    }

    pub(crate) fn class_of(&self, from: (u32, u8), to: (u32, u8)) -> u8 {
        if !self.pairs.is_empty()
            && let Some(&class) = self.pairs.get(&(from.0, to.0))
        {
            return class;
        }
        self.groups[usize::from(from.1)][usize::from(to.1)]
    }

    /// The end of the block that holds at `now`, if any.
    pub(crate) fn blocked_until(&self, from: u32, to: u32, now: Nanos) -> Option<Nanos> {
        let is = |block: u32, node: u32| block == node || block == ANYBODY;
        let holds = |block: &&Block| {
            is(block.from, from) && is(block.to, to) && block.start <= now && now < block.end
        };
        self.blocks.iter().filter(holds).map(|block| block.end).max()
    }

    pub(crate) fn stats_mut(&mut self, class: u8) -> &mut LinkStats {
        &mut self.classes[usize::from(class)].stats
    }

    /// Decides what happens to one datagram, and counts it.
    pub(crate) fn fate(&mut self, class: u8, rng: &mut SplitMix64) -> Fate {
        let class = &mut self.classes[usize::from(class)];
        let draw = rng.next_u64();
        if draw & 0xFFFF < class.loss {
            class.stats.dropped += 1;
            return Fate { first: None, second: None };
        }
        let mut first = class.delay_at(draw);
        if draw >> 16 & 0xFFFF < class.reorder {
            class.stats.reordered += 1;
            first += rng.below(class.model.reorder_ns + 1);
        }
        let second = (draw >> 32 & 0xFFFF < class.duplicate).then(|| {
            class.stats.duplicated += 1;
            class.delay_at(rng.next_u64())
        });
        Fate { first: Some(first), second }
    }

    /// What the weather makes of a delay; see [`Sky::delay`].
    pub(crate) fn in_weather(
        &mut self,
        path: (u32, u32),
        at: Nanos,
        delay_ns: u64,
        lossless: bool,
    ) -> Option<u64> {
        match &mut self.sky {
            None => Some(delay_ns),
            Some(sky) => sky.delay(path, at, delay_ns, lossless),
        }
    }

    /// Delay of a piece of a stream: what the model loses or holds back comes later.
    pub(crate) fn stream_delay(&self, class: u8, rng: &mut SplitMix64) -> u64 {
        let class = &self.classes[usize::from(class)];
        let draw = rng.next_u64();
        let mut delay = class.delay_at(draw);
        if draw & 0xFFFF < class.loss + class.reorder {
            delay += 2 * class.model.base_ns + class.model.reorder_ns;
        }
        delay
    }

    fn class(&mut self, name: &'static str, model: LinkModel) -> u8 {
        assert!(self.classes.len() < 256, "at most 255 link classes");
        self.classes.push(Class::new(name, model, &self.measured));
        (self.classes.len() - 1) as u8
    }
}

impl Class {
    fn new(name: &'static str, model: LinkModel, measured: &[u64]) -> Class {
        let threshold = |permille: u16| u64::from(permille) * 65_536 / 1_000;
        let quantile = |index: usize| {
            if !measured.is_empty() {
                return measured[index * measured.len() / QUANTILES];
            }
            let p = (index as f64 + 0.5) / QUANTILES as f64;
            let factor = exp(model.jitter_sigma * normal_quantile(p));
            model.base_ns + (model.jitter_ns as f64 * factor) as u64
        };
        Class {
            name,
            model,
            delays: (0..QUANTILES).map(quantile).collect(),
            loss: threshold(model.loss_permille),
            duplicate: threshold(model.duplicate_permille),
            reorder: threshold(model.reorder_permille),
            stats: LinkStats::default(),
        }
    }

    fn delay_at(&self, draw: u64) -> u64 {
        self.delays[(draw >> 48) as usize % QUANTILES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_and_delays_follow_the_model() {
        let model = LinkModel {
            base_ns: 10_000,
            jitter_ns: 15_000,
            jitter_sigma: 0.447,
            loss_permille: 10,
            duplicate_permille: 20,
            reorder_permille: 30,
            reorder_ns: 100_000,
        };
        let (mut links, mut rng) = (Links::new(model), SplitMix64::new(7));
        let mut delays = Vec::new();
        for _ in 0..100_000 {
            delays.extend(links.fate(0, &mut rng).first);
        }
        let stats = links.total();
        assert!((900..1_100).contains(&stats.dropped), "{stats:?}");
        assert!((1_800..2_200).contains(&stats.duplicated), "{stats:?}");
        assert!((2_700..3_300).contains(&stats.reordered), "{stats:?}");
        delays.sort_unstable();
        assert!(delays[0] >= model.base_ns);
        assert!((24_000..26_500).contains(&delays[delays.len() / 2]));
    }

    #[test]
    fn pairs_beat_groups_and_blocks_end() {
        let mut links = Links::new(LinkModel::default());
        links.between(1, 2, "tree", LinkModel::default());
        links.pair(5, 6, "one", LinkModel::default());
        assert_eq!(links.class_of((5, 1), (6, 2)), 2);
        assert_eq!(links.class_of((6, 1), (5, 2)), 1);
        assert_eq!(links.class_of((6, 0), (5, 2)), 0);
        links.block(5, 6, Nanos(10), Nanos(20));
        assert_eq!(links.blocked_until(5, 6, Nanos(10)), Some(Nanos(20)));
        assert_eq!(links.blocked_until(5, 6, Nanos(20)), None);
        assert_eq!(links.blocked_until(6, 5, Nanos(15)), None);
        links.isolate(7, Nanos(30), Nanos(40));
        assert_eq!(links.blocked_until(7, 1, Nanos(30)), Some(Nanos(40)));
        assert_eq!(links.blocked_until(1, 7, Nanos(39)), Some(Nanos(40)));
        assert_eq!(links.blocked_until(1, 2, Nanos(35)), None);
        links.forget_blocks_before(Nanos(20));
        assert_eq!(links.blocks.len(), 2, "the one that is over has gone");
        assert_eq!(links.blocked_until(7, 1, Nanos(30)), Some(Nanos(40)));
    }

    #[test]
    fn measured_delays_replace_the_model() {
        let (mut links, mut rng) = (Links::new(LinkModel::default()), SplitMix64::new(1));
        links.measured(vec![30, 10, 20, 40]);
        links.between(0, 1, "later", LinkModel { base_ns: 5, ..LinkModel::default() });
        let mut count = [0; 5];
        for draw in 0..4_000u32 {
            let delay = links.fate((draw % 2) as u8, &mut rng).first.unwrap();
            count[delay as usize / 10] += 1;
        }
        assert!(count[0] == 0 && count[1..].iter().all(|count| (800..1_200).contains(count)));
    }
}
