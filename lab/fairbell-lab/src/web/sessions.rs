//! The same sessions over OUCH, FIX and a WebSocket, each on a fresh exchange, and afterwards what is in the
//! engine's log and what the firm's drop-copy session heard: both have to be the same.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::thread;
use std::time::Duration;

use clap::Args;
use exchange::{Rate, Throttle};
use host::failure::Failure;
use host::sockets::io;
use serde_json::{Value, json};
use types::{
    AccountId, ClOrdId, Command, CommandKind, Input, Price, Qty, Side, Symbol, TimeInForce,
    UserRefNum,
};
use wire::ouch::{self, NewOrder, ReplaceRequest};

use super::client::Socket;
use super::venue::{COPIES, PASSWORD, Terms, Venue};
use crate::attack::line::{Fix, Line, Login, Ouch};

/// Options of `fairbell-lab web sessions`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  fairbell-lab web sessions")]
pub struct SessionsArgs {}

const HOME: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// For a gateway to find out that a connection is gone.
const SETTLE: Duration = Duration::from_millis(300);
/// For what has to come at last, on a machine that does much else.
const LONG: Duration = Duration::from_secs(60);

/// A step of a session.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A new order of this name: side, lots, whole price.
    New(&'static str, Side, u32, i64),
    /// The last new order again, as it was.
    Again,
    /// Another name, lots in total, and price for an order.
    Replace(&'static str, &'static str, u32, i64),
    /// Cancels an order.
    Cancel(&'static str),
    /// Orders named by the number, as fast as they are taken.
    Burst(u32),
    /// The connection breaks, and comes back.
    Break,
    /// The connection breaks for good.
    Leave,
    /// The operator's kill switch of the account, on or off.
    Kill(bool),
}

/// A session and what it is about.
pub struct Scenario {
    /// What has to hold.
    pub name: &'static str,
    steps: &'static [Step],
    limited: bool,
    /// Orders go with the session.
    cancels: bool,
}

use Step::{Again, Break, Burst, Cancel, Kill, Leave, New, Replace};

/// All there are.
pub const SCENARIOS: [Scenario; 5] = [
    Scenario {
        name: "exactly once",
        steps: &[
            New("a", Side::Buy, 5, 10),
            Again,
            Break,
            Again,
            New("b", Side::Sell, 7, 12),
            Again,
            Again,
            Break,
            Again,
        ],
        limited: false,
        cancels: false,
    },
    Scenario {
        name: "replace and cancel",
        steps: &[
            New("a", Side::Buy, 5, 10),
            Replace("a", "b", 9, 11),
            New("c", Side::Sell, 4, 11),
            Replace("b", "d", 9, 10),
            Cancel("d"),
            Cancel("d"),
        ],
        limited: false,
        cancels: false,
    },
    Scenario { name: "throttle", steps: &[Burst(60)], limited: true, cancels: false },
    Scenario {
        name: "kill switch",
        steps: &[
            New("a", Side::Buy, 5, 10),
            Kill(true),
            New("b", Side::Buy, 5, 10),
            Kill(false),
            New("c", Side::Buy, 5, 10),
        ],
        limited: false,
        cancels: false,
    },
    Scenario {
        name: "cancel on disconnect",
        steps: &[New("a", Side::Buy, 5, 10), New("b", Side::Sell, 5, 20), Leave],
        limited: false,
        cancels: true,
    },
];

/// Orders that the throttle lets through at once, and then in a second.
const BURST: Rate = Rate { per_s: 1, burst: 20 };

/// A client of some door.
trait Desk {
    /// Opens its connection, again if need be.
    fn open(&mut self, venue: &Venue) -> Result<(), Failure>;
    /// Its connection breaks.
    fn lose(&mut self);
    /// Enters an order, or the same again; waits for what becomes of it unless `together`.
    fn enter(&mut self, order: (&str, Side, u32, i64), again: bool, together: bool) -> bool;
    fn replace(&mut self, of: &str, by: (&str, u32, i64)) -> bool;
    fn cancel(&mut self, of: &str) -> bool;
    /// Hears so many answers to orders that were entered `together`; false where they don't come.
    fn settle(&mut self, answers: u32) -> bool;
}

fn id(name: &str) -> ClOrdId {
    let mut id = [b' '; 14];
    id.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
    ClOrdId(id)
}

fn whole(price: i64) -> Price {
    Price::from_whole(price)
}

/// OUCH by hand.
struct OuchDesk {
    ouch: Option<Ouch>,
    clock: net::Clock,
    symbol: Symbol,
    next: u32,
    numbers: HashMap<String, u32>,
    /// The last message of the stream that came before the connection was lost.
    heard: u64,
}

impl OuchDesk {
    fn send(&mut self, message: &[u8], answers: u32) -> bool {
        self.ouch.as_mut().is_some_and(|ouch| ouch.send(message, answers))
    }
}

impl Desk for OuchDesk {
    fn open(&mut self, venue: &Venue) -> Result<(), Failure> {
        for _ in 0..20 {
            let line = Line::open(HOME, venue.ouch, None).map_err(io)?;
            let login = Ouch::login(line, self.clock, ("A1", PASSWORD), self.heard + 1);
            if let Login::In(ouch) = login {
                self.ouch = Some(ouch);
                return Ok(());
            }
            thread::sleep(SETTLE);
        }
        Err(Failure::Run("the OUCH session is not let in".to_string()))
    }

    fn lose(&mut self) {
        self.heard = self.ouch.take().map_or(self.heard, |ouch| ouch.heard);
    }

    fn enter(&mut self, order: (&str, Side, u32, i64), again: bool, together: bool) -> bool {
        let (name, side, lots, price) = order;
        if !again {
            self.numbers.insert(name.to_string(), self.next);
            self.next += 1;
        }
        let number = self.numbers.get(name).copied().unwrap_or(0);
        let order = NewOrder {
            user_ref: UserRefNum(number),
            side,
            qty: Qty(lots.into()),
            symbol: self.symbol,
            price: Some(whole(price)),
            time_in_force: TimeInForce::Day,
            post_only: false,
            cl_ord_id: id(name),
        };
        let mut message = Vec::new();
        let encoded = ouch::encode_enter_order(&order, &mut message).is_ok();
        encoded
            && self.ouch.as_mut().is_some_and(|ouch| match again || together {
                // The same again has its answer in the stream already.
                true => ouch.send(&message, 0),
                false => ouch.ask(&message, number),
            })
    }

    fn replace(&mut self, of: &str, (name, lots, price): (&str, u32, i64)) -> bool {
        let orig = self.numbers.get(of).copied().unwrap_or(0);
        self.numbers.insert(name.to_string(), self.next);
        let request = ReplaceRequest {
            orig_user_ref: UserRefNum(orig),
            user_ref: UserRefNum(self.next),
            qty: Qty(lots.into()),
            price: whole(price),
            time_in_force: TimeInForce::Day,
            post_only: false,
            cl_ord_id: id(name),
        };
        self.next += 1;
        let mut message = Vec::new();
        ouch::encode_replace(&request, &mut message).is_ok() && self.send(&message, 1)
    }

    fn cancel(&mut self, of: &str) -> bool {
        let number = self.numbers.get(of).copied().unwrap_or(0);
        let mut message = Vec::new();
        ouch::encode_cancel(UserRefNum(number), Qty(0), &mut message).is_ok()
            && self.send(&message, 1)
    }

    fn settle(&mut self, answers: u32) -> bool {
        self.ouch.as_mut().is_none_or(|ouch| ouch.hear(answers))
    }
}

/// FIX by hand.
struct FixDesk {
    fix: Option<Fix>,
    clock: net::Clock,
    symbol: String,
    next: u64,
    /// Number and fields of the last new order.
    last: (u64, String),
}

impl FixDesk {
    fn send(&mut self, kind: &str, fields: &str, answer: &str) -> bool {
        let Some(fix) = &mut self.fix else { return false };
        let good = fix.send(kind, fields) && (answer.is_empty() || fix.until(answer));
        self.next = fix.next;
        good
    }

    fn time(&self) -> String {
        crate::attack::line::utc(self.clock.now().0)
    }
}

impl Desk for FixDesk {
    fn open(&mut self, venue: &Venue) -> Result<(), Failure> {
        for _ in 0..20 {
            let line = Line::open(HOME, venue.fix, None).map_err(io)?;
            let mut fix = Fix::new(line, self.clock, "A1");
            if fix.logon(PASSWORD, self.next, false) {
                self.next = fix.next;
                self.fix = Some(fix);
                return Ok(());
            }
            self.next += 1;
            thread::sleep(SETTLE);
        }
        Err(Failure::Run("the FIX session is not let in".to_string()))
    }

    fn lose(&mut self) {
        self.fix = None;
    }

    fn enter(&mut self, order: (&str, Side, u32, i64), again: bool, together: bool) -> bool {
        let (name, side, lots, price) = order;
        let (side, time) = (if side == Side::Buy { 1 } else { 2 }, self.time());
        if again {
            let (number, fields) = self.last.clone();
            let fields = format!("43=Y|122={time}|{fields}");
            let Some(fix) = &mut self.fix else { return false };
            let message = fix.message("D", number, &fields);
            return fix.line.write(&message);
        }
        let symbol = &self.symbol;
        let fields = format!(
            "11={name}|55={symbol}|54={side}|60={time}|38={lots}|40=2|44={price}|59=0|21=1"
        );
        self.last = (self.next, fields.clone());
        let answer = if together { String::new() } else { format!("\x0111={name}\x01") };
        self.send("D", &fields, &answer)
    }

    fn replace(&mut self, of: &str, (name, lots, price): (&str, u32, i64)) -> bool {
        let (symbol, time) = (&self.symbol, self.time());
        let fields = format!(
            "11={name}|41={of}|55={symbol}|54=1|60={time}|38={lots}|40=2|44={price}|59=0|21=1"
        );
        self.send("G", &fields, &format!("\x0111={name}\x01"))
    }

    fn cancel(&mut self, of: &str) -> bool {
        let (symbol, time) = (&self.symbol, self.time());
        let name = format!("x{}", self.next);
        let fields = format!("11={name}|41={of}|55={symbol}|54=1|60={time}|38=1");
        self.send("F", &fields, &format!("\x0111={name}\x01"))
    }

    fn settle(&mut self, answers: u32) -> bool {
        let Some(fix) = &mut self.fix else { return true };
        (0..answers).all(|_| fix.until("\x0135=8\x01"))
    }
}

/// The web door.
struct WebDesk {
    socket: Option<Socket>,
    symbol: String,
    lot_decimals: u8,
    cancels: bool,
}

impl WebDesk {
    fn ask(&mut self, message: Value) -> bool {
        self.socket.as_mut().is_some_and(|socket| socket.ask(message).is_some())
    }
}

impl Desk for WebDesk {
    fn open(&mut self, venue: &Venue) -> Result<(), Failure> {
        let mut socket = Socket::proved(HOME, venue.web, "K1").map_err(io)?;
        if self.cancels {
            let on = json!({ "op": "cancel_on_disconnect", "enabled": true });
            socket.ask(on).ok_or_else(|| Failure::Run("the door does not answer".to_string()))?;
        }
        self.socket = Some(socket);
        Ok(())
    }

    fn lose(&mut self) {
        self.socket = None;
    }

    fn enter(&mut self, order: (&str, Side, u32, i64), _: bool, together: bool) -> bool {
        let (name, side, lots, price) = order;
        let side = if side == Side::Buy { "buy" } else { "sell" };
        let order = json!({
            "op": "new", "symbol": self.symbol, "side": side, "client_order_id": name,
            "qty": web::decimal::lots_text(lots.into(), self.lot_decimals), "price": price.to_string(),
        });
        match together {
            true => self.socket.as_mut().is_some_and(|socket| socket.send(&order.to_string())),
            false => self.ask(order),
        }
    }

    fn replace(&mut self, of: &str, (name, lots, price): (&str, u32, i64)) -> bool {
        self.ask(json!({
            "op": "replace", "order": of, "client_order_id": name,
            "qty": web::decimal::lots_text(lots.into(), self.lot_decimals), "price": price.to_string(),
        }))
    }

    fn cancel(&mut self, of: &str) -> bool {
        self.ask(json!({ "op": "cancel", "order": of }))
    }

    fn settle(&mut self, answers: u32) -> bool {
        let Some(socket) = &mut self.socket else { return true };
        (0..answers).all(|_| socket.next_of("answer").is_some())
    }
}

/// What a log has of an account, in words that do not name numbers of a door. The same request again, under
/// its number, is told once: OUCH's gateway passes it on and the engine knows it, the others keep it back.
fn story(log: &[Input], of: &Scenario) -> Vec<String> {
    let mut names: HashMap<u32, String> = HashMap::new();
    let mut story = Vec::new();
    for command in log.iter().map(|input| &input.command) {
        if command.account != AccountId(1) {
            continue;
        }
        let name = String::from_utf8_lossy(&command.cl_ord_id.0).trim().to_string();
        let named = |names: &HashMap<u32, String>, number: UserRefNum| {
            names.get(&number.0).cloned().unwrap_or_default()
        };
        let terms = || {
            format!(
                "{:?} {} at {} {:?}",
                command.side, command.qty.0, command.price, command.time_in_force
            )
        };
        match command.kind {
            CommandKind::NewOrder | CommandKind::Replace
                if names.contains_key(&command.user_ref.0) => {}
            CommandKind::NewOrder => {
                story.push(format!("new {name} {}", terms()));
                names.insert(command.user_ref.0, name);
            }
            CommandKind::Replace => {
                let before = named(&names, command.orig_user_ref);
                story.push(format!(
                    "replace {before} by {name}: {} at {}",
                    command.qty.0, command.price
                ));
                names.insert(command.user_ref.0, name);
            }
            CommandKind::Cancel => {
                let told = format!("cancel {}", named(&names, command.user_ref));
                if story.last() != Some(&told) {
                    story.push(told);
                }
            }
            CommandKind::MassCancel => story.push("cancel all".to_string()),
            CommandKind::Kill => story.push(format!("kill {}", command.param)),
            _ => {}
        }
    }
    if of.limited {
        // Which of them come through is a matter of time, how many is hardly one.
        return vec!["an order".to_string(); story.len()];
    }
    story
}

/// The firm's drop-copy session.
struct Copies {
    fix: Fix,
}

impl Copies {
    fn log_on(venue: &Venue) -> Result<Copies, Failure> {
        let line = Line::open(HOME, venue.fix, None).map_err(io)?;
        let mut fix = Fix::new(line, venue.clock, COPIES);
        match fix.logon(PASSWORD, 1, false) {
            true => Ok(Copies { fix }),
            false => Err(Failure::Run("the drop-copy session is not let in".to_string())),
        }
    }

    /// The copies of all reports until now, in words that do not name numbers of a door: the answer to a question has a
    /// place in the session's stream behind them. Refused cancels are left out: the web door answers one by itself
    /// that it knows to be in vain.
    fn heard(mut self) -> Result<Vec<String>, Failure> {
        let ended = || Failure::Run("the drop-copy session does not answer".to_string());
        let told = match self.fix.send("1", "112=the end") {
            true => self.fix.messages_until("\x01112=the end\x01").ok_or_else(ended)?,
            false => return Err(ended()),
        };
        Ok(told.iter().filter_map(|message| report(message)).collect())
    }
}

/// A field of a message; empty where it is not in it.
fn field<'a>(message: &'a str, tag: &str) -> &'a str {
    let fields = message.split('\x01').filter_map(|field| field.split_once('='));
    fields.into_iter().find(|(key, _)| *key == tag).map_or("", |(_, value)| value)
}

