//! A line and its copy over two lossy ways, from seeds: what both lose is reported and nothing else
//! is missing, nothing comes twice or out of order, and the first copy wins.

use std::collections::BTreeSet;

use feed::{Arbiter, ArbiterConfig, Delivery, LineSink, Notice, SideStats};
use types::{Nanos, SplitMix64};

/// How one side behaves.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// Of a million packets, lost one by one.
    loss_ppm: u64,
    /// Of a million packets, at which a burst of losses begins.
    burst_ppm: u64,
    burst: u64,
    delay_ns: u64,
    /// Uniform, so that packets overtake each other when it exceeds their distance.
    jitter_ns: u64,
    /// Silent from this packet on.
    dead_from: u64,
}

const GOOD: Way = Way {
    loss_ppm: 0,
    burst_ppm: 0,
    burst: 0,
    delay_ns: 50_000,
    jitter_ns: 5_000,
    dead_from: u64::MAX,
};

/// Distance of packets in time: 100,000 a second.
const EVERY_NS: u64 = 10_000;

#[derive(Default)]
struct Log {
    next: u64,
    delivered: u64,
    reported: BTreeSet<u64>,
    requests: Vec<(u64, u64)>,
    notices: Vec<Notice>,
    wait_sum: u64,
    now: u64,
}

impl LineSink for Log {
    fn deliver(&mut self, delivery: Delivery<'_>) {
        let first = delivery.first + u64::from(delivery.skip);
        // Everything between the last message and this one has been reported.
        for missing in self.next..first {
            assert!(self.reported.contains(&missing), "{missing} is missing without a report");
        }
        assert!(first >= self.next, "{first} after {}", self.next);
        let [count, sent @ ..] = delivery.bytes else { panic!("no bytes") };
        assert_eq!(u64::from_be_bytes(sent[..8].try_into().unwrap()), delivery.first);
        let sent_at = (delivery.first - 1) / 2 * EVERY_NS;
        self.wait_sum += self.now - sent_at;
        self.next = delivery.first + u64::from(*count);
        self.delivered += self.next - first;
    }

    fn notice(&mut self, notice: Notice) {
        self.notices.push(notice);
        match notice {
            Notice::Gap { from, until } => self.reported.extend(from..until),
            Notice::Request { from, until } => self.requests.push((from, until)),
            _ => {}
        }
    }
}

struct Outcome {
    log: Log,
    sides: [SideStats; 2],
    lost_by_both: u64,
    messages: u64,
}

