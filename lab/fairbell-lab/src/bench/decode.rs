//! P7: market data decoded on one core, beside a decoder written by hand and a floor, in turns in
//! one run.
//!
//! The stream is made before anything is timed. Decoding fills in every value of every message and
//! adds it to a checksum, which has to be that of all other turns; normalizing makes the event of
//! each message as well. The decoder written by hand is for right streams only, and for ITCH the
//! view of the same messages. The floor is what no decoder can do without: the bytes are read and
//! copied.

use std::hint::black_box;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use clap::{Args, ValueEnum};
use fast::built::Program;
use fast::opra::checksum::{self, Checksum};
use fast::opra::stream::{Shape, Stream, make};
use fast::opra::{V2, by_hand, fast_templates, to_event};
use fast::slots::{Description, Message, SlotDecoder, SlotSink};
use fast::{Decoder, Sink, Templates, Value};
use types::SplitMix64;

use host::failure::Failure;

#[allow(unused_variables)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/opra_v2.rs"));
}
use generated::OpraV2;

/// Options of `fairbell-lab bench decode`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab bench decode --format opra-fast-v2 --json     the description, by hand, the floor\n  \
    fairbell-lab bench decode --format fast-1.1                the same bytes through templates\n  \
    fairbell-lab bench decode --format itch --mebibytes 256    the description beside the view\n  \
    fairbell-lab bench decode --format opra-fast-v2 --write stream.bin --templates opra.xml")]
pub struct DecodeArgs {
    /// What is decoded
    #[arg(long, value_name = "FORMAT", default_value = "opra-fast-v2")]
    pub format: Format,
    /// Size of the stream in MiB
    #[arg(long, value_name = "N", default_value_t = 64,
          value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub mebibytes: u32,
    /// Seed of the stream
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Turns of each measurement
    #[arg(long, value_name = "N", default_value_t = 9,
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub runs: u32,
    /// Measure this step only, for profilers: decode, hand-written, floor, normalize, "user's file"
    #[arg(long, value_name = "STEP")]
    pub only: Option<String>,
    /// Also write the stream to FILE, each packet behind its length as two bytes, big-endian
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// Also write the templates of FAST 1.1 that read the stream to FILE
    #[arg(long, value_name = "FILE")]
    pub templates: Option<PathBuf>,
    /// Read the user's templates from FILE instead of those that `feed templates --print opra` prints
    #[arg(long, value_name = "FILE")]
    pub user: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// What is decoded.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// FAST for OPRA, version 2, by the decoder generated from its description
    OpraFastV2,
    /// The same bytes by FAST 1.1 templates, compiled when this was built and at run time
    #[value(name = "fast-1.1")]
    Fast11,
    /// ITCH 5.0 by its description
    Itch,
}

/// Names of steps.
const USER: &str = "user's file";
const BY_HAND: &str = "hand-written";
const FLOOR: &str = "floor";

/// One of the things measured in turns: what it did, and how it came out.
struct Turn {
    name: &'static str,
    /// Checksum and messages of every run.
    result: (u64, u64),
    /// Nanoseconds per message.
    ns: Vec<f64>,
    /// Whether the checksum has to be the first one's.
    same: bool,
}

