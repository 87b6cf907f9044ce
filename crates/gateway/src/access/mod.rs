//! Who may come in at either door, how often, with which password.
//!
//! A stranger is a connection that is not logged on. Each costs a fixed small amount, their number
//! is bounded for every source and in all, the oldest of the source that has the most makes room,
//! and none stays longer than allowed ([`Admission`]). An attempt to log on is judged by what is
//! cheap first: name, address, certificate, wrong passwords before it. A hashed password that is not
//! known yet is given to a worker beside the loop, one at a time, by turns of the sources, at a
//! bounded rate; once right it is remembered as an HMAC, so that logging on again costs a microsecond.
//!
//! Nobody can be locked out: wrong passwords are held against the pair of identity and source, and
//! against sources new to the identity (see `guesses`). Whoever lacks an identity's certificate or
//! address never gets that far. Sessions that are logged on are no business of this.

pub(crate) mod bucket;
mod guesses;
mod refusals;
mod sources;
mod terms;
pub(crate) mod throttle;

use std::collections::BTreeMap;

use overlay::aes_gcm::KeySource;
use types::{
    AccountId, Address, Admission, AdmissionConfig, ConnId, Nanos, Outbox, Remote, Yields,
};

use crate::access::bucket::Bucket;
use crate::config::Login;
use guesses::Guesses;
pub use refusals::{Refusal, Refusals, Refused};
use sources::{Source, Sources};
pub use terms::{AccessConfig, AccessKey, CertificateRule, LoginTerms};

/// After this a job given to the worker is taken for lost.
const WORK_NS: u64 = 10 * Nanos::SECOND;
/// How often those who wait for their source's bucket are looked at.
const LOOK_NS: u64 = 50 * Nanos::MILLI;

/// What becomes of an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is who it says.
    In,
    /// It is not let in; counted.
    Out(Refusal),
    /// The worker has to say: see [`AccessControl::answer`].
    Later,
}

/// One identity.
struct Identity {
    login: Login,
    /// HMAC of the password that was right.
    known: Option<[u8; 32]>,
}

/// A connection that is not logged on.
struct Stranger {
    conn: ConnId,
    remote: Remote,
    /// An attempt that waits for the worker.
    check: Option<Check>,
}

/// A password to be compared with its hash.
struct Check {
    place: usize,
    password: Vec<u8>,
    /// Given to the worker under this ticket.
    ticket: Option<u64>,
    answer: Option<bool>,
}

/// Decides which connections stay and which logons are let in.
pub(crate) struct AccessControl {
    key: KeySource,
    identities: Vec<Identity>,
    guesses: Guesses,
    /// In order of arrival.
    strangers: Vec<Stranger>,
    /// Which of them stay.
    places: Admission<ConnId>,
    /// Those that are no strangers any more, and where they come from.
    inside: BTreeMap<ConnId, Option<Address>>,
    sources: Sources,
    checks: Bucket,
    turns: u64,
    /// What the worker has: the ticket, the identity, since when.
    working: Option<(u64, usize, Nanos)>,
    /// No looking for somebody to serve before this.
    look_at: Nanos,
    pub(crate) refusals: Refusals,
}

impl AccessControl {
    /// Access control for these logins.
    pub(crate) fn new(config: AccessConfig, logins: &[Login]) -> AccessControl {
        let identity = |login: &Login| Identity { login: login.clone(), known: None };
        AccessControl {
            key: KeySource::new(&config.key.0),
            identities: logins.iter().map(identity).collect(),
            guesses: Guesses::new(config, logins.len()),
            strangers: Vec::new(),
            places: Admission::new(AdmissionConfig {
                places: config.strangers_max,
                places_per_source: config.strangers_per_source_max,
                patience_ns: config.logon_wait_ns,
                yields: Yields::Oldest,
            }),
            inside: BTreeMap::new(),
            sources: Sources::new(config),
            checks: Bucket::new(config.checks),
            turns: 0,
            working: None,
            look_at: Nanos(0),
            refusals: Refusals::default(),
        }
    }

