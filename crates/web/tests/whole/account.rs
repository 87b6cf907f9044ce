//! An account's session against a gateway played by hand: what it sends, how often, and what it makes of
//! the account's stream.

use serde_json::{Value, json};
use tokio::sync::oneshot;
use types::{
    ClOrdId, CommandKind, ConnId, Nanos, Op, Outbox, Peer, Price, Qty, Side, SplitMix64,
    TimeInForce,
};
use web::account::{Account, Ask, Fault, Login, Reply, ReplyTo, Stamps};
use web::request::{self, Handling, New};
use wire::soupbin::{ServerPacket, SessionName};

use crate::instruments;

const SECOND: u64 = Nanos::SECOND;

pub(crate) fn id(text: &str) -> ClOrdId {
    request::client_id(text).expect("an id")
}

pub(crate) fn buy(name: &str, lots: u64) -> Ask {
    Ask::New(New {
        client_id: Some(id(name)),
        instrument: instruments().0[0],
        side: Side::Buy,
        qty: Qty(lots),
        price: Some(Price(1_000_000)),
        time_in_force: TimeInForce::Day,
        post_only: false,
        handling: Handling::default(),
    })
}

pub(crate) struct Bench {
    pub(crate) account: Account,
    pub(crate) now: Nanos,
    pub(crate) out: Outbox,
    conns: u32,
    /// OUCH messages that the account has sent since its last [`Bench::log_in`].
    pub(crate) sent: Vec<Vec<u8>>,
    /// The first message that each of its logins wanted.
    pub(crate) asked: Vec<u64>,
    /// It has logged out on its present connection.
    pub(crate) left: bool,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        let login =
            Login { username: "U".into(), password: "p".into(), gateways: vec![Peer::Addr(7)] };
        let account = Account::new(login, instruments()).expect("a login");
        Bench {
            account,
            now: Nanos(SECOND),
            out: Outbox::default(),
            conns: 0,
            sent: Vec::new(),
            asked: Vec::new(),
            left: false,
        }
    }

    /// Takes what the outbox has: messages of the account's, from their packets.
    pub(crate) fn drain(&mut self) {
        for op in self.out.ops() {
            let Op::Stream { bytes, .. } = op else { continue };
            let mut rest = self.out.bytes(*bytes);
            while let Some((len, body)) = rest.split_first_chunk::<2>() {
                let (packet, after) = body.split_at(u16::from_be_bytes(*len).into());
                match packet[0] {
                    b'U' => self.sent.push(packet[1..].to_vec()),
                    b'L' => {
                        let number = std::str::from_utf8(&packet[27..47]).expect("digits");
                        self.asked.push(number.trim().parse().expect("a number"));
                    }
                    b'O' => self.left = true,
                    _ => {}
                }
                rest = after;
            }
        }
        self.out.clear();
    }

    pub(crate) fn pass(&mut self, ns: u64) {
        self.now = self.now.after(ns);
        self.conns += 1;
        self.account.handle_timeout(self.now, ConnId(self.conns), &mut self.out);
        self.place();
    }

    pub(crate) fn ask(&mut self, ask: Ask) -> oneshot::Receiver<Reply> {
        let (to, from) = ReplyTo::new(self.now);
        self.account.ask(self.now, ask, to, &mut self.out);
        self.place();
        from
    }

    pub(crate) fn told(&mut self, packets: &[ServerPacket<'_>]) {
        let mut bytes = Vec::new();
        packets.iter().for_each(|packet| packet.encode(&mut bytes).expect("encodes"));
        self.account.handle_stream(self.now, &bytes, &mut self.out);
        self.place();
    }

    /// As the node does behind each call: every order has three before it.
    fn place(&mut self) {
        self.account.place_replies(|_| Some(json!({ "orders_ahead": 3 })));
        self.drain();
    }

    /// From nothing to a session whose replay is over; the stream goes on with message `next`.
    pub(crate) fn log_in(&mut self, next: u64, replay: &[Vec<u8>]) {
        self.sent.clear();
        self.pass(SECOND);
        self.enter(next + replay.len() as u64);
        let packets: Vec<_> =
            replay.iter().map(|message| ServerPacket::Sequenced(message)).collect();
        self.told(&packets);
        self.pass(SECOND);
    }

    /// Its connection is open: answers logins, as often as it logs out again, while the stream's next message
    /// is `end`; the first message that it gets then.
    pub(crate) fn enter(&mut self, end: u64) -> u64 {
        for _ in 0..3 {
            let from = self.answer(end, &[]);
            if !self.left {
                return from;
            }
            self.account.handle_close(self.now);
            self.pass(0);
        }
        panic!("logins {:?}", self.asked);
    }

    /// Answers a login as a gateway does, with these messages behind the answer; the first message that it gets.
    pub(crate) fn answer(&mut self, end: u64, messages: &[Vec<u8>]) -> u64 {
        self.left = false;
        self.account.handle_connect(self.now, &mut self.out);
        self.drain();
        let from = match self.asked.last() {
            Some(0) | None => end,
            Some(asked) => end.min(*asked),
        };
        let session: SessionName = *b"         1";
        let mut packets = vec![ServerPacket::LoginAccepted { session, sequence: from }];
        packets.extend(messages.iter().map(|message| ServerPacket::Sequenced(message)));
        self.told(&packets);
        from
    }

    /// An order of a stream that another door has written.
    fn account_knows(&mut self, name: &str, lots: u32) {
        self.stream(&accepted(1_000, lots, name));
    }

    pub(crate) fn stream(&mut self, message: &[u8]) {
        self.told(&[ServerPacket::Sequenced(message)]);
    }
}

