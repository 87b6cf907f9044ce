//! The fair overlay: market data down a hedged proxy tree, orders up it, everything end to end.
//!
//! Sans-I/O: nothing here knows sockets, threads, clocks, or what an order means. Users name the
//! modules in the folders directly, as `overlay::topology`.

pub mod control;
mod deadline;
mod emit;
mod feed;
pub mod frame;
mod orders;
mod private;
pub mod seal;
mod tree;

pub use deadline::{all_reduce, delay, estimator, hold, samples};
pub use feed::{
    answers, duplicate_filter, feed_session, gaps, hedger, mold, parity, proxy, publisher,
    receiver, repair_cache, retransmission, skip,
};
pub use orders::{
    egress, ingress, order_ack, order_facts, pacing, payload, release_policy, resend_budget,
    round_trip, sequencer, uplink, upstream_queue,
};
pub use private::{merge as private_merge, receiver as private_receiver, sender as private_sender};
#[cfg(feature = "aead")]
pub use seal::aes_gcm;
pub use seal::{epochs, key_ring, lives, sealed_link, sealed_pair, tap};
pub use tree::{
    child_sequence, failover_routes, hedging, membership, seating, shape, topology, trips,
};
