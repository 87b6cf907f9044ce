//! A byte stream cut into messages.
//!
//! Memory is bounded by the largest message allowed. What is no message is thrown away up to the
//! next `<SOH>10=...<SOH>`, so that one message with a wrong BodyLength costs at most itself and
//! the one it runs into; between messages everything before the next `8=FIX` is skipped.

/// Separator behind every field: the control character SOH.
pub const SOH: u8 = 1;
const START: &[u8] = b"8=FIX";
/// Longest prefix of a message, as `8=FIXT.1.1<SOH>9=1234567<SOH>`, with room to spare.
const PREFIX_MAX: usize = 32;

/// What [`Framer::next_frame`] found in the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frame<'a> {
    /// `8=` to the end of `10=nnn<SOH>`, the length right; the rest is unchecked.
    Message(&'a [u8]),
    /// Bytes that were not a message; they have been dropped.
    Garbled,
}

/// Cuts a stream of bytes into messages.
#[derive(Clone, Debug)]
pub struct Framer {
    buffer: Vec<u8>,
    start: usize,
    skipping: bool,
    message_max: usize,
}

enum Step {
    Need,
    Message(usize),
    /// Drop this many bytes, which are not a message.
    Drop(usize),
    /// Drop the bytes up to here, and all up to the next trailer.
    Skip(usize),
}

impl Framer {
    /// A framer for messages of at most `message_max` bytes.
    pub fn new(message_max: usize) -> Framer {
        Framer { buffer: Vec::new(), start: 0, skipping: false, message_max: message_max.max(64) }
    }

