//! What must hold in the end, looked at from outside: clients' answers, receivers' messages, what
//! is on the replicas' disks.

use std::collections::BTreeMap;

use journal::JournalError;
use replication::Entry;

use super::client::Client;
use super::driver::Machine;
use super::ledger::Request;
use super::receiver::Receiver;
use super::report::{Checker, Found};

/// Everything there is to look at.
pub(super) struct End<'a> {
    pub(super) machines: &'a mut [Machine],
    pub(super) clients: &'a [Client],
    pub(super) receivers: &'a [Receiver],
    pub(super) stopped: &'a [(u8, String)],
    /// Terms in which more than one was elected, or one twice.
    pub(super) repeated: &'a [String],
    pub(super) finished: bool,
}

/// A replica's log, and what executing it gives.
struct Log {
    id: u8,
    records: Vec<Entry>,
    /// The hash chain after the last record: of all of them, also those that are kept no more.
    chain: u64,
    digest: u64,
    conserved: bool,
    executed: Vec<Request>,
}

/// Compares all that is left at the end, and lists what differs.
pub(super) fn check(end: End<'_>) -> Vec<Found> {
    let mut found = Vec::new();
    let mut tell = |checker, what| found.push(Found { checker, what });
    if !end.finished {
        let behind: Vec<u64> = end.clients.iter().filter(|c| !c.is_done()).map(|c| c.id).collect();
        tell(Checker::Progress, format!("not finished; clients {behind:?} still wait"));
    }
    for what in end.repeated {
        tell(Checker::TermsUnique, what.clone());
    }
    for (id, why) in end.stopped {
        tell(Checker::NobodyStopped, format!("replica {id}: {why}"));
    }
    for machine in end.machines.iter().filter(|machine| !machine.rots) {
        if let Some(why) = &machine.lost {
            tell(Checker::NobodyStopped, format!("replica {} can't start: {why}", machine.id));
        }
    }
    let mut logs: Vec<Log> = Vec::new();
    for machine in end.machines.iter_mut() {
        match log_of(machine) {
            Some(Ok(log)) => logs.push(log),
            // Found out when it is read: it will not start again.
            Some(Err(_)) if machine.rots => {}
            Some(Err(why)) => {
                tell(Checker::NobodyStopped, format!("replica {}: {why}", machine.id));
            }
            None => {}
        }
    }
    for log in &logs {
        if !log.conserved {
            tell(Checker::MoneyConserved, format!("replica {}", log.id));
        }
        if let Some(what) = twice(log) {
            tell(Checker::ExactlyOnce, what);
        }
        if let Some(what) = invented(log, end.clients) {
            tell(Checker::NothingInvented, what);
        }
        for client in end.clients {
            if let Some(what) = missing(log, client) {
                tell(Checker::AcknowledgedPresent, what);
            }
        }
    }
    members(end.machines, &mut tell);
    for pair in logs.windows(2) {
        let [a, b] = pair else { continue };
        // From where on both are kept.
        let begins = |log: &Log| log.records.first().map_or(u64::MAX, |entry| entry.position);
        let first = begins(a).max(begins(b));
        let kept = |log: &Log| -> Vec<Entry> {
            log.records.iter().filter(|entry| entry.position >= first).cloned().collect()
        };
        let (a_kept, b_kept) = (kept(a), kept(b));
        if a_kept != b_kept || a.chain != b.chain {
            let differs = a_kept.iter().zip(&b_kept).find(|(a, b)| a != b).map(|(a, _)| a.position);
            let ends = [a, b].map(|log| log.records.last().map(|entry| entry.position));
            let what =
                format!("logs of {} and {} differ at {differs:?}, ends {ends:?}", a.id, b.id);
            tell(Checker::ReplicasEqual, what);
        } else if a.digest != b.digest {
            tell(Checker::ReplicasEqual, format!("states of {} and {} differ", a.id, b.id));
        }
    }
    if let Some(log) = logs.first() {
        for receiver in end.receivers {
            if let Some(what) = uneven(log, receiver) {
                tell(Checker::FeedContinuous, what);
            }
        }
    }
    found
}

/// Who is in the group, by what each replica knows and by what its journal says.
fn members(machines: &[Machine], tell: &mut impl FnMut(Checker, String)) {
    let mut known = machines.iter().filter_map(|machine| Some((machine, machine.up.as_ref()?)));
    let Some((first, up)) = known.next() else { return };
    let due = up.replica.membership();
    for (machine, up) in known {
        let members = up.replica.membership();
        if members != due {
            let (a, b) = (first.id, machine.id);
            tell(Checker::MembersEqual, format!("{a} knows {due:?}, {b} {members:?}"));
        }
        if members.get(replication::ReplicaId(machine.id)).is_none() {
            tell(Checker::MembersEqual, format!("{} runs, and is none of them", machine.id));
        }
    }
}

fn log_of(machine: &mut Machine) -> Option<Result<Log, JournalError>> {
    let id = machine.id;
    let up = machine.up.as_mut()?;
    let (digest, conserved) = (up.ledger.digest(), up.ledger.is_conserved());
    let executed = up.ledger.executed.clone();
    let log = |(records, chain)| Log { id, records, chain, digest, conserved, executed };
    Some(up.records().map(log))
}

fn twice(log: &Log) -> Option<String> {
    let mut times: BTreeMap<(u64, u64), u32> = BTreeMap::new();
    for request in &log.executed {
        let times = times.entry((request.client, request.number)).or_default();
        *times += 1;
        if *times > 1 {
            return Some(format!("replica {} executed {request:?} twice", log.id));
        }
    }
    None
}

fn invented(log: &Log, clients: &[Client]) -> Option<String> {
    let known = |bytes: &[u8]| {
        Request::read(bytes).is_some_and(|r| clients.iter().any(|client| client.id == r.client))
    };
    let stray = log.records.iter().find(|e| !e.record.is_empty() && !known(&e.record))?;
    Some(format!("replica {}: nobody sent the record at position {}", log.id, stray.position))
}

/// An answer that the log does not bear out.
fn missing(log: &Log, client: &Client) -> Option<String> {
    if let Some(number) = client.contradicted {
        return Some(format!("client {} got two answers to {number}", client.id));
    }
    let lies = |(number, execution): (&u64, &u64)| {
        let place = usize::try_from(*execution).ok()?.checked_sub(1);
        let there = place.and_then(|place| log.executed.get(place));
        let same = there.is_some_and(|r| (r.client, r.number) == (client.id, *number));
        let (id, replica) = (client.id, log.id);
        (!same).then(|| format!("replica {replica}: {number} of client {id} is not {execution}"))
    };
    client.answered.iter().find_map(lies)
}

fn uneven(log: &Log, receiver: &Receiver) -> Option<String> {
    if let Some(sequence) = receiver.conflict {
        return Some(format!("message {sequence} came with two contents"));
    }
    let held = receiver.messages.values();
    let even = receiver.missing() == log.executed.len() as u64 + 1 && held.eq(&log.executed);
    (!even).then(|| {
        let (missing, whole) = (receiver.missing(), log.executed.len());
        format!("a receiver lacks message {missing} of {whole}")
    })
}
