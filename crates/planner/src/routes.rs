//! Ways of messages through a tree whose parents change, and what they take by measured delays.
//!
//! A [`Routes`] lists, for some messages in a row, every copy that the tree sends: of each place to
//! each of its children, hedges included. A message that is played through it takes a measured delay
//! for each copy, all from the same slice of time, and is at a place when the first copy is; the last
//! leaf makes its overall multicast latency (OML). What the clocks of VMs on the way are off by
//! cancels: it is added on the way in and taken away on the way out. Only those of the root and of the
//! leaves stay.

use std::ops::Range;

use serde::Serialize;
use types::SplitMix64;

use crate::stats::Summary;

/// Delay of a copy that does not arrive, and latency of a message that misses a leaf.
pub const LOST: i64 = i64::MAX;
/// Number of resamples of a bootstrap.
const RESAMPLES: usize = 400;

/// One copy of a message, from one place to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hop {
    /// Place of the sender, from 0 (the root).
    pub from: u16,
    /// Place of the receiver.
    pub to: u16,
    /// Number of copies that the sender sends before this one.
    pub turn: u16,
}

/// The ways of messages. Places count from the root, 0, through the layers of proxies to the leaves.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Routes {
    /// Places of each layer of proxies, the one below the root first.
    pub layers: Vec<Range<usize>>,
    /// Places of the leaves, behind those of the proxies.
    pub leaves: Range<usize>,
    /// (parent, child) of the first message without hedging: the tree as it is drawn.
    pub own: Vec<(usize, usize)>,
    /// Copies of each message, those into a place before those out of it.
    pub messages: Vec<Vec<Hop>>,
}

impl Routes {
    /// Number of proxies that have a place.
    pub fn proxies(&self) -> usize {
        self.leaves.start.saturating_sub(1)
    }

    /// Number of hops from the root to a leaf.
    pub fn depth(&self) -> usize {
        self.layers.len() + 1
    }

    /// Number of copies of one message, as of the first that is listed.
    pub fn copies(&self) -> usize {
        self.messages.first().map_or(0, Vec::len)
    }

    /// A proxy's place and all places of proxies below it, in order, by the tree as it is drawn.
    pub fn subtree(&self, place: usize) -> Vec<usize> {
        let mut found = vec![place];
        let mut next = 0;
        while let Some(&at) = found.get(next) {
            let below = self.own.iter().filter(|(from, to)| *from == at && *to < self.leaves.start);
            found.extend(below.map(|(_, to)| *to));
            next += 1;
        }
        found.sort_unstable();
        found
    }
}

/// Delays of ordered pairs of VMs in the order of sending, ns; `None` is a probe that was lost. The
/// series are cut into slices of time: probes of one slice were sent at about the same time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Probes {
    vms: usize,
    slices: usize,
    pairs: Vec<Vec<Option<i64>>>,
}

impl Probes {
    /// No delays yet, of so many VMs; `slices` from 1.
    pub fn new(vms: usize, slices: usize) -> Probes {
        Probes { vms, slices: slices.max(1), pairs: vec![Vec::new(); vms * vms] }
    }

    /// Number of VMs in the measurements.
    pub fn vms(&self) -> usize {
        self.vms
    }

    /// Number of slices of time.
    pub fn slices(&self) -> usize {
        self.slices
    }

    /// Sets a pair's delays.
    ///
    /// # Panics
    /// For a VM that there is not.
    pub fn set(&mut self, from: usize, to: usize, series: Vec<Option<i64>>) {
        self.pairs[from * self.vms + to] = series;
    }

    /// A pair's delays; none of a VM that there is not.
    pub fn of(&self, from: usize, to: usize) -> &[Option<i64>] {
        match from < self.vms && to < self.vms {
            true => &self.pairs[from * self.vms + to],
            false => &[],
        }
    }

    fn slice(&self, from: usize, to: usize, slice: usize) -> &[Option<i64>] {
        let series = self.of(from, to);
        let at = |slice: usize| slice * series.len() / self.slices;
        series.get(at(slice)..at(slice + 1)).unwrap_or(&[])
    }

