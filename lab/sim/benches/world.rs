//! Events per second of the world alone: nodes that only pass datagrams on.
//! Run with `cargo bench -p sim`.

use std::time::Instant;

use sim::{LinkModel, NoTap, Place, World};
use types::{Channel, ClockReading, Nanos, Node, NodeId, Outbox, Peer};

const NODES: u16 = 1_000;
const START: Nanos = Nanos(Nanos::SECOND);

/// Passes every datagram to the next node; a timer starts one more now and then.
struct Relay {
    next: Peer,
    at: Nanos,
}

impl Node for Relay {
    fn handle_datagram(
        &mut self,
        _now: ClockReading,
        channel: Channel,
        _from: Peer,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        let span = out.store(bytes);
        out.datagram(channel, self.next, span);
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        let span = out.store(&[7; 128]);
        out.datagram(Channel::OVERLAY, self.next, span);
        self.at = now.now.after(Nanos::MILLI);
    }

    fn next_timeout(&self) -> Nanos {
        self.at
    }
}

fn main() {
    let model = LinkModel {
        base_ns: 10_100,
        jitter_ns: 15_600,
        jitter_sigma: 0.447,
        loss_permille: 10,
        ..LinkModel::default()
    };
    let mut rates = Vec::new();
    for run in 0..6 {
        let mut world = World::new(run, START, model);
        for id in 0..NODES {
            let next = Peer::Node(NodeId((id + 1) % NODES));
            let place = Place { overlay: Some(NodeId(id)), ..Place::default() };
            world.add(Relay { next, at: START }, place);
        }
        let begin = Instant::now();
        world.run_until(START.after(60 * Nanos::MILLI), &mut NoTap);
        rates.push(world.stats().events as f64 / begin.elapsed().as_secs_f64() / 1e6);
    }
    rates.remove(0);
    rates.sort_by(f64::total_cmp);
    println!(
        "world: {:.2} M events/s (median of 5; {:.2} to {:.2}), {NODES} nodes",
        rates[2], rates[0], rates[4]
    );
}
