//! Days in a hurry: the venue's clock goes on to the next step of its calendar where waiting for it takes
//! longer than asked for.
//!
//! Nodes keep their own clocks, by which datagrams, connections and timers go; what goes ahead is the clock
//! that the log is dated with and the timetable goes by ([`types::VenueClock`]). So nothing that is on its
//! way notices, whatever trades at the time. Also counts the days that have ended.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use exchange::Role;
use net::LoopHandle;
use types::{Nanos, NodeId};

use host::replica::line::RootLine;

/// How often the root is asked how it stands.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often everybody is told again: a root or gateway may be new.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// How the root that leads stands.
struct Standing {
    /// Its own clock.
    now: Nanos,
    /// The newest time in its log.
    logged: Nanos,
    /// When the next step of the calendar is due, by the venue's clock.
    next_step: Nanos,
    /// The feed's session, another one each day.
    session: [u8; 10],
    /// A day has ended and the next has not begun.
    between: bool,
}

/// How far the venue's clock is to be ahead, from looks at the root.
struct Pace {
    /// Longest wait for a step; `None`: it comes when it is due.
    patience: Option<Duration>,
    ahead_ns: u64,
    /// The step that is waited for, and since when.
    waits: Option<(Nanos, Instant)>,
    /// Session and whether its day was over, at the last look.
    before: Option<([u8; 10], bool)>,
    ended: u32,
}

impl Pace {
    fn new(patience: Option<Duration>) -> Pace {
        Pace { patience, ahead_ns: 0, waits: None, before: None, ended: 0 }
    }

    fn take(&mut self, at: Instant, standing: &Standing) {
        let Standing { now, logged, next_step, session, between } = *standing;
        let (name, was_over) =
            self.before.replace((session, between)).unwrap_or((session, between));
        // A venue that never closes goes from one session into the next.
        let rolled = name != session && !was_over && !between;
        self.ended += u32::from(rolled || (between && !was_over));
        let Some(patience) = self.patience else { return };
        // A journal that an earlier run has kept in a hurry is dated ahead of this machine's clock.
        self.ahead_ns = self.ahead_ns.max(logged.since(now));
        match self.waits {
            Some((step, since)) if step == next_step => {
                let waited = at.saturating_duration_since(since) >= patience;
                if waited && step != Nanos::NEVER {
                    self.ahead_ns = self.ahead_ns.max(step.since(now));
                }
            }
            _ => self.waits = Some((next_step, at)),
        }
    }
}

/// Keeps the venue's clock ahead of this process's, and counts days.
pub struct Accelerator {
    pace: Pace,
    /// Days after which the run is over.
    days: Option<u32>,
    root: RootLine,
    edges: LoopHandle<Role>,
    gateways: Vec<NodeId>,
    answers: (SyncSender<Standing>, Receiver<Standing>),
    next_look: Instant,
    /// What everybody was told, and when.
    told: (u64, Instant),
}

impl Accelerator {
    /// For an exchange that is about to run.
    pub fn new(
        (patience, days): (Option<Duration>, Option<u32>),
        root: RootLine,
        edges: LoopHandle<Role>,
        gateways: Vec<NodeId>,
    ) -> Accelerator {
        let now = Instant::now();
        Accelerator {
            pace: Pace::new(patience),
            days,
            root,
            edges,
            gateways,
            answers: sync_channel(4),
            next_look: now,
            told: (0, now),
        }
    }

    /// Whether as many days have ended as were asked for.
    pub fn is_over(&self) -> bool {
        self.days.is_some_and(|days| self.pace.ended >= days)
    }

