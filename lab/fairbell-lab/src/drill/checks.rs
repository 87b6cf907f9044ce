//! What must hold after a drill: by the clients' own books, by the replicas' disks, by the feed.

use engine::replay;
use exchange::{Audit, Ending, Expiries, audit};
use participant::load::LoadCounts;
use serde::Serialize;
use types::{AccountId, CancelReason, ExecutionKind, Input};

use super::roots::journal;
use super::site::Artifacts;
use host::config::Config;
use host::failure::Failure;
use host::replica::checkpoints::Begin;
use host::replica::node::{Host, Status};

/// Orders that traded or ended at a wrong time which are named.
const LATE_SHOWN: usize = 20;

/// Messages that clients have counted, or that follow from a log.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Told {
    /// Orders accepted.
    pub accepted: u64,
    /// Orders replaced.
    pub replaced: u64,
    /// Orders cancelled as asked.
    pub canceled: u64,
    /// Cancels that came too late.
    pub cancels_rejected: u64,
    /// Orders refused.
    pub rejected: u64,
    /// Executions.
    pub executions: u64,
    /// Their lots.
    pub executed_lots: u64,
    /// Orders whose time was over.
    pub expired: u64,
}

impl Told {
    /// By the clients.
    pub fn clients(counts: &LoadCounts) -> Told {
        Told {
            accepted: counts.accepted,
            replaced: counts.replaced,
            canceled: counts.canceled,
            cancels_rejected: counts.cancels_rejected,
            rejected: counts.rejected.values().sum(),
            executions: counts.executions,
            executed_lots: counts.executed_lots,
            expired: counts.expired,
        }
    }

    /// What a log's engine says to those participants, and which of what it says to anybody was past an order's time.
    pub fn log(
        config: engine::Config,
        inputs: impl Iterator<Item = Input>,
        of: impl Fn(AccountId) -> bool,
    ) -> (Told, Vec<String>) {
        let (mut told, mut expiries, mut wrong) =
            (Told::default(), Expiries::default(), Vec::new());
        replay(config, inputs, |_, input, _, output| {
            expiries.note(&input.command);
            for report in &output.executions {
                let ending = expiries.judge(report);
                if !matches!(ending, Ending::None | Ending::Expired) {
                    let (account, order) = (report.account.0, report.user_ref.0);
                    wrong.push(format!("account {account}, order {order}: {ending:?}"));
                }
                if !of(report.account) {
                    continue;
                }
                told.expired += u64::from(matches!(ending, Ending::Expired));
                match report.kind {
                    ExecutionKind::Accepted => told.accepted += 1,
                    ExecutionKind::Replaced => told.replaced += 1,
                    ExecutionKind::Canceled if report.cancel_reason == CancelReason::Requested => {
                        told.canceled += 1;
                    }
                    ExecutionKind::CancelRejected => told.cancels_rejected += 1,
                    ExecutionKind::Rejected => told.rejected += 1,
                    ExecutionKind::Executed => {
                        told.executions += 1;
                        told.executed_lots += report.qty.0;
                    }
                    _ => {}
                }
            }
        });
        (told, wrong)
    }

    /// Messages that clients have and the log has not.
    pub fn beyond(&self, log: &Told) -> u64 {
        let pairs = [
            (self.accepted, log.accepted),
            (self.replaced, log.replaced),
            (self.canceled, log.canceled),
            (self.cancels_rejected, log.cancels_rejected),
            (self.rejected, log.rejected),
            (self.executions, log.executions),
            (self.expired, log.expired),
        ];
        pairs.iter().map(|(ours, theirs)| ours.saturating_sub(*theirs)).sum()
    }
}

/// What was found.
#[derive(Serialize, Clone, Debug)]
pub struct Findings {
    /// What clients were told.
    pub clients: Told,
    /// What the log says they should have been.
    pub log: Told,
    /// Messages that clients have and the log has not.
    pub acknowledged_lost: u64,
    /// Further answers to answered requests.
    pub duplicates: u64,
    /// Requests without an answer.
    pub unanswered: u64,
    /// Answers to nothing.
    pub stray: u64,
    /// Connections of clients that ended.
    pub connections_lost: u64,
    /// All replicas' disks make the same state, and the same log.
    pub replicas_equal: bool,
    /// By replica: inputs and digest, from its disk.
    pub disks: Vec<Disk>,
    /// Books that listeners made of the feed are the engine's, message by message.
    pub books_equal: bool,
    /// Positions at which they were compared.
    pub positions: u64,
    /// Reports of good-till-date orders that traded at their end or later, or ended before it.
    pub off_time: u64,
    /// What else is wrong.
    pub problems: Vec<String>,
}

