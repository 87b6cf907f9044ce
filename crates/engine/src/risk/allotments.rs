//! Limits that span shards: which part of each this shard may use, moved by records in the logs.
//!
//! Every account has a *home* shard ([`crate::Config::home_of`]), which owns its limits of the kinds
//! [`LimitKind::SHARED`]. At the start every shard has an equal part of the configured limit. From
//! then on parts move by [`AllotRecord`]s: the home records what it has granted to another shard in
//! total, that shard what it has accepted and what it has returned in total, the home what it has
//! taken back in total. All four only rise, so messages between shards may be lost, doubled and
//! reordered: whoever hears a total twice does nothing.
//!
//! What a shard may use is `accepted - returned`, what the home may use is the limit less all that is
//! `granted - taken back`. A grant never lowers the home's part below what it uses, a return never
//! that of the other shard. So the parts of all shards and what is on its way are the limit together,
//! whatever is lost or restarted, as long as no log loses what it has told others of. A limit that is
//! lowered below what is granted lowers the home's part at once, down to zero, and each other shard's
//! to the new limit at most; the rest comes back by returns.
//!
//! An instrument that moves from one shard to another takes along as much of these limits as its accounts use
//! in it, at most the part: what *came* less what *went* with instruments is added to each part and told to
//! nobody, since it comes to nothing over all shards. So a shard may return more than it accepted, and what
//! the home has outstanding may be less than nothing.
//!
//! An engine's checks see only `Account::limits`, where the part stands in the place of the limit.

use types::limits::SHARDS_MAX;
use types::{AccountId, AllotAction, AllotRecord, Digest, LimitKind, RejectReason};

use super::{Account, Proposal, Risk, SECOND};
use crate::codec::{Reader, SnapshotError, Writer};
use crate::config::Config;

/// Shared kinds.
const KINDS: usize = LimitKind::SHARED.len();
/// Refusals for lack of a part that are remembered until somebody asks for more.
const WANTS_MAX: usize = 64;

const _: () = assert!(SHARDS_MAX * KINDS < u16::MAX as usize, "places of an account");
/// Of the number of the last command for all shards in a snapshot: what instruments took along follows. Where
/// none has moved, snapshots are as they were before there was that.
const WITH_CARRIED: u32 = 1 << 31;

// A part is at most a limit of 64 bits, and this many of them fit a total.
const _: () = assert!(AllotRecord::TOTAL_MAX >> 64 >= 1 << 32, "grants of an account's life");

/// What two shards have told each other about a limit of one account; see [`AllotRecord`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AllotTotals {
    /// Granted (in the home) or accepted (in the other shard), in all.
    pub up: u128,
    /// Taken back (in the home) or returned (in the other shard), in all.
    pub down: u128,
}

impl AllotTotals {
    /// What the other shard has of it; less than nothing where it returned what came with an instrument.
    pub fn net(&self) -> i128 {
        self.up as i128 - self.down as i128
    }
}

/// An order was refused for lack of a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllotWant {
    /// Account whose order was refused.
    pub account: AccountId,
    /// Which limit.
    pub kind: LimitKind,
    /// The part with which the order would have passed.
    pub part: u64,
}

/// Mistakes that the checks of a simulation have to find. No part of any product.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AllotFault {
    /// A total that is heard again counts again.
    AcceptAdds,
    /// More is returned than is free.
    ReturnsWhatIsUsed,
    /// A grant lowers nothing in the home.
    GrantsTwice,
}

/// The parts of all accounts in one shard of several.
#[derive(Clone, Debug)]
pub(crate) struct Allotments {
    shards: usize,
    me: usize,
    /// Whole limits by account less one, in the order of [`LimitKind::SHARED`].
    limits: Vec<[u64; KINDS]>,
    /// By account less one: where its totals begin.
    first: Vec<u32>,
    /// Of an account that is at home here by shard and kind, of another by kind.
    totals: Vec<AllotTotals>,
    /// By account less one: what came with instruments less what went, see the module.
    carried: Vec<[i128; KINDS]>,
    /// Number of the last directive: a command for all shards.
    directive: u32,
    /// No part of the state.
    wants: Vec<AllotWant>,
    fault: Option<AllotFault>,
}

