//! Private channels of a door that reads an account's stream from a gateway played by hand.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use web::Settings;
use web::auth::sign;
use web::counters::Counters;
use wire::soupbin::ServerPacket;

use crate::account::{accepted, cancelled, executed, id, message, number_of};
use crate::door::{SECRET, frame, now_ms, socket, text, with_gateway};

/// A session of the door at the gateway.
struct Session {
    stream: TcpStream,
    /// The message that the door asks for first.
    asked: u64,
}

impl Session {
    /// The next login that asks for messages that are missing, not answered yet. The one before it, which asks
    /// where the stream ends, is told that its next message is `end`.
    fn begun(at: &TcpListener, end: u64) -> Session {
        loop {
            let (mut stream, _) = at.accept().expect("the door connects");
            stream.set_read_timeout(Some(Duration::from_secs(20))).expect("an option");
            let mut login = [0; 49];
            stream.read_exact(&mut login).expect("a login");
            let asked = std::str::from_utf8(&login[29..]).expect("digits").trim();
            let asked = asked.parse().expect("a number");
            let mut session = Session { asked, stream };
            if asked > 0 {
                return session;
            }
            session.asked = end;
            session.accept(&[]);
            let mut logout = [0; 3];
            session.stream.read_exact(&mut logout).expect("a packet");
            assert_eq!(logout[2], b'O');
        }
    }

    fn write(&mut self, packets: &[ServerPacket<'_>]) {
        let mut bytes = Vec::new();
        packets.iter().for_each(|packet| packet.encode(&mut bytes).expect("encodes"));
        self.stream.write_all(&bytes).expect("sent");
    }

    /// Answers the login; the stream begins with these messages.
    fn accept(&mut self, messages: &[Vec<u8>]) {
        let session = *b"         1";
        self.write(&[ServerPacket::LoginAccepted { session, sequence: self.asked }]);
        self.tell(messages);
    }

    fn tell(&mut self, messages: &[Vec<u8>]) {
        let packets = messages.iter().map(|message| ServerPacket::Sequenced(message));
        self.write(&packets.collect::<Vec<_>>());
    }

    /// The next request of the door.
    fn request(&mut self) -> Vec<u8> {
        loop {
            let mut length = [0; 2];
            self.stream.read_exact(&mut length).expect("a packet");
            let mut packet = vec![0; u16::from_be_bytes(length).into()];
            self.stream.read_exact(&mut packet).expect("a packet");
            if packet[0] == b'U' {
                return packet.split_off(1);
            }
        }
    }
}

struct Client(TcpStream);

impl Client {
    /// A WebSocket that has proved a key.
    fn proved(at: SocketAddr, key: &str) -> Client {
        let mut client = Client(socket(at));
        client.prove(key);
        client
    }

    fn prove(&mut self, key: &str) {
        static NONCES: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let nonce = NONCES.fetch_add(1, std::sync::atomic::Ordering::Relaxed).to_string();
        let timestamp = now_ms().to_string();
        let signature = sign(SECRET, &timestamp, &nonce, ("GET", "/v1/ws", b""));
        self.send(&json!({
            "op": "auth", "key": key, "timestamp": timestamp, "nonce": nonce, "signature": signature,
        }));
        assert_eq!(self.next()["channel"], "ok");
    }

    fn send(&mut self, op: &Value) {
        self.0.write_all(&frame(1, op.to_string().as_bytes())).expect("sent");
    }

    fn subscribe(&mut self, channels: &[&str]) {
        self.send(&json!({ "op": "subscribe", "channels": channels }));
    }

    /// What a subscription is answered with, as [`Client::hears`]; on a machine too busy to read the stream
    /// within 3 s it is asked for again.
    fn subscribed(&mut self, channels: &[&str]) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            let told = self.next();
            if told["error"]["code"] == "session_down" {
                all.clear();
                self.subscribe(channels);
                continue;
            }
            all.push(line(&told));
            if told["channel"] == "ok" {
                return all;
            }
        }
    }

    /// The next message that is no heartbeat; heartbeats of 30 s are too many.
    fn next(&mut self) -> Value {
        let mut told = (0..6).map(|_| text(&mut self.0).expect("a message"));
        told.find(|told| told["channel"] != "heartbeat").expect("more than heartbeats")
    }

    /// What the next messages are.
    fn hears(&mut self, count: usize) -> Vec<String> {
        (0..count).map(|_| line(&self.next())).collect()
    }
}

/// Channel and seq of a message, and the state of its order or `snapshot`.
fn line(told: &Value) -> String {
    let channel = told["channel"].as_str().unwrap_or("");
    let what = told["order"]["state"].as_str().or(told["type"].as_str()).unwrap_or("");
    format!("{channel} {} {what}", told["seq"])
}

const BOTH: [&str; 2] = ["orders", "fills"];

/// Orders from this number on, half of them cancelled and half of them filled: two messages each.
fn history(first: u32, orders: u32) -> Vec<Vec<u8>> {
    let of = |number: u32| {
        let over = match number % 2 {
            0 => cancelled(number, 5),
            _ => executed(number, 5, 1_000_000, number.into()),
        };
        [accepted(number, 5, &format!("o{number}")), over]
    };
    (first..first + orders).flat_map(of).collect()
}

