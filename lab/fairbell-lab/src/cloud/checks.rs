//! What must hold of a run in a box, whatever was done to its machines: each checker by its name.

use exchange::Role;
use host::failure::Failure;
use host::fleet::messages::Operation;
use participant::load::Load;
use serde::Serialize;
use types::Nanos;

use super::faults::Struck;
use super::measure::{self, Clocks, Early};
use super::participants::Tamper;
use super::service::Service;
use super::site::Site;
use crate::drill::Told;

/// The longest that a session may be away whose machine was restarted in good order, ns.
pub const RECONNECT_NS: u64 = Nanos::SECOND;
/// Wrong clocks that are told.
const TOLD_MAX: usize = 5;
/// The input that the replay lacks in the control of the books.
const LEFT_OUT: u64 = 400;

/// What is wrong with a run, by the checker that finds it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Checker {
    /// A request has no answer.
    Lost,
    /// A request has two answers.
    Twice,
    /// Participants were told something else than the log says.
    Told,
    /// Books made of the feed are not those that the log makes.
    Books,
    /// A listener did not hear each message of the feed.
    Gap,
    /// Something was released before its deadline.
    Early,
    /// A clock was beyond its bound.
    Clock,
    /// A session was away for too long.
    Reconnect,
    /// The run itself went wrong.
    Run,
}

impl Checker {
    fn name(self) -> &'static str {
        match self {
            Checker::Lost => "lost",
            Checker::Twice => "twice",
            Checker::Told => "told",
            Checker::Books => "books",
            Checker::Gap => "gap",
            Checker::Early => "early",
            Checker::Clock => "clock",
            Checker::Reconnect => "reconnect",
            Checker::Run => "run",
        }
    }
}

/// Checkers that a run can be tampered with for. The others have theirs in faults: a stepped clock releases
/// early and is beyond its bound.
const CONTROLS: [Checker; 4] = [Checker::Lost, Checker::Twice, Checker::Books, Checker::Gap];

/// One of [`CONTROLS`] by its name.
///
/// # Errors
/// Another name.
pub fn control(name: &str) -> Result<Checker, String> {
    let known = CONTROLS.into_iter().find(|checker| checker.name() == name);
    known.ok_or_else(|| format!("one of {}", CONTROLS.map(Checker::name).join(", ")))
}

/// What a control does to a run, so that its checker has something to find.
pub fn tamper(controls: &[Checker]) -> Tamper {
    let has = |checker| controls.contains(&checker);
    Tamper { lose: has(Checker::Lost), double: has(Checker::Twice) }
}

/// A fault, and what it cost participants.
#[derive(Serialize, Clone, Debug)]
pub struct Window {
    /// Which fault.
    pub fault: String,
    /// Until all machines were back, ms.
    pub took_ms: u64,
    /// Sessions that end by it are soon on again.
    pub is_orderly: bool,
    /// What it cost.
    #[serde(flatten)]
    pub service: Service,
}

/// What was found.
#[derive(Serialize, Clone, Default, Debug)]
pub struct Checks {
    pub requests_sent: u64,
    pub requests_answered: u64,
    pub requests_lost: u64,
    pub answered_twice: u64,
    /// Answers to nothing asked.
    pub stray: u64,
    /// What participants were told, and what the log says they should have been.
    pub told: Told,
    pub logged: Told,
    /// What the log says to strategies at edges.
    pub strategies: Told,
    pub books_equal: bool,
    pub books_compared: u64,
    /// Listeners that lack messages of the feed, a line each.
    pub feed_gaps: Vec<String>,
    pub releases: Early,
    /// What `fairbell cluster status` said of the last ten seconds.
    pub live: serde_json::Value,
    /// Of the tree at the end; 1: it is the first one.
    pub tree_epoch: u64,
    /// Roots that were the reference of the clocks, one after another.
    pub clock_references: usize,
    pub clock_readings: usize,
    pub clock_beyond_bound: u64,
    pub clock_bound_held: bool,
    /// The first readings that were beyond their bound, a line each.
    pub clocks_wrong: Vec<String>,
    pub faults: Vec<Window>,
    pub problems: Vec<String>,
}

impl Checks {
    /// Judges a run by what is left of it; ends the site.
    ///
    /// # Errors
    /// What can't be read.
    pub fn of(
        site: &mut Site<'_>,
        (load, clocks): (&Load, &Clocks),
        (struck, end): (&[Struck], Nanos),
        controls: &[Checker],
    ) -> Result<Checks, Failure> {
        let leader = site.leader()?;
        let status = site.operate(&Operation::Status)?;
        if !site.config.strategies.0.is_empty() {
            measure::quiet(site, leader)?;
        }
        let mut listeners: Vec<Role> = site.end()?;
        if controls.contains(&Checker::Gap) {
            // As if it were that of another edge, which it is not.
            listeners.truncate(listeners.len() - 1);
            listeners.push(site.deaf_listener()?);
        }
        let without = controls.contains(&Checker::Books).then_some(LEFT_OUT);
        let log = measure::log(site, leader, &listeners, without)?;
        let (errors, beyond) = (clocks.errors(), clocks.beyond());
        let told = |(place, error, bound): &(usize, u64, u64)| {
            let name = &site.file.nodes[*place].name;
            format!("{name} by {} us, said {} us", error / Nanos::MICRO, bound / Nanos::MICRO)
        };
        let counts = load.counts();
        let windows = struck.iter().enumerate().map(|(number, one)| {
            let next = struck.get(number + 1).map_or(end, |next| next.at);
            Window {
                fault: one.fault.to_string(),
                took_ms: one.took_ms,
                is_orderly: one.fault.is_orderly(),
                service: Service::between(load.seen(), (one.at, next)),
            }
        });
        Ok(Checks {
            requests_sent: counts.asked,
            requests_answered: counts.answered,
            requests_lost: counts.lost,
            answered_twice: counts.duplicates,
            stray: counts.stray,
            told: Told::clients(&counts),
            logged: log.told,
            strategies: log.strategies,
            books_equal: log.books_equal,
            books_compared: log.positions,
            feed_gaps: log.gaps,
            releases: measure::early(site, clocks)?,
            live: status["fairness"].clone(),
            tree_epoch: status["tree_epoch"].as_u64().unwrap_or(0),
            clock_references: clocks.references(),
            clock_readings: errors.len(),
            clock_beyond_bound: beyond.len() as u64,
            clock_bound_held: beyond.is_empty() && !errors.is_empty(),
            clocks_wrong: beyond.iter().take(TOLD_MAX).map(told).collect(),
            faults: windows.collect(),
            problems: log.problems,
        })
    }