/// What becomes of a numbered command for all shards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Directive {
    Next,
    Seen,
    /// One before it is missing.
    Early,
}

impl Allotments {
    /// `None` in a venue of one shard.
    pub(crate) fn new(config: &Config) -> Option<Allotments> {
        let shards = usize::from(config.shards);
        if shards < 2 {
            return None;
        }
        let limits = LimitKind::SHARED.map(|kind| config.limits.get(kind));
        let mut allotments = Allotments {
            shards,
            me: usize::from(config.shard.0),
            limits: vec![limits; config.accounts_max],
            first: Vec::with_capacity(config.accounts_max),
            totals: Vec::new(),
            carried: vec![[0; KINDS]; config.accounts_max],
            directive: 0,
            wants: Vec::with_capacity(WANTS_MAX),
            fault: None,
        };
        for index in 0..config.accounts_max {
            allotments.first.push(allotments.totals.len() as u32);
            let home = index % shards;
            let others = if home == allotments.me { 0..shards } else { 0..1 };
            for shard in others {
                let own = home == allotments.me && shard == home;
                let share = |limit: u64| u128::from(limit / shards as u64);
                let up = |limit| if own { 0 } else { share(limit) };
                let shares = limits.map(|limit| AllotTotals { up: up(limit), down: 0 });
                allotments.totals.extend(shares);
            }
        }
        Some(allotments)
    }

    fn home(&self, account: AccountId) -> usize {
        (usize::from(account.0) - 1) % self.shards
    }

    fn is_home(&self, account: AccountId) -> bool {
        self.home(account) == self.me
    }

    fn limit(&self, account: AccountId, kind: usize) -> u64 {
        self.limits[usize::from(account.0) - 1][kind]
    }

    /// Where the totals between the account's home and `shard` are, one of which this is.
    fn place(&self, account: AccountId, kind: usize, shard: usize) -> usize {
        let shard = if self.is_home(account) { shard } else { 0 };
        self.first[usize::from(account.0) - 1] as usize + shard * KINDS + kind
    }

    fn outstanding(&self, account: AccountId, kind: usize) -> i128 {
        (0..self.shards).map(|shard| self.totals[self.place(account, kind, shard)].net()).sum()
    }

    /// What this shard may use.
    fn part(&self, account: AccountId, kind: usize) -> u64 {
        let limit = i128::from(self.limit(account, kind));
        let own = self.own(account, kind).clamp(0, limit);
        u64::try_from(own).expect("no more than the limit")
    }

    /// The same before it is held against nothing and the limit.
    fn own(&self, account: AccountId, kind: usize) -> i128 {
        let of_totals = match self.is_home(account) {
            true => i128::from(self.limit(account, kind)) - self.outstanding(account, kind),
            false => self.totals[self.place(account, kind, 0)].net(),
        };
        of_totals + self.carried(account, kind)
    }

    fn carried(&self, account: AccountId, kind: usize) -> i128 {
        self.carried[usize::from(account.0) - 1][kind]
    }

    fn carries(&self) -> bool {
        self.carried.iter().flatten().any(|carried| *carried != 0)
    }

    fn want(&mut self, want: AllotWant) {
        let same = |old: &AllotWant| (old.account, old.kind) == (want.account, want.kind);
        self.wants.retain(|old| !same(old));
        if self.wants.len() == WANTS_MAX {
            self.wants.remove(0);
        }
        self.wants.push(want);
    }

