//! The session layer where the public scripts do not look: resends across connections, numbers in
//! the Logon, bounds, timers, and what a hostile or clumsy counterparty gets.

use fix::dictionary::{CustomTags, builtin};
use fix::session::{
    Application, Ending, MemoryStore, MsgType, Port, Proof, SessionConfig, Store, Stored,
};
use fix::value::StampWriter;
use fix::{Acceptor, Ahead, Limits, Message, Version};
use types::{ConnId, Nanos};

const START: Nanos = Nanos(1_800_000_000 * Nanos::SECOND);
const CONN: ConnId = ConnId(1);
const REPORT: MsgType = MsgType::of(b"8").unwrap();

/// Takes everybody with the right password; remembers what came.
#[derive(Default)]
struct App {
    taken: Vec<String>,
}

impl Application for App {
    fn logon(&mut self, _: usize, message: &Message<'_>) -> Proof {
        message.get(554).is_none_or(|password| password == b"secret").into()
    }

    fn message<S: Store>(
        &mut self,
        _: usize,
        _: Nanos,
        message: &Message<'_>,
        _: &mut Port<'_, S>,
    ) {
        let id = message.get(11).unwrap_or(b"?");
        self.taken.push(String::from_utf8_lossy(id).into_owned());
    }
}

struct Bench<S: Store> {
    door: Acceptor<S>,
    app: App,
    now: Nanos,
    seq: u32,
    ending: Option<Ending>,
}

fn config(version: Version) -> SessionConfig {
    SessionConfig::new("FAIR", "MEM7", builtin(version).unwrap())
}

fn bench(change: impl FnOnce(&mut SessionConfig)) -> Bench<MemoryStore> {
    bench_with(MemoryStore::new(100, 1 << 16), change)
}

fn bench_with<S: Store>(store: S, change: impl FnOnce(&mut SessionConfig)) -> Bench<S> {
    let mut config = config(Version::Fix44);
    change(&mut config);
    let door = Acceptor::new(vec![(config, store)], Limits::default());
    let mut bench = Bench { door, app: App::default(), now: START, seq: 1, ending: None };
    bench.door.handle_connect(START, CONN);
    bench
}

fn readable(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes).replace('\x01', "|");
    let messages = text.split("8=FIX").filter(|part| !part.is_empty());
    // What every message has is left out; so is what changes with time.
    let short = |message: &str| {
        let fields = message.split('|').filter(|field| {
            let tag = field.split('=').next().unwrap_or("");
            !["9", "10", "49", "56", "52", "122", ".4.4", ""].contains(&tag)
                && !field.starts_with('.')
        });
        fields.collect::<Vec<_>>().join("|")
    };
    messages.map(short).collect()
}

impl<S: Store> Bench<S> {
    /// Sends a message with the next number: type, then other fields.
    fn send(&mut self, msg_type: &str, fields: &str) -> Vec<String> {
        let seq = self.seq;
        self.seq += 1;
        self.send_as(seq, msg_type, fields)
    }

    fn send_as(&mut self, seq: u32, msg_type: &str, fields: &str) -> Vec<String> {
        let stamp = String::from_utf8_lossy(StampWriter::default().text(self.now)).into_owned();
        let text = crate::sample::repaired(&format!(
            "8=FIX.4.4|9=0|35={msg_type}|34={seq}|49=MEM7|52={stamp}|56=FAIR|{fields}"
        ));
        self.give(&crate::sample::wire(&text))
    }

    fn give(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut out = Vec::new();
        self.ending = self.door.handle_bytes(self.now, CONN, bytes, &mut self.app, &mut out);
        readable(&out)
    }

    fn logon(&mut self, fields: &str) -> Vec<String> {
        self.send("A", &format!("98=0|108=30|{fields}"))
    }

    fn reconnect(&mut self) {
        self.door.handle_close(CONN);
        self.door.handle_connect(self.now, CONN);
    }

    /// The exchange reports something unasked.
    fn report(&mut self, text: &str) -> Vec<String> {
        let mut out = Vec::new();
        let session = self.door.session(0).unwrap();
        session.outbound().send(self.now, REPORT, &mut out, |writer| {
            writer.text(fix::tag::TEXT, text.as_bytes());
        });
        readable(&out)
    }

