//! How often the engine's books are the data's own.

use engine::Engine;
use types::{InstrumentId, Side};

use crate::data_book::{Check, DEPTH, DataBook, Excluded, Levels, Lots, Step};
use crate::record::Recording;
use crate::venue::STRATEGY;

/// Events after which books were compared, and of these, equal ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Shares {
    /// Number of events after which books were compared.
    pub events: u64,
    /// Both best prices are the data's; a side is empty in both or in none.
    pub price: u64,
    /// So are the lots at them.
    pub size: u64,
    /// So are prices and lots of the ten best levels of both sides, or of as many as are known.
    pub levels: u64,
}

/// Shares inside calls and outside, and what was not compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Equality {
    /// Comparisons while orders are collected in a call.
    pub calls: Shares,
    /// Comparisons while orders trade as they come.
    pub outside: Shares,
    /// Messages after which nothing was compared, by [`Excluded`].
    pub excluded: [u64; Excluded::ALL.len()],
    /// Messages inside an event of the venue: books are to be read at its end.
    pub unfinished: u64,
}

/// The engine's best levels of a side without the strategy's own orders.
pub(crate) fn levels(engine: &Engine, instrument: InstrumentId, side: Side) -> Vec<Lots> {
    let own = engine.standing(STRATEGY).is_some_and(|standing| standing.open_orders > 0);
    if !own {
        let depth = engine.depth(instrument, side).take(DEPTH);
        return depth.map(|level| (level.price.0, level.qty.0)).collect();
    }
    let mut levels: Vec<Lots> = Vec::with_capacity(DEPTH + 1);
    let Some(book) = instrument.0.checked_sub(1) else { return levels };
    for order in engine.books().orders(book, side) {
        if (order.key() >> 32) as u16 == STRATEGY.0 {
            continue;
        }
        let (price, lots) = (order.price().0, u64::from(order.open()));
        let count = levels.len();
        match levels.last_mut() {
            Some(level) if level.0 == price => level.1 += lots,
            _ if count == DEPTH => break,
            _ => levels.push((price, lots)),
        }
    }
    levels
}

/// Best prices of buyers and of sellers, with the lots at them.
pub type Best = [Option<Lots>; 2];

/// Best prices after an event: the engine's and the data's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Compared {
    /// Instrument whose best prices were compared.
    pub instrument: InstrumentId,
    /// Orders trade as they come; not in a call.
    pub open: bool,
    /// The engine's, without the strategy's own orders.
    pub engine: Best,
    /// Best prices by the data alone.
    pub data: Best,
}

/// Keeps the data's own book and compares.
#[derive(Debug)]
pub(crate) struct Comparison<'r> {
    recording: &'r Recording,
    book: DataBook,
    next: usize,
    pub equality: Equality,
}

impl<'r> Comparison<'r> {
    pub fn new(recording: &'r Recording) -> Comparison<'r> {
        let (book, equality) = (DataBook::default(), Equality::default());
        Comparison { recording, book, next: 0, equality }
    }

    /// Takes the messages up to and with the record's first `records` events; `tell` gets what was
    /// compared after each.
    pub fn take(
        &mut self,
        records: usize,
        engine: &Engine,
        is_open: impl Fn(InstrumentId) -> bool,
        mut tell: impl FnMut(&Compared),
    ) {
        let recording = self.recording;
        let due = |step: &&Step| step.records <= records;
        while let Some(step) = recording.steps().get(self.next).filter(due) {
            self.next += 1;
            if let Some(edit) = &step.edit {
                self.book.apply(step.instrument, edit);
            }
            let known = match step.check {
                Check::Unfinished => {
                    self.equality.unfinished += 1;
                    continue;
                }
                Check::Excluded(why) => Err(why),
                Check::Book if self.book.is_strange(step.instrument) => Err(Excluded::Price),
                Check::Book => Ok(self.book.levels(step.instrument)),
                Check::Levels(index) => {
                    Ok(recording.levels().get(index).cloned().unwrap_or_default())
                }
            };
            match known {
                Ok(data) => {
                    let open = is_open(step.instrument);
                    tell(&self.compare(step.instrument, &data, engine, open));
                }
                Err(why) => {
                    if let Some(count) = self.equality.excluded.get_mut(why as usize) {
                        *count += 1;
                    }
                }
            }
        }
    }

    fn compare(
        &mut self,
        instrument: InstrumentId,
        data: &Levels,
        engine: &Engine,
        open: bool,
    ) -> Compared {
        let ours = [Side::Buy, Side::Sell].map(|side| levels(engine, instrument, side));
        let best = |sides: &[Vec<Lots>; 2]| [sides[0].first().copied(), sides[1].first().copied()];
        let (own, theirs) = (best(&ours), best(&data.sides));
        let prices = |best: Best| best.map(|level| level.map(|(price, _)| price));
        let all =
            ours.iter().zip(&data.sides).zip(data.complete).all(|((ours, data), complete)| {
                ours.get(..data.len()) == Some(data) && (!complete || ours.len() == data.len())
            });
        let shares = if open { &mut self.equality.outside } else { &mut self.equality.calls };
        shares.events += 1;
        shares.price += u64::from(prices(own) == prices(theirs));
        shares.size += u64::from(own == theirs);
        shares.levels += u64::from(own == theirs && all);
        Compared { instrument, open, engine: own, data: theirs }
    }
}
