//! `fairbell-lab web`: the web door of an exchange of our own, in this process, under load and under attack.

pub mod attack;
pub mod books;
pub mod client;
pub mod load;
pub mod sessions;
pub mod venue;

use clap::{Args, Subcommand};
use host::failure::Failure;

/// Options of `fairbell-lab web`.
#[derive(Args, Clone, Debug)]
pub struct WebArgs {
    /// What to do.
    #[command(subcommand)]
    pub what: What,
}

/// What can be done with the door.
#[derive(Subcommand, Clone, Debug)]
pub enum What {
    /// Attacks on the door while honest clients trade
    Attack(attack::WebAttackArgs),
    /// Books that a client had, beside the engine's at the same positions
    Books(books::BooksArgs),
    /// Many WebSockets at once, beside an OUCH session of the same run
    Load(load::LoadArgs),
    /// The same sessions over OUCH, FIX and a WebSocket, and the engine's logs beside one another
    Sessions(sessions::SessionsArgs),
}

/// Does it.
///
/// # Errors
/// See each command.
pub fn run(args: &WebArgs) -> Result<(), Failure> {
    match &args.what {
        What::Attack(args) => attack::run(args),
        What::Books(args) => books::run(args),
        What::Load(args) => load::run(args),
        What::Sessions(args) => sessions::run(args),
    }
}