    /// What a pair's probes of these slices say.
    pub fn summary(&self, from: usize, to: usize, slices: &[usize]) -> Summary {
        let mut arrived = Vec::new();
        let mut sent = 0;
        for slice in slices {
            let of = self.slice(from, to, *slice);
            sent += of.len() as u64;
            arrived.extend(of.iter().flatten());
        }
        Summary::of(&mut arrived, sent)
    }

    /// The same with so many VMs more, each like one of these: what a VM is like that is not there yet.
    pub fn with_likes(&self, like: usize, more: usize) -> Probes {
        let source = |vm: usize| if vm < self.vms { vm } else { like };
        let other = (0..self.vms).find(|vm| *vm != like && !self.of(like, *vm).is_empty());
        let mut all = Probes::new(self.vms + more, self.slices);
        for from in 0..all.vms {
            for to in (0..all.vms).filter(|to| *to != from) {
                let (a, b) = (source(from), source(to));
                // Two of them, or one beside its like: what the like has to another VM.
                let b = if a == b { other.unwrap_or(b) } else { b };
                all.set(from, to, self.of(a, b).to_vec());
            }
        }
        all
    }

    fn draw(&self, (from, to): (usize, usize), slice: usize, random: u64) -> i64 {
        let of = self.slice(from, to, slice);
        if of.is_empty() {
            return LOST;
        }
        of.get((random % of.len() as u64) as usize).copied().flatten().unwrap_or(LOST)
    }
}

/// Settings of playing messages through a tree.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Play<'a> {
    /// Slices of time whose delays are used.
    pub slices: &'a [usize],
    /// Number of messages played per slice.
    pub messages: usize,
    /// Time that a sender needs for one copy, ns.
    pub copy_ns: u64,
    /// Seed of the draws; with equal seeds a pair of VMs takes the same time for a message in all
    /// trees.
    pub seed: u64,
}

/// Plays messages through a tree with these VMs by place: the OML of each by slice, or [`LOST`].
pub fn play(routes: &Routes, vms: &[usize], probes: &Probes, play: &Play<'_>) -> Vec<Vec<i64>> {
    let last = |leaves: &[i64]| leaves.iter().max().copied().unwrap_or(LOST);
    played(routes, vms, probes, play, last)
}

/// The same messages' times to the first leaf: what a straggler on some of the ways changes little.
pub fn play_to_first(
    routes: &Routes,
    vms: &[usize],
    probes: &Probes,
    play: &Play<'_>,
) -> Vec<Vec<i64>> {
    let first = |leaves: &[i64]| leaves.iter().min().copied().unwrap_or(LOST);
    played(routes, vms, probes, play, first)
}

fn played(
    routes: &Routes,
    vms: &[usize],
    probes: &Probes,
    play: &Play<'_>,
    of: impl Fn(&[i64]) -> i64,
) -> Vec<Vec<i64>> {
    let mut at = vec![LOST; routes.leaves.end];
    let one = |slice: usize, number: usize, at: &mut [i64]| {
        let kind = (slice * play.messages + number) % routes.messages.len().max(1);
        let Some(hops) = routes.messages.get(kind) else { return LOST };
        at.fill(LOST);
        if let Some(root) = at.first_mut() {
            *root = 0;
        }
        let message = SplitMix64::mix(play.seed ^ ((slice as u64) << 32 | number as u64));
        for hop in hops {
            let (from, to) = (usize::from(hop.from), usize::from(hop.to));
            let (Some(&begin), Some(&a), Some(&b)) = (at.get(from), vms.get(from), vms.get(to))
            else {
                continue;
            };
            if begin == LOST {
                continue;
            }
            let random = SplitMix64::mix(message ^ ((a as u64) << 20 | b as u64));
            let takes = probes.draw((a, b), slice, random);
            let wait = (play.copy_ns * u64::from(hop.turn)) as i64;
            let arrives = begin.saturating_add(wait).saturating_add(takes);
            if let Some(place) = at.get_mut(to) {
                *place = (*place).min(arrives);
            }
        }
        at.get(routes.leaves.clone()).map_or(LOST, &of)
    };
    let slice = |slice: &usize| -> Vec<i64> {
        (0..play.messages).map(|number| one(*slice, number, &mut at)).collect()
    };
    play.slices.iter().map(slice).collect()
}

