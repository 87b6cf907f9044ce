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

/// What every message begins with.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Header {
    /// Message type within the category.
    pub kind: u8,
    /// Exchange.
    pub participant: u8,
    /// Who asked for a retransmission; a space in messages sent for the first time.
    pub retransmission: u8,
    /// Number of the message on its line.
    pub sequence: u64,
    /// Time as sent: hours, minutes, seconds and milliseconds as decimal digits in FAST,
    /// nanoseconds since the Unix epoch in the binary format.
    pub time: u64,
}

/// An option series.
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
    /// Strike price.
    pub strike: Price,
}

/// Best price over all exchanges.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Best {
    /// Whose price it is.
    pub participant: u8,
    /// Price.
    pub price: Price,
    /// Contracts.
    pub size: u32,
}

/// A quote.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Quote {
    /// The option series.
    pub series: Series,
    /// Price bid.
    pub bid: Price,
    /// Contracts bid for.
    pub bid_size: u32,
    /// Price offered.
    pub offer: Price,
    /// Contracts offered.
    pub offer_size: u32,
    /// Session indicator.
    pub session: u8,
    /// BBO indicator: what this quote does to the best prices.
    pub bbo: u8,
    /// Best bid appended.
    pub best_bid: Option<Best>,
    /// Best offer appended.
    pub best_offer: Option<Best>,
}

/// A trade.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Sale {
    /// The option series.
    pub series: Series,
    /// Contracts.
    pub volume: u32,
    /// Premium.
    pub price: Price,
    /// Session indicator.
    pub session: u8,
}

/// The day's end.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Summary {
    /// The option series.
    pub series: Series,
    /// Contracts traded.
    pub volume: u32,
    /// Contracts open.
    pub open_interest: u32,
    /// First price.
    pub open: Price,
    /// Highest price.
    pub high: Price,
    /// Lowest price.
    pub low: Price,
    /// Last price.
    pub last: Price,
    /// Change since the day before, signed by its indicator.
    pub net_change: Price,
    /// Price of the underlying.
    pub underlying: Price,
    /// Last bid.
    pub bid: Price,
    /// Last offer.
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
    /// Bytes of its text.
    pub text_len: u32,
    /// FNV-1a of its text.
    pub text_hash: u64,
}

/// What a message means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event<'a> {
    /// A quote, of a currency option, too.
    Quote(Header, Quote),
    /// A trade.
    LastSale(Header, Sale),
    /// Open interest.
    OpenInterest(Header, Series, u32),
    /// The day's end.
    Summary(Header, Summary),
    /// Values of underlyings.
    Underlying(Header, Spot<'a>),
    /// For people.
    Admin(Header, Control),
    /// About the line itself.
    Control(Header, Control),
    /// A category that is not known.
    Unknown(u8),
}

/// The event of a message.
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
