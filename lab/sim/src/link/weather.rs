//! What differs by path and changes with time: spatial spread, slow nodes, bursts, queues.
//!
//! Every ordered pair of nodes has a path of its own. Its delays are multiplied by a log-normal
//! factor of the path and by the slower of its two ends; while a burst lasts (two states, both of
//! exponential length: a Markov chain) something is added; and a packet waits until those before it
//! have been served, so that delay grows with load and a full queue loses packets.
//!
//! The generator is the weather's own: links without weather draw what they always drew.

use std::collections::BTreeMap;

use types::{Nanos, SplitMix64};

use crate::cloud::math::{exp, ln, normal_quantile};

/// Bursts of delay on a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bursts {
    /// Mean time from the end of one burst of a path to the next one, in ns.
    pub every_ns: u64,
    /// Mean length of a burst, in ns.
    pub length_ns: u64,
    /// Median of what a burst adds to delays, in ns; log-normal with sigma 0.5 over bursts.
    pub extra_ns: u64,
}

/// A queue on each path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathQueue {
    /// Time the path needs for one packet, in ns.
    pub service_ns: u64,
    /// Longest wait; packets that would wait longer are lost.
    pub limit_ns: u64,
}

/// The weather of all links; the default is none.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Weather {
    /// Sigma of the log-normal factor between paths; 0 for none.
    pub spatial_sigma: f64,
    /// Bursts, if any.
    pub bursts: Option<Bursts>,
    /// Queues, if any.
    pub queue: Option<PathQueue>,
}

/// What the weather did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WeatherStats {
    /// Paths used whose factor is more than 2 % off.
    pub uneven_paths: u64,
    /// Packets slowed because one end is a slow node.
    pub slowed: u64,
    /// Bursts that delayed at least one packet.
    pub bursts: u64,
    /// Packets that waited behind others.
    pub queued: u64,
    /// Packets lost to full queues.
    pub overflowed: u64,
}

#[derive(Clone, Copy)]
struct Path {
    permille: u64,
    burst_until: Nanos,
    next_burst: Nanos,
    extra_ns: u64,
    /// The present burst has delayed something.
    seen: bool,
    free_at: Nanos,
}

/// The state of all paths.
pub(crate) struct Sky {
    weather: Weather,
    rng: SplitMix64,
    /// Factor of each node, of a thousand; nodes beyond the end have 1,000.
    slowness: Vec<u64>,
    paths: BTreeMap<(u32, u32), Path>,
    stats: WeatherStats,
}

impl Sky {
    pub(crate) fn new(weather: Weather, seed: u64) -> Sky {
        Sky {
            weather,
            rng: SplitMix64::new(SplitMix64::mix(seed) ^ 0x57EA),
            slowness: Vec::new(),
            paths: BTreeMap::new(),
            stats: WeatherStats::default(),
        }
    }

    pub(crate) fn slow_node(&mut self, node: usize, permille: u64) {
        if self.slowness.len() <= node {
            self.slowness.resize(node + 1, 1_000);
        }
        self.slowness[node] = permille;
    }

    pub(crate) fn stats(&self) -> WeatherStats {
        self.stats
    }

    /// No bursts and no queues from now on; places stay where they are.
    pub(crate) fn clear(&mut self) {
        self.weather.bursts = None;
        self.weather.queue = None;
        self.paths.values_mut().for_each(|path| path.burst_until = Nanos(0));
    }

    /// The delay of a packet that leaves at `at` and would take `delay_ns` in fair weather; `None`
    /// when a queue is full. Parts of streams are not lost, they wait as long as a queue may last.
    pub(crate) fn delay(
        &mut self,
        (from, to): (u32, u32),
        at: Nanos,
        delay_ns: u64,
        lossless: bool,
    ) -> Option<u64> {
        let slowness = |node: u32| self.slowness.get(node as usize).copied().unwrap_or(1_000);
        let slow = slowness(from).max(slowness(to));
        self.stats.slowed += u64::from(slow != 1_000);
        let weather = self.weather;
        let path = match self.paths.get_mut(&(from, to)) {
            Some(path) => path,
            None => {
                let fresh = fresh_path(&weather, at, &mut self.rng);
                self.stats.uneven_paths += u64::from(fresh.permille.abs_diff(1_000) > 20);
                self.paths.entry((from, to)).or_insert(fresh)
            }
        };
        let mut total = delay_ns * path.permille / 1_000 * slow / 1_000;
        if let Some(bursts) = weather.bursts {
            while path.next_burst <= at {
                let begin = path.next_burst;
                path.burst_until = begin.after(exponential(bursts.length_ns, &mut self.rng));
                path.next_burst =
                    path.burst_until.after(1 + exponential(bursts.every_ns, &mut self.rng));
                path.extra_ns = log_normal(bursts.extra_ns as f64, 0.5, &mut self.rng);
                path.seen = false;
            }
            if at < path.burst_until {
                total += path.extra_ns;
                self.stats.bursts += u64::from(!std::mem::replace(&mut path.seen, true));
            }
        }
        if let Some(queue) = weather.queue {
            let wait_ns = path.free_at.since(at);
            if wait_ns > queue.limit_ns && !lossless {
                self.stats.overflowed += 1;
                return None;
            }
            self.stats.queued += u64::from(wait_ns > 0);
            path.free_at = path.free_at.max(at).after(queue.service_ns);
            total += wait_ns.min(queue.limit_ns);
        }
        Some(total)
    }
}

