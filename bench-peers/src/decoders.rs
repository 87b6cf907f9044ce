//! Decoders of FAST beside ours, on the same stream of FAST for OPRA, version 2: OpenFAST and
//! fastlib read it by templates of FAST 1.1, message by message, the lengths between them left out
//! by the caller. Each adds every value of every message to the checksum, which has to be ours.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use fast::opra::checksum::{self, Checksum};
use fast::opra::stream::{Shape, Stream, make};
use fast::opra::{V2, fast_templates, floor};
use fast::slots::{Description, SlotDecoder};
use fast::{Sink, Templates, Value};
use fastlib::MessageFactory;

/// How the tables call the Java peer.
pub const OPENFAST: &str = "OpenFAST 1.1.1";
const FASTLIB: &str = "fastlib 0.3.8";
/// Slots with long texts.
const LONG: [usize; 2] = [48, 49];
/// Bytes before the first message of a packet.
const HEADER: usize = 15;

type Outcome = (f64, u64);

/// Measures and prints; false when a checksum is not ours.
pub fn compare(classes: Option<&str>, runs: usize) -> bool {
    let stream = make::<V2>(Shape { seed: 1, bytes: 64 << 20, ..Shape::default() });
    let templates = fast_templates(&V2::FORMAT);
    let files = classes.map(|_| Files::write(&stream, &templates));
    let mut rows: Vec<(&str, Vec<Outcome>)> = Vec::new();
    for round in 0..runs {
        eprintln!("fast: round {} of {runs}", round + 1);
        note(&mut rows, "fairbell, description", ours(&stream));
        note(&mut rows, "floor, by hand", bare(&stream));
        note(&mut rows, "fairbell, FAST 1.1 templates", standard(&stream, &templates));
        note(&mut rows, FASTLIB, fastlib(&stream, &templates));
        if let (Some(classes), Some(files)) = (classes, &files) {
            match files.java(classes) {
                Ok(outcome) => note(&mut rows, OPENFAST, outcome),
                Err(complaint) => eprintln!("{OPENFAST}: {complaint}"),
            }
        }
    }
    println!(
        "\nFAST for OPRA v2, {} messages in 64 MiB, all values summed, runs: {runs}",
        stream.messages
    );
    println!("{:<30} {:>10} {:>19} {:>9}  checksum", "decoder", "ns/message", "min-max", "x ours");
    let first = rows.first().map_or((0.0, 0), |(_, runs)| (median(runs), runs[0].1));
    let mut right = true;
    for (name, outcomes) in &rows {
        let same = outcomes.iter().all(|(_, sum)| *sum == first.1);
        right &= same;
        let low = outcomes.iter().map(|(ns, _)| *ns).fold(f64::INFINITY, f64::min);
        let high = outcomes.iter().map(|(ns, _)| *ns).fold(0.0, f64::max);
        let ns = median(outcomes);
        let verdict = if same { format!("{:016x}", first.1) } else { "WRONG".to_string() };
        let range = format!("{low:.1}-{high:.1}");
        println!("{name:<30} {ns:>10.1} {range:>19} {:>9.2}  {verdict}", ns / first.0);
    }
    right
}

