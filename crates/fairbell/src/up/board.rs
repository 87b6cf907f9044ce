//! Figures of running nodes, copied out by the loops for whoever wants to look.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use exchange::{Capacity, Fill, Refusals, Role};
use net::Loop;
use overlay::sealed_link::SealedLinkStats;
use overlay::topology::Tree;
use participant::Status;
use types::{InstrumentId, NodeId, Price, Qty, Side};

use super::revise::Standing;
use crate::report::Hop;
use host::alarms::Alarms;
use host::capacities;
use host::config::Config;
use host::deployment::{DRIVER, LISTENERS};
use host::group::Levels;
use host::refused;

/// One instrument at the engine.
#[derive(Clone, Copy, Default, Debug)]
pub struct Top {
    /// Best bid level.
    pub bid: Option<(Price, Qty)>,
    /// Best offer level.
    pub offer: Option<(Price, Qty)>,
    /// Trades so far.
    pub trades: u64,
}

/// Market-data copies at one node.
#[derive(Clone, Copy, Default, Debug)]
pub struct HopCopies {
    /// That came.
    pub received: u64,
    /// Of them, dropped as duplicates.
    pub dropped: u64,
    /// That were due and did not come.
    pub missing: u64,
}

/// The figures.
#[derive(Clone, Default, Debug)]
pub struct Figures {
    /// By stream: position after the last message of the feed.
    pub feed_next: Vec<u64>,
    /// By instrument.
    pub tops: Vec<Top>,
    /// Inputs of the log, and those that it still takes; `None`: any.
    pub log: (u64, Option<u64>),
    /// How full the spill stores of what grows are.
    pub fill: Fill,
    /// Inputs that wait at the root until they are durable.
    pub waiting: u64,
    /// A trading day has begun and not ended.
    pub day_open: bool,
    /// How full the root's parts are, and by overlay node a gateway's.
    pub capacities: Vec<Capacity>,
    /// See `capacities`.
    pub gateways: BTreeMap<NodeId, [Capacity; 2]>,
    /// By overlay node of a gateway: logons that it refused.
    pub refusals: BTreeMap<NodeId, Refusals>,
    /// The root's replicas, where it is a group, by place.
    pub replicas: Levels,
    /// By overlay node.
    pub copies: Vec<HopCopies>,
    /// By overlay node: what its guard did.
    pub guards: Vec<SealedLinkStats>,
    /// Epoch of the tree.
    pub epoch: u32,
    /// The tree that market data comes by, where the root knows more than the configuration.
    pub tree: Option<Tree>,
    /// Proxies thought dead.
    pub dead: Vec<NodeId>,
    /// Proxies and their delays; with a roll call only.
    pub standing: Option<Standing>,
    /// By overlay node: repairs that brought something new.
    pub repairs: Vec<u64>,
    /// By overlay node: orders sent again.
    pub resends: Vec<u64>,
    /// By listener and stream: position of the message it wants next.
    pub heard: Vec<Vec<u64>>,
    /// By listener: killed.
    pub gone: Vec<bool>,
    /// By listener: messages repaired from the public server.
    pub listener_repairs: Vec<u64>,
    /// The participants.
    pub driver: Option<Status>,
}

/// The figures, shared.
pub struct Board(Mutex<Figures>);

impl Board {
    /// A board for so many overlay nodes, listeners and instruments.
    pub fn new(nodes: usize, listeners: usize, instruments: usize) -> Board {
        Board(Mutex::new(Figures {
            tops: vec![Top::default(); instruments],
            copies: vec![HopCopies::default(); nodes],
            guards: vec![SealedLinkStats::default(); nodes],
            repairs: vec![0; nodes],
            resends: vec![0; nodes],
            heard: vec![Vec::new(); listeners],
            gone: vec![false; listeners],
            listener_repairs: vec![0; listeners],
            ..Figures::default()
        }))
    }

    /// A look at them.
    pub fn figures(&self) -> Figures {
        self.lock().clone()
    }

    /// Nothing more will be heard by a listener, and nobody waits for it.
    pub fn forget_listener(&self, place: usize) {
        set(&mut self.lock().gone, place, true);
    }

    /// Copies the figures of a loop's nodes.
    pub fn observe(&self, of: &Loop<Role>) {
        let mut figures = self.lock();
        of.nodes().for_each(|(id, role)| figures.take(id, role));
    }

