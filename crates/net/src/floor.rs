//! The least that an exchange over TCP can cost here: what `fairbell bench rtt` compares with.
//!
//! A bare echo with the same wait strategy and socket options as a [`crate::Loop`], but no node,
//! timer, buffer or counter in between. Whoever changes how the loop waits changes the floor too.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

use types::Nanos;

use crate::poller::{Poller, sharpen_timers};
use crate::{Clock, WaitStrategy};

/// Most connections of an echo server.
const CONNECTIONS_MAX: usize = 64;

/// Answers every `request_len` bytes (at least 1) of each connection with `reply_len` bytes, until
/// `stop` is set (seen within 10 ms). Returns the number of replies. A connection that does not
/// read its replies is cut; so is the 65th.
///
/// # Errors
/// When epoll or the listener fails.
pub fn tcp_echo(
    listener: &TcpListener,
    request_len: usize,
    reply_len: usize,
    wait: &WaitStrategy,
    stop: &AtomicBool,
) -> std::io::Result<u64> {
    sharpen_timers();
    listener.set_nonblocking(true)?;
    let clock = Clock::start(0);
    let mut poller = Poller::new()?;
    poller.add_listener(listener, u64::MAX)?;
    let mut echo = Echo {
        conns: Vec::new(),
        request_len: request_len.max(1),
        buffer: vec![0; 65_536],
        reply: vec![0; reply_len],
        replies: 0,
    };
    while !stop.load(Ordering::Relaxed) {
        poller.wait(&clock, clock.now().after(10 * Nanos::MILLI), wait)?;
        let mut accept = false;
        for ready in poller.news() {
            match usize::try_from(ready.token) {
                Ok(at) if at < CONNECTIONS_MAX => echo.serve(at),
                _ => accept = true,
            }
        }
        if accept {
            echo.accept(listener, &poller)?;
        }
    }
    Ok(echo.replies)
}

struct Echo {
    /// Stream and bytes of the request begun.
    conns: Vec<Option<(TcpStream, usize)>>,
    request_len: usize,
    buffer: Vec<u8>,
    reply: Vec<u8>,
    replies: u64,
}

impl Echo {
    fn accept(&mut self, listener: &TcpListener, poller: &Poller) -> std::io::Result<()> {
        loop {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let free = self.conns.iter().position(Option::is_none).unwrap_or(self.conns.len());
            if free >= CONNECTIONS_MAX {
                continue;
            }
            poller.add_stream(&stream, free as u64)?;
            if free == self.conns.len() {
                self.conns.push(None);
            }
            if let Some(place) = self.conns.get_mut(free) {
                *place = Some((stream, 0));
            }
        }
    }

    fn serve(&mut self, at: usize) {
        let Some(place) = self.conns.get_mut(at) else { return };
        let Some((stream, begun)) = place else { return };
        let open = loop {
            match stream.read(&mut self.buffer) {
                Ok(0) => break false,
                Ok(n) => {
                    *begun += n;
                    let whole = *begun / self.request_len;
                    *begun %= self.request_len;
                    self.replies += whole as u64;
                    if (0..whole).any(
                        |_| !matches!(stream.write(&self.reply), Ok(n) if n == self.reply.len()),
                    ) {
                        break false;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break error.kind() == ErrorKind::WouldBlock,
            }
        };
        if !open {
            *place = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn echoes_by_size_whatever_the_cut() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let addr = listener.local_addr().expect("its address");
        let stop = AtomicBool::new(false);
        let replies = std::thread::scope(|scope| {
            let server =
                scope.spawn(|| tcp_echo(&listener, 10, 4, &WaitStrategy::default(), &stop));
            let mut client = TcpStream::connect(addr).expect("connects");
            client.write_all(&[1; 25]).expect("sends");
            let mut reply = [9; 8];
            client.read_exact(&mut reply).expect("two replies");
            client.write_all(&[1; 5]).expect("sends");
            client.read_exact(&mut reply[..4]).expect("the third");
            stop.store(true, Ordering::Relaxed);
            server.join().expect("no panic")
        });
        assert_eq!(replies.expect("epoll works"), 3);
    }
}
