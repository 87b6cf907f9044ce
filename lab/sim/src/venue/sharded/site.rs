//! A node of a venue of several shards in the world: the very node, with its addresses in the world's
//! terms, and an ear on what an edge says.
//!
//! Each shard numbers its nodes from its root on; a channel says which shard's numbers a node means.

use std::collections::BTreeSet;
use std::sync::Arc;

use overlay::frame::{FrameKind, HopHeader, PrivateBody};
use types::{
    AccountId, Channel, ClockReading, ConnId, ExecutionKind, ExecutionReport, FeedSeq, MergeRecord,
    Nanos, Node, NodeId, Op, Outbox, Peer, Qty, Remote, ShardId,
};
use wire::itch::{self, Message};
use wire::moldudp::Packet;
use wire::ouch::{self, Outbound};
use zerocopy::{FromBytes, IntoBytes, TryFromBytes};

use super::super::actor::Actor;
use super::Mistake;
use super::trader::Trader;
use crate::world::address;

/// Where the nodes of all shards are.
#[derive(Debug)]
pub(super) struct Sites {
    /// By shard: index of its root, behind which its proxies are.
    pub(super) roots: Vec<usize>,
    /// Number of the first edge in every shard, and how many there are.
    pub(super) first_edge: u16,
    pub(super) edges: usize,
    /// Index of the first edge.
    pub(super) edge: usize,
}

impl Sites {
    fn of(&self, shard: ShardId, node: NodeId) -> Option<Peer> {
        let root = *self.roots.get(usize::from(shard.0))?;
        Some(match node.0.checked_sub(self.first_edge) {
            Some(edge) if usize::from(edge) < self.edges => {
                address(self.edge + usize::from(edge), Channel::of_shard(shard))
            }
            Some(_) => return None,
            None => address(root + usize::from(node.0), Channel::OVERLAY),
        })
    }
}

/// What a node is.
pub(super) enum Kind {
    /// Root or proxy of a shard.
    Of(ShardId),
    /// In all of them.
    Edge,
    /// In none.
    Participant,
}

/// Whom the world calls.
pub(super) enum Who {
    Actor(Actor),
    Trader(Box<Trader>),
}

/// A node with its addresses, and what was heard of it if it is an edge.
pub(super) struct Site {
    pub(super) who: Who,
    kind: Kind,
    sites: Arc<Sites>,
    own: Outbox,
    mistake: Option<Mistake>,
    /// Match numbers that an edge has released.
    public: BTreeSet<u64>,
    /// Executions that it told before.
    pub(super) early: u64,
    /// Executions that it told.
    pub(super) told: u64,
}

/// Calls a method of whoever it is.
macro_rules! each {
    ($site:expr, $node:ident => $call:expr) => {
        match $site {
            Who::Actor($node) => $call,
            Who::Trader($node) => $call,
        }
    };
}

impl Site {
    pub(super) fn new(who: Who, kind: Kind, sites: &Arc<Sites>, mistake: Option<Mistake>) -> Site {
        let (sites, own, public) = (sites.clone(), Outbox::default(), BTreeSet::new());
        Site { who, kind, sites, own, mistake, public, early: 0, told: 0 }
    }

    pub(super) fn actor(&self) -> Option<&Actor> {
        match &self.who {
            Who::Actor(actor) => Some(actor),
            Who::Trader(_) => None,
        }
    }

    pub(super) fn actor_mut(&mut self) -> Option<&mut Actor> {
        match &mut self.who {
            Who::Actor(actor) => Some(actor),
            Who::Trader(_) => None,
        }
    }

    pub(super) fn trader(&self) -> Option<&Trader> {
        match &self.who {
            Who::Trader(trader) => Some(trader),
            Who::Actor(_) => None,
        }
    }

    /// Calls it, and puts what it wants into the world's terms.
    pub(super) fn call<T>(
        &mut self,
        out: &mut Outbox,
        call: impl FnOnce(&mut Who, &mut Outbox) -> T,
    ) -> T {
        let mut own = std::mem::take(&mut self.own);
        own.clear();
        let result = call(&mut self.who, &mut own);
        for op in own.ops() {
            self.pass(op, &own, out);
        }
        out.journal(own.journaled());
        self.own = own;
        result
    }

    fn pass(&mut self, op: &Op, own: &Outbox, out: &mut Outbox) {
        match *op {
            Op::Datagram { channel, to, bytes } => {
                let shard = match self.kind {
                    Kind::Of(shard) => Some(shard),
                    _ => channel.shard(),
                };
                let to = match (channel, to, shard) {
                    (Channel::SHARDS, Peer::Node(NodeId(shard)), _) => {
                        let root = self.sites.roots.get(usize::from(shard));
                        root.map(|root| address(*root, Channel::SHARDS))
                    }
                    (_, Peer::Node(node), Some(shard)) => self.sites.of(shard, node),
                    (_, Peer::Node(_), None) => None,
                    (_, to, _) => Some(to),
                };
                let bytes = own.bytes(bytes);
                if matches!(self.kind, Kind::Edge) && channel == Channel::FEED {
                    self.note_public(bytes);
                }
                let forged =
                    (channel == Channel::SHARDS).then(|| self.forge_notes(bytes)).flatten();
                let span = out.store(forged.as_deref().unwrap_or(bytes));
                // The public feed goes to nobody here.
                if let Some(to) = to.filter(|_| channel != Channel::FEED) {
                    out.datagram(Channel::OVERLAY, to, span);
                }
            }
            Op::Stream { conn, bytes } => {
                let bytes = own.bytes(bytes);
                if matches!(self.kind, Kind::Edge) {
                    self.note_told(bytes);
                }
                let span = out.store(bytes);
                out.stream(conn, span);
            }
            Op::Connect { conn, to } => out.connect(conn, to),
            Op::Close { conn } => out.close(conn),
            Op::Work { ticket, bytes } => {
                let span = out.store(own.bytes(bytes));
                out.work(ticket, span);
            }
        }
    }

