//! Participants and listeners around the pair, and eyes on the hop between.

use std::collections::BTreeMap;

use exchange::ExchangeConfig;
use feed::{ListenerConfig, Subscriber};
use overlay::frame::{self, DataBody, FrameKind, HopHeader};
use types::{
    Channel, ClockReading, ConnId, ExecutionReport, FeedSeq, GatewayId, Nanos, Node, Outbox, Peer,
    Side,
};
use wire::{
    moldudp::Packet,
    soupbin::{ClientEvent, ClientSession},
};
use zerocopy::TryFromBytes;

use crate::common::{LISTENERS, MS, Outside, Pair, enter};

/// The public retransmission server.
pub const SERVER: Peer = Peer::Addr(2);

/// A listener, and what is done to it.
pub struct Ear {
    pub listener: Subscriber,
    /// Hears nothing any more.
    pub deaf: bool,
    /// In the datagram with this message, this byte of the message is changed.
    pub flip: Option<(FeedSeq, usize)>,
}

/// One participant.
pub struct Client {
    pub soup: ClientSession,
    pub sequenced: Vec<Vec<u8>>,
    pub refused: bool,
    pub closed: bool,
}

/// Everything outside the pair.
pub struct World {
    pub now: ClockReading,
    pub clients: BTreeMap<ConnId, Client>,
    pub ears: Vec<Ear>,
    /// Keep market data from the edge.
    pub keep_feed: bool,
    /// Of that, only what is of this stream.
    pub keep_stream: Option<u16>,
    kept: Vec<Vec<u8>>,
    /// Every frame there was: whether it was for the root, and its bytes.
    pub frames: Vec<(bool, Vec<u8>)>,
    /// Messages released by the edge so far, by stream.
    pub released: [u64; 2],
    /// For each message of a stream: connection, position, and `released` at that time.
    pub told: Vec<(ConnId, u64, [u64; 2])>,
    out: Outbox,
}

impl Outside for World {
    fn to_root(&mut self, bytes: &[u8]) {
        self.frames.push((true, bytes.to_vec()));
    }

    fn to_edge(&mut self, bytes: &[u8]) -> bool {
        self.frames.push((false, bytes.to_vec()));
        let read = HopHeader::read(bytes).ok();
        let data =
            read.filter(|(header, _)| matches!(header.kind, FrameKind::Data | FrameKind::Repair));
        let stream = data.and_then(|(_, rest)| Some(frame::body::<DataBody>(rest).ok()?.0.stream));
        let kept = |stream| self.keep_stream.is_none_or(|kept| kept == stream);
        let keep = self.keep_feed && stream.is_some_and(kept);
        if keep {
            self.kept.push(bytes.to_vec());
        }
        !keep
    }

    fn feed(&mut self, to: Peer, bytes: &[u8]) {
        if to != LISTENERS {
            return;
        }
        let packet = Packet::parse(bytes).expect("a packet");
        let stream = usize::from(packet.session().0[9] - b'1');
        self.released[stream] = self.released[stream].max(packet.next_seq() - 1);
        for ear in self.ears.iter_mut().filter(|ear| !ear.deaf) {
            let mut bytes = bytes.to_vec();
            if let Some((seq, at)) = ear.flip
                && let Some(skip) = seq.0.checked_sub(packet.seq())
                && let Some(message) = packet.messages().nth(skip as usize)
            {
                let start = message.as_ptr() as usize
                    - packet.messages().next().map_or(0, |m| m.as_ptr() as usize);
                // Header, then the first message's length prefix.
                bytes[20 + 2 + start + at] ^= 1;
            }
            let (now, out) = (self.now, &mut self.out);
            ear.listener.handle_datagram(now, Channel::FEED, LISTENERS, &bytes, out);
        }
        assert!(self.out.is_empty(), "nothing is lost, so nothing is asked for");
    }

    fn stream(&mut self, conn: ConnId, bytes: &[u8]) {
        let client = self.clients.get_mut(&conn).expect("a connection");
        assert!(!client.closed, "bytes after the close");
        let (sequenced, refused) = (&mut client.sequenced, &mut client.refused);
        let (told, released) = (&mut self.told, self.released);
        client.soup.handle_bytes(self.now.now, bytes, |event| match event {
            ClientEvent::Sequenced { seq, message } => {
                sequenced.push(message.to_vec());
                told.push((conn, seq, released));
            }
            ClientEvent::Rejected(_) => *refused = true,
            ClientEvent::Violation(violation) => panic!("the edge misbehaves: {violation}"),
            _ => {}
        });
    }

    fn closed(&mut self, conn: ConnId) {
        self.clients.get_mut(&conn).expect("a connection").closed = true;
    }
}

/// A listener's settings, with many checkpoints.
pub fn settings(config: &ExchangeConfig) -> ListenerConfig {
    ListenerConfig { checkpoint_every: 4, ..exchange::listener(config, vec![SERVER]) }
}

/// The pair and its world.
pub struct Exchange {
    pub pair: Pair,
    pub world: World,
}

impl Exchange {
    /// The exchange of `config` with `listeners` listeners, its day begun.
    pub fn new(config: &ExchangeConfig, listeners: usize) -> Exchange {
        Exchange::with(config, (0..listeners).map(|_| settings(config)))
    }

    /// The same with listeners of one's own.
    pub fn with(
        config: &ExchangeConfig,
        listeners: impl IntoIterator<Item = ListenerConfig>,
    ) -> Exchange {
        Exchange::around(Pair::new(config), config, listeners)
    }

