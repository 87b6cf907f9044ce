//! A node behind its link: the same contract outside, sealed datagrams instead of clear ones.
//!
//! The node itself is not changed and knows nothing of it. Everything on the overlay channel passes
//! the link both ways; streams and the public feed do not. Whoever calls the node by other ways
//! than [`types::Node`] does it through [`Sealed::call`], or what it sends would be clear and
//! refused everywhere.

use overlay::{
    epochs::GRACE_NS,
    key_ring::KeyRing,
    lives::Life,
    sealed_link::{Fleet, SealedLink, SealedLinkStats},
};
use types::{Channel, ClockReading, ConnId, Nanos, Node, NodeId, Op, Outbox, Peer, Remote, Span};

use crate::Role;

/// A node and its link.
pub struct Sealed {
    node: Role,
    link: SealedLink<KeyRing>,
    /// What the node wants done, in clear.
    clear: Outbox,
    /// When it was called last.
    now: Nanos,
}

impl Sealed {
    /// Puts `link` before `node`.
    pub fn new(node: Role, link: SealedLink<KeyRing>) -> Sealed {
        Sealed { node, link, clear: Outbox::default(), now: Nanos(0) }
    }

    /// Begins a key epoch under `ring`, the node's own of another secret, with a life never lived
    /// before; traffic goes on ([`SealedLink::rekey`]). What its link has to say goes with the
    /// timeout that is due at once. `false`, and nothing has changed, when the ring is another
    /// node's, or ring or life are in use.
    pub fn rekey(&mut self, now: ClockReading, ring: KeyRing, life: Life) -> bool {
        self.now = now.now;
        ring.node() == self.link.node() && self.link.rekey(now.now, ring, life)
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
        let mut send = |to, bytes: &[u8]| {
            let span = out.store(bytes);
            out.datagram(Channel::OVERLAY, Peer::Node(to), span);
        };
        self.link.take_hellos(&mut send);
        self.link.take_held(self.now, send);
    }

    fn pass(&mut self, out: &mut Outbox) {
        // An answer goes before what can only be opened by it.
        self.greet(out);
        // Where the bytes of the last public datagram went, and which sealed one was the last: both
        // often go to several.
        let (mut stored, mut sealed): (Option<(Span, Span)>, Option<Span>) = (None, None);
        for op in self.clear.ops() {
            match *op {
                Op::Datagram { channel: Channel::OVERLAY, to: Peer::Node(to), bytes } => {
                    let again = sealed == Some(bytes);
                    sealed = Some(bytes);
                    let (link, clear, mut sent) = (&mut self.link, self.clear.bytes(bytes), false);
                    let now = self.now;
                    let span =
                        out.write(|buffer| sent = link.seal(now, to, (clear, again), buffer));
                    if sent {
                        out.datagram(Channel::OVERLAY, Peer::Node(to), span);
                    }
                }
                Op::Datagram { channel, to, bytes } => {
                    let span = match stored {
                        Some((clear, span)) if clear == bytes => span,
                        _ => out.store(self.clear.bytes(bytes)),
                    };
                    stored = Some((bytes, span));
                    out.datagram(channel, to, span);
                }
                Op::Stream { conn, bytes } => {
                    let span = out.store(self.clear.bytes(bytes));
                    out.stream(conn, span);
                }
                Op::Connect { conn, to } => out.connect(conn, to),
                Op::Close { conn } => out.close(conn),
                Op::Work { ticket, bytes } => {
                    let span = out.store(self.clear.bytes(bytes));
                    out.work(ticket, span);
                }
            }
        }
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
        if channel == Channel::OVERLAY {
            if let Ok(Some(bytes)) = self.link.open(now.now, bytes) {
                self.node.handle_datagram(now, channel, from, bytes, &mut self.clear);
            }
        } else {
            self.node.handle_datagram(now, channel, from, bytes, &mut self.clear);
        }
        self.pass(out);
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        self.link.handle_timeout(now.now);
        self.call_at(now, out, |node, out| node.handle_timeout(now, out));
    }

    fn next_timeout(&self) -> Nanos {
        self.node.next_timeout().min(self.link.next_timeout())
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

    fn wants_stream(&self, conn: ConnId) -> bool {
        self.node.wants_stream(conn)
    }
}
