//! What every command that opens sockets says of them.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{set_ipv6_v6only, set_socket_reuseaddr};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::failure::Failure;

/// Trouble with sockets.
pub fn io(error: std::io::Error) -> Failure {
    Failure::Run(format!("sockets: {error}"))
}

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;
/// Any free port, of whichever address leads to where something is sent.
pub const ANYWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

fn socket(to: SocketAddr, kind: SocketType, flags: SocketFlags) -> std::io::Result<OwnedFd> {
    let family = if to.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    Ok(socket_with(family, kind, flags | SocketFlags::CLOEXEC, None)?)
}

/// A socket bound to `at`; one at `[::]` hears both versions of IP, whatever is usual on the machine.
fn bound(at: SocketAddr, kind: SocketType) -> std::io::Result<OwnedFd> {
    let socket = socket(at, kind, SocketFlags::empty())?;
    if at.is_ipv6() {
        set_ipv6_v6only(&socket, !at.ip().is_unspecified())?;
    }
    if kind == SocketType::STREAM {
        // As the standard library does: a door that is opened again at once is not in use.
        set_socket_reuseaddr(&socket, true)?;
    }
    rustix::net::bind(&socket, &at)?;
    Ok(socket)
}

/// A UDP socket at an address; at `[::]` it hears both versions of IP.
///
/// # Errors
/// The system's.
pub fn udp(at: SocketAddr) -> std::io::Result<UdpSocket> {
    bound(at, SocketType::DGRAM).map(UdpSocket::from)
}

/// A UDP socket at any free port that sends to both versions of IP, or to IPv4 where there is nothing
/// else.
///
/// # Errors
/// The system's.
pub fn udp_anywhere() -> std::io::Result<UdpSocket> {
    udp(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))).or_else(|_| udp(ANYWHERE))
}

/// A door at an address; at `[::]` it is open to both versions of IP.
///
/// # Errors
/// The system's.
pub fn listener(at: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = bound(at, SocketType::STREAM)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}

/// The number of the interface that has an IPv6 address of this machine.
///
/// # Errors
/// None has it; the system does not tell.
pub fn interface_of(ip: Ipv6Addr) -> std::io::Result<u32> {
    let known = std::fs::read_to_string("/proc/net/if_inet6")?;
    let wanted = format!("{:032x}", ip.to_bits());
    let line = known.lines().find(|line| line.starts_with(&wanted));
    let number = line.and_then(|line| line.split_ascii_whitespace().nth(1));
    let number = number.and_then(|number| u32::from_str_radix(number, 16).ok());
    number.ok_or_else(|| std::io::Error::other("no interface of this machine has that address"))
}

/// Where something that participants or operators connect to is: an address and port, or a name and
/// port. Of a name with addresses of both versions of IP the one of IPv4.
///
/// # Errors
/// No address, or a name that has none.
pub fn resolve(text: &str) -> std::io::Result<SocketAddr> {
    use std::net::ToSocketAddrs as _;
    let found: Vec<SocketAddr> = text.to_socket_addrs()?.collect();
    let v4 = found.iter().find(|at| at.is_ipv4());
    v4.or(found.first()).copied().ok_or_else(|| std::io::Error::other("no address"))
}

/// A name or address with a port, as [`resolve`] takes it: an IPv6 address gets brackets.
pub fn with_port(host: &str, port: u16) -> String {
    match host.parse::<Ipv6Addr>() {
        Ok(ip) => format!("[{ip}]:{port}"),
        Err(_) => format!("{host}:{port}"),
    }
}

