//! The root as a group of replicas in the process of `up`: each has a loop, a journal and its
//! streams to the others, as a process of `fairbell replica` has.
//!
//! The names of the group lie beside the journals, so that the next start goes on with them. When
//! a run has ended, the replicas' logs and states are compared, and their disks with the leader's
//! log.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use net::{Clock, Directory, LoopHandle, Seat, TraceReceiver, trace_channel};
use probe::Key;
use replication::{Membership, ReplicaId};
use roles::{ExchangeConfig, Role, Root};
use types::{Input, NodeId};

use super::board::Board;
use super::plan::{TRACE_BATCH, TRACE_BATCHES, bind_tcp, bind_udp};
use crate::alarms::Alarms;
use crate::config::Config;
use crate::failure::Failure;
use crate::replica::checkpoints::Begin;
use crate::replica::cluster::Cluster;
use crate::replica::host::{DiskInputs, Host, Sockets};
use crate::replica::line::RootLine;
use crate::replica::{claims, papers};
use crate::report::{ReplicaReport, ReplicationReport, TermReport};
use crate::sockets::{io, v4};

/// The names of the group, in the folder of its journals.
const NAMES: &str = "cluster.json";
/// How long replicas may take to stand at the same input.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often that is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Terms that a report lists.
const TERMS_MAX: usize = 1_000;

fn names(config: &Config) -> PathBuf {
    Path::new(&config.journal.dir).join(NAMES)
}

fn folder(config: &Config, number: usize) -> PathBuf {
    Path::new(&config.journal.dir).join(format!("replica-{number}"))
}

/// Whether a group was made in the configured folder before.
pub fn was_made(config: &Config) -> bool {
    config.journal.is_replicated() && names(config).exists()
}

/// What a group is told of the rest of the exchange.
pub struct Rest {
    /// The overlay socket and the retransmission server of the first replica.
    pub first: (UdpSocket, UdpSocket),
    /// Overlay sockets of all nodes but the root.
    pub nodes: Vec<(NodeId, SocketAddrV4)>,
    /// The replicas' clock.
    pub clock: Clock,
}

/// A group about to run.
pub struct Group {
    hosts: Vec<Host>,
    seat: Seat,
    claims: (UdpSocket, Key),
    directory: Directory,
    loops: Vec<LoopHandle<Role>>,
    /// Retransmission servers of all replicas, those in reserve last.
    pub retransmission: Vec<SocketAddrV4>,
    /// UDP ports of all replicas.
    pub udp_ports: Vec<u16>,
    /// What there is to say of it.
    pub notice: Option<String>,
}

impl Group {
    /// Makes the replicas, and gives the exchange their names: new ones, or those in the folder.
    ///
    /// # Errors
    /// Sockets and folders that can't be had; journals of another exchange, and damaged ones.
    pub fn new(
        config: &Config,
        exchange: &mut ExchangeConfig,
        Rest { first, nodes, clock }: Rest,
    ) -> Result<Group, Failure> {
        let (count, mut first) = (config.journal.replicas as usize, Some(first));
        let mut sockets = Vec::new();
        for _ in 0..count + config.journal.reserve as usize {
            let (overlay, feed) = match first.take() {
                Some(first) => first,
                None => (bind_udp(0, 0)?, bind_udp(0, 0)?),
            };
            let tcp = || bind_tcp(Ipv4Addr::LOCALHOST, 0, 0);
            sockets.push(Sockets { overlay, feed, link: tcp()?, status: tcp()? });
        }
        let claims = bind_udp(0, 0)?;
        let made = was_made(config).then(|| Cluster::read(&names(config))).transpose()?;
        let begun = made.is_some();
        let known = made.clone().map_or_else(|| Cluster::fresh(exchange, clock), Ok)?;
        let mut places =
            sockets.iter().map(Sockets::place).collect::<Result<Vec<_>, _>>()?.into_iter();
        let mut cluster = Cluster {
            nodes: nodes.iter().map(|(node, at)| (node.0, *at)).collect(),
            replicas: places.by_ref().take(count).collect(),
            reserve: places.collect(),
            claims: vec![v4(claims.local_addr().map_err(io)?)?],
            keys: names(config).with_file_name(papers::FOLDER),
            ..known
        };
        if let Some(made) = made.filter(|made| made.replicas.len() != count) {
            let there = made.replicas.len();
            return Err(Failure::Usage(format!(
                "journal.replicas: the group in {} has {there} replicas, not {count}",
                config.journal.dir
            )));
        }
        cluster.settle(exchange);
        crate::files::folder(Path::new(&config.journal.dir))?;
        papers::issue(&mut cluster)?;
        cluster.write(&names(config))?;
        let mut hosts = Vec::new();
        for (sockets, number) in sockets.into_iter().zip(1..) {
            let (id, dir) = (number as u8, folder(config, number));
            hosts.push(Host::with(sockets, (config, &cluster), (id, &dir), clock, Begin::Inputs)?);
        }
        can_reach(config, &hosts)?;
        let inputs = hosts.iter().map(|host| host.recovered).max().unwrap_or(0);
        let dir = &config.journal.dir;
        let notice =
            begun.then(|| format!("{dir}: {count} replicas go on after {inputs} committed inputs"));
        let seat = cluster.seat()?;
        let directory = cluster.directory()?.with_seat(seat.clone());
        Ok(Group {
            loops: hosts.iter_mut().map(|host| host.event_loop().handle()).collect(),
            udp_ports: hosts.iter_mut().flat_map(|host| host.event_loop().udp_ports()).collect(),
            claims: (claims, cluster.key(b"claims")?),
            directory: directory.map_err(|error| Failure::Run(error.to_string()))?,
            retransmission: cluster.retransmission().collect(),
            hosts,
            seat,
            notice,
        })
    }

