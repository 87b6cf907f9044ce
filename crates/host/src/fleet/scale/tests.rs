//! Loads that rise, fall and swing, and edges that do as they are told or not.

use types::SplitMix64;

use super::*;

fn settings() -> ScaleSettings {
    ScaleSettings {
        by: "command".to_string(),
        command: vec!["machine".to_string()],
        least: 2,
        most: 0,
        up_at: 1_000,
        down_at: 600,
        after: "3s".to_string(),
        cool_down: "10s".to_string(),
        ..ScaleSettings::default()
    }
}

/// Edges that do what they are told: a world of seconds.
struct World {
    scaler: Scaler,
    now: u64,
    /// By edge from 1: when it begins to serve, or is away.
    serving_from: Vec<Option<u64>>,
    leaves_at: Vec<Option<u64>>,
    /// Edges that were told to leave.
    had: Vec<u16>,
    steps: Vec<(u64, Step)>,
}

impl World {
    fn new(settings: ScaleSettings, edges: usize, serving: usize) -> World {
        World {
            scaler: Scaler::new(settings),
            now: 0,
            serving_from: (0..edges).map(|at| (at < serving).then_some(0)).collect(),
            leaves_at: vec![None; edges],
            had: Vec::new(),
            steps: Vec::new(),
        }
    }

    fn serving(&self) -> usize {
        self.serving_from.iter().filter(|from| from.is_some_and(|from| from <= self.now)).count()
    }

    /// Plays seconds with a load that all who serve share; what was done in them.
    fn play(&mut self, seconds: u64, load: u64) -> Vec<Step> {
        let before = self.steps.len();
        for _ in 0..seconds {
            self.now += 1;
            for (from, leaves) in self.serving_from.iter_mut().zip(&mut self.leaves_at) {
                if leaves.is_some_and(|at| at <= self.now) {
                    (*from, *leaves) = (None, None);
                }
            }
            let share = load / (self.serving() as u64).max(1);
            let state = |from: &Option<u64>| match from {
                Some(from) if *from <= self.now => EdgeState::Serving { requests_per_s: share },
                _ => EdgeState::Away,
            };
            let edges: Vec<_> = (1..).zip(self.serving_from.iter().map(state)).collect();
            for step in self.scaler.look(Duration::from_secs(self.now), &edges) {
                match &step {
                    Step::Start(all) => all.iter().for_each(|edge| {
                        self.serving_from[usize::from(*edge) - 1] = Some(self.now + 4);
                    }),
                    Step::Leave(all) => all.iter().for_each(|edge| {
                        self.had.push(*edge);
                        self.leaves_at[usize::from(*edge) - 1] = Some(self.now + 2);
                    }),
                    // Of edges that were never there: told once, to be sure.
                    Step::Stop(all) if all.iter().all(|edge| !self.had.contains(edge)) => continue,
                    Step::Stop(_) | Step::Share => {}
                }
                self.steps.push((self.now, step));
            }
        }
        self.steps[before..].iter().map(|(_, step)| step.clone()).collect()
    }
}

#[test]
fn edges_come_with_the_load_and_go_with_it() {
    let mut world = World::new(settings(), 8, 2);
    assert_eq!(world.play(15, 500), []);
    // 5,000 requests a second are five edges at least.
    let steps = world.play(15, 5_000);
    assert_eq!(steps, [Step::Start(vec![3, 4, 5]), Step::Share]);
    assert_eq!(world.serving(), 5);
    // Five have 1,000 each: not above what they may have, and four would have more than 600.
    assert_eq!(world.play(60, 5_000), []);
    let steps = world.play(120, 500);
    assert_eq!(world.serving(), 2, "{steps:?}");
    let leaves: Vec<_> = steps.iter().filter(|step| matches!(step, Step::Leave(_))).collect();
    assert_eq!(leaves, [&Step::Leave(vec![5]), &Step::Leave(vec![4]), &Step::Leave(vec![3])]);
    assert!(steps.contains(&Step::Stop(vec![5])), "{steps:?}");
    assert_eq!(world.play(100, 0), [], "never fewer than the least");
}

#[test]
fn a_load_between_the_marks_changes_nothing_and_a_peak_is_too_short() {
    let mut world = World::new(settings(), 8, 3);
    for load in [1_300, 2_900, 1_900, 1_250] {
        assert_eq!(world.play(30, load), [], "{load}");
    }
    // Control: the same for longer.
    assert_eq!(world.play(2, 6_000), []);
    assert_eq!(world.play(2, 1_500), []);
    assert!(!world.play(8, 6_000).is_empty());
}

