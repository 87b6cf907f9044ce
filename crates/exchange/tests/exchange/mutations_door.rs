//! Mutated OUCH requests in SoupBinTCP packets through the door of an exchange that trades on: no
//! panic, every answer is OUCH, the others are served, the books add up, memory flat.

use exchange::audit;
use types::{
    ConnId, Side,
    limits::{HOLD_MAX, UPLINK_WINDOW},
};
use wire::ouch::{parse_inbound, parse_outbound};
use wire::soupbin::ClientPacket;

use crate::{
    bench::Exchange,
    common::{MS, config},
    faults::{Faults, Tally, Target, mutate},
    ouch_messages::{INBOUND, message},
};

/// Packets of a seed.
const ROUNDS: u64 = 10_000;
/// Whose bytes are at fault.
const STRANGER: u32 = 3;

/// A packet: mostly a request in order or nearly so.
fn packet(faults: &mut Faults, tally: &mut Tally) -> Vec<u8> {
    let mut body = match faults.below(60) {
        0 => b"O".to_vec(),
        1 => b"L a login that comes too late".to_vec(),
        2 | 3 => b"R".to_vec(),
        _ => [b"U".to_vec(), message(INBOUND, faults)].concat(),
    };
    if faults.chance(100) {
        faults.spoil(&mut body[..1]);
    }
    let length = if faults.chance(200) { faults.next() as u16 } else { body.len() as u16 };
    let whole = usize::from(length) == body.len();
    let request = match ClientPacket::parse(&body) {
        Ok(ClientPacket::Unsequenced(request)) => parse_inbound(request).is_ok(),
        parsed => parsed.is_ok(),
    };
    tally.sent += 1;
    tally.framed += u64::from(whole && request);
    [length.to_be_bytes().as_slice(), &body].concat()
}

/// Whoever has an order of the stranger's must find its answers to be OUCH.
fn judge(seed: u64, exchange: &mut Exchange, tally: &mut Tally) {
    let client = exchange.client_mut(STRANGER);
    assert!(!client.refused, "seed {seed}: the right password");
    for message in client.sequenced.drain(..) {
        let read = parse_outbound(&message).is_ok();
        assert!(read, "seed {seed}: {}", message.escape_ascii());
        tally.judged += 1;
    }
    let (edge, root) = (&exchange.pair.edge, &exchange.pair.root);
    assert!(edge.receiver().held() <= HOLD_MAX, "seed {seed}");
    assert!(edge.gateway().uplink().in_flight() <= UPLINK_WINDOW, "seed {seed}");
    assert_eq!(root.counters().unencodable, 0, "seed {seed}");
}

/// An order of somebody honest is accepted; it may trade with what the stranger has in the book.
fn honest(seed: u64, number: u32, exchange: &mut Exchange) {
    let before = exchange.answers(1).len();
    exchange.order(1, number, Side::Buy, 1, 1);
    let answers = exchange.answers(1).split_off(before);
    let trades = answers.strip_prefix('A');
    assert!(trades.is_some_and(|rest| rest.chars().all(|c| c == 'E')), "seed {seed}: {answers}");
}

#[test]
fn ouch_requests_at_the_door_do_no_harm() {
    let target = Target { name: "OUCH door", slice: 20_000, grown_max: 16 << 10 };
    mutate(&target, |seed| {
        let (mut faults, mut tally) = (Faults::new(seed), Tally::default());
        let mut config = config();
        config.log_capacity = 4 * ROUNDS as usize;
        let mut exchange = Exchange::new(&config, 0);
        exchange.login(1);
        exchange.login(STRANGER);
        for round in 1..=ROUNDS {
            if exchange.client(STRANGER).closed {
                // What it leaves open is no concern of who comes after it.
                exchange.run(MS);
                exchange.login(STRANGER);
            }
            let bytes = packet(&mut faults, &mut tally);
            exchange.write(STRANGER, &bytes);
            if round % 16 == 0 {
                exchange.run(MS);
            }
            if round % 200 == 0 {
                honest(seed, round as u32, &mut exchange);
                judge(seed, &mut exchange, &mut tally);
            }
            exchange.world.frames.clear();
            exchange.world.told.clear();
            exchange.pair.journal.clear();
            tally.peak = tally.peak.max(counting::live_bytes());
        }
        assert!(!exchange.world.clients[&ConnId(1)].closed, "seed {seed}");
        let audit = audit(&exchange.pair.root, []);
        assert!(audit.problems.is_empty(), "seed {seed}: {:?}", audit.problems);
        tally
    });
}
