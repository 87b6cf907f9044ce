//! A participant's end of a subscription: the session at an edge's door, for a thread that waits.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use net::{ClientTls, Clock};
use rustix::net::sockopt::{set_ip_add_membership, set_ipv6_add_membership, set_socket_reuseaddr};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use types::Nanos;
use wire::soupbin::{ClientEvent, ClientSession, RejectCode, ServerPacket};
use wire::subscription::{Answer, EdgeLoad, Request, Subscribed, Way};

use crate::failure::Failure;
use crate::sockets::{ANYWHERE, connect_from, interface_of, udp};

/// How long an edge may take to be reached, and to answer: a hashed password waits for its turn.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a call waits for news.
const TURN: Duration = Duration::from_millis(50);

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A session that is logged on.
pub struct Session {
    at: SocketAddr,
    local: IpAddr,
    stream: Box<dyn Stream>,
    soup: ClientSession,
    clock: Clock,
    /// What came and was not taken yet.
    answers: Vec<Answer>,
    edges: (u16, Vec<EdgeLoad>),
}

impl Session {
    /// Logs on at a door.
    ///
    /// # Errors
    /// The door is not reached, or refuses; why.
    pub fn open(
        at: SocketAddr,
        (user, password): (&str, &str),
        tls: Option<&ClientTls>,
    ) -> Result<Session, Failure> {
        let failed = |error: std::io::Error| Failure::Run(format!("{at}: {error}"));
        let soup = ClientSession::new(user, password);
        let soup = soup.map_err(|error| Failure::Usage(format!("--login: {error}")))?;
        let stream = Arc::new(connect_from(ANYWHERE, at, PATIENCE).map_err(failed)?);
        stream.set_nodelay(true).map_err(failed)?;
        let local = stream.local_addr().map_err(failed)?.ip().to_canonical();
        let until = Instant::now() + PATIENCE;
        let sealed = tls.map(|tls| tls.connect(Arc::clone(&stream), until)).transpose();
        let sealed = sealed.map_err(failed)?;
        stream.set_read_timeout(Some(TURN)).map_err(failed)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
        let stream: Box<dyn Stream> = match sealed {
            Some(sealed) => Box::new(sealed),
            None => Box::new(Arc::into_inner(stream).ok_or_else(lost)?),
        };
        let clock = Clock::start(0);
        let (answers, edges) = (Vec::new(), (u16::MAX, Vec::new()));
        let mut session = Session { at, local, stream, soup, clock, answers, edges };
        let mut login = Vec::new();
        let _ = session.soup.connect(session.now(), &mut login);
        session.write(&login)?;
        session.take(|answer| matches!(answer, Answer::Edges(..)))?;
        Ok(session)
    }

    /// The door.
    pub fn at(&self) -> SocketAddr {
        self.at
    }

    /// The address of this machine that the door sees.
    pub fn local(&self) -> IpAddr {
        self.local
    }

    /// The edges as the door named them last: how old that is, ms, and those that take participants,
    /// least loaded first.
    pub fn edges(&self) -> (u16, &[EdgeLoad]) {
        (self.edges.0, &self.edges.1)
    }

    /// Has the feed sent there.
    ///
    /// # Errors
    /// The door refuses, or the session ends.
    pub fn subscribe(&mut self, way: Way, to: SocketAddr) -> Result<Subscribed, Failure> {
        self.ask(Request::Subscribe { way, to })?;
        match self.take(|answer| !matches!(answer, Answer::Edges(..)))? {
            Answer::Subscribed(mut subscribed) => {
                if subscribed.from.ip().is_unspecified() {
                    subscribed.from.set_ip(self.at.ip());
                }
                Ok(subscribed)
            }
            Answer::Refused(why) => {
                Err(Failure::Run(format!("{}: {to} is refused: {}", self.at, why.text())))
            }
            Answer::Edges(..) => Err(lost()),
        }
    }

    /// Asks for the edges again.
    ///
    /// # Errors
    /// The session ends.
    pub fn ask_edges(&mut self) -> Result<(), Failure> {
        self.ask(Request::Edges)?;
        self.take(|answer| matches!(answer, Answer::Edges(..))).map(drop)
    }

