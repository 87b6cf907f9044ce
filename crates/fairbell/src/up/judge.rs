//! What the replicas of a run left: compared with each other, and their disks with the leader's log.

use std::path::Path;

use exchange::{Role, Root};
use host::config::Config;
use host::fleet::file::ClusterFile;
use host::group::{Term, folder, names};
use host::replica::node::DiskInputs;
use replication::{Membership, ReplicaId};
use types::Input;

use crate::report::{ReplicaReport, ReplicationReport};

/// Compares what the replicas left, and takes out the root that led last. `flip`: the replica,
/// from 1, of whose journal a bit is flipped before.
pub fn judge(
    terms: Vec<Term>,
    config: &Config,
    mut ended: Vec<Result<Role, String>>,
    flip: Option<u8>,
) -> (ReplicationReport, Option<Role>, Vec<String>) {
    let mut complaints = Vec::new();
    let led = terms.last().map_or(0, |last| usize::from(last.leader) - 1);
    let mut report = ReplicationReport { terms, ..ReplicationReport::default() };
    let leads = |one: &Result<Role, String>| {
        let member = one.as_ref().ok().and_then(Role::as_member)?;
        member.leading()
    };
    // The seat may lag behind by a claim.
    let newest = (0..ended.len()).max_by_key(|place| ended.get(*place).and_then(leads));
    let led = newest.filter(|place| ended.get(*place).and_then(leads).is_some()).unwrap_or(led);
    report.leader = led as u8 + 1;
    let group = ClusterFile::read(&names(config)).map(|file| file.id);
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
                let disk = |dir: &Path| DiskInputs::open(dir, *group).map_err(|e| e.to_string());
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
