//! Datagrams taken off a socket by batches, and when the kernel took them off the wire.
//!
//! One call (`recvmmsg`) takes what waits, at most [`BATCH`] packets. A packet may be several datagrams of
//! one sender that the kernel has put together (`UDP_GRO`): they are handed on one by one. A call that
//! takes less than it asked for has emptied the socket, which spares the call that only says so.
//!
//! Stamps (`SO_TIMESTAMPNS`) are CLOCK_REALTIME of the moment at which the packet came out of the driver; of a
//! TCP stream, that of the last packet whose bytes were read. For the bytes themselves nothing changes.

#![allow(unsafe_code)]

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};

use rustix::time::{ClockId, clock_gettime};
use types::Channel;

use crate::io::Io;

/// Packets that one call takes at most.
pub(crate) const BATCH: usize = 8;
/// Room for a packet: the largest there is.
const PACKET: usize = 65_536;
/// Room for what the kernel says beside a packet: a stamp and a length.
const CONTROL: usize = 64;
/// Stamps that are further from now are of a clock that was set in between.
const WAIT_MAX_NS: u64 = 1_000_000_000;

/// Room for control messages, aligned as they are.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// What stands beside a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Beside {
    /// CLOCK_REALTIME, ns; 0: unknown.
    stamp: u64,
    /// Bytes of each datagram but the last; 0: the packet is one.
    segment: usize,
}

#[derive(Clone, Copy)]
struct Packet {
    len: usize,
    from: SocketAddr,
    beside: Beside,
}

/// A datagram in the inbox.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Arrived {
    /// Where its bytes are.
    pub bytes: Range<usize>,
    /// Who sent it.
    pub from: SocketAddr,
    /// How long it has waited for the call that took it, ns; `None`: unknown.
    pub waited_ns: Option<u64>,
}

/// Packets that one call has taken.
pub(crate) struct Inbox {
    bytes: Box<[u8]>,
    packets: [Packet; BATCH],
    count: usize,
    /// The next datagram: its packet, and where it begins there.
    next: (usize, usize),
    /// CLOCK_REALTIME after the call.
    taken_at: u64,
}

impl Default for Inbox {
    fn default() -> Self {
        let from = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
        let none = Packet { len: 0, from, beside: Beside::default() };
        Inbox {
            bytes: vec![0; BATCH * PACKET].into_boxed_slice(),
            packets: [none; BATCH],
            count: 0,
            next: (0, 0),
            taken_at: 0,
        }
    }
}

impl Inbox {
    /// Takes at most `most` packets that wait in a socket, in place of those of the last call; how many.
    ///
    /// # Errors
    /// The socket's: of kind `WouldBlock` where nothing waits.
    pub fn fill(&mut self, socket: &UdpSocket, most: usize) -> io::Result<usize> {
        (self.count, self.next) = (0, (0, 0));
        let most = most.clamp(1, BATCH);
        // SAFETY: all of these are plain numbers and addresses, for which zeros are good values.
        let (mut names, mut heads): ([libc::sockaddr_storage; BATCH], [libc::mmsghdr; BATCH]) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        let mut controls = [Control([0; CONTROL]); BATCH];
        let mut rooms: [libc::iovec; BATCH] =
            [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH];
        for (room, bytes) in rooms.iter_mut().zip(self.bytes.chunks_exact_mut(PACKET)) {
            *room = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        }
        for at in 0..most {
            let head = &mut heads[at].msg_hdr;
            head.msg_name = (&raw mut names[at]).cast();
            head.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            head.msg_iov = &raw mut rooms[at];
            head.msg_iovlen = 1;
            head.msg_control = (&raw mut controls[at]).cast();
            head.msg_controllen = CONTROL as _;
        }
        // SAFETY: `most` heads are filled in; each points to a name, a room and a control of its own, all of
        // which live to the end of this function and have the lengths that the head says.
        let taken = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                heads.as_mut_ptr(),
                most as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        if taken < 0 {
            return Err(io::Error::last_os_error());
        }
        let taken = (taken as usize).min(most);
        let mut stamped = false;
        for at in 0..taken {
            let head = &heads[at];
            let beside = beside(&head.msg_hdr);
            stamped |= beside.stamp != 0;
            let len = (head.msg_len as usize).min(PACKET);
            let from = address(&names[at]).unwrap_or(self.packets[at].from);
            self.packets[at] = Packet { len, from, beside };
        }
        self.taken_at = if stamped { realtime_ns() } else { 0 };
        self.count = taken;
        Ok(taken)
    }

