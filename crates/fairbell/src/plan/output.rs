//! Results as files: JSON, Markdown, one HTML page with the drawings inside, and each as SVG.

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use telemetry::plot::{Curve, Figure};

use planner::campaign::Results;
use planner::report::{Drawing, Table, comparison, drawings, leaves, markdown, page};

use telemetry::plot::picture;

const STYLE: &str = "body{font:15px sans-serif;color:#333b47;max-width:1000px;margin:24px auto}\
    table{border-collapse:collapse;margin:12px 0}td,th{border:1px solid #d8dde4;padding:4px 8px;\
    text-align:right}td:first-child,th:first-child{text-align:left}svg{max-width:100%;height:auto}";

/// Writes everything; gives the page.
///
/// # Errors
/// What the file system says.
pub fn write(results: &Results, folder: &Path) -> io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("results.json"), serde_json::to_vec_pretty(results)?)?;
    std::fs::write(folder.join("report.md"), page(results))?;
    let mut body = format!("<h1>{}</h1>\n", escape(&results.experiment.name));
    table(&comparison(results), &mut body);
    for failure in &results.failures {
        let _ = writeln!(body, "<p>{}</p>", escape(failure));
    }
    for drawing in drawings(results) {
        let svg = picture(&figure(&drawing));
        std::fs::write(folder.join(format!("{}.svg", drawing.file)), &svg)?;
        let _ = writeln!(body, "<figure>{svg}</figure>");
    }
    results.runs.iter().for_each(|run| table(&leaves(results, run), &mut body));
    let path = folder.join("report.html");
    let text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{}</title>\
         <style>{STYLE}</style></head>\n<body>\n{body}</body></html>\n",
        escape(&results.experiment.name)
    );
    std::fs::write(&path, text)?;
    Ok(path)
}

/// The comparison and what went wrong, for people.
pub fn print(results: &Results, page: &Path) {
    let names = |vms: &[usize]| {
        vms.iter().filter_map(|vm| results.names.get(*vm).cloned()).collect::<Vec<_>>().join(", ")
    };
    let table = comparison(results);
    println!("\n{}\n\n{}", table.title, markdown(&table));
    if !results.stragglers.is_empty() {
        println!("stragglers of the synthetic cloud: {}", names(&results.stragglers));
    }
    if !results.dead.is_empty() {
        println!("stopped answering: {}", names(&results.dead));
    }
    for failure in &results.failures {
        println!("failed: {failure}");
    }
    println!("{} jobs; report: {}", results.jobs, page.display());
}

fn figure(drawing: &Drawing) -> Figure {
    let curve = |line: &planner::report::Line| Curve {
        name: line.name.clone(),
        points: line.points.clone(),
    };
    Figure {
        file: "",
        title: drawing.title.clone(),
        x: drawing.x,
        y: drawing.y,
        curves: drawing.lines.iter().map(curve).collect(),
    }
}

fn table(table: &Table, out: &mut String) {
    let row = |cells: &[String], tag: &str| {
        let cells = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell)));
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let _ = writeln!(out, "<h2>{}</h2>\n<table>", escape(&table.title));
    out.push_str(&row(&table.head, "th"));
    table.rows.iter().for_each(|cells| out.push_str(&row(cells, "td")));
    out.push_str("</table>\n");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use planner::campaign::Campaign;
    use planner::schema::Experiment;

    use super::*;

    #[test]
    fn names_are_text_and_no_markup() {
        let experiment = Experiment { name: "<b>x".to_string(), ..Experiment::default() };
        let results = Campaign::new(experiment).into_results();
        let folder = std::env::temp_dir().join(format!("fairbell-plan-{}", std::process::id()));
        let path = write(&results, &folder).unwrap();
        let html = std::fs::read_to_string(path).unwrap();
        assert!(html.contains("&lt;b&gt;x") && !html.contains("<b>x"));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
