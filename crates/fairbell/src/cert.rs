//! `fairbell cert`: an authority and what it signs, for trials of TLS.
//!
//! Keys are ECDSA on P-256. What is there is never overwritten: an authority that exists signs the
//! further certificates.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::failure::Failure;
use crate::tls::{hex, read};

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
    /// Further name or address of the doors, beside localhost and 127.0.0.1
    #[arg(long = "server", value_name = "NAME")]
    pub servers: Vec<String>,
    /// Common name of a client; again for further ones
    #[arg(long = "client", value_name = "NAME")]
    pub clients: Vec<String>,
}

/// A certificate and its key, in PEM.
pub struct Pair {
    /// Certificate.
    pub certificate: String,
    /// Private key.
    pub key: String,
}

/// At which end of a connection a certificate may be shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Where connections are accepted.
    Server,
    /// Where they are opened.
    Client,
    /// At either.
    Both,
}

/// Name of the authority that [`run`] makes.
const TRIAL: &str = "fairbell trial authority";

/// Who signs.
pub struct Authority {
    /// Its own certificate and key.
    pub pair: Pair,
    issuer: Issuer<'static, KeyPair>,
}

fn failed(error: rcgen::Error) -> Failure {
    Failure::Run(format!("certificates: {error}"))
}

impl Authority {
    /// A fresh one of this name.
    ///
    /// # Errors
    /// When the machine has no randomness.
    pub fn new(name: &str) -> Result<Authority, Failure> {
        let key = KeyPair::generate().map_err(failed)?;
        let params = authority(name)?;
        let certificate = params.self_signed(&key).map_err(failed)?.pem();
        let pair = Pair { certificate, key: key.serialize_pem() };
        Ok(Authority { pair, issuer: Issuer::new(params, key) })
    }

    /// One made earlier, by [`Authority::new`] under this name.
    ///
    /// # Errors
    /// When the key is none.
    pub fn again(name: &str, pair: Pair) -> Result<Authority, Failure> {
        let key = KeyPair::from_pem(&pair.key).map_err(failed)?;
        Ok(Authority { pair, issuer: Issuer::new(authority(name)?, key) })
    }

    /// A certificate of `name`, for these host names or addresses.
    ///
    /// # Errors
    /// When a host name is none.
    pub fn sign(&self, name: &str, hosts: &[String], end: End) -> Result<Pair, Failure> {
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = CertificateParams::new(hosts.to_vec()).map_err(failed)?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let (server, client) =
            (ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth);
        params.extended_key_usages = match end {
            End::Server => vec![server],
            End::Client => vec![client],
            End::Both => vec![server, client],
        };
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed)?.pem();
        Ok(Pair { certificate, key: key.serialize_pem() })
    }
}

fn authority(name: &str) -> Result<CertificateParams, Failure> {
    let mut params = CertificateParams::new(Vec::new()).map_err(failed)?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

/// Makes what is not there yet.
///
/// # Errors
/// Files that can't be written or are there already.
pub fn run(args: &CertArgs) -> Result<(), Failure> {
    std::fs::create_dir_all(&args.dir).map_err(|error| on(&args.dir, &error))?;
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
        let local = ["localhost".to_string(), "127.0.0.1".to_string()];
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

fn on(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Run(format!("{}: {error}", path.display()))
}

/// Writes a certificate that is shown on standard output.
fn write(certificate: &Path, key: &Path, pair: &Pair) -> Result<(), Failure> {
    keep(certificate, key, pair)?;
    let shown = net::Identity::fingerprint(pair.certificate.as_bytes()).unwrap_or_default();
    println!("{}  sha256:{}", certificate.display(), hex(&shown));
    Ok(())
}

/// Writes a certificate and its key, which is for its owner's eyes only.
///
/// # Errors
/// Files that are there already, or can't be written.
pub fn keep(certificate: &Path, key: &Path, pair: &Pair) -> Result<(), Failure> {
    use std::os::unix::fs::OpenOptionsExt;
    for (path, text, mode) in [(certificate, &pair.certificate, 0o644), (key, &pair.key, 0o600)] {
        let mut options = std::fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(mode).open(path);
        let mut file = file.map_err(|error| on(path, &error))?;
        file.write_all(text.as_bytes()).map_err(|error| on(path, &error))?;
    }
    Ok(())
}
