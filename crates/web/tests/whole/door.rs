//! The door over real connections: signatures, refusals, bounds, WebSocket messages. No exchange is behind
//! it, so every request of an account is told that its session is down.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use feed::{ListenerConfig, Subscriber};
use net::{ClientTls, Clock, Directory, Loop, LoopConfig};
use serde_json::{Value, json};
use types::{Peer, Qty};
use web::account::{Account, Login};
use web::auth::{Key, Keys, Scope, sign};
use web::counters::{Counters, Figures};
use web::market::Market;
use web::server::Tls;
use web::venue::Venue;
use web::{Door, Settings, WEB_NODE, WebNode, serve};
use wire::moldudp::Session;

use crate::instruments;

pub(crate) const SECRET: &str = "0123456789abcdef";

/// Calls `test` with the address of a door that is served meanwhile.
pub(crate) fn with_door(test: impl FnOnce(SocketAddr)) {
    with_settings(Settings::default(), test);
}

/// A connection from the address of `own` to a door.
fn from_other(own: SocketAddr, door: SocketAddr) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let stream = runtime.expect("a runtime").block_on(async {
        let socket = tokio::net::TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(own.ip(), 0))?;
        socket.connect(door).await?.into_std()
    });
    let stream = stream.expect("a connection");
    stream.set_nonblocking(false).expect("an option");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("an option");
    stream
}

pub(crate) fn with_settings(settings: Settings, test: impl FnOnce(SocketAddr)) {
    // Nobody listens at this gateway.
    let nobody =
        TcpListener::bind("127.0.0.1:0").and_then(|of| of.local_addr()).expect("an address");
    with_gateway(nobody, settings, test);
}

/// A door whose accounts have their sessions at this gateway.
pub(crate) fn with_gateway(gateway: SocketAddr, settings: Settings, test: impl FnOnce(SocketAddr)) {
    let market = Arc::new(Market::new(instruments()));
    let feed = ListenerConfig::new(Session([b' '; 10]), Vec::new(), Vec::new());
    let account = |name: &str| {
        let gateways = vec![Peer::from(gateway)];
        let login = Login { username: name.into(), password: "p".into(), gateways };
        Account::new(login, instruments()).expect("a login")
    };
    let accounts = vec![account("U"), account("V")];
    let events = accounts.iter().map(Account::events).collect();
    let mut node = WebNode::new(Subscriber::new(&feed, []), Arc::clone(&market), accounts);
    node.set_qty_min(&[Qty(5)]);
    let mut of = Loop::new(Clock::start(0), Arc::new(Directory::default()), LoopConfig::default())
        .expect("a loop");
    of.add_node(WEB_NODE, node, Vec::new(), None).expect("a node");
    let key = |name: &str, scopes: &[Scope]| Key {
        name: name.into(),
        secret: SECRET.into(),
        account: 0,
        scopes: scopes.to_vec(),
        addresses: Vec::new(),
        expires_ms: 0,
        credits_per_s: 1_000,
    };
    let keys = vec![
        key("all", &[Scope::Read, Scope::Trade]),
        key("reads", &[Scope::Read]),
        key("steers", &[Scope::Operate]),
        Key { credits_per_s: 1, ..key("poor", &[Scope::Read, Scope::Trade]) },
        Key { account: 1, ..key("other", &[Scope::Read, Scope::Trade]) },
    ];
    // Operators who halt what they are asked to, and nothing else.
    let venue =
        Arc::new(Venue::with_operators(Box::new(|who, action| match action["halt"].is_object() {
            true => Ok(json!({ "text": who, "data": action })),
            false if action == "status" => Ok(json!({ "text": "all is well" })),
            false => Err("not now".to_string()),
        })));
    venue.tell_tree(1, 0, &[]);
    let settings = Settings { venue, ..settings };
    let door = Door::new(market, Keys::new(keys), of.handle(), events, settings);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| of.run(&stop, Duration::from_secs(60), |_, _| {}).map(drop));
        scope.spawn(|| serve(listener, Arc::new(door), &stop));
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(at)));
        stop.store(true, Ordering::Relaxed);
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

