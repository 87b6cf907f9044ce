//! Between replicas: a stream each way over TLS 1.3, both ends with certificates of the group's
//! authority. Messages that can't leave at once are dropped; consensus sends again what matters.
//!
//! A message is its length (4 bytes, big-endian, at most [`MESSAGE_MAX`]) and its bytes.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use net::{ClientTls, Sealed, ServerTls};
use probe::Key;

use super::certificates;
use super::gate::{self, Entrant, Gate};
use super::places::Place;
use crate::sockets::connect_from;

/// Messages that may wait for a replica.
pub const WAITING_MAX: usize = 1_024;
/// Longest message.
const MESSAGE_MAX: usize = 4 << 20;
/// Between two attempts to connect.
const RETRY: Duration = Duration::from_millis(20);
/// How long an address may not answer.
const CONNECT: Duration = Duration::from_millis(200);
/// How long a stream may not take or give anything before it is looked whether all is over.
const PATIENCE: Duration = Duration::from_millis(200);
/// A stream that takes nothing for so long is given up.
const STUCK: Duration = Duration::from_millis(500);

/// One direction between two replicas.
pub struct Way {
    /// Where the other one listens, and its number.
    pub to: (Place, u8),
    /// One's own number, and the address to come from, by which the other one knows a machine of the
    /// group.
    pub own: u8,
    /// See `own`.
    pub from: IpAddr,
    /// One's own at the doors of links; see [`gate::key_of`].
    pub key: Key,
    /// One's own certificate, and the other's name.
    pub tls: ClientTls,
}

/// Sends what comes through `messages` to the replica at the other end, until `stop`. Whoever is
/// told nothing, as one in reserve, is not connected with.
pub fn send(way: &Way, messages: &Receiver<Vec<u8>>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        match messages.recv_timeout(PATIENCE) {
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // Trouble with a stream is the end of it, and another one is opened.
        let _ = open(way).and_then(|sealed| send_on(sealed, messages, stop));
        while messages.try_recv().is_ok() {}
        std::thread::sleep(RETRY);
    }
}

fn open(way: &Way) -> std::io::Result<Sealed> {
    let stream = connect_from(SocketAddr::new(way.from, 0), way.to.0.get(), CONNECT)?;
    stream.set_nodelay(true)?;
    let until = Instant::now() + gate::HANDSHAKE;
    let ends = (way.own.into(), way.to.1.into());
    gate::enter(&stream, (&way.key, ends.0, ends.1), until)?;
    let stream = Arc::new(stream);
    let sealed = way.tls.connect(Arc::clone(&stream), until)?;
    stream.set_write_timeout(Some(STUCK))?;
    Ok(sealed)
}

fn pack(message: &[u8], out: &mut Vec<u8>) {
    if message.len() <= MESSAGE_MAX {
        out.extend_from_slice(&(message.len() as u32).to_be_bytes());
        out.extend_from_slice(message);
    }
}

fn send_on(
    mut stream: impl Write,
    messages: &Receiver<Vec<u8>>,
    stop: &AtomicBool,
) -> std::io::Result<()> {
    let mut out = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let first = match messages.recv_timeout(PATIENCE) {
            Ok(first) => first,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        pack(&first, &mut out);
        // What came meanwhile leaves with it.
        while out.len() < 1 << 20
            && let Ok(next) = messages.try_recv()
        {
            pack(&next, &mut out);
        }
        stream.write_all(&out)?;
        stream.flush()?;
        out.clear();
    }
    Ok(())
}

/// Streams of members, one of each.
#[derive(Default)]
struct Live(Mutex<BTreeMap<u8, Arc<TcpStream>>>);

impl Live {
    /// A member has proved who it is: its earlier stream, if there is one, ends.
    fn take(&self, number: u8, stream: &Arc<TcpStream>) {
        let mut live = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = live.insert(number, Arc::clone(stream)) {
            let _ = old.shutdown(Shutdown::Both);
        }
    }

    fn leave(&self, number: u8, stream: &Arc<TcpStream>) {
        let mut live = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if live.get(&number).is_some_and(|of| Arc::ptr_eq(of, stream)) {
            live.remove(&number);
        }
    }
}

/// Takes streams of others at `door`, and hands every message to `heard` with the number of whoever
/// sent it, until `stop`. `tls` lets in certificates of the authority of `group` alone.
///
/// # Errors
/// See [`gate::serve`].
pub fn receive(
    (gate, door): (&Gate, &TcpListener),
    (tls, group): (&ServerTls, u64),
    stop: &AtomicBool,
    heard: impl Fn(u8, Vec<u8>) + Sync,
) -> std::io::Result<()> {
    let live = Live::default();
    gate::serve(gate, door, stop, |entrant| {
        // A stream that ends, by whatever, is opened again by the other side.
        let _ = read_from(&entrant, (tls, group), &live, stop, &heard);
    })
}

