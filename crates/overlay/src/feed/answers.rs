//! How much the public retransmission server may answer, and to whom.
//!
//! A request is a datagram of anybody, and its source address may be a lie: what the server sends
//! there is somebody else's flood. So an address gets three times the bytes that came from it, as
//! with QUIC (RFC 9000, section 8), until it has proved that it hears our answers. The proof is a
//! token: 16 bytes that only we can make, bound to address, port and time, sent to the address and
//! shown with later requests. Three kinds of request are told apart by their length:
//!
//! | bytes | request | answer |
//! |---|---|---|
//! | 20 | plain MoldUDP64 | within three times what came from the address; what is not used is kept for its next request |
//! | 36 | with a token behind it | any packet if the token is right; if not, a token and what fits beside it |
//! | above | with padding | as with 20 bytes: padded to a third of a packet or more, a whole packet |
//!
//! A token is answered in 36 bytes: session, number asked for, count 0, token. Addresses that the
//! operator knows ([`AnswerConfig::known`]) need none: it answers for what goes there.
//!
//! Beyond that every address (of IPv6 every /64, since one host has all of it) has a rate, unproven ones together, and all together. Memory is fixed
//! at the start: a table of sets of four, the one used longest ago makes room. An unproven address
//! that is pushed out loses what it had left over, never more; a proven one begins with a full bucket
//! again, within the bucket of all.

use types::{AddressRange, Nanos, Peer, SplitMix64, limits::MOLD_PACKET_MAX};

use crate::feed::mold::{self, Header};

/// Length of a token, bytes.
pub const TOKEN_LEN: usize = 16;
/// Bytes of a request with a token, and of the answer that gives one.
pub const TOKEN_REQUEST_LEN: usize = mold::HEADER_LEN + TOKEN_LEN;
/// A token is good for this long at least, and twice that at most.
pub const TOKEN_NS: u64 = 60 * Nanos::SECOND;
/// Addresses that are told apart, of either kind.
const ADDRESSES: usize = 4_096;
/// Ranges of addresses that need no proof.
pub const KNOWN_MAX: usize = 8;
/// Addresses per set of the cache.
const WAYS: usize = 4;

/// Proof that an address receives what is sent to it.
pub type Token = [u8; TOKEN_LEN];

/// Makes tokens: the first bytes of a keyed hash of its argument, which no one without the key can
/// compute.
pub type TokenMaker = Box<dyn Fn(&[u8]) -> Token + Send>;

/// Token bucket: a rate in bytes and a burst.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ByteRate {
    /// Sustained rate, bytes per second.
    pub per_s: u64,
    /// Largest burst, bytes.
    pub burst: u64,
}

impl ByteRate {
    /// So much per second, a quarter of it at once, and a packet at least.
    pub const fn per_s(per_s: u64) -> ByteRate {
        let burst = per_s / 4;
        let packet = MOLD_PACKET_MAX as u64;
        ByteRate { per_s, burst: if burst < packet { packet } else { burst } }
    }
}

/// Limits of what the public retransmission server sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AnswerConfig {
    /// Bytes answered for each byte of an unproven address; 0: as many as one likes, for tests only.
    pub amplification: u64,
    /// Networks whose addresses need no proof: those of the operator's own listeners, in which no
    /// one else can forge a source address.
    pub known: [Option<AddressRange>; KNOWN_MAX],
    /// Limit for one address that has proved itself with a token.
    pub address: ByteRate,
    /// Limit for all addresses together that have not proved themselves.
    pub unproven: ByteRate,
    /// Rate limit for all addresses together.
    pub all: ByteRate,
}

impl Default for AnswerConfig {
    fn default() -> Self {
        AnswerConfig {
            amplification: 3,
            known: [None; KNOWN_MAX],
            address: ByteRate::per_s(8 << 20),
            unproven: ByteRate::per_s(1 << 20),
            all: ByteRate::per_s(32 << 20),
        }
    }
}

