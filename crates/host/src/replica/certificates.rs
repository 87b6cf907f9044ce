//! Who a replica is to the others: a key of its own, and a certificate of the group's authority with
//! group and number in it.
//!
//! They lie in a folder beside the cluster file: `authority.pem` and `authority.key.pem`,
//! `replica-1.pem` and `replica-1.key.pem`, and so on. A replica needs its own two files there and
//! nobody else's; the authority's certificate is in the cluster file, its key is needed to issue
//! further certificates alone and belongs on no machine of the group. The deployment's secret
//! makes nobody a replica.

use std::path::{Path, PathBuf};

use net::{ClientTls, Clients, Identity, ServerTls};

use super::cluster::Cluster;
use crate::authority::{Authority, End, Pair, keep};
use crate::failure::Failure;
use crate::tls::read;

/// The folder, beside the cluster file.
pub const FOLDER: &str = "keys";

/// The name of a replica in its certificate.
pub fn name(group: u64, id: u8) -> String {
    format!("replica-{id}.group-{group:016x}.fairbell")
}

fn authority_name(group: u64) -> String {
    format!("authority.group-{group:016x}.fairbell")
}

fn files(folder: &Path, name: &str) -> [PathBuf; 2] {
    [folder.join(format!("{name}.pem")), folder.join(format!("{name}.key.pem"))]
}

fn text(path: &Path) -> Result<String, Failure> {
    Ok(String::from_utf8_lossy(&read(&path.display().to_string())?).into_owned())
}

fn pair([certificate, key]: &[PathBuf; 2]) -> Result<Pair, Failure> {
    Ok(Pair { certificate: text(certificate)?, key: text(key)? })
}

/// Makes in the cluster's folder what is not there yet: an authority, whose certificate the cluster
/// gets, and certificate and key of each place. What it has made.
///
/// # Errors
/// Files that can't be read or written; an authority whose key is elsewhere while a certificate is
/// missing.
pub fn issue(cluster: &mut Cluster) -> Result<Vec<String>, Failure> {
    let folder = cluster.keys.clone();
    let mut made = Vec::new();
    crate::files::folder(&folder)?;
    let [certificate, key] = files(&folder, "authority");
    let name_of = authority_name(cluster.group);
    let authority = if cluster.authority.is_empty() && !certificate.exists() {
        let fresh = Authority::new(&name_of)?;
        keep(&certificate, &key, &fresh.pair)?;
        made.push("authority".to_string());
        Some(fresh)
    } else if key.exists() {
        Some(Authority::again(&name_of, pair(&[certificate, key.clone()])?)?)
    } else {
        None
    };
    if let (true, Some(authority)) = (cluster.authority.is_empty(), &authority) {
        cluster.authority = authority.pair.certificate.clone();
    }
    let missing = cluster.places().map(|(id, _)| id);
    let missing: Vec<u8> = missing
        .filter(|id| !files(&folder, &format!("replica-{id}")).iter().all(|file| file.exists()))
        .collect();
    for id in missing {
        let Some(authority) = &authority else {
            let why = format!("{} is needed to issue replica {id} a certificate", key.display());
            return Err(Failure::Usage(why));
        };
        let (own, name) = (format!("replica-{id}"), name(cluster.group, id));
        let [certificate, key] = files(&folder, &own);
        let signed = authority.sign(&name, std::slice::from_ref(&name), End::Both)?;
        keep(&certificate, &key, &signed)?;
        made.push(own);
    }
    Ok(made)
}

/// A replica's own certificate and key, and its group's authority.
#[derive(Clone)]
pub struct Credentials {
    group: u64,
    authority: String,
    chain: String,
    key: String,
}

impl Credentials {
    /// Those of replica `id`.
    ///
    /// # Errors
    /// Files that are missing, and how to make them.
    pub fn read(cluster: &Cluster, id: u8) -> Result<Credentials, Failure> {
        let own = pair(&files(&cluster.keys, &format!("replica-{id}")));
        let own = own.and_then(|own| match cluster.authority.is_empty() {
            true => Err(Failure::Usage("the cluster file names no authority".to_string())),
            false => Ok(own),
        });
        let own = own.map_err(|why| {
            let hint = "`fairbell replica --cluster FILE --issue` makes certificates and keys";
            Failure::Usage(format!("{why}; {hint}"))
        })?;
        Ok(Credentials {
            group: cluster.group,
            authority: cluster.authority.clone(),
            chain: own.certificate,
            key: own.key,
        })
    }

    fn identity(&self) -> Identity<'_> {
        Identity { chain: self.chain.as_bytes(), key: self.key.as_bytes() }
    }

    /// TLS where other replicas connect: they have to show certificates of the same authority.
    ///
    /// # Errors
    /// Certificates that are none.
    pub fn door(&self) -> Result<ServerTls, Failure> {
        ServerTls::new(self.identity(), Clients::Required(self.authority.as_bytes())).map_err(wrong)
    }

    /// TLS where operators ask how it stands: they know the deployment's secret, and have no
    /// certificates.
    ///
    /// # Errors
    /// Certificates that are none.
    pub fn status_tls(&self) -> Result<ServerTls, Failure> {
        ServerTls::new(self.identity(), Clients::Any).map_err(wrong)
    }

    /// TLS to another replica.
    ///
    /// # Errors
    /// Certificates that are none.
    pub fn to(&self, id: u8) -> Result<ClientTls, Failure> {
        let name = name(self.group, id);
        ClientTls::new(self.authority.as_bytes(), &name, Some(self.identity())).map_err(wrong)
    }

    /// The group.
    pub fn group(&self) -> u64 {
        self.group
    }
}

/// TLS of an operator to a replica.
///
/// # Errors
/// The cluster's authority is none.
pub fn asking(cluster: &Cluster, id: u8) -> Result<ClientTls, Failure> {
    ClientTls::new(cluster.authority.as_bytes(), &name(cluster.group, id), None).map_err(wrong)
}

fn wrong(error: net::TlsError) -> Failure {
    Failure::Usage(format!("certificates of the group: {error}"))
}
