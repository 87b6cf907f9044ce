//! Every message of ITCH 5.0 as a view, and the enum over them.
//!
//! Section numbers are those of the TotalView-ITCH 5.0 specification. Integers are big-endian
//! (`.get()`), `Price(4)` is an unsigned count of 1/10000, text is ASCII padded with spaces.

use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes, Unaligned};

use crate::layout::{FieldLayout, Layout};

use super::ItchError;
use super::field::{EventCode, Printable, Side, State, Time};

/// The eleven bytes every message begins with.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, TryFromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Header {
    /// Message type: one ASCII letter.
    pub kind: u8,
    /// Stock locate: the number of the instrument, 0 for messages about none.
    pub locate: U16,
    /// Tracking number, internal to the sender.
    pub tracking: U16,
    /// Time of the event, ns since midnight.
    pub time: Time,
}

/// Defines the views, the enum over them, its parser and the table of lengths.
macro_rules! messages {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident = $kind:literal, $len:literal {
            $($(#[doc = $fdoc:literal])* $field:ident: $ty:ty,)*
        }
    )*) => {
        $(
            $(#[doc = $doc])*
            #[derive(
                Clone, Copy, PartialEq, Eq, Debug, TryFromBytes, IntoBytes, KnownLayout, Immutable,
                Unaligned,
            )]
            #[repr(C)]
            pub struct $name {
                /// Message type, instrument and time of the event.
                pub header: Header,
                $($(#[doc = $fdoc])* pub $field: $ty,)*
            }

            impl $name {
                /// Type byte of the message, its first byte.
                pub const KIND: u8 = $kind;
            }

            const _: () = assert!(size_of::<$name>() == $len);
        )*

        /// One checked message, borrowed from the bytes it was parsed from.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Message<'a> {
            $(
                #[doc = concat!("Type ", stringify!($kind), ".")]
                $name(&'a $name),
            )*
        }

        impl<'a> Message<'a> {
            /// Type byte and length in bytes of every message of ITCH 5.0.
            pub const LENGTHS: &'static [(u8, usize)] = &[$(($kind, $len)),*];

            /// Where the fields of every message lie behind the header that all have.
            pub const LAYOUTS: &'static [Layout] = &[$(Layout {
                name: stringify!($name),
                kind: $kind,
                len: $len,
                doc: concat!($($doc),*),
                fields: &[$(FieldLayout {
                    name: stringify!($field),
                    offset: core::mem::offset_of!($name, $field),
                    len: size_of::<$ty>(),
                    kind: stringify!($ty),
                    doc: concat!($($fdoc),*),
                }),*],
            }),*];

            /// The whole message as it came.
            pub fn as_bytes(&self) -> &'a [u8] {
                match *self { $(Message::$name(view) => view.as_bytes(),)* }
            }

            /// The fields that all messages begin with: type, instrument and time.
            pub fn header(&self) -> &'a Header {
                match *self { $(Message::$name(view) => &view.header,)* }
            }
        }

        pub(super) fn parse(bytes: &[u8]) -> Result<Message<'_>, ItchError> {
            let &kind = bytes.first().ok_or(ItchError::Empty)?;
            match kind {
                $($kind => match $name::try_ref_from_bytes(bytes) {
                    Ok(view) => Ok(Message::$name(view)),
                    Err(_) if bytes.len() != $len => {
                        Err(ItchError::Length { kind, len: bytes.len() })
                    }
                    Err(_) => Err(ItchError::Field { kind }),
                },)*
                _ => Err(ItchError::UnknownType(kind)),
            }
        }
    };
}

