//! Recorded markets out of files of many kinds, told apart by their first bytes.

use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;

use backtest::{ItchReader, ReadError, Recording, read_dbn, read_lobster};
use engine::{Engine, Output};
use feed::pcap::{Payload, Pcap};
use types::{Nanos, Symbol};
use wire::itch::Encoder;

use super::sequence::Sequence;
use fairbell::log;
use host::failure::{Failure, on};

const DAY_NS: u64 = 86_400 * Nanos::SECOND;

/// A recording, and what was noticed on the way.
pub struct Found {
    /// The recording.
    pub recording: Recording,
    /// What kind of file it was.
    pub format: &'static str,
    /// Messages that the capture lacks.
    pub lost: u64,
    /// Messages that are none of ITCH 5.0.
    pub refused: u64,
    /// Of a file of ITCH messages with System Events: whether the last day ends by System Event C.
    pub ended: Option<bool>,
}

fn found(recording: Recording, format: &'static str) -> Found {
    Found { recording, format, lost: 0, refused: 0, ended: None }
}

/// Which events are kept.
pub struct Wanted<'a> {
    /// Symbols, none for all.
    pub instruments: &'a [String],
    /// Events at most.
    pub records_max: usize,
    /// Configuration of input logs.
    pub config: Option<&'a Path>,
}

impl Wanted<'_> {
    fn symbols(&self) -> Result<Vec<Symbol>, Failure> {
        let symbol = |name: &String| {
            Symbol::new(name).ok_or_else(|| Failure::Usage(format!("{name} is no symbol")))
        };
        self.instruments.iter().map(symbol).collect()
    }

    fn itch(&self) -> Result<ItchReader, Failure> {
        Ok(ItchReader::new(self.symbols()?, self.records_max))
    }
}

/// Reads a file of whatever kind.
///
/// # Errors
/// It is of no known kind, damaged, or has too much.
pub fn read(path: &Path, wanted: &Wanted<'_>) -> Result<Found, Failure> {
    if path.is_dir() {
        return ticks(path, wanted);
    }
    let mut head = [0; 16];
    let mut file = File::open(path).map_err(|error| Failure::Usage(on_line(path, error)))?;
    let count = file.read(&mut head).map_err(|error| on(path, error))?;
    let whole = || std::fs::read(path).map_err(|error| on(path, error));
    match head.get(..count).unwrap_or(&head) {
        [b'D', b'B', b'N', ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            let file = File::open(path).map_err(|error| on(path, error))?;
            let recording = read_dbn(file, wanted.instruments, wanted.records_max);
            let recording = recording.map_err(|error| on(path, error))?;
            Ok(found(recording, "dbn"))
        }
        [0x1f, 0x8b, ..] => {
            let mut bytes = Vec::new();
            let file = File::open(path).map_err(|error| on(path, error))?;
            let mut inflater = flate2::read::MultiGzDecoder::new(file);
            if let Err(error) = inflater.read_to_end(&mut bytes) {
                let (size, unpacked) = (file_size(path), bytes.len());
                let line = format!(
                    "gzip: {error}, behind {unpacked} unpacked bytes; the file has {size} bytes and is \
                     cut off or damaged: get the whole file again"
                );
                return Err(on(path, line));
            }
            framed(path, &bytes, wanted)
        }
        [0x0a, 0x0d, 0x0d, 0x0a, ..]
        | [0xd4 | 0x4d, 0xc3 | 0x3c, 0xb2, 0xa1, ..]
        | [0xa1, 0xb2, 0xc3 | 0x3c, 0xd4 | 0x4d, ..] => capture(path, &whole()?, wanted),
        [b'0'..=b'9', ..] if path.extension().is_some_and(|kind| kind == "csv") => {
            lobster(path, &whole()?, wanted)
        }
        // Parquet, and a file of ticks that is being written.
        [b'P', b'A', b'R', b'1', ..] | [b'F', b'B', b'T', b'I', b'C', b'K', b'S', ..] => {
            ticks(path, wanted)
        }
        head if head.starts_with(engine::log_file::MAGIC) => input_log(path, wanted),
        _ => framed(path, &whole()?, wanted),
    }
}

fn file_size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |about| about.len())
}

/// The bytes of a file that says what a strategy heard; `None`: it is another one.
///
/// # Errors
/// It can't be read.
pub fn heard(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    if path.is_dir() {
        return Ok(None);
    }
    let mut head = [0; strategy::heard::MAGIC.len()];
    let mut file = File::open(path).map_err(|error| Failure::Usage(on_line(path, error)))?;
    let count = file.read(&mut head).map_err(|error| on(path, error))?;
    if head.get(..count) != Some(strategy::heard::MAGIC) {
        return Ok(None);
    }
    std::fs::read(path).map(Some).map_err(|error| on(path, error))
}

