//! How punctual the relay is under load, and what it costs: one host sends to all others in turn,
//! profile table1: `cargo run --release -p emulator --example load [hosts] [messages a second] [spin us]`.
//! Each message is one packet for every other host.

use std::net::UdpSocket;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use emulator::{Config, Network, Profile};

/// Length of the run.
const RUN: Duration = Duration::from_secs(3);
/// Ticks of a second in `/proc`, on all Linux machines of today.
const TICKS: u64 = 100;

/// Processor time of the relay's thread so far, in ticks.
fn relay_ticks() -> Option<u64> {
    std::fs::read_dir("/proc/self/task").ok()?.find_map(|entry| {
        let stat = std::fs::read_to_string(entry.ok()?.path().join("stat")).ok()?;
        let (name, rest) = stat.split_once(") ")?;
        name.ends_with("(emulator-relay").then_some(())?;
        // User and system time are the 14th and 15th figures; the name was the 2nd.
        let mut figures = rest.split(' ').skip(11).map(str::parse::<u64>);
        Some(figures.next()?.ok()? + figures.next()?.ok()?)
    })
}

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map_while(|word| word.parse::<u32>().ok());
    let (hosts, rate) = (numbers.next().unwrap_or(25) as usize, numbers.next().unwrap_or(500));
    let spin_ns = u64::from(numbers.next().unwrap_or(30)) * 1_000;
    let config = Config { spin_ns, ..Config::new(hosts, Profile::table1()) };
    let network = match Network::start(config) {
        Ok(network) => network,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(3);
        }
    };
    let bind = |host: &emulator::Host| host.enter(|| UdpSocket::bind((host.v4(), 0)));
    let sockets: std::io::Result<Vec<UdpSocket>> =
        network.hosts().iter().map(|host| bind(host).flatten()).collect();
    let targets = sockets.and_then(|sockets| {
        let targets = sockets.iter().map(UdpSocket::local_addr).collect::<Result<Vec<_>, _>>();
        Ok((targets?, sockets))
    });
    let (targets, sockets) = match targets {
        Ok(both) => both,
        Err(error) => {
            eprintln!("a socket: {error}");
            return ExitCode::FAILURE;
        }
    };
    let (begin, before) = (Instant::now(), relay_ticks());
    let mut messages = 0;
    while begin.elapsed() < RUN {
        for target in &targets[1..] {
            // What a full queue refuses is missing in the counters below.
            let _ = sockets[0].send_to(&[0; 128], target);
        }
        messages += 1;
        let next = Duration::from_secs(1) * messages / rate.max(1);
        std::thread::sleep(next.saturating_sub(begin.elapsed()));
    }
    let took = begin.elapsed().as_secs_f64();
    let (total, late) = (network.total(), network.lateness());
    println!("{} packets in {took:.1} s, {} delivered", total.packets, total.delivered);
    println!(
        "late us: p50 {:.2}, p90 {:.2}, p99 {:.2}",
        late.p50 as f64 / 1e3,
        late.p90 as f64 / 1e3,
        late.p99 as f64 / 1e3
    );
    if let (Some(before), Some(after)) = (before, relay_ticks()) {
        println!("relay: {:.0} % of a core", (after - before) as f64 * 100.0 / TICKS as f64 / took);
    }
    ExitCode::SUCCESS
}
