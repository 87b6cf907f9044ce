//! Room for what grows with the day: the input log and the private streams.
//!
//! Neither has an end by default. On spill stores they may be bounded; then, or when a spill store
//! takes no more, the root takes nothing more of participants: their orders wait in the sequencer
//! and at their gateways, unacknowledged, and go on when there is room again. Operators' commands,
//! those of the timetable and cancels for participants that are gone have a reserve
//! ([`InputLog::RESERVE`]). A root that recycles never comes to that: it gives up the oldest part
//! of both. So that what is left of the log can still be replayed, it has a snapshot of the engine
//! kept where each part begins.
//!
//! [`InputLog::RESERVE`]: engine::log::InputLog::RESERVE

use std::collections::VecDeque;

use engine::log::LogFull;
use types::{Nanos, Seq, SpillStore};

use super::Root;

/// Parts of the log in its spill store that a snapshot is kept for each; one of them is given up at
/// a time.
const PARTS: usize = 4;

const _: () = assert!(PARTS > 1, "the part that fills is not the one that is given up");
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

/// How full the spill stores are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fill {
    /// Bytes of the log in its spill store, and the most that there may be; [`u64::MAX`]: any.
    pub log: (u64, u64),
    /// Bytes of the private streams on theirs, and the most.
    pub streams: (u64, u64),
    /// Inputs before the first that was not given up.
    pub given_up: u64,
    /// At that bound the oldest messages of the private streams go.
    pub streams_recycle: bool,
    /// There is no room: orders wait.
    pub held_back: bool,
}

/// Bounds of the log and the private streams in their spill stores, and who gives up their oldest
/// part.
#[derive(Default)]
pub(super) struct Room {
    recycler: Option<Recycler>,
    /// Most bytes of the streams, and whether their oldest messages go at that.
    streams_max: Option<u64>,
    streams_recycle: bool,
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
    /// The oldest part should have gone, and the spill store did not give its room back yet.
    owes: bool,
    bytes: Vec<u8>,
}

impl Root {
    /// Spills the log and the private streams in spill stores as they grow, and keeps the newest
    /// `inputs` and `reports` of them in memory; see [`InputLog::spill_to`] and
    /// [`PrivateStreams::spill_to`]. False when there are inputs already. A capacity of the log, if
    /// it has one, stays the bound of both.
    ///
    /// [`InputLog::spill_to`]: engine::log::InputLog::spill_to
    /// [`PrivateStreams::spill_to`]: overlay::private_sender::PrivateStreams::spill_to
    #[must_use]
    pub fn spill_to(
        &mut self,
        (log, inputs): (Box<dyn SpillStore>, usize),
        (streams, reports): (Box<dyn SpillStore>, u64),
    ) -> bool {
        self.log.spill_to(log, inputs) && self.private.spill_to(streams, reports)
    }

    /// The same for a root whose inputs somebody else keeps: memory holds the newest alone.
    #[must_use]
    pub fn spill_streams_to(
        &mut self,
        inputs: usize,
        (streams, reports): (Box<dyn SpillStore>, u64),
    ) -> bool {
        self.log.keep_newest(inputs);
        self.log.is_empty() && self.private.spill_to(streams, reports)
    }

    /// Spills the rest of the log, if it is spilled; the root must be given nothing after that.
    ///
    /// # Errors
    /// [`LogFull`] when the spill store does not take it.
    pub fn finish_log(&mut self) -> Result<(), LogFull> {
        self.log.finish()
    }

    /// Bounds what is spilled: so many inputs of the log, and so many bytes of the private streams.
    /// With `snapshots` the oldest of both goes at that, else no more is taken. After
    /// [`Root::spill_to`], before the first input.
    pub fn bound_spills(
        &mut self,
        inputs: usize,
        streams: u64,
        snapshots: Option<Box<dyn Snapshots>>,
    ) {
        self.log.bound_spill(inputs);
        self.bound_streams(streams, snapshots.is_some());
        let part = (inputs / PARTS).max(1) as u64;
        self.room.recycler = snapshots.map(|snapshots| Recycler {
            snapshots,
            part,
            next_at: part,
            known: VecDeque::with_capacity(PARTS + 2),
            owes: false,
            bytes: Vec::new(),
        });
    }

    /// Bounds the private streams alone: so many bytes in their spill store. At that, the oldest messages
    /// of the longest stream go (`recycle`), or no more is taken. Which messages go follows from the log,
    /// so all replicas of a group, bounded alike, can answer the same. Before the first input.
    pub fn bound_streams(&mut self, bytes: u64, recycle: bool) {
        self.private.bound_spill(bytes, recycle);
        (self.room.streams_max, self.room.streams_recycle) = (Some(bytes), recycle);
    }

    /// How full the spill stores are.
    pub fn fill(&self) -> Fill {
        let ((spilled, most), record) =
            (self.log.in_spill_store(), size_of::<types::Input>() as u64);
        Fill {
            log: (spilled as u64 * record, (most as u64).saturating_mul(record)),
            streams: (self.private.in_spill_store(), self.room.streams_max.unwrap_or(u64::MAX)),
            given_up: self.log.given_up() as u64,
            streams_recycle: self.room.streams_recycle,
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
        let Some(Recycler { next_at, owes, .. }) = self.room.recycler else { return };
        if applied >= next_at {
            self.begin_part(applied);
        } else if owes {
            self.give_up();
        }
    }

    /// A start outran its disk: waits for it, and gives up what could not go before. False where there
    /// is nothing to wait for.
    #[cold]
    pub(super) fn wait_for_room(&mut self) -> bool {
        if !self.log.flush_spill() {
            return false;
        }
        let applied = self.engine.applied();
        let newest = |recycler: &Recycler| recycler.known.back().copied();
        let Some(recycler) = &mut self.room.recycler else { return false };
        if newest(recycler) < Some(applied) {
            recycler.next_at = applied;
        }
        recycler.owes = true;
        self.recycle();
        true
    }

    #[cold]
    fn begin_part(&mut self, applied: u64) {
        let Root { room: Room { recycler: Some(recycler), .. }, engine, .. } = self else {
            return;
        };
        let Recycler { snapshots, part, next_at, known, bytes, .. } = recycler;
        bytes.clear();
        engine.write_snapshot(bytes);
        if !snapshots.keep(applied, bytes) {
            // It is tried again; the bound of the log holds whatever comes of it.
            *next_at = applied + (*part / 16).max(1);
            return;
        }
        assert!(known.back().is_none_or(|last| *last < applied), "snapshots are in order");
        known.push_back(applied);
        *next_at = applied + *part;
        self.give_up();
    }

    /// Gives up parts until another one fits; what the spill store does not do now it is asked for
    /// again.
    #[cold]
    fn give_up(&mut self) {
        let Root { room: Room { recycler: Some(recycler), .. }, log, .. } = self else {
            return;
        };
        let Recycler { snapshots, part, known, owes, .. } = recycler;
        *owes = false;
        loop {
            let (spilled, most) = log.in_spill_store();
            let fits = spilled as u64 + *part <= most as u64;
            let Some(oldest) = known.front().copied().filter(|_| !fits && known.len() > 1) else {
                return;
            };
            if !log.give_up_before(Seq(oldest + 1)) {
                *owes = true;
                return;
            }
            snapshots.forget_before(oldest);
            known.pop_front();
        }
    }
}
