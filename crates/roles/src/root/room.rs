//! Room for what grows with the day: the input log and the private streams.
//!
//! Neither has an end by default. On shelves they may be bounded; then, or when a shelf takes no
//! more, the root takes nothing more of participants: their orders wait in the sequencer and at
//! their gateways, unacknowledged, and go on when there is room again. Operators' commands, those of
//! the timetable and cancels for participants that are gone have a reserve ([`InputLog::RESERVE`]).
//! A root that recycles never comes to that: it gives up the oldest part of both. So that what is
//! left of the log can still be replayed, it has a snapshot of the engine kept where each part begins.
//!
//! [`InputLog::RESERVE`]: engine::log::InputLog::RESERVE

use std::collections::VecDeque;

use engine::log::LogFull;
use types::{Nanos, Seq, Shelf};

use super::Root;

/// Parts of the log on its shelf that a snapshot is kept for each; one of them is given up at a time.
const PARTS: usize = 4;
/// How long a root without room waits before it tries again, ns.
const RETRY_NS: u64 = 10 * Nanos::MILLI;

/// Where snapshots of the engine are kept, for the log of a root that recycles.
pub trait Snapshots: Send {
    /// Keeps the one that stands for so many inputs; false when it can't.
    #[must_use]
    fn keep(&mut self, applied: u64, snapshot: &[u8]) -> bool;

    /// Those that stand for fewer inputs are of no use any more.
    fn forget_before(&mut self, applied: u64);
}

/// How full the shelves are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fill {
    /// Bytes of the log on its shelf, and the most that there may be; [`u64::MAX`]: any.
    pub log: (u64, u64),
    /// Bytes of the private streams on theirs, and the most.
    pub streams: (u64, u64),
    /// Inputs before the first that was not given up.
    pub given_up: u64,
    /// There is no room: orders wait.
    pub held_back: bool,
}

/// Bounds of the log and the private streams on their shelves, and who gives up their oldest part.
#[derive(Default)]
pub(super) struct Room {
    recycler: Option<Recycler>,
    /// Most bytes of the streams.
    streams_max: Option<u64>,
    /// There was none when it was asked for last; when to look again.
    retry_at: Option<Nanos>,
}

struct Recycler {
    snapshots: Box<dyn Snapshots>,
    /// Inputs of a part, and at which number the next one begins.
    part: u64,
    next_at: u64,
    /// Inputs that the snapshots kept stand for, in order.
    known: VecDeque<u64>,
    bytes: Vec<u8>,
}

impl Root {
    /// Lays the log and the private streams down on shelves as they grow, and keeps the newest
    /// `inputs` and `reports` of them in memory; see [`InputLog::lay_down`] and
    /// [`PrivateStreams::lay_down`]. False when there are inputs already. A capacity of the log, if
    /// it has one, stays the bound of both.
    ///
    /// [`InputLog::lay_down`]: engine::log::InputLog::lay_down
    /// [`PrivateStreams::lay_down`]: overlay::private_sender::PrivateStreams::lay_down
    #[must_use]
    pub fn lay_down(
        &mut self,
        (log, inputs): (Box<dyn Shelf>, usize),
        (streams, reports): (Box<dyn Shelf>, u64),
    ) -> bool {
        self.log.lay_down(log, inputs) && self.private.lay_down(streams, reports)
    }

    /// The same for a root whose inputs somebody else keeps: memory holds the newest alone.
    #[must_use]
    pub fn lay_down_streams(
        &mut self,
        inputs: usize,
        (streams, reports): (Box<dyn Shelf>, u64),
    ) -> bool {
        self.log.keep_newest(inputs);
        self.log.is_empty() && self.private.lay_down(streams, reports)
    }

    /// Lays the rest of the log down, if it is laid down; the root must be given nothing after that.
    ///
    /// # Errors
    /// [`LogFull`] when the shelf does not take it.
    pub fn finish_log(&mut self) -> Result<(), LogFull> {
        self.log.finish()
    }

    /// Bounds what is laid down: so many inputs of the log, and so many bytes of the private streams.
    /// With `snapshots` the oldest of both goes at that, else no more is taken. After
    /// [`Root::lay_down`], before the first input.
    pub fn bound_shelves(
        &mut self,
        inputs: usize,
        streams: u64,
        snapshots: Option<Box<dyn Snapshots>>,
    ) {
        self.log.bound_shelf(inputs);
        self.private.bound_shelf(streams, snapshots.is_some());
        let part = (inputs / PARTS).max(1) as u64;
        self.room.streams_max = Some(streams);
        self.room.recycler = snapshots.map(|snapshots| Recycler {
            snapshots,
            part,
            next_at: part,
            known: VecDeque::with_capacity(PARTS + 2),
            bytes: Vec::new(),
        });
    }

    /// How full the shelves are.
    pub fn fill(&self) -> Fill {
        let ((laid, most), record) = (self.log.on_shelf(), size_of::<types::Input>() as u64);
        Fill {
            log: (laid as u64 * record, (most as u64).saturating_mul(record)),
            streams: (self.private.on_shelf(), self.room.streams_max.unwrap_or(u64::MAX)),
            given_up: self.log.given_up() as u64,
            held_back: self.room.retry_at.is_some(),
        }
    }

    /// Whether another input of a participant can be taken.
    #[inline]
    pub(super) fn has_room(&mut self) -> bool {
        self.log.has_room() && self.private.has_room()
    }

    /// Notes whether orders have to wait for room.
    pub(super) fn note_room(&mut self, now: Nanos) {
        let waits = !self.has_room();
        self.counters.held_back += u64::from(waits && self.room.retry_at.is_none());
        self.room.retry_at = waits.then(|| now + RETRY_NS);
    }

    /// When what is due at a time can be taken.
    pub(super) fn room_at(&self, due: Nanos) -> Nanos {
        match self.room.retry_at {
            Some(at) if due != Nanos::NEVER => due.max(at),
            _ => due,
        }
    }

    /// Gives up the oldest part of the log before there is no room for another one.
    #[inline]
    pub(super) fn recycle(&mut self) {
        let applied = self.engine.applied();
        if self.room.recycler.as_ref().is_some_and(|recycler| applied >= recycler.next_at) {
            self.begin_part(applied);
        }
    }

    #[cold]
    fn begin_part(&mut self, applied: u64) {
        let Root { room: Room { recycler: Some(recycler), .. }, engine, log, .. } = self else {
            return;
        };
        let Recycler { snapshots, part, next_at, known, bytes } = recycler;
        bytes.clear();
        engine.write_snapshot(bytes);
        if !snapshots.keep(applied, bytes) {
            // It is tried again; the bound of the log holds whatever comes of it.
            *next_at = applied + (*part / 16).max(1);
            return;
        }
        known.push_back(applied);
        *next_at = applied + *part;
        loop {
            let (laid, most) = log.on_shelf();
            let fits = laid as u64 + *part <= most as u64;
            let Some(oldest) = known.front().copied().filter(|_| !fits && known.len() > 1) else {
                return;
            };
            if !log.give_up_before(Seq(oldest + 1)) {
                return;
            }
            snapshots.forget_before(oldest);
            known.pop_front();
        }
    }
}
