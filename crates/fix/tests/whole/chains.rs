//! Requests on replaces that are under way: a ledger beside a small engine, which answers late and
//! refuses what it likes, and beside the ledger of a gateway that hears the reports alone.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fix::Version;
use fix::app::request::{Request, Terms};
use fix::app::{Ledger, LedgerLimits};
use types::{
    CancelReason, ClOrdId, Command, CommandKind, ExecutionKind, ExecutionReport, InstrumentId,
    MatchNumber, OrderRef, Qty, RejectReason, Side, SplitMix64, UserRefNum,
};

use crate::orders::{order, words};

/// Identifiers of an order and of the replaces of it that are not told as refused, the oldest first.
#[derive(Default)]
struct Chain {
    ids: Vec<ClOrdId>,
    /// Number of the request by its identifier.
    numbers: BTreeMap<[u8; 14], UserRefNum>,
    /// What replaces under way name, by OrigClOrdID.
    under_way: BTreeSet<[u8; 14]>,
    over: bool,
}

/// How an order stands at the engine: OrderID, OrdStatus.
#[derive(Clone)]
struct Standing(String, char);

struct Sent {
    command: Command,
    chain: usize,
    original: ClOrdId,
}

struct World {
    rng: SplitMix64,
    base: Terms,
    asked: Ledger,
    heard: Ledger,
    chains: Vec<Chain>,
    standing: Vec<Standing>,
    sent: VecDeque<Sent>,
    /// Open quantity and chain by number.
    open: BTreeMap<u32, (u64, usize, ClOrdId)>,
    /// Reports on their way, each with its chain and, of a refusal, what is to be said.
    reports: VecDeque<(ExecutionReport, usize, ClOrdId, Option<String>)>,
    ids: u32,
    position: u64,
    refused_in_a_chain: u32,
}

impl World {
    fn new(seed: u64) -> World {
        let limits = LedgerLimits { pending_max: 64, ..LedgerLimits::default() };
        World {
            rng: SplitMix64::new(seed),
            base: order("40=2|", "40=2|").unwrap(),
            asked: Ledger::new(limits),
            heard: Ledger::new(limits),
            chains: Vec::new(),
            standing: Vec::new(),
            sent: VecDeque::new(),
            open: BTreeMap::new(),
            reports: VecDeque::new(),
            ids: 0,
            position: 0,
            refused_in_a_chain: 0,
        }
    }

    fn below(&mut self, most: u64) -> u64 {
        self.rng.next_u64() % most
    }

    fn next_id(&mut self) -> ClOrdId {
        self.ids += 1;
        ClOrdId(format!("{:<14}", self.ids).into_bytes().try_into().unwrap())
    }

    /// One request of the client, if not too many are unanswered.
    fn ask(&mut self) {
        if self.sent.len() + self.reports.len() > 40 {
            return;
        }
        let id = self.next_id();
        let alive: Vec<usize> = (0..self.chains.len())
            .filter(|at| !self.chains[*at].over && !self.chains[*at].ids.is_empty())
            .collect();
        if alive.is_empty() || self.below(6) == 0 {
            let request =
                Request::New { terms: Terms { cl_ord_id: id, ..self.base }, resent: false };
            let command = self.asked.command(&request).unwrap();
            let chain = self.chains.len();
            let mut new = Chain { ids: vec![id], ..Chain::default() };
            new.numbers.insert(id.0, command.user_ref);
            self.chains.push(new);
            self.standing.push(Standing("NONE".into(), '8'));
            self.sent.push_back(Sent { command, chain, original: id });
            return;
        }
        let at = alive[self.below(alive.len() as u64) as usize];
        let known = self.chains[at].ids.len() as u64;
        // Mostly the last one, as FIX wants it.
        let place = if self.below(4) == 0 { self.below(known) } else { known - 1 };
        let original = self.chains[at].ids[place as usize];
        let replaces = self.below(3) > 0;
        let request = match replaces {
            true => Request::Replace { original, terms: Terms { cl_ord_id: id, ..self.base } },
            false => Request::Cancel {
                original,
                cl_ord_id: id,
                instrument: InstrumentId(1),
                side: Side::Buy,
            },
        };
        let answer = self.asked.command(&request);
        if self.chains[at].under_way.contains(&original.0) {
            let refusal = answer.expect_err("it is being replaced");
            assert_eq!((refusal.cancel, refusal.order), (3, 99), "{refusal:?}");
            return;
        }
        let command = answer.unwrap_or_else(|refusal| panic!("{original:?}: {refusal:?}"));
        let number = if replaces { command.orig_user_ref } else { command.user_ref };
        assert_eq!(number, self.chains[at].numbers[&original.0], "the order that has this name");
        if self.below(10) == 0 {
            self.asked.withdraw(&command);
            return;
        }
        if replaces {
            let chain = &mut self.chains[at];
            chain.ids.push(id);
            chain.numbers.insert(id.0, command.user_ref);
            chain.under_way.insert(original.0);
        }
        self.sent.push_back(Sent { command, chain: at, original });
    }

