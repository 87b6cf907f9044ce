//! Once warm, an order's way up and a record's way down allocate nothing.
//!
//! Counts allocations, hence a test binary of its own.

use overlay::{
    frame::{self, FrameKind, GrantBody, HopHeader, OrderAckBody, OrderBody, PrivateBody},
    ingress::{Ingress, IngressConfig},
    order_ack::{AckScheduler, Progress},
    private_receiver::{PrivateEvent, PrivateReceiver, PrivateReceiverConfig},
    private_sender::{PrivateStreams, PrivateStreamsConfig},
    sequencer::SequencerConfig,
    uplink::{Uplink, UplinkConfig},
};
use types::{
    AccountId, ClockReading, GatewayId, Incarnation, Nanos, NodeId, Op, Outbox, SeqWindow, ShardId,
};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

const GATEWAY: GatewayId = GatewayId(1);
const NODES: [NodeId; 2] = [NodeId(0), NodeId(9)];

struct World {
    uplink: Uplink,
    ingress: Ingress,
    acks: AckScheduler,
    logged: SeqWindow,
    streams: PrivateStreams,
    receiver: PrivateReceiver,
    out: Outbox,
    spare: Outbox,
    now: ClockReading,
    delivered: u64,
}

impl World {
    /// One order up to the log and its acknowledgement back; one record down and its
    /// acknowledgement up. Every fourth order and every seventh record is lost at first.
    fn step(&mut self, n: u64) {
        self.now.now = self.now.now + Nanos::MILLI;
        let now = self.now;
        let account = AccountId(1 + (n % 3) as u16);
        self.uplink.submit(now, account, now.now, &[n as u8; 64], &mut self.out).unwrap();
        if n.is_multiple_of(4) {
            self.out.clear();
        }
        self.uplink.handle_timeout(now, &mut self.out);
        self.pass_on();
        while let Some(order) = self.ingress.pop_due(now) {
            self.logged.record(order.source.seq);
            self.acks.mark_logged(&order);
            self.streams.append(account, &[n as u8; 96]).unwrap();
        }
        let logged = &self.logged;
        let progress = Progress {
            to: NODES[1],
            incarnation: Incarnation(1),
            logged,
            arrivals: self.ingress.arrivals(GATEWAY),
        };
        self.acks.flush(|_| Some(progress), &mut self.out);
        self.pass_on();
        self.streams.flush(now, &mut self.out);
        if n.is_multiple_of(7) {
            self.out.clear();
        }
        self.streams.handle_timeout(now, &mut self.out);
        self.pass_on();
        self.receiver.flush(now, &mut self.out);
        self.receiver.handle_timeout(now, &mut self.out);
        self.pass_on();
    }

    /// Delivers what is in the outbox; answers are in it afterwards.
    fn pass_on(&mut self) {
        std::mem::swap(&mut self.out, &mut self.spare);
        let mut sent = std::mem::take(&mut self.spare);
        for op in sent.ops() {
            if let Op::Datagram { bytes, .. } = op {
                self.hear(sent.bytes(*bytes));
            }
        }
        sent.clear();
        self.spare = sent;
    }

    fn hear(&mut self, bytes: &[u8]) {
        let (header, rest) = HopHeader::read(bytes).unwrap();
        match header.kind {
            FrameKind::Order => {
                let (order, payload) = frame::body::<OrderBody>(rest).unwrap();
                self.ingress.handle_order(self.now, &header, &order, payload);
            }
            FrameKind::OrderAck => {
                self.uplink.handle_ack(self.now, &frame::body::<OrderAckBody>(rest).unwrap().0);
            }
            FrameKind::Private => {
                let (body, payload) = frame::body::<PrivateBody>(rest).unwrap();
                let delivered = &mut self.delivered;
                self.receiver.handle_private(&body, payload, |event| {
                    *delivered += u64::from(matches!(event, PrivateEvent::Record { .. }));
                });
            }
            FrameKind::PrivateAck => {
                let (body, _) = frame::body(rest).unwrap();
                self.streams.handle_ack(self.now, header.sender, &body, &mut self.out);
            }
            FrameKind::Attach => {
                let (body, _) = frame::body(rest).unwrap();
                self.streams.handle_attach(self.now, header.sender, &body, &mut self.out);
            }
            FrameKind::AttachReply => {
                let (body, _) = frame::body(rest).unwrap();
                self.receiver.handle_reply(self.now, &body, |_| ());
            }
            _ => {}
        }
    }
}

#[test]
fn steady_state_allocates_nothing() {
    let [root, node] = NODES;
    let now = ClockReading { now: Nanos(1_790_000_000_000_000_000), bound_ns: 0 };
    let mut uplink = Uplink::new(UplinkConfig::new(GATEWAY, node, root, 1), vec![root]);
    let incarnation = Incarnation(1);
    uplink.handle_grant(&GrantBody { gateway: GATEWAY, reserved: 0, boot_nonce: 1, incarnation });
    let sequencer = SequencerConfig { window_ns: 0, ..Default::default() };
    let mut ingress = Ingress::new(&IngressConfig { shard: ShardId(0), gateways: 1, sequencer });
    ingress.set_incarnation(GATEWAY, incarnation);
    let config = PrivateStreamsConfig::new(root, 3, 96, 1_000_000);
    let mut world = World {
        uplink,
        ingress,
        acks: AckScheduler::new(root, 1, 1),
        logged: SeqWindow::default(),
        streams: PrivateStreams::new(config).unwrap(),
        receiver: PrivateReceiver::new(PrivateReceiverConfig::new(node, root, 96)),
        out: Outbox::default(),
        spare: Outbox::default(),
        now,
        delivered: 0,
    };
    world.receiver.begin_life(now, incarnation, &mut world.out);
    for account in 1..=3 {
        world.receiver.attach(now, AccountId(account), 1, &mut world.out);
        world.pass_on();
        world.pass_on();
    }
    // Measured between two growths of the record store: its chunk lists double when an account
    // reaches 32 and 64 chunks of 64 records, and its second segment begins with chunk 128.
    (0..6_400).for_each(|n| world.step(n));
    let before = counting::allocations();
    (6_400..7_900).for_each(|n| world.step(n));
    let allocations = counting::allocations() - before;
    let resent = world.uplink.counters().resent;
    assert!(world.delivered > 7_700 && resent > 1_000, "{} {resent}", world.delivered);
    assert_eq!(allocations, 0, "in 1,500 orders and records");
    let before = counting::allocations();
    world.ingress.clear();
    assert_eq!(counting::allocations() - before, 0, "when another root leads");
}
