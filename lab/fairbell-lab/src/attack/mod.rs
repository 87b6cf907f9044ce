//! `fairbell-lab attack`: attacks on the doors of an exchange of our own, in this process and on the
//! loopback address, while honest clients trade.
//!
//! Honest clients take turns, each order waiting for the answer to the one before, so that what
//! they ask for is the same in every run; first alone, then while the attack goes on. What must
//! hold in every attack: nobody got in, every honest order was accepted, the honest p99 is within
//! [`SLOWER_MAX`] times that of the same run before the attack, memory grew by less than
//! [`GROWN_MAX`], and the engine's state after the honest inputs is that of a run without attack.
//! Each attack has conditions of its own beside these, and a control (`--control`) in which its
//! defence is taken away and it has to be found out.

mod case;
mod cases;
pub mod flood;
pub(crate) mod line;
mod site;
pub mod strangers;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use exchange::Refusal;
use net::Clock;
use serde_json::{Value, json};
use telemetry::Recorder;
use types::{Price, Side, Symbol};

use crate::resident::resident;
use case::{AttackCase, Evidence, Seen, Tools};
use cases::CASES;
use fairbell::report::numbers::{grouped, micros};
use host::failure::Failure;
use line::{Fix, Line, Login, Ouch};
use site::{Doors, HONEST, Outcome, Site, Terms};

/// Options of `fairbell-lab attack`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab attack list                 what there is, what must hold, what controls take away\n  \
    fairbell-lab attack all                  every attack, one after the other\n  \
    fairbell-lab attack half-open --json     one, as a JSON document\n  \
    fairbell-lab attack all --control        each without its defence: all have to be found out\n  \
    fairbell-lab attack flood                orders as fast as 8 connections take them, 60 s; not in all\n\n\
    The exchange is made for the purpose, in this process; nothing else is attacked.")]
pub struct AttackArgs {
    /// Name of an attack, or `list`, `all`
    #[arg(default_value = "all")]
    pub name: String,
    /// Orders of honest clients before the attack, and as many while it goes on
    #[arg(long, value_name = "N", default_value_t = 900,
          value_parser = clap::value_parser!(u32).range(30..=100_000))]
    pub orders: u32,
    /// Take each attack's defence away; the run fails if an attack is not found out then
    #[arg(long)]
    pub control: bool,
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
/// How many times as long honest orders may take at the 99th percentile.
pub const SLOWER_MAX: u64 = 3;
/// Bytes by which the process may grow during an attack, attackers included.
pub const GROWN_MAX: u64 = 64 << 20;

/// How an attack is played and judged.
#[derive(Clone, Copy, Debug)]
pub struct Play {
    /// Honest orders before the attack, and as many while it goes on.
    pub orders: u32,
    /// Without the attack's defence.
    pub control: bool,
    /// Whether the honest p99 is judged: not on a machine that others use at the same time.
    pub times: bool,
}

/// One attack, and what became of it.
pub struct Attacked {
    /// Its name; "none" for the run without.
    pub name: &'static str,
    /// What is done.
    pub about: &'static str,
    /// What the attacker saw.
    pub seen: Option<Seen>,
    /// Order to acceptance of honest clients before the attack and while it went on.
    pub quiet: Recorder,
    /// See `quiet`.
    pub during: Recorder,
    /// Honest orders accepted, of both times.
    pub accepted: u32,
    /// Bytes by which the process had grown at the end of the attack.
    pub grown: u64,
    outcome: Outcome,
    /// Why it was not contained; empty when it was.
    pub complaints: Vec<String>,
}

/// All attacks, or the one named, each against a fresh exchange, after a run without.
///
/// # Errors
/// When an exchange can't be started or honest clients can't log on.
pub fn attacks(name: &str, play: Play) -> Result<Vec<Attacked>, Failure> {
    let mut all = vec![attack(&Terms::new()?, None, play)?];
    for case in CASES.iter().filter(|case| name == "all" || case.name == name) {
        let mut terms = Terms::new()?;
        if play.control {
            (case.weaken)(&mut terms);
        }
        let mut one = attack(&terms, Some(case), play)?;
        let (calm, outcome) = (&all[0].outcome, &one.outcome);
        if outcome.digest != calm.digest || outcome.inputs != calm.inputs {
            one.complaints.push(format!(
                "the engine's digest is {:016x} after {} inputs, without attack {:016x} after {}",
                outcome.digest, outcome.inputs, calm.digest, calm.inputs
            ));
        }
        all.push(one);
    }
    Ok(all)
}