    /// The next datagram of those that were taken.
    pub fn next(&mut self) -> Option<Arrived> {
        let (at, begin) = self.next;
        let packet = self.packets.get(at).filter(|_| at < self.count)?;
        let whole = packet.beside.segment == 0;
        let end = if whole { packet.len } else { (begin + packet.beside.segment).min(packet.len) };
        self.next = if end >= packet.len { (at + 1, 0) } else { (at, end) };
        let start = at * PACKET;
        Some(Arrived {
            bytes: start + begin..start + end,
            from: packet.from,
            waited_ns: waited(packet.beside.stamp, self.taken_at),
        })
    }

    /// Bytes of a datagram.
    pub fn bytes(&self, of: &Arrived) -> &[u8] {
        self.bytes.get(of.bytes.clone()).unwrap_or(&[])
    }
}

/// From a stamp to a later reading of the same clock; `None` where that can't be told.
fn waited(stamp: u64, now: u64) -> Option<u64> {
    if stamp == 0 {
        return None;
    }
    now.checked_sub(stamp).filter(|ns| *ns < WAIT_MAX_NS)
}

/// CLOCK_REALTIME, ns.
fn realtime_ns() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// What the kernel said beside a packet.
fn beside(head: &libc::msghdr) -> Beside {
    let mut found = Beside::default();
    // SAFETY: the kernel has written control messages into the head's room and their length into the head;
    // the macros stay within it.
    let mut at = unsafe { libc::CMSG_FIRSTHDR(head) };
    while !at.is_null() {
        // SAFETY: `at` is a whole header inside the room, aligned as `Control` is; the data behind it has
        // the length that the header says, which is compared before it is read.
        unsafe {
            let (level, kind) = ((*at).cmsg_level, (*at).cmsg_type);
            let has =
                |bytes: usize| (*at).cmsg_len as usize >= libc::CMSG_LEN(bytes as u32) as usize;
            let data = libc::CMSG_DATA(at);
            if (level, kind) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS)
                && has(size_of::<libc::timespec>())
            {
                let time = data.cast::<libc::timespec>().read_unaligned();
                found.stamp = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
            }
            if (level, kind) == (libc::SOL_UDP, libc::UDP_GRO) && has(size_of::<libc::c_int>()) {
                let bytes = data.cast::<libc::c_int>().read_unaligned();
                found.segment = usize::try_from(bytes).unwrap_or(0);
            }
            at = libc::CMSG_NXTHDR(head, at);
        }
    }
    found
}

