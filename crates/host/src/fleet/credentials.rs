//! What a node shows to the others: a certificate of the cluster's authority with its name, and a key
//! of its own.
//!
//! `fairbell cluster init` makes the authority; `fairbell cluster issue NODE` makes the folder
//! `keys/NODE` beside `cluster.toml`, which goes to that machine and to no other:
//!
//! ```text
//! keys/authority.key.pem       signs certificates; belongs on no machine of the venue
//! keys/roots.secret            what the roots derive all keys between nodes from
//! keys/edge-3/edge-3.pem       its certificate, and its private key beside it
//! keys/edge-3/gate.key         proves at a root's door that one is worth a TLS handshake
//! keys/root-1/roots.secret     a copy, for roots alone
//! keys/root-1/issuer.key.pem   signs certificates of machines that join with a token, for roots alone
//! ```
//!
//! A certificate names its node, a generation and the cluster. Issuing again raises the generation;
//! revoking a node refuses all generations up to its present one.
//!
//! A root's issuing key can sign certificates of nodes that are no roots, and of nobody else: its own
//! certificate excludes the names that roots have (RFC 5280, 4.2.1.10), and who operates or is a root has to
//! show a certificate that the authority itself has signed.

use std::path::{Path, PathBuf};

use exchange::Secret;
use net::{ClientTls, Clients, Identity, ServerTls};
use probe::Key;

use super::doctor;
use super::file::{ClusterFile, NodeEntry};
use crate::authority::{Authority, End, Pair, Request, keep};
use crate::failure::{Failure, on};
use crate::files;
use crate::replica::{certificates, gate};

/// The folder of all keys, beside the cluster file.
pub const KEYS: &str = "keys";
/// The name of whoever operates the cluster, among the names of nodes.
pub const OPERATOR: &str = "operator";
const AUTHORITY_KEY: &str = "authority.key.pem";
const SECRET: &str = "roots.secret";
pub(super) const GATE: &str = "gate.key";
const ISSUER: &str = "issuer.pem";
const ISSUER_KEY: &str = "issuer.key.pem";
const GENERATION: &str = "generation";
/// Days that certificates hold.
pub const DAYS: u16 = 825;

/// Whether a file of a folder of keys is for its owner's eyes only.
pub(super) fn is_secret(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.ends_with(".key.pem") || [SECRET, GATE].contains(&name)
}

/// What the roots derive all keys of a venue from.
#[derive(Clone)]
pub struct RootSecret([u8; 32]);

impl std::fmt::Debug for RootSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RootSecret(..)")
    }
}

impl RootSecret {
    fn random() -> Result<RootSecret, Failure> {
        let random = probe::entropy().ok_or_else(|| Failure::Run("no randomness".to_string()))?;
        Ok(RootSecret(random))
    }

    /// The secret in a folder.
    ///
    /// # Errors
    /// No such file, or another one.
    pub fn read(folder: &Path) -> Result<RootSecret, Failure> {
        Ok(RootSecret(unhex(&folder.join(SECRET))?))
    }

    fn key(&self) -> Result<Key, Failure> {
        Key::new(&self.0).map_err(|error| Failure::Run(error.to_string()))
    }

    /// 32 bytes for a purpose, which tell nothing of those for another one.
    ///
    /// # Errors
    /// Never for 32 bytes.
    pub fn derive(&self, purpose: &[u8], of: &[u8]) -> Result<[u8; 32], Failure> {
        Ok(self.key()?.derive(b"fairbell cluster ", &[purpose]).tag(&[of]))
    }

    /// The secret of a key epoch, from which every link's keys follow.
    ///
    /// # Errors
    /// Never for 32 bytes.
    pub fn epoch(&self, epoch: u32) -> Result<Secret, Failure> {
        Ok(Secret(self.derive(b"epoch", &epoch.to_le_bytes())?))
    }

