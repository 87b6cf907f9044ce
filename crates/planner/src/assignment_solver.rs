//! The linear assignment problem: every unit of every group gets a column of its own, at the least
//! total cost. All units of a group cost the same (children of one node do), so a group is one row
//! of costs and a number of columns it needs.
//!
//! After Jonker and Volgenant (1987), for dense costs: groups take their cheapest columns, bump one
//! another out of them by what the next cheapest costs more, and for the units left over shortest
//! augmenting paths are found. Columns nobody needs belong to a spare group that all columns cost
//! nothing; with it prices of one problem are a good start of another that differs little. Ties go
//! to the lower index, so equal costs give equal answers everywhere.

/// Marks a column or group that is not assigned.
const NONE: u32 = u32::MAX;

/// Owner of the columns that no group needs.
pub const SPARE: u32 = u32::MAX - 1;

/// Most columns that a group takes in one bid.
const BID: usize = 8;

/// Number of columns that are compared at once.
const LANES: usize = 4;

/// A group that a path search has met.
#[derive(Clone, Copy, Debug)]
struct Look {
    group: u32,
    /// The column it would give up, and how far that is; the group searched for gives none.
    via: u32,
    at: f64,
    /// What to take from a cost less price to have the way from the start.
    base: f64,
}

/// A solver of assignment problems, which keeps its memory from problem to problem.
#[derive(Clone, Debug, Default)]
pub struct AssignmentSolver {
    /// Price of each column; a group pays cost less price.
    price: Vec<f64>,
    owner: Vec<u32>,
    /// Number of units without a column, by group; the spare group is last.
    left: Vec<u32>,
    /// First group with the same costs, which stands for the others at a cold start.
    same: Vec<u32>,
    /// Units of each group, or of all it stands for.
    needed: Vec<u32>,
    queue: Vec<u32>,
    /// Columns that a bid looked up, by cost less price.
    cheapest: [(f64, u32); BID + 1],
    // A path search:
    /// Price of each column not settled yet, and less than everything of the others.
    open: Vec<f64>,
    distance: Vec<f64>,
    settled: Vec<(u32, f64)>,
    looked: Vec<Look>,
    /// Search that last met a group.
    met: Vec<u32>,
    searches: u32,
    /// Costs of the spare group: all 0.
    nothing: Vec<f64>,
}

/// A problem: the rows of costs of the groups, one after another.
#[derive(Clone, Copy)]
struct Costs<'a> {
    costs: &'a [f64],
    nothing: &'a [f64],
    groups: usize,
}

impl<'a> Costs<'a> {
    /// Costs of one group, by column; those of the spare group are 0.
    fn row(self, group: usize) -> &'a [f64] {
        let columns = self.nothing.len();
        if group == self.groups {
            self.nothing
        } else {
            &self.costs[group * columns..(group + 1) * columns]
        }
    }
}

impl AssignmentSolver {
    /// Gives every group as many columns as it has `units` and returns each column's group, or
    /// [`SPARE`]; `costs` holds the groups' rows one after another, all of `columns` finite entries.
    /// `again`: the last problem solved had the same groups and costs not far from these, which
    /// makes this one cheaper to solve and changes its answer only among equally good ones.
    ///
    /// # Panics
    /// When there are more units than columns, or `costs` has another length.
    pub fn solve(&mut self, costs: &[f64], columns: usize, units: &[u32], again: bool) -> &[u32] {
        let total = units.iter().sum::<u32>() as usize;
        let groups = units.len();
        assert!(total <= columns && costs.len() == groups * columns, "shape of the costs");
        let again = again && self.price.len() == columns && self.same.len() == groups;
        let mut nothing = std::mem::take(&mut self.nothing);
        nothing.resize(columns, 0.0);
        let all = Costs { costs, nothing: &nothing, groups };
        self.met.resize(groups + 1, 0);
        self.needed.clear();
        self.needed.extend(units);
        if again {
            self.restart();
        } else {
            self.start(all);
        }
        self.left.clear();
        self.left.extend(&self.needed);
        let kept = self.owner.iter().filter(|owner| **owner == SPARE).count();
        self.left.push((columns - total - kept) as u32 * u32::from(again));
        self.bid(all);
        for group in 0..=groups {
            for _ in 0..self.left[group] {
                self.augment(all, group);
            }
        }
        if !again {
            self.share_out(units);
        }
        self.nothing = nothing;
        &self.owner
    }

