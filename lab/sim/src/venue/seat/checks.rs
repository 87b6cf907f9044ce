//! What must hold of the machines of a group in the end.

use types::{AccountId, Input};
use zerocopy::TryFromBytes;

use super::super::report::{Checker, Failures};
use super::ReplicaGroup;
use super::machine::Machine;

/// Committed records: position, term and bytes.
type Records = Vec<(u64, u64, Vec<u8>)>;

impl ReplicaGroup {
    /// Everybody runs and has what the leader has.
    pub(in super::super) fn is_settled(&self) -> bool {
        let Some(leader) = self.leads().and_then(|n| self.machines[n].member()) else {
            return false;
        };
        let end = leader.replica().last();
        self.machines.iter().filter(|machine| machine.lost.is_none()).all(|machine| {
            machine.member().is_some_and(|member| {
                let replica = member.replica();
                (replica.applied(), replica.last()) == (end, end)
            })
        })
    }

    /// All machines run and are the same, byte for byte: what is in their journals, their logs, their
    /// engines' snapshots, and what they have to tell each account.
    pub(in super::super) fn check(&mut self, failures: &mut Failures) {
        for why in &self.stopped {
            failures.add(Checker::ReplicasEqual, || why.clone());
        }
        let mut all: Vec<(u8, Records, Snapshot)> = Vec::new();
        for machine in &mut self.machines {
            let id = machine.id;
            if let Some(why) = &machine.lost {
                failures.add(Checker::ReplicasEqual, || format!("replica {id} is lost: {why}"));
            }
            let found = records(machine);
            let taken = snapshot(machine);
            let (Some(Ok(records)), Some(taken)) = (found, taken) else {
                failures.add(Checker::ReplicasEqual, || format!("replica {id} can't be read"));
                continue;
            };
            let inputs: Vec<u8> = records
                .iter()
                .filter(|(_, _, bytes)| Input::try_read_from_bytes(bytes).is_ok())
                .flat_map(|(_, _, bytes)| bytes.iter().copied())
                .collect();
            failures.check(Checker::ReplicasEqual, inputs == taken.log, || {
                format!("replica {id}: its journal is not its log")
            });
            all.push((id, records, taken));
        }
        for pair in all.windows(2) {
            let [a, b] = pair else { continue };
            failures.check(Checker::ReplicasEqual, a.1 == b.1, || {
                let differs = a.1.iter().zip(&b.1).position(|(a, b)| a != b);
                let ends = (a.1.len(), b.1.len());
                format!("journals of {} and {} differ at {differs:?}, ends {ends:?}", a.0, b.0)
            });
            failures.check(Checker::ReplicasEqual, a.2 == b.2, || {
                format!("states of {} and {} differ", a.0, b.0)
            });
        }
        failures.check(Checker::ReplicasEqual, all.len() == self.machines.len(), || {
            format!("{} replicas of {} were compared", all.len(), self.machines.len())
        });
    }
}

/// A machine's state.
#[derive(PartialEq)]
struct Snapshot {
    log: Vec<u8>,
    engine: Vec<u8>,
    /// By account, all records of its stream.
    streams: Vec<Vec<u8>>,
}

fn snapshot(machine: &Machine) -> Option<Snapshot> {
    use zerocopy::IntoBytes;
    let root = machine.member()?.role().as_root()?;
    let mut engine = Vec::new();
    root.engine().write_snapshot(&mut engine);
    let log = root.log().iter().flat_map(|input| input.as_bytes().iter().copied()).collect();
    let stream = |account: u16| {
        let account = AccountId(account);
        let positions = 1..root.private().next_position(account);
        let record = |position| root.private().record(account, position);
        positions.filter_map(record).flat_map(|bytes| bytes.iter().copied()).collect()
    };
    let accounts = root.engine().config().accounts_max as u16;
    Some(Snapshot { log, engine, streams: (1..=accounts).map(stream).collect() })
}

fn records(machine: &mut Machine) -> Option<Result<Records, journal::JournalError>> {
    let up = machine.up.as_mut()?;
    let applied = up.role.as_member()?.replica().applied();
    let mut records = Vec::new();
    let first = up.journal.first();
    let read = up.journal.read(first, applied, |record| {
        records.push((record.position, record.term, record.bytes.to_vec()));
    });
    Some(read.map(|_| records))
}
