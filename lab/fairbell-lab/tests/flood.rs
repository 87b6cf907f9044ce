//! A flood by one account: honest clients and the operator are served, and the limits hold; without
//! limits it shows.

use std::path::Path;
use std::time::Duration;

use fairbell_lab::attack::flood::{FloodArgs, Flooded, flood};

const LASTING: Duration = Duration::from_secs(4);

fn flooded(unlimited: bool) -> Flooded {
    let args = FloodArgs { lasting: LASTING, connections: 8, accounts: 1, unlimited };
    flood(&args, Path::new(env!("CARGO_BIN_EXE_fairbell-lab"))).expect("an exchange")
}

#[test]
fn a_flood_by_one_account_is_held_to_its_rate_and_the_operator_gets_through() {
    let with = flooded(false);
    assert!(with.wrong().is_empty(), "{:?}", with.wrong());
    assert!(with.flooded.summary().count > 100, "honest clients trade on");
    // 5,000 a second and 1,000 at once at each of nine gateways; the test's machine may be slow.
    let seconds = with.lasted.as_secs() + 3;
    let most = 5_000 * seconds + 9 * 1_000;
    assert!(with.accepted <= most, "{} of {most}", with.accepted);
    assert!(with.refused > 0, "it asked for more");
    // Control: without limits half as much again gets in, also on a slow machine.
    let without = flooded(true);
    assert!(2 * without.accepted > 3 * with.accepted, "{} and {}", without.accepted, with.accepted);
}
