//! What a gateway has to know of the public feed for its market-data sessions: the books, told to
//! it by its owner as they are released on the same VM, so never earlier than to anybody else.

use std::collections::VecDeque;

use fix::app::market::{Level, Print};
use types::{InstrumentId, Nanos, Side, TradingState};

/// Trades of an instrument that a session which is behind is told one by one. A gateway that did not
/// run for a while (a busy machine) is behind with all its sessions.
const PRINTS_MAX: usize = 1_024;

/// Books built from the released feed.
pub trait Books: Send {
    /// Applies one message of a stream of the feed, those of all shards in one row, that was released just now.
    /// `None`: it contradicts the books.
    fn apply(&mut self, now: Nanos, stream: usize, message: &[u8]) -> Option<News>;

    /// Appends at most so many levels of a side, from the best.
    fn levels(&self, instrument: InstrumentId, side: Side, most: usize, into: &mut Vec<Level>);

    /// The state of trading; `None` before any was told.
    fn state(&self, instrument: InstrumentId) -> Option<TradingState>;
}

/// What a message of the feed was about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct News {
    /// On what; 0: on nothing in particular.
    pub instrument: InstrumentId,
    /// When the exchange published it, since the epoch.
    pub at: Nanos,
    /// The trade it told of, or broke.
    pub print: Option<Print>,
}

/// One instrument as far as sessions can be behind on it.
#[derive(Clone, Debug, Default)]
pub(crate) struct InstrumentUpdates {
    /// Grows with every message.
    pub(crate) version: u64,
    /// Time of the last one.
    pub(crate) at: Nanos,
    /// Trades and breaks so far.
    pub(crate) printed: u64,
    /// The last of them.
    prints: VecDeque<Print>,
    /// The last trade that was not broken at once.
    pub(crate) last: Option<Print>,
}

impl InstrumentUpdates {
    /// Trades and breaks after the first `known`, as far as they are still known.
    pub(crate) fn prints_after(&self, known: u64) -> impl ExactSizeIterator<Item = &Print> {
        let more = self.printed.saturating_sub(known).min(self.prints.len() as u64) as usize;
        self.prints.range(self.prints.len() - more..)
    }
}

/// The feed as a gateway knows it.
pub(crate) struct ReleasedMarket {
    pub(crate) books: Box<dyn Books>,
    lines: Vec<InstrumentUpdates>,
    /// Something of the feed was missed: the books are not those of the exchange.
    pub(crate) lost: bool,
}

impl ReleasedMarket {
    pub(crate) fn new(books: Box<dyn Books>) -> ReleasedMarket {
        ReleasedMarket { books, lines: Vec::new(), lost: false }
    }

    /// The next message of a stream of the feed.
    pub(crate) fn apply(&mut self, now: Nanos, stream: usize, message: &[u8]) {
        if self.lost {
            return;
        }
        let Some(news) = self.books.apply(now, stream, message) else {
            self.lost = true;
            return;
        };
        let place = usize::from(news.instrument.0);
        if place > types::limits::INSTRUMENTS_MAX {
            return;
        }
        if self.lines.len() <= place {
            self.lines.resize_with(place + 1, InstrumentUpdates::default);
        }
        let Some(line) = self.lines.get_mut(place) else { return };
        line.version += 1;
        line.at = news.at;
        if let Some(print) = news.print {
            line.printed += 1;
            if line.prints.capacity() < PRINTS_MAX {
                // With an instrument's first trade, so that none later takes memory: 32 KiB.
                line.prints.reserve_exact(PRINTS_MAX);
            }
            if line.prints.len() >= PRINTS_MAX {
                line.prints.pop_front();
            }
            line.prints.push_back(print);
            if !print.broken {
                line.last = Some(print);
            } else if line.last.is_some_and(|last| last.match_number == print.match_number) {
                line.last = None;
            }
        }
    }

    pub(crate) fn line(&self, instrument: InstrumentId) -> Option<&InstrumentUpdates> {
        self.lines.get(usize::from(instrument.0))
    }

    /// The best levels of both sides that are wanted, bids first.
    pub(crate) fn levels(
        &self,
        instrument: InstrumentId,
        wanted: [bool; 2],
        most: usize,
        into: &mut Vec<Level>,
    ) {
        into.clear();
        for (side, wanted) in [Side::Buy, Side::Sell].into_iter().zip(wanted) {
            if wanted {
                self.books.levels(instrument, side, most, into);
            }
        }
    }
}