    /// With listeners, and with a root that something is done to before it begins.
    pub fn prepared(
        config: &ExchangeConfig,
        listeners: usize,
        prepare: impl FnOnce(&mut exchange::Root),
    ) -> Exchange {
        let mut pair = Pair::new(config);
        prepare(&mut pair.root);
        Exchange::around(pair, config, (0..listeners).map(|_| settings(config)))
    }

    fn around(
        pair: Pair,
        config: &ExchangeConfig,
        listeners: impl IntoIterator<Item = ListenerConfig>,
    ) -> Exchange {
        let ear = |settings| {
            let listener = match config.options.streams() {
                1 => Subscriber::new(&settings, []),
                _ => exchange::subscriber(config, &settings),
            };
            Ear { listener, deaf: false, flip: None }
        };
        let world = World {
            now: pair.now,
            clients: BTreeMap::new(),
            ears: listeners.into_iter().map(ear).collect(),
            keep_feed: false,
            keep_stream: None,
            kept: Vec::new(),
            frames: Vec::new(),
            released: [0; 2],
            told: Vec::new(),
            out: Outbox::default(),
        };
        let mut exchange = Exchange { pair, world };
        exchange.run(200 * MS);
        exchange
    }

    /// Delivers everything at this instant.
    pub fn settle(&mut self) {
        self.pair.settle(&mut self.world);
    }

    /// Lets time pass.
    pub fn run(&mut self, ns: u64) {
        let end = self.pair.now.now.after(ns);
        while self.pair.now.now < end {
            let next = self.pair.now.now.after(MS).min(end);
            self.pair.run(next, &mut self.world);
            self.world.now = self.pair.now;
        }
    }

    /// Account `n` connects and logs in on connection `n`.
    pub fn login(&mut self, n: u32) {
        let soup = ClientSession::new(&format!("USER{n}"), &format!("secret{n}")).expect("short");
        let client = Client { soup, sequenced: Vec::new(), refused: false, closed: false };
        self.world.clients.insert(ConnId(n), client);
        self.pair.edge.handle_connect(self.pair.now, ConnId(n), &mut self.pair.edge_out);
        let mut bytes = Vec::new();
        self.client_mut(n).soup.connect(Nanos(0), &mut bytes).expect("a login");
        self.write(n, &bytes);
        assert!(self.client_mut(n).soup.is_active(), "account {n} gets in");
    }

    pub fn write(&mut self, conn: u32, bytes: &[u8]) {
        let Pair { edge, edge_out, now, .. } = &mut self.pair;
        edge.handle_stream(*now, ConnId(conn), bytes, edge_out);
        self.settle();
    }

    /// Account `n` orders, and everything that follows within a few milliseconds happens.
    pub fn order(&mut self, n: u32, user_ref: u32, side: Side, price: i64, qty: u64) {
        let mut message = Vec::new();
        enter(user_ref, side, price, qty, &mut message);
        self.say(n, &message);
    }

    /// Account `n` sends an OUCH message, and so on.
    pub fn say(&mut self, n: u32, message: &[u8]) {
        let mut bytes = Vec::new();
        let now = self.pair.now.now;
        self.client_mut(n).soup.send_unsequenced(now, message, &mut bytes).expect("logged in");
        self.write(n, &bytes);
        self.run(10 * MS);
    }

    pub fn client(&self, n: u32) -> &Client {
        &self.world.clients[&ConnId(n)]
    }

    pub fn client_mut(&mut self, n: u32) -> &mut Client {
        self.world.clients.get_mut(&ConnId(n)).expect("connected")
    }

    /// OUCH types of account `n`'s stream so far.
    pub fn answers(&self, n: u32) -> String {
        self.client(n).sequenced.iter().map(|message| char::from(message[0])).collect()
    }

    /// Lets the edge have the market data that was kept from it.
    pub fn give_feed(&mut self) {
        self.world.keep_feed = false;
        for bytes in std::mem::take(&mut self.world.kept) {
            self.give_edge(&bytes);
        }
        self.run(MS);
    }

    pub fn give_edge(&mut self, bytes: &[u8]) {
        let Pair { edge, edge_out, now, .. } = &mut self.pair;
        edge.handle_datagram(*now, Channel::OVERLAY, Peer::Addr(7), bytes, edge_out);
        self.settle();
    }

    pub fn give_root(&mut self, bytes: &[u8]) {
        let Pair { root, root_out, now, .. } = &mut self.pair;
        root.handle_datagram(*now, Channel::OVERLAY, Peer::Addr(7), bytes, root_out);
        self.settle();
    }

    /// Frames of a kind so far.
    pub fn count(&self, kind: FrameKind) -> usize {
        self.frames(kind).len()
    }

    pub fn frames(&self, kind: FrameKind) -> Vec<Vec<u8>> {
        let of_kind = |bytes: &[u8]| HopHeader::read(bytes).is_ok_and(|(h, _)| h.kind == kind);
        let all = self.world.frames.iter().map(|(_, bytes)| bytes);
        all.filter(|bytes| of_kind(bytes)).cloned().collect()
    }

    /// The gateway's present life.
    pub fn life(&self) -> u32 {
        self.pair.root.engine().received(GatewayId(1)).0.0
    }

    /// The record behind a message of account `n`'s stream.
    pub fn record(&self, n: ConnId, position: u64) -> ExecutionReport {
        let account = types::AccountId(n.0 as u16);
        let bytes = self.pair.root.private().record(account, position).expect("a record");
        ExecutionReport::try_read_from_bytes(bytes).expect("a report")
    }
}
