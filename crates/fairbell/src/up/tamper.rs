//! Negative control of the verdict: one byte of the released feed changes on its way.
//!
//! A relay takes the listener's place as receiver 1's destination and passes every datagram on,
//! flipping one bit of the last byte of one of them, which lies in an ITCH message. Whatever that
//! byte means, the run must not pass.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use types::Peer;

use host::failure::Failure;

/// MoldUDP64 header: shorter packets carry no message.
const MOLD_HEADER: usize = 20;

/// The relay.
pub struct Relay {
    socket: UdpSocket,
    from: SocketAddr,
    to: SocketAddr,
    packet: u64,
}

impl Relay {
    /// A relay of what `source` sends to `destination`, both of which become the relay's own
    /// address; it will spoil the packet with messages that is number `packet`, counted from 1.
    pub fn between(
        source: &mut Peer,
        destination: &mut Peer,
        packet: u64,
    ) -> Result<Relay, Failure> {
        let failed = |error: std::io::Error| Failure::Run(format!("relay: {error}"));
        let address = |peer: Peer| {
            let none = || Failure::Run("relay: the listener has no address".to_string());
            net::socket_addr(peer).ok_or_else(none)
        };
        let (from, to) = (address(*source)?, address(*destination)?);
        let socket = UdpSocket::bind((to.ip(), 0)).map_err(failed)?;
        socket.set_read_timeout(Some(Duration::from_millis(20))).map_err(failed)?;
        *destination = net::peer_addr(socket.local_addr().map_err(failed)?);
        *source = *destination;
        Ok(Relay { socket, from, to, packet })
    }

    /// Relays until `stop`.
    pub fn run(&self, stop: &AtomicBool) {
        let (mut buffer, mut seen) = ([0u8; 2_048], 0);
        while !stop.load(Ordering::Relaxed) {
            let Ok((len, from)) = self.socket.recv_from(&mut buffer) else {
                continue;
            };
            if from != self.from {
                continue;
            }
            let Some(datagram) = buffer.get_mut(..len) else { continue };
            seen += u64::from(len > MOLD_HEADER);
            if let (true, Some(last)) =
                (seen == self.packet && len > MOLD_HEADER, datagram.last_mut())
            {
                *last ^= 1;
            }
            // A lost datagram is the listener's to repair.
            let _ = self.socket.send_to(datagram, self.to);
        }
    }
}
