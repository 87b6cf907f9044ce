//! Whom a receiver hands the released feed to: all of them at the same instant.

use types::{Channel, Outbox, Peer, Span};

/// Subscribers of a receiver at most.
pub const SUBSCRIBERS_MAX: usize = 64;

/// The list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subscribers(Vec<Peer>);

impl Subscribers {
    /// One subscriber.
    pub(crate) fn of(first: Peer) -> Subscribers {
        Subscribers(vec![first])
    }

    /// `peer` gets everything from now on; false where [`SUBSCRIBERS_MAX`] do already.
    pub fn add(&mut self, peer: Peer) -> bool {
        let known = self.0.contains(&peer);
        if !known && self.0.len() < SUBSCRIBERS_MAX {
            self.0.push(peer);
        }
        known || self.0.contains(&peer)
    }

    /// `peer` gets nothing any more; false where it got nothing.
    pub fn remove(&mut self, peer: Peer) -> bool {
        let before = self.0.len();
        self.0.retain(|known| *known != peer);
        self.0.len() < before
    }

    /// Sends a packet to each.
    pub(crate) fn hand_on(&self, packet: Span, out: &mut Outbox) {
        self.0.iter().for_each(|peer| out.datagram(Channel::FEED, *peer, packet));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_listed_once_and_no_more_than_there_is_room_for() {
        let mut list = Subscribers::of(Peer::Addr(1));
        assert!(list.add(Peer::Addr(1)) && list.0.len() == 1);
        (2..=SUBSCRIBERS_MAX as u64).for_each(|n| assert!(list.add(Peer::Addr(n))));
        assert!(!list.add(Peer::Addr(99)) && list.add(Peer::Addr(5)));
        assert!(list.remove(Peer::Addr(5)) && !list.remove(Peer::Addr(5)));
        assert!(list.add(Peer::Addr(99)));
        let mut out = Outbox::default();
        let span = out.store(b"packet");
        list.hand_on(span, &mut out);
        assert_eq!(out.ops().len(), SUBSCRIBERS_MAX);
    }
}
