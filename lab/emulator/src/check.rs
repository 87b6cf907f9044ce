//! The network checks itself: probes between its hosts, and their delays beside the model's.
//!
//! Each probe is one UDP packet, sent when the one before has arrived, over several pairs of hosts in
//! turn. The same thread sends and receives, so that one clock tells both times. Two comparisons with
//! fresh draws of the model, both by the Kolmogorov-Smirnov distance between two samples:
//!
//! - what the relay did: from taking the packet to handing it on;
//! - what a program sees: from sending to receiving, beside a draw plus what the machine itself takes.
//!   That is measured by probes in between, which have the constant delay of the model's median: their
//!   receiver sleeps as long and wakes as slowly. What the relay is always late by is in it, too; the
//!   first comparison sees that.
//!
//! The model does not know of [`Network::slow`], nor of other traffic: check a network that is idle.

use std::io;
use std::net::UdpSocket;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use telemetry::{LatencySummary, Recorder};
use types::SplitMix64;

use crate::network::Network;
use crate::shared::{BY_PROFILE, Passage};

/// Pairs of hosts that are probed at most.
const PAIRS_MAX: usize = 16;
/// Draws of the model for each packet: many, so that the comparison's noise is that of the packets.
const DRAWS: usize = 8;
/// Draws whose median is the constant delay.
const MEDIAN_OF: usize = 1_001;
/// A probe that takes longer is lost.
const LOST_AFTER: Duration = Duration::from_millis(100);
/// Probes that are handed on so much later than due, in ns, count as late.
const LATE_NS: u64 = 1_000;
/// Pause between probes, in us: at least, and more by chance, so that the relay sleeps in between.
const PAUSE_US: (u64, u64) = (50, 200);

/// What a check found.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Check {
    /// Probes that arrived and are compared.
    pub samples: usize,
    /// Probes that did not arrive.
    pub lost: usize,
    /// Kolmogorov-Smirnov distance (0 to 1) between the delays in the relay and the model's.
    pub relay_distance: f64,
    /// The same between the delays that a program sees and the model's plus the floor.
    pub end_to_end_distance: f64,
    /// Delays that a program sees, in ns.
    pub delay: LatencySummary,
    /// What of a delay the machine itself takes: probes of a constant delay, without that.
    pub floor: LatencySummary,
    /// How much later than due the relay handed the probes on, in ns.
    pub lateness: LatencySummary,
    /// Share (0 to 1) of the probes that it handed on more than 1 us late. Lateness adds at most about
    /// this to `relay_distance`: a larger one says that the model is not followed, a small one beside
    /// a large share that the machine is too busy.
    pub late_share: f64,
}

/// A pair of sockets in two hosts.
struct Pair {
    sender: UdpSocket,
    receiver: UdpSocket,
}

impl Pair {
    fn new(network: &Network, from: usize, to: usize) -> io::Result<Pair> {
        let (source, target) = (network.host(from), network.host(to));
        let receiver = target.enter(|| UdpSocket::bind((target.v4(), 0)))??;
        receiver.set_read_timeout(Some(LOST_AFTER))?;
        let sender = source.enter(|| UdpSocket::bind((source.v4(), 0)))??;
        sender.connect(receiver.local_addr()?)?;
        Ok(Pair { sender, receiver })
    }

