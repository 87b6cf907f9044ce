//! QuickFIX's server acceptance scripts against this crate's acceptor, over TCP.
//!
//! `FAIRBELL_FIX_SCRIPTS` names the folder with `fix42`, `fix44`, `fix50sp2` (scripts, `*.def`),
//! `spec` (XML dictionaries) and `fields.fmt`; without it nothing is run, which is said. Every
//! script has a door of its own, and scripts run side by side. `FAIRBELL_FIX_CLOCK` is how many
//! times faster than real time the clock of the scripts runs that wait for heartbeats (8);
//! `FAIRBELL_FIX_CASE` picks scripts by a part of their name. Last line: `N passed, M failed`.

mod compare;
mod echo;
mod script;
mod server;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use compare::Formats;
use fix::Version;
use fix::dictionary::{Dictionary, Rules};
use script::Case;

const SUITES: [(&str, Version); 3] =
    [("fix42", Version::Fix42), ("fix44", Version::Fix44), ("fix50sp2", Version::Fix50Sp2)];
/// Scripts that run at a time; they mostly wait.
const WORKERS: usize = 24;

fn dictionary(folder: &Path, name: &str) -> Dictionary {
    let path = folder.join("spec").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    Dictionary::from_xml(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The rules of all three versions, from the XML files beside the scripts.
fn rules(folder: &Path) -> Vec<Rules> {
    SUITES
        .iter()
        .map(|&(_, version)| match version {
            Version::Fix42 => Rules::single(version, dictionary(folder, "FIX42.xml")),
            Version::Fix44 => Rules::single(version, dictionary(folder, "FIX44.xml")),
            Version::Fix50Sp2 => {
                let transport = dictionary(folder, "FIXT11.xml");
                Rules::split(version, transport, dictionary(folder, "FIX50SP2.xml"))
            }
        })
        .collect()
}

/// All scripts, with the suites that are not there.
fn cases(folder: &Path, filter: &str) -> (Vec<Case>, Vec<&'static str>) {
    let (mut cases, mut absent) = (Vec::new(), Vec::new());
    for (suite, _) in SUITES {
        let Ok(entries) = std::fs::read_dir(folder.join(suite)) else {
            absent.push(suite);
            continue;
        };
        let mut paths: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "def"));
        paths.sort();
        for path in paths {
            let case = Case::read(suite, &path);
            if case.name.contains(filter) {
                cases.push(case);
            }
        }
    }
    (cases, absent)
}

/// Runs all cases; the complaints by case, in order of the list.
fn run(cases: &[Case], rules: &[Rules], formats: &Formats, rate: u64) -> Vec<(String, String)> {
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..WORKERS.min(cases.len()) {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let rate = if case.waits { rate } else { 1 };
                    if let Err(complaint) = script::run(case, rules, formats, rate) {
                        failures.lock().unwrap().push((case.name.clone(), complaint));
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap();
    failures.sort();
    failures
}

/// The runner must be able to fail: wrong expectations of a right dialogue.
fn controls(rules: &[Rules], formats: &Formats) {
    let dialogue = |answer: &str| {
        let text = format!(
            "iCONNECT\nI8=FIX.4.4|35=A|34=1|49=TW44|52=<TIME>|56=ISLD|98=0|108=30|\n{answer}\n\
             I8=FIX.4.4|35=5|34=2|49=TW44|52=<TIME>|56=ISLD|\neDISCONNECT\n"
        );
        let case = Case::parse("control", &text.replace('|', "\x01"));
        script::run(&case, rules, formats, 1).is_ok()
    };
    let logon = "E8=FIX.4.4|35=A|34=1|49=ISLD|52=00000000-00:00:00.000|56=TW44|98=0|108=30|";
    let logout = "\nE8=FIX.4.4|35=5|34=2|49=ISLD|52=00000000-00:00:00.000|56=TW44|";
    let right = format!("{logon}\nI8=FIX.4.4|35=5|34=2|49=TW44|52=<TIME>|56=ISLD|{logout}");
    assert!(dialogue(&right), "a right dialogue fails");
    assert!(!dialogue(&right.replace("34=1|49=ISLD", "34=2|49=ISLD")), "a wrong number passes");
    assert!(!dialogue(&right.replace("98=0|108=30|\nI", "108=30|98=0|\nI")), "wrong order passes");
    assert!(!dialogue(logon), "a missing expectation passes");
}

fn main() -> ExitCode {
    compare::controls();
    let filter = std::env::var("FAIRBELL_FIX_CASE").unwrap_or_default();
    if std::env::args().any(|arg| arg == "--list") {
        return ExitCode::SUCCESS;
    }
    let folder = std::env::var_os("FAIRBELL_FIX_SCRIPTS").map(PathBuf::from);
    let Some(folder) = folder.filter(|folder| folder.is_dir()) else {
        println!("external suites: 0 run, 3 absent (FAIRBELL_FIX_SCRIPTS names no folder)");
        println!("0 passed, 0 failed");
        return ExitCode::SUCCESS;
    };
    let rate = std::env::var("FAIRBELL_FIX_CLOCK").ok().and_then(|rate| rate.parse().ok());
    let rate = rate.filter(|rate| (1..=60).contains(rate)).unwrap_or(8);
    let formats = Formats::read(&folder.join("fields.fmt"));
    let rules = rules(&folder);
    controls(&rules, &formats);
    let (cases, absent) = cases(&folder, &filter);
    let failures = run(&cases, &rules, &formats, rate);
    for (name, complaint) in &failures {
        println!("{name}: {complaint}");
    }
    println!("external suites: {} run, {} absent", SUITES.len() - absent.len(), absent.len());
    println!("{} passed, {} failed", cases.len() - failures.len(), failures.len());
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