/// Plays `packets` packets of two messages over the two ways.
fn play(seed: u64, packets: u64, ways: [Way; 2], config: ArbiterConfig, repair: bool) -> Outcome {
    let mut rng = SplitMix64::new(seed);
    // Time of arrival, side, number of the packet; a side of 2 is a retransmission.
    let mut arrivals: BTreeSet<(u64, usize, u64)> = BTreeSet::new();
    let mut lost_by_both = 0;
    let mut bursts = [0_u64; 2];
    for packet in 0..packets {
        let mut lost = [false; 2];
        for (side, way) in ways.iter().enumerate() {
            if rng.below(1_000_000) < way.burst_ppm {
                bursts[side] = way.burst;
            }
            let in_burst = bursts[side] > 0;
            bursts[side] = bursts[side].saturating_sub(1);
            let drawn = rng.below(1_000_000) < way.loss_ppm;
            lost[side] = drawn || in_burst || packet >= way.dead_from;
            if !lost[side] {
                let jitter = rng.below(way.jitter_ns.max(1));
                arrivals.insert((packet * EVERY_NS + way.delay_ns + jitter, side, packet));
            }
        }
        // The last packets have nothing behind them that would show that they are missing.
        lost_by_both += u64::from(lost == [true; 2] && packet + 100 < packets);
    }
    let mut arbiter = Arbiter::starting_at(config, 1);
    let mut log = Log { next: 1, ..Log::default() };
    while let Some((now, side, packet)) = arrivals.pop_first() {
        while let Some(due) = arbiter.next_timeout().filter(|due| due.0 < now) {
            log.now = due.0;
            arbiter.poll(due, &mut log);
            if repair {
                for (from, until) in log.requests.drain(..) {
                    for number in (from..until).step_by(2) {
                        arrivals.insert((due.0 + 200_000, 0, (number - 1) / 2));
                    }
                }
            }
        }
        log.now = now;
        let first = packet * 2 + 1;
        let bytes = [&[2][..], &first.to_be_bytes()].concat();
        arbiter.packet(Nanos(now), side, (first, 2), &bytes, &mut log);
    }
    let end = Nanos(packets * EVERY_NS + 60_000_000_000);
    log.now = end.0;
    arbiter.poll(end, &mut log);
    arbiter.poll(end, &mut log);
    let stats = arbiter.stats();
    assert_eq!(stats.delivered, log.delivered, "seed {seed}");
    assert_eq!(stats.lost, log.reported.len() as u64, "seed {seed}");
    let sides = [arbiter.side(0), arbiter.side(1)];
    Outcome { log, sides, lost_by_both, messages: packets * 2 }
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
            let outcome = play(seed, 30_000, [independent(), b], config(), false);
            let lost = outcome.log.reported.len() as u64;
            assert_eq!(lost / 2, outcome.lost_by_both, "seed {seed}, {trailing} ns");
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
    let config = ArbiterConfig { give_up: Some(Nanos(5_000_000)), ..config() };
    for seed in 0..5 {
        let b = Way { delay_ns: 150_000, ..independent() };
        let outcome = play(seed, 30_000, [independent(), b], config, true);
        assert_eq!(outcome.log.reported.len(), 0, "seed {seed}");
        assert!(outcome.lost_by_both > 0, "seed {seed}");
    }
}

#[test]
fn bursts_and_reordering_leave_nothing_unreported() {
    for seed in 0..10 {
        let way = Way { burst_ppm: 500, burst: 30, jitter_ns: 200_000, ..independent() };
        let b = Way { delay_ns: 5_050_000, ..way };
        let outcome = play(seed, 20_000, [way, b], config(), false);
        assert_eq!(outcome.log.reported.len() as u64 / 2, outcome.lost_by_both, "seed {seed}");
        assert!(outcome.sides[0].reordered > 1_000 && outcome.sides[0].missing > 100);
    }
}

#[test]
fn a_wait_that_is_too_short_is_told_not_hidden() {
    let b = Way { delay_ns: 5_050_000, ..GOOD };
    let short = ArbiterConfig { wait: Nanos(1_000_000), ..config() };
    let outcome = play(3, 20_000, [independent(), b], short, false);
    assert!(outcome.log.reported.len() > 200, "B was not waited for");
    let tight = ArbiterConfig { held_max: 3, ..config() };
    let outcome = play(3, 20_000, [independent(), b], tight, false);
    assert!(outcome.log.reported.len() > 200, "there was no room to wait");
}

#[test]
fn a_dead_side_costs_nothing_and_raises_an_alarm() {
    for dead in 0..2 {
        let mut ways = [GOOD, Way { delay_ns: 150_000, ..GOOD }];
        ways[dead].dead_from = 5_000;
        let config = ArbiterConfig { stale: Nanos(20_000_000), ..config() };
        let outcome = play(1, 20_000, ways, config, false);
        assert_eq!(outcome.log.delivered, outcome.messages);
        assert_eq!(outcome.log.notices, [Notice::Stale { side: dead }]);
        assert_eq!(outcome.sides[dead].stale, 1);
    }
    let outcome = play(1, 20_000, [GOOD, GOOD], config(), false);
    assert_eq!(outcome.log.notices, [], "a control: no alarm while both are heard");
}

#[test]
fn the_first_copy_wins_and_the_gain_is_measured() {
    let jittery = Way { jitter_ns: 100_000, ..GOOD };
    let alone = Way { dead_from: 0, ..GOOD };
    let mean = |b: Way| {
        let outcome = play(9, 20_000, [jittery, b], config(), false);
        (outcome.log.wait_sum / 20_000, outcome.sides)
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
