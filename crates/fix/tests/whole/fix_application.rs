//! A whole door: session and application together, from Logon to fill.

use fix::app::{FixApplication, LedgerLimits, Refusal, Symbols, Wanted};
use fix::dictionary::builtin;
use fix::session::{Application, MemoryStore, Port, Proof, SessionConfig, Store};
use fix::value::StampWriter;
use fix::{Acceptor, Limits, Message, Version};
use types::{
    AccountId, CancelReason, Command, CommandKind, ConnId, ExecutionKind, ExecutionReport, FeedSeq,
    Liquidity, MatchNumber, Nanos, OrderRef, Qty, RejectReason, UserRefNum,
};

const CONN: ConnId = ConnId(1);

/// Collects what the engine would get.
struct App {
    application: FixApplication,
    symbols: Symbols,
    commands: Vec<Command>,
    others: Vec<String>,
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
        match self.application.handle(now, message, &self.symbols, port) {
            Wanted::Nothing => {}
            Wanted::Command(command) if self.full => {
                self.application.take_back(now, message, &command, &Refusal::BUSY, port)
            }
            Wanted::Command(command) => self.commands.push(command),
            other => self.others.push(format!("{other:?}").split('(').next().unwrap().to_string()),
        }
    }
}

struct Door {
    acceptor: Acceptor<MemoryStore>,
    app: App,
    seq: u32,
    position: u64,
}

impl Door {
    fn new() -> Door {
        let config = SessionConfig::new("FAIR", "MEM7", builtin(Version::Fix44).unwrap());
        let store = MemoryStore::new(1_000, 1 << 20);
        let app = App {
            application: FixApplication::new(Version::Fix44, LedgerLimits::default()),
            symbols: Symbols::new(&[crate::sample::instrument()]),
            commands: Vec::new(),
            others: Vec::new(),
            full: false,
        };
        let acceptor = Acceptor::new(vec![(config, store)], Limits::default());
        let mut door = Door { acceptor, app, seq: 1, position: 0 };
        door.acceptor.handle_connect(crate::sample::now(), CONN);
        assert!(door.send("A", "98=0|108=30|").starts_with("8=FIX.4.4|"));
        door
    }

    fn send(&mut self, kind: &str, body: &str) -> String {
        let stamp = *StampWriter::default().text(crate::sample::now());
        let (seq, stamp) = (self.seq, String::from_utf8_lossy(&stamp));
        let head = format!("8=FIX.4.4|9=0|35={kind}|34={seq}|49=MEM7|52={stamp}|56=FAIR|");
        self.seq += 1;
        let wire = crate::sample::wire(&crate::sample::repaired(&format!("{head}{body}")));
        let mut out = Vec::new();
        let now = crate::sample::now();
        let ending = self.acceptor.handle_bytes(now, CONN, &wire, &mut self.app, &mut out);
        assert_eq!(ending, None);
        String::from_utf8_lossy(&out).replace('\x01', "|")
    }

    fn report(&mut self, command: &Command, kind: ExecutionKind, qty: u64, leaves: u64) -> String {
        self.told(command, UserRefNum(0), (kind, qty, leaves))
    }

    fn replaced(&mut self, command: &Command, original: &Command, leaves: u64) -> String {
        self.told(command, original.user_ref, (ExecutionKind::Replaced, leaves, leaves))
    }

    fn told(
        &mut self,
        command: &Command,
        orig_user_ref: UserRefNum,
        (kind, qty, leaves): (ExecutionKind, u64, u64),
    ) -> String {
        self.position += 1;
        let report = ExecutionReport {
            kind,
            side: command.side,
            order_type: command.order_type,
            time_in_force: command.time_in_force,
            flags: command.flags,
            reject: RejectReason::None,
            cancel_reason: CancelReason::None,
            liquidity: Liquidity::Removed,
            account: AccountId(7),
            instrument: command.instrument,
            user_ref: command.user_ref,
            orig_user_ref,
            session_seq: 0,
            qty: Qty(qty),
            leaves: Qty(leaves),
            price: command.price,
            order_ref: OrderRef(9),
            match_number: MatchNumber(self.position),
            public_after: FeedSeq(0),
            t_seq: crate::sample::now(),
            cl_ord_id: command.cl_ord_id,
            reserved2: [0; 2],
            terms: command.terms(),
        };
        let mut out = Vec::new();
        let outbound = self.acceptor.session(0).unwrap().outbound();
        let (application, symbols) = (&mut self.app.application, &self.app.symbols);
        application.report(
            crate::sample::now(),
            &report,
            self.position,
            symbols,
            outbound,
            &mut out,
        );
        String::from_utf8_lossy(&out).replace('\x01', "|")
    }
}

