//! The sockets of one loop: where outbox ops go, and what is ready to be served.
//!
//! Knows no node type. Whatever a node must be told in consequence (a connection that opened or
//! went away) is left in `notices`, because a node may not be called while its outbox is drained.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
};
use types::{
    Admission, AdmissionConfig, Channel, ConnId, Nanos, NodeId, Op, Outbox, Peer, Remote, Yields,
};

use crate::bundle::Lanes;
use crate::conn::Conn;
use crate::connected::Connected;
use crate::counters::SharedCounters;
use crate::filters::Filters;
use crate::inbox::{self, Inbox};
use crate::packet_ring::PacketRingWriter;
use crate::plane::{DataPlane, PlaneError, PlaneFigures, PlaneKind};
use crate::poller::{Poller, Ready, WaitStrategy};
use crate::secure::SEALED_READ;
use crate::streams::place_of;
use crate::tls::{ClientTls, ServerTls};
use crate::worker::JobSender;
use crate::{Clock, Directory, Mailbox};

/// Receive and send buffer asked for each UDP socket; the kernel grants what it allows.
const UDP_BUFFER_BYTES: usize = 4 << 20;

/// Peers whose ways are looked up before there is anything to send.
const PLANE_PEERS: usize = 64;

/// Bounds and habits of a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoopConfig {
    /// Spinning and sleeping.
    pub wait: WaitStrategy,
    /// Less than so long before a timer no datagram is begun: the timer is waited for, awake, in ns. What
    /// comes then waits so long at most. 0: timers wait for the datagram under way.
    pub timer_guard_ns: u64,
    /// What comes is stamped by the kernel, and nodes are told when bytes of a stream came
    /// ([`types::Node::expect_arrival`]).
    pub kernel_stamps: bool,
    /// Overlay datagrams between nodes of this loop are handed over in memory.
    pub local_delivery: bool,
    /// Datagrams that may wait for that.
    pub local_max: usize,
    /// Overlay datagrams that a turn sends to the same node share packets.
    pub bundles: bool,
    /// Connections a node's listener keeps at once; those that are being closed make room for more,
    /// then these are refused.
    pub accepted_max: usize,
    /// Connections a node may have opened at once; more fail.
    pub opened_max: usize,
    /// Bytes a connection's other side may leave unread (beyond the kernel's buffers) before it
    /// is cut; with three quarters of them its node is told.
    pub unread_max: usize,
    /// Datagrams of one socket served in a row while others wait.
    pub datagrams_per_turn: usize,
    /// Clear bytes of one connection handed to its node in a row while others wait, at most 64 KiB:
    /// what one of them may hold up the others by.
    pub read_max: usize,
    /// Longest life of a connection after its node closed it, in nanoseconds.
    pub linger_ns: u64,
    /// TLS handshakes that may be under way at a node's doors, from everywhere and from one source
    /// ([`types::Address::source`]); older ones make room for newer ones ([`types::Admission`]).
    pub handshakes_max: usize,
    /// The same, from one source.
    pub handshakes_per_source_max: usize,
    /// Bytes that a handshake may take.
    pub handshake_bytes_max: usize,
    /// How long it may take, in nanoseconds.
    pub handshake_ns: u64,
}

impl Default for LoopConfig {
    fn default() -> Self {
        LoopConfig {
            wait: WaitStrategy::default(),
            timer_guard_ns: 0,
            kernel_stamps: false,
            local_delivery: false,
            local_max: 65_536,
            bundles: true,
            accepted_max: 1_024,
            opened_max: 1_024,
            unread_max: 1 << 20,
            datagrams_per_turn: 64,
            read_max: 4_096,
            linger_ns: Nanos::SECOND,
            handshakes_max: 512,
            handshakes_per_source_max: 384,
            handshake_bytes_max: 32 << 10,
            handshake_ns: 3 * Nanos::SECOND,
        }
    }
}

/// What a descriptor belongs to; packed into epoll's 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Token {
    Control,
    Udp(u32),
    /// Host times [`ConnId::DOORS`] plus door.
    Listener(u32),
    Conn(u32),
}

