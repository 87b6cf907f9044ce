//! Operators steer a running exchange over a Unix-domain socket.
//!
//! One connection, one line of JSON there, one back ([`protocol`]). The exchange's side is a thread
//! of its own ([`server`]) that asks nodes between two of their inputs ([`act`]) and keeps the
//! audit file ([`audit`]). Nothing of it is on the way of orders.

pub mod act;
pub mod action;
pub mod audit;
mod callers;
pub mod door;
mod looks;
pub mod members;
pub mod protocol;
mod rules;
pub mod server;
mod shards;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::failure::Failure;
use protocol::{REPLY_MAX, Reply, Request};

/// Longest wait for the answer; the exchange gives up on a node much earlier.
const WAIT: Duration = Duration::from_secs(30);

/// One request to the exchange behind a socket.
pub fn ask(socket: &Path, request: &Request) -> Result<Reply, Failure> {
    let on = |error: std::io::Error| Failure::Run(format!("{}: {error}", socket.display()));
    let mut stream = UnixStream::connect(socket).map_err(on)?;
    stream.set_read_timeout(Some(WAIT)).map_err(on)?;
    stream.set_write_timeout(Some(WAIT)).map_err(on)?;
    stream.write_all(request.line().as_bytes()).map_err(on)?;
    let mut line = Vec::new();
    // Not to the end of the stream: it may end with an error when a request is refused unread.
    BufReader::new(stream.take(REPLY_MAX as u64)).read_until(b'\n', &mut line).map_err(on)?;
    serde_json::from_slice(&line)
        .map_err(|error| Failure::Run(format!("the exchange's answer can't be read: {error}")))
}
