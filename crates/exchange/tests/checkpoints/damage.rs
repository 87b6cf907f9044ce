//! What is no checkpoint, or lies beside spill stores of another, is refused or does no harm.

use engine::digest_of;
use exchange::CheckpointError;
use overlay::frame::{AttachBody, AttachReplyBody, FrameKind, HopHeader};
use proptest::prelude::*;
use types::{
    AccountId, Channel, ClockReading, Nanos, Node, NodeId, Op, Outbox, Peer, SpillStore, SplitMix64,
};
use zerocopy::{FromBytes, IntoBytes};

use crate::flow::{SpillStores, at, checkpoint, commit, day, exchange, follower, restored};
use crate::model::compare;

const DETACHED: u16 = overlay::private_sender::DETACHED;

/// Where the parts before the engine end: their digest is there.
fn parts(bytes: &[u8]) -> usize {
    let whole = |at: &usize| {
        let digest = bytes.get(*at..*at + 8).and_then(|digest| digest.try_into().ok());
        digest.map(u64::from_le_bytes) == Some(digest_of(&bytes[..*at]))
    };
    (40..bytes.len()).find(whole).expect("a digest")
}

#[test]
fn no_bit_of_it_can_change_unnoticed_even_under_a_digest_that_fits() {
    let (config, day) = (exchange(2), day(2, 1_500));
    let (spills, place) = (SpillStores::new(&config), 900);
    let mut first = follower(&config, &spills);
    commit(&mut first, &day[..place]);
    let bytes = checkpoint(&first);
    let parts = parts(&bytes);
    let (mut rng, mut refused, mut caught) = (SplitMix64::new(5), 0, 0);
    for number in 0..1_500 {
        // The first few hundred bytes, then some of all.
        let (at, bit) = match number {
            0..1_000 => (20 + number / 2, rng.below(8)),
            _ => (20 + rng.below(parts as u64 - 20) as usize, rng.below(8)),
        };
        let mut wrong = bytes.clone();
        wrong[at] ^= 1 << bit;
        assert!(restored(&config, &spills.copied(), &wrong).is_err(), "byte {at}: the digest");
        let digest = digest_of(&wrong[..parts]);
        wrong[parts..parts + 8].copy_from_slice(&digest.to_le_bytes());
        match restored(&config, &spills.copied(), &wrong) {
            Err(_) => refused += 1,
            Ok(second) if checkpoint(&second) == wrong => caught += 1,
            Ok(second) => {
                let mut first = follower(&config, &SpillStores::new(&config));
                commit(&mut first, &day[..place]);
                let compared = compare([first, second], &config, (&day[place..], &day), 2);
                assert!(compared.is_err(), "bit {bit} of byte {at}: nobody saw it");
                caught += 1;
            }
        }
    }
    assert!(refused > 100 && caught > 300, "{refused} refused, {caught} caught");
}

#[test]
fn another_exchange_or_timetable_does_not_take_it() {
    let (config, day) = (exchange(3), day(3, 400));
    let spills = SpillStores::new(&config);
    let mut root = follower(&config, &spills);
    commit(&mut root, &day);
    let bytes = checkpoint(&root);
    let refused = |change: &dyn Fn(&mut exchange::ExchangeConfig)| {
        let mut other = exchange(3);
        change(&mut other);
        restored(&other, &spills.copied(), &bytes).err()
    };
    assert_eq!(refused(&|_| {}), None);
    let unfit = Some(CheckpointError::Unfit);
    assert_eq!(refused(&|other| other.open_orders_max *= 2), unfit);
    assert_eq!(refused(&|other| other.timetable = exchange::Timetable::empty()), unfit);
    let later = |version: u32| {
        let mut bytes = bytes.clone();
        bytes[8..12].copy_from_slice(&version.to_le_bytes());
        restored(&config, &spills.copied(), &bytes).err()
    };
    assert_eq!(later(5), Some(CheckpointError::Version(5)));
    assert_eq!(
        restored(&config, &spills.copied(), b"FBELSNAP").err(),
        Some(CheckpointError::Magic)
    );
}

