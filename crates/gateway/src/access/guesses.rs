//! How many wrong passwords an account takes, and from where, in bounded memory.
//!
//! An account judges each address by itself: a few wrong passwords are free, then each doubles the
//! wait before the next, up to a longest one, and one is forgotten in each such time. So whoever
//! guesses at an account slows down its own address there, no other account and no other address.
//!
//! Addresses that an account has logged on from of late are its homes. All others together share a
//! bucket of the account, which bounds the guesses whatever the number of addresses
//! ([`AccessConfig::guesses_per_day`]); who empties it keeps out addresses that are new to the account.

use std::collections::BTreeMap;

use types::{Address, Nanos};

use super::refusals::Refusal;
use super::terms::AccessConfig;
use crate::access::bucket::Bucket;

/// Addresses that an account is at home at; the one used longest ago makes room.
pub(super) const HOMES_MAX: usize = 4;
/// Pairs of an account and an address that is not its home, with wrong passwords of late.
const PAIRS_MAX: usize = 4_096;

/// The wait that wrong passwords of one account from one address have led to.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Delay {
    /// When the last of them is forgotten.
    forgotten_at: Nanos,
    open_at: Nanos,
}

impl Delay {
    fn is_open(&self, now: Nanos) -> bool {
        now >= self.open_at
    }

    fn is_forgotten(&self, now: Nanos) -> bool {
        now >= self.forgotten_at
    }

    /// One more.
    fn wrong(&mut self, now: Nanos, config: &AccessConfig) {
        let longest = config.guess_wait_max_ns.max(1);
        self.forgotten_at = self.forgotten_at.max(now).after(longest);
        let remembered = self.forgotten_at.since(now).div_ceil(longest);
        if let Some(doublings) = remembered.checked_sub(config.guesses_free.into()) {
            let factor = 1u64.checked_shl(doublings.min(63) as u32).unwrap_or(u64::MAX);
            self.open_at = now.after(config.guess_wait_ns.saturating_mul(factor).min(longest));
        }
    }

    /// The last one was right after all.
    fn take_back(&mut self, config: &AccessConfig) {
        let longest = config.guess_wait_max_ns.max(1);
        self.forgotten_at = Nanos(self.forgotten_at.0.saturating_sub(longest));
        self.open_at = Nanos(0);
    }
}

/// An address that the account has logged on from.
#[derive(Clone, Copy, Debug)]
struct Home {
    source: Address,
    used: Nanos,
    delay: Delay,
}

/// One account.
#[derive(Debug)]
struct Account {
    homes: Vec<Home>,
    /// Wrong passwords from anywhere else.
    elsewhere: Bucket,
}

/// Wrong passwords so far, by identity and source. Accounts are named by their place.
#[derive(Debug)]
pub(super) struct Guesses {
    config: AccessConfig,
    accounts: Vec<Account>,
    pairs: BTreeMap<(usize, Address), Delay>,
    /// No looking for forgotten ones before this.
    tidy_at: Nanos,
}

impl Guesses {
    /// Nothing is known of so many accounts.
    pub fn new(config: AccessConfig, accounts: usize) -> Guesses {
        let elsewhere = Bucket::every(config.new_address_every_ns, config.new_address_guesses);
        let account = |_| Account { homes: Vec::with_capacity(HOMES_MAX), elsewhere };
        let accounts = (0..accounts).map(account).collect();
        Guesses { config, accounts, pairs: BTreeMap::new(), tidy_at: Nanos(0) }
    }

    /// Whether a password for an account from there is looked at now.
    pub fn judge(&self, now: Nanos, place: usize, source: Address) -> Result<(), Refusal> {
        let Some(account) = self.accounts.get(place) else { return Ok(()) };
        let home = account.homes.iter().find(|home| home.source == source);
        let pair = || self.pairs.get(&(place, source)).copied().unwrap_or_default();
        if !home.map_or_else(pair, |home| home.delay).is_open(now) {
            return Err(Refusal::Throttled);
        }
        match home.is_some() || account.elsewhere.has(now) {
            true => Ok(()),
            false => Err(Refusal::NewAddress),
        }
    }

    /// What makes one attempt come before another: its address is the account's home, or at least
    /// did nothing wrong there. The least comes first.
    pub fn rank(&self, now: Nanos, place: usize, source: Address) -> u8 {
        let known = self.accounts.get(place).map_or(&[][..], |account| &account.homes);
        match known.iter().any(|home| home.source == source) {
            true => 0,
            false => {
                1 + u8::from(
                    self.pairs.get(&(place, source)).is_some_and(|delay| !delay.is_forgotten(now)),
                )
            }
        }
    }

    /// A wrong password, or one that is looked at and may be.
    pub fn wrong(&mut self, now: Nanos, place: usize, source: Address) {
        let Guesses { config, accounts, .. } = self;
        let Some(account) = accounts.get_mut(place) else { return };
        if let Some(home) = account.homes.iter_mut().find(|home| home.source == source) {
            return home.delay.wrong(now, config);
        }
        account.elsewhere.take(now);
        let mut delay = self.pairs.get(&(place, source)).copied().unwrap_or_default();
        delay.wrong(now, &self.config);
        self.remember(now, (place, source), delay);
    }

