//! The network effect: from differences on edges to one value per node, in which they agree best.
//!
//! True offsets add up to 0 around every loop. What estimates of the edges add up to is their loop
//! surplus; taking it out in the least-squares sense projects the estimates onto what offsets can
//! be (Geng et al., section 3.3). The same is the least-squares solution of "value of b less value
//! of a is what the edge says" with the reference at 0, which is solved here with a Cholesky
//! factorisation of the weighted Laplacian. Edges that disagree with their loops count less and
//! less (iterated reweighting). The residuals tell how wrong edges are, the inverse's diagonal how
//! much of that is left in a node's value: together they are the error bound.

/// An edge of the graph: the value of `b` less the value of `a`, as measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Edge {
    /// Index of the node at the first end.
    pub a: usize,
    /// Index of the node at the second end.
    pub b: usize,
    /// Value of `b` less value of `a`, in the unit of the caller.
    pub value: f64,
}

/// Values of the nodes, and how far they can be relied on.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Fit {
    /// Per node, the reference's 0; `None` where no edge leads to the reference.
    pub values: Vec<Option<f64>>,
    /// Variance of a node's value in units of an edge's.
    pub spread: Vec<f64>,
    /// Variance of an edge, from the residuals; 0 without loops.
    pub variance: f64,
    /// Independent loops: edges beyond those of a tree.
    pub loops: usize,
    /// Weight of each edge in the end, 0 to 1.
    pub weights: Vec<f64>,
}

/// Number of rounds in which edges are weighted anew by their residuals.
const ROUNDS: usize = 3;
/// Standard deviations up to which a residual keeps its full weight.
const KEPT: f64 = 2.0;
/// Smallest weight of an edge; with less, nodes behind it would have no determined value.
const LEAST: f64 = 1e-4;

/// Values along shortest paths from the reference, without any correction.
pub fn tree(nodes: usize, reference: usize, edges: &[Edge]) -> Vec<Option<f64>> {
    let mut near: Vec<Vec<(usize, f64)>> = vec![Vec::new(); nodes];
    for edge in edges {
        near[edge.a].push((edge.b, edge.value));
        near[edge.b].push((edge.a, -edge.value));
    }
    let mut values = vec![None; nodes];
    let mut queue = std::collections::VecDeque::new();
    if let Some(value) = values.get_mut(reference) {
        *value = Some(0.0);
        queue.push_back((reference, 0.0));
    }
    while let Some((at, value)) = queue.pop_front() {
        for &(next, step) in &near[at] {
            if values[next].is_none() {
                values[next] = Some(value + step);
                queue.push_back((next, value + step));
            }
        }
    }
    values
}

/// Least squares, in which edges that contradict the others get less weight.
pub fn fit(nodes: usize, reference: usize, edges: &[Edge]) -> Fit {
    let mut weights = vec![1.0; edges.len()];
    let mut fit = weighted(nodes, reference, edges, &weights);
    for _ in 0..ROUNDS {
        let scale = scale(&fit, edges);
        if fit.loops < 2 || scale <= 0.0 {
            break;
        }
        for (weight, edge) in weights.iter_mut().zip(edges) {
            let part = KEPT * scale / residual(&fit, edge).abs().max(KEPT * scale);
            *weight = (part * part).max(LEAST);
        }
        fit = weighted(nodes, reference, edges, &weights);
    }
    fit
}

/// The normal equations of a mesh, with the factorised matrix.
struct System {
    /// Nodes with an unknown value, in the order of the matrix's rows.
    unknown: Vec<usize>,
    right: Vec<f64>,
    /// Inverse of the lower Cholesky factor, row by row.
    inverse: Vec<f64>,
    /// Number of edges that take part in the fit.
    used: usize,
}

