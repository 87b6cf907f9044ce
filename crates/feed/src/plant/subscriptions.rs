//! Who wants which symbols, and their datagrams.
//!
//! A subscriber asks with a [`Request`] and has to ask again within the lease. Its datagrams carry
//! numbers of its own, so that it sees what its network has lost; when there is nothing to tell, an
//! empty datagram says so once a second. There are at most 64 subscribers: one bit each.
//!
//! A request's source address may be a lie, and the updates somebody else's flood. So a request is
//! granted only with the token of its address and port in it; any other one, also to leave, is answered
//! with that token, in no more bytes than it has itself.
//!
//! Datagram, big-endian: `FBT2`, count of updates (two bytes), two of zero, epoch of the plant, number
//! of the first update, updates. Request: `FBS2`, 1 to subscribe or 0 to leave, one byte of zero, count
//! of symbols (two bytes; none: all), token (16 bytes), symbols. Token: `FBC2`, four of zero, token.

use std::collections::BTreeMap;

use types::Nanos;

use super::update::{UPDATE_BYTES, Update};

/// Most updates in a datagram.
pub const PACKET_UPDATES: usize = 12;
const HEADER: usize = 24;
const SUBSCRIBERS_MAX: usize = 64;
/// Most symbols of a request, so that it fits a datagram.
const SYMBOLS_MAX: usize = 170;
/// Most different symbols of all subscribers together.
const ALL_SYMBOLS_MAX: usize = 1 << 16;
const LEASE: Nanos = Nanos(10_000_000_000);
const BEAT: Nanos = Nanos(1_000_000_000);
/// Time for which a token is good at least, ns; at most twice that.
const TOKEN_NS: u64 = 60 * Nanos::SECOND;
const TOKEN_LEN: usize = 16;
/// Length of a datagram that gives a token, and of the shortest request, bytes.
pub const CHALLENGE_LEN: usize = 8 + TOKEN_LEN;

/// Proof that an address receives what is sent to it.
pub type SubscriptionToken = [u8; TOKEN_LEN];

/// The token that a datagram tells; `None` for any other.
pub fn parse_challenge(bytes: &[u8]) -> Option<SubscriptionToken> {
    bytes.strip_prefix(b"FBC2\0\0\0\0")?.try_into().ok()
}

fn challenge(token: SubscriptionToken) -> [u8; CHALLENGE_LEN] {
    let mut bytes = [0; CHALLENGE_LEN];
    bytes[..4].copy_from_slice(b"FBC2");
    bytes[8..].copy_from_slice(&token);
    bytes
}

/// A request of a subscriber.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Symbols wanted in addition to those asked for before; empty: all symbols.
    pub symbols: Vec<u64>,
    /// Whether the subscription ends instead.
    pub leave: bool,
    /// Token that the plant has given this address; zeros: none yet.
    pub token: SubscriptionToken,
}

impl Request {
    /// The request as a datagram.
    pub fn encode(&self) -> Vec<u8> {
        let symbols = self.symbols.get(..SYMBOLS_MAX).unwrap_or(&self.symbols);
        let mut bytes = b"FBS2".to_vec();
        bytes.extend_from_slice(&[u8::from(!self.leave), 0]);
        bytes.extend_from_slice(&(symbols.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&self.token);
        symbols.iter().for_each(|symbol| bytes.extend_from_slice(&symbol.to_be_bytes()));
        bytes
    }

    /// The request in a datagram; `None` for any other datagram.
    pub fn parse(bytes: &[u8]) -> Option<Request> {
        let (head, rest) = bytes.split_first_chunk::<8>()?;
        let &[b'F', b'B', b'S', b'2', join, 0, high, low] = head else { return None };
        let (token, rest) = rest.split_first_chunk::<TOKEN_LEN>()?;
        let count = usize::from(u16::from_be_bytes([high, low]));
        if join > 1 || count > SYMBOLS_MAX || rest.len() != 8 * count {
            return None;
        }
        let symbol =
            |eight: &[u8]| eight.first_chunk().map_or(0, |eight| u64::from_be_bytes(*eight));
        let symbols = rest.chunks_exact(8).map(symbol).collect();
        Some(Request { symbols, leave: join == 0, token: *token })
    }
}

/// What was counted of requests and updates.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SubscriptionCounters {
    /// Number of requests granted.
    pub requests: u64,
    /// Number of requests for which there was no room.
    pub refused: u64,
    /// Number of requests without the right token, which were answered with it.
    pub challenged: u64,
    /// Number of subscribers that did not ask again in time.
    pub expired: u64,
    /// Number of datagrams sent.
    pub datagrams: u64,
    /// Number of updates in those datagrams.
    pub updates: u64,
}