/// Measures and prints.
pub fn run(args: &DecodeArgs) -> Result<(), Failure> {
    let bytes = (args.mebibytes as usize) << 20;
    let turns = match args.format {
        Format::Itch => {
            let messages = itch_messages(args.seed, bytes);
            let mut described = || itch_described(&messages);
            let mut written = || itch_written(&messages);
            let count = each_itch(&messages, |_| ());
            let mut copy = Vec::new();
            let mut floor = || (copied(std::iter::once(messages.as_slice()), &mut copy), count);
            measure(
                args,
                &mut [
                    ("decode", true, &mut described),
                    (BY_HAND, true, &mut written),
                    (FLOOR, false, &mut floor),
                ],
            )?
        }
        Format::OpraFastV2 | Format::Fast11 => {
            let shape = Shape { seed: args.seed, bytes, ..Shape::default() };
            let stream = make::<V2>(shape);
            write_files(args, &stream)?;
            let mut decode = || decode(&stream);
            let count = bare(&stream).1;
            let mut copy = Vec::new();
            let mut floor = || (copied(stream.packets(), &mut copy), count);
            let mut bare = || bare(&stream);
            let mut normalize = || normalize(&stream);
            let templates = Arc::new(user_templates(args)?);
            let written = Decoder::<OpraV2>::built();
            let mut written = written.map_err(|error| Failure::Run(error.to_string()))?;
            let mut compiled = || standard(&stream, &mut written);
            let mut read = Decoder::new(templates);
            let mut read = || standard(&stream, &mut read);
            if args.format == Format::Fast11 {
                measure(
                    args,
                    &mut [
                        ("decode", true, &mut compiled),
                        (BY_HAND, true, &mut bare),
                        (FLOOR, false, &mut floor),
                        (USER, true, &mut read),
                    ],
                )?
            } else {
                measure(
                    args,
                    &mut [
                        ("decode", true, &mut decode),
                        (BY_HAND, true, &mut bare),
                        (FLOOR, false, &mut floor),
                        ("normalize", false, &mut normalize),
                        (USER, true, &mut read),
                    ],
                )?
            }
        }
    };
    print(args, &turns);
    Ok(())
}

/// The templates as a user has them: compiled from their XML when the program runs.
fn user_templates(args: &DecodeArgs) -> Result<Templates, Failure> {
    let text = match &args.user {
        None => fast_templates(&V2::FORMAT),
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?,
    };
    Templates::from_user_xml(&text).map_err(|error| Failure::Usage(format!("templates: {error}")))
}

fn write_files(args: &DecodeArgs, stream: &Stream) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::Run(error.to_string());
    if let Some(path) = &args.write {
        let mut file = std::io::BufWriter::new(std::fs::File::create(path).map_err(failed)?);
        for packet in stream.packets() {
            file.write_all(&(packet.len() as u16).to_be_bytes()).map_err(failed)?;
            file.write_all(packet).map_err(failed)?;
        }
        file.flush().map_err(failed)?;
    }
    if let Some(path) = &args.templates {
        std::fs::write(path, fast_templates(&V2::FORMAT)).map_err(failed)?;
    }
    Ok(())
}

type Work<'a> = (&'static str, bool, &'a mut dyn FnMut() -> (u64, u64));

