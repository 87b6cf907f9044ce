//! A host's namespace and the interface in it: what `ip link` and `ip address` would do.

use std::fs::{File, OpenOptions};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::ioctl_fionbio;
use rustix::net::{AddressFamily, SocketType, netdevice, socket};

use crate::network::StartError;
use crate::sys::{self, InterfaceRequest, Ipv6Request, Request};

/// Name of the interface in every host.
pub(crate) const INTERFACE: &str = "net0";
/// How long an IPv6 address may take until it can be used.
const USABLE: Duration = Duration::from_secs(5);
/// Hosts of one third byte of the IPv4 address.
const HOSTS_PER_BLOCK: usize = 250;
/// Packets that wait for the relay in the kernel at most; more are dropped by the interface.
const QUEUE_PACKETS: u32 = 4_096;
/// `IFF_UP` and `IFF_RUNNING` of `linux/if.h`.
const UP_AND_RUNNING: u16 = 0x1 | 0x40;
/// `IFF_TUN` and `IFF_NO_PI` of `linux/if_tun.h`: bare IP packets, no header of the driver's, so that
/// the kernel completes checksums and cuts segments before a packet comes out.
const TUN_WITHOUT_HEADER: u16 = 0x1 | 0x1000;

/// A host's namespace and the end of its interface that the relay holds.
pub(crate) struct NewHost {
    pub(crate) namespace: OwnedFd,
    pub(crate) tun: OwnedFd,
}

/// IPv4 address of a host by its number.
pub(crate) fn v4_of(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, (host / HOSTS_PER_BLOCK) as u8, (host % HOSTS_PER_BLOCK) as u8 + 1)
}

/// IPv6 address of a host by its number.
pub(crate) fn v6_of(host: usize) -> Ipv6Addr {
    let [_, _, x, y] = v4_of(host).octets();
    Ipv6Addr::new(0xFD77, 0, 0, 0, 0, 0, u16::from(x), u16::from(y))
}

/// Number of the host that an IP packet is for; `None` when it is for no host of the box.
pub(crate) fn receiver_of(packet: &[u8]) -> Option<usize> {
    let (x, y) = match packet.first()? >> 4 {
        4 => match packet.get(16..20)? {
            [10, 77, x, y] => (*x, *y),
            _ => return None,
        },
        6 => {
            let address: [u8; 16] = packet.get(24..40)?.try_into().ok()?;
            let [prefix @ .., x, y] = Ipv6Addr::from(address).segments();
            match prefix == [0xFD77, 0, 0, 0, 0, 0] {
                true => (u8::try_from(x).ok()?, u8::try_from(y).ok()?),
                false => return None,
            }
        }
        _ => return None,
    };
    let place = usize::from(y).checked_sub(1).filter(|place| *place < HOSTS_PER_BLOCK)?;
    Some(usize::from(x) * HOSTS_PER_BLOCK + place)
}

/// Makes the namespaces and interfaces of hosts 0 to `hosts` - 1.
pub(crate) fn make_hosts(hosts: usize, mtu: u16) -> Result<Vec<NewHost>, StartError> {
    let all = move || (0..hosts).map(|host| make_host(host, mtu)).collect();
    // In a thread of its own, because it moves from namespace to namespace.
    match std::thread::Builder::new().name("emulator-hosts".into()).spawn(all) {
        Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        Err(cause) => Err(StartError::Refused { step: "starting a thread", cause }),
    }
}

fn make_host(host: usize, mtu: u16) -> Result<NewHost, StartError> {
    let refused = |step| move |cause| StartError::Refused { step, cause };
    sys::leave_for_new_namespace().map_err(refused("making a network namespace"))?;
    let namespace = File::open("/proc/thread-self/ns/net")
        .map_err(refused("opening /proc/thread-self/ns/net"))?;
    let tun = OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    let tun = OwnedFd::from(tun.map_err(refused("opening /dev/net/tun"))?);
    let attached = ioctl_fionbio(&tun, true).map_err(io::Error::from).and_then(|()| {
        let flags = TUN_WITHOUT_HEADER.to_ne_bytes();
        sys::request(&tun, Request::AttachTun, &mut named(INTERFACE, &flags))
    });
    attached.map_err(refused("making a TUN interface"))?;
    address_v4(host, mtu).map_err(refused("giving an interface its IPv4 address"))?;
    address_v6(host).map_err(refused("giving an interface its IPv6 address"))?;
    Ok(NewHost { namespace: OwnedFd::from(namespace), tun })
}