impl System {
    fn new(nodes: usize, reference: usize, edges: &[Edge], weights: &[f64]) -> System {
        let start = tree(nodes, reference, edges);
        let known = |node: &usize| *node != reference && start[*node].is_some();
        let unknown: Vec<usize> = (0..nodes).filter(known).collect();
        let mut place = vec![None; nodes];
        unknown.iter().enumerate().for_each(|(row, node)| place[*node] = Some(row));
        let n = unknown.len();
        let (mut matrix, mut right, mut used) = (vec![0.0; n * n], vec![0.0; n], 0);
        for (edge, weight) in edges.iter().zip(weights) {
            if start[edge.a].is_none() {
                continue;
            }
            used += 1;
            let (a, b) = (place[edge.a], place[edge.b]);
            for (row, sign) in [(a, -1.0), (b, 1.0)] {
                let Some(row) = row else { continue };
                matrix[row * n + row] += weight;
                right[row] += sign * weight * edge.value;
            }
            if let (Some(a), Some(b)) = (a, b) {
                matrix[a * n + b] -= weight;
                matrix[b * n + a] -= weight;
            }
        }
        let inverse = inverse_factor(&mut matrix, n);
        System { unknown, right, inverse, used }
    }

    /// The product of the inverse matrix and a vector.
    fn solve(&self, right: &[f64]) -> Vec<f64> {
        let n = self.unknown.len();
        let row = |row: usize| &self.inverse[row * n..row * n + row + 1];
        let dot = |row: &[f64]| -> f64 { row.iter().zip(right).map(|(x, y)| x * y).sum() };
        let middle: Vec<f64> = (0..n).map(|at| dot(row(at))).collect();
        let mut solved = vec![0.0; n];
        for (at, middle) in middle.iter().enumerate() {
            solved.iter_mut().zip(row(at)).for_each(|(cell, factor)| *cell += factor * middle);
        }
        solved
    }
}

/// Least squares with the given weights, one per edge.
pub fn weighted(nodes: usize, reference: usize, edges: &[Edge], weights: &[f64]) -> Fit {
    let system = System::new(nodes, reference, edges, weights);
    let n = system.unknown.len();
    let mut fit = Fit {
        values: vec![None; nodes],
        spread: vec![0.0; nodes],
        variance: 0.0,
        loops: system.used.saturating_sub(n),
        weights: weights.to_vec(),
    };
    if let Some(value) = fit.values.get_mut(reference) {
        *value = Some(0.0);
    }
    let solved = system.solve(&system.right);
    for (row, node) in system.unknown.iter().enumerate() {
        fit.values[*node] = Some(solved[row]);
        let column = (row..n).map(|k| system.inverse[k * n + row]);
        fit.spread[*node] = column.map(|cell| cell * cell).sum();
    }
    if fit.loops > 0 {
        let square = |(edge, weight): (&Edge, &f64)| weight * residual(&fit, edge).powi(2);
        fit.variance = edges.iter().zip(weights).map(square).sum::<f64>() / fit.loops as f64;
    }
    fit
}

/// How much of a bias that all edges may have, each with the sign that hurts most, ends up in each
/// node's value: the sum of the sizes of the currents when one unit flows from the node to the
/// reference through the mesh.
pub fn reach(nodes: usize, reference: usize, edges: &[Edge], weights: &[f64]) -> Vec<f64> {
    let system = System::new(nodes, reference, edges, weights);
    let mut reach = vec![0.0; nodes];
    let mut potential = vec![0.0; nodes];
    for (row, node) in system.unknown.iter().enumerate() {
        let mut unit = vec![0.0; system.unknown.len()];
        unit[row] = 1.0;
        let solved = system.solve(&unit);
        system.unknown.iter().zip(&solved).for_each(|(node, value)| potential[*node] = *value);
        let current =
            |(edge, weight): (&Edge, &f64)| weight * (potential[edge.b] - potential[edge.a]).abs();
        reach[*node] = edges.iter().zip(weights).map(current).sum();
    }
    reach
}

/// What an edge says beyond what the nodes' values say; 0 for an edge off the reference's part.
pub fn residual(fit: &Fit, edge: &Edge) -> f64 {
    match (fit.values[edge.a], fit.values[edge.b]) {
        (Some(a), Some(b)) => edge.value - (b - a),
        _ => 0.0,
    }
}

