//! `fairbell attack`: attacks on the doors of an exchange of our own, in this process and on the
//! loopback address, while honest clients trade.
//!
//! Honest clients take turns, each order waiting for the answer to the one before, so that what
//! they ask for is the same in every run. An attack has failed when it was refused or contained
//! with the reason, every honest order was accepted, and the engine's state after the honest
//! inputs is that of a run without attack.

mod deeds;
pub mod flood;
mod line;
mod site;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use net::Clock;
use roles::Refusal;
use serde_json::{Value, json};
use telemetry::Recorder;
use types::{Price, Side, Symbol};

use crate::Failure;
use crate::report::numbers::micros;
use deeds::{DEEDS, Deed, Tools};
use line::{Fix, Line, Login, Ouch};
use site::{Doors, HONEST, Outcome, Site, Terms};

/// Options of `fairbell attack`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell attack list                 what there is\n  \
    fairbell attack all                  every attack, one after the other\n  \
    fairbell attack half-open --json     one, as a JSON document\n  \
    fairbell attack flood                orders as fast as 8 connections take them, 60 s; not in all\n\n\
    The exchange is made for the purpose, in this process; nothing else is attacked.")]
pub struct AttackArgs {
    /// Name of an attack, or `list`, `all`
    #[arg(default_value = "all")]
    pub name: String,
    /// Orders of honest clients in each run
    #[arg(long, value_name = "N", default_value_t = 900,
          value_parser = clap::value_parser!(u32).range(30..=100_000))]
    pub orders: u32,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
    /// Options of the flood
    #[command(flatten)]
    pub flood: flood::FloodArgs,
}

/// Between two honest orders.
const PACE: Duration = Duration::from_millis(1);
/// Between the end of the honest flow and that of the exchange, for what is under way.
const SETTLE: Duration = Duration::from_millis(100);
/// How often an honest logon is tried.
const LOGONS: usize = 50;

/// One attack, and what became of it.
pub struct Attacked {
    /// Its name; "none" for the run without.
    pub name: &'static str,
    /// What is done.
    pub about: &'static str,
    /// What the attacker saw.
    pub seen: String,
    /// Order to acceptance of honest clients.
    pub rtt: Recorder,
    /// Honest orders accepted.
    pub accepted: u32,
    outcome: Outcome,
    /// Why it was not contained; empty when it was.
    pub complaints: Vec<String>,
}

/// All attacks, or the one named, each against a fresh exchange, after a run without. Without
/// limits (`limited` false) some of them have to show.
///
/// # Errors
/// When an exchange can't be started or honest clients can't log on.
pub fn attacks(name: &str, orders: u32, limited: bool) -> Result<Vec<Attacked>, Failure> {
    let terms = Terms::new(limited)?;
    let mut all = vec![attack(&terms, None, orders)?];
    for deed in DEEDS.iter().filter(|deed| name == "all" || deed.name == name) {
        let mut one = attack(&terms, Some(deed), orders)?;
        let (calm, outcome) = (&all[0].outcome, &one.outcome);
        if outcome.digest != calm.digest || outcome.inputs != calm.inputs {
            one.complaints.push(format!(
                "the engine's digest is {:016x} after {} inputs, without attack {:016x} after {}",
                outcome.digest, outcome.inputs, calm.digest, calm.inputs
            ));
        }
        one.complaints.extend((deed.judge)(&terms, outcome, &one.seen).err());
        all.push(one);
    }
    Ok(all)
}

fn attack(terms: &Terms, deed: Option<&Deed>, orders: u32) -> Result<Attacked, Failure> {
    let site = Site::start(terms)?;
    let (doors, clock) = (site.doors, site.clock);
    let mut clients = Honest::log_on(doors, clock, terms)?;
    let stop = AtomicBool::new(false);
    let tools = Tools { doors, clock, terms, stop: &stop };
    let mut rtt = Recorder::new();
    let (accepted, seen) = thread::scope(|scope| {
        let attacker = deed.map(|deed| scope.spawn(|| (deed.run)(&tools)));
        // The attack is under way before the first order.
        thread::sleep(SETTLE);
        let accepted = clients.trade(orders, &mut rtt);
        stop.store(true, Ordering::Relaxed);
        let seen = attacker.map_or(Ok(String::new()), thread::ScopedJoinHandle::join);
        (accepted, seen)
    });
    thread::sleep(SETTLE);
    let outcome = site.end()?;
    let mut complaints = Vec::new();
    if accepted < orders {
        complaints.push(format!("{accepted} of {orders} honest orders were accepted"));
    }
    let seen = seen.map_err(|_| Failure::Run("an attacker's thread panicked".to_string()))?;
    if seen.contains("got in") && !seen.contains(" 0 got in") {
        complaints.push(seen.clone());
    }
    let (name, about) = deed.map_or(("none", "honest clients alone"), |d| (d.name, d.about));
    Ok(Attacked { name, about, seen, rtt, accepted, outcome, complaints })
}

/// One client with a certificate, one with a bound address and a hashed password, one over FIX.
struct Honest {
    sealed: Ouch,
    plain: Ouch,
    fix: Fix,
    symbol: Symbol,
}

