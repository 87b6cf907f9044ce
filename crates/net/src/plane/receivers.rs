//! What is known of the ways to those that a plane sends to.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A way is asked for again after this; that datagram takes the socket, so that the kernel goes on
/// asking who has the address.
const AGAIN: Duration = Duration::from_secs(4);
/// The same where none was known.
const SOON: Duration = Duration::from_millis(100);
/// Receivers that are remembered.
const RECEIVERS_MAX: usize = 4_096;

struct Receiver<W> {
    to: SocketAddr,
    way: Option<W>,
    until: Instant,
}

/// Receivers by address.
pub(crate) struct Receivers<W> {
    sorted: Vec<Receiver<W>>,
    /// Where the next one is expected: children come in the same order again and again.
    hint: usize,
    /// Ways that were asked for again.
    pub refreshed: u64,
}

impl<W> Default for Receivers<W> {
    fn default() -> Self {
        Receivers { sorted: Vec::new(), hint: 0, refreshed: 0 }
    }
}

impl<W> Receivers<W> {
    /// The way to a receiver; none while a socket knows better. `ask` finds one.
    #[inline]
    pub fn way(
        &mut self,
        to: SocketAddr,
        now: Instant,
        mut ask: impl FnMut(SocketAddr) -> Option<W>,
    ) -> Option<&W> {
        let at = match self.sorted.get(self.hint).is_some_and(|known| known.to == to) {
            true => self.hint,
            false => match self.sorted.binary_search_by_key(&to, |known| known.to) {
                Ok(at) => at,
                Err(_) if self.sorted.len() >= RECEIVERS_MAX => return None,
                Err(at) => {
                    let way = ask(to);
                    let until = now + if way.is_some() { AGAIN } else { SOON };
                    self.sorted.insert(at, Receiver { to, way, until });
                    at
                }
            },
        };
        self.hint = at + 1;
        let known = self.sorted.get_mut(at)?;
        if known.until > now {
            return known.way.as_ref();
        }
        known.way = ask(to);
        known.until = now + if known.way.is_some() { AGAIN } else { SOON };
        self.refreshed += 1;
        None
    }

    /// All are asked for again.
    pub fn doubt(&mut self, now: Instant) {
        self.sorted.iter_mut().for_each(|known| known.until = now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_asked_for_once_again_when_they_are_old_and_by_the_socket_then() {
        let (mut known, now) = (Receivers::default(), Instant::now());
        let at = |port: u16| SocketAddr::from(([10, 0, 0, 1], port));
        let asked = std::cell::Cell::new(0);
        let ask = |to: SocketAddr| {
            asked.set(asked.get() + 1);
            (to.port() != 3).then_some(to.port())
        };
        for _ in 0..3 {
            for port in [5, 2, 9, 3] {
                assert_eq!(known.way(at(port), now, ask).copied(), (port != 3).then_some(port));
            }
        }
        assert_eq!(asked.get(), 4);
        let later = now + AGAIN;
        assert_eq!((known.way(at(5), later, ask).copied(), asked.get()), (None, 5));
        assert_eq!((known.way(at(5), later, ask).copied(), asked.get()), (Some(5), 5));
        known.doubt(later);
        assert_eq!((known.way(at(5), later, ask).copied(), known.refreshed), (None, 2));
    }
}
