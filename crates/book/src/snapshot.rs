//! The whole state of the books, or of one, as bytes, and back.
//!
//! Words of 64 bits, little endian: a header, then book by book its prices and its orders in the
//! order of a mass cancel. The same words are what [`Books::fold`] folds, so equal digests mean
//! equal futures. What is read is trusted in nothing: fields, capacities and invariants are
//! checked, and the restored state must give the very same bytes again.

use types::{
    Digest, NewOrder, ORDER_HIDDEN, OrderType, Phase, Price, SelfTrade, Side, TickTable,
    TimeInForce, limits::PRICE_MAX,
};

use crate::books::{BookConfig, Books, Capacity, Silence};
use crate::check::Fault;
use crate::index::IdHash;
use crate::ladder::Ladder;
use crate::order::{Home, Kind, NOWHERE, Order};

const ALL_MAGIC: u64 = u64::from_le_bytes(*b"FBBOOKS2");
const ONE_MAGIC: u64 = u64::from_le_bytes(*b"FBBOOK_2");

/// Why bytes are no snapshot of these books.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SnapshotError {
    /// The bytes end early, or go on after the end.
    Length,
    /// The format or its version is another one.
    Format,
    /// The number of books is another one.
    Books,
    /// No such book, or it holds orders.
    Occupied,
    /// A field has a value it cannot have.
    Field,
    /// The books do not fit the configured capacities.
    Capacity,
    /// Two orders have one key or one reference.
    Duplicate,
    /// The state it describes breaks an invariant.
    Unsound(Fault),
}

impl std::fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SnapshotError::Unsound(fault) => write!(f, "snapshot of the books: {fault}"),
            other => write!(f, "snapshot of the books is damaged or not ours: {other:?}"),
        }
    }
}

impl std::error::Error for SnapshotError {}

/// Takes words: a buffer, or a digest.
pub(crate) trait Words {
    fn word(&mut self, word: u64);
}

impl Words for Vec<u8> {
    fn word(&mut self, word: u64) {
        self.extend_from_slice(&word.to_le_bytes());
    }
}

impl Words for Digest {
    fn word(&mut self, word: u64) {
        self.fold(word);
    }
}

fn write_order(order: &Order, out: &mut impl Words) {
    out.word(order.key);
    out.word(order.order_ref);
    out.word(order.price as u64);
    out.word(u64::from(order.open) | u64::from(order.shown) << 32);
    out.word(u64::from(order.traded) | u64::from(order.display_qty) << 32);
    let group = u64::from(order.group) << 32;
    out.word(u64::from(order.min_qty) | group | u64::from(order.session) << 48);
    out.word(u64::from_le_bytes([
        order.side as u8,
        order.order_type as u8,
        order.time_in_force as u8,
        order.flags,
        order.self_trade as u8,
        order.home as u8,
        0,
        0,
    ]));
    out.word(order.stop_price as u64);
    out.word(order.limit as u64);
    out.word(order.trigger as u64);
    out.word(order.expire_at);
    let mut id = [0; 16];
    id[..14].copy_from_slice(&order.cl_ord_id.0);
    out.word(u128::from_le_bytes(id) as u64);
    out.word((u128::from_le_bytes(id) >> 64) as u64);
}

/// Number of 64-bit words per order.
const ORDER_WORDS: usize = 13;

/// Reads words; `Length` at the end.
struct Source<'a> {
    bytes: &'a [u8],
}

impl Source<'_> {
    fn word(&mut self) -> Result<u64, SnapshotError> {
        let (word, rest) = self.bytes.split_first_chunk().ok_or(SnapshotError::Length)?;
        self.bytes = rest;
        Ok(u64::from_le_bytes(*word))
    }

    fn signed(&mut self) -> Result<i64, SnapshotError> {
        Ok(self.word()? as i64)
    }

    /// A word that is 0 or 1.
    fn flag(&mut self) -> Result<bool, SnapshotError> {
        match self.word()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(SnapshotError::Field),
        }
    }
}

fn pick<T: Copy>(all: &[T], code: u8) -> Result<T, SnapshotError> {
    all.get(usize::from(code)).copied().ok_or(SnapshotError::Field)
}

