//! A 64-bit streaming digest for comparing states; not cryptographic.

use crate::{OrderRef, Price, Qty};

/// Folds 64-bit words into one: `h = (rotl(h, 5) xor word) * 0x9E3779B97F4A7C15`.
///
/// Two states are compared by folding the same fields in the same order on both sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Digest(pub u64);

impl Digest {
    /// Folds `word` into the digest.
    pub fn fold(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

/// Digest of one displayed book, equal for the engine and for every reader of the feed.
///
/// Each side runs from its best price to its worst and within a price from first to last in the
/// queue; quantities are the displayed ones. Between the sides a separator is folded.
pub fn displayed_book(
    bids: impl Iterator<Item = (OrderRef, Price, Qty)>,
    asks: impl Iterator<Item = (OrderRef, Price, Qty)>,
) -> u64 {
    let mut digest = Digest::default();
    let fold = |(order_ref, price, qty): (OrderRef, Price, Qty), digest: &mut Digest| {
        digest.fold(order_ref.0);
        digest.fold(price.0 as u64);
        digest.fold(qty.0);
    };
    bids.for_each(|order| fold(order, &mut digest));
    digest.fold(u64::MAX);
    asks.for_each(|order| fold(order, &mut digest));
    digest.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_order_and_quantities_all_count() {
        let a = (OrderRef(1), Price(10), Qty(5));
        let b = (OrderRef(2), Price(10), Qty(5));
        let none = || std::iter::empty();
        let both = displayed_book([a, b].into_iter(), none());
        assert_ne!(both, displayed_book([b, a].into_iter(), none()));
        assert_ne!(both, displayed_book([a].into_iter(), [b].into_iter()));
        assert_ne!(both, displayed_book([a, (b.0, b.1, Qty(6))].into_iter(), none()));
    }
}
