//! A node of the measured tree: publisher, proxy or receiver of the overlay, unchanged, behind the
//! link that seals its datagrams as a venue's are sealed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use overlay::{
    frame::HopHeader, key_ring::KeyRing, proxy::Proxy, publisher::Publisher, receiver::Receiver,
    sealed_link::SealedLink,
};
use types::{Channel, ClockReading, Nanos, Node, Op, Outbox, Peer};

/// Bytes of a message: an ITCH Add Order.
pub(super) const MESSAGE_LEN: usize = 36;
/// Messages that the source hands over in one call at most, as a step of an exchange's root may.
const BURST: u64 = 256;
/// How often a source that waits looks whether it may begin.
const POLL_NS: u64 = Nanos::MILLI;

/// What a measurement and its source tell each other.
#[derive(Default)]
pub(super) struct Progress {
    /// Set to 1 when the source may begin.
    pub(super) go: AtomicU64,
    /// When the first and the last message were published, by the loops' clock; 0: not yet.
    pub(super) began: AtomicU64,
    pub(super) ended: AtomicU64,
}

/// Publishes messages at a steady rate.
pub(super) struct Source {
    pub(super) publisher: Publisher,
    /// Messages a second, and how many in all.
    pub(super) rate: f64,
    pub(super) messages: u64,
    /// Each message leaves in a datagram of its own.
    pub(super) single: bool,
    pub(super) progress: Arc<Progress>,
    published: u64,
    now: Nanos,
}

impl Source {
    pub(super) fn new(
        publisher: Publisher,
        (rate, messages): (f64, u64),
        single: bool,
        progress: Arc<Progress>,
    ) -> Source {
        Source { publisher, rate, messages, single, progress, published: 0, now: Nanos(0) }
    }

    /// When message number `index` is due.
    fn due_at(&self, began: u64, index: u64) -> u64 {
        began + (index as f64 * 1e9 / self.rate) as u64
    }

    fn publish(&mut self, now: ClockReading, out: &mut Outbox) {
        self.now = now.now;
        if self.published >= self.messages || self.progress.go.load(Relaxed) == 0 {
            return;
        }
        if self.published == 0 {
            self.progress.began.store(now.now.0, Relaxed);
        }
        let began = self.progress.began.load(Relaxed);
        let mut left = BURST;
        while left > 0
            && self.published < self.messages
            && self.due_at(began, self.published) <= now.now.0
        {
            left -= 1;
            self.published += 1;
            // The publisher takes every message of this size until its session ends.
            let _ = self.publisher.push_message(now, &[b'A'; MESSAGE_LEN], out);
            if self.single {
                self.publisher.flush(now, out);
            }
        }
        self.publisher.flush(now, out);
        if self.published == self.messages {
            self.progress.ended.store(now.now.0, Relaxed);
        }
    }

    fn next_timeout(&self) -> Nanos {
        let next = match self.progress.began.load(Relaxed) {
            _ if self.published >= self.messages => Nanos::NEVER,
            0 => self.now.after(POLL_NS),
            began => Nanos(self.due_at(began, self.published)),
        };
        next.min(self.publisher.next_timeout())
    }
}

/// Which node it is.
pub(super) enum Kind {
    /// The root.
    Source(Box<Source>),
    /// A proxy.
    Proxy(Box<Proxy>),
    /// A receiver, and how long it is busy with each message it releases.
    Receiver(Box<Receiver>, Duration),
}

/// A node and its link.
pub(super) struct Station {
    pub(super) kind: Kind,
    link: Option<SealedLink<KeyRing>>,
    /// What the node wants sent, in clear.
    clear: Outbox,
    now: Nanos,
    /// Datagrams that it sent.
    pub(super) copies: u64,
}

impl Station {
    pub(super) fn new(kind: Kind, link: Option<SealedLink<KeyRing>>) -> Station {
        Station { kind, link, clear: Outbox::default(), now: Nanos(0), copies: 0 }
    }

    /// Messages that the receiver has released; of other nodes none.
    pub(super) fn released(&self) -> u64 {
        match &self.kind {
            Kind::Receiver(receiver, _) => receiver.watermark().0,
            _ => 0,
        }
    }

