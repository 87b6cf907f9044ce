//! What the frames to one receiver begin with: written and summed once, and copied before each datagram.
//!
//! Only lengths and sums differ from one frame to the next, so a frame costs a copy of 64 bytes, one of the
//! datagram, and the sum of the datagram.

use std::net::{IpAddr, SocketAddr};

use super::table::{fold, sum};
use super::ways::LinkLayer;

const UDP: u8 = 17;
const HOPS: u8 = 64;
/// Bytes of a template: more than the longest header, so that it is always copied whole.
const BYTES: usize = 64;

const _: () = assert!(14 + 40 + 8 <= BYTES);

/// The header of frames to one receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Template {
    /// Place of the interface, for whoever keeps it.
    pub at: usize,
    bytes: [u8; BYTES],
    /// Bytes before the IP header, and those before the datagram.
    link: u8,
    header: u8,
    is_v4: bool,
    /// Sums without lengths: of the IP header, and of the pseudo header and the ports.
    ip: u64,
    udp: u64,
}

impl Template {
    /// For frames from one hardware address and socket to another.
    pub fn new(
        at: usize,
        (link, to, from): (LinkLayer, [u8; 6], [u8; 6]),
        (source, receiver): (SocketAddr, SocketAddr),
    ) -> Template {
        let mut bytes = [0; BYTES];
        if link != LinkLayer::Bare {
            let kind: u16 = if receiver.is_ipv4() { 0x0800 } else { 0x86DD };
            bytes[..6].copy_from_slice(&to);
            bytes[6..12].copy_from_slice(&from);
            bytes[12..14].copy_from_slice(&kind.to_be_bytes());
        }
        let start = link.bytes();
        let rest = &mut bytes[start..];
        let (header, ip, addresses) = match (source.ip(), receiver.ip()) {
            (IpAddr::V4(source), IpAddr::V4(receiver)) => {
                let head = &mut rest[..20];
                // Version and length of the header; never in fragments.
                head[..2].copy_from_slice(&[0x45, 0]);
                head[4..12].copy_from_slice(&[0, 0, 0x40, 0, HOPS, UDP, 0, 0]);
                head[12..16].copy_from_slice(&source.octets());
                head[16..20].copy_from_slice(&receiver.octets());
                (20, sum(head), sum(&head[12..20]))
            }
            (source, receiver) => {
                let six = |ip| match ip {
                    IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
                    IpAddr::V6(ip) => ip.octets(),
                };
                let head = &mut rest[..40];
                head[..4].copy_from_slice(&[0x60, 0, 0, 0]);
                head[6..8].copy_from_slice(&[UDP, HOPS]);
                head[8..24].copy_from_slice(&six(source));
                head[24..40].copy_from_slice(&six(receiver));
                (40, 0, sum(&head[8..40]))
            }
        };
        let udp = &mut rest[header..header + 8];
        udp[..2].copy_from_slice(&source.port().to_be_bytes());
        udp[2..4].copy_from_slice(&receiver.port().to_be_bytes());
        let udp = addresses + sum(&[0, UDP]) + sum(&udp[..4]);
        let header = (start + header + 8) as u8;
        Template { at, bytes, link: start as u8, header, is_v4: receiver.is_ipv4(), ip, udp }
    }

    /// Bytes before the datagram.
    #[inline]
    pub fn header_bytes(&self) -> usize {
        usize::from(self.header)
    }

    /// Bytes before the IP header.
    #[inline]
    pub fn link_bytes(&self) -> usize {
        usize::from(self.link)
    }

