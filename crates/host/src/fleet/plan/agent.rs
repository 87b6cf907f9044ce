//! The probing agent of a machine: sends probes on time, times those of others, and tells once.
//!
//! It does only what an order says, and an order comes from the replica that leads, inside TLS. A
//! probe is [`probe::packet::Probe`], 34 bytes, under a key of its job and of its two machines alone:
//! no third machine can send it, and a copy of one that came already is passed over. Probes have a
//! UDP port of their own, and both ends take times from the clock that the machine's nodes read.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use net::{Clock, Directory, Loop, LoopConfig, LoopHandle, WaitStrategy};
use probe::Key;
use probe::packet::{LENGTH, Probe};
use types::{Channel, ClockReading, Nanos, Node, NodeId, Outbox, Peer};

use super::{PROBES_MAX, ProbeOrder, Probed};
use crate::failure::Failure;
use crate::fleet::credentials::bytes_of;
use crate::fleet::file::{ClusterFile, NODES_MAX, NodeEntry, Port};
use crate::fleet::node::bind;
use crate::sockets::io;

/// The agent for its loop.
const AGENT: NodeId = NodeId(1);
/// Machines that one message tells of at most.
const TOLD_MAX: usize = 16;
/// Longest job.
const LENGTH_MAX_MS: u64 = 600_000;
/// Between two looks at what there is to tell.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Nice value of the agent's thread, as of the clock's: a probe that waits for a core is taken for a slow
/// way.
const NICE: i32 = -15;
/// Where the number of the sender stands in a probe.
const SENDER: std::ops::Range<usize> = 12..14;

/// A machine that probes are expected from.
struct Expected {
    key: Key,
    delays: Vec<Option<i64>>,
}

/// What is being measured.
struct Job {
    number: u64,
    probes: u32,
    gap_ns: u64,
    to: Vec<(Peer, Key)>,
    from: BTreeMap<u16, Expected>,
    /// Probes sent so far, to all.
    sent: u64,
    due: Nanos,
    end: Nanos,
    bound_ns: u64,
}

impl Job {
    fn is_sent(&self) -> bool {
        self.sent >= self.to.len() as u64 * u64::from(self.probes)
    }
}

/// The agent.
pub struct ProbeAgent {
    /// The machine's number in the file.
    number: u16,
    job: Option<Job>,
    told: Vec<Probed>,
    /// Datagrams that were no probe of the job.
    strange: u64,
}

impl ProbeAgent {
    /// The agent of a machine.
    pub fn new(number: u16) -> ProbeAgent {
        ProbeAgent { number, job: None, told: Vec::new(), strange: 0 }
    }

    /// Datagrams so far that were no probe of a job.
    pub fn strange(&self) -> u64 {
        self.strange
    }

    /// Begins a job; one that is under way is given up. `peers`: where the machines of `order.to` are;
    /// `gap_min_ns`: between two probes at least, whatever the order says. False, and nothing is
    /// done, for an order that can't be.
    pub fn begin(
        &mut self,
        now: ClockReading,
        order: &ProbeOrder,
        peers: &[(u16, Peer)],
        gap_min_ns: u64,
    ) -> bool {
        let sound = (1..=PROBES_MAX).contains(&order.probes)
            && order.to.len() <= NODES_MAX
            && order.from.len() <= NODES_MAX
            && order.length_ms <= LENGTH_MAX_MS
            && order.after_us <= order.length_ms.saturating_mul(1_000);
        if !sound {
            return false;
        }
        let key = |digits: &str| bytes_of(digits).and_then(|bytes| Key::new(&bytes).ok());
        let mut to = Vec::new();
        for (number, digits) in &order.to {
            let peer = peers.iter().find(|(of, _)| of == number).map(|(_, peer)| *peer);
            // Whoever has no address is not heard of.
            let Some(key) = key(digits) else { return false };
            to.extend(peer.map(|peer| (peer, key)));
        }
        let mut from = BTreeMap::new();
        for (number, digits) in &order.from {
            let Some(key) = key(digits) else { return false };
            from.insert(*number, Expected { key, delays: vec![None; order.probes as usize] });
        }
        self.told.clear();
        self.job = Some(Job {
            number: order.job,
            probes: order.probes,
            gap_ns: order.gap_us.saturating_mul(Nanos::MICRO).max(gap_min_ns).max(1),
            to,
            from,
            sent: 0,
            due: now.now.after(order.after_us * Nanos::MICRO),
            end: now.now.after(order.length_ms * Nanos::MILLI),
            bound_ns: now.bound_ns,
        });
        true
    }

