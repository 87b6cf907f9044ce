//! LemonDrop's placement: a quadratic assignment problem, solved approximately by FAQ.
//!
//! Minimise trace(L P D^T P^T) over assignments P of tree positions to VMs, L being the load
//! between positions and D the delays between VMs. FAQ (Vogelstein et al. 2014) relaxes P to doubly
//! stochastic matrices and takes Frank-Wolfe steps: gradient L P D^T + L^T P D, direction the
//! assignment Q that minimises its product with the gradient, step to the least value of the
//! quadratic on P + a (Q - P), 0 <= a <= 1; at the end the assignment with the largest product with
//! P. (The thesis' listing has the gradient's sign and the last extremum reversed and adds a Q to P
//! without taking a P away.)
//!
//! Because a tree's load is sparse and Q is a permutation, both halves of the gradient are kept up
//! to date with one row of D per edge: a step costs O(edges n) and one assignment of the positions
//! that have load at all. No matrix product is ever needed. The best of the projection and of all
//! directions Q seen on the way is the result.

use types::SplitMix64;

use crate::lap::Lap;
use crate::matrix::Square;
use crate::tree::Shape;

/// A placement problem with positions 0..positions and VMs 0..n.
#[derive(Clone, Debug)]
pub struct Qap {
    positions: usize,
    /// (from position, to position, load).
    edges: Vec<(u32, u32, f64)>,
    delay: Square,
    delay_back: Square,
}

/// How long to search.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FaqOptions {
    /// Most Frank-Wolfe steps.
    pub iterations: usize,
    /// Stop when a step changes P by less than this, in Frobenius norm over sqrt(n).
    pub tolerance: f64,
    /// Starts: the first at the barycentre, the others half way to a random assignment.
    pub starts: usize,
    /// Seed of those.
    pub seed: u64,
    /// Ways to break ties at each start: VMs numbered as given, and in so many less one random
    /// orders. Symmetric problems have many ties.
    pub orders: usize,
}

impl Default for FaqOptions {
    /// As scipy's: 30 steps, 0.03, one start at the barycentre.
    fn default() -> FaqOptions {
        FaqOptions { iterations: 30, tolerance: 0.03, starts: 1, seed: 0, orders: 1 }
    }
}

/// A placement found.
#[derive(Clone, PartialEq, Debug)]
pub struct Placement {
    /// VM of each position.
    pub vms: Vec<usize>,
    /// Its objective.
    pub cost: f64,
    /// Frank-Wolfe steps taken, over all starts.
    pub iterations: usize,
    /// The last start ended because steps became small.
    pub converged: bool,
}

impl Qap {
    /// A problem of any load; entries of 0 cost nothing.
    ///
    /// # Panics
    /// When there are more positions than VMs.
    pub fn new(load: &Square, delay: Square) -> Qap {
        let all = (0..load.n()).flat_map(|k| (0..load.n()).map(move |l| (k, l)));
        let edges = all.map(|(k, l)| (k as u32, l as u32, load.at(k, l)));
        Qap::sparse(load.n(), edges.filter(|edge| edge.2 != 0.0).collect(), delay)
    }

    /// A tree: one message over each of its edges.
    ///
    /// # Panics
    /// When there are more positions than VMs.
    pub fn tree(shape: Shape, delay: Square) -> Qap {
        let edges = shape.edges().map(|(parent, child)| (parent as u32, child as u32, 1.0));
        Qap::sparse(shape.positions(), edges.collect(), delay)
    }

    fn sparse(positions: usize, edges: Vec<(u32, u32, f64)>, delay: Square) -> Qap {
        assert!(positions <= delay.n(), "more positions than VMs");
        let delay_back = delay.transposed();
        Qap { positions, edges, delay, delay_back }
    }

    /// Positions.
    pub fn positions(&self) -> usize {
        self.positions
    }

    /// VMs.
    pub fn vms(&self) -> usize {
        self.delay.n()
    }

