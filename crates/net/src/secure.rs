//! One connection's TLS: sealed bytes in and out, by no socket of its own.
//!
//! Bounded: before the handshake is over a fixed number of bytes is taken; afterwards at most one
//! record waits here, since whatever can be read is handed on at once.

use std::io::{BufRead, Read, Write};

use rustls::pki_types::CertificateDer;
use rustls::{ClientConnection, Connection, ServerConnection};
use types::Certificate;

use crate::conn::WriteBuffer;
use crate::subject;
use crate::tls::{ClientTls, ServerTls};

/// Sealed bytes taken from a socket at a time. Together with the rest of a record before them they
/// open to less than the buffer of a loop.
pub(crate) const SEALED_READ: usize = 16 << 10;
/// A write grows by so much for each record, and a record holds so many bytes (RFC 8446, 5.2).
const RECORD_GROWTH: usize = 22;
const RECORD_MAX: usize = 16 << 10;

/// How far the other side's bytes have brought a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// So many clear bytes.
    Opened(usize),
    /// What came was no TLS, or not by its rules, or too much.
    Broken,
}

pub(crate) struct Secure {
    session: Connection,
    /// Bytes that the handshake may still take.
    allowance: usize,
}

/// SHA-256.
pub(crate) fn fingerprint(certificate: &[u8]) -> [u8; 32] {
    let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest.as_ref());
    bytes
}

/// The first certificate of a chain that was verified.
pub(crate) fn certificate_of(chain: Option<&[CertificateDer<'_>]>) -> Option<Certificate> {
    let own = chain?.first()?;
    Some(Certificate {
        fingerprint: fingerprint(own),
        name: subject::common_name(own).map(<[u8]>::to_vec).unwrap_or_default(),
    })
}

impl Secure {
    /// The server's end; `allowance` bytes at most for the handshake.
    pub fn server(tls: &ServerTls, allowance: usize) -> Option<Secure> {
        let session = ServerConnection::new(tls.config.clone()).ok()?;
        Some(Secure::with(session.into(), allowance))
    }

    /// The client's end.
    pub fn client(tls: &ClientTls, allowance: usize) -> Option<Secure> {
        let session = ClientConnection::new(tls.config.clone(), tls.name.clone()).ok()?;
        Some(Secure::with(session.into(), allowance))
    }

    fn with(mut session: Connection, allowance: usize) -> Secure {
        // What is written is sealed and taken away at once: the bound is that of the buffer it
        // goes to.
        session.set_buffer_limit(None);
        Secure { session, allowance }
    }

    /// Nothing may be written or read yet.
    pub fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    /// The other side's certificate, shown and proved, once the handshake is over.
    pub fn certificate(&self) -> Option<Certificate> {
        certificate_of(self.session.peer_certificates())
    }

    /// Takes sealed bytes; clear ones go into `buffer` from its beginning.
    pub fn open(&mut self, mut sealed: &[u8], buffer: &mut [u8]) -> Progress {
        let mut opened = 0;
        while !sealed.is_empty() {
            if self.is_handshaking() {
                let left = self.allowance.checked_sub(sealed.len());
                let Some(left) = left else { return Progress::Broken };
                self.allowance = left;
            }
            let before = sealed.len();
            if self.session.read_tls(&mut sealed).is_err() {
                return Progress::Broken;
            }
            if self.is_handshaking() {
                // Counted again if they come back.
                self.allowance += sealed.len();
            }
            if self.session.process_new_packets().is_err() {
                return Progress::Broken;
            }
            let room = buffer.get_mut(opened..).unwrap_or(&mut []);
            opened += self.clear(room).unwrap_or(0);
            assert!(opened <= buffer.len(), "clear bytes are within the buffer");
            if sealed.len() == before {
                // It takes no more: nothing may follow an end, or there is no room for it.
                break;
            }
        }
        Progress::Opened(opened)
    }

    /// Clear bytes that wait here; `None`: the other side has said that there are no more.
    pub fn clear(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let mut taken = 0;
        while let Some(room) = buffer.get_mut(taken..).filter(|room| !room.is_empty()) {
            match self.session.reader().read(room) {
                Ok(0) if taken == 0 => return None,
                Ok(0) | Err(_) => break,
                Ok(n) => taken += n,
            }
        }
        Some(taken)
    }

    /// The other side has said that it sends no more, and all it sent was taken.
    pub fn is_ended(&mut self) -> bool {
        matches!(self.session.reader().fill_buf(), Ok([]))
    }

    /// What sealing so many bytes makes of them, at most.
    pub fn sealed_len(&self, clear: usize) -> usize {
        clear + (clear / RECORD_MAX + 1) * RECORD_GROWTH
    }

    /// Seals bytes for the other side.
    pub fn seal(&mut self, bytes: &[u8], into: &mut WriteBuffer) {
        // Without a limit all is taken; before the end of a handshake nobody writes.
        let _ = self.session.writer().write_all(bytes);
        self.drain(into);
    }

    /// What TLS itself has to say: handshakes, alerts, new keys.
    pub fn drain(&mut self, into: &mut WriteBuffer) {
        while self.session.wants_write() {
            match self.session.write_tls(&mut Unbounded(into)) {
                Ok(n) if n > 0 => {}
                _ => return,
            }
        }
    }

    /// Says that nothing more will be written.
    pub fn end(&mut self, into: &mut WriteBuffer) {
        self.session.send_close_notify();
        self.drain(into);
    }
}

/// What was measured before it was sealed always fits.
struct Unbounded<'a>(&'a mut WriteBuffer);

impl Write for Unbounded<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.append(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