/// The address that the kernel has written; `None` for a family other than IP's two.
fn address(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: an address of this family has this layout; the storage is large enough and aligned
            // for every one.
            let name = unsafe { *std::ptr::from_ref(name).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(name.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let name = unsafe { *std::ptr::from_ref(name).cast::<libc::sockaddr_in6>() };
            let (ip, port) = (Ipv6Addr::from(name.sin6_addr.s6_addr), u16::from_be(name.sin6_port));
            Some(SocketAddrV6::new(ip, port, name.sin6_flowinfo, name.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// Reads a stream; beside the bytes, how long the last of them waited for this call, ns, if the socket has
/// stamps.
///
/// # Errors
/// The stream's.
pub(crate) fn read_stamped(
    stream: &impl AsFd,
    buffer: &mut [u8],
) -> io::Result<(usize, Option<u64>)> {
    let mut control = Control([0; CONTROL]);
    let mut room = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: plain numbers and addresses, for which zeros are good values.
    let mut head: libc::msghdr = unsafe { std::mem::zeroed() };
    head.msg_iov = &raw mut room;
    head.msg_iovlen = 1;
    head.msg_control = (&raw mut control).cast();
    head.msg_controllen = CONTROL as _;
    // SAFETY: the head points to one room and one control, which live to the end of this function and have
    // the lengths that it says.
    let read = unsafe { libc::recvmsg(stream.as_fd().as_raw_fd(), &raw mut head, 0) };
    if read < 0 {
        return Err(io::Error::last_os_error());
    }
    let stamp = beside(&head).stamp;
    let waited = if stamp == 0 { None } else { waited(stamp, realtime_ns()) };
    Ok((read as usize, waited))
}

/// Has a socket's packets put together where the kernel can do that.
pub(crate) fn put_together(socket: &UdpSocket) -> bool {
    set_option(socket, libc::SOL_UDP, libc::UDP_GRO)
}

/// Has what comes stamped; connections that a listener accepts are as it is.
pub(crate) fn stamp(socket: &impl AsFd) -> bool {
    set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS)
}

fn set_option(socket: &impl AsFd, level: libc::c_int, option: libc::c_int) -> bool {
    let on: libc::c_int = 1;
    // SAFETY: the value is an int, of which address and size are given.
    let set = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    set == 0
}

/// Outcome of one receive.
pub(crate) enum Received {
    /// So many packets; whether the socket is empty now.
    Packets {
        taken: usize,
        drained: bool,
    },
    Skipped,
    Empty,
}

impl Io {
    /// Takes packets off a socket, at most so many.
    pub fn receive(&mut self, index: u32, inbox: &mut Inbox, most: usize) -> Received {
        let Some(Some(udp)) = self.udp.get(index as usize) else { return Received::Empty };
        match inbox.fill(&udp.socket, most) {
            // What a connected socket is told of earlier datagrams cuts a call short, too.
            Ok(taken) => {
                Received::Packets { taken, drained: taken < most && udp.connected.is_none() }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Received::Empty,
            Err(_) => {
                self.counters.datagram_errors.add(1);
                Received::Skipped
            }
        }
    }

    /// Counts a datagram that is handed on.
    pub fn count_arrival(&self, arrived: &Arrived) {
        self.counters.datagrams_in.add(1);
        self.counters.datagram_bytes_in.add(arrived.bytes.len() as u64);
        if let Some(waited) = arrived.waited_ns {
            self.counters.datagrams_stamped.add(1);
            self.counters.datagram_wait_ns.add(waited);
            self.counters.datagram_wait_ns_max.raise(waited);
        }
    }

    /// Hosts with a socket for the overlay, and where that is.
    pub fn overlay_sockets(&self) -> Vec<(usize, SocketAddr)> {
        let overlay = self.udp.iter().flatten().filter(|udp| udp.channel == Channel::OVERLAY);
        overlay.filter_map(|udp| Some((udp.host, udp.socket.local_addr().ok()?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    use super::*;

    fn pair() -> (UdpSocket, UdpSocket) {
        let ear = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let mouth = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        mouth.connect(ear.local_addr().expect("bound")).expect("an address");
        ear.set_nonblocking(true).expect("an option");
        (ear, mouth)
    }

    /// All that waits, by batches of that size; sizes of the batches.
    fn all(ear: &UdpSocket, most: usize, inbox: &mut Inbox) -> (Vec<Vec<u8>>, Vec<usize>) {
        let (mut datagrams, mut batches) = (Vec::new(), Vec::new());
        let until = Instant::now() + Duration::from_millis(200);
        loop {
            match inbox.fill(ear, most) {
                Ok(count) => batches.push(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if Instant::now() > until || !datagrams.is_empty() {
                        return (datagrams, batches);
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => panic!("{error}"),
            }
            while let Some(arrived) = inbox.next() {
                assert!(arrived.from.ip().is_loopback());
                datagrams.push(inbox.bytes(&arrived).to_vec());
            }
        }
    }

    #[test]
    fn what_waits_comes_in_order_by_few_calls_whatever_its_length() {
        let (ear, mouth) = pair();
        let sent: Vec<Vec<u8>> =
            (0..21usize).map(|n| vec![n as u8; [0, 1, 9, 1_400, 9_000][n % 5]]).collect();
        sent.iter().for_each(|bytes| assert!(mouth.send(bytes).is_ok()));
        let mut inbox = Inbox::default();
        let (heard, batches) = all(&ear, BATCH, &mut inbox);
        assert_eq!((heard, &batches[..]), (sent, &[8, 8, 5][..]));
        assert_eq!(inbox.next(), None);
        // No more than is asked for, and the sender's address is its own.
        (0..3).for_each(|n| assert!(mouth.send(&[n]).is_ok()));
        assert_eq!(inbox.fill(&ear, 2).expect("two"), 2);
        let arrived = inbox.next().expect("one");
        assert_eq!(arrived.from, mouth.local_addr().expect("bound"));
        assert_eq!(arrived.waited_ns, None, "nobody asked for stamps");
        assert_eq!(inbox.fill(&ear, 2).expect("one"), 1);
        assert_eq!(inbox.next().map(|of| inbox.bytes(&of).to_vec()), Some(vec![2]));
    }

    #[test]
    fn datagrams_that_were_put_together_are_told_apart_again() {
        let (ear, mouth) = pair();
        if !put_together(&ear) {
            println!("not tested: this kernel puts no datagrams together");
            return;
        }
        // One call of the sender's for all: 10 of 100 bytes and one of 30.
        let bytes: Vec<u8> = (0..1_030u32).map(|n| (n / 100) as u8).collect();
        let size: u16 = 100;
        let mut control = Control([0; CONTROL]);
        let mut room =
            libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        // SAFETY: as in `read_stamped`; the control message is written into room of its own.
        let sent = unsafe {
            let mut head: libc::msghdr = std::mem::zeroed();
            (head.msg_iov, head.msg_iovlen) = (&raw mut room, 1);
            head.msg_control = (&raw mut control).cast();
            head.msg_controllen = libc::CMSG_SPACE(2) as _;
            let first = libc::CMSG_FIRSTHDR(&raw const head);
            (*first).cmsg_level = libc::SOL_UDP;
            (*first).cmsg_type = libc::UDP_SEGMENT;
            (*first).cmsg_len = libc::CMSG_LEN(2) as _;
            libc::CMSG_DATA(first).cast::<u16>().write_unaligned(size);
            libc::sendmsg(mouth.as_raw_fd(), &raw const head, 0)
        };
        assert_eq!(sent, 1_030);
        mouth.send(b"another").expect("sent");
        let (heard, batches) = all(&ear, BATCH, &mut Inbox::default());
        let wanted = bytes.chunks(100).map(<[u8]>::to_vec).chain([b"another".to_vec()]);
        assert_eq!(heard, wanted.collect::<Vec<_>>());
        assert!(batches.iter().sum::<usize>() <= 12, "{batches:?}");
    }

    #[test]
    fn stamps_tell_how_long_a_datagram_and_bytes_of_a_stream_have_waited() {
        const WAIT: Duration = Duration::from_millis(20);
        let (ear, mouth) = pair();
        assert!(stamp(&ear));
        let mut inbox = Inbox::default();
        let wait = |begun: Instant| {
            std::thread::sleep(WAIT);
            begun
        };
        // The kernel begins to stamp what comes a moment after the first socket wants it, and what came before
        // is stamped when it is read.
        let stamped = (0..100).any(|_| {
            mouth.send(b"waits").expect("sent");
            let begun = wait(Instant::now());
            assert_eq!(inbox.fill(&ear, BATCH).expect("one"), 1);
            let waited = inbox.next().and_then(|of| of.waited_ns).expect("a stamp");
            assert!(waited <= begun.elapsed().as_nanos() as u64 + 1_000_000, "{waited}");
            waited >= WAIT.as_nanos() as u64 / 2
        });
        assert!(stamped, "stamps are of when datagrams came");

        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        assert!(stamp(&listener));
        let mut client = TcpStream::connect(listener.local_addr().expect("bound")).expect("there");
        let (stream, _) = listener.accept().expect("a connection");
        let mut buffer = [0; 20];
        client.write_all(b"waits, too").expect("written");
        let begun = wait(Instant::now());
        let (read, waited) = read_stamped(&stream, &mut buffer[..5]).expect("bytes");
        let waited = waited.expect("connections are as their listener");
        assert_eq!((read, &buffer[..5]), (5, &b"waits"[..]));
        assert!(waited <= begun.elapsed().as_nanos() as u64 + 1_000_000, "{waited}");
        assert!(waited >= WAIT.as_nanos() as u64 / 2, "{waited}");
        drop(client);
        assert_eq!(read_stamped(&stream, &mut buffer).expect("the rest").0, 5);
        assert_eq!(read_stamped(&stream, &mut buffer).expect("the end"), (0, None));
    }

    #[test]
    fn a_clock_that_was_set_in_between_tells_nothing() {
        assert_eq!(waited(0, 5), None);
        assert_eq!(waited(7, 5), None);
        assert_eq!(waited(5, 5), Some(0));
        assert_eq!(waited(5, 5 + WAIT_MAX_NS), None);
    }
}
