//! Normalized events: what a message means, whatever its format.

use super::formats::{Names, Opra};
use crate::slots::{Message, category_slots};

/// A price in units of 1e-8 of the currency.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Price(pub i64);

/// A price from digits and a denominator code: `A` tenths to `H` hundred-millionths, `I` and
/// anything else wholes.
#[inline(always)]
pub fn price_of(digits: u32, code: u8) -> Price {
    const UNITS: [i64; 8] = [10_000_000, 1_000_000, 100_000, 10_000, 1_000, 100, 10, 1];
    let unit = UNITS.get(usize::from(code.wrapping_sub(b'A'))).copied().unwrap_or(100_000_000);
    Price(i64::from(digits) * unit)
}

/// The fields that every message begins with.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Header {
    /// Message type within the category.
    pub kind: u8,
    /// Letter of the exchange that sent the message (participant identifier).
    pub participant: u8,
    /// Who asked for a retransmission; a space in messages sent for the first time.
    pub retransmission: u8,
    /// Number of the message on its line.
    pub sequence: u64,
    /// Time as sent: hours, minutes, seconds and milliseconds as decimal digits in FAST,
    /// nanoseconds since the Unix epoch in the binary format.
    pub time: u64,
}

/// An option series: symbol, expiration and strike.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Series {
    /// Characters of the symbol as a number, first character highest.
    pub symbol: u64,
    /// Month code: `A` to `L` calls, `M` to `X` puts; 0 in version 1.
    pub month: u8,
    /// Day of the month; in version 1 the code of month and kind.
    pub day: u8,
    /// Last two digits of the year.
    pub year: u8,
    /// Strike price code, where there is one.
    pub strike_code: u8,
    /// Strike price, in units of 1e-8 of the currency.
    pub strike: Price,
}

/// Best price over all exchanges.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Best {
    /// Letter of the exchange that has the best price.
    pub participant: u8,
    /// The best price, in units of 1e-8 of the currency.
    pub price: Price,
    /// Quantity at the best price, contracts.
    pub size: u32,
}

/// A quote of one exchange for an option series.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Quote {
    /// Option series that the message is about.
    pub series: Series,
    /// Bid of the exchange, in units of 1e-8 of the currency.
    pub bid: Price,
    /// Quantity bid for, contracts.
    pub bid_size: u32,
    /// Offer of the exchange, in units of 1e-8 of the currency.
    pub offer: Price,
    /// Quantity offered, contracts.
    pub offer_size: u32,
    /// Session indicator, as sent.
    pub session: u8,
    /// BBO indicator: what this quote does to the best prices.
    pub bbo: u8,
    /// Best bid over all exchanges, if the quote has it appended.
    pub best_bid: Option<Best>,
    /// Best offer over all exchanges, if the quote has it appended.
    pub best_offer: Option<Best>,
}

/// A trade of an option series.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Sale {
    /// Option series that the message is about.
    pub series: Series,
    /// Quantity that traded, contracts.
    pub volume: u32,
    /// Premium per unit, in units of 1e-8 of the currency.
    pub price: Price,
    /// Session indicator, as sent.
    pub session: u8,
}

/// The end of day summary of an option series.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Summary {
    /// Option series that the message is about.
    pub series: Series,
    /// Quantity that traded in the day, contracts.
    pub volume: u32,
    /// Open interest, contracts.
    pub open_interest: u32,
    /// First premium of the day.
    pub open: Price,
    /// Highest premium of the day.
    pub high: Price,
    /// Lowest premium of the day.
    pub low: Price,
    /// Last premium of the day.
    pub last: Price,
    /// Change since the day before, signed by its indicator.
    pub net_change: Price,
    /// Price of the underlying at the end of the day.
    pub underlying: Price,
    /// Last bid of the day for the series.
    pub bid: Price,
    /// Last offer of the day for the series.
    pub offer: Price,
}

/// A value of an index or a currency, one repetition of a message.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Spot<'a> {
    /// Values of the repeated fields, in the order of the format.
    pub values: &'a [u64],
}

/// An administrative or control message.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Control {
    /// Length of the message's text, bytes.
    pub text_len: u32,
    /// FNV-1a hash of the message's text, 64 bits.
    pub text_hash: u64,
}

/// A message, with the meaning of its category.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event<'a> {
    /// A quote, of a currency option, too.
    Quote(Header, Quote),
    /// A trade (OPRA's last sale).
    LastSale(Header, Sale),
    /// Open interest of a series, in contracts.
    OpenInterest(Header, Series, u32),
    /// The end of day summary of one series.
    Summary(Header, Summary),
    /// One value of an underlying index or currency.
    Underlying(Header, Spot<'a>),
    /// An administrative message: a text for people.
    Admin(Header, Control),
    /// A control message, about the line itself.
    Control(Header, Control),
    /// A message of an unknown category, which is given.
    Unknown(u8),
}

