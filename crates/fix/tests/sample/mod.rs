//! The crate's samples, and what tests do with them. `|` stands for the separator.

#![allow(dead_code, unused_imports, reason = "each user takes what it needs")]

use fix::Version;
use fix::app::{Symbols, report};
use fix::session::{MemoryStore, Outbound};

pub use fix::sample::{EXECUTION_REPORT, NEW_ORDER, execution, instrument, now, outbound, wire};

/// A text with BodyLength and CheckSum set right; its first field stays.
pub fn repaired(text: &str) -> String {
    let (begin, rest) = text.split_once('|').unwrap();
    let (length, rest) = rest.split_once('|').unwrap();
    let body = match rest.rfind("|10=") {
        Some(at) if length.starts_with("9=") => &rest[..=at],
        _ => rest,
    };
    let head = format!("{begin}|9={}|{body}", body.len());
    let sum = fix::checksum(&wire(&head));
    format!("{head}10={sum:03}|")
}

/// Sends the report.
pub fn encode(outbound: &mut Outbound<MemoryStore>, out: &mut Vec<u8>) {
    let execution = execution();
    let symbols = Symbols::new(&[instrument()]);
    outbound.send(now(), report::msg_type(&execution), out, |writer| {
        report::write(Version::Fix50Sp2, &execution, &symbols, writer);
    });
}
