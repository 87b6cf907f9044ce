//! The door at which participants subscribe to the feed that the receiver beside the gateway releases.
//!
//! A SoupBinTCP session with the account's credentials, under the same access control as order entry.
//! A subscription lives as long as its connection. Unicast goes to the address that the connection
//! comes from and to no other, a group must be one that the edge permits, so nobody can aim the feed at
//! others; the ring is where it is, and who may read it the system decides by the rights of its file. Whom the receiver serves is its owner's business: the door says what is wanted and what is
//! over ([`Gateway::take_subscription`]), and is told what came of it. Bounded: connections of an
//! account, requests of a connection, time without a subscription.

use core::net::{IpAddr, SocketAddr};
use std::collections::BTreeMap;

use types::{AccountId, Address, ClockReading, ConnId, Nanos, Outbox, Peer};
use wire::soupbin::{LOGIN_NS, RejectCode, ServerEvent, ServerPacket, ServerSession};
use wire::subscription::{Answer, EdgeLoad, Request, Ring, Subscribed, Way};

pub use wire::subscription::Refusal as SubscriptionRefusal;

use crate::access::bucket::{Bucket, Rate};
use crate::access::{Refusal, Verdict};
use crate::context::GatewayContext;
use crate::gateway::Gateway;
use crate::session::{self, Outcome};

/// Requests of a connection.
const REQUESTS: Rate = Rate { burst: 32, per_s: 4 };
/// A list of edges that is older says nothing, ns.
const EDGES_AGE_MAX_NS: u64 = 5 * Nanos::SECOND;

/// What an edge grants its subscribers, and tells them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubscriptionTerms {
    /// Groups that may be asked for.
    pub groups: Vec<SocketAddr>,
    /// Connections of an account at once.
    pub per_account: usize,
    /// Where unicast is sent from; no address (0.0.0.0, or `::`): from the one that the client connected
    /// to.
    pub from: SocketAddr,
    /// Where groups are sent from, for each version of IP that there are groups of.
    pub from_for_groups: Vec<SocketAddr>,
    /// Retransmission servers, at every address that they have. Subscribers are told those of their
    /// own version of IP.
    pub repair: Vec<SocketAddr>,
    /// Snapshot servers, the nearest first, in the same manner.
    pub snapshots: Vec<SocketAddr>,
    /// The ring in shared memory that all packets are written into, if there is one.
    pub ring: Option<Ring>,
}

/// What the receiver's owner has to see to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SubscriptionEvent {
    /// This connection wants the feed sent there; see [`Gateway::answer_subscription`].
    Wanted(ConnId, Peer),
    /// Nobody wants it there any more.
    Over(Peer),
}

/// What the door did so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SubscriptionCounters {
    /// Subscriptions granted.
    pub granted: u64,
    /// Requests refused, those of other addresses and groups included.
    pub refused: u64,
    /// Logins refused because the account has as many connections as it may.
    pub crowded: u64,
}

/// Why a connection is closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// Wrong credentials.
    NotAuthorized,
    /// Another session was wanted.
    Unavailable,
    /// The account has as many connections as it may.
    Crowded,
    /// Something that is no message of the protocol, or too many of them.
    Violation,
    /// It has not subscribed in time.
    Idle,
    /// The client leaves too much unread.
    Slow,
    /// The operator wants it, or the edge stops.
    Operator,
    /// The client left or fell silent.
    Left,
}

impl Ending {
    /// What the client is told.
    fn text(self) -> &'static str {
        match self {
            Ending::Crowded => "the account has as many subscription connections here as it may",
            Ending::Violation => "message not understood, or too many; session ended",
            Ending::Idle => "no subscription in time; session ended",
            Ending::Slow => "too much left unread; session ended",
            Ending::Operator => "session ended by the operator",
            Ending::NotAuthorized | Ending::Unavailable | Ending::Left => "",
        }
    }
}

/// A login that waits for access control.
struct Asked {
    account: AccountId,
    name: Vec<u8>,
    ours: bool,
}

