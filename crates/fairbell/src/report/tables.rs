//! The report as tables: one content, rendered as aligned text here and as HTML in `html`.

use std::fmt::Write;

use super::numbers::{grouped, lots, micros, percent, seconds};
use super::{EpochReport, Quantiles, Report};

/// The reject reason that has a line of its own.
const POST_ONLY: &str = "post_only_would_trade";

/// Auctions that are shown one by one; a batch auction makes many.
const AUCTIONS_SHOWN: usize = 24;

/// Dead proxies that are shown one by one.
const DEATHS_SHOWN: usize = 12;

/// A titled table; the first column names the row, all others are figures.
pub struct Table {
    /// What it is about.
    pub title: &'static str,
    /// Column heads, empty for a plain list of names and values.
    pub head: Vec<&'static str>,
    /// Rows, none empty.
    pub rows: Vec<Vec<String>>,
}

/// All tables of a report, in order; those without rows are left out.
pub fn tables(report: &Report) -> Vec<Table> {
    let all = [
        orders(report),
        latency(report),
        fairness(report),
        clocks(report),
        overlay(report),
        trees(report),
        membership(report),
        epochs(report),
        sealing(report),
        public(report),
        replicas(report),
        instruments(report),
        auctions(report),
        halts(report),
        refused(report),
        venue(report),
        sample(report),
    ];
    all.into_iter().filter(|table| !table.rows.is_empty()).collect()
}

/// What was run, in one line.
pub fn headline(report: &Report) -> String {
    let overlay = &report.config.overlay;
    let sequencer = match report.sequencer.enabled {
        true => format!("sequencer on ({} us)", micros(report.sequencer.window_ns)),
        false => "sequencer off".to_string(),
    };
    format!(
        "{} of play, {} receivers, D={} F={} H={}, {sequencer}, seed {}",
        seconds(report.duration_ns),
        overlay.receivers,
        overlay.depth,
        overlay.fanout,
        overlay.hedge,
        report.seed
    )
}

/// The verdict's own words: the reason to believe it, or the reasons it failed.
pub fn verdict(report: &Report) -> (bool, Vec<String>) {
    let failures = report.failures();
    if !failures.is_empty() {
        return (false, failures);
    }
    let compared = report.checkpoints_compared.values().min().copied().unwrap_or(0);
    let line = format!(
        "every order answered exactly once; engine and {} receivers hold identical books \
         (compared at {} or more feed positions per instrument)",
        report.config.overlay.receivers,
        grouped(compared)
    );
    (true, vec![line])
}

/// The report for a terminal.
pub fn text(report: &Report) -> String {
    let mut out = format!("Fairbell: {}\n", headline(report));
    let tables = tables(report);
    let names = tables.iter().flat_map(|table| &table.rows).map(|row| row[0].len() + 2).max();
    for table in &tables {
        let _ = write!(out, "\n{}", render(table, names.unwrap_or(0)));
    }
    for notice in &report.notices {
        let _ = write!(out, "\nNotice: {notice}\n");
    }
    let (passed, lines) = verdict(report);
    let word = if passed { "PASS" } else { "FAIL" };
    for line in lines {
        let _ = write!(out, "\n{word}: {line}");
    }
    out.push('\n');
    out
}

fn row<const N: usize>(cells: [String; N]) -> Vec<String> {
    cells.into()
}

fn named(name: &str, value: String) -> Vec<String> {
    vec![name.to_string(), value]
}

fn orders(report: &Report) -> Table {
    Table {
        title: "Orders",
        head: vec!["", "sent", "acknowledged", "lost", "answered twice"],
        rows: vec![row([
            "requests of the participants".to_string(),
            grouped(report.orders_sent),
            grouped(report.orders_acknowledged),
            grouped(report.orders_lost),
            grouped(report.duplicates),
        ])],
    }
}

