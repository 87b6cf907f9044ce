//! The queue of orders that wait at a proxy for their turn upwards (Jasper §7.2).
//!
//! * [`QueuePolicy::Fifo`]: as they came. [`QueuePolicy::SimplePq`]: oldest `t_in` first.
//! * [`QueuePolicy::LimitOrder`]: highest bid, lowest ask and messages without a price (cancels)
//!   take turns, from the one after the last served; ties by `t_in`, then as they came. What is
//!   likely to trade does not wait behind what will rest anyway.
//!
//! Causality (corners 3 and 6): a cancel or replace never overtakes the order it is about, nothing
//! of an account overtakes its mass cancel or is overtaken by it, and orders of one account at one
//! price leave in the order of `t_in`.
//!
//! Nothing starves: messages that have waited here for `age_ns` get `age_permille` of the egress,
//! oldest first (age lane). Bounded: a full queue refuses what arrives, and one account has at most
//! `account_max` places, so that a spammer crowds out itself only. What is refused was not
//! acknowledged: the gateway sends it again. Nothing allocates once warm.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use types::{Nanos, SplitMix64, limits::ACCOUNTS_MAX};

use crate::orders::order_facts::{OrderFacts, OrderKind};

/// Order in which messages leave the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum QueuePolicy {
    /// In the order in which they arrived.
    Fifo,
    /// Oldest order first, by `t_in`.
    SimplePq,
    /// Orders whose price is most critical first.
    #[default]
    LimitOrder,
}

/// Settings of an [`EgressQueue`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueConfig {
    /// Order in which messages leave the queue.
    pub policy: QueuePolicy,
    /// Most messages that may wait.
    pub capacity: usize,
    /// Most messages of one account that may wait.
    pub account_max: usize,
    /// Wait after which a message is served from the age lane, in ns.
    pub age_ns: u64,
    /// Share of the egress for the age lane, of a thousand; 0: none.
    pub age_permille: u32,
}

impl Default for QueueConfig {
    /// 4,096 places, a quarter of them for one account; a tenth for what waited 20 ms.
    fn default() -> Self {
        QueueConfig {
            policy: QueuePolicy::LimitOrder,
            capacity: 4_096,
            account_max: 1_024,
            age_ns: 20 * Nanos::MILLI,
            age_permille: 100,
        }
    }
}

/// Why a message was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shed {
    /// The queue holds as many messages as it may.
    Full,
    /// The account has as many messages in the queue as it may.
    Account,
}

/// What a queue has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueStats {
    /// Number of messages taken.
    pub taken: u64,
    /// Number of messages that left.
    pub served: u64,
    /// Messages that left through the lane for old messages.
    pub aged: u64,
    /// Of them, after one with a later `t_in`, by the policy's doing.
    pub deferred: u64,
    /// Messages refused because the queue was full.
    pub shed_full: u64,
    /// Messages refused because their account had its share.
    pub shed_account: u64,
    /// Most messages that waited at a time.
    pub longest: u64,
    /// Longest wait of a message that left, in ns.
    pub wait_max_ns: u64,
}

/// A message that leaves the queue.
#[derive(Clone, Copy, Debug)]
pub struct Served<'a> {
    /// Bytes as they were put in.
    pub bytes: &'a [u8],
    /// Attempt number as it was put in.
    pub attempt: u8,
    /// A later one left before it by the policy's doing.
    pub deferred: bool,
}

const NIL: u32 = u32::MAX;
const LANES: usize = 3;

struct Slot {
    /// Number of arrival; 0 while the slot is free.
    number: u64,
    t_in: Nanos,
    since: Nanos,
    facts: Option<OrderFacts>,
    attempt: u8,
    deferred: bool,
    /// Next message waiting for the same one, or behind the same barrier, or next free slot.
    next: u32,
    /// First message that waits for this one.
    followers: u32,
    /// Next in the chain of its hash bucket.
    bucket_next: u32,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    rank: u64,
    t_in: u64,
    number: u64,
    slot: u32,
}

