//! What is done to the machines of a box while participants trade.

use std::str::FromStr;
use std::time::{Duration, Instant};

use fairbell::options::duration;
use host::failure::Failure;
use host::fleet::credentials::{self, Credentials, DAYS};
use host::fleet::file::NodeRole;
use host::fleet::messages::Operation;
use host::sockets::io;
use net::Clock;
use net::plane::drill::{self, Intruder, Programs};
use rustix::process::{Pid, Signal, kill_process};

use types::Nanos;

use super::site::{Site, ZONES};

/// How long a fault lasts where nothing else is said.
const LASTS: Duration = Duration::from_secs(1);
/// Longest wait for a node that is to come back.
const BACK_MAX: Duration = Duration::from_secs(30);
/// What a slow machine's packets take longer, ns.
const SLOW_NS: u64 = 5_000_000;

/// Longest wait until a journal finds that its disk is full, and that it is not any more.
const FULL_MAX: Duration = Duration::from_secs(30);
/// Between two looks at that.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Begin of the alarm of a journal without room, behind the replica's name.
const FULL: &str = "journal-full";

/// What is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Nothing: what everything else is compared with.
    None,
    /// Its power is cut: the process ends, what it has not synced is lost; it is started again when the
    /// fault is over.
    Kill,
    /// It is stopped as a VM that is not scheduled.
    Pause,
    /// Nothing reaches it, and nothing of it reaches anybody.
    Cut,
    /// Nothing of it reaches anybody; it hears everything.
    CutOut,
    /// Its packets take 5 ms longer, both ways.
    Slow,
    /// Its free-running clock jumps ahead by 5 ms.
    Step,
    /// It is told to stop, and started again.
    Restart,
    /// Its certificate is revoked; it gets another one and is started again.
    Revoke,
    /// All keys change.
    Rotate,
    /// It is killed, its journal put back to what it was when trading began, and started again.
    OldDisk,
    /// A proxy that stands by takes its place.
    Replace,
    /// Its disk has no room, until its journal found that out and the fault is over.
    DiskFull,
    /// The power of all machines of a zone is cut at once.
    ZoneLost,
    /// Another root leads: this one, or by the name `next` the one behind the leader.
    Lead,
    /// Every machine is told to stop and started again with the other program, one after another.
    Upgrade,
    /// Its interface is taken down, and up again.
    InterfaceDown,
    /// The programs that its process has attached to interfaces are taken off them.
    ProgramDetached,
    /// Another program takes the place in front of its stack, whoever had it.
    XdpTaken,
}

/// All of them by name, in the order of drills.
pub const KINDS: &[(&str, Kind)] = &[
    ("none", Kind::None),
    ("kill", Kind::Kill),
    ("pause", Kind::Pause),
    ("cut", Kind::Cut),
    ("cut-out", Kind::CutOut),
    ("slow", Kind::Slow),
    ("step", Kind::Step),
    ("restart", Kind::Restart),
    ("revoke", Kind::Revoke),
    ("rotate", Kind::Rotate),
    ("old-disk", Kind::OldDisk),
    ("replace", Kind::Replace),
    ("disk-full", Kind::DiskFull),
    ("zone-lost", Kind::ZoneLost),
    ("lead", Kind::Lead),
    ("upgrade", Kind::Upgrade),
    ("interface-down", Kind::InterfaceDown),
    ("program-detached", Kind::ProgramDetached),
    ("xdp-taken", Kind::XdpTaken),
];

impl Kind {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        KINDS.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// Whether it needs programs that machines have attached.
    pub fn needs_programs(self) -> bool {
        self == Kind::ProgramDetached
    }

    /// Whether it is everybody's, and no machine's.
    fn is_of_all(self) -> bool {
        matches!(self, Kind::None | Kind::Rotate | Kind::Upgrade)
    }
}

/// A fault: what, whose, when and for how long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    kind: Kind,
    /// Name of a node or a zone, `leader`, or `next`; empty where the fault is everybody's.
    target: String,
    at: Duration,
    lasts: Duration,
}

impl FromStr for Fault {
    type Err = String;

    /// `kill:edge-2@3s`, `pause:leader@5s+500ms`, `rotate@4s`.
    fn from_str(text: &str) -> Result<Fault, String> {
        let form = "write KIND:NODE@TIME or KIND:NODE@TIME+LENGTH, like kill:edge-2@3s+2s";
        let (what, when) = text.split_once('@').ok_or(form)?;
        let (kind, target) = what.split_once(':').unwrap_or((what, ""));
        let known = KINDS.iter().find(|(name, _)| *name == kind);
        let names = || KINDS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let (_, kind) = known.ok_or_else(|| format!("{kind:?} is none of {}", names()))?;
        let (at, lasts) = when.split_once('+').unwrap_or((when, ""));
        let lasts = if lasts.is_empty() { Ok(LASTS) } else { duration(lasts) };
        if target.is_empty() != kind.is_of_all() {
            return Err(form.to_string());
        }
        Ok(Fault { kind: *kind, target: target.to_string(), at: duration(at)?, lasts: lasts? })
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} at {:.1} s", self.kind.name(), self.target, self.at.as_secs_f64())
    }
}

