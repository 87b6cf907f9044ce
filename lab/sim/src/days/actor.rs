//! The nodes of the world of days, and what is done to their datagrams on the way.

use exchange::{Role, Root};
use feed::Subscriber;
use types::Channel;
use wire::moldudp::Packet;

use super::{Sabotage, Trader};
use crate::world::{Sent, Tap, Verdict};

/// A node of this world.
pub(super) enum Actor {
    Role(Box<Role>),
    Trader(Box<Trader>),
}

macro_rules! each {
    ($actor:expr, $node:ident => $call:expr) => {
        match $actor {
            Actor::Role($node) => $call,
            Actor::Trader($node) => $call,
        }
    };
}

impl Actor {
    pub(super) fn root(&self) -> Option<&Root> {
        match self {
            Actor::Role(role) => role.as_root(),
            Actor::Trader(_) => None,
        }
    }

    pub(super) fn listener(&self) -> Option<&Subscriber> {
        match self {
            Actor::Role(role) => role.as_listener(),
            Actor::Trader(_) => None,
        }
    }

    pub(super) fn trader(&self) -> Option<&Trader> {
        match self {
            Actor::Trader(trader) => Some(trader),
            Actor::Role(_) => None,
        }
    }
}

types::forward_node!(Actor, each);

/// Loses what a seeded bug loses, and every end of a session on its way to one listener, who has to ask
/// for it.
pub(super) struct Eyes {
    pub(super) sabotage: Option<Sabotage>,
    pub(super) first_session: [u8; 10],
    /// The edge that a bug is in, the root, and the listener who hears of no end.
    pub(super) edge: usize,
    pub(super) root: usize,
    pub(super) deaf: usize,
    /// Messages of the opening that are lost for the edge's listener.
    pub(super) lost: Option<([u8; 10], u64)>,
}

impl Tap<Actor> for Eyes {
    fn datagram(&mut self, sent: Sent<'_>) -> Verdict {
        let feed = sent.channel == Channel::FEED;
        let Ok(packet) = Packet::parse(sent.bytes) else { return Verdict::Pass };
        if feed && sent.to == self.deaf && sent.from != self.root && packet.is_end_of_session() {
            return Verdict::Drop;
        }
        let handed_on = feed && sent.from == self.edge;
        match self.sabotage {
            Some(Sabotage::OldSession) if handed_on => {
                let mut bytes = sent.bytes.to_vec();
                bytes[..10].copy_from_slice(&self.first_session);
                Verdict::Rewrite(bytes)
            }
            Some(Sabotage::LoseOpening) if feed && (handed_on || sent.from == self.root) => {
                let later = packet.session().0 != self.first_session;
                if self.lost.is_none() && handed_on && later && packet.count() > 0 {
                    self.lost = Some((packet.session().0, packet.next_seq() - 1));
                }
                let (session, number) = self.lost.unwrap_or_default();
                let has = packet.seq() <= number && number < packet.next_seq();
                let ours = handed_on || sent.to == self.edge + super::world::RECEIVERS;
                match packet.session().0 == session && has && ours {
                    true => Verdict::Drop,
                    false => Verdict::Pass,
                }
            }
            _ => Verdict::Pass,
        }
    }
}
