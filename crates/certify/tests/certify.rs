//! Our own clients pass; clients that do one thing wrong fail the step that is about it.

mod world;

use certify::{Protocol, Report, Status, Step};
use world::{Fault, World};

/// Longer than everything but the goodbye takes.
const SECONDS: u64 = 200;

fn certify(protocol: Protocol, fault: Fault) -> Report {
    World::new(protocol, fault, SECONDS).certify()
}

fn failed(report: &Report) -> Vec<&'static str> {
    let bad = report.steps.iter().filter(|step| matches!(step.status, Status::Failed(_)));
    bad.map(|step| step.name).collect()
}

#[test]
fn our_clients_pass_over_both_protocols() {
    for protocol in [Protocol::Ouch, Protocol::Fix] {
        let report = certify(protocol, Fault::Nothing);
        assert!(report.passed(), "{}", report.to_markdown());
        let left_out = report.steps.iter().filter(|step| step.status == Status::LeftOut).count();
        assert_eq!(left_out, if protocol == Protocol::Ouch { 4 } else { 0 });
    }
}

#[test]
fn a_wrong_client_fails_the_right_step() {
    let cases = [
        (Protocol::Fix, Fault::IgnoresGaps, "gap"),
        (Protocol::Fix, Fault::ForgetsTest, "test-request"),
        (Protocol::Fix, Fault::FallsSilent, "heartbeats"),
        (Protocol::Fix, Fault::HasNoStops, "trigger"),
        (Protocol::Ouch, Fault::AsksForAll, "return"),
        (Protocol::Ouch, Fault::FallsSilent, "heartbeats"),
    ];
    for (protocol, fault, step) in cases {
        let report = certify(protocol, fault);
        assert!(!report.passed());
        let first = failed(&report).first().copied();
        assert_eq!(first, Some(step), "{fault:?}: {}", report.to_markdown());
    }
}

#[test]
fn who_does_not_get_in_is_not_judged_further() {
    let report = certify(Protocol::Ouch, Fault::WrongPassword);
    assert_eq!(failed(&report), ["logon"]);
    let reached = report.steps.iter().skip(1).filter(|step| step.status == Status::NotReached);
    assert_eq!(reached.count(), 11);
    // Over FIX it is told why, and so is whoever certifies it.
    let report = certify(Protocol::Fix, Fault::WrongPassword);
    assert_eq!(failed(&report), ["logon"]);
    let told = report.steps[0].status.detail();
    assert!(told.contains("its Logon was refused: Logon refused"), "{told}");
}

#[test]
fn a_step_that_is_not_done_in_time_ends_the_dialogue() {
    let report = certify(Protocol::Fix, Fault::HasNoStops);
    assert_eq!(failed(&report), ["trigger"]);
    assert_eq!(report.steps.last().map(|step| &step.status), Some(&Status::NotReached));
}

#[test]
fn every_step_has_a_name() {
    for step in Step::ALL {
        assert_eq!(Step::named(step.name()), Some(step));
    }
    assert_eq!(Step::named("nothing"), None);
}
