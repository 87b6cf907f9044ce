//! The engine: admission of an input, dispatch, and what every command shares.

use book::Books;
use types::{
    Command, CommandKind, CrossKind, FeedSeq, GatewayId, Incarnation, Input, InstrumentId, Nanos,
    Phase,
};

use crate::between::Between;
use crate::config::Config;
use crate::counters::Counters;
use crate::engine_events::EngineEvents;
use crate::market::Market;
use crate::nodes::Nodes;
use crate::output::{Feed, Output};
use crate::risk::Risk;
use crate::sources::{Accounts, Gateways, Standing};
use crate::trades::Trades;

/// Version of the rules: engines of different versions may answer the same input differently, so
/// logs and snapshots carry it.
pub const RULES_VERSION: u32 = 10;

/// Orders and trades of a shard are numbered from its own number times two to this power.
const NUMBERS_OF_SHARD: u32 = 48;

/// What became of an input. Only [`Applied::Done`] has output of its own; orders that end with the
/// input's time are told of before that, whatever becomes of it.
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
    /// Not for this source, shard or state of the day, for an account that can't exist, or with a
    /// value the command can't have: nothing done.
    Refused,
}

/// The trading day.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Day {
    /// Before the first day.
    New = 0,
    /// Orders are taken.
    Open = 1,
    /// After a day.
    Closed = 2,
}

/// One engine shard. See the crate's contract.
#[derive(Debug)]
pub struct Engine {
    pub(crate) config: Config,
    pub(crate) day: Day,
    /// Whether the feed was told that market hours began.
    pub(crate) market_hours: bool,
    /// Orders of an earlier day, or of another shard, may be open.
    pub(crate) carried_over: bool,
    /// Largest engine time so far.
    pub(crate) now: Nanos,
    pub(crate) applied: u64,
    /// By instrument id less one, as the markets.
    pub(crate) books: Books,
    pub(crate) markets: Vec<Market>,
    pub(crate) gateways: Gateways,
    pub(crate) nodes: Nodes,
    pub(crate) accounts: Accounts,
    pub(crate) risk: Risk,
    /// In a venue of several shards.
    pub(crate) between: Option<Between>,
    pub(crate) trades: Trades,
    pub(crate) feed: Feed,
    pub(crate) counters: Counters,
    /// What [`Engine::stage`] was given, until an instrument is attached. No part of the state.
    pub(crate) staged: Vec<u8>,
    /// The instrument detached last, for [`Engine::detached`]. No part of the state.
    pub(crate) detached: Option<(InstrumentId, Vec<u8>)>,
    /// Orders stay beyond their end: see [`Engine::forget_expiry`].
    pub(crate) keeps_expired: bool,
}

impl Engine {
    /// An engine before its first trading day.
    ///
    /// # Panics
    /// When [`Config::check`] refuses the configuration: check what an operator wrote first.
    pub fn new(config: Config) -> Engine {
        config.check().expect("a checked configuration");
        let books = Books::new(&config.books(), config.book);
        Engine::with_books(config, books)
    }

    /// An engine whose books are these and which is new in everything else.
    pub(crate) fn with_books(config: Config, books: Books) -> Engine {
        let mut books = kept(&config, books);
        // Numbers of orders and trades are the venue's: each shard has its own range of them.
        books.number_from(u64::from(config.shard.0) << NUMBERS_OF_SHARD);
        let slots = 0..config.instruments.len();
        let markets: Vec<Market> = slots.map(|slot| Market::new(&config.rules_of(slot))).collect();
        let mut engine = Engine {
            day: Day::New,
            market_hours: false,
            carried_over: false,
            now: Nanos(0),
            applied: 0,
            books,
            markets,
            gateways: Gateways::new(config.gateways_max),
            nodes: Nodes::default(),
            accounts: Accounts::new(config.accounts_max),
            risk: Risk::new(&config),
            between: Between::new(&config),
            trades: Trades::new(config.trades_kept),
            feed: Feed { next: FeedSeq(1), silent: false },
            counters: Counters::new(config.instruments.len()),
            staged: Vec::new(),
            detached: None,
            keeps_expired: false,
            config,
        };
        for slot in 0..engine.markets.len() {
            engine.refer(slot);
        }
        engine
    }

    /// Applies the next input of the log and appends what follows to `out`. Good-till-date orders whose
    /// end is not after its time end first: nothing trades with them.
    ///
    /// Engine time never runs backwards: an input with an earlier `t_seq` than one before it is
    /// taken at that one's time.
    pub fn apply(&mut self, input: &Input, out: &mut Output) -> Applied {
        self.apply_next(input, out)
    }