impl Honest {
    fn log_on(doors: Doors, clock: Clock, terms: &Terms) -> Result<Honest, Failure> {
        let failed = |what: &str| Failure::Run(format!("an honest client can't log on: {what}"));
        let ouch = |door: usize, user: &str, password: &str| {
            for _ in 0..LOGONS {
                let tls = (door == 0).then_some(&terms.honest);
                let line = Line::open(HONEST, doors.ouch[door], tls);
                let line = line.map_err(|error| failed(&error.to_string()))?;
                if let Login::In(ouch) = Ouch::login(line, clock, (user, password), 1) {
                    return Ok(ouch);
                }
                thread::sleep(SETTLE);
            }
            Err(failed(user))
        };
        let symbol = crate::config::Config::default().instruments().first().map(|i| i.symbol);
        let symbol = symbol.ok_or_else(|| failed("no instrument"))?;
        let (sealed, plain) = (ouch(0, "HON1", "secret")?, ouch(1, "HON2", "victim")?);
        let line = Line::open(HONEST, doors.fix[1], None);
        let mut fix = Fix::new(line.map_err(|error| failed(&error.to_string()))?, clock, "HON3");
        if !fix.logon("secret", 1, false) {
            return Err(failed("HON3"));
        }
        Ok(Honest { sealed, plain, fix, symbol })
    }

    /// In turn a buyer, a seller who meets him, and one who waits below; how many orders were
    /// accepted.
    fn trade(&mut self, orders: u32, rtt: &mut Recorder) -> u32 {
        let (price, below) = (Price::from_whole(100), Price::from_whole(99));
        for n in 0..orders {
            let number = n / 3 + 1;
            let asked = Instant::now();
            let accepted = match n % 3 {
                0 => self.sealed.order(number, Side::Buy, price, self.symbol),
                1 => self.plain.order(number, Side::Sell, price, self.symbol),
                _ => self.fix.order(number, below, self.symbol),
            };
            if !accepted {
                return n;
            }
            rtt.record(u64::try_from(asked.elapsed().as_nanos()).unwrap_or(u64::MAX));
            thread::sleep(PACE);
        }
        orders
    }
}

/// The command.
///
/// # Errors
/// When an attack was not contained.
pub fn run(args: &AttackArgs) -> Result<(), Failure> {
    if args.name == "list" {
        DEEDS.iter().for_each(|deed| println!("{:18} {}", deed.name, deed.about));
        println!("{:18} {}", flood::NAME, flood::ABOUT);
        return Ok(());
    }
    if args.name == flood::NAME {
        return flood::run(&args.flood, args.json);
    }
    if args.name != "all" && !DEEDS.iter().any(|deed| deed.name == args.name) {
        let names: Vec<&str> = DEEDS.iter().map(|deed| deed.name).collect();
        let names = names.join(", ");
        return Err(Failure::Usage(format!("no attack {:?}; there are: {names}", args.name)));
    }
    let all = attacks(&args.name, args.orders, true)?;
    if args.json {
        println!("{:#}", all.iter().map(document).collect::<Value>());
    } else {
        print(&all);
    }
    let failed: Vec<&str> =
        all.iter().filter(|one| !one.complaints.is_empty()).map(|one| one.name).collect();
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Failure::Run(format!("not contained: {}", failed.join(", ")))),
    }
}

impl Attacked {
    /// Refusals, with their reasons, in words.
    fn reasons(&self) -> Vec<(&'static str, u64)> {
        let refusals =
            self.outcome.refusals.iter().map(|(why, n): &(Refusal, u64)| (why.text(), *n));
        let counters = &self.outcome.counters;
        let others = [
            ("TLS handshakes that failed", counters.handshakes_failed),
            ("TLS handshakes that took too long", counters.handshakes_late),
            ("connections refused before TLS", counters.handshakes_refused),
            ("sessions ended for a flood of messages", self.outcome.floods),
        ];
        refusals.chain(others).filter(|(_, count)| *count > 0).collect()
    }
}

fn print(all: &[Attacked]) {
    println!("honest clients' round trip, us        p50      p99      max   digest");
    for one in all {
        let [p50, p99] = [0.5, 0.99].map(|share| micros(one.rtt.quantile(share)));
        let max = micros(one.rtt.summary().max);
        let digest = one.outcome.digest;
        println!("{:32} {p50:>8} {p99:>8} {max:>8}   {digest:016x}", one.name);
        if !one.seen.is_empty() {
            println!("  attacker: {}; at most {} not logged on", one.seen, one.outcome.strangers);
        }
        one.reasons().iter().for_each(|(why, count)| println!("  {count:>8} {why}"));
        one.complaints.iter().for_each(|complaint| println!("  NOT CONTAINED: {complaint}"));
    }
}

fn document(one: &Attacked) -> Value {
    let summary = one.rtt.summary();
    json!({
        "attack": one.name,
        "about": one.about,
        "seen": one.seen,
        "honest_orders_accepted": one.accepted,
        "honest_p50_ns": one.rtt.quantile(0.5),
        "honest_p99_ns": one.rtt.quantile(0.99),
        "honest_max_ns": summary.max,
        "digest": format!("{:016x}", one.outcome.digest),
        "honest_inputs": one.outcome.inputs,
        "not_logged_on_max": one.outcome.strangers,
        "reasons": one.reasons().into_iter().collect::<std::collections::BTreeMap<_, _>>(),
        "complaints": one.complaints,
        "contained": one.complaints.is_empty(),
    })
}
