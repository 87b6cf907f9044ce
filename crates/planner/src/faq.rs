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
//! Because a tree's load is sparse and Q is a permutation, the gradient is kept up to date with two
//! rows of D per edge: a step costs O(edges n) and one assignment of the positions that have load at
//! all. No matrix product is ever needed. Positions with equal edges, like the leaves of one parent,
//! share a row, and the assignment starts with the prices of the one before. The best of the
//! projection and of all directions Q seen on the way is the result.

use types::SplitMix64;

use crate::assignment_solver::{AssignmentSolver, SPARE};
use crate::matrix::Square;
use crate::tree::Shape;

/// A placement problem with positions 0..positions and VMs 0..n.
#[derive(Clone, Debug)]
pub struct Qap {
    positions: usize,
    /// Edges of the tree: from position, to position, load.
    edges: Vec<(u32, u32, f64)>,
    delay: Square,
    delay_back: Square,
}

/// Settings of the FAQ search.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FaqOptions {
    /// Most Frank-Wolfe steps per start.
    pub iterations: usize,
    /// Stop when a step changes P by less than this, in Frobenius norm over sqrt(n).
    pub tolerance: f64,
    /// Number of starts: the first at the barycentre, the others half way to a random assignment.
    pub starts: usize,
    /// Seed of the random starts and orders.
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

/// A placement that the search has found.
#[derive(Clone, PartialEq, Debug)]
pub struct Placement {
    /// VM at each position.
    pub vms: Vec<usize>,
    /// Value of the objective at this placement.
    pub cost: f64,
    /// Number of Frank-Wolfe steps over all starts.
    pub iterations: usize,
    /// Whether the last start ended because its steps became small.
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

    /// Number of positions of the problem.
    pub fn positions(&self) -> usize {
        self.positions
    }

    /// Number of VMs of the problem.
    pub fn vms(&self) -> usize {
        self.delay.n()
    }

    /// (from position, to position, load), without zeros.
    pub fn edges(&self) -> &[(u32, u32, f64)] {
        &self.edges
    }

    /// Delays from a VM to every VM.
    pub(crate) fn delays_from(&self, vm: usize) -> &[f64] {
        self.delay.row(vm)
    }

