//! The fair overlay: market data down a hedged proxy tree, orders up it, everything end to end.
//!
//! Sans-I/O: nothing here knows sockets, threads, clocks, or what an order means.

pub mod all_reduce;
pub mod answers;
pub mod control;
pub mod delay;
pub mod detour;
pub mod duplicate_filter;
pub mod egress;
pub mod estimator;
mod feed_trail;
pub mod frame;
pub mod gaps;
pub mod guard;
pub mod hedger;
pub mod hedging;
pub mod hold;
pub mod lift;
pub mod lives;
pub mod membership;
pub mod mold;
pub mod proxy;
pub mod publisher;
pub mod receiver;
pub mod repair_cache;
pub mod resend_budget;
pub mod retransmission;
pub mod samples;
mod seat;
pub mod seating;
pub mod send_order;
pub mod shape;
pub mod skip;
pub mod tap;
pub mod topology;
pub mod trips;

#[cfg(feature = "aead")]
pub mod aes_gcm;
mod emit;
pub mod ingress;
pub mod order_ack;
pub mod order_facts;
pub mod order_policy;
pub mod pacing;
pub mod pair_guard;
pub mod parity;
pub mod payload;
pub mod private_receiver;
pub mod private_sender;
mod record_store;
pub mod round_trip;
pub mod seal;
pub mod sequencer;
pub mod uplink;
