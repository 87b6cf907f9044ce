//! A venue of two shards: a root of each, two edges that serve both.

use std::collections::BTreeSet;

use host::admin::action::Action;
use host::admin::protocol::{Reply, Request};
use host::fleet::shards::ShardNodes;

use super::*;

/// A root of each shard, and two edges behind them.
fn venue(name: &str) -> Venue {
    let dir = std::env::temp_dir().join(format!("fairbell-fleet-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    host::files::folder(&dir).expect("a folder");
    std::fs::write(dir.join("venue.toml"), VENUE).expect("written");
    let first = free_ports(96);
    let (root, edge) = (NodeRole::Root, NodeRole::Edge);
    let names = [("root-1", root), ("root-2", root), ("edge-1", edge), ("edge-2", edge)];
    let nodes = names.into_iter().zip((first..).step_by(18)).map(|((name, role), port)| {
        NodeEntry { port: Some(port), ..NodeEntry::new(name, "127.0.0.1", vec![role]) }
    });
    let shard = |name: &str, symbols: &[&str], root: &str| ShardNodes {
        name: name.to_string(),
        symbols: symbols.iter().map(ToString::to_string).collect(),
        roots: vec![root.to_string()],
        ..ShardNodes::default()
    };
    let shards =
        vec![shard("one", &["BTCUSD", "GENA"], "root-1"), shard("two", &["GENB"], "root-2")];
    let path = dir.join("cluster.toml");
    let all = (nodes.collect(), shards);
    let file = ClusterFile::with_shards(&path, "lab", Clock::start(0).now(), all);
    let file = file.expect("a cluster");
    std::fs::write(&path, file.text().expect("text")).expect("written");
    credentials::found(&file).expect("an authority");
    for name in names.iter().map(|(name, _)| *name).chain([OPERATOR]) {
        credentials::issue(&file, name, 30).expect("keys");
    }
    Venue { dir, file: ClusterFile::read(&path).expect("as written"), running: Vec::new() }
}

/// How the second shard's roots see the nodes: name and word.
fn second(venue: &Venue) -> Vec<(String, String)> {
    let file = venue.file.named_shard("two").expect("there");
    let keys = Credentials::folder(&file, OPERATOR);
    let own = Credentials::read(&file, &keys, OPERATOR).expect("keys");
    let operator = Identity::new(&file, &file.venue().expect("settings"), own, (OPERATOR, 0));
    let told = operator.expect("one").operate(&Operation::Status, PATIENCE).expect("told");
    let word = |of: &serde_json::Value| of.as_str().unwrap_or_default().to_string();
    let rows = told.1["nodes"].as_array().cloned().unwrap_or_default();
    rows.iter().map(|row| (word(&row["node"]), word(&row["is"]))).collect()
}

fn ask(venue: &Venue, root: &str, action: Action) -> Reply {
    let socket = venue.dir.join(root).join("admin.sock");
    host::admin::ask(&socket, &Request { operator: None, action }).expect("an answer")
}

/// Sessions of the feed that come to a socket within a while.
fn sessions(of: &UdpSocket, wanted: usize) -> BTreeSet<[u8; 10]> {
    let (since, mut found) = (Instant::now(), BTreeSet::new());
    while found.len() < wanted && since.elapsed() < PATIENCE {
        let Some((_, bytes)) = packet(of) else { continue };
        found.insert(wire::moldudp::Packet::parse(&bytes).expect("a packet").session().0);
    }
    found
}

#[test]
fn edges_serve_both_shards_operators_reach_them_and_one_that_is_away_keeps_nobody_from_the_other() {
    let mut venue = venue("shards");
    let all = ["root-1", "root-2", "edge-1", "edge-2"];
    all.into_iter().for_each(|name| venue.start(name));
    all.into_iter().for_each(|name| venue.wait(name, "up"));
    let up = |names: &[&str]| -> Vec<(String, String)> {
        names.iter().map(|name| (name.to_string(), "up".to_string())).collect()
    };
    wait_for(|| second(&venue) == up(&all[1..]));
    // The feeds of both come to whoever subscribes at an edge.
    let mut session = venue.subscribe("edge-1", "FLOW01").expect("logged on");
    let (socket, to) = ear();
    let told = session.subscribe(Way::Unicast, to).expect("granted");
    let known: BTreeSet<[u8; 10]> = told.streams.iter().map(|(name, _)| *name).collect();
    assert_eq!((known.len(), told.repair.len()), (2, 2));
    assert_eq!(sessions(&socket, 2), known);
    // What is for all goes to the first shard's root, and reaches both; an instrument's goes to its own.
    let kill = || Action::Kill { account: "FLOW03".to_string() };
    let halt = || Action::Halt { instrument: "GENB".to_string() };
    let refused = ask(&venue, "root-2", kill());
    assert!(!refused.ok && refused.text.contains("the root that leads one"), "{refused:?}");
    let done = ask(&venue, "root-1", kill());
    assert!(done.ok && done.data["done"] == serde_json::json!(["one", "two"]), "{done:?}");
    for root in ["root-1", "root-2"] {
        let status = ask(&venue, root, Action::Status);
        assert_eq!(status.data["killed"], serde_json::json!(["FLOW03"]), "{root}: {status:?}");
    }
    let phase = |venue: &Venue| {
        let status = ask(venue, "root-2", Action::Status);
        status.data["instruments"][2]["phase"].as_str().map(str::to_string)
    };
    assert!(ask(&venue, "root-2", halt()).ok);
    assert_eq!(phase(&venue).as_deref(), Some("halt"));
    let resumed = ask(&venue, "root-1", Action::Resume { instrument: "GENB".to_string() });
    assert!(resumed.ok && resumed.data["directive"] == 2, "{resumed:?}");
    assert_eq!(phase(&venue).as_deref(), Some("continuous"));
    let elsewhere = ask(&venue, "root-2", Action::Halt { instrument: "GENA".to_string() });
    assert!(!elsewhere.ok && elsewhere.text.contains("shard one's"), "{elsewhere:?}");
    // One shard is away: an edge that starts now begins without it, and the other's feed goes on.
    stopped(&mut venue, "edge-2");
    stopped(&mut venue, "root-2");
    venue.start("edge-2");
    venue.wait("edge-2", "up");
    let lines = venue.said("edge-2");
    assert!(lines.iter().any(|line| line.contains("begins without shard two")), "{lines:?}");
    let waits = ask(&venue, "root-1", Action::Revive { account: "FLOW03".to_string() });
    assert!(waits.ok && waits.data["waits"] == serde_json::json!(["two"]), "{waits:?}");
    let mut session = venue.subscribe("edge-2", "FLOW02").expect("logged on");
    let (socket, to) = ear();
    session.subscribe(Way::Unicast, to).expect("granted");
    assert_eq!(sessions(&socket, 1).len(), 1);
    // It is back: it carries out what it missed, and its feed comes to that edge, too.
    venue.start("root-2");
    wait_for(|| second(&venue) == up(&all[1..]));
    assert_eq!(sessions(&socket, 2), known);
    wait_for(|| ask(&venue, "root-2", Action::Status).data["killed"] == serde_json::json!([]));
}

#[test]
fn a_file_that_names_no_roots_for_the_shards_of_the_settings_is_refused() {
    let venue = Venue::new("placed");
    let settings = VENUE.to_string()
        + "[[shard]]\nname = \"one\"\nsymbols = [\"BTCUSD\", \"GENA\"]\n[[shard]]\nname = \"two\"\n\
           symbols = [\"GENB\"]\n";
    std::fs::write(venue.dir.join("venue.toml"), settings).expect("written");
    let why = venue.file.venue().expect_err("no roots of them").to_string();
    assert!(why.contains("cluster.toml: shard: ") && why.contains("venue.toml has 2"), "{why}");
}
