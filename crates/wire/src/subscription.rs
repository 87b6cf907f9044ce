//! Subscriptions to an edge's feed: the messages in the unsequenced packets of that SoupBinTCP
//! session.
//!
//! A client asks for the released feed at an address of its own or at a group; it is told where the
//! feed comes from, with which message it begins and who repairs it, or why it isn't sent. The list of
//! edges, least loaded first, comes by itself after the login and whenever it is asked for. Integers
//! are unsigned and big-endian, as in OUCH and ITCH.
//!
//! An address with its port takes 6 bytes for IPv4 and 18 for IPv6. The length of a request says which;
//! an answer has its own letter, and all addresses in it are of the version that was asked for.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Sessions of a feed that an answer has room for.
pub const STREAMS_MAX: usize = 64;
/// Retransmission servers, and snapshot servers, that an answer names at most.
pub const SERVERS_MAX: usize = 16;
/// Edges that a list names at most.
pub const EDGES_MAX: usize = 16;
/// Longest name of an edge's host, bytes.
pub const HOST_MAX: usize = 64;
/// Longest path of a ring, bytes.
pub const RING_PATH_MAX: usize = 200;
/// Bytes of a request to subscribe at an IPv4 address.
pub const SUBSCRIBE_LEN: usize = 8;
/// Bytes of a request to subscribe at an IPv6 address.
pub const SUBSCRIBE_V6_LEN: usize = 20;

/// Unspecified IPv4 address and port 0, for destinations that have no address (the ring).
pub const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
/// As [`NOWHERE`] with the unspecified IPv6 address: the answer then names servers by IPv6
/// addresses.
pub const NOWHERE_V6: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);

const SUBSCRIBE: u8 = b'S';
const EDGES: u8 = b'E';
const SUBSCRIBED: u8 = b'A';
const SUBSCRIBED_V6: u8 = b'B';
const REFUSED: u8 = b'J';

/// Why bytes are no message of this protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageError {
    /// No message begins with this byte, or there is none.
    Kind(Option<u8>),
    /// The wrong number of bytes for the kind.
    Length(u8),
    /// A code or a text that the field can't hold.
    Field(u8),
}

impl std::fmt::Display for MessageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MessageError::Kind(None) => f.write_str("an empty subscription message"),
            MessageError::Kind(Some(kind)) => write!(f, "unknown subscription message {kind:#04x}"),
            MessageError::Length(kind) => {
                write!(f, "subscription message '{}' of another length", kind.escape_ascii())
            }
            MessageError::Field(kind) => {
                write!(f, "subscription message '{}' with a wrong field", kind.escape_ascii())
            }
        }
    }
}

impl std::error::Error for MessageError {}

/// How the feed gets to a subscriber.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Way {
    /// To the address that the connection comes from.
    Unicast = b'U',
    /// To an IP multicast group on the edge's segment.
    Group = b'G',
    /// Into the ring in shared memory that processes on the edge's machine read; without an address.
    Ring = b'R',
}

/// A request of a client to an edge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// `S`: send the feed to the address `to` from now on.
    Subscribe {
        /// Whether the feed goes to one address, to a multicast group, or into the ring.
        way: Way,
        /// Address to send to; [`NOWHERE`] or [`NOWHERE_V6`] for the ring. The answer names servers
        /// of its IP version.
        to: SocketAddr,
    },
    /// `E`: ask which edges take participants, and how loaded they are.
    Edges,
}

