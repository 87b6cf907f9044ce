//! Our own transport: uplink, root and private stream, as datagrams over loopback sockets.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use exchange::{ExchangeConfig, Role, deploy};
use net::{Clock, Directory, Loop, LoopConfig, WaitStrategy, peer_addr};
use overlay::frame::{
    self, AttachReplyBody, FrameKind, GrantBody, HopHeader, OrderAckBody, PrivateBody,
};
use overlay::private_receiver::{PrivateEvent, PrivateReceiver, PrivateReceiverConfig};
use overlay::uplink::{Uplink, UplinkConfig};
use types::{
    AccountId, Channel, ClockReading, ConnId, ExecutionReport, Nanos, Node, NodeId, Outbox, Peer,
};
use zerocopy::IntoBytes;

use super::tally::{PATIENCE, Slice, Tally, Timetable};
use super::{TransportsArgs, engine_host};
use host::failure::Failure;
use host::sockets::io;

/// The gateway's place: the one receiver's.
const GATEWAY: NodeId = NodeId(1);
const ACCOUNT: AccountId = AccountId(1);
/// From the attachment to the first request.
const LEAD_NS: u64 = 20 * Nanos::MILLI;
/// As a gateway of the exchange has it.
const ACK_DELAY_NS: u64 = 4 * Nanos::MILLI;
/// As `fairbell up` waits with no more cores than loops, and as the other transports do: asleep.
const WAIT: WaitStrategy = WaitStrategy { spin_ns: 0, timer_spin_ns: 0 };

/// A gateway reduced to its way to the root and back.
struct Feeder {
    timetable: Timetable,
    uplink: Uplink,
    private: PrivateReceiver,
    /// An incarnation and the account's stream have been asked for.
    asked: bool,
    /// Start of the timetable; never, while the account's stream is not attached.
    start: Nanos,
    next: u32,
    tally: Tally,
}

impl Feeder {
    fn new(timetable: Timetable) -> Feeder {
        let root = ExchangeConfig::ROOT;
        let uplink = UplinkConfig::new(ExchangeConfig::gateway(0), GATEWAY, root, 1);
        let record = size_of::<ExecutionReport>();
        let mut private = PrivateReceiverConfig::new(GATEWAY, root, record);
        private.ack_delay_ns = ACK_DELAY_NS;
        Feeder {
            timetable,
            uplink: Uplink::new(uplink, vec![root]),
            private: PrivateReceiver::new(private),
            asked: false,
            start: Nanos::NEVER,
            next: 1,
            tally: Tally::new(timetable),
        }
    }

    /// When the next request is due; never, while there is none or no room for it.
    fn due(&self) -> Nanos {
        let waits = self.start != Nanos::NEVER && self.next <= self.timetable.requests;
        match waits && self.uplink.has_room() {
            true => self.start.after(self.timetable.due_ns(self.next)),
            false => Nanos::NEVER,
        }
    }

    fn play(&mut self, now: ClockReading, out: &mut Outbox) {
        while self.due() <= now.now {
            let command = engine_host::command(self.next);
            // Refused only without room; the request is charged with the waiting.
            if self.uplink.submit(now, ACCOUNT, now.now, command.as_bytes(), out).is_err() {
                return;
            }
            self.next += 1;
        }
    }

    fn handle_grant(&mut self, now: ClockReading, grant: &GrantBody, out: &mut Outbox) {
        self.uplink.handle_grant(grant);
        if let Some(life) = self.uplink.incarnation() {
            self.private.begin_life(now, life, out);
        }
    }

    fn handle_reply(&mut self, now: ClockReading, reply: &AttachReplyBody) {
        let start = &mut self.start;
        self.private.handle_reply(now, reply, |event| {
            if let PrivateEvent::Attached { .. } = event {
                *start = now.now.after(LEAD_NS);
            }
        });
    }

    fn handle_private(&mut self, now: ClockReading, body: &PrivateBody, records: &[u8]) {
        let Feeder { private, start, tally, .. } = self;
        private.handle_private(body, records, |event| {
            if let PrivateEvent::Record { record, .. } = event {
                tally.take(record, now.now - *start);
            }
        });
    }
}

