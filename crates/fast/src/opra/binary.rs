//! OPRA's binary format, as sent today (6.2 and before it since 4.0).
//!
//! A datagram is a block: a header of 21 bytes, then messages of fixed layout, each with a header
//! of 12. Integers are big-endian. The layouts are those of the public captures; where a control
//! message without text ends after one byte of its length, as one of the captures does, the text is
//! empty.

use super::event::{
    Best, Control, Event, Header, Price, Quote, Sale, Series, Spot, Summary, price_of,
};
use crate::error::Code;
use crate::layout::layout;

layout! {
    /// Header of a block: the first 21 bytes of a datagram.
    pub struct BlockHeader 21 {
        /// Version number of the binary format.
        0 => version: u8,
        /// Length of the block with this header, bytes.
        1 => size: u16,
        /// Data feed of the block: `O` is OPRA.
        3 => feed: u8,
        /// Retransmission indicator: space, or who asked for the retransmission.
        4 => retransmission: u8,
        /// Session indicator of the block.
        5 => session: u8,
        /// Sequence number of the block on its line.
        6 => sequence: u32,
        /// Number of messages in the block.
        10 => messages: u8,
        /// Time of the block, whole seconds since the Unix epoch.
        11 => seconds: u32,
        /// Time of the block, nanoseconds of the second (below 1e9).
        15 => nanoseconds: u32,
        /// Checksum of the block, as sent; not compared here.
        19 => checksum: u16,
    }

    /// Header of every message.
    pub struct MessageHeader 12 {
        /// Letter of the exchange (participant identifier).
        0 => participant: u8,
        /// Message category: `a`, `d`, `f`, `k`, `q`, `Y`, `C`, `H` or another letter.
        1 => category: u8,
        /// Message type within its category.
        2 => kind: u8,
        /// BBO indicator of quotes, session of trades.
        3 => indicator: u8,
        /// Number of the transaction on its line.
        4 => transaction: u32,
        /// Reference number that the exchange gave the message.
        8 => reference: u32,
    }

    /// Last sale (category `a`): one trade of an option series.
    pub struct LastSale 31 {
        /// Symbol, padded with spaces on the right.
        0 => symbol: [u8; 5],
        /// Expiration month code: `A` to `L` calls, `M` to `X` puts.
        6 => month: u8,
        /// Expiration day of the month.
        7 => day: u8,
        /// Last two digits of the expiration year.
        8 => year: u8,
        /// Denominator code of the strike price: `A` tenths to `H` hundred-millionths, `I` wholes.
        9 => strike_denominator: u8,
        /// Digits of the strike price; the denominator code scales them.
        10 => strike: u32,
        /// Quantity that traded, contracts.
        14 => volume: u32,
        /// Denominator code of the premium: `A` tenths to `H` hundred-millionths, `I` wholes.
        18 => premium_denominator: u8,
        /// Digits of the premium; the denominator code scales them.
        19 => premium: u32,
        /// The exchange's number of the trade.
        23 => trade: u32,
    }

    /// Open interest (category `d`) of an option series.
    pub struct OpenInterest 18 {
        /// Symbol, padded with spaces on the right.
        0 => symbol: [u8; 5],
        /// Expiration month code: `A` to `L` calls, `M` to `X` puts.
        6 => month: u8,
        /// Expiration day of the month.
        7 => day: u8,
        /// Last two digits of the expiration year.
        8 => year: u8,
        /// Denominator code of the strike price: `A` tenths to `H` hundred-millionths, `I` wholes.
        9 => strike_denominator: u8,
        /// Digits of the strike price; the denominator code scales them.
        10 => strike: u32,
        /// Open interest, contracts.
        14 => volume: u32,
    }

    /// End of day summary (category `f`) of an option series.
    pub struct DaySummary 60 {
        /// Symbol, padded with spaces on the right.
        0 => symbol: [u8; 5],
        /// Expiration month code: `A` to `L` calls, `M` to `X` puts.
        6 => month: u8,
        /// Expiration day of the month.
        7 => day: u8,
        /// Last two digits of the expiration year.
        8 => year: u8,
        /// Denominator code of the strike price: `A` tenths to `H` hundred-millionths, `I` wholes.
        9 => strike_denominator: u8,
        /// Digits of the strike price; the denominator code scales them.
        10 => strike: u32,
        /// Quantity that traded in the day, contracts.
        14 => volume: u32,
        /// Open interest, contracts.
        18 => open_interest: u32,
        /// Denominator code of all premiums: `A` tenths to `H` hundred-millionths, `I` wholes.
        22 => premium_denominator: u8,
        /// First premium of the day; the denominator code scales it.
        23 => open: u32,
        /// Highest premium of the day; the denominator code scales it.
        27 => high: u32,
        /// Lowest premium of the day; the denominator code scales it.
        31 => low: u32,
        /// Last premium of the day; the denominator code scales it.
        35 => last: u32,
        /// Change of the premium since the day before, in two's complement.
        39 => net_change: u32,
        /// Denominator code of the underlying's price, as of the premiums.
        43 => underlying_denominator: u8,
        /// Price of the underlying; `underlying_denominator` scales it.
        44 => underlying: u64,
        /// Last bid of the day; the denominator code scales it.
        52 => bid: u32,
        /// Last offer of the day; the denominator code scales it.
        56 => offer: u32,
    }

    /// Long quote (category `k`): one exchange's bid and offer for an option series.
    pub struct LongQuote 31 {
        /// Symbol, padded with spaces on the right.
        0 => symbol: [u8; 5],
        /// Expiration month code: `A` to `L` calls, `M` to `X` puts.
        6 => month: u8,
        /// Expiration day of the month.
        7 => day: u8,
        /// Last two digits of the expiration year.
        8 => year: u8,
        /// Denominator code of the strike price: `A` tenths to `H` hundred-millionths, `I` wholes.
        9 => strike_denominator: u8,
        /// Digits of the strike price; the denominator code scales them.
        10 => strike: u32,
        /// Denominator code of all premiums: `A` tenths to `H` hundred-millionths, `I` wholes.
        14 => premium_denominator: u8,
        /// Digits of the bid; the denominator code scales them.
        15 => bid: u32,
        /// Quantity bid for, contracts.
        19 => bid_size: u32,
        /// Digits of the offer; the denominator code scales them.
        23 => offer: u32,
        /// Quantity offered, contracts.
        27 => offer_size: u32,
    }

    /// Short quote, `q`: strikes in tenths, premiums in hundredths.
    pub struct ShortQuote 17 {
        /// Symbol of the series, padded with spaces on the right.
        0 => symbol: [u8; 4],
        /// Expiration month code: `A` to `L` calls, `M` to `X` puts.
        4 => month: u8,
        /// Expiration day of the month.
        5 => day: u8,
        /// Last two digits of the expiration year.
        6 => year: u8,
        /// Strike price, in tenths of the currency.
        7 => strike: u16,
        /// Bid, in hundredths of the currency.
        9 => bid: u16,
        /// Quantity bid for, contracts.
        11 => bid_size: u16,
        /// Offer, in hundredths of the currency.
        13 => offer: u16,
        /// Quantity offered, contracts.
        15 => offer_size: u16,
    }

    /// A best bid or offer, after a quote.
    pub struct BestPrice 10 {
        /// Letter of the exchange (participant identifier).
        0 => participant: u8,
        /// Denominator code of the prices: `A` tenths to `H` hundred-millionths, `I` wholes.
        1 => denominator: u8,
        /// Digits of the price; the denominator code scales them.
        2 => price: u32,
        /// Quantity at the price, contracts.
        6 => size: u32,
    }

    /// Underlying value, `Y`: last in type space, bid and offer in type `I`.
    pub struct UnderlyingValue 15 {
        /// Symbol, padded with spaces on the right.
        0 => symbol: [u8; 5],
        /// Denominator code of the prices: `A` tenths to `H` hundred-millionths, `I` wholes.
        6 => denominator: u8,
        /// Digits of the last value (type space) or of the bid (type `I`).
        7 => value: u32,
        /// Digits of the offer (type `I`).
        11 => offer: u32,
    }
}