/// A copy of an ExecutionReport, in words.
fn report(message: &str) -> Option<String> {
    let text = |tag: &str| field(message, tag);
    if text("35") != "8" {
        return None;
    }
    let kind = match text("150") {
        "0" => "new",
        "4" => "cancelled",
        "5" => "replaced",
        "8" => "rejected",
        "F" => "traded",
        other => other,
    };
    // A cancel over FIX has a name of its own.
    let name = match (kind, text("41")) {
        ("cancelled", order) if !order.is_empty() => order,
        _ => text("11"),
    };
    let (account, left, done) = (text("1"), text("151"), text("14"));
    Some(format!("{account}: {kind} {name}, {left} open, {done} done"))
}

/// Plays a scenario over a door.
fn play(of: &Scenario, door: &'static str) -> Result<Played, Failure> {
    let throttle = if of.limited { Throttle::new(BURST) } else { Throttle::default() };
    let own = door != "web" && of.cancels;
    let terms = Terms {
        accounts: 1,
        fix: door == "fix",
        throttle,
        cancel_on_disconnect: own,
        web_from: if door == "web" { 1 } else { 2 },
        credits_per_s: 100_000,
        copies: true,
        ..Terms::default()
    };
    let venue = Venue::start(&terms)?;
    let copies = Copies::log_on(&venue)?;
    let (clock, symbol) = (venue.clock, venue.symbol());
    let text = symbol.as_str().to_string();
    let lot_decimals = venue.exchange.instruments.first().map_or(0, |first| first.lot_decimals);
    let mut desk: Box<dyn Desk> = match door {
        "ouch" => {
            let numbers = HashMap::new();
            Box::new(OuchDesk { ouch: None, clock, symbol, next: 1, numbers, heard: 0 })
        }
        "fix" => {
            let last = (0, String::new());
            Box::new(FixDesk { fix: None, clock, symbol: text, next: 1, last })
        }
        _ => Box::new(WebDesk { socket: None, symbol: text, lot_decimals, cancels: of.cancels }),
    };
    desk.open(&venue)?;
    let (mut last, failed) = (("", Side::Buy, 0, 0), |step: &Step| {
        Failure::Run(format!("{}, over {door}: no answer to {step:?}", of.name))
    });
    let (mut names, mut together) = (Vec::new(), 0);
    for step in of.steps {
        let good = match *step {
            New(name, side, lots, price) => {
                last = (name, side, lots, price);
                desk.enter(last, false, false)
            }
            Again => desk.enter(last, true, false),
            Replace(from, name, lots, price) => desk.replace(from, (name, lots, price)),
            Cancel(name) => desk.cancel(name),
            Burst(count) => {
                names.extend((0..count).map(|number| format!("n{number}")));
                together += count;
                names.iter().all(|name| desk.enter((name.as_str(), Side::Buy, 1, 10), false, true))
            }
            Break => {
                desk.lose();
                thread::sleep(SETTLE);
                desk.open(&venue).is_ok()
            }
            Leave => {
                desk.lose();
                super::venue::wait_for(&venue, LONG, |root| root.engine().open_orders() == 0)?
            }
            Kill(on) => {
                let command = Command {
                    account: AccountId(1),
                    param: u8::from(on),
                    ..Command::new(CommandKind::Kill)
                };
                super::venue::operate(&venue, command)?;
                true
            }
        };
        if !good {
            return Err(failed(step));
        }
    }
    if !desk.settle(together) {
        return Err(Failure::Run(format!("{}, over {door}: an order has no answer", of.name)));
    }
    desk.lose();
    let copies = copies.heard()?;
    let engine = venue.exchange.engine();
    let log = venue.end()?;
    let engine = engine::replay(engine, &log, |_, _, _, _| {});
    Ok(Played { door, story: story(&log, of), copies, open: engine.open_orders() })
}

