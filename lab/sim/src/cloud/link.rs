//! What a cloud is like: a [`Profile`]; and one cloud of that kind: a [`Cloud`], fixed by a seed.
//!
//! The delay of a copy is base + median * X, X log-normal around 1, both scaled by a factor of the
//! ordered pair of VMs (spatial spread) and by the slower of the two VMs (stragglers are slower
//! and noisier). Paths have rare bursts of extra delay (a two-state Markov process) and, if asked
//! for, a queue that load fills. A sender is busy for some time with every copy it makes; it has
//! several threads and one thread makes all copies of a message (Jasper §9.1).
//!
//! A copy's fate is a function of (seed, message, sender, receiver) and not of the order in which
//! copies are asked for, so different simulators of one cloud agree to the nanosecond.

use std::ops::Range;

use types::{Nanos, SplitMix64};

use super::math::{exp, ln, normal_quantile};

/// Quantiles of a distribution kept as a table; beyond its ends they are calculated.
const QUANTILES: usize = 4_096;
/// Different spatial factors.
const FACTORS: usize = 1_024;
/// Bits of the filter before the list of active spikes.
const SPIKE_FILTER: usize = 1 << 16;
/// Threads of a sender at most.
pub const THREADS_MAX: usize = 8;

/// Bursts of delay on a path.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SpikeModel {
    /// Mean time between the bursts of one path, in ns.
    pub every_ns: f64,
    /// Mean length of a burst, in ns.
    pub length_ns: f64,
    /// Median of the delay added while it lasts, in ns; log-normal with sigma 0.5 over bursts.
    pub extra_ns: f64,
}

/// A queue on each path that load fills.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct QueueModel {
    /// Time the path needs for one packet, in ns.
    pub service_ns: u64,
    /// Longest queueing delay; packets beyond it are lost.
    pub limit_ns: u64,
    /// Whether the root's paths have one too.
    pub at_root: bool,
}

/// What a cloud is like.
#[derive(Clone, PartialEq, Debug)]
pub struct Profile {
    /// Name, for reports.
    pub name: &'static str,
    /// Fixed part of a hop's delay, in ns.
    pub base_ns: f64,
    /// Median of the random part, in ns.
    pub median_ns: f64,
    /// Sigma of the random part's log-normal.
    pub sigma: f64,
    /// Time a sender is busy with one copy, in ns.
    pub copy_ns: u64,
    /// Sending threads of a VM, at most [`THREADS_MAX`].
    pub threads: usize,
    /// Sigma of the log-normal factor between paths.
    pub spatial_sigma: f64,
    /// Stragglers, of a million VMs.
    pub straggler_ppm: u32,
    /// A straggler's delays are 1 + this times an exponential of mean 1 longer.
    pub straggler_extra: f64,
    /// Sigma of the random part at a straggler.
    pub straggler_sigma: f64,
    /// Bursts, if any.
    pub spikes: Option<SpikeModel>,
    /// Queues, if any.
    pub queue: Option<QueueModel>,
    /// Copies lost, of a million.
    pub loss_ppm: u32,
    /// 99th percentile of the clocks' absolute error, in ns; normal, cut off at 1.5 times this.
    pub clock_error_ns: f64,
    /// Measured delays in ns instead of base + log-normal.
    pub measured: Option<Vec<u32>>,
}

impl Profile {
    /// Fit of the paper's Table 1: hops alike and independent.
    pub fn table1() -> Profile {
        Profile {
            name: "table1",
            base_ns: 10_100.0,
            median_ns: 15_600.0,
            sigma: 0.447,
            copy_ns: 3_280,
            threads: 6,
            spatial_sigma: 0.0,
            straggler_ppm: 0,
            straggler_extra: 0.0,
            straggler_sigma: 0.447,
            spikes: None,
            queue: None,
            loss_ppm: 0,
            clock_error_ns: 0.0,
            measured: None,
        }
    }

