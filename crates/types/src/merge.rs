//! Records that merge another shard's part of an account's private stream into the stream of the
//! account's home shard, and the fields of the command and of the report that carry a record.

use crate::{
    AccountId, Command, CommandKind, ExecutionKind, ExecutionReport, Qty, ShardId, UserRefNum,
};

/// "What `shard` has streamed to `account` up to its position `up_to` comes here", in the log of the
/// account's home shard and, as a report, in its private stream of the account.
///
/// Positions only rise, so a record that is repeated, or comes after a later one, changes nothing and
/// has no place in the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MergeRecord {
    /// Account whose private stream is merged.
    pub account: AccountId,
    /// The shard that has the contents; not the account's home.
    pub shard: ShardId,
    /// Position of the last record there, from 1; less than [`MergeRecord::POSITION_MAX`].
    pub up_to: u64,
}

impl MergeRecord {
    /// Positions of a stream are below this number: 62 bits.
    pub const POSITION_MAX: u64 = 1 << 62;

    /// The [`CommandKind::MergeStream`] command that carries the record.
    pub fn command(&self) -> Command {
        Command {
            account: self.account,
            user_ref: UserRefNum(u32::from(self.shard.0)),
            qty: Qty(self.up_to),
            ..Command::new(CommandKind::MergeStream)
        }
    }

    /// The record that a command carries; `None` when the command is of another kind, or its shard
    /// or position is out of range.
    pub fn of(command: &Command) -> Option<MergeRecord> {
        let merges = command.kind == CommandKind::MergeStream;
        MergeRecord::read(command.account, command.user_ref, command.qty).filter(|_| merges)
    }

    /// The record that a report of the home's stream carries; `None` for a report with contents of
    /// its own, and where shard or position is out of range.
    pub fn told(report: &ExecutionReport) -> Option<MergeRecord> {
        let refers = report.kind == ExecutionKind::StreamReference;
        MergeRecord::read(report.account, report.user_ref, report.qty).filter(|_| refers)
    }

    fn read(account: AccountId, shard: UserRefNum, up_to: Qty) -> Option<MergeRecord> {
        let shard = ShardId(u16::try_from(shard.0).ok()?);
        let record = MergeRecord { account, shard, up_to: up_to.0 };
        (1..MergeRecord::POSITION_MAX).contains(&up_to.0).then_some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_says_what_was_recorded() {
        let record = MergeRecord { account: AccountId(77), shard: ShardId(3), up_to: 1 << 40 };
        assert_eq!(MergeRecord::of(&record.command()), Some(record));
        let good = record.command();
        for bad in [
            Command { kind: CommandKind::Allot, ..good },
            Command { user_ref: UserRefNum(1 << 16), ..good },
            Command { qty: Qty(0), ..good },
            Command { qty: Qty(MergeRecord::POSITION_MAX), ..good },
        ] {
            assert_eq!(MergeRecord::of(&bad), None, "{bad:?}");
        }
    }
}