/// The characters before the padding as a number, the first one highest.
fn symbol(bytes: &[u8]) -> u64 {
    let text = bytes.iter().take_while(|&&byte| byte != b' ' && byte != 0);
    text.fold(0, |text, &byte| text << 8 | u64::from(byte))
}

macro_rules! series {
    ($view:expr) => {
        Series {
            symbol: symbol(&$view.symbol()),
            month: $view.month(),
            day: $view.day(),
            year: $view.year(),
            strike_code: 0,
            strike: price_of($view.strike(), $view.strike_denominator()),
        }
    };
}

/// Reads a block and gives each message to `sink`.
///
/// # Errors
/// [`Code::Truncated`] and [`Code::Framing`] for wrong lengths; the messages before have been given.
pub fn block(bytes: &[u8], mut sink: impl FnMut(&Event<'_>)) -> Result<BlockHeader<'_>, Code> {
    let (header, rest) = BlockHeader::split(bytes).ok_or(Code::Truncated)?;
    if usize::from(header.size()) != bytes.len() {
        return Err(Code::Framing);
    }
    let mut rest = rest;
    for _ in 0..header.messages() {
        rest = message(&header, rest, &mut sink)?;
    }
    if rest.is_empty() { Ok(header) } else { Err(Code::Framing) }
}

/// Decodes one message and returns the bytes that follow it.
fn message<'a>(
    block: &BlockHeader<'_>,
    bytes: &'a [u8],
    sink: &mut impl FnMut(&Event<'_>),
) -> Result<&'a [u8], Code> {
    let (head, rest) = MessageHeader::split(bytes).ok_or(Code::Truncated)?;
    let time = u64::from(block.seconds()) * 1_000_000_000 + u64::from(block.nanoseconds());
    let header = Header {
        kind: head.kind(),
        participant: head.participant(),
        retransmission: block.retransmission(),
        sequence: head.transaction().into(),
        time,
    };
    match head.category() {
        b'k' | b'q' => quote(&head, header, rest, sink),
        b'a' => {
            let (view, rest) = LastSale::split(rest).ok_or(Code::Truncated)?;
            let sale = Sale {
                series: series!(view),
                volume: view.volume(),
                price: price_of(view.premium(), view.premium_denominator()),
                session: head.indicator(),
            };
            sink(&Event::LastSale(header, sale));
            // Four bytes are reserved.
            Ok(rest)
        }
        b'd' => {
            let (view, rest) = OpenInterest::split(rest).ok_or(Code::Truncated)?;
            sink(&Event::OpenInterest(header, series!(view), view.volume()));
            Ok(rest)
        }
        b'f' => {
            let (view, rest) = DaySummary::split(rest).ok_or(Code::Truncated)?;
            sink(&Event::Summary(header, summary(&view)));
            Ok(rest)
        }
        b'Y' => {
            let (view, rest) = UnderlyingValue::split(rest).ok_or(Code::Truncated)?;
            let values = [
                symbol(&view.symbol()),
                view.denominator().into(),
                view.value().into(),
                view.offer().into(),
            ];
            sink(&Event::Underlying(header, Spot { values: &values }));
            Ok(rest)
        }
        b'C' | b'H' => {
            let (text, rest) = text(rest)?;
            let control = control(text);
            let admin = head.category() == b'C';
            let event = if admin { Event::Admin } else { Event::Control };
            sink(&event(header, control));
            Ok(rest)
        }
        other => {
            sink(&Event::Unknown(other));
            // Its length is not known.
            Err(Code::Framing)
        }
    }
}

fn quote<'a>(
    head: &MessageHeader<'_>,
    header: Header,
    bytes: &'a [u8],
    sink: &mut impl FnMut(&Event<'_>),
) -> Result<&'a [u8], Code> {
    let mut quote = Quote { session: b' ', bbo: head.indicator(), ..Quote::default() };
    let mut rest = bytes;
    if head.category() == b'k' {
        let (view, behind) = LongQuote::split(rest).ok_or(Code::Truncated)?;
        quote.series = series!(view);
        quote.bid = price_of(view.bid(), view.premium_denominator());
        quote.offer = price_of(view.offer(), view.premium_denominator());
        (quote.bid_size, quote.offer_size) = (view.bid_size(), view.offer_size());
        rest = behind;
    } else {
        let (view, behind) = ShortQuote::split(rest).ok_or(Code::Truncated)?;
        quote.series = Series {
            symbol: symbol(&view.symbol()),
            month: view.month(),
            day: view.day(),
            year: view.year(),
            strike_code: 0,
            strike: price_of(view.strike().into(), b'A'),
        };
        quote.bid = price_of(view.bid().into(), b'B');
        quote.offer = price_of(view.offer().into(), b'B');
        (quote.bid_size, quote.offer_size) = (view.bid_size().into(), view.offer_size().into());
        rest = behind;
    }
    let mut best = || {
        let (view, behind) = BestPrice::split(rest).ok_or(Code::Truncated)?;
        rest = behind;
        let price = price_of(view.price(), view.denominator());
        Ok(Some(Best { participant: view.participant(), price, size: view.size() }))
    };
    match head.indicator() {
        b'M' | b'N' | b'P' => quote.best_bid = best()?,
        b'C' | b'G' | b'K' => quote.best_offer = best()?,
        b'O' => (quote.best_bid, quote.best_offer) = (best()?, best()?),
        _ => {}
    }
    sink(&Event::Quote(header, quote));
    Ok(rest)
}