fn attack(terms: &Terms, case: Option<&AttackCase>, play: Play) -> Result<Attacked, Failure> {
    let site = Site::start(terms)?;
    let (doors, clock) = (site.doors, site.clock);
    let mut clients = Honest::log_on(doors, clock, terms)?;
    let (mut quiet, mut during) = (Recorder::new(), Recorder::new());
    let mut accepted = clients.trade(play.orders, &mut quiet);
    let stop = AtomicBool::new(false);
    let tools = Tools { doors, clock, terms, stop: &stop };
    let (before, began) = (resident()?, Instant::now());
    let (lasted, grown, seen) = thread::scope(|scope| {
        let attacker = case.map(|case| scope.spawn(|| (case.run)(&tools)));
        // The attack is under way before the first order.
        thread::sleep(SETTLE);
        accepted += clients.trade(play.orders, &mut during);
        stop.store(true, Ordering::Relaxed);
        let seen = attacker.map(thread::ScopedJoinHandle::join).transpose();
        let grown = resident().map(|after| after.saturating_sub(before));
        (began.elapsed(), grown, seen)
    });
    thread::sleep(SETTLE);
    let (outcome, grown) = (site.end()?, grown?);
    let seen = seen.map_err(|_| Failure::Run("an attacker's thread panicked".to_string()))?;
    let mut complaints = common_complaints(play, accepted, grown, seen.as_ref());
    if play.times {
        complaints.extend(too_slow(quiet.quantile(0.99), during.quantile(0.99)));
    }
    if let (Some(case), Some(seen)) = (case, &seen) {
        complaints.extend((case.judge)(&Evidence { outcome: &outcome, seen, lasted }));
    }
    let (name, about) = case.map_or(("none", "honest clients alone"), |c| (c.name, c.about));
    Ok(Attacked { name, about, seen, quiet, during, accepted, grown, outcome, complaints })
}

/// What must hold in every attack, but for times and the engine's digest.
fn common_complaints(play: Play, accepted: u32, grown: u64, seen: Option<&Seen>) -> Vec<String> {
    let mut complaints = Vec::new();
    if accepted < 2 * play.orders {
        complaints.push(format!("{accepted} of {} honest orders were accepted", 2 * play.orders));
    }
    if grown >= GROWN_MAX {
        let (grown, most) = (grouped(grown), grouped(GROWN_MAX));
        complaints.push(format!("memory grew by {grown} bytes, allowed are {most}"));
    }
    if let Some(seen) = seen.filter(|seen| seen.succeeded > 0) {
        complaints.push(format!("{} of {} attempts succeeded", seen.succeeded, seen.attempts));
    }
    complaints
}

/// Honest orders took too much longer than before the attack, ns at the 99th percentile.
fn too_slow(quiet: u64, during: u64) -> Option<String> {
    (during > SLOWER_MAX * quiet).then(|| {
        let (quiet, during) = (micros(quiet), micros(during));
        format!(
            "honest p99 {during} us, before the attack {quiet}, allowed {SLOWER_MAX} times that"
        )
    })
}