    /// The next message that there is to tell.
    pub fn tell(&mut self) -> Option<Probed> {
        if self.told.is_empty() { None } else { Some(self.told.remove(0)) }
    }

    fn end(&mut self) {
        let Some(job) = self.job.take() else { return };
        let sent = job.sent.checked_div(job.to.len() as u64).unwrap_or(0);
        let base = Probed {
            job: job.number,
            bound_ns: job.bound_ns,
            sent: sent as u32,
            ..Probed::default()
        };
        let heard: Vec<_> = job.from.into_iter().map(|(from, of)| (from, of.delays)).collect();
        let chunks = heard.chunks(TOLD_MAX);
        self.told = chunks.map(|some| Probed { heard: some.to_vec(), ..base.clone() }).collect();
        if self.told.is_empty() {
            self.told.push(base);
        }
        if let Some(last) = self.told.last_mut() {
            last.over = true;
        }
    }
}

impl Node for ProbeAgent {
    fn handle_datagram(
        &mut self,
        now: ClockReading,
        _channel: Channel,
        _from: Peer,
        bytes: &[u8],
        _out: &mut Outbox,
    ) {
        let sender = bytes.get(SENDER).and_then(|two| two.try_into().ok()).map(u16::from_be_bytes);
        let Some(job) = &mut self.job else {
            self.strange += 1;
            return;
        };
        let expected = sender.and_then(|sender| job.from.get_mut(&sender));
        let probe = expected.and_then(|of| Some((Probe::decode(bytes, &of.key)?, of)));
        let Some((probe, of)) = probe.filter(|(probe, _)| probe.job == job.number) else {
            self.strange += 1;
            return;
        };
        job.bound_ns = job.bound_ns.max(now.bound_ns);
        let delay = i128::from(now.now.0) - i128::from(probe.sent_ns);
        let Ok(delay) = i64::try_from(delay) else { return };
        if let Some(slot @ None) = of.delays.get_mut(probe.number as usize) {
            *slot = Some(delay);
        }
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        let Some(job) = &mut self.job else { return };
        job.bound_ns = job.bound_ns.max(now.bound_ns);
        if now.now >= job.end {
            self.end();
            return;
        }
        if now.now < job.due || job.is_sent() {
            return;
        }
        let (round, turn) = (job.sent / job.to.len() as u64, job.sent % job.to.len() as u64);
        if let Some((peer, key)) = job.to.get(turn as usize) {
            let probe = Probe {
                job: job.number,
                sender: self.number,
                number: round as u32,
                sent_ns: now.now.0,
            };
            let bytes: [u8; LENGTH] = probe.encode(key);
            let span = out.store(&bytes);
            out.datagram(Channel::OVERLAY, *peer, span);
        }
        job.sent += 1;
        // Whoever is late does not catch up: a burst would measure itself.
        job.due = now.now.after(job.gap_ns);
    }

    fn next_timeout(&self) -> Nanos {
        match &self.job {
            None => Nanos::NEVER,
            Some(job) if job.is_sent() => job.end,
            Some(job) => job.due.min(job.end),
        }
    }
}

/// A machine's agent with its loop.
pub struct Prober {
    file: ClusterFile,
    gap_min_ns: u64,
    of: LoopHandle<ProbeAgent>,
    told: Arc<Mutex<Vec<Probed>>>,
}

