//! exchange-core, played by the Java program beside this one: the tape goes over in a file, the
//! result comes back as one line.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::Command;

use book_model::tape::{Tape, TradeSum};

use crate::Run;

/// How the table calls it.
pub const NAME: &str = "exchange-core 0.5.3";

/// A tape on disk: length of the prefill and of the whole, then 24 little-endian bytes a record.
pub struct TapeFile(PathBuf);

impl TapeFile {
    /// Writes the tape to the folder for temporary files.
    pub fn write(tape: &Tape) -> TapeFile {
        let path = std::env::temp_dir().join(format!("tape-{}.bin", std::process::id()));
        let file = File::create(&path).expect("a temporary file");
        let mut file = BufWriter::new(file);
        let mut put = |bytes: &[u8]| file.write_all(bytes).expect("room for a temporary file");
        put(&(tape.prefill as u64).to_le_bytes());
        put(&(tape.commands.len() as u64).to_le_bytes());
        for command in &tape.commands {
            put(&command.id.to_le_bytes());
            put(&command.price.to_le_bytes());
            put(&command.qty.to_le_bytes());
            put(&[command.kind as u8, command.side as u8, 0, 0]);
        }
        drop(put);
        file.flush().expect("room for a temporary file");
        TapeFile(path)
    }
}

impl Drop for TapeFile {
    fn drop(&mut self) {
        // Nothing depends on its going.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// One run in a process of its own; the Java program warms up by playing the tape first.
pub fn play(classes: &str, file: &TapeFile) -> Result<Run, String> {
    let output = Command::new("java")
        .args(["-Xms4g", "-Xmx4g", "-XX:+UseParallelGC", "-cp", classes, "PlayTape"])
        .arg(&file.0)
        .output()
        .map_err(|error| format!("java: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().rev().find_map(|line| line.strip_prefix("RESULT "));
    let line = line.ok_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let words: Vec<&str> = line.split(' ').collect();
    let number = |at: usize| {
        let word = words.get(at).ok_or("a number is missing")?;
        word.parse::<u64>().map_err(|error| error.to_string())
    };
    let (nanoseconds, played) = (number(0)?, number(1)?);
    let hash = words.get(4).and_then(|word| u64::from_str_radix(word, 16).ok());
    Ok(Run {
        ns: nanoseconds as f64 / played.max(1) as f64,
        sum: TradeSum {
            trades: number(2)?,
            volume: number(3)?,
            hash: hash.ok_or("the hash is missing")?,
        },
        played: played as usize,
    })
}
