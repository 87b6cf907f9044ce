//! What a cluster file may say, and what two machines have to agree on.

use super::*;

#[test]
fn settings_that_a_version_does_not_know_count_only_when_they_are_set() {
    let usual = serde_json::json!({ "hold": { "cap": 5, "new": 1 }, "new": { "a": 1 }, "of": [2] });
    let older = serde_json::json!({ "hold": { "cap": 5 }, "of": [2] });
    let left = |mut settings: Value, usual| {
        leave_out(&mut settings, usual);
        settings
    };
    assert_eq!(left(usual.clone(), &usual), left(older.clone(), &older));
    let set = |cap, new| serde_json::json!({ "hold": { "cap": cap, "new": new }, "of": [2] });
    let same = serde_json::json!({ "hold": { "cap": 7 }, "of": [2] });
    assert_eq!(left(set(7, 1), &usual), left(same, &older));
    assert_eq!(left(set(5, 2), &usual), serde_json::json!({ "hold": { "new": 2 } }));
    let others = serde_json::json!({ "hold": { "cap": 5 }, "of": [2, 3] });
    assert_eq!(left(others, &older), serde_json::json!({ "of": [2, 3] }));
}

const GOOD: &str = "[cluster]\nname = \"lab\"\nid = \"00000000000000a7\"\nsession = \
                    \"FB12345678\"\nmidnight = \"2026-11-25\"\nvenue = \"venue.toml\"\n\
                    authority = \"authority.pem\"\n\n[[node]]\nname = \"root-1\"\naddress = \
                    \"127.0.0.1\"\nroles = [\"root\"]\n\n[[node]]\nname = \"edge-1\"\naddress = \
                    \"127.0.0.1\"\nport = 7100\nroles = [\"edge\", \"proxy\"]\n";

fn parse(text: &str) -> Result<ClusterFile, Failure> {
    ClusterFile::parse(Path::new("some/cluster.toml"), text)
}

#[test]
fn a_file_is_read_and_written_back() {
    let file = parse(GOOD).expect("a good file");
    assert_eq!((file.id, file.replica(1), file.replica(2)), (0xA7, Some(1), None));
    assert_eq!(file.node("edge-1").expect("there").0, 2);
    assert_eq!(file.midnight_ns % (86_400 * Nanos::SECOND), 0);
    assert_eq!(parse(&file.text().expect("text")).expect("a good file"), file);
    let (_, edge) = file.node("edge-1").expect("there");
    let at = file.at(edge, Port::Ouch).expect("an address");
    assert_eq!(at, "127.0.0.1:7110".parse().expect("an address"));
    assert_eq!(file.bound(edge, Port::Fix), "0.0.0.0:7111".parse().expect("an address"));
    assert_eq!(file.venue_path(), Path::new("some/venue.toml"));
}

#[test]
fn replicas_in_reserve_are_numbered_behind_the_roots() {
    let node = |name: &str, port, role| {
        format!(
            "\n[[node]]\nname = \"{name}\"\naddress = \"127.0.0.1\"\nport = {port}\nroles = \
             [\"{role}\"]\n"
        )
    };
    let more = [("spare", 7200, "reserve"), ("root-2", 7300, "root"), ("root-3", 7400, "root")];
    let more: String = more.iter().map(|(name, port, role)| node(name, port, role)).collect();
    let file = parse(&format!("{GOOD}{more}")).expect("a good file");
    let numbers = [1, 2, 3, 4, 5].map(|number| file.replica(number));
    assert_eq!(numbers, [Some(1), None, Some(4), Some(2), Some(3)]);
    let own = &file.nodes[0];
    let places = |role| file.replicas(own, role).expect("addresses");
    let replicas = [places(NodeRole::Root), places(NodeRole::Reserve)].concat();
    let ports: Vec<u16> = replicas.iter().map(|place| place.overlay.port()).collect();
    assert_eq!(ports, [7_000, 7_300, 7_400, 7_200]);
}

