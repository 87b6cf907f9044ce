//! What every command that opens sockets says of them.

use std::io::ErrorKind;
use std::net::{SocketAddr, SocketAddrV4, TcpStream};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::failure::Failure;

/// Trouble with sockets.
pub fn io(error: std::io::Error) -> Failure {
    Failure::Run(format!("sockets: {error}"))
}

/// An address as this exchange knows them.
///
/// # Errors
/// An address of another family.
pub fn v4(addr: SocketAddr) -> Result<SocketAddrV4, Failure> {
    match addr {
        SocketAddr::V4(addr) => Ok(addr),
        SocketAddr::V6(addr) => Err(Failure::Run(format!("{addr} is no IPv4 address"))),
    }
}

/// A stream to `to` that comes from the address `from`, of any port where that is 0; from whichever the
/// system likes when it is the unspecified one.
///
/// # Errors
/// The system's; [`ErrorKind::TimedOut`] when `to` does not answer within `patience`.
pub fn connect_from(
    from: SocketAddrV4,
    to: SocketAddrV4,
    patience: Duration,
) -> std::io::Result<TcpStream> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    if !from.ip().is_unspecified() {
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
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn a_stream_comes_from_the_address_that_was_asked_for() {
        let door = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a door");
        let at = v4(door.local_addr().expect("an address")).expect("IPv4");
        let patience = Duration::from_secs(5);
        for (from, seen) in [
            (Ipv4Addr::new(127, 9, 8, 7), Ipv4Addr::new(127, 9, 8, 7)),
            (Ipv4Addr::UNSPECIFIED, Ipv4Addr::LOCALHOST),
        ] {
            let from = SocketAddrV4::new(from, 0);
            let _stream = connect_from(from, at, patience).expect("connected");
            assert_eq!(door.accept().expect("somebody").1.ip(), seen);
        }
        drop(door);
        let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
        assert!(connect_from(any, at, patience).is_err(), "nobody listens");
    }
}