impl Request {
    /// Reads a message of a client.
    ///
    /// # Errors
    /// The bytes are not a message of this side.
    pub fn parse(bytes: &[u8]) -> Result<Request, MessageError> {
        match bytes {
            [EDGES] => Ok(Request::Edges),
            [SUBSCRIBE, way, place @ ..] => {
                let version = match 2 + place.len() {
                    SUBSCRIBE_LEN => Version::V4,
                    SUBSCRIBE_V6_LEN => Version::V6,
                    _ => return Err(MessageError::Length(SUBSCRIBE)),
                };
                let way = match way {
                    b'U' => Way::Unicast,
                    b'G' => Way::Group,
                    b'R' if place.iter().all(|byte| *byte == 0) => Way::Ring,
                    _ => return Err(MessageError::Field(SUBSCRIBE)),
                };
                let to = Rest(place).place(version).ok_or(MessageError::Field(SUBSCRIBE))?;
                Ok(Request::Subscribe { way, to })
            }
            [kind @ (EDGES | SUBSCRIBE), ..] => Err(MessageError::Length(*kind)),
            other => Err(MessageError::Kind(other.first().copied())),
        }
    }

    /// Appends the message. An IPv4 address mapped into IPv6 goes as what it is.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Request::Edges => out.push(EDGES),
            Request::Subscribe { way, to } => {
                out.extend_from_slice(&[SUBSCRIBE, *way as u8]);
                put_place(*to, out);
            }
        }
    }
}

/// Why an edge refuses a subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Refusal {
    /// `A`: the address is not the one that the connection comes from, or is link-local (IPv6), or the
    /// port is 0.
    NotYours = b'A',
    /// `G`: the edge's configuration does not permit this group.
    Group = b'G',
    /// `F`: the edge sends to as many places as it may.
    Full = b'F',
    /// `D`: this connection has subscribed already.
    Twice = b'D',
    /// `R`: the edge has no ring.
    Ring = b'R',
}

impl Refusal {
    /// The reason as a phrase for people.
    pub fn text(self) -> &'static str {
        match self {
            Refusal::NotYours => {
                "not the address that the connection comes from, or a link-local one, or port 0"
            }
            Refusal::Group => "a multicast group that this edge does not permit",
            Refusal::Full => "the edge has as many subscribers as it may",
            Refusal::Twice => "this connection has subscribed already",
            Refusal::Ring => "the edge has no ring in shared memory",
        }
    }
}

/// The ring in shared memory that an edge writes the feed into.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ring {
    /// Number of this ring among those that were made at `path`; it differs for every process of
    /// the edge.
    pub generation: u64,
    /// File of the ring on the edge's machine: ASCII without blanks, 1 to [`RING_PATH_MAX`] bytes.
    pub path: String,
}

/// Answer to a subscription that was taken: what a client needs to follow the feed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subscribed {
    /// Whether the feed goes to one address, to a multicast group, or into the ring.
    pub way: Way,
    /// Address that the feed is sent to; [`NOWHERE`] or [`NOWHERE_V6`] for the ring.
    pub to: SocketAddr,
    /// Address that the feed is sent from; datagrams from other addresses are not the feed.
    /// Unspecified (0.0.0.0 or `::`): the address that the client is connected to.
    pub from: SocketAddr,
    /// Midnight that ITCH times count from, ns since 1970.
    pub midnight_ns: u64,
    /// For each stream its MoldUDP64 session and the sequence number of the first message that will
    /// be sent.
    pub streams: Vec<([u8; 10], u64)>,
    /// Retransmission servers (MoldUDP64 requests over UDP).
    pub repair: Vec<SocketAddr>,
    /// Snapshot servers (GLIMPSE over TCP), the nearest first.
    pub snapshots: Vec<SocketAddr>,
    /// The ring, when `way` is [`Way::Ring`].
    pub ring: Option<Ring>,
}

/// An edge that takes participants, and its load.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EdgeLoad {
    /// DNS name or address, ASCII, 1 to [`HOST_MAX`] bytes.
    pub host: String,
    /// TCP ports of the edge's OUCH, FIX and subscription doors, in this order.
    pub ports: [u16; 3],
    /// Number of participants' sessions at the edge.
    pub sessions: u32,
    /// Requests of all those sessions together, per second.
    pub requests_per_s: u32,
}

