//! Checks networks of four hosts with each profile and prints how near their delays are to it:
//! `cargo run --release -p emulator --example profiles [hosts] [probes] [seed]`.

use std::process::ExitCode;

use emulator::{Config, Network, Profile};

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map_while(|word| word.parse::<usize>().ok());
    let (hosts, probes) = (numbers.next().unwrap_or(4), numbers.next().unwrap_or(2_000));
    let seed = numbers.next().unwrap_or(1) as u64;
    println!(
        "profile     probes lost KS relay KS seen delay p50 us floor p50 us late p50 p99 us  late %"
    );
    for name in Profile::NAMES {
        let profile = Profile::named(name).expect("a name of the list");
        let network = match Network::start(Config { seed, ..Config::new(hosts, profile) }) {
            Ok(network) => network,
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::from(3);
            }
        };
        match network.check(probes) {
            Ok(check) => {
                let us = |ns: u64| ns as f64 / 1e3;
                println!(
                    "{name:<11} {:>6} {:>4} {:>8.3} {:>7.3} {:>12.1} {:>12.1} {:>8.2} {:>6.2} {:>7.1}",
                    check.samples,
                    check.lost,
                    check.relay_distance,
                    check.end_to_end_distance,
                    us(check.delay.p50),
                    us(check.floor.p50),
                    us(check.lateness.p50),
                    us(check.lateness.p99),
                    100.0 * check.late_share,
                );
            }
            Err(error) => eprintln!("{name}: {error}"),
        }
    }
    ExitCode::SUCCESS
}
