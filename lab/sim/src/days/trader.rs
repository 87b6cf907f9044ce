//! A participant over many days: OUCH over SoupBinTCP, orders for the day and until cancelled, and books
//! of its own that know nothing but what it was told.

use std::collections::BTreeMap;

use types::{
    Channel, ClOrdId, ClockReading, ConnId, InstrumentId, Nanos, Node, Outbox, Peer, Price, Qty,
    Side, Symbol, TimeInForce, UserRefNum,
};
use wire::ouch::{self, NewOrder, Outbound, Terms};
use wire::soupbin::{ClientEvent, ClientSession};

/// From the end of a connection to the next attempt.
const RECONNECT_NS: u64 = 20 * Nanos::MILLI;
/// From a login to the sending of what has no answer: what was missed is told first.
const RESEND_NS: u64 = 30 * Nanos::MILLI;

/// What it has dealt in an instrument, as [`engine::statement::Statement`] has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Dealings {
    /// Orders taken.
    pub orders: u64,
    /// Lots bought, and what was paid: price units times lots.
    pub bought: (u64, i128),
    /// Lots sold, and what came for them.
    pub sold: (u64, i128),
}

/// An order that it believes to be open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenOrder {
    /// Of which instrument.
    pub instrument: InstrumentId,
    side: Side,
    /// Lots left.
    pub open: u64,
    /// Whether it ends with the day.
    pub for_the_day: bool,
}

/// One participant.
#[derive(Debug)]
pub struct Trader {
    gateways: Vec<Peer>,
    turn: usize,
    session: ClientSession,
    conn: Option<ConnId>,
    next_conn: u32,
    /// When it connects again, or sends again.
    wakes: Nanos,
    is_up: bool,
    next_ref: u32,
    /// What it sent and has no answer for: the request as OUCH, and the order.
    unanswered: BTreeMap<u32, (Vec<u8>, Option<OpenOrder>)>,
    open: BTreeMap<u32, OpenOrder>,
    dealings: BTreeMap<InstrumentId, Dealings>,
    /// Cancels by their OUCH code.
    cancels: BTreeMap<u8, u64>,
    accepted: u64,
    executions: u64,
    refused: u64,
    logins: u64,
    malformed: u64,
    /// Requests, and those that have an answer.
    requests: (u64, u64),
    /// The acceptance of this number never reaches it: a seeded bug; 0: none.
    pub loses: u64,
    /// One fill of so many goes by unnoticed: a seeded bug; 0: none.
    pub forgets_every: u64,
}

impl Trader {
    /// Not yet connected.
    ///
    /// # Panics
    /// When user name or password do not fit SoupBinTCP.
    pub fn new(username: &str, password: &str, gateways: Vec<Peer>) -> Trader {
        Trader {
            gateways,
            turn: 0,
            session: ClientSession::new(username, password).expect("short names"),
            conn: None,
            next_conn: 1,
            wakes: Nanos(0),
            is_up: false,
            next_ref: 1,
            unanswered: BTreeMap::new(),
            open: BTreeMap::new(),
            dealings: BTreeMap::new(),
            cancels: BTreeMap::new(),
            accepted: 0,
            executions: 0,
            refused: 0,
            logins: 0,
            malformed: 0,
            requests: (0, 0),
            loses: 0,
            forgets_every: 0,
        }
    }

    /// What it has dealt.
    pub fn dealings(&self) -> &BTreeMap<InstrumentId, Dealings> {
        &self.dealings
    }

    /// Orders that it believes to be open, by their numbers.
    pub fn open(&self) -> &BTreeMap<u32, OpenOrder> {
        &self.open
    }

    /// Orders that were ended for a reason, by its OUCH code.
    pub fn cancels(&self, code: u8) -> u64 {
        self.cancels.get(&code).copied().unwrap_or(0)
    }

    /// Executions it was told of, requests refused, logins.
    pub fn counts(&self) -> (u64, u64, u64) {
        (self.executions, self.refused, self.logins)
    }

    /// How many of its orders are open.
    pub fn open_orders(&self) -> usize {
        self.open.len()
    }

