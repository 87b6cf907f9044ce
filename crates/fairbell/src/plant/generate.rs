//! Lines of made-up market data, each over two sides, for tests and load.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use clap::Args;
use fast::opra::V2;
use fast::opra::stream::{Line, Shape};
use types::SplitMix64;

use super::{LINES_MAX, failed, line_address};
use host::failure::Failure;

/// Options of `fairbell feed generate`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell feed generate --seconds 10                       24 lines to a plant on this machine\n  \
    fairbell feed generate --rate 500000 --loss-ppm 10000 --seed 7")]
pub struct GenerateArgs {
    /// Lines
    #[arg(long, value_name = "N", default_value_t = 24,
          value_parser = clap::value_parser!(u16).range(1..=i64::from(LINES_MAX)))]
    pub lines: u16,
    /// Where side A of the first line goes to; the other lines to the ports after it
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:16000")]
    pub a: SocketAddr,
    /// The same for side B
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:17000")]
    pub b: SocketAddr,
    /// Messages a second, all lines together; the first lines have more of them
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub rate: u64,
    /// How long
    #[arg(long, value_name = "S", default_value_t = 5)]
    pub seconds: u64,
    /// Packets left out, of a million, on each side by itself
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub loss_ppm: u64,
    /// Lines whose side B sends nothing
    #[arg(long, value_name = "LINE,...", value_delimiter = ',')]
    pub mute_b: Vec<u16>,
    /// Seed of everything
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
}

/// A line's generator, and how much of all traffic it has.
struct Source {
    line: Line<V2>,
    to: Vec<SocketAddr>,
    weight: u64,
    /// Messages sent.
    sent: u64,
}

/// Runs the command.
pub fn run(args: &GenerateArgs) -> Result<(), Failure> {
    let socket = host::sockets::udp_anywhere().map_err(failed("a socket"))?;
    let source = |number: u16| {
        let seed = SplitMix64::mix(args.seed.wrapping_add(number.into()));
        let shape = Shape { seed, ..Shape::default() };
        let mut to = vec![line_address(args.a, number)?];
        if !args.mute_b.contains(&number) {
            to.push(line_address(args.b, number)?);
        }
        // The busiest of 24 lines has three times the traffic of the last one.
        Ok(Source { line: Line::new(shape), to, weight: u64::from(36 - number.min(24)), sent: 0 })
    };
    let mut sources = (0..args.lines).map(source).collect::<Result<Vec<_>, Failure>>()?;
    let weights: u64 = sources.iter().map(|source| source.weight).sum();
    let mut random = SplitMix64::new(args.seed);
    let (mut packet, mut lost, mut packets) = (Vec::new(), 0_u64, 0_u64);
    let start = Instant::now();
    let end = Duration::from_secs(args.seconds);
    while start.elapsed() < end {
        let due = start.elapsed().as_secs_f64() * args.rate as f64;
        let mut idle = true;
        for source in &mut sources {
            if source.sent as f64 >= due * source.weight as f64 / weights as f64 {
                continue;
            }
            idle = false;
            packet.clear();
            source.line.packet(&mut packet, |_| source.sent += 1);
            for to in &source.to {
                packets += 1;
                if random.below(1_000_000) < args.loss_ppm {
                    lost += 1;
                } else if socket.send_to(&packet, to).is_err() {
                    // Nobody there yet, or no room: lost as in any network.
                    lost += 1;
                }
            }
        }
        if idle {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    let sent: u64 = sources.iter().map(|source| source.sent).sum();
    println!("{sent} messages in {packets} packets, {lost} of them left out");
    Ok(())
}
