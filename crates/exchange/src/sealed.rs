//! A node behind its link: the same contract outside, sealed datagrams instead of clear ones.
//!
//! The node itself is not changed and knows nothing of it. Everything on the overlay channel passes
//! the link both ways; streams and the public feed do not, nor does what root and edges of one loop hand
//! each other in memory ([`Channel::LOCAL`]). Whoever calls the node by other ways
//! than [`types::Node`] does it through [`Sealed::call`], or what it sends would be clear and
//! refused everywhere.

use std::ops::Range;

use overlay::frame::{FrameKind, HopHeader};
use overlay::{
    epochs::GRACE_NS,
    key_ring::KeyRing,
    lives::Life,
    sealed_link::{Fleet, SealedLink, SealedLinkStats},
};
use types::{
    Channel, ClockReading, ConnId, DroppedCopy, Nanos, Node, NodeId, Op, Outbox, Peer, Remote, Span,
};

use crate::Role;
use crate::confirmed::Confirmed;

/// A node and its link.
pub struct Sealed {
    node: Role,
    link: SealedLink<KeyRing>,
    /// Those of channels besides the overlay's: of other shards.
    others: Vec<(Channel, SealedLink<KeyRing>)>,
    /// Numbers of nodes of the same loop, with which nothing is sealed: see [`Sealed::share_loop`].
    neighbours: Range<u16>,
    /// What the node wants done, in clear.
    clear: Outbox,
    /// When it was called last.
    now: Nanos,
    /// Market data that came lately, where copies of it are dropped in front of the node.
    confirmed: Option<Box<Confirmed>>,
}

impl Sealed {
    /// Puts `link` before `node`.
    pub fn new(node: Role, link: SealedLink<KeyRing>) -> Sealed {
        Sealed {
            node,
            link,
            others: Vec::new(),
            neighbours: 0..0,
            clear: Outbox::default(),
            now: Nanos(0),
            confirmed: None,
        }
    }

    /// Nodes of these numbers are in the node's loop: overlay datagrams to them go by [`Channel::LOCAL`], in clear.
    /// Not for proxies: what they pass on must have come to them as its source sealed it.
    pub(crate) fn share_loop(&mut self, neighbours: Range<u16>) {
        self.neighbours = neighbours;
    }

    /// With links of other channels, each of the node's number there.
    pub fn with_links(mut self, links: Vec<(Channel, SealedLink<KeyRing>)>) -> Sealed {
        self.others = links;
        self
    }

    /// Begins a key epoch under `ring`, the node's own of another secret, with a life never lived
    /// before; traffic goes on ([`SealedLink::rekey`]). What its link has to say goes with the
    /// timeout that is due at once. `false`, and nothing has changed, when the ring is another
    /// node's, or ring or life are in use.
    pub fn rekey(&mut self, now: ClockReading, ring: KeyRing, life: Life) -> bool {
        self.rekey_channel(now, Channel::OVERLAY, ring, life)
    }

    /// As [`Sealed::rekey`], of the link of one channel; `false` for a channel without one, too.
    pub fn rekey_channel(
        &mut self,
        now: ClockReading,
        channel: Channel,
        ring: KeyRing,
        life: Life,
    ) -> bool {
        self.now = now.now;
        let link = self.link_of(channel).filter(|link| link.node() == ring.node());
        link.is_some_and(|link| link.rekey(now.now, ring, life))
    }

    /// Takes another link, which seals what it sends from now on: nothing is left of the one before.
    pub fn renew(&mut self, now: ClockReading, link: SealedLink<KeyRing>) {
        self.now = now.now;
        self.link = link;
    }

    /// The node.
    pub fn node(&self) -> &Role {
        &self.node
    }

    pub(crate) fn node_mut(&mut self) -> &mut Role {
        &mut self.node
    }

    /// Datagrams of a peer that the link has let in.
    pub fn heard(&self, peer: NodeId) -> u64 {
        self.link.heard(peer)
    }

    /// What the link did.
    pub fn guard_stats(&self) -> SealedLinkStats {
        self.link.stats()
    }

    /// Calls the node, and seals what it wants sent.
    pub fn call<T>(
        &mut self,
        out: &mut Outbox,
        call: impl FnOnce(&mut Role, &mut Outbox) -> T,
    ) -> T {
        self.clear.clear();
        let result = call(&mut self.node, &mut self.clear);
        self.pass(out);
        result
    }

    fn call_at<T>(
        &mut self,
        now: ClockReading,
        out: &mut Outbox,
        call: impl FnOnce(&mut Role, &mut Outbox) -> T,
    ) -> T {
        self.now = now.now;
        self.call(out, call)
    }

