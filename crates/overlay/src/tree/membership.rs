//! The root's view of its nodes: who answers, and which tree everybody knows.
//!
//! A roll call goes to every node each `every_ns`: the present tree, or the next one while a change
//! is under way; nodes answer with the epochs they know and live in. A proxy that leaves `patience`
//! calls in a row unanswered, and is silent four times as long as the slowest answer took lately,
//! is dead: the publisher is told, spreads the word, and everybody sends around it until it answers
//! again. Calls count only when they were made, so a root that slept thinks nobody dead; nor does
//! one that nobody answers, and the last of a layer stays. Whoever is thought dead by mistake loses
//! nothing but its work.
//!
//! A change of tree: [`Membership::change_tree`] begins to tell the next tree, after
//! `change_every_ns` and ever more slowly to those who have not said that they know it. Once all
//! that live do, the publisher changes with its next datagram, and everybody else with the first
//! datagram of the new epoch. Nodes know both trees meanwhile, so nothing is lost, repeated or
//! reordered. A proxy that does not come to know the tree within `change_patience_ns` is taken for
//! dead; a receiver is not waited for, it hears of the tree by later calls.

use types::{Nanos, NodeId, Outbox};

use crate::{
    control::{self, ControlHeader, ControlKind, StatusBody, TreeBody, tree_tail},
    feed::publisher::Publisher,
    tree::topology::{ROOT, Tree},
    tree::trips::Trips,
};

/// How often nodes are called, and how long they are waited for; times in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RollCallConfig {
    /// Time between two roll calls, ns.
    pub every_ns: u64,
    /// Unanswered calls after which a proxy is dead.
    pub patience: u32,
    /// Between the first two calls to those who do not know the next tree; doubles.
    pub change_every_ns: u64,
    /// The longest a change waits for anybody, or four times as long as the slowest answer took.
    pub change_patience_ns: u64,
}

impl Default for RollCallConfig {
    fn default() -> Self {
        RollCallConfig {
            every_ns: 50 * Nanos::MILLI,
            patience: 6,
            change_every_ns: 5 * Nanos::MILLI,
            change_patience_ns: Nanos::SECOND,
        }
    }
}

/// A change of tree that is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Changed {
    /// Epoch that begins.
    pub epoch: u32,
    /// Time at which the change was asked for.
    pub asked_at: Nanos,
    /// Time from the request until every node knew the tree and the publisher changed to it, ns.
    pub prepared_ns: u64,
    /// Time from then until every living node was known to be in the tree, ns; 0 until then.
    pub settled_ns: u64,
}

/// A proxy that was found dead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Death {
    /// The node that answers no more.
    pub node: NodeId,
    /// Time at which all nodes were told.
    pub at: Nanos,
    /// Since its last answer, in ns.
    pub silent_ns: u64,
}

/// What roll calls have counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MembershipStats {
    /// Number of roll calls sent.
    pub calls: u64,
    /// Number of answers received.
    pub answers: u64,
    /// Proxies that answered again after they had been taken for dead.
    pub returned: u64,
    /// Nodes that a change did not wait for.
    pub left_behind: u64,
    /// Number of answers that could not be read, or came from nodes that were not called.
    pub malformed: u64,
}

/// Number of changes and deaths that are remembered.
const REMEMBERED: usize = 256;

struct Member {
    node: NodeId,
    proxy: bool,
    dead: bool,
    known: u32,
    present: u32,
    /// Calls since the last answer, and when the first of them was.
    unanswered: u32,
    called_at: Nanos,
    heard_at: Nanos,
    trips: Trips,
}

/// The membership of one tree; a part of the root.
pub struct Membership {
    config: RollCallConfig,
    tree: Tree,
    /// Members, in order of their node numbers.
    members: Vec<Member>,
    /// The tree to come, and when it was asked for.
    next: Option<(Tree, Nanos)>,
    call_at: Nanos,
    /// Calls since a change was asked for.
    calls: u32,
    /// How long the slowest answer took lately, in ns.
    slowest_ns: u64,
    /// Time of the last answer from any node.
    heard_at: Nanos,
    changed: Vec<Changed>,
    deaths: Vec<Death>,
    stats: MembershipStats,
}

impl Membership {
    /// Membership in which all nodes live; the first roll call is due at once.
    pub fn new(tree: Tree, config: RollCallConfig) -> Membership {
        let member = |(node, proxy)| Member {
            node,
            proxy,
            dead: false,
            known: tree.epoch,
            present: tree.epoch,
            unanswered: 0,
            called_at: Nanos(0),
            heard_at: Nanos(0),
            trips: Trips::default(),
        };
        let proxies = tree.topology.proxy_ids().map(|node| (node, true));
        let receivers = tree.topology.receiver_ids().map(|node| (node, false));
        let mut members: Vec<Member> = proxies.chain(receivers).map(member).collect();
        members.sort_unstable_by_key(|member| member.node);
        let (changed, deaths) = (Vec::new(), Vec::new());
        let stats = MembershipStats::default();
        Membership {
            config,
            tree,
            members,
            next: None,
            call_at: Nanos(0),
            calls: 0,
            slowest_ns: 0,
            heard_at: Nanos(0),
            changed,
            deaths,
            stats,
        }
    }

