//! `fairbell store`: the post-trade store made from a journal, kept up to date, and reconciled.
//!
//! The journal is read from disk as anybody may read it, behind whoever writes it: nothing here is
//! on the way of an order.

pub mod beside;
pub mod follow;
mod reconcile;
mod recorded;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ::store::{Place, Query, StoreError, Table};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::log::progress;
use crate::report::numbers::grouped;
use follow::{Feed, REPLACED, Writing};
use host::config::Config;
use host::failure::{Failure, on};

/// Options of `fairbell store`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell store follow                  feed it from the journal until Ctrl-C\n  \
    fairbell store follow --once --json    feed it what the journal holds now\n  \
    fairbell store rebuild                 make it anew from the journal\n  \
    fairbell store reconcile               log, statements, feed and store to zero difference\n  \
    fairbell store reconcile --feed feed.bin --drop-copy copies.fix   and what others recorded")]
pub struct StoreArgs {
    /// What to do with it.
    #[command(subcommand)]
    pub what: What,
}

/// What can be done with a store.
#[derive(Subcommand, Clone, Debug)]
pub enum What {
    /// Feed it from the journal, also while an exchange writes that
    #[command(after_help = "Examples:\n  \
        fairbell store follow                  until Ctrl-C; waits for a journal to come\n  \
        fairbell store follow --journal /var/lib/fairbell/1   a replica's, or the folder of a node\n  \
        fairbell store follow --once --json    until everything committed now is in it")]
    Follow(FollowArgs),
    /// Make it anew from the journal; the old file goes when the new one is whole
    #[command(after_help = "Example: fairbell store rebuild --journal out/journal --file new.db")]
    Rebuild(WhereArgs),
    /// Hold it against the log, statements and feed made from that, and recordings; the exit code
    /// is 1 when anything differs
    #[command(after_help = "Examples:\n  \
        fairbell store reconcile --json\n  \
        fairbell store reconcile --feed feed.bin     a capture of `fairbell up`, or pcap\n  \
        fairbell store reconcile --drop-copy copies.fix  bytes a drop-copy session received")]
    Reconcile(ReconcileArgs),
}