const ORDER: &str = "11=a1|55=BTCUSD|54=1|60=20261122-09:30:00|38=100|40=2|44=78350.5|";

#[test]
fn from_logon_to_fill_and_again_after_an_absence() {
    let mut door = Door::new();
    assert_eq!(door.send("D", ORDER), "");
    let command = door.app.commands[0];
    assert_eq!((command.kind, command.qty), (CommandKind::NewOrder, Qty(100)));
    assert!(door.report(&command, ExecutionKind::Accepted, 100, 100).contains("|150=0|39=0|"));
    door.acceptor.handle_close(CONN);
    for fill in 1..=100 {
        assert_eq!(door.report(&command, ExecutionKind::Executed, 1, 100 - fill), "");
    }
    door.acceptor.handle_connect(crate::sample::now(), CONN);
    door.send("A", "98=0|108=30|");
    let resent = door.send("2", "7=3|16=0|");
    let messages: Vec<&str> = resent.split("8=FIX.4.4|").skip(1).collect();
    assert_eq!(messages.len(), 101, "a hundred fills and the gap fill of the Logon");
    for (number, message) in (1..).zip(&messages[..100]) {
        assert!(message.contains(&format!("|34={}|43=Y|", number + 2)), "{message}");
        assert!(message.contains(&format!("|14={number}|6=78350.5|")), "{message}");
    }
    assert!(messages[99].contains("|39=2|") && messages[98].contains("|39=1|"));
    // The order is done and can be asked for.
    let status = door.send("H", "11=a1|55=BTCUSD|54=1|");
    assert!(status.contains("|150=I|39=2|"), "{status}");
}

#[test]
fn what_is_possibly_resent_is_entered_once() {
    let mut door = Door::new();
    door.send("D", ORDER);
    let again = door.send("D", &format!("97=Y|{ORDER}"));
    assert!(again.contains("|35=8|") && again.contains("|150=I|39=0|"), "{again}");
    assert_eq!(door.app.commands.len(), 1);
    let new = door.send("D", &format!("97=Y|{}", ORDER.replace("11=a1", "11=a2")));
    assert_eq!((new.as_str(), door.app.commands.len()), ("", 2));
    // Without the flag it is a mistake.
    let twice = door.send("D", ORDER);
    assert!(twice.contains("|150=8|39=8|103=6|"), "{twice}");
}

#[test]
fn each_request_gets_its_kind_of_answer() {
    let mut door = Door::new();
    let cases = [
        ("D", ORDER.replace("BTCUSD", "NOTHING"), "|35=8|", "|103=1|"),
        ("F", "41=zz|11=c1|55=BTCUSD|54=1|60=20261122-09:30:00|".into(), "|35=9|", "|102=1|"),
        ("H", "11=zz|55=BTCUSD|54=1|".into(), "|35=8|", "|39=8|103=5|"),
        ("q", "11=c1|530=1|55=NO|60=20261122-09:30:00|".into(), "|35=j|", "|380=2|"),
        ("x", "320=s|559=4|".into(), "|35=y|", "|146=1|55=BTCUSD|"),
        ("V", "262=m|263=0|264=0|267=1|269=0|146=1|55=NO|".into(), "|35=Y|", "|281=0|"),
        // A message of the exchange's own.
        ("8", "37=1|17=1|150=0|39=0|55=A|54=1|151=0|14=0|6=0|".into(), "|35=j|", "|380=3|"),
    ];
    for (kind, body, expected, detail) in cases {
        let answer = door.send(kind, &body);
        assert!(answer.contains(expected) && answer.contains(detail), "{kind}: {answer}");
    }
    assert!(door.app.commands.is_empty());
    assert_eq!(door.send("V", "262=m|263=0|264=0|267=1|269=0|146=1|55=BTCUSD|"), "");
    assert_eq!(door.send("g", "335=t|263=0|"), "");
    assert_eq!(door.app.others, ["MarketData", "TradingStatus"]);
    door.app.full = true;
    let busy = door.send("D", ORDER);
    assert!(busy.contains("58=Too many requests unanswered|"), "{busy}");
    door.app.full = false;
    assert_eq!(door.send("D", ORDER), "");
}