    /// As hexadecimal digits.
    pub fn hex(&self) -> String {
        crate::tls::hex(&self.0)
    }

    /// The key that doors of control connections are kept by.
    ///
    /// # Errors
    /// Never for 32 bytes.
    pub fn gate(&self) -> Result<Key, Failure> {
        Key::new(&self.derive(b"gate", &[])?).map_err(|error| Failure::Run(error.to_string()))
    }
}

impl RootSecret {
    /// The bytes of the key that a number proves itself with at those doors.
    ///
    /// # Errors
    /// Never for 32 bytes.
    pub fn gate_of(&self, number: u16) -> Result<[u8; 32], Failure> {
        Ok(self.gate()?.tag(&[gate::LABEL, &number.to_le_bytes()]))
    }
}

/// 32 bytes as 64 hexadecimal digits in a file.
fn unhex(path: &Path) -> Result<[u8; 32], Failure> {
    let text = crate::tls::read(&path.display().to_string())?;
    let text = String::from_utf8_lossy(&text);
    bytes_of(text.trim()).and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| {
        Failure::Usage(format!("{}: 64 hexadecimal digits are needed", path.display()))
    })
}

/// The bytes that hexadecimal digits name.
pub fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) || !digits.is_ascii() {
        return None;
    }
    let pair = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    (0..digits.len()).step_by(2).map(pair).collect()
}

/// Name of a node in its certificate.
fn subject(cluster: u64, name: &str, generation: u32) -> String {
    format!("{name}.{generation}.cluster-{cluster:016x}.fairbell")
}

/// Node and generation of a certificate of this cluster by its common name.
pub fn named(cluster: u64, subject: &[u8]) -> Option<(String, u32)> {
    let text = std::str::from_utf8(subject).ok()?;
    let (node, rest) = text.split_once('.')?;
    let (generation, rest) = rest.split_once('.')?;
    let ours = rest == format!("cluster-{cluster:016x}.fairbell");
    Some((node.to_string(), generation.parse().ok().filter(|_| ours)?))
}

fn authority_name(cluster: u64) -> String {
    format!("authority.cluster-{cluster:016x}.fairbell")
}

/// Makes a new cluster's authority and the roots' secret, beside its file.
///
/// # Errors
/// Files that are there already or can't be written.
pub fn found(file: &ClusterFile) -> Result<(), Failure> {
    let folder = file.path.with_file_name(KEYS);
    files::folder(&folder)?;
    let authority = Authority::new(&authority_name(file.id))?;
    keep(&file.authority_path(), &folder.join(AUTHORITY_KEY), &authority.pair)?;
    let secret = folder.join(SECRET);
    let text = RootSecret::random()?.hex() + "\n";
    files::replace(&secret, text.as_bytes()).map_err(|error| on(&secret, error))
}