    fn wait(&mut self, ns: u64) -> Vec<String> {
        self.now = self.now.after(ns);
        let mut out = Vec::new();
        self.ending = self.door.handle_timeout(self.now, CONN, &mut self.app, &mut out);
        readable(&out)
    }
}

fn order(id: &str) -> String {
    format!("11={id}|55=BTCUSD|54=1|60=20270115-08:00:00|38=1|40=2|44=1|")
}

#[test]
fn what_happened_while_away_comes_by_resend() {
    let mut bench = bench(|_| {});
    assert_eq!(bench.logon(""), ["35=A|34=1|98=0|108=30"]);
    assert_eq!(bench.report("one"), ["35=8|34=2|58=one"]);
    bench.reconnect();
    assert!(bench.report("two").is_empty());
    assert!(bench.report("three").is_empty());
    assert_eq!(bench.logon(""), ["35=A|34=5|98=0|108=30"]);
    let resent = bench.send("2", "7=3|16=0|");
    assert_eq!(
        resent,
        ["35=8|34=3|43=Y|58=two", "35=8|34=4|43=Y|58=three", "35=4|34=5|43=Y|36=6|123=Y"]
    );
    assert_eq!(bench.report("four"), ["35=8|34=6|58=four"]);
}

#[test]
fn next_expected_msg_seq_num_saves_the_resend_request() {
    let mut bench = bench(|_| {});
    bench.logon("");
    bench.report("one");
    bench.reconnect();
    bench.report("two");
    // Expecting 2: gets both reports and a gap fill over the Logon it has already.
    let answer = bench.logon("789=2|");
    assert_eq!(
        answer,
        [
            "35=A|34=4|98=0|108=30|789=3",
            "35=8|34=2|43=Y|58=one",
            "35=8|34=3|43=Y|58=two",
            "35=4|34=4|43=Y|36=5|123=Y"
        ]
    );
    bench.reconnect();
    // A Logon ahead of us: our answer says what we expect, nobody asks.
    bench.seq = 9;
    assert_eq!(bench.logon("789=5|"), ["35=A|34=5|98=0|108=30|789=3"]);
    bench.reconnect();
    bench.seq = 3;
    let text = "58=NextExpectedMsgSeqNum too high, expecting at most 6 but received 99";
    assert_eq!(bench.logon("789=99|"), [format!("35=5|34=6|{text}")]);
    assert_eq!(bench.ending, Some(Ending::BadLogon));
    let ahead = Ahead { session: 0, asked: 99, next: 6 };
    assert_eq!(bench.door.take_ahead(), Some(ahead), "for whoever keeps the log");
    assert_eq!(bench.door.take_ahead(), None);
}

#[test]
fn what_comes_between_a_logon_and_its_number_is_resent_without_a_request() {
    let slot = |bench: &mut Bench<MemoryStore>, ticket| {
        let mut out = Vec::new();
        assert_eq!(bench.door.session(0).unwrap().outbound().ask_slot(ticket), Some(false));
        assert_eq!(bench.door.slot(START, 0, ticket, false, &mut out), None);
        readable(&out)
    };
    let mut bench = bench(|_| {});
    bench.door.session(0).unwrap().outbound().number_by_stream();
    bench.logon("");
    assert_eq!(slot(&mut bench, 1), ["35=A|34=1|98=0|108=30"]);
    assert_eq!(bench.report("a"), ["35=8|34=2|58=a"]);
    bench.reconnect();
    // It misses nothing when it logs on, but the stream brings a record before the Logon's number.
    assert!(bench.logon("789=3|").is_empty());
    assert!(bench.report("b").is_empty());
    let resent = ["35=8|34=3|43=Y|58=b", "35=4|34=4|43=Y|36=5|123=Y"];
    let answer = ["35=A|34=4|98=0|108=30|789=3"];
    assert_eq!(slot(&mut bench, 2), [&answer[..], &resent].concat());
    assert_eq!(bench.report("c"), ["35=8|34=5|58=c"]);
    bench.reconnect();
    // What is missed already is resent with what comes meanwhile.
    assert!(bench.logon("789=5|").is_empty());
    assert!(bench.report("d").is_empty());
    let resent = ["35=8|34=5|43=Y|58=c", "35=8|34=6|43=Y|58=d", "35=4|34=7|43=Y|36=8|123=Y"];
    let answer = ["35=A|34=7|98=0|108=30|789=4"];
    assert_eq!(slot(&mut bench, 3), [&answer[..], &resent].concat());
    bench.reconnect();
    // Control: nothing is missed and nothing comes.
    assert!(bench.logon("789=8|").is_empty());
    assert_eq!(slot(&mut bench, 4), ["35=A|34=8|98=0|108=30|789=5"]);
}

