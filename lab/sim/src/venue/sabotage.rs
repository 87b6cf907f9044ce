//! Injected bugs: a checker that never fails proves nothing, so tests make the exchange misbehave
//! in one way each and expect the checker of that way to say so.
//!
//! Most forge datagrams on their way, or build nodes of another configuration; those called bugs of
//! the code have the nodes themselves take a wrong turn, in the code they run in production.

use exchange::{ExchangeConfig, Role};
use overlay::{
    all_reduce::DelayLimits,
    frame::{self, DataBody, FrameKind, HopHeader, PrivateBody},
    proxy::{Proxy, ProxyConfig},
};
use types::{Channel, ExecutionKind, ExecutionReport, FeedSeq, Nanos, NodeId};
use wire::moldudp::Packet;
use zerocopy::{IntoBytes, TryFromBytes};

use crate::world::{Sent, Verdict};

/// How early a receiver with [`Sabotage::EarlyRelease`] hands on.
const EARLY_NS: u64 = 100 * Nanos::MICRO;

/// One way to misbehave.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Sabotage {
    /// None.
    #[default]
    Nothing,
    /// Orders that gateways send again never arrive.
    LoseResends,
    /// One byte of one ITCH message that the last edge hands on is another one.
    FlipReleasedByte,
    /// The last edge hands on at once, whatever the deadline.
    IgnoreHold,
    /// The last edge hands on one packet a second time, in place of a later one.
    ReleaseTwice,
    /// Gateways are told that every execution is public already.
    EarlyExecutions,
    /// One acceptance is turned into an execution report for another order.
    MisdirectAnswer,
    /// The log that is replayed lacks one input.
    ForgetInput,
    /// A bug of the code: proxies compute their children for a layer that is one node short.
    ChildSetOffByOne,
    /// The last edge hands on 100 us before the deadline.
    EarlyRelease,
    /// Gateways do not know whose orders go with a session.
    ForgetLeavers,
    /// The root does not know whose orders go with a gateway.
    ForgetLost,
    /// A bug of the code: orders stay beyond their end.
    ForgetExpiry,
    /// Roots that follow are told that all of the feed is released.
    EagerFollowers,
    /// Retransmission servers of several roots go by clocks that are 10 ms ahead.
    HastyRetransmission,
    /// A bug of the code: a node that starts again has the life of its first start.
    SameLife,
    /// A bug of the code: when keys are exchanged the former ones are given up at once.
    DropFormerKeys,
    /// Who is left out of an exchange of keys has the secret that they are made of.
    LeakSecret,
}

impl Sabotage {
    /// All that do something.
    pub const ALL: [Sabotage; 17] = [
        Sabotage::LoseResends,
        Sabotage::FlipReleasedByte,
        Sabotage::IgnoreHold,
        Sabotage::ReleaseTwice,
        Sabotage::EarlyExecutions,
        Sabotage::MisdirectAnswer,
        Sabotage::ForgetInput,
        Sabotage::ChildSetOffByOne,
        Sabotage::EarlyRelease,
        Sabotage::ForgetLeavers,
        Sabotage::ForgetLost,
        Sabotage::ForgetExpiry,
        Sabotage::EagerFollowers,
        Sabotage::HastyRetransmission,
        Sabotage::SameLife,
        Sabotage::DropFormerKeys,
        Sabotage::LeakSecret,
    ];

    /// The nodes of an exchange as `deploy` builds them, with those that misbehave by themselves in
    /// the place of honest ones.
    pub(super) fn build(
        self,
        config: &ExchangeConfig,
        deploy: impl Fn(&ExchangeConfig) -> Vec<Role>,
    ) -> Vec<Role> {
        let mut nodes = deploy(config);
        let delay = DelayLimits { owd_max_ns: config.delay_cap_ns, ..DelayLimits::default() };
        if matches!(self, Sabotage::ForgetLeavers | Sabotage::ForgetLost) {
            let mut misled = config.clone();
            misled.accounts.iter_mut().for_each(|account| account.cancel_on_disconnect = false);
            for (honest, misled) in nodes.iter_mut().zip(deploy(&misled)) {
                let is_victim = match self {
                    Sabotage::ForgetLost => matches!(misled.plain(), Role::Root(_)),
                    _ => matches!(misled.plain(), Role::Edge(_)),
                };
                if is_victim {
                    *honest = misled;
                }
            }
        }
        for (index, node) in nodes.iter_mut().enumerate() {
            match (self, node) {
                (Sabotage::ChildSetOffByOne, Role::Proxy(proxy)) => {
                    let mut tree = *proxy.tree();
                    tree.topology = tree.topology.with_child_fault();
                    let config = ProxyConfig { delay, ..ProxyConfig::default() };
                    **proxy = Proxy::new(tree, NodeId(index as u16), config);
                }
                (Sabotage::ForgetExpiry, Role::Root(root)) => root.forget_expiry(),
                _ => {}
            }
        }
        nodes
    }
}