impl Node for Feeder {
    fn handle_datagram(
        &mut self,
        now: ClockReading,
        _channel: Channel,
        _from: Peer,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        let Ok((header, rest)) = HopHeader::read(bytes) else { return };
        match header.kind {
            FrameKind::Grant => {
                if let Ok((grant, [])) = frame::body::<GrantBody>(rest) {
                    self.handle_grant(now, &grant, out);
                }
            }
            FrameKind::OrderAck => {
                if let Ok((ack, [])) = frame::body::<OrderAckBody>(rest) {
                    self.uplink.handle_ack(now, &ack);
                }
            }
            FrameKind::AttachReply => {
                if let Ok((reply, [])) = frame::body::<AttachReplyBody>(rest) {
                    self.handle_reply(now, &reply);
                }
            }
            FrameKind::Private => {
                if let Ok((body, records)) = frame::body::<PrivateBody>(rest) {
                    self.handle_private(now, &body, records);
                }
            }
            // The feed; nobody listens here.
            _ => {}
        }
        self.play(now, out);
        self.private.flush(now, out);
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        if !self.asked {
            self.asked = true;
            self.uplink.start(now, out);
            // Goes out when the log has granted a life.
            self.private.attach(now, ACCOUNT, 1, out);
        }
        self.uplink.handle_timeout(now, out);
        self.private.handle_timeout(now, out);
        self.play(now, out);
        self.private.flush(now, out);
    }

    fn next_timeout(&self) -> Nanos {
        let begin = if self.asked { Nanos::NEVER } else { Nanos(0) };
        let timers = [begin, self.due(), self.uplink.next_timeout(), self.private.next_timeout()];
        timers.into_iter().min().unwrap_or(Nanos::NEVER)
    }

    fn handle_connect(&mut self, _: ClockReading, _: ConnId, _: &mut Outbox) {}
    fn handle_stream(&mut self, _: ClockReading, _: ConnId, _: &[u8], _: &mut Outbox) {}
    fn handle_close(&mut self, _: ClockReading, _: ConnId, _: &mut Outbox) {}
}

/// Plays one slice.
///
/// # Errors
/// No sockets, or a thread that panicked.
pub fn play(_: &TransportsArgs, timetable: Timetable) -> Result<Slice, Failure> {
    let (inside, outside) = loops(timetable)?;
    let (stop, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let feeders = thread::scope(|scope| {
        let root = scope.spawn(|| inside.run(&stop, Duration::from_secs(1), |_, _| {}));
        let feeder = scope.spawn(|| {
            outside.run(&stop, Duration::from_millis(10), |of, _| {
                let done = of.nodes().all(|(_, feeder)| feeder.tally.is_done());
                over.store(done, Ordering::Relaxed);
            })
        });
        let end = Instant::now() + Duration::from_nanos(timetable.length_ns()) + PATIENCE;
        while !over.load(Ordering::Relaxed) && Instant::now() < end {
            thread::sleep(Duration::from_millis(10));
        }
        stop.store(true, Ordering::Relaxed);
        let (root, feeder) = (root.join(), feeder.join());
        let panicked = |_| Failure::Run("a thread of the measurement panicked".to_string());
        root.map_err(panicked)?.map_err(io)?;
        feeder.map_err(panicked)?.map_err(io)
    })?;
    let feeder = feeders.into_iter().next();
    let (_, feeder) = feeder.ok_or_else(|| Failure::Run("the gateway is gone".to_string()))?;
    Ok(feeder.tally.finish())
}

/// The root's loop and the gateway's, each with a socket of its own.
fn loops(timetable: Timetable) -> Result<(Loop<Role>, Loop<Feeder>), Failure> {
    let clock = Clock::start(0);
    let (root, gateway) = (socket()?, socket()?);
    let known = [(ExchangeConfig::ROOT, address(&root)?), (GATEWAY, address(&gateway)?)];
    let directory = Directory::new(&known).map_err(|error| Failure::Run(error.to_string()))?;
    let directory = Arc::new(directory);
    let exchange = engine_host::exchange(&clock, timetable.requests);
    let nobody = peer_addr(known[1].1);
    let nodes = deploy(&exchange, host::deployment::life()?, |_| nobody)
        .map_err(|e| Failure::Run(e.to_string()))?;
    let role = nodes.into_iter().next().ok_or_else(|| Failure::Run("no root".to_string()))?;
    let habits = LoopConfig { wait: WAIT, ..LoopConfig::default() };
    let mut inside = Loop::new(clock, Arc::clone(&directory), habits).map_err(io)?;
    let mut outside = Loop::new(clock, directory, habits).map_err(io)?;
    let own = |socket| vec![(Channel::OVERLAY, socket)];
    inside.add_node(ExchangeConfig::ROOT, role, own(root), None).map_err(io)?;
    outside.add_node(GATEWAY, Feeder::new(timetable), own(gateway), None).map_err(io)?;
    Ok((inside, outside))
}

fn socket() -> Result<UdpSocket, Failure> {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(io)
}

fn address(socket: &UdpSocket) -> Result<SocketAddr, Failure> {
    socket.local_addr().map_err(io)
}