/// What is on a replica's disk.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
pub struct Disk {
    /// Its number, from 1.
    pub replica: u8,
    /// Inputs in its journal.
    pub inputs: u64,
    /// Digest of the state that they make.
    pub state_digest: String,
}

impl Disk {
    fn is_like(&self, other: &Disk) -> bool {
        Disk { replica: other.replica, ..self.clone() } == *other
    }
}

/// Looks at what is left.
pub fn look(artifacts: &Artifacts, config: &Config) -> Result<Findings, Failure> {
    let hosts: Vec<Host> = (artifacts.members.iter())
        .map(|number| {
            let (id, dir) = (*number as u8 + 1, journal(&artifacts.dir, *number));
            Host::new((config, &artifacts.cluster), (id, &dir), artifacts.clock, Begin::Ended)
        })
        .collect::<Result<_, _>>()?;
    let roots: Vec<_> = hosts.iter().filter_map(Host::root).collect();
    let disks: Vec<Disk> = (roots.iter().zip(&artifacts.members))
        .map(|(root, number)| Disk {
            replica: *number as u8 + 1,
            inputs: root.log().len() as u64,
            state_digest: format!("{:016x}", root.state_digest()),
        })
        .collect();
    let [first, ..] = &roots[..] else {
        return Err(Failure::Run("no replica left a root".to_string()));
    };
    let same_log = |root: &&exchange::Root| root.log().records().eq(first.log().records());
    let replicas_equal =
        disks.array_windows().all(|[one, other]| one.is_like(other)) && roots.iter().all(same_log);
    let counts = artifacts.load.counts();
    let clients = Told::clients(&counts);
    let (log, mut late) =
        Told::log(first.engine().config().clone(), first.log().records(), |_| true);
    let Audit { books_equal, positions, mut problems, unequal, .. } =
        audit(first, artifacts.listeners().map(feed::Subscriber::channels));
    problems.extend(unequal.iter().map(|one| {
        let (listener, book, at) = (one.listener, one.instrument.0, one.position.0);
        format!("listener {listener}: the book of instrument {book} differs after message {at}")
    }));
    let stopped = artifacts.statuses.iter().flatten().filter_map(|status: &Status| {
        status.stopped.as_ref().map(|why| format!("replica {}: {why}", status.replica))
    });
    problems.extend(stopped);
    // What replicas had made of checkpoints and of what came after is what all inputs make.
    for status in artifacts.statuses.iter().flatten() {
        let disk = disks.iter().find(|disk| disk.replica == status.replica);
        let whole = disk.filter(|disk| disk.inputs == status.inputs);
        if whole.is_some_and(|disk| disk.state_digest != status.state_digest) {
            let number = status.replica;
            problems.push(format!("replica {number} had another state than all inputs make"));
        }
    }
    let off_time = late.len() as u64 + counts.executed_expired;
    late.truncate(LATE_SHOWN);
    problems.append(&mut late);
    if clients != log {
        problems.push("clients were not told what the log says".to_string());
    }
    if counts.executed_expired > 0 {
        problems.push(format!("{} executions of expired orders", counts.executed_expired));
    }
    Ok(Findings {
        acknowledged_lost: clients.beyond(&log),
        clients,
        log,
        duplicates: counts.duplicates,
        unanswered: counts.lost,
        stray: counts.stray,
        connections_lost: counts.connections_lost,
        replicas_equal,
        disks,
        books_equal,
        positions,
        off_time,
        problems,
    })
}

impl Findings {
    /// Whether nothing acknowledged was lost, and everybody agrees.
    pub fn hold(&self) -> bool {
        self.acknowledged_lost == 0
            && self.duplicates == 0
            && self.unanswered == 0
            && self.replicas_equal
            && self.books_equal
            && self.problems.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledgement_that_the_log_lacks_is_counted() {
        let log = Told { accepted: 10, executions: 4, ..Told::default() };
        assert_eq!(log.beyond(&log), 0);
        let clients = Told { accepted: 11, executions: 3, ..Told::default() };
        assert_eq!(clients.beyond(&log), 1);
    }
}
