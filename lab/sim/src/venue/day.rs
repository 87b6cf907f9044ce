//! The trading day of a seed: half of them have auctions, halts and operators at work, the others
//! trade from the first moment to the last.

use exchange::{Timetable, set_phase};
use types::{AccountId, Command, CommandKind, InstrumentId, Nanos, Phase, SplitMix64};

use super::faults::below;
use super::scenario::Scenario;

/// Between two publications of an indicative price, and two uncrossings of a batch auction.
const INTERVAL_NS: u64 = 20 * Nanos::MILLI;
/// Until the opening auction, from the end of loading; play begins 200 ms after it.
const OPENING_NS: u64 = 120 * Nanos::MILLI;
/// Length of the closing call.
pub(super) const CLOSING_NS: u64 = 60 * Nanos::MILLI;

/// Whether this seed's day has auctions.
pub(super) fn has_auctions(seed: u64, scenario: &Scenario) -> bool {
    // What is planned while it runs only one root would know.
    scenario.replicas == 0
        && scenario.auctions_every > 0
        && seed.is_multiple_of(scenario.auctions_every)
}

/// The instrument that trades in batches for a while.
fn batched(seed: u64) -> InstrumentId {
    InstrumentId((seed / 2 % 3) as u16 + 1)
}

/// What the root knows at its start.
pub(super) fn timetable(seed: u64, scenario: &Scenario) -> Timetable {
    if !has_auctions(seed, scenario) {
        return Timetable::open_at_once();
    }
    let uncross = Command { instrument: batched(seed), ..Command::new(CommandKind::Uncross) };
    Timetable::open_with_a_call()
        .every(INTERVAL_NS, Command::new(CommandKind::PublishIndicative))
        .every(INTERVAL_NS, uncross)
}

/// The rest of the day, once the books are loaded: play of `flow_ns` begins soon after `now`.
pub(super) fn plan(seed: u64, now: Nanos, flow_ns: u64, participants: u8) -> Timetable {
    let mut rng = SplitMix64::new(seed ^ 0xDA1);
    let opening = now.after(1 + rng.below(OPENING_NS));
    let mut table = Timetable::empty().at(opening, set_phase(InstrumentId(0), Phase::Continuous));
    let mut when = |from: u64, to: u64| {
        let part = flow_ns / 16;
        now.after(200 * Nanos::MILLI + part * from + below(&mut rng, part * (to - from).max(1)))
    };
    let halted = InstrumentId((seed / 6 % 3) as u16 + 1);
    table = table
        .at(when(1, 4), set_phase(halted, Phase::Halt))
        .at(when(4, 6), set_phase(halted, Phase::VolatilityCall))
        .at(when(6, 8), set_phase(halted, Phase::Continuous));
    if seed.is_multiple_of(4) {
        table = table
            .at(when(8, 10), set_phase(batched(seed), Phase::Batch))
            .at(when(12, 14), set_phase(batched(seed), Phase::Continuous));
    }
    if seed.is_multiple_of(6) {
        let account = AccountId((seed / 6 % u64::from(participants.max(1))) as u16 + 1);
        let kill = |param| Command { account, param, ..Command::new(CommandKind::Kill) };
        table = table.at(when(2, 10), kill(1)).at(when(11, 12), kill(0));
    }
    if seed.is_multiple_of(10) {
        let all = Command { instrument: halted, ..Command::new(CommandKind::MassCancel) };
        table = table.at(when(2, 12), all);
    }
    table
}
