//! Reports that print wait for their public tick, in stream order; for at most the maximum hold once the
//! tick is known to be public elsewhere.

use types::{
    AccountId, CancelReason, ExecutionKind, ExecutionReport, FeedSeq, Liquidity, RejectReason,
};

use crate::bench::{Bench, HOLD_NS, MS, SECOND, report};

/// Most that may wait when the stream was paused: the bound, one datagram and the early ones.
const HELD_MAX: u64 = 8_192 + 15 + 32 * 15;

#[test]
fn nothing_held_means_at_once() {
    let mut bench = Bench::new();
    bench.login(1, 1);
    bench.root.tell(report(1, 1, 0));
    bench.settle();
    assert_eq!(bench.client(1).user_refs(), [1]);
    bench.watermark(9);
    bench.root.tell(report(1, 2, 9));
    bench.settle();
    assert_eq!(bench.client(1).user_refs(), [1, 2], "public already");
}

#[test]
fn executions_wait_for_the_watermark_in_order() {
    let mut bench = Bench::new();
    bench.login(1, 1);
    bench.login(2, 2);
    for (user_ref, public_after) in [(1, 0), (2, 5), (3, 0), (4, 7), (5, 6), (6, 0)] {
        bench.root.tell(report(1, user_ref, public_after));
    }
    bench.root.tell(report(2, 1, 0));
    bench.settle();
    assert_eq!(bench.client(1).user_refs(), [1]);
    assert_eq!(bench.client(2).user_refs(), [1], "another account does not wait");
    bench.watermark(4);
    assert_eq!(bench.client(1).user_refs(), [1]);
    bench.watermark(5);
    assert_eq!(bench.client(1).user_refs(), [1, 2, 3]);
    bench.watermark(3);
    bench.watermark(6);
    assert_eq!(bench.client(1).user_refs(), [1, 2, 3]);
    bench.watermark(7);
    assert_eq!(bench.client(1).user_refs(), [1, 2, 3, 4, 5, 6]);
    assert!((1..).zip(&bench.client(1).sequenced).all(|(n, (seq, _))| *seq == n));
    let counters = bench.gateway.counters();
    assert_eq!((counters.overdue, counters.reports, counters.unencodable), (0, 7, 0));
}

#[test]
fn every_kind_of_report_waits_when_it_prints_and_only_then() {
    use ExecutionKind::{
        Accepted, CancelRejected, Canceled, Executed, MassCanceled, Rejected, Replaced, Restated,
        TradeBroken, TradeCorrected, Triggered,
    };
    let kinds = [
        (Accepted, 'A'),
        (Rejected, 'J'),
        (Canceled, 'C'),
        (Executed, 'E'),
        (Replaced, 'U'),
        (CancelRejected, 'I'),
        (Restated, 'R'),
        (Triggered, 'R'),
        (TradeBroken, 'B'),
        (TradeCorrected, 'B'),
        (MassCanceled, 'X'),
    ];
    for (kind, byte) in kinds {
        let mut bench = Bench::new();
        bench.login(1, 1);
        let tell = |bench: &mut Bench, public_after| {
            bench.root.tell(ExecutionReport {
                kind,
                reject: RejectReason::PositionLimit,
                cancel_reason: CancelReason::Disconnect,
                liquidity: Liquidity::ClosingCross,
                public_after: FeedSeq(public_after),
                ..report(1, 1, 0)
            });
            bench.settle();
            let heard = bench.client(1).sequenced.iter().map(|(_, message)| char::from(message[0]));
            heard.collect::<String>()
        };
        assert_eq!(tell(&mut bench, 0), byte.to_string(), "{kind:?} that prints nothing");
        assert_eq!(tell(&mut bench, 5), byte.to_string(), "{kind:?} before its tick");
        bench.watermark(5);
        assert_eq!(bench.client(1).sequenced.len(), 2, "{kind:?} after its tick");
        assert_eq!(bench.gateway.counters().unencodable, 0, "{kind:?}");
    }
}

