//! Why the engine refuses an operator's command, and what there is to say of one that it has taken.

use engine::Applied;
use exchange::Root;
use types::{AccountId, Command, CommandKind, InstrumentParam, Price};

use crate::config::Config;

/// Accounts that are named in an answer at most.
const NAMED_MAX: usize = 16;

pub(super) fn refused_by_engine(applied: Applied, seq: u64, rule: &str) -> String {
    format!("the engine refused it: {applied:?}, input {seq} of the log{rule}")
}

/// What the engine asks of a command, in words for its operator; empty where that depends on more.
pub(super) fn rule_of(command: &Command) -> &'static str {
    match command.kind {
        CommandKind::SetInstrument => of_parameter(command.param),
        CommandKind::BustTrade => {
            "; there is no such trade, or it is broken already, or it is not among the last 65536, which \
             alone are kept"
        }
        CommandKind::CorrectTrade => {
            "; there is no such trade, or it is broken, or it is not among the last 65536, which alone are \
             kept; or the price is no multiple of the tick in force or above price_max, or the lots are more \
             than the trade was made of"
        }
        CommandKind::StartOfDay => "; the day is open already: `end-of-day` ends it",
        CommandKind::EndOfDay => "; the day is not open: `start-of-day` begins one",
        CommandKind::SetPhase => {
            "; phases change while the day is open (`start-of-day` begins one), and only of instruments that \
             are listed: `status` shows both"
        }
        CommandKind::Uncross => {
            "; the instrument is in no batch auctions now: `status` says its phase, and `phase SYMBOL batch` \
             begins them"
        }
        CommandKind::MassCancel => {
            "; orders are cancelled so while the day is open, and it is not: `start-of-day` begins one"
        }
        _ => "",
    }
}

/// The same of the value of an instrument's parameter.
fn of_parameter(param: u8) -> &'static str {
    match InstrumentParam::from_code(param) {
        Some(InstrumentParam::Reference) => {
            "; a reference price is a multiple of the tick in force and at most price_max, 0 is none"
        }
        Some(InstrumentParam::StaticCollar | InstrumentParam::DynamicCollar) => {
            "; a collar is at most 10000 hundredths of a percent, 0 is none"
        }
        Some(InstrumentParam::QtyMin) => "; qty-min is 1 to qty-max",
        Some(InstrumentParam::QtyMax) => "; qty-max is at least qty-min, and of 32 bits",
        Some(InstrumentParam::Tick) => "; a tick is above 0 and at most price_max",
        Some(InstrumentParam::Listed) => "; listed is 0 or 1",
        Some(InstrumentParam::Shard | InstrumentParam::Placed) | None => "",
    }
}

/// Whether a trade may be corrected to this. Of which instrument it is the engine alone knows: what is refused
/// here is so for all.
///
/// # Errors
/// What it has to be.
pub(super) fn corrected(config: &Config, price: Price, lots: u32) -> Result<(), String> {
    let most = config.instruments.0.iter().map(|entry| entry.price_max).max().unwrap_or(Price(0));
    if price.0 <= 0 || price > most {
        return Err(format!(
            "the right price is above 0 and at most {most}, the largest price_max"
        ));
    }
    if lots == 0 {
        return Err("the right lots are at least 1: `bust-trade` breaks a trade".to_string());
    }
    Ok(())
}

/// Which kill switches are on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Kills {
    /// That of the whole exchange.
    all: bool,
    /// Accounts by themselves.
    own: Vec<AccountId>,
}

impl Kills {
    pub(super) fn of(root: &Root, accounts: u16) -> Kills {
        let engine = root.engine();
        let is_killed = |id: &AccountId| engine.standing(*id).is_some_and(|of| of.killed);
        let own = (1..=accounts).map(AccountId).filter(is_killed).collect();
        Kills { all: engine.is_killed(), own }
    }

