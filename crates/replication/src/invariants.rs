//! What holds of a replica between any two calls, and of the work that it is given.
//!
//! These are about our own code and the consensus library; what other replicas say and what a disk
//! holds is refused where it is read ([`crate::DecodeError`], [`crate::ConfigError`]).

use crate::{Entry, Replica, Standing, Work, Write};

/// Whether entries have positions in a row from one behind `before`.
pub(crate) fn are_dense(before: u64, entries: &[Entry]) -> bool {
    let first = entries.first().is_none_or(|first| first.position == before + 1);
    let last = before + entries.len() as u64;
    first && entries.last().is_none_or(|entry| entry.position == last)
}

impl Write {
    /// Whether its entries are in a row, from where the log is taken back to, if it is: the same for
    /// whoever gives a write away and for whoever performs it.
    pub(crate) fn is_in_order(&self) -> bool {
        let first = self.entries.first().map(|first| first.position);
        let dense = first.is_none_or(|first| first > 0 && are_dense(first - 1, &self.entries));
        dense && self.kept.is_none_or(|kept| first.is_some_and(|first| first == kept + 1))
    }
}

impl Replica {
    /// The next work goes on from all that was taken before.
    pub(crate) fn assert_follows(&self, work: &Work) {
        assert_eq!(work.number, self.newest_work + 1, "works are numbered one by one");
        let begins = work.restore.as_ref().map_or(self.applied, |install| install.info.position);
        assert!(begins >= self.applied, "a snapshot takes nothing back that was applied");
        assert!(are_dense(begins, &work.committed), "each committed record is applied once");
        let write = work.write.as_ref();
        assert!(write.is_none_or(Write::is_in_order), "what is written is in a row");
        let kept = write.and_then(|write| write.kept);
        assert!(kept.is_none_or(|kept| kept >= self.applied), "what is applied stays");
    }

    /// What was given to be applied is committed, and works wait in the order of their numbers.
    pub(crate) fn assert_applied(&self) {
        assert!(self.applied <= self.core.committed(), "only what is committed is applied");
        let (first, last) = (self.writing.front(), self.writing.back());
        if let Some((first, last)) = first.zip(last) {
            let waiting = self.writing.len() as u64;
            assert!(last.number <= self.newest_work && last.number + 1 - first.number == waiting);
            assert!(!first.done, "what is done does not wait");
        }
    }

    /// Where it stands now: terms never fall, and it serves in none but the one that it leads in.
    pub(crate) fn assert_stands(&self, before: &Standing) {
        let Standing { term, leader, leading } = self.standing;
        assert!(term >= before.term, "terms never fall");
        assert!(!leading || leader == Some(self.config.id), "whoever leads knows it");
        assert!(
            self.serving.is_none_or(|serving| leading && serving == term),
            "it serves who leads"
        );
    }
}

#[cfg(test)]
mod tests {
    use types::Nanos;

    use super::*;
    use crate::{Config, Recovered, ReplicaId};

    fn replica() -> Replica {
        let config = Config::new(9, ReplicaId(1), 3);
        Replica::new(config, Recovered::default(), Nanos(0)).expect("a sound configuration")
    }

    fn entry(position: u64) -> Entry {
        Entry { position, term: 1, record: vec![7].into(), group: Vec::new() }
    }

    #[test]
    fn work_that_goes_on_is_taken() {
        let replica = replica();
        let write = Write { entries: vec![entry(1), entry(2)], ..Write::default() };
        let committed = vec![entry(1)];
        let work = Work { number: 1, write: Some(write), committed, ..Work::default() };
        replica.assert_follows(&work);
        replica.assert_stands(&Standing::default());
    }

    #[test]
    #[should_panic(expected = "works are numbered one by one")]
    fn control_no_work_is_left_out() {
        replica().assert_follows(&Work { number: 2, ..Work::default() });
    }

    #[test]
    #[should_panic(expected = "each committed record is applied once")]
    fn control_no_record_is_applied_twice() {
        let mut replica = replica();
        replica.applied = 1;
        let committed = vec![entry(1)];
        replica.assert_follows(&Work { number: 1, committed, ..Work::default() });
    }

    #[test]
    #[should_panic(expected = "what is written is in a row")]
    fn control_no_record_is_written_behind_a_gap() {
        let write = Write { entries: vec![entry(1), entry(3)], ..Write::default() };
        let work = Work { number: 1, write: Some(write), ..Work::default() };
        replica().assert_follows(&work);
    }

    #[test]
    #[should_panic(expected = "what is applied stays")]
    fn control_nothing_that_was_applied_is_taken_back() {
        let mut replica = replica();
        replica.applied = 2;
        let write = Write { kept: Some(1), entries: vec![entry(2)], ..Write::default() };
        replica.assert_follows(&Work { number: 1, write: Some(write), ..Work::default() });
    }

    #[test]
    #[should_panic(expected = "terms never fall")]
    fn control_terms_do_not_fall() {
        replica().assert_stands(&Standing { term: 1, ..Standing::default() });
    }

    #[test]
    #[should_panic(expected = "it serves who leads")]
    fn control_nobody_serves_in_a_term_that_another_leads_in() {
        let mut replica = replica();
        replica.serving = Some(1);
        replica.assert_stands(&Standing::default());
    }

    #[test]
    #[should_panic(expected = "only what is committed is applied")]
    fn control_nothing_is_applied_that_is_not_committed() {
        let mut replica = replica();
        replica.applied = 1;
        replica.assert_applied();
    }
}
