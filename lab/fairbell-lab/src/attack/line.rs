//! Blocking clients of either door, honest or not: a few functions over a socket.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use net::{ClientTls, Clock};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use types::{ClOrdId, Price, Qty, Side, Symbol, TimeInForce, UserRefNum};
use wire::ouch::{self, NewOrder, Outbound};
use wire::soupbin::{ClientEvent, ClientSession};

/// How long any answer is waited for by honest clients, and by others.
const PATIENCE: Duration = Duration::from_secs(5);
const IMPATIENCE: Duration = Duration::from_millis(300);

trait Both: Read + Write + Send {}
impl<T: Read + Write + Send> Both for T {}

/// An open connection.
pub struct Line {
    io: Box<dyn Both>,
}

/// A plain connection from one address to another.
///
/// # Errors
/// As the kernel has it.
pub fn open(from: Ipv4Addr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddr::from((from, 0)))?;
    connect(&socket, &to)?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    let patience = if from == Ipv4Addr::LOCALHOST { PATIENCE } else { IMPATIENCE };
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    Ok(stream)
}

impl Line {
    /// A connection, sealed if there is something to seal it with.
    ///
    /// # Errors
    /// As the kernel or TLS has it.
    pub fn open(from: Ipv4Addr, to: SocketAddr, tls: Option<&ClientTls>) -> std::io::Result<Line> {
        let stream = open(from, to)?;
        let io: Box<dyn Both> = match tls {
            Some(tls) => Box::new(tls.over(stream)?),
            None => Box::new(stream),
        };
        Ok(Line { io })
    }

    /// Writes; false when the other side is gone.
    pub fn write(&mut self, bytes: &[u8]) -> bool {
        self.io.write_all(bytes).and_then(|()| self.io.flush()).is_ok()
    }

    /// Reads some; empty at the end.
    pub fn read(&mut self) -> Vec<u8> {
        let mut buffer = [0; 16_384];
        let read = self.io.read(&mut buffer).unwrap_or(0);
        buffer.get(..read).unwrap_or(&[]).to_vec()
    }

    /// Reads to the end, at most so much.
    pub fn read_rest(&mut self, most: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while all.len() < most {
            let more = self.read();
            if more.is_empty() {
                break;
            }
            all.extend(more);
        }
        all
    }
}

/// Somebody's OUCH session.
pub struct Ouch {
    line: Line,
    session: ClientSession,
    clock: Clock,
    /// The last message of its stream that came.
    pub heard: u64,
}

/// What came of a login.
pub enum Login<T> {
    /// In.
    In(T),
    /// Refused, or the connection was cut.
    Out,
}

impl Ouch {
    /// Logs in, from message `sequence` on.
    pub fn login(
        mut line: Line,
        clock: Clock,
        (user, password): (&str, &str),
        sequence: u64,
    ) -> Login<Ouch> {
        let Ok(mut session) = ClientSession::new(user, password) else { return Login::Out };
        if sequence > 1 {
            session.resume_from(wire::soupbin::ANY_SESSION, sequence);
        }
        let mut bytes = Vec::new();
        let asked = session.connect(clock.now(), &mut bytes).is_ok();
        if !asked || !line.write(&bytes) {
            return Login::Out;
        }
        let mut ouch = Ouch { line, session, clock, heard: sequence.saturating_sub(1) };
        match ouch.until(|event| matches!(event, ClientEvent::Accepted { .. })) {
            true => Login::In(ouch),
            false => Login::Out,
        }
    }

    /// Reads until an event is the one; false when the connection ends before.
    fn until(&mut self, mut is_it: impl FnMut(ClientEvent<'_>) -> bool) -> bool {
        loop {
            let bytes = self.line.read();
            if bytes.is_empty() {
                return false;
            }
            let (mut found, mut over) = (false, false);
            self.session.handle_bytes(self.clock.now(), &bytes, |event| {
                over |= matches!(event, ClientEvent::Rejected(_) | ClientEvent::Violation(_));
                if let ClientEvent::Sequenced { seq, .. } = event {
                    self.heard = self.heard.max(seq);
                }
                found |= is_it(event);
            });
            if found || over {
                return found;
            }
        }
    }

    /// Sends a message of OUCH, and reads until so many messages of the stream have come.
    pub fn send(&mut self, message: &[u8], answers: u32) -> bool {
        let (now, mut bytes) = (self.clock.now(), Vec::new());
        let sent = self.session.send_unsequenced(now, message, &mut bytes).is_ok();
        let mut left = answers;
        sent && self.line.write(&bytes)
            && (left == 0
                || self.until(|event| {
                    left -= u32::from(left > 0 && matches!(event, ClientEvent::Sequenced { .. }));
                    left == 0
                }))
    }

    /// Sends a message of OUCH, and reads until the stream has one about the order of this number: whatever becomes of
    /// others meanwhile is no answer.
    pub fn ask(&mut self, message: &[u8], number: u32) -> bool {
        // All that the stream has begins with a kind, a time of 8 bytes and the number.
        let is_about = |message: &[u8]| message.get(9..13) == Some(&number.to_be_bytes()[..]);
        self.send(message, 0)
            && self.until(|event| match event {
                ClientEvent::Sequenced { message, .. } => is_about(message),
                _ => false,
            })
    }

    /// Reads until so many messages have come, of the stream or beside it.
    pub fn hear(&mut self, messages: u32) -> bool {
        let mut left = messages;
        left == 0
            || self.until(|event| {
                let is_one =
                    matches!(event, ClientEvent::Sequenced { .. } | ClientEvent::Unsequenced(_));
                left -= u32::from(left > 0 && is_one);
                left == 0
            })
    }

    /// Enters an order and waits until it is accepted.
    pub fn order(&mut self, number: u32, side: Side, price: Price, symbol: Symbol) -> bool {
        let order = NewOrder {
            user_ref: UserRefNum(number),
            side,
            qty: Qty(1),
            symbol,
            price: Some(price),
            time_in_force: TimeInForce::Day,
            post_only: false,
            cl_ord_id: ClOrdId(*b"attack test   "),
        };
        let mut message = Vec::new();
        ouch::encode_enter_order(&order, &mut message).is_ok()
            && self.send(&message, 0)
            && self.until(|event| match event {
                ClientEvent::Sequenced { message, .. } => matches!(
                    ouch::parse_outbound(message),
                    Ok(Outbound::OrderAccepted(m, _)) if m.user_ref.get() == number
                ),
                _ => false,
            })
    }
}

/// Somebody's FIX session, in 4.4.
pub struct Fix {
    /// The connection.
    pub line: Line,
    sender: String,
    /// Number of our next message.
    pub next: u64,
    heard: Vec<u8>,
    started: Instant,
    clock: Clock,
}

impl Fix {
    /// A session not logged on yet.
    pub fn new(line: Line, clock: Clock, sender: &str) -> Fix {
        let (sender, heard) = (sender.to_string(), Vec::new());
        Fix { line, sender, next: 1, heard, started: Instant::now(), clock }
    }