#[test]
fn a_reset_that_expects_more_than_the_first_message_is_refused_and_resets_nothing() {
    let mut bench = bench(|_| {});
    bench.logon("");
    bench.report("one");
    bench.send("0", "");
    bench.reconnect();
    let text = "58=NextExpectedMsgSeqNum too high, expecting at most 1 but received 2";
    let refused = bench.send_as(1, "A", "98=0|108=30|141=Y|789=2|");
    assert_eq!(refused, [format!("35=5|34=3|{text}")], "its number goes on");
    assert_eq!(bench.ending, Some(Ending::BadLogon));
    assert_eq!(bench.door.take_ahead(), None, "it says nothing of what was sent before");
    assert_eq!(bench.door.session(0).unwrap().numbers(), (3, 4));
    assert_eq!(bench.door.session(0).unwrap().received(), 2);
    bench.reconnect();
    assert_eq!(bench.logon("789=2|")[1], "35=8|34=2|43=Y|58=one", "it can still be resent");
    // Control: with 1 it begins anew.
    bench.reconnect();
    let answer = bench.send_as(1, "A", "98=0|108=30|141=Y|789=1|");
    assert_eq!(answer, ["35=A|34=1|98=0|108=30|141=Y|789=2"]);
    // Where an account's stream gives the numbers, the Logout asks for a slot that resets nothing.
    let mut bench = self::bench(|_| {});
    bench.door.session(0).unwrap().outbound().number_by_stream();
    assert!(bench.logon("141=Y|789=2|").is_empty(), "it waits for its number");
    assert_eq!(bench.door.session(0).unwrap().outbound().ask_slot(7), Some(false));
    let mut out = Vec::new();
    assert_eq!(bench.door.slot(START, 0, 7, false, &mut out), Some(Ending::BadLogon));
    assert_eq!(readable(&out), [format!("35=5|34=1|{text}")]);
    assert_eq!(bench.door.take_ahead(), None);
    // Where every Logon begins anew, so does the refusal.
    let mut bench = self::bench(|config| config.reset_on_logon = true);
    bench.logon("");
    bench.reconnect();
    assert_eq!(bench.send_as(1, "A", "98=0|108=30|789=2|"), [format!("35=5|34=1|{text}")]);
    assert_eq!(bench.door.take_ahead(), None);
}

#[test]
fn a_reset_of_a_live_session_goes_by_the_rules_of_the_first_logon() {
    let mut bench = bench(|_| {});
    bench.logon("");
    bench.report("one");
    let begun = ["35=A|34=1|98=0|108=30|141=Y|789=2"];
    assert_eq!(bench.send_as(1, "A", "98=0|108=30|141=Y|789=1|"), begun);
    assert_eq!(bench.send_as(2, "1", "112=a|"), ["35=0|34=2|112=a"]);
    // Who does not say what it expects is not told either.
    assert_eq!(bench.send_as(1, "A", "98=0|108=30|141=Y|"), ["35=A|34=1|98=0|108=30|141=Y"]);
    for (seq, fields, text) in [
        (
            1,
            "108=30|141=Y|789=2|",
            "NextExpectedMsgSeqNum too high, expecting at most 1 but received 2",
        ),
        (2, "108=30|141=Y|789=1|", "ResetSeqNumFlag Y goes with MsgSeqNum 1"),
        (1, "108=3601|141=Y|", "HeartBtInt must be 0 to 3600"),
    ] {
        let mut bench = self::bench(|_| {});
        bench.logon("");
        bench.report("one");
        let refused = bench.send_as(seq, "A", &format!("98=0|{fields}"));
        assert_eq!(refused, [format!("35=5|34=3|58={text}")], "its number goes on");
        assert_eq!(bench.ending, None, "it may answer");
        assert_eq!(bench.door.take_ahead(), None);
        assert_eq!(bench.door.session(0).unwrap().numbers(), (2, 4), "nothing begins anew");
        bench.reconnect();
        assert_eq!(bench.send_as(2, "A", "98=0|108=30|789=2|")[1], "35=8|34=2|43=Y|58=one");
    }
}

