//! The engine's only inputs: commands, and the log record that wraps each with its source and times.
//!
//! Layouts are fixed so that the same bytes travel from gateway to root and lie in the log.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, TryFromBytes};

use crate::{
    AccountId, ClOrdId, GatewayId, Incarnation, InstrumentId, Nanos, OrderTerms, Price, Qty, Seq,
    ShardId, UserRefNum,
};

/// Side of an order: which way its owner trades.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, IntoBytes, TryFromBytes, KnownLayout, Immutable,
)]
#[repr(u8)]
pub enum Side {
    /// The order buys (a bid).
    Buy = 0,
    /// The order sells (an ask).
    Sell = 1,
}

impl Side {
    /// The other side: the one that orders of this side trade against.
    pub fn opposite(self) -> Side {
        match self {
            Side::Buy => Side::Sell,
            Side::Sell => Side::Buy,
        }
    }
}

/// How an order is priced and when it becomes active; docs/matching.md has the rules of each.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, IntoBytes, TryFromBytes, KnownLayout, Immutable,
)]
#[repr(u8)]
pub enum OrderType {
    /// At the order's price or better.
    Limit = 0,
    /// At any price; what does not trade at once is cancelled.
    Market = 1,
    /// At any price; what does not trade at once rests at the price of its last trade.
    MarketToLimit = 2,
    /// Becomes a market order when the trigger price reaches `stop_price`.
    Stop = 3,
    /// Becomes a limit order when the trigger price reaches `stop_price`.
    StopLimit = 4,
    /// As [`OrderType::Stop`], with a stop price that follows the trigger price at the distance
    /// `stop_price`.
    TrailingStop = 5,
    /// Not displayed; `stop_price` away from the best displayed price of its own side.
    PegPrimary = 6,
    /// Pegged to the middle of the best displayed prices; not displayed.
    PegMid = 7,
}

/// How long an order lives.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, IntoBytes, TryFromBytes, KnownLayout, Immutable,
)]
#[repr(u8)]
pub enum TimeInForce {
    /// Open until the end of the trading day.
    Day = 0,
    /// Open until cancelled; survives the end of the trading day.
    GoodTillCancelled = 1,
    /// What does not trade at once is cancelled; in a batch auction: at the next uncrossing.
    ImmediateOrCancel = 2,
    /// Trades in full at once, or not at all.
    FillOrKill = 3,
    /// Until `expire_at`: the first input at that time or later ends it.
    GoodTillDate = 4,
    /// For the opening auction only.
    AtTheOpen = 5,
    /// For the closing auction only.
    AtTheClose = 6,
}

/// What happens instead of a trade between two orders of one self-trade group. The order that
/// comes in decides.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, IntoBytes, TryFromBytes, KnownLayout, Immutable,
)]
#[repr(u8)]
pub enum SelfTrade {
    /// The two orders trade as if their owners were strangers.
    Allow = 0,
    /// The incoming order's remainder is cancelled.
    CancelNewest = 1,
    /// The resting order is cancelled.
    CancelOldest = 2,
    /// The remainder of the incoming order and the resting order are both cancelled.
    CancelBoth = 3,
    /// The lots that would have traded are cancelled on both sides.
    Decrement = 4,
}