/// A message of the exchange: its type, the time, then these fields; with an empty appendage if it has one.
pub(crate) fn message(kind: u8, fields: &[&[u8]], appendage: bool) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend(9u64.to_be_bytes());
    fields.iter().for_each(|field| bytes.extend_from_slice(field));
    if appendage {
        bytes.extend([0, 0]);
    }
    bytes
}

pub(crate) fn accepted(number: u32, lots: u32, name: &str) -> Vec<u8> {
    let (price, reference) = (1_000_000u64.to_be_bytes(), 77u64.to_be_bytes());
    let fields: [&[u8]; 12] = [
        &number.to_be_bytes(),
        b"B",
        &lots.to_be_bytes(),
        b"AAA     ",
        &price,
        b"0",
        b"Y",
        &reference,
        b"A",
        b"N",
        b"N",
        b"L",
    ];
    let mut fields = fields.to_vec();
    let name = id(name);
    fields.push(&name.0);
    message(b'A', &fields, true)
}

pub(crate) fn executed(number: u32, lots: u32, price: u64, trade: u64) -> Vec<u8> {
    let fields: [&[u8]; 5] = [
        &number.to_be_bytes(),
        &lots.to_be_bytes(),
        &price.to_be_bytes(),
        b"A",
        &trade.to_be_bytes(),
    ];
    message(b'E', &fields, true)
}

pub(crate) fn cancelled(number: u32, lots: u32) -> Vec<u8> {
    message(b'C', &[&number.to_be_bytes(), &lots.to_be_bytes(), b"U"], false)
}

pub(crate) fn done(reply: &mut oneshot::Receiver<Reply>) -> Reply {
    reply.try_recv().expect("answered")
}

pub(crate) fn number_of(message: &[u8]) -> u32 {
    u32::from_be_bytes(message[1..5].try_into().expect("4 bytes"))
}

