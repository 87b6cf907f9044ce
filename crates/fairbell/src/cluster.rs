//! `fairbell cluster`: makes a venue of many machines and steers it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use net::Clock;

use host::config::{ShardEntry, Shards};
use host::failure::{Failure, on};
use host::fleet::client::Identity;
use host::fleet::credentials::{self, Credentials, DAYS, OPERATOR};
use host::fleet::doctor::{Doctor, Verdict};
use host::fleet::file::{ClusterFile, NodeEntry, NodeRole, settled};
use host::fleet::messages::Operation;
use host::fleet::shards::ShardNodes;
use host::{deployment, files};

mod bundle;
mod join;
mod plan;
mod prices;
pub mod provision;
mod recover;
mod shards;
mod upgrade;

/// How long the roots may take to do something.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long one root may take to say how it stands.
const ROOT_PATIENCE: Duration = Duration::from_secs(1);
/// What a new venue's settings begin with.
const HEAD: &str =
    "# Settings of the venue, the same on every machine. fairbell.toml explains every key.\n";

/// Options of `fairbell cluster`.
#[derive(Args, Clone, Debug)]
pub struct ClusterArgs {
    /// What is to be done
    #[command(subcommand)]
    pub what: What,
}

/// The cluster file of an existing venue.
#[derive(Args, Clone, Debug)]
pub struct At {
    /// Who is where
    #[arg(long, value_name = "FILE", default_value = "cluster/cluster.toml")]
    pub cluster: PathBuf,
}

/// What is done to a cluster.
#[derive(Subcommand, Clone, Debug)]
pub enum What {
    /// Make a venue: cluster.toml and venue.toml to edit, an authority, keys of all nodes
    Init(InitArgs),
    /// Make a node's certificate and keys, or others with the next generation
    Issue(IssueArgs),
    /// Give a machine a one-time token that it gets its certificate with
    Token(join::TokenArgs),
    /// Get this machine's certificate with a one-time token; its private key stays on it
    Join(join::JoinArgs),
    /// Say before a machine starts what would hurt it; run it there
    Doctor(DoctorArgs),
    /// How all nodes are
    Status(StatusArgs),
    /// How each root stands, asked of itself: also when none leads
    Roots(StatusArgs),
    /// Have a root lead, while trading goes on
    Lead(LeadArgs),
    /// Have a node end its sessions and stop
    Drain(DrainArgs),
    /// Refuse the present certificate of a node, or the operator's, and change all keys, while trading goes on
    Revoke(RevokeArgs),
    /// Change all keys, while trading goes on
    Rotate(RotateArgs),
    /// Restart all machines, one after another, while the venue trades
    Upgrade(upgrade::UpgradeArgs),
    /// Put proxies that stand by at the places of others
    Replace(ReplaceArgs),
    /// Measure all machines while the venue trades, show which trees there could be, and have one
    Plan(plan::PlanArgs),
    /// Write what makes the venue's machines, in a cloud or elsewhere, or have the best of many made
    Provision(provision::ProvisionArgs),
    /// Collect what engineers on call need, without any key, into one file
    Bundle(bundle::BundleArgs),
    /// Say whose log counts, where too few roots are whole to elect anybody
    Recover(recover::RecoverArgs),
}

/// Options of `fairbell cluster init`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell cluster init --name lab --edges 16 --depth 3 --fanout 4 --out cluster\n  \
    fairbell cluster init --name lab --venue my-venue.toml --out cluster\n  \
    fairbell cluster init --name lab --shards 2 --roots 3    instruments on two groups of three\n\n\
    Then edit the addresses in cluster/cluster.toml, copy cluster.toml, venue.toml, authority.pem\n\
    and keys/NAME to machine NAME, and start `fairbell node` there.")]
