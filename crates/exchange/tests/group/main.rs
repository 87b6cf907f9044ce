//! Roots in a group: they follow, lead and follow again, and nobody outside loses or hears twice.

mod checkpoints;
#[path = "../common/mod.rs"]
#[allow(dead_code)]
mod common;
mod days;
mod expiry;
mod failover;
mod listening;
mod machine;
mod recycle;
mod rekey;
mod snapshots;
mod storms;
mod trees;
mod world;

use exchange::{ExchangeConfig, OverlayOptions, Secret};

/// As `deploy` is given in these tests.
pub const LIFE: u64 = 1_000;

/// Four receivers behind two layers, three participants.
pub fn plain() -> ExchangeConfig {
    let mut config = common::config();
    (config.depth, config.fanout, config.receivers, config.hedge) = (2, 2, 4, 1);
    config
}

/// The same, sealed.
pub fn sealed() -> ExchangeConfig {
    let plain = plain();
    let options = OverlayOptions { secret: Some(Secret([7; 32])), ..plain.options };
    ExchangeConfig { options, ..plain }
}
