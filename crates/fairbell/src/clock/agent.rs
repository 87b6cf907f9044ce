//! `fairbell clock agent`: one agent on a UDP socket, sealed when it has a key.
//!
//! The agent's free-running clock is the process's, which is CLOCK_MONOTONIC and never stepped; for
//! tests a virtual offset and drift lie on top. The host adds the seal, and takes a reading ten
//! times a second for the trace.

use crate::options::duration;
use clap::Args;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use clock::{Agent, AgentConfig};
use net::{Clock, Directory, Loop, LoopConfig, WaitStrategy};
use overlay::aes_gcm::KeySource;
use overlay::sealed_pair::SealedPair;
use serde::{Deserialize, Serialize};
use types::{Channel, ClockReading, Nanos, Node, NodeId, Outbox, Peer};

use host::clock_agent::{HostedAgent, KeptClock, Wrong};
use host::failure::Failure;

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
    pub nodes: Vec<(u16, SocketAddr)>,
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

/// `3=10.0.0.4:7400`
fn node(text: &str) -> Result<(u16, SocketAddr), String> {
    let parts = text.split_once('=');
    parts
        .and_then(|(id, addr)| Some((id.parse().ok()?, addr.parse().ok()?)))
        .ok_or_else(|| "write a number and an address, like 3=10.0.0.4:7400".to_string())
}

/// Between two lines of the trace.
const SAMPLE_NS: u64 = 100 * Nanos::MILLI;
/// Lines that may wait to be written.
const SAMPLES_WAITING: usize = 1_024;

/// A line of the trace.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Which node.
    pub node: u16,
    /// Whose clock it follows.
    pub reference: u16,
    /// The machine's monotonic clock, in ns.
    pub monotonic_ns: u64,
    /// The free-running clock, in ns since the epoch.
    pub raw_ns: u64,
    /// The disciplined clock; none before the first correction.
    pub now_ns: Option<u64>,
    /// Largest error of that, in ns.
    pub bound_ns: Option<u64>,
    /// Largest error that causality alone leaves, at the last correction, in ns.
    pub causal_ns: Option<u64>,
    /// Drift of the free-running clock against the reference, in parts of 10^9.
    pub drift_ppb: Option<f64>,
    /// Corrections followed so far.
    pub corrections: u64,
    /// Pairs taken so far.
    pub pairs_pure: u64,
    /// Pairs refused so far.
    pub pairs_impure: u64,
    /// Pairs left out because the machine was busy.
    pub pairs_skipped: u64,
    /// Datagrams sent so far.
    pub datagrams_sent: u64,
    /// Datagrams refused so far, unauthentic ones included.
    pub refused: u64,
    /// Corrections so far that differed from the one in force by more than the bounds of both.
    #[serde(default)]
    pub beyond_bound: u64,
    /// The difference of such a one that is not followed yet, in ns.
    #[serde(default)]
    pub doubted_ns: Option<u64>,
    /// Of the reference: upper limit of the oscillators' wander, in parts of 10^9.
    #[serde(default)]
    pub wander_ppb: Option<f64>,
    /// Of the reference: solutions so far at which residuals refuted `--wander-max-ppb`.
    #[serde(default)]
    pub wander_beyond: u64,
}

/// The agent as the loop sees it, with a sample of it ten times a second.
struct Host {
    agent: HostedAgent,
    samples: SyncSender<Sample>,
    sample_at: Nanos,
    clock: Clock,
    id: (u16, u16),
}

impl Host {
    fn sample(&mut self, now: Nanos) {
        let (kept, id, monotonic_ns) = (self.agent.0, self.id, self.clock.monotonic(now));
        let (raw, refused) = (kept.raw(now), kept.refused());
        let sample = kept.with(|agent| sample(agent, (monotonic_ns, raw), id, refused));
        // A writer that is behind loses lines, not the clock.
        let _ = self.samples.try_send(sample);
    }
}

