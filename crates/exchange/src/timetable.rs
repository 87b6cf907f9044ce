//! When the exchange itself speaks: commands with due times, and commands that repeat.
//!
//! The root logs a command when its own clock says that it is due; a replay finds it in the log and
//! needs no timetable. Commands of one time go in the order they were added. A venue with days by
//! its own clock has a schedule of the engine's besides. Changes of the tree are on it, too; they
//! are no commands of the engine and not in its log.

use std::collections::VecDeque;

use engine::schedule::Schedule;
use types::{ClOrdId, Command, CommandKind, Digest, InstrumentId, Nanos, Packer, Phase, Unpacker};
use zerocopy::IntoBytes;

use crate::TreeShape;

/// What names the timetable's commands in the log.
const SCHEDULED: ClOrdId = ClOrdId(*b"SCHEDULE      ");

/// A command that repeats as long as it has something to do.
#[derive(Clone, Debug)]
struct Repeated {
    next: Nanos,
    every_ns: u64,
    command: Command,
}

/// What is still to come.
#[derive(Clone, Debug, Default)]
pub struct Timetable {
    due: VecDeque<(Nanos, Command)>,
    repeated: Vec<Repeated>,
    schedule: Option<Schedule>,
    trees: VecDeque<(Nanos, TreeShape)>,
}

impl Timetable {
    /// Nothing at all: only operators move this exchange's day.
    pub fn empty() -> Timetable {
        Timetable::default()
    }

    /// Continuous trading from the first moment on.
    pub fn open_at_once() -> Timetable {
        Timetable::empty().at(Nanos(0), Command::new(CommandKind::StartOfDay))
    }

    /// The day begins with an opening call of all instruments; what ends it is told later.
    pub fn open_with_a_call() -> Timetable {
        let start = Command { param: 1, ..Command::new(CommandKind::StartOfDay) };
        let call = set_phase(InstrumentId(0), Phase::OpeningCall);
        Timetable::empty().at(Nanos(0), start).at(Nanos(0), call)
    }

    /// Adds a command that is due at this time of the root's clock.
    pub fn at(mut self, due: Nanos, command: Command) -> Timetable {
        let place = self.due.partition_point(|(other, _)| *other <= due);
        self.due.insert(place, (due, named(command)));
        self
    }

    /// Has the overlay change to a tree of this shape at this time of the root's clock.
    pub fn change_tree_at(mut self, due: Nanos, shape: TreeShape) -> Timetable {
        let place = self.trees.partition_point(|(other, _)| *other <= due);
        self.trees.insert(place, (due, shape));
        self
    }

    /// Adds a command that is due again and again; while nothing is in a call (or, for a command
    /// about one instrument, that one is not) it is passed over.
    pub fn every(mut self, every_ns: u64, command: Command) -> Timetable {
        let every_ns = every_ns.max(1);
        self.repeated.push(Repeated { next: Nanos(0), every_ns, command: named(command) });
        self
    }

    /// Follows the days of a venue, too.
    pub fn with_schedule(mut self, schedule: Schedule) -> Timetable {
        self.schedule = Some(schedule);
        self
    }

    /// As [`Timetable::passed`], for the days of a venue alone: without them every start of an
    /// exchange that stands alone begins a day.
    pub(crate) fn passed_by_calendar(&mut self, at: Nanos, command: &Command) {
        if let Some(days) = &mut self.schedule {
            days.passed(at, command);
        }
    }

    /// The day that it begins has begun before. What ends its opening call is kept if that is on.
    pub(crate) fn has_begun(&mut self, in_opening_call: bool) {
        self.due.retain(|(due, _)| in_opening_call && *due > Nanos(0));
        self.trees.clear();
    }

    /// Replaces what has due times, keeps commands that repeat.
    pub fn replace_due(&mut self, other: Timetable) {
        self.due = other.due;
        self.trees = other.trees;
    }

    /// When the next command is due.
    pub fn next_due(&self) -> Nanos {
        let first = self.due.front().map(|(due, _)| *due);
        let tree = self.trees.front().map(|(due, _)| *due);
        let repeated = self.repeated.iter().map(|repeated| repeated.next);
        let planned = self.schedule.as_ref().and_then(Schedule::next_due);
        first.into_iter().chain(tree).chain(repeated).chain(planned).min().unwrap_or(Nanos::NEVER)
    }

    /// When the next step of the venue's days is due; [`Nanos::NEVER`] without a schedule.
    pub(crate) fn next_step(&self) -> Nanos {
        self.schedule.as_ref().and_then(Schedule::next_due).unwrap_or(Nanos::NEVER)
    }

