//! Books that a client of the web door had at positions of the feed, beside those of the engine there.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use engine::DisplayedBook;
use host::failure::{Failure, on};
use serde::Deserialize;
use types::{FeedSeq, Input, Instrument, MarketEvent, Price, Qty, Side, SystemEventCode};
use web::decimal::{lots, price};

/// Options of `fairbell-lab web books`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab web books run/exchange.log positions.jsonl\n  \
    fairbell-lab web books run/exchange.log positions.jsonl --config venue.toml --at-least 1000\n\n\
    Each line of the positions is one book of one symbol after one message of the feed:\n  \
    {\"symbol\": \"BTCUSD\", \"seq\": 77, \"bids\": [[\"99.5\", \"0.1\"]], \"asks\": []}\n  \
    as levels, or with [order_ref, price, qty] as orders in the order of their queues.")]
pub struct BooksArgs {
    /// The exchange's log, as `fairbell up` leaves it
    #[arg(value_name = "LOG")]
    pub log: PathBuf,
    /// What the client had: JSON, a book a line
    #[arg(value_name = "POSITIONS")]
    pub positions: PathBuf,
    /// Configuration that the log was written under [default: fairbell.toml when it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Fails with fewer books than these
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub at_least: u64,
}

#[derive(Deserialize)]
struct Seen {
    symbol: String,
    seq: u64,
    bids: Vec<Vec<String>>,
    asks: Vec<Vec<String>>,
}

/// A level or an order: its order's number, 0 of a level; price; lots.
type Row = (u64, Price, Qty);

fn rows(of: &[Vec<String>], instrument: &Instrument) -> Option<Vec<Row>> {
    let row = |row: &Vec<String>| match row.as_slice() {
        [at, qty] => Some((0, price(at)?, Qty(lots(qty, instrument)?))),
        [order, at, qty] => Some((order.parse().ok()?, price(at)?, Qty(lots(qty, instrument)?))),
        _ => None,
    };
    of.iter().map(row).collect()
}

/// A side of the engine's book as the client has it: levels or orders, as many.
fn side(book: &DisplayedBook, side: Side, like: &[Row]) -> Vec<Row> {
    let orders = book.side(side).map(|(order, price, qty)| (order.0, price, qty));
    if like.iter().any(|(order, ..)| *order > 0) {
        return orders.collect();
    }
    let mut levels: Vec<Row> = Vec::new();
    for (_, price, qty) in orders {
        match levels.last_mut() {
            Some(last) if last.1 == price => last.2 = Qty(last.2.0 + qty.0),
            _ => levels.push((0, price, qty)),
        }
    }
    levels
}

/// Where a client's book is not the engine's.
fn differs(book: &DisplayedBook, seen: &[Vec<Row>; 2]) -> Option<String> {
    [Side::Buy, Side::Sell].into_iter().zip(seen).find_map(|(of, like)| {
        let mut own = side(book, of, like);
        // The door tells 500 levels a side, and 5,000 orders.
        if like.len() >= web::market::DEPTH {
            own.truncate(like.len());
        }
        (own != *like).then(|| format!("{of:?}: {like:?}, the engine has {own:?}"))
    })
}

/// The command.
///
/// # Errors
/// A file can't be read, a book differs, or there are too few.
pub fn run(args: &BooksArgs) -> Result<(), Failure> {
    let text = std::fs::read_to_string(&args.positions).map_err(|e| on(&args.positions, e))?;
    let opened = fairbell::log::open(&args.log, args.config.as_deref(), &[])?.whole(&args.log)?;
    let instruments = opened.config.instruments.clone();
    let mut wanted: BTreeMap<(u64, usize), Vec<[Vec<Row>; 2]>> = BTreeMap::new();
    let mut books = 0u64;
    for (line, number) in text.lines().zip(1..) {
        let wrong = |why: String| on(&args.positions, format!("line {number}: {why}"));
        let seen: Seen = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
        let place = instruments.iter().position(|one| one.symbol.as_str() == seen.symbol);
        let place = place.ok_or_else(|| wrong(format!("no symbol {:?}", seen.symbol)))?;
        let instrument = &instruments[place];
        let both = rows(&seen.bids, instrument).zip(rows(&seen.asks, instrument));
        let (bids, asks) = both.ok_or_else(|| wrong("no price or quantity of it".to_string()))?;
        wanted.entry((seen.seq, place)).or_default().push([bids, asks]);
        books += 1;
    }
    let engine = opened.begin(&args.log)?;
    let inputs: Result<Vec<Input>, _> = opened.reader.collect();
    let inputs = inputs.map_err(|error| on(&args.log, error))?;
    let mut images: Vec<DisplayedBook> =
        instruments.iter().map(|_| DisplayedBook::default()).collect();
    let (mut compared, mut wrong) = (0u64, Vec::new());
    engine::replay_from(engine, &inputs, |_, _, _, out| {
        for (FeedSeq(position), event) in &out.market {
            if matches!(event, MarketEvent::SystemEvent { code: SystemEventCode::StartOfMessages })
            {
                images.iter_mut().for_each(|image| *image = DisplayedBook::default());
            }
            let image = event.instrument().and_then(|id| images.get_mut(usize::from(id.0) - 1));
            if let Some(Err(error)) = image.map(|image| image.apply(event)) {
                wrong.push(format!("after {position} the log itself: {error:?}"));
            }
            for (place, image) in images.iter().enumerate() {
                for seen in wanted.remove(&(*position, place)).unwrap_or_default() {
                    compared += 1;
                    let symbol = instruments[place].symbol;
                    wrong.extend(
                        differs(image, &seen)
                            .map(|why| format!("{symbol} after {position}, {why}")),
                    );
                }
            }
        }
    });
    println!(
        "{books} books of a client, {compared} of them at positions of the log, {} differ",
        wrong.len()
    );
    let short = |line: &String| line.chars().take(400).collect::<String>();
    wrong.iter().take(3).for_each(|line| println!("  {}", short(line)));
    let lacking = wanted.len();
    match () {
        () if !wrong.is_empty() => Err(Failure::Run(format!("{} books differ", wrong.len()))),
        () if lacking > 0 => {
            Err(Failure::Run(format!("{lacking} books are at no position of the log")))
        }
        () if compared < args.at_least => {
            Err(Failure::Run(format!("{compared} books, {} are wanted", args.at_least)))
        }
        () => Ok(()),
    }
}
