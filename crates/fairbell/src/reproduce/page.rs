//! `fairbell reproduce page`: the tables of a document, as Markdown, each below the command that
//! prints its figures in full.

use sim::cloud::report::{Experiment, Report, Run};
use sim::cloud::{EXPERIMENTS, experiment};

use super::{ReproduceArgs, options, progress, shown};
use crate::Failure;

/// Experiments that are of the TreeBuilder thesis; all others are the Jasper paper's.
const TREEBUILDER: [&str; 2] = ["treebuilder", "lemondrop"];

/// Experiments of a document.
fn of(page: &str) -> Option<Vec<&'static Experiment>> {
    match page {
        "treebuilder" => Some(TREEBUILDER.iter().filter_map(|name| experiment(name)).collect()),
        "jasper" => {
            let own = EXPERIMENTS.iter().filter(|one| !TREEBUILDER.contains(&one.name));
            Some(own.collect())
        }
        _ => None,
    }
}

/// Prints the tables of a page.
pub(super) fn run(args: &ReproduceArgs) -> Result<(), Failure> {
    let page = args.page.as_deref().unwrap_or_default();
    let Some(experiments) = of(page) else {
        let line = format!("no page {page:?}; there are: jasper, treebuilder");
        return Err(Failure::Usage(line));
    };
    let mut missed = Vec::new();
    for one in experiments {
        let options = options(args, std::slice::from_ref(one))?;
        let seeds = args.seeds.unwrap_or(one.seeds);
        let bar = progress(one.name);
        let mut set = |part: f64| bar.set_position((part * 1e3) as u64);
        let report = (one.run)(&mut Run { seeds, options, progress: &mut set });
        bar.finish_and_clear();
        print!("{}", table(&report, args.seed_offset));
        let names = report.checks.iter().filter(|check| !check.holds());
        missed.extend(names.map(|check| format!("{}: {}", one.name, check.what)));
    }
    match missed.first() {
        None => Ok(()),
        Some(first) => {
            Err(Failure::Run(format!("{} demands not met, first {first}", missed.len())))
        }
    }
}

/// A report as a heading, its command and a table.
fn table(report: &Report, first: u64) -> String {
    let (name, seeds) = (report.name, report.seeds);
    let mut lines = vec![
        format!("### {}\n", report.title),
        format!("`fairbell reproduce {name} --seeds {seeds} --seed-offset {first}`\n"),
        "| | published | ours, 95 % interval |".to_string(),
        "|---|---|---|".to_string(),
    ];
    for row in &report.rows {
        let published = row.published.map_or("-".into(), |value| shown(value, row.unit));
        let ours = shown(row.ours.mean, row.unit);
        let interval = match row.ours.half_width {
            half if half > 0.0 => format!("{ours} +- {}", shown(half, row.unit)),
            _ => ours,
        };
        lines.push(format!("| {} | {published} | {interval} |", row.what));
    }
    lines.join("\n") + "\n\n"
}

#[cfg(test)]
mod tests {
    use sim::cloud::report::Row;

    use super::*;

    #[test]
    fn every_experiment_is_on_one_page_and_rows_carry_their_interval() {
        let all = ["jasper", "treebuilder"].iter().filter_map(|page| of(page)).flatten().count();
        assert_eq!(all, EXPERIMENTS.len());
        assert!(of("clock").is_none());
        let rows = vec![
            Row::new("a", "ns", Some(9e3), &[1e3, 2e3, 3e3]),
            Row::single("b", "%", None, 7.0),
            Row::new("c", "ns", None, &[]),
        ];
        let text = table(&Report { name: "x", seeds: 3, rows, ..Report::default() }, 40);
        assert!(text.contains("`fairbell reproduce x --seeds 3 --seed-offset 40`"), "{text}");
        assert!(text.contains("| a | 9.00 us | 2.00 us +- 2.48 us |"), "{text}");
        assert!(text.contains("| b | - | 7.00 % |\n| c | - | none |"), "{text}");
    }
}