    /// Another root has given a command at `at`: if it was of this timetable, it is done here, too.
    pub fn passed(&mut self, at: Nanos, command: &Command) {
        if self.due.front().is_some_and(|(_, first)| first == command) {
            self.due.pop_front();
        } else if let Some(repeated) = self.repeated.iter_mut().find(|r| r.command == *command) {
            repeated.next = at.after(repeated.every_ns);
        } else {
            self.passed_by_calendar(at, command);
        }
    }

    /// What tells its commands from others', but not when they are due: these are what a log's
    /// commands are compared with.
    pub(crate) fn digest(&self) -> u64 {
        let mut digest = Digest::default();
        digest.fold(self.due.len() as u64);
        let repeated = self.repeated.iter();
        let planned = self.schedule.iter().flat_map(Schedule::commands);
        let commands = self.due.iter().map(|(_, command)| command).chain(planned);
        let commands = commands.map(|command| (0, command));
        for (every_ns, command) in commands.chain(repeated.map(|r| (r.every_ns, &r.command))) {
            digest.fold(every_ns);
            command.as_bytes().iter().for_each(|byte| digest.fold(u64::from(*byte)));
        }
        digest.0
    }

    /// How much of it a log has passed.
    pub(crate) fn pack(&self, to: &mut Packer<'_>) {
        to.u64(self.due.len() as u64);
        to.count(self.repeated.len());
        self.repeated.iter().for_each(|repeated| to.u64(repeated.next.0));
        self.schedule.iter().for_each(|schedule| schedule.pack(to));
    }

    /// Passes as much as one with these commands had when it was packed. `None` for anything that
    /// none packs.
    pub(crate) fn unpack(&mut self, from: &mut Unpacker<'_>) -> Option<()> {
        let left = usize::try_from(from.u64()?).ok()?;
        let passed = self.due.len().checked_sub(left)?;
        self.due.drain(..passed);
        let count = from.count(8)?;
        if count != self.repeated.len() {
            return None;
        }
        for repeated in &mut self.repeated {
            repeated.next = Nanos(from.u64()?);
        }
        match &mut self.schedule {
            Some(schedule) => schedule.unpack(from),
            None => Some(()),
        }
    }

    /// The next change of the tree that is due now.
    pub fn pop_tree(&mut self, now: Nanos) -> Option<TreeShape> {
        let due = self.trees.front().is_some_and(|(due, _)| *due <= now);
        if due { self.trees.pop_front().map(|(_, shape)| shape) } else { None }
    }

    /// The next command that is due now; `in_call` says whether an instrument (0: any) is in a call.
    pub fn pop(&mut self, now: Nanos, in_call: impl Fn(InstrumentId) -> bool) -> Option<Command> {
        if self.due.front().is_some_and(|(due, _)| *due <= now) {
            return self.due.pop_front().map(|(_, command)| command);
        }
        if let Some(command) = self.schedule.as_mut().and_then(|days| days.pop_due(now)) {
            return Some(command);
        }
        for repeated in &mut self.repeated {
            if repeated.next <= now {
                // Missed times are not made up for.
                repeated.next = now.after(repeated.every_ns);
                if in_call(repeated.command.instrument) {
                    return Some(repeated.command);
                }
            }
        }
        None
    }
}

/// The command that changes the phase of an instrument (0: of all).
pub fn set_phase(instrument: InstrumentId, phase: Phase) -> Command {
    Command { instrument, param: phase as u8, ..Command::new(CommandKind::SetPhase) }
}