    /// Requests, and those that have an answer.
    pub fn requests(&self) -> (u64, u64) {
        self.requests
    }

    /// What it could not read, or was told against the protocol.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Whether it is logged in and has an answer to everything.
    pub fn is_quiet(&self) -> bool {
        self.is_up && self.unanswered.is_empty()
    }

    /// Enters an order; sent now, or when it is logged in.
    pub fn enter(
        &mut self,
        now: Nanos,
        (instrument, symbol): (InstrumentId, Symbol),
        (side, qty, price): (Side, u64, Price),
        time_in_force: TimeInForce,
        out: &mut Outbox,
    ) {
        let user_ref = UserRefNum(self.next_ref);
        self.next_ref += 1;
        let order = NewOrder {
            user_ref,
            side,
            qty: Qty(qty),
            symbol,
            price: Some(price),
            time_in_force,
            post_only: false,
            cl_ord_id: ClOrdId::default(),
        };
        let mut bytes = Vec::new();
        ouch::encode_enter_order_with(&order, &Terms::default(), &mut bytes).expect("encodes");
        let for_the_day = time_in_force == TimeInForce::Day;
        let order = OpenOrder { instrument, side, open: qty, for_the_day };
        self.ask(now, user_ref.0, bytes, Some(order), out);
    }

    /// Cancels the open order that the number picks, if there is one.
    pub fn cancel(&mut self, now: Nanos, pick: u64, out: &mut Outbox) {
        let count = self.open.len().max(1) as u64;
        let Some((&user_ref, _)) = self.open.iter().nth((pick % count) as usize) else { return };
        if self.unanswered.contains_key(&user_ref) {
            return;
        }
        let mut bytes = Vec::new();
        ouch::encode_cancel(UserRefNum(user_ref), Qty(0), &mut bytes).expect("encodes");
        self.ask(now, user_ref, bytes, None, out);
    }

    fn ask(
        &mut self,
        now: Nanos,
        user_ref: u32,
        bytes: Vec<u8>,
        order: Option<OpenOrder>,
        out: &mut Outbox,
    ) {
        if self.is_up {
            self.send(now, &bytes, out);
        }
        self.requests.0 += 1;
        self.unanswered.insert(user_ref, (bytes, order));
    }

    fn send(&mut self, now: Nanos, message: &[u8], out: &mut Outbox) {
        let Some(conn) = self.conn else { return };
        let session = &mut self.session;
        let span = out.write(|buffer| {
            // Fails in no state in which it is up.
            let _ = session.send_unsequenced(now, message, buffer);
        });
        out.stream(conn, span);
    }

    fn down(&mut self, now: Nanos) {
        self.session.handle_close();
        (self.conn, self.is_up) = (None, false);
        self.wakes = now.after(RECONNECT_NS);
    }

    fn hang_up(&mut self, now: Nanos, out: &mut Outbox) {
        if let Some(conn) = self.conn {
            out.close(conn);
        }
        self.down(now);
    }

    fn answered(&mut self, user_ref: u32) -> Option<OpenOrder> {
        let (_, order) = self.unanswered.remove(&user_ref)?;
        self.requests.1 += 1;
        order
    }

