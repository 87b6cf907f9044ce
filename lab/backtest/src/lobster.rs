//! A recording out of LOBSTER's files: messages of one instrument of one day, and beside them the
//! levels of its book after each message. Columns as in LOBSTER's description of its output.
//!
//! The messages name orders that came before the first of them, and say nothing of what happens
//! behind the levels kept. What rests there is learnt from the levels: lots that come into sight
//! are entered as orders of no name, and a message about an order that is not known shrinks those
//! at its price. Levels are compared only as far as they were in sight before the message, too.

use std::collections::BTreeMap;

use types::{InstrumentId, Nanos, Side, Symbol};

use crate::data_book::{Check, DEPTH, Levels, Lots};
use crate::record::{Printed, Record, Recording, RecordingError, What};

/// Bytes of a line at most.
const LINE_MAX: usize = 16 << 10;
/// Orders of no name have numbers from here on; those of the venue are below.
const NAMELESS: u64 = 1 << 63;

/// Why there is no recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LobsterError {
    /// A line of the messages, counted from 1, is none.
    Message(usize),
    /// A line of the levels, counted from 1, is none.
    Levels(usize),
    /// The levels end before this line of the messages.
    FewLevels(usize),
    /// The recording has no room for more.
    Full(RecordingError),
}

impl std::fmt::Display for LobsterError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LobsterError::Message(line) => write!(f, "line {line} is no message of LOBSTER"),
            LobsterError::Levels(line) => {
                write!(f, "line {line} of the orderbook file has no levels of LOBSTER")
            }
            LobsterError::FewLevels(line) => write!(
                f,
                "the orderbook file has fewer lines than the message file, none for line {line}: \
                 both have a line of each message"
            ),
            LobsterError::Full(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LobsterError {}

impl From<RecordingError> for LobsterError {
    fn from(error: RecordingError) -> LobsterError {
        LobsterError::Full(error)
    }
}

/// One line of the message file.
#[derive(Clone, Copy, Debug)]
struct Line {
    time: Nanos,
    kind: u8,
    order: u64,
    qty: u32,
    price: i64,
    side: Side,
}

/// Seconds with up to nine decimals.
fn seconds(text: &str) -> Option<Nanos> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = u32::try_from(part.len()).ok().filter(|&digits| digits <= 9)?;
    let part: u64 = if part.is_empty() { 0 } else { part.parse().ok()? };
    let whole = whole.parse::<u64>().ok()?.checked_mul(Nanos::SECOND)?;
    whole.checked_add(part * 10_u64.pow(9 - digits)).map(Nanos)
}

fn message(line: &str) -> Option<Line> {
    let mut fields = line.trim().split(',');
    let mut next = || fields.next().map(str::trim);
    let time = seconds(next()?)?;
    let kind = next()?.parse().ok().filter(|kind| (1..=7).contains(kind))?;
    let order = next()?.parse().ok().filter(|&order| order < NAMELESS)?;
    let (qty, price): (i64, i64) = (next()?.parse().ok()?, next()?.parse().ok()?);
    let side = match next()? {
        "1" => Side::Buy,
        "-1" => Side::Sell,
        _ => return None,
    };
    // A halt has no lots.
    let qty = u32::try_from(qty).ok().or((kind == 7).then_some(0))?;
    Some(Line { time, kind, order, qty, price, side })
}

/// The levels of a line, as many as it has; places without an order have no lots.
fn levels(line: &str) -> Option<[Vec<Lots>; 2]> {
    let mut sides = [Vec::new(), Vec::new()];
    let fields: Vec<&str> = line.trim().split(',').map(str::trim).collect();
    if !fields.len().is_multiple_of(4) {
        return None;
    }
    for level in fields.chunks_exact(4) {
        let [ask, ask_lots, bid, bid_lots] = level else { return None };
        for (side, price, lots) in [(0, bid, bid_lots), (1, ask, ask_lots)] {
            let (price, lots): (i64, u64) = (price.parse().ok()?, lots.parse().ok()?);
            if lots > 0 && price.abs() != 9_999_999_999 {
                sides[side].push((price, lots));
            }
        }
    }
    Some(sides)
}