#[test]
fn loads_that_swing_change_no_more_often_than_the_cool_down_lets_them() {
    let seed = 29;
    let mut random = SplitMix64::new(seed);
    let mut world = World::new(settings(), 8, 2);
    for _ in 0..400 {
        let (seconds, load) = (1 + random.below(6), random.below(9_000));
        world.play(seconds, load);
        assert!((2..=8).contains(&(world.serving().max(2))), "seed {seed}");
    }
    let changes: Vec<u64> = (world.steps.iter())
        .filter(|(_, step)| matches!(step, Step::Start(_) | Step::Leave(_)))
        .map(|(at, _)| *at)
        .collect();
    assert!(changes.len() > 5, "seed {seed}: {}", changes.len());
    // But for an edge that is missing.
    let close = changes.windows(2).filter(|pair| pair[1] - pair[0] < 10).count();
    assert_eq!(close, 0, "seed {seed}: {changes:?}");
}

#[test]
fn an_edge_that_does_not_come_is_given_up_and_another_one_is_started() {
    let mut scaler = Scaler::new(settings());
    let mut edges: Vec<(u16, EdgeState)> = (1..=4).map(|edge| (edge, EdgeState::Away)).collect();
    edges[0].1 = EdgeState::Serving { requests_per_s: 10 };
    // An operator has drained this one: it is not to be started.
    edges[1].1 = EdgeState::Unusable;
    let mut steps = Vec::new();
    for second in 0..200 {
        steps.extend(scaler.look(Duration::from_secs(second), &edges));
    }
    let starts: Vec<_> = steps.iter().filter(|step| matches!(step, Step::Start(_))).collect();
    assert_eq!(
        starts,
        [&Step::Start(vec![3]), &Step::Start(vec![3])],
        "the first one that is free"
    );
    assert!(steps.contains(&Step::Stop(vec![3])), "{steps:?}");
    assert!(!steps.iter().any(|step| matches!(step, Step::Stop(of) if of.contains(&2))));
}

#[test]
fn an_edge_that_is_away_for_no_reason_has_its_machine_taken_away_once() {
    // As a replica that comes to lead finds it: somebody else started edge 3 and had it leave.
    let mut scaler = Scaler::new(settings());
    let serving = EdgeState::Serving { requests_per_s: 900 };
    let edges = [(1, serving), (2, serving), (3, EdgeState::Away)];
    let mut steps = Vec::new();
    for second in 0..100 {
        steps.extend(scaler.look(Duration::from_secs(second), &edges));
    }
    assert_eq!(steps, [Step::Stop(vec![3])]);
}

#[test]
fn nobody_has_more_sessions_than_its_share() {
    assert_eq!(excess(&[(1, 4), (2, 4), (3, 0), (4, 0)]), [(1, 2), (2, 2)]);
    assert_eq!(excess(&[(1, 3), (2, 2), (3, 0)]), [(1, 1)]);
    assert_eq!(excess(&[(1, 1), (2, 1), (3, 0)]), []);
    assert_eq!(excess(&[]), []);
    assert_eq!(excess(&[(1, u64::MAX), (2, u64::MAX)]).len(), 2, "no overflow");
}

#[test]
fn wrong_settings_are_said_with_their_key() {
    assert_eq!(ScaleSettings::default().check(0), Ok(()), "nothing is to be scaled");
    assert_eq!(settings().check(8), Ok(()));
    let wrong = |change: &dyn Fn(&mut ScaleSettings)| {
        let mut settings = settings();
        change(&mut settings);
        settings.check(8).expect_err("wrong").0
    };
    assert_eq!(wrong(&|of| of.by = "magic".to_string()), "scale.by");
    assert_eq!(wrong(&|of| of.least = 0), "scale.least");
    assert_eq!(wrong(&|of| of.least = 9), "scale.least");
    assert_eq!(wrong(&|of| of.most = 1), "scale.most");
    assert_eq!(wrong(&|of| of.most = 9), "scale.most");
    assert_eq!(wrong(&|of| of.up_at = 0), "scale.up_at");
    assert_eq!(wrong(&|of| of.down_at = 1_000), "scale.down_at");
    assert_eq!(wrong(&|of| of.after = "soon".to_string()), "scale.after");
    assert_eq!(wrong(&|of| of.cool_down = "2h".to_string()), "scale.cool_down");
    assert_eq!(wrong(&|of| of.command.clear()), "scale.command");
    assert_eq!(wrong(&|of| of.stateful_set = "../edge".to_string()), "scale.stateful_set");
    assert_eq!(wrong(&|of| of.namespace = "a/b".to_string()), "scale.namespace");
}
