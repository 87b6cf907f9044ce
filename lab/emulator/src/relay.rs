//! The relay: one thread that takes packets from all hosts' interfaces, draws their fate and hands
//! them on when they are due.
//!
//! Until shortly before the next release it sleeps (`epoll`, with a timer slack of 1 ns). A sleeper is
//! woken tens of microseconds late where the machine is virtual, now more, now less; so it is to be woken
//! as much earlier as it has been late on average, and `spin_ns` more, which the relay spins. While it
//! spins it still takes packets that come, except in the last [`POLL_NS`]. With a `spin_ns` of 0 it
//! doesn't spin, and packets are handed on as late as it is woken.
//!
//! What waits is bounded by bytes for each sender, so that one flood does not stop others' packets.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::process::setpriority_process;
use rustix::time::Timespec;

use crate::interface;
use crate::model::Model;
use crate::shared::{BY_PROFILE, Passage, Shared};

/// Nearer to a release than this, in ns, the relay does not look for packets: a look takes about 1 us.
const POLL_NS: u64 = 2_000;
/// Most that the relay is woken earlier because it wakes late, in ns.
const LATE_MAX_NS: u64 = 200_000;
/// Packets taken from one host before it is the next one's turn.
const BATCH: usize = 32;
/// Largest packet.
const PACKET_MAX: usize = 65_536;
/// Priority of the relay's thread (-20 to 19): a late relay falsifies what everybody measures. It is
/// no real-time thread, because one that spins keeps receivers waiting on a machine of few cores.
const NICE: i32 = -20;
/// Mark of the descriptor that is no host's.
const WAKE: u64 = u64::MAX;

/// A packet on its way.
#[derive(Default)]
struct Packet {
    from: usize,
    to: usize,
    taken_at: u64,
    /// The model's own copy.
    is_duplicate: bool,
    bytes: Vec<u8>,
}

fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}

/// The relay's state.
pub(crate) struct Relay {
    shared: Arc<Shared>,
    model: Model,
    tuns: Vec<OwnedFd>,
    epoll: OwnedFd,
    /// How late the relay wakes, in ns; a moving average.
    late_ns: u64,
    spin_ns: u64,
    /// Packets of a path stay in order.
    in_order: bool,
    /// Bytes of one sender on their way at most.
    held_max: usize,
    held: Vec<usize>,
    /// Release of the latest packet of each path.
    last_due: Vec<u64>,
    /// Due time, order of arrival, place in `packets`.
    waiting: BinaryHeap<Reverse<(u64, u64, usize)>>,
    packets: Vec<Packet>,
    free: Vec<usize>,
    taken: u64,
    read: Vec<u8>,
}

/// What a relay is made of and how it behaves.
pub(crate) struct Setup {
    pub(crate) shared: Arc<Shared>,
    pub(crate) model: Model,
    pub(crate) tuns: Vec<OwnedFd>,
    pub(crate) spin_ns: u64,
    pub(crate) in_order: bool,
    pub(crate) held_max: usize,
}