    /// The standard cloud of all fairness figures: the Table-1 fit, spatial spread, bursts on
    /// paths, 5 % stragglers, 0.1 % loss, clock error 300 ns p99.
    pub fn standard() -> Profile {
        Profile {
            name: "standard",
            spatial_sigma: 0.15,
            straggler_ppm: 50_000,
            straggler_extra: 0.4,
            straggler_sigma: 0.55,
            spikes: Some(SpikeModel { every_ns: 30e9, length_ns: 5e6, extra_ns: 300e3 }),
            loss_ppm: 1_000,
            clock_error_ns: 300.0,
            ..Profile::table1()
        }
    }

    /// Like the paper's second provider: somewhat quicker hops with a heavier tail.
    pub fn gcp_like() -> Profile {
        Profile {
            name: "gcp-like",
            base_ns: 9_000.0,
            median_ns: 14_000.0,
            sigma: 0.52,
            spatial_sigma: 0.2,
            ..Profile::standard()
        }
    }

    /// Constant delay, nothing lost, perfect clocks.
    pub fn ideal() -> Profile {
        Profile { name: "ideal", median_ns: 15_600.0, sigma: 0.0, ..Profile::table1() }
    }

    /// Delays as measured, one number of ns a line ('#' starts a comment); everything else ideal.
    ///
    /// # Errors
    /// The number of the first line that holds no delay, 0 when there is no delay at all.
    pub fn empirical(text: &str) -> Result<Profile, usize> {
        let mut measured = Vec::new();
        for (number, line) in (1usize..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or("").trim();
            if !line.is_empty() {
                measured.push(line.parse::<u32>().map_err(|_| number)?);
            }
        }
        measured.sort_unstable();
        if measured.is_empty() {
            return Err(0);
        }
        Ok(Profile { name: "empirical", measured: Some(measured), ..Profile::table1() })
    }

    /// How much slower a VM is drawn to be: 1, or more for a straggler.
    fn slowness(&self, rng: &mut SplitMix64) -> f64 {
        let straggles = rng.below(1_000_000) < u64::from(self.straggler_ppm);
        let extra = exponential(self.straggler_extra, rng);
        if straggles { 1.0 + extra } else { 1.0 }
    }

    /// A profile by its name.
    pub fn named(name: &str) -> Option<Profile> {
        let all = [Profile::table1(), Profile::standard(), Profile::gcp_like(), Profile::ideal()];
        all.into_iter().find(|profile| profile.name == name)
    }
}

/// Quantile function of a log-normal around 1.
struct LogNormal {
    sigma: f64,
    /// Values at p = i / QUANTILES, the two ends left out of use.
    edges: Box<[f64; QUANTILES + 1]>,
}

impl LogNormal {
    fn new(sigma: f64) -> LogNormal {
        let edge = |index: usize| {
            let p = (index as f64 / QUANTILES as f64).clamp(1e-9, 1.0 - 1e-9);
            exp(sigma * normal_quantile(p))
        };
        LogNormal { sigma, edges: Box::new(std::array::from_fn(edge)) }
    }

    /// Value for 44 random bits.
    #[inline]
    fn at(&self, bits: u64) -> f64 {
        let cell = (bits >> 32) as usize & (QUANTILES - 1);
        let rest = f64::from(bits as u32) / 4_294_967_296.0;
        if cell == 0 || cell == QUANTILES - 1 {
            return self.beyond(cell, rest);
        }
        let low = self.edges[cell];
        low + (self.edges[cell + 1] - low) * rest
    }

    #[cold]
    fn beyond(&self, cell: usize, rest: f64) -> f64 {
        let p = (cell as f64 + rest.max(1e-7)) / QUANTILES as f64;
        exp(self.sigma * normal_quantile(p))
    }
}

#[derive(Clone, Copy)]
struct Spike {
    start: u64,
    end: u64,
    path: u32,
    extra_ns: u64,
}

/// The bursts of a run, in order, and those that last.
struct Spikes {
    coming: Vec<Spike>,
    next: usize,
    /// By path.
    active: Vec<Spike>,
    /// Bit per hash of a path: perhaps active.
    filter: Box<[u64; SPIKE_FILTER / 64]>,
    checked: u64,
}

impl Spikes {
    fn new(coming: Vec<Spike>) -> Spikes {
        let filter = Box::new([0; SPIKE_FILTER / 64]);
        Spikes { coming, next: 0, active: Vec::new(), filter, checked: 0 }
    }

