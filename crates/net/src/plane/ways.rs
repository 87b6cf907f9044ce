//! By which interface and to which hardware address packets to an address go, as the kernel has it.
//!
//! Asked over rtnetlink: the route, the neighbour, the interface. Answers are the kernel's of this moment;
//! whoever keeps them asks again now and then.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

const NEWLINK: u16 = 16;
const GETLINK: u16 = 18;
const NEWROUTE: u16 = 24;
const GETROUTE: u16 = 26;
const NEWNEIGH: u16 = 28;
const GETNEIGH: u16 = 30;
const ERROR: u16 = 2;
const REQUEST: u16 = 1;
/// Attributes, by the messages that have them.
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PREFSRC: u16 = 7;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// States of a neighbour whose hardware address is known: reachable, stale, delay, probe, noarp, permanent.
const KNOWN: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;
const ARPHRD_ETHER: u16 = 1;
const ARPHRD_LOOPBACK: u16 = 772;
const ARPHRD_NONE: u16 = 0xFFFE;
const IFF_UP: u32 = 1;

/// Bytes of a message's header.
const HEADER: usize = 16;

/// What stands before the IP header on an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LinkLayer {
    /// An Ethernet header.
    Ethernet,
    /// An Ethernet header with addresses of zeros.
    Loopback,
    /// No header: a packet begins with its IP header.
    Bare,
}

impl LinkLayer {
    /// Bytes of the header.
    pub fn bytes(self) -> usize {
        match self {
            LinkLayer::Ethernet | LinkLayer::Loopback => 14,
            LinkLayer::Bare => 0,
        }
    }
}

/// An interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Interface {
    pub index: u32,
    pub name: String,
    pub link: LinkLayer,
    pub address: [u8; 6],
    pub mtu: u32,
    pub is_up: bool,
}

/// How to get to an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Way {
    pub interface: u32,
    /// The hardware address of the next hop; zeros where the interface has none.
    pub hardware: [u8; 6],
    /// The address that packets come from unless their socket has one.
    pub source: IpAddr,
}

/// Asks the kernel.
pub(crate) struct Ways {
    socket: OwnedFd,
    serial: u32,
    buffer: Vec<u8>,
    interfaces: Vec<Interface>,
}

