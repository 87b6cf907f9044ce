//! Who moves parts of limits between shards: decides what the leader of a shard logs, and what it
//! tells the other shards.
//!
//! Sans-I/O and without a memory that matters: what has been promised is in the logs
//! ([`Engine::allot_totals`]), so a new leader goes on with a new [`Allotter`]. A note says the totals
//! as the engine has them, after they are durable; it may be lost, doubled and reordered. What is
//! asked for (`wish`) is a hint: an order that found its part used up was refused at once, and asks
//! for more only so that the next one passes. Nothing waits for another shard.
//!
//! - A shard that is short asks the account's home for half a second, every 20 ms.
//! - The home grants what it does not use itself, and asks the other shards back for the rest.
//! - A shard that is asked back returns what it does not use, at most what is asked for.
//! - A limit that was lowered below what is granted and used is asked back until it fits.
//! - Besides, all accounts are gone through in turn, so that whatever was lost is said again.

use types::{AccountId, AllotAction, AllotRecord, Command, LimitKind, Nanos, ShardId};

use crate::Engine;
use crate::risk::{AllotTotals, AllotWant};

/// Between two ticks.
const TICK: u64 = 10_000_000;
/// Between two times that the same is asked for or told.
const REPEAT: u64 = 20_000_000;
/// How long more is asked for after a refusal.
const PATIENCE: u64 = 500_000_000;
/// How long a record that was proposed may take to be applied before it is proposed again.
const PENDING: u64 = 100_000_000;
/// Repetitions of what was not confirmed, before it is left to the round through all accounts.
const TRIES: u8 = 10;
/// Accounts gone through in one tick.
const ACCOUNTS_PER_TICK: u16 = 8;
/// Entries of each table.
const ENTRIES: usize = 512;

/// What one shard tells another about a limit of one account.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllotNote {
    /// Whose limit.
    pub account: AccountId,
    /// Which limit; one of [`LimitKind::SHARED`].
    pub kind: LimitKind,
    /// Whether the account's home says it.
    pub from_home: bool,
    /// Granted in all (the home) or accepted in all.
    pub up: u128,
    /// Taken back in all (the home) or returned in all.
    pub down: u128,
    /// How much is asked back (the home) or asked for; 0: nothing.
    pub wish: u64,
}

impl AllotNote {
    /// Bytes of a note.
    pub const SIZE: usize = 48;

    /// The note as bytes: account, kind, sender, four zeros, wish, up, down; little-endian.
    pub fn encode(&self) -> [u8; AllotNote::SIZE] {
        let mut bytes = [0; AllotNote::SIZE];
        bytes[..2].copy_from_slice(&self.account.0.to_le_bytes());
        (bytes[2], bytes[3]) = (self.kind as u8, u8::from(self.from_home));
        bytes[8..16].copy_from_slice(&self.wish.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.up.to_le_bytes());
        bytes[32..].copy_from_slice(&self.down.to_le_bytes());
        bytes
    }

    /// The note that bytes hold; `None` for anything that [`AllotNote::encode`] does not write.
    pub fn decode(bytes: &[u8]) -> Option<AllotNote> {
        let bytes: &[u8; AllotNote::SIZE] = bytes.try_into().ok()?;
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let long = |at: usize| u128::from(word(at)) | u128::from(word(at + 8)) << 64;
        let (up, down) = (long(16), long(32));
        let sound = bytes[3] <= 1 && bytes[4..8] == [0; 4] && down < AllotRecord::TOTAL_MAX;
        let kind = LimitKind::from_code(bytes[2]).filter(|kind| kind.shared().is_some())?;
        (sound && up < AllotRecord::TOTAL_MAX).then_some(AllotNote {
            account: AccountId(u16::from_le_bytes([bytes[0], bytes[1]])),
            kind,
            from_home: bytes[3] == 1,
            up,
            down,
            wish: word(8),
        })
    }
}

/// What an [`Allotter`] wants done; the caller empties it.
#[derive(Clone, Debug, Default)]
pub struct AllotSteps {
    /// To be logged as commands of the exchange.
    pub commands: Vec<Command>,
    /// To be told to other shards.
    pub notes: Vec<(ShardId, AllotNote)>,
}

