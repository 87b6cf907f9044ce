//! `fairbell-lab replay`: the sample in file order through the engine alone.

use clap::Args;
use fairbell::up;
use host::config::{Config, Loaded};
use host::failure::Failure;
use std::path::PathBuf;

/// Options of `fairbell-lab replay`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab replay                      how many of the venue's trades the engine reproduces\n  \
    fairbell-lab replay --sample DIR --json  another folder, one JSON document")]
pub struct ReplayArgs {
    /// Configuration file [default: fairbell.toml when it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folder of the sample's files
    #[arg(long, value_name = "DIR")]
    pub sample: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

impl ReplayArgs {
    /// The configuration: file or defaults, then these options, then checked as a whole.
    pub fn load_config(&self) -> Result<Config, Failure> {
        let mut loaded = Loaded::usual(self.config.as_deref())?;
        loaded.set_sample(self.sample.as_deref())?;
        Ok(loaded.finish()?)
    }
}

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