messages! {
    /// System event (§1.1): the market or the feed enters another step of the day.
    SystemEvent = b'S', 12 {
        /// Step of the day that begins or ends: `O`, `S`, `Q`, `M`, `E` or `C`.
        code: EventCode,
    }

    /// Stock directory (§1.2.1): an instrument that is traded today.
    StockDirectory = b'R', 39 {
        /// Symbol of the instrument.
        stock: [u8; 8],
        /// Listing market or tier; space: not available.
        market_category: u8,
        /// Financial status of the issuer; `N` normal.
        financial_status: u8,
        /// Shares of a round lot.
        round_lot_size: U32,
        /// `Y` when only round lots are taken.
        round_lots_only: u8,
        /// Kind of security; `Q` other.
        issue_classification: u8,
        /// Sub-type; `Z ` not applicable.
        issue_sub_type: [u8; 2],
        /// `P` live, `T` test.
        authenticity: u8,
        /// Short sale threshold: `Y`, `N` or space.
        short_sale_threshold: u8,
        /// IPO flag: `Y`, `N` or space.
        ipo: u8,
        /// Limit-up limit-down tier: `1`, `2` or space.
        luld_tier: u8,
        /// Exchange-traded product: `Y`, `N` or space.
        etp: u8,
        /// Leverage of an exchange-traded product, 0 for none.
        etp_leverage: U32,
        /// Inverse product: `Y` or `N`.
        inverse: u8,
    }

    /// Stock trading action (§1.2.2): the trading state of an instrument changes.
    StockTradingAction = b'H', 25 {
        /// Symbol of the instrument.
        stock: [u8; 8],
        /// Trading state from now on: `H` halted, `P` paused, `Q` quotation only, `T` trading.
        state: State,
        /// Reserved: one byte without a meaning.
        reserved: u8,
        /// Reason code of the action, blank-padded; see §1.2.2.
        reason: [u8; 4],
    }

    /// Short sale price test restriction (§1.2.3).
    RegShoRestriction = b'Y', 20 {
        /// Symbol of the instrument.
        stock: [u8; 8],
        /// `0` none, `1` in effect after an intraday drop, `2` remains in effect.
        action: u8,
    }

    /// Market participant position (§1.2.4): a firm's standing in an instrument.
    MarketParticipantPosition = b'L', 26 {
        /// Identifier of the firm (MPID).
        mpid: [u8; 4],
        /// Symbol of the instrument.
        stock: [u8; 8],
        /// Primary market maker: `Y` or `N`.
        primary_market_maker: u8,
        /// Market maker mode: `N` normal, `P` passive, `S` syndicate, `R` pre-syndicate, `L`
        /// penalty.
        market_maker_mode: u8,
        /// Membership status: `A` active, `E` excused, `W` withdrawn, `S` suspended, `D` deleted.
        participant_state: u8,
    }

    /// Market-wide circuit breaker decline levels (§1.2.5.1).
    MwcbDeclineLevel = b'V', 35 {
        /// Index value of level 1, in 1e-8.
        level1: U64,
        /// Index value of level 2, in 1e-8.
        level2: U64,
        /// Index value of level 3, in 1e-8.
        level3: U64,
    }

    /// Market-wide circuit breaker breached (§1.2.5.2).
    MwcbStatus = b'W', 12 {
        /// Level that was breached: `1`, `2` or `3`.
        breached_level: u8,
    }

    /// Quoting period of an IPO (§1.2.6).
    IpoQuotingPeriod = b'K', 28 {
        /// Symbol of the instrument.
        stock: [u8; 8],
        /// Release time in seconds since midnight.
        release_time: U32,
        /// `A` anticipated, `C` cancelled or postponed.
        release_qualifier: u8,
        /// IPO price, in 1/10000 of the quote currency.
        price: U32,
    }

    /// Limit-up limit-down auction collar (§1.2.7).
    LuldAuctionCollar = b'J', 35 {
        /// Symbol of the instrument.
        stock: [u8; 8],
        /// Reference price, in 1/10000 of the quote currency.
        reference_price: U32,
        /// Highest price allowed in the auction, in 1/10000 of the quote currency.
        upper_price: U32,
        /// Lowest price allowed in the auction, in 1/10000 of the quote currency.
        lower_price: U32,
        /// How often the collar was extended.
        extension: U32,
    }

    /// Operational halt (§1.2.8): trading of an instrument is interrupted at one market.
    OperationalHalt = b'h', 21 {
        /// Symbol of the instrument.
        stock: [u8; 8],
        /// Market: `Q`, `B` or `X`.
        market: u8,
        /// `H` halted, `T` the halt is lifted.
        action: u8,
    }

    /// Order added, no attribution (§1.3.1).
    AddOrder = b'A', 36 {
        /// Reference number of the order, unique for the day.
        order_ref: U64,
        /// Side of the order: `B` buy, `S` sell.
        side: Side,
        /// Displayed quantity of the order.
        shares: U32,
        /// Symbol of the instrument.
        stock: [u8; 8],
        /// Displayed price of the order, in 1/10000 of the quote currency.
        price: U32,
    }

    /// Order added, with attribution (§1.3.2).
    AddOrderMpid = b'F', 40 {
        /// Reference number of the order, unique for the day.
        order_ref: U64,
        /// Side of the order: `B` buy, `S` sell.
        side: Side,
        /// Displayed quantity of the order.
        shares: U32,
        /// Symbol of the instrument.
        stock: [u8; 8],
        /// Displayed price of the order, in 1/10000 of the quote currency.
        price: U32,
        /// Identifier of the firm (MPID) that entered the order.
        attribution: [u8; 4],
    }

    /// Order executed at its price (§1.4.1).
    OrderExecuted = b'E', 31 {
        /// Reference of the resting order.
        order_ref: U64,
        /// Quantity that traded.
        shares: U32,
        /// Match number of the trade, unique for the day.
        match_number: U64,
    }

    /// Order executed at another price (§1.4.2).
    OrderExecutedWithPrice = b'C', 36 {
        /// Reference of the resting order.
        order_ref: U64,
        /// Quantity that traded.
        shares: U32,
        /// Match number of the trade, unique for the day.
        match_number: U64,
        /// Whether the execution counts in time and sales: `Y` or `N`.
        printable: Printable,
        /// Price of the trade, in 1/10000 of the quote currency.
        price: U32,
    }

    /// Order reduced (§1.4.3): part of its quantity was cancelled, and it keeps its place.
    OrderCancel = b'X', 23 {
        /// Reference number of the order, unique for the day.
        order_ref: U64,
        /// Quantity that was cancelled.
        shares: U32,
    }

    /// Order deleted (§1.4.4): all that was left of it was cancelled.
    OrderDelete = b'D', 19 {
        /// Reference number of the order, unique for the day.
        order_ref: U64,
    }

    /// Order replaced (§1.4.5): a new reference, quantity and price.
    OrderReplace = b'U', 35 {
        /// Reference of the order that is replaced.
        old_ref: U64,
        /// Reference number of the new order: same side, symbol and attribution.
        new_ref: U64,
        /// Displayed quantity of the order.
        shares: U32,
        /// Displayed price of the order, in 1/10000 of the quote currency.
        price: U32,
    }

    /// Trade against a non-displayed order (§1.5.1).
    Trade = b'P', 44 {
        /// Reference of the non-displayed order; 0 since 2010.
        order_ref: U64,
        /// Side of the order: `B` buy, `S` sell.
        side: Side,
        /// Quantity that traded.
        shares: U32,
        /// Symbol of the instrument.
        stock: [u8; 8],
        /// Price of the trade, in 1/10000 of the quote currency.
        price: U32,
        /// Match number of the trade, unique for the day.
        match_number: U64,
    }

    /// Cross (§1.5.2): the result of an auction.
    CrossTrade = b'Q', 40 {
        /// Quantity matched in the cross.
        shares: U64,
        /// Symbol of the instrument.
        stock: [u8; 8],
        /// Price of the cross, in 1/10000 of the quote currency.
        price: U32,
        /// Match number of the cross, unique for the day.
        match_number: U64,
        /// Type of the cross: `O` opening, `C` closing, `H` after a halt, `I` during the day.
        cross_type: u8,
    }

    /// Execution broken (§1.5.3): a published trade is void.
    BrokenTrade = b'B', 19 {
        /// Match number of the trade that is void.
        match_number: U64,
    }

    /// Net order imbalance (§1.6): what the auction would trade now, and what would be left.
    NetOrderImbalance = b'I', 50 {
        /// Quantity paired at the reference price.
        paired_shares: U64,
        /// Quantity that would be left over.
        imbalance_shares: U64,
        /// Side of the imbalance: `B` buy, `S` sell, `N` none, `O` not enough orders, `P` paused.
        direction: u8,
        /// Symbol of the instrument.
        stock: [u8; 8],
        /// Clearing price of the orders for the cross alone, in 1/10000 of the quote currency.
        far_price: U32,
        /// Clearing price of cross and continuous orders together, in 1/10000 of the quote
        /// currency.
        near_price: U32,
        /// Reference price, in 1/10000 of the quote currency.
        reference_price: U32,
        /// Type of the cross: `O` opening, `C` closing, `H` after a halt, `I` during the day.
        cross_type: u8,
        /// Distance of the near price from the reference price: `L` below 1 %, `1` to `9` whole
        /// percents, `A` 10 % to 19 %, `B` 20 % to 29 %, `C` 30 % and more, space: unknown.
        price_variation: u8,
    }

    /// Retail price improvement indicator (§1.7).
    RetailInterest = b'N', 20 {
        /// Symbol of the instrument.
        stock: [u8; 8],
        /// Side of the retail interest: `B` buy, `S` sell, `A` both, `N` none.
        interest: u8,
    }

    /// Direct listing with capital raise, price discovery (§1.8).
    DirectListing = b'O', 48 {
        /// Symbol of the instrument.
        stock: [u8; 8],
        /// Whether the instrument may be released for trading: `Y` or `N`.
        open_eligibility: u8,
        /// Lowest allowable price, in 1/10000 of the quote currency.
        price_min: U32,
        /// Highest allowable price, in 1/10000 of the quote currency.
        price_max: U32,
        /// Price at which the opening would execute now, in 1/10000 of the quote currency.
        near_price: U32,
        /// When the near price was set, ns since midnight.
        near_time: U64,
        /// Lower end of the price collar, in 1/10000 of the quote currency.
        collar_lower: U32,
        /// Upper end of the price collar, in 1/10000 of the quote currency.
        collar_upper: U32,
    }
}
