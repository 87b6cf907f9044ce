//! What is done to the machines of a box while participants trade.

use std::str::FromStr;
use std::time::{Duration, Instant};

use fairbell::options::duration;
use host::failure::{Failure, on};
use host::fleet::credentials::{self, Credentials, DAYS};
use host::fleet::file::NodeRole;
use host::fleet::messages::Operation;
use host::sockets::io;
use rustix::process::{Pid, Signal, kill_process};

use super::site::Site;

/// How long a fault lasts where nothing else is said.
const LASTS: Duration = Duration::from_secs(1);
/// Longest wait for a node that is to come back.
const BACK_MAX: Duration = Duration::from_secs(30);
/// What a slow machine's packets take longer, ns.
const SLOW_NS: u64 = 5_000_000;

/// What is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The process is killed, and started again when the fault is over.
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
    /// Every machine is told to stop and started again, one after another.
    Upgrade,
}

const KINDS: &[(&str, Kind)] = &[
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
    ("upgrade", Kind::Upgrade),
];

/// A fault: what, whose, when and for how long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    kind: Kind,
    /// Name of a node, or `leader`; empty where the fault is everybody's.
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
        let alone = matches!(kind, Kind::Rotate | Kind::Upgrade);
        if target.is_empty() != alone {
            return Err(form.to_string());
        }
        Ok(Fault { kind: *kind, target: target.to_string(), at: duration(at)?, lasts: lasts? })
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = KINDS.iter().find(|(_, kind)| *kind == self.kind).map_or("", |(name, _)| name);
        write!(f, "{name} {} at {:.1} s", self.target, self.at.as_secs_f64())
    }
}

/// Does what is asked for, each at its time after now; what was done, and how long each took, in ms.
///
/// # Errors
/// What could not be done; a node that did not come back.
pub fn play(site: &Site<'_>, faults: &[Fault]) -> Result<Vec<(String, u64)>, Failure> {
    let begun = Instant::now();
    let mut faults = faults.to_vec();
    faults.sort_by_key(|fault| fault.at);
    let mut done = Vec::new();
    for fault in &faults {
        std::thread::sleep(fault.at.saturating_sub(begun.elapsed()));
        let since = Instant::now();
        commit(site, fault)?;
        done.push((fault.to_string(), since.elapsed().as_millis() as u64));
    }
    Ok(done)
}

fn target(site: &Site<'_>, fault: &Fault) -> Result<usize, Failure> {
    match &fault.target[..] {
        "" => Ok(0),
        "leader" => {
            let (leader, _) = site.status()?;
            let place = usize::try_from(leader).unwrap_or(1).saturating_sub(1);
            let roots = site.places(NodeRole::Root);
            roots.get(place).copied().ok_or_else(|| Failure::Run("nobody leads".to_string()))
        }
        name => Ok(usize::from(site.file.node(name)?.0) - 1),
    }
}

fn commit(site: &Site<'_>, fault: &Fault) -> Result<(), Failure> {
    let place = target(site, fault)?;
    let process = site.process(place).unwrap_or(0);
    let others = || (0..site.network.hosts().len()).filter(move |host| *host != place);
    match fault.kind {
        Kind::Kill => {
            site.kill(place);
            std::thread::sleep(fault.lasts);
            site.revive(place)?;
            site.wait_for(place, BACK_MAX)
        }
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
            std::fs::remove_dir_all(&journal).map_err(|error| on(&journal, error))?;
            super::site::copy_folder(&old, &journal)?;
            site.revive(place)?;
            site.wait_for(place, BACK_MAX)
        }
        Kind::Upgrade => (0..site.file.nodes.len()).try_for_each(|place| restart(site, place)),
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
    fn faults_are_written_as_the_help_says() {
        let fault: Fault = "kill:edge-2@3s+250ms".parse().expect("a fault");
        let (at, lasts) = (Duration::from_secs(3), Duration::from_millis(250));
        let target = "edge-2".to_string();
        assert_eq!(fault, Fault { kind: Kind::Kill, target, at, lasts });
        assert_eq!("rotate@4s".parse::<Fault>().expect("a fault").lasts, LASTS);
        for bad in ["kill@3s", "rotate:edge-1@3s", "kill:edge-1", "dance:edge-1@3s", "kill:a@3", ""]
        {
            assert!(bad.parse::<Fault>().is_err(), "{bad}");
        }
    }
}
