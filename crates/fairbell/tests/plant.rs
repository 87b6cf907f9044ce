//! The ticker plant as processes: lines with losses go in, and two subscribers, one by datagrams and
//! one through shared memory, get what the plant has published.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const LINES: [&str; 6] = ["--lines", "4", "--a", "127.0.0.1:26100", "--b", "127.0.0.1:26200"];
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

#[test]
fn subscribers_get_what_was_published() {
    let ring = std::env::temp_dir().join(format!("plant-{}", std::process::id()));
    let ring_text = ring.to_str().unwrap();
    let options = ["--loops", "2", "--seconds", "8", "--json", "--ring", ring_text];
    let plant = start(&[&["serve"], &LINES[..], &DESK, &options].concat());
    let began = Instant::now();
    while !ring.exists() {
        assert!(began.elapsed() < Duration::from_secs(20), "no plant");
        std::thread::sleep(Duration::from_millis(20));
    }
    let count = ["subscribe", "--seconds", "6", "--count", "--json"];
    let by_ring = start(&[&count[..], &["--ring", ring_text]].concat());
    let by_datagrams = start(&[&count[..], &DESK, &["--symbols", "A,B,C,D"]].concat());
    std::thread::sleep(Duration::from_millis(1_000));
    let load = ["--rate", "20000", "--seconds", "2", "--loss-ppm", "10000"];
    let sent = text(start(&[&["generate"], &LINES[..], &load].concat()));
    let sent: u64 = sent.split(' ').next().unwrap().parse().unwrap();
    let [by_ring, by_datagrams, plant] = [by_ring, by_datagrams, plant].map(|child| {
        let text = text(child);
        serde_json::from_str::<Value>(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    });
    std::fs::remove_file(&ring).unwrap();
    let (messages, lost) = (number(&plant, "messages"), number(&plant, "lost"));
    assert!(messages + lost <= sent && messages > sent * 9 / 10, "{messages} of {sent}: {plant}");
    assert_eq!(number(&plant, "errors"), 0);
    let updates = number(&plant, "updates");
    assert_eq!(number(&plant, "ring_records"), updates);
    assert!(updates > messages * 9 / 10, "{plant}");
    let read = number(&by_ring, "updates") + number(&by_ring, "lost");
    assert!(read <= updates && read > updates * 9 / 10, "{read} of {updates}");
    let told = number(&by_datagrams, "updates");
    assert!(told > 10 && told < updates / 10, "{told} of {updates}: four symbols of thousands");
    assert!(number(&plant["desk"], "updates") >= told);
    assert!(number(&by_datagrams, "quotes") > 10);
}
