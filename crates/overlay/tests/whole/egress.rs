//! The queue on the way up against its rules, by a naive account of what waits.

use overlay::{
    egress::{EgressQueue, QueueConfig, QueuePolicy, Shed},
    order_facts::{OrderFacts, OrderKind},
};
use proptest::prelude::*;
use types::Nanos;

const CONFIG: QueueConfig = QueueConfig {
    policy: QueuePolicy::LimitOrder,
    capacity: 64,
    account_max: 64,
    age_ns: 20 * Nanos::MILLI,
    age_permille: 0,
};

fn order(account: u16, number: u32, kind: OrderKind) -> OrderFacts {
    OrderFacts { account, instrument: 1, kind, creates: Some(number), about: None }
}

fn about(account: u16, number: u32) -> OrderFacts {
    let kind = OrderKind::Plain;
    OrderFacts { account, instrument: 1, kind, creates: None, about: Some(number) }
}

fn push(queue: &mut EgressQueue, t_in: u64, facts: OrderFacts, tag: u8) {
    queue.push(Nanos(t_in), Nanos(t_in), Some(facts), (0, false), &[tag]).unwrap();
}

fn drain(queue: &mut EgressQueue, now: u64) -> Vec<u8> {
    std::iter::from_fn(|| queue.pop(Nanos(now)).map(|served| served.bytes[0])).collect()
}

#[test]
fn sides_take_turns_and_the_most_critical_goes_first() {
    let mut queue = EgressQueue::new(CONFIG);
    let all = [
        (1, OrderKind::Bid(10)),
        (2, OrderKind::Ask(30)),
        (3, OrderKind::Bid(12)),
        (4, OrderKind::Ask(-5)),
        (5, OrderKind::Bid(12)),
        (6, OrderKind::Plain),
        (7, OrderKind::Bid(i64::MAX)),
    ];
    for (tag, kind) in all {
        push(&mut queue, u64::from(tag), order(u16::from(tag), 1, kind), tag);
    }
    assert_eq!(drain(&mut queue, 9), [7, 4, 6, 3, 2, 5, 1]);
    assert!(queue.stats().deferred > 0 && queue.is_empty());
    push(&mut queue, 1, order(1, 1, OrderKind::Bid(1)), 1);
    push(&mut queue, 2, order(2, 1, OrderKind::Ask(1)), 2);
    assert_eq!(drain(&mut queue, 9), [2, 1], "from the side after the last served");
}

#[test]
fn baselines_are_fifo_and_oldest_first() {
    for (policy, expected) in [(QueuePolicy::Fifo, [1, 2, 3]), (QueuePolicy::SimplePq, [2, 3, 1])] {
        let mut queue = EgressQueue::new(QueueConfig { policy, ..CONFIG });
        for (tag, t_in) in [(1, 30), (2, 10), (3, 20)] {
            push(&mut queue, t_in, order(u16::from(tag), 1, OrderKind::Bid(5)), tag);
        }
        assert_eq!(drain(&mut queue, 99), expected);
        assert_eq!(queue.stats().deferred, 0);
    }
}

#[test]
fn a_cancel_waits_for_its_order_and_a_mass_cancel_for_all() {
    let mut queue = EgressQueue::new(CONFIG);
    push(&mut queue, 1, order(1, 1, OrderKind::Bid(1)), 1);
    push(&mut queue, 2, order(1, 2, OrderKind::Bid(9)), 2);
    push(&mut queue, 3, about(1, 1), 3);
    push(&mut queue, 4, about(1, 7), 4);
    push(&mut queue, 5, about(1, 1), 5);
    assert_eq!(drain(&mut queue, 9), [2, 4, 1, 3, 5]);
    push(&mut queue, 1, order(1, 1, OrderKind::Bid(1)), 1);
    let all =
        OrderFacts { kind: OrderKind::Barrier, creates: None, ..order(1, 0, OrderKind::Plain) };
    push(&mut queue, 2, all, 2);
    push(&mut queue, 3, order(1, 2, OrderKind::Bid(9)), 3);
    push(&mut queue, 4, all, 4);
    push(&mut queue, 5, order(2, 1, OrderKind::Bid(0)), 5);
    push(&mut queue, 6, order(1, 3, OrderKind::Bid(10)), 6);
    let left = drain(&mut queue, 9);
    let of_one: Vec<u8> = left.iter().copied().filter(|tag| *tag != 5).collect();
    assert_eq!(of_one, [1, 2, 3, 4, 6]);
    assert_eq!(left.len(), 6);
}

#[test]
fn a_full_queue_and_a_greedy_account_are_refused() {
    let mut queue = EgressQueue::new(QueueConfig { capacity: 4, account_max: 2, ..CONFIG });
    let offer = |queue: &mut EgressQueue, account, number| {
        let facts = Some(order(account, number, OrderKind::Bid(1)));
        queue.push(Nanos(1), Nanos(1), facts, (0, false), &[0])
    };
    assert_eq!((offer(&mut queue, 1, 1), offer(&mut queue, 1, 2)), (Ok(()), Ok(())));
    assert_eq!(offer(&mut queue, 1, 3), Err(Shed::Account));
    assert_eq!((offer(&mut queue, 2, 1), offer(&mut queue, 3, 1)), (Ok(()), Ok(())));
    assert_eq!(offer(&mut queue, 4, 1), Err(Shed::Full));
    assert_eq!(drain(&mut queue, 2).len(), 4);
    assert_eq!(offer(&mut queue, 1, 3), Ok(()));
    assert_eq!((queue.stats().shed_full, queue.stats().shed_account), (1, 1));
}

