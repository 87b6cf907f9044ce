//! After a run: do all books tell the same story?
//!
//! The input log is played through a fresh engine. At every feed position where a listener noted
//! digests, the replayed displayed books must be the listener's, and so must the digest of every
//! byte of the ITCH messages up to there, since not every byte shows in a book. At the end both
//! are compared again, which requires that the listener has heard everything, and the live
//! engine's whole state must be that of the replay.
//!
//! A listener that joined by a snapshot has not heard the bytes before it. Its books are compared
//! like all others, its bytes only from where it last joined, and [`Audit::joined`] says so.
//!
//! Inputs are read one by one from wherever they are ([`Past`]). Where the oldest were given up, the
//! replay begins with a snapshot of the engine: books are compared from there on, bytes of the feed
//! are not, and [`Audit::since`] says so.

use std::collections::BTreeMap;

use engine::{Engine, ReplayDigests, replay_digests_from, replay_from};
use feed::{Joined, Listener, StreamDigest};
use overlay::publisher::Publisher;
use types::{FeedSeq, Input, InstrumentId};

use crate::{Root, StreamRouter};

/// What the audit found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Audit {
    /// Everything agreed, at one position or more.
    pub books_equal: bool,
    /// Positions compared per instrument: the least of all listeners that heard the feed from its
    /// first message on (of all, where there is none), the end included.
    pub positions: u64,
    /// Digest of the engine's whole state.
    pub state_digest: u64,
    /// Places where a listener's book was not the engine's, the first few.
    pub unequal: Vec<Unequal>,
    /// Other reasons why the books are not called equal, one line each.
    pub problems: Vec<String>,
    /// Inputs that a snapshot stood for, because the log has them no more: nothing before the events
    /// of these was compared, and no bytes of the feed.
    pub since: u64,
    /// Listeners that joined by a snapshot, whose digest of all bytes of the feed can't be had.
    pub joined: Vec<JoinedLate>,
}

/// A listener that joined by a snapshot, and what of it was compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JoinedLate {
    /// Index of the listener.
    pub listener: usize,
    /// Index of the stream.
    pub stream: usize,
    /// Where it joined.
    pub joined: Joined,
    /// Positions behind the first snapshot at which all its books were equal, the end included.
    pub positions: u64,
}

impl std::fmt::Display for JoinedLate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Joined { first, last, times } = self.joined;
        let (listener, positions) = (self.listener + 1, self.positions);
        let stream = match self.stream {
            0 => String::new(),
            other => format!(", stream {}", other + 1),
        };
        write!(
            f,
            "listener {listener}{stream} joined by snapshot at {first}, {times} in all: books compared at \
             {positions} positions since, bytes of the feed only from {last} on"
        )
    }
}

/// A place where a listener's book was not the engine's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unequal {
    /// Index of the listener.
    pub listener: usize,
    /// Which book.
    pub instrument: InstrumentId,
    /// After which message of the stream that carries it.
    pub position: FeedSeq,
}

/// Unequal books told at most.
const TOLD_MAX: usize = 20;

/// Where a root's inputs are.
pub struct Past<'a> {
    /// The engine before the first of them; `None`: a new one.
    pub start: Option<Engine>,
    /// Reads them, from the first on.
    pub inputs: &'a dyn Fn() -> Box<dyn Iterator<Item = Input> + 'a>,
}

impl Past<'_> {
    fn engine(&self, root: &Root) -> Engine {
        let anew = || Engine::new(root.engine().config().clone());
        self.start.as_ref().map_or_else(anew, Engine::clone)
    }

    /// As it was before the first of them: of what it has dealt, they account for some.
    fn router(&self, root: &Root) -> StreamRouter {
        let mut router = root.router().anew();
        if self.start.is_none() {
            return router;
        }
        replay_from(self.engine(root), (self.inputs)(), |_, _, _, output| {
            output.market.iter().for_each(|(_, event)| router.deal(event, |_, _| {}));
        });
        root.router().before(&router)
    }
}

/// Compares the root's books with those of listeners of its feed, each with a client per stream.
pub fn audit<'a>(root: &Root, listeners: impl IntoIterator<Item = &'a [Listener]>) -> Audit {
    let inputs = || Box::new(root.applied()) as Box<dyn Iterator<Item = Input>>;
    audit_with(root, &Past { start: None, inputs: &inputs }, listeners)
}

