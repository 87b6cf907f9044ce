//! A UDP socket that only sends, to a few peers again and again, each through a socket connected to it.
//!
//! For a datagram to an address that it is not connected to the kernel looks up the way each time: a
//! quarter of what sending over loopback takes. So the socket itself is connected to its first peer
//! and every other one has a socket of its own at the same address and port. What peers send to that
//! port is heard by nobody then.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};

use rustix::net::sockopt::{
    ip_multicast_if, ip_multicast_ttl, ipv6_multicast_hops, ipv6_multicast_if, ipv6_v6only,
    set_ip_multicast_if, set_ip_multicast_ttl, set_ipv6_multicast_hops, set_ipv6_multicast_if,
    set_ipv6_v6only, set_socket_reuseport, set_socket_send_buffer_size, socket_send_buffer_size,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

use crate::io::never_in_fragments;

/// Peers with a socket of their own; a further one takes the place of the one that was first.
pub(crate) const PEERS_MAX: usize = 64;

/// The peers of one socket.
pub(crate) struct Connected {
    /// Where the socket is bound; connecting it may have narrowed that.
    local: SocketAddr,
    /// The one that the socket itself is connected to.
    first: Option<SocketAddr>,
    /// The others, in the order in which they came; none where the system gave no socket.
    others: Vec<(SocketAddr, Option<UdpSocket>)>,
}

impl Connected {
    /// No peer of `socket` yet.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new(socket: &UdpSocket) -> std::io::Result<Connected> {
        // Of sockets of this user alone.
        set_socket_reuseport(socket, true)?;
        let others = Vec::with_capacity(PEERS_MAX);
        Ok(Connected { local: socket.local_addr()?, first: None, others })
    }

    /// Sends to `to` from `socket` or one beside it.
    ///
    /// # Errors
    /// As [`UdpSocket::send_to`], but for a peer's word that it does not listen yet.
    pub fn send(
        &mut self,
        socket: &UdpSocket,
        to: SocketAddr,
        bytes: &[u8],
    ) -> std::io::Result<usize> {
        let known = self.of(socket, to);
        let send = || match known {
            Some(connected) => connected.send(bytes),
            None => socket.send_to(bytes, to),
        };
        match send() {
            // About an earlier datagram; this one has not been sent.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => send(),
            outcome => outcome,
        }
    }

    /// The socket that is connected to a peer.
    fn of<'a>(&'a mut self, socket: &'a UdpSocket, to: SocketAddr) -> Option<&'a UdpSocket> {
        if self.first.is_none() && socket.connect(to).is_ok() {
            self.first = Some(to);
        }
        if self.first == Some(to) {
            return Some(socket);
        }
        let known = self.others.iter().position(|(peer, _)| *peer == to);
        let at = known.unwrap_or_else(|| {
            if self.others.len() == PEERS_MAX {
                self.others.remove(0);
            }
            self.others.push((to, beside(socket, self.local, to).ok()));
            self.others.len() - 1
        });
        self.others.get(at)?.1.as_ref()
    }
}

/// A socket at the same address and port as `socket`, connected to a peer.
fn beside(socket: &UdpSocket, local: SocketAddr, to: SocketAddr) -> std::io::Result<UdpSocket> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let family = if local.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let own = socket_with(family, SocketType::DGRAM, flags, None)?;
    set_socket_reuseport(&own, true)?;
    // The kernel says twice what was asked for.
    set_socket_send_buffer_size(&own, socket_send_buffer_size(socket)? / 2)?;
    never_in_fragments(&own, local.is_ipv6())?;
    if local.is_ipv6() {
        set_ipv6_v6only(&own, ipv6_v6only(socket)?)?;
        set_ipv6_multicast_hops(&own, ipv6_multicast_hops(socket)?)?;
        set_ipv6_multicast_if(&own, ipv6_multicast_if(socket)?)?;
    }
    // A socket of IPv6 that sends to IPv4, too, has these as well.
    set_ip_multicast_ttl(&own, ip_multicast_ttl(socket)?)?;
    set_ip_multicast_if(&own, &ip_multicast_if(socket)?)?;
    bind(&own, &local)?;
    let own = UdpSocket::from(own);
    own.connect(to)?;
    Ok(own)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    use std::time::Duration;

    use super::*;

    fn at(socket: &UdpSocket) -> SocketAddr {
        socket.local_addr().expect("an address")
    }

    fn listening() -> UdpSocket {
        listening_on(Ipv4Addr::LOCALHOST.into())
    }

    fn listening_on(ip: IpAddr) -> UdpSocket {
        let socket = UdpSocket::bind((ip, 0)).expect("a socket");
        socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
        socket
    }

    #[test]
    fn all_peers_hear_the_same_address_whatever_the_socket_is_bound_to() {
        let (v4, v6) = (IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST));
        let (all_v4, all) = (Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into());
        // Where it is bound, and where its peers are.
        for (on, to) in [(v4, [v4; 4]), (all_v4, [v4; 4]), (v6, [v6; 4]), (all, [v4, v6, v6, v4])] {
            let socket = UdpSocket::bind((on, 0)).expect("a socket");
            let port = at(&socket).port();
            let mut connected = Connected::new(&socket).expect("options");
            let peers: Vec<UdpSocket> = to.into_iter().map(listening_on).collect();
            for round in 0..3 {
                for peer in &peers {
                    connected.send(&socket, at(peer), &[round; 9]).expect("sent");
                }
            }
            for peer in &peers {
                for round in 0..3 {
                    let mut bytes = [0; 20];
                    let (len, from) = peer.recv_from(&mut bytes).expect("a datagram");
                    assert_eq!((&bytes[..len], from.port()), (&[round; 9][..], port));
                    assert!(from.ip().is_loopback());
                }
            }
            assert!(
                connected.others.len() == 3 && connected.others.iter().all(|(_, s)| s.is_some())
            );
        }
    }

    #[test]
    fn one_who_listens_only_now_hears_the_next_and_more_peers_than_there_is_room_for_hear_too() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        let mut connected = Connected::new(&socket).expect("options");
        let free = at(&listening());
        (0..5).for_each(|_| drop(connected.send(&socket, free, b"nobody")));
        let peer = UdpSocket::bind(free).expect("the port is free again");
        peer.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
        assert_eq!(connected.send(&socket, free, b"somebody").expect("sent"), 8);
        let mut bytes = [0; 20];
        let len = peer.recv(&mut bytes).expect("a datagram");
        assert_eq!(&bytes[..len], b"somebody");
        let peers: Vec<UdpSocket> = (0..PEERS_MAX + 3).map(|_| listening()).collect();
        for _ in 0..2 {
            for peer in &peers {
                connected.send(&socket, at(peer), b"all").expect("sent");
                assert_eq!(peer.recv(&mut bytes).expect("a datagram"), 3);
            }
        }
        assert_eq!(connected.others.len(), PEERS_MAX);
    }

    #[test]
    fn control_a_stranger_gets_no_socket_beside_one_that_does_not_share() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        let local = socket.local_addr().expect("an address");
        assert!(beside(&socket, local, at(&listening())).is_err());
        Connected::new(&socket).expect("options");
        assert!(beside(&socket, local, at(&listening())).is_ok());
    }
}
