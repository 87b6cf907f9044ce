//! `fairbell-lab reproduce all`: every table and figure of the five published sources, ours beside theirs.
//!
//! A source is a list of [`Item`]s: what is published and where, in which unit, which way is better, how
//! ours comes about, and the function that runs it. What cannot be done here is an item with its reason. Runs
//! are shared: an experiment or a measurement gives a [`Report`], whose rows the items pick.
//! The result is one file, of which the tables in `docs/papers/` are made ([`pages`]).

mod aws_prototype;
mod fx_trading;
mod jasper;
mod measured;
mod opra_decoder;
mod pages;
mod treebuilder;

use std::collections::BTreeMap;
use std::time::Instant;

use host::failure::Failure;
use serde::{Deserialize, Serialize};
use sim::cloud::report::{self, Options, Report, Run};
use sim::cloud::stats::paired_ratio;
use sim::cloud::{EXPERIMENTS, experiment, short};
use telemetry::plot::Figure;

use super::ReproduceArgs;

/// How ours comes about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Threads, sockets and nodes of the exchange on the machine that runs the command.
    Measured,
    /// The deterministic simulator, with the overlay's own code in a modelled cloud.
    Simulated,
    /// Counted or computed by the product's code; nothing is timed.
    Computed,
    /// Nothing runs; the item's note says why.
    Impossible,
}

impl Kind {
    /// Its name in results and on pages.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Measured => "real threads and sockets",
            Kind::Simulated => "simulated",
            Kind::Computed => "computed",
            Kind::Impossible => "not possible here",
        }
    }
}

/// Which way is better, and so how ours is judged.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Aim {
    /// The same figure, within this share of it (and one decimal of the unit).
    Same(f64),
    /// At most the published one.
    Less,
    /// At least the published one.
    More,
}

/// What a runner gives.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ours {
    /// The figure, in the item's unit.
    pub value: f64,
    /// Its interval of 95 %, or the range of few runs; none of a single run.
    pub interval: Option<[f64; 2]>,
}

/// Runs an item.
pub type Runner = fn(&mut Session) -> Result<Ours, Failure>;

/// One figure of a table or figure of a source.
pub struct Item {
    /// Table, figure or section of the source.
    pub at: &'static str,
    /// What is told there.
    pub what: &'static str,
    /// Unit of both figures.
    pub unit: &'static str,
    /// As printed, from least to most; none where the source prints no number.
    pub published: Option<[f64; 2]>,
    /// Which way is better.
    pub aim: Aim,
    /// How ours comes about.
    pub kind: Kind,
    /// Runs it; none where that is impossible.
    pub run: Option<Runner>,
    /// Why ours differs where it does, or why there is none.
    pub note: &'static str,
}

