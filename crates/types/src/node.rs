//! The contract of a sans-I/O node, and the outbox its caller owns.
//!
//! A node is a plain state machine. Inputs are a datagram, bytes of a stream, or a timer, each with
//! the reading of the node's own clock; outputs are pushed into an [`Outbox`]. A node owns no
//! socket, thread, clock or random source. The UDP/TCP driver (`net`) and the simulator (`sim`)
//! run the very same objects.
//!
//! Contract of the caller: one call at a time per node; `now` never runs backwards; after every
//! call the outbox is drained in order, then [`Node::next_timeout`] is asked again. Datagrams may
//! be lost, repeated and reordered; streams may not, but may be closed at any time.
//! Contract of the node: no input panics, blocks or grows memory without bound.

use core::net::{IpAddr, SocketAddr};

use crate::{Address, ClockReading, Nanos, NodeId, Remote, ShardId};

/// A party that a node sends datagrams to or connects to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Peer {
    /// A node of the deployment.
    Node(NodeId),
    /// A party that is not a node of the deployment; nodes do not read the number. A driver packs
    /// IPv4 address and port (`address << 16 | port`), the simulator an index of its own.
    Addr(u64),
    /// A party that is not a node of the deployment, at an IPv6 address that is not a mapped IPv4
    /// address. Made by [`Peer::at`], so that each party has exactly one value.
    V6 {
        /// Upper 64 bits of the address.
        network: u64,
        /// Lower 64 bits of the address.
        host: u64,
        /// UDP or TCP port.
        port: u16,
    },
}

/// Bits of the port in [`Peer::Addr`].
const PORT_BITS: u32 = 16;

const _: () = assert!(size_of::<Peer>() == 24, "copied with every datagram");

impl Peer {
    /// No recipient: a driver sends nothing there.
    pub const NOBODY: Peer = Peer::Addr(0);

    /// Other processes of the machine, by the ring in shared memory that a driver keeps for the node; no
    /// address packs to it. A driver without one sends nothing there.
    pub const RING: Peer = Peer::Addr(u64::MAX);

    /// The party at this IPv4 address (first octet in the highest byte) and port, as drivers pack
    /// them.
    pub const fn v4(address: u32, port: u16) -> Peer {
        Peer::Addr((address as u64) << PORT_BITS | port as u64)
    }

    /// The party at this address and port. An IPv4 address mapped into IPv6 (`::ffff:a.b.c.d`), as
    /// a socket of both versions sees it, becomes that IPv4 address.
    #[inline]
    pub const fn at(address: Address, port: u16) -> Peer {
        match address.as_v4() {
            Some(v4) => Peer::v4(v4, port),
            None => Peer::V6 { network: (address.0 >> 64) as u64, host: address.0 as u64, port },
        }
    }

    /// Address and port; `None` for a node and for a number that no IPv4 address packs to.
    #[inline]
    pub const fn inet(self) -> Option<(Address, u16)> {
        match self {
            Peer::Node(_) => None,
            Peer::Addr(packed) if packed >> (u32::BITS + PORT_BITS) != 0 => None,
            Peer::Addr(packed) => Some((Address::v4((packed >> PORT_BITS) as u32), packed as u16)),
            Peer::V6 { network, host, port } => {
                Some((Address((network as u128) << 64 | host as u128), port))
            }
        }
    }

    /// Address and port for a socket; `None` as with [`Peer::inet`].
    #[inline]
    pub fn socket_addr(self) -> Option<SocketAddr> {
        self.inet().map(|(address, port)| SocketAddr::new(address.ip(), port))
    }

    /// The peer without its port and, at an IPv6 address, without the lower 64 bits: the unit that
    /// bounds per source are applied to ([`Address::source`]). A node and a number that is no
    /// address stay as they are.
    pub const fn source(self) -> Peer {
        match self {
            Peer::V6 { network, .. } => Peer::V6 { network, host: 0, port: 0 },
            Peer::Addr(packed) => Peer::Addr(packed >> PORT_BITS << PORT_BITS),
            Peer::Node(_) => self,
        }
    }
}