pub struct InitArgs {
    /// Name of the venue: letters, digits and -
    #[arg(long, value_name = "NAME")]
    pub name: String,
    /// Folder of the files
    #[arg(long, value_name = "DIR", default_value = "cluster")]
    pub out: PathBuf,
    /// Settings of the venue to begin with; without them --depth, --fanout and --edges make some
    #[arg(long, value_name = "FILE", 
          conflicts_with_all = ["depth", "fanout", "edges", "standby"])]
    pub venue: Option<PathBuf>,
    /// Replicas of the root, in each shard: 1, 3, 5, 7 or 9
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub roots: u8,
    /// Shards, each with so many roots; the instruments are given to them by turns [default: those of the
    /// venue's settings, or 1]
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=types::limits::SHARDS_MAX as i64))]
    pub shards: u16,
    /// Machines that participants connect to
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..=256))]
    pub edges: u32,
    /// Hops from the root to an edge
    #[arg(long, value_name = "D", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(1..=6))]
    pub depth: u32,
    /// Children of a proxy
    #[arg(long, value_name = "F", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..=64))]
    pub fanout: u32,
    /// Machines that stand by to take the place of a proxy that is silent for three seconds
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(0..=8))]
    pub standby: u32,
}

/// Options of `fairbell cluster issue`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell cluster issue edge-3       keys/edge-3, to be copied to that machine\n  \
    fairbell cluster issue operator     what `fairbell cluster status` and others show\n  \
    fairbell cluster issue --all --days 90")]
pub struct IssueArgs {
    /// Which node, or `operator`
    #[arg(value_name = "NODE", required_unless_present = "all")]
    pub node: Option<String>,
    /// All nodes and the operator
    #[arg(long, conflicts_with = "node")]
    pub all: bool,
    /// Days that certificates hold
    #[arg(long, value_name = "DAYS", default_value_t = DAYS,
          value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub days: u16,
    /// Which cluster
    #[command(flatten)]
    pub at: At,
}

/// Options of `fairbell cluster doctor`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell cluster doctor edge-3           on that machine, before its process is started\n  \
    fairbell cluster doctor edge-3 --json\n\n\
    Exit code 1 when something does not work.")]
pub struct DoctorArgs {
    /// Which machine this is
    #[arg(value_name = "NODE")]
    pub node: String,
    /// Folder of its keys [default: keys/NODE beside the cluster file]
    #[arg(long, value_name = "DIR")]
    pub keys: Option<PathBuf>,
    /// For machines
    #[arg(long)]
    pub json: bool,
    /// Which cluster
    #[command(flatten)]
    pub at: At,
}

/// Options of `fairbell cluster status`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell cluster status\n  \
    fairbell cluster roots --json --cluster /etc/fairbell/cluster.toml")]
pub struct StatusArgs {
    /// For machines
    #[arg(long)]
    pub json: bool,
    /// Which cluster
    #[command(flatten)]
    pub at: At,
}

/// Options of `fairbell cluster lead`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell cluster lead root-2    before root-1 is taken out of service: shorter than an election")]
pub struct LeadArgs {
    /// Which root
    #[arg(value_name = "NODE")]
    pub node: String,
    /// Which cluster
    #[command(flatten)]
    pub at: At,
}

/// Options of `fairbell cluster drain`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell cluster drain edge-3          its sessions end, its process stops with exit code 0\n  \
    fairbell cluster drain edge-3 --undo   it may be started again")]
pub struct DrainArgs {
    /// Which node
    #[arg(value_name = "NODE")]
    pub node: String,
    /// It may join again
    #[arg(long)]
    pub undo: bool,
    /// Which cluster
    #[command(flatten)]
    pub at: At,
}

/// Options of `fairbell cluster revoke`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell cluster revoke edge-3    `fairbell cluster issue edge-3` lets it in again\n  \
    fairbell cluster revoke operator  then `fairbell cluster issue operator` where the authority's key is")]
pub struct RevokeArgs {
    /// Which node, or `operator`
    #[arg(value_name = "NODE")]
    pub node: String,
    /// Which cluster
    #[command(flatten)]
    pub at: At,
}

/// Options of `fairbell cluster rotate`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell cluster rotate    every link gets another key; none is lost on the way")]
pub struct RotateArgs {
    /// Which cluster
    #[command(flatten)]
    pub at: At,
}

/// Options of `fairbell cluster replace`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell cluster replace proxy-2                      by whichever answers soonest\n  \
    fairbell cluster replace proxy-2 proxy-5 --by standby-1 --by standby-2\n\n\
    All in one change of the tree; orders and market data go on meanwhile. Proxies that left stand by.")]
