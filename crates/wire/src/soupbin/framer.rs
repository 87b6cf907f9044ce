//! A byte stream cut into packets.
//!
//! A packet is a two-byte big-endian length and that many bytes, the first of which is the packet
//! type; the length is checked as soon as its two bytes are there. Packets that lie whole in the
//! input are handed on without a copy; only the tail of a cut one is kept, so memory stays below
//! one packet. After an error the stream has lost its frame and must be closed.

/// Why bytes are not a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameError {
    /// Length 0: not even a type.
    Empty,
    /// Longer than the framer's bound.
    TooLong(u16),
}

impl std::fmt::Display for FrameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FrameError::Empty => f.write_str("SoupBinTCP packet of length 0"),
            FrameError::TooLong(len) => write!(f, "SoupBinTCP packet of {len} bytes is too long"),
        }
    }
}

/// Cuts a byte stream into packets; the module documentation has the contract.
#[derive(Clone, Debug)]
pub struct Framer {
    /// Length bytes and body of a packet that is not whole yet, or was handed out last.
    partial: Vec<u8>,
    handed_out: bool,
    max: usize,
}

const LEN: usize = 2;

impl Framer {
    /// A framer for packets of at most `max` bytes, type included and length excluded.
    pub fn new(max: usize) -> Framer {
        Framer { partial: Vec::new(), handed_out: false, max }
    }

    /// Drops the part of a packet that has arrived, for the start of a new stream.
    pub fn clear(&mut self) {
        self.partial.clear();
        self.handed_out = false;
    }

    /// The next whole packet (never empty: its type, then its body), taken off the front of
    /// `input`; `None` when all of `input` was taken and no packet is whole.
    pub fn next<'s, 'i: 's>(
        &'s mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<&'s [u8]>, FrameError> {
        if self.handed_out {
            self.clear();
        }
        if self.partial.is_empty()
            && let Some((&len, rest)) = input.split_first_chunk::<LEN>()
            && let Some((packet, rest)) = rest.split_at_checked(self.check(len)?)
        {
            *input = rest;
            return Ok(Some(packet));
        }
        self.take(LEN, input);
        let Some((&len, _)) = self.partial.split_first_chunk::<LEN>() else { return Ok(None) };
        self.take(LEN + self.check(len)?, input);
        match self.partial.split_first_chunk::<LEN>() {
            Some((_, packet)) if packet.len() == usize::from(u16::from_be_bytes(len)) => {
                self.handed_out = true;
                Ok(Some(packet))
            }
            _ => Ok(None),
        }
    }

    fn check(&self, len: [u8; LEN]) -> Result<usize, FrameError> {
        match u16::from_be_bytes(len) {
            0 => Err(FrameError::Empty),
            len if usize::from(len) > self.max => Err(FrameError::TooLong(len)),
            len => Ok(usize::from(len)),
        }
    }

    /// Moves bytes from `input` until `partial` has `target`, or the input ends.
    fn take(&mut self, target: usize, input: &mut &[u8]) {
        let wanted = target.saturating_sub(self.partial.len());
        let (taken, rest) = input.split_at(wanted.min(input.len()));
        self.partial.extend_from_slice(taken);
        *input = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frames(framer: &mut Framer, mut input: &[u8]) -> Result<Vec<Vec<u8>>, FrameError> {
        let mut frames = Vec::new();
        while let Some(frame) = framer.next(&mut input)? {
            frames.push(frame.to_vec());
        }
        assert!(input.is_empty());
        Ok(frames)
    }

    #[test]
    fn refuses_by_the_length_alone() {
        assert_eq!(frames(&mut Framer::new(4), &[0, 0]), Err(FrameError::Empty));
        assert_eq!(frames(&mut Framer::new(4), &[0, 5]), Err(FrameError::TooLong(5)));
        let mut framer = Framer::new(4);
        assert_eq!(frames(&mut framer, &[0xFF]), Ok(vec![]));
        assert_eq!(frames(&mut framer, &[0xFF]), Err(FrameError::TooLong(0xFFFF)));
        assert_eq!(frames(&mut Framer::new(4), &[0, 4, 1, 2, 3, 4]), Ok(vec![vec![1, 2, 3, 4]]));
    }

    proptest! {
        #[test]
        fn cuts_do_not_matter(
            packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..20),
            cuts in prop::collection::vec(1usize..30, 1..50),
        ) {
            let mut stream = Vec::new();
            for packet in &packets {
                stream.extend_from_slice(&(packet.len() as u16).to_be_bytes());
                stream.extend_from_slice(packet);
            }
            let (mut framer, mut got, mut rest) = (Framer::new(40), Vec::new(), stream.as_slice());
            for cut in cuts.into_iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, tail) = rest.split_at(cut.min(rest.len()));
                got.extend(frames(&mut framer, piece).unwrap());
                rest = tail;
            }
            prop_assert_eq!(got, packets);
        }

        #[test]
        fn arbitrary_bytes_never_panic_nor_pile_up(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..20),
        ) {
            let mut framer = Framer::new(64);
            for piece in pieces {
                if frames(&mut framer, &piece).is_err() {
                    break;
                }
                prop_assert!(framer.partial.len() <= 66);
            }
        }
    }
}
