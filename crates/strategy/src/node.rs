//! A strategy beside an edge of a running exchange, as a sans-I/O node.
//!
//! It listens to what the edge's receiver releases, like any listener, so it hears a message when everybody
//! does and nothing before; repairs come from the retransmission servers. Its requests go through an ordinary
//! session at the edge's gateway: rates, limits, kill switches and sequencing are everybody's. When the
//! strategy is stopped its open orders are cancelled, and nothing is told to it any more.
//!
//! It hears the feed from the first message of its session on: a strategy is started with the exchange, or while the
//! retransmission servers still have all of the session. What was sent before it began makes its books; it is asked
//! for the first time when they are as they are now.

use feed::{ListenerCounters, Subscriber};
use types::{Channel, ClockReading, ConnId, Instrument, Nanos, Node, Outbox, Peer, Price, Qty};
use wire::soupbin::BadCredentials;

use crate::heard::{self, Opening};
use crate::report::{Report, ReportKind};
use crate::seat::{Request, Seat};
use crate::session::{Answer, Login, Session, SessionCounters, What};
use crate::strategy::Strategy;

const DAY_NS: u64 = 86_400 * Nanos::SECOND;
/// Names of the session's connections are below this; the listener opens none.
const CONNS: u32 = 1 << 20;

/// Takes the record of what a strategy hears, in pieces.
pub type Sink = Box<dyn FnMut(&[u8]) + Send>;

/// What a node is made of beside its strategy and its feed.
pub struct StrategySettings {
    /// How its account logs in.
    pub login: Login,
    /// What is traded.
    pub instruments: Vec<Instrument>,
    /// Streams of the feed, room for orders in each one's books, and the first midnight of its times.
    pub opening: Opening,
    /// Who takes the record of what it hears, if anybody.
    pub record: Option<Sink>,
}

/// How a strategy is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StrategyStatus {
    /// Its account is logged in.
    pub up: bool,
    /// Why it was stopped; `None`: it runs.
    pub failure: Option<String>,
    /// Messages of the feed that it heard.
    pub messages: u64,
    /// Reports of its orders.
    pub reports: u64,
    /// Times at which it was told something.
    pub told: u64,
    /// Orders that it asked for.
    pub orders: u64,
    /// Cancels that it asked for.
    pub cancels: u64,
    /// Its orders that may still trade.
    pub open: usize,
    /// Requests without an answer.
    pub unanswered: usize,
    /// Messages that were none, or contradicted the books.
    pub contradictions: u64,
    /// Of the session.
    pub session: SessionCounters,
}

/// A strategy, its feed and its session.
pub struct StrategyNode {
    feed: Subscriber,
    seat: Seat,
    strategy: Box<dyn Strategy + Send>,
    session: Session,
    midnight: Nanos,
    record: Option<Sink>,
    scratch: Vec<u8>,
    requests: Vec<Request>,
    answers: Vec<Answer>,
    next_conn: u32,
    status: StrategyStatus,
}

impl StrategyNode {
    /// A node that has heard nothing; `feed` follows the released feed.
    ///
    /// # Errors
    /// The login does not fit SoupBinTCP.
    pub fn new(
        mut feed: Subscriber,
        strategy: Box<dyn Strategy + Send>,
        settings: StrategySettings,
    ) -> Result<StrategyNode, BadCredentials> {
        let StrategySettings { login, instruments, opening, mut record } = settings;
        feed.tell_messages();
        let mut scratch = Vec::new();
        if let Some(record) = &mut record {
            heard::begin(&mut scratch, &opening, &instruments);
            record(&scratch);
        }
        Ok(StrategyNode {
            seat: Seat::new(
                opening.streams.into(),
                opening.orders_max as usize,
                Some(opening.midnight),
            )
            .behind(opening.history()),
            session: Session::new(login, &instruments)?,
            midnight: opening.midnight,
            feed,
            strategy,
            record,
            scratch,
            requests: Vec::new(),
            answers: Vec::new(),
            next_conn: 1,
            status: StrategyStatus::default(),
        })
    }

    /// How it is.
    pub fn status(&self) -> StrategyStatus {
        StrategyStatus {
            up: self.session.is_up(),
            open: self.seat.open_orders(),
            unanswered: self.session.unanswered(),
            contradictions: self.seat.contradictions(),
            session: self.session.counters(),
            ..self.status.clone()
        }
    }

    /// The strategy's name.
    pub fn name(&self) -> &str {
        self.strategy.name()
    }

    /// What its listener has counted.
    pub fn listener(&self) -> ListenerCounters {
        self.feed.counters()
    }

    /// From now on the feed comes from there.
    pub fn set_sources(&mut self, sources: Vec<Peer>) {
        self.feed.set_sources(sources);
    }

    /// The midnight that times of day count from at a moment.
    fn midnight(&self, now: Nanos) -> Nanos {
        Nanos(now.0 - now.since(self.midnight) % DAY_NS)
    }