fn side_of(code: u8) -> Result<Side, SnapshotError> {
    pick(&[Side::Buy, Side::Sell], code)
}

fn type_of(code: u8) -> Result<OrderType, SnapshotError> {
    use OrderType as T;
    let all = [
        T::Limit,
        T::Market,
        T::MarketToLimit,
        T::Stop,
        T::StopLimit,
        T::TrailingStop,
        T::PegPrimary,
        T::PegMid,
    ];
    pick(&all, code)
}

fn life_of(code: u8) -> Result<TimeInForce, SnapshotError> {
    use TimeInForce as T;
    let all = [
        T::Day,
        T::GoodTillCancelled,
        T::ImmediateOrCancel,
        T::FillOrKill,
        T::GoodTillDate,
        T::AtTheOpen,
        T::AtTheClose,
    ];
    pick(&all, code)
}

fn self_trade_of(code: u8) -> Result<SelfTrade, SnapshotError> {
    use SelfTrade as T;
    pick(&[T::Allow, T::CancelNewest, T::CancelOldest, T::CancelBoth, T::Decrement], code)
}

fn home_of(code: u8) -> Result<Home, SnapshotError> {
    use Home as H;
    let all = [H::Shown, H::Hidden, H::Market, H::Stop, H::Waiting, H::Parked];
    pick(&all, code.wrapping_sub(Home::Shown as u8))
}

fn read_order(book: u16, source: &mut Source) -> Result<Order, SnapshotError> {
    let terms = NewOrder::limit(source.word()?, Side::Buy, Price(0), 0);
    let mut order = Order::new(book, source.word()?, &terms, IdHash::default());
    order.price = source.signed()?;
    let halves = |word: u64| (word as u32, (word >> 32) as u32);
    (order.open, order.shown) = halves(source.word()?);
    (order.traded, order.display_qty) = halves(source.word()?);
    let (min_qty, upper) = halves(source.word()?);
    order.min_qty = min_qty;
    (order.group, order.session) = (upper as u16, (upper >> 16) as u16);
    let [side, order_type, life, flags, self_trade, home, 0, 0] = source.word()?.to_le_bytes()
    else {
        return Err(SnapshotError::Field);
    };
    order.side = side_of(side)?;
    order.order_type = type_of(order_type)?;
    order.time_in_force = life_of(life)?;
    order.flags = flags;
    order.self_trade = self_trade_of(self_trade)?;
    order.home = home_of(home)?;
    order.stop_price = source.signed()?;
    order.limit = source.signed()?;
    order.trigger = source.signed()?;
    order.expire_at = source.word()?;
    let id = u128::from(source.word()?) | u128::from(source.word()?) << 64;
    let id = id.to_le_bytes();
    order.cl_ord_id.0.copy_from_slice(&id[..14]);
    if id[14..] != [0; 2] {
        return Err(SnapshotError::Field);
    }
    Ok(order)
}

/// Whether an order can be where it says it is.
fn belongs(order: &Order, unit: i64) -> bool {
    let priced = (1..=PRICE_MAX).contains(&order.price) && order.price % unit == 0;
    let kind = order.order_type;
    let shows = match order.home {
        Home::Shown if order.display_qty == 0 => order.shown == order.open,
        Home::Shown => (1..=order.portion()).contains(&order.shown),
        _ => order.shown == 0,
    };
    let fits = match order.home {
        Home::Shown => kind == OrderType::Limit && priced && order.flags & ORDER_HIDDEN == 0,
        Home::Hidden => (kind == OrderType::Limit || kind.peg()) && priced && order.hidden(),
        Home::Market => kind == OrderType::Market && order.price == 0,
        Home::Stop if kind == OrderType::StopLimit => priced,
        Home::Stop => kind.stop() && order.price == 0,
        Home::Waiting => {
            order.time_in_force == TimeInForce::AtTheClose
                && ((kind == OrderType::Limit && priced)
                    || (kind == OrderType::Market && order.price == 0))
        }
        Home::Parked => kind.peg() && order.price == 0,
        Home::Free | Home::Loose => false,
    };
    // A peg's prices are worked out from these two.
    let pegged = !kind.peg()
        || ((0..=PRICE_MAX).contains(&order.limit)
            && order.limit % unit == 0
            && order.stop_price >= 0
            && order.stop_price % unit == 0);
    fits && shows && pegged && order.open > 0 && (order.home == Home::Stop || order.trigger == 0)
}

