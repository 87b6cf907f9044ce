//! The optional fields at the end of most OUCH 5.0 messages (§1.2, appendix B).
//!
//! An appendage is a two-byte length and that many bytes of elements; an element is a length byte
//! that counts tag and value, the tag, and the value. Tags from 224 are ours. A parsed
//! [`Appendage`] is well-formed to its last byte: every element has a tag, no tag comes twice,
//! known tags have values of their size.

/// Tags whose values this exchange looks at: the specification's, and from 224 our own.
pub mod tag {
    /// MinQty, 4 bytes: lots that must trade on entry.
    pub const MIN_QTY: u8 = 3;
    /// MaxFloor, 4 bytes: displayed part of a reserve order.
    pub const MAX_FLOOR: u8 = 5;
    /// PriceType, 1 byte; `L` limit.
    pub const PRICE_TYPE: u8 = 6;
    /// PegOffset, 4 bytes: distance of a peg from its price, in 1/10000, away from the market.
    pub const PEG_OFFSET: u8 = 7;
    /// DiscretionPrice, 8 bytes: price that a discretion order may trade at, in 1/10000.
    pub const DISCRETION_PRICE: u8 = 9;
    /// DiscretionPriceType, 1 byte; `L` limit.
    pub const DISCRETION_PRICE_TYPE: u8 = 10;
    /// DiscretionPegOffset, 4 bytes: distance of a pegged discretion price, in 1/10000.
    pub const DISCRETION_PEG_OFFSET: u8 = 11;
    /// PostOnly, 1 byte: `P` or `N`.
    pub const POST_ONLY: u8 = 12;
    /// RandomReserves, 4 bytes: lots by which the displayed part of a reserve order varies.
    pub const RANDOM_RESERVES: u8 = 13;
    /// ExpireTime, 4 bytes: seconds to live.
    pub const EXPIRE_TIME: u8 = 15;
    /// DisplayPrice, 8 bytes: in Order Restated.
    pub const DISPLAY_PRICE: u8 = 23;
    /// HandleInst, 1 byte: variants of orders for a cross.
    pub const HANDLE_INST: u8 = 17;
    /// Side, 1 byte: a replace that changes the side; ours: the side of a mass cancel.
    pub const SIDE: u8 = 27;
    /// UserRefIdx, 1 byte: a number space of its own for UserRefNum; 0 is the only one here.
    pub const USER_REF_IDX: u8 = 28;

    /// Ours. Kind of a stop order, 1 byte: `S` stop, `L` stop limit, `T` trailing stop.
    pub const STOP_TYPE: u8 = 224;
    /// Ours. Stop price, or the distance of a trailing stop, 8 bytes.
    pub const STOP_PRICE: u8 = 225;
    /// Ours. Self-trade prevention, 1 byte: `A` the account's own rule, cancel `N` newest, `O`
    /// oldest, `B` both, `D` decrement.
    pub const SELF_TRADE: u8 = 226;
    /// Ours. Market to limit, 1 byte: `Y` or `N`.
    pub const MARKET_TO_LIMIT: u8 = 227;
    /// Ours. Expiry, 8 bytes: nanoseconds since 1970-01-01 UTC.
    pub const EXPIRE_AT: u8 = 228;
    /// Ours. Cross type of a replace, 1 byte: `N`, `O`, `C`.
    pub const CROSS_TYPE: u8 = 229;
    /// Ours. Orders a mass cancel cancelled, 4 bytes.
    pub const ORDERS: u8 = 230;
    /// Ours. Right lots of a corrected trade, 4 bytes.
    pub const RIGHT_QUANTITY: u8 = 231;
    /// Ours. Right price of a corrected trade, 8 bytes.
    pub const RIGHT_PRICE: u8 = 232;
}

/// One optional field of a message: a tag and its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Element<'a> {
    /// Tag of the field, as in the table of appendages.
    pub tag: u8,
    /// Value of the field, 0 to 254 bytes; a known tag has the length that its format says.
    pub value: &'a [u8],
}

/// A well-formed appendage, possibly empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Appendage<'a> {
    elements: &'a [u8],
    present: bool,
}

/// What follows the fixed fields of a message type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tail {
    /// No byte may follow the fixed fields.
    Nothing,
    /// Nothing, or an appendage of optional fields.
    Optional,
    /// An appendage, of length 0 at least.
    Required,
}

/// Error in the bytes behind the fixed fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TailError {
    Length,
    Elements,
}

impl<'a> Appendage<'a> {
    #[inline]
    pub(super) fn parse(bytes: &'a [u8], tail: Tail) -> Result<Appendage<'a>, TailError> {
        if bytes.is_empty() && tail != Tail::Required {
            return Ok(Appendage::default());
        }
        let (&len, elements) = bytes.split_first_chunk().ok_or(TailError::Length)?;
        if tail == Tail::Nothing || elements.len() != usize::from(u16::from_be_bytes(len)) {
            return Err(TailError::Length);
        }
        let appendage = Appendage { elements, present: true };
        if !elements.is_empty() {
            check_elements(elements)?;
        }
        Ok(appendage)
    }

    /// Whether it has no element.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// The optional fields in order.
    pub fn iter(&self) -> impl Iterator<Item = Element<'a>> + use<'a> {
        let mut rest = self.elements;
        std::iter::from_fn(move || {
            let (element, behind) = split_element(rest)?;
            rest = behind;
            Some(element)
        })
    }

    /// Value of the field `tag`.
    pub fn get(&self, tag: u8) -> Option<&'a [u8]> {
        self.iter().find(|element| element.tag == tag).map(|element| element.value)
    }

    /// Whether the message says post only: refuse (`P`) or, ours, slide (`S`).
    pub fn post_only(&self) -> bool {
        matches!(self.get(tag::POST_ONLY), Some(b"P" | b"S"))
    }