    /// Looks how the root stands, and has the venue's clock go on where it is time; says so when a day has
    /// ended since.
    pub fn look(&mut self) -> Option<String> {
        let now = Instant::now();
        let unused = self.pace.patience.is_none() && self.days.is_none();
        // Behind the last day the venue stays closed: what is on its way comes to rest.
        if unused || self.is_over() || now < self.next_look {
            return None;
        }
        let ended = self.pace.ended;
        self.next_look = now + LOOK_EVERY;
        while let Ok(standing) = self.answers.1.try_recv() {
            self.pace.take(now, &standing);
        }
        let (ahead_ns, due) = (self.pace.ahead_ns, self.told.1 + TELL_EVERY);
        if ahead_ns > 0 && (ahead_ns > self.told.0 || now >= due) {
            self.tell(ahead_ns);
            self.told = (ahead_ns, now);
        }
        let to = self.answers.0.clone();
        // Refused only where the loop has too much to do, or is over: then later, or never.
        let _ = self.root.call(move |root, now, _| {
            let standing = Standing {
                now: now.now,
                logged: root.log().last_t_seq(),
                next_step: root.next_step(),
                session: root.publisher().session().name(),
                between: root.engine().is_between_days(),
            };
            let _ = to.try_send(standing);
        });
        let days = self.pace.ended;
        (days > ended).then(|| format!("day {days} of this run has ended"))
    }

    /// Gateways first: an order that is good for a second counts it by the clock that its end is read by.
    fn tell(&self, ahead_ns: u64) {
        for gateway in &self.gateways {
            // As above.
            let _ = self.edges.call(*gateway, move |role, _, out| {
                role.with_edge(out, |edge, _| edge.go_ahead(ahead_ns));
            });
        }
        let _ = self.root.call_all(move |root, _, _| root.go_ahead(ahead_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600 * Nanos::SECOND;

    fn standing(now: u64, next_step: u64, session: u8, between: bool) -> Standing {
        let (now, next_step) = (Nanos(now), Nanos(next_step));
        Standing { now, logged: Nanos(0), next_step, session: [session; 10], between }
    }

    #[test]
    fn a_step_is_waited_for_so_long_and_no_longer() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut pace = Pace::new(Some(2 * second));
        pace.take(start, &standing(0, 8 * HOUR, 1, false));
        pace.take(start + second, &standing(Nanos::SECOND, 8 * HOUR, 1, false));
        assert_eq!(pace.ahead_ns, 0);
        pace.take(start + 2 * second, &standing(2 * Nanos::SECOND, 8 * HOUR, 1, false));
        assert_eq!(pace.ahead_ns, 8 * HOUR - 2 * Nanos::SECOND);
        // The next one is waited for anew; a clock that is ahead does not go back.
        pace.take(start + 3 * second, &standing(3 * Nanos::SECOND, 9 * HOUR, 1, false));
        pace.take(start + 4 * second, &standing(4 * Nanos::SECOND, 9 * HOUR, 1, false));
        assert_eq!(pace.ahead_ns, 8 * HOUR - 2 * Nanos::SECOND);
        pace.take(start + 5 * second, &standing(5 * Nanos::SECOND, Nanos::NEVER.0, 1, false));
        pace.take(start + 9 * second, &standing(9 * Nanos::SECOND, Nanos::NEVER.0, 1, false));
        assert_eq!(pace.ahead_ns, 8 * HOUR - 2 * Nanos::SECOND, "nothing to go on to");
        let mut slow = Pace::new(None);
        slow.take(start, &standing(0, 8 * HOUR, 1, false));
        slow.take(start + 9 * second, &standing(0, 8 * HOUR, 1, false));
        assert_eq!(slow.ahead_ns, 0, "nobody asked for it");
    }

    #[test]
    fn a_log_that_is_ahead_is_gone_on_with() {
        let mut pace = Pace::new(Some(Duration::from_secs(1)));
        let ahead = Standing { logged: Nanos(72 * HOUR), ..standing(5, 73 * HOUR, 4, true) };
        pace.take(Instant::now(), &ahead);
        assert_eq!(
            (pace.ahead_ns, pace.ended),
            (72 * HOUR - 5, 0),
            "its days were an earlier run's"
        );
    }

    #[test]
    fn days_are_counted_once_each() {
        let mut pace = Pace::new(None);
        let look = [(1, false), (1, true), (1, true), (2, false), (2, true), (3, false), (3, true)];
        for (session, between) in look {
            pace.take(Instant::now(), &standing(0, HOUR, session, between));
        }
        assert_eq!(pace.ended, 3);
        // One that never closes.
        let mut pace = Pace::new(None);
        for session in [1, 1, 2, 2, 3] {
            pace.take(Instant::now(), &standing(0, HOUR, session, false));
        }
        assert_eq!(pace.ended, 2);
    }
}
