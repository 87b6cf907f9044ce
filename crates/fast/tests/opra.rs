//! FAST for OPRA: what is encoded is decoded, the standard's decoder reads the same bytes, streams
//! have the statistics wanted, and nothing is allocated.

use std::sync::Arc;

use fast::opra::checksum::{self, Checksum};
use fast::opra::stream::{Shape, Stream, make};
use fast::opra::{Event, Opra, V1, V2, by_hand, fast_templates, to_event};
use fast::slots::{Contents, Description, Kind, Message, More, SlotDecoder, SlotEncoder, SlotSink};
use fast::{Code, Decoder, Sink, Templates, Value};
use proptest::prelude::*;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

fn shape(seed: u64, repeated_max: u64) -> Shape {
    Shape { seed, bytes: 1 << 20, repeated_max, ..Shape::default() }
}

fn generated(stream: &Stream) -> Checksum {
    let mut decoder = SlotDecoder::<V2>::default();
    let mut sum = Checksum::new(&[48, 49]);
    for packet in stream.packets() {
        decoder.packet(packet, &mut sum).unwrap();
    }
    assert_eq!(decoder.counts().total(), 0);
    sum
}

#[test]
fn the_generated_decoder_that_by_hand_and_the_standard_decoder_agree() {
    let stream = make::<V2>(shape(7, 1));
    let ours = generated(&stream);
    assert_eq!(ours.messages, stream.messages);
    let mut sum = 0;
    let count: u64 = stream.packets().map(|packet| by_hand::packet(packet, &mut sum)).sum();
    assert_eq!((sum, count), (ours.sum, ours.messages));
    assert_eq!(standard(&stream), (ours.sum, ours.messages));
    // A control: one bit of one value changes the sum.
    let mut other = stream.clone();
    let at = other.ends[100] - 2;
    other.bytes[at] ^= 1;
    assert_ne!(by_hand_sum(&other), ours.sum);
}

fn by_hand_sum(stream: &Stream) -> u64 {
    let mut sum = 0;
    stream.packets().for_each(|packet| {
        by_hand::packet(packet, &mut sum);
    });
    sum
}

/// The templates of FAST 1.1, on the messages of each packet.
fn standard(stream: &Stream) -> (u64, u64) {
    let templates = Arc::new(Templates::from_xml(&fast_templates(&V2::FORMAT)).unwrap());
    let mut decoder = Decoder::new(Arc::clone(&templates)).strict();
    let mut values = Values::new(&templates);
    let (mut sum, mut count) = (0, 0);
    for packet in stream.packets() {
        decoder.reset();
        let mut at = 15;
        while at + 1 < packet.len() {
            let end = at + 1 + usize::from(packet[at]);
            assert_eq!(decoder.message(&packet[at + 1..end], &mut values), Ok(end - at - 1));
            sum = checksum::mix(sum, values.sum());
            count += 1;
            at = end;
        }
    }
    (sum, count)
}

/// Values by slot, as [`fast::opra::checksum`] takes them.
struct Values {
    slots: Vec<Option<usize>>,
    categories: Vec<u8>,
    category: u8,
    values: [u64; 64],
}

impl Values {
    fn new(templates: &Templates) -> Values {
        let slot = |id: &Option<String>| id.as_ref().and_then(|id| id.parse().ok());
        Values {
            slots: templates.fields.iter().map(|field| slot(&field.id)).collect(),
            categories: templates.templates.iter().map(|t| t.id.unwrap() as u8).collect(),
            category: 0,
            values: [0; 64],
        }
    }

    fn sum(&mut self) -> u64 {
        let category = V2::FORMAT.categories.iter().find(|c| c.code == self.category).unwrap();
        let mut slots: Vec<u8> = category.slots.to_vec();
        match &category.more {
            More::Nothing => {}
            More::Appendage(appendage) => {
                let by = self.values[usize::from(appendage.by)] as u8;
                let case = appendage.cases.iter().find(|(values, _)| values.contains(&by));
                slots.extend(case.unwrap().1);
            }
            More::Repeat(repeat) => {
                slots.push(repeat.cases[0].1);
                slots.extend(repeat.cases[0].2);
            }
        }
        self.values[0] = self.category.into();
        let set = slots.iter().fold(0_u64, |set, slot| set | 1 << 63 >> slot);
        checksum::of_values(set, &self.values)
    }
}

impl Sink for Values {
    fn begin(&mut self, template: u32) {
        self.category = self.categories[template as usize];
    }

    fn field(&mut self, field: u32, value: Value<'_>) {
        let Some(slot) = self.slots[field as usize] else { return };
        self.values[slot] = match value {
            Value::U32(value) => value.into(),
            Value::Ascii(text) if slot == 48 => checksum::hash(text.iter().copied()),
            Value::Ascii(text) => text.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)),
            other => panic!("{other:?}"),
        };
    }
}