#[derive(Debug)]
struct Subscriber<A> {
    to: A,
    until: Nanos,
    sent: Nanos,
    /// Number of the first update in the packet.
    sequence: u64,
    packet: Vec<u8>,
}

/// All subscribers; `A` is the type of their addresses.
#[derive(Debug)]
pub struct Subscriptions<A> {
    epoch: u64,
    seats: Vec<Option<Subscriber<A>>>,
    /// Subscribers that want a symbol, one bit for each place.
    wanted: BTreeMap<u64, u64>,
    /// Subscribers that want all symbols, one bit for each place.
    everything: u64,
    counters: SubscriptionCounters,
}

impl<A: Copy + PartialEq> Subscriptions<A> {
    /// Nobody yet; `epoch` tells this plant from earlier ones.
    pub fn new(epoch: u64) -> Subscriptions<A> {
        let seats = (0..SUBSCRIBERS_MAX).map(|_| None).collect();
        let counters = SubscriptionCounters::default();
        Subscriptions { epoch, seats, wanted: BTreeMap::new(), everything: 0, counters }
    }

    /// What was counted so far.
    pub fn counters(&self) -> SubscriptionCounters {
        self.counters
    }

    /// Number of subscribers at present.
    pub fn subscribers(&self) -> usize {
        self.seats.iter().flatten().count()
    }

    /// Takes a datagram of anybody; `token` makes that of its address for a period. What is to be
    /// answered, if anything: no more bytes than came.
    pub fn datagram(
        &mut self,
        now: Nanos,
        (from, bytes): (A, &[u8]),
        token: impl Fn(u64) -> SubscriptionToken,
    ) -> Option<[u8; CHALLENGE_LEN]> {
        let request = Request::parse(bytes)?;
        let period = now.0 / TOKEN_NS;
        let right = [token(period), token(period.wrapping_sub(1))].contains(&request.token);
        if right {
            self.request(now, from, &request);
            return None;
        }
        self.counters.challenged += 1;
        Some(challenge(token(period)))
    }

    /// Grants a request of who has shown its token; false when there is no room.
    pub fn request(&mut self, now: Nanos, from: A, request: &Request) -> bool {
        let known = self.seats.iter().position(|seat| seat.as_ref().is_some_and(|s| s.to == from));
        if request.leave {
            if let Some(seat) = known {
                self.vacate(seat);
            }
            return true;
        }
        let free = || self.seats.iter().position(Option::is_none);
        let room = self.wanted.len() + request.symbols.len() <= ALL_SYMBOLS_MAX;
        let Some(seat) = known.or_else(free).filter(|_| room) else {
            self.counters.refused += 1;
            return false;
        };
        self.counters.requests += 1;
        let bit = 1 << seat;
        for &symbol in &request.symbols {
            *self.wanted.entry(symbol).or_default() |= bit;
        }
        if request.symbols.is_empty() {
            self.everything |= bit;
        }
        let Some(place) = self.seats.get_mut(seat) else { return false };
        let subscriber = place.get_or_insert_with(|| Subscriber {
            to: from,
            until: now,
            sent: now,
            sequence: 1,
            packet: Vec::with_capacity(HEADER + PACKET_UPDATES * UPDATE_BYTES),
        });
        subscriber.until = Nanos(now.0.saturating_add(LEASE.0));
        true
    }

    fn vacate(&mut self, seat: usize) {
        if let Some(place) = self.seats.get_mut(seat) {
            *place = None;
        }
        self.everything &= !(1 << seat);
        self.wanted.retain(|_, seats| {
            *seats &= !(1 << seat);
            *seats != 0
        });
    }

    /// Tells an update to those who want it; what is about a line goes to all. Full datagrams are sent.
    pub fn publish(&mut self, update: &Update, mut send: impl FnMut(A, &[u8])) {
        let mut seats = match update.kind.is_tick() {
            true => {
                let wanted = self.wanted.get(&update.series.symbol).copied().unwrap_or(0);
                wanted | self.everything
            }
            false => u64::MAX,
        };
        while seats != 0 {
            let seat = seats.trailing_zeros() as usize;
            seats &= seats - 1;
            let Some(Some(subscriber)) = self.seats.get_mut(seat) else { continue };
            if subscriber.packet.is_empty() {
                subscriber.begin(self.epoch);
            }
            update.put(&mut subscriber.packet);
            if subscriber.updates() >= PACKET_UPDATES {
                subscriber.finish(&mut self.counters, &mut send);
            }
        }
    }

