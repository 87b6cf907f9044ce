//! `fairbell-lab bench strategy`: from a released datagram to the orders that it causes, for a program in the
//! cage, the same program in Rust, and a client behind sockets.
//!
//! All three are told the same messages, of a market whose best prices move with each, and ask for the same
//! orders: that is checked. The two inside are called by this thread. The client hears the
//! datagram by UDP and sends its orders by TCP, over loopback: the least that a machine of the participant's own would add.
//! Only messages after which something was asked for count.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use feed::StreamDigest;
use host::failure::{Failure, on};
use host::sockets::io;
use serde_json::json;
use strategy::{
    Cage, CageError, Limits, Maker, MakerConfig, Module, Programmed, Report, ReportKind, Request,
    Seat, Strategy, heard,
};
use telemetry::Recorder;
use types::{
    Instrument, InstrumentId, MarketEvent, Nanos, OrderRef, Price, Qty, Side, SplitMix64, Symbol,
};
use wire::itch::Encoder;

use super::misbehaving::{self, Beside, Ratio};

/// Options of `fairbell-lab bench strategy`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab bench strategy out/strategies/maker.wasm\n  \
    fairbell-lab bench strategy crates/strategy/tests/guests/maker.wasm --messages 20000 --seed 9 --json")]
pub struct StrategyBenchArgs {
    /// The maker of sdk/strategy/examples as a module
    #[arg(value_name = "MODULE")]
    pub module: PathBuf,
    /// Measure the module beside the misbehaving one of sdk/strategy/examples instead
    #[arg(long, value_name = "MODULE")]
    pub bad: Option<PathBuf>,
    /// Messages of the feed
    #[arg(long, value_name = "N", default_value_t = 200_000,
          value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    pub messages: u64,
    /// Fixes the market
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

const ONE: InstrumentId = InstrumentId(1);
/// Orders of the market that rest at a time.
const RESTING: usize = 64;
pub(super) const LOTS: u32 = 2;
/// How long the client may take for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) fn instruments() -> Vec<Instrument> {
    vec![Instrument {
        id: ONE,
        symbol: Symbol(*b"AAA     "),
        tick: Price(100),
        price_max: Price(types::limits::PRICE_MAX),
        qty_max: Qty(types::limits::QTY_MAX),
        lot_decimals: 0,
    }]
}

/// The market: orders come near a price that walks, and the oldest one goes.
pub(super) fn market(messages: u64, seed: u64) -> Result<Vec<Vec<u8>>, Failure> {
    let encoder = Encoder::new(&instruments(), Nanos(0));
    let mut random = SplitMix64::new(seed);
    let mut middle = 1_000_000_i64;
    let mut live = VecDeque::new();
    let event = |number: u64| {
        if number == 0 {
            return MarketEvent::Directory { instrument: ONE };
        }
        if live.len() >= RESTING
            && let Some(order_ref) = live.pop_front()
        {
            return MarketEvent::OrderDelete { instrument: ONE, order_ref };
        }
        middle += 100 * (random.below(3) as i64 - 1);
        let side = if random.below(2) == 0 { Side::Buy } else { Side::Sell };
        let away = 100 * (1 + random.below(5) as i64);
        let price = Price(if side == Side::Buy { middle - away } else { middle + away });
        let (order_ref, qty) = (OrderRef(number), Qty(1 + random.below(50)));
        live.push_back(order_ref);
        MarketEvent::AddOrder { instrument: ONE, order_ref, side, qty, price }
    };
    let encoded = |event: MarketEvent| {
        let mut bytes = Vec::new();
        let done = encoder.encode(&event, Nanos(1), &mut bytes);
        done.map(|_| bytes).map_err(|error| Failure::Run(format!("market: {error:?}")))
    };
    (0..messages).map(event).map(encoded).collect()
}

/// A seat, its strategy, and the exchange's answers to what it asks for.
pub(super) struct Player {
    seat: Seat,
    strategy: Box<dyn Strategy + Send>,
    asked: Vec<Request>,
    digest: StreamDigest,
    scratch: Vec<u8>,
}

impl Player {
    pub fn new(strategy: Box<dyn Strategy + Send>) -> Player {
        let seat = Seat::new(1, 1 << 12, Some(Nanos(0)));
        let (asked, scratch) = (Vec::new(), Vec::new());
        Player { seat, strategy, asked, digest: StreamDigest::default(), scratch }
    }

    /// Whether its strategy was stopped.
    pub fn is_stopped(&self) -> bool {
        self.strategy.failure().is_some()
    }

    /// Hears a message and asks for what it wants.
    pub fn hear(&mut self, number: u64, message: &[u8]) {
        self.seat.message(0, message);
        self.seat.tell(Nanos(number), self.strategy.as_mut());
        self.asked.extend(self.seat.requests());
    }