impl Prober {
    /// The agent of a node of the file, and the loop that it runs in.
    ///
    /// # Errors
    /// The port is in use.
    pub fn new(
        file: &ClusterFile,
        (number, node): (u16, &NodeEntry),
        clock: Clock,
    ) -> Result<(Prober, Loop<ProbeAgent>), Failure> {
        let socket = bind(file, node, Port::Probe)?;
        let directory = Directory::new(&[]).map_err(|error| Failure::Usage(error.to_string()))?;
        let habits = LoopConfig {
            wait: WaitStrategy { spin_ns: 0, timer_spin_ns: 0 },
            ..LoopConfig::default()
        };
        let mut of = Loop::new(clock, Arc::new(directory), habits).map_err(io)?;
        of.add_node(AGENT, ProbeAgent::new(number), vec![(Channel::OVERLAY, socket)], [])
            .map_err(io)?;
        let gap_min_ns = Nanos::SECOND / u64::from(file.plan.probes_per_s.max(1));
        let prober =
            Prober { file: file.clone(), gap_min_ns, of: of.handle(), told: Arc::default() };
        Ok((prober, of))
    }

    /// Runs the agent until `stop`.
    pub fn run(&self, of: Loop<ProbeAgent>, stop: &AtomicBool) {
        let told = &self.told;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let own = rustix::thread::gettid();
                // Where it may not, it does without.
                let _ = rustix::process::setpriority_process(Some(own), NICE);
                // Its end is that of the machine's other threads; a machine goes on without probes.
                let _ = of.run(stop, LOOK_EVERY, |_, _| ());
            });
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(LOOK_EVERY);
                let told = Arc::clone(told);
                let _ = self.of.call(AGENT, move |agent, _, _| {
                    let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
                    if told.is_empty() {
                        told.extend(agent.tell());
                    }
                });
            }
        });
    }

    /// Begins what a root wants measured.
    pub fn begin(&self, order: ProbeOrder) {
        let peer = |number: &u16| {
            let node = self.file.numbered(*number)?;
            let at = self.file.at(node, Port::Probe).ok()?;
            Some((*number, net::peer_addr(at)))
        };
        let peers: Vec<(u16, Peer)> =
            order.to.iter().filter_map(|(number, _)| peer(number)).collect();
        let gap_min_ns = self.gap_min_ns;
        // What can't be is not told of: the root waits until its end at most.
        let _ = self.of.call(AGENT, move |agent, now, _| {
            let _ = agent.begin(now, &order, &peers, gap_min_ns);
        });
    }

    /// What there is to tell a root.
    pub fn tell(&self) -> Option<Probed> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}

#[cfg(test)]
mod tests {
    use types::Op;

    use super::*;

    const HERE: Peer = Peer::v4(0x7F00_0001, 7_015);

    fn key(byte: u8) -> String {
        crate::tls::hex(&[byte; 32])
    }

    fn at(ns: u64) -> ClockReading {
        ClockReading { now: Nanos(ns), bound_ns: 7 }
    }

    fn order() -> ProbeOrder {
        ProbeOrder {
            job: 9,
            probes: 3,
            gap_us: 100,
            after_us: 50,
            length_ms: 2,
            to: vec![(2, key(1)), (3, key(2))],
            from: vec![(2, key(3))],
        }
    }

    fn sent(agent: &mut ProbeAgent, until: u64) -> Vec<(u64, Vec<u8>)> {
        let mut all = Vec::new();
        let mut out = Outbox::default();
        while agent.next_timeout() < Nanos(until) {
            let now = agent.next_timeout();
            out.clear();
            agent.handle_timeout(at(now.0), &mut out);
            for op in out.ops() {
                if let Op::Datagram { bytes, .. } = op {
                    all.push((now.0, out.bytes(*bytes).to_vec()));
                }
            }
        }
        all
    }