/// What a command asks for. Fields of [`Command`] that a kind does not name are zero.
///
/// From [`CommandKind::StartOfDay`] on, commands come from the exchange itself (gateway 0) or its
/// operators, except a participant's own [`CommandKind::MassCancel`] and
/// [`CommandKind::SessionSlot`]; `cl_ord_id` then names the operator or schedule, for the record.
/// In a venue of several shards a command for all of them has a number in `session_seq`, dense from
/// 1: each shard carries it out once, in that order, and refuses one that comes too early.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, IntoBytes, TryFromBytes, KnownLayout, Immutable,
)]
#[repr(u8)]
pub enum CommandKind {
    /// A new order: account, instrument, user_ref, cl_ord_id, and all terms of an order.
    NewOrder = 1,
    /// Reduce an order to `qty` lots in total including what has traded (0: cancel all that is
    /// open): account, user_ref of the order, cl_ord_id of the request (blank: none).
    Cancel = 2,
    /// Replace: account, orig_user_ref, user_ref, qty (in total, including what has traded),
    /// cl_ord_id, and all terms but instrument, side and order type. Same price and no more open
    /// quantity keeps priority.
    Replace = 3,
    /// A gateway came up: `user_ref` carries its boot nonce; grants it an incarnation. The same
    /// nonce again gets the same incarnation.
    GrantIncarnation = 4,
    /// The trading day begins: system events, directory, trading states. `param` 1: the phases of
    /// the instruments are left to [`CommandKind::SetPhase`]; 0: continuous trading at once.
    StartOfDay = 5,
    /// The trading day ends: auction if in a call, day orders are cancelled, closing system events.
    /// `param` 1: the next day begins at once, with the phases as they are (a venue that never
    /// closes).
    EndOfDay = 6,
    /// Cancels all orders of account (0: every one), instrument (0: every one), side (`param` 0:
    /// both, 1: buy, 2: sell) and session (`orig_user_ref`: gateway number, 0: every one). From a
    /// participant: its own account and a `user_ref` (0: from its gateway, nobody is answered).
    /// `reserved` 1: because its session is gone; 2: of several shards that got it another one answers,
    /// the account's home, and this one only carries it out; [`REQUEST_SENT_AGAIN`] for one instrument.
    MassCancel = 7,
    /// Phase of an instrument (0: of all) from now on: `param` is a [`crate::Phase`].
    SetPhase = 8,
    /// Ends an interval of a batch auction: instrument (0: all in batch phase).
    Uncross = 9,
    /// Publishes indicative price and imbalance: instrument (0: all in a call).
    PublishIndicative = 10,
    /// Carries its time alone. Every input's time ends the orders whose `expire_at` it has reached;
    /// the root logs this kind when no other input comes.
    ExpireOrders = 11,
    /// Sets a limit of an account: account (0: the default of all), `param` a
    /// [`crate::LimitKind`], `qty` the value ([`u64::MAX`]: none).
    SetLimit = 12,
    /// Kill switch: account (0: exchange-wide); `param` 1: cancel everything and refuse new orders,
    /// 0: take orders again.
    Kill = 13,
    /// Sets a parameter of an instrument: `param` a [`crate::InstrumentParam`], value in `price` or
    /// `qty`.
    SetInstrument = 14,
    /// Breaks a trade: `qty` is its match number.
    BustTrade = 15,
    /// Corrects a trade: `qty` its match number, `price` the right price, `min_qty` the right lots.
    CorrectTrade = 16,
    /// An instrument leaves this shard; its state is what [`CommandKind::AttachInstrument`] of the
    /// other shard takes.
    DetachInstrument = 17,
    /// An instrument joins this shard from a staged snapshot whose digest is `qty`.
    AttachInstrument = 18,
    /// A gateway wants a place in account's private stream for a message of its own (a FIX session
    /// message takes a number): `session_seq` the last one received that is dealt with, `qty` the
    /// gateway's ticket, `flags` 0 or [`SESSION_RESET`]. Changes no book and prints nothing.
    SessionSlot = 19,
    /// What becomes of a node of the venue: `param` is a [`NodeAction`], `user_ref` its operand,
    /// `orig_user_ref` the node's number from 1 (0: all, where the action says so). Changes no book
    /// and prints nothing.
    SetNode = 20,
    /// Part of an account's limit moves between shards: see [`crate::AllotRecord`], which names the
    /// fields. Changes no book and prints nothing.
    Allot = 21,
    /// What another shard has streamed to an account comes next in the stream of its home: see
    /// [`crate::MergeRecord`], which names the fields. Changes no book and prints nothing.
    MergeStream = 22,
    /// A part of an instrument that moves to this shard: see [`crate::MovePart`], which names the fields. With
    /// the last part the instrument is taken up.
    MovePart = 23,
}

