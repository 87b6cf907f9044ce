//! A root that spills what grows: bounded in memory, and everything can still be had.

use engine::log::{Draft, InputLog};
use exchange::{ExchangeConfig, Role, deploy};
use types::{
    AccountId, ClockReading, Command, CommandKind, GatewayId, Input, MemorySpill, Nanos, Outbox,
    Qty, Source, UserRefNum,
};

use crate::common::{LISTENERS, config};
use crate::orders::{new_order, source};

/// Inputs of a long day: orders of account 1 and their cancels.
const INPUTS: u64 = 90_000;
/// Reports that the root is to keep in memory.
const REPORTS: u64 = 1_024;

fn long_config() -> ExchangeConfig {
    ExchangeConfig { log_capacity: 2 * INPUTS as usize, ..config() }
}

fn long_day() -> Vec<Input> {
    let mut log = InputLog::new(INPUTS as usize);
    let mut grant = Command::new(CommandKind::GrantIncarnation);
    grant.user_ref = UserRefNum(7);
    let own = Source { gateway: GatewayId(1), ..Source::default() };
    let mut enter = |source, command| {
        let t_in = Nanos(1_000 + log.len() as u64);
        let draft = Draft { t_in, source, flags: 0, command };
        log.append(t_in, draft).expect("room")
    };
    enter(Source::default(), Command::new(CommandKind::StartOfDay));
    enter(own, grant);
    for n in 1..INPUTS - 1 {
        let mut command = new_order(n.div_ceil(2) as u32);
        if n % 2 == 0 {
            command.kind = CommandKind::Cancel;
            command.qty = Qty(0);
        }
        enter(source(1, 1, n), command);
    }
    log.iter().copied().collect()
}

/// A root that took up the long day: inputs and reports in memory, reports in all, and whether
/// its log replays to its state.
fn played(lays_down: bool) -> (usize, u64, u64, bool) {
    let mut role: Role = deploy(&long_config(), exchange::Life::of(1), |_| LISTENERS)
        .expect("an exchange")
        .swap_remove(0);
    let now = ClockReading { now: Nanos(2_000_000), bound_ns: 0 };
    let outcome = role.with_root(&mut Outbox::default(), |root, _| {
        if lays_down {
            let spill = || Box::new(MemorySpill::default());
            assert!(root.spill_to((spill(), 0), (spill(), REPORTS)));
        }
        root.resume(now, long_day()).expect("it follows");
        let replayed =
            engine::replay(root.engine().config().clone(), root.log().records(), |_, _, _, _| {});
        assert!(root.engine().counters().accepted > INPUTS / 2 - 3, "the orders were taken");
        let same = root.log().records().count() as u64 == INPUTS
            && replayed.state_digest() == root.engine().state_digest();
        let reports = root.private().next_position(AccountId(1)) - 1;
        (root.log().in_memory(), root.private().in_memory(), reports, same)
    });
    outcome.expect("a root")
}

#[test]
fn a_root_that_lays_down_what_grows_keeps_little_in_memory_and_has_it_all() {
    let (inputs, reports, all, same) = played(true);
    assert!(same && all > INPUTS - 10, "{all} reports");
    assert!(inputs <= InputLog::MEMORY_MIN + 8_192, "{inputs} inputs in memory");
    assert!(reports <= REPORTS + 64 * 3, "{reports} reports in memory");
    // Control: without bounds everything is in memory, and seen to be.
    let (inputs, reports, all, same) = played(false);
    assert!(same && inputs as u64 == INPUTS && reports >= all);
}