impl Relay {
    /// A relay between hosts whose interfaces end in `tuns`; `wake` becomes readable when
    /// [`Shared::stops`] has been set.
    ///
    /// # Errors
    /// What the kernel answers to the making of a poller.
    pub(crate) fn new(setup: Setup, wake: &OwnedFd) -> io::Result<Relay> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let add = |fd: &OwnedFd, mark| {
            epoll::add(&epoll, fd, epoll::EventData::new_u64(mark), epoll::EventFlags::IN)
        };
        (0..).zip(&setup.tuns).try_for_each(|(host, tun)| add(tun, host))?;
        add(wake, WAKE)?;
        let hosts = setup.tuns.len();
        Ok(Relay {
            shared: setup.shared,
            model: setup.model,
            tuns: setup.tuns,
            epoll,
            late_ns: 0,
            spin_ns: setup.spin_ns,
            in_order: setup.in_order,
            held_max: setup.held_max,
            held: vec![0; hosts],
            last_due: vec![0; hosts * hosts],
            waiting: BinaryHeap::new(),
            packets: Vec::new(),
            free: Vec::new(),
            taken: 0,
            read: Vec::with_capacity(PACKET_MAX),
        })
    }

    /// Relays until [`Shared::stops`] is set.
    ///
    /// # Errors
    /// What the kernel answers to waiting.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        // Both only make the relay more punctual.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let _ = setpriority_process(Some(rustix::thread::gettid()), NICE);
        let mut events = Vec::with_capacity(self.tuns.len() + 1);
        while !self.shared.stops.load(Relaxed) {
            let wait_ns = self.release_due();
            if wait_ns <= POLL_NS && self.spin_ns > 0 {
                std::hint::spin_loop();
                continue;
            }
            let awake_ns = match self.spin_ns {
                0 => 0,
                spin_ns => self.late_ns + spin_ns,
            };
            let sleep_ns = wait_ns.saturating_sub(awake_ns);
            let wakes_at = (sleep_ns > 0).then(|| self.shared.now_ns().saturating_add(sleep_ns));
            let timeout = timespec(sleep_ns);
            let timeout = (wait_ns < u64::MAX).then_some(&timeout);
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), timeout) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            if events.is_empty()
                && let Some(wakes_at) = wakes_at
            {
                let late_ns = self.shared.now_ns().saturating_sub(wakes_at).min(LATE_MAX_NS);
                self.late_ns = (15 * self.late_ns + late_ns) / 16;
            }
            for event in &events {
                match event.data.u64() {
                    WAKE => {}
                    host => self.take_from(host as usize),
                }
            }
        }
        Ok(())
    }

    /// Hands on what is due; how long to wait for the next packet, in ns.
    fn release_due(&mut self) -> u64 {
        loop {
            let Some(&Reverse((due_at, _, place))) = self.waiting.peek() else { return u64::MAX };
            let now = self.shared.now_ns();
            if due_at > now {
                return due_at - now;
            }
            self.waiting.pop();
            self.hand_on(place, due_at, now);
        }
    }

    /// Takes packets of a host, and hands others on as they become due.
    fn take_from(&mut self, host: usize) {
        for _ in 0..BATCH {
            self.read.clear();
            match rustix::io::read(&self.tuns[host], spare_capacity(&mut self.read)) {
                Ok(length) if length > 0 => {}
                // Nothing more; the poller tells of the next one, and again of what was refused.
                _ => return,
            }
            self.taken += 1;
            match interface::receiver_of(&self.read).filter(|to| *to < self.tuns.len()) {
                Some(to) if to != host => self.accept(host, to),
                _ => _ = self.shared.unroutable.fetch_add(1, Relaxed),
            }
            self.release_due();
        }
    }

    /// Draws the fate of the packet just read.
    fn accept(&mut self, from: usize, to: usize) {
        let shared = Arc::clone(&self.shared);
        let path = shared.path(from, to);
        path.packets.fetch_add(1, Relaxed);
        path.bytes.fetch_add(self.read.len() as u64, Relaxed);
        let taken_at = self.shared.now_ns();
        if path.is_cut.load(Relaxed) {
            path.cut.fetch_add(1, Relaxed);
            return;
        }
        let constant_ns = self.shared.constant_delay_ns.load(Relaxed);
        if constant_ns != BY_PROFILE {
            return self.hold(from, to, taken_at, constant_ns, false);
        }
        let fate = self.model.fate(from, to, taken_at, path.loss_ppm.load(Relaxed));
        let slowed_ns = [from, to].map(|host| self.shared.slowed_ns[host].load(Relaxed));
        let extra_ns = slowed_ns[0] + slowed_ns[1];
        match fate.first_ns {
            Some(delay_ns) => self.hold(from, to, taken_at, delay_ns + extra_ns, false),
            None => _ = path.lost.fetch_add(1, Relaxed),
        }
        if let Some(delay_ns) = fate.second_ns {
            path.duplicated.fetch_add(1, Relaxed);
            self.hold(from, to, taken_at, delay_ns + extra_ns, true);
        }
    }

    /// Keeps a copy of the packet just read until it is due.
    fn hold(&mut self, from: usize, to: usize, taken_at: u64, delay_ns: u64, is_duplicate: bool) {
        if self.held[from] + self.read.len() > self.held_max {
            self.shared.path(from, to).overflowed.fetch_add(1, Relaxed);
            return;
        }
        self.held[from] += self.read.len();
        let mut due_at = taken_at + delay_ns;
        let last_due = &mut self.last_due[from * self.tuns.len() + to];
        if self.in_order {
            due_at = due_at.max(*last_due);
            *last_due = due_at;
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.packets.push(Packet::default());
            self.packets.len() - 1
        });
        let packet = &mut self.packets[place];
        (packet.from, packet.to, packet.taken_at) = (from, to, taken_at);
        packet.is_duplicate = is_duplicate;
        packet.bytes.clear();
        packet.bytes.extend_from_slice(&self.read);
        // Copies of one packet have its number: the heap leaves those that are due at once in any order.
        self.waiting.push(Reverse((due_at, self.taken, place)));
    }

    /// Gives a packet to its receiver's kernel.
    fn hand_on(&mut self, place: usize, due_at: u64, now: u64) {
        let packet = &self.packets[place];
        let path = self.shared.path(packet.from, packet.to);
        if path.is_cut.load(Relaxed) {
            path.cut.fetch_add(1, Relaxed);
        } else {
            // Counted first: a receiver that has the packet finds it counted.
            path.delivered.fetch_add(1, Relaxed);
            if self.shared.records_passages.load(Relaxed) && !packet.is_duplicate {
                self.shared.record_passage(Passage {
                    from: packet.from,
                    to: packet.to,
                    taken_at: packet.taken_at,
                    due_at,
                    handed_on_at: now,
                });
            }
            if rustix::io::write(self.tuns[packet.to].as_fd(), &packet.bytes).is_err() {
                path.delivered.fetch_sub(1, Relaxed);
            }
            self.shared.lateness().record(now - due_at);
        }
        self.held[packet.from] -= packet.bytes.len();
        self.free.push(place);
    }
}
