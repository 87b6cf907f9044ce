//! `fairbell-lab bench opra-day`: a part of a synthetic trading day of OPRA, replayed at its own speed or a multiple.
//!
//! The day has six and a half hours and the two figures that are published for 2010: a peak of a million messages a second, and
//! 14 billion messages in all. It begins at the peak, falls to a level within minutes and rises again to the close; a fifth of
//! the milliseconds has three times that rate and the others half of it. Messages and packets are those of
//! [`fast::opra::stream`], 400 bytes a packet, those of all lines one after another. From the call that sends to
//! the event of a packet's last message is timed as in `wire_to_event`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use fairbell::options::duration;
use fast::opra::stream::Random;
use host::failure::Failure;
use serde::Serialize;
use types::Nanos;

use super::orders::quantile;
use super::wire_to_event::{self, Feed, FeedFound, Way};

/// Length of a day, s.
pub(crate) const DAY_S: f64 = 23_400.0;
/// Messages a second at the opening, all lines together.
const PEAK: f64 = 1e6;
/// The level between opening and close, as a share of the peak: with it a day has 14 billion messages.
const LEVEL: f64 = 0.581;
/// What the close is above the level, and in how many seconds opening and close come and go.
const CLOSE: f64 = 0.25;
const BENT_S: f64 = 600.0;
/// Messages of a packet, on average, and its bytes.
const MESSAGES: f64 = 18.74;
const PACKET_BYTES: usize = 400;
/// One millisecond of so many has bursts, with so many times the rate; the others have so much.
const BURSTS: (u64, f64, f64) = (5, 3.0, 0.5);
/// Longest part that is played: its packets are in memory.
const PART_MAX: Duration = Duration::from_secs(60);

/// Options of `fairbell-lab bench opra-day`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab bench opra-day                            the first five seconds, at 1x and 10x, each way\n  \
    fairbell-lab bench opra-day --from 3h --for 2s --speed 4 --way ring --json")]
pub struct OpraDayArgs {
    /// Where in the day the part begins [default: its opening]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub from: Option<Duration>,
    /// Length of the part, in time of the day
    #[arg(long = "for", value_name = "TIME", value_parser = duration, default_value = "5s")]
    pub time: Duration,
    /// How many times its own speed; again for further ones [default: 1, 10]
    #[arg(long = "speed", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub speeds: Vec<u32>,
    /// This way alone
    #[arg(long, value_name = "NAME")]
    pub way: Option<DayWay>,
    /// Fixes bursts and messages
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// How packets come.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum DayWay {
    /// Datagrams over loopback
    Datagram,
    /// A ring in shared memory
    Ring,
}

impl DayWay {
    fn way(self) -> Way {
        match self {
            DayWay::Datagram => Way::Datagram,
            DayWay::Ring => Way::Ring,
        }
    }
}

/// Messages a second at a time of the day, s, all lines together, without bursts.
pub(crate) fn rate(at_s: f64) -> f64 {
    let opening = (1.0 - LEVEL) * (-at_s / BENT_S).exp();
    let close = CLOSE * (-(DAY_S - at_s) / BENT_S).exp();
    PEAK * (LEVEL + opening + close)
}

/// When the packets of a part of the day are due, ns from its beginning.
fn due(seed: u64, from: Duration, time: Duration) -> Vec<u64> {
    let mut random = Random::new(seed ^ 0x0FDA);
    let (mut all, mut owed) = (Vec::new(), 0.0);
    for ms in 0..time.as_millis() as u64 {
        let (one_of, much, little) = BURSTS;
        let times = if random.below(one_of) == 0 { much } else { little };
        let at_s = from.as_secs_f64() + ms as f64 / 1e3;
        owed += rate(at_s) * times / 1e3 / MESSAGES;
        let count = owed as u64;
        owed -= count as f64;
        let begin = ms * Nanos::MILLI;
        all.extend((0..count).map(|n| begin + n * Nanos::MILLI / count.max(1)));
    }
    all
}

/// What a part came to.
#[derive(Serialize, Clone, Debug)]
pub struct Replayed {
    /// How packets came.
    pub way: &'static str,
    /// How many times its own speed.
    pub speed: u32,
    /// Packets that were sent.
    pub packets: u64,
    /// Of them, those that did not come, percent.
    pub lost_percent: f64,
    /// Messages that became events.
    pub messages: u64,
    /// Messages a second.
    pub messages_per_s: f64,
    /// How late the last packet was sent, ms: the sender did not keep the speed.
    pub late_ms: f64,
    /// From the call that sends to the event of the last message, us; of packets on whose way no core was away.
    pub p50_us: f64,
    /// See `p50_us`.
    pub p99_us: f64,
    /// Packets on whose way a core was away, percent of those that came.
    pub away_percent: f64,
}