pub struct ReplaceArgs {
    /// Proxies that leave their places
    #[arg(value_name = "NODE", required = true)]
    pub nodes: Vec<String>,
    /// Who comes, in the same order
    #[arg(long, value_name = "NODE")]
    pub by: Vec<String>,
    /// In the tree of this shard, by name or number [default: the first]
    #[arg(long, value_name = "SHARD")]
    pub shard: Option<String>,
    /// Which cluster
    #[command(flatten)]
    pub at: At,
}

/// Does what is asked of a cluster.
///
/// # Errors
/// What is wrong with its files; why it wasn't done.
pub fn run(args: &ClusterArgs) -> Result<(), Failure> {
    match &args.what {
        What::Init(args) => init(args),
        What::Issue(args) => issue(args),
        What::Token(args) => join::token(args),
        What::Join(args) => join::join(args),
        What::Doctor(args) => doctor(args),
        What::Status(args) => shards::status(args),
        What::Roots(args) => roots(args),
        What::Lead(args) => {
            let file = ClusterFile::read(&args.at.cluster)?;
            let (_, node) = file.node(&args.node)?;
            let lead = Operation::Lead { node: args.node.clone() };
            tell(operator(&file.of_node(node))?.operate(&lead, PATIENCE)?)
        }
        What::Drain(args) => {
            let (node, on) = (args.node.clone(), !args.undo);
            let file = ClusterFile::read(&args.at.cluster)?;
            file.node(&node)?;
            tell(shards::operate_all(&file, &Operation::Drain { node, on })?)
        }
        What::Revoke(args) => {
            let file = ClusterFile::read(&args.at.cluster)?;
            if args.node != OPERATOR {
                file.node(&args.node)?;
            }
            let folder = Credentials::folder(&file, &args.node);
            let generation = credentials::generation(&folder)?;
            let node = args.node.clone();
            let revoke = Operation::Revoke { node, generation: generation.max(1) };
            let (text, data) = shards::operate_all(&file, &revoke)?;
            // The next certificate that is issued here comes behind what is refused.
            let revoked = data["revoked"].as_u64().and_then(|upto| u32::try_from(upto).ok());
            if let Some(upto) = revoked.filter(|upto| *upto > generation && folder.is_dir()) {
                credentials::keep_generation(&folder, upto)?;
            }
            tell((text, data))
        }
        What::Rotate(args) => {
            let file = ClusterFile::read(&args.at.cluster)?;
            tell(shards::operate_all(&file, &Operation::Rotate)?)
        }
        What::Upgrade(args) => upgrade::run(args),
        What::Plan(args) => plan::run(args),
        What::Provision(args) => provision::run(args),
        What::Bundle(args) => bundle::run(args),
        What::Recover(args) => recover::run(args),
        What::Replace(ReplaceArgs { nodes, by, shard, at }) => {
            let (nodes, by) = (nodes.clone(), by.clone());
            let file = shards::one(at, shard.as_deref())?;
            for name in nodes.iter().chain(&by) {
                file.node(name)?;
            }
            tell(operator(&file)?.operate(&Operation::Replace { nodes, by }, PATIENCE)?)
        }
    }
}

fn tell((text, _): (String, serde_json::Value)) -> Result<(), Failure> {
    println!("{text}");
    Ok(())
}

/// Says how each root stands.
///
/// # Errors
/// One that is in the group, as far as the others know, does not answer.
fn roots(args: &StatusArgs) -> Result<(), Failure> {
    let file = ClusterFile::read(&args.at.cluster)?;
    let (mut rows, mut silent) = (Vec::new(), Vec::new());
    for file in file.all_shards() {
        if file.shard_count() > 1 && !args.json {
            println!("shard {}", file.shard_name());
        }
        roots_of(&file, args.json, (&mut rows, &mut silent))?;
    }
    if args.json {
        println!("{}", serde_json::Value::from(rows));
    }
    match silent.is_empty() {
        true => Ok(()),
        false => Err(Failure::Run(format!("no answer from {}", silent.join(", ")))),
    }
}

