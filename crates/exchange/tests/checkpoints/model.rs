//! A root that was taken up does and says what the one does that it was made of, to the byte.

use exchange::{ExchangeConfig, Root};
use overlay::frame::{self, AttachBody, FrameKind, HopHeader, OrderBody, RepairRequestBody};
use proptest::prelude::*;
use types::{
    AccountId, Channel, ClockReading, CommandKind, FeedSeq, Incarnation, Input, Nanos, Node,
    NodeId, Op, Outbox, Peer, Source, SplitMix64,
};
use wire::moldudp::Request;
use zerocopy::IntoBytes;

use crate::flow::{SpillStores, at, checkpoint, commit, day, exchange, follower, restored};

/// What a root said: where to, and the bytes.
pub type Said = Vec<(String, Vec<u8>)>;

fn said(out: &Outbox) -> Said {
    let of = |op: &Op| match *op {
        Op::Datagram { channel, to, bytes } => {
            (format!("{channel:?} {to:?}"), out.bytes(bytes).to_vec())
        }
        other => (format!("{other:?}"), Vec::new()),
    };
    out.ops().iter().map(of).chain([("journal".to_string(), out.journaled().to_vec())]).collect()
}

/// Calls both, and compares what they say.
pub fn both(
    roots: &mut [Box<Root>; 2],
    what: &str,
    mut call: impl FnMut(&mut Root, &mut Outbox),
) -> Result<Said, String> {
    let [first, second] = roots.each_mut().map(|root| {
        let mut out = Outbox::default();
        call(root, &mut out);
        said(&out)
    });
    if first == second { Ok(first) } else { Err(format!("{what}: they say different things")) }
}

/// A node that has a gateway: the first ones after the proxies.
pub fn gateway(config: &ExchangeConfig, number: u16) -> NodeId {
    let tree = config.tree().expect("a tree");
    tree.topology.receiver_ids().nth(usize::from(number) - 1).expect("a receiver")
}

pub fn framed(kind: FrameKind, sender: NodeId, body: &[u8]) -> Vec<u8> {
    let mut bytes = HopHeader::new(kind, sender, 1).as_bytes().to_vec();
    bytes.extend_from_slice(body);
    bytes
}

/// What anybody and a receiver can ask for of the feed.
fn ask_feed(
    roots: &mut [Box<Root>; 2],
    (config, now): (&ExchangeConfig, ClockReading),
    rng: &mut SplitMix64,
) -> Result<(), String> {
    let end = roots[0].router().next()[0].0;
    let (mut answers, receiver) = (0, gateway(config, 1));
    for from in (1..end).step_by(97).chain(end.saturating_sub(60)..end) {
        let count = 1 + rng.below(40) as u16;
        let session = wire::moldudp::Session(config.session_of(0));
        let request = Request { session, seq: from, count };
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        // Padded, so that whole packets are answered.
        bytes.resize(464, 0);
        let heard = both(roots, "a request of anybody", |root, out| {
            root.handle_datagram(now, Channel::FEED, Peer::Addr(9), &bytes, out);
        })?;
        answers += heard.len() - 1;
        let (from, count) = (FeedSeq(from), count.into());
        let body = RepairRequestBody { from, count, stream: 0, reserved: 0 };
        let bytes = framed(FrameKind::RepairRequest, receiver, body.as_bytes());
        both(roots, "a repair", |root, out| {
            root.handle_datagram(now, Channel::OVERLAY, Peer::Node(receiver), &bytes, out);
        })?;
    }
    if answers > 20 { Ok(()) } else { Err(format!("only {answers} answers")) }
}

/// Gateways attach all streams, from anywhere, and get them.
fn ask_streams(
    roots: &mut [Box<Root>; 2],
    (config, now): (&ExchangeConfig, ClockReading),
    rng: &mut SplitMix64,
) -> Result<(), String> {
    let mut token = 1;
    for account in (1..=3).map(AccountId) {
        let next = roots[0].private().next_position(account);
        for from in [1, 2, 64, 65, 130, 1 + rng.below(next), next] {
            let node = gateway(config, 1);
            token += 1;
            let body = AttachBody { account, attach: 1, token, from: from.min(next) };
            let bytes = framed(FrameKind::Attach, node, body.as_bytes());
            let heard = both(roots, "an attachment", |root, out| {
                root.handle_datagram(now, Channel::OVERLAY, Peer::Node(node), &bytes, out);
            })?;
            // The answer, and what there is from there on.
            if heard.len() < 2 + usize::from(from < next) {
                return Err(format!(
                    "account {account:?} from {from}: only {} datagrams",
                    heard.len()
                ));
            }
        }
    }
    Ok(())
}

