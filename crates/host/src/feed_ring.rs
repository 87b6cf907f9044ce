//! The feed of an edge in shared memory, for participants' processes on its machine: where the file is
//! and who may read it; and the end that listens.
//!
//! The edge writes each packet once, at its release, however many read it. The file is its owner's
//! alone to write, and those of one group may read it.

use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::path::Path;

use feed::Subscriber;
use net::packet_ring::{PACKET_MAX, PacketRead, PacketRingReader, PacketRingWriter};
use types::{Channel, ClockReading, ConnId, Nanos, Node, Outbox, Peer};
use wire::subscription::{RING_PATH_MAX, Ring};

use crate::failure::{Failure, on};

/// Packets that a ring has room for: 12 MiB.
pub const PACKETS: u64 = 8_192;
/// Behind the name of an edge in that of its ring's file.
pub const SUFFIX: &str = ".ring";
/// Packets that are taken in a row while timers wait.
const BATCH: usize = 64;
/// Between two looks whether a ring that is silent was made anew, ns.
const FOLLOW_NS: u64 = 100 * Nanos::MILLI;

/// Why a ring can't be in that folder under an edge's name; nothing where it can.
pub fn unfit(folder: &Path, edge: &str) -> Option<String> {
    let path = folder.join(format!("{edge}{SUFFIX}"));
    let text = path.to_str().filter(|text| text.bytes().all(|byte| byte.is_ascii_graphic()));
    let fits = text.is_some_and(|text| text.len() <= RING_PATH_MAX);
    let why =
        format!("{edge}: an absolute path without blanks, with the file {RING_PATH_MAX} bytes");
    (!fits || !folder.is_absolute()).then_some(why)
}

/// Makes the ring of an edge in a folder, which is made if it isn't there; `group`: who may read it, a
/// name or number, the process's own group without it.
///
/// # Errors
/// A folder in which others than its owner may write; no such group; what the system says.
pub fn create(
    folder: &Path,
    edge: &str,
    group: Option<&str>,
) -> Result<(PacketRingWriter, Ring), Failure> {
    if let Some(why) = unfit(folder, edge) {
        return Err(Failure::Usage(format!("{}: {why}", folder.display())));
    }
    let group = group.map(group_number).transpose()?;
    match std::fs::DirBuilder::new().mode(0o750).create(folder) {
        Ok(()) => {
            // Whatever the process's mask is.
            let rights = std::fs::Permissions::from_mode(0o750);
            std::fs::set_permissions(folder, rights).map_err(|error| on(folder, error))?;
            chown(folder, None, group).map_err(|error| on(folder, error))?;
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(on(folder, error)),
    }
    let of = std::fs::metadata(folder).map_err(|error| on(folder, error))?;
    if of.mode() & 0o022 != 0 {
        let why = "others may write there and put another file in the ring's place: name a folder \
                   that isn't there, or chmod go-w";
        return Err(Failure::Usage(format!("{}: {why}", folder.display())));
    }
    let random = probe::entropy().ok_or_else(|| Failure::Run("no randomness".to_string()))?;
    let generation = random.first_chunk().map_or(1, |bytes| u64::from_le_bytes(*bytes));
    let path = folder.join(format!("{edge}{SUFFIX}"));
    let writer = PacketRingWriter::create(&path, PACKETS, generation, group);
    let writer = writer.map_err(|error| on(&path, error))?;
    Ok((writer, Ring { generation, path: path.display().to_string() }))
}

/// The number of a group of the machine's own list, or the number that it is already.
fn group_number(group: &str) -> Result<u32, Failure> {
    if let Ok(number) = group.parse() {
        return Ok(number);
    }
    let list = Path::new("/etc/group");
    let text = std::fs::read_to_string(list).map_err(|error| on(list, error))?;
    let mut entries = text.lines().map(|line| line.split(':'));
    let found = entries.find_map(|mut entry| {
        (entry.next() == Some(group)).then(|| entry.nth(1).and_then(|number| number.parse().ok()))
    });
    let unknown = || Failure::Usage(format!("group {group}: not in {}", list.display()));
    found.flatten().ok_or_else(unknown)
}

/// Opens the ring that an edge names.
///
/// # Errors
/// It is not to be read here, or what is there is not that edge's.
pub fn open(ring: &Ring) -> Result<PacketRingReader, Failure> {
    let here = "the ring is on the edge's own machine, for those who may read it there";
    let failed = |why: String| Failure::Run(format!("{}: {why}: {here}", ring.path));
    let reader = PacketRingReader::open(Path::new(&ring.path));
    let reader = reader.map_err(|error| failed(error.to_string()))?;
    match reader.generation() == ring.generation {
        true => Ok(reader),
        false => Err(failed("not that of the edge that was asked".to_string())),
    }
}

/// What came of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RingCounters {
    /// Packets read.
    pub packets: u64,
    /// Packets that were overwritten before they were read.
    pub lost: u64,
    /// Rings gone over to.
    pub attached: u64,
}

