//! From the nodes of a finished run to its report.

use std::collections::BTreeMap;
use std::path::Path;

use engine::Engine;
use exchange::{Audit, Offline, Past, Role, Root, audit_with};
use feed::Listener;
use overlay::{membership::Membership, publisher::Publisher, receiver::Receiver};
use participant::{Driver, Sample, SampleCounts};
use telemetry::{DeliveryLedger, LatencySummary, Recorder};
use types::{CrossKind, FeedSeq, Input, InstrumentId, Nanos, NodeId, RejectReason, Side};

use super::board::{Board, Figures};
use super::revise::Turns;
use crate::report::{
    AuctionReport, Curve, DeadProxyReport, Depth, EpochReport, HaltReport, InstrumentReport,
    PlotData, PublicReport, Quantiles, Report, SealingReport, SequencerReport, TreeChangeReport,
    TreeReport, UnequalBook, WindowPoint,
};
use host::config::Config;
use host::deployment::CHECKPOINT_EVERY;
use host::failure::Failure;
use host::group::Leaders;
use host::replica::node::DiskInputs;
use host::spill::snapshot_from;

/// Positions at which books must be equal, or as many as the feed has.
const CHECKPOINTS_REQUIRED: u64 = 100;
/// Points of a latency curve.
const CURVE_POINTS: usize = 200;
/// Price levels plotted on each side.
const DEPTH_LEVELS: usize = 400;

/// Where the inputs are that the root does not have.
pub struct Elsewhere<'a> {
    /// The run's configuration.
    pub config: &'a Config,
    /// The log's file, beside which snapshots are where its oldest part was given up.
    pub log: &'a Path,
    /// In a group, the replica that led last, from 1: its disk has them all.
    pub led: Option<u8>,
}

impl Elsewhere<'_> {
    /// All inputs, from the disk of the leader; `None` where there is no group.
    pub fn on_disk(&self) -> Option<Result<DiskInputs, Failure>> {
        self.led.map(|led| Leaders::on_disk(self.config, led))
    }

    /// The engine before the first input that is left, where others were given up.
    fn start(&self, root: &Root) -> Result<Option<Engine>, String> {
        let given_up = root.fill().given_up;
        if given_up == 0 || self.led.is_some() {
            return Ok(None);
        }
        let (_, path) = snapshot_from(self.log, given_up).ok_or("no snapshot is left")?;
        let bytes = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let engine = Engine::read_snapshot(root.engine().config().clone(), &bytes);
        engine.map(Some).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Compares the root's books with those of listeners, input by input from wherever they are.
    fn audit<'l>(
        &self,
        root: &Root,
        listeners: impl IntoIterator<Item = &'l [Listener]>,
    ) -> Result<Audit, String> {
        let start = self.start(root)?;
        let since = start.as_ref().map_or(0, Engine::applied);
        if let Some(disk) = self.on_disk() {
            disk.map_err(|error| error.to_string())?;
        }
        let inputs = || -> Box<dyn Iterator<Item = Input>> {
            match self.on_disk() {
                // What can't be read is missed when they are counted.
                Some(disk) => {
                    let applied = root.engine().applied();
                    Box::new(disk.into_iter().flatten().take_while(move |one| one.seq.0 <= applied))
                }
                None => Box::new(root.applied().skip_while(move |one| one.seq.0 <= since)),
            }
        };
        Ok(audit_with(root, &Past { start, inputs: &inputs }, listeners))
    }
}

