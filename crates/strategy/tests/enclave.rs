//! Attestation documents, real and local, and what stands between an enclave and the keys of released data.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rcgen::{KeyPair, PKCS_ECDSA_P384_SHA384};
use strategy::enclave::attestation::{
    Challenges, DOCUMENT_MAX, FRESH_NS, NITRO_ROOT, Refused, measure, read,
};
use strategy::enclave::attestor::{Attestor, Claim};
use strategy::enclave::{Boundary, BoundaryError, Crossing, Enclave};
use strategy::{Action, News, Program};
use types::{Nanos, Side, TimeInForce};

#[path = "../../../sdk/strategy/src/enclave/link.rs"]
#[allow(dead_code, missing_docs)]
mod link;

const REAL: &[u8] = include_bytes!("nitro/document.cbor");
const NOW: Nanos = Nanos(1_800_000_000 * Nanos::SECOND);
const PROGRAM: &[u8] = b"a program";

fn attestor() -> Attestor {
    let (key, certificate) = Attestor::root(NOW).expect("randomness");
    Attestor::new(&key, &certificate).expect("a root")
}

fn document(of: &Attestor, nonce: &[u8], now: Nanos) -> Vec<u8> {
    let measurement = measure(PROGRAM);
    let claim = Claim { measurement: &measurement, public_key: &[7; 32], nonce };
    of.attest(&claim, now).expect("a document")
}

#[test]
fn a_real_document_of_nitro_is_read_against_the_real_root() {
    // Between the document's time and three hours later, when its certificate ends.
    let at = Nanos(1_665_651_490 * Nanos::SECOND);
    let read_at = |after: u64| read(REAL, NITRO_ROOT, at.after(after * Nanos::SECOND));
    let document = read_at(0).expect("Amazon's signature");
    assert!(document.module.starts_with("i-"), "{}", document.module);
    assert_eq!(document.measurement[..4], [0xf4, 0xd4, 0x8b, 0x81]);
    assert_eq!(document.nonce.len(), 256);
    assert!(document.time.0.abs_diff(at.0) < 3_600 * Nanos::SECOND, "{document:?}");
    let why = read_at(4 * 3_600).expect_err("its certificate is for three hours");
    assert!(why.to_string().starts_with("attestation refused: expired certificate"), "{why}");
    let digest = ring::digest::digest(&ring::digest::SHA256, NITRO_ROOT);
    let published = "641a0321a3e244efe456463195d606317ed7cdcc3c1756e09893f3c68f79bb5b";
    assert_eq!(strategy::signature::hex(digest.as_ref()), published);
    // Control: any other root, any other byte.
    let other = attestor();
    let why = read(REAL, other.certificate(), at).expect_err("another root");
    assert!(matches!(why, Refused::Signer(_)), "{why}");
    for place in [100, 700, 1_500, REAL.len() - 1] {
        let mut bytes = REAL.to_vec();
        bytes[place] ^= 1;
        assert!(read(&bytes, NITRO_ROOT, at).is_err(), "byte {place}");
    }
}

#[test]
fn only_a_fresh_answer_of_the_right_code_and_signer_is_admitted() {
    let (attestor, other) = (attestor(), attestor());
    let root = attestor.certificate();
    let expected = measure(PROGRAM);
    let nonce = [3; 32];
    let challenges = || {
        let mut of = Challenges::default();
        of.issue(nonce, NOW);
        of
    };
    let right = document(&attestor, &nonce, NOW);
    let mut of = challenges();
    let admitted = of.admit(&right, (root, &expected), NOW).expect("it is right");
    assert_eq!((admitted.public_key.len(), admitted.measurement), (32, expected));
    let said = |refused: Result<_, Refused>, line: &str| {
        let why = refused.expect_err(line).to_string();
        assert!(why.starts_with(&format!("attestation refused: {line}")), "{why}");
        assert_eq!(why.lines().count(), 1);
    };
    said(of.admit(&right, (root, &expected), NOW), "replayed");
    said(challenges().admit(&right, (root, &measure(b"other")), NOW), "wrong measurement: ");
    said(challenges().admit(&right, (other.certificate(), &expected), NOW), "wrong signer");
    let elsewhere = document(&other, &nonce, NOW);
    said(challenges().admit(&elsewhere, (root, &expected), NOW), "wrong signer");
    let late = NOW.after(FRESH_NS + Nanos::MILLI);
    said(
        challenges().admit(&right, (root, &expected), late),
        "stale nonce: given out 10001 ms ago",
    );
    let unasked = document(&attestor, &[4; 32], NOW);
    said(challenges().admit(&unasked, (root, &expected), NOW), "unknown nonce");
    let expired = NOW.after(4 * 3_600 * Nanos::SECOND);
    said(challenges().admit(&right, (root, &expected), expired), "expired certificate");
    let early = Nanos(NOW.0 - 300 * Nanos::SECOND);
    said(challenges().admit(&right, (root, &expected), early), "a certificate is not valid before");
    let zero = Claim { measurement: &[0; 48], public_key: &[7; 32], nonce: &nonce };
    let debugged = attestor.attest(&zero, NOW).expect("a document");
    said(challenges().admit(&debugged, (root, &[0; 48]), NOW), "the enclave is debugged");
    let keyless = Claim { measurement: &expected, public_key: &[], nonce: &nonce };
    let keyless = attestor.attest(&keyless, NOW).expect("a document");
    said(challenges().admit(&keyless, (root, &expected), NOW), "no public key");
    // A refused answer is an answer: its nonce can't be tried again with another document.
    let mut of = challenges();
    said(of.admit(&debugged, (root, &expected), NOW), "the enclave is debugged");
    said(of.admit(&right, (root, &expected), NOW), "replayed");
}

