//! The result file, the pages' tables made of it, and what is told of the machine.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use host::failure::Failure;
use telemetry::plot::{self, Figure};

use super::{Again, Item, Ours, Outcome, Published, Row, SOURCES};

/// Name of the result file beside the pages.
pub(super) const FILE: &str = "results.json";
/// Marks around what a command puts into a page.
const BEGIN: &str = "<!-- fairbell-lab reproduce all -->";
const END: &str = "<!-- end of tables -->";

/// A figure of a table: few digits, as many as it has.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => 0,
        few if few < 1.0 => 3,
        few if few < 100.0 => 2,
        some if some < 10_000.0 => 1,
        _ => 0,
    };
    let text = format!("{value:.digits$}");
    if digits == 0 { text } else { text.trim_end_matches('0').trim_end_matches('.').to_string() }
}

fn with_unit(text: &str, unit: &str) -> String {
    format!("{text} {unit}").trim_end().to_string()
}

fn published(row: &Row) -> String {
    match row.published {
        None => "-".to_string(),
        Some(Published::One(value)) => with_unit(&number(value), &row.unit),
        Some(Published::Range([low, high])) => {
            with_unit(&format!("{} to {}", number(low), number(high)), &row.unit)
        }
    }
}

fn ours(row: &Row) -> String {
    let Some(value) = row.ours else { return "-".to_string() };
    let text = with_unit(&number(value), &row.unit);
    match row.interval {
        None => text,
        Some([low, high]) => format!("{text} ({} to {})", number(low), number(high)),
    }
}

/// What a row says that was run again behind the others.
fn later(row: &Row) -> String {
    row.again.as_ref().map_or_else(String::new, |of| {
        let Again { mode, load, profile, commit, date } = of;
        format!("; run again (--{mode}) on {date} at commit {commit}, {profile} profile, load average {load}")
    })
}

/// Where a row's figure stands in the source, and what it tells.
fn place(row: &Row) -> (&str, &str) {
    row.item.split_once(": ").unwrap_or((&row.item, ""))
}

/// How often each verdict was reached, in words.
fn tally(rows: &[&Row]) -> String {
    let count = |begins: &str| rows.iter().filter(|row| row.verdict.starts_with(begins)).count();
    let without = rows.iter().filter(|row| row.ours.is_none()).count();
    format!(
        "{} items: {} reproduced, {} better, {} refuted, {} not reached, {} not decided, {} of which the source prints \
         no number, {without} not possible here",
        rows.len(),
        count("reproduced"),
        count("better"),
        count("refuted"),
        count("not reached"),
        count("not decided"),
        rows.iter().filter(|row| row.ours.is_some() && row.published.is_none()).count(),
    )
}

/// The machine and circumstances of a result, in one line.
fn circumstances(outcome: &Outcome) -> String {
    format!(
        "`fairbell-lab reproduce all --{}` on {} at commit {} ({} profile): {}; load average {} before it, {:.0} s; seeds \
         from {}, at most {} an experiment.",
        outcome.mode,
        outcome.date,
        outcome.commit,
        outcome.profile,
        outcome.machine,
        outcome.load,
        outcome.seconds,
        outcome.seeds[0],
        outcome.seeds[1],
    )
}

/// What stands between the marks of a page.
pub(super) fn tables(outcome: &Outcome, page: &str, pictures: &[String]) -> String {
    let rows: Vec<&Row> = outcome.rows.iter().filter(|row| row.page == page).collect();
    let mut text = format!("{}\n\n{}.\n", circumstances(outcome), tally(&rows));
    let mut at = "";
    for row in &rows {
        let (place, what) = place(row);
        if place != at {
            at = place;
            let capital = place.chars().next().map(char::to_uppercase);
            let capital: String = capital.into_iter().flatten().collect();
            let rest: String = place.chars().skip(1).collect();
            let _ = write!(text, "\n### {capital}{rest}\n\n`{}`\n\n", row.command);
            text += "| | published | ours | kind | verdict |\n|---|---|---|---|---|\n";
        }
        let _ = writeln!(
            text,
            "| {what} | {} | {} | {} | {}{} |",
            published(row),
            ours(row),
            row.kind,
            row.verdict,
            later(row)
        );
    }
    if !pictures.is_empty() {
        text += "\n### Figures of the same run\n\n";
        for picture in pictures {
            let _ = writeln!(text, "![{picture}](figures/{picture}.svg)");
        }
    }
    text
}

/// A page with other tables between its marks.
pub(super) fn replaced(document: &str, tables: &str) -> Option<String> {
    let (before, rest) = document.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{tables}{END}{after}"))
}

/// What stands between the marks of a page.
#[cfg(test)]
pub(super) fn between(document: &str) -> Option<&str> {
    let (_, rest) = document.split_once(BEGIN)?;
    Some(rest.split_once(END)?.0.trim_start_matches('\n'))
}

/// The figures of a page, by file name.
const PICTURES: [(&str, &[&str]); 5] = [
    (
        "jasper",
        &[
            "table1",
            "figure3",
            "figure5",
            "figure6a",
            "figure6c",
            "figure7a",
            "figure7b",
            "figure8",
            "figure9a",
            "figure9b",
            "fairness-1000",
            "frontier-1000",
            "frontier-5000",
            "figure10",
            "figure11",
            "figure12a",
            "figure12b",
            "montecarlo-shared",
            "profit-share",
            "races",
            "inbound-order",
        ],
    ),
    ("aws-prototype", &["order-fix"]),
    ("treebuilder", &["treebuilder", "lemondrop"]),
    ("opra-decoder", &["opra-sizes", "opra-wire", "opra-arrivals"]),
    ("fx-trading", &["order-stages", "order-fix", "order-sweep"]),
];