impl Books {
    /// Writes everything: a snapshot, or a digest.
    pub(crate) fn write_all(&self, out: &mut impl Words) {
        out.word(ALL_MAGIC);
        out.word(self.markets.len() as u64);
        out.word(self.shared.last_ref);
        out.word(self.shared.last_match);
        for market in &self.markets {
            self.write_market(market.number, out);
        }
    }

    fn write_market(&self, book: u16, out: &mut impl Words) {
        let Some(market) = self.market(book) else { return };
        out.word(market.phase as u64);
        out.word(market.last as u64);
        out.word(market.reference as u64);
        out.word(u64::from(market.collar.is_some()));
        let (low, high) = market.collar.unwrap_or((0, 0));
        out.word(low as u64);
        out.word(high as u64);
        // What nobody can tell apart is written alike.
        let due = market.pegs.due || market.pegs.is_empty();
        let [bid, ask] = if due { [0; 2] } else { market.pegs.seen };
        out.word(u64::from(due));
        out.word(bid as u64);
        out.word(ask as u64);
        out.word(market.len.into());
        self.all_orders(book).for_each(|order| write_order(order, out));
    }

    /// Appends a snapshot of all books.
    pub fn write_snapshot(&self, out: &mut Vec<u8>) {
        out.reserve((4 + self.markets.len() * 10 + self.len() * ORDER_WORDS) * 8);
        self.write_all(out);
    }

    /// Appends one book, for another shard to read.
    pub fn write_book(&self, book: u16, out: &mut Vec<u8>) {
        out.word(ONE_MAGIC);
        self.write_market(book, out);
    }

    /// Books as a snapshot describes them; from now on they behave exactly as those that wrote it.
    ///
    /// # Errors
    /// A [`SnapshotError`] for anything [`Books::write_snapshot`] could not have written.
    pub fn read_snapshot(
        books: &[BookConfig],
        capacity: Capacity,
        bytes: &[u8],
    ) -> Result<Books, SnapshotError> {
        let mut source = Source { bytes };
        if source.word()? != ALL_MAGIC {
            return Err(SnapshotError::Format);
        }
        if source.word()? != books.len() as u64 {
            return Err(SnapshotError::Books);
        }
        let mut restored = Books::new(books, capacity);
        restored.shared.last_ref = source.word()?;
        restored.shared.last_match = source.word()?;
        if restored.shared.last_ref.max(restored.shared.last_match) > i64::MAX as u64 {
            return Err(SnapshotError::Field);
        }
        for book in 0..books.len() {
            let orders = restored.read_market(book as u16, &mut source)?;
            restored.place_all(book as u16, orders)?;
        }
        restored.accept(source, bytes, Books::write_snapshot)?;
        let mut refs: Vec<u64> = restored.refs().collect();
        refs.sort_unstable();
        let sound = refs.iter().all(|&r| (1..=restored.shared.last_ref).contains(&r));
        if !sound || !refs.is_sorted_by(|a, b| a < b) {
            return Err(SnapshotError::Duplicate);
        }
        Ok(restored)
    }

    /// Fills an empty book with what another shard wrote. Orders get new references of this shard,
    /// in the order of their old ones; match numbers go on as they are here.
    ///
    /// # Errors
    /// A [`SnapshotError`]; nothing has changed then.
    pub fn read_book(&mut self, book: u16, bytes: &[u8]) -> Result<(), SnapshotError> {
        if self.market(book).is_none_or(|market| market.len > 0) {
            return Err(SnapshotError::Occupied);
        }
        let result = self.try_read_book(book, bytes);
        if result.is_err() {
            self.remove_book(book);
        }
        result
    }