/// A line of the trace at a time of CLOCK_MONOTONIC, when the free-running clock read `raw`.
fn sample(
    agent: &mut Agent,
    (monotonic_ns, raw): (u64, Nanos),
    (node, reference): (u16, u16),
    refused: u64,
) -> Sample {
    let reading = agent.reading(raw);
    let (stats, solved) = (agent.stats(), agent.solver_stats());
    let correction = agent.correction();
    Sample {
        node,
        reference,
        monotonic_ns,
        raw_ns: raw.0,
        now_ns: reading.map(|reading| reading.now.0),
        bound_ns: reading.map(|reading| reading.bound_ns),
        causal_ns: correction.map(|correction| correction.causal_ns),
        drift_ppb: correction.map(|correction| correction.drift_ppt as f64 / 1e3),
        corrections: stats.corrections,
        pairs_pure: stats.pairs_pure,
        pairs_impure: stats.pairs_impure,
        pairs_skipped: stats.pairs_skipped,
        datagrams_sent: stats.datagrams_sent,
        refused: stats.refused + refused,
        beyond_bound: agent.discipline().beyond(),
        doubted_ns: agent.discipline().doubted_ns(),
        wander_ppb: solved.map(|solved| solved.wander_ppb),
        wander_beyond: solved.map_or(0, |solved| solved.wander_alarms),
    }
}

impl Node for Host {
    fn handle_datagram(
        &mut self,
        now: ClockReading,
        channel: Channel,
        from: Peer,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        self.agent.handle_datagram(now, channel, from, bytes, out);
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        if now.now >= self.sample_at {
            self.sample(now.now);
            self.sample_at = now.now.after(SAMPLE_NS);
        }
        self.agent.handle_timeout(now, out);
    }

    fn next_timeout(&self) -> Nanos {
        self.agent.next_timeout().min(self.sample_at)
    }
}

/// Hosts the agent until the time is over or Ctrl-C.
pub fn run(args: &AgentArgs) -> Result<(), Failure> {
    let io = |error: std::io::Error| Failure::Run(format!("clock agent: {error}"));
    let nodes: Vec<(NodeId, SocketAddr)> =
        args.nodes.iter().map(|(id, addr)| (NodeId(*id), *addr)).collect();
    let me = NodeId(args.id);
    let own = nodes.iter().find(|(id, _)| *id == me).map(|(_, addr)| *addr);
    let Some(own) = own.filter(|_| nodes.iter().any(|(id, _)| id.0 == args.reference)) else {
        return Err(Failure::Usage("--id and --reference must be among --node".to_string()));
    };
    let directory =
        Directory::new(&nodes).map_err(|error| Failure::Usage(format!("--node: {error}")))?;
    let clock = Clock::start(0);
    let (samples, lines) = sync_channel(SAMPLES_WAITING);
    let host = host(args, &nodes, &clock, samples)?;
    let socket = UdpSocket::bind(own).map_err(io)?;
    socket.set_nonblocking(true).map_err(io)?;
    let config = LoopConfig { wait: WaitStrategy::default(), ..LoopConfig::default() };
    let mut agent_loop = Loop::new(clock, Arc::new(directory), config).map_err(io)?;
    agent_loop.add_node(me, host, vec![(Channel::OVERLAY, socket)], []).map_err(io)?;
    let stop = crate::options::interrupted()?;
    let flag = Arc::clone(&stop);
    let looping = std::thread::spawn(move || {
        agent_loop.run(&flag, Duration::from_secs(1), |_, _| {}).map(|_| ())
    });
    let written = write(args, &lines, &stop);
    stop.store(true, Ordering::Relaxed);
    let ended = looping.join().map_err(|_| Failure::Run("the agent's loop panicked".into()))?;
    ended.map_err(io)?;
    written.map_err(io)
}