/// Names of a page's figures that are among those of a run.
pub(super) fn pictures(page: &str, there: impl Fn(&str) -> bool) -> Vec<String> {
    let of = PICTURES.iter().find(|(known, _)| *known == page).map_or(&[][..], |(_, of)| *of);
    of.iter().filter(|name| there(name)).map(|name| (*name).to_string()).collect()
}

/// The result file of a folder.
///
/// # Errors
/// It can't be read, or is none.
pub(super) fn read(folder: &Path) -> Result<Outcome, Failure> {
    let path = folder.join(FILE);
    let failed = |why: String| Failure::Run(format!("{}: {why}", path.display()));
    let text = fs::read_to_string(&path).map_err(|error| failed(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| failed(error.to_string()))
}

/// A row of an earlier run with what the registry says today: only its figures are the run's.
fn judged(row: &Row, item: &Item) -> Row {
    let verdict = match row.ours {
        Some(value) => item.verdict(&Ours { value, interval: row.interval }),
        None if item.run.is_none() => item.note.to_string(),
        None => row.verdict.clone(),
    };
    Row { published: Published::of(item), verdict, ..row.clone() }
}

/// A result with some rows of a later run in the place of its own, or beside them where it had none; each says so. All are
/// judged anew.
///
/// # Errors
/// An item that neither has.
pub(super) fn merged(old: Outcome, new: &Outcome) -> Result<Outcome, Failure> {
    let Outcome { mode, load, profile, commit, date, .. } = new.clone();
    let again = Some(Again { mode, load, profile, commit, date });
    let mut rows = Vec::new();
    for (page, item) in super::chosen(None) {
        let name = item.name();
        let is = |row: &&Row| row.page == page && row.item == name;
        let row = match new.rows.iter().find(is) {
            Some(row) => Some(Row { again: again.clone(), ..row.clone() }),
            None => old.rows.iter().find(is).map(|row| judged(row, item)),
        };
        rows.push(row.ok_or_else(|| Failure::Run(format!("{page}: {name} was never run")))?);
    }
    Ok(Outcome { rows, ..old })
}

/// Writes the result file, the figures and the pages' tables into a folder.
///
/// # Errors
/// What the file system says, and a page without marks.
pub(super) fn put(outcome: &Outcome, figures: &[Figure], folder: &Path) -> Result<(), Failure> {
    let failed =
        |path: &Path, error: std::io::Error| Failure::Run(format!("{}: {error}", path.display()));
    let drawn = folder.join("figures");
    fs::create_dir_all(&drawn).map_err(|error| failed(&drawn, error))?;
    let shown = |name: &str| PICTURES.iter().any(|(_, of)| of.contains(&name));
    for figure in figures.iter().filter(|figure| shown(figure.file)) {
        let path = drawn.join(format!("{}.svg", figure.file));
        fs::write(&path, plot::picture(figure)).map_err(|error| failed(&path, error))?;
    }
    for source in &SOURCES {
        let path = folder.join(format!("{}.md", source.page));
        let document = fs::read_to_string(&path).map_err(|error| failed(&path, error))?;
        let pictures = pictures(source.page, |name| drawn.join(format!("{name}.svg")).exists());
        let tables = tables(outcome, source.page, &pictures);
        let document = replaced(&document, &tables)
            .ok_or_else(|| Failure::Run(format!("{}: no mark {BEGIN:?}", path.display())))?;
        fs::write(&path, document).map_err(|error| failed(&path, error))?;
    }
    let path = folder.join(FILE);
    let text = serde_json::to_string_pretty(outcome);
    let text = text.map_err(|error| Failure::Run(error.to_string()))?;
    fs::write(&path, text + "\n").map_err(|error| failed(&path, error))
}

/// All of it for people.
pub(super) fn text(outcome: &Outcome) -> String {
    let mut text = format!("{}\n", circumstances(outcome));
    for source in &SOURCES {
        let rows: Vec<&Row> = outcome.rows.iter().filter(|row| row.page == source.page).collect();
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n{}: {}", source.page, tally(&rows));
        let width = rows.iter().map(|row| row.item.len()).max().unwrap_or(0);
        for row in rows {
            let _ = writeln!(
                text,
                "  {:width$}  {:>16}  {:>30}  {}",
                row.item,
                published(row),
                ours(row),
                row.verdict
            );
        }
    }
    text
}

/// The kind of this machine.
pub(super) fn machine() -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_string())
    };
    let processor = field(&read("/proc/cpuinfo"), "model name");
    let processor = processor.unwrap_or_else(|| "a processor of unknown kind".to_string());
    let memory = field(&read("/proc/meminfo"), "MemTotal");
    let kib = memory.and_then(|text| text.split(' ').next()?.parse::<u64>().ok()).unwrap_or(0);
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    format!("{cores} cores of {processor}, {} GiB", kib.div_ceil(1 << 20))
}

/// The load average of the last minute.
pub(super) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("unknown").to_string()
}

/// The commit of the working copy.
pub(super) fn commit() -> String {
    let output = Command::new("git").args(["rev-parse", "--short=10", "HEAD"]).output();
    let output = output.ok().filter(|output| output.status.success());
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string());
    text.filter(|text| !text.is_empty()).unwrap_or_else(|| "unknown".to_string())
}

/// Today, UTC.
pub(super) fn today() -> String {
    jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date().to_string()
}
