//! Who keeps a place among connections that have proved nothing, or that are served for nothing.
//!
//! Places are few and anybody may want one. Each is kept for a time at most; a source (an address,
//! [`Address::source`]) has a share of them; and when they are all taken, the source that has the most
//! gives one up. So whoever holds many connections open stands in its own way, not in that of
//! others, and nobody who waits is turned away for want of room alone. Whoever has proved who it is
//! leaves here, and is nobody's victim any more.
//!
//! Knows no sockets and no clock: its owner says who comes and goes, and closes whom it names.

use std::collections::{BTreeMap, VecDeque};

use crate::{Address, Nanos};

/// Which of a source's connections gives up its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Yields {
    /// The one that came first: it had its chance to prove itself.
    Oldest,
    /// The one that came last, which may be the newcomer: those before it are being served.
    Newest,
}

/// Bounds of an [`Admission`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdmissionConfig {
    /// Number of places, at least 1.
    pub places: usize,
    /// Places of one source, at least 1. Connections whose address nobody knows are held to the
    /// bound of all alone.
    pub places_per_source: usize,
    /// How long a place may be kept, in ns; [`u64::MAX`] for as long as one likes.
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

/// See the module. `I` names a connection.
#[derive(Clone, Debug)]
pub struct Admission<I> {
    config: AdmissionConfig,
    /// Places in order of arrival, and so of `until`.
    places: VecDeque<Place<I>>,
    /// How many of them each source has.
    counts: BTreeMap<Option<Address>, usize>,
}

impl<I: Copy + PartialEq> Admission<I> {
    /// An empty admission with these bounds.
    pub fn new(config: AdmissionConfig) -> Admission<I> {
        Admission { config, places: VecDeque::new(), counts: BTreeMap::new() }
    }

    /// Bounds that it was made with.
    pub fn config(&self) -> &AdmissionConfig {
        &self.config
    }

    /// Connections that have a place.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether no place is taken.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether this connection has one.
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

    /// A connection is gone, or has proved who it is. Whether it had a place.
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

    /// When [`Admission::expire`] next has somebody; [`Nanos::NEVER`] when nobody is there.
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
