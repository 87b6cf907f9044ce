//! A recording out of ITCH 5.0 messages.

use std::collections::BTreeMap;

use types::{InstrumentId, Nanos, Symbol};
use wire::itch::{self, EventCode, ItchError, Message, Printable, Side, State};

use crate::data_book::Check;
use crate::record::{Printed, Record, Recording, RecordingError, What};

const DAY_NS: u64 = 86_400 * Nanos::SECOND;
/// Time of day runs back by more than this where a midnight passed within a session.
const MIDNIGHT_NS: u64 = DAY_NS / 2;
/// The same where a session begins and none ended; clocks of several sessions may differ by less.
const NEXT_DAY_NS: u64 = 60 * Nanos::SECOND;

/// Takes messages one by one. Instruments are those of the directory, all or the chosen ones, in
/// the order in which they are met.
///
/// Several days may follow each other: System Event `O` begins one, and with its Stock Directory
/// each instrument's book is empty ([`What::NewDay`]). Times go on across midnights: one passed
/// where a session begins at an earlier time of day than the last message after `E` or `C` had,
/// earlier by more than a minute where none came, and between other messages by 12 hours.
#[derive(Debug)]
pub struct ItchReader {
    recording: Recording,
    /// Symbols that are read; empty: all of them.
    chosen: Vec<Symbol>,
    /// Instrument of each stock locate; `None`: it is not read.
    locates: BTreeMap<u16, Option<InstrumentId>>,
    symbols: BTreeMap<[u8; 8], Option<InstrumentId>>,
    /// Sessions that began so far.
    begun: u64,
    /// By instrument that was told of: the value of `begun` at its last directory or first event.
    told: BTreeMap<InstrumentId, u64>,
    /// Midnight of the current day, and the time of the last message.
    midnight: Nanos,
    last: Nanos,
    /// System Event `E` or `C` came after the last `O`; the last System Event was `C`.
    over: bool,
    ended: bool,
    /// Whether trades of orders that nobody saw say the side of the order that rested.
    hidden_sides: bool,
    records_max: usize,
}

/// Why a message was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadError {
    /// The bytes are not an ITCH message.
    Message(ItchError),
    /// The recording has no room for more.
    Full(RecordingError),
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ReadError::Message(error) => error.fmt(f),
            ReadError::Full(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<RecordingError> for ReadError {
    fn from(error: RecordingError) -> ReadError {
        ReadError::Full(error)
    }
}

impl ItchReader {
    /// A reader that keeps what happened to `chosen` (none: to all), at most `records_max` events.
    pub fn new(chosen: Vec<Symbol>, records_max: usize) -> ItchReader {
        let recording = Recording::new(4);
        ItchReader {
            recording,
            chosen,
            locates: BTreeMap::new(),
            symbols: BTreeMap::new(),
            begun: 0,
            told: BTreeMap::new(),
            midnight: Nanos(0),
            last: Nanos(0),
            over: false,
            ended: false,
            hidden_sides: false,
            records_max,
        }
    }

    /// Believes the side in messages `P`. Without this call it is believed when one of them says
    /// `S`: since 14 July 2014 Nasdaq writes `B` in all of them, whichever side the order was on.
    pub fn with_hidden_sides(self) -> ItchReader {
        ItchReader { hidden_sides: true, ..self }
    }

    /// Takes the next message, without a length in front of it.
    ///
    /// # Errors
    /// It is no message of ITCH 5.0, or the recording is full; it is not taken then.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), ReadError> {
        let message = itch::parse(bytes).map_err(ReadError::Message)?;
        let header = message.header();
        let event = if let Message::SystemEvent(m) = &message { Some(m.code) } else { None };
        let begins = event == Some(EventCode::StartOfMessages);
        let (locate, time) = (header.locate.get(), self.time(header.time.get(), begins));
        self.begun += u64::from(begins);
        if let Some(code) = event {
            self.ended = code == EventCode::EndOfMessages;
            self.over = self.ended || code == EventCode::EndOfSystemHours || self.over && !begins;
        }
        self.hidden_sides |= matches!(&message, Message::Trade(trade) if trade.side == Side::Sell);
        if let Message::StockDirectory(entry) = message {
            // Numbers of a day are not those of the day before.
            self.locates.remove(&locate);
            if let Some(instrument) = self.know(locate, entry.stock)? {
                self.enter_day(instrument, time)?;
            }
            return Ok(());
        }
        let Some(what) = what(&message) else { return Ok(()) };
        // A recording that began during the day has no directory.
        let instrument = match (self.locates.get(&locate), stock(&message)) {
            (Some(known), _) => *known,
            (None, Some(stock)) => self.know(locate, stock)?,
            (None, None) => None,
        };
        if let Some(instrument) = instrument {
            self.told.entry(instrument).or_insert(self.begun);
            self.recording.push(Record { time, instrument, what }, self.records_max)?;
            self.recording.step(instrument, what.edit(), Check::Book);
        }
        Ok(())
    }

    /// Time since the midnight before the first message, of a message with this time of day.
    fn time(&mut self, of_day: u64, begins: bool) -> Nanos {
        let time = |midnight: Nanos| Nanos(midnight.0.saturating_add(of_day));
        let back = self.last.0.saturating_sub(time(self.midnight).0);
        let most = match (begins, self.over) {
            (true, true) => 0,
            (true, false) => NEXT_DAY_NS,
            (false, _) => MIDNIGHT_NS,
        };
        if back > most {
            self.midnight = Nanos(self.midnight.0.saturating_add(DAY_NS));
        }
        self.last = self.last.max(time(self.midnight));
        time(self.midnight)
    }

    /// A directory tells of an instrument: the first one of a later session begins its day.
    fn enter_day(&mut self, instrument: InstrumentId, time: Nanos) -> Result<(), RecordingError> {
        let before = self.told.get(&instrument).is_some_and(|told| *told < self.begun);
        if before {
            let what = What::NewDay;
            self.recording.push(Record { time, instrument, what }, self.records_max)?;
            self.recording.step(instrument, what.edit(), Check::Book);
            self.told.insert(instrument, self.begun);
        }
        Ok(())
    }

    fn know(&mut self, locate: u16, stock: [u8; 8]) -> Result<Option<InstrumentId>, ReadError> {
        if let Some(known) = self.locates.get(&locate) {
            return Ok(*known);
        }
        let symbol = Symbol(stock);
        let wanted = self.chosen.is_empty() || self.chosen.contains(&symbol);
        let instrument = match self.symbols.get(&stock) {
            Some(known) => *known,
            None => wanted.then(|| self.recording.instrument(symbol)).transpose()?,
        };
        self.symbols.insert(stock, instrument);
        self.locates.insert(locate, instrument);
        Ok(instrument)
    }

    /// Whether the last System Event is the end of messages; `None` where no session began.
    pub fn ended(&self) -> Option<bool> {
        (self.begun > 0).then_some(self.ended)
    }

    /// The recording of the messages read so far.
    pub fn finish(mut self) -> Recording {
        if !self.hidden_sides {
            self.recording.forget_hidden_sides();
        }
        self.recording
    }
}

