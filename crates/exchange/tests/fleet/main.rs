//! The fleet at work: sealed, over bad links, while trees change and proxies die.

#[path = "../common/mod.rs"]
#[allow(dead_code)]
mod common;
mod options;
mod sealing;
mod trees;
mod world;

use exchange::{ExchangeConfig, OverlayOptions, Secret, TreeShape};
use overlay::membership::RollCallConfig;

/// D=2, F=3, six receivers; the tree may also be wider, or deeper.
pub const FIRST: TreeShape = TreeShape { depth: 2, fanout: 3 };
/// Wider at the root.
pub const WIDE: TreeShape = TreeShape { depth: 2, fanout: 2 };
/// A layer more.
pub const DEEP: TreeShape = TreeShape { depth: 3, fanout: 2 };

/// Six receivers, three participants, everything in clear and nobody watching.
pub fn plain() -> ExchangeConfig {
    let mut config = common::config();
    (config.depth, config.fanout, config.receivers) = (FIRST.depth, FIRST.fanout, 6);
    config.hedge = 1;
    // Two buy and one sells: many orders rest.
    (config.open_orders_max, config.log_capacity) = (1 << 13, 1 << 15);
    config
}

/// The same, sealed, with a root that watches.
pub fn sealed() -> ExchangeConfig {
    let options = OverlayOptions {
        secret: Some(Secret([7; 32])),
        roll_call: Some(RollCallConfig::default()),
        shapes: vec![FIRST, WIDE, DEEP],
        ..OverlayOptions::default()
    };
    ExchangeConfig { options, ..plain() }
}