    /// Connections that are not logged on.
    pub(crate) fn strangers(&self) -> usize {
        self.strangers.len()
    }

    /// Somebody has connected. `Some`: another connection has to go for it.
    pub(crate) fn admit(&mut self, now: Nanos, conn: ConnId, remote: &Remote) -> Option<ConnId> {
        let goes = self.places.arrive(now, conn, remote.address);
        self.strangers.push(Stranger { conn, remote: remote.clone(), check: None });
        if let Some(conn) = goes {
            let from = self.remote(conn).address;
            self.refusals.note(now, Refusal::HalfOpen, from, b"", "");
            self.forget(conn);
        }
        goes
    }

    /// A connection is logged on, or about to be: it takes no place of a stranger any more.
    pub(crate) fn enter(&mut self, conn: ConnId) {
        let from = self.address(conn);
        self.forget(conn);
        self.inside.insert(conn, from);
    }

    /// A connection is gone.
    pub(crate) fn forget(&mut self, conn: ConnId) {
        self.places.leave(conn);
        self.strangers.retain(|stranger| stranger.conn != conn);
        self.inside.remove(&conn);
    }

    /// Where a connection comes from, if that is known.
    pub(crate) fn address(&self, conn: ConnId) -> Option<Address> {
        self.inside.get(&conn).copied().unwrap_or_else(|| self.remote(conn).address)
    }

    /// Judges an attempt to log on. `account`: whom the name given is of, if anybody.
    pub(crate) fn attempt(
        &mut self,
        now: Nanos,
        conn: ConnId,
        (name, account): (&[u8], Option<AccountId>),
        password: &[u8],
    ) -> Verdict {
        let place = account.and_then(|account| {
            self.identities.iter().position(|identity| identity.login.account == account)
        });
        let source = self.source(conn);
        let answered = self.take_answer(conn);
        let charged = answered.is_some_and(|(asked, _)| Some(asked) == place);
        let verdict = match (place, answered) {
            (Some(place), Some((asked, right))) if asked == place => match right {
                true => Verdict::In,
                false => Verdict::Out(Refusal::WrongPassword),
            },
            _ => self.judge(now, conn, place, password),
        };
        match (verdict, place) {
            (Verdict::In, Some(place)) => self.guesses.right(now, place, source, charged),
            (Verdict::Out(why), place) => {
                if let Some(place) = place.filter(|_| why == Refusal::WrongPassword && !charged) {
                    self.guesses.wrong(now, place, source);
                }
                self.fail(now, conn, name, why);
            }
            _ => {}
        }
        verdict
    }

    /// An account's logon is refused although its credentials are right; `detail` may be empty.
    pub(crate) fn refuse(
        &mut self,
        now: Nanos,
        conn: ConnId,
        account: AccountId,
        why: Refusal,
        detail: &str,
    ) {
        let from = self.address(conn);
        let identity = self.identities.iter().find(|one| one.login.account == account);
        let name = identity.map_or(&b""[..], |identity| &identity.login.username);
        self.refusals.note(now, why, from, name, detail);
    }

    /// A FIX Logon of CompIDs that no session has.
    pub(crate) fn refuse_unknown(&mut self, now: Nanos, conn: ConnId, detail: &str) {
        self.refusals.note(now, Refusal::UnknownName, self.address(conn), b"", detail);
    }

    /// Whether the connection is a stranger's.
    pub(crate) fn is_stranger(&self, conn: ConnId) -> bool {
        self.strangers.iter().any(|stranger| stranger.conn == conn)
    }