#[test]
fn streams_have_the_published_statistics() {
    let stream = make::<V2>(Shape { bytes: 4 << 20, ..shape(3, 4) });
    let messages = stream.messages as f64;
    let packets = stream.ends.len() as f64;
    let size = stream.bytes.len() as f64 / messages;
    assert!((20.5..21.5).contains(&size), "mean size {size}");
    assert!((18.5..19.8).contains(&(messages / packets)), "{} in a packet", messages / packets);
    assert!((390.0..415.0).contains(&(size * messages / packets)));
    let quotes = stream.categories.iter().find(|(code, _)| *code == b'k').unwrap().1 as f64;
    assert!((0.985..0.995).contains(&(quotes / messages)), "{quotes} quotes");
    assert!(stream.categories.len() >= 10, "{:?}", stream.categories);
    let (mut five, mut one, mut integers) = (0, 0, 0);
    let mut typical = 0;
    for packet in stream.packets() {
        let mut at = 15;
        while at + 1 < packet.len() {
            let end = at + 1 + usize::from(packet[at]);
            let message = &packet[at + 1..end];
            typical += u64::from((10..=50).contains(&(end - at)));
            let map = message.iter().position(|byte| byte & 0x80 != 0).unwrap() + 1;
            five += u64::from(map == 5);
            // The slots sent: the set bits, in order.
            let bits =
                message[..map].iter().flat_map(|byte| (0..7).rev().map(move |at| byte >> at & 1));
            let sent = bits.zip(0..).filter(|(bit, _)| *bit == 1).map(|(_, slot)| slot);
            let fields = message[map..].split_inclusive(|byte| byte & 0x80 != 0);
            for (slot, field) in sent.zip(fields) {
                let number = V2::FORMAT.slots[slot as usize].kind == Kind::Number;
                integers += u64::from(number);
                one += u64::from(number && field.len() == 1);
            }
            at = end;
        }
    }
    assert!(five as f64 > 0.6 * messages, "five-byte maps: {five} of {messages}");
    assert!(one as f64 > 0.8 * integers as f64, "one byte: {one} of {integers} integers");
    assert!(typical as f64 > 0.9 * messages, "10 to 50 bytes: {typical} of {messages}");
}

#[test]
fn nothing_is_allocated_after_the_first_packets() {
    struct Count(u64);
    impl SlotSink for Count {
        fn message(&mut self, message: &Message<'_>) {
            if let Event::Quote(header, _) = to_event::<V2>(message) {
                self.0 = self.0.wrapping_add(header.sequence);
            }
        }
    }
    let stream = make::<V2>(shape(5, 9));
    let mut decoder = SlotDecoder::<V2>::default();
    let mut count = Count(0);
    let templates = Arc::new(Templates::from_xml(&fast_templates(&V2::FORMAT)).unwrap());
    let mut standard = Decoder::new(Arc::clone(&templates));
    let mut values = Values::new(&templates);
    for round in 0..2 {
        let before = counting::allocations();
        for packet in stream.packets() {
            decoder.packet(packet, &mut count).unwrap();
            standard.reset();
            let mut at = 15;
            while at + 1 < packet.len() {
                let end = at + 1 + usize::from(packet[at]);
                // Repeated values are more than a template of the standard says.
                let _ = standard.message(&packet[at + 1..end], &mut values);
                at = end;
            }
        }
        if round == 1 {
            assert_eq!(counting::allocations() - before, 0);
        }
    }
    assert_ne!(count.0, 0);
}

/// What a message was, for comparison.
#[derive(Clone, PartialEq, Debug)]
struct Seen {
    category: u8,
    values: Vec<(usize, u64)>,
    text: Vec<u8>,
    repeated: Vec<u64>,
}

struct Keep<F>(Vec<Seen>, std::marker::PhantomData<F>);

impl<F: Opra> SlotSink for Keep<F> {
    fn message(&mut self, message: &Message<'_>) {
        let is = |slot: &usize, kind: Kind| F::FORMAT.slots[*slot].kind == kind;
        let has: Vec<usize> =
            (0..F::FORMAT.slots.len()).filter(|&slot| message.has(slot)).collect();
        let long = has.iter().find(|slot| is(slot, Kind::Long));
        let repeated = !message.repeated_slots.is_empty();
        let again = |slot: usize| message.repeated_slots.contains(&(slot as u8));
        let values = has.iter().filter(|slot| !is(slot, Kind::Long) && !again(**slot));
        self.0.push(Seen {
            category: message.category,
            values: values.map(|&slot| (slot, message.values[slot])).collect(),
            text: long.map_or(Vec::new(), |&slot| message.long(slot).collect()),
            repeated: if repeated { message.repeated.to_vec() } else { Vec::new() },
        });
        // Whatever it is, it means something.
        let _ = to_event::<F>(message);
    }
}