    /// Whether the tree has been heard.
    pub(super) fn hears(&self) -> bool {
        match &self.kind {
            Kind::Source(_) => true,
            Kind::Proxy(proxy) => proxy.stats().received > 0,
            Kind::Receiver(receiver, _) => receiver.stats().received > 0,
        }
    }

    /// Sends what the node wanted sent, sealed if there is a link, and is busy for as long as a slowed
    /// receiver takes with what it has released since `before`.
    fn finish(&mut self, now: Nanos, before: u64, out: &mut Outbox) {
        self.now = now;
        self.seal(out);
        if let Kind::Receiver(_, busy) = self.kind
            && busy > Duration::ZERO
        {
            let until = Instant::now() + busy * (self.released() - before) as u32;
            while Instant::now() < until {
                std::hint::spin_loop();
            }
        }
    }

    fn seal(&mut self, out: &mut Outbox) {
        let send = |to, bytes: &[u8], out: &mut Outbox| {
            let span = out.store(bytes);
            out.datagram(Channel::OVERLAY, Peer::Node(to), span);
        };
        if let Some(link) = &mut self.link {
            link.take_hellos(|to, bytes| send(to, bytes, out));
            link.take_held(self.now, |to, bytes| send(to, bytes, out));
        }
        let (mut last, mut stored) = (None, None);
        for op in self.clear.ops() {
            let Op::Datagram { channel: Channel::OVERLAY, to: Peer::Node(to), bytes } = *op else {
                continue;
            };
            let again = last == Some(bytes);
            last = Some(bytes);
            let clear = self.clear.bytes(bytes);
            let mut sent = true;
            let span = match (&mut self.link, stored) {
                (Some(link), _) => {
                    out.write(|buffer| sent = link.seal(self.now, to, (clear, again), buffer))
                }
                (None, Some(span)) if again => span,
                (None, _) => out.store(clear),
            };
            stored = Some(span);
            if sent {
                self.copies += 1;
                out.datagram(Channel::OVERLAY, Peer::Node(to), span);
            }
        }
    }
}

impl Node for Station {
    fn handle_datagram(
        &mut self,
        now: ClockReading,
        channel: Channel,
        from: Peer,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        // The link lends what it opened, so it is out of the way while the node has it.
        let mut link = self.link.take();
        let opened = match &mut link {
            Some(link) => link.open(now.now, bytes).ok().flatten(),
            None => Some(bytes),
        };
        let mut clear = std::mem::take(&mut self.clear);
        clear.clear();
        let before = self.released();
        if let Some(bytes) = opened {
            let header = HopHeader::read(bytes);
            match (&mut self.kind, header) {
                (Kind::Proxy(proxy), _) => {
                    proxy.handle_datagram(now, channel, from, bytes, &mut clear);
                }
                (Kind::Source(source), Ok((header, rest))) => {
                    source.publisher.handle_frame(now, &header, rest, &mut clear);
                }
                (Kind::Receiver(receiver, _), Ok((header, rest))) => {
                    receiver.handle_frame(now, &header, rest, &mut clear);
                }
                _ => {}
            }
        }
        (self.link, self.clear) = (link, clear);
        self.finish(now.now, before, out);
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        if let Some(link) = &mut self.link {
            link.handle_timeout(now.now);
        }
        let before = self.released();
        let clear = &mut self.clear;
        clear.clear();
        match &mut self.kind {
            Kind::Source(source) => {
                source.publisher.handle_timeout(now, clear);
                source.publish(now, clear);
            }
            Kind::Proxy(proxy) => proxy.handle_timeout(now, clear),
            Kind::Receiver(receiver, _) => receiver.handle_timeout(now, clear),
        }
        self.finish(now.now, before, out);
    }

    fn next_timeout(&self) -> Nanos {
        let node = match &self.kind {
            Kind::Source(source) => source.next_timeout(),
            Kind::Proxy(proxy) => proxy.next_timeout(),
            Kind::Receiver(receiver, _) => receiver.next_timeout(),
        };
        self.link.as_ref().map_or(node, |link| node.min(link.next_timeout()))
    }
}
