//! QuickFIX/J's codec beside ours: an order read, with and without its dictionary, and a report
//! written. The Java program beside this one measures itself; both take turns.

use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use fix::sample::Steps;

/// How the table calls it.
pub const NAME: &str = "QuickFIX/J 2.3.1";
const STEPS: [&str; 3] = ["order read", "order read and checked", "report written"];
/// Messages in a turn.
const MESSAGES: u32 = 20_000;
/// Turns within one Java process, after its own warm-up.
const TURNS: u32 = 5;

/// Nanoseconds per message, in the order of [`STEPS`].
type Turn = [f64; 3];

/// Measures and prints; false when Java could not be run.
pub fn compare(classes: &str, runs: usize) -> bool {
    let mut steps = Steps::new().expect("the dictionaries are right");
    let (mut ours, mut theirs): (Vec<Turn>, Vec<Turn>) = (Vec::new(), Vec::new());
    for round in 0..runs {
        eprintln!("fix: round {} of {runs}", round + 1);
        // Each side's median of as many turns.
        ours.push(medians(&(0..TURNS).map(|_| turn(&mut steps)).collect::<Vec<_>>()));
        match java(classes) {
            Ok(turn) => theirs.push(turn),
            Err(complaint) => {
                eprintln!("{NAME}: {complaint}");
                return false;
            }
        }
    }
    println!("\nFIX 5.0 SP2, an order of 185 bytes and a report of 264, runs: {runs}");
    println!("{:<24} {:>10} {:>18} {:>9}", "step", "ours ns", format!("{NAME} ns"), "x ours");
    let (ours, theirs) = (medians(&ours), medians(&theirs));
    for ((step, ours), theirs) in STEPS.iter().zip(ours).zip(theirs) {
        println!("{step:<24} {ours:>10.1} {theirs:>18.1} {:>9.1}", theirs / ours);
    }
    true
}

fn medians(turns: &[Turn]) -> Turn {
    std::array::from_fn(|step| {
        let mut all: Vec<f64> = turns.iter().map(|turn| turn[step]).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    })
}

fn turn(steps: &mut Steps) -> Turn {
    std::array::from_fn(|step| {
        let start = Instant::now();
        for _ in 0..MESSAGES {
            let steps = black_box(&mut *steps);
            match step {
                0 => assert_eq!(steps.parse(), Some(2_500)),
                1 => assert_eq!(steps.parse_checked(), Some(2_500)),
                // MsgSeqNum grows longer.
                _ => assert!((264..270).contains(&steps.encode())),
            }
        }
        start.elapsed().as_nanos() as f64 / f64::from(MESSAGES)
    })
}

/// One process of the Java program.
fn java(classes: &str) -> Result<Turn, String> {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/fix/vectors");
    let output = Command::new("java")
        .args(["-Xms1g", "-Xmx1g", "-XX:+UseParallelGC", "-cp", classes, "FixCodec"])
        .arg(vectors.join("new-order-single.fix"))
        .arg(vectors.join("execution-report.fix"))
        .args([TURNS.to_string(), MESSAGES.to_string()])
        .output()
        .map_err(|error| format!("java: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().rev().find_map(|line| line.strip_prefix("RESULT "));
    let line = line.ok_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let numbers: Vec<f64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    match numbers.as_slice() {
        &[read, checked, written, 185.0, 264.0] => Ok([read, checked, written]),
        _ => Err(format!("not understood: {line}")),
    }
}