#[test]
fn a_resend_of_what_was_never_sent_ends_the_session_and_says_nothing_of_the_log() {
    let mut bench = bench(|_| {});
    bench.logon("");
    // Of the next message a client may think that it was lost on the way.
    assert!(bench.send("2", "7=2|16=0|").is_empty());
    assert_eq!(bench.door.take_ahead(), None);
    let text = "58=BeginSeqNo 40 is beyond 1, the last message sent";
    assert_eq!(bench.send("2", "7=40|16=0|"), [format!("35=5|34=2|{text}")]);
    assert_eq!(
        bench.door.take_ahead(),
        None,
        "the client's error alone: the Logon found both agreed"
    );
}

#[test]
fn numbers_go_on_or_begin_again_as_the_logon_says() {
    let mut bench = bench(|_| {});
    bench.logon("");
    bench.send("0", "");
    bench.reconnect();
    let low = "58=MsgSeqNum too low, expecting 3 but received 1";
    assert_eq!(bench.send_as(1, "A", "98=0|108=30|"), [format!("35=5|34=2|{low}")]);
    assert_eq!(bench.ending, Some(Ending::SequenceTooLow));
    bench.reconnect();
    assert_eq!(bench.send_as(1, "A", "98=0|108=30|141=Y|"), ["35=A|34=1|98=0|108=30|141=Y"]);
    assert_eq!(bench.door.session(0).unwrap().numbers(), (2, 2));
    // Only number 1 can begin again.
    bench.reconnect();
    bench.send_as(2, "A", "98=0|108=30|141=Y|");
    assert_eq!(bench.ending, Some(Ending::BadLogon));
}

#[test]
fn who_does_not_begin_anew_with_the_session_is_told_to() {
    let anew =
        |config: &mut SessionConfig| (config.reset_on_logon, config.tells_reset) = (true, true);
    let mut bench = bench(anew);
    // Whoever begins at 1 knows already.
    assert_eq!(bench.logon(""), ["35=A|34=1|98=0|108=30"]);
    assert_eq!(bench.send("1", "112=a|"), ["35=0|34=2|112=a"]);
    bench.reconnect();
    // It would wait for number 3 and disconnect at any lower one.
    assert_eq!(bench.send_as(3, "A", "98=0|108=30|"), ["35=A|34=1|98=0|108=30|141=Y"]);
    assert_eq!(bench.ending, None);
    // A reset begins at 1 with the message behind the Logon.
    assert_eq!(bench.send_as(1, "1", "112=b|"), ["35=0|34=2|112=b"]);
    bench.reconnect();
    // Or with the Logon: then the message behind it is 2, and what is missing a gap fill.
    assert_eq!(bench.send_as(2, "A", "98=0|108=30|789=3|"), ["35=A|34=1|98=0|108=30|141=Y|789=1"]);
    assert_eq!(bench.send_as(2, "1", "112=c|"), ["35=2|34=2|7=1|16=0"]);
    assert_eq!(
        bench.send_as(1, "4", "43=Y|122=20270115-08:00:00|123=Y|36=2|"),
        ["35=0|34=3|112=c"]
    );
    // Who asks for the reset has its Logon counted.
    bench.reconnect();
    assert_eq!(bench.send_as(1, "A", "98=0|108=30|141=Y|"), ["35=A|34=1|98=0|108=30|141=Y"]);
    assert_eq!(bench.send_as(2, "1", "112=d|"), ["35=0|34=2|112=d"]);
    // Numbers that go on, where nothing of before is left: an exchange that kept no log.
    let mut bench = bench_with(MemoryStore::new(9, 999), |config| config.tells_reset = true);
    assert_eq!(bench.send_as(7, "A", "98=0|108=30|"), ["35=A|34=1|98=0|108=30|141=Y"]);
    assert_eq!(bench.send_as(1, "1", "112=e|"), ["35=0|34=2|112=e"]);
    // From then on they go on here, too.
    bench.reconnect();
    let asked = ["35=A|34=3|98=0|108=30", "35=2|34=4|7=2|16=0"];
    assert_eq!(bench.send_as(5, "A", "98=0|108=30|"), asked);
    // Where it is not agreed, a higher number is a gap.
    let mut bench = bench_with(MemoryStore::new(9, 999), |_| {});
    let asked = ["35=A|34=1|98=0|108=30", "35=2|34=2|7=1|16=0"];
    assert_eq!(bench.send_as(7, "A", "98=0|108=30|"), asked);
    let mut bench = bench_with(MemoryStore::new(9, 999), |config| config.reset_on_logon = true);
    let asked = ["35=A|34=1|98=0|108=30", "35=2|34=2|7=1|16=0"];
    assert_eq!(bench.send_as(3, "A", "98=0|108=30|"), asked);
}

