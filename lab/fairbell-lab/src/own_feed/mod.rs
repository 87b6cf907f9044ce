//! `fairbell-lab feed own`: our own feed through the plant, over two lossy lines.
//!
//! Generated commands of all kinds go through the engine; what it publishes becomes ITCH 5.0 in
//! MoldUDP64, one session for each stream, and travels to the plant over lines A and B. Each loses
//! packets by itself, delays them and lets them overtake each other. What both lose the plant asks of
//! the retransmission store that venues run; requests and answers get lost, too. It may start in the
//! middle of the day, by a snapshot from the server that venues run. In the end its books must be the
//! engine's, and its ticks the engine's trades. All from a seed, in simulated time.

mod lines;
mod truth;

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use engine::{Engine, Output};
use fairbell::options::Switch;
use feed::plant::{Kind, Update};
use host::failure::Failure;
use serde_json::{Value, json};
use ticks::{TickWriter, WriterConfig};
use types::{InstrumentId, Nanos};
use wire::itch::Encoder;

use crate::log::{Generated, generated};
use lines::{Lines, LinesConfig};
use truth::Trades;

/// Options of `fairbell-lab feed own`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab feed own --messages 10000000 --loss-ppm 10000 --json\n  \
    fairbell-lab feed own --join-at 500000 --messages 1000000      begins in the middle, by a snapshot\n  \
    fairbell-lab feed own --both-lose 5000 --repair off            must fail: a message is missing\n  \
    fairbell-lab feed own --ticks ticks; fairbell query ticks --dir ticks\n\n\
    Exit code 1: books, trades or streams are not the engine's.")]
pub struct OwnArgs {
    /// Messages of the feed, all sessions together, at least
    #[arg(long, value_name = "N", default_value_t = 200_000,
          value_parser = clap::value_parser!(u64).range(1_000..=1_000_000_000))]
    pub messages: u64,
    /// Packets that each line loses, in a million
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = clap::value_parser!(u32).range(0..=500_000))]
    pub loss_ppm: u32,
    /// Sessions that the instruments are dealt to
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u8).range(1..=4))]
    pub streams: u8,
    /// The plant hears nothing of the first messages, all sessions together
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub join_at: u64,
    /// Both lines lose the packet with this message, all sessions together
    #[arg(long, value_name = "N")]
    pub both_lose: Option<u64>,
    /// Whether what both lines lost can be had again
    #[arg(long, value_name = "on|off", value_enum, default_value_t = Switch::On)]
    pub repair: Switch,
    /// Write the ticks to this folder
    #[arg(long, value_name = "DIR")]
    pub ticks: Option<PathBuf>,
    /// Seed of everything
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Updates kept before they go to a file.
const BATCH: usize = 4_096;

/// What becomes of the plant's updates.
struct Sink {
    trades: Trades,
    quotes: u64,
    gaps: u64,
    all: u64,
    batch: Vec<Update>,
    writer: Option<TickWriter>,
}

