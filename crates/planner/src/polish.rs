//! 2-opt: exchange two VMs of a placement, or one with a spare, as long as that helps; and again
//! from where a few VMs have been moved at random, which leaves an optimum of exchanges alone.
//!
//! What every VM would cost at every position is kept up to date; it picks the exchanges worth
//! evaluating.

use types::SplitMix64;

use crate::faq::{Placement, Qap, add};
use crate::objective::Objective;

/// Improves a placement of a quadratic problem until no exchange helps; gives the exchanges made.
///
/// # Panics
/// When the placement is none of the problem's.
pub fn two_opt(qap: &Qap, placement: &mut Placement) -> usize {
    let near = Near::of(qap);
    let mut spare = spares(&placement.vms, qap.vms());
    let vms = &mut placement.vms;
    let mut rows = Rows::of(qap, vms);
    // Load between the position at hand and others, both ways.
    let mut between = vec![0.0; vms.len()];
    let mut made = 0;
    let mut better = true;
    while better {
        better = false;
        for a in 0..vms.len() {
            near.mark(a, &mut between, 1.0);
            for b in a + 1..vms.len() {
                if rows.swapped(qap, vms, (a, b), between[b]) < -SLACK
                    && near.change(qap, vms, (a, vms[b]), Some((b, vms[a]))) < -SLACK
                {
                    vms.swap(a, b);
                    rows.moved(qap, &near, a, (vms[b], vms[a]));
                    rows.moved(qap, &near, b, (vms[a], vms[b]));
                    (better, made) = (true, made + 1);
                }
            }
            near.mark(a, &mut between, 0.0);
            for other in &mut spare {
                if rows.at(a, *other) - rows.at(a, vms[a]) < -SLACK
                    && near.change(qap, vms, (a, *other), None) < -SLACK
                {
                    std::mem::swap(&mut vms[a], other);
                    rows.moved(qap, &near, a, (*other, vms[a]));
                    (better, made) = (true, made + 1);
                }
            }
        }
    }
    placement.cost = qap.cost(vms);
    made
}

/// [`two_opt`], then so many kicks: three VMs move round, 2-opt again, and whatever is better is
/// kept. Never worse than without.
///
/// # Panics
/// When the placement is none of the problem's.
pub fn kicked(qap: &Qap, placement: &mut Placement, kicks: usize, seed: u64) {
    let mut rng = SplitMix64::new(SplitMix64::mix(seed));
    two_opt(qap, placement);
    let positions = placement.vms.len() as u64;
    for _ in 0..if positions < 3 { 0 } else { kicks } {
        let mut next = placement.clone();
        let [a, b, c] = [(); 3].map(|()| rng.below(positions) as usize);
        next.vms.swap(a, b);
        next.vms.swap(b, c);
        two_opt(qap, &mut next);
        if next.cost < placement.cost {
            *placement = next;
        }
    }
}

/// The same for any objective, which is evaluated as a whole each time.
///
/// # Panics
/// When the placement is none of the problem's.
pub fn two_opt_for(objective: &impl Objective, vms: &mut [usize], pool: usize) -> f64 {
    let mut spare = spares(vms, pool);
    let mut cost = objective.cost(vms);
    let mut better = true;
    while better {
        better = false;
        for a in 0..vms.len() {
            for b in a + 1..vms.len() {
                vms.swap(a, b);
                let changed = objective.cost(vms);
                if changed < cost - SLACK {
                    (better, cost) = (true, changed);
                } else {
                    vms.swap(a, b);
                }
            }
            for other in &mut spare {
                std::mem::swap(&mut vms[a], other);
                let changed = objective.cost(vms);
                if changed < cost - SLACK {
                    (better, cost) = (true, changed);
                } else {
                    std::mem::swap(&mut vms[a], other);
                }
            }
        }
    }
    cost
}

/// Smallest gain of an exchange, so that rounding errors cannot make the search go in circles.
const SLACK: f64 = 1e-9;

/// VMs of the pool that have no position.
pub fn spares(vms: &[usize], pool: usize) -> Vec<usize> {
    let mut free = vec![true; pool];
    for vm in vms {
        if let Some(free) = free.get_mut(*vm) {
            *free = false;
        }
    }
    (0..pool).filter(|vm| free[*vm]).collect()
}

