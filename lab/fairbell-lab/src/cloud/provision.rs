//! `fairbell-lab cloud provision`: more machines are asked for than a venue needs, some of them slow; the best are
//! kept as `fairbell cluster provision --target local` keeps them, and a venue trades on them, beside one on the
//! machines as they came.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use emulator::Network;
use fairbell::cluster::provision::select::{Candidate, Measuring, Pool, Selected, select};
use fairbell::options::duration;
use fairbell::report::Quantiles;
use fairbell::up::report_quantiles;
use host::failure::{Failure, on};
use host::fleet::file::ClusterFile;
use host::fleet::scale::machines::Machines;
use host::sockets::io;
use probe::Key;
use serde::Serialize;
use types::{Nanos, SplitMix64};

use super::checks::Checks;
use super::measure;
use super::participants::Participants;
use super::site::{Plan, Site};
use super::{ASYMMETRY_US, MAIN, SEGMENT_MIB, Shape, quantiles_of, start, told, venue, watched};

/// Options of `fairbell-lab cloud provision`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab cloud provision                               40 hosts asked for, 25 kept\n  \
    fairbell-lab cloud provision --hosts 14 --fanout 2 --edges 4 --roots 1 --slow 3 --duration 8s\n  \
    fairbell-lab cloud provision --slow 0 --hosts 14 --fanout 2 --edges 4 --roots 1     control: nobody is slow\n\n\
    Exit code 1 when a slow host was kept, a request was lost, books differ, or the venue on the hosts that were kept\n\
    is not quicker. It needs what `fairbell-lab cloud` needs.")]
pub struct ProvisionArgs {
    /// Hosts that are asked for
    #[arg(long, value_name = "N", default_value_t = 40,
          value_parser = clap::value_parser!(u32).range(6..=63))]
    hosts: u32,
    /// Replicas of the root: 1, 3 or 5
    #[arg(long, value_name = "N", default_value_t = 3)]
    roots: u32,
    /// Children of a proxy, and of the root
    #[arg(long, value_name = "F", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..=16))]
    fanout: u32,
    /// Edges
    #[arg(long, value_name = "N", default_value_t = 16,
          value_parser = clap::value_parser!(u32).range(1..=32))]
    edges: u32,
    /// Proxies that stand by
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(0..=8))]
    standby: u32,
    /// Hosts that are slow
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u32).range(0..=32))]
    slow: u32,
    /// How much longer their packets take, each way, us
    #[arg(long, value_name = "US", default_value_t = 20_000,
          value_parser = clap::value_parser!(u64).range(0..=100_000))]
    slow_us: u64,
    /// Probes per second of a host
    #[arg(long, value_name = "N", default_value_t = 400,
          value_parser = clap::value_parser!(u32).range(10..=10_000))]
    probes: u32,
    /// What the paths are like
    #[arg(long, value_name = "NAME", default_value = "table1")]
    profile: String,
    /// Requests per second, all participants together
    #[arg(long, value_name = "N", default_value_t = 300,
          value_parser = clap::value_parser!(u64).range(50..=20_000))]
    rate: u64,
    /// Length of the trading on each set of hosts
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = duration)]
    duration: Duration,
    /// Fixes the draws of delays, slow hosts, probes and requests
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Folder of the machines' files; what was there is removed
    #[arg(long, value_name = "DIR", default_value = "out/cloud-provision")]
    out: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Hops from the root to an edge.
const DEPTH: u32 = 2;
/// Port of the agents.
const PORT: u16 = 7_400;

/// What a venue on some hosts came to.
#[derive(Serialize, Clone, Debug)]
struct Traded {
    hosts: Vec<usize>,
    messages: u64,
    oml_arrival_ns: Quantiles,
    oml_release_ns: Quantiles,
    #[serde(flatten)]
    checks: Checks,
}

