//! Every message of OUCH 5.0 as a view, and the two enums over them.
//!
//! Integers are big-endian (`.get()`), text is ASCII padded with spaces on the right, times are
//! nanoseconds since midnight, prices 1/10000. Section numbers are those of the OUCH 5.0
//! specification. A variant holds the fixed fields and the checked [`Appendage`] behind them.

use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, TryFromBytes, Unaligned};

use crate::layout::{FieldLayout, Layout};

use super::OuchError;
use super::appendage::{Appendage, Tail, TailError};
use super::codes::Side;

/// Defines one side's messages: the views, the enum over them and its parser.
macro_rules! messages {
    (
        $(#[$edoc:meta])*
        $enum:ident by $from:ident, $read:ident;
        $(
            $(#[doc = $doc:literal])*
            $name:ident = $kind:literal, $len:literal, $tail:ident {
                $($(#[doc = $fdoc:literal])* $field:ident: $ty:ty,)*
            }
        )*
    ) => {
        $(
            $(#[doc = $doc])*
            #[derive(
                Clone, Copy, PartialEq, Eq, Debug, $from, IntoBytes, KnownLayout, Immutable,
                Unaligned,
            )]
            #[repr(C)]
            pub struct $name {
                /// Type byte of the message, its first byte.
                pub kind: u8,
                $($(#[doc = $fdoc])* pub $field: $ty,)*
            }

            impl $name {
                /// Type byte of the message, its first byte.
                pub const KIND: u8 = $kind;
            }

            const _: () = assert!(size_of::<$name>() == $len);
        )*

        $(#[$edoc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $enum<'a> {
            $(
                #[doc = concat!("Type ", stringify!($kind), ".")]
                $name(&'a $name, Appendage<'a>),
            )*
        }

        impl<'a> $enum<'a> {
            /// Type byte and length in bytes, without appendage, of every message of this side.
            pub const LENGTHS: &'static [(u8, usize)] = &[$(($kind, $len)),*];

            /// Where the fields of every message lie.
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

            #[inline]
            pub(super) fn parse(bytes: &'a [u8]) -> Result<$enum<'a>, OuchError> {
                let &kind = bytes.first().ok_or(OuchError::Empty)?;
                let length = OuchError::Length { kind, len: bytes.len() };
                match kind {
                    $($kind => {
                        let (fixed, tail) = bytes.split_at_checked($len).ok_or(length)?;
                        let view = $name::$read(fixed)
                            .map_err(|_| OuchError::Field { kind })?;
                        match Appendage::parse(tail, Tail::$tail) {
                            Ok(appendage) => Ok($enum::$name(view, appendage)),
                            Err(TailError::Length) => Err(length),
                            Err(TailError::Elements) => Err(OuchError::Appendage { kind }),
                        }
                    })*
                    _ => Err(OuchError::UnknownType(kind)),
                }
            }

            /// Type byte of the message, its first byte.
            pub fn kind(&self) -> u8 {
                match self { $($enum::$name(..) => $kind,)* }
            }

            /// Appends the message as it was parsed.
            pub fn encode(&self, out: &mut Vec<u8>) {
                match self {
                    $($enum::$name(view, appendage) => {
                        out.extend_from_slice(view.as_bytes());
                        appendage.encode(out);
                    })*
                }
            }
        }
    };
}

messages! {
    /// A message from a client (§2). Any bytes may stand in its fields.
    Inbound by FromBytes, ref_from_bytes;

    /// Enter Order (§2.1): a new order.
    EnterOrder = b'O', 45, Required {
        /// UserRefNum of the order, strictly increasing per account and day.
        user_ref: U32,
        /// `B` buy, `S` sell; `T` sell short and `E` sell short exempt are not served.
        side: u8,
        /// Quantity of the order, lots.
        quantity: U32,
        /// Symbol of the instrument.
        symbol: [u8; 8],
        /// Limit price, or the value that means "market".
        price: U64,
        /// Time in force: `0` and `5` day, `1` good till cancelled, `3` immediate or cancel, `6`
        /// good till a date, `F` fill or kill.
        time_in_force: u8,
        /// `Y` displayed, `N` hidden; others are refused.
        display: u8,
        /// Capacity: `A` agency, `P` principal, `R` riskless, `O` other; read and not used.
        capacity: u8,
        /// Inter-market sweep eligibility: `Y` or `N`; read and not used.
        sweep: u8,
        /// Cross type: `N` continuous market, `O` opening auction, `C` closing auction.
        cross_type: u8,
        /// The client's own identifier, echoed and not interpreted.
        cl_ord_id: [u8; 14],
    }

    /// Replace Order Request (§2.2): new terms for an open order.
    ReplaceOrder = b'U', 38, Required {
        /// UserRefNum of the order that is replaced.
        orig_user_ref: U32,
        /// UserRefNum of the replacement.
        user_ref: U32,
        /// New quantity in total, lots, executions included.
        quantity: U32,
        /// New limit price, or the value that means "market".
        price: U64,
        /// Time in force: `0` and `5` day, `1` good till cancelled, `3` immediate or cancel, `6`
        /// good till a date, `F` fill or kill.
        time_in_force: u8,
        /// `Y` displayed, `N` hidden; others are refused.
        display: u8,
        /// Inter-market sweep eligibility: `Y` or `N`; read and not used.
        sweep: u8,
        /// The client's own identifier, echoed and not interpreted.
        cl_ord_id: [u8; 14],
    }

    /// Cancel Order Request (§2.3): cancels an order or reduces it.
    CancelOrder = b'X', 9, Optional {
        /// UserRefNum of the order.
        user_ref: U32,
        /// Lots it shall have in total, executions included; 0 cancels all that is open.
        quantity: U32,
    }

    /// Modify Order Request (§2.4): side or quantity in place.
    ModifyOrder = b'M', 10, Optional {
        /// UserRefNum of the order.
        user_ref: U32,
        /// Side of the order from now on; the codes are those of Enter Order.
        side: u8,
        /// New quantity in total, executions included.
        quantity: U32,
    }

    /// Mass Cancel Request (§2.5): cancels the account's orders in one instrument or in all.
    MassCancel = b'C', 17, Optional {
        /// UserRefNum of the request.
        user_ref: U32,
        /// Identifier of the firm, which the exchange neither reads nor fills in.
        firm: [u8; 4],
        /// Symbol, or blank for all.
        symbol: [u8; 8],
    }

    /// Disable Order Entry Request (§2.6): no more orders for a firm.
    DisableOrderEntry = b'D', 9, Optional {
        /// UserRefNum of the request.
        user_ref: U32,
        /// Identifier of the firm, which the exchange neither reads nor fills in.
        firm: [u8; 4],
    }

    /// Enable Order Entry Request (§2.7): orders for a firm again.
    EnableOrderEntry = b'E', 9, Optional {
        /// UserRefNum of the request.
        user_ref: U32,
        /// Identifier of the firm, which the exchange neither reads nor fills in.
        firm: [u8; 4],
    }

    /// Account Query Request (§2.8): asks for the next UserRefNum.
    AccountQuery = b'Q', 1, Optional {}
}

messages! {
    /// A message from the exchange (§3).
    Outbound by TryFromBytes, try_ref_from_bytes;

    /// System Event (§3.1): the trading day begins or ends.
    SystemEvent = b'S', 10, Nothing {
        /// Time of the event, in ns since midnight.
        time: U64,
        /// `S` start of day, `E` end of day.
        event: u8,
    }

    /// Order Accepted (§3.2): the answer to an Enter Order that was taken.
    OrderAccepted = b'A', 62, Required {
        /// Time of the event, in ns since midnight.
        time: U64,
        /// UserRefNum of the order.
        user_ref: U32,
        /// Side of the order, as entered.
        side: Side,
        /// Quantity accepted, lots.
        quantity: U32,
        /// Symbol of the instrument.
        symbol: [u8; 8],
        /// Accepted limit price, or the value that means "market".
        price: U64,
        /// Accepted time in force; the codes are those of Enter Order.
        time_in_force: u8,
        /// `Y` displayed, `N` hidden.
        display: u8,
        /// Public reference of the order.
        order_ref: U64,
        /// Capacity: always `O` (other), whatever was entered.
        capacity: u8,
        /// Inter-market sweep eligibility: always `N`, whatever was entered.
        sweep: u8,
        /// Cross type: `N` continuous market, `O` opening auction, `C` closing auction.
        cross_type: u8,
        /// `L` live, `D` dead on arrival.
        order_state: u8,
        /// The client's own identifier, echoed and not interpreted.
        cl_ord_id: [u8; 14],
    }

    /// Order Replaced (§3.3): the answer to a Replace Order that was taken.
    OrderReplaced = b'U', 66, Required {
        /// Time of the event, in ns since midnight.
        time: U64,
        /// UserRefNum of the order that was replaced.
        orig_user_ref: U32,
        /// UserRefNum of the replacement.
        user_ref: U32,
        /// Side of the order.
        side: Side,
        /// Open quantity, lots.
        quantity: U32,
        /// Symbol of the instrument.
        symbol: [u8; 8],
        /// Accepted limit price, or the value that means "market".
        price: U64,
        /// Accepted time in force; the codes are those of Enter Order.
        time_in_force: u8,
        /// `Y` displayed, `N` hidden.
        display: u8,
        /// Public reference of the replacement.
        order_ref: U64,
        /// Capacity: always `O` (other), whatever was entered.
        capacity: u8,
        /// Inter-market sweep eligibility: always `N`, whatever was entered.
        sweep: u8,
        /// Cross type: `N` continuous market, `O` opening auction, `C` closing auction.
        cross_type: u8,
        /// `L` live, `D` dead on arrival.
        order_state: u8,
        /// The client's own identifier, echoed and not interpreted.
        cl_ord_id: [u8; 14],
    }

    /// Order Canceled (§3.4): open quantity is gone without trading.
    OrderCanceled = b'C', 18, Optional {
        /// Time of the event, in ns since midnight.
        time: U64,
        /// UserRefNum of the order.
        user_ref: U32,
        /// Cancelled quantity, lots.
        quantity: U32,
        /// Reason code, as in the tables of the specification.
        reason: u8,
    }

    /// AIQ Canceled (§3.5): self-match prevention.
    AiqCanceled = b'D', 32, Optional {
        /// Time of the event, in ns since midnight.
        time: U64,
        /// UserRefNum of the order.
        user_ref: U32,
        /// Cancelled quantity, lots.
        quantity: U32,
        /// Reason: always `Q`.
        reason: u8,
        /// Lots that would have traded.
        prevented: U32,
        /// Price they would have traded at.
        price: U64,
        /// Liquidity flag they would have had.
        liquidity: u8,
        /// Strategy of self-match prevention that was applied.
        strategy: u8,
    }

    /// Order Executed (§3.6): part or all of an order traded.
    OrderExecuted = b'E', 34, Required {
        /// Time of the event, in ns since midnight.
        time: U64,
        /// UserRefNum of the order.
        user_ref: U32,
        /// Quantity that traded, lots.
        quantity: U32,
        /// Price of the trade, in 1/10000 of the quote currency.
        price: U64,
        /// Liquidity flag: `A`, `J` and `k` added (displayed, hidden, pegged to the middle), `R`
        /// removed, `O`, `C`, `H` and `I` traded in an opening, closing, resuming or intraday
        /// cross.
        liquidity: u8,
        /// Match number of the trade.
        match_number: U64,
    }

    /// Broken Trade (§3.7): a trade is void, or has been corrected.
    BrokenTrade = b'B', 36, Optional {
        /// Time of the event, in ns since midnight.
        time: U64,
        /// UserRefNum of the order.
        user_ref: U32,
        /// Match number of the trade.
        match_number: U64,
        /// Reason code, as in the tables of the specification.
        reason: u8,
        /// The client's own identifier, echoed and not interpreted.
        cl_ord_id: [u8; 14],
    }

    /// Rejected (§3.8): an order or a replace was refused.
    OrderRejected = b'J', 29, Optional {
        /// Time of the event, in ns since midnight.
        time: U64,
        /// UserRefNum of the request.
        user_ref: U32,
        /// Reason code, as in the tables of the specification.
        reason: U16,
        /// The client's own identifier, echoed and not interpreted.
        cl_ord_id: [u8; 14],
    }

    /// Cancel Pending (§3.9): a cancel is taken and not carried out yet.
    CancelPending = b'P', 13, Optional {
        /// Time of the event, in ns since midnight.
        time: U64,
        /// UserRefNum of the order.
        user_ref: U32,
    }

    /// Cancel Reject (§3.10): a cancel named no open order.
    CancelReject = b'I', 13, Optional {
        /// Time of the event, in ns since midnight.
        time: U64,
        /// UserRefNum of the order.
        user_ref: U32,
    }

    /// Order Priority Update (§3.11): an order has another place in the queue.
    PriorityUpdate = b'T', 30, Optional {
        /// Time of the event, in ns since midnight.
        time: U64,
        /// UserRefNum of the order.
        user_ref: U32,
        /// Price of the order, in 1/10000 of the quote currency.
        price: U64,
        /// Display of the order, `Y` when displayed.
        display: u8,
        /// Public reference of the order from now on.
        order_ref: U64,
    }

    /// Order Modified (§3.12): the answer to a Modify Order that was taken.
    OrderModified = b'M', 18, Optional {
        /// Time of the event, in ns since midnight.
        time: U64,
        /// UserRefNum of the order.
        user_ref: U32,
        /// Side from now on.
        side: Side,
        /// Open quantity, lots.
        quantity: U32,
    }

    /// Order Restated (§3.13): an order changed without a request.
    OrderRestated = b'R', 14, Required {
        /// Time of the event, in ns since midnight.
        time: U64,
        /// UserRefNum of the order.
        user_ref: U32,
        /// Reason: `R` refresh of display, `P` another price, `S` (ours) a stop became active.
        reason: u8,
    }

    /// Mass Cancel Response (§3.14): the answer to a Mass Cancel.
    MassCancelResponse = b'X', 25, Optional {
        /// Time of the event, in ns since midnight.
        time: U64,
        /// UserRefNum of the request.
        user_ref: U32,
        /// Identifier of the firm, which the exchange neither reads nor fills in.
        firm: [u8; 4],
        /// Symbol, or blank for all.
        symbol: [u8; 8],
    }

    /// Disable Order Entry Response (§3.15): the firm's orders are refused from now on.
    DisableOrderEntryResponse = b'G', 17, Optional {
        /// Time of the event, in ns since midnight.
        time: U64,
        /// UserRefNum of the request.
        user_ref: U32,
        /// Identifier of the firm, which the exchange neither reads nor fills in.
        firm: [u8; 4],
    }

    /// Enable Order Entry Response (§3.16): the firm's orders are taken again.
    EnableOrderEntryResponse = b'K', 17, Optional {
        /// Time of the event, in ns since midnight.
        time: U64,
        /// UserRefNum of the request.
        user_ref: U32,
        /// Identifier of the firm, which the exchange neither reads nor fills in.
        firm: [u8; 4],
    }

    /// Account Query Response (§3.17): which UserRefNum the account may use next.
    AccountQueryResponse = b'Q', 13, Optional {
        /// Time of the event, in ns since midnight.
        time: U64,
        /// The smallest UserRefNum that will be taken.
        next_user_ref: U32,
    }
}
