//! `fairbell replica`: what is done to the folder of a replica that does not run. A replica that runs is a
//! node of `cluster.toml` with the role root ([`crate::node`]).

mod recover;

use clap::{Args, Subcommand};

use host::failure::Failure;

/// What is said to whoever wants a replica as earlier versions had them.
pub const MOVED: &str = "replica: a replica of the root is a node of cluster.toml with the role root now: \
     `fairbell cluster init`, then `fairbell node --cluster FILE --name NODE`; for --status `fairbell \
     cluster roots`, for --issue `fairbell cluster issue NODE`, for places in `reserve` the role reserve";

/// Options of `fairbell replica`.
#[derive(Args, Clone, Debug)]
pub struct ReplicaArgs {
    /// What is to be done
    #[command(subcommand)]
    pub what: What,
}

/// What is done to a replica's folder.
#[derive(Subcommand, Clone, Debug)]
pub enum What {
    /// Let a replica in doubt elect one whose log counts, where too few are whole to elect anybody
    Recover(recover::RecoverArgs),
}

/// Does it.
///
/// # Errors
/// What the command says.
pub fn run(args: &ReplicaArgs) -> Result<(), Failure> {
    match &args.what {
        What::Recover(args) => recover::run(args),
    }
}
