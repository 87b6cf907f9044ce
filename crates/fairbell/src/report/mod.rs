//! What a run found out, for machines (JSON), people (aligned text) and browsers (one HTML page).
//!
//! [`Report`] is filled by whoever ran the exchange; nothing here measures. The verdict is never
//! stored: [`Report::failures`] derives it from the figures, so that it can't contradict them.
//! Field names are the JSON names and stay stable; times are nanoseconds.

mod html;
pub mod numbers;
mod plots;
mod replication;
mod tables;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use types::Price;

use host::config::Config;

pub use plots::{Curve, Depth, PlotData, WindowPoint};
pub use replication::{ReplicaReport, ReplicationReport};

/// Everything a run of `fairbell up` found out.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Seed of all randomness.
    pub seed: u64,
    /// Play time: from the first order after the opening book to the last answer.
    pub duration_ns: u64,
    /// Requests (new, cancel, replace) sent by the built-in participants, the opening books
    /// included.
    pub orders_sent: u64,
    /// The exchange had no flow of its own: it went on from a journal, or none is configured.
    pub without_flow: bool,
    /// Requests with exactly one or more answers.
    pub orders_acknowledged: u64,
    /// Requests never answered.
    pub orders_lost: u64,
    /// Answers beyond the first of a request.
    pub duplicates: u64,
    /// At every position compared, every receiver's displayed books equalled the engine's.
    pub books_equal: bool,
    /// Feed positions compared, by symbol: the fewest over the receivers.
    pub checkpoints_compared: BTreeMap<String, u64>,
    /// Feed positions that must be compared for each symbol.
    pub checkpoints_required: u64,
    /// Where books differed, the first few.
    pub books_unequal: Vec<UnequalBook>,
    /// From when a new order of the timed part was due to its first answer (acceptance or refusal),
    /// on the participant's side of its connection.
    pub rtt_ns: Quantiles,
    /// Per datagram: from t_sent to the first copy's arrival at the last receiver.
    pub oml_arrival_ns: Quantiles,
    /// Per datagram: from t_sent to its release at the last receiver.
    pub oml_release_ns: Quantiles,
    /// Per datagram: from the first to the last release over the receivers.
    pub dws_ns: Quantiles,
    /// Share of datagrams that no receiver released late by its own clock, 0 to 1.
    pub p_on_time: f64,
    /// Share of datagrams released by all receivers within 1 us plus the clock error, 0 to 1.
    pub p_fair: f64,
    /// Mean time a receiver held a datagram.
    pub hold_ns_mean: u64,
    /// Copies of market-data datagrams that arrived, all hops.
    pub copies_received: u64,
    /// Of these, dropped because an earlier copy had come.
    pub copies_dropped: u64,
    /// The same hop by hop, from the root.
    pub hops: Vec<Hop>,
    /// Trees in parallel, each with what it carried; empty when there is one.
    pub trees: Vec<TreeReport>,
    /// Retransmitted datagrams that brought a receiver something new, plus retransmitted messages
    /// that listeners took.
    pub repairs: u64,
    /// Orders sent upward again.
    pub resends: u64,
    /// Feed messages that a receiver never handed on, all receivers together.
    pub feed_messages_lost: u64,
    /// Epoch of the tree at the end; 1 unless it changed.
    pub epoch: u32,
    /// Changes of the tree, in order.
    pub tree_changes: Vec<TreeChangeReport>,
    /// The trees in turn, each with how soon everybody had heard what it carried.
    pub epochs: Vec<EpochReport>,
    /// Proxies that the planner had replaced, in order.
    pub replaced: Vec<ReplacementReport>,
    /// Proxies that were found dead and routed around, in order.
    pub dead_proxies: Vec<DeadProxyReport>,
    /// The datagrams between nodes, as their guards saw them.
    pub sealing: SealingReport,
    /// What anybody sent to the sockets of the public feed.
    pub public: PublicReport,
    /// Executions that reached a participant at the maximum hold, before their tick was public.
    pub executions_overdue: u64,
    /// Orders refused because they would have traded although post-only.
    pub post_only_rejects: u64,
    /// Cancels of orders that were done.
    pub cancels_too_late: u64,
    /// Refused requests by reason.
    pub rejects: BTreeMap<String, u64>,
    /// What was traded, by instrument.
    pub instruments: Vec<InstrumentReport>,
    /// Auctions that traded, in order.
    pub auctions: Vec<AuctionReport>,
    /// Instruments halted in the middle of the day.
    pub halts: Vec<HaltReport>,
    /// Messages on the feed.
    pub feed_messages: u64,
    /// Trades of the venue in the sample; none without the sample.
    pub venue_trades: Option<u64>,
    /// Of these, made by the engine fed in file order, in process.
    pub venue_trades_reproduced_offline: Option<u64>,
    /// Trades of that replay that the venue did not make.
    pub venue_trades_extra_offline: Option<u64>,
    /// Of the venue's trades, made through the participants' own connections.
    pub venue_trades_reproduced_live: Option<u64>,
    /// Live trades on the sample's instrument that the venue did not make.
    pub venue_trades_extra_live: Option<u64>,
    /// How the sample's rows were played, by name; empty without the sample.
    pub sample: BTreeMap<String, u64>,
    /// Who kept the nodes' clocks, and how wrong they were.
    pub clock: ClockReport,
    /// The inbound sequencer.
    pub sequencer: SequencerReport,
    /// The root's replicas, where it is a group.
    pub replication: Option<ReplicationReport>,
    /// The post-trade store that was fed meanwhile.
    pub store: Option<StoreReport>,
    /// What people should know about the run.
    pub notices: Vec<String>,
    /// Further reasons why the run failed.
    pub complaints: Vec<String>,
    /// The configuration of the run, without passwords.
    pub config: Config,
}

