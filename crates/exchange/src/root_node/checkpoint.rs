//! A root written down at a position of its log, and taken up again: what it would be had it
//! applied all inputs up to there, without applying them.
//!
//! It holds everything that follows from applied inputs and lies on no spill store: the engine,
//! lengths and places of the private streams with the chunks that fill, the feed's numbers, the
//! packet that fills and where the retransmission store begins, lives of gateways, how much of the
//! timetable is done, the day's record, the last input. Older messages of private streams and of
//! the feed stay on their spill stores ([`Root::spill_output_to`]), older inputs in whoever's
//! journal.
//!
//! Left out is what does not follow from the log: who has which stream attached, acknowledgements
//! that are owed, delays, dead proxies. A root that has just followed does not have these either.
//!
//! Bytes, little-endian: magic `FBROOTCP` · version u32 · rules version u32 · digest of the
//! configuration · digest of the timetable's commands · applied position · parts in a fixed order ·
//! their digest · the engine's own snapshot, which has its own, as a section that ends the whole.

use engine::{Engine, RULES_VERSION, SnapshotError, digest_of};
use types::{Incarnation, Packer, Seq, SpillStore, Unpacker};

use super::Root;
use crate::DayRecord;

const MAGIC: &[u8; 8] = b"FBROOTCP";
const VERSION: u32 = 4;

/// Why a root can't be taken up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckpointError {
    /// It does not begin as one does.
    Magic,
    /// Another version of it.
    Version(u32),
    /// Of other rules, another configuration or another timetable.
    Unfit,
    /// It ends early, holds what no root writes, or its spill stores do not hold what they did, at
    /// this byte.
    Damaged(usize),
    /// The engine's part.
    Engine(SnapshotError),
    /// The root has inputs of its own, or no spill stores.
    Started,
}

impl std::fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CheckpointError::Magic => f.write_str("this is no checkpoint of a root"),
            CheckpointError::Version(version) => {
                write!(f, "version {version} of checkpoints is not known")
            }
            CheckpointError::Unfit => {
                f.write_str("it is of other rules, another configuration or timetable")
            }
            CheckpointError::Damaged(at) => {
                write!(f, "it is damaged at byte {at}, or the files beside it do not go with it")
            }
            CheckpointError::Engine(error) => error.fmt(f),
            CheckpointError::Started => f.write_str("the root has begun, or has no spill stores"),
        }
    }
}

impl std::error::Error for CheckpointError {}

impl Root {
    /// Spills what it has said and may be asked for again: private streams, of which the newest
    /// `reports` stay in memory, and each stream of the feed. Then it can be written down. Of its
    /// inputs the newest `inputs` stay in memory: its journal has them all. False when there are
    /// inputs already, or there is not a spill store for each stream of the feed; the root must not
    /// be used then.
    #[must_use]
    pub fn spill_output_to(
        &mut self,
        (streams, reports): (Box<dyn SpillStore>, u64),
        feeds: Vec<Box<dyn SpillStore>>,
        inputs: usize,
    ) -> bool {
        self.log.keep_newest(inputs);
        let spills = self.log.is_empty()
            && self.private.spill_to(streams, reports)
            && self.downlinks.spill_to(feeds);
        self.private.free_behind_checkpoints();
        spills
    }

    /// Most inputs and messages of private streams that it keeps in memory.
    pub fn memory_max(&self) -> (usize, u64) {
        (self.log.memory_max(), self.private.memory_max())
    }

    /// What [`Root::checkpoint`] wrote last is kept: of what is given up of private streams, room is given
    /// back that the one before the last knew of.
    pub fn written_down(&mut self) {
        self.private.written_down();
    }