    fn bit(path: u32) -> usize {
        (path.wrapping_mul(0x9E37_79B1) >> 16) as usize
    }

    #[inline]
    fn extra_ns(&mut self, path: u32, at: u64) -> u64 {
        // Copies are asked for in nearly the order of time; 1 ms covers what is out of order.
        if at > self.checked {
            self.refresh(at);
        }
        let bit = Spikes::bit(path);
        if self.filter[bit / 64] >> (bit % 64) & 1 == 0 {
            return 0;
        }
        self.lasting_ns(path, at)
    }

    #[cold]
    fn lasting_ns(&self, path: u32, at: u64) -> u64 {
        let first = self.active.partition_point(|spike| spike.path < path);
        let here = self.active[first..].iter().take_while(|spike| spike.path == path);
        let holds = |spike: &&Spike| spike.start <= at && at < spike.end;
        here.filter(holds).map(|spike| spike.extra_ns).max().unwrap_or(0)
    }

    #[cold]
    fn refresh(&mut self, at: u64) {
        self.checked = at + Nanos::MILLI;
        let slack = 20 * Nanos::MILLI;
        self.active.retain(|spike| spike.end + slack > at);
        while let Some(spike) = self.coming.get(self.next).filter(|s| s.start <= self.checked) {
            self.active.push(*spike);
            self.next += 1;
        }
        self.active.sort_unstable_by_key(|spike| spike.path);
        self.filter.fill(0);
        for spike in &self.active {
            let bit = Spikes::bit(spike.path);
            self.filter[bit / 64] |= 1 << (bit % 64);
        }
    }
}

/// One cloud: VMs, paths, clocks and what happens to them during a run.
pub struct Cloud {
    profile: Profile,
    key: u64,
    path_key: u64,
    plain: LogNormal,
    noisy: LogNormal,
    factors: Box<[f64; FACTORS]>,
    /// Factor of a VM's delays: 1, or more for a straggler.
    slowness: Vec<f64>,
    clock_ns: Vec<i64>,
    loss: u64,
    /// Delays are measured ones.
    measures: bool,
    spikes: Option<Spikes>,
    /// First path number of each receiving layer, for the queues.
    layers: Vec<u32>,
    queues: Vec<u64>,
    bases: Vec<usize>,
}

impl Cloud {
    /// A cloud for nodes in layers of these sizes (the root not counted), numbered as the overlay
    /// numbers them, in which a run lasts `run_ns`.
    pub fn new(profile: &Profile, seed: u64, layers: &[u32], run_ns: u64) -> Cloud {
        let mut rng = SplitMix64::new(SplitMix64::mix(seed) ^ 0xC10D);
        let nodes = 1 + layers.iter().sum::<u32>() as usize;
        // The root is chosen with care: nobody runs an exchange on a straggler.
        let slowness = |node: usize, rng: &mut SplitMix64| {
            let drawn = profile.slowness(rng);
            if node > 0 { drawn } else { 1.0 }
        };
        let slowness: Vec<f64> = (0..nodes).map(|node| slowness(node, &mut rng)).collect();
        let sigma = profile.clock_error_ns / 2.575_829;
        let cut = 1.5 * profile.clock_error_ns;
        let error = |rng: &mut SplitMix64| (sigma * normal_quantile(open(rng))).clamp(-cut, cut);
        let clock_ns = (0..nodes).map(|_| error(&mut rng) as i64).collect();
        let factor = |index: usize| {
            let p = (index as f64 + 0.5) / FACTORS as f64;
            exp(profile.spatial_sigma * normal_quantile(p))
        };
        let mut bases = Vec::new();
        let mut paths = 0;
        for (layer, size) in layers.iter().enumerate() {
            bases.push(paths);
            paths += *size as usize * if layer == 0 { 1 } else { layers[layer - 1] as usize };
        }
        let spikes =
            profile.spikes.map(|model| Spikes::new(bursts(&model, layers, run_ns, &mut rng)));
        Cloud {
            key: rng.next_u64(),
            path_key: rng.next_u64(),
            plain: LogNormal::new(profile.sigma),
            noisy: LogNormal::new(profile.straggler_sigma),
            factors: Box::new(std::array::from_fn(factor)),
            slowness,
            clock_ns,
            loss: u64::from(profile.loss_ppm) * (1 << 20) / 1_000_000,
            measures: profile.measured.is_some(),
            spikes,
            layers: layers.to_vec(),
            queues: if profile.queue.is_some() { vec![0; paths] } else { Vec::new() },
            bases,
            profile: profile.clone(),
        }
    }

