//! Who a replica is to the others: a key of its own, and a certificate of the venue's authority with
//! group and number in it.
//!
//! `replica-1.pem` and `replica-1.key.pem` and so on lie in the folder of a root's keys
//! ([`crate::fleet::credentials`]). The roots' secret makes nobody a replica.

use std::path::Path;

use net::{ClientTls, Clients, Identity, ServerTls};

use super::cluster::Cluster;
use crate::failure::Failure;
use crate::tls::own;

/// The name of a replica in its certificate.
pub fn name(group: u64, id: u8) -> String {
    format!("replica-{id}.{}", domain(group))
}

/// What the names of all replicas of a group end with.
pub fn domain(group: u64) -> String {
    format!("group-{group:016x}.fairbell")
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
    /// Files that are missing or can't be used together, and how to make them.
    pub fn read(cluster: &Cluster, id: u8) -> Result<Credentials, Failure> {
        let authority = (Path::new("authority.pem"), &cluster.authority[..]);
        Credentials::in_folder(&cluster.keys, (cluster.group, id), authority)
    }

    /// Those of replica `id` of a group, in a folder; `authority`: the file of its certificate, and that, PEM.
    ///
    /// # Errors
    /// As [`Credentials::read`].
    pub fn in_folder(
        folder: &Path,
        (group, id): (u64, u8),
        authority: (&Path, &str),
    ) -> Result<Credentials, Failure> {
        let hint = |why: Failure| {
            Failure::Usage(format!(
                "{why}; `fairbell cluster issue NODE` makes certificates and keys"
            ))
        };
        let [certificate, key] =
            ["pem", "key.pem"].map(|end| folder.join(format!("replica-{id}.{end}")));
        let (chain, key) = own((&certificate, &key), authority).map_err(hint)?;
        Ok(Credentials { group, authority: authority.1.to_string(), chain, key })
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

    /// TLS where machines connect that have no certificates yet.
    ///
    /// # Errors
    /// Certificates that are none.
    pub fn to_anybody(&self) -> Result<ServerTls, Failure> {
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

fn wrong(error: net::TlsError) -> Failure {
    Failure::Usage(format!("certificates of the group: {error}"))
}
