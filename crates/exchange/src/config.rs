//! What a whole exchange is made of, as plain values; `fairbell` reads it from TOML, the simulator
//! makes it up from a seed.

use crate::{OverlayOptions, Spread, Timetable, TreeShape};
use book::Capacity;
use engine::{InstrumentRules, Limits};
use gateway::{AccessConfig, FixLogin, LoginTerms, Throttle};
use overlay::retransmission::StoreConfig;
use overlay::topology::{Topology, TopologyError, Tree};
use types::limits::SHARDS_MAX;
use types::{AccountId, GatewayId, Instrument, InstrumentId, Nanos, NodeId, SelfTrade, ShardId};
use wire::moldudp::Session;

/// Most streams of a feed: their sessions differ in one letter or digit.
pub const STREAMS_MAX: u16 = 36;

/// One participant account and the login of its order-entry sessions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Account {
    /// Dense identifier from 1.
    pub id: AccountId,
    /// SoupBinTCP user name, at most 6 bytes.
    pub username: String,
    /// SoupBinTCP password, at most 10 bytes.
    pub password: String,
    /// What else it takes to be let in.
    pub terms: LoginTerms,
    /// Its orders are cancelled when its session has been gone for the grace time.
    pub cancel_on_disconnect: bool,
    /// How many requests its session may send.
    pub throttle: Throttle,
    /// Its FIX session, with the same password; then it is not served over OUCH.
    pub fix: Option<FixLogin>,
    /// Its firm: drop-copy sessions of the same name get copies of its reports; empty: of none.
    pub firm: String,
}

/// The shards of a venue, and which of them something is of. All have the same instruments, accounts and
/// sizes; each has nodes, a log, private streams and a feed of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShardPlace {
    /// The shard.
    pub id: ShardId,
    /// How many there are, 1 to [`SHARDS_MAX`].
    pub shards: u16,
    /// Where each instrument is, in their order; those left out are spread in turn.
    pub of: Vec<ShardId>,
}

impl Default for ShardPlace {
    /// The only one.
    fn default() -> ShardPlace {
        ShardPlace { id: ShardId(0), shards: 1, of: Vec::new() }
    }
}

impl ShardPlace {
    /// The shard that has the instrument at `place` of the list, from 0.
    pub fn shard_of(&self, place: usize) -> ShardId {
        let spread = ShardId((place % usize::from(self.shards.max(1))) as u16);
        self.of.get(place).copied().unwrap_or(spread)
    }
}

/// Everything that the nodes of one exchange agree on.
#[derive(Clone, Debug)]
pub struct ExchangeConfig {
    /// Hops from the root to a receiver (D).
    pub depth: usize,
    /// Fan-out (F).
    pub fanout: usize,
    /// Receiver VMs (N); each also runs a gateway.
    pub receivers: usize,
    /// Sibling hedging factor (H).
    pub hedge: usize,
    /// Parents change with every message (J2).
    pub dynamic_parents: bool,
    /// Length of a round of the deadline all-reduce, ns.
    pub round_ns: u64,
    /// One-way delays a receiver's estimate is taken from.
    pub delay_window: usize,
    /// Percentile of the one-way delay that a receiver reports, in permille.
    pub delay_permille: u32,
    /// Largest delay the root believes, ns.
    pub delay_cap_ns: u64,
    /// Resequencing window at the root, ns; 0 switches the sequencer off.
    pub sequencer_window_ns: u64,
    /// Longest time a message waits in the publisher for company, ns.
    pub linger_ns: u64,
    /// Longest time a gateway holds an execution for its public tick, ns.
    pub execution_hold_max_ns: u64,
    /// From the end of a session to the cancelling of its orders, for accounts that want it, ns.
    pub cancel_grace_ns: u64,
    /// Requests of a session that may be on their way to the log; 0: any number, and sessions share
    /// gateways and root as they come.
    pub outstanding: usize,
    /// Connections a gateway takes at one time.
    pub connections_max: usize,
    /// Limits of those who are not logged on to a gateway.
    pub access: AccessConfig,
    /// What the retransmission server keeps.
    pub store: StoreConfig,
    /// Inputs the log can hold; 0: it has no end.
    pub log_capacity: usize,
    /// Open orders the engine can hold.
    pub open_orders_max: usize,
    /// An order with the identifier of another open order of its account is refused.
    pub unique_ids: bool,
    /// Price levels of all books of a shard together.
    pub levels_max: u32,
    /// Last trades of each shard that can still be broken or corrected, 120 bytes each.
    pub trades_kept: usize,
    /// Instruments, ids dense from 1.
    pub instruments: Vec<Instrument>,
    /// How they are traded, in their order; those left out by the plain rules.
    pub rules: Vec<InstrumentRules>,
    /// Limits of every account for which none was set by command.
    pub limits: Limits,
    /// Self-trade prevention by account less one, for orders that do not choose.
    pub self_trade: Vec<SelfTrade>,
    /// The trading day: commands and when they are due.
    pub timetable: Timetable,
    /// Accounts, ids dense from 1.
    pub accounts: Vec<Account>,
    /// The log outlives the exchange's processes.
    pub durable: bool,
    /// The exchange's CompID in FIX sessions.
    pub fix_comp_id: String,
    /// The shard that this is of, where a venue has several.
    pub shard: ShardPlace,
    /// MoldUDP64 and SoupBinTCP session name.
    pub session: [u8; 10],
    /// Midnight of the venue's zone that ITCH and OUCH times count from.
    pub midnight: Nanos,
    /// Source of all randomness of the run, among it the gateways' boot nonces.
    pub seed: u64,
    /// What is used of the overlay beyond the plain tree.
    pub options: OverlayOptions,
}