#[test]
fn what_is_wrong_is_told_with_file_and_key() {
    let proxy = |from: &str, to: &str| parse(&GOOD.replace(from, to));
    for (from, to, said) in [
        ("address = \"127.0.0.1\"\nport", "adress = \"127.0.0.1\"\nport", ":16: unknown field"),
        ("00000000000000a7", "a7", "cluster.id: 16 hexadecimal digits"),
        ("2026-11-25", "yesterday", "cluster.midnight: a date"),
        ("FB12345678", "FB1", "cluster.session: ten ASCII"),
        ("edge-1", "root-1", "node[1].name: root-1 is named twice"),
        ("edge-1", "edge 1", "node[1].name: 1 to 32 letters"),
        ("[\"root\"]", "[\"proxy\"]", "node: 1, 3, 5, 7 or 9 with the role root, not 0"),
        ("[\"root\"]", "[]", "node[0].roles: root-1 has none"),
        (
            "[\"root\"]",
            "[\"root\", \"reserve\"]",
            "node[0].roles: root-1: one in reserve is not in the group",
        ),
        ("[\"edge\", \"proxy\"]", "[\"snapshot\"]", "node[1].roles: edge-1: a snapshot server"),
        ("[\"root\"]", "[\"root\", \"learner\"]", "node[0].roles: root-1: a root votes"),
        ("[\"root\"]", "[\"learner\"]", "node: 1, 3, 5, 7 or 9 with the role root, not 0"),
        ("[\"edge\", \"proxy\"]", "[\"edge\", \"edge\"]", "node[1].roles: edge-1 has one twice"),
        ("port = 7100", "port = 7010", "node[1].port: edge-1: nodes of one address"),
        ("port = 7100", "port = 65530", "node[1].port: 1..="),
        ("port = 7100", "groups = [\"10.0.0.1:7100\"]", "node[1].groups: edge-1: at most 16"),
        ("port = 7100", "groups = [\"239.1.1.3:0\"]", "node[1].groups: edge-1: at most 16"),
        ("port = 7100", "ring = \"shm\"", "node[1].ring: edge-1: an absolute path"),
        ("port = 7100", "ring_group = \"traders\"", "node[1].ring_group: edge-1 has no ring"),
        ("[\"root\"]", "[\"root\"]\nring = \"/dev/shm/x\"", "node[0].ring: root-1: an edge"),
        (
            "port = 7100",
            "public = \"two words\"",
            "node[1].public: edge-1: \"two words\" has blanks",
        ),
        (
            "address = \"127.0.0.1\"\nport",
            "address = \"\"\nport",
            "node[1].address: edge-1: is empty",
        ),
    ] {
        let why = proxy(from, to).expect_err(to).to_string();
        assert!(why.starts_with("some/cluster.toml:") && why.contains(said), "{why}");
        assert_eq!(why.lines().count(), 1, "{why}");
    }
    let why = parse(GOOD).expect("good").node("edge-9").expect_err("none").to_string();
    assert!(why.contains("no node edge-9: root-1, edge-1"), "{why}");
}

#[test]
fn a_venue_is_told_from_another_by_what_is_not_of_one_machine() {
    let of = |change: &dyn Fn(&mut Config)| {
        let mut config = Config::default();
        change(&mut config);
        venue_digest(&parse(GOOD).expect("good"), &config).expect("a digest")
    };
    let usual = of(&|_| ());
    assert_eq!(usual, of(&|config| config.journal.dir = "elsewhere".to_string()));
    // A participant's program comes to its edge without the other machines.
    let one = crate::config::StrategyEntry::default;
    assert_eq!(usual, of(&|config| config.strategies.0.push(one())));
    assert_eq!(usual, of(&|config| config.enclaves.boundary_us = 7));
    assert_ne!(usual, of(&|config| config.hold.cap_ms = 7));
    let other = parse(&GOOD.replace("FB12345678", "FB12345679")).expect("good");
    assert_ne!(usual, venue_digest(&other, &Config::default()).expect("a digest"));
    assert_ne!(usual, of(&|config| config.instruments.0[0].symbol = "OTHER".to_string()));
    assert_ne!(usual, of(&|config| config.accounts.0[0].username = "OTHER".to_string()));
}

proptest::proptest! {
    #[test]
    fn any_text_is_refused_or_read_and_never_panics(
        cuts in proptest::collection::vec((0usize..400, 0usize..40), 1..4),
    ) {
        let mut text = GOOD.to_string();
        for (at, len) in cuts {
            let (from, to) = (at.min(text.len()), (at + len).min(text.len()));
            if text.is_char_boundary(from) && text.is_char_boundary(to) {
                text.replace_range(from..to, "");
            }
        }
        let _ = parse(&text);
    }
}
