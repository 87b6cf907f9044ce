//! A deterministic world for sans-I/O nodes: virtual time, clocks, links, streams and faults.
//!
//! One event queue orders everything by (time, scheduling order), one seeded generator draws
//! everything random (the weather of the links has one of its own): the same seed and the same calls give the same [`World::event_hash`]. Nodes
//! take no time of their own; a node may take time per datagram it sends ([`Place::egress_ns`]).
//! The contract of `types::Node` is kept: one call at a time, clocks never run backwards, a timer
//! never fires before the node's own clock shows it.
//!
//! Addresses: `Peer::Node(id)` is the node placed under that id, at its overlay socket;
//! `Peer::Addr` is what [`address`] gives for a node index and a channel. Datagrams to nobody and
//! to the dead vanish, counted.
//! Not modelled: bandwidth of links, fragmentation, operating system buffers of datagrams.

mod run;
mod streams;

use types::{
    Channel, ClockReading, ConnId, Digest, Nanos, Node, NodeId, Outbox, Peer, SplitMix64, Trace,
};

use crate::{
    clock::SimClock,
    link::{LinkModel, Links},
    queue::{Pool, Queue},
};
use streams::{STREAM_BYTES_MAX, Streams};

/// Where a node stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// Its overlay id, if it is a node of the exchange.
    pub overlay: Option<NodeId>,
    /// Its clock.
    pub clock: SimClock,
    /// Its group, which decides the class of its links.
    pub group: u8,
    /// Time it needs to send one datagram; the next one leaves after that.
    pub egress_ns: u64,
    /// Whether it accepts streams.
    pub listens: bool,
}

/// The address of one channel of the node with index `index`.
pub fn address(index: usize, channel: Channel) -> Peer {
    Peer::Addr((index as u64) << 8 | u64::from(channel.0))
}

/// One datagram as its sender hands it over.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'a> {
    /// True time.
    pub at: Nanos,
    /// Index of the sender.
    pub from: usize,
    /// Index of the addressee.
    pub to: usize,
    /// The addressee's socket.
    pub channel: Channel,
    /// What the sender's own clock reads.
    pub reading: Nanos,
    /// What is sent.
    pub bytes: &'a [u8],
}

/// Bytes a node writes to a stream.
#[derive(Clone, Copy, Debug)]
pub struct Written<'a> {
    /// True time.
    pub at: Nanos,
    /// Index of the writer.
    pub from: usize,
    /// Index of the reader.
    pub to: usize,
    /// The writer's name for the stream.
    pub conn: ConnId,
    /// What is written.
    pub bytes: &'a [u8],
}

/// What becomes of a datagram a [`Tap`] saw.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It takes its way.
    Pass,
    /// It is lost.
    Drop,
    /// Other bytes take its way.
    Rewrite(Vec<u8>),
}

/// Watches a running world, with true time at hand; may lose or forge datagrams.
pub trait Tap<N> {
    /// A node sends a datagram to a node that exists.
    fn datagram(&mut self, _sent: Sent<'_>) -> Verdict {
        Verdict::Pass
    }

    /// A node writes to a stream.
    fn stream(&mut self, _written: Written<'_>) {}

    /// A node reports something.
    fn trace(&mut self, _at: Nanos, _node: usize, _trace: &Trace) {}

    /// A fault strikes a node.
    fn struck(&mut self, _at: Nanos, _node: usize, _blow: Blow) {}

    /// A node has been called and what it wanted has been scheduled.
    fn after(&mut self, _at: Nanos, _node: usize, _state: &N) {}
}

/// What happens to a node by a [`Fault`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blow {
    /// It dies.
    Killed,
    /// A new one takes its place.
    Restarted,
    /// It stands still for a while.
    Paused,
    /// Its clock is stepped.
    ClockStepped,
}

/// Watches nothing.
pub struct NoTap;

impl<N> Tap<N> for NoTap {}

/// Something that goes wrong at a set time.
pub enum Fault<N> {
    /// The node dies; its streams are reset.
    Kill(usize),
    /// A node is built anew (given its clock's reading) and takes the place of the old one.
    Restart(usize, Box<dyn FnOnce(Nanos) -> N>),
    /// All streams of a node are cut; what was on its way is lost.
    CutStreams(usize),
    /// As `CutStreams`, but only the one that the number picks, modulo how many there are.
    CutStream(usize, u64),
    /// The models of all links change.
    ChangeLinks(fn(LinkModel) -> LinkModel),
    /// Bursts and queues of the weather end.
    ClearWeather,
    /// A node stands still for so many ns; what comes waits for it, datagrams too.
    Pause(usize, u64),
    /// A node's clock is from now on so many ns off.
    StepClock(usize, i64),
    /// A node reads no stream any more.
    StopReading(usize),
    /// Somebody tells a node something; what it wants sent is sent.
    Tell(usize, Box<Telling<N>>),
}

/// What is done to a node that is told something.
pub type Telling<N> = dyn FnOnce(&mut N, ClockReading, &mut Outbox);

/// What the world did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WorldStats {
    /// Events taken from the queue.
    pub events: u64,
    /// Timers that fired.
    pub timers: u64,
    /// Datagrams to addresses nobody has.
    pub unroutable: u64,
    /// Streams opened.
    pub streams_opened: u64,
    /// Streams refused.
    pub streams_refused: u64,
    /// Streams cut by a fault or because too much waited in them.
    pub streams_cut: u64,
    /// Datagrams that waited until their sender had sent others.
    pub egress_waits: u64,
    /// Nodes killed.
    pub kills: u64,
    /// Nodes built anew.
    pub restarts: u64,
    /// Pauses of nodes.
    pub pauses: u64,
    /// Steps of clocks.
    pub clock_steps: u64,
}