impl Token {
    pub fn pack(self) -> u64 {
        let (kind, index) = match self {
            Token::Control => (0, 0),
            Token::Udp(index) => (1, index),
            Token::Listener(index) => (2, index),
            Token::Conn(index) => (3, index),
        };
        kind << 32 | u64::from(index)
    }

    pub fn unpack(packed: u64) -> Token {
        let index = packed as u32;
        match packed >> 32 {
            1 => Token::Udp(index),
            2 => Token::Listener(index),
            3 => Token::Conn(index),
            _ => Token::Control,
        }
    }
}

/// Something a node is to be told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Notice {
    Accepted { host: usize, conn: ConnId, remote: Remote },
    Connected { host: usize, conn: ConnId },
    Closed { host: usize, conn: ConnId },
    Unread { host: usize, conn: ConnId },
}

/// What one node has.
pub(crate) struct Host {
    pub id: NodeId,
    /// Channel and index into `Io::udp`.
    pub sockets: Vec<(Channel, u32)>,
    /// By door.
    pub listeners: Vec<TcpListener>,
    /// By door; without an entry it is a plain one.
    pub tls_doors: Vec<Option<ServerTls>>,
    /// For the connections it opens, to everybody or to these peers alone.
    pub tls_out: Option<(ClientTls, Option<Vec<Peer>>)>,
    /// TLS handshakes under way at its doors, by slot.
    pub handshakes: Admission<u32>,
    /// Slots of the connections the node knows, sorted by id.
    pub conns: Vec<(ConnId, u32)>,
    /// Connections accepted and opened, those still closing included.
    pub accepted: usize,
    pub opened: usize,
    /// Through all doors.
    pub accepted_before: u32,
    pub paused: Vec<u32>,
    /// Where what it sends to [`Peer::RING`] goes.
    pub ring: Option<PacketRingWriter>,
}

impl Host {
    /// TLS of a connection that it opens to a peer, if it speaks any there.
    pub fn tls_to(&self, peer: Peer) -> Option<&ClientTls> {
        let (tls, only) = self.tls_out.as_ref()?;
        only.as_ref().is_none_or(|only| only.contains(&peer)).then_some(tls)
    }

    fn new(id: NodeId, config: &LoopConfig) -> Host {
        Host {
            id,
            sockets: Vec::new(),
            listeners: Vec::new(),
            tls_doors: Vec::new(),
            tls_out: None,
            handshakes: Admission::new(AdmissionConfig {
                places: config.handshakes_max,
                places_per_source: config.handshakes_per_source_max,
                // The loop cuts them itself, those of clients, too.
                patience_ns: u64::MAX,
                yields: Yields::Oldest,
            }),
            conns: Vec::new(),
            accepted: 0,
            opened: 0,
            accepted_before: 0,
            paused: Vec::new(),
            ring: None,
        }
    }
}

impl Host {
    /// All that was opened and accepted has been dropped, and nothing of it is left.
    fn assert_no_connections(&self) {
        assert_eq!((self.accepted, self.opened), (0, 0), "each connection is counted once");
        assert!(self.conns.is_empty() && self.paused.is_empty(), "nobody knows one that is gone");
    }
}

pub(crate) struct Udp {
    pub socket: UdpSocket,
    /// Its peers, if it only sends.
    pub connected: Option<Connected>,
    /// What it sends by, if not by itself.
    plane: Option<DataPlane>,
    pub host: usize,
    pub channel: Channel,
    queued: bool,
}

/// A datagram that stays in the loop.
#[derive(Clone, Copy)]
pub(crate) struct Local {
    pub to: usize,
    pub from: NodeId,
    pub channel: Channel,
    start: usize,
    end: usize,
}

/// One generation of such datagrams.
#[derive(Default)]
pub(crate) struct LocalBatch {
    pub items: Vec<Local>,
    bytes: Vec<u8>,
}

impl LocalBatch {
    pub fn bytes(&self, item: &Local) -> &[u8] {
        assert!(item.start <= item.end && item.end <= self.bytes.len(), "of this generation");
        &self.bytes[item.start..item.end]
    }

    pub fn clear(&mut self) {
        self.items.clear();
        self.bytes.clear();
    }
}