/// What a [`CommandKind::SetNode`] changes about a node or the tree; codes 1..=8 in
/// [`Command::param`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum NodeAction {
    /// A process of the node was started: `user_ref` is its boot nonce. The node's life rises by
    /// one; the same nonce again changes nothing.
    Join = 1,
    /// Certificates of the node up to generation `user_ref` are refused from now on, and a new key
    /// epoch begins, so that nothing is sealed for it any more.
    Revoke = 2,
    /// The node has to end its sessions and stop (`user_ref` 1), or that order is withdrawn
    /// (`user_ref` 0).
    Drain = 3,
    /// A new key epoch begins for all nodes (number 0).
    RotateKeys = 4,
    /// From the next tree on proxy `user_ref` of the overlay stands at the place of proxy
    /// `orig_user_ref`, which is to stay away from all places; 0: nobody, it only stays away.
    ReplaceProxy = 5,
    /// The next tree has depth `orig_user_ref` and fanout `user_ref`, and everybody at the own place:
    /// who stays away is said anew.
    ShapeTree = 6,
    /// A one-time token that lets the node's machine get a certificate is good until `expire_at`: `qty` and
    /// `price` are the digest of its secret. Takes the place of an earlier one of the node.
    GrantToken = 7,
    /// A token is used up: `qty` and `price` its digest, `stop_price` and `expire_at` the digest of the
    /// public key that it is used for. The node's next generation is taken for that key's certificate.
    UseToken = 8,
}

impl NodeAction {
    /// The action with the code `param` ([`Command::param`]); `None` for a code outside 1..=8.
    pub fn of(param: u8) -> Option<NodeAction> {
        use NodeAction::{
            Drain, GrantToken, Join, ReplaceProxy, Revoke, RotateKeys, ShapeTree, UseToken,
        };
        let all = [Join, Revoke, Drain, RotateKeys, ReplaceProxy, ShapeTree, GrantToken, UseToken];
        all.into_iter().find(|action| *action as u8 == param)
    }
}

/// [`Command::flags`] of a [`CommandKind::SessionSlot`]: sequence numbers begin again with it. Not
/// done for a slot whose `session_seq` is not the largest of the account so far.
pub const SESSION_RESET: u8 = 1;

/// [`crate::ExecutionReport::flags`] of a [`crate::ExecutionKind::CancelRejected`]: what is refused
/// is a mass cancel. Without it the flags of such a report are zero.
pub const REFUSED_MASS_CANCEL: u8 = 1;

/// [`Command::reserved`] of a participant's request that a gateway sends to the shard that an instrument has
/// moved to, because it has no answer of the old one. The time when it came to the gateway stays.
pub const REQUEST_SENT_AGAIN: u8 = 3;

/// [`Command::flags`]: the order must rest; it is rejected if it would trade on entry.
pub const ORDER_POST_ONLY: u8 = 1;
/// [`Command::flags`]: the order must rest; if it would trade on entry it is priced one tick away
/// from the other side instead.
pub const ORDER_POST_ONLY_SLIDE: u8 = 2;
/// [`Command::flags`]: nothing of the order is displayed.
pub const ORDER_HIDDEN: u8 = 4;

/// One request to the engine, 80 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, IntoBytes, TryFromBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Command {
    /// What the command asks for; decides which of the other fields are used.
    pub kind: CommandKind,
    /// Side of a new order.
    pub side: Side,
    /// Type of the order: how its price is given.
    pub order_type: OrderType,
    /// How long a new or replacing order lives.
    pub time_in_force: TimeInForce,
    /// [`ORDER_POST_ONLY`], [`ORDER_POST_ONLY_SLIDE`], [`ORDER_HIDDEN`]; other bits must be zero.
    pub flags: u8,
    /// Self-trade prevention of this order.
    pub self_trade: SelfTrade,
    /// Parameter whose meaning depends on `kind` (see [`CommandKind`]); otherwise zero.
    pub param: u8,
    /// Zero, unless the kind says otherwise.
    pub reserved: u8,
    /// Account that makes the request, or that a command of the exchange is about; 0: none, or all
    /// where the kind says so.
    pub account: AccountId,
    /// Instrument that the request is about; 0: none, or all instruments where the kind says so.
    pub instrument: InstrumentId,
    /// The request's own number (new order, replace) or that of the order meant (cancel).
    pub user_ref: UserRefNum,
    /// Participant's number of the order that a replace changes; other kinds say what it holds.
    pub orig_user_ref: UserRefNum,
    /// Lots displayed at a time; 0: all of them.
    pub display_qty: u32,
    /// Quantity, lots (0..=[`crate::limits::QTY_MAX`] in an order); other kinds say what it holds.
    pub qty: Qty,
    /// Limit price; zero for orders without one.
    pub price: Price,
    /// Stop price, distance of a trailing stop or offset of a peg; otherwise zero.
    pub stop_price: Price,
    /// End of a good-till-date order; otherwise zero.
    pub expire_at: Nanos,
    /// Lots that must trade on entry, else the order is cancelled; 0: none.
    pub min_qty: u32,
    /// Number of the request among all messages that the account's numbered session (FIX) received,
    /// rising over the account's life; 0: the request belongs to no numbered session. A number that
    /// is not above the largest so far marks a repeated request.
    pub session_seq: u32,
    /// The participant's own identifier of the order or request; spaces: none.
    pub cl_ord_id: ClOrdId,
    /// Padding; zero.
    pub reserved3: [u8; 2],
}

