//! Any node of a run, so that a driver can host all kinds and give them back afterwards.

use feed::{SnapshotServer, Subscriber};
use overlay::{
    frame::{DataBody, HopHeader},
    key_ring::KeyRing,
    lives::Life,
    proxy::Proxy,
    sealed_link::SealedLinkStats,
};
use participant::Driver;
use types::{Channel, ClockReading, Nanos, NodeId, Outbox};

use crate::{Edge, Member, Root, Sealed, SlowProxy};

/// One node.
pub enum Role {
    /// The exchange itself.
    Root(Box<Root>),
    /// A root that is one of a group.
    Member(Box<Member>),
    /// A proxy of the tree.
    Proxy(Box<Proxy>),
    /// Receiver and gateway.
    Edge(Box<Edge>),
    /// Somebody who listens to a receiver's feed.
    Listener(Box<Subscriber>),
    /// A listener that serves snapshots of its books.
    Snapshots(Box<SnapshotServer>),
    /// The participants.
    Driver(Box<Driver>),
    /// A node whose datagrams are sealed.
    Sealed(Box<Sealed>),
    /// A node that hears everything later, on trial.
    SlowProxy(Box<SlowProxy>),
}

/// Calls a method of whichever node it is.
macro_rules! each {
    ($role:expr, $node:ident => $call:expr) => {
        match $role {
            Role::Root($node) => $call,
            Role::Member($node) => $call,
            Role::Proxy($node) => $call,
            Role::Edge($node) => $call,
            Role::Listener($node) => $call,
            Role::Snapshots($node) => $call,
            Role::Driver($node) => $call,
            Role::Sealed($node) => $call,
            Role::SlowProxy($node) => $call,
        }
    };
}

impl Role {
    /// What it is behind its link and its lag, if it has them.
    pub fn plain(&self) -> &Role {
        match self {
            Role::Sealed(sealed) => sealed.node(),
            Role::SlowProxy(slow) => slow.node().plain(),
            Role::Member(member) => member.role().plain(),
            plain => plain,
        }
    }

    /// What its link did; `None` without one.
    pub fn link(&self) -> Option<SealedLinkStats> {
        match self {
            Role::Sealed(sealed) => Some(sealed.guard_stats()),
            Role::SlowProxy(slow) => slow.node().link(),
            Role::Member(member) => member.role().link(),
            _ => None,
        }
    }

    /// Datagrams of a peer that its link has let in; `None` without a link.
    pub fn heard(&self, peer: NodeId) -> Option<u64> {
        match self {
            Role::Sealed(sealed) => Some(sealed.heard(peer)),
            Role::SlowProxy(slow) => slow.node().heard(peer),
            Role::Member(member) => member.role().heard(peer),
            _ => None,
        }
    }

    /// Begins a key epoch under `ring`, the node's own of another secret, with a life never lived
    /// before; traffic goes on. `false`, and nothing has changed, where datagrams are in clear, the
    /// ring is another node's, or ring or life are in use.
    pub fn rekey(&mut self, now: ClockReading, ring: KeyRing, life: Life) -> bool {
        match self {
            Role::Sealed(sealed) => sealed.rekey(now, ring, life),
            Role::SlowProxy(slow) => slow.node_mut().rekey(now, ring, life),
            Role::Member(member) => member.rekey(now, ring, life),
            _ => false,
        }
    }

    /// As [`Role::rekey`], of the link of one channel: a node that is in several shards has one of each.
    pub fn rekey_channel(
        &mut self,
        now: ClockReading,
        channel: Channel,
        ring: KeyRing,
        life: Life,
    ) -> bool {
        match self {
            Role::Sealed(sealed) => sealed.rekey_channel(now, channel, ring, life),
            Role::SlowProxy(slow) => slow.node_mut().rekey_channel(now, channel, ring, life),
            other => channel == Channel::OVERLAY && other.rekey(now, ring, life),
        }
    }