fn host(
    args: &AgentArgs,
    nodes: &[(NodeId, SocketAddr)],
    clock: &Clock,
    samples: SyncSender<Sample>,
) -> Result<Host, Failure> {
    let members: Vec<NodeId> = nodes.iter().map(|(id, _)| *id).collect();
    let me = NodeId(args.id);
    let mut config = AgentConfig::new(me, &members, NodeId(args.reference));
    config.per_node = args.neighbours.into();
    config.tolerance_ns = args.pure_us * Nanos::MICRO;
    config.solver.asymmetry_ns = args.asymmetry_us * Nanos::MICRO;
    config.solver.wander_max_ppb = f64::from(args.wander_max_ppb);
    config.solver.reference_bound_ns = args.reference_bound_us * Nanos::MICRO;
    let life = host::deployment::life()?;
    let guard = match &args.key_file {
        None => {
            eprintln!("no --key-file: datagrams are neither sealed nor authenticated");
            None
        }
        Some(file) => {
            let secret = secret(file)?;
            let ring = KeySource::new(&secret).mesh(me, &members);
            Some(SealedPair::new(me, &members, life, ring))
        }
    };
    let wrong = Wrong {
        origin: clock.now().0,
        offset_ns: args.virtual_offset_us * 1_000,
        drift_ppb: args.virtual_drift_ppb,
    };
    Ok(Host {
        agent: HostedAgent(KeptClock::start(config, guard, wrong)),
        samples,
        sample_at: Nanos(0),
        clock: *clock,
        id: (args.id, args.reference),
    })
}

fn secret(file: &Path) -> Result<[u8; 32], Failure> {
    let wrong = |why: &str| Failure::Usage(format!("--key-file: {}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| wrong(&error.to_string()))?;
    let digits = text.trim().as_bytes();
    let mut secret = [0; 32];
    if digits.len() != 64 {
        return Err(wrong("64 hexadecimal digits are needed"));
    }
    for (byte, pair) in secret.iter_mut().zip(digits.chunks_exact(2)) {
        let pair = std::str::from_utf8(pair).ok().and_then(|t| u8::from_str_radix(t, 16).ok());
        *byte = pair.ok_or_else(|| wrong("64 hexadecimal digits are needed"))?;
    }
    Ok(secret)
}

/// What is said of a correction beyond the bounds.
fn alarm(sample: &Sample) -> String {
    let (node, reference, count) = (sample.node, sample.reference, sample.beyond_bound);
    let what = match sample.doubted_ns {
        Some(ns) => format!(
            "differs by {ns} ns; it is followed when {} in a row agree, and the bound includes it",
            clock::discipline::CONFIRMED
        ),
        None => "is followed, as several in a row agree".to_string(),
    };
    format!(
        "alarm: node {node}: a correction of node {reference} is beyond the bounds: it {what} \
         ({count} so far)"
    )
}

/// Writes lines until the end.
fn write(args: &AgentArgs, lines: &Receiver<Sample>, stop: &AtomicBool) -> std::io::Result<()> {
    let mut trace = match &args.trace {
        Some(path) => Some(BufWriter::new(File::create(path)?)),
        None => None,
    };
    let begun = Instant::now();
    let mut last = None;
    while !stop.load(Ordering::Relaxed) && args.duration.is_none_or(|d| begun.elapsed() < d) {
        let Ok(sample) = lines.recv_timeout(Duration::from_millis(200)) else { continue };
        let line = serde_json::to_string(&sample)?;
        if sample.beyond_bound > last.as_ref().map_or(0, |last: &Sample| last.beyond_bound) {
            eprintln!("{}", alarm(&sample));
        }
        if sample.wander_beyond > 0 && last.as_ref().is_none_or(|last| last.wander_beyond == 0) {
            eprintln!(
                "alarm: oscillators wander by {:.0} ppb within a second, more than \
                 --wander-max-ppb {}: bounds are widened by what residuals say",
                sample.wander_ppb.unwrap_or_default(),
                args.wander_max_ppb
            );
        }
        if let Some(trace) = &mut trace {
            writeln!(trace, "{line}")?;
        }
        if let Some(path) = &args.status {
            // Renamed into place, so that nobody reads half a line.
            let fresh = path.with_extension("new");
            std::fs::write(&fresh, &line)?;
            std::fs::rename(&fresh, path)?;
        }
        last = Some(sample);
    }
    if let Some(trace) = &mut trace {
        trace.flush()?;
    }
    if let Some(sample) = last {
        let bound = sample.bound_ns.map_or("none".into(), |ns| format!("{} ns", ns));
        eprintln!("node {}: {} corrections, bound {bound}", sample.node, sample.corrections);
    }
    Ok(())
}
