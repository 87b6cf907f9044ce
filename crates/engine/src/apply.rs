//! The engine: admission of an input, dispatch, and every question about its state.

use book::{Book, Depth};
use types::{
    Command, CommandKind, Digest, FeedSeq, GatewayId, Incarnation, Input, InstrumentId, Nanos,
    SeqWindow, Side,
};

use crate::config::Config;
use crate::counters::{Counters, InstrumentCounters};
use crate::index::OrderIndex;
use crate::output::{Numbers, Output};
use crate::sources::{Accounts, Gateways, Standing};

/// What became of an input. Only [`Applied::Done`] has output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Applied {
    /// The command was carried out or refused; its answer is in the output.
    Done,
    /// The input's transport number was seen before: nothing done.
    DuplicateTransport,
    /// The account's request was seen before, by whatever gateway: nothing done, its answer is
    /// already in the account's stream.
    DuplicateRequest,
    /// The gateway has this incarnation for its boot nonce.
    Granted(Incarnation),
    /// The source is not the present life of a gateway: nothing done.
    StaleIncarnation,
    /// The transport number is further ahead than the duplicate window reaches: nothing done, not
    /// recorded. The ingress holds such inputs back.
    TooFarAhead,
    /// Not for this source, shard or state of the day, or for an account that can't exist: nothing
    /// done.
    Refused,
}

/// The trading day.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Before the first day.
    New,
    /// Orders are taken.
    Open,
    /// After a day.
    Closed,
}

/// One engine shard. See the crate's contract.
#[derive(Clone, Debug)]
pub struct Engine {
    pub(crate) config: Config,
    pub(crate) phase: Phase,
    /// Largest engine time so far.
    pub(crate) now: Nanos,
    pub(crate) applied: u64,
    /// By instrument id less one.
    pub(crate) books: Vec<Book>,
    pub(crate) index: OrderIndex,
    pub(crate) gateways: Gateways,
    pub(crate) accounts: Accounts,
    pub(crate) numbers: Numbers,
    pub(crate) counters: Counters,
}

impl Engine {
    /// An engine before its first trading day.
    ///
    /// # Panics
    /// When [`Config::check`] refuses the configuration: check what an operator wrote first.
    pub fn new(config: Config) -> Engine {
        config.check().expect("a checked configuration");
        Engine {
            phase: Phase::New,
            now: Nanos(0),
            applied: 0,
            books: config.instruments.iter().map(|_| Book::new(config.book)).collect(),
            index: OrderIndex::new(config.open_orders_max),
            gateways: Gateways::new(config.gateways_max),
            accounts: Accounts::new(config.accounts_max),
            numbers: Numbers::new(),
            counters: Counters::new(config.instruments.len()),
            config,
        }
    }

    /// Applies the next input of the log and appends what follows to `out`.
    ///
    /// Engine time never runs backwards: an input with an earlier `t_seq` than one before it is
    /// taken at that one's time.
    pub fn apply(&mut self, input: &Input, out: &mut Output) -> Applied {
        self.now = self.now.max(input.t_seq);
        self.applied += 1;
        if let Err(ended) = self.admit(input) {
            return ended;
        }
        let command = &input.command;
        match command.kind {
            CommandKind::NewOrder => self.new_order(command, out),
            CommandKind::Cancel => self.cancel(command, out),
            CommandKind::Replace => self.replace(command, out),
            CommandKind::GrantIncarnation => self.grant(input.source.gateway, command),
            CommandKind::StartOfDay => self.start_of_day(out),
            CommandKind::EndOfDay => self.end_of_day(out),
        }
    }

    /// Transport: is this source's input to be carried out?
    fn admit(&mut self, input: &Input) -> Result<(), Applied> {
        let source = &input.source;
        if source.shard != self.config.shard {
            return Err(Applied::Refused);
        }
        if source.gateway == GatewayId(0) {
            return Ok(());
        }
        match input.command.kind {
            CommandKind::GrantIncarnation => return Ok(()),
            CommandKind::StartOfDay | CommandKind::EndOfDay => return Err(Applied::Refused),
            CommandKind::NewOrder | CommandKind::Cancel | CommandKind::Replace => {}
        }
        match self.gateways.record(source) {
            Standing::New => Ok(()),
            Standing::Duplicate => {
                self.counters.duplicate_transport += 1;
                Err(Applied::DuplicateTransport)
            }
            Standing::Stale => Err(Applied::StaleIncarnation),
            Standing::TooFar => Err(Applied::TooFarAhead),
        }
    }

