//! A snapshot at any position goes on like the engine it was made of; damaged bytes are refused.

use engine::{
    Applied, Config, Engine, JoinToken, Output, RULES_VERSION, SnapshotError, SnapshotHeader,
};
use proptest::prelude::*;
use types::{Command, CommandKind, Input, LimitKind, Nanos, Price};

use crate::bench::{Bench, buy, sell};
use crate::flow::{Flow, config};

/// The inputs of a seed, with the engine that has applied them and all it said.
fn history(seed: u64, inputs: usize) -> (Vec<Input>, Engine) {
    let (mut flow, mut engine) = (Flow::new(seed), Engine::new(config(seed)));
    let (mut log, mut out) = (Vec::new(), Output::default());
    for _ in 0..inputs {
        let input = flow.next_input(engine.books().last_match_number().0);
        out.clear();
        engine.apply(&input, &mut out);
        log.push(input);
    }
    (log, engine)
}

fn bytes(engine: &Engine) -> Vec<u8> {
    let mut bytes = Vec::new();
    engine.write_snapshot(&mut bytes);
    bytes
}

#[test]
fn a_restored_engine_answers_every_further_input_alike() {
    for seed in 1_000..1_060 {
        let (log, _) = history(seed, 400);
        let at = 40 + seed as usize * 7 % 300;
        let mut engine = Engine::new(config(seed));
        let (mut out, mut copy_out) = (Output::default(), Output::default());
        for input in &log[..at] {
            engine.apply(input, &mut out);
        }
        let written = bytes(&engine);
        let header = SnapshotHeader::read(&written).expect("a header");
        assert_eq!((header.applied, header.rules_version), (at as u64, RULES_VERSION));
        let mut copy = Engine::read_snapshot(config(seed), &written).expect("a good snapshot");
        assert_eq!(copy.state_digest(), engine.state_digest(), "seed {seed}");
        assert!(bytes(&copy) == written, "seed {seed}: the same state has the same bytes");
        for (step, input) in log.iter().enumerate().skip(at) {
            out.clear();
            copy_out.clear();
            let applied = engine.apply(input, &mut out);
            assert_eq!(copy.apply(input, &mut copy_out), applied, "seed {seed}, step {step}");
            assert_eq!(copy_out, out, "seed {seed}, step {step}: {input:?}");
        }
        assert_eq!(copy.state_digest(), engine.state_digest(), "seed {seed}");
    }
}

fn kill(bench: &mut Bench, account: u16) {
    bench.operate(CommandKind::Kill, |c| (c.account.0, c.param) = (account, 1));
}

fn bust(bench: &mut Bench, number: u64) {
    bench.operate(CommandKind::BustTrade, |c| c.qty.0 = number);
}

#[test]
fn every_part_of_the_state_is_in_the_digest() {
    let start = || {
        let mut bench = Bench::new();
        bench.taken(buy(1, 1, 5, 100));
        bench.taken(sell(2, 1, 3, 100));
        bench
    };
    let mut digests = vec![start().engine.state_digest()];
    let mut after = |change: fn(&mut Bench)| {
        let mut bench = start();
        change(&mut bench);
        digests.push(bench.engine.state_digest());
    };
    // One input each; most leave no mark but one.
    after(|b| b.limit(1, LimitKind::Credit, 5_000));
    after(|b| b.limit(2, LimitKind::Credit, 5_000));
    after(|b| b.limit(0, LimitKind::Credit, 5_000));
    after(|b| b.limit(1, LimitKind::Position, 5_000));
    after(|b| {
        b.operate(CommandKind::SetNode, |c| *c = JoinToken::grant(1, [1, 1], Nanos(u64::MAX)));
    });
    after(|b| {
        b.operate(CommandKind::SetNode, |c| *c = JoinToken::grant(1, [1, 2], Nanos(u64::MAX)));
    });
    after(|b| kill(b, 3));
    after(|b| kill(b, 4));
    after(|b| bust(b, 1));
    after(|b| bust(b, 2));
    after(|b| {
        b.operate(CommandKind::CorrectTrade, |c| {
            (c.qty.0, c.price, c.min_qty) = (1, Price(90), 3);
        });
    });
    let count = digests.len();
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), count);
}