impl Sink {
    fn take(&mut self, updates: &mut Vec<Update>) -> std::io::Result<()> {
        for update in updates.iter() {
            self.all += 1;
            match update.kind {
                Kind::Quote => self.quotes += 1,
                Kind::Gap => self.gaps += 1,
                Kind::Trade | Kind::Broken => self.trades.tick(update),
                _ => {}
            }
        }
        self.batch.append(updates);
        if self.batch.len() >= BATCH {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if let Some(writer) = &mut self.writer {
            writer.append(&self.batch)?;
        }
        self.batch.clear();
        Ok(())
    }
}

/// Plays, prints and judges.
///
/// # Errors
/// What is not as it must be.
pub fn run(args: &OwnArgs) -> Result<(), Failure> {
    let started = Instant::now();
    let outcome = play(args)?;
    let seconds = started.elapsed().as_secs_f64();
    if args.json {
        let mut document = outcome.document.clone();
        document["seconds"] = seconds.into();
        println!("{document:#}");
    } else {
        outcome.print(seconds);
    }
    match outcome.complaints.is_empty() {
        true => Ok(()),
        false => Err(Failure::Run(outcome.complaints.join("\n"))),
    }
}

/// What came of it.
pub struct Outcome {
    /// Everything counted.
    pub document: Value,
    /// What is not as it must be.
    pub complaints: Vec<String>,
}

impl Outcome {
    fn print(&self, seconds: f64) {
        let of = |name: &str| &self.document[name];
        println!(
            "{} messages in {} packets; lost by A {}, by B {}, by both {}; {} asked for, {} repaired, \
             {} snapshots; {} ticks, {} trades; {seconds:.1} s",
            of("messages"),
            of("packets"),
            of("lost_by_a"),
            of("lost_by_b"),
            of("lost_by_both"),
            of("requests"),
            of("repaired"),
            of("snapshots"),
            of("ticks"),
            of("trades"),
        );
        for book in of("books").as_array().into_iter().flatten() {
            println!(
                "{:<8} engine {} plant {}",
                book["symbol"].as_str().unwrap_or(""),
                book["engine"].as_str().unwrap_or(""),
                book["plant"].as_str().unwrap_or("")
            );
        }
    }
}

/// Plays the whole day.
///
/// # Errors
/// The folder for ticks cannot be written, or the engine says something that ITCH cannot.
pub fn play(args: &OwnArgs) -> Result<Outcome, Failure> {
    let failed = |error: std::io::Error| Failure::Run(format!("ticks: {error}"));
    let config = generated::config();
    let instruments = config.instruments.clone();
    let writer = match &args.ticks {
        Some(dir) => Some(TickWriter::open(dir, WriterConfig::default()).map_err(failed)?),
        None => None,
    };
    let mut sink =
        Sink { trades: Trades::default(), quotes: 0, gaps: 0, all: 0, batch: Vec::new(), writer };
    let mut lines = Lines::new(LinesConfig {
        seed: args.seed,
        loss_ppm: args.loss_ppm,
        streams: args.streams,
        join_at: args.join_at,
        both_lose: args.both_lose,
        repair: args.repair == Switch::On,
    });
    let mut inputs = Generated::new(args.seed, args.messages);
    let mut engine = Engine::new(config);
    let (mut output, encoder) = (Output::default(), Encoder::new(&instruments, Nanos(0)));
    let mut truth = Trades::default();
    let (mut bytes, mut updates) = (Vec::new(), Vec::new());
    while lines.sent() < args.messages {
        let Some(input) = inputs.next() else { break };
        output.clear();
        let _ = engine.apply(&input, &mut output);
        for (_, event) in &output.market {
            bytes.clear();
            encoder
                .encode(event, input.t_seq, &mut bytes)
                .map_err(|error| Failure::Run(format!("{event:?}: {error:?}")))?;
            let stream = event.instrument().map(|id| (id.0 - 1) % u16::from(args.streams));
            lines.push(input.t_seq, stream.map(|stream| stream as usize), &bytes);
            truth.event(event);
        }
        lines.run(input.t_seq, &mut updates);
        sink.take(&mut updates).map_err(failed)?;
    }
    lines.finish(&mut updates);
    sink.take(&mut updates).map_err(failed)?;
    sink.flush().map_err(failed)?;
    let files = match sink.writer.take() {
        Some(mut writer) => {
            writer.finish().map_err(failed)?;
            writer.counters().files
        }
        None => 0,
    };
    Ok(judge(args, &engine, &lines, &truth, &sink, files))
}

fn judge(
    args: &OwnArgs,
    engine: &Engine,
    lines: &Lines,
    truth: &Trades,
    sink: &Sink,
    files: u64,
) -> Outcome {
    let mut complaints = lines.complaints();
    let mut books = Vec::new();
    for instrument in &generated::config().instruments {
        let InstrumentId(number) = instrument.id;
        let own = engine.displayed_digest(instrument.id);
        let place = usize::from(number - 1) % usize::from(args.streams);
        let client = lines.plant().subscriber().channels().get(place);
        let heard = client.map_or(0, |client| client.image().digest(instrument.id));
        if own != heard {
            complaints.push(format!("{}: the book is not the engine's", instrument.symbol));
        }
        books.push(json!({
            "symbol": instrument.symbol.to_string(), "engine": format!("{own:016x}"),
            "plant": format!("{heard:016x}"), "equal": own == heard,
        }));
    }
    // Who joins late never heard what traded before.
    let whole = args.join_at == 0 && lines.snapshots() == 0;
    if whole && *truth != sink.trades {
        complaints.push(format!("trades told {:?}, not {truth:?}", sink.trades));
    }
    let total = lines.totals();
    let document = json!({
        "seed": args.seed, "messages": lines.sent(), "packets": total.packets,
        "loss_ppm": args.loss_ppm, "streams": args.streams, "join_at": args.join_at,
        "lost_by_a": total.lost[0], "lost_by_b": total.lost[1], "lost_by_both": total.lost_by_both,
        "first_a": total.first[0], "first_b": total.first[1],
        "duplicates": total.duplicates, "gaps": total.gaps, "requests": total.requests,
        "repaired": total.repaired, "snapshots": lines.snapshots(),
        "missing": total.missing, "image_errors": total.image_errors,
        "books": books, "books_equal": books.iter().all(|book| book["equal"] == true),
        "ticks": sink.all, "quotes": sink.quotes, "trades": sink.trades.count(),
        "trades_of_engine": truth.count(), "trades_compared": whole, "joined": sink.gaps,
        "tick_files": files, "complaints": complaints,
    });
    Outcome { document, complaints }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(messages: u64) -> OwnArgs {
        OwnArgs {
            messages,
            loss_ppm: 10_000,
            streams: 2,
            join_at: 0,
            both_lose: None,
            repair: Switch::On,
            ticks: None,
            seed: 5,
            json: true,
        }
    }

    #[test]
    fn books_and_trades_are_the_engines_over_two_lines_that_lose_a_hundredth() {
        let outcome = play(&args(60_000)).expect("it plays");
        assert!(outcome.complaints.is_empty(), "{:?}", outcome.complaints);
        let of = |name: &str| outcome.document[name].as_u64().expect("a number");
        assert!(of("lost_by_a") > 100 && of("lost_by_b") > 100, "{}", outcome.document);
        assert!(of("lost_by_both") > 0 && of("repaired") > 0, "{}", outcome.document);
        assert!(of("first_a") > of("first_b") && of("first_b") > 100, "{}", outcome.document);
        assert!(of("trades") > 1_000 && of("quotes") > 1_000, "{}", outcome.document);
    }

    #[test]
    fn a_message_that_both_lines_lose_is_repaired_or_found_missing() {
        let lossless = OwnArgs { loss_ppm: 0, both_lose: Some(3_000), ..args(6_000) };
        let outcome = play(&lossless).expect("it plays");
        assert!(outcome.complaints.is_empty(), "{:?}", outcome.complaints);
        assert_eq!(outcome.document["lost_by_both"], 1);
        let outcome = play(&OwnArgs { repair: Switch::Off, ..lossless.clone() }).expect("it plays");
        let told = outcome.complaints.join(" ");
        assert!(told.contains("missing") && told.contains("not the engine's"), "{told}");
        let control = OwnArgs { repair: Switch::Off, both_lose: None, ..lossless };
        assert!(play(&control).expect("it plays").complaints.is_empty(), "a control");
    }

    #[test]
    fn who_starts_in_the_middle_of_the_day_has_the_same_books() {
        let late = OwnArgs { join_at: 40_000, ..args(60_000) };
        let outcome = play(&late).expect("it plays");
        assert!(outcome.complaints.is_empty(), "{:?}", outcome.complaints);
        assert_eq!(outcome.document["snapshots"], 2, "one for each session");
        assert_eq!(outcome.document["joined"], 2, "and told");
    }

    #[test]
    fn what_was_told_is_in_the_files() {
        let dir = std::env::temp_dir().join(format!("fairbell-own-ticks-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let outcome =
            play(&OwnArgs { ticks: Some(dir.clone()), ..args(20_000) }).expect("it plays");
        let (mut trades, mut all) = (0_u64, 0_u64);
        let report = ticks::read(&dir, &ticks::Filter::default(), |tick| {
            all += 1;
            trades += u64::from(tick.kind == "trade");
            std::ops::ControlFlow::Continue(())
        });
        assert!(report.expect("a folder").complaints.is_empty());
        assert_eq!(outcome.document["ticks"], all);
        assert_eq!(outcome.document["trades"], trades);
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
