//! Who the root's replicas are, as an operator changes it: one step of the group after the other,
//! each asked of whoever leads until it is made, or refused for good, or time is over.
//!
//! Each command says how things shall be, so the same one again goes on where it was, also at
//! another leader.

use std::sync::mpsc::sync_channel;
use std::thread::sleep;
use std::time::{Duration, Instant};

use replication::{Change, Membership, Refusal, ReplicaId};
use serde_json::{Value, json};

use super::protocol::Reply;
use crate::admin::action::Members;
use crate::replica::line::RootLine;

/// Longest wait for all steps of a command; whoever asks waits longer.
const WAIT: Duration = Duration::from_secs(20);
/// Longest wait for a loop.
const ANSWER: Duration = Duration::from_secs(3);
/// Between two looks.
const AGAIN: Duration = Duration::from_millis(20);

/// How one of the group stands.
struct Standing {
    members: Membership,
    leader: Option<ReplicaId>,
    /// It leads, and serves.
    serving: bool,
    /// Most of today's members hold that they are the members.
    settled: bool,
    /// The end of its log, and how far a leader knows those of the others.
    last: u64,
    matched: Vec<(ReplicaId, Option<u64>)>,
}

/// What a look came to.
enum Step {
    /// It is made.
    Made,
    /// Not yet, because of this.
    Waits(String),
}

/// Does what an operator wants of the group behind a line.
///
/// # Errors
/// Why it was not done, and what to do.
pub fn perform(line: &RootLine, wanted: &Members) -> Result<Reply, String> {
    let until = Instant::now() + WAIT;
    let before = look(line)?;
    let text = match *wanted {
        Members::List => return Ok(list(&before, line)),
        Members::Add { replica } => {
            add(line, replica, until)?;
            format!("replica {replica} is in the group, and counted")
        }
        Members::Remove { replica } => {
            remove(line, replica, until)?;
            format!("replica {replica} is in the group no more: its folder may go")
        }
        Members::Replace { replica, by } if replica == by => {
            return Err(format!("replica {by} can't come in its own place: --by names a new one"));
        }
        Members::Replace { replica, by } => {
            let members = before.members;
            let gone = members.is_removed(ReplicaId(replica));
            if !gone && members.get(ReplicaId(replica)).is_none() {
                return Err(Refusal::Unknown(ReplicaId(replica)).to_string());
            }
            add(line, by, until)?;
            remove(line, replica, until)?;
            format!("replica {by} is counted in the place of {replica}, whose folder may go")
        }
    };
    let standing = look(line)?;
    Ok(Reply::done(text, list(&standing, line).data))
}

/// Has somebody new get the log, then be counted.
fn add(line: &RootLine, replica: u8, until: Instant) -> Result<(), String> {
    let id = ReplicaId(replica);
    if !line.places().contains(&replica) {
        return Err(format!(
            "replica {replica} has no place: give a node the role reserve in cluster.toml on all \
             machines and start all of them again, or set journal.reserve of `fairbell up`"
        ));
    }
    steps(line, until, move |members| match members.get(id) {
        Some(member) if member.votes => None,
        Some(_) => Some(Change::Promote(id)),
        None => Some(Change::AddLearner { id, place: Vec::new() }),
    })
}

fn remove(line: &RootLine, replica: u8, until: Instant) -> Result<(), String> {
    let id = ReplicaId(replica);
    steps(line, until, move |members| (!members.is_removed(id)).then_some(Change::Remove(id)))
}

/// Asks for what `next` says until it says nothing more, and most members know of it.
fn steps(
    line: &RootLine,
    until: Instant,
    next: impl Fn(&Membership) -> Option<Change> + Copy + Send + 'static,
) -> Result<(), String> {
    loop {
        let why = match step(line, next)? {
            Step::Made => return Ok(()),
            Step::Waits(why) => why,
        };
        if Instant::now() > until {
            return Err(format!("not done yet: {why}; the same command again goes on from here"));
        }
        sleep(AGAIN);
    }
}

