//! A node of the world: one of the very nodes of an exchange, the group of a root that is one of
//! several, with the machines behind it, or somebody who listens.

use exchange::{Edge, Role, Root};
use feed::Subscriber;
use overlay::{proxy::Proxy, sealed_link::SealedLinkStats};
use participant::Driver;
use types::Outbox;

use super::eavesdropper::Eavesdropper;
use super::seat::ReplicaGroup;

/// A node of the venue's world, or a group of replicas in the root's place.
pub(super) enum Actor {
    Role(Role),
    Group(Box<ReplicaGroup>),
    Eavesdropper(Box<Eavesdropper>),
}

/// Calls a method of whichever node it is.
macro_rules! each {
    ($actor:expr, $node:ident => $call:expr) => {
        match $actor {
            Actor::Role($node) => $call,
            Actor::Group($node) => $call,
            Actor::Eavesdropper($node) => $call,
        }
    };
}

impl Actor {
    /// The node; of a group the one that leads.
    pub(super) fn role(&self) -> Option<&Role> {
        match self {
            Actor::Role(role) => Some(role),
            Actor::Group(group) => group.leader(),
            Actor::Eavesdropper(_) => None,
        }
    }

    pub(super) fn group(&self) -> Option<&ReplicaGroup> {
        match self {
            Actor::Role(_) | Actor::Eavesdropper(_) => None,
            Actor::Group(group) => Some(group),
        }
    }

    pub(super) fn group_mut(&mut self) -> Option<&mut ReplicaGroup> {
        match self {
            Actor::Role(_) | Actor::Eavesdropper(_) => None,
            Actor::Group(group) => Some(group),
        }
    }

    pub(super) fn link(&self) -> Option<SealedLinkStats> {
        self.role()?.link()
    }

    pub(super) fn as_root(&self) -> Option<&Root> {
        self.role()?.as_root()
    }

    pub(super) fn as_proxy(&self) -> Option<&Proxy> {
        self.role()?.as_proxy()
    }

    pub(super) fn as_edge(&self) -> Option<&Edge> {
        self.role()?.as_edge()
    }

    pub(super) fn as_listener(&self) -> Option<&Subscriber> {
        self.role()?.as_listener()
    }

    pub(super) fn as_driver(&self) -> Option<&Driver> {
        self.role()?.as_driver()
    }

    /// Calls the root, or the one that leads.
    pub(super) fn with_root<T>(
        &mut self,
        out: &mut Outbox,
        call: impl FnOnce(&mut Root, &mut Outbox) -> T,
    ) -> Option<T> {
        match self {
            Actor::Role(role) => role.with_root(out, call),
            Actor::Group(group) => group.leader_mut()?.with_root(out, call),
            Actor::Eavesdropper(_) => None,
        }
    }
}

types::forward_node!(Actor, each);
