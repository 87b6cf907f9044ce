//! Our own transport: uplink, root and private stream, as datagrams over loopback sockets.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use net::{Clock, Directory, Loop, LoopConfig, peer_addr};
use overlay::frame::{
    self, AttachReplyBody, FrameKind, GrantBody, HopHeader, OrderAckBody, PrivateBody,
};
use overlay::private_receiver::{PrivateEvent, PrivateReceiver, PrivateReceiverConfig};
use overlay::uplink::{Uplink, UplinkConfig};
use roles::{ExchangeConfig, Role, deploy};
use telemetry::Recorder;
use types::{
    AccountId, Channel, ClockReading, ConnId, ExecutionReport, Nanos, Node, NodeId, Outbox, Peer,
};
use zerocopy::IntoBytes;

use super::{PATIENCE, Slice, Timetable, TransportsArgs, host};
use crate::Failure;

/// The gateway's place: the one receiver's.
const GATEWAY: NodeId = NodeId(1);
const ACCOUNT: AccountId = AccountId(1);
/// From the attachment to the first request.
const START_NS: u64 = 20 * Nanos::MILLI;

/// A gateway reduced to its way to the root and back.
struct Feeder {
    timetable: Timetable,
    uplink: Uplink,
    private: PrivateReceiver,
    asked: bool,
    /// Start of the timetable.
    start: Nanos,
    next: u32,
    answered: u32,
    latency: Recorder,
}

impl Feeder {
    fn new(timetable: Timetable) -> Feeder {
        let root = ExchangeConfig::ROOT;
        let uplink = UplinkConfig::new(ExchangeConfig::gateway(0), GATEWAY, root, 1);
        let record = size_of::<ExecutionReport>();
        Feeder {
            timetable,
            uplink: Uplink::new(uplink, vec![root]),
            private: PrivateReceiver::new(PrivateReceiverConfig::new(GATEWAY, root, record)),
            asked: false,
            start: Nanos::NEVER,
            next: 1,
            answered: 0,
            latency: Recorder::new(),
        }
    }

    fn play(&mut self, now: ClockReading, out: &mut Outbox) {
        if self.uplink.ready() && !self.asked {
            self.asked = true;
            self.private.attach(now, ACCOUNT, 1, out);
        }
        while self.next <= self.timetable.requests
            && self.start != Nanos::NEVER
            && self.start.after(self.timetable.due_ns(self.next)) <= now.now
        {
            let command = host::command(self.next);
            // A full window: the rest waits, and is charged with it.
            if self.uplink.submit(now, ACCOUNT, now.now, command.as_bytes(), out).is_err() {
                return;
            }
            self.next += 1;
        }
    }

