//! `fairbell-lab bench hop`: one hop, from the call that sends to the program that receives.
//!
//! A sender and a receiver at the ends of a cable, each a thread that never sleeps while it measures; data
//! planes take turns. Told are the first copy's delay (of one copy: the hop), the last one's, and the window
//! between them, as the receiving program sees them.

use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use clap::Args;
use clock::simulate::quantile;
use emulator::Cable;
use host::failure::Failure;
use host::sockets::io;
use net::plane::{DataPlane, PlaneKind};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use telemetry::plot::{self, Curve, Figure};

use super::fanout::ground::{cable, messages, settle};

/// Options of `fairbell-lab bench hop`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab bench hop                             one copy and ten, 2,000 messages a second\n  \
    fairbell-lab bench hop --copies 25 --rate 500 --duration 10s --json\n\n\
    It needs root, network namespaces and `ip`; where they are refused it says so and exits with 3.")]
pub struct HopArgs {
    /// Copies of a message, several times for several [default: 1, 10]
    #[arg(long = "copies", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=128))]
    pub copies: Vec<u32>,
    /// Messages a second
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(10..=50_000))]
    pub rate: u64,
    /// Bytes of a datagram
    #[arg(long, value_name = "BYTES", default_value_t = 128,
          value_parser = clap::value_parser!(u32).range(64..=1_400))]
    pub size: u32,
    /// Time of measurement for each number of copies
    #[arg(long, value_name = "TIME", value_parser = fairbell::options::duration, default_value = "4s")]
    pub duration: Duration,
    /// Fixes the bytes of the messages
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write a plot of the distributions to FOLDER, as SVG and PNG
    #[arg(long, value_name = "FOLDER")]
    pub plot: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Messages of a slice.
const SLICE: u64 = 100;
/// Longest wait for a message's last copy.
const ARRIVAL: Duration = Duration::from_millis(20);

/// What one plane did, ns, a value for each message.
#[derive(Default)]
struct Played {
    first: Vec<u64>,
    last: Vec<u64>,
    window: Vec<u64>,
    lost: u64,
}

struct Found {
    copies: u32,
    played: Vec<(PlaneKind, Played)>,
}

/// Measures and prints.
///
/// # Errors
/// Where the ground is refused.
pub fn run(args: &HopArgs) -> Result<(), Failure> {
    let copies = if args.copies.is_empty() { &[1, 10][..] } else { &args.copies };
    let mut all = Vec::new();
    for copies in copies {
        let found = measure(*copies, args)?;
        if !args.json {
            print(&found, args);
        }
        all.push(found);
    }
    let files = match &args.plot {
        Some(folder) => plot::write(&[figure(&all)], folder)
            .map_err(|error| Failure::Run(format!("{}: {error}", folder.display())))?,
        None => Vec::new(),
    };
    if args.json {
        let cases = all.iter().flat_map(|found| {
            found.played.iter().map(|(kind, of)| {
                json!({ "copies": found.copies, "plane": kind.name(), "messages": of.first.len(),
                        "lost": of.lost,
                        "first_ns": { "p50": quantile(&of.first, 500), "p99": quantile(&of.first, 990) },
                        "last_ns": { "p50": quantile(&of.last, 500), "p99": quantile(&of.last, 990) },
                        "window_ns": { "p50": quantile(&of.window, 500), "p99": quantile(&of.window, 990) } })
            })
        });
        let cases: Vec<_> = cases.collect();
        println!(
            "{:#}",
            json!({ "bench": "hop", "rate": args.rate, "cases": cases, "plots": files })
        );
    } else {
        files.iter().for_each(|file| println!("{}", file.display()));
    }
    Ok(())
}

/// For each data plane of this build, the delays of single datagrams of `size` bytes, ns, sorted.
///
/// # Errors
/// Where the ground is refused.
pub(crate) fn first_copies(
    size: u32,
    time: Duration,
) -> Result<Vec<(&'static str, Vec<u64>)>, Failure> {
    let (rate, seed) = (2_000, 1);
    let args =
        HopArgs { copies: Vec::new(), rate, size, duration: time, seed, plot: None, json: true };
    let found = measure(1, &args)?;
    Ok(found.played.into_iter().map(|(kind, of)| (kind.name(), of.first)).collect())
}