/// A stream to the first of `ways` that can be had, from whichever address leads there.
///
/// # Errors
/// The last one's, as with [`connect_from`].
pub fn connect_any(ways: &[SocketAddr], patience: Duration) -> std::io::Result<TcpStream> {
    let mut outcome = Err(std::io::Error::other("no address"));
    for at in ways {
        outcome = connect_from(ANYWHERE, *at, patience);
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

/// A stream to `to` that comes from the address `from`, of any port where that is 0; from whichever the
/// system likes when it is the unspecified one, or of another version of IP than `to`.
///
/// # Errors
/// The system's; [`ErrorKind::TimedOut`] when `to` does not answer within `patience`.
pub fn connect_from(
    from: SocketAddr,
    to: SocketAddr,
    patience: Duration,
) -> std::io::Result<TcpStream> {
    let socket = socket(to, SocketType::STREAM, SocketFlags::NONBLOCK)?;
    if !from.ip().is_unspecified() && from.is_ipv6() == to.is_ipv6() {
        rustix::net::bind(&socket, &from)?;
    }
    match rustix::net::connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    let wait = Timespec {
        tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: patience.subsec_nanos().into(),
    };
    if poll(&mut [PollFd::new(&socket, PollFlags::OUT)], Some(&wait))? == 0 {
        return Err(ErrorKind::TimedOut.into());
    }
    rustix::net::sockopt::socket_error(&socket)??;
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_of_all_addresses_hears_both_versions_and_one_of_ipv6_that_alone() {
        for (on, hears) in [("[::]:0", true), ("[::1]:0", false)] {
            let at: SocketAddr = on.parse().expect("an address");
            let (ear, door) = (udp(at).expect("a port"), listener(at).expect("a port"));
            let port = |at: std::io::Result<SocketAddr>| at.expect("bound").port();
            let (port, door_port) = (port(ear.local_addr()), port(door.local_addr()));
            ear.set_read_timeout(Some(Duration::from_secs(5))).expect("an option");
            let from = udp_anywhere().expect("a port");
            for ip in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
                let wanted = hears || ip.is_ipv6();
                let patience = Duration::from_secs(5);
                let opened = connect_from(ANYWHERE, SocketAddr::new(ip, door_port), patience);
                assert_eq!(opened.is_ok(), wanted, "{on} from {ip}");
                from.send_to(b"word", SocketAddr::new(ip, port)).expect("sent");
                if wanted {
                    let (len, seen) = ear.recv_from(&mut [0; 9]).expect("a datagram");
                    assert_eq!((len, seen.ip().to_canonical()), (4, ip));
                }
            }
            ear.set_nonblocking(true).expect("an option");
            assert!(ear.recv_from(&mut [0; 9]).is_err(), "{on}: and nothing else");
        }
    }

    #[test]
    fn an_interface_is_found_by_its_address_and_names_prefer_ipv4() {
        assert!(interface_of(Ipv6Addr::LOCALHOST).expect("the loopback interface") > 0);
        let none = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 1);
        assert!(interface_of(none).is_err(), "an address of documentation");
        assert_eq!(resolve("[::1]:7").expect("an address"), "[::1]:7".parse().expect("the same"));
        assert_eq!(with_port("fd00::21", 7), "[fd00::21]:7");
        assert_eq!(with_port("edge-1", 7), "edge-1:7");
        assert!(resolve("::1").is_err() && resolve("127.0.0.1").is_err(), "no port");
        let ways = ["[::1]:1", "127.0.0.1:1"].map(|at| at.parse().expect("an address"));
        assert!(connect_any(&ways, Duration::from_secs(5)).is_err(), "nobody listens at port 1");
        let door = listener(ANYWHERE).expect("a door");
        let port = door.local_addr().expect("bound").port();
        let ways = [ways[0], SocketAddr::from((Ipv4Addr::LOCALHOST, port))];
        assert!(connect_any(&ways, Duration::from_secs(5)).is_ok(), "the second one");
    }

    #[test]
    fn a_stream_comes_from_the_address_that_was_asked_for() {
        let door = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a door");
        let at = door.local_addr().expect("an address");
        let patience = Duration::from_secs(5);
        for (from, seen) in [
            (Ipv4Addr::new(127, 9, 8, 7), Ipv4Addr::new(127, 9, 8, 7)),
            (Ipv4Addr::UNSPECIFIED, Ipv4Addr::LOCALHOST),
        ] {
            let from = SocketAddr::from((from, 0));
            let _stream = connect_from(from, at, patience).expect("connected");
            assert_eq!(door.accept().expect("somebody").1.ip(), seen);
        }
        drop(door);
        assert!(connect_from(ANYWHERE, at, patience).is_err(), "nobody listens");
    }
}
