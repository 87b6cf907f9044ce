//! What a whole exchange is made of, as plain values; `fairbell` reads it from TOML, the simulator
//! makes it up from a seed.

use crate::{OverlayOptions, Timetable, TreeShape};
use book::Capacity;
use engine::{InstrumentRules, Limits};
use overlay::retransmission::StoreConfig;
use overlay::topology::{Topology, TopologyError, Tree};
use types::{AccountId, GatewayId, Instrument, Nanos, NodeId, SelfTrade};

/// One participant account and the login of its order-entry sessions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Account {
    /// Dense identifier from 1.
    pub id: AccountId,
    /// SoupBinTCP user name, at most 6 bytes.
    pub username: String,
    /// SoupBinTCP password, at most 10 bytes.
    pub password: String,
    /// Its orders are cancelled when its session has been gone for a second.
    pub cancel_on_disconnect: bool,
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
    /// Connections a gateway takes at one time.
    pub connections_max: usize,
    /// What the retransmission server keeps.
    pub store: StoreConfig,
    /// Inputs the log can hold.
    pub log_capacity: usize,
    /// Open orders the engine can hold.
    pub open_orders_max: usize,
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
    /// Accounts or the log's capacity.
    PrivateStreams,
    /// An account's login does not fit SoupBinTCP.
    Login(String),
    /// A tree needs more proxies than there are.
    TooFewProxies,
    /// The cipher of sealed datagrams can't be set up.
    Cipher,
}

impl std::fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ExchangeError::Topology(error) => error.fmt(f),
            ExchangeError::Engine(error) => error.fmt(f),
            ExchangeError::PrivateStreams => f.write_str("too many accounts, or no log capacity"),
            ExchangeError::TooFewProxies => f.write_str("that tree needs more proxies"),
            ExchangeError::Cipher => f.write_str("the cipher of sealed datagrams is not there"),
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

    /// The tree of proxies and receivers at the start.
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
        let topology = match spares {
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
        engine::Config {
            accounts_max: self.accounts.len(),
            gateways_max: self.receivers,
            book: Capacity {
                orders: self.open_orders_max as u32,
                ..engine::Config::new(Vec::new()).book
            },
            rules: self.rules.clone(),
            limits: self.limits,
            self_trade: self.self_trade.clone(),
            ..engine::Config::new(self.instruments.clone())
        }
    }
}
