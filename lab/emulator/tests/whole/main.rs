//! Networks in a box with real sockets and programs in them: reachability, delays, faults, counters,
//! and that nothing is left afterwards.
//!
//! Where namespaces are refused each test says so and returns; where `CI` is set it fails instead.

mod disks;
mod life;
mod paths;
mod planes;

use std::net::{IpAddr, UdpSocket};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use emulator::{Config, Host, Network};

/// One network at a time: the tests count descriptors and measure times.
static ALONE: Mutex<()> = Mutex::new(());

/// The right to have a network.
pub fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A network and the right to have it; `None` where it is refused.
pub fn start(config: Config) -> Option<(Network, MutexGuard<'static, ()>)> {
    let alone = alone();
    Some((started(config)?, alone))
}

/// A network; `None` where it is refused.
pub fn started(config: Config) -> Option<Network> {
    match Network::start(config) {
        Ok(network) => Some(network),
        Err(error) if std::env::var_os("CI").is_none() => {
            println!("not tested: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A UDP socket in a host, which waits for 200 ms.
pub fn socket(host: &Host, address: impl Into<IpAddr>) -> UdpSocket {
    let address = (address.into(), 0);
    let socket = host.enter(|| UdpSocket::bind(address)).unwrap().unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    socket
}

/// Numbers of the datagrams that arrive until none does for 200 ms.
pub fn received(socket: &UdpSocket) -> Vec<u32> {
    let mut bytes = [0; 64];
    let mut next = || socket.recv(&mut bytes).ok().map(|_| number_in(&bytes));
    std::iter::from_fn(&mut next).collect()
}

fn number_in(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[..4].try_into().unwrap())
}