    /// What an edge has released of trades.
    fn note_public(&mut self, bytes: &[u8]) {
        let Ok(packet) = Packet::parse(bytes) else { return };
        if packet.is_end_of_session() {
            return;
        }
        for message in packet.messages() {
            if let Ok(Message::OrderExecuted(executed)) = itch::parse(message) {
                self.public.insert(executed.match_number.get());
            }
        }
    }

    /// What an edge tells participants: whole packets in each write.
    fn note_told(&mut self, mut bytes: &[u8]) {
        while let Some((length, rest)) = bytes.split_first_chunk::<2>() {
            let length = usize::from(u16::from_be_bytes(*length));
            let Some((packet, after)) = rest.split_at_checked(length) else { return };
            bytes = after;
            if let Some((b'S', message)) = packet.split_first()
                && let Ok(Outbound::OrderExecuted(executed, _)) = ouch::parse_outbound(message)
            {
                self.told += 1;
                self.early += u64::from(!self.public.contains(&executed.match_number.get()));
            }
        }
    }

    /// A root that grants more than its log says.
    fn forge_notes(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        const HEADER: usize = 8;
        let allots = self.mistake == Some(Mistake::GrantsDoubled) && bytes.get(1) == Some(&1);
        let mut forged = allots.then(|| bytes.to_vec())?;
        for note in forged.get_mut(HEADER..)?.chunks_exact_mut(engine::AllotNote::SIZE) {
            if let Some(mut read) = engine::AllotNote::decode(note).filter(|note| note.from_home) {
                read.up += read.up / 2;
                note.copy_from_slice(&read.encode());
            }
        }
        Some(forged)
    }

    /// A datagram as a node with a mistake takes it.
    fn mistaken(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let header = HopHeader::read(bytes).ok()?.0;
        if header.kind != FrameKind::Private {
            return None;
        }
        match self.mistake? {
            Mistake::MergesEarly => with_records(bytes, merge_one_more),
            Mistake::TellsEarly => {
                with_records(bytes, |_, report| report.public_after = FeedSeq(0))
            }
            Mistake::RoutesWrong
            | Mistake::GrantsDoubled
            | Mistake::LeavesOrder
            | Mistake::KeepsOrders
            | Mistake::AnswersForGone
            | Mistake::ForgetsSeen => None,
        }
    }
}

/// A datagram of an account's records, each changed.
fn with_records(bytes: &[u8], change: impl Fn(AccountId, &mut ExecutionReport)) -> Option<Vec<u8>> {
    let from = size_of::<HopHeader>() + size_of::<PrivateBody>();
    let mut forged = bytes.to_vec();
    let body = PrivateBody::read_from_bytes(forged.get(size_of::<HopHeader>()..from)?).ok()?;
    for record in forged.get_mut(from..)?.chunks_exact_mut(size_of::<ExecutionReport>()) {
        let Ok(mut report) = ExecutionReport::try_read_from_bytes(&*record) else { continue };
        change(body.account, &mut report);
        record.copy_from_slice(report.as_bytes());
    }
    Some(forged)
}

/// A reference to one record more than there is in the home's log, where it stands.
fn merge_one_more(account: AccountId, report: &mut ExecutionReport) {
    if report.kind == ExecutionKind::StreamReference && MergeRecord::told(report).is_some() {
        // The same whenever it comes again.
        report.qty = Qty(report.qty.0 + u64::from(account.0 % 2));
    }
}

impl Node for Site {
    fn handle_datagram(
        &mut self,
        now: ClockReading,
        channel: Channel,
        from: Peer,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        let forged = self.mistaken(bytes);
        let bytes = forged.as_deref().unwrap_or(bytes);
        self.call(out, |who, out| {
            each!(who, node => node.handle_datagram(now, channel, from, bytes, out));
        });
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        self.call(out, |who, out| each!(who, node => node.handle_timeout(now, out)));
    }

    fn next_timeout(&self) -> Nanos {
        each!(&self.who, node => node.next_timeout())
    }

    fn handle_connect(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        self.call(out, |who, out| each!(who, node => node.handle_connect(now, conn, out)));
    }

    fn handle_accept(
        &mut self,
        now: ClockReading,
        conn: ConnId,
        remote: &Remote,
        out: &mut Outbox,
    ) {
        self.call(out, |who, out| each!(who, node => node.handle_accept(now, conn, remote, out)));
    }

    fn handle_stream(&mut self, now: ClockReading, conn: ConnId, bytes: &[u8], out: &mut Outbox) {
        self.call(out, |who, out| each!(who, node => node.handle_stream(now, conn, bytes, out)));
    }

    fn handle_close(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        self.call(out, |who, out| each!(who, node => node.handle_close(now, conn, out)));
    }

    fn handle_unread(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        self.call(out, |who, out| each!(who, node => node.handle_unread(now, conn, out)));
    }

    fn wants_stream(&self, conn: ConnId) -> bool {
        each!(&self.who, node => node.wants_stream(conn))
    }
}