    /// Takes some of `bytes`, at least one if there are any and [`Framer::next_frame`] has said
    /// `None`; returns how many.
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        let room = (2 * self.message_max).saturating_sub(self.buffer.len());
        let taken = bytes.get(..room.min(bytes.len())).unwrap_or(&[]);
        self.buffer.extend_from_slice(taken);
        taken.len()
    }

    /// Number of bytes that are held and not cut into messages yet.
    pub fn held(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// The next message or what stood in its place; `None`: more bytes are needed.
    pub fn next_frame(&mut self) -> Option<Frame<'_>> {
        loop {
            let step = match self.buffer.get(self.start..) {
                None | Some([]) => return None,
                Some(rest) if self.skipping => skip(rest),
                Some(rest) => look(rest, self.message_max),
            };
            match step {
                Step::Need => return None,
                Step::Message(length) => {
                    let from = self.start;
                    self.start += length;
                    return self.buffer.get(from..from + length).map(Frame::Message);
                }
                Step::Drop(length) => {
                    self.start += length;
                    self.skipping = false;
                    return Some(Frame::Garbled);
                }
                Step::Skip(length) => {
                    self.start += length;
                    if self.skipping && length == 0 {
                        return None;
                    }
                    self.skipping = true;
                }
            }
        }
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

/// Length of the prefix `8=...<SOH>9=n<SOH>` and the body length it states.
/// `Ok(None)`: not all there yet.
fn prefix(bytes: &[u8]) -> Result<Option<(usize, usize)>, ()> {
    let bytes = bytes.get(..PREFIX_MAX.min(bytes.len())).unwrap_or(bytes);
    let full = bytes.len() == PREFIX_MAX;
    let missing = if full { Err(()) } else { Ok(None) };
    let Some(begin) = bytes.iter().position(|&byte| byte == SOH) else { return missing };
    let rest = bytes.get(begin + 1..).unwrap_or(&[]);
    match rest {
        [] | [b'9'] => return missing,
        [b'9', b'=', ..] => {}
        _ => return Err(()),
    }
    let digits = rest.get(2..).unwrap_or(&[]);
    let Some(end) = digits.iter().position(|&byte| byte == SOH) else { return missing };
    let length = digits.get(..end).filter(|text| text.len() <= 7).and_then(crate::value::uint);
    let length = length.and_then(|length| usize::try_from(length).ok()).ok_or(())?;
    Ok(Some((begin + 1 + 2 + end + 1, length)))
}

/// Decides what the bytes at the front, which should begin a message, are.
fn look(bytes: &[u8], message_max: usize) -> Step {
    if !bytes.starts_with(START) {
        return match find(bytes, START) {
            Some(at) => Step::Drop(at),
            None if START.starts_with(bytes) => Step::Need,
            None => {
                let kept = (1..START.len()).rev().find(|&n| bytes.ends_with(&START[..n]));
                Step::Drop(bytes.len() - kept.unwrap_or(0))
            }
        };
    }
    let body = match prefix(bytes) {
        Ok(None) => return Step::Need,
        Ok(Some((start, length))) if start + length + 7 <= message_max => start + length,
        Ok(Some(_)) | Err(()) => return Step::Skip(START.len()),
    };
    match bytes.get(body - 1..body + 3) {
        None => Step::Need,
        Some([SOH, b'1', b'0', b'=']) => {
            let tail = bytes.get(body + 3..).unwrap_or(&[]);
            match tail.iter().take(4).position(|&byte| byte == SOH) {
                Some(3) => Step::Message(body + 7),
                // A checksum of another width.
                Some(at) => Step::Drop(body + 3 + at + 1),
                None if tail.len() < 4 => Step::Need,
                None => Step::Skip(body - 1),
            }
        }
        Some(_) => Step::Skip(body - 1),
    }
}

/// Drops everything up to the end of the next trailer.
fn skip(bytes: &[u8]) -> Step {
    const TRAILER: &[u8] = b"\x0110=";
    let Some(at) = find(bytes, TRAILER) else {
        let kept = (1..TRAILER.len()).rev().find(|&n| bytes.ends_with(&TRAILER[..n]));
        return Step::Skip(bytes.len() - kept.unwrap_or(0));
    };
    let after = at + TRAILER.len();
    let tail = bytes.get(after..).unwrap_or(&[]);
    match tail.iter().take(8).position(|&byte| byte == SOH) {
        Some(end) => Step::Drop(after + end + 1),
        None if tail.len() >= 8 => Step::Skip(after),
        None => Step::Skip(at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soh(text: &str) -> Vec<u8> {
        text.replace('|', "\x01").into_bytes()
    }

    /// Frames of `text`, given in pieces of `piece` bytes: messages as text, garbage as `?`.
    fn frames(text: &str, piece: usize) -> Vec<String> {
        let bytes = soh(text);
        let mut framer = Framer::new(128);
        let mut found = Vec::new();
        for mut chunk in bytes.chunks(piece) {
            while !chunk.is_empty() {
                let taken = framer.push(chunk);
                assert!(taken > 0);
                chunk = &chunk[taken..];
                while let Some(frame) = framer.next_frame() {
                    found.push(match frame {
                        Frame::Message(m) => String::from_utf8_lossy(m).replace('\x01', "|"),
                        Frame::Garbled => "?".to_string(),
                    });
                }
            }
        }
        found.dedup_by(|a, b| a == "?" && b == "?");
        found
    }

    const GOOD: &str = "8=FIX.4.4|9=5|35=0|10=163|";

    #[test]
    fn messages_come_out_however_they_arrive() {
        for piece in 1..80 {
            assert_eq!(frames(&format!("{GOOD}{GOOD}"), piece), [GOOD, GOOD], "{piece}");
        }
    }

    #[test]
    fn garbage_costs_itself_and_what_it_runs_into() {
        let cases: &[(&str, &[&str])] = &[
            ("noise", &["?"]),
            ("35=0|", &["?"]),
            ("8=FIX.4.4|9=3|35=0|10=163|", &["?"]),
            ("8=FIX.4.4|34=1|9=5|35=0|10=163|", &["?"]),
            ("8=FIX.4.4|9=5|35=0|10=0|", &["?"]),
            ("8=FIX.4.4|9=99999|35=0|10=163|", &["?"]),
            ("8=FIX.4.4|9=x|35=0|10=163|", &["?"]),
        ];
        for &(bad, expected) in cases {
            for piece in [1, 7, 1_000] {
                let mut wanted: Vec<&str> = expected.to_vec();
                wanted.push(GOOD);
                assert_eq!(frames(&format!("{bad}{GOOD}"), piece), wanted, "{bad} {piece}");
            }
        }
        // Too long a length swallows the message after it.
        let long = "8=FIX.4.4|9=20|35=0|10=163|";
        assert_eq!(frames(&format!("{long}{GOOD}{GOOD}"), 9), ["?", GOOD]);
    }

    #[test]
    fn endless_garbage_is_not_kept() {
        let mut framer = Framer::new(128);
        for _ in 0..10_000 {
            let chunk = soh("8=FIX|no end of it|8=FIX.4.4|9=7");
            let mut rest = &chunk[..];
            while !rest.is_empty() {
                let taken = framer.push(rest);
                assert!(taken > 0);
                rest = &rest[taken..];
                while framer.next_frame().is_some() {}
            }
            assert!(framer.held() <= 256);
        }
    }
}
