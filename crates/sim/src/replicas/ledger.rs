//! What the simulated replicas replicate: transfers between accounts, each executed once.

use std::collections::BTreeMap;

use types::Digest;

/// Accounts money moves between.
const ACCOUNTS: u64 = 8;
/// What each begins with.
const OPENING: i64 = 1_000;
const RECORD: usize = 32;

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
    pub(super) fn bytes(&self) -> Vec<u8> {
        let words = [self.client, self.number, self.from, self.amount];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Nothing when it is no request.
    pub(super) fn read(bytes: &[u8]) -> Option<Request> {
        let (words, rest) = bytes.as_chunks::<8>();
        let [client, number, from, amount] = *words else { return None };
        let [client, number, from, amount] = [client, number, from, amount].map(u64::from_le_bytes);
        let sound = rest.is_empty() && bytes.len() == RECORD && number > 0 && from < ACCOUNTS;
        sound.then_some(Request { client, number, from, amount })
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
        self.executed.iter().take(keep).for_each(|request| bytes.extend(request.bytes()));
        bytes
    }

    pub(super) fn restore(bytes: &[u8]) -> Option<Ledger> {
        let (head, executed) = bytes.split_at_checked(16)?;
        let (words, _) = head.as_chunks::<8>();
        let mut ledger = Ledger::new();
        for record in executed.chunks(RECORD) {
            ledger.apply(0, record)?;
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
        assert_eq!(Request::read(&[0; 32]), None);
    }
}
