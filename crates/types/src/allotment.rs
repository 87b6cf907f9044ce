//! Records that move an account's limits between shards: what they say, and how a command carries it.

use crate::{AccountId, Command, CommandKind, LimitKind, Qty, UserRefNum};

/// What a [`CommandKind::Allot`] records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum AllotAction {
    /// In the log of the account's home shard: `shard` may use `total` in all, counted since the
    /// first record.
    Grant = 1,
    /// In the log of another shard: it has heard of grants up to `total`.
    Accept = 2,
    /// In the log of another shard: it has given back `total` in all.
    Return = 3,
    /// In the log of the home shard: it has heard of `shard`'s returns up to `total`.
    TakeBack = 4,
}

impl AllotAction {
    /// All actions, in order.
    pub const ALL: [AllotAction; 4] =
        [AllotAction::Grant, AllotAction::Accept, AllotAction::Return, AllotAction::TakeBack];
}

/// One record about one kind of limit of one account, as a [`CommandKind::Allot`] carries it.
///
/// Totals only rise, so a record that is repeated, or comes after a later one, changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllotRecord {
    /// What is recorded.
    pub action: AllotAction,
    /// Whose limit.
    pub account: AccountId,
    /// Which limit; one of [`LimitKind::SHARED`].
    pub kind: LimitKind,
    /// The other shard: whom a home grants to and takes back from; 0 in the other shard's own log.
    pub shard: u16,
    /// Sum of all grants or returns so far, in the limit's unit; less than [`AllotRecord::TOTAL_MAX`].
    pub total: u128,
}

impl AllotRecord {
    /// Totals are below this: 96 bits of a command.
    pub const TOTAL_MAX: u128 = 1 << 96;

    /// The command that carries it.
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

    /// What a command records; `None` when it is of another kind or names no action or limit that
    /// there is.
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
