//! Running the world: taking events, calling nodes, carrying out what they want.

use types::{Channel, ClockReading, ConnId, Nanos, Node, NodeId, Op, Outbox, Peer, Span};

use super::{Blow, Event, Fault, Sent, Tap, Verdict, World, Written, address};

/// Timers a node may fire in a row without time moving on: more is a bug of the node.
const SPINS_MAX: u32 = 10_000;

/// First name of an accepted stream, as the socket driver gives them.
const ACCEPTED_FIRST: u32 = 1 << 31;
/// Streams to this channel of an address come through a node's first door, to the next ones through
/// its further ones; to all others through the first.
const DOOR_FIRST: u8 = 2;

impl<N: Node> World<N> {
    /// Runs until true time `until`, which is then the time.
    ///
    /// # Panics
    /// When a node fires its timer for ever without time moving on.
    pub fn run_until(&mut self, until: Nanos, tap: &mut impl Tap<N>) {
        while let Some((at, event)) = self.queue.pop_until(until) {
            // After a skip what was due before comes late.
            self.now = self.now.max(at);
            self.stats.events += 1;
            self.handle(event, tap);
        }
        self.now = self.now.max(until);
    }

    /// Runs in steps of `step_ns` until `done` holds between two of them, no further than `limit`;
    /// says whether it came to hold.
    pub fn run_until_idle(
        &mut self,
        limit: Nanos,
        step_ns: u64,
        tap: &mut impl Tap<N>,
        mut done: impl FnMut(&World<N>) -> bool,
    ) -> bool {
        while !done(self) {
            if self.now >= limit {
                return false;
            }
            self.run_until(self.now.after(step_ns.max(1)).min(limit), tap);
        }
        true
    }

    /// Calls a living node from outside, with its clock's reading, and carries out what it wants.
    pub fn poke(
        &mut self,
        index: usize,
        tap: &mut impl Tap<N>,
        call: impl FnOnce(&mut N, ClockReading, &mut Outbox),
    ) {
        self.call(index, tap, call);
    }

    fn handle(&mut self, event: Event, tap: &mut impl Tap<N>) {
        if self.paused > 0
            && let Some(node) = self.target(event)
            && self.slots[node].paused_until.is_some()
        {
            self.slots[node].backlog.push(event);
            return;
        }
        match event {
            Event::Datagram { to, payload, channel, class } => {
                self.fold(1, u64::from(to) << 16 | self.pool.bytes(payload).len() as u64);
                self.datagram(to as usize, payload, channel, class, tap);
            }
            Event::Timer { node, timer } => self.timer(node as usize, timer, tap),
            Event::Syn { slot, life } => self.syn(slot, life, tap),
            Event::Open { slot, life } => {
                self.fold(4, u64::from(slot));
                let Some(end) = self.streams.end(slot, life, 0) else { return };
                end.open = true;
                let (node, conn) = (end.node as usize, end.conn);
                self.call(node, tap, |node, now, out| node.handle_connect(now, conn, out));
            }
            Event::Arrive { slot, life, len, side } => {
                self.fold(5, u64::from(slot) << 32 | u64::from(len));
                let lump = self.rng.next_u64() & 7 == 0;
                let Some(end) = self.streams.end(slot, life, side) else { return };
                end.arrive(len as usize);
                // Now and then bytes wait for what follows them, as in a socket's buffer.
                if !(lump && end.waiting() > end.arrived()) {
                    self.deliver(slot, life, side, tap);
                }
            }
            Event::Fin { slot, life, side } => {
                self.fold(6, u64::from(slot));
                let Some(end) = self.streams.end(slot, life, side) else { return };
                end.finished = true;
                self.deliver(slot, life, side, tap);
            }
            Event::Ready { slot, life, side } => self.deliver(slot, life, side, tap),
            Event::Fault { index } => {
                if let Some(fault) = self.faults[index as usize].take() {
                    self.strike(fault, tap);
                }
                // None is due any more: their places are used again.
                if self.faults.iter().all(Option::is_none) {
                    self.faults.clear();
                }
            }
            Event::Resume { node } => self.resume(node as usize, tap),
        }
    }

