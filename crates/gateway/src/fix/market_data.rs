//! Market data of one FIX session: its subscriptions, and what each was told last.
//!
//! A refresh is the difference between the books as they are and what the session was told last, so
//! a session that is behind is never queued for: it is told less often. How far it is behind is
//! known by TestRequests between the refreshes: with [`UNREAD_MAX`] bytes that it has not answered
//! for, it gets nothing until it does. Bounded: subscriptions, instruments of all of them together,
//! levels of each side.

use std::collections::VecDeque;

use fix::app::market::{
    self, Level, MarketDataRefusal, MarketDataRequest, Refresh, Subscription, Update,
};
use fix::app::{
    MARKET_DATA_INCREMENTAL, MARKET_DATA_REQUEST_REJECT, MARKET_DATA_SNAPSHOT, SECURITY_STATUS,
    Symbols, TRADING_SESSION_STATUS,
};
use fix::session::{Port, Session, Store};
use types::{InstrumentId, Nanos, Side, TradingState};

use crate::fix::market::ReleasedMarket;

/// Levels of a side, whatever is asked for.
const LEVELS_MAX: usize = 500;
/// Instruments of all subscriptions of a session together.
const INSTRUMENTS_MAX: usize = 256;
/// Subscriptions of a session, of each kind.
const SUBSCRIPTIONS_MAX: usize = 64;
/// Levels that one request may ask for.
const REQUEST_LEVELS_MAX: usize = 20_000;
/// Bytes of an identifier.
const ID_MAX: usize = 64;
/// A TestRequest goes out behind so many bytes.
const MARK_BYTES: u64 = 64 << 10;
/// Bytes that are sent before the answer to the first TestRequest behind them.
const UNREAD_MAX: u64 = 512 << 10;
/// Trades that one message tells of.
const PRINTS_PER_MESSAGE: usize = 64;
/// Refreshes of a session are at least this far apart.
const PACE_NS: u64 = Nanos::MILLI;
/// First letters of TestReqIDs here.
const MARK: &[u8] = b"MD";

/// What a session was told of one instrument.
#[derive(Clone, Debug)]
struct Part {
    instrument: InstrumentId,
    version: u64,
    printed: u64,
    /// Entries of refreshes so far, RptSeq of the last.
    entries: u64,
    levels: Vec<Level>,
}

#[derive(Clone, Debug)]
struct Subscribed {
    id: Vec<u8>,
    depth: usize,
    wanted: [bool; 3],
    full: bool,
    parts: Vec<Part>,
}

/// Whoever asked for states of trading.
#[derive(Clone, Debug)]
struct Watch {
    id: Vec<u8>,
    /// SecurityStatus instead of TradingSessionStatus.
    security: bool,
    told: Vec<(InstrumentId, Option<TradingState>)>,
}

/// Subscriptions of one market-data session, and how far the client has read.
#[derive(Debug, Default)]
pub(crate) struct MarketSubscriptions {
    subscriptions: Vec<Subscribed>,
    watches: Vec<Watch>,
    /// Bytes sent, and those known to be read.
    sent: u64,
    read: u64,
    /// TestRequests without an answer, by number, and bytes sent before each.
    marks: VecDeque<(u32, u64)>,
    last_mark: u32,
    /// The next refresh is not before.
    due: Nanos,
    updates: Vec<(Update, Level)>,
    levels: Vec<Level>,
}

impl MarketSubscriptions {
    fn is_behind(&self) -> bool {
        self.sent - self.read >= UNREAD_MAX
    }

    /// Answers a MarketDataRequest.
    pub(crate) fn request<S: Store>(
        &mut self,
        request: &MarketDataRequest<'_>,
        market: Option<&ReleasedMarket>,
        symbols: &Symbols,
        port: &mut Port<'_, S>,
    ) {
        let before = port.written();
        if let Err(refusal) = self.take(request, market, symbols, port) {
            port.send(MARKET_DATA_REQUEST_REJECT, |writer| {
                market::write_refusal(request.id, refusal, writer);
            });
        }
        self.sent += (port.written() - before) as u64;
    }

