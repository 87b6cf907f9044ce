//! Where the neighbours of a replica are now: their names may come to other addresses while it runs.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use probe::Key;

use super::cluster::Cluster;
use crate::failure::Failure;

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An address that may change; copies are the same one.
#[derive(Clone, Debug)]
pub struct Place(Arc<Mutex<SocketAddr>>);

impl Place {
    /// The address now.
    pub fn get(&self) -> SocketAddr {
        *lock(&self.0)
    }
}

impl From<SocketAddr> for Place {
    fn from(at: SocketAddr) -> Place {
        Place(Arc::new(Mutex::new(at)))
    }
}

/// Where streams of replicas are taken, and whom a leader tells that it leads; copies are the same.
#[derive(Clone)]
pub struct Places {
    /// By number, from 1.
    links: Arc<[Place]>,
    claims: Arc<Mutex<Vec<(SocketAddr, Key)>>>,
}

impl Places {
    /// Those of a group.
    ///
    /// # Errors
    /// Never for keys of 32 bytes.
    pub fn of(cluster: &Cluster) -> Result<Places, Failure> {
        let links = cluster.places().map(|(_, place)| Place::from(place.link)).collect();
        Ok(Places { links, claims: Arc::new(Mutex::new(cluster.claims_to()?)) })
    }

    /// Where a replica takes streams.
    pub fn link(&self, id: u8) -> Option<&Place> {
        self.links.get(usize::from(id).checked_sub(1)?)
    }

    /// Does something for each of those whom a leader tells that it leads.
    pub fn each_claim(&self, tell: impl FnMut(&(SocketAddr, Key))) {
        lock(&self.claims).iter().for_each(tell);
    }

    /// The same group with other addresses.
    ///
    /// # Errors
    /// As [`Places::of`].
    pub fn set(&self, cluster: &Cluster) -> Result<(), Failure> {
        let claims = cluster.claims_to()?;
        for (place, (_, new)) in self.links.iter().zip(cluster.places()) {
            *lock(&place.0) = new.link;
        }
        *lock(&self.claims) = claims;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::cluster::tests::cluster;
    use super::*;

    #[test]
    fn a_place_that_moves_is_known_to_all_who_have_it() {
        let places = Places::of(&cluster(2)).expect("two");
        let (first, second) = (places.link(1).cloned(), places.link(2).cloned());
        let (first, second) = (first.expect("one"), second.expect("two"));
        let before = second.get();
        let mut moved = cluster(2);
        moved.replicas[1].link.set_port(4_711);
        moved.claims[0].set_port(4_712);
        places.clone().set(&moved).expect("set");
        assert_eq!((first.get(), second.get().port()), (moved.replicas[0].link, 4_711));
        assert_ne!(before, second.get());
        let mut told = Vec::new();
        places.each_claim(|(at, _)| told.push(at.port()));
        assert_eq!(told, [4_712]);
        assert!(places.link(3).is_none() && places.link(0).is_none());
    }
}