pub(crate) struct Io {
    pub config: LoopConfig,
    pub directory: Arc<Directory>,
    pub poller: Poller,
    pub hosts: Vec<Host>,
    pub udp: Vec<Option<Udp>>,
    pub conns: Vec<Option<Conn>>,
    pub free: Vec<u32>,
    pub serials: u64,
    /// Connections written to during the current call.
    pub dirty: Vec<u32>,
    pub ready: VecDeque<Token>,
    pub notices: VecDeque<Notice>,
    /// Connections being closed: until when, slot, serial. In order of time.
    pub lingering: VecDeque<(Nanos, u32, u64)>,
    /// Listeners that are left alone until then, because no descriptor was free. In order of time.
    pub resting: VecDeque<(Nanos, u32)>,
    /// Handshakes under way, in the same manner.
    pub handshaking: VecDeque<(Nanos, u32, u64)>,
    /// Those that have news: served after everybody else, since they cost so much.
    pub handshakes_ready: VecDeque<u32>,
    /// Sealed bytes before they are opened.
    pub sealed: Box<[u8]>,
    pub jobs: Option<JobSender>,
    pub local: LocalBatch,
    /// What waits for the end of the turn.
    lanes: Lanes,
    /// Sockets with data planes.
    planes: Vec<u32>,
    /// Hosts by node id, sorted, for local delivery.
    by_id: Vec<(NodeId, usize)>,
    pub counters: Arc<SharedCounters>,
    /// Takes what is to be durable.
    pub journal: Option<Arc<Mailbox>>,
    /// Datagrams being handed on; `None` meanwhile.
    pub inbox: Option<Box<Inbox>>,
    pub filters: Filters,
}

impl Io {
    pub fn new(directory: Arc<Directory>, config: LoopConfig) -> std::io::Result<Io> {
        Ok(Io {
            config,
            directory,
            poller: Poller::new()?,
            hosts: Vec::new(),
            udp: Vec::new(),
            conns: Vec::new(),
            free: Vec::new(),
            serials: 0,
            dirty: Vec::new(),
            ready: VecDeque::new(),
            notices: VecDeque::new(),
            lingering: VecDeque::new(),
            resting: VecDeque::new(),
            handshaking: VecDeque::new(),
            handshakes_ready: VecDeque::new(),
            sealed: vec![0; SEALED_READ].into_boxed_slice(),
            jobs: None,
            local: LocalBatch::default(),
            lanes: Lanes::default(),
            planes: Vec::new(),
            by_id: Vec::new(),
            counters: Arc::default(),
            journal: None,
            inbox: Some(Box::default()),
            filters: Filters::default(),
        })
    }

    pub fn add_host(
        &mut self,
        id: NodeId,
        sockets: Vec<(Channel, UdpSocket)>,
        listeners: Vec<TcpListener>,
    ) -> std::io::Result<()> {
        if listeners.len() > usize::from(ConnId::DOORS) {
            return Err(ErrorKind::InvalidInput.into());
        }
        let place = match self.by_id.binary_search_by_key(&id, |&(id, _)| id) {
            Ok(_) => return Err(ErrorKind::AlreadyExists.into()),
            Err(place) => place,
        };
        let host = self.hosts.len();
        let mut added = Host::new(id, &self.config);
        for (channel, socket) in sockets {
            socket.set_nonblocking(true)?;
            rustix::net::sockopt::set_socket_recv_buffer_size(&socket, UDP_BUFFER_BYTES)?;
            rustix::net::sockopt::set_socket_send_buffer_size(&socket, UDP_BUFFER_BYTES)?;
            never_in_fragments(&socket, socket.local_addr()?.is_ipv6())?;
            // Where a kernel can't, datagrams come one by one, and unstamped.
            inbox::put_together(&socket);
            if self.config.kernel_stamps {
                inbox::stamp(&socket);
            }
            let index = self.udp.len() as u32;
            self.poller.add_input(&socket, Token::Udp(index).pack())?;
            self.udp.push(Some(Udp {
                socket,
                connected: None,
                plane: None,
                host,
                channel,
                queued: false,
            }));
            added.sockets.push((channel, index));
        }
        for (door, listener) in (0..).zip(&listeners) {
            listener.set_nonblocking(true)?;
            if self.config.kernel_stamps {
                inbox::stamp(listener);
            }
            let number = host as u32 * u32::from(ConnId::DOORS) + door;
            assert!(place_of(number) == (host, door), "a listener is told from all others");
            let token = Token::Listener(number);
            self.poller.add_listener(listener, token.pack())?;
        }
        added.listeners = listeners;
        self.hosts.push(added);
        self.by_id.insert(place, (id, host));
        assert!(self.host_of(id) == Some(host), "a host is found by its id");
        assert!(self.by_id.len() <= self.hosts.len());
        Ok(())
    }