    #[test]
    fn probes_go_out_on_time_in_turns_and_no_faster_than_the_file_says() {
        let mut agent = ProbeAgent::new(5);
        let peers = [(2, HERE), (3, HERE)];
        assert!(agent.begin(at(1_000_000), &order(), &peers, 150_000));
        let all = sent(&mut agent, 3_000_000);
        let times: Vec<u64> = all.iter().map(|(at, _)| *at - 1_050_000).collect();
        assert_eq!(times, [0, 150_000, 300_000, 450_000, 600_000, 750_000]);
        for (place, (_, bytes)) in all.iter().enumerate() {
            let key = Key::new(&[1 + place as u8 % 2; 32]).expect("long enough");
            let probe = Probe::decode(bytes, &key).expect("its key");
            assert_eq!((probe.job, probe.sender, probe.number), (9, 5, place as u32 / 2));
        }
        let told = agent.tell();
        assert_eq!(told, None, "not before the end");
        let mut out = Outbox::default();
        agent.handle_timeout(at(3_000_000), &mut out);
        let told = agent.tell().expect("the end");
        assert_eq!((told.sent, told.over, agent.next_timeout()), (3, true, Nanos::NEVER));
    }

    #[test]
    fn delays_are_told_once_each_and_nothing_else_counts() {
        let mut agent = ProbeAgent::new(5);
        assert!(agent.begin(at(1_000_000), &order(), &[], 1));
        let mut out = Outbox::default();
        let (right, wrong) = (Key::new(&[3; 32]).expect("long"), Key::new(&[4; 32]).expect("long"));
        let probe = Probe { job: 9, sender: 2, number: 1, sent_ns: 1_000_000 };
        let mut hear = |now: u64, bytes: &[u8]| {
            agent.handle_datagram(at(now), Channel::OVERLAY, HERE, bytes, &mut out);
        };
        hear(1_000_400, &probe.encode(&right));
        hear(1_000_900, &probe.encode(&right));
        // Another key, job, sender, number; a clock that is ahead gives a negative delay.
        hear(1_000_500, &Probe { number: 0, ..probe }.encode(&wrong));
        hear(1_000_500, &Probe { number: 0, job: 8, ..probe }.encode(&right));
        hear(1_000_500, &Probe { number: 0, sender: 3, ..probe }.encode(&right));
        hear(1_000_500, &Probe { number: 3, ..probe }.encode(&right));
        hear(1_000_500, &Probe { number: 2, sent_ns: 1_000_600, ..probe }.encode(&right));
        agent.handle_timeout(at(3_000_000), &mut out);
        let told = agent.tell().expect("the end");
        assert_eq!(told.heard, [(2, vec![None, Some(400), Some(-100)])]);
        assert_eq!((told.bound_ns, agent.strange()), (7, 3));
    }

    #[test]
    fn orders_that_cannot_be_are_refused() {
        let mut agent = ProbeAgent::new(5);
        let wrong: [&dyn Fn(&mut ProbeOrder); 6] = [
            &|of| of.probes = 0,
            &|of| of.probes = PROBES_MAX + 1,
            &|of| of.length_ms = LENGTH_MAX_MS + 1,
            &|of| of.after_us = 2_001,
            &|of| of.to[0].1 = "zz".to_string(),
            &|of| of.from[0].1 = String::new(),
        ];
        for change in wrong {
            let mut order = order();
            change(&mut order);
            assert!(!agent.begin(at(1), &order, &[], 1), "{order:?}");
        }
        assert_eq!(agent.next_timeout(), Nanos::NEVER);
    }

    proptest::proptest! {
        #[test]
        fn any_datagram_and_any_order_are_taken_without_a_panic(
            bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..60),
            numbers in proptest::prelude::any::<[u64; 4]>(),
        ) {
            let mut agent = ProbeAgent::new(1);
            let (mut out, order) = (Outbox::default(), order());
            let [job, gap_us, after_us, length_ms] = numbers;
            let order = ProbeOrder { job, gap_us, after_us, length_ms, ..order };
            let _ = agent.begin(at(5), &order, &[(2, HERE)], 1);
            agent.handle_datagram(at(9), Channel::OVERLAY, HERE, &bytes, &mut out);
            agent.handle_timeout(at(u64::MAX), &mut out);
            let _ = agent.tell();
        }
    }
}
