//! A connection with TLS for a thread of its own, which waits.
//!
//! The whole handshake has one deadline, however the other side's bytes are spread over it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::{ClientConnection, ServerConnection, StreamOwned};
use types::Certificate;

use crate::secure::certificate_of;
use crate::tls::{ClientTls, ServerTls};

/// A stream whose calls end by a time together.
struct Until<'a> {
    stream: &'a TcpStream,
    until: Instant,
}

impl Until<'_> {
    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        // No time at all would mean no limit.
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Until<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(buffer)
    }
}

impl Write for Until<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Takes exactly as many bytes as `buffer` holds off a stream, before `until`.
///
/// # Errors
/// The stream's; [`ErrorKind::TimedOut`] or [`ErrorKind::WouldBlock`] when they don't come in time,
/// [`ErrorKind::UnexpectedEof`] when they don't come at all.
pub fn read_until(stream: &TcpStream, buffer: &mut [u8], until: Instant) -> io::Result<()> {
    Until { stream, until }.read_exact(buffer)
}

/// A stream that others may end.
struct Shared(Arc<TcpStream>);

impl Read for Shared {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self.0).read(buffer)
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self.0).flush()
    }
}

enum End {
    Server(StreamOwned<ServerConnection, Shared>),
    Client(StreamOwned<ClientConnection, Shared>),
}

/// The connection, after its handshake. Reads and writes wait as long as the stream's timeouts say.
pub struct Sealed {
    end: End,
    certificate: Option<Certificate>,
}

impl Sealed {
    /// What the other side has shown and proved.
    pub fn certificate(&self) -> Option<&Certificate> {
        self.certificate.as_ref()
    }

    /// How many certificates the other side has shown: with one alone it was signed by an authority that
    /// is trusted here itself, and not by one that such an authority has let sign.
    pub fn certificates_shown(&self) -> usize {
        match &self.end {
            End::Server(stream) => stream.conn.peer_certificates().map_or(0, <[_]>::len),
            End::Client(stream) => stream.conn.peer_certificates().map_or(0, <[_]>::len),
        }
    }
}

impl ServerTls {
    /// Shakes hands with whoever connected.
    ///
    /// # Errors
    /// The stream's; what is no TLS; a certificate that is refused; `until` is over.
    pub fn accept(&self, stream: Arc<TcpStream>, until: Instant) -> io::Result<Sealed> {
        let mut session = ServerConnection::new(self.config.clone()).map_err(io::Error::other)?;
        while session.is_handshaking() {
            session.complete_io(&mut Until { stream: &stream, until })?;
        }
        let certificate = certificate_of(session.peer_certificates());
        Ok(Sealed { end: End::Server(StreamOwned::new(session, Shared(stream))), certificate })
    }
}

impl ClientTls {
    /// Shakes hands with whom one has connected to. What the other side thinks of one's own
    /// certificate shows with what is written and read afterwards.
    ///
    /// # Errors
    /// See [`ServerTls::accept`].
    pub fn connect(&self, stream: Arc<TcpStream>, until: Instant) -> io::Result<Sealed> {
        let session = ClientConnection::new(self.config.clone(), self.name.clone());
        let mut session = session.map_err(io::Error::other)?;
        while session.is_handshaking() {
            session.complete_io(&mut Until { stream: &stream, until })?;
        }
        let certificate = certificate_of(session.peer_certificates());
        Ok(Sealed { end: End::Client(StreamOwned::new(session, Shared(stream))), certificate })
    }
}

impl Read for Sealed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.end {
            End::Server(stream) => stream.read(buffer),
            End::Client(stream) => stream.read(buffer),
        }
    }
}

impl Write for Sealed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.end {
            End::Server(stream) => stream.write(bytes),
            End::Client(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.end {
            End::Server(stream) => stream.flush(),
            End::Client(stream) => stream.flush(),
        }
    }
}
