//! The displayed book of every instrument, rebuilt from ITCH 5.0 messages.
//!
//! Contract: messages are applied in feed order. A message that contradicts the image (unknown
//! order, more executed than open, wrong instrument or symbol...) changes nothing, is counted and
//! returned as a typed error; the image goes on with the next one. Memory is bounded by the number
//! of orders given at the start and by the 4,096 instruments of the system. Books may be crossed:
//! they are, while an auction collects orders.

use types::{
    InstrumentId, MatchNumber, OrderRef, Price, Qty, Side, Symbol, displayed_book, limits,
};
use wire::itch::{
    self, EventCode, ItchError, LuldAuctionCollar, Message, NetOrderImbalance, Printable, State,
    StockDirectory, StockTradingAction, SystemEvent, Time,
};

use crate::{
    ladder::{Ladder, Level},
    orders::{NONE, Orders, Refused, Resting, Slot},
};

/// How a message contradicts the image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImageError {
    /// No directory entry for this stock locate came before.
    UnknownInstrument(InstrumentId),
    /// The stock locate is 0 or above [`types::limits::INSTRUMENTS_MAX`].
    LocateOutOfRange(u16),
    /// The symbol is not the one the directory gave this locate.
    SymbolMismatch(InstrumentId),
    /// No order with this reference rests.
    UnknownOrder(OrderRef),
    /// An order with this reference rests already.
    DuplicateOrder(OrderRef),
    /// The order rests in another instrument's book.
    WrongInstrument(OrderRef),
    /// The message takes more lots from an order than are open.
    TooMuchTaken {
        /// Reference of the order.
        order_ref: OrderRef,
        /// Open lots of the order.
        open: Qty,
        /// Lots that the message takes.
        taken: Qty,
    },
    /// The quantity in the message about this order is zero.
    ZeroQuantity(OrderRef),
    /// The image holds as many orders as it may.
    Full,
    /// The feed has no stream of this number.
    UnknownStream(usize),
}

/// Why a message was not applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FeedError {
    /// The bytes are not an ITCH message.
    Parse(ItchError),
    /// The message contradicts the image.
    Image(ImageError),
}

impl std::fmt::Display for ImageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ImageError::UnknownInstrument(id) => write!(f, "no directory entry for locate {id}"),
            ImageError::LocateOutOfRange(id) => write!(f, "stock locate {id} is out of range"),
            ImageError::SymbolMismatch(id) => write!(f, "another symbol than locate {id} has"),
            ImageError::UnknownOrder(id) => write!(f, "order {id} does not rest"),
            ImageError::DuplicateOrder(id) => write!(f, "order {id} rests already"),
            ImageError::WrongInstrument(id) => write!(f, "order {id} is in another book"),
            ImageError::TooMuchTaken { order_ref, open, taken } => {
                write!(f, "{taken} lots taken from order {order_ref} that has {open}")
            }
            ImageError::ZeroQuantity(id) => write!(f, "zero quantity for order {id}"),
            ImageError::Full => f.write_str("no room for another order"),
            ImageError::UnknownStream(stream) => write!(f, "the feed has no stream {stream}"),
        }
    }
}

impl std::error::Error for ImageError {}

impl std::fmt::Display for FeedError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FeedError::Parse(error) => error.fmt(f),
            FeedError::Image(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for FeedError {}

impl From<ItchError> for FeedError {
    fn from(error: ItchError) -> Self {
        FeedError::Parse(error)
    }
}

impl From<ImageError> for FeedError {
    fn from(error: ImageError) -> Self {
        FeedError::Image(error)
    }
}

/// Totals of one instrument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InstrumentStats {
    /// Number of printed trades; a cross counts as one.
    pub trades: u64,
    /// Quantity of those trades, lots.
    pub volume: u64,
    /// Number of crosses among those trades.
    pub crosses: u64,
    /// Lots of those crosses.
    pub cross_volume: u64,
    /// Trades that were broken later; they stay in the counts above, since a break names no lots.
    pub broken: u64,
    /// Price of the last trade.
    pub last_price: Price,
    /// Match number of the last trade.
    pub last_match: MatchNumber,
    /// Side of the order that came in and traded last; `None` after a cross, where none does.
    pub last_aggressor: Option<Side>,
}

#[derive(Debug)]
struct Book {
    symbol: Option<Symbol>,
    directory: Option<StockDirectory>,
    action: Option<StockTradingAction>,
    bids: Ladder,
    asks: Ladder,
    /// Digest of the displayed book, if it was asked for since the last change.
    digest: Option<u64>,
    stats: InstrumentStats,
    imbalance: Option<NetOrderImbalance>,
    collar: Option<LuldAuctionCollar>,
}

