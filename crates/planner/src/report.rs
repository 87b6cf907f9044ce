//! What an experiment's results say: tables as Markdown, and curves to draw.

use std::fmt::Write;

use crate::campaign::{Evaluation, Results, RunResult};
use crate::stats::Summary;

/// A table: heads and rows of text.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Table {
    /// Title above the table.
    pub title: String,
    /// Heads of the columns.
    pub head: Vec<String>,
    /// Rows, as long as the head.
    pub rows: Vec<Vec<String>>,
}

/// A line of a [`Drawing`].
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// Name of the line in the legend.
    pub name: String,
    /// Points in the order of x.
    pub points: Vec<(f64, f64)>,
}

/// A drawing of lines over two axes.
#[derive(Clone, PartialEq, Debug)]
pub struct Drawing {
    /// Name of the drawing's file, without extension.
    pub file: String,
    /// Title above the drawing.
    pub title: String,
    /// Label of the x axis, with its unit.
    pub x: &'static str,
    /// Label of the y axis, with its unit.
    pub y: &'static str,
    /// Lines of the drawing.
    pub lines: Vec<Line>,
}

fn us(ns: f64) -> String {
    format!("{:.1}", ns / 1e3)
}

/// The evaluation whose worst leaf is worst: the one to examine (thesis, §5.1).
fn examined(run: &RunResult) -> Option<&Evaluation> {
    let p90 = |of: &&Evaluation| of.worst().map_or(0.0, |(_, heard)| heard.summary.p90_ns);
    run.evaluations.iter().max_by(|a, b| p90(a).total_cmp(&p90(b)))
}

fn words(cells: &[&str]) -> Vec<String> {
    cells.iter().map(ToString::to_string).collect()
}

/// The comparison of all trees: their worst leaves, their messages, stragglers in them.
pub fn comparison(results: &Results) -> Table {
    let name = |vm: usize| results.names.get(vm).cloned().unwrap_or_else(|| vm.to_string());
    let row = |run: &RunResult| {
        let root = run.tree.as_ref().map_or("-".to_string(), |tree| name(tree.root()));
        let slow = run.tree.as_ref().map_or("-".to_string(), |tree| {
            results.stragglers.iter().filter(|vm| tree.vms.contains(vm)).count().to_string()
        });
        let Some(evaluation) = examined(run) else {
            let note = run.notes.first().cloned().unwrap_or_default();
            let mut row = vec![run.run.name.clone(), root, slow, note];
            row.resize(11, "-".to_string());
            return row;
        };
        let (leaf, summary) =
            evaluation.worst().map_or(("-".to_string(), Summary::default()), |(vm, heard)| {
                (name(*vm), heard.summary)
            });
        let oml = &evaluation.messages.oml;
        vec![
            run.run.name.clone(),
            root,
            slow,
            leaf,
            us(summary.p90_ns),
            us(summary.p50_ns),
            us(summary.mean_ns),
            us(summary.stddev_ns),
            us(oml.p50_ns),
            us(oml.p90_ns),
            format!("{:.2} %", 100.0 * oml.loss()),
        ]
    };
    Table {
        title: "Worst leaf and overall multicast latency of each tree, us".to_string(),
        head: words(&[
            "tree",
            "root",
            "stragglers",
            "worst leaf",
            "p90",
            "p50",
            "mean",
            "stddev",
            "OML p50",
            "OML p90",
            "not at all leaves",
        ]),
        rows: results.runs.iter().map(row).collect(),
    }
}

/// A table of every leaf of one tree.
pub fn leaves(results: &Results, run: &RunResult) -> Table {
    let rows = examined(run).map(|evaluation| {
        let row = |(vm, heard): &(usize, crate::campaign::Heard)| {
            let summary = &heard.summary;
            let mut row = vec![results.names.get(*vm).cloned().unwrap_or_default()];
            row.extend(
                [
                    summary.p90_ns,
                    summary.p75_ns,
                    summary.p50_ns,
                    summary.p25_ns,
                    summary.mean_ns,
                    summary.stddev_ns,
                ]
                .map(us),
            );
            row.extend([summary.received.to_string(), summary.lost.to_string()]);
            row
        };
        evaluation.leaves.iter().map(row).collect()
    });
    Table {
        title: format!("Leaves of {}, us", run.run.name),
        head: words(&["leaf", "p90", "p75", "p50", "p25", "mean", "stddev", "received", "lost"]),
        rows: rows.unwrap_or_default(),
    }
}

/// The distribution of each tree's worst leaf, of its messages, the worst leaves' deviations over
/// time, and every leaf of every tree.
pub fn drawings(results: &Results) -> Vec<Drawing> {
    let lines = |of: &dyn Fn(&Evaluation) -> Vec<(f64, f64)>| -> Vec<Line> {
        let line =
            |run: &RunResult| Some(Line { name: run.run.name.clone(), points: of(examined(run)?) });
        results.runs.iter().filter_map(line).collect()
    };
    let worst = |evaluation: &Evaluation| {
        evaluation.worst().map(|(_, heard)| cdf(&heard.quantiles_ns)).unwrap_or_default()
    };
    let deviations = |evaluation: &Evaluation| {
        let slices = evaluation.worst().map(|(_, heard)| heard.deviations_ns.as_slice());
        let point = |(at, ns): (usize, &f64)| (at as f64 + 1.0, ns / 1e3);
        slices.unwrap_or_default().iter().enumerate().map(point).collect()
    };
    let (delay, share) = ("one-way delay (us)", "share of messages");
    let drawing = |file: &str, title: &str, x, y, lines| Drawing {
        file: file.to_string(),
        title: title.to_string(),
        x,
        y,
        lines,
    };
    let mut drawings = vec![
        drawing("worst-leaves", "Worst leaf of each tree", delay, share, lines(&worst)),
        drawing(
            "oml",
            "Overall multicast latency of each tree",
            "delay of the last leaf (us)",
            share,
            lines(&|evaluation| cdf(&evaluation.messages.oml_quantiles_ns)),
        ),
        drawing(
            "deviation",
            "Standard deviation of the worst leaf over time",
            "slice of the evaluation",
            "standard deviation (us)",
            lines(&deviations),
        ),
    ];
    for run in &results.runs {
        let Some(evaluation) = examined(run) else { continue };
        let line = |(vm, heard): &(usize, crate::campaign::Heard)| Line {
            name: results.names.get(*vm).cloned().unwrap_or_default(),
            points: cdf(&heard.quantiles_ns),
        };
        drawings.push(Drawing {
            file: format!("leaves-{}", file_name(&run.run.name)),
            title: format!("Leaves of {}", run.run.name),
            x: delay,
            y: share,
            lines: evaluation.leaves.iter().map(line).collect(),
        });
    }
    drawings
}

