//! Instruments that move from one shard to another at a roll of the day: the parts of what is left of one, and
//! the word to gateways that it is elsewhere from now on.

use crate::{
    AccountId, Command, CommandKind, ExecutionKind, ExecutionReport, InstrumentId, Nanos, Price,
    Qty, ShardId, UserRefNum,
};

/// Some bytes of an instrument on its way to a shard, as a [`CommandKind::MovePart`] of that shard's log
/// carries them. They come in order and without gaps: a part that begins elsewhere changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MovePart {
    /// What moves.
    pub instrument: InstrumentId,
    /// Number of the command for all shards that asked for it; from 1.
    pub number: u32,
    /// Place of the first byte, from 0.
    pub offset: u32,
    bytes: [u8; MovePart::BYTES],
    length: u8,
}

impl MovePart {
    /// Most bytes of one.
    pub const BYTES: usize = 40;

    /// A part of at most [`MovePart::BYTES`]; `None` for none or more.
    pub fn new(
        instrument: InstrumentId,
        number: u32,
        offset: u32,
        taken: &[u8],
    ) -> Option<MovePart> {
        let mut bytes = [0; MovePart::BYTES];
        bytes.get_mut(..taken.len()).filter(|_| !taken.is_empty())?.copy_from_slice(taken);
        Some(MovePart { instrument, number, offset, bytes, length: taken.len() as u8 })
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// The command that carries it.
    pub fn command(&self) -> Command {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|n| self.bytes[at + n]));
        let first = word(0);
        Command {
            param: self.length,
            instrument: self.instrument,
            user_ref: UserRefNum(self.offset),
            min_qty: self.number,
            orig_user_ref: UserRefNum(first as u32),
            display_qty: (first >> 32) as u32,
            qty: Qty(word(8)),
            price: Price(word(16) as i64),
            stop_price: Price(word(24) as i64),
            expire_at: Nanos(word(32)),
            ..Command::new(CommandKind::MovePart)
        }
    }

    /// What a command carries; `None` when it is of another kind, or carries no bytes or too many.
    pub fn of(command: &Command) -> Option<MovePart> {
        let length = usize::from(command.param);
        if command.kind != CommandKind::MovePart || !(1..=MovePart::BYTES).contains(&length) {
            return None;
        }
        let mut bytes = [0; MovePart::BYTES];
        let first = u64::from(command.orig_user_ref.0) | u64::from(command.display_qty) << 32;
        let words = [
            first,
            command.qty.0,
            command.price.0 as u64,
            command.stop_price.0 as u64,
            command.expire_at.0,
        ];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        let (instrument, number) = (command.instrument, command.min_qty);
        let (offset, length) = (command.user_ref.0, command.param);
        Some(MovePart { instrument, number, offset, bytes, length })
    }
}

/// "From here on `instrument` is traded by `shard`", in the stream of an account at its home. No client is
/// told of it and no number of a merged stream is used up; gateways send requests there from then on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlaceRecord {
    /// Whose stream.
    pub account: AccountId,
    /// What has moved.
    pub instrument: InstrumentId,
    /// Where it is traded now.
    pub shard: ShardId,
    /// Number of the command for all shards that says so: of two records about an instrument the one with
    /// the larger number holds.
    pub number: u32,
}

impl PlaceRecord {
    /// What a report says; `None` for any other.
    pub fn told(report: &ExecutionReport) -> Option<PlaceRecord> {
        // With a quantity it is a reference to another shard's records, see `MergeRecord`.
        let places = report.kind == ExecutionKind::StreamReference
            && report.qty == Qty(0)
            && report.instrument != InstrumentId(0);
        let shard = ShardId(u16::try_from(report.user_ref.0).ok()?);
        let (account, instrument, number) = (report.account, report.instrument, report.session_seq);
        places.then_some(PlaceRecord { account, instrument, shard, number })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_carries_what_was_put_into_it() {
        let bytes: Vec<u8> =
            (0..MovePart::BYTES as u8).map(|n| n.wrapping_mul(37) ^ 0x85).collect();
        for length in 1..=MovePart::BYTES {
            let part = MovePart::new(InstrumentId(7), 3, 1 << 31, &bytes[..length]);
            let part = part.expect("a part");
            assert_eq!(part.bytes(), &bytes[..length]);
            assert_eq!(MovePart::of(&part.command()), Some(part));
        }
        assert_eq!(MovePart::new(InstrumentId(7), 3, 0, &[]), None);
        assert_eq!(MovePart::new(InstrumentId(7), 3, 0, &[0; MovePart::BYTES + 1]), None);
        let good = MovePart::new(InstrumentId(7), 3, 0, &[1]).expect("a part").command();
        for bad in [
            Command { kind: CommandKind::Allot, ..good },
            Command { param: 0, ..good },
            Command { param: MovePart::BYTES as u8 + 1, ..good },
        ] {
            assert_eq!(MovePart::of(&bad), None, "{bad:?}");
        }
    }
}
