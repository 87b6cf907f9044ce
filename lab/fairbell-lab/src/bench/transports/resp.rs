//! The little of Redis's protocol (RESP 2) that lists need: commands out, replies in, pipelined as
//! the caller likes. Blocking, one connection.

use std::io::{self, Read, Write};
use std::net::TcpStream;

/// Longest reply that is waited for; ours are a few hundred bytes.
const REPLY_MAX: usize = 1 << 20;
/// Elements of an array, and arrays in arrays, at most.
const ELEMENTS_MAX: usize = 1 << 16;

/// One reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// Nothing there.
    Nil,
    /// Done, or a number.
    Done,
    /// An element of a list.
    Bytes(Vec<u8>),
    /// Several.
    Many(Vec<Reply>),
}

impl Reply {
    /// The elements of one or several replies, without those that were not there.
    pub fn elements(self) -> Vec<Vec<u8>> {
        match self {
            Reply::Bytes(bytes) => vec![bytes],
            Reply::Many(replies) => replies.into_iter().flat_map(Reply::elements).collect(),
            Reply::Nil | Reply::Done => Vec::new(),
        }
    }
}

/// A connection.
pub struct Redis {
    stream: TcpStream,
    commands: Vec<u8>,
    waiting: usize,
    input: Vec<u8>,
    /// How far `input` was read.
    read: usize,
}

impl Redis {
    /// Connects, small packets at once.
    ///
    /// # Errors
    /// Nobody there.
    pub fn connect(address: &str) -> io::Result<Redis> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Redis { stream, commands: Vec::new(), waiting: 0, input: Vec::new(), read: 0 })
    }

    /// Puts a command behind those that are not sent yet.
    pub fn push(&mut self, words: &[&[u8]]) {
        encode(words, &mut self.commands);
        self.waiting += 1;
    }

    /// Sends what was put and waits for all replies.
    ///
    /// # Errors
    /// A connection that ends, bytes that are no reply, an error of Redis as a reply.
    pub fn send(&mut self) -> io::Result<Vec<Reply>> {
        self.stream.write_all(&self.commands)?;
        self.commands.clear();
        let mut replies = Vec::with_capacity(self.waiting);
        for _ in 0..std::mem::take(&mut self.waiting) {
            replies.push(self.reply()?);
        }
        Ok(replies)
    }

    /// One command and its reply.
    ///
    /// # Errors
    /// As [`Redis::send`].
    pub fn ask(&mut self, words: &[&[u8]]) -> io::Result<Reply> {
        self.push(words);
        Ok(self.send()?.pop().unwrap_or(Reply::Nil))
    }

    fn reply(&mut self) -> io::Result<Reply> {
        loop {
            let mut rest = self.input.get(self.read..).unwrap_or(&[]);
            let before = rest.len();
            if let Some(reply) = decode(&mut rest, 2)? {
                self.read += before - rest.len();
                return Ok(reply);
            }
            self.input.drain(..self.read);
            self.read = 0;
            let held = self.input.len();
            if held > REPLY_MAX {
                return Err(io::Error::other("a reply without an end"));
            }
            self.input.resize(held + 4_096, 0);
            let count = self.stream.read(&mut self.input[held..]);
            self.input.truncate(held + *count.as_ref().unwrap_or(&0));
            if count? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

fn encode(words: &[&[u8]], out: &mut Vec<u8>) {
    out.extend(format!("*{}\r\n", words.len()).into_bytes());
    for word in words {
        out.extend(format!("${}\r\n", word.len()).into_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// The reply at the front, taken off; none while it is not whole.
pub fn decode(input: &mut &[u8], depth: usize) -> io::Result<Option<Reply>> {
    let broken = || io::Error::new(io::ErrorKind::InvalidData, "no reply of Redis");
    let mut rest = *input;
    let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let (line, behind) = rest.split_at(end);
    rest = behind.get(2..).unwrap_or(&[]);
    let (kind, text) = line.split_first().ok_or_else(broken)?;
    let text = std::str::from_utf8(text).map_err(|_| broken())?;
    let length = || match text {
        "-1" => Ok(None),
        _ => text.parse::<usize>().map(Some).map_err(|_| broken()),
    };
    let reply = match kind {
        b'+' | b':' => Reply::Done,
        b'-' => return Err(io::Error::other(text.to_string())),
        b'$' => match length()? {
            None => Reply::Nil,
            Some(len) if len > REPLY_MAX => return Err(broken()),
            Some(len) => {
                let Some((bytes, behind)) = rest.split_at_checked(len + 2) else { return Ok(None) };
                rest = behind;
                Reply::Bytes(bytes.strip_suffix(b"\r\n").ok_or_else(broken)?.to_vec())
            }
        },
        b'*' => match length()? {
            None => Reply::Nil,
            Some(count) if count > ELEMENTS_MAX || depth == 0 => return Err(broken()),
            Some(count) => {
                let mut replies = Vec::new();
                for _ in 0..count {
                    let Some(reply) = decode(&mut rest, depth - 1)? else { return Ok(None) };
                    replies.push(reply);
                }
                Reply::Many(replies)
            }
        },
        _ => return Err(broken()),
    };
    *input = rest;
    Ok(Some(reply))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn commands_and_replies_are_those_of_the_protocol() {
        let mut out = Vec::new();
        encode(&[b"RPUSH", b"list", b"\r\n"], &mut out);
        assert_eq!(out, b"*3\r\n$5\r\nRPUSH\r\n$4\r\nlist\r\n$2\r\n\r\n\r\n");
        let bytes = b":3\r\n$-1\r\n$2\r\n\r\n\r\n*2\r\n$1\r\na\r\n$-1\r\n*-1\r\n+OK\r\n";
        let mut rest = bytes.as_slice();
        let mut next = || decode(&mut rest, 2).unwrap().unwrap();
        assert_eq!((next(), next()), (Reply::Done, Reply::Nil));
        assert_eq!(next().elements(), [b"\r\n"]);
        assert_eq!(next().elements(), [b"a"]);
        assert_eq!((next(), next()), (Reply::Nil, Reply::Done));
        assert_eq!(decode(&mut rest, 2).unwrap(), None);
        assert_eq!(
            decode(&mut b"-no such thing\r\n".as_slice(), 2).unwrap_err().to_string(),
            "no such thing"
        );
    }

    const WHOLE: &[u8] = b"*2\r\n$3\r\nabc\r\n$1\r\nx\r\n";

    proptest! {
        #[test]
        fn arbitrary_and_cut_replies_never_panic(
            mut bytes in prop::collection::vec(prop::sample::select(b"*$:+-0129\r\n".to_vec()), 0..60),
            cut in 0usize..30,
        ) {
            let _ = decode(&mut bytes.as_slice(), 2);
            bytes = WHOLE.to_vec();
            bytes.truncate(cut);
            prop_assert_eq!(decode(&mut bytes.as_slice(), 2).unwrap().is_some(), cut >= WHOLE.len());
        }
    }
}
