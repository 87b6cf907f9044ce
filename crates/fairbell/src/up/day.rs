//! The trading day of a run: an opening auction once the books are loaded, a halt in the middle of
//! the play, a closing auction at its end.
//!
//! The root's timetable says what is due; this moves it on when the participants are ready, which
//! no clock can know before. Every step is a command in the log.

use std::time::{Duration, Instant};

use exchange::{Timetable, set_phase};
use types::{ClOrdId, Command, CommandKind, InstrumentId, Nanos, Phase};

use host::config::Config;
use host::day::{numbered, trading};
use host::replica::line::RootLine;

/// Who asks, in the log.
const NAME: ClOrdId = ClOrdId(*b"FAIRBELL UP   ");

/// Where the day stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// The books are loaded, in a call if there are auctions.
    Opening,
    /// Orders trade as they come.
    Trading,
    /// The closing call, since when.
    Closing(Instant),
    /// Nothing more will trade.
    Over,
}

/// Moves the day on.
pub struct TradingDay<'a> {
    config: &'a Config,
    root: RootLine,
    /// Length of the play as planned.
    play_ns: u64,
    stage: Stage,
}

impl<'a> TradingDay<'a> {
    /// A day that has just begun.
    pub fn new(config: &'a Config, root: RootLine, play_ns: u64) -> TradingDay<'a> {
        TradingDay { config, root, play_ns, stage: Stage::Opening }
    }

    /// Ends the opening call once it is known when the play begins, and plans the halt.
    pub fn begin(&mut self, play_from: Option<Nanos>) {
        let (Some(from), Stage::Opening) = (play_from, self.stage) else { return };
        self.stage = Stage::Trading;
        let mut table = Timetable::empty();
        if self.config.has_auctions() {
            for (instrument, entry) in numbered(self.config) {
                table = table.at(Nanos(0), set_phase(instrument, trading(entry)));
            }
        }
        let table = self.change_tree(self.halt(table, from), from);
        self.plan(table);
    }

    /// Another tree takes over in the middle of the play.
    fn change_tree(&self, table: Timetable, from: Nanos) -> Timetable {
        match self.config.overlay.change_to() {
            Some(shape) => {
                let percent = self.config.overlay.change_tree_at_percent;
                table.change_tree_at(self.after(from, percent), shape)
            }
            None => table,
        }
    }

    /// So many percent of the play after its start.
    fn after(&self, from: Nanos, percent: u32) -> Nanos {
        let part = u128::from(self.play_ns) * u128::from(percent) / 100;
        from.after(u64::try_from(part).unwrap_or(u64::MAX))
    }

    fn halt(&self, table: Timetable, from: Nanos) -> Timetable {
        let day = &self.config.day;
        if self.config.calendar.is_on() {
            return table;
        }
        let found = numbered(self.config).find(|(id, _)| u32::from(id.0) == day.halt_instrument);
        let Some((instrument, entry)) = found else { return table };
        let after = |percent: u32| self.after(from, percent);
        let end = day.halt_at_percent + day.halt_percent;
        table
            .at(after(day.halt_at_percent), set_phase(instrument, Phase::Halt))
            .at(after(end), set_phase(instrument, Phase::VolatilityCall))
            .at(after(end + day.resume_percent), set_phase(instrument, trading(entry)))
    }

    /// Takes the next step towards the end of the day, if it is time; true once nothing more will
    /// trade. To be called until then.
    pub fn close(&mut self) -> bool {
        let day = &self.config.day;
        if !self.config.has_auctions() {
            return true;
        }
        match self.stage {
            Stage::Opening | Stage::Trading => {
                self.give(&[set_phase(InstrumentId(0), Phase::ClosingCall)]);
                self.stage = Stage::Closing(Instant::now());
            }
            Stage::Closing(since) => {
                if since.elapsed() >= Duration::from_millis(day.closing_call_ms) {
                    let closed = set_phase(InstrumentId(0), Phase::Closed);
                    self.give(&[closed, Command::new(CommandKind::EndOfDay)]);
                    self.stage = Stage::Over;
                }
            }
            Stage::Over => {}
        }
        self.stage == Stage::Over
    }

    /// Nothing else is due any more, and these commands are now.
    fn give(&self, commands: &[Command]) {
        if self.root.is_group() {
            // Whoever comes to lead gives what is not in the log yet.
            let due =
                commands.iter().fold(Timetable::empty(), |table, one| table.at(Nanos(0), *one));
            return self.plan(due);
        }
        self.plan(Timetable::empty());
        for command in commands {
            let command = Command { cl_ord_id: NAME, ..*command };
            // Refused only when the loop is over, which shows elsewhere.
            let _ = self.root.call(move |root, now, out| {
                root.operator(now, command, out);
            });
        }
    }

    fn plan(&self, table: Timetable) {
        // As above.
        let _ = self.root.call_all(move |root, _, _| root.set_timetable(table));
    }
}