    /// (from position, to position, load), without zeros.
    pub fn edges(&self) -> &[(u32, u32, f64)] {
        &self.edges
    }

    /// Delay from one VM to another.
    pub fn delay(&self, from: usize, to: usize) -> f64 {
        self.delay.at(from, to)
    }

    /// The objective of a placement.
    ///
    /// # Panics
    /// When a VM is none of the problem's.
    pub fn cost(&self, vms: &[usize]) -> f64 {
        let cost = |&(k, l, load): &(u32, u32, f64)| {
            load * self.delay.at(vms[k as usize], vms[l as usize])
        };
        self.edges.iter().map(cost).sum()
    }

    /// The best placement of all starts and orders.
    pub fn solve(&self, options: &FaqOptions) -> Placement {
        let mut best = self.solve_as_numbered(options);
        let mut rng = SplitMix64::new(SplitMix64::mix(options.seed ^ 0x0DE5));
        for _ in 1..options.orders.max(1) {
            let order = shuffled(self.vms(), &mut rng);
            let delay = Square::from_fn(self.vms(), |i, j| self.delay.at(order[i], order[j]));
            let renumbered = Qap::sparse(self.positions, self.edges.clone(), delay);
            let found = renumbered.solve_as_numbered(options);
            best.iterations += found.iterations;
            if found.cost < best.cost {
                best.cost = found.cost;
                best.vms = found.vms.into_iter().map(|vm| order[vm]).collect();
            }
        }
        best
    }

    fn solve_as_numbered(&self, options: &FaqOptions) -> Placement {
        let mut rng = SplitMix64::new(options.seed);
        let mut search = Search::new(self);
        let mut best: Option<Placement> = None;
        let mut iterations = 0;
        for start in 0..options.starts.max(1) {
            let towards = (start > 0).then(|| shuffled(self.vms(), &mut rng));
            let found = search.run(options, towards.as_deref());
            iterations += found.iterations;
            if best.as_ref().is_none_or(|best| found.cost < best.cost) {
                best = Some(found);
            }
        }
        let mut best = best.unwrap_or_else(|| search.identity());
        best.iterations = iterations;
        best
    }
}

/// 0..n in random order.
pub fn shuffled(n: usize, rng: &mut SplitMix64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    for at in (1..n).rev() {
        order.swap(at, rng.below(at as u64 + 1) as usize);
    }
    order
}

/// The state of a run; rows are positions, columns VMs. Rows without load need no place in it.
struct Search<'a> {
    qap: &'a Qap,
    /// Positions that have load, and each position's row.
    active: Vec<u32>,
    row_of: Vec<u32>,
    /// Rows with equal edges, which have equal gradients.
    kinds: Vec<u32>,
    /// The relaxed assignment P.
    p: Vec<f64>,
    /// L P D^T and L^T P D.
    down: Vec<f64>,
    up: Vec<f64>,
    gradient: Vec<f64>,
    /// Those of the direction Q.
    q_down: Vec<f64>,
    q_up: Vec<f64>,
    q: Vec<u32>,
    lap: Lap,
}