fn latency(report: &Report) -> Table {
    let line = |name: &str, q: &Quantiles| {
        let figures = [q.p50, q.p90, q.p99, q.p999, q.max].map(micros);
        let mut cells = vec![name.to_string()];
        cells.extend(figures);
        cells.push(grouped(q.count));
        cells
    };
    Table {
        title: "Latency, us",
        head: vec!["", "p50", "p90", "p99", "p99.9", "max", "count"],
        rows: vec![
            line("order to acceptance", &report.rtt_ns),
            line("multicast, last arrival (OML)", &report.oml_arrival_ns),
            line("multicast, last release (OML)", &report.oml_release_ns),
            line("delivery window (DWS)", &report.dws_ns),
        ],
    }
}

fn fairness(report: &Report) -> Table {
    Table {
        title: "Fairness",
        head: vec![],
        rows: vec![
            named("datagrams on time at every receiver", percent(report.p_on_time)),
            named("datagrams released within the clock error, P(F)", percent(report.p_fair)),
            named("mean hold", format!("{} us", micros(report.hold_ns_mean))),
            named("orders that came after a later one", grouped(report.sequencer.late)),
            named("executions ahead of their tick", grouped(report.executions_overdue)),
        ],
    }
}

fn overlay(report: &Report) -> Table {
    let mut rows: Vec<Vec<String>> = report
        .hops
        .iter()
        .map(|hop| {
            row([
                hop.hop.clone(),
                grouped(hop.copies_received),
                grouped(hop.copies_dropped),
                grouped(hop.copies_missing),
            ])
        })
        .collect();
    let missing = report.hops.iter().map(|hop| hop.copies_missing).sum();
    let totals = [report.copies_received, report.copies_dropped, missing].map(grouped);
    rows.push(std::iter::once("all hops".to_string()).chain(totals).collect());
    rows.push(named("gaps repaired", grouped(report.repairs)));
    rows.push(named("orders sent again", grouped(report.resends)));
    Table {
        title: "Overlay",
        head: vec!["", "copies received", "dropped as duplicates", "missing"],
        rows,
    }
}

fn replicas(report: &Report) -> Table {
    let group = report.replication.as_ref();
    let leads = |number: u8| group.filter(|group| group.leader == number);
    let rows = group.into_iter().flat_map(|group| &group.replicas).map(|replica| {
        row([
            match leads(replica.replica) {
                Some(group) => format!("replica {}, leads in term {}", replica.replica, group.term),
                None => format!("replica {}", replica.replica),
            },
            grouped(replica.inputs),
            grouped(replica.inputs_on_disk),
            replica.state_digest.clone(),
            grouped(replica.digests_compared),
        ])
    });
    Table {
        title: "Replicas of the root",
        head: vec!["", "inputs", "on its disk", "state", "digests compared"],
        rows: rows.collect(),
    }
}

fn trees(report: &Report) -> Table {
    let rows = report.trees.iter().map(|tree| {
        row([
            format!("tree {}: {}", tree.tree, tree.instruments.join(" ")),
            grouped(tree.messages),
            grouped(tree.messages_per_s),
            grouped(tree.goodput_per_s),
            grouped(tree.datagrams),
            grouped(tree.copies_received),
            grouped(tree.copies_dropped),
        ])
    });
    Table {
        title: "Trees",
        head: vec![
            "",
            "messages",
            "published /s",
            "handed on by all /s",
            "datagrams",
            "copies received",
            "dropped as duplicates",
        ],
        rows: rows.collect(),
    }
}