/// All in turns; one turn more than counts, to warm up.
fn measure(args: &DecodeArgs, works: &mut [Work<'_>]) -> Result<Vec<Turn>, Failure> {
    let wanted = |name: &str| args.only.as_ref().is_none_or(|only| only == name);
    let mut works: Vec<&mut Work<'_>> = works.iter_mut().filter(|work| wanted(work.0)).collect();
    let mut turns: Vec<Turn> = works
        .iter()
        .map(|(name, same, _)| Turn { name, result: (0, 0), ns: Vec::new(), same: *same })
        .collect();
    for run in 0..=args.runs {
        for (work, turn) in works.iter_mut().zip(&mut turns) {
            let start = Instant::now();
            let result = black_box((work.2)());
            let ns = start.elapsed().as_nanos() as f64 / result.1.max(1) as f64;
            if run == 0 {
                turn.result = result;
            } else {
                turn.ns.push(ns);
            }
            if turn.result != result {
                return Err(Failure::Run(format!("{}: another checksum", turn.name)));
            }
        }
    }
    for turn in &mut turns {
        turn.ns.sort_by(f64::total_cmp);
    }
    let Some(first) = turns.first().map(|turn| turn.result) else {
        return Err(Failure::Usage("--only: no such step of this format".to_string()));
    };
    match turns.iter().find(|turn| turn.same && turn.result != first || turn.result.1 != first.1) {
        Some(turn) => Err(Failure::Run(format!("{}: another checksum", turn.name))),
        None => Ok(turns),
    }
}

fn median(turn: &Turn) -> f64 {
    turn.ns.get(turn.ns.len() / 2).copied().unwrap_or(0.0)
}

fn print(args: &DecodeArgs, turns: &[Turn]) {
    let find = |name: &str| turns.iter().find(|turn| turn.name == name);
    let (Some(decode), Some(floor)) =
        (find("decode").or(turns.first()), find(FLOOR).or(turns.first()))
    else {
        return;
    };
    let by_hand = find(BY_HAND).unwrap_or(decode);
    let ns = median(decode).max(f64::MIN_POSITIVE);
    let x_of = |turn: &Turn| ns / median(turn).max(f64::MIN_POSITIVE);
    let format =
        args.format.to_possible_value().map_or(String::new(), |value| value.get_name().to_string());
    if args.json {
        let mut document = serde_json::json!({
            "format": format,
            "seed": args.seed,
            "runs": args.runs,
            "mebibytes": args.mebibytes,
            "messages": decode.result.1,
            "checksum": format!("{:016x}", decode.result.0),
            "messages_per_s": 1e9 / ns,
            "ns_per_message": ns,
            "ns_min": decode.ns.first(),
            "ns_max": decode.ns.last(),
            "floor_ns": median(floor),
            "x_floor": x_of(floor),
            "hand_written_ns": median(by_hand),
            "x_hand_written": x_of(by_hand),
        });
        if let Some(normalize) = find("normalize") {
            document["normalized_ns_per_message"] = median(normalize).into();
            document["normalized_messages_per_s"] = (1e9 / median(normalize)).into();
        }
        if let Some(user) = find(USER) {
            document["user_ns_per_message"] = median(user).into();
            document["user_speed_of_decode"] = x_of(user).into();
        }
        println!("{document:#}");
        return;
    }
    println!(
        "{:<12} {:>8} {:>15} {:>12} {:>8}",
        "step", "ns", "min-max", "M messages/s", "x floor"
    );
    for turn in turns {
        let ns = median(turn).max(f64::MIN_POSITIVE);
        let low = turn.ns.first().copied().unwrap_or(0.0);
        let high = turn.ns.last().copied().unwrap_or(0.0);
        let range = format!("{low:.1}-{high:.1}");
        let x = ns / median(floor).max(f64::MIN_POSITIVE);
        println!("{:<12} {ns:>8.1} {range:>15} {:>12.2} {x:>8.2}", turn.name, 1e3 / ns);
    }
    println!(
        "{format}, {} messages in {} MiB, seed {}, checksum {:016x}, medians of {} turns",
        decode.result.1, args.mebibytes, args.seed, decode.result.0, args.runs
    );
}

/// Slots of version 2 with long texts.
const LONG: [usize; 2] = [48, 49];

fn decode(stream: &Stream) -> (u64, u64) {
    let mut decoder = SlotDecoder::<V2>::default();
    let mut sum = Checksum::new(&LONG);
    for packet in stream.packets() {
        if decoder.packet(packet, &mut sum).is_err() {
            return (0, 0);
        }
    }
    (sum.sum, sum.messages)
}

/// Reads all bytes into `copy`: what is left of decoding when nothing is decoded.
fn copied<'a>(packets: impl Iterator<Item = &'a [u8]>, copy: &mut Vec<u8>) -> u64 {
    copy.clear();
    packets.for_each(|packet| copy.extend_from_slice(black_box(packet)));
    black_box(copy.as_slice()).len() as u64
}

fn bare(stream: &Stream) -> (u64, u64) {
    let mut sum = 0;
    let messages = stream.packets().map(|packet| by_hand::packet(packet, &mut sum)).sum();
    (sum, messages)
}

struct Normalized(u64, u64);

