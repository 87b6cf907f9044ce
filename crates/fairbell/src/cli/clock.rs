//! Options of the commands about clocks.

use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::duration;

/// Options of `fairbell clock`.
#[derive(Args, Clone, Debug)]
pub struct ClockArgs {
    /// What to do.
    #[command(subcommand)]
    pub clock: Clock,
}

/// What can be done about clocks.
#[derive(Subcommand, Clone, Debug)]
pub enum Clock {
    /// Synchronize a simulated cloud and judge errors and bounds by the truth
    Simulate(SimulateArgs),
    /// Keep this machine's clock with others' by probes over UDP
    Agent(AgentArgs),
    /// Which clock this machine has, and what its agent says
    Status(StatusArgs),
    /// Judge agents' traces: skew, drift, and the 100 us of RTS 25
    Report(ReportArgs),
}

/// Whose base delays differ by direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum AsymmetryOf {
    /// Each path's: one direction of each, drawn up to the largest.
    Paths,
    /// Odd nodes hear even ones later.
    Nodes,
}

/// Options of `fairbell clock simulate`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell clock simulate                          a hundred nodes, Table-1 links, 30 s\n  \
    fairbell clock simulate --nodes 100 --seed 3 --json\n  \
    fairbell clock simulate --loops off              what the network effect is worth\n  \
    fairbell clock simulate --asymmetry-us 8         base delays that differ by direction\n  \
    fairbell clock simulate --asymmetry-us 8 --asymmetry-of nodes    the bound breaks\n  \
    fairbell clock simulate --asymmetry-us 8 --asymmetry-of nodes --assume-us 8    covered\n  \
    fairbell clock simulate --wander-ppb 500         oscillators that wander far")]
pub struct SimulateArgs {
    /// Nodes, the reference included
    #[arg(long, value_name = "N", default_value_t = 100,
          value_parser = clap::value_parser!(u16).range(2..=512))]
    pub nodes: u16,
    /// Seed of clocks, delays and mesh
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,
    /// Length; errors count after the first 20 s
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30s")]
    pub duration: Duration,
    /// Links: table1, standard, gcp-like
    #[arg(long, value_name = "NAME", default_value = "table1")]
    pub profile: String,
    /// Neighbours that each node chooses
    #[arg(long, value_name = "K", default_value_t = 10,
          value_parser = clap::value_parser!(u16).range(1..=100))]
    pub neighbours: u16,
    /// Largest offset of a clock at the start, ms
    #[arg(long, value_name = "MS", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(0..=10_000))]
    pub offset_ms: u64,
    /// Largest drift, ppm
    #[arg(long, value_name = "PPM", default_value_t = 50,
          value_parser = clap::value_parser!(u64).range(0..=500))]
    pub drift_ppm: u64,
    /// Standard deviation of a drift's change within a second, ppb
    #[arg(long, value_name = "PPB", default_value_t = 20,
          value_parser = clap::value_parser!(u64).range(0..=10_000))]
    pub wander_ppb: u64,
    /// Change of a pair's spacing up to which it is pure, us
    #[arg(long, value_name = "US", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub pure_us: u64,
    /// Paths of a hundred that have a long queue, one way, in any spell of 3 s
    #[arg(long, value_name = "PERCENT", default_value_t = 0,
          value_parser = clap::value_parser!(u64).range(0..=50))]
    pub congested: u64,
    /// Largest difference of the two directions' base delays, us
    #[arg(long, value_name = "US", default_value_t = 0,
          value_parser = clap::value_parser!(u64).range(0..=1_000))]
    pub asymmetry_us: u64,
    /// Whose asymmetry: drawn for each path, or odd nodes hear everything later by all of it, which
    /// no loop shows
    #[arg(long, value_name = "paths|nodes", value_enum, default_value_t = AsymmetryOf::Paths)]
    pub asymmetry_of: AsymmetryOf,
    /// Largest wander that bounds begin with, ppb
    #[arg(long, value_name = "PPB", default_value_t = 500,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub wander_max_ppb: u32,
    /// Estimate the wander; off: --wander-max-ppb is taken for the truth
    #[arg(long, value_name = "on|off", value_enum, default_value_t = super::Switch::On)]
    pub estimate_wander: super::Switch,
    /// Asymmetry that bounds are to cover, us
    #[arg(long, value_name = "US", default_value_t = 0,
          value_parser = clap::value_parser!(u64).range(0..=1_000))]
    pub assume_us: u64,
    /// Correction over loops
    #[arg(long, value_name = "on|off", value_enum, default_value_t = super::Switch::On)]
    pub loops: super::Switch,
    /// Folder for figures
    #[arg(long, value_name = "DIR", default_value = "out/clock")]
    pub out: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Options of `fairbell clock agent`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell clock agent --id 1 --node 0=10.0.0.1:7400 --node 1=10.0.0.2:7400 --key-file key\n  \
    fairbell clock agent --id 0 --node 0=127.0.0.1:7400 --node 1=127.0.0.1:7401 --duration 30s")]
