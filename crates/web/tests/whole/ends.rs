//! What the door tells whom it leaves or refuses: close frames of WebSockets, and what a key has left.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use serde_json::{Value, json};
use web::Settings;
use web::auth::sign;
use web::server::Tls;

use crate::door::{SECRET, connect, frame, now_ms, signed, socket, text, with_door, with_settings};

/// Code and reason of the close frame that comes behind texts, and whether the connection ends behind it.
fn closed(stream: &mut impl Read) -> (u16, String, bool) {
    loop {
        let mut head = [0; 2];
        stream.read_exact(&mut head).expect("a frame");
        assert!(head[1] < 126, "a long frame");
        let mut payload = vec![0; head[1].into()];
        stream.read_exact(&mut payload).expect("a payload");
        if head[0] & 0x0F != 8 {
            continue;
        }
        let (code, reason) = payload.split_first_chunk::<2>().expect("a code");
        let reason = String::from_utf8(reason.to_vec()).expect("a text");
        return (u16::from_be_bytes(*code), reason, matches!(stream.read(&mut head), Ok(0)));
    }
}

#[test]
fn who_says_too_much_or_what_is_no_message_is_told_before_the_end() {
    with_door(|at| {
        let part = |kind: u8, payload: &[u8]| {
            let mut bytes = frame(kind, payload);
            bytes[0] &= 0x7F;
            bytes
        };
        let parts = [part(1, &[b'x'; 40_000]), frame(0, &[b'x'; 40_000])].concat();
        let mut unmasked = frame(1, b"{}");
        unmasked[1] &= 0x7F;
        for (sent, code) in [
            (frame(1, &vec![b'x'; 64 * 1_024 + 1]), 1009),
            // All of it is sent, and more of it than the system keeps for who does not read.
            (frame(1, &vec![b'x'; 8 << 20]), 1009),
            (parts, 1009),
            (frame(1, &[0xFF, 0xFE]), 1007),
            (frame(3, b"x"), 1002),
            (unmasked, 1002),
        ] {
            let mut stream = socket(at);
            stream.write_all(&sent).expect("it is taken");
            // A client's own close, as the protocol has it.
            stream.write_all(&frame(8, &1000u16.to_be_bytes())).expect("it is taken");
            let told = closed(&mut stream);
            assert_eq!((told.0, told.2), (code, true), "{}", told.1);
            assert!((1..=123).contains(&told.1.len()), "{}", told.1);
        }
        // Control: as much as there may be is answered.
        let mut stream = socket(at);
        let mut most = br#"{"op":"ping"}"#.to_vec();
        most.resize(64 * 1_024, b' ');
        stream.write_all(&frame(1, &most)).expect("sent");
        assert_eq!(text(&mut stream).expect("an answer")["channel"], "pong");
    });
}

#[test]
fn who_subscribes_to_nothing_is_told_so_and_who_ends_it_is_answered() {
    with_door(|at| {
        let mut stream = socket(at);
        stream.write_all(&frame(8, &1000u16.to_be_bytes())).expect("sent");
        let (code, _, ended) = closed(&mut stream);
        assert_eq!((code, ended), (1000, true));
        let mut idle = socket(at);
        let (code, reason, ended) = closed(&mut idle);
        assert_eq!((code, ended), (1008, true), "{reason}");
        // One that is gone without a word needs none.
        let gone = socket(at);
        gone.shutdown(Shutdown::Both).expect("closed");
    });
}