/// What was asked and answered since the start: requests, datagrams and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AnswerStats {
    /// Bytes of valid requests of unproven addresses, and of the answers to them.
    pub unproven_in: u64,
    /// Bytes sent to addresses without a valid token; compare `unproven_in`.
    pub unproven_out: u64,
    /// Requests of unproven addresses not answered yet, because three times their bytes are too few.
    pub unproven_short: u64,
    /// Number of tokens given to addresses.
    pub tokens: u64,
    /// Number of requests with a valid token.
    pub proven: u64,
    /// Requests not answered, or cut, because a rate was used up.
    pub over_rate: u64,
}

/// A request of a member of the public, decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PublicRequest {
    /// Range of messages that is asked for.
    pub wanted: Header,
    /// The token shown; nothing where none was.
    token: Option<Token>,
    len: usize,
}

impl PublicRequest {
    /// Reads a datagram: a request, perhaps with a token or with padding behind it.
    pub fn read(bytes: &[u8]) -> Option<PublicRequest> {
        let (wanted, rest) = Header::read(bytes)?;
        let token = match rest.len() {
            TOKEN_LEN => rest.first_chunk().copied(),
            1..TOKEN_LEN => return None,
            _ => None,
        };
        (bytes.len() <= MOLD_PACKET_MAX).then_some(PublicRequest {
            wanted,
            token,
            len: bytes.len(),
        })
    }
}

/// Upper bound of the answer to one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allowance {
    from: Peer,
    proven: bool,
    /// To be sent before the answer: the token that proves the address.
    pub token: Option<Token>,
    /// Bytes of the answer, beside the token.
    pub room: usize,
    /// Bytes that an address without a valid token may still be sent, earned by what it sent itself.
    earned: u64,
}

/// The level of a token bucket of bytes.
#[derive(Clone, Copy, Default, Debug)]
struct Bucket {
    left: u64,
    at: Nanos,
}

impl Bucket {
    fn full(rate: ByteRate, now: Nanos) -> Bucket {
        Bucket { left: rate.burst, at: now }
    }

    fn fill(&mut self, rate: ByteRate, now: Nanos) -> u64 {
        let came =
            u128::from(now.since(self.at)) * u128::from(rate.per_s) / u128::from(Nanos::SECOND);
        if came > 0 {
            self.left =
                rate.burst.min(self.left.saturating_add(u64::try_from(came).unwrap_or(u64::MAX)));
            self.at = now;
        }
        self.left
    }

    fn take(&mut self, bytes: u64) {
        self.left = self.left.saturating_sub(bytes);
    }
}

/// One place of a table, for one address.
#[derive(Clone, Copy, Debug)]
struct Slot<T> {
    /// Address that the place belongs to.
    name: Peer,
    /// When it was last used; 0 if the slot is free.
    used: Nanos,
    of: T,
}

/// Something for each of the addresses seen last.
struct Table<T> {
    slots: Box<[Slot<T>]>,
    salt: u64,
}

impl<T: Copy + Default> Table<T> {
    fn new(salt: u64) -> Table<T> {
        let free = Slot { name: Peer::NOBODY, used: Nanos(0), of: T::default() };
        Table { slots: vec![free; ADDRESSES].into_boxed_slice(), salt }
    }

    /// The place of `name`; who is new there gets `fresh`.
    fn of(&mut self, now: Nanos, name: Peer, fresh: T) -> &mut T {
        let sets = self.slots.len() / WAYS;
        let first = mix(name, self.salt) as usize % sets * WAYS;
        let set = self.slots.get(first..first + WAYS).unwrap_or(&[]);
        let known = set.iter().position(|slot| slot.name == name && slot.used > Nanos(0));
        let oldest = || (0..set.len()).min_by_key(|index| set.get(*index).map(|slot| slot.used));
        let place = first + known.or_else(oldest).unwrap_or(0);
        let slot = &mut self.slots[place];
        if known.is_none() {
            *slot = Slot { name, used: now, of: fresh };
        }
        slot.used = now.max(Nanos(1));
        &mut slot.of
    }
}

