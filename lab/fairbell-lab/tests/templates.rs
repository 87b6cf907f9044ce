//! Decoders written out when this was built, against those of templates read at run time: the same
//! messages, the same errors and the same counts from the same bytes, right ones and others.

use std::sync::Arc;

use fast::built::Built;
use fast::opra::V2;
use fast::opra::stream::{Random, Shape, make};
use fast::slots::Description;
use fast::{Decoder, Recorder, Templates};

#[allow(unused_variables)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/opra_v2.rs"));
    include!(concat!(env!("OUT_DIR"), "/rich.rs"));
}
use generated::{OpraV2, Rich};

/// The two decoders of some templates, side by side.
struct Pair<P: Built> {
    built: Decoder<P>,
    read: Decoder,
    /// What they have told.
    told: [Recorder; 2],
    right: u64,
}

impl<P: Built> Pair<P> {
    fn new() -> Pair<P> {
        let templates = Arc::new(Templates::from_xml(P::XML).unwrap());
        let told = [Recorder::new(Arc::clone(&templates)), Recorder::new(Arc::clone(&templates))];
        Pair { built: Decoder::built().unwrap(), read: Decoder::new(templates), told, right: 0 }
    }

    fn reset(&mut self) {
        self.built.reset();
        self.read.reset();
    }

    /// Decodes a message with both; how many bytes it had.
    fn message(&mut self, bytes: &[u8]) -> Option<usize> {
        let [built, read] = &mut self.told;
        let outcome = self.built.message(bytes, built);
        assert_eq!(outcome, self.read.message(bytes, read), "{bytes:02x?}");
        assert_eq!(built.messages, read.messages, "{bytes:02x?}");
        for recorder in [built, read] {
            recorder.messages.clear();
            recorder.abandon();
        }
        self.right += u64::from(outcome.is_ok());
        outcome.ok()
    }
}

#[test]
fn opra_is_read_alike() {
    let stream = make::<V2>(Shape { seed: 21, bytes: 200_000, ..Shape::default() });
    let mut pair = Pair::<OpraV2>::new();
    let mut random = Random::new(22);
    for packet in stream.packets() {
        for broken in [false, true] {
            pair.reset();
            let mut packet = packet.to_vec();
            if broken {
                let at = random.below(packet.len() as u64) as usize;
                packet[at] = random.next_bits() as u8;
            }
            let mut rest = packet.get(V2::FORMAT.framing.header() + 1..).unwrap_or(&[]);
            while let Some(used) = pair.message(rest) {
                rest = rest.get(used + 1..).unwrap_or(&[]);
            }
        }
    }
    assert!(pair.right > stream.messages, "the unbroken ones and some of the others");
    assert_eq!(pair.built.counts(), pair.read.counts());
    assert!(pair.read.counts().total() > 100);
}

#[test]
fn fields_of_all_kinds_are_read_alike() {
    let mut pair = Pair::<Rich>::new();
    let mut random = Random::new(23);
    let mut bytes = Vec::new();
    for round in 0..100_000 {
        if round % 64 == 0 {
            pair.reset();
        }
        bytes.clear();
        bytes.extend_from_slice(&[0xC0 | random.next_bits() as u8, 0x81 + random.below(5) as u8]);
        for _ in 0..random.below(60) {
            // Small entities, so that a good part of the template is reached.
            bytes.push(match random.below(12) {
                0 => random.next_bits() as u8,
                1 => random.next_bits() as u8 | 0x80,
                _ => 0x80 | random.below(3) as u8,
            });
        }
        pair.message(&bytes);
    }
    assert_eq!(pair.built.counts(), pair.read.counts());
    assert!(pair.right > 10_000, "{}", pair.right);
    for code in [fast::Code::D5, fast::Code::D7, fast::Code::D8, fast::Code::D9, fast::Code::R2] {
        assert!(pair.read.counts().of(code) > 0, "{code}");
    }
}

#[test]
fn wrong_templates_are_refused_when_the_program_is_built() {
    let template = |operator: &str| {
        format!(
            "<template xmlns='{}' name='t'><uInt32 name='n'>{operator}</uInt32></template>",
            fast::xml::NAMESPACE
        )
    };
    let refused = fast::built::generate("T", &template("<constant/>")).unwrap_err();
    assert_eq!(refused.code, fast::Code::S4);
    assert!(fast::built::generate("T", &template("<copy/>")).is_ok(), "a control");
}