    /// The engine deals with the next request, or trades.
    fn engine(&mut self) {
        if self.below(4) == 0 {
            return self.trade();
        }
        let Some(Sent { command, chain, original }) = self.sent.pop_front() else { return };
        let told =
            |kind, number: UserRefNum| crate::sample::told(kind, number.0, &command.cl_ord_id.0);
        let number = command.user_ref;
        let named = match command.kind {
            CommandKind::Replace => command.orig_user_ref,
            _ => number,
        };
        let found = self.open.get(&named.0).copied();
        let refused = self.below(3) == 0;
        let report = match (command.kind, found) {
            (CommandKind::NewOrder, _) if !refused => {
                self.open.insert(number.0, (100, chain, command.cl_ord_id));
                self.standing[chain] = Standing((number.0 + 1_000).to_string(), '0');
                told(ExecutionKind::Accepted, number)
            }
            (CommandKind::Replace, Some((open, ..))) if !refused => {
                self.open.remove(&named.0);
                self.open.insert(number.0, (open, chain, command.cl_ord_id));
                self.standing[chain].0 = (number.0 + 1_000).to_string();
                let mut report = told(ExecutionKind::Replaced, number);
                (report.orig_user_ref, report.leaves) = (named, Qty(open));
                report
            }
            (CommandKind::Cancel, Some(_)) => {
                self.open.remove(&named.0);
                self.standing[chain].1 = '4';
                let mut report = told(ExecutionKind::Canceled, number);
                report.order_ref = OrderRef(u64::from(number.0) + 1_000);
                (report.cancel_reason, report.leaves) = (CancelReason::Requested, Qty(0));
                report
            }
            (kind, found) => {
                let cancel = kind == CommandKind::Cancel;
                let answer =
                    if cancel { ExecutionKind::CancelRejected } else { ExecutionKind::Rejected };
                let mut report = told(answer, number);
                (report.order_ref, report.leaves) = (OrderRef(0), Qty(0));
                report.orig_user_ref = command.orig_user_ref;
                report.reject = match (kind, found) {
                    (CommandKind::NewOrder, _) | (_, Some(_)) => RejectReason::CreditLimit,
                    _ => RejectReason::UnknownOrder,
                };
                let Standing(order_id, status) = &self.standing[chain];
                let why = match (report.reject, status) {
                    (RejectReason::CreditLimit, _) => "99|58=Credit limit",
                    (_, '2' | '4') => "0|58=Order is done",
                    _ => "1|58=Unknown order",
                };
                let text = |id: &ClOrdId| String::from_utf8_lossy(&id.0).trim().to_string();
                let (id, original_id) = (text(&command.cl_ord_id), text(&original));
                let to = if cancel { 1 } else { 2 };
                let expected = format!(
                    "9|37={order_id}|11={id}|41={original_id}|39={status}|434={to}|102={why}|"
                );
                let expected = (kind != CommandKind::NewOrder).then_some(expected);
                self.reports.push_back((report, chain, original, expected));
                return;
            }
        };
        self.reports.push_back((report, chain, original, None));
    }

    fn trade(&mut self) {
        let Some((number, (open, chain, id))) = self.open.pop_first() else { return };
        let mut fill = crate::sample::told(ExecutionKind::Executed, number, &id.0);
        self.position += 1;
        fill.match_number = MatchNumber(self.position);
        (fill.qty, fill.leaves) = (Qty(50), Qty(open - 50));
        self.standing[chain].1 = if open == 50 { '2' } else { '1' };
        if open > 50 {
            self.open.insert(number, (open - 50, chain, id));
        }
        self.reports.push_back((fill, chain, id, None));
    }

    /// The next report is told.
    fn tell(&mut self) {
        let Some((report, chain, original, expected)) = self.reports.pop_front() else { return };
        self.position += 1;
        let said = self.asked.apply(&report, self.position);
        assert_eq!(said, self.heard.apply(&report, self.position), "at another gateway");
        if let Some(expected) = expected {
            let never_was =
                !expected.contains("|39=8|") && report.reject == RejectReason::UnknownOrder;
            self.refused_in_a_chain += u32::from(never_was);
            assert_eq!(words(Version::Fix44, &said), expected);
        }
        let chain = &mut self.chains[chain];
        match report.kind {
            ExecutionKind::Rejected if report.orig_user_ref.0 == 0 => chain.over = true,
            ExecutionKind::Rejected => {
                chain.ids.retain(|id| *id != report.cl_ord_id);
                chain.under_way.remove(&original.0);
            }
            ExecutionKind::Replaced => {
                chain.under_way.remove(&original.0);
                // What is behind it may still be on the way; what is before it has gone.
                let at = chain.ids.iter().position(|id| *id == report.cl_ord_id).unwrap();
                chain.ids.retain(|id| *id != original);
                assert!(at > 0);
            }
            ExecutionKind::Executed | ExecutionKind::Canceled => chain.over |= report.leaves.0 == 0,
            _ => {}
        }
    }
}

#[test]
fn chains_of_requests_get_right_answers_whatever_the_engine_refuses() {
    let mut refused = 0;
    for seed in 0..30 {
        let mut world = World::new(seed);
        for _ in 0..600 {
            match world.below(3) {
                0 => world.ask(),
                1 => world.engine(),
                _ => world.tell(),
            }
        }
        while !world.sent.is_empty() || !world.reports.is_empty() {
            world.engine();
            world.tell();
        }
        refused += world.refused_in_a_chain;
        // Nothing is left over of what was under way: each order that lives can be replaced.
        for at in 0..world.chains.len() {
            if world.chains[at].over {
                continue;
            }
            let original = *world.chains[at].ids.last().unwrap();
            let terms = Terms { cl_ord_id: world.next_id(), ..world.base };
            let command = world.asked.command(&Request::Replace { original, terms }).unwrap();
            world.asked.withdraw(&command);
            assert_eq!(world.asked.len(), world.heard.len(), "seed {seed}");
        }
    }
    assert!(refused > 100, "control: requests on what never was: {refused}");
}
