//! A line and its copy over two lossy ways, from seeds: what both lose is reported and nothing else
//! is missing, nothing comes twice or out of order, and the first copy wins.

use feed::lab::{ArbitrationResult, GOOD, Play, Repair, Way};
use feed::{Arbiter, ArbiterConfig, Delivery, LineSink, Notice};
use types::Nanos;

/// Packets of two messages, 100,000 a second.
fn base(seed: u64, packets: u64, ways: [Way; 2]) -> Play {
    let config = config();
    Play { seed, packets, every_ns: 10_000, ways, common: (0, 0), config, repair: None }
}

fn play(play: Play) -> ArbitrationResult {
    let outcome = feed::lab::play(&play);
    assert_eq!((outcome.unreported, outcome.wrong), (0, 0), "{play:?}");
    assert_eq!(outcome.stats.delivered + outcome.stats.lost, outcome.messages, "{play:?}");
    outcome
}

fn independent() -> Way {
    Way { loss_ppm: 10_000, ..GOOD }
}

fn config() -> ArbiterConfig {
    ArbiterConfig { wait: Nanos(10_000_000), ..ArbiterConfig::default() }
}

#[test]
fn independent_losses_are_lost_only_where_both_lose() {
    let mut unrecovered = 0;
    let mut all = 0;
    for seed in 0..10 {
        for trailing in [0, 100_000, 5_000_000] {
            let b = Way { delay_ns: 50_000 + trailing, ..independent() };
            let outcome = play(base(seed, 30_000, [independent(), b]));
            let lost = outcome.stats.lost;
            assert_eq!(lost, 2 * outcome.lost_by_both, "seed {seed}, {trailing} ns");
            unrecovered += lost;
            all += outcome.messages;
        }
    }
    let ppm = unrecovered * 1_000_000 / all;
    // One in ten thousand is what two losses of one percent leave; three deviations are allowed.
    assert!(ppm <= 133, "{ppm} of a million messages lost");
    assert!(ppm > 0, "a control: with one percent on both sides some are lost by both");
}

#[test]
fn retransmissions_bring_what_both_lost() {
    let config = ArbiterConfig { give_up: Some(Nanos(50_000_000)), ..config() };
    // A tenth of the answers is lost, too.
    let repair = Some(Repair { delay_ns: 200_000, loss_ppm: 100_000 });
    let mut lost_by_both = 0;
    for seed in 0..5 {
        let b = Way { delay_ns: 150_000, ..independent() };
        let whole = Play { config, repair, ..base(seed, 30_000, [independent(), b]) };
        let outcome = play(whole);
        assert_eq!(outcome.stats.lost, 0, "seed {seed}");
        lost_by_both += outcome.lost_by_both;
        let deaf = Some(Repair { delay_ns: 200_000, loss_ppm: 1_000_000 });
        let outcome = play(Play { repair: deaf, ..whole });
        assert_eq!(outcome.stats.lost, 2 * outcome.lost_by_both, "a control: no answers");
        assert!(outcome.stats.requests >= 10 * outcome.stats.gaps, "asked again and again");
    }
    assert!(lost_by_both > 5, "a control: there was something to bring");
    // Bursts on both sides at once: some answers are lost, and packets behind them come before.
    let way = Way { burst_ppm: 500, burst: 30, ..independent() };
    let b = Way { delay_ns: 150_000, ..way };
    let common = (500, 20);
    let outcome = play(Play { config, repair, common, ..base(5, 30_000, [way, b]) });
    assert!(outcome.stats.lost == 0 && outcome.lost_by_both > 100, "{:?}", outcome.stats);
}

#[test]
fn bursts_and_reordering_leave_nothing_unreported() {
    for seed in 0..10 {
        let way = Way { burst_ppm: 500, burst: 30, jitter_ns: 200_000, ..independent() };
        let b = Way { delay_ns: 5_050_000, ..way };
        let outcome = play(Play { common: (100, 20), ..base(seed, 20_000, [way, b]) });
        assert_eq!(outcome.stats.lost, 2 * outcome.lost_by_both, "seed {seed}");
        assert!(outcome.sides[0].reordered > 1_000 && outcome.sides[0].missing > 100);
    }
}

#[test]
fn a_wait_that_is_too_short_is_told_not_hidden() {
    let b = Way { delay_ns: 5_050_000, ..GOOD };
    let short = ArbiterConfig { wait: Nanos(1_000_000), ..config() };
    let outcome = play(Play { config: short, ..base(3, 20_000, [independent(), b]) });
    assert!(outcome.stats.lost > 200, "B was not waited for");
    let tight = ArbiterConfig { held_max: 3, ..config() };
    let outcome = play(Play { config: tight, ..base(3, 20_000, [independent(), b]) });
    assert!(outcome.stats.lost > 200, "there was no room to wait");
}

#[test]
fn a_dead_side_costs_nothing_and_raises_an_alarm() {
    for dead in 0..2 {
        let mut ways = [GOOD, Way { delay_ns: 150_000, ..GOOD }];
        ways[dead].dead_from = 5_000;
        let config = ArbiterConfig { stale: Nanos(20_000_000), ..config() };
        let outcome = play(Play { config, ..base(1, 20_000, ways) });
        assert_eq!(outcome.stats.delivered, outcome.messages);
        assert_eq!(outcome.alarms, [Notice::Stale { side: dead }]);
        assert_eq!(outcome.sides[dead].stale, 1);
    }
    let outcome = play(base(1, 20_000, [GOOD, GOOD]));
    assert_eq!(outcome.alarms, [], "a control: no alarm while both are heard");
}

#[test]
fn the_first_copy_wins_and_the_gain_is_measured() {
    let jittery = Way { jitter_ns: 100_000, ..GOOD };
    let alone = Way { dead_from: 0, ..GOOD };
    let mean = |b: Way| {
        let outcome = play(base(9, 20_000, [jittery, b]));
        let sum: u64 = outcome.delays.iter().map(|&delay| u64::from(delay)).sum();
        (sum / 20_000, outcome.sides)
    };
    let (single, _) = mean(alone);
    let (both, sides) = mean(jittery);
    assert!(both + 10_000 < single, "{both} ns with both, {single} ns with one");
    assert!(sides[1].first > 5_000 && sides[0].first > 5_000, "{sides:?}");
    assert_eq!(sides[0].first + sides[1].first, 20_000);
    let (trailing, sides) = mean(Way { delay_ns: 5_050_000, ..jittery });
    assert!(trailing.abs_diff(single) < 2_000, "{trailing} ns, {single} ns with one");
    let behind = sides[1].behind_sum / sides[1].behind_count.max(1);
    assert!(behind.abs_diff(5_000_000) < 50_000, "B trails by {behind} ns");
}

#[test]
fn packets_that_overlap_are_delivered_in_part() {
    struct Skips(Vec<(u64, u32)>);
    impl LineSink for Skips {
        fn deliver(&mut self, delivery: Delivery<'_>) {
            self.0.push((delivery.first, delivery.skip));
        }
        fn notice(&mut self, _notice: Notice) {}
    }
    let mut arbiter = Arbiter::new(config());
    let mut skips = Skips(Vec::new());
    for (side, head) in [(0, (1, 4)), (1, (3, 4)), (0, (9, 2)), (1, (7, 3)), (0, (u64::MAX, 9))] {
        arbiter.packet(Nanos(1), side, head, &[], &mut skips);
    }
    assert_eq!(skips.0, [(1, 0), (3, 2), (7, 0), (9, 1)]);
    assert_eq!(arbiter.expected(), Some(11));
}