    /// What the link itself has to say, and what waited for it.
    fn greet(&mut self, out: &mut Outbox) {
        let first = (Channel::OVERLAY, &mut self.link);
        let others = self.others.iter_mut().map(|(channel, link)| (*channel, link));
        let links = std::iter::once(first).chain(others);
        for (channel, link) in links.filter(|(_, link)| link.has_news()) {
            let mut send = |to, bytes: &[u8]| {
                let span = out.store(bytes);
                out.datagram(channel, Peer::Node(to), span);
            };
            link.take_hellos(&mut send);
            link.take_held(self.now, send);
        }
    }

    /// What seals a channel's datagrams; `None` for one whose are clear.
    fn link_of(&mut self, channel: Channel) -> Option<&mut SealedLink<KeyRing>> {
        if channel == Channel::OVERLAY {
            return Some(&mut self.link);
        }
        self.others.iter_mut().find(|(of, _)| *of == channel).map(|(_, link)| link)
    }

    fn pass(&mut self, out: &mut Outbox) {
        // An answer goes before what can only be opened by it.
        self.greet(out);
        // Where the bytes of the last public datagram went, and which sealed one was the last: both
        // often go to several.
        let mut stored: Option<(Span, Span)> = None;
        let mut sealed: Option<(Channel, Span)> = None;
        let clear_box = std::mem::take(&mut self.clear);
        for op in clear_box.ops() {
            match *op {
                Op::Datagram { channel: Channel::OVERLAY, to: Peer::Node(to), bytes }
                    if self.neighbours.contains(&to.0) =>
                {
                    let span = out.store(clear_box.bytes(bytes));
                    out.datagram(Channel::LOCAL, Peer::Node(to), span);
                }
                Op::Datagram { channel, to: Peer::Node(to), bytes }
                    if self.link_of(channel).is_some() =>
                {
                    let again = sealed == Some((channel, bytes));
                    sealed = Some((channel, bytes));
                    let (clear, mut sent) = (clear_box.bytes(bytes), false);
                    let now = self.now;
                    let Some(link) = self.link_of(channel) else { continue };
                    let span =
                        out.write(|buffer| sent = link.seal(now, to, (clear, again), buffer));
                    if sent {
                        out.datagram(channel, Peer::Node(to), span);
                    }
                }
                Op::Datagram { channel, to, bytes } => {
                    let span = match stored {
                        Some((clear, span)) if clear == bytes => span,
                        _ => out.store(clear_box.bytes(bytes)),
                    };
                    stored = Some((bytes, span));
                    out.datagram(channel, to, span);
                }
                Op::Stream { conn, bytes } => {
                    let span = out.store(clear_box.bytes(bytes));
                    out.stream(conn, span);
                }
                Op::Connect { conn, to } => out.connect(conn, to),
                Op::Close { conn } => out.close(conn),
                Op::Work { ticket, bytes } => {
                    let span = out.store(clear_box.bytes(bytes));
                    out.work(ticket, span);
                }
            }
        }
        self.clear = clear_box;
        self.greet(out);
        self.clear.traces().iter().for_each(|trace| out.trace(*trace));
        out.journal(self.clear.journaled());
    }
}

/// Makes the links of a root that is one of a group, each in a life of its own, under the ring of
/// the present key epoch.
pub struct NewLink {
    fleet: Fleet,
    ring: KeyRing,
    /// The ring before, and when the present one took its place: for a while others may have none.
    former: Option<(KeyRing, Nanos)>,
    lives: Box<dyn Fn() -> Option<Life> + Send>,
}

impl NewLink {
    /// Links of the node of `ring`; `lives` draws lives that were never lived before.
    pub fn new(
        fleet: Fleet,
        ring: KeyRing,
        lives: impl Fn() -> Option<Life> + Send + 'static,
    ) -> NewLink {
        NewLink { fleet, ring, former: None, lives: Box::new(lives) }
    }

    /// Whose links they are.
    pub(crate) fn node(&self) -> NodeId {
        self.ring.node()
    }

    /// Links are of `ring` from now on, and for a while of the one before, too.
    pub(crate) fn rekey(&mut self, now: Nanos, ring: KeyRing) {
        let former = std::mem::replace(&mut self.ring, ring);
        self.former = Some((former, now));
    }