fn summary(view: &DaySummary<'_>) -> Summary {
    let premium = |digits: u32| price_of(digits, view.premium_denominator());
    let change = view.net_change() as i32;
    let size = premium(change.unsigned_abs());
    Summary {
        series: series!(view),
        volume: view.volume(),
        open_interest: view.open_interest(),
        open: premium(view.open()),
        high: premium(view.high()),
        low: premium(view.low()),
        last: premium(view.last()),
        net_change: if change < 0 { Price(-size.0) } else { size },
        underlying: price_of(view.underlying() as u32, view.underlying_denominator()),
        bid: premium(view.bid()),
        offer: premium(view.offer()),
    }
}

/// The text behind a two-byte length, and the bytes that follow it.
fn text(bytes: &[u8]) -> Result<(&[u8], &[u8]), Code> {
    match bytes {
        [0] => Ok((&[], &[])),
        [high, low, rest @ ..] => {
            let len = usize::from(u16::from_be_bytes([*high, *low]));
            rest.split_at_checked(len).ok_or(Code::Truncated)
        }
        _ => Err(Code::Truncated),
    }
}

fn control(text: &[u8]) -> Control {
    let hash = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    Control {
        text_len: text.len() as u32,
        text_hash: text.iter().fold(0xCBF2_9CE4_8422_2325, hash),
    }
}
