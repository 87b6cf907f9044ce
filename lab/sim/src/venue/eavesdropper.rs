//! Somebody who wants to hear before everybody else: asks all retransmission servers again and again
//! for what comes next and the snapshot server for its books, and listens over FIX to market data and
//! to a firm's copies.
//!
//! It judges nothing; what is sent to it is looked at on its way ([`super::early`]).

use fix::encode::{Pen, Writer};
use fix::{Version, tag};
use types::{Channel, ClockReading, ConnId, Nanos, Node, Outbox, Peer};
use wire::moldudp::{Packet, Request, Session, TOKEN_LEN};
use wire::soupbin::{ClientPacket, LoginRequest};

/// Between two rounds of requests, ns.
const ASK_NS: u64 = 500 * Nanos::MICRO;
/// From the end of a connection to the next try, ns.
const RETRY_NS: u64 = 20 * Nanos::MILLI;
/// Between two requests for a snapshot, ns.
const SNAPSHOT_NS: u64 = 3 * Nanos::MILLI;
/// Messages asked for at once: no more than what is worth an early look.
const COUNT: u16 = 64;
/// Silence in a FIX session that is made up for, ns.
const HEARTBEAT_NS: u64 = 10 * Nanos::SECOND;

/// A FIX session that only listens.
pub(super) struct Login {
    pub(super) comp_id: String,
    pub(super) username: String,
    pub(super) password: String,
    /// It asks for all market data of these.
    pub(super) symbols: Vec<String>,
}

struct FixSide {
    login: Login,
    /// The connection, and whether it is open.
    conn: Option<(ConnId, bool)>,
    /// Whether it has been answered, and asked for what it wants.
    asked: bool,
    next_out: u64,
    at: Nanos,
}

/// The node that asks: sockets of its own, and what it has not heard yet.
pub(super) struct Eavesdropper {
    servers: Vec<Peer>,
    /// The sessions of the feed, and by session the next message that it does not know.
    sessions: Vec<([u8; 10], u64)>,
    /// Gateways that FIX sessions are opened at.
    gateway: Peer,
    target: String,
    sides: Vec<FixSide>,
    /// Who serves snapshots, the connection to it, and when the next one is asked for.
    snapshots: Option<Peer>,
    snapshot: Option<ConnId>,
    snapshot_at: Nanos,
    conns: u32,
    ask_at: Nanos,
}

impl Eavesdropper {
    pub(super) fn new(
        (servers, snapshots): (Vec<Peer>, Option<Peer>),
        sessions: Vec<[u8; 10]>,
        (gateway, target): (Peer, &str),
        logins: Vec<Login>,
    ) -> Eavesdropper {
        let side = |login| FixSide { login, conn: None, asked: false, next_out: 1, at: Nanos(0) };
        Eavesdropper {
            servers,
            sessions: sessions.into_iter().map(|session| (session, 1)).collect(),
            gateway,
            target: target.to_string(),
            sides: logins.into_iter().map(side).collect(),
            snapshots,
            snapshot: None,
            snapshot_at: if snapshots.is_some() { Nanos(0) } else { Nanos::NEVER },
            conns: 0,
            ask_at: Nanos(0),
        }
    }

    fn ask(&mut self, out: &mut Outbox) {
        for (session, next) in &self.sessions {
            let request = Request { session: Session(*session), seq: *next, count: COUNT };
            // Room for a token that it does not have: as much as a stranger gets at once.
            let span = out.write(|buffer| {
                request.encode(buffer);
                buffer.extend_from_slice(&[0; TOKEN_LEN]);
            });
            for server in &self.servers {
                out.datagram(Channel::FEED, *server, span);
            }
        }
    }

    fn side_of(&mut self, conn: ConnId) -> Option<usize> {
        self.sides.iter().position(|side| side.conn.is_some_and(|(known, _)| known == conn))
    }