impl From<SocketAddr> for Peer {
    /// As [`Peer::at`]. The zone of a link-local address is not kept: nothing can be sent back there.
    #[inline]
    fn from(at: SocketAddr) -> Peer {
        match at {
            SocketAddr::V4(at) => Peer::v4(at.ip().to_bits(), at.port()),
            SocketAddr::V6(at) => Peer::at(IpAddr::V6(*at.ip()).into(), at.port()),
        }
    }
}

/// Channel numbers above this one are those of the shards from 1 on.
const SHARD_CHANNELS: u8 = 128;

const _: () = assert!(crate::limits::SHARDS_MAX <= (u8::MAX - SHARD_CHANNELS) as usize);

/// Which of a node's sockets; each node gives its channels their meaning.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Channel(pub u8);

impl Channel {
    /// Datagrams between nodes of the exchange.
    pub const OVERLAY: Channel = Channel(0);
    /// MoldUDP64 packets for the public: the released feed, retransmission requests and replies.
    pub const FEED: Channel = Channel(1);
    /// Datagrams between the roots of a venue's shards: a node's number is that of its shard.
    pub const SHARDS: Channel = Channel(4);
    /// Overlay datagrams between two nodes of one loop, which hands them over in memory: in clear, since
    /// nobody else can make, change or read them. No socket has this channel.
    pub const LOCAL: Channel = Channel(5);

    /// Datagrams between the nodes of one shard, at a node that is in several: each shard has numbers
    /// of nodes, keys and a socket of its own. Of the first one it is [`Channel::OVERLAY`].
    pub const fn of_shard(shard: ShardId) -> Channel {
        match shard.0 {
            0 => Channel::OVERLAY,
            _ => Channel(SHARD_CHANNELS + shard.0 as u8),
        }
    }

    /// The shard whose datagrams come by this channel; `None` for other channels.
    pub const fn shard(self) -> Option<ShardId> {
        match self.0 {
            0 => Some(ShardId(0)),
            number if number > SHARD_CHANNELS => Some(ShardId((number - SHARD_CHANNELS) as u16)),
            _ => None,
        }
    }
}

/// A stream connection. The side that opens it chooses the number, unique for the life of the node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnId(pub u32);

impl ConnId {
    /// Doors that a node can have: listeners of the caller.
    pub const DOORS: u8 = 8;
    /// Number of low bits that number a connection within its door; the door's number stands above
    /// them.
    pub const DOOR_SHIFT: u32 = 28;

    /// Which of the node's doors an accepted connection came through, in the order of the
    /// caller's listeners; 0 for the ids that a node chooses.
    pub const fn door(self) -> u8 {
        (self.0 >> ConnId::DOOR_SHIFT) as u8 & (ConnId::DOORS - 1)
    }
}

/// A range of the outbox's bytes, so that one payload can go to many peers without copying.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    start: u32,
    end: u32,
}

/// One thing the caller must do for the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Send one datagram.
    Datagram {
        /// Socket of the node to send from.
        channel: Channel,
        /// Peer that the datagram goes to.
        to: Peer,
        /// Contents of the datagram, stored in the outbox.
        bytes: Span,
    },
    /// Write to a stream, in order, after all earlier writes.
    Stream {
        /// The connection to write to.
        conn: ConnId,
        /// Bytes to append to the stream, stored in the outbox.
        bytes: Span,
    },
    /// Open a stream; answered by `handle_connect` or `handle_close`.
    Connect {
        /// Number that the node chose for the connection; not in use by another.
        conn: ConnId,
        /// Peer to connect to.
        to: Peer,
    },
    /// Write what is pending, then close; no `handle_close` follows.
    Close {
        /// Connection to close.
        conn: ConnId,
    },
    /// Have the caller's worker do what takes too long for a node; answered by `handle_work`, or
    /// never when there is no worker or it is behind.
    Work {
        /// Number that the node chose; [`Node::handle_work`] returns it with the answer.
        ticket: u64,
        /// Input of the work, stored in the outbox; its format is between node and worker.
        bytes: Span,
    },
}

/// Where on its way a message was seen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TracePoint {
    /// The publisher stamped datagram `id`: `at` = t_sent, `value` = deadline (0: none).
    Published,
    /// First copy of datagram `id` reached a receiver.
    Arrived,
    /// The receiver handed datagram `id` on; `value` = deadline (0: none).
    Released,
    /// As `Released`, but after its deadline because it came late itself.
    ReleasedLate,
    /// As `Released`, but after its deadline because an earlier one was missing (corner 13).
    ReleasedBlocked,
}