/// Random messages of every category; what they should be when decoded.
fn random_packet<F: Opra>(draws: &[(u8, u64, u8)]) -> Option<(Vec<u8>, Vec<Seen>)> {
    let mut encoder = SlotEncoder::<F>::default();
    let mut expected = Vec::new();
    let mut values = [0_u64; 64];
    let names = F::NAMES;
    for &(which, seed, changes) in draws {
        let mut random = fast::opra::stream::Random::new(seed);
        let categories = F::FORMAT.categories;
        let category = &categories[usize::from(which) % categories.len()];
        for (slot, value) in F::FORMAT.slots.iter().zip(&mut values) {
            if random.below(256) < changes.into() {
                *value = match slot.kind {
                    Kind::Number => random.next_bits() >> (32 + random.below(32)),
                    _ => fast::opra::stream::symbol(random.below(1 << 30)),
                };
            }
        }
        values[names.sequence] += random.below(2);
        values[names.category] = category.code.into();
        let (mut slots, mut repeated) = (category.slots.to_vec(), Vec::new());
        match &category.more {
            More::Nothing => {}
            More::Appendage(appendage) => {
                let (codes, more) = appendage.cases[random.below(4) as usize];
                values[usize::from(appendage.by)] =
                    codes[random.below(codes.len() as u64) as usize].into();
                slots.extend(more);
            }
            More::Repeat(repeat) => {
                let (codes, count, again) = repeat.cases[random.below(3) as usize];
                values[usize::from(repeat.by)] = codes[0].into();
                let times = random.below(6);
                values[usize::from(count)] = times;
                slots.push(count);
                for _ in 0..times {
                    for &slot in again {
                        repeated.push(match F::FORMAT.slots[usize::from(slot)].kind {
                            Kind::Number => random.below(1 << 20),
                            _ => fast::opra::stream::symbol(random.below(1 << 20)),
                        });
                    }
                }
            }
        }
        let text: Vec<u8> =
            (0..1 + random.below(60)).map(|_| b'A' + random.below(26) as u8).collect();
        let contents = Contents { values: &values, text: &text, repeated: &repeated };
        match encoder.message(category.code, &contents, 5) {
            Ok(()) => {}
            Err(Code::Limit) => break,
            Err(code) => panic!("{code}"),
        }
        slots.sort_unstable();
        let kind = |slot: &u8| F::FORMAT.slots[usize::from(*slot)].kind;
        let long = slots.iter().any(|slot| kind(slot) == Kind::Long);
        let plain = slots.iter().filter(|slot| kind(slot) != Kind::Long);
        expected.push(Seen {
            category: category.code,
            values: plain.map(|&slot| (slot.into(), values[usize::from(slot)])).collect(),
            text: if long { text } else { Vec::new() },
            repeated,
        });
    }
    let mut packet = Vec::new();
    encoder.finish(&mut packet);
    (!expected.is_empty()).then_some((packet, expected))
}

fn round_trip<F: Opra>(draws: &[(u8, u64, u8)]) {
    let Some((packet, expected)) = random_packet::<F>(draws) else { return };
    let mut keep = Keep::<F>(Vec::new(), std::marker::PhantomData);
    let mut decoder = SlotDecoder::<F>::default();
    let head = decoder.packet(&packet, &mut keep).unwrap();
    assert_eq!(head.messages as usize, expected.len());
    assert_eq!(keep.0, expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn what_is_encoded_is_decoded(draws in prop::collection::vec(any::<(u8, u64, u8)>(), 1..30)) {
        round_trip::<V2>(&draws);
        round_trip::<V1>(&draws);
    }

    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut framed = b"\x01\x02".to_vec();
        framed.extend_from_slice(b"0000000001001");
        framed.extend_from_slice(&bytes);
        framed.push(3);
        let mut keep = Keep::<V2>(Vec::new(), std::marker::PhantomData);
        let mut decoder = SlotDecoder::<V2>::default();
        let _ = decoder.packet(&bytes, &mut keep);
        let _ = decoder.packet(&framed, &mut keep);
        let mut keep = Keep::<V1>(Vec::new(), std::marker::PhantomData);
        let mut decoder = SlotDecoder::<V1>::default();
        let _ = decoder.packet(&framed, &mut keep);
        let _ = fast::opra::binary::block(&bytes, |_| ());
        let _ = fast::itch::Message::parse(&bytes);
    }
}
