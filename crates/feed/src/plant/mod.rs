//! The ticker plant: lines of market data, each sent twice, become one stream of normalized updates.
//!
//! - [`Line`] makes updates of the packets of both sides: arbitration, decoding, best prices, health.
//! - [`VenueFeed`] does the same for the feed of a venue of ours: books, gaps repaired, snapshots.
//! - [`Update`] is a quote with the best prices after it, a trade, or something about a line; it has
//!   a fixed form as words, for rings in shared memory, and as bytes.
//! - [`Subscriptions`] knows who wants which symbols, and fills their datagrams; [`Follower`] reads those.
//! - [`deal`] gives lines to loops, so that each has about the same to do.
//!
//! Nothing here knows sockets, threads or clocks.

mod line;
mod subscriptions;
mod update;
mod venue;

pub use line::{Format, Line, LineConfig, LineHealth};
pub use subscriptions::{
    CHALLENGE_LEN, Follower, PACKET_UPDATES, Request, SubscriptionCounters, SubscriptionToken,
    Subscriptions, parse_challenge,
};
pub use update::{Kind, UPDATE_BYTES, UPDATE_WORDS, Update, symbol, symbol_text};
pub use venue::{StreamHealth, VenueFeed};

/// Gives lines to loops by their loads: the heaviest first, each to the loop with the least. The loop
/// of every line. Lines of equal load go around, so that lines nobody has heard yet are spread, too.
pub fn deal(loads: &[u64], loops: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..loads.len()).collect();
    order.sort_by_key(|&line| std::cmp::Reverse(loads.get(line).copied().unwrap_or(0)));
    let mut sums = vec![(0_u64, 0_usize); loops.max(1)];
    let mut owners = vec![0; loads.len()];
    for line in order {
        let load = loads.get(line).copied().unwrap_or(0);
        let least = sums.iter_mut().enumerate().min_by_key(|(_, sum)| **sum);
        if let (Some((owner, sum)), Some(place)) = (least, owners.get_mut(line)) {
            *sum = (sum.0.saturating_add(load), sum.1 + 1);
            *place = owner;
        }
    }
    owners
}

/// The load of the busiest loop, in thousandths of an even share.
pub fn imbalance(loads: &[u64], owners: &[usize], loops: usize) -> u64 {
    let mut sums = vec![0_u64; loops.max(1)];
    for (load, owner) in loads.iter().zip(owners) {
        if let Some(sum) = sums.get_mut(*owner) {
            *sum = sum.saturating_add(*load);
        }
    }
    let all = sums.iter().fold(0_u64, |all, sum| all.saturating_add(*sum));
    let most = sums.iter().max().copied().unwrap_or(0);
    let share = (all / sums.len() as u64).max(1);
    most.saturating_mul(1_000) / share
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_dealt_evenly() {
        let idle = deal(&[0; 24], 4);
        for owner in 0..4 {
            assert_eq!(idle.iter().filter(|&&known| known == owner).count(), 6);
        }
        let loads: Vec<u64> = (0..24).map(|line| 1_000 / (line + 1)).collect();
        for loops in 1..=4 {
            let owners = deal(&loads, loops);
            assert!(owners.iter().all(|&owner| owner < loops));
            // The busiest line alone is a quarter of all.
            assert!(imbalance(&loads, &owners, loops) <= 1_070, "{loops} loops");
        }
        let lazy: Vec<usize> = (0..24).map(|line| line / 6).collect();
        assert!(imbalance(&loads, &lazy, 4) > 2_000, "a control");
        assert_eq!((deal(&[], 3), deal(&[5], 0)), (vec![], vec![0]));
    }
}
