//! `fairbell admin`: steers a running exchange over its Unix-domain socket.
//!
//! One connection, one line of JSON there, one back ([`protocol`]). The exchange's side is a thread
//! of its own ([`server`]) that asks nodes between two of their inputs ([`act`]) and keeps the
//! audit file ([`audit`]). Nothing of it is on the way of orders.

pub mod act;
pub mod action;
pub mod audit;
mod callers;
pub mod members;
pub mod protocol;
pub mod server;

use action::Action;
use clap::Args;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use crate::failure::Failure;
use protocol::{REPLY_MAX, Reply, Request};

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

/// Longest wait for the answer; the exchange gives up on a node much earlier.
const WAIT: Duration = Duration::from_secs(30);

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

/// One request to the exchange behind a socket.
pub fn ask(socket: &Path, request: &Request) -> Result<Reply, Failure> {
    let on = |error: std::io::Error| Failure::Run(format!("{}: {error}", socket.display()));
    let mut stream = UnixStream::connect(socket).map_err(on)?;
    stream.set_read_timeout(Some(WAIT)).map_err(on)?;
    stream.set_write_timeout(Some(WAIT)).map_err(on)?;
    stream.write_all(request.line().as_bytes()).map_err(on)?;
    let mut line = Vec::new();
    // Not to the end of the stream: it may end with an error when a request is refused unread.
    BufReader::new(stream.take(REPLY_MAX as u64)).read_until(b'\n', &mut line).map_err(on)?;
    serde_json::from_slice(&line)
        .map_err(|error| Failure::Run(format!("the exchange's answer can't be read: {error}")))
}
