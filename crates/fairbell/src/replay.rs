//! `fairbell replay`: the sample in file order through the engine alone.

use crate::cli::ReplayArgs;
use crate::failure::Failure;
use crate::up;

/// Replays the sample and compares with the venue's trades.
pub fn run(args: &ReplayArgs) -> Result<(), Failure> {
    let config = args.load_config()?;
    let sample = up::sample(&config)?;
    let replay = up::replay(&config, &sample)?;
    let comparison = replay.comparison;
    let not_here =
        replay.price_rejects + sample.counts.quantity_too_large + sample.counts.price_zero_bids;
    if args.json {
        let document = serde_json::json!({
            "seed": config.flow.seed,
            "messages": replay.messages,
            "venue_trades": comparison.venue,
            "venue_trades_reproduced_offline": comparison.reproduced,
            "venue_trades_extra_offline": comparison.extra,
            "resting_orders": replay.resting,
            "resting_orders_of_the_venue": replay.resting + not_here,
            "best_bid": replay.best_bid.map(|price| price.0),
            "best_offer": replay.best_ask.map(|price| price.0),
            "post_only_rejects": replay.post_only_rejects,
            "price_rejects": replay.price_rejects,
            "cancels_too_late": replay.cancels_too_late,
        });
        println!("{document:#}");
    } else {
        let price = |price: Option<types::Price>| {
            price.map_or_else(|| "none".to_string(), |price| price.to_string())
        };
        println!("messages played          {}", replay.messages);
        println!(
            "venue trades reproduced  {} of {}, {} extra",
            comparison.reproduced, comparison.venue, comparison.extra
        );
        println!(
            "book at the end          {} orders resting, best {} / {}",
            replay.resting,
            price(replay.best_bid),
            price(replay.best_ask)
        );
        println!(
            "  the venue's has {}: {} with a price and {} with a quantity over 32 bits and {} bids at\n  \
             price 0 can't rest here",
            replay.resting + not_here,
            replay.price_rejects,
            sample.counts.quantity_too_large,
            sample.counts.price_zero_bids
        );
        println!("post-only rejects        {}", replay.post_only_rejects);
        println!("cancels too late         {}", replay.cancels_too_late);
    }
    if comparison.reproduced != comparison.venue || comparison.extra != 0 {
        return Err(Failure::Run("the engine did not reproduce the venue's trades".to_string()));
    }
    Ok(())
}