    fn told(&mut self, message: &[u8]) {
        match ouch::parse_outbound(message) {
            Ok(Outbound::OrderAccepted(m, _)) => {
                self.accepted += 1;
                if self.accepted == self.loses {
                    return;
                }
                let Some(order) = self.answered(m.user_ref.get()) else {
                    self.malformed += 1;
                    return;
                };
                self.dealings.entry(order.instrument).or_default().orders += 1;
                self.open.insert(m.user_ref.get(), order);
            }
            Ok(Outbound::OrderRejected(m, _)) => {
                self.answered(m.user_ref.get());
                self.refused += 1;
            }
            Ok(Outbound::OrderCanceled(m, _)) => {
                self.answered(m.user_ref.get());
                *self.cancels.entry(m.reason).or_default() += 1;
                self.less(m.user_ref.get(), m.quantity.get().into());
            }
            Ok(Outbound::CancelReject(m, _)) => {
                self.answered(m.user_ref.get());
            }
            Ok(Outbound::OrderExecuted(m, _)) => {
                let (user_ref, qty) = (m.user_ref.get(), u64::from(m.quantity.get()));
                let order = self.open.get(&user_ref).copied();
                self.executions += 1;
                self.less(user_ref, qty);
                if self.forgets_every > 0 && self.executions.is_multiple_of(self.forgets_every) {
                    return;
                }
                // What it does not know has just been counted.
                let Some(OpenOrder { instrument, side, .. }) = order else { return };
                let dealt = self.dealings.entry(instrument).or_default();
                let sum = if side == Side::Buy { &mut dealt.bought } else { &mut dealt.sold };
                sum.0 += qty;
                sum.1 += i128::from(qty) * i128::from(m.price.get());
            }
            Ok(Outbound::SystemEvent(..)) => {}
            _ => self.malformed += 1,
        }
    }

    fn less(&mut self, user_ref: u32, qty: u64) {
        let Some(order) = self.open.get_mut(&user_ref) else {
            self.malformed += 1;
            return;
        };
        match order.open.checked_sub(qty) {
            Some(0) => {
                self.open.remove(&user_ref);
            }
            Some(left) => order.open = left,
            None => self.malformed += 1,
        }
    }
}

impl Node for Trader {
    fn handle_datagram(
        &mut self,
        _now: ClockReading,
        _channel: Channel,
        _from: Peer,
        _bytes: &[u8],
        _out: &mut Outbox,
    ) {
        self.malformed += 1;
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        let now = now.now;
        if self.wakes <= now {
            self.wakes = Nanos::NEVER;
            if self.conn.is_none() {
                let gateway = self.gateways[self.turn % self.gateways.len()];
                self.turn += 1;
                let conn = ConnId(self.next_conn);
                self.next_conn += 1;
                self.conn = Some(conn);
                out.connect(conn, gateway);
            } else if self.session.is_active() {
                self.is_up = true;
                let waiting: Vec<Vec<u8>> =
                    self.unanswered.values().map(|(bytes, _)| bytes.clone()).collect();
                waiting.iter().for_each(|bytes| self.send(now, bytes, out));
            }
        }
        let (session, mut dead) = (&mut self.session, false);
        let span = out.write(|buffer| dead = session.handle_timeout(now, buffer).is_some());
        match self.conn {
            Some(_) if dead => self.hang_up(now, out),
            Some(conn) if !out.bytes(span).is_empty() => out.stream(conn, span),
            _ => {}
        }
    }

    fn next_timeout(&self) -> Nanos {
        self.wakes.min(self.session.next_timeout())
    }

    fn handle_connect(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        let (session, mut refused) = (&mut self.session, false);
        let span = out.write(|buffer| refused = session.connect(now.now, buffer).is_err());
        match refused {
            true => self.hang_up(now.now, out),
            false => out.stream(conn, span),
        }
    }

    fn handle_stream(&mut self, now: ClockReading, conn: ConnId, bytes: &[u8], out: &mut Outbox) {
        if self.conn != Some(conn) {
            return;
        }
        let (mut messages, mut over, mut accepted) = (Vec::new(), false, false);
        self.session.handle_bytes(now.now, bytes, |event| match event {
            ClientEvent::Accepted { .. } => accepted = true,
            ClientEvent::Sequenced { message, .. } => messages.push(message.to_vec()),
            ClientEvent::Unsequenced(_) => {}
            ClientEvent::Rejected(_)
            | ClientEvent::EndOfSession
            | ClientEvent::Violation(_)
            | ClientEvent::Dead => over = true,
        });
        if accepted {
            self.logins += 1;
            self.wakes = now.now.after(RESEND_NS);
        }
        messages.iter().for_each(|message| self.told(message));
        if over {
            self.hang_up(now.now, out);
        }
    }

    fn handle_close(&mut self, now: ClockReading, conn: ConnId, _out: &mut Outbox) {
        if self.conn == Some(conn) {
            self.down(now.now);
        }
    }
}
