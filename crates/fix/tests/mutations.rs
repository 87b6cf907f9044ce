//! Dialogues with deliberate faults, lengths and sums repaired, into decoder and session: no
//! panic, memory flat, and every answer is a right message with the right number.
//!
//! `FAIRBELL_FIX_MUTATIONS` says how many (scripts/mutations runs ten million), with
//! `FAIRBELL_FIX_SEED` as the first seed.

mod sample;

use fix::app::{FixApplication, LedgerLimits, Refusal, Symbols, Wanted};
use fix::dictionary::{Checker, CustomTags, Rules, builtin};
use fix::session::{Application, Ending, MemoryStore, Port, Proof, SessionConfig, Store};
use fix::value::{StampWriter, uint};
use fix::{Acceptor, FieldIndex, Frame, Framer, Limits, Message, Version};
use types::{ConnId, Nanos, SplitMix64};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

const CONN: ConnId = ConnId(1);
const START: Nanos = Nanos(1_800_000_000 * Nanos::SECOND);

/// Bodies that make sense, by type; `@` is a fresh identifier.
const BODIES: &[(&str, &str)] = &[
    ("0", ""),
    ("1", "112=ping|"),
    ("2", "7=1|16=0|"),
    ("2", "7=3|16=9|"),
    ("3", "45=1|58=no|"),
    ("4", "123=Y|36=~|"),
    ("4", "36=~|"),
    ("A", "98=0|108=30|141=Y|"),
    ("D", "11=@|21=1|55=BTCUSD|54=1|60=20270115-08:00:00|38=100|40=2|44=78350.5|"),
    ("D", "11=@|21=1|55=BTCUSD|54=2|60=20270115-08:00:00|38=7|40=1|453=1|448=a|452=1|"),
    ("F", "41=o1|11=@|55=BTCUSD|54=1|60=20270115-08:00:00|"),
    ("G", "41=o1|11=@|21=1|55=BTCUSD|54=1|60=20270115-08:00:00|38=9|40=2|44=1|"),
    ("q", "11=@|530=7|60=20270115-08:00:00|"),
    ("H", "11=o1|55=BTCUSD|54=1|"),
    ("V", "262=m|263=1|264=0|267=2|269=0|269=1|146=1|55=BTCUSD|"),
    ("8", "37=1|17=2|150=0|39=0|55=BTCUSD|54=1|151=1|14=0|6=0|"),
];
/// Values and tags that hurt.
const VALUES: &[&str] = &[
    "",
    "0",
    "-1",
    "4294967295",
    "4294967296",
    "99999999999999999999",
    "Y",
    "N",
    "1.5",
    "+1",
    "\u{0}",
    "=",
    "10=000",
    "8=FIX.4.4",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
];
const TAGS: &[&str] =
    &["0", "-1", "8", "9", "10", "34", "35", "43", "49", "95", "96", "453", "448", "5001", "99999"];

struct App {
    symbols: Symbols,
    application: FixApplication,
    full: bool,
}

impl Application for App {
    fn logon(&mut self, _: usize, _: &Message<'_>) -> Proof {
        Proof::Right
    }

    fn message<S: Store>(
        &mut self,
        _: usize,
        now: Nanos,
        message: &Message<'_>,
        port: &mut Port<'_, S>,
    ) {
        let wanted = self.application.handle(now, message, &self.symbols, port);
        if let Wanted::Command(command) = wanted
            && self.full
        {
            self.application.take_back(now, message, &command, &Refusal::BUSY, port);
        }
    }
}

/// One connection's life, with a client that makes mistakes.
struct Run {
    seed: u64,
    rng: SplitMix64,
    door: Acceptor<MemoryStore>,
    app: App,
    rules: Rules,
    now: Nanos,
    seq: u64,
    /// The number our side is to use next.
    expected_out: u64,
    tally: Tally,
}

#[derive(Clone, Copy, Default, Debug)]
struct Tally {
    sent: u64,
    framed: u64,
    answered: u64,
    logons: u64,
    /// Logouts for Logons of no session.
    strangers: u64,
}

fn pick<'a, T: ?Sized>(rng: &mut SplitMix64, from: &[&'a T]) -> &'a T {
    from[(rng.next_u64() % from.len() as u64) as usize]
}

impl Run {
    fn new(seed: u64, rules: &Rules) -> Run {
        let mut config = SessionConfig::new("FAIR", "MEM7", rules.clone());
        config.queue_messages_max = 32;
        config.queue_bytes_max = 8 << 10;
        config.reset_on_logon = seed.is_multiple_of(3);
        config.tells_reset = seed.is_multiple_of(6);
        if seed.is_multiple_of(2) {
            config.custom_tags = CustomTags::Tolerated;
        }
        let store = MemoryStore::new(32, 8 << 10);
        let limits = Limits { message_max: 2_048, ..Limits::default() };
        let ledger_limits = LedgerLimits { done_max: 8, trades_max: 8, pending_max: 32, salt: 1 };
        let symbols = Symbols::new(&[sample::instrument()]);
        let application = FixApplication::new(rules.version, ledger_limits);
        let app = App { symbols, application, full: seed.is_multiple_of(5) };
        let door = Acceptor::new(vec![(config, store)], limits);
        let mut rng = SplitMix64::new(seed);
        rng.next_u64();
        Run {
            seed,
            rng,
            door,
            app,
            rules: rules.clone(),
            now: START,
            seq: 1,
            expected_out: 1,
            tally: Tally::default(),
        }
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.rng.next_u64().is_multiple_of(one_in)
    }

