//! A participant's message from the session to what the exchange has to do for it.
//!
//! An application answers at once what it can (refusals, order status, the list of instruments) and says
//! what is left to the gateway: a command for the engine, market data, the state of trading. The
//! gateway gives it the account's reports, in order of the stream, and sends what it is told.

use types::{Command, ExecutionReport, Nanos};

use super::ledger::{Ledger, LedgerLimits};
use super::market::{self, MarketDataRequest, Subscription};
use super::questions::{Answer, Questions, number_of};
use super::request::{self, Refusal, Request};
use super::{
    EXECUTION_REPORT, MARKET_DATA_REQUEST_REJECT, ORDER_CANCEL_REJECT, ORDER_MASS_CANCEL_REPORT,
    SECURITY_LIST, Symbols, report,
};
use crate::session::{Outbound, Port, Store};
use crate::tag;
use crate::version::Version;
use crate::view::Message;

/// What the caller still has to do after a message was handled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wanted<'a> {
    /// Nothing: the message has been answered.
    Nothing,
    /// Pass the command to the engine, with the account filled in; where that is not possible, call
    /// [`FixApplication::take_back`].
    Command(Command),
    /// Serve a MarketDataRequest(V): a snapshot, updates, or the end of a subscription.
    MarketData(MarketDataRequest<'a>),
    /// Send a TradingSessionStatus(h) for each instrument: TradSesReqID(335) of the request, and
    /// whether changes are to be told.
    TradingStatus(&'a [u8], Subscription),
    /// Send a SecurityStatus(f): SecurityStatusReqID(324), Symbol(55), and whether changes are to
    /// be told.
    SecurityStatus(&'a [u8], &'a [u8], Subscription),
}

/// The application layer of one FIX session.
#[derive(Clone, Debug)]
pub struct FixApplication {
    version: Version,
    /// Why the session takes no orders; `None`: it does.
    no_orders: Option<Refusal>,
    /// The account's orders, as this session's reports tell of them.
    pub ledger: Ledger,
    questions: Questions,
}

impl FixApplication {
    /// An application for an account of which nothing is known yet.
    pub fn new(version: Version, limits: LedgerLimits) -> FixApplication {
        let (ledger, questions) = (Ledger::new(limits), Questions::default());
        FixApplication { version, no_orders: None, ledger, questions }
    }

    /// An application that gets copies of the reports of several accounts and takes no requests.
    pub fn drop_copy(version: Version, limits: LedgerLimits) -> FixApplication {
        FixApplication {
            version,
            no_orders: Some(Refusal::READ_ONLY),
            ledger: Ledger::shared(limits),
            questions: Questions::default(),
        }
    }

    /// An application for market data, which takes no orders.
    pub fn market_data(version: Version) -> FixApplication {
        FixApplication {
            no_orders: Some(Refusal::MARKET_DATA_ONLY),
            ..FixApplication::new(version, LedgerLimits::default())
        }
    }

    /// An application message in sequence, valid by its dictionary, or of a type it does not have.
    pub fn handle<'a, S: Store>(
        &mut self,
        now: Nanos,
        message: &Message<'a>,
        symbols: &Symbols,
        port: &mut Port<'_, S>,
    ) -> Wanted<'a> {
        let order = matches!(message.msg_type(), b"D" | b"F" | b"G" | b"H" | b"q");
        if let Some(refusal) = self.no_orders.filter(|_| order) {
            self.refuse(now, message, &refusal, port);
            return Wanted::Nothing;
        }
        match request::parse(message, symbols) {
            Ok(Some(request)) => self.order(now, &request, message, symbols, port),
            Ok(None) => self.other(now, message, symbols, port),
            Err(refusal) => {
                self.refuse(now, message, &refusal, port);
                Wanted::Nothing
            }
        }
    }

    fn order<'a, S: Store>(
        &mut self,
        now: Nanos,
        request: &Request,
        message: &Message<'a>,
        symbols: &Symbols,
        port: &mut Port<'_, S>,
    ) -> Wanted<'a> {
        let known = match request {
            Request::Status { cl_ord_id } => Some((cl_ord_id, Refusal::UNKNOWN_ORDER)),
            Request::New { terms, resent: true } => Some((&terms.cl_ord_id, Refusal::DUPLICATE)),
            _ => None,
        };
        if let Some((&id, refusal)) = known {
            let standing = self.ledger.status(&id, number_of(message), now);
            if standing.is_some() || matches!(request, Request::Status { .. }) {
                let answer = Answer { id, refusal, standing };
                self.questions.answer(self.version, now, message, answer, Some(symbols), port);
                return Wanted::Nothing;
            }
        }
        match self.ledger.command(request) {
            Ok(command) => Wanted::Command(command),
            Err(refusal) => {
                self.refuse(now, message, &refusal, port);
                Wanted::Nothing
            }
        }
    }

    fn other<'a, S: Store>(
        &mut self,
        now: Nanos,
        message: &Message<'a>,
        symbols: &Symbols,
        port: &mut Port<'_, S>,
    ) -> Wanted<'a> {
        match message.msg_type() {
            b"V" => match market::market_data_request(message, symbols) {
                Ok(request) => return Wanted::MarketData(request),
                Err(refusal) => {
                    let id = message.get(tag::MD_REQ_ID.number).unwrap_or(&[]);
                    port.send(MARKET_DATA_REQUEST_REJECT, |writer| {
                        market::write_refusal(id, refusal, writer);
                    });
                }
            },
            b"x" => {
                let version = self.version;
                port.send(SECURITY_LIST, |writer| {
                    market::write_security_list(version, message, symbols, writer);
                });
            }
            b"g" => {
                let id = message.get(tag::TRAD_SES_REQ_ID.number).unwrap_or(&[]);
                return Wanted::TradingStatus(id, subscription(message));
            }
            b"e" => {
                let get = |tag: tag::Tag| message.get(tag.number).unwrap_or(&[]);
                let (id, symbol) = (get(tag::SECURITY_STATUS_REQ_ID), get(tag::SYMBOL));
                return Wanted::SecurityStatus(id, symbol, subscription(message));
            }
            _ => self.refuse(now, message, &Refusal::UNSUPPORTED_TYPE, port),
        }
        Wanted::Nothing
    }

    /// Takes back and refuses the command of `message`, which cannot go to the engine. Like every
    /// message the refusal gets its number from the log, so while nothing can be logged
    /// ([`Refusal::SUSPENDED`]) the refusal is sent once logging goes on.
    pub fn take_back<S: Store>(
        &mut self,
        now: Nanos,
        message: &Message<'_>,
        command: &Command,
        why: &Refusal,
        port: &mut Port<'_, S>,
    ) {
        self.ledger.withdraw(command);
        self.refuse(now, message, why, port);
    }

    /// Refuses a message that asks for something this gateway does not have.
    pub fn unavailable<S: Store>(
        &mut self,
        now: Nanos,
        message: &Message<'_>,
        port: &mut Port<'_, S>,
    ) {
        self.refuse(now, message, &Refusal::UNAVAILABLE, port);
    }

    fn refuse<S: Store>(
        &mut self,
        now: Nanos,
        message: &Message<'_>,
        refusal: &Refusal,
        port: &mut Port<'_, S>,
    ) {
        // A type that is no request gets the general answer, whatever it looks like.
        let general = *refusal == Refusal::UNSUPPORTED_TYPE;
        let msg_type = match general {
            true => super::BUSINESS_MESSAGE_REJECT,
            false => report::refusal_type(message),
        };
        let version = self.version;
        let named = message.get(tag::ORIG_CL_ORD_ID.number);
        let named = named.filter(|_| msg_type == ORDER_CANCEL_REJECT);
        if let Some(id) = named.and_then(|named| request::cl_ord_id(named).ok()) {
            let standing = self.ledger.status(&id, number_of(message), now);
            let answer = Answer { id, refusal: *refusal, standing };
            return self.questions.answer(version, now, message, answer, None, port);
        }
        port.send(msg_type, |writer| {
            report::write_refusal(version, message, refusal, None, now, writer);
        });
    }

    /// A report of the account's stream at `position`: sent, or stored while the participant is
    /// away.
    #[inline]
    pub fn report<S: Store>(
        &mut self,
        now: Nanos,
        report: &ExecutionReport,
        position: u64,
        symbols: &Symbols,
        outbound: &mut Outbound<S>,
        out: &mut Vec<u8>,
    ) {
        let execution = self.ledger.apply(report, position);
        let (version, msg_type) = (self.version, report::msg_type(&execution));
        if !self.questions.is_empty() {
            self.questions.revise(version, now, &self.ledger, symbols, outbound);
        }
        if version == Version::Fix42 && msg_type == ORDER_MASS_CANCEL_REPORT {
            // FIX 4.2 knows no mass cancel: this one was asked for over another door.
            return outbound.pass(now, out);
        }
        outbound.send(now, msg_type, out, |writer| {
            report::write(version, &execution, symbols, writer);
        });
    }

    /// Sends or stores a copy of another account's report, which lies at `position` of that
    /// account's stream; the copy carries the account's name.
    pub fn copy<S: Store>(
        &mut self,
        now: Nanos,
        (report, position): (&ExecutionReport, u64),
        owner: &[u8],
        symbols: &Symbols,
        outbound: &mut Outbound<S>,
        out: &mut Vec<u8>,
    ) {
        let execution = self.ledger.apply(report, position);
        let (version, msg_type) = (self.version, report::msg_type(&execution));
        outbound.send(now, msg_type, out, |writer| {
            report::write(version, &execution, symbols, writer);
            writer.foreign(tag::ACCOUNT, owner);
            if msg_type == EXECUTION_REPORT && version != Version::Fix42 {
                writer.flag(tag::COPY_MSG_INDICATOR, true);
            }
        });
    }
}

/// Reads SubscriptionRequestType(263) of a message that its dictionary has found valid.
fn subscription(message: &Message<'_>) -> Subscription {
    match message.get(tag::SUBSCRIPTION_REQUEST_TYPE.number) {
        Some(b"1") => Subscription::Updates,
        Some(b"2") => Subscription::End,
        _ => Subscription::Snapshot,
    }
}