    /// [`Engine::apply`], to be inlined where inputs are applied one after another.
    #[inline(always)]
    pub(crate) fn apply_next(&mut self, input: &Input, out: &mut Output) -> Applied {
        self.now = self.now.max(input.t_seq);
        self.applied += 1;
        if self.books.next_expiry() <= self.now {
            self.expire_due(out);
        }
        if let Err(ended) = self.admit(input) {
            return ended;
        }
        if input.command.session_seq != 0 {
            if input.source.gateway == GatewayId(0) && self.config.shards > 1 {
                return self.directed(input, out);
            }
            return self.apply_numbered(input, out);
        }
        self.dispatch(input, out)
    }

    /// The feed goes on behind the last of the events that a command has put behind the first `told`.
    fn assert_feed_follows(&self, told: usize, out: &Output) {
        assert!(out.market.len() >= told, "events are appended");
        if out.market.len() > told
            && let Some((last, _)) = out.market.last()
        {
            assert!(last.0 + 1 == self.feed.next.0, "positions of the feed are dense");
        }
    }

    #[inline(always)]
    pub(crate) fn dispatch(&mut self, input: &Input, out: &mut Output) -> Applied {
        if self.drops(input) {
            return Applied::Refused;
        }
        match input.command.kind {
            CommandKind::NewOrder => self.new_order(input, out),
            CommandKind::Cancel => self.cancel(input, out),
            CommandKind::Replace => self.replace(input, out),
            CommandKind::MassCancel => self.mass_cancel(input, out),
            CommandKind::SessionSlot => self.session_slot(&input.command, out),
            CommandKind::GrantIncarnation => self.grant(input.source.gateway, &input.command),
            _ => self.operate(&input.command, out),
        }
    }

    /// Commands of the exchange itself; the source has been checked.
    #[cold]
    fn operate(&mut self, command: &Command, out: &mut Output) -> Applied {
        let (told, now, applied) = (out.market.len(), self.now, self.applied);
        let done = self.carry_out(command, out);
        // One that attaches an instrument puts a copy in the place of the engine.
        assert!(self.applied == applied && self.now >= now, "it has come as far");
        assert!(self.books.len() <= self.config.book.orders as usize);
        self.assert_feed_follows(told, out);
        done
    }

    fn carry_out(&mut self, command: &Command, out: &mut Output) -> Applied {
        match command.kind {
            CommandKind::StartOfDay => self.start_of_day(command, out),
            CommandKind::EndOfDay => self.end_of_day(command, out),
            CommandKind::SetPhase => self.set_phase(command, out),
            CommandKind::Uncross => self.uncross(command, out),
            CommandKind::PublishIndicative => self.publish_indicative(command, out),
            // What was due has ended before.
            CommandKind::ExpireOrders => Applied::Done,
            CommandKind::SetLimit => self.set_limit(command),
            CommandKind::Kill => self.kill(command, out),
            CommandKind::SetInstrument => self.set_instrument(command, out),
            CommandKind::BustTrade => self.bust_trade(command, out),
            CommandKind::CorrectTrade => self.correct_trade(command, out),
            CommandKind::DetachInstrument => self.detach(command, out),
            CommandKind::AttachInstrument => self.attach(command, out),
            CommandKind::SetNode => self.set_node(command),
            CommandKind::Allot => self.allot(command),
            CommandKind::MergeStream => self.merge_stream(command, out),
            CommandKind::MovePart => self.take_part(command, out),
            CommandKind::NewOrder
            | CommandKind::Cancel
            | CommandKind::Replace
            | CommandKind::MassCancel
            | CommandKind::SessionSlot
            | CommandKind::GrantIncarnation => Applied::Refused,
        }
    }