/// Order number, lots; in order of arrival.
type Queue = Vec<(u64, u32)>;

struct Reader {
    recording: Recording,
    id: InstrumentId,
    now: Nanos,
    /// Of buyers, of sellers, by price.
    books: [BTreeMap<i64, Queue>; 2],
    /// Worst price in sight a side; `None`: all.
    sight: [Option<i64>; 2],
    nameless: u64,
    /// Whether a trade of an order that nobody saw named a seller.
    hidden_sells: bool,
    records_max: usize,
}

fn slot(side: Side) -> usize {
    usize::from(side == Side::Sell)
}

impl Reader {
    fn push(&mut self, what: What) -> Result<(), RecordingError> {
        let record = Record { time: self.now, instrument: self.id, what };
        self.recording.push(record, self.records_max)
    }

    fn add(&mut self, order: u64, side: Side, price: i64, qty: u32) -> Result<(), RecordingError> {
        self.books[slot(side)].entry(price).or_default().push((order, qty));
        // Prices that fit nowhere are left out and counted.
        let price = u32::try_from(price).unwrap_or(0);
        self.push(What::Add { order, side, qty, price })
    }

    /// Takes lots off an order; of one that is not known, off those of no name at its price.
    fn take(&mut self, line: &Line, executed: bool) -> Result<(), RecordingError> {
        let queue = self.books[slot(line.side)].entry(line.price).or_default();
        let known = |number: u64| move |one: &(u64, u32)| one.0 == number;
        let place = queue.iter().position(known(line.order));
        let place = place.or_else(|| queue.iter().position(|one| one.0 >= NAMELESS));
        let Some((order, left)) = place.and_then(|place| queue.get_mut(place)) else {
            return Ok(());
        };
        let (order, qty) = (*order, line.qty.min(*left));
        *left -= qty;
        queue.retain(|one| one.1 > 0);
        let printed = Printed::AtLimit;
        self.push(match executed {
            true => What::Execute { order, qty, printed },
            false => What::Reduce { order, qty },
        })
    }

    fn line(&mut self, line: &Line) -> Result<(), RecordingError> {
        self.now = line.time;
        match line.kind {
            1 => self.add(line.order, line.side, line.price, line.qty),
            2 | 3 => self.take(line, false),
            4 => self.take(line, true),
            5 | 6 => {
                let Ok(price) = u32::try_from(line.price) else { return Ok(()) };
                let (side, qty) = (line.side, line.qty);
                self.hidden_sells |= line.kind == 5 && side == Side::Sell;
                self.push(match line.kind {
                    5 => What::Trade { side: Some(side), qty, price },
                    _ => What::Print { aggressor: None, qty, price },
                })
            }
            // Price -1: trading stops; 0: quotes only; 1: trading goes on.
            _ => self.push(What::Trading(line.price == 1)),
        }
    }

    /// Whether a price of a side was in sight before the message.
    fn was_in_sight(&self, side: Side, price: i64) -> bool {
        self.sight[slot(side)].is_none_or(|worst| match side {
            Side::Buy => price >= worst,
            Side::Sell => price <= worst,
        })
    }

    /// Compares with the levels of the data, then learns what has come into sight.
    fn rows(&mut self, sides: [Vec<Lots>; 2], first: bool) -> Result<(), RecordingError> {
        if !first {
            let mut known = Levels::default();
            for side in [Side::Buy, Side::Sell] {
                let all = &sides[slot(side)];
                let seen = all.iter().take_while(|level| self.was_in_sight(side, level.0));
                known.sides[slot(side)] = seen.take(DEPTH).copied().collect();
            }
            self.recording.step_to_levels(self.id, known);
        }
        for side in [Side::Buy, Side::Sell] {
            let all = &sides[slot(side)];
            for &(price, lots) in all {
                if first || !self.was_in_sight(side, price) {
                    self.learn(side, price, lots)?;
                }
            }
        }
        Ok(())
    }

