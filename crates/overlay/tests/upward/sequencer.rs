//! The sequencer and the ingress against models that are too simple to be wrong.

use overlay::{
    frame::{FrameKind, HopHeader, OrderBody},
    ingress::{Ingress, IngressConfig, Verdict},
    release_policy::{Delivery, INPUT_DEFERRED, Marks, ReleasePolicy},
    sequencer::{Offer, OfferError, Sequencer, SequencerConfig},
};
use types::{
    ClockReading, GatewayId, INPUT_LATE, INPUT_T_IN_CAPPED, Incarnation, Nanos, NodeId, ShardId,
    Source, SplitMix64, limits::SEQ_WINDOW,
};

fn at(now: u64) -> ClockReading {
    ClockReading { now: Nanos(now), bound_ns: 0 }
}

fn source(gateway: u16, seq: u64) -> Source {
    Source { gateway: GatewayId(gateway), shard: ShardId(0), incarnation: Incarnation(1), seq }
}

#[derive(Clone, Copy, Debug)]
struct Held {
    source: Source,
    depends_on: u64,
    order_time: u64,
    /// Rank with the window off: when it became free to leave.
    freed: Option<u64>,
}

/// A list that is searched from end to end at every step.
struct Model {
    window: u64,
    held: Vec<Held>,
    left: Vec<Source>,
    newest: u64,
    freed: u64,
}

impl Model {
    fn free_up(&mut self) {
        for held in &mut self.held {
            let gateway = held.source.gateway;
            let may = held.depends_on == 0
                || self.left.iter().any(|l| l.gateway == gateway && l.seq == held.depends_on);
            if held.freed.is_none() && may {
                held.freed = Some(self.freed);
                self.freed += 1;
            }
        }
    }

    fn pop(&mut self, now: u64) -> Option<(Source, bool)> {
        self.free_up();
        let rank = |held: &Held| {
            let freed = held.freed?;
            let time = if self.window == 0 { freed } else { held.order_time };
            Some((time, held.source.gateway, held.source.seq))
        };
        let first = (0..self.held.len())
            .filter(|i| rank(&self.held[*i]).is_some())
            .min_by_key(|i| rank(&self.held[*i]))?;
        if self.window > 0 && self.held[first].order_time + self.window > now {
            return None;
        }
        let held = self.held.remove(first);
        let late = held.order_time < self.newest;
        self.newest = self.newest.max(held.order_time);
        self.left.push(held.source);
        Some((held.source, late))
    }
}