    /// Prices of 0; groups with the same costs need their columns together.
    fn start(&mut self, all: Costs) {
        let columns = all.nothing.len();
        self.price.clear();
        self.price.resize(columns, 0.0);
        self.owner.clear();
        self.owner.resize(columns, NONE);
        self.same.clear();
        for group in 0..all.groups {
            let first = (0..group).find(|first| {
                self.same[*first] == *first as u32 && all.row(*first) == all.row(group)
            });
            self.same.push(first.unwrap_or(group) as u32);
            if let Some(first) = first {
                self.needed[first] += std::mem::take(&mut self.needed[group]);
            }
        }
    }

    /// Prices of the last problem, the highest one 0; the spare columns, which have that, stay.
    fn restart(&mut self) {
        let highest = self.price.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        self.price.iter_mut().for_each(|price| *price -= highest);
        for owner in self.owner.iter_mut().filter(|owner| **owner != SPARE) {
            *owner = NONE;
        }
    }

    /// Groups with the same costs part their columns; those of nobody are spare.
    fn share_out(&mut self, units: &[u32]) {
        self.left.clear();
        self.left.extend(units);
        // The next of the groups that share may still need some.
        self.queue.clear();
        self.queue.extend(0..units.len() as u32);
        for owner in &mut self.owner {
            if *owner == NONE {
                *owner = SPARE;
                continue;
            }
            let first = *owner as usize;
            let mut group = self.queue[first] as usize;
            while self.left[group] == 0 || self.same[group] != first as u32 {
                group += 1;
            }
            self.queue[first] = group as u32;
            self.left[group] -= 1;
            *owner = group as u32;
        }
    }

    /// Groups take their cheapest columns and lower those columns' prices to where the next one is
    /// as good; whoever had one looks again.
    fn bid(&mut self, all: Costs) {
        let mut queue = std::mem::take(&mut self.queue);
        queue.clear();
        queue.extend((0..all.groups as u32).rev());
        // Each step lowers a price or gives up, but lowering by little can go on for long.
        let mut steps = 4 * all.groups + 2 * all.nothing.len();
        while let Some(group) = queue.pop() {
            if steps == 0 {
                break;
            }
            steps -= 1;
            while self.left[group as usize] > 0 && self.take_cheapest(all, group, &mut queue) {}
        }
        self.queue = queue;
    }

    /// Makes one bid for a group; returns whether it was a full one, so that the group may bid
    /// again.
    fn take_cheapest(&mut self, all: Costs, group: u32, queue: &mut Vec<u32>) -> bool {
        let costs = all.row(group as usize);
        let wanted = (self.left[group as usize] as usize).min(BID);
        let found = self.find_cheapest(costs, group, wanted + 1);
        let wanted = wanted.min(found);
        let level = self.cheapest[found.saturating_sub(1)].0;
        let mut taken = 0;
        for at in 0..wanted {
            let (cost, column) = self.cheapest[at];
            let had = self.owner[column as usize];
            // At a tie somebody would only be bumped for nothing.
            if had != NONE && cost >= level {
                continue;
            }
            if had != NONE {
                let had = if had == SPARE { all.groups } else { had as usize };
                self.left[had] += 1;
                if had != all.groups && self.left[had] == 1 {
                    queue.push(had as u32);
                }
            }
            self.owner[column as usize] = group;
            self.price[column as usize] -= level - cost;
            taken += 1;
        }
        // What it had before costs it as much as what it took.
        let had_some = self.left[group as usize] < self.needed[group as usize];
        self.left[group as usize] -= taken;
        if had_some && taken > 0 {
            for (column, owner) in self.owner.iter().enumerate() {
                if *owner == group {
                    self.price[column] = costs[column] - level;
                }
            }
        }
        taken as usize == wanted
    }