    /// Sends the datagrams that have been begun.
    pub fn flush(&mut self, now: Nanos, mut send: impl FnMut(A, &[u8])) {
        for subscriber in self.seats.iter_mut().flatten() {
            if !subscriber.packet.is_empty() {
                subscriber.sent = now;
                subscriber.finish(&mut self.counters, &mut send);
            }
        }
    }

    /// Ends leases that are over, and tells the others that nothing is new.
    pub fn tick(&mut self, now: Nanos, mut send: impl FnMut(A, &[u8])) {
        for seat in 0..self.seats.len() {
            let Some(Some(subscriber)) = self.seats.get_mut(seat) else { continue };
            if now.0 > subscriber.until.0 {
                self.counters.expired += 1;
                self.vacate(seat);
            } else if now.0.saturating_sub(subscriber.sent.0) >= BEAT.0 {
                subscriber.sent = now;
                if subscriber.packet.is_empty() {
                    subscriber.begin(self.epoch);
                }
                subscriber.finish(&mut self.counters, &mut send);
            }
        }
    }
}

impl<A: Copy> Subscriber<A> {
    fn begin(&mut self, epoch: u64) {
        self.packet.extend_from_slice(b"FBT2\0\0\0\0");
        self.packet.extend_from_slice(&epoch.to_be_bytes());
        self.packet.extend_from_slice(&self.sequence.to_be_bytes());
    }

    fn updates(&self) -> usize {
        self.packet.len().saturating_sub(HEADER) / UPDATE_BYTES
    }

    fn finish(&mut self, counters: &mut SubscriptionCounters, send: &mut impl FnMut(A, &[u8])) {
        let count = self.updates();
        if let Some(place) = self.packet.get_mut(4..6) {
            place.copy_from_slice(&(count as u16).to_be_bytes());
        }
        send(self.to, &self.packet);
        counters.datagrams += 1;
        counters.updates += count as u64;
        self.sequence += count as u64;
        self.packet.clear();
    }
}

/// The subscriber's side: datagrams in, updates out, losses counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Follower {
    /// Epoch of the plant, and number of the next update; `None`: nothing heard.
    at: Option<(u64, u64)>,
    /// Number of updates received.
    pub updates: u64,
    /// Number of updates that the network lost.
    pub lost: u64,
    /// Number of datagrams that are not the plant's, or came too late.
    pub ignored: u64,
    /// How often the plant began a new epoch.
    pub restarts: u64,
}

impl Follower {
    /// Takes a datagram; how many updates are lost before those it gives.
    pub fn datagram(&mut self, bytes: &[u8], mut each: impl FnMut(Update)) -> u64 {
        let Some((epoch, first, body)) = parse(bytes) else {
            self.ignored += 1;
            return 0;
        };
        let mut lost = 0;
        match self.at {
            Some((known, next)) if known == epoch && first < next => {
                self.ignored += 1;
                return 0;
            }
            Some((known, next)) if known == epoch => lost = first - next,
            Some(_) => self.restarts += 1,
            None => {}
        }
        self.lost += lost;
        let updates = body.chunks_exact(UPDATE_BYTES).filter_map(|bytes| bytes.first_chunk());
        let mut count = 0;
        for update in updates {
            count += 1;
            if let Some(update) = Update::read(update) {
                self.updates += 1;
                each(update);
            }
        }
        self.at = Some((epoch, first.saturating_add(count)));
        lost
    }
}

/// Epoch of the plant, number of the first update, and the updates' bytes.
fn parse(bytes: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (head, body) = bytes.split_first_chunk::<HEADER>()?;
    let (magic, rest) = head.split_first_chunk::<4>()?;
    let (count, rest) = rest.split_first_chunk::<2>()?;
    let (zero, rest) = rest.split_first_chunk::<2>()?;
    let (epoch, first) = rest.split_first_chunk::<8>()?;
    let whole = body.len() == usize::from(u16::from_be_bytes(*count)) * UPDATE_BYTES;
    let right = magic == b"FBT2" && *zero == [0; 2] && whole;
    let first = u64::from_be_bytes(*first.first_chunk()?);
    right.then(|| (u64::from_be_bytes(*epoch), first, body))
}