/// One observation for the telemetry collector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trace {
    /// Which step of the message's way was observed.
    pub point: TracePoint,
    /// Node that made the observation.
    pub node: NodeId,
    /// Name of the message, made by [`Trace::message`].
    pub id: u64,
    /// When it happened, on the observer's clock, ns.
    pub at: Nanos,
    /// Deadline of the datagram, ns, or another figure that [`TracePoint`] names; 0: none.
    pub value: u64,
}

/// Bits of [`Trace::id`] that are the overlay id; those above are the stream's number.
pub const TRACE_ID_BITS: u32 = 48;
/// Bits of a stream's number in [`Trace::id`] behind which the shard's stands, which is 0 where the
/// observer is of one shard.
pub const TRACE_SHARD_SHIFT: u32 = 8;

impl Trace {
    /// The name of a message in traces: its overlay id, and above it the stream it belongs to.
    pub fn message(stream: u16, id: u64) -> u64 {
        u64::from(stream) << TRACE_ID_BITS | (id & ((1 << TRACE_ID_BITS) - 1))
    }
}

/// Name of a datagram between nodes: the part of its header that all its copies share, sent in
/// clear.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DatagramName {
    /// Life of the node that sent it.
    pub epoch: u32,
    /// Number of the datagram in that life of its source.
    pub number: u64,
}

/// A copy of a datagram that was dropped in front of the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DroppedCopy {
    /// Name of the datagram, with only the lower half of its number.
    pub name: DatagramName,
    /// Node that the copy claims to come from; nothing has proved it.
    pub sender: NodeId,
    /// When the copy arrived, on the node's clock, ns.
    pub came: Nanos,
}

/// What a node wants done, in order. The caller clears and reuses it: no allocation once warm.
#[derive(Default, Debug)]
pub struct Outbox {
    bytes: Vec<u8>,
    ops: Vec<Op>,
    traces: Vec<Trace>,
    journal: Vec<u8>,
    confirmed: Vec<DatagramName>,
}

impl Outbox {
    /// Removes all operations, traces and bytes; keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ops.clear();
        self.traces.clear();
        self.journal.clear();
        self.confirmed.clear();
    }

    /// Whether nothing is queued: no operation, trace, record or confirmation.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
            && self.traces.is_empty()
            && self.journal.is_empty()
            && self.confirmed.is_empty()
    }

    /// Stores bytes to be named by later ops.
    pub fn store(&mut self, bytes: &[u8]) -> Span {
        self.write(|buffer| buffer.extend_from_slice(bytes))
    }

    /// Stores what `fill` appends, without an intermediate copy.
    pub fn write(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> Span {
        let start = self.bytes.len() as u32;
        fill(&mut self.bytes);
        Span { start, end: self.bytes.len() as u32 }
    }

    /// Queues stored bytes as a datagram.
    #[inline]
    pub fn datagram(&mut self, channel: Channel, to: Peer, bytes: Span) {
        self.ops.push(Op::Datagram { channel, to, bytes });
    }

    /// Queues stored bytes on a stream.
    pub fn stream(&mut self, conn: ConnId, bytes: Span) {
        self.ops.push(Op::Stream { conn, bytes });
    }

    /// Asks for a stream to be opened.
    pub fn connect(&mut self, conn: ConnId, to: Peer) {
        self.ops.push(Op::Connect { conn, to });
    }

    /// Asks for a stream to be closed after what is pending.
    pub fn close(&mut self, conn: ConnId) {
        self.ops.push(Op::Close { conn });
    }

    /// Asks for stored bytes to be worked on; `ticket` comes back with the answer.
    pub fn work(&mut self, ticket: u64, bytes: Span) {
        self.ops.push(Op::Work { ticket, bytes });
    }

    /// Records an observation for the telemetry collector.
    #[inline]
    pub fn trace(&mut self, trace: Trace) {
        self.traces.push(trace);
    }

    /// Asks for records to be made durable, after all earlier ones; answered, perhaps together
    /// with others, by [`Node::handle_durable`]. The node bounds how much is on its way.
    pub fn journal(&mut self, records: &[u8]) {
        self.journal.extend_from_slice(records);
    }

    /// Removes the records that were to be made durable, after the caller has taken them over.
    pub fn clear_journaled(&mut self) {
        self.journal.clear();
    }

    /// Records to be made durable, in order.
    #[inline]
    pub fn journaled(&self) -> &[u8] {
        &self.journal
    }

    /// Says that a datagram came and was opened: further copies of it may be dropped in front of the
    /// node ([`Node::expect_filter`]).
    #[inline]
    pub fn confirm(&mut self, name: DatagramName) {
        self.confirmed.push(name);
    }

    /// Names of the datagrams confirmed since the last [`Outbox::clear`], in order.
    #[inline]
    pub fn confirmed(&self) -> &[DatagramName] {
        &self.confirmed
    }

    /// The ops so far, in order.
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// The observations so far, in order.
    pub fn traces(&self) -> &[Trace] {
        &self.traces
    }

    /// The bytes of a span of this outbox (empty for a span of another).
    #[inline]
    pub fn bytes(&self, span: Span) -> &[u8] {
        self.bytes.get(span.start as usize..span.end as usize).unwrap_or(&[])
    }
}