#[derive(Clone, Copy, Debug)]
struct Wanting {
    want: AllotWant,
    until: u64,
    next: u64,
}

#[derive(Clone, Copy, Debug)]
struct Unconfirmed {
    account: AccountId,
    kind: LimitKind,
    other: ShardId,
    next: u64,
    tries: u8,
}

/// The mover of parts of one shard's leader; see the module.
#[derive(Clone, Debug)]
pub struct Allotter {
    shards: u16,
    me: ShardId,
    accounts: u16,
    wanting: Vec<Wanting>,
    unconfirmed: Vec<Unconfirmed>,
    /// Records on their way into the log, and until when they are waited for.
    proposed: Vec<(AllotRecord, u64)>,
    next_account: u16,
    next_tick: u64,
}

impl Allotter {
    /// That of a leader which begins now. Refusals of before are forgotten.
    pub fn new(engine: &mut Engine) -> Allotter {
        while engine.next_want().is_some() {}
        let config = engine.config();
        Allotter {
            shards: config.shards,
            me: config.shard,
            accounts: config.accounts_max as u16,
            wanting: Vec::with_capacity(ENTRIES),
            unconfirmed: Vec::with_capacity(ENTRIES),
            proposed: Vec::with_capacity(ENTRIES),
            next_account: 0,
            next_tick: 0,
        }
    }

    /// When [`Allotter::tick`] is due.
    pub fn next_tick(&self) -> Nanos {
        Nanos(self.next_tick)
    }

    /// Asks again, tells again, and goes on through the accounts.
    pub fn tick(&mut self, now: Nanos, engine: &mut Engine, steps: &mut AllotSteps) {
        self.next_tick = now.0 + TICK;
        self.proposed.retain(|(_, until)| *until > now.0);
        while let Some(want) = engine.next_want() {
            let same = |w: &Wanting| (w.want.account, w.want.kind) == (want.account, want.kind);
            let next = self.wanting.iter().find(|w| same(w)).map_or(0, |w| w.next);
            self.wanting.retain(|w| !same(w));
            if self.wanting.len() < ENTRIES {
                self.wanting.push(Wanting { want, until: now.0 + PATIENCE, next });
            }
        }
        self.ask(now, engine, steps);
        let mut unconfirmed = std::mem::take(&mut self.unconfirmed);
        for each in unconfirmed.iter_mut().filter(|each| each.next <= now.0) {
            (each.next, each.tries) = (now.0 + REPEAT, each.tries + 1);
            self.tell(engine, each.account, each.kind, each.other, 0, steps);
        }
        unconfirmed.retain(|each| each.tries < TRIES);
        self.unconfirmed = unconfirmed;
        for _ in 0..ACCOUNTS_PER_TICK.min(self.accounts) {
            self.next_account = self.next_account % self.accounts + 1;
            self.go_through(now, AccountId(self.next_account), engine, steps);
        }
    }

    fn ask(&mut self, now: Nanos, engine: &Engine, steps: &mut AllotSteps) {
        let mut wanting = std::mem::take(&mut self.wanting);
        wanting.retain_mut(|each| {
            let AllotWant { account, kind, part } = each.want;
            let Some(have) = engine.allotment(account, kind, now) else { return false };
            let short = part.saturating_sub(have.part);
            if short == 0 || each.until <= now.0 {
                return false;
            }
            if each.next <= now.0 {
                each.next = now.0 + REPEAT;
                let wish = short.saturating_add(self.slack(have.limit));
                match have.home == self.me {
                    true => self.recall(engine, account, kind, wish, self.me, steps),
                    false => self.tell(engine, account, kind, have.home, wish, steps),
                }
            }
            true
        });
        self.wanting = wanting;
    }

    /// What is asked for beyond what is needed now.
    fn slack(&self, limit: u64) -> u64 {
        limit / (4 * u64::from(self.shards))
    }