fn stock(message: &Message<'_>) -> Option<[u8; 8]> {
    match message {
        Message::AddOrder(add) => Some(add.stock),
        Message::AddOrderMpid(add) => Some(add.stock),
        Message::Trade(trade) => Some(trade.stock),
        Message::StockTradingAction(action) => Some(action.stock),
        _ => None,
    }
}

fn side(side: Side) -> types::Side {
    match side {
        Side::Buy => types::Side::Buy,
        Side::Sell => types::Side::Sell,
    }
}

/// What a message says of the book, if anything.
fn what(message: &Message<'_>) -> Option<What> {
    Some(match message {
        Message::AddOrder(add) => What::Add {
            order: add.order_ref.get(),
            side: side(add.side),
            qty: add.shares.get(),
            price: add.price.get(),
        },
        Message::AddOrderMpid(add) => What::Add {
            order: add.order_ref.get(),
            side: side(add.side),
            qty: add.shares.get(),
            price: add.price.get(),
        },
        Message::OrderExecuted(executed) => {
            let (order, qty) = (executed.order_ref.get(), executed.shares.get());
            What::Execute { order, qty, printed: Printed::AtLimit }
        }
        Message::OrderExecutedWithPrice(executed) => {
            let (order, qty) = (executed.order_ref.get(), executed.shares.get());
            // What is not printable is part of a cross, which is printed as a whole.
            let printable = executed.printable == Printable::Yes;
            let price = executed.price.get();
            let printed = if printable { Printed::At(price) } else { Printed::Apart };
            What::Execute { order, qty, printed }
        }
        Message::CrossTrade(cross) => {
            let qty = u32::try_from(cross.shares.get()).unwrap_or(u32::MAX);
            What::Print { aggressor: None, qty, price: cross.price.get() }
        }
        Message::OrderCancel(cancel) => {
            What::Reduce { order: cancel.order_ref.get(), qty: cancel.shares.get() }
        }
        Message::OrderDelete(delete) => What::Delete { order: delete.order_ref.get() },
        Message::OrderReplace(replace) => What::Replace {
            old: replace.old_ref.get(),
            new: replace.new_ref.get(),
            qty: replace.shares.get(),
            price: replace.price.get(),
        },
        Message::Trade(trade) => What::Trade {
            side: Some(side(trade.side)),
            qty: trade.shares.get(),
            price: trade.price.get(),
        },
        Message::StockTradingAction(action) => What::Trading(action.state == State::Trading),
        _ => return None,
    })
}