    /// Every order is taken and every cancel carried out; what was asked for, as bytes.
    fn answer(&mut self, number: u64) {
        self.scratch.clear();
        for request in self.asked.drain(..) {
            heard::request(&mut self.scratch, &request);
            let id = match request {
                Request::Order { id, .. } | Request::Cancel { id } => id,
            };
            let Some(order) = self.seat.order(id).copied() else { continue };
            let cancel = matches!(request, Request::Cancel { .. });
            let kind = if cancel { ReportKind::Ended } else { ReportKind::Accepted };
            self.seat.report(Report {
                kind,
                happened: Nanos(number),
                id,
                instrument: order.instrument,
                side: order.side,
                price: order.price,
                qty: Qty(order.open),
                left: Qty(if cancel { 0 } else { order.open }),
                rested: false,
            });
        }
        if !self.scratch.is_empty() {
            self.digest.push(&self.scratch);
        }
    }
}

/// Times of one way, and the digest of what it asked for.
pub(super) struct Way {
    pub name: &'static str,
    pub times: Recorder,
    pub digest: u64,
}

/// Calls a strategy in this thread.
pub(super) fn inside(
    name: &'static str,
    strategy: Box<dyn Strategy + Send>,
    market: &[Vec<u8>],
) -> Result<Way, Failure> {
    let (mut player, mut times) = (Player::new(strategy), Recorder::new());
    for (number, message) in (0..).zip(market) {
        let began = Instant::now();
        player.hear(number, message);
        let took = began.elapsed().as_nanos() as u64;
        if !player.asked.is_empty() {
            times.record(took);
        }
        player.answer(number);
    }
    match player.strategy.failure() {
        Some(why) => Err(Failure::Run(format!("{name}: {why}"))),
        None => Ok(Way { name, times, digest: player.digest.value() }),
    }
}

/// A client that hears by UDP and asks by TCP, over loopback.
pub(super) fn outside(
    name: &'static str,
    strategy: Box<dyn Strategy + Send>,
    market: &[Vec<u8>],
) -> Result<Way, Failure> {
    let gateway = TcpListener::bind("127.0.0.1:0").map_err(io)?;
    let (door, feed) =
        (gateway.local_addr().map_err(io)?, UdpSocket::bind("127.0.0.1:0").map_err(io)?);
    let to = feed.local_addr().map_err(io)?;
    feed.set_read_timeout(Some(PATIENCE)).map_err(io)?;
    let mut session = TcpStream::connect(door).map_err(io)?;
    let (mut orders, _) = gateway.accept().map_err(io)?;
    for stream in [&session, &orders] {
        stream.set_nodelay(true).map_err(io)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(io)?;
    }
    let count = market.len() as u64;
    let mut times = Recorder::new();
    let digest = std::thread::scope(|scope| -> std::io::Result<u64> {
        let client = scope.spawn(move || -> std::io::Result<u64> {
            let (mut player, mut buffer) = (Player::new(strategy), [0; 2_048]);
            for number in 0..count {
                let len = feed.recv(&mut buffer)?;
                player.hear(number, buffer.get(..len).unwrap_or(&[]));
                // The bytes are as many for each answer: whether it asks for anything is in the first.
                let asks = u8::from(!player.asked.is_empty());
                session.write_all(&[asks; 48])?;
                player.answer(number);
            }
            Ok(player.digest.value())
        });
        let sender = UdpSocket::bind("127.0.0.1:0")?;
        let mut answer = [0; 48];
        for message in market {
            let began = Instant::now();
            sender.send_to(message, to)?;
            orders.read_exact(&mut answer)?;
            let took = began.elapsed().as_nanos() as u64;
            if answer[0] > 0 {
                times.record(took);
            }
        }
        client.join().map_err(|_| std::io::Error::other("the client panicked"))?
    });
    Ok(Way { name, times, digest: digest.map_err(io)? })
}

/// What a maker as a module or a program is told at its start.
pub(super) fn settings() -> String {
    format!("lots={LOTS} offset=100 most=1000000")
}

/// Starts a module; how long it took to read it, ns.
pub(super) fn caged(bytes: &[u8]) -> Result<(Programmed<Cage>, u64), CageError> {
    let limits = Limits::default();
    let began = Instant::now();
    let module = Module::new("maker", bytes, &limits)?;
    let read_ns = began.elapsed().as_nanos() as u64;
    let cage = Cage::new(&module, &settings(), &limits)?;
    let bounds = (limits.actions, limits.unanswered);
    Ok((Programmed::start(cage, (&instruments(), 4), bounds), read_ns))
}