/// A connection.
struct Subscriber {
    soup: ServerSession,
    account: Option<AccountId>,
    asked: Option<Asked>,
    requests: Bucket,
    /// When it has to have subscribed.
    idle_at: Nanos,
    to: Option<(Way, SocketAddr)>,
    /// Granted: the feed goes there.
    is_served: bool,
}

impl Subscriber {
    fn next_timeout(&self) -> Nanos {
        let idle = if self.is_served { Nanos::NEVER } else { self.idle_at };
        self.soup.next_timeout().min(idle)
    }

    /// Sends a message.
    fn say(&mut self, now: Nanos, conn: ConnId, answer: &Answer, out: &mut Outbox) {
        let mut message = Vec::new();
        answer.encode(&mut message);
        let soup = &mut self.soup;
        let mut sent = false;
        let span = out.write(|buffer| sent = soup.send_unsequenced(now, &message, buffer).is_ok());
        if sent {
            out.stream(conn, span);
        }
    }
}

/// The list of edges, and when it came.
struct Edges {
    at: Nanos,
    age_ns: u64,
    list: Vec<EdgeLoad>,
}

/// All connections of the door.
pub(crate) struct SubscriptionDoor {
    subscribers: BTreeMap<ConnId, Subscriber>,
    terms: Option<SubscriptionTerms>,
    events: Vec<SubscriptionEvent>,
    edges: Option<Edges>,
    due: Nanos,
    counters: SubscriptionCounters,
}

impl Default for SubscriptionDoor {
    fn default() -> SubscriptionDoor {
        SubscriptionDoor {
            subscribers: BTreeMap::new(),
            terms: None,
            events: Vec::new(),
            edges: None,
            due: Nanos::NEVER,
            counters: SubscriptionCounters::default(),
        }
    }
}

fn peer(way: Way, place: SocketAddr) -> Peer {
    match way {
        Way::Unicast | Way::Group => Peer::from(place),
        Way::Ring => Peer::RING,
    }
}

