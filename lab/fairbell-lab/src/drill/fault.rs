//! What a drill does to the leader, until it takes part again.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use types::Nanos;

use super::disks::{Disks, flip};
use super::roots::folder;
use super::site::{CLIENTS, Site};
use super::{DrillArgs, PATIENCE, old_disk};
use host::failure::Failure;
use host::replica::node::Status;

/// A replica that came back takes part when it is no further behind, in inputs.
pub const CLOSE: u64 = 2_048;
/// How long a gateway that died is left alone, and answers are counted after a change of leader.
const DOWN: Duration = Duration::from_secs(1);

/// How long logs may take to grow by a few files.
const LONG: Duration = Duration::from_secs(120);

/// How long a leader that is hit stays away.
#[derive(Clone, Copy, Debug)]
pub struct Away {
    /// At least so long.
    pub least: Duration,
    /// And until another one's log does not reach back to where it was.
    pub until_logs_are_cut: bool,
}

/// What a drill does to the leader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Its process is killed.
    Kill,
    /// Its process is stopped, and goes on later.
    Pause,
    /// It can't reach the other replicas.
    Partition,
    /// Not the leader: a gateway is killed.
    Gateway,
    /// Its disk has no room.
    Fill,
    /// Its process is killed, and a bit of its journal flips.
    Rot,
    /// A follower is killed and its disk lost, another one takes its place, then the leader is killed.
    Replace,
    /// Not the leader alone: all replicas are killed, and started from their disks.
    Group,
    /// Its process is killed while somebody asks all replicas for what comes next.
    Early,
    /// Folders are set back to older copies.
    OldDisk,
}

/// A fault that has been.
pub struct Done {
    /// When it began.
    pub at: Nanos,
    /// From then until another one led.
    pub lead_ns: u64,
    /// From its end until the replica had what the others had.
    pub rejoin_ns: u64,
    /// The longest time without an answer, where that tells more than the first answer.
    pub silent_ns: Option<u64>,
    /// What the replica said of its disk.
    pub found: Option<String>,
    /// Snapshots that it got from others when it came back.
    pub installed: u64,
    /// Who took whose place before, and how long that took.
    pub replaced: Option<(String, u64)>,
    /// Inputs in the log when it began.
    pub inputs: u64,
}

impl Fault {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Fault::Kill => "failover",
            Fault::Pause => "pause",
            Fault::Partition => "partition",
            Fault::Gateway => "gateway",
            Fault::Fill => "full-disk",
            Fault::Rot => "rot",
            Fault::Replace => "replace",
            Fault::Group => "group",
            Fault::Early => "early",
            Fault::OldDisk => "old-disk",
        }
    }

    /// Gateways that the drill needs.
    pub fn gateways(self, args: &DrillArgs) -> u32 {
        if self == Fault::Gateway { args.times + 1 } else { 2 }
    }

    /// Replicas in reserve that the drill needs.
    pub fn reserve(self, args: &DrillArgs) -> usize {
        if self == Fault::Replace { args.times as usize } else { 0 }
    }

    /// Size of segments: where disks fill, room is wanted every few seconds; where they are copied, little
    /// is copied.
    pub fn segment_mib(self) -> u32 {
        if matches!(self, Fault::Fill | Fault::OldDisk) { 2 } else { 64 }
    }

    /// Disks of their own for the replicas, where they are to fill.
    pub fn disks(self, dir: &Path, replicas: u8) -> Result<Disks, Failure> {
        let folders = (0..usize::from(replicas)).map(|number| folder(dir, number));
        if self == Fault::Fill { Disks::mount(folders) } else { Ok(Disks::default()) }
    }

    /// Does it, once; the next one may follow when it returns.
    pub fn strike(
        self,
        site: &mut Site,
        disks: &Disks,
        away: Away,
        seed: u64,
    ) -> Result<Done, Failure> {
        site.roots.all_run()?;
        if self == Fault::OldDisk {
            return old_disk::strike(site, seed);
        }
        let replaced = (self == Fault::Replace).then(|| replace(site)).transpose()?;
        let (term, leader) = site.seat.held();
        let inputs = site.statuses().iter().flatten().map(|status| status.inputs).max();
        let at = site.clock.now();
        let hit = match self {
            Fault::Kill | Fault::Rot | Fault::Replace | Fault::Early => site.roots.kill(leader),
            Fault::Pause => site.roots.signal(leader, Signal::STOP),
            Fault::Partition => site.cut(leader, true),
            Fault::Gateway => site.kill_gateway(),
            Fault::Fill => disks.fill(leader)?,
            Fault::Group | Fault::OldDisk => site.kill_all(),
        };
        if !hit {
            return Err(Failure::Run(format!("nobody to hit; replica {} leads", leader + 1)));
        }
        let marked = site.clients.call(CLIENTS, |load, now, _| load.mark(now.now));
        marked.map_err(|error| Failure::Run(format!("the clients: {error}")))?;
        let mut done = Done {
            at,
            lead_ns: 0,
            rejoin_ns: 0,
            silent_ns: None,
            found: None,
            installed: 0,
            replaced,
            inputs: inputs.unwrap_or(0),
        };
        if self == Fault::Gateway {
            std::thread::sleep(DOWN);
            return Ok(done);
        }
        if self == Fault::Group {
            site.revive_all()?;
        }
        let next = match self {
            Fault::Fill => {
                let (silent, next) = silence(site, term)?;
                done.silent_ns = Some(silent);
                next
            }
            _ => site.leader_after(term, PATIENCE),
        };
        done.lead_ns = site.clock.now().since(at);
        next.ok_or_else(|| Failure::Run(format!("nobody came to lead after term {term}")))?;
        std::thread::sleep(away.least.saturating_sub(Duration::from_nanos(done.lead_ns)));
        // Nobody is away whose log the others could give up.
        let cut = away.until_logs_are_cut && self != Fault::Group;
        if cut && !site.others_begin_after(done.inputs, LONG) {
            return Err(Failure::Run("the others did not give up old logs".to_string()));
        }
        match self {
            Fault::Kill | Fault::Replace | Fault::Early => site.roots.revive(leader)?,
            Fault::Rot => done.found = Some(rot(site, leader, seed)?),
            Fault::Partition => drop(site.cut(leader, false)),
            Fault::Fill => disks.clear(leader)?,
            Fault::Pause => drop(site.roots.signal(leader, Signal::CONT)),
            Fault::Gateway | Fault::Group | Fault::OldDisk => {}
        }
        let back = site.clock.now();
        if !site.all_within(CLOSE, PATIENCE) {
            return Err(Failure::Run(format!("replica {} did not come back in time", leader + 1)));
        }
        done.rejoin_ns = site.clock.now().since(back);
        let is_back = |status: &Status| usize::from(status.replica) == leader + 1;
        let back = site.statuses().into_iter().flatten().find(is_back);
        done.installed = back.map_or(0, |status| status.installed);
        Ok(done)
    }
}