#[test]
fn a_message_of_the_version_that_is_not_taken_is_no_invalid_one() {
    let mut door = Door::new();
    for kind in ["7", "B", "J", "o", "AE", "BH"] {
        let answer = door.send(kind, "11=a1|9999=x|");
        let said = format!("|372={kind}|379=a1|380=3|58=Unsupported Message Type|");
        assert!(answer.contains("|35=j|") && answer.contains(&said), "{kind}: {answer}");
    }
    // Those of other versions, and those of none.
    for kind in ["I", "O", "U", "n", "BI", "CE", "Aa", "ZZ", "U1", "AEE"] {
        let answer = door.send(kind, "11=a1|");
        let rejected = answer.contains("|35=3|") && answer.contains("|373=11|");
        assert!(rejected && answer.contains(&format!("|372={kind}|")), "{kind}: {answer}");
    }
    // Each has used its number.
    assert_eq!(door.send("D", ORDER), "");
}

/// A refused cancel or replace: how it says that the order stands, from OrderID to CxlRejReason.
fn refused(answer: &str) -> String {
    assert!(answer.contains("|35=9|"), "{answer}");
    let tags = ["37=", "41=", "39=", "102="];
    let fields = answer.split('|').filter(|field| tags.iter().any(|tag| field.starts_with(tag)));
    fields.collect::<Vec<_>>().join("|")
}

#[test]
fn a_refused_cancel_says_how_the_order_stands() {
    const CANCEL: &str = "41=a1|11=c1|55=BTCUSD|54=1|60=20261122-09:30:00|";
    let mut door = Door::new();
    let replace = |from: &str, to: &str| {
        format!("41=a1|{}", ORDER.replace("11=a1", "11=a2")).replace(from, to)
    };
    door.send("D", ORDER);
    let order = door.app.commands[0];
    door.report(&order, ExecutionKind::Accepted, 100, 100);
    let open = "37=9|41=a1|39=0|102=99";
    assert_eq!(refused(&door.send("F", &CANCEL.replace("54=1", "54=2"))), open);
    assert_eq!(refused(&door.send("G", &replace("54=1", "54=2"))), open);
    door.report(&order, ExecutionKind::Executed, 30, 70);
    let part = "37=9|41=a1|39=1|102=99";
    assert_eq!(refused(&door.send("G", &replace("44=78350.5", "44=1.00001"))), part);
    assert_eq!(refused(&door.send("G", &replace("11=a2", "11=a1"))), part);
    assert_eq!(refused(&door.send("F", &CANCEL.replace("11=c1", "11=c-of-a-long-name"))), part);
    assert_eq!(refused(&door.send("F", &CANCEL.replace("BTCUSD", "NOTHING"))), part);
    door.app.full = true;
    assert_eq!(refused(&door.send("F", CANCEL)), part);
    assert_eq!(refused(&door.send("G", &replace("38=100", "38=90"))), part);
    door.app.full = false;

    // By its identifier of before it is found as what it has become.
    door.send("G", &replace("38=100", "38=90"));
    let mut replaced = *door.app.commands.last().unwrap();
    replaced.cl_ord_id = types::ClOrdId(*b"a2            ");
    door.replaced(&replaced, &order, 60);
    assert_eq!(refused(&door.send("F", CANCEL)), "37=9|41=a1|39=1|102=1");
    let status = door.send("H", "11=a1|55=BTCUSD|54=1|");
    assert!(status.contains("|11=a2|") && status.contains("|150=I|39=1|"), "{status}");
    let again = door.send("D", &format!("97=Y|{ORDER}"));
    assert!(again.contains("|11=a2|") && again.contains("|150=I|39=1|"), "{again}");
    door.report(&replaced, ExecutionKind::Executed, 60, 0);
    let done = CANCEL.replace("41=a1", "41=a2");
    assert_eq!(refused(&door.send("F", &done)), "37=9|41=a2|39=2|102=0");
    assert_eq!(refused(&door.send("F", CANCEL)), "37=9|41=a1|39=2|102=1");
    // Control: what nobody knows.
    let unknown = CANCEL.replace("41=a1", "41=zz");
    assert_eq!(refused(&door.send("F", &unknown)), "37=NONE|41=zz|39=8|102=1");
    assert_eq!(refused(&door.send("G", &replace("41=a1", "41=zz"))), "37=NONE|41=zz|39=8|102=1");
    // Its identifier may name another order from now on.
    assert_eq!(door.send("D", ORDER), "");
}