    /// Calls the root, if it is one, and puts what it wants done into `out`, sealed if that is how
    /// it speaks.
    pub fn with_root<T>(
        &mut self,
        out: &mut Outbox,
        call: impl FnOnce(&mut Root, &mut Outbox) -> T,
    ) -> Option<T> {
        match self {
            Role::Root(root) => Some(call(root, out)),
            Role::Member(member) => member.with_root(out, call),
            Role::Sealed(sealed) => sealed.call(out, |role, out| role.with_root(out, call)),
            Role::SlowProxy(slow) => slow.node_mut().with_root(out, call),
            _ => None,
        }
    }

    /// As [`Role::with_root`], for an edge.
    pub fn with_edge<T>(
        &mut self,
        out: &mut Outbox,
        call: impl FnOnce(&mut Edge, &mut Outbox) -> T,
    ) -> Option<T> {
        match self {
            Role::Edge(edge) => Some(call(edge, out)),
            Role::Sealed(sealed) => sealed.call(out, |role, out| role.with_edge(out, call)),
            Role::SlowProxy(slow) => slow.node_mut().with_edge(out, call),
            _ => None,
        }
    }

    /// The edge, if it is one, for what sends nothing.
    pub fn as_edge_mut(&mut self) -> Option<&mut Edge> {
        match self {
            Role::Edge(edge) => Some(edge),
            Role::Sealed(sealed) => sealed.node_mut().as_edge_mut(),
            Role::SlowProxy(slow) => slow.node_mut().as_edge_mut(),
            _ => None,
        }
    }

    /// The member of a group, if it is one.
    pub fn as_member_mut(&mut self) -> Option<&mut Member> {
        match self {
            Role::Member(member) => Some(member),
            _ => None,
        }
    }

    /// The member of a group, if it is one.
    pub fn as_member(&self) -> Option<&Member> {
        match self {
            Role::Member(member) => Some(member),
            _ => None,
        }
    }

    /// The root, if it is one.
    pub fn as_root(&self) -> Option<&Root> {
        match self.plain() {
            Role::Root(root) => Some(root),
            _ => None,
        }
    }

    /// The proxy, if it is one.
    pub fn as_proxy(&self) -> Option<&Proxy> {
        match self.plain() {
            Role::Proxy(proxy) => Some(proxy),
            _ => None,
        }
    }

    /// The edge, if it is one.
    pub fn as_edge(&self) -> Option<&Edge> {
        match self.plain() {
            Role::Edge(edge) => Some(edge),
            _ => None,
        }
    }

    /// The listener, if it is one.
    pub fn as_listener(&self) -> Option<&Subscriber> {
        match self {
            Role::Listener(listener) => Some(listener),
            Role::Snapshots(server) => Some(server.feed()),
            _ => None,
        }
    }

    /// Takes the packets that a listener recorded since the last time, by session.
    pub fn take_captured(&mut self) -> Vec<Vec<u8>> {
        match self {
            Role::Listener(listener) => listener.take_captured(),
            Role::Snapshots(server) => server.take_captured(),
            _ => Vec::new(),
        }
    }

    /// The snapshot server, if it is one.
    pub fn as_snapshots(&self) -> Option<&SnapshotServer> {
        match self {
            Role::Snapshots(server) => Some(server),
            _ => None,
        }
    }

    /// A copy of market data was dropped in front of the node at `came`: whoever passes it on or releases it
    /// counts it as if it had come.
    pub(crate) fn note_copy(&mut self, came: Nanos, header: &HopHeader, body: &DataBody) {
        match self {
            Role::Proxy(proxy) => proxy.note_copy(header, body),
            Role::Edge(edge) => edge.note_copy(came, header, body),
            _ => {}
        }
    }

    /// The participants, if it is they.
    pub fn as_driver(&self) -> Option<&Driver> {
        match self {
            Role::Driver(driver) => Some(driver),
            _ => None,
        }
    }
}

types::forward_node!(Role, each);
