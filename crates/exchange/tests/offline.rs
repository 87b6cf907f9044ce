//! The real sample through the engine alone reproduces the venue's trades, all and only those.
//!
//! The sample is fetched at set-up and never committed. Without it the test says so and, where
//! `CI` is set, fails.

use std::path::PathBuf;

use exchange::{Offline, offline};
use participant::{FlowMessage, Sample, sample};
use types::{Instrument, InstrumentId, Price, Qty, Symbol, limits};

fn load() -> Option<Sample> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../.cache/ob-analytics-0.1.0");
    let folder = std::env::var_os("FAIRBELL_SAMPLE").map_or(root, PathBuf::from);
    match sample::load(&folder, InstrumentId(1)) {
        Ok(sample) => Some(sample),
        Err(error) => {
            let where_ = folder.display();
            assert!(std::env::var_os("CI").is_none(), "no sample in {where_}: {error}");
            eprintln!("ABSENT: the venue sample ({where_}: {error}); 1 suite did not run");
            None
        }
    }
}

fn config() -> engine::Config {
    engine::Config::new(vec![Instrument {
        id: InstrumentId(1),
        symbol: Symbol::new("BTCUSD").expect("a valid symbol"),
        tick: Price::from_whole(1),
        price_max: Price(limits::PRICE_MAX),
        qty_max: Qty(limits::QTY_MAX),
        lot_decimals: 8,
    }])
}

fn replay(sample: &Sample) -> Offline {
    let mut config = config();
    // One account plays the whole file.
    config.accounts_max = 1;
    offline(config, sample).expect("room for the sample")
}

#[test]
fn all_venue_trades_and_none_extra() {
    let Some(sample) = load() else { return };
    let result = replay(&sample);
    assert_eq!(result.comparison.venue, 284);
    assert_eq!(result.comparison.reproduced, 284);
    assert_eq!(result.comparison.extra, 0);
    assert_eq!(result.best_bid, Some(Price::from_whole(78_350)));
    assert_eq!(result.best_ask, Some(Price::from_whole(78_351)));
    // 6,516 rest in the venue's own book. Of them, these can't rest here: price above 32 bits (the
    // engine refuses them), quantity above 32 bits (OUCH can't say it), bids at price 0 (dropped).
    let not_here =
        result.price_rejects + sample.counts.quantity_too_large + sample.counts.price_zero_bids;
    assert_eq!((result.resting, result.resting + not_here), (6_222, 6_516));
    assert_eq!(result.post_only_rejects, 100_518);
}

/// Negative control: without the post-only mapping the figures are others, so they do depend on
/// the mapping and on matching.
#[test]
fn plain_limits_instead_of_post_only_trade_far_more() {
    let Some(mut sample) = load() else { return };
    let plain = |message: &mut FlowMessage| {
        if let participant::Action::New { post_only, .. } = &mut message.action {
            *post_only = false;
        }
    };
    sample.live.iter_mut().for_each(plain);
    assert!(replay(&sample).comparison.extra > 1_000);
}
