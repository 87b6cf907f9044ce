//! Roots whose private streams are bounded: what they give up follows from the log, and whoever begins
//! behind one of the two newest checkpoints answers as one that went on.

use exchange::{ExchangeConfig, Root};
use overlay::{
    frame::{AttachBody, FrameKind},
    private_sender::PrivateStreams,
};
use types::{AccountId, Channel, ExecutionReport, Input, Node, Peer, SplitMix64};
use zerocopy::IntoBytes;

use crate::flow::{SpillStores, at, checkpoint, commit, day, exchange, root_on};
use crate::model::{both, framed, gateway};

/// Chunks of private streams that are kept.
const CHUNKS: u64 = 80;
const ACCOUNTS: [AccountId; 3] = [AccountId(1), AccountId(2), AccountId(3)];

fn bounded(config: &ExchangeConfig, spills: &SpillStores, chunks: u64) -> Box<Root> {
    let mut root = root_on(config, spills);
    let block = PrivateStreams::spill_block(size_of::<ExecutionReport>()) as u64;
    root.bound_streams(chunks * block, true);
    root
}

fn follower(config: &ExchangeConfig, chunks: u64) -> Box<Root> {
    let mut root = bounded(config, &SpillStores::new(config), chunks);
    root.join_group();
    root
}

fn firsts(root: &Root) -> [u64; 3] {
    ACCOUNTS.map(|account| root.private().first_position(account))
}

/// A root that stops again and again, and begins behind one of its two newest checkpoints.
fn lives(config: &ExchangeConfig, day: &[Input], rng: &mut SplitMix64) -> Box<Root> {
    let spills = SpillStores::new(config);
    let mut known: Vec<(usize, Vec<u8>)> = Vec::new();
    let mut root = bounded(config, &spills, CHUNKS);
    root.join_group();
    let (mut done, mut until) = (0, 0);
    while done < day.len() {
        if done >= until && !known.is_empty() {
            if rng.below(2) == 0 && known.len() > 1 {
                known.pop();
            }
            let (at, bytes) = known.last().expect("one");
            root = bounded(config, &spills, CHUNKS);
            root.restore(bytes).expect("what it leans on is there");
            root.join_group();
            (done, until) = (*at, at + 800 + rng.below(3_000) as usize);
        }
        let next = (done + 100 + rng.below(300) as usize).min(day.len());
        commit(&mut root, &day[done..next]);
        done = next;
        known.push((done, checkpoint(&root)));
        root.written_down();
        known.drain(..known.len().saturating_sub(2));
    }
    root
}

#[test]
fn a_root_that_began_behind_checkpoints_answers_as_one_that_went_on() {
    for seed in 0..4 {
        let (config, mut rng) = (exchange(seed), SplitMix64::new(seed));
        let day = day(seed, 14_000);
        let mut whole = follower(&config, CHUNKS);
        commit(&mut whole, &day);
        let lived = lives(&config, &day, &mut rng);
        assert_eq!(firsts(&lived), firsts(&whole), "seed {seed}");
        assert_eq!(lived.state_digest(), whole.state_digest(), "seed {seed}");
        assert!(firsts(&whole).iter().any(|first| *first > 1), "seed {seed}: nothing given up");
        let now = at(day.last().expect("some"));
        let mut roots = [whole, lived];
        for root in &mut roots {
            root.lead(now, 2, &mut types::Outbox::default());
        }
        let mut token = 0;
        for account in ACCOUNTS {
            let (first, next) = {
                let of = roots[0].private();
                (of.first_position(account), of.next_position(account))
            };
            for from in [first, first + 63, first + 64, first + rng.below(next - first), next] {
                token += 1;
                let node = gateway(&config, 1);
                let body = AttachBody { account, attach: 1, token, from: from.min(next) };
                let bytes = framed(FrameKind::Attach, node, body.as_bytes());
                let heard = both(&mut roots, "an attachment", |root, out| {
                    root.handle_datagram(now, Channel::OVERLAY, Peer::Node(node), &bytes, out);
                });
                let heard = heard.expect("the same of both");
                assert!(heard.len() >= 2 + usize::from(from < next), "{account:?} from {from}");
            }
            let unreadable = roots.each_ref().map(|root| root.private().counters().unreadable);
            assert_eq!(unreadable, [0, 0], "seed {seed}");
        }
    }
}

/// Control: bounds that are not alike are seen, and so is whoever keeps less than it may.
#[test]
fn another_bound_gives_up_other_messages() {
    let config = exchange(1);
    let day = day(1, 14_000);
    let [mut wide, mut narrow] = [CHUNKS + 40, CHUNKS].map(|chunks| follower(&config, chunks));
    commit(&mut wide, &day);
    commit(&mut narrow, &day);
    assert_eq!(wide.state_digest(), narrow.state_digest(), "it is no part of the state");
    assert_ne!(firsts(&wide), firsts(&narrow));
}