/// What is left of a run.
pub struct Artifacts<'a> {
    /// Where else its inputs are.
    pub past: &'a Elsewhere<'a>,
    /// Its configuration.
    pub config: &'a Config,
    /// The sample, if it was there.
    pub sample: Option<&'a Sample>,
    /// The sample through the engine alone.
    pub offline: Option<Offline>,
    /// Sizes of the tree's layers.
    pub layers: &'a [u32],
    /// All nodes alive at the end.
    pub nodes: &'a [(NodeId, Role)],
    /// By stream: the feed's position when play began.
    pub loaded: &'a [u64],
    /// Deliveries.
    pub ledger: &'a DeliveryLedger,
    /// The trees in turn.
    pub turns: &'a Turns,
    /// Order to first answer.
    pub rtt: &'a Recorder,
    /// The last look at the figures, which knows of nodes that died, too.
    pub board: &'a Board,
    /// What people should know.
    pub notices: Vec<String>,
    /// Why the run failed, beside what the figures say.
    pub complaints: Vec<String>,
    /// Start of play; known once the report is made.
    pub started_at: Option<Nanos>,
}

/// A distribution as the report has it.
pub fn quantiles(summary: &LatencySummary) -> Quantiles {
    Quantiles {
        count: summary.count,
        min: summary.min,
        mean: summary.mean.round() as u64,
        p50: summary.p50,
        p90: summary.p90,
        p99: summary.p99,
        p999: summary.p999,
        max: summary.max,
    }
}