    /// Who an event is for.
    fn target(&mut self, event: Event) -> Option<usize> {
        let node = match event {
            Event::Datagram { to, .. } => to,
            Event::Timer { node, .. } => node,
            Event::Syn { slot, .. } => self.streams.nodes(slot)[1],
            Event::Open { slot, .. } => self.streams.nodes(slot)[0],
            Event::Arrive { slot, life, side, .. }
            | Event::Fin { slot, life, side }
            | Event::Ready { slot, life, side } => self.streams.end(slot, life, side)?.node,
            Event::Fault { .. } | Event::Resume { .. } => return None,
        };
        Some(node as usize)
    }

    /// Ends a pause, if it is over: what came meanwhile comes now.
    fn resume(&mut self, index: usize, tap: &mut impl Tap<N>) {
        let slot = &mut self.slots[index];
        if slot.paused_until.is_none_or(|until| until > self.now) {
            return;
        }
        slot.paused_until = None;
        self.paused -= 1;
        for event in std::mem::take(&mut slot.backlog) {
            self.handle(event, tap);
        }
    }

    fn fold(&mut self, kind: u64, what: u64) {
        self.hash.fold(self.now.0);
        self.hash.fold(kind << 60 ^ what);
    }

    fn datagram(
        &mut self,
        to: usize,
        payload: u32,
        channel: Channel,
        class: u8,
        tap: &mut impl Tap<N>,
    ) {
        let slot = &mut self.slots[to];
        let stats = self.links.stats_mut(class);
        if let Some(node) = slot.node.as_mut() {
            stats.delivered += 1;
            let now = slot.place.clock.read(self.now);
            let (bytes, sender) = (self.pool.bytes(payload), self.pool.sender(payload));
            node.handle_datagram(now, channel, sender, bytes, &mut self.outbox);
            self.pool.release(payload);
            self.settle(to, tap);
        } else {
            stats.to_dead += 1;
            self.pool.release(payload);
        }
    }

    fn timer(&mut self, index: usize, timer: u32, tap: &mut impl Tap<N>) {
        let slot = &mut self.slots[index];
        if slot.timer != timer || slot.armed == Nanos::NEVER {
            return;
        }
        slot.armed = Nanos::NEVER;
        let Some(node) = slot.node.as_mut() else { return };
        // The node may have put the timer off since: then it is only armed again.
        if slot.place.clock.true_time(node.next_timeout()) > self.now {
            return self.arm(index);
        }
        slot.spins += 1;
        assert!(slot.spins < SPINS_MAX, "node {index} fires its timer for ever at {}", self.now.0);
        self.stats.timers += 1;
        self.fold(2, index as u64);
        self.call(index, tap, |node, now, out| node.handle_timeout(now, out));
    }