impl SlotSink for Normalized {
    #[inline(always)]
    fn message(&mut self, message: &Message<'_>) {
        self.0 = checksum::mix(self.0, checksum::of_event(&to_event::<V2>(message)));
        self.1 += 1;
    }
}

/// Decodes all packets to events: their checksum, and how many they are.
pub(crate) fn normalize(stream: &Stream) -> (u64, u64) {
    let mut decoder = SlotDecoder::<V2>::default();
    let mut sum = Normalized(0, 0);
    for packet in stream.packets() {
        if decoder.packet(packet, &mut sum).is_err() {
            return (0, 0);
        }
    }
    (sum.0, sum.1)
}

/// Values of a message by slot, from the fields of a template.
struct Slots<'t> {
    /// Slot of each field; 64 for those that only hold a presence bit.
    slots: &'t [usize],
    values: [u64; 65],
}

impl Sink for Slots<'_> {
    #[inline(always)]
    fn field(&mut self, field: u32, value: Value<'_>) {
        let number = match value {
            Value::U32(value) => value.into(),
            Value::Ascii(text) if text.len() <= 8 => {
                text.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
            }
            _ => 0,
        };
        let slot = self.slots.get(field as usize).copied().unwrap_or(64);
        let number = match value {
            Value::Ascii(text) if slot == LONG[0] => checksum::hash(text.iter().copied()),
            _ => number,
        };
        if let Some(place) = self.values.get_mut(slot) {
            *place = number;
        }
    }
}

fn standard<P: Program>(stream: &Stream, decoder: &mut Decoder<P>) -> (u64, u64) {
    let templates = Arc::clone(decoder.templates());
    let slot = |id: &Option<String>| id.as_ref()?.parse().ok();
    let slots: Vec<usize> = templates.fields.iter().map(|f| slot(&f.id).unwrap_or(64)).collect();
    let mut sink = Slots { slots: &slots, values: [0; 65] };
    let (mut sum, mut messages) = (0, 0);
    let mut category = 0;
    for packet in stream.packets() {
        decoder.reset();
        let mut at = V2::FORMAT.framing.header();
        while at + 1 < packet.len() {
            let end = at + 1 + usize::from(packet.get(at).copied().unwrap_or(0));
            let bytes = packet.get(at + 1..end).unwrap_or(&[]);
            if decoder.message(bytes, &mut sink).is_err() {
                return (0, 0);
            }
            category = by_hand::category(bytes).unwrap_or(category);
            let mut all = sink.values.first_chunk::<64>().copied().unwrap_or([0; 64]);
            all[0] = category.into();
            sum = checksum::mix(sum, checksum::of_values(by_hand::slots(category, &all), &all));
            messages += 1;
            at = end;
        }
    }
    (sum, messages)
}

/// ITCH messages of all types in equal parts, each behind its length.
fn itch_messages(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = SplitMix64::new(seed);
    let mut out = Vec::with_capacity(bytes + 64);
    let lengths = fast::itch::Message::LENGTHS;
    while out.len() < bytes {
        let (kind, len) = lengths[random.below(lengths.len() as u64) as usize];
        out.push(len as u8);
        let start = out.len();
        out.push(kind);
        out.extend((1..len).map(|_| b'A' + random.below(26) as u8));
        let (at, code) = match kind {
            b'S' => (11, b'Q'),
            b'H' => (19, b'T'),
            b'A' | b'F' | b'P' => (19, b'B'),
            b'C' => (31, b'Y'),
            _ => continue,
        };
        if let Some(place) = out.get_mut(start + at) {
            *place = code;
        }
    }
    out
}

fn each_itch(messages: &[u8], mut each: impl FnMut(&[u8])) -> u64 {
    let (mut rest, mut count) = (messages, 0);
    while let [len, behind @ ..] = rest {
        let Some((message, behind)) = behind.split_at_checked(usize::from(*len)) else { break };
        each(message);
        count += 1;
        rest = behind;
    }
    count
}