    /// Writes a frame with this datagram.
    ///
    /// # Panics
    /// Where header and datagram don't fit the frame, or it has less than 64 bytes.
    #[inline]
    pub fn write(&self, frame: &mut [u8], bytes: &[u8]) {
        let (header, link) = (self.header_bytes(), self.link_bytes());
        frame[..BYTES].copy_from_slice(&self.bytes);
        frame[header..header + bytes.len()].copy_from_slice(bytes);
        let head = &mut frame[..header];
        let udp_length = (8 + bytes.len()) as u16;
        let length = u64::from(u16::from_ne_bytes(udp_length.to_be_bytes()));
        if self.is_v4 {
            let all = (20 + udp_length).to_be_bytes();
            head[link + 2..link + 4].copy_from_slice(&all);
            let check = !fold(self.ip + u64::from(u16::from_ne_bytes(all)));
            head[link + 10..link + 12].copy_from_slice(&check.to_ne_bytes());
        } else {
            head[link + 4..link + 6].copy_from_slice(&udp_length.to_be_bytes());
        }
        // The length is in the pseudo header, too. Of where they came from: what was just written is not at
        // hand yet.
        let check = !fold(self.udp + 2 * length + sum(bytes));
        let check = if check == 0 { 0xFFFF } else { check };
        head[header - 4..header - 2].copy_from_slice(&udp_length.to_be_bytes());
        head[header - 2..].copy_from_slice(&check.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The frame as RFC 768, 791 and 8200 describe it, byte after byte.
    fn plainly(link: LinkLayer, from: SocketAddr, to: SocketAddr, bytes: &[u8]) -> Vec<u8> {
        let ones = |parts: &[&[u8]]| {
            let all = parts.concat();
            let words =
                all.chunks(2).map(|of| u32::from(of[0]) << 8 | u32::from(*of.get(1).unwrap_or(&0)));
            let mut sum: u32 = words.sum();
            while sum >> 16 != 0 {
                sum = (sum & 0xFFFF) + (sum >> 16);
            }
            !(sum as u16)
        };
        let mut frame = match link {
            LinkLayer::Bare => Vec::new(),
            _ => {
                [&[1; 6][..], &[2; 6], if to.is_ipv4() { &[8, 0] } else { &[0x86, 0xDD] }].concat()
            }
        };
        let udp_length = (8 + bytes.len() as u16).to_be_bytes();
        let addresses = match (from.ip(), to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => [from.octets(), to.octets()].concat(),
            (IpAddr::V6(from), IpAddr::V6(to)) => [from.octets(), to.octets()].concat(),
            _ => unreachable!("of one version"),
        };
        if to.is_ipv4() {
            let length = (28 + bytes.len() as u16).to_be_bytes();
            let mut head =
                [&[0x45, 0][..], &length, &[0, 0, 0x40, 0, 64, 17, 0, 0], &addresses].concat();
            let check = ones(&[&head]);
            head[10..12].copy_from_slice(&check.to_be_bytes());
            frame.extend(head);
        } else {
            frame.extend([&[0x60, 0, 0, 0][..], &udp_length, &[17, 64], &addresses].concat());
        }
        let ports = [from.port().to_be_bytes(), to.port().to_be_bytes()].concat();
        let check = ones(&[&addresses, &[0, 17], &udp_length, &ports, &udp_length, &[0, 0], bytes]);
        let check = if check == 0 { 0xFFFF } else { check };
        frame.extend([&ports[..], &udp_length, &check.to_be_bytes(), bytes].concat());
        frame
    }

    proptest! {
        #[test]
        fn frames_are_those_of_the_standards(
            v4 in any::<[[u8; 4]; 2]>(), v6 in any::<[[u8; 16]; 2]>(), ports in any::<[u16; 2]>(),
            is_v4 in any::<bool>(), bare in any::<bool>(),
            lengths in prop::collection::vec(0usize..1_400, 1..4), fill in any::<[u8; 7]>(),
        ) {
            let ip = |at: usize| if is_v4 { IpAddr::from(v4[at]) } else { IpAddr::from(v6[at]) };
            let [from, to] = [0, 1].map(|at| SocketAddr::new(ip(at), ports[at]));
            let link = if bare { LinkLayer::Bare } else { LinkLayer::Ethernet };
            let template = Template::new(0, (link, [1; 6], [2; 6]), (from, to));
            // One frame after another in the same memory.
            let mut frame = vec![0xAA; 2_048];
            for length in lengths {
                let bytes: Vec<u8> = (0..length).map(|at| fill[at % 7] ^ at as u8).collect();
                template.write(&mut frame, &bytes);
                let wanted = plainly(link, from, to, &bytes);
                prop_assert_eq!(template.header_bytes() + length, wanted.len());
                prop_assert_eq!(&frame[..wanted.len()], &wanted[..]);
            }
        }
    }
}
