//! Parses the order sample or writes the report sample so often; scripts/fix-cost counts the
//! instructions of it.

#[path = "../tests/sample/mod.rs"]
mod sample;

use std::hint::black_box;

use fix::FieldIndex;
use fix::app::{Symbols, report, request};
use fix::dictionary::{Checker, CustomTags, builtin};
use fix::{Frame, Framer, Version};

fn main() {
    let mut args = std::env::args().skip(1);
    let what = args.next().unwrap_or_default();
    let times: u32 = args.next().and_then(|times| times.parse().ok()).unwrap_or(1);
    let wire = sample::wire(sample::NEW_ORDER);
    let symbols = Symbols::new(&[sample::instrument()]);
    let mut index = FieldIndex::default();
    let mut checker = Checker::default();
    let rules = builtin(Version::Fix50Sp2).expect("the dictionaries are right");
    let mut outbound = sample::outbound();
    let execution = sample::execution();
    let mut out = Vec::with_capacity(1_024);
    let mut framer = Framer::new(1_024);
    let now = sample::now();
    for _ in 0..times {
        match what.as_str() {
            // From bytes to typed request.
            "parse" => {
                let message = index.parse(black_box(&wire)).expect("a message");
                let _ = black_box(request::parse(&message, &symbols));
            }
            "index" => {
                let _ = black_box(index.parse(black_box(&wire)).is_ok());
            }
            "frame" => {
                framer.push(black_box(&wire));
                black_box(matches!(framer.next_frame(), Some(Frame::Message(_))));
            }
            // And held against the dictionary.
            "check" => {
                let message = index.parse(black_box(&wire)).expect("a message");
                let _ = black_box(checker.check(&rules, CustomTags::Refused, &message));
            }
            "encode" => {
                out.clear();
                let execution = black_box(&execution);
                outbound.send(now, report::msg_type(execution), &mut out, |writer| {
                    report::write(Version::Fix50Sp2, execution, &symbols, writer);
                });
                black_box(&out);
            }
            _ => panic!("parse, index, frame, check or encode"),
        }
    }
}