    /// What kind of cloud it is.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Reading of a node's clock minus true time, in ns.
    pub fn clock_ns(&self, node: usize) -> i64 {
        self.clock_ns[node]
    }

    /// Has `proxies` be the quickest of themselves and `more` VMs of the same kind, each by the mean of
    /// `probes` one-way delays from the root.
    pub fn place(&mut self, proxies: Range<usize>, more: usize, probes: u64, seed: u64) {
        let mut rng = SplitMix64::new(SplitMix64::mix(seed) ^ 0x91AC);
        let first = self.slowness.len();
        for _ in 0..more {
            let slowness = self.profile.slowness(&mut rng);
            self.slowness.push(slowness);
        }
        let mut measured: Vec<(u64, usize)> = Vec::new();
        for node in proxies.clone().chain(first..first + more) {
            let delay = |probe| self.delay_ns(rng.next_u64() ^ probe, 0, node as u16, 0);
            let delays: Vec<u64> = (0..probes).filter_map(delay).collect();
            measured.push((delays.iter().sum::<u64>() / delays.len().max(1) as u64, node));
        }
        measured.sort_unstable();
        let chosen: Vec<usize> = measured.iter().take(proxies.len()).map(|of| of.1).collect();
        let left = proxies.filter(|proxy| !chosen.contains(proxy)).collect::<Vec<_>>();
        for (proxy, new) in left.into_iter().zip(chosen.iter().filter(|node| **node >= first)) {
            self.slowness[proxy] = self.slowness[*new];
        }
        self.slowness.truncate(first);
    }

    /// Whether a node is a straggler.
    pub fn is_straggler(&self, node: usize) -> bool {
        self.slowness[node] > 1.0
    }

    /// What distinguishes one message from all others; to be given to [`Cloud::delay_ns`].
    pub fn message_key(&self, message: u64) -> u64 {
        SplitMix64::mix(self.key ^ message.wrapping_mul(0xD6E8_FEB8_6659_FD93))
    }

    /// Delay of the copy of a message that leaves `from` for `to` at `sent_at`; `None` when lost.
    #[inline]
    pub fn delay_ns(&mut self, key: u64, from: u16, to: u16, sent_at: u64) -> Option<u64> {
        let path = u32::from(from) << 16 | u32::from(to);
        let draw = SplitMix64::mix(key ^ u64::from(path).wrapping_mul(0xA24B_AED4_963E_E407));
        if draw & 0xF_FFFF < self.loss {
            return None;
        }
        let bits = draw >> 20;
        let slowness = self.slowness[usize::from(from)].max(self.slowness[usize::from(to)]);
        let (base_ns, median_ns) = (self.profile.base_ns, self.profile.median_ns);
        let delay = if self.measures {
            self.measured_ns(bits)
        } else if slowness > 1.0 {
            (base_ns + median_ns * self.noisy.at(bits)) * slowness
        } else {
            base_ns + median_ns * self.plain.at(bits)
        };
        let delay = if self.profile.spatial_sigma > 0.0 {
            let spot = SplitMix64::mix(self.path_key ^ u64::from(path)) as usize;
            delay * self.factors[spot % FACTORS]
        } else {
            delay
        };
        // Signed is the shorter conversion; the value is far within both.
        let mut delay = delay as i64 as u64;
        if let Some(spikes) = &mut self.spikes {
            delay += spikes.extra_ns(path, sent_at);
        }
        match self.queues.is_empty() {
            true => Some(delay),
            false => Some(delay + self.queued_ns(from, to, sent_at)?),
        }
    }

