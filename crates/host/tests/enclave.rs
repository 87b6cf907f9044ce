//! What a process of an enclave can't do, and what does not become one.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use host::enclave::{Bounds, Equalizer, Image, Trust, attested, start};
use net::Clock;
use strategy::enclave::attestation::measure;

const BOUNDS: Bounds = Bounds { memory_bytes: 64 << 20, answer: Duration::from_millis(200) };
const EPERM: u8 = 1;
const ENOENT: u8 = 2;
const ENOMEM: u8 = 12;

/// The probe, compiled once; static, as a program for an enclave has to be.
static PROBE: LazyLock<PathBuf> = LazyLock::new(|| {
    let to = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("enclave-probe");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/enclave/probe.c");
    let compiled = Command::new("cc").args(["-static", "-O1", "-o"]).arg(&to).arg(source).status();
    assert!(compiled.expect("a C compiler").success());
    to
});

fn results(mut stream: UnixStream) -> [u8; 8] {
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
    let mut results = [99; 8];
    stream.read_exact(&mut results).expect("the probe writes");
    results
}

#[test]
fn a_process_of_an_enclave_opens_makes_and_runs_nothing() {
    let bytes = std::fs::read(&*PROBE).expect("a file");
    let image = Image::new(&bytes).expect("an executable");
    assert_eq!(image.measurement(), &measure(&bytes));
    let (host, guest) = UnixStream::pair().expect("a pair");
    let (_signs, asks) = UnixStream::pair().expect("a pair");
    let process = start(&image, (guest.into(), asks.into()), &BOUNDS).expect("a process");
    let caged = results(host);
    drop(process);
    assert_eq!(caged, [EPERM, EPERM, EPERM, EPERM, EPERM, ENOMEM, EPERM, EPERM]);
    // Control: the same program outside may do it all; the path that it runs is not there.
    let (host, guest) = UnixStream::pair().expect("a pair");
    let mut free = Command::new(&*PROBE).stdin(OwnedFd::from(guest)).spawn().expect("a process");
    assert_eq!(results(host), [0, 0, 0, 0, 0, 0, ENOENT, 0]);
    assert!(free.wait().expect("it ends").success());
}

#[test]
fn what_does_not_attest_itself_gets_no_keys() {
    let clock = Clock::start(0);
    let trust = Trust::own(clock.now()).expect("randomness");
    let program = std::fs::read(&*PROBE).expect("a file");
    let image = Image::new(&program).expect("an executable");
    let expected = *image.measurement();
    // It says something else than a document.
    let why = attested(&trust, &image, ("probe", ""), (&expected, &BOUNDS, clock));
    let why = why.expect_err("no document").to_string();
    assert!(why.contains("enclave probe: "), "{why}");
    assert!(Image::new(b"#!/bin/sh\n").is_err());
    // A machine without an attestor has no enclaves, and a key of its own does not stand for Amazon's.
    let nobody = Trust::read("nitro", "none").expect("Amazon's root");
    let why = attested(&nobody, &image, ("probe", ""), (&expected, &BOUNDS, clock));
    assert!(why.expect_err("no attestor").to_string().contains("has no attestor"));
    assert!(Trust::read("nitro", "a.key").is_err());
    assert!(Trust::read("/does/not/exist", "none").is_err());
}

#[test]
fn the_slowest_boundary_waits_for_nobody_and_the_others_for_it() {
    let clock = Clock::start(0);
    let equalizer = Equalizer::new(0);
    let mut near = equalizer.hold(1_000_000, clock);
    assert_eq!(equalizer.slowest_ns(), 1_000_000);
    // One that comes later and is farther counts for those that are there.
    let _far = equalizer.hold(5_000_000, clock);
    assert_eq!(equalizer.slowest_ns(), 5_000_000);
    let released = clock.now();
    near(released);
    assert!(clock.now().since(released) >= 4_000_000);
    // One that is as far has nothing to add.
    let _as_far = equalizer.hold(5_000_000, clock);
    assert_eq!(equalizer.slowest_ns(), 5_000_000);
    // What the configuration says is the least.
    assert_eq!(Equalizer::new(7).slowest_ns(), 7);
}