fn named(command: Command) -> Command {
    Command { cl_ord_id: SCHEDULED, ..command }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::schedule::{DayTimes, Plan, Zone};

    #[test]
    fn commands_come_when_due_and_in_order() {
        let halt = set_phase(InstrumentId(2), Phase::Halt);
        let mut table = Timetable::open_with_a_call().at(Nanos(50), halt);
        let kinds = |command: Option<Command>| command.map(|command| (command.kind, command.param));
        assert_eq!(table.next_due(), Nanos(0));
        assert_eq!(kinds(table.pop(Nanos(9), |_| true)), Some((CommandKind::StartOfDay, 1)));
        assert_eq!(kinds(table.pop(Nanos(9), |_| true)), Some((CommandKind::SetPhase, 2)));
        assert_eq!(table.pop(Nanos(49), |_| true), None);
        assert_eq!(table.next_due(), Nanos(50));
        assert_eq!(kinds(table.pop(Nanos(50), |_| true)), Some((CommandKind::SetPhase, 4)));
        assert_eq!(table.next_due(), Nanos::NEVER);
    }

    #[test]
    fn what_another_root_has_done_is_not_done_again() {
        let repeated = set_phase(InstrumentId(1), Phase::Halt);
        let table = Timetable::open_with_a_call().every(100, repeated);
        let (mut leads, mut follows) = (table.clone(), table);
        for _ in 0..3 {
            let command = leads.pop(Nanos(7), |_| true).expect("due");
            follows.passed(Nanos(7), &command);
        }
        assert_eq!(follows.next_due(), Nanos(107));
        // An operator's own is none of the timetable's.
        follows.passed(Nanos(9), &set_phase(InstrumentId(1), Phase::Halt));
        assert_eq!((follows.next_due(), leads.next_due()), (Nanos(107), Nanos(107)));
    }

    #[test]
    fn what_was_passed_stays_passed() {
        let repeated = set_phase(InstrumentId(1), Phase::Halt);
        let table = || Timetable::open_with_a_call().every(100, repeated);
        let mut passed = table();
        let start = passed.due[0].1;
        passed.passed(Nanos(7), &start);
        passed.passed(Nanos(9), &named(repeated));
        let mut bytes = Vec::new();
        passed.pack(&mut Packer::new(&mut bytes));
        let mut other = table();
        assert_eq!(other.unpack(&mut Unpacker::new(&bytes)), Some(()));
        assert_eq!((&other.due, other.repeated[0].next), (&passed.due, Nanos(109)));
        assert_eq!(Timetable::empty().unpack(&mut Unpacker::new(&bytes)), None);
        assert_eq!(Timetable::open_with_a_call().unpack(&mut Unpacker::new(&bytes)), None);
        assert_eq!(table().unpack(&mut Unpacker::new(&bytes[..20])), None);
        // Commands tell timetables apart, times don't.
        let digests = [table(), table().every(100, repeated), Timetable::open_at_once()];
        let [a, b, c] = digests.map(|table| table.digest());
        assert!(a != b && a != c && b != c);
        let halt = set_phase(InstrumentId(2), Phase::Halt);
        let at = |due| Timetable::empty().at(Nanos(due), halt).digest();
        assert_eq!(at(5), at(6));
    }

    #[test]
    fn a_venue_follows_its_own_clock() {
        let hour = 3_600 * Nanos::SECOND;
        let times = DayTimes {
            pre_open: 7 * hour,
            opening_call: 8 * hour,
            open: 9 * hour,
            closing_call: 17 * hour,
            close: 18 * hour,
            end: 19 * hour,
            indicative_every_ns: 0,
        };
        let plan = Plan { weekdays: Plan::ALL_DAYS, ..Plan::with_auctions(&times) };
        let days = Schedule::new(plan, Zone::utc(), Nanos(24 * hour)).expect("a sound plan");
        let mut table = Timetable::empty().with_schedule(days);
        let mut seen = Vec::new();
        for _ in 0..7 {
            let due = table.next_due();
            seen.extend(table.pop(due, |_| true).map(|command| (due.0 / hour, command.kind)));
        }
        let phase = CommandKind::SetPhase;
        let first = [(31, CommandKind::ExpireOrders), (31, CommandKind::StartOfDay), (32, phase)];
        assert_eq!(seen[..3], first);
        let last = [(33, phase), (41, phase), (42, phase), (43, CommandKind::EndOfDay)];
        assert_eq!(seen[3..], last);
        assert_eq!(table.next_due(), Nanos(55 * hour));
    }

    #[test]
    fn a_new_tree_is_due_once() {
        let shape = TreeShape { depth: 2, fanout: 5 };
        let mut table = Timetable::empty().change_tree_at(Nanos(7), shape);
        assert_eq!((table.next_due(), table.pop_tree(Nanos(6))), (Nanos(7), None));
        assert_eq!(table.pop(Nanos(9), |_| true), None);
        assert_eq!(table.pop_tree(Nanos(7)), Some(shape));
        assert_eq!((table.next_due(), table.pop_tree(Nanos(9))), (Nanos::NEVER, None));
    }

    #[test]
    fn what_repeats_is_passed_over_without_a_call() {
        let publish = Command::new(CommandKind::PublishIndicative);
        let mut table = Timetable::empty().every(10, publish);
        assert_eq!(table.pop(Nanos(5), |_| false), None);
        assert_eq!(table.next_due(), Nanos(15));
        assert!(table.pop(Nanos(15), |_| true).is_some());
        assert_eq!(table.pop(Nanos(20), |_| true), None);
        assert_eq!(table.next_due(), Nanos(25));
    }
}
