//! A clock agent as a loop hosts it, and the clock that it keeps.
//!
//! The agent runs on the process's free-running clock, which on trial may be wrong on purpose
//! ([`Wrong`]); its datagrams are sealed where it has keys. [`KeptClock`] is the corrected clock with
//! its bound, for every loop of the process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use clock::{Agent, AgentConfig};
use net::Timekeeper;
use overlay::{key_ring::KeyRing, sealed_pair::SealedPair};
use types::{Channel, ClockReading, Nanos, Node, NodeId, Op, Outbox, Peer};

/// Until there is a correction nobody knows anything, ns.
pub const UNKNOWN_NS: u64 = Nanos::SECOND;

/// A free-running clock that is wrong on purpose.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Wrong {
    /// When it was right but for the offset, in ns of the right clock.
    pub origin: u64,
    /// Ahead by so much then.
    pub offset_ns: i64,
    /// And by so much more in 10^9.
    pub drift_ppb: i64,
}

impl Wrong {
    /// What it reads.
    pub fn raw(&self, at: Nanos) -> Nanos {
        let passed = at.0.saturating_sub(self.origin) as i128;
        let gained = (passed * i128::from(self.drift_ppb)).div_euclid(1_000_000_000);
        Nanos(at.0.saturating_add_signed(self.offset_ns).saturating_add_signed(gained as i64))
    }

    /// When the clock reads so much, to the next microsecond or so.
    pub fn when(&self, raw: Nanos) -> Nanos {
        if raw == Nanos::NEVER {
            return raw;
        }
        let at = raw.0.saturating_add_signed(-self.offset_ns);
        let passed = at.saturating_sub(self.origin) as i128;
        let gained = passed * i128::from(self.drift_ppb) / (1_000_000_000 + self.drift_ppb) as i128;
        Nanos(at.saturating_add_signed(-gained as i64).saturating_add(1))
    }
}

/// On trial: a clock that is wrong and that nobody keeps, with the bound that it claims, ns.
#[derive(Debug)]
pub struct FreeClock {
    /// How wrong it is.
    pub wrong: Wrong,
    /// See there.
    pub bound_ns: u64,
}

impl Timekeeper for FreeClock {
    fn reading(&self, process: Nanos) -> ClockReading {
        ClockReading { now: self.wrong.raw(process), bound_ns: self.bound_ns }
    }
}

struct State {
    agent: Agent,
    guard: Option<SealedPair<KeyRing>>,
    clear: Outbox,
    body: Vec<u8>,
    /// No reading was or will be less.
    last: Nanos,
}

/// The clock of a process, kept right by an agent.
pub struct KeptClock {
    state: Mutex<State>,
    wrong: Wrong,
    /// On trial: how far the free-running clock has jumped since it was started, ns.
    jumped_ns: AtomicU64,
}

impl std::fmt::Debug for KeptClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeptClock")
    }
}