    fn call(
        &mut self,
        index: usize,
        tap: &mut impl Tap<N>,
        call: impl FnOnce(&mut N, ClockReading, &mut Outbox),
    ) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        let Some(node) = slot.node.as_mut() else { return };
        call(node, slot.place.clock.read(self.now), &mut self.outbox);
        self.settle(index, tap);
    }

    /// After a call: carries out what the node wants, then asks for its timer and its streams.
    fn settle(&mut self, index: usize, tap: &mut impl Tap<N>) {
        if !self.outbox.is_empty() {
            let mut outbox = std::mem::take(&mut self.outbox);
            for trace in outbox.traces() {
                tap.trace(self.now, index, trace);
            }
            self.carry_out(index, &outbox, tap);
            outbox.clear();
            self.outbox = outbox;
        }
        self.arm(index);
        if !self.slots[index].held.is_empty() {
            self.ask_held(index);
        }
        if let Some(node) = &self.slots[index].node {
            tap.after(self.now, index, node);
        }
    }

    /// Keeps one timer event no later than the node's next timeout.
    pub(super) fn arm(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let Some(node) = &slot.node else { return };
        let wanted = node.next_timeout();
        if wanted == Nanos::NEVER {
            return;
        }
        let due = slot.place.clock.true_time(wanted).max(self.now);
        if due > self.now {
            slot.spins = 0;
        }
        if due < slot.armed {
            slot.armed = due;
            slot.timer = slot.timer.wrapping_add(1);
            self.queue.push(due, Event::Timer { node: index as u32, timer: slot.timer });
        }
    }

    fn carry_out(&mut self, index: usize, outbox: &Outbox, tap: &mut impl Tap<N>) {
        // One payload serves all copies of a fan-out: consecutive datagrams of the same span.
        let mut last: Option<(Span, Channel, u32)> = None;
        for op in outbox.ops() {
            match *op {
                Op::Datagram { channel, to, bytes: span } => {
                    let bytes = outbox.bytes(span);
                    let payload = match last {
                        Some((s, c, payload)) if (s, c) == (span, channel) => payload,
                        _ => {
                            self.release(last);
                            self.pool.store(bytes, self.name(index, channel))
                        }
                    };
                    last = Some((span, channel, payload));
                    self.send(index, to, payload, bytes, tap);
                }
                Op::Stream { conn, bytes } => self.write(index, conn, outbox.bytes(bytes), tap),
                Op::Connect { conn, to } => self.connect(index, conn, to),
                Op::Close { conn } => self.close(index, conn),
                // Nothing here takes a node too long.
                Op::Work { .. } => {}
            }
        }
        self.release(last);
    }

    fn release(&mut self, last: Option<(Span, Channel, u32)>) {
        if let Some((_, _, payload)) = last {
            self.pool.release(payload);
        }
    }

    /// How others see the sender of a datagram.
    fn name(&self, index: usize, channel: Channel) -> Peer {
        match self.slots[index].place.overlay {
            Some(id) if channel == Channel::OVERLAY => Peer::Node(id),
            _ => address(index, channel),
        }
    }

    fn route(&self, to: Peer) -> Option<(usize, Channel)> {
        match to {
            Peer::Node(NodeId(id)) => {
                let index = *self.overlay.get(usize::from(id))?;
                (index != u32::MAX).then_some((index as usize, Channel::OVERLAY))
            }
            Peer::Addr(address) => {
                let index = usize::try_from(address >> 8).ok()?;
                (index < self.slots.len()).then_some((index, Channel(address as u8)))
            }
            Peer::V6 { .. } => None,
        }
    }

    fn class(&self, from: usize, to: usize) -> u8 {
        let group = |index: usize| self.slots[index].place.group;
        self.links.class_of((from as u32, group(from)), (to as u32, group(to)))
    }

    fn send(&mut self, from: usize, peer: Peer, payload: u32, bytes: &[u8], tap: &mut impl Tap<N>) {
        let slot = &mut self.slots[from];
        self.stats.egress_waits += u64::from(slot.egress_free > self.now);
        let leaves = self.now.max(slot.egress_free).after(slot.place.egress_ns);
        slot.egress_free = leaves;
        let reading = slot.place.clock.read(self.now).now;
        let Some((to, channel)) = self.route(peer) else {
            self.stats.unroutable += 1;
            return;
        };
        let class = self.class(from, to);
        let stats = self.links.stats_mut(class);
        stats.sent += 1;
        stats.bytes += bytes.len() as u64;
        let verdict = tap.datagram(Sent { at: self.now, from, to, channel, reading, bytes });
        let (sender, from, to) = (self.pool.sender(payload), from as u32, to as u32);
        if verdict == Verdict::Drop || self.links.blocked_until(from, to, self.now).is_some() {
            self.links.stats_mut(class).blocked += 1;
            return;
        }
        let fate = self.links.fate(class, &mut self.rng);
        let payload = match verdict {
            Verdict::Rewrite(other) => self.pool.store(&other, sender),
            _ => {
                self.pool.retain(payload);
                payload
            }
        };
        for delay in [fate.first, fate.second].into_iter().flatten() {
            let Some(delay) = self.links.in_weather((from, to), leaves, delay, false) else {
                self.links.stats_mut(class).dropped += 1;
                continue;
            };
            self.pool.retain(payload);
            let event = Event::Datagram { to, payload, channel, class };
            self.queue.push(leaves.after(delay), event);
        }
        self.pool.release(payload);
    }

    /// When something sent on a stream now arrives, not counting what is before it.
    fn stream_arrival(&mut self, from: usize, to: usize) -> Nanos {
        let class = self.class(from, to);
        let blocked = self.links.blocked_until(from as u32, to as u32, self.now);
        let leaves = blocked.unwrap_or(self.now);
        let delay = self.links.stream_delay(class, &mut self.rng);
        let delay = self.links.in_weather((from as u32, to as u32), leaves, delay, true);
        leaves.after(delay.unwrap_or(0))
    }

    fn connect(&mut self, index: usize, conn: ConnId, to: Peer) {
        // A connect to nobody is answered like one to somebody who does not listen.
        let (target, channel) = self.route(to).unwrap_or((index, Channel(DOOR_FIRST)));
        let door = channel.0.checked_sub(DOOR_FIRST).filter(|door| *door < ConnId::DOORS);
        let refused = self.route(to).is_none() || !self.slots[target].place.listens;
        let (slot, life) =
            self.streams.create(index as u32, conn, (target as u32, door.unwrap_or(0)));
        let at = self.stream_arrival(index, target);
        if refused {
            self.stats.streams_refused += 1;
            self.streams.leave(slot, 1);
            self.queue.push(at, Event::Fin { slot, life, side: 0 });
            return;
        }
        if let Some(end) = self.streams.end(slot, life, 1) {
            end.last_at = at;
        }
        self.queue.push(at, Event::Syn { slot, life });
    }

    fn syn(&mut self, slot: u32, life: u32, tap: &mut impl Tap<N>) {
        self.fold(3, u64::from(slot));
        if self.streams.life(slot) != life {
            return;
        }
        let [from, to] = self.streams.nodes(slot).map(|node| node as usize);
        let at = self.stream_arrival(to, from);
        if self.slots[to].node.is_none() || self.streams.broken(slot) {
            self.stats.streams_refused += 1;
            self.streams.leave(slot, 1);
            self.queue.push(at, Event::Fin { slot, life, side: 0 });
            return;
        }
        self.stats.streams_opened += 1;
        let door = u32::from(self.streams.door(slot)) << ConnId::DOOR_SHIFT;
        let conn = ConnId(ACCEPTED_FIRST | door | self.slots[to].accepted);
        self.slots[to].accepted += 1;
        self.streams.accept(slot, conn);
        if let Some(end) = self.streams.end(slot, life, 0) {
            end.last_at = at;
            self.queue.push(at, Event::Open { slot, life });
        }
        self.call(to, tap, |node, now, out| node.handle_connect(now, conn, out));
    }

    fn write(&mut self, index: usize, conn: ConnId, bytes: &[u8], tap: &mut impl Tap<N>) {
        let Some((slot, side)) = self.streams.find(index as u32, conn) else { return };
        let (life, other) = (self.streams.life(slot), 1 - side);
        let to = self.streams.nodes(slot)[usize::from(other)] as usize;
        tap.stream(Written { at: self.now, from: index, to, conn, bytes });
        if self.streams.broken(slot) || bytes.is_empty() {
            return;
        }
        let mut rest = bytes.len();
        while rest > 0 {
            let draw = self.rng.next_u64();
            let whole = draw & 3 != 0;
            let len = if whole { rest } else { 1 + (draw >> 32) as usize % rest };
            rest -= len;
            let arrival = self.stream_arrival(index, to);
            let Some(end) = self.streams.end(slot, life, other) else { return };
            if rest + len == bytes.len() {
                end.write(bytes);
            }
            end.last_at = end.last_at.max(arrival);
            let arrive = Event::Arrive { slot, life, len: len as u32, side: other };
            self.queue.push(end.last_at, arrive);
        }
        let most = self.stream_bytes_max;
        let full = |end: &mut super::streams::End| end.waiting() > most;
        if self.streams.end(slot, life, other).is_some_and(full) {
            self.cut(slot);
        }
    }

    /// The node closes, or died: the other side hears of it after all that was written.
    fn close(&mut self, index: usize, conn: ConnId) {
        let Some((slot, side)) = self.streams.find(index as u32, conn) else { return };
        let (life, other) = (self.streams.life(slot), 1 - side);
        let to = self.streams.nodes(slot)[usize::from(other)] as usize;
        let arrival = self.stream_arrival(index, to);
        if let Some(end) = self.streams.end(slot, life, other) {
            let at = end.last_at.max(arrival);
            self.queue.push(at, Event::Fin { slot, life, side: other });
        }
        self.streams.leave(slot, side);
    }

    fn cut(&mut self, slot: u32) {
        self.stats.streams_cut += 1;
        self.streams.cut(slot);
        let (life, [a, b]) = (self.streams.life(slot), self.streams.nodes(slot));
        for (side, from, to) in [(0, b, a), (1, a, b)] {
            let at = self.stream_arrival(from as usize, to as usize);
            self.queue.push(at, Event::Fin { slot, life, side });
        }
    }

    /// Gives an end what has arrived, if it wants it, and the end of the stream when all is taken.
    fn deliver(&mut self, slot: u32, life: u32, side: u8, tap: &mut impl Tap<N>) {
        let Some(end) = self.streams.end(slot, life, side) else { return };
        let (index, conn) = (end.node as usize, end.conn);
        if end.open && end.arrived() > 0 {
            let place = &mut self.slots[index];
            if place.deaf {
                return;
            }
            if place.node.as_ref().is_some_and(|node| !node.wants_stream(conn)) {
                if !place.held.contains(&(slot, life, side)) {
                    place.held.push((slot, life, side));
                }
                return;
            }
            let mut bytes = std::mem::take(&mut self.scratch);
            end.take(&mut bytes);
            self.call(index, tap, |node, now, out| node.handle_stream(now, conn, &bytes, out));
            self.scratch = bytes;
        }
        let Some(end) = self.streams.end(slot, life, side) else { return };
        if end.finished && end.arrived() == 0 {
            // An end that was never accepted has nobody to tell.
            let known = side == 0 || end.open;
            self.streams.leave(slot, side);
            if known {
                self.call(index, tap, |node, now, out| node.handle_close(now, conn, out));
            }
        }
    }

    /// Schedules the streams a node had left and wants again.
    fn ask_held(&mut self, index: usize) {
        let place = &mut self.slots[index];
        let Some(node) = &place.node else { return };
        let (streams, queue, now) = (&mut self.streams, &mut self.queue, self.now);
        place.held.retain(|&(slot, life, side)| {
            let Some(end) = streams.end(slot, life, side) else { return false };
            let wants = node.wants_stream(end.conn);
            if wants {
                queue.push(now, Event::Ready { slot, life, side });
            }
            !wants
        });
    }

    fn strike(&mut self, fault: Fault<N>, tap: &mut impl Tap<N>) {
        match fault {
            Fault::Kill(index) => self.kill(index, tap),
            Fault::Restart(index, build) => {
                self.kill(index, tap);
                let Some(slot) = self.slots.get_mut(index) else { return };
                slot.node = Some(build(slot.place.clock.read(self.now).now));
                self.stats.restarts += 1;
                tap.struck(self.now, index, Blow::Restarted);
                self.arm(index);
            }
            Fault::CutStreams(index) => {
                for (slot, _) in self.streams.of_node(index as u32) {
                    self.cut(slot);
                }
            }
            Fault::CutStream(index, pick) => {
                let streams = self.streams.of_node(index as u32);
                if let Some(&(slot, _)) = streams.get(pick as usize % streams.len().max(1)) {
                    self.cut(slot);
                }
            }
            Fault::ChangeLinks(change) => self.links.change_models(change),
            Fault::ClearWeather => self.links.clear_weather(),
            Fault::Pause(index, ns) => self.pause(index, ns, tap),
            Fault::StepClock(index, offset_ns) => {
                let Some(slot) = self.slots.get_mut(index) else { return };
                slot.place.clock = slot.place.clock.stepped(self.now, offset_ns);
                self.stats.clock_steps += 1;
                tap.struck(self.now, index, Blow::ClockStepped);
                // A timer may be due earlier now.
                self.arm(index);
            }
            Fault::Tell(index, tell) => self.call(index, tap, tell),
            Fault::StopReading(index) => {
                if let Some(slot) = self.slots.get_mut(index) {
                    slot.deaf = true;
                }
            }
        }
    }

    fn pause(&mut self, index: usize, ns: u64, tap: &mut impl Tap<N>) {
        let Some(slot) = self.slots.get_mut(index).filter(|slot| slot.node.is_some()) else {
            return;
        };
        self.paused += u32::from(slot.paused_until.is_none());
        let until = self.now.after(ns.max(1)).max(slot.paused_until.unwrap_or(Nanos(0)));
        slot.paused_until = Some(until);
        self.stats.pauses += 1;
        tap.struck(self.now, index, Blow::Paused);
        self.queue.push(until, Event::Resume { node: index as u32 });
    }

    fn kill(&mut self, index: usize, tap: &mut impl Tap<N>) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        if slot.node.take().is_some() {
            self.stats.kills += 1;
            tap.struck(self.now, index, Blow::Killed);
        }
        slot.armed = Nanos::NEVER;
        slot.held.clear();
        for (stream, side) in self.streams.of_node(index as u32) {
            let life = self.streams.life(stream);
            let name = self.streams.end(stream, life, side).map(|end| end.conn);
            if let Some(conn) = name {
                self.close(index, conn);
            }
        }
        if let Some(until) = &mut self.slots[index].paused_until {
            // Nobody is left to take what waited.
            *until = self.now;
            self.resume(index, tap);
        }
    }
}