fn read_from(
    entrant: &Entrant<'_>,
    (tls, group): (&ServerTls, u64),
    live: &Live,
    stop: &AtomicBool,
    heard: impl Fn(u8, Vec<u8>),
) -> std::io::Result<()> {
    let stream = &entrant.stream;
    let number = u8::try_from(entrant.number).map_err(std::io::Error::other)?;
    let sealed = tls.accept(Arc::clone(stream), entrant.until)?;
    let name = sealed.certificate().map(|certificate| &certificate.name[..]);
    // Replicas' certificates are signed by the authority itself, and by nobody in its place.
    let is_direct = sealed.certificates_shown() == 1;
    if !is_direct || name != Some(certificates::name(group, number).as_bytes()) {
        return Err(std::io::Error::other("a certificate of somebody else"));
    }
    entrant.settle();
    stream.set_read_timeout(Some(PATIENCE))?;
    live.take(number, stream);
    let read = read_on(sealed, stop, |message| heard(number, message));
    live.leave(number, stream);
    read
}

fn read_on(
    mut sealed: impl Read,
    stop: &AtomicBool,
    heard: impl Fn(Vec<u8>),
) -> std::io::Result<()> {
    let (mut buffer, mut kept) = (vec![0; 1 << 16], Vec::new());
    while !stop.load(Ordering::Relaxed) {
        let len = match sealed.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(len) => len,
            Err(error) if is_patience(&error) => continue,
            Err(error) => return Err(error),
        };
        kept.extend_from_slice(buffer.get(..len).unwrap_or(&[]));
        unpack(&mut kept, &heard)?;
    }
    Ok(())
}

/// Hands on the whole messages that `kept` begins with.
///
/// # Errors
/// One is longer than any may be.
fn unpack(kept: &mut Vec<u8>, heard: impl Fn(Vec<u8>)) -> std::io::Result<()> {
    let mut at = 0;
    while let Some(head) = kept.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
        let len = u32::from_be_bytes(*head) as usize;
        if len > MESSAGE_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        let Some(message) = kept.get(at + 4..at + 4 + len) else { break };
        heard(message.to_vec());
        at += 4 + len;
    }
    kept.drain(..at);
    Ok(())
}