/// Replays a part of the day.
///
/// # Errors
/// Sockets, the ring's file, packets that can't be decoded.
pub fn replay(
    (way, speed, seed): (DayWay, u32, u64),
    (from, time): (Duration, Duration),
) -> Result<Replayed, Failure> {
    let due: Vec<u64> = due(seed, from, time).iter().map(|at| at / u64::from(speed)).collect();
    if due.is_empty() {
        return Err(Failure::Usage("--for: at least a packet, so some 1ms".to_string()));
    }
    let packets = due.len();
    let feed =
        Feed { way: way.way(), packet_bytes: PACKET_BYTES, packets, gap_ns: 0, decode: true, seed };
    let FeedFound { mut way_ns, lost, messages, away, span_ns, late_ns, .. } =
        wire_to_event::measure_at(feed, &due)?;
    way_ns.sort_unstable();
    let came = (packets as u64 - lost).max(1) as f64;
    Ok(Replayed {
        way: match way {
            DayWay::Datagram => "datagrams",
            DayWay::Ring => "shared memory",
        },
        speed,
        packets: packets as u64,
        lost_percent: lost as f64 / packets as f64 * 100.0,
        messages,
        messages_per_s: messages as f64 * 1e9 / span_ns.max(1) as f64,
        late_ms: late_ns as f64 / 1e6,
        p50_us: quantile(&way_ns, 500) / 1e3,
        p99_us: quantile(&way_ns, 990) / 1e3,
        away_percent: away as f64 / came * 100.0,
    })
}

/// Replays and prints.
///
/// # Errors
/// As [`replay`].
pub fn run(args: &OpraDayArgs) -> Result<(), Failure> {
    let from = args.from.unwrap_or_default();
    if args.time > PART_MAX || (from + args.time).as_secs_f64() > DAY_S {
        let why = "--for: at most 60s, and the part ends with the day, which has 6.5 hours";
        return Err(Failure::Usage(why.to_string()));
    }
    let speeds = if args.speeds.is_empty() { &[1, 10][..] } else { &args.speeds };
    let ways = match &args.way {
        Some(way) => std::slice::from_ref(way),
        None => &[DayWay::Datagram, DayWay::Ring],
    };
    let mut all = Vec::new();
    for way in ways {
        for speed in speeds {
            all.push(replay((*way, *speed, args.seed), (from, args.time))?);
        }
    }
    let begins = rate(from.as_secs_f64());
    if args.json {
        let parts = serde_json::json!({ "seed": args.seed, "from_s": from.as_secs_f64(), "seconds": args.time.as_secs_f64(),
                                        "rate_at_its_begin_per_s": begins, "replayed": all });
        println!("{parts:#}");
        return Ok(());
    }
    println!(
        "{:.1} s of a day from {:.0} s on, {:.2} million messages/s at its begin",
        args.time.as_secs_f64(),
        from.as_secs_f64(),
        begins / 1e6
    );
    println!(
        "  {:<14} speed  packets   lost %  million/s  late ms   p50 us   p99 us  core away %",
        "way"
    );
    for of in &all {
        println!(
            "  {:<14} {:>4}x {:>8} {:>8.3} {:>10.2} {:>8.1} {:>8.2} {:>8.2} {:>12.2}",
            of.way,
            of.speed,
            of.packets,
            of.lost_percent,
            of.messages_per_s / 1e6,
            of.late_ms,
            of.p50_us,
            of.p99_us,
            of.away_percent
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_has_the_published_peak_and_sum() {
        let sum: f64 = (0..DAY_S as u32).map(|at| rate(f64::from(at))).sum();
        assert!((13.9e9..14.1e9).contains(&sum), "{sum}");
        let most = (0..DAY_S as u32).map(|at| rate(f64::from(at))).fold(0.0, f64::max);
        assert!((0.999e6..=1.0e6).contains(&most) && rate(0.0) == most, "{most}");
        assert!(rate(7_200.0) < 0.6 * PEAK && rate(DAY_S) > 0.8 * PEAK);
    }

    #[test]
    fn packets_are_due_in_order_in_bursts_and_as_many_as_the_rate_says() {
        let second = Duration::from_secs(1);
        let opening = due(7, Duration::ZERO, second);
        let expected = PEAK / MESSAGES;
        assert!((expected * 0.8..expected * 1.25).contains(&(opening.len() as f64)));
        assert!(opening.is_sorted() && opening.last().is_some_and(|at| *at < Nanos::SECOND));
        let in_ms = |ms: u64| opening.iter().filter(|at| **at / Nanos::MILLI == ms).count();
        let counts: Vec<usize> = (0..1_000).map(in_ms).collect();
        let (least, most) = (counts.iter().min(), counts.iter().max());
        assert!(
            most.zip(least).is_some_and(|(most, least)| *most > 5 * least),
            "{most:?} {least:?}"
        );
        let noon = due(7, Duration::from_secs(10_000), second).len();
        assert!(noon < opening.len() * 2 / 3, "a control: it is quieter then");
        assert_eq!(due(7, Duration::ZERO, second), opening, "the same again");
    }

    #[test]
    fn a_part_is_replayed_to_events() {
        let part = (Duration::ZERO, Duration::from_millis(20));
        let found = replay((DayWay::Ring, 1, 3), part).expect("a ring");
        assert!(found.packets > 500 && found.lost_percent < 100.0, "{found:?}");
        let came = found.packets as f64 * (1.0 - found.lost_percent / 100.0);
        let each = found.messages as f64 / came;
        assert!((15.0..23.0).contains(&each), "{found:?}");
    }
}
