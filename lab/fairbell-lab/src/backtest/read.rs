//! Recorded markets out of files of many kinds, told apart by their first bytes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;

use backtest::{ItchReader, ReadError, Recording, read_dbn, read_lobster};
use engine::{Engine, Output};
use feed::pcap::{Payload, Pcap};
use types::{Nanos, Symbol};
use wire::itch::Encoder;
use wire::moldudp::Packet;

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
            Ok(Found { recording, format: "dbn", lost: 0, refused: 0 })
        }
        [0x1f, 0x8b, ..] => {
            let mut bytes = Vec::new();
            let file = File::open(path).map_err(|error| on(path, error))?;
            let mut inflater = flate2::read::MultiGzDecoder::new(file);
            inflater.read_to_end(&mut bytes).map_err(|error| on(path, error))?;
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
    Ok(Found { recording, format: "ticks", lost, refused: 0 })
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
    Ok(Found { recording, format: "lobster", lost: 0, refused: 0 })
}

fn on_line(path: &Path, error: impl std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}

/// Messages in the order of their numbers, each once; what A and B lines both carry counts once.
struct Sequence {
    reader: ItchReader,
    /// By session.
    next: BTreeMap<[u8; 10], u64>,
    lost: u64,
    refused: u64,
}

impl Sequence {
    fn packet(&mut self, packet: &Packet<'_>) -> Result<(), ReadError> {
        let next = self.next.entry(packet.session().0).or_insert_with(|| packet.seq());
        self.lost += packet.seq().saturating_sub(*next);
        for (message, seq) in packet.messages().zip(packet.seq()..) {
            if seq >= *next {
                *next = seq + 1;
                match self.reader.take(message) {
                    Err(ReadError::Message(_)) => self.refused += 1,
                    other => other?,
                }
            }
        }
        Ok(())
    }

    fn finish(self, format: &'static str) -> Found {
        let (lost, refused) = (self.lost, self.refused);
        Found { recording: self.reader.finish(), format, lost, refused }
    }
}

fn sequence(wanted: &Wanted<'_>) -> Result<Sequence, Failure> {
    Ok(Sequence { reader: wanted.itch()?, next: BTreeMap::new(), lost: 0, refused: 0 })
}

fn capture(path: &Path, bytes: &[u8], wanted: &Wanted<'_>) -> Result<Found, Failure> {
    let mut sequence = sequence(wanted)?;
    for frame in Pcap::new(bytes).map_err(|error| on(path, error))? {
        let frame = frame.map_err(|error| on(path, error))?;
        if let Payload::Udp(_, _, payload) = frame.payload
            && let Ok(packet) = Packet::parse(payload)
        {
            sequence.packet(&packet).map_err(|error| on(path, error))?;
        }
    }
    Ok(sequence.finish("pcap"))
}

/// Messages, each behind its length in two bytes: Nasdaq's files of a day.
fn framed(path: &Path, bytes: &[u8], wanted: &Wanted<'_>) -> Result<Found, Failure> {
    let mut sequence = sequence(wanted)?;
    let (mut rest, mut messages) = (bytes, 0);
    while let Some((length, after)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length));
        // Nasdaq ends a file with an empty message.
        let Some((one, after)) = after.split_at_checked(length) else { break };
        rest = after;
        if one.is_empty() {
            continue;
        }
        match sequence.reader.take(one) {
            Ok(()) => messages += 1,
            Err(ReadError::Message(_)) => sequence.refused += 1,
            Err(error) => return Err(on(path, error)),
        }
    }
    if messages == 0 {
        let line = "neither a capture, ITCH messages, an input log, ticks nor a DBN file";
        return Err(Failure::Usage(on_line(path, line)));
    }
    Ok(sequence.finish("itch"))
}

/// What the exchange published, by its own log.
fn input_log(path: &Path, wanted: &Wanted<'_>) -> Result<Found, Failure> {
    let opened = log::open(path, wanted.config, &[crate::log::generated::config()])?.whole(path)?;
    let mut reader = wanted.itch()?;
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
    Ok(Found { recording: reader.finish(), format: "input log", lost: 0, refused })
}