impl Fault {
    /// One that is to be now.
    pub fn now(kind: Kind, target: &str, lasts: Duration) -> Fault {
        Fault { kind, target: target.to_string(), at: Duration::ZERO, lasts }
    }

    /// What is done.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whose it is.
    #[cfg(test)]
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Whether roots need disks of their own for it.
    pub fn needs_disks(&self) -> bool {
        let cuts_power = self.kind == Kind::Kill && !self.target.starts_with("edge-");
        cuts_power || matches!(self.kind, Kind::DiskFull | Kind::ZoneLost)
    }

    /// Whether it stops machines in good order, so that sessions are soon on again.
    pub fn is_orderly(&self) -> bool {
        matches!(self.kind, Kind::None | Kind::Restart | Kind::Upgrade | Kind::Rotate | Kind::Lead)
    }
}

/// Machines of a box by role, as many as there are of each, and for how long they trade.
pub struct Cast {
    /// Roots, proxies, edges, proxies that stand by.
    pub counts: [(&'static str, u32); 4],
    /// Length of the trading.
    pub trading: Duration,
}

impl Cast {
    fn has(&self, fault: &Fault) -> bool {
        let numbered = |known: &str, count: u32| {
            let number = fault.target.strip_prefix(known).and_then(|rest| rest.strip_prefix('-'));
            (1..=count).any(|n| number == Some(&n.to_string()[..]))
        };
        let most = self.counts.iter().map(|(_, count)| *count).max().unwrap_or(0);
        match fault.kind {
            kind if kind.is_of_all() => true,
            Kind::ZoneLost => numbered("zone", most.min(ZONES as u32)),
            _ if ["leader", "reference", "next"].contains(&&fault.target[..]) => true,
            _ => self.counts.iter().any(|(role, count)| numbered(role, *count)),
        }
    }

    /// Whether all faults strike somebody, while there is trading.
    ///
    /// # Errors
    /// The first that does not.
    pub fn check(&self, faults: &[Fault]) -> Result<(), Failure> {
        for fault in faults {
            if fault.at >= self.trading {
                let line = format!("--fault {fault}: trading is over after {:?}", self.trading);
                return Err(Failure::Usage(line));
            }
            if !self.has(fault) {
                let there = self.counts.iter().filter(|(_, count)| *count > 0);
                let there: Vec<String> =
                    there.map(|(role, count)| format!("{role}-1 to {role}-{count}")).collect();
                let line = format!("--fault {fault}: there are {}", there.join(", "));
                return Err(Failure::Usage(line));
            }
        }
        Ok(())
    }
}

/// A fault that has been.
pub struct Struck {
    /// The fault that was played.
    pub fault: Fault,
    /// When it began, by the participants' clock.
    pub at: Nanos,
    /// How long until all machines were back, ms.
    pub took_ms: u64,
}

/// Does what is asked for, each at its time after now.
///
/// # Errors
/// What could not be done; a node that did not come back.
pub fn play(site: &Site<'_>, clock: Clock, faults: &[Fault]) -> Result<Vec<Struck>, Failure> {
    let begun = Instant::now();
    let mut faults = faults.to_vec();
    faults.sort_by_key(|fault| fault.at);
    let mut done = Vec::new();
    for fault in &faults {
        std::thread::sleep(fault.at.saturating_sub(begun.elapsed()));
        done.push(strike(site, clock, fault)?);
    }
    Ok(done)
}

/// Does it now, until it is over.
///
/// # Errors
/// See [`play`].
pub fn strike(site: &Site<'_>, clock: Clock, fault: &Fault) -> Result<Struck, Failure> {
    let (since, at) = (Instant::now(), clock.now());
    commit(site, fault)?;
    Ok(Struck { fault: fault.clone(), at, took_ms: since.elapsed().as_millis() as u64 })
}

fn target(site: &Site<'_>, fault: &Fault) -> Result<usize, Failure> {
    match &fault.target[..] {
        _ if fault.kind.is_of_all() || fault.kind == Kind::ZoneLost => Ok(0),
        "leader" => site.leader(),
        "reference" => reference(site),
        "next" => {
            let (leader, roots) = (site.leader()?, site.places(NodeRole::Root));
            let at = roots.iter().position(|root| *root == leader).unwrap_or(0);
            Ok(roots[(at + 1) % roots.len()])
        }
        name => Ok(usize::from(site.file.node(name)?.0) - 1),
    }
}

fn commit(site: &Site<'_>, fault: &Fault) -> Result<(), Failure> {
    let place = target(site, fault)?;
    let process = site.process(place).unwrap_or(0);
    let others = || (0..site.network.hosts().len()).filter(move |host| *host != place);
    match fault.kind {
        Kind::None => Ok(()),
        Kind::Kill => cut_power(site, &[place], fault.lasts),
        Kind::ZoneLost => match &site.zone(&fault.target)[..] {
            [] => Err(Failure::Usage(format!("no machine is in {}", fault.target))),
            places => cut_power(site, places, fault.lasts),
        },
        Kind::Pause => {
            emulator::pause(process).map_err(io)?;
            std::thread::sleep(fault.lasts);
            emulator::resume(process).map_err(io)
        }
        Kind::Cut => {
            site.network.isolate(place);
            std::thread::sleep(fault.lasts);
            site.network.rejoin(place);
            Ok(())
        }
        Kind::CutOut => {
            others().for_each(|host| site.network.cut(place, host));
            std::thread::sleep(fault.lasts);
            others().for_each(|host| site.network.heal(place, host));
            Ok(())
        }
        Kind::Slow => {
            site.network.slow(place, SLOW_NS);
            std::thread::sleep(fault.lasts);
            site.network.slow(place, 0);
            Ok(())
        }
        Kind::Step => {
            let process = i32::try_from(process).ok().and_then(Pid::from_raw);
            let process = process.ok_or_else(|| Failure::Run("it does not run".to_string()))?;
            kill_process(process, Signal::USR1).map_err(|error| io(error.into()))
        }
        Kind::Restart => restart(site, place),
        Kind::Revoke => {
            let name = site.file.nodes[place].name.clone();
            let generation = credentials::generation(&Credentials::folder(&site.file, &name))?;
            site.operate(&Operation::Revoke { node: name.clone(), generation })?;
            let code = site.ended(place, BACK_MAX)?;
            if code != Some(4) {
                return Err(Failure::Run(format!("{name}, revoked, ended with {code:?}, not 4")));
            }
            credentials::issue(&site.file, &name, DAYS)?;
            site.revive(place)?;
            site.wait_for(place, BACK_MAX)
        }
        Kind::Rotate => site.operate(&Operation::Rotate).map(drop),
        Kind::Replace => {
            let nodes = vec![site.file.nodes[place].name.clone()];
            site.operate(&Operation::Replace { nodes, by: Vec::new() }).map(drop)
        }
        Kind::OldDisk => {
            site.kill(place);
            let (journal, old) = (site.folder(place).join("journal"), site.old_journal(place));
            super::folders::empty_folder(&journal)?;
            super::folders::copy_folder(&old, &journal)?;
            site.revive(place)?;
            site.wait_for(place, BACK_MAX)
        }
        Kind::DiskFull => {
            let since = Instant::now();
            site.disk(place)?.fill().map_err(io)?;
            let told = wait_for_room(site, place, false);
            std::thread::sleep(fault.lasts.saturating_sub(since.elapsed()));
            site.disk(place)?.clear().map_err(io)?;
            told?;
            wait_for_room(site, place, true)?;
            site.wait_for(place, BACK_MAX)
        }
        Kind::Lead => {
            let node = site.file.nodes[place].name.clone();
            site.operate(&Operation::Lead { node }).map(drop)
        }
        Kind::InterfaceDown => {
            let host = site.host(place);
            host.set_up(false).map_err(io)?;
            std::thread::sleep(fault.lasts);
            host.set_up(true).map_err(io)
        }
        Kind::ProgramDetached => match drill::detach(process, Programs::All).map_err(io)? {
            0 => {
                let name = &site.file.nodes[place].name;
                let why = "has attached no program: is its data plane tc-clone, or its filter on?";
                Err(Failure::Run(format!("{name} {why}")))
            }
            _ => Ok(()),
        },
        Kind::XdpTaken => {
            let intruder = take_xdp(site, place, process)?;
            std::thread::sleep(fault.lasts);
            drop(intruder);
            Ok(())
        }
        Kind::Upgrade => (0..site.file.nodes.len()).try_for_each(|place| {
            site.exchange_program(place);
            restart(site, place)
        }),
    }
}

fn cut_power(site: &Site<'_>, places: &[usize], lasts: Duration) -> Result<(), Failure> {
    site.cut_power(places)?;
    std::thread::sleep(lasts);
    places.iter().try_for_each(|place| site.revive(*place))?;
    places.iter().try_for_each(|place| site.wait_for(*place, BACK_MAX))
}

/// The root whose clock all follow, once they follow one.
fn reference(site: &Site<'_>) -> Result<usize, Failure> {
    let since = Instant::now();
    loop {
        let found = site.reference();
        if found.is_ok() || since.elapsed() > BACK_MAX {
            return found;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Waits until the journal of a root says that it has no room, or does not say so any more.
fn wait_for_room(site: &Site<'_>, place: usize, room: bool) -> Result<(), Failure> {
    let since = Instant::now();
    while since.elapsed() < FULL_MAX {
        let up = site.standing().map(|standing| standing.up).unwrap_or_default();
        let own = up.iter().find(|sample| sample.place == place);
        let full = own.map(|own| own.health.alarms.iter().any(|alarm| alarm.contains(FULL)));
        if full == Some(!room) {
            return Ok(());
        }
        std::thread::sleep(LOOK_EVERY);
    }
    let name = &site.file.nodes[place].name;
    let what = if room {
        "goes on without room though there is some"
    } else {
        "does not find its disk full"
    };
    Err(Failure::Run(format!("{name} {what}")))
}

/// Puts a program where the filter of a machine's process is, if it has one.
fn take_xdp(site: &Site<'_>, place: usize, process: u32) -> Result<Intruder, Failure> {
    let host = site.host(place);
    let begun = Instant::now();
    loop {
        drill::detach(process, Programs::Xdp).map_err(io)?;
        match host.enter(|| Intruder::attach(host.interface())).map_err(io)? {
            Ok(intruder) => return Ok(intruder),
            // Its owner was quicker, or what it had is not gone yet.
            Err(_) if begun.elapsed() < LASTS => std::thread::sleep(Duration::from_millis(5)),
            Err(error) => return Err(Failure::Run(error.to_string())),
        }
    }
}

fn restart(site: &Site<'_>, place: usize) -> Result<(), Failure> {
    let code = site.stop(place)?;
    if code != Some(0) {
        let name = &site.file.nodes[place].name;
        return Err(Failure::Run(format!("{name}, told to stop, ended with {code:?}")));
    }
    site.revive(place)?;
    site.wait_for(place, BACK_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_struck_who_is_not_there_and_nothing_after_the_end() {
        let counts = [("root", 3), ("proxy", 2), ("edge", 4), ("standby", 0)];
        let cast = Cast { counts, trading: Duration::from_secs(10) };
        let why = |text: &str| {
            let fault = text.parse().expect("a fault");
            cast.check(&[fault]).err().map(|error| error.to_string())
        };
        for good in [
            "kill:edge-4@3s",
            "pause:leader@9999ms",
            "rotate@1s",
            "zone-lost:zone-3@1s",
            "lead:next@1s",
        ] {
            assert_eq!(why(good), None, "{good}");
        }
        for (bad, what) in [
            ("kill:edge-4@10s", "--fault kill edge-4 at 10.0 s: trading is over after 10s"),
            ("kill:edge-5@3s", "there are root-1 to root-3, proxy-1 to proxy-2, edge-1 to edge-4"),
            ("kill:edge-04@3s", "there are root-1"),
            ("kill:standby-1@3s", "there are root-1"),
            ("zone-lost:zone-4@3s", "there are root-1"),
        ] {
            assert!(why(bad).is_some_and(|why| why.contains(what)), "{bad}: {:?}", why(bad));
        }
    }

    #[test]
    fn faults_are_written_as_the_help_says() {
        let fault: Fault = "kill:edge-2@3s+250ms".parse().expect("a fault");
        let (at, lasts) = (Duration::from_secs(3), Duration::from_millis(250));
        let target = "edge-2".to_string();
        assert_eq!(fault, Fault { kind: Kind::Kill, target, at, lasts });
        assert_eq!("rotate@4s".parse::<Fault>().expect("a fault").lasts, LASTS);
        assert!("zone-lost:zone-2@4s".parse::<Fault>().expect("a fault").needs_disks());
        assert!(!"kill:edge-2@4s".parse::<Fault>().expect("a fault").needs_disks());
        for bad in [
            "kill@3s",
            "upgrade:edge-1@3s",
            "rotate:edge-1@3s",
            "kill:edge-1",
            "interface-down@3s",
            "dance:edge-1@3s",
            "kill:a@3",
            "",
        ] {
            assert!(bad.parse::<Fault>().is_err(), "{bad}");
        }
    }
}
