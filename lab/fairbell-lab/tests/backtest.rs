//! `fairbell-lab backtest` reads one market out of files of every kind and plays the same.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use feed::ListenerConfig;
use feed::pcap::{put_header, put_udp};
use feed::plant::VenueFeed;
use serde_json::Value;
use strategy::Request;
use strategy::heard::{self, Opening};
use ticks::{TickWriter, WriterConfig};
use types::{
    Channel, ClockReading, Instrument, InstrumentId, MarketEvent, MatchNumber, Nanos, Node,
    OrderRef, Outbox, Peer, Price, Qty, Side, Symbol, TimeInForce,
};
use wire::itch::Encoder;
use wire::moldudp::{PacketBuilder, Session};

struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A small market: two orders a side, trades of each best one in turn.
fn messages() -> Vec<Vec<u8>> {
    let (id, symbol) = (InstrumentId(1), Symbol::new("MSFT").unwrap());
    let (tick, price_max, qty_max) = (Price(1), Price(4_000_000_000), Qty(4_000_000_000));
    let instrument = Instrument { id, symbol, tick, price_max, qty_max, lot_decimals: 0 };
    let encoder = Encoder::new(&[instrument], Nanos(0));
    let mut messages = Vec::new();
    let mut say = |time: u64, event: MarketEvent| {
        let mut bytes = Vec::new();
        encoder.encode(&event, Nanos(time), &mut bytes).expect("a message");
        messages.push(bytes);
    };
    say(1, MarketEvent::Directory { instrument: id });
    let mut number = 0;
    for round in 0..200_u64 {
        let at = Nanos::SECOND + round * 10 * Nanos::MILLI;
        for (side, price) in [(Side::Buy, 1_000_000), (Side::Sell, 1_000_100)] {
            number += 1;
            let (order_ref, price) = (OrderRef(number), Price(price));
            let (instrument, qty) = (id, Qty(10));
            say(at, MarketEvent::AddOrder { instrument, order_ref, side, qty, price });
        }
        // The orders of the round before, whole.
        for old in [number.saturating_sub(3), number.saturating_sub(2)] {
            if round > 0 {
                let (order_ref, match_number) = (OrderRef(old), MatchNumber(old));
                let (instrument, qty, at) = (id, Qty(10), at + 5 * Nanos::MILLI);
                say(at, MarketEvent::OrderExecuted { instrument, order_ref, qty, match_number });
            }
        }
    }
    messages
}

fn framed<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut file = Vec::new();
    for part in parts {
        file.extend_from_slice(&(part.len() as u16).to_be_bytes());
        file.extend_from_slice(part);
    }
    file
}

fn packets(messages: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut builder = PacketBuilder::new(Session(*b"RECORDED01"), 1, 400);
    let mut packets = Vec::new();
    for message in messages {
        if !builder.push(message) {
            packets.push(builder.bytes().to_vec());
            builder.advance();
            assert!(builder.push(message));
        }
    }
    packets.push(builder.bytes().to_vec());
    packets
}

fn backtest(file: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairbell-lab"));
    command.arg("backtest").arg(file).args(args).arg("--json");
    command.output().expect("it runs")
}

