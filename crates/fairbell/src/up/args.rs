//! Options of `fairbell up`, and the configuration that they make.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::options::{Switch, duration};
use host::config::{Config, Loaded};
use host::failure::Failure;

/// Options of `fairbell up`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell up --once                            the sample once, report, exit\n  \
    fairbell up --duration 30s --rate 10000 --json    one JSON document on standard output\n  \
    fairbell up --fail-proxy 2 --after 10s --hedge 0  a proxy dies; repairs and re-sends work\n  \
    fairbell up --sequencer off                   orders in the order of their arrival\n  \
    fairbell up --receivers 27 --depth 3          a deeper tree\n  \
    fairbell up --duration 20s --late-listener 8s     one joins by a snapshot of the books\n  \
    fairbell up --replicas 3 --duration 10s --rate 200   three replicas of the root, one log\n  \
    fairbell up --once --capture feed.pcap        also write the released feed of a receiver\n  \
    fairbell up --web                             REST and WebSocket for the first guest account\n  \
    fairbell up --scenario scenarios/up/bad-day.toml --once   scripted orders and faults\n  \
    fairbell up --from out/journal                a copy of what another run has left\n  \
    fairbell up --metrics 127.0.0.1:9464          metrics for Prometheus\n  \
    fairbell up --accelerate 2s --days 3          three days of the calendar in a minute\n\n\
    Without --once and --duration it keeps serving after the sample until Ctrl-C: connect your\n\
    own OUCH client or MoldUDP64 listener to the addresses it prints.")]
pub struct UpArgs {
    /// Configuration file [default: fairbell.toml when it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folder of the sample's files
    #[arg(long, value_name = "DIR")]
    pub sample: Option<PathBuf>,
    /// Client messages of the sample per second
    #[arg(long, value_name = "N")]
    pub rate: Option<u64>,
    /// Stop after this time of play, like 30s or 500ms
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Stop when the sample has been played
    #[arg(long)]
    pub once: bool,
    /// Wait for no step of the calendar longer than this: the venue's clock goes on to it
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub accelerate: Option<Duration>,
    /// Stop when so many of the calendar's days have ended
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub days: Option<u32>,
    /// Play the orders, generated flow and faults of FILE at their times, instead of sample and generated flow
    #[arg(long, value_name = "FILE", conflicts_with = "sample")]
    pub scenario: Option<PathBuf>,
    /// Begin with the state of DIR, the journal of an exchange that has ended: a copy of it becomes this one's
    #[arg(long, value_name = "DIR")]
    pub from: Option<PathBuf>,
    /// Serve REST and WebSocket, too, with the keys of FILE, or with a fresh one for the first account that
    /// nobody plays
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    pub web: Option<Option<PathBuf>>,
    /// Where Prometheus reads metrics, in place of telemetry.listen; off: nowhere
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<String>,
    /// Seed of all randomness
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// Put orders in the order of their arrival at the gateways
    #[arg(long, value_name = "SWITCH")]
    pub sequencer: Option<Switch>,
    /// Hops from the root to a receiver (D)
    #[arg(long, value_name = "D")]
    pub depth: Option<u32>,
    /// Children of a node (F)
    #[arg(long, value_name = "F")]
    pub fanout: Option<u32>,
    /// Receiver machines, each with a gateway (N)
    #[arg(long, value_name = "N")]
    pub receivers: Option<u32>,
    /// Siblings whose children a node also sends to (H)
    #[arg(long, value_name = "H")]
    pub hedge: Option<u32>,
    /// Make the root a group of so many replicas, 3 or 5, with journals in journal.dir
    #[arg(long, value_name = "N")]
    pub replicas: Option<u32>,
    /// Kill this proxy (from 1) while the exchange runs
    #[arg(long, value_name = "K", group = "failing",
          value_parser = clap::value_parser!(u16).range(1..))]
    pub fail_proxy: Option<u16>,
    /// Kill this gateway (from 1), with the receiver on its machine, while the exchange runs
    #[arg(long, value_name = "N", group = "failing",
          value_parser = clap::value_parser!(u16).range(1..))]
    pub fail_gateway: Option<u16>,
    /// When to kill it, from the start of play
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "failing",
          default_value = "10s")]
    pub after: Duration,
    /// Give all nodes the delays of a synthetic cloud in which this proxy (from 1) is a straggler
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u16).range(1..))]
    pub slow_proxy: Option<u16>,
    /// The last built-in listener hears nothing for so long after the start
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub late_listener: Option<Duration>,
    /// First port on the loopback address; 0 takes free ones
    #[arg(long, value_name = "PORT")]
    pub port_base: Option<u32>,
    /// Write the feed that the first receiver releases to FILE, a pcap, and FILE.bbo.json beside it
    #[arg(long, value_name = "FILE")]
    pub capture: Option<PathBuf>,
    /// Flip one byte of the Nth packet that receiver 1 releases: the run must then fail
    #[arg(long, value_name = "N", hide = true)]
    pub corrupt_packet: Option<u64>,
    /// Flip one bit of this replica's journal (from 1) before logs are compared: the run must then
    /// fail
    #[arg(long, value_name = "K", hide = true, requires = "replicas")]
    pub flip_replica: Option<u8>,
    /// Folder for report.json and report.html
    #[arg(long, value_name = "DIR", default_value = "out")]
    pub out: PathBuf,
    /// Print the report as one JSON document; progress goes to standard error
    #[arg(long)]
    pub json: bool,
    /// No progress, only the report
    #[arg(long)]
    pub quiet: bool,
}

