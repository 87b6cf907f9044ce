//! Whatever comes in on any socket: no panic, bounded memory, and the log stays the truth.

use exchange::audit;
use proptest::prelude::*;
use types::{
    Channel, ConnId, Node, Peer, Side,
    limits::{HOLD_MAX, UPLINK_WINDOW},
};

use crate::{
    bench::Exchange,
    common::{MS, Pair, config},
};

const LOG: usize = 200;

#[derive(Clone, Debug)]
enum Step {
    /// A frame there was, with bytes changed, cut; to whichever side.
    Frame {
        which: usize,
        changes: Vec<(usize, u8)>,
        cut: usize,
        root: bool,
    },
    /// A frame there was to where it was for, as it was.
    Again(usize),
    Noise {
        bytes: Vec<u8>,
        root: bool,
        channel: u8,
    },
    Stream(u32, Vec<u8>),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let changes = prop::collection::vec((0usize..160, any::<u8>()), 0..3);
    let cut = prop_oneof![3 => Just(usize::MAX), 1 => 0usize..300];
    let noise = || prop::collection::vec(any::<u8>(), 0..200);
    prop_oneof![
        8 => (any::<usize>(), changes, cut, prop::bool::weighted(0.6)).prop_map(
            |(which, changes, cut, root)| Step::Frame { which, changes, cut, root },
        ),
        2 => any::<usize>().prop_map(Step::Again),
        2 => (noise(), any::<bool>(), 0u8..3).prop_map(|(bytes, root, channel)| {
            Step::Noise { bytes, root, channel }
        }),
        1 => (1u32..4, noise()).prop_map(|(conn, bytes)| Step::Stream(conn, bytes)),
        1 => (0u64..400).prop_map(Step::Wait),
    ]
}

fn take(exchange: &mut Exchange, corpus: &[(bool, Vec<u8>)], step: Step) {
    match step {
        Step::Frame { which, changes, cut, root } => {
            let mut bytes = corpus[which % corpus.len()].1.clone();
            for (at, value) in changes {
                let at = at % bytes.len();
                bytes[at] = value;
            }
            bytes.truncate(cut);
            deliver(exchange, root, Channel::OVERLAY, &bytes);
        }
        Step::Again(which) => {
            let (root, bytes) = &corpus[which % corpus.len()];
            deliver(exchange, *root, Channel::OVERLAY, bytes);
        }
        Step::Noise { bytes, root, channel } => deliver(exchange, root, Channel(channel), &bytes),
        Step::Stream(conn, bytes) => exchange.write(conn, &bytes),
        Step::Wait(ms) => exchange.run(ms * MS),
    }
}

fn deliver(exchange: &mut Exchange, root: bool, channel: Channel, bytes: &[u8]) {
    let Pair { root: to_root, edge, root_out, edge_out, now, .. } = &mut exchange.pair;
    let from = Peer::Addr(9);
    match root {
        true => to_root.handle_datagram(*now, channel, from, bytes, root_out),
        false => edge.handle_datagram(*now, channel, from, bytes, edge_out),
    }
    exchange.settle();
}

/// An exchange in the middle of its day, with every kind of frame seen.
fn busy() -> Exchange {
    let mut config = config();
    config.log_capacity = LOG;
    let mut exchange = Exchange::new(&config, 0);
    exchange.login(1);
    exchange.login(2);
    for n in 1..=5 {
        exchange.order(1, n, Side::Sell, 100, 2);
        exchange.order(2, n, Side::Buy, 100, 1);
    }
    exchange.run(120 * MS);
    exchange
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_panics_and_nothing_piles_up(steps in prop::collection::vec(step(), 1..120)) {
        let mut exchange = busy();
        // No listener follows: a changed tick is not for the overlay to notice.
        let corpus = std::mem::take(&mut exchange.world.frames);
        for step in steps {
            take(&mut exchange, &corpus, step);
            exchange.world.frames.clear();
            let Pair { root, edge, .. } = &exchange.pair;
            prop_assert!(root.log().len() <= LOG);
            prop_assert!(edge.receiver().held() <= HOLD_MAX);
            prop_assert!(edge.gateway().uplink().in_flight() <= UPLINK_WINDOW);
            let open = [1, 2].map(ConnId).map(|conn| !exchange.world.clients[&conn].closed);
            let open = open.into_iter().filter(|open| *open).count();
            prop_assert_eq!(edge.gateway().connections(), open);
        }
        prop_assert_eq!(exchange.pair.root.counters().unencodable, 0);
        let audit = audit(&exchange.pair.root, []);
        prop_assert!(audit.problems.is_empty(), "{:?}", audit.problems);
    }
}

#[test]
fn the_corpus_has_every_kind_of_frame() {
    let kinds: std::collections::BTreeSet<u8> =
        busy().world.frames.iter().map(|(_, bytes)| bytes[1]).collect();
    // All but a repair and its request: nothing was lost.
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), [1, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
}