    /// At this price rest so many lots.
    fn learn(&mut self, side: Side, price: i64, lots: u64) -> Result<(), RecordingError> {
        let queue = self.books[slot(side)].entry(price).or_default();
        let own: u64 = queue.iter().map(|one| u64::from(one.1)).sum();
        let mut gone = own.saturating_sub(lots);
        // Nobody knows whose lots went: the last ones' are taken.
        while gone > 0 {
            let queue = self.books[slot(side)].entry(price).or_default();
            let Some((order, left)) = queue.pop() else { break };
            let qty = u64::from(left).min(gone) as u32;
            if qty < left {
                queue.push((order, left - qty));
            }
            gone -= u64::from(qty);
            self.push(What::Reduce { order, qty })?;
        }
        let qty = u32::try_from(lots.saturating_sub(own)).unwrap_or(u32::MAX);
        if qty > 0 {
            self.nameless += 1;
            self.add(NAMELESS + self.nameless, side, price, qty)?;
        }
        Ok(())
    }

    fn look(&mut self, sides: &[Vec<Lots>; 2], places: usize) {
        for (sight, levels) in self.sight.iter_mut().zip(sides) {
            let full = levels.len() >= places;
            *sight = levels.last().filter(|_| full).map(|(price, _)| *price);
        }
    }
}