#[test]
fn a_request_on_a_replace_under_way_is_one_on_the_order_that_it_makes() {
    const CANCEL: &str = "41=a1|11=c1|55=BTCUSD|54=1|60=20261122-09:30:00|";
    let replace = |from: &str, to: &str| format!("41={from}|{}", ORDER.replace("11=a1", to));
    for answered in [false, true] {
        let mut door = Door::new();
        assert_eq!(door.send("D", ORDER), "");
        let order = door.app.commands[0];
        if answered {
            door.report(&order, ExecutionKind::Accepted, 100, 100);
        }
        assert_eq!(door.send("G", &replace("a1", "11=a2")), "");
        // Meanwhile the order stands as it did, and nothing else can be asked of it.
        let status = door.send("H", "11=a2|55=BTCUSD|54=1|");
        assert!(status.contains("|11=a1|") && status.contains("|150=I|39=0|"), "{status}");
        let number = if answered { "9" } else { "NONE" };
        let under_way = format!("37={number}|41=a1|39=0|102=3");
        let answer = door.send("F", CANCEL);
        assert_eq!(refused(&answer), under_way);
        assert!(answer.contains("|58=A replace of the order is under way|"), "{answer}");
        assert_eq!(refused(&door.send("G", &replace("a1", "11=a9"))), under_way);
        // Its name is taken.
        let twice = door.send("D", &ORDER.replace("11=a1", "11=a2"));
        assert!(twice.contains("|150=8|39=8|103=6|"), "{twice}");
        // The chain goes on from what was asked for last.
        assert_eq!(door.send("G", &replace("a2", "11=a3")), "");
        assert_eq!(door.send("F", &CANCEL.replace("41=a1", "41=a3")), "");
        let [_, second, third, cancel] = door.app.commands[..] else { panic!("four commands") };
        assert_eq!((second.kind, second.orig_user_ref), (CommandKind::Replace, order.user_ref));
        assert_eq!((third.kind, third.orig_user_ref), (CommandKind::Replace, second.user_ref));
        assert_eq!((cancel.kind, cancel.user_ref), (CommandKind::Cancel, third.user_ref));
        if !answered {
            door.report(&order, ExecutionKind::Accepted, 100, 100);
            assert_eq!(refused(&door.send("F", CANCEL)), "37=9|41=a1|39=0|102=3", "still");
        }
        let told = door.replaced(&second, &order, 100);
        assert!(told.contains("|11=a2|41=a1|"), "{told}");
        let behind = CANCEL.replace("41=a1", "41=a2");
        assert_eq!(refused(&door.send("F", &behind)), "37=9|41=a2|39=0|102=3");
        let told = door.replaced(&third, &second, 100);
        assert!(told.contains("|11=a3|41=a2|"), "{told}");
        let told = door.report(&third, ExecutionKind::Canceled, 100, 0);
        assert!(told.contains("|150=4|39=4|"), "{told}");
    }
}

