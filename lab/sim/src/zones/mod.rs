//! A group of replicas in two zones: what each way of placing them costs while all is well, and what
//! is left when a zone is gone.
//!
//! The clients, and the leader, are in zone A. Replicas are the crate's own state machines; a disk
//! is a time per sync, a link a one-way delay with up to a tenth of it on top, in order. Everything
//! follows from the seed.

mod world;

use types::Nanos;

use world::World;

/// Where a replica is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Zone {
    /// With the clients.
    A,
    /// The other one.
    B,
}

/// Who is where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// What it is.
    pub name: &'static str,
    /// Those that are counted.
    pub replicas: &'static [Zone],
    /// Followers that nobody waits for.
    pub learners: &'static [Zone],
}

/// What is compared.
pub const LAYOUTS: [Layout; 6] = {
    use Zone::{A, B};
    const fn of(
        name: &'static str,
        replicas: &'static [Zone],
        learners: &'static [Zone],
    ) -> Layout {
        Layout { name, replicas, learners }
    }
    [
        of("three in A", &[A, A, A], &[]),
        of("three in A, copy in B", &[A, A, A], &[B]),
        of("two in A, one in B", &[A, A, B], &[]),
        of("one in A, two in B", &[A, B, B], &[]),
        of("three in A, two in B", &[A, A, A, B, B], &[]),
        of("two in A, three in B", &[A, A, B, B, B], &[]),
    ]
};

/// How it is played.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Decides delays and timeouts.
    pub seed: u64,
    /// Records per second, evenly.
    pub rate: u64,
    /// How long before a zone is lost, ns, and how long after it.
    pub duration_ns: u64,
    /// One way inside a zone, ns.
    pub near_ns: u64,
    /// One way between the zones, ns.
    pub far_ns: u64,
    /// What a sync takes, ns.
    pub sync_ns: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            seed: 1,
            rate: 10_000,
            duration_ns: 5 * Nanos::SECOND,
            near_ns: 50_000,
            far_ns: 500_000,
            sync_ns: 200_000,
        }
    }
}

/// From a record's proposal until it may be told, ns.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Latency {
    /// Half of them took no longer.
    pub p50_ns: u64,
    /// 99 of 100 took no longer.
    pub p99_ns: u64,
    /// The longest, ns.
    pub max_ns: u64,
    /// How many there were.
    pub records: u64,
}

impl Latency {
    fn of(mut all: Vec<u64>) -> Latency {
        all.sort_unstable();
        let at = |percent: usize| all.get((all.len() * percent / 100).min(all.len().max(1) - 1));
        Latency {
            p50_ns: at(50).copied().unwrap_or(0),
            p99_ns: at(99).copied().unwrap_or(0),
            max_ns: all.last().copied().unwrap_or(0),
            records: all.len() as u64,
        }
    }
}

/// After the loss of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Loss {
    /// Records that clients had been told of.
    pub told: u64,
    /// Those of them that are on no disk of the zone that is left.
    pub missing: u64,
    /// From the loss until a replica there served; `None`: none did.
    pub serves_after_ns: Option<u64>,
    /// From proposal to telling, of records proposed after that.
    pub after: Latency,
}

/// What a layout came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// Which one.
    pub layout: Layout,
    /// While all is well.
    pub calm: Latency,
    /// Zone A is gone.
    pub without_a: Loss,
    /// Zone B is gone.
    pub without_b: Loss,
}

/// Plays a layout: once until zone A is lost, once until zone B is.
pub fn run(layout: Layout, options: &Options) -> Row {
    let (calm, without_a) = World::new(layout, options).play(Zone::A);
    let (_, without_b) = World::new(layout, options).play(Zone::B);
    Row { layout, calm, without_a, without_b }
}