/// Expected latency of a tree.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Prediction {
    /// Median of the OML (overall multicast latency), ns.
    pub p50_ns: f64,
    /// 90th percentile of the OML, ns.
    pub p90_ns: f64,
    /// Lower end of the 95 % confidence interval of the median, ns, as far as the probes' chance
    /// goes.
    pub low_ns: f64,
    /// Upper end of the 95 % confidence interval of the median, ns.
    pub high_ns: f64,
    /// Share of messages that miss a leaf unless they are repaired.
    pub incomplete: f64,
}

/// What messages that were played say: medians, with an interval by a bootstrap over slices.
pub fn predict(played: &[Vec<i64>], seed: u64) -> Prediction {
    let mut all: Vec<i64> = played.iter().flatten().copied().collect();
    if all.is_empty() {
        return Prediction { incomplete: 1.0, ..Prediction::default() };
    }
    let lost = all.iter().filter(|oml| **oml == LOST).count();
    let (p50, p90) = (quantile(&mut all, 0.5), quantile(&mut all, 0.9));
    let mut rng = SplitMix64::new(SplitMix64::mix(seed ^ 0xB007));
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let mut drawn: Vec<i64> = Vec::with_capacity(all.len());
            for _ in 0..played.len() {
                drawn.extend(&played[rng.below(played.len() as u64) as usize]);
            }
            quantile(&mut drawn, 0.5)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    let at = |part: f64| medians[((RESAMPLES - 1) as f64 * part).round() as usize];
    Prediction {
        p50_ns: p50,
        p90_ns: p90,
        low_ns: at(0.025),
        high_ns: at(0.975),
        incomplete: lost as f64 / all.len() as f64,
    }
}

