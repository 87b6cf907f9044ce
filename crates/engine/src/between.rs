//! What a shard keeps of its dealings with the others besides limits: how much of each account's
//! stream elsewhere is merged into the one here, the last commands for all shards, and instruments that
//! move.
//!
//! Part of the state in a venue of several shards only: each shard's log says it all, so that whoever
//! leads next tells the others the same.

use std::collections::VecDeque;

use types::{AccountId, Command, Digest, ExecutionKind, MergeRecord, RejectReason, ShardId};
use zerocopy::{IntoBytes, TryFromBytes};

use crate::apply::{Applied, Engine};
use crate::codec::{Reader, SnapshotError, Writer};
use crate::config::Config;
use crate::moves::Moves;
use crate::output::{Output, refusal};

/// Commands for all shards that are kept for those that have not got them.
pub const DIRECTIVES_KEPT: usize = 64;

/// What an engine of a venue of several shards keeps of the others: streams merged and commands for all.
#[derive(Clone, Debug)]
pub(crate) struct Between {
    shards: usize,
    /// By account less one and shard: position up to which its stream there is merged; 0 of an account
    /// whose home is elsewhere.
    merged: Vec<u64>,
    /// The last commands for all shards, each with its number.
    directives: VecDeque<Command>,
    pub(crate) moves: Moves,
}

/// Of the count of commands in a snapshot: instruments that move follow. Where none has moved, snapshots are
/// as they were before there was that.
const WITH_MOVES: u64 = 1 << 63;

impl Between {
    /// `None` in a venue of one shard.
    pub(crate) fn new(config: &Config) -> Option<Between> {
        let shards = usize::from(config.shards);
        (shards > 1).then(|| Between {
            shards,
            merged: vec![0; shards * config.accounts_max],
            directives: VecDeque::with_capacity(DIRECTIVES_KEPT),
            moves: Moves::new(config.instruments.len()),
        })
    }

    fn place(&self, account: AccountId, shard: ShardId) -> Option<usize> {
        let account = usize::from(account.0).checked_sub(1)?;
        let shard = Some(usize::from(shard.0)).filter(|shard| *shard < self.shards)?;
        Some(account * self.shards + shard)
    }

    pub(crate) fn keep(&mut self, command: &Command) {
        if self.directives.len() == DIRECTIVES_KEPT {
            self.directives.pop_front();
        }
        self.directives.push_back(*command);
    }

    pub(crate) fn fold(&self, digest: &mut Digest) {
        self.merged.iter().for_each(|merged| digest.fold(*merged));
        for command in &self.directives {
            let words = command.as_bytes().chunks_exact(8);
            words
                .for_each(|word| digest.fold(u64::from_le_bytes(std::array::from_fn(|n| word[n]))));
        }
        self.moves.fold(digest);
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        self.merged.iter().for_each(|merged| out.u64(*merged));
        let with_moves = if self.moves.is_empty() { 0 } else { WITH_MOVES };
        out.u64(self.directives.len() as u64 | with_moves);
        self.directives.iter().for_each(|command| out.raw(command.as_bytes()));
        if with_moves > 0 {
            self.moves.write(out);
        }
    }

    pub(crate) fn read(&mut self, from: &mut Reader) -> Result<(), SnapshotError> {
        for merged in &mut self.merged {
            *merged = from.u64()?;
            if *merged >= MergeRecord::POSITION_MAX {
                return Err(from.damaged());
            }
        }
        let count = from.u64()?;
        if count & !WITH_MOVES > DIRECTIVES_KEPT as u64 {
            return Err(from.damaged());
        }
        for _ in 0..count & !WITH_MOVES {
            let bytes = from.raw(size_of::<Command>())?;
            let command = Command::try_read_from_bytes(bytes).map_err(|_| from.damaged())?;
            self.directives.push_back(command);
        }
        if count & WITH_MOVES > 0 {
            self.moves.read(from, self.merged.len() / self.shards)?;
        }
        Ok(())
    }
}

impl Engine {
    /// Position up to which an account's stream in another shard is merged into the one here, where the
    /// account is at home; 0 where nothing is, and for others.
    pub fn merged(&self, account: AccountId, shard: ShardId) -> u64 {
        let Some(between) = &self.between else { return 0 };
        between.place(account, shard).and_then(|at| between.merged.get(at)).copied().unwrap_or(0)
    }

    /// The command for all shards with a number, if it is among the last [`DIRECTIVES_KEPT`] that this
    /// shard has carried out.
    pub fn directive_at(&self, number: u32) -> Option<Command> {
        let between = self.between.as_ref()?;
        between.directives.iter().find(|command| command.session_seq == number).copied()
    }

    pub(crate) fn merge_stream(&mut self, command: &Command, out: &mut Output) -> Applied {
        let record = MergeRecord::of(command).filter(|r| self.accounts.exists(r.account));
        let Some(MergeRecord { account, shard, up_to }) = record else { return Applied::Refused };
        let (me, now) = (self.config.shard, self.now);
        if self.config.home_of(account) != me || shard == me {
            return Applied::Refused;
        }
        let Some(between) = &mut self.between else { return Applied::Refused };
        let Some(merged) = between.place(account, shard).and_then(|at| between.merged.get_mut(at))
        else {
            return Applied::Refused;
        };
        if up_to <= *merged {
            return Applied::DuplicateRequest;
        }
        *merged = up_to;
        let kind = ExecutionKind::StreamReference;
        out.executions.push(refusal(kind, command, RejectReason::None, now));
        Applied::Done
    }
}
