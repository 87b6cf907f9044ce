//! When the kernel handed each datagram of a socket to its device: software transmit stamps.
//!
//! `SO_TIMESTAMPING` of Linux: each datagram sent gets a number, from 0, and its stamp comes back over the
//! socket's error queue with that number and without the datagram. The stamp is CLOCK_REALTIME, taken by
//! the device's driver as its last act on the datagram (`SND`); where a driver takes none, when
//! the datagram was given to the queue before the device (`SCHED`).

#![allow(unsafe_code)]

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use types::Nanos;

/// Where stamps are taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// By the driver.
    Sent,
    /// Before the queue of the device.
    Scheduled,
}

impl Taken {
    /// The kernel's name of it.
    pub fn name(self) -> &'static str {
        match self {
            Taken::Sent => "SND",
            Taken::Scheduled => "SCHED",
        }
    }

    fn flags(self) -> u32 {
        let which = match self {
            Taken::Sent => libc::SOF_TIMESTAMPING_TX_SOFTWARE,
            Taken::Scheduled => libc::SOF_TIMESTAMPING_TX_SCHED,
        };
        which
            | libc::SOF_TIMESTAMPING_SOFTWARE
            | libc::SOF_TIMESTAMPING_OPT_ID
            | libc::SOF_TIMESTAMPING_OPT_TSONLY
    }
}

/// One datagram's stamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// Number of the datagram on its socket, from 0 since stamps were asked for.
    pub number: u32,
    /// CLOCK_REALTIME, ns.
    pub realtime_ns: u64,
}

/// Asks for stamps of what is sent on a socket from now on, numbered from 0.
///
/// # Errors
/// The kernel's: it has no such stamps.
pub fn ask(socket: &UdpSocket, taken: Taken) -> io::Result<()> {
    // Numbers begin anew only when they were off.
    set(socket, 0)?;
    set(socket, taken.flags())
}

