//! A random day of two gateways and three accounts, and roots in spill stores that survive them.

use std::sync::{Arc, Mutex};

use engine::log::{Draft, InputLog};
use exchange::{CheckpointError, ExchangeConfig, Root, group_root, set_phase};
use overlay::{private_sender::PrivateStreams, publisher::Publisher, retransmission::StoreConfig};
use types::{
    AccountId, Checked, ClOrdId, ClockReading, Command, CommandKind, ExecutionReport, GatewayId,
    Incarnation, Input, InstrumentId, MemorySpill, Nanos, Outbox, Phase, Price, Qty, Side, Source,
    SpillStore, SplitMix64, UserRefNum,
};

use crate::common::{START, config};

/// Messages of private streams in memory: few, so that most are in the spill store alone.
const REPORTS: u64 = 256;

/// A spill store whose bytes outlive the root.
#[derive(Clone, Default)]
pub struct Kept(pub Arc<Mutex<MemorySpill>>);

impl SpillStore for Kept {
    fn put(&mut self, at: u64, bytes: &[u8]) -> bool {
        self.0.lock().expect("whole").put(at, bytes)
    }

    fn get(&self, at: u64, into: &mut [u8]) -> bool {
        self.0.lock().expect("whole").get(at, into)
    }

    fn free(&mut self, at: u64, len: u64) -> bool {
        self.0.lock().expect("whole").free(at, len)
    }
}

/// A root's spill stores: private streams, and the feed's streams.
#[derive(Default)]
pub struct SpillStores {
    pub streams: Kept,
    pub feeds: Vec<Kept>,
}

impl SpillStores {
    pub fn new(config: &ExchangeConfig) -> SpillStores {
        let feeds = (0..config.options.streams()).map(|_| Kept::default()).collect();
        SpillStores { streams: Kept::default(), feeds }
    }

    /// What is on them now, in spill stores of its own.
    pub fn copied(&self) -> SpillStores {
        let copy = |of: &Kept| Kept(Arc::new(Mutex::new(of.0.lock().expect("whole").clone())));
        SpillStores { streams: copy(&self.streams), feeds: self.feeds.iter().map(copy).collect() }
    }
}

/// A new root in spill stores.
pub fn root_on(config: &ExchangeConfig, spills: &SpillStores) -> Box<Root> {
    let (mut root, _) = group_root(config, || None).expect("an exchange");
    let block = PrivateStreams::spill_block(size_of::<ExecutionReport>());
    let streams = Checked::new(spills.streams.clone(), block);
    let feed = |of: &Kept| -> Box<dyn SpillStore> {
        Box::new(Checked::new(of.clone(), Publisher::SPILL_BLOCK))
    };
    let feeds = spills.feeds.iter().map(feed).collect();
    assert!(root.spill_output_to((Box::new(streams), REPORTS), feeds, 0));
    root
}

/// One that follows from the first input on.
pub fn follower(config: &ExchangeConfig, spills: &SpillStores) -> Box<Root> {
    let mut root = root_on(config, spills);
    root.join_group();
    root
}

/// One that was taken up.
pub fn restored(
    config: &ExchangeConfig,
    spills: &SpillStores,
    bytes: &[u8],
) -> Result<Box<Root>, CheckpointError> {
    let mut root = root_on(config, spills);
    root.restore(bytes)?;
    root.join_group();
    Ok(root)
}

pub fn checkpoint(root: &Root) -> Vec<u8> {
    let mut bytes = Vec::new();
    assert!(root.checkpoint(&mut bytes), "it has spill stores and inputs");
    bytes
}

/// An exchange of two gateways, with a retransmission store that is soon full, and in some packets
/// that wait to be filled.
pub fn exchange(seed: u64) -> ExchangeConfig {
    let mut config = config();
    (config.depth, config.fanout, config.receivers) = (2, 2, 4);
    let mut second = config.instruments[0];
    second.id = InstrumentId(2);
    second.symbol = types::Symbol::new("ETHUSD").expect("valid");
    config.instruments.push(second);
    config.store = StoreConfig { datagrams: 300, bytes: 30_000, ..StoreConfig::default() };
    config.linger_ns = if seed.is_multiple_of(2) { 3 * Nanos::MILLI } else { 0 };
    let publish = Command::new(CommandKind::PublishIndicative);
    config.timetable = exchange::Timetable::open_at_once().every(5 * Nanos::MILLI, publish);
    config
}