    /// Says again what the other shards may have missed.
    fn go_through(
        &mut self,
        now: Nanos,
        account: AccountId,
        engine: &Engine,
        steps: &mut AllotSteps,
    ) {
        for kind in LimitKind::SHARED {
            let Some(have) = engine.allotment(account, kind, now) else { continue };
            if have.home == self.me {
                for shard in (0..self.shards).map(ShardId) {
                    self.tell(engine, account, kind, shard, 0, steps);
                }
            } else {
                self.tell(engine, account, kind, have.home, 0, steps);
            }
        }
    }

    /// Tells another shard the totals between it and this one; nothing when there are none.
    fn tell(
        &self,
        engine: &Engine,
        account: AccountId,
        kind: LimitKind,
        other: ShardId,
        wish: u64,
        steps: &mut AllotSteps,
    ) {
        let Some(have) = engine.allotment(account, kind, Nanos(0)) else { return };
        let from_home = have.home == self.me;
        let shard = if from_home { other } else { self.me };
        let Some(AllotTotals { up, down }) = engine.allot_totals(account, kind, shard) else {
            return;
        };
        let wish = if from_home { wish.max(self.excess(engine, account, kind)) } else { wish };
        if up < AllotRecord::TOTAL_MAX {
            steps.notes.push((other, AllotNote { account, kind, from_home, up, down, wish }));
        }
    }

    /// How much more than the limit is granted to others and used in the home.
    fn excess(&self, engine: &Engine, account: AccountId, kind: LimitKind) -> u64 {
        let Some(have) = engine.allotment(account, kind, Nanos(0)) else { return 0 };
        let shards = (0..self.shards).map(ShardId);
        let granted = shards.filter_map(|shard| engine.allot_totals(account, kind, shard));
        let granted: i128 = granted.map(|totals| totals.net()).sum();
        // Messages of a second that were taken before are gone with it.
        let used = if kind == LimitKind::MessageRate { 0 } else { have.used as i128 };
        let most = i128::from(have.limit) + have.carried;
        u64::try_from((granted + used - most).max(0)).unwrap_or(u64::MAX)
    }

    /// The home asks all shards but one to give something back.
    fn recall(
        &self,
        engine: &Engine,
        account: AccountId,
        kind: LimitKind,
        wish: u64,
        except: ShardId,
        steps: &mut AllotSteps,
    ) {
        for shard in (0..self.shards).map(ShardId).filter(|shard| *shard != except) {
            self.tell(engine, account, kind, shard, wish, steps);
        }
    }

    fn propose(&mut self, now: Nanos, record: AllotRecord, steps: &mut AllotSteps) {
        let known = self.proposed.iter().any(|(old, until)| *old == record && *until > now.0);
        if known || self.proposed.len() == ENTRIES || record.total >= AllotRecord::TOTAL_MAX {
            return;
        }
        self.proposed.push((record, now.0 + PENDING));
        steps.commands.push(record.command());
    }

    /// Takes what another shard says; `from` is who is known to have sent it. A note that `from` can't
    /// have sent about this shard is ignored.
    pub fn heard(
        &mut self,
        now: Nanos,
        from: ShardId,
        note: &AllotNote,
        engine: &Engine,
        steps: &mut AllotSteps,
    ) {
        let AllotNote { account, kind, .. } = *note;
        let Some(have) = engine.allotment(account, kind, now) else { return };
        let (sender, shard) = match note.from_home {
            true => (have.home, self.me),
            false => (from, from),
        };
        let to_home = have.home == self.me;
        let Some(totals) = engine.allot_totals(account, kind, shard) else { return };
        if from != sender || from == self.me || note.from_home == to_home {
            return;
        }
        if (totals.up, totals.down) == (note.up, note.down) {
            let same = |each: &Unconfirmed| (each.account, each.kind, each.other);
            self.unconfirmed.retain(|each| same(each) != (account, kind, from));
        }
        let free =
            u64::try_from(u128::from(have.part).saturating_sub(have.used)).unwrap_or(u64::MAX);
        let record = |action, total| AllotRecord {
            action,
            account,
            kind,
            shard: if to_home { from.0 } else { 0 },
            total,
        };
        if to_home {
            if note.down > totals.down {
                self.propose(now, record(AllotAction::TakeBack, note.down), steps);
            }
            if note.up < totals.up {
                self.tell(engine, account, kind, from, 0, steps);
            } else if note.wish > 0 && !self.grants(now, account, kind, from) {
                let give = note.wish.min(free);
                if give > 0 {
                    let total = totals.up + u128::from(give);
                    self.propose(now, record(AllotAction::Grant, total), steps);
                }
                if give < note.wish {
                    self.recall(engine, account, kind, note.wish - give, from, steps);
                }
            }
            return;
        }
        if note.up > totals.up {
            self.propose(now, record(AllotAction::Accept, note.up), steps);
        }
        if note.down < totals.down {
            self.tell(engine, account, kind, from, 0, steps);
        } else if note.wish > 0 {
            let spare = totals.net() + have.carried - have.used as i128;
            let spare = u128::try_from(spare).unwrap_or(0);
            let back = u128::from(note.wish).min(spare);
            if back > 0 {
                self.propose(now, record(AllotAction::Return, totals.down + back), steps);
            }
        }
    }

