//! The engine's only inputs: commands, and the log record that wraps each with its source and times.
//!
//! Layouts are fixed so that the same bytes travel from gateway to root and lie in the log.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, TryFromBytes};

use crate::{
    AccountId, ClOrdId, GatewayId, Incarnation, InstrumentId, Nanos, Price, Qty, Seq, ShardId,
    UserRefNum,
};

/// Buy or sell.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, IntoBytes, TryFromBytes, KnownLayout, Immutable,
)]
#[repr(u8)]
pub enum Side {
    /// Bid.
    Buy = 0,
    /// Ask.
    Sell = 1,
}

impl Side {
    /// The side it trades against.
    pub fn opposite(self) -> Side {
        match self {
            Side::Buy => Side::Sell,
            Side::Sell => Side::Buy,
        }
    }
}

/// How an order is priced.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, IntoBytes, TryFromBytes, KnownLayout, Immutable,
)]
#[repr(u8)]
pub enum OrderType {
    /// At the order's price or better.
    Limit = 0,
    /// At any price; what does not trade at once is cancelled.
    Market = 1,
}

/// How long an order lives.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, IntoBytes, TryFromBytes, KnownLayout, Immutable,
)]
#[repr(u8)]
pub enum TimeInForce {
    /// Until the end of the trading day.
    Day = 0,
    /// Until cancelled, across days.
    GoodTillCancelled = 1,
    /// What does not trade at once is cancelled.
    ImmediateOrCancel = 2,
}

/// What a command asks for. Fields of [`Command`] that a kind does not name are zero.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, IntoBytes, TryFromBytes, KnownLayout, Immutable,
)]
#[repr(u8)]
pub enum CommandKind {
    /// A new order: account, instrument, side, order_type, time_in_force, flags, qty, price,
    /// user_ref, cl_ord_id.
    NewOrder = 1,
    /// Reduce an order to `qty` lots in total including what has traded (0: cancel all that is
    /// open): account, user_ref of the order.
    Cancel = 2,
    /// Replace: account, orig_user_ref, user_ref, qty (in total, including what has traded),
    /// price, time_in_force, flags, cl_ord_id. Same price and no more open quantity keeps priority.
    Replace = 3,
    /// A gateway came up: `user_ref` carries its boot nonce; grants it an incarnation. The same
    /// nonce again gets the same incarnation.
    GrantIncarnation = 4,
    /// The trading day begins: system events, directory, trading states; orders are taken after it.
    StartOfDay = 5,
    /// The trading day ends: day orders are cancelled, closing system events.
    EndOfDay = 6,
}

/// [`Command::flags`]: the order must rest; it is rejected if it would trade on entry.
pub const ORDER_POST_ONLY: u8 = 1;

/// One request to the engine, 64 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, IntoBytes, TryFromBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Command {
    /// What is asked.
    pub kind: CommandKind,
    /// Side of a new order.
    pub side: Side,
    /// Limit or market.
    pub order_type: OrderType,
    /// Life of a new or replacing order.
    pub time_in_force: TimeInForce,
    /// [`ORDER_POST_ONLY`]; other bits must be zero.
    pub flags: u8,
    /// Zero.
    pub reserved: [u8; 3],
    /// Who asks.
    pub account: AccountId,
    /// On what.
    pub instrument: InstrumentId,
    /// The request's own number (new order, replace) or that of the order meant (cancel).
    pub user_ref: UserRefNum,
    /// The order a replace is about.
    pub orig_user_ref: UserRefNum,
    /// Zero.
    pub reserved2: [u8; 4],
    /// Lots.
    pub qty: Qty,
    /// Limit price; zero for market orders.
    pub price: Price,
    /// The participant's own identifier.
    pub cl_ord_id: ClOrdId,
    /// Zero.
    pub reserved3: [u8; 10],
}

const _: () = assert!(size_of::<Command>() == 64);

impl Command {
    /// A command of `kind` with every other field zero; set what the kind names.
    pub fn new(kind: CommandKind) -> Command {
        Command {
            kind,
            side: Side::Buy,
            order_type: OrderType::Limit,
            time_in_force: TimeInForce::Day,
            flags: 0,
            reserved: [0; 3],
            account: AccountId(0),
            instrument: InstrumentId(0),
            user_ref: UserRefNum(0),
            orig_user_ref: UserRefNum(0),
            reserved2: [0; 4],
            qty: Qty(0),
            price: Price(0),
            cl_ord_id: ClOrdId::default(),
            reserved3: [0; 10],
        }
    }

    /// Whether the order may only rest.
    pub fn post_only(&self) -> bool {
        self.flags & ORDER_POST_ONLY != 0
    }
}

/// Where an input came from: the transport key of exactly-once delivery (corner 1).
///
/// Gateway 0 is the exchange itself; its inputs have incarnation 0 and are never duplicates.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct Source {
    /// The gateway.
    pub gateway: GatewayId,
    /// The shard the sequence numbers belong to.
    pub shard: ShardId,
    /// The gateway's life.
    pub incarnation: Incarnation,
    /// Number of this input within (gateway, incarnation, shard), dense from 1.
    pub seq: u64,
}

/// [`Input::flags`]: reached the sequencer after an input with a later `t_in` had been released.
pub const INPUT_LATE: u64 = 1;
/// [`Input::flags`]: `t_in` was further from the root's clock than the cap; it was ordered by the
/// nearest time within the cap (corner 5). `Input::t_in` is what the gateway claimed.
pub const INPUT_T_IN_CAPPED: u64 = 2;

/// One record of the input log, the only truth of a shard (112 bytes).
#[derive(Clone, Copy, PartialEq, Eq, Debug, IntoBytes, TryFromBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Input {
    /// Position in the log, dense from 1.
    pub seq: Seq,
    /// When the gateway received the request (its clock); audit and fairness only.
    pub t_in: Nanos,
    /// Engine time: monotone over the log; the only time the engine uses.
    pub t_seq: Nanos,
    /// Transport key.
    pub source: Source,
    /// [`INPUT_LATE`], [`INPUT_T_IN_CAPPED`].
    pub flags: u64,
    /// The request.
    pub command: Command,
}

const _: () = assert!(size_of::<Source>() == 16 && size_of::<Input>() == 112);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_with_an_unknown_discriminant_are_not_a_command() {
        let mut bytes = [0u8; 64];
        bytes.copy_from_slice(Command::new(CommandKind::Cancel).as_bytes());
        assert!(Command::try_read_from_bytes(&bytes).is_ok());
        bytes[0] = 99;
        assert!(Command::try_read_from_bytes(&bytes).is_err());
        assert!(Command::try_read_from_bytes(&bytes[..63]).is_err());
    }
}