/// Where journal and store are.
#[derive(Args, Clone, Debug)]
pub struct WhereArgs {
    /// Configuration file of the exchange [default: fairbell.toml when it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The journal's folder: of a lone exchange, of a replica or a node, or the one that holds those of
    /// the replicas of a group [default: journal.dir of the configuration]
    #[arg(long, value_name = "DIR")]
    pub journal: Option<PathBuf>,
    /// The store's file, or postgres://USER:PASSWORD@HOST:PORT/DATABASE#SCHEMA [default: as the
    /// configuration says in store]
    #[arg(long, value_name = "FILE")]
    pub file: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Options of `fairbell store follow`.
#[derive(Args, Clone, Debug)]
pub struct FollowArgs {
    /// Where journal and store are.
    #[command(flatten)]
    pub places: WhereArgs,
    /// End when everything that is committed is in it
    #[arg(long)]
    pub once: bool,
}

/// Options of `fairbell store reconcile`.
#[derive(Args, Clone, Debug)]
pub struct ReconcileArgs {
    /// Where journal and store are.
    #[command(flatten)]
    pub places: WhereArgs,
    /// Feed as somebody received it: pcap, or a capture of `fairbell up --capture`
    #[arg(long, value_name = "FILE")]
    pub feed: Option<PathBuf>,
    /// FIX messages as a drop-copy session received them, from its first on
    #[arg(long, value_name = "FILE")]
    pub drop_copy: Option<PathBuf>,
}

/// Where journal and store are, with the configuration.
pub struct Places {
    /// The configuration.
    pub config: Config,
    /// The journal's folder.
    pub journal: PathBuf,
    /// The store.
    pub store: Place,
}

/// What somebody has written of where a store is.
///
/// # Errors
/// What is wrong with it.
pub fn place(text: &str) -> Result<Place, Failure> {
    Place::read(text).map_err(Failure::Usage)
}

/// Where the configuration has the store.
///
/// # Errors
/// What is wrong with the address of a server.
pub fn place_of(config: &Config) -> Result<Place, Failure> {
    let place = first_place_of(config)?;
    // Each shard has a store of its own: those behind the first beside it.
    Ok(match config.of_shard {
        0 => place,
        shard => place.beside(&format!("shard{}", shard + 1)),
    })
}

fn first_place_of(config: &Config) -> Result<Place, Failure> {
    match config.store.is_on_server() {
        true => Place::read(&config.store.url)
            .map_err(|why| Failure::Usage(format!("store.url: {why}")))
            .and_then(|place| match place.is_server() {
                true => Ok(place),
                false => Err(Failure::Usage("store.url: does not begin with postgres://".into())),
            }),
        false => Ok(Place::from(Path::new(&config.store.file))),
    }
}

impl Places {
    /// Whether the journal's folder is known to be that of a group of replicas.
    fn of_group(&self) -> bool {
        let of_config = self.journal == Path::new(&self.config.journal.dir);
        of_config && self.config.journal.is_replicated()
    }
}

impl WhereArgs {
    fn places(&self) -> Result<Places, Failure> {
        let config = host::fleet::shards::settings(self.config.as_deref())?;
        let journal = self.journal.clone().unwrap_or_else(|| PathBuf::from(&config.journal.dir));
        let store = self.file.as_deref().map_or_else(|| place_of(&config), place)?;
        Ok(Places { config, journal, store })
    }
}

/// Runs the command.
pub fn run(args: &StoreArgs) -> Result<(), Failure> {
    match &args.what {
        What::Follow(args) => follow(args),
        What::Rebuild(args) => rebuild(args),
        What::Reconcile(args) => reconcile::run(args),
    }
}

/// What went wrong with a store, in one line with its place.
pub fn at(place: &Place, error: StoreError) -> Failure {
    on(Path::new(&place.to_string()), error)
}

/// Rows and places, when a feed has ended.
fn document(feed: &Feed, store: &Place, took: Duration) -> Result<Value, Failure> {
    let query = Query::open(store).map_err(|error| at(store, error))?;
    let count = |table| query.count(table).map_err(|error| at(store, error));
    let stored = feed.keeper.stored();
    let seconds = took.as_secs_f64();
    let per_s = |count: u64| (count as f64 / seconds.max(1e-9)).round();
    let (orders, trades) = (count(Table::Orders)?, count(Table::Trades)?);
    let replayed = feed.keeper.taken().applied;
    Ok(json!({
        "file": store.to_string(),
        "inputs": stored.applied,
        "reports": stored.reports,
        "reports_digest": format!("{:016x}", stored.reports_digest),
        "orders": orders,
        "trades": trades,
        "cancels": count(Table::Cancels)?,
        "amendments": count(Table::Amendments)?,
        "refusals": count(Table::Refusals)?,
        "rows_written": feed.keeper.rows(),
        "behind": feed.behind(),
        "seconds": seconds,
        "inputs_per_s": per_s(replayed),
        "rows_per_s": per_s(feed.keeper.rows()),
        "orders_per_s": per_s(orders),
    }))
}

fn tell(document: &Value, json: bool) {
    if json {
        println!("{document:#}");
        return;
    }
    let number = |key: &str| grouped(document[key].as_u64().unwrap_or(0));
    let rate = |key: &str| grouped(document[key].as_f64().unwrap_or(0.0) as u64);
    println!(
        "{}: {} orders, {} trades, {} cancels, {} corrections, {} refused cancels",
        document["file"].as_str().unwrap_or(""),
        number("orders"),
        number("trades"),
        number("cancels"),
        number("amendments"),
        number("refusals"),
    );
    println!(
        "up to input {}, {} behind; {} rows written in {:.1} s: {} orders/s, {} rows/s, {} inputs/s",
        number("inputs"),
        number("behind"),
        number("rows_written"),
        document["seconds"].as_f64().unwrap_or(0.0),
        rate("orders_per_s"),
        rate("rows_per_s"),
        rate("inputs_per_s"),
    );
}

fn follow(args: &FollowArgs) -> Result<(), Failure> {
    let places = args.places.places()?;
    let stop = crate::options::interrupted()?;
    let poll = Duration::from_millis(places.config.store.poll_ms);
    let started = Instant::now();
    let told = |line: &str| eprintln!("{line}");
    let feed = match args.once {
        true => Feed::open(&places, Writing::Steady)?
            .ok_or_else(|| on(&places.journal, "holds no log of an exchange yet"))
            .map(Some)?,
        false => Feed::wait(&places, &stop, told)?,
    };
    let Some(mut feed) = feed else { return Ok(()) };
    if !args.once {
        eprintln!("{} feeds {}", places.journal.display(), places.store);
    }
    loop {
        let mut replaced = false;
        feed.run(poll, &mut |feed, all| {
            feed.take_notices().iter().for_each(|notice| eprintln!("{notice}"));
            replaced = feed.keeper.is_replaced();
            (args.once && all) || replaced || stop.load(Ordering::Relaxed)
        })?;
        if !replaced {
            break;
        }
        eprintln!("{}: {REPLACED}", places.store);
        match Feed::wait(&places, &stop, told)? {
            Some(again) => feed = again,
            None => return Ok(()),
        }
    }
    tell(&document(&feed, &places.store, started.elapsed())?, args.places.json);
    feed.close()
}

fn rebuild(args: &WhereArgs) -> Result<(), Failure> {
    let places = args.places()?;
    let store = places.store.clone();
    let new = Places { store: store.beside("new"), ..places };
    let wrong = |error: StoreError| at(&store, error);
    ::store::remove(&new.store).map_err(wrong)?;
    let started = Instant::now();
    let Some(mut feed) = Feed::open(&new, Writing::Hurried)? else {
        return Err(on(&new.journal, "holds no log of an exchange"));
    };
    let bar = progress(feed.committed());
    feed.run(Duration::ZERO, &mut |feed, all| {
        bar.set_position(feed.keeper.taken().applied);
        all
    })?;
    bar.finish_and_clear();
    let document = document(&feed, &new.store, started.elapsed())?;
    feed.close()?;
    ::store::replace(&store, &new.store).map_err(wrong)?;
    let mut document = document;
    document["file"] = json!(store.to_string());
    tell(&document, args.json);
    Ok(())
}
