//! Log, store, statements, feed and recordings held against each other.
//!
//! The log is replayed once. From it come a second store, which is compared row by row with the
//! one in question; the statements, drawn up by other code from the same reports, which the store's
//! rows must amount to; the engine's own positions and the feed's prints, which the statements are
//! reconciled with; and what recordings of others must hold.

use engine::statement::{Ledger, Tape, reconcile};
use serde_json::{Value, json};
use store::{Found, Place, Query, differences, disagreements};

use super::follow::{Feed, Writing};
use super::recorded::{DropCopy, Recorded, RecordedFeed};
use super::{Places, ReconcileArgs, at};
use crate::report::numbers::grouped;
use host::failure::{Failure, on};

/// Differences that are shown one by one.
const SHOWN_MAX: usize = 20;

/// A file that goes with it.
struct Passing(Place);

impl Drop for Passing {
    fn drop(&mut self) {
        // What is left of it is in nobody's way, and removed before the next.
        let _ = store::remove(&self.0);
    }
}

/// One comparison.
struct Line {
    what: &'static str,
    compared: u64,
    differences: u64,
    first: Vec<String>,
}

impl Line {
    fn of(what: &'static str, found: &Found) -> Line {
        let first = found.first.iter().map(ToString::to_string).collect();
        Line { what, compared: found.rows, differences: found.count, first }
    }

    fn recorded(what: &'static str, found: &Recorded) -> Line {
        let (compared, differences) = (found.compared, found.differences);
        Line { what, compared, differences, first: found.first.clone() }
    }
}

/// Where the second store is: a file, whatever the first one is.
fn second(first: &Place) -> Place {
    if !first.is_server() {
        return first.beside("reconcile");
    }
    let name = format!("fairbell-reconcile-{}.db", std::process::id());
    Place::File(std::env::temp_dir().join(name))
}

/// Replays the log up to where the store holds, and compares.
pub fn run(args: &ReconcileArgs) -> Result<(), Failure> {
    let places = args.places.places()?;
    let wrong = |error| at(&places.store, error);
    let asked = Query::open(&places.store).map_err(wrong)?;
    // It may be fed meanwhile; all questions are about one moment.
    let held = asked.freeze().map_err(wrong)?;
    let other = Passing(second(&places.store));
    store::remove(&other.0).map_err(|error| at(&other.0, error))?;
    let second = Places { store: other.0.clone(), ..args.places.places()? };
    let Some(feed) = Feed::open(&second, Writing::Hurried)? else {
        return Err(on(&places.journal, "holds no log of an exchange"));
    };
    let mut feed = feed.until(held.applied);
    let config = feed.keeper.feeder().engine().config().clone();
    let mut recorded_feed = match &args.feed {
        Some(path) => Some(RecordedFeed::read(path, &feed.genesis, &config.instruments)?),
        None => None,
    };
    let mut copies = match &args.drop_copy {
        Some(path) => Some(DropCopy::read(path, &places.config)?),
        None => None,
    };
    let (mut ledger, mut tape) = (Ledger::default(), Tape::default());
    while feed.keeper.taken().applied < held.applied {
        let count = feed.step_anywhere(|keeper, input| {
            let output = keeper.feeder().output();
            ledger.take_all(output);
            output.market.iter().for_each(|(_, event)| tape.take(event));
            if let Some(recorded) = &mut recorded_feed {
                recorded.take(input, output);
            }
            if let Some(copies) = &mut copies {
                output.executions.iter().for_each(|report| copies.take(report));
            }
        })?;
        if count == 0 {
            break;
        }
    }
    feed.keeper.flush().map_err(|error| at(&second.store, error))?;
    let due = Query::open(&second.store).map_err(|error| at(&second.store, error))?;
    let mut rows = Found::keeping(SHOWN_MAX);
    differences(&due, &asked, &mut rows).map_err(wrong)?;
    let mut sums = Found::keeping(SHOWN_MAX);
    disagreements(&ledger, &asked, &mut sums).map_err(wrong)?;
    let told = reconcile(&ledger, &tape, feed.keeper.feeder().engine());
    let taken = feed.keeper.taken();
    // While the store is behind, recordings may know more than it does.
    let ended = feed.is_last();
    let marks = u64::from(taken != held);
    let mut lines = vec![
        Line {
            what: "log and store: place, reports and their digest",
            compared: held.reports,
            differences: marks,
            first: Some(format!("the log gives {taken:?}, the store says {held:?}"))
                .filter(|_| marks > 0)
                .into_iter()
                .collect(),
        },
        Line::of("log and store: rows", &rows),
        Line::of("statements and store", &sums),
        Line {
            what: "statements, feed and engine",
            compared: ledger.trades().count() as u64,
            differences: told.len() as u64,
            first: told.iter().take(SHOWN_MAX).map(|one| format!("{one:?}")).collect(),
        },
    ];
    if let Some(recorded) = recorded_feed {
        lines.push(Line::recorded("log and recorded feed: messages", &recorded.finish(ended)));
    }
    if let Some(copies) = copies {
        lines.push(Line::recorded("log and drop copy: executions", &copies.finish(ended)));
    }
    verdict(&lines, held.applied, args.places.json)
}

fn verdict(lines: &[Line], applied: u64, as_json: bool) -> Result<(), Failure> {
    let count: u64 = lines.iter().map(|line| line.differences).sum();
    if as_json {
        let comparison = |line: &Line| -> Value {
            json!({
                "what": line.what,
                "compared": line.compared,
                "differences": line.differences,
                "first_differences": line.first,
            })
        };
        let document = json!({
            "inputs": applied,
            "comparisons": lines.iter().map(comparison).collect::<Vec<_>>(),
            "differences": count,
            "reconciled": count == 0,
        });
        println!("{document:#}");
    } else {
        for line in lines {
            let (compared, differing) = (grouped(line.compared), grouped(line.differences));
            println!("{:<48} {compared:>12} compared, {differing} differences", line.what);
            line.first.iter().for_each(|first| println!("  differs: {first}"));
        }
        let verdict = if count == 0 { "PASS" } else { "FAIL" };
        let (applied, count) = (grouped(applied), grouped(count));
        println!("{verdict}: up to input {applied}, {count} differences");
    }
    match count {
        0 => Ok(()),
        count => Err(Failure::Run(format!("{count} differences"))),
    }
}