/// The post-trade store, once it had caught up.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct StoreReport {
    /// Its file.
    pub file: String,
    /// Up to which input of the log it holds.
    pub inputs: u64,
    /// Orders in it.
    pub orders: u64,
    /// Trades in it.
    pub trades: u64,
    /// Cancels in it.
    pub cancels: u64,
    /// Rows that this run wrote.
    pub rows_written: u64,
    /// Committed records that it lacked at the end.
    pub behind: u64,
    /// The most that it lacked when it looked, before it took them.
    pub behind_max: u64,
    /// With replicas: whose folder it went on with after whose, a line each.
    pub turned: Vec<String>,
}

/// A distribution of nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Quantiles {
    /// Values.
    pub count: u64,
    /// Smallest.
    pub min: u64,
    /// Mean.
    pub mean: u64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Largest value.
    pub max: u64,
}

/// One hop of the tree, all its links together.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Hop {
    /// From where to where, like `root to layer 0`.
    pub hop: String,
    /// Copies that arrived.
    pub copies_received: u64,
    /// Of these, dropped as duplicates.
    pub copies_dropped: u64,
    /// Copies that should have come and did not.
    pub copies_missing: u64,
}

/// One of several trees, each of which carries some of the instruments.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct TreeReport {
    /// Which, from 1.
    pub tree: u16,
    /// What it carries.
    pub instruments: Vec<String>,
    /// Messages of its stream, those before play included.
    pub messages: u64,
    /// Messages published per second of play.
    pub messages_per_s: u64,
    /// Messages that every receiver handed on, per second of play.
    pub goodput_per_s: u64,
    /// Datagrams these messages travelled in.
    pub datagrams: u64,
    /// Copies of them that arrived at receivers.
    pub copies_received: u64,
    /// Of these, dropped because an earlier copy had come.
    pub copies_dropped: u64,
}

/// A place where a receiver's book was not the engine's.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct UnequalBook {
    /// Which receiver, from 1.
    pub receiver: u32,
    /// Which book.
    pub symbol: String,
    /// At which position of the feed.
    pub feed_seq: u64,
}

impl std::fmt::Display for UnequalBook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let UnequalBook { receiver, symbol, feed_seq } = self;
        write!(f, "{symbol} at receiver {receiver}, feed position {feed_seq}")
    }
}