#[test]
fn an_order_is_entered_once_and_its_name_says_what_became_of_it() {
    let mut bench = Bench::new();
    assert_eq!(bench.account.next_timeout(), Nanos::NEVER, "nobody has asked for anything");
    let mut first = bench.ask(buy("a", 25));
    assert!(bench.sent.is_empty(), "not connected");
    bench.log_in(1, &[]);
    assert_eq!(bench.sent.len(), 1);
    let number = number_of(&bench.sent[0]);
    // The same again, before and after its answer, enters nothing.
    let mut again = bench.ask(buy("a", 25));
    bench.stream(&accepted(number, 25, "a"));
    let (one, two) = (done(&mut first).expect("taken"), done(&mut again).expect("taken"));
    assert_eq!(
        (&one["state"], &one["qty"], &one["open"]),
        (&"open".into(), &"2.5".into(), &"2.5".into())
    );
    assert_eq!(one, two);
    assert_eq!(one["queue"]["orders_ahead"], 3, "with its place among others");
    let mut later = bench.ask(buy("a", 25));
    assert_eq!(done(&mut later).expect("known")["order_id"], one["order_id"]);
    assert_eq!(bench.sent.len(), 1);
    // Other terms under the same name are refused.
    let mut other = bench.ask(buy("a", 26));
    assert_eq!(done(&mut other).unwrap_err().code, "client_order_id_used");
    bench.stream(&executed(number, 10, 990_000, 5));
    let mut state = bench.ask(Ask::Order(id("a"), None));
    let order = done(&mut state).expect("known");
    assert_eq!((&order["filled"], &order["open"]), (&"1".into(), &"1.5".into()));
    let mut held = bench.ask(Ask::Positions);
    let held = done(&mut held).expect("known");
    assert_eq!(
        (&held["positions"][0]["position"], &held["positions"][0]["cash"]),
        (&"1".into(), &"-99".into())
    );
    // The trade is broken: position and cash are what they were.
    let broken: [&[u8]; 4] = [&number.to_be_bytes(), &5u64.to_be_bytes(), b"E", &id("a").0];
    bench.stream(&message(b'B', &broken, false));
    let mut held = bench.ask(Ask::Positions);
    assert_eq!(done(&mut held).expect("known")["positions"][0]["position"], "0");
}

#[test]
fn what_has_no_answer_goes_again_under_its_number_and_replays_tell_what_was() {
    let mut bench = Bench::new();
    let mut first = bench.ask(buy("a", 5));
    bench.log_in(1, &[]);
    let sent = bench.sent.clone();
    bench.account.handle_close(bench.now);
    // While it is away nothing is taken that may not come through.
    let mut away = bench.ask(buy("b", 5));
    assert_eq!(done(&mut away).unwrap_err().code, "session_down");
    bench.log_in(1, &[]);
    assert_eq!(bench.sent, sent, "the same bytes");
    bench.stream(&accepted(number_of(&sent[0]), 5, "a"));
    assert!(done(&mut first).is_ok());
    // Another start of the door reads the stream from its beginning: the name is known.
    let mut other = Bench::new();
    let mut asked = other.ask(buy("a", 5));
    other.log_in(1, &[accepted(41, 5, "a"), executed(41, 5, 1_000_000, 1)]);
    assert_eq!(done(&mut asked).expect("known")["state"], "filled");
    assert!(other.sent.is_empty());
    drop(other.ask(buy("b", 5)));
    assert_eq!(number_of(&other.sent[0]), 42, "numbers go on");
}