    /// Time that the probe `id` takes, in ns; `None` when it is lost.
    fn probe(&self, id: u64) -> io::Result<Option<u64>> {
        let sent_at = Instant::now();
        self.sender.send(&id.to_le_bytes())?;
        let mut bytes = [0; 8];
        while sent_at.elapsed() < LOST_AFTER {
            match self.receiver.recv(&mut bytes) {
                // Others are duplicates, and probes that were taken for lost.
                Ok(_) if u64::from_le_bytes(bytes) == id => {
                    return Ok(Some(sent_at.elapsed().as_nanos() as u64));
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

impl Network {
    /// Sends `probes` probes with the profile's delays, and as many with a constant one, and compares;
    /// it takes about 0.5 ms for each of `probes`, and the delays.
    ///
    /// A profile without jitter has no distribution to compare: its distances are near 1, and how far
    /// it is kept to is told by `lateness`.
    ///
    /// # Errors
    /// When the network has a single host, a socket cannot be made or used, or no probe arrives.
    pub fn check(&self, probes: usize) -> io::Result<Check> {
        let hosts = self.hosts().len();
        if hosts < 2 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a check needs two hosts"));
        }
        let apart = |turn: usize| 1 + turn / hosts % (hosts - 1);
        let pair = |turn| Pair::new(self, turn % hosts, (turn + apart(turn)) % hosts);
        let turns = PAIRS_MAX.min(hosts * (hosts - 1));
        let pairs: Vec<Pair> = (0..turns).map(pair).collect::<Result<_, _>>()?;
        // The same cloud, other draws.
        let draws = SplitMix64::mix(self.config.seed ^ 0xF4E5);
        let mut model = self.model(draws);
        let mut typical: Vec<u64> =
            (0..MEDIAN_OF).map(|_| model.idle_delay_ns(0, 1, self.shared.now_ns())).collect();
        let constant_ns = *typical.select_nth_unstable(MEDIAN_OF / 2).1;

        *self.shared.passages() = Vec::with_capacity(probes);
        let mut rng = SplitMix64::new(self.config.seed ^ 0xC4EC);
        let (mut delays, mut floor) = (Vec::new(), Vec::new());
        for (turn, pair) in pairs.iter().cycle().take(probes).enumerate() {
            // The second probe of a pair finds what it needs in the caches; each kind is first in turn.
            let mut probe = |delay_ns| self.probe_with(delay_ns, pair, &mut rng);
            let (by_profile, by_constant) = if (turn / turns).is_multiple_of(2) {
                let by_profile = probe(BY_PROFILE)?;
                (by_profile, probe(constant_ns)?)
            } else {
                let by_constant = probe(constant_ns)?;
                (probe(BY_PROFILE)?, by_constant)
            };
            delays.extend(by_profile);
            floor.extend(by_constant.map(|delay| delay.saturating_sub(constant_ns)));
        }
        let mut passages = std::mem::take(&mut *self.shared.passages());
        if delays.is_empty() || floor.is_empty() || passages.is_empty() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no probe arrived; undo all cuts"));
        }

        passages.sort_unstable_by_key(|passage| passage.taken_at);
        let (mut expected, mut expected_end_to_end) = (Vec::new(), Vec::new());
        let mut lateness = Recorder::new();
        for passage in &passages {
            lateness.record(passage.handed_on_at - passage.due_at);
            for _ in 0..DRAWS {
                let draw = model.idle_delay_ns(passage.from, passage.to, passage.taken_at);
                expected.push(draw);
                expected_end_to_end.push(draw + floor[rng.below(floor.len() as u64) as usize]);
            }
        }
        let is_late = |passage: &&Passage| passage.handed_on_at - passage.due_at > LATE_NS;
        let late = passages.iter().filter(is_late).count();
        let mut in_relay: Vec<u64> =
            passages.iter().map(|passage| passage.handed_on_at - passage.taken_at).collect();
        Ok(Check {
            samples: delays.len(),
            lost: probes - delays.len(),
            relay_distance: distance(&mut in_relay, &mut expected),
            end_to_end_distance: distance(&mut delays, &mut expected_end_to_end),
            delay: summary(&delays),
            floor: summary(&floor),
            lateness: lateness.summary(),
            late_share: late as f64 / passages.len() as f64,
        })
    }

    /// After a pause, the time that a probe takes, in ns, with the constant delay or by the profile;
    /// the passage of one by the profile is recorded.
    fn probe_with(
        &self,
        constant_ns: u64,
        pair: &Pair,
        rng: &mut SplitMix64,
    ) -> io::Result<Option<u64>> {
        std::thread::sleep(Duration::from_micros(PAUSE_US.0 + rng.below(PAUSE_US.1)));
        let by_profile = constant_ns == BY_PROFILE;
        self.shared.constant_delay_ns.store(constant_ns, Relaxed);
        self.shared.records_passages.store(by_profile, Relaxed);
        let taken = pair.probe(rng.next_u64());
        self.shared.constant_delay_ns.store(BY_PROFILE, Relaxed);
        self.shared.records_passages.store(false, Relaxed);
        taken
    }
}

fn summary(delays: &[u64]) -> LatencySummary {
    let mut recorder = Recorder::new();
    delays.iter().for_each(|delay| recorder.record(*delay));
    recorder.summary()
}

/// Kolmogorov-Smirnov distance of two samples: the largest difference between their cumulative
/// distributions, 0 to 1; 1 when one of them is empty. Sorts both.
///
/// Two samples of one distribution, of n and m values, are nearer than 1.63 sqrt(1/n + 1/m) in 99 of
/// 100 cases: 0.039 for 2,000 probes beside 16,000 draws.
pub fn distance(left: &mut [u64], right: &mut [u64]) -> f64 {
    if left.is_empty() || right.is_empty() {
        return 1.0;
    }
    left.sort_unstable();
    right.sort_unstable();
    let (mut i, mut j, mut largest) = (0, 0, 0f64);
    while let (Some(a), Some(b)) = (left.get(i), right.get(j)) {
        let value = *a.min(b);
        i += left[i..].iter().take_while(|v| **v == value).count();
        j += right[j..].iter().take_while(|v| **v == value).count();
        let gap = i as f64 / left.len() as f64 - j as f64 / right.len() as f64;
        largest = largest.max(gap.abs());
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;

    #[test]
    fn distances_of_known_samples() {
        let of = |left: &[u64], right: &[u64]| distance(&mut left.to_vec(), &mut right.to_vec());
        assert_eq!(of(&[1, 2, 3, 4], &[4, 3, 2, 1]), 0.0);
        assert_eq!(of(&[1, 2], &[3, 4]), 1.0);
        assert_eq!(of(&[1, 2, 3, 4], &[3, 4, 5, 6]), 0.5);
        assert_eq!(of(&[1, 1, 1, 2], &[1, 2]), 0.25);
        assert_eq!(of(&[], &[1]), 1.0);
    }

    #[test]
    fn two_models_of_one_cloud_are_near_and_a_microsecond_is_seen() {
        let model = |draws| Model::new(&crate::Profile::table1(), &[0, 0], 1, draws);
        let sample = |mut model: Model, extra: u64| -> Vec<u64> {
            (0..20_000).map(|at| model.idle_delay_ns(0, 1, at * 1_000) + extra).collect()
        };
        let near = distance(&mut sample(model(1), 0), &mut sample(model(2), 0));
        assert!(near < 0.017, "{near}");
        let far = distance(&mut sample(model(1), 1_500), &mut sample(model(2), 0));
        assert!((0.06..0.11).contains(&far), "{far}");
    }
}