fn against_the_model(seed: u64, window_ns: u64) {
    let mut rng = SplitMix64::new(seed);
    let cap = 50_000;
    let config =
        SequencerConfig { window_ns, t_in_cap_ns: cap, capacity: 4_096, ..Default::default() };
    let mut sequencer = Sequencer::new(&config);
    let mut model = Model { window: window_ns, held: vec![], left: vec![], newest: 0, freed: 0 };
    let (mut now, mut next_seq) = (1_000_000u64, [1u64; 4]);
    let mut last_of = [[0u64; 3]; 4];
    let mut outstanding: Vec<(Source, u64, u64)> = Vec::new();
    let mut offered = 0;
    for step in 0..1_200 {
        now += rng.below(3_000);
        if step < 900 && !rng.permille(300) {
            let (gateway, session) = (rng.below(4) as usize, rng.below(3) as usize);
            let seq = next_seq[gateway];
            next_seq[gateway] += 1;
            let depends_on = std::mem::replace(&mut last_of[gateway][session], seq);
            // Some gateways' clocks step back, some are far off.
            let wild = rng.permille(30);
            let t_in = now + rng.below(8_000) - 6_000 + u64::from(wild) * rng.below(200_000);
            outstanding.push((source(gateway as u16 + 1, seq), depends_on, t_in));
        }
        // Arrivals in any order.
        while !outstanding.is_empty() && (rng.permille(500) || step >= 900) {
            let pick = rng.below(outstanding.len() as u64) as usize;
            let (source, depends_on, t_in) = outstanding.swap_remove(pick);
            let left =
                model.left.iter().any(|l| l.gateway == source.gateway && l.seq == depends_on);
            let waits_for = (depends_on != 0 && !left).then_some(depends_on);
            let payload = source.seq.to_le_bytes();
            let parked = sequencer.offer(
                at(now),
                &Offer {
                    source,
                    t_in: Nanos(t_in),
                    waits_for,
                    payload: &payload,
                    marks: Marks::default(),
                },
            );
            assert_eq!(parked, Ok(waits_for.is_some()), "seed {seed}");
            let order_time = t_in.clamp(now - cap, now + cap);
            model.held.push(Held { source, depends_on, order_time, freed: None });
            model.free_up();
            offered += 1;
        }
        let end = step == 1_199;
        now += u64::from(end) * 10_000_000;
        loop {
            let (got, want) = (sequencer.pop_due(at(now)), model.pop(now));
            let got = got.map(|s| (s.source, s.flags & INPUT_LATE != 0, s.payload));
            let name = format!("seed {seed} step {step}");
            assert_eq!(got.map(|(source, late, _)| (source, late)), want, "{name}");
            let Some((source, _, payload)) = got else { break };
            assert_eq!(payload.as_slice(), source.seq.to_le_bytes(), "{name}");
        }
        assert_eq!(sequencer.held(), model.held.len(), "seed {seed}");
    }
    assert_eq!((sequencer.held(), model.left.len()), (0, offered), "seed {seed}: nothing lost");
    assert!(offered > 300, "seed {seed}");
    for (i, source) in model.left.iter().enumerate() {
        assert!(!model.left[..i].contains(source), "seed {seed}: {source:?} twice");
    }
}

#[test]
fn sequencer_agrees_with_the_naive_model() {
    for seed in 0..60 {
        against_the_model(seed, [0, 1, 5_000, 20_000][seed as usize % 4]);
    }
}

#[test]
fn reordering_inside_the_window_is_undone() {
    for seed in 0..20 {
        let mut rng = SplitMix64::new(seed);
        let window_ns = 10_000;
        let config = SequencerConfig { window_ns, capacity: 1_024, ..SequencerConfig::default() };
        let mut sequencer = Sequencer::new(&config);
        let base = 1_000_000;
        let mut arrivals: Vec<(u64, u64)> =
            (1..=500).map(|n| (base + 100 * n + rng.below(window_ns), n)).collect();
        arrivals.sort_unstable();
        let mut out = Vec::new();
        for (now, n) in arrivals {
            while let Some(order) = sequencer.pop_due(at(now)) {
                out.push(order.source.seq);
            }
            let t_in = Nanos(base + 100 * n);
            let offer = Offer {
                source: source(1, n),
                t_in,
                waits_for: None,
                payload: &[],
                marks: Marks::default(),
            };
            assert_eq!(sequencer.offer(at(now), &offer), Ok(false));
        }
        while let Some(order) = sequencer.pop_due(at(sequencer.next_timeout().0)) {
            out.push(order.source.seq);
        }
        assert_eq!(out, (1..=500).collect::<Vec<_>>(), "seed {seed}");
        assert_eq!(sequencer.counters().late, 0, "seed {seed}");
    }
}

