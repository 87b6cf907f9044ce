//! Between replicas: a TCP stream each way, its frames authenticated under the deployment's secret.
//! Messages that can't leave at once are dropped; consensus sends again what matters.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use probe::{Key, Link, Nonces, entropy};

/// Messages that may wait for a replica.
pub const WAITING_MAX: usize = 1_024;
/// Between two attempts to connect.
const RETRY: Duration = Duration::from_millis(20);
/// How long an address may not answer.
const CONNECT: Duration = Duration::from_millis(200);
/// How long a stream may not take or give anything before it is looked whether all is over.
const PATIENCE: Duration = Duration::from_millis(200);
/// A stream that takes nothing for so long is given up.
const STUCK: Duration = Duration::from_millis(500);
/// Replicas, twice over: streams that are open at a time.
const STREAMS_MAX: usize = 32;

fn nonces() -> std::io::Result<Nonces> {
    entropy().map(Nonces::new).ok_or_else(|| std::io::Error::other("no randomness"))
}

/// Sends what comes through `messages` to the replica at `to`, until `stop`. Whoever is told nothing,
/// as one in reserve, is not connected with.
pub fn send(to: SocketAddrV4, key: &Key, messages: &Receiver<Vec<u8>>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        match messages.recv_timeout(PATIENCE) {
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // Trouble with a stream is the end of it, and another one is opened.
        let _ = TcpStream::connect_timeout(&to.into(), CONNECT)
            .and_then(|stream| send_on(stream, key, messages, stop));
        while messages.try_recv().is_ok() {}
        std::thread::sleep(RETRY);
    }
}

fn send_on(
    mut stream: TcpStream,
    key: &Key,
    messages: &Receiver<Vec<u8>>,
    stop: &AtomicBool,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(STUCK))?;
    stream.set_write_timeout(Some(STUCK))?;
    let mut link = Link::connect(key, nonces()?.draw());
    let (mut buffer, mut out) = ([0; 256], Vec::new());
    while !link.is_open() {
        let len = stream.read(&mut buffer)?;
        if len == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        link.take(buffer.get(..len).unwrap_or(&[]), &mut out).map_err(std::io::Error::other)?;
        stream.write_all(&out)?;
        out.clear();
    }
    while !stop.load(Ordering::Relaxed) {
        let first = match messages.recv_timeout(PATIENCE) {
            Ok(first) => first,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        link.send(&first, &mut out);
        // What came meanwhile leaves with it.
        while out.len() < 1 << 20
            && let Ok(next) = messages.try_recv()
        {
            link.send(&next, &mut out);
        }
        stream.write_all(&out)?;
        out.clear();
    }
    Ok(())
}

/// Takes streams of others at `door`, and hands every message to `heard`, until `stop`.
pub fn receive(
    door: &TcpListener,
    key: &Key,
    stop: &AtomicBool,
    heard: impl Fn(Vec<u8>) + Clone + Send,
) -> std::io::Result<()> {
    door.set_nonblocking(true)?;
    std::thread::scope(|scope| {
        let mut readers = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            readers.retain(|reader: &std::thread::ScopedJoinHandle<'_, ()>| !reader.is_finished());
            match door.accept() {
                Ok((stream, _)) if readers.len() < STREAMS_MAX => {
                    let heard = heard.clone();
                    readers.push(scope.spawn(move || {
                        // A stream that ends, by whatever, is opened again by the other side.
                        let _ = read_from(stream, key, stop, heard);
                    }));
                }
                Ok(_) => {}
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        Ok(())
    })
}

fn read_from(
    mut stream: TcpStream,
    key: &Key,
    stop: &AtomicBool,
    heard: impl Fn(Vec<u8>),
) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(STUCK))?;
    let (mut buffer, mut out) = (vec![0; 1 << 16], Vec::new());
    let mut link = Link::accept(key, nonces()?.draw(), &mut out);
    stream.write_all(&out)?;
    let opened = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let len = match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(len) => len,
            Err(error) if is_patience(&error) => {
                // Whoever proves nothing is not waited for.
                if !link.is_open() && opened.elapsed() > STUCK {
                    return Ok(());
                }
                continue;
            }
            Err(error) => return Err(error),
        };
        out.clear();
        link.take(buffer.get(..len).unwrap_or(&[]), &mut out).map_err(std::io::Error::other)?;
        stream.write_all(&out)?;
        while let Some(message) = link.next_frame().map_err(std::io::Error::other)? {
            heard(message);
        }
    }
    Ok(())
}

fn is_patience(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}

/// Any free place on the loopback address.
pub const ANYWHERE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::sync_channel;

    use super::*;
    use crate::replica::cluster::tests::cluster;

    #[test]
    fn messages_come_through_and_a_stranger_is_not_heard() {
        let key = cluster(3).key(b"links").expect("a key");
        let other = cluster(3).key(b"claims").expect("a key");
        let door = TcpListener::bind(ANYWHERE).expect("a door");
        let std::net::SocketAddr::V4(at) = door.local_addr().expect("an address") else {
            panic!("IPv4")
        };
        let (stop, got) = (AtomicBool::new(false), Mutex::new(Vec::new()));
        let (sender, messages) = sync_channel(16);
        let (wrong, strange) = sync_channel(16);
        std::thread::scope(|scope| {
            let kept = &got;
            let heard = move |message| kept.lock().expect("unpoisoned").push(message);
            let (door, known, unknown, over) = (&door, &key, &other, &stop);
            scope.spawn(move || receive(door, known, over, heard));
            scope.spawn(move || send(at, known, &messages, over));
            scope.spawn(move || send(at, unknown, &strange, over));
            for n in 0u32.. {
                // Before the stream is there they are dropped.
                let _ = sender.try_send(n.to_be_bytes().to_vec());
                let _ = wrong.try_send(b"strange".to_vec());
                std::thread::sleep(Duration::from_millis(5));
                let enough = got.lock().expect("unpoisoned").len() >= 20;
                if enough || n > 2_000 {
                    break;
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        let got = got.into_inner().expect("unpoisoned");
        assert!(got.len() >= 20 && got.is_sorted() && got.iter().all(|bytes| bytes.len() == 4));
    }
}