    /// A link; `None` when no life can be drawn or the cipher can't be set up.
    pub(crate) fn link(&self, now: Nanos) -> Option<SealedLink<KeyRing>> {
        let new = |ring: &KeyRing, life| {
            SealedLink::new(ring.node(), self.fleet.clone(), life, false, ring.clone())
        };
        match &self.former {
            Some((former, since)) if now < since.after(GRACE_NS) => {
                let mut link = new(former, (self.lives)()?)?;
                // As if it had been there then: the former ring is over when it is for all others.
                link.rekey(*since, self.ring.clone(), (self.lives)()?).then_some(link)
            }
            _ => new(&self.ring, (self.lives)()?),
        }
    }
}

impl Node for Sealed {
    fn handle_datagram(
        &mut self,
        now: ClockReading,
        channel: Channel,
        from: Peer,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        self.now = now.now;
        self.clear.clear();
        if channel == Channel::LOCAL {
            if let Peer::Node(neighbour) = from {
                self.link.note_unsealed(neighbour);
            }
            self.node.handle_datagram(now, Channel::OVERLAY, from, bytes, &mut self.clear);
            return self.pass(out);
        }
        let others = self.others.iter_mut().find(|(of, _)| *of == channel).map(|(_, link)| link);
        let link = if channel == Channel::OVERLAY { Some(&mut self.link) } else { others };
        if let Some(link) = link {
            if let Ok(Some(bytes)) = link.open(now.now, bytes) {
                let body = self.confirmed.as_ref().and_then(|_| Confirmed::market_data(bytes));
                self.node.handle_datagram(now, channel, from, bytes, &mut self.clear);
                if let Some((confirmed, body)) = self.confirmed.as_mut().zip(body)
                    && channel == Channel::OVERLAY
                    && let Some(name) = self.link.origin().and_then(|of| confirmed.keep(of, body))
                {
                    out.confirm(name);
                }
            }
        } else {
            self.node.handle_datagram(now, channel, from, bytes, &mut self.clear);
        }
        self.pass(out);
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        self.link.handle_timeout(now.now);
        self.others.iter_mut().for_each(|(_, link)| link.handle_timeout(now.now));
        self.call_at(now, out, |node, out| node.handle_timeout(now, out));
    }

    fn next_timeout(&self) -> Nanos {
        let others = self.others.iter().map(|(_, link)| link.next_timeout()).min();
        let links = self.link.next_timeout().min(others.unwrap_or(Nanos::NEVER));
        self.node.next_timeout().min(links)
    }

    fn handle_connect(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        self.call_at(now, out, |node, out| node.handle_connect(now, conn, out));
    }

    fn handle_accept(
        &mut self,
        now: ClockReading,
        conn: ConnId,
        remote: &Remote,
        out: &mut Outbox,
    ) {
        self.call_at(now, out, |node, out| node.handle_accept(now, conn, remote, out));
    }

    fn handle_work(&mut self, now: ClockReading, ticket: u64, answer: &[u8], out: &mut Outbox) {
        self.call_at(now, out, |node, out| node.handle_work(now, ticket, answer, out));
    }

    fn handle_stream(&mut self, now: ClockReading, conn: ConnId, bytes: &[u8], out: &mut Outbox) {
        self.call_at(now, out, |node, out| node.handle_stream(now, conn, bytes, out));
    }

    fn handle_close(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        self.call_at(now, out, |node, out| node.handle_close(now, conn, out));
    }

    fn handle_unread(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        self.call_at(now, out, |node, out| node.handle_unread(now, conn, out));
    }

    fn handle_durable(&mut self, now: ClockReading, position: u64, out: &mut Outbox) {
        self.call_at(now, out, |node, out| node.handle_durable(now, position, out));
    }

    fn expect_more(&mut self) {
        self.node.expect_more();
    }

    fn handle_batch(&mut self, now: ClockReading, out: &mut Outbox) {
        self.call_at(now, out, |node, out| node.handle_batch(now, out));
    }

    fn expect_filter(&mut self) {
        self.confirmed = Some(Box::default());
    }

    fn handle_dropped(&mut self, _now: ClockReading, copies: &[DroppedCopy]) {
        let Some(confirmed) = &self.confirmed else { return };
        for copy in copies {
            if let Some((epoch, body)) = confirmed.of(copy.name) {
                self.link.note_unsealed(copy.sender);
                let header = HopHeader::new(FrameKind::Data, copy.sender, epoch);
                self.node.note_copy(copy.came, &header, &body);
            }
        }
    }

    fn expect_arrival(&mut self, came: Nanos) {
        self.node.expect_arrival(came);
    }

    fn wants_stream(&self, conn: ConnId) -> bool {
        self.node.wants_stream(conn)
    }
}
