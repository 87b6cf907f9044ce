//! Nothing public before its release: what left by which way out, and when it was allowed to.
//!
//! The release time of a message of the feed is the deadline with which a root published it, or the
//! time at which it was first sent when it had none; with roots that serve in turn the earliest of
//! theirs. It holds for everything that follows from the message's input, on all ways out alike, by
//! true time less the clock bound. What is heard of a message before any root has published it is
//! judged at the end, when all of them have.

use types::Nanos;

use super::report::{Checker, Failures};

/// Remarks kept until the end.
const KEPT_MAX: usize = 4_096;
/// Numbers of messages that a run never reaches.
const MESSAGES_MAX: u64 = 1 << 22;

/// A way out of the exchange.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Outlet {
    /// The feed, as receivers hand it on.
    Feed,
    /// Retransmission servers: the root's, whoever leads, and those of roots that follow.
    Retransmission,
    /// Snapshots of the books.
    Snapshot,
    /// Executions to whom they concern.
    Execution,
    /// Copies of them, over FIX.
    DropCopy,
    /// Market data over FIX.
    MarketData,
}

impl Outlet {
    /// Every way out, in the order of the counts in a report.
    pub const ALL: [Outlet; 6] = [
        Outlet::Feed,
        Outlet::Retransmission,
        Outlet::Snapshot,
        Outlet::Execution,
        Outlet::DropCopy,
        Outlet::MarketData,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Outlet::Feed => "feed",
            Outlet::Retransmission => "retransmission",
            Outlet::Snapshot => "snapshot",
            Outlet::Execution => "execution",
            Outlet::DropCopy => "drop copy",
            Outlet::MarketData => "market data over FIX",
        }
    }
}

/// What something that left depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum On {
    /// All messages of a stream up to this one.
    Message(usize, u64),
    /// A trade, by its number.
    Trade(u64),
}

/// Something left before its time, as far as was known then.
struct Remark {
    at: Nanos,
    outlet: Outlet,
    node: usize,
    on: On,
}

/// When a message is public, and when a root first said so.
#[derive(Clone, Copy)]
struct Release {
    due: Nanos,
    said: Nanos,
}

const UNKNOWN: Release = Release { due: Nanos::NEVER, said: Nanos::NEVER };

/// The checker: when each message may be heard, and what was heard before that.
pub(super) struct Early {
    bound_ns: u64,
    /// By stream, by message less one.
    releases: Vec<Vec<Release>>,
    remarks: Vec<Remark>,
    forgotten: u64,
    /// By outlet: how often something was looked at.
    looked: [u64; Outlet::ALL.len()],
}

impl Early {
    pub(super) fn new(streams: usize, bound_ns: u64) -> Early {
        let releases = vec![Vec::new(); streams];
        let looked = [0; Outlet::ALL.len()];
        Early { bound_ns, releases, remarks: Vec::new(), forgotten: 0, looked }
    }

    /// A root sends messages `seq` to `end` less one with this deadline.
    pub(super) fn published(
        &mut self,
        at: Nanos,
        stream: usize,
        (seq, end): (u64, u64),
        due: Nanos,
    ) {
        let Some(releases) = self.releases.get_mut(stream) else { return };
        if seq == 0 || seq >= end || end > MESSAGES_MAX {
            return;
        }
        if releases.len() < end as usize - 1 {
            releases.resize(end as usize - 1, UNKNOWN);
        }
        let due = if due == Nanos(0) { at } else { due };
        for release in releases.iter_mut().take(end as usize - 1).skip(seq as usize - 1) {
            if at < release.said {
                *release = Release { due: due.min(release.due), said: at };
            } else if due >= release.said {
                // Nobody can have meant a time before it was first said.
                release.due = release.due.min(due);
            }
        }
    }

    /// Something leaves.
    pub(super) fn leaves(
        &mut self,
        at: Nanos,
        outlet: Outlet,
        node: usize,
        on: On,
        tick: impl Fn(u64) -> Option<(usize, u64)>,
    ) {
        self.looked[outlet as usize] += 1;
        let position = position_of(on, tick);
        if position.is_some_and(|position| self.is_released(position, at)) {
            return;
        }
        if self.remarks.len() < KEPT_MAX {
            self.remarks.push(Remark { at, outlet, node, on });
        } else {
            self.forgotten += 1;
        }
    }