/// An edge's answer to a [`Request`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// `A`, and `B` where the feed goes to an IPv6 address.
    Subscribed(Subscribed),
    /// `J`: the subscription is refused; the connection stays open.
    Refused(Refusal),
    /// `E`: age of the list in ms, and the edges, least loaded first; an empty list: nothing recent
    /// is known.
    Edges(u16, Vec<EdgeLoad>),
}

impl Answer {
    /// Reads a message of an edge.
    ///
    /// # Errors
    /// The bytes are not a message of this side.
    pub fn parse(bytes: &[u8]) -> Result<Answer, MessageError> {
        let (&kind, body) = bytes.split_first().ok_or(MessageError::Kind(None))?;
        let mut rest = Rest(body);
        let answer = match kind {
            SUBSCRIBED => subscribed(&mut rest, Version::V4)?.map(Answer::Subscribed),
            SUBSCRIBED_V6 => subscribed(&mut rest, Version::V6)?.map(Answer::Subscribed),
            REFUSED => match rest.byte() {
                Some(b'A') => Some(Answer::Refused(Refusal::NotYours)),
                Some(b'G') => Some(Answer::Refused(Refusal::Group)),
                Some(b'F') => Some(Answer::Refused(Refusal::Full)),
                Some(b'D') => Some(Answer::Refused(Refusal::Twice)),
                Some(b'R') => Some(Answer::Refused(Refusal::Ring)),
                Some(_) => return Err(MessageError::Field(kind)),
                None => None,
            },
            EDGES => edges(&mut rest)?,
            _ => return Err(MessageError::Kind(Some(kind))),
        };
        answer.filter(|_| rest.0.is_empty()).ok_or(MessageError::Length(kind))
    }

    /// Appends the message; of lists that are too long their first entries, of edges those whose name
    /// fits, of servers those with addresses of the version that the feed goes to. Where it is sent from
    /// must be of that version; an address of another is told as none.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Answer::Refused(why) => out.extend_from_slice(&[REFUSED, *why as u8]),
            Answer::Subscribed(answer) => {
                let version = Version::of(answer.to);
                let kind = match version {
                    Version::V4 => SUBSCRIBED,
                    Version::V6 => SUBSCRIBED_V6,
                };
                out.extend_from_slice(&[kind, answer.way as u8]);
                put_place(answer.to, out);
                put_place(version.or_unspecified(answer.from), out);
                out.extend_from_slice(&answer.midnight_ns.to_be_bytes());
                let streams = answer.streams.iter().take(STREAMS_MAX);
                let of = |at: &&SocketAddr| Version::of(**at) == version;
                let repair = || answer.repair.iter().filter(of).take(SERVERS_MAX);
                let snapshots = || answer.snapshots.iter().filter(of).take(SERVERS_MAX);
                let servers = [repair().count(), snapshots().count()].map(|count| count as u8);
                out.push(streams.len() as u8);
                out.extend(servers);
                for (session, next) in streams {
                    out.extend_from_slice(session);
                    out.extend_from_slice(&next.to_be_bytes());
                }
                repair().chain(snapshots()).for_each(|place| put_place(*place, out));
                // No other way has one: without a path nobody takes the answer to this one for whole.
                if answer.way == Way::Ring {
                    let (generation, path) =
                        answer.ring.as_ref().map_or((0, ""), |of| (of.generation, &of.path));
                    out.extend_from_slice(&generation.to_be_bytes());
                    out.push(path.len().min(RING_PATH_MAX) as u8);
                    out.extend(path.bytes().take(RING_PATH_MAX));
                }
            }
            Answer::Edges(age_ms, edges) => {
                let named = |edge: &&EdgeLoad| is_text(edge.host.as_bytes(), HOST_MAX);
                let edges = || edges.iter().filter(named).take(EDGES_MAX);
                out.extend_from_slice(&[EDGES, edges().count() as u8]);
                out.extend_from_slice(&age_ms.to_be_bytes());
                for edge in edges() {
                    edge.ports.iter().for_each(|port| out.extend_from_slice(&port.to_be_bytes()));
                    out.extend_from_slice(&edge.sessions.to_be_bytes());
                    out.extend_from_slice(&edge.requests_per_s.to_be_bytes());
                    out.push(edge.host.len() as u8);
                    out.extend_from_slice(edge.host.as_bytes());
                }
            }
        }
    }
}

