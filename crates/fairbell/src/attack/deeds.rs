//! What attackers do, over and over until they are told to stop, and what has to come of it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use net::Clock;
use roles::Refusal;

use super::line::{Fix, Line, Login, Ouch, open};
use super::site::{ATTACKER, Doors, HONEST, Outcome, Terms};

/// Connections of the half-open attack.
pub const HALF_OPEN: usize = 1_000;
/// Between two attempts of a patient attacker.
const BREATH: Duration = Duration::from_millis(2);

/// Attempts of any attacker.
const LEAST: usize = 100;
/// Attempts, after which resend storms have had their chance.
const STORM: usize = 5_000;

/// What an attacker has.
pub struct Tools<'a> {
    /// Where the doors are.
    pub doors: Doors,
    /// A clock.
    pub clock: Clock,
    /// Certificates.
    pub terms: &'a Terms,
    /// Honest clients are done.
    pub stop: &'a AtomicBool,
}

impl Tools<'_> {
    /// Until honest clients are done, and not before a number of attempts.
    fn goes_on(&self, tries: usize) -> bool {
        !self.stop.load(Ordering::Relaxed) || tries < LEAST
    }

    fn plain(&self, door: std::net::SocketAddrV4) -> Option<Line> {
        Line::open(ATTACKER, door, None).ok()
    }
}