    fn take<S: Store>(
        &mut self,
        request: &MarketDataRequest<'_>,
        market: Option<&ReleasedMarket>,
        symbols: &Symbols,
        port: &mut Port<'_, S>,
    ) -> Result<(), MarketDataRefusal> {
        let known = self.subscriptions.iter().position(|one| one.id == request.id);
        match (request.subscription, known) {
            (Subscription::End, Some(place)) => {
                self.subscriptions.remove(place);
                return Ok(());
            }
            (Subscription::End, None) => return Err(MarketDataRefusal::UnknownId),
            (_, Some(_)) => return Err(MarketDataRefusal::DuplicateId),
            _ => {}
        }
        let market = market.filter(|market| !market.lost);
        let market = market.ok_or(MarketDataRefusal::Unavailable)?;
        let depth = if request.depth == 0 { LEVELS_MAX } else { request.depth as usize };
        let depth = depth.min(LEVELS_MAX);
        let held: usize = self.subscriptions.iter().map(|one| one.parts.len()).sum();
        let count = request.instruments.len();
        let updates = request.subscription == Subscription::Updates;
        let too_many = updates
            && (held + count > INSTRUMENTS_MAX || self.subscriptions.len() >= SUBSCRIPTIONS_MAX);
        let too_long = request.id.len() > ID_MAX || count * depth * 2 > REQUEST_LEVELS_MAX;
        if too_many || too_long || self.is_behind() {
            return Err(MarketDataRefusal::TooMuch);
        }
        let (id, wanted, full) = (request.id.to_vec(), request.wanted, request.full);
        let mut one = Subscribed { id, depth, wanted, full, parts: Vec::new() };
        for instrument in &request.instruments {
            let Some(name) = symbols.name(*instrument) else { continue };
            let (bids, offers) = (wanted[0], wanted[1]);
            market.levels(*instrument, [bids, offers], depth, &mut self.levels);
            let line = market.line(*instrument);
            let last = line.and_then(|line| line.last).filter(|_| wanted[2]);
            let levels = &self.levels;
            let at = line.map(|line| line.at);
            let version = port.version();
            let refresh = Refresh { version, id: &one.id, symbol: name, at, told: 0 };
            port.send(MARKET_DATA_SNAPSHOT, |writer| {
                market::write_snapshot(&refresh, levels, last.as_ref(), writer);
            });
            let (version, printed) = line.map_or((0, 0), |line| (line.version, line.printed));
            let levels = self.levels.clone();
            one.parts.push(Part { instrument: *instrument, version, printed, entries: 0, levels });
        }
        if updates {
            self.subscriptions.push(one);
        }
        Ok(())
    }

    /// Answers a request for states of trading: of one instrument (its name as it was written), or
    /// of all.
    pub(crate) fn state<S: Store>(
        &mut self,
        (id, name, subscription): (&[u8], Option<&[u8]>, Subscription),
        market: &ReleasedMarket,
        symbols: &Symbols,
        port: &mut Port<'_, S>,
    ) {
        let before = port.written();
        self.watches.retain(|watch| watch.id != id || watch.security != name.is_some());
        if subscription == Subscription::End {
            return;
        }
        let told = tell_states(id, name, market, symbols, port);
        let room = self.watches.len() < SUBSCRIPTIONS_MAX && id.len() <= ID_MAX;
        if subscription == Subscription::Updates && room {
            self.watches.push(Watch { id: id.to_vec(), security: name.is_some(), told });
        }
        self.sent += (port.written() - before) as u64;
    }

    /// A TestRequest was answered.
    pub(crate) fn heartbeat(&mut self, id: &[u8]) {
        let number = id.strip_prefix(MARK).and_then(fix::value::uint);
        let Some(number) = number.and_then(|number| u32::try_from(number).ok()) else { return };
        let Some(at) = self.marks.iter().position(|(mark, _)| *mark == number) else { return };
        if let Some((_, sent)) = self.marks.drain(..=at).next_back() {
            self.read = self.read.max(sent);
        }
    }

