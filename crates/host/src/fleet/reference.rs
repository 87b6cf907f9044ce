//! Whose clock the machines of a venue follow: the replica that leads appoints a root.
//!
//! A reference stays as long as its process is connected. When that is away for two seconds, or is back but was
//! started again and so knows nothing of the time that it gave, the root whose clock claims the least
//! error among those that followed it goes on in its place; where none did, the one that leads.
//! Appointments have numbers: the term of whoever appoints, and a count within it, so that a
//! replica that leads no more is not listened to.
//!
//! A reference gives its free-running clock, corrected by what it knew when it was appointed. A process that
//! was started again does not know that, so it is not told that it is the reference: all others would follow
//! it over the difference.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::messages::Followed;
use crate::clock_agent::UNKNOWN_NS;

/// How long a reference may be away.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a connected machine said last.
#[derive(Clone, Copy, Debug)]
struct Said {
    follows: Followed,
    bound_ns: u64,
}

/// The appointment of references by one replica.
#[derive(Debug, Default)]
pub struct References {
    /// By number.
    connected: BTreeMap<u16, Said>,
    /// The last one that anybody said it follows, or that was appointed here.
    newest: Followed,
    /// The newest one was appointed here with no time to go on from, and has not said yet that it gives it.
    begins: bool,
    /// The term in which this replica leads, and since when it does or the reference is away.
    term: u64,
    since: Option<Instant>,
}

impl References {
    /// A machine is connected, or says how it is.
    pub fn hear(&mut self, number: u16, follows: Followed, bound_ns: u64) {
        self.connected.insert(number, Said { follows, bound_ns });
        if follows.epoch > self.newest.epoch {
            (self.newest, self.begins) = (follows, false);
        }
        if number == self.newest.number && follows == self.newest {
            self.begins = false;
        }
    }

    /// A connection ended.
    pub fn leave(&mut self, number: u16) {
        self.connected.remove(&number);
    }

    /// The last appointment; of number 0 as long as there is none.
    pub fn newest(&self) -> Followed {
        self.newest
    }

    /// What the connected machine `number` is to be told that it follows: the last appointment, or nothing
    /// ([`Followed::default`]) where it is the reference and has been started again since.
    pub fn to_tell(&self, number: u16) -> Followed {
        let knows = self.connected.get(&number).is_some_and(|said| said.follows.epoch > 0);
        match number != self.newest.number || knows || self.begins {
            true => self.newest,
            false => Followed::default(),
        }
    }