/// Runs it.
///
/// # Errors
/// The module is none; the three ways ask for different orders.
pub fn run(args: &StrategyBenchArgs) -> Result<(), Failure> {
    let market = market(args.messages, args.seed)?;
    if let Some(bad) = &args.bad {
        return run_beside(args, bad, &market);
    }
    let bytes = std::fs::read(&args.module).map_err(|error| on(&args.module, error))?;
    let (caged, read_ns) = caged(&bytes).map_err(|error| on(&args.module, error))?;
    let config = MakerConfig { qty: LOTS, offset: 100, lots_max: 1_000_000 };
    let ways = [
        inside("in the cage", Box::new(caged), &market)?,
        inside("in Rust", Box::new(Maker(config)), &market)?,
        outside("client over loopback, in Rust", Box::new(Maker(config)), &market)?,
    ];
    let figures = |way: &Way| {
        let of = way.times.summary();
        (of.count, [of.p50, of.p90, of.p99, of.p999])
    };
    if args.json {
        let one = |way: &Way| {
            let (count, [p50, p90, p99, p999]) = figures(way);
            json!({ "way": way.name, "count": count, "p50_ns": p50, "p90_ns": p90, "p99_ns": p99,
                    "p999_ns": p999, "digest": format!("{:016x}", way.digest) })
        };
        let ways: Vec<_> = ways.iter().map(one).collect();
        println!("{:#}", json!({ "messages": args.messages, "read_ns": read_ns, "ways": ways }));
    } else {
        println!(
            "{} messages, seed {}; module read in {} us",
            args.messages,
            args.seed,
            read_ns / Nanos::MICRO
        );
        println!(
            "{:<30} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "release to order, us", "orders", "p50", "p90", "p99", "p99.9"
        );
        for way in &ways {
            let (count, quantiles) = figures(way);
            let texts = quantiles.map(|ns| format!("{:>9.2}", ns as f64 / 1e3));
            println!("{:<30} {count:>9} {}", way.name, texts.join(" "));
        }
    }
    match ways.iter().all(|way| way.digest == ways[0].digest) {
        true => Ok(()),
        false => Err(Failure::Run("the three ways ask for different orders".to_string())),
    }
}

/// The good module beside the bad one, in each way of misbehaving.
fn run_beside(args: &StrategyBenchArgs, bad: &Path, market: &[Vec<u8>]) -> Result<(), Failure> {
    let module = |path: &Path| {
        let bytes = std::fs::read(path).map_err(|error| on(path, error))?;
        let read = Module::new("module", &bytes, &Limits::default());
        read.map_err(|error| on(path, error))
    };
    let (good, bad) = (module(&args.module)?, module(bad)?);
    let market = market.get(..misbehaving::SLICE).unwrap_or(market);
    let mut all = Vec::new();
    for how in misbehaving::HOWS {
        all.push(misbehaving::beside((&good, &bad), how, (market, args.seed))?);
    }
    let of = |of: &Ratio| [of.low, of.middle, of.high];
    if args.json {
        let one = |one: &Beside| {
            json!({ "how": one.how, "stopped": one.stopped, "alone_p99_ns": one.p99[0],
                    "beside_p99_ns": one.p99[1], "noise": of(&one.noise), "ratio": of(&one.ratio),
                    "within_noise": one.is_within_noise() })
        };
        println!(
            "{:#}",
            json!({ "seed": args.seed, "beside": all.iter().map(one).collect::<Vec<_>>() })
        );
    } else {
        println!(
            "{:<10} {:>9} {:>9} {:>9}  {:<26} {:<26}",
            "p99, us", "stopped", "alone", "beside", "alone / alone, 95 %", "beside / alone, 95 %"
        );
        for one in &all {
            let text = |ratio: &Ratio| {
                let [low, middle, high] = of(ratio);
                format!("{middle:.3} ({low:.3} to {high:.3})")
            };
            let [alone, beside] = one.p99.map(|ns| ns as f64 / 1e3);
            println!(
                "{:<10} {:>9} {alone:>9.2} {beside:>9.2}  {:<26} {:<26} {}",
                one.how,
                one.stopped,
                text(&one.noise),
                text(&one.ratio),
                if one.is_within_noise() { "within noise" } else { "slower" }
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAKER: &[u8] = include_bytes!("../../../../crates/strategy/tests/guests/maker.wasm");

    #[test]
    fn the_three_ways_ask_for_the_same_and_a_strategy_of_other_lots_does_not() {
        let market = market(2_000, 5).expect("a market");
        let maker = |qty| Box::new(Maker(MakerConfig { qty, offset: 100, lots_max: 1_000_000 }));
        let ways = [
            inside("cage", Box::new(caged(MAKER).expect("a module").0), &market).expect("it runs"),
            inside("rust", maker(LOTS), &market).expect("it runs"),
            outside("client", maker(LOTS), &market).expect("it runs"),
        ];
        for way in &ways {
            assert!(way.times.summary().count > 50, "{}", way.name);
            assert_eq!(way.digest, ways[0].digest, "{}", way.name);
        }
        let other = inside("other", maker(LOTS + 1), &market).expect("it runs");
        assert_ne!(other.digest, ways[0].digest);
    }
}
