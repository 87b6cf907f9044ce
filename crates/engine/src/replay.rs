//! Running a log again: for proof of determinism, and for the displayed books at feed positions.
//!
//! The audit keeps two opinions: the engine's own books, and an image per instrument that is built
//! from the market events one by one. An input may emit several events, so only the image exists
//! at every position; wherever a requested position is the last of its input, and at the end, the
//! two must agree.

use std::borrow::Borrow;

use types::{FeedSeq, Input, InstrumentId, MarketEvent, SystemEventCode};

use crate::apply::{Applied, Engine};
use crate::config::Config;
use crate::image::{DisplayedBook, ImageError};
use crate::output::Output;

/// Applies `inputs` in order to a fresh engine and shows `visit` the engine after each input with
/// what followed from it. Returns the engine as it ended.
///
/// # Panics
/// As [`Engine::new`] when the configuration makes no engine.
pub fn replay(
    config: Config,
    inputs: impl IntoIterator<Item: Borrow<Input>>,
    visit: impl FnMut(&Engine, &Input, Applied, &Output),
) -> Engine {
    replay_from(Engine::new(config), inputs, visit)
}

/// The same with an engine that stands before the first of `inputs`: that of a snapshot.
pub fn replay_from(
    mut engine: Engine,
    inputs: impl IntoIterator<Item: Borrow<Input>>,
    mut visit: impl FnMut(&Engine, &Input, Applied, &Output),
) -> Engine {
    let mut out = Output::default();
    engine.apply_all(inputs, &mut out, |engine, input, applied, out| {
        visit(engine, input, applied, out);
        out.clear();
    });
    engine
}

/// The displayed books once all market events up to a position have been applied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PositionDigests {
    /// The position.
    pub position: FeedSeq,
    /// By instrument id less one.
    pub digests: Vec<u64>,
}

/// What [`replay_digests`] found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplayDigests {
    /// For each requested position that the log reaches, in ascending order, each once.
    pub at: Vec<PositionDigests>,
    /// After the whole log, by instrument id less one.
    pub end: Vec<u64>,
    /// Position after the last event.
    pub feed_next: FeedSeq,
    /// [`Engine::state_digest`] after the whole log.
    pub state: u64,
}

/// The engine's events and its books do not tell the same story: a defect of the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplayError {
    /// The event at this position does not fit the ones before it.
    Event(FeedSeq, ImageError),
    /// The event at this position names no instrument of the configuration.
    Instrument(FeedSeq, InstrumentId),
    /// The event at the first position should have been at the second.
    Position(FeedSeq, FeedSeq),
    /// After the event at this position the two books of the instrument differ.
    Books(FeedSeq, InstrumentId),
}

impl std::fmt::Display for ReplayError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ReplayError::Event(at, error) => write!(f, "feed position {at}: {error}"),
            ReplayError::Instrument(at, id) => {
                write!(f, "feed position {at}: no instrument {id}")
            }
            ReplayError::Position(at, due) => write!(f, "feed position {at} instead of {due}"),
            ReplayError::Books(at, id) => {
                write!(f, "feed position {at}: events and book of instrument {id} differ")
            }
        }
    }
}

impl std::error::Error for ReplayError {}

/// Replays a log and digests every displayed book at the requested feed positions (0: before the
/// first event) and at the end. Positions may come in any order; those the log does not reach are
/// left out.
///
/// # Errors
/// [`ReplayError`] when events and books disagree.
///
/// # Panics
/// As [`Engine::new`] when the configuration makes no engine.
pub fn replay_digests(
    config: Config,
    inputs: impl IntoIterator<Item: Borrow<Input>>,
    positions: &[FeedSeq],
) -> Result<ReplayDigests, ReplayError> {
    replay_digests_from(Engine::new(config), inputs, positions)
}

/// The same with an engine that stands before the first of `inputs`, from its displayed books on.
///
/// # Errors
/// As [`replay_digests`].
pub fn replay_digests_from(
    engine: Engine,
    inputs: impl IntoIterator<Item: Borrow<Input>>,
    positions: &[FeedSeq],
) -> Result<ReplayDigests, ReplayError> {
    let mut audit = Audit::new(&engine, positions);
    audit.note_position();
    let mut first_error = Ok(());
    let engine = replay_from(engine, inputs, |engine, _, _, out| {
        if first_error.is_ok() {
            first_error = audit.follow(engine, out);
        }
    });
    first_error?;
    // Between two days the book goes on without a word.
    if !engine.is_between_days() {
        audit.compare(&engine)?;
    }
    Ok(ReplayDigests {
        at: audit.found,
        end: audit.images.iter().map(DisplayedBook::digest).collect(),
        feed_next: engine.feed_next(),
        state: engine.state_digest(),
    })
}

struct Audit {
    images: Vec<DisplayedBook>,
    /// Positions still ahead, the next one last.
    wanted: Vec<FeedSeq>,
    found: Vec<PositionDigests>,
    /// The last event applied to the images.
    position: FeedSeq,
}

impl Audit {
    fn new(engine: &Engine, positions: &[FeedSeq]) -> Audit {
        let position = FeedSeq(engine.feed_next().0.saturating_sub(1));
        let places = 0..engine.config().instruments.len() as u16;
        let mut wanted = positions.to_vec();
        wanted.sort_unstable();
        wanted.dedup();
        wanted.retain(|wanted| *wanted >= position);
        wanted.reverse();
        Audit {
            images: places.map(|place| DisplayedBook::of(engine.books(), place)).collect(),
            found: Vec::with_capacity(wanted.len()),
            wanted,
            position,
        }
    }

    /// Applies the events of one input.
    fn follow(&mut self, engine: &Engine, out: &Output) -> Result<(), ReplayError> {
        let mut noted = false;
        for (position, event) in &out.market {
            let due = FeedSeq(self.position.0 + 1);
            if *position != due {
                return Err(ReplayError::Position(*position, due));
            }
            self.position = due;
            if matches!(event, MarketEvent::SystemEvent { code: SystemEventCode::StartOfMessages })
            {
                // A day tells all its books anew.
                self.images.iter_mut().for_each(|image| *image = DisplayedBook::default());
            }
            if let Some(id) = event.instrument() {
                let image = usize::from(id.0).checked_sub(1).and_then(|i| self.images.get_mut(i));
                let image = image.ok_or(ReplayError::Instrument(due, id))?;
                image.apply(event).map_err(|error| ReplayError::Event(due, error))?;
            }
            noted = self.note_position();
        }
        if noted { self.compare(engine) } else { Ok(()) }
    }

    /// Digests the images if the present position is wanted; says whether it was.
    fn note_position(&mut self) -> bool {
        if self.wanted.last() != Some(&self.position) {
            return false;
        }
        self.wanted.pop();
        let digests = self.images.iter().map(DisplayedBook::digest).collect();
        self.found.push(PositionDigests { position: self.position, digests });
        true
    }

    fn compare(&self, engine: &Engine) -> Result<(), ReplayError> {
        for (index, image) in self.images.iter().enumerate() {
            let id = InstrumentId(index as u16 + 1);
            if image.digest() != engine.displayed_digest(id) {
                return Err(ReplayError::Books(self.position, id));
            }
        }
        Ok(())
    }
}
