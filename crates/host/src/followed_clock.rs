//! The process's clock, made to follow a source that says how wrong it is: chrony or a PTP hardware clock.
//!
//! A thread asks the source again and again how far the process's clock is from the truth. The readings are
//! slewed after it, never stepped ([`clock::Discipline`]), with a bound: the source's own, what is
//! still to be slewed, and what the oscillator may have gained since. While the source says nothing the bound
//! grows.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clock::wire::Bound;
use clock::{Correction, Discipline};
use net::{Clock, Timekeeper};
use types::{ClockReading, Nanos};

use crate::clock_agent::UNKNOWN_NS;
use crate::clock_sources::{Chronyc, ptp_clocks};
use crate::config::Config;
use crate::failure::Failure;
use crate::phc::{Device, Hardware};

/// How fast it is slewed at most, parts of 10^12: 500 ppm.
const SLEW_PPT: i64 = 500_000_000;
/// How much a free oscillator gains or loses at most, parts of 10^12: 100 ppm.
const FREE_PPT: u64 = 100_000_000;
/// Answers that the drift is taken over.
const HISTORY: usize = 64;
/// Parts of 10^12 in one.
const PPT: i128 = 1_000_000_000_000;
/// Readings of the wall clock beside the process's, of which the closest counts.
const BRACKETS: usize = 8;
/// How long the stop flag goes unseen at most.
const STOP_EVERY: Duration = Duration::from_millis(50);

/// How far the process's clock is from the truth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// When that was, by the process's clock.
    pub at: Nanos,
    /// The process's clock less the truth, ns.
    pub offset_ns: i64,
    /// How wrong that may be, ns.
    pub bound_ns: u64,
    /// How fast that grows, in parts of 10^12, where the source says so: it corrects the rate of the
    /// process's clock itself. None: the answers have to show it.
    pub growth_ppt: Option<u64>,
}

/// Who knows the truth, and how well.
pub trait Source: Send {
    /// How far the process's clock is from it.
    ///
    /// # Errors
    /// Why that is not known now.
    fn ask(&mut self, own: &Clock) -> Result<Answer, String>;

    /// How often it is asked.
    fn every(&self) -> Duration;

    /// Who it is, for people.
    fn name(&self) -> String;
}

/// The source that the configuration names, if it is one of these.
///
/// # Errors
/// A hardware clock that can't be opened.
pub fn source(config: &Config) -> Result<Option<Box<dyn Source>>, Failure> {
    Ok(match config.clock.source.as_str() {
        "chrony" => {
            let asymmetry_ns = config.clock.asymmetry_us * Nanos::MICRO;
            Some(Box::new(Chrony::new(Chronyc::default(), asymmetry_ns)))
        }
        "phc" => {
            let path = &config.clock.phc;
            let device = Device::open(path).map_err(|error| {
                let there = match ptp_clocks() {
                    none if none.is_empty() => "none".to_string(),
                    names => names.join(", "),
                };
                Failure::Run(format!(
                    "clock.phc: {path}: {error}; PTP hardware clocks of this machine: {there}"
                ))
            })?;
            let name = format!("{path}, read by PTP_SYS_OFFSET ({:?})", device.way());
            let ahead_ns = config.clock.phc_ahead_s * Nanos::SECOND;
            Some(Box::new(Phc { hardware: device, ahead_ns, name }))
        }
        _ => None,
    })
}

/// The system's clock, as right as chrony says.
pub struct Chrony {
    chronyc: Chronyc,
    /// How much longer one direction to chrony's servers may always take, ns.
    asymmetry_ns: u64,
    follows: String,
}

impl Chrony {
    /// What this client's daemon says, where one direction to its servers may always take so much
    /// longer than the other, ns.
    pub fn new(chronyc: Chronyc, asymmetry_ns: u64) -> Chrony {
        Chrony { chronyc, asymmetry_ns, follows: "chrony".to_string() }
    }
}

impl Source for Chrony {
    fn ask(&mut self, own: &Clock) -> Result<Answer, String> {
        let tracking = self.chronyc.tracking().ok_or("chrony does not answer")?;
        self.follows = format!("chrony, stratum {}, {}", tracking.stratum, tracking.reference);
        let (wall_ns, half_ns) = wall_offset(own);
        let bound_ns = tracking.bound_ns.saturating_add(self.asymmetry_ns / 2 + half_ns);
        let growth_ppt = Some((tracking.growth_ppm * 1e6).clamp(0.0, FREE_PPT as f64) as u64);
        Ok(Answer { at: own.process(), offset_ns: saturate(-wall_ns), bound_ns, growth_ppt })
    }

