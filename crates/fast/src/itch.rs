//! Nasdaq TotalView-ITCH 5.0 as a description: all 23 messages, from which views, parser and field
//! iteration are generated. The section numbers are those of the specification.

use crate::layout::{U48, messages};

messages! {
    /// A message of ITCH 5.0.
    pub enum Message;

    /// System event (1.1): the market or the feed enters another step of the day.
    SystemEvent = b'S', 12 {
        /// Stock locate: the number of the instrument, 0 for messages about none.
        1 => locate: u16,
        /// Tracking number, internal to Nasdaq; without a meaning for readers.
        3 => tracking: u16,
        /// Time of the event, ns since midnight.
        5 => time: U48,
        /// Step of the day: `O`, `S`, `Q`, `M`, `E` or `C`.
        11 => code: u8 = b"OSQMEC",
    }

    /// Stock directory (1.2.1): an instrument that is traded today.
    StockDirectory = b'R', 39 {
        /// Stock locate: the number of the instrument, 0 for messages about none.
        1 => locate: u16,
        /// Tracking number, internal to Nasdaq; without a meaning for readers.
        3 => tracking: u16,
        /// Time of the event, ns since midnight.
        5 => time: U48,
        /// Symbol of the instrument, padded with spaces on the right.
        11 => stock: [u8; 8],
        /// Listing market or tier; space: not available.
        19 => market_category: u8,
        /// Financial status of the issuer; `N` normal.
        20 => financial_status: u8,
        /// Shares of a round lot.
        21 => round_lot_size: u32,
        /// `Y` when only round lots are taken.
        25 => round_lots_only: u8,
        /// Kind of security; `Q` other.
        26 => issue_classification: u8,
        /// Sub-type; `Z ` not applicable.
        27 => issue_sub_type: [u8; 2],
        /// Authenticity: `P` live, `T` test.
        29 => authenticity: u8,
        /// Short sale threshold: `Y`, `N` or space.
        30 => short_sale_threshold: u8,
        /// IPO flag: `Y`, `N` or space.
        31 => ipo: u8,
        /// Limit-up limit-down tier: `1`, `2` or space.
        32 => luld_tier: u8,
        /// Exchange-traded product: `Y`, `N` or space.
        33 => etp: u8,
        /// Leverage of an exchange-traded product, 0 for none.
        34 => etp_leverage: u32,
        /// Inverse product: `Y` or `N`.
        38 => inverse: u8,
    }

    /// Stock trading action (1.2.2): the trading state of an instrument changes.
    StockTradingAction = b'H', 25 {
        /// Stock locate: the number of the instrument, 0 for messages about none.
        1 => locate: u16,
        /// Tracking number, internal to Nasdaq; without a meaning for readers.
        3 => tracking: u16,
        /// Time of the event, ns since midnight.
        5 => time: U48,
        /// Symbol of the instrument, padded with spaces on the right.
        11 => stock: [u8; 8],
        /// Trading state from now on: `H` halted, `P` paused, `Q` quotation only, `T` trading.
        19 => state: u8 = b"HPQT",
        /// Reserved: one byte without a meaning.
        20 => reserved: u8,
        /// Reason code of the action, blank-padded.
        21 => reason: [u8; 4],
    }

    /// Short sale price test restriction (1.2.3).
    RegShoRestriction = b'Y', 20 {
        /// Stock locate: the number of the instrument, 0 for messages about none.
        1 => locate: u16,
        /// Tracking number, internal to Nasdaq; without a meaning for readers.
        3 => tracking: u16,
        /// Time of the event, ns since midnight.
        5 => time: U48,
        /// Symbol of the instrument, padded with spaces on the right.
        11 => stock: [u8; 8],
        /// `0` none, `1` in effect after an intraday drop, `2` remains in effect.
        19 => action: u8,
    }

    /// Market participant position (1.2.4): a firm's standing in an instrument.
    MarketParticipantPosition = b'L', 26 {
        /// Stock locate: the number of the instrument, 0 for messages about none.
        1 => locate: u16,
        /// Tracking number, internal to Nasdaq; without a meaning for readers.
        3 => tracking: u16,
        /// Time of the event, ns since midnight.
        5 => time: U48,
        /// Identifier of the firm (MPID).
        11 => mpid: [u8; 4],
        /// Symbol of the instrument, padded with spaces on the right.
        15 => stock: [u8; 8],
        /// Primary market maker: `Y` or `N`.
        23 => primary_market_maker: u8,
        /// Market maker mode: `N` normal, `P` passive, `S` syndicate, `R` pre-syndicate, `L`
        /// penalty.
        24 => market_maker_mode: u8,
        /// Membership status: `A` active, `E` excused, `W` withdrawn, `S` suspended, `D` deleted.
        25 => participant_state: u8,
    }

    /// Market-wide circuit breaker decline levels (1.2.5.1).
    MwcbDeclineLevel = b'V', 35 {
        /// Stock locate: the number of the instrument, 0 for messages about none.
        1 => locate: u16,
        /// Tracking number, internal to Nasdaq; without a meaning for readers.
        3 => tracking: u16,
        /// Time of the event, ns since midnight.
        5 => time: U48,
        /// Index value of level 1, in 1e-8.
        11 => level1: u64 as decimal(8),
        /// Index value of level 2, in 1e-8.
        19 => level2: u64 as decimal(8),
        /// Index value of level 3, in 1e-8.
        27 => level3: u64 as decimal(8),
    }

    /// Market-wide circuit breaker breached (1.2.5.2).
    MwcbStatus = b'W', 12 {
        /// Stock locate: the number of the instrument, 0 for messages about none.
        1 => locate: u16,
        /// Tracking number, internal to Nasdaq; without a meaning for readers.
        3 => tracking: u16,
        /// Time of the event, ns since midnight.
        5 => time: U48,
        /// Level that was breached: `1`, `2` or `3`.
        11 => breached_level: u8,
    }

    /// Quoting period of an IPO (1.2.6).
    IpoQuotingPeriod = b'K', 28 {
        /// Stock locate: the number of the instrument, 0 for messages about none.
        1 => locate: u16,
        /// Tracking number, internal to Nasdaq; without a meaning for readers.
        3 => tracking: u16,
        /// Time of the event, ns since midnight.
        5 => time: U48,
        /// Symbol of the instrument, padded with spaces on the right.
        11 => stock: [u8; 8],
        /// Release time in seconds since midnight.
        19 => release_time: u32,
        /// `A` anticipated, `C` cancelled or postponed.
        23 => release_qualifier: u8,
        /// IPO price, in 1/10000 of the currency.
        24 => price: u32 as decimal(4),
    }

    /// Limit-up limit-down auction collar (1.2.7).
    LuldAuctionCollar = b'J', 35 {
        /// Stock locate: the number of the instrument, 0 for messages about none.
        1 => locate: u16,
        /// Tracking number, internal to Nasdaq; without a meaning for readers.
        3 => tracking: u16,
        /// Time of the event, ns since midnight.
        5 => time: U48,
        /// Symbol of the instrument, padded with spaces on the right.
        11 => stock: [u8; 8],
        /// Reference price, in 1/10000 of the currency.
        19 => reference_price: u32 as decimal(4),
        /// Highest price allowed in the auction, in 1/10000 of the currency.
        23 => upper_price: u32 as decimal(4),
        /// Lowest price allowed in the auction, in 1/10000 of the currency.
        27 => lower_price: u32 as decimal(4),
        /// How often the collar was extended.
        31 => extension: u32,
    }

    /// Operational halt (1.2.8): trading of an instrument is interrupted at one market.
    OperationalHalt = b'h', 21 {
        /// Stock locate: the number of the instrument, 0 for messages about none.
        1 => locate: u16,
        /// Tracking number, internal to Nasdaq; without a meaning for readers.
        3 => tracking: u16,
        /// Time of the event, ns since midnight.
        5 => time: U48,
        /// Symbol of the instrument, padded with spaces on the right.
        11 => stock: [u8; 8],
        /// Market: `Q`, `B` or `X`.
        19 => market: u8,
        /// `H` halted, `T` the halt is lifted.
        20 => action: u8,
    }

    /// Order added, no attribution (1.3.1).
    AddOrder = b'A', 36 {
        /// Stock locate: the number of the instrument, 0 for messages about none.
        1 => locate: u16,
        /// Tracking number, internal to Nasdaq; without a meaning for readers.
        3 => tracking: u16,
        /// Time of the event, ns since midnight.
        5 => time: U48,
        /// Reference number of the order, unique for the day.
        11 => order_ref: u64,
        /// Side of the order: `B` buy, `S` sell.
        19 => side: u8 = b"BS",
        /// Displayed quantity of the order, shares.
        20 => shares: u32,
        /// Symbol of the instrument, padded with spaces on the right.
        24 => stock: [u8; 8],
        /// Displayed price of the order, in 1/10000 of the currency.
        32 => price: u32 as decimal(4),
    }

    /// Order added, with attribution (1.3.2).
    AddOrderMpid = b'F', 40 {
        /// Stock locate: the number of the instrument, 0 for messages about none.
        1 => locate: u16,
        /// Tracking number, internal to Nasdaq; without a meaning for readers.
        3 => tracking: u16,
        /// Time of the event, ns since midnight.
        5 => time: U48,
        /// Reference number of the order, unique for the day.
        11 => order_ref: u64,
        /// Side of the order: `B` buy, `S` sell.
        19 => side: u8 = b"BS",
        /// Displayed quantity of the order, shares.
        20 => shares: u32,
        /// Symbol of the instrument, padded with spaces on the right.
        24 => stock: [u8; 8],
        /// Displayed price of the order, in 1/10000 of the currency.
        32 => price: u32 as decimal(4),
        /// Identifier of the firm (MPID) that entered the order.
        36 => attribution: [u8; 4],
    }

    /// Order executed at its price (1.4.1).
    OrderExecuted = b'E', 31 {
        /// Stock locate: the number of the instrument, 0 for messages about none.
        1 => locate: u16,
        /// Tracking number, internal to Nasdaq; without a meaning for readers.
        3 => tracking: u16,
        /// Time of the event, ns since midnight.
        5 => time: U48,
        /// Reference number of the resting order.
        11 => order_ref: u64,
        /// Quantity that traded, shares.
        19 => shares: u32,
        /// Match number of the trade, unique for the day.
        23 => match_number: u64,
    }

    /// Order executed at another price (1.4.2).
    OrderExecutedWithPrice = b'C', 36 {
        /// Stock locate: the number of the instrument, 0 for messages about none.
        1 => locate: u16,
        /// Tracking number, internal to Nasdaq; without a meaning for readers.
        3 => tracking: u16,
        /// Time of the event, ns since midnight.
        5 => time: U48,
        /// Reference number of the resting order.
        11 => order_ref: u64,
        /// Quantity that traded, shares.
        19 => shares: u32,
        /// Match number of the trade, unique for the day.
        23 => match_number: u64,
        /// Whether the execution counts in time and sales: `Y` or `N`.
        31 => printable: u8 = b"YN",
        /// Price of the trade, in 1/10000 of the currency.
        32 => price: u32 as decimal(4),
    }

    /// Order reduced (1.4.3): part of its quantity was cancelled, and it keeps its place.
    OrderCancel = b'X', 23 {
        /// Stock locate: the number of the instrument, 0 for messages about none.
        1 => locate: u16,
        /// Tracking number, internal to Nasdaq; without a meaning for readers.
        3 => tracking: u16,
        /// Time of the event, ns since midnight.
        5 => time: U48,
        /// Reference number of the order.
        11 => order_ref: u64,
        /// Quantity that was cancelled, shares.
        19 => shares: u32,
    }

    /// Order deleted (1.4.4): all that was left of it was cancelled.
    OrderDelete = b'D', 19 {
        /// Stock locate: the number of the instrument, 0 for messages about none.
        1 => locate: u16,
        /// Tracking number, internal to Nasdaq; without a meaning for readers.
        3 => tracking: u16,
        /// Time of the event, ns since midnight.
        5 => time: U48,
        /// Reference number of the order.
        11 => order_ref: u64,
    }

    /// Order replaced (1.4.5): a new reference, quantity and price.
    OrderReplace = b'U', 35 {
        /// Stock locate: the number of the instrument, 0 for messages about none.
        1 => locate: u16,
        /// Tracking number, internal to Nasdaq; without a meaning for readers.
        3 => tracking: u16,
        /// Time of the event, ns since midnight.
        5 => time: U48,
        /// Reference number of the order that is replaced.
        11 => old_ref: u64,
        /// Reference number of the new order: same side, symbol and attribution.
        19 => new_ref: u64,
        /// Displayed quantity of the order, shares.
        27 => shares: u32,
        /// Displayed price of the order, in 1/10000 of the currency.
        31 => price: u32 as decimal(4),
    }

    /// Trade against a non-displayed order (1.5.1).
    Trade = b'P', 44 {
        /// Stock locate: the number of the instrument, 0 for messages about none.
        1 => locate: u16,
        /// Tracking number, internal to Nasdaq; without a meaning for readers.
        3 => tracking: u16,
        /// Time of the event, ns since midnight.
        5 => time: U48,
        /// Reference of the non-displayed order; 0 since 2010.
        11 => order_ref: u64,
        /// Side of the order: `B` buy, `S` sell.
        19 => side: u8 = b"BS",
        /// Quantity that traded, shares.
        20 => shares: u32,
        /// Symbol of the instrument, padded with spaces on the right.
        24 => stock: [u8; 8],
        /// Price of the trade, in 1/10000 of the currency.
        32 => price: u32 as decimal(4),
        /// Match number of the trade, unique for the day.
        36 => match_number: u64,
    }

    /// Cross (1.5.2): the result of an auction.
    CrossTrade = b'Q', 40 {
        /// Stock locate: the number of the instrument, 0 for messages about none.
        1 => locate: u16,
        /// Tracking number, internal to Nasdaq; without a meaning for readers.
        3 => tracking: u16,
        /// Time of the event, ns since midnight.
        5 => time: U48,
        /// Quantity matched in the cross.
        11 => shares: u64,
        /// Symbol of the instrument, padded with spaces on the right.
        19 => stock: [u8; 8],
        /// Price of the cross, in 1/10000 of the currency.
        27 => price: u32 as decimal(4),
        /// Match number of the cross, unique for the day.
        31 => match_number: u64,
        /// Type of the cross: `O` opening, `C` closing, `H` after a halt or for an IPO, `I` during
        /// the day.
        39 => cross_type: u8,
    }

    /// Execution broken (1.5.3): a published trade is void.
    BrokenTrade = b'B', 19 {
        /// Stock locate: the number of the instrument, 0 for messages about none.
        1 => locate: u16,
        /// Tracking number, internal to Nasdaq; without a meaning for readers.
        3 => tracking: u16,
        /// Time of the event, ns since midnight.
        5 => time: U48,
        /// Match number of the trade that is void.
        11 => match_number: u64,
    }

    /// Net order imbalance (1.6): what the auction would trade now, and what would be left.
    NetOrderImbalance = b'I', 50 {
        /// Stock locate: the number of the instrument, 0 for messages about none.
        1 => locate: u16,
        /// Tracking number, internal to Nasdaq; without a meaning for readers.
        3 => tracking: u16,
        /// Time of the event, ns since midnight.
        5 => time: U48,
        /// Quantity paired at the reference price.
        11 => paired_shares: u64,
        /// Quantity that would be left over, shares.
        19 => imbalance_shares: u64,
        /// `B`, `S`, `N`, `O` or `P`.
        27 => direction: u8,
        /// Symbol of the instrument, padded with spaces on the right.
        28 => stock: [u8; 8],
        /// Hypothetical price, cross orders only.
        36 => far_price: u32 as decimal(4),
        /// Hypothetical price, cross and continuous orders.
        40 => near_price: u32 as decimal(4),
        /// Reference price, in 1/10000 of the currency.
        44 => reference_price: u32 as decimal(4),
        /// Type of the cross: `O` opening, `C` closing, `H` after a halt or for an IPO, `I` during
        /// the day.
        48 => cross_type: u8,
        /// Deviation of the near price, by a table of letters.
        49 => price_variation: u8,
    }

    /// Retail price improvement indicator (1.7).
    RetailInterest = b'N', 20 {
        /// Stock locate: the number of the instrument, 0 for messages about none.
        1 => locate: u16,
        /// Tracking number, internal to Nasdaq; without a meaning for readers.
        3 => tracking: u16,
        /// Time of the event, ns since midnight.
        5 => time: U48,
        /// Symbol of the instrument, padded with spaces on the right.
        11 => stock: [u8; 8],
        /// `B`, `S`, `A` (both) or `N` (none).
        19 => interest: u8,
    }

    /// Direct listing with capital raise, price discovery (1.8).
    DirectListing = b'O', 48 {
        /// Stock locate: the number of the instrument, 0 for messages about none.
        1 => locate: u16,
        /// Tracking number, internal to Nasdaq; without a meaning for readers.
        3 => tracking: u16,
        /// Time of the event, ns since midnight.
        5 => time: U48,
        /// Symbol of the instrument, padded with spaces on the right.
        11 => stock: [u8; 8],
        /// Open eligibility: `Y` or `N`.
        19 => open_eligibility: u8,
        /// Lowest allowable price, in 1/10000 of the currency.
        20 => price_min: u32 as decimal(4),
        /// Highest allowable price, in 1/10000 of the currency.
        24 => price_max: u32 as decimal(4),
        /// Price at which the opening would execute now, in 1/10000 of the currency.
        28 => near_price: u32 as decimal(4),
        /// When the near price was set, ns since midnight.
        32 => near_time: u64 as time(),
        /// Lower end of the price collar, in 1/10000 of the currency.
        40 => collar_lower: u32 as decimal(4),
        /// Upper end of the price collar, in 1/10000 of the currency.
        44 => collar_upper: u32 as decimal(4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Shown;

    #[test]
    fn fields_are_shown_as_what_they_are() {
        let mut bytes = [0; 36];
        bytes[0] = b'A';
        bytes[10] = 9;
        bytes[19] = b'S';
        bytes[23] = 7;
        bytes[24..32].copy_from_slice(b"ZORK    ");
        bytes[35] = 5;
        let message = Message::parse(&bytes).expect("an order");
        assert_eq!((message.name(), message.kind()), ("AddOrder", b'A'));
        let mut seen = Vec::new();
        message.shown(|name, field| seen.push((name, field)));
        let expected = [
            ("locate", Shown::Number(0)),
            ("tracking", Shown::Number(0)),
            ("time", Shown::Time(9)),
            ("order_ref", Shown::Number(0)),
            ("side", Shown::Letter(b'S')),
            ("shares", Shown::Number(7)),
            ("stock", Shown::Text(b"ZORK    ")),
            ("price", Shown::Decimal { units: 5, decimals: 4 }),
        ];
        assert_eq!(seen, expected);
    }
}
