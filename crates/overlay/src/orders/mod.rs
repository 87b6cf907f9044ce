//! Orders upwards: kept until logged, paced, made unique, and put in order.

pub mod egress;
pub mod ingress;
pub mod order_ack;
pub mod order_facts;
pub mod pacing;
pub mod payload;
pub mod release_policy;
pub mod resend_budget;
pub mod round_trip;
pub mod sequencer;
pub mod uplink;
pub mod upstream_queue;
