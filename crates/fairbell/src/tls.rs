//! Certificates and keys from files, and `fairbell check config`, which looks at them and at
//! everything else a configuration says.

use std::path::{Path, PathBuf};

use clap::Args;
use net::{ClientTls, Clients, Identity, ServerTls};

use crate::config::Doors;
use crate::config::doors::NONE;
use crate::failure::Failure;

/// Largest file that is read.
const FILE_MAX: u64 = 1 << 20;

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

/// Reads a small file.
///
/// # Errors
/// With its name.
pub fn read(path: &str) -> Result<Vec<u8>, Failure> {
    let failed = |why: String| Failure::Usage(format!("{path}: {why}"));
    let about = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?;
    if about.len() > FILE_MAX {
        return Err(failed(format!("larger than {FILE_MAX} bytes")));
    }
    std::fs::read(Path::new(path)).map_err(|error| failed(error.to_string()))
}

/// TLS of the doors, and of the built-in participants; `None`: the doors are plain.
///
/// # Errors
/// What is wrong with which file.
pub fn doors(doors: &Doors) -> Result<Option<(ServerTls, ClientTls)>, Failure> {
    if !doors.tls() {
        return Ok(None);
    }
    let failed = |key: &str, error: net::TlsError| {
        Failure::Usage(format!("doors.{key}: {error} ({})", doors.certificate))
    };
    let (chain, key) = (read(&doors.certificate)?, read(&doors.key)?);
    let authorities = read(&doors.authorities)?;
    let clients = match doors.certificates_required() {
        true => Clients::Required(&authorities),
        false => Clients::Optional(&authorities),
    };
    let server = ServerTls::new(Identity { chain: &chain, key: &key }, clients)
        .map_err(|error| failed("certificate", error))?;
    let own = match doors.own_certificate == NONE {
        true => None,
        false => Some((read(&doors.own_certificate)?, read(&doors.own_key)?)),
    };
    let identity = own.as_ref().map(|(chain, key)| Identity { chain, key });
    let client = ClientTls::new(&authorities, &doors.server_name, identity)
        .map_err(|error| failed("own_certificate", error))?;
    Ok(Some((server, client)))
}

/// TLS of a client from files named on the command line.
///
/// # Errors
/// What is wrong with which file.
pub fn client(
    authorities: &str,
    own: Option<(&str, &str)>,
    name: &str,
) -> Result<ClientTls, Failure> {
    let own = own.map(|(cert, key)| Ok::<_, Failure>((read(cert)?, read(key)?))).transpose()?;
    let identity = own.as_ref().map(|(chain, key)| Identity { chain, key });
    ClientTls::new(&read(authorities)?, name, identity)
        .map_err(|error| Failure::Usage(format!("TLS: {error}")))
}

/// Looks at a configuration.
///
/// # Errors
/// The first mistake.
pub fn check(args: &CheckConfigArgs) -> Result<(), Failure> {
    let config = crate::config::read_with_doors(args.config.as_deref())?;
    let tls = doors(&config.doors)?;
    let accounts = &config.accounts.0;
    let count = |what: fn(&crate::config::AccountEntry) -> bool| {
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

/// Hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
