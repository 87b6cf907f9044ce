//! Nasdaq TotalView-ITCH 5.0 as a description: all 23 messages, from which views, parser and field
//! iteration are generated. The section numbers are those of the specification.

use crate::layout::{U48, messages};

messages! {
    /// A message of ITCH 5.0.
    pub enum Message;

    /// System event (1.1).
    SystemEvent = b'S', 12 {
        /// Instrument.
        1 => locate: u16,
        /// Nasdaq's internal tracking number.
        3 => tracking: u16,
        /// Nanoseconds since midnight.
        5 => time: U48,
        /// Which step of the day.
        11 => code: u8 = b"OSQMEC",
    }

    /// Stock directory (1.2.1).
    StockDirectory = b'R', 39 {
        /// Instrument.
        1 => locate: u16,
        /// Nasdaq's internal tracking number.
        3 => tracking: u16,
        /// Nanoseconds since midnight.
        5 => time: U48,
        /// Symbol.
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
        /// `P` live, `T` test.
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

    /// Stock trading action (1.2.2).
    StockTradingAction = b'H', 25 {
        /// Instrument.
        1 => locate: u16,
        /// Nasdaq's internal tracking number.
        3 => tracking: u16,
        /// Nanoseconds since midnight.
        5 => time: U48,
        /// Symbol.
        11 => stock: [u8; 8],
        /// State from now on.
        19 => state: u8 = b"HPQT",
        /// Reserved.
        20 => reserved: u8,
        /// Reason code of the action, blank-padded.
        21 => reason: [u8; 4],
    }

    /// Short sale price test restriction (1.2.3).
    RegShoRestriction = b'Y', 20 {
        /// Instrument.
        1 => locate: u16,
        /// Nasdaq's internal tracking number.
        3 => tracking: u16,
        /// Nanoseconds since midnight.
        5 => time: U48,
        /// Symbol.
        11 => stock: [u8; 8],
        /// `0` none, `1` in effect after an intraday drop, `2` remains in effect.
        19 => action: u8,
    }

    /// Market participant position (1.2.4).
    MarketParticipantPosition = b'L', 26 {
        /// Instrument.
        1 => locate: u16,
        /// Nasdaq's internal tracking number.
        3 => tracking: u16,
        /// Nanoseconds since midnight.
        5 => time: U48,
        /// Firm.
        11 => mpid: [u8; 4],
        /// Symbol.
        15 => stock: [u8; 8],
        /// Primary market maker: `Y` or `N`.
        23 => primary_market_maker: u8,
        /// Market maker mode.
        24 => market_maker_mode: u8,
        /// Membership status.
        25 => participant_state: u8,
    }

    /// Market-wide circuit breaker decline levels (1.2.5.1).
    MwcbDeclineLevel = b'V', 35 {
        /// Instrument.
        1 => locate: u16,
        /// Nasdaq's internal tracking number.
        3 => tracking: u16,
        /// Nanoseconds since midnight.
        5 => time: U48,
        /// Level 1, in 1e-8.
        11 => level1: u64,
        /// Level 2, in 1e-8.
        19 => level2: u64,
        /// Level 3, in 1e-8.
        27 => level3: u64,
    }

    /// Market-wide circuit breaker breached (1.2.5.2).
    MwcbStatus = b'W', 12 {
        /// Instrument.
        1 => locate: u16,
        /// Nasdaq's internal tracking number.
        3 => tracking: u16,
        /// Nanoseconds since midnight.
        5 => time: U48,
        /// `1`, `2` or `3`.
        11 => breached_level: u8,
    }

    /// Quoting period of an IPO (1.2.6).
    IpoQuotingPeriod = b'K', 28 {
        /// Instrument.
        1 => locate: u16,
        /// Nasdaq's internal tracking number.
        3 => tracking: u16,
        /// Nanoseconds since midnight.
        5 => time: U48,
        /// Symbol.
        11 => stock: [u8; 8],
        /// Release time in seconds since midnight.
        19 => release_time: u32,
        /// `A` anticipated, `C` cancelled or postponed.
        23 => release_qualifier: u8,
        /// IPO price.
        24 => price: u32,
    }

    /// Limit-up limit-down auction collar (1.2.7).
    LuldAuctionCollar = b'J', 35 {
        /// Instrument.
        1 => locate: u16,
        /// Nasdaq's internal tracking number.
        3 => tracking: u16,
        /// Nanoseconds since midnight.
        5 => time: U48,
        /// Symbol.
        11 => stock: [u8; 8],
        /// Reference price.
        19 => reference_price: u32,
        /// Upper collar.
        23 => upper_price: u32,
        /// Lower collar.
        27 => lower_price: u32,
        /// Number of extensions.
        31 => extension: u32,
    }

    /// Operational halt (1.2.8).
    OperationalHalt = b'h', 21 {
        /// Instrument.
        1 => locate: u16,
        /// Nasdaq's internal tracking number.
        3 => tracking: u16,
        /// Nanoseconds since midnight.
        5 => time: U48,
        /// Symbol.
        11 => stock: [u8; 8],
        /// Market: `Q`, `B` or `X`.
        19 => market: u8,
        /// `H` halted, `T` lifted.
        20 => action: u8,
    }

    /// Order added, no attribution (1.3.1).
    AddOrder = b'A', 36 {
        /// Instrument.
        1 => locate: u16,
        /// Nasdaq's internal tracking number.
        3 => tracking: u16,
        /// Nanoseconds since midnight.
        5 => time: U48,
        /// Its reference.
        11 => order_ref: u64,
        /// Its side.
        19 => side: u8 = b"BS",
        /// Displayed quantity.
        20 => shares: u32,
        /// Symbol.
        24 => stock: [u8; 8],
        /// Displayed price.
        32 => price: u32,
    }

    /// Order added, with attribution (1.3.2).
    AddOrderMpid = b'F', 40 {
        /// Instrument.
        1 => locate: u16,
        /// Nasdaq's internal tracking number.
        3 => tracking: u16,
        /// Nanoseconds since midnight.
        5 => time: U48,
        /// Its reference.
        11 => order_ref: u64,
        /// Its side.
        19 => side: u8 = b"BS",
        /// Displayed quantity.
        20 => shares: u32,
        /// Symbol.
        24 => stock: [u8; 8],
        /// Displayed price.
        32 => price: u32,
        /// Firm.
        36 => attribution: [u8; 4],
    }

    /// Order executed at its price (1.4.1).
    OrderExecuted = b'E', 31 {
        /// Instrument.
        1 => locate: u16,
        /// Nasdaq's internal tracking number.
        3 => tracking: u16,
        /// Nanoseconds since midnight.
        5 => time: U48,
        /// The resting order.
        11 => order_ref: u64,
        /// Traded quantity.
        19 => shares: u32,
        /// The trade.
        23 => match_number: u64,
    }

    /// Order executed at another price (1.4.2).
    OrderExecutedWithPrice = b'C', 36 {
        /// Instrument.
        1 => locate: u16,
        /// Nasdaq's internal tracking number.
        3 => tracking: u16,
        /// Nanoseconds since midnight.
        5 => time: U48,
        /// The resting order.
        11 => order_ref: u64,
        /// Traded quantity.
        19 => shares: u32,
        /// The trade.
        23 => match_number: u64,
        /// Whether it prints.
        31 => printable: u8 = b"YN",
        /// Traded price.
        32 => price: u32,
    }

    /// Order reduced (1.4.3).
    OrderCancel = b'X', 23 {
        /// Instrument.
        1 => locate: u16,
        /// Nasdaq's internal tracking number.
        3 => tracking: u16,
        /// Nanoseconds since midnight.
        5 => time: U48,
        /// The order.
        11 => order_ref: u64,
        /// Quantity that went away.
        19 => shares: u32,
    }

    /// Order gone (1.4.4).
    OrderDelete = b'D', 19 {
        /// Instrument.
        1 => locate: u16,
        /// Nasdaq's internal tracking number.
        3 => tracking: u16,
        /// Nanoseconds since midnight.
        5 => time: U48,
        /// The order.
        11 => order_ref: u64,
    }

    /// Order replaced (1.4.5).
    OrderReplace = b'U', 35 {
        /// Instrument.
        1 => locate: u16,
        /// Nasdaq's internal tracking number.
        3 => tracking: u16,
        /// Nanoseconds since midnight.
        5 => time: U48,
        /// The order that goes.
        11 => old_ref: u64,
        /// The order that comes: same side, symbol and attribution.
        19 => new_ref: u64,
        /// Displayed quantity.
        27 => shares: u32,
        /// Displayed price.
        31 => price: u32,
    }

    /// Trade against a non-displayed order (1.5.1).
    Trade = b'P', 44 {
        /// Instrument.
        1 => locate: u16,
        /// Nasdaq's internal tracking number.
        3 => tracking: u16,
        /// Nanoseconds since midnight.
        5 => time: U48,
        /// Reference of the non-displayed order; 0 since 2010.
        11 => order_ref: u64,
        /// Its side.
        19 => side: u8 = b"BS",
        /// Traded quantity.
        20 => shares: u32,
        /// Symbol.
        24 => stock: [u8; 8],
        /// Traded price.
        32 => price: u32,
        /// The trade.
        36 => match_number: u64,
    }

    /// Cross (1.5.2).
    CrossTrade = b'Q', 40 {
        /// Instrument.
        1 => locate: u16,
        /// Nasdaq's internal tracking number.
        3 => tracking: u16,
        /// Nanoseconds since midnight.
        5 => time: U48,
        /// Quantity matched in the cross.
        11 => shares: u64,
        /// Symbol.
        19 => stock: [u8; 8],
        /// Price of the cross.
        27 => price: u32,
        /// The trade.
        31 => match_number: u64,
        /// Which cross.
        39 => cross_type: u8,
    }

    /// Execution broken (1.5.3).
    BrokenTrade = b'B', 19 {
        /// Instrument.
        1 => locate: u16,
        /// Nasdaq's internal tracking number.
        3 => tracking: u16,
        /// Nanoseconds since midnight.
        5 => time: U48,
        /// The trade.
        11 => match_number: u64,
    }

    /// Net order imbalance (1.6).
    NetOrderImbalance = b'I', 50 {
        /// Instrument.
        1 => locate: u16,
        /// Nasdaq's internal tracking number.
        3 => tracking: u16,
        /// Nanoseconds since midnight.
        5 => time: U48,
        /// Quantity paired at the reference price.
        11 => paired_shares: u64,
        /// Quantity not paired.
        19 => imbalance_shares: u64,
        /// `B`, `S`, `N`, `O` or `P`.
        27 => direction: u8,
        /// Symbol.
        28 => stock: [u8; 8],
        /// Hypothetical price, cross orders only.
        36 => far_price: u32,
        /// Hypothetical price, cross and continuous orders.
        40 => near_price: u32,
        /// Reference price.
        44 => reference_price: u32,
        /// Which cross.
        48 => cross_type: u8,
        /// Deviation of the near price, by a table of letters.
        49 => price_variation: u8,
    }

    /// Retail price improvement indicator (1.7).
    RetailInterest = b'N', 20 {
        /// Instrument.
        1 => locate: u16,
        /// Nasdaq's internal tracking number.
        3 => tracking: u16,
        /// Nanoseconds since midnight.
        5 => time: U48,
        /// Symbol.
        11 => stock: [u8; 8],
        /// `B`, `S`, `A` (both) or `N` (none).
        19 => interest: u8,
    }

    /// Direct listing with capital raise, price discovery (1.8).
    DirectListing = b'O', 48 {
        /// Instrument.
        1 => locate: u16,
        /// Nasdaq's internal tracking number.
        3 => tracking: u16,
        /// Nanoseconds since midnight.
        5 => time: U48,
        /// Symbol.
        11 => stock: [u8; 8],
        /// Open eligibility: `Y` or `N`.
        19 => open_eligibility: u8,
        /// Lowest allowable price.
        20 => price_min: u32,
        /// Highest allowable price.
        24 => price_max: u32,
        /// Near execution price.
        28 => near_price: u32,
        /// When it was set, nanoseconds since midnight.
        32 => near_time: u64,
        /// Lower collar.
        40 => collar_lower: u32,
        /// Upper collar.
        44 => collar_upper: u32,
    }
}
