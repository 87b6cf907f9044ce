//! What a seed ends with: named checkers, their failures, and figures that add up over seeds.

use std::fmt;

use super::rekey::RekeyFigures;

macro_rules! checkers {
    ($($(#[$doc:meta])* $checker:ident = $name:literal,)*) => {
        /// What must hold of every run.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Checker {
            $($(#[$doc])* $checker,)*
        }

        impl Checker {
            /// All variants, in their order.
            pub const ALL: &[Checker] = &[$(Checker::$checker,)*];

            /// Its name in reports.
            pub fn name(self) -> &'static str {
                match self { $(Checker::$checker => $name,)* }
            }
        }
    };
}

checkers! {
    /// Once the faults are over, everything asked is answered and every book gets everything.
    Liveness = "liveness",
    /// Every receiver hands on, and every listener hears, all that was published.
    NoLoss = "no-loss",
    /// A receiver hands nothing on twice in one life.
    NoDuplicate = "no-duplicate",
    /// A receiver hands on in sequence, without a gap, what was published and nothing else.
    ReleaseOrder = "release-order",
    /// A receiver hands on nothing before the deadline plus bound by its own clock.
    ReleaseDeadline = "release-deadline",
    /// Nothing is handed on before its deadline by true time less twice the clock bound.
    ReleaseTrueTime = "release-true-time",
    /// Each node sends each datagram to exactly the nodes whose parent it is.
    ChildSet = "child-set",
    /// Each request has its answer, and no more of them than it may have.
    AnsweredOnce = "answered-once",
    /// Each request is in the input log, and nothing that nobody asked for.
    LoggedOnce = "logged-once",
    /// Requests of one session are logged in the order in which they were made.
    Causality = "causality",
    /// Both participants of each trade hear of it, once and alike.
    BothSides = "both-sides",
    /// No execution reaches a client before the tick of the trade left the gateway's receiver.
    TickFirst = "tick-first",
    /// Nothing that depends on an input leaves by any way out before its release time less the clock
    /// bound: see `exchange::early`.
    NothingEarly = "nothing-early",
    /// Every listener's books are the engine's, at checkpoints and at the end.
    BooksEqual = "books-equal",
    /// Every listener heard the very bytes that were published.
    FeedEqual = "feed-equal",
    /// The input log replayed gives the same state and the same books.
    ReplayEqual = "replay-equal",
    /// The orders of a session that ended, with its gateway or without, are gone from the book within
    /// the bound if its account wants that, and none of anybody else.
    CancelOnDisconnect = "cancel-on-disconnect",
    /// No order trades at its end or later or is ended before it, and when all is quiet none is open
    /// that has ended.
    NothingExpired = "nothing-expired",
    /// Roots that serve in turn are the same, byte for byte, and none of them stopped.
    ReplicasEqual = "replicas-equal",
    /// No key and nonce ever seal two texts, whoever starts again.
    FreshNonces = "fresh-nonces",
    /// Where links lose nothing, nothing is lost while keys are exchanged.
    KeysExchanged = "keys-exchanged",
    /// Who gets no new keys is heard by nobody once its peers' former ones are given up.
    LeftOut = "left-out",
    /// No node panics, loses data to a bound, or meets what it should never meet.
    Sound = "sound",
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
    /// Packets of the feed whose time was looked at as receivers handed them on.
    feed_watched,
    /// Answers of retransmission servers whose time was looked at.
    retransmissions_watched,
    /// Snapshots whose time was looked at.
    snapshots_watched,
    /// Executions in drop copies whose time was looked at.
    copies_watched,
    /// Trades in market data over FIX whose time was looked at.
    market_data_watched,
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
    /// Proxies killed for good.
    proxies_killed,
    /// Proxies that died and came back empty.
    proxies_restarted,
    /// Proxies whose place another one took.
    proxies_replaced,
    /// Receivers and gateways that died and came back empty.
    edges_restarted,
    /// Listeners that died and began anew.
    listeners_restarted,
    /// Nodes that stood still for a while.
    pauses,
    /// Client connections cut.
    connections_cut,
    /// Sessions that ended for good, with orders that go with them.
    sessions_left,
    /// Of them, those whose gateway died at the same instant.
    gateways_left,
    /// Orders that were cancelled because their session ended.
    orders_left,
    /// Orders that ended at their time.
    orders_expired,
    /// Pairs of nodes one of which did not hear the other.
    one_way_partitions,
    /// Pairs of nodes that did not hear each other.
    partitions,
    /// Nodes cut off from everybody.
    isolations,
    /// Receivers cut off for long.
    cut_off,
    /// Messages that receivers jumped over, too far behind.
    skipped,
    /// Snapshots that listeners joined by.
    snapshots,
    /// Feed messages that those listeners never heard.
    joined_over,
    /// Datagrams lost to partitions.
    blocked,
    /// Paths more than 2 % slower or quicker than the median.
    uneven_paths,
    /// Datagrams and parts of streams slowed by a straggling node.
    straggled,
    /// Bursts of delay on paths.
    bursts,
    /// Datagrams and parts of streams that waited in the queue of a path.
    queued,
    /// Datagrams lost to a full queue.
    overflowed,
    /// Datagrams that waited until their sender had sent others.
    egress_waits,
    /// Clocks that were off.
    clock_offsets,
    /// Clocks that drifted.
    clock_drifts,
    /// Clocks that jumped.
    clock_steps,
    /// Roots that followed and were killed.
    replica_crashes,
    /// Roots that led and were killed.
    leader_crashes,
    /// Roots that their disk stopped.
    disk_crashes,
    /// Roots that stood still for long.
    replica_pauses,
    /// Roots that the others did not hear.
    replica_partitions,
    /// Roots cut off from everybody.
    replicas_cut_off,
    /// Messages between roots that got lost, came twice, or found nobody.
    replica_messages,
    /// Operations of disks that failed, took long, or were undone by a crash.
    disk_faults,
    /// Times that a root began to lead.
    terms_led,
    /// Positions at which roots compared their states.
    states_compared,
    /// Seeds with several roots.
    with_replicas,
    /// Seeds with sealing.
    with_sealing,
    /// Seeds with a roll call.
    with_roll_call,
    /// Seeds with another hedging policy, or an H of the last layer's own.
    with_hedging,
    /// Seeds in which not every message is hedged alike.
    with_hedge_mode,
    /// Seeds with another estimator of the deadline.
    with_estimator,
    /// Seeds with sampled messages in the delay rounds.
    with_samples,
    /// Seeds in which slow children are served first.
    with_slowest_first,
    /// Seeds with queues of orders at proxies.
    with_queues,
    /// Seeds with paced orders.
    with_paces,
    /// Seeds with parity.
    with_parity,
    /// Seeds with caches above the receivers.
    with_caches,
    /// Datagrams sealed.
    sealed,
    /// Sealed datagrams refused because they had come before.
    replayed,
    /// Notices to go around a proxy found dead.
    detours,
    /// Messages made up from parity.
    parity_filled,
    /// Datagrams that a cache sent again.
    cache_repairs,
    /// Orders that went through a proxy's queue.
    orders_queued,
}

/// Figures that count uses and effects of the overlay's options.
pub const OPTIONS: &[&str] = &[
    "with_replicas",
    "terms_led",
    "states_compared",
    "with_sealing",
    "with_roll_call",
    "with_hedging",
    "with_hedge_mode",
    "with_estimator",
    "with_samples",
    "with_slowest_first",
    "with_queues",
    "with_paces",
    "with_parity",
    "with_caches",
    "sealed",
    "replayed",
    "detours",
    "parity_filled",
    "cache_repairs",
    "orders_queued",
];

/// Figures that count a kind of fault, each by how often it had an effect.
pub const FAULTS: &[&str] = &[
    "drops",
    "duplicates",
    "reordered",
    "one_way_partitions",
    "partitions",
    "isolations",
    "cut_off",
    "skipped",
    "snapshots",
    "blocked",
    "uneven_paths",
    "straggled",
    "bursts",
    "queued",
    "overflowed",
    "egress_waits",
    "pauses",
    "proxies_killed",
    "proxies_restarted",
    "proxies_replaced",
    "edges_restarted",
    "listeners_restarted",
    "connections_cut",
    "sessions_left",
    "gateways_left",
    "orders_left",
    "clock_offsets",
    "clock_drifts",
    "clock_steps",
    "replica_crashes",
    "leader_crashes",
    "disk_crashes",
    "replica_pauses",
    "replica_partitions",
    "replicas_cut_off",
    "replica_messages",
    "disk_faults",
];

impl Figures {
    /// Name and count of every kind of fault.
    pub fn faults(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.iter().filter(|(name, _)| FAULTS.contains(name))
    }

    /// Name and count of every use and effect of an option of the overlay.
    pub fn options(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.iter().filter(|(name, _)| OPTIONS.contains(name))
    }
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
    /// What exchanges of keys came to.
    pub rekeys: RekeyFigures,
    /// Digest of every event: the same for the same seed and build.
    pub event_hash: u64,
    /// The command that repeats the run.
    pub again: String,
}

impl fmt::Display for SeedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.failures.is_empty() {
            return write!(f, "seed {}: ok", self.seed);
        }
        write!(f, "seed {} failed; again with: {}", self.seed, self.again)?;
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
        let (figures, again) = (Figures::default(), "fairbell-lab sim --seed 7".to_string());
        let rekeys = RekeyFigures::default();
        let report = SeedReport { seed, failures, figures, rekeys, event_hash: 0, again };
        let text = report.to_string();
        assert!(text.contains("fairbell-lab sim --seed 7") && text.contains("tick-first: late"));
    }

    #[test]
    fn every_kind_of_fault_and_every_option_is_a_figure() {
        assert_eq!(Figures::default().faults().count(), FAULTS.len());
        assert_eq!(Figures::default().options().count(), OPTIONS.len());
    }
}