/// The smallest value that at least this share does not exceed; 0 of none.
pub fn quantile(of: &mut [i64], part: f64) -> f64 {
    if of.is_empty() {
        return 0.0;
    }
    let rank = (of.len() as f64 * part).ceil().max(1.0) as usize;
    let (_, value, _) = of.select_nth_unstable(rank.min(of.len()) - 1);
    *value as f64
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::cloud::Cloud;

    /// A tree of layers, where each place has the block of children that a plain tree gives it and,
    /// with a hedge, that of its neighbour, too; blocks turn with every message.
    pub(crate) fn routes(sizes: &[usize], hedge: usize) -> Routes {
        let firsts: Vec<usize> = sizes
            .iter()
            .scan(1, |next, size| {
                *next += size;
                Some(*next - size)
            })
            .collect();
        let layer = |at: usize| firsts[at]..firsts[at] + sizes[at];
        let last = sizes.len() - 1;
        let hops = |id: usize, hedge: usize| {
            let mut hops: Vec<Hop> = layer(0)
                .enumerate()
                .map(|(turn, to)| Hop { from: 0, to: to as u16, turn: turn as u16 })
                .collect();
            for above in 0..last {
                let count = sizes[above];
                for index in 0..count {
                    let mut turn = 0;
                    for helped in 0..=hedge.min(count - 1) {
                        let block = (index + id + helped) % count;
                        let of = |block: usize| (block * sizes[above + 1]).div_ceil(count);
                        for child in of(block)..of(block + 1) {
                            let (from, to) = (firsts[above] + index, firsts[above + 1] + child);
                            hops.push(Hop { from: from as u16, to: to as u16, turn });
                            turn += 1;
                        }
                    }
                }
            }
            hops
        };
        let own = hops(0, 0).iter().map(|hop| (hop.from.into(), hop.to.into())).collect();
        Routes {
            layers: (0..last).map(layer).collect(),
            leaves: layer(last),
            own,
            messages: (0..12).map(|id| hops(id, hedge)).collect(),
        }
    }

    /// Probes of all pairs of a synthetic cloud.
    pub(crate) fn probed(cloud: &Cloud, count: usize, slices: usize, seed: u64) -> Probes {
        let mut rng = SplitMix64::new(SplitMix64::mix(seed));
        let mut probes = Probes::new(cloud.vms(), slices);
        for from in 0..cloud.vms() {
            for to in (0..cloud.vms()).filter(|to| *to != from) {
                let series = (0..count).map(|_| Some(cloud.delay_ns(from, to, &mut rng) as i64));
                probes.set(from, to, series.collect());
            }
        }
        probes
    }

    fn fixed(vms: usize, delay: impl Fn(usize, usize) -> Option<i64>) -> Probes {
        let mut probes = Probes::new(vms, 2);
        for from in 0..vms {
            for to in 0..vms {
                probes.set(from, to, vec![delay(from, to); 4]);
            }
        }
        probes
    }

    #[test]
    fn a_message_takes_its_slowest_way_and_a_hedge_the_quicker_of_two() {
        // Root, two proxies, four leaves; proxy 2 is slow.
        let probes = fixed(7, |from, to| Some(if from == 2 || to == 2 { 100 } else { 10 }));
        let all: Vec<usize> = (0..7).collect();
        let how = Play { slices: &[0, 1], messages: 6, copy_ns: 1, seed: 1 };
        let plain = play(&routes(&[2, 4], 0), &all, &probes, &how);
        // To proxy 2 second: 1 + 100, to its second child 1 + 100.
        assert!(plain.iter().flatten().all(|oml| *oml == 202), "{plain:?}");
        let first = play_to_first(&routes(&[2, 4], 0), &all, &probes, &how);
        assert!(first.iter().flatten().all(|ns| *ns == 20), "{first:?}");
        let hedged = play(&routes(&[2, 4], 1), &all, &probes, &how);
        // The other one sends to its own two first, then to the slow one's: the fourth waits for three.
        assert!(hedged.iter().flatten().all(|oml| *oml == 23), "{hedged:?}");
        let said = predict(&plain, 1);
        assert_eq!(
            (said.p50_ns, said.low_ns, said.high_ns, said.incomplete),
            (202.0, 202.0, 202.0, 0.0)
        );
    }

    #[test]
    fn what_a_clock_on_the_way_is_off_by_cancels_and_a_lost_copy_is_missed() {
        let all: Vec<usize> = (0..7).collect();
        let how = Play { slices: &[0], messages: 6, copy_ns: 0, seed: 1 };
        let off = fixed(7, |from, to| {
            Some(50 + if to == 1 { 1_000 } else { 0 } - if from == 1 { 1_000 } else { 0 })
        });
        assert!(play(&routes(&[2, 4], 0), &all, &off, &how)[0].iter().all(|oml| *oml == 100));
        let dead = fixed(7, |from, to| (from != 2 && to != 2).then_some(50));
        let missed = predict(&play(&routes(&[2, 4], 0), &all, &dead, &how), 1);
        assert_eq!(missed.incomplete, 1.0);
        let helped = predict(&play(&routes(&[2, 4], 1), &all, &dead, &how), 1);
        assert_eq!((helped.incomplete, helped.p50_ns), (0.0, 100.0));
        assert_eq!(predict(&[], 1).incomplete, 1.0);
    }

    #[test]
    fn subtrees_and_vms_that_are_not_there_yet() {
        let of = routes(&[2, 4, 8], 0);
        assert_eq!((of.proxies(), of.depth(), of.leaves.clone()), (6, 3, 7..15));
        assert_eq!(
            (of.subtree(1), of.subtree(2), of.subtree(5)),
            (vec![1, 3, 4], vec![2, 5, 6], vec![5])
        );
        let probes = fixed(4, |from, to| Some((10 * from + to) as i64));
        let more = probes.with_likes(2, 2);
        assert_eq!((more.vms(), more.of(0, 4)[0], more.of(5, 1)[0]), (6, Some(2), Some(21)));
        // One beside its like, and two of them.
        assert_eq!((more.of(4, 2)[0], more.of(4, 5)[0]), (Some(20), Some(20)));
        assert_eq!(probes.summary(1, 3, &[0, 1]).p50_ns, 13.0);
        assert!(probes.of(9, 1).is_empty());
    }
}