/// Reads an answer to a subscription; `Ok(None)` when bytes are missing.
fn subscribed(rest: &mut Rest<'_>, version: Version) -> Result<Option<Subscribed>, MessageError> {
    let Some(mut answer) = placed(rest, version) else { return Ok(None) };
    if answer.way == Way::Ring {
        let (Some(generation), Some(len)) = (rest.array(), rest.byte()) else { return Ok(None) };
        let Some(path) = rest.take(len.into()) else { return Ok(None) };
        if !is_text(path, RING_PATH_MAX) {
            return Err(MessageError::Field(SUBSCRIBED));
        }
        let path = String::from_utf8_lossy(path).into_owned();
        answer.ring = Some(Ring { generation: u64::from_be_bytes(generation), path });
    }
    Ok(Some(answer))
}

/// Reads the part of an answer that subscriptions of every [`Way`] have; `None` when it does not
/// fit.
fn placed(rest: &mut Rest<'_>, version: Version) -> Option<Subscribed> {
    let way = match rest.byte()? {
        b'U' => Way::Unicast,
        b'G' => Way::Group,
        b'R' => Way::Ring,
        _ => return None,
    };
    let (to, from) = (rest.place(version)?, rest.place(version)?);
    let midnight_ns = u64::from_be_bytes(rest.array()?);
    let [streams, repair, snapshots] = rest.array()?;
    let fits = |count: u8, most| usize::from(count) <= most;
    if !fits(streams, STREAMS_MAX) || !fits(repair, SERVERS_MAX) || !fits(snapshots, SERVERS_MAX) {
        return None;
    }
    let stream = |_| Some((rest.array()?, u64::from_be_bytes(rest.array()?)));
    let streams = (0..streams).map(stream).collect::<Option<_>>()?;
    let mut places = |count| (0..count).map(|_| rest.place(version)).collect::<Option<_>>();
    let (repair, snapshots) = (places(repair)?, places(snapshots)?);
    Some(Subscribed { way, to, from, midnight_ns, streams, repair, snapshots, ring: None })
}

fn edges(rest: &mut Rest<'_>) -> Result<Option<Answer>, MessageError> {
    let (Some(count), Some(age_ms)) = (rest.byte(), rest.array()) else { return Ok(None) };
    let mut list = Vec::new();
    for _ in 0..count {
        let (Some(ports), Some(sessions), Some(requests), Some(len)) =
            (rest.array::<6>(), rest.array(), rest.array(), rest.byte())
        else {
            return Ok(None);
        };
        let Some(host) = rest.take(len.into()) else { return Ok(None) };
        if list.len() >= EDGES_MAX || !is_text(host, HOST_MAX) {
            return Err(MessageError::Field(EDGES));
        }
        let port = |at: usize| u16::from_be_bytes([ports[at], ports[at + 1]]);
        list.push(EdgeLoad {
            host: String::from_utf8_lossy(host).into_owned(),
            ports: [port(0), port(2), port(4)],
            sessions: u32::from_be_bytes(sessions),
            requests_per_s: u32::from_be_bytes(requests),
        });
    }
    Ok(Some(Answer::Edges(u16::from_be_bytes(age_ms), list)))
}

fn is_text(text: &[u8], max: usize) -> bool {
    (1..=max).contains(&text.len()) && text.iter().all(u8::is_ascii_graphic)
}

/// Version of IP that the addresses of a message have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    V4,
    V6,
}

impl Version {
    /// Version of an address; an IPv4 address mapped into IPv6 counts as IPv4.
    fn of(place: SocketAddr) -> Version {
        if place.ip().to_canonical().is_ipv4() { Version::V4 } else { Version::V6 }
    }