/// Standard deviation of an edge from the median of the residuals, which a few bad edges can't
/// move; residuals are smaller than errors by what the fit has taken up.
fn scale(fit: &Fit, edges: &[Edge]) -> f64 {
    let mut sizes: Vec<f64> = edges.iter().map(|edge| residual(fit, edge).abs()).collect();
    if sizes.is_empty() {
        return 0.0;
    }
    let middle = sizes.len() / 2;
    let median = *sizes.select_nth_unstable_by(middle, f64::total_cmp).1;
    1.4826 * median * (edges.len() as f64 / fit.loops.max(1) as f64).sqrt()
}

/// Inverse of the lower Cholesky factor of a symmetric positive definite matrix of n rows.
fn inverse_factor(matrix: &mut [f64], n: usize) -> Vec<f64> {
    for row in 0..n {
        for column in 0..=row {
            let (upper, lower) = (&matrix[column * n..], &matrix[row * n..]);
            let dot: f64 = upper.iter().zip(lower).take(column).map(|(x, y)| x * y).sum();
            let rest = matrix[row * n + column] - dot;
            // Every node hangs on the reference by edges of at least the least weight.
            matrix[row * n + column] = match row == column {
                true => rest.max(1e-12).sqrt(),
                false => rest / matrix[column * n + column],
            };
        }
    }
    // The inverse is lower triangular too; its rows from the top, each in terms of those above.
    let mut inverse = vec![0.0; n * n];
    for row in 0..n {
        let pivot = 1.0 / matrix[row * n + row];
        let (above, current) = inverse.split_at_mut(row * n);
        for (k, cells) in above.chunks_exact(n).enumerate() {
            let factor = matrix[row * n + k] * pivot;
            if factor != 0.0 {
                for (cell, other) in current.iter_mut().zip(cells).take(k + 1) {
                    *cell -= factor * other;
                }
            }
        }
        current[row] = pivot;
    }
    inverse
}

/// Bounds of the difference of an edge: value of `b` less value of `a`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Interval {
    /// Index of the node at the first end.
    pub a: usize,
    /// Index of the node at the second end.
    pub b: usize,
    /// Smallest possible difference.
    pub low: f64,
    /// Largest possible difference.
    pub high: f64,
}

/// Interval of each node's value that intervals on edges allow: the tightest way along edges, both
/// from below and from above.
pub fn intervals(nodes: usize, reference: usize, edges: &[Interval]) -> Vec<(f64, f64)> {
    let mut bounds = vec![(f64::NEG_INFINITY, f64::INFINITY); nodes];
    if let Some(bound) = bounds.get_mut(reference) {
        *bound = (0.0, 0.0);
    }
    // Ways of more than a few edges are wider than shorter ones; the limit is for the worst case.
    for _ in 0..nodes.min(32) {
        let mut changed = false;
        for &Interval { a, b, low, high } in edges {
            for (from, to, low, high) in [(a, b, low, high), (b, a, -high, -low)] {
                let (low, high) = (bounds[from].0 + low, bounds[from].1 + high);
                let bound = &mut bounds[to];
                changed |= low > bound.0 || high < bound.1;
                *bound = (bound.0.max(low), bound.1.min(high));
            }
        }
        if !changed {
            break;
        }
    }
    bounds
}

#[cfg(test)]
mod tests {
    use types::SplitMix64;

    use super::*;
    use crate::mesh;