    /// Looks up the cheapest columns of others at the present prices, so many or all there are;
    /// gives how many. One pass for each, without branches that depend on costs.
    fn find_cheapest(&mut self, costs: &[f64], group: u32, count: usize) -> usize {
        let distance = &mut self.distance;
        distance.clear();
        distance.extend(costs.iter().zip(&self.price).map(|(cost, price)| cost - price));
        if self.left[group as usize] < self.needed[group as usize] {
            for (distance, owner) in distance.iter_mut().zip(&self.owner) {
                *distance = if *owner == group { f64::INFINITY } else { *distance };
            }
        }
        for (found, cheapest) in self.cheapest[..count].iter_mut().enumerate() {
            let least = lowest(distance);
            if least == f64::INFINITY {
                return found;
            }
            let column = first_equal(distance, least);
            *cheapest = (least, column as u32);
            distance[column] = f64::INFINITY;
        }
        count
    }

    /// Dijkstra from a group to the nearest free column, then everybody on the way moves on.
    fn augment(&mut self, all: Costs, group: usize) {
        self.searches = self.searches.wrapping_add(1);
        self.settled.clear();
        self.looked.clear();
        self.open.clear();
        self.open.extend(&self.price);
        self.distance.clear();
        self.distance.resize(self.price.len(), f64::INFINITY);
        let mut least = self.look(all, group, NONE, 0.0);
        let end = loop {
            // All at the least distance are settled at once.
            let first = self.settled.len();
            if let Some(end) = self.settle(least) {
                break end;
            }
            let mut next = None;
            for at in first..self.settled.len() {
                let (column, _) = self.settled[at];
                let owner = self.owner[column as usize];
                let owner = if owner == SPARE { all.groups } else { owner as usize };
                if self.met[owner] != self.searches {
                    next = Some(self.look(all, owner, column, least));
                }
            }
            least = next.unwrap_or_else(|| lowest(&self.distance));
        };
        self.move_on(all, end, least);
        for &(column, distance) in &self.settled {
            self.price[column as usize] += distance - least;
        }
        self.left[group] -= 1;
    }

    /// Settles the columns at the least distance, unless one of them is free.
    fn settle(&mut self, least: f64) -> Option<u32> {
        let first = self.settled.len();
        for (column, distance) in self.distance.iter().enumerate() {
            if *distance == least {
                if self.owner[column] == NONE {
                    self.settled.truncate(first);
                    return Some(column as u32);
                }
                self.settled.push((column as u32, least));
            }
        }
        for &(column, _) in &self.settled[first..] {
            self.open[column as usize] = f64::NEG_INFINITY;
            self.distance[column as usize] = f64::INFINITY;
        }
        None
    }

    /// Shortens the ways by those through one group; gives the least distance of what is open.
    fn look(&mut self, all: Costs, group: usize, via: u32, at: f64) -> f64 {
        let costs = all.row(group);
        let base = match via {
            NONE => 0.0,
            via => costs[via as usize] - self.price[via as usize] - at,
        };
        self.met[group] = self.searches;
        self.looked.push(Look { group: group as u32, via, at, base });
        shorten(&mut self.distance, costs, &self.open, base)
    }

    /// The end of a path goes to the group that reached it, which gives up the column it was met
    /// by, and so on.
    fn move_on(&mut self, all: Costs, end: u32, least: f64) {
        let (mut column, mut distance) = (end as usize, least);
        loop {
            let reached = |look: &&Look| {
                let cost = all.row(look.group as usize)[column];
                cost - self.price[column] - look.base == distance
            };
            // Whoever was looked at first with that distance set it.
            let Some(look) = self.looked.iter().find(reached) else { return };
            let spare = look.group as usize == all.groups;
            self.owner[column] = if spare { SPARE } else { look.group };
            if look.via == NONE {
                return;
            }
            (column, distance) = (look.via as usize, look.at);
        }
    }
}

