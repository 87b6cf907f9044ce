//! What operators can ask for: the actions of the command line and of the admin socket.

use clap::Subcommand;
use serde::{Deserialize, Serialize};

/// Names of phases, in the order of their numbers.
pub const PHASES: [&str; 8] =
    ["closed", "pre-open", "opening", "continuous", "halt", "volatility", "closing", "batch"];

/// Names of limits, in the order of their numbers.
pub const LIMITS: [&str; 7] = [
    "order-lots",
    "order-value",
    "open-orders",
    "position-lots",
    "credit",
    "messages-per-s",
    "fat-finger-bp",
];

/// Names of parameters of an instrument, in the order of their numbers.
pub const PARAMETERS: [&str; 8] = [
    "reference",
    "static-collar-bp",
    "dynamic-collar-bp",
    "qty-min",
    "qty-max",
    "tick",
    "listed",
    "shard",
];

/// What operators can do.
#[derive(Subcommand, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Action {
    /// How the exchange is: day, phases, log, gateways, who is killed or locked
    #[command(after_help = "Examples:\n  fairbell admin status --json")]
    Status,
    /// Who is logged on where, since when, with how many messages in and out
    #[command(after_help = "Examples:\n  fairbell admin sessions")]
    Sessions,
    /// End an account's session; it may log on again
    #[command(after_help = "Examples:\n  fairbell admin disconnect FLOW01")]
    Disconnect {
        /// The account
        account: String,
    },
    /// Let an account log on nowhere; a session that is there stays
    #[command(after_help = "Examples:\n  fairbell admin lock FLOW01")]
    Lock {
        /// The account
        account: String,
    },
    /// Let an account log on again
    #[command(after_help = "Examples:\n  fairbell admin unlock FLOW01")]
    Unlock {
        /// The account
        account: String,
    },
    /// Kill switch: cancel everything of an account and refuse its orders
    #[command(after_help = "Examples:\n  fairbell admin kill FLOW01\n  fairbell admin kill all")]
    Kill {
        /// The account, or all
        account: String,
    },
    /// Take orders of an account again
    #[command(after_help = "Examples:\n  fairbell admin revive FLOW01")]
    Revive {
        /// The account, or all
        account: String,
    },
    /// Halt an instrument: cancels only
    #[command(after_help = "Examples:\n  fairbell admin halt GENB")]
    Halt {
        /// The instrument, or all
        instrument: String,
    },
    /// End a halt: back to the instrument's own kind of trading
    #[command(after_help = "Examples:\n  fairbell admin resume GENB")]
    Resume {
        /// The instrument, or all
        instrument: String,
    },
    /// Change the phase of an instrument
    #[command(after_help = "Examples:\n  fairbell admin phase GENB volatility")]
    Phase {
        /// The instrument, or all
        instrument: String,
        /// The phase
        #[arg(value_parser = PHASES)]
        phase: String,
    },
    /// End an interval of batch auctions now
    #[command(after_help = "Examples:\n  fairbell admin uncross GENB")]
    Uncross {
        /// The instrument, or all
        instrument: String,
    },
    /// Cancel orders without blocking anybody
    #[command(after_help = "Examples:\n  \
        fairbell admin mass-cancel --account FLOW01 --side buy\n  \
        fairbell admin mass-cancel --account all --instrument GENB")]
    MassCancel {
        /// Of this account, or all
        #[arg(long, value_name = "ACCOUNT")]
        account: String,
        /// Of this instrument, or all
        #[arg(long, value_name = "INSTRUMENT", default_value = "all")]
        instrument: String,
        /// Of this side only
        #[arg(long, value_name = "SIDE", value_parser = ["buy", "sell"])]
        side: Option<String>,
    },
    /// Set a limit of an account, or the one of all accounts that have none of their own
    #[command(after_help = "Examples:\n  \
        fairbell admin set-limit FLOW01 open-orders 500\n  \
        fairbell admin set-limit all messages-per-s none")]
    SetLimit {
        /// The account, or all
        account: String,
        /// Which limit
        #[arg(value_parser = LIMITS)]
        limit: String,
        /// A whole number, or none; 0 lets nothing through
        value: String,
    },
    /// Set a parameter of an instrument
    #[command(after_help = "Examples:\n  \
        fairbell admin set-instrument GENB reference 101.25\n  \
        fairbell admin set-instrument GENB static-collar-bp 500\n  \
        fairbell admin set-instrument GENB shard shard-2")]
    SetInstrument {
        /// The instrument
        instrument: String,
        /// Which parameter
        #[arg(value_parser = PARAMETERS)]
        parameter: String,
        /// A price for reference and tick, a shard's name or number, else a whole number
        value: String,
    },
    /// Break a trade
    #[command(after_help = "Examples:\n  fairbell admin bust-trade 4711")]
    BustTrade {
        /// Its match number
        match_number: u64,
    },
    /// Correct a trade
    #[command(after_help = "Examples:\n  fairbell admin correct-trade 4711 101.25 300")]
    CorrectTrade {
        /// Its match number
        match_number: u64,
        /// The right price: a multiple of the tick, at most price_max
        price: String,
        /// The right lots: at most those that the trade was made of
        lots: u32,
    },
    /// Put a proxy that stands by at the place of another one, while all goes on
    #[command(after_help = "Examples:\n  \
        fairbell admin replace-proxy 2\n  \
        fairbell admin replace-proxy 2 --by 5\n\n\
        overlay.standby says how many stand by; without --by the one that answers soonest comes.")]
    ReplaceProxy {
        /// Who leaves, from 1
        proxy: u16,
        /// Who comes
        #[arg(long, value_name = "PROXY")]
        by: Option<u16>,
    },
    /// Who the root's replicas are, and put another one in the place of one that is lost
    #[command(after_help = "Examples:\n  fairbell admin replicas list")]
    Replicas {
        /// What to do.
        #[command(subcommand)]
        what: Members,
    },
    /// Cancel orders whose time is over; they go by themselves, too
    #[command(after_help = "Examples:\n  fairbell admin expire-orders")]
    ExpireOrders,
    /// Begin a trading day, with a call of all instruments to be set after it
    #[command(after_help = "Examples:\n  fairbell admin start-of-day")]
    StartOfDay,
    /// End the trading day
    #[command(after_help = "Examples:\n  fairbell admin end-of-day")]
    EndOfDay,
}

/// What there is to do about the members of a group.
#[derive(Subcommand, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Members {
    /// Who is in the group, how far they have the log, and who is in reserve
    #[command(after_help = "Examples:\n  fairbell admin replicas list --json")]
    List,
    /// Take one of the reserve into the group: it gets the log, and is counted once it has it
    #[command(after_help = "Examples:\n  fairbell admin replicas add 4")]
    Add {
        /// Its number, one of those in reserve that was never in the group
        replica: u8,
    },
    /// Let the group do without one; its number is never used again
    #[command(after_help = "Examples:\n  fairbell admin replicas remove 2")]
    Remove {
        /// Its number
        replica: u8,
    },
    /// Take one of the reserve into the group, then let it do without another
    #[command(after_help = "Examples:\n  fairbell admin replicas replace 2 --by 4\n\n\
        The same command again goes on where it was.")]
    Replace {
        /// Who leaves
        replica: u8,
        /// Who comes
        #[arg(long, value_name = "N")]
        by: u8,
    },
}

impl Action {
    /// Whether it only looks.
    pub fn is_look(&self) -> bool {
        matches!(self, Action::Status | Action::Sessions | Action::Replicas { what: Members::List })
    }
}