const _: () = assert!(size_of::<Command>() == 80);

impl Command {
    /// A command of `kind` with every other field zero; set what the kind names.
    pub const fn new(kind: CommandKind) -> Command {
        Command {
            kind,
            side: Side::Buy,
            order_type: OrderType::Limit,
            time_in_force: TimeInForce::Day,
            flags: 0,
            self_trade: SelfTrade::Allow,
            param: 0,
            reserved: 0,
            account: AccountId(0),
            instrument: InstrumentId(0),
            user_ref: UserRefNum(0),
            orig_user_ref: UserRefNum(0),
            display_qty: 0,
            qty: Qty(0),
            price: Price(0),
            stop_price: Price(0),
            expire_at: Nanos(0),
            min_qty: 0,
            session_seq: 0,
            cl_ord_id: ClOrdId::BLANK,
            reserved3: [0; 2],
        }
    }

    /// Whether a gateway has sent a participant's request again: [`REQUEST_SENT_AGAIN`].
    #[inline]
    pub fn is_sent_again(&self) -> bool {
        self.reserved == REQUEST_SENT_AGAIN
    }

    /// The terms of a new or replacing order that only some order types use.
    pub fn terms(&self) -> OrderTerms {
        OrderTerms {
            display_qty: self.display_qty,
            min_qty: self.min_qty,
            stop_price: self.stop_price,
            expire_at: self.expire_at,
        }
    }

    /// Whether the order must not trade on entry: [`ORDER_POST_ONLY`] or [`ORDER_POST_ONLY_SLIDE`]
    /// is set.
    pub fn post_only(&self) -> bool {
        self.flags & (ORDER_POST_ONLY | ORDER_POST_ONLY_SLIDE) != 0
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
    /// Gateway that sent the input; 0: the exchange itself.
    pub gateway: GatewayId,
    /// Shard that the number `seq` belongs to.
    pub shard: ShardId,
    /// Incarnation of the gateway, from 1; 0 with gateway 0.
    pub incarnation: Incarnation,
    /// Number of this input within (gateway, incarnation, shard), dense from 1.
    pub seq: u64,
}

/// [`Input::flags`]: reached the sequencer after an input with a later `t_in` had been released.
pub const INPUT_LATE: u64 = 1;
/// [`Input::flags`]: `t_in` was further from the root's clock than the cap; it was ordered by the
/// nearest time within the cap (corner 5). `Input::t_in` is what the gateway claimed.
pub const INPUT_T_IN_CAPPED: u64 = 2;

/// One record of the input log, the only truth of a shard (128 bytes).
#[derive(Clone, Copy, PartialEq, Eq, Debug, IntoBytes, TryFromBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Input {
    /// Position in the log, dense from 1.
    pub seq: Seq,
    /// When the gateway received the request, on the gateway's clock. Orders are sequenced by it;
    /// the engine uses it for [`crate::LimitKind::MessageRate`] alone.
    pub t_in: Nanos,
    /// Engine time: monotone over the log; the only time the engine uses.
    pub t_seq: Nanos,
    /// Transport key of the request, by which duplicates are found.
    pub source: Source,
    /// Bits [`INPUT_LATE`] and [`INPUT_T_IN_CAPPED`]; the others are zero.
    pub flags: u64,
    /// The request itself.
    pub command: Command,
}

const _: () = assert!(size_of::<Source>() == 16 && size_of::<Input>() == 128);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_with_an_unknown_discriminant_are_not_a_command() {
        let mut bytes = [0u8; 80];
        bytes.copy_from_slice(Command::new(CommandKind::Cancel).as_bytes());
        assert!(Command::try_read_from_bytes(&bytes).is_ok());
        bytes[0] = 99;
        assert!(Command::try_read_from_bytes(&bytes).is_err());
        assert!(Command::try_read_from_bytes(&bytes[..79]).is_err());
    }
}
