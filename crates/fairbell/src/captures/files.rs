//! Market data in files that are no captures: DBN, and ITCH messages each behind its length.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use dbn::decode::dbn::Decoder;
use dbn::decode::{DecodeRecordRef, DynReader};
use dbn::encode::{EncodeRecordRef, JsonEncoder};
use dbn::{Record, RecordRef, VersionUpgradePolicy};
use feed::DbnFrames;
use host::failure::Failure;

use super::{Format, Seen, shown};

/// What a file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Datagrams with their times.
    Capture,
    /// DBN, plain or compressed by Zstandard.
    Dbn,
    /// ITCH messages, each behind its length as two bytes, big-endian: Nasdaq's files.
    Itch,
}

/// First bytes of a Zstandard stream.
const ZSTD: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
/// First bytes of captures: pcap in micro- and nanoseconds, of either byte order, and pcapng.
const CAPTURES: [[u8; 4]; 5] = [
    [0xD4, 0xC3, 0xB2, 0xA1],
    [0xA1, 0xB2, 0xC3, 0xD4],
    [0x4D, 0x3C, 0xB2, 0xA1],
    [0xA1, 0xB2, 0x3C, 0x4D],
    [0x0A, 0x0D, 0x0D, 0x0A],
];

/// What a file is by its first bytes.
///
/// # Errors
/// It cannot be read.
pub fn kind(path: &Path, format: Format) -> Result<Kind, Failure> {
    let failed = |error| Failure::Usage(format!("{}: {error}", path.display()));
    let mut first = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(4).read_to_end(&mut first).map_err(failed)?;
    Ok(match (format, first.as_slice()) {
        (Format::Dbn, _) => Kind::Dbn,
        (_, first) if CAPTURES.iter().any(|magic| magic == first) => Kind::Capture,
        (Format::Auto, first) if first.starts_with(b"DBN") || *first == ZSTD => Kind::Dbn,
        (Format::Auto | Format::Itch, [0, length, kind, ..])
            if fast::itch::Message::LENGTHS.contains(&(*kind, usize::from(*length))) =>
        {
            Kind::Itch
        }
        _ => Kind::Capture,
    })
}

/// Every record of a DBN file.
///
/// # Errors
/// It is none, or ends in the middle of a record; the whole ones before were taken.
pub fn dbn(path: &Path, seen: &mut Seen) -> Result<(), Failure> {
    let failed = |error: dbn::Error| Failure::Run(format!("{}: {error}", path.display()));
    let opened = File::open(path);
    let file = opened.map_err(|error| Failure::Run(format!("{}: {error}", path.display())))?;
    let mut frames = DbnFrames::new(DynReader::new_inferred(file).map_err(failed)?);
    let read = dbn_records(&mut frames, seen).map_err(failed);
    match frames.cut() {
        Some(cut) => Err(Failure::Run(format!("{}: {cut}", path.display()))),
        None => read,
    }
}

fn dbn_records(from: impl Read, seen: &mut Seen) -> dbn::Result<()> {
    let policy = VersionUpgradePolicy::UpgradeToV3;
    let mut decoder: Decoder<_> = Decoder::with_upgrade_policy(from, policy)?;
    while let Some(record) = decoder.decode_record_ref()? {
        seen.frames += 1;
        match record.as_enum() {
            Ok(_) => {
                let kind = record.rtype().map_or("?".to_string(), |kind| format!("{kind:?}"));
                seen.message("dbn", &kind, |form| shown::dbn(form, &object(record)));
            }
            Err(error) => seen.error(format!("DBN: {error}")),
        }
    }
    Ok(())
}

/// A record as an object of JSON by its fields, prices as decimals and times in ISO 8601.
fn object(record: RecordRef<'_>) -> String {
    let mut text = Vec::new();
    let builder = JsonEncoder::builder(&mut text).use_pretty_px(true).use_pretty_ts(true);
    // Writing to memory cannot fail, and the record's kind is known.
    let written = builder.build().encode_record_ref(record);
    let text = written.ok().and_then(|()| String::from_utf8(text).ok());
    text.map_or_else(|| "null".to_string(), |text| text.trim_end().to_string())
}

/// Every message of an ITCH file.
///
/// # Errors
/// It cannot be read, or ends in the middle of a message.
pub fn itch(path: &Path, seen: &mut Seen) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::Run(format!("{}: {error}", path.display()));
    let mut file = BufReader::new(File::open(path).map_err(failed)?);
    let (mut message, mut at) = (Vec::new(), 0);
    let mut take = |length: usize, into: &mut Vec<u8>| {
        into.clear();
        file.by_ref().take(length as u64).read_to_end(into).map_err(failed)
    };
    let cut = |seen: &Seen, at: u64, got: usize, of: &str| {
        let (path, number, whole) = (path.display(), seen.frames + 1, seen.frames);
        Failure::Run(format!(
            "{path}: message {number}, byte {at}: the file ends after {got} bytes of {of}: it is cut off, \
             or still being written; the {whole} messages before it are whole"
        ))
    };
    loop {
        let length = match (take(2, &mut message)?, message.first_chunk::<2>()) {
            (0, _) => return Ok(()),
            (_, Some(length)) => u16::from_be_bytes(*length),
            (got, None) => return Err(cut(seen, at, got, "the 2 of its length")),
        };
        let got = take(length.into(), &mut message)?;
        if got < usize::from(length) {
            return Err(cut(seen, at, got, &format!("its {length}")));
        }
        at += 2 + u64::from(length);
        seen.frames += 1;
        match fast::itch::Message::parse(&message) {
            Ok(view) => {
                let kind = char::from(message.first().copied().unwrap_or(b'?')).to_string();
                seen.message("itch", &kind, |form| shown::itch(form, &view));
            }
            Err(code) => seen.error(format!("ITCH: {code}")),
        }
    }
}
