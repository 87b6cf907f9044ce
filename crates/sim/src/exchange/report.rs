//! What a seed ends with: named checkers, their failures, and figures that add up over seeds.

use std::fmt;

/// What must hold of every run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Checker {
    /// Once the faults are over, everything asked is answered and every book gets everything.
    Liveness,
    /// Each request has its answer, and no more of them than it may have.
    AnsweredOnce,
    /// Each request is in the input log, and nothing that nobody asked for.
    LoggedOnce,
    /// Both participants of each trade hear of it, once and alike.
    BothSides,
    /// No execution reaches a client before the tick of the trade left the gateway's receiver.
    TickFirst,
    /// A receiver hands on every message once, in sequence.
    ReleaseOrder,
    /// A receiver hands on nothing before the deadline plus bound by its own clock.
    ReleaseDeadline,
    /// Every listener's books are the engine's, at checkpoints and at the end.
    BooksEqual,
    /// Every listener heard the very bytes that were published.
    FeedEqual,
    /// The input log replayed gives the same state and the same books.
    ReplayEqual,
    /// No node panics, loses data to a bound, or meets what it should never meet.
    Sound,
}

impl Checker {
    /// All of them.
    pub const ALL: [Checker; 11] = [
        Checker::Liveness,
        Checker::AnsweredOnce,
        Checker::LoggedOnce,
        Checker::BothSides,
        Checker::TickFirst,
        Checker::ReleaseOrder,
        Checker::ReleaseDeadline,
        Checker::BooksEqual,
        Checker::FeedEqual,
        Checker::ReplayEqual,
        Checker::Sound,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Checker::Liveness => "liveness",
            Checker::AnsweredOnce => "answered-once",
            Checker::LoggedOnce => "logged-once",
            Checker::BothSides => "both-sides",
            Checker::TickFirst => "tick-first",
            Checker::ReleaseOrder => "release-order",
            Checker::ReleaseDeadline => "release-deadline",
            Checker::BooksEqual => "books-equal",
            Checker::FeedEqual => "feed-equal",
            Checker::ReplayEqual => "replay-equal",
            Checker::Sound => "sound",
        }
    }
}

impl fmt::Display for Checker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One thing that does not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Who found it.
    pub checker: Checker,
    /// What, where and when.
    pub reason: String,
}

/// Failures of one run; of each checker only the first few are kept.
#[derive(Clone, Default, Debug)]
pub struct Failures {
    kept: Vec<Failure>,
}

/// Failures kept per checker.
const KEPT_MAX: usize = 3;

impl Failures {
    /// Notes a failure.
    pub fn add(&mut self, checker: Checker, reason: impl FnOnce() -> String) {
        if self.kept.iter().filter(|kept| kept.checker == checker).count() < KEPT_MAX {
            self.kept.push(Failure { checker, reason: reason() });
        }
    }

    /// Notes a failure unless `holds`.
    pub fn check(&mut self, checker: Checker, holds: bool, reason: impl FnOnce() -> String) {
        if !holds {
            self.add(checker, reason);
        }
    }

    /// What is kept, in the order it was found.
    pub fn into_vec(self) -> Vec<Failure> {
        self.kept
    }
}

macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Figures of one run, or the sums over many.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Figures {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Figures {
            /// Adds another run's.
            pub fn add(&mut self, other: &Figures) {
                $(self.$name += other.$name;)*
            }

            /// Names and values, for printing.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }
        }
    };
}

figures! {
    /// New orders that clients asked for.
    orders,
    /// All requests, cancels included.
    requests,
    /// Requests with an answer.
    answered,
    /// Trades.
    trades,
    /// Auctions that traded.
    auctions,
    /// Halts in the middle of the day.
    halts,
    /// ITCH messages published.
    feed_messages,
    /// Checkpoints at which a listener's books were compared, all instruments at once.
    checkpoints,
    /// Executions whose tick was seen to be public when they were sent.
    executions_watched,
    /// Events of the world.
    events,
    /// Virtual time, in microseconds.
    virtual_us,
    /// Datagrams that nodes sent.
    datagrams,
    /// Datagrams lost on links.
    drops,
    /// Datagrams that links delivered twice.
    duplicates,
    /// Datagrams that links held back.
    reordered,
    /// Order frames that gateways sent again.
    resends,
    /// Requests that clients sent again after a reconnect.
    client_resends,
    /// Retransmitted market data that receivers got.
    repairs,
    /// Messages that listeners got from the retransmission server.
    listener_repairs,
    /// Proxies killed.
    proxies_killed,
    /// Client connections cut.
    connections_cut,
}

/// The end of one seed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeedReport {
    /// The seed.
    pub seed: u64,
    /// What does not hold; empty when all is well.
    pub failures: Vec<Failure>,
    /// Figures.
    pub figures: Figures,
    /// Digest of every event: the same for the same seed and build.
    pub event_hash: u64,
}

impl fmt::Display for SeedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.failures.is_empty() {
            return write!(f, "seed {}: ok", self.seed);
        }
        write!(f, "seed {} failed; again with: fairbell sim --seed {0}", self.seed)?;
        for failure in &self.failures {
            write!(f, "\n  {}: {}", failure.checker, failure.reason)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_failures_of_a_checker_are_kept() {
        let mut failures = Failures::default();
        for i in 0..10 {
            failures.add(Checker::Sound, || format!("{i}"));
        }
        failures.check(Checker::Liveness, true, String::new);
        failures.check(Checker::TickFirst, false, || "late".to_string());
        let (seed, failures) = (7, failures.into_vec());
        assert_eq!(failures.len(), KEPT_MAX + 1);
        let report = SeedReport { seed, failures, figures: Figures::default(), event_hash: 0 };
        let text = report.to_string();
        assert!(text.contains("fairbell sim --seed 7") && text.contains("tick-first: late"));
    }
}