    /// All nodes, the root where it leads.
    pub fn directory(&self) -> Directory {
        self.directory.clone()
    }

    /// The way to the root.
    pub fn line(&self) -> RootLine {
        RootLine::group(self.seat.clone(), self.loops.clone())
    }

    /// Who leads, from now on.
    pub fn leaders(&self) -> Leaders {
        Leaders { seat: self.seat.clone(), since: Instant::now(), seen: Vec::new() }
    }

    /// Where the replicas' traces come from.
    pub fn traces(&mut self) -> Vec<TraceReceiver> {
        let traces = |host: &mut Host| {
            let (sender, receiver) = trace_channel(TRACE_BATCHES, TRACE_BATCH);
            host.event_loop().send_traces(sender);
            receiver
        };
        self.hosts.iter_mut().map(traces).collect()
    }

    /// Runs all replicas.
    pub fn start<'scope, 'env>(
        self,
        scope: &'scope Scope<'scope, 'env>,
        board: &'env Board,
        alarms: &Alarms,
    ) -> Running<'scope> {
        let over = Arc::new(AtomicBool::new(false));
        let ((socket, key), seat) = (self.claims, self.seat);
        let all = Arc::clone(&over);
        scope.spawn(move || claims::hear(&socket, &key, &seat, &all));
        let (mut stops, mut threads) = (vec![over], Vec::new());
        for (place, mut host) in self.hosts.into_iter().enumerate() {
            host.use_alarms(alarms);
            // One that can't go on stops itself; the others serve on.
            let stop = Arc::new(AtomicBool::new(false));
            stops.push(Arc::clone(&stop));
            threads.push(
                scope.spawn(move || {
                    host.run_watched(&stop, |role| board.observe_replica(place, role))
                }),
            );
        }
        Running { stops, threads }
    }
}

/// Whether there are places for all who came into the group in earlier runs.
fn can_reach(config: &Config, hosts: &[Host]) -> Result<(), Failure> {
    let members = hosts.iter().filter_map(Host::members).max_by_key(|members| members.number);
    let most = members.and_then(|members| members.members().map(|(id, _)| id.0).max());
    match most.map(usize::from).filter(|most| *most > hosts.len()) {
        None => Ok(()),
        Some(most) => Err(Failure::Usage(format!(
            "journal.reserve: replica {most} is in the group in {}: at least {}",
            config.journal.dir,
            most - config.journal.replicas as usize
        ))),
    }
}

/// Replicas that run.
pub struct Running<'scope> {
    stops: Vec<Arc<AtomicBool>>,
    threads: Vec<ScopedJoinHandle<'scope, Result<Role, Failure>>>,
}

impl Running<'_> {
    /// Ends the replicas, once they stand at the same input or have had time to; in order, what is
    /// left of each or why nothing is.
    pub fn end(self, board: &Board) -> Vec<Result<Role, String>> {
        let from = Instant::now();
        while !board.figures().is_level() && from.elapsed() < PATIENCE {
            thread::sleep(LOOK_EVERY);
        }
        self.stops.iter().for_each(|stop| stop.store(true, Ordering::Relaxed));
        let ended = |thread: ScopedJoinHandle<'_, Result<Role, Failure>>| match thread.join() {
            Ok(outcome) => outcome.map_err(|error| error.to_string()),
            Err(_) => Err("a replica's thread panicked".to_string()),
        };
        self.threads.into_iter().map(ended).collect()
    }
}