    /// Sends a message under the next number; `fields` with `|` between them.
    pub fn send(&mut self, kind: &str, fields: &str) -> bool {
        let number = self.next;
        self.next += 1;
        let bytes = self.message(kind, number, fields);
        self.line.write(&bytes)
    }

    /// A message under any number.
    pub fn message(&self, kind: &str, number: u64, fields: &str) -> Vec<u8> {
        let time = utc(self.clock.now().0);
        let sender = &self.sender;
        let mut body = format!("35={kind}|49={sender}|56=FAIRBELL|34={number}|52={time}|");
        body.push_str(fields);
        if !fields.is_empty() {
            body.push('|');
        }
        let text = format!("8=FIX.4.4|9={}|{body}", body.len()).replace('|', "\x01");
        let sum = fix::checksum(text.as_bytes());
        format!("{text}10={sum:03}\x01").into_bytes()
    }

    /// Logs on with `reset` or going on, and waits for the answer.
    pub fn logon(&mut self, password: &str, number: u64, reset: bool) -> bool {
        let flag = if reset { "|141=Y" } else { "" };
        let logon = self.message("A", number, &format!("98=0|108=30|554={password}{flag}"));
        self.next = number + 1;
        self.line.write(&logon) && self.until("\x0135=A\x01")
    }

    /// Reads until a message contains `text`; false when the connection ends or falls silent.
    pub fn until(&mut self, text: &str) -> bool {
        loop {
            if let Some(at) = find(&self.heard, text.as_bytes()) {
                self.heard.drain(..at + text.len());
                return true;
            }
            let more = self.line.read();
            if more.is_empty() || self.started.elapsed() > 60 * PATIENCE {
                return false;
            }
            self.heard.extend(more);
            let spare = self.heard.len().saturating_sub(1 << 20);
            self.heard.drain(..spare);
        }
    }

    /// Reads until a message contains `text`: all that came up to it, oldest first; `None` when the connection
    /// ends or falls silent before.
    pub fn messages_until(&mut self, text: &str) -> Option<Vec<String>> {
        loop {
            if let Some(at) = find(&self.heard, text.as_bytes()) {
                let all: Vec<u8> = self.heard.drain(..at + text.len()).collect();
                let all = String::from_utf8_lossy(&all).into_owned();
                return Some(all.split("8=FIX").skip(1).map(str::to_string).collect());
            }
            let more = self.line.read();
            if more.is_empty() {
                return None;
            }
            self.heard.extend(more);
        }
    }

    /// Enters an order and waits until it is accepted.
    pub fn order(&mut self, number: u32, price: Price, symbol: Symbol) -> bool {
        let (time, symbol) = (utc(self.clock.now().0), symbol.as_str().to_string());
        let price = price.0 / 10_000;
        let fields =
            format!("11=H{number}|55={symbol}|54=1|60={time}|38=1|40=2|44={price}|59=0|21=1");
        self.send("D", &fields) && self.until(&format!("\x0111=H{number}\x01"))
    }
}

fn find(all: &[u8], part: &[u8]) -> Option<usize> {
    all.windows(part.len()).position(|window| window == part)
}

/// A time of FIX, from nanoseconds since 1970: days by the calendar of Howard Hinnant's
/// `civil_from_days`.
pub(crate) fn utc(ns: u64) -> String {
    let (ms, s) = (ns / 1_000_000 % 1_000, ns / 1_000_000_000);
    let (days, of_day) = (s / 86_400 + 719_468, s % 86_400);
    let era = days / 146_097;
    let of_era = days - era * 146_097;
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    let (h, m, s) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}{month:02}{day:02}-{h:02}:{m:02}:{s:02}.{ms:03}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_that_fix_reads() {
        for (ns, text) in [
            (0, "19700101-00:00:00.000"),
            (951_782_400_123_000_000, "20000229-00:00:00.123"),
            (1_767_225_599_999_000_000, "20251231-23:59:59.999"),
        ] {
            assert_eq!(utc(ns), text);
        }
    }
}
