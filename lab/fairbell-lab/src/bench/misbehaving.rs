//! What a module that misbehaves does to one beside it: `fairbell-lab bench strategy MODULE --bad MODULE`.
//!
//! A good module is told slices of one market, in turn alone, alone again, and with the bad one on a thread of its own. The bad one
//! loops, allocates, traps, divides by zero or floods from its first book on; an exchange stops it for good then, and here it
//! is started again at once, over and over, which is worse. Slices are drawn again with their times (a bootstrap) for
//! an interval of each ratio; what two rows of the good one alone differ by is the noise.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use host::failure::Failure;
use strategy::{Cage, Limits, Module, Programmed, Strategy};
use telemetry::Recorder;
use types::SplitMix64;

use super::strategy::{Player, inside, instruments, settings};

/// What the bad one does, by its settings.
pub(super) const HOWS: [&str; 5] = ["loop", "allocate", "trap", "divide", "flood"];
/// Messages of a slice.
pub(super) const SLICE: usize = 5_000;
/// Slices of a kind.
const SLICES: usize = 12;
/// Times that slices are drawn again.
const DRAWS: usize = 400;

/// A ratio of two 99th percentiles, and its interval of 95 %.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ratio {
    pub low: f64,
    pub middle: f64,
    pub high: f64,
}

/// What came of a way of misbehaving.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beside {
    pub how: &'static str,
    /// Times that the bad one was stopped.
    pub stopped: u64,
    /// 99th percentiles of the good one, alone and beside it, ns.
    pub p99: [u64; 2],
    /// Of the good one alone to itself.
    pub noise: Ratio,
    /// Of the good one beside the bad one to it alone.
    pub ratio: Ratio,
}

impl Beside {
    /// Whether the good one is no slower than it is by itself.
    pub fn is_within_noise(&self) -> bool {
        self.ratio.low <= self.noise.high
    }
}

fn started(module: &Module, settings: &str) -> Result<Box<dyn Strategy + Send>, Failure> {
    let limits = Limits::default();
    let cage = Cage::new(module, settings, &limits);
    let cage = cage.map_err(|error| Failure::Run(error.to_string()))?;
    let bounds = (limits.actions, limits.unanswered);
    Ok(Box::new(Programmed::start(cage, (&instruments(), 4), bounds)))
}

/// Tells the market to the bad one until it is stopped, again and again until `over`; how often it was stopped.
fn misbehave(
    module: &Module,
    how: &str,
    market: &[Vec<u8>],
    over: &AtomicBool,
) -> Result<u64, Failure> {
    let mut stopped = 0;
    loop {
        let mut player = Player::new(started(module, &format!("{how} at=1"))?);
        // Nobody answers it: a flood is what it has asked for without an answer.
        let hears = (0..).zip(market).any(|(number, message)| {
            player.hear(number, message);
            player.is_stopped()
        });
        if !hears {
            return Err(Failure::Run(format!("the bad one was never stopped: {how}")));
        }
        stopped += 1;
        if over.load(Ordering::Relaxed) {
            return Ok(stopped);
        }
    }
}

/// The 99th percentile of slices together, ns.
fn p99<'a>(slices: impl Iterator<Item = &'a Recorder>) -> u64 {
    let mut all = Recorder::coarse();
    slices.for_each(|one| all.merge(one));
    all.quantile(0.99)
}

fn ratio(of: &[Recorder], to: &[Recorder], random: &mut SplitMix64) -> Ratio {
    let mut drawn: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let places: Vec<_> =
                of.iter().map(|_| random.below(of.len() as u64) as usize).collect();
            let of = p99(places.iter().filter_map(|place| of.get(*place)));
            let to = p99(places.iter().filter_map(|place| to.get(*place)));
            of as f64 / to.max(1) as f64
        })
        .collect();
    drawn.sort_by(f64::total_cmp);
    let at = |part: usize| drawn.get(DRAWS * part / 1_000).copied().unwrap_or(f64::NAN);
    Ratio { low: at(25), middle: at(500), high: at(975) }
}

/// Measures a good module beside a bad one that misbehaves in a way.
///
/// # Errors
/// Either is no module; the good one is stopped.
pub(super) fn beside(
    (good, bad): (&Module, &Module),
    how: &'static str,
    (market, seed): (&[Vec<u8>], u64),
) -> Result<Beside, Failure> {
    let (mut alone, mut again, mut with) = (Vec::new(), Vec::new(), Vec::new());
    let mut stopped = 0;
    let slice = || -> Result<Recorder, Failure> {
        Ok(inside("the good one", started(good, &settings())?, market)?.times)
    };
    let together = || {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let running = scope.spawn(|| misbehave(bad, how, market, &over));
            let measured = slice();
            over.store(true, Ordering::Relaxed);
            let panicked = |_| Failure::Run("the bad one's thread panicked".to_string());
            Ok::<_, Failure>((measured?, running.join().map_err(panicked)??))
        })
    };
    for round in 0..SLICES {
        // Which comes first changes.
        let (first, last) = match round % 2 {
            0 => (&mut alone, &mut again),
            _ => (&mut again, &mut alone),
        };
        first.push(slice()?);
        let (measured, times) = together()?;
        with.push(measured);
        stopped += times;
        last.push(slice()?);
    }
    let mut random = SplitMix64::new(seed);
    Ok(Beside {
        how,
        stopped,
        p99: [p99(alone.iter()), p99(with.iter())],
        noise: ratio(&again, &alone, &mut random),
        ratio: ratio(&with, &alone, &mut random),
    })
}

#[cfg(test)]
mod tests {
    use super::super::strategy::market;
    use super::*;

    #[test]
    fn a_module_that_misbehaves_is_stopped_each_time_and_one_that_does_not_is_missed() {
        let read = |bytes: &[u8]| Module::new("it", bytes, &Limits::default()).expect("a module");
        let good = read(include_bytes!("../../../../crates/strategy/tests/guests/maker.wasm"));
        let bad = read(include_bytes!("../../../../crates/strategy/tests/guests/misbehave.wasm"));
        let market = market(200, 7).expect("a market");
        for how in HOWS {
            let beside = beside((&good, &bad), how, (&market, 7)).expect(how);
            assert!(beside.stopped >= SLICES as u64, "{beside:?}");
            assert!(beside.p99.iter().all(|ns| *ns > 0), "{beside:?}");
        }
        // Control: one that only listens is never stopped.
        let why = beside((&good, &good), "most=0", (&market, 7)).expect_err("it goes on");
        assert!(why.to_string().contains("the bad one was never stopped"), "{why}");
    }
}
