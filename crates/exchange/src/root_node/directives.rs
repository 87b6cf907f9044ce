//! Operators' commands for all shards: the first shard's root gives each a number, passes it on to shards
//! that lack it, and hears what their engines made of it.
//!
//! Outcomes in a datagram: per command its number u32, 0 for carried out or 1 for refused, three zeros.

use engine::{Applied, DIRECTIVES_KEPT};
use types::{ClockReading, Command, Nanos, Outbox, ShardId};
use zerocopy::{IntoBytes, TryFromBytes};

use super::Root;
use super::shards::{HEADER, Kind, TAG};

/// Shortest time between two times that the same command is passed on to the same shard.
const DIRECT_NS: u64 = 10 * Nanos::MILLI;
/// Outcomes that are kept and told: of as many commands as shards keep.
const OUTCOMES: usize = DIRECTIVES_KEPT;
/// Bytes of an outcome.
const OUTCOME: usize = 8;
/// How often a new outcome is told.
const REPEATS: u32 = 10;

/// Outcomes of the newest commands for all shards, as one shard's engine has them: number, and whether it
/// was carried out.
#[derive(Clone, Copy)]
pub(super) struct DirectiveOutcomes([(u32, bool); OUTCOMES]);

impl Default for DirectiveOutcomes {
    fn default() -> DirectiveOutcomes {
        DirectiveOutcomes([(0, false); OUTCOMES])
    }
}

impl DirectiveOutcomes {
    /// Whether the command with this number was carried out; `None`: not known, or not any more.
    fn of(&self, number: u32) -> Option<bool> {
        self.0.iter().find(|(of, _)| *of == number && *of > 0).map(|(_, done)| *done)
    }

    fn note(&mut self, number: u32, done: bool) {
        let place = &mut self.0[number as usize % OUTCOMES];
        if number > place.0 {
            *place = (number, done);
        }
    }

    /// Takes what a datagram says; false for anything that is none.
    pub(super) fn hear(&mut self, rest: &[u8]) -> bool {
        let read = |bytes: &[u8]| match bytes {
            [a, b, c, d, refused @ (0 | 1), 0, 0, 0] => {
                Some((u32::from_le_bytes([*a, *b, *c, *d]), *refused == 0))
            }
            _ => None,
        };
        let all: Option<Vec<_>> = (rest.len() <= OUTCOMES * OUTCOME)
            .then(|| rest.chunks(OUTCOME).map(read).collect())
            .flatten();
        let Some(all) = all else { return false };
        all.into_iter().for_each(|(number, done)| self.note(number, done));
        true
    }

    /// Those that there are.
    fn known(&self) -> impl Iterator<Item = &(u32, bool)> {
        self.0.iter().filter(|(number, _)| *number > 0)
    }
}

fn write<'a>(outcomes: impl Iterator<Item = &'a (u32, bool)>, buffer: &mut Vec<u8>) {
    for (number, done) in outcomes {
        buffer.extend_from_slice(&number.to_le_bytes());
        buffer.extend_from_slice(&[u8::from(!done), 0, 0, 0]);
    }
}

/// What this shard's engine made of them, and how often that is still to be told.
#[derive(Default)]
pub(super) struct OwnOutcomes {
    outcomes: DirectiveOutcomes,
    repeats: u32,
}

impl OwnOutcomes {
    /// A command with a number was applied.
    pub(super) fn note(&mut self, number: u32, applied: Applied) {
        // One that was carried out before, or comes too early, says nothing of it.
        if matches!(applied, Applied::Done | Applied::Refused) {
            self.outcomes.note(number, applied == Applied::Done);
            self.repeats = REPEATS;
        }
    }
}

/// Why a command is not passed to all shards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DirectError {
    /// Another root of the group leads, or the session has ended.
    Follows,
    /// The first shard's root gives the numbers: ask that one.
    NotFirst,
    /// This shard has not carried out the last commands, as many as are kept for it.
    Behind(ShardId),
    /// The log is full, or the command is none of an operator's.
    Refused,
}

impl std::fmt::Display for DirectError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DirectError::Follows => f.write_str("another root leads, or the session has ended"),
            DirectError::NotFirst => f.write_str(
                "commands for all shards get their numbers from the first shard: ask its leader",
            ),
            DirectError::Behind(shard) => write!(
                f,
                "shard {shard} has not carried out the last {DIRECTIVES_KEPT} commands for all \
                 shards: no more are taken until it has"
            ),
            DirectError::Refused => f.write_str("the log is full, or it is no operator's command"),
        }
    }
}

impl std::error::Error for DirectError {}

impl Root {
    /// Whether a shard's engine has carried out the command for all with this number, or refused it; `None` where
    /// that is not known: it was not heard of, or the command is none of the newest 64.
    pub fn directed(&self, shard: ShardId, number: u32) -> Option<bool> {
        match self.engine.config().shard == shard {
            true => self.outcomes.directed.outcomes.of(number),
            false => {
                self.shards.as_ref()?.neighbours.get(usize::from(shard.0))?.outcomes.of(number)
            }
        }
    }

