//! `fairbell cluster upgrade`: restarts all machines of a venue, one after another, while it trades.
//!
//! How a machine's process is put in place of another one is the operator's: a command for each of them.
//! Here is decided in which order, and when the next one's turn has come.

use std::process::Command;
use std::time::{Duration, Instant};

use clap::Args;
use host::failure::Failure;
use host::fleet::file::{ClusterFile, NodeEntry, NodeRole, digest_text, venue_digest};
use host::fleet::messages::Operation;
use serde_json::Value;

use super::{At, PATIENCE, operator};
use crate::options::duration;

/// Positions of the log that a root may lack when the next one's turn comes.
const BEHIND_MAX: u64 = 1_000;
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Options of `fairbell cluster upgrade`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell cluster upgrade --dry-run --run ''\n  \
    fairbell cluster upgrade --run 'ssh $ADDRESS systemctl restart fairbell'\n  \
    fairbell cluster upgrade --run './replace.sh $NODE' edge-1 edge-2\n\n\
    The command runs in a shell, with NODE and ADDRESS of the machine. Edges come first, then proxies and\n\
    those that stand by, then roots, the one that leads last, after another one has taken over. The next\n\
    machine's turn comes when the one before was started again, is up and, a root, has the log.")]
pub struct UpgradeArgs {
    /// What puts a machine's new process in place of the old one
    #[arg(long, value_name = "COMMAND")]
    pub run: String,
    /// Machines [default: all]
    #[arg(value_name = "NODE")]
    pub nodes: Vec<String>,
    /// How long a machine may take to be up again
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub patience: Duration,
    /// Print the order, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Which cluster
    #[command(flatten)]
    pub at: At,
}

/// The order in which machines are restarted: those with the fewest that wait for them first.
fn order<'a>(file: &'a ClusterFile, wanted: &[String]) -> Result<Vec<&'a NodeEntry>, Failure> {
    for name in wanted {
        file.node(name)?;
    }
    let rank = |node: &NodeEntry| match () {
        () if node.keeps_log() => 2,
        () if node.is(NodeRole::Proxy) || node.is(NodeRole::Standby) => 1,
        () => 0,
    };
    let mut nodes: Vec<&NodeEntry> =
        file.nodes.iter().filter(|node| wanted.is_empty() || wanted.contains(&node.name)).collect();
    nodes.sort_by_key(|node| rank(node));
    Ok(nodes)
}

/// How a machine is, as the roots say.
struct Seen {
    life: u64,
    is_up: bool,
    /// A root that has just begun to lead has not heard of it yet.
    is_unknown: bool,
    behind: u64,
}

fn seen(file: &ClusterFile, status: &Value, name: &str) -> Option<Seen> {
    let row = status["nodes"].as_array()?.iter().find(|row| row["node"] == name)?;
    let (number, _) = file.node(name).ok()?;
    let behind = match file.replica(number) {
        Some(replica) => status["behind"][usize::from(replica) - 1].as_u64().unwrap_or(0),
        None => 0,
    };
    let (life, is) = (row["life"].as_u64()?, &row["is"]);
    Some(Seen { life, is_up: is == "up", is_unknown: is == "unknown", behind })
}

fn known(file: &ClusterFile, name: &str, status: &Value) -> Result<Seen, Failure> {
    seen(file, status, name).ok_or_else(|| Failure::Run(format!("the roots don't know {name}")))
}

/// Whether the roots run with the settings that are here: machines with others are refused by them, one after
/// another. Roots of earlier versions don't say.
fn same_settings(file: &ClusterFile, own: u64, status: &Value) -> Result<(), Failure> {
    let own = digest_text(own);
    let Some(roots) = status["venue"].as_str().filter(|roots| **roots != own) else {
        return Ok(());
    };
    let (path, venue) = (file.path.display(), file.venue_path());
    Err(Failure::Usage(format!(
        "{path} and {} have digest {own}, and the roots run with {roots}: machines with different files refuse \
         one another, so this is no upgrade. Stop all machines together, give each the new files, and start them \
         again; to restart them as they are, name the files that they run with (--cluster)",
        venue.display()
    )))
}