#[derive(Clone, Copy)]
struct Account {
    /// Number of messages that wait, of all kinds together.
    waiting: u32,
    /// Messages that are not behind a barrier.
    ahead: u32,
    /// A barrier is among those ahead, then alone.
    barrier: bool,
    /// First and last message that a barrier holds up, or that is one held up itself.
    first: u32,
    last: u32,
}

const NOTHING: Account = Account { waiting: 0, ahead: 0, barrier: false, first: NIL, last: NIL };

/// Orders on their way up that wait at a node.
pub struct EgressQueue {
    config: QueueConfig,
    slots: Vec<Slot>,
    free: u32,
    len: usize,
    lanes: [BinaryHeap<Reverse<Key>>; LANES],
    last_lane: usize,
    /// (slot, number) as they came, for the age lane; may name what left.
    arrivals: VecDeque<(u32, u64)>,
    accounts: Vec<Account>,
    /// Orders that wait, by hash of (account, number).
    buckets: Vec<u32>,
    numbers: u64,
    age_credit: u32,
    newest: Nanos,
    stats: QueueStats,
}

impl EgressQueue {
    /// A queue without messages.
    pub fn new(config: QueueConfig) -> EgressQueue {
        let capacity = config.capacity.clamp(1, 1 << 20);
        let config = QueueConfig { capacity, ..config };
        let slot = |index: usize| Slot {
            number: 0,
            t_in: Nanos(0),
            since: Nanos(0),
            facts: None,
            attempt: 0,
            deferred: false,
            next: if index + 1 < capacity { index as u32 + 1 } else { NIL },
            followers: NIL,
            bucket_next: NIL,
            bytes: Vec::new(),
        };
        EgressQueue {
            config,
            slots: (0..capacity).map(slot).collect(),
            free: 0,
            len: 0,
            lanes: std::array::from_fn(|_| BinaryHeap::with_capacity(2 * capacity + 1)),
            last_lane: LANES - 1,
            arrivals: VecDeque::with_capacity(2 * capacity + 1),
            accounts: vec![NOTHING; ACCOUNTS_MAX + 1],
            buckets: vec![NIL; capacity.next_power_of_two()],
            numbers: 0,
            age_credit: 0,
            newest: Nanos(0),
            stats: QueueStats::default(),
        }
    }

    /// Number of messages that wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no message waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of further messages that fit.
    pub fn room(&self) -> usize {
        self.config.capacity - self.len
    }

    /// What was counted since the start.
    pub fn stats(&self) -> QueueStats {
        self.stats
    }

    /// Takes a message; `facts` are what can be read of it, `deferred` what a hop below did.
    pub fn push(
        &mut self,
        now: Nanos,
        t_in: Nanos,
        facts: Option<OrderFacts>,
        (attempt, deferred): (u8, bool),
        bytes: &[u8],
    ) -> Result<(), Shed> {
        let facts = facts.filter(|facts| usize::from(facts.account) < self.accounts.len());
        if self.free == NIL {
            self.stats.shed_full += 1;
            return Err(Shed::Full);
        }
        if let Some(facts) = facts
            && self.accounts[usize::from(facts.account)].waiting as usize >= self.config.account_max
        {
            self.stats.shed_account += 1;
            return Err(Shed::Account);
        }
        self.numbers += 1;
        let (index, number) = (self.free, self.numbers);
        let slot = &mut self.slots[index as usize];
        self.free = slot.next;
        *slot = Slot {
            number,
            t_in,
            since: now,
            facts,
            attempt,
            deferred,
            next: NIL,
            followers: NIL,
            bucket_next: NIL,
            bytes: std::mem::take(&mut slot.bytes),
        };
        slot.bytes.clear();
        slot.bytes.extend_from_slice(bytes);
        self.len += 1;
        self.stats.taken += 1;
        self.stats.longest = self.stats.longest.max(self.len as u64);
        if let Some(facts) = facts {
            self.accounts[usize::from(facts.account)].waiting += 1;
        }
        self.admit(index);
        Ok(())
    }

