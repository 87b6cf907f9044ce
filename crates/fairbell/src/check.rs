//! `fairbell check config`: everything a configuration says, and the files that it names.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use net::Identity;

use host::failure::Failure;
use host::tls::{doors, hex, read};

/// Options of `fairbell check`.
#[derive(Args, Clone, Debug)]
pub struct CheckArgs {
    /// What to check.
    #[command(subcommand)]
    pub check: Check,
}

/// The checks.
#[derive(Subcommand, Clone, Debug)]
pub enum Check {
    /// A configuration: every key, the certificates and keys it names, what accounts need
    Config(CheckConfigArgs),
}

/// Options of `fairbell check config`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell check config                      fairbell.toml of this folder\n  \
    fairbell check config --config prod.toml   another file, its certificates and keys\n\n\
    Nothing is started. A mistake is one line, with file, line and key, and exit code 2.")]
pub struct CheckConfigArgs {
    /// Configuration file [default: fairbell.toml when it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Looks at a configuration.
///
/// # Errors
/// The first mistake.
pub fn config(args: &CheckConfigArgs) -> Result<(), Failure> {
    let config = host::config::read_with_doors(args.config.as_deref())?;
    let tls = doors(&config.doors)?;
    let accounts = &config.accounts.0;
    let count = |what: fn(&host::config::AccountEntry) -> bool| {
        accounts.iter().filter(|account| what(account)).count()
    };
    let kind = match (&tls, config.doors.certificates_required()) {
        (None, _) => "plain, for trials on this machine",
        (Some(_), true) => "TLS 1.3, client certificates required",
        (Some(_), false) => "TLS 1.3, client certificates optional",
    };
    println!("doors     {}: {kind}", config.doors.listen);
    if tls.is_some() {
        let shown = Identity::fingerprint(&read(&config.doors.certificate)?).unwrap_or_default();
        println!("          certificate sha256:{}", hex(&shown));
    }
    println!(
        "accounts  {}: {} over FIX, {} with hashed passwords, {} bound to certificates, {} to \
         addresses",
        accounts.len(),
        count(|account| !account.fix_comp_id.is_empty()),
        count(|account| !account.password_hash.is_empty()),
        count(|account| !account.certificate.is_empty()),
        count(|account| !account.addresses.is_empty()),
    );
    println!("no mistake found");
    Ok(())
}