/// Lowers each distance to cost - price - base where that is less; gives the least.
fn shorten(distance: &mut [f64], costs: &[f64], prices: &[f64], base: f64) -> f64 {
    let mut least = [f64::INFINITY; LANES];
    let (far, near) = distance.as_chunks_mut::<LANES>();
    let (costs, costs_left) = costs.as_chunks::<LANES>();
    let (prices, prices_left) = prices.as_chunks::<LANES>();
    for ((far, cost), price) in far.iter_mut().zip(costs).zip(prices) {
        for lane in 0..LANES {
            far[lane] = lower(cost[lane] - price[lane] - base, far[lane]);
            least[lane] = lower(far[lane], least[lane]);
        }
    }
    for ((far, cost), price) in near.iter_mut().zip(costs_left).zip(prices_left) {
        *far = lower(cost - price - base, *far);
        least[0] = lower(*far, least[0]);
    }
    least.into_iter().fold(f64::INFINITY, lower)
}

/// The least of the numbers; infinity when there are none.
fn lowest(of: &[f64]) -> f64 {
    let mut least = [f64::INFINITY; 2 * LANES];
    let (chunks, left) = of.as_chunks::<{ 2 * LANES }>();
    for chunk in chunks {
        for (least, number) in least.iter_mut().zip(chunk) {
            *least = lower(*number, *least);
        }
    }
    let half: [f64; LANES] = std::array::from_fn(|at| lower(least[at], least[at + LANES]));
    let least = lower(lower(half[0], half[1]), lower(half[2], half[3]));
    left.iter().copied().fold(least, lower)
}

/// Index of the first number that equals `number`.
fn first_equal(of: &[f64], number: f64) -> usize {
    let (chunks, _) = of.as_chunks::<LANES>();
    let here = |chunk: &[f64; LANES]| chunk.iter().fold(false, |any, one| any | (*one == number));
    let from = LANES * chunks.iter().position(here).unwrap_or(chunks.len());
    let found = of[from..].iter().position(|one| *one == number);
    from + found.unwrap_or_default()
}