    pub fn host_of(&self, id: NodeId) -> Option<usize> {
        let at = self.by_id.binary_search_by_key(&id, |&(id, _)| id).ok()?;
        self.by_id.get(at).map(|&(_, host)| host)
    }

    /// Ports of a host's UDP sockets, for kernel figures.
    pub fn udp_ports(&self) -> Vec<u16> {
        let addrs = self.udp.iter().flatten().map(|udp| udp.socket.local_addr());
        addrs.filter_map(|addr| addr.ok().map(|addr| addr.port())).collect()
    }

    /// Drops everything a host has.
    pub fn kill(&mut self, host: usize) {
        let Some(id) = self.hosts.get(host).map(|dead| dead.id) else { return };
        for udp in self.udp.iter_mut().filter(|udp| udp.as_ref().is_some_and(|u| u.host == host)) {
            *udp = None;
        }
        for slot in 0..self.conns.len() as u32 {
            if self.conn(slot).is_some_and(|conn| conn.host == host) {
                self.drop_conn(slot);
            }
        }
        if let Some(dead) = self.hosts.get_mut(host) {
            dead.assert_no_connections();
            *dead = Host::new(id, &self.config);
        }
        self.by_id.retain(|&(other, _)| other != id);
        self.filters.0.retain(|of| of.host != host);
        self.notices.retain(|notice| match notice {
            Notice::Accepted { host: other, .. }
            | Notice::Connected { host: other, .. }
            | Notice::Closed { host: other, .. }
            | Notice::Unread { host: other, .. } => *other != host,
        });
    }

    /// Puts what the poller reported into the ready queue, in its order.
    pub fn collect(&mut self) {
        let Io { poller, udp, conns, ready, .. } = self;
        for &Ready { token, readable, writable, hangup } in poller.news() {
            let token = Token::unpack(token);
            match token {
                // Whoever steers the loop does not wait for those it serves.
                Token::Control => ready.push_front(token),
                Token::Listener(_) => ready.push_back(token),
                Token::Udp(index) => {
                    if let Some(Some(udp)) = udp.get_mut(index as usize)
                        && !udp.queued
                    {
                        udp.queued = true;
                        ready.push_back(token);
                    }
                }
                Token::Conn(slot) => {
                    let Some(Some(conn)) = conns.get_mut(slot as usize) else { continue };
                    conn.readable |= readable;
                    conn.hangup |= hangup;
                    // Every arrival reports "writable" too: only news if something waits for it.
                    let useful = readable || (writable && conn.awaits_write());
                    if useful && !conn.queued {
                        conn.queued = true;
                        ready.push_back(token);
                    }
                }
            }
        }
    }

    /// Puts a socket back in line because its portion was used up.
    pub fn requeue_udp(&mut self, index: u32) {
        if let Some(Some(udp)) = self.udp.get_mut(index as usize) {
            udp.queued = true;
            self.ready.push_back(Token::Udp(index));
        }
    }

    /// Marks a socket as served; returns whose it is.
    pub fn serve_udp(&mut self, index: u32) -> Option<(usize, Channel)> {
        let udp = self.udp.get_mut(index as usize)?.as_mut()?;
        udp.queued = false;
        Some((udp.host, udp.channel))
    }

    /// Does what a node asked for, in order; streams are flushed at the end.
    pub fn drain(&mut self, host: usize, out: &Outbox, now: Nanos) {
        for op in out.ops() {
            match *op {
                Op::Datagram { channel, to, bytes } => {
                    self.send(host, channel, to, out.bytes(bytes));
                }
                Op::Stream { conn, bytes } => self.write(host, conn, out.bytes(bytes)),
                Op::Connect { conn, to } => self.connect(host, conn, to),
                Op::Close { conn } => self.close(host, conn, now),
                Op::Work { ticket, bytes } => self.ask(host, ticket, out.bytes(bytes)),
            }
        }
        if let (Some(journal), false) = (&self.journal, out.journaled().is_empty()) {
            journal.push(out.journaled());
        }
        if !out.confirmed().is_empty() {
            self.filters.confirm(host, out.confirmed());
        }
        if !self.config.bundles {
            self.flush_planes();
        }
        self.flush_dirty();
    }