/// When an input is committed: shortly after its time.
pub fn at(input: &Input) -> ClockReading {
    ClockReading { now: input.t_seq.after(100_000), bound_ns: 250 }
}

pub fn commit(root: &mut Root, inputs: &[Input]) {
    let mut nobody = Outbox::default();
    for input in inputs {
        root.commit(at(input), input, &mut nobody).expect("it follows");
    }
}

/// A random day.
pub fn day(seed: u64, inputs: usize) -> Vec<Input> {
    let (mut rng, mut log) = (SplitMix64::new(seed), InputLog::new(inputs));
    let (mut now, mut lives, mut sent) = (START, [0u32; 3], [0u64; 3]);
    let mut refs = [0u32; 4];
    let named = |kind| Command { cl_ord_id: ClOrdId(*b"SCHEDULE      "), ..Command::new(kind) };
    while log.len() < inputs {
        now = now.after(rng.below(Nanos::MILLI));
        let account = 1 + rng.below(3) as usize;
        let gateway = 1 + rng.below(2) as usize;
        let own = Source::default();
        let (source, command) = match (log.len(), rng.below(200)) {
            (0, _) => (own, named(CommandKind::StartOfDay)),
            (1, _) | (_, 0) => {
                let mut grant = Command::new(CommandKind::GrantIncarnation);
                grant.user_ref = UserRefNum(rng.below(1 << 30) as u32);
                (lives[gateway], sent[gateway]) = (lives[gateway] + 1, 0);
                (Source { gateway: GatewayId(gateway as u16), ..own }, grant)
            }
            (_, 1) => (own, set_phase(InstrumentId(1), Phase::Halt)),
            (_, 2..4) => (own, set_phase(InstrumentId(0), Phase::Continuous)),
            (_, 4) => (own, set_phase(InstrumentId(2), Phase::OpeningCall)),
            (_, 5..8) => (own, named(CommandKind::PublishIndicative)),
            (_, 8) => {
                let mut all = Command::new(CommandKind::MassCancel);
                all.account = AccountId(account as u16);
                (own, all)
            }
            _ if lives[gateway] == 0 => continue,
            (_, draw) => {
                sent[gateway] += 1;
                let (gateway, incarnation) = (gateway as u16, Incarnation(lives[gateway]));
                let seq = sent[usize::from(gateway)];
                let gateway = GatewayId(gateway);
                let source = Source { gateway, incarnation, seq, ..own };
                (source, request(&mut rng, draw, account, &mut refs[account]))
            }
        };
        log.append(now, Draft { t_in: now, source, flags: 0, command }).expect("room");
    }
    log.iter().copied().collect()
}

/// An order, a cancel or a replace.
fn request(rng: &mut SplitMix64, draw: u64, account: usize, last: &mut u32) -> Command {
    let mut command = Command::new(CommandKind::NewOrder);
    command.account = AccountId(account as u16);
    command.instrument = InstrumentId(1 + rng.below(2) as u16);
    command.side = if rng.below(2) == 0 { Side::Buy } else { Side::Sell };
    (command.qty, command.price) =
        (Qty(1 + rng.below(9)), Price::from_whole(95 + rng.below(10) as i64));
    let earlier = UserRefNum(1 + rng.below(u64::from(*last).max(1)) as u32);
    match draw {
        150.. => {
            (command.kind, command.qty) = (CommandKind::Cancel, Qty(0));
            command.user_ref = earlier;
        }
        kind => {
            *last += 1;
            command.user_ref = UserRefNum(*last);
            if kind > 140 {
                (command.kind, command.orig_user_ref) = (CommandKind::Replace, earlier);
            }
        }
    }
    command
}
