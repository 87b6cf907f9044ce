//! The fair overlay: market data down a hedged proxy tree, orders up it, everything end to end.
//!
//! Sans-I/O: nothing here knows sockets, threads, clocks, or what an order means.

pub mod all_reduce;
pub mod delay;
pub mod duplicate_filter;
pub mod frame;
pub mod gaps;
pub mod hold;
pub mod mold;
pub mod proxy;
pub mod publisher;
pub mod receiver;
pub mod retransmission;
pub mod topology;

mod emit;
pub mod ingress;
pub mod order_ack;
pub mod payload;
pub mod private_receiver;
pub mod private_sender;
mod record_store;
pub mod round_trip;
pub mod sequencer;
pub mod uplink;
