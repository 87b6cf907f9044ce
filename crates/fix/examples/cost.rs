//! Parses the order sample or writes the report sample so often; scripts/fix-cost counts the
//! instructions of it.

use std::hint::black_box;

use fix::sample::{self, Steps};
use fix::{FieldIndex, Frame, Framer};

fn main() {
    let mut args = std::env::args().skip(1);
    let what = args.next().unwrap_or_default();
    let times: u32 = args.next().and_then(|times| times.parse().ok()).unwrap_or(1);
    let wire = sample::wire(sample::NEW_ORDER);
    let mut steps = Steps::new().expect("the dictionaries are right");
    let mut index = FieldIndex::default();
    let mut framer = Framer::new(1_024);
    for _ in 0..times {
        let steps = black_box(&mut steps);
        match what.as_str() {
            "floor" => {
                black_box(steps.floor());
            }
            "index" => {
                black_box(index.parse(black_box(&wire)).is_ok());
            }
            // From bytes to typed request.
            "parse" => {
                black_box(steps.parse());
            }
            // And held against the dictionary.
            "check" => {
                black_box(steps.parse_checked());
            }
            "frame" => {
                framer.push(black_box(&wire));
                black_box(matches!(framer.next_frame(), Some(Frame::Message(_))));
            }
            "encode" => {
                black_box(steps.encode());
            }
            _ => panic!("floor, index, parse, check, frame or encode"),
        }
    }
}
