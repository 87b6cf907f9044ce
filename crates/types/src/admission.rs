//! Bounds on the connections that have proved nothing yet, or that are served without proof.
//!
//! There are few places, and anybody may want one. A connection keeps its place for a bounded time;
//! a source (an address, [`Address::source`]) has a bounded number of places; and when all places
//! are taken, a connection of the source that has the most loses its place. So a source that holds
//! many connections open displaces its own connections, not those of others, and no newcomer is
//! turned away merely because all places are taken. A connection that has proved who it belongs to
//! leaves the admission and can no longer be displaced.
//!
//! The type knows no sockets and no clock: its owner reports which connections come and go, and
//! closes those that it names.

use std::collections::{BTreeMap, VecDeque};

use crate::{Address, Nanos};

/// Which of a source's connections gives up its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Yields {
    /// The connection that came first: it has had its chance to prove who it is.
    Oldest,
    /// The connection that came last, possibly the new one: the earlier ones are being served.
    Newest,
}

/// Bounds of an [`Admission`]: places, places per source, and time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdmissionConfig {
    /// Number of places, at least 1.
    pub places: usize,
    /// Places of one source, at least 1. Connections without a known address are bounded by
    /// `places` alone.
    pub places_per_source: usize,
    /// Longest time that a connection may keep a place, ns; [`u64::MAX`]: no limit.
    pub patience_ns: u64,
    /// Which connection is dropped when there is no room.
    pub yields: Yields,
}

#[derive(Clone, Copy, Debug)]
struct Place<I> {
    id: I,
    source: Option<Address>,
    until: Nanos,
}

/// The connections that have a place, in order of arrival, with the bounds that they are held to;
/// the module documentation has the rules. `I` identifies a connection.
#[derive(Clone, Debug)]
pub struct Admission<I> {
    config: AdmissionConfig,
    /// Places in order of arrival, and so of `until`.
    places: VecDeque<Place<I>>,
    /// Number of places that each source has; the key `None` counts connections without an address.
    counts: BTreeMap<Option<Address>, usize>,
}

impl<I: Copy + PartialEq> Admission<I> {
    /// An empty admission with these bounds.
    pub fn new(config: AdmissionConfig) -> Admission<I> {
        Admission { config, places: VecDeque::new(), counts: BTreeMap::new() }
    }

    /// The bounds given to [`Admission::new`].
    pub fn config(&self) -> &AdmissionConfig {
        &self.config
    }

    /// Number of connections that have a place.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether no place is taken.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether the connection `id` has a place.
    pub fn contains(&self, id: I) -> bool {
        self.places.iter().any(|place| place.id == id)
    }

    /// A connection comes and gets a place. `Some`: that connection has lost its own and is to be
    /// closed; with [`Yields::Newest`] it may be the one that came.
    #[must_use = "whoever is named is to be closed"]
    pub fn arrive(&mut self, now: Nanos, id: I, from: Option<Address>) -> Option<I> {
        self.leave(id);
        let source = from.map(|address| address.source());
        // A clock that was set back keeps nobody for longer than those before.
        let before = self.places.back().map_or(Nanos(0), |last| last.until);
        let until = now.after(self.config.patience_ns).max(before);
        self.places.push_back(Place { id, source, until });
        let own = self.counts.entry(source).or_insert(0);
        *own += 1;
        let crowded = source.is_some() && *own > self.config.places_per_source.max(1);
        let most = match crowded {
            true => *own,
            false if self.places.len() <= self.config.places.max(1) => return None,
            false => self.counts.values().copied().max().unwrap_or(0),
        };
        let gives = |place: &Place<I>| match crowded {
            true => place.source == source,
            false => self.counts.get(&place.source) == Some(&most),
        };
        let at = match self.config.yields {
            Yields::Oldest => self.places.iter().position(gives),
            Yields::Newest => self.places.iter().rposition(gives),
        };
        self.remove(at?)
    }

    /// Removes a connection that has ended, or that has proved who it is; returns whether it had a
    /// place.
    pub fn leave(&mut self, id: I) -> bool {
        let at = self.places.iter().position(|place| place.id == id);
        at.and_then(|at| self.remove(at)).is_some()
    }

    /// One whose time is up, and who is to be closed; to be called until there is none.
    #[must_use = "whoever is named is to be closed"]
    pub fn expire(&mut self, now: Nanos) -> Option<I> {
        self.places.front().filter(|first| first.until <= now)?;
        self.remove(0)
    }

    /// Next time at which [`Admission::expire`] has a connection to return; [`Nanos::NEVER`]: no
    /// place is taken.
    pub fn next_timeout(&self) -> Nanos {
        self.places.front().map_or(Nanos::NEVER, |first| first.until)
    }

    fn remove(&mut self, at: usize) -> Option<I> {
        let place = self.places.remove(at)?;
        if let Some(count) = self.counts.get_mut(&place.source) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&place.source);
            }
        }
        Some(place.id)
    }
}