/// Who led, term by term.
pub struct Leaders {
    seat: Seat,
    since: Instant,
    seen: Vec<TermReport>,
}

impl Leaders {
    /// Looks who leads; a line about it when it is another term.
    pub fn look(&mut self) -> Option<String> {
        let (term, place) = self.seat.held();
        if self.seen.last().map_or(0, |last| last.term) >= term || self.seen.len() >= TERMS_MAX {
            return None;
        }
        let leader = place as u8 + 1;
        self.seen.push(TermReport {
            term,
            leader,
            after_ns: super::flow::nanos(self.since.elapsed()),
        });
        Some(format!("replica {leader} leads in term {term}"))
    }

    /// The inputs on the disk of the replica that led last; for whoever replays them.
    pub fn on_disk(config: &Config, leader: u8) -> Result<DiskInputs, Failure> {
        let group = Cluster::read(&names(config))?.group;
        DiskInputs::open(&folder(config, leader.into()), group)
    }

    /// Compares what the replicas left, and takes out the root that led last. `flip`: the replica,
    /// from 1, of whose journal a bit is flipped before.
    pub fn judge(
        self,
        config: &Config,
        mut ended: Vec<Result<Role, String>>,
        flip: Option<u8>,
    ) -> (ReplicationReport, Option<Role>, Vec<String>) {
        let mut complaints = Vec::new();
        let led = self.seen.last().map_or(0, |last| usize::from(last.leader) - 1);
        let mut report = ReplicationReport { terms: self.seen, ..ReplicationReport::default() };
        let leads = |one: &Result<Role, String>| {
            let member = one.as_ref().ok().and_then(Role::as_member)?;
            member.leading()
        };
        // The seat may lag behind by a claim.
        let newest = (0..ended.len()).max_by_key(|place| ended.get(*place).and_then(leads));
        let led = newest.filter(|place| ended.get(*place).and_then(leads).is_some()).unwrap_or(led);
        report.leader = led as u8 + 1;
        let group = Cluster::read(&names(config)).map(|cluster| cluster.group);
        let root = ended.get(led).and_then(|one| one.as_ref().ok()).and_then(Role::as_root);
        let leader = ended.get(led).and_then(|one| one.as_ref().ok()).and_then(Role::as_member);
        // Those in reserve hold nothing, and those that were removed what there was then.
        let members = leader.map(|member| member.replica().membership().clone());
        let counts = |number: usize| {
            let of = |members: &Membership| members.get(ReplicaId(number as u8)).is_some();
            members.as_ref().map_or(number <= config.journal.replicas as usize, of)
        };
        let mut compared = 0;
        for (number, one) in (1..).zip(&ended).filter(|(number, _)| counts(*number)) {
            compared += 1;
            let dir = folder(config, number);
            let checked = match (one, root, &group) {
                (Err(why), ..) => Err(why.clone()),
                (_, None, _) => Err("the leader did not survive the run".to_string()),
                (_, _, Err(why)) => Err(why.to_string()),
                (Ok(role), Some(root), Ok(group)) => {
                    if flip.map(usize::from) == Some(number) {
                        flip_bit(&dir);
                    }
                    let disk =
                        |dir: &Path| DiskInputs::open(dir, *group).map_err(|e| e.to_string());
                    disk(&dir).and_then(|own| {
                        // Where it is the leader itself, its log is compared with its disk.
                        let theirs = (number != led + 1).then(|| disk(&folder(config, led + 1)));
                        check(role, root, own, theirs.transpose()?)
                    })
                }
            };
            match checked {
                Ok((replica, wrong)) => {
                    complaints.extend(wrong.map(|why| format!("replica {number}: {why}")));
                    report.replicas.push(ReplicaReport { replica: number as u8, ..replica });
                }
                Err(why) => complaints.push(format!("replica {number}: {why}")),
            }
        }
        report.term = report.terms.last().map_or(0, |last| last.term);
        report.equal = complaints.is_empty() && report.replicas.len() == compared;
        let leader = (led < ended.len()).then(|| ended.swap_remove(led).ok()).flatten();
        (report, leader, complaints)
    }
}

