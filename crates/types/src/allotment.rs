//! Records that move parts of an account's risk limits between the shards of a venue, and the
//! [`Command`] fields that carry each record.

use crate::{AccountId, Command, CommandKind, LimitKind, Qty, UserRefNum};

/// The four steps of moving a part of a limit between shards, as a [`CommandKind::Allot`] records
/// them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum AllotAction {
    /// Written in the log of the account's home shard: shard `shard` may use `total` units of the
    /// limit, counted since the first record.
    Grant = 1,
    /// Written in the log of another shard: that shard has heard of grants up to `total`.
    Accept = 2,
    /// Written in the log of another shard: that shard has returned `total` units since the first
    /// record.
    Return = 3,
    /// Written in the log of the home shard: the home has heard of `shard`'s returns up to `total`.
    TakeBack = 4,
}

impl AllotAction {
    /// All four actions, in ascending order of their codes (1..=4).
    pub const ALL: [AllotAction; 4] =
        [AllotAction::Grant, AllotAction::Accept, AllotAction::Return, AllotAction::TakeBack];
}

/// One record about one kind of limit of one account, as a [`CommandKind::Allot`] carries it.
///
/// Totals only rise, so a record that is repeated, or comes after a later one, changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllotRecord {
    /// Which of the four steps the record stands for; in a command: `reserved`.
    pub action: AllotAction,
    /// Account whose limit is moved.
    pub account: AccountId,
    /// Which limit; one of [`LimitKind::SHARED`].
    pub kind: LimitKind,
    /// The other shard: the one that the home shard grants to or takes back from; 0 in the log of a
    /// shard that is not the home.
    pub shard: u16,
    /// Sum of all grants or returns so far, in the limit's unit; less than [`AllotRecord::TOTAL_MAX`].
    pub total: u128,
}

impl AllotRecord {
    /// Totals are below this: 96 bits of a command.
    pub const TOTAL_MAX: u128 = 1 << 96;

    /// The [`CommandKind::Allot`] command that carries the record.
    ///
    /// # Panics
    /// When the total is not below [`AllotRecord::TOTAL_MAX`].
    pub fn command(&self) -> Command {
        assert!(self.total < AllotRecord::TOTAL_MAX, "a total has 96 bits");
        Command {
            param: self.kind as u8,
            reserved: self.action as u8,
            account: self.account,
            user_ref: UserRefNum(u32::from(self.shard)),
            qty: Qty(self.total as u64),
            min_qty: (self.total >> 64) as u32,
            ..Command::new(CommandKind::Allot)
        }
    }

    /// The record that a command carries; `None` when the command is of another kind, or names an
    /// action, a limit or a shard that does not exist.
    pub fn of(command: &Command) -> Option<AllotRecord> {
        let action = AllotAction::ALL.into_iter().find(|a| *a as u8 == command.reserved)?;
        let kind = LimitKind::from_code(command.param).filter(|kind| kind.shared().is_some())?;
        (command.kind == CommandKind::Allot).then_some(AllotRecord {
            action,
            account: command.account,
            kind,
            shard: u16::try_from(command.user_ref.0).ok()?,
            total: u128::from(command.min_qty) << 64 | u128::from(command.qty.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_says_what_was_recorded() {
        for (index, action) in AllotAction::ALL.into_iter().enumerate() {
            for (kind, total) in [
                (LimitKind::Credit, AllotRecord::TOTAL_MAX - 1),
                (LimitKind::OpenOrders, 0),
                (LimitKind::MessageRate, u128::from(u64::MAX)),
            ] {
                let (account, shard) = (AccountId(77), index as u16);
                let record = AllotRecord { action, account, kind, shard, total };
                assert_eq!(AllotRecord::of(&record.command()), Some(record));
            }
        }
    }

    #[test]
    fn what_there_is_not_is_no_record() {
        let record = AllotRecord {
            action: AllotAction::Grant,
            account: AccountId(1),
            kind: LimitKind::Credit,
            shard: 2,
            total: 9,
        };
        let good = record.command();
        for bad in [
            Command { kind: CommandKind::SetLimit, ..good },
            Command { reserved: 0, ..good },
            Command { reserved: 5, ..good },
            Command { param: LimitKind::Position as u8, ..good },
            Command { param: 99, ..good },
            Command { user_ref: UserRefNum(1 << 16), ..good },
        ] {
            assert_eq!(AllotRecord::of(&bad), None, "{bad:?}");
        }
    }
}
