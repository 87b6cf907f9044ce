//! Two zones: what a layout promises is what it costs.

use sim::zones::{LAYOUTS, Options, Row, run};

fn row(name: &str, options: &Options) -> Row {
    let layout = LAYOUTS.into_iter().find(|layout| layout.name == name).expect("a layout");
    run(layout, options)
}

/// Far zones, little load: a test, not a table.
fn options() -> Options {
    Options { rate: 1_000, duration_ns: 2_000_000_000, far_ns: 10_000_000, ..Options::default() }
}

#[test]
fn who_waits_for_the_other_zone_pays_its_round_trip() {
    let options = options();
    let way = options.far_ns;
    for (name, waits) in [
        ("three in A", false),
        ("three in A, copy in B", false),
        ("two in A, one in B", false),
        ("three in A, two in B", false),
        ("one in A, two in B", true),
        ("two in A, three in B", true),
    ] {
        let Row { calm, .. } = row(name, &options);
        assert!(calm.records > 1_900, "{name}: {calm:?}");
        let round_trip = 2 * way..=2 * way + way;
        assert_eq!(round_trip.contains(&calm.p50_ns), waits, "{name}: {calm:?}");
        assert!(waits || calm.p50_ns < 2_000_000, "{name}: {calm:?}");
    }
}

#[test]
fn a_lost_zone_takes_with_it_what_only_it_had() {
    let options = options();
    // Nobody there, or nobody there for most.
    for name in
        ["three in A", "three in A, copy in B", "two in A, one in B", "three in A, two in B"]
    {
        let loss = row(name, &options).without_a;
        assert_eq!(loss.serves_after_ns, None, "{name}: {loss:?}");
        assert!(loss.told > 1_900 && loss.missing > 0, "{name}: {loss:?}");
        // All of it, or what was on its way.
        let copy = name != "three in A";
        assert_eq!(loss.missing < 100, copy, "{name}: {loss:?}");
    }
    for name in ["one in A, two in B", "two in A, three in B"] {
        let loss = row(name, &options).without_a;
        assert_eq!(loss.missing, 0, "{name}: {loss:?}");
        assert!(loss.serves_after_ns.is_some_and(|ns| ns < 1_000_000_000), "{name}: {loss:?}");
        assert!(loss.after.records > 1_000, "{name}: {loss:?}");
    }
}

#[test]
fn the_other_zone_may_go_where_most_are_here() {
    let options = options();
    for row in LAYOUTS.map(|layout| run(layout, &options)) {
        let here = row.layout.replicas.iter().filter(|zone| **zone == sim::zones::Zone::A).count();
        let serves = 2 * here > row.layout.replicas.len();
        let loss = row.without_b;
        assert_eq!(loss.serves_after_ns.is_some(), serves, "{loss:?}");
        assert_eq!(loss.after.records > 1_900, serves, "{}: {loss:?}", row.layout.name);
        assert!(!serves || loss.after.p99_ns < 3_000_000, "{}: {loss:?}", row.layout.name);
    }
}

#[test]
fn a_seed_decides_everything() {
    let other = Options { seed: 2, ..options() };
    let layout = LAYOUTS[3];
    assert_eq!(run(layout, &options()), run(layout, &options()));
    assert_ne!(run(layout, &options()).calm, run(layout, &other).calm);
}