    /// Hears what the door says for up to 50 ms; sends heartbeats.
    ///
    /// # Errors
    /// The session has ended; why.
    pub fn turn(&mut self) -> Result<(), Failure> {
        let mut buffer = [0; 4_096];
        let taken = match self.stream.read(&mut buffer) {
            Ok(0) => return Err(Failure::Run(format!("{}: ended the session", self.at))),
            Ok(len) => buffer.get(..len).unwrap_or(&[]),
            Err(error) if is_patience(&error) => &[],
            Err(error) => return Err(Failure::Run(format!("{}: {error}", self.at))),
        };
        let now = self.now();
        let (answers, mut over) = (&mut self.answers, None);
        // What people are told comes before the end of a session.
        let debug = said(taken);
        self.soup.handle_bytes(now, taken, |event| match event {
            ClientEvent::Unsequenced(message) => match Answer::parse(message) {
                Ok(answer) => answers.push(answer),
                Err(error) => over = Some(error.to_string()),
            },
            ClientEvent::Rejected(RejectCode::NotAuthorized) => {
                over = Some("the login is refused".to_string());
            }
            ClientEvent::Rejected(_) => over = Some("the session is not to be had".to_string()),
            ClientEvent::Violation(violation) => over = Some(violation.to_string()),
            ClientEvent::EndOfSession | ClientEvent::Dead => over = Some("it is over".to_string()),
            ClientEvent::Accepted { .. } | ClientEvent::Sequenced { .. } => {}
        });
        let mut bytes = Vec::new();
        if let Some(ClientEvent::Dead) = self.soup.handle_timeout(now, &mut bytes) {
            over = Some("the edge is silent".to_string());
        }
        if over.is_none() && self.answers.is_empty() && self.soup.is_offline() {
            over = Some("it is over".to_string());
        }
        match (over, debug) {
            (Some(why), Some(debug)) => Err(Failure::Run(format!("{}: {why}: {debug}", self.at))),
            (Some(why), None) => Err(Failure::Run(format!("{}: {why}", self.at))),
            // Nothing else is told to people at this door.
            (None, Some(debug)) => Err(Failure::Run(format!("{}: {debug}", self.at))),
            (None, None) if bytes.is_empty() => Ok(()),
            (None, None) => self.write(&bytes),
        }
    }

    /// Says goodbye: what it subscribed to ends.
    pub fn leave(mut self) {
        let mut bytes = Vec::new();
        if self.soup.logout(&mut bytes).is_ok() {
            // The connection ends anyway.
            let _ = self.write(&bytes);
        }
    }

    fn now(&self) -> Nanos {
        self.clock.now()
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let written = self.stream.write_all(bytes).and_then(|()| self.stream.flush());
        written.map_err(|error| Failure::Run(format!("{}: {error}", self.at)))
    }

    fn ask(&mut self, request: Request) -> Result<(), Failure> {
        let (mut message, mut bytes) = (Vec::new(), Vec::new());
        request.encode(&mut message);
        let now = self.now();
        let sent = self.soup.send_unsequenced(now, &message, &mut bytes);
        sent.map_err(|error| Failure::Run(format!("{}: {error}", self.at)))?;
        self.write(&bytes)
    }

    /// Waits for an answer; lists of edges are kept on the way.
    fn take(&mut self, wanted: impl Fn(&Answer) -> bool) -> Result<Answer, Failure> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            for answer in std::mem::take(&mut self.answers) {
                if let Answer::Edges(age_ms, list) = &answer {
                    self.edges = (*age_ms, list.clone());
                }
                if wanted(&answer) {
                    return Ok(answer);
                }
            }
            self.turn()?;
        }
        Err(Failure::Run(format!("{}: no answer within {} s", self.at, PATIENCE.as_secs())))
    }
}

fn lost() -> Failure {
    Failure::Run("the connection is lost".to_string())
}

fn is_patience(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// The text for people in what came, if it came in one piece.
fn said(bytes: &[u8]) -> Option<String> {
    let (mut rest, mut text) = (bytes, None);
    while let Some((len, body)) = rest.split_first_chunk::<2>() {
        let (packet, after) = body.split_at_checked(u16::from_be_bytes(*len).into())?;
        if let Ok(ServerPacket::Debug(said)) = ServerPacket::parse(packet) {
            text = Some(String::from_utf8_lossy(said).into_owned());
        }
        rest = after;
    }
    text
}

/// A socket that hears the feed: unicast at `on`, or a group on the segment of `local`, which other
/// processes of the machine may hear, too.
///
/// # Errors
/// The system's.
pub fn hear(
    on: SocketAddr,
    group: Option<SocketAddr>,
    local: IpAddr,
) -> std::io::Result<UdpSocket> {
    let Some(group) = group else { return udp(on) };
    let family = if group.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &group)?;
    match (group.ip(), local) {
        (IpAddr::V4(group), IpAddr::V4(local)) => set_ip_add_membership(&socket, &group, &local)?,
        (IpAddr::V6(group), IpAddr::V6(local)) => {
            set_ipv6_add_membership(&socket, &group, interface_of(local)?)?;
        }
        // The address of another version says nothing of the segment: the system's first one.
        (IpAddr::V4(group), IpAddr::V6(_)) => {
            set_ip_add_membership(&socket, &group, &Ipv4Addr::UNSPECIFIED)?;
        }
        (IpAddr::V6(group), IpAddr::V4(_)) => set_ipv6_add_membership(&socket, &group, 0)?,
    }
    Ok(UdpSocket::from(socket))
}