#[test]
fn refusals_cancels_and_the_dead_mans_switch() {
    let mut bench = Bench::new();
    let mut first = bench.ask(buy("a", 5));
    bench.log_in(1, &[]);
    let number = number_of(&bench.sent[0]);
    let rejected: [&[u8]; 3] = [&number.to_be_bytes(), &0x1Du16.to_be_bytes(), &id("a").0];
    bench.stream(&message(b'J', &rejected, false));
    let refused = done(&mut first).unwrap_err();
    assert!(refused.code == "rejected" && refused.message.starts_with("0x001D"), "{refused:?}");
    let mut cancel = bench.ask(Ask::Cancel(id("a")));
    assert_eq!(done(&mut cancel).unwrap_err().code, "not_open");
    let mut unknown = bench.ask(Ask::Cancel(id("zz")));
    assert_eq!(done(&mut unknown).unwrap_err().code, "not_found");
    // One that is open is cancelled; the same again finds it so.
    drop(bench.ask(buy("b", 5)));
    let number = number_of(&bench.sent[1]);
    bench.stream(&accepted(number, 5, "b"));
    let mut cancel = bench.ask(Ask::Cancel(id("b")));
    assert_eq!((bench.sent[2][0], number_of(&bench.sent[2])), (b'X', number));
    let cancelled: [&[u8]; 3] = [&number.to_be_bytes(), &5u32.to_be_bytes(), b"U"];
    bench.stream(&message(b'C', &cancelled, false));
    assert_eq!(done(&mut cancel).expect("done")["state"], "cancelled");
    let mut again = bench.ask(Ask::Cancel(id("b")));
    assert_eq!(done(&mut again).expect("known")["state"], "cancelled");
    // The switch is asked for again once, then goes off once.
    drop(bench.ask(Ask::CancelAfter(1_000)));
    bench.pass(SECOND / 2);
    drop(bench.ask(Ask::CancelAfter(1_000)));
    bench.pass(SECOND / 2 + SECOND / 4);
    assert_eq!(bench.sent.len(), 3);
    bench.pass(SECOND / 2);
    bench.pass(5 * SECOND);
    assert_eq!(bench.sent.len(), 4);
    assert_eq!(bench.sent[3][0], b'C', "a mass cancel");
}

#[test]
fn requests_tell_once_when_they_were_where() {
    let mut bench = Bench::new();
    bench.account.set_midnight(Nanos(0));
    let mut first = bench.ask(buy("a", 5));
    let came = bench.now;
    bench.log_in(1, &[]);
    let (number, sent) = (number_of(&bench.sent[0]), bench.now);
    let told = |bench: &mut Bench| bench.account.take_stamps().collect::<Vec<_>>();
    assert_eq!(told(&mut bench), [], "it has no answer");
    bench.now = bench.now.after(5);
    bench.stream(&accepted(number, 5, "a"));
    assert!(done(&mut first).is_ok());
    let entered = Stamps {
        number,
        command: CommandKind::NewOrder,
        came,
        sent,
        // The time in the exchange's message.
        logged: Some(Nanos(9)),
        answered: bench.now,
        refused: false,
    };
    assert_eq!(told(&mut bench), [entered]);
    // What the account does without being asked, and what is answered from what is known, is no request.
    bench.stream(&executed(number, 1, 990_000, 5));
    drop(bench.ask(buy("a", 5)));
    assert_eq!(told(&mut bench), []);
    drop(bench.ask(buy("b", 5)));
    let (number, asked) = (number_of(&bench.sent[1]), bench.now);
    let rejected: [&[u8]; 3] = [&number.to_be_bytes(), &0x1Du16.to_be_bytes(), &id("b").0];
    bench.stream(&message(b'J', &rejected, false));
    drop(bench.ask(Ask::MassCancel(None)));
    let mass = number_of(&bench.sent[2]);
    bench.stream(&message(b'I', &[&mass.to_be_bytes()], false));
    let (refused, both) = (true, told(&mut bench));
    let times = Stamps { came: asked, sent: asked, answered: asked, refused, ..entered };
    let mass = Stamps { number: mass, command: CommandKind::MassCancel, ..times };
    assert_eq!(both, [Stamps { number, ..times }, mass]);
}

pub(crate) fn with(ask: Ask, change: impl FnOnce(&mut New)) -> Ask {
    let Ask::New(mut new) = ask else { panic!("no new order") };
    change(&mut new);
    Ask::New(new)
}