#[test]
fn a_replace_that_is_not_taken_after_all_leaves_its_order_as_it_was() {
    const CANCEL: &str = "41=a2|11=c1|55=BTCUSD|54=1|60=20261122-09:30:00|";
    let replace = format!("41=a1|{}", ORDER.replace("11=a1", "11=a2"));
    let mut door = Door::new();
    door.send("D", ORDER);
    let order = door.app.commands[0];
    door.report(&order, ExecutionKind::Accepted, 100, 100);
    door.app.full = true;
    assert_eq!(refused(&door.send("G", &replace)), "37=9|41=a1|39=0|102=99");
    door.app.full = false;
    assert_eq!(refused(&door.send("F", CANCEL)), "37=NONE|41=a2|39=8|102=1");
    // Its name is free, and the order can be replaced.
    assert_eq!(door.send("G", &replace), "");
    assert_eq!(door.send("F", CANCEL), "");
    assert_eq!(door.app.commands.len(), 3);
}

#[test]
fn an_answer_about_an_order_tells_how_it_stands_where_the_answer_has_its_number() {
    const ASKED: &str = "11=a1|55=BTCUSD|54=1|";
    const CANCEL: &str = "41=a1|11=c1|55=BTCUSD|54=2|60=20261122-09:30:00|";
    let slot = |door: &mut Door, ticket| {
        let mut out = Vec::new();
        assert_eq!(door.acceptor.session(0).unwrap().outbound().ask_slot(ticket), Some(false));
        let ending = door.acceptor.slot(crate::sample::now(), 0, ticket, false, &mut out);
        assert_eq!(ending, None);
        String::from_utf8_lossy(&out).replace('\x01', "|")
    };
    let has = |answer: &str, fields: &[&str]| {
        for field in fields {
            assert!(answer.contains(&format!("|{field}|")), "{field} of {answer}");
        }
    };
    let mut door = Door::new();
    door.acceptor.session(0).unwrap().outbound().number_by_stream();
    // Nobody knows the order when it is asked for, then it comes over another door.
    assert_eq!(door.send("H", ASKED), "");
    assert_eq!(door.send("D", ORDER), "");
    let order = door.app.commands[0];
    // It has no number yet.
    assert_eq!(door.send("H", ASKED), "");
    assert_eq!(door.send("D", &format!("97=Y|{ORDER}")), "");
    assert_eq!(door.send("F", CANCEL), "");
    has(&door.report(&order, ExecutionKind::Accepted, 100, 100), &["34=2", "39=0"]);
    has(&slot(&mut door, 1), &["34=3", "17=S2", "37=9", "150=I", "39=0", "14=0"]);
    has(&door.report(&order, ExecutionKind::Executed, 30, 70), &["34=4", "39=1", "14=30"]);
    has(&slot(&mut door, 2), &["34=5", "17=S4", "37=9", "150=I", "39=1", "14=30", "151=70"]);
    has(&slot(&mut door, 3), &["34=6", "17=S5", "37=9", "150=I", "39=1", "14=30"]);
    let answer = slot(&mut door, 4);
    has(
        &answer,
        &["35=9", "34=7", "11=c1", "58=Symbol, Side and OrdType must be those of the order"],
    );
    assert_eq!(refused(&answer), "37=9|41=a1|39=1|102=99");
    // What was told is what comes again.
    has(&door.report(&order, ExecutionKind::Executed, 70, 0), &["34=8", "39=2"]);
    has(&door.send("2", "7=5|16=5|"), &["34=5", "43=Y", "39=1", "14=30"]);
    // Two that wait, one of which does not leave.
    assert_eq!(door.send("H", ASKED), "");
    assert_eq!(door.send("H", &ASKED.replace("a1", "a2")), "");
    assert_eq!(door.acceptor.session(0).unwrap().outbound().ask_slot(5), Some(false));
    door.acceptor.session(0).unwrap().outbound().drop_asked(5);
    assert_eq!(door.send("D", &ORDER.replace("a1", "a2")), "");
    let order = door.app.commands[1];
    has(&door.report(&order, ExecutionKind::Rejected, 100, 0), &["34=9", "39=8"]);
    has(&slot(&mut door, 6), &["34=10", "37=NONE", "11=a2", "39=8"]);
}
