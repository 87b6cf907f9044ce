//! What the whole venue knows of each account, counted from reports alone, and what must hold of it.

use std::collections::BTreeMap;

use engine::{Engine, Moved};
use types::{
    AccountId, ExecutionKind, ExecutionReport, InstrumentId, LimitKind, Nanos, RejectReason,
    ShardId, Side,
};

/// What an account has in one shard.
#[derive(Clone, Debug, Default)]
struct Holding {
    /// Open orders by request number: lots, price.
    open: BTreeMap<u32, (u64, i64)>,
    /// By instrument: lots held, price of the last trade.
    positions: BTreeMap<InstrumentId, (i64, i64)>,
    /// By how much trades have raised the exposure since the last order that was taken: prices move
    /// after a limit was checked, in one shard as in several.
    drift: u128,
}

impl Holding {
    fn exposure(&self) -> u128 {
        let open: u128 = self.open.values().map(|(lots, price)| value(*lots, *price)).sum();
        let positions = self.positions.values();
        let held: u128 = positions.map(|(lots, mark)| value(lots.unsigned_abs(), *mark)).sum();
        open + held
    }
}

fn value(lots: u64, price: i64) -> u128 {
    u128::from(lots) * u128::from(price.unsigned_abs())
}

/// The ledger of the whole venue.
pub(crate) struct Ledger {
    limited: Vec<LimitKind>,
    /// By account less one and shard.
    holdings: Vec<Vec<Holding>>,
    /// By account less one and limited kind: the limit, and the largest one that is still being
    /// brought down.
    limits: Vec<Vec<(u64, u64)>>,
    /// By account less one: `t_in` of messages that were taken from the bucket.
    messages: Vec<Vec<u64>>,
    /// Requests by account, number: answers.
    answers: BTreeMap<(u16, u32), u32>,
}

impl Ledger {
    pub(crate) fn new(shards: usize, accounts: usize, limits: &[(LimitKind, u64)]) -> Ledger {
        Ledger {
            limited: limits.iter().map(|(kind, _)| *kind).collect(),
            holdings: vec![vec![Holding::default(); shards]; accounts],
            limits: vec![limits.iter().map(|(_, limit)| (*limit, *limit)).collect(); accounts],
            messages: vec![Vec::new(); accounts],
            answers: BTreeMap::new(),
        }
    }

    pub(crate) fn note(
        &mut self,
        shard: usize,
        t_in: u64,
        report: &ExecutionReport,
    ) -> Result<(), String> {
        let account = report.account.0;
        let holding = &mut self.holdings[usize::from(account) - 1][shard];
        let (number, before) = (report.user_ref.0, holding.exposure());
        let mut answered = false;
        match report.kind {
            ExecutionKind::Accepted => {
                holding.open.insert(number, (report.leaves.0, report.price.0));
                holding.drift = 0;
                answered = true;
            }
            ExecutionKind::Executed => {
                let (lots, _) = holding.open.get_mut(&number).ok_or("a trade of no order")?;
                *lots = lots.checked_sub(report.qty.0).ok_or("more traded than was open")?;
                if *lots == 0 {
                    holding.open.remove(&number);
                }
                let lots = report.qty.0 as i64;
                let (held, mark) = holding.positions.entry(report.instrument).or_default();
                *held += if report.side == Side::Buy { lots } else { -lots };
                *mark = report.price.0;
                holding.drift += holding.exposure().saturating_sub(before);
            }
            ExecutionKind::Canceled => {
                holding.open.remove(&number).ok_or("a cancel of no order")?;
            }
            ExecutionKind::Replaced => {
                let former = report.orig_user_ref.0;
                holding.open.remove(&former).ok_or("a replace of no order")?;
                holding.open.insert(number, (report.leaves.0, report.price.0));
                holding.drift = 0;
                answered = true;
            }
            ExecutionKind::Rejected => answered = true,
            _ => {}
        }
        if answered || report.kind == ExecutionKind::MassCanceled {
            let answers = self.answers.entry((account, number)).or_default();
            *answers += 1;
            if *answers > 1 {
                return Err(format!("request {number} of account {account} has {answers} answers"));
            }
        }
        if answered {
            let refused = [
                RejectReason::MessageRate,
                RejectReason::ShardAllotment,
                RejectReason::Killed,
                RejectReason::MarketClosed,
            ];
            if !refused.contains(&report.reject) {
                self.messages[usize::from(account) - 1].push(t_in);
            }
        }
        Ok(())
    }

    /// Something came with an instrument, or went: its shard counts it from now on, or no longer.
    pub(crate) fn note_moved(&mut self, shard: usize, moved: &Moved) -> Result<(), String> {
        let account = match moved {
            Moved::Order { report, .. } => report.account,
            Moved::Position { account, .. } => *account,
        };
        let holding = &mut self.holdings[usize::from(account.0) - 1][shard];
        let before = holding.exposure();
        match *moved {
            Moved::Order { came, ref report } => {
                let number = report.user_ref.0;
                let known = match came {
                    true => {
                        holding.open.insert(number, (report.leaves.0, report.price.0)).is_some()
                    }
                    false => holding.open.remove(&number).is_none(),
                };
                if known {
                    let what = if came { "came twice" } else { "went and was not open" };
                    return Err(format!("order {number} of {:?} {what}", report.account));
                }
            }
            Moved::Position { instrument, lots, mark, .. } => {
                let (held, known) = holding.positions.entry(instrument).or_default();
                *held += lots;
                if mark.0 != 0 {
                    *known = mark.0;
                }
            }
        }
        // The limit was checked where it came from.
        holding.drift += holding.exposure().saturating_sub(before);
        Ok(())
    }

