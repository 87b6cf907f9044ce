//! The linear assignment problem: every row gets a column of its own, at the least total cost.
//!
//! Jonker and Volgenant (1987) for dense costs with no more rows than columns: rows take their
//! cheapest columns, bump one another out of them by what the second cheapest costs more, and the
//! rows left over find shortest augmenting paths. Without the original's column reduction, which
//! would be wrong for columns that stay free. O(rows^2 columns) at worst; ties go to the lower
//! index, so equal costs give equal answers everywhere.
//!
//! Rows may be said to be alike (children of one node are): a path search then looks at the costs
//! of one of each kind only. Matched rows have the price of their cheapest column, which alike rows
//! share, so a second one, being farther away, shortens no path.

/// No row or column.
const NONE: u32 = u32::MAX;

/// A solver that keeps its memory.
#[derive(Clone, Debug, Default)]
pub struct Lap {
    /// Price of each column.
    price: Vec<f64>,
    row_of: Vec<u32>,
    free: Vec<u32>,
    /// Search that last looked at a kind of rows.
    looked: Vec<u32>,
    distance: Vec<f64>,
    before: Vec<u32>,
    /// Columns: those done, those at the least distance, the others.
    order: Vec<u32>,
}

impl Lap {
    /// Gives each row its column in `column_of`; `costs` holds the rows one after another, all of
    /// `columns` finite entries. `kinds`: rows with equal numbers, below the number of rows, have
    /// equal costs; empty when nothing is known.
    ///
    /// # Panics
    /// When there are more rows than columns, or `costs` has another length.
    pub fn solve(&mut self, costs: &[f64], columns: usize, kinds: &[u32], column_of: &mut [u32]) {
        let rows = column_of.len();
        assert!(rows <= columns && costs.len() == rows * columns, "shape of the costs");
        self.price.clear();
        self.price.resize(columns, 0.0);
        self.row_of.clear();
        self.row_of.resize(columns, NONE);
        column_of.fill(NONE);
        self.take_minima(costs, columns, column_of);
        for _ in 0..2 {
            self.bump(costs, columns, column_of);
        }
        self.distance.resize(columns, 0.0);
        self.before.resize(columns, 0);
        self.looked.clear();
        self.looked.resize(rows, NONE);
        for at in 0..self.free.len() {
            self.augment(costs, columns, kinds, (at as u32, self.free[at]), column_of);
        }
    }

    /// Every row takes its cheapest column if nobody has it.
    fn take_minima(&mut self, costs: &[f64], columns: usize, column_of: &mut [u32]) {
        self.free.clear();
        for (row, column) in column_of.iter_mut().enumerate() {
            let costs = &costs[row * columns..(row + 1) * columns];
            let cheapest = lowest(costs);
            if self.row_of[cheapest] == NONE {
                self.row_of[cheapest] = row as u32;
                *column = cheapest as u32;
            } else {
                self.free.push(row as u32);
            }
        }
    }

    /// Augmenting row reduction: a free row takes its cheapest column and lowers that column's
    /// price to where the second cheapest is as good; whoever had it looks again.
    fn bump(&mut self, costs: &[f64], columns: usize, column_of: &mut [u32]) {
        let free = std::mem::take(&mut self.free);
        // Each step lowers a price or gives up, but lowering by little can go on for long.
        let mut steps = 4 * free.len() + columns;
        let mut queue = free.into_iter();
        let mut bumped = None;
        while let Some(row) = bumped.take().or_else(|| queue.next()) {
            let costs = &costs[row as usize * columns..(row as usize + 1) * columns];
            let (first, least, second) = self.two_lowest(costs);
            let had = self.row_of[first];
            // At a tie somebody would only be bumped for nothing; and a free column's price stays.
            if had == NONE || (second > least && steps > 0) {
                if had != NONE {
                    self.price[first] -= second - least;
                    column_of[had as usize] = NONE;
                    bumped = Some(had);
                }
                self.row_of[first] = row;
                column_of[row as usize] = first as u32;
            } else {
                self.free.push(row);
            }
            steps = steps.saturating_sub(1);
        }
    }