    fn ask(&mut self, host: usize, ticket: u64, bytes: &[u8]) {
        let node = self.hosts.get(host).map(|own| own.id).unwrap_or_default();
        if !self.jobs.as_ref().is_some_and(|jobs| jobs.send(node, ticket, bytes)) {
            self.counters.jobs_dropped.add(1);
        }
    }

    fn send(&mut self, host: usize, channel: Channel, to: Peer, bytes: &[u8]) {
        let local = channel == Channel::LOCAL
            || (self.config.local_delivery && channel == Channel::OVERLAY);
        if local && self.send_local(host, channel, to, bytes) {
            return;
        }
        match to {
            Peer::NOBODY => {}
            Peer::RING => self.publish(host, bytes),
            Peer::Node(node) if channel.shard().is_some() && self.config.bundles => {
                self.bundle((host, channel, node), bytes);
            }
            _ => self.send_packet(host, channel, to, bytes),
        }
    }

    /// Writes a datagram into the node's ring.
    fn publish(&mut self, host: usize, bytes: &[u8]) {
        let ring = self.hosts.get_mut(host).and_then(|host| host.ring.as_mut());
        if !ring.is_some_and(|ring| ring.push(bytes)) {
            self.counters.unroutable.add(1);
        }
    }

    /// Keeps a datagram for the end of the turn.
    fn bundle(&mut self, key: (usize, Channel, NodeId), bytes: &[u8]) {
        let mut lanes = std::mem::take(&mut self.lanes);
        if let Some(full) = lanes.add(key, bytes) {
            let (host, channel, node) = key;
            self.send_packet(host, channel, Peer::Node(node), full.packet());
            full.restart(bytes);
        }
        self.lanes = lanes;
    }

    /// Sends what has been kept so far.
    pub fn flush_lanes(&mut self) {
        let mut lanes = std::mem::take(&mut self.lanes);
        while let Some((host, lane)) = lanes.pop_used() {
            self.send_packet(host, lane.channel, Peer::Node(lane.to), lane.packet());
            lane.clear();
        }
        self.lanes = lanes;
        self.flush_planes();
    }

    fn send_packet(&mut self, host: usize, channel: Channel, to: Peer, bytes: &[u8]) {
        let addr = self.directory.of(channel).resolve(to);
        let Some((udp, addr)) = self.udp_of(host, channel).zip(addr) else {
            self.counters.unroutable.add(1);
            return;
        };
        let sent = match (&mut udp.connected, &mut udp.plane) {
            (Some(connected), _) => connected.send(&udp.socket, addr, bytes),
            (None, Some(plane)) => plane.send(&udp.socket, addr, bytes).map(|()| bytes.len()),
            (None, None) => udp.socket.send_to(bytes, addr),
        };
        match sent {
            Ok(_) => {
                self.counters.datagrams_out.add(1);
                self.counters.datagram_bytes_out.add(bytes.len() as u64);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.counters.datagrams_blocked.add(1);
            }
            Err(_) => self.counters.datagram_errors.add(1),
        }
    }

