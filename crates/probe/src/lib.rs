//! Probing agents and their controller, as sans-I/O nodes.
//!
//! An [`Agent`] runs on every VM of a pool and knows three jobs, PARENT, MCAST and LEMON; nothing
//! else can be asked of it and nothing is ever executed. A [`Controller`] carries an experiment
//! out: it gives each job to a leader, which tells the members, probes with them, gathers what they
//! heard and reports once. Control runs over TCP, authenticated both ways with a shared key ([`link`]);
//! probes are small UDP datagrams with a keyed tag ([`packet`]). Delays are differences of two
//! machines' clocks, so those must be synchronised.
//!
//! Whoever is silent is reported so, within a bounded time: members by the leader, leaders by the
//! controller. The contract is [`types::Node`]'s.

pub mod agent;
pub mod controller;
mod job;
mod leading;
pub mod link;
pub mod message;
pub mod packet;

pub use agent::{Agent, AgentCounters, Injection};
pub use controller::Controller;
pub use link::{Key, KeyError, Link, LinkError, Nonces, entropy};