/// What each VM would cost at each position, everybody else staying: the gradient at a placement.
///
/// It says in O(1) what an exchange may gain; moves change it by what they differ, and it is off by
/// what that rounds.
struct Rows {
    vms: usize,
    costs: Vec<f64>,
}

impl Rows {
    fn of(qap: &Qap, vms: &[usize]) -> Rows {
        let n = qap.vms();
        let mut rows = Rows { vms: n, costs: vec![0.0; vms.len() * n] };
        for &(k, l, load) in qap.edges() {
            let (k, l) = (k as usize, l as usize);
            if k == l {
                for (vm, cost) in rows.row(k).iter_mut().enumerate() {
                    *cost += load * qap.delay(vm, vm);
                }
            } else {
                add(rows.row(k), qap.delays_to(vms[l]), load);
                add(rows.row(l), qap.delays_from(vms[k]), load);
            }
        }
        rows
    }

    fn row(&mut self, position: usize) -> &mut [f64] {
        &mut self.costs[position * self.vms..(position + 1) * self.vms]
    }

    #[inline]
    fn at(&self, position: usize, vm: usize) -> f64 {
        self.costs[position * self.vms + vm]
    }

    /// Change of the objective when two positions, with so much load between them, exchange VMs.
    #[inline]
    fn swapped(&self, qap: &Qap, vms: &[usize], (a, b): (usize, usize), between: f64) -> f64 {
        let (of_a, of_b) = (vms[a], vms[b]);
        let change = self.at(a, of_b) - self.at(a, of_a) + self.at(b, of_a) - self.at(b, of_b);
        if between == 0.0 {
            return change;
        }
        // The rows take the other one to stay where it is.
        let delay = |from: usize, to: usize| qap.delay(from, to);
        let apart = delay(of_a, of_b) + delay(of_b, of_a);
        change + between * (apart - delay(of_a, of_a) - delay(of_b, of_b))
    }

    /// A position has another VM: its neighbours' rows change.
    fn moved(&mut self, qap: &Qap, near: &Near, position: usize, (from, to): (usize, usize)) {
        for &(other, load, out) in near.of_position(position) {
            let other = other as usize;
            if other != position {
                let delays = |vm| if out { qap.delays_from(vm) } else { qap.delays_to(vm) };
                let row = self.row(other);
                for ((cost, from), to) in row.iter_mut().zip(delays(from)).zip(delays(to)) {
                    *cost += load * (to - from);
                }
            }
        }
    }
}

/// The edges at each position, in both directions.
struct Near {
    /// (other position, load, whether the edge leads out of this position), by position.
    edges: Vec<(u32, f64, bool)>,
    begin: Vec<u32>,
}

impl Near {
    fn of(qap: &Qap) -> Near {
        let mut begin = vec![0; qap.positions() + 1];
        for &(k, l, _) in qap.edges() {
            begin[k as usize] += 1;
            begin[l as usize] += u32::from(k != l);
        }
        let mut end = 0;
        for begin in &mut begin {
            end += *begin;
            *begin = end;
        }
        let mut edges = vec![(0, 0.0, false); end as usize];
        // From their ends to their beginnings.
        let mut put = |at: u32, edge| {
            begin[at as usize] -= 1;
            edges[begin[at as usize] as usize] = edge;
        };
        for &(k, l, load) in qap.edges().iter().rev() {
            if k != l {
                put(l, (k, load, false));
            }
            put(k, (l, load, true));
        }
        Near { edges, begin }
    }

    fn of_position(&self, at: usize) -> &[(u32, f64, bool)] {
        &self.edges[self.begin[at] as usize..self.begin[at + 1] as usize]
    }

    /// Adds a position's loads to those `between` it and others, or clears them (`times` 0).
    fn mark(&self, at: usize, between: &mut [f64], times: f64) {
        for &(other, load, _) in self.of_position(at) {
            let other = &mut between[other as usize];
            *other = times * (*other + load);
        }
    }