    /// The address if it has this version, else the unspecified address with its port.
    fn or_unspecified(self, place: SocketAddr) -> SocketAddr {
        let none = match self {
            Version::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            Version::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        if Version::of(place) == self { place } else { SocketAddr::new(none, place.port()) }
    }
}

fn put_place(place: SocketAddr, out: &mut Vec<u8>) {
    match place.ip().to_canonical() {
        IpAddr::V4(ip) => out.extend_from_slice(&ip.octets()),
        IpAddr::V6(ip) => out.extend_from_slice(&ip.octets()),
    }
    out.extend_from_slice(&place.port().to_be_bytes());
}

/// Bytes of a message that have not been read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N).and_then(|bytes| bytes.first_chunk().copied())
    }

    /// Reads an address and a port; `None` for an IPv4 address mapped into IPv6.
    fn place(&mut self, version: Version) -> Option<SocketAddr> {
        let ip: IpAddr = match version {
            Version::V4 => self.array::<4>()?.into(),
            Version::V6 => self.array::<16>()?.into(),
        };
        let place = SocketAddr::new(ip, u16::from_be_bytes(self.array()?));
        (Version::of(place) == version).then_some(place)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn place(n: u32) -> SocketAddr {
        SocketAddr::new(Ipv4Addr::from_bits(0x0A00_0000 | n).into(), 7_000 + n as u16)
    }

    fn place6(n: u16) -> SocketAddr {
        SocketAddr::new(Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, n).into(), 7_000 + n)
    }

    fn bytes_of(answer: &Answer) -> Vec<u8> {
        let mut bytes = Vec::new();
        answer.encode(&mut bytes);
        bytes
    }

    fn in_ring() -> Subscribed {
        Subscribed {
            way: Way::Ring,
            to: NOWHERE,
            from: place(9),
            midnight_ns: 1 << 40,
            streams: vec![(*b"FAIRBELL01", 17)],
            repair: vec![place(1)],
            snapshots: Vec::new(),
            ring: Some(Ring { generation: 0x0102, path: "/dev/shm/edge/feed.ring".to_string() }),
        }
    }

    fn answers() -> [Answer; 5] {
        let edge = |n: u32| EdgeLoad {
            host: format!("edge-{n}"),
            ports: [7_010, 7_011, 7_014],
            sessions: n,
            requests_per_s: 256,
        };
        [
            Answer::Refused(Refusal::Full),
            Answer::Subscribed(Subscribed {
                way: Way::Group,
                to: SocketAddr::new(Ipv4Addr::new(239, 1, 1, 3).into(), 7_100),
                from: place(9),
                midnight_ns: 1 << 40,
                streams: vec![(*b"FAIRBELL01", 17)],
                repair: vec![place(1), place(2)],
                snapshots: vec![place(9)],
                ring: None,
            }),
            Answer::Edges(900, vec![edge(2), edge(1)]),
            Answer::Subscribed(in_ring()),
            Answer::Subscribed(Subscribed {
                way: Way::Unicast,
                to: place6(5),
                from: SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 7_009),
                midnight_ns: 1 << 40,
                streams: vec![(*b"FAIRBELL01", 17)],
                repair: vec![place6(1)],
                snapshots: vec![place6(9)],
                ring: None,
            }),
        ]
    }

    #[test]
    fn golden_bytes() {
        let mut bytes = Vec::new();
        Request::Subscribe { way: Way::Unicast, to: place(5) }.encode(&mut bytes);
        assert_eq!(bytes, b"SU\x0a\0\0\x05\x1b\x5d");
        assert_eq!(bytes.len(), SUBSCRIBE_LEN);
        let [refused, subscribed, edges, ring, v6] = answers();
        assert_eq!(bytes_of(&refused), b"JF");
        assert_eq!(Answer::parse(&bytes_of(&v6)), Ok(v6));
        assert_eq!(
            bytes_of(&subscribed),
            b"AG\xef\x01\x01\x03\x1b\xbc\x0a\0\0\x09\x1b\x61\0\0\x01\0\0\0\0\0\x01\x02\x01FAIRBELL01\
              \0\0\0\0\0\0\0\x11\x0a\0\0\x01\x1b\x59\x0a\0\0\x02\x1b\x5a\x0a\0\0\x09\x1b\x61"
        );
        assert_eq!(
            bytes_of(&edges),
            b"E\x02\x03\x84\x1b\x62\x1b\x63\x1b\x66\0\0\0\x02\0\0\x01\0\x06edge-2\x1b\x62\x1b\x63\x1b\
              \x66\0\0\0\x01\0\0\x01\0\x06edge-1"
        );
        bytes.clear();
        Request::Subscribe { way: Way::Ring, to: NOWHERE }.encode(&mut bytes);
        assert_eq!(bytes, b"SR\0\0\0\0\0\0");
        assert_eq!(
            bytes_of(&ring),
            b"AR\0\0\0\0\0\0\x0a\0\0\x09\x1b\x61\0\0\x01\0\0\0\0\0\x01\x01\0FAIRBELL01\0\0\0\0\0\0\
              \0\x11\x0a\0\0\x01\x1b\x59\0\0\0\0\0\0\x01\x02\x17/dev/shm/edge/feed.ring"
        );
    }

    const FD00: &[u8; 14] = b"\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0";

    #[test]
    fn golden_bytes_of_ipv6() {
        let mut bytes = Vec::new();
        Request::Subscribe { way: Way::Unicast, to: place6(5) }.encode(&mut bytes);
        assert_eq!(bytes, [b"SU", &FD00[..], b"\0\x05\x1b\x5d"].concat());
        assert_eq!(bytes.len(), SUBSCRIBE_V6_LEN);
        let [.., subscribed] = answers();
        let parts = [
            &b"BU"[..],
            FD00,
            b"\0\x05\x1b\x5d",
            &[0; 16],
            b"\x1b\x61\0\0\x01\0\0\0\0\0\x01\x01\x01FAIRBELL01\0\0\0\0\0\0\0\x11",
            FD00,
            b"\0\x01\x1b\x59",
            FD00,
            b"\0\x09\x1b\x61",
        ];
        assert_eq!(bytes_of(&subscribed), parts.concat());
    }

    #[test]
    fn an_address_has_one_form_and_an_answer_one_version() {
        let mapped = SocketAddr::new(Ipv4Addr::new(10, 0, 0, 5).to_ipv6_mapped().into(), 7_005);
        let mut bytes = Vec::new();
        Request::Subscribe { way: Way::Unicast, to: mapped }.encode(&mut bytes);
        assert_eq!(bytes, b"SU\x0a\0\0\x05\x1b\x5d");
        // Control: the long form of the same is refused, and so is any other length.
        let long = [b"SU".as_slice(), &[0; 10], b"\xff\xff\x0a\0\0\x05\x1b\x5d"].concat();
        assert_eq!(Request::parse(&long), Err(MessageError::Field(b'S')));
        assert_eq!(Request::parse(&long[..19]), Err(MessageError::Length(b'S')));
        // What has another version is left out, and the source is told as none.
        let [.., Answer::Subscribed(v6)] = answers() else { unreachable!("as made above") };
        let (own, foreign) = (v6.repair[0], place(9));
        let mixed = Subscribed {
            from: foreign,
            repair: vec![foreign, own],
            snapshots: vec![foreign],
            ..v6.clone()
        };
        let read = Answer::parse(&bytes_of(&Answer::Subscribed(mixed)));
        assert_eq!(read, Ok(Answer::Subscribed(Subscribed { snapshots: Vec::new(), ..v6 })));
    }

    #[test]
    fn what_is_no_message_is_told_apart() {
        let request = Request::parse;
        assert_eq!(request(b""), Err(MessageError::Kind(None)));
        assert_eq!(request(b"X"), Err(MessageError::Kind(Some(b'X'))));
        assert_eq!(request(b"SU\0\0"), Err(MessageError::Length(b'S')));
        assert_eq!(request(b"S"), Err(MessageError::Length(b'S')));
        assert_eq!(request(b"SR\x0a\0\0\x01\0\0"), Err(MessageError::Field(b'S')), "nowhere else");
        assert_eq!(request(b"SX\0\0\0\0\0\0"), Err(MessageError::Field(b'S')));
        assert_eq!(request(b"EE"), Err(MessageError::Length(b'E')));
        let answer = Answer::parse;
        assert_eq!(answer(b"J"), Err(MessageError::Length(b'J')));
        assert_eq!(answer(b"JZ"), Err(MessageError::Field(b'J')));
        assert_eq!(answer(b"JFF"), Err(MessageError::Length(b'J')));
        assert_eq!(answer(b"E\x01\0\0"), Err(MessageError::Length(b'E')));
    }

    #[test]
    fn lists_have_a_bound() {
        let [_, Answer::Subscribed(long), Answer::Edges(_, edges), ..] = answers() else {
            unreachable!("as made above");
        };
        let many = Subscribed {
            streams: long.streams.repeat(90),
            repair: long.repair.repeat(90),
            snapshots: long.snapshots.repeat(90),
            ..long
        };
        let Ok(Answer::Subscribed(read)) = Answer::parse(&bytes_of(&Answer::Subscribed(many)))
        else {
            panic!("not read");
        };
        let lens = [read.streams.len(), read.repair.len(), read.snapshots.len()];
        assert_eq!(lens, [STREAMS_MAX, SERVERS_MAX, SERVERS_MAX]);
        let mut edges: Vec<EdgeLoad> = edges.iter().cycle().take(40).cloned().collect();
        edges[0].host = "x".repeat(HOST_MAX + 1);
        edges[1].host = "two words".to_string();
        let Ok(Answer::Edges(_, read)) = Answer::parse(&bytes_of(&Answer::Edges(0, edges))) else {
            panic!("not read");
        };
        assert!(read.len() == EDGES_MAX && read[0].host == "edge-2");
    }

    #[test]
    fn a_ring_has_a_path_that_can_be_told() {
        let with = |path: &str| {
            let ring = Some(Ring { generation: 1, path: path.to_string() });
            Answer::parse(&bytes_of(&Answer::Subscribed(Subscribed { ring, ..in_ring() })))
        };
        for path in ["", "/two words", "/tab\t"] {
            assert_eq!(with(path), Err(MessageError::Field(b'A')), "{path:?}");
        }
        assert!(with(&"x".repeat(RING_PATH_MAX)).is_ok());
        let none = Answer::Subscribed(Subscribed { ring: None, ..in_ring() });
        assert_eq!(Answer::parse(&bytes_of(&none)), Err(MessageError::Field(b'A')));
        let short = bytes_of(&Answer::Subscribed(in_ring()));
        assert_eq!(Answer::parse(&short[..short.len() - 1]), Err(MessageError::Length(b'A')));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_changed_bytes_never_panic(
            which in 0usize..5, changes in vec((0usize..120, any::<u8>()), 0..4), cut in 0usize..120,
            noise in vec(any::<u8>(), 0..40),
        ) {
            let answer = answers().into_iter().nth(which).expect("one of five");
            let mut bytes = bytes_of(&answer);
            prop_assert_eq!(Answer::parse(&bytes), Ok(answer));
            for (at, byte) in changes {
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
            bytes.truncate(cut);
            if let Ok(read) = Answer::parse(&bytes) {
                prop_assert_eq!(bytes_of(&read), bytes);
            }
            if let Ok(read) = Request::parse(&noise) {
                let mut again = Vec::new();
                read.encode(&mut again);
                prop_assert_eq!(again, noise);
            }
        }
    }
}