/// One hopeless order among a stream of better ones: how long it waits, at one service per step.
fn wait_of_the_hopeless(age_permille: u32) -> Option<u64> {
    let mut queue = EgressQueue::new(QueueConfig { age_permille, ..CONFIG });
    push(&mut queue, 0, order(1, 1, OrderKind::Bid(1)), 1);
    for step in 1..50_000u64 {
        let now = Nanos(step * 10_000);
        for _ in 0..2 {
            let facts = order(2, step as u32, OrderKind::Bid(100));
            let _ = queue.push(now, now, Some(facts), (0, false), &[2]);
        }
        if queue.pop(now).is_some_and(|served| served.bytes == [1]) {
            return Some(now.0);
        }
    }
    None
}

#[test]
fn the_age_lane_bounds_the_wait() {
    assert_eq!(wait_of_the_hopeless(0), None, "the paper's queue starves it");
    let wait = wait_of_the_hopeless(100).expect("it is served");
    assert!(wait <= 21 * Nanos::MILLI, "{wait}");
}

#[test]
fn the_age_lane_takes_no_more_than_its_share() {
    let mut queue = EgressQueue::new(QueueConfig { age_permille: 100, ..CONFIG });
    for number in 0..60 {
        push(&mut queue, 0, order(1, number, OrderKind::Bid(1)), 1);
    }
    for step in 0..400u64 {
        let now = Nanos(30 * Nanos::MILLI + step);
        let facts = order(2, step as u32, OrderKind::Bid(100));
        queue.push(now, now, Some(facts), (0, false), &[2]).unwrap();
        queue.pop(now);
    }
    assert_eq!((queue.stats().aged, queue.stats().served), (40, 400));
}

#[derive(Clone, Debug)]
enum Step {
    Order { account: u16, side: bool, price: i64 },
    Cancel { account: u16, back: usize },
    Replace { account: u16, back: usize },
    All { account: u16 },
    Pop,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let account = 1u16..4;
    let step = prop_oneof![
        4 => (account.clone(), any::<bool>(), 0i64..5)
            .prop_map(|(account, side, price)| Step::Order { account, side, price }),
        2 => (account.clone(), 0usize..4).prop_map(|(account, back)| Step::Cancel { account, back }),
        1 => (account.clone(), 0usize..4).prop_map(|(account, back)| Step::Replace { account, back }),
        1 => account.prop_map(|account| Step::All { account }),
        4 => Just(Step::Pop),
    ];
    prop::collection::vec(step, 1..300)
}

proptest! {
    #[test]
    fn nothing_is_lost_and_causality_holds(
        steps in steps(),
        age_permille in prop_oneof![Just(0u32), Just(100), Just(700)],
        policy in prop_oneof![
            Just(QueuePolicy::LimitOrder), Just(QueuePolicy::SimplePq), Just(QueuePolicy::Fifo)],
    ) {
        let config = QueueConfig { capacity: 32, age_permille, policy, age_ns: 40, ..CONFIG };
        let mut queue = EgressQueue::new(config);
        // What waits: (arrival, facts).
        let mut waiting: Vec<(u32, OrderFacts)> = Vec::new();
        let mut numbers = vec![Vec::new(); 4];
        let (mut arrival, mut taken, mut served_total) = (0u32, 0, 0);
        let mut ends = steps.clone();
        ends.extend(std::iter::repeat_n(Step::Pop, 40));
        for step in ends {
            arrival += 1;
            let now = Nanos(u64::from(arrival));
            let nth = |numbers: &Vec<Vec<u32>>, account: u16, back: usize| {
                let own = &numbers[usize::from(account)];
                own.len().checked_sub(back + 1).map_or(0, |at| own[at])
            };
            let facts = match step {
                Step::Order { account, side, price } => {
                    let kind = if side { OrderKind::Bid(price) } else { OrderKind::Ask(price) };
                    numbers[usize::from(account)].push(arrival);
                    order(account, arrival, kind)
                }
                Step::Cancel { account, back } => about(account, nth(&numbers, account, back)),
                Step::Replace { account, back } => {
                    let old = nth(&numbers, account, back);
                    numbers[usize::from(account)].push(arrival);
                    OrderFacts { creates: Some(arrival), ..about(account, old) }
                }
                Step::All { account } => OrderFacts {
                    creates: None,
                    ..order(account, 0, OrderKind::Barrier)
                },
                Step::Pop => {
                    let Some(served) = queue.pop(now) else {
                        prop_assert!(waiting.is_empty(), "{} wait for nothing", waiting.len());
                        continue;
                    };
                    let tag = u32::from_le_bytes(served.bytes.try_into().unwrap());
                    let at = waiting.iter().position(|(number, _)| *number == tag);
                    let (number, facts) = waiting.remove(at.expect("waited"));
                    served_total += 1;
                    for (_, other) in waiting.iter().filter(|(other, facts_other)| {
                        *other < number && facts_other.account == facts.account
                    }) {
                        prop_assert!(policy != QueuePolicy::Fifo);
                        prop_assert!(facts.kind != OrderKind::Barrier, "overtook {:?}", other);
                        prop_assert!(other.kind != OrderKind::Barrier, "overtook a mass cancel");
                        prop_assert!(facts.about.is_none() || facts.about != other.creates);
                        prop_assert!(
                            facts.kind != other.kind || facts.kind == OrderKind::Plain,
                            "overtook its own order at one price"
                        );
                    }
                    continue;
                }
            };
            if queue.push(now, now, Some(facts), (0, false), &arrival.to_le_bytes()).is_ok() {
                waiting.push((arrival, facts));
                taken += 1;
            } else {
                prop_assert_eq!(waiting.len(), 32);
            }
            prop_assert_eq!(queue.len(), waiting.len());
        }
        prop_assert_eq!((taken, queue.len()), (served_total, 0));
    }
}
