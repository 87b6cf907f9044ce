//! The attacks on the doors.

use std::time::Duration;

use exchange::{Rate, Refusal};
use types::Price;

use super::case::{ATTEMPTS_MIN, AttackCase, Evidence, Seen, Tools};
use super::line::{Fix, Line, Login, Ouch, open};
use super::site::{ATTACKER, Doors, LogonTarget, Terms};
use super::strangers::{amplify, forge_feed, is_let_in, lock_out};

/// Connections of the half-open attack.
const HALF_OPEN: usize = 1_000;
/// Connections of the garbage attack that are held open after their first bytes.
const GARBAGE_HELD: usize = 300;
/// Addresses of the lockout attack.
const LOCKING_ADDRESSES: u8 = 100;
/// What became of the owner's logons under it.
const OWNER_IN: &str = "owner let in";
/// See [`OWNER_IN`].
const OWNER_OUT: &str = "owner kept out";
/// Between two attempts of a patient attacker.
const PAUSE: Duration = Duration::from_millis(2);
/// Requests after which a session of a resend storm has had its chance.
const STORM: u64 = 5_000;
/// Orders that an attacker has entered before it asks for their reports again and again.
const HISTORY: u32 = 200;
/// Bytes of reports that an attacker asks for and does not read.
const UNREAD_BYTES: u64 = 512 << 20;

