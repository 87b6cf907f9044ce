//! The first message of a control connection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use net::Sealed;

use super::{Caller, HELLO, Server};
use crate::fleet::messages::{Followed, FromNode, Reader, VERSION};

/// What it says: the boot nonce, whose clock the node follows, and the last plan that it remembers.
pub(super) type Greeting = (u32, Followed, Option<String>);

/// The number that the log knows a caller by: an operator, who calls with 0, has the last one.
pub(super) fn slot(number: u16) -> u32 {
    if number == 0 { engine::NODES_MAX as u32 } else { number.into() }
}

impl Server {
    /// Hears the first message; what it says, or why the node isn't let in.
    pub(super) fn greet(
        &self,
        sealed: &mut Sealed,
        reader: &mut Reader,
        caller: &Caller,
        stop: &AtomicBool,
    ) -> std::io::Result<Result<Greeting, String>> {
        let until = Instant::now() + HELLO;
        while !stop.load(Ordering::Relaxed) && Instant::now() < until {
            let Some(message) = reader.next::<FromNode>(sealed)? else { continue };
            let FromNode::Hello { version, cluster, venue, name, boot, follows, plan } = message
            else {
                return Ok(Err("the first message was no hello".to_string()));
            };
            let (file, digest) = (&self.venue.file, self.venue.digest);
            let revoked = self.standing().nodes.get(slot(caller.number)).revoked;
            let why = if version != VERSION {
                format!("it speaks version {version} of control messages, and this root {VERSION}")
            } else if cluster != file.id {
                format!("it is of cluster {cluster:016x}, and this is {:016x}", file.id)
            } else if name != caller.name {
                format!("it calls itself {name}, and its certificate is of {}", caller.name)
            } else if caller.number != 0 && venue != digest {
                format!(
                    "its settings have digest {venue:016x}, and those of the roots {digest:016x}: compare \
                     venue.toml and cluster.toml"
                )
            } else if caller.generation <= revoked {
                let (generation, name) = (caller.generation, &caller.name);
                format!(
                    "its certificate, generation {generation}, is revoked: `fairbell cluster issue {name}` makes \
                     another one"
                )
            } else if self.standing().nodes.get(caller.number.into()).drained {
                "it is drained: `fairbell cluster drain --undo NODE` first".to_string()
            } else {
                return Ok(Ok((boot, follows, plan)));
            };
            return Ok(Err(why));
        }
        // Too slow, or this root stops: no reason to refuse anybody, who comes again.
        Err(std::io::ErrorKind::TimedOut.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::file::NODES_MAX;

    #[test]
    fn no_node_of_a_file_has_the_operators_number() {
        let last = NODES_MAX as u16;
        assert!(slot(0) > slot(last) && slot(last) == u32::from(last));
    }
}