    pub(crate) fn fold(&self, digest: &mut Digest) {
        digest.fold(u64::from(self.directive));
        self.limits.iter().flatten().for_each(|limit| digest.fold(*limit));
        for totals in &self.totals {
            for total in [totals.up, totals.down] {
                digest.fold(total as u64);
                digest.fold((total >> 64) as u64);
            }
        }
        if self.carries() {
            for carried in self.carried.iter().flatten() {
                digest.fold(*carried as u64);
                digest.fold((*carried >> 64) as u64);
            }
        }
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        assert!(self.directive < WITH_CARRIED, "an operator has not given so many commands");
        out.u32(self.directive | if self.carries() { WITH_CARRIED } else { 0 });
        self.limits.iter().flatten().for_each(|limit| out.u64(*limit));
        for totals in &self.totals {
            for total in [totals.up, totals.down] {
                out.u64(total as u64);
                out.u32((total >> 64) as u32);
            }
        }
        if self.carries() {
            for carried in self.carried.iter().flatten() {
                out.u64(*carried as u64);
                out.u64((*carried >> 64) as u64);
            }
        }
    }

    pub(crate) fn read(&mut self, from: &mut Reader) -> Result<(), SnapshotError> {
        let directive = from.u32()?;
        self.directive = directive & !WITH_CARRIED;
        for limit in self.limits.iter_mut().flatten() {
            *limit = from.u64()?;
        }
        for totals in &mut self.totals {
            for total in [&mut totals.up, &mut totals.down] {
                *total = u128::from(from.u64()?) | u128::from(from.u32()?) << 64;
            }
        }
        if directive & WITH_CARRIED > 0 {
            for carried in self.carried.iter_mut().flatten() {
                let (low, high) = (from.u64()?, from.u64()?);
                *carried = i128::from(low) | i128::from(high as i64) << 64;
                if carried.unsigned_abs() >= AllotRecord::TOTAL_MAX {
                    return Err(from.damaged());
                }
            }
        }
        Ok(())
    }
}

/// Messages of a bucket that are used up: a part of one counts as one.
fn used_messages(account: &Account, at: u64) -> u64 {
    let left = account.bucket_full_at.saturating_sub(at);
    match SECOND.checked_div(account.limits.get(LimitKind::MessageRate)) {
        Some(0) => 0,
        Some(per_message) => left.div_ceil(per_message),
        None => u64::from(left > 0),
    }
}

impl Risk {
    /// How much of a shared limit the account uses in this shard at a time.
    pub(crate) fn used(&self, account: AccountId, kind: LimitKind, at: u64) -> u128 {
        let account = self.account(account);
        match kind {
            LimitKind::OpenOrders => u128::from(account.open_orders),
            LimitKind::Credit => u128::try_from(account.exposure).expect("never below zero"),
            _ => u128::from(used_messages(account, at)),
        }
    }

    /// Carries out a record; false, and nothing done, for one that says nothing new or can't be.
    pub(crate) fn allot(&mut self, record: &AllotRecord, now: u64) -> bool {
        let AllotRecord { action, account, kind, shard, total } = *record;
        let index = kind.shared().expect("a record is about a shared kind");
        let used = self.used(account, kind, now);
        let Some(shared) = &mut self.shared else { return false };
        let at_home = shared.is_home(account);
        let of_home = matches!(action, AllotAction::Grant | AllotAction::TakeBack);
        let other = usize::from(shard);
        let sound = match at_home {
            true => other < shared.shards && other != shared.me,
            false => other == 0,
        };
        if at_home != of_home || !sound {
            return false;
        }
        let (fault, part) = (shared.fault, u128::from(shared.part(account, index)));
        let own = u128::try_from(shared.own(account, index)).unwrap_or(0);
        let place = shared.place(account, index, other);
        let AllotTotals { up, down } = shared.totals[place];
        let takes = |less: u128, have: u128| less <= have.saturating_sub(used);
        let next = match action {
            AllotAction::Grant if total > up && fault == Some(AllotFault::GrantsTwice) => {
                AllotTotals { up: total, down: down + (total - up) }
            }
            AllotAction::Grant if total > up && takes(total - up, part) => {
                AllotTotals { up: total, down }
            }
            AllotAction::Accept if fault == Some(AllotFault::AcceptAdds) => {
                AllotTotals { up: up + total.saturating_sub(down), down }
            }
            AllotAction::Accept if total > up => AllotTotals { up: total, down },
            AllotAction::Return
                if total > down
                    && (takes(total - down, own)
                        || (total <= up && fault == Some(AllotFault::ReturnsWhatIsUsed))) =>
            {
                AllotTotals { up, down: total }
            }
            // Beyond what was granted comes what moved there with instruments, at most a limit.
            AllotAction::TakeBack if total > down && total <= up + u128::from(u64::MAX) => {
                AllotTotals { up, down: total }
            }
            _ => return false,
        };
        assert!(next.up >= up && next.down >= down, "totals only rise");
        shared.totals[place] = next;
        self.refresh(account, index, now);
        true
    }