/// The lower of two numbers, neither of them NaN.
#[inline]
fn lower(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

/// Total cost of columns' groups.
///
/// # Panics
/// When a group is none of the costs'.
pub fn cost(costs: &[f64], owner: &[u32]) -> f64 {
    let owned = owner.iter().enumerate().filter(|(_, group)| **group != SPARE);
    owned.map(|(column, group)| costs[*group as usize * owner.len() + column]).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use types::SplitMix64;

    use super::*;

    /// Least cost by the solver, of groups of one unless `units` says otherwise.
    fn solve(costs: &[i64], columns: usize, units: Option<&[u32]>) -> (f64, Vec<u32>) {
        let costs: Vec<f64> = costs.iter().map(|cost| *cost as f64).collect();
        let ones = vec![1; costs.len() / columns];
        let units = units.unwrap_or(&ones);
        let mut solver = AssignmentSolver::default();
        let owner = solver.solve(&costs, columns, units, false);
        (checked(&costs, owner, units), owner.to_vec())
    }

    /// The cost of owners of whom each has what it needs.
    fn checked(costs: &[f64], owner: &[u32], units: &[u32]) -> f64 {
        for (group, units) in (0u32..).zip(units) {
            let has = owner.iter().filter(|owner| **owner == group).count();
            assert_eq!(has, *units as usize, "columns of group {group}");
        }
        cost(costs, owner)
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
                let (cost, _) = solve(costs, columns, None);
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
            let mut rng = SplitMix64::new(seed);
            let costs: Vec<i64> =
                (0..rows * columns).map(|_| rng.below(width) as i64 - width as i64 / 2).collect();
            let (cost, _) = solve(&costs, columns, None);
            let (known, _) =
                kuhn_munkres_min(&Matrix::from_vec(rows, columns, costs).unwrap());
            prop_assert_eq!(cost, known as f64);
        }

        #[test]
        fn groups_cost_what_their_units_cost_as_rows(
            units in prop::collection::vec(0u32..12, 1..8),
            extra in 0usize..20,
            width in prop_oneof![Just(3u64), Just(1_000_000)],
            seed in any::<u64>(),
        ) {
            let rows = units.iter().sum::<u32>() as usize;
            let columns = rows + extra + 1;
            let mut rng = SplitMix64::new(seed);
            let costs: Vec<i64> =
                (0..units.len() * columns).map(|_| rng.below(width) as i64).collect();
            let (grouped, _) = solve(&costs, columns, Some(&units));
            // Different by a little that no sum of them makes up for, so that rows aren't merged.
            let scale = 1_000_000;
            let mut single = Vec::new();
            for (row, units) in costs.chunks(columns).zip(&units) {
                for _ in 0..*units {
                    let different = single.len() as i64 / columns as i64;
                    single.extend(row.iter().map(|cost| cost * scale + different));
                }
            }
            if rows > 0 {
                let (apart, _) = solve(&single, columns, None);
                prop_assert_eq!((apart / scale as f64).floor(), grouped);
            }
        }

        #[test]
        fn solved_again_with_other_costs_it_is_as_cheap_as_from_the_start(
            units in prop::collection::vec(1u32..12, 1..12),
            extra in 0usize..20,
            width in prop_oneof![Just(3u64), Just(1_000), Just(1_000_000)],
            change in prop_oneof![Just(2u64), Just(100), Just(2_000_000)],
            seed in any::<u64>(),
        ) {
            let columns = units.iter().sum::<u32>() as usize + extra;
            let mut rng = SplitMix64::new(seed);
            let mut costs: Vec<f64> =
                (0..units.len() * columns).map(|_| rng.below(width) as f64).collect();
            let mut solver = AssignmentSolver::default();
            for _ in 0..5 {
                let cold = AssignmentSolver::default().solve(&costs, columns, &units, false).to_vec();
                let owner = solver.solve(&costs, columns, &units, true);
                let warm = checked(&costs, owner, &units);
                prop_assert_eq!(warm, checked(&costs, &cold, &units));
                costs.iter_mut().for_each(|cost| *cost += rng.below(change) as f64);
            }
        }
    }

    #[test]
    fn groups_with_equal_costs_part_what_they_get() {
        let costs = [1, 2, 3, 4, 5, 9, 9, 9, 9, 0, 1, 2, 3, 4, 5];
        let (cost, owner) = solve(&costs, 5, Some(&[1, 1, 2]));
        assert_eq!((cost, &owner[..]), (1.0 + 0.0 + 2.0 + 3.0, &[0, 2, 2, SPARE, 1][..]));
        let (cost, owner) = solve(&[3, 1, 2, 0, 3, 1, 2, 0], 4, Some(&[1, 2]));
        assert_eq!((cost, &owner[..]), (3.0, &[SPARE, 0, 1, 1][..]));
    }

    #[test]
    fn the_first_of_the_lowest_is_found() {
        let mut rng = SplitMix64::new(8);
        for length in (1..30).cycle().take(3_000) {
            let numbers: Vec<f64> = (0..length).map(|_| rng.below(6) as f64 - 3.0).collect();
            let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
            let first = numbers.iter().position(|number| *number == least);
            assert_eq!(lowest(&numbers), least, "{numbers:?}");
            assert_eq!(Some(first_equal(&numbers, least)), first, "{numbers:?}");
        }
        assert_eq!(lowest(&[f64::INFINITY; 5]), f64::INFINITY);
    }

    #[test]
    fn the_comparison_sees_a_worse_answer() {
        // Negative control: what every row would like best is no assignment, and the order of the
        // rows is not the cheapest one.
        let costs = [1, 2, 1, 5];
        assert_eq!(solve(&costs, 2, None), (3.0, vec![1, 0]));
        assert_eq!(cost(&[1.0, 2.0, 1.0, 5.0], &[0, 1]), 6.0);
    }
}