    /// The right password: it is at home there from now on. `charged`: by [`Guesses::wrong`] before.
    pub fn right(&mut self, now: Nanos, place: usize, source: Address, charged: bool) {
        let Some(account) = self.accounts.get_mut(place) else { return };
        let Account { homes, elsewhere } = account;
        if let Some(home) = homes.iter_mut().find(|home| home.source == source) {
            home.used = now;
            if charged {
                home.delay.take_back(&self.config);
            }
            return;
        }
        let mut delay = self.pairs.remove(&(place, source)).unwrap_or_default();
        if charged {
            elsewhere.give_back();
            delay.take_back(&self.config);
        }
        let oldest = (0..homes.len()).min_by_key(|index| homes.get(*index).map(|home| home.used));
        let left = oldest.filter(|_| homes.len() >= HOMES_MAX).map(|index| homes.remove(index));
        homes.push(Home { source, used: now, delay });
        if let Some(left) = left.filter(|left| !left.delay.is_forgotten(now)) {
            self.remember(now, (place, left.source), left.delay);
        }
    }

    /// Where there is no room, the pair that would be forgotten first goes.
    fn remember(&mut self, now: Nanos, pair: (usize, Address), delay: Delay) {
        if self.pairs.len() >= PAIRS_MAX && now >= self.tidy_at {
            self.tidy_at = now.after(Nanos::SECOND);
            self.pairs.retain(|_, delay| !delay.is_forgotten(now));
        }
        if self.pairs.len() >= PAIRS_MAX && !self.pairs.contains_key(&pair) {
            let first = self.pairs.iter().min_by_key(|(_, delay)| delay.forgotten_at);
            if let Some(first) = first.map(|(pair, _)| *pair) {
                self.pairs.remove(&first);
            }
        }
        self.pairs.insert(pair, delay);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::SplitMix64;

    const START: Nanos = Nanos(1_000_000 * Nanos::SECOND);
    const DAY: u64 = 86_400 * Nanos::SECOND;

    fn at(n: u32) -> Address {
        Address::v4(n)
    }

    /// What who guesses whenever it may, from `addresses` of which `homes` are the owner's, gets
    /// to try in a day.
    fn guessed(config: AccessConfig, addresses: u32, homes: u32) -> u64 {
        let mut guesses = Guesses::new(config, 1);
        (0..homes).for_each(|n| guesses.right(START, 0, at(n), false));
        let (mut count, mut now) = (0, START);
        while now.since(START) < DAY {
            for source in (0..addresses).map(at) {
                while guesses.judge(now, 0, source).is_ok() {
                    guesses.wrong(now, 0, source);
                    count += 1;
                    if count > 50_000 {
                        return count;
                    }
                }
            }
            now = now.after(20 * Nanos::SECOND);
        }
        count
    }

    #[test]
    fn a_day_of_guessing_from_everywhere_has_a_bound() {
        let config = AccessConfig::default();
        let most = config.guesses_per_day();
        assert_eq!(most, 2_933);
        let all = guessed(config, 400, HOMES_MAX as u32);
        assert!(all <= most && all > most * 9 / 10, "{all} of {most}");
        let one = guessed(config, 1, 0);
        assert!((250..310).contains(&one), "{one} from one address");
    }

    #[test]
    fn control_without_the_account_s_bucket_addresses_multiply() {
        let config = AccessConfig { new_address_every_ns: 0, ..AccessConfig::default() };
        assert!(guessed(config, 3_000, 0) > 10_000);
        let config = AccessConfig { guesses_free: u32::MAX, ..AccessConfig::default() };
        assert!(guessed(config, 1, 1) > 10_000, "at home without a wait");
    }

    #[test]
    fn waits_grow_to_the_longest_and_are_forgotten() {
        let config = AccessConfig::default();
        let (mut delay, mut now, mut waits) = (Delay::default(), START, Vec::new());
        for _ in 0..20 {
            delay.wrong(now, &config);
            waits.push(delay.open_at.since(now) / Nanos::SECOND);
            now = now.max(delay.open_at);
        }
        assert_eq!(waits[..7], [0, 0, 0, 0, 1, 2, 4]);
        assert!(waits.is_sorted() && waits.ends_with(&[300, 300]), "{waits:?}");
        assert!(delay.is_forgotten(now.after(20 * config.guess_wait_max_ns)));
        let before = delay;
        delay.wrong(now, &config);
        delay.take_back(&config);
        assert_eq!(delay.forgotten_at.max(now), before.forgotten_at.max(now));
        assert!(delay.is_open(now));
    }

    #[test]
    fn a_stranger_s_guesses_touch_no_other_account_and_no_home() {
        let mut guesses = Guesses::new(AccessConfig::default(), 2);
        guesses.right(START, 0, at(1), false);
        for n in 0..2_000 {
            guesses.wrong(START, 0, at(100 + n % 300));
        }
        assert_eq!(guesses.judge(START, 0, at(9_999)), Err(Refusal::NewAddress));
        assert_eq!(guesses.judge(START, 0, at(101)), Err(Refusal::Throttled));
        assert_eq!(guesses.judge(START, 0, at(1)), Ok(()), "at home");
        assert_eq!(guesses.judge(START, 1, at(101)), Ok(()), "another account, same address");
    }

    #[test]
    fn memory_is_bounded_whoever_guesses() {
        let mut guesses = Guesses::new(AccessConfig::default(), 50);
        let (mut rng, mut now) = (SplitMix64::new(7), START);
        for n in 0..50_000u32 {
            let (place, source) = (rng.next_u64() as usize % 51, at(rng.next_u64() as u32));
            match n % 5 {
                0 => guesses.right(now, place, source, n % 2 == 0),
                _ => guesses.wrong(now, place, source),
            }
            now = now.after(rng.next_u64() % Nanos::SECOND / 10);
            assert!(guesses.pairs.len() <= PAIRS_MAX);
        }
        assert!(
            guesses.pairs.len() == PAIRS_MAX
                && guesses.accounts.iter().all(|a| a.homes.len() <= HOMES_MAX)
        );
    }
}