    /// An instrument goes with which the account used so much more before than it `keeps`: as much of the part,
    /// if it has that, goes with it. How much that is.
    pub(crate) fn send_part(&mut self, account: AccountId, kind: LimitKind, used: u128) -> u64 {
        let kept = self.used(account, kind, 0);
        let (Some(shared), Some(index)) = (&mut self.shared, kind.shared()) else { return 0 };
        if shared.limit(account, index) == u64::MAX {
            // Nobody comes near the part.
            return 0;
        }
        let goes = used.saturating_sub(kept).min(u128::from(shared.part(account, index))) as u64;
        shared.carried[usize::from(account.0) - 1][index] -= i128::from(goes);
        self.refresh(account, index, 0);
        goes
    }

    /// So much came with an instrument.
    pub(crate) fn take_part(&mut self, account: AccountId, kind: LimitKind, more: u64) {
        let (Some(shared), Some(index)) = (&mut self.shared, kind.shared()) else { return };
        shared.carried[usize::from(account.0) - 1][index] += i128::from(more);
        self.refresh(account, index, 0);
    }

    /// What of a limit came with instruments less what went with them.
    pub(crate) fn carried(&self, account: AccountId, kind: LimitKind) -> i128 {
        let known = self.shared.as_ref().zip(kind.shared());
        known.map_or(0, |(shared, index)| shared.carried(account, index))
    }

    /// The check of orders sees the part as it is now.
    fn refresh(&mut self, account: AccountId, index: usize, now: u64) {
        let Some(shared) = &self.shared else { return };
        let (part, kind) = (shared.part(account, index), LimitKind::SHARED[index]);
        let account = self.account_mut(account);
        if kind == LimitKind::MessageRate {
            // As many messages are used as before, of a bucket of another size.
            let used = used_messages(account, now);
            match SECOND.checked_div(part) {
                Some(_) if account.limits.get(kind) == 0 && used > 0 => {
                    account.bucket_full_at = now.saturating_add(SECOND);
                }
                Some(each) => {
                    account.bucket_full_at = now.saturating_add(used.saturating_mul(each))
                }
                None => {}
            }
        }
        account.limits.set(kind, part);
    }

    /// Sets the whole limit of an account, or of all that follow the default.
    pub(crate) fn set_shared(
        &mut self,
        account: AccountId,
        kind: LimitKind,
        value: u64,
        now: u64,
    ) -> bool {
        let (Some(index), Some(_)) = (kind.shared(), &self.shared) else { return false };
        let bit = 1 << kind as u8;
        if account.0 == 0 {
            self.defaults.set(kind, value);
        } else {
            self.account_mut(account).own |= bit;
        }
        for each in self.accounts() {
            let meant = each == account || (account.0 == 0 && self.account(each).own & bit == 0);
            if let Some(shared) = self.shared.as_mut().filter(|_| meant) {
                shared.limits[usize::from(each.0) - 1][index] = value;
                self.refresh(each, index, now);
            }
        }
        true
    }

    /// [`Risk::check`], which in a venue of several shards tells a part that is used up from a limit.
    #[inline(always)]
    pub(crate) fn allow(&mut self, order: &Proposal) -> Result<(), RejectReason> {
        let checked = self.check(order);
        match checked {
            // A copy, so that an order which passes need not lie in memory.
            Err(reason) if self.shared.is_some() => {
                Err(self.refused(&Proposal { ..*order }, reason))
            }
            _ => checked,
        }
    }