/// All there are.
pub const CASES: [AttackCase; 12] = [
    AttackCase {
        name: "wrong-password",
        about: "guesses at a plain and at a hashed password, at both doors",
        must_hold: "nobody gets in; passwords looked at are bounded by the rate of one address",
        control: "no limits of tries",
        weaken: Terms::without_limits,
        run: wrong_password,
        judge: |e| {
            let held_off = e.outcome.refused(Refusal::Throttled);
            judge([
                at_least("logons held off", held_off, 1),
                at_least("wrong addresses", e.outcome.refused(Refusal::WrongAddress), 1),
                tries_bounded(e, "passwords looked at", Refusal::WrongPassword),
            ])
        },
    },
    AttackCase {
        name: "wrong-certificate",
        about: "an account bound to another certificate, a certificate nobody trusts, and none",
        must_hold: "nobody gets in",
        control: "the doors ask nobody for a certificate, and the account is bound to none",
        weaken: |terms| (terms.certificates_required, terms.bound) = (false, false),
        run: wrong_certificate,
        judge: |e| {
            let certificate = e.outcome.refused(Refusal::WrongCertificate);
            judge([
                at_least("wrong certificates", certificate, 1),
                at_least("handshakes refused", e.outcome.counters.handshakes_failed, 10),
            ])
        },
    },
    AttackCase {
        name: "wrong-comp-id",
        about: "FIX Logons of CompIDs that nobody has",
        must_hold: "nobody gets in, each Logon is refused",
        control: "the CompID is one that somebody has, with this password",
        weaken: |terms| terms.comp_ids_unknown = false,
        run: wrong_comp_id,
        judge: |e| {
            judge([
                at_least("unknown names", e.outcome.refused(Refusal::UnknownName), 1),
                at_least("Logons refused", e.seen.refused, e.seen.attempts),
            ])
        },
    },
    AttackCase {
        name: "lockout",
        about: "wrong passwords for an account from a hundred addresses, to keep its owner out",
        must_hold: "the owner gets in, from an address that is new to the account and later again",
        control: "ten wrong passwords from anywhere use up what all new addresses have",
        weaken: |terms| terms.access.new_address_guesses = 10,
        run: lockout,
        judge: |e| {
            let told = |text: &str| e.seen.told.get(text).copied().unwrap_or(0);
            judge([
                at_least("wrong passwords", e.outcome.refused(Refusal::WrongPassword), 10),
                at_least("logons of the owner", told(OWNER_IN), 2),
                at_most("logons of the owner refused", told(OWNER_OUT), 0),
            ])
        },
    },
    AttackCase {
        name: "amplify",
        about: "retransmission requests of addresses that never show that they hear the answers",
        must_hold: "no address is answered with more than three times its bytes",
        control: "every address is answered in full",
        weaken: |terms| terms.amplification = 0,
        run: amplified,
        judge: |e| judge([at_least("requests that were answered", e.seen.refused, 1)]),
    },
    AttackCase {
        name: "forged-feed",
        about: "packets of the right session and number sent to a listener from another address",
        must_hold: "none of their orders is in the listener's books, which hear the feed on",
        control: "the listener takes the feed from anybody",
        weaken: |terms| terms.sources_checked = false,
        run: forged_feed,
        judge: |e| {
            judge([
                at_least("packets of strangers refused", e.outcome.foreign, ATTEMPTS_MIN),
                at_least("messages of the feed heard", e.outcome.heard, 100),
                at_most("forged orders in the books", e.outcome.forged, 0),
            ])
        },
    },
    AttackCase {
        name: "second-logon",
        about: "the right password of an account that is logged on, at both doors",
        must_hold: "nobody gets in, the session that is there goes on",
        control: "the account is not logged on",
        weaken: |terms| terms.second = LogonTarget::IDLE,
        run: second_logon,
        judge: |e| judge([at_least("second logons", e.outcome.refused(Refusal::SecondLogon), 1)]),
    },
    AttackCase {
        name: "half-open",
        about: "a thousand connections that say nothing, at plain and at TLS doors",
        must_hold: "connections not logged on are bounded, the oldest make room",
        control: "no limits of connections and handshakes",
        weaken: Terms::without_limits,
        run: half_open,
        judge: |e| {
            judge([
                strangers_bounded(e),
                at_least("oldest that made room", e.outcome.refused(Refusal::HalfOpen), 1),
                at_least("handshakes not begun", e.outcome.counters.handshakes_refused, 100),
            ])
        },
    },
    AttackCase {
        name: "garbage",
        about: "other protocols, noise, lengths beyond all bounds as first bytes at every door",
        must_hold: "each is refused, connections not logged on are bounded",
        control: "no limits of connections and handshakes",
        weaken: Terms::without_limits,
        run: garbage,
        judge: |e| {
            judge([
                strangers_bounded(e),
                at_least("no logon at all", e.outcome.refused(Refusal::NoLogon), 1),
                at_least("handshakes refused", e.outcome.counters.handshakes_failed, 10),
            ])
        },
    },
    AttackCase {
        name: "sequence",
        about: "MsgSeqNum too low, too high, huge; SequenceReset backwards; SoupBinTCP far ahead",
        must_hold: "each wrong number is refused or answered as FIX 4.4 has it, none is taken",
        control: "what is sent is in sequence",
        weaken: |terms| terms.in_sequence = true,
        run: sequence,
        judge: |e| {
            let most = e.seen.attempts - e.seen.attempts / 20;
            let low = e.seen.told.get("MsgSeqNum too low").copied().unwrap_or(0);
            judge([
                at_least("sessions told that MsgSeqNum is too low", low, 1),
                // A connection that is reset takes an answer with it that was not read yet.
                at_least("wrong numbers refused or answered", e.seen.refused, most),
            ])
        },
    },
    AttackCase {
        name: "resend-storm",
        about: "ResendRequest for everything, thousands of times, by a participant who reads",
        must_hold: "the storm is answered from its own session's turns",
        control: "the session has nothing that could be sent again",
        weaken: |terms| terms.history = 0,
        run: resend_storm,
        judge: |e| {
            let resent = e.seen.told.get("reports sent again").copied().unwrap_or(0);
            judge([at_least("reports sent again", resent, e.seen.attempts / 2)])
        },
    },
    AttackCase {
        name: "unread",
        about: "ResendRequest for everything by a participant who reads nothing",
        must_hold: "what he leaves unread is bounded, then the connection is cut",
        control: "no bound of unread bytes",
        weaken: |terms| terms.unread_max = 1 << 40,
        run: unread,
        judge: |e| judge([at_least("connections cut", e.seen.refused, 1)]),
    },
];

fn judge<const N: usize>(found: [Result<(), String>; N]) -> Vec<String> {
    found.into_iter().filter_map(Result::err).collect()
}

