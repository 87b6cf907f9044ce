//! `fairbell admin`: steers a running exchange over its Unix-domain socket.
//!
//! The exchange's side of it is `host::admin`.

use std::path::PathBuf;

use clap::Args;
use host::admin::action::Action;
use host::admin::ask;
use host::admin::protocol::Request;

use host::failure::Failure;

/// Options of `fairbell admin`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell admin status\n  \
    fairbell admin sessions --json\n  \
    fairbell admin --as alice kill FLOW01   cancel all of an account, refuse its orders\n  \
    fairbell admin revive FLOW01\n  \
    fairbell admin halt GENB                and: fairbell admin resume GENB\n  \
    fairbell admin replicas replace 2 --by 4\n\n\
    An account is its user name, its number, or where that makes sense \"all\"; an instrument\n\
    its symbol, its number or \"all\". Every action is written to admin-audit.jsonl beside the\n\
    socket.")]
pub struct AdminArgs {
    /// The exchange's admin socket
    #[arg(long, value_name = "PATH", default_value = "out/admin.sock", global = true)]
    pub socket: PathBuf,
    /// On whose behalf, for the audit file; who you are to the system is there anyway
    #[arg(long = "as", value_name = "NAME", global = true)]
    pub operator: Option<String>,
    /// Print the answer as one JSON document
    #[arg(long, global = true)]
    pub json: bool,
    /// What to do.
    #[command(subcommand)]
    pub action: Action,
}

/// Asks the exchange and prints its answer.
pub fn run(args: &AdminArgs) -> Result<(), Failure> {
    let request = Request { operator: args.operator.clone(), action: args.action.clone() };
    request.check().map_err(Failure::Usage)?;
    let reply = ask(&args.socket, &request)?;
    if args.json {
        println!(
            "{}",
            serde_json::json!({ "ok": reply.ok, "text": reply.text, "data": reply.data })
        );
    } else if reply.ok {
        println!("{}", reply.text);
    }
    if reply.ok { Ok(()) } else { Err(Failure::Run(reply.text)) }
}