/// The fields that every message of the four commonest kinds has, by either reader.
fn itch_described(messages: &[u8]) -> (u64, u64) {
    use fast::itch::Message as M;
    let mut sum = 0_u64;
    let mut add = |values: [u64; 6]| {
        sum = checksum::mix(sum, values.iter().fold(0, |all, &value| all.wrapping_add(value)));
    };
    let count = each_itch(messages, |bytes| match M::parse(bytes) {
        Ok(M::AddOrder(m)) => add([
            m.locate().into(),
            m.time().0,
            m.order_ref(),
            m.side().into(),
            m.shares().into(),
            m.price().into(),
        ]),
        Ok(M::OrderExecuted(m)) => {
            add([
                m.locate().into(),
                m.time().0,
                m.order_ref(),
                m.shares().into(),
                m.match_number(),
                0,
            ]);
        }
        Ok(M::OrderDelete(m)) => add([m.locate().into(), m.time().0, m.order_ref(), 0, 0, 0]),
        Ok(M::OrderReplace(m)) => add([
            m.locate().into(),
            m.time().0,
            m.old_ref(),
            m.new_ref(),
            m.shares().into(),
            m.price().into(),
        ]),
        Ok(_) => add([1, 0, 0, 0, 0, 0]),
        Err(_) => add([2, 0, 0, 0, 0, 0]),
    });
    (sum, count)
}

fn itch_written(messages: &[u8]) -> (u64, u64) {
    use wire::itch::Message as M;
    let mut sum = 0_u64;
    let mut add = |values: [u64; 6]| {
        sum = checksum::mix(sum, values.iter().fold(0, |all, &value| all.wrapping_add(value)));
    };
    let count = each_itch(messages, |bytes| match wire::itch::parse(bytes) {
        Ok(M::AddOrder(m)) => add([
            m.header.locate.get().into(),
            m.header.time.get(),
            m.order_ref.get(),
            m.side as u64,
            m.shares.get().into(),
            m.price.get().into(),
        ]),
        Ok(M::OrderExecuted(m)) => add([
            m.header.locate.get().into(),
            m.header.time.get(),
            m.order_ref.get(),
            m.shares.get().into(),
            m.match_number.get(),
            0,
        ]),
        Ok(M::OrderDelete(m)) => {
            add([m.header.locate.get().into(), m.header.time.get(), m.order_ref.get(), 0, 0, 0]);
        }
        Ok(M::OrderReplace(m)) => add([
            m.header.locate.get().into(),
            m.header.time.get(),
            m.old_ref.get(),
            m.new_ref.get(),
            m.shares.get().into(),
            m.price.get().into(),
        ]),
        Ok(_) => add([1, 0, 0, 0, 0, 0]),
        Err(_) => add([2, 0, 0, 0, 0, 0]),
    });
    (sum, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_gives_its_checksum() {
        for format in [Format::OpraFastV2, Format::Fast11, Format::Itch] {
            let args = DecodeArgs {
                format,
                mebibytes: 1,
                seed: 2,
                runs: 1,
                only: None,
                write: None,
                templates: None,
                user: None,
                json: true,
            };
            assert!(run(&args).is_ok(), "{format:?}");
            assert!(run(&DecodeArgs { json: false, ..args.clone() }).is_ok());
            let only = |step: &str| DecodeArgs { only: Some(step.to_string()), ..args.clone() };
            assert!(run(&only("floor")).is_ok() && run(&only("ceiling")).is_err());
            assert!(run(&only("hand-written")).is_ok());
        }
    }

    #[test]
    fn the_floor_reads_and_copies_every_byte() {
        let stream = make::<V2>(Shape { seed: 2, bytes: 1 << 20, ..Shape::default() });
        let mut copy = Vec::new();
        let bytes: usize = stream.packets().map(<[u8]>::len).sum();
        for _ in 0..2 {
            assert_eq!(copied(stream.packets(), &mut copy), bytes as u64);
            assert!(stream.packets().flatten().eq(&copy));
        }
    }
}
