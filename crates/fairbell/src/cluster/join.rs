//! `fairbell cluster token` and `fairbell cluster join`: a machine gets its certificate by itself.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use host::failure::{Failure, on};
use host::fleet::credentials::Credentials;
use host::fleet::file::ClusterFile;
use host::fleet::join::Joining;
use host::fleet::token::{self, Token};
use serde_json::json;

use super::{At, PATIENCE, operator};
use crate::options::duration;

/// Options of `fairbell cluster token`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell cluster token edge-3                 a line for that machine, good for an hour, once\n  \
    fairbell cluster token edge-3 --valid 15m > edge-3.token\n\n\
    Then, on that machine, with cluster.toml there:\n  \
    fairbell cluster join --cluster cluster.toml --name edge-3 --token-file edge-3.token\n\n\
    Another token for the same node takes the place of this one; `revoke` takes it away. Roots get their\n\
    keys by `fairbell cluster issue` alone.")]
pub struct TokenArgs {
    /// Which node
    #[arg(value_name = "NODE")]
    pub node: String,
    /// How long it is good: 1s to 720h
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration)]
    pub valid: Duration,
    /// For machines
    #[arg(long)]
    pub json: bool,
    /// Which cluster
    #[command(flatten)]
    pub at: At,
}

/// Options of `fairbell cluster join`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell cluster join --cluster /etc/fairbell/cluster.toml --name edge-3 --token fairbell-join-1-...\n  \
    fairbell cluster join --cluster cluster.toml --name edge-3 --token-file edge-3.token\n\n\
    It makes a key pair in keys/NAME beside the cluster file, asks the roots for its certificate and writes\n\
    that, authority.pem and, where there is none, venue.toml. After a failure on the way the same command\n\
    goes on. Exit codes: 2 wrong options or files, 4 the roots refused it, 1 no root has answered.")]
pub struct JoinArgs {
    /// Who is where: the same file on every machine
    #[arg(long, value_name = "FILE")]
    pub cluster: PathBuf,
    /// This machine's name in it
    #[arg(long, value_name = "NAME")]
    pub name: String,
    /// The token; other users of this machine see it while the command runs
    #[arg(long, value_name = "TOKEN", required_unless_present = "token_file")]
    pub token: Option<String>,
    /// A file with the token
    #[arg(long, value_name = "FILE", conflicts_with = "token")]
    pub token_file: Option<PathBuf>,
    /// Folder of its keys [default: keys/NAME beside the cluster file]
    #[arg(long, value_name = "DIR")]
    pub keys: Option<PathBuf>,
    /// Put another certificate in the place of the one that is there
    #[arg(long)]
    pub replace: bool,
    /// How long roots may not answer
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub patience: Duration,
    /// For machines
    #[arg(long)]
    pub json: bool,
}

/// Has the roots give a node a token, and prints it.
///
/// # Errors
/// Why they don't.
pub fn token(args: &TokenArgs) -> Result<(), Failure> {
    let file = ClusterFile::read(&args.at.cluster)?;
    file.node(&args.node)?;
    let (token, ends_ns) = token::grant(&operator(&file)?, &args.node, args.valid, PATIENCE)?;
    let text = token.text();
    if args.json {
        println!("{:#}", json!({ "node": args.node, "token": text, "ends_ns": ends_ns }));
        return Ok(());
    }
    println!("{text}");
    let ends = token::time_text(ends_ns);
    eprintln!(
        "{}: good once, until {ends}: `fairbell cluster join --name {} --token ...` there",
        args.node, args.node
    );
    Ok(())
}

/// Gets this machine's certificate.
///
/// # Errors
/// See [`Joining::run`].
pub fn join(args: &JoinArgs) -> Result<(), Failure> {
    let file = ClusterFile::read(&args.cluster)?;
    let text = match (&args.token, &args.token_file) {
        (Some(text), _) => text.clone(),
        (None, Some(path)) => std::fs::read_to_string(path).map_err(|error| on(path, error))?,
        (None, None) => return Err(Failure::Usage("--token: which".to_string())),
    };
    let token = Token::parse(&text)?;
    let keys = args.keys.clone().unwrap_or_else(|| Credentials::folder(&file, &args.name));
    let joining = Joining {
        file: &file,
        name: &args.name,
        token: &token,
        keys: &keys,
        replace: args.replace,
    };
    let done = joining.run(args.patience)?;
    if args.json {
        let document = json!({
            "node": args.name, "generation": done.generation, "written": done.written,
            "notes": done.notes,
        });
        println!("{document:#}");
        return Ok(());
    }
    done.written.iter().for_each(|path| println!("{}", path.display()));
    done.notes.iter().for_each(|note| println!("note: {note}"));
    println!(
        "{} has its certificate, generation {}: `fairbell cluster doctor {}`, then `fairbell node`",
        args.name, done.generation, args.name
    );
    Ok(())
}
