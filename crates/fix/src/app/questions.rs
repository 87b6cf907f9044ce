//! Answers that tell how an order stands and wait for their numbers.
//!
//! Where an account's stream gives the numbers, reports that have lower ones come while an answer
//! waits; the answer must not tell what was before them. So the request is kept until the answer
//! has its number, and the answer is written anew when its order has changed. As many are kept as
//! answers wait, which the caller of the session bounds.

use std::collections::VecDeque;

use types::{ClOrdId, Nanos};

use super::request::Refusal;
use super::{EXECUTION_REPORT, Execution, Ledger, Symbols, report};
use crate::encode::Writer;
use crate::session::{Outbound, Port, Store};
use crate::version::Version;
use crate::view::{FieldIndex, Message};

/// Empty buffers that are kept.
const SPARE_MAX: usize = 16;

/// What is answered to a request that names an order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    /// ClOrdID by which the request names the order.
    pub(super) id: ClOrdId,
    /// Why the request is refused: a question only if the order is not known.
    pub(super) refusal: Refusal,
    /// How the order stands; `None`: it is not known.
    pub(super) standing: Option<Execution>,
}

impl Answer {
    /// Writes the answer to `message`, of the type that [`report::refusal_type`] tells. The status
    /// of an order is written with `symbols`, which a refusal does not need.
    fn write(
        &self,
        version: Version,
        message: &Message<'_>,
        now: Nanos,
        symbols: Option<&Symbols>,
        writer: &mut Writer<'_>,
    ) {
        let standing = self.standing.as_ref();
        let status = standing.filter(|_| report::refusal_type(message) == EXECUTION_REPORT);
        match (status, symbols) {
            (Some(status), Some(symbols)) => report::write(version, status, symbols, writer),
            _ => report::write_refusal(version, message, &self.refusal, standing, now, writer),
        }
    }
}

/// The number that the answer to a request names it by.
pub(super) fn number_of(message: &Message<'_>) -> u64 {
    u64::from(message.seq_num().unwrap_or(0))
}

/// A request whose answer waits for its number.
#[derive(Clone, Debug)]
struct Question {
    mark: u64,
    number: u64,
    answer: Answer,
    request: Vec<u8>,
}

/// The requests whose answers wait for their numbers, the oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Questions {
    waiting: VecDeque<Question>,
    /// Empty buffers for requests, to be used again.
    spare: Vec<Vec<u8>>,
    last_mark: u64,
    index: FieldIndex,
}

impl Questions {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Sends the answer to `message`; where it waits for its number, the request is kept.
    pub(super) fn answer<S: Store>(
        &mut self,
        version: Version,
        now: Nanos,
        message: &Message<'_>,
        answer: Answer,
        symbols: Option<&Symbols>,
        port: &mut Port<'_, S>,
    ) {
        let mark = self.last_mark + 1;
        let waits = port.send_marked(report::refusal_type(message), mark, |writer| {
            answer.write(version, message, now, symbols, writer);
        });
        if waits {
            self.last_mark = mark;
            // What was asked before may have its answer by now.
            self.drop_answered(port.first_marked());
            let mut request = self.spare.pop().unwrap_or_default();
            request.extend_from_slice(message.bytes());
            let number = number_of(message);
            self.waiting.push_back(Question { mark, number, answer, request });
        }
    }

    /// Writes the answers that still wait anew, as far as a report has changed their orders.
    pub(super) fn revise<S: Store>(
        &mut self,
        version: Version,
        now: Nanos,
        ledger: &Ledger,
        symbols: &Symbols,
        outbound: &mut Outbound<S>,
    ) {
        self.drop_answered(outbound.first_marked());
        for question in &mut self.waiting {
            let answer = &mut question.answer;
            let standing = ledger.status(&answer.id, question.number, now);
            let told = answer.standing.map(|told| Execution { at: now, ..told });
            if standing != told
                && let Ok(message) = self.index.parse(&question.request)
            {
                answer.standing = standing;
                outbound.revise(question.mark, |writer| {
                    answer.write(version, &message, now, Some(symbols), writer);
                });
            }
        }
    }

    /// Drops the requests before the one with this mark, whose answer is the first that waits.
    fn drop_answered(&mut self, first: Option<u64>) {
        let first = first.unwrap_or(u64::MAX);
        while let Some(mut question) = self.waiting.pop_front_if(|question| question.mark < first) {
            question.request.clear();
            if self.spare.len() < SPARE_MAX {
                self.spare.push(question.request);
            }
        }
    }
}
