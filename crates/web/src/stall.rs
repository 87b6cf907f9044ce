//! A connection that ends when the other side takes nothing for too long, and whose bytes are counted; and that
//! is left, once that is said, without the system's resetting it: see [`Place::leave`].

use std::future::Future;
use std::io::{Error, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::server::Place;

/// Bytes of a connection, whose writing may wait only so long for the other side.
pub(crate) struct Impatient<T> {
    inner: T,
    patience: Duration,
    /// Ends the connection; counts while a write waits.
    wait: Pin<Box<Sleep>>,
    waits: bool,
    place: Arc<Place>,
    /// It is left, and nothing more is written.
    shut: bool,
}

/// Bytes that are thrown away at a time.
const THROWN: usize = 4_096;

impl<T> Impatient<T> {
    pub(crate) fn new(inner: T, patience: Duration, place: Arc<Place>) -> Impatient<T> {
        let wait = Box::pin(sleep(patience));
        Impatient { inner, patience, wait, waits: false, place, shut: false }
    }

    fn wrote(&self, outcome: &Poll<std::io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = outcome {
            self.place.counters().sent(*bytes);
        }
    }

    /// What became of a write.
    fn judge<R>(
        &mut self,
        cx: &mut Context<'_>,
        outcome: Poll<std::io::Result<R>>,
    ) -> Poll<std::io::Result<R>> {
        if outcome.is_ready() {
            self.waits = false;
            return outcome;
        }
        if !self.waits {
            self.waits = true;
            self.wait.as_mut().reset(Instant::now() + self.patience);
        }
        match self.wait.as_mut().poll(cx) {
            Poll::Ready(()) => {
                self.place.is_slow();
                Poll::Ready(Err(Error::from(ErrorKind::TimedOut)))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> Impatient<T> {
    /// Ends the own direction, then reads until the other side ends its own.
    fn poll_leave(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        if !self.shut {
            ready!(Pin::new(&mut self.inner).poll_shutdown(cx))?;
            self.shut = true;
        }
        let mut thrown = [0; THROWN];
        loop {
            let mut buffer = ReadBuf::new(&mut thrown);
            ready!(Pin::new(&mut self.inner).poll_read(cx, &mut buffer))?;
            match buffer.filled().len() {
                0 => return Poll::Ready(Ok(())),
                bytes => self.place.counters().received(bytes),
            }
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Impatient<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut self.inner).poll_read(cx, buffer);
        self.place.counters().received(buffer.filled().len().saturating_sub(before));
        outcome
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Impatient<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.wrote(&outcome);
        self.judge(cx, outcome)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_flush(cx);
        let flushed = self.judge(cx, outcome);
        match flushed {
            Poll::Ready(Ok(())) if self.place.leaves() => self.poll_leave(cx),
            flushed => flushed,
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.judge(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write_vectored(cx, bytes);
        self.wrote(&outcome);
        self.judge(cx, outcome)
    }
}
