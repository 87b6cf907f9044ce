//! Folders of replicas that are set back to older copies, in nine arrangements: whose (the leader's, a
//! follower's, that of a leader that died and came back) and how (one under traffic, one without, two at once).
//!
//! One: two replicas acknowledge while the third is down, both die, one is set back and starts with the
//! third. They must elect nobody, and the one must say why; with the other one, which is whole, all go on.
//! Two: all acknowledge and die, the third last; nobody may lead, and both must say why, until an operator lets
//! one of them elect the third. Nothing acknowledged is lost in any of them.

use std::time::{Duration, Instant};

use types::Nanos;

use super::PATIENCE;
use super::disks::{copy, set_back};
use super::fault::{CLOSE, Done};
use super::site::{CLIENTS, Site};
use host::failure::Failure;
use host::replica::node::Status;

/// Names of the nine arrangements: whose folder, then how.
pub const NAMES: [&str; 9] = [
    "leader under traffic",
    "leader without traffic",
    "leader and another one",
    "follower under traffic",
    "follower without traffic",
    "two followers",
    "rejoined leader under traffic",
    "rejoined leader without traffic",
    "rejoined leader and another one",
];
/// How long nobody may lead who must not: some fifteen elections.
const REFUSING: Duration = Duration::from_secs(2);
/// How long is acknowledged what copies lack.
const BEYOND: Duration = Duration::from_millis(400);
/// How long replicas may take until all are there again: one gets the whole log from the others.
const WHOLE: Duration = Duration::from_secs(60);
/// How long there is no traffic where there is none.
const REST: u64 = 6 * Nanos::SECOND;
/// Leaders that are killed before the one that is wanted leads.
const TURNS: usize = 40;

fn failed(why: impl Into<String>) -> Failure {
    Failure::Run(why.into())
}

/// One of them, by the seed; all take part again when it returns.
pub fn strike(site: &mut Site, seed: u64) -> Result<Done, Failure> {
    let number = (seed & 0xffff_ffff) as usize % NAMES.len();
    let (who, how) = (number / 3, number % 3);
    let victim = match who {
        1 => other(site, site.seat.held().1),
        _ => site.seat.held().1,
    };
    let older = keep(site, victim)?;
    if who == 0 {
        lead(site, victim)?;
    }
    let inputs = site.statuses().iter().flatten().map(|status| status.inputs).max().unwrap_or(0);
    let mut told = match how {
        2 => two(site, victim, &older)?,
        _ => one(site, victim, &older, how == 1)?,
    };
    told.name(NAMES.get(number).copied().unwrap_or_default());
    Ok(Done { inputs, ..told.done })
}

/// What came of one.
struct Told {
    done: Done,
}

impl Told {
    fn of(site: &Site, at: Nanos, lead_ns: u64, back: Nanos, said: String) -> Told {
        let rejoin_ns = site.clock.now().since(back);
        let done = Done {
            at,
            lead_ns,
            rejoin_ns,
            silent_ns: None,
            found: Some(said),
            installed: 0,
            replaced: None,
            inputs: 0,
        };
        Told { done }
    }

    fn name(&mut self, name: &str) {
        if let Some(said) = &mut self.done.found {
            *said = format!("{name}: {said}");
        }
    }
}

fn other(site: &Site, than: usize) -> usize {
    site.members().iter().copied().find(|number| *number != than).unwrap_or(0)
}

/// The folder of a replica as it is when it dies; then it comes back, and more is acknowledged than that
/// copy has.
fn keep(site: &mut Site, number: usize) -> Result<std::path::PathBuf, Failure> {
    let term = site.seat.held();
    site.roots.kill(number);
    let dir = site.roots.folder(number);
    let older = dir.with_extension("older");
    copy(&dir, &older)?;
    if term.1 == number && site.leader_after(term.0, PATIENCE).is_none() {
        return Err(failed("nobody came to lead"));
    }
    site.roots.revive(number)?;
    together(site)?;
    Ok(older)
}

fn together(site: &Site) -> Result<(), Failure> {
    match site.all_within(CLOSE, WHOLE) {
        true => Ok(()),
        false => {
            let standing = standing(site);
            Err(failed(format!("the replicas did not all come back in time: {standing}")))
        }
    }
}

/// How each replica stands, in words.
fn standing(site: &Site) -> String {
    let statuses = site.statuses();
    let stands = |(number, one): (usize, &Option<Status>)| match one {
        None => format!("replica {} does not answer", number + 1),
        Some(status) => status.to_string(),
    };
    statuses.iter().enumerate().map(stands).collect::<Vec<_>>().join("; ")
}