/// One instrument at the end of the run.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct InstrumentReport {
    /// Its name.
    pub symbol: String,
    /// Trades.
    pub trades: u64,
    /// Lots traded, each trade counted once.
    pub volume_lots: u64,
    /// Decimal places of one lot.
    pub lot_decimals: u8,
    /// Orders in the book.
    pub resting_orders: u64,
    /// Best bid, 1/10000 of the quote currency.
    #[serde(serialize_with = "raw_price")]
    pub best_bid: Option<Price>,
    /// Best offer, 1/10000 of the quote currency.
    #[serde(serialize_with = "raw_price")]
    pub best_offer: Option<Price>,
}

/// One auction that traded.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct AuctionReport {
    /// Of which instrument.
    pub symbol: String,
    /// `opening`, `closing`, `resuming` (after a halt) or `intraday` (a batch auction).
    pub kind: &'static str,
    /// Its price, 1/10000 of the quote currency.
    pub price: i64,
    /// Lots traded.
    pub volume_lots: u64,
    /// Decimal places of one lot.
    pub lot_decimals: u8,
}

/// One halt.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct HaltReport {
    /// Of which instrument.
    pub symbol: String,
    /// When it began, from the start of play; 0 when before.
    pub after_ns: u64,
    /// How long no order was taken.
    pub lasted_ns: u64,
}

/// A change of the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct TreeChangeReport {
    /// The epoch that began.
    pub epoch: u32,
    /// When it was asked for, from the start of play.
    pub after_ns: u64,
    /// From then until every node knew the new tree and the root changed to it.
    pub prepared_ns: u64,
    /// From then until every node was known to live in it; 0: that was not seen.
    pub settled_ns: u64,
}

/// A tree, from when it took over until the next one did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct EpochReport {
    /// Its epoch.
    pub epoch: u32,
    /// When it took over, from the start of play.
    pub after_ns: u64,
    /// Datagrams that every receiver handed on.
    pub messages: u64,
    /// From sending to the last receiver's first copy.
    pub oml_arrival_ns: Quantiles,
    /// From sending to the last receiver's release.
    pub oml_release_ns: Quantiles,
}

/// A proxy that another one took the place of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct ReplacementReport {
    /// Who left, from 1.
    pub old: u16,
    /// Who came.
    pub new: u16,
    /// The epoch of the tree that has it so.
    pub epoch: u32,
    /// When it was asked for, from the start of play.
    pub after_ns: u64,
    /// Median round trip between the root and the one who left, at that time.
    pub old_trip_ns: u64,
    /// The same of the one who came.
    pub new_trip_ns: u64,
    /// What the slowest way was to gain by it.
    pub gain_ns: u64,
}

/// A proxy that was found dead.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct DeadProxyReport {
    /// Which, from 1.
    pub proxy: u16,
    /// When it was routed around, from the start of play.
    pub after_ns: u64,
    /// How long it had been silent then.
    pub silent_ns: u64,
}

/// Sealed datagrams, all nodes together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct SealingReport {
    /// It was on.
    pub enabled: bool,
    /// Datagrams sealed, copies included.
    pub sealed: u64,
    /// Datagrams opened.
    pub opened: u64,
    /// Datagrams refused: in clear, forged, repeated, or not their sender's to send.
    pub refused: u64,
    /// Datagrams of our own that could not be sealed.
    pub unsent: u64,
    /// Not sent since the other end's life was not known yet.
    pub early: u64,
    /// Of lives that were not known yet, or were over: not let in.
    pub other_life: u64,
}

/// The retransmission server and strangers, and listeners and strangers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct PublicReport {
    /// Requests to the retransmission server.
    pub requests: u64,
    /// Of them, with a right token.
    pub proven: u64,
    /// Tokens given.
    pub tokens: u64,
    /// Bytes of requests without a right token.
    pub unproven_bytes_in: u64,
    /// Bytes of the answers to those: three times as many at most.
    pub unproven_bytes_out: u64,
    /// Requests not answered because a rate was used up.
    pub over_rate: u64,
    /// Datagrams that listeners dropped because they came from no receiver or server.
    pub foreign: u64,
}

/// The nodes' clocks.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct ClockReport {
    /// Who kept them.
    pub source: String,
    /// How much longer one direction of a path was allowed to take, as configured.
    pub asymmetry_ns: u64,
    /// Largest error that readings claimed.
    pub bound_ns: Quantiles,
    /// Errors against the reference's clock, where the truth is known.
    pub error_ns: Option<Quantiles>,
    /// Share of the readings whose error was within their bound, 0 to 1.
    pub held: Option<f64>,
    /// Share of errors, or where these are not known of bounds, within 100 us, 0 to 1 (RTS 25).
    pub within_100us: Option<f64>,
}

