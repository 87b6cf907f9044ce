//! In which order the sequencer lets orders go, and how long it waits to find that out.

use types::Nanos;

/// What decides about the order of release. One participant's orders keep their sequence in all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReleasePolicy {
    /// By `t_in`. What a queue on the way deferred is put back in its place if it comes in time;
    /// if not, it is flagged deferred, not late (corner 6).
    #[default]
    Fair,
    /// By `t_in`, but what a queue deferred goes as it comes: the queue's order stands.
    Throughput,
    /// As they come; no window.
    Arrival,
    /// By the time since the participant had the tick that it answers (delivery-based ordering):
    /// fair without equal delivery times. Orders that answer none go by `t_in`.
    Delivery,
}

/// `types::Input::flags`: released after an order with a later time because a queue on the way had
/// let that one pass. Never set together with `INPUT_LATE`.
pub const INPUT_DEFERRED: u64 = 4;

/// The tick an order answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// When the publisher sent the tick.
    pub sent: Nanos,
    /// Time from its delivery to the order's `t_in`, by the gateway's clock, in ns.
    pub since_ns: u64,
}

impl Delivery {
    /// The time the order would have been made at, had everybody had the tick when it was sent.
    pub fn order_time(&self) -> Nanos {
        self.sent + self.since_ns
    }
}

/// What is known of an order besides its own fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marks {
    /// Attempt of the copy; above 0 it is a second one: how long it took says nothing of the
    /// network.
    pub attempt: u8,
    /// A queue on the way let others pass.
    pub deferred: bool,
    /// The tick it answers.
    pub delivery: Option<Delivery>,
}

/// A window that follows how late orders come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdaptiveWindow {
    /// Orders that shall come within the window, of a thousand.
    pub permille: u16,
    /// Shortest window in ns.
    pub min_ns: u64,
    /// Longest window in ns: what a gateway with a slow clock or a slow way can cost everybody.
    pub max_ns: u64,
}

impl Default for AdaptiveWindow {
    fn default() -> Self {
        AdaptiveWindow { permille: 950, min_ns: 50 * Nanos::MICRO, max_ns: 5 * Nanos::MILLI }
    }
}

/// Orders the estimate is taken over, and after how many it is taken again.
const WINDOW: usize = 1_024;
const REFRESH: usize = 128;

/// The percentile of the times from `t_in` to arrival. Grows at once and shrinks by an eighth of
/// the difference at a time, so that a burst does not end in a row of late orders.
#[derive(Clone, Debug)]
pub struct WindowEstimator {
    config: Option<AdaptiveWindow>,
    samples: Vec<u64>,
    scratch: Vec<u64>,
    next: usize,
    fresh: usize,
    window_ns: u64,
}

impl WindowEstimator {
    /// No sample yet; `None`: never an estimate.
    pub fn new(config: Option<AdaptiveWindow>) -> WindowEstimator {
        let capacity = if config.is_some() { WINDOW } else { 0 };
        let (samples, scratch) = (Vec::with_capacity(capacity), Vec::with_capacity(capacity));
        WindowEstimator { config, samples, scratch, next: 0, fresh: 0, window_ns: 0 }
    }

    /// Whether there is never an estimate.
    pub fn is_off(&self) -> bool {
        self.config.is_none()
    }

    /// An order came `ns` after its time; the new window when it was taken again.
    pub fn sample(&mut self, ns: u64) -> Option<u64> {
        let AdaptiveWindow { permille, min_ns, max_ns } = self.config?;
        let max_ns = max_ns.max(min_ns);
        // One beyond the longest window teaches nothing more than that.
        let ns = ns.min(max_ns);
        if self.samples.len() < WINDOW {
            self.samples.push(ns);
        } else {
            self.samples[self.next] = ns;
        }
        self.next = (self.next + 1) % WINDOW;
        self.fresh += 1;
        if self.fresh < REFRESH {
            return None;
        }
        self.fresh = 0;
        self.scratch.clear();
        self.scratch.extend_from_slice(&self.samples);
        let rank = (self.scratch.len() * usize::from(permille.clamp(1, 1_000))).div_ceil(1_000) - 1;
        let wanted = *self.scratch.select_nth_unstable(rank).1;
        self.window_ns = match wanted < self.window_ns {
            true => self.window_ns - (self.window_ns - wanted).div_ceil(8),
            false => wanted,
        };
        Some(self.window_ns.clamp(min_ns, max_ns))
    }
}
