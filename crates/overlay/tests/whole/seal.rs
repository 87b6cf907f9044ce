//! Nothing gets in without the key, nothing forged reaches the duplicate filter, nonces never
//! repeat, and a proxy passes the end-to-end part on untouched.

use std::collections::BTreeSet;

use overlay::{
    duplicate_filter::{Arrival, DuplicateFilter},
    frame::{self, DataBody, FrameKind, HopHeader},
    seal::{
        Aead, NONCE_LEN, NUMBER_MAX, OVERHEAD, Origin, ReplayWindow, SealError, Sealer, TAG_LEN,
        open_body, open_hop,
    },
};
use proptest::prelude::*;
use std::cell::RefCell;
use types::{Nanos, NodeId, SplitMix64, limits::DATAGRAM_MAX};
use zerocopy::IntoBytes;

/// Stands in for a cipher: every bit of key, nonce, associated data and text enters the tag, and
/// nonces are recorded. No secret is safe with it.
struct Toy {
    key: u64,
    nonces: RefCell<BTreeSet<[u8; NONCE_LEN]>>,
}

impl Toy {
    fn new(key: u64) -> Toy {
        Toy { key, nonces: RefCell::default() }
    }

    fn stream(&self, nonce: &[u8]) -> SplitMix64 {
        SplitMix64::new(nonce.iter().fold(self.key, |h, b| SplitMix64::mix(h ^ u64::from(*b))))
    }

    fn tag(&self, nonce: &[u8], associated: &[u8], text: &[u8]) -> [u8; TAG_LEN] {
        let mut hash = self.stream(nonce).next_u64();
        for part in [associated, &[associated.len() as u8], text] {
            hash = part.iter().fold(hash, |h, b| SplitMix64::mix(h ^ u64::from(*b)));
        }
        let mut tag = [0; TAG_LEN];
        tag[..8].copy_from_slice(&hash.to_le_bytes());
        tag[8..].copy_from_slice(&SplitMix64::mix(hash).to_le_bytes());
        tag
    }

    fn mix(&self, nonce: &[u8], bytes: &mut [u8]) {
        let mut stream = self.stream(nonce);
        bytes.iter_mut().for_each(|byte| *byte ^= stream.next_u64() as u8);
    }
}

impl Aead for Toy {
    fn seal(&self, nonce: [u8; NONCE_LEN], associated: &[u8], bytes: &mut [u8]) -> [u8; TAG_LEN] {
        assert!(self.nonces.borrow_mut().insert(nonce), "a nonce was used twice");
        self.mix(&nonce, bytes);
        self.tag(&nonce, associated, bytes)
    }

    fn open(
        &self,
        nonce: [u8; NONCE_LEN],
        associated: &[u8],
        bytes: &mut [u8],
        tag: &[u8; TAG_LEN],
    ) -> bool {
        let right = *tag == self.tag(&nonce, associated, bytes);
        self.mix(&nonce, bytes);
        right
    }
}

fn origin(number: u64) -> Origin {
    Origin { stream: 3, life: 9, number }
}

fn data(id: u64) -> (Vec<u8>, Vec<u8>) {
    let header = HopHeader::new(FrameKind::Data, NodeId(4), 9);
    let (t_sent, deadline) = (Nanos(1), Nanos(2));
    let body = DataBody { id, t_sent, deadline, bound_ns: 0, stream: 0, hedge: 0, flags: 0 };
    let mut bytes = body.as_bytes().to_vec();
    bytes.extend_from_slice(b"a whole packet, for all anybody knows");
    (header.as_bytes().to_vec(), bytes)
}

fn sealed(keys: (&impl Aead, &impl Aead), sealer: &mut Sealer, number: u64) -> Vec<u8> {
    let (hop, body) = data(number);
    let mut out = Vec::new();
    assert!(sealer.seal(keys, origin(number), (&hop, &body), &mut out));
    assert_eq!(out.len(), OVERHEAD + hop.len() + body.len());
    out
}

fn everything_holds(hop_key: &impl Aead, group: &impl Aead, other: &impl Aead) {
    let (mut source, mut proxy) = (Sealer::new(NodeId(0), 1), Sealer::new(NodeId(7), 1));
    let mut first = sealed((hop_key, group), &mut source, 5);
    let clear = b"a whole packet";
    assert!(!first.windows(clear.len()).any(|window| window == clear), "nothing in clear");
    let untouched = first.clone();
    assert_eq!(open_hop(other, &mut first.clone()), Err(SealError::HopTag), "the wrong key");
    let opened = open_hop(hop_key, &mut first).unwrap();
    assert_eq!(
        (opened.sender, opened.origin, opened.header),
        (NodeId(0), origin(5), &data(5).0[..])
    );
    let mut onward = Vec::new();
    let hop = HopHeader::new(FrameKind::Data, NodeId(7), 9);
    assert!(proxy.forward(hop_key, &opened, hop.as_bytes(), &mut onward));
    let end = untouched.len() - TAG_LEN;
    let body_at = 32 + hop.as_bytes().len();
    assert_eq!(onward[body_at..end], untouched[body_at..end], "as the source sealed it");
    let arrived = open_hop(hop_key, &mut onward).unwrap();
    assert_eq!((arrived.sender, arrived.header), (NodeId(7), hop.as_bytes()));
    let mut body = Vec::new();
    assert_eq!(open_body(other, &arrived, &mut body), Err(SealError::Tag));
    assert!(body.is_empty());
    assert_eq!(open_body(group, &arrived, &mut body), Ok(()));
    assert_eq!(body, data(5).1);
    // Hop part of one datagram, end-to-end part of another.
    let (one, two) = (untouched, sealed((hop_key, group), &mut source, 6));
    let mut joined = one[..body_at].to_vec();
    joined.extend_from_slice(&two[body_at..end]);
    joined.extend_from_slice(&one[end..]);
    assert_eq!(open_hop(hop_key, &mut joined), Err(SealError::HopTag));
}

