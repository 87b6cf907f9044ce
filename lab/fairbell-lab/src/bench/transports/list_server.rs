//! As much of a Redis server as the tests of its lists need.

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::resp::decode;

type Lists = BTreeMap<Vec<u8>, VecDeque<Vec<u8>>>;

#[derive(Default)]
struct Shared {
    lists: Mutex<Lists>,
    pushed: Condvar,
}

/// A server on a port of its own, until the tests end.
pub struct ListServer {
    port: u16,
    shared: Arc<Shared>,
}

impl ListServer {
    pub fn start() -> ListServer {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared::default());
        let of_all = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, shared) = (stream.unwrap(), Arc::clone(&of_all));
                thread::spawn(move || serve(stream, &shared));
            }
        });
        ListServer { port, shared }
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Elements in all lists.
    pub fn left(&self) -> usize {
        self.shared.lists.lock().unwrap().values().map(VecDeque::len).sum()
    }
}

fn serve(mut stream: TcpStream, shared: &Shared) {
    stream.set_nodelay(true).unwrap();
    let (mut input, mut buffer) = (Vec::new(), [0; 4_096]);
    loop {
        let mut rest = input.as_slice();
        // A command is written as a list of strings, as some replies are.
        while let Some(command) = decode(&mut rest, 1).unwrap() {
            if stream.write_all(&answer(&command.elements(), shared)).is_err() {
                return;
            }
        }
        input = rest.to_vec();
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(count) => input.extend_from_slice(&buffer[..count]),
        }
    }
}

fn answer(words: &[Vec<u8>], shared: &Shared) -> Vec<u8> {
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    match words.as_slice() {
        [b"DEL", keys @ ..] => {
            let mut lists = shared.lists.lock().unwrap();
            keys.iter().for_each(|key| drop(lists.remove(*key)));
            b":0\r\n".to_vec()
        }
        [b"RPUSH", key, element] => {
            let mut lists = shared.lists.lock().unwrap();
            lists.entry(key.to_vec()).or_default().push_back(element.to_vec());
            shared.pushed.notify_all();
            b":1\r\n".to_vec()
        }
        [b"LPOP", key] => {
            let popped = shared.lists.lock().unwrap().get_mut(*key).and_then(VecDeque::pop_front);
            popped.map_or(b"$-1\r\n".to_vec(), |element| bulk(&element))
        }
        [b"BLMOVE", from, to, b"LEFT", b"RIGHT", wait] => {
            let moved = wait_for(shared, wait, |lists| {
                let element = lists.get_mut(*from)?.pop_front()?;
                lists.entry(to.to_vec()).or_default().push_back(element.clone());
                Some(bulk(&element))
            });
            moved.unwrap_or(b"$-1\r\n".to_vec())
        }
        [b"BLPOP", key, wait] => {
            let popped = wait_for(shared, wait, |lists| lists.get_mut(*key)?.pop_front());
            popped.map_or(b"*-1\r\n".to_vec(), |element| {
                [b"*2\r\n".to_vec(), bulk(key), bulk(&element)].concat()
            })
        }
        [b"BLMPOP", wait, b"1", key, b"LEFT", b"COUNT", most] => {
            let most: usize = std::str::from_utf8(most).unwrap().parse().unwrap();
            let popped = wait_for(shared, wait, |lists| {
                let list = lists.get_mut(*key).filter(|list| !list.is_empty())?;
                Some(list.drain(..most.min(list.len())).collect::<Vec<_>>())
            });
            popped.map_or(b"*-1\r\n".to_vec(), |elements| {
                let head = format!("*{}\r\n", elements.len()).into_bytes();
                let all: Vec<u8> = elements.iter().flat_map(|element| bulk(element)).collect();
                [b"*2\r\n".to_vec(), bulk(key), head, all].concat()
            })
        }
        _ => b"-ERR unknown command\r\n".to_vec(),
    }
}

fn wait_for<T>(
    shared: &Shared,
    seconds: &[u8],
    mut take: impl FnMut(&mut Lists) -> Option<T>,
) -> Option<T> {
    let seconds: f64 = std::str::from_utf8(seconds).unwrap().parse().unwrap();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut lists = shared.lists.lock().unwrap();
    loop {
        if let Some(taken) = take(&mut lists) {
            shared.pushed.notify_all();
            return Some(taken);
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        lists = shared.pushed.wait_timeout(lists, left).unwrap().0;
    }
}

fn bulk(bytes: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}