    /// Lots that an account holds in all shards, and its open orders there.
    pub(crate) fn held(&self, account: AccountId) -> (i64, usize) {
        let holdings = &self.holdings[usize::from(account.0) - 1];
        let positions = holdings.iter().flat_map(|holding| holding.positions.values());
        let lots = positions.map(|(lots, _)| lots).sum();
        (lots, holdings.iter().map(|holding| holding.open.len()).sum())
    }

    /// Whether a request was answered, ever.
    pub(crate) fn answered(&self, account: AccountId, number: u32) -> bool {
        self.answers.contains_key(&(account.0, number))
    }

    pub(crate) fn set_limit(&mut self, account: AccountId, kind: LimitKind, limit: u64) -> bool {
        let Some(at) = self.limited.iter().position(|limited| *limited == kind) else {
            return false;
        };
        let (now, ceiling) = &mut self.limits[usize::from(account.0) - 1][at];
        let lowered = limit < *now;
        (*now, *ceiling) = (limit, limit.max(*ceiling));
        lowered
    }

    pub(crate) fn limit(&self, account: AccountId, at: usize) -> (LimitKind, u64) {
        (self.limited[at], self.limits[usize::from(account.0) - 1][at].0)
    }

    pub(crate) fn limited(&self) -> usize {
        self.limited.len()
    }

    /// What an account uses of a limit in all shards; of its credit without drift, if so asked.
    pub(crate) fn used(&self, account: AccountId, kind: LimitKind, drift: bool) -> u128 {
        let holdings = self.holdings[usize::from(account.0) - 1].iter();
        match kind {
            LimitKind::OpenOrders => holdings.map(|h| h.open.len() as u128).sum(),
            LimitKind::Credit => {
                holdings.map(|h| h.exposure().saturating_sub(if drift { 0 } else { h.drift })).sum()
            }
            _ => 0,
        }
    }

    pub(crate) fn open_orders(&self, account: AccountId, shard: usize) -> Vec<u32> {
        self.holdings[usize::from(account.0) - 1][shard].open.keys().copied().collect()
    }

    /// Limits of one account, after something was applied that is about it.
    pub(crate) fn check(&mut self, engines: &[&Engine], account: AccountId) -> Result<(), String> {
        // What was open before a limit was lowered stays open, also where it is on its way with an instrument.
        let none_moves = engines.iter().all(|engine| engine.leaving().next().is_none());
        for at in 0..self.limited.len() {
            let (kind, limit) = self.limit(account, at);
            let (mut parts, mut within, mut carried) = (0i128, none_moves, 0);
            for (shard, engine) in engines.iter().enumerate() {
                let have = engine.allotment(account, kind, Nanos(0)).ok_or("no part")?;
                within &= have.used <= u128::from(have.part);
                carried += have.carried;
                let id = ShardId(shard as u16);
                if have.home == id {
                    parts += i128::from(have.part);
                    continue;
                }
                let home = engines[usize::from(have.home.0)].allot_totals(account, kind, id);
                let (here, home) = (engine.allot_totals(account, kind, id), home);
                let (here, home) = (here.ok_or("no totals")?, home.ok_or("no totals")?);
                // What an instrument took along is part of where it is.
                parts += here.net() + have.carried;
                let coming = home.up.saturating_sub(here.up);
                parts += (coming + here.down.saturating_sub(home.down)) as i128;
            }
            // The rest of what went is on its way with an instrument.
            if carried > 0 {
                return Err(format!("{account:?}, {kind:?}: {carried} more came than went"));
            }
            parts -= carried;
            let used = self.used(account, kind, false);
            let ceiling = &mut self.limits[usize::from(account.0) - 1][at].1;
            if parts > i128::from(*ceiling) {
                return Err(format!("{account:?}, {kind:?}: parts of {parts}, limit {ceiling}"));
            }
            if used > u128::from(*ceiling) {
                return Err(format!("{account:?}, {kind:?}: {used} used of {ceiling}"));
            }
            if within && parts <= i128::from(limit) && used <= u128::from(limit) {
                *ceiling = limit;
            }
        }
        Ok(())
    }

    /// At the end: no bucket of the whole venue had fewer messages than were taken.
    pub(crate) fn check_messages(&mut self) -> Result<(), String> {
        let Some(at) = self.limited.iter().position(|k| *k == LimitKind::MessageRate) else {
            return Ok(());
        };
        let second = i128::from(Nanos::SECOND);
        for (index, messages) in self.messages.iter_mut().enumerate() {
            let limit = i128::from(self.limits[index][at].0);
            messages.sort_unstable();
            let (mut left, mut last) = (limit * second, 0);
            for &t_in in messages.iter() {
                left = (left + i128::from(t_in - last) * limit).min(limit * second) - second;
                last = t_in;
                // Stamps of gateways are a little older than what a shard has seen.
                if left < -second {
                    return Err(format!("account {}: over {limit} messages a second", index + 1));
                }
            }
        }
        Ok(())
    }
}
