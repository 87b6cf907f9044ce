//! What the simulated replicas replicate: transfers between accounts, each executed once.

use std::collections::BTreeMap;

use types::{Digest, SplitMix64};

/// Accounts money moves between.
const ACCOUNTS: u64 = 8;
/// What each begins with.
const OPENING: i64 = 1_000;
/// A request without its reference, bytes.
const RECORD: usize = 32;
/// References are shorter, bytes.
const REFERENCE_MAX: u64 = 640;

/// One client's request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Request {
    pub(super) client: u64,
    /// Dense from 1 per client.
    pub(super) number: u64,
    pub(super) from: u64,
    pub(super) amount: u64,
}

impl Request {
    fn words(&self) -> [u64; 4] {
        [self.client, self.number, self.from, self.amount]
    }

    /// As the log holds it: with a reference of some length behind it, so that a write takes
    /// several sectors, of which a crash may keep some.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.words().iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.resize(RECORD + self.reference_len(), self.reference_byte());
        bytes
    }

    fn reference_len(&self) -> usize {
        (SplitMix64::mix(self.client << 32 ^ self.number) % REFERENCE_MAX) as usize
    }

    fn reference_byte(&self) -> u8 {
        1 + (self.number % 251) as u8
    }

    /// Nothing when it is no request.
    pub(super) fn read(bytes: &[u8]) -> Option<Request> {
        let (head, reference) = bytes.split_at_checked(RECORD)?;
        let (words, _) = head.as_chunks::<8>();
        let [client, number, from, amount] = *words else { return None };
        let [client, number, from, amount] = [client, number, from, amount].map(u64::from_le_bytes);
        let request = Request { client, number, from, amount };
        let whole = reference.len() == request.reference_len()
            && reference.iter().all(|byte| *byte == request.reference_byte());
        (whole && number > 0 && from < ACCOUNTS).then_some(request)
    }
}

/// The state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Ledger {
    pub(super) position: u64,
    balances: Vec<i64>,
    /// Who was executed, and as which execution.
    known: BTreeMap<(u64, u64), u64>,
    /// Executions in order.
    pub(super) executed: Vec<Request>,
    digest: Digest,
}

impl Ledger {
    pub(super) fn new() -> Ledger {
        Ledger {
            position: 0,
            balances: vec![OPENING; ACCOUNTS as usize],
            known: BTreeMap::new(),
            executed: Vec::new(),
            digest: Digest::default(),
        }
    }

    /// Applies a record; gives the request and the number of its execution, also when that was
    /// before.
    pub(super) fn apply(&mut self, position: u64, record: &[u8]) -> Option<(Request, u64)> {
        self.position = position;
        self.digest.fold(position);
        let request = Request::read(record)?;
        let key = (request.client, request.number);
        if let Some(execution) = self.known.get(&key) {
            return Some((request, *execution));
        }
        let (from, to) = (request.from, (request.from + 1) % ACCOUNTS);
        self.balances[from as usize] -= request.amount as i64;
        self.balances[to as usize] += request.amount as i64;
        self.executed.push(request);
        let execution = self.executed.len() as u64;
        self.known.insert(key, execution);
        for word in [request.client, request.number, request.amount] {
            self.digest.fold(word);
        }
        Some((request, execution))
    }

    /// The execution of a request that was executed.
    pub(super) fn execution(&self, client: u64, number: u64) -> Option<u64> {
        self.known.get(&(client, number)).copied()
    }

    /// Forgets who was executed: a bug.
    pub(super) fn forget_who(&mut self) {
        self.known.clear();
    }

    pub(super) fn digest(&self) -> u64 {
        let mut digest = self.digest;
        self.balances.iter().for_each(|balance| digest.fold(*balance as u64));
        digest.fold(self.executed.len() as u64);
        digest.0
    }

    /// Money is moved, not made.
    pub(super) fn is_conserved(&self) -> bool {
        self.balances.iter().sum::<i64>() == OPENING * ACCOUNTS as i64
    }

    /// A snapshot: position, then executions; `without_last` leaves one out, which is a bug.
    pub(super) fn snapshot(&self, without_last: bool) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(16 + self.executed.len() * RECORD);
        bytes.extend_from_slice(&self.position.to_le_bytes());
        bytes.extend_from_slice(&self.digest.0.to_le_bytes());
        let keep = self.executed.len() - usize::from(without_last && !self.executed.is_empty());
        let words = self.executed.iter().take(keep).flat_map(Request::words);
        words.for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        bytes
    }

    pub(super) fn restore(bytes: &[u8]) -> Option<Ledger> {
        let (head, executed) = bytes.split_at_checked(16)?;
        let (words, _) = head.as_chunks::<8>();
        let mut ledger = Ledger::new();
        for record in executed.chunks(RECORD) {
            let (fields, _) = record.as_chunks::<8>();
            let [client, number, from, amount] = *fields else { return None };
            let [client, number, from, amount] =
                [client, number, from, amount].map(u64::from_le_bytes);
            ledger.apply(0, &Request { client, number, from, amount }.bytes())?;
        }
        ledger.position = u64::from_le_bytes(words[0]);
        ledger.digest = Digest(u64::from_le_bytes(words[1]));
        Some(ledger)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executes_once_conserves_and_comes_back_from_a_snapshot() {
        let mut ledger = Ledger::new();
        let request = Request { client: 1, number: 1, from: 7, amount: 30 };
        assert_eq!(ledger.apply(1, &request.bytes()), Some((request, 1)));
        assert_eq!(ledger.apply(2, &request.bytes()), Some((request, 1)));
        assert_eq!(ledger.apply(3, &[]), None);
        assert_eq!((ledger.executed.len(), ledger.is_conserved()), (1, true));
        assert_eq!(Ledger::restore(&ledger.snapshot(false)), Some(ledger.clone()));
        assert_ne!(Ledger::restore(&ledger.snapshot(true)), Some(ledger));
    }

    #[test]
    fn a_request_is_read_whole_or_not_at_all() {
        let lens = (1..=50).map(|number| {
            let request = Request { client: 2, number, from: 3, amount: 4 };
            let bytes = request.bytes();
            assert_eq!(Request::read(&bytes), Some(request));
            assert_eq!(Request::read(&[&bytes[..], &[1]].concat()), None);
            for cut in 0..bytes.len() {
                assert_eq!(Request::read(&bytes[..cut]), None, "{number}: {cut}");
            }
            bytes.len()
        });
        // Several sectors, and less than one.
        let lens: Vec<usize> = lens.collect();
        assert!(lens.iter().any(|len| *len > 512) && lens.iter().any(|len| *len < 100));
        assert_eq!(Request::read(&[0; 32]), None);
    }
}
