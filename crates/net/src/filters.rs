//! Filters of duplicates in front of the nodes of a loop.

use std::net::{IpAddr, SocketAddr};

use types::{DatagramName, DroppedCopy, Nanos, NodeId};

use crate::plane::{
    DuplicateFigures, DuplicateFilter, DuplicateKey, Learning, PlaneError, interfaces_to,
};

/// Between two looks at whether programs are still attached.
const WATCH_NS: u64 = Nanos::SECOND;

/// A filter, and the node behind it.
pub(crate) struct HostFilter {
    pub host: usize,
    filter: DuplicateFilter,
    copies: Vec<DroppedCopy>,
    watched: Nanos,
}

/// All of a loop.
#[derive(Default)]
pub(crate) struct Filters(pub Vec<HostFilter>);

impl Filters {
    /// One on each interface by which a node's peers are reached.
    ///
    /// # Errors
    /// Why there is none on one of them; none is on any other then.
    pub fn attach(
        &mut self,
        (host, own): (usize, SocketAddr),
        peers: &[SocketAddr],
        key: DuplicateKey,
    ) -> Result<usize, PlaneError> {
        let peers: Vec<IpAddr> = peers.iter().map(SocketAddr::ip).collect();
        let mut all = Vec::new();
        for interface in interfaces_to(&peers)? {
            let filter = DuplicateFilter::attach(interface, own.port(), key, Learning::Confirmed)?;
            all.push(HostFilter { host, filter, copies: Vec::new(), watched: Nanos(0) });
        }
        let count = all.len();
        self.0.extend(all);
        Ok(count)
    }

    /// A node has opened these.
    pub fn confirm(&self, host: usize, names: &[DatagramName]) {
        for of in self.0.iter().filter(|of| of.host == host) {
            names.iter().for_each(|name| of.filter.confirm(name.epoch, name.number));
        }
    }

    /// What all of them did.
    pub fn figures(&self) -> impl Iterator<Item = DuplicateFigures> {
        self.0.iter().map(|of| of.filter.figures())
    }
}

impl HostFilter {
    /// Takes its program off its interface.
    pub fn detach(&self) -> std::io::Result<()> {
        self.filter.detach()
    }

    /// Copies that were dropped since the last call.
    pub fn dropped(&mut self, now: Nanos) -> &[DroppedCopy] {
        let HostFilter { filter, copies, watched, .. } = self;
        copies.clear();
        filter.take_dropped(|of| {
            let name = DatagramName { epoch: of.epoch, number: u64::from(of.number) };
            let came = Nanos(now.0.saturating_sub(of.ago_ns));
            copies.push(DroppedCopy { name, sender: NodeId(of.sender), came });
        });
        if now >= watched.after(WATCH_NS) {
            *watched = now;
            filter.watch();
        }
        copies
    }
}
