//! What nodes and loops have counted, as samples: nothing is counted here.

use std::sync::Arc;

use exchange::{Capacity, Edge, Member, Role, Root};
use monitoring::metric::{Label, Samples};
use net::Counters;
use overlay::proxy::Proxy;
use replication::ReplicaId;
use types::{ClockReading, InstrumentId, NodeId, RejectReason};

use super::metrics as m;

/// Reasons of the engine's refusals and their words.
const REASONS: [(RejectReason, &str); 27] = {
    use RejectReason as R;
    [
        (R::UnknownInstrument, "unknown_instrument"),
        (R::InvalidQuantity, "invalid_quantity"),
        (R::InvalidPrice, "invalid_price"),
        (R::PriceTooHigh, "price_too_high"),
        (R::PostOnlyWouldTrade, "post_only_would_trade"),
        (R::UnknownOrder, "unknown_order"),
        (R::MarketClosed, "market_closed"),
        (R::CapacityReached, "capacity_reached"),
        (R::NothingLeft, "nothing_left"),
        (R::Unsupported, "unsupported"),
        (R::NotInThisPhase, "not_in_this_phase"),
        (R::Halted, "halted"),
        (R::PriceCollar, "price_collar"),
        (R::FatFinger, "fat_finger"),
        (R::OrderQuantityLimit, "order_quantity_limit"),
        (R::OrderNotionalLimit, "order_notional_limit"),
        (R::OpenOrdersLimit, "open_orders_limit"),
        (R::PositionLimit, "position_limit"),
        (R::CreditLimit, "credit_limit"),
        (R::MessageRate, "message_rate"),
        (R::DuplicateClOrdId, "duplicate_cl_ord_id"),
        (R::Killed, "killed"),
        (R::InvalidStopPrice, "invalid_stop_price"),
        (R::InvalidQuantityTerms, "invalid_quantity_terms"),
        (R::InvalidExpiry, "invalid_expiry"),
        (R::DuplicateOrder, "duplicate_order"),
        (R::ShardAllotment, "shard_allotment"),
    ]
};

fn level(of: impl Into<u64>) -> f64 {
    of.into() as f64
}

/// A node of a shard, from 0, as a label.
fn named(shard: u16, id: NodeId) -> Label {
    match shard {
        0 => Label::Number(id.0.into()),
        other => Label::Name(format!("{}/{}", other + 1, id.0).into()),
    }
}

/// A node of a shard, from 0. `symbols`: names of the instruments, the first one's first.
pub(super) fn node(
    to: &mut Samples,
    (shard, id): (u16, NodeId),
    (role, reading): (&Role, ClockReading),
    symbols: &[Arc<str>],
) {
    let node = &named(shard, id);
    if let Some(link) = role.link() {
        to.count(&m::SEALED, [node.clone()], link.sealed);
        to.count(&m::OPENED, [node.clone()], link.opened);
        to.count(&m::LINK_REFUSED, [node.clone()], link.refused());
    }
    if let Some(root) = role.as_root() {
        self::root(to, node, root, symbols);
    }
    if let Some(proxy) = role.as_proxy() {
        self::proxy(to, node, proxy);
    }
    if let Some(edge) = role.as_edge() {
        self::edge(to, node, edge, reading);
    }
    if let Some(snapshots) = role.as_snapshots() {
        to.count(&m::SNAPSHOTS, [node.clone()], snapshots.counters().sent);
    }
}