    /// One message as the client means it.
    fn meant(&mut self, logon: bool) -> String {
        let version = self.rules.version;
        let (kind, body) = match logon {
            true if version == Version::Fix50Sp2 => ("A", "98=0|108=30|1137=9|"),
            true => ("A", "98=0|108=30|"),
            false => BODIES[(self.rng.next_u64() % BODIES.len() as u64) as usize],
        };
        let id = format!("o{}", self.rng.next_u64() % 40);
        let body = body.replace('@', &id).replace('~', &(self.seq + 2).to_string());
        let stamp = String::from_utf8_lossy(StampWriter::default().text(self.now)).into_owned();
        let (begin, seq) = (version.begin_string(), self.seq);
        format!("8={begin}|9=0|35={kind}|34={seq}|49=MEM7|52={stamp}|56=FAIR|{body}")
    }

    /// What leaves the client: perhaps with faults, perhaps repaired.
    fn faulty(&mut self, meant: &str) -> Vec<u8> {
        let mut fields: Vec<String> =
            meant.split('|').filter(|field| !field.is_empty()).map(String::from).collect();
        let faults = self.rng.next_u64() % 4;
        for _ in 0..faults {
            let at = (self.rng.next_u64() % fields.len() as u64) as usize;
            // BeginString and BodyLength mostly stay, or hardly anything would be a message.
            let at = if at < 2 && !self.chance(20) { fields.len() - 1 } else { at };
            let tag = fields[at].split('=').next().unwrap_or("").to_string();
            match self.rng.next_u64() % 8 {
                0 if fields.len() > 3 => {
                    fields.remove(at);
                }
                1 => fields.insert(at, fields[at].clone()),
                2 => {
                    let other = (self.rng.next_u64() % fields.len() as u64) as usize;
                    fields.swap(at, other);
                }
                3 | 4 => fields[at] = format!("{tag}={}", pick(&mut self.rng, VALUES)),
                5 => {
                    let (tag, value) = (pick(&mut self.rng, TAGS), pick(&mut self.rng, VALUES));
                    fields.insert(at + 1, format!("{tag}={value}"));
                }
                6 => fields.insert(at + 1, "95=3|96=a|b".to_string()),
                _ => fields[at].push('z'),
            }
        }
        if fields.len() < 3 || self.chance(50) {
            return fields.join("\x01").into_bytes();
        }
        let text = fields.join("|") + "|";
        let mut wire = sample::wire(&sample::repaired(&text));
        if self.chance(25) {
            let at = (self.rng.next_u64() % wire.len() as u64) as usize;
            wire[at] ^= 1 << (self.rng.next_u64() % 8);
        }
        wire
    }

    fn step(&mut self) {
        let live = self.door.session(0).is_some_and(|session| session.is_live());
        if self.door.session_of(CONN).is_none() {
            self.door.handle_close(CONN);
            self.door.handle_connect(self.now, CONN);
        }
        let next_in = self.door.session(0).map_or(1, |session| u64::from(session.numbers().0));
        let near = [0, 0, 0, 0, 0, 0, 0, 1, 2, 5][(self.rng.next_u64() % 10) as usize];
        self.seq = if self.chance(30) { next_in.saturating_sub(near) } else { next_in + near };
        let meant = self.meant(!live);
        let wire = self.faulty(&meant);
        self.tally.sent += 1;
        let mut framer = Framer::new(2_048);
        framer.push(&wire);
        let whole = framer.next_frame() == Some(Frame::Message(&wire));
        let parsed = FieldIndex::default().parse(&wire).is_ok();
        self.tally.framed += u64::from(whole && parsed);
        self.now = self.now.after(self.rng.next_u64() % (2 * Nanos::SECOND));
        let mut out = Vec::new();
        let mut ending = self.door.handle_bytes(self.now, CONN, &wire, &mut self.app, &mut out);
        if ending.is_none() && self.chance(4) {
            ending = self.door.handle_timeout(self.now, CONN, &mut self.app, &mut out);
        }
        while ending.is_none() && !self.door.wants_input(CONN) {
            ending = self.door.handle_timeout(self.now, CONN, &mut self.app, &mut out);
        }
        self.judge(&out, ending);
        if ending.is_some() {
            self.door.handle_close(CONN);
            self.door.handle_connect(self.now, CONN);
        }
    }