    /// Has data planes send what waits in them.
    fn flush_planes(&mut self) {
        for index in &self.planes {
            let Some(Some(udp)) = self.udp.get_mut(*index as usize) else { continue };
            let Some(plane) = &mut udp.plane else { continue };
            match plane.flush(&udp.socket) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.counters.datagrams_blocked.add(1);
                }
                Err(_) => self.counters.datagram_errors.add(1),
            }
        }
    }

    /// The overlay sockets of all hosts send by the first of these planes that each can have.
    ///
    /// # Errors
    /// Why one can have none of them.
    pub fn use_planes(
        &mut self,
        kinds: &[PlaneKind],
        told: &mut dyn FnMut(&str),
    ) -> Result<(), PlaneError> {
        for (index, udp) in (0..).zip(&mut self.udp) {
            let Some(udp) = udp.as_mut().filter(|udp| udp.channel.shard().is_some()) else {
                continue;
            };
            let peers = self.directory.of(udp.channel).addresses().take(PLANE_PEERS);
            let peers: Vec<_> = peers.collect();
            udp.plane = Some(DataPlane::first_of(kinds, &udp.socket, &peers, &mut *told)?);
            self.planes.push(index);
        }
        Ok(())
    }

    /// What the data planes of all sockets did together.
    pub fn plane_figures(&self) -> impl Iterator<Item = (PlaneKind, PlaneFigures)> {
        let planes = self.udp.iter().flatten().filter_map(|udp| udp.plane.as_ref());
        planes.map(|plane| (plane.kind(), plane.figures()))
    }

    fn udp_of(&mut self, host: usize, channel: Channel) -> Option<&mut Udp> {
        let sockets = &self.hosts.get(host)?.sockets;
        let &(_, index) = sockets.iter().find(|(own, _)| *own == channel)?;
        self.udp.get_mut(index as usize)?.as_mut()
    }

    /// A host's socket only sends from now on, to few peers.
    pub fn connect_peers(&mut self, host: usize, channel: Channel) -> std::io::Result<()> {
        let udp = self.udp_of(host, channel).ok_or(ErrorKind::NotFound)?;
        udp.connected = Some(Connected::new(&udp.socket)?);
        Ok(())
    }

    /// Queues a datagram for a node of this loop; false if it must take the network.
    fn send_local(&mut self, host: usize, channel: Channel, to: Peer, bytes: &[u8]) -> bool {
        let Peer::Node(node) = to else { return false };
        let (Some(to), Some(from)) = (self.host_of(node), self.hosts.get(host)) else {
            return false;
        };
        if self.local.items.len() >= self.config.local_max {
            self.counters.local_dropped.add(1);
            return true;
        }
        let start = self.local.bytes.len();
        self.local.bytes.extend_from_slice(bytes);
        let end = self.local.bytes.len();
        self.local.items.push(Local { to, from: from.id, channel, start, end });
        assert!(self.local.items.len() <= self.config.local_max, "what waits is bounded");
        self.counters.local_datagrams.add(1);
        true
    }

    /// Whether there is something to do without waiting.
    pub fn has_work(&self) -> bool {
        !(self.ready.is_empty()
            && self.notices.is_empty()
            && self.local.items.is_empty()
            && self.handshakes_ready.is_empty())
    }

    /// Waits for news until `until`, or only looks if there is work already.
    pub fn wait(&mut self, clock: &Clock, until: Nanos) -> std::io::Result<()> {
        if self.has_work() {
            self.poller.look()?;
        } else {
            let (_, slept) = self.poller.wait(clock, until, &self.config.wait)?;
            self.counters.parks.add(u64::from(slept));
        }
        self.collect();
        Ok(())
    }
}

/// What a UDP socket sends is never cut: every datagram fits, and the kernel then needs no number for
/// each to tell its fragments by, which all sockets would draw from a few shared counters.
pub(crate) fn never_in_fragments(socket: impl AsFd, is_v6: bool) -> rustix::io::Result<()> {
    // A socket of IPv6 may send to IPv4 as well.
    set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::PROBE)?;
    if is_v6 {
        set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::PROBE)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "each connection is counted once")]
    fn control_a_connection_that_was_not_given_back_is_found() {
        let mut host = Host::new(NodeId(1), &LoopConfig::default());
        host.assert_no_connections();
        host.accepted = 1;
        host.assert_no_connections();
    }

    #[test]
    #[should_panic(expected = "of this generation")]
    fn control_a_datagram_of_another_generation_is_found() {
        let mut batch = LocalBatch::default();
        let (from, channel) = (NodeId(1), Channel::OVERLAY);
        let item = Local { to: 0, from, channel, start: 0, end: 3 };
        batch.bytes.extend_from_slice(b"one");
        assert_eq!(batch.bytes(&item), b"one");
        batch.clear();
        batch.bytes(&item);
    }

    #[test]
    fn tokens_round_trip() {
        for token in [Token::Control, Token::Udp(3), Token::Listener(u32::MAX), Token::Conn(0)] {
            assert_eq!(Token::unpack(token.pack()), token);
        }
    }
}