#[test]
fn lying_clocks_are_capped_and_flagged() {
    let config =
        SequencerConfig { window_ns: 10, t_in_cap_ns: 1_000, capacity: 8, ..Default::default() };
    let mut sequencer = Sequencer::new(&config);
    let now = 1_000_000;
    for (seq, t_in) in [(1, u64::MAX), (2, 0), (3, now)] {
        let offer = Offer {
            source: source(1, seq),
            t_in: Nanos(t_in),
            waits_for: None,
            payload: &[],
            marks: Marks::default(),
        };
        assert_eq!(sequencer.offer(at(now), &offer), Ok(false));
    }
    let mut pop = |now| sequencer.pop_due(at(now)).map(|s| (s.source.seq, s.t_in.0, s.flags));
    assert_eq!(pop(now), Some((2, 0, INPUT_T_IN_CAPPED)));
    assert_eq!(pop(now), None);
    assert_eq!(pop(now + 10), Some((3, now, 0)));
    assert_eq!(pop(now + 1_009), None);
    assert_eq!(pop(now + 1_010), Some((1, u64::MAX, INPUT_T_IN_CAPPED)));
    assert_eq!(sequencer.counters().capped, 2);
}

#[test]
fn parked_orders_leave_room_for_the_one_they_wait_for() {
    let config =
        SequencerConfig { window_ns: 0, t_in_cap_ns: 1, capacity: 8, ..Default::default() };
    let mut sequencer = Sequencer::new(&config);
    let mut offer = |seq: u64| {
        let waits_for = (seq > 1).then(|| seq - 1);
        let offer = Offer {
            source: source(1, seq),
            t_in: Nanos(5),
            waits_for,
            payload: &[],
            marks: Marks::default(),
        };
        sequencer.offer(at(5), &offer)
    };
    for seq in 2..=5 {
        assert_eq!(offer(seq), Ok(true));
    }
    assert_eq!(offer(6), Err(OfferError::Full));
    assert_eq!(offer(1), Ok(false));
    let left: Vec<_> = std::iter::from_fn(|| sequencer.pop_due(at(5))).collect();
    assert_eq!(left.iter().map(|s| s.source.seq).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert_eq!(sequencer.counters().full, 1);
}

fn ingress(capacity: usize) -> Ingress {
    let sequencer =
        SequencerConfig { window_ns: 0, t_in_cap_ns: 1_000, capacity, ..Default::default() };
    Ingress::new(&IngressConfig { shard: ShardId(0), gateways: 2, sequencer })
}

fn order(gateway: u16, incarnation: u32, seq: u64, depends_on: u64) -> OrderBody {
    let source = Source { incarnation: Incarnation(incarnation), ..source(gateway, seq) };
    OrderBody { source, depends_on, t_in: Nanos(1_000) }
}

#[test]
fn each_refusal_has_its_verdict() {
    let mut ingress = ingress(4);
    let header = HopHeader::new(FrameKind::Order, NodeId(1), 1);
    let judge = |ingress: &mut Ingress, order: OrderBody, payload: &[u8]| {
        ingress.handle_order(at(1_000), &header, &order, payload)
    };
    assert_eq!(judge(&mut ingress, order(1, 1, 1, 0), &[]), Verdict::UnknownGateway);
    ingress.set_incarnation(GatewayId(0), Incarnation(1));
    ingress.set_incarnation(GatewayId(1), Incarnation(1));
    for gateway in [0, 2, 3, u16::MAX] {
        let verdict = judge(&mut ingress, order(gateway, 1, 1, 0), &[]);
        assert_eq!(verdict, Verdict::UnknownGateway);
    }
    let cases = [
        (order(1, 2, 1, 0), Verdict::StaleIncarnation),
        (order(1, 1, 0, 0), Verdict::TooFar),
        (order(1, 1, SEQ_WINDOW as u64 + 1, 0), Verdict::TooFar),
        (order(1, 1, u64::MAX, 0), Verdict::TooFar),
        (order(1, 1, 5, 5), Verdict::Invalid),
        (order(1, 1, 5, u64::MAX), Verdict::Invalid),
        (order(1, 1, 2, 1), Verdict::Parked),
        (order(1, 1, 2, 1), Verdict::Duplicate),
        (order(1, 1, 3, 2), Verdict::Parked),
        (order(1, 1, 4, 3), Verdict::Full),
        (order(1, 1, 1, 0), Verdict::Taken),
        (order(1, 1, 1, 0), Verdict::Duplicate),
    ];
    for (order, verdict) in cases {
        assert_eq!(judge(&mut ingress, order, &[]), verdict, "{order:?}");
    }
    assert_eq!(judge(&mut ingress, order(1, 1, 5, 0), &[0; 129]), Verdict::Invalid);
    let left = std::iter::from_fn(|| ingress.pop_due(at(1_000)).map(|s| s.source.seq));
    assert_eq!(left.collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(judge(&mut ingress, order(1, 1, 4, 3), &[]), Verdict::Taken, "was not remembered");
}

#[test]
fn a_new_life_forgets_the_old_one_and_only_it() {
    let mut ingress = ingress(64);
    let header = HopHeader::new(FrameKind::Order, NodeId(1), 1);
    for gateway in [1, 2] {
        ingress.set_incarnation(GatewayId(gateway), Incarnation(1));
        for (seq, depends_on) in [(1, 0), (3, 2), (5, 4), (4, 0)] {
            ingress.handle_order(at(1_000), &header, &order(gateway, 1, seq, depends_on), &[]);
        }
    }
    ingress.set_incarnation(GatewayId(1), Incarnation(1));
    assert_eq!(ingress.sequencer().held(), 8, "the same life again changes nothing");
    ingress.set_incarnation(GatewayId(1), Incarnation(2));
    assert_eq!(ingress.sequencer().held(), 4);
    assert_eq!(ingress.sequencer().counters().forgotten, 4);
    let stale = ingress.handle_order(at(1_000), &header, &order(1, 1, 2, 0), &[]);
    assert_eq!(stale, Verdict::StaleIncarnation);
    ingress.handle_order(at(1_000), &header, &order(1, 2, 1, 0), &[]);
    ingress.handle_order(at(1_000), &header, &order(2, 1, 2, 0), &[]);
    let mut left = Vec::new();
    while let Some(order) = ingress.pop_due(at(1_000)) {
        left.push((order.source.gateway.0, order.source.incarnation.0, order.source.seq));
    }
    assert_eq!(left, [(2, 1, 1), (2, 1, 4), (1, 2, 1), (2, 1, 2), (2, 1, 5), (2, 1, 3)]);
    assert_eq!((ingress.sequencer().held(), ingress.sequencer().parked()), (0, 0));
}

/// Orders of two gateways in some order, some before those that they wait for, and what becomes of each; the last
/// ones stay held.
fn played(ingress: &mut Ingress, seed: u64) -> Vec<String> {
    let (mut rng, mut said) = (SplitMix64::new(seed), Vec::new());
    let header = HopHeader::new(FrameKind::Order, NodeId(1), 1);
    for gateway in [1, 2] {
        ingress.set_incarnation(GatewayId(gateway), Incarnation(1));
    }
    let mut now = 1_000_000 + rng.below(1_000);
    for _ in 0..400 {
        now += rng.below(400);
        let (gateway, seq) = (1 + rng.below(2) as u16, 1 + rng.below(300));
        let depends_on = if rng.below(2) == 0 { seq - 1 } else { 0 };
        let order =
            OrderBody { t_in: Nanos(now - rng.below(4_000)), ..order(gateway, 1, seq, depends_on) };
        let verdict = ingress.handle_order(at(now), &header, &order, &seq.to_le_bytes());
        said.push(format!("{verdict:?} {:?}", ingress.next_timeout()));
        while let Some(left) = ingress.pop_due(at(now)) {
            said.push(format!("{left:?} {}", ingress.sequencer().window_ns()));
        }
    }
    said
}

#[test]
fn one_that_is_cleared_is_as_new_and_counts_on() {
    for seed in 0..40 {
        let sequencer = SequencerConfig {
            window_ns: [0, 2_000][seed as usize % 2],
            late_ppm: 10_000,
            tie_ns: [0, 0, 300][seed as usize % 3],
            quantum: 2,
            capacity: 32,
            ..Default::default()
        };
        let config = IngressConfig { shard: ShardId(0), gateways: 2, sequencer };
        let (mut used, mut new) = (Ingress::new(&config), Ingress::new(&config));
        let first = played(&mut used, seed);
        let held = used.sequencer().held() as u64;
        let counted = used.sequencer().counters();
        assert!(held > 0, "seed {seed}: something is thrown away");
        used.clear();
        assert_eq!(used.sequencer().held(), 0, "seed {seed}");
        assert_eq!(used.sequencer().counters().forgotten, counted.forgotten + held, "seed {seed}");
        let (again, fresh) = (played(&mut used, seed ^ 99), played(&mut new, seed ^ 99));
        assert_eq!(again, fresh, "seed {seed}");
        assert_ne!(first, fresh, "seed {seed}: control, other orders have other ends");
        assert_eq!(
            used.sequencer().counters().released,
            counted.released + new.sequencer().counters().released,
            "seed {seed}"
        );
    }
}

fn offer_marked(sequencer: &mut Sequencer, now: u64, seq: u64, t_in: u64, marks: Marks) {
    let gateway = 1 + (seq % 3) as u16;
    let offer = Offer {
        source: source(gateway, seq),
        t_in: Nanos(t_in),
        waits_for: None,
        payload: &[],
        marks,
    };
    sequencer.offer(at(now), &offer).unwrap();
}

fn released(sequencer: &mut Sequencer, now: u64) -> Vec<(u64, u64)> {
    std::iter::from_fn(|| sequencer.pop_due(at(now)).map(|o| (o.source.seq, o.flags))).collect()
}

#[test]
fn a_deferred_order_is_put_back_or_flagged() {
    let deferred = Marks { deferred: true, ..Marks::default() };
    let config = SequencerConfig { window_ns: 1_000, ..Default::default() };
    let mut sequencer = Sequencer::new(&config);
    offer_marked(&mut sequencer, 10_500, 1, 10_100, Marks::default());
    offer_marked(&mut sequencer, 10_600, 2, 10_000, deferred);
    let mut left = released(&mut sequencer, 11_200);
    offer_marked(&mut sequencer, 12_000, 3, 10_050, deferred);
    left.extend(released(&mut sequencer, 12_000));
    assert_eq!(left, [(2, 0), (1, 0), (3, INPUT_DEFERRED)]);
    assert_eq!(sequencer.counters().late, 0);
}

#[test]
fn delivery_based_ordering_forgets_who_had_the_tick_first() {
    let config =
        SequencerConfig { window_ns: 5_000, policy: ReleasePolicy::Delivery, ..Default::default() };
    let mut sequencer = Sequencer::new(&config);
    // Both answer one tick; 1 had it 800 ns sooner and took 100 ns longer.
    let answer = |since_ns| Marks {
        delivery: Some(Delivery { sent: Nanos(10_000), since_ns }),
        ..Marks::default()
    };
    offer_marked(&mut sequencer, 12_000, 1, 11_000, answer(600));
    offer_marked(&mut sequencer, 12_500, 2, 11_700, answer(500));
    let order: Vec<u64> = released(&mut sequencer, 20_000).iter().map(|(seq, _)| *seq).collect();
    assert_eq!(order, [2, 1]);
}

/// Order `seq` of a gateway's only session, which waits for the one before unless that has `left`.
fn next_of(gateway: u16, seq: u64, t_in: u64, left: bool) -> Offer<'static> {
    Offer {
        source: source(gateway, seq),
        t_in: Nanos(t_in),
        waits_for: (seq > 1 && !left).then_some(seq - 1),
        payload: &[],
        marks: Marks::default(),
    }
}

#[test]
fn in_a_backlog_sessions_take_turns() {
    let behind = |quantum: u32| {
        let config = SequencerConfig { window_ns: 1_000, quantum, ..Default::default() };
        let mut sequencer = Sequencer::new(&config);
        // One session has 500 orders here, another one's single order came after all of them.
        for seq in 1..=500 {
            sequencer.offer(at(20_000), &next_of(1, seq, 10_000 + seq, false)).unwrap();
        }
        sequencer.offer(at(20_000), &next_of(2, 1, 11_000, false)).unwrap();
        // The log takes ten at a time.
        let mut left = Vec::new();
        for step in 0..60 {
            left.extend((0..10).map_while(|_| sequencer.pop_due(at(20_000 + step))));
        }
        assert_eq!((left.len(), sequencer.held()), (501, 0), "all leave");
        let of = |gateway: u16| left.iter().filter(move |o| o.source.gateway == GatewayId(gateway));
        assert!(of(1).map(|o| o.source.seq).eq(1..=500), "in their session's order");
        assert_eq!(sequencer.counters().late, 0, "none by the network's doing");
        left.iter().position(|o| o.source.gateway == GatewayId(2)).unwrap()
    };
    assert_eq!(behind(64), 64, "one turn");
    // Control: without turns it waits for everything that came before.
    assert_eq!(behind(0), 500);
}

#[test]
fn without_a_backlog_turns_change_nothing() {
    let sequence = |quantum: u32| {
        let config = SequencerConfig { window_ns: 1_000, quantum, ..Default::default() };
        let mut sequencer = Sequencer::new(&config);
        let mut left = Vec::new();
        let mut rng = SplitMix64::new(5);
        let (mut now, mut seqs, mut gone) = (100_000, [0u64; 4], [0u64; 4]);
        for _ in 0..5_000 {
            now += rng.below(400);
            let at_gateway = rng.below(4) as usize;
            seqs[at_gateway] += 1;
            let (seq, t_in) = (seqs[at_gateway], now - rng.below(900));
            let offer = next_of(at_gateway as u16 + 1, seq, t_in, gone[at_gateway] == seq - 1);
            sequencer.offer(at(now), &offer).unwrap();
            while let Some(order) = sequencer.pop_due(at(now)) {
                gone[usize::from(order.source.gateway.0) - 1] = order.source.seq;
                left.push((order.source, order.flags));
            }
        }
        left
    };
    assert_eq!(sequence(64), sequence(0));
}

#[test]
fn turns_keep_every_order_and_every_sessions_sequence() {
    for seed in 0..50 {
        let mut rng = SplitMix64::new(seed);
        let quantum = 1 + rng.below(20) as u32;
        let config = SequencerConfig { window_ns: 500, quantum, ..Default::default() };
        let mut sequencer = Sequencer::new(&config);
        let (mut now, mut seqs, mut gone) = (100_000, [0u64; 3], [0u64; 3]);
        let mut left = Vec::new();
        for _ in 0..400 {
            now += rng.below(200);
            let at_gateway = rng.below(3) as usize;
            for _ in 0..rng.below(30) {
                seqs[at_gateway] += 1;
                let seq = seqs[at_gateway];
                let offer = next_of(at_gateway as u16 + 1, seq, now, gone[at_gateway] == seq - 1);
                sequencer.offer(at(now), &offer).unwrap();
            }
            for _ in 0..rng.below(25) {
                let Some(order) = sequencer.pop_due(at(now)) else { break };
                gone[usize::from(order.source.gateway.0) - 1] = order.source.seq;
                left.push(order);
            }
        }
        left.extend(std::iter::from_fn(|| sequencer.pop_due(at(now + 10_000))));
        for gateway in 1..=3 {
            let of = left.iter().filter(|o| o.source.gateway == GatewayId(gateway));
            let seqs = 1..=seqs[usize::from(gateway) - 1];
            assert!(of.map(|o| o.source.seq).eq(seqs), "seed {seed}, gateway {gateway}");
        }
    }
}
