//! What the transport has proved about the other end of a stream: address and certificate.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IP address: those of IPv6 as they are, those of IPv4 mapped into them (RFC 4291, 2.5.5.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Address(pub u128);

/// The bits above the 32 of a mapped IPv4 address.
const MAPPED: u128 = 0xFFFF << 32;
/// Number of bits above the 32 of a mapped IPv4 address.
const MAPPED_BITS: u8 = 96;

impl Address {
    /// The IPv4 address `bits` (first octet in the highest byte), mapped into IPv6.
    pub const fn v4(bits: u32) -> Address {
        Address(MAPPED | bits as u128)
    }

    /// The 32 bits of an IPv4 address (first octet highest); `None` for an IPv6 address that is not
    /// mapped.
    pub const fn as_v4(self) -> Option<u32> {
        if self.0 >> 32 == MAPPED >> 32 { Some(self.0 as u32) } else { None }
    }

    /// What one owner of addresses can be held to: an IPv4 address, or a /64 of IPv6, since
    /// everybody there has all of them.
    pub const fn source(self) -> Address {
        if self.as_v4().is_some() { self } else { Address(self.0 & !(u64::MAX as u128)) }
    }

    /// The address as the standard library has it; a mapped IPv4 address becomes an IPv4 address.
    #[inline]
    pub const fn ip(self) -> IpAddr {
        match self.as_v4() {
            Some(v4) => IpAddr::V4(Ipv4Addr::from_bits(v4)),
            None => IpAddr::V6(Ipv6Addr::from_bits(self.0)),
        }
    }
}

impl From<IpAddr> for Address {
    #[inline]
    fn from(ip: IpAddr) -> Address {
        match ip {
            IpAddr::V4(v4) => Address::v4(v4.to_bits()),
            IpAddr::V6(v6) => Address(v6.to_bits()),
        }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.ip().fmt(f)
    }
}

/// All addresses that begin with the same bits (CIDR, RFC 4632).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressRange {
    first: u128,
    mask: u128,
}

impl AddressRange {
    /// The addresses whose first `bits` bits are those of `of`; for an IPv4 address, of its 32.
    /// `None` when it has fewer.
    pub fn new(of: Address, bits: u8) -> Option<AddressRange> {
        let bits = match of.as_v4() {
            Some(_) if bits <= 32 => bits + MAPPED_BITS,
            None if bits <= 128 => bits,
            _ => return None,
        };
        let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
        Some(AddressRange { first: of.0 & mask, mask })
    }

    /// Whether `address` is in the range.
    pub const fn contains(&self, address: Address) -> bool {
        address.0 & self.mask == self.first
    }
}

/// A certificate whose holder has shown to have its key, signed by an authority we trust.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Certificate {
    /// SHA-256 of its DER encoding.
    pub fingerprint: [u8; 32],
    /// Common name of its subject; empty when there is not exactly one.
    pub name: Vec<u8>,
}

/// What the transport has proved of the other side.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Remote {
    /// Where it connects from; `None` where addresses mean nothing, as in a simulation.
    pub address: Option<Address>,
    /// Certificate of the other side, whose key it has proved to hold; `None`: it showed none.
    pub certificate: Option<Certificate>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn v4(a: u8, b: u8, c: u8, d: u8) -> Address {
        Address::v4(u32::from_be_bytes([a, b, c, d]))
    }

    #[test]
    fn ranges_hold_what_begins_alike() {
        let ten = AddressRange::new(v4(10, 1, 2, 3), 8).expect("a range");
        assert!(ten.contains(v4(10, 255, 0, 1)) && !ten.contains(v4(11, 1, 2, 3)));
        let one = AddressRange::new(v4(10, 1, 2, 3), 32).expect("a range");
        assert!(one.contains(v4(10, 1, 2, 3)) && !one.contains(v4(10, 1, 2, 2)));
        let every_v4 = AddressRange::new(v4(0, 0, 0, 0), 0).expect("a range");
        assert!(every_v4.contains(v4(192, 0, 2, 1)) && !every_v4.contains(Address(1)));
        let all = AddressRange::new(Address(0), 0).expect("a range");
        assert!(all.contains(Address(u128::MAX)) && all.contains(v4(1, 2, 3, 4)));
        assert_eq!(AddressRange::new(v4(10, 0, 0, 0), 33), None);
        assert_eq!(AddressRange::new(Address(1), 129), None);
    }

    #[test]
    fn a_source_is_an_address_or_a_network_of_one_owner() {
        let a = Address(0x2001_0DB8_0000_0001_0000_0000_0000_0001);
        let b = Address(0x2001_0DB8_0000_0001_FFFF_0000_0000_0009);
        let c = Address(0x2001_0DB8_0000_0002_0000_0000_0000_0001);
        assert!(a.source() == b.source() && a.source() != c.source());
        assert!(v4(10, 0, 0, 1).source() != v4(10, 0, 0, 2).source());
        assert_eq!(v4(10, 0, 0, 1).to_string(), "10.0.0.1");
        assert_eq!(a.to_string(), "2001:db8:0:1::1");
    }
}
