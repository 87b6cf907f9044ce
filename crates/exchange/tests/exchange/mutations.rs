//! Mutated datagrams of the overlay, all kinds, into root and edge while they trade: no panic, no
//! wrong byte to a participant, memory flat.

use exchange::audit;
use overlay::control::{CONTROL_VERSION, ControlHeader};
use overlay::frame::HopHeader;
use types::{
    Channel, ConnId, Node, Peer, Side,
    limits::{HOLD_MAX, UPLINK_WINDOW},
};

use crate::{
    bench::Exchange,
    common::{MS, Pair, config},
    faults::{Faults, Tally, Target, mutate},
};

/// Datagrams of a seed.
const ROUNDS: u64 = 5_000;
const LOG: usize = 200;

/// An exchange in the middle of its day, and every datagram that was sent so far.
fn busy() -> (Exchange, Vec<(bool, Vec<u8>)>) {
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
    let corpus = std::mem::take(&mut exchange.world.frames);
    (exchange, corpus)
}

/// A datagram there was, with faults; now and then one of the other family.
fn datagram(corpus: &[(bool, Vec<u8>)], faults: &mut Faults) -> (bool, Vec<u8>) {
    let (root, mut bytes) = corpus[faults.below(corpus.len())].clone();
    let header = bytes.len().min(16);
    if faults.chance(12) {
        bytes[0] = CONTROL_VERSION;
        bytes[1] = faults.below(8) as u8;
        bytes[2..header].fill(0);
    }
    for _ in 0..faults.below(4) {
        faults.spoil(&mut bytes[header..]);
    }
    if faults.chance(10) {
        faults.spoil(&mut bytes[..header]);
    }
    if faults.chance(12) {
        faults.spoil_length(&mut bytes);
    }
    (root != faults.chance(10), bytes)
}

#[test]
fn overlay_datagrams_do_no_harm() {
    mutate(&Target { name: "overlay datagrams", slice: 20_000, grown_max: 16 << 10 }, |seed| {
        let (mut faults, mut tally) = (Faults::new(seed), Tally::default());
        let (mut exchange, corpus) = busy();
        for round in 0..ROUNDS {
            let (root, bytes) = datagram(&corpus, &mut faults);
            tally.sent += 1;
            let framed = HopHeader::read(&bytes).is_ok() || ControlHeader::read(&bytes).is_some();
            tally.framed += u64::from(framed);
            let Pair { root: to_root, edge, root_out, edge_out, now, .. } = &mut exchange.pair;
            let from = Peer::Addr(9);
            match root {
                true => to_root.handle_datagram(*now, Channel::OVERLAY, from, &bytes, root_out),
                false => edge.handle_datagram(*now, Channel::OVERLAY, from, &bytes, edge_out),
            }
            exchange.settle();
            if round % 50 == 0 {
                exchange.run(faults.pick(&[1, 20, 120]) * MS);
            }
            exchange.world.frames.clear();
            tally.peak = tally.peak.max(counting::live_bytes());
        }
        let Pair { root, edge, .. } = &exchange.pair;
        assert!(root.log().len() <= LOG, "seed {seed}");
        assert!(edge.receiver().held() <= HOLD_MAX, "seed {seed}");
        assert!(edge.gateway().uplink().in_flight() <= UPLINK_WINDOW, "seed {seed}");
        let open = [1, 2].map(ConnId).map(|conn| !exchange.world.clients[&conn].closed);
        let open = open.into_iter().filter(|open| *open).count();
        assert_eq!(edge.gateway().connections(), open, "seed {seed}");
        let audit = audit(&exchange.pair.root, []);
        assert!(audit.problems.is_empty(), "seed {seed}: {:?}", audit.problems);
        tally.judged += 1;
        tally
    });
}
