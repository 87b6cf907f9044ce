//! What attackers may take from others is bounded, and the bounds are the defences' doing.

use sim::venue::{AttackKind, Harm, harm};

fn small(kind: AttackKind, bounded: bool) -> Harm {
    harm(kind, bounded, (2, 200), &mut |_| {})
}

#[test]
fn every_attack_stays_within_its_bounds() {
    for &kind in AttackKind::ALL {
        let harm = small(kind, true);
        assert!(harm.holds(), "{}: {:?} {:?}", kind.name(), harm.checks, harm.failures);
        assert!(harm.without.messages > 100 && harm.with.messages > 100, "{harm:?}");
        assert!(harm.without.answers > 200 && harm.with.answers == harm.without.answers);
    }
}

#[test]
fn control_without_caps_and_shares_the_bounds_are_broken() {
    use AttackKind::{CancelFlood, ClockAhead, DelayHigh, OrderSpam};
    for kind in [DelayHigh, ClockAhead, OrderSpam, CancelFlood] {
        let harm = small(kind, false);
        let broken = harm.checks.iter().any(|check| !check.holds());
        assert!(broken, "{}: {:?}", kind.name(), harm.checks);
    }
}

#[test]
fn attacks_have_names() {
    for kind in AttackKind::ALL {
        assert_eq!(AttackKind::named(kind.name()), Some(*kind));
        assert!(!kind.about().is_empty());
    }
    assert_eq!(AttackKind::named("bribery"), None);
}