/// An attack.
#[derive(Clone, Copy)]
pub struct Deed {
    /// Its name.
    pub name: &'static str,
    /// What is done.
    pub about: &'static str,
    /// Does it; what was learned, for the table.
    pub run: fn(&Tools<'_>) -> String,
    /// Whether it was refused or contained as it should be, or why not.
    pub judge: fn(&Terms, &Outcome, &str) -> Result<(), String>,
}

/// All there are.
pub const DEEDS: [Deed; 8] = [
    Deed {
        name: "wrong-password",
        about: "guesses at a plain and at a hashed password, at both doors",
        run: wrong_password,
        judge: |_, out, _| {
            some(out, Refusal::WrongPassword)?;
            some(out, Refusal::WrongAddress)?;
            some(out, Refusal::Throttled)
        },
    },
    Deed {
        name: "wrong-certificate",
        about: "an account bound to another certificate, a certificate nobody trusts, and none",
        run: wrong_certificate,
        judge: |_, out, _| {
            some(out, Refusal::WrongCertificate)?;
            at_least("handshakes refused", out.counters.handshakes_failed, 10)
        },
    },
    Deed {
        name: "wrong-comp-id",
        about: "FIX Logons of CompIDs that nobody has",
        run: wrong_comp_id,
        judge: |_, out, _| some(out, Refusal::UnknownName),
    },
    Deed {
        name: "second-logon",
        about: "the right password of an account that is logged on, at both doors",
        run: second_logon,
        judge: |_, out, _| some(out, Refusal::SecondLogon),
    },
    Deed {
        name: "half-open",
        about: "a thousand connections that say nothing, at plain and at TLS doors",
        run: half_open,
        judge: |terms, out, _| {
            let most = terms.guard.strangers_per_source_max.min(128);
            at_most("connections not logged on", out.strangers as u64, most as u64 + 8)?;
            some(out, Refusal::HalfOpen)?;
            at_least("handshakes not begun", out.counters.handshakes_refused, 100)
        },
    },
    Deed {
        name: "garbage",
        about: "other protocols, noise, lengths beyond all bounds as first bytes at every door",
        run: garbage,
        judge: |_, out, _| {
            some(out, Refusal::NoLogon)?;
            at_least("handshakes refused", out.counters.handshakes_failed, 10)
        },
    },
    Deed {
        name: "sequence",
        about: "MsgSeqNum too low, too high, huge; SequenceReset backwards; SoupBinTCP far ahead",
        run: sequence,
        judge: |_, _, seen| says(seen, "MsgSeqNum too low"),
    },
    Deed {
        name: "resend-storm",
        about: "ResendRequest for everything, thousands of times, by a participant",
        run: resend_storm,
        judge: |_, _, seen| says(seen, "sessions"),
    },
];

/// What the attacker was told has to be among what he saw.
fn says(seen: &str, expected: &str) -> Result<(), String> {
    match seen.contains(expected) {
        true => Ok(()),
        false => Err(format!("the attacker was not told {expected:?}: {seen}")),
    }
}

fn some(out: &Outcome, why: Refusal) -> Result<(), String> {
    let found = out.refusals.iter().find(|(of, _)| *of == why).map_or(0, |(_, count)| *count);
    at_least(why.text(), found, 1)
}

fn at_least(what: &str, found: u64, least: u64) -> Result<(), String> {
    if found >= least { Ok(()) } else { Err(format!("{what}: {found}, expected {least} or more")) }
}

fn at_most(what: &str, found: u64, most: u64) -> Result<(), String> {
    if found <= most { Ok(()) } else { Err(format!("{what}: {found}, allowed are {most}")) }
}

fn wrong_password(tools: &Tools<'_>) -> String {
    let (mut tries, mut guessed) = (0, 0);
    while tools.goes_on(tries) {
        let mut users = [("ATT1", "guess"), ("HON2", "victim"), ("ATT1", "x")];
        if tries % 8 == 0 {
            // The answer takes its time.
            users[0] = ("VICTIM", "guess");
        }
        for (user, password) in users {
            let Some(line) = tools.plain(tools.doors.ouch[1]) else { continue };
            tries += 1;
            let login = Ouch::login(line, tools.clock, (user, password), 1);
            guessed += usize::from(matches!(login, Login::In(_)));
        }
        if let Some(line) = tools.plain(tools.doors.fix[1]) {
            tries += 1;
            guessed += usize::from(Fix::new(line, tools.clock, "HON3").logon("guess", 1, false));
        }
        std::thread::sleep(BREATH);
    }
    format!("{tries} attempts, {guessed} got in")
}

fn wrong_certificate(tools: &Tools<'_>) -> String {
    let (mut tries, mut guessed) = (0, 0);
    while tools.goes_on(tries) {
        for tls in [&tools.terms.other, &tools.terms.foreign] {
            let door = tools.doors.ouch[0];
            let Ok(line) = Line::open(ATTACKER, door, Some(tls)) else { continue };
            tries += 1;
            let login = Ouch::login(line, tools.clock, ("HON1", "secret"), 1);
            guessed += usize::from(matches!(login, Login::In(_)));
        }
        std::thread::sleep(BREATH);
    }
    format!("{tries} attempts, {guessed} got in")
}

fn wrong_comp_id(tools: &Tools<'_>) -> String {
    let (mut tries, mut guessed) = (0, 0);
    while tools.goes_on(tries) {
        let Some(line) = tools.plain(tools.doors.fix[1]) else { continue };
        tries += 1;
        let name = format!("NOBODY{tries}");
        guessed += usize::from(Fix::new(line, tools.clock, &name).logon("secret", 1, false));
        std::thread::sleep(BREATH);
    }
    format!("{tries} attempts, {guessed} got in")
}

fn second_logon(tools: &Tools<'_>) -> String {
    let (mut tries, mut guessed) = (0, 0);
    while tools.goes_on(tries) {
        // From the honest client's own address, to either gateway.
        if let Ok(line) = Line::open(HONEST, tools.doors.ouch[1], None) {
            tries += 1;
            let login = Ouch::login(line, tools.clock, ("HON2", "victim"), 1);
            guessed += usize::from(matches!(login, Login::In(_)));
        }
        let elsewhere = Line::open(HONEST, tools.doors.ouch[0], Some(&tools.terms.other));
        if let Ok(line) = elsewhere {
            tries += 1;
            let login = Ouch::login(line, tools.clock, ("HON2", "victim"), 1);
            guessed += usize::from(matches!(login, Login::In(_)));
        }
        if let Some(line) = tools.plain(tools.doors.fix[1]) {
            tries += 1;
            guessed += usize::from(Fix::new(line, tools.clock, "HON3").logon("secret", 2, false));
        }
        std::thread::sleep(BREATH);
    }
    format!("{tries} attempts, {guessed} got in")
}

fn half_open(tools: &Tools<'_>) -> String {
    let mut held = Vec::new();
    for n in 0..HALF_OPEN {
        let Doors { ouch, fix } = tools.doors;
        let door = [ouch[1], fix[1], ouch[0], fix[0]][n % 4];
        held.extend(open(ATTACKER, door).ok());
    }
    let opened = held.len();
    while tools.goes_on(LEAST) {
        std::thread::sleep(BREATH);
    }
    format!("{opened} connections")
}

fn garbage(tools: &Tools<'_>) -> String {
    let long = vec![b'9'; 60_000];
    let oversized = [b"8=FIX.4.4\x019=99999999\x0135=A\x01".as_slice(), &long].concat();
    let noise: Vec<u8> =
        (0..5_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let firsts: [&[u8]; 5] =
        [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\xFF\xFFL", &oversized, &noise, &[0; 3_000]];
    let mut tries = 0;
    while tools.goes_on(tries) {
        let Doors { ouch, fix } = tools.doors;
        for door in [ouch[0], ouch[1], fix[0], fix[1]] {
            let first = firsts[tries % firsts.len()];
            tries += 1;
            if let Some(mut line) = tools.plain(door) {
                // It may be cut while we still write.
                line.write(first);
            }
        }
        std::thread::sleep(BREATH);
    }
    format!("{tries} connections")
}

fn sequence(tools: &Tools<'_>) -> String {
    let (mut games, mut ended) = (0, 0);
    let mut told = BTreeMap::new();
    while tools.goes_on(LEAST) {
        if let Some(line) = tools.plain(tools.doors.ouch[1]) {
            games += 1;
            let far = 1_000_000_000_000;
            let login = Ouch::login(line, tools.clock, ("ATT1", "secret"), far);
            ended += usize::from(matches!(login, Login::Out));
        }
        for game in 0..5 {
            let Some(line) = tools.plain(tools.doors.fix[1]) else { continue };
            let mut fix = Fix::new(line, tools.clock, "ATTF");
            if !fix.logon("secret", 1, true) {
                std::thread::sleep(BREATH);
                continue;
            }
            games += 1;
            let next = fix.next;
            let bytes = match game {
                // Too low, and no PossDupFlag.
                0 => fix.message("0", 1, ""),
                1 => fix.message("0", u64::from(u32::MAX), ""),
                2 => fix.message("0", u64::MAX, ""),
                // Backwards, and gap fills that leave a gap.
                3 => fix.message("4", next, "36=1"),
                _ => fix.message("4", next + 1_000, "123=Y|36=4294967295"),
            };
            fix.line.write(&bytes);
            fix.line.write(&fix.message("5", next, ""));
            let answer = fix.line.read_rest(1 << 16);
            ended += usize::from(!answer.is_empty());
            texts(&answer).for_each(|text| *told.entry(text).or_insert(0) += 1);
        }
    }
    let told: Vec<String> = told.iter().map(|(text, count)| format!("{count} {text}")).collect();
    format!("{games} games, {ended} ended or answered: {}", told.join("; "))
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

fn resend_storm(tools: &Tools<'_>) -> String {
    let (mut asked, mut logons) = (0, 0);
    while tools.goes_on(LEAST) {
        let Some(line) = tools.plain(tools.doors.fix[1]) else { continue };
        let mut fix = Fix::new(line, tools.clock, "ATTF");
        if !fix.logon("secret", 1, true) {
            std::thread::sleep(BREATH);
            continue;
        }
        logons += 1;
        while tools.goes_on(LEAST) && asked < STORM * logons {
            let mut batch = Vec::new();
            for _ in 0..50 {
                batch.extend(fix.message("2", fix.next, "7=1|16=0"));
                fix.next += 1;
            }
            asked += 50;
            if !fix.line.write(&batch) || fix.line.read().is_empty() {
                break;
            }
        }
    }
    format!("{asked} requests in {logons} sessions")
}
