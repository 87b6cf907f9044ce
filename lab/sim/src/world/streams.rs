//! The state of streams: two ends each, bytes in order, any segmentation. The world moves them.

use std::collections::BTreeMap;

use types::{ConnId, Nanos};

/// Bytes one direction may hold before the stream is cut: a reader that never reads.
pub(super) const STREAM_BYTES_MAX: usize = 16 << 20;

/// One end of a stream.
pub(super) struct End {
    pub(super) node: u32,
    pub(super) conn: ConnId,
    /// The node has been told that the stream is open.
    pub(super) open: bool,
    /// The node has closed, has been told of the end, or is dead.
    pub(super) gone: bool,
    /// The other side is gone and nothing more will arrive.
    pub(super) finished: bool,
    /// The earliest time anything more may arrive here.
    pub(super) last_at: Nanos,
    inbox: Vec<u8>,
    head: usize,
    arrived: usize,
}

struct Stream {
    life: u32,
    /// Cut: writes go nowhere.
    broken: bool,
    /// The door of the one that accepts.
    door: u8,
    ends: [End; 2],
}

/// All streams.
#[derive(Default)]
pub(super) struct Streams {
    slots: Vec<Stream>,
    free: Vec<u32>,
    by_name: BTreeMap<(u32, ConnId), (u32, u8)>,
}

impl End {
    fn new(node: u32, conn: ConnId) -> End {
        End {
            node,
            conn,
            open: false,
            gone: false,
            finished: false,
            last_at: Nanos(0),
            inbox: Vec::new(),
            head: 0,
            arrived: 0,
        }
    }

    /// Bytes written to this end and not yet taken.
    pub(super) fn waiting(&self) -> usize {
        self.inbox.len() - self.head
    }

    /// Bytes that have arrived and are not yet taken.
    pub(super) fn arrived(&self) -> usize {
        self.arrived
    }

    pub(super) fn arrive(&mut self, len: usize) {
        self.arrived = (self.arrived + len).min(self.waiting());
    }

    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.inbox.extend_from_slice(bytes);
    }

    /// Moves what has arrived into `into`.
    pub(super) fn take(&mut self, into: &mut Vec<u8>) {
        into.clear();
        into.extend_from_slice(&self.inbox[self.head..self.head + self.arrived]);
        self.head += self.arrived;
        self.arrived = 0;
        if self.head == self.inbox.len() {
            self.inbox.clear();
            self.head = 0;
        } else if self.head > 1 << 16 {
            self.inbox.drain(..self.head);
            self.head = 0;
        }
    }

    /// Loses what is still on its way.
    pub(super) fn lose_unarrived(&mut self) {
        self.inbox.truncate(self.head + self.arrived);
    }
}

impl Streams {
    /// A stream that `from` asks for at a door of `to`, which gets its name when it accepts.
    pub(super) fn create(&mut self, from: u32, conn: ConnId, (to, door): (u32, u8)) -> (u32, u32) {
        let ends = [End::new(from, conn), End::new(to, ConnId(0))];
        let slot = match self.free.pop() {
            Some(slot) => {
                let stream = &mut self.slots[slot as usize];
                *stream = Stream { life: stream.life + 1, broken: false, door, ends };
                slot
            }
            None => {
                self.slots.push(Stream { life: 0, broken: false, door, ends });
                (self.slots.len() - 1) as u32
            }
        };
        self.by_name.insert((from, conn), (slot, 0));
        (slot, self.slots[slot as usize].life)
    }

    /// Names the accepting end.
    pub(super) fn accept(&mut self, slot: u32, conn: ConnId) {
        let end = &mut self.slots[slot as usize].ends[1];
        end.conn = conn;
        end.open = true;
        let node = end.node;
        self.by_name.insert((node, conn), (slot, 1));
    }

    pub(super) fn find(&self, node: u32, conn: ConnId) -> Option<(u32, u8)> {
        self.by_name.get(&(node, conn)).copied()
    }

    pub(super) fn life(&self, slot: u32) -> u32 {
        self.slots[slot as usize].life
    }

    /// The end, unless the slot serves another stream by now or the end is gone.
    pub(super) fn end(&mut self, slot: u32, life: u32, side: u8) -> Option<&mut End> {
        let stream = self.slots.get_mut(slot as usize)?;
        let end = &mut stream.ends[usize::from(side)];
        (stream.life == life && !end.gone).then_some(end)
    }

    pub(super) fn door(&self, slot: u32) -> u8 {
        self.slots[slot as usize].door
    }

    pub(super) fn broken(&self, slot: u32) -> bool {
        self.slots[slot as usize].broken
    }

    /// Cuts: nothing more arrives at either end.
    pub(super) fn cut(&mut self, slot: u32) {
        let stream = &mut self.slots[slot as usize];
        stream.broken = true;
        stream.ends.iter_mut().for_each(End::lose_unarrived);
    }

    /// The end is done with; with both gone the slot is free.
    pub(super) fn leave(&mut self, slot: u32, side: u8) {
        let stream = &mut self.slots[slot as usize];
        let end = &mut stream.ends[usize::from(side)];
        if std::mem::replace(&mut end.gone, true) {
            return;
        }
        (end.inbox, end.head, end.arrived) = (Vec::new(), 0, 0);
        let key = (end.node, end.conn);
        if self.by_name.get(&key) == Some(&(slot, side)) {
            self.by_name.remove(&key);
        }
        if stream.ends.iter().all(|end| end.gone) {
            self.free.push(slot);
        }
    }

    /// The streams `node` has an end of, in the order of their names.
    pub(super) fn of_node(&self, node: u32) -> Vec<(u32, u8)> {
        let names = (node, ConnId(0))..=(node, ConnId(u32::MAX));
        self.by_name.range(names).map(|(_, &place)| place).collect()
    }

    /// The nodes at both ends.
    pub(super) fn nodes(&self, slot: u32) -> [u32; 2] {
        let [a, b] = &self.slots[slot as usize].ends;
        [a.node, b.node]
    }
}
