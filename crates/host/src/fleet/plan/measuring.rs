//! What the replica that leads has measured: orders to machines, and what they heard.

use std::collections::{BTreeMap, BTreeSet};

use probe::Key;

use super::{ProbeOrder, Probed};

/// After the last probe, for those that are on their way, ms.
const GRACE_MS: u64 = 500;
/// Until the first probe, ms: orders are on their way for a moment.
const LEAD_MS: u64 = 300;

/// Delays in the order of sending, ns; `None` for a probe that did not come.
pub type Delays = Vec<Option<i64>>;

/// A job of all machines.
#[derive(Debug, Default)]
pub struct Measuring {
    orders: BTreeMap<u16, ProbeOrder>,
    heard: BTreeMap<(u16, u16), Delays>,
    /// By machine: its clock's largest error, and the probes that it sent to each.
    told: BTreeMap<u16, (u64, u32)>,
    over: BTreeSet<u16>,
}

impl Measuring {
    /// A job in which `from` probe all of `to`, each sending one probe in `gap_us` at most. `secret` is
    /// drawn for this job.
    pub fn new(from: &[u16], to: &[u16], probes: u32, gap_us: u64, secret: &[u8; 32]) -> Measuring {
        let job = secret.first_chunk().map_or(1, |bytes| u64::from_le_bytes(*bytes));
        let pair_key = |a: u16, b: u16| {
            let key = Key::new(secret).map(|key| {
                key.tag::<32>(&[b"fairbell plan probes ", &a.to_be_bytes(), &b.to_be_bytes()])
            });
            // 32 bytes are always long enough for a key.
            crate::tls::hex(&key.unwrap_or_default())
        };
        let rounds = u64::from(probes) * to.len() as u64;
        let length_ms = LEAD_MS + (rounds * gap_us).div_ceil(1_000) + GRACE_MS;
        let mut orders = BTreeMap::<u16, ProbeOrder>::new();
        let empty = || ProbeOrder { job, probes, gap_us, length_ms, ..ProbeOrder::default() };
        for (place, a) in from.iter().enumerate() {
            // Not all at the same instant.
            let phase_us = gap_us * place as u64 / from.len() as u64;
            for step in 0..to.len() {
                // Each begins with another one.
                let Some(b) = to.get((place + step) % to.len()).filter(|b| *b != a) else {
                    continue;
                };
                let key = pair_key(*a, *b);
                orders.entry(*a).or_insert_with(empty).to.push((*b, key.clone()));
                orders.entry(*b).or_insert_with(empty).from.push((*a, key));
            }
            if let Some(order) = orders.get_mut(a) {
                order.after_us = LEAD_MS * 1_000 + phase_us;
            }
        }
        Measuring { orders, ..Measuring::default() }
    }

    /// How long it takes, ms.
    pub fn length_ms(&self) -> u64 {
        self.orders.values().map(|order| order.length_ms).max().unwrap_or(0)
    }

    /// What a machine is to do.
    pub fn order(&self, machine: u16) -> Option<&ProbeOrder> {
        self.orders.get(&machine)
    }

    /// Takes what a machine heard of those that it was to hear; the rest is passed over.
    pub fn take(&mut self, machine: u16, probed: Probed) {
        let Some(order) = self.orders.get(&machine).filter(|order| order.job == probed.job) else {
            return;
        };
        for (from, mut delays) in probed.heard {
            if order.from.iter().any(|(expected, _)| *expected == from) {
                delays.truncate(order.probes as usize);
                self.heard.entry((from, machine)).or_insert(delays);
            }
        }
        self.told.insert(machine, (probed.bound_ns, probed.sent.min(order.probes)));
        if probed.over {
            self.over.insert(machine);
        }
    }

    /// All machines have told all.
    pub fn is_over(&self) -> bool {
        self.over.len() == self.orders.len()
    }

    /// Machines that told nothing.
    pub fn silent(&self) -> Vec<u16> {
        self.orders.keys().copied().filter(|machine| !self.over.contains(machine)).collect()
    }

    /// Probes sent so far.
    pub fn sent(&self) -> u64 {
        let each = self.told.iter().map(|(machine, (_, sent))| {
            u64::from(*sent) * self.orders.get(machine).map_or(0, |order| order.to.len() as u64)
        });
        each.sum()
    }

    /// Largest error that a machine's clock claimed, ns.
    pub fn bound_ns(&self, machine: u16) -> u64 {
        self.told.get(&machine).map_or(u64::MAX / 4, |told| told.0)
    }

    /// Delays from one machine to another, of the probes that were sent; of a machine to itself none.
    pub fn delays(&self, from: u16, to: u16) -> Delays {
        let probes = self.orders.get(&from).map_or(0, |order| order.probes as usize);
        if from == to {
            return vec![Some(0); probes];
        }
        let sent = self.told.get(&from).map_or(0, |told| told.1 as usize);
        let mut delays = self.heard.get(&(from, to)).cloned().unwrap_or_default();
        delays.truncate(sent);
        delays
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_has_a_key_of_its_own_that_both_its_machines_have() {
        let job = Measuring::new(&[1, 2, 3], &[2, 3, 7], 20, 1_000, &[5; 32]);
        let mut keys = BTreeSet::new();
        for a in [1, 2, 3] {
            let order = job.order(a).expect("it sends");
            assert_eq!(order.to.len(), if a == 1 { 3 } else { 2 });
            for (b, key) in &order.to {
                let other = job.order(*b).expect("it hears");
                assert!(other.from.contains(&(a, key.clone())) && key.len() == 64);
                assert!(keys.insert(key.clone()), "no key twice");
            }
        }
        assert!(job.order(7).expect("it hears").to.is_empty() && job.order(9).is_none());
        assert_eq!(job.length_ms(), 300 + 60 + 500);
        let other = Measuring::new(&[1], &[2], 20, 1_000, &[6; 32]);
        assert_ne!(other.order(1).expect("it").to, job.order(1).expect("it").to[..1]);
    }

    #[test]
    fn only_what_was_asked_for_is_taken() {
        let mut job = Measuring::new(&[1, 2], &[2, 3], 4, 1_000, &[5; 32]);
        let number = job.order(1).expect("it").job;
        let heard = |from: u16, more: usize| vec![(from, vec![Some(10); 4 + more])];
        let told =
            |heard: Vec<_>, sent| Probed { job: number, bound_ns: 5, sent, heard, over: true };
        job.take(3, Probed { job: number + 1, ..told(heard(1, 0), 0) });
        job.take(9, told(heard(1, 0), 0));
        assert!(job.delays(1, 3).is_empty() && job.silent() == [1, 2, 3]);
        job.take(3, told([heard(1, 3), heard(8, 0)].concat(), 0));
        job.take(1, told(Vec::new(), 3));
        // What was not sent is not lost; what is more than was asked for is passed over.
        assert_eq!(job.delays(1, 3), vec![Some(10); 3]);
        assert!(job.delays(8, 3).is_empty() && job.delays(2, 3).is_empty());
        assert_eq!((job.is_over(), job.silent(), job.sent()), (false, vec![2], 6));
        assert_eq!((job.delays(2, 2).len(), job.bound_ns(3)), (4, 5));
        job.take(2, told(Vec::new(), u32::MAX));
        assert!(job.is_over() && job.sent() == 6 + 4);
    }
}
