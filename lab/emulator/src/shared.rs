//! What the relay's thread and everybody else have in common: what it is told and what it counts.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::time::{ClockId, clock_gettime};
use telemetry::Recorder;

/// What happened to the packets from one host to another since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PathCounters {
    /// Packets that the sender handed over, whatever became of them.
    pub packets: u64,
    /// Bytes of `packets`, IP headers included.
    pub bytes: u64,
    /// Packets lost by the model.
    pub lost: u64,
    /// Packets lost because the path was cut, before or after they left.
    pub cut: u64,
    /// Extra copies that the model made.
    pub duplicated: u64,
    /// Packets, or copies, dropped because the sender had too many bytes on their way.
    pub overflowed: u64,
    /// Packets and copies that the receiver's kernel took.
    pub delivered: u64,
}

impl PathCounters {
    /// Adds the counters of another path.
    pub fn add(&mut self, other: &PathCounters) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.lost += other.lost;
        self.cut += other.cut;
        self.duplicated += other.duplicated;
        self.overflowed += other.overflowed;
        self.delivered += other.delivered;
    }
}

/// What one path is told, and its counters. The relay alone changes counters.
#[derive(Default)]
pub(crate) struct SharedPath {
    pub(crate) is_cut: AtomicBool,
    pub(crate) loss_ppm: AtomicU32,
    pub(crate) packets: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) cut: AtomicU64,
    pub(crate) duplicated: AtomicU64,
    pub(crate) overflowed: AtomicU64,
    pub(crate) delivered: AtomicU64,
}

impl SharedPath {
    pub(crate) fn counters(&self) -> PathCounters {
        PathCounters {
            packets: self.packets.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            lost: self.lost.load(Relaxed),
            cut: self.cut.load(Relaxed),
            duplicated: self.duplicated.load(Relaxed),
            overflowed: self.overflowed.load(Relaxed),
            delivered: self.delivered.load(Relaxed),
        }
    }
}

/// No constant delay.
pub(crate) const BY_PROFILE: u64 = u64::MAX;

/// A packet that went through the relay while passages were recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Passage {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// When the relay took it from the sender, in ns since the start.
    pub(crate) taken_at: u64,
    /// When it should have been handed on.
    pub(crate) due_at: u64,
    /// When it was.
    pub(crate) handed_on_at: u64,
}

/// What the relay's thread and everybody else have in common.
pub(crate) struct Shared {
    hosts: usize,
    paths: Vec<SharedPath>,
    /// Extra delay of everything from and to a host, in ns.
    pub(crate) slowed_ns: Vec<AtomicU64>,
    /// Delay of every packet, whatever the profile says, in ns; [`BY_PROFILE`] to follow that.
    pub(crate) constant_delay_ns: AtomicU64,
    /// Packets for nobody in the box.
    pub(crate) unroutable: AtomicU64,
    pub(crate) stops: AtomicBool,
    pub(crate) records_passages: AtomicBool,
    lateness: Mutex<Recorder>,
    passages: Mutex<Vec<Passage>>,
    /// Start of the network on the machine's monotonic clock.
    started_ns: u64,
}

impl Shared {
    pub(crate) fn new(hosts: usize, loss_ppm: u32) -> Shared {
        let path = |_| SharedPath { loss_ppm: AtomicU32::new(loss_ppm), ..SharedPath::default() };
        Shared {
            hosts,
            paths: (0..hosts * hosts).map(path).collect(),
            slowed_ns: (0..hosts).map(|_| AtomicU64::new(0)).collect(),
            constant_delay_ns: AtomicU64::new(BY_PROFILE),
            unroutable: AtomicU64::new(0),
            stops: AtomicBool::new(false),
            records_passages: AtomicBool::new(false),
            lateness: Mutex::new(Recorder::coarse()),
            passages: Mutex::new(Vec::new()),
            started_ns: monotonic_ns(),
        }
    }

    /// # Panics
    /// When there is no such host.
    pub(crate) fn path(&self, from: usize, to: usize) -> &SharedPath {
        assert!(from < self.hosts && to < self.hosts, "hosts are 0 to {}", self.hosts - 1);
        &self.paths[from * self.hosts + to]
    }

    pub(crate) fn paths(&self) -> &[SharedPath] {
        &self.paths
    }

    /// Time since the start of the network, in ns.
    pub(crate) fn now_ns(&self) -> u64 {
        monotonic_ns().saturating_sub(self.started_ns)
    }

    pub(crate) fn lateness(&self) -> MutexGuard<'_, Recorder> {
        self.lateness.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a passage if there is room for it.
    pub(crate) fn record_passage(&self, passage: Passage) {
        let mut passages = self.passages();
        if passages.len() < passages.capacity() {
            passages.push(passage);
        }
    }

    pub(crate) fn passages(&self) -> MutexGuard<'_, Vec<Passage>> {
        self.passages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // Seconds since boot and a fraction of one: neither is negative.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
