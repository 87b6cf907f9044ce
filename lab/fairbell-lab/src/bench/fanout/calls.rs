//! Other calls for a message to many, beside `sendto`: what a plane of sockets could make instead.

use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};

use rustix::net::addr::SocketAddrArg;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};

/// Messages of one call; the kernel takes 1,024.
const PART: usize = 256;

/// Sends all copies by `sendmmsg`, a call for many; how many went.
///
/// # Errors
/// The socket's.
pub fn batched(socket: &UdpSocket, copies: &[(SocketAddr, Vec<u8>)]) -> io::Result<u64> {
    let mut sent = 0;
    for part in copies.chunks(PART) {
        let to: Vec<_> = part.iter().map(|(to, _)| to.as_any()).collect();
        let slices: Vec<_> = part.iter().map(|(_, bytes)| [IoSlice::new(bytes)]).collect();
        let mut none: Vec<_> = part.iter().map(|_| SendAncillaryBuffer::default()).collect();
        let each = to.iter().zip(&slices).zip(&mut none);
        let mut heads: Vec<_> =
            each.map(|((to, slices), none)| MMsgHdr::new_with_addr(to, slices, none)).collect();
        let mut from = 0;
        while from < heads.len() {
            from += sendmmsg(socket, &mut heads[from..], SendFlags::empty())?;
        }
        sent += from as u64;
    }
    Ok(sent)
}

/// A socket connected to each receiver.
pub struct Connected(Vec<UdpSocket>);

impl Connected {
    /// Sockets of the calling thread's namespace, for the receivers of these copies.
    ///
    /// # Errors
    /// The kernel's: too many descriptors.
    pub fn new(copies: &[(SocketAddr, Vec<u8>)]) -> io::Result<Connected> {
        let connected = |(to, _): &(SocketAddr, Vec<u8>)| {
            let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            let socket = UdpSocket::bind(any)?;
            socket.connect(to)?;
            Ok(socket)
        };
        copies.iter().map(connected).collect::<io::Result<Vec<_>>>().map(Connected)
    }

    /// Sends each copy by its socket; how many went.
    ///
    /// # Errors
    /// A socket's.
    pub fn send(&self, copies: &[(SocketAddr, Vec<u8>)]) -> io::Result<u64> {
        for (socket, (_, bytes)) in self.0.iter().zip(copies) {
            socket.send(bytes)?;
        }
        Ok(self.0.len().min(copies.len()) as u64)
    }
}
