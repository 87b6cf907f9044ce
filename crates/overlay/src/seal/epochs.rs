//! The key epochs of one node: the present one and, for a while, those before it.
//!
//! A node whose keys are exchanged lives anew under the new ring beside its former life: it greets
//! all peers again, and what comes under either is opened. From [`SWITCH_NS`] after the exchange it
//! sends under the new keys to every peer with which they are agreed by then, under the former ones
//! to the others; [`GRACE_NS`] after it the former ones are gone. So nodes may exchange their keys
//! at times that differ by less than [`SWITCH_NS`], less the time of agreeing, and nothing is lost;
//! and who is given no new keys is out when its peers' grace is over.
//!
//! A part that goes on through proxies is opened by nodes that have not agreed on anything with the
//! proxy's keys but with its source's, which is why sending does not go over at once.

use types::{Nanos, NodeId};

use crate::{
    seal::SealError,
    seal::lives::{Held, Keys, Life, Link, Links, Session},
    seal::sealed_link::{Fleet, kind_of_shared},
};

/// After an exchange of keys, what is sent goes over to the new ones after this, ns.
pub const SWITCH_NS: u64 = Nanos::SECOND;
/// And the former ones are given up after this, ns.
pub const GRACE_NS: u64 = 3 * Nanos::SECOND;
/// Epochs that are kept at a time; exchanges that follow one another faster end the oldest sooner.
pub const EPOCHS_MAX: usize = 4;

const _: () = assert!(SWITCH_NS < GRACE_NS && EPOCHS_MAX > 1);

/// A key epoch: its keys, the node's life under them, and what was agreed with peers.
pub(crate) struct Epoch<S: Keys> {
    pub(crate) links: Links<S>,
    /// Key for datagrams that this node seals for several others.
    pub(crate) shared_key: S::Key,
    /// It is sent under from then on, to whom there is a session with.
    switch_at: Nanos,
    /// Time at which the epoch ends.
    end: Nanos,
}

impl<S: Keys> Epoch<S> {
    fn new(me: NodeId, fleet: &Fleet, life: Life, keys: S, switch_at: Nanos) -> Option<Epoch<S>> {
        let mut links = Links::new((me, life), keys, fleet.peers(me));
        let shared_key = links.own(kind_of_shared(fleet, me))?;
        // Whoever may ever stand next to it in some tree knows it by then.
        fleet.nodes().for_each(|peer| links.greet(peer));
        Some(Epoch { links, shared_key, switch_at, end: Nanos::NEVER })
    }

    fn session(&self, peer: NodeId) -> Option<&Session<S::Key>> {
        self.links.get(peer)?.session.as_ref()
    }
}

/// All epochs of a node, the newest last; never empty.
pub(crate) struct Epochs<S: Keys> {
    all: Vec<Epoch<S>>,
}

impl<S: Keys> Epochs<S> {
    /// The first; `None` when the cipher can't be set up, or the keys are another node's.
    pub(crate) fn new(me: NodeId, fleet: &Fleet, life: Life, keys: S) -> Option<Epochs<S>> {
        let mut all = Vec::with_capacity(EPOCHS_MAX + 1);
        all.push(Epoch::new(me, fleet, life, keys, Nanos(0))?);
        Some(Epochs { all })
    }

    /// Begins the next. `false`, and nothing has changed, when there are no keys for this node, or
    /// its life or a link secret is one of an epoch that is not over.
    pub(crate) fn begin(
        &mut self,
        now: Nanos,
        (me, life): (NodeId, Life),
        fleet: &Fleet,
        keys: S,
    ) -> bool {
        let Some(mut next) = Epoch::new(me, fleet, life, keys, now.after(SWITCH_NS)) else {
            return false;
        };
        if self.all.iter().any(|epoch| epoch.links.is_alike(&next.links)) {
            return false;
        }
        if let Some(last) = self.all.last_mut() {
            last.end = now.after(GRACE_NS);
            next.links.go_on_from(&last.links);
        }
        self.all.push(next);
        if self.all.len() > EPOCHS_MAX {
            self.all.remove(0);
        }
        assert!((1..=EPOCHS_MAX).contains(&self.all.len()));
        true
    }

    /// Gives up what is over; whether anything was.
    pub(crate) fn retire(&mut self, now: Nanos) -> bool {
        let before = self.all.len();
        if before > 1 {
            self.all.retain(|epoch| epoch.end > now);
            assert!(!self.all.is_empty(), "the newest has no end");
        }
        self.all.len() < before
    }

    pub(crate) fn get(&self, at: usize) -> Option<&Epoch<S>> {
        self.all.get(at)
    }

    pub(crate) fn link_mut(&mut self, at: usize, peer: NodeId) -> Option<&mut Link<S::Key>> {
        self.all.get_mut(at)?.links.get_mut(peer)
    }

