//! The trading day: what the root's timetable begins with, from `[calendar]` or `[day]`.
//!
//! With a calendar the root follows the venue's clock. Without one its day begins when it is started,
//! with an opening call if there are auctions; who has participants of its own ends it when they are
//! ready (`fairbell up`), or it ends after `day.opening_call_ms`, or when an operator says so.

use exchange::{ExchangeConfig, Timetable, set_phase};
use types::{Command, CommandKind, InstrumentId, Nanos, Phase};

use crate::config::{Config, InstrumentEntry};

/// Gives an exchange its timetable; its midnight has to be that of its log.
pub fn plan(config: &Config, now: Nanos, exchange: &mut ExchangeConfig) {
    exchange.timetable = timetable(config, exchange.midnight, now);
}

/// What the root knows of its day, of a log that began on the day of `midnight`.
fn timetable(config: &Config, midnight: Nanos, now: Nanos) -> Timetable {
    let day = &config.day;
    let batches = || numbered(config).filter(|(_, entry)| entry.batch_ms > 0);
    // Mistakes were found when the configuration was read.
    let schedule = config.calendar.schedule(midnight, batches().map(|(id, _)| id)).unwrap_or(None);
    let begin = match (config.calendar.begins_days(), config.has_auctions()) {
        (true, _) => Timetable::empty(),
        (_, true) => Timetable::open_with_a_call(),
        _ => Timetable::open_at_once(),
    };
    let indicative = Command::new(CommandKind::PublishIndicative);
    let mut table = begin.every(day.indicative_ms * Nanos::MILLI, indicative);
    for (instrument, entry) in batches() {
        let uncross = Command { instrument, ..Command::new(CommandKind::Uncross) };
        table = table.every(entry.batch_ms * Nanos::MILLI, uncross);
        if !config.has_auctions() && !config.calendar.begins_days() {
            table = table.at(Nanos(0), set_phase(instrument, Phase::Batch));
        }
    }
    if config.has_auctions() && day.opening_call_ms > 0 {
        let opens = now.after(day.opening_call_ms * Nanos::MILLI);
        for (instrument, entry) in numbered(config) {
            table = table.at(opens, set_phase(instrument, trading(entry)));
        }
    }
    match schedule {
        Some(schedule) => table.with_schedule(schedule),
        None => table,
    }
}

/// Instruments and their numbers.
pub fn numbered(config: &Config) -> impl Iterator<Item = (InstrumentId, &InstrumentEntry)> {
    (1..).map(InstrumentId).zip(&config.instruments.0)
}

/// The phase in which an instrument trades.
pub fn trading(entry: &InstrumentEntry) -> Phase {
    if entry.batch_ms > 0 { Phase::Batch } else { Phase::Continuous }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_day_begins_with_a_call_or_with_trading() {
        let mut config = Config::default();
        config.instruments.0[1].batch_ms = 50;
        let first = |config: &Config| {
            let mut table = timetable(config, Nanos(0), Nanos(1));
            let due = std::iter::from_fn(move || table.pop(Nanos(1), |_| true));
            due.map(|command| (command.kind, command.param)).take(4).collect::<Vec<_>>()
        };
        let uncross = (CommandKind::Uncross, 0);
        let indicative = (CommandKind::PublishIndicative, 0);
        let call = (CommandKind::SetPhase, Phase::OpeningCall as u8);
        assert_eq!(first(&config), [(CommandKind::StartOfDay, 1), call, indicative, uncross]);
        config.day.auctions = false;
        let batch = (CommandKind::SetPhase, Phase::Batch as u8);
        assert_eq!(first(&config), [(CommandKind::StartOfDay, 0), batch, indicative, uncross]);
    }

    #[test]
    fn an_opening_call_ends_by_itself_when_it_is_given_a_length() {
        let mut config = Config::default();
        config.day.opening_call_ms = 3;
        config.instruments.0[1].batch_ms = 50;
        let now = Nanos(7 * Nanos::SECOND);
        let mut table = timetable(&config, Nanos(0), now);
        while table.pop(now, |_| false).is_some() {}
        let opens = now.after(3 * Nanos::MILLI);
        let phases = std::iter::from_fn(|| table.pop(opens, |_| false));
        let phases: Vec<_> = phases.map(|command| (command.instrument.0, command.param)).collect();
        let (continuous, batch) = (Phase::Continuous as u8, Phase::Batch as u8);
        assert_eq!(phases[..2], [(1, continuous), (2, batch)]);
        assert_eq!(phases.len(), config.instruments.0.len());
    }

    #[test]
    fn with_a_calendar_the_day_is_the_venues() {
        let mut config = Config::default();
        config.calendar.zone = "UTC".to_string();
        // 1 June 2026, a Monday: from its midnight on.
        let monday = Nanos(1_780_272_000 * Nanos::SECOND);
        let hour = 3_600 * Nanos::SECOND;
        let mut table = timetable(&config, monday, monday);
        while table.pop(monday, |_| false).is_some() {}
        assert!(table.pop(Nanos(monday.0 + 8 * hour - 1), |_| false).is_none(), "nothing before");
        let kinds = std::iter::from_fn(|| table.pop(Nanos(monday.0 + 8 * hour), |_| false));
        let kinds: Vec<_> = kinds.map(|command| command.kind).collect();
        assert_eq!(kinds, [CommandKind::ExpireOrders, CommandKind::StartOfDay]);
        // A venue that never closes is open from the start.
        config.calendar.days = "never-closing".to_string();
        let mut table = timetable(&config, monday, monday);
        let first = table.pop(monday, |_| false).map(|command| (command.kind, command.param));
        assert_eq!(first, Some((CommandKind::StartOfDay, 0)));
    }
}