/// As [`audit`], with inputs that are elsewhere.
pub fn audit_with<'a>(
    root: &Root,
    past: &Past<'_>,
    listeners: impl IntoIterator<Item = &'a [Listener]>,
) -> Audit {
    let listeners: Vec<&[Listener]> = listeners.into_iter().collect();
    let engine = root.engine();
    let mut audit = Audit {
        books_equal: false,
        positions: 0,
        state_digest: engine.state_digest(),
        unequal: Vec::new(),
        problems: Vec::new(),
        since: past.start.as_ref().map_or(0, Engine::applied),
        joined: Vec::new(),
    };
    let streams = places(root, past, &listeners, None);
    let positions: Vec<FeedSeq> = streams.values().map(|place| place.position).collect();
    let replay = match replay_digests_from(past.engine(root), (past.inputs)(), &positions) {
        Ok(replay) => replay,
        Err(error) => {
            audit.problems.push(format!("the log does not replay: {error}"));
            return audit;
        }
    };
    let held = (past.inputs)().count() as u64 + audit.since;
    if held != engine.applied() {
        let len = engine.applied();
        audit.problems.push(format!("of the log's {len} inputs {held} can be read"));
    }
    if replay.state != audit.state_digest || replay.feed_next != engine.feed_next() {
        audit.problems.push("the replayed engine is in another state than the live one".into());
    }
    let all = root.router().next().len();
    let begins = past.router(root);
    let mut compared = Vec::with_capacity(listeners.len());
    for (index, clients) in listeners.iter().enumerate() {
        if clients.len() != all {
            let (name, heard) = (index + 1, clients.len());
            audit.problems.push(format!("listener {name} follows {heard} streams of {all}"));
        }
        for (stream, listener) in clients.iter().enumerate().take(all) {
            let ear = Ear { index, stream, several: all > 1, listener };
            match listener.joined() {
                _ if past.start.is_some() => {}
                None => audit.compare_streams((root, &ear), FeedSeq(1), &streams),
                Some(joined) => {
                    let last = ear.position(root, joined.last);
                    let since = places(root, past, &listeners, Some((stream, last)));
                    audit.compare_streams((root, &ear), last, &since);
                }
            }
            let since = listener.joined().map(|joined| ear.position(root, joined.first));
            let since = since.unwrap_or_default();
            let begins = begins.next().get(stream).copied().unwrap_or_default();
            let since = since.max(begins);
            let equal = audit.compare_checkpoints((root, &ear, begins), &streams, &replay);
            let behind = equal.iter().filter(|seq| **seq >= since).count() as u64;
            let positions = behind + audit.compare_end(&ear, root, &replay);
            match listener.joined() {
                None => compared.push(positions),
                Some(joined) => {
                    audit.joined.push(JoinedLate { listener: index, stream, joined, positions });
                }
            }
        }
    }
    let late = audit.joined.iter().map(|late| late.positions).min();
    audit.positions = compared.into_iter().min().or(late).unwrap_or(0);
    audit.books_equal = audit.unequal.is_empty()
        && audit.problems.is_empty()
        && audit.positions > 0
        && late != Some(0);
    audit
}

/// A listener's client of one stream.
struct Ear<'a> {
    index: usize,
    stream: usize,
    /// There are other streams.
    several: bool,
    listener: &'a Listener,
}

impl Ear<'_> {
    /// The stream's position of what the listener counts as a position: it may not have heard the days
    /// before it came.
    fn position(&self, root: &Root, counted: FeedSeq) -> FeedSeq {
        let sessions = root.publishers().nth(self.stream).map(Publisher::session);
        let offset = self.listener.next_seq().0 - self.listener.session_next().0;
        match sessions.filter(|session| session.name() == self.listener.session().0) {
            Some(session) => FeedSeq((counted.0 + session.base()).saturating_sub(offset)),
            None => counted,
        }
    }
}

impl std::fmt::Display for Ear<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "listener {}", self.index + 1)?;
        if self.several { write!(f, ", stream {}", self.stream + 1) } else { Ok(()) }
    }
}

/// What there is at a place of a stream.
#[derive(Clone, Copy, Default)]
struct Place {
    /// The engine's position of the event there; 0 when the log does not come so far.
    position: FeedSeq,
    /// Digest of all messages of the stream up to there.
    digest: u64,
}

/// By stream: the places at which somebody noted digests, and the end (`None`).
type Places = BTreeMap<(usize, Option<FeedSeq>), Place>;

/// With `from`, the digests of that stream begin at that message.
fn places(
    root: &Root,
    past: &Past<'_>,
    listeners: &[&[Listener]],
    from: Option<(usize, FeedSeq)>,
) -> Places {
    let mut wanted = Places::new();
    for clients in listeners {
        for (stream, listener) in clients.iter().enumerate() {
            let noted = listener.checkpoints().iter();
            let ear = Ear { index: 0, stream, several: false, listener };
            let placed = noted.map(|at| ear.position(root, at.seq));
            wanted.extend(placed.map(|seq| ((stream, Some(seq)), Place::default())));
        }
    }
    let mut router = past.router(root);
    let mut digests = vec![StreamDigest::default(); router.next().len()];
    let mut message = Vec::new();
    replay_from(past.engine(root), (past.inputs)(), |_, input, _, output| {
        for (position, event) in &output.market {
            message.clear();
            // What has no format was not published either; the root counts it.
            let _ = root.itch().encode(event, input.t_seq, &mut message);
            router.deal(event, |stream, seq| {
                if from.is_none_or(|(of, first)| of != stream || seq >= first) {
                    digests[stream].push(&message);
                }
                if let Some(place) = wanted.get_mut(&(stream, Some(seq))) {
                    *place = Place { position: *position, digest: digests[stream].value() };
                }
            });
        }
    });
    let ends = digests.iter().enumerate().map(|(stream, digest)| {
        let digest = digest.value();
        ((stream, None), Place { digest, ..Place::default() })
    });
    wanted.extend(ends);
    wanted
}