impl Ways {
    /// A socket to ask over.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open() -> io::Result<Ways> {
        let flags = SocketFlags::CLOEXEC;
        let kind = SocketType::RAW;
        let socket = socket_with(AddressFamily::NETLINK, kind, flags, None)?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 0))?;
        rustix::net::connect(&socket, &SocketAddrNetlink::new(0, 0))?;
        // Answers are there when a request has been sent; nothing is waited for longer.
        let patience = Some(std::time::Duration::from_millis(200));
        rustix::net::sockopt::set_socket_timeout(
            &socket,
            rustix::net::sockopt::Timeout::Recv,
            patience,
        )?;
        Ok(Ways { socket, serial: 0, buffer: vec![0; 16 << 10], interfaces: Vec::new() })
    }

    /// An interface, as it was when it was first asked for.
    ///
    /// # Errors
    /// The kernel's; a kind of interface that no data plane knows.
    pub fn interface(&mut self, index: u32) -> io::Result<&Interface> {
        if let Some(at) = self.interfaces.iter().position(|known| known.index == index) {
            return Ok(&self.interfaces[at]);
        }
        let found = self.look(index)?;
        self.interfaces.push(found);
        Ok(&self.interfaces[self.interfaces.len() - 1])
    }

    /// Forgets what is known of interfaces.
    pub fn forget(&mut self) {
        self.interfaces.clear();
    }

    fn look(&mut self, index: u32) -> io::Result<Interface> {
        let mut body = [0; 16];
        body[4..8].copy_from_slice(&index.to_ne_bytes());
        let answer = self.ask(GETLINK, NEWLINK, &body, None)?;
        let (head, attributes) = answer.split_at_checked(16).ok_or_else(short)?;
        let number = |at: usize| u32_at(head, at);
        let link = match u16::from_ne_bytes([head[2], head[3]]) {
            ARPHRD_ETHER => LinkLayer::Ethernet,
            ARPHRD_LOOPBACK => LinkLayer::Loopback,
            ARPHRD_NONE => LinkLayer::Bare,
            other => {
                let why =
                    format!("interface {index} is of kind {other}: neither Ethernet nor bare IP");
                return Err(io::Error::new(io::ErrorKind::Unsupported, why));
            }
        };
        let mut found = Interface {
            index,
            name: String::new(),
            link,
            address: [0; 6],
            mtu: 0,
            is_up: number(8) & IFF_UP != 0,
        };
        for (kind, value) in Attributes(attributes) {
            match kind {
                IFLA_ADDRESS if value.len() == 6 => found.address.copy_from_slice(value),
                IFLA_MTU => found.mtu = u32_at(value, 0),
                IFLA_IFNAME => {
                    let name = value.split(|byte| *byte == 0).next().unwrap_or(&[]);
                    found.name = String::from_utf8_lossy(name).into_owned();
                }
                _ => {}
            }
        }
        Ok(found)
    }

    /// The way to an address; `None` while the next hop's hardware address is not known, which it is a
    /// moment after something has been sent there.
    ///
    /// # Errors
    /// The kernel's; an address that only a socket can send to (multicast, broadcast).
    pub fn to(&mut self, to: IpAddr) -> io::Result<Option<Way>> {
        let (interface, hop, source) = self.route(to)?;
        let mut way = Way { interface, hardware: [0; 6], source };
        match self.interface(interface)?.link {
            LinkLayer::Loopback | LinkLayer::Bare => Ok(Some(way)),
            LinkLayer::Ethernet => match self.neighbour(interface, hop) {
                Ok(Some(hardware)) => {
                    way.hardware = hardware;
                    Ok(Some(way))
                }
                _ => Ok(None),
            },
        }
    }

    /// Number of the interface by which packets to an address leave.
    ///
    /// # Errors
    /// As [`Ways::to`].
    pub fn interface_to(&mut self, to: IpAddr) -> io::Result<u32> {
        self.route(to).map(|(interface, ..)| interface)
    }

    /// Interface, next hop and source of packets to an address.
    fn route(&mut self, to: IpAddr) -> io::Result<(u32, IpAddr, IpAddr)> {
        let (family, bytes) = raw(to);
        let mut body = [0; 12];
        (body[0], body[1]) = (family, if to.is_ipv4() { 32 } else { 128 });
        let answer = self.ask(GETROUTE, NEWROUTE, &body, Some((RTA_DST, &bytes[..length(to)])))?;
        let (head, attributes) = answer.split_at_checked(12).ok_or_else(short)?;
        // RTN_UNICAST and RTN_LOCAL.
        if head[7] != 1 && head[7] != 2 {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "not a unicast address"));
        }
        let unspecified = if to.is_ipv4() {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED)
        } else {
            Ipv6Addr::UNSPECIFIED.into()
        };
        let (mut interface, mut hop, mut source) = (0, to, unspecified);
        for (kind, value) in Attributes(attributes) {
            match kind {
                RTA_OIF => interface = u32_at(value, 0),
                RTA_GATEWAY => hop = address(value).unwrap_or(hop),
                RTA_PREFSRC => source = address(value).unwrap_or(source),
                _ => {}
            }
        }
        Ok((interface, hop, source))
    }

    fn neighbour(&mut self, interface: u32, hop: IpAddr) -> io::Result<Option<[u8; 6]>> {
        let (family, bytes) = raw(hop);
        let mut body = [0; 12];
        body[0] = family;
        body[4..8].copy_from_slice(&interface.to_ne_bytes());
        let answer = self.ask(GETNEIGH, NEWNEIGH, &body, Some((NDA_DST, &bytes[..length(hop)])))?;
        let (head, attributes) = answer.split_at_checked(12).ok_or_else(short)?;
        if u16::from_ne_bytes([head[8], head[9]]) & KNOWN == 0 {
            return Ok(None);
        }
        let hardware = Attributes(attributes).find(|(kind, _)| *kind == NDA_LLADDR);
        Ok(hardware.and_then(|(_, value)| value.try_into().ok()))
    }

    /// Sends a request; the body of the answer, without its header.
    fn ask(
        &mut self,
        kind: u16,
        answer: u16,
        body: &[u8],
        attribute: Option<(u16, &[u8])>,
    ) -> io::Result<&[u8]> {
        self.serial = self.serial.wrapping_add(1);
        let mut request = [0u8; 64];
        let mut end = HEADER;
        request[end..end + body.len()].copy_from_slice(body);
        end += body.len();
        if let Some((kind, value)) = attribute {
            request[end..end + 2].copy_from_slice(&(4 + value.len() as u16).to_ne_bytes());
            request[end + 2..end + 4].copy_from_slice(&kind.to_ne_bytes());
            request[end + 4..end + 4 + value.len()].copy_from_slice(value);
            end += 4 + value.len();
        }
        request[..4].copy_from_slice(&(end as u32).to_ne_bytes());
        request[4..6].copy_from_slice(&kind.to_ne_bytes());
        request[6..8].copy_from_slice(&REQUEST.to_ne_bytes());
        request[8..12].copy_from_slice(&self.serial.to_ne_bytes());
        send(&self.socket, &request[..end], SendFlags::empty())?;
        // An answer to an earlier request may still be there.
        for _ in 0..8 {
            let (len, _) = recv(&self.socket, &mut self.buffer[..], RecvFlags::empty())?;
            let head = self.buffer.get(..HEADER.min(len)).unwrap_or(&[]);
            if head.len() < HEADER || u32_at(head, 8) != self.serial {
                continue;
            }
            let end = (u32_at(head, 0) as usize).min(len);
            let found = u16::from_ne_bytes([head[4], head[5]]);
            let body = HEADER..end.max(HEADER);
            if found == ERROR {
                let code = self.buffer.get(body).map_or(0, |body| u32_at(body, 0) as i32);
                return Err(io::Error::from_raw_os_error(-code));
            }
            if found == answer {
                return Ok(&self.buffer[body]);
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

fn short() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer is cut short")
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

fn length(ip: IpAddr) -> usize {
    if ip.is_ipv4() { 4 } else { 16 }
}

/// Family and bytes of an address, the latter in front.
fn raw(ip: IpAddr) -> (u8, [u8; 16]) {
    let mut bytes = [0; 16];
    match ip {
        IpAddr::V4(ip) => bytes[..4].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => bytes = ip.octets(),
    }
    let family = if ip.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    (family.as_raw() as u8, bytes)
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from);
    v4.or_else(|| <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from))
}

/// Kind and value of each attribute, up to the first that is cut short.
struct Attributes<'a>(&'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        let (head, _) = self.0.split_first_chunk::<4>()?;
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let kind = u16::from_ne_bytes([head[2], head[3]]);
        let value = self.0.get(4..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        // The two highest bits say how the value is written.
        Some((kind & 0x3FFF, value))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_way_to_oneself_is_the_loopback_interface() {
        let mut ways = Ways::open().expect("a socket");
        let found = ways.to(Ipv4Addr::LOCALHOST.into()).expect("an answer").expect("a way");
        assert_eq!(found.source, IpAddr::from(Ipv4Addr::LOCALHOST));
        let interface = ways.interface(found.interface).expect("known");
        assert_eq!((&interface.name[..], interface.link), ("lo", LinkLayer::Loopback));
        assert!(interface.is_up && interface.mtu > 1_500);
        let group: IpAddr = Ipv4Addr::new(224, 0, 0, 251).into();
        assert!(!matches!(ways.to(group), Ok(Some(_))), "a group has no way");
        assert!(ways.interface(u32::MAX).is_err());
    }

    proptest! {
        #[test]
        fn attributes_of_any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Attributes(&bytes).count() <= bytes.len());
        }
    }
}