/// Makes, or makes anew with the next generation, the folder of a node's keys; where it is. `name`
/// is a node of the file, or [`OPERATOR`]. `days`: how long the certificate holds.
///
/// # Errors
/// No such node; the authority's key or the roots' secret are elsewhere.
pub fn issue(file: &ClusterFile, name: &str, days: u16) -> Result<PathBuf, Failure> {
    let (number, node) = match name {
        OPERATOR => (0, None),
        name => file.node(name).map(|(number, node)| (number, Some(node)))?,
    };
    let keys = file.path.with_file_name(KEYS);
    let authority =
        Pair { certificate: text(&file.authority_path())?, key: text(&keys.join(AUTHORITY_KEY))? };
    let authority = Authority::again(&authority_name(file.id), authority)?;
    let secret = RootSecret::read(&keys)?;
    let folder = keys.join(name);
    files::folder(&folder)?;
    let generation = generation(&folder)?.saturating_add(1);
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        files::replace(&path, text.as_bytes()).map_err(|error| on(&path, error))
    };
    let (own, hosts) = names(file, name, node, generation);
    let pair = authority.sign_for(&own, &hosts, End::Both, days)?;
    write(&format!("{name}.pem"), &pair.certificate)?;
    write(&format!("{name}.key.pem"), &pair.key)?;
    write(GATE, &(crate::tls::hex(&secret.gate_of(number)?) + "\n"))?;
    // As the shard has it whose log it keeps.
    let file = &node.map_or_else(|| file.clone(), |node| file.of_node(node));
    if let Some(id) = file.replica(number) {
        let own = certificates::name(file.group(), id);
        let pair = authority.sign_for(&own, std::slice::from_ref(&own), End::Both, days)?;
        write(&format!("replica-{id}.pem"), &pair.certificate)?;
        write(&format!("replica-{id}.key.pem"), &pair.key)?;
        write(SECRET, &(secret.hex() + "\n"))?;
        let deputy = issuer_name(file.id, name, generation);
        let domains: Vec<String> =
            file.all_shards().map(|of| certificates::domain(of.group())).collect();
        let pair = authority.deputy(&deputy, &domains, days)?;
        write(ISSUER, &pair.certificate)?;
        write(ISSUER_KEY, &pair.key)?;
    }
    keep_generation(&folder, generation)?;
    Ok(folder)
}

/// Name of a node in its certificate, and the host names that it is good for: participants find all edges
/// under one name, the venue's.
fn names(
    file: &ClusterFile,
    name: &str,
    node: Option<&NodeEntry>,
    generation: u32,
) -> (String, Vec<String>) {
    let own = subject(file.id, name, generation);
    let mut hosts = vec![own.clone(), file.name.clone()];
    hosts.extend(node.iter().flat_map(|node| [node.address.clone(), node.name.clone()]));
    hosts.extend(node.iter().filter_map(|node| node.also.clone()));
    (own, hosts)
}

fn issuer_name(cluster: u64, name: &str, generation: u32) -> String {
    format!("issuer.{name}.{generation}.cluster-{cluster:016x}.fairbell")
}

/// Says which generation the newest certificate of a node is of.
///
/// # Errors
/// The system's.
pub fn keep_generation(folder: &Path, generation: u32) -> Result<(), Failure> {
    let path = folder.join(GENERATION);
    let text = format!("{generation}\n");
    files::replace(&path, text.as_bytes()).map_err(|error| on(&path, error))
}

/// A root's key that signs certificates of machines that join.
pub struct Issuer {
    authority: Authority,
    chain: String,
    /// As [`net::CertificateFacts`] has it.
    holds_until: u64,
}

impl Issuer {
    /// The one in a root's folder; none in one that was made before there were any. It is tried: what it signs must
    /// lead to the authority (PEM).
    ///
    /// # Errors
    /// Files that are none, or can't be used together.
    pub fn read(folder: &Path, authorities: &str) -> Result<Option<Issuer>, Failure> {
        let (certificate, key) = (folder.join(ISSUER), folder.join(ISSUER_KEY));
        if !certificate.exists() && !key.exists() {
            return Ok(None);
        }
        let pair = Pair { certificate: text(&certificate)?, key: text(&key)? };
        let facts = net::CertificateFacts::of(pair.certificate.as_bytes());
        let wrong = |error| Failure::Usage(format!("{}: {error}", certificate.display()));
        let facts = facts.map_err(wrong)?;
        let (chain, holds_until) = (pair.certificate.clone(), facts.holds_until);
        let authority = Authority::again(&facts.name, pair)
            .map_err(|error| Failure::Usage(format!("{}: {error}", key.display())))?;
        let tried = authority.sign(&facts.name, &[], End::Both)?;
        let tried_chain = tried.certificate + &chain;
        let identity = net::Identity { chain: tried_chain.as_bytes(), key: tried.key.as_bytes() };
        identity.check(authorities.as_bytes()).map_err(|error| match error {
            net::TlsError::Unsigned => Failure::Usage(format!(
                "{}: it is not the key of {}, or the cluster's authority has not signed that: copy both from where \
                 the authority's key is",
                key.display(),
                certificate.display()
            )),
            error => Failure::Usage(format!("{}: {error}", certificate.display())),
        })?;
        Ok(Some(Issuer { authority, chain, holds_until }))
    }

