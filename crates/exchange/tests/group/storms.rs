//! Everything at once, again and again.

use crate::{
    common::MS,
    plain, sealed,
    world::{Group, MEMBERS, ROUGH},
};

/// A storm of one seed; how often somebody else began to lead, and sessions that ended.
fn storm(seed: u64) -> (usize, usize) {
    let config = if seed.is_multiple_of(3) { sealed() } else { plain() };
    let mut group = Group::new(&config, ROUGH, seed);
    group.login_all();
    for _ in 0..6 {
        group.trade(30 * MS, 3 * MS);
        let n = match group.leader() {
            Some(leader) if group.rng.below(3) > 0 => leader,
            _ => group.rng.below(MEMBERS as u64) as usize,
        };
        let down = group.machines.iter().filter(|machine| machine.role.is_none()).count();
        match group.rng.below(5) {
            0 if down == 0 => group.kill(n),
            1 => {
                let ns = (20 + group.rng.below(400)) * MS;
                group.sleep(n, ns);
            }
            2 => group.alone[n] = true,
            3 => group.root_cut = true,
            _ => {
                group.alone[n] = true;
                group.trade(40 * MS, 3 * MS);
                if down == 0 && group.rng.below(2) == 0 {
                    group.kill(n);
                }
            }
        }
        let ns = (50 + group.rng.below(500)) * MS;
        group.trade(ns, 20 * MS);
        group.root_cut = false;
        if group.rng.below(3) > 0 {
            group.alone = [false; MEMBERS];
            for n in 0..MEMBERS {
                if group.machines[n].role.is_none() {
                    group.start(n).expect("its own journal");
                }
            }
        }
    }
    group.alone = [false; MEMBERS];
    for n in 0..MEMBERS {
        if group.machines[n].role.is_none() {
            group.start(n).expect("its own journal");
        }
    }
    group.run(1_000 * MS);
    group.trade(30 * MS, 3 * MS);
    group.run(3_000 * MS);
    group.check(&format!("seed {seed}"));
    let led = group.machines.iter().map(|machine| machine.terms.len()).sum::<usize>();
    (led, group.clients.iter().filter(|client| client.closed).count())
}

#[test]
fn members_stay_equal_and_nothing_is_lost_whatever_happens() {
    let first = std::env::var("FAIRBELL_GROUP_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = match first {
        Some(seed) => seed..seed + 1,
        None => 0..std::env::var("FAIRBELL_GROUP_SEEDS").map_or(12, |n| n.parse().expect("many")),
    };
    let (mut led, mut ended) = (0, 0);
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let (terms, closed) = storm(seed);
        (led, ended) = (led + terms, ended + closed);
    }
    assert!(led as u64 > 2 * count, "{led} terms");
    assert_eq!(ended, 0, "sessions that ended");
}