    /// The tree of the present epoch.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Whether a change is under way.
    pub fn is_changing(&self) -> bool {
        self.next.is_some()
    }

    /// Changes of the tree so far, oldest first.
    pub fn changed(&self) -> &[Changed] {
        &self.changed
    }

    /// Proxies found dead so far, those that returned among them.
    pub fn deaths(&self) -> &[Death] {
        &self.deaths
    }

    /// Proxies that have not answered for this long, ns, although they were called and others
    /// answered; includes the last proxy of a layer, which no other can stand in for.
    pub fn silent_for(&self, now: Nanos, ns: u64) -> impl Iterator<Item = NodeId> {
        let silent = move |member: &&Member| {
            let called_ns = now.since(member.called_at);
            let others_answer = self.heard_at > member.called_at;
            member.proxy
                && member.unanswered >= self.config.patience
                && called_ns >= ns
                && others_answer
        };
        self.members.iter().filter(silent).map(|member| member.node)
    }

    /// Median round trip of every proxy that answers, in ns; none until it has answered often
    /// enough.
    pub fn round_trips(&self) -> impl Iterator<Item = (NodeId, Option<u64>)> {
        let proxies = self.members.iter().filter(|member| member.proxy && !member.dead);
        proxies.map(|member| (member.node, member.trips.median_ns()))
    }

    /// What was counted since the start.
    pub fn stats(&self) -> MembershipStats {
        self.stats
    }

    /// Begins to move all nodes to a tree of a later epoch, in place of a change that is going on.
    /// Nodes keep their numbers. False for an earlier epoch or other receivers.
    pub fn change_tree(&mut self, now: Nanos, tree: Tree, out: &mut Outbox) -> bool {
        if !self.is_like(&tree) || tree.epoch <= self.wanted() {
            return false;
        }
        let asked_at = self.next.as_ref().map_or(now, |(_, asked_at)| *asked_at);
        self.next = Some((tree, asked_at));
        self.calls = 0;
        self.call(now, out);
        true
    }

    /// Takes over a tree to which another root has changed or is changing, and tells all nodes of
    /// it as the present one. False for an earlier epoch or other receivers.
    pub fn adopt(&mut self, tree: Tree, publisher: &mut Publisher) -> bool {
        if !self.is_like(&tree) || tree.epoch <= self.tree.epoch {
            return false;
        }
        publisher.change_tree(tree);
        (self.tree, self.next) = (tree, None);
        true
    }

    /// Begins to call, after another root did: nobody has left a call of this one unanswered.
    pub fn begin(&mut self) {
        for member in &mut self.members {
            (member.unanswered, member.dead) = (0, false);
        }
        (self.call_at, self.calls) = (Nanos(0), 0);
    }

    /// Whether it has the same receivers and is of the same stream.
    fn is_like(&self, tree: &Tree) -> bool {
        let same = tree.topology.receiver_ids().eq(self.tree.topology.receiver_ids());
        same && tree.stream == self.tree.stream
    }

    /// Handles a node's answer to a roll call.
    pub fn handle_status(
        &mut self,
        now: Nanos,
        sender: NodeId,
        body: &StatusBody,
        publisher: &mut Publisher,
        out: &mut Outbox,
    ) {
        let Ok(place) = self.members.binary_search_by_key(&sender, |member| member.node) else {
            self.stats.malformed += 1;
            return;
        };
        let member = &mut self.members[place];
        self.stats.answers += 1;
        (member.known, member.present) = (member.known.max(body.known), body.present);
        let unanswered = std::mem::take(&mut member.unanswered);
        if unanswered == 1 {
            // Of several calls nobody knows which one is answered.
            member.trips.add(now.since(member.called_at));
        }
        if unanswered > 0 {
            self.slowest_ns = self.slowest_ns.max(now.since(member.called_at));
        }
        member.heard_at = now;
        self.heard_at = now;
        if std::mem::take(&mut member.dead) {
            self.stats.returned += 1;
            self.tell_dead(publisher, out);
        }
        self.settle(now, publisher, out);
    }