    fn try_read_book(&mut self, book: u16, bytes: &[u8]) -> Result<(), SnapshotError> {
        let mut source = Source { bytes };
        if source.word()? != ONE_MAGIC {
            return Err(SnapshotError::Format);
        }
        let mut orders = self.read_market(book, &mut source)?;
        let mut by_age: Vec<(u64, usize)> =
            orders.iter().enumerate().map(|(at, order)| (order.order_ref, at)).collect();
        by_age.sort_unstable();
        if by_age.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(SnapshotError::Duplicate);
        }
        let first = self.shared.last_ref;
        for (n, &(_, at)) in by_age.iter().enumerate() {
            orders[at].order_ref = first + 1 + n as u64;
        }
        let new_ref_of: Vec<u64> = orders.iter().map(|order| order.order_ref).collect();
        self.place_all(book, orders)?;
        if !source.bytes.is_empty() {
            return Err(SnapshotError::Length);
        }
        self.check().map_err(SnapshotError::Unsound)?;
        // Placed in the order they were written in, or the bytes were not ours.
        let placed = self.all_orders(book).map(|order| order.order_ref);
        if !placed.eq(new_ref_of) {
            return Err(SnapshotError::Field);
        }
        self.shared.last_ref = first + by_age.len() as u64;
        Ok(())
    }

    /// Empties a book without a word, and forgets its prices; its phase is then Closed.
    pub fn remove_book(&mut self, book: u16) {
        let mut silence = Silence;
        let Some(mut ops) = self.ops(book, &mut silence) else { return };
        ops.cancel_where(types::CancelReason::Requested, |_| true);
        let market = ops.market;
        (market.phase, market.last, market.reference) = (Phase::Closed, 0, 0);
        market.collar = None;
        market.settle_fast();
    }

    /// Gives a book another tick table: its orders stay as they are, with references and priority,
    /// and so does all else of it. False, with nothing changed, when one of their prices is no
    /// multiple of the smallest step.
    pub fn set_ticks(&mut self, book: u16, ticks: TickTable) -> bool {
        let unit = crate::ladder::unit_of(&ticks);
        let fits = |order: &Order| {
            let stop = order.trigger_price().unwrap_or_default();
            [order.price(), order.limit(), stop].iter().all(|price| price.0 % unit == 0)
        };
        let Some(market) = self.market(book) else { return false };
        if market.ticks == ticks {
            return true;
        }
        if !self.all_orders(book).all(fits) {
            return false;
        }
        let mut bytes = Vec::new();
        self.write_book(book, &mut bytes);
        self.remove_book(book);
        let levels = self.shared.capacity.levels;
        if let Some(market) = self.markets.get_mut(usize::from(book)) {
            market.ticks = ticks;
            market.ladders = [Side::Buy, Side::Sell].map(|side| Ladder::new(side, &ticks, levels));
        }
        let mut source = Source { bytes: &bytes };
        let magic = source.word().expect("written just now");
        assert_eq!(magic, ONE_MAGIC, "written just now");
        let orders = self.read_market(book, &mut source).expect("written just now");
        self.place_all(book, orders).expect("each order has the place it had");
        debug_assert_eq!(self.check(), Ok(()));
        true
    }

    fn refs(&self) -> impl Iterator<Item = u64> + '_ {
        let live = self.shared.slab.slots().iter().filter(|order| order.home != Home::Free);
        live.map(|order| order.order_ref)
    }

    /// The last tests of a restored state.
    fn accept(
        &self,
        source: Source,
        bytes: &[u8],
        write: impl Fn(&Books, &mut Vec<u8>),
    ) -> Result<(), SnapshotError> {
        if !source.bytes.is_empty() {
            return Err(SnapshotError::Length);
        }
        self.check().map_err(SnapshotError::Unsound)?;
        let mut again = Vec::new();
        write(self, &mut again);
        if again != bytes {
            return Err(SnapshotError::Field);
        }
        Ok(())
    }

    /// Reads a book's own state, and its orders without placing them.
    fn read_market(&mut self, book: u16, source: &mut Source) -> Result<Vec<Order>, SnapshotError> {
        let Some(market) = self.markets.get_mut(usize::from(book)) else {
            return Err(SnapshotError::Books);
        };
        let phase = u8::try_from(source.word()?).ok().and_then(Phase::from_code);
        market.phase = phase.ok_or(SnapshotError::Field)?;
        market.last = source.signed()?;
        market.reference = source.signed()?;
        let collared = source.flag()?;
        let collar = (source.signed()?, source.signed()?);
        market.collar = collared.then_some(collar);
        market.pegs.due = source.flag()?;
        market.pegs.seen = [source.signed()?, source.signed()?];
        let sound = market.last >= 0 && market.reference >= 0;
        if !sound {
            return Err(SnapshotError::Field);
        }
        let (unit, count) = (market.ladders[0].unit(), source.word()?);
        if count > u64::from(self.shared.capacity.orders - self.shared.slab.live()) {
            return Err(SnapshotError::Capacity);
        }
        if count > (source.bytes.len() / (ORDER_WORDS * 8)) as u64 {
            return Err(SnapshotError::Length);
        }
        let mut orders = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let order = read_order(book, source)?;
            if !belongs(&order, unit) {
                return Err(SnapshotError::Field);
            }
            orders.push(order);
        }
        Ok(orders)
    }

    /// Puts orders where they say they are.
    fn place_all(&mut self, book: u16, orders: Vec<Order>) -> Result<(), SnapshotError> {
        let mut silence = Silence;
        let Some(mut ops) = self.ops(book, &mut silence) else {
            return Err(SnapshotError::Books);
        };
        let (due, capacity) = (ops.market.pegs.due, ops.shared.capacity);
        for order in orders {
            let Err(vacancy) = ops.shared.index.look(order.key, &ops.shared.slab) else {
                return Err(SnapshotError::Duplicate);
            };
            let (home, trigger) = (order.home, order.trigger);
            let stops =
                [0, 1].map(|side: usize| ops.market.stops[side].len()).iter().sum::<usize>();
            let ladder = &mut ops.market.ladders[order.side as usize];
            let full = match home {
                Home::Shown | Home::Hidden => !ladder.has_room(ladder.key(order.price)),
                Home::Stop => stops >= capacity.stops as usize,
                _ => false,
            };
            if full || (order.order_type.peg() && ops.market.pegs.is_full()) {
                return Err(SnapshotError::Capacity);
            }
            let slot = ops.shared.slab.take();
            let id_hash = ops.shared.hash_id(order.key, &order.cl_ord_id);
            *ops.order_mut(slot) = Order { id_hash, ..order };
            ops.shared.enlist(vacancy, slot);
            ops.shared.note_end(slot);
            ops.market.len += 1;
            ops.shared.tally.came(order.open);
            ops.order_mut(slot).home = Home::Loose;
            ops.put_back(slot, home, trigger);
        }
        ops.market.pegs.due = due;
        ops.market.settle_fast();
        Ok(())
    }
}

impl crate::book_ops::BookOps<'_, Silence> {
    /// Places a loose order without telling; there is room for it.
    fn put_back(&mut self, slot: u32, home: Home, trigger: i64) {
        let order = self.order(slot);
        let (side, price, order_ref) = (order.side, order.price, order.order_ref);
        let peg = order.order_type.peg();
        let ladder = &mut self.market.ladders[side as usize];
        let place = match home {
            Home::Shown | Home::Hidden => {
                ladder.find_or_make(ladder.key(price), home == Home::Shown).unwrap_or(NOWHERE)
            }
            _ => NOWHERE,
        };
        match home {
            Home::Shown => self.append_shown(place, slot),
            Home::Hidden => self.append_hidden(place, slot),
            Home::Stop => self.list_stop(slot, trigger),
            Home::Market | Home::Waiting => {
                let queue = match home {
                    Home::Market => &mut self.market.queues[side as usize],
                    _ => &mut self.market.waiting,
                };
                crate::queues::append(&mut self.shared.slab, queue, slot);
                self.order_mut(slot).home = home;
            }
            _ => self.order_mut(slot).home = home,
        }
        if peg {
            self.market.pegs.insert(order_ref, slot);
        }
    }
}