#[test]
fn whose_logon_is_refused_is_told_why_and_strangers_cost_no_number() {
    // What is answered, and how many numbers that takes.
    let refused = |message: &str, ending, answer: &[&str], numbers: u32| {
        let mut bench = bench(|_| {});
        let said = bench.give(&crate::sample::wire(&crate::sample::repaired(message)));
        assert_eq!(said, answer, "{message}");
        assert_eq!(bench.ending, Some(ending), "{message}");
        assert_eq!(bench.door.session(0).unwrap().numbers(), (1, 1 + numbers), "{message}");
        if let Some((_, text)) = answer.first().and_then(|text| text.split_once("58=")) {
            let told = bench.door.take_refused().map(|refused| refused.why);
            let known = ending != Ending::NotAuthorized;
            assert_eq!(told.is_some_and(|told| told.starts_with(text)), known, "{message}");
        }
    };
    let at = |time: &str| format!("8=FIX.4.4|9=0|35=A|34=1|52={time}|");
    let head = at("20270115-08:00:00");
    let mine = format!("{head}49=MEM7|56=FAIR|");
    let logout = |text: &str| format!("35=5|34=1|58={text}");
    let unknown = Ending::UnknownSession;
    for (message, text) in [
        (format!("{head}49=MEM8|56=FAIR|98=0|108=30|"), "Unknown SenderCompID"),
        (format!("{head}49=MEM7|56=UNFAIR|98=0|108=30|"), "Unknown TargetCompID"),
    ] {
        refused(&message, unknown, &[&logout(text)], 0);
    }
    // Without a name there is nobody to answer.
    refused(&format!("{head}56=FAIR|98=0|108=30|"), unknown, &[], 0);
    let late = at("20270115-07:57:59") + "49=MEM7|56=FAIR|98=0|108=30|";
    for (message, text) in [
        (format!("{mine}98=0|108=x|"), "Incorrect data format for value: tag 108"),
        (format!("{mine}98=0|"), "Required tag missing: tag 108"),
        (format!("{mine}98=0|108=99999|"), "HeartBtInt must be 0 to 3600"),
        (format!("{mine}98=0|108=30|5001=a|"), "Invalid tag number: tag 5001"),
        (
            at("99991231-23:59:59") + "49=MEM7|56=FAIR|98=0|108=30|",
            "SendingTime is more than 120 s from the exchange's clock",
        ),
        (late, "SendingTime is more than 120 s from the exchange's clock"),
        (mine.replace("34=1", "34=0") + "98=0|108=30|", "MsgSeqNum must be above 0"),
        (
            mine.replace("34=1", "34=2") + "98=0|108=30|141=Y|",
            "ResetSeqNumFlag Y goes with MsgSeqNum 1",
        ),
        (
            format!("{mine}98=0|108=30|789=7|"),
            "NextExpectedMsgSeqNum too high, expecting at most 1 but received 7",
        ),
        (
            format!("{mine}98=0|108=30|141=Y|789=7|"),
            "NextExpectedMsgSeqNum too high, expecting at most 1 but received 7",
        ),
    ] {
        refused(&message, Ending::BadLogon, &[&logout(text)], 1);
        // A stranger hears nothing of it, and takes no number.
        let guess = format!("{message}554=guess|");
        let answer = [logout("Logon refused")];
        let begins_anew = usize::from(message.contains("141=Y"));
        let answer: Vec<&str> = answer.iter().take(begins_anew).map(String::as_str).collect();
        refused(&guess, Ending::NotAuthorized, &answer, 0);
    }
    let other = format!("{mine}98=0|108=30|").replace("FIX.4.4", "FIX.4.3");
    refused(&other, unknown, &["35=5|34=1|58=BeginString of this session is FIX.4.4"], 0);
    refused(&head.replace("35=A", "35=0"), Ending::NotLogon, &[], 0);
    let mut bench = bench(|_| {});
    bench.give(b"GET / HTTP/1.1\r\n\r\n");
    assert_eq!(bench.ending, Some(Ending::Garbled));
    bench.reconnect();
    assert!(bench.wait(9 * Nanos::SECOND).is_empty());
    assert_eq!(bench.ending, None);
    bench.wait(Nanos::SECOND);
    assert_eq!(bench.ending, Some(Ending::LogonTimeout));
    // Control: the right one gets in.
    bench.reconnect();
    assert_eq!(bench.logon("554=secret|"), ["35=A|34=1|98=0|108=30"]);
}