#[test]
fn a_key_that_the_root_has_not_certified_signs_nothing() {
    // The root's own certificate in place of one below it, and a document with the parts of two.
    let attestor = attestor();
    let key = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).expect("a key");
    assert!(Attestor::new(&key.serialize_pem(), "no certificate").is_err());
    let (one, two) = (document(&attestor, &[1; 32], NOW), document(&attestor, &[2; 32], NOW));
    // The signature is the last 96 bytes.
    let mixed = [&one[..one.len() - 96], &two[two.len() - 96..]].concat();
    assert_eq!(read(&mixed, attestor.certificate(), NOW), Err(Refused::Signature));
}

#[test]
fn bytes_that_are_no_document_are_refused_and_nothing_panics() {
    let attestor = attestor();
    let right = document(&attestor, &[1; 32], NOW);
    let read = |bytes: &[u8]| read(bytes, attestor.certificate(), NOW);
    let believed = read(&right);
    assert!(believed.is_ok());
    for len in (0..right.len()).step_by(7) {
        assert!(read(&right[..len]).is_err(), "{len} bytes");
    }
    assert_eq!(read(&vec![0x81; DOCUMENT_MAX + 1]), Err(Refused::Malformed("too long")));
    // Deeply nested, and longer than what follows.
    for bytes in [vec![0x81; DOCUMENT_MAX], [&[0x9b][..], &[0xff; 8]].concat()] {
        assert!(read(&bytes).is_err());
    }
    let mut random = types::SplitMix64::new(29);
    for round in 0..100 {
        let mut bytes = right.clone();
        let place = random.below(bytes.len() as u64) as usize;
        bytes[place] = bytes[place].wrapping_add(1 + random.below(255) as u8);
        assert_ne!(read(&bytes), believed, "seed 29, round {round}, byte {place}");
    }
}

/// A guest in a thread: attests by `attest` and then answers each frame by what `serve` makes of it.
fn guest(
    stream: UnixStream,
    attest: impl FnOnce(&[u8], &[u8]) -> Vec<u8> + Send + 'static,
    serve: impl Fn(&[u8]) -> Vec<u8> + Send + 'static,
) -> std::thread::JoinHandle<u64> {
    std::thread::spawn(move || {
        let attest = |nonce: &[u8], key: &[u8]| Ok(attest(nonce, key));
        let Ok(mut link) = link::Link::open(stream, attest) else { return 0 };
        let mut heard = 0;
        while let Ok(frame) = link.receive() {
            heard += 1;
            let answer = serve(frame);
            if link.send(&answer).is_err() {
                break;
            }
        }
        heard
    })
}

fn attested(nonce: &[u8], key: &[u8], program: &[u8], of: &Attestor) -> Vec<u8> {
    let measurement = measure(program);
    let claim = Claim { measurement: &measurement, public_key: key, nonce };
    of.attest(&claim, NOW).expect("a document")
}

/// Opens a boundary to a guest that runs `program`; what the guest heard, if anything.
fn opened(
    program: &'static [u8],
    serve: impl Fn(&[u8]) -> Vec<u8> + Send + 'static,
) -> (Result<Boundary<UnixStream>, BoundaryError>, std::thread::JoinHandle<u64>) {
    let attestor = attestor();
    let root = attestor.certificate().to_vec();
    let (host, stream) = UnixStream::pair().expect("a pair");
    let attest = move |nonce: &[u8], key: &[u8]| attested(nonce, key, program, &attestor);
    let thread = guest(stream, attest, serve);
    let mut challenges = Challenges::default();
    let nonce = [9; 32];
    challenges.issue(nonce, NOW);
    let expected = measure(PROGRAM);
    let admit = |bytes: &[u8]| challenges.admit(bytes, (&root, &expected), NOW);
    (Boundary::open(host, &nonce, admit), thread)
}