/// Both lead, take orders, have them committed, and tell of them.
fn trade(
    roots: &mut [Box<Root>; 2],
    (config, mut now): (&ExchangeConfig, ClockReading),
    day: &[Input],
) -> Result<(), String> {
    let mut numbers = [0; 2];
    let mut logged = roots[0].engine().applied();
    for input in day.iter().filter(|input| input.command.kind == CommandKind::NewOrder) {
        let which = input.source.gateway;
        let node = gateway(config, which.0);
        let (incarnation, window) = roots[0].engine().received(which);
        if incarnation == Incarnation(0) {
            continue;
        }
        let number = &mut numbers[usize::from(which.0) - 1];
        *number = (*number).max(window.contiguous()) + 1;
        now.now = now.now.after(Nanos::MILLI);
        let source = Source { incarnation, seq: *number, ..input.source };
        let mut command = input.command;
        command.user_ref.0 += 1_000_000;
        let body = OrderBody { source, depends_on: 0, t_in: now.now };
        let mut bytes = Vec::new();
        let header = HopHeader::new(FrameKind::Order, node, 1);
        frame::encode(&mut bytes, header, &body, command.as_bytes());
        both(roots, "an order", |root, out| {
            root.handle_datagram(now, Channel::OVERLAY, Peer::Node(node), &bytes, out);
        })?;
        now.now = now.now.after(Nanos::MILLI);
        let heard = both(roots, "time", |root, out| root.handle_timeout(now, out))?;
        logged += (heard.last().map_or(0, |of| of.1.len()) / size_of::<Input>()) as u64;
        both(roots, "committed", |root, out| root.handle_durable(now, logged, out))?;
    }
    let more = roots[0].engine().applied() - day.last().map_or(0, |last| last.seq.0);
    if more > 20 { Ok(()) } else { Err(format!("only {more} orders were taken")) }
}

/// Everything that can be seen of two roots, the first of which has simply gone on.
pub fn compare(
    mut roots: [Box<Root>; 2],
    config: &ExchangeConfig,
    (rest, more): (&[Input], &[Input]),
    seed: u64,
) -> Result<(), String> {
    let equal = |roots: &[Box<Root>; 2], when: &str| {
        let [a, b] = roots.each_ref().map(|root| (root.state_digest(), checkpoint(root)));
        let days = roots.each_ref().map(|root| {
            (root.day().auctions().to_vec(), root.day().halts().to_vec(), root.counters())
        });
        match a == b && days[0] == days[1] {
            true => Ok(()),
            false => Err(format!("{when}: they differ")),
        }
    };
    equal(&roots, "taken up")?;
    for part in rest.chunks(rest.len().div_ceil(3).max(1)) {
        roots.iter_mut().for_each(|root| commit(root, part));
        equal(&roots, "later")?;
    }
    let mut rng = SplitMix64::new(seed);
    let last = rest.last().or(more.first()).expect("inputs");
    let now = ClockReading { now: at(last).now.after(Nanos::SECOND), bound_ns: 250 };
    if ask_feed(&mut roots, (config, now), &mut rng).is_ok() {
        return Err("it serves what nobody has told it to be released".to_string());
    }
    for root in &mut roots {
        let ends: Vec<u64> = root.router().next().iter().map(|next| next.0).collect();
        let told = ends.iter().flat_map(|end| [*end, now.now.0 - 1_000, 0, 250]);
        let told: Vec<u8> = told.flat_map(u64::to_le_bytes).collect();
        assert!(root.learn_releases(now, &told) && !root.learn_releases(now, &told[1..]));
    }
    ask_feed(&mut roots, (config, now), &mut rng)?;
    both(&mut roots, "it leads", |root, out| root.lead(now, 7, out))?;
    both(&mut roots, "its first time", |root, out| root.handle_timeout(now, out))?;
    ask_streams(&mut roots, (config, now), &mut rng)?;
    trade(&mut roots, (config, now), more)?;
    equal(&roots, "after leading")?;
    for root in &mut roots {
        root.follow().expect("it follows again");
    }
    equal(&roots, "following again")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn it_goes_on_as_the_one_it_was_made_of(
        seed in any::<u64>(), inputs in 300usize..3_000, part in 0usize..1_000, beyond: bool,
    ) {
        let (config, day) = (exchange(seed), day(seed, inputs));
        let place = 2 + part * (inputs - 3) / 1_000;
        let spills = SpillStores::new(&config);
        let mut first = follower(&config, &spills);
        commit(&mut first, &day[..place]);
        let bytes = checkpoint(&first);
        // After a crash the spill stores may hold more than the checkpoint knows of.
        let then = spills.copied();
        commit(&mut first, &day[place..]);
        let left = if beyond { spills.copied() } else { then };
        let second = restored(&config, &left, &bytes).expect("whole");
        prop_assert_eq!(checkpoint(&second), bytes, "written down again it is the same");
        let mut first = follower(&config, &SpillStores::new(&config));
        commit(&mut first, &day[..place]);
        let compared = compare([first, second], &config, (&day[place..], &day), seed);
        prop_assert_eq!(compared, Ok(()), "seed {}, at {} of {}", seed, place, inputs);
    }
}

#[test]
fn it_can_be_done_again_and_again() {
    let (config, day) = (exchange(4), day(4, 4_000));
    let mut spills = SpillStores::new(&config);
    let mut root = follower(&config, &spills);
    for part in day.chunks(333) {
        commit(&mut root, part);
        let bytes = checkpoint(&root);
        spills = spills.copied();
        root = restored(&config, &spills, &bytes).expect("whole");
    }
    let mut whole = follower(&config, &SpillStores::new(&config));
    commit(&mut whole, &day);
    assert_eq!(compare([whole, root], &config, (&[], &day), 4), Ok(()));
}

#[test]
fn without_spills_or_inputs_there_is_nothing_to_write_down() {
    let (config, day) = (exchange(1), day(1, 100));
    let (mut plain, _) = exchange::group_root(&config, || None).expect("an exchange");
    plain.join_group();
    commit(&mut plain, &day);
    assert!(!plain.checkpoint(&mut Vec::new()), "no spill stores");
    let mut empty = follower(&config, &SpillStores::new(&config));
    assert!(!empty.checkpoint(&mut Vec::new()), "no inputs");
    commit(&mut empty, &day);
    let bytes = checkpoint(&empty);
    assert!(empty.restore(&bytes).is_err(), "it has begun");
}