/// What `fairbell feed serve --ticks` wrote: a folder, or one file of it.
fn ticks(path: &Path, wanted: &Wanted<'_>) -> Result<Found, Failure> {
    let mut reader = backtest::TickReader::new(wanted.symbols()?, wanted.records_max);
    let mut taken = Ok(());
    let report = ticks::read(path, &ticks::Filter::default(), |tick| {
        taken = reader.take(&backtest::Tick {
            time: tick.time,
            line: tick.line,
            sequence: tick.sequence,
            kind: tick.kind,
            symbol: tick.symbol,
            contract: tick.contract.is_some(),
            price: tick.price,
            size: tick.size,
            taker: tick.taker,
            bid: tick.bid,
            bid_size: tick.bid_size,
            offer: tick.offer,
            offer_size: tick.offer_size,
            until: tick.until,
        });
        if taken.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let report = report.map_err(|error| on(path, error))?;
    taken.map_err(|error| on(path, error))?;
    if let Some(complaint) = report.complaints.into_iter().next() {
        return Err(Failure::Run(complaint));
    }
    let (recording, lost) = reader.finish().map_err(|error| on(path, error))?;
    Ok(Found { lost, ..found(recording, "ticks") })
}

/// LOBSTER's messages; the levels are in the file of the same name with `orderbook` in place of
/// `message`, if there is one.
fn lobster(path: &Path, messages: &[u8], wanted: &Wanted<'_>) -> Result<Found, Failure> {
    let name = path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    let beside = path.with_file_name(name.replacen("message", "orderbook", 1));
    let levels = match beside != path && beside.exists() {
        true => Some(std::fs::read(&beside).map_err(|error| on(&beside, error))?),
        false => None,
    };
    let symbol = name.split('_').next().and_then(Symbol::new).unwrap_or(Symbol(*b"UNKNOWN "));
    let recording = read_lobster(messages, levels.as_deref(), symbol, wanted.records_max);
    let recording = recording.map_err(|error| on(path, error))?;
    Ok(found(recording, "lobster"))
}

fn on_line(path: &Path, error: impl std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}

fn capture(path: &Path, bytes: &[u8], wanted: &Wanted<'_>) -> Result<Found, Failure> {
    let mut sequence = Sequence::new(wanted.itch()?);
    for frame in Pcap::new(bytes).map_err(|error| on(path, error))? {
        let frame = frame.map_err(|error| on(path, error))?;
        if let Payload::Udp(_, _, payload) = frame.payload {
            sequence.datagram(frame.time, payload).map_err(|error| on(path, error))?;
        }
    }
    let (recording, lost, refused) = sequence.finish().map_err(|error| on(path, error))?;
    Ok(Found { lost, refused, ..found(recording, "pcap") })
}

/// Messages, each behind its length in two bytes: Nasdaq's files of a day.
fn framed(path: &Path, bytes: &[u8], wanted: &Wanted<'_>) -> Result<Found, Failure> {
    let mut reader = wanted.itch()?;
    // Of whole ones: all, and those that were taken.
    let (mut rest, mut whole, mut messages, mut refused) = (bytes, 0_u64, 0_u64, 0);
    while let Some((length, after)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length));
        let Some((one, after)) = after.split_at_checked(length) else { break };
        rest = after;
        // Nasdaq ends a file with an empty message.
        if one.is_empty() {
            continue;
        }
        whole += 1;
        match reader.take(one) {
            Ok(()) => messages += 1,
            Err(ReadError::Message(_)) => refused += 1,
            Err(error) => return Err(on(path, error)),
        }
    }
    if messages == 0 {
        let line = "neither a capture, ITCH messages, an input log, ticks, what a strategy heard, a \
                    DBN file nor LOBSTER's messages (named ..._message_N.csv, the first character a \
                    digit)";
        return Err(Failure::Usage(on_line(path, line)));
    }
    if !rest.is_empty() {
        let (end, begins) = (bytes.len(), bytes.len() - rest.len());
        let line = format!(
            "cut off at byte {end} (unpacked), behind {whole} whole messages: one begins at byte \
             {begins}; get the whole file again, or play its first {begins} bytes as a file of their own"
        );
        return Err(on(path, line));
    }
    let ended = reader.ended();
    Ok(Found { refused, ended, ..found(reader.finish(), "itch") })
}

/// What the exchange published, by its own log.
fn input_log(path: &Path, wanted: &Wanted<'_>) -> Result<Found, Failure> {
    let opened = log::open(path, wanted.config, &[crate::log::generated::config()])?.whole(path)?;
    // The engine says which side an order had that nobody saw.
    let mut reader = wanted.itch()?.with_hidden_sides();
    let mut engine = Engine::new(opened.config.clone());
    let (mut out, mut bytes) = (Output::default(), Vec::new());
    // Times begin anew every midnight; the reader has them go on.
    let (mut midnight, mut encoder, mut refused) = (None, None, 0);
    for input in opened.reader {
        let input = input.map_err(|error| on(path, error))?;
        engine.apply(&input, &mut out);
        let first = *midnight.get_or_insert(input.t_seq.0 - input.t_seq.0 % DAY_NS);
        let encoder =
            encoder.get_or_insert_with(|| Encoder::new(&opened.config.instruments, Nanos(first)));
        for (_, event) in &out.market {
            bytes.clear();
            match encoder.encode(event, input.t_seq, &mut bytes) {
                Ok(_) => reader.take(&bytes).map_err(|error| on(path, error))?,
                Err(_) => refused += 1,
            }
        }
        out.clear();
    }
    Ok(Found { refused, ..found(reader.finish(), "input log") })
}
