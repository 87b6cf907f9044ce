//! Golden complaints, and the agreement of `fairbell.toml`, the table of keys and the defaults.

use proptest::prelude::*;

use super::keys::{self, KEYS, Kind, LISTS};
use super::{Config, Loaded};

const SHIPPED: &str = include_str!("../../../../fairbell.toml");

fn complaint(text: &str) -> String {
    match Loaded::text("fairbell.toml", text).and_then(Loaded::finish) {
        Ok(_) => "no complaint".to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_shipped_file_says_exactly_the_defaults() {
    let shipped = Loaded::text("fairbell.toml", SHIPPED).and_then(Loaded::finish);
    assert_eq!(shipped, Ok(Config::default()));
    assert_eq!(Loaded::text("empty", "").and_then(Loaded::finish), Ok(Config::default()));
    // Only that doors may be plain a file has to say itself.
    let opened = |text| Loaded::text("some.toml", text).and_then(Loaded::finish_with_doors);
    assert_eq!(opened("doors.plain = true"), Ok(Config::default()));
    assert_eq!(opened(SHIPPED), Ok(Config::default()));
    assert_eq!(Loaded::defaults().finish_with_doors(), Ok(Config::default()));
    let complaint = opened("").expect_err("it does not say so").to_string();
    assert!(complaint.starts_with("some.toml: doors.plain: must be there"), "{complaint}");
}

#[test]
fn the_shipped_file_explains_every_key_with_its_range() {
    for key in KEYS {
        let (section, name) = key.path.rsplit_once('.').unwrap_or(("", key.path));
        // What is not there by default is shown as a comment.
        let lines = SHIPPED.lines().map(|line| line.strip_prefix("# ").unwrap_or(line));
        let heads = [format!("[{section}]"), format!("[[{section}]]")];
        let head = lines.clone().position(|line| heads.iter().any(|head| line == head));
        // Other sections have keys of this name, too.
        let line = lines.skip(head.unwrap_or(0)).position(|line| {
            line.strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with('='))
        });
        let line = line.map(|line| line + head.unwrap_or(0));
        let line = line.unwrap_or_else(|| panic!("fairbell.toml does not show {}", key.path));
        let comment: String = SHIPPED.lines().skip(line).take(2).collect();
        let range = match key.kind {
            Kind::Price if name != "tick" => continue,
            Kind::Price => "\"0.0001\" to \"429496.7295\"".to_string(),
            kind => kind.to_string(),
        };
        assert!(comment.contains(&range), "{}: its comment does not say {range:?}", key.path);
    }
}

#[test]
fn values_of_a_wrong_type_or_range_name_line_and_key() {
    let cases = [
        ("\n[overlay]\n\nfanout = 0", "4: overlay.fanout: must be 1..=64, is 0"),
        ("overlay.depth = -1", "1: overlay.depth: must be 1..=6, is -1"),
        ("[overlay]\nhedge = \"one\"", "2: overlay.hedge: must be 0..=8, is \"one\""),
        ("[overlay]\nhedge = 1.5", "2: overlay.hedge: must be 0..=8, is 1.5"),
        (
            "[overlay]\ndynamic_parents = 1",
            "2: overlay.dynamic_parents: must be true or false, is 1",
        ),
        ("[hold]\npercentile = 100", "2: hold.percentile: must be 50.0..=99.9, is 100"),
        ("[hold]\npercentile = nan", "2: hold.percentile: must be 50.0..=99.9, is NaN"),
        (
            "[overlay]\ndata_plane = \"udp\"",
            "2: overlay.data_plane: must be a list of \"udp\", \"tc-clone\", \"af_xdp\", \"dpdk\", is \"udp\"",
        ),
        (
            "[overlay]\ndata_plane = [\"tc-clone\", \"ebpf\"]",
            "2: overlay.data_plane: must be a list of \"udp\", \"tc-clone\", \"af_xdp\", \"dpdk\", is \
             [\"tc-clone\", \"ebpf\"]",
        ),
        (
            "[overlay]\ndata_plane = []",
            "2: overlay.data_plane: must be a list of \"udp\", \"tc-clone\", \"af_xdp\", \"dpdk\", is a list",
        ),
        ("[flow]\nrate = []", "2: flow.rate: must be 1..=1000000, is a list"),
        ("[flow]\nsample = \"\"", "2: flow.sample: must be text of 1 to 1024 bytes, is \"\""),
        (
            "[[instrument]]\nsymbol = \"A\"\ntick = 0.01",
            "3: instrument[0].tick: must be a price in quotes, \"0.0001\" to \"429496.7295\", \
             is 0.01",
        ),
        (
            "[[account]]\nname = \"a\"\nusername = \"TOOLONG\"\npassword = \"x\"",
            "3: account[0].username: must be 1 to 6 ASCII characters without spaces, \
             is \"TOOLONG\"",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(complaint(text), format!("fairbell.toml:{expected}"));
    }
}

#[test]
fn doors_are_plain_on_loopback_only_and_logins_complete() {
    let cases = [
        ("doors.plain = false", "1: doors.plain: must be true for doors without TLS on the"),
        (
            "[doors]\nplain = true\nlisten = \"10.0.0.1\"",
            "3: doors.listen: 10.0.0.1 is no loopback address: doors there need TLS",
        ),
        (
            "[doors]\nplain = true\nlisten = \"::\"",
            "3: doors.listen: :: is no loopback address: doors there need TLS",
        ),
        (
            "[doors]\nplain = true\nlisten = \"fe80::1\"",
            "3: doors.listen: must be an IPv4 address, or an IPv6 address that is not link-local",
        ),
        ("[doors]\ncertificate = \"a.pem\"", "doors.key: must be given with doors.certificate"),
        (
            "[doors]\nplain = true\ncertificate = \"a\"\nkey = \"b\"\nauthorities = \"c\"\n\
             client_certificates = \"optional\"",
            "2: doors.plain: doors that speak TLS are not plain",
        ),
        (
            "[doors]\ncertificate = \"a\"\nkey = \"b\"\nauthorities = \"c\"\n\
             own_certificate = \"d\"\nown_key = \"e\"\nlisten = \"10.0.0.1\"\n[flow]\n\
             participants = 1\n[[account]]\nname = \"a\"\nusername = \"A\"\npassword = \"x\"",
            "13: account[0].password: is for trials on the loopback address",
        ),
        (
            "doors.plain = true\n[flow]\nparticipants = 1\n[[account]]\nname = \"a\"\n\
             username = \"A\"\npassword = \"x\"\n[[account]]\nname = \"b\"\nusername = \"B\"",
            "account[1].password: or password_hash is missing",
        ),
        (
            "doors.plain = true\n[flow]\nparticipants = 1\n[[account]]\nname = \"a\"\n\
             username = \"A\"\npassword = \"x\"\naddresses = \"10.0.0.0/40\"",
            "8: account[0].addresses: write addresses like 10.0.0.0/8",
        ),
        (
            "doors.plain = true\n[flow]\nparticipants = 1\n[[account]]\nname = \"a\"\n\
             username = \"A\"\npassword = \"x\"\ncertificate = \"name:a\"",
            "8: account[0].certificate: needs doors that speak TLS",
        ),
    ];
    for (text, expected) in cases {
        let complaint = complaint(text);
        assert!(complaint.contains(expected), "{complaint:?} does not say {expected:?}");
    }
}

#[test]
fn dictionaries_of_operators_are_read_and_faults_name_key_and_file() {
    let dir = std::env::temp_dir().join(format!("fairbell-dictionary-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let small = |kind: &str, version: &str| {
        format!(
            "<fix type=\"{kind}\" {version}><header/><trailer/><messages/><components/><fields>\
             <field number=\"8\" name=\"BeginString\" type=\"STRING\"/></fields></fix>"
        )
    };
    let whole = file("FIX44.xml", &small("FIX", "major=\"4\" minor=\"4\""));
    let transport = file("FIXT11.xml", &small("FIXT", "major=\"1\" minor=\"1\""));
    let sp2 = "major=\"5\" minor=\"0\" servicepack=\"2\"";
    let application = file("FIX50SP2.xml", &small("FIX", sp2));
    let broken = file("broken.xml", "<fix");
    let account = |keys: &str| {
        format!(
            "[[account]]\nname = \"a\"\nusername = \"FLOW01\"\npassword = \"flow\"\n[[account]]\n\
             name = \"b\"\nusername = \"B\"\npassword = \"b\"\nfix_comp_id = \"B\"\n{keys}\n[flow]\n\
             participants = 1\n"
        )
    };
    let session = |keys: &str| {
        let config = Loaded::text("x.toml", &account(keys)).unwrap().finish().unwrap();
        config.accounts.0[1].fix().unwrap()
    };
    assert_eq!(session("").rules, None);
    assert_eq!(session("").custom_tags, fix::dictionary::CustomTags::Refused);
    let tolerated = session("fix_custom_tags = \"tolerated\"");
    assert_eq!(tolerated.custom_tags, fix::dictionary::CustomTags::Tolerated);
    let read = session(&format!("fix_dictionary = {whole:?}")).rules.unwrap();
    assert_eq!(read.transport.name, "FIX.4.4");
    let new = format!(
        "fix_version = \"5.0SP2\"\nfix_dictionary = {application:?}\n\
         fix_transport_dictionary = {transport:?}"
    );
    let read = session(&new).rules.unwrap();
    assert_eq!((&*read.transport.name, &*read.application.name), ("FIXT.1.1", "FIX.5.0SP2"));
    for (keys, key, why) in [
        (format!("fix_dictionary = {broken:?}"), "fix_dictionary", "line"),
        ("fix_dictionary = \"none.xml\"".to_string(), "fix_dictionary", "none.xml"),
        (format!("fix_dictionary = {transport:?}"), "fix_dictionary", "is FIXT.1.1"),
        (
            format!("fix_version = \"5.0SP2\"\nfix_dictionary = {application:?}"),
            "fix_dictionary",
            "needs fix_transport_dictionary",
        ),
        (
            format!("fix_transport_dictionary = {transport:?}"),
            "fix_transport_dictionary",
            "needs fix_dictionary",
        ),
    ] {
        let said = complaint(&account(&keys));
        assert!(said.contains(&format!("account[1].{key}: ")) && said.contains(why), "{said}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn unknown_and_missing_keys_name_line_and_key() {
    let cases = [
        ("[overlay]\nfan_out = 3", "2: overlay.fan_out: unknown key; did you mean overlay.fanout?"),
        (
            "[telemetry]\nredis = \"redis://a/0\"",
            "2: telemetry.redis: unknown key; did you mean telemetry.redis_url?",
        ),
        ("[overlay]\ncolour = 3", "2: overlay.colour: unknown key"),
        ("[overlays]\n", "1: overlays: unknown section"),
        ("overlay = 3", "1: overlay: must be a table, [overlay]"),
        ("instrument = 3", "1: instrument: must be a list of tables, [[instrument]]"),
        ("account = []", "1: account: must have 1..=4096 entries, has 0"),
        (
            "[[instrument]]\nsymbol = \"A\"\n\n[[instrument]]\ntick = \"1\"",
            "4: instrument[1].symbol: is missing",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(complaint(text), format!("fairbell.toml:{expected}"));
    }
}

#[test]
fn the_first_complaint_of_the_file_is_the_one_shown() {
    let text = "[hold]\ncap_ms = 0\n[overlay]\nfanout = 0";
    assert_eq!(complaint(text), "fairbell.toml:2: hold.cap_ms: must be 1..=1000, is 0");
}

#[test]
fn broken_syntax_names_its_line_in_one_line() {
    for text in ["[overlay]\nfanout = = 3", "[overlay]\nfanout = 3\nfanout = 3", "[overlay\n"] {
        let complaint = complaint(text);
        assert!(complaint.starts_with("fairbell.toml:"), "{complaint}");
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
    }
    assert!(complaint("[overlay]\nfanout = = 3").starts_with("fairbell.toml:2: "));
}

#[test]
fn relations_between_keys_blame_the_key_that_was_set() {
    let cases = [
        (
            "[gateway]\nmax_hold_ms = 5",
            "fairbell.toml:2: gateway.max_hold_ms: must be at least hold.cap_ms (20), \
             the latest a tick can be due, is 5",
        ),
        (
            "[hold]\ncap_ms = 500",
            "fairbell.toml:2: hold.cap_ms: must be at most gateway.max_hold_ms (100), is 500",
        ),
        ("[ports]\nbase = 80", "fairbell.toml:2: ports.base: must be 0 or 1024..=60000, is 80"),
        (
            "[[instrument]]\nsymbol = \"A\"\nprice_max = \"10\"\nreference = \"100\"",
            "fairbell.toml:4: instrument[0].reference: must be at most price_max (10), is 100",
        ),
        (
            "[[instrument]]\nsymbol = \"A\"\nreference = \"5\"\ntick = \"7\"",
            "fairbell.toml:3: instrument[0].reference: must be a multiple of tick (7), is 5",
        ),
        (
            "[flow]\nparticipants = 11",
            "fairbell.toml:2: flow.participants: must be at most the number of accounts (10), \
             is 11",
        ),
        (
            "[[instrument]]\nsymbol = \"A\"\n[[instrument]]\nsymbol = \"A\"",
            "fairbell.toml:4: instrument[1].symbol: \"A\" is there twice",
        ),
        (
            "[[instrument]]\nsymbol = \"A\"\nprice_max = \"5\"\ntick = \"10\"",
            "fairbell.toml:4: instrument[0].tick: must be at most price_max (5), is 10",
        ),
        (
            "[[instrument]]\nsymbol = \"A\"\nqty_min = 5\nqty_max = 4",
            "fairbell.toml:3: instrument[0].qty_min: must be at most qty_max (4), is 5",
        ),
        (
            "[day]\nhalt_at_percent = 80\nhalt_percent = 50",
            "fairbell.toml:2: day.halt_at_percent: halt_at_percent, halt_percent and \
             resume_percent make 135, over 95",
        ),
        (
            "[overlay]\nlayer_hedges = \"1\"",
            "fairbell.toml:2: overlay.layer_hedges: must be \"same\" or 2 numbers 0..=8 like \
             \"0,1\", is \"1\"",
        ),
        (
            "[overlay]\nplanes = 2\nhedging = \"extra-fanout\"",
            "fairbell.toml:2: overlay.planes: planes and extra-fanout do not go together",
        ),
        (
            "[overlay]\nplanes = 2\nplane_use = \"symbols\"",
            "fairbell.toml:3: overlay.plane_use: \"symbols\" needs \
             overlay.change_tree_at_percent = 0, because trees by symbol keep their shape; it is 60",
        ),
        (
            "[overlay]\nhedge = 1\norder_ways = 3",
            "fairbell.toml:3: overlay.order_ways: must be at most the parents of a gateway (2), \
             is 3",
        ),
        (
            "[[instrument]]\nsymbol = \"A\"\ntree = 1",
            "fairbell.toml:3: instrument[0].tree: needs overlay.plane_use = \"symbols\"",
        ),
        (
            "[overlay]\nplanes = 2\nplane_use = \"symbols\"\nchange_tree_at_percent = 0\n\
             [[instrument]]\nsymbol = \"A\"\ntree = 3",
            "fairbell.toml:7: instrument[0].tree: must be at most overlay.planes (2), is 3",
        ),
        (
            "[overlay]\npacing = \"credits\"",
            "fairbell.toml:2: overlay.pacing: pacing \"credits\" needs a queue",
        ),
        (
            "[loops]\nedges = \"core two\"",
            "fairbell.toml:2: loops.edges: must be \"auto\", \"root\", \"park\", \"spin\" or \"core N\" with \
             the number of a core, is \"core two\"",
        ),
        (
            "[loops]\nroot = \"root\"",
            "fairbell.toml:2: loops.root: must be \"auto\", \"park\", \"spin\" or \"core N\" with the \
             number of a core, is \"root\"",
        ),
        (
            "[loops]\nroot = \"core 2\"\noutside = \"core 2\"",
            "fairbell.toml:3: loops.outside: core 2 is that of loops.root, too: a loop has it to \
             itself",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(complaint(text), expected);
    }
}

#[test]
fn options_of_the_overlay_reach_its_nodes() {
    use overlay::{
        estimator::Estimator, hedger::HedgeMode, hedging::HedgePolicy, membership::RollCallConfig,
        upstream_queue::Pace,
    };
    let read = |text| Loaded::text("fairbell.toml", text).and_then(Loaded::finish).unwrap();
    let options = |config: &Config| config.overlay.options(&config.hold, None);
    let config = Config::default();
    let plain = exchange::OverlayOptions {
        roll_call: Some(RollCallConfig::default()),
        shapes: options(&config).shapes,
        // As many as of market data.
        order_ways: 2,
        ..Default::default()
    };
    assert_eq!(options(&config), plain, "nothing else is on by default");
    assert_eq!(plain.shapes.iter().map(|shape| shape.fanout).collect::<Vec<_>>(), [3, 5]);
    let text = "[overlay]\nhedging = \"path-disjoint\"\nlayer_hedges = \"0, 2\"\nplanes = 2\n\
                hedge_mode = \"adaptive\"\nparity = 8\nrepair_cache = 100\nqueue = \"fifo\"\n\
                queue_gap_us = 3\npacing = \"credits\"\ncredits_per_ms = 9\nslowest_first = true\n\
                change_tree_at_percent = 0\nroll_call_ms = 0\n\
                [hold]\nestimator = \"miss-rate\"\ntarget_percent = 97.5";
    let set = options(&read(text));
    assert_eq!((set.hedging.policy, set.hedging.planes), (HedgePolicy::PathDisjoint, 2));
    assert_eq!(set.hedging.layers[..2], [0, 2]);
    assert_eq!(set.hedge_mode, HedgeMode::Adaptive { first: 1, most: 2, gain_permille: 50 });
    assert_eq!(set.estimator, Estimator::MissRate { permille: 975 });
    assert_eq!((set.samples(), set.parity, set.slowest_first), (32, 8, true));
    assert_eq!(set.cache.map(|cache| cache.datagrams), Some(100));
    let lift = set.upstream.expect("a queue");
    assert_eq!((lift.pace, lift.gap_ns), (Pace::Credits { rate: 9 }, 3_000));
    assert_eq!((set.roll_call, set.shapes), (None, Vec::new()));
}

#[test]
fn orders_go_by_as_many_ways_as_market_data_unless_a_number_is_given() {
    let ways = |text: &str| {
        let config = Loaded::text("fairbell.toml", &format!("[overlay]\n{text}"));
        let config = config.and_then(Loaded::finish).expect(text);
        config.overlay.options(&config.hold, None).order_ways
    };
    let of_hedge = [0, 1, 2, 3, 8].map(|hedge| ways(&format!("hedge = {hedge}")));
    assert_eq!(of_hedge, [1, 2, 3, 3, 3]);
    assert_eq!(ways("hedge = 1\norder_ways = 1"), 1);
    assert_eq!(ways("hedge = 3\norder_ways = 4"), 4);
    assert_eq!(ways("hedge = 0\norder_ways = 2"), 2, "there are two parents without hedging, too");
    let spare = "hedging = \"extra-fanout\"\nhedge = 2\nchange_tree_at_percent = 0";
    assert_eq!(ways(spare), 1, "spare proxies are no ways up");
}

#[test]
fn instruments_are_dealt_out_to_trees() {
    let text = "[overlay]\nplanes = 3\nplane_use = \"symbols\"\nchange_tree_at_percent = 0\n\
                hedge = 2\norder_ways = 3\n[[instrument]]\nsymbol = \"A\"\n\
                [[instrument]]\nsymbol = \"B\"\ntree = 1\n[[instrument]]\nsymbol = \"C\"";
    let config = Loaded::text("fairbell.toml", text).and_then(Loaded::finish).unwrap();
    let mut options = config.overlay.options(&config.hold, None);
    options.spread = config.spread();
    assert_eq!(options.spread, exchange::Spread::Symbols(vec![None, Some(0), None]));
    assert_eq!([0, 1, 2].map(|place| options.stream_of(place)), [0, 0, 2]);
    assert_eq!((options.streams(), options.order_ways), (3, 3));
    assert_eq!(Config::default().spread(), exchange::Spread::Messages);
}

#[test]
fn rules_and_limits_reach_the_engine() {
    let text = "[limits]\nopen_orders = 7\n[[instrument]]\nsymbol = \"A\"\n\
                allocation = \"pro-rata-top\"\ntrigger = \"touch\"\nreference = \"10\"\n\
                static_collar_bp = 500\ndynamic_collar_bp = 100\nqty_min = 2\n\
                [[instrument]]\nsymbol = \"B\"";
    let config = Loaded::text("fairbell.toml", text).and_then(Loaded::finish).unwrap();
    let [first, second] = config.rules()[..] else { panic!("two instruments") };
    let top = types::Allocation::ProRata { top_order: true, min_allocation: 0 };
    assert_eq!((first.allocation, first.trigger), (top, types::Trigger::Touch));
    assert_eq!((first.static_collar_bp, first.dynamic_collar_bp), (500, 100));
    assert_eq!((first.reference, first.qty_min), (types::Price::from_whole(10), types::Qty(2)));
    assert_eq!(second, engine::InstrumentRules::of(&config.instruments()[1]));
    let limits = config.limits.values();
    assert_eq!(limits.get(types::LimitKind::OpenOrders), 7);
    assert_eq!(limits.get(types::LimitKind::Credit), engine::Limits::UNLIMITED);
    let wrong = "[[instrument]]\nsymbol = \"A\"\nallocation = \"best\"";
    let expected = "fairbell.toml:3: instrument[0].allocation: must be \"price-time\" or \
                    \"pro-rata\" or \"pro-rata-top\", is \"best\"";
    assert_eq!(complaint(wrong), expected);
}

#[test]
fn options_of_the_command_line_are_checked_and_blamed_by_their_name() {
    let mut loaded = Loaded::text("fairbell.toml", "[overlay]\nfanout = 4").unwrap();
    let zero = loaded.set("overlay.fanout", "--fanout", 0u32, |c, v| c.overlay.fanout = v);
    let message = zero.unwrap_err().to_string();
    assert_eq!(message, "--fanout: overlay.fanout: must be 1..=64, is 0");
    loaded.set("overlay.fanout", "--fanout", 5u32, |c, v| c.overlay.fanout = v).unwrap();
    loaded.set("ports.base", "--port-base", 80u32, |c, v| c.ports.base = v).unwrap();
    let message = loaded.clone().finish().unwrap_err().to_string();
    assert_eq!(message, "--port-base: ports.base: must be 0 or 1024..=60000, is 80");
    loaded.set("ports.base", "--port-base", 0u32, |c, v| c.ports.base = v).unwrap();
    assert_eq!(loaded.finish().unwrap().overlay.fanout, 5);
}

#[test]
fn defaults_become_instruments_with_dense_ids() {
    let instruments = Config::default().instruments();
    assert_eq!(instruments.len(), 3);
    assert!(instruments.iter().zip(1..).all(|(instrument, id)| instrument.id.0 == id));
    assert_eq!(instruments[0].symbol.as_str(), "BTCUSD");
}

#[test]
fn passwords_are_never_written_out() {
    assert!(!serde_json::to_string(&Config::default()).unwrap().contains("welcome"));
}

#[test]
fn the_table_of_keys_has_no_stray_entries() {
    let mut config = Config::default();
    // None by default, and an entry of a list shows its fields.
    config.shards.0.push(crate::config::ShardEntry::default());
    config.strategies.0.push(crate::config::StrategyEntry::default());
    let fields = serde_json::to_value(config).unwrap();
    for key in KEYS.iter().filter(|key| !key.path.starts_with("account.password")) {
        let (section, name) = key.path.split_once('.').unwrap();
        let list = LISTS.iter().any(|(list, _)| *list == section);
        let table = if list { &fields[section][0] } else { &fields[section] };
        assert!(!table[name].is_null(), "{} is no field", key.path);
        assert!(keys::find(key.path).is_some());
    }
    let leaves = |value: &serde_json::Value| value.as_object().map_or(0, serde_json::Map::len);
    let fields: usize = fields
        .as_object()
        .unwrap()
        .values()
        .map(|v| v.as_array().map_or(leaves(v), |list| leaves(&list[0])))
        .sum();
    assert_eq!(fields + 2, KEYS.len(), "a field without an entry in the table");
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in "\\PC{0,200}") {
        let _ = complaint(&text);
    }

    #[test]
    fn a_mutated_file_is_read_or_refused_in_one_line(
        at in 0usize..SHIPPED.len(), cut in 0usize..40, insert in "[ -~\n]{0,12}",
    ) {
        let mut bytes = SHIPPED.as_bytes().to_vec();
        let end = (at + cut).min(bytes.len());
        bytes.splice(at..end, insert.bytes());
        let complaint = complaint(&String::from_utf8_lossy(&bytes));
        prop_assert_eq!(complaint.lines().count(), 1);
    }
}

#[test]
fn what_does_not_go_together_with_replicas_is_refused() {
    let replicated = |more: &str| format!("[journal]\ndurability = \"replicated\"\n{more}");
    let followed = "[store]\nfollow = true\n";
    let revised = "[overlay]\nstandby = 1\nrevise_at_percent = 10\n";
    let recycled = "[memory]\nwhen_full = \"recycle\"\ndisk_mib = 64\n";
    for good in ["", "replicas = 5\n", revised, followed, recycled] {
        assert_eq!(complaint(&replicated(good)), "no complaint");
    }
    let cases = [
        (replicated("replicas = 4"), "3: journal.replicas: must be 3 or 5, is 4"),
        (replicated("replicas = 7"), "3: journal.replicas: must be 3..=5, is 7"),
        (
            replicated("[overlay]\nreplace_after_ms = 500"),
            "4: overlay.replace_after_ms: needs overlay.standby",
        ),
        (
            replicated("[memory]\nwhen_full = \"recycle\""),
            "4: memory.when_full: \"recycle\" needs memory.disk_mib above 0",
        ),
        (
            replicated("[memory]\nwhen_full = \"recycle\"\ndisk_mib = 64")
                .replace("replicated", "local"),
            "4: memory.when_full: \"recycle\" needs journal.durability = \"none\" or",
        ),
        (
            "[store]\nfollow = true".to_string(),
            "2: store.follow: needs journal.durability = \"local\" or \"replicated\", it is \"none\"",
        ),
    ];
    for (text, expected) in cases {
        let complaint = complaint(&text);
        assert!(complaint.contains(expected), "{complaint:?} does not say {expected:?}");
    }
}

#[test]
fn data_planes_are_read_in_their_order_and_are_those_that_there_are() {
    use net::plane::PlaneKind;
    let of = |text: &str| {
        let config = Loaded::text("fairbell.toml", text).and_then(Loaded::finish).expect("good");
        config.overlay.data_planes()
    };
    let given = of("[overlay]\ndata_plane = [\"tc-clone\", \"udp\"]");
    assert_eq!(given, [PlaneKind::TcClone, PlaneKind::Udp]);
    assert_eq!(of(""), [PlaneKind::Udp]);
    assert_eq!(PlaneKind::ALL.map(PlaneKind::name), super::overlay::DATA_PLANES);
    // What is sealed differs where a data plane lets copies differ, and nowhere else.
    let (head, tail) = net::plane::COPIES_DIFFER_AT_MOST;
    let hop = size_of::<overlay::seal::SealHeader>() + size_of::<overlay::frame::HopHeader>();
    assert_eq!((head, tail), (hop, overlay::seal::TAG_LEN));
}

#[test]
fn the_sequencers_section_reaches_the_root() {
    let read = |text| Loaded::text("fairbell.toml", text).and_then(Loaded::finish).unwrap();
    let options = |text| crate::deployment::overlay_options(&read(text)).unwrap();
    let set = options("[sequencer]\nlate_ppm = 50\ntie_us = 2");
    assert_eq!((set.late_ppm, set.tie_ns), (50, 2_000));
    let plain = options("");
    assert_eq!((plain.late_ppm, plain.tie_ns), (0, 0), "off by default");
    let wrong =
        Loaded::text("fairbell.toml", "[sequencer]\ntie_us = 1001").and_then(Loaded::finish);
    assert!(wrong.is_err());
}