impl Item {
    /// An item with a number of the source.
    const fn new(
        (at, what): (&'static str, &'static str),
        (published, unit): (f64, &'static str),
        aim: Aim,
        kind: Kind,
        run: Runner,
    ) -> Item {
        let published = Some([published; 2]);
        Item { at, what, unit, published, aim, kind, run: Some(run), note: "" }
    }

    /// An item of which the source prints no number.
    const fn unprinted(
        (at, what): (&'static str, &'static str),
        unit: &'static str,
        kind: Kind,
        run: Runner,
    ) -> Item {
        let aim = Aim::Same(0.0);
        Item { at, what, unit, published: None, aim, kind, run: Some(run), note: "" }
    }

    /// An item that cannot be run here.
    const fn impossible((at, what): (&'static str, &'static str), why: &'static str) -> Item {
        let (unit, published, aim) = ("", None, Aim::Same(0.0));
        Item { at, what, unit, published, aim, kind: Kind::Impossible, run: None, note: why }
    }

    /// With what the source prints of it.
    const fn printed(mut self, low: f64, high: f64, unit: &'static str) -> Item {
        self.published = Some([low, high]);
        self.unit = unit;
        self
    }

    /// With the reason of a difference.
    const fn note(mut self, note: &'static str) -> Item {
        self.note = note;
        self
    }

    /// Its name in results: where and what.
    fn name(&self) -> String {
        format!("{}: {}", self.at, self.what)
    }

    /// What is said of a figure beside the published one.
    fn verdict(&self, ours: &Ours) -> String {
        let Some([low, high]) = self.published else {
            return match self.note {
                "" => "no number published".to_string(),
                note => format!("no number published; {note}"),
            };
        };
        let missed = |how: String| match self.note {
            "" => format!("not reached: {how}"),
            note => format!("not reached: {how}; {note}"),
        };
        let away = |from: f64| {
            let part = (ours.value / from - 1.0) * 100.0;
            let side = if ours.value < from { "below" } else { "above" };
            match part.abs() {
                _ if from == 0.0 => format!("{:.1} {} {side}", ours.value.abs(), self.unit),
                times if times >= 300.0 && part > 0.0 => format!("{:.1} times", ours.value / from),
                part => format!("{part:.0} % {side}"),
            }
        };
        // Seeds that differ so much say nothing of the published figure.
        let open = ours.interval.is_some_and(|[from, to]| from <= high && low <= to);
        let judged = |edge: f64, verdict: String| match open {
            true => format!("not decided: {}, within the interval", away(edge)),
            false => verdict,
        };
        match self.aim {
            _ if ours.value.is_nan() => missed("no figure came about".to_string()),
            Aim::Same(share) => {
                let room = |edge: f64| (edge.abs() * share).max(0.05);
                if (low - room(low)..=high + room(high)).contains(&ours.value) {
                    return "reproduced".to_string();
                }
                let edge = if ours.value < low { low } else { high };
                let verdict = match self.note {
                    "" => missed(away(edge)),
                    note => format!("refuted: {}; {note}", away(edge)),
                };
                judged(edge, verdict)
            }
            Aim::Less if ours.value < low * 0.95 => judged(low, format!("better: {}", away(low))),
            Aim::Less if ours.value <= high * 1.05 => "reproduced".to_string(),
            Aim::Less => judged(high, missed(away(high))),
            Aim::More if ours.value > high * 1.05 => {
                judged(high, format!("better: {}", away(high)))
            }
            Aim::More if ours.value >= low * 0.95 => "reproduced".to_string(),
            Aim::More => judged(low, missed(away(low))),
        }
    }
}

/// A source and its items.
pub struct Source {
    /// Name of its page.
    pub page: &'static str,
    /// Its items in the order of the source.
    pub items: &'static [Item],
}

/// The five sources.
pub const SOURCES: [Source; 5] = [
    Source { page: "jasper", items: jasper::ITEMS },
    Source { page: "aws-prototype", items: aws_prototype::ITEMS },
    Source { page: "treebuilder", items: treebuilder::ITEMS },
    Source { page: "opra-decoder", items: opra_decoder::ITEMS },
    Source { page: "fx-trading", items: fx_trading::ITEMS },
];

/// A published figure: a number, or the ends of a range.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Published {
    /// A number.
    One(f64),
    /// Least and most.
    Range([f64; 2]),
}

impl Published {
    /// What an item has.
    fn of(item: &Item) -> Option<Published> {
        item.published.map(|[low, high]| match low == high {
            true => Published::One(low),
            false => Published::Range([low, high]),
        })
    }
}

/// The circumstances of a row that was run again behind the others.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Again {
    /// As in [`Outcome`].
    pub mode: String,
    /// As in [`Outcome`].
    pub load: String,
    /// As in [`Outcome`].
    pub profile: String,
    /// As in [`Outcome`].
    pub commit: String,
    /// As in [`Outcome`].
    pub date: String,
}

/// An item's outcome, as the result file has it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Page of the source.
    pub page: String,
    /// Where in the source, and what.
    pub item: String,
    /// Unit of the figures.
    pub unit: String,
    /// The source's figure.
    pub published: Option<Published>,
    /// Our figure, in `unit`; none: not to be had here, or no number.
    pub ours: Option<f64>,
    /// Interval of 95 % of ours, or the range of few runs.
    pub interval: Option<[f64; 2]>,
    /// How ours came about.
    pub kind: String,
    /// What is to be said of it.
    pub verdict: String,
    /// The command that runs it again.
    pub command: String,
    /// Where it did not come of the run that the file tells of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<Again>,
}

/// A run of all items, as the result file has it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// `fast` or `full`.
    pub mode: String,
    /// Kind of the machine: processor, cores, memory.
    pub machine: String,
    /// Load average of the minute before the run, which tells whether others worked there, too.
    pub load: String,
    /// Build profile of the program.
    pub profile: String,
    /// Commit of the working copy.
    pub commit: String,
    /// Day of the run, UTC.
    pub date: String,
    /// How long it took, s.
    pub seconds: f64,
    /// Seeds of the simulated experiments: the first one, and the most that an experiment took.
    pub seeds: [u64; 2],
    /// The figures.
    pub rows: Vec<Row>,
}

