//! After a run: do all books tell the same story?
//!
//! The input log is played through a fresh engine. At every feed position where a listener noted
//! digests, the replayed displayed books must be the listener's, and so must the digest of every
//! byte of the ITCH messages up to there, since not every byte shows in a book. At the end both
//! are compared again, which requires that the listener has heard everything, and the live
//! engine's whole state must be that of the replay.

use std::collections::BTreeMap;

use engine::{ReplayDigests, replay, replay_digests};
use feed::{Listener, StreamDigest};
use types::{FeedSeq, InstrumentId};

use crate::Root;

/// What the audit found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Audit {
    /// Everything agreed, at one position or more.
    pub books_equal: bool,
    /// Positions compared per instrument: the least of all listeners, the end included.
    pub positions: u64,
    /// Digest of the engine's whole state.
    pub state_digest: u64,
    /// Places where a listener's book was not the engine's, the first few.
    pub unequal: Vec<Unequal>,
    /// Other reasons why the books are not called equal, one line each.
    pub problems: Vec<String>,
}

/// A place where a listener's book was not the engine's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unequal {
    /// Index of the listener.
    pub listener: usize,
    /// Which book.
    pub instrument: InstrumentId,
    /// After which message of the feed.
    pub position: FeedSeq,
}

/// Unequal books told at most.
const TOLD_MAX: usize = 20;

/// Compares the root's books with those of listeners of its feed.
pub fn audit<'a>(root: &Root, listeners: impl IntoIterator<Item = &'a Listener>) -> Audit {
    let listeners: Vec<&Listener> = listeners.into_iter().collect();
    let noted = listeners.iter().flat_map(|listener| listener.checkpoints().iter());
    let positions: Vec<FeedSeq> = noted.map(|checkpoint| checkpoint.seq).collect();
    let engine = root.engine();
    let mut audit = Audit {
        books_equal: false,
        positions: 0,
        state_digest: engine.state_digest(),
        unequal: Vec::new(),
        problems: Vec::new(),
    };
    let replay = match replay_digests(engine.config().clone(), root.log().iter(), &positions) {
        Ok(replay) => replay,
        Err(error) => {
            audit.problems.push(format!("the log does not replay: {error}"));
            return audit;
        }
    };
    if replay.state != audit.state_digest || replay.feed_next != engine.feed_next() {
        audit.problems.push("the replayed engine is in another state than the live one".into());
    }
    let streams = stream_digests(root, &positions);
    let mut compared = Vec::with_capacity(listeners.len());
    for (index, listener) in listeners.iter().enumerate() {
        audit.compare_streams(index, listener, &streams);
        let positions = audit.compare_checkpoints(index, listener, &replay);
        compared.push(positions + audit.compare_end(index, listener, &replay));
    }
    audit.positions = compared.into_iter().min().unwrap_or(0);
    audit.books_equal =
        audit.unequal.is_empty() && audit.problems.is_empty() && audit.positions > 0;
    audit
}

/// Digests of all messages of the feed up to each of `positions` and to the end (`None`).
fn stream_digests(root: &Root, positions: &[FeedSeq]) -> BTreeMap<Option<FeedSeq>, u64> {
    let mut wanted: BTreeMap<Option<FeedSeq>, u64> =
        positions.iter().map(|position| (Some(*position), 0)).collect();
    let (mut digest, mut message) = (StreamDigest::default(), Vec::new());
    replay(root.engine().config().clone(), root.log().iter(), |_, input, _, output| {
        for (position, event) in &output.market {
            message.clear();
            // What has no format was not published either; the root counts it.
            let _ = root.itch().encode(event, input.t_seq, &mut message);
            digest.push(&message);
            if let Some(place) = wanted.get_mut(&Some(*position)) {
                *place = digest.value();
            }
        }
    });
    wanted.insert(None, digest.value());
    wanted
}

impl Audit {
    /// The first position at which a listener had heard other bytes is a problem.
    fn compare_streams(
        &mut self,
        index: usize,
        listener: &Listener,
        ours: &BTreeMap<Option<FeedSeq>, u64>,
    ) {
        let noted = listener.checkpoints().iter();
        let noted = noted.map(|checkpoint| (Some(checkpoint.seq), checkpoint.stream));
        let mut all = noted.chain([(None, listener.stream_digest())]);
        let Some((place, _)) = all.find(|(place, theirs)| ours.get(place) != Some(theirs)) else {
            return;
        };
        let place = place.map_or_else(|| "the end".to_string(), |seq| format!("position {seq}"));
        self.problems
            .push(format!("listener {} had heard other bytes by {place} of the feed", index + 1));
    }

    /// Positions of one listener at which all books were equal.
    fn compare_checkpoints(
        &mut self,
        index: usize,
        listener: &Listener,
        replay: &ReplayDigests,
    ) -> u64 {
        let mut equal = 0;
        for checkpoint in listener.checkpoints().iter() {
            let found = replay.at.binary_search_by_key(&checkpoint.seq, |at| at.position);
            let Some(at) = found.ok().and_then(|found| replay.at.get(found)) else {
                self.problems.push(format!(
                    "listener {} heard feed position {}, which the log has not",
                    index + 1,
                    checkpoint.seq
                ));
                continue;
            };
            let theirs = checkpoint.books.iter().copied();
            equal += u64::from(self.compare(index, checkpoint.seq, theirs, &at.digests));
        }
        equal
    }

    /// The end of the feed, which a listener must have heard; 1 when all books are equal there.
    fn compare_end(&mut self, index: usize, listener: &Listener, replay: &ReplayDigests) -> u64 {
        let name = index + 1;
        if let Some((seq, error)) = listener.first_error() {
            self.problems.push(format!("listener {name}, feed position {seq}: {error}"));
        }
        let (kept, books) = (listener.digests().count(), replay.end.len());
        if kept != books {
            self.problems.push(format!("listener {name} keeps {kept} books of {books}"));
            return 0;
        }
        let (heard, all) = (listener.next_seq(), replay.feed_next);
        if heard != all {
            self.problems
                .push(format!("listener {name} heard up to {heard}, the feed is at {all}"));
            return 0;
        }
        let last = FeedSeq(all.0.saturating_sub(1));
        u64::from(self.compare(index, last, listener.digests(), &replay.end))
    }

    fn compare(
        &mut self,
        listener: usize,
        position: FeedSeq,
        theirs: impl Iterator<Item = u64>,
        ours: &[u64],
    ) -> bool {
        let mut equal = true;
        for ((index, ours), theirs) in ours.iter().enumerate().zip(theirs) {
            if *ours != theirs {
                equal = false;
                if self.unequal.len() < TOLD_MAX {
                    let instrument = InstrumentId(index as u16 + 1);
                    self.unequal.push(Unequal { listener, instrument, position });
                }
            }
        }
        equal
    }
}