/// A listener of the feed that may read it from a ring, too.
pub struct RingListener {
    subscriber: Subscriber,
    ring: Option<PacketRingReader>,
    /// Between two looks at a ring that had nothing new, ns.
    poll_ns: u64,
    look_at: Nanos,
    follow_at: Nanos,
    counters: RingCounters,
    packet: Box<[u8; PACKET_MAX]>,
}

impl RingListener {
    /// A listener without a ring. A ring's packets come from [`Peer::RING`]; where there is nothing new it
    /// is looked at again after `poll_ns`.
    pub fn new(subscriber: Subscriber, poll_ns: u64) -> RingListener {
        RingListener {
            subscriber,
            ring: None,
            poll_ns,
            look_at: Nanos::NEVER,
            follow_at: Nanos(0),
            counters: RingCounters::default(),
            packet: Box::new([0; PACKET_MAX]),
        }
    }

    /// Reads this ring from now on.
    pub fn attach(&mut self, ring: PacketRingReader) {
        self.ring = Some(ring);
        self.counters.attached += 1;
        self.look_at = Nanos(0);
    }

    /// The listener.
    pub fn subscriber(&self) -> &Subscriber {
        &self.subscriber
    }

    /// The listener.
    pub fn subscriber_mut(&mut self) -> &mut Subscriber {
        &mut self.subscriber
    }

    /// What came of rings so far.
    pub fn counters(&self) -> RingCounters {
        self.counters
    }

    /// Takes what the ring has, up to a bound.
    fn take(&mut self, now: ClockReading, out: &mut Outbox) {
        let Some(ring) = &mut self.ring else { return };
        for _ in 0..BATCH {
            match ring.read(&mut self.packet) {
                PacketRead::Packet(len) => {
                    self.counters.packets += 1;
                    let packet = self.packet.get(..len).unwrap_or(&[]);
                    self.subscriber.handle_datagram(now, Channel::FEED, Peer::RING, packet, out);
                }
                PacketRead::Lost(count) => {
                    self.counters.lost = self.counters.lost.saturating_add(count);
                }
                PacketRead::Nothing | PacketRead::Closed => {
                    if now.now >= self.follow_at {
                        // What can't be opened now may be in a moment.
                        self.counters.attached += u64::from(ring.follow().unwrap_or(false));
                        self.follow_at = now.now.after(FOLLOW_NS);
                    }
                    self.look_at = now.now.after(self.poll_ns);
                    return;
                }
            }
        }
        self.look_at = now.now;
    }
}

impl Node for RingListener {
    fn handle_datagram(
        &mut self,
        now: ClockReading,
        channel: Channel,
        from: Peer,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        self.subscriber.handle_datagram(now, channel, from, bytes, out);
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        if self.look_at <= now.now {
            self.take(now, out);
        }
        if self.subscriber.next_timeout() <= now.now {
            self.subscriber.handle_timeout(now, out);
        }
    }

    fn next_timeout(&self) -> Nanos {
        self.look_at.min(self.subscriber.next_timeout())
    }

    fn handle_connect(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        self.subscriber.handle_connect(now, conn, out);
    }

    fn handle_stream(&mut self, now: ClockReading, conn: ConnId, bytes: &[u8], out: &mut Outbox) {
        self.subscriber.handle_stream(now, conn, bytes, out);
    }