    /// Tells the first shard what the engine made of new commands for all.
    pub(super) fn tell_outcomes(&mut self, directive: u32, out: &mut Outbox) {
        let Root { shards: Some(shards), outcomes, .. } = self else { return };
        let OwnOutcomes { outcomes, repeats } = &mut outcomes.directed;
        if *repeats > 0 {
            *repeats -= 1;
            let most = (shards.datagram_max.saturating_sub(HEADER + TAG) / OUTCOME).max(1);
            let mut known = outcomes.known().peekable();
            while known.peek().is_some() {
                let fill = |buffer: &mut Vec<u8>| write(known.by_ref().take(most), buffer);
                shards.send((ShardId(0), Kind::Outcomes), directive, fill, out);
            }
        }
    }

    /// Gives an operator's command to all shards: it gets the next number, which the log keeps, and each
    /// shard carries it out once, in the order of the numbers. In a venue of one shard as
    /// [`Root::operator`]. The number, or 0 there.
    ///
    /// # Errors
    /// [`DirectError`]; nothing happens then.
    pub fn direct(
        &mut self,
        now: ClockReading,
        command: Command,
        out: &mut Outbox,
    ) -> Result<u32, DirectError> {
        if self.follows() || self.schedule.ended {
            return Err(DirectError::Follows);
        }
        let carried_out = self.engine.directive();
        let number = match &self.shards {
            None => 0,
            Some(shards) if shards.me != ShardId(0) => return Err(DirectError::NotFirst),
            Some(shards) => {
                let number = carried_out.max(shards.directing).saturating_add(1);
                let behind = |known: &&(ShardId, u32)| {
                    number.saturating_sub(known.1) > DIRECTIVES_KEPT as u32
                };
                let neighbours = (0..).map(ShardId).zip(&shards.neighbours).skip(1);
                let known: Vec<_> = neighbours.map(|(id, known)| (id, known.directive)).collect();
                if let Some((shard, _)) = known.iter().find(behind) {
                    return Err(DirectError::Behind(*shard));
                }
                number
            }
        };
        let logged = self.log.len();
        let command = Command { session_seq: number, ..command };
        let _ = self.command(now, command, out);
        if self.log.len() == logged {
            return Err(DirectError::Refused);
        }
        if let Some(shards) = &mut self.shards {
            shards.directing = number;
        }
        self.pump(now, out);
        Ok(number)
    }

    /// The first shard passes on the next command for all.
    pub(super) fn hear_direct(&mut self, now: ClockReading, from: ShardId, rest: &[u8]) -> bool {
        let Ok(command) = Command::try_read_from_bytes(rest) else { return false };
        let next = self.engine.directive().saturating_add(1);
        let Some(shards) = &self.shards else { return false };
        if from != ShardId(0) || command.session_seq == 0 {
            return false;
        }
        let new = command.session_seq == next && shards.directing < next;
        if new
            && self.record(now, command)
            && let Some(shards) = &mut self.shards
        {
            shards.directing = next;
        }
        true
    }

    /// As the first shard passes the next command on to another one that lacks it; `own` is how many this
    /// one has carried out.
    pub(super) fn pass_directive(
        &mut self,
        now: ClockReading,
        (to, own): (ShardId, u32),
        out: &mut Outbox,
    ) {
        let Root { shards: Some(shards), engine, .. } = self else { return };
        let Some(known) = shards.neighbours.get_mut(usize::from(to.0)) else { return };
        let due = now.now.since(known.directed) >= DIRECT_NS;
        if shards.me != ShardId(0) || known.directive >= own || !due {
            return;
        }
        known.directed = now.now;
        let next = known.directive.saturating_add(1);
        if let Some(command) = engine.directive_at(next) {
            let fill = |buffer: &mut Vec<u8>| buffer.extend_from_slice(command.as_bytes());
            shards.send((to, Kind::Direct), own, fill, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_told_and_the_newest_are_kept() {
        let mut own = OwnOutcomes::default();
        own.note(3, Applied::Done);
        own.note(3, Applied::DuplicateRequest);
        own.note(4, Applied::Refused);
        let bytes = |own: &OwnOutcomes| {
            let mut bytes = Vec::new();
            write(own.outcomes.known(), &mut bytes);
            bytes
        };
        let mut told = DirectiveOutcomes::default();
        assert!(told.hear(&bytes(&own)) && told.hear(&bytes(&own)));
        assert_eq!(
            [3, 4, 5, 0].map(|number| told.of(number)),
            [Some(true), Some(false), None, None]
        );
        own.note(67, Applied::Refused);
        assert!(told.hear(&bytes(&own)));
        assert_eq!([3, 4, 67].map(|number| told.of(number)), [None, Some(false), Some(false)]);
        // An old datagram takes nothing back.
        assert!(told.hear(&[3, 0, 0, 0, 0, 0, 0, 0]));
        assert_eq!(told.of(67), Some(false));
        for wrong in [&[1, 0, 0, 0, 2, 0, 0, 0][..], &[1, 0, 0, 0, 0, 0, 0, 9], &[1], &[0; 65 * 8]]
        {
            assert!(!told.hear(wrong), "{wrong:?}");
        }
    }
}