    /// The cheapest column at the present prices, its cost, and that of the next.
    fn two_lowest(&self, costs: &[f64]) -> (usize, f64, f64) {
        let (mut first, mut least, mut second) = (0, f64::INFINITY, f64::INFINITY);
        for (column, (cost, price)) in costs.iter().zip(&self.price).enumerate() {
            let cost = cost - price;
            if cost < second {
                if cost < least {
                    (second, least, first) = (least, cost, column);
                } else {
                    second = cost;
                }
            }
        }
        (first, least, second)
    }

    /// Dijkstra from a free row to the nearest free column, then everybody on the way moves on.
    fn augment(
        &mut self,
        costs: &[f64],
        columns: usize,
        kinds: &[u32],
        (search, start): (u32, u32),
        column_of: &mut [u32],
    ) {
        let kind = |row: u32| kinds.get(row as usize).copied().unwrap_or(row) as usize;
        self.looked[kind(start)] = search;
        let row = |row: u32| &costs[row as usize * columns..(row as usize + 1) * columns];
        self.order.clear();
        self.order.extend(0..columns as u32);
        for (column, cost) in row(start).iter().enumerate() {
            self.distance[column] = cost - self.price[column];
            self.before[column] = start;
        }
        // order[..done] is settled, order[done..edge] is at the least distance.
        let (mut done, mut edge, mut least) = (0, 0, 0.0);
        let end = loop {
            if done == edge {
                least = self.gather(done, &mut edge);
                let found =
                    self.order[done..edge].iter().find(|&&c| self.row_of[c as usize] == NONE);
                if let Some(&column) = found {
                    break column;
                }
            }
            let column = self.order[done];
            let from = self.row_of[column as usize];
            done += 1;
            if std::mem::replace(&mut self.looked[kind(from)], search) == search {
                continue;
            }
            let costs = row(from);
            let base = costs[column as usize] - self.price[column as usize] - least;
            let mut found = None;
            let unsettled = edge;
            for at in unsettled..columns {
                let other = self.order[at] as usize;
                let length = costs[other] - self.price[other] - base;
                if length < self.distance[other] {
                    self.distance[other] = length;
                    self.before[other] = from;
                    if length <= least {
                        if self.row_of[other] == NONE {
                            found = Some(other as u32);
                            break;
                        }
                        self.order.swap(at, edge);
                        edge += 1;
                    }
                }
            }
            if let Some(column) = found {
                break column;
            }
        };
        for &column in &self.order[..done] {
            self.price[column as usize] += self.distance[column as usize] - least;
        }
        let mut column = end;
        loop {
            let row = self.before[column as usize];
            self.row_of[column as usize] = row;
            std::mem::swap(&mut column, &mut column_of[row as usize]);
            if row == start {
                break;
            }
        }
    }

    /// Moves the columns at the least distance to the front of the unsettled ones.
    fn gather(&mut self, done: usize, edge: &mut usize) -> f64 {
        let mut least = f64::INFINITY;
        for at in done..self.order.len() {
            let distance = self.distance[self.order[at] as usize];
            if distance <= least {
                if distance < least {
                    least = distance;
                    *edge = done;
                }
                self.order.swap(at, *edge);
                *edge += 1;
            }
        }
        least
    }
}

fn lowest(costs: &[f64]) -> usize {
    let mut best = 0;
    for (column, cost) in costs.iter().enumerate() {
        if *cost < costs[best] {
            best = column;
        }
    }
    best
}