pub struct AgentArgs {
    /// This node
    #[arg(long, value_name = "ID")]
    pub id: u16,
    /// Every node of the mesh and its address, this one among them
    #[arg(long = "node", value_name = "ID=IP:PORT", value_parser = node, required = true)]
    pub nodes: Vec<(u16, SocketAddrV4)>,
    /// The node whose clock the others follow
    #[arg(long, value_name = "ID", default_value_t = 0)]
    pub reference: u16,
    /// Neighbours that each node chooses
    #[arg(long, value_name = "K", default_value_t = 10,
          value_parser = clap::value_parser!(u16).range(1..=100))]
    pub neighbours: u16,
    /// 64 hexadecimal digits that seal the datagrams; the same file everywhere
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Largest difference of the two directions' base delays, us: part of every bound
    #[arg(long, value_name = "US", default_value_t = 0,
          value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    pub asymmetry_us: u64,
    /// Largest standard deviation of a drift's change within a second, ppb: of the reference's use
    #[arg(long, value_name = "PPB", default_value_t = 500,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub wander_max_ppb: u32,
    /// The reference's own largest error against UTC, us: part of every bound
    #[arg(long, value_name = "US", default_value_t = 0,
          value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    pub reference_bound_us: u64,
    /// Change of a pair's spacing up to which it is pure, us
    #[arg(long, value_name = "US", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub pure_us: u64,
    /// Put the free-running clock wrong by so much, for tests, us
    #[arg(long, value_name = "US", default_value_t = 0, allow_hyphen_values = true,
          value_parser = clap::value_parser!(i64).range(-1_000_000_000..=1_000_000_000))]
    pub virtual_offset_us: i64,
    /// And let it drift by so much, ppb
    #[arg(long, value_name = "PPB", default_value_t = 0, allow_hyphen_values = true,
          value_parser = clap::value_parser!(i64).range(-500_000..=500_000))]
    pub virtual_drift_ppb: i64,
    /// Stop after this time [default: at Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Write a line of JSON ten times a second
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Keep the last such line here, for `fairbell clock status`
    #[arg(long, value_name = "FILE")]
    pub status: Option<PathBuf>,
}

/// Options of `fairbell clock status`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell clock status                          what the kernel has\n  \
    fairbell clock status --agent clock.json --json    and what the agent says")]
pub struct StatusArgs {
    /// The file that the agent keeps with --status
    #[arg(long, value_name = "FILE")]
    pub agent: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Options of `fairbell clock report`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell clock report a.jsonl b.jsonl c.jsonl      all agents' traces, the reference's too\n  \
    fairbell clock report out/clock/*.jsonl --same-machine --json   the truth is known")]
pub struct ReportArgs {
    /// Traces
    #[arg(value_name = "FILE", required = true)]
    pub traces: Vec<PathBuf>,
    /// All agents ran on one machine: judge readings by its one clock
    #[arg(long)]
    pub same_machine: bool,
    /// Leave out so much after each agent's first reading
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5s")]
    pub settle: Duration,
    /// Folder for figures
    #[arg(long, value_name = "DIR", default_value = "out/clock")]
    pub out: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// `3=10.0.0.4:7400`
fn node(text: &str) -> Result<(u16, SocketAddrV4), String> {
    let parts = text.split_once('=');
    parts
        .and_then(|(id, addr)| Some((id.parse().ok()?, addr.parse().ok()?)))
        .ok_or_else(|| "write a number and an address, like 3=10.0.0.4:7400".to_string())
}