    /// The epoch of a peer's session by its tag.
    pub(crate) fn of_session(&self, peer: NodeId, tag: u32) -> Result<usize, SealError> {
        let of = |epoch: &Epoch<S>| epoch.session(peer).is_some_and(|session| session.tag == tag);
        if let Some(at) = self.all.iter().rposition(of) {
            return Ok(at);
        }
        let known = self.all.iter().any(|epoch| epoch.links.get(peer).is_some());
        Err(if known { SealError::Life } else { SealError::Stranger })
    }

    pub(crate) fn session(&self, at: usize, peer: NodeId) -> Option<&Session<S::Key>> {
        self.all.get(at)?.session(peer)
    }

    /// The key of what a node seals for many in the life of this tag.
    pub(crate) fn shared_of(&self, source: NodeId, life: u32) -> Result<&S::Key, SealError> {
        let mut sessions = self.all.iter().rev().filter_map(|epoch| epoch.session(source));
        if let Some(session) = sessions.find(|session| session.life == life) {
            return session.shared.as_ref().ok_or(SealError::Stranger);
        }
        let known = self.all.iter().any(|epoch| epoch.links.get(source).is_some());
        Err(if known { SealError::Life } else { SealError::Stranger })
    }

    /// The epoch under which something goes to a peer now; `None` when no session is agreed with it.
    pub(crate) fn towards(&self, now: Nanos, peer: NodeId) -> Option<usize> {
        let due = |epoch: &Epoch<S>| epoch.switch_at <= now && epoch.session(peer).is_some();
        let at = self.all.iter().rposition(due);
        at.or_else(|| self.all.iter().position(|epoch| epoch.session(peer).is_some()))
    }

    /// The epoch under which what nobody is agreed on yet is sealed now.
    pub(crate) fn due(&self, now: Nanos) -> usize {
        self.all.iter().rposition(|epoch| epoch.switch_at <= now).unwrap_or(0)
    }

    /// Something goes to a peer under an epoch that is not the newest: asks it, if that should be.
    pub(crate) fn hurry(&mut self, now: Nanos, peer: NodeId, at: usize) {
        if at + 1 < self.all.len()
            && let Some(newest) = self.all.last_mut()
            && newest.switch_at <= now
        {
            newest.links.want(now, peer);
        }
    }

    /// A peer's life is needed or doubtful, under whichever keys: asks. Whether it is one.
    pub(crate) fn want(&mut self, now: Nanos, peer: NodeId) -> bool {
        let mut known = false;
        for epoch in &mut self.all {
            known |= epoch.links.get(peer).is_some();
            epoch.links.want(now, peer);
        }
        known
    }

    /// Keeps a datagram until a session with its receiver is agreed; as [`Links::hold`].
    pub(crate) fn hold(
        &mut self,
        now: Nanos,
        peer: NodeId,
        held: (&[u8], Option<(crate::seal::Origin, &[u8])>),
    ) -> bool {
        let holder = self.all.iter_mut().rev().find(|epoch| epoch.links.get(peer).is_some());
        holder.is_some_and(|epoch| epoch.links.hold(now, peer, held))
    }

    pub(crate) fn take_held(&mut self, now: Nanos) -> Vec<(NodeId, Held)> {
        let mut taken = Vec::new();
        for epoch in &mut self.all {
            taken.extend(epoch.links.take_held(now));
        }
        taken
    }

    /// Takes a hello, under whichever keys it was made.
    pub(crate) fn hear(&mut self, now: Nanos, bytes: &[u8]) -> Result<(), SealError> {
        let mut heard = Err(SealError::Format);
        for epoch in self.all.iter_mut().rev() {
            heard = epoch.links.hear(now, bytes);
            if heard != Err(SealError::Stranger) {
                break;
            }
        }
        if self.all.len() > 1
            && let Some(from) = crate::seal::lives::Hello::read(bytes).map(|hello| hello.from)
            && self.all.iter().any(|epoch| epoch.session(from).is_some())
        {
            // What waits in one epoch may go under another.
            self.all.iter_mut().for_each(|epoch| epoch.links.release(from));
        }
        heard
    }

    pub(crate) fn next_timeout(&self) -> Nanos {
        let due = self.all.iter().map(|epoch| epoch.links.next_timeout().min(epoch.end));
        due.min().unwrap_or(Nanos::NEVER)
    }

    pub(crate) fn handle_timeout(&mut self, now: Nanos) {
        self.all.iter_mut().for_each(|epoch| epoch.links.handle_timeout(now));
    }

    /// Whether [`Epochs::take_hellos`] or [`Epochs::take_held`] may have something.
    pub(crate) fn has_news(&self) -> bool {
        self.all.iter().any(|epoch| epoch.links.has_news())
    }

    pub(crate) fn take_hellos(&mut self, mut send: impl FnMut(NodeId, &[u8])) {
        self.all.iter_mut().for_each(|epoch| epoch.links.take(&mut send));
    }
}
