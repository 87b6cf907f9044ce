//! `fairbell-lab bench dedup`: the filter of duplicates in front of the stack, checked and timed.
//!
//! The check gives the program in the kernel frames as several senders would send them: copies of each
//! number from every sender, reordered within a bound, the publisher started anew now and then. First on one
//! core beside the model, verdict by verdict; then on two cores at once, where it is judged by what is
//! promised: no first copy is dropped, and a second one passes only where the window says so. The timing
//! sends duplicates over a cable and counts what the program drops, beside a program that drops everything.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use clap::Args;
use emulator::Cable;
use host::failure::Failure;
use host::sockets::io;
use net::plane::bare::Sink;
use net::plane::{
    DuplicateFigures, DuplicateFilter, DuplicateKey, DuplicateModel, Learning, PlaneError, WINDOW,
};
use serde_json::json;
use types::SplitMix64;

use super::fanout::ground::{cable, settle};

/// Options of `fairbell-lab bench dedup`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab bench dedup                           10 million datagrams of 3 senders on 2 cores\n  \
    fairbell-lab bench dedup --datagrams 2000000 --senders 5 --restarts 40 --seed 9 --json\n\n\
    It needs root, network namespaces and `ip`; where they are refused it says so and exits with 3.")]
pub struct DedupArgs {
    /// Datagrams, copies included
    #[arg(long, value_name = "N", default_value_t = 10_000_000,
          value_parser = clap::value_parser!(u64).range(1_000..=1_000_000_000))]
    pub datagrams: u64,
    /// Senders, each of which sends every number
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=8))]
    pub senders: u64,
    /// Times that the publisher is started anew
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u64).range(0..=1_000))]
    pub restarts: u64,
    /// How far a copy may be behind, in numbers; beyond the filter's window duplicates pass
    #[arg(long, value_name = "N", default_value_t = 20_000,
          value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    pub behind: u64,
    /// Time of the timing; 0s: none
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "2s")]
    pub duration: Duration,
    /// Fixes order and restarts
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// A time, or none.
fn time(text: &str) -> Result<Duration, String> {
    if text == "0s" { Ok(Duration::ZERO) } else { fairbell::options::duration(text) }
}

const PORT: u16 = 5_000;
/// As a sealed datagram has it: version, reserved, stream, life of the publisher, number.
const KEY: DuplicateKey = DuplicateKey {
    version: overlay::seal::SEALED_VERSION,
    stream: (2, 0),
    epoch: 4,
    number: 8,
    sender: 16,
};
const HEADERS: usize = 42;
/// Bytes of a datagram.
const LENGTH: usize = 96;
/// Frames that one core takes in a row before another one looks.
const BATCH: u64 = 64;

/// A frame of Ethernet with a datagram for the port.
fn frame() -> Vec<u8> {
    let mut frame = vec![0u8; HEADERS + LENGTH];
    frame[12..14].copy_from_slice(&0x0800u16.to_be_bytes());
    frame[14] = 0x45;
    frame[23] = 17;
    frame[36..38].copy_from_slice(&PORT.to_be_bytes());
    frame[HEADERS] = KEY.version;
    frame
}

fn name(datagram: &mut [u8], epoch: u32, number: u64) {
    datagram[4..8].copy_from_slice(&epoch.to_le_bytes());
    datagram[8..16].copy_from_slice(&number.to_le_bytes());
}

/// Whose turn it is when: datagram after datagram, epoch and number.
struct Traffic {
    senders: u64,
    /// Numbers of an epoch.
    numbers: u64,
    epochs: u64,
    behind: u64,
    seed: u64,
}

impl Traffic {
    fn new(args: &DedupArgs) -> Traffic {
        let epochs = args.restarts + 1;
        let numbers = (args.datagrams / args.senders / epochs).max(1);
        let DedupArgs { senders, behind, seed, .. } = args;
        Traffic { senders: *senders, numbers, epochs, behind: *behind, seed: *seed }
    }

    fn total(&self) -> u64 {
        self.senders * self.numbers * self.epochs
    }