    /// Takes what the listener has taken, and tells the strategy.
    fn hear(&mut self, now: Nanos, out: &mut Outbox) {
        let (seat, status, scratch) = (&mut self.seat, &mut self.status, &mut self.scratch);
        let recorded = self.record.is_some();
        scratch.clear();
        self.feed.take_messages(|stream, bytes| {
            if recorded {
                heard::message(scratch, stream, bytes);
            }
            status.messages += 1;
            seat.message(stream, bytes);
        });
        self.tell(now, out);
    }

    /// Tells the strategy what there is, and asks for what it wants.
    fn tell(&mut self, now: Nanos, out: &mut Outbox) {
        if !self.seat.has_news() || self.status.failure.is_some() {
            self.seat.tell(now, self.strategy.as_mut());
            self.written();
            return;
        }
        self.seat.tell(now, self.strategy.as_mut());
        self.status.told += 1;
        self.requests.extend(self.seat.requests());
        if let Some(why) = self.strategy.failure() {
            self.status.failure = Some(why.to_string());
        }
        if self.record.is_some() {
            heard::told(&mut self.scratch, now);
            self.requests.iter().for_each(|one| heard::request(&mut self.scratch, one));
            if let Some(why) = &self.status.failure {
                heard::failed(&mut self.scratch, why);
            }
        }
        self.written();
        if self.status.failure.is_some() {
            // Not of the strategy's own asking: behind the record.
            self.requests.extend(self.seat.cancels());
        }
        for request in self.requests.drain(..) {
            let cancel = matches!(request, Request::Cancel { .. });
            *if cancel { &mut self.status.cancels } else { &mut self.status.orders } += 1;
            self.session.ask(now, request);
        }
        self.session.flush(out);
    }

    /// Hands on what is to be recorded.
    fn written(&mut self) {
        if let Some(record) = self.record.as_mut().filter(|_| !self.scratch.is_empty()) {
            record(&self.scratch);
        }
        self.scratch.clear();
    }

    /// Reports of what the gateway said.
    fn answered(&mut self, now: Nanos, out: &mut Outbox) {
        let midnight = self.midnight(now);
        self.scratch.clear();
        for answer in std::mem::take(&mut self.answers) {
            let report = self.report(midnight, &answer);
            if self.record.is_some() {
                heard::report(&mut self.scratch, &report);
            }
            self.status.reports += 1;
            self.seat.report(report);
        }
        self.tell(now, out);
    }

    fn report(&self, midnight: Nanos, answer: &Answer) -> Report {
        let known = self.seat.order(answer.id);
        let (open, price) = known.map_or((0, Price(0)), |order| (order.open, order.price));
        let less = |qty: Qty| Qty(open.saturating_sub(qty.0));
        let (kind, qty, price, left) = match answer.what {
            What::Accepted { qty, price } => (ReportKind::Accepted, qty, price, qty),
            What::Executed { qty, price, .. } => (ReportKind::Executed, qty, price, less(qty)),
            What::Cancelled { qty } if less(qty).0 > 0 => {
                (ReportKind::Changed, qty, price, less(qty))
            }
            What::Cancelled { qty } => (ReportKind::Ended, qty, price, Qty(0)),
            What::Rejected => (ReportKind::Rejected, Qty(open), price, Qty(0)),
            What::CancelRejected => (ReportKind::CancelRejected, Qty(0), price, Qty(open)),
            What::Changed => (ReportKind::Changed, Qty(0), price, Qty(open)),
        };
        Report {
            kind,
            happened: midnight.after(answer.time),
            id: answer.id,
            instrument: known.map_or(types::InstrumentId(0), |order| order.instrument),
            side: known.map_or(types::Side::Buy, |order| order.side),
            price,
            qty,
            left,
            rested: matches!(answer.what, What::Executed { rested: true, .. }),
        }
    }

    fn is_own(&self, conn: ConnId) -> bool {
        self.session.conn() == Some(conn)
    }
}

impl Node for StrategyNode {
    fn handle_datagram(
        &mut self,
        now: ClockReading,
        channel: Channel,
        from: Peer,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        self.feed.handle_datagram(now, channel, from, bytes, out);
        self.hear(now.now, out);
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        if self.feed.next_timeout() <= now.now {
            self.feed.handle_timeout(now, out);
        }
        if self.session.next_timeout() <= now.now
            && self.session.handle_timeout(now.now, ConnId(self.next_conn), out)
        {
            self.next_conn = self.next_conn % (CONNS - 1) + 1;
        }
    }

    fn next_timeout(&self) -> Nanos {
        self.feed.next_timeout().min(self.session.next_timeout())
    }

    fn handle_connect(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        if self.is_own(conn) {
            self.session.handle_connect(now.now, out);
        }
    }

    fn handle_stream(&mut self, now: ClockReading, conn: ConnId, bytes: &[u8], out: &mut Outbox) {
        if self.is_own(conn) {
            let answers = &mut self.answers;
            self.session.handle_stream(now.now, bytes, out, |answer| answers.push(answer));
            self.answered(now.now, out);
        }
    }

    fn handle_close(&mut self, now: ClockReading, conn: ConnId, _out: &mut Outbox) {
        if self.is_own(conn) {
            self.session.handle_close(now.now);
        }
    }
}