    /// The chain of certificates, PEM, of a node for the key of a request: its own of this generation, and
    /// the issuer's.
    ///
    /// # Errors
    /// The issuer's certificate is over; a name in the file that is no host name.
    pub fn sign(
        &self,
        file: &ClusterFile,
        node: &NodeEntry,
        generation: u32,
        request: &Request,
    ) -> Result<String, Failure> {
        let left = doctor::days_left(self.holds_until).min(DAYS.into());
        let days = u16::try_from(left).ok().filter(|days| *days > 0);
        let over = || Failure::Run("this root's issuing certificate is over".to_string());
        let (own, hosts) = names(file, &node.name, Some(node), generation);
        let days = days.ok_or_else(over)?;
        Ok(self.authority.sign_request(request, &own, &hosts, days)? + &self.chain)
    }
}

/// The generation of the certificate in a node's folder; 0: none yet.
///
/// # Errors
/// A file that holds something else.
pub fn generation(folder: &Path) -> Result<u32, Failure> {
    let path = folder.join(GENERATION);
    match std::fs::read_to_string(&path) {
        Ok(text) => text.trim().parse().map_err(|_| on(&path, "a whole number is needed")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(on(&path, error)),
    }
}

fn text(path: &Path) -> Result<String, Failure> {
    Ok(String::from_utf8_lossy(&crate::tls::read(&path.display().to_string())?).into_owned())
}

/// What one node holds.
#[derive(Clone)]
pub struct Credentials {
    /// Its folder.
    pub folder: PathBuf,
    authority: String,
    own: (String, String),
    /// What it proves itself with at the door of control connections.
    pub gate: Key,
}

impl Credentials {
    /// Those of a node, in its folder.
    ///
    /// # Errors
    /// Files that are missing or can't be used together, and how to make them.
    pub fn read(file: &ClusterFile, folder: &Path, name: &str) -> Result<Credentials, Failure> {
        let hint = |why: Failure| {
            Failure::Usage(format!("{why}; `fairbell cluster issue {name}` makes the node's files"))
        };
        let [certificate, key] = ["pem", "key.pem"].map(|end| folder.join(format!("{name}.{end}")));
        let path = file.authority_path();
        let authority = text(&path)?;
        let own = crate::tls::own((&certificate, &key), (&path, &authority)).map_err(hint)?;
        let gate = Key::new(&unhex(&folder.join(GATE)).map_err(hint)?);
        Ok(Credentials {
            folder: folder.to_path_buf(),
            authority,
            own,
            gate: gate.map_err(|error| Failure::Run(error.to_string()))?,
        })
    }

    /// The usual folder of a node's keys.
    pub fn folder(file: &ClusterFile, name: &str) -> PathBuf {
        file.path.with_file_name(KEYS).join(name)
    }

    fn identity(&self) -> Identity<'_> {
        Identity { chain: self.own.0.as_bytes(), key: self.own.1.as_bytes() }
    }

    /// TLS of a control connection to a replica of a group of roots, by its number from 1.
    ///
    /// # Errors
    /// Certificates that are none.
    pub fn to_root(&self, group: u64, replica: u8) -> Result<ClientTls, Failure> {
        let name = certificates::name(group, replica);
        ClientTls::new(self.authority.as_bytes(), &name, Some(self.identity())).map_err(wrong)
    }

    /// TLS of an edge's doors: with the node's own certificate. `authorities`: PEM of who signs
    /// clients' certificates, if they need one.
    ///
    /// # Errors
    /// Certificates that are none.
    pub fn doors(&self, authorities: Option<&[u8]>) -> Result<ServerTls, Failure> {
        let clients = authorities.map_or(Clients::Any, Clients::Required);
        ServerTls::new(self.identity(), clients).map_err(wrong)
    }

    /// TLS of a participant on this machine at the doors of edges: with no certificate of its own.
    ///
    /// # Errors
    /// Certificates that are none.
    pub fn participant(&self, file: &ClusterFile) -> Result<ClientTls, Failure> {
        ClientTls::new(self.authority.as_bytes(), &file.name, None).map_err(wrong)
    }

    /// The node's own certificate and its private key, PEM.
    pub fn own(&self) -> (&str, &str) {
        (&self.own.0, &self.own.1)
    }

    /// The certificate of the cluster's authority, PEM.
    pub fn authority(&self) -> &str {
        &self.authority
    }
}