fn at_least(what: &str, found: u64, least: u64) -> Result<(), String> {
    if found >= least { Ok(()) } else { Err(format!("{what}: {found}, expected {least} or more")) }
}

fn at_most(what: &str, found: u64, most: u64) -> Result<(), String> {
    if found <= most { Ok(()) } else { Err(format!("{what}: {found}, allowed are {most}")) }
}

/// Attempts of the attackers' one address that got as far as `why` are within its rate.
fn tries_bounded(e: &Evidence<'_>, what: &str, why: Refusal) -> Result<(), String> {
    let Rate { burst, per_s } = Terms::STRICT_TRIES;
    // Two gateways, each with a bucket of its own; a second for what was begun before.
    let allowed = 2 * (burst + per_s * (e.lasted.as_secs() + 1));
    at_most(what, e.outcome.refused(why), allowed)
}

fn strangers_bounded(e: &Evidence<'_>) -> Result<(), String> {
    at_most("connections not logged on", e.outcome.strangers as u64, Terms::STRANGERS_MAX + 8)
}

fn count_login(seen: &mut Seen, let_in: bool) {
    seen.attempts += 1;
    seen.succeeded += u64::from(let_in);
    seen.refused += u64::from(!let_in);
}

fn wrong_password(tools: &Tools<'_>) -> Seen {
    let mut seen = Seen::default();
    while tools.goes_on(seen.attempts) {
        let mut users = [("ATT1", "guess"), ("HON2", "victim"), ("ATT1", "x")];
        if seen.attempts.is_multiple_of(8) {
            // The answer takes its time.
            users[0] = ("VICTIM", "guess");
        }
        for (user, password) in users {
            let Some(line) = tools.plain(tools.doors.ouch[1]) else { continue };
            let login = Ouch::login(line, tools.clock, (user, password), 1);
            count_login(&mut seen, matches!(login, Login::In(_)));
        }
        if let Some(line) = tools.plain(tools.doors.fix[1]) {
            let let_in = Fix::new(line, tools.clock, "HON3").logon("guess", 1, false);
            count_login(&mut seen, let_in);
        }
        std::thread::sleep(PAUSE);
    }
    seen
}

fn wrong_certificate(tools: &Tools<'_>) -> Seen {
    let mut seen = Seen::default();
    while tools.goes_on(seen.attempts) {
        for tls in [&tools.terms.other, &tools.terms.foreign] {
            let door = tools.doors.ouch[0];
            let line = Line::open(ATTACKER, door, Some(tls)).ok();
            let login = line.map(|line| Ouch::login(line, tools.clock, ("BOUND", "secret"), 1));
            count_login(&mut seen, matches!(login, Some(Login::In(_))));
        }
        std::thread::sleep(PAUSE);
    }
    seen
}

fn wrong_comp_id(tools: &Tools<'_>) -> Seen {
    let mut seen = Seen::default();
    while tools.goes_on(seen.attempts) {
        let Some(line) = tools.plain(tools.doors.fix[1]) else { continue };
        let name = match tools.terms.comp_ids_unknown {
            true => format!("NOBODY{}", seen.attempts),
            false => "ATTF".to_string(),
        };
        let let_in = Fix::new(line, tools.clock, &name).logon("secret", 1, false);
        count_login(&mut seen, let_in);
        std::thread::sleep(PAUSE);
    }
    seen
}

/// Addresses that ask in turn; `succeeded` are those that got more than three times their bytes,
/// `refused` those that got an answer within that.
fn amplified(tools: &Tools<'_>) -> Seen {
    let mut seen = Seen::default();
    while tools.goes_on(seen.attempts) {
        let Doors { retransmission, session, .. } = tools.doors;
        let Ok(answered) = amplify(retransmission, (session, 1), 8, 24) else { break };
        for one in answered {
            seen.attempts += one.requests;
            seen.succeeded += u64::from(one.is_too_much());
            seen.refused += u64::from(one.heard > 0 && !one.is_too_much());
        }
    }
    seen
}