    /// Whether a grant to a shard is on its way into the log.
    fn grants(&self, now: Nanos, account: AccountId, kind: LimitKind, shard: ShardId) -> bool {
        self.proposed.iter().any(|(record, until)| {
            record.action == AllotAction::Grant
                && (record.account, record.kind, record.shard) == (account, kind, shard.0)
                && *until > now.0
        })
    }

    /// A record is durable and applied: the other shard is told. To be called for each that was
    /// applied with [`crate::Applied::Done`] while this shard's leader is the one this is of.
    pub fn applied(
        &mut self,
        now: Nanos,
        record: &AllotRecord,
        engine: &Engine,
        steps: &mut AllotSteps,
    ) {
        let AllotRecord { action, account, kind, .. } = *record;
        self.proposed.retain(|(old, _)| old != record);
        let other = match action {
            AllotAction::Grant | AllotAction::TakeBack => ShardId(record.shard),
            AllotAction::Accept | AllotAction::Return => engine.config().home_of(account),
        };
        self.tell(engine, account, kind, other, 0, steps);
        let to_confirm = matches!(action, AllotAction::Grant | AllotAction::Return);
        if to_confirm && self.unconfirmed.len() < ENTRIES {
            let next = now.0 + REPEAT;
            self.unconfirmed.push(Unconfirmed { account, kind, other, next, tries: 0 });
        }
    }
}

#[cfg(test)]
mod tests {
    use types::SplitMix64;

    use super::*;

    fn note() -> AllotNote {
        AllotNote {
            account: AccountId(0x1234),
            kind: LimitKind::Credit,
            from_home: true,
            up: AllotRecord::TOTAL_MAX - 1,
            down: 0x1122_3344_5566_7788_99AA,
            wish: u64::MAX - 1,
        }
    }

    #[test]
    fn a_note_is_read_as_written() {
        let bytes = note().encode();
        assert_eq!(AllotNote::decode(&bytes), Some(note()));
        assert_eq!(
            bytes[..16],
            [0x34, 0x12, 4, 1, 0, 0, 0, 0, 254, 255, 255, 255, 255, 255, 255, 255]
        );
    }

    #[test]
    fn no_bytes_make_a_reader_panic_and_what_is_read_is_what_was_written() {
        let (seed, mut read) = (0xA110, 0);
        let mut dice = SplitMix64::new(seed);
        for round in 0..20_000 {
            let mut bytes = note().encode().to_vec();
            for _ in 0..dice.below(4) {
                let at = dice.below(bytes.len() as u64) as usize;
                bytes[at] = dice.next_u64() as u8;
            }
            if dice.below(4) == 0 {
                bytes.truncate(dice.below(50) as usize);
            }
            if let Some(note) = AllotNote::decode(&bytes) {
                assert_eq!(note.encode()[..], bytes[..], "seed {seed}, round {round}");
                read += 1;
            }
        }
        assert!(read > 1_000, "{read}");
    }
}