fn wrong(error: net::TlsError) -> Failure {
    Failure::Usage(format!("certificates of the cluster: {error}"))
}

#[cfg(test)]
pub(super) mod tests {
    use types::Nanos;

    use super::*;
    use crate::fleet::file::NodeRole;

    /// A venue's files with all keys, in a folder that goes with it.
    pub struct Made(pub ClusterFile);

    impl Made {
        /// A root and an edge.
        pub fn new(name: &str) -> Made {
            let dir = format!("fairbell-keys-{name}-{}", std::process::id());
            let dir = std::env::temp_dir().join(dir);
            let _ = std::fs::remove_dir_all(&dir);
            files::folder(&dir).expect("a folder");
            let nodes = [("root-1", NodeRole::Root), ("edge-1", NodeRole::Edge)];
            let nodes = nodes.map(|(name, role)| NodeEntry::new(name, name, vec![role]));
            let path = dir.join("cluster.toml");
            let file = ClusterFile::new(&path, name, Nanos(1), nodes.to_vec()).expect("a file");
            found(&file).expect("an authority");
            for node in &file.nodes {
                issue(&file, &node.name, DAYS).expect("keys");
            }
            Made(file)
        }

        pub fn keys(&self, name: &str) -> PathBuf {
            Credentials::folder(&self.0, name)
        }

        pub fn read(&self, name: &str) -> Result<Credentials, Failure> {
            Credentials::read(&self.0, &self.keys(name), name)
        }
    }

    impl Drop for Made {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(self.0.path.with_file_name(""));
        }
    }

    #[test]
    fn files_that_cannot_be_used_together_are_refused_by_name() {
        let (ours, theirs) = (Made::new("ours"), Made::new("theirs"));
        let key = ours.keys("edge-1").join("edge-1.key.pem");
        let authority = ours.0.authority_path();
        let other = |path: PathBuf| std::fs::read(path).expect("there");
        let cases = [
            (key.clone(), Vec::new(), "edge-1.key.pem: no private key"),
            (key, other(ours.keys("root-1").join("root-1.key.pem")), "edge-1.key.pem: it is not"),
            (authority.clone(), other(theirs.0.authority_path()), "edge-1.pem: the authority of"),
            (authority, Vec::new(), "authority.pem: no certificate of an authority"),
            (ours.keys("edge-1").join(GATE), Vec::new(), "gate.key: 64 hexadecimal digits"),
        ];
        for (path, bytes, wanted) in cases {
            let good = other(path.clone());
            assert!(ours.read("edge-1").is_ok(), "control: before {wanted}");
            std::fs::write(&path, bytes).expect("written");
            match ours.read("edge-1").map(drop) {
                Err(Failure::Usage(why)) => assert!(why.contains(wanted), "{wanted}: {why}"),
                other => panic!("{wanted}: {other:?}"),
            }
            std::fs::write(&path, good).expect("written");
        }
        issue(&ours.0, "edge-1", 0).expect("one that is over");
        assert!(ours.read("edge-1").is_ok(), "the roots say that it is over");
    }
}
