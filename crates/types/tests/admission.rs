//! Places for connections, against the rules said the naive way.

use proptest::prelude::*;
use types::{Address, Admission, AdmissionConfig, Nanos, Yields};

const PATIENCE: u64 = 50;

fn config(yields: Yields) -> AdmissionConfig {
    AdmissionConfig { places: 6, places_per_source: 3, patience_ns: PATIENCE, yields }
}

fn from(number: u32) -> Option<Address> {
    (number > 0).then(|| Address::v4(0x0A00_0000 + number))
}

/// The rules, from a list of all who are there: connection, source, when it came.
#[derive(Default)]
struct Naive(Vec<(u32, Option<Address>, u64)>);

impl Naive {
    fn of(&self, source: Option<Address>) -> Vec<u32> {
        self.0.iter().filter(|one| one.1 == source).map(|one| one.0).collect()
    }

    fn arrive(
        &mut self,
        config: &AdmissionConfig,
        one: (u32, Option<Address>, u64),
    ) -> Option<u32> {
        self.0.retain(|other| other.0 != one.0);
        self.0.push(one);
        let own = self.of(one.1);
        let candidates: Vec<u32> = if one.1.is_some() && own.len() > config.places_per_source {
            own
        } else if self.0.len() > config.places {
            let most = self.0.iter().map(|other| self.of(other.1).len()).max()?;
            let of_most = self.0.iter().filter(|other| self.of(other.1).len() == most);
            of_most.map(|other| other.0).collect()
        } else {
            return None;
        };
        let goes = match config.yields {
            Yields::Oldest => *candidates.first()?,
            Yields::Newest => *candidates.last()?,
        };
        self.0.retain(|other| other.0 != goes);
        Some(goes)
    }

    fn expire(&mut self, now: u64) -> Vec<u32> {
        let late = self.0.iter().filter(|one| one.2 + PATIENCE <= now).map(|one| one.0).collect();
        self.0.retain(|one| one.2 + PATIENCE > now);
        late
    }
}

#[derive(Clone, Debug)]
enum Step {
    Arrive(u32, u32),
    Leave(u32),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u32..24, 0u32..5).prop_map(|(id, source)| Step::Arrive(id, source)),
        2 => (0u32..24).prop_map(Step::Leave),
        1 => (0u64..40).prop_map(Step::Wait),
    ]
}

proptest! {
    #[test]
    fn places_go_by_the_rules_whatever_comes(
        steps in proptest::collection::vec(step(), 0..200), newest in any::<bool>(),
    ) {
        let config = config(if newest { Yields::Newest } else { Yields::Oldest });
        let (mut ours, mut naive, mut now) = (Admission::new(config), Naive::default(), 1_000);
        for step in steps {
            match step {
                Step::Arrive(id, source) => {
                    let expected = naive.arrive(&config, (id, from(source), now));
                    prop_assert_eq!(ours.arrive(Nanos(now), id, from(source)), expected);
                }
                Step::Leave(id) => {
                    let there = naive.0.iter().any(|one| one.0 == id);
                    naive.0.retain(|one| one.0 != id);
                    prop_assert_eq!(ours.leave(id), there);
                }
                Step::Wait(time) => {
                    now += time;
                    let late: Vec<u32> =
                        std::iter::from_fn(|| ours.expire(Nanos(now))).collect();
                    prop_assert_eq!(late, naive.expire(now));
                }
            }
            prop_assert_eq!(ours.len(), naive.0.len());
            prop_assert!(ours.len() <= config.places);
            prop_assert!(naive.0.iter().all(|one| ours.contains(one.0)));
            let due = naive.0.first().map_or(Nanos::NEVER, |one| Nanos(one.2 + PATIENCE));
            prop_assert_eq!(ours.next_timeout(), due);
        }
    }
}

/// Whether a patient newcomer keeps its place while another source opens connections without end.
fn keeps_its_place(config: AdmissionConfig, others: impl Fn(u32) -> Option<Address>) -> bool {
    let mut places = Admission::new(config);
    assert_eq!(places.arrive(Nanos(0), 0, from(1)), None);
    (1..1_000).all(|id| places.arrive(Nanos(0), id, others(id)) != Some(0))
}

#[test]
fn a_source_that_opens_without_end_stands_in_its_own_way_alone() {
    for yields in [Yields::Oldest, Yields::Newest] {
        assert!(keeps_its_place(config(yields), |_| from(2)));
        assert!(keeps_its_place(config(yields), |id| from(2 + id % 3)), "two places each at least");
    }
    // Control: without shares of sources, the oldest of all would go.
    let alike = |_| None;
    let no_shares = AdmissionConfig { places_per_source: 1_000, ..config(Yields::Oldest) };
    let mut places = Admission::new(no_shares);
    assert_eq!(places.arrive(Nanos(0), 0, None), None);
    assert!((1..1_000).any(|id| places.arrive(Nanos(0), id, alike(id)) == Some(0)));
}

#[test]
fn a_newcomer_of_a_source_that_is_served_too_much_is_turned_away_itself() {
    let mut places = Admission::new(config(Yields::Newest));
    assert!((0..3).all(|id| places.arrive(Nanos(0), id, from(1)).is_none()));
    assert_eq!(places.arrive(Nanos(0), 3, from(1)), Some(3), "its share is used up");
    assert!((4..7).all(|id| places.arrive(Nanos(0), id, from(2)).is_none()));
    assert_eq!(places.arrive(Nanos(0), 7, from(3)), Some(6), "room is made for a third source");
    assert!(places.contains(7) && !places.contains(3));
}

#[test]
fn a_clock_set_back_keeps_nobody_longer() {
    let mut places = Admission::new(config(Yields::Oldest));
    assert_eq!(places.arrive(Nanos(1_000), 1, None), None);
    assert_eq!(places.arrive(Nanos(10), 2, None), None);
    assert_eq!(places.next_timeout(), Nanos(1_050));
    assert_eq!((places.expire(Nanos(1_049)), places.expire(Nanos(1_050))), (None, Some(1)));
    assert_eq!((places.expire(Nanos(1_050)), places.expire(Nanos(1_050))), (Some(2), None));
}