    /// Epoch from 0 and number from 1 of a datagram by its place. Numbers come in stretches of `behind`, which
    /// each sender begins at another place; and each block of 64 of them is in an order of its own.
    fn at(&self, place: u64) -> (u64, u64) {
        let in_epoch = self.senders * self.numbers;
        let (epoch, place) = (place / in_epoch, place % in_epoch);
        let (turn, sender) = (place / self.senders, place % self.senders);
        let stretch = self.behind.clamp(1, self.numbers);
        let start = turn / stretch * stretch;
        let length = stretch.min(self.numbers - start);
        let offset = (turn - start + length * sender / self.senders) % length;
        let block = offset / 64 * 64;
        let within = 64.min(length - block);
        let turned =
            SplitMix64::mix(self.seed ^ epoch << 40 ^ sender << 32 ^ (start + block)) % within;
        (epoch, start + block + (offset - block + turned) % within + 1)
    }

    /// What names an epoch to the filter: no order in it, as lives of a node have none.
    fn tag(&self, epoch: u64) -> u32 {
        SplitMix64::mix(self.seed ^ 0xEB0C ^ epoch) as u32 | 1
    }
}

/// What a check found.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
struct Checked {
    datagrams: u64,
    passed: u64,
    /// Verdicts that are not the model's.
    unlike_model: u64,
    /// Numbers of which no copy passed.
    originals_dropped: u64,
    /// Further copies that passed, and how many the program says it let through for a reason.
    duplicates_passed: u64,
    excused: u64,
    ns_per_datagram: u64,
}

impl Checked {
    fn complaint(&self) -> Option<String> {
        if self.originals_dropped > 0 {
            return Some(format!("{} originals were dropped", self.originals_dropped));
        }
        if self.unlike_model > 0 {
            return Some(format!("{} verdicts differ from the model's", self.unlike_model));
        }
        let beyond = self.duplicates_passed.saturating_sub(self.excused);
        (beyond > 0).then(|| format!("{beyond} duplicates passed within the window"))
    }
}

fn refused(error: PlaneError) -> Failure {
    Failure::Unavailable(error.to_string())
}

/// One core, beside the model.
fn alone(traffic: &Traffic, limit: u64) -> Result<Checked, Failure> {
    let filter = DuplicateFilter::detached(PORT, KEY, Learning::Passing).map_err(refused)?;
    let (mut model, mut frame) = (DuplicateModel::default(), frame());
    let mut checked = Checked { datagrams: traffic.total().min(limit), ..Checked::default() };
    let begun = Instant::now();
    for place in 0..checked.datagrams {
        let (epoch, number) = traffic.at(place);
        name(&mut frame[HEADERS..], traffic.tag(epoch), number);
        let passes = filter.verdict(&frame).map_err(io)?;
        checked.passed += u64::from(passes);
        let wanted = model.passes(traffic.tag(epoch), number);
        checked.unlike_model += u64::from(passes != wanted);
    }
    checked.ns_per_datagram = begun.elapsed().as_nanos() as u64 / checked.datagrams.max(1);
    Ok(checked)
}