#[test]
fn a_second_logon_leaves_the_first_alone() {
    let mut bench = bench(|_| {});
    bench.logon("");
    let other = ConnId(2);
    bench.door.handle_connect(START, other);
    let text = "8=FIX.4.4|9=0|35=A|34=1|49=MEM7|52=20270115-08:00:00|56=FAIR|98=0|108=30|";
    let bytes = crate::sample::wire(&crate::sample::repaired(text));
    let mut out = Vec::new();
    let ending = bench.door.handle_bytes(START, other, &bytes, &mut bench.app, &mut out);
    assert_eq!((ending, out.len()), (Some(Ending::AlreadyLoggedOn), 0));
    bench.door.handle_close(other);
    assert_eq!(bench.door.connection_of(0), Some(CONN));
    assert_eq!(bench.send("1", "112=x|"), ["35=0|34=2|112=x"]);
}

#[test]
fn early_messages_wait_and_come_in_order_once() {
    let mut bench = bench(|_| {});
    bench.logon("");
    assert_eq!(bench.send_as(4, "D", &order("c")), ["35=2|34=2|7=2|16=0"]);
    assert!(bench.send_as(3, "D", &order("b")).is_empty());
    assert!(bench.send_as(3, "D", &order("x")).is_empty());
    assert!(bench.app.taken.is_empty());
    assert!(bench.send_as(2, "D", &order("a")).is_empty());
    assert_eq!(bench.app.taken, ["a", "b", "c"]);
    assert_eq!(bench.door.session(0).unwrap().numbers().0, 5);
    // A duplicate of what has been taken is not taken again.
    assert!(
        bench.send_as(3, "D", &format!("43=Y|122=20270115-08:00:00|{}", order("b"))).is_empty()
    );
    assert_eq!(bench.app.taken.len(), 3);
    // A second gap behind the first is asked for when the first is closed.
    bench.send_as(7, "D", &order("f"));
    bench.send_as(9, "D", &order("h"));
    bench.send_as(5, "D", &order("d"));
    assert_eq!(bench.send_as(6, "D", &order("e")), ["35=2|34=4|7=8|16=0"]);
    bench.send_as(8, "D", &order("g"));
    assert_eq!(bench.app.taken.concat(), "abcdefgh");
}

#[test]
fn a_gap_that_stays_is_asked_for_again_later() {
    let mut bench = bench(|config| config.gap_retry_ns = 5 * Nanos::SECOND);
    bench.logon("");
    assert_eq!(bench.send_as(4, "0", ""), ["35=2|34=2|7=2|16=0"]);
    assert!(bench.send_as(5, "0", "").is_empty());
    bench.now = bench.now.after(5 * Nanos::SECOND);
    assert_eq!(bench.send_as(6, "0", ""), ["35=2|34=3|7=2|16=0"]);
    bench.send_as(2, "4", "123=Y|36=4|");
    assert_eq!(bench.door.session(0).unwrap().numbers().0, 7);
}