fn note(rows: &mut Vec<(&'static str, Vec<Outcome>)>, name: &'static str, outcome: Outcome) {
    match rows.iter_mut().find(|(known, _)| *known == name) {
        Some((_, outcomes)) => outcomes.push(outcome),
        None => rows.push((name, vec![outcome])),
    }
}

fn median(outcomes: &[Outcome]) -> f64 {
    let mut all: Vec<f64> = outcomes.iter().map(|(ns, _)| *ns).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn timed(stream: &Stream, work: impl FnOnce() -> u64) -> Outcome {
    let start = Instant::now();
    let sum = work();
    (start.elapsed().as_nanos() as f64 / stream.messages as f64, sum)
}

fn ours(stream: &Stream) -> Outcome {
    timed(stream, || {
        let mut decoder = SlotDecoder::<V2>::default();
        let mut sum = Checksum::new(&LONG);
        stream.packets().for_each(|packet| {
            decoder.packet(packet, &mut sum).expect("a stream of ours");
        });
        sum.sum
    })
}

fn bare(stream: &Stream) -> Outcome {
    timed(stream, || {
        let mut sum = 0;
        stream.packets().for_each(|packet| {
            floor::packet(packet, &mut sum);
        });
        sum
    })
}

/// Messages of a packet.
fn each(packet: &[u8], mut each: impl FnMut(&[u8])) {
    let mut at = HEADER;
    while at + 1 < packet.len() {
        let end = at + 1 + usize::from(packet[at]);
        each(&packet[at + 1..end]);
        at = end;
    }
}

struct Slots {
    /// Slot of each field, by our index.
    slots: Vec<usize>,
    categories: Vec<u8>,
    values: [u64; 64],
}

impl Slots {
    fn put(&mut self, slot: usize, value: u64) {
        if let Some(place) = self.values.get_mut(slot) {
            *place = value;
        }
    }

    fn text(&mut self, slot: usize, text: &[u8]) {
        let value = if LONG.contains(&slot) {
            checksum::hash(text.iter().copied())
        } else {
            text.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
        };
        self.put(slot, value);
    }

    fn sum(&self) -> u64 {
        let slots = floor::slots(self.values[0] as u8, &self.values);
        checksum::of_values(slots, &self.values)
    }
}

impl Sink for Slots {
    fn begin(&mut self, template: u32) {
        self.values[0] = self.categories[template as usize].into();
    }

    fn field(&mut self, field: u32, value: Value<'_>) {
        let slot = self.slots[field as usize];
        match value {
            Value::U32(value) => self.put(slot, value.into()),
            Value::Ascii(text) => self.text(slot, text),
            _ => {}
        }
    }
}

fn standard(stream: &Stream, xml: &str) -> Outcome {
    let templates = Arc::new(Templates::from_xml(xml).expect("templates of ours"));
    let slot = |id: &Option<String>| id.as_ref().and_then(|id| id.parse().ok()).unwrap_or(64);
    let mut slots = Slots {
        slots: templates.fields.iter().map(|field| slot(&field.id)).collect(),
        categories: templates.templates.iter().map(|t| t.id.unwrap_or(0) as u8).collect(),
        values: [0; 64],
    };
    let mut decoder = fast::Decoder::new(templates);
    timed(stream, || {
        let mut sum = 0;
        for packet in stream.packets() {
            decoder.reset();
            each(packet, |message| {
                decoder.message(message, &mut slots).expect("a stream of ours");
                sum = checksum::mix(sum, slots.sum());
            });
        }
        sum
    })
}

impl MessageFactory for Slots {
    fn start_template(&mut self, id: u32, _name: &str) {
        self.values[0] = id.into();
    }
    fn stop_template(&mut self) {}
    fn set_value(&mut self, id: u32, _name: &str, value: Option<fastlib::Value>) {
        // Fields that only hold a presence bit have identifiers that are no slots.
        match value {
            Some(fastlib::Value::UInt32(value)) => self.put(id as usize, value.into()),
            Some(fastlib::Value::ASCIIString(text)) => self.text(id as usize, text.as_bytes()),
            _ => {}
        }
    }
    fn start_sequence(&mut self, _id: u32, _name: &str, _length: u32) {}
    fn start_sequence_item(&mut self, _index: u32) {}
    fn stop_sequence_item(&mut self) {}
    fn stop_sequence(&mut self) {}
    fn start_group(&mut self, _name: &str) {}
    fn stop_group(&mut self) {}
    fn start_template_ref(&mut self, _name: &str, _dynamic: bool) {}
    fn stop_template_ref(&mut self) {}
}

fn fastlib(stream: &Stream, xml: &str) -> Outcome {
    let mut decoder = fastlib::Decoder::new_from_xml(xml).expect("templates of ours");
    let mut slots = Slots { slots: Vec::new(), categories: Vec::new(), values: [0; 64] };
    timed(stream, || {
        let mut sum = 0;
        for packet in stream.packets() {
            decoder.reset();
            each(packet, |message| {
                decoder.decode_buffer(message, &mut slots).expect("a stream of ours");
                sum = checksum::mix(sum, slots.sum());
            });
        }
        sum
    })
}

/// Stream and templates on disk, for the Java program.
struct Files {
    stream: PathBuf,
    templates: PathBuf,
    messages: u64,
}

impl Files {
    fn write(stream: &Stream, templates: &str) -> Files {
        let place = |name: &str| {
            std::env::temp_dir().join(format!("{name}-{}", std::process::id()))
        };
        let files = Files {
            stream: place("opra-stream"),
            templates: place("opra-templates"),
            messages: stream.messages,
        };
        let mut bytes = Vec::with_capacity(stream.bytes.len() + 2 * stream.ends.len());
        for packet in stream.packets() {
            bytes.extend_from_slice(&(packet.len() as u16).to_be_bytes());
            bytes.extend_from_slice(packet);
        }
        std::fs::write(&files.stream, bytes).expect("room for a temporary file");
        std::fs::write(&files.templates, templates).expect("room for a temporary file");
        files
    }

    /// One process; the Java program warms up first.
    fn java(&self, classes: &str) -> Result<Outcome, String> {
        let output = Command::new("java")
            .args(["-Xms2g", "-Xmx2g", "-XX:+UseParallelGC", "-cp", classes, "FastDecode"])
            .arg(&self.stream)
            .arg(&self.templates)
            .output()
            .map_err(|error| format!("java: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text.lines().rev().find_map(|line| line.strip_prefix("RESULT "));
        let line = line.ok_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
        let (ns, sum) = line.split_once(' ').ok_or("half a result")?;
        let ns: f64 = ns.parse().map_err(|_| "no time")?;
        let sum = u64::from_str_radix(sum.trim(), 16).map_err(|_| "no checksum")?;
        Ok((ns / self.messages as f64, sum))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // Nothing depends on their going.
        let _ = std::fs::remove_file(&self.stream);
        let _ = std::fs::remove_file(&self.templates);
    }
}