    /// Every answer is a message, valid by the dictionary, with the next number or a possible
    /// duplicate of an old one; memory keeps its bounds.
    fn judge(&mut self, out: &[u8], ending: Option<Ending>) {
        let seed = self.seed;
        let mut framer = Framer::new(64 << 10);
        assert_eq!(framer.push(out), out.len(), "seed {seed}");
        let mut index = FieldIndex::default();
        while let Some(frame) = framer.next_frame() {
            let Frame::Message(bytes) = frame else { panic!("seed {seed}: garbled answer") };
            let text = String::from_utf8_lossy(bytes).replace('\x01', "|");
            let message =
                index.parse(bytes).unwrap_or_else(|e| panic!("seed {seed}: {e:?} {text}"));
            let judged = Checker::default().check(&self.rules, CustomTags::Refused, &message);
            assert_eq!(judged, Ok(()), "seed {seed}: {text}");
            let seq = message.get(34).and_then(uint).unwrap();
            if ending == Some(Ending::UnknownSession) {
                // Of no session, so of no numbers.
                assert_eq!((message.msg_type(), seq), (&b"5"[..], 1), "seed {seed}: {text}");
                self.tally.strangers += 1;
                continue;
            }
            let reset = message.msg_type() == b"A";
            if reset && seq == 1 {
                self.expected_out = 1;
            }
            if message.flag(43) {
                assert!(seq < self.expected_out, "seed {seed}: {text}");
            } else {
                assert_eq!(seq, self.expected_out, "seed {seed}: {text}");
                self.expected_out += 1;
            }
            self.tally.answered += 1;
            self.tally.logons += u64::from(reset);
        }
        assert_eq!(framer.held(), 0, "seed {seed}: half an answer");
        let session = self.door.session(0).unwrap();
        assert!(session.queued_bytes() <= 8 << 10, "seed {seed}");
        assert_eq!(u64::from(session.numbers().1), self.expected_out, "seed {seed} {ending:?}");
    }
}

/// Runs of 200 messages each, `count` messages in all.
fn mutate(rules: &[Rules], first_seed: u64, count: u64) -> Tally {
    let mut total = Tally::default();
    let mut seed = first_seed;
    while total.sent < count {
        let rules = &rules[(seed % rules.len() as u64) as usize];
        let mut run = Run::new(seed, rules);
        for _ in 0..200 {
            run.step();
        }
        total.sent += run.tally.sent;
        total.framed += run.tally.framed;
        total.answered += run.tally.answered;
        total.logons += run.tally.logons;
        total.strangers += run.tally.strangers;
        seed += 1;
    }
    total
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn faulty_dialogues_are_answered_rightly_in_flat_memory() {
    let rules = Version::ALL.map(|version| builtin(version).unwrap());
    let (seed, count) = (number("FAIRBELL_FIX_SEED", 1), number("FAIRBELL_FIX_MUTATIONS", 100_000));
    let tenth = mutate(&rules, seed, count / 10);
    let before = counting::live_bytes();
    let rest = mutate(&rules, seed + count, count - count / 10);
    let grown = counting::live_bytes() - before;
    assert_eq!(grown, 0, "bytes more after nine times the messages");
    let share = rest.framed * 100 / rest.sent;
    assert!(share >= 30, "only {share} % are messages");
    assert!(rest.answered > rest.sent / 10 && rest.logons > 10, "{rest:?}");
    assert!(rest.strangers > 10, "{rest:?}");
    println!(
        "{} messages, {share} % passed framing, {} answers, {} logons, {grown} bytes grown",
        tenth.sent + rest.sent,
        rest.answered,
        rest.logons
    );
    controls(&rules[1]);
}

/// What judges must be able to condemn.
fn controls(rules: &Rules) {
    let condemned = |out: &[u8]| {
        let mut run = Run::new(1, rules);
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let judged =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.judge(out, None)));
        std::panic::set_hook(hook);
        judged.is_err()
    };
    let answer = |fields: &str| {
        let head = "8=FIX.4.4|9=0|35=0|";
        sample::wire(&sample::repaired(&format!("{head}{fields}")))
    };
    let good = "34=1|49=FAIR|52=20270115-08:00:00.000|56=MEM7|";
    // Right in itself, but the session has not sent it: its own number tells.
    assert!(condemned(&answer(good)));
    assert!(!condemned(b""));
    assert!(condemned(&answer(&good.replace("34=1", "34=2"))));
    assert!(condemned(&answer(&format!("{good}58=x|"))));
    assert!(condemned(b"8=FIX.4.4\x019=1"));
    // Without repair hardly anything is a message.
    let mut run = Run::new(7, rules);
    let broken = (0..1_000).filter(|_| {
        let meant = run.meant(false).replace('|', "\x01");
        FieldIndex::default().parse(meant.as_bytes()).is_err()
    });
    assert_eq!(broken.count(), 1_000);
}
