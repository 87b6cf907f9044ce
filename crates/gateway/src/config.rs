//! What a gateway is told at its start.

use fix::dictionary::{CustomTags, Rules};
use types::{AccountId, GatewayId, Instrument, Nanos, NodeId};

use crate::access::throttle::Throttle;
use crate::access::{AccessConfig, LoginTerms};

/// Who may log in, as what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Login {
    /// The account.
    pub account: AccountId,
    /// User name, without padding, at most 6 bytes.
    pub username: Vec<u8>,
    /// Password, without padding, at most 10 bytes.
    pub password: Vec<u8>,
    /// What else it takes to be let in.
    pub terms: LoginTerms,
    /// Whether the orders of a session are cancelled when it ends and the account does not log in
    /// again within [`GatewayConfig::cancel_grace_ns`].
    pub cancel_on_disconnect: bool,
    /// How many requests it may send.
    pub throttle: Throttle,
    /// The account's FIX session; then it is not served over OUCH.
    pub fix: Option<FixLogin>,
}

/// A FIX session of an account, beside its password.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FixLogin {
    /// The participant's CompID.
    pub comp_id: String,
    /// The version spoken.
    pub version: fix::Version,
    /// What it is for.
    pub role: FixRole,
    /// What happens to tags of 5000 and above that its dictionary does not have.
    pub custom_tags: CustomTags,
    /// The operator's own dictionaries for what comes in; `None`: the exchange's.
    pub rules: Option<Rules>,
}

impl FixLogin {
    /// A session by the exchange's own dictionaries.
    pub fn new(comp_id: &str, version: fix::Version, role: FixRole) -> FixLogin {
        let comp_id = comp_id.to_string();
        FixLogin { comp_id, version, role, custom_tags: CustomTags::Refused, rules: None }
    }
}

/// What a FIX session is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FixRole {
    /// The account's orders.
    #[default]
    Orders,
    /// It only listens: the account's stream has the copies of its firm's reports.
    DropCopy,
    /// Market data for those without the feed; its numbers are the gateway's own and begin at 1
    /// with every Logon.
    MarketData,
}

/// A [`GatewayConfig::cancel_grace_ns`] for most: one second.
pub const CANCEL_GRACE_NS: u64 = Nanos::SECOND;

/// A [`GatewayConfig::outstanding`] for most.
pub const OUTSTANDING: u32 = 1_024;

/// A gateway's place in the overlay of one shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShardPath {
    /// Its node, shared with the receiver on the same VM.
    pub node: NodeId,
    /// The root.
    pub root: NodeId,
    /// Tree epoch.
    pub epoch: u32,
    /// Parents for orders, preferred one first.
    pub candidates: Vec<NodeId>,
}

/// A gateway's place, its participants, and its patience; times in nanoseconds.
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// The gateway.
    pub gateway: GatewayId,
    /// Where it is in the overlay of each shard of the venue, at least one.
    pub shards: Vec<ShardPath>,
    /// The shard of each instrument, in their order; 0 for those left out.
    pub shard_of: Vec<u16>,
    /// Copies of an order sent at a time, each by another of these.
    pub ways: usize,
    /// Fresh at every start.
    pub boot_nonce: u32,
    /// Session name of every private stream.
    pub session: [u8; 10],
    /// What is traded.
    pub instruments: Vec<Instrument>,
    /// The stream of its shard's feed that carries each of them, in their order; 0 for those left out.
    pub stream_of: Vec<u16>,
    /// Streams of the feed of each shard. Those of all shards are numbered in one row.
    pub streams: u16,
    /// The log outlives the exchange's processes: numbers of FIX sessions go on in their next lives.
    pub durable: bool,
    /// The exchange's CompID in FIX sessions.
    pub fix_comp_id: String,
    /// Midnight that OUCH times count from.
    pub midnight: Nanos,
    /// Who may log in.
    pub logins: Vec<Login>,
    /// Longest time an execution waits for its tick.
    pub hold_max_ns: u64,
    /// From the end of a session to the cancelling of its orders, see
    /// [`Login::cancel_on_disconnect`].
    pub cancel_grace_ns: u64,
    /// Requests of a session on their way to the log, from which on nothing more is read from it;
    /// 0: any number, and sessions share the way up as they come.
    pub outstanding: usize,
    /// Connections at one time; more are closed at once.
    pub connections_max: usize,
    /// Limits of those who are not logged on.
    pub access: AccessConfig,
}

impl GatewayConfig {
    /// The account with this user name, without padding, if it is served over OUCH: accounts with
    /// a FIX session have no other.
    pub(crate) fn account_of(&self, username: &[u8]) -> Option<AccountId> {
        let mut logins = self.logins.iter().filter(|login| login.fix.is_none());
        logins.find(|login| login.username == username).map(|login| login.account)
    }

    /// The account with this user name, without padding, however its orders are served.
    pub(crate) fn account_named(&self, username: &[u8]) -> Option<AccountId> {
        let login = self.logins.iter().find(|login| login.username == username);
        login.map(|login| login.account)
    }

    /// Whether this account's orders go with its session.
    pub(crate) fn cancels_on_disconnect(&self, account: AccountId) -> bool {
        self.logins.iter().any(|login| login.account == account && login.cancel_on_disconnect)
    }

    pub(crate) fn accounts_max(&self) -> usize {
        self.logins.iter().map(|login| usize::from(login.account.0)).max().unwrap_or(0)
    }
}