/// Why no exchange can be made of a configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExchangeError {
    /// The tree.
    Topology(TopologyError),
    /// Instruments or capacities.
    Engine(engine::ConfigError),
    /// Too many accounts.
    PrivateStreams,
    /// An account's login does not fit SoupBinTCP.
    Login(String),
    /// Two FIX sessions have one CompID and version.
    FixSession(String),
    /// A drop-copy session is of no firm.
    NoFirm(String),
    /// A tree needs more proxies than there are.
    TooFewProxies,
    /// An instrument is on a tree that is not there, or there are more trees than session names.
    NoSuchTree,
    /// Trees by symbol do not change their shape.
    TreesBySymbolChange,
    /// The cipher of sealed datagrams can't be set up.
    Cipher,
    /// An instrument is on a shard that is not there, or a shard has none.
    Shards,
}

impl std::fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ExchangeError::Topology(error) => error.fmt(f),
            ExchangeError::Engine(error) => error.fmt(f),
            ExchangeError::PrivateStreams => f.write_str("too many accounts"),
            ExchangeError::TooFewProxies => f.write_str("that tree needs more proxies"),
            ExchangeError::NoSuchTree => {
                f.write_str("an instrument is on a tree that is not there, or there are too many")
            }
            ExchangeError::TreesBySymbolChange => {
                f.write_str("trees by symbol keep their shape: no other one can be asked for")
            }
            ExchangeError::Shards => {
                f.write_str("an instrument is on a shard that is not there, or a shard has none")
            }
            ExchangeError::Cipher => f.write_str("the cipher of sealed datagrams is not there"),
            ExchangeError::FixSession(comp_id) => write!(f, "FIX session {comp_id} is there twice"),
            ExchangeError::NoFirm(comp_id) => {
                write!(f, "drop-copy session {comp_id} is of no firm")
            }
            ExchangeError::Login(name) => {
                write!(f, "account {name}: user name or password does not fit SoupBinTCP")
            }
        }
    }
}

impl std::error::Error for ExchangeError {}

impl ExchangeConfig {
    /// The root's place in the overlay.
    pub const ROOT: NodeId = NodeId(0);

    /// The gateway of receiver `index`: gateway ids start at 1.
    pub fn gateway(index: usize) -> GatewayId {
        GatewayId(index as u16 + 1)
    }

    /// The trees at the start, one per stream: each has one plane for itself where the instruments
    /// are spread over the planes, else there is one with all planes.
    pub fn trees(&self) -> Result<Vec<Tree>, ExchangeError> {
        let whole = self.tree()?;
        let streams = self.options.streams();
        if self.options.spread == Spread::Messages {
            return Ok(vec![whole]);
        }
        let known = |place| self.options.stream_of(place) < streams;
        if streams.saturating_mul(self.shard.shards) > STREAMS_MAX
            || !(0..self.instruments.len()).all(known)
        {
            return Err(ExchangeError::NoSuchTree);
        }
        let first = TreeShape { depth: self.depth, fanout: self.fanout };
        if self.options.shapes.iter().any(|shape| *shape != first) {
            return Err(ExchangeError::TreesBySymbolChange);
        }
        let tree = |stream| {
            let topology = whole.topology.with_only_plane(stream)?;
            Some(Tree { topology, stream, ..whole })
        };
        (0..streams).map(|stream| tree(stream).ok_or(ExchangeError::NoSuchTree)).collect()
    }

    /// The stream that carries an instrument; the first one for what is no instrument.
    pub fn stream_of(&self, instrument: InstrumentId) -> u16 {
        let place = usize::from(instrument.0).checked_sub(1);
        place.map_or(0, |place| self.options.stream_of(place))
    }

    /// The same configuration of another shard of the venue.
    pub fn of_shard(&self, id: ShardId) -> ExchangeConfig {
        let mut config = self.clone();
        config.shard.id = id;
        config
    }

    /// The configurations of all shards, in their order.
    pub fn all_shards(&self) -> impl Iterator<Item = ExchangeConfig> {
        (0..self.shard.shards).map(|shard| self.of_shard(ShardId(shard)))
    }

    /// Whether this shard has an instrument.
    pub fn holds(&self, instrument: InstrumentId) -> bool {
        let place = usize::from(instrument.0).checked_sub(1);
        place.is_some_and(|place| self.shard.shard_of(place) == self.shard.id)
    }