/// One run: what is asked for, and the reports that items share.
pub struct Session {
    /// Short measurements and few seeds.
    pub fast: bool,
    /// Seeds of every experiment, instead of its own number.
    pub seeds: Option<u64>,
    /// What else the experiments are told; the first seed.
    pub options: Options,
    /// Time that the engine takes more for each order, ns, as the AWS prototype's does to mimic matching.
    pub matching_delay_ns: u64,
    reports: BTreeMap<&'static str, Result<Report, String>>,
    most_seeds: u64,
}

/// Seeds of an experiment in a fast run.
const FAST_SEEDS: u64 = 2;
/// Most seeds of an experiment in a full run.
const FULL_SEEDS: u64 = 10;

impl Session {
    /// A session that has run nothing.
    pub fn new(fast: bool) -> Session {
        Session {
            fast,
            seeds: None,
            options: Options::default(),
            matching_delay_ns: 0,
            reports: BTreeMap::new(),
            most_seeds: 0,
        }
    }

    /// The report of an experiment or a measurement, run at the first call.
    fn report(&mut self, name: &'static str) -> Result<&Report, Failure> {
        if !self.reports.contains_key(name) {
            let begin = Instant::now();
            let report = self.make(name);
            eprintln!("{name}: {:.1} s", begin.elapsed().as_secs_f64());
            let report = match report {
                // All items of a report that cannot be had here have that reason.
                Err(Failure::Unavailable(why)) => Err(why),
                report => Ok(report?),
            };
            self.reports.insert(name, report);
        }
        match self.reports.get(name) {
            Some(Ok(report)) => Ok(report),
            Some(Err(why)) => Err(Failure::Unavailable(why.clone())),
            None => Err(Failure::Run(format!("{name}: no report"))),
        }
    }

    fn make(&mut self, name: &'static str) -> Result<Report, Failure> {
        if let Some((_, measure)) = measured::ALL.iter().find(|(known, _)| *known == name) {
            return measure(self);
        }
        let Some(experiment) = experiment(name) else {
            return Err(Failure::Run(format!("no experiment {name:?}")));
        };
        let own = experiment.seeds.min(if self.fast { FAST_SEEDS } else { FULL_SEEDS });
        let seeds = self.seeds.unwrap_or(own);
        self.most_seeds = self.most_seeds.max(seeds);
        let mut told = |_| {};
        let run = short(name).filter(|_| self.fast).unwrap_or(experiment.run);
        Ok(run(&mut Run { seeds, options: self.options, progress: &mut told }))
    }

    /// A row of a report, in `unit`.
    fn row(&mut self, report: &'static str, what: &str, unit: &str) -> Result<Ours, Failure> {
        let report = self.report(report)?;
        let row = report.rows.iter().find(|row| row.what == what);
        let row = row
            .ok_or_else(|| Failure::Run(format!("{} has no row {what:?} any more", report.name)))?;
        let scale = match (row.unit, unit) {
            (own, wanted) if own == wanted => 1.0,
            ("ns", "us") => 1e-3,
            ("ns", "ms") => 1e-6,
            ("1/s", "million/s") => 1e-6,
            (own, wanted) => {
                return Err(Failure::Run(format!("{what}: in {own}, wanted in {wanted}")));
            }
        };
        let around = (row.ours.mean, row.ours.half_width);
        let spread = (around.1 > 0.0).then_some((around.0 - around.1, around.0 + around.1));
        let interval = row.interval.filter(|(low, high)| low < high).or(spread);
        let interval = interval.map(|(low, high)| [low * scale, high * scale]);
        Ok(Ours { value: around.0 * scale, interval })
    }

    /// The quotient of two rows' figures, of the same report and unit; of simulated ones with its interval over seeds.
    fn ratio(&mut self, report: &'static str, of: &str, to: &str) -> Result<Ours, Failure> {
        let report = self.report(report)?;
        let row = |what: &str| {
            let row = report.rows.iter().find(|row| row.what == what);
            row.ok_or_else(|| Failure::Run(format!("no row {what:?}")))
        };
        let (of, to) = (row(of)?, row(to)?);
        let value = of.ours.mean / to.ours.mean;
        // Runs of what is measured are no pairs.
        let simulated = [of, to].iter().all(|row| row.kind != Some(report::Kind::Measured));
        let width = paired_ratio(&of.values, &to.values).1;
        let width = width.filter(|width| simulated && *width > 0.0);
        Ok(Ours { value, interval: width.map(|width| [value - width, value + width]) })
    }