fn is_patience(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::mpsc::{SyncSender, sync_channel};

    use proptest::prelude::*;

    use super::*;
    use crate::fleet::credentials::{self, DAYS};
    use crate::fleet::file::{ClusterFile, NodeEntry, NodeRole};
    use crate::replica::certificates::Credentials;
    use crate::replica::cluster::{Cluster, tests::cluster};
    use crate::replica::gate::Limits;
    use crate::sockets::ANYWHERE;

    /// What an order looks like to whoever reads along.
    const HIDDEN: &[u8] = b"buy 4,700 of FBL hidden at 101.25";

    /// A group's certificates and keys, in a folder that goes with it.
    struct Group(Cluster);

    impl Group {
        fn new(name: &str, group: u64) -> Group {
            let folder = format!("fairbell-{name}-{group}-{}", std::process::id());
            let keys = std::env::temp_dir().join(folder);
            crate::files::folder(&keys).expect("a folder");
            let root = |number: u8| {
                let address = format!("127.0.0.{number}");
                NodeEntry::new(format!("root-{number}"), address, vec![NodeRole::Root])
            };
            let (path, nodes) = (keys.join("cluster.toml"), (1..=3).map(root).collect());
            let mut file = ClusterFile::new(&path, name, types::Nanos(1), nodes).expect("a file");
            file.id = group;
            credentials::found(&file).expect("an authority");
            for node in &file.nodes {
                credentials::issue(&file, &node.name, DAYS).expect("certificates");
            }
            let authority = std::fs::read_to_string(file.authority_path()).expect("an authority");
            Group(Cluster { group, keys, authority, ..cluster(3) })
        }

        fn credentials(&self, id: u8) -> Credentials {
            let keys = self.0.keys.join(format!("keys/root-{id}"));
            Credentials::read(&Cluster { keys, ..self.0.clone() }, id).expect("certificates")
        }

        fn gate(&self, own: u8, limits: Limits) -> Gate {
            let key = self.0.key(b"links").expect("a key");
            Gate { key, own: own.into(), known: self.0.machines(), limits, refused: Arc::default() }
        }

        fn way(&self, at: SocketAddr, (own, to): (u8, u8), credentials: &Credentials) -> Way {
            let key = gate::key_of(&self.0.key(b"links").expect("a key"), own.into());
            let (from, tls) = (ANYWHERE.ip(), credentials.to(to).expect("TLS"));
            Way { to: (at.into(), to), own, from, key, tls }
        }
    }

    impl Drop for Group {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0.keys);
        }
    }

    fn address(door: &TcpListener) -> SocketAddr {
        door.local_addr().expect("an address")
    }

    /// Ends threads whatever becomes of a test.
    struct Stop<'a>(&'a AtomicBool);

    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// Says `what` again and again until `enough`; false when that takes too long.
    fn say(to: &SyncSender<Vec<u8>>, what: &[u8], enough: impl Fn() -> bool) -> bool {
        (0..4_000).any(|_| {
            // Before the stream is there they are dropped.
            let _ = to.try_send(what.to_vec());
            std::thread::sleep(Duration::from_millis(5));
            enough()
        })
    }

    /// A relay that keeps what passes to the door.
    fn tap(to: SocketAddr, seen: &Mutex<Vec<u8>>, stop: &AtomicBool, at: &TcpListener) {
        at.set_nonblocking(true).expect("set");
        std::thread::scope(|scope| {
            while !stop.load(Ordering::Relaxed) {
                let Ok((near, _)) = at.accept() else {
                    std::thread::sleep(Duration::from_millis(2));
                    continue;
                };
                let far = TcpStream::connect(to).expect("connected");
                near.set_nonblocking(false).expect("set");
                for (from, into) in [(&near, &far), (&far, &near)] {
                    let mut from = from.try_clone().expect("a clone");
                    let mut into = into.try_clone().expect("a clone");
                    from.set_read_timeout(Some(Duration::from_millis(20))).expect("set");
                    scope.spawn(move || {
                        let mut buffer = [0; 4_096];
                        while !stop.load(Ordering::Relaxed) {
                            match from.read(&mut buffer) {
                                Ok(0) => break,
                                Ok(len) => {
                                    seen.lock().expect("unpoisoned").extend(&buffer[..len]);
                                    let _ = into.write_all(&buffer[..len]);
                                }
                                Err(error) if is_patience(&error) => {}
                                Err(_) => break,
                            }
                        }
                    });
                }
            }
        });
    }

    fn holds(bytes: &[u8], what: &[u8]) -> bool {
        bytes.windows(what.len()).any(|window| window == what)
    }

    #[test]
    fn what_replicas_tell_one_another_is_not_to_be_read_on_the_way() {
        let group = Group::new("tapped", 1);
        let (door, between) = (
            TcpListener::bind(ANYWHERE).expect("a door"),
            TcpListener::bind(ANYWHERE).expect("a door"),
        );
        let (gate, tls) = (group.gate(2, Limits::FAIR), group.credentials(2).door().expect("TLS"));
        let way = group.way(address(&between), (1, 2), &group.credentials(1));
        let (stop, seen) = (AtomicBool::new(false), Mutex::new(Vec::new()));
        let (heard, (sender, messages)) = (Mutex::new(Vec::new()), sync_channel(16));
        std::thread::scope(|scope| {
            let _stop = Stop(&stop);
            let (stop, seen, heard, behind) = (&stop, &seen, &heard, address(&door));
            let (gate, door, tls, way, between) = (&gate, &door, &tls, &way, &between);
            scope.spawn(move || tap(behind, seen, stop, between));
            scope.spawn(move || {
                let keep = |_, message| heard.lock().expect("unpoisoned").push(message);
                receive((gate, door), (tls, 1), stop, keep)
            });
            scope.spawn(move || send(way, &messages, stop));
            let enough = || heard.lock().expect("unpoisoned").len() >= 20;
            assert!(say(&sender, HIDDEN, enough), "nothing arrived");
        });
        assert!(heard.into_inner().expect("unpoisoned").iter().all(|message| message == HIDDEN));
        let seen = seen.into_inner().expect("unpoisoned");
        assert!(seen.len() > 20 * HIDDEN.len() && !holds(&seen, HIDDEN));
        // Control: what is packed and not sealed shows it.
        let (mut plain, (sender, messages)) = (Vec::new(), sync_channel(1));
        sender.send(HIDDEN.to_vec()).expect("room");
        drop(sender);
        send_on(&mut plain, &messages, &AtomicBool::new(false)).expect("a buffer takes all");
        assert!(holds(&plain, HIDDEN));
    }

    #[test]
    fn only_the_replica_of_that_number_in_that_group_is_heard() {
        let (group, other) = (Group::new("credentials", 2), Group::new("credentials", 3));
        let door = TcpListener::bind(ANYWHERE).expect("a door");
        let (gate, tls) = (group.gate(2, Limits::FAIR), group.credentials(2).door().expect("TLS"));
        let at = address(&door);
        let first = group.credentials(1);
        // The secret alone: the same group's number 3 in the name of 1; certificates of another
        // authority, and of another group under the right authority; another secret; one that takes
        // this door for another replica's.
        let foreign =
            Way { key: other.0.key(b"links").expect("a key"), ..group.way(at, (1, 2), &first) };
        let misled = Way { to: (at.into(), 3), ..group.way(at, (1, 2), &first) };
        let elsewhere =
            Way { tls: other.credentials(1).to(2).expect("TLS"), ..group.way(at, (1, 2), &first) };
        let wrong = [group.way(at, (1, 2), &group.credentials(3)), elsewhere, foreign, misled];
        let right = group.way(at, (1, 2), &first);
        let (stop, heard) = (AtomicBool::new(false), Mutex::new(Vec::<Vec<u8>>::new()));
        let (sender, messages) = sync_channel(16);
        let (strange, strangers): (Vec<_>, Vec<_>) = wrong.iter().map(|_| sync_channel(16)).unzip();
        std::thread::scope(|scope| {
            let _stop = Stop(&stop);
            let (stop, heard, gate, door, tls) = (&stop, &heard, &gate, &door, &tls);
            scope.spawn(move || {
                let keep = |_, message| heard.lock().expect("unpoisoned").push(message);
                receive((gate, door), (tls, 2), stop, keep)
            });
            for (way, messages) in wrong.iter().zip(strangers) {
                scope.spawn(move || send(way, &messages, stop));
            }
            let right = &right;
            scope.spawn(move || send(right, &messages, stop));
            let enough = || {
                strange.iter().for_each(|to| drop(to.try_send(b"strange".to_vec())));
                heard.lock().expect("unpoisoned").len() >= 50
            };
            assert!(say(&sender, b"right", enough), "nothing arrived");
        });
        let heard = heard.into_inner().expect("unpoisoned");
        assert!(heard.iter().all(|message| message == b"right"), "a stranger was heard");
    }

    #[test]
    fn a_newer_stream_of_a_member_takes_the_place_of_its_older_one() {
        let group = Group::new("twice", 4);
        let door = TcpListener::bind(ANYWHERE).expect("a door");
        let (gate, tls) = (group.gate(2, Limits::FAIR), group.credentials(2).door().expect("TLS"));
        let way = group.way(address(&door), (1, 2), &group.credentials(1));
        let (stop, heard) = (AtomicBool::new(false), Mutex::new(Vec::<Vec<u8>>::new()));
        std::thread::scope(|scope| {
            let _stop = Stop(&stop);
            let (stop, heard, gate, door, tls) = (&stop, &heard, &gate, &door, &tls);
            scope.spawn(move || {
                let keep = |_, message| heard.lock().expect("unpoisoned").push(message);
                receive((gate, door), (tls, 4), stop, keep)
            });
            let one = |text: &[u8]| {
                let mut sealed = open(&way).expect("open");
                let mut out = Vec::new();
                pack(text, &mut out);
                sealed.write_all(&out).and_then(|()| sealed.flush()).expect("written");
                let is_there = |heard: &Vec<Vec<u8>>| heard.iter().any(|one| one == text);
                while !is_there(&heard.lock().expect("unpoisoned")) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                sealed
            };
            let mut old = one(b"old");
            let _new = one(b"new");
            // The end of the old one shows when it is read.
            let ended = old.read(&mut [0; 8]);
            assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
        });
    }

    /// What a stranger does next: comes back when it was sent away, and perhaps drips a byte.
    fn push_in(stranger: &mut Option<TcpStream>, at: SocketAddr, drips: bool) {
        let Some(stream) = stranger else {
            // Nobody accepts any more when the door is closed: the kernel would try for minutes.
            *stranger = TcpStream::connect_timeout(&at, Duration::from_millis(100)).ok();
            let quiet = stranger.as_ref().map(|stream| stream.set_nonblocking(true));
            return assert!(quiet.is_none_or(|set| set.is_ok()));
        };
        let ended = match stream.read(&mut [0; 64]) {
            Ok(bytes) => bytes == 0,
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        };
        if ended || drips && stream.write(&[0x16]).is_err() {
            *stranger = None;
        }
    }

    /// Whether a member is heard at a door whose every place strangers want, half of them idle, half of
    /// them dripping bytes, all of them back as soon as they are sent away.
    fn heard_among_strangers(limits: Limits) -> bool {
        let group = Group::new("crowd", if limits == Limits::FAIR { 5 } else { 6 });
        let id = group.0.group;
        let door = TcpListener::bind(ANYWHERE).expect("a door");
        let (gate, tls) = (group.gate(2, limits), group.credentials(2).door().expect("TLS"));
        let at = address(&door);
        let way = group.way(at, (1, 2), &group.credentials(1));
        let (stop, heard) = (AtomicBool::new(false), Mutex::new(0));
        let (sender, messages) = sync_channel(16);
        let mut came = false;
        std::thread::scope(|scope| {
            let _stop = Stop(&stop);
            let (stop, heard, gate, door, tls, way) = (&stop, &heard, &gate, &door, &tls, &way);
            scope.spawn(move || {
                let keep = |_, _| *heard.lock().expect("unpoisoned") += 1;
                receive((gate, door), (tls, id), stop, keep)
            });
            let (told, ready) = sync_channel(1);
            scope.spawn(move || {
                let mut crowd: Vec<Option<TcpStream>> = (0..200).map(|_| None).collect();
                while !stop.load(Ordering::Relaxed) {
                    let pushing = crowd.iter_mut().enumerate();
                    let pushing = pushing.take_while(|_| !stop.load(Ordering::Relaxed));
                    pushing.for_each(|(n, one)| push_in(one, at, n % 2 == 1));
                    // The control's doors are full before anybody else comes.
                    let _ = told.try_send(());
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
            (0..50).for_each(|_| assert!(ready.recv().is_ok()));
            scope.spawn(move || send(way, &messages, stop));
            let tries = if limits == Limits::FAIR { 4_000 } else { 400 };
            came = (0..tries).any(|_| {
                let _ = sender.try_send(b"member".to_vec());
                std::thread::sleep(Duration::from_millis(5));
                *heard.lock().expect("unpoisoned") >= 3
            });
        });
        came
    }

    #[test]
    fn strangers_at_the_door_keep_no_member_out() {
        assert!(heard_among_strangers(Limits::FAIR));
        // Where other programs keep the crowd from the cores, a member may slip in.
        let kept_out = (0..3).any(|_| !heard_among_strangers(Limits::FIRST_COME));
        assert!(kept_out, "control: those who come first stay");
    }

    #[test]
    fn keys_are_their_owners_alone_and_missing_ones_say_how_they_are_made() {
        use std::os::unix::fs::PermissionsExt;
        let group = Group::new("made", 7);
        let mode =
            |path: PathBuf| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
        let keys = group.0.keys.join("keys/root-1");
        assert_eq!(mode(keys.clone()), 0o700);
        for name in ["root-1/replica-1.key.pem", "root-1/roots.secret", "authority.key.pem"] {
            assert_eq!(mode(group.0.keys.join("keys").join(name)), 0o600, "{name}");
        }
        let seen = Cluster { keys: keys.clone(), ..group.0.clone() };
        assert!(Credentials::read(&seen, 1).is_ok());
        std::fs::remove_file(keys.join("replica-1.pem")).expect("removed");
        let Err(why) = Credentials::read(&seen, 1) else { panic!("half a pair") };
        assert!(why.to_string().contains("fairbell cluster issue"), "{why}");
    }

    proptest! {
        #[test]
        fn messages_come_out_whole_however_they_are_cut(
            messages in proptest::collection::vec(
                proptest::collection::vec(any::<u8>(), 0..200), 0..20),
            cut in 1usize..300,
        ) {
            let mut wire = Vec::new();
            messages.iter().for_each(|message| pack(message, &mut wire));
            let (mut kept, got) = (Vec::new(), Mutex::new(Vec::new()));
            for piece in wire.chunks(cut) {
                kept.extend_from_slice(piece);
                unpack(&mut kept, |message| got.lock().expect("unpoisoned").push(message))
                    .expect("short");
            }
            prop_assert_eq!(got.into_inner().expect("unpoisoned"), messages);
            prop_assert!(kept.is_empty());
        }

        #[test]
        fn any_bytes_are_borne(mut bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let before = bytes.len();
            let read = Mutex::new(0);
            let whole = unpack(&mut bytes, |message| *read.lock().expect("unpoisoned") += message.len());
            prop_assert!(read.into_inner().expect("unpoisoned") <= before);
            prop_assert!(whole.is_ok() || bytes.len() <= before);
        }
    }
}
