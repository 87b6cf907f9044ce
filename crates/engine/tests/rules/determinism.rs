//! Same log, same result: digests, outputs, and the books at every feed position.

use engine::log::{Draft, InputLog};
use engine::{Config, Engine, Output, replay, replay_digests};
use types::{Digest, FeedSeq, InstrumentId};

use crate::flow::{Flow, config, room};

fn log(seed: u64, inputs: usize) -> (Config, InputLog) {
    let mut flow = Flow::new(seed);
    let mut log = InputLog::new(inputs);
    for _ in 0..inputs {
        let input = flow.next_input();
        let (t_in, source, flags) = (input.t_in, input.source, input.flags);
        let draft = Draft { t_in, source, flags, command: input.command };
        log.append(input.t_seq, draft).expect("room for every input");
    }
    (config(room(seed)), log)
}

/// Everything that came out as one number, and the state's digest.
fn transcript(config: Config, log: &InputLog) -> (u64, u64) {
    let mut digest = Digest::default();
    let engine = replay(config, log.iter(), |_, _, applied, out| {
        // Nothing moves here; the recorded digest is older than what moves.
        assert_eq!(out.in_order().count(), out.executions.len());
        let (executions, market) = (&out.executions, &out.market);
        let text =
            format!("{applied:?} Output {{ executions: {executions:?}, market: {market:?} }}");
        text.bytes().for_each(|byte| digest.fold(u64::from(byte)));
    });
    (digest.0, engine.state_digest())
}

#[test]
fn the_same_log_gives_the_same_outputs_and_state() {
    for seed in 0..50 {
        let (config, log) = log(seed, 400);
        let first = transcript(config.clone(), &log);
        assert_eq!(first, transcript(config, &log), "seed {seed}");
    }
}

/// A recorded result: when it changes, the rules have changed, and logs written before can't be
/// replayed by this build.
#[test]
fn the_rules_are_those_of_the_recorded_digest() {
    let (config, log) = log(20_261, 5_000);
    let (outputs, _) = transcript(config, &log);
    assert_eq!(outputs, 0xcc82_7446_98de_ed05, "{outputs:#018x}");
}

#[test]
fn a_copy_of_an_engine_goes_on_alike() {
    for seed in 0..20 {
        let (config, log) = log(seed, 600);
        let (mut out, mut copy_out) = (Output::default(), Output::default());
        let mut engine = Engine::new(config);
        for input in log.iter().take(300) {
            engine.apply(input, &mut out);
        }
        let mut copy = engine.clone();
        assert_eq!(engine.state_digest(), copy.state_digest(), "seed {seed}");
        for input in log.iter().skip(300) {
            out.clear();
            copy_out.clear();
            let applied = engine.apply(input, &mut out);
            assert_eq!(applied, copy.apply(input, &mut copy_out), "seed {seed}");
            assert_eq!(out, copy_out, "seed {seed}");
        }
        assert_eq!(engine.state_digest(), copy.state_digest(), "seed {seed}");
    }
}

#[test]
fn digests_at_feed_positions_are_those_of_the_engine_between_inputs() {
    for seed in 0..30 {
        let (config, log) = log(seed, 400);
        // The engine's own digest at each position that ends an input.
        let mut own = vec![None; 1];
        let engine = replay(config.clone(), log.iter(), |engine, _, _, out| {
            let Some(&(last, _)) = out.market.last() else { return };
            own.resize(last.0 as usize + 1, None);
            let digests = [1, 2].map(|id| engine.displayed_digest(InstrumentId(id)));
            own[last.0 as usize] = Some(digests);
        });
        let positions: Vec<FeedSeq> = (0..own.len() as u64 + 5).rev().map(FeedSeq).collect();
        let found = replay_digests(config.clone(), log.iter(), &positions).expect("one story");
        assert_eq!(found.at.len(), own.len(), "positions beyond the log are left out");
        for (index, (at, own)) in found.at.iter().zip(&own).enumerate() {
            assert_eq!(at.position, FeedSeq(index as u64));
            assert!(own.is_none_or(|own| own[..] == at.digests[..]), "seed {seed}");
        }
        assert_eq!(found.feed_next, engine.feed_next());
        assert_eq!(found.state, engine.state_digest());
        assert_eq!(found.end, found.at.last().expect("a last position").digests);
    }
}
