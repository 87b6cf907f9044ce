//! Numbered sessions: a request counts once whoever brings it, and a slot has its place in the
//! account's stream.

use engine::{Applied, Engine};
use types::{
    AccountId, ClOrdId, Command, CommandKind, ExecutionKind, Qty, REFUSED_MASS_CANCEL,
    SESSION_RESET,
};

use crate::bench::{Bench, ONE, buy, cancel, config, replace, sell};

fn numbered(session_seq: u32, command: Command) -> Command {
    Command { session_seq, ..command }
}

fn slot(account: u16, session_seq: u32, flags: u8) -> Command {
    Command {
        account: AccountId(account),
        session_seq,
        flags,
        qty: Qty(77),
        ..Command::new(CommandKind::SessionSlot)
    }
}

#[test]
fn a_request_counts_once_and_its_first_report_carries_its_number() {
    let mut bench = Bench::new();
    bench.taken(sell(2, 1, 5, 100));
    assert_eq!(bench.send(numbered(3, buy(1, 3, 9, 100))), Applied::Done);
    let numbers: Vec<_> =
        bench.out.executions.iter().map(|r| (r.account.0, r.session_seq)).collect();
    assert_eq!(numbers, [(1, 3), (2, 0), (1, 0)], "accepted, then the trade");
    // Another gateway brings it again, under whatever name.
    assert_eq!(bench.send(numbered(3, buy(1, 3, 9, 100))), Applied::DuplicateRequest);
    assert_eq!(bench.send(numbered(2, buy(1, 2, 9, 100))), Applied::DuplicateRequest);
    assert_eq!(bench.send(numbered(3, cancel(1, 3))), Applied::DuplicateRequest);
    assert!(bench.out.executions.is_empty() && bench.out.market.is_empty());
    assert_eq!(bench.send(numbered(4, cancel(1, 3))), Applied::Done);
    assert_eq!(bench.out.executions[0].session_seq, 4);
    // A cancel that is repeated without a number is a cancel that comes too late.
    assert_eq!(bench.send(cancel(1, 3)), Applied::Done);
    assert_eq!(bench.out.executions[0].kind, ExecutionKind::CancelRejected);
    assert_eq!(bench.send(numbered(4, sell(2, 9, 5, 100))), Applied::Done, "numbers are its own");
}

#[test]
fn a_slot_changes_nothing_but_the_stream() {
    let mut bench = Bench::new();
    let before = bench.engine.feed_next();
    assert_eq!(bench.send(slot(1, 5, 0)), Applied::Done);
    let [report] = bench.out.executions[..] else { panic!("one record") };
    assert_eq!((report.kind, report.account), (ExecutionKind::SessionSlot, AccountId(1)));
    assert_eq!((report.session_seq, report.qty, report.flags), (5, Qty(77), 0));
    assert_eq!((bench.out.market.len(), bench.engine.feed_next()), (0, before));
    assert_eq!(bench.send(slot(1, 5, 0)), Applied::Done, "many may follow one message");
    assert_eq!(bench.send(numbered(5, buy(1, 5, 9, 100))), Applied::DuplicateRequest);
    for refused in [slot(0, 5, 0), slot(99, 5, 0), slot(1, 5, 2)] {
        assert_eq!(bench.send(refused), Applied::Refused);
        assert!(bench.out.executions.is_empty());
    }
}

#[test]
fn a_reset_that_comes_late_does_not_reset() {
    let mut bench = Bench::new();
    let flags = |bench: &Bench| bench.out.executions[0].flags;
    bench.send(slot(1, 6, SESSION_RESET));
    assert_eq!(flags(&bench), SESSION_RESET);
    bench.send(slot(1, 6, SESSION_RESET));
    assert_eq!(flags(&bench), 0, "not twice");
    bench.send(numbered(8, buy(1, 8, 9, 100)));
    bench.send(slot(1, 7, SESSION_RESET));
    assert_eq!(flags(&bench), 0, "the session has gone on since");
    bench.send(slot(1, 9, SESSION_RESET));
    assert_eq!(flags(&bench), SESSION_RESET);
}

#[test]
fn numbers_survive_a_snapshot_and_the_end_of_a_day() {
    let mut bench = Bench::new();
    bench.send(numbered(3, buy(1, 3, 9, 100)));
    bench.send(slot(2, 40, 0));
    let mut bytes = Vec::new();
    bench.engine.write_snapshot(&mut bytes);
    let copy = Engine::read_snapshot(config(), &bytes).expect("a good snapshot");
    assert_eq!(copy.state_digest(), bench.engine.state_digest());
    bench.engine = copy;
    assert_eq!(bench.send(numbered(3, buy(1, 3, 9, 100))), Applied::DuplicateRequest);
    bench.operate(CommandKind::EndOfDay, |_| {});
    bench.operate(CommandKind::StartOfDay, |_| {});
    assert_eq!(bench.send(numbered(40, buy(2, 40, 9, 100))), Applied::DuplicateRequest);
    assert_eq!(bench.send(numbered(41, buy(2, 41, 9, 100))), Applied::Done);
    let before = bench.engine.state_digest();
    bench.send(slot(2, 50, 0));
    assert_ne!(bench.engine.state_digest(), before, "the digest knows the numbers");
}

#[test]
fn an_answer_has_the_identifier_of_the_request_and_what_follows_that_of_the_order() {
    let mut bench = Bench::new();
    let named =
        |letter: u8, command: Command| Command { cl_ord_id: ClOrdId([letter; 14]), ..command };
    let ids = |bench: &Bench| -> Vec<(ExecutionKind, u8)> {
        bench.out.executions.iter().map(|r| (r.kind, r.cl_ord_id.0[0])).collect()
    };
    for number in 1..=4 {
        bench.taken(named(b'a', buy(1, number, 5, 100)));
    }
    bench.send(named(b'c', cancel(1, 1)));
    assert_eq!(ids(&bench), [(ExecutionKind::Canceled, b'c')]);
    bench.send(named(b'd', cancel(1, 1)));
    assert_eq!(ids(&bench), [(ExecutionKind::CancelRejected, b'd')]);
    bench.send(Command { cl_ord_id: ClOrdId::default(), ..cancel(1, 2) });
    assert_eq!(ids(&bench), [(ExecutionKind::Canceled, b'a')], "a cancel without a name");
    bench.send(named(b'r', replace(1, 3, 5, 9, 100)));
    assert_eq!(ids(&bench), [(ExecutionKind::Replaced, b'r')]);
    let all = Command { kind: CommandKind::MassCancel, instrument: ONE, ..cancel(1, 6) };
    bench.send(named(b'm', all));
    use ExecutionKind::{Canceled, MassCanceled};
    let mut found = ids(&bench);
    found.sort_by_key(|(_, letter)| *letter);
    assert_eq!(found, [(Canceled, b'a'), (MassCanceled, b'm'), (Canceled, b'r')]);
}

#[test]
fn a_refused_cancel_says_whether_it_was_of_one_or_of_all() {
    let mut bench = Bench::new();
    let flags = |bench: &Bench| {
        let [report] = bench.out.executions[..] else { panic!("one record") };
        assert_eq!(report.kind, ExecutionKind::CancelRejected);
        report.flags
    };
    bench.send(Command { flags: 7, ..cancel(1, 1) });
    assert_eq!(flags(&bench), 0);
    let all = Command { kind: CommandKind::MassCancel, param: 3, ..cancel(1, 2) };
    bench.send(all);
    assert_eq!(flags(&bench), REFUSED_MASS_CANCEL);
}