    /// Figures of all reports, in the order of the experiments.
    fn figures(&self) -> Vec<Figure> {
        let names = EXPERIMENTS.iter().map(|one| one.name);
        let names = names.chain(measured::ALL.iter().map(|(name, _)| *name));
        let reports = names.filter_map(|name| self.reports.get(name));
        reports.filter_map(|of| of.as_ref().ok()).flat_map(|of| of.figures.clone()).collect()
    }
}

/// The command that runs an item again.
fn command(page: &str, at: &str) -> String {
    format!("fairbell-lab reproduce all --only \"{page}: {at}:\"")
}

/// Runs an item.
///
/// # Errors
/// What its runner says, except that something is not to be had here, which is its verdict.
fn play(page: &str, item: &Item, session: &mut Session) -> Result<Row, Failure> {
    let mut row = Row {
        page: page.to_string(),
        item: item.name(),
        unit: item.unit.to_string(),
        published: Published::of(item),
        ours: None,
        interval: None,
        kind: item.kind.name().to_string(),
        verdict: item.note.to_string(),
        command: command(page, item.at),
        again: None,
    };
    let Some(run) = item.run else { return Ok(row) };
    match run(session) {
        Ok(ours) => {
            row.ours = ours.value.is_finite().then(|| rounded(ours.value));
            row.interval = ours.interval.map(|ends| ends.map(rounded));
            row.verdict = item.verdict(&ours);
        }
        Err(Failure::Unavailable(why)) => {
            row.kind = Kind::Impossible.name().to_string();
            row.verdict = why;
        }
        Err(failure) => {
            return Err(Failure::Run(format!("{page}: {}: {failure}", item.name())));
        }
    }
    Ok(row)
}

/// A figure with the nine digits that the result file keeps: more are not the same after they were read.
fn rounded(value: f64) -> f64 {
    format!("{value:.8e}").parse().unwrap_or(value)
}

/// The items that `--only` leaves: those whose page and name contain it.
fn chosen(only: Option<&str>) -> Vec<(&'static str, &'static Item)> {
    let all = SOURCES.iter().flat_map(|source| source.items.iter().map(|item| (source.page, item)));
    let fits = |(page, item): &(&'static str, &'static Item)| {
        only.is_none_or(|only| format!("{page}: {}", item.name()).contains(only))
    };
    all.filter(fits).collect()
}

/// Runs the command.
///
/// # Errors
/// No item of that name, and what a run says.
pub(super) fn run(args: &ReproduceArgs, options: Options) -> Result<(), Failure> {
    let items = chosen(args.only.as_deref());
    if items.is_empty() {
        let pages: Vec<&str> = SOURCES.iter().map(|source| source.page).collect();
        let line = format!("--only: no such item; pages are {}", pages.join(", "));
        return Err(Failure::Usage(line));
    }
    let mut session = Session { seeds: args.seeds, options, ..Session::new(!args.full) };
    let load = pages::load();
    let begin = Instant::now();
    let mut rows = Vec::new();
    for (page, item) in items {
        rows.push(play(page, item, &mut session)?);
    }
    let outcome = Outcome {
        mode: if args.full { "full" } else { "fast" }.to_string(),
        machine: pages::machine(),
        load,
        profile: if cfg!(debug_assertions) { "dev" } else { "release" }.to_string(),
        commit: pages::commit(),
        date: pages::today(),
        seconds: (begin.elapsed().as_secs_f64() * 10.0).round() / 10.0,
        seeds: [options.first_seed, session.most_seeds],
        rows,
    };
    if let Some(folder) = &args.into {
        let all = match &args.only {
            Some(_) => &pages::merged(pages::read(folder)?, &outcome)?,
            None => &outcome,
        };
        pages::put(all, &session.figures(), folder)?;
    } else {
        let figures = session.figures();
        telemetry::plot::write(&figures, &args.out).map_err(|error| {
            Failure::Run(format!("cannot write figures to {}: {error}", args.out.display()))
        })?;
    }
    match args.json {
        true => {
            let text = serde_json::to_string_pretty(&outcome);
            println!("{}", text.map_err(|error| Failure::Run(error.to_string()))?);
        }
        false => print!("{}", pages::text(&outcome)),
    }
    Ok(())
}

#[cfg(test)]
mod tests;