#[test]
fn one_market_in_files_of_every_kind_plays_the_same() {
    let folder = std::env::temp_dir().join(format!("fairbell-backtest-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let scratch = Scratch(folder);
    let messages = messages();
    let packets = packets(&messages);
    let plain = framed(messages.iter().map(Vec::as_slice));
    let mut zipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    zipped.write_all(&plain).expect("memory");
    let zipped = zipped.finish().expect("memory");
    let mut capture = Vec::new();
    put_header(&mut capture);
    // Two lines; the second copy of each packet says nothing new.
    for packet in &packets {
        for line in [1, 2] {
            put_udp(&mut capture, Nanos(1), ([233, 0, 0, line], 26_400), packet);
        }
    }
    let files = [("itch", plain), ("itch", zipped), ("pcap", capture)];
    let mut seen: Vec<Value> = Vec::new();
    for (number, (format, bytes)) in files.into_iter().enumerate() {
        let path = scratch.0.join(format!("market{number}"));
        std::fs::write(&path, bytes).expect("a file");
        let output = backtest(&path, &["--qty", "5", "--lots-max", "20", "--jitter-us", "30"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(json["format"], format);
        for name in ["format", "file", "took_ns"] {
            json.as_object_mut().expect("an object").remove(name);
        }
        seen.push(json);
    }
    assert!(seen.iter().all(|one| *one == seen[0]), "{seen:#?}");
    assert_eq!(seen[0]["events"], messages.len() - 1);
    // The strategy stands before the orders of the next round.
    assert!(seen[0]["made_lots"].as_u64() > Some(100), "{:#}", seen[0]);
    let result = seen[0]["result"].as_f64().expect("a number");
    assert!(result > 0.0, "a spread earned on both sides: {result}");

    let path = scratch.0.join("market0");
    let other = backtest(&path, &["--instrument", "AAPL"]);
    assert_eq!(other.status.code(), Some(1));
    let full = backtest(&path, &["--records-max", "10"]);
    let complaint = String::from_utf8_lossy(&full.stderr).into_owned();
    assert!(complaint.contains("more than 10 events"), "{complaint}");
    // A packet that never comes, heartbeats that show it again and again, two that are swapped.
    let mut capture = Vec::new();
    put_header(&mut capture);
    let builder = |seq| PacketBuilder::new(Session(*b"RECORDED01"), seq, 400);
    let mut lacking = 0;
    let mut swapped = packets.clone();
    swapped.swap(6, 7);
    for (number, packet) in swapped.iter().enumerate() {
        let heard = wire::moldudp::Packet::parse(packet).expect("a packet");
        match number {
            3 => lacking = u64::from(heard.count()),
            _ => put_udp(&mut capture, Nanos(1), ([233, 0, 0, 1], 26_400), packet),
        }
        let behind = heard.seq() + u64::from(heard.count());
        let beat = builder(behind);
        put_udp(&mut capture, Nanos(1), ([233, 0, 0, 1], 26_400), beat.bytes());
    }
    std::fs::write(&path, capture).expect("a file");
    let json: Value = serde_json::from_slice(&backtest(&path, &[]).stdout).expect("JSON");
    assert_eq!((&json["messages_missing"], lacking > 0), (&lacking.into(), true));
    assert_eq!(json["events"], messages.len() as u64 - 1 - lacking);
    std::fs::write(&path, [7; 99]).expect("a file");
    assert_eq!(backtest(&path, &[]).status.code(), Some(2));
}

/// A folder with one market in it.
fn market(name: &str) -> (Scratch, PathBuf) {
    let name = format!("fairbell-backtest-{name}-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("market");
    std::fs::write(&path, framed(messages().iter().map(Vec::as_slice))).expect("a file");
    (Scratch(folder), path)
}

#[test]
fn a_strategy_in_python_trades_the_same_every_time() {
    let (_scratch, path) = market("python");
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/backtest_strategy.py");
    let command = format!("python3 '{example}'");
    let mut seen = Vec::new();
    for _ in 0..2 {
        let output = backtest(&path, &["--strategy-cmd", &command]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!((&json["strategy"], &json["taken_lots"]), (&"command".into(), &5.into()));
        assert!(json["market"]["prints"].as_u64() > Some(300), "{json:#}");
        seen.push((json["digest"].clone(), json["result"].clone()));
    }
    assert_eq!(seen[0], seen[1]);
}

#[test]
fn a_strategy_that_dies_talks_rubbish_or_says_nothing_is_told_so() {
    let (_scratch, path) = market("broken");
    let cases = [
        ("true", "its output ended"),
        ("echo '[]'", "its output ended|a line too many behind 0 answers"),
        // The line that nobody asked for may be seen before the next piece of news, or as its answer.
        ("echo '[]'; cat", "no list of actions|a line too many behind"),
        ("echo hello; sleep 1", "no list of actions|a line too many behind 0 answers, hello"),
        ("printf '[]\\n[]\\n'; sleep 5", "a line too many behind"),
        ("exec sleep 20", "did not answer within 1 s"),
        ("head -c 200000 /dev/zero; sleep 1", "a line above 65536 bytes"),
        ("no-such-program-here", "its output ended"),
    ];
    for (command, complaint) in cases {
        let output = backtest(&path, &["--strategy-cmd", command, "--strategy-timeout-s", "1"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{command}: {said}");
        let known = complaint.split('|').any(|complaint| said.contains(complaint));
        assert!(known, "{command}: {said}");
    }
}

/// One answer too many, however late it comes, makes all that follow count for other news.
#[test]
fn a_strategy_that_answers_once_too_often_is_refused() {
    let (scratch, path) = market("too-many");
    let script = scratch.0.join("strategy.py");
    let play = |at: &str| {
        let text = format!(
            "import sys, time\n\
             for number, line in enumerate(sys.stdin):\n\
             \x20   last = '\"end\"' in line\n\
             \x20   if not last: print('[]', flush=True)\n\
             \x20   if {at}: time.sleep(0.002); print('[]', flush=True)\n"
        );
        std::fs::write(&script, text).expect("a file");
        let output =
            backtest(&path, &["--strategy-cmd", &format!("python3 '{}'", script.display())]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    assert_eq!(play("False"), (Some(0), String::new()));
    for at in ["number == 0", "number == 400", "last"] {
        let (code, said) = play(at);
        assert_eq!(code, Some(1), "{at}: {said}");
        assert!(said.contains("a line too many behind"), "{at}: {said}");
    }
}

/// A cut file is refused with the byte, and one that may be cut between messages says so.
#[test]
fn cut_files_say_where_they_end() {
    let (scratch, path) = market("cut");
    let whole = std::fs::read(&path).expect("a file");
    let refused = |name: &str, bytes: &[u8], complaints: &[&str]| {
        let path = scratch.0.join(name);
        std::fs::write(&path, bytes).expect("a file");
        let output = backtest(&path, &["--strategy", "none"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{name}: {said}");
        for complaint in complaints {
            assert!(said.contains(complaint), "{name}: {said}");
        }
    };
    let last = messages().last().expect("one").len() + 2;
    let begins = whole.len() - last;
    let before = format!("behind {} whole messages", messages().len() - 1);
    let begins = format!("begins at byte {begins}");
    for cut in [1, last - 1] {
        let end = format!("byte {}", whole.len() - cut);
        let complaints = ["cut off at", &end, &before, &begins];
        refused("cut.itch", &whole[..whole.len() - cut], &complaints);
    }
    let mut zipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    zipped.write_all(&whole).expect("memory");
    let zipped = zipped.finish().expect("memory");
    let size = format!("the file has {} bytes", zipped.len() - 9);
    refused("cut.gz", &zipped[..zipped.len() - 9], &["unpacked bytes", &size, "again"]);
    let mut capture = Vec::new();
    put_header(&mut capture);
    for packet in &packets(&messages()) {
        put_udp(&mut capture, Nanos(1), ([233, 0, 0, 1], 26_400), packet);
    }
    let all = packets(&messages());
    let last = 58 + all.last().expect("one").len();
    let (frames, at) = (all.len() - 1, capture.len() - last);
    let (frames, at) = (format!("behind {frames} whole frames"), format!("at byte {at}"));
    refused("cut.pcap", &capture[..capture.len() - 3], &["inside a record", &frames, &at]);

    // Cut between two messages: only the System Events say that a day ends.
    let event = |code: u8| [&b"S\0\0\0\0\0\0\0\0\0\0"[..], &[code]].concat();
    for (events, told) in
        [(&b"O"[..], Value::Bool(false)), (b"OC", true.into()), (b"", Value::Null)]
    {
        let mut parts = messages();
        for (code, at) in events.iter().zip([0, parts.len() + 1]) {
            parts.insert(at, event(*code));
        }
        std::fs::write(&path, framed(parts.iter().map(Vec::as_slice))).expect("a file");
        let output = backtest(&path, &["--strategy", "none"]);
        let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(json["end_of_messages"], told);
        let mut command = Command::new(env!("CARGO_BIN_EXE_fairbell-lab"));
        let text = command.arg("backtest").arg(&path).args(["--strategy", "none"]).output();
        let text = String::from_utf8_lossy(&text.expect("it runs").stdout).into_owned();
        assert_eq!(text.contains("no System Event C"), told == false, "{text}");
    }
}

/// A guest of the cage's own tests.
fn guest(name: &str) -> String {
    format!("{}/../../crates/strategy/tests/guests/{name}.wasm", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_module_trades_like_the_built_in_maker_and_one_that_is_caged_is_told_so() {
    let (_scratch, path) = market("wasm");
    let result = |args: &[&str]| {
        let output = backtest(&path, args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        ["digest", "orders", "cancels", "made_lots"].map(|name| json[name].clone())
    };
    let built_in = result(&["--qty", "5", "--lots-max", "20"]);
    let wasm = |guest: &str, settings: &str| {
        ["--strategy-wasm", guest, "--strategy-settings", settings].map(str::to_string)
    };
    let played = |settings: &str| {
        let args = wasm(&guest("maker"), settings);
        result(&args.each_ref().map(String::as_str))
    };
    assert_eq!(played("lots=5 most=20"), built_in);
    assert_ne!(played("lots=4 most=20"), built_in);
    for (name, settings, complaint) in [
        ("misbehave", "loop at=5", "out of fuel"),
        ("misbehave", "divide at=5", "trapped on a book"),
        ("maker", "lots=0", "lots=0: 1 to 1000000"),
        ("nobody", "", "nobody.wasm"),
    ] {
        let args = wasm(&guest(name), settings);
        let output = backtest(&path, &args.each_ref().map(String::as_str));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(matches!(output.status.code(), Some(1 | 2)), "{settings}: {said}");
        assert!(said.contains(complaint), "{settings}: {said}");
    }
}

#[test]
fn what_a_strategy_heard_is_told_to_a_module_again_and_its_requests_are_compared() {
    let (scratch, _) = market("heard");
    let id = InstrumentId(1);
    let symbol = Symbol::new("MSFT").expect("a symbol");
    let (tick, price_max, qty_max) = (Price(1), Price(4_000_000_000), Qty(4_000_000_000));
    let instruments = [Instrument { id, symbol, tick, price_max, qty_max, lot_decimals: 0 }];
    let opening = Opening {
        price_decimals: 4,
        streams: 1,
        orders_max: 100,
        midnight: Nanos(0),
        history: [0; 16],
    };
    // One bids and one offers: a maker of three lots joins both.
    let record = |qty: u32| {
        let mut record = Vec::new();
        heard::begin(&mut record, &opening, &instruments);
        for message in messages().iter().take(3) {
            heard::message(&mut record, 0, message);
        }
        heard::told(&mut record, Nanos(9));
        let quotes = [(1, Side::Buy, Price(1_000_000)), (2, Side::Sell, Price(1_000_100))];
        for (id, side, price) in quotes {
            let (instrument, life) = (InstrumentId(1), TimeInForce::Day);
            let order = Request::Order { id, instrument, side, qty, price, life, rests: true };
            heard::request(&mut record, &order);
        }
        record
    };
    let path = scratch.0.join("maker.heard");
    let module = guest("maker");
    let args = ["--strategy-wasm", module.as_str(), "--strategy-settings", "lots=3"];
    for (qty, same) in [(3, true), (4, false)] {
        std::fs::write(&path, record(qty)).expect("a file");
        let output = backtest(&path, &args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(i32::from(!same)), "{said}");
        let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(json["same"], same, "{json:#}");
        assert!(json["orders"].as_u64() > Some(0), "{json:#}");
        assert_eq!(said.contains("its requests are not those of the record"), !same, "{said}");
    }
    // A record needs a module, and has to be one.
    let output = backtest(&path, &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--strategy-wasm"));
    std::fs::write(&path, [heard::MAGIC.as_slice(), b"S?"].concat()).expect("a file");
    let output = backtest(&path, &args);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("byte 8: no opening of version 1"), "{said}");
}

#[test]
fn what_a_module_heard_in_the_simulator_gives_the_same_orders_in_a_backtest() {
    let (scratch, _) = market("simulated");
    let (record, module) = (scratch.0.join("maker.heard"), guest("maker"));
    let settings = "lots=200 most=3000";
    let run = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_fairbell-lab")).args(args).output();
        let output = output.expect("the binary runs");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let record_name = record.display().to_string();
    let simulated = ["sim", "strategy", &module, "--settings", settings, "--orders", "1000"];
    let (code, said) = run(&[&simulated[..], &["--json", "--record", &record_name]].concat());
    assert_eq!(code, Some(0), "{said}");
    let simulated: Value = serde_json::from_str(&said).expect("JSON");
    assert!(simulated["orders"].as_u64() > Some(50), "{simulated:#}");
    for (settings, same) in [(settings, true), ("lots=201 most=3000", false)] {
        let wasm = ["--strategy-wasm", &module, "--strategy-settings", settings, "--json"];
        let (code, said) = run(&[&["backtest", &record_name], &wasm[..]].concat());
        assert_eq!(code, Some(i32::from(!same)), "{said}");
        let again: Value = serde_json::from_str(&said).expect("JSON");
        assert_eq!(again["recorded"], simulated["replay"]["recorded"]);
        assert_eq!(again["digest"] == simulated["replay"]["digest"], same, "{again:#}");
    }
}

#[test]
fn a_module_that_was_stopped_in_the_simulator_or_never_started_is_a_failure() {
    let module = guest("misbehave");
    for (settings, why) in
        [("nothing", None), ("trap", Some("stopped: ")), ("trap at=x", Some("refused to start"))]
    {
        let output = Command::new(env!("CARGO_BIN_EXE_fairbell-lab"))
            .args(["sim", "strategy", &module, "--settings", settings, "--orders", "50"])
            .output()
            .expect("the binary runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(i32::from(why.is_some())), "{settings}: {said}");
        assert_eq!(said.lines().count(), usize::from(why.is_some()), "{settings}: {said}");
        assert!(said.contains(why.unwrap_or_default()), "{settings}: {said}");
    }
}

#[test]
fn trades_and_best_prices_are_written_line_by_line() {
    let (scratch, path) = market("files");
    let folder = scratch.0.join("out");
    let folder_name = folder.display().to_string();
    let output = backtest(&path, &["--strategy", "none", "--out", &folder_name]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let equal = &json["equal"]["outside_calls"];
    assert_eq!(equal["events"], messages().len() - 1);
    for what in ["best_price", "best_size", "ten_levels"] {
        assert_eq!(equal[what], equal["events"], "{json:#}");
    }
    let lines = |name: &str| {
        let text = std::fs::read_to_string(folder.join(name)).expect("a file");
        text.lines().map(str::to_string).collect::<Vec<_>>()
    };
    assert_eq!(lines("trades.csv").len() as u64, 1 + json["market"]["prints"].as_u64().unwrap());
    let best = lines("best.csv");
    assert!(best.len() > 400 && best[1].contains(",MSFT,open,100.0000,10,,,100.0000,10,,"));
}

/// What the ticker plant writes of the packets of a market, by its own code.
fn write_ticks(folder: &Path, packets: &[Vec<u8>], rows: usize) {
    let session = Session(*b"RECORDED01");
    let settings = ListenerConfig::new(session, Vec::new(), Vec::new());
    let patience = (Nanos(Nanos::SECOND), Nanos(Nanos::SECOND));
    let mut plant = VenueFeed::new(&settings, [(session, Vec::new())], patience, Nanos(0));
    let side = Peer::Addr(7);
    plant.set_side(0, Some(side));
    let mut writer = TickWriter::open(folder, WriterConfig { rows, files: 0 }).expect("a folder");
    let (mut out, mut updates) = (Outbox::default(), Vec::new());
    for (packet, at) in packets.iter().zip(1..) {
        let now = ClockReading { now: Nanos(at), bound_ns: 0 };
        plant.handle_datagram(now, Channel::FEED, side, packet, &mut out);
        plant.take_updates(&mut updates);
        writer.append(&updates).expect("room");
        updates.clear();
    }
    writer.flush().expect("room");
}

#[test]
fn ticks_of_the_plant_give_the_best_prices_and_trades_of_the_market_they_were_made_of() {
    let (scratch, path) = market("ticks");
    let folder = scratch.0.join("ticks");
    // Some of it in Parquet files, the rest in the one that is being written.
    write_ticks(&folder, &packets(&messages()), 300);
    let play = |from: &Path, args: &[&str]| {
        let output = backtest(from, args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")
    };
    let mut seen = Vec::new();
    for (from, name) in [(&path, "of-orders"), (&folder, "of-ticks")] {
        let out = scratch.0.join(name);
        let json = play(from, &["--strategy", "none", "--out", &out.display().to_string()]);
        let equal = &json["equal"]["outside_calls"];
        assert!(equal["events"].as_u64() > Some(500), "{json:#}");
        assert_eq!(equal["best_size"], equal["events"], "{json:#}");
        // The last of each time: a tick tells both sides, and messages come one by one.
        let best = std::fs::read_to_string(out.join("best.csv")).expect("a file");
        let mut last = std::collections::BTreeMap::new();
        for line in best.lines().skip(1) {
            let (time, rest) = line.split_once(',').expect("two columns");
            last.insert(time.parse::<u64>().expect("a time"), rest.to_string());
        }
        let trades = std::fs::read_to_string(out.join("trades.csv")).expect("a file");
        seen.push((json["format"].clone(), last, trades));
    }
    assert_eq!((&seen[0].0, &seen[1].0), (&"itch".into(), &"ticks".into()));
    assert!(seen[0].1.len() > 300 && seen[0].2.lines().count() > 300);
    assert_eq!(seen[0].1, seen[1].1, "best prices");
    assert_eq!(seen[0].2, seen[1].2, "trades");
    // Queues are not in ticks: of the trades at its own price the maker has none there.
    let args = ["--qty", "5", "--lots-max", "20"];
    let (orders, ticks) = (play(&path, &args), play(&folder, &args));
    assert!(orders["made_lots"].as_u64() > Some(100), "{orders:#}");
    assert_eq!(ticks["made_lots"], 0, "{ticks:#}");
    // Each file can be read alone; what is none of them is named.
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("a folder")
        .map(|entry| entry.expect("one").path())
        .collect();
    files.retain(|file| file.extension().is_some_and(|of| of == "parquet" || of == "open"));
    assert!(files.len() > 1, "{files:?}");
    for file in &files {
        assert_eq!(play(file, &["--strategy", "none"])["format"], "ticks");
    }
    let parquet = files.iter().find(|file| file.extension().is_some_and(|of| of == "parquet"));
    let parquet = parquet.expect("one");
    let bytes = std::fs::read(parquet).expect("a file");
    std::fs::write(parquet, &bytes[..bytes.len() / 2]).expect("a file");
    let cut = backtest(&folder, &[]);
    let said = String::from_utf8_lossy(&cut.stderr).into_owned();
    let name = parquet.file_name().expect("a name").to_string_lossy().into_owned();
    assert!(!cut.status.success() && said.contains(&name), "{said}");
    let empty = backtest(&scratch.0.join("of-ticks"), &[]);
    assert!(String::from_utf8_lossy(&empty.stderr).contains("no ticks"), "{empty:?}");
}