impl KeptClock {
    /// A clock kept by an agent of this configuration; `guard` seals its datagrams. It stays as
    /// long as the process does, because clocks are copied freely.
    pub fn start(
        config: AgentConfig,
        guard: Option<SealedPair<KeyRing>>,
        wrong: Wrong,
    ) -> &'static KeptClock {
        let (agent, clear, body) = (Agent::new(config), Outbox::default(), Vec::new());
        let state = Mutex::new(State { agent, guard, clear, body, last: Nanos(0) });
        let jumped_ns = AtomicU64::new(0);
        Box::leak(Box::new(KeptClock { state, wrong, jumped_ns }))
    }

    fn state<T>(&self, call: impl FnOnce(&mut State) -> T) -> T {
        call(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The agent.
    pub fn with<T>(&self, call: impl FnOnce(&mut Agent) -> T) -> T {
        self.state(|state| call(&mut state.agent))
    }

    /// Follows another reference from now on; see [`Agent::follow`].
    pub fn follow(&self, process: impl FnOnce() -> Nanos, reference: NodeId, epoch: u64) -> bool {
        self.state(|state| state.agent.follow(self.raw(process()), reference, epoch))
    }

    /// Datagrams that the guard refused so far.
    pub fn refused(&self) -> u64 {
        self.state(|state| state.guard.as_ref().map_or(0, SealedPair::refused))
    }

    /// Other keys from now on; probes are lost until the others have them, too. False, and nothing
    /// has changed, for a life that is lived already: its numbers would be used again.
    pub fn rekey(&self, guard: SealedPair<KeyRing>) -> bool {
        self.state(|state| {
            let known = state.guard.as_ref().is_some_and(|old| old.life() == guard.life());
            if !known {
                state.guard = Some(guard);
            }
            !known
        })
    }

    /// What the free-running clock reads.
    pub fn raw(&self, process: Nanos) -> Nanos {
        self.wrong.raw(process).after(self.jumped_ns.load(Ordering::Relaxed))
    }

    /// When it reads so much.
    fn when(&self, raw: Nanos) -> Nanos {
        match raw {
            Nanos::NEVER => raw,
            raw => {
                self.wrong.when(Nanos(raw.0 - self.jumped_ns.load(Ordering::Relaxed).min(raw.0)))
            }
        }
    }

    /// On trial: the free-running clock jumps ahead, as a machine's may that was moved.
    pub fn jump(&self, ns: u64) {
        self.jumped_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// The reading at a time of the process's clock, and that time: taken when it is our turn, so
    /// that no later reading is earlier.
    pub fn look(&self, process: impl FnOnce() -> Nanos) -> (Nanos, ClockReading) {
        self.state(|state| {
            let process = process();
            (process, self.told(state, process))
        })
    }

    fn told(&self, state: &mut State, process: Nanos) -> ClockReading {
        let raw = self.raw(process);
        let reading = state.agent.reading(raw);
        let reading = reading.unwrap_or(ClockReading { now: raw, bound_ns: UNKNOWN_NS });
        // The first correction may say that it is earlier than somebody has read: until that time comes the
        // reading stays, and is wrong by what it is ahead.
        state.last = state.last.max(reading.now);
        let ahead_ns = state.last.since(reading.now);
        ClockReading { now: state.last, bound_ns: reading.bound_ns.saturating_add(ahead_ns) }
    }

    fn call(
        &self,
        now: ClockReading,
        out: &mut Outbox,
        call: impl FnOnce(&mut State, ClockReading),
    ) {
        let raw = ClockReading { now: self.raw(now.now), ..now };
        self.state(|state| {
            state.clear.clear();
            call(state, raw);
            state.send(now.now, out);
        });
    }
}

impl State {
    /// Sends what the agent wants sent, and what the guard itself has to say.
    fn send(&mut self, now: Nanos, out: &mut Outbox) {
        self.greet(out);
        for op in self.clear.ops() {
            let Op::Datagram { channel, to, bytes } = *op else { continue };
            let clear = self.clear.bytes(bytes);
            let mut sealed = true;
            let span = out.write(|buffer| match (&mut self.guard, to) {
                (Some(guard), Peer::Node(to)) => sealed = guard.seal(now, to, clear, buffer),
                _ => buffer.extend_from_slice(clear),
            });
            if sealed {
                out.datagram(channel, to, span);
            }
        }
        self.greet(out);
    }

    fn greet(&mut self, out: &mut Outbox) {
        let Some(guard) = &mut self.guard else { return };
        guard.take_hellos(|to, bytes| {
            let span = out.store(bytes);
            out.datagram(Channel::OVERLAY, Peer::Node(to), span);
        });
    }
}

impl Timekeeper for KeptClock {
    fn reading(&self, process: Nanos) -> ClockReading {
        self.state(|state| self.told(state, process))
    }
}

/// The agent as its loop sees it, which runs on the process's clock.
#[derive(Clone, Copy)]
pub struct HostedAgent(pub &'static KeptClock);

impl Node for HostedAgent {
    fn handle_datagram(
        &mut self,
        now: ClockReading,
        channel: Channel,
        from: Peer,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        self.0.call(now, out, |state, raw| {
            let State { agent, guard, clear, body, .. } = state;
            let Some(guard) = guard else {
                agent.handle_datagram(raw, channel, from, bytes, clear);
                return;
            };
            if let Ok(Some((sender, bytes))) = guard.open(now.now, bytes) {
                body.clear();
                body.extend_from_slice(bytes);
                agent.handle_datagram(raw, channel, Peer::Node(sender), body, clear);
            }
        });
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        self.0.call(now, out, |state, raw| {
            if let Some(guard) = &mut state.guard {
                guard.handle_timeout(now.now);
            }
            state.agent.handle_timeout(raw, &mut state.clear);
        });
    }

    fn next_timeout(&self) -> Nanos {
        let (agent, guard) = self.0.state(|state| {
            let guard = state.guard.as_ref().map_or(Nanos::NEVER, SealedPair::next_timeout);
            (state.agent.next_timeout(), guard)
        });
        self.0.when(agent).min(guard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_life_is_lived_twice_and_no_reading_is_less_than_one_before() {
        use overlay::{aes_gcm::KeySource, lives::Life};
        let members = [types::NodeId(1), types::NodeId(2)];
        let config = AgentConfig::new(members[0], &members, members[1]);
        let kept = KeptClock::start(config, None, Wrong::default());
        let guard = |life: u64| {
            let ring = KeySource::new(&[7; 32]).mesh(members[0], &members);
            SealedPair::new(members[0], &members, Life::of(life), ring)
        };
        // A root that is connected with again hands out the keys that are in use.
        assert!(kept.rekey(guard(1)) && !kept.rekey(guard(1)) && kept.rekey(guard(2)));
        let late = kept.look(|| Nanos(2_000)).1;
        assert_eq!((late.now, late.bound_ns), (Nanos(2_000), UNKNOWN_NS));
        let stays = ClockReading { now: late.now, bound_ns: UNKNOWN_NS + 1_000 };
        assert_eq!(kept.look(|| Nanos(1_000)).1, stays, "ahead by 1,000 ns");
    }

    #[test]
    fn wrong_clocks_turn_their_readings_back_within_a_microsecond() {
        for (offset_ns, drift_ppb) in [(0, 0), (9_000_000, 50_000), (-9_000_000, -50_000)] {
            let wrong = Wrong { origin: 1_700_000_000 << 30, offset_ns, drift_ppb };
            for step in 0..1_000 {
                let at = Nanos(wrong.origin + step * 123_456_789);
                let back = wrong.when(wrong.raw(at));
                assert!(back >= at && back.0 < at.0 + 1_000, "{wrong:?} {}", back.0 - at.0);
                assert!(wrong.raw(back) >= wrong.raw(at));
            }
        }
        assert_eq!(Wrong::default().when(Nanos::NEVER), Nanos::NEVER);
    }
}