#[test]
fn the_queue_is_bounded_and_nothing_is_lost_for_it() {
    let mut bench = bench(|config| {
        config.queue_messages_max = 10;
        config.queue_bytes_max = 5_000;
    });
    bench.logon("");
    for seq in 3..1_000 {
        bench.send_as(seq, "D", &order(&format!("o{seq}")));
        assert!(bench.door.session(0).unwrap().queued_bytes() <= 5_000);
    }
    // What did not fit is asked for again.
    let answer = bench.send_as(2, "D", &order("o2"));
    assert_eq!(bench.app.taken.len(), 11);
    assert!(answer.is_empty(), "{answer:?}");
    assert_eq!(bench.send_as(1_000, "0", ""), ["35=2|34=3|7=13|16=0"]);
}

#[test]
fn a_long_resend_goes_in_slices_and_new_messages_wait_their_turn() {
    let mut bench = bench(|config| config.resend_slice = 400);
    bench.logon("");
    for number in 0..10 {
        bench.report(&format!("old {number}"));
    }
    let mut sent = bench.send("2", "7=2|16=0|");
    assert!(sent.len() < 10 && !bench.door.wants_input(CONN));
    assert_eq!(bench.door.next_timeout(CONN), Nanos(0));
    assert!(bench.report("new").is_empty(), "it must not jump ahead");
    // Input waits as well.
    assert!(bench.send("1", "112=later|").is_empty());
    while !bench.door.wants_input(CONN) {
        sent.extend(bench.wait(0));
    }
    let numbers: Vec<String> = (2..13).map(|number| format!("34={number}|")).collect();
    for (message, number) in sent.iter().zip(&numbers) {
        assert!(message.contains(number), "{message}");
        assert_eq!(message.contains("43=Y"), number != "34=12|", "{message}");
    }
    assert_eq!(sent.last().unwrap(), "35=0|34=13|112=later");
    assert_eq!(sent.len(), 12);
}

/// A store whose old messages are elsewhere until they have been fetched.
struct Remote {
    inner: MemoryStore,
    here: bool,
}

impl Store for Remote {
    fn next(&self) -> u32 {
        self.inner.next()
    }
    fn push_admin(&mut self) {
        self.inner.push_admin();
    }
    fn push_application(&mut self, at: Nanos, msg_type: MsgType, body: &[u8]) {
        self.inner.push_application(at, msg_type, body);
    }
    fn read(&mut self, seq: u32, body: &mut Vec<u8>) -> Stored {
        // Asked once, it is fetched for the next time.
        if std::mem::replace(&mut self.here, true) {
            return self.inner.read(seq, body);
        }
        Stored::Pending
    }
    fn reset(&mut self) {
        self.inner.reset();
    }
    fn skip_to(&mut self, next: u32) {
        self.inner.skip_to(next);
    }
}

#[test]
fn a_store_that_has_to_fetch_is_waited_for() {
    let store = Remote { inner: MemoryStore::new(10, 1_000), here: false };
    let mut bench = bench_with(store, |_| {});
    bench.logon("");
    bench.report("far");
    assert!(bench.send("2", "7=1|16=0|").is_empty());
    assert!(!bench.door.wants_input(CONN));
    let sent = bench.wait(0);
    assert_eq!(sent, ["35=4|34=1|43=Y|36=2|123=Y", "35=8|34=2|43=Y|58=far"]);
    assert!(bench.door.wants_input(CONN));
}

#[test]
fn resend_requests_that_make_no_sense_are_rejected() {
    let mut bench = bench(|_| {});
    bench.logon("");
    for range in ["7=0|16=0|", "7=5|16=4|"] {
        let answer = bench.send("2", range);
        assert!(answer[0].contains("371=7|372=2|373=5"), "{answer:?}");
    }
    // Nothing is missing: nothing is sent.
    assert!(bench.send("2", "7=4|16=0|").is_empty());
    let mut storm = 0;
    for _ in 0..1_000 {
        storm += bench.send("2", "7=1|16=0|").len();
    }
    assert_eq!(storm, 1_000, "one gap fill each");
}