/// Where this machine takes stamps of what goes from `socket` to its peer `to`: tried with a datagram.
///
/// # Errors
/// The kernel's; [`io::ErrorKind::Unsupported`] when there is no stamp at all.
pub fn kind(socket: &UdpSocket, to: std::net::SocketAddr) -> io::Result<Taken> {
    for taken in [Taken::Sent, Taken::Scheduled] {
        ask(socket, taken)?;
        socket.send_to(b"which", to)?;
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(100) {
            if next(socket)?.is_some() {
                return Ok(taken);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    Err(io::ErrorKind::Unsupported.into())
}

fn set(socket: &UdpSocket, flags: u32) -> io::Result<()> {
    // SAFETY: the option's value is an integer of C, which `flags` is; it lives through the call and
    // its length is told.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            (&raw const flags).cast(),
            size_of_val(&flags) as libc::socklen_t,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The next stamp of a socket; none: none has come yet.
///
/// # Errors
/// The kernel's; [`io::ErrorKind::InvalidData`] for an error that is no stamp.
pub fn next(socket: &UdpSocket) -> io::Result<Option<Stamp>> {
    let mut control = Control([0; CONTROL]);
    let mut none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    // SAFETY: a message header is integers and pointers, for all of which zero is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut none;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = CONTROL as _;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the header points to one empty piece and to `control` with its true length; both outlive
    // the call, and nothing else refers to them during it.
    let outcome = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
    if outcome < 0 {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::WouldBlock => Ok(None),
            _ => Err(error),
        };
    }
    let told = (message.msg_controllen as usize).min(CONTROL);
    match stamp(control.0.get(..told).unwrap_or(&[])) {
        Some(stamp) => Ok(Some(stamp)),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Room for what comes with a stamp.
const CONTROL: usize = 512;

/// Aligned as the kernel wants it.
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// The stamp in control messages: one with three times of which the first is the software's, one
/// with the number.
fn stamp(control: &[u8]) -> Option<Stamp> {
    let (mut number, mut realtime_ns) = (None, None);
    for (level, kind, data) in Messages(control) {
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => {
                let seconds = u64::try_from(i64::from_ne_bytes(*data.first_chunk()?)).ok()?;
                let nanos =
                    u64::try_from(i64::from_ne_bytes(*data.get(8..)?.first_chunk()?)).ok()?;
                realtime_ns = seconds.checked_mul(Nanos::SECOND)?.checked_add(nanos);
            }
            (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR) => {
                // `sock_extended_err`: errno, origin in byte 4, the number in the last of its words.
                let errno = u32::from_ne_bytes(*data.first_chunk()?);
                let origin = *data.get(4)?;
                if errno != libc::ENOMSG as u32 || origin != libc::SO_EE_ORIGIN_TIMESTAMPING {
                    return None;
                }
                number = Some(u32::from_ne_bytes(*data.get(12..)?.first_chunk()?));
            }
            _ => {}
        }
    }
    Some(Stamp { number: number?, realtime_ns: realtime_ns? })
}

/// Control messages: level, kind and data of each, up to the first whose length can't be.
struct Messages<'a>(&'a [u8]);

/// Bytes of a length, a level and a kind.
const HEAD: usize = size_of::<libc::cmsghdr>();

impl<'a> Iterator for Messages<'a> {
    type Item = (i32, i32, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::from_ne_bytes(*self.0.first_chunk()?);
        let level = i32::from_ne_bytes(*self.0.get(HEAD - 8..)?.first_chunk()?);
        let kind = i32::from_ne_bytes(*self.0.get(HEAD - 4..)?.first_chunk()?);
        let data = self.0.get(HEAD..length)?;
        let after = length.checked_next_multiple_of(size_of::<usize>())?;
        self.0 = self.0.get(after..).unwrap_or(&[]);
        Some((level, kind, data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut bytes = (HEAD + data.len()).to_ne_bytes().to_vec();
        bytes.extend_from_slice(&level.to_ne_bytes());
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(data);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    fn whole(number: u32, seconds: i64, nanos: i64) -> Vec<u8> {
        let mut times = [0; 48];
        times[..8].copy_from_slice(&seconds.to_ne_bytes());
        times[8..16].copy_from_slice(&nanos.to_ne_bytes());
        let mut error = [0; 16];
        error[..4].copy_from_slice(&(libc::ENOMSG as u32).to_ne_bytes());
        error[4] = libc::SO_EE_ORIGIN_TIMESTAMPING;
        error[12..].copy_from_slice(&number.to_ne_bytes());
        let mut bytes = message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &times);
        bytes.extend(message(libc::SOL_IP, libc::IP_RECVERR, &error));
        bytes
    }

    #[test]
    fn every_datagram_of_a_socket_has_its_stamp_in_order() {
        let to = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let from = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let at = to.local_addr().expect("an address");
        let taken = kind(&from, at).expect("loopback has stamps");
        // Asked for again they are numbered from 0 again.
        for _ in 0..2 {
            ask(&from, taken).expect("as before");
            let wall = || {
                let since = std::time::UNIX_EPOCH.elapsed().expect("after 1970");
                u64::try_from(since.as_nanos()).expect("before 2554")
            };
            for number in 0..5 {
                let before = wall();
                from.send_to(b"datagram", at).expect("sent");
                let begun = Instant::now();
                let stamp = loop {
                    if let Some(stamp) = next(&from).expect("a stamp") {
                        break stamp;
                    }
                    assert!(begun.elapsed() < Duration::from_secs(5), "no stamp");
                };
                assert_eq!(stamp.number, number);
                assert!((before..=wall()).contains(&stamp.realtime_ns), "{stamp:?} {before}");
            }
        }
        assert_eq!(next(&from).expect("nothing"), None);
    }

    #[test]
    fn what_is_no_stamp_is_none() {
        let good = whole(7, 5, 9);
        let known = Stamp { number: 7, realtime_ns: 5 * Nanos::SECOND + 9 };
        assert_eq!(stamp(&good), Some(known));
        assert_eq!(stamp(&whole(7, -5, 9)), None);
        assert_eq!(stamp(&whole(7, i64::MAX, 9)), None);
        for cut in 0..HEAD + 48 + HEAD + 16 {
            assert_eq!(stamp(&good[..cut]), None, "{cut}");
        }
        // An ICMP error that somebody sent.
        let mut refused = good.clone();
        refused[HEAD + 48 + HEAD + 4] = 2;
        assert_eq!(stamp(&refused), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            at in 0usize..150,
            length in 0usize..300,
        ) {
            let _ = stamp(&bytes);
            let mut bent = whole(1, 2, 3);
            for (place, byte) in bent.iter_mut().skip(at).zip(&bytes).take(9) {
                *place = *byte;
            }
            let _ = stamp(&bent);
            let mut long = whole(1, 2, 3);
            long[..8].copy_from_slice(&length.to_ne_bytes());
            let _ = stamp(&long);
        }
    }
}
