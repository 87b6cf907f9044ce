//! A blocking client of the web door: REST and WebSocket, a few functions over a socket.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use web::auth::sign;

use super::venue::SECRET;
use crate::attack::line::open;

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a WebSocket's read waits.
const TURN: Duration = Duration::from_millis(50);

/// Milliseconds since the epoch.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// A client's masked text frame; a mask of zeros changes nothing.
pub fn frame(payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x81];
    match payload.len() {
        short @ 0..126 => bytes.push(0x80 | short as u8),
        long @ 126..65_536 => {
            bytes.push(0x80 | 126);
            bytes.extend((long as u16).to_be_bytes());
        }
        long => {
            bytes.push(0x80 | 127);
            bytes.extend((long as u64).to_be_bytes());
        }
    }
    bytes.extend([0; 4]);
    bytes.extend_from_slice(payload);
    bytes
}

/// A server's frame at the begin of `bytes`: its kind, its payload, and how long all of it is; `None`: it is
/// not whole yet.
pub fn first_frame(bytes: &[u8]) -> Option<(u8, &[u8], usize)> {
    let (head, rest) = bytes.split_first_chunk::<2>()?;
    let (length, rest, before) = match head[1] & 0x7F {
        126 => {
            let (length, rest) = rest.split_first_chunk::<2>()?;
            (u64::from(u16::from_be_bytes(*length)), rest, 4)
        }
        127 => {
            let (length, rest) = rest.split_first_chunk::<8>()?;
            (u64::from_be_bytes(*length), rest, 10)
        }
        short => (u64::from(short), rest, 2),
    };
    let length = usize::try_from(length).ok()?;
    Some((head[0] & 0x0F, rest.get(..length)?, before + length))
}

/// What asks for a WebSocket.
pub const UPGRADE: &str = "GET /v1/ws HTTP/1.1\r\nhost: door\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                           sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";

/// Bytes to a door and from it.
pub trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// The message that proves a key; `nonce` tells those of one millisecond apart.
pub fn auth(key: &str, nonce: &str) -> String {
    let at = now_ms().to_string();
    let signature = sign(SECRET, &at, nonce, ("GET", "/v1/ws", b""));
    json!({ "op": "auth", "key": key, "timestamp": at, "nonce": nonce, "signature": signature })
        .to_string()
}

/// A WebSocket.
pub struct Socket {
    stream: Box<dyn Stream>,
    heard: Vec<u8>,
}

impl Socket {
    /// Connects from an address.
    ///
    /// # Errors
    /// The door takes no connection.
    pub fn open(from: Ipv4Addr, door: SocketAddr) -> std::io::Result<Socket> {
        let stream = open(from, door)?;
        stream.set_read_timeout(Some(TURN))?;
        Socket::over(stream)
    }

    /// One over a connection whose reads wait no longer than a moment.
    ///
    /// # Errors
    /// The door does not take it up.
    pub fn over(stream: impl Stream + 'static) -> std::io::Result<Socket> {
        let mut stream = Box::new(stream);
        stream.write_all(UPGRADE.as_bytes())?;
        let mut socket = Socket { stream, heard: Vec::new() };
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(end) = socket.heard.windows(4).position(|part| part == b"\r\n\r\n") {
                let taken = socket.heard.starts_with(b"HTTP/1.1 101");
                socket.heard.drain(..end + 4);
                return if taken { Ok(socket) } else { Err(ErrorKind::ConnectionRefused.into()) };
            }
            if !socket.read()? || Instant::now() > until {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Reads some; false at the end.
    fn read(&mut self) -> std::io::Result<bool> {
        let mut buffer = [0; 65_536];
        match self.stream.read(&mut buffer) {
            Ok(0) => Ok(false),
            Ok(count) => {
                self.heard.extend_from_slice(buffer.get(..count).unwrap_or(&[]));
                Ok(true)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    /// Sends a text; false when the door is gone.
    pub fn send(&mut self, text: &str) -> bool {
        self.stream.write_all(&frame(text.as_bytes())).is_ok()
    }

    /// The next text; `None` when the door has closed, or says nothing for 10 s.
    pub fn next_text(&mut self) -> Option<Value> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some((kind, payload, length)) = first_frame(&self.heard) {
                let told = (kind == 1).then(|| serde_json::from_slice(payload).ok()).flatten();
                let closed = kind == 8;
                self.heard.drain(..length);
                match told {
                    Some(told) => return Some(told),
                    None if closed => return None,
                    None => continue,
                }
            }
            if Instant::now() > until || !matches!(self.read(), Ok(true)) {
                return None;
            }
        }
    }

    /// The next text of a channel.
    pub fn next_of(&mut self, channel: &str) -> Option<Value> {
        loop {
            let told = self.next_text()?;
            if told["channel"] == channel {
                return Some(told);
            }
        }
    }

    /// Asks for something under a name of its own, and the answer.
    pub fn ask(&mut self, mut message: Value) -> Option<Value> {
        let id = format!("q{}", now_ms());
        message["id"] = id.as_str().into();
        if !self.send(&message.to_string()) {
            return None;
        }
        loop {
            let told = self.next_text()?;
            if told["id"] == id.as_str() {
                return Some(told);
            }
        }
    }

    /// A proved connection.
    ///
    /// # Errors
    /// The door takes no connection, or not the key.
    pub fn proved(from: Ipv4Addr, door: SocketAddr, key: &str) -> std::io::Result<Socket> {
        let mut socket = Socket::open(from, door)?;
        let at = now_ms().to_string();
        if !socket.send(&auth(key, &at)) || socket.next_of("ok").is_none() {
            return Err(ErrorKind::PermissionDenied.into());
        }
        Ok(socket)
    }
}

/// A signed request over a connection of its own: status and body; `None`: no whole answer.
pub fn rest(
    (from, door): (Ipv4Addr, SocketAddr),
    key: &str,
    request: (&str, &str),
    body: &str,
) -> Option<(u16, Value)> {
    let stream = open(from, door).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    rest_over(stream, (key, SECRET), request, body)
}

/// A request signed by a key with a secret, the last one over a connection: status and body.
pub fn rest_over(
    mut stream: impl Stream,
    (key, secret): (&str, &str),
    (method, path): (&str, &str),
    body: &str,
) -> Option<(u16, Value)> {
    let at = now_ms().to_string();
    let nonce = format!("{:?}", Instant::now());
    let nonce: String = nonce.chars().filter(char::is_ascii_digit).collect();
    let signature = sign(secret, &at, &nonce, (method, path, body.as_bytes()));
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: door\r\nconnection: close\r\nfb-key: {key}\r\n\
         fb-timestamp: {at}\r\nfb-nonce: {nonce}\r\nfb-sign: {signature}\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let text = String::from_utf8(answer).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, serde_json::from_str(body).unwrap_or_default()))
}