    /// Calls when it is time, and draws conclusions from silence.
    pub fn handle_timeout(&mut self, now: Nanos, publisher: &mut Publisher, out: &mut Outbox) {
        if now < self.call_at {
            return;
        }
        let patient_ns = self.slowest_ns.saturating_mul(4);
        let change_ns = self.config.change_patience_ns.max(patient_ns);
        let overdue = self.next.as_ref().is_some_and(|(_, since)| now.since(*since) >= change_ns);
        let wanted = self.wanted();
        let mut died = false;
        for place in 0..self.members.len() {
            let member = &self.members[place];
            let silent = self.is_silent(now, member, patient_ns);
            if !(silent || (overdue && member.known < wanted)) || !self.may_die(member) {
                continue;
            }
            let (node, silent_ns) = (member.node, now.since(member.heard_at));
            self.members[place].dead = true;
            died = true;
            if self.deaths.len() < REMEMBERED {
                self.deaths.push(Death { node, at: now, silent_ns });
            }
        }
        // Again and again, for whoever did not hear it.
        if died || self.members.iter().any(|member| member.dead) {
            self.tell_dead(publisher, out);
        }
        if overdue {
            let behind = |member: &&Member| !member.dead && member.known < wanted;
            self.stats.left_behind += self.members.iter().filter(behind).count() as u64;
            self.go(now, publisher, out);
        }
        self.settle(now, publisher, out);
        self.call(now, out);
    }

    /// Next time at which [`Membership::handle_timeout`] has something to do.
    pub fn next_timeout(&self) -> Nanos {
        self.call_at
    }

    /// Whether a node was called often and long enough, and others answered meanwhile.
    fn is_silent(&self, now: Nanos, member: &Member, patient_ns: u64) -> bool {
        let least_ns = self.config.every_ns.saturating_mul(self.config.patience.into());
        let for_ns = now.since(member.called_at);
        member.unanswered >= self.config.patience
            && for_ns >= least_ns.max(patient_ns)
            && self.heard_at > member.called_at
    }

    /// Only proxies, and never the last one of a layer, whom nobody could stand in for.
    fn may_die(&self, member: &Member) -> bool {
        let Some(siblings) = self.tree.topology.plane_siblings(member.node) else {
            return member.proxy && !member.dead;
        };
        let others = self.members.iter().filter(|other| {
            let place = self.tree.topology.seating().place(other.node);
            !other.dead && other.node != member.node && siblings.contains(&place)
        });
        member.proxy && !member.dead && others.count() > 0
    }

    fn wanted(&self) -> u32 {
        self.next.as_ref().map_or(self.tree.epoch, |(tree, _)| tree.epoch)
    }

    fn call(&mut self, now: Nanos, out: &mut Outbox) {
        let tree = self.next.as_ref().map_or(&self.tree, |(tree, _)| tree);
        let (wanted, changing) = (tree.epoch, self.next.is_some());
        let unsettled = self.changed.last().is_some_and(|changed| changed.settled_ns == 0);
        self.slowest_ns -= self.slowest_ns / 16;
        let (body, tail) = (TreeBody::of(tree), tree_tail(tree));
        let header = ControlHeader::new(ControlKind::Tree, ROOT, self.tree.epoch, self.tree.stream);
        for member in &mut self.members {
            if !changing || member.known < wanted {
                control::send(out, member.node, header, &body, &tail);
                if member.unanswered == 0 {
                    member.called_at = now;
                }
                member.unanswered = member.unanswered.saturating_add(1);
            }
        }
        self.stats.calls += 1;
        let often_ns = self.config.change_every_ns << self.calls.min(16);
        let wait_ns = match changing || unsettled {
            true => often_ns.min(self.config.every_ns),
            false => self.config.every_ns,
        };
        self.calls = self.calls.saturating_add(1);
        self.call_at = now + wait_ns.max(1);
    }

    /// Changes when all that live know the tree, and notes when all live in it.
    fn settle(&mut self, now: Nanos, publisher: &mut Publisher, out: &mut Outbox) {
        let wanted = self.wanted();
        let ready = |member: &Member| member.dead || member.known >= wanted;
        if self.next.is_some() && self.members.iter().all(ready) {
            self.go(now, publisher, out);
        }
        let epoch = self.tree.epoch;
        // Proxies that are idle in the tree hear nothing of its epoch.
        let topology = &self.tree.topology;
        let idle = |node| topology.plane_siblings(node).is_none();
        let there = |member: &Member| member.dead || member.present >= epoch || idle(member.node);
        if let Some(last) = self.changed.last_mut().filter(|changed| changed.settled_ns == 0)
            && self.next.is_none()
            && self.members.iter().all(there)
        {
            last.settled_ns = now.since(last.asked_at).max(1);
        }
    }

    fn go(&mut self, now: Nanos, publisher: &mut Publisher, out: &mut Outbox) {
        let Some((tree, asked_at)) = self.next.take() else { return };
        publisher.change_tree(tree);
        self.tree = tree;
        if self.changed.len() == REMEMBERED {
            self.changed.remove(0);
        }
        let prepared_ns = now.since(asked_at);
        self.changed.push(Changed { epoch: tree.epoch, asked_at, prepared_ns, settled_ns: 0 });
        if self.members.iter().any(|member| member.dead) {
            self.tell_dead(publisher, out);
        }
    }

    fn tell_dead(&mut self, publisher: &mut Publisher, out: &mut Outbox) {
        let dead = self.members.iter().filter(|member| member.dead).map(|member| member.node);
        publisher.set_dead(&dead.collect::<Vec<_>>(), out);
    }
}