/// Messages that pass before the one that is tampered with.
const AFTER: u64 = 200;

/// Tampers with datagrams on their way out of a node.
pub(super) struct Saboteur {
    what: Sabotage,
    victim: usize,
    done: bool,
    last: Vec<u8>,
}

impl Saboteur {
    /// `victim` is the edge that misbehaves, where it is one.
    pub(super) fn new(what: Sabotage, victim: usize) -> Saboteur {
        Saboteur { what, victim, done: false, last: Vec::new() }
    }

    pub(super) fn datagram(&mut self, sent: &Sent<'_>) -> Verdict {
        let forged = match self.what {
            Sabotage::Nothing
            | Sabotage::ForgetInput
            | Sabotage::ChildSetOffByOne
            | Sabotage::ForgetLeavers
            | Sabotage::ForgetLost
            | Sabotage::ForgetExpiry
            | Sabotage::EagerFollowers
            | Sabotage::HastyRetransmission
            | Sabotage::SameLife
            | Sabotage::DropFormerKeys
            | Sabotage::LeakSecret => None,
            Sabotage::LoseResends => {
                let resent = HopHeader::read(sent.bytes)
                    .is_ok_and(|(header, _)| header.kind == FrameKind::Order && header.attempt > 0);
                return if resent { Verdict::Drop } else { Verdict::Pass };
            }
            Sabotage::FlipReleasedByte => self.flip(sent),
            Sabotage::ReleaseTwice => self.repeat(sent),
            Sabotage::IgnoreHold if sent.to == self.victim => forge_deadline(sent.bytes, |_| 0),
            Sabotage::EarlyRelease if sent.to == self.victim => {
                forge_deadline(sent.bytes, |deadline| deadline.saturating_sub(EARLY_NS))
            }
            Sabotage::IgnoreHold | Sabotage::EarlyRelease => None,
            Sabotage::EarlyExecutions => forge_records(sent.bytes, |report| {
                let held = report.public_after != FeedSeq(0);
                report.public_after = FeedSeq(0);
                held
            }),
            Sabotage::MisdirectAnswer if !self.done => forge_records(sent.bytes, |report| {
                let accepted = report.kind == ExecutionKind::Accepted && report.user_ref.0 > 9;
                report.user_ref.0 -= u32::from(accepted);
                accepted
            })
            .inspect(|_| self.done = true),
            Sabotage::MisdirectAnswer => None,
        };
        forged.map_or(Verdict::Pass, Verdict::Rewrite)
    }

    /// The packet, when it is one of the victim's and it is time.
    fn chosen<'a>(&self, sent: &Sent<'a>) -> Option<Packet<'a>> {
        let released = sent.from == self.victim && sent.channel == Channel::FEED;
        let packet = Packet::parse(sent.bytes).ok().filter(|_| released && !self.done)?;
        (packet.seq() > AFTER && !packet.is_heartbeat()).then_some(packet)
    }

    fn flip(&mut self, sent: &Sent<'_>) -> Option<Vec<u8>> {
        self.chosen(sent)?;
        self.done = true;
        let mut bytes = sent.bytes.to_vec();
        *bytes.last_mut()? ^= 1;
        Some(bytes)
    }

    fn repeat(&mut self, sent: &Sent<'_>) -> Option<Vec<u8>> {
        self.chosen(sent)?;
        if self.last.is_empty() {
            self.last = sent.bytes.to_vec();
            return None;
        }
        self.done = true;
        Some(self.last.clone())
    }
}

/// The datagram with another deadline, in ns; 0 for none.
fn forge_deadline(bytes: &[u8], change: impl Fn(u64) -> u64) -> Option<Vec<u8>> {
    let (header, rest) = HopHeader::read(bytes).ok()?;
    if !matches!(header.kind, FrameKind::Data | FrameKind::Repair) {
        return None;
    }
    let (body, packet) = frame::body::<DataBody>(rest).ok()?;
    let deadline = Nanos(change(body.deadline.0));
    let mut forged = Vec::new();
    frame::encode(&mut forged, header, &DataBody { deadline, ..body }, packet);
    Some(forged)
}

/// The private datagram with its records changed, if `change` changes any.
fn forge_records(
    bytes: &[u8],
    mut change: impl FnMut(&mut ExecutionReport) -> bool,
) -> Option<Vec<u8>> {
    let (header, rest) = HopHeader::read(bytes).ok()?;
    if header.kind != FrameKind::Private {
        return None;
    }
    let (body, records) = frame::body::<PrivateBody>(rest).ok()?;
    let (mut payload, mut changed) = (Vec::new(), false);
    for record in records.chunks(size_of::<ExecutionReport>()) {
        let mut report = ExecutionReport::try_read_from_bytes(record).ok()?;
        changed |= change(&mut report);
        payload.extend_from_slice(report.as_bytes());
    }
    let mut forged = Vec::new();
    frame::encode(&mut forged, header, &body, &payload);
    changed.then_some(forged)
}