    fn judge(
        &mut self,
        now: Nanos,
        conn: ConnId,
        place: Option<usize>,
        password: &[u8],
    ) -> Verdict {
        let remote = self.remote(conn);
        let (Some(place), Some(identity)) =
            (place, place.and_then(|place| self.identities.get(place)))
        else {
            return Verdict::Out(Refusal::UnknownName);
        };
        let terms = &identity.login.terms;
        if terms.lacks_address(&remote) {
            return Verdict::Out(Refusal::WrongAddress);
        }
        if terms.lacks_certificate(&remote) {
            return Verdict::Out(Refusal::WrongCertificate);
        }
        if let Err(why) = self.guesses.judge(now, place, source_of(&remote)) {
            return Verdict::Out(why);
        }
        let right = match (&terms.password_hash, &identity.known) {
            (None, _) => same(&identity.login.password, password),
            (Some(_), Some(known)) => same(known, &self.key.tag(password)),
            (Some(_), None) => {
                let password = password.to_vec();
                if let Some(stranger) = self.stranger_mut(conn) {
                    stranger.check = Some(Check { place, password, ticket: None, answer: None });
                    return Verdict::Later;
                }
                false
            }
        };
        if right { Verdict::In } else { Verdict::Out(Refusal::WrongPassword) }
    }

    /// Counts a refusal. The connection goes on being a stranger until the caller closes it.
    pub(crate) fn fail(&mut self, now: Nanos, conn: ConnId, name: &[u8], why: Refusal) {
        let from = self.remote(conn).address;
        self.refusals.note(now, why, from, name, "");
    }

    /// Gives the worker something to do, if it has nothing and somebody waits for it.
    pub(crate) fn ask_worker(&mut self, now: Nanos, out: &mut Outbox) {
        if self.working.is_some_and(|(.., since)| now < since.after(WORK_NS)) {
            return;
        }
        self.working = None;
        if !self.strangers.iter().any(Stranger::waits) || !self.checks.has(now) {
            return;
        }
        let Some(next) = self.whose_turn(now) else {
            // All that wait have to wait for their source.
            self.look_at = now.after(LOOK_NS);
            return;
        };
        self.checks.take(now);
        self.turns += 1;
        let turns = self.turns;
        let Some(stranger) = self.strangers.get_mut(next) else { return };
        let Some(check) = &mut stranger.check else { return };
        check.ticket = Some(turns);
        self.working = Some((turns, check.place, now));
        // Until the answer it counts as wrong, so that no number of connections gets more looked at.
        self.guesses.wrong(now, check.place, source_of(&stranger.remote));
        if let Some(address) = stranger.remote.address {
            let source = self.sources.of(now, address);
            source.served = turns;
            source.tries.take(now);
        }
        let hash = self.identities.get(check.place).and_then(|identity| {
            let hash = identity.login.terms.password_hash.as_ref()?;
            Some(hash.as_bytes())
        });
        let bytes =
            out.write(|buffer| encode_work(hash.unwrap_or_default(), &check.password, buffer));
        out.work(turns, bytes);
    }

    /// The waiting stranger that may try now: first who is at home, then whose source was served
    /// longest ago, then for whose identity it did nothing wrong.
    fn whose_turn(&mut self, now: Nanos) -> Option<usize> {
        let mut best: Option<((bool, u64, u8), usize)> = None;
        for (index, stranger) in self.strangers.iter().enumerate() {
            let waiting = stranger.check.as_ref().filter(|check| check.ticket.is_none());
            let Some(place) = waiting.map(|check| check.place) else { continue };
            let from = source_of(&stranger.remote);
            if self.guesses.judge(now, place, from).is_err() {
                continue;
            }
            let rank = self.guesses.rank(now, place, from);
            let served = match stranger.remote.address {
                None => 0,
                Some(address) => {
                    let source: &mut Source = self.sources.of(now, address);
                    if rank > 0 && !source.tries.has(now) {
                        continue;
                    }
                    source.served
                }
            };
            let key = (rank > 0, served, rank);
            if best.is_none_or(|(least, _)| key < least) {
                best = Some((key, index));
            }
        }
        best.map(|(_, index)| index)
    }

    /// The worker's answer; the connection whose attempt is to be judged again, if it is still
    /// there.
    pub(crate) fn answer(&mut self, now: Nanos, ticket: u64, right: bool) -> Option<ConnId> {
        let (_, place, _) = self.working.take_if(|(asked, ..)| *asked == ticket)?;
        let asked = |stranger: &&mut Stranger| {
            stranger.check.as_ref().is_some_and(|check| check.ticket == Some(ticket))
        };
        let stranger = self.strangers.iter_mut().find(asked)?;
        let check = stranger.check.as_mut()?;
        check.answer = Some(right);
        if let Some(identity) = self.identities.get_mut(place).filter(|_| right) {
            identity.known = Some(self.key.tag(&check.password));
        }
        if let Some(address) = stranger.remote.address.filter(|_| right) {
            self.sources.of(now, address).tries.give_back();
        }
        check.password.fill(0);
        Some(stranger.conn)
    }