impl UpArgs {
    /// The configuration: file or defaults, then these options, then checked as a whole.
    pub fn load_config(&self) -> Result<Config, Failure> {
        let mut loaded = Loaded::usual(self.config.as_deref())?;
        if let Some(n) = self.rate {
            loaded.set("flow.rate", "--rate", n, |c, v| c.flow.rate = v)?;
        }
        if let Some(n) = self.seed {
            loaded.set("flow.seed", "--seed", n, |c, v| c.flow.seed = v)?;
        }
        if let Some(switch) = self.sequencer {
            let on = switch == Switch::On;
            loaded.set("sequencer.enabled", "--sequencer", on, |c, v| c.sequencer.enabled = v)?;
        }
        if let Some(n) = self.depth {
            loaded.set("overlay.depth", "--depth", n, |c, v| c.overlay.depth = v)?;
        }
        if let Some(n) = self.fanout {
            loaded.set("overlay.fanout", "--fanout", n, |c, v| c.overlay.fanout = v)?;
        }
        if let Some(n) = self.receivers {
            loaded.set("overlay.receivers", "--receivers", n, |c, v| c.overlay.receivers = v)?;
        }
        if let Some(n) = self.hedge {
            loaded.set("overlay.hedge", "--hedge", n, |c, v| c.overlay.hedge = v)?;
        }
        if let Some(n) = self.replicas {
            let how = "replicated".to_string();
            loaded.set("journal.replicas", "--replicas", n, |c, v| c.journal.replicas = v)?;
            loaded.set("journal.durability", "--replicas", how, |c, v| c.journal.durability = v)?;
        }
        if let Some(n) = self.port_base {
            loaded.set("ports.base", "--port-base", n, |c, v| c.ports.base = v)?;
        }
        if self.from.is_some() {
            let how = "local".to_string();
            loaded.set("journal.durability", "--from", how, |c, v| c.journal.durability = v)?;
        }
        if let Some(at) = &self.metrics {
            let at = at.clone();
            loaded.set("telemetry.listen", "--metrics", at, |c, v| c.telemetry.listen = v)?;
        }
        loaded.set_sample(self.sample.as_deref())?;
        Ok(loaded.finish_with_doors()?)
    }
}
