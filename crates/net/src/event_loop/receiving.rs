//! What comes by datagrams: off their sockets, past filters, to nodes.

use types::{Channel, Node, Peer};

use super::{Driver, Loop, Nodes};
use crate::bundle::Parts;
use crate::inbox::{BATCH, Received};
use crate::plane::{DuplicateFigures, DuplicateKey};

impl<N: Node> Loop<N> {
    /// From now on copies of datagrams that the loop's node has confirmed are dropped in front of its overlay
    /// socket ([`Node::expect_filter`]); `told` hears why, where they can't be. Call it in the network
    /// namespace of the sockets, when all nodes are there; whether they are.
    pub fn filter_duplicates(&mut self, key: DuplicateKey, mut told: impl FnMut(&str)) -> bool {
        let io = &mut self.driver.io;
        let overlay = io.overlay_sockets();
        let [(host, own)] = overlay[..] else {
            let (count, goes_on) = (overlay.len(), "duplicates reach the nodes");
            told(&format!(
                "filter of duplicates: it is for one node of a machine, not {count}; {goes_on}"
            ));
            return false;
        };
        let peers: Vec<_> = io.directory.of(Channel::OVERLAY).addresses().collect();
        match io.filters.attach((host, own), &peers, key) {
            Ok(0) => {
                told(
                    "filter of duplicates: no peer can be reached by any interface; duplicates reach the node",
                );
                false
            }
            Ok(_) => {
                if let Some((_, Some(node))) = self.hosted.nodes.get_mut(host) {
                    node.expect_filter();
                }
                true
            }
            Err(error) => {
                told(&format!("{error}; duplicates reach the node"));
                false
            }
        }
    }

    /// What filters of duplicates did so far, one for each interface.
    pub fn filter_figures(&self) -> impl Iterator<Item = DuplicateFigures> {
        self.driver.io.filters.figures()
    }

    /// For drills: takes filters off their interfaces, as an administrator might.
    ///
    /// # Errors
    /// The kernel's.
    #[doc(hidden)]
    pub fn detach_filters(&self) -> std::io::Result<()> {
        self.driver.io.filters.0.iter().try_for_each(crate::filters::HostFilter::detach)
    }
}

impl Driver {
    /// Hands a socket's datagrams to its node, one portion of them.
    pub(super) fn serve_udp(&mut self, nodes: &mut dyn Nodes, index: u32) {
        let Some((host, channel)) = self.io.serve_udp(index) else { return };
        let Some(mut inbox) = self.io.inbox.take() else { return };
        let mut left = self.io.config.datagrams_per_turn;
        let mut empty = false;
        while left > 0 && !empty {
            self.wait_for_timer(nodes);
            let most = left.min(BATCH);
            let taken = match self.io.receive(index, &mut inbox, most) {
                Received::Empty => {
                    empty = true;
                    break;
                }
                Received::Skipped => {
                    left -= 1;
                    continue;
                }
                Received::Packets { taken, drained } => {
                    empty = drained;
                    taken
                }
            };
            left = left.saturating_sub(taken);
            let mut is_first = true;
            while let Some(arrived) = inbox.next() {
                if !std::mem::take(&mut is_first) {
                    self.wait_for_timer(nodes);
                }
                self.io.count_arrival(&arrived);
                let from = self.io.directory.of(channel).peer(arrived.from);
                self.deliver(nodes, host, channel, from, inbox.bytes(&arrived));
            }
        }
        self.io.inbox = Some(inbox);
        if !empty {
            self.io.requeue_udp(index);
        }
    }

    /// Hands a packet to its node, part by part if it is a bundle.
    fn deliver(
        &mut self,
        nodes: &mut dyn Nodes,
        host: usize,
        channel: Channel,
        from: Peer,
        packet: &[u8],
    ) {
        let parts = match channel.shard() {
            Some(_) => Parts::of(packet),
            None => Parts::bare(packet),
        };
        for part in parts {
            let Ok(bytes) = part else {
                self.io.counters.datagram_errors.add(1);
                return;
            };
            let at = self.call(nodes, host, |node, now, out| {
                node.handle_datagram(now, channel, from, bytes, out);
            });
            self.fire_due(nodes, at.unwrap_or_default());
        }
    }

    /// Tells nodes of the copies that were dropped in front of them.
    pub(super) fn tell_dropped(&mut self, nodes: &mut dyn Nodes) {
        if self.io.filters.0.is_empty() {
            return;
        }
        let now = self.clock.reading();
        let mut filters = std::mem::take(&mut self.io.filters);
        for of in &mut filters.0 {
            let host = of.host;
            let copies = of.dropped(now.now);
            if let Some(node) = nodes.node(host).filter(|_| !copies.is_empty()) {
                self.io.counters.copies_filtered.add(copies.len() as u64);
                node.handle_dropped(now, copies);
            }
        }
        self.io.filters = filters;
    }
}
