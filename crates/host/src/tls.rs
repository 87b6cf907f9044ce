//! Certificates and keys from files.

use std::path::Path;

use net::{ClientTls, Clients, Identity, ServerTls, TlsError};

use crate::config::Doors;
use crate::config::doors::NONE;
use crate::failure::Failure;

/// Largest file that is read.
const FILE_MAX: u64 = 1 << 20;

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

/// A certificate with those that lead to its authority, and its private key, both PEM, of files that can
/// be used together with that of the authority.
///
/// # Errors
/// Which file is wrong, and why.
pub fn own(
    (certificate, key): (&Path, &Path),
    (authority, authorities): (&Path, &str),
) -> Result<(String, String), Failure> {
    let text = |path: &Path| {
        Ok::<_, Failure>(String::from_utf8_lossy(&read(&path.display().to_string())?).into_owned())
    };
    let (own, private) = (text(certificate)?, text(key)?);
    let identity = Identity { chain: own.as_bytes(), key: private.as_bytes() };
    identity.check(authorities.as_bytes()).map_err(|error| {
        let (file, why) = match &error {
            TlsError::Authorities => {
                (authority, format!("{error}: copy the cluster's file to there"))
            }
            TlsError::Key => (key, error.to_string()),
            TlsError::OtherKey => (key, format!("it is not the key of {}", certificate.display())),
            TlsError::Unsigned => {
                let why = format!(
                    "the authority of {} has not signed it: one of the two is another cluster's",
                    authority.display()
                );
                (certificate, why)
            }
            TlsError::Certificate | TlsError::Refused(_) => (certificate, error.to_string()),
        };
        Failure::Usage(format!("{}: {why}", file.display()))
    })?;
    Ok((own, private))
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

/// Hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