    fn grant(&mut self, gateway: GatewayId, command: &Command) -> Applied {
        let granted = self.gateways.grant(gateway, command.user_ref.0);
        granted.map_or(Applied::Refused, Applied::Granted)
    }

    /// The present life of a gateway and which of its inputs were seen, for acknowledgements;
    /// incarnation 0 and an empty window for a gateway without a grant.
    pub fn received(&self, gateway: GatewayId) -> (Incarnation, &SeqWindow) {
        self.gateways.received(gateway)
    }

    /// The configuration it was made of.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Whether orders are taken.
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Position the next market event will have.
    pub fn feed_next(&self) -> FeedSeq {
        self.numbers.feed
    }

    /// Engine time: the largest `t_seq` applied.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Inputs applied, duplicates and refused ones included.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// Resting orders of all instruments.
    pub fn open_orders(&self) -> usize {
        self.index.len()
    }

    /// The shard's counts.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The counts of one instrument; `None` for one that does not exist.
    pub fn instrument_counters(&self, instrument: InstrumentId) -> Option<InstrumentCounters> {
        self.slot(instrument).map(|slot| self.counters.instruments[slot])
    }

    /// The best level of a side; `None` when it is empty or the instrument does not exist.
    pub fn best(&self, instrument: InstrumentId, side: Side) -> Option<Depth> {
        self.depth(instrument, side).next()
    }

    /// The levels of a side, best first; none for an instrument that does not exist.
    pub fn depth(&self, instrument: InstrumentId, side: Side) -> impl Iterator<Item = Depth> {
        self.book(instrument).into_iter().flat_map(move |book| book.depth(side))
    }

    /// The book of an instrument.
    pub fn book(&self, instrument: InstrumentId) -> Option<&Book> {
        self.slot(instrument).map(|slot| &self.books[slot])
    }

    /// Digest of the displayed book, to be compared with every reader of the feed; see
    /// [`types::displayed_book`]. An instrument that does not exist has that of an empty book.
    pub fn displayed_digest(&self, instrument: InstrumentId) -> u64 {
        match self.book(instrument) {
            Some(book) => book.displayed_digest(),
            None => types::displayed_book(std::iter::empty(), std::iter::empty()),
        }
    }

    /// Digest of the whole state: two engines with equal digests answer every further input alike.
    /// Linear in the state; not for the hot path.
    pub fn state_digest(&self) -> u64 {
        let mut digest = Digest::default();
        digest.fold(self.phase as u64);
        digest.fold(self.now.0);
        digest.fold(self.applied);
        digest.fold(self.numbers.order_ref.0);
        digest.fold(self.numbers.match_number.0);
        digest.fold(self.numbers.feed.0);
        self.counters.fold(&mut digest);
        self.gateways.fold(&mut digest);
        self.accounts.fold(&mut digest);
        for book in &self.books {
            for side in [Side::Buy, Side::Sell] {
                book.orders(side).for_each(|order| fold_order(order, &mut digest));
                digest.fold(u64::MAX);
            }
        }
        digest.0
    }

    /// Index of an instrument's book.
    pub(crate) fn slot(&self, instrument: InstrumentId) -> Option<usize> {
        let slot = usize::from(instrument.0).checked_sub(1)?;
        (slot < self.books.len()).then_some(slot)
    }
}

fn fold_order(order: &book::Order, digest: &mut Digest) {
    let mut id = [0u8; 16];
    id[..14].copy_from_slice(&order.owner.cl_ord_id.0);
    let id = u128::from_le_bytes(id);
    let words = [
        order.order_ref.0,
        order.price.0 as u64,
        order.open().0,
        order.traded().0,
        u64::from(order.owner.account.0) << 32 | u64::from(order.owner.user_ref.0),
        id as u64,
        (id >> 64) as u64,
        u64::from(order.order_type as u8) << 16
            | u64::from(order.time_in_force as u8) << 8
            | u64::from(order.flags),
    ];
    words.into_iter().for_each(|word| digest.fold(word));
}