    /// Sends what has changed since it was told last, if it is time; when to come again.
    pub(crate) fn refresh<S: Store>(
        &mut self,
        now: Nanos,
        market: &ReleasedMarket,
        symbols: &Symbols,
        session: &mut Session<S>,
        out: &mut Vec<u8>,
    ) -> Nanos {
        self.mark(now, session, out);
        // Nobody comes back for a session that is behind: its Heartbeat does.
        if self.is_behind() || (self.subscriptions.is_empty() && self.watches.is_empty()) {
            return Nanos::NEVER;
        }
        if now < self.due {
            return self.due;
        }
        let MarketSubscriptions { subscriptions, watches, updates, levels, .. } = self;
        let before = out.len();
        for watch in watches {
            watch.refresh(now, market, symbols, session, out);
        }
        for one in subscriptions {
            for place in 0..one.parts.len() {
                if (out.len() - before) as u64 >= UNREAD_MAX {
                    break;
                }
                one.refresh(now, place, (market, symbols), (updates, levels), session, out);
            }
        }
        let written = (out.len() - before) as u64;
        if written > 0 {
            self.due = now.after(PACE_NS);
            self.sent += written;
            self.mark(now, session, out);
        }
        Nanos::NEVER
    }

    /// A TestRequest behind what was sent, if that is enough since the last one.
    fn mark<S: Store>(&mut self, now: Nanos, session: &mut Session<S>, out: &mut Vec<u8>) {
        let marked = self.marks.back().map_or(self.read, |(_, sent)| *sent);
        if self.sent - marked >= MARK_BYTES {
            self.last_mark = self.last_mark.wrapping_add(1);
            self.marks.push_back((self.last_mark, self.sent));
            session.test(now, format!("MD{}", self.last_mark).as_bytes(), out);
        }
    }
}

impl Subscribed {
    fn refresh<S: Store>(
        &mut self,
        now: Nanos,
        place: usize,
        (market, symbols): (&ReleasedMarket, &Symbols),
        (updates, levels): (&mut Vec<(Update, Level)>, &mut Vec<Level>),
        session: &mut Session<S>,
        out: &mut Vec<u8>,
    ) {
        let Some(part) = self.parts.get_mut(place) else { return };
        let (Some(line), Some(name)) =
            (market.line(part.instrument), symbols.name(part.instrument))
        else {
            return;
        };
        if line.version == part.version {
            return;
        }
        market.levels(part.instrument, [self.wanted[0], self.wanted[1]], self.depth, levels);
        let prints = line.prints_after(if self.wanted[2] { part.printed } else { line.printed });
        differences(&part.levels, levels, updates);
        let (version, told) = (session.outbound().version(), part.entries);
        let mut refresh = Refresh { version, id: &self.id, symbol: name, at: Some(line.at), told };
        let nothing = updates.is_empty() && prints.len() == 0;
        if self.full && !nothing {
            refresh.told += 1;
            part.entries = refresh.told;
            let last = line.last.filter(|_| self.wanted[2]);
            session.outbound().send(now, MARKET_DATA_SNAPSHOT, out, |writer| {
                market::write_snapshot(&refresh, levels, last.as_ref(), writer);
            });
        } else if !nothing {
            // Trades in messages of a bounded length; what they left of the levels behind the last.
            let mut prints = prints;
            part.entries += (prints.len() + updates.len()) as u64;
            while prints.len() > PRINTS_PER_MESSAGE {
                session.outbound().send(now, MARKET_DATA_INCREMENTAL, out, |writer| {
                    let some = prints.by_ref().take(PRINTS_PER_MESSAGE);
                    market::write_updates(&refresh, some, &[], writer);
                });
                refresh.told += PRINTS_PER_MESSAGE as u64;
            }
            session.outbound().send(now, MARKET_DATA_INCREMENTAL, out, |writer| {
                market::write_updates(&refresh, prints, updates, writer);
            });
        }
        (part.version, part.printed) = (line.version, line.printed);
        std::mem::swap(&mut part.levels, levels);
    }
}