    fn take_answer(&mut self, conn: ConnId) -> Option<(usize, bool)> {
        let stranger = self.stranger_mut(conn)?;
        let answer = stranger.check.as_ref()?.answer?;
        stranger.check.take().map(|check| (check.place, answer))
    }

    /// A connection that has taken too long to log on; to be called until there is none.
    pub(crate) fn take_late(&mut self, now: Nanos) -> Option<ConnId> {
        let conn = self.places.expire(now)?;
        let from = self.remote(conn).address;
        self.refusals.note(now, Refusal::TooSlow, from, b"", "");
        self.forget(conn);
        Some(conn)
    }

    /// When [`AccessControl::take_late`] or [`AccessControl::ask_worker`] may have something to do.
    pub(crate) fn next_timeout(&self) -> Nanos {
        let late = self.places.next_timeout();
        let worker = match self.working {
            Some((.., since)) => since.after(WORK_NS),
            None if self.strangers.iter().any(Stranger::waits) => {
                self.checks.next().max(self.look_at)
            }
            None => Nanos::NEVER,
        };
        late.min(worker)
    }

    fn remote(&self, conn: ConnId) -> Remote {
        let stranger = self.strangers.iter().find(|stranger| stranger.conn == conn);
        stranger.map(|stranger| stranger.remote.clone()).unwrap_or_default()
    }

    fn source(&self, conn: ConnId) -> Address {
        source_of(&self.remote(conn))
    }

    fn stranger_mut(&mut self, conn: ConnId) -> Option<&mut Stranger> {
        self.strangers.iter_mut().find(|stranger| stranger.conn == conn)
    }
}

impl Stranger {
    /// Its password has yet to be given to the worker.
    fn waits(&self) -> bool {
        self.check.as_ref().is_some_and(|check| check.ticket.is_none())
    }
}

/// What somebody's guesses are held against; all of unknown addresses share one.
fn source_of(remote: &Remote) -> Address {
    remote.address.map_or(Address(0), Address::source)
}

/// Compares every byte whatever the first difference.
fn same(right: &[u8], given: &[u8]) -> bool {
    let difference = right.iter().zip(given).fold(0u8, |sum, (a, b)| sum | (a ^ b));
    right.len() == given.len() && difference == 0
}

/// A job: the length of the hash in two bytes, the hash, the password.
fn encode_work(hash: &[u8], password: &[u8], into: &mut Vec<u8>) {
    // The configuration bounds hashes far below this.
    let len = u16::try_from(hash.len()).unwrap_or(u16::MAX);
    into.extend_from_slice(&len.to_be_bytes());
    into.extend_from_slice(hash);
    into.extend_from_slice(password);
}

/// Hash and password of a gateway's job, for whoever works for it; the answer is one byte, 1 if
/// the password is right and 0 if not. `None`: it is no such job.
pub fn decode_work(job: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = job.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_somebody_comes_from_is_known_until_the_connection_is_gone() {
        let mut access = AccessControl::new(AccessConfig::default(), &[]);
        let (conn, from) = (ConnId(7), Some(Address::v4(0x0A00_0001)));
        access.admit(Nanos(1), conn, &Remote { address: from, certificate: None });
        assert_eq!(access.address(conn), from);
        // A FIX session enters when its credentials are right, and again when its stream has been read.
        access.enter(conn);
        access.enter(conn);
        assert_eq!((access.address(conn), access.strangers()), (from, 0));
        access.refuse(Nanos(2), conn, AccountId(1), Refusal::BadLogon, "why");
        assert_eq!(access.refusals.last().last().map(|one| one.from), Some(from));
        access.forget(conn);
        assert_eq!(access.address(conn), None);
    }
}
