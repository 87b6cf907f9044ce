//! Scripts: lines that connect, send, expect and disconnect, perhaps on numbered connections.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use fix::dictionary::Rules;
use fix::value::{StampWriter, uint};
use types::Nanos;

use crate::compare::Formats;
use crate::server::{Clock, Server};

/// Longest wait for anything; the longest a script needs is 7.2 s.
const PATIENCE: Duration = Duration::from_secs(20);

/// Scripts whose Logon is refused: they expect silence before the end. The session layer's own test
/// cases (1S) leave it to the acceptor to say why with a Logout, which this one does, so here the
/// Logout must come.
const REFUSED_LOGONS: [&str; 5] = [
    "1c_InvalidSenderCompID",
    "1c_InvalidTargetCompID",
    "1d_InvalidLogonBadSendingTime",
    "1d_InvalidLogonNoDefaultApplVerID",
    "1d_InvalidLogonWrongBeginString",
];

#[derive(Debug)]
enum Action {
    Connect,
    Disconnect,
    Send(String),
    Expect(String),
    /// A Logout with text, number 1.
    ExpectLogout,
    ExpectDisconnect,
}

/// One script.
pub struct Case {
    /// Suite and file.
    pub name: String,
    /// Whether it waits for heartbeats.
    pub waits: bool,
    /// Line, connection, what.
    steps: Vec<(usize, u32, Action)>,
}

impl Case {
    /// Reads a file.
    pub fn read(suite: &str, path: &Path) -> Case {
        let file = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("?");
        let text = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Case::parse(&format!("{suite}/{file}"), &String::from_utf8_lossy(&text))
    }

    /// Reads a text.
    pub fn parse(name: &str, text: &str) -> Case {
        let refused = REFUSED_LOGONS.iter().any(|file| name.ends_with(file));
        let mut steps = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim_end_matches('\r');
            let Some(kind) = line.chars().next().filter(|c| "iIeE".contains(*c)) else { continue };
            let rest = &line[1..];
            let (conn, rest) = match rest.split_once(',') {
                Some((conn, rest)) if conn.parse::<u32>().is_ok() => (conn.parse().unwrap(), rest),
                _ => (0, rest),
            };
            let action = match (kind, rest.trim_end()) {
                ('i', "CONNECT") => Action::Connect,
                ('i', "DISCONNECT") => Action::Disconnect,
                ('e', "DISCONNECT") => Action::ExpectDisconnect,
                ('I', _) => Action::Send(rest.to_string()),
                ('E', _) => Action::Expect(rest.to_string()),
                _ => panic!("{name}:{number}: not understood: {line}"),
            };
            if refused && matches!(action, Action::ExpectDisconnect) {
                steps.push((number, conn, Action::ExpectLogout));
            }
            steps.push((number, conn, action));
        }
        Case { name: name.to_string(), waits: text.contains("\x01108=6\x01"), steps }
    }
}

/// A connection and what has been read of it.
struct Peer {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Peer {
    /// One message; `None` at the end of the stream.
    fn receive(&mut self) -> Result<Option<String>, String> {
        loop {
            let trailer = self.buffer.windows(4).position(|window| window == b"\x0110=");
            let end = trailer.and_then(|at| {
                let after = self.buffer[at + 4..].iter().position(|&byte| byte == 1)?;
                Some(at + 4 + after + 1)
            });
            if let Some(end) = end {
                let message: Vec<u8> = self.buffer.drain(..end).collect();
                return Ok(Some(String::from_utf8_lossy(&message).into_owned()));
            }
            let mut chunk = [0; 4_096];
            match self.stream.read(&mut chunk) {
                Ok(0) => return Ok(None),
                Ok(length) => self.buffer.extend_from_slice(&chunk[..length]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(format!("nothing came: {error}")),
            }
        }
    }
}

/// Runs a script against a door of its own; `Err`: the line that failed, and how.
pub fn run(case: &Case, rules: &[Rules], formats: &Formats, rate: u64) -> Result<(), String> {
    let clock = Clock::new(rate);
    let server = Server::start(rules, clock);
    let mut peers: BTreeMap<u32, Peer> = BTreeMap::new();
    for (number, conn, action) in &case.steps {
        step(&mut peers, *conn, action, &server, formats, clock)
            .map_err(|complaint| format!("line {number}: {}", complaint.replace('\x01', "|")))?;
    }
    Ok(())
}

fn step(
    peers: &mut BTreeMap<u32, Peer>,
    conn: u32,
    action: &Action,
    server: &Server,
    formats: &Formats,
    clock: Clock,
) -> Result<(), String> {
    if let Action::Connect = action {
        let stream = TcpStream::connect(server.address).map_err(|error| error.to_string())?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        peers.insert(conn, Peer { stream, buffer: Vec::new() });
        return Ok(());
    }
    let peer = peers.get_mut(&conn).ok_or("not connected")?;
    match action {
        Action::Connect => {}
        Action::Disconnect => {
            peers.remove(&conn);
        }
        Action::Send(text) => {
            let message = complete(&stamp(text, clock));
            // A door that has closed already says so at the next expectation.
            let _ = peer.stream.write_all(message.as_bytes());
        }
        Action::Expect(text) => {
            let expected = complete(&stamp(text, clock));
            let actual = peer.receive()?.ok_or(format!("disconnected before {expected}"))?;
            if let Some(difference) = formats.difference(&expected, &actual) {
                return Err(format!("{difference}\n  expected {expected}\n  actual   {actual}"));
            }
        }
        Action::ExpectLogout => {
            let actual = peer.receive()?.ok_or("disconnected without a Logout")?;
            let fields = ["\x0135=5\x01", "\x0134=1\x01", "\x0158="];
            if !fields.iter().all(|field| actual.contains(field)) {
                return Err(format!("not a Logout with a text: {actual}"));
            }
        }
        Action::ExpectDisconnect => {
            if let Some(message) = peer.receive()? {
                return Err(format!("not disconnected, but sent {message}"));
            }
            peers.remove(&conn);
        }
    }
    Ok(())
}

/// `<TIME>`, `<TIME+n>` and `<TIME-n>` as time stamps of whole seconds.
fn stamp(text: &str, clock: Clock) -> String {
    let mut done = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("<TIME") {
        let (shift, behind) = after.split_once('>').unwrap_or((after, ""));
        let seconds = uint(shift.trim_start_matches(['+', '-']).as_bytes()).unwrap_or(0);
        let ns = seconds * Nanos::SECOND;
        let now = clock.now();
        let at = if shift.starts_with('-') { Nanos(now.0 - ns) } else { now.after(ns) };
        let stamp = StampWriter::default().text(at).to_vec();
        done.push_str(before);
        done.push_str(&String::from_utf8_lossy(&stamp[..17]));
        rest = behind;
    }
    done + rest
}

/// Adds BodyLength and CheckSum where they are not; a line that does not begin with BeginString
/// is left as it is.
fn complete(text: &str) -> String {
    if !text.starts_with("8=") {
        return text.to_string();
    }
    let (begin, rest) = text.split_once('\x01').unwrap_or((text, ""));
    let trailer = rest.find("\x0110=").map(|at| at + 1);
    let (body, trailer) = rest.split_at(trailer.unwrap_or(rest.len()));
    let mut message = if body.starts_with("9=") {
        format!("{begin}\x01{body}")
    } else {
        format!("{begin}\x019={}\x01{body}", body.len())
    };
    if trailer.is_empty() {
        let sum = fix::checksum(message.as_bytes());
        message.push_str(&format!("10={sum:03}\x01"));
    } else {
        message.push_str(trailer);
    }
    message
}