#[test]
fn a_hold_ends_at_its_maximum_and_is_counted() {
    let mut bench = Bench::new();
    bench.login(1, 1);
    bench.public(6);
    bench.root.tell(report(1, 1, 5));
    bench.settle();
    bench.run(10 * MS);
    for (user_ref, public_after) in [(2, 0), (3, 6), (4, 1)] {
        bench.root.tell(report(1, user_ref, public_after));
    }
    bench.settle();
    bench.run(HOLD_NS - 10 * MS - 1);
    assert!(bench.client(1).sequenced.is_empty());
    bench.run(1);
    assert_eq!(bench.client(1).user_refs(), [1, 2], "exactly at the maximum");
    assert_eq!(bench.gateway.counters().overdue, 1);
    bench.watermark(2);
    bench.run(10 * MS);
    assert_eq!(bench.client(1).user_refs(), [1, 2, 3, 4]);
    assert_eq!(bench.gateway.counters().overdue, 2, "what waited behind was public by then");
}

#[test]
fn a_tick_that_is_not_known_to_be_public_is_waited_for_beyond_the_maximum() {
    let mut bench = Bench::new();
    bench.login(1, 1);
    bench.client_mut(1).alive = true;
    bench.public(4);
    bench.root.tell(report(1, 1, 5));
    bench.settle();
    bench.run(20 * HOLD_NS);
    assert!(bench.client(1).sequenced.is_empty());
    bench.public(5);
    bench.run(10 * MS);
    assert_eq!(bench.client(1).user_refs(), [1]);
    assert_eq!(bench.gateway.counters().overdue, 1);
}

#[test]
fn what_was_held_when_a_client_left_comes_again() {
    let mut bench = Bench::new();
    bench.login(1, 1);
    bench.root.tell(report(1, 1, 0));
    bench.root.tell(report(1, 2, 5));
    bench.settle();
    let soup = bench.client(1).soup.clone();
    assert_eq!(soup.next_seq(), 2);
    bench.close(1);
    bench.run(2 * HOLD_NS);
    bench.connect_again(2, soup);
    assert!(bench.ask_in(2).starts_with('A'));
    assert!(bench.client(2).sequenced.is_empty());
    bench.watermark(5);
    assert_eq!(bench.client(2).user_refs(), [2]);
    assert_eq!(bench.client(2).sequenced[0].0, 2);
}

#[test]
fn a_stream_that_waits_too_long_is_paused_and_goes_on_at_once() {
    let mut bench = Bench::new();
    bench.login(1, 1);
    bench.login(2, 2);
    let all = 20_000;
    (1..=all).for_each(|n| bench.root.tell(report(1, n, 5)));
    bench.settle();
    let taken = bench.gateway.private().counters().delivered;
    assert!((8_192..=HELD_MAX).contains(&taken), "{taken} wait");
    assert!(bench.client(1).sequenced.is_empty());
    bench.run(HOLD_NS / 2);
    let next = bench.root.private_acks.iter().map(|ack| ack.next).max();
    assert_eq!(next, Some(taken + 1), "what was dropped is not acknowledged");
    bench.root.tell(report(2, 1, 0));
    bench.settle();
    assert_eq!(bench.client(2).user_refs(), [1], "others go on");
    // No time passes: with room again, the gateway itself asks for what it dropped.
    bench.watermark(5);
    assert_eq!(bench.client(1).sequenced.len(), all as usize);
    assert_eq!(bench.client(1).user_refs(), (1..=all).collect::<Vec<_>>());
    assert_eq!(bench.gateway.counters().overdue, 0);
}

#[test]
fn a_paused_stream_goes_on_when_its_holds_run_out() {
    let mut bench = Bench::new();
    bench.login(1, 1);
    bench.client_mut(1).alive = true;
    bench.public(5);
    let all = 20_000u64;
    (1..=all as u32).for_each(|n| bench.root.tell(report(1, n, 5)));
    bench.settle();
    // Three lots at most, each waiting for the maximum.
    bench.run(3 * HOLD_NS + 5 * MS);
    assert_eq!(bench.client(1).sequenced.len() as u64, all);
    assert_eq!(bench.gateway.counters().overdue, all);
    assert!(bench.root.attached.contains_key(&AccountId(1)));
    bench.run(SECOND);
    assert!(!bench.client(1).closed);
}