    fn handle_private(&mut self, now: ClockReading, body: &PrivateBody, records: &[u8]) {
        let Feeder { private, timetable, start, answered, latency, .. } = self;
        private.handle_private(body, records, |event| {
            if let PrivateEvent::Record { record, .. } = event
                && let Some(number) = host::answered(record)
            {
                *answered += 1;
                latency.record(now.now.since(start.after(timetable.due_ns(number))));
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
                if let Ok((grant, _)) = frame::body::<GrantBody>(rest) {
                    self.uplink.handle_grant(&grant);
                }
            }
            FrameKind::OrderAck => {
                if let Ok((ack, _)) = frame::body::<OrderAckBody>(rest) {
                    self.uplink.handle_ack(now, &ack);
                }
            }
            FrameKind::AttachReply => {
                if let Ok((reply, _)) = frame::body::<AttachReplyBody>(rest) {
                    let start = &mut self.start;
                    self.private.handle_reply(now, &reply, |event| {
                        if let PrivateEvent::Attached { .. } = event {
                            *start = now.now.after(START_NS);
                        }
                    });
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
        self.uplink.start(now, out);
        self.uplink.handle_timeout(now, out);
        self.private.handle_timeout(now, out);
        self.play(now, out);
        self.private.flush(now, out);
    }

    fn next_timeout(&self) -> Nanos {
        let due = match self.start {
            Nanos::NEVER => Nanos::NEVER,
            _ if self.next > self.timetable.requests => Nanos::NEVER,
            start => start.after(self.timetable.due_ns(self.next)),
        };
        let begun = if self.uplink.ready() || self.uplink.next_timeout() != Nanos::NEVER {
            Nanos::NEVER
        } else {
            Nanos(0)
        };
        due.min(self.uplink.next_timeout()).min(self.private.next_timeout()).min(begun)
    }

    fn handle_connect(&mut self, _: ClockReading, _: ConnId, _: &mut Outbox) {}
    fn handle_stream(&mut self, _: ClockReading, _: ConnId, _: &[u8], _: &mut Outbox) {}
    fn handle_close(&mut self, _: ClockReading, _: ConnId, _: &mut Outbox) {}
}

/// Plays one slice.
pub fn play(_: &TransportsArgs, timetable: Timetable) -> Result<Slice, Failure> {
    let io = |error: std::io::Error| Failure::Run(format!("sockets: {error}"));
    let clock = Clock::start(0);
    let exchange = host::exchange(&clock);
    let sockets: Vec<UdpSocket> = (0..3)
        .map(|_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)))
        .collect::<Result<_, _>>()
        .map_err(io)?;
    let mut known = Vec::new();
    for (id, socket) in (0..2).zip(&sockets) {
        match socket.local_addr().map_err(io)? {
            SocketAddr::V4(addr) => known.push((NodeId(id), addr)),
            SocketAddr::V6(addr) => return Err(Failure::Run(format!("{addr} is no IPv4 address"))),
        }
    }
    let directory = Directory::new(&known).map_err(|error| Failure::Run(error.to_string()))?;
    let directory = Arc::new(directory);
    let nobody = peer_addr(known[1].1);
    let nodes = deploy(&exchange, 1, |_| nobody).map_err(|e| Failure::Run(e.to_string()))?;
    let root = nodes.into_iter().next().ok_or_else(|| Failure::Run("no root".to_string()))?;
    let mut inside: Loop<Role> =
        Loop::new(clock, Arc::clone(&directory), LoopConfig::default()).map_err(io)?;
    let mut outside: Loop<Feeder> =
        Loop::new(clock, directory, LoopConfig::default()).map_err(io)?;
    let mut sockets = sockets.into_iter();
    let mut socket = || sockets.next().ok_or_else(|| Failure::Run("too few sockets".to_string()));
    let own = vec![(Channel::OVERLAY, socket()?)];
    let feeder = vec![(Channel::OVERLAY, socket()?)];
    inside.add_node(ExchangeConfig::ROOT, root, own, None).map_err(io)?;
    outside.add_node(GATEWAY, Feeder::new(timetable), feeder, None).map_err(io)?;
    let (stop, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let feeders = thread::scope(|scope| {
        let root = scope.spawn(|| inside.run(&stop, Duration::from_secs(1), |_, _| {}));
        let feeder = scope.spawn(|| {
            outside.run(&stop, Duration::from_millis(10), |of, _| {
                let all = |(_, f): (NodeId, &Feeder)| f.answered >= f.timetable.requests;
                over.store(of.nodes().all(all), Ordering::Relaxed);
            })
        });
        let length = Duration::from_nanos(timetable.due_ns(timetable.requests));
        let end = Instant::now() + length + PATIENCE;
        while !over.load(Ordering::Relaxed) && Instant::now() < end {
            thread::sleep(Duration::from_millis(10));
        }
        stop.store(true, Ordering::Relaxed);
        let (root, feeder) = (root.join(), feeder.join());
        let panicked = |_| Failure::Run("a thread of the measurement panicked".to_string());
        root.map_err(panicked)?.map_err(io)?;
        feeder.map_err(panicked)?.map_err(io)
    })?;
    let feeder = feeders.into_iter().map(|(_, feeder)| feeder).next();
    let feeder = feeder.ok_or_else(|| Failure::Run("the gateway is gone".to_string()))?;
    let lost = u64::from(timetable.requests.saturating_sub(feeder.answered));
    Ok(Slice { latency: feeder.latency, lost })
}
