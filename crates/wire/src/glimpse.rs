//! What a book snapshot adds to ITCH 5.0: the message that ends it.
//!
//! A snapshot is a SoupBinTCP session of its own, after the model of Nasdaq's GLIMPSE 5.0: ITCH
//! messages that make up the books of one instant, then this message, whose number is that of the
//! first feed message not contained. Type `G` is none of ITCH 5.0's, so neither can be taken for
//! the other.

/// Type byte of the end of a snapshot.
pub const KIND: u8 = b'G';
/// Length of the message: type and 20 characters.
pub const LEN: usize = 21;

/// The end of a snapshot: follow the feed from message `seq`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndOfSnapshot {
    /// MoldUDP64 sequence number of the first feed message that the snapshot does not contain.
    pub seq: u64,
}

/// Why bytes are no end of a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndError {
    /// The message is not 21 bytes long or does not begin with `G`.
    Shape,
    /// The number is not a decimal number of 64 bits.
    Sequence,
}

impl std::fmt::Display for EndError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            EndError::Shape => "not the end of a snapshot",
            EndError::Sequence => "the end of a snapshot without a sequence number",
        })
    }
}

impl std::error::Error for EndError {}

impl EndOfSnapshot {
    /// Reads the message; the number may be padded with spaces on either side.
    pub fn parse(bytes: &[u8]) -> Result<EndOfSnapshot, EndError> {
        let (digits, LEN) = (bytes.strip_prefix(&[KIND]).ok_or(EndError::Shape)?, bytes.len())
        else {
            return Err(EndError::Shape);
        };
        let digits = digits.trim_ascii();
        if digits.is_empty() {
            return Err(EndError::Sequence);
        }
        let seq = digits.iter().try_fold(0u64, |number, &digit| {
            let digit = digit.checked_sub(b'0').filter(|&d| d < 10)?;
            number.checked_mul(10)?.checked_add(u64::from(digit))
        });
        seq.map(|seq| EndOfSnapshot { seq }).ok_or(EndError::Sequence)
    }

    /// The message, its number padded on the left.
    pub fn bytes(&self) -> [u8; LEN] {
        let mut bytes = [b' '; LEN];
        let mut rest = self.seq;
        for place in bytes.iter_mut().skip(1).rev() {
            *place = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        bytes[0] = KIND;
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn golden_bytes_and_refusals() {
        assert_eq!(&EndOfSnapshot { seq: 4_711 }.bytes(), b"G                4711");
        assert_eq!(&EndOfSnapshot { seq: u64::MAX }.bytes(), b"G18446744073709551615");
        let parse = EndOfSnapshot::parse;
        assert_eq!(parse(b"G4711                "), Ok(EndOfSnapshot { seq: 4_711 }));
        assert_eq!(parse(b"G                    "), Err(EndError::Sequence));
        assert_eq!(parse(b"G18446744073709551616"), Err(EndError::Sequence));
        assert_eq!(parse(b"G                 -11"), Err(EndError::Sequence));
        assert_eq!(parse(b"G                 4 11"), Err(EndError::Shape));
        assert_eq!(parse(b"G                4 11"), Err(EndError::Sequence));
        assert_eq!(parse(b"A                4711"), Err(EndError::Shape));
        assert!(crate::itch::parse(&EndOfSnapshot { seq: 1 }.bytes()).is_err());
    }

    proptest! {
        #[test]
        fn numbers_come_back_and_arbitrary_bytes_never_panic(
            seq: u64, bytes in prop::collection::vec(any::<u8>(), 0..25), ours: bool,
        ) {
            let end = EndOfSnapshot { seq };
            prop_assert_eq!(EndOfSnapshot::parse(&end.bytes()), Ok(end));
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut().filter(|_| ours) {
                *first = KIND;
            }
            let _ = EndOfSnapshot::parse(&bytes);
        }
    }
}
