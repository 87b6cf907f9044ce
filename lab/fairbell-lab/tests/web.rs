//! The web door of an exchange: sessions as over the other doors, attacks with their control, load. No time is judged here.

use std::sync::{Mutex, PoisonError};
use std::thread;

use fairbell_lab::web::attack::{WebAttackArgs, attacks};
use fairbell_lab::web::load::{LoadArgs, load};
use fairbell_lab::web::sessions::{SCENARIOS, agree, compare};

/// Where the memory of the process is judged, nobody else is in it.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn sessions_over_ouch_fix_and_a_websocket_have_the_same_log_and_the_same_drop_copies() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // They wait for their clocks most of the time.
    thread::scope(|scope| {
        let all = SCENARIOS.iter().map(|of| (of, scope.spawn(|| compare(of))));
        for (of, thread) in all.collect::<Vec<_>>() {
            let played = thread.join().expect("no panic");
            let played = played.unwrap_or_else(|failure| panic!("{}: {failure}", of.name));
            assert_eq!(played.len(), 3);
            assert!(agree(of, &played), "{}: {played:#?}", of.name);
        }
    });
}

fn attacked(control: bool) -> Vec<(&'static str, Vec<String>)> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let name = "all".to_string();
    let args = WebAttackArgs { name, idle: 500, orders: 60, seed: 28, control };
    println!("seed {}", args.seed);
    let all = attacks(&args).expect("an exchange");
    all.into_iter().map(|one| (one.name, one.complaints)).collect()
}

#[test]
fn attacks_on_the_web_door_are_contained() {
    let all = attacked(false);
    assert_eq!(all.len(), 7);
    assert!(all.iter().all(|(_, complaints)| complaints.is_empty()), "{all:?}");
}

#[test]
fn control_attacks_on_a_door_without_its_bounds_are_found_out() {
    let all = attacked(true);
    assert!(all.len() > 1 && all.iter().all(|(_, complaints)| !complaints.is_empty()), "{all:?}");
}

/// A hundred WebSockets with a thousand messages in a second.
#[test]
fn many_websockets_are_answered_each_message_once_and_miss_no_update() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (clients, rate, total_rate, orders, seconds) = (100, 10, None, 5, 1);
    let args = LoadArgs { clients, rate, total_rate, orders, seconds, control: false, json: false };
    let loaded = load(&args).expect("an exchange");
    assert_eq!(loaded.complaints(), Vec::<String>::new(), "{:?}", loaded.seen.refusal);
    assert_eq!((loaded.seen.sent, loaded.seen.answered), (1_000, 1_000));
    assert!(loaded.seen.updates > 0);
}
