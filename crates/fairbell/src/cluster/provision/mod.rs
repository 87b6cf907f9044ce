//! `fairbell cluster provision`: what makes the machines of a venue, from its cluster file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use host::failure::{Failure, on};
use host::files;
use host::fleet::file::ClusterFile;
use host::fleet::scale::machines::Program;
use serde_json::Value;

use super::At;
use settings::Settings;

pub mod ansible;
pub mod aws;
pub mod kubernetes;
pub mod select;
pub mod settings;

/// The settings beside the cluster file.
const SETTINGS: &str = "provision.toml";

/// What makes machines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Target {
    /// Amazon's cloud: CloudFormation, and variables of the OpenTofu module.
    Aws,
    /// Kubernetes: values of the Helm chart.
    K8s,
    /// Machines that are there: an inventory of the Ansible role.
    Ansible,
    /// A program of yours, which is asked for more machines than are needed: the best are kept.
    Local,
}

/// Options of `fairbell cluster provision`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell cluster provision --target aws --out fleet       fleet/fleet.cfn.json, fleet/keys.sh, fleet/fleet.tfvars.json\n  \
    fairbell cluster provision --target k8s --out fleet       fleet/values.json, fleet/install.sh\n  \
    fairbell cluster provision --target ansible --out fleet   fleet/inventory.yml\n  \
    fairbell cluster provision --target local --pool pool.toml --key-file probe.key --command ./machine\n\n\
    `local` runs `./machine start NAME` for each machine of the pool, has agents (`fairbell agent`) on them send\n\
    probes, keeps those that make the quickest tree, writes their addresses into a cluster.toml, and runs\n\
    `./machine stop NAME` for the others.")]
pub struct ProvisionArgs {
    /// What makes machines
    #[arg(long, value_enum)]
    pub target: Target,
    /// Folder of what is written
    #[arg(long, value_name = "DIR", default_value = "fleet")]
    pub out: PathBuf,
    /// Kinds of machines, zones, networks [default: provision.toml beside the cluster file, if it is there]
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// Machines that may be had, more than are needed; of local
    #[arg(long, value_name = "FILE", required_if_eq("target", "local"))]
    pub pool: Option<PathBuf>,
    /// File with the secret that agents have; of local
    #[arg(long, value_name = "FILE", required_if_eq("target", "local"))]
    pub key_file: Option<PathBuf>,
    /// Program that starts and stops machines, again for its first arguments; of local
    #[arg(long, value_name = "WORD", required_if_eq("target", "local"))]
    pub command: Vec<String>,
    /// Probes per second of a machine; of local
    #[arg(long, value_name = "N", default_value_t = 1_000,
          value_parser = clap::value_parser!(u32).range(10..=10_000))]
    pub rate: u32,
    /// Length of a job of probes; of local
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = crate::options::duration)]
    pub job: Duration,
    /// Length of the evaluation of a tree; of local
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = crate::options::duration)]
    pub evaluation: Duration,
    /// Candidates that are looked at for each parent; of local
    #[arg(long, value_name = "K", default_value_t = 8)]
    pub candidates: usize,
    /// How long machines may take until their agents answer; of local
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = crate::options::duration)]
    pub patience: Duration,
    /// Fixes all draws; of local
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// For machines
    #[arg(long)]
    pub json: bool,
    /// Which cluster
    #[command(flatten)]
    pub at: At,
}

/// Writes what makes the machines; of `local` has them made.
///
/// # Errors
/// What is wrong with the files; a fleet that the target can't have; machines that can't be had.
pub fn run(args: &ProvisionArgs) -> Result<(), Failure> {
    let mut file = ClusterFile::read(&args.at.cluster)?;
    let config = file.venue()?;
    // Nodes and tree have to fit before anything is made.
    for of in file.all_shards() {
        of.overlay(&of.venue()?)?;
    }
    let settings = settings(args, &file)?;
    let mut written = Vec::new();
    let mut write = |name: &str, text: &str| -> Result<(), Failure> {
        let path = args.out.join(name);
        files::folder(&args.out)?;
        files::replace(&path, text.as_bytes()).map_err(|error| on(&path, error))?;
        written.push(path);
        Ok(())
    };
    match args.target {
        Target::Aws => {
            write("fleet.cfn.json", &pretty(&aws::template(&file, &settings)?)?)?;
            write("fleet.tfvars.json", &pretty(&aws::variables(&file, &settings)?)?)?;
            write("keys.sh", &aws::keys(&file))?;
        }
        Target::K8s => {
            let (values, script) = kubernetes::chart(&file, &settings)?;
            write("values.json", &pretty(&values)?)?;
            write("install.sh", &script)?;
        }
        Target::Ansible => write("inventory.yml", &ansible::inventory(&file, &settings)?)?,
        Target::Local => {
            let none = |what: &str| Failure::Usage(format!("{what} is missing"));
            let pool = args.pool.as_ref().ok_or_else(|| none("--pool"))?;
            let key = args.key_file.as_ref().ok_or_else(|| none("--key-file"))?;
            let measuring = select::Measuring {
                rate: args.rate,
                job: args.job,
                evaluation: args.evaluation,
                candidates: args.candidates,
                seed: args.seed,
                patience: args.patience,
            };
            let mut program = Program { words: args.command.clone() };
            let selected = select::select(
                (&mut file, &config),
                &select::Pool::read(pool)?,
                (&mut program, &crate::plan::key(key)?),
                &measuring,
                &crate::options::interrupted()?,
            )?;
            write("cluster.toml", &file.text()?)?;
            match args.json {
                true => println!("{}", pretty(&serde_json::json!(selected))?.trim_end()),
                false => print!("{}", text(&selected)),
            }
        }
    }
    if !args.json {
        written.iter().for_each(|path| println!("{}", path.display()));
    }
    Ok(())
}

fn settings(args: &ProvisionArgs, file: &ClusterFile) -> Result<Settings, Failure> {
    let beside: PathBuf = file.path.with_file_name(SETTINGS);
    match &args.settings {
        Some(path) => Settings::read(path),
        None if Path::exists(&beside) => Settings::read(&beside),
        None => Ok(Settings::default()),
    }
}

fn pretty(value: &Value) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(value);
    text.map(|text| text + "\n").map_err(|error| Failure::Run(error.to_string()))
}

/// What came of a selection, for people.
pub fn text(of: &select::Selected) -> String {
    use std::fmt::Write;
    let mut out = String::new();
    // Writing to a string can't fail.
    let _ = writeln!(
        out,
        "{} machines asked for, {} kept, {} given back, {} silent; tree {}",
        of.asked,
        of.kept.len(),
        of.released.len(),
        of.silent.len(),
        of.chosen
    );
    for tree in &of.trees {
        let us = |ns: f64| ns / 1e3;
        let _ = writeln!(
            out,
            "{:<18} to the last leaf, us: p50 {:.0}, p90 {:.0} ({} messages)",
            tree.tree,
            us(tree.p50_ns),
            us(tree.p90_ns),
            tree.messages
        );
    }
    for (node, machine) in &of.kept {
        let _ = writeln!(out, "{node:<16} {machine}");
    }
    if !of.released.is_empty() {
        let _ = writeln!(out, "given back: {}", of.released.join(", "));
    }
    out
}

#[cfg(test)]
mod tests;