/// Decides how much of each request is answered.
pub struct Answers {
    config: AnswerConfig,
    /// Without one no address can be proved.
    maker: Option<TokenMaker>,
    /// By address and port: bytes that an unproven one has earned and not got yet.
    earned: Table<u64>,
    /// Bucket of each source of addresses ([`Peer::source`]).
    addresses: Table<Bucket>,
    unproven: Bucket,
    all: Bucket,
    stats: AnswerStats,
}

impl Answers {
    /// An empty state: no requests so far and no key for tokens.
    pub fn new(config: AnswerConfig) -> Answers {
        Answers {
            config,
            maker: None,
            earned: Table::new(0),
            addresses: Table::new(0),
            unproven: Bucket::full(config.unproven, Nanos(0)),
            all: Bucket::full(config.all, Nanos(0)),
            stats: AnswerStats::default(),
        }
    }

    /// Lets addresses be proved by tokens of `maker`. `salt` has to be secret, so that a chosen
    /// address cannot be pushed out of the tables.
    pub fn prove_by(&mut self, salt: u64, maker: TokenMaker) {
        (self.earned.salt, self.addresses.salt) = (salt, !salt);
        self.maker = Some(maker);
    }

    /// What was counted since the start.
    pub fn stats(&self) -> AnswerStats {
        self.stats
    }

    /// What a valid request of `from` may be answered with; [`Answers::spend`] is to follow.
    pub fn judge(&mut self, now: Nanos, from: Peer, request: &PublicRequest) -> Allowance {
        let all = self.all.fill(self.config.all, now);
        let proven = self.is_known(from)
            || request.token.is_some_and(|shown| {
                [now.0 / TOKEN_NS, (now.0 / TOKEN_NS).wrapping_sub(1)].into_iter().any(|period| {
                    self.token(from, period).is_some_and(|right| same(&right, &shown))
                })
            });
        if proven {
            self.stats.proven += 1;
            let rate = self.config.address;
            let bucket = self.addresses.of(now, from.source(), Bucket::full(rate, now));
            let room = bucket.fill(rate, now).min(all) as usize;
            return Allowance {
                from,
                proven,
                token: None,
                room: room.min(MOLD_PACKET_MAX),
                earned: 0,
            };
        }
        self.stats.unproven_in += request.len as u64;
        let more = match self.config.amplification {
            0 => MOLD_PACKET_MAX as u64,
            factor => factor * request.len as u64,
        };
        let kept = *self.earned.of(now, from, 0);
        let earned = (kept + more).min((MOLD_PACKET_MAX + TOKEN_REQUEST_LEN) as u64);
        let rates = self.unproven.fill(self.config.unproven, now).min(all);
        let room = earned.min(rates) as usize;
        let token = request.token.and_then(|_| self.token(from, now.0 / TOKEN_NS));
        let token = token.filter(|_| room >= TOKEN_REQUEST_LEN);
        let beside = token.map_or(0, |token| token.len() + mold::HEADER_LEN);
        Allowance { from, proven, token, room: (room - beside).min(MOLD_PACKET_MAX), earned }
    }

    /// An answer of `sent` bytes went out, beside the token; `needed`: what the shortest answer
    /// would have taken, if there was one to give.
    pub fn spend(&mut self, now: Nanos, allowance: &Allowance, sent: usize, needed: usize) {
        let token = allowance.token.map_or(0, |_| TOKEN_REQUEST_LEN);
        self.stats.tokens += u64::from(token > 0);
        let bytes = (sent + token) as u64;
        self.all.take(bytes);
        let unmet = sent == 0 && needed > 0;
        if allowance.proven {
            self.stats.over_rate += u64::from(unmet);
            let rate = self.config.address;
            let fresh = Bucket::full(rate, now);
            self.addresses.of(now, allowance.from.source(), fresh).take(bytes);
            return;
        }
        self.stats.unproven_out += bytes;
        self.unproven.take(bytes);
        let left = allowance.earned.saturating_sub(bytes);
        let short = unmet && (left as usize) < needed;
        self.stats.unproven_short += u64::from(short);
        self.stats.over_rate += u64::from(unmet && !short);
        *self.earned.of(now, allowance.from, 0) = left.min(MOLD_PACKET_MAX as u64);
    }

