//! `fairbell-lab reproduce page`: the tables of a document, as Markdown, each below the command that
//! prints it. With `--into` each table replaces the one between its marks in the document.

use std::fs;

use sim::cloud::report::{Experiment, Report, Row};
use sim::cloud::{EXPERIMENTS, experiment};

use super::{ReproduceArgs, is_measured, kind, options, progress, report_of, shown};
use host::failure::Failure;

/// Experiments that are of the TreeBuilder thesis and of the clocks; all others are the Jasper paper's.
const TREEBUILDER: [&str; 2] = ["treebuilder", "lemondrop"];
const CLOCK: [&str; 2] = ["clock-errors", "clock-wander"];
/// After a table in a document.
const END: &str = "<!-- end of table -->";

/// Experiments of a document, or the one of this name.
fn of(page: &str) -> Option<Vec<&'static Experiment>> {
    let named = |names: &[&str]| Some(names.iter().filter_map(|name| experiment(name)).collect());
    match page {
        "treebuilder" => named(&TREEBUILDER),
        "clock" => named(&CLOCK),
        "jasper" => {
            let others = [TREEBUILDER, CLOCK].concat();
            Some(EXPERIMENTS.iter().filter(|one| !others.contains(&one.name)).collect())
        }
        name => experiment(name).map(|one| vec![one]),
    }
}

/// Prints the tables of a page.
pub(super) fn run(args: &ReproduceArgs) -> Result<(), Failure> {
    let page = args.page.as_deref().unwrap_or_default();
    let Some(experiments) = of(page) else {
        let line = format!(
            "no page {page:?}; there are: jasper, treebuilder, clock, and one of each experiment"
        );
        return Err(Failure::Usage(line));
    };
    let mut missed = Vec::new();
    for one in experiments {
        let options = options(args, std::slice::from_ref(one))?;
        let seeds = args.seeds.unwrap_or(one.seeds);
        let bar = progress(one.name);
        let mut set = |part: f64| bar.set_position((part * 1e3) as u64);
        let report = report_of(one, seeds, options, &mut set)?;
        bar.finish_and_clear();
        let text = table(&report, &command(one, args, seeds));
        match &args.into {
            None => print!("{text}"),
            Some(file) => {
                let failed = |error| Failure::Run(format!("{}: {error}", file.display()));
                let document = fs::read_to_string(file).map_err(failed)?;
                let Some(document) = replaced(&document, one.name, &text) else {
                    let line = format!("{}: no mark {:?}", file.display(), mark(one.name));
                    return Err(Failure::Run(line));
                };
                fs::write(file, document).map_err(failed)?;
            }
        }
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

/// Before the table of an experiment in a document.
fn mark(name: &str) -> String {
    format!("<!-- fairbell-lab reproduce page {name} -->")
}

/// A document with another table between the marks of an experiment.
fn replaced(document: &str, name: &str, text: &str) -> Option<String> {
    let (before, rest) = document.split_once(&mark(name))?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{}\n{text}{END}{after}", mark(name)))
}

/// The command that prints a table again.
fn command(one: &Experiment, args: &ReproduceArgs, seeds: u64) -> String {
    let mut line = format!("fairbell-lab reproduce page {} --seeds {seeds}", one.name);
    let mut add = |name: &str, value: Option<String>| {
        line.extend(value.map(|value| format!(" {name} {value}")));
    };
    let number = |value: Option<u32>| value.map(|value| value.to_string());
    add("--seed-offset", (args.seed_offset > 0).then(|| args.seed_offset.to_string()));
    add("--receivers", number(args.receivers));
    add("--depth", number(args.depth));
    add("--fanout", number(args.fanout));
    add("--hedge", number(args.hedge));
    add("--loss", args.loss.map(|percent| percent.to_string()));
    add("--clocks", args.clocks.map(|clocks| format!("{clocks:?}").to_lowercase()));
    add("--stragglers", args.stragglers.map(|percent| percent.to_string()));
    add("--straggler-extra", number(args.straggler_extra));
    line
}

/// A line of a table: what it is about, and its rows by what they tell of it.
type Line<'r> = (&'r str, Vec<(&'r str, &'r Row)>);

/// The rows of a report by what they are about: "about: what it tells".
fn lines(report: &Report) -> Vec<Line<'_>> {
    let mut lines: Vec<Line> = Vec::new();
    for row in &report.rows {
        let (about, what) = row.what.rsplit_once(": ").unwrap_or((&row.what, ""));
        match lines.iter_mut().find(|line| line.0 == about) {
            Some(line) => line.1.push((what, row)),
            None => lines.push((about, vec![(what, row)])),
        }
    }
    lines
}

/// Lines in tables: those that tell the same, or a part of it, share one.
fn tables<'r>(lines: Vec<Line<'r>>) -> Vec<(Vec<&'r str>, Vec<Line<'r>>)> {
    let mut tables: Vec<(Vec<&str>, Vec<Line>)> = Vec::new();
    for line in lines {
        let columns: Vec<&str> = line.1.iter().map(|cell| cell.0).collect();
        let within = |a: &[&str], b: &[&str]| a.iter().all(|name| b.contains(name));
        let fits = |table: &&mut (Vec<&str>, Vec<Line>)| {
            within(&columns, &table.0) || within(&table.0, &columns)
        };
        match tables.iter_mut().find(fits) {
            Some(table) => {
                if table.0.len() < columns.len() {
                    table.0 = columns;
                }
                table.1.push(line);
            }
            None => tables.push((columns, vec![line])),
        }
    }
    tables
}