    fn every(&self) -> Duration {
        Duration::from_secs(4)
    }

    fn name(&self) -> String {
        self.follows.clone()
    }
}

/// A PTP hardware clock.
struct Phc<H> {
    hardware: H,
    /// It is so far ahead of UTC, ns: 37 s where it keeps TAI.
    ahead_ns: u64,
    name: String,
}

impl<H: Hardware> Source for Phc<H> {
    fn ask(&mut self, own: &Clock) -> Result<Answer, String> {
        let before = wall_offset(own);
        let read = self.hardware.sample().map_err(|error| error.to_string())?;
        let (wall_ns, wall_half_ns) = wall_offset(own);
        if before.0.abs_diff(wall_ns) > u128::from(before.1 + wall_half_ns) {
            return Err("the wall clock was set meanwhile".to_string());
        }
        let process = i128::from(read.before.0 + read.bound_ns()) - wall_ns;
        let truth = i128::from(read.hardware.0) - i128::from(self.ahead_ns);
        Ok(Answer {
            at: Nanos(u64::try_from(process).unwrap_or(0)),
            offset_ns: saturate(process - truth),
            bound_ns: read.bound_ns() + wall_half_ns,
            growth_ppt: None,
        })
    }

    fn every(&self) -> Duration {
        Duration::from_millis(100)
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

/// CLOCK_REALTIME less the process's clock, ns, and half the time between the two readings around it.
fn wall_offset(own: &Clock) -> (i128, u64) {
    let one = |_| {
        let before = own.process().0;
        let wall = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
        let half_ns = (own.process().0 - before).div_ceil(2);
        (wall as i128 - i128::from(before + half_ns), half_ns)
    };
    (0..BRACKETS).map(one).min_by_key(|(_, half_ns)| *half_ns).unwrap_or_default()
}

fn saturate(ns: i128) -> i64 {
    ns.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

struct State {
    discipline: Discipline,
    /// Answers that go together, oldest first.
    answers: VecDeque<Answer>,
    /// Answers so far.
    count: u32,
    /// Why the last question had no answer.
    silent: Option<String>,
}

/// The clock of a process that follows a source.
pub struct FollowedClock {
    state: Mutex<State>,
    /// How far the oscillator's drift walks within a second at most, parts of 10^12.
    wander_ppt: u64,
}

impl std::fmt::Debug for FollowedClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FollowedClock")
    }
}

impl FollowedClock {
    /// A clock that has had no answer yet. It stays as long as the process does, because clocks are
    /// copied freely.
    pub fn start(config: &Config) -> &'static FollowedClock {
        let discipline = Discipline::new(SLEW_PPT);
        let answers = VecDeque::with_capacity(HISTORY);
        let state = Mutex::new(State { discipline, answers, count: 0, silent: None });
        let wander_ppt = u64::from(config.clock.wander_max_ppb) * 1_000;
        Box::leak(Box::new(FollowedClock { state, wander_ppt }))
    }