/// A sans-I/O node; see the module's contract. Methods a node has no use for do nothing.
pub trait Node {
    /// A datagram came in on one of the node's sockets. `from` is the sender as the transport knows
    /// it: never proof of who it is. A node without datagrams need not have this.
    fn handle_datagram(
        &mut self,
        _now: ClockReading,
        _channel: Channel,
        _from: Peer,
        _bytes: &[u8],
        _out: &mut Outbox,
    ) {
    }

    /// The timer asked for is due (or the caller is early: then nothing is done).
    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox);

    /// When the node next wants [`Node::handle_timeout`], on its own clock; [`Nanos::NEVER`] for
    /// not at all. Cheap: asked after every call.
    fn next_timeout(&self) -> Nanos;

    /// A stream is open: accepted by the caller's listener, or asked for by [`Op::Connect`].
    fn handle_connect(&mut self, _now: ClockReading, _conn: ConnId, _out: &mut Outbox) {}

    /// As [`Node::handle_connect`], for an accepted stream of which the caller knows what was
    /// proved about its other end.
    fn handle_accept(
        &mut self,
        now: ClockReading,
        conn: ConnId,
        _remote: &Remote,
        out: &mut Outbox,
    ) {
        self.handle_connect(now, conn, out);
    }

    /// Bytes of a stream, any cut. All are taken.
    fn handle_stream(
        &mut self,
        _now: ClockReading,
        _conn: ConnId,
        _bytes: &[u8],
        _out: &mut Outbox,
    ) {
    }

    /// A stream was closed by the other side, or could not be opened.
    fn handle_close(&mut self, _now: ClockReading, _conn: ConnId, _out: &mut Outbox) {}

    /// The other side of a stream leaves most of what the caller buffers unread. Told once; what
    /// the node writes now still goes out in its place, and when the buffer is full the stream is
    /// closed.
    fn handle_unread(&mut self, _now: ClockReading, _conn: ConnId, _out: &mut Outbox) {}

    /// What the worker found out about the bytes of an [`Op::Work`].
    fn handle_work(&mut self, _now: ClockReading, _ticket: u64, _answer: &[u8], _out: &mut Outbox) {
    }

    /// Everything that the node gave to [`Outbox::journal`] is durable up to this position, in
    /// whatever the node counts there.
    fn handle_durable(&mut self, _now: ClockReading, _position: u64, _out: &mut Outbox) {}

    /// More datagrams for this node follow at once, before anything of what it writes is sent: what
    /// is better done once for all of them may wait for [`Node::handle_batch`], which is called when
    /// they are over. A caller need not say so.
    fn expect_more(&mut self) {}

    /// The datagrams announced by [`Node::expect_more`] are over.
    fn handle_batch(&mut self, _now: ClockReading, _out: &mut Outbox) {}

    /// From now on the caller drops copies of datagrams that the node confirms ([`Outbox::confirm`]) in
    /// front of it, and tells it of each by [`Node::handle_dropped`].
    fn expect_filter(&mut self) {}

    /// Copies that were dropped in front of the node since the last call.
    fn handle_dropped(&mut self, _now: ClockReading, _copies: &[DroppedCopy]) {}

    /// The bytes that the next call of [`Node::handle_stream`] hands over came to the machine at that time
    /// or before it, on the node's clock, and not later than that call's. Told where the caller knows it.
    fn expect_arrival(&mut self, _came: Nanos) {}

    /// Whether the node takes bytes of this stream now; when false the caller leaves them in its
    /// own bounded buffers (back-pressure) and asks again after the next call.
    fn wants_stream(&self, _conn: ConnId) -> bool {
        true
    }
}

