//! A FIX 4.4 participant as small as it can be and still be strict: numbers, gaps, resends, and a
//! ledger of what it was told.

use std::collections::{BTreeMap, BTreeSet};

use types::Nanos;

/// An order as the participant knows it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Order {
    pub cum: u64,
    pub leaves: u64,
    pub status: u8,
    /// Reports that it was taken.
    pub accepted: u32,
    /// What the last report of it says happened, and its text.
    pub last: (u8, String),
}

/// A message that was received.
#[derive(Clone, Debug)]
pub struct Message(pub Vec<(u32, String)>);

impl Message {
    pub fn get(&self, tag: u32) -> &str {
        self.0.iter().find(|(t, _)| *t == tag).map_or("", |(_, value)| value)
    }

    fn number(&self, tag: u32) -> u64 {
        self.get(tag).parse().unwrap_or(0)
    }
}

/// Price levels by market data over FIX.
#[derive(Default)]
pub struct Book {
    /// By symbol, side and price in ten thousandths: lots and orders.
    pub levels: BTreeMap<(String, u8, String), (u64, u32)>,
    /// Symbols of messages heard, and the depth asked for.
    pub refreshed: Vec<(String, usize)>,
    /// Levels asked for.
    pub depth: usize,
    /// How often somebody compared.
    pub compared: u64,
    /// Trades, and those that were broken.
    pub prints: Vec<(String, String, u64)>,
    pub broken: Vec<String>,
    /// Messages of each type.
    pub messages: BTreeMap<String, u64>,
    /// Texts of refusals and states.
    pub texts: Vec<String>,
}

/// 12.5 as 125000.
fn ten_thousandths(text: &str) -> String {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    format!("{whole}{part:0<4}").trim_start_matches('0').to_string()
}

impl Book {
    fn take(&mut self, message: &Message) {
        let kind = message.get(35);
        *self.messages.entry(kind.to_string()).or_default() += 1;
        if matches!(kind, "Y" | "h" | "f" | "j") {
            self.texts.push(message.get(58).to_string());
        }
        if !matches!(kind, "W" | "X") {
            return;
        }
        let symbol = message.get(55).to_string();
        if kind == "W" {
            self.levels.retain(|key, _| key.0 != symbol);
        }
        let first = if kind == "W" { 269 } else { 279 };
        let starts = (0..message.0.len()).filter(|&at| message.0[at].0 == first);
        let starts: Vec<usize> = starts.chain([message.0.len() - 1]).collect();
        assert_eq!(starts.len() as u64 - 1, message.number(268));
        for range in starts.windows(2) {
            let entry = Message(message.0[range[0]..range[1]].to_vec());
            let price = ten_thousandths(entry.get(270));
            let lots = entry.number(271);
            let key = |side: u8| (symbol.clone(), side, price.clone());
            match (entry.get(269), entry.get(279)) {
                ("2", "2") => self.broken.push(entry.get(278).to_string()),
                ("2", _) => self.prints.push((entry.get(278).to_string(), price, lots)),
                (side, action) => {
                    let key = key(u8::from(side == "1"));
                    let orders = entry.number(346) as u32;
                    let before = match action {
                        "2" => self.levels.remove(&key),
                        _ => self.levels.insert(key, (lots, orders)),
                    };
                    assert_eq!(before.is_some(), matches!(action, "1" | "2"), "{message:?}");
                }
            }
        }
        self.refreshed.push((symbol, self.depth));
    }
}

/// The participant; it outlives its connections.
pub struct FixClient {
    pub comp_id: String,
    pub password: String,
    pub logged_on: bool,
    pub closed: bool,
    /// Does not look at what it hears.
    pub deaf: bool,
    pub next_out: u64,
    pub next_in: u64,
    /// Its Logon wanted both sides to begin at 1.
    resets: bool,
    pub orders: BTreeMap<String, Order>,
    pub executions: BTreeSet<String>,
    /// Of each report and refusal: ExecID or ClOrdID, Account, what happened; in order.
    pub told: Vec<(String, String, String)>,
    /// ClOrdID of each cancel that was carried out, and of its order; in order.
    pub canceled: Vec<(String, String)>,
    /// Refused orders, cancels and whole messages.
    pub refused: Vec<(String, String)>,
    pub logouts: Vec<String>,
    /// Messages that were possible duplicates.
    pub repeated: u64,
    /// What should never be.
    pub violations: Vec<String>,
    pub book: Book,
    /// Bytes to be sent.
    pub out: Vec<u8>,
    sent: BTreeMap<u64, (String, String)>,
    early: BTreeMap<u64, Message>,
    asked: bool,
    buffer: Vec<u8>,
}