/// Versions before one-time tokens read what has none; a token that was used is not honoured by who was
/// restored.
#[test]
fn tokens_of_nodes_survive_and_have_a_format_of_their_own() {
    let format = |bytes: &[u8]| bytes[8..12].first_chunk().map(|four| u32::from_le_bytes(*four));
    let mut bench = Bench::new();
    let set =
        |bench: &mut Bench, command: Command| bench.operate(CommandKind::SetNode, |c| *c = command);
    assert_eq!(format(&bytes(&bench.engine)), Some(6));
    let far = Nanos(u64::MAX);
    assert_eq!(set(&mut bench, JoinToken::grant(2, [1, 2], far)), Applied::Done);
    assert_eq!(set(&mut bench, JoinToken::use_up(2, [1, 2], [3, 4], 6)), Applied::Done);
    assert_eq!(set(&mut bench, JoinToken::grant(3, [5, 6], far)), Applied::Done);
    let written = bytes(&bench.engine);
    assert_eq!(format(&written), Some(7));
    let copy = Engine::read_snapshot(crate::bench::config(), &written).expect("a good snapshot");
    assert_eq!(copy.state_digest(), bench.engine.state_digest());
    assert_eq!(copy.nodes().get(2).issued, 7);
    bench.engine = copy;
    assert_eq!(set(&mut bench, JoinToken::use_up(2, [1, 2], [9, 9], 0)), Applied::Refused);
    assert_eq!(set(&mut bench, JoinToken::use_up(3, [5, 6], [9, 9], 0)), Applied::Done);
    for at in 0..2_000 {
        // Refused or read, and no panic.
        let changed = mutated(&written, &[(at * 3, 0xFF), (at * 5, 0)]);
        let _ = Engine::read_snapshot(crate::bench::config(), &changed);
    }
    let mut earlier = written;
    earlier[8] = 5;
    let refused = Engine::read_snapshot(crate::bench::config(), &earlier);
    assert!(matches!(refused, Err(SnapshotError::Format(5))));
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let (_, engine) = history(1_000, 200);
    let good = bytes(&engine);
    let refused = |bytes: &[u8]| match Engine::read_snapshot(config(1_000), bytes) {
        Ok(_) => panic!("a snapshot that should be refused"),
        Err(error) => error,
    };
    let other = Config { trades_kept: 17, ..config(1_000) };
    assert!(matches!(Engine::read_snapshot(other, &good), Err(SnapshotError::Config)));
    let mut rules = good.clone();
    rules[12] = 1;
    assert_eq!(refused(&rules), SnapshotError::Rules(1));
    assert_eq!(refused(&good[1..]), SnapshotError::Magic);
    assert_eq!(refused(&[]), SnapshotError::Magic);
    assert_eq!(refused(&good[..good.len() - 1]), SnapshotError::Digest);
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 4;
    assert_eq!(refused(&flipped), SnapshotError::Digest);
}

/// Changes bytes and mends the digest, so that the parts themselves have to refuse them.
fn mutated(bytes: &[u8], changes: &[(usize, u8)]) -> Vec<u8> {
    let mut body = bytes[..bytes.len() - 8].to_vec();
    for (at, value) in changes {
        // What comes before is compared with what is expected.
        let at = 32 + at % (body.len() - 32);
        body[at] = *value;
    }
    let digest = engine::digest_of(&body);
    body.extend_from_slice(&digest.to_le_bytes());
    body
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn no_bytes_make_it_panic(
        seed in 1_000u64..1_010,
        changes in prop::collection::vec((any::<usize>(), any::<u8>()), 1..4),
        tail in any::<bool>(),
    ) {
        let (log, engine) = history(seed, 120);
        let good = bytes(&engine);
        // The windows are most of the bytes; the books come last.
        let from = if tail { good.len() - good.len() / 20 } else { 0 };
        let placed = |(at, value)| (from + at % (good.len() - from), value);
        let changes: Vec<(usize, u8)> = changes.into_iter().map(placed).collect();
        if let Ok(mut odd) = Engine::read_snapshot(config(seed), &mutated(&good, &changes)) {
            // A state that could be: it takes inputs like any other.
            let mut out = Output::default();
            for input in &log[100..] {
                odd.apply(input, &mut out);
            }
        }
    }
}