impl Book {
    fn new() -> Book {
        let (bids, asks) = (Ladder::new(Side::Buy), Ladder::new(Side::Sell));
        let stats = InstrumentStats::default();
        Book {
            symbol: None,
            directory: None,
            action: None,
            bids,
            asks,
            digest: None,
            stats,
            imbalance: None,
            collar: None,
        }
    }

    fn side(&self, side: Side) -> &Ladder {
        if side == Side::Buy { &self.bids } else { &self.asks }
    }

    /// One side of the book, for changes; every change of the displayed book goes through here.
    fn side_mut(&mut self, side: Side) -> &mut Ladder {
        self.digest = None;
        if side == Side::Buy { &mut self.bids } else { &mut self.asks }
    }

    fn print(&mut self, aggressor: Option<Side>, price: u32, shares: u64, match_number: u64) {
        self.stats.trades += 1;
        self.stats.volume = self.stats.volume.saturating_add(shares);
        self.stats.last_price = Price(price.into());
        self.stats.last_match = MatchNumber(match_number);
        self.stats.last_aggressor = aggressor;
    }
}

/// An order that is to be added, as the messages `A`, `F` and `U` describe it.
struct Adding {
    order_ref: u64,
    locate: u16,
    side: Side,
    shares: u32,
    price: u32,
}

/// The displayed books of all instruments.
#[derive(Debug)]
pub struct BookImage {
    orders: Orders,
    /// The books, by stock locate.
    books: Vec<Book>,
    /// Last system event heard.
    event: Option<SystemEvent>,
    /// Time of the last message applied, ns since midnight.
    time: Option<Time>,
}

impl BookImage {
    /// An empty image with room for `orders_max` resting orders, all instruments together.
    pub fn new(orders_max: usize) -> BookImage {
        BookImage { orders: Orders::new(orders_max), books: Vec::new(), event: None, time: None }
    }

