//! The trading day: what the root's timetable begins with.

use roles::{Timetable, set_phase};
use types::{Command, CommandKind, InstrumentId, Nanos, Phase};

use crate::config::{Config, InstrumentEntry};

/// What the root knows of its day at the start.
pub fn timetable(config: &Config) -> Timetable {
    let day = &config.day;
    let begin = match day.auctions {
        true => Timetable::open_with_a_call(),
        false => Timetable::open_at_once(),
    };
    let indicative = Command::new(CommandKind::PublishIndicative);
    let mut table = begin.every(day.indicative_ms * Nanos::MILLI, indicative);
    for (instrument, entry) in numbered(config).filter(|(_, entry)| entry.batch_ms > 0) {
        let uncross = Command { instrument, ..Command::new(CommandKind::Uncross) };
        table = table.every(entry.batch_ms * Nanos::MILLI, uncross);
        if !day.auctions {
            table = table.at(Nanos(0), set_phase(instrument, Phase::Batch));
        }
    }
    table
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
            let mut table = timetable(config);
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
}