/// Says how each root of a shard stands; adds rows for machines, and names of those that don't answer.
fn roots_of(
    file: &ClusterFile,
    json: bool,
    (rows, silent): (&mut Vec<serde_json::Value>, &mut Vec<String>),
) -> Result<(), Failure> {
    let operator = operator(file)?;
    let ask = |(number, (_, node)): (u8, (u16, &NodeEntry))| {
        (number, node.name.clone(), operator.replica(number, ROOT_PATIENCE))
    };
    let asked: Vec<_> = (1..).zip(file.replicated()).map(ask).collect();
    let newest = asked.iter().filter_map(|(.., told)| told.as_ref().ok());
    let newest = newest.max_by_key(|status| status.changes).map(|status| &status.members);
    let founders = file.of(NodeRole::Root).count();
    // Those in reserve need not run, and those that were removed can't.
    let due = |number: u8| {
        newest.map_or(usize::from(number) <= founders, |members| members.contains(&number))
    };
    for (number, name, told) in &asked {
        let text = match told {
            Ok(status) => status.to_string(),
            Err(why) if due(*number) => {
                silent.push(name.clone());
                format!("replica {number} does not answer: {why}")
            }
            Err(_) => format!("replica {number} is not in the group, and does not answer"),
        };
        match json {
            true => {
                let mut row = serde_json::json!({ "node": name, "status": told.as_ref().ok() });
                if file.shard_count() > 1 {
                    row["shard"] = file.shard_name().into();
                }
                rows.push(row);
            }
            false => println!("{name:<16} {text}"),
        }
    }
    Ok(())
}

fn operator(file: &ClusterFile) -> Result<Identity, Failure> {
    let own = Credentials::read(file, &Credentials::folder(file, OPERATOR), OPERATOR)?;
    Identity::new(file, &file.venue()?, own, (OPERATOR, 0))
}

fn init(args: &InitArgs) -> Result<(), Failure> {
    let path = args.out.join("cluster.toml");
    if path.exists() {
        let why = "is there already: name another folder with --out";
        return Err(Failure::Usage(format!("{}: {why}", path.display())));
    }
    let venue = args.out.join("venue.toml");
    let text = match &args.venue {
        Some(from) => std::fs::read_to_string(from)
            .map_err(|error| Failure::Usage(format!("{}: {error}", from.display())))?,
        None => fresh_venue(args)?,
    };
    let folders = args.out.ancestors().filter(|of| !of.as_os_str().is_empty());
    let new = folders.take_while(|of| !of.exists()).last();
    let earlier = std::fs::read(&venue).ok();
    files::folder(&args.out)?;
    let made = write(&venue, &text).and_then(|()| found(args, &path, &venue));
    if made.is_err() {
        // All is as it was before; why it was refused counts more than what can't be taken back.
        let _ = std::fs::remove_file(&path);
        let _ = match (new, earlier) {
            (Some(new), _) => std::fs::remove_dir_all(new),
            (None, Some(earlier)) => files::replace(&venue, &earlier),
            (None, None) => std::fs::remove_file(&venue),
        };
    }
    let file = made?;
    println!(
        "{}: {} nodes; edit their addresses, then copy cluster.toml, venue.toml, authority.pem and \
         keys/NAME to machine NAME and start `fairbell node --cluster cluster.toml --name NAME` there",
        path.display(),
        file.nodes.len()
    );
    Ok(())
}

/// Makes the cluster file and all keys for a venue's settings, which lie beside it.
fn found(args: &InitArgs, path: &Path, venue: &Path) -> Result<ClusterFile, Failure> {
    let config = settled(host::config::read(Some(venue))?, args.roots.into());
    let mut nodes = Vec::new();
    let mut add = |role: NodeRole, word: &str, count: u32| {
        let names = (1..=count).map(|number| format!("{word}-{number}"));
        nodes.extend(names.map(|name| NodeEntry::new(name.clone(), name, vec![role])));
    };
    let placed = match config.shards.0.is_empty() {
        true => Shards::spread(args.shards, &config),
        false => config.shards.clone(),
    };
    // One root is one shard's: as many groups as there are shards.
    let count = if args.shards == 1 { placed.count() } else { args.shards };
    add(NodeRole::Root, "root", u32::from(args.roots) * u32::from(count));
    add(NodeRole::Proxy, "proxy", deployment::proxies(&config));
    add(NodeRole::Edge, "edge", config.overlay.receivers);
    add(NodeRole::Standby, "standby", config.overlay.standby);
    let of_shard = |(number, entry): (u16, &ShardEntry)| ShardNodes {
        name: entry.name.clone(),
        symbols: entry.symbols.clone(),
        roots: (1..=u16::from(args.roots))
            .map(|root| format!("root-{}", number * u16::from(args.roots) + root))
            .collect(),
        proxies: None,
        standby: None,
    };
    let shards = match count {
        1 => Vec::new(),
        _ => (0..).zip(&placed.0).map(of_shard).collect(),
    };
    let now = Clock::start(0).now();
    let file = ClusterFile::with_shards(path, &args.name, now, (nodes, shards))?;
    file.overlay(&file.venue()?)?;
    write(path, &file.text()?)?;
    credentials::found(&file)?;
    issue_all(&file, DAYS)?;
    Ok(file)
}