    /// Transport: is this source's input to be carried out?
    #[inline(always)]
    fn admit(&mut self, input: &Input) -> Result<(), Applied> {
        let source = &input.source;
        if source.shard != self.config.shard {
            return Err(Applied::Refused);
        }
        if source.gateway == GatewayId(0) {
            return Ok(());
        }
        match input.command.kind {
            CommandKind::NewOrder
            | CommandKind::Cancel
            | CommandKind::Replace
            | CommandKind::MassCancel
            | CommandKind::SessionSlot => {}
            CommandKind::GrantIncarnation => return Ok(()),
            _ => return Err(Applied::Refused),
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

    fn set_node(&mut self, command: &Command) -> Applied {
        if self.nodes.apply(command, self.now) { Applied::Done } else { Applied::Refused }
    }

    fn grant(&mut self, gateway: GatewayId, command: &Command) -> Applied {
        let granted = self.gateways.grant(gateway, command.user_ref.0);
        granted.map_or(Applied::Refused, Applied::Granted)
    }

    /// The books, and who takes their events, for one call about one instrument.
    #[inline]
    pub(crate) fn events<'a>(
        &'a mut self,
        slot: usize,
        out: &'a mut Output,
    ) -> (&'a mut Books, EngineEvents<'a>) {
        let events = EngineEvents {
            auction_from: out.executions.len(),
            out,
            feed: &mut self.feed,
            risk: &mut self.risk,
            counters: &mut self.counters,
            trades: &mut self.trades,
            slot,
            now: self.now,
            crosses: CrossKind::Resuming,
            replaced: None,
            prices_late: 0,
            asked_as: None,
            interrupted: false,
        };
        (&mut self.books, events)
    }

    /// After a call of the books: the dynamic collar follows the last price, and an interruption
    /// is told in full.
    #[inline(always)]
    pub(crate) fn settle(&mut self, slot: usize, interrupted: bool, out: &mut Output) {
        let last = self.books.last_price(slot as u16);
        let market = &mut self.markets[slot];
        assert!(market.held, "only books of this shard are asked for anything");
        let moved = last != market.last;
        market.last = last;
        if moved && market.dynamic_bp != 0 {
            let collar = market.dynamic_collar(last);
            self.books.set_collar(slot as u16, collar);
        }
        if interrupted {
            self.tell_interruption(slot, out);
        }
    }

    /// Index of an instrument that this shard has.
    #[inline]
    pub(crate) fn slot(&self, instrument: InstrumentId) -> Option<usize> {
        let slot = usize::from(instrument.0).checked_sub(1)?;
        self.markets.get(slot).is_some_and(|market| market.held).then_some(slot)
    }

    /// Indexes a command is about: of one instrument, or with 0 of all that this shard has;
    /// `None` for an instrument it has not.
    pub(crate) fn slots(&self, instrument: InstrumentId) -> Option<Vec<usize>> {
        if instrument.0 != 0 {
            return self.slot(instrument).map(|slot| vec![slot]);
        }
        let held = self.markets.iter().enumerate().filter(|(_, market)| market.held);
        Some(held.map(|(slot, _)| slot).collect())
    }
}

/// Books that find orders by identifier if these have to be unique.
pub(crate) fn kept(config: &Config, mut books: Books) -> Books {
    if config.unique_cl_ord_id {
        books.keep_identifiers();
    }
    books
}

impl Clone for Engine {
    /// A copy that goes on alike. The books are copied as their snapshot: off the hot path.
    fn clone(&self) -> Engine {
        let mut bytes = Vec::new();
        self.books.write_snapshot(&mut bytes);
        let books = Books::read_snapshot(&self.book_configs(), self.config.book, &bytes);
        let books = kept(&self.config, books.expect("a snapshot written just now"));
        assert_eq!(books.len(), self.books.len());
        assert_eq!(books.next_expiry(), self.books.next_expiry());
        Engine {
            books,
            config: self.config.clone(),
            markets: self.markets.clone(),
            gateways: self.gateways.clone(),
            nodes: self.nodes.clone(),
            accounts: self.accounts.clone(),
            risk: self.risk.clone(),
            between: self.between.clone(),
            trades: self.trades.clone(),
            counters: self.counters.clone(),
            staged: self.staged.clone(),
            detached: self.detached.clone(),
            ..*self
        }
    }
}

/// What an uncrossing is called that happens in, or on leaving, a phase.
#[inline]
pub(crate) fn cross_kind(phase: Phase) -> CrossKind {
    match phase {
        Phase::PreOpen | Phase::OpeningCall => CrossKind::Opening,
        Phase::ClosingCall => CrossKind::Closing,
        Phase::Batch => CrossKind::Intraday,
        Phase::Closed | Phase::Continuous | Phase::Halt | Phase::VolatilityCall => {
            CrossKind::Resuming
        }
    }
}

#[cfg(test)]
mod tests {
    use types::{Instrument, MarketEvent, Price, Qty, Symbol};

    use super::*;

    fn engine() -> (Engine, Output) {
        let instrument = Instrument {
            id: InstrumentId(1),
            symbol: Symbol::new("A").expect("a valid symbol"),
            tick: Price(1),
            price_max: Price(1_000),
            qty_max: Qty(1_000),
            lot_decimals: 0,
        };
        let (mut engine, mut out) = (Engine::new(Config::new(vec![instrument])), Output::default());
        engine.feed.publish(MarketEvent::Directory { instrument: InstrumentId(1) }, &mut out);
        engine.assert_feed_follows(0, &out);
        (engine, out)
    }

    #[test]
    #[should_panic(expected = "positions of the feed are dense")]
    fn control_a_position_without_its_event_is_found() {
        let (mut engine, out) = engine();
        engine.feed.next.0 += 1;
        engine.assert_feed_follows(0, &out);
    }

    #[test]
    #[should_panic(expected = "positions of the feed are dense")]
    fn control_an_event_without_its_position_is_found() {
        let (engine, mut out) = engine();
        out.market.push((FeedSeq(2), MarketEvent::Directory { instrument: InstrumentId(1) }));
        engine.assert_feed_follows(0, &out);
    }

    #[test]
    #[should_panic(expected = "only books of this shard are asked for anything")]
    fn control_an_instrument_that_is_elsewhere_is_asked_for_nothing() {
        let (mut engine, mut out) = engine();
        engine.markets[0].held = false;
        engine.settle(0, false, &mut out);
    }
}