#[test]
fn a_door_that_is_stopped_says_so_in_clear_and_over_tls() {
    let made = rcgen::generate_simple_self_signed(["door.example".to_string()]).expect("made");
    let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    for over_tls in [false, true] {
        let tls = Tls::new(chain.as_bytes(), key.as_bytes()).expect("a pair");
        let settings = Settings { tls: over_tls.then_some(tls), ..Settings::default() };
        let subscribe = br#"{"op":"subscribe","channels":["book"],"symbols":["AAA"]}"#;
        let mut held: Option<Box<dyn Read>> = None;
        with_settings(settings, |at| {
            let mut stream: Box<dyn Both> = match over_tls {
                false => Box::new(connect(at)),
                true => {
                    let tls = net::ClientTls::new(chain.as_bytes(), "door.example", None);
                    Box::new(tls.expect("a client").over(connect(at)).expect("begun"))
                }
            };
            stream = crate::door::socket_over(stream);
            stream.write_all(&frame(1, subscribe)).expect("sent");
            assert_eq!(text(&mut stream).expect("a snapshot")["channel"], "book");
            assert_eq!(text(&mut stream).expect("an answer")["channel"], "ok");
            held = Some(Box::new(stream));
        });
        let (code, reason, ended) = closed(&mut held.expect("a connection"));
        assert_eq!((code, ended), (1001, true), "{reason}");
    }
}

trait Both: Read + Write {}
impl<T: Read + Write> Both for T {}

/// Status and FB-CREDITS-LEFT of an answer.
fn credits(at: SocketAddr, request: &[u8]) -> (u16, Option<u32>) {
    let mut stream: TcpStream = connect(at);
    stream.write_all(request).expect("sent");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a head");
        head.extend(byte);
    }
    let head = String::from_utf8(head).expect("a text").to_lowercase();
    let left = head.lines().find_map(|line| line.strip_prefix("fb-credits-left: "));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.expect("a status"), left.map(|left| left.parse().expect("a number")))
}

#[test]
fn a_key_is_told_what_it_has_left_when_it_is_refused_too() {
    with_door(|at| {
        let asks = (0..8).map(|n| signed("poor", now_ms() - n, ("GET", "/v1/orders"), ""));
        let answers: Vec<_> = asks.map(|ask| credits(at, &ask)).collect();
        let refused: Vec<_> = answers.iter().filter(|of| of.0 == 429).collect();
        assert!(!refused.is_empty(), "{answers:?}");
        assert!(refused.iter().all(|of| of.1 == Some(0)), "{answers:?}");
        let scope = signed("reads", now_ms(), ("DELETE", "/v1/orders"), "");
        let (status, left) = credits(at, &scope);
        assert!(status == 403 && left.is_some(), "{status} {left:?}");
        // Control: who does not prove the key is told nothing of it.
        let mut wrong = signed("poor", now_ms(), ("GET", "/v1/orders"), "");
        let place = wrong.windows(9).position(|of| of == b"fb-sign: ").expect("a signature") + 9;
        wrong[place] = if wrong[place] == b'0' { b'1' } else { b'0' };
        assert_eq!(credits(at, &wrong), (401, None));
        assert_eq!(credits(at, b"GET /v1/time HTTP/1.1\r\nhost: x\r\n\r\n"), (200, None));

        // Over a WebSocket, too.
        let mut stream = socket(at);
        let mut ask = |op: &Value| {
            stream.write_all(&frame(1, op.to_string().as_bytes())).expect("sent");
            text(&mut stream).expect("an answer")
        };
        let timestamp = now_ms().to_string();
        let prove = |nonce: usize| {
            let nonce = nonce.to_string();
            let signature = sign(SECRET, &timestamp, &nonce, ("GET", "/v1/ws", b""));
            json!({
                "op": "auth", "key": "poor", "timestamp": timestamp, "nonce": nonce,
                "signature": signature,
            })
        };
        let proved = (0..100).any(|nonce| {
            std::thread::sleep(std::time::Duration::from_millis(40));
            ask(&prove(nonce))["channel"] == "ok"
        });
        assert!(proved, "credits come back");
        let mut asked = (0..100).map(|_| ask(&json!({ "op": "order", "order": "a" })));
        let told = asked.find(|told| told["status"] == 429).expect("a refusal");
        assert_eq!(told["credits_left"], 0, "{told}");
    });
}
