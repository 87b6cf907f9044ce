//! A subscriber: asks for symbols, or looks into the ring, and prints or counts what comes.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use feed::plant::{
    Follower, Kind, Request, SubscriptionToken, UPDATE_WORDS, Update, parse_challenge, symbol,
    symbol_text,
};
use net::ring::{Read, RingReader};

use super::{failed, now, wait};
use host::failure::Failure;

/// Options of `fairbell feed subscribe`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell feed subscribe --symbols IBM,GE --seconds 10      by datagrams from 127.0.0.1:18000\n  \
    fairbell feed subscribe --ring /dev/shm/ticks --count      everything in the ring, counted")]
pub struct SubscribeArgs {
    /// Symbols; all without it
    #[arg(long, value_name = "SYMBOL,...", value_delimiter = ',')]
    pub symbols: Vec<String>,
    /// Where to ask for them
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:18000")]
    pub desk: SocketAddr,
    /// Read this ring in shared memory instead
    #[arg(long, value_name = "FILE")]
    pub ring: Option<PathBuf>,
    /// How long
    #[arg(long, value_name = "S", default_value_t = 5)]
    pub seconds: u64,
    /// Do not print updates, only what was counted
    #[arg(long)]
    pub count: bool,
    /// Print JSON: one document an update, and one at the end
    #[arg(long)]
    pub json: bool,
}

/// Delays of which percentiles are told.
const DELAYS_MAX: usize = 1 << 20;
/// Between two requests of who has had no answer yet.
const ASK_AGAIN: Duration = Duration::from_millis(200);
/// Between two requests: a third of the lease.
const RENEW: Duration = Duration::from_secs(3);

/// Quotes and trades of a line.
#[derive(Clone, Copy, Default)]
struct FromLine {
    updates: u64,
    /// Number of the last one's message on its line.
    last: u64,
    /// Those whose number was not beyond the one before.
    out_of_order: u64,
}

/// What came.
#[derive(Default)]
struct Seen {
    updates: u64,
    quotes: u64,
    trades: u64,
    lost: u64,
    about_lines: u64,
    lines: BTreeMap<u8, FromLine>,
    /// From the packet in order to here, in nanoseconds.
    delays: Vec<u32>,
}

impl Seen {
    fn update(&mut self, args: &SubscribeArgs, update: &Update) {
        self.updates += 1;
        match update.kind {
            Kind::Quote => self.quotes += 1,
            Kind::Trade => self.trades += 1,
            _ => self.about_lines += 1,
        }
        if update.kind.is_tick() {
            let line = self.lines.entry(update.line).or_default();
            line.updates += 1;
            // A message may be a trade and change the best prices.
            let again = update.sequence == line.last && update.kind == Kind::Quote;
            line.out_of_order += u64::from(update.sequence <= line.last && !again);
            line.last = line.last.max(update.sequence);
        }
        if self.delays.len() < DELAYS_MAX {
            let delay = now().0.saturating_sub(update.heard.0);
            self.delays.push(u32::try_from(delay).unwrap_or(u32::MAX));
        }
        if args.count {
            return;
        }
        let symbol = symbol_text(update.series.symbol);
        if args.json {
            let best = |best: Option<fast::opra::Best>| {
                best.map(|best| serde_json::json!([best.price.0, best.size]))
            };
            let document = serde_json::json!({
                "kind": format!("{:?}", update.kind), "line": update.line,
                "sequence": update.sequence, "symbol": symbol,
                "month": char::from(update.series.month).to_string(), "day": update.series.day,
                "year": update.series.year, "strike": update.series.strike.0,
                "bid": update.bid.0, "bid_size": update.bid_size, "offer": update.offer.0,
                "offer_size": update.offer_size, "best_bid": best(update.best_bid),
                "best_offer": best(update.best_offer),
            });
            println!("{document}");
            return;
        }
        let price = |units: i64| units as f64 / 1e8;
        if update.series.month == 0 {
            // No option.
            println!("{}", plain(update, &symbol));
            return;
        }
        println!(
            "{:?} line {} {} {symbol} {}{:02}{:02} {:.2}: {:.2} x {} / {:.2} x {}",
            update.kind,
            update.line,
            update.sequence,
            char::from(update.series.month),
            update.series.day,
            update.series.year,
            price(update.series.strike.0),
            price(update.bid.0),
            update.bid_size,
            price(update.offer.0),
            update.offer_size,
        );
    }
}

/// What an update of a symbol without series says.
fn plain(update: &Update, symbol: &str) -> String {
    let Update { kind, line, sequence, .. } = update;
    let price = |units: i64| ticks::Tick::price_text(units);
    let head = format!("{kind:?} line {line} {sequence}");
    let side = |best: Option<fast::opra::Best>, size: u64| {
        best.map_or("-".to_string(), |best| format!("{} x {size}", price(best.price.0)))
    };
    match kind {
        Kind::Quote => {
            let (bid, offer) = (
                side(update.best_bid, update.bid_size),
                side(update.best_offer, update.offer_size),
            );
            format!("{head} {symbol}: {bid} / {offer}")
        }
        Kind::Trade => {
            format!(
                "{head} {symbol}: {} x {}, trade {}",
                price(update.bid.0),
                update.bid_size,
                update.offer.0
            )
        }
        Kind::Broken => format!("{head} {symbol}: trade {}", update.offer.0),
        Kind::Gap => format!("{head}: up to {}", update.time),
        Kind::SideDead | Kind::SideAlive => {
            format!("{head}: side {}", if update.participant == 0 { "A" } else { "B" })
        }
        Kind::Stale | Kind::Fresh => head,
    }
}

