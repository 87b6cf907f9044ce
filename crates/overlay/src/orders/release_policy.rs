//! In which order the sequencer lets orders go.

use types::Nanos;

/// What decides about the order of release. One participant's orders keep their sequence in all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReleasePolicy {
    /// By `t_in`. What a queue on the way deferred is put back in its place if it comes in time;
    /// if not, it is flagged deferred, not late (corner 6).
    #[default]
    Fair,
    /// By the time since the participant had the tick that it answers (delivery-based ordering):
    /// fair without equal delivery times. Orders that answer none go by `t_in`.
    Delivery,
}

/// `types::Input::flags`: released after an order with a later time because a queue on the way had
/// let that one pass. Never set together with `INPUT_LATE`.
pub const INPUT_DEFERRED: u64 = 4;

/// The delivery of the tick that an order answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// When the publisher sent the tick.
    pub sent: Nanos,
    /// Time from its delivery to the order's `t_in`, by the gateway's clock, in ns.
    pub since_ns: u64,
}

impl Delivery {
    /// Time at which the order would have been made if every participant had received the tick when
    /// it was sent.
    pub fn order_time(&self) -> Nanos {
        self.sent + self.since_ns
    }
}

/// Facts about an order beyond its own fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marks {
    /// Attempt of the copy; above 0 it is a second one: how long it took says nothing of the
    /// network.
    pub attempt: u8,
    /// A queue on the way let others pass.
    pub deferred: bool,
    /// Delivery of the market data message that the order answers.
    pub delivery: Option<Delivery>,
}
