//! The ticker plant as processes: lines with losses go in, and two subscribers, one by datagrams and
//! one through shared memory, get what the plant has published.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const SIDES: [&str; 4] = ["--a", "127.0.0.1:26100", "--b", "127.0.0.1:26200"];
const DESK: [&str; 2] = ["--desk", "127.0.0.1:26300"];

fn start(words: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_fairbell"))
        .arg("feed")
        .args(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn text(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    String::from_utf8(output.stdout).unwrap()
}

fn number(document: &Value, name: &str) -> u64 {
    document[name].as_u64().unwrap_or_else(|| panic!("{name} of {document}"))
}

/// What the plant and whoever read everything say of each of 24 lines; nobody sends the last one, and
/// only side A of some.
fn lines_are_whole_and_in_order(plant: &Value, reader: &Value, one_sided: &[usize]) {
    let lines = plant["lines"].as_array().unwrap();
    let read = reader["lines"].as_array().unwrap();
    assert_eq!((lines.len(), read.len()), (24, 23), "{reader}");
    assert_eq!((number(reader, "lost"), number(reader, "out_of_order")), (0, 0), "{reader}");
    for (at, line) in lines.iter().enumerate() {
        let sent = at < 23;
        assert_eq!(number(line, "messages") > 500, sent, "line {at}: {line}");
        assert_eq!(
            line["b"]["packets"] == 0,
            !sent || one_sided.contains(&at),
            "line {at}: {line}"
        );
        assert_eq!(line["b"]["dead"] != 0, one_sided.contains(&at), "line {at}: {line}");
        assert_eq!(line["a"]["dead"], 0, "line {at}: {line}");
        assert_eq!(number(line, "errors"), 0);
        if let Some(read) = read.get(at) {
            assert_eq!(number(read, "line"), at as u64);
            assert_eq!(number(read, "updates"), number(line, "updates"), "line {at}");
        }
    }
    // Balanced: neither of the two loops has less than a third of the messages.
    let of = |owner: u64| lines.iter().filter(move |line| number(line, "loop") == owner);
    for owner in 0..2 {
        let messages: u64 = of(owner).map(|line| number(line, "messages")).sum();
        assert!(messages * 3 > number(plant, "messages"), "loop {owner}: {messages}");
    }
}

#[test]
fn subscribers_get_what_was_published_of_24_lines() {
    let ring = std::env::temp_dir().join(format!("plant-{}", std::process::id()));
    let ring_text = ring.to_str().unwrap();
    let options = ["--loops", "2", "--seconds", "10", "--json", "--ring", ring_text];
    let plant = start(&[&["serve", "--lines", "24"], &SIDES[..], &DESK, &options].concat());
    let began = Instant::now();
    while !ring.exists() {
        assert!(began.elapsed() < Duration::from_secs(20), "no plant");
        std::thread::sleep(Duration::from_millis(20));
    }
    let count = ["subscribe", "--seconds", "8", "--count", "--json"];
    let by_ring = start(&[&count[..], &["--ring", ring_text]].concat());
    let by_datagrams = start(&[&count[..], &DESK, &["--symbols", "A,B,C,D"]].concat());
    let all = start(&[&count[..], &DESK].concat());
    std::thread::sleep(Duration::from_millis(1_000));
    let load = ["--rate", "24000", "--seconds", "3", "--loss-ppm", "10000", "--mute-b", "5,11"];
    let sent = text(start(&[&["generate", "--lines", "23"], &SIDES[..], &load].concat()));
    let sent: u64 = sent.split(' ').next().unwrap().parse().unwrap();
    let [by_ring, by_datagrams, all, plant] = [by_ring, by_datagrams, all, plant].map(|child| {
        let text = text(child);
        serde_json::from_str::<Value>(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    });
    std::fs::remove_file(&ring).unwrap();
    let (messages, lost) = (number(&plant, "messages"), number(&plant, "lost"));
    assert!(messages + lost <= sent && messages > sent * 9 / 10, "{messages} of {sent}: {plant}");
    assert_eq!(number(&plant, "errors"), 0);
    lines_are_whole_and_in_order(&plant, &by_ring, &[5, 11]);
    let updates = number(&plant, "updates");
    assert_eq!(number(&plant, "ring_records"), updates);
    assert!(updates > messages * 9 / 10, "{plant}");
    // Datagrams may get lost, and then this is told.
    let got = number(&all, "updates") + number(&all, "lost");
    assert!(got <= updates && got > updates * 9 / 10, "{got} of {updates}");
    assert_eq!(number(&all, "out_of_order"), 0);
    let told = number(&by_datagrams, "updates");
    assert!(told > 10 && told < updates / 10, "{told} of {updates}: four symbols of thousands");
    assert!(number(&plant["desk"], "updates") >= told + number(&all, "updates"));
    assert!(number(&by_datagrams, "quotes") > 10);
}