/// What the command prints.
#[derive(Serialize, Clone, Debug)]
struct Report {
    profile: String,
    seed: u64,
    /// Hosts that are slow, by number from 1.
    slow: Vec<String>,
    /// Of those, the ones that were kept.
    slow_kept: Vec<String>,
    selected: Selected,
    /// On the hosts as they came, and on those that were kept.
    before: Traded,
    after: Traded,
    complaints: Vec<String>,
}

/// Hosts of a box, as whoever makes machines: a machine that runs has an agent.
struct Hosts<'a> {
    network: &'a Network,
    key_file: PathBuf,
    program: PathBuf,
    log: PathBuf,
    agents: BTreeMap<String, Child>,
}

impl Hosts<'_> {
    fn place(node: &str) -> Result<usize, Failure> {
        let number = node.strip_prefix("host-").and_then(|digits| digits.parse::<usize>().ok());
        let place = number.and_then(|number| number.checked_sub(1));
        place.ok_or_else(|| Failure::Usage(format!("{node} is no host")))
    }
}

impl Machines for Hosts<'_> {
    fn start(&mut self, nodes: &[String]) -> Result<(), Failure> {
        for node in nodes {
            let host = self.network.host(Hosts::place(node)?);
            let log = std::fs::OpenOptions::new().create(true).append(true).open(&self.log);
            let log = log.map_err(|error| on(&self.log, error))?;
            let mut command = Command::new(&self.program);
            command.args(["agent", "--listen", &format!("{}:{PORT}", host.v4()), "--key-file"]);
            command.arg(&self.key_file);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
            self.agents.insert(node.clone(), host.spawn(&mut command).map_err(io)?);
        }
        Ok(())
    }

    fn stop(&mut self, nodes: &[String]) -> Result<(), Failure> {
        for node in nodes {
            if let Some(mut child) = self.agents.remove(node) {
                let _ = child.kill();
                child.wait().map_err(io)?;
            }
        }
        Ok(())
    }
}

impl Drop for Hosts<'_> {
    fn drop(&mut self) {
        let all: Vec<String> = self.agents.keys().cloned().collect();
        let _ = self.stop(&all);
    }
}

/// Runs the box.
///
/// # Errors
/// [`Failure::Unavailable`] where it can't be made; what went wrong in it.
pub fn run(args: &ProvisionArgs) -> Result<(), Failure> {
    let profile = super::profile(&args.profile)?;
    let network = start(args.hosts + 1, profile, args.seed)?;
    if args.out.exists() {
        std::fs::remove_dir_all(&args.out).map_err(|error| on(&args.out, error))?;
    }
    host::files::folder(&args.out)?;
    // The first host has the box's true clock: it is never slow.
    let mut random = SplitMix64::new(args.seed ^ 0x5110);
    let mut slow: Vec<usize> = Vec::new();
    while slow.len() < args.slow.min(args.hosts / 2) as usize {
        let place = 1 + random.below(u64::from(args.hosts) - 1) as usize;
        if !slow.contains(&place) {
            slow.push(place);
        }
    }
    slow.sort_unstable();
    slow.iter().for_each(|place| network.slow(*place, args.slow_us * Nanos::MICRO));
    let name = |place: &usize| format!("host-{}", place + 1);
    let shape = Shape {
        name: MAIN,
        depth: DEPTH,
        // With one a slow proxy would cost a hedge rather than time.
        hedge: 0,
        edges: args.edges,
        fanout: args.fanout,
        standby: args.standby,
        segment_mib: SEGMENT_MIB,
        asymmetry_us: ASYMMETRY_US,
    };
    // None takes a slow one's place while it is measured.
    let settings =
        venue(&shape, "huygens", true).replace("replace_after_ms = 1000", "replace_after_ms = 0");
    let say = |what: &str| {
        if !args.json {
            eprintln!("{what}");
        }
    };
    say(&format!(
        "{} hosts are asked for; slow: {}",
        args.hosts,
        slow.iter().map(name).collect::<Vec<_>>().join(", ")
    ));
    let selected = chosen(args, &network, &settings)?;
    say(fairbell::cluster::provision::text(&selected).trim_end());
    let places: Result<Vec<usize>, Failure> =
        selected.kept.iter().map(|(_, machine)| Hosts::place(machine)).collect();
    let places = places?;
    let first: Vec<usize> = (0..places.len()).collect();
    let before = trade(args, &network, (&settings, "as-they-came"), first)?;
    let after = trade(args, &network, (&settings, "kept"), places.clone())?;
    let mut report = Report {
        profile: args.profile.clone(),
        seed: args.seed,
        slow: slow.iter().map(name).collect(),
        slow_kept: slow.iter().filter(|place| places.contains(place)).map(name).collect(),
        selected,
        before,
        after,
        complaints: Vec::new(),
    };
    report.complaints = complaints(&report);
    told(&report, args.json, print, &report.complaints)
}