/// Several cores at once.
fn together(traffic: &Traffic, cores: usize) -> Result<(Checked, DuplicateFigures), Failure> {
    let filter = DuplicateFilter::detached(PORT, KEY, Learning::Passing).map_err(refused)?;
    let total = traffic.total();
    let seen: Vec<AtomicU8> =
        (0..traffic.numbers * traffic.epochs).map(|_| AtomicU8::new(0)).collect();
    let (next, passed) = (AtomicU64::new(0), AtomicU64::new(0));
    let begun = Instant::now();
    let work = || -> std::io::Result<()> {
        let mut frame = frame();
        loop {
            let from = next.fetch_add(BATCH, Relaxed);
            if from >= total {
                return Ok(());
            }
            for place in from..(from + BATCH).min(total) {
                let (epoch, number) = traffic.at(place);
                name(&mut frame[HEADERS..], traffic.tag(epoch), number);
                if filter.verdict(&frame)? {
                    passed.fetch_add(1, Relaxed);
                    seen[(epoch * traffic.numbers + number - 1) as usize].fetch_add(1, Relaxed);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let joined = threads.into_iter().map(|thread| match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect::<std::io::Result<Vec<()>>>()
    })
    .map_err(io)?;
    let ns_per_datagram = begun.elapsed().as_nanos() as u64 / total.max(1);
    let figures = filter.figures();
    let copies = |of: &AtomicU8| u64::from(of.load(Relaxed));
    let checked = Checked {
        datagrams: total,
        passed: passed.load(Relaxed),
        unlike_model: 0,
        originals_dropped: seen.iter().filter(|of| copies(of) == 0).count() as u64,
        duplicates_passed: seen.iter().map(|of| copies(of).saturating_sub(1)).sum(),
        // Behind the window; lost races; and where epochs meet a place may be taken back and forth.
        excused: figures.late + figures.contended + around_restarts(traffic, cores),
        ns_per_datagram,
    };
    Ok((checked, figures))
}

/// Copies that may pass twice because a core was still busy with the epoch before: a batch of each.
fn around_restarts(traffic: &Traffic, cores: usize) -> u64 {
    (traffic.epochs - 1) * BATCH * cores as u64
}

/// What was timed: duplicates a second that the filter and that a bare drop took.
struct Timed {
    filter_per_s: f64,
    bare_per_s: f64,
    generic: bool,
}

/// Duplicates over a cable.
fn timed(time: Duration) -> Result<Timed, Failure> {
    let cable = cable()?;
    let interface = cable.right().interface();
    let to = SocketAddr::new(Cable::receiver(false, 0), PORT);
    let socket = cable.left().enter(|| UdpSocket::bind((Cable::left_address(false), 0)));
    let socket = socket.map_err(io)?.map_err(io)?;
    settle(&socket, &[(to, Vec::new())])?;
    let mut datagram = frame()[HEADERS..].to_vec();
    name(&mut datagram, 7, 7);
    let rate = |count: &dyn Fn() -> u64| -> Result<f64, Failure> {
        let (before, begun) = (count(), Instant::now());
        while begun.elapsed() < time / 2 {
            for _ in 0..256 {
                socket.send_to(&datagram, to).map_err(io)?;
            }
        }
        Ok((count() - before) as f64 / begun.elapsed().as_secs_f64())
    };
    let attach = || -> Result<DuplicateFilter, Failure> {
        let any = UdpSocket::bind(("0.0.0.0", 0)).map_err(io)?;
        let index = rustix::net::netdevice::name_to_index(&any, interface);
        let index = index.map_err(|error| io(error.into()))?;
        DuplicateFilter::attach(index, PORT, KEY, Learning::Passing).map_err(refused)
    };
    let filter = cable.right().enter(attach).map_err(io)??;
    let filter_per_s = rate(&|| filter.figures().duplicates)?;
    let generic = filter.is_generic();
    drop(filter);
    // What is attached goes a moment after its last descriptor.
    let begun = Instant::now();
    let sink = loop {
        match cable.right().enter(|| Sink::attach(interface)).map_err(io)? {
            Ok(sink) => break sink,
            Err(error) if begun.elapsed() > Duration::from_secs(2) => return Err(refused(error)),
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    Ok(Timed { filter_per_s, bare_per_s: rate(&|| sink.count())?, generic })
}

/// Checks, measures and prints.
///
/// # Errors
/// Where programs are refused; an original dropped, or a duplicate passed that should not have.
pub fn run(args: &DedupArgs) -> Result<(), Failure> {
    let traffic = Traffic::new(args);
    let alone = alone(&traffic, args.datagrams / 10)?;
    let cores = 2;
    let (together, figures) = together(&traffic, cores)?;
    let timed = (args.duration > Duration::ZERO).then(|| timed(args.duration)).transpose()?;
    if args.json {
        let one = |of: &Checked| {
            json!({ "datagrams": of.datagrams, "passed": of.passed, "unlike_model": of.unlike_model,
                    "originals_dropped": of.originals_dropped, "duplicates_passed": of.duplicates_passed,
                    "excused": of.excused, "ns_per_datagram": of.ns_per_datagram })
        };
        let timed = timed.as_ref().map(|of| {
            json!({ "dropped_per_s": of.filter_per_s, "bare_drop_per_s": of.bare_per_s, "generic": of.generic })
        });
        println!(
            "{:#}",
            json!({ "bench": "dedup", "seed": args.seed, "window": WINDOW, "senders": args.senders,
                    "restarts": args.restarts, "behind": args.behind, "one_core": one(&alone),
                    "two_cores": one(&together), "timed": timed,
                    "counters": { "first": figures.first, "duplicates": figures.duplicates,
                                  "late": figures.late, "contended": figures.contended,
                                  "other": figures.other } })
        );
    } else {
        let Checked { datagrams, passed, unlike_model, .. } = alone;
        println!(
            "one core, beside the model: {datagrams} datagrams of {} senders, {passed} passed, {unlike_model} \
             verdicts differ",
            args.senders
        );
        println!(
            "{cores} cores: {} datagrams, {} restarts, copies up to {} numbers behind (window {WINDOW}): {} passed",
            together.datagrams, args.restarts, args.behind, together.passed
        );
        println!(
            "  originals dropped {}; duplicates passed {} ({} behind the window, {} lost races, up to {} around \
             restarts); {} ns a datagram with the call",
            together.originals_dropped,
            together.duplicates_passed,
            figures.late,
            figures.contended,
            around_restarts(&traffic, cores),
            together.ns_per_datagram
        );
        println!(
            "  counters: first {}, duplicates {}, late {}, contended {}, other {}",
            figures.first, figures.duplicates, figures.late, figures.contended, figures.other
        );
        if let Some(Timed { filter_per_s, bare_per_s, generic }) = timed {
            let place = if generic { "behind the driver" } else { "in the driver" };
            println!(
                "duplicates over a cable, {place}: {filter_per_s:.0} dropped a second, a bare drop {bare_per_s:.0} \
                 ({:.2})",
                filter_per_s / bare_per_s
            );
        }
    }
    match alone.complaint().or(together.complaint()) {
        None => Ok(()),
        Some(complaint) => Err(Failure::Run(complaint)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(behind: u64) -> DedupArgs {
        DedupArgs {
            datagrams: 120_000,
            senders: 3,
            restarts: 2,
            behind,
            duration: Duration::ZERO,
            seed: 5,
            json: true,
        }
    }

    fn refused_here<T>(found: Result<T, Failure>) -> Option<T> {
        match found {
            Ok(found) => Some(found),
            Err(error @ Failure::Unavailable(_)) if std::env::var_os("CI").is_none() => {
                println!("not tested: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn traffic_has_each_number_once_from_every_sender() {
        for behind in [0, 70, 5_000] {
            let traffic = Traffic::new(&args(behind));
            let mut seen = std::collections::BTreeMap::new();
            (0..traffic.total()).for_each(|at| *seen.entry(traffic.at(at)).or_insert(0) += 1);
            assert!(seen.values().all(|copies| *copies == 3), "behind {behind}");
            assert_eq!(seen.len() as u64, traffic.numbers * traffic.epochs);
        }
    }

    #[test]
    fn each_original_passes_and_no_duplicate_and_the_model_says_the_same() {
        let traffic = Traffic::new(&args(400));
        let Some(alone) = refused_here(alone(&traffic, u64::MAX)) else { return };
        assert_eq!((alone.complaint(), alone.datagrams), (None, traffic.total()));
        let Some((both, figures)) = refused_here(together(&traffic, 2)) else { return };
        assert_eq!(both.complaint(), None, "{both:?} {figures:?}");
        assert_eq!(figures.first + figures.late + figures.contended, both.passed);
        assert!(figures.duplicates >= traffic.total() * 6 / 10, "{figures:?}");
        refused_here(run(&DedupArgs { duration: Duration::from_millis(40), ..args(100) }));
    }

    #[test]
    fn no_timing_can_be_asked_for_as_the_help_says() {
        assert_eq!((time("0s"), time("2s")), (Ok(Duration::ZERO), Ok(Duration::from_secs(2))));
        assert!(time("0").is_err() && time("-1s").is_err());
    }

    #[test]
    fn control_a_filter_that_forgets_or_takes_too_much_is_found() {
        let good = Checked { datagrams: 9, passed: 3, ..Checked::default() };
        assert_eq!(good.complaint(), None);
        let dropped = Checked { originals_dropped: 1, ..good };
        assert!(dropped.complaint().is_some_and(|why| why.contains("1 originals were dropped")));
        let twice = Checked { duplicates_passed: 5, excused: 3, ..good };
        assert!(twice.complaint().is_some_and(|why| why.contains("2 duplicates passed")));
        assert!(Checked { unlike_model: 1, ..good }.complaint().is_some());
    }
}
