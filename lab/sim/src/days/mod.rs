//! A venue over many days without a restart: the real root, proxies and edges, listeners and traders, with
//! nights between the days, orders that stay over them, instruments that change, and faults.
//!
//! Each day is the venue's own: its schedule opens it with an auction and ends it. Trading takes some
//! seconds of virtual time; at night all clocks go on to the next morning at once, since nothing happens
//! then but time. Between the days: one instrument is traded from the third day on, one is no longer from
//! the fifth, one gets another tick with the second.
//!
//! What is checked at the end of every day, when all is told, and after every roll, when a day has begun:
//! the books of all listeners are the engine's; positions, bytes and books of the feed so far are those
//! of a replay of the log ([`exchange::audit`]); the session has the name of its day; every trader's own
//! ledger is what its statement says to the last lot, orders that are open included; reports, feed and
//! engine reconcile. One listener comes on the fourth day, knows the first day's session only, and has to
//! find its way. Nothing may overflow: events that have no encoding, numbers or times are failures.

mod actor;
mod trader;
mod world;

use std::ops::Range;

pub use trader::{Dealings, OpenOrder, Trader};
pub use world::soak::{MINUTES_MAX, Soak, SoakReport, soak};
pub use world::{Day, Ledgers, engine_config, run_seed};

/// A seeded bug that must be found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sabotage {
    /// An edge goes on with the first day's session name.
    OldSession,
    /// A trader misses one fill of seven.
    ForgetFill,
    /// Of what an edge hands on at the beginning of a day, the last packet never comes, nor any repair.
    LoseOpening,
}

/// What is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Days, two or more.
    pub days: u32,
    /// Requests of each day.
    pub requests: u32,
    /// A bug that is there.
    pub sabotage: Option<Sabotage>,
}

impl Default for Options {
    fn default() -> Options {
        Options { days: 7, requests: 400, sabotage: None }
    }
}

/// How often something happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Orders taken.
    pub orders: u64,
    /// Trades between two orders, each counted once.
    pub trades: u64,
    /// Orders that were open over a roll, at each.
    pub carried: u64,
    /// Orders ended with their day.
    pub day_ends: u64,
    /// Orders cancelled because their instrument went.
    pub delisted: u64,
    /// Orders cancelled because of a new tick.
    pub off_tick: u64,
    /// Requests refused.
    pub refused: u64,
    /// Messages of the feed.
    pub messages: u64,
    /// Rolls at which all listeners' books were compared, before and after.
    pub rolls: u64,
    /// Times a trader logged in.
    pub logins: u64,
    /// Messages that listeners asked for.
    pub repaired: u64,
    /// Proxies that died and came again.
    pub proxies_restarted: u64,
    /// Datagrams lost on links.
    pub lost: u64,
}

impl Counts {
    /// All of them with their names.
    pub fn all(&self) -> [(&'static str, u64); 13] {
        [
            ("orders taken", self.orders),
            ("trades", self.trades),
            ("orders carried over a roll", self.carried),
            ("orders ended with their day", self.day_ends),
            ("orders of delisted instruments", self.delisted),
            ("orders off a new tick", self.off_tick),
            ("requests refused", self.refused),
            ("messages of the feed", self.messages),
            ("rolls", self.rolls),
            ("logins", self.logins),
            ("messages repaired", self.repaired),
            ("proxies restarted", self.proxies_restarted),
            ("datagrams lost", self.lost),
        ]
    }

    fn add(&mut self, other: &Counts) {
        let Counts { orders, trades, carried, day_ends, delisted, off_tick, .. } = other;
        self.orders += orders;
        self.trades += trades;
        self.carried += carried;
        self.day_ends += day_ends;
        self.delisted += delisted;
        self.off_tick += off_tick;
        self.refused += other.refused;
        self.messages += other.messages;
        self.rolls += other.rolls;
        self.logins += other.logins;
        self.repaired += other.repaired;
        self.proxies_restarted += other.proxies_restarted;
        self.lost += other.lost;
    }
}

/// One seed.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What did not hold, the first few.
    pub failures: Vec<String>,
    /// How often what happened.
    pub counts: Counts,
    /// The days, in order.
    pub days: Vec<Day>,
    /// Everything that the log has.
    pub log: Vec<types::Input>,
}

/// Many seeds.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Seeds run.
    pub seeds: u64,
    /// Those that failed.
    pub failed: u64,
    /// The first failure of each, the first few.
    pub found: Vec<(u64, String)>,
    /// What happened in all seeds, added up.
    pub counts: Counts,
}

/// Runs many seeds on `threads` threads; `progress` hears how many are done and how many failed.
pub fn run_seeds(
    seeds: Range<u64>,
    threads: usize,
    options: &Options,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Summary {
    let run = |seed| (seed, run_seed(seed, options));
    let panicked = |seed, text: &str| {
        (seed, Report { failures: vec![format!("panic: {text}")], ..Report::default() })
    };
    let add = |sum: &mut Summary, (seed, report): (u64, Report)| {
        sum.seeds += 1;
        sum.counts.add(&report.counts);
        if let Some(first) = report.failures.into_iter().next() {
            sum.failed += 1;
            sum.found.push((seed, first));
            sum.found.sort();
            sum.found.truncate(10);
        }
        (sum.seeds, sum.failed)
    };
    crate::seeds::sum(seeds, threads, run, panicked, add, progress)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seed of the tests; printed with a failure.
    const SEED: u64 = 26;

    #[test]
    fn seven_days_are_one_story() {
        println!("seed {SEED}");
        let report = run_seed(SEED, &Options::default());
        assert_eq!(report.failures, Vec::<String>::new());
        assert_eq!(report.days.len(), 7);
        assert!(report.counts.is_rich(), "{:?}", report.counts);
        let names: std::collections::BTreeSet<_> =
            report.days.iter().map(|day| day.session).collect();
        assert_eq!(names.len(), 7, "each day is a session of its own");
        let again = run_seed(SEED, &Options { days: 2, requests: 100, ..Options::default() });
        let twice = run_seed(SEED, &Options { days: 2, requests: 100, ..Options::default() });
        assert_eq!((again.failures, again.log), (twice.failures, twice.log), "the same again");
    }

    #[test]
    fn control_each_seeded_bug_is_found() {
        println!("seed {SEED}");
        for (sabotage, what) in [
            (Sabotage::OldSession, "listener"),
            (Sabotage::ForgetFill, "its ledger"),
            (Sabotage::LoseOpening, "did not come"),
        ] {
            let options = Options { days: 2, requests: 150, sabotage: Some(sabotage) };
            let report = run_seed(SEED, &options);
            let found = report.failures.iter().any(|failure| failure.contains(what));
            assert!(found, "{sabotage:?}: {:?}", report.failures);
        }
    }
}