fn stamp(now: Nanos) -> String {
    let ms = now.0 / Nanos::MILLI % 86_400_000;
    let (h, m, s) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
    format!("20260101-{h:02}:{m:02}:{s:02}.{:03}", ms % 1_000)
}

impl FixClient {
    pub fn new(comp_id: &str, password: &str) -> FixClient {
        FixClient {
            comp_id: comp_id.to_string(),
            password: password.to_string(),
            logged_on: false,
            closed: false,
            deaf: false,
            next_out: 1,
            next_in: 1,
            resets: false,
            orders: BTreeMap::new(),
            executions: BTreeSet::new(),
            told: Vec::new(),
            canceled: Vec::new(),
            refused: Vec::new(),
            logouts: Vec::new(),
            repeated: 0,
            violations: Vec::new(),
            book: Book::default(),
            out: Vec::new(),
            sent: BTreeMap::new(),
            early: BTreeMap::new(),
            asked: false,
            buffer: Vec::new(),
        }
    }

    /// Its connection is a new one.
    pub fn connected(&mut self) {
        (self.logged_on, self.closed, self.asked) = (false, false, false);
        self.early.clear();
        self.buffer.clear();
        self.out.clear();
    }

    fn write(&mut self, now: Nanos, kind: &str, seq: u64, resent: bool, body: &str) {
        let now = stamp(now);
        let again = if resent { format!("43=Y|122={now}|") } else { String::new() };
        let sender = &self.comp_id;
        let body = format!("35={kind}|34={seq}|49={sender}|56=FAIRBELL|52={now}|{again}{body}");
        let text = format!("8=FIX.4.4|9={}|{body}", body.len()).replace('|', "\x01");
        let sum = text.bytes().fold(0u8, u8::wrapping_add);
        self.out.extend_from_slice(format!("{text}10={sum:03}\x01").as_bytes());
    }

    /// Sends the next message.
    pub fn send(&mut self, now: Nanos, kind: &str, body: &str) {
        let seq = self.next_out;
        self.next_out += 1;
        if matches!(kind, "D" | "F" | "G" | "q" | "H") {
            self.sent.insert(seq, (kind.to_string(), body.to_string()));
        }
        self.write(now, kind, seq, false, body);
    }

    pub fn logon(&mut self, now: Nanos, more: &str) {
        self.resets = more.contains("141=Y");
        if self.resets {
            (self.next_out, self.next_in) = (1, 1);
            self.sent.clear();
        }
        let body = format!("98=0|108=30|{more}554={}|", self.password);
        self.send(now, "A", &body);
    }

    pub fn order(&mut self, now: Nanos, id: &str, side: char, qty: u64, price: u64) {
        let body = format!("11={id}|55=BTCUSD|54={side}|60=20260101-10:00:00|38={qty}|40=2|");
        self.orders.insert(id.to_string(), Order::default());
        self.send(now, "D", &format!("{body}44={price}|"));
    }

    /// A buy at 100 that is good until then.
    pub fn order_until(&mut self, now: Nanos, id: &str, qty: u64, end: Nanos) {
        let body = format!("11={id}|55=BTCUSD|54=1|60=20260101-10:00:00|38={qty}|40=2|44=100|");
        self.orders.insert(id.to_string(), Order::default());
        self.send(now, "D", &format!("{body}59=6|126={}|", stamp(end)));
    }

    pub fn cancel(&mut self, now: Nanos, id: &str, order: &str, side: char) {
        let body = format!("41={order}|11={id}|55=BTCUSD|54={side}|60=20260101-10:00:00|");
        self.send(now, "F", &body);
    }

