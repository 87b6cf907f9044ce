//! The door of a node whose every datagram is for one other node: clock agents.
//!
//! As [`crate::sealed_link`], without what a tree needs: both parts of a datagram are under the key of
//! the two nodes' lives, the hop part is empty. What is to go to a node whose life is not known yet is
//! lost, and that node is asked: a probe that waited would say that the way is slow.

use types::{Nanos, NodeId, limits::DATAGRAM_MAX};

use crate::{
    seal::lives::{HELLO_VERSION, Keys, Life, Links},
    seal::{NUMBER_MAX, Origin, SealError, SealHeader, open_body, open_hop, read_header},
};

/// Seals and opens the datagrams of one node.
pub struct SealedPair<S: Keys> {
    node: NodeId,
    links: Links<S>,
    number: u64,
    received: Vec<u8>,
    clear: Vec<u8>,
    refused: u64,
}

impl<S: Keys> SealedPair<S> {
    /// The link of `node` in a life that was never lived before, who speaks with `members`.
    pub fn new(node: NodeId, members: &[NodeId], life: Life, keys: S) -> SealedPair<S> {
        let peers = members.iter().map(|peer| (*peer, None));
        let links = Links::new((node, life), keys, peers);
        let (received, clear) =
            (Vec::with_capacity(DATAGRAM_MAX), Vec::with_capacity(DATAGRAM_MAX));
        SealedPair { node, links, number: 0, received, clear, refused: 0 }
    }

    /// The life that it seals in.
    pub fn life(&self) -> Life {
        self.links.life()
    }

    /// Datagrams that were not let in.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// When [`SealedPair::handle_timeout`] is to be called.
    pub fn next_timeout(&self) -> Nanos {
        self.links.next_timeout()
    }

    /// Asks again who has not answered.
    pub fn handle_timeout(&mut self, now: Nanos) {
        self.links.handle_timeout(now);
    }

    /// Takes what the link itself has to say: `send` gets each datagram and to whom.
    pub fn take_hellos(&mut self, send: impl FnMut(NodeId, &[u8])) {
        self.links.take(send);
    }

    /// Appends the sealed form of a datagram to a node; `false` when it can't be sent, or not yet.
    pub fn seal(&mut self, now: Nanos, to: NodeId, clear: &[u8], out: &mut Vec<u8>) -> bool {
        let life = self.links.life().tag();
        let Some(link) = self.links.get_mut(to) else { return false };
        let Some(session) = &link.session else {
            self.links.want(now, to);
            return false;
        };
        if self.number >= NUMBER_MAX {
            return false;
        }
        self.number += 1;
        let origin = Origin { stream: self.node.0, life, number: self.number };
        link.sealer.seal((&session.key, &session.key), origin, (&[], clear), out)
    }

    /// Opens a datagram: who sent it, and the clear one, valid until the next; `None` where it was
    /// for the link itself. A refusal is counted.
    pub fn open(&mut self, now: Nanos, bytes: &[u8]) -> Result<Option<(NodeId, &[u8])>, SealError> {
        let opened = match bytes.first() {
            Some(&HELLO_VERSION) => self.links.hear(now, bytes).map(|()| None),
            _ => self.judge(now, bytes).map(Some),
        };
        self.refused += u64::from(opened.is_err());
        Ok(opened?.map(|sender| (sender, &self.clear[..])))
    }

    fn judge(&mut self, now: Nanos, bytes: &[u8]) -> Result<NodeId, SealError> {
        if bytes.len() > DATAGRAM_MAX {
            return Err(SealError::Format);
        }
        self.received.clear();
        self.received.extend_from_slice(bytes);
        let SealHeader { hop: sender, link: tag, .. } =
            read_header(bytes).ok_or(SealError::Format)?;
        let link = self.links.get(sender).ok_or(SealError::Stranger)?;
        let Some(session) = link.session.as_ref().filter(|session| session.tag == tag) else {
            self.links.want(now, sender);
            return Err(SealError::Life);
        };
        let opened = open_hop(&session.key, &mut self.received)?;
        open_body(&session.key, &opened, &mut self.clear)?;
        let number = opened.number;
        let link = self.links.get_mut(sender).ok_or(SealError::Stranger)?;
        link.window.accept(number)?;
        Ok(sender)
    }
}