/// Waits until those that are to be restarted are up, and, where roots are among them, all roots that vote: the
/// others could not do without two. One that is away ends that at once; one that is not heard of yet is waited for.
fn all_up(
    file: &ClusterFile,
    wanted: &[&NodeEntry],
    patience: Duration,
    status: impl Fn() -> Result<Value, Failure>,
) -> Result<(), Failure> {
    let since = Instant::now();
    let any_root = wanted.iter().any(|node| node.keeps_log());
    loop {
        let (all, mut is_known) = (status()?, true);
        let replicas = all["replicas"].as_array();
        let is_out = |name: &str| {
            let row = replicas.and_then(|rows| rows.iter().find(|row| row["node"] == name));
            row.is_some_and(|row| row["is"] == "not in the group")
        };
        let counts = |node: &&NodeEntry| {
            let votes = any_root && node.is(NodeRole::Root) && !is_out(&node.name);
            votes || wanted.iter().any(|one| one.name == node.name)
        };
        for NodeEntry { name, .. } in file.nodes.iter().filter(counts) {
            let now = known(file, name, &all)?;
            if !now.is_up && (!now.is_unknown || since.elapsed() >= patience) {
                let why = format!("{name} is not up: nothing is restarted while it is not");
                return Err(Failure::Run(why));
            }
            is_known &= now.is_up;
        }
        if is_known {
            return Ok(());
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Name of the root that leads.
fn leader<'a>(file: &'a ClusterFile, status: &Value) -> Option<&'a str> {
    let replica = usize::try_from(status["leader"].as_u64()?).ok()?;
    file.replicated().nth(replica.checked_sub(1)?).map(|(_, node)| &node.name[..])
}

/// Restarts all machines that are asked for.
///
/// # Errors
/// Names that aren't in the file; a machine that is not up before its turn, whose command fails, or that
/// does not come back.
pub fn run(args: &UpgradeArgs) -> Result<(), Failure> {
    let file = ClusterFile::read(&args.at.cluster)?;
    let mut left = order(&file, &args.nodes)?;
    if args.dry_run {
        left.iter().for_each(|node| println!("{}", node.name));
        return Ok(());
    }
    let status = |file: &ClusterFile| {
        operator(file)?.operate(&Operation::Status, PATIENCE).map(|(_, data)| data)
    };
    let own = venue_digest(&file, &file.venue()?)?;
    for of in file.all_shards() {
        same_settings(&file, own, &status(&of)?)?;
    }
    // Nobody is taken down while another one of them is away already. All machines are known to the first
    // shard's roots, and each root's log to those of its own.
    all_up(&file, &left, args.patience, || status(&file))?;
    let (count, mut done) = (left.len(), 0);
    while !left.is_empty() {
        let shards: Vec<(ClusterFile, Value)> = file
            .all_shards()
            .map(|of| Ok((status(&of)?, of)))
            .map(|of| of.map(|(data, file): (Value, ClusterFile)| (file, data)))
            .collect::<Result<_, Failure>>()?;
        let leaders: Vec<&str> =
            shards.iter().filter_map(|(file, data)| leader(file, data)).collect();
        // Whoever leads comes last of all.
        let leads = |node: &NodeEntry| leaders.contains(&&node.name[..]);
        let next = left.iter().position(|node| !leads(node)).unwrap_or(0);
        let node = left.remove(next);
        let own = usize::from(file.of_node(node).shard().0);
        let Some((of, before)) = shards.get(own) else { continue };
        if leads(node) {
            hand_over(of, before, &node.name)?;
        }
        done += 1;
        let since = Instant::now();
        let life = known(of, &node.name, before)?.life;
        restart(&args.run, node)?;
        loop {
            // While no root leads nobody answers.
            let now = status(of).ok().and_then(|data| seen(of, &data, &node.name));
            if now.is_some_and(|now| now.life > life && now.is_up && now.behind <= BEHIND_MAX) {
                break;
            }
            if since.elapsed() > args.patience {
                let (name, s) = (&node.name, args.patience.as_secs());
                let refused = status(of).ok().and_then(|data| refusal(&data, name));
                let refused = refused.map_or_else(String::new, |why| format!("; {why}"));
                let why = format!(
                    "{name} is not up again after {s} s: the others are as they were{refused}"
                );
                return Err(Failure::Run(why));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        println!("{done}/{count} {}: up again after {} ms", node.name, since.elapsed().as_millis());
    }
    Ok(())
}

/// Why the roots don't let a machine in, as the alarm of one of them says.
fn refusal(status: &Value, name: &str) -> Option<String> {
    let begin = format!("{name} is not let in: ");
    let rows = status["nodes"].as_array()?.iter();
    let alarms = rows.filter_map(|row| row["health"]["alarms"].as_array()).flatten();
    let found = alarms.filter_map(Value::as_str).find_map(|alarm| alarm.split_once(&begin));
    found.map(|(_, why)| begin + why)
}

/// Has another root lead, where there is one.
fn hand_over(file: &ClusterFile, status: &Value, name: &str) -> Result<(), Failure> {
    // Those that listen, are in reserve or were removed can't lead.
    let votes = |(place, _): &(usize, _)| status["replicas"][*place]["is"] == "votes";
    let voters = file.replicated().enumerate().filter(votes).map(|(_, (_, node))| &node.name);
    let Some(other) = voters.filter(|other| *other != name).last() else { return Ok(()) };
    operator(file)?.operate(&Operation::Lead { node: other.clone() }, PATIENCE).map(drop)
}

fn restart(run: &str, node: &NodeEntry) -> Result<(), Failure> {
    let mut command = Command::new("sh");
    command.args(["-c", run]).env("NODE", &node.name).env("ADDRESS", &node.address);
    let failed = |why: String| Failure::Run(format!("{}: {run}: {why}", node.name));
    let status = command.status().map_err(|error| failed(error.to_string()))?;
    if status.success() { Ok(()) } else { Err(failed(status.to_string())) }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::path::Path;

    use serde_json::json;

    use super::*;

    fn file() -> ClusterFile {
        let mut text = "[cluster]\nname = \"lab\"\nid = \"00000000000000a7\"\nsession = \
                        \"FB12345678\"\nmidnight = \"2026-11-25\"\nvenue = \"venue.toml\"\nauthority = \
                        \"authority.pem\"\n"
            .to_string();
        let nodes =
            [("root-1", "root"), ("root-2", "root"), ("root-3", "root"), ("proxy-1", "proxy")];
        for (name, role) in nodes.into_iter().chain([("edge-1", "edge"), ("spare", "standby")]) {
            text += &format!(
                "\n[[node]]\nname = \"{name}\"\naddress = \"{name}\"\nroles = [\"{role}\"]\n"
            );
        }
        ClusterFile::parse(Path::new("cluster.toml"), &text).expect("a file")
    }

    fn names(nodes: &[&NodeEntry]) -> Vec<String> {
        nodes.iter().map(|node| node.name.clone()).collect()
    }

    #[test]
    fn edges_come_first_and_roots_last() {
        let file = file();
        let all = order(&file, &[]).expect("an order");
        assert_eq!(names(&all), ["edge-1", "proxy-1", "spare", "root-1", "root-2", "root-3"]);
        let some = order(&file, &["root-2".to_string(), "edge-1".to_string()]).expect("an order");
        assert_eq!(names(&some), ["edge-1", "root-2"]);
        assert!(order(&file, &["nobody".to_string()]).is_err());
    }

    #[test]
    fn who_was_not_heard_of_yet_is_waited_for_and_who_is_away_is_not() {
        let file = file();
        let told = |of: &str, is: &str| {
            let is_of = |node: &NodeEntry| if node.name == of { is } else { "up" };
            let row = |node: &NodeEntry| json!({ "node": node.name, "is": is_of(node), "life": 1 });
            json!({ "nodes": file.nodes.iter().map(row).collect::<Vec<_>>() })
        };
        let asked = Cell::new(0);
        let soon = || {
            asked.set(asked.get() + 1);
            Ok(told("edge-1", if asked.get() < 3 { "unknown" } else { "up" }))
        };
        let patience = Duration::from_secs(60);
        let every = order(&file, &[]).expect("an order");
        assert_eq!((all_up(&file, &every, patience, soon), asked.get()), (Ok(()), 3));
        let why = |patience, is| {
            let outcome = all_up(&file, &every, patience, || Ok(told("proxy-1", is)));
            outcome.expect_err("it is not up").to_string()
        };
        assert!(why(patience, "away").starts_with("proxy-1 is not up"), "at once");
        assert!(why(2 * LOOK_EVERY, "unknown").starts_with("proxy-1 is not up"));
        let none = all_up(&file, &every, patience, || Ok(json!({ "nodes": [] })));
        assert!(none.expect_err("nobody").to_string().contains("don't know root-1"));
    }

    #[test]
    fn of_those_that_are_not_asked_for_roots_alone_have_to_be_up_and_only_for_a_root() {
        let file = file();
        let away = |of: &str, replicas: Value| {
            let is_of = |node: &NodeEntry| if node.name == of { "away" } else { "up" };
            let row = |node: &NodeEntry| json!({ "node": node.name, "is": is_of(node), "life": 1 });
            let nodes = file.nodes.iter().map(row).collect::<Vec<_>>();
            json!({ "nodes": nodes, "replicas": replicas })
        };
        let asked = |wanted: &str, status: &Value| {
            let wanted = order(&file, &[wanted.to_string()]).expect("an order");
            let outcome = all_up(&file, &wanted, Duration::ZERO, || Ok(status.clone()));
            outcome.map_err(|why| why.to_string())
        };
        let proxy = away("proxy-1", json!([]));
        assert_eq!((asked("edge-1", &proxy), asked("root-2", &proxy)), (Ok(()), Ok(())));
        assert!(asked("proxy-1", &proxy).expect_err("away").starts_with("proxy-1 is not up"));
        let root = away("root-1", json!([]));
        assert_eq!(asked("edge-1", &root), Ok(()));
        assert!(asked("root-2", &root).expect_err("away").starts_with("root-1 is not up"));
        // One that was taken out of the group is missed by nobody.
        let gone = json!([{ "node": "root-1", "is": "not in the group" }]);
        assert_eq!(asked("root-2", &away("root-1", gone)), Ok(()));
    }

    #[test]
    fn settings_that_are_not_the_roots_are_found_before_anything_is_stopped() {
        let file = file();
        assert_eq!(same_settings(&file, 0xA7, &json!({ "venue": "00000000000000a7" })), Ok(()));
        assert_eq!(same_settings(&file, 0xA7, &json!({})), Ok(()), "an earlier version");
        let other = same_settings(&file, 0xA7, &json!({ "venue": "00000000000000a8" }));
        let why = other.expect_err("other settings");
        assert!(matches!(why, Failure::Usage(_)), "{why}");
        let why = why.to_string();
        assert!(why.contains("Stop all machines together") && why.contains("000a8"), "{why}");
    }

    #[test]
    fn why_a_machine_is_not_let_in_is_taken_from_the_alarms() {
        let alarm = "refused-5: edge-1 is not let in: its settings have digest 1";
        let root = json!({ "node": "root-1", "health": { "alarms": ["other", alarm] } });
        let status = json!({ "nodes": [{ "node": "edge-1", "health": null }, root] });
        let why = refusal(&status, "edge-1").expect("refused");
        assert_eq!(why, "edge-1 is not let in: its settings have digest 1");
        assert_eq!((refusal(&status, "edge-2"), refusal(&json!(null), "edge-1")), (None, None));
    }

    #[test]
    fn a_learner_is_restarted_with_the_roots_and_its_lag_is_waited_for() {
        let text = file().text().expect("text").replacen("\"standby\"", "\"learner\"", 1);
        let file = ClusterFile::parse(Path::new("cluster.toml"), &text).expect("a file");
        let all = order(&file, &[]).expect("an order");
        assert_eq!(names(&all), ["edge-1", "proxy-1", "root-1", "root-2", "root-3", "spare"]);
        let row = json!({ "node": "spare", "is": "up", "life": 1 });
        let status = json!({ "leader": 4, "behind": [0, 0, 0, 70], "nodes": [row] });
        assert_eq!(leader(&file, &status), Some("spare"), "it may lead once it votes");
        assert_eq!(seen(&file, &status, "spare").map(|seen| seen.behind), Some(70));
    }

    #[test]
    fn what_the_roots_say_is_read_and_nonsense_is_nobody() {
        let (file, row) = (file(), |name: &str| json!({ "node": name, "is": "up", "life": 3 }));
        let status = json!({
            "leader": 2, "behind": [7, 0, 9_000],
            "nodes": [row("root-1"), row("root-3"), json!({ "node": "edge-1", "is": "away", "life": 1 })],
        });
        assert_eq!(leader(&file, &status), Some("root-2"));
        let of = |name| seen(&file, &status, name).map(|seen| (seen.life, seen.is_up, seen.behind));
        assert_eq!((of("root-1"), of("root-3")), (Some((3, true, 7)), Some((3, true, 9_000))));
        assert_eq!((of("edge-1"), of("proxy-1")), (Some((1, false, 0)), None));
        for bad in [json!(null), json!({ "leader": 9 }), json!({ "leader": 0, "nodes": 3 })] {
            assert!(leader(&file, &bad).is_none() && seen(&file, &bad, "root-1").is_none());
        }
    }
}