/// What a replica holds, and in what it is not the leader's copy: its newest inputs in memory, all of
/// them on its disk, its state. The leader's own disk is compared with its newest inputs.
fn check(
    role: &Role,
    leader: &Root,
    mut disk: DiskInputs,
    leaders: Option<DiskInputs>,
) -> Result<(ReplicaReport, Option<String>), String> {
    let Some((root, member)) = role.as_root().zip(role.as_member()) else {
        return Err("it is no replica of a root".to_string());
    };
    let first = root.log().lacks().max(leader.log().lacks());
    let old = |input: &Input| input.seq.0 <= first as u64;
    let ours = root.log().records().skip_while(old);
    let in_memory = first_difference(ours, leader.log().records().skip_while(old));
    let mut on_disk = 0;
    let mut counted = disk.by_ref().inspect(|_| on_disk += 1);
    let on_disk_wrong = match leaders {
        Some(mut theirs) => {
            let wrong = first_difference(counted.by_ref(), theirs.by_ref());
            theirs.failed.map_or(Ok(wrong), Err)?
        }
        None => {
            let missing = leader.log().lacks();
            let old = counted.by_ref().take(missing).count();
            let wrong = first_difference(counted.by_ref(), leader.log().records());
            wrong.or((old < missing).then_some(0)).map(|at| at + missing as u64)
        }
    };
    counted.for_each(drop);
    if let Some(why) = disk.failed {
        return Err(why);
    }
    let (state, theirs) = (root.state_digest(), leader.state_digest());
    let report = ReplicaReport {
        inputs: root.engine().applied(),
        inputs_on_disk: on_disk,
        state_digest: format!("{state:016x}"),
        digests_compared: member.replica().counts().compared,
        ..ReplicaReport::default()
    };
    let wrong = if let Some(at) = in_memory {
        Some(format!("its log is not the leader's at input {}", first as u64 + at))
    } else if let Some(at) = on_disk_wrong {
        Some(format!("its disk does not hold the leader's log at input {at}"))
    } else if state != theirs {
        Some(format!("its state is {state:016x}, the leader's {theirs:016x}"))
    } else if root.waiting() > 0 {
        Some(format!("{} inputs of it were never committed", root.waiting()))
    } else {
        None
    };
    Ok((report, wrong))
}

/// The first place, from 1, at which two logs differ; one that ends earlier differs there.
fn first_difference(
    mut ours: impl Iterator<Item = Input>,
    mut theirs: impl Iterator<Item = Input>,
) -> Option<u64> {
    (1..).find_map(|at| match (ours.next(), theirs.next()) {
        (None, None) => Some(None),
        (ours, theirs) => (ours != theirs).then_some(Some(at)),
    })?
}

/// Spoils a journal in its middle, for a run that must fail.
fn flip_bit(dir: &Path) {
    use std::os::unix::fs::FileExt as _;
    /// In the first segment's second frame, which is written early.
    const PLACE: u64 = 9_000;
    let path = dir.join("log-0000000000000001");
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path);
    let _ = file.and_then(|file| {
        let mut byte = [0];
        file.read_exact_at(&mut byte, PLACE)?;
        file.write_all_at(&[byte[0] ^ 4], PLACE)
    });
}

#[cfg(test)]
mod tests {
    use types::{Command, CommandKind, Nanos, Seq, Source};

    use super::*;

    fn log(kinds: &[CommandKind]) -> Vec<Input> {
        let input = |(at, kind): (usize, &CommandKind)| Input {
            seq: Seq(at as u64 + 1),
            t_in: Nanos(0),
            t_seq: Nanos(at as u64),
            source: Source::default(),
            flags: 0,
            command: Command::new(*kind),
        };
        kinds.iter().enumerate().map(input).collect()
    }

    #[test]
    fn logs_differ_where_an_input_does_and_where_one_ends() {
        let whole = log(&[CommandKind::StartOfDay, CommandKind::Kill, CommandKind::EndOfDay]);
        let other = log(&[CommandKind::StartOfDay, CommandKind::Kill, CommandKind::Uncross]);
        let of = |a: &[Input], b: &[Input]| first_difference(a.iter().copied(), b.iter().copied());
        assert_eq!(of(&whole, &whole), None);
        assert_eq!(of(&whole, &other), Some(3));
        assert_eq!((of(&whole[..2], &whole), of(&whole, &whole[..2])), (Some(3), Some(3)));
        assert_eq!((of(&[], &whole), of(&[], &[])), (Some(1), None));
    }
}
