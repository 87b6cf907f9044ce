//! One TCP connection and its bounded write buffer.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use types::{Address, ConnId};

use crate::inbox;
use crate::secure::{Progress, SEALED_READ, Secure};

/// Where a connection is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Asked for, no answer yet.
    Connecting,
    /// The transport is there, TLS is not yet: the node of an accepted connection knows nothing of
    /// it.
    Handshaking,
    /// Both ways usable.
    Open,
    /// The node is done with it: what is pending is written, what comes in is thrown away until
    /// the other side closes too. (Closing with unread bytes would send a reset, which may destroy
    /// our last words on their way.)
    Closing,
}

pub(crate) struct Conn {
    pub stream: TcpStream,
    pub host: usize,
    pub id: ConnId,
    /// Distinguishes this from later connections in the same slot.
    pub serial: u64,
    pub accepted: bool,
    /// Where it comes from, if it was accepted.
    pub address: Option<Address>,
    /// The node has written to it.
    pub written: bool,
    pub phase: Phase,
    /// There may be bytes to read (edge-triggered: remembered until read empty).
    pub readable: bool,
    /// The end of the stream or an error has been reported: a short read is not the last word.
    pub hangup: bool,
    /// In the loop's ready queue.
    pub queued: bool,
    /// In the list of connections to flush after the current call.
    pub dirty: bool,
    /// The node does not want bytes now; in its host's list of paused connections.
    pub paused: bool,
    /// The node has been told that the other side leaves much unread.
    pub crowded: bool,
    /// What comes has stamps.
    pub stamped: bool,
    /// What was there when the node wanted no bytes may still be: it came in when the node took it, or
    /// whoever is held back would get ahead of others by that.
    pub held_back: bool,
    /// How long what was read last had waited, ns, where the kernel stamps it.
    pub waited_ns: Option<u64>,
    pub out: WriteBuffer,
    /// Everything on it is sealed.
    pub secure: Option<Box<Secure>>,
}

/// Outcome of one read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Incoming {
    Bytes(usize),
    Nothing,
    /// Clean end of the stream.
    Ended,
    Failed,
}

impl Conn {
    /// One read of clear bytes, at most so many (and what completes a record that has begun);
    /// keeps `readable` true if there may be more. `sealed` is room for what they are before TLS has
    /// opened it.
    pub fn read(&mut self, buffer: &mut [u8], sealed: &mut [u8], most: usize) -> Incoming {
        let Some(mut secure) = self.secure.take() else {
            return self.read_raw(first(buffer, most));
        };
        let sealed = first(sealed, most);
        let incoming = self.read_secure(&mut secure, buffer, sealed);
        self.secure = Some(secure);
        incoming
    }

    fn read_secure(
        &mut self,
        secure: &mut Secure,
        buffer: &mut [u8],
        sealed: &mut [u8],
    ) -> Incoming {
        match secure.clear(buffer) {
            None => return Incoming::Ended,
            Some(0) => {}
            Some(opened) => return Incoming::Bytes(opened),
        }
        let room = sealed.len().min(SEALED_READ);
        let incoming = self.read_raw(sealed.get_mut(..room).unwrap_or(&mut []));
        let Incoming::Bytes(len) = incoming else { return incoming };
        let progress = secure.open(sealed.get(..len).unwrap_or(&[]), buffer);
        secure.drain(&mut self.out);
        match progress {
            Progress::Broken => Incoming::Failed,
            Progress::Opened(0) if secure.is_ended() => Incoming::Ended,
            Progress::Opened(0) => Incoming::Nothing,
            Progress::Opened(opened) => {
                // The end may have come with them.
                self.readable |= secure.is_ended();
                Incoming::Bytes(opened)
            }
        }
    }

    /// One read of what the socket has, whatever it is.
    pub fn read_raw(&mut self, buffer: &mut [u8]) -> Incoming {
        loop {
            let read = match self.stamped {
                true => inbox::read_stamped(&self.stream, buffer),
                false => self.stream.read(buffer).map(|n| (n, None)),
            };
            return match read {
                Ok((0, _)) => Incoming::Ended,
                Ok((n, waited)) => {
                    self.waited_ns = waited.filter(|_| !self.held_back);
                    // epoll(7): a short read means empty, unless the end has been announced.
                    self.readable = n == buffer.len() || self.hangup;
                    self.held_back &= n == buffer.len();
                    Incoming::Bytes(n)
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    (self.readable, self.held_back) = (false, false);
                    Incoming::Nothing
                }
                Err(_) => Incoming::Failed,
            };
        }
    }