impl Artifacts<'_> {
    /// The report and what its plots show.
    pub fn report(mut self) -> (Report, PlotData) {
        let mut figures = self.board.figures();
        self.nodes.iter().for_each(|(id, role)| figures.take(*id, role));
        let root = self.nodes.iter().find_map(|(_, role)| role.as_root());
        let driver = self.nodes.iter().find_map(|(_, role)| role.as_driver());
        let (Some(root), Some(driver)) = (root, driver) else {
            self.complaints.push("the root or the participants did not survive the run".into());
            let report = Report { complaints: self.complaints, ..Report::default() };
            return (report, PlotData::default());
        };
        let mut report = Report {
            seed: self.config.flow.seed,
            config: self.config.shown(),
            sequencer: SequencerReport {
                enabled: self.config.sequencer.enabled,
                window_ns: self.config.sequencer.window_ns(),
                late: root.ingress().sequencer().counters().late,
            },
            rtt_ns: quantiles(&self.rtt.summary()),
            ..Report::default()
        };
        self.started_at = driver.status().started_at;
        self.participants(driver, &mut report);
        self.engine(root, &mut report);
        self.overlay(&figures, &mut report);
        self.trees(root, &mut report);
        self.membership(root, &figures, &mut report);
        report.public = self.public(root);
        self.books(root, &mut report);
        self.doors(root);
        self.sample(driver, &mut report);
        let plots = self.plots(root, driver);
        report.notices = self.notices;
        report.complaints.extend(self.complaints);
        (report, plots)
    }

    fn participants(&mut self, driver: &Driver, report: &mut Report) {
        let status = driver.status();
        report.orders_sent = status.ledger.asked;
        let flow = self.sample.is_some() || self.config.flow.generated_rate > 0;
        report.without_flow = driver.participants() == 0 || !flow;
        report.orders_acknowledged = status.ledger.answered;
        report.orders_lost = status.ledger.lost();
        report.duplicates = status.ledger.duplicates;
        if let Some((from, to)) = status.started_at.zip(status.finished_at) {
            report.duration_ns = to - from;
        }
        let wrong = [
            (status.ledger.violations, "answers contradicted what was asked"),
            (status.not_asked, "messages of the flow could not be sent"),
            (u64::from(status.timed_out), "time limit for loading or for the last answers"),
        ];
        for (count, what) in wrong {
            if count > 0 {
                self.complaints.push(format!("{count} {what}"));
            }
        }
    }

    fn engine(&mut self, root: &Root, report: &mut Report) {
        let (engine, counters) = (root.engine(), root.engine().counters());
        report.post_only_rejects = counters.rejects(RejectReason::PostOnlyWouldTrade);
        report.cancels_too_late = counters.cancels_too_late;
        report.rejects = rejects(|reason| counters.rejects(reason));
        report.feed_messages = engine.feed_next().0.saturating_sub(1);
        for (index, instrument) in engine.config().instruments.iter().enumerate() {
            let id = instrument.id;
            let best = |side| {
                let level = engine.books().best_displayed(index as u16, side);
                level.map(|level| level.price)
            };
            let counts = engine.instrument_counters(id).unwrap_or_default();
            let orders = |side| engine.depth(id, side).map(|level| u64::from(level.orders)).sum();
            let resting: [u64; 2] = [orders(Side::Buy), orders(Side::Sell)];
            report.instruments.push(InstrumentReport {
                symbol: instrument.symbol.to_string(),
                trades: counts.trades,
                volume_lots: counts.volume,
                lot_decimals: instrument.lot_decimals,
                resting_orders: resting.iter().sum(),
                best_bid: best(Side::Buy),
                best_offer: best(Side::Sell),
            });
        }
        self.day(root, report);
        let counters = root.counters();
        if counters.log_full > 0 || root.fill().held_back {
            let what = "engine.log_capacity, memory.disk_mib, the disk";
            self.complaints.push(format!("there was no room for all inputs: {what}"));
        } else if counters.held_back > 0 {
            let times = counters.held_back;
            self.notices.push(format!("orders had to wait for room for the log {times} times"));
        }
        if root.waiting() > 0 {
            self.complaints.push(format!(
                "{} inputs were not durable at the end: they are in no log of this run, and nobody \
                 was told of them",
                root.waiting()
            ));
        }
        if counters.unencodable > 0 {
            self.complaints.push(format!("{} events had no wire format", counters.unencodable));
        }
    }

    fn day(&mut self, root: &Root, report: &mut Report) {
        let instruments = &root.engine().config().instruments;
        let of = |id: InstrumentId| instruments.iter().find(|instrument| instrument.id == id);
        let symbol = |id| of(id).map_or_else(String::new, |of| of.symbol.to_string());
        let auction = |auction: &exchange::Auction| AuctionReport {
            symbol: symbol(auction.instrument),
            kind: match auction.kind {
                CrossKind::Opening => "opening",
                CrossKind::Closing => "closing",
                CrossKind::Resuming => "resuming",
                CrossKind::Intraday => "intraday",
            },
            price: auction.price.0,
            volume_lots: auction.qty.0,
            lot_decimals: of(auction.instrument).map_or(0, |of| of.lot_decimals),
        };
        // Without a flow of its own all that there was came before it.
        let start = self.started_at.unwrap_or(Nanos::NEVER);
        let halt = |halt: &exchange::Halt| HaltReport {
            symbol: symbol(halt.instrument),
            after_ns: halt.from.since(start),
            lasted_ns: halt.to.since(halt.from),
        };
        report.auctions = root.day().auctions().iter().map(auction).collect();
        report.halts = root.day().halts().iter().map(halt).collect();
        let left_out = root.day().left_out();
        if left_out > 0 {
            self.notices.push(format!("{left_out} auctions and halts are not listed"));
        }
    }

    fn overlay(&self, figures: &Figures, report: &mut Report) {
        let delivery = self.ledger.delivery();
        report.oml_arrival_ns = quantiles(&delivery.oml_arrival_ns);
        report.oml_release_ns = quantiles(&delivery.oml_release_ns);
        report.dws_ns = quantiles(&delivery.dws_ns);
        report.p_on_time = delivery.p_on_time.unwrap_or(0.0);
        report.p_fair = delivery.p_fair.unwrap_or(0.0);
        report.hold_ns_mean = delivery.hold_ns_mean.round() as u64;
        report.hops = figures.hops(self.layers);
        report.copies_received = report.hops.iter().map(|hop| hop.copies_received).sum();
        report.copies_dropped = report.hops.iter().map(|hop| hop.copies_dropped).sum();
        report.repairs = figures.repairs.iter().chain(&figures.listener_repairs).sum();
        report.resends = figures.resends.iter().sum();
        let edges = self.nodes.iter().filter_map(|(_, role)| role.as_edge());
        report.executions_overdue = edges.map(|edge| edge.gateway().counters().overdue).sum();
    }

    /// Trees by symbol, each with what it carried.
    fn trees(&self, root: &Root, report: &mut Report) {
        let (next, instruments) = (root.router().next(), &root.engine().config().instruments);
        if next.len() < 2 {
            return;
        }
        let per_s = |messages: u64| match report.duration_ns {
            0 => 0,
            ns => (u128::from(messages) * u128::from(Nanos::SECOND) / u128::from(ns)) as u64,
        };
        let edges = || self.nodes.iter().filter_map(|(_, role)| role.as_edge());
        let streams = root.publishers().zip(next).enumerate();
        let tree = |(stream, (publisher, next)): (usize, (&Publisher, &FeedSeq))| {
            let of = || edges().filter_map(|edge| edge.receivers().get(stream));
            let loaded = self.loaded.get(stream).copied().unwrap_or(1);
            let handed_on = of().map(|receiver| receiver.watermark().0 + 1).min();
            let carried = instruments.iter().filter(|i| root.router().stream_of(i.id) == stream);
            TreeReport {
                tree: stream as u16 + 1,
                instruments: carried.map(|instrument| instrument.symbol.to_string()).collect(),
                messages: next.0.saturating_sub(1),
                messages_per_s: per_s(next.0.saturating_sub(loaded)),
                goodput_per_s: per_s(handed_on.unwrap_or(0).saturating_sub(loaded)),
                datagrams: publisher.stats().datagrams,
                copies_received: of().map(|receiver| receiver.stats().received).sum(),
                copies_dropped: of().map(|receiver| receiver.stats().filter.duplicates).sum(),
            }
        };
        let trees = streams.map(tree).collect();
        report.trees = trees;
    }

    /// What strangers asked, and what they sent to those who take the feed.
    fn public(&self, root: &Root) -> PublicReport {
        let mut public = PublicReport::default();
        for publisher in root.publishers() {
            let (store, answers) = (publisher.store().stats(), publisher.store().answers());
            public.requests += store.public_requests;
            public.proven += answers.proven;
            public.tokens += answers.tokens;
            public.unproven_bytes_in += answers.unproven_in;
            public.unproven_bytes_out += answers.unproven_out;
            public.over_rate += answers.over_rate;
        }
        let listeners = self.nodes.iter().filter_map(|(_, role)| role.as_listener());
        public.foreign = listeners.map(|listener| listener.counters().foreign).sum();
        public
    }

    /// Sealing, trees and dead proxies.
    fn membership(&mut self, root: &Root, figures: &Figures, report: &mut Report) {
        let guard = figures.guard();
        report.sealing = SealingReport {
            enabled: self.config.overlay.sealed,
            sealed: guard.sealed,
            opened: guard.opened,
            refused: guard.refused(),
            unsent: guard.unsent,
            early: guard.early,
            other_life: guard.other_life,
        };
        if guard.unsent > 0 {
            self.complaints.push(format!("{} datagrams could not be sealed", guard.unsent));
        }
        report.epoch = figures.epoch;
        let edges = self.nodes.iter().filter_map(|(_, role)| role.as_edge());
        let lacks = |(receiver, next): (&Receiver, &FeedSeq)| {
            next.0.saturating_sub(1).saturating_sub(receiver.watermark().0)
        };
        let next = root.router().next();
        let of = |edge: &exchange::Edge| edge.receivers().iter().zip(next).map(lacks).sum::<u64>();
        report.feed_messages_lost = edges.map(of).sum();
        if report.feed_messages_lost > 0 {
            let lost = report.feed_messages_lost;
            self.complaints.push(format!("receivers never handed on {lost} feed messages"));
        }
        let start = self.started_at.unwrap_or_default();
        report.tree_changes = root
            .memberships()
            .flat_map(Membership::changed)
            .map(|change| TreeChangeReport {
                epoch: change.epoch,
                after_ns: change.asked_at.since(start),
                prepared_ns: change.prepared_ns,
                settled_ns: change.settled_ns,
            })
            .collect();
        let parts = self.turns.epochs.iter().zip(self.ledger.parts());
        let part = |(epoch, (at, delivery)): (&u32, (Nanos, telemetry::Delivery))| EpochReport {
            epoch: *epoch,
            after_ns: at.since(start),
            messages: delivery.messages,
            oml_arrival_ns: quantiles(&delivery.oml_arrival_ns),
            oml_release_ns: quantiles(&delivery.oml_release_ns),
        };
        report.epochs = parts.map(part).collect();
        report.replaced.clone_from(&self.turns.replaced);
        report.dead_proxies = root
            .memberships()
            .flat_map(Membership::deaths)
            .map(|death| DeadProxyReport {
                proxy: death.node.0,
                after_ns: death.at.since(start),
                silent_ns: death.silent_ns,
            })
            .collect();
        if root.memberships().any(Membership::is_changing) {
            self.complaints.push("a change of the tree did not come to its end".to_string());
        }
    }

    fn books(&mut self, root: &Root, report: &mut Report) {
        let listeners = self.nodes.iter().filter_map(|(_, role)| role.as_listener());
        let audit = match self.past.audit(root, listeners.map(|listener| listener.channels())) {
            Ok(audit) => audit,
            Err(why) => {
                self.complaints.push(format!("the log can't be replayed: {why}"));
                return;
            }
        };
        if audit.since > 0 {
            self.notices.push(format!(
                "the first {} inputs were given up (memory.when_full = \"recycle\"): books were \
                 compared from there on, bytes of the feed were not",
                audit.since
            ));
        }
        let instruments = &root.engine().config().instruments;
        let symbol = |id: InstrumentId| {
            let found = instruments.iter().find(|instrument| instrument.id == id);
            found.map_or_else(String::new, |instrument| instrument.symbol.to_string())
        };
        report.books_equal = audit.books_equal;
        let least = root.router().next().iter().map(|next| next.0.saturating_sub(1)).min();
        report.checkpoints_required =
            CHECKPOINTS_REQUIRED.min(least.unwrap_or(0) / CHECKPOINT_EVERY).max(1);
        report.checkpoints_compared =
            instruments.iter().map(|of| (of.symbol.to_string(), audit.positions)).collect();
        report.books_unequal = audit
            .unequal
            .iter()
            .map(|place| UnequalBook {
                receiver: place.listener as u32 + 1,
                symbol: symbol(place.instrument),
                feed_seq: place.position.0,
            })
            .collect();
        self.complaints.extend(audit.problems);
        self.notices.extend(audit.joined.iter().map(ToString::to_string));
        let edges = self.nodes.iter().filter_map(|(_, role)| role.as_edge());
        for (index, edge) in edges.enumerate().filter(|(_, edge)| edge.receiver().skipped() > 0) {
            let (skipped, told) = (edge.receiver().skipped(), edge.told_unheard());
            self.notices.push(format!(
                "receiver {} was too far behind and jumped over {skipped} messages; {told} reports \
                 were told meanwhile",
                index + 1
            ));
        }
    }

    /// What gateways had to refuse or cut, summed up.
    fn doors(&mut self, root: &Root) {
        let mut sums = [0; 4];
        for edge in self.nodes.iter().filter_map(|(_, role)| role.as_edge()) {
            let (counters, fix) = (edge.gateway().counters(), edge.gateway().fix_counters());
            let counts = [
                counters.orders_over_rate,
                counters.cancels_over_rate,
                counters.slow_consumers,
                fix.over_rate,
            ];
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        let [orders, cancels, slow, over_rate] = sums;
        let told = [
            (orders, "orders were above their session's rate and refused"),
            (cancels, "cancels were above their session's rate and refused"),
            (over_rate, "FIX sessions went on far above their rate and were ended"),
            (slow, "sessions were ended because their participant left too much unread"),
            (root.counters().lost_cancels, "accounts' orders went with their gateway"),
        ];
        let told = told.iter().filter(|(count, _)| *count > 0);
        self.notices.extend(told.map(|(count, what)| format!("{count} {what}")));
    }

    fn sample(&self, driver: &Driver, report: &mut Report) {
        let Some(sample) = self.sample else { return };
        report.sample = counts(&sample.counts);
        report.venue_trades = Some(sample.venue.len());
        if let Some(offline) = &self.offline {
            report.venue_trades_reproduced_offline = Some(offline.comparison.reproduced);
            report.venue_trades_extra_offline = Some(offline.comparison.extra);
        }
        let live = sample.venue.compare(driver.trades(InstrumentId(1)));
        report.venue_trades_reproduced_live = Some(live.reproduced);
        report.venue_trades_extra_live = Some(live.extra);
    }

    fn plots(&self, root: &Root, driver: &Driver) -> PlotData {
        let curve = |(index, receiver): (usize, &telemetry::ReceiverMeasure)| Curve {
            name: format!("receiver {}", index + 1),
            points: receiver.release.cdf(CURVE_POINTS),
        };
        let start = driver.status().started_at.unwrap_or_default();
        let window = |point: telemetry::WindowPoint| WindowPoint {
            at_ns: point.at - start,
            p50_ns: point.p50_ns,
            p99_ns: point.p99_ns,
            max_ns: point.max_ns,
        };
        let engine = root.engine();
        let depth = engine.config().instruments.iter().map(|instrument| {
            let unit = 10f64.powi(i32::from(instrument.lot_decimals));
            let levels = |side| {
                let levels = engine.depth(instrument.id, side).take(DEPTH_LEVELS);
                levels.map(|l| (l.price.0 as f64 / 1e4, l.qty.0 as f64 / unit)).collect()
            };
            Depth {
                symbol: instrument.symbol.to_string(),
                bids: levels(Side::Buy),
                asks: levels(Side::Sell),
            }
        });
        PlotData {
            release: self.ledger.receivers().iter().enumerate().map(curve).collect(),
            windows: self.ledger.series().map(window).collect(),
            depth: depth.collect(),
        }
    }
}

