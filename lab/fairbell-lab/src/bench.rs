//! `fairbell-lab bench`: the book, the engine, market data, the FIX codec, the planner, the journal,
//! transports, and a round trip, most of them beside a floor or a peer taken in the same run.

pub mod book;
pub mod decode;
pub mod dedup;
pub mod durability;
mod echo;
pub mod enclave;
pub mod endless;
pub mod fanout;
pub mod fix;
pub mod hop;
pub mod journal;
mod misbehaving;
pub mod opra_day;
pub mod orders;
pub mod pipeline;
pub mod plan;
pub mod recovery;
pub(crate) mod redis;
pub mod release;
pub mod rtt;
pub(crate) mod shards;
pub mod store;
pub mod strategy;
pub mod subscribers;
pub mod telemetry;
pub mod transports;
pub(crate) mod wire_to_event;
pub mod wires;

use clap::{Args, Subcommand};
use host::failure::Failure;

/// Options of `fairbell-lab bench`.
#[derive(Args, Clone, Debug)]
pub struct BenchArgs {
    /// What to measure.
    #[command(subcommand)]
    pub bench: Bench,
}

/// The benchmarks.
#[derive(Subcommand, Clone, Debug)]
pub enum Bench {
    /// The order book alone, on tapes whose trades are known
    Book(crate::bench::book::BookArgs),
    /// The engine from OUCH bytes in to ITCH and OUCH bytes out, on one thread
    Engine(crate::bench::pipeline::EngineArgs),
    /// Market data decoded from descriptions, beside a floor written by hand
    Decode(crate::bench::decode::DecodeArgs),
    /// The FIX codec on an order and a report, beside a bare scan of the bytes
    Fix(crate::bench::fix::FixArgs),
    /// LemonDrop's placement, beside scipy's FAQ when there is one
    Plan(crate::bench::plan::PlanBenchArgs),
    /// The journal's group commit, beside a bare loop of write and fdatasync
    Journal(crate::bench::journal::JournalArgs),
    /// Order to acceptance with the log in memory, on one disk and on most of three, beside floors
    Durability(crate::bench::durability::DurabilityArgs),
    /// A part of a synthetic trading day of OPRA at its own speed and ten times it
    OpraDay(crate::bench::opra_day::OpraDayArgs),
    /// Immediate-or-cancel orders through the FIX door as a scenario file has them, and how many a second until the knee
    Orders(crate::bench::orders::OrdersArgs),
    /// Round trips over every transport of the exchange
    Pingpong(crate::bench::wires::PingpongArgs),
    /// Messages in a second over every transport of the exchange
    Rate(crate::bench::wires::RateArgs),
    /// A root's memory over hundreds of millions of inputs: flat, or not
    Endless(crate::bench::endless::EndlessArgs),
    /// An engine from its journal: time against length of the log, without and with snapshots
    Recovery(crate::bench::recovery::RecoveryArgs),
    /// The post-trade store fed with a generated log, beside the engine alone
    Store(crate::bench::store::StoreBenchArgs),
    /// A participant's program in the cage, in an enclave and behind sockets; enclaves told at once and equalized
    Enclave(crate::bench::enclave::EnclaveBenchArgs),
    /// A released message to the orders it causes: in the cage, in Rust, and as a client behind sockets
    Strategy(crate::bench::strategy::StrategyBenchArgs),
    /// A released packet to 1, 8 and 64 subscribers of an edge, beside bare sends
    Subscribers(crate::bench::subscribers::SubscribersArgs),
    /// Order to acceptance over loopback TCP, alone or through the whole exchange, beside an echo
    Rtt(rtt::RttArgs),
    /// Order to acceptance with metrics and records into Redis, beside none; Redis killed and back
    Telemetry(telemetry::TelemetryArgs),
    /// Deadline to transmit stamp of a receiver on a core of its own, beside a bare loop
    Release(release::ReleaseArgs),
    /// The filter of duplicates in front of the stack: checked beside its model, and timed
    Dedup(dedup::DedupArgs),
    /// One message to many receivers: each data plane beside its bare call
    Fanout(fanout::FanoutArgs),
    /// One hop of each data plane, from the call to the receiving program
    Hop(hop::HopArgs),
    /// Gateway to engine and back over our transport, Redis lists and ZeroMQ
    Transports(crate::bench::transports::TransportsArgs),
}

/// Runs a benchmark.
///
/// # Errors
/// What goes wrong, and a bar that is missed.
pub fn run(bench: &Bench) -> Result<(), Failure> {
    match bench {
        Bench::Book(args) => book::run(args),
        Bench::Engine(args) => pipeline::run(args),
        Bench::Decode(args) => decode::run(args),
        Bench::Fix(args) => fix::run(args),
        Bench::Plan(args) => plan::run(args),
        Bench::Journal(args) => journal::run(args),
        Bench::Durability(args) => durability::run(args),
        Bench::OpraDay(args) => opra_day::run(args),
        Bench::Orders(args) => orders::run(args),
        Bench::Pingpong(args) => wires::pingpong(args),
        Bench::Rate(args) => wires::rate(args),
        Bench::Endless(args) => endless::run(args),
        Bench::Recovery(args) => recovery::run(args),
        Bench::Store(args) => store::run(args),
        Bench::Enclave(args) => enclave::run(args),
        Bench::Strategy(args) => strategy::run(args),
        Bench::Subscribers(args) => subscribers::run(args),
        Bench::Rtt(args) => rtt::run(args),
        Bench::Telemetry(args) => telemetry::run(args),
        Bench::Release(args) => release::run(args),
        Bench::Dedup(args) => dedup::run(args),
        Bench::Fanout(args) => fanout::run(args),
        Bench::Hop(args) => hop::run(args),
        Bench::Transports(args) => transports::run(args),
    }
}