/// Reads both files, `levels` if there is one, at most `records_max` events.
///
/// # Errors
/// [`LobsterError`].
pub fn read_lobster(
    messages: &[u8],
    book: Option<&[u8]>,
    symbol: Symbol,
    records_max: usize,
) -> Result<Recording, LobsterError> {
    let mut recording = Recording::new(4);
    let id = recording.instrument(symbol)?;
    let (books, sight) = (Default::default(), [None; 2]);
    let now = Nanos(0);
    let mut reader =
        Reader { recording, id, now, books, sight, nameless: 0, hidden_sells: false, records_max };
    let mut rows = book.map(|book| book.split(|&byte| byte == b'\n'));
    let text = |line: &'_ [u8]| -> Option<String> {
        let line = line.get(..line.len().min(LINE_MAX + 1))?;
        let short = (line.len() <= LINE_MAX).then_some(line)?;
        std::str::from_utf8(short).ok().map(str::to_string)
    };
    let whole = messages.strip_suffix(b"\n").unwrap_or(messages);
    for (number, line) in (1..).zip(whole.split(|&byte| byte == b'\n')) {
        let line = text(line).and_then(|line| message(&line));
        let line = line.ok_or(LobsterError::Message(number))?;
        let first = number == 1;
        let Some(rows) = &mut rows else {
            reader.line(&line)?;
            reader.recording.step(id, None, Check::Unfinished);
            continue;
        };
        let row = rows.next().filter(|row| !row.is_empty());
        let row = row.ok_or(LobsterError::FewLevels(number))?;
        let row = text(row).ok_or(LobsterError::Levels(number))?;
        let sides = levels(&row).ok_or(LobsterError::Levels(number))?;
        let places = row.split(',').count() / 4;
        if first {
            // The first line of the levels is the book after the first message.
            reader.now = line.time;
        } else {
            reader.line(&line)?;
        }
        reader.rows(sides.clone(), first)?;
        reader.look(&sides, places);
    }
    // Made of Nasdaq's feed, which says `B` of all of them since 14 July 2014.
    if !reader.hidden_sells {
        reader.recording.forget_hidden_sides();
    }
    Ok(reader.recording)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::run::{Config, run};
    use strategy::Idle;

    const MESSAGES: &str = "34200.004,1,11,100,5853300,1\n\
        34200.1,3,16,18,5853400,-1\n\
        34200.25,4,11,40,5853300,1\n\
        34200.3,5,0,100,5853350,1\n\
        34200.4,1,12,7,5853600,-1\n\
        34200.5,3,11,60,5853300,1\n";
    const LEVELS: &str = "5853400,18,5853300,100,5853900,5,5853000,9\n\
        5853900,5,5853300,100,5854000,2,5853000,9\n\
        5853900,5,5853300,60,5854000,2,5853000,9\n\
        5853900,5,5853300,60,5854000,2,5853000,9\n\
        5853600,7,5853300,60,5853900,5,5853000,9\n\
        5853600,7,5853000,9,5853900,5,5852000,30\n";

    fn symbol() -> Symbol {
        Symbol::new("AAPL").unwrap()
    }

    fn read(messages: &str, levels: &str) -> Result<Recording, LobsterError> {
        read_lobster(messages.as_bytes(), Some(levels.as_bytes()), symbol(), 1_000)
    }

    #[test]
    fn books_are_the_levels_of_the_data_as_far_as_they_were_in_sight() {
        let recording = read(MESSAGES, LEVELS).unwrap();
        let outcome = run(&recording, Config::default(), &mut Idle).unwrap();
        let shares = outcome.equality.outside;
        assert_eq!([shares.events, shares.price, shares.size, shares.levels], [5; 4]);
        assert_eq!((outcome.market.traded, outcome.prints), (40, 2));
        // Control: other levels are found to be other ones.
        let wrong = read(MESSAGES, &LEVELS.replace("5853300,60", "5853300,61")).unwrap();
        let shares = run(&wrong, Config::default(), &mut Idle).unwrap().equality.outside;
        assert_eq!([shares.events, shares.price, shares.size], [5, 5, 2]);
    }

    #[test]
    fn hidden_trades_of_one_side_alone_say_no_side() {
        let sides = |messages: &str| {
            let recording = read_lobster(messages.as_bytes(), None, symbol(), 100).unwrap();
            let side = |record: &Record| match record.what {
                What::Trade { side, .. } => Some(side),
                _ => None,
            };
            recording.records().iter().filter_map(side).collect::<Vec<_>>()
        };
        assert_eq!(sides(MESSAGES), [None]);
        let both = format!("{MESSAGES}34200.6,5,0,1,5853350,-1\n");
        assert_eq!(sides(&both), [Some(Side::Buy), Some(Side::Sell)]);
    }

    #[test]
    fn lines_that_are_none_are_named() {
        let cut = &LEVELS[..LEVELS.len() / 2];
        assert!(matches!(read(MESSAGES, cut), Err(LobsterError::Levels(_))));
        let few: String = LEVELS.split_inclusive('\n').take(3).collect();
        let few = read(MESSAGES, &few).unwrap_err();
        assert!(few.to_string().contains("fewer lines than the message file"), "{few}");
        let wrong = MESSAGES.replace("34200.3,5", "34200.3,9");
        assert_eq!(read(&wrong, LEVELS), Err(LobsterError::Message(4)));
        assert_eq!(seconds("34200.004"), Some(Nanos(34_200_004_000_000)));
        assert_eq!((seconds("1.0000000001"), seconds("-1"), seconds("")), (None, None, None));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            at in 0..400_usize,
            bytes in prop::collection::vec(any::<u8>(), 0..12),
            of_levels in any::<bool>(),
        ) {
            let (mut messages, mut levels) = (MESSAGES.to_string().into_bytes(), LEVELS.as_bytes().to_vec());
            let file = if of_levels { &mut levels } else { &mut messages };
            let length = file.len();
            for (place, byte) in file.iter_mut().skip(at % length).zip(bytes) {
                *place = byte;
            }
            if let Ok(recording) = read_lobster(&messages, Some(&levels), symbol(), 100) {
                prop_assert!(recording.records().len() <= 100);
                let _ = run(&recording, Config::default(), &mut Idle);
            }
        }
    }
}