/// Runs the command.
pub fn run(args: &SubscribeArgs) -> Result<(), Failure> {
    let one = |text: &String| {
        symbol(text).ok_or_else(|| Failure::Usage(format!("--symbols: {text:?} is no symbol")))
    };
    let symbols = args.symbols.iter().map(one).collect::<Result<Vec<u64>, Failure>>()?;
    let mut seen = Seen::default();
    let end = Instant::now() + Duration::from_secs(args.seconds);
    match &args.ring {
        Some(path) => ring(args, path, &symbols, end, &mut seen)?,
        None => datagrams(args, &symbols, end, &mut seen)?,
    }
    seen.delays.sort_unstable();
    let delay = |permille: usize| {
        let at = seen.delays.len() * permille / 1_000;
        let at = at.min(seen.delays.len().saturating_sub(1));
        f64::from(seen.delays.get(at).copied().unwrap_or(0)) / 1e3
    };
    let out_of_order: u64 = seen.lines.values().map(|line| line.out_of_order).sum();
    if args.json {
        let line = |(line, seen): (&u8, &FromLine)| {
            serde_json::json!({"line": line, "updates": seen.updates, "last": seen.last,
                               "out_of_order": seen.out_of_order})
        };
        let document = serde_json::json!({
            "updates": seen.updates, "quotes": seen.quotes, "trades": seen.trades,
            "about_lines": seen.about_lines, "lost": seen.lost, "out_of_order": out_of_order,
            "lines": seen.lines.iter().map(line).collect::<Vec<_>>(),
            "delay_us": {"p50": delay(500), "p99": delay(990), "p999": delay(999)},
        });
        println!("{document}");
    } else {
        println!(
            "{} updates ({} quotes, {} trades, {} about lines) of {} lines, {} lost, {} out of order; \
             from the line to here {:.1} us, 99 % below {:.1} us",
            seen.updates,
            seen.quotes,
            seen.trades,
            seen.about_lines,
            seen.lines.len(),
            seen.lost,
            out_of_order,
            delay(500),
            delay(990)
        );
    }
    Ok(())
}

fn datagrams(
    args: &SubscribeArgs,
    symbols: &[u64],
    end: Instant,
    seen: &mut Seen,
) -> Result<(), Failure> {
    let local = if args.desk.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let open = || {
        let socket = UdpSocket::bind(local)?;
        socket.connect(args.desk)?;
        socket.set_nonblocking(true)?;
        std::io::Result::Ok(socket)
    };
    let socket = open().map_err(failed(args.desk))?;
    let mut follower = Follower::default();
    let mut bytes = [0; 2_048];
    let mut asked: Option<Instant> = None;
    let mut token = SubscriptionToken::default();
    while Instant::now() < end {
        // Until the plant has told the token.
        let every = if token == SubscriptionToken::default() { ASK_AGAIN } else { RENEW };
        if asked.is_none_or(|at| at.elapsed() >= every) {
            asked = Some(Instant::now());
            // As many as a request holds, and no symbols at all for all of them.
            let parts: Vec<&[u64]> =
                if symbols.is_empty() { vec![&[]] } else { symbols.chunks(128).collect() };
            for part in parts {
                let request = Request { symbols: part.to_vec(), leave: false, token };
                // Refused while the plant is not there: asked again.
                let _ = socket.send(&request.encode());
            }
        }
        match socket.recv(&mut bytes) {
            Ok(len) => {
                let bytes = bytes.get(..len).unwrap_or(&[]);
                if let Some(told) = parse_challenge(bytes) {
                    // It is to be shown at once, unless it was.
                    if std::mem::replace(&mut token, told) != told {
                        asked = None;
                    }
                    continue;
                }
                let lost = follower.datagram(bytes, |update| seen.update(args, &update));
                seen.lost += lost;
            }
            Err(_) => wait(std::iter::once(&socket), Duration::from_millis(50)),
        }
    }
    let leave = Request { symbols: Vec::new(), leave: true, token };
    let _ = socket.send(&leave.encode());
    Ok(())
}

fn ring(
    args: &SubscribeArgs,
    path: &std::path::Path,
    symbols: &[u64],
    end: Instant,
    seen: &mut Seen,
) -> Result<(), Failure> {
    let mut reader = RingReader::open(path).map_err(failed(path.display()))?;
    while Instant::now() < end {
        match reader.read() {
            Read::Record(record) => {
                let words = record.first_chunk::<UPDATE_WORDS>();
                let Some(update) = words.and_then(Update::from_words) else { continue };
                let tick = update.kind.is_tick();
                if !tick || symbols.is_empty() || symbols.contains(&update.series.symbol) {
                    seen.update(args, &update);
                }
            }
            Read::Lost(count) => seen.lost += count,
            Read::Nothing => std::thread::sleep(Duration::from_micros(20)),
            Read::Closed => break,
        }
    }
    Ok(())
}