/// The longest time without an answer until a second after another one leads, and who does.
fn silence(site: &Site, term: u64) -> Result<(u64, Option<(u64, usize)>), Failure> {
    let began = Instant::now();
    let (mut longest, mut answered, mut since) = (0, 0, site.clock.now());
    let mut leads: Option<Instant> = None;
    while leads.map_or(began.elapsed() < PATIENCE, |at| at.elapsed() < DOWN) {
        let (sender, counts) = std::sync::mpsc::sync_channel(1);
        let asked = site.clients.call(CLIENTS, move |load, _, _| {
            let _ = sender.try_send(load.counts().answered);
        });
        asked.map_err(|error| Failure::Run(format!("the clients: {error}")))?;
        let count = counts.recv().unwrap_or(answered);
        let now = site.clock.now();
        if count > answered {
            (answered, since) = (count, now);
        }
        longest = longest.max(now.since(since));
        if leads.is_none() && site.seat.held().0 > term {
            leads = Some(Instant::now());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok((longest, leads.map(|_| site.seat.held())))
}

/// A follower and its disk are lost, and one of the reserve takes its place. Who, and how long that
/// took, ns.
fn replace(site: &mut Site) -> Result<(String, u64), Failure> {
    let leader = site.seat.held().1;
    let victim = site.members().iter().copied().filter(|number| *number != leader).min();
    let victim = victim.ok_or_else(|| Failure::Run("the leader is alone".to_string()))?;
    let from = site.clock.now();
    let new = site.replace(victim, LONG)?;
    let ns = site.clock.now().since(from);
    Ok((format!("replica {} by {}", victim + 1, new + 1), ns))
}

/// Flips a bit of a dead replica's journal; it must refuse to start and name the place. Then it is
/// mended and starts. What it said.
fn rot(site: &mut Site, number: usize, seed: u64) -> Result<String, Failure> {
    let dir = site.roots.journal(number);
    let (segment, offset) = flip(&dir, seed)?;
    site.roots.revive(number)?;
    let said = site.roots.last_words(number, PATIENCE)?;
    let named = place(&said);
    // A frame is damaged as a whole, and named by where it begins.
    let near = |(there, at): (u64, u64)| there == segment && at <= offset && offset - at < 2 << 20;
    if !named.is_some_and(near) {
        let flipped = format!("a bit at segment {segment}, offset {offset} was flipped");
        return Err(Failure::Run(format!("{flipped}, and replica {} said: {said}", number + 1)));
    }
    site.roots.mend(number)?;
    site.roots.revive(number)?;
    let end = said.find("; this is no").unwrap_or(said.len());
    let from = said.find("log-").unwrap_or(0);
    Ok(format!("replica {}: {}", number + 1, said.get(from..end).unwrap_or(&said)))
}

/// The segment and offset that a message names.
fn place(text: &str) -> Option<(u64, u64)> {
    let number = |after: &str, radix| {
        let rest = text.split(after).nth(1)?;
        let digits: String = rest.chars().take_while(|c| c.is_digit(radix)).collect();
        u64::from_str_radix(&digits, radix).ok()
    };
    // Files have hexadecimal names.
    Some((number("log-", 16)?, number("offset ", 10)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_where() {
        let text = "x: log-000000000000001b, offset 8192: the frame's checksum does not fit";
        assert_eq!(place(text), Some((27, 8_192)));
        assert_eq!(place("log-x"), None);
    }
}