/// One client with a certificate, one with a bound address and a hashed password, one over FIX.
struct Honest {
    sealed: Ouch,
    plain: Ouch,
    fix: Fix,
    symbol: Symbol,
    /// Orders entered.
    entered: u32,
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
        let symbol = terms.symbol();
        let (sealed, plain) = (ouch(0, "HON1", "secret")?, ouch(1, "HON2", "victim")?);
        let line = Line::open(HONEST, doors.fix[1], None);
        let mut fix = Fix::new(line.map_err(|error| failed(&error.to_string()))?, clock, "HON3");
        if !fix.logon("secret", 1, false) {
            return Err(failed("HON3"));
        }
        Ok(Honest { sealed, plain, fix, symbol, entered: 0 })
    }

    /// In turn a buyer, a seller who meets him, and one who waits below; how many orders were
    /// accepted.
    fn trade(&mut self, orders: u32, rtt: &mut Recorder) -> u32 {
        let (price, below) = (Price::from_whole(100), Price::from_whole(99));
        for n in 0..orders {
            let number = self.entered / 3 + 1;
            let turn = self.entered % 3;
            self.entered += 1;
            let asked = Instant::now();
            let accepted = match turn {
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
        for case in &CASES {
            println!("{:18} {}", case.name, case.about);
            println!("{:18}   must hold: {}", "", case.must_hold);
            println!("{:18}   control:   {}", "", case.control);
        }
        println!("{:18} {}", flood::NAME, flood::ABOUT);
        return Ok(());
    }
    if args.name == flood::NAME {
        return flood::run(&args.flood, args.json);
    }
    if args.name != "all" && !CASES.iter().any(|case| case.name == args.name) {
        let names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
        let names = names.join(", ");
        return Err(Failure::Usage(format!("no attack {:?}; there are: {names}", args.name)));
    }
    let play = Play { orders: args.orders, control: args.control, times: true };
    let all = attacks(&args.name, play)?;
    if args.json {
        println!("{:#}", all.iter().map(document).collect::<Value>());
    } else {
        print(&all);
    }
    let of = |wrong: fn(&Attacked) -> bool| -> Vec<&str> {
        all.iter().filter(|one| wrong(one)).map(|one| one.name).collect()
    };
    let (failed, what) = match args.control {
        true => (of(|one| one.seen.is_some() && one.complaints.is_empty()), "not found out"),
        false => (of(|one| !one.complaints.is_empty()), "not contained"),
    };
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Failure::Run(format!("{what}: {}", failed.join(", ")))),
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
    println!(
        "honest clients' round trip, us      before: p50      p99   during: p50      p99   digest"
    );
    for one in all {
        let [a, b] =
            [&one.quiet, &one.during].map(|of| [0.5, 0.99].map(|q| micros(of.quantile(q))));
        let digest = one.outcome.digest;
        println!(
            "{:34} {:>12} {:>8} {:>13} {:>8}   {digest:016x}",
            one.name, a[0], a[1], b[0], b[1]
        );
        if let Some(seen) = &one.seen {
            let (most, grown) = (one.outcome.strangers, grouped(one.grown >> 10));
            println!("  attacker: {seen}");
            println!("  at most {most} not logged on; memory grew by {grown} KiB");
        }
        one.reasons().iter().for_each(|(why, count)| println!("  {count:>8} {why}"));
        one.complaints.iter().for_each(|complaint| println!("  NOT CONTAINED: {complaint}"));
    }
}

fn document(one: &Attacked) -> Value {
    json!({
        "attack": one.name,
        "about": one.about,
        "attempts": one.seen.as_ref().map(|seen| seen.attempts),
        "succeeded": one.seen.as_ref().map(|seen| seen.succeeded),
        "refused": one.seen.as_ref().map(|seen| seen.refused),
        "told": one.seen.as_ref().map(|seen| seen.told.clone()),
        "honest_orders_accepted": one.accepted,
        "quiet_p50_ns": one.quiet.quantile(0.5),
        "quiet_p99_ns": one.quiet.quantile(0.99),
        "honest_p50_ns": one.during.quantile(0.5),
        "honest_p99_ns": one.during.quantile(0.99),
        "honest_max_ns": one.during.summary().max,
        "memory_grown_bytes": one.grown,
        "digest": format!("{:016x}", one.outcome.digest),
        "honest_inputs": one.outcome.inputs,
        "not_logged_on_max": one.outcome.strangers,
        "reasons": one.reasons().into_iter().collect::<std::collections::BTreeMap<_, _>>(),
        "complaints": one.complaints,
        "contained": one.complaints.is_empty(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_slow_large_incomplete_or_let_in_is_complained_of() {
        assert_eq!(too_slow(100, 300), None);
        assert!(too_slow(100, 301).is_some());
        let play = Play { orders: 10, control: false, times: true };
        let none: [String; 0] = [];
        assert_eq!(common_complaints(play, 20, GROWN_MAX - 1, None), none);
        assert_eq!(common_complaints(play, 19, 0, None).len(), 1);
        assert_eq!(common_complaints(play, 20, GROWN_MAX, None).len(), 1);
        let seen = Seen { attempts: 5, succeeded: 1, ..Seen::default() };
        assert_eq!(common_complaints(play, 20, 0, Some(&seen)).len(), 1);
    }
}