/// Settings of a venue that trades from the first moment: three instruments, eight accounts for trials
/// with a password that was drawn.
fn fresh_venue(args: &InitArgs) -> Result<String, Failure> {
    let random = probe::entropy().ok_or_else(|| Failure::Run("no randomness".to_string()))?;
    let password: String = random.iter().take(5).map(|byte| format!("{byte:02x}")).collect();
    let standby = match args.standby {
        // Without proxies nobody can take the place of one.
        0 => String::new(),
        _ if args.depth == 1 => String::new(),
        count => format!("standby = {count}\nreplace_after_ms = 3000\n"),
    };
    let mut text = format!(
        "{HEAD}\n[overlay]\ndepth = {}\nfanout = {}\nreceivers = {}\n{standby}\n[clock]\nsource = \
         \"huygens\"\n\n# Continuous trading from the first moment; [calendar] opens and closes by \
         the clock.\n[day]\nauctions = false\n",
        args.depth, args.fanout, args.edges
    );
    for (symbol, tick) in [("BTCUSD", "1"), ("GENA", "0.01"), ("GENB", "0.01")] {
        text += &format!("\n[[instrument]]\nsymbol = \"{symbol}\"\ntick = \"{tick}\"\n");
    }
    text += "\n# For trials. `fairbell hash-password` makes password_hash for real ones.\n";
    for number in 1..=8 {
        text += &format!(
            "[[account]]\nname = \"trial {number}\"\nusername = \"TEST0{number}\"\npassword = \
             \"{password}\"\n"
        );
    }
    Ok(text)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    files::replace(path, text.as_bytes()).map_err(|error| on(path, error))
}

fn issue_all(file: &ClusterFile, days: u16) -> Result<(), Failure> {
    let names = file.nodes.iter().map(|node| &node.name[..]).chain([OPERATOR]);
    for name in names {
        credentials::issue(file, name, days)?;
    }
    Ok(())
}

fn issue(args: &IssueArgs) -> Result<(), Failure> {
    let file = ClusterFile::read(&args.at.cluster)?;
    let Some(name) = args.node.as_ref().filter(|_| !args.all) else {
        issue_all(&file, args.days)?;
        println!("made for {} nodes and the operator", file.nodes.len());
        return Ok(());
    };
    let folder = credentials::issue(&file, name, args.days)?;
    println!("{}: copy it to that machine and to no other", folder.display());
    Ok(())
}

fn doctor(args: &DoctorArgs) -> Result<(), Failure> {
    let file = ClusterFile::read(&args.at.cluster)?;
    let keys = args.keys.clone().unwrap_or_else(|| Credentials::folder(&file, &args.node));
    let mut doctor = Doctor::default();
    doctor.look(&file, &args.node, &keys)?;
    match args.json {
        true => {
            let text = serde_json::to_string_pretty(&doctor.findings);
            println!("{}", text.map_err(|error| Failure::Run(error.to_string()))?);
        }
        false => {
            for finding in &doctor.findings {
                let verdict = match finding.verdict {
                    Verdict::Good => "good",
                    Verdict::Poor => "poor",
                    Verdict::Bad => "BAD",
                };
                println!("{verdict:<5} {:<20} {}", finding.what, finding.found);
            }
        }
    }
    match doctor.verdict() {
        Verdict::Bad => Err(Failure::Run(format!("{}: something does not work", args.node))),
        _ => Ok(()),
    }
}