impl Audit {
    /// The first position at which a listener had heard other bytes since `first` is a problem.
    fn compare_streams(&mut self, (root, ear): (&Root, &Ear<'_>), first: FeedSeq, ours: &Places) {
        let noted = ear.listener.checkpoints().iter();
        let noted = noted.map(|noted| (ear.position(root, noted.seq), noted.stream));
        let noted = noted.filter(|(seq, _)| *seq >= first);
        let noted = noted.map(|(seq, stream)| (Some(seq), stream));
        let mut all = noted.chain([(None, ear.listener.stream_digest())]);
        let equal = |place, theirs| {
            ours.get(&(ear.stream, place)).is_some_and(|ours| ours.digest == theirs)
        };
        let Some((place, _)) = all.find(|(place, theirs)| !equal(*place, *theirs)) else {
            return;
        };
        let place = place.map_or_else(|| "the end".to_string(), |seq| format!("position {seq}"));
        self.problems.push(format!("{ear} had heard other bytes by {place} of the feed"));
    }

    /// Positions of one listener, from one on, at which all books were equal.
    fn compare_checkpoints(
        &mut self,
        (root, ear, begins): (&Root, &Ear<'_>, FeedSeq),
        streams: &Places,
        replay: &ReplayDigests,
    ) -> Vec<FeedSeq> {
        let mut equal = Vec::new();
        let noted = ear.listener.checkpoints().iter();
        let noted = noted.map(|noted| (ear.position(root, noted.seq), noted));
        for (seq, checkpoint) in noted.filter(|(seq, _)| *seq >= begins) {
            let place = streams.get(&(ear.stream, Some(seq)));
            let position = place.map_or(FeedSeq(0), |place| place.position);
            let found = replay.at.binary_search_by_key(&position, |at| at.position);
            let found = found.ok().filter(|_| position != FeedSeq(0));
            let Some(at) = found.and_then(|found| replay.at.get(found)) else {
                self.problems
                    .push(format!("{ear} heard feed position {seq}, which the log has not"));
                continue;
            };
            let theirs = checkpoint.books.iter().copied();
            if self.compare(ear, seq, theirs, &at.digests) {
                equal.push(seq);
            }
        }
        equal
    }

    /// The end of the feed, which a listener must have heard; 1 when all books are equal there.
    fn compare_end(&mut self, ear: &Ear<'_>, root: &Root, replay: &ReplayDigests) -> u64 {
        let (listener, router) = (ear.listener, root.router());
        if let Some((seq, error)) = listener.first_error() {
            self.problems.push(format!("{ear}, feed position {seq}: {error}"));
        }
        let config = root.engine().config();
        let ids = config.instruments.iter().map(|instrument| instrument.id);
        let books: Vec<_> = ids.filter(|id| router.stream_of(*id) == ear.stream).collect();
        let kept = listener.instruments();
        let keeps_all = match config.shards {
            1 => kept == books,
            // Those that are traded here, and none that no stream of this number has.
            _ => {
                let held = |id: &InstrumentId| {
                    config.rules.get(usize::from(id.0) - 1).is_none_or(|rules| rules.held)
                };
                let own = books.iter().filter(|id| held(id));
                own.clone().all(|id| kept.contains(id)) && kept.iter().all(|id| books.contains(id))
            }
        };
        if !keeps_all {
            let (kept, books) = (kept.len(), books.len());
            self.problems.push(format!("{ear} keeps {kept} books of {books}"));
            return 0;
        }
        let heard = ear.position(root, listener.next_seq());
        let all = router.next().get(ear.stream).copied().unwrap_or_default();
        if heard != all {
            self.problems.push(format!("{ear} heard up to {heard}, the feed is at {all}"));
            return 0;
        }
        let last = FeedSeq(all.0.saturating_sub(1));
        u64::from(self.compare(ear, last, listener.digests(), &replay.end))
    }

    /// `ours` are the digests of all instruments, in order of their numbers.
    fn compare(
        &mut self,
        ear: &Ear<'_>,
        position: FeedSeq,
        theirs: impl Iterator<Item = u64>,
        ours: &[u64],
    ) -> bool {
        let mut equal = true;
        for (instrument, theirs) in ear.listener.instruments().iter().zip(theirs) {
            let place = usize::from(instrument.0).wrapping_sub(1);
            if ours.get(place) != Some(&theirs) {
                equal = false;
                if self.unequal.len() < TOLD_MAX {
                    let (listener, instrument) = (ear.index, *instrument);
                    self.unequal.push(Unequal { listener, instrument, position });
                }
            }
        }
        equal
    }
}