    fn is_known(&self, from: Peer) -> bool {
        let Some((address, _)) = from.inet() else { return false };
        self.config.known.iter().flatten().any(|range| range.contains(address))
    }

    fn token(&self, of: Peer, period: u64) -> Option<Token> {
        let maker = self.maker.as_ref()?;
        let [first, second, third] = words(of).map(u64::to_be_bytes);
        Some(maker([first, second, third, period.to_be_bytes()].as_flattened()))
    }
}

/// A peer as numbers: another one for each.
fn words(of: Peer) -> [u64; 3] {
    match of {
        Peer::Addr(packed) => [packed, 0, 0],
        Peer::Node(node) => [u64::from(node.0), 0, 1],
        Peer::V6 { network, host, port } => [network, host, u64::from(port) << 8 | 2],
    }
}

/// Where a peer is in a table with this salt.
fn mix(of: Peer, salt: u64) -> u64 {
    words(of).into_iter().fold(salt, |sum, word| SplitMix64::mix(sum ^ word))
}

/// Compares every byte whatever the first difference.
fn same(right: &Token, shown: &Token) -> bool {
    right.iter().zip(shown).fold(0u8, |sum, (a, b)| sum | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use types::Address;

    const START: Nanos = Nanos(1_000_000 * Nanos::SECOND);

    /// No secret, but one for tests.
    fn maker() -> TokenMaker {
        Box::new(|bytes: &[u8]| {
            let mut token: Token = [7; TOKEN_LEN];
            for (place, byte) in bytes.iter().enumerate() {
                let slot = &mut token[place % TOKEN_LEN];
                *slot = slot.wrapping_mul(31).wrapping_add(*byte);
            }
            token
        })
    }

    fn answers(config: AnswerConfig) -> Answers {
        let mut answers = Answers::new(config);
        answers.prove_by(99, maker());
        answers
    }

    fn request(extra: &[u8]) -> PublicRequest {
        let header = Header { session: *b"FAIRBELL01", seq: 1, count: 50 };
        PublicRequest::read(&[&header.bytes()[..], extra].concat()).expect("a request")
    }

    /// Asks, and sends as much as is allowed of an answer of a whole packet; bytes sent, the token.
    fn ask(answers: &mut Answers, now: Nanos, from: u64, extra: &[u8]) -> (usize, Option<Token>) {
        ask_as(answers, now, Peer::Addr(from), extra)
    }

    fn ask_as(
        answers: &mut Answers,
        now: Nanos,
        from: Peer,
        extra: &[u8],
    ) -> (usize, Option<Token>) {
        let allowance = answers.judge(now, from, &request(extra));
        let sent = if allowance.room < 60 { 0 } else { allowance.room };
        answers.spend(now, &allowance, sent, 60);
        (sent + allowance.token.map_or(0, |_| TOKEN_REQUEST_LEN), allowance.token)
    }

    #[test]
    fn lengths_say_what_a_request_is() {
        let header = Header { session: *b"FAIRBELL01", seq: 1, count: 1 }.bytes();
        for (extra, good) in [
            (0, true),
            (1, false),
            (15, false),
            (16, true),
            (17, true),
            (1_372, true),
            (1_400, false),
        ] {
            let bytes = [&header[..], &vec![0; extra][..]].concat();
            assert_eq!(PublicRequest::read(&bytes).is_some(), good, "{extra}");
        }
        assert_eq!(request(&[5; 16]).token, Some([5; 16]));
        assert_eq!(request(&[5; 17]).token, None);
    }

    #[test]
    fn known_addresses_need_no_proof_and_keep_to_their_rate() {
        let network = AddressRange::new(Address::v4(7 << 24), 8).expect("a range");
        let mut config =
            AnswerConfig { address: ByteRate::per_s(8_000), ..AnswerConfig::default() };
        config.known[3] = Some(network);
        let mut answers = answers(config);
        let known = (7 << 24 | 9) << 16 | 1;
        assert_eq!(ask(&mut answers, START, known, &[]), (MOLD_PACKET_MAX, None));
        assert!(ask(&mut answers, START, known, &[]).0 < MOLD_PACKET_MAX, "2,000 bytes at once");
        // Control: its neighbour, and a node of that number.
        assert_eq!(ask(&mut answers, START, (8 << 24 | 9) << 16 | 1, &[]).0, 60);
        assert!(!answers.is_known(Peer::Node(types::NodeId(7))));
        assert!(!answers.is_known(Peer::Addr(u64::MAX)));
    }

    #[test]
    fn a_token_proves_its_address_for_a_time_and_no_other() {
        let mut answers = answers(AnswerConfig::default());
        let (sent, token) = ask(&mut answers, START, 7 << 16 | 1, &[0; 16]);
        assert!(sent <= 108, "{sent}");
        let token = token.expect("given");
        assert_eq!(ask(&mut answers, START, 7 << 16 | 1, &token), (MOLD_PACKET_MAX, None));
        for other in [7 << 16 | 2, 8 << 16 | 1] {
            let (sent, again) = ask(&mut answers, START, other, &token);
            assert!(sent <= 108 && again.is_some_and(|again| again != token));
        }
        let late = START.after(TOKEN_NS);
        assert_eq!(ask(&mut answers, late, 7 << 16 | 1, &token), (MOLD_PACKET_MAX, None));
        let (sent, new) = ask(&mut answers, START.after(2 * TOKEN_NS), 7 << 16 | 1, &token);
        assert!(sent <= 108 && new.is_some(), "too old: a new one");
        assert_eq!((answers.stats().tokens, answers.stats().proven), (4, 2));
    }

    #[test]
    fn an_ipv6_address_is_proved_by_its_own_token_and_shares_the_rate_of_its_64() {
        let rate = ByteRate { per_s: 1, burst: 3_000 };
        let mut answers = answers(AnswerConfig { address: rate, ..AnswerConfig::default() });
        let at = |network: u128, host: u128, port| Peer::at(Address(network << 64 | host), port);
        let token = |answers: &Answers, of| answers.token(of, START.0 / TOKEN_NS).expect("a maker");
        let one = at(0xFD00 << 48, 1, 9);
        let shown = token(&answers, one);
        assert_eq!(ask_as(&mut answers, START, one, &shown), (MOLD_PACKET_MAX, None));
        // Another port, another host, another network, and the IPv4 address of the same bits.
        for other in [at(0xFD00 << 48, 1, 10), at(0xFD00 << 48, 2, 9), at(0xFD01 << 48, 1, 9)] {
            assert_ne!(token(&answers, other), shown);
            assert!(ask_as(&mut answers, START, other, &shown).0 <= 108, "{other:?}");
        }
        assert_ne!(token(&answers, at(0, 1, 9)), token(&answers, Peer::Addr(1 << 16 | 9)));
        // Hosts of a /64 share what one of them may have at once; a neighbour has its own.
        let mut proven = |of| {
            let shown = token(&answers, of);
            ask_as(&mut answers, START, of, &shown).0
        };
        assert_eq!(proven(at(0xFD00 << 48, 2, 9)), MOLD_PACKET_MAX);
        assert_eq!(proven(at(0xFD00 << 48, 3, 9)), 3_000 - 2 * MOLD_PACKET_MAX);
        assert_eq!(proven(at(0xFD01 << 48, 3, 9)), MOLD_PACKET_MAX, "control: another /64");
    }

    #[test]
    fn rates_of_an_address_of_the_unproven_and_of_all_hold() {
        let config = AnswerConfig {
            address: ByteRate { per_s: 100_000, burst: 20_000 },
            unproven: ByteRate { per_s: 10_000, burst: 5_000 },
            all: ByteRate { per_s: 150_000, burst: 30_000 },
            ..AnswerConfig::default()
        };
        let mut answers = answers(config);
        let mut by_address: BTreeMap<u64, usize> = BTreeMap::new();
        let (mut all, mut unproven) = (0, 0);
        let token = |answers: &Answers, from: u64, now: Nanos| {
            answers.token(Peer::Addr(from), now.0 / TOKEN_NS).expect("there is a maker")
        };
        for step in 0..40_000u64 {
            let now = START.after(step * Nanos::SECOND / 10_000);
            let from = (step % 3) << 16 | (step % 64);
            let shown = token(&answers, from, now);
            let (sent, _) = ask(&mut answers, now, from, &shown);
            *by_address.entry(from >> 16).or_default() += sent;
            let (sent_too, _) = ask(&mut answers, now, 99 << 16 | (step % 999), &[0; 600]);
            unproven += sent_too;
            all += sent + sent_too;
        }
        assert!(
            by_address.values().all(|sent| *sent <= 20_000 + 4 * 100_000 + 1_500),
            "{by_address:?}"
        );
        assert!(unproven <= 5_000 + 4 * 10_000 + 1_500, "{unproven}");
        assert!((500_000..=30_000 + 4 * 150_000 + 1_500).contains(&all), "{all}");
        assert!(answers.stats().over_rate > 50_000);
    }

    /// The most that any address got for a byte of its own, over a stream of requests of strangers.
    fn worst(config: AnswerConfig, requests: &[(u64, u16, u32)]) -> f64 {
        let mut answers = answers(config);
        let mut sums: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        let mut now = START;
        for (from, extra, step) in requests {
            now = now.after(u64::from(*step));
            let extra = match extra % 40 {
                0..20 => 0,
                20..30 => TOKEN_LEN,
                _ => TOKEN_LEN + 1 + usize::from(*extra % 1_300),
            };
            let (sent, _) = ask(&mut answers, now, *from, &vec![3; extra]);
            let sum = sums.entry(*from).or_default();
            *sum = (sum.0 + 20 + extra as u64, sum.1 + sent as u64);
        }
        sums.values().map(|(came, went)| *went as f64 / *came as f64).fold(0.0, f64::max)
    }

    #[test]
    fn a_crowd_of_addresses_pushes_out_credit_and_never_adds_any() {
        let mut answers = answers(AnswerConfig::default());
        let long = |answers: &mut Answers, from: u64, now: Nanos| {
            let allowance = answers.judge(now, Peer::Addr(from), &request(&[]));
            let sent = if allowance.room < 72 { 0 } else { 72 };
            answers.spend(now, &allowance, sent, 72);
            sent
        };
        assert_eq!((long(&mut answers, 1, START), long(&mut answers, 1, START.after(1))), (0, 72));
        assert_eq!(long(&mut answers, 2, START.after(2)), 0);
        for crowd in 0..100_000 {
            assert_eq!(long(&mut answers, 1_000 + crowd, START.after(3 + crowd)), 0);
        }
        assert_eq!(answers.earned.slots.len(), ADDRESSES);
        assert_eq!(long(&mut answers, 2, START.after(200_000)), 0, "it was pushed out");
        let stats = answers.stats();
        assert!(stats.unproven_out <= 3 * stats.unproven_in && stats.unproven_short > 100_000);
    }

    #[test]
    fn control_without_the_rule_an_address_gets_far_more() {
        let config = AnswerConfig { amplification: 0, ..AnswerConfig::default() };
        assert!(worst(config, &[(1 << 16, 0, 1), (2 << 16, 0, 1)]) > 60.0);
    }

    proptest! {
        #[test]
        fn without_a_token_nobody_gets_more_than_three_times_what_came(
            requests in prop::collection::vec((0u64..5_000, any::<u16>(), 0u32..1_000_000), 1..2_000),
        ) {
            let factor = worst(AnswerConfig::default(), &requests);
            prop_assert!(factor <= 3.0, "{}", factor);
        }

        #[test]
        fn arbitrary_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(request) = PublicRequest::read(&bytes) {
                let mut answers = answers(AnswerConfig::default());
                let allowance = answers.judge(START, Peer::Addr(1), &request);
                prop_assert!(allowance.room <= 3 * bytes.len());
                answers.spend(START, &allowance, allowance.room, 0);
            }
        }
    }
}