impl<'a> Search<'a> {
    fn new(qap: &'a Qap) -> Search<'a> {
        let mut loaded = vec![false; qap.positions];
        for &(k, l, _) in &qap.edges {
            loaded[k as usize] = true;
            loaded[l as usize] = true;
        }
        let active: Vec<u32> =
            (0..qap.positions as u32).filter(|at| loaded[*at as usize]).collect();
        let mut row_of = vec![0; qap.positions];
        for (row, at) in (0u32..).zip(&active) {
            row_of[*at as usize] = row;
        }
        let cells = vec![0.0; active.len() * qap.vms()];
        Search {
            qap,
            row_of,
            kinds: kinds(qap, &active),
            p: cells.clone(),
            down: cells.clone(),
            up: cells.clone(),
            gradient: cells.clone(),
            q_down: cells.clone(),
            q_up: cells,
            q: vec![0; active.len()],
            active,
            lap: Lap::default(),
        }
    }

    fn identity(&self) -> Placement {
        let vms: Vec<usize> = (0..self.qap.positions).collect();
        Placement { cost: self.qap.cost(&vms), vms, iterations: 0, converged: false }
    }

    fn run(&mut self, options: &FaqOptions, towards: Option<&[usize]>) -> Placement {
        let n = self.qap.vms();
        if self.active.is_empty() {
            return self.identity();
        }
        let mut value = self.start(towards);
        let mut best: Option<(f64, Vec<u32>)> = None;
        let mut keep = |cost: f64, q: &[u32]| {
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, q.to_vec()));
            }
        };
        let (mut iterations, mut converged) = (0, false);
        while iterations < options.iterations && !converged {
            for ((sum, down), up) in self.gradient.iter_mut().zip(&self.down).zip(&self.up) {
                *sum = down + up;
            }
            self.lap.solve(&self.gradient, n, &self.kinds, &mut self.q);
            let q_value = self.cost_of_q();
            keep(q_value, &self.q);
            let (step, change, norm) = self.line(value, q_value);
            value += change;
            self.advance(step);
            iterations += 1;
            converged = step * norm < options.tolerance * (n as f64).sqrt();
        }
        // The largest product with P is the least with -P.
        for (cost, p) in self.gradient.iter_mut().zip(&self.p) {
            *cost = -p;
        }
        self.lap.solve(&self.gradient, n, &[], &mut self.q);
        keep(self.cost_of_q(), &self.q);
        let (cost, q) = best.unwrap_or_default();
        Placement { vms: self.spread(&q), cost, iterations, converged }
    }

    /// P at the barycentre or half way to a permutation; gives the value there.
    fn start(&mut self, towards: Option<&[usize]>) -> f64 {
        let n = self.qap.vms();
        self.p.fill(1.0 / n as f64);
        let sums = |of: &Square| -> Vec<f64> {
            (0..n).map(|row| of.row(row).iter().sum::<f64>() / n as f64).collect()
        };
        // Row l of P D^T at the barycentre is D's row means, of P D its column means.
        let (out, back) = (sums(&self.qap.delay), sums(&self.qap.delay_back));
        self.down.fill(0.0);
        self.up.fill(0.0);
        for &(k, l, load) in &self.qap.edges {
            let (k, l) = (self.row_of[k as usize] as usize, self.row_of[l as usize] as usize);
            add(&mut self.down[k * n..(k + 1) * n], &out, load);
            add(&mut self.up[l * n..(l + 1) * n], &back, load);
        }
        if let Some(towards) = towards {
            for (q, at) in self.q.iter_mut().zip(&self.active) {
                *q = towards[*at as usize] as u32;
            }
            self.cost_of_q();
            self.advance(0.5);
        }
        self.p.iter().zip(&self.down).map(|(p, down)| p * down).sum()
    }

    /// f(Q), and the halves of its gradient.
    fn cost_of_q(&mut self) -> f64 {
        let n = self.qap.vms();
        self.q_down.fill(0.0);
        self.q_up.fill(0.0);
        let mut cost = 0.0;
        for &(k, l, load) in &self.qap.edges {
            let (k, l) = (self.row_of[k as usize] as usize, self.row_of[l as usize] as usize);
            let (from, to) = (self.q[k] as usize, self.q[l] as usize);
            cost += load * self.qap.delay.at(from, to);
            add(&mut self.q_down[k * n..(k + 1) * n], self.qap.delay_back.row(to), load);
            add(&mut self.q_up[l * n..(l + 1) * n], self.qap.delay.row(from), load);
        }
        cost
    }

    /// The best step towards Q, what it changes, and the norm of Q - P. f(P + a X) for X = Q - P is
    /// f(P) + a <X, G> + a^2 f(X), with f(X) = f(P) + f(Q) - <Q, G> as f is quadratic.
    fn line(&self, value: f64, q_value: f64) -> (f64, f64, f64) {
        let n = self.qap.vms();
        let (mut q_gradient, mut q_p) = (0.0, 0.0);
        for (row, column) in self.q.iter().enumerate() {
            q_gradient += self.gradient[row * n + *column as usize];
            q_p += self.p[row * n + *column as usize];
        }
        // <P, G> = 2 f(P).
        let slope = q_gradient - 2.0 * value;
        let bend = value + q_value - q_gradient;
        let step = if bend > 0.0 {
            (-slope / (2.0 * bend)).clamp(0.0, 1.0)
        } else if slope + bend < 0.0 {
            1.0
        } else {
            0.0
        };
        let squares: f64 = self.p.iter().map(|p| p * p).sum();
        let norm = (squares - 2.0 * q_p + self.q.len() as f64).max(0.0).sqrt();
        (step, step * slope + step * step * bend, norm)
    }

    /// P and its gradient move towards Q.
    fn advance(&mut self, step: f64) {
        let n = self.qap.vms();
        let mix = |of: &mut [f64], with: &[f64]| {
            for (a, b) in of.iter_mut().zip(with) {
                *a += step * (b - *a);
            }
        };
        mix(&mut self.down, &self.q_down);
        mix(&mut self.up, &self.q_up);
        for p in &mut self.p {
            *p *= 1.0 - step;
        }
        for (row, column) in self.q.iter().enumerate() {
            self.p[row * n + *column as usize] += step;
        }
    }

    /// A whole placement: positions without load take what is left, in order.
    fn spread(&self, q: &[u32]) -> Vec<usize> {
        let mut vms = vec![usize::MAX; self.qap.positions];
        let mut taken = vec![false; self.qap.vms()];
        for (at, vm) in self.active.iter().zip(q) {
            vms[*at as usize] = *vm as usize;
            taken[*vm as usize] = true;
        }
        let mut left = (0..taken.len()).filter(|vm| !taken[*vm]);
        for vm in vms.iter_mut().filter(|vm| **vm == usize::MAX) {
            *vm = left.next().unwrap_or_default();
        }
        vms
    }
}

