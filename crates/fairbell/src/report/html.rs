//! The report as one HTML page: no script, no font, no file beside it.

use std::fmt::Write;

use super::numbers::{grouped, micros, percent};
use super::tables::{self, Table};
use super::{PlotData, Report, plots};

const STYLE: &str = include_str!("page.css");

/// The whole page.
pub fn page(report: &Report, data: &PlotData) -> String {
    let (passed, lines) = tables::verdict(report);
    let mut body = String::new();
    let headline = escape(&tables::headline(report));
    let _ = writeln!(body, "<header><h1>Fairbell</h1><p>{headline}</p></header>");
    let (class, word) = if passed { ("pass", "PASS") } else { ("fail", "FAIL") };
    let lines: Vec<String> = lines.iter().map(|line| escape(line)).collect();
    let _ = writeln!(
        body,
        "<section class=\"verdict {class}\"><b>{word}</b><span>{}</span></section>",
        lines.join("<br>")
    );
    for notice in &report.notices {
        let _ = writeln!(body, "<p class=\"notice\">{}</p>", escape(notice));
    }
    tiles(report, &mut body);
    figures(data, &mut body);
    body.push_str("<div class=\"tables\">\n");
    tables::tables(report).iter().for_each(|shown| table(shown, &mut body));
    body.push_str("</div>\n");
    let config = serde_json::to_string_pretty(&report.config).unwrap_or_default();
    let _ = writeln!(
        body,
        "<details><summary>Configuration</summary><pre>{}</pre></details>",
        escape(&config)
    );
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Fairbell: {word}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
}

/// The figures that a reader looks for first.
fn tiles(report: &Report, out: &mut String) {
    let us = |ns: u64| {
        let (figure, unit) = short(ns);
        format!("{figure} <small>{unit}</small>")
    };
    let unanswered = format!("{} lost", grouped(report.orders_lost));
    let tiles = [
        ("orders answered", grouped(report.orders_acknowledged), unanswered),
        ("order to acceptance", us(report.rtt_ns.p50), p99(report.rtt_ns.p99)),
        ("OML, last release", us(report.oml_release_ns.p50), p99(report.oml_release_ns.p99)),
        ("delivery window", us(report.dws_ns.p50), p99(report.dws_ns.p99)),
        ("P(F)", percent(report.p_fair), "released together".to_string()),
        ("mean hold", us(report.hold_ns_mean), "until the deadline".to_string()),
    ];
    out.push_str("<section class=\"tiles\">\n");
    for (name, figure, below) in tiles {
        let _ = writeln!(
            out,
            "<div><span>{name}</span><strong>{figure}</strong><small>{below}</small></div>"
        );
    }
    out.push_str("</section>\n");
}

/// Microseconds, from ten milliseconds on milliseconds, so that a figure fits its tile.
fn short(ns: u64) -> (String, &'static str) {
    if ns < 10_000_000 { (micros(ns), "us") } else { (micros(ns / 1_000), "ms") }
}

fn p99(ns: u64) -> String {
    let (figure, unit) = short(ns);
    format!("p50; p99 {figure} {unit}")
}

fn figures(data: &PlotData, out: &mut String) {
    let mut figure = |title: &str, text: &str, svg: Option<String>| {
        if let Some(svg) = svg {
            let _ = writeln!(
                out,
                "<figure><figcaption><b>{}</b> {text}</figcaption>\n{svg}</figure>",
                escape(title)
            );
        }
    };
    figure(
        "Latency by receiver.",
        "Time from the publisher's stamp to the release at each receiver: with hold-and-release \
         the curves lie on one another. Logarithmic axis.",
        plots::release(&data.release),
    );
    figure(
        "Delivery window over time.",
        "Latest minus earliest release of a datagram over all receivers. Logarithmic axis.",
        plots::windows(&data.windows),
    );
    for book in &data.depth {
        let title = format!("Book depth, {}.", book.symbol);
        figure(&title, "Displayed orders at the end of the run.", plots::depth(book));
    }
}

fn table(table: &Table, out: &mut String) {
    let columns = table.rows.iter().map(Vec::len).max().unwrap_or(1).max(table.head.len());
    let _ = writeln!(out, "<section><h2>{}</h2>\n<table>", escape(table.title));
    if !table.head.is_empty() {
        out.push_str("<tr>");
        table.head.iter().for_each(|cell| {
            let _ = write!(out, "<th>{}</th>", escape(cell));
        });
        out.push_str("</tr>\n");
    }
    for row in &table.rows {
        out.push_str("<tr>");
        row.iter().for_each(|cell| {
            let _ = write!(out, "<td>{}</td>", escape(cell));
        });
        out.push_str(&"<td></td>".repeat(columns - row.len()));
        out.push_str("</tr>\n");
    }
    out.push_str("</table></section>\n");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