    /// Delays from every VM to a VM.
    pub(crate) fn delays_to(&self, vm: usize) -> &[f64] {
        self.delay_back.row(vm)
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

/// The numbers 0..n in random order.
pub fn shuffled(n: usize, rng: &mut SplitMix64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    for at in (1..n).rev() {
        order.swap(at, rng.below(at as u64 + 1) as usize);
    }
    order
}

/// Positions that have load, those with equal edges together: two leaves of one parent, for
/// example. Their gradients are equal, and putting their mean in the place of each one's row of P
/// changes no value, so one row serves them all.
struct Groups {
    /// Positions of each group, one group after another, and where each one's begin.
    members: Vec<u32>,
    begin: Vec<u32>,
    /// Number of positions in each group.
    units: Vec<u32>,
    /// (from group, to group, load between any two members).
    links: Vec<(u32, u32, f64)>,
}

impl Groups {
    fn of(qap: &Qap) -> Groups {
        let (lists, begin) = edge_lists(qap);
        let list = |at: u32| &lists[begin[at as usize] as usize..begin[at as usize + 1] as usize];
        let all = 0..qap.positions as u32;
        let mut order: Vec<u32> = all.clone().filter(|at| !list(*at).is_empty()).collect();
        order.sort_unstable_by(|a, b| list(*a).cmp(list(*b)).then(a.cmp(b)));
        // Each position's first one alike, then the number of its group.
        let mut group_of = vec![u32::MAX; qap.positions];
        let mut first = None;
        for &at in &order {
            let alike = first.filter(|first| list(*first) == list(at)).unwrap_or(at);
            first = Some(alike);
            group_of[at as usize] = alike;
        }
        let firsts = all.filter(|at| group_of[*at as usize] == *at).collect::<Vec<_>>();
        let mut groups = Groups {
            members: Vec::with_capacity(order.len()),
            begin: Vec::with_capacity(firsts.len()),
            units: vec![0; firsts.len()],
            links: Vec::new(),
        };
        let links = qap
            .edges
            .iter()
            .filter(|(k, l, _)| group_of[*k as usize] == *k && group_of[*l as usize] == *l);
        groups.links.extend(links);
        // Firsts ascend, so each number is written after all smaller ones were looked up.
        let number = |first: u32| firsts.binary_search(&first).unwrap_or_default() as u32;
        for (k, l, _) in &mut groups.links {
            (*k, *l) = (number(*k), number(*l));
        }
        for &at in &order {
            groups.units[number(group_of[at as usize]) as usize] += 1;
        }
        let mut end = 0;
        for units in &groups.units {
            groups.begin.push(end);
            end += units;
        }
        groups.members.resize(order.len(), 0);
        let mut next = groups.begin.clone();
        order.sort_unstable();
        for &at in &order {
            let next = &mut next[number(group_of[at as usize]) as usize];
            groups.members[*next as usize] = at;
            *next += 1;
        }
        groups
    }

    /// Range of a group's positions in the lists.
    fn range(&self, group: u32) -> std::ops::Range<usize> {
        let begin = self.begin[group as usize];
        begin as usize..(begin + self.units[group as usize]) as usize
    }
}

/// Each position's (other position and direction, load), sorted, and where they begin.
fn edge_lists(qap: &Qap) -> (Vec<(u64, u64)>, Vec<u32>) {
    let mut begin = vec![0u32; qap.positions + 1];
    for &(k, l, _) in &qap.edges {
        begin[k as usize] += 1;
        begin[l as usize] += 1;
    }
    let mut end = 0;
    for begin in &mut begin {
        end += *begin;
        *begin = end;
    }
    let mut lists = vec![(0, 0); end as usize];
    // From their ends to their beginnings.
    for &(k, l, load) in qap.edges.iter().rev() {
        for (at, entry) in [(k, u64::from(l) << 1), (l, u64::from(k) << 1 | 1)] {
            begin[at as usize] -= 1;
            lists[begin[at as usize] as usize] = (entry, load.to_bits());
        }
    }
    for ends in begin.windows(2) {
        lists[ends[0] as usize..ends[1] as usize].sort_unstable();
    }
    (lists, begin)
}

/// The state of a run; rows are groups, columns VMs.
struct Search<'a> {
    qap: &'a Qap,
    groups: Groups,
    /// The relaxed assignment P: the mean row of each group's members.
    p: Vec<f64>,
    /// Sum of the squares of all positions' rows.
    squares: f64,
    /// L P D^T + L^T P D, a row for each group.
    gradient: Vec<f64>,
    /// The direction Q: each VM's group, and the groups' VMs like their members.
    owner: Vec<u32>,
    vms: Vec<u32>,
    /// Index at which each group's next VM is put.
    next: Vec<u32>,
    solver: AssignmentSolver,
}

impl<'a> Search<'a> {
    fn new(qap: &'a Qap) -> Search<'a> {
        let groups = Groups::of(qap);
        let cells = vec![0.0; groups.units.len() * qap.vms()];
        Search {
            qap,
            p: cells.clone(),
            squares: 0.0,
            gradient: cells,
            owner: vec![SPARE; qap.vms()],
            vms: vec![0; qap.vms()],
            next: Vec::new(),
            groups,
            solver: AssignmentSolver::default(),
        }
    }

    fn identity(&self) -> Placement {
        let vms: Vec<usize> = (0..self.qap.positions).collect();
        Placement { cost: self.qap.cost(&vms), vms, iterations: 0, converged: false }
    }

    fn run(&mut self, options: &FaqOptions, towards: Option<&[usize]>) -> Placement {
        let n = self.qap.vms();
        if self.groups.units.is_empty() {
            return self.identity();
        }
        let mut value = self.start(towards);
        let mut best: (f64, Vec<u32>) = (f64::INFINITY, self.vms.clone());
        let mut keep = |cost: f64, vms: &[u32]| {
            if cost < best.0 {
                best.0 = cost;
                best.1.copy_from_slice(vms);
            }
        };
        let (mut iterations, mut converged) = (0, false);
        while iterations < options.iterations && !converged {
            self.direction(iterations > 0);
            let q_value = self.cost_of_q();
            keep(q_value, &self.vms);
            let (step, change, norm) = self.line(value, q_value);
            value += change;
            iterations += 1;
            converged = step * norm < options.tolerance * (n as f64).sqrt();
            self.advance(step, iterations < options.iterations && !converged);
        }
        // The largest product with P is the least with -P.
        for (cost, p) in self.gradient.iter_mut().zip(&self.p) {
            *cost = -p;
        }
        self.direction(false);
        keep(self.cost_of_q(), &self.vms);
        let vms = self.spread(&best.1);
        Placement { cost: self.qap.cost(&vms), vms, iterations, converged }
    }

    /// P at the barycentre or half way to a permutation; gives the value there.
    fn start(&mut self, towards: Option<&[usize]>) -> f64 {
        let n = self.qap.vms();
        self.p.fill(1.0 / n as f64);
        self.squares = self.groups.members.len() as f64 / n as f64;
        let sums = |of: &Square| -> Vec<f64> {
            (0..n).map(|row| of.row(row).iter().sum::<f64>() / n as f64).collect()
        };
        // Row l of P D^T at the barycentre is D's row means, of P D its column means.
        let (out, back) = (sums(&self.qap.delay), sums(&self.qap.delay_back));
        self.gradient.fill(0.0);
        for &(k, l, load) in &self.groups.links {
            let units = |group: u32| f64::from(self.groups.units[group as usize]);
            add(row(&mut self.gradient, n, k), &out, load * units(l));
            add(row(&mut self.gradient, n, l), &back, load * units(k));
        }
        if let Some(towards) = towards {
            self.owner.fill(SPARE);
            for group in 0..self.groups.units.len() as u32 {
                for at in &self.groups.members[self.groups.range(group)] {
                    self.owner[towards[*at as usize]] = group;
                }
            }
            self.list_vms();
            self.advance(0.5, true);
        }
        // <P, G> = 2 f(P).
        let products = self.p.chunks(n).zip(self.gradient.chunks(n)).zip(&self.groups.units);
        let product = |(p, gradient): (&[f64], &[f64])| -> f64 {
            p.iter().zip(gradient).map(|(p, gradient)| p * gradient).sum()
        };
        products.map(|(rows, units)| product(rows) * f64::from(*units) / 2.0).sum()
    }

    /// Q with the least product with the gradient.
    fn direction(&mut self, again: bool) {
        let units = &self.groups.units;
        let owner = self.solver.solve(&self.gradient, self.qap.vms(), units, again);
        self.owner.copy_from_slice(owner);
        self.list_vms();
    }

    /// The groups' VMs, ascending in each, and behind them the spare ones.
    fn list_vms(&mut self) {
        let groups = self.groups.units.len();
        self.next.clear();
        self.next.extend(&self.groups.begin);
        self.next.push(self.groups.members.len() as u32);
        for (vm, owner) in (0u32..).zip(&self.owner) {
            let next = &mut self.next[(*owner as usize).min(groups)];
            self.vms[*next as usize] = vm;
            *next += 1;
        }
    }

    /// Value of the objective at the direction Q.
    fn cost_of_q(&self) -> f64 {
        let mut cost = 0.0;
        for &(k, l, load) in &self.groups.links {
            for from in &self.vms[self.groups.range(k)] {
                let delays = self.qap.delay.row(*from as usize);
                let to = &self.vms[self.groups.range(l)];
                cost += load * to.iter().map(|to| delays[*to as usize]).sum::<f64>();
            }
        }
        cost
    }

    /// The product of Q with rows of the groups.
    fn on_q(&self, rows: &[f64]) -> f64 {
        let n = self.qap.vms();
        let mut sum = 0.0;
        for (group, row) in (0u32..).zip(rows.chunks_exact(n)) {
            let vms = &self.vms[self.groups.range(group)];
            sum += vms.iter().map(|vm| row[*vm as usize]).sum::<f64>();
        }
        sum
    }

    /// The best step towards Q, what it changes, and the norm of Q - P. f(P + a X) for X = Q - P is
    /// f(P) + a <X, G> + a^2 f(X), with f(X) = f(P) + f(Q) - <Q, G> as f is quadratic.
    fn line(&self, value: f64, q_value: f64) -> (f64, f64, f64) {
        let (q_gradient, q_p) = (self.on_q(&self.gradient), self.on_q(&self.p));
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
        // Of Q as it is dealt out to positions.
        let q_squares = self.groups.members.len() as f64;
        let norm = (self.squares - 2.0 * q_p + q_squares).max(0.0).sqrt();
        (step, step * slope + step * step * bend, norm)
    }

    /// P moves towards Q, and its gradient if that is still wanted.
    fn advance(&mut self, step: f64, with_gradient: bool) {
        let n = self.qap.vms();
        let stay = 1.0 - step;
        // Of the groups' means: members times VMs over the square of their number, for each group.
        let q_squares = self.groups.units.len() as f64;
        self.squares = stay * stay * self.squares
            + 2.0 * stay * step * self.on_q(&self.p)
            + step * step * q_squares;
        self.p.iter_mut().for_each(|p| *p *= stay);
        for (group, row) in (0u32..).zip(self.p.chunks_exact_mut(n)) {
            let vms = &self.vms[self.groups.range(group)];
            let part = step / vms.len() as f64;
            vms.iter().for_each(|vm| row[*vm as usize] += part);
        }
        if !with_gradient {
            return;
        }
        self.gradient.iter_mut().for_each(|sum| *sum *= stay);
        for &(k, l, load) in &self.groups.links {
            for to in &self.vms[self.groups.range(l)] {
                let delays = self.qap.delay_back.row(*to as usize);
                add(row(&mut self.gradient, n, k), delays, step * load);
            }
            for from in &self.vms[self.groups.range(k)] {
                let delays = self.qap.delay.row(*from as usize);
                add(row(&mut self.gradient, n, l), delays, step * load);
            }
        }
    }

    /// A whole placement: positions without load take what is left, in order.
    fn spread(&self, q: &[u32]) -> Vec<usize> {
        let mut vms = vec![usize::MAX; self.qap.positions];
        let mut taken = vec![false; self.qap.vms()];
        for (at, vm) in self.groups.members.iter().zip(q) {
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

/// The row of a group in a matrix with `n` columns.
fn row(of: &mut [f64], n: usize, group: u32) -> &mut [f64] {
    &mut of[group as usize * n..(group as usize + 1) * n]
}

/// Adds a row, multiplied by `load`, to another one.
pub(crate) fn add(to: &mut [f64], row: &[f64], load: f64) {
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
                assert!((search.gradient[i] - gradient.at(i / n, i % n)).abs() < 1e-9);
            }
            search.direction(step > 0);
            let q_value = search.cost_of_q();
            let (alpha, change, norm) = search.line(value, q_value);
            let q = Square::from_fn(n, |i, j| f64::from(search.owner[j] as usize == i));
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
            search.advance(alpha, true);
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
