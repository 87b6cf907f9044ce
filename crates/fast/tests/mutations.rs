//! Packets broken on purpose: no panic, bounded work, and the next packet decodes as if nothing had
//! been. A slice here; `scripts/mutations` runs ten million, or `FAIRBELL_MUTATIONS`, from the seed
//! `FAIRBELL_MUTATION_SEED`, and prints what was reported by its code.

use std::io::Write;
use std::sync::Arc;

use fast::opra::checksum::Checksum;
use fast::opra::stream::{Random, Shape, make};
use fast::opra::{Opra, V1};
use fast::opra::{V2, fast_templates};
use fast::slots::{Description, Kind, Message, SlotDecoder, SlotSink};
use fast::{Code, Decoder, ErrorCounts, Sink, Templates, Value};

fn given(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

fn wanted() -> u64 {
    given("FAIRBELL_MUTATIONS").unwrap_or(100_000)
}

/// A generator of its own for each test, and another one for each seed.
fn random(test: u64) -> Random {
    Random::new(test.wrapping_add(given("FAIRBELL_MUTATION_SEED").unwrap_or(0) << 32))
}

/// When so many were asked for, says what came of them.
fn tell(what: &str, refused: u64, counts: &ErrorCounts) {
    if given("FAIRBELL_MUTATIONS").is_some() {
        let codes: Vec<String> =
            counts.iter().map(|(code, count)| format!("{} {count}", code.name())).collect();
        let line =
            format!("{what}: {} mutations, {refused} refused: {}", wanted(), codes.join(", "));
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

/// Breaks a packet where it hurts: its framing, a length, a presence map, stop bits, anywhere.
fn mutate(packet: &mut Vec<u8>, header: usize, random: &mut Random) {
    let lengths = lengths(packet, header);
    for _ in 0..1 + random.below(3) {
        let at = random.below(packet.len() as u64) as usize;
        let length = lengths[random.below(lengths.len() as u64) as usize].min(packet.len() - 1);
        match random.below(11) {
            0 => packet[length] = random.next_bits() as u8,
            1 => packet[length] = packet[length].wrapping_add(1),
            2 => packet[length] = 255,
            3 => packet[(length + 1).min(at)] ^= 1 << random.below(8),
            4 => packet[at] ^= 0x80,
            5 => packet[at] = random.next_bits() as u8,
            6 => packet.truncate(at.max(1)),
            7 => packet.insert(at, random.next_bits() as u8),
            8 => packet[at.min(random.below(15) as usize)] ^= 1,
            9 => {
                let end = (at + random.below(40) as usize).min(packet.len());
                packet[at..end].fill(0);
            }
            _ => {
                let piece = packet[at..].to_vec();
                packet.extend(piece.iter().take(3_000 - packet.len().min(2_999)));
            }
        }
    }
}

/// Where the lengths of the messages stand.
fn lengths(packet: &[u8], header: usize) -> Vec<usize> {
    let (mut all, mut at) = (Vec::new(), header);
    while at + 1 < packet.len() {
        all.push(at);
        at += 1 + usize::from(packet[at]);
    }
    all
}

struct Bounded {
    messages: usize,
    values: usize,
}

impl SlotSink for Bounded {
    fn message(&mut self, message: &Message<'_>) {
        self.messages += 1;
        self.values += message.repeated.len();
    }
}

/// Breaks packets of a version; every eighth time a whole one follows and must decode to what a
/// fresh decoder makes of it.
fn broken_packets<F: Opra>(name: &str, codes: &[Code]) {
    let header = F::FORMAT.framing.header();
    let stream = make::<F>(Shape { seed: 11, bytes: 1 << 18, repeated_max: 5, ..Shape::default() });
    let packets: Vec<&[u8]> = stream.packets().collect();
    let sums: Vec<u64> =
        packets.iter().map(|packet| sum::<F>(&mut SlotDecoder::default(), packet)).collect();
    let mut random = random(12);
    let mut decoder = SlotDecoder::<F>::default();
    let mut refused = 0;
    let mut broken = Vec::new();
    for round in 0..wanted() {
        let which = random.below(packets.len() as u64) as usize;
        broken.clear();
        broken.extend_from_slice(packets[which]);
        mutate(&mut broken, header, &mut random);
        let mut bounded = Bounded { messages: 0, values: 0 };
        refused += u64::from(decoder.packet(&broken, &mut bounded).is_err());
        assert!(bounded.messages <= broken.len() && bounded.values <= 300 * broken.len());
        if round % 8 == 0 {
            assert_eq!(sum(&mut decoder, packets[which]), sums[which], "round {round}");
        }
    }
    let counts = decoder.counts();
    assert_eq!(counts.total(), refused);
    assert!(refused > wanted() / 2, "{refused}");
    for &code in codes {
        assert!(counts.of(code) > 0, "{code}: {counts:?}");
    }
    tell(name, refused, counts);
}

#[test]
fn broken_packets_are_reported_and_forgotten() {
    use Code::{D2, D5, D11, Framing, R8, Truncated};
    let codes = [Framing, Truncated, D5, R8, D11, D2];
    broken_packets::<V2>("FAST for OPRA v2", &codes);
}

#[test]
fn broken_packets_of_version_1_are_reported_and_forgotten() {
    use Code::{D2, D5, Framing, R8, Truncated};
    broken_packets::<V1>("FAST for OPRA v1", &[Framing, Truncated, D5, R8, D2]);
}

fn sum<F: Opra>(decoder: &mut SlotDecoder<F>, packet: &[u8]) -> u64 {
    let slots = F::FORMAT.slots.iter().enumerate();
    let longs: Vec<usize> =
        slots.filter(|(_, slot)| slot.kind == Kind::Long).map(|(at, _)| at).collect();
    let mut sum = Checksum::new(&longs);
    decoder.packet(packet, &mut sum).unwrap();
    sum.sum
}

#[derive(Default)]
struct Events(u64);

impl Sink for Events {
    fn field(&mut self, _field: u32, value: Value<'_>) {
        self.0 += 1 + value.bytes().map_or(0, |bytes| bytes.len() as u64);
    }
    fn element(&mut self) {
        self.0 += 1;
    }
}

/// All kinds of fields, nested and referred to.
const RICH: &str = "<templates xmlns='http://www.fixprotocol.org/ns/fast/td/1.1'>
  <template name='a' id='1'>
    <uInt32 name='n'><copy/></uInt32><int64 name='i' presence='optional'><delta/></int64>
    <string name='s'><tail value='abc'/></string><string name='d' presence='optional'><delta/></string>
    <string name='u' charset='unicode'><delta/></string><byteVector name='b'><tail/></byteVector>
    <decimal name='p' presence='optional'><exponent><copy/></exponent><mantissa><delta/></mantissa></decimal>
    <decimal name='q'><delta/></decimal><uInt64 name='c'><increment value='1'/></uInt64>
    <sequence name='rows'><length><copy/></length><uInt32 name='x'><copy value='1'/></uInt32>
      <sequence name='empty'><uInt32 name='k'><constant value='1'/></uInt32></sequence></sequence>
    <group name='g' presence='optional'><int32 name='y'><default value='3'/></int32></group>
    <templateRef name='b'/><templateRef/>
  </template>
  <template name='b' id='2'><string name='t' presence='optional'><copy/></string></template>
</templates>";

#[test]
fn broken_messages_of_the_standard_do_no_harm() {
    let templates = Arc::new(Templates::from_xml(RICH).unwrap());
    let mut random = random(13);
    let mut refused = 0;
    let mut decoder = Decoder::new(Arc::clone(&templates));
    let mut bytes = Vec::new();
    let mut events = Events::default();
    for round in 0..wanted() {
        if round % 64 == 0 {
            decoder.reset();
        }
        bytes.clear();
        bytes.extend_from_slice(&[0xC0 | random.next_bits() as u8, 0x81 + random.below(3) as u8]);
        for _ in 0..random.below(60) {
            // Small entities, so that a good part of the template is reached.
            bytes.push(match random.below(12) {
                0 => random.next_bits() as u8,
                1 => random.next_bits() as u8 | 0x80,
                _ => 0x80 | random.below(3) as u8,
            });
        }
        events.0 = 0;
        refused += u64::from(decoder.message(&bytes, &mut events).is_err());
        let _ = decoder.block(&bytes, &mut events);
        assert!(events.0 < 3_000_000, "round {round}: {} events", events.0);
    }
    for code in [Code::D5, Code::D7, Code::D9, Code::R6, Code::Truncated] {
        assert!(decoder.counts().of(code) > 0, "{code}: {:?}", decoder.counts());
    }
    tell("FAST 1.1, messages and blocks", refused, decoder.counts());
}

#[test]
fn endless_sequences_and_strings_are_cut_off() {
    let text = "<templates xmlns='http://www.fixprotocol.org/ns/fast/td/1.1'>
      <template name='a' id='1'><sequence name='s'><uInt32 name='k'><constant value='1'/></uInt32>
      </sequence></template>
      <template name='b' id='2'><byteVector name='v'><delta/></byteVector></template>
      <template name='c' id='3'><templateRef/></template></templates>";
    let mut decoder = Decoder::new(Arc::new(Templates::from_xml(text).unwrap()));
    let mut events = Events::default();
    let code = |outcome: Result<usize, fast::FastError>| outcome.unwrap_err().code;
    let endless = [0xC0, 0x81, 0x0F, 0x7F, 0x7F, 0x7F, 0xFF];
    assert_eq!(code(decoder.message(&endless, &mut events)), Code::Limit);
    assert!(events.0 < 10);
    let mut growing = vec![0xC0, 0x82, 0x80, 0x07, 0xE8];
    growing.extend([7; 1_000]);
    let outcome = (0..100).map(|_| decoder.message(&growing, &mut events)).find(Result::is_err);
    assert_eq!(code(outcome.unwrap()), Code::Limit);
    let nested = [0xC0, 0x83].repeat(1_000);
    assert_eq!(code(decoder.message(&nested, &mut events)), Code::Limit);
}

#[test]
fn templates_of_opra_survive_its_broken_messages() {
    let templates = Arc::new(Templates::from_xml(&fast_templates(&V2::FORMAT)).unwrap());
    let stream = make::<V2>(Shape { seed: 14, bytes: 1 << 16, ..Shape::default() });
    let mut decoder = Decoder::new(templates).strict();
    let mut random = random(15);
    let mut events = Events::default();
    for packet in stream.packets() {
        for _ in 0..20 {
            decoder.reset();
            let mut broken = packet.to_vec();
            mutate(&mut broken, 15, &mut random);
            let mut rest = broken.get(16..).unwrap_or(&[]);
            while let Ok(used) = decoder.message(rest, &mut events) {
                rest = rest.get(used + 1..).unwrap_or(&[]);
            }
        }
    }
    assert!(decoder.counts().total() > 0);
}