/// What came of a scenario over one door.
#[derive(Clone, Debug)]
pub struct Played {
    /// `ouch`, `fix` or `web`.
    pub door: &'static str,
    /// What the log says, a line for each thing that happened.
    pub story: Vec<String>,
    /// What the drop-copy session heard, a line for each report.
    pub copies: Vec<String>,
    /// Orders open at the end.
    pub open: usize,
}

/// A scenario over all doors: what the log of each says.
///
/// # Errors
/// An exchange can't be started, or a client has no answer.
pub fn compare(of: &Scenario) -> Result<Vec<Played>, Failure> {
    ["ouch", "fix", "web"].into_iter().map(|door| play(of, door)).collect()
}

/// Whether logs and copies say the same; where sessions take their orders with them, who says so differs, and what is
/// left does not.
pub fn agree(of: &Scenario, played: &[Played]) -> bool {
    played.windows(2).all(|two| {
        let (one, other) = (&two[0], &two[1]);
        if of.limited {
            let through =
                |of: usize| (BURST.burst as usize..BURST.burst as usize + 8).contains(&of);
            // Of each that came through there is a copy.
            let copied = |of: &Played| of.copies.len() == of.story.len();
            return two.iter().all(|of| through(of.story.len()) && copied(of));
        }
        if one.copies != other.copies || one.copies.is_empty() {
            return false;
        }
        let alike = one.story == other.story;
        one.open == other.open && (alike || (of.cancels && one.story.len() == other.story.len()))
    })
}

