//! The ledger against hand-made traces, in every order they may come.

use proptest::collection::vec;
use proptest::prelude::*;
use telemetry::{DeliveryLedger, LedgerConfig, TraceCounts};
use types::{Nanos, NodeId, SplitMix64, Trace, TracePoint};

const DEADLINE: u64 = 400;

fn ledger(receivers: u16, messages_max: usize) -> DeliveryLedger {
    let receivers = (1..=receivers).map(NodeId).collect();
    DeliveryLedger::new(&LedgerConfig { messages_max, ..LedgerConfig::new(receivers, 10) })
}

fn published(id: u64, at: u64, deadline: u64) -> Trace {
    let point = TracePoint::Published;
    Trace { point, node: NodeId(0), id, at: Nanos(at), value: deadline }
}

fn seen(point: TracePoint, node: u16, id: u64, at: u64) -> Trace {
    Trace { point, node: NodeId(node), id, at: Nanos(at), value: 0 }
}

/// One message sent at `at`: receiver n gets it after 100 n, hands it on at 400 + n.
fn message(id: u64, at: u64, receivers: u16) -> Vec<Trace> {
    let mut traces = vec![published(id, at, at + DEADLINE)];
    for node in 1..=receivers {
        let n = u64::from(node);
        traces.push(seen(TracePoint::Arrived, node, id, at + 100 * n));
        traces.push(seen(TracePoint::Released, node, id, at + DEADLINE + n));
    }
    traces
}

#[test]
fn one_message_gives_the_figures_by_hand() {
    let mut ledger = ledger(3, 8);
    ledger.record_all(&message(1, 1_000, 3));
    let delivery = ledger.delivery();
    assert_eq!((delivery.messages, delivery.on_time, delivery.fair), (1, 1, 1));
    assert_eq!(delivery.oml_arrival_ns.max, 300);
    assert_eq!(delivery.oml_release_ns.max, 403);
    assert_eq!(delivery.dws_ns.max, 2);
    assert!((delivery.hold_ns_mean - (301.0 + 202.0 + 103.0) / 3.0).abs() < 1e-9);
    assert_eq!((delivery.p_on_time, delivery.p_fair), (Some(1.0), Some(1.0)));
    assert_eq!(ledger.receivers()[1].arrival.summary().max, 200);
    assert_eq!(ledger.receivers()[1].release.summary().max, 402);
    assert_eq!(ledger.series().map(|point| point.max_ns).collect::<Vec<_>>(), [2]);
    assert_eq!(ledger.waiting(), 0);
}

#[test]
fn lateness_is_told_apart_and_unfairness_seen() {
    let mut ledger = ledger(2, 8);
    for (id, point, at) in [
        (1, TracePoint::Released, 400),
        (2, TracePoint::ReleasedLate, 405),
        (3, TracePoint::ReleasedBlocked, 450),
        (4, TracePoint::ReleasedLate, 900),
    ] {
        ledger.record_all(&[
            published(id, 0, DEADLINE),
            seen(TracePoint::Arrived, 1, id, 100),
            seen(TracePoint::Arrived, 2, id, 100),
            seen(TracePoint::Released, 1, id, 400),
            seen(point, 2, id, at),
        ]);
    }
    let delivery = ledger.delivery();
    assert_eq!((delivery.late_self, delivery.late_blocked), (2, 1));
    // Message 2 was late by its clock but still within the window of 10 ns.
    assert_eq!((delivery.on_time, delivery.fair), (1, 2));
    assert_eq!((delivery.p_on_time, delivery.p_fair), (Some(0.25), Some(0.5)));
    let late: Vec<_> = ledger.receivers().iter().map(|r| (r.late_self, r.late_blocked)).collect();
    assert_eq!(late, [(0, 0), (2, 1)]);
}

#[test]
fn messages_before_the_first_deadline_count_apart() {
    let mut ledger = ledger(1, 8);
    ledger.record_all(&[
        published(1, 100, 0),
        seen(TracePoint::Arrived, 1, 1, 150),
        seen(TracePoint::Released, 1, 1, 151),
    ]);
    let delivery = ledger.delivery();
    assert_eq!((delivery.messages, delivery.without_deadline), (1, 1));
    assert_eq!((delivery.p_on_time, delivery.p_fair, delivery.dws_ns.count), (None, None, 0));
    assert_eq!((delivery.oml_arrival_ns.max, delivery.oml_release_ns.max), (50, 51));
    assert_eq!((delivery.hold_ns_mean, ledger.series().count()), (0.0, 0));
}