/// Two of three replicas go on without the third until each has all that any two have acknowledged:
/// whatever is committed now needs both.
fn go_on(site: &Site, two: [usize; 2]) -> Result<(), Failure> {
    let committed = |number: usize| site.roots.status(number).map_or(0, |status| status.committed);
    let most = || two.into_iter().map(committed).max().unwrap_or(0);
    let (mut before, mut rounds, from) = (most(), 2, Instant::now());
    while from.elapsed() < PATIENCE {
        if two.into_iter().all(|number| committed(number) > before) {
            // The first round may have ended with a late word of the third one.
            (before, rounds) = (most(), rounds - 1);
        }
        if rounds == 0 {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(failed(format!("two replicas did not go on in time: {}", standing(site))))
}

/// Leaders die until a certain one leads.
fn lead(site: &mut Site, wanted: usize) -> Result<(), Failure> {
    for _ in 0..TURNS {
        let (term, leader) = site.seat.held();
        if leader == wanted {
            return Ok(());
        }
        site.roots.kill(leader);
        site.leader_after(term, PATIENCE).ok_or_else(|| failed("nobody came to lead"))?;
        site.roots.revive(leader)?;
        together(site)?;
    }
    Err(failed(format!("replica {} did not come to lead", wanted + 1)))
}

/// Nobody may lead in a later term, and a replica must say that its disk is an older copy. What it says.
fn refuse(site: &Site, term: u64, number: usize) -> Result<String, Failure> {
    let from = Instant::now();
    if let Some((term, leader)) = site.leader_after(term, REFUSING) {
        let who = leader + 1;
        return Err(failed(format!(
            "replica {who} leads in term {term} without what was acknowledged"
        )));
    }
    while from.elapsed() < PATIENCE {
        let said = site.roots.status(number).and_then(|status| status.waits);
        if let Some(said) = said.filter(|said| said.contains("older copy")) {
            return Ok(format!("replica {}: {said}", number + 1));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(failed(format!("replica {} does not say that its disk is an older copy", number + 1)))
}

/// Marks the moment for the clients' figures, or lets them rest.
fn clients(site: &Site, rest: bool) -> Result<(), Failure> {
    let told = site.clients.call(CLIENTS, move |load, now, _| match rest {
        true => load.rest(REST),
        false => load.mark(now.now),
    });
    told.map_err(|error| failed(format!("the clients: {error}")))
}

fn one(
    site: &mut Site,
    victim: usize,
    older: &std::path::Path,
    quiet: bool,
) -> Result<Told, Failure> {
    let leader = site.seat.held().1;
    let whole = if leader == victim { other(site, victim) } else { leader };
    let behind = site.members().iter().copied().find(|n| *n != victim && *n != whole);
    let behind = behind.ok_or_else(|| failed("three replicas are needed"))?;
    site.roots.kill(behind);
    std::thread::sleep(BEYOND);
    if quiet {
        clients(site, true)?;
        std::thread::sleep(BEYOND);
    }
    let term = site.seat.held().0;
    let at = site.clock.now();
    site.roots.kill(victim);
    site.roots.kill(whole);
    clients(site, false)?;
    set_back(&site.roots.folder(victim), older)?;
    site.roots.revive(victim)?;
    site.roots.revive(behind)?;
    let said = refuse(site, term, victim)?;
    let back = site.clock.now();
    site.roots.revive(whole)?;
    site.leader_after(term, PATIENCE).ok_or_else(|| failed("nobody came to lead"))?;
    let lead_ns = site.clock.now().since(at);
    together(site)?;
    Ok(Told::of(site, at, lead_ns, back, said))
}

fn two(site: &mut Site, victim: usize, older: &std::path::Path) -> Result<Told, Failure> {
    let second = other(site, victim);
    let whole = site.members().iter().copied().find(|n| *n != victim && *n != second);
    let whole = whole.ok_or_else(|| failed("three replicas are needed"))?;
    let also = keep(site, second)?;
    std::thread::sleep(BEYOND);
    let at = site.clock.now();
    site.roots.kill(victim);
    go_on(site, [second, whole])?;
    let term = site.seat.held().0;
    site.roots.kill(second);
    site.roots.kill(whole);
    clients(site, false)?;
    set_back(&site.roots.folder(victim), older)?;
    set_back(&site.roots.folder(second), &also)?;
    site.revive_all()?;
    let said = format!("{}; {}", refuse(site, term, victim)?, refuse(site, term, second)?);
    let back = site.clock.now();
    site.roots.kill(second);
    site.roots.kill(whole);
    let told = site.roots.recover(second, whole)?;
    if !told.contains("can't tell") {
        return Err(failed(format!("the operator was not told what can't be proved: {told}")));
    }
    site.revive_all()?;
    site.leader_after(term, PATIENCE).ok_or_else(|| failed("nobody came to lead"))?;
    let lead_ns = site.clock.now().since(at);
    together(site)?;
    Ok(Told::of(site, at, lead_ns, back, said))
}