/// CLOCK_MONOTONIC, ns: of all threads the same.
fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn measure(copies: u32, args: &HopArgs) -> Result<Found, Failure> {
    let cable = cable()?;
    let messages = messages(copies as usize, args.size as usize, args.seed);
    let peers: Vec<SocketAddr> = messages[0].iter().map(|(to, _)| *to).collect();
    let refused = |error: net::plane::PlaneError| Failure::Unavailable(error.to_string());
    let (socket, mut planes) = cable
        .left()
        .enter(|| {
            let socket = UdpSocket::bind((Cable::left_address(false), 0)).map_err(io)?;
            settle(&socket, &messages[0])?;
            let open = |kind| DataPlane::open(kind, &socket, &peers).map(|plane| (kind, plane));
            let planes = PlaneKind::built().map(open).collect::<Result<Vec<_>, _>>();
            Ok::<_, Failure>((socket, planes.map_err(refused)?))
        })
        .map_err(io)??;
    let port = peers.first().map_or(0, SocketAddr::port);
    let ear =
        cable.right().enter(|| UdpSocket::bind(("0.0.0.0", port))).map_err(io)?.map_err(io)?;
    ear.set_nonblocking(true).map_err(io)?;
    let (heard, over) = (Mutex::new(Vec::<u64>::new()), AtomicBool::new(false));
    let mut found: Vec<(PlaneKind, Played)> =
        PlaneKind::built().map(|kind| (kind, Played::default())).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut bytes = [0; 2_048];
            while !over.load(Relaxed) {
                if ear.recv(&mut bytes).is_ok() {
                    let at = now();
                    heard.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(at);
                }
            }
        });
        let outcome = (|| {
            let take = || {
                let mut heard = heard.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                std::mem::take(&mut *heard)
            };
            let keep = |sent_at| {
                let mut heard = heard.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                // A copy of the message before, which was given up.
                heard.retain(|at| *at > sent_at);
                heard.len()
            };
            let gap = Duration::from_nanos(1_000_000_000 / args.rate);
            let (begun, mut round, mut next) = (Instant::now(), 0, 0);
            while begun.elapsed() < args.duration || round == 0 {
                for turn in 0..planes.len() {
                    let at = (turn + round) % planes.len();
                    let (_, plane) = &mut planes[at];
                    let (_, played) = &mut found[at];
                    for _ in 0..SLICE {
                        let message = &messages[next % messages.len()];
                        next += 1;
                        take();
                        let due = Instant::now() + gap;
                        let sent_at = now();
                        for (to, bytes) in message {
                            plane.send(&socket, *to, bytes).map_err(io)?;
                        }
                        plane.flush(&socket).map_err(io)?;
                        let waited = Instant::now();
                        while keep(sent_at) < message.len() && waited.elapsed() < ARRIVAL {
                            for _ in 0..50 {
                                std::hint::spin_loop();
                            }
                        }
                        match take()[..] {
                            [first, .., last] if message.len() > 1 => {
                                played.first.push(first.saturating_sub(sent_at));
                                played.last.push(last.saturating_sub(sent_at));
                                played.window.push(last.saturating_sub(first));
                            }
                            [only] if message.len() == 1 => {
                                played.first.push(only.saturating_sub(sent_at));
                                played.last.push(only.saturating_sub(sent_at));
                                played.window.push(0);
                            }
                            _ => played.lost += 1,
                        }
                        while Instant::now() < due {
                            std::hint::spin_loop();
                        }
                    }
                }
                round += 1;
            }
            Ok::<(), Failure>(())
        })();
        over.store(true, Relaxed);
        outcome
    })?;
    for (_, played) in &mut found {
        for of in [&mut played.first, &mut played.last, &mut played.window] {
            of.sort_unstable();
        }
    }
    Ok(Found { copies, played: found })
}

fn print(found: &Found, args: &HopArgs) {
    println!(
        "{} copies of {} bytes, {} messages a second, send to receiving program that spins, us",
        found.copies, args.size, args.rate
    );
    println!("{:<10} messages  first p50     p99   last p50     p99 window p50     p99  lost", "");
    for (kind, of) in &found.played {
        let us = |of: &[u64], permille| quantile(of, permille) as f64 / 1e3;
        println!(
            "{:<10} {:>8} {:>10.2} {:>7.1} {:>10.2} {:>7.1} {:>10.2} {:>7.1} {:>5}",
            kind.name(),
            of.first.len(),
            us(&of.first, 500),
            us(&of.first, 990),
            us(&of.last, 500),
            us(&of.last, 990),
            us(&of.window, 500),
            us(&of.window, 990),
            of.lost
        );
    }
}

fn figure(all: &[Found]) -> Figure {
    let curve = |copies: u32, kind: PlaneKind, of: &Played| {
        let point = |permille| (quantile(&of.last, permille) as f64 / 1e3, permille as f64 / 10.0);
        let name = format!("{kind}, {copies} copies");
        Curve { name, points: (0..=980).step_by(20).map(point).collect() }
    };
    let curves = all.iter().flat_map(|found| {
        found.played.iter().map(move |(kind, of)| curve(found.copies, *kind, of))
    });
    Figure {
        file: "hop",
        title: "From the call to the last copy's receiver".to_string(),
        x: "us",
        y: "messages, %",
        curves: curves.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_has_its_delays_and_none_is_before_its_sending() {
        let args = HopArgs {
            copies: vec![3],
            rate: 5_000,
            size: 100,
            duration: Duration::from_millis(1),
            seed: 2,
            plot: None,
            json: true,
        };
        let found = match measure(3, &args) {
            Ok(found) => found,
            Err(error @ Failure::Unavailable(_)) if std::env::var_os("CI").is_none() => {
                println!("not tested: {error}");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        for (kind, of) in &found.played {
            assert!(of.first.len() as u64 + of.lost == SLICE && of.lost < SLICE / 2, "{kind}");
            assert!(of.first[0] > 0 && quantile(&of.last, 500) >= quantile(&of.first, 500));
        }
        assert_eq!(figure(&[found]).curves.len(), PlaneKind::built().count());
    }
}