fn membership(report: &Report) -> Table {
    let settled = |ns: u64| if ns == 0 { "-".to_string() } else { micros(ns) };
    let changes = report.tree_changes.iter().map(|change| {
        row([
            format!("tree of epoch {}", change.epoch),
            seconds(change.after_ns),
            micros(change.prepared_ns),
            settled(change.settled_ns),
        ])
    });
    let deaths = report.dead_proxies.iter().take(DEATHS_SHOWN).map(|dead| {
        let name = format!("proxy {} dead, silent for {}", dead.proxy, seconds(dead.silent_ns));
        row([name, seconds(dead.after_ns)])
    });
    let mut rows: Vec<Vec<String>> = changes.chain(deaths).collect();
    let others = report.dead_proxies.len().saturating_sub(DEATHS_SHOWN);
    if others > 0 {
        rows.push(named("other deaths", grouped(others as u64)));
    }
    if !rows.is_empty() {
        rows.push(named("feed messages lost", grouped(report.feed_messages_lost)));
    }
    Table {
        title: "Changes of the tree",
        head: vec!["", "after", "prepared us", "settled us"],
        rows,
    }
}

fn clocks(report: &Report) -> Table {
    let clock = &report.clock;
    let line =
        |name: String, of: &Quantiles| vec![name, micros(of.p50), micros(of.p99), micros(of.max)];
    let mut rows = vec![line(format!("bound: {}", clock.source), &clock.bound_ns)];
    rows.extend(clock.error_ns.iter().map(|error| line("error".to_string(), error)));
    let share = |name: &str, of: Option<f64>| Some(named(name, percent(of?)));
    rows.extend(share("readings within their bound", clock.held));
    rows.extend(share("within 100 us (RTS 25)", clock.within_100us));
    if clock.source.is_empty() {
        rows.clear();
    }
    Table { title: "Clocks, us", head: vec!["", "p50", "p99", "max"], rows }
}

/// The trees in turn, when there was more than one.
fn epochs(report: &Report) -> Table {
    let epoch = |of: &EpochReport| {
        let Quantiles { p50, p99, .. } = of.oml_arrival_ns;
        let (release, late) = (of.oml_release_ns.p50, of.oml_release_ns.p99);
        let name = match report.replaced.iter().find(|one| one.epoch == of.epoch) {
            Some(one) => format!("epoch {}, proxy {} for {}", of.epoch, one.new, one.old),
            None => format!("epoch {}", of.epoch),
        };
        let from = seconds(of.after_ns);
        let figures = [p50, p99, release, late].map(micros);
        [name, from, grouped(of.messages)].into_iter().chain(figures).collect()
    };
    let shown = if report.epochs.len() > 1 { &report.epochs[..] } else { &[] };
    Table {
        title: "Trees in turn: to the last receiver, us",
        head: vec!["", "from", "datagrams", "arrival p50", "p99", "release p50", "p99"],
        rows: shown.iter().map(epoch).collect(),
    }
}

fn sealing(report: &Report) -> Table {
    let sealing = &report.sealing;
    let figures = [sealing.sealed, sealing.opened, sealing.refused].map(grouped);
    let line = std::iter::once("datagrams between nodes".to_string()).chain(figures).collect();
    let rows = if sealing.enabled { vec![line] } else { Vec::new() };
    Table { title: "Sealing", head: vec!["", "sealed", "opened", "refused"], rows }
}

fn public(report: &Report) -> Table {
    let of = &report.public;
    let figures = [
        of.requests,
        of.proven,
        of.unproven_bytes_in,
        of.unproven_bytes_out,
        of.over_rate,
        of.foreign,
    ];
    let line = std::iter::once("retransmission".to_string()).chain(figures.map(grouped)).collect();
    let seen = of.requests + of.foreign > 0;
    Table {
        title: "Requests of anybody, and datagrams of strangers",
        head: vec![
            "",
            "requests",
            "proven",
            "unproven bytes in",
            "out",
            "over rate",
            "not of the feed",
        ],
        rows: if seen { vec![line] } else { Vec::new() },
    }
}