    /// The next message, if there is one.
    pub fn pop(&mut self, now: Nanos) -> Option<Served<'_>> {
        if self.len == 0 {
            return None;
        }
        let index = self.take_aged(now).or_else(|| self.take_next())?;
        let slot = &mut self.slots[index as usize];
        let deferred = self.config.policy == QueuePolicy::LimitOrder && slot.t_in < self.newest;
        slot.number = 0;
        slot.deferred |= deferred;
        self.newest = self.newest.max(slot.t_in);
        self.stats.deferred += u64::from(deferred);
        self.stats.served += 1;
        self.stats.wait_max_ns = self.stats.wait_max_ns.max(now - slot.since);
        self.len -= 1;
        self.left(index);
        let slot = &mut self.slots[index as usize];
        slot.next = std::mem::replace(&mut self.free, index);
        let slot = &self.slots[index as usize];
        Some(Served { bytes: &slot.bytes, attempt: slot.attempt, deferred: slot.deferred })
    }

    /// Puts a message that just came where it belongs: behind a barrier, behind the order it is
    /// about, or into its lane.
    fn admit(&mut self, index: u32) {
        let Some(facts) = self.facts(index) else {
            self.enqueue(index);
            return;
        };
        let barrier = facts.kind == OrderKind::Barrier;
        let account = &mut self.accounts[usize::from(facts.account)];
        let held_up = account.first != NIL || account.barrier || (barrier && account.ahead > 0);
        if held_up && self.config.policy != QueuePolicy::Fifo {
            let last = std::mem::replace(&mut account.last, index);
            match last {
                NIL => account.first = index,
                _ => self.slots[last as usize].next = index,
            }
            return;
        }
        self.advance(index, facts);
    }

    /// As [`EgressQueue::admit`], once no barrier is before the message.
    fn advance(&mut self, index: u32, facts: OrderFacts) {
        let account = &mut self.accounts[usize::from(facts.account)];
        account.ahead += 1;
        account.barrier |= facts.kind == OrderKind::Barrier;
        let about = facts.about.and_then(|about| self.find(facts.account, about));
        if let Some(number) = facts.creates {
            let bucket = self.bucket(facts.account, number);
            self.slots[index as usize].bucket_next =
                std::mem::replace(&mut self.buckets[bucket], index);
        }
        match about.filter(|_| self.config.policy != QueuePolicy::Fifo) {
            None => self.enqueue(index),
            Some(order) => {
                // Last in the chain: several messages about one order keep their sequence.
                self.append_followers(order, index);
            }
        }
    }

    fn enqueue(&mut self, index: u32) {
        let slot = &self.slots[index as usize];
        let (number, t_in) = (slot.number, slot.t_in.0);
        let kind = slot.facts.map_or(OrderKind::Plain, |facts| facts.kind);
        let (lane, key) = match (self.config.policy, kind) {
            (QueuePolicy::Fifo, _) => (0, Key { rank: 0, t_in: 0, number, slot: index }),
            (QueuePolicy::SimplePq, _) => (0, Key { rank: 0, t_in, number, slot: index }),
            (_, OrderKind::Bid(price)) => {
                (0, Key { rank: !rank(price), t_in, number, slot: index })
            }
            (_, OrderKind::Ask(price)) => (1, Key { rank: rank(price), t_in, number, slot: index }),
            _ => (2, Key { rank: 0, t_in, number, slot: index }),
        };
        let limit = 2 * self.config.capacity;
        let slots = &self.slots;
        let heap = &mut self.lanes[lane];
        if heap.len() >= limit {
            // What left through the age lane stays in the heap until somebody sweeps.
            heap.retain(|Reverse(key)| slots[key.slot as usize].number == key.number);
        }
        heap.push(Reverse(key));
        if self.config.age_permille > 0 && self.config.policy == QueuePolicy::LimitOrder {
            if self.arrivals.len() >= limit {
                self.arrivals.retain(|(slot, number)| slots[*slot as usize].number == *number);
            }
            self.arrivals.push_back((index, number));
        }
    }

    fn take_next(&mut self) -> Option<u32> {
        for step in 1..=LANES {
            let lane = (self.last_lane + step) % LANES;
            while let Some(Reverse(key)) = self.lanes[lane].pop() {
                if self.slots[key.slot as usize].number == key.number {
                    self.last_lane = lane;
                    return Some(key.slot);
                }
            }
        }
        None
    }

    fn take_aged(&mut self, now: Nanos) -> Option<u32> {
        if self.config.age_permille == 0 {
            return None;
        }
        self.age_credit = (self.age_credit + self.config.age_permille.min(1_000)).min(1_000);
        while let Some((index, number)) = self.arrivals.front().copied() {
            let slot = &self.slots[index as usize];
            if slot.number != number {
                self.arrivals.pop_front();
                continue;
            }
            if self.age_credit < 1_000 || now - slot.since < self.config.age_ns {
                return None;
            }
            self.arrivals.pop_front();
            self.age_credit = 0;
            self.stats.aged += 1;
            return Some(index);
        }
        None
    }

    /// Lets go what waited for a message that leaves.
    fn left(&mut self, index: u32) {
        let Some(facts) = self.facts(index) else { return };
        if let Some(number) = facts.creates {
            self.unlink(facts.account, number, index);
        }
        let first = std::mem::replace(&mut self.slots[index as usize].followers, NIL);
        // The first may go; the others wait for it, so that they keep their sequence.
        if first != NIL {
            let rest = std::mem::replace(&mut self.slots[first as usize].next, NIL);
            self.append_followers(first, rest);
            self.enqueue(first);
        }
        let account = &mut self.accounts[usize::from(facts.account)];
        account.waiting -= 1;
        account.ahead -= 1;
        account.barrier &= facts.kind != OrderKind::Barrier;
        self.pass_barriers(facts.account);
    }

    /// Admits what no barrier holds up any more.
    fn pass_barriers(&mut self, account: u16) {
        let place = usize::from(account);
        while let Account { first, ahead, barrier: false, .. } = self.accounts[place]
            && first != NIL
            && let Some(facts) = self.facts(first)
            && (ahead == 0 || facts.kind != OrderKind::Barrier)
        {
            let next = std::mem::replace(&mut self.slots[first as usize].next, NIL);
            self.accounts[place].first = next;
            if next == NIL {
                self.accounts[place].last = NIL;
            }
            self.advance(first, facts);
        }
    }

    /// Chains `rest` behind the followers that `first` may have already.
    fn append_followers(&mut self, first: u32, rest: u32) {
        let own = self.slots[first as usize].followers;
        if own == NIL {
            self.slots[first as usize].followers = rest;
            return;
        }
        let mut at = own;
        while self.slots[at as usize].next != NIL {
            at = self.slots[at as usize].next;
        }
        self.slots[at as usize].next = rest;
    }

    fn facts(&self, index: u32) -> Option<OrderFacts> {
        self.slots[index as usize].facts
    }

    fn bucket(&self, account: u16, number: u32) -> usize {
        let hash = SplitMix64::mix(u64::from(account) << 32 | u64::from(number));
        hash as usize & (self.buckets.len() - 1)
    }

    /// The youngest waiting message that brings that order into being.
    fn find(&self, account: u16, number: u32) -> Option<u32> {
        let mut at = self.buckets[self.bucket(account, number)];
        while at != NIL {
            let slot = &self.slots[at as usize];
            let same =
                |facts: OrderFacts| facts.account == account && facts.creates == Some(number);
            if slot.facts.is_some_and(same) {
                return Some(at);
            }
            at = slot.bucket_next;
        }
        None
    }

    fn unlink(&mut self, account: u16, number: u32, index: u32) {
        let bucket = self.bucket(account, number);
        let next = self.slots[index as usize].bucket_next;
        let mut at = self.buckets[bucket];
        if at == index {
            self.buckets[bucket] = next;
            return;
        }
        while at != NIL {
            let slot = &mut self.slots[at as usize];
            if slot.bucket_next == index {
                slot.bucket_next = next;
                return;
            }
            at = slot.bucket_next;
        }
    }
}

/// Order-preserving map of prices to unsigned numbers.
fn rank(price: i64) -> u64 {
    (price as u64) ^ (1 << 63)
}
