//! A client: sends requests, again and to others until it is answered, and remembers the answers.

use std::collections::BTreeMap;

use types::SplitMix64;

use super::ledger::Request;

/// Requests that a client has unanswered at most.
const OPEN_MAX: usize = 6;
/// When a request is sent again, ns.
const RETRY_NS: u64 = 120_000_000;

/// A client.
pub(super) struct Client {
    pub(super) id: u64,
    total: u64,
    next: u64,
    /// Sent and not answered: when it was sent last.
    open: BTreeMap<u64, (Request, u64)>,
    /// Answers: by number, the execution.
    pub(super) answered: BTreeMap<u64, u64>,
    /// Two answers to one request that differ.
    pub(super) contradicted: Option<u64>,
    /// Whom it believes to lead.
    leader: u8,
    /// It was just told so: what is open is sent there at the next turn.
    told: bool,
    pub(super) replicas: u8,
    /// The newest term it heard of: what earlier leaders say is not believed.
    term: u64,
    pub(super) retries: u64,
    pub(super) fenced: u64,
}

impl Client {
    pub(super) fn new(id: u64, total: u64, replicas: u8) -> Client {
        Client {
            id,
            total,
            next: 1,
            open: BTreeMap::new(),
            answered: BTreeMap::new(),
            contradicted: None,
            leader: 1 + (id % u64::from(replicas)) as u8,
            told: false,
            replicas,
            term: 0,
            retries: 0,
            fenced: 0,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.next > self.total && self.open.is_empty()
    }

    /// What it sends now, and to whom.
    pub(super) fn turn(&mut self, now: u64, rng: &mut SplitMix64) -> Vec<(u8, Request)> {
        let mut sends = Vec::new();
        let mut missed = false;
        for (request, sent) in self.open.values_mut() {
            if *sent + RETRY_NS <= now || self.told {
                *sent = now;
                missed = true;
                self.retries += 1;
                sends.push(*request);
            }
        }
        if missed && !self.told {
            self.leader = self.leader % self.replicas + 1;
        }
        self.told = false;
        if self.next <= self.total && self.open.len() < OPEN_MAX && rng.permille(600) {
            let (from, amount) = (rng.below(8), 1 + rng.below(50));
            let request = Request { client: self.id, number: self.next, from, amount };
            self.next += 1;
            self.open.insert(request.number, (request, now));
            sends.push(request);
        }
        sends.into_iter().map(|request| (self.leader, request)).collect()
    }

    /// A replica says who leads.
    pub(super) fn redirected(&mut self, leader: u8, term: u64) {
        if term >= self.term && leader != self.leader && (1..=self.replicas).contains(&leader) {
            self.leader = leader;
            self.told = true;
        }
    }

    /// An answer of the leader of a term.
    pub(super) fn answer(&mut self, number: u64, execution: u64, term: u64) {
        if term < self.term {
            self.fenced += 1;
            return;
        }
        self.term = term;
        self.open.remove(&number);
        let known = self.answered.insert(number, execution);
        if known.is_some_and(|known| known != execution) {
            self.contradicted = Some(number);
        }
    }
}