#[test]
fn a_feed_that_was_cut_torn_or_changed_on_its_spill_is_refused() {
    let (config, day) = (exchange(1), day(1, 2_000));
    let spills = SpillStores::new(&config);
    let mut root = follower(&config, &spills);
    commit(&mut root, &day);
    let bytes = checkpoint(&root);
    assert!(restored(&config, &spills.copied(), &bytes).is_ok());
    let mut held = vec![0; 8];
    let mut end = 0;
    while spills.feeds[0].get(end, &mut held) {
        end += 8;
    }
    assert!(end > 12 * 8_192, "{end} bytes of the feed");
    let mut rng = SplitMix64::new(3);
    for place in 0..60 {
        let wrong = spills.copied();
        // The store keeps the last 30 KB; what is before is not looked at.
        let at = end - 8 * (1 + rng.below(1_000));
        let taken = match place % 3 {
            0 => wrong.feeds[0].clone().put(at, &[0xA5; 8]),
            // A block that was being written.
            1 => wrong.feeds[0].clone().put(end - end % 512 - 512, &[0; 512]),
            _ => {
                let mut short = types::MemorySpill::default();
                let mut all = vec![0; at as usize];
                let copied = wrong.feeds[0].get(0, &mut all) && short.put(0, &all);
                *wrong.feeds[0].0.lock().expect("whole") = short;
                copied
            }
        };
        assert!(taken);
        let refused = restored(&config, &wrong, &bytes).err();
        assert!(matches!(refused, Some(CheckpointError::Damaged(_))), "{place}: {refused:?}");
    }
}

#[test]
fn a_private_stream_that_changed_on_its_spill_is_not_sent() {
    let (config, day) = (exchange(5), day(5, 2_000));
    let spills = SpillStores::new(&config);
    let mut root = follower(&config, &spills);
    commit(&mut root, &day);
    let bytes = checkpoint(&root);
    // The first chunk of some stream.
    let wrong = spills.copied();
    assert!(wrong.streams.clone().put(777, &[0x5A; 8]));
    let mut root = restored(&config, &wrong, &bytes).expect("it is not read before it is wanted");
    let last = day.last().expect("inputs");
    let now = ClockReading { now: at(last).now.after(Nanos::SECOND), bound_ns: 250 };
    root.lead(now, 3, &mut Outbox::default());
    let node = config.tree().expect("a tree").topology.receiver_ids().next().expect("one");
    let detached = (1..=3u16).filter(|account| {
        let account = AccountId(*account);
        let body = AttachBody { account, attach: 1, token: 9, from: 1 };
        let mut bytes = HopHeader::new(FrameKind::Attach, node, 1).as_bytes().to_vec();
        bytes.extend_from_slice(body.as_bytes());
        let mut out = Outbox::default();
        root.handle_datagram(now, Channel::OVERLAY, Peer::Node(node), &bytes, &mut out);
        statuses(&out, node).contains(&DETACHED)
    });
    assert_eq!(detached.count(), 1, "the one whose messages are lost is told so");
    assert_eq!(root.private().counters().unreadable, 1);
}

/// What attach replies say.
fn statuses(out: &Outbox, node: NodeId) -> Vec<u16> {
    let reply = |op: &Op| match *op {
        Op::Datagram { to: Peer::Node(to), bytes, .. } if to == node => {
            let (header, rest) = HopHeader::read(out.bytes(bytes)).ok()?;
            let reply = header.kind == FrameKind::AttachReply;
            reply.then(|| AttachReplyBody::read_from_bytes(rest).map(|body| body.status).ok())?
        }
        _ => None,
    };
    out.ops().iter().filter_map(reply).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn no_bytes_make_it_panic(
        seed in 0u64..4, cut: prop::sample::Index, changes in prop::collection::vec(
            (any::<prop::sample::Index>(), any::<u8>()), 0..6),
        junk in prop::collection::vec(any::<u8>(), 0..300), from: prop::sample::Index,
    ) {
        let (config, day) = (exchange(seed), day(seed, 300));
        let spills = SpillStores::new(&config);
        let mut root = follower(&config, &spills);
        commit(&mut root, &day);
        let bytes = checkpoint(&root);
        let whole = bytes.clone();
        let parts = parts(&bytes);
        let mut wrong = bytes;
        for (place, value) in changes {
            let at = place.index(parts);
            wrong[at] = value;
        }
        // Under a digest that fits, too.
        let digest = digest_of(&wrong[..parts]);
        wrong[parts..parts + 8].copy_from_slice(&digest.to_le_bytes());
        let _ = restored(&config, &spills.copied(), &wrong);
        let place = from.index(parts).max(20);
        let end = (place + junk.len()).min(wrong.len());
        wrong[place..end].copy_from_slice(&junk[..end - place]);
        let _ = restored(&config, &spills.copied(), &wrong);
        let cut = cut.index(whole.len());
        prop_assert!(restored(&config, &spills.copied(), &whole[..cut]).is_err());
        prop_assert!(restored(&config, &spills.copied(), &junk).is_err());
    }
}