    /// What is to be said after an account (or all, with number 0) was revived, where the switches were as
    /// `before` and are as these: an account has one of its own, and the exchange has one.
    pub(super) fn still_on(
        &self,
        account: AccountId,
        before: &Kills,
        name: impl Fn(AccountId) -> String,
    ) -> String {
        let mut text = String::new();
        if account.0 != 0 && !before.own.contains(&account) {
            let by_itself = if before.all { " by itself" } else { "" };
            text += &format!("; {} is not killed{by_itself}", name(account));
        }
        if account.0 == 0 && !before.all {
            text += "; the kill switch of all is not on";
        }
        if self.all {
            text += "; all accounts are still killed: `revive all`";
        }
        if account.0 == 0 && !self.own.is_empty() {
            let named = self.own.iter().take(NAMED_MAX).map(|id| name(*id)).collect::<Vec<_>>();
            text += &format!("; still killed by themselves: {}", named.join(" "));
            if self.own.len() > NAMED_MAX {
                text += &format!(" and {} more", self.own.len() - NAMED_MAX);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_that_the_engine_may_refuse_says_by_which_rule() {
        let rule = |kind| rule_of(&Command::new(kind));
        for (kind, said) in [
            (CommandKind::BustTrade, "broken already"),
            (CommandKind::CorrectTrade, "it is broken"),
            (CommandKind::StartOfDay, "open already"),
            (CommandKind::EndOfDay, "the day is not open"),
            (CommandKind::SetPhase, "while the day is open"),
            (CommandKind::Uncross, "no batch auctions"),
            (CommandKind::MassCancel, "while the day is open"),
        ] {
            assert!(rule(kind).starts_with("; ") && rule(kind).contains(said), "{kind:?}");
        }
        assert_eq!(rule(CommandKind::ExpireOrders), "", "it is never refused");
    }

    #[test]
    fn a_trade_is_corrected_to_a_price_that_an_instrument_may_have() {
        let mut config = Config::default();
        config.instruments.0.iter_mut().for_each(|entry| entry.price_max = Price(1_000_000));
        assert_eq!(corrected(&config, Price(1_000_000), 1), Ok(()));
        for (price, lots, said) in [
            (1_000_001, 1, "at most 100"),
            (0, 1, "above 0"),
            (-1, 1, "above 0"),
            (1_000_000, 0, "at least 1"),
        ] {
            let why = corrected(&config, Price(price), lots).expect_err("refused");
            assert!(why.contains(said), "{why}");
        }
    }

    #[test]
    fn what_is_still_killed_is_said_whichever_switch_was_used() {
        let of =
            |all, own: &[u16]| Kills { all, own: own.iter().copied().map(AccountId).collect() };
        let said = |account, before: Kills, after: Kills| {
            after.still_on(AccountId(account), &before, |id| format!("TEST0{}", id.0))
        };
        assert_eq!(said(3, of(false, &[3]), of(false, &[])), "");
        assert_eq!(said(0, of(true, &[]), of(false, &[])), "");
        assert_eq!(said(3, of(false, &[5]), of(false, &[5])), "; TEST03 is not killed");
        assert_eq!(
            said(3, of(true, &[]), of(true, &[])),
            "; TEST03 is not killed by itself; all accounts are still killed: `revive all`"
        );
        assert_eq!(
            said(3, of(true, &[3]), of(true, &[])),
            "; all accounts are still killed: `revive all`"
        );
        assert_eq!(
            said(0, of(true, &[5]), of(false, &[5])),
            "; still killed by themselves: TEST05"
        );
        assert_eq!(
            said(0, of(false, &[5, 6]), of(false, &[5, 6])),
            "; the kill switch of all is not on; still killed by themselves: TEST05 TEST06"
        );
        let many: Vec<u16> = (1..=20).collect();
        assert!(said(0, of(true, &many), of(false, &many)).ends_with("TEST016 and 4 more"));
    }
}
