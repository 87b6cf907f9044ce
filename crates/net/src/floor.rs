//! The least that an exchange over TCP can cost here: what `fairbell-lab bench rtt` compares with.
//!
//! A bare echo with the same wait strategy and socket options as a [`crate::Loop`], but no node,
//! timer, buffer or counter in between: over TCP alone, or with the hops that an order takes through
//! a tree. Whoever changes how the loop waits changes the floor too.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

use types::Nanos;

use crate::poller::{Poller, sharpen_timers};
use crate::{Clock, WaitStrategy};

/// Most connections of an echo server.
const CONNECTIONS_MAX: usize = 64;
/// Longest time that the stop flag goes unseen.
const STOP_CHECK_NS: u64 = 10 * Nanos::MILLI;
const LISTENER: u64 = u64::MAX;
const REPLIES: u64 = u64::MAX - 1;

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
    let mut server = Server::new(listener, request_len, reply_len)?;
    while !stop.load(Ordering::Relaxed) {
        server.serve(wait, |echo, at, whole| echo.reply(at, whole))?;
    }
    Ok(server.echo.replies)
}

/// As [`tcp_echo`], with the way of an order in between: each request goes by UDP to a second
/// thread, there through one more socket, waits `window_ns`, and only then is its reply sent back by
/// UDP and on by TCP.
///
/// # Errors
/// As there, and when a UDP socket cannot be had.
pub fn tcp_echo_over_hops(
    listener: &TcpListener,
    request_len: usize,
    reply_len: usize,
    window_ns: u64,
    wait: &WaitStrategy,
    stop: &AtomicBool,
) -> std::io::Result<u64> {
    let udp = || -> std::io::Result<UdpSocket> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    };
    let (front, hop, root) = (udp()?, udp()?, udp()?);
    let first_hop = hop.local_addr()?;
    let core = Core { hop, root, back_to: front.local_addr()?, reply: vec![0; reply_len.max(8)] };
    let mut server = Server::new(listener, request_len, reply_len)?;
    server.poller.add_input(&front, REPLIES)?;
    let mut packet = vec![0; request_len.max(8)];
    std::thread::scope(|scope| {
        let core = scope.spawn(move || core.run(window_ns, wait, stop));
        let mut outcome = Ok(());
        while !stop.load(Ordering::Relaxed) && outcome.is_ok() && !core.is_finished() {
            outcome = server.serve(wait, |_, at, whole| {
                write_number(&mut packet, at);
                // What the kernel does not take is lost, and shows as a missing reply.
                (0..whole).for_each(|_| drop(front.send_to(&packet, first_hop)));
            });
            let mut bytes = [0; 2_048];
            while let Ok((len, _)) = front.recv_from(&mut bytes) {
                if let Some(at) = read_number(bytes.get(..len).unwrap_or(&[])) {
                    server.echo.reply(at, 1);
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
        let core = core.join().map_err(|_| std::io::Error::other("the hops' thread panicked"))?;
        core.and(outcome).map(|()| server.echo.replies)
    })
}

fn write_number(packet: &mut [u8], at: usize) {
    if let Some(start) = packet.first_chunk_mut() {
        *start = (at as u64).to_le_bytes();
    }
}

fn read_number(packet: &[u8]) -> Option<usize> {
    usize::try_from(u64::from_le_bytes(*packet.first_chunk()?)).ok()
}

/// Where the hops are.
struct Core {
    hop: UdpSocket,
    root: UdpSocket,
    back_to: SocketAddr,
    reply: Vec<u8>,
}

impl Core {
    fn run(
        mut self,
        window_ns: u64,
        wait: &WaitStrategy,
        stop: &AtomicBool,
    ) -> std::io::Result<()> {
        sharpen_timers();
        let (clock, mut poller) = (Clock::start(0), Poller::new()?);
        poller.add_input(&self.hop, 0)?;
        poller.add_input(&self.root, 1)?;
        let root = self.root.local_addr()?;
        let mut due: VecDeque<(Nanos, usize)> = VecDeque::new();
        let mut bytes = [0; 2_048];
        while !stop.load(Ordering::Relaxed) {
            let latest = clock.now().after(STOP_CHECK_NS);
            poller.wait(&clock, due.front().map_or(latest, |&(at, _)| at.min(latest)), wait)?;
            while let Ok((len, _)) = self.hop.recv_from(&mut bytes) {
                drop(self.hop.send_to(bytes.get(..len).unwrap_or(&[]), root));
            }
            while let Ok((len, _)) = self.root.recv_from(&mut bytes) {
                let number = read_number(bytes.get(..len).unwrap_or(&[]));
                due.extend(number.map(|number| (clock.now().after(window_ns), number)));
            }
            while let Some((_, at)) = due.pop_front_if(|(at, _)| *at <= clock.now()) {
                write_number(&mut self.reply, at);
                drop(self.root.send_to(&self.reply, self.back_to));
            }
        }
        Ok(())
    }
}

/// The TCP side.
struct Server<'a> {
    listener: &'a TcpListener,
    clock: Clock,
    poller: Poller,
    echo: Echo,
}

impl Server<'_> {
    fn new(
        listener: &TcpListener,
        request_len: usize,
        reply_len: usize,
    ) -> std::io::Result<Server<'_>> {
        sharpen_timers();
        listener.set_nonblocking(true)?;
        let poller = Poller::new()?;
        poller.add_listener(listener, LISTENER)?;
        let echo = Echo {
            conns: Vec::new(),
            request_len: request_len.max(1),
            buffer: vec![0; 65_536],
            reply: vec![0; reply_len],
            replies: 0,
        };
        Ok(Server { listener, clock: Clock::start(0), poller, echo })
    }

    /// Waits once, and tells what came of whole requests: connection and number.
    fn serve(
        &mut self,
        wait: &WaitStrategy,
        mut heard: impl FnMut(&mut Echo, usize, usize),
    ) -> std::io::Result<()> {
        let until = self.clock.now().after(STOP_CHECK_NS);
        self.poller.wait(&self.clock, until, wait)?;
        let mut accept = false;
        for ready in self.poller.news() {
            match usize::try_from(ready.token) {
                Ok(at) if at < CONNECTIONS_MAX => {
                    let whole = self.echo.read(at);
                    heard(&mut self.echo, at, whole);
                }
                _ => accept |= ready.token == LISTENER,
            }
        }
        if accept { self.echo.accept(self.listener, &self.poller) } else { Ok(()) }
    }
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

    /// Reads until there is nothing left; returns how many requests are whole now.
    fn read(&mut self, at: usize) -> usize {
        let Some(place) = self.conns.get_mut(at) else { return 0 };
        let Some((stream, begun)) = place else { return 0 };
        let mut whole = 0;
        let open = loop {
            match stream.read(&mut self.buffer) {
                Ok(0) => break false,
                Ok(n) => {
                    *begun += n;
                    whole += *begun / self.request_len;
                    *begun %= self.request_len;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break error.kind() == ErrorKind::WouldBlock,
            }
        };
        if !open {
            *place = None;
        }
        whole
    }

    fn reply(&mut self, at: usize, times: usize) {
        let Some(place) = self.conns.get_mut(at) else { return };
        let Some((stream, _)) = place else { return };
        for _ in 0..times {
            if !matches!(stream.write(&self.reply), Ok(n) if n == self.reply.len()) {
                *place = None;
                return;
            }
            self.replies += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn echo(
        server: impl FnOnce(&TcpListener, &AtomicBool) -> std::io::Result<u64> + Send,
    ) -> std::io::Result<u64> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let addr = listener.local_addr().expect("its address");
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let server = scope.spawn(|| server(&listener, &stop));
            let mut client = TcpStream::connect(addr).expect("connects");
            client.write_all(&[1; 25]).expect("sends");
            let mut reply = [9; 8];
            client.read_exact(&mut reply).expect("two replies");
            client.write_all(&[1; 5]).expect("sends");
            client.read_exact(&mut reply[..4]).expect("the third");
            stop.store(true, Ordering::Relaxed);
            server.join().expect("no panic")
        })
    }

    const WAIT: WaitStrategy = WaitStrategy { spin_ns: 0, timer_spin_ns: 0 };

    #[test]
    fn echoes_by_size_whatever_the_cut() {
        let replies = echo(|listener, stop| tcp_echo(listener, 10, 4, &WAIT, stop));
        assert_eq!(replies.expect("epoll works"), 3);
    }

    #[test]
    fn the_way_over_the_hops_takes_its_window() {
        let start = std::time::Instant::now();
        let window_ns = 20 * Nanos::MILLI;
        let replies =
            echo(|listener, stop| tcp_echo_over_hops(listener, 10, 4, window_ns, &WAIT, stop));
        assert_eq!(replies.expect("epoll works"), 3);
        assert!(start.elapsed().as_nanos() >= 2 * u128::from(window_ns));
    }
}
