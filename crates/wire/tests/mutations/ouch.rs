//! OUCH messages of both sides, with faults, into the codec.

use types::Nanos;
use wire::SymbolTable;
use wire::ouch::{Inbound, Outbound, parse_inbound, parse_outbound, to_command};

use super::{ROUNDS, faults::*, instruments, ouch_messages::*};

#[test]
fn layouts_here_are_those_of_the_codec() {
    for (layouts, lengths) in [(INBOUND, Inbound::LENGTHS), (OUTBOUND, Outbound::LENGTHS)] {
        let mut faults = Faults::new(1);
        let found: Vec<(u8, usize)> = layouts
            .iter()
            .map(|(kind, letters)| {
                let mut bytes = vec![*kind];
                letters.bytes().for_each(|letter| field(letter, &mut faults, &mut bytes));
                (*kind, bytes.len())
            })
            .collect();
        assert_eq!(found, lengths);
    }
}

#[test]
fn ouch_requests_are_read_as_they_are_or_refused() {
    let symbols = SymbolTable::new(&instruments());
    mutate(&Target { name: "OUCH requests", slice: 100_000, grown_max: 512 }, |seed| {
        let (mut faults, mut tally) = (Faults::new(seed), Tally::default());
        for _ in 0..ROUNDS {
            let bytes = message(INBOUND, &mut faults);
            tally.sent += 1;
            tally.peak = tally.peak.max(counting::live_bytes());
            let Ok(view) = parse_inbound(&bytes) else { continue };
            tally.framed += 1;
            let mut again = Vec::new();
            view.encode(&mut again);
            assert_eq!(again, bytes, "seed {seed}");
            tally.judged += 1;
            judge_command(seed, &view, &symbols);
        }
        tally
    });
}

/// What reaches the engine names an instrument it knows, or none where that is allowed.
fn judge_command(seed: u64, view: &Inbound<'_>, symbols: &SymbolTable) {
    let now = Nanos(super::MIDNIGHT.0 + 5);
    let command = match to_command(view, symbols, now) {
        Ok(command) => command,
        Err(refused) => {
            assert_ne!(refused.reason, types::RejectReason::None, "seed {seed}: {view:?}");
            return;
        }
    };
    let named = command.instrument.0 != 0 || command.kind != types::CommandKind::NewOrder;
    assert!(command.instrument.0 <= 2 && named, "seed {seed}: {command:?}");
}

#[test]
fn ouch_answers_are_read_as_they_are_or_refused() {
    mutate(&Target { name: "OUCH answers", slice: 100_000, grown_max: 512 }, |seed| {
        let (mut faults, mut tally) = (Faults::new(seed), Tally::default());
        for _ in 0..ROUNDS {
            let bytes = message(OUTBOUND, &mut faults);
            tally.sent += 1;
            tally.peak = tally.peak.max(counting::live_bytes());
            let Ok(view) = parse_outbound(&bytes) else { continue };
            tally.framed += 1;
            let mut again = Vec::new();
            view.encode(&mut again);
            assert_eq!(again, bytes, "seed {seed}");
            tally.judged += 1;
        }
        tally
    });
}