    fn state<T>(&self, call: impl FnOnce(&mut State) -> T) -> T {
        call(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Asks a source once, and follows what it says.
    ///
    /// # Errors
    /// Why it says nothing.
    pub fn ask(&self, source: &mut dyn Source, own: &Clock) -> Result<(), String> {
        let told = source.ask(own);
        self.state(|state| state.silent = told.as_ref().err().cloned());
        self.follow(own.process(), told?);
        Ok(())
    }

    /// Asks a source until `stop`; what it does not answer is asked again.
    pub fn keep(&self, source: &mut dyn Source, own: &Clock, stop: &AtomicBool) {
        let mut next = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            if Instant::now() >= next {
                // What it does not say is in `silent`.
                let _ = self.ask(source, own);
                next = Instant::now() + source.every();
            }
            std::thread::sleep(next.saturating_duration_since(Instant::now()).min(STOP_EVERY));
        }
    }

    /// Why there is no answer at present; none: there is one.
    pub fn silent(&self) -> Option<String> {
        self.state(|state| state.silent.clone())
    }

    /// Whether there was an answer.
    pub fn is_known(&self) -> bool {
        self.state(|state| state.discipline.correction().is_some())
    }

    fn follow(&self, now: Nanos, answer: Answer) {
        self.state(|state| {
            let (drift_ppt, growth_ppt) = state.drift(&answer);
            state.count = state.count.wrapping_add(1);
            if state.answers.len() == HISTORY {
                state.answers.pop_front();
            }
            state.answers.push_back(answer);
            let correction = Correction {
                window: state.count,
                anchor: answer.at,
                offset_ns: answer.offset_ns,
                drift_ppt,
                bound: Bound { ns: answer.bound_ns, growth_ppt, wander_ppt: self.wander_ppt },
                causal_ns: answer.bound_ns,
                ..Correction::default()
            };
            // One beyond the bounds is doubted, and followed when the next ones say the same.
            let beyond = state.discipline.beyond();
            state.discipline.correct(now, &correction);
            if state.discipline.beyond() > beyond {
                state.answers.clear();
                state.answers.push_back(answer);
            }
        });
    }
}

impl State {
    /// Drift since the oldest answer, and how wrong that may be, in parts of 10^12.
    fn drift(&self, answer: &Answer) -> (i64, u64) {
        if let Some(growth) = answer.growth_ppt {
            return (0, growth);
        }
        let oldest = self.answers.front().filter(|oldest| oldest.at < answer.at);
        let Some(oldest) = oldest else { return (0, FREE_PPT) };
        let passed = i128::from(answer.at.0 - oldest.at.0);
        let gained = i128::from(answer.offset_ns) - i128::from(oldest.offset_ns);
        let wrong = i128::from(oldest.bound_ns.saturating_add(answer.bound_ns));
        let growth = u64::try_from(wrong * PPT / passed).unwrap_or(u64::MAX);
        // Nothing is known yet that a free oscillator would not promise as well.
        if growth >= FREE_PPT {
            return (0, FREE_PPT);
        }
        (saturate(gained * PPT / passed), growth)
    }
}

impl Timekeeper for FollowedClock {
    fn reading(&self, process: Nanos) -> ClockReading {
        let known = self.state(|state| state.discipline.read(process));
        let unknown = ClockReading { now: process, bound_ns: UNKNOWN_NS };
        known.map_or(unknown, |known| ClockReading {
            bound_ns: known.bound_ns.min(UNKNOWN_NS),
            ..known
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phc::Sample;
    use proptest::prelude::*;

    /// A hardware clock: ahead of the system's, gaining, read within so many ns.
    struct Fake {
        ahead_ns: i64,
        gains_ppb: i64,
        width_ns: u64,
        begun: Option<u64>,
        fails: bool,
    }

    fn wall() -> u64 {
        std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_nanos() as u64
    }

    impl Fake {
        fn truth(&self, wall_ns: u64) -> u64 {
            let passed = wall_ns - self.begun.expect("asked before");
            let gained = i128::from(passed) * i128::from(self.gains_ppb) / 1_000_000_000;
            (i128::from(wall_ns) + i128::from(self.ahead_ns) + gained) as u64
        }
    }

    impl Hardware for Fake {
        fn sample(&mut self) -> std::io::Result<Sample> {
            if self.fails {
                return Err(std::io::ErrorKind::TimedOut.into());
            }
            let now = wall();
            self.begun.get_or_insert(now);
            let before = Nanos(now - self.width_ns / 3);
            let hardware = Nanos(self.truth(now));
            Ok(Sample { before, hardware, after: before.after(self.width_ns) })
        }
    }

    fn phc(ahead_ns: i64, gains_ppb: i64) -> Phc<Fake> {
        let width_ns = 300;
        let hardware = Fake { ahead_ns, gains_ppb, width_ns, begun: None, fails: false };
        Phc { hardware, ahead_ns: 0, name: "fake".to_string() }
    }

    #[test]
    fn a_hardware_clock_is_followed_within_the_bound_and_better_with_time() {
        for (ahead_ns, gains_ppb) in [(5_000_000, 20_000), (-5_000_000, -20_000), (0, 0)] {
            let (own, kept) = (Clock::start(0), FollowedClock::start(&Config::default()));
            let mut source = phc(ahead_ns, gains_ppb);
            let clock = own.kept_by(kept);
            assert_eq!(clock.reading().bound_ns, UNKNOWN_NS);
            let (mut last, mut bounds) = (Nanos(0), Vec::new());
            for _ in 0..60 {
                kept.ask(&mut source, &own).expect("an answer");
                std::thread::sleep(Duration::from_millis(2));
                let before = source.hardware.truth(wall());
                let reading = clock.reading();
                let after = source.hardware.truth(wall());
                assert!(reading.now >= last, "ran backwards");
                last = reading.now;
                let off = reading.now.since(Nanos(after)).max(Nanos(before).since(reading.now));
                assert!(off <= reading.bound_ns, "{off} ns off, told {}", reading.bound_ns);
                bounds.push(reading.bound_ns);
            }
            bounds.sort_unstable();
            assert!(bounds[0] < 3 * Nanos::MICRO, "{bounds:?}");
        }
    }

    #[test]
    fn the_bound_grows_while_nothing_is_said_and_a_clock_that_keeps_tai_is_read_as_utc() {
        let (own, kept) = (Clock::start(0), FollowedClock::start(&Config::default()));
        let mut source = phc(37 * Nanos::SECOND as i64, 0);
        source.ahead_ns = 37 * Nanos::SECOND;
        kept.ask(&mut source, &own).expect("an answer");
        let clock = own.kept_by(kept);
        assert!(clock.now().0.abs_diff(wall()) < Nanos::SECOND, "no 37 s off");
        let known = clock.reading().bound_ns;
        source.hardware.fails = true;
        std::thread::sleep(Duration::from_millis(100));
        let why = kept.ask(&mut source, &own).expect_err("silent");
        assert_eq!((kept.silent(), kept.is_known()), (Some(why), true));
        let grown = clock.reading().bound_ns;
        // 100 ppm of at least 100 ms.
        assert!(grown >= known + 9_900, "{known} {grown}");
        source.hardware.fails = false;
        kept.ask(&mut source, &own).expect("an answer");
        assert!(kept.silent().is_none() && clock.reading().bound_ns < grown);
    }

    #[test]
    fn control_a_jump_of_the_source_is_doubted_first_and_the_bound_says_so() {
        let (own, kept) = (Clock::start(0), FollowedClock::start(&Config::default()));
        let mut source = phc(0, 0);
        (0..3).for_each(|_| kept.ask(&mut source, &own).expect("an answer"));
        let clock = own.kept_by(kept);
        source.hardware.ahead_ns = 50_000_000;
        kept.ask(&mut source, &own).expect("an answer");
        let reading = clock.reading();
        assert!(reading.bound_ns >= 40_000_000, "{reading:?}");
        assert!(reading.now.0.abs_diff(wall()) < 30_000_000, "not followed yet");
        (0..5).for_each(|_| kept.ask(&mut source, &own).expect("an answer"));
        let reading = clock.reading();
        assert!(reading.bound_ns >= 40_000_000, "what is still to be slewed is in it");
    }

    #[test]
    fn a_thread_asks_until_it_is_stopped() {
        let (own, kept) = (Clock::start(0), FollowedClock::start(&Config::default()));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| kept.keep(&mut phc(1_000, 0), &own, &stop));
            let begun = Instant::now();
            while !kept.is_known() && begun.elapsed() < Duration::from_secs(10) {
                std::thread::sleep(Duration::from_millis(5));
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(kept.is_known());
    }

    #[test]
    fn a_device_that_is_not_there_is_told_with_its_key() {
        let mut config = Config::default();
        assert!(source(&config).expect("nobody to ask").is_none());
        config.clock.source = "phc".to_string();
        config.clock.phc = "/dev/null".to_string();
        let why = source(&config).map(drop).expect_err("no clock").to_string();
        assert!(why.starts_with("clock.phc: /dev/null: "), "{why}");
    }

    proptest! {
        #[test]
        fn whatever_a_source_says_the_clock_never_runs_backwards(
            answers in proptest::collection::vec(
                (any::<i64>(), any::<u64>(), 0u64..3_000_000_000, any::<u8>()), 1..40),
        ) {
            let kept = FollowedClock::start(&Config::default());
            let (mut now, mut last) = (1_700_000_000 * Nanos::SECOND, Nanos(0));
            for (offset_ns, bound_ns, passed, shift) in answers {
                now += passed;
                let (offset_ns, bound_ns) = (offset_ns >> (shift % 64), bound_ns >> (shift % 64));
                let growth_ppt = (shift & 1 == 0).then_some(bound_ns);
                let at = Nanos(now - passed / 2);
                kept.follow(Nanos(now), Answer { at, offset_ns, bound_ns, growth_ppt });
                let reading = kept.reading(Nanos(now));
                prop_assert!(reading.now >= last && reading.bound_ns <= UNKNOWN_NS);
                last = reading.now;
            }
        }
    }
}