/// What the sequencer did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct SequencerReport {
    /// It was on.
    pub enabled: bool,
    /// Its window.
    pub window_ns: u64,
    /// Orders that came after a later one had been released.
    pub late: u64,
}

/// The report's file names inside the output folder: JSON, HTML.
pub const FILES: [&str; 2] = ["report.json", "report.html"];

/// Most [`UnequalBook`]s that people are shown.
const UNEQUAL_SHOWN: usize = 5;

impl Report {
    /// Why the run failed, one reason each; empty: it passed.
    pub fn failures(&self) -> Vec<String> {
        let mut failures = Vec::new();
        if self.orders_sent == 0 && !self.without_flow {
            failures.push("no order was sent".to_string());
        }
        if self.orders_lost > 0 {
            failures.push(format!("{} orders were never answered", self.orders_lost));
        }
        if self.orders_acknowledged + self.orders_lost != self.orders_sent {
            failures.push(format!(
                "{} orders sent are not {} acknowledged and {} lost",
                self.orders_sent, self.orders_acknowledged, self.orders_lost
            ));
        }
        if self.duplicates > 0 {
            failures.push(format!("{} answers came twice", self.duplicates));
        }
        self.judge_books(&mut failures);
        if self.replication.as_ref().is_some_and(|group| !group.equal) {
            failures.push("the replicas do not hold the same log and state".to_string());
        }
        let offline = self.venue_trades_reproduced_offline.zip(self.venue_trades_extra_offline);
        if let (Some(all), Some((made, extra))) = (self.venue_trades, offline)
            && (made != all || extra != 0)
        {
            failures.push(format!(
                "the offline replay made {made} of the venue's {all} trades and {extra} others"
            ));
        }
        failures.extend(self.complaints.iter().cloned());
        failures
    }

    fn judge_books(&self, failures: &mut Vec<String>) {
        if !self.books_equal {
            let places = self.books_unequal.iter().take(UNEQUAL_SHOWN);
            let places: Vec<String> = places.map(ToString::to_string).collect();
            let line = format!("receivers and engine hold different books: {}", places.join("; "));
            failures.push(line.trim_end_matches(": ").to_string());
        }
        if self.checkpoints_compared.is_empty() {
            failures.push("no books were compared".to_string());
        }
        for (symbol, compared) in &self.checkpoints_compared {
            if *compared < self.checkpoints_required {
                failures.push(format!(
                    "{symbol}: books were compared at {compared} feed positions, {} required",
                    self.checkpoints_required
                ));
            }
        }
    }

    /// The whole report as one JSON document, with `verdict` (`pass` or `fail`) and `failures`.
    pub fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct Document<'r> {
            verdict: &'static str,
            failures: Vec<String>,
            #[serde(flatten)]
            report: &'r Report,
        }
        let failures = self.failures();
        let verdict = if failures.is_empty() { "pass" } else { "fail" };
        serde_json::to_string_pretty(&Document { verdict, failures, report: self })
            .expect("string keys and plain values always serialize")
    }

    /// The report for a terminal: aligned tables, the verdict last.
    pub fn to_text(&self) -> String {
        tables::text(self)
    }

    /// One HTML page that needs nothing else: tables, and plots as inline SVG.
    pub fn to_html(&self, data: &PlotData) -> String {
        html::page(self, data)
    }

    /// Writes [`FILES`] to `folder`, creating it; returns their paths.
    pub fn write(&self, folder: &Path, data: &PlotData) -> io::Result<[PathBuf; 2]> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let paths = FILES.map(|name| folder.join(name));
        host::files::write(&paths[0], self.to_json() + "\n")?;
        host::files::write(&paths[1], self.to_html(data))?;
        Ok(paths)
    }
}

fn raw_price<S: serde::Serializer>(price: &Option<Price>, to: S) -> Result<S::Ok, S::Error> {
    match price {
        Some(price) => to.serialize_some(&price.0),
        None => to.serialize_none(),
    }
}