struct Slot<N> {
    node: Option<N>,
    place: Place,
    /// When its pending timer event is due; `NEVER` when there is none.
    armed: Nanos,
    /// Tells the pending timer event from those it has replaced.
    timer: u32,
    /// Timers in a row without any progress of time.
    spins: u32,
    egress_free: Nanos,
    /// Streams with bytes the node did not want yet.
    held: Vec<(u32, u32, u8)>,
    accepted: u32,
    /// It stands still until then.
    paused_until: Option<Nanos>,
    /// What came meanwhile.
    backlog: Vec<Event>,
    /// It reads no streams.
    deaf: bool,
}

#[derive(Clone, Copy)]
enum Event {
    Datagram {
        to: u32,
        payload: u32,
        channel: Channel,
        class: u8,
    },
    Timer {
        node: u32,
        timer: u32,
    },
    /// A connect reaches the listener.
    Syn {
        slot: u32,
        life: u32,
    },
    /// The answer reaches the side that connects.
    Open {
        slot: u32,
        life: u32,
    },
    Arrive {
        slot: u32,
        life: u32,
        len: u32,
        side: u8,
    },
    /// The other side is gone and all it wrote has arrived.
    Fin {
        slot: u32,
        life: u32,
        side: u8,
    },
    /// A node wants again what it left.
    Ready {
        slot: u32,
        life: u32,
        side: u8,
    },
    Fault {
        index: u32,
    },
    /// A pause may be over.
    Resume {
        node: u32,
    },
}

const _: () = assert!(size_of::<Event>() <= 16, "events are kept inline in the queue");

/// The world.
pub struct World<N> {
    now: Nanos,
    rng: SplitMix64,
    queue: Queue<Event>,
    pool: Pool,
    slots: Vec<Slot<N>>,
    overlay: Vec<u32>,
    links: Links,
    streams: Streams,
    faults: Vec<Option<Fault<N>>>,
    /// Nodes that stand still.
    paused: u32,
    stream_bytes_max: usize,
    outbox: Outbox,
    scratch: Vec<u8>,
    hash: Digest,
    stats: WorldStats,
}

impl<N: Node> World<N> {
    /// An empty world at true time `start` whose links all follow `model`.
    pub fn new(seed: u64, start: Nanos, model: LinkModel) -> World<N> {
        World {
            now: start,
            rng: SplitMix64::new(seed),
            queue: Queue::new(),
            pool: Pool::default(),
            slots: Vec::new(),
            overlay: Vec::new(),
            links: Links::new(model),
            streams: Streams::default(),
            faults: Vec::new(),
            paused: 0,
            stream_bytes_max: STREAM_BYTES_MAX,
            outbox: Outbox::default(),
            scratch: Vec::new(),
            hash: Digest::default(),
            stats: WorldStats::default(),
        }
    }

    /// Adds a node and gives its index: dense from 0. Its timer runs from now on.
    pub fn add(&mut self, node: N, place: Place) -> usize {
        let index = self.slots.len();
        if let Some(NodeId(id)) = place.overlay {
            let id = usize::from(id);
            if self.overlay.len() <= id {
                self.overlay.resize(id + 1, u32::MAX);
            }
            self.overlay[id] = index as u32;
        }
        self.slots.push(Slot {
            node: Some(node),
            place,
            armed: Nanos::NEVER,
            timer: 0,
            spins: 0,
            egress_free: Nanos(0),
            held: Vec::new(),
            accepted: 0,
            paused_until: None,
            backlog: Vec::new(),
            deaf: false,
        });
        self.arm(index);
        index
    }

    /// Time goes on by so many ns at once, with all clocks: what was due meanwhile comes late, at the time
    /// there is then. For nights in which nothing happens.
    pub fn skip(&mut self, ns: u64) {
        self.now = self.now.after(ns);
    }

    /// Schedules a fault.
    pub fn fault(&mut self, at: Nanos, fault: Fault<N>) {
        let index = self.faults.len() as u32;
        self.faults.push(Some(fault));
        self.queue.push(at.max(self.now), Event::Fault { index });
    }

    /// Streams in which more than `bytes` wait for a reader are cut.
    pub fn limit_streams(&mut self, bytes: usize) {
        self.stream_bytes_max = bytes;
    }

    /// True time.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// The links, to give them models and partitions.
    pub fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }

    /// The links and their figures.
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// The nodes in the order of their indexes, `None` for the dead.
    pub fn nodes(&self) -> impl Iterator<Item = Option<&N>> + '_ {
        self.slots.iter().map(|slot| slot.node.as_ref())
    }

    /// A living node.
    pub fn node(&self, index: usize) -> Option<&N> {
        self.slots.get(index)?.node.as_ref()
    }

    /// A living node, to be changed between runs; use [`World::poke`] when it may want to act.
    pub fn node_mut(&mut self, index: usize) -> Option<&mut N> {
        self.slots.get_mut(index)?.node.as_mut()
    }

    /// A node's clock.
    pub fn clock(&self, index: usize) -> Option<SimClock> {
        self.slots.get(index).map(|slot| slot.place.clock)
    }

    /// What has happened so far.
    pub fn stats(&self) -> WorldStats {
        self.stats
    }

    /// Digest of every event so far: what, when, at whom, how long.
    pub fn event_hash(&self) -> u64 {
        self.hash.0
    }

    /// Events waiting, and payloads held for them.
    pub fn pending(&self) -> (usize, usize) {
        (self.queue.len(), self.pool.in_use())
    }
}