fn step(
    line: &RootLine,
    next: impl Fn(&Membership) -> Option<Change> + Send + 'static,
) -> Result<Step, String> {
    let (to, from) = sync_channel(1);
    let asked = line.call_member(move |member, now, out| {
        let replica = member.replica();
        let outcome = match next(replica.membership()) {
            None if replica.is_settled() => Ok(Step::Made),
            None if replica.serving().is_some() => {
                Ok(Step::Waits("most have not written it down".to_string()))
            }
            None => Err(Refusal::NotLeading(replica.standing().leader)),
            Some(change) => match member.change(now, &change, out) {
                Ok(_) => Ok(Step::Waits("it is on its way to the others".to_string())),
                Err(refusal) => Err(refusal),
            },
        };
        let _ = to.try_send(outcome);
    });
    asked.map_err(|error| format!("the leader was not asked: {error}"))?;
    let outcome = from.recv_timeout(ANSWER);
    let outcome = outcome.map_err(|_| "the replica did not answer in time: ask again")?;
    let later = |refusal: &Refusal| match refusal {
        // Among the replicas of one process whoever leads is found by itself.
        Refusal::NotLeading(_) | Refusal::HandsOver(_) => line.is_group(),
        // Right after a start nobody has said yet what it speaks.
        Refusal::Version(_) => true,
        Refusal::Pending | Refusal::Busy | Refusal::Silent(_) | Refusal::Lags(..) => true,
        _ => false,
    };
    match outcome {
        Ok(step) => Ok(step),
        Err(refusal) if later(&refusal) => Ok(Step::Waits(refusal.to_string())),
        Err(refusal) => Err(refusal.to_string()),
    }
}

fn look(line: &RootLine) -> Result<Standing, String> {
    let (to, from) = sync_channel(1);
    let asked = line.call_member(move |member, _, _| {
        let replica = member.replica();
        let members = replica.membership().clone();
        let matched = members.members().map(|(id, _)| (id, replica.matched(id))).collect();
        let _ = to.try_send(Standing {
            leader: replica.standing().leader,
            serving: replica.serving().is_some(),
            settled: replica.is_settled(),
            last: replica.last(),
            matched,
            members,
        });
    });
    asked.map_err(|error| format!("the replica was not asked: {error}"))?;
    from.recv_timeout(ANSWER).map_err(|_| {
        "no replica of a group answered in time: is the root one (journal.durability)?".to_string()
    })
}

fn list(standing: &Standing, line: &RootLine) -> Reply {
    let Standing { members, leader, serving, settled, last, matched } = standing;
    let mut lines = vec![format!("{:<8} {:<10} {:>12}", "replica", "is", "log up to")];
    let mut rows = Vec::new();
    for (id, member) in members.members() {
        let is = match (Some(id) == *leader, member.votes) {
            (true, _) => "leader",
            (false, true) => "counted",
            (false, false) => "listening",
        };
        let known = matched.iter().find(|(of, _)| *of == id).and_then(|(_, to)| *to);
        // Only a leader knows of the others.
        let known = known.filter(|_| *serving);
        let shown = known.map_or_else(|| "?".to_string(), |to| to.to_string());
        lines.push(format!("{:<8} {is:<10} {shown:>12}", id.0));
        rows.push(json!({ "replica": id.0, "is": is, "log_up_to": known }));
    }
    let in_reserve =
        |id: &u8| members.get(ReplicaId(*id)).is_none() && !members.is_removed(ReplicaId(*id));
    let reserve: Vec<u8> = line.places().filter(in_reserve).collect();
    let removed: Vec<u8> = members.removed().map(|id| id.0).collect();
    let numbers = |of: &[u8]| of.iter().map(u8::to_string).collect::<Vec<_>>().join(" ");
    for (name, of) in [("reserve", &reserve), ("removed", &removed)] {
        lines.extend((!of.is_empty()).then(|| format!("{name}: {}", numbers(of))));
    }
    let data: Value = json!({
        "change": members.number, "leader": leader.map(|id| id.0), "settled": settled,
        "log_end": last, "members": rows, "reserve": reserve, "removed": removed,
    });
    Reply::done(lines.join("\n"), data)
}