/// Ours, its interval, and the published figure in brackets.
fn cell(row: &Row) -> String {
    let ours = shown(row.ours.mean, row.unit);
    let mut text = ours.clone();
    if is_measured(row) {
        text = format!("**{}**", ours.trim_end());
        if let Some((low, high)) = row.interval.filter(|(low, high)| low < high) {
            text += &format!(" {} to {}", shown(low, row.unit), shown(high, row.unit));
        }
    } else if row.ours.half_width > 0.0 {
        let half = shown(row.ours.half_width, row.unit);
        // The unit once, where it is the same.
        let parts = (ours.split_once(' '), half.split_once(' '));
        text = match parts {
            (Some((number, unit)), Some((_, same))) if unit == same => {
                format!("{number} +- {half}")
            }
            _ => format!("{ours} +- {half}"),
        };
    }
    if let Some(published) = row.published {
        text += &format!(" ({})", shown(published, row.unit));
    }
    text.trim_end().to_string()
}

/// A report as its command, tables and notes.
fn table(report: &Report, command: &str) -> String {
    let seeds = match report.seeds {
        1 => "one seed".to_string(),
        seeds => format!("{seeds} seeds, +- is the 95 % interval over them (Student)"),
    };
    let kind = match kind(report) {
        "computed" => "computed, nothing is simulated",
        "simulated" => "simulated",
        _ => "measured ones in bold, the others simulated as their column says",
    };
    let mut text = format!("`{command}`: {kind}, {seeds}; published figures in brackets.\n");
    for (columns, lines) in tables(lines(report)) {
        text += &format!("\n| | {} |\n|---|", columns.join(" | "));
        text += &"---|".repeat(columns.len());
        for (about, cells) in lines {
            let of = |column: &&str| {
                let found = cells.iter().find(|cell| cell.0 == *column);
                found.map_or("-".into(), |found| cell(found.1))
            };
            let cells: Vec<String> = columns.iter().map(of).collect();
            text += &format!("\n| {about} | {} |", cells.join(" | "));
        }
        text += "\n";
    }
    let notes = report.notes.iter().map(|note| format!("- {note}\n"));
    let notes: String = notes.collect();
    if notes.is_empty() { text } else { format!("{text}\n{notes}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: [&str; 3] = ["jasper", "treebuilder", "clock"];

    #[test]
    fn every_experiment_is_on_one_page_and_rows_carry_their_interval() {
        let all = PAGES.iter().filter_map(|page| of(page)).flatten().count();
        assert_eq!(all, EXPERIMENTS.len());
        assert!(of("planner").is_none() && of("pacing").is_some_and(|one| one.len() == 1));
        let rows = vec![
            Row::new("a: p50", "ns", Some(9e3), &[1e3, 2e3, 3e3]),
            Row::single("b: p50", "%", None, 7.0),
            Row::single("a: p99", "ns", None, 4e3),
            Row::new("c", "ns", None, &[]),
        ];
        let notes = vec!["a remark".to_string()];
        let report = Report { name: "x", seeds: 3, rows, notes, ..Report::default() };
        let text = table(&report, "fairbell-lab reproduce page x");
        assert!(text.starts_with("`fairbell-lab reproduce page x`: simulated, 3 seeds"), "{text}");
        let head = "| | p50 | p99 |\n|---|---|---|\n";
        let lines = "| a | 2.00 +- 2.48 us (9.00 us) | 4.00 us |\n| b | 7.00 % | - |\n";
        assert!(text.contains(&format!("{head}{lines}")), "{text}");
        assert!(text.contains("| c | none |\n\n- a remark\n"), "{text}");
        let measured = Row::measured("a: p50", "ns", Some(9e3), &[1e3, 3e3, 2e3]);
        let text = table(&Report { rows: vec![measured], ..report.clone() }, "x");
        assert!(text.contains("| a | **2.00 us** 1.00 us to 3.00 us (9.00 us) |"), "{text}");
        assert!(text.starts_with("`x`: measured ones in bold"), "{text}");
        let computed = Report { computed: true, ..report };
        assert!(table(&computed, "x").contains("computed, nothing is simulated"));
    }

    #[test]
    fn a_table_replaces_the_one_between_its_marks() {
        let document = format!("before\n\n{}\nold\n{END}\n\nafter\n", mark("x"));
        let new = replaced(&document, "x", "new\n").unwrap();
        assert_eq!(new, format!("before\n\n{}\nnew\n{END}\n\nafter\n", mark("x")));
        assert!(replaced(&document, "y", "new\n").is_none());
    }

    #[test]
    fn every_table_has_its_place_in_its_document() {
        for page in PAGES {
            let file = format!("{}/../../docs/{page}.md", env!("CARGO_MANIFEST_DIR"));
            let document = fs::read_to_string(&file).unwrap();
            for one in of(page).unwrap() {
                let (_, rest) = document.split_once(&mark(one.name)).expect(one.name);
                let (table, _) = rest.split_once(END).expect(one.name);
                let command = format!("`fairbell-lab reproduce page {} --seeds ", one.name);
                assert!(table.starts_with(&format!("\n{command}")), "{page}: {}", one.name);
            }
        }
    }
}