fn instruments(report: &Report) -> Table {
    let price = |price: Option<types::Price>| price.map_or("-".to_string(), |p| p.to_string());
    let rows = report.instruments.iter().map(|instrument| {
        let compared = report.checkpoints_compared.get(&instrument.symbol).copied().unwrap_or(0);
        row([
            instrument.symbol.clone(),
            grouped(instrument.trades),
            lots(instrument.volume_lots, instrument.lot_decimals),
            grouped(instrument.resting_orders),
            price(instrument.best_bid),
            price(instrument.best_offer),
            grouped(compared),
        ])
    });
    Table {
        title: "Instruments",
        head: vec!["", "trades", "volume", "resting", "bid", "offer", "books compared"],
        rows: rows.collect(),
    }
}

fn auctions(report: &Report) -> Table {
    let shown = report.auctions.iter().take(AUCTIONS_SHOWN).map(|auction| {
        row([
            format!("{} {}", auction.kind, auction.symbol),
            types::Price(auction.price).to_string(),
            lots(auction.volume_lots, auction.lot_decimals),
        ])
    });
    let mut rows: Vec<Vec<String>> = shown.collect();
    let others = report.auctions.len().saturating_sub(AUCTIONS_SHOWN);
    if others > 0 {
        rows.push(named("others", grouped(others as u64)));
    }
    Table { title: "Auctions", head: vec!["", "price", "volume"], rows }
}

fn halts(report: &Report) -> Table {
    let rows = report
        .halts
        .iter()
        .map(|halt| row([halt.symbol.clone(), seconds(halt.after_ns), seconds(halt.lasted_ns)]));
    Table { title: "Halts", head: vec!["", "after", "lasted"], rows: rows.collect() }
}

fn refused(report: &Report) -> Table {
    let mut rows = vec![
        named("post-only orders that would have traded", grouped(report.post_only_rejects)),
        named("cancels that came too late", grouped(report.cancels_too_late)),
    ];
    let others = report.rejects.iter().filter(|(name, _)| *name != POST_ONLY);
    rows.extend(others.map(|(name, n)| named(&spaced(name), grouped(*n))));
    Table { title: "Refused requests", head: vec![], rows }
}

fn venue(report: &Report) -> Table {
    let line = |name: &str, made: Option<u64>, extra: Option<u64>| {
        let (made, extra, all) = (made?, extra?, report.venue_trades?);
        let of = format!("{} of {}", grouped(made), grouped(all));
        Some(row([name.to_string(), of, grouped(extra)]))
    };
    let offline = line(
        "offline, in file order",
        report.venue_trades_reproduced_offline,
        report.venue_trades_extra_offline,
    );
    let live = line(
        "live, through the participants' connections",
        report.venue_trades_reproduced_live,
        report.venue_trades_extra_live,
    );
    Table {
        title: "The venue's own trades",
        head: vec!["", "reproduced", "extra"],
        rows: [offline, live].into_iter().flatten().collect(),
    }
}

fn sample(report: &Report) -> Table {
    let rows = report.sample.iter().map(|(name, n)| named(&spaced(name), grouped(*n)));
    Table { title: "The sample's rows", head: vec![], rows: rows.collect() }
}

fn spaced(name: &str) -> String {
    name.replace('_', " ")
}

/// Aligned text: title and heads in the first line, names to the left, figures to the right.
fn render(table: &Table, names: usize) -> String {
    let head = std::iter::once(table.title).chain(table.head.iter().copied().skip(1));
    let mut lines: Vec<Vec<String>> = vec![head.map(str::to_string).collect()];
    lines.extend(table.rows.iter().cloned().map(|mut row| {
        row[0].insert_str(0, "  ");
        row
    }));
    let width = |column: usize| lines.iter().filter_map(|l| l.get(column)).map(String::len).max();
    let widths: Vec<usize> = (0..).map_while(width).collect();
    let mut out = String::new();
    for line in &lines {
        let mut text = format!("{:<names$}", line[0]);
        for (cell, width) in line.iter().zip(&widths).skip(1) {
            let _ = write!(text, "  {cell:>width$}");
        }
        out.push_str(text.trim_end());
        out.push('\n');
    }
    out
}