    fn write(
        &mut self,
        now: Nanos,
        place: usize,
        msg_type: &[u8],
        out: &mut Outbox,
        body: impl FnOnce(&mut Writer<'_>, &Login),
    ) {
        let target = self.target.clone();
        let Some(side) = self.sides.get_mut(place) else { return };
        let Some((conn, _)) = side.conn else { return };
        let (mut bytes, mut pen) = (Vec::new(), Pen::default());
        let begin = Version::Fix44.begin_string();
        let mut writer = Writer::message(&mut bytes, &mut pen, begin, msg_type);
        writer.uint(tag::MSG_SEQ_NUM, side.next_out);
        writer.foreign(tag::SENDER_COMP_ID, side.login.comp_id.as_bytes());
        writer.stamp(tag::SENDING_TIME, now);
        writer.foreign(tag::TARGET_COMP_ID, target.as_bytes());
        body(&mut writer, &side.login);
        writer.finish();
        side.next_out += 1;
        side.at = now.after(HEARTBEAT_NS);
        let span = out.store(&bytes);
        out.stream(conn, span);
    }

    /// Opens what is closed, keeps alive what is open.
    fn keep_sides(&mut self, now: Nanos, out: &mut Outbox) {
        for place in 0..self.sides.len() {
            let Some(side) = self.sides.get_mut(place).filter(|side| side.at <= now) else {
                continue;
            };
            match side.conn {
                None => {
                    self.conns += 1;
                    let conn = ConnId(self.conns);
                    (side.conn, side.at) = (Some((conn, false)), Nanos::NEVER);
                    out.connect(conn, self.gateway);
                }
                Some((_, true)) => self.write(now, place, b"0", out, |_, _| {}),
                Some((_, false)) => side.at = Nanos::NEVER,
            }
        }
    }

    fn subscribe(&mut self, now: Nanos, place: usize, out: &mut Outbox) {
        self.write(now, place, b"V", out, |writer, login| {
            writer.text(tag::MD_REQ_ID, b"all");
            writer.char(tag::SUBSCRIPTION_REQUEST_TYPE, b'1');
            writer.uint(tag::MARKET_DEPTH, 0);
            writer.uint(tag::MD_UPDATE_TYPE, 1);
            writer.uint(tag::NO_MD_ENTRY_TYPES, 3);
            for kind in [b'0', b'1', b'2'] {
                writer.char(tag::MD_ENTRY_TYPE, kind);
            }
            writer.uint(tag::NO_RELATED_SYM, login.symbols.len() as u64);
            for symbol in &login.symbols {
                writer.text(tag::SYMBOL, symbol.as_bytes());
            }
        });
    }
}

impl Node for Eavesdropper {
    fn handle_datagram(
        &mut self,
        _now: ClockReading,
        channel: Channel,
        _from: Peer,
        bytes: &[u8],
        _out: &mut Outbox,
    ) {
        let Some(packet) = Packet::parse(bytes).ok().filter(|_| channel == Channel::FEED) else {
            return;
        };
        let session = packet.session().0;
        if let Some((_, next)) = self.sessions.iter_mut().find(|(known, _)| *known == session) {
            *next = (*next).max(packet.next_seq());
        }
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        if self.ask_at <= now.now {
            self.ask_at = now.now.after(ASK_NS);
            self.ask(out);
        }
        if let Some(server) = self.snapshots.filter(|_| self.snapshot_at <= now.now) {
            self.conns += 1;
            (self.snapshot, self.snapshot_at) = (Some(ConnId(self.conns)), Nanos::NEVER);
            out.connect(ConnId(self.conns), server);
        }
        self.keep_sides(now.now, out);
    }

    fn next_timeout(&self) -> Nanos {
        let sides = self.sides.iter().map(|side| side.at).min().unwrap_or(Nanos::NEVER);
        sides.min(self.ask_at).min(self.snapshot_at)
    }

    fn handle_connect(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        if self.snapshot == Some(conn) {
            let session = self.sessions.first().map_or([b' '; 10], |(session, _)| *session);
            let login =
                LoginRequest { username: [b' '; 6], password: [b' '; 10], session, sequence: 1 };
            let mut bytes = Vec::new();
            if ClientPacket::Login(login).encode(&mut bytes).is_ok() {
                let span = out.store(&bytes);
                out.stream(conn, span);
            }
            return;
        }
        let Some(place) = self.side_of(conn) else { return };
        self.sides[place].conn = Some((conn, true));
        self.sides[place].asked = false;
        self.write(now.now, place, b"A", out, |writer, login| {
            writer.uint(tag::ENCRYPT_METHOD, 0);
            writer.uint(tag::HEART_BT_INT, 30);
            writer.foreign(tag::USERNAME, login.username.as_bytes());
            writer.foreign(tag::PASSWORD, login.password.as_bytes());
        });
    }

    fn handle_stream(&mut self, now: ClockReading, conn: ConnId, bytes: &[u8], out: &mut Outbox) {
        let Some(place) = self.side_of(conn) else { return };
        let wants = !self.sides[place].login.symbols.is_empty();
        // The first that comes is the answer to the Logon; a refusal ends the connection.
        if wants && !bytes.is_empty() && !std::mem::replace(&mut self.sides[place].asked, true) {
            self.subscribe(now.now, place, out);
        }
    }

    fn handle_close(&mut self, now: ClockReading, conn: ConnId, _out: &mut Outbox) {
        if self.snapshot == Some(conn) {
            (self.snapshot, self.snapshot_at) = (None, now.now.after(SNAPSHOT_NS));
        }
        if let Some(place) = self.side_of(conn) {
            (self.sides[place].conn, self.sides[place].at) = (None, now.now.after(RETRY_NS));
            // Numbers of a session for market data begin anew with every Logon.
            if !self.sides[place].login.symbols.is_empty() {
                self.sides[place].next_out = 1;
            }
        }
    }
}