    /// Takes all of `bytes` for writing, sealed if all is; or nothing and false when they don't
    /// fit.
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        self.written = true;
        let Some(secure) = &mut self.secure else { return self.out.push(bytes) };
        let fits = self.out.has_room(secure.sealed_len(bytes.len()));
        if fits {
            secure.seal(bytes, &mut self.out);
        }
        fits
    }

    /// Writes what is pending as far as the kernel takes it.
    pub fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush(&mut self.stream)
    }
}

/// The first bytes of a buffer, at least one and at most so many.
fn first(buffer: &mut [u8], most: usize) -> &mut [u8] {
    let len = buffer.len().min(most.max(1));
    buffer.get_mut(..len).unwrap_or_default()
}

/// Bytes waiting for the kernel, at most `max` of them.
pub(crate) struct WriteBuffer {
    bytes: Vec<u8>,
    head: usize,
    max: usize,
}

impl WriteBuffer {
    pub fn new(max: usize) -> WriteBuffer {
        WriteBuffer { bytes: Vec::new(), head: 0, max }
    }

    pub fn len(&self) -> usize {
        assert!(self.head <= self.bytes.len(), "only what is there was written");
        self.bytes.len() - self.head
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn has_room(&self, more: usize) -> bool {
        self.len() + more <= self.max
    }

    /// Takes all of `bytes`, or nothing and false when they don't fit.
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        let fits = self.has_room(bytes.len());
        if fits {
            self.append(bytes);
            assert!(self.len() <= self.max, "what waits is bounded");
        }
        fits
    }

    /// Takes all of `bytes`, for whose room the caller answers.
    pub fn append(&mut self, bytes: &[u8]) {
        let waiting = self.len();
        if self.head > 0 && self.bytes.len() + bytes.len() > self.bytes.capacity() {
            self.bytes.drain(..self.head);
            self.head = 0;
        }
        self.bytes.extend_from_slice(bytes);
        assert!(self.len() == waiting + bytes.len(), "what waits is kept, in order");
    }

    pub fn flush(&mut self, to: &mut impl Write) -> std::io::Result<()> {
        while let Some(pending) = self.bytes.get(self.head..).filter(|bytes| !bytes.is_empty()) {
            match to.write(pending) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => self.head += n.min(pending.len()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.bytes.clear();
        self.head = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Takes what `room` says at each write, then would block once.
    struct Stingy {
        room: Vec<usize>,
        taken: Vec<u8>,
    }

    impl Write for Stingy {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let n = self.room.pop().unwrap_or(0).min(bytes.len());
            if n == 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
            self.taken.extend_from_slice(&bytes[..n]);
            Ok(n)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    proptest! {
        #[test]
        fn keeps_every_byte_in_order_and_its_bound(
            steps in vec((0usize..40, vec(0usize..20, 0..4)), 1..50),
        ) {
            let mut buffer = WriteBuffer::new(100);
            let mut to = Stingy { room: Vec::new(), taken: Vec::new() };
            let mut given = Vec::new();
            for (n, room) in steps {
                let bytes: Vec<u8> = (0..n).map(|i| (given.len() + i) as u8).collect();
                if buffer.push(&bytes) {
                    given.extend_from_slice(&bytes);
                } else {
                    prop_assert!(buffer.len() + n > 100);
                }
                prop_assert!(buffer.len() <= 100);
                to.room = room;
                prop_assert!(buffer.flush(&mut to).is_ok());
                prop_assert_eq!(to.taken.len() + buffer.len(), given.len());
            }
            to.room = vec![1; 200];
            prop_assert!(buffer.flush(&mut to).is_ok());
            prop_assert!(buffer.is_empty());
            prop_assert_eq!(to.taken, given);
        }
    }
}