    /// Change of the objective when positions get new VMs.
    fn change(
        &self,
        qap: &Qap,
        vms: &[usize],
        one: (usize, usize),
        two: Option<(usize, usize)>,
    ) -> f64 {
        let moved = |position: usize| match two {
            _ if position == one.0 => one.1,
            Some((at, vm)) if position == at => vm,
            _ => vms[position],
        };
        let delay = |from: usize, to: usize, out: bool| {
            if out { qap.delay(from, to) } else { qap.delay(to, from) }
        };
        let mut change = 0.0;
        for (position, vm, skip) in
            [Some((one.0, one.1, None)), two.map(|two| (two.0, two.1, Some(one.0)))]
                .into_iter()
                .flatten()
        {
            for &(other, load, out) in self.of_position(position) {
                let other = other as usize;
                // The edges between the two are counted with the first.
                if skip != Some(other) {
                    change += load
                        * (delay(vm, moved(other), out) - delay(vms[position], vms[other], out));
                }
            }
        }
        change
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faq::{FaqOptions, shuffled};
    use crate::matrix::Square;
    use crate::tree::Shape;

    fn random(n: usize, seed: u64) -> Square {
        let mut rng = SplitMix64::new(seed);
        Square::from_fn(n, |_, _| rng.unit())
    }

    #[test]
    fn changes_are_differences_of_the_objective() {
        let mut rng = SplitMix64::new(4);
        for seed in 0..20 {
            // Also entries on the diagonals: an edge from a position to itself.
            let qap = Qap::new(&random(6, seed), random(9, seed + 100));
            let near = Near::of(&qap);
            let mut vms = shuffled(9, &mut rng)[..6].to_vec();
            let mut rows = Rows::of(&qap, &vms);
            // Kept up to date they are what they are from the start.
            for at in [2, 5, 2] {
                let other = spares(&vms, 9)[1];
                rows.moved(&qap, &near, at, (vms[at], other));
                vms[at] = other;
            }
            for (kept, new) in rows.costs.iter().zip(&Rows::of(&qap, &vms).costs) {
                assert!((kept - new).abs() < 1e-9, "seed {seed}");
            }
            for a in 0..6 {
                for b in (0..6).filter(|b| *b != a) {
                    let mut swapped = vms.clone();
                    swapped.swap(a, b);
                    let change = near.change(&qap, &vms, (a, vms[b]), Some((b, vms[a])));
                    let truth = qap.cost(&swapped) - qap.cost(&vms);
                    assert!((change - truth).abs() < 1e-9, "seed {seed}: {change} {truth}");
                    let mut between = vec![0.0; 6];
                    near.mark(a, &mut between, 1.0);
                    let quick = rows.swapped(&qap, &vms, (a, b), between[b]);
                    assert!((quick - truth).abs() < 1e-9, "seed {seed}: {quick} {truth}");
                }
                let mut replaced = vms.clone();
                replaced[a] = spares(&vms, 9)[0];
                let change = near.change(&qap, &vms, (a, replaced[a]), None);
                assert!((change - qap.cost(&replaced) + qap.cost(&vms)).abs() < 1e-9);
                let quick = rows.at(a, replaced[a]) - rows.at(a, vms[a]);
                assert!((change - quick).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn kicks_leave_optima_of_exchanges_and_never_lose() {
        let mut gained = 0;
        for seed in 0..10 {
            let qap = Qap::new(&random(9, seed), random(9, seed + 100));
            let mut plain = qap.solve(&FaqOptions::default());
            two_opt(&qap, &mut plain);
            let mut more = plain.clone();
            kicked(&qap, &mut more, 200, seed);
            assert!(more.cost <= plain.cost && more.cost == qap.cost(&more.vms), "seed {seed}");
            gained += u32::from(more.cost < plain.cost - 1e-9);
        }
        assert!(gained > 0, "there was nothing to gain");
    }

    #[test]
    fn nothing_gets_worse_and_both_forms_end_where_no_exchange_helps() {
        let shape = Shape::new(2, 2).unwrap();
        for seed in 0..10 {
            let qap = Qap::tree(shape, random(12, seed));
            let mut placement = qap.solve(&FaqOptions::default());
            let before = placement.cost;
            two_opt(&qap, &mut placement);
            assert!(placement.cost <= before);
            assert_eq!(placement.cost, qap.cost(&placement.vms));
            let settled = two_opt_for(&qap, &mut placement.vms.clone(), 12);
            assert!((settled - placement.cost).abs() < 1e-6, "seed {seed}");
            // Negative control: from a bad start there is something to gain.
            let mut bad: Vec<usize> = (0..7).collect();
            assert!(two_opt_for(&qap, &mut bad, 12) < qap.cost(&[0, 1, 2, 3, 4, 5, 6]));
        }
    }
}