fn root(to: &mut Samples, node: &Label, root: &Root, symbols: &[Arc<str>]) {
    let engine = root.engine();
    let counters = engine.counters();
    for (metric, value) in [
        (&m::INPUTS, engine.applied()),
        (&m::ACCEPTED, counters.accepted),
        (&m::REPLACED, counters.replaced),
        (&m::CANCELED, counters.canceled),
        (&m::TOO_LATE, counters.cancels_too_late),
        (&m::SEQUENCED, root.ingress().sequencer().counters().released),
        (&m::LATE_ORDERS, root.ingress().sequencer().counters().late),
        (&m::SEQUENCER_FULL, root.ingress().sequencer().counters().full),
        (&m::ROOT_MALFORMED, root.counters().malformed),
        (&m::LOG_FULL, root.counters().log_full),
    ] {
        to.count(metric, [node.clone()], value);
    }
    for (reason, word) in REASONS {
        to.count(&m::REJECTED, [node.clone(), word.into()], counters.rejects(reason));
    }
    for (by, value) in
        [("transport", counters.duplicate_transport), ("request", counters.duplicate_request)]
    {
        to.count(&m::REPEATED, [node.clone(), by.into()], value);
    }
    for (number, symbol) in (1..).zip(symbols) {
        let Some(of) = engine.instrument_counters(InstrumentId(number)) else { continue };
        to.count(&m::TRADES, [node.clone(), symbol.into()], of.trades);
        to.count(&m::LOTS, [node.clone(), symbol.into()], of.volume);
    }
    let fill = root.fill();
    let epoch = root.membership().map_or(1, |known| known.tree().epoch);
    let dead: usize = root.publishers().map(|of| of.failover_routes().dead().len()).sum();
    for (metric, value) in [
        (&m::OPEN_ORDERS, engine.open_orders() as u64),
        (&m::DAY_OPEN, engine.is_open().into()),
        (&m::WAITING, root.waiting()),
        (&m::LOG_BYTES, fill.log.0),
        (&m::STREAM_BYTES, fill.streams.0),
        (&m::HELD_BACK, fill.held_back.into()),
        (&m::DEAD_PROXIES, dead as u64),
        (&m::TREE_EPOCH, epoch.into()),
    ] {
        to.level(metric, [node.clone()], level(value));
    }
    root.capacities().iter().for_each(|of| capacity(to, node, of));
    let ingress = root.ingress().counters();
    for (outcome, value) in [
        ("taken", ingress.taken),
        ("duplicate", ingress.duplicates),
        ("refused", ingress.refused),
        ("no_room", ingress.full),
    ] {
        to.count(&m::INGRESS, [node.clone(), outcome.into()], value);
    }
    let (mut stats, mut over_rate) = ([0; 7], 0);
    for (stream, publisher) in root.publishers().enumerate() {
        let of = publisher.stats();
        to.count(&m::PUBLISHED, [node.clone(), stream.into()], of.messages);
        to.count(&m::PACKETS, [node.clone(), stream.into()], of.datagrams);
        to.count(&m::DEADLINES, [node.clone(), stream.into()], of.deadlines);
        let store = publisher.store().stats();
        let all = [
            store.repair_requests,
            store.public_requests,
            store.repaired_datagrams,
            store.public_replies,
            store.too_old,
            store.too_early,
            store.refused,
        ];
        stats.iter_mut().zip(all).for_each(|(sum, of)| *sum += of);
        over_rate += publisher.store().answers().over_rate;
    }
    let [receivers_asked, listeners_asked, receivers, listeners, too_old, too_early, refused] =
        stats;
    for (metric, label, value) in [
        (&m::REPAIR_REQUESTS, "receivers", receivers_asked),
        (&m::REPAIR_REQUESTS, "listeners", listeners_asked),
        (&m::REPAIR_ANSWERS, "receivers", receivers),
        (&m::REPAIR_ANSWERS, "listeners", listeners),
        (&m::REPAIR_REFUSED, "too_old", too_old),
        (&m::REPAIR_REFUSED, "too_early", too_early),
        (&m::REPAIR_REFUSED, "no_sense", refused),
        (&m::REPAIR_REFUSED, "over_rate", over_rate),
    ] {
        to.count(metric, [node.clone(), label.into()], value);
    }
    let private = root.private().counters();
    let anew = private.records_sent.saturating_sub(private.records_resent);
    to.count(&m::PRIVATE_SENT, [node.clone(), "first".into()], anew);
    to.count(&m::PRIVATE_SENT, [node.clone(), "again".into()], private.records_resent);
}

fn capacity(to: &mut Samples, node: &Label, of: &Capacity) {
    to.level(&m::CAPACITY_USED, [node.clone(), of.name.into()], level(of.used));
    to.level(&m::CAPACITY_BOUND, [node.clone(), of.name.into()], level(of.bound));
}