/// Letters, digits and dashes only, so that a run's name is no path.
fn file_name(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    name.chars().take(60).map(safe).collect()
}

/// Quantiles as (value in us, share), the last hundredth left out: it would set the scale.
fn cdf(quantiles: &[i64]) -> Vec<(f64, f64)> {
    let count = quantiles.len().max(1) as f64;
    let shown = quantiles.len().saturating_sub(quantiles.len() / 50);
    let point = |(at, ns): (usize, &i64)| (*ns as f64 / 1e3, (at + 1) as f64 / count);
    quantiles.iter().take(shown).enumerate().map(point).collect()
}

/// The table as Markdown.
pub fn markdown(table: &Table) -> String {
    let width = |column: usize| {
        let cells = table.rows.iter().filter_map(|row| row.get(column));
        cells.chain(table.head.get(column)).map(String::len).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..table.head.len()).map(width).collect();
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!(" {cell:width$} |"));
        format!("|{}", padded.collect::<String>())
    };
    let rule: String = widths.iter().map(|width| format!("{}|", "-".repeat(width + 2))).collect();
    let mut text = format!("{}\n|{rule}\n", line(&table.head));
    for row in &table.rows {
        // Writing to a string can't fail.
        let _ = writeln!(
            text,
            "{}",
            line(&row.iter().map(|c| c.replace('|', "/")).collect::<Vec<_>>())
        );
    }
    text
}

/// The whole report as a Markdown page.
pub fn page(results: &Results) -> String {
    let experiment = &results.experiment;
    let mut text = format!(
        "# {}\n\n{} VMs, D={}, F={}, {} probes/s, {} ms a job, {} ms an evaluation, seed {}; {} \
         jobs.\n\n",
        experiment.name,
        results.names.len(),
        experiment.tree.depth,
        experiment.tree.fanout,
        experiment.probes.rate,
        experiment.probes.duration_ms,
        experiment.probes.evaluation_ms,
        experiment.seed,
        results.jobs,
    );
    let table = comparison(results);
    let _ = writeln!(text, "## {}\n\n{}", table.title, markdown(&table));
    for failure in &results.failures {
        let _ = writeln!(text, "- {failure}");
    }
    for run in &results.runs {
        for note in &run.notes {
            let _ = writeln!(text, "- {}: {note}", run.run.name);
        }
    }
    for run in &results.runs {
        let table = leaves(results, run);
        let _ = writeln!(text, "\n## {}\n\n{}", table.title, markdown(&table));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::{Campaign, Heard};
    use crate::schema::Experiment;
    use crate::stats::Messages;

    fn results() -> Results {
        let mut results = Campaign::new(Experiment::default()).into_results();
        let leaf = |p90_ns: f64| Heard {
            summary: Summary { p90_ns, received: 9, lost: 1, ..Summary::default() },
            quantiles_ns: vec![1_000, 2_000],
            deviations_ns: vec![500.0],
            ..Heard::default()
        };
        let evaluation = |p90_ns: f64| Evaluation {
            leaves: vec![(3, leaf(p90_ns)), (4, leaf(10.0))],
            silent: Vec::new(),
            messages: Messages { oml_quantiles_ns: vec![5_000], ..Messages::default() },
        };
        let run = results.experiment.runs[0].clone();
        let one = RunResult {
            run: run.clone(),
            tree: None,
            stages: 7,
            evaluations: vec![evaluation(50e3), evaluation(90e3), evaluation(20e3)],
            notes: Vec::new(),
        };
        let none =
            RunResult { evaluations: Vec::new(), notes: vec!["too small".into()], ..one.clone() };
        results.runs = vec![one, none];
        results
    }

    #[test]
    fn the_worst_evaluation_is_shown_with_its_worst_leaf() {
        let table = comparison(&results());
        assert_eq!(table.rows[0][3..5], ["vm-03", "90.0"]);
        assert_eq!(table.rows[1][3], "too small");
        assert!(table.rows.iter().all(|row| row.len() == table.head.len()));
        let text = page(&results());
        assert!(text.contains("| vm-03 | 90.0 |") && text.contains("too small"), "{text}");
    }

    #[test]
    fn every_tree_with_an_evaluation_is_drawn() {
        let drawings = drawings(&results());
        let files: Vec<&str> = drawings.iter().map(|drawing| drawing.file.as_str()).collect();
        assert_eq!(files, ["worst-leaves", "oml", "deviation", "leaves-best-weighted"]);
        assert_eq!(drawings[0].lines[0].points, [(1.0, 0.5), (2.0, 1.0)]);
        assert_eq!(drawings[3].lines.len(), 2);
        assert_eq!(file_name("../x y"), "---x-y");
    }
}
