//! Ports for the machines of a venue on loopback.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

/// The first of `count` (1..=1,000) ports in a row that nobody has now, over TCP and UDP and either
/// version of IP, and that no other call in this process is given. They lie below those that the
/// system gives away by itself (32,768..), and where depends on the process, so that tests of two
/// processes seldom ask for the same.
pub fn free_ports(count: u16) -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let own = (std::process::id() % 150) as u16 * 128;
    let mut tried = (0..500).map(|_| {
        let step = NEXT.fetch_add(count, Ordering::Relaxed);
        10_000 + own.wrapping_add(step) % (22_000 - count)
    });
    tried.find(|first| (*first..first + count).all(is_free)).expect("free ports")
}

fn is_free(port: u16) -> bool {
    let of =
        [SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)), (Ipv6Addr::UNSPECIFIED, port).into()];
    let used = |of: io::Result<()>| of.is_err_and(|why| why.kind() == io::ErrorKind::AddrInUse);
    of.iter()
        .all(|at| !used(TcpListener::bind(at).map(drop)) && !used(UdpSocket::bind(at).map(drop)))
}
