//! Whatever bytes come in, nothing panics and nothing grows past its bound.

use overlay::{
    frame::{self, *},
    ingress::{Ingress, IngressConfig},
    private_receiver::{PrivateReceiver, PrivateReceiverConfig},
    private_sender::{PrivateStreams, PrivateStreamsConfig},
    sequencer::SequencerConfig,
    uplink::{Uplink, UplinkConfig},
};
use proptest::prelude::*;
use types::{
    AccountId, ClockReading, GatewayId, Incarnation, Nanos, NodeId, Outbox, ShardId, Source,
};
use zerocopy::{Immutable, IntoBytes};

/// Everything of this half of the overlay that hears datagrams.
struct Everything {
    uplink: Uplink,
    ingress: Ingress,
    streams: PrivateStreams,
    receiver: PrivateReceiver,
    out: Outbox,
    now: ClockReading,
}

impl Everything {
    fn new() -> Everything {
        let now = ClockReading { now: Nanos(1_000_000_000), bound_ns: 0 };
        let mut out = Outbox::default();
        let config = UplinkConfig::new(GatewayId(1), NodeId(3), NodeId(0), 5);
        let mut uplink = Uplink::new(config, vec![NodeId(1), NodeId(2)]);
        uplink.start(now, &mut out);
        let sequencer = SequencerConfig { capacity: 16, ..Default::default() };
        let mut ingress =
            Ingress::new(&IngressConfig { shard: ShardId(0), gateways: 2, sequencer });
        ingress.set_incarnation(GatewayId(1), Incarnation(1));
        let config = PrivateStreamsConfig::new(NodeId(0), 2, 8, 100);
        let mut streams = PrivateStreams::new(config).unwrap();
        for _ in 0..50 {
            streams.append(AccountId(1), &[1; 8]).unwrap();
        }
        let config = PrivateReceiverConfig::new(NodeId(3), NodeId(0), 8);
        let mut receiver = PrivateReceiver::new(config);
        receiver.begin_life(now, Incarnation(0), &mut out);
        receiver.attach(now, AccountId(1), 1, &mut out);
        Everything { uplink, ingress, streams, receiver, out, now }
    }

    fn hear(&mut self, bytes: &[u8]) -> Option<()> {
        let (now, out) = (self.now, &mut self.out);
        let (header, rest) = HopHeader::read(bytes).ok()?;
        match header.kind {
            FrameKind::Order => {
                let (order, payload) = frame::body::<OrderBody>(rest).ok()?;
                self.ingress.handle_order(now, &header, &order, payload);
            }
            FrameKind::OrderAck => self.uplink.handle_ack(now, &frame::body(rest).ok()?.0),
            FrameKind::Grant => self.uplink.handle_grant(&frame::body(rest).ok()?.0),
            FrameKind::Attach => {
                let (body, _) = frame::body(rest).ok()?;
                self.streams.handle_attach(now, header.sender, &body, out);
            }
            FrameKind::PrivateAck => {
                let (body, _) = frame::body(rest).ok()?;
                self.streams.handle_ack(now, header.sender, &body, out);
            }
            FrameKind::AttachReply => {
                self.receiver.handle_reply(now, &frame::body(rest).ok()?.0, |_| ());
            }
            FrameKind::Private => {
                let (body, payload) = frame::body::<PrivateBody>(rest).ok()?;
                self.receiver.handle_private(&body, payload, |_| ());
            }
            _ => {}
        }
        Some(())
    }

    fn go_on(&mut self, ns: u64) {
        self.now.now = self.now.now + ns;
        let (now, out) = (self.now, &mut self.out);
        let _ = self.uplink.submit(now, AccountId(1), now.now, &[1], out);
        self.uplink.handle_timeout(now, out);
        while self.ingress.pop_due(now).is_some() {}
        self.streams.flush(now, out);
        self.streams.handle_timeout(now, out);
        self.receiver.flush(now, out);
        self.receiver.handle_timeout(now, out);
        assert!(self.ingress.sequencer().held() <= 16);
        out.clear();
    }
}

fn framed<B: IntoBytes + Immutable>(kind: FrameKind, body: &B, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::encode(&mut bytes, HopHeader::new(kind, NodeId(3), 1), body, payload);
    bytes
}

/// One good frame of each kind, to be mutated.
fn good(which: usize) -> Vec<u8> {
    let (gateway, incarnation, account) = (GatewayId(1), Incarnation(1), AccountId(1));
    let source = Source { gateway, shard: ShardId(0), incarnation, seq: 2 };
    let order = OrderBody { source, depends_on: 1, t_in: Nanos(1_000_000_000) };
    let ack = OrderAckBody {
        contiguous: 1,
        selective: [6, 0, 0, 1],
        held: [8, 0, 1 << 63, 0],
        incarnation,
        echo: frame::echo(2, 1),
        useful: 3,
        term: 0,
    };
    let grant = GrantBody { gateway, reserved: 0, boot_nonce: 5, incarnation };
    let attach = AttachBody { account, attach: 1, token: 1, from: 3 };
    let reply = AttachReplyBody { account, status: 1, token: 1, from: 1, next: 9 };
    let private = PrivateBody { account, count: 2, token: 1, first: 1 };
    let heard = PrivateAckBody { account, gap: 1, token: 1, next: 3 };
    match which % 7 {
        0 => framed(FrameKind::Order, &order, &[7; 64]),
        1 => framed(FrameKind::OrderAck, &ack, &[]),
        2 => framed(FrameKind::Grant, &grant, &[]),
        3 => framed(FrameKind::Attach, &attach, &[]),
        4 => framed(FrameKind::AttachReply, &reply, &[]),
        5 => framed(FrameKind::Private, &private, &[1; 16]),
        _ => framed(FrameKind::PrivateAck, &heard, &[]),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn mutated_frames_never_panic(
        frames in prop::collection::vec(
            (0usize..7, prop::collection::vec((16usize..80, any::<u8>()), 0..4), 0u64..300_000_000),
            1..60,
        ),
    ) {
        let mut everything = Everything::new();
        for (which, mutations, pause) in frames {
            let mut bytes = good(which);
            for (at, value) in mutations {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            everything.hear(&bytes);
            everything.go_on(pause);
        }
    }

    #[test]
    fn arbitrary_bodies_never_panic(
        kind in 4u8..13,
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut everything = Everything::new();
        let mut datagram = HopHeader::new(FrameKind::Data, NodeId(3), 1).as_bytes().to_vec();
        datagram[1] = kind;
        datagram.extend_from_slice(&bytes);
        everything.hear(&datagram);
        everything.go_on(1_000_000_000);
    }
}
