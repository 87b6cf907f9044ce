//! The plane of the socket alone: datagrams wait until a few are together or the turn is over, and leave by one call
//! (`sendmmsg`), which saves the way into the kernel for all but one of them.

use std::io::{self, ErrorKind, IoSlice};
use std::net::{SocketAddr, UdpSocket};

use rustix::net::addr::SocketAddrArg;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};

use super::PlaneFigures;
use super::clone::by_socket;

/// Datagrams of one call at most.
const BATCH: usize = 32;
/// Bytes of a datagram that waits; a longer one leaves at once, after those that wait.
const ROOM: usize = 2_048;

/// Datagrams of one socket that wait.
pub(super) struct Outbox {
    bytes: Box<[u8]>,
    /// Receiver and length of each.
    waiting: Vec<(SocketAddr, usize)>,
    figures: PlaneFigures,
}

impl Default for Outbox {
    fn default() -> Outbox {
        Outbox {
            bytes: vec![0; BATCH * ROOM].into_boxed_slice(),
            waiting: Vec::with_capacity(BATCH),
            figures: PlaneFigures::default(),
        }
    }
}

impl Outbox {
    /// See [`super::DataPlane::send`].
    ///
    /// # Errors
    /// See there.
    pub fn send(&mut self, socket: &UdpSocket, to: SocketAddr, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() > ROOM {
            let earlier = self.flush(socket);
            return by_socket(&mut self.figures, socket, to, bytes).and(earlier);
        }
        let at = self.waiting.len() * ROOM;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.waiting.push((to, bytes.len()));
        if self.waiting.len() == BATCH { self.flush(socket) } else { Ok(()) }
    }

    /// See [`super::DataPlane::flush`].
    ///
    /// # Errors
    /// The socket's about the last datagram that it refused; the others have left.
    pub fn flush(&mut self, socket: &UdpSocket) -> io::Result<()> {
        let outcome = match self.waiting[..] {
            [] => return Ok(()),
            // The shorter call for one.
            [(to, len)] => by_socket(&mut self.figures, socket, to, &self.bytes[..len]),
            _ => self.send_all(socket),
        };
        self.waiting.clear();
        outcome
    }

    fn send_all(&mut self, socket: &UdpSocket) -> io::Result<()> {
        let none = (SocketAddr::from(([0, 0, 0, 0], 0)), 0);
        let of = |at: usize| self.waiting.get(at).copied().unwrap_or(none);
        let to: [_; BATCH] = std::array::from_fn(|at| of(at).0.as_any());
        let slices: [_; BATCH] =
            std::array::from_fn(|at| [IoSlice::new(&self.bytes[at * ROOM..][..of(at).1])]);
        let mut beside: [_; BATCH] = std::array::from_fn(|_| SendAncillaryBuffer::default());
        let mut beside = beside.iter_mut();
        let mut heads: [_; BATCH] = std::array::from_fn(|at| {
            let none = beside.next().expect("as many as there are heads");
            MMsgHdr::new_with_addr(&to[at], &slices[at], none)
        });
        let (mut from, end, mut outcome) = (0, self.waiting.len(), Ok(()));
        while from < end {
            match sendmmsg(socket, &mut heads[from..end], SendFlags::empty()) {
                Ok(sent) => {
                    self.figures.carriers += 1;
                    self.figures.copies += sent as u64;
                    from += sent;
                }
                Err(error) => {
                    let error = io::Error::from(error);
                    // What it says is of the first of those left, or of an earlier datagram's receiver.
                    if error.kind() != ErrorKind::Interrupted {
                        self.figures.dropped += 1;
                        from += 1;
                        outcome = Err(error);
                    }
                }
            }
        }
        outcome
    }

    /// What it did so far.
    pub fn figures(&self) -> PlaneFigures {
        self.figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket() -> (UdpSocket, SocketAddr) {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        socket.set_nonblocking(true).expect("a switch");
        let at = socket.local_addr().expect("bound");
        (socket, at)
    }

    fn received(socket: &UdpSocket) -> Vec<Vec<u8>> {
        let mut bytes = [0; 65_536];
        let one = || socket.recv(&mut bytes).ok().map(|len| bytes[..len].to_vec());
        std::iter::from_fn(one).collect()
    }

    #[test]
    fn each_receiver_gets_its_own_in_order_whatever_waits_together() {
        for count in [1, 2, BATCH - 1, BATCH, BATCH + 1, 3 * BATCH + 7] {
            let (mut outbox, (from, _)) = (Outbox::default(), socket());
            let receivers = [socket(), socket(), socket()];
            let mut sent = vec![Vec::new(); receivers.len()];
            for number in 0..count {
                let turn = number % receivers.len();
                // One that is too long for a place among the others.
                let len = if number % 11 == 5 { ROOM + 1 } else { number * 13 % 1_400 };
                let bytes = vec![number as u8; len];
                outbox.send(&from, receivers[turn].1, &bytes).expect("sent");
                sent[turn].push(bytes);
            }
            outbox.flush(&from).expect("sent");
            for ((receiver, _), sent) in receivers.iter().zip(&sent) {
                assert_eq!(&received(receiver), sent, "{count}");
            }
            assert_eq!(outbox.figures().copies, count as u64);
            outbox.flush(&from).expect("nothing waits");
            assert!(receivers.iter().all(|(receiver, _)| received(receiver).is_empty()));
        }
    }

    #[test]
    fn one_that_is_refused_costs_no_other() {
        let (mut outbox, (from, _), (to, at)) = (Outbox::default(), socket(), socket());
        // A socket of IPv4 has no way to IPv6.
        let nowhere = SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, 9));
        for bytes in [&b"a"[..], b"b", b"c"] {
            outbox.send(&from, nowhere, b"no").expect("waits");
            outbox.send(&from, at, bytes).expect("waits");
        }
        outbox.flush(&from).expect_err("three were refused");
        assert_eq!(received(&to), [b"a", b"b", b"c"]);
        let PlaneFigures { copies, dropped, .. } = outbox.figures();
        assert_eq!((copies, dropped), (3, 3));
    }
}