    /// Takes bytes in.
    pub fn hear(&mut self, now: Nanos, bytes: &[u8]) {
        if self.deaf {
            return;
        }
        self.buffer.extend_from_slice(bytes);
        while let Some(end) = self.buffer.windows(4).position(|w| w == b"\x0110=") {
            let rest = self.buffer.split_off(end + 8);
            let text = String::from_utf8(std::mem::replace(&mut self.buffer, rest)).expect("text");
            let field = |field: &str| {
                let (tag, value) = field.split_once('=').expect("a field");
                (tag.parse().expect("a tag"), value.to_string())
            };
            let message = Message(text.trim_end_matches('\x01').split('\x01').map(field).collect());
            self.take(now, message);
        }
    }

    fn take(&mut self, now: Nanos, message: Message) {
        let (seq, repeated) = (message.number(34), message.get(43) == "Y");
        self.repeated += u64::from(repeated);
        if message.get(35) == "A" {
            self.logged_on = true;
            if message.get(141) == "Y" {
                self.next_in = 1;
                if !self.resets {
                    // Not our wish: what we send begins anew behind our Logon.
                    self.next_out = 1;
                    self.sent.clear();
                }
            }
        }
        if message.get(35) == "2" {
            self.resend(now, message.number(7), message.number(16));
        }
        if seq < self.next_in {
            if !repeated {
                let next = self.next_in;
                self.violations.push(format!("number {seq} again, {next} is next: {message:?}"));
            }
        } else if seq > self.next_in {
            self.early.insert(seq, message);
            if !std::mem::replace(&mut self.asked, true) {
                let from = self.next_in;
                self.send(now, "2", &format!("7={from}|16=0|"));
            }
        } else {
            self.process(now, &message);
            while let Some(message) = self.early.remove(&self.next_in) {
                self.process(now, &message);
            }
            let next = self.next_in;
            self.early.retain(|seq, _| *seq > next);
            self.asked = !self.early.is_empty();
        }
    }

    /// The next message in its turn.
    fn process(&mut self, now: Nanos, message: &Message) {
        self.next_in += 1;
        self.book.take(message);
        let text = |tag| message.get(tag).to_string();
        match message.get(35) {
            "8" => self.told.push((text(17), text(1), text(150))),
            "9" => self.told.push((text(11), text(1), "9".to_string())),
            _ => {}
        }
        match message.get(35) {
            "4" => self.next_in = message.number(36),
            "1" => self.send(now, "0", &format!("112={}|", message.get(112))),
            "5" => self.logouts.push(message.get(58).to_string()),
            "8" => self.execution(message),
            "9" | "j" | "3" => {
                let about = message.get(11).to_string() + message.get(45);
                self.refused.push((about, message.get(58).to_string()));
            }
            _ => {}
        }
    }

    fn execution(&mut self, message: &Message) {
        let id = message.get(17);
        if !self.executions.insert(id.to_string()) {
            self.violations.push(format!("execution {id} twice"));
        }
        if message.get(150) == "4" && !message.get(41).is_empty() {
            self.canceled.push((message.get(11).to_string(), message.get(41).to_string()));
        }
        let cl_ord_id = if message.get(41).is_empty() || message.get(150) == "5" {
            message.get(11)
        } else {
            message.get(41)
        };
        if message.get(150) == "8" {
            self.refused.push((cl_ord_id.to_string(), message.get(58).to_string()));
            self.orders.remove(cl_ord_id);
            return;
        }
        let order = self.orders.entry(cl_ord_id.to_string()).or_default();
        order.accepted += u32::from(message.get(150) == "0");
        order.cum = message.get(14).parse().expect("a quantity");
        order.leaves = message.get(151).parse().expect("a quantity");
        order.status = message.get(39).bytes().next().expect("a status");
        let kind = message.get(150).bytes().next().expect("a kind");
        order.last = (kind, message.get(58).to_string());
    }

    fn resend(&mut self, now: Nanos, from: u64, to: u64) {
        let end = if to == 0 { self.next_out } else { to + 1 };
        let mut gap = from;
        let again: Vec<(u64, (String, String))> =
            self.sent.range(from..end).map(|(seq, sent)| (*seq, sent.clone())).collect();
        for (seq, (kind, body)) in again {
            if gap < seq {
                self.write(now, "4", gap, true, &format!("36={seq}|123=Y|"));
            }
            self.write(now, &kind, seq, true, &body);
            gap = seq + 1;
        }
        if gap < end {
            self.write(now, "4", gap, true, &format!("36={end}|123=Y|"));
        }
    }
}