    /// What is wrong, and which checker says so.
    pub fn complaints(&self) -> Vec<(Checker, String)> {
        let mut all = Vec::new();
        let mut wrong = |is: bool, of: Checker, what: String| {
            all.extend(is.then(|| (of, format!("{}: {what}", of.name()))));
        };
        wrong(self.requests_sent == 0, Checker::Run, "nothing was sent".to_string());
        let lost =
            self.requests_lost.max(self.requests_sent.saturating_sub(self.requests_answered));
        wrong(lost > 0, Checker::Lost, format!("{lost} requests have no answer"));
        let twice = self.answered_twice + self.stray;
        wrong(twice > 0, Checker::Twice, format!("{twice} answers beyond one for each request"));
        wrong(
            self.told != self.logged,
            Checker::Told,
            format!("participants were told {:?}, and the log says {:?}", self.told, self.logged),
        );
        let why = self.problems.join("; ");
        wrong(!self.books_equal, Checker::Books, format!("they differ: {why}"));
        let few = self.books_compared == 0 && self.books_equal;
        wrong(few, Checker::Books, "none were compared".to_string());
        wrong(!self.feed_gaps.is_empty(), Checker::Gap, self.feed_gaps.join("; "));
        let Early { releases, early, most_ns } = self.releases;
        let by = most_ns / Nanos::MICRO;
        let what = format!("{early} of {releases} releases, by up to {by} us");
        wrong(early > 0, Checker::Early, what);
        let beyond = self.clock_beyond_bound;
        let which = self.clocks_wrong.join(", ");
        let what = format!("UNFAIR: {beyond} readings are beyond their bound: {which}");
        wrong(beyond > 0, Checker::Clock, what);
        wrong(self.clock_readings == 0, Checker::Clock, "none was read".to_string());
        let late = self.faults.iter().filter(|window| window.is_orderly);
        let late: usize = late.map(|window| window.service.late(RECONNECT_NS)).sum();
        let what =
            format!("{late} sessions were not on again within {} ms", RECONNECT_NS / 1_000_000);
        wrong(late > 0, Checker::Reconnect, what);
        let silent =
            self.faults.iter().filter(|window| window.service.to_serve_ns.is_none()).count();
        let what = format!("after {silent} faults a participant was refused everything");
        wrong(silent > 0, Checker::Run, what);
        all
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A run of which nothing is wrong.
    pub fn good() -> Checks {
        let told = Told { accepted: 7, ..Told::default() };
        let service = Service {
            to_serve_ns: Some(7),
            longest_wait_ns: 7,
            reconnects_ns: vec![Some(RECONNECT_NS)],
        };
        let window = Window { fault: "restart".to_string(), took_ms: 1, is_orderly: true, service };
        Checks {
            requests_sent: 10,
            requests_answered: 10,
            told,
            logged: told,
            books_equal: true,
            books_compared: 3,
            releases: Early { releases: 9, ..Early::default() },
            clock_readings: 5,
            clock_bound_held: true,
            faults: vec![window],
            ..Checks::default()
        }
    }

    type Injection = (Checker, fn(&mut Checks));

    #[test]
    fn each_checker_finds_its_own_fault_and_no_other() {
        assert_eq!(good().complaints(), []);
        let faults: [Injection; 14] = [
            (Checker::Lost, |of| of.requests_lost = 1),
            (Checker::Lost, |of| of.requests_answered = 9),
            (Checker::Twice, |of| of.answered_twice = 1),
            (Checker::Twice, |of| of.stray = 1),
            (Checker::Told, |of| of.told.executions = 1),
            (Checker::Books, |of| of.books_equal = false),
            (Checker::Books, |of| of.books_compared = 0),
            (Checker::Gap, |of| of.feed_gaps.push("listener 1 heard nothing".to_string())),
            (Checker::Early, |of| of.releases.early = 1),
            (Checker::Clock, |of| of.clock_beyond_bound = 1),
            (Checker::Clock, |of| of.clock_readings = 0),
            (Checker::Reconnect, |of| of.faults[0].service.reconnects_ns[0] = None),
            (Checker::Reconnect, |of| {
                of.faults[0].service.reconnects_ns[0] = Some(RECONNECT_NS + 1);
            }),
            (Checker::Run, |of| of.faults[0].service.to_serve_ns = None),
        ];
        for (checker, inject) in faults {
            let mut checks = good();
            inject(&mut checks);
            let found: Vec<Checker> = checks.complaints().into_iter().map(|(of, _)| of).collect();
            assert_eq!(found, [checker]);
        }
        // What is killed may take its time.
        let mut killed = good();
        killed.faults[0].is_orderly = false;
        killed.faults[0].service.reconnects_ns[0] = None;
        assert_eq!(killed.complaints(), []);
    }
}
