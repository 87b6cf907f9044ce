//! A stranger without a login against the public sockets of a running exchange: answered no more than
//! three times what it asks, its packets no part of any books, nobody locked out.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

use fairbell_lab::attack::strangers::{
    Amplified, FORGED_PRICE, amplify, forge_feed, is_let_in, lock_out,
};
use host::config::Config;
use net::Clock;
use serde_json::Value;
use wire::moldudp::Packet;
use wire::soupbin::ClientSession;

/// Below the ports that systems give away.
const BASE: u16 = 28_800;

const fn at(offset: u16) -> SocketAddr {
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), BASE + offset)
}

/// Session and next number of the feed, once it has come so far.
fn heard(ear: &UdpSocket, least: u64) -> ([u8; 10], u64) {
    let mut buffer = [0; 2_048];
    loop {
        let (len, from) = ear.recv_from(&mut buffer).expect("the feed");
        assert_eq!(from.port(), BASE + 298, "the source that is documented");
        let packet = Packet::parse(&buffer[..len]).expect("a packet");
        if packet.next_seq() > least {
            return (packet.session().0, packet.next_seq());
        }
    }
}

/// All that the snapshot server says.
fn snapshot() -> Vec<u8> {
    let mut stream = TcpStream::connect(at(299)).expect("the snapshot server");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a time limit");
    let (mut login, mut said) = (Vec::new(), Vec::new());
    let mut session = ClientSession::new("any", "any").expect("short");
    session.connect(types::Nanos(1), &mut login).expect("a login");
    stream.write_all(&login).expect("it listens");
    stream.read_to_end(&mut said).expect("a snapshot");
    said
}

/// Whether the order of a forger is in it.
fn has_forged(bytes: &[u8]) -> bool {
    let forged = [&b"BTCUSD  "[..], &(FORGED_PRICE.0 as u32).to_be_bytes()].concat();
    bytes.windows(forged.len()).any(|window| window == forged)
}

struct Seen {
    amplified: Vec<Amplified>,
    forged: u64,
    snapshots: Vec<Vec<u8>>,
    refused: u64,
    let_in: bool,
}

fn attack(ear: &UdpSocket) -> Seen {
    let receivers = Config::default().overlay.receivers as u16;
    let listeners: Vec<_> = (0..receivers).map(|n| at(301 + n)).collect();
    let (mut forged, mut snapshots) = (0, Vec::new());
    for least in [200, 1_000, 2_000] {
        let (session, next) = heard(ear, least);
        // Some will be next when they come, some were, some will be.
        forged += forge_feed(&listeners, (session, next), 64).expect("a socket");
        snapshots.push(snapshot());
    }
    let (session, _) = heard(ear, 0);
    let amplified = amplify(at(0), (session, 1), 8, 300).expect("sockets");
    let clock = Clock::start(0);
    let refused = lock_out(at(1), clock, "GUEST", 11);
    let let_in = is_let_in(at(1), clock, ("GUEST", "welcome"));
    Seen { amplified, forged, snapshots, refused, let_in }
}

#[test]
fn a_stranger_gets_threefold_at_most_forges_nothing_and_locks_nobody_out() {
    let ear = UdpSocket::bind(at(300)).expect("a free port");
    ear.set_read_timeout(Some(Duration::from_secs(60))).expect("a time limit");
    let out = std::env::temp_dir().join(format!("fairbell-strangers-{}", std::process::id()));
    let child = Command::new(env!("CARGO_BIN_EXE_fairbell-lab"))
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .args(["up", "--json", "--quiet", "--rate", "2000", "--duration", "6s"])
        .args(["--port-base", &BASE.to_string(), "--out"])
        .arg(&out)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let seen = attack(&ear);
    drop(ear);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "books and feed are compared at the end");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    let number = |name: &str| report["public"][name].as_u64().unwrap_or_else(|| panic!("{name}"));

    assert!(seen.amplified.iter().all(|of| of.requests > 200 && of.heard > of.sent));
    let worst = seen.amplified.iter().find(|of| of.is_too_much());
    assert_eq!(worst, None, "{:?}", seen.amplified);
    assert!(number("unproven_bytes_out") <= 3 * number("unproven_bytes_in"), "{report}");
    assert!(number("unproven_bytes_in") > 50_000 && number("tokens") > 100);

    assert!(seen.forged >= 64 * 3);
    assert!(number("foreign") > seen.forged / 2, "{} of {}", number("foreign"), seen.forged);
    assert_eq!(report["books_equal"], Value::Bool(true));
    for said in &seen.snapshots {
        assert!(said.len() > 500, "{} bytes: {}", said.len(), said.escape_ascii());
        assert!(!has_forged(said));
    }

    assert_eq!((seen.refused, seen.let_in), (11, true));
    let _ = std::fs::remove_dir_all(out);
}

#[test]
fn control_what_the_forger_sends_is_found_where_it_is() {
    let ear = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let to = ear.local_addr().expect("an address");
    assert_eq!(forge_feed(&[to], (*b"FAIRBELL01", 7), 1).expect("a socket"), 1);
    let mut buffer = [0; 2_048];
    let (len, _) = ear.recv_from(&mut buffer).expect("a packet");
    let packet = Packet::parse(&buffer[..len]).expect("whole");
    assert_eq!((packet.seq(), packet.count()), (7, 1));
    let message = packet.messages().next().map(wire::itch::parse);
    assert!(matches!(message, Some(Ok(wire::itch::Message::AddOrder(_)))), "{message:?}");
    assert!(has_forged(&buffer[..len]));
    let too_much = Amplified { requests: 1, sent: 20, heard: 61 };
    assert!(too_much.is_too_much() && !Amplified { heard: 60, ..too_much }.is_too_much());
}
