//! Writes every kind of message that the exchange sends, of every version, for `scripts/interop` to
//! have them judged by others. A line each: BeginString, kind and message, separated by tabs; the
//! kinds that there must be come first, without a message.

use std::io::Write as _;

use fix::Version;

#[path = "../tests/sample/kinds.rs"]
mod kinds;
#[path = "../tests/sample/mod.rs"]
mod sample;

fn main() -> std::io::Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for version in Version::ALL {
        let wanted = kinds::KINDS.iter().filter(|kind| kinds::has(version, **kind));
        for (kind, _) in wanted {
            writeln!(out, "{}\t{kind}\t", version.begin_string())?;
        }
    }
    for sample in kinds::all() {
        write!(out, "{}\t{}\t", sample.version.begin_string(), sample.kind)?;
        out.write_all(&sample.wire)?;
        writeln!(out)?;
    }
    out.flush()
}