/// What the listener hears next, it has heard, and it will hear.
fn forged_feed(tools: &Tools<'_>) -> Seen {
    let mut seen = Seen::default();
    while tools.goes_on(seen.attempts) {
        let Doors { feed, session, .. } = tools.doors;
        let first = 2 + seen.attempts % 2_000;
        let Ok(sent) = forge_feed(&[feed], (session, first), 32) else { break };
        seen.attempts += sent;
        std::thread::sleep(PAUSE);
    }
    seen
}

fn lockout(tools: &Tools<'_>) -> Seen {
    let (mut seen, door) = (Seen::default(), tools.doors.ouch[1]);
    while tools.goes_on(seen.attempts) {
        seen.refused += lock_out(door, tools.clock, "ATT1", LOCKING_ADDRESSES);
        seen.attempts += u64::from(LOCKING_ADDRESSES);
        // Twice: the first time from an address that is new to the account.
        for _ in 0..2 {
            // Its session before may not be quite over.
            let let_in = (0..5).any(|_| {
                std::thread::sleep(Duration::from_millis(50));
                is_let_in(door, tools.clock, ("ATT1", "secret"))
            });
            let what = if let_in { OWNER_IN } else { OWNER_OUT };
            *seen.told.entry(what.to_string()).or_default() += 1;
        }
    }
    seen
}

fn second_logon(tools: &Tools<'_>) -> Seen {
    let mut seen = Seen::default();
    let LogonTarget { address, ouch, fix } = tools.terms.second;
    while tools.goes_on(seen.attempts) {
        if let Ok(line) = Line::open(address, tools.doors.ouch[1], None) {
            let login = Ouch::login(line, tools.clock, ouch, 1);
            count_login(&mut seen, matches!(login, Login::In(_)));
        }
        if let Ok(line) = Line::open(address, tools.doors.ouch[0], Some(&tools.terms.other)) {
            let login = Ouch::login(line, tools.clock, ouch, 1);
            count_login(&mut seen, matches!(login, Login::In(_)));
        }
        if let Some(line) = tools.plain(tools.doors.fix[1]) {
            let let_in = Fix::new(line, tools.clock, fix).logon("secret", 1, true);
            count_login(&mut seen, let_in);
        }
        std::thread::sleep(PAUSE);
    }
    seen
}

fn half_open(tools: &Tools<'_>) -> Seen {
    let mut held = Vec::new();
    for n in 0..HALF_OPEN {
        let Doors { ouch, fix, .. } = tools.doors;
        let door = [ouch[1], fix[1], ouch[0], fix[0]][n % 4];
        held.extend(open(ATTACKER, door).ok());
    }
    while tools.goes_on(ATTEMPTS_MIN) {
        std::thread::sleep(PAUSE);
    }
    Seen { attempts: held.len() as u64, ..Seen::default() }
}