#[test]
fn repeated_and_foreign_reports_change_nothing() {
    let (mut once, mut twice) = (ledger(3, 64), ledger(3, 64));
    for id in 1..=20 {
        let traces = message(id, id * 1_000, 3);
        once.record_all(&traces);
        for trace in &traces {
            twice.record(trace);
            twice.record(&Trace { at: Nanos(u64::MAX), ..*trace });
        }
        twice.record(&seen(TracePoint::Released, 77, id, 5));
    }
    assert_eq!(once.delivery(), twice.delivery());
    let expected =
        TraceCounts { published: 20, duplicates: 140, strangers: 20, ..TraceCounts::default() };
    assert_eq!(twice.counts(), expected);
}

#[test]
fn a_full_ring_gives_up_the_oldest() {
    let mut ledger = ledger(2, 4);
    for id in 1..=4 {
        ledger.record(&published(id, 10, DEADLINE));
    }
    assert_eq!(ledger.waiting(), 4);
    ledger.record_all(&message(5, 1_000, 2));
    assert_eq!((ledger.delivery().messages, ledger.counts().incomplete), (1, 1));
    // Too late for message 1; id 0 is nobody's.
    ledger.record(&seen(TracePoint::Released, 1, 1, 20));
    ledger.record(&published(0, 20, DEADLINE));
    assert_eq!(ledger.counts().stale, 2);
    ledger.finish();
    ledger.finish();
    assert_eq!((ledger.counts().incomplete, ledger.waiting()), (4, 0));
}

#[test]
fn a_lost_arrival_report_costs_only_the_arrival_figure() {
    let mut ledger = ledger(2, 8);
    let mut traces = message(1, 1_000, 2);
    traces.remove(1);
    ledger.record_all(&traces);
    assert_eq!(ledger.delivery().messages, 0);
    ledger.finish();
    let delivery = ledger.delivery();
    assert_eq!((delivery.messages, ledger.counts().incomplete), (1, 0));
    assert_eq!((delivery.oml_arrival_ns.count, delivery.oml_release_ns.count), (0, 1));
    assert!((delivery.hold_ns_mean - 202.0).abs() < 1e-9);
}

#[test]
fn nobody_waits_for_a_dead_receiver() {
    let mut ledger = ledger(3, 64);
    ledger.record_all(&message(1, 1_000, 3));
    // Receiver 3 dies after it got message 2, and before message 3.
    for id in 2..=3 {
        let traces = message(id, id * 1_000, 3);
        ledger.record_all(&traces[..if id == 2 { 6 } else { 5 }]);
    }
    assert_eq!((ledger.delivery().messages, ledger.waiting()), (1, 2));
    ledger.receiver_gone(NodeId(3));
    ledger.receiver_gone(NodeId(3));
    ledger.receiver_gone(NodeId(88));
    assert_eq!((ledger.delivery().messages, ledger.waiting()), (3, 0));
    ledger.record_all(&message(4, 4_000, 2));
    let delivery = ledger.delivery();
    assert_eq!((delivery.messages, delivery.dws_ns.max, delivery.dws_ns.min), (4, 2, 1));
    assert_eq!(ledger.receivers()[2].release.count(), 1);
    // With everybody dead nothing completes, and nothing divides by zero.
    ledger.receiver_gone(NodeId(1));
    ledger.receiver_gone(NodeId(2));
    ledger.record_all(&message(5, 5_000, 3));
    ledger.finish();
    assert_eq!((ledger.delivery().messages, ledger.counts().incomplete), (4, 1));
}

#[test]
fn the_last_full_second_stands_alone() {
    let mut ledger = ledger(2, 64);
    assert_eq!(ledger.last_second().1.messages, 0);
    let sends = [(1, 1_100_000_000), (2, 1_900_000_000), (3, 2_000_000_000), (4, 3_500_000_000)];
    let mut full = Vec::new();
    for (id, at) in sends {
        ledger.record_all(&message(id, at, 2));
        let (start, delivery) = ledger.last_second();
        full.push((start.0 / Nanos::SECOND, delivery.messages));
    }
    assert_eq!(full, [(0, 0), (0, 0), (1, 2), (2, 1)]);
    assert_eq!(ledger.series().count(), 4);
}