pub(crate) fn connect(at: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(at).expect("a door");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("an option");
    stream
}

/// Sends bytes and reads one answer: its status and body.
fn exchange(at: SocketAddr, request: &[u8]) -> (u16, Value) {
    let mut stream = connect(at);
    // A door that refuses what is too large may close before all of it is written.
    let _ = stream.write_all(request);
    let mut bytes = Vec::new();
    let mut buffer = [0; 4_096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.to_lowercase().lines().find_map(|line| {
                line.strip_prefix("content-length: ").and_then(|length| length.parse().ok())
            });
            if body.len() >= length.unwrap_or(0) {
                let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
                return (
                    status.expect("a status"),
                    serde_json::from_str(body).unwrap_or(Value::Null),
                );
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => panic!("no whole answer: {text}"),
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}

pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64
}

pub(crate) fn signed(key: &str, at_ms: u64, (method, path): (&str, &str), body: &str) -> Vec<u8> {
    let (at, nonce) = (at_ms.to_string(), format!("{method}{}", body.len()));
    let signature = sign(SECRET, &at, &nonce, (method, path, body.as_bytes()));
    format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nfb-key: {key}\r\nfb-timestamp: {at}\r\nfb-nonce: {nonce}\r\n\
         fb-sign: {signature}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn plain(method: &str, path: &str) -> Vec<u8> {
    format!("{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n").into_bytes()
}

fn code((status, body): &(u16, Value)) -> (u16, &str) {
    (*status, body["error"]["code"].as_str().unwrap_or(""))
}

#[test]
fn paths_are_served_and_refusals_have_their_codes() {
    with_door(|at| {
        let (status, told) = exchange(at, &plain("GET", "/v1/instruments"));
        let of = |field: &str| told["instruments"][0][field].clone();
        assert_eq!((status, of("lot"), of("qty_min")), (200, json!("0.1"), json!("0.5")));
        let (status, told) = exchange(at, &plain("GET", "/v1/book/AAA?depth=5"));
        assert_eq!((status, &told["bids"], &told["seq"]), (200, &Value::Array(vec![]), &0.into()));
        let (status, told) = exchange(at, &plain("GET", "/v1/openapi.json"));
        assert!(status == 200 && told["paths"]["/v1/orders"]["post"].is_object());
        for (request, due) in [
            (plain("GET", "/v1/book/ZZZ"), (404, "not_found")),
            (plain("GET", "/v1/book/AAA?depth=0"), (400, "bad_field")),
            (plain("GET", "/v2/book/AAA"), (404, "not_found")),
            (plain("PATCH", "/v1/orders"), (405, "method_not_allowed")),
            (plain("GET", "/v1/orders"), (401, "missing_header")),
            (plain("GET", "/v1/ws"), (400, "bad_field")),
            (plain("GET", "/v1/book/AAA?dept=5"), (400, "bad_field")),
            (plain("GET", "/v1/time?x=1"), (400, "bad_field")),
            // What an address can't be read of is refused like the rest.
            (plain("GET", "/v1/book/%FF"), (400, "bad_field")),
            (plain("GET", "/v1/orders/%FF"), (400, "bad_field")),
            (plain("GET", "/v1/book/AAA?depth=%FF"), (400, "bad_field")),
            (plain("GET", "/v1/book/AAA?depth=%3"), (400, "bad_field")),
            (plain("GET", "/v1/book/AAA?d%65pth=501"), (400, "bad_field")),
            (plain("GET", "/v1/book/A%41A?d%65pth=%35"), (200, "")),
            (
                signed("all", now_ms(), ("DELETE", "/v1/orders?symbol=%41A%41"), ""),
                (503, "session_down"),
            ),
            (signed("all", now_ms(), ("DELETE", "/v1/orders?symbol=%"), ""), (400, "bad_field")),
            (signed("all", now_ms(), ("DELETE", "/v1/orders?sym=AAA"), ""), (400, "bad_field")),
            (signed("all", now_ms(), ("DELETE", "/v1/orders?symbol"), ""), (400, "bad_field")),
            // Control: this one is asked of the account.
            (
                signed("all", now_ms(), ("DELETE", "/v1/orders?symbol=AAA"), ""),
                (503, "session_down"),
            ),
            // So is a field of a body that is none, where a path has no body, too.
            (
                signed("all", now_ms(), ("DELETE", "/v1/orders"), r#"{"symbol":"AAA"}"#),
                (400, "bad_field"),
            ),
            (
                signed("all", now_ms(), ("DELETE", "/v1/orders/a"), r#"{"qty":"1"}"#),
                (400, "bad_field"),
            ),
            (signed("all", now_ms(), ("GET", "/v1/orders"), "x"), (400, "bad_json")),
            (
                signed("all", now_ms(), ("POST", "/v1/ws_token"), r#"{"key":"all"}"#),
                (400, "bad_field"),
            ),
            (signed("steers", now_ms(), ("GET", "/v1/operator"), r#"{"x":1}"#), (400, "bad_field")),
            // Control: an empty object is nothing.
            (signed("all", now_ms(), ("DELETE", "/v1/orders"), "{}"), (503, "session_down")),
            (
                signed("all", now_ms(), ("POST", "/v1/cancel_after"), r#"{"timeout_ms":0,"x":1}"#),
                (400, "bad_field"),
            ),
            (signed("nobody", now_ms(), ("GET", "/v1/orders"), ""), (401, "unknown_key")),
            (signed("all", now_ms() - 9_000, ("GET", "/v1/orders"), ""), (401, "late_timestamp")),
            (signed("reads", now_ms(), ("DELETE", "/v1/orders"), ""), (403, "wrong_scope")),
            (signed("all", now_ms(), ("POST", "/v1/orders"), "{"), (400, "bad_json")),
            (signed("all", now_ms(), ("GET", "/v1/orders/a%20b"), ""), (400, "bad_field")),
        ] {
            let told = exchange(at, &request);
            assert_eq!(code(&told), due, "{}", String::from_utf8_lossy(&request));
        }
        let body = r#"{"symbol":"AAA","side":"buy","qty":"1","price":"1"}"#;
        let order = signed("all", now_ms(), ("POST", "/v1/orders"), body);
        let mut tampered = order.clone();
        let last = tampered.len() - 3;
        tampered[last] = b'2';
        assert_eq!(code(&exchange(at, &tampered)), (401, "bad_signature"));
        assert_eq!(code(&exchange(at, &order)), (503, "session_down"));
        assert_eq!(code(&exchange(at, &order)), (401, "replayed"));
    });
}

#[test]
fn large_bodies_and_nonsense_cost_nothing_but_their_connection() {
    with_door(|at| {
        let head = "POST /v1/orders HTTP/1.1\r\nhost: x\r\ncontent-length: 1048576\r\n\r\n";
        let mut large = head.as_bytes().to_vec();
        large.resize(large.len() + (1 << 20), b'x');
        assert_eq!(code(&exchange(at, &large)), (413, "too_large"));
        let mut cross = plain("GET", "/v1/time");
        cross.truncate(cross.len() - 2);
        cross.extend_from_slice(b"origin: https://evil.example\r\n\r\n");
        assert_eq!(code(&exchange(at, &cross)), (403, "cross_site"));
        // The same without a length, in chunks.
        let mut chunks =
            b"POST /v1/orders HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
        for _ in 0..20 {
            chunks.extend_from_slice(b"2000\r\n");
            chunks.resize(chunks.len() + 0x2000, b'x');
            chunks.extend_from_slice(b"\r\n");
        }
        assert_eq!(code(&exchange(at, &chunks)), (413, "too_large"));
        println!("seed 28");
        let mut rng = types::SplitMix64::new(28);
        for _ in 0..100 {
            let mut bytes = signed("all", now_ms(), ("POST", "/v1/orders"), "{\"symbol\":\"AAA\"}");
            for _ in 0..1 + rng.below(8) {
                let place = rng.below(bytes.len() as u64) as usize;
                bytes[place] = rng.next_u64() as u8;
            }
            let mut stream = TcpStream::connect(at).expect("it lives");
            let _ = stream.write_all(&bytes);
            let _ = stream.shutdown(std::net::Shutdown::Write);
        }
        let (status, _) = exchange(at, &plain("GET", "/v1/time"));
        assert_eq!(status, 200, "others are served on");
    });
}

/// A client's masked frame.
pub(crate) fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x80 | kind];
    match payload.len() {
        short @ 0..126 => bytes.push(0x80 | short as u8),
        long => {
            bytes.push(0x80 | 127);
            bytes.extend((long as u64).to_be_bytes());
        }
    }
    // A mask of zeros changes nothing.
    bytes.extend([0; 4]);
    bytes.extend_from_slice(payload);
    bytes
}

/// The next text of a server, or `None` when it closes.
pub(crate) fn text(stream: &mut impl Read) -> Option<Value> {
    let mut head = [0; 2];
    stream.read_exact(&mut head).ok()?;
    let length = match head[1] {
        126 => {
            let mut more = [0; 2];
            stream.read_exact(&mut more).ok()?;
            u16::from_be_bytes(more).into()
        }
        127 => {
            let mut more = [0; 8];
            stream.read_exact(&mut more).ok()?;
            u64::from_be_bytes(more)
        }
        short => u64::from(short),
    };
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload).ok()?;
    if head[0] & 0x0F == 1 { serde_json::from_slice(&payload).ok() } else { None }
}

pub(crate) fn socket(at: SocketAddr) -> TcpStream {
    socket_over(connect(at))
}

pub(crate) fn socket_over<T: Read + Write>(mut stream: T) -> T {
    let asked = "GET /v1/ws HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                 sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";
    stream.write_all(asked.as_bytes()).expect("sent");
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("an answer");
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
    stream
}

#[test]
fn a_socket_subscribes_proves_its_key_and_hears_its_mistakes() {
    with_door(|at| {
        let mut stream = socket(at);
        let mut ask = |op: &str| {
            stream.write_all(&frame(1, op.as_bytes())).expect("sent");
            text(&mut stream).expect("an answer")
        };
        assert_eq!(ask(r#"{"op":"ping"}"#)["channel"], "pong");
        let told = ask(r#"{"op":"subscribe","channels":["book"],"symbols":["AAA"]}"#);
        assert_eq!((&told["channel"], &told["type"]), (&"book".into(), &"snapshot".into()));
        let mut next = |op: &str| {
            stream.write_all(&frame(1, op.as_bytes())).expect("sent");
            let first = text(&mut stream).expect("an answer");
            // What is left of the subscription comes first.
            if first["channel"] == "ok" { text(&mut stream).expect("an answer") } else { first }
        };
        let told = next(r#"{"op":"subscribe","channels":["orders"]}"#);
        assert_eq!(told["error"]["code"], "missing_header", "auth comes first");
        let mut ask = |op: &str| {
            stream.write_all(&frame(1, op.as_bytes())).expect("sent");
            text(&mut stream).expect("an answer")
        };
        assert_eq!(ask("{")["error"]["code"], "bad_json");
        assert_eq!(ask(r#"{"op":"subscribe","channels":["fly"]}"#)["error"]["code"], "bad_field");
        let unknown = r#"{"op":"subscribe","channels":["book"],"symbols":["ZZZ"]}"#;
        assert_eq!(ask(unknown)["error"]["code"], "not_found");
        let timestamp = now_ms().to_string();
        let auth = |key: &str| {
            let signature = sign(SECRET, &timestamp, key, ("GET", "/v1/ws", b""));
            format!(
                "{{\"op\":\"auth\",\"key\":\"{key}\",\"timestamp\":\"{timestamp}\",\"nonce\":\"{key}\",\
                 \"signature\":\"{signature}\"}}"
            )
        };
        assert_eq!(ask(&auth("reads"))["channel"], "ok");
        let told = ask(r#"{"op":"cancel_on_disconnect","enabled":true}"#);
        assert_eq!(told["error"]["code"], "wrong_scope");
        assert_eq!(ask(&auth("reads"))["error"]["code"], "replayed");
        assert_eq!(ask(&auth("all"))["channel"], "ok");
        assert_eq!(ask(r#"{"op":"cancel_on_disconnect","enabled":true}"#)["channel"], "ok");
    });
}

#[test]
fn orders_over_a_socket_are_answered_by_name_and_tokens_prove_a_key_once() {
    with_door(|at| {
        let (status, told) = exchange(at, &signed("all", now_ms(), ("POST", "/v1/ws_token"), ""));
        let token = told["token"].as_str().expect("a token").to_string();
        assert_eq!(status, 200);
        let mut stream = socket(at);
        let mut ask = |op: &str| {
            stream.write_all(&frame(1, op.as_bytes())).expect("sent");
            text(&mut stream).expect("an answer")
        };
        let order = r#"{"op":"new","id":"n1","symbol":"AAA","side":"buy","qty":"1","price":"1"}"#;
        let told = ask(order);
        assert_eq!((&told["error"]["code"], &told["id"]), (&"missing_header".into(), &"n1".into()));
        let auth = format!("{{\"op\":\"auth\",\"token\":\"{token}\"}}");
        assert_eq!(ask(&auth)["channel"], "ok");
        assert_eq!(ask(&auth)["error"]["code"], "bad_token");
        let told = ask(order);
        assert_eq!((&told["channel"], &told["id"]), (&"answer".into(), &"n1".into()));
        assert_eq!(
            (&told["status"], &told["error"]["code"]),
            (&503.into(), &"session_down".into())
        );
        let left = told["credits_left"].as_u64().expect("a number");
        let batch =
            r#"{"op":"batch","id":2,"requests":[{"op":"cancel","order":"a"},{"op":"fly"}]}"#;
        let told = ask(batch);
        let results = told["result"]["results"].as_array().expect("a list");
        assert_eq!((results.len(), &results[1]["error"]["code"]), (2, &"bad_field".into()));
        assert!(told["credits_left"].as_u64().is_some_and(|now| now < left), "{told}");
        // A key that reads alone may not trade, whoever has proved it.
        let (_, told) = exchange(at, &signed("reads", now_ms(), ("POST", "/v1/ws_token"), ""));
        let token = told["token"].as_str().expect("a token");
        assert_eq!(ask(&format!("{{\"op\":\"auth\",\"token\":\"{token}\"}}"))["channel"], "ok");
        assert_eq!(ask(order)["error"]["code"], "wrong_scope");
        let faults = signed("all", now_ms(), ("POST", "/v1/sandbox/faults"), r#"{"fault":"drop"}"#);
        assert_eq!(code(&exchange(at, &faults)), (403, "no_sandbox"));
    });
}

#[test]
fn what_is_wrong_with_an_order_over_a_socket_is_its_answer() {
    with_door(|at| {
        let mut stream = socket(at);
        let mut ask = |op: &str| {
            stream.write_all(&frame(1, op.as_bytes())).expect("sent");
            text(&mut stream).expect("an answer")
        };
        let of = |told: &Value| {
            let code = told["error"]["code"].as_str().unwrap_or("").to_string();
            (told["channel"].clone(), told["status"].clone(), told["id"].clone(), code)
        };
        let due = |status: u16, code: &str| {
            (json!("answer"), json!(status), json!("n"), code.to_string())
        };
        let wrong = r#"{"op":"new","id":"n","symbol":"AAA","side":"buy","qty":"1.23","price":"1"}"#;
        assert_eq!(of(&ask(wrong)), due(401, "missing_header"));
        // A timestamp is a number or its digits: the signature is of its digits.
        let at_ms = now_ms();
        let signature =
            |nonce: &str| sign(SECRET, &at_ms.to_string(), nonce, ("GET", "/v1/ws", b""));
        let auth = |timestamp: Value, nonce: &str| {
            let parts = json!({
                "op": "auth", "key": "all", "timestamp": timestamp, "nonce": nonce,
                "signature": signature(nonce),
            });
            parts.to_string()
        };
        assert_eq!(ask(&auth(json!(at_ms as f64 + 0.5), "a"))["error"]["code"], "bad_field");
        assert_eq!(ask(&auth(json!(at_ms + 1), "a"))["error"]["code"], "bad_signature");
        assert_eq!(ask(&auth(json!(at_ms), "a"))["channel"], "ok");
        assert_eq!(ask(&auth(json!(at_ms.to_string()), "b"))["channel"], "ok");
        let told = ask(wrong);
        assert_eq!(of(&told), due(400, "bad_field"));
        let left = told["credits_left"].as_u64().expect("a number");
        for (request, status, code) in [
            (r#"{"op":"replace","id":"n","order":"a"}"#, 400, "missing_field"),
            (r#"{"op":"cancel","id":"n","order":"with space"}"#, 400, "bad_field"),
            (r#"{"op":"order","id":"n"}"#, 400, "missing_field"),
            (r#"{"op":"cancel_all","id":"n","symbol":"ZZZ"}"#, 404, "not_found"),
            (r#"{"op":"cancel_all","id":"n","symb":"AAA"}"#, 400, "bad_field"),
            (r#"{"op":"cancel_all","id":"n","symbol":"AAA"}"#, 503, "session_down"),
            (r#"{"op":"cancel_after","id":"n"}"#, 400, "missing_field"),
            (r#"{"op":"batch","id":"n","requests":[]}"#, 400, "bad_field"),
            (r#"{"op":"cancel","id":"n","order":"a"}"#, 503, "session_down"),
        ] {
            assert_eq!(of(&ask(request)), due(status, code), "{request}");
        }
        let told = ask(wrong);
        assert!(told["credits_left"].as_u64().is_some_and(|now| now < left), "{told}");
        // What is no request of the account has no status.
        let told = ask(r#"{"op":"fly","id":"n"}"#);
        assert_eq!((&told["channel"], &told["status"]), (&"error".into(), &Value::Null));
        // An `id` that can't be repeated is refused.
        let long = format!(r#"{{"op":"ping","id":"{}"}}"#, "x".repeat(65));
        for op in [&long, r#"{"op":"ping","id":18446744073709551616}"#] {
            let told = ask(op);
            assert_eq!(
                (&told["channel"], &told["error"]["code"]),
                (&"error".into(), &"bad_field".into())
            );
        }
        let told = ask(r#"{"op":"ping","id":18446744073709551615}"#);
        assert_eq!((&told["channel"], &told["id"]), (&"pong".into(), &json!(u64::MAX)));
    });
}

#[test]
fn connections_of_one_address_leave_room_for_others() {
    let settings =
        Settings { connections_max: 8, connections_per_address: 4, ..Settings::default() };
    let served = |settings: Settings| {
        let mut served = false;
        with_settings(settings, |at| {
            let held: Vec<TcpStream> =
                (0..20).filter_map(|_| TcpStream::connect(at).ok()).collect();
            // Whoever comes from another address of this machine.
            let honest = format!("127.0.0.2:{}", at.port()).parse::<SocketAddr>();
            let mut stream = from_other(honest.expect("an address"), at);
            let _ = stream.write_all(&plain("GET", "/v1/time"));
            let mut byte = [0];
            served = matches!(stream.read(&mut byte), Ok(1));
            drop(held);
        });
        served
    };
    assert!(served(settings.clone()));
    // Control: without a share of its own one address has all places.
    assert!(!served(Settings { connections_per_address: 8, ..settings }));
}

#[test]
fn who_asks_without_a_key_too_often_is_refused_and_others_are_served() {
    let asked = |per_s: u32| {
        let settings = Settings { public_credits_per_s: per_s, ..Settings::default() };
        let mut refused = 0;
        with_settings(settings, |at| {
            for _ in 0..40 {
                let answer =
                    exchange(at, &signed("reads", now_ms(), ("GET", "/v1/instruments"), ""));
                if answer.0 != 200 {
                    assert_eq!(code(&answer), (429, "too_many_requests"));
                    refused += 1;
                }
            }
            // A key has credits of its own, and so has another address of this machine.
            let own = signed("reads", now_ms(), ("GET", "/v1/orders"), "");
            assert_ne!(exchange(at, &own).0, 429);
            let other = format!("127.0.0.2:{}", at.port()).parse::<SocketAddr>();
            let mut stream = from_other(other.expect("an address"), at);
            stream.write_all(&plain("GET", "/v1/time")).expect("sent");
            let mut begin = [0; 12];
            stream.read_exact(&mut begin).expect("an answer");
            assert_eq!(&begin, b"HTTP/1.1 200");
        });
        refused
    };
    assert!(asked(2) > 0);
    // Control: with enough credits nobody is refused.
    assert_eq!(asked(1_000), 0);
}

#[test]
fn a_socket_that_says_too_much_or_nothing_is_closed() {
    with_door(|at| {
        let mut large = socket(at);
        let _ = large.write_all(&frame(1, &vec![b'x'; 1 << 20]));
        assert!(text(&mut large).is_none());
        let mut idle = socket(at);
        let told = text(&mut idle).expect("a reason");
        let told =
            if told["channel"] == "heartbeat" { text(&mut idle).expect("a reason") } else { told };
        assert_eq!(told["error"]["code"], "timeout");
        assert!(text(&mut idle).is_none());
    });
}

#[test]
fn what_is_asked_heard_and_refused_is_counted() {
    let counters = Arc::new(Counters::default());
    let settings = Settings {
        connections_per_address: 2,
        public_credits_per_s: 2,
        counters: Arc::clone(&counters),
        ..Settings::default()
    };
    with_settings(settings, |at| {
        let until = |holds: fn(&Figures) -> bool| {
            let since = std::time::Instant::now();
            while !holds(&counters.figures()) {
                assert!(since.elapsed() < Duration::from_secs(20), "{:?}", counters.figures());
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        assert_eq!(counters.figures(), Figures::default());
        let mut stream = socket(at);
        let mut ask = |op: &str| {
            stream.write_all(&frame(1, op.as_bytes())).expect("sent");
            text(&mut stream).expect("an answer")
        };
        ask(r#"{"op":"ping"}"#);
        ask("{");
        ask(r#"{"op":"subscribe","channels":["book","trades"],"symbols":["AAA"]}"#);
        until(|of| of.subscriptions == 2);
        let held = connect(at);
        until(|of| of.connections == 2);
        // There are as many as one address may have.
        let mut third = connect(at);
        assert_eq!(third.read(&mut [0]).ok(), Some(0));
        until(|of| of.socket[1] == 2);
        let seen = counters.figures();
        assert_eq!((seen.accepted, seen.sockets, seen.refused), (2, 1, 1));
        assert_eq!((seen.rest, seen.socket), ([1, 0, 0, 0, 0], [0, 2, 0, 1, 0]));
        drop((stream, held));
        until(|of| (of.connections, of.sockets, of.subscriptions) == (0, 0, 0));

        let mut requests = vec![
            plain("GET", "/v1/time"),
            plain("GET", "/v1/book/ZZZ"),
            signed("all", now_ms(), ("GET", "/v1/orders"), ""),
        ];
        requests.extend((0..5).map(|_| plain("GET", "/v1/time")));
        let mut ask = |request: &Vec<u8>| {
            let (status, _) = exchange(at, request);
            until(|of| of.connections == 0);
            status
        };
        let statuses: Vec<u16> = requests.iter().map(&mut ask).collect();
        let of = |class: u16| statuses.iter().filter(|status| **status / 100 == class).count();
        let seen = counters.figures();
        assert_eq!(seen.rest, [1, of(2), 0, of(4), of(5)].map(|count| count as u64));
        let refused = statuses.iter().filter(|status| **status == 429).count();
        assert!(statuses.starts_with(&[200, 404, 503]) && refused > 0, "{statuses:?}");
        assert_eq!((seen.accepted, seen.no_credits), (10, refused as u64));
        assert!(seen.received > 200 && seen.sent > seen.received, "{seen:?}");
        assert_eq!((seen.slow, seen.resyncs), (0, 0));
    });
}

#[test]
fn a_door_with_tls_is_spoken_to_with_tls_alone_by_whoever_trusts_its_certificate() {
    let made = || rcgen::generate_simple_self_signed(["door.example".to_string()]).expect("made");
    let (own, other) = (made(), made());
    let tls = Tls::new(own.cert.pem().as_bytes(), own.signing_key.serialize_pem().as_bytes());
    let settings = Settings { tls: Some(tls.expect("a pair")), ..Settings::default() };
    with_settings(settings, |at| {
        let trusting = |certificate: &rcgen::Certificate, name: &str| {
            let tls = ClientTls::new(certificate.pem().as_bytes(), name, None).expect("a client");
            tls.over(connect(at)).expect("begun")
        };
        let status = |stream: &mut dyn ReadWrite| {
            let mut begin = [0; 12];
            let sent = stream.write_all(&plain("GET", "/v1/time"));
            sent.and_then(|()| stream.read_exact(&mut begin)).map(|()| begin)
        };
        let told = status(&mut trusting(&own.cert, "door.example")).expect("an answer");
        assert_eq!(&told, b"HTTP/1.1 200");
        let mut stream = socket_over(trusting(&own.cert, "door.example"));
        stream.write_all(&frame(1, br#"{"op":"ping"}"#)).expect("sent");
        assert_eq!(text(&mut stream).expect("an answer")["channel"], "pong");
        // Controls: another authority, another name, no TLS.
        assert!(status(&mut trusting(&other.cert, "door.example")).is_err());
        assert!(status(&mut trusting(&own.cert, "evil.example")).is_err());
        let told = status(&mut connect(at));
        assert!(told.is_err() || told.is_ok_and(|told| !told.starts_with(b"HTTP")));
    });
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

#[test]
fn operators_have_a_role_of_their_own() {
    with_door(|at| {
        let ask = |key: &str, method: &str, body: &str| {
            let request = signed(key, now_ms(), (method, "/v1/operator"), body);
            let (status, told) = exchange(at, &request);
            let code = told["error"]["code"].as_str().map(str::to_string);
            (status, code.unwrap_or_else(|| told["text"].to_string()))
        };
        let halt = r#"{"action": {"halt": {"instrument": "AAA"}}}"#;
        assert_eq!(ask("steers", "GET", ""), (200, "\"all is well\"".into()));
        // It is done in the key's name.
        assert_eq!(ask("steers", "POST", halt), (200, "\"steers\"".into()));
        for key in ["all", "reads"] {
            assert_eq!(ask(key, "POST", halt), (403, "wrong_scope".into()));
            assert_eq!(ask(key, "GET", ""), (403, "wrong_scope".into()));
        }
        assert_eq!(ask("steers", "POST", r#"{"action": "sessions"}"#), (422, "rejected".into()));
        assert_eq!(ask("steers", "POST", r#"{"action": "end-of-day"}"#), (400, "bad_field".into()));
        assert_eq!(ask("steers", "POST", "[]"), (400, "bad_json".into()));
        // An operator is no trader.
        let orders = signed("steers", now_ms(), ("GET", "/v1/orders"), "");
        assert_eq!(exchange(at, &orders).1["error"]["code"], "wrong_scope");
        // In public: what was told, and what was not yet.
        let (status, tree) = exchange(at, b"GET /v1/tree HTTP/1.1\r\nhost: x\r\n\r\n");
        assert_eq!((status, &tree["epoch"]), (200, &json!(1)));
    });
}
