//! `[engine]`: bounds and rules of matching.

use serde::{Deserialize, Serialize};

/// The matching engine.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Engine {
    /// Inputs that the log takes (128 bytes each); 0: it has no end.
    pub log_capacity: u64,
    /// Orders that may be open at one time.
    pub open_orders_max: u32,
    /// An order with the identifier (ClOrdId) of another open order of its account is refused.
    pub unique_ids: bool,
}

impl Default for Engine {
    fn default() -> Self {
        Engine { log_capacity: 0, open_orders_max: 200_000, unique_ids: false }
    }
}