/// Total cost of an assignment.
///
/// # Panics
/// When a column is none of `columns`.
pub fn cost(costs: &[f64], columns: usize, column_of: &[u32]) -> f64 {
    column_of.iter().enumerate().map(|(row, column)| costs[row * columns + *column as usize]).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn solve(costs: &[i64], columns: usize) -> (f64, Vec<u32>) {
        let costs: Vec<f64> = costs.iter().map(|cost| *cost as f64).collect();
        let mut column_of = vec![0; costs.len() / columns];
        Lap::default().solve(&costs, columns, &[], &mut column_of);
        (cost(&costs, columns, &column_of), column_of)
    }

    /// Least cost by trying everything.
    fn brute(costs: &[i64], columns: usize, row: usize, taken: u32) -> i64 {
        if row == costs.len() / columns {
            return 0;
        }
        let free = (0..columns).filter(|column| taken >> column & 1 == 0);
        let with = |column| {
            costs[row * columns + column] + brute(costs, columns, row + 1, taken | 1u32 << column)
        };
        free.map(with).min().unwrap()
    }

    fn is_assignment(column_of: &[u32], columns: usize) -> bool {
        let mut seen = vec![false; columns];
        column_of.iter().all(|column| !std::mem::replace(&mut seen[*column as usize], true))
    }

    proptest! {
        #[test]
        fn no_assignment_is_cheaper(
            rows in 0usize..6,
            extra in 0usize..3,
            costs in prop::collection::vec(prop_oneof![-50i64..50, 0i64..3], 64),
        ) {
            let columns = rows + extra;
            if columns > 0 {
                let costs = &costs[..rows * columns];
                let (cost, column_of) = solve(costs, columns);
                prop_assert!(is_assignment(&column_of, columns));
                prop_assert_eq!(cost, brute(costs, columns, 0, 0) as f64);
            }
        }

        #[test]
        fn as_cheap_as_kuhn_and_munkres(
            rows in 1usize..40,
            extra in 0usize..20,
            width in prop_oneof![Just(3u64), Just(1_000), Just(1_000_000)],
            seed in any::<u64>(),
        ) {
            use pathfinding::prelude::{Matrix, kuhn_munkres_min};
            let columns = rows + extra;
            let mut rng = types::SplitMix64::new(seed);
            let costs: Vec<i64> =
                (0..rows * columns).map(|_| rng.below(width) as i64 - width as i64 / 2).collect();
            let (cost, column_of) = solve(&costs, columns);
            let (known, _) =
                kuhn_munkres_min(&Matrix::from_vec(rows, columns, costs).unwrap());
            prop_assert!(is_assignment(&column_of, columns));
            prop_assert_eq!(cost, known as f64);
        }
    }

    #[test]
    fn rows_that_are_alike_cost_the_same_whether_told_or_not() {
        for seed in 0..200 {
            let mut rng = types::SplitMix64::new(seed);
            let (kinds, of_each) = (1 + rng.below(6) as usize, 1 + rng.below(7) as usize);
            let rows = kinds * of_each;
            let columns = rows + rng.below(5) as usize;
            let width = if seed % 2 == 0 { 5 } else { 10_000 };
            let different: Vec<f64> =
                (0..kinds * columns).map(|_| rng.below(width) as f64).collect();
            let of: Vec<u32> = (0..rows).map(|row| (row % kinds) as u32).collect();
            let one = |kind: &u32| &different[*kind as usize * columns..][..columns];
            let costs: Vec<f64> = of.iter().flat_map(one).copied().collect();
            let (mut told, mut untold) = (vec![0; rows], vec![0; rows]);
            Lap::default().solve(&costs, columns, &of, &mut told);
            Lap::default().solve(&costs, columns, &[], &mut untold);
            assert!(is_assignment(&told, columns), "seed {seed}");
            let total = |column_of: &[u32]| cost(&costs, columns, column_of);
            assert_eq!(total(&told), total(&untold), "seed {seed}");
        }
    }

    #[test]
    fn the_comparison_sees_a_worse_answer() {
        // Negative control: what every row would like best is no assignment, and the order of the
        // rows is not the cheapest one.
        let costs = [1, 2, 1, 5];
        assert_eq!(solve(&costs, 2), (3.0, vec![1, 0]));
        assert_eq!(cost(&[1.0, 2.0, 1.0, 5.0], 2, &[0, 1]), 6.0);
    }
}