fn rejects(count: impl Fn(RejectReason) -> u64) -> BTreeMap<String, u64> {
    let counted = RejectReason::ALL.into_iter().map(|reason| (snake(reason), count(reason)));
    counted.filter(|(_, count)| *count > 0).collect()
}

/// `PostOnlyWouldTrade` as `post_only_would_trade`.
fn snake(reason: RejectReason) -> String {
    let mut name = String::new();
    for letter in format!("{reason:?}").chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

fn counts(counts: &SampleCounts) -> BTreeMap<String, u64> {
    let named = [
        ("rows", counts.rows),
        ("opening_sent", counts.opening),
        ("live_sent", counts.live),
        ("live_orders", counts.live_orders),
        ("live_cancels", counts.live_cancels),
        ("post_only", counts.post_only),
        ("price_above_max_sent", counts.price_above_max),
        ("market_buys", counts.market_buys),
        ("market_sells", counts.market_sells),
        ("not_sent_fills_reported", counts.fills_reported),
        ("not_sent_unknown_deletes", counts.unknown_deletes),
        ("not_sent_unsent_deletes", counts.unsent_deletes),
        ("not_sent_price_zero_bids", counts.price_zero_bids),
        ("not_sent_stale_rows", counts.stale_rows),
        ("not_sent_quantity_too_large", counts.quantity_too_large),
        ("not_sent_no_quantity", counts.no_quantity),
        ("not_sent_end_rows", counts.end_rows),
    ];
    named.into_iter().map(|(name, count)| (name.to_string(), count)).collect()
}