    fn handle_close(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        self.subscriber.handle_close(now, conn, out);
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use feed::ListenerConfig;
    use types::Op;
    use wire::moldudp::{Request, Session};

    use super::*;

    const SESSION: [u8; 10] = *b"FAIRBELL01";

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = format!("fairbell-feed-ring-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(path);
            let _ = std::fs::remove_dir_all(&path);
            Folder(path)
        }

        fn mode(&self, of: &Path) -> u32 {
            std::fs::metadata(of).expect("there").mode() & 0o7777
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// A packet of one message.
    fn packet(seq: u64) -> Vec<u8> {
        let mut bytes = SESSION.to_vec();
        bytes.extend(seq.to_be_bytes());
        bytes.extend([0, 1, 0, 12]);
        // A system event that means nothing to a book.
        bytes.extend([b'S', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, b'O']);
        bytes
    }

    fn listener() -> RingListener {
        let servers = vec![Peer::Addr(9)];
        let mut settings = ListenerConfig::new(Session(SESSION), servers, Vec::new());
        settings.sources = Some(vec![Peer::RING]);
        RingListener::new(Subscriber::new(&settings, []), 50_000)
    }

    /// Runs the listener's timers up to `until` and a little beyond; the requests that it sent.
    fn run(listener: &mut RingListener, until: u64) -> Vec<(u64, u16)> {
        let mut requests = Vec::new();
        let mut out = Outbox::default();
        let mut at = listener.next_timeout().0;
        while at <= until {
            out.clear();
            listener.handle_timeout(ClockReading { now: Nanos(at), bound_ns: 0 }, &mut out);
            requests.extend(out.ops().iter().filter_map(|op| match op {
                Op::Datagram { to: Peer::Addr(9), bytes, .. } => {
                    let request = Request::parse(out.bytes(*bytes).get(..20)?).ok()?;
                    Some((request.seq, request.count))
                }
                _ => None,
            }));
            at = listener.next_timeout().0.max(at + 1);
        }
        requests
    }

    #[test]
    fn who_reads_too_late_is_told_and_asks_for_what_it_lost() {
        let folder = Folder::new("late");
        let (mut writer, ring) = create(&folder.0, "edge-1", None).expect("a ring");
        let mut listener = listener();
        listener.attach(open(&ring).expect("that one"));
        (1..=100).for_each(|seq| assert!(writer.push(&packet(seq))));
        assert_eq!(run(&mut listener, Nanos::MILLI), [], "control: nothing is lost");
        let counters = listener.counters();
        assert_eq!((counters.packets, counters.lost, counters.attached), (100, 0, 1));
        // It sleeps while the ring goes round: 101 to 9,000 are written, it goes on in the middle.
        (101..=9_000).for_each(|seq| assert!(writer.push(&packet(seq))));
        let requests = run(&mut listener, 3 * Nanos::MILLI);
        let counters = listener.counters();
        assert_eq!(counters.packets + counters.lost, 9_000);
        assert!(counters.lost > 4_000, "{counters:?}");
        assert_eq!(requests.first().map(|(seq, _)| *seq), Some(101), "{requests:?}");
        assert_eq!(listener.subscriber().counters().messages, 100, "in sequence only");
        assert_eq!(listener.subscriber().counters().foreign, 0);
    }

    #[test]
    fn an_edge_that_starts_again_is_followed_and_what_was_read_is_no_news() {
        let folder = Folder::new("again");
        let (mut writer, ring) = create(&folder.0, "edge-1", None).expect("a ring");
        let mut listener = listener();
        listener.attach(open(&ring).expect("that one"));
        (1..=5).for_each(|seq| assert!(writer.push(&packet(seq))));
        run(&mut listener, Nanos::MILLI);
        // Killed: its file stays, and says nothing of its end.
        std::mem::forget(writer);
        let (mut writer, other) = create(&folder.0, "edge-1", None).expect("a ring");
        assert!(open(&ring).is_err_and(|why| why.to_string().contains("not that of the edge")));
        (4..=9).for_each(|seq| assert!(writer.push(&packet(seq))));
        run(&mut listener, 300 * Nanos::MILLI);
        assert_eq!(listener.counters().attached, 2);
        assert_eq!(listener.subscriber().channels()[0].next_seq().0, 10);
        assert_eq!(open(&other).expect("that one").generation(), other.generation);
        // One that ends takes its file along.
        drop(writer);
        assert!(open(&other).is_err());
    }

    #[test]
    fn only_the_owner_writes_and_a_group_reads() {
        let folder = Folder::new("rights");
        let own = rustix::process::getegid().as_raw();
        let (_writer, ring) = create(&folder.0, "edge-7", Some(&own.to_string())).expect("a ring");
        let path = Path::new(&ring.path);
        assert_eq!((folder.mode(&folder.0), folder.mode(path)), (0o750, 0o640));
        assert_eq!(std::fs::metadata(path).expect("there").gid(), own);
        for wrong in ["no-such-group", "root:x", ""] {
            let why = create(&folder.0, "edge-7", Some(wrong)).expect_err(wrong).to_string();
            assert!(why.contains(&format!("group {wrong}: not in /etc/group")), "{why}");
        }
        assert_eq!(group_number("root").ok(), Some(0));
        let rights = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(&folder.0, rights).expect("set");
        let why = create(&folder.0, "edge-7", None).expect_err("anybody may write").to_string();
        assert!(why.contains("others may write there"), "{why}");
        for (folder, fits) in [
            ("/dev/shm/x", true),
            ("shm", false),
            ("/two words", false),
            (&"/x".repeat(99)[..], false),
        ] {
            assert_eq!(unfit(Path::new(folder), "edge-1").is_none(), fits, "{folder}");
        }
    }
}