fn garbage(tools: &Tools<'_>) -> Seen {
    let long = vec![b'9'; 60_000];
    let oversized = [b"8=FIX.4.4\x019=99999999\x0135=A\x01".as_slice(), &long].concat();
    let noise: Vec<u8> =
        (0..5_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let firsts: [&[u8]; 5] =
        [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\xFF\xFFL", &oversized, &noise, &[0; 3_000]];
    let mut seen = Seen::default();
    let mut held = Vec::new();
    // The beginning of a message, and no more of it.
    for door in [tools.doors.ouch[1], tools.doors.fix[1]].repeat(GARBAGE_HELD / 2) {
        let Some(mut line) = tools.plain(door) else { continue };
        line.write(if door == tools.doors.ouch[1] { b"\x00\x2F" } else { b"8=FIX" });
        held.push(line);
    }
    while tools.goes_on(seen.attempts) {
        let Doors { ouch, fix, .. } = tools.doors;
        for door in [ouch[0], ouch[1], fix[0], fix[1]] {
            let first = firsts[(seen.attempts % 5) as usize];
            seen.attempts += 1;
            if let Some(mut line) = tools.plain(door) {
                // It may be cut while we still write.
                line.write(first);
            }
        }
        std::thread::sleep(PAUSE);
    }
    seen
}

fn sequence(tools: &Tools<'_>) -> Seen {
    let mut seen = Seen::default();
    while tools.goes_on(seen.attempts) {
        if let Some(line) = tools.plain(tools.doors.ouch[1]) {
            // Whether it gets a session or not, it gets no message that isn't there.
            let _ = Ouch::login(line, tools.clock, ("ATT1", "secret"), 1_000_000_000_000);
        }
        for kind in 0..5 {
            let Some(line) = tools.plain(tools.doors.fix[1]) else { continue };
            let mut fix = Fix::new(line, tools.clock, "ATTF");
            if !fix.logon("secret", 1, true) {
                std::thread::sleep(PAUSE);
                continue;
            }
            let next = fix.next;
            let bytes = match kind {
                _ if tools.terms.in_sequence => fix.message("0", next, ""),
                // Too low, and no PossDupFlag.
                0 => fix.message("0", 1, ""),
                1 => fix.message("0", u64::from(u32::MAX), ""),
                2 => fix.message("0", u64::MAX, ""),
                // Backwards, and gap fills that leave a gap.
                3 => fix.message("4", next, "36=1"),
                _ => fix.message("4", next + 1_000, "123=Y|36=4294967295"),
            };
            seen.attempts += 1;
            fix.line.write(&bytes);
            let after = if tools.terms.in_sequence { next + 1 } else { next };
            fix.line.write(&fix.message("5", after, ""));
            let answer = fix.line.read_rest(1 << 16);
            let refusals: Vec<String> = texts(&answer).collect();
            let asks_again = answer.windows(6).any(|field| field == b"\x0135=2\x01");
            seen.refused += u64::from(!refusals.is_empty() || asks_again);
            refusals.into_iter().for_each(|text| *seen.told.entry(text).or_insert(0) += 1);
        }
    }
    seen
}

/// The texts of Logouts and Rejects, up to what differs from time to time.
fn texts(answer: &[u8]) -> impl Iterator<Item = String> {
    let fields = answer.split(|byte| *byte == 1);
    let texts = fields.filter_map(|field| field.strip_prefix(b"58="));
    texts.map(|text| {
        let text = String::from_utf8_lossy(text);
        text.split([',', ':']).next().unwrap_or("").to_string()
    })
}

/// A FIX session of the attacker with `history` orders that rest far below the market.
fn with_history(tools: &Tools<'_>, history: u32) -> Option<Fix> {
    let mut fix = Fix::new(tools.plain(tools.doors.fix[1])?, tools.clock, "ATTF");
    let symbol = tools.terms.symbol();
    (fix.logon("secret", 1, true)
        && (0..history).all(|n| fix.order(n + 1, Price::from_whole(1), symbol)))
    .then_some(fix)
}

fn resend_storm(tools: &Tools<'_>) -> Seen {
    let mut seen = Seen::default();
    let Some(mut fix) = with_history(tools, tools.terms.history.min(HISTORY)) else { return seen };
    while tools.goes_on(seen.attempts) && seen.attempts < STORM {
        // As many as are answered at once: whoever asks again before is not read.
        let bytes = fix.message("2", fix.next, "7=1|16=0");
        fix.next += 1;
        seen.attempts += 1;
        if !fix.line.write(&bytes) {
            break;
        }
        let answer = fix.line.read();
        if answer.is_empty() {
            break;
        }
        let again = answer.windows(6).filter(|field| field == b"\x0135=8\x01").count();
        *seen.told.entry("reports sent again".to_string()).or_insert(0) += again as u64;
    }
    seen
}

fn unread(tools: &Tools<'_>) -> Seen {
    let mut seen = Seen::default();
    let Some(mut fix) = with_history(tools, tools.terms.history.min(HISTORY)) else { return seen };
    let report_bytes = 200;
    let requests = UNREAD_BYTES / u64::from(HISTORY) / report_bytes;
    while tools.goes_on(seen.attempts) {
        if seen.refused == 0 {
            let bytes = fix.message("2", fix.next, "7=1|16=0");
            fix.next += 1;
            seen.refused += u64::from(!fix.line.write(&bytes));
        }
        seen.attempts += 1;
        if seen.attempts > requests || seen.refused > 0 {
            std::thread::sleep(PAUSE);
        }
    }
    seen
}