impl Watch {
    fn refresh<S: Store>(
        &mut self,
        now: Nanos,
        market: &ReleasedMarket,
        symbols: &Symbols,
        session: &mut Session<S>,
        out: &mut Vec<u8>,
    ) {
        let (id, security, version) = (&self.id, self.security, session.outbound().version());
        for (instrument, told) in &mut self.told {
            let state = market.books.state(*instrument);
            if state == *told {
                continue;
            }
            *told = state;
            let (Some(name), Some(known)) = (symbols.name(*instrument), state) else { continue };
            if security {
                session.outbound().send(now, SECURITY_STATUS, out, |writer| {
                    let name = name.as_str().as_bytes();
                    market::write_security_status(version, id, name, state, writer);
                });
            } else {
                session.outbound().send(now, TRADING_SESSION_STATUS, out, |writer| {
                    market::write_trading_status(version, Some(id), name, known, writer);
                });
            }
        }
    }
}

/// Tells states of trading once; what was told.
pub(crate) fn tell_states<S: Store>(
    id: &[u8],
    name: Option<&[u8]>,
    market: &ReleasedMarket,
    symbols: &Symbols,
    port: &mut Port<'_, S>,
) -> Vec<(InstrumentId, Option<TradingState>)> {
    let version = port.version();
    if let Some(name) = name {
        let known = symbols.find(name).map(|instrument| instrument.id);
        let state = known.and_then(|instrument| market.books.state(instrument));
        port.send(SECURITY_STATUS, |writer| {
            market::write_security_status(version, id, name, state, writer);
        });
        return known.map(|instrument| (instrument, state)).into_iter().collect();
    }
    let mut told = Vec::new();
    for instrument in symbols.all() {
        let state = market.books.state(instrument.id);
        if let Some(state) = state {
            port.send(TRADING_SESSION_STATUS, |writer| {
                market::write_trading_status(version, Some(id), &instrument.symbol, state, writer);
            });
        }
        told.push((instrument.id, state));
    }
    told
}

/// What makes the levels that `told` are into those that are `now`, both bids first and best first.
fn differences(told: &[Level], now: &[Level], into: &mut Vec<(Update, Level)>) {
    into.clear();
    let (mut old, mut new) = (told.iter().peekable(), now.iter().peekable());
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(a), Some(b)) => rank(a).cmp(&rank(b)),
        };
        match order {
            std::cmp::Ordering::Less => {
                into.extend(old.next().map(|level| (Update::Delete, *level)));
            }
            std::cmp::Ordering::Greater => {
                into.extend(new.next().map(|level| (Update::New, *level)));
            }
            std::cmp::Ordering::Equal => {
                let (before, after) = (old.next(), new.next());
                if before != after {
                    into.extend(after.map(|level| (Update::Change, *level)));
                }
            }
        }
    }
}

/// The place of a level: bids before offers, better ones first.
fn rank(level: &Level) -> (bool, i64) {
    match level.side {
        Side::Buy => (false, -level.price.0),
        Side::Sell => (true, level.price.0),
    }
}

#[cfg(test)]
mod tests {
    use types::{Price, Qty, SplitMix64};

    use super::*;

    #[test]
    fn differences_lead_from_one_book_to_the_other() {
        for seed in 0..200 {
            let mut rng = SplitMix64::new(seed);
            let mut book = || {
                let mut levels = Vec::new();
                for side in [Side::Buy, Side::Sell] {
                    for n in 0..8 {
                        if rng.next_u64().is_multiple_of(2) {
                            let price = if side == Side::Buy { 100 - n } else { 101 + n };
                            let qty = Qty(1 + rng.next_u64() % 2);
                            levels.push(Level { side, price: Price(price), qty, orders: 1 });
                        }
                    }
                }
                levels
            };
            let (before, after, mut updates) = (book(), book(), Vec::new());
            differences(&before, &after, &mut updates);
            let mut found = before.clone();
            for (update, level) in &updates {
                let at = found.iter().position(|one| rank(one) == rank(level));
                match (update, at) {
                    (Update::New, None) => found.push(*level),
                    (Update::Change, Some(at)) if found[at] != *level => found[at] = *level,
                    (Update::Delete, Some(at)) => drop(found.remove(at)),
                    odd => panic!("seed {seed}: {odd:?}"),
                }
            }
            found.sort_by_key(rank);
            assert_eq!(found, after, "seed {seed}");
        }
    }