/// The command.
///
/// # Errors
/// Logs or copies differ.
pub fn run(_: &SessionsArgs) -> Result<(), Failure> {
    let mut wrong = Vec::new();
    for of in &SCENARIOS {
        let played = compare(of)?;
        println!("{}: {}", of.name, if agree(of, &played) { "the same" } else { "DIFFERENT" });
        for Played { door, story, copies, open } in &played {
            println!("  {door:5} {open} open at the end; {}", story.join("; "));
            println!("        {} drop copies: {}", copies.len(), copies.join("; "));
        }
        wrong.extend((!agree(of, &played)).then_some(of.name));
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(Failure::Run(format!("logs or copies differ: {}", wrong.join(", ")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn played(story: &[&str], copies: &[&str]) -> Played {
        let lines = |of: &[&str]| of.iter().map(|line| (*line).to_string()).collect();
        Played { door: "web", story: lines(story), copies: lines(copies), open: 0 }
    }

    #[test]
    fn what_a_log_or_a_copy_lacks_is_found() {
        let of = &SCENARIOS[1];
        let whole = || played(&["new a", "cancel a"], &["A1: new a", "A1: cancelled a"]);
        assert!(agree(of, &[whole(), whole(), whole()]));
        for other in [
            played(&["new a"], &["A1: new a", "A1: cancelled a"]),
            played(&["new a", "cancel a"], &["A1: new a"]),
            played(&["new a", "cancel a"], &["A1: cancelled a", "A1: new a"]),
            Played { open: 1, ..whole() },
        ] {
            assert!(!agree(of, &[whole(), whole(), other]));
        }
        let silent = || played(&["new a"], &[]);
        assert!(!agree(of, &[silent(), silent()]), "nobody had a copy");
    }

    #[test]
    fn copies_are_read_without_the_names_of_cancels() {
        let read = |text: &str| report(&text.replace('|', "\x01"));
        let new = ".4.4|35=8|1=A1|11=a|150=0|151=5|14=0|";
        assert_eq!(read(new), Some("A1: new a, 5 open, 0 done".to_string()));
        let over_fix = ".4.4|35=8|1=A1|11=x3|41=a|150=4|151=0|14=0|";
        let over_ouch = ".4.4|35=8|1=A1|11=a|150=4|151=0|14=0|";
        assert_eq!(read(over_fix), read(over_ouch));
        assert_eq!(read(".4.4|35=0|112=the end|"), None);
    }
}