#[test]
fn both_parts_are_kept_by_their_keys() {
    everything_holds(&Toy::new(1), &Toy::new(2), &Toy::new(3));
}

#[cfg(feature = "aead")]
#[test]
fn both_parts_are_kept_by_aes() {
    use overlay::aes_gcm::AesGcm;
    let key = |byte| AesGcm::new(&[byte; 16]).unwrap();
    everything_holds(&key(1), &key(2), &key(3));
    // The published answer for a key and nonce of zero and 16 bytes of zero (GCM test case 2).
    let (mut bytes, zero) = ([0; 16], key(0));
    let tag = zero.seal([0; NONCE_LEN], &[], &mut bytes);
    assert_eq!(bytes[..4], [0x03, 0x88, 0xda, 0xce]);
    assert_eq!(tag[..4], [0xab, 0x6e, 0x47, 0xd4]);
}

#[test]
fn a_forged_huge_id_never_reaches_the_filter() {
    let (hop_key, group) = (Toy::new(1), Toy::new(2));
    let (mut source, mut filter) = (Sealer::new(NodeId(0), 1), DuplicateFilter::new(64, 9, 1));
    let mut body = Vec::new();
    let mut receive = |bytes: &mut [u8]| -> Result<Arrival, SealError> {
        let opened = open_hop(&hop_key, bytes)?;
        open_body(&group, &opened, &mut body)?;
        let (data, _) = frame::body::<DataBody>(&body).map_err(|_| SealError::Format)?;
        Ok(filter.accept(9, data.id, Some(0)))
    };
    let mut forger = Sealer::new(NodeId(0), 1);
    let mut forged = Vec::new();
    let (hop, huge) = data(u64::MAX - 63);
    let keys = (Toy::new(7), Toy::new(8));
    assert!(forger.seal((&keys.0, &keys.1), origin(1), (&hop, &huge), &mut forged));
    assert_eq!(receive(&mut forged), Err(SealError::HopTag));
    for id in 1..200 {
        let mut bytes = sealed((&hop_key, &group), &mut source, id);
        assert_eq!(receive(&mut bytes), Ok(Arrival::First), "{id}");
    }
    // The control: the same id by somebody with the key does what the forger wanted.
    let (hop_key2, group2) = (Toy::new(1), Toy::new(2));
    let mut own = Vec::new();
    assert!(Sealer::new(NodeId(0), 2).seal(
        (&hop_key2, &group2),
        Origin { life: 10, ..origin(1) },
        (&hop, &huge),
        &mut own
    ));
    assert_eq!(receive(&mut own), Ok(Arrival::First));
    let mut next = sealed((&hop_key, &group), &mut source, 256);
    assert_eq!(receive(&mut next), Ok(Arrival::TooOld));
}

#[test]
fn numbers_run_out_before_they_repeat_and_long_datagrams_are_refused() {
    let (hop_key, group) = (Toy::new(1), Toy::new(2));
    let mut sealer = Sealer::new(NodeId(0), 1);
    let mut out = Vec::new();
    let last = Origin { number: NUMBER_MAX + 1, ..origin(0) };
    assert!(!sealer.seal((&hop_key, &group), last, (b"h", b"b"), &mut out));
    let long = vec![0; DATAGRAM_MAX - OVERHEAD];
    assert!(!sealer.seal((&hop_key, &group), origin(1), (b"h", &long), &mut out));
    assert!(out.is_empty());
    assert!(sealer.seal((&hop_key, &group), origin(1), (b"h", &long[1..]), &mut out));
    assert_eq!(out.len(), DATAGRAM_MAX);
}

proptest! {
    #[test]
    fn any_flipped_bit_is_noticed(at in any::<prop::sample::Index>(), bit in 0u8..8, cut in 0usize..2) {
        let (hop_key, group) = (Toy::new(1), Toy::new(2));
        let mut bytes = sealed((&hop_key, &group), &mut Sealer::new(NodeId(0), 1), 5);
        if cut == 1 {
            let at = at.index(bytes.len());
            bytes.truncate(at);
        } else {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        let mut body = Vec::new();
        let opened = open_hop(&hop_key, &mut bytes)
            .and_then(|opened| open_body(&group, &opened, &mut body));
        prop_assert!(opened.is_err());
        prop_assert!(body.is_empty());
    }

    #[test]
    fn arbitrary_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..300), ours in any::<bool>()) {
        if let Some(first) = bytes.first_mut().filter(|_| ours) {
            *first = overlay::seal::SEALED_VERSION;
        }
        prop_assert!(open_hop(&Toy::new(1), &mut bytes).is_err());
    }

    #[test]
    fn a_replay_window_accepts_each_number_once(
        numbers in prop::collection::vec(0u64..3_000, 1..600),
    ) {
        let (mut window, mut seen) = (ReplayWindow::default(), BTreeSet::new());
        let mut highest = 0;
        for number in numbers {
            let accepted = window.accept(number).is_ok();
            let in_reach = number + 1_024 > highest;
            let fresh = !seen.contains(&number);
            prop_assert_eq!(accepted, in_reach && fresh, "{}", number);
            if accepted {
                seen.insert(number);
                highest = highest.max(number);
            }
        }
    }
}
