//! Order flow as data: what a participant asks for, before any session or wire format.
//!
//! Orders are named by the *flow id* of their source (a venue's order id, or a generator's own
//! count); together with the instrument it is unique. Sessions translate it to a UserRefNum.

use types::{InstrumentId, OrderType, Price, Qty, Side, SplitMix64, TimeInForce};

use crate::special::Special;

/// Participants of the default deployment, and of the sample's mapping.
pub const PARTICIPANTS: u8 = 8;

/// One request of one participant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowMessage {
    /// Flow id of the order that is entered or cancelled; for a replace that of the new order.
    pub id: u64,
    /// Participant that makes the request, `0..participants`.
    pub participant: u8,
    /// The instrument.
    pub instrument: InstrumentId,
    /// The request.
    pub action: Action,
    /// Further terms of a new order.
    pub special: Special,
}

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Enter an order.
    New {
        /// Buy or sell.
        side: Side,
        /// Quantity, lots; fits 32 bits.
        qty: Qty,
        /// Limit price, zero for a market order; see [`Special`] for others. May exceed what the
        /// exchange accepts.
        price: Price,
        /// Limit or market.
        order_type: OrderType,
        /// Reject rather than trade on entry.
        post_only: bool,
        /// Time in force.
        time_in_force: TimeInForce,
    },
    /// Cancel all that is open of the order.
    Cancel,
    /// Replace an order of the same participant by the one named in the message.
    Replace {
        /// Flow id of the order that goes.
        orig: u64,
        /// Lots in total, including what the old order has traded.
        qty: Qty,
        /// Limit price of the new order.
        price: Price,
    },
}

/// Participant that plays an order of the sample: `splitmix64(id) mod participants`.
pub fn participant_of(id: u64, participants: u8) -> u8 {
    (SplitMix64::mix(id) % u64::from(participants.max(1))) as u8
}
