//! What a door, or a client, needs for TLS 1.3: keys, certificates, authorities.
//!
//! TLS 1.3 and nothing older. No session is ever resumed, so that every connection shows its
//! certificate anew and the server keeps nothing for connections that are gone; no early data.

use std::fmt;
use std::net::TcpStream;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Error, InconsistentKeys, RootCertStore,
    ServerConfig, StreamOwned,
};

/// Why there can be no TLS with these certificates and keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TlsError {
    /// The chain is no PEM, or holds no certificate.
    Certificate,
    /// The key is no PEM, or holds no private key.
    Key,
    /// The authorities are no PEM, or hold no certificate that can be one.
    Authorities,
    /// The key is not the certificate's.
    OtherKey,
    /// None of the authorities has signed the certificate.
    Unsigned,
    /// They do not go together, or the cryptography refuses them.
    Refused(String),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsError::Certificate => f.write_str("no certificate in PEM there"),
            TlsError::Key => f.write_str("no private key in PEM there"),
            TlsError::Authorities => f.write_str("no certificate of an authority in PEM there"),
            TlsError::OtherKey => f.write_str("the private key is not the certificate's"),
            TlsError::Unsigned => f.write_str("no authority of these has signed the certificate"),
            TlsError::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for TlsError {}

fn refused(error: impl fmt::Display) -> TlsError {
    TlsError::Refused(error.to_string())
}

/// One's own certificate with those that lead to the authority, and its private key, in PEM.
#[derive(Clone, Copy)]
pub struct Identity<'a> {
    /// Certificate chain, the own one first.
    pub chain: &'a [u8],
    /// Private key.
    pub key: &'a [u8],
}

type Parsed = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl Identity<'_> {
    fn parse(&self) -> Result<Parsed, TlsError> {
        let chain = certificates(self.chain).ok_or(TlsError::Certificate)?;
        let key = PrivateKeyDer::from_pem_slice(self.key).map_err(|_| TlsError::Key)?;
        Ok((chain, key))
    }

    /// Whether the key is the certificate's, and the certificate of one of `authorities` (PEM). On which
    /// days it holds is not looked at.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn check(&self, authorities: &[u8]) -> Result<(), TlsError> {
        let ((chain, key), provider) = (self.parse()?, provider());
        let key = provider.key_provider.load_private_key(key).map_err(|_| TlsError::Key)?;
        let pair = CertifiedKey::new(chain, key);
        match pair.keys_match() {
            Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
            Err(Error::InconsistentKeys(_)) => return Err(TlsError::OtherKey),
            Err(error) => return Err(refused(error)),
        }
        let roots = Arc::new(authority(authorities)?);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
        let (own, others) = pair.cert.split_first().ok_or(TlsError::Certificate)?;
        let verified = verifier.map_err(refused)?.verify_client_cert(own, others, UnixTime::now());
        match verified {
            Ok(_) => Ok(()),
            Err(Error::InvalidCertificate(why)) => match why {
                CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. } => Ok(()),
                CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                    Err(TlsError::Unsigned)
                }
                CertificateError::BadEncoding => Err(TlsError::Certificate),
                why => Err(refused(Error::InvalidCertificate(why))),
            },
            Err(error) => Err(refused(error)),
        }
    }

    /// SHA-256 of the own certificate, by which an account may be bound to it.
    ///
    /// # Errors
    /// [`TlsError::Certificate`].
    pub fn fingerprint(chain: &[u8]) -> Result<[u8; 32], TlsError> {
        let chain = certificates(chain).ok_or(TlsError::Certificate)?;
        chain.first().map(|own| crate::secure::fingerprint(own)).ok_or(TlsError::Certificate)
    }
}

/// What a certificate says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CertificateFacts {
    /// Common name of its subject; empty when there is not exactly one.
    pub name: String,
    /// The last second that it holds, as `YYYYMMDDHHMMSS` in UTC, all digits.
    pub holds_until: u64,
}

impl CertificateFacts {
    /// Those of the first certificate of a chain in PEM, whether it holds or not.
    ///
    /// # Errors
    /// [`TlsError::Certificate`].
    pub fn of(chain: &[u8]) -> Result<CertificateFacts, TlsError> {
        let chain = certificates(chain).ok_or(TlsError::Certificate)?;
        let own = chain.first().ok_or(TlsError::Certificate)?;
        let name = crate::subject::common_name(own).unwrap_or_default();
        let holds_until = crate::subject::holds_until(own).ok_or(TlsError::Certificate)?;
        Ok(CertificateFacts { name: String::from_utf8_lossy(name).into_owned(), holds_until })
    }
}

/// Which clients a door lets through.
#[derive(Clone, Copy)]
pub enum Clients<'a> {
    /// All; none is asked for a certificate.
    Any,
    /// Those with a certificate of these authorities (PEM), and those without any.
    Optional(&'a [u8]),
    /// Those with a certificate of these authorities (PEM).
    Required(&'a [u8]),
}

/// TLS of a door. Cheap to copy.
#[derive(Clone)]
pub struct ServerTls {
    pub(crate) config: Arc<ServerConfig>,
}

impl ServerTls {
    /// A door that shows `identity` and lets `clients` through.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn new(identity: Identity<'_>, clients: Clients<'_>) -> Result<ServerTls, TlsError> {
        let provider = provider();
        let verifier = |authorities: &[u8], optional: bool| {
            let roots = Arc::new(authority(authorities)?);
            let builder = WebPkiClientVerifier::builder_with_provider(roots, provider.clone());
            let builder = if optional { builder.allow_unauthenticated() } else { builder };
            builder.build().map_err(refused)
        };
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])
            .map_err(refused)?;
        let builder = match clients {
            Clients::Any => builder.with_no_client_auth(),
            Clients::Optional(pem) => builder.with_client_cert_verifier(verifier(pem, true)?),
            Clients::Required(pem) => builder.with_client_cert_verifier(verifier(pem, false)?),
        };
        let (chain, key) = identity.parse()?;
        let mut config = builder.with_single_cert(chain, key).map_err(refused)?;
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(ServerTls { config: Arc::new(config) })
    }
}

/// TLS of a client. Cheap to copy.
#[derive(Clone)]
pub struct ClientTls {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
}

impl ClientTls {
    /// A client that trusts servers called `name` (a host name or an address) with a certificate
    /// of `authorities` (PEM), and shows `identity` if it has one and is asked.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn new(
        authorities: &[u8],
        name: &str,
        identity: Option<Identity<'_>>,
    ) -> Result<ClientTls, TlsError> {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(refused)?
            .with_root_certificates(authority(authorities)?);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (chain, key) = identity.parse()?;
                builder.with_client_auth_cert(chain, key).map_err(refused)?
            }
        };
        config.resumption = Resumption::disabled();
        let name = ServerName::try_from(name.to_string()).map_err(refused)?;
        Ok(ClientTls { config: Arc::new(config), name })
    }

    /// A connection of one's own, without a loop: the handshake comes with the first bytes.
    ///
    /// # Errors
    /// When the cryptography refuses to begin.
    pub fn over(
        &self,
        stream: TcpStream,
    ) -> std::io::Result<impl std::io::Read + std::io::Write + Send + use<>> {
        let session = ClientConnection::new(self.config.clone(), self.name.clone());
        let session = session.map_err(std::io::Error::other)?;
        Ok(StreamOwned::new(session, stream))
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    all.ok().filter(|all| !all.is_empty())
}

fn authority(pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(pem).ok_or(TlsError::Authorities)? {
        store.add(certificate).map_err(|_| TlsError::Authorities)?;
    }
    Ok(store)
}
