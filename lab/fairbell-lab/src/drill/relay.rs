//! The network between replicas, which a drill can cut: a relay for every direction between two.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often a silent stream looks whether it is cut.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// One relay: what connects to [`Relay::at`] is connected with the replica behind it.
pub struct Relay {
    /// The address to connect to.
    pub at: SocketAddr,
    /// Replicas at both ends, from 0.
    pub ends: (usize, usize),
    cut: Arc<AtomicBool>,
}

impl Relay {
    /// A relay that runs until `stop`.
    pub fn start(
        ends: (usize, usize),
        to: SocketAddr,
        stop: &Arc<AtomicBool>,
    ) -> std::io::Result<(Relay, JoinHandle<()>)> {
        let door = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        door.set_nonblocking(true)?;
        let at = door.local_addr()?;
        let cut = Arc::new(AtomicBool::new(false));
        let (own, over) = (Arc::clone(&cut), Arc::clone(stop));
        let thread = thread::spawn(move || serve(&door, to, &own, &over));
        Ok((Relay { at, ends, cut }, thread))
    }

    /// Cuts or mends it. Streams that are open end.
    pub fn cut(&self, cut: bool) {
        self.cut.store(cut, Ordering::Relaxed);
    }
}

fn serve(door: &TcpListener, to: SocketAddr, cut: &AtomicBool, stop: &AtomicBool) {
    thread::scope(|scope| {
        while !stop.load(Ordering::Relaxed) {
            match door.accept() {
                Ok((stream, _)) if !cut.load(Ordering::Relaxed) => {
                    let Ok(behind) = TcpStream::connect(to) else { continue };
                    // A stream that ends is opened again by who wants it.
                    for (from, into) in [(&stream, &behind), (&behind, &stream)] {
                        if let (Ok(from), Ok(into)) = (from.try_clone(), into.try_clone()) {
                            scope.spawn(move || pump(from, into, cut, stop));
                        }
                    }
                }
                // Cut: it is closed at once.
                Ok(_) => {}
                Err(_) => thread::sleep(LOOK_EVERY),
            }
        }
    });
}

fn pump(mut from: TcpStream, mut to: TcpStream, cut: &AtomicBool, stop: &AtomicBool) {
    let ready = from.set_nonblocking(false).is_ok()
        && from.set_read_timeout(Some(LOOK_EVERY)).is_ok()
        && to.set_nodelay(true).is_ok();
    let mut buffer = vec![0; 1 << 16];
    while ready && !cut.load(Ordering::Relaxed) && !stop.load(Ordering::Relaxed) {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(len) => {
                if to.write_all(buffer.get(..len).unwrap_or(&[])).is_err() {
                    break;
                }
            }
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                ) => {}
            Err(_) => break,
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_does_not_pass_until_it_is_mended() {
        let behind = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a door");
        let to = behind.local_addr().expect("an address");
        let stop = Arc::new(AtomicBool::new(false));
        let (relay, thread) = Relay::start((0, 1), to, &stop).expect("a relay");
        let pass = || -> std::io::Result<u8> {
            let mut out = TcpStream::connect(relay.at)?;
            let (mut inside, _) = behind.accept()?;
            out.write_all(&[7])?;
            let mut byte = [0];
            inside.read_exact(&mut byte)?;
            Ok(byte[0])
        };
        assert_eq!(pass().expect("it passes"), 7);
        relay.cut(true);
        let mut out = TcpStream::connect(relay.at).expect("it still accepts");
        out.set_read_timeout(Some(Duration::from_secs(5))).expect("set");
        assert_eq!(out.read(&mut [0]).unwrap_or(0), 0, "closed");
        relay.cut(false);
        assert_eq!(pass().expect("it passes again"), 7);
        stop.store(true, Ordering::Relaxed);
        thread.join().expect("ended");
    }
}