#[test]
fn an_order_that_does_not_rest_is_answered_when_it_is_over() {
    let mut bench = Bench::new();
    let ioc = |new: &mut New| new.time_in_force = TimeInForce::ImmediateOrCancel;
    let mut first = bench.ask(with(buy("a", 25), ioc));
    bench.log_in(1, &[]);
    let number = number_of(&bench.sent[0]);
    let mut taken = accepted(number, 25, "a");
    // Its life, as the gateway repeats it.
    taken[34] = b'3';
    bench.stream(&taken);
    assert!(first.try_recv().is_err(), "it is not over");
    let mut again = bench.ask(with(buy("a", 25), ioc));
    bench.stream(&executed(number, 10, 1_000_000, 5));
    assert!(first.try_recv().is_err() && again.try_recv().is_err());
    let cancelled: [&[u8]; 3] = [&number.to_be_bytes(), &15u32.to_be_bytes(), b"I"];
    bench.stream(&message(b'C', &cancelled, false));
    let told = done(&mut first).expect("over");
    assert_eq!((&told["state"], &told["filled"]), (&"cancelled".into(), &"1".into()));
    assert_eq!(done(&mut again).expect("over"), told);
    // One that waits for an auction is told as it stands.
    let mut waits = bench.ask(with(buy("b", 5), |new| new.price = None));
    let number = number_of(&bench.sent[1]);
    let mut taken = accepted(number, 5, "b");
    taken[26..34].copy_from_slice(&types::limits::PRICE_MARKET.to_be_bytes());
    bench.stream(&taken);
    assert!(waits.try_recv().is_err());
    bench.pass(SECOND);
    assert_eq!(done(&mut waits).expect("told")["state"], "open");
}

#[test]
fn a_check_refuses_a_quantity_below_the_smallest_as_the_exchange_does() {
    let mut bench = Bench::new();
    bench.account.set_qty_min(&[Qty(5)]);
    drop(bench.ask(Ask::Positions));
    bench.log_in(1, &[]);
    bench.account_knows("r", 9);
    let checked = |name: &str, qty: &str| {
        let body =
            json!({ "client_order_id": name, "qty": qty, "price": "1", "validate_only": true });
        request::replace(body.to_string().as_bytes()).expect("a replace")
    };
    for (lots, qty, good) in [(4, "0.4", false), (5, "0.5", true)] {
        let only_checked = |new: &mut New| new.handling.validate_only = true;
        let mut new = bench.ask(with(buy("a", lots), only_checked));
        let mut replaced = bench.ask(Ask::Replace(id("r"), checked("s", qty)));
        for answer in [done(&mut new), done(&mut replaced)] {
            match answer {
                Ok(told) => assert!(good && told["state"] == "valid", "{told}"),
                Err(refused) => {
                    assert!(!good && refused.code == "rejected", "{refused:?}");
                    let why = "0x0013 invalid quantity";
                    assert!(refused.message.starts_with(why), "{refused:?}");
                    assert!(refused.message.contains("0.5 at least"), "{refused:?}");
                }
            }
        }
    }
    assert!(bench.sent.is_empty());
    // Control: the exchange, whose operators may have set another one meanwhile, is asked by what is no check.
    drop(bench.ask(buy("b", 4)));
    assert_eq!(bench.sent.len(), 1);
}

#[test]
fn deadlines_and_checks_send_nothing() {
    let mut bench = Bench::new();
    drop(bench.ask(Ask::Positions));
    bench.log_in(1, &[]);
    let now_ms = bench.now.0 / Nanos::MILLI;
    let by = |at_ms| with(buy("a", 5), move |new| new.handling.deadline_ms = Some(at_ms));
    let mut late = bench.ask(by(now_ms - 1));
    assert_eq!(done(&mut late).unwrap_err().code, "deadline_passed");
    let mut checked = bench.ask(with(buy("a", 5), |new| new.handling.validate_only = true));
    assert_eq!(done(&mut checked).expect("good")["state"], "valid");
    let mut odd = bench.ask(with(buy("a", 5), |new| new.price = Some(Price(1_000_050))));
    let refused = done(&mut odd).unwrap_err();
    assert!(refused.code == "bad_field" && refused.message.contains("tick"), "{refused:?}");
    // A replacement's quantity, of which the instrument is known here only, says its bounds.
    bench.account_knows("r", 5);
    for qty in ["0", "0.05", "429496729.6"] {
        let body = json!({ "client_order_id": "s", "qty": qty, "price": "1" }).to_string();
        let replace = request::replace(body.as_bytes()).expect("a replace");
        let mut replaced = bench.ask(Ask::Replace(id("r"), replace));
        let refused = done(&mut replaced).unwrap_err();
        let bounds = refused.message.contains("429496729.5") && refused.message.contains("qty");
        assert!(refused.code == "bad_field" && bounds, "{refused:?}");
    }
    assert!(bench.sent.is_empty());
    drop(bench.ask(by(now_ms)));
    assert_eq!(bench.sent.len(), 1, "in time");
}