    #[cold]
    fn measured_ns(&self, bits: u64) -> f64 {
        let measured = self.profile.measured.as_deref().unwrap_or(&[0]);
        f64::from(measured[(bits % measured.len() as u64) as usize])
    }

    /// Wait in the queue of a path, if it has one; `None` when that is full.
    #[cold]
    fn queued_ns(&mut self, from: u16, to: u16, sent_at: u64) -> Option<u64> {
        let queue = self.profile.queue.filter(|queue| queue.at_root || from > 0);
        // Paths that are not down the tree have no queue.
        let place = queue.and_then(|queue| Some((queue, self.path_index(from, to)?)));
        let Some((queue, until)) = place.and_then(|(q, i)| Some((q, self.queues.get_mut(i)?)))
        else {
            return Some(0);
        };
        let wait = until.saturating_sub(sent_at);
        if wait > queue.limit_ns {
            return None;
        }
        *until = sent_at + wait + queue.service_ns;
        Some(wait)
    }

    fn path_index(&self, from: u16, to: u16) -> Option<usize> {
        let (from, to) = (u32::from(from), u32::from(to));
        let (mut first, mut above) = (1, 0);
        for (layer, size) in self.layers.iter().enumerate() {
            if to >= first && to < first + size {
                let row = from.checked_sub(above).filter(|_| from < first)?;
                return Some(self.bases[layer] + (row * size + to - first) as usize);
            }
            above = first;
            first += size;
        }
        None
    }
}

/// A number within (0, 1).
pub fn open(rng: &mut SplitMix64) -> f64 {
    rng.unit().max(1e-12)
}

/// An exponentially distributed number.
pub fn exponential(mean: f64, rng: &mut SplitMix64) -> f64 {
    -mean * ln(open(rng))
}