    /// The value of `tag` as an unsigned number, when it has four or eight bytes.
    pub fn number(&self, tag: u8) -> Option<u64> {
        let value = self.get(tag)?;
        let long = value.try_into().map(u64::from_be_bytes);
        long.ok().or_else(|| Some(u32::from_be_bytes(value.try_into().ok()?).into()))
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        if self.present {
            // Parsed from a two-byte length, so it fits one.
            out.extend_from_slice(&(self.elements.len() as u16).to_be_bytes());
            out.extend_from_slice(self.elements);
        }
    }
}

/// Writes an appendage element by element, straight into the message.
pub(super) struct Writer<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> Writer<'a> {
    /// Begins an appendage of length 0.
    pub fn new(out: &'a mut Vec<u8>) -> Writer<'a> {
        let start = out.len();
        out.extend_from_slice(&[0, 0]);
        Writer { out, start }
    }

    /// Goes on with an appendage of length 0 at the end of `out`.
    pub fn reopen(out: &'a mut Vec<u8>) -> Writer<'a> {
        let start = out.len().saturating_sub(2);
        Writer { out, start }
    }

    /// Adds an element. A handful of values of at most eight bytes fit every length.
    pub fn put(&mut self, tag: u8, value: &[u8]) -> &mut Writer<'a> {
        self.out.extend_from_slice(&[1 + value.len() as u8, tag]);
        self.out.extend_from_slice(value);
        let len = (self.out.len() - self.start - 2) as u16;
        if let Some(place) = self.out.get_mut(self.start..self.start + 2) {
            place.copy_from_slice(&len.to_be_bytes());
        }
        self
    }
}

/// Whether every element has a tag that comes once and a value of its tag's size.
fn check_elements(mut rest: &[u8]) -> Result<(), TailError> {
    let mut seen = [0u64; 4];
    while !rest.is_empty() {
        let (element, behind) = split_element(rest).ok_or(TailError::Elements)?;
        let bit = 1u64 << (element.tag % 64);
        let word = seen.get_mut(usize::from(element.tag / 64)).ok_or(TailError::Elements)?;
        let size = value_len(element.tag);
        if *word & bit != 0 || size.is_some_and(|size| size != element.value.len()) {
            return Err(TailError::Elements);
        }
        *word |= bit;
        rest = behind;
    }
    Ok(())
}

fn split_element(bytes: &[u8]) -> Option<(Element<'_>, &[u8])> {
    let (&len, rest) = bytes.split_first()?;
    let (body, rest) = rest.split_at_checked(usize::from(len))?;
    let (&tag, value) = body.split_first()?;
    Some((Element { tag, value }, rest))
}

/// Bytes of the value of a tag that the specification or this exchange defines.
fn value_len(tag: u8) -> Option<usize> {
    match tag {
        1 | 9 | 23 | tag::STOP_PRICE | tag::EXPIRE_AT | tag::RIGHT_PRICE => Some(8),
        2 | 3 | 5 | 7 | 11 | 13 | 14 | 15 | 22 | 26 | tag::ORDERS | tag::RIGHT_QUANTITY => Some(4),
        24 | 30 => Some(2),
        4 | 6 | 10 | 12 | 16 | 17 | 18 | 25 | 27 | 28 | 29 => Some(1),
        tag::STOP_TYPE | tag::SELF_TRADE | tag::MARKET_TO_LIMIT | tag::CROSS_TYPE => Some(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(bytes: &[u8]) -> Result<Vec<Element<'_>>, TailError> {
        Appendage::parse(bytes, Tail::Required).map(|appendage| appendage.iter().collect())
    }

    #[test]
    fn reads_known_and_unknown_tags() {
        let bytes = [0, 13, 5, 2, b'L', b'I', b'M', b'E', 2, 12, b'P', 3, 200, 1, 2];
        let appendage = Appendage::parse(&bytes, Tail::Optional).unwrap();
        assert!(appendage.post_only());
        assert_eq!(appendage.get(2), Some(b"LIME".as_slice()));
        assert_eq!(appendage.get(200), Some([1, 2].as_slice()));
        assert_eq!(appendage.get(3), None);
        let mut out = Vec::new();
        appendage.encode(&mut out);
        assert_eq!(out, bytes);
    }

    #[test]
    fn refuses_what_is_malformed() {
        assert_eq!(parse(&[]), Err(TailError::Length));
        assert_eq!(parse(&[0]), Err(TailError::Length));
        assert_eq!(parse(&[0, 1]), Err(TailError::Length));
        assert_eq!(parse(&[0, 0, 0]), Err(TailError::Length));
        assert_eq!(parse(&[0, 1, 0]), Err(TailError::Elements), "no tag");
        assert_eq!(parse(&[0, 2, 2, 12]), Err(TailError::Elements), "value cut");
        assert_eq!(parse(&[0, 2, 1, 12]), Err(TailError::Elements), "value of wrong size");
        assert_eq!(parse(&[0, 4, 1, 99, 1, 99]), Err(TailError::Elements), "tag twice");
        assert_eq!(parse(&[0, 4, 1, 99, 1, 163]).map(|elements| elements.len()), Ok(2));
        assert_eq!(Appendage::parse(&[0, 0], Tail::Nothing), Err(TailError::Length));
        assert_eq!(Appendage::parse(&[], Tail::Nothing), Ok(Appendage::default()));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = parse(&bytes);
            let mut framed = (bytes.len() as u16).to_be_bytes().to_vec();
            framed.extend_from_slice(&bytes);
            if let Ok(elements) = parse(&framed) {
                let len: usize = elements.iter().map(|element| 2 + element.value.len()).sum();
                prop_assert_eq!(len, bytes.len());
            }
        }
    }
}