    /// Appends what it is after the last input that it has applied. What is in its spill stores by
    /// now has to last as long. False, with anything appended, when it has applied nothing, has no
    /// spill stores, or these take nothing at the moment.
    #[must_use]
    pub fn checkpoint(&self, out: &mut Vec<u8>) -> bool {
        self.assert_applied();
        let from = out.len();
        let mut to = Packer::new(out);
        to.raw(MAGIC);
        to.u32(VERSION);
        to.u32(RULES_VERSION);
        to.u64(self.engine.config().digest());
        to.u64(self.schedule.configured);
        to.u64(self.engine.applied());
        let logged = self.log.pack(Seq(self.engine.applied()), &mut to);
        self.schedule.logged.pack(&mut to);
        to.count(self.inbound.granted.len());
        for granted in &self.inbound.granted {
            to.u8(u8::from(granted.is_some()));
            let (nonce, incarnation) = granted.unwrap_or_default();
            to.u32(nonce);
            to.u32(incarnation.0);
        }
        self.schedule.day.pack(&mut to);
        to.u64(self.counters.unencodable);
        let fed = self.downlinks.pack(&mut to);
        let told = self.private.pack(&mut to);
        if !logged || !fed || !told {
            return false;
        }
        let digest = digest_of(out.get(from..).unwrap_or(&[]));
        let mut to = Packer::new(out);
        to.u64(digest);
        to.section(|bytes| self.engine.write_snapshot(bytes));
        true
    }

    /// Becomes what another root of this exchange was when it was written down. New, with spill
    /// stores that hold what those did then, and perhaps more, and before it joins a group.
    ///
    /// # Errors
    /// [`CheckpointError`]; the root must not be used then.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<(), CheckpointError> {
        let mut from = Unpacker::new(bytes);
        if from.raw(MAGIC.len()).ok_or(CheckpointError::Magic)? != MAGIC {
            return Err(CheckpointError::Magic);
        }
        if !self.log.is_empty() {
            return Err(CheckpointError::Started);
        }
        match from.u32() {
            Some(VERSION) => {}
            Some(version) => return Err(CheckpointError::Version(version)),
            None => return Err(CheckpointError::Damaged(from.at())),
        }
        let known = (from.u32(), from.u64(), from.u64());
        let own = (RULES_VERSION, self.engine.config().digest(), self.schedule.configured);
        if known != (Some(own.0), Some(own.1), Some(own.2)) {
            return Err(CheckpointError::Unfit);
        }
        let read = self.restore_parts(&mut from);
        let (applied, parts) = read.ok_or(CheckpointError::Damaged(from.at()))?;
        let digest = from.u64();
        if digest != Some(digest_of(bytes.get(..parts).unwrap_or(&[]))) {
            return Err(CheckpointError::Damaged(parts));
        }
        let section = from.section().filter(|_| from.end().is_some());
        let section = section.ok_or(CheckpointError::Damaged(from.at()))?;
        let config = self.engine.config().clone();
        self.engine = Engine::read_snapshot(config, section).map_err(CheckpointError::Engine)?;
        let fits = self.engine.applied() == applied
            && self.log.len() as u64 == applied
            && (self.downlinks.router().next().len() > 1
                || self.downlinks.router().next().first() == Some(&self.engine.feed_next()));
        if fits { Ok(()) } else { Err(CheckpointError::Damaged(parts)) }
    }

    /// The parts before the engine: the position they are of, and where they end.
    fn restore_parts(&mut self, from: &mut Unpacker<'_>) -> Option<(u64, usize)> {
        let applied = from.u64()?;
        self.log.unpack(from)?;
        self.schedule.logged.unpack(from)?;
        self.schedule.planned = self.schedule.logged.clone();
        if from.count(9)? != self.inbound.granted.len() {
            return None;
        }
        for granted in &mut self.inbound.granted {
            let (known, nonce, incarnation) = (from.bool()?, from.u32()?, from.u32()?);
            if !known && (nonce, incarnation) != (0, 0) {
                return None;
            }
            *granted = known.then_some((nonce, Incarnation(incarnation)));
        }
        self.schedule.day = DayRecord::unpack(from)?;
        self.counters.unencodable = from.u64()?;
        self.downlinks.unpack(from)?;
        self.private.unpack(from)?;
        Some((applied, from.at()))
    }
}
