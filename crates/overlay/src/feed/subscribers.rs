//! The subscribers that a receiver hands the released feed to, one right after the other. Each
//! packet begins with the subscriber behind the one that the last packet began with, so that none
//! is always first.

use types::{Channel, Outbox, Peer, Span};

/// Subscribers of a receiver at most.
pub const SUBSCRIBERS_MAX: usize = 64;

/// Addresses that get everything that is released.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subscribers {
    peers: Vec<Peer>,
    /// Index of the address that is served first next time.
    first: usize,
}

impl Subscribers {
    /// A list of one subscriber; empty for [`Peer::NOBODY`].
    pub(crate) fn of(one: Peer) -> Subscribers {
        let mut peers = Vec::with_capacity(SUBSCRIBERS_MAX);
        peers.extend(Some(one).filter(|one| *one != Peer::NOBODY));
        Subscribers { peers, first: 0 }
    }

    /// `peer` gets everything from now on; false where [`SUBSCRIBERS_MAX`] do already.
    pub fn add(&mut self, peer: Peer) -> bool {
        let known = self.peers.contains(&peer);
        let has_room = self.peers.len() < SUBSCRIBERS_MAX;
        if !known && has_room {
            self.peers.push(peer);
        }
        known || has_room
    }

    /// `peer` gets nothing any more; false where it got nothing.
    pub fn remove(&mut self, peer: Peer) -> bool {
        let before = self.peers.len();
        self.peers.retain(|known| *known != peer);
        self.peers.len() < before
    }

    /// Whether `peer` is in the list of subscribers.
    pub fn has(&self, peer: Peer) -> bool {
        self.peers.contains(&peer)
    }

    /// Sends a packet to each; to [`Peer::NOBODY`] where there is none, because the books beside the
    /// receiver are made of what it hands on.
    pub(crate) fn hand_on(&mut self, packet: Span, out: &mut Outbox) {
        if self.peers.is_empty() {
            out.datagram(Channel::FEED, Peer::NOBODY, packet);
        }
        let first = if self.first < self.peers.len() { self.first } else { 0 };
        let (last, next) = self.peers.split_at(first);
        next.iter().chain(last).for_each(|peer| out.datagram(Channel::FEED, *peer, packet));
        self.first = first + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::Op;

    #[test]
    fn each_is_listed_once_and_no_more_than_there_is_room_for() {
        let mut list = Subscribers::of(Peer::Addr(1));
        assert!(list.add(Peer::Addr(1)) && list.peers.len() == 1);
        (2..=SUBSCRIBERS_MAX as u64).for_each(|n| assert!(list.add(Peer::Addr(n))));
        assert!(!list.add(Peer::Addr(99)) && list.add(Peer::Addr(5)));
        assert!(list.remove(Peer::Addr(5)) && !list.remove(Peer::Addr(5)));
        assert!(list.add(Peer::Addr(99)));
        let mut out = Outbox::default();
        let span = out.store(b"packet");
        list.hand_on(span, &mut out);
        assert_eq!(out.ops().len(), SUBSCRIBERS_MAX);
        let mut nobody = Subscribers::of(Peer::NOBODY);
        nobody.hand_on(span, &mut out);
        let seen = |op: &Op| matches!(op, Op::Datagram { to: Peer::NOBODY, .. });
        assert_eq!(out.ops().iter().filter(|op| seen(op)).count(), 1);
    }

    #[test]
    fn each_is_first_equally_often() {
        let mut list = Subscribers::of(Peer::Addr(1));
        (2..=5).for_each(|n| assert!(list.add(Peer::Addr(n))));
        let mut firsts = [0; 6];
        let mut packet = |list: &mut Subscribers| {
            let mut out = Outbox::default();
            let span = out.store(b"packet");
            list.hand_on(span, &mut out);
            let to = |op: &Op| match op {
                Op::Datagram { to: Peer::Addr(n), .. } => *n as usize,
                other => panic!("{other:?}"),
            };
            let mut all: Vec<usize> = out.ops().iter().map(to).collect();
            firsts[all[0]] += 1;
            all.sort_unstable();
            all
        };
        (0..50).for_each(|_| assert_eq!(packet(&mut list), [1, 2, 3, 4, 5]));
        list.remove(Peer::Addr(5));
        assert_eq!(packet(&mut list), [1, 2, 3, 4]);
        assert_eq!(firsts.iter().filter(|count| **count >= 10).count(), 5, "{firsts:?}");
    }
}