/// The file of the venue that hosts are selected for: roots, proxies, edges and those that stand by, nowhere yet.
fn wanted(args: &ProvisionArgs, settings: &str, dir: &Path) -> Result<ClusterFile, Failure> {
    use host::fleet::file::{NodeEntry, NodeRole};
    host::files::folder(dir)?;
    let path = dir.join("venue.toml");
    std::fs::write(&path, settings).map_err(|error| on(&path, error))?;
    let config = host::config::read(Some(&path))?;
    let mut nodes = Vec::new();
    for (role, word, count) in [
        (NodeRole::Root, "root", args.roots),
        (NodeRole::Proxy, "proxy", host::deployment::proxies(&config)),
        (NodeRole::Edge, "edge", args.edges),
        (NodeRole::Standby, "standby", args.standby),
    ] {
        nodes.extend((1..=count).map(|number| {
            let name = format!("{word}-{number}");
            NodeEntry::new(name.clone(), name, vec![role])
        }));
    }
    let now = net::Clock::start(0).now();
    ClusterFile::new(&dir.join("cluster.toml"), "box", now, nodes)
}

/// Asks for all hosts, keeps the best.
fn chosen(args: &ProvisionArgs, network: &Network, settings: &str) -> Result<Selected, Failure> {
    let dir = args.out.join("selection");
    let mut file = wanted(args, settings, &dir)?;
    let config = file.venue()?;
    let key_file = dir.join("probe.key");
    let random = probe::entropy().ok_or_else(|| Failure::Run("no randomness".to_string()))?;
    let text = host::tls::hex(&random);
    std::fs::write(&key_file, &text).map_err(|error| on(&key_file, error))?;
    let key = Key::new(text.as_bytes()).map_err(|error| Failure::Run(error.to_string()))?;
    let candidate = |place: u32| Candidate {
        name: format!("host-{}", place + 1),
        address: IpAddr::V4(network.host(place as usize).v4()),
        zone: String::new(),
    };
    let pool = Pool { port: PORT, machine: (0..args.hosts).map(candidate).collect() };
    let measuring = Measuring {
        rate: args.probes,
        job: Duration::from_millis(600),
        evaluation: Duration::from_secs(2),
        candidates: 8,
        seed: args.seed,
        patience: Duration::from_secs(60),
    };
    let mut hosts = Hosts {
        network,
        key_file,
        program: std::env::current_exe().map_err(io)?,
        log: dir.join("agents.log"),
        agents: BTreeMap::new(),
    };
    let stop = Arc::new(AtomicBool::new(false));
    // From the host of whoever steers it, which is none of the pool.
    let steering = network.host(args.hosts as usize);
    let selected = steering
        .enter(|| select((&mut file, &config), &pool, (&mut hosts, &key), &measuring, &stop))
        .map_err(io)??;
    if hosts.agents.len() != selected.kept.len() {
        let (left, kept) = (hosts.agents.len(), selected.kept.len());
        return Err(Failure::Run(format!("{left} machines run, and {kept} were kept")));
    }
    Ok(selected)
}