    /// Applies the bytes of one message; gives back the typed view of what was applied.
    ///
    /// # Errors
    /// The bytes are no message, or it contradicts the image, which is then unchanged.
    pub fn apply<'a>(&mut self, bytes: &'a [u8]) -> Result<Message<'a>, FeedError> {
        let message = itch::parse(bytes)?;
        self.apply_message(&message)?;
        Ok(message)
    }

    /// Applies one message. Types that say nothing of books are taken without effect.
    ///
    /// # Errors
    /// It contradicts the image, which is then unchanged.
    pub fn apply_message(&mut self, message: &Message<'_>) -> Result<(), ImageError> {
        self.change(message)?;
        self.time = Some(message.header().time);
        Ok(())
    }

    fn change(&mut self, message: &Message<'_>) -> Result<(), ImageError> {
        let locate = message.header().locate.get();
        match message {
            Message::SystemEvent(m) => {
                self.event = Some(**m);
                if m.code == EventCode::StartOfMessages {
                    self.begin_day();
                }
                Ok(())
            }
            Message::StockDirectory(m) => self.directory(locate, m),
            Message::StockTradingAction(m) => {
                self.book(locate, Some(Symbol(m.stock)))?.action = Some(**m);
                Ok(())
            }
            Message::AddOrder(m) => {
                self.book(locate, Some(Symbol(m.stock)))?;
                let (shares, price) = (m.shares.get(), m.price.get());
                let (order_ref, side) = (m.order_ref.get(), m.side.into());
                self.add(Adding { order_ref, locate, side, shares, price })
            }
            Message::AddOrderMpid(m) => {
                self.book(locate, Some(Symbol(m.stock)))?;
                let (shares, price) = (m.shares.get(), m.price.get());
                let (order_ref, side) = (m.order_ref.get(), m.side.into());
                self.add(Adding { order_ref, locate, side, shares, price })
            }
            Message::OrderExecuted(m) => {
                let order = self.take(locate, m.order_ref.get(), m.shares.get())?;
                let (shares, number) = (m.shares.get(), m.match_number.get());
                self.print(locate, order.side, order.price, shares, number)
            }
            Message::OrderExecutedWithPrice(m) => {
                let order = self.take(locate, m.order_ref.get(), m.shares.get())?;
                match m.printable {
                    Printable::No => Ok(()),
                    Printable::Yes => {
                        let (shares, number) = (m.shares.get(), m.match_number.get());
                        self.print(locate, order.side, m.price.get(), shares, number)
                    }
                }
            }
            Message::OrderCancel(m) => {
                self.take(locate, m.order_ref.get(), m.shares.get()).map(|_| ())
            }
            Message::OrderDelete(m) => {
                let slot = self.find(locate, m.order_ref.get())?;
                self.remove(slot);
                Ok(())
            }
            Message::OrderReplace(m) => self.replace(
                locate,
                m.old_ref.get(),
                m.new_ref.get(),
                m.shares.get(),
                m.price.get(),
            ),
            Message::Trade(m) => {
                self.book(locate, Some(Symbol(m.stock)))?;
                let (shares, number) = (m.shares.get(), m.match_number.get());
                self.print(locate, m.side.into(), m.price.get(), shares, number)
            }
            Message::CrossTrade(m) => {
                let book = self.book(locate, Some(Symbol(m.stock)))?;
                book.print(None, m.price.get(), m.shares.get(), m.match_number.get());
                book.stats.crosses += 1;
                book.stats.cross_volume = book.stats.cross_volume.saturating_add(m.shares.get());
                Ok(())
            }
            Message::BrokenTrade(_) => {
                self.book(locate, None)?.stats.broken += 1;
                Ok(())
            }
            Message::NetOrderImbalance(m) => {
                self.book(locate, Some(Symbol(m.stock)))?.imbalance = Some(**m);
                Ok(())
            }
            Message::LuldAuctionCollar(m) => {
                self.book(locate, Some(Symbol(m.stock)))?.collar = Some(**m);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Begins a day, which tells all instruments, states and orders anew; totals of trades stay.
    fn begin_day(&mut self) {
        self.orders.clear();
        for book in &mut self.books {
            (book.bids, book.asks) = (Ladder::new(Side::Buy), Ladder::new(Side::Sell));
            (book.symbol, book.directory, book.action) = (None, None, None);
            (book.digest, book.imbalance, book.collar) = (None, None, None);
        }
    }

    fn directory(&mut self, locate: u16, entry: &StockDirectory) -> Result<(), ImageError> {
        let (index, symbol) = (usize::from(locate), Symbol(entry.stock));
        if locate == 0 || index > limits::INSTRUMENTS_MAX {
            return Err(ImageError::LocateOutOfRange(locate));
        }
        if self.books.len() <= index {
            self.books.resize_with(index + 1, Book::new);
        }
        let same = |book: &&mut Book| book.symbol.is_none_or(|known| known == symbol);
        let Some(book) = self.books.get_mut(index).filter(same) else {
            return Err(ImageError::SymbolMismatch(InstrumentId(locate)));
        };
        book.symbol = Some(symbol);
        book.directory = Some(*entry);
        Ok(())
    }

    /// The book of a locate that has a directory entry, and of `symbol` when the message names one.
    fn book(&mut self, locate: u16, symbol: Option<Symbol>) -> Result<&mut Book, ImageError> {
        let unknown = ImageError::UnknownInstrument(InstrumentId(locate));
        let book = self.books.get_mut(usize::from(locate)).ok_or(unknown)?;
        match (book.symbol, symbol) {
            (None, _) => Err(unknown),
            (Some(known), Some(named)) if known != named => {
                Err(ImageError::SymbolMismatch(InstrumentId(locate)))
            }
            _ => Ok(book),
        }
    }

    /// Counts a trade with an order that rested on a side.
    fn print(
        &mut self,
        locate: u16,
        rested: Side,
        price: u32,
        shares: u32,
        number: u64,
    ) -> Result<(), ImageError> {
        let aggressor = Some(rested.opposite());
        self.book(locate, None)?.print(aggressor, price, shares.into(), number);
        Ok(())
    }

    fn find(&self, locate: u16, order_ref: u64) -> Result<Slot, ImageError> {
        let unknown = ImageError::UnknownOrder(OrderRef(order_ref));
        let slot = self.orders.find(order_ref).ok_or(unknown)?;
        if self.orders.get(slot).locate != locate {
            return Err(ImageError::WrongInstrument(OrderRef(order_ref)));
        }
        Ok(slot)
    }

    fn add(&mut self, adding: Adding) -> Result<(), ImageError> {
        let Adding { order_ref, locate, side, shares: qty, price } = adding;
        if qty == 0 {
            return Err(ImageError::ZeroQuantity(OrderRef(order_ref)));
        }
        let order = Resting { order_ref, price, qty, locate, side, prev: NONE, next: NONE };
        let slot = self.orders.insert(order).map_err(|refused| match refused {
            Refused::Duplicate => ImageError::DuplicateOrder(OrderRef(order_ref)),
            Refused::Full => ImageError::Full,
        })?;
        if let Some(book) = self.books.get_mut(usize::from(locate)) {
            book.side_mut(side).push(&mut self.orders, slot);
        }
        Ok(())
    }

    /// Takes `shares` from an order, which goes when nothing is left; gives its price.
    /// The order as it was before.
    fn take(&mut self, locate: u16, order_ref: u64, shares: u32) -> Result<Resting, ImageError> {
        let slot = self.find(locate, order_ref)?;
        let order = *self.orders.get(slot);
        if shares == 0 {
            return Err(ImageError::ZeroQuantity(OrderRef(order_ref)));
        }
        if shares > order.qty {
            let (open, taken) = (Qty(order.qty.into()), Qty(shares.into()));
            return Err(ImageError::TooMuchTaken { order_ref: OrderRef(order_ref), open, taken });
        }
        if shares == order.qty {
            self.remove(slot);
        } else if let Some(book) = self.books.get_mut(usize::from(locate)) {
            book.side_mut(order.side).reduce(&mut self.orders, slot, shares);
        }
        Ok(order)
    }

    fn remove(&mut self, slot: Slot) {
        let (locate, side) = (self.orders.get(slot).locate, self.orders.get(slot).side);
        if let Some(book) = self.books.get_mut(usize::from(locate)) {
            book.side_mut(side).unlink(&mut self.orders, slot);
        }
        self.orders.remove(slot);
    }

    fn replace(
        &mut self,
        locate: u16,
        old_ref: u64,
        new_ref: u64,
        shares: u32,
        price: u32,
    ) -> Result<(), ImageError> {
        let slot = self.find(locate, old_ref)?;
        if shares == 0 {
            return Err(ImageError::ZeroQuantity(OrderRef(new_ref)));
        }
        if self.orders.find(new_ref).is_some() {
            return Err(ImageError::DuplicateOrder(OrderRef(new_ref)));
        }
        let side = self.orders.get(slot).side;
        self.remove(slot);
        self.add(Adding { order_ref: new_ref, locate, side, shares, price })
    }

    fn known(&self, instrument: InstrumentId) -> Option<&Book> {
        self.books.get(usize::from(instrument.0)).filter(|book| book.symbol.is_some())
    }

    /// Instruments with a directory entry, in ascending order, each with its symbol.
    pub fn instruments(&self) -> impl Iterator<Item = (InstrumentId, Symbol)> + '_ {
        self.books
            .iter()
            .enumerate()
            .filter_map(|(index, book)| Some((InstrumentId(index as u16), book.symbol?)))
    }

    /// An instrument's symbol as a number, first character highest: see [`crate::plant::symbol`].
    pub(crate) fn symbol(&self, instrument: InstrumentId) -> Option<u64> {
        let Symbol(name) = self.known(instrument)?.symbol?;
        let number = u64::from_be_bytes(name);
        let spaces = name.iter().rev().take_while(|&&byte| byte == b' ').count();
        number.checked_shr(8 * spaces as u32)
    }

    /// Trading state of an instrument as last heard; `None`: not heard.
    pub fn state(&self, instrument: InstrumentId) -> Option<State> {
        self.known(instrument)?.action.map(|action| action.state)
    }

    /// Directory entry of an instrument as last heard; `None`: not heard.
    pub fn directory_entry(&self, instrument: InstrumentId) -> Option<StockDirectory> {
        self.known(instrument)?.directory
    }

    /// Trading action of an instrument as last heard; `None`: not heard.
    pub fn trading_action(&self, instrument: InstrumentId) -> Option<StockTradingAction> {
        self.known(instrument)?.action
    }

    /// The last system event; `None`: none heard.
    pub fn system_event(&self) -> Option<SystemEvent> {
        self.event
    }

    /// Time of the last message applied; `None`: none yet.
    pub fn time(&self) -> Option<Time> {
        self.time
    }

    /// Takes over every instrument that `other` knows, as it is there: directory, state, collar and
    /// orders. Own orders of those instruments are forgotten; what was counted of trades stays.
    ///
    /// # Errors
    /// There is no room, an order rests already in a book that stays, or a locate has another
    /// symbol here. Nothing is changed then.
    pub(crate) fn adopt(&mut self, other: &BookImage) -> Result<(), ImageError> {
        let (mut leaving, mut coming) = (0, 0);
        let sides = [Side::Buy, Side::Sell];
        for (id, symbol) in other.instruments() {
            if self.known(id).is_some_and(|book| book.symbol != Some(symbol)) {
                return Err(ImageError::SymbolMismatch(id));
            }
            leaving += sides.map(|side| self.orders(id, side).count()).iter().sum::<usize>();
            for (order_ref, _, _) in sides.into_iter().flat_map(|side| other.orders(id, side)) {
                let slot = self.orders.find(order_ref.0);
                let own = slot.map(|slot| InstrumentId(self.orders.get(slot).locate));
                if own.is_some_and(|own| other.known(own).is_none()) {
                    return Err(ImageError::DuplicateOrder(order_ref));
                }
                coming += 1;
            }
        }
        if self.orders.len() - leaving + coming > self.orders.max() {
            return Err(ImageError::Full);
        }
        for (id, _) in other.instruments() {
            while let Some((order_ref, _, _)) =
                sides.into_iter().find_map(|side| self.orders(id, side).next())
            {
                let Some(slot) = self.orders.find(order_ref.0) else { break };
                self.remove(slot);
            }
        }
        other.books.iter().zip(0u16..).try_for_each(|(book, locate)| {
            let Some(entry) = book.directory else { return Ok(()) };
            self.directory(locate, &entry)?;
            let own = self.book(locate, None)?;
            (own.action, own.collar, own.imbalance) = (book.action, book.collar, book.imbalance);
            sides.into_iter().try_for_each(|side| {
                let mut orders = book.side(side).orders(&other.orders);
                orders.try_for_each(|(order_ref, price, qty)| {
                    // Both came out of fields of 32 bits.
                    let (shares, price) = (qty.0 as u32, price.0 as u32);
                    self.add(Adding { order_ref: order_ref.0, locate, side, shares, price })
                })
            })
        })?;
        self.event = other.event.or(self.event);
        self.time = other.time.or(self.time);
        Ok(())
    }

    /// The imbalance last heard; it stays when its auction is over.
    pub fn imbalance(&self, instrument: InstrumentId) -> Option<NetOrderImbalance> {
        self.known(instrument)?.imbalance
    }

    /// Auction collar of an instrument as last heard; `None`: not heard.
    pub fn collar(&self, instrument: InstrumentId) -> Option<LuldAuctionCollar> {
        self.known(instrument)?.collar
    }

    /// Digest of the displayed book (see [`types::displayed_book`]); that of an empty book for an
    /// unknown instrument.
    pub fn digest(&self, instrument: InstrumentId) -> u64 {
        displayed_book(self.orders(instrument, Side::Buy), self.orders(instrument, Side::Sell))
    }

    /// As [`BookImage::digest`], and remembered until that book changes: the digest of a book is as
    /// long a way as the book is, and most books have not changed since they were last looked at.
    pub fn digest_kept(&mut self, instrument: InstrumentId) -> u64 {
        let place = usize::from(instrument.0);
        if let Some(digest) = self.books.get(place).and_then(|book| book.digest) {
            return digest;
        }
        let digest = self.digest(instrument);
        if let Some(book) = self.books.get_mut(place).filter(|book| book.symbol.is_some()) {
            book.digest = Some(digest);
        }
        digest
    }

    /// Best level of a side; `None`: no displayed order.
    pub fn best(&self, instrument: InstrumentId, side: Side) -> Option<Level> {
        self.depth(instrument, side).next()
    }

    /// Levels of a side, from the best to the worst.
    pub fn depth(&self, instrument: InstrumentId, side: Side) -> impl Iterator<Item = Level> + '_ {
        self.known(instrument).into_iter().flat_map(move |book| book.side(side).levels())
    }

    /// Orders of a side, best level first and each level from first to last.
    pub fn orders(
        &self,
        instrument: InstrumentId,
        side: Side,
    ) -> impl Iterator<Item = (OrderRef, Price, Qty)> + '_ {
        let book = self.known(instrument);
        book.into_iter().flat_map(move |book| book.side(side).orders(&self.orders))
    }

    /// Trades and volume of an instrument so far.
    pub fn stats(&self, instrument: InstrumentId) -> InstrumentStats {
        self.known(instrument).map(|book| book.stats).unwrap_or_default()
    }

    /// Number of orders that rest now, of all instruments together.
    pub fn resting(&self) -> usize {
        self.orders.len()
    }
}