/// By active position, the first one with the same edges: two leaves of one parent, for example.
fn kinds(qap: &Qap, active: &[u32]) -> Vec<u32> {
    let mut edges: Vec<Vec<(u32, bool, u64)>> = vec![Vec::new(); qap.positions];
    for &(k, l, load) in &qap.edges {
        edges[k as usize].push((l, true, load.to_bits()));
        edges[l as usize].push((k, false, load.to_bits()));
    }
    edges.iter_mut().for_each(|edges| edges.sort_unstable());
    let mut first = std::collections::BTreeMap::new();
    let rows = active.iter().zip(0u32..);
    rows.map(|(at, row)| *first.entry(&edges[*at as usize]).or_insert(row)).collect()
}

fn add(to: &mut [f64], row: &[f64], load: f64) {
    for (to, from) in to.iter_mut().zip(row) {
        *to += load * from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(n: usize, seed: u64) -> Square {
        let mut rng = SplitMix64::new(seed);
        Square::from_fn(n, |i, j| if i == j { 0.0 } else { rng.unit() })
    }

    /// The products by definition, from a dense P with rows for all positions.
    fn by_definition(load: &Square, delay: &Square, p: &Square) -> (f64, Square) {
        let n = load.n();
        let times = |a: &Square, b: &Square| {
            Square::from_fn(n, |i, j| (0..n).map(|k| a.at(i, k) * b.at(k, j)).sum())
        };
        let (lt, dt) = (load.transposed(), delay.transposed());
        let down = times(&times(load, p), &dt);
        let up = times(&times(&lt, p), delay);
        let value = (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
        let value = value.map(|(i, j)| p.at(i, j) * down.at(i, j)).sum();
        (value, Square::from_fn(n, |i, j| down.at(i, j) + up.at(i, j)))
    }

    #[test]
    fn value_and_gradient_stay_what_the_definition_says() {
        let n = 9;
        let (load, delay) = (random(n, 1), random(n, 2));
        let qap = Qap::new(&load, delay.clone());
        let mut search = Search::new(&qap);
        let mut rng = SplitMix64::new(3);
        let mut value = search.start(Some(&shuffled(n, &mut rng)));
        for step in 0..6 {
            let p = Square::from_fn(n, |i, j| search.p[i * n + j]);
            let (expected, gradient) = by_definition(&load, &delay, &p);
            assert!((value - expected).abs() < 1e-9, "step {step}: {value} {expected}");
            for i in 0..n * n {
                search.gradient[i] = search.down[i] + search.up[i];
                assert!((search.gradient[i] - gradient.at(i / n, i % n)).abs() < 1e-9);
            }
            search.lap.solve(&search.gradient, n, &search.kinds, &mut search.q);
            let q_value = search.cost_of_q();
            let (alpha, change, norm) = search.line(value, q_value);
            let q = Square::from_fn(n, |i, j| f64::from(search.q[i] as usize == j));
            let at = |a: f64| {
                let mixed = Square::from_fn(n, |i, j| p.at(i, j) + a * (q.at(i, j) - p.at(i, j)));
                by_definition(&load, &delay, &mixed).0
            };
            let squares: f64 =
                (0..n * n).map(|i| (q.at(i / n, i % n) - p.at(i / n, i % n)).powi(2)).sum();
            assert!((norm - squares.sqrt()).abs() < 1e-9);
            assert!((at(alpha) - value - change).abs() < 1e-9);
            // No other step of the line is better.
            for tenth in 0..=10 {
                assert!(at(alpha) <= at(f64::from(tenth) / 10.0) + 1e-9);
            }
            value += change;
            search.advance(alpha);
        }
    }

    #[test]
    fn a_tree_has_the_same_answer_sparse_and_padded_with_zeros() {
        let shape = Shape::new(2, 2).unwrap();
        let delay = random(10, 5);
        let sparse = Qap::tree(shape, delay.clone());
        let mut load = Square::filled(10, 0.0);
        shape.edges().for_each(|(parent, child)| load.set(parent, child, 1.0));
        let padded = Qap::new(&load, delay);
        let (a, b) = (sparse.solve(&FaqOptions::default()), padded.solve(&FaqOptions::default()));
        assert_eq!(a.vms, b.vms[..7]);
        assert_eq!(a.cost, sparse.cost(&a.vms));
        let mut all = b.vms.clone();
        all.sort_unstable();
        assert_eq!(all, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn a_planted_cheap_tree_is_found_and_the_thesis_variant_misses_it() {
        let shape = Shape::new(3, 2).unwrap();
        let mut rng = SplitMix64::new(11);
        let hidden = shuffled(25, &mut rng);
        let mut delay = Square::from_fn(25, |_, _| 100.0 + 10.0 * rng.unit());
        shape.edges().for_each(|(p, c)| delay.set(hidden[p], hidden[c], 10.0));
        let qap = Qap::tree(shape, delay);
        let options = FaqOptions { starts: 20, ..FaqOptions::default() };
        assert_eq!(qap.solve(&options).cost, 140.0);
        // Negative control: no step at all.
        let none = FaqOptions { iterations: 0, ..options };
        assert!(qap.solve(&none).cost > 500.0);
    }

    #[test]
    fn degenerate_problems_have_answers() {
        let empty = Qap::new(&Square::filled(3, 0.0), random(4, 1));
        assert_eq!(empty.solve(&FaqOptions::default()).vms, [0, 1, 2]);
        let one = Qap::tree(Shape::new(1, 1).unwrap(), random(2, 1));
        assert_eq!(one.solve(&FaqOptions::default()).vms.len(), 2);
    }
}