fn replace(of: &str, by: &str, qty: &str) -> Ask {
    let body = json!({ "client_order_id": by, "qty": qty, "price": "100" }).to_string();
    Ask::Replace(id(of), request::replace(body.as_bytes()).expect("a replace"))
}

/// The number of a replacement: its request names the order that it replaces first.
fn own_number(message: &[u8]) -> u32 {
    u32::from_be_bytes(message[5..9].try_into().expect("4 bytes"))
}

fn rejected(number: u32, code: u16, name: &str) -> Vec<u8> {
    message(b'J', &[&number.to_be_bytes(), &code.to_be_bytes(), &id(name).0], false)
}

/// The exchange's word that `number` stands in the place of `orig`, with so many lots open.
pub(crate) fn replaced(orig: u32, number: u32, lots: u32, name: &str) -> Vec<u8> {
    let (price, reference) = (1_000_000u64.to_be_bytes(), 78u64.to_be_bytes());
    let fields: [&[u8]; 13] = [
        &orig.to_be_bytes(),
        &number.to_be_bytes(),
        b"B",
        &lots.to_be_bytes(),
        b"AAA     ",
        &price,
        b"0",
        b"Y",
        &reference,
        b"A",
        b"N",
        b"N",
        b"L",
    ];
    let mut fields = fields.to_vec();
    let name = id(name);
    fields.push(&name.0);
    message(b'U', &fields, true)
}

#[test]
fn a_replacement_that_is_rejected_has_nothing_of_the_order_that_it_did_not_replace() {
    let mut bench = Bench::new();
    drop(bench.ask(buy("s3", 10)));
    bench.log_in(1, &[]);
    let mut events = bench.account.events().subscribe();
    let number = number_of(&bench.sent[0]);
    bench.stream(&accepted(number, 10, "s3"));
    bench.stream(&executed(number, 6, 1_000_000, 1));
    let mut asked = bench.ask(replace("s3", "s4", "0.4"));
    let told = |bench: &mut Bench, name: &str| {
        let mut state = bench.ask(Ask::Order(id(name), None));
        done(&mut state).expect("known")
    };
    assert_eq!(told(&mut bench, "s4")["order_ref"], "0", "nothing rests under this name yet");
    let second = own_number(&bench.sent[1]);
    while events.try_recv().is_ok() {}
    bench.stream(&rejected(second, 0x4602, "s4"));
    assert_eq!(done(&mut asked).unwrap_err().code, "rejected");
    let event = events.try_recv().expect("it is told");
    let event: Value = serde_json::from_str(&event.text).expect("JSON");
    for order in [event["order"].clone(), told(&mut bench, "s4")] {
        let seen =
            ["state", "qty", "filled", "open", "order_ref"].map(|field| order[field].clone());
        assert_eq!(seen, ["rejected", "0.4", "0", "0", "0"].map(Value::from), "{order}");
    }
    // Control: the order that was to be replaced stands as it did, and one that is replaced keeps what traded.
    let order = told(&mut bench, "s3");
    let seen = ["state", "filled", "open", "order_ref"].map(|field| order[field].clone());
    assert_eq!(seen, ["open", "0.6", "0.4", "77"].map(Value::from), "{order}");
    drop(bench.ask(replace("s3", "s5", "0.8")));
    let third = own_number(&bench.sent[2]);
    bench.stream(&replaced(number, third, 2, "s5"));
    let order = told(&mut bench, "s5");
    let seen = ["state", "filled", "open", "order_ref"].map(|field| order[field].clone());
    assert_eq!(seen, ["open", "0.6", "0.2", "78"].map(Value::from), "{order}");
}

