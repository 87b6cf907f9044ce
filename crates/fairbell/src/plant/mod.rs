//! `fairbell feed serve`, `subscribe` and `generate`: the ticker plant on sockets.
//!
//! Side A of line `n` comes to the port of side A plus `n`, and so does B; where the address is a
//! multicast group, it is joined. Updates go out through a ring in shared memory and as datagrams to
//! whoever asks for symbols. Whoever may reach the port for requests may subscribe: it belongs inside
//! the network that is trusted, and is on the loopback address unless told otherwise.

mod generate;
mod outlet;
mod serve;
mod subscribe;
mod venue;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use types::Nanos;

use host::failure::Failure;

pub use generate::GenerateArgs;
pub use serve::ServeArgs;
pub use subscribe::SubscribeArgs;

pub use generate::run as generate;
pub use serve::run as serve;
pub use subscribe::run as subscribe;

/// Lines a plant may have.
const LINES_MAX: u16 = 64;
/// Bytes asked of the system for what a socket has not read yet.
const RECEIVE_BUFFER: usize = 4 << 20;

/// The time of day: receipt and delivery are compared between processes of one machine.
fn now() -> Nanos {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

fn failed(what: impl std::fmt::Display) -> impl Fn(std::io::Error) -> Failure {
    move |error| Failure::Run(format!("{what}: {error}"))
}

/// The address of a line's side.
fn line_address(base: SocketAddr, line: u16) -> Result<SocketAddr, Failure> {
    let port = base.port().checked_add(line);
    let port = port.ok_or_else(|| Failure::Usage(format!("{base}: no ports for all lines")))?;
    Ok(SocketAddr::new(base.ip(), port))
}

/// A socket that hears an address without waiting; a multicast group is joined.
fn listen(address: SocketAddr) -> Result<UdpSocket, Failure> {
    let open = || {
        let socket = match address.ip() {
            IpAddr::V4(group) if group.is_multicast() => {
                let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, address.port()))?;
                socket.join_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED)?;
                socket
            }
            IpAddr::V6(group) if group.is_multicast() => {
                let socket = host::sockets::udp((Ipv6Addr::UNSPECIFIED, address.port()).into())?;
                // The interface, where the address names one (`[ff15::3%2]:16000`).
                let interface = match address {
                    SocketAddr::V6(address) => address.scope_id(),
                    SocketAddr::V4(_) => 0,
                };
                socket.join_multicast_v6(&group, interface)?;
                socket
            }
            _ => host::sockets::udp(address)?,
        };
        socket.set_nonblocking(true)?;
        // Less than asked for is no reason to refuse.
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER);
        Ok(socket)
    };
    open().map_err(failed(address))
}

/// Waits until one of the sockets can be read, but not longer than this.
fn wait<'s>(sockets: impl Iterator<Item = &'s UdpSocket>, at_most: Duration) {
    let mut fds: Vec<PollFd<'_>> =
        sockets.map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
    let timeout = Timespec {
        tv_sec: at_most.as_secs().min(3_600) as i64,
        tv_nsec: i64::from(at_most.subsec_nanos()),
    };
    // Interrupted or not: the sockets are looked at next.
    let _ = poll(&mut fds, Some(&timeout));
}