    /// Looks whether another reference is wanted, and appoints it: in `term` the machine numbered
    /// `leader` leads, one of `roots`; 0: another replica does. `fresh`: no machine ever took part, so
    /// there is none to wait for. True when one was appointed.
    pub fn look(
        &mut self,
        now: Instant,
        (term, leader): (u64, u16),
        roots: &[u16],
        fresh: bool,
    ) -> bool {
        if term == 0 {
            (self.term, self.since) = (0, None);
            return false;
        }
        if self.term != term {
            (self.term, self.since) = (term, Some(now));
        }
        let Followed { number, epoch } = self.newest;
        if self.connected.get(&number).is_some_and(|said| said.follows == self.newest) {
            self.since = None;
            return false;
        }
        let since = *self.since.get_or_insert(now);
        let fit = |(at, said): (&u16, &Said)| {
            let knows = said.follows.epoch == epoch && said.bound_ns < UNKNOWN_NS;
            (epoch > 0 && knows && roots.contains(at)).then_some((said.bound_ns, *at))
        };
        let best = self.connected.iter().filter(|(at, _)| **at != number).filter_map(fit).min();
        let said = self.connected.get(&number).filter(|_| !self.begins);
        let was_restarted = epoch > 0 && said.is_some_and(|said| said.follows.epoch == 0);
        let nobody_to_wait_for =
            (fresh && epoch == 0) || (was_restarted && (best.is_some() || roots == [number]));
        if !nobody_to_wait_for && now.duration_since(since) < PATIENCE {
            return false;
        }
        let number = best.map_or(leader, |(_, at)| at);
        self.newest = Followed { number, epoch: (term << 16).max(epoch + 1) };
        self.begins = best.is_none();
        self.since = Some(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOTS: [u16; 3] = [1, 2, 3];

    struct Trial {
        of: References,
        now: Instant,
    }

    impl Trial {
        fn new() -> Trial {
            Trial { of: References::default(), now: Instant::now() }
        }

        /// Goes on for so many ms, with a look every 50; the last appointment.
        fn on(&mut self, ms: u64, term: u64, leader: u16) -> Option<Followed> {
            let mut last = None;
            for _ in 0..ms / 50 {
                self.now += Duration::from_millis(50);
                if self.of.look(self.now, (term, leader), &ROOTS, false) {
                    last = Some(self.of.newest());
                }
            }
            last
        }

        fn all_follow(&mut self, followed: Followed) {
            (1..=5).for_each(|n| self.of.hear(n, followed, 1_000 + u64::from(n)));
        }
    }

    #[test]
    fn the_first_one_is_whoever_leads_at_once_in_a_new_venue() {
        let mut trial = Trial::new();
        let now = trial.now;
        assert!(!trial.of.look(now, (0, 0), &ROOTS, true));
        assert!(trial.of.look(now, (3, 2), &ROOTS, true));
        assert_eq!(trial.of.newest(), Followed { number: 2, epoch: 3 << 16 });
        // In one that is not new, those who have one are waited for.
        let mut trial = Trial::new();
        assert_eq!(trial.on(1_900, 3, 2), None);
        assert_eq!(trial.on(300, 3, 2).map(|of| of.number), Some(2));
    }

    #[test]
    fn one_that_is_there_stays_whoever_leads() {
        let mut trial = Trial::new();
        let first = Followed { number: 1, epoch: 5 << 16 };
        trial.all_follow(first);
        assert_eq!(trial.on(10_000, 7, 3), None);
        // Away for a moment, and there again.
        trial.of.leave(1);
        assert_eq!(trial.on(1_500, 7, 3), None);
        trial.of.hear(1, first, 0);
        assert_eq!(trial.on(10_000, 7, 3), None);
        assert_eq!(trial.of.newest(), first);
    }

    #[test]
    fn the_root_that_is_least_wrong_goes_on_for_one_that_is_gone_or_was_started_again() {
        for gone in [true, false] {
            let mut trial = Trial::new();
            trial.all_follow(Followed { number: 1, epoch: 5 << 16 });
            match gone {
                true => trial.of.leave(1),
                false => trial.of.hear(1, Followed::default(), UNKNOWN_NS),
            }
            assert_eq!(trial.of.to_tell(2), trial.of.newest());
            // Without the time that it gave it is not to go on giving it.
            assert_eq!(trial.of.to_tell(1), Followed::default());
            let patience = if gone { 2_100 } else { 50 };
            let second = trial.on(patience, 7, 3).expect("appointed");
            assert_eq!(second, Followed { number: 2, epoch: 7 << 16 });
            assert_eq!((1..=3).map(|n| trial.of.to_tell(n)).collect::<Vec<_>>(), [second; 3]);
            trial.all_follow(second);
            assert_eq!(trial.on(9_000, 7, 3), None);
            // In the same term the count goes on; nobody's clock is taken that does not follow.
            trial.of.leave(2);
            trial.of.hear(1, second, UNKNOWN_NS);
            trial.of.hear(3, Followed { number: 1, epoch: 5 << 16 }, 10);
            let third = trial.on(2_100, 7, 3).expect("appointed");
            assert_eq!(third, Followed { number: 3, epoch: (7 << 16) + 1 });
        }
    }

    #[test]
    fn one_that_begins_is_told_until_it_has_said_so_and_not_after_it_was_started_again() {
        let mut trial = Trial::new();
        trial.of.hear(2, Followed::default(), UNKNOWN_NS);
        assert!(trial.of.look(trial.now, (3, 2), &ROOTS, true));
        let first = trial.of.newest();
        // Connected again before it heard of it.
        trial.of.leave(2);
        trial.of.hear(2, Followed::default(), UNKNOWN_NS);
        assert_eq!(trial.of.to_tell(2), first);
        trial.of.hear(2, first, 0);
        trial.of.hear(2, Followed::default(), UNKNOWN_NS);
        assert_eq!(trial.of.to_tell(2), Followed::default());
        // The only root goes on at once, as another reference.
        let now = trial.now;
        assert!(trial.of.look(now, (3, 2), &[2], false));
        assert_eq!(trial.of.to_tell(2), Followed { number: 2, epoch: first.epoch + 1 });
    }

    #[test]
    fn one_that_leads_no_more_appoints_nobody_and_a_later_term_outbids_it() {
        let mut trial = Trial::new();
        trial.all_follow(Followed { number: 1, epoch: (5 << 16) + 9 });
        trial.of.leave(1);
        assert_eq!(trial.on(60_000, 0, 0), None);
        assert_eq!(trial.on(2_100, 6, 2).map(|of| of.epoch), Some(6 << 16));
        // Said by somebody who has heard of a later one already: that stays.
        trial.of.hear(4, Followed { number: 3, epoch: 8 << 16 }, 500);
        trial.of.hear(3, Followed { number: 3, epoch: 8 << 16 }, 0);
        assert_eq!(trial.on(9_000, 6, 2), None);
    }
}