    /// A mesh with true values, and edges with errors of standard deviation 1.
    fn noisy(nodes: usize, seed: u64) -> (Vec<f64>, Vec<Edge>) {
        let mut rng = SplitMix64::new(seed);
        let mut truth: Vec<f64> = (0..nodes).map(|_| 1e3 * rng.unit()).collect();
        truth[0] = 0.0;
        let error = |rng: &mut SplitMix64| (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0;
        let edge =
            |&(a, b): &(usize, usize)| Edge { a, b, value: truth[b] - truth[a] + error(&mut rng) };
        let edges = mesh::edges(nodes, 10, seed).iter().map(edge).collect();
        (truth, edges)
    }

    fn errors(truth: &[f64], values: &[Option<f64>]) -> f64 {
        let square = |(t, v): (&f64, &Option<f64>)| (v.unwrap() - t).powi(2);
        (truth.iter().zip(values).map(square).sum::<f64>() / truth.len() as f64).sqrt()
    }

    #[test]
    fn loops_correct_what_a_tree_can_not_and_say_how_well() {
        for seed in 0..20 {
            let (truth, edges) = noisy(100, seed);
            let fit = fit(100, 0, &edges);
            let (with, without) =
                (errors(&truth, &fit.values), errors(&truth, &tree(100, 0, &edges)));
            assert!(with < 0.7 && without > 1.8 * with, "seed {seed}: {with} {without}");
            assert!((0.8..1.25).contains(&fit.variance), "seed {seed}: {}", fit.variance);
            let told = (fit.spread.iter().sum::<f64>() / 100.0 * fit.variance).sqrt();
            assert!((0.5..2.0).contains(&(with / told)), "seed {seed}: {with} {told}");
        }
    }

    #[test]
    fn edges_that_disagree_with_their_loops_are_set_aside() {
        for seed in 0..20 {
            let (truth, mut edges) = noisy(60, seed);
            let plain = fit(60, 0, &edges);
            for edge in edges.iter_mut().step_by(12) {
                edge.value += 300.0;
            }
            let robust = fit(60, 0, &edges);
            let naive = weighted(60, 0, &edges, &vec![1.0; edges.len()]);
            let [plain, robust, naive] =
                [&plain, &robust, &naive].map(|fit| errors(&truth, &fit.values));
            assert!(robust < 1.5 * plain, "seed {seed}: {plain} {robust}");
            assert!(naive > 5.0 * robust, "seed {seed}: {naive} {robust}");
        }
    }

    #[test]
    fn a_projection_leaves_consistent_edges_alone_and_unreached_nodes_out() {
        let edge = |a, b, value| Edge { a, b, value };
        let edges = [edge(0, 1, 5.0), edge(1, 2, -2.0), edge(0, 2, 3.0), edge(3, 4, 9.0)];
        let fit = fit(6, 0, &edges);
        let near = |value: Option<f64>, wanted: f64| (value.unwrap() - wanted).abs() < 1e-9;
        assert!(near(fit.values[1], 5.0) && near(fit.values[2], 3.0));
        assert_eq!(&fit.values[3..], [None, None, None]);
        assert_eq!(fit.loops, 1);
        assert!(fit.variance < 1e-18);
        // A surplus of 3 around the one loop is shared equally.
        let edges = [edge(0, 1, 6.0), edge(1, 2, -1.0), edge(0, 2, 2.0)];
        let fit = weighted(3, 0, &edges, &[1.0; 3]);
        assert!(near(fit.values[1], 5.0) && near(fit.values[2], 3.0));
    }

    #[test]
    fn a_bias_reaches_a_node_through_every_edge_it_hangs_on() {
        let edge = |a, b| Edge { a, b, value: 0.0 };
        // A chain adds up; two equal ways share.
        let chain = reach(3, 0, &[edge(0, 1), edge(1, 2)], &[1.0; 2]);
        assert!((chain[1] - 1.0).abs() < 1e-9 && (chain[2] - 2.0).abs() < 1e-9);
        let square = reach(4, 0, &[edge(0, 1), edge(1, 3), edge(0, 2), edge(2, 3)], &[1.0; 4]);
        assert!((square[3] - 2.0).abs() < 1e-9 && (square[1] - 1.5).abs() < 1e-9);
    }

    #[test]
    fn intervals_take_the_tightest_way() {
        let edge = |a, b, low, high| Interval { a, b, low, high };
        let edges = [edge(0, 1, 9.0, 11.0), edge(2, 1, -11.0, -9.0), edge(0, 2, 14.0, 24.0)];
        let bounds = intervals(4, 0, &edges);
        assert_eq!(bounds[2], (18.0, 22.0));
        assert_eq!(bounds[3], (f64::NEG_INFINITY, f64::INFINITY));
    }
}