#[test]
fn orders_that_are_under_way_are_replaced_and_cancelled_in_the_order_of_the_requests() {
    let mut bench = Bench::new();
    drop(bench.ask(Ask::Positions));
    bench.log_in(1, &[]);
    let chain = [buy("a", 10), replace("a", "b", "0.9"), replace("b", "c", "0.8")];
    let [mut a, mut b, mut c] = chain.map(|ask| bench.ask(ask));
    let mut cancel = bench.ask(Ask::Cancel(id("c")));
    let kinds: Vec<u8> = bench.sent.iter().map(|message| message[0]).collect();
    assert_eq!(kinds, b"OUUX", "nothing waits for an answer");
    let [one, two, three] = [0, 1, 2].map(|place| number_of(&bench.sent[place]));
    let (second, third) = (own_number(&bench.sent[1]), own_number(&bench.sent[2]));
    assert_eq!((two, three, number_of(&bench.sent[3])), (one, second, third));
    for message in [
        accepted(one, 10, "a"),
        replaced(one, second, 9, "b"),
        replaced(second, third, 8, "c"),
        cancelled(third, 8),
    ] {
        bench.stream(&message);
    }
    let answers = [&mut a, &mut b, &mut c, &mut cancel].map(|reply| done(reply).expect("done"));
    let states = answers.each_ref().map(|of| of["state"].as_str().expect("a state"));
    assert_eq!(states, ["open", "open", "open", "cancelled"]);
    // The connection breaks: what has no answer goes again, in its order and under its numbers.
    let sent = bench.sent.len();
    drop(
        [buy("d", 10), replace("d", "e", "0.9"), replace("e", "f", "0.8")]
            .map(|ask| bench.ask(ask)),
    );
    let again = bench.sent.split_off(sent);
    bench.account.handle_close(bench.now);
    bench.log_in(5, &[]);
    assert_eq!(bench.sent, again);
    // The exchange takes the first, refuses the second and so what stands on it.
    let (one, second) = (number_of(&again[0]), own_number(&again[1]));
    bench.stream(&accepted(one, 10, "d"));
    bench.stream(&rejected(second, 0x4602, "e"));
    bench.stream(&rejected(own_number(&again[2]), 0x4602, "f"));
    for (name, state) in [("d", "open"), ("e", "rejected"), ("f", "rejected")] {
        let mut order = bench.ask(Ask::Order(id(name), None));
        assert_eq!(done(&mut order).expect("known")["state"], state, "{name}");
    }
    // What is known to be over is not asked for.
    let sent = bench.sent.len();
    let mut over = bench.ask(replace("e", "g", "0.7"));
    assert_eq!((done(&mut over).unwrap_err().code, bench.sent.len()), ("not_open", sent));
}

#[test]
fn faults_reject_and_delay_in_order_and_nothing_else() {
    let mut bench = Bench::new();
    drop(bench.ask(Ask::Fault(Fault::Reject(1))));
    bench.log_in(1, &[]);
    let mut first = bench.ask(buy("a", 5));
    assert_eq!(done(&mut first).unwrap_err().code, "rejected");
    drop(bench.ask(buy("a", 5)));
    assert_eq!(bench.sent.len(), 1, "the fault is over, and the name is free");
    drop(bench.ask(Ask::Fault(Fault::Delay(1, 2_000))));
    drop(bench.ask(buy("b", 5)));
    drop(bench.ask(buy("c", 5)));
    let mut open = bench.ask(Ask::Positions);
    assert!(done(&mut open).is_ok(), "what asks the exchange for nothing waits for nothing");
    assert_eq!(bench.sent.len(), 1);
    // The dead man's switch is held back by no fault.
    drop(bench.ask(Ask::CancelAfter(500)));
    bench.pass(SECOND);
    assert_eq!((bench.sent.len(), bench.sent[1][0]), (2, b'C'));
    bench.pass(SECOND);
    let numbers: Vec<u32> = bench.sent.iter().map(|message| number_of(message)).collect();
    assert!(bench.sent.len() == 4 && numbers[2] < numbers[3], "{numbers:?}");
    let mut waiting: Vec<_> = Vec::new();
    drop(bench.ask(Ask::Fault(Fault::Delay(1, 60_000))));
    waiting.extend((0..2_000).map(|n| bench.ask(buy(&format!("w{n}"), 5))));
    let busy = waiting.iter_mut().filter_map(|reply| reply.try_recv().ok()).count();
    assert_eq!(busy, 2_000 - 1_024, "what is held back is bounded");
}