fn fresh_path(weather: &Weather, at: Nanos, rng: &mut SplitMix64) -> Path {
    let permille = match weather.spatial_sigma {
        sigma if sigma > 0.0 => log_normal(1_000.0, sigma, rng),
        _ => 1_000,
    };
    let next_burst = match weather.bursts {
        Some(bursts) => at.after(exponential(bursts.every_ns, rng)),
        None => Nanos::NEVER,
    };
    let nothing = Nanos(0);
    Path { permille, burst_until: nothing, next_burst, extra_ns: 0, seen: false, free_at: nothing }
}

/// Strictly between 0 and 1.
fn open(rng: &mut SplitMix64) -> f64 {
    ((rng.next_u64() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
}

fn exponential(mean_ns: u64, rng: &mut SplitMix64) -> u64 {
    (-ln(open(rng)) * mean_ns as f64) as u64
}

fn log_normal(median: f64, sigma: f64, rng: &mut SplitMix64) -> u64 {
    (median * exp(sigma * normal_quantile(open(rng)))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sky(weather: Weather) -> Sky {
        Sky::new(weather, 7)
    }

    #[test]
    fn fair_weather_changes_nothing() {
        let mut sky = sky(Weather::default());
        assert_eq!(sky.delay((1, 2), Nanos(5), 1_000, false), Some(1_000));
        assert_eq!(sky.stats(), WeatherStats::default());
    }

    #[test]
    fn paths_differ_and_keep_their_factor_and_slow_nodes_slow_both_ways() {
        let mut sky = sky(Weather { spatial_sigma: 0.3, ..Weather::default() });
        let mut seen = Vec::new();
        for to in 1..200 {
            let delay = sky.delay((0, to), Nanos(1), 100_000, false);
            assert_eq!(delay, sky.delay((0, to), Nanos(9), 100_000, false));
            seen.extend(delay);
        }
        seen.sort_unstable();
        assert!((90_000..110_000).contains(&seen[100]), "{}", seen[100]);
        assert!(seen[0] < 75_000 && seen[198] > 133_000, "{seen:?}");
        let before = sky.delay((3, 4), Nanos(1), 100_000, false).unwrap();
        sky.slow_node(4, 3_000);
        assert_eq!(sky.delay((3, 4), Nanos(1), 100_000, false), Some(before * 3));
        let back = sky.delay((4, 3), Nanos(1), 100_000, false).unwrap();
        assert!(back > 100_000 && sky.stats().slowed == 2, "{back}");
    }

    #[test]
    fn bursts_come_and_go() {
        let bursts = Bursts { every_ns: 9_000_000, length_ns: 1_000_000, extra_ns: 500_000 };
        let mut sky = sky(Weather { bursts: Some(bursts), ..Weather::default() });
        let late = |sky: &mut Sky, at| sky.delay((0, 1), Nanos(at), 10, false).unwrap() > 10;
        let hit = (0..100_000u64).filter(|step| late(&mut sky, step * 10_000)).count();
        assert!((7_000..14_000).contains(&hit), "a tenth of the time, not {hit}");
        assert!((70..140).contains(&sky.stats().bursts), "{:?}", sky.stats());
        sky.clear();
        assert!(!(0..1_000u64).any(|step| late(&mut sky, Nanos::SECOND + step * 10_000)));
    }

    #[test]
    fn load_fills_queues_and_full_ones_lose() {
        let queue = PathQueue { service_ns: 1_000, limit_ns: 5_000 };
        let mut sky = sky(Weather { queue: Some(queue), ..Weather::default() });
        let waits: Vec<_> = (0..8).map(|_| sky.delay((0, 1), Nanos(100), 0, false)).collect();
        let expect = [0, 1_000, 2_000, 3_000, 4_000, 5_000].map(Some);
        assert_eq!(waits[..6], expect);
        assert_eq!((waits[6], waits[7]), (None, None));
        assert_eq!((sky.stats().queued, sky.stats().overflowed), (5, 2));
        assert_eq!(sky.delay((0, 1), Nanos(100), 0, true), Some(5_000), "streams wait");
        assert_eq!(sky.delay((0, 1), Nanos(10_000), 7, false), Some(7), "drained by then");
    }
}