/// The bursts on all paths between adjacent layers within `run_ns`.
fn bursts(model: &SpikeModel, layers: &[u32], run_ns: u64, rng: &mut SplitMix64) -> Vec<Spike> {
    let mut edges = Vec::new();
    let (mut above, mut width, mut first) = (0u32, 1u32, 1u32);
    for size in layers {
        edges.push((above, width, first, *size));
        (above, width, first) = (first, *size, first + size);
    }
    let paths: u64 = edges.iter().map(|(_, width, _, size)| u64::from(width * size)).sum();
    let mean = model.every_ns / paths as f64;
    let mut coming = Vec::new();
    let mut at = 0.0;
    loop {
        at += exponential(mean, rng);
        if at >= run_ns as f64 {
            return coming;
        }
        let mut pick = rng.below(paths);
        for (above, width, first, size) in &edges {
            let here = u64::from(width * size);
            if pick < here {
                let from = above + (pick / u64::from(*size)) as u32;
                let to = first + (pick % u64::from(*size)) as u32;
                let length = exponential(model.length_ns, rng);
                let extra = model.extra_ns * exp(0.5 * normal_quantile(open(rng)));
                let (start, end) = (at as u64, (at + length) as u64);
                let extra_ns = extra as u64;
                coming.push(Spike { start, end, path: from << 16 | to, extra_ns });
                break;
            }
            pick -= here;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::stats::percentile;

    fn delays(profile: &Profile, count: u64) -> Vec<u64> {
        let mut cloud = Cloud::new(profile, 1, &[10, 100], Nanos::SECOND);
        let copy = |id| cloud.delay_ns(cloud.message_key(id), 3, 44, id * 200_000);
        let mut copy = copy;
        (0..count).filter_map(&mut copy).collect()
    }

    #[test]
    fn delays_have_the_fitted_distribution() {
        let mut delays = delays(&Profile::table1(), 200_000);
        assert_eq!(delays.len(), 200_000);
        let median = percentile(&mut delays, 0.5);
        assert!((25_600..25_800).contains(&median), "{median}");
        // The log-normal's p99.99 is 15.6 * exp(0.447 * 3.719) us above the base.
        let tail = percentile(&mut delays, 0.9999);
        assert!((89_000..97_000).contains(&tail), "{tail}");
    }

    #[test]
    fn the_figures_of_a_seed_are_the_same_everywhere() {
        let sums: Vec<u64> = [Profile::table1(), Profile::standard(), Profile::gcp_like()]
            .iter()
            .map(|profile| delays(profile, 1_000).iter().sum())
            .collect();
        assert_eq!(sums, SUMS);
    }

    #[test]
    fn losses_bursts_stragglers_and_clocks_follow_the_profile() {
        let profile = Profile {
            loss_ppm: 10_000,
            spikes: Some(SpikeModel { every_ns: 100e6, length_ns: 10e6, extra_ns: 300e3 }),
            ..Profile::standard()
        };
        let mut cloud = Cloud::new(&profile, 5, &[100, 1_000], 4 * Nanos::SECOND);
        let slow = (0..1_101).filter(|node| cloud.is_straggler(*node)).count();
        assert!((35..80).contains(&slow) && !cloud.is_straggler(0), "{slow}");
        let errors = (0..1_101).filter(|node| cloud.clock_ns(*node).abs() > 300).count();
        assert!((3..25).contains(&errors), "{errors}");
        let (mut lost, mut late, count) = (0u32, 0u32, 20_000u64);
        for id in 0..count {
            let (from, to) = ((1 + id % 100) as u16, (101 + id % 1_000) as u16);
            match cloud.delay_ns(cloud.message_key(id), from, to, id * 200_000) {
                None => lost += 1,
                Some(delay) => late += u32::from(delay > 180_000),
            }
        }
        assert!((130..270).contains(&lost), "{lost}");
        // A path is in a burst for a tenth of the time; some bursts add less than 150 us.
        assert!((1_000..2_600).contains(&late), "{late}");
    }

    #[test]
    fn placement_sends_stragglers_back_and_leaves_receivers_alone() {
        let profile = Profile { straggler_ppm: 200_000, ..Profile::standard() };
        let mut cloud = Cloud::new(&profile, 5, &[100, 1_000], 0);
        let slow = |cloud: &Cloud, nodes: Range<usize>| {
            nodes.filter(|node| cloud.is_straggler(*node)).count()
        };
        let (before, receivers) = (slow(&cloud, 1..101), slow(&cloud, 101..1_101));
        cloud.place(1..101, 50, 200, 7);
        let after = slow(&cloud, 1..101);
        assert!(before > 10 && after < before / 2, "{before} {after}");
        assert_eq!((slow(&cloud, 101..1_101), cloud.slowness.len()), (receivers, 1_101));
        cloud.place(1..101, 0, 200, 7);
        assert_eq!(slow(&cloud, 1..101), after, "control: nobody to take a place");
    }

    #[test]
    fn queues_fill_with_load_and_drop_beyond_their_limit() {
        let queue = QueueModel { service_ns: 100_000, limit_ns: 250_000, at_root: true };
        let queue = Some(queue);
        let mut cloud =
            Cloud::new(&Profile { queue, ..Profile::ideal() }, 1, &[2, 4], Nanos::SECOND);
        let mut copy = |from, to, at: u64| cloud.delay_ns(7, from, to, at);
        let ideal = 25_700u64;
        let got: Vec<_> = (0..5).map(|_| copy(1, 3, 1_000)).collect();
        let wait = |ns: u64| Some(ideal + ns);
        assert_eq!(got, [wait(0), wait(100_000), wait(200_000), None, None]);
        assert_eq!(copy(2, 3, 1_000), wait(0), "another path");
        assert_eq!(copy(1, 3, 400_000), wait(0), "later");
    }

    #[test]
    fn measured_delays_are_taken_from_text() {
        let profile = Profile::empirical("# ns\n100\n300 # slow\n\n200\n").unwrap();
        let mut seen = delays(&profile, 1_000);
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [100, 200, 300]);
        assert_eq!(Profile::empirical("5\nx\n"), Err(2));
        assert_eq!(Profile::empirical(""), Err(0));
        assert!(Profile::named("gcp-like").is_some() && Profile::named("x").is_none());
    }

    /// Pinned on x86-64; any machine must print the same.
    const SUMS: [u64; 3] = [27_245_117, 27_248_056, 24_963_470];
}