    /// How often something of an outlet was looked at.
    pub(super) fn looked(&self, outlet: Outlet) -> u64 {
        self.looked[outlet as usize]
    }

    /// The verdict, outlet by outlet; `tick`: where the feed tells of a trade.
    pub(super) fn judge(
        &self,
        failures: &mut Failures,
        tick: impl Fn(u64) -> Option<(usize, u64)> + Copy,
    ) {
        failures.check(Checker::NothingEarly, self.forgotten == 0, || {
            format!("{} more remarks than are kept", self.forgotten)
        });
        for outlet in Outlet::ALL {
            let early = |remark: &&Remark| {
                let position = position_of(remark.on, tick);
                remark.outlet == outlet
                    && !position.is_some_and(|position| self.is_released(position, remark.at))
            };
            let count = self.remarks.iter().filter(early).count();
            let Some(first) = self.remarks.iter().find(early) else { continue };
            let Remark { at, node, on, .. } = first;
            let due = position_of(*on, tick).and_then(|position| self.release(position));
            failures.add(Checker::NothingEarly, || {
                format!(
                    "{}: {count} times, first by node {node} at {}, {on:?}, which is public from \
                     {due:?} on",
                    outlet.name(),
                    at.0
                )
            });
        }
    }

    fn release(&self, (stream, seq): (usize, u64)) -> Option<Nanos> {
        let place = usize::try_from(seq).ok()?.checked_sub(1)?;
        self.releases.get(stream)?.get(place).map(|release| release.due)
    }

    fn is_released(&self, position: (usize, u64), at: Nanos) -> bool {
        let due = self.release(position);
        due.is_some_and(|due| due != Nanos::NEVER && due <= at.after(self.bound_ns))
    }
}

fn position_of(on: On, tick: impl Fn(u64) -> Option<(usize, u64)>) -> Option<(usize, u64)> {
    match on {
        On::Message(stream, seq) => Some((stream, seq)),
        On::Trade(number) => tick(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(early: &Early) -> Vec<String> {
        let mut failures = Failures::default();
        early.judge(&mut failures, |number| (number == 7).then_some((0, 3)));
        failures.into_vec().into_iter().map(|failure| failure.reason).collect()
    }

    #[test]
    fn what_leaves_before_its_release_less_the_bound_is_named() {
        let mut early = Early::new(1, 10);
        early.published(Nanos(100), 0, (1, 4), Nanos(200));
        let none = |_| None;
        early.leaves(Nanos(190), Outlet::Feed, 4, On::Message(0, 3), none);
        assert!(verdict(&early).is_empty());
        early.leaves(Nanos(189), Outlet::Feed, 4, On::Message(0, 3), none);
        early.leaves(Nanos(189), Outlet::DropCopy, 4, On::Trade(7), none);
        let said = verdict(&early);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].starts_with("feed: 1 times, first by node 4 at 189"), "{said:?}");
        assert!(said[1].starts_with("drop copy: 1 times"), "{said:?}");
    }

    #[test]
    fn what_no_root_has_published_yet_is_judged_at_the_end() {
        let mut early = Early::new(1, 0);
        early.leaves(Nanos(500), Outlet::Retransmission, 0, On::Message(0, 2), |_| None);
        assert_eq!(verdict(&early).len(), 1, "nobody ever published it");
        early.published(Nanos(600), 0, (1, 3), Nanos(500));
        assert!(verdict(&early).is_empty());
        // Another root's deadline counts when it is earlier, and none before anybody spoke of it.
        early.leaves(Nanos(900), Outlet::Retransmission, 0, On::Message(0, 3), |_| None);
        early.published(Nanos(800), 0, (3, 4), Nanos(1_000));
        early.published(Nanos(850), 0, (3, 4), Nanos(1));
        assert_eq!(verdict(&early).len(), 1);
        early.published(Nanos(850), 0, (3, 4), Nanos(890));
        assert!(verdict(&early).is_empty());
    }
}