#[test]
fn keys_go_to_the_right_code_alone() {
    let (boundary, thread) = opened(PROGRAM, <[u8]>::to_vec);
    let mut boundary = boundary.expect("it is the right code");
    for bytes in [&b""[..], b"released", &[5; 60_000]] {
        boundary.send(bytes).expect("it is there");
        assert_eq!(boundary.receive().expect("an answer"), bytes);
    }
    drop(boundary);
    assert_eq!(thread.join().expect("a guest"), 3);
    // Control: other code is told why by nobody, and gets nothing at all.
    let (boundary, thread) = opened(b"other code", <[u8]>::to_vec);
    match boundary {
        Err(BoundaryError::Refused(Refused::Measurement(_))) => {}
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("other code has keys"),
    }
    assert_eq!(thread.join().expect("a guest"), 0);
}

type Shared = Arc<Mutex<Vec<u8>>>;

/// A stream that keeps what goes through, and once told to changes the last byte of what comes.
struct Tapped {
    stream: UnixStream,
    sent: Shared,
    change: Arc<AtomicBool>,
}

impl Write for Tapped {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let len = self.stream.write(bytes)?;
        self.sent.lock().expect("a lock").extend_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.flush()
    }
}

impl Read for Tapped {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let len = self.stream.read(to)?;
        // Not a frame's length, which comes alone.
        if self.change.load(Ordering::Relaxed) && len > 4 {
            to[len - 1] ^= 1;
        }
        Ok(len)
    }
}

#[test]
fn who_sits_on_the_boundary_reads_and_changes_nothing() {
    for changed in [false, true] {
        let attestor = attestor();
        let root = attestor.certificate().to_vec();
        let (host, stream) = UnixStream::pair().expect("a pair");
        let attest = move |nonce: &[u8], key: &[u8]| attested(nonce, key, PROGRAM, &attestor);
        let thread = guest(stream, attest, <[u8]>::to_vec);
        let (sent, change) = (Shared::default(), Arc::new(AtomicBool::new(false)));
        let tapped =
            Tapped { stream: host, sent: Shared::clone(&sent), change: Arc::clone(&change) };
        let expected = measure(PROGRAM);
        let mut challenges = Challenges::default();
        challenges.issue([9; 32], NOW);
        let admit = |bytes: &[u8]| challenges.admit(bytes, (&root, &expected), NOW);
        let mut boundary = Boundary::open(tapped, &[9; 32], admit).expect("it is right");
        let secret = b"a price that nobody else has heard yet";
        change.store(changed, Ordering::Relaxed);
        boundary.send(secret).expect("it is there");
        let received = boundary.receive().map(<[u8]>::to_vec);
        let seen = sent.lock().expect("a lock").clone();
        assert!(seen.len() > secret.len());
        assert!(!seen.windows(8).any(|part| secret.windows(8).any(|word| word == part)));
        match (changed, received) {
            (false, Ok(received)) => assert_eq!(received, secret),
            (true, Err(BoundaryError::Forged)) => {}
            (changed, received) => panic!("changed {changed}: {received:?}"),
        }
        drop(boundary);
        thread.join().expect("a guest");
    }
}

#[test]
fn a_program_behind_a_boundary_answers_as_one_in_the_cage_or_is_stopped() {
    let news = News::Start { instruments: &[], price_decimals: 4 };
    let mut told = Vec::new();
    // An order and a cancel.
    let mut actions = vec![0, 0, 0, 1, 1, 1, 2, 0, 0];
    actions.extend_from_slice(&5_u32.to_le_bytes());
    actions.extend_from_slice(&(-7_i64).to_le_bytes());
    actions.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let answering = |answer: Vec<u8>| {
        let (boundary, thread) = opened(PROGRAM, move |_| answer.clone());
        let boundary = boundary.expect("it is right");
        (Enclave::new("p", "lots=2", boundary, Box::new(|_| ())), thread)
    };
    let (mut of, _guest) = answering(actions);
    of.tell(&news, &mut told).expect("two actions");
    let [Action::Order { instrument, side, qty, price, life, rests }, Action::Cancel { id: 3 }] =
        told[..]
    else {
        panic!("{told:?}");
    };
    assert_eq!((instrument.0, side, qty, price.0), (0x0201, Side::Buy, 5, -7));
    assert!(life == TimeInForce::ImmediateOrCancel && rests);
    for (answer, why) in [
        (b"\x01no lots\n".to_vec(), "refused to start: no lots at its start"),
        (vec![0; 20], "answered what is no answer at its start"),
        (vec![], "answered what is no answer at its start"),
        ([&[0, 9][..], &[0; 19]].concat(), "answered what is no action at its start"),
        ([&[0, 0, 2][..], &[0; 18]].concat(), "answered what is no action at its start"),
        (vec![0; 1 + 20 * 4_097], "answered with 4097 actions at its start"),
    ] {
        let (mut of, _guest) = answering(answer);
        assert_eq!(of.tell(&news, &mut told), Err(why.to_string()));
    }
}

#[test]
fn a_crossing_is_believed_within_its_round_trip() {
    let crossing = |heard| Crossing { sent: 100, heard, answered: 140 }.one_way_ns();
    assert_eq!([100, 130, 140, 141, 99, 0, u64::MAX].map(crossing), [0, 30, 40, 20, 20, 20, 20]);
}