/// Both interfaces up, the host's IPv4 address on one; its prefix makes the route.
fn address_v4(host: usize, mtu: u16) -> io::Result<()> {
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let set = |interface: &str, which, value: &[u8]| {
        sys::request(&socket, which, &mut named(interface, value))
    };
    set("lo", Request::SetFlags, &UP_AND_RUNNING.to_ne_bytes())?;
    set(INTERFACE, Request::SetMtu, &u32::from(mtu).to_ne_bytes())?;
    set(INTERFACE, Request::SetQueueLength, &QUEUE_PACKETS.to_ne_bytes())?;
    set(INTERFACE, Request::SetFlags, &UP_AND_RUNNING.to_ne_bytes())?;
    set(INTERFACE, Request::SetAddress, &socket_address(v4_of(host)))?;
    set(INTERFACE, Request::SetNetmask, &socket_address(Ipv4Addr::new(255, 255, 0, 0)))
}

/// The host's IPv6 address, once it can be used: an interface without link-layer addresses does not
/// look for duplicates, but the kernel says so to itself on a thread that may be late.
fn address_v6(host: usize) -> io::Result<()> {
    let socket = socket(AddressFamily::INET6, SocketType::DGRAM, None)?;
    let interface = netdevice::name_to_index(&socket, INTERFACE)? as i32;
    let address = v6_of(host).octets();
    let mut request = Ipv6Request { address, prefix_length: 64, interface };
    match sys::set_ipv6_address(&socket, &mut request) {
        // An interface may keep its addresses while it is down.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        outcome => outcome?,
    }
    let begun = Instant::now();
    loop {
        match UdpSocket::bind((v6_of(host), 0)) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::AddrNotAvailable => return Err(error),
            Err(error) if begun.elapsed() > USABLE => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Takes the interface of the namespace's host down, or has it up again with all its addresses.
pub(crate) fn set_up(host: usize, up: bool) -> io::Result<()> {
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let flags = if up { UP_AND_RUNNING } else { 0 };
    let mut request = named(INTERFACE, &flags.to_ne_bytes());
    sys::request(&socket, Request::SetFlags, &mut request)?;
    match up {
        // Addresses of IPv6 went with it.
        true => address_v6(host),
        false => Ok(()),
    }
}

fn named(interface: &str, value: &[u8]) -> InterfaceRequest {
    let mut request = InterfaceRequest { name: [0; 16], value: [0; 24] };
    request.name[..interface.len()].copy_from_slice(interface.as_bytes());
    request.value[..value.len()].copy_from_slice(value);
    request
}

/// `struct sockaddr_in` of an address without a port.
fn socket_address(address: Ipv4Addr) -> [u8; 8] {
    let [low, high] = AddressFamily::INET.as_raw().to_ne_bytes();
    let [a, b, c, d] = address.octets();
    [low, high, 0, 0, a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_for_the_host_with_its_address() {
        for host in [0, 1, 63, 249, 250, 700] {
            let mut packet = [0u8; 40];
            packet[0] = 0x45;
            packet[16..20].copy_from_slice(&v4_of(host).octets());
            assert_eq!(receiver_of(&packet), Some(host));
            packet[0] = 0x60;
            packet[24..40].copy_from_slice(&v6_of(host).octets());
            assert_eq!(receiver_of(&packet), Some(host));
        }
        let mut multicast = [0u8; 40];
        multicast[0] = 0x60;
        multicast[24..26].copy_from_slice(&[0xFF, 0x02]);
        let short = [0x45, 0, 0];
        let broadcast = [0x45, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 77, 255, 255];
        for packet in [&multicast[..], &short, &broadcast, &[]] {
            assert_eq!(receiver_of(packet), None, "{packet:?}");
        }
    }
}