fn proxy(to: &mut Samples, node: &Label, proxy: &Proxy) {
    let stats = proxy.stats();
    let queue = stats.upstream.queue;
    for (metric, value) in [
        (&m::COPIES, stats.received),
        (&m::DUPLICATES, stats.filter.duplicates),
        (&m::MISSING, stats.filter.copies_missing),
        (&m::FORWARDED, stats.copies_sent),
        (&m::ORDERS_UP, stats.orders_up),
        (&m::PROXY_QUEUE, queue.shed_full + queue.shed_account),
    ] {
        to.count(metric, [node.clone()], value);
    }
}

fn edge(to: &mut Samples, node: &Label, edge: &Edge, reading: ClockReading) {
    let gateway = edge.gateway();
    let counters = gateway.counters();
    let (mut resent, mut changes) = (0, 0);
    for uplink in gateway.uplinks() {
        resent += uplink.counters().resent;
        changes += uplink.counters().parent_changes;
    }
    for (metric, value) in [
        (&m::LOGINS, counters.logins),
        (&m::LOGINS_REFUSED, counters.logins_refused),
        (&m::REQUESTS, counters.requests),
        (&m::REPORTS, counters.reports),
        (&m::OVERDUE, counters.overdue),
        (&m::DISCONNECT_CANCELS, counters.disconnect_cancels),
        (&m::RESENT, resent),
        (&m::PARENT_CHANGES, changes),
        (&m::GATEWAY_MALFORMED, counters.malformed),
    ] {
        to.count(metric, [node.clone()], value);
    }
    let throttled = counters.orders_over_rate + counters.cancels_over_rate + counters.suspended;
    for (reason, value) in [
        ("order_rate", counters.orders_over_rate),
        ("cancel_rate", counters.cancels_over_rate),
        ("nothing_logged", counters.suspended),
        ("other", counters.requests_refused.saturating_sub(throttled)),
    ] {
        to.count(&m::REFUSED, [node.clone(), reason.into()], value);
    }
    for (reason, value) in [
        ("violation", counters.violations),
        ("slow_consumer", counters.slow_consumers),
        ("operator", counters.disconnected),
        ("taken_over", counters.taken_over),
    ] {
        to.count(&m::ENDED, [node.clone(), reason.into()], value);
    }
    to.level(&m::SESSIONS, [node.clone()], gateway.logged_on().len() as f64);
    to.level(&m::CONNECTIONS, [node.clone()], gateway.connections() as f64);
    let (waiting, sent) = gateway.requests_waiting();
    to.level(&m::QUEUED, [node.clone(), "waiting".into()], waiting as f64);
    to.level(&m::QUEUED, [node.clone(), "sent".into()], sent as f64);
    exchange::gateway_capacities(gateway).iter().for_each(|of| capacity(to, node, of));
    let (mut all, mut held_ns, mut quarantined) = ([0; 11], 0, false);
    for receiver in edge.receivers() {
        let stats = receiver.stats();
        held_ns += stats.hold_ns_sum;
        quarantined |= receiver.in_quarantine(reading);
        let of = [
            stats.released_messages,
            stats.released_packets,
            stats.skip.messages,
            stats.received,
            stats.filter.duplicates,
            stats.filter.copies_missing,
            stats.late_self,
            stats.late_blocked,
            stats.repairs_requested,
            stats.repairs_filled,
            stats.repairs_useless,
        ];
        all.iter_mut().zip(of).for_each(|(sum, of)| *sum += of);
    }
    let [
        messages,
        packets,
        skipped,
        copies,
        duplicates,
        missing,
        late,
        blocked,
        asked,
        filled,
        useless,
    ] = all;
    for (metric, value) in [
        (&m::RELEASED, messages),
        (&m::RELEASED_PACKETS, packets),
        (&m::SKIPPED, skipped),
        (&m::COPIES, copies),
        (&m::DUPLICATES, duplicates),
        (&m::MISSING, missing),
    ] {
        to.count(metric, [node.clone()], value);
    }
    to.count_ns(&m::HOLD, [node.clone()], held_ns);
    for (metric, label, value) in [
        (&m::LATE, "came_late", late),
        (&m::LATE, "earlier_missing", blocked),
        (&m::REPAIRS, "requested", asked),
        (&m::REPAIRS, "filled", filled),
        (&m::REPAIRS, "useless", useless),
    ] {
        to.count(metric, [node.clone(), label.into()], value);
    }
    to.level(&m::QUARANTINED, [node.clone()], level(quarantined));
}