#[test]
fn parts_have_figures_of_what_was_sent_in_them() {
    let mut ledger = ledger(2, 64);
    ledger.record_all(&message(1, 500, 2));
    assert!(ledger.begin_part(Nanos(1_000)));
    ledger.record_all(&message(2, 1_000, 2));
    assert!(ledger.begin_part(Nanos(2_000)) && !ledger.begin_part(Nanos(2_000)));
    // Sent in the first part, complete in the second.
    ledger.record_all(&message(3, 1_999, 2));
    ledger.record_all(&message(4, 2_000, 2));
    let parts: Vec<_> = ledger.parts().map(|(at, of)| (at.0, of.messages)).collect();
    assert_eq!(parts, [(1_000, 2), (2_000, 1)]);
    assert_eq!(ledger.delivery().messages, 4);
    let begun = (3..99).filter(|at| ledger.begin_part(Nanos(at * 1_000))).count();
    assert_eq!(begun, 14, "bounded");
}

#[test]
fn warming_up_leaves_no_trace_in_the_figures() {
    let mut ledger = ledger(2, 64);
    ledger.record_all(&message(1, 1_000, 2));
    ledger.record(&published(2, 2_000, DEADLINE));
    ledger.measure_from(Nanos(3_000));
    ledger.record_all(&message(2, 2_000, 2));
    ledger.record_all(&message(3, 3_000, 2));
    assert_eq!((ledger.delivery().messages, ledger.counts().before_measure), (1, 1));
    assert_eq!(ledger.receivers()[0].arrival.count(), 1);
}

proptest! {
    #[test]
    fn the_order_of_reports_does_not_matter(seed: u64, receivers in 1u16..6) {
        let mut rng = SplitMix64::new(seed);
        let mut traces: Vec<Trace> =
            (1..=30).flat_map(|id| message(id, id * 1_000, receivers)).collect();
        let mut straight = ledger(receivers, 32);
        straight.record_all(&traces);
        for i in (1..traces.len()).rev() {
            traces.swap(i, rng.below(i as u64 + 1) as usize);
        }
        let mut shuffled = ledger(receivers, 32);
        shuffled.record_all(&traces);
        prop_assert_eq!(straight.delivery(), shuffled.delivery());
        prop_assert_eq!(shuffled.counts(), straight.counts());
        prop_assert_eq!(shuffled.delivery().messages, 30);
    }

    #[test]
    fn no_traces_make_it_panic_or_lose_count(
        traces in vec((0u8..5, 0u16..5, 0u64..40, any::<u64>(), any::<u64>()), 0..400),
    ) {
        let mut ledger = ledger(3, 8);
        for (point, node, id, at, value) in traces {
            let point = [
                TracePoint::Published,
                TracePoint::Arrived,
                TracePoint::Released,
                TracePoint::ReleasedLate,
                TracePoint::ReleasedBlocked,
            ][usize::from(point)];
            ledger.record(&Trace { point, node: NodeId(node), id, at: Nanos(at), value });
        }
        ledger.finish();
        let (delivery, counts) = (ledger.delivery(), ledger.counts());
        prop_assert!(delivery.messages <= counts.published);
        prop_assert!(delivery.messages + counts.incomplete >= counts.published);
        prop_assert_eq!(ledger.waiting(), 0);
    }
}

#[test]
fn streams_number_their_messages_apart() {
    let config =
        LedgerConfig { messages_max: 16, streams: 2, ..LedgerConfig::new(vec![NodeId(1)], 10) };
    let mut ledger = DeliveryLedger::new(&config);
    let of = |stream, id, at| {
        let named = |trace: Trace| Trace { id: Trace::message(stream, trace.id), ..trace };
        message(id, at, 1).into_iter().map(named).collect::<Vec<_>>()
    };
    // One stream is far ahead of the other; a third one there is not.
    (1..=100).for_each(|id| ledger.record_all(&of(0, id, id)));
    ledger.record_all(&of(1, 1, 5));
    ledger.record_all(&of(2, 1, 5));
    let counts = ledger.counts();
    assert_eq!((ledger.delivery().messages, counts.published, counts.stale), (101, 101, 3));
    assert_eq!((counts.duplicates, counts.incomplete), (0, 0));
}
