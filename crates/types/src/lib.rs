//! Words every other room shares: prices, quantities, identifiers, instruments, time, the engine's
//! commands and events, and the contract of a sans-I/O node.
//!
//! Nothing here knows any other crate. All structs that travel between processes have a fixed
//! little-endian layout, checked at compile time; every limit of the system has its name in
//! [`limits`].

mod admission;
mod allotment;
mod command;
pub mod decimal;
mod digest;
mod event;
mod feed_session;
mod ids;
mod instrument;
pub mod limits;
mod matching;
mod merge;
mod moves;
mod node;
mod pack;
mod remote;
mod rng;
mod seq_window;
mod spill_store;
mod time;
mod value;

pub use admission::{Admission, AdmissionConfig, Yields};
pub use allotment::{AllotAction, AllotRecord};
pub use command::{
    Command, CommandKind, INPUT_LATE, INPUT_T_IN_CAPPED, Input, NodeAction, ORDER_HIDDEN,
    ORDER_POST_ONLY, ORDER_POST_ONLY_SLIDE, OrderType, REFUSED_MASS_CANCEL, REQUEST_SENT_AGAIN,
    SESSION_RESET, SelfTrade, Side, Source, TimeInForce,
};
pub use digest::{Digest, displayed_book};
pub use event::{
    CancelReason, CrossKind, ExecutionKind, ExecutionReport, ImbalanceSide, Liquidity, MarketEvent,
    OrderTerms, RejectReason, SystemEventCode, TradingState,
};
pub use feed_session::{FEED_SESSIONS, later_session, sessions_later};
pub use ids::{
    AccountId, ClOrdId, FeedSeq, GatewayId, Incarnation, InstrumentId, MatchNumber, NodeId,
    OrderRef, Seq, ShardId, UserRefNum,
};
pub use instrument::{Instrument, Symbol};
pub use matching::{
    Allocation, Indicative, InstrumentParam, LimitKind, NewOrder, OrderEvent, OrderFacts, Phase,
    TickTable, Trigger,
};
pub use merge::MergeRecord;
pub use moves::{MovePart, PlaceRecord};
pub use node::{
    Channel, ConnId, DatagramName, DroppedCopy, Node, Op, Outbox, Peer, Span, TRACE_ID_BITS,
    TRACE_SHARD_SHIFT, Trace, TracePoint,
};
pub use pack::{Packer, Unpacker};
pub use remote::{Address, AddressRange, Certificate, Remote};
pub use rng::SplitMix64;
pub use seq_window::{Seen, SeqWindow};
pub use spill_store::{Checked, MemorySpill, SpillStore};
pub use time::{ClockReading, Nanos, VenueClock};
pub use value::{Price, Qty};

const _: () = assert!(cfg!(target_endian = "little"), "fixed layouts assume little endian");
