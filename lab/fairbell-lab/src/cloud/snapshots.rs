//! Snapshots of the books as the edges of a box serve them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use feed::Loading;
use host::failure::Failure;
use host::fleet::file::{NodeRole, Port};
use host::sockets::io;
use serde::Serialize;
use types::Nanos;
use wire::soupbin::{ClientEvent, ClientSession};

use super::site::Site;

/// Longest wait for all servers to be as far as the one in front.
const PATIENCE: Duration = Duration::from_secs(15);
/// Longest wait for a part of a snapshot.
const SILENCE: Duration = Duration::from_secs(2);
/// Most orders of a snapshot.
const ORDERS_MAX: usize = 1 << 20;

/// Where the feed goes on behind a server's snapshot.
#[derive(Serialize, Clone, Debug)]
pub struct Served {
    /// The edge that serves it.
    pub name: String,
    /// Number of the next message; 0: no snapshot came.
    pub next: u64,
}

/// What each snapshot server of the box serves, as soon as all are as far as each other or that took too long.
///
/// # Errors
/// A node without an address.
pub fn served(site: &Site<'_>) -> Result<Vec<Served>, Failure> {
    let begun = Instant::now();
    loop {
        let mut all = Vec::new();
        for place in site.places(NodeRole::Snapshot) {
            let node = &site.file.nodes[place];
            let at = site.file.at(node, Port::Snapshot)?;
            let stream = site.participants().enter(|| TcpStream::connect_timeout(&at, SILENCE));
            let next = stream.map_err(io)?.and_then(fetch);
            all.push(Served { name: node.name.clone(), next: next.unwrap_or(0) });
        }
        if behind(&all).next().is_none() || begun.elapsed() > PATIENCE {
            return Ok(all);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Servers that are behind the one in front, or have nothing.
pub fn behind(all: &[Served]) -> impl Iterator<Item = &Served> {
    let most = all.iter().map(|of| of.next).max().unwrap_or(0).max(1);
    all.iter().filter(move |of| of.next < most)
}

/// Reads a snapshot to its end; the number of the message behind it.
fn fetch(mut stream: TcpStream) -> std::io::Result<u64> {
    stream.set_read_timeout(Some(SILENCE))?;
    let wrong = |what: &str| std::io::Error::other(what.to_string());
    let mut client = ClientSession::new("", "").map_err(|_| wrong("no session"))?;
    let (mut bytes, mut part) = (Vec::new(), vec![0; 64 << 10]);
    client.connect(Nanos(0), &mut bytes).map_err(|_| wrong("no login"))?;
    stream.write_all(&bytes)?;
    let (mut loading, mut end) = (Loading::new(ORDERS_MAX), Ok(None));
    while let Ok(None) = end {
        let count = stream.read(&mut part)?;
        if count == 0 {
            return Err(wrong("it ended before its end"));
        }
        client.handle_bytes(Nanos(0), &part[..count], |event| match event {
            ClientEvent::Sequenced { message, .. } if matches!(end, Ok(None)) => {
                end = loading.take(message);
            }
            _ => {}
        });
    }
    end.ok().flatten().map(|next| next.0).ok_or_else(|| wrong("it is no snapshot"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_behind_or_has_nothing_is_told() {
        let names = |of: &[(&str, u64)]| {
            let all: Vec<Served> = of
                .iter()
                .map(|(name, next)| Served { name: name.to_string(), next: *next })
                .collect();
            behind(&all).map(|of| of.name.clone()).collect::<Vec<_>>()
        };
        assert!(names(&[("a", 7), ("b", 7)]).is_empty());
        assert_eq!(names(&[("a", 7), ("b", 6), ("c", 0)]), ["b", "c"]);
        assert_eq!(names(&[("a", 0)]), ["a"]);
    }
}
