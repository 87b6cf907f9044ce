//! Updates and their fixed form: fourteen words, in datagrams big-endian one after the other.

use fast::opra::{Best, Price, Series};
use types::Nanos;

/// Number of 64-bit words of an update.
pub const UPDATE_WORDS: usize = 14;
/// Length of an update in a datagram, bytes.
pub const UPDATE_BYTES: usize = 8 * UPDATE_WORDS;

/// Kind of an update.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A quote, with the best prices after it.
    Quote = 1,
    /// A trade: price and size of the bid. Where the line numbers trades, as our own feed does, its
    /// number is the offer price, and `bbo` the side that took, `B` or `S`, or 0 after a cross.
    Trade = 2,
    /// Messages of the line are lost: `sequence` is the first, `time` the first not lost.
    Gap = 3,
    /// A side of the line is silent; `participant` says which.
    SideDead = 4,
    /// A side of the line is heard again; `participant` says which.
    SideAlive = 5,
    /// Neither side is heard: prices of the line's symbols are stale.
    Stale = 6,
    /// The line is heard again.
    Fresh = 7,
    /// A trade is broken: its number is the offer price. Of our own feed only.
    Broken = 8,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|&kind| kind as u8 == byte)
    }

    /// All kinds, in ascending order of their numbers.
    pub const ALL: [Kind; 8] = [
        Kind::Quote,
        Kind::Trade,
        Kind::Gap,
        Kind::SideDead,
        Kind::SideAlive,
        Kind::Stale,
        Kind::Fresh,
        Kind::Broken,
    ];

    /// Whether the kind is about a series, and not about a line.
    pub fn is_tick(self) -> bool {
        matches!(self, Kind::Quote | Kind::Trade | Kind::Broken)
    }
}

/// One normalized update of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Update {
    /// Kind of the update.
    pub kind: Kind,
    /// Number of the line that it came from.
    pub line: u8,
    /// Letter of the exchange; for a side of the line, which one.
    pub participant: u8,
    /// BBO indicator of a quote, as sent.
    pub bbo: u8,
    /// Sequence number of the message on its line.
    pub sequence: u64,
    /// When the packet came in order, on the plant's clock.
    pub heard: Nanos,
    /// Time of the message as sent; the unit is the line's.
    pub time: u64,
    /// Option series or symbol; without a symbol when the update is about a line.
    pub series: Series,
    /// Bid, or price of a trade, in units of 1e-8 of the currency.
    pub bid: Price,
    /// Quantity bid for, or traded, contracts or lots.
    pub bid_size: u64,
    /// Offer, in units of 1e-8 of the currency.
    pub offer: Price,
    /// Quantity offered, contracts or lots.
    pub offer_size: u64,
    /// Best bid after the update; `None`: there is none.
    pub best_bid: Option<Best>,
    /// Best offer after the update; `None`: there is none.
    pub best_offer: Option<Best>,
}

impl Update {
    /// An update about a line, not about a series.
    pub fn of_line(kind: Kind, line: u8, heard: Nanos) -> Update {
        Update {
            kind,
            line,
            participant: 0,
            bbo: 0,
            sequence: 0,
            heard,
            time: 0,
            series: Series::default(),
            bid: Price(0),
            bid_size: 0,
            offer: Price(0),
            offer_size: 0,
            best_bid: None,
            best_offer: None,
        }
    }

    /// The update as words.
    pub fn to_words(&self) -> [u64; UPDATE_WORDS] {
        let Series { symbol, month, day, year, strike_code, strike } = self.series;
        let bytes =
            [self.kind as u8, self.line, self.participant, self.bbo, month, day, year, strike_code];
        let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        let (bid, offer) = (self.best_bid, self.best_offer);
        let [best_bid, best_offer] = [bid, offer].map(Option::unwrap_or_default);
        let there = [u8::from(bid.is_some()), u8::from(offer.is_some())];
        let sides = [best_bid.participant, best_offer.participant, there[0], there[1], 0, 0, 0, 0];
        [
            u64::from_be_bytes(bytes),
            self.sequence,
            self.heard.0,
            self.time,
            symbol,
            strike.0 as u64,
            self.bid.0 as u64,
            self.offer.0 as u64,
            self.bid_size,
            self.offer_size,
            best_bid.price.0 as u64,
            best_offer.price.0 as u64,
            pair(best_bid.size, best_offer.size),
            u64::from_be_bytes(sides),
        ]
    }

    /// The update in these words; `None` for an unknown kind.
    pub fn from_words(words: &[u64; UPDATE_WORDS]) -> Option<Update> {
        let [
            head,
            sequence,
            heard,
            time,
            symbol,
            strike,
            bid,
            offer,
            bid_size,
            offer_size,
            tops @ ..,
        ] = *words;
        let [kind, line, participant, bbo, month, day, year, strike_code] = head.to_be_bytes();
        let [bid_price, offer_price, best_sizes, sides] = tops;
        let [bid_side, offer_side, bid_there, offer_there, ..] = sides.to_be_bytes();
        let best = |there: u8, participant, price: u64, size: u64| {
            let price = Price(price as i64);
            (there == 1).then_some(Best { participant, price, size: size as u32 })
        };
        Some(Update {
            kind: Kind::of(kind)?,
            line,
            participant,
            bbo,
            sequence,
            heard: Nanos(heard),
            time,
            series: Series { symbol, month, day, year, strike_code, strike: Price(strike as i64) },
            bid: Price(bid as i64),
            bid_size,
            offer: Price(offer as i64),
            offer_size,
            best_bid: best(bid_there, bid_side, bid_price, best_sizes >> 32),
            best_offer: best(offer_there, offer_side, offer_price, best_sizes),
        })
    }

    /// Appends the update to a datagram, words big-endian.
    pub fn put(&self, out: &mut Vec<u8>) {
        self.to_words().iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
    }

    /// Reads an update of a datagram; `None` for an unknown kind.
    pub fn read(bytes: &[u8; UPDATE_BYTES]) -> Option<Update> {
        let mut words = [0; UPDATE_WORDS];
        for (word, eight) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = eight.first_chunk::<8>().map_or(0, |chunk| u64::from_be_bytes(*chunk));
        }
        Update::from_words(&words)
    }
}

/// A symbol of at most eight characters as a number, first character highest.
pub fn symbol(text: &str) -> Option<u64> {
    let right = (1..=8).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    right.then(|| text.bytes().fold(0, |number, byte| number << 8 | u64::from(byte)))
}

/// The characters of a symbol that [`symbol`] has made a number of.
pub fn symbol_text(symbol: u64) -> String {
    let bytes = symbol.to_be_bytes().into_iter().skip_while(|&byte| byte == 0);
    bytes.map(char::from).collect()
}