    /// What places instruments on shards has to be sound.
    pub(crate) fn check_shards(&self) -> Result<(), ExchangeError> {
        let shards = usize::from(self.shard.shards);
        let mut used = vec![false; shards];
        for place in 0..self.instruments.len() {
            let of = used.get_mut(usize::from(self.shard.shard_of(place).0));
            *of.ok_or(ExchangeError::Shards)? = true;
        }
        let sound = (1..=SHARDS_MAX).contains(&shards) && self.shard.id.0 < self.shard.shards;
        if sound && (shards == 1 || used.iter().all(|used| *used)) {
            Ok(())
        } else {
            Err(ExchangeError::Shards)
        }
    }

    /// MoldUDP64 session of a stream of this shard: the first of all has the exchange's own name, in
    /// those of others the last character goes on counting, shard by shard.
    pub fn session_of(&self, stream: u16) -> [u8; 10] {
        let stream = self.shard.id.0 * self.options.streams() + stream;
        const DIGITS: &[u8; STREAMS_MAX as usize] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
        let mut session = self.session;
        if let (Some(last), 1..) = (session.last_mut(), stream) {
            let own = DIGITS.iter().position(|digit| digit == last).unwrap_or(0);
            *last = DIGITS[(own + usize::from(stream)) % DIGITS.len()];
        }
        session
    }

    /// The sessions of the feed, of all shards, and the instruments in each, in their order.
    pub fn channels(&self) -> Vec<(Session, Vec<InstrumentId>)> {
        let of = |(config, stream): (ExchangeConfig, u16)| {
            let ids = config.instruments.iter().map(|instrument| instrument.id);
            let ids = ids.filter(|id| config.holds(*id) && config.stream_of(*id) == stream);
            (Session(config.session_of(stream)), ids.collect())
        };
        let streams = 0..self.options.streams();
        let all = self.all_shards().flat_map(|of| streams.clone().map(move |n| (of.clone(), n)));
        all.map(of).collect()
    }

    /// The tree of proxies and receivers at the start, with all its planes.
    pub fn tree(&self) -> Result<Tree, ExchangeError> {
        self.tree_of(TreeShape { depth: self.depth, fanout: self.fanout })
    }

    /// A tree of another shape, in which every node has the number that it has in all others; of
    /// the first epoch. One that needs more proxies than there are is refused.
    pub fn tree_of(&self, shape: TreeShape) -> Result<Tree, ExchangeError> {
        let first = TreeShape { depth: self.depth, fanout: self.fanout };
        // Trees with spare proxies number these behind the receivers, so they keep their shape.
        let spares = self.options.has_spares();
        let shapes = if spares { &[][..] } else { &self.options.shapes[..] };
        let wanted = self.topology(if spares { first } else { shape })?;
        let mut receivers_at = NodeId(0);
        for shape in shapes.iter().copied().chain([first]) {
            let topology = self.topology(shape)?;
            receivers_at = receivers_at.max(topology.receiver_ids().next().unwrap_or_default());
        }
        let standby = self.options.standby;
        let receivers_at = NodeId(receivers_at.0.saturating_add(standby));
        let topology = match spares && standby == 0 {
            true => wanted,
            false => wanted.with_receivers_at(receivers_at).map_err(ExchangeError::Topology)?,
        };
        if topology.receiver_ids().next() > Some(receivers_at) {
            return Err(ExchangeError::TooFewProxies);
        }
        Ok(Tree {
            topology,
            hedge: self.hedge,
            dynamic: self.dynamic_parents,
            epoch: 1,
            stream: 0,
            round_ns: self.round_ns,
        })
    }

    fn topology(&self, shape: TreeShape) -> Result<Topology, ExchangeError> {
        Topology::new(shape.depth, shape.fanout, self.receivers)
            .and_then(|topology| topology.with_hedging(self.options.hedging))
            .map_err(ExchangeError::Topology)
    }

    /// The engine's part; the audit and the offline replay use the very same.
    pub fn engine(&self) -> engine::Config {
        let several = self.shard.shards > 1;
        let rule = |(place, instrument): (usize, &Instrument)| {
            let rules = self.rules.get(place).copied();
            let rules = rules.unwrap_or_else(|| InstrumentRules::of(instrument));
            InstrumentRules { held: rules.held && self.holds(instrument.id), ..rules }
        };
        let rules = match several {
            true => self.instruments.iter().enumerate().map(rule).collect(),
            false => self.rules.clone(),
        };
        engine::Config {
            shard: self.shard.id,
            shards: self.shard.shards,
            accounts_max: self.accounts.len(),
            gateways_max: self.receivers,
            book: Capacity {
                orders: self.open_orders_max as u32,
                levels: self.levels_max,
                ..engine::Config::new(Vec::new()).book
            },
            rules,
            limits: self.limits,
            trades_kept: self.trades_kept,
            unique_cl_ord_id: self.unique_ids,
            self_trade: self.self_trade.clone(),
            ..engine::Config::new(self.instruments.clone())
        }
    }
}
