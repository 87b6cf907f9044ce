//! `fairbell-lab sim attack`: what an attacker takes from others, beside what he may take.

use clap::Args;
use serde_json::{Value, json};
use sim::venue::{AttackKind, Harm, HarmCheck, Service, harm};

use super::progress;
use host::failure::Failure;

/// Options of `fairbell-lab sim attack`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab sim attack list             what there is\n  \
    fairbell-lab sim attack order-spam       one attack, with and without, and its bounds\n  \
    fairbell-lab sim attack all --json       all of them as one JSON document")]
pub struct AttackArgs {
    /// Name of an attack, or `list`, `all`
    pub name: String,
    /// Seeds 0 up to this many, each run with and without the attack
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub seeds: u64,
    /// Orders of honest participants in a run
    #[arg(long, value_name = "N", default_value_t = 500,
          value_parser = clap::value_parser!(u64).range(50..=10_000))]
    pub orders: u64,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

pub(super) fn run(args: &AttackArgs) -> Result<(), Failure> {
    let kinds = match args.name.as_str() {
        "list" => {
            AttackKind::ALL.iter().for_each(|k| println!("{:14} {}", k.name(), k.about()));
            return Ok(());
        }
        "all" => AttackKind::ALL.to_vec(),
        name => match AttackKind::named(name) {
            Some(kind) => vec![kind],
            None => {
                let names: Vec<&str> = AttackKind::ALL.iter().map(|kind| kind.name()).collect();
                let names = names.join(", ");
                return Err(Failure::Usage(format!("no attack {name:?}; there are: {names}")));
            }
        },
    };
    let bar = progress(2 * args.seeds * kinds.len() as u64, "runs");
    let mut harms = Vec::new();
    for (index, kind) in kinds.into_iter().enumerate() {
        let before = 2 * args.seeds * index as u64;
        let mut told = |done| bar.set_position(before + done);
        harms.push(harm(kind, true, (args.seeds, args.orders), &mut told));
    }
    bar.finish_and_clear();
    if args.json {
        println!("{:#}", harms.iter().map(document).collect::<Value>());
    } else {
        harms.iter().for_each(print);
    }
    let beyond: Vec<&str> = harms.iter().filter(|h| !h.holds()).map(|h| h.kind.name()).collect();
    match beyond.is_empty() {
        true => Ok(()),
        false => Err(Failure::Run(format!("beyond the bound: {}", beyond.join(", ")))),
    }
}

fn print(harm: &Harm) {
    println!("{}: {}; {} seeds", harm.kind.name(), harm.kind.about(), harm.seeds);
    println!("  {:26} {:>10} {:>10} {:>20}", "what others have", "without", "with", "allowed");
    for check in &harm.checks {
        let HarmCheck { what, without, with, allowed } = check;
        let digits = if *what == "P(F)" { 3 } else { 1 };
        let bounds = format!("{:.digits$} to {:.digits$}", allowed.0, allowed.1);
        let verdict = if check.holds() { "" } else { "  BEYOND" };
        println!("  {what:26} {without:>10.digits$} {with:>10.digits$} {bounds:>20}{verdict}");
    }
    harm.failures.iter().for_each(|failure| println!("  {failure}"));
}

fn document(harm: &Harm) -> Value {
    let check = |c: &HarmCheck| {
        json!({
            "what": c.what, "without": c.without, "with": c.with, "least": c.allowed.0,
            "most": c.allowed.1, "holds": c.holds(),
        })
    };
    json!({
        "attack": harm.kind.name(),
        "about": harm.kind.about(),
        "seeds": harm.seeds,
        "without": service(&harm.without),
        "with": service(&harm.with),
        "checks": harm.checks.iter().map(check).collect::<Vec<_>>(),
        "failures": harm.failures,
        "holds": harm.holds(),
    })
}

pub(super) fn service(service: &Service) -> Value {
    json!({
        "messages": service.messages,
        "oml_p50_ns": service.oml_ns.0,
        "oml_p99_ns": service.oml_ns.1,
        "p_fair": service.p_fair,
        "answers": service.answers,
        "latency_p50_ns": service.latency_ns.0,
        "latency_p99_ns": service.latency_ns.1,
    })
}