#[test]
fn fills_are_dated_and_asked_for_by_their_place() {
    let mut bench = Bench::new();
    bench.account.set_midnight(Nanos(0));
    drop(bench.ask(buy("a", 25)));
    bench.log_in(1, &[]);
    let number = number_of(&bench.sent[0]);
    for message in [
        accepted(number, 25, "a"),
        executed(number, 5, 1_000_000, 1),
        executed(number, 5, 1_000_000, 2),
    ] {
        bench.stream(&message);
    }
    let mut fills = bench.ask(Ask::Fills(10, 2));
    let fills = done(&mut fills).expect("known");
    let list = fills["fills"].as_array().expect("a list");
    assert_eq!((list.len(), &list[0]["seq"], &list[0]["time_ms"]), (1, &3.into(), &0.into()));
    let mut trips = bench.ask(Ask::Trips);
    assert_eq!(done(&mut trips).expect("known")["orders"], 1);
    // A replay has no dates once the exchange is older than a day.
    let mut old = Bench::new();
    old.now = Nanos(3 * 86_400 * SECOND);
    old.account.set_midnight(Nanos(0));
    drop(old.ask(Ask::Positions));
    old.log_in(1, &[accepted(1, 5, "a"), executed(1, 5, 1_000_000, 1)]);
    let mut fills = old.ask(Ask::Fills(10, 0));
    assert_eq!(done(&mut fills).expect("known")["fills"][0]["time_ms"], Value::Null);
}

#[test]
fn whatever_the_gateway_sends_nothing_panics_and_requests_are_bounded() {
    println!("seed 28");
    let mut rng = SplitMix64::new(28);
    for round in 0..300 {
        let mut bench = Bench::new();
        drop(bench.ask(buy("a", 5)));
        bench.log_in(1, &[]);
        for _ in 0..20 {
            let base = [accepted(1, 5, "a"), executed(1, 5, 1_000_000, 1)];
            let mut bytes = base[rng.below(2) as usize].clone();
            for _ in 0..rng.below(4) {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] = rng.next_u64() as u8;
            }
            bytes.truncate(1 + rng.below(bytes.len() as u64) as usize);
            bench.stream(&bytes);
            if round % 3 == 0 {
                let raw: Vec<u8> = (0..rng.below(40)).map(|_| rng.next_u64() as u8).collect();
                bench.account.handle_stream(bench.now, &raw, &mut bench.out);
                bench.drain();
            }
            let mut all = bench.ask(Ask::OpenOrders);
            let _: Result<Reply, _> = all.try_recv();
        }
    }
    let mut bench = Bench::new();
    drop(bench.ask(Ask::Positions));
    bench.log_in(1, &[]);
    let mut replies: Vec<_> = (0..2_000).map(|n| bench.ask(buy(&n.to_string(), 5))).collect();
    let busy = replies.iter_mut().filter_map(|reply| reply.try_recv().ok());
    let busy = busy.filter(|reply| matches!(reply, Err(refused) if refused.code == "busy")).count();
    assert_eq!(busy, 2_000 - 1_024);
    assert_eq!(bench.sent.len(), 1_024);
}
