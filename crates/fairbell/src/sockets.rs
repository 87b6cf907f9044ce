//! What every command that opens sockets says of them.

use std::net::{SocketAddr, SocketAddrV4};

use crate::Failure;

/// Trouble with sockets.
pub fn io(error: std::io::Error) -> Failure {
    Failure::Run(format!("sockets: {error}"))
}

/// An address as this exchange knows them.
///
/// # Errors
/// An address of another family.
pub fn v4(addr: SocketAddr) -> Result<SocketAddrV4, Failure> {
    match addr {
        SocketAddr::V4(addr) => Ok(addr),
        SocketAddr::V6(addr) => Err(Failure::Run(format!("{addr} is no IPv4 address"))),
    }
}
