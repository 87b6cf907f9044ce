//! Lines with faults into what reads the admin socket's requests: no panic, memory flat, and what is
//! read is what was written, or is refused in one line.

#[path = "../../wire/tests/mutations/faults.rs"]
mod faults;

use faults::{Faults, Tally, Target, mutate};
use host::admin::action::Action;
use host::admin::protocol::{LINE_MAX, Request};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// Lines of a seed.
const ROUNDS: u64 = 500;

/// Names and numbers, some of which nobody may have.
const WORDS: [&str; 12] = [
    "FLOW01",
    "all",
    "GENB",
    "none",
    "101.25",
    "",
    "two words",
    "-1",
    "\u{0}",
    "\u{1F600}",
    "99999999999999999999",
    "\"",
];

fn action(faults: &mut Faults) -> Action {
    let (account, instrument) = (faults.pick(&WORDS).to_string(), faults.pick(&WORDS).to_string());
    let (value, number) = (faults.pick(&WORDS).to_string(), faults.next() >> faults.below(64));
    let side = Some(value.clone()).filter(|_| faults.chance(2));
    match faults.below(20) {
        0 => Action::Status,
        1 => Action::Sessions,
        2 => Action::Disconnect { account },
        3 => Action::Lock { account },
        4 => Action::Unlock { account },
        5 => Action::Kill { account },
        6 => Action::Revive { account },
        7 => Action::Halt { instrument },
        8 => Action::Resume { instrument },
        9 => Action::Phase { instrument, phase: value },
        10 => Action::Uncross { instrument },
        11 => Action::MassCancel { account, instrument, side },
        12 => Action::SetLimit { account, limit: instrument, value },
        13 | 14 => Action::SetInstrument { instrument, parameter: account, value },
        15 => Action::BustTrade { match_number: number },
        16 => Action::CorrectTrade { match_number: number, price: value, lots: number as u32 },
        17 => Action::ExpireOrders,
        18 => Action::StartOfDay,
        _ => Action::EndOfDay,
    }
}

/// A request's line with faults, mostly between its words, so that it often stays JSON.
fn line(faults: &mut Faults) -> Vec<u8> {
    let operator = Some(faults.pick(&WORDS).to_string()).filter(|_| !faults.chance(3));
    let mut line = Request { operator, action: action(faults) }.line().into_bytes();
    match faults.below(10) {
        0 => faults.spoil(&mut line),
        1 => faults.spoil_length(&mut line),
        2 => {
            let piece =
                faults.pick(&["{", "[", "null", ",\"as\":1", "\\u0000", "1e999", "[[[[[[["]);
            let at = faults.below(line.len());
            line.splice(at..at, piece.bytes());
        }
        3 if faults.chance(20) => line.resize(LINE_MAX + faults.below(3), b' '),
        4 if faults.chance(20) => line = b"[".repeat(LINE_MAX),
        _ => {}
    }
    line
}

fn judge(seed: u64, line: &[u8]) {
    match Request::parse(line) {
        Ok(request) => {
            assert!(line.len() <= LINE_MAX && request.check().is_ok(), "seed {seed}");
            let again = request.line();
            assert_eq!(Request::parse(again.as_bytes()), Ok(request), "seed {seed}");
        }
        Err(why) => assert_eq!(why.lines().count(), 1, "seed {seed}: {why}"),
    }
}

#[test]
fn admin_lines_are_read_or_refused_in_one_line() {
    let target = Target { name: "admin socket", slice: 60_000, grown_max: 4 << 10 };
    mutate(&target, |seed| {
        let (mut faults, mut tally) = (Faults::new(seed), Tally::default());
        for _ in 0..ROUNDS {
            let line = line(&mut faults);
            tally.sent += 1;
            tally.framed += u64::from(Request::parse(&line).is_ok());
            judge(seed, &line);
            tally.judged += 1;
            tally.peak = tally.peak.max(counting::live_bytes());
        }
        tally
    });
}
