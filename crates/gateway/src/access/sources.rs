//! What is known of the addresses that strangers come from, in bounded memory.
//!
//! When there are too many sources that matter, all further ones are held to one common account:
//! attackers with that many addresses hold up newcomers, not memory.

use std::collections::BTreeMap;

use types::{Address, Nanos};

use super::terms::AccessConfig;
use crate::access::bucket::Bucket;

/// Sources that are told apart.
const SOURCES_MAX: usize = 4_096;

/// One source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    pub tries: Bucket,
    /// The turn in which the worker last had something of it.
    pub served: u64,
}

/// What each source of connections has used of its limits.
pub(super) struct Sources {
    known: BTreeMap<Address, Source>,
    others: Source,
    config: AccessConfig,
    /// No looking for idle ones before this.
    tidy_at: Nanos,
}

impl Sources {
    pub fn new(config: AccessConfig) -> Sources {
        Sources { known: BTreeMap::new(), others: fresh(&config), config, tidy_at: Nanos(0) }
    }

    /// What is known of whoever has this address.
    pub fn of(&mut self, now: Nanos, address: Address) -> &mut Source {
        let name = address.source();
        if !self.known.contains_key(&name) {
            if self.known.len() >= SOURCES_MAX {
                self.forget_idle(now);
            }
            if self.known.len() >= SOURCES_MAX {
                return &mut self.others;
            }
            self.known.insert(name, fresh(&self.config));
        }
        self.known.get_mut(&name).unwrap_or(&mut self.others)
    }

    /// Forgets, at most once a second, all that are as if they had never been there.
    fn forget_idle(&mut self, now: Nanos) {
        if now < self.tidy_at {
            return;
        }
        self.tidy_at = now.after(Nanos::SECOND);
        self.known.retain(|_, source| !source.tries.is_full(now));
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.known.len()
    }
}

fn fresh(config: &AccessConfig) -> Source {
    let tries = Bucket::new(config.tries_per_source);
    Source { tries, served: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_idle_sources_make_room() {
        let config = AccessConfig::default();
        let mut sources = Sources::new(config);
        let now = Nanos(1_000 * Nanos::SECOND);
        for n in 0..10_000 {
            let source = sources.of(now, Address::v4(n));
            source.tries.take(now);
        }
        assert_eq!(sources.len(), SOURCES_MAX);
        let later = now.after(2 * Nanos::SECOND);
        let _ = sources.of(later, Address::v4(20_000));
        assert_eq!(sources.len(), 1);
    }
}
