//! Strategies in enclaves: the paper's third model, where a participant's program hears released data beside the receiver
//! and its host sees nothing of it.
//!
//! - [`attestation`] reads and judges what an enclave's attestor signed; [`attestor`] signs for enclaves of this machine.
//! - [`Boundary`] is the host's end of the stream to an enclave: keys of released data go across once its document is believed,
//!   and everything afterwards is sealed.
//! - [`Enclave`] is a [`Program`](crate::Program) behind a boundary.
//!
//! What a stream is (a socket pair, vsock), how a process is caged and what time it is are the caller's.

pub mod attestation;
pub mod attestor;
mod boundary;
mod news;

pub use boundary::{Boundary, BoundaryError};
pub use news::{Crossing, Enclave, Hold};

use pki_types::CertificateDer;
use pki_types::pem::PemObject;

/// The first certificate of a PEM text, DER.
pub fn certificate_of(pem: &str) -> Option<Vec<u8>> {
    CertificateDer::from_pem_slice(pem.as_bytes()).ok().map(|one| one.as_ref().to_vec())
}
