//! Depth and fan-out for a number of receivers (Jasper §4).

use crate::tree::topology::DEPTH_MAX;

/// Added latency of one more hop, in ns: 30 +- 10 us (§4).
pub const HOP_NS: u64 = 30_000;
/// Added latency of one more child per layer, in ns: 2.7 +- 0.9 us (§4).
pub const CHILD_NS: u64 = 2_700;

/// Depth and fan-out of a tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Shape {
    /// Hops from the root to a receiver.
    pub depth: usize,
    /// Number of children per proxy.
    pub fanout: usize,
}

impl Shape {
    /// The paper's rule: F = 10, D = log10 of the number of receivers, rounded, at least 1.
    ///
    /// log10 N >= k + 1/2 exactly when N^2 >= 10^(2k + 1): no floating point is needed.
    pub fn by_rule(receivers: usize) -> Shape {
        let square = (receivers as u128).pow(2);
        let rounded = (0..DEPTH_MAX as u32).take_while(|k| square >= 10u128.pow(2 * k + 1));
        Shape { depth: rounded.count().clamp(1, DEPTH_MAX), fanout: 10 }
    }

    /// The shape of least latency by the linear model D (hop + F child): for each depth the least
    /// fan-out that reaches all receivers, of equal ones the shallower.
    pub fn by_model(receivers: usize, hop_ns: u64, child_ns: u64) -> Shape {
        let shapes = (1..=DEPTH_MAX).map(|depth| {
            let fanout = least_fanout(depth, receivers.max(1));
            Shape { depth, fanout }
        });
        let cost = |shape: &Shape| {
            (shape.depth as u64)
                .saturating_mul(child_ns.saturating_mul(shape.fanout as u64).saturating_add(hop_ns))
        };
        shapes.min_by_key(cost).unwrap_or(Shape { depth: 1, fanout: 1 })
    }
}

/// Least F with F^depth >= receivers.
fn least_fanout(depth: usize, receivers: usize) -> usize {
    let reaches =
        |fanout: usize| (fanout as u128).saturating_pow(depth as u32) >= receivers as u128;
    let (mut low, mut high) = (1, receivers);
    while low < high {
        let middle = low.midpoint(high);
        if reaches(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_and_model_give_the_papers_best_depths() {
        for (receivers, depth) in [(1, 1), (10, 1), (31, 1), (32, 2), (100, 2), (316, 2)] {
            assert_eq!(Shape::by_rule(receivers), Shape { depth, fanout: 10 }, "{receivers}");
        }
        assert_eq!(Shape::by_rule(317).depth, 3);
        assert_eq!((Shape::by_rule(1_000).depth, Shape::by_rule(5_000).depth), (3, 4));
        let model = |receivers| Shape::by_model(receivers, HOP_NS, CHILD_NS);
        assert_eq!(model(10), Shape { depth: 1, fanout: 10 });
        assert_eq!(model(100), Shape { depth: 2, fanout: 10 });
        assert_eq!(model(1_000), Shape { depth: 3, fanout: 10 });
        assert_eq!(model(0), Shape { depth: 1, fanout: 1 });
        assert_eq!(least_fanout(2, 1_000), 32);
        assert_eq!(least_fanout(4, 1_000), 6);
    }
}