/// How a replica of the root with that number stands.
pub(super) fn replica(to: &mut Samples, id: u8, member: &Member) {
    let (own, replica) = (u16::from(id), member.replica());
    let (standing, counts) = (replica.standing(), replica.counts());
    for (metric, value) in [
        (&m::REPLICA_LEADING, u64::from(member.leading().is_some())),
        (&m::REPLICA_LEADER, standing.leader.map_or(0, |leader| leader.0.into())),
        (&m::REPLICA_TERM, standing.term),
        (&m::REPLICA_COMMITTED, replica.committed()),
        (&m::REPLICA_LAST, replica.last()),
        (&m::REPLICA_WRITES, replica.writes_waiting() as u64),
        (&m::REPLICA_WAITS, replica.waits().is_some().into()),
    ] {
        to.level(metric, [own.into()], level(value));
    }
    to.count(&m::REPLICA_REFUSED, [own.into()], counts.refused);
    to.count(&m::REPLICA_COMPARED, [own.into()], counts.compared);
    if member.leading().is_some() {
        for (other, _) in replica.membership().members() {
            if let Some(matched) = replica.matched(ReplicaId(other.0)).filter(|_| other.0 != id) {
                let lag = replica.last().saturating_sub(matched);
                to.level(&m::REPLICA_LAG, [own.into(), u16::from(other.0).into()], level(lag));
            }
        }
    }
}

/// What a loop did.
pub(super) fn counters(to: &mut Samples, of: &Arc<str>, counters: &Counters) {
    for (metric, value) in [
        (&m::NET_IN, counters.datagrams_in),
        (&m::NET_OUT, counters.datagrams_out),
        (&m::NET_BYTES_IN, counters.datagram_bytes_in),
        (&m::NET_BYTES_OUT, counters.datagram_bytes_out),
        (&m::NET_BLOCKED, counters.datagrams_blocked),
        (&m::NET_ERRORS, counters.datagram_errors),
        (&m::NET_UNROUTABLE, counters.unroutable),
        (&m::NET_STAMPED, counters.datagrams_stamped),
        (&m::NET_FILTERED, counters.copies_filtered),
        (&m::TCP_ACCEPTED, counters.accepted),
        (&m::JOBS_DROPPED, counters.jobs_dropped),
        (&m::TIMERS, counters.timeouts),
        (&m::TRACES_DROPPED, counters.traces_dropped),
    ] {
        to.count(metric, [of.into()], value);
    }
    to.count_ns(&m::NET_WAIT, [of.into()], counters.datagram_wait_ns);
    to.count_ns(&m::TIMERS_LATE, [of.into()], counters.timeout_late_ns);
    for (metric, label, value) in [
        (&m::TCP_REFUSED, "too_many", counters.refused),
        (&m::TCP_REFUSED, "no_descriptor", counters.accepts_starved),
        (&m::TCP_REFUSED, "slow_consumer", counters.slow_consumers),
        (&m::TLS, "done", counters.handshakes),
        (&m::TLS, "failed", counters.handshakes_failed),
        (&m::TLS, "too_late", counters.handshakes_late),
        (&m::TLS, "no_place", counters.handshakes_refused),
    ] {
        to.count(metric, [of.into(), label.into()], value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_of_a_refusal_has_a_word() {
        for (at, (reason, word)) in REASONS.iter().enumerate() {
            assert_eq!(*reason as usize, at + 1, "{word}");
        }
        assert_eq!(REASONS.len(), RejectReason::ShardAllotment as usize);
    }
}