fn gateway() -> (TcpListener, SocketAddr) {
    let gateway = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = gateway.local_addr().expect("an address");
    (gateway, at)
}

/// The door has just been started and the account has a history, a short one or one of more events than a
/// channel may be behind.
#[test]
fn a_first_subscription_gets_its_snapshots_and_nothing_of_what_they_have() {
    for orders in [15, 3_000] {
        let (gateway, at) = gateway();
        with_gateway(at, Settings::default(), |door| {
            let mut client = Client::proved(door, "all");
            client.subscribe(&BOTH);
            let last = 2 * orders;
            let mut session = Session::begun(&gateway, u64::from(last) + 1);
            assert_eq!(session.asked, 1);
            session.accept(&history(1, orders));
            let snapshots = [
                format!("orders {last} snapshot"),
                format!("fills {last} snapshot"),
                "ok null ".to_string(),
            ];
            assert_eq!(client.subscribed(&BOTH), snapshots, "{orders} orders");
            // Then the next change, and nothing before it.
            session.tell(&history(orders + 1, 1));
            let (one, two) = (last + 1, last + 2);
            let mut due = vec![format!("orders {one} open")];
            match orders % 2 {
                0 => due.extend([format!("orders {two} filled"), format!("fills {two} ")]),
                _ => due.push(format!("orders {two} cancelled")),
            }
            assert_eq!(client.hears(due.len()), due, "{orders} orders");
        });
    }
}

/// What comes between the begin of a subscription and its snapshot is in the snapshot.
#[test]
fn what_a_snapshot_has_is_not_told_behind_it_and_whoever_had_none_of_it_hears_it() {
    let (gateway, at) = gateway();
    let counters = Arc::new(Counters::default());
    let settings = Settings { counters: Arc::clone(&counters), ..Settings::default() };
    with_gateway(at, settings, |door| {
        let mut early = Client::proved(door, "all");
        early.subscribe(&BOTH);
        let mut session = Session::begun(&gateway, 5);
        session.accept(&history(1, 2));
        assert_eq!(early.subscribed(&BOTH), ["orders 4 snapshot", "fills 4 snapshot", "ok null "]);
        // The gateway goes; the next session is at its login when the second client subscribes.
        drop(session);
        let mut session = Session::begun(&gateway, 7);
        assert_eq!(session.asked, 5);
        let mut late = Client::proved(door, "all");
        late.subscribe(&["orders"]);
        let since = Instant::now();
        while counters.figures().subscriptions < 3 {
            assert!(since.elapsed() < Duration::from_secs(20), "{:?}", counters.figures());
            std::thread::sleep(Duration::from_millis(5));
        }
        session.accept(&history(3, 1));
        // Control: the first client hears it all.
        assert_eq!(early.hears(3), ["orders 5 open", "orders 6 filled", "fills 6 "]);
        assert_eq!(late.subscribed(&["orders"]), ["orders 6 snapshot", "ok null "]);
        session.tell(&history(4, 1));
        let both = ["orders 7 open", "orders 8 cancelled"];
        assert_eq!(
            (early.hears(2), late.hears(2)),
            (both.map(String::from).into(), both.map(String::from).into())
        );
        // A gateway's own refusal is outside of the stream: it is told although its seq is the snapshot's.
        late.subscribe(&["orders"]);
        assert_eq!(late.subscribed(&["orders"]), ["orders 8 snapshot", "ok null "]);
        late.send(&json!({
            "op": "new", "symbol": "AAA", "side": "buy", "qty": "1", "price": "1",
            "client_order_id": "x",
        }));
        let number = number_of(&session.request());
        let refused: [&[u8]; 3] = [&number.to_be_bytes(), &0x1Du16.to_be_bytes(), &id("x").0];
        session.write(&[ServerPacket::Unsequenced(&message(b'J', &refused, false))]);
        let mut told = late.hears(2);
        told.sort_unstable();
        assert_eq!(told, ["answer null ", "orders 8 rejected"]);
        assert_eq!(early.hears(1), ["orders 8 rejected"]);
        assert_eq!(counters.figures().resyncs, 0);
    });
}

/// Numbers of one account's stream say nothing of another's.
#[test]
fn who_proves_another_account_hears_its_changes_from_now_on() {
    let (gateway, at) = gateway();
    with_gateway(at, Settings::default(), |door| {
        let mut client = Client::proved(door, "all");
        client.subscribe(&BOTH);
        let mut session = Session::begun(&gateway, 11);
        session.accept(&history(1, 5));
        assert_eq!(
            client.subscribed(&BOTH),
            ["orders 10 snapshot", "fills 10 snapshot", "ok null "]
        );
        client.prove("other");
        client.send(&json!({ "op": "order", "order": "o1" }));
        let mut other = Session::begun(&gateway, 3);
        other.accept(&history(1, 1));
        assert_eq!(client.hears(1), ["answer null "]);
        other.tell(&history(2, 1));
        session.tell(&history(6, 1));
        assert_eq!(client.hears(2), ["orders 3 open", "orders 4 cancelled"]);
    });
}