/// Decodes a message into an event.
#[inline(always)]
pub fn to_event<'a, F: Opra>(message: &Message<'a>) -> Event<'a> {
    let names = const { F::NAMES };
    // What a quote has anyway need not be asked of nearly every message.
    let sure = const { category_slots(&F::FORMAT, b'k') };
    if message.category == b'k' && message.slots & sure == sure {
        let reader = Fields { message, names, sure };
        return Event::Quote(reader.header(), reader.quote());
    }
    let reader = Fields { message, names, sure: 0 };
    match message.category {
        b'k' => Event::Quote(reader.header(), reader.quote()),
        b'a' => Event::LastSale(reader.header(), reader.sale()),
        b'U' => Event::Quote(reader.header(), reader.quote()),
        b'O' => Event::LastSale(reader.header(), reader.sale()),
        b'd' => {
            let open_interest = reader.number(names.open_interest);
            Event::OpenInterest(reader.header(), reader.series(), open_interest)
        }
        b'f' | b'F' => Event::Summary(reader.header(), reader.summary()),
        b'Y' => Event::Underlying(reader.header(), Spot { values: message.repeated }),
        b'C' => Event::Admin(reader.header(), reader.text()),
        b'H' => Event::Control(reader.header(), reader.text()),
        other => Event::Unknown(other),
    }
}

struct Fields<'m, 'a> {
    message: &'m Message<'a>,
    names: Names,
    /// Slots that the message is known to have.
    sure: u64,
}

impl Fields<'_, '_> {
    #[inline(always)]
    fn value(&self, slot: usize) -> u64 {
        let has = (self.sure | self.message.slots) << slot >> 63 == 1;
        if has { self.message.values.get(slot).copied().unwrap_or(0) } else { 0 }
    }

    #[inline(always)]
    fn number(&self, slot: usize) -> u32 {
        self.value(slot) as u32
    }

    #[inline(always)]
    fn byte(&self, slot: usize) -> u8 {
        self.value(slot) as u8
    }

    #[inline(always)]
    fn price(&self, slot: usize, denominator: usize) -> Price {
        price_of(self.number(slot), self.byte(denominator))
    }

    #[inline(always)]
    fn header(&self) -> Header {
        let names = &self.names;
        Header {
            kind: self.byte(names.kind),
            participant: self.byte(names.participant),
            retransmission: self.byte(names.retransmission),
            sequence: self.number(names.sequence).into(),
            time: self.number(names.time).into(),
        }
    }

    #[inline(always)]
    fn series(&self) -> Series {
        let names = &self.names;
        Series {
            symbol: self.value(names.symbol),
            month: self.byte(names.month),
            day: self.byte(names.day),
            year: self.byte(names.year),
            strike_code: self.byte(names.strike_code),
            strike: self.price(names.strike, names.strike_denominator),
        }
    }

    #[inline(always)]
    fn quote(&self) -> Quote {
        let names = &self.names;
        let best = |participant, denominator, price, size| {
            self.message.has(participant).then(|| Best {
                participant: self.byte(participant),
                price: self.price(price, denominator),
                size: self.number(size),
            })
        };
        Quote {
            series: self.series(),
            bid: self.price(names.bid, names.premium_denominator),
            bid_size: self.number(names.bid_size),
            offer: self.price(names.offer, names.premium_denominator),
            offer_size: self.number(names.offer_size),
            session: self.byte(names.session),
            bbo: self.byte(names.bbo),
            best_bid: best(
                names.best_bid_participant,
                names.best_bid_denominator,
                names.best_bid,
                names.best_bid_size,
            ),
            best_offer: best(
                names.best_offer_participant,
                names.best_offer_denominator,
                names.best_offer,
                names.best_offer_size,
            ),
        }
    }

    fn sale(&self) -> Sale {
        let names = &self.names;
        Sale {
            series: self.series(),
            volume: self.number(names.volume),
            price: self.price(names.premium, names.premium_denominator),
            session: self.byte(names.session),
        }
    }

    fn summary(&self) -> Summary {
        let names = &self.names;
        let premium = |slot| self.price(slot, names.premium_denominator);
        let change = premium(names.net_change);
        let falls = self.byte(names.net_change_indicator) == b'-';
        Summary {
            series: self.series(),
            volume: self.number(names.volume),
            open_interest: self.number(names.open_interest),
            open: premium(names.open),
            high: premium(names.high),
            low: premium(names.low),
            last: premium(names.last),
            net_change: if falls { Price(-change.0) } else { change },
            underlying: self.price(names.underlying, names.underlying_denominator),
            bid: premium(names.bid),
            offer: premium(names.offer),
        }
    }

    fn text(&self) -> Control {
        let mut control = Control { text_len: 0, text_hash: 0xCBF2_9CE4_8422_2325 };
        for byte in self.message.long(self.names.text) {
            control.text_len += 1;
            let mixed = control.text_hash ^ u64::from(byte);
            control.text_hash = mixed.wrapping_mul(0x0100_0000_01B3);
        }
        control
    }
}