    /// Copies the figures of the replica at a place, from 0, and those of the root if it leads.
    pub fn observe_replica(&self, place: usize, role: &Role) {
        let mut figures = self.lock();
        if figures.replicas.observe(place, role) {
            figures.take(exchange::ExchangeConfig::ROOT, role);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Figures> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Figures {
    /// Raises and ends the alarms of what fills up.
    pub fn watch_capacities(&self, config: &Config, alarms: &Alarms) {
        let disk = capacities::journal_disk(config);
        let gateways = self.gateways.values().flatten();
        let all = self.capacities.iter().chain(gateways).copied().chain(disk);
        capacities::watch(&capacities::fullest(all), alarms);
    }

    /// Tells of logons that were refused since an earlier look.
    pub fn tell_refused(&self, before: &Figures, alarms: &Alarms) {
        let number = |node| self.gateways.keys().take_while(|id| **id <= node).count();
        refused::tell(&before.refusals, &self.refusals, number, alarms);
    }

    /// Notes what a node says of itself.
    pub fn take(&mut self, id: NodeId, role: &Role) {
        let place = usize::from(id.0);
        if let Some(stats) = role.link() {
            set(&mut self.guards, place, stats);
        }
        match role.plain() {
            Role::Root(root) => {
                self.epoch = root.membership().map_or(1, |known| known.tree().epoch);
                self.tree = root.membership().map(|known| *known.tree());
                self.standing = root.membership().map(|known| Standing::of(known, &root.benched()));
                self.dead.clear();
                self.dead.extend(root.publishers().flat_map(|of| of.failover_routes().dead()));
                self.feed_next.clear();
                self.feed_next.extend(root.router().next().iter().map(|next| next.0));
                self.fill = root.fill();
                let room = root.log().room().map(|room| room as u64);
                self.log = (root.log().len() as u64, room);
                self.waiting = root.waiting();
                self.capacities = root.capacities();
                self.day_open = root.engine().is_open();
                for (index, top) in self.tops.iter_mut().enumerate() {
                    let id = InstrumentId(index as u16 + 1);
                    let books = root.engine().books();
                    let best = |side| {
                        let level = books.best_displayed(index as u16, side)?;
                        Some((level.price, level.shown))
                    };
                    let trades = root.engine().instrument_counters(id).unwrap_or_default().trades;
                    *top = Top { bid: best(Side::Buy), offer: best(Side::Sell), trades };
                }
            }
            Role::Proxy(proxy) => {
                let stats = proxy.stats();
                set(&mut self.copies, place, copies(stats.received, &stats.filter));
            }
            Role::Edge(edge) => {
                let (mut all, mut repairs) = (HopCopies::default(), 0);
                for stats in edge.receivers().iter().map(|receiver| receiver.stats()) {
                    let of = copies(stats.received, &stats.filter);
                    all.received += of.received;
                    all.dropped += of.dropped;
                    all.missing += of.missing;
                    repairs += stats.repairs_filled;
                }
                set(&mut self.copies, place, all);
                set(&mut self.repairs, place, repairs);
                set(&mut self.resends, place, edge.gateway().uplink().counters().resent);
                self.gateways.insert(id, exchange::gateway_capacities(edge.gateway()));
                let refusals = edge.gateway().refusals();
                if self.refusals.get(&id).map_or(0, Refusals::total) != refusals.total() {
                    self.refusals.insert(id, refusals.clone());
                }
            }
            Role::Listener(_) | Role::Snapshots(_) => {
                let Some(listener) = role.as_listener() else { return };
                let place = usize::from(id.0.saturating_sub(LISTENERS.0));
                let heard = listener.channels().iter().map(|channel| channel.next_seq().0);
                set(&mut self.heard, place, heard.collect());
                set(&mut self.listener_repairs, place, listener.counters().repaired);
            }
            Role::Driver(driver) if id == DRIVER => self.driver = Some(driver.status()),
            Role::Driver(_) | Role::Sealed(_) | Role::SlowProxy(_) | Role::Member(_) => {}
        }
    }

    /// Copies by hop, from the root; `layers` are the sizes of the tree's layers.
    pub fn hops(&self, layers: &[u32]) -> Vec<Hop> {
        let mut first = 1;
        let mut hops = Vec::with_capacity(layers.len());
        for (layer, size) in layers.iter().enumerate() {
            let last = first + *size as usize;
            let nodes = self.copies.get(first..last).unwrap_or(&[]);
            let from = match layer {
                0 => "root".to_string(),
                _ => format!("layer {}", layer - 1),
            };
            let to = match layer + 1 == layers.len() {
                true => "receivers".to_string(),
                false => format!("layer {layer}"),
            };
            hops.push(Hop {
                hop: format!("{from} to {to}"),
                copies_received: nodes.iter().map(|node| node.received).sum(),
                copies_dropped: nodes.iter().map(|node| node.dropped).sum(),
                copies_missing: nodes.iter().map(|node| node.missing).sum(),
            });
            first = last;
        }
        hops
    }

    /// Messages published, all streams together.
    pub fn published(&self) -> u64 {
        self.feed_next.iter().map(|next| next.saturating_sub(1)).sum()
    }

    /// What all guards did together.
    pub fn guard(&self) -> SealedLinkStats {
        let mut sum = SealedLinkStats::default();
        self.guards.iter().for_each(|stats| sum += *stats);
        sum
    }

    /// Everything played, answered, and heard by every listener.
    pub fn is_settled(&self) -> bool {
        let idle = self.driver.is_some_and(|status| status.phase == participant::Phase::Idle);
        let mut heard = self.heard.iter().zip(&self.gone);
        idle && self.waiting == 0
            && self.replicas.are_level()
            && heard.all(|(heard, gone)| *gone || *heard == self.feed_next)
    }
}

fn copies(received: u64, filter: &overlay::duplicate_filter::FilterStats) -> HopCopies {
    HopCopies { received, dropped: filter.duplicates, missing: filter.copies_missing }
}

fn set<T>(list: &mut [T], place: usize, value: T) {
    if let Some(slot) = list.get_mut(place) {
        *slot = value;
    }
}
