//! Packets of a loop's nodes for other processes of the machine.

use types::NodeId;

use super::Loop;
use crate::packet_ring::PacketRingWriter;

impl<N: types::Node> Loop<N> {
    /// From now on what a node sends to [`types::Peer::RING`], on whatever channel, is written into this
    /// ring; without one it is counted as unroutable. False: no such node.
    pub fn publish(&mut self, id: NodeId, ring: PacketRingWriter) -> bool {
        let host = self.driver.io.host_of(id).and_then(|host| self.driver.io.hosts.get_mut(host));
        host.map(|host| host.ring = Some(ring)).is_some()
    }
}