    /// Books in which every message is one lot traded and nothing rests.
    struct Trades(u64);

    impl crate::fix::market::Books for Trades {
        fn apply(&mut self, _: Nanos, _: usize, _: &[u8]) -> Option<crate::fix::market::News> {
            self.0 += 1;
            let match_number = types::MatchNumber(self.0);
            let (price, qty, at) = (Price(1), Qty(1), Nanos(self.0 * Nanos::SECOND));
            let (aggressor, broken) = (Some(Side::Sell), false);
            let print = market::Print { match_number, price, qty, at, aggressor, broken };
            Some(crate::fix::market::News { instrument: InstrumentId(1), at, print: Some(print) })
        }

        fn levels(&self, _: InstrumentId, _: Side, _: usize, _: &mut Vec<Level>) {}

        fn state(&self, _: InstrumentId) -> Option<TradingState> {
            None
        }
    }

    #[test]
    fn trades_between_two_refreshes_are_told_one_by_one_in_messages_of_bounded_length() {
        let mut market = ReleasedMarket::new(Box::new(Trades(0)));
        let symbols = Symbols::new(&[fix::sample::instrument()]);
        let rules = fix::dictionary::builtin(fix::Version::Fix50Sp2).unwrap();
        let config = fix::session::SessionConfig::new("FAIRBELL", "DATA", rules);
        let store = fix::session::MemoryStore::new(10_000, 1 << 20);
        let mut session = Session::new(0, config, store);
        session.outbound().connect();
        let mut state = MarketSubscriptions::default();
        let (instrument, levels) = (InstrumentId(1), Vec::new());
        let parts = vec![Part { instrument, version: 0, printed: 0, entries: 0, levels }];
        let wanted = [true; 3];
        state.subscriptions.push(Subscribed {
            id: b"M".to_vec(),
            depth: 1,
            wanted,
            full: false,
            parts,
        });
        let mut told = 0;
        for trades in [1, 120, 64, 65, 1_024] {
            (0..trades).for_each(|_| market.apply(Nanos(0), 0, &[]));
            let mut out = Vec::new();
            state.due = Nanos(0);
            state.refresh(Nanos(1), &market, &symbols, &mut session, &mut out);
            let text = String::from_utf8_lossy(&out).replace('\u{1}', "|");
            let messages: Vec<&str> = text.split("|35=X|").skip(1).collect();
            assert_eq!(messages.len(), usize::div_ceil(trades, PRINTS_PER_MESSAGE));
            let numbers = |tag: &str| -> Vec<u64> {
                let values = text.split(tag).skip(1).map(|rest| rest.split('|').next());
                values.map(|value| value.unwrap().parse().unwrap()).collect()
            };
            let due: Vec<u64> = (told + 1..=told + trades as u64).collect();
            assert_eq!((numbers("|278="), numbers("|83=")), (due.clone(), due));
            assert!(text.contains("|272=19700101|273=00:00:01.000|58=SELL|") == (told == 0));
            for message in messages {
                let count = message.matches("|278=").count();
                assert!(count <= PRINTS_PER_MESSAGE && message.contains(&format!("|268={count}|")));
            }
            told += trades as u64;
        }
    }

    #[test]
    fn who_does_not_answer_is_behind_until_he_does() {
        let mut state =
            MarketSubscriptions { sent: UNREAD_MAX + 5, ..MarketSubscriptions::default() };
        state.marks.extend([(1, 10), (2, UNREAD_MAX)]);
        assert!(state.is_behind());
        for odd in [&b"MD"[..], b"MD3", b"TEST", b"MDx", b"MD99999999999"] {
            state.heartbeat(odd);
            assert!(state.is_behind() && state.marks.len() == 2);
        }
        state.heartbeat(b"MD2");
        assert!(!state.is_behind() && state.marks.is_empty());
        assert_eq!(state.read, UNREAD_MAX);
    }
}