/// A venue on these hosts, by node.
fn trade(
    args: &ProvisionArgs,
    network: &Network,
    (settings, name): (&str, &str),
    hosts: Vec<usize>,
) -> Result<Traded, Failure> {
    let dir = args.out.join(name);
    let own = std::env::current_exe().map_err(io)?;
    let plan = Plan {
        venue: settings.to_string(),
        roots: args.roots as usize,
        shards: 1,
        offset_us: 10_000,
        drift_ppb: 50_000,
        seed: args.seed,
        ipv6: false,
        web: false,
        disks: false,
        snapshots: true,
        programs: [own.clone(), own],
        idle: 0,
        scale: Default::default(),
        hosts: hosts.clone(),
    };
    let mut site = Site::start(network, &plan, &dir)?;
    site.keep_journals()?;
    let from = net::Clock::start(0).now().after(2 * Nanos::SECOND);
    let trading =
        Participants::start(&site, (args.rate, args.seed), args.duration, Default::default())?;
    let clock = trading.clock;
    let (clocks, load) = watched(&site, || {
        trading.wait_for_trading()?;
        trading.wait()
    })?;
    let checks = Checks::of(&mut site, (&load, &clocks), (&[], clock.now()), &[])?;
    let bounds = quantiles_of(&clocks.bounds());
    let seen = measure::deliveries(&site, &clocks, from, Nanos::MICRO + 2 * bounds.p50)?;
    Ok(Traded {
        hosts: hosts.iter().map(|place| place + 1).collect(),
        messages: seen.delivery.messages,
        oml_arrival_ns: report_quantiles(&seen.delivery.oml_arrival_ns),
        oml_release_ns: report_quantiles(&seen.delivery.oml_release_ns),
        checks,
    })
}

/// What is wrong with a run.
fn complaints(of: &Report) -> Vec<String> {
    let mut all = Vec::new();
    for (name, traded) in [("as they came", &of.before), ("kept", &of.after)] {
        all.extend(
            traded.checks.complaints().into_iter().map(|(_, what)| format!("{name}: {what}")),
        );
    }
    if !of.slow_kept.is_empty() {
        all.push(format!("slow: {} were kept", of.slow_kept.join(", ")));
    }
    // Where one of the first hosts is slow, the venue on those that were kept has to be quicker.
    let first_is_slow = of
        .slow
        .iter()
        .any(|name| Hosts::place(name).is_ok_and(|place| of.before.hosts.contains(&(place + 1))));
    let (before, after) = (of.before.oml_arrival_ns.p50, of.after.oml_arrival_ns.p50);
    if first_is_slow && after >= before {
        all.push(format!(
            "gain: {after} ns to the last arrival, and {before} on the hosts as they came"
        ));
    }
    all
}

fn print(of: &Report) {
    let us = |ns: u64| ns as f64 / 1e3;
    println!(
        "profile {}, seed {}: {} hosts asked for, {} kept, {} given back; slow: {}; of these kept: {}",
        of.profile,
        of.seed,
        of.selected.asked,
        of.selected.kept.len(),
        of.selected.released.len(),
        of.slow.join(" "),
        if of.slow_kept.is_empty() { "none".to_string() } else { of.slow_kept.join(" ") }
    );
    for (name, traded) in [("as they came", &of.before), ("kept", &of.after)] {
        println!(
            "{name:<13} to the last arrival {:.0} us p50, {:.0} p99, to the last release {:.0} / {:.0} ({} messages); \
             requests {}, lost {}, answered twice {}; books equal: {} at {}",
            us(traded.oml_arrival_ns.p50),
            us(traded.oml_arrival_ns.p99),
            us(traded.oml_release_ns.p50),
            us(traded.oml_release_ns.p99),
            traded.messages,
            traded.checks.requests_sent,
            traded.checks.requests_lost,
            traded.checks.answered_twice,
            traded.checks.books_equal,
            traded.checks.books_compared
        );
    }
}