#[test]
fn heartbeats_tests_and_silence() {
    let second = Nanos::SECOND;
    let mut bench = bench(|_| {});
    bench.send("A", "98=0|108=10|");
    assert_eq!(bench.door.next_timeout(CONN), START.after(10 * second));
    assert!(bench.wait(9 * second).is_empty());
    assert_eq!(bench.wait(second), ["35=0|34=2"]);
    assert_eq!(bench.wait(2 * second), ["35=1|34=3|112=TEST"]);
    // No heartbeats while the test is out; what is due is the end.
    assert!(bench.wait(11 * second).is_empty());
    assert_eq!(bench.ending, None);
    assert!(bench.wait(second).is_empty());
    assert_eq!(bench.ending, Some(Ending::Silent));
    // While its bytes are not read it is neither asked nor taken for silent.
    let mut unread = self::bench(|_| {});
    unread.send("A", "98=0|108=10|");
    for _ in 0..10 {
        unread.door.note_reading(unread.now, CONN, false);
        let said = unread.wait(9 * second);
        assert!(said.iter().all(|one| one.starts_with("35=0")), "{said:?}");
    }
    unread.door.note_reading(unread.now, CONN, true);
    assert_eq!(unread.wait(3 * second).last().map(String::as_str), Some("35=1|34=7|112=TEST"));
    // HeartBtInt 0: none of it.
    let mut quiet = self::bench(|_| {});
    quiet.send("A", "98=0|108=0|");
    assert_eq!(quiet.door.next_timeout(CONN), Nanos::NEVER);
    assert!(quiet.wait(1_000 * second).is_empty());
}

#[test]
fn after_our_logout_requests_are_not_taken_and_the_wait_ends() {
    let mut bench = bench(|_| {});
    bench.logon("");
    let mut out = Vec::new();
    bench.door.session(0).unwrap().logout(START, "End of day", &mut out);
    assert_eq!(readable(&out), ["35=5|34=2|58=End of day"]);
    assert!(bench.send("D", &order("late")).is_empty());
    assert!(bench.app.taken.is_empty());
    // It keeps its number, so it will be asked for.
    assert_eq!(bench.door.session(0).unwrap().numbers().0, 2);
    assert_eq!(bench.send("2", "7=1|16=0|").len(), 1);
    bench.wait(2 * Nanos::SECOND);
    assert_eq!(bench.ending, Some(Ending::LogoutTimeout));
    bench.reconnect();
    bench.logon("");
    let answer = bench.send("5", "");
    assert_eq!((answer.len(), bench.ending), (1, Some(Ending::LoggedOut)));
}

#[test]
fn custom_tags_are_as_agreed() {
    for (custom, taken) in [(CustomTags::Refused, 0), (CustomTags::Tolerated, 1)] {
        let mut bench = bench(|config| config.custom_tags = custom);
        bench.logon("");
        let answer = bench.send("D", &format!("{}5001=x|", order("a")));
        assert_eq!(bench.app.taken.len(), taken);
        assert_eq!(answer.len(), 1 - taken);
    }
}

#[test]
fn a_new_gateway_goes_on_where_the_old_one_was() {
    let mut store = MemoryStore::new(10, 1_000);
    store.skip_to(41);
    store.push_application(START, REPORT, b"58=old\x01");
    let mut bench = bench_with(store, |_| {});
    bench.door.session(0).unwrap().restore(0, 16);
    bench.seq = 17;
    assert_eq!(bench.logon(""), ["35=A|34=42|98=0|108=30"]);
    let sent = bench.send("2", "7=40|16=0|");
    assert_eq!(
        sent,
        ["35=4|34=40|43=Y|36=41|123=Y", "35=8|34=41|43=Y|58=old", "35=4|34=42|43=Y|36=43|123=Y"]
    );
}

#[test]
fn one_read_may_hold_many_messages_or_parts_of_one() {
    let run = |piece: usize| {
        let mut bench = bench(|_| {});
        let mut bytes = Vec::new();
        for (seq, msg_type, fields) in
            [(1, "A", "98=0|108=30|"), (2, "1", "112=a|"), (3, "1", "112=b|")]
        {
            let text = format!(
                "8=FIX.4.4|9=0|35={msg_type}|34={seq}|49=MEM7|52=20270115-08:00:00|56=FAIR|{fields}"
            );
            bytes.extend(crate::sample::wire(&crate::sample::repaired(&text)));
        }
        let answers = bytes.chunks(piece).flat_map(|chunk| bench.give(chunk));
        answers.collect::<Vec<_>>()
    };
    let whole = run(10_000);
    assert_eq!(whole, ["35=A|34=1|98=0|108=30", "35=0|34=2|112=a", "35=0|34=3|112=b"]);
    for piece in [1, 2, 7, 100] {
        assert_eq!(run(piece), whole);
    }
}