/// Implements [`Node`] for a type whose calls all go to one of several nodes. `$each!(self, node => call)`
/// is the caller's macro that finds the node and makes the call.
#[macro_export]
macro_rules! forward_node {
    ($type:ty, $each:ident) => {
        impl $crate::Node for $type {
            fn handle_datagram(
                &mut self,
                now: $crate::ClockReading,
                channel: $crate::Channel,
                from: $crate::Peer,
                bytes: &[u8],
                out: &mut $crate::Outbox,
            ) {
                $each!(self, node => node.handle_datagram(now, channel, from, bytes, out));
            }

            fn handle_timeout(&mut self, now: $crate::ClockReading, out: &mut $crate::Outbox) {
                $each!(self, node => node.handle_timeout(now, out));
            }

            fn next_timeout(&self) -> $crate::Nanos {
                $each!(self, node => node.next_timeout())
            }

            fn handle_connect(
                &mut self,
                now: $crate::ClockReading,
                conn: $crate::ConnId,
                out: &mut $crate::Outbox,
            ) {
                $each!(self, node => node.handle_connect(now, conn, out));
            }

            fn handle_accept(
                &mut self,
                now: $crate::ClockReading,
                conn: $crate::ConnId,
                remote: &$crate::Remote,
                out: &mut $crate::Outbox,
            ) {
                $each!(self, node => node.handle_accept(now, conn, remote, out));
            }

            fn handle_work(
                &mut self,
                now: $crate::ClockReading,
                ticket: u64,
                answer: &[u8],
                out: &mut $crate::Outbox,
            ) {
                $each!(self, node => node.handle_work(now, ticket, answer, out));
            }

            fn handle_stream(
                &mut self,
                now: $crate::ClockReading,
                conn: $crate::ConnId,
                bytes: &[u8],
                out: &mut $crate::Outbox,
            ) {
                $each!(self, node => node.handle_stream(now, conn, bytes, out));
            }

            fn handle_close(
                &mut self,
                now: $crate::ClockReading,
                conn: $crate::ConnId,
                out: &mut $crate::Outbox,
            ) {
                $each!(self, node => node.handle_close(now, conn, out));
            }

            fn handle_unread(
                &mut self,
                now: $crate::ClockReading,
                conn: $crate::ConnId,
                out: &mut $crate::Outbox,
            ) {
                $each!(self, node => node.handle_unread(now, conn, out));
            }

            fn handle_durable(
                &mut self,
                now: $crate::ClockReading,
                position: u64,
                out: &mut $crate::Outbox,
            ) {
                $each!(self, node => node.handle_durable(now, position, out));
            }

            fn expect_more(&mut self) {
                $each!(self, node => node.expect_more());
            }

            fn handle_batch(&mut self, now: $crate::ClockReading, out: &mut $crate::Outbox) {
                $each!(self, node => node.handle_batch(now, out));
            }

            fn expect_filter(&mut self) {
                $each!(self, node => node.expect_filter());
            }

            fn handle_dropped(&mut self, now: $crate::ClockReading, copies: &[$crate::DroppedCopy]) {
                $each!(self, node => node.handle_dropped(now, copies));
            }

            fn expect_arrival(&mut self, came: $crate::Nanos) {
                $each!(self, node => node.expect_arrival(came));
            }

            fn wants_stream(&self, conn: $crate::ConnId) -> bool {
                $each!(self, node => node.wants_stream(conn))
            }
        }
    };
}