/// Whether the feed can be sent there: an address that means something else on every segment can't be
/// told without the segment.
fn is_plain(ip: IpAddr) -> bool {
    !matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

impl SubscriptionDoor {
    /// Connections now open.
    pub(crate) fn len(&self) -> usize {
        self.subscribers.len()
    }

    /// Whether a connection is one of this door.
    pub(crate) fn has(&self, conn: ConnId) -> bool {
        self.subscribers.contains_key(&conn)
    }

    /// A connection has come.
    pub(crate) fn connect(&mut self, now: Nanos, conn: ConnId) {
        let subscriber = Subscriber {
            soup: ServerSession::new(now),
            account: None,
            asked: None,
            requests: Bucket::new(REQUESTS),
            idle_at: Nanos::NEVER,
            to: None,
            is_served: false,
        };
        self.due = self.due.min(subscriber.next_timeout());
        self.subscribers.insert(conn, subscriber);
    }

    /// A connection has gone; false: there was none.
    pub(crate) fn remove(&mut self, conn: ConnId) -> bool {
        let Some(gone) = self.subscribers.remove(&conn) else { return false };
        self.events
            .retain(|event| !matches!(event, SubscriptionEvent::Wanted(of, _) if *of == conn));
        let wanted = |to| self.subscribers.values().any(|of| of.to.is_some_and(|(_, at)| at == to));
        if let Some((way, to)) = gone.to.filter(|(_, to)| gone.is_served && !wanted(*to)) {
            self.events.push(SubscriptionEvent::Over(peer(way, to)));
        }
        true
    }

    /// When a connection next needs attention; may be early.
    pub(crate) fn next_timeout(&self) -> Nanos {
        self.due
    }

    /// Takes bytes; says whether it wants in and whether it ends.
    pub(crate) fn handle_bytes(
        &mut self,
        now: Nanos,
        conn: ConnId,
        bytes: &[u8],
        context: &mut GatewayContext,
        out: &mut Outbox,
    ) -> Outcome {
        let Some(subscriber) = self.subscribers.get_mut(&conn) else { return Outcome::default() };
        let (mut wants_in, mut ending, mut requests) = (None, None, Vec::new());
        let Subscriber { soup, asked, requests: bucket, .. } = subscriber;
        soup.handle_bytes(now, bytes, |event| match event {
            ServerEvent::Login { username, password, session, .. } => {
                let ours = session.is_empty() || session == context.config.session.trim_ascii();
                let account = context.config.account_named(username);
                let verdict = context.access.attempt(now, conn, (username, account), password);
                match (verdict, account) {
                    (Verdict::In, Some(account)) if ours => wants_in = Some((account, 0)),
                    (Verdict::In, Some(_)) => ending = Some(Ending::Unavailable),
                    (Verdict::Later, Some(account)) => {
                        *asked = Some(Asked { account, name: username.to_vec(), ours });
                    }
                    _ => ending = Some(Ending::NotAuthorized),
                }
            }
            // Nothing more is read of who has said too much.
            ServerEvent::Unsequenced(_) if ending.is_some() => {}
            ServerEvent::Unsequenced(message) => match Request::parse(message) {
                Ok(request) if bucket.take(now) => requests.push(request),
                _ => ending = Some(Ending::Violation),
            },
            ServerEvent::LogoutRequest | ServerEvent::Dead => {
                ending.get_or_insert(Ending::Left);
            }
            ServerEvent::Violation(_) => {
                ending.get_or_insert(Ending::Violation);
            }
        });
        requests.into_iter().for_each(|request| self.request(now, conn, request, context, out));
        Outcome { wants_in, ending: ending.map(session::Ending::Subscription) }
    }

    /// Access control knows about the credentials that waited.
    pub(crate) fn handle_answer(
        &mut self,
        now: Nanos,
        conn: ConnId,
        context: &mut GatewayContext,
    ) -> Outcome {
        let asked = self.subscribers.get_mut(&conn).and_then(|of| of.asked.take());
        let Some(Asked { account, name, ours }) = asked else { return Outcome::default() };
        let ending = match context.access.attempt(now, conn, (&name, Some(account)), b"") {
            Verdict::In if ours => {
                return Outcome { wants_in: Some((account, 0)), ending: None };
            }
            Verdict::In => Ending::Unavailable,
            _ => Ending::NotAuthorized,
        };
        Outcome { wants_in: None, ending: Some(session::Ending::Subscription(ending)) }
    }

    fn request(
        &mut self,
        now: Nanos,
        conn: ConnId,
        request: Request,
        context: &GatewayContext,
        out: &mut Outbox,
    ) {
        let edges = self.edges(now);
        let SubscriptionDoor { subscribers, terms, events, counters, .. } = self;
        let Some(subscriber) = subscribers.get_mut(&conn) else { return };
        let (way, to) = match request {
            Request::Edges => return subscriber.say(now, conn, &edges, out),
            Request::Subscribe { way, to } => (way, to),
        };
        let own = context.access.address(conn) == Some(Address::from(to.ip()));
        let permitted = terms.as_ref().is_some_and(|terms| terms.groups.contains(&to));
        let has_ring = terms.as_ref().is_some_and(|terms| terms.ring.is_some());
        let refused = match way {
            _ if subscriber.to.is_some() => Some(SubscriptionRefusal::Twice),
            Way::Unicast if !own || to.port() == 0 || !is_plain(to.ip()) => {
                Some(SubscriptionRefusal::NotYours)
            }
            Way::Group if !permitted => Some(SubscriptionRefusal::Group),
            Way::Ring if !has_ring => Some(SubscriptionRefusal::Ring),
            _ => None,
        };
        match refused {
            Some(why) => {
                counters.refused += 1;
                subscriber.say(now, conn, &Answer::Refused(why), out);
            }
            None => {
                subscriber.to = Some((way, to));
                events.push(SubscriptionEvent::Wanted(conn, peer(way, to)));
            }
        }
    }

    /// The list of edges as it may be told now.
    fn edges(&self, now: Nanos) -> Answer {
        let age_ns = |edges: &Edges| edges.age_ns.saturating_add(now.since(edges.at));
        let known = self.edges.as_ref().filter(|edges| age_ns(edges) <= EDGES_AGE_MAX_NS);
        match known {
            Some(edges) => {
                let age_ms = age_ns(edges) / Nanos::MILLI;
                Answer::Edges(u16::try_from(age_ms).unwrap_or(u16::MAX), edges.list.clone())
            }
            None => Answer::Edges(u16::MAX, Vec::new()),
        }
    }

    /// Heartbeats; connections that end.
    fn serve(&mut self, now: Nanos, out: &mut Outbox) -> Vec<(ConnId, Ending)> {
        let mut over = Vec::new();
        for (conn, subscriber) in &mut self.subscribers {
            let (soup, mut event) = (&mut subscriber.soup, None);
            let mut wrote = false;
            let span = out.write(|buffer| {
                let before = buffer.len();
                event = soup.handle_timeout(now, buffer);
                wrote = buffer.len() > before;
            });
            if wrote {
                out.stream(*conn, span);
            }
            match event {
                Some(ServerEvent::Violation(_)) => over.push((*conn, Ending::Violation)),
                Some(_) => over.push((*conn, Ending::Left)),
                None if !subscriber.is_served && now >= subscriber.idle_at => {
                    over.push((*conn, Ending::Idle));
                }
                None => {}
            }
        }
        over
    }

    /// Tells the client why it ends, where the protocol has words for it.
    pub(crate) fn say_goodbye(
        &mut self,
        now: Nanos,
        conn: ConnId,
        ending: Ending,
        context: &mut GatewayContext,
        out: &mut Outbox,
    ) {
        let Some(subscriber) = self.subscribers.get(&conn) else { return };
        let is_in = subscriber.account.is_some();
        if ending == Ending::Violation && !is_in {
            context.access.fail(now, conn, b"", Refusal::NoLogon);
        }
        let counters = &mut context.counters;
        let rejected = match ending {
            Ending::NotAuthorized => Some(RejectCode::NotAuthorized),
            Ending::Unavailable | Ending::Crowded => Some(RejectCode::SessionNotAvailable),
            _ => None,
        };
        counters.logins_refused += u64::from(rejected.is_some());
        match ending {
            Ending::Violation => counters.violations += 1,
            Ending::Slow => counters.slow_consumers += 1,
            Ending::Operator => counters.disconnected += 1,
            Ending::Crowded => self.counters.crowded += 1,
            _ => {}
        }
        let mut wrote = false;
        let span = out.write(|buffer| {
            let before = buffer.len();
            // These packets are short.
            if !ending.text().is_empty() {
                let _ = ServerPacket::Debug(ending.text().as_bytes()).encode(buffer);
            }
            if let Some(code) = rejected {
                let _ = ServerPacket::LoginRejected(code).encode(buffer);
            }
            wrote = buffer.len() > before;
        });
        if wrote {
            out.stream(conn, span);
        }
    }
}

impl Gateway {
    /// From now on participants may subscribe here, on these terms.
    pub fn offer_subscriptions(&mut self, terms: SubscriptionTerms) {
        self.sessions.subscriptions.terms = Some(terms);
    }

    /// Participants that the feed is sent for.
    pub fn subscribers(&self) -> usize {
        self.sessions.subscriptions.subscribers.values().filter(|of| of.is_served).count()
    }

    /// What the door for subscriptions did.
    pub fn subscription_counters(&self) -> SubscriptionCounters {
        self.sessions.subscriptions.counters
    }

    /// What the receiver's owner has to see to, oldest first; to be asked after every call until there
    /// is nothing.
    pub fn take_subscription(&mut self) -> Option<SubscriptionEvent> {
        let events = &mut self.sessions.subscriptions.events;
        (!events.is_empty()).then(|| events.remove(0))
    }

    /// The feed is sent where a connection wants it, of each stream from this message of this session
    /// on; `None`: there is no room for one more.
    pub fn answer_subscription(
        &mut self,
        now: ClockReading,
        conn: ConnId,
        streams: Option<Vec<([u8; 10], u64)>>,
        out: &mut Outbox,
    ) {
        let midnight_ns = self.context.config.midnight.0;
        let SubscriptionDoor { subscribers, terms, counters, .. } =
            &mut self.sessions.subscriptions;
        let (Some(subscriber), Some(terms)) = (subscribers.get_mut(&conn), terms) else { return };
        let Some((way, to)) = subscriber.to else { return };
        let answer = match streams {
            Some(streams) => {
                subscriber.is_served = true;
                counters.granted += 1;
                Answer::Subscribed(Subscribed {
                    way,
                    to,
                    from: match way {
                        Way::Unicast | Way::Ring => terms.from,
                        Way::Group => {
                            let same = |from: &&SocketAddr| from.is_ipv4() == to.is_ipv4();
                            let from = terms.from_for_groups.iter().find(same);
                            from.copied().unwrap_or(terms.from)
                        }
                    },
                    midnight_ns,
                    streams,
                    repair: terms.repair.clone(),
                    snapshots: terms.snapshots.clone(),
                    ring: terms.ring.clone().filter(|_| way == Way::Ring),
                })
            }
            None => {
                subscriber.to = None;
                counters.refused += 1;
                Answer::Refused(SubscriptionRefusal::Full)
            }
        };
        subscriber.say(now.now, conn, &answer, out);
    }

    /// Edges that take participants, least loaded first, as they were `age_ns` ago.
    pub fn set_edges(&mut self, now: Nanos, age_ns: u64, list: Vec<EdgeLoad>) {
        self.sessions.subscriptions.edges = Some(Edges { at: now, age_ns, list });
    }

    /// Ends the subscriptions of an account, or of all; how many there were.
    pub fn end_subscriptions(
        &mut self,
        now: ClockReading,
        of: Option<AccountId>,
        out: &mut Outbox,
    ) -> usize {
        let all = self.sessions.subscriptions.subscribers.iter();
        let theirs = all.filter(|(_, one)| of.is_none() || one.account == of);
        let conns: Vec<ConnId> = theirs.map(|(conn, _)| *conn).collect();
        for conn in &conns {
            let ending = session::Ending::Subscription(Ending::Operator);
            self.end(now, *conn, ending, out);
        }
        conns.len()
    }

    /// Lets a connection in whose credentials are right; why not.
    pub(crate) fn admit_subscriber(
        &mut self,
        now: ClockReading,
        conn: ConnId,
        account: AccountId,
        out: &mut Outbox,
    ) -> Option<session::Ending> {
        if self.is_locked(account) {
            self.context.access.refuse(now.now, conn, account, Refusal::Locked, "");
            return Some(session::Ending::Subscription(Ending::NotAuthorized));
        }
        let door = &mut self.sessions.subscriptions;
        let theirs = door.subscribers.values().filter(|of| of.account == Some(account)).count();
        let Some(terms) = door.terms.as_ref() else {
            return Some(session::Ending::Subscription(Ending::Unavailable));
        };
        if theirs >= terms.per_account {
            self.context.access.refuse(now.now, conn, account, Refusal::Crowded, "");
            return Some(session::Ending::Subscription(Ending::Crowded));
        }
        let edges = door.edges(now.now);
        let subscriber = door.subscribers.get_mut(&conn)?;
        let (soup, mut accepted) = (&mut subscriber.soup, false);
        let name = self.context.config.session;
        let span = out.write(|buffer| {
            accepted = soup.accept_login(now.now, name, 1, buffer).is_ok();
        });
        if accepted {
            out.stream(conn, span);
            self.context.access.enter(conn);
            self.context.counters.logins += 1;
            subscriber.account = Some(account);
            subscriber.idle_at = now.now.after(LOGIN_NS);
            subscriber.say(now.now, conn, &edges, out);
            door.due = door.due.min(subscriber.next_timeout());
        }
        None
    }

    /// Timers of the door.
    pub(crate) fn serve_subscriptions(&mut self, now: ClockReading, out: &mut Outbox) {
        if now.now < self.sessions.subscriptions.due {
            return;
        }
        for (conn, ending) in self.sessions.subscriptions.serve(now.now, out) {
            self.end(now, conn, session::Ending::Subscription(ending), out);
        }
        let door = &mut self.sessions.subscriptions;
        let due = door.subscribers.values().map(Subscriber::next_timeout).min();
        door.due = due.unwrap_or(Nanos::NEVER);
    }
}