    #[cold]
    fn refused(&mut self, order: &Proposal, reason: RejectReason) -> RejectReason {
        let account = self.account(order.account);
        let (kind, need) = match reason {
            RejectReason::OpenOrdersLimit => {
                let gone = u32::from(order.instead_of.is_some());
                (LimitKind::OpenOrders, i128::from(account.open_orders - gone + 1))
            }
            RejectReason::CreditLimit => {
                let value =
                    |(open, price): (u64, types::Price)| i128::from(open) * i128::from(price.0);
                let gone = order.instead_of.map_or(0, value);
                let need = account.exposure - gone + value((order.open, order.value_price));
                (LimitKind::Credit, need)
            }
            _ => return reason,
        };
        self.wanting(order.account, kind, need, reason)
    }

    /// Why a message was not taken from the account's bucket.
    #[cold]
    pub(crate) fn no_message(&mut self, account: AccountId, at: u64) -> RejectReason {
        let need = self.used(account, LimitKind::MessageRate, at) as i128 + 1;
        self.wanting(account, LimitKind::MessageRate, need, RejectReason::MessageRate)
    }

    fn wanting(
        &mut self,
        account: AccountId,
        kind: LimitKind,
        need: i128,
        reason: RejectReason,
    ) -> RejectReason {
        let index = kind.shared().expect("a shared kind");
        let Some(shared) = &mut self.shared else { return reason };
        let (part, limit) = (shared.part(account, index), shared.limit(account, index));
        match u64::try_from(need) {
            Ok(need) if need <= limit && part < limit => {
                shared.want(AllotWant { account, kind, part: need });
                RejectReason::ShardAllotment
            }
            _ => reason,
        }
    }

    /// Whether a command for all shards that has a number is the next one.
    pub(crate) fn take_directive(&mut self, number: u32) -> Option<Directive> {
        let shared = self.shared.as_mut()?;
        Some(match number.checked_sub(shared.directive) {
            Some(1) => {
                shared.directive = number;
                Directive::Next
            }
            Some(2..) => Directive::Early,
            _ => Directive::Seen,
        })
    }

    /// Number of the last command for all shards.
    pub(crate) fn directive(&self) -> u32 {
        self.shared.as_ref().map_or(0, |shared| shared.directive)
    }

    /// The account's home, its whole limit and this shard's part; `None` in a venue of one shard.
    pub(crate) fn part(&self, account: AccountId, kind: LimitKind) -> Option<(usize, u64, u64)> {
        let (shared, index) = (self.shared.as_ref()?, kind.shared()?);
        let (limit, part) = (shared.limit(account, index), shared.part(account, index));
        Some((shared.home(account), limit, part))
    }

    /// The totals between the account's home and another shard, one of which this is.
    pub(crate) fn totals(
        &self,
        account: AccountId,
        kind: LimitKind,
        shard: usize,
    ) -> Option<AllotTotals> {
        let (shared, index) = (self.shared.as_ref()?, kind.shared()?);
        let between = shared.is_home(account) != (shard == shared.me) && shard < shared.shards;
        between.then(|| shared.totals[shared.place(account, index, shard)])
    }

    /// Takes a refusal for lack of a part that nobody has looked at.
    pub(crate) fn next_want(&mut self) -> Option<AllotWant> {
        self.shared.as_mut()?.wants.pop()
    }

    pub(crate) fn sabotage(&mut self, fault: AllotFault) {
        if let Some(shared) = &mut self.shared {
            shared.fault = Some(fault);
        }
    }

    /// After reading: the parts are what follows from the totals.
    pub(crate) fn parts_fit(&self) -> bool {
        let Some(shared) = &self.shared else { return true };
        self.accounts().all(|account| {
            let limits = &self.account(account).limits;
            let mut kinds = LimitKind::SHARED.iter().enumerate();
            kinds.all(|(index, &kind)| limits.get(kind) == shared.part(account, index))
        })
    }

    /// Every account begins with its part.
    pub(crate) fn share_out(&mut self) {
        for account in self.accounts() {
            (0..KINDS).for_each(|index| self.refresh(account, index, 0));
        }
    }
}
