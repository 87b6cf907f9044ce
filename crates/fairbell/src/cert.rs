//! `fairbell cert`: an authority and what it signs, for trials of TLS.
//!
//! What is there is never overwritten: an authority that exists signs the further certificates.

use std::path::{Path, PathBuf};

use clap::Args;
use host::authority::{Authority, End, Pair, keep};
use host::failure::{Failure, on};
use host::tls::{hex, read};

/// Options of `fairbell cert`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell cert --dir trial --client member1 --client own   authority, server, two clients\n  \
    fairbell cert --dir trial --client member2                one more client, same authority\n  \
    fairbell cert --dir trial --server gw1.example --client own   for doors of another name\n\n\
    For trials: whoever has the folder can make certificates for anybody.")]
pub struct CertArgs {
    /// Folder of the files; made if it is not there
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
    /// Further name or address of the doors, beside localhost, 127.0.0.1 and ::1
    #[arg(long = "server", value_name = "NAME")]
    pub servers: Vec<String>,
    /// Common name of a client; again for further ones
    #[arg(long = "client", value_name = "NAME")]
    pub clients: Vec<String>,
}

/// Name of the authority that [`run`] makes.
const TRIAL: &str = "fairbell trial authority";

/// Makes what is not there yet.
///
/// # Errors
/// Files that can't be written or are there already.
pub fn run(args: &CertArgs) -> Result<(), Failure> {
    std::fs::create_dir_all(&args.dir).map_err(|error| on(&args.dir, error))?;
    let path = |name: &str, kind: &str| args.dir.join(format!("{name}{kind}.pem"));
    let (ca, ca_key) = (path("authority", ""), path("authority", ".key"));
    let authority = if ca.exists() && ca_key.exists() {
        let text = |path: &Path| {
            let bytes = read(&path.display().to_string())?;
            Ok::<_, Failure>(String::from_utf8_lossy(&bytes).into_owned())
        };
        Authority::again(TRIAL, Pair { certificate: text(&ca)?, key: text(&ca_key)? })?
    } else {
        let fresh = Authority::new(TRIAL)?;
        write(&ca, &ca_key, &fresh.pair)?;
        fresh
    };
    let server = path("server", "");
    if !server.exists() {
        let local = ["localhost", "127.0.0.1", "::1"].map(str::to_string);
        let hosts: Vec<String> = local.into_iter().chain(args.servers.iter().cloned()).collect();
        write(&server, &path("server", ".key"), &authority.sign("fairbell", &hosts, End::Server)?)?;
    }
    for name in &args.clients {
        let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        if name.is_empty() || !plain || ["authority", "server"].contains(&name.as_str()) {
            let why = "letters, digits and -_. make a client's name";
            return Err(Failure::Usage(format!("--client: {name:?}: {why}")));
        }
        write(&path(name, ""), &path(name, ".key"), &authority.sign(name, &[], End::Client)?)?;
    }
    Ok(())
}

/// Writes a certificate that is shown on standard output.
fn write(certificate: &Path, key: &Path, pair: &Pair) -> Result<(), Failure> {
    keep(certificate, key, pair)?;
    let shown = net::Identity::fingerprint(pair.certificate.as_bytes()).unwrap_or_default();
    println!("{}  sha256:{}", certificate.display(), hex(&shown));
    Ok(())
}
