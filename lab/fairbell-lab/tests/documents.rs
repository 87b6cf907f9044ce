//! Every command that a document prints is one that the programs take: its words are parsed by the
//! program it names, and what takes no time is run.
//!
//! Words in capitals stand for values, so a value that is none is no complaint; an option or a
//! command that there is not is.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser;
use clap::error::ErrorKind;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Documents: those of docs/, the README files, the map.
fn documents() -> Vec<(String, String)> {
    let mut paths = vec![root().join("README.md"), root().join("ARCHITECTURE.md")];
    let mut folders = vec![root().join("docs"), root().join("examples")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => folders.push(path),
                false if path.extension().is_some_and(|ending| ending == "md") => paths.push(path),
                false => {}
            }
        }
    }
    let read = |path: PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (name, std::fs::read_to_string(&path).expect("a document"))
    };
    paths.into_iter().map(read).collect()
}

/// A command line: up to what a shell would do with it, or what is said about it. Brackets stand
/// around what may be left out.
fn words(text: &str) -> Vec<String> {
    let ends = ["|", ">", "&&", "#", "<", ";", "&"];
    let text = text.trim_start_matches("$ ");
    let said = text.find("   ").unwrap_or(text.len());
    // Every other part is between quotes.
    let mut words = Vec::new();
    for (n, part) in text[..said].split(['"', '\'']).enumerate() {
        match n % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_string)),
            _ => words.push(part.to_string()),
        }
    }
    let bare = |word: String| word.trim_matches(['[', ']']).to_string();
    words.into_iter().take_while(|word| !ends.contains(&word.as_str())).map(bare).collect()
}

/// Commands in a text: spans in backticks, and lines of code blocks, continued ones joined.
fn commands(text: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut in_block = false;
    let mut begun = String::new();
    let mut prose = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            prose.push_str(line);
            prose.push(' ');
        } else if let Some(more) = line.trim_end().strip_suffix('\\') {
            begun.push_str(more);
        } else {
            begun.push_str(line.trim_start());
            found.push(words(&std::mem::take(&mut begun)));
        }
    }
    found.extend(prose.split('`').skip(1).step_by(2).map(words));
    let ours = |words: &Vec<String>| {
        let program = words.first().map_or("", |word| word.rsplit('/').next().unwrap_or(""));
        ["fairbell", "fairbell-lab", "make"].contains(&program) && words.len() > 1
    };
    found.retain(ours);
    found
}

/// What is wrong with a command, if anything is.
fn complaint(words: &[String], targets: &str) -> Option<String> {
    let line = words.join(" ");
    // A choice of words, or a part that is left out.
    let open = |word: &String| word.contains(['|', '…', '<', '*']) || word == "..." || word == "…";
    let words: Vec<&String> = words.iter().take_while(|word| !open(word)).collect();
    let args = || words.iter().map(OsString::from);
    let error = match words.first()?.rsplit('/').next()? {
        "make" => {
            let target = words.get(1)?;
            let known = targets.lines().any(|rule| rule.starts_with(&format!("{target}:")));
            return (!known && !target.contains('=')).then(|| format!("{line}: no such target"));
        }
        "fairbell" => fairbell::cli::Cli::try_parse_from(args()).err(),
        _ => fairbell_lab::cli::Cli::try_parse_from(args()).err(),
    };
    let error = error?;
    let wrong = matches!(
        error.kind(),
        ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand | ErrorKind::ArgumentConflict
    );
    wrong.then(|| format!("{line}: {}", error.to_string().lines().next().unwrap_or("")))
}

#[test]
fn every_command_in_a_document_is_one() {
    let targets = std::fs::read_to_string(root().join("Makefile")).expect("the Makefile");
    let (mut seen, mut complaints) = (0, Vec::new());
    for (name, text) in documents() {
        for words in commands(&text) {
            seen += 1;
            complaints.extend(complaint(&words, &targets).map(|what| format!("{name}: {what}")));
        }
    }
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
    assert!(seen > 200, "only {seen} commands found");
}

#[test]
fn control_wrong_commands_are_found() {
    let of = |text: &str| -> Vec<Option<String>> {
        commands(text).iter().map(|words| complaint(words, "run: sample\n")).collect()
    };
    let right = "`fairbell up --once`, `make run`\n```\n$ fairbell-lab sim --seeds 0..9   nine\n\
                 fairbell up --port-base 0 \\\n  [--rate N]\n```\n";
    assert_eq!(of(right), [const { None }; 4]);
    let wrong =
        "`fairbell up --twice` `fairbell dance` `make tea`\n```\nfairbell-lab sim --sedes 1\n```";
    let found = of(wrong);
    assert!(found.len() == 4 && found.iter().all(Option::is_some), "{found:?}");
}

#[test]
fn short_commands_run() {
    let run = |program: &str, args: &[&str]| {
        Command::new(program).current_dir(root()).args(args).output().expect("it starts")
    };
    let lab = env!("CARGO_BIN_EXE_fairbell-lab");
    for args in [
        &["sim", "--seed", "7", "--orders", "200"][..],
        &["check", "book", "--seed", "4711"],
        &["bench", "--help"],
        &["drill", "failover", "--help"],
        &["attack", "flood", "--help"],
        &["reproduce", "--help"],
        &["backtest", "--help"],
    ] {
        let output = run(lab, args);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {told}");
    }
}
