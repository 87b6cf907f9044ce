//! The keys of all nodes are exchanged in the middle of the traffic, at slightly different times.
//!
//! Each exchange has a secret of its own; every node gets its ring of it at a time drawn from the
//! seed, within the spread. Where links lose nothing, no datagram may be lost by it, which is counted
//! at the links of all nodes. A proxy may be left out, as one whose certificate is revoked: when the
//! grace of the slowest of its peers is over, nobody may let in anything of it.

use std::{cell::RefCell, rc::Rc};

use exchange::{ExchangeConfig, Life, Role, Secret};
use overlay::{
    epochs::GRACE_NS,
    sealed_link::{Fleet, SealedLinkStats},
};
use types::{ClockReading, Nanos, NodeId, Outbox, SplitMix64};

use super::{
    actor::Actor,
    faults::START_DELAY_NS,
    fuzz::Dice,
    report::{Checker, Failures},
    sabotage::Sabotage,
    scenario::{Places, Scenario},
};
use crate::world::{Fault, World};

/// Beside the grace: clocks that differ, and datagrams under way, ns.
const SLACK_NS: u64 = 20 * Nanos::MILLI;

/// Exchanges of all keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rekeys {
    /// How many.
    pub times: u32,
    /// The first so long after orders begin to flow, each other one so long after the one before, ns.
    pub every_ns: u64,
    /// Nodes get their new keys within this, ns.
    pub spread_ns: u64,
    /// A proxy (from 0) that gets none.
    pub left_out: Option<usize>,
}

/// What exchanges of keys came to in one run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RekeyFigures {
    /// Nodes that got new keys, each time.
    pub rekeyed: u64,
    /// Times that keys were refused, of a node that lives.
    pub refused: u64,
    /// Datagrams that links opened from the first exchange on.
    pub opened: u64,
    /// Of those sent meanwhile: given up, not sent, or not let in for their keys.
    pub lost: u64,
    /// Datagrams of who was left out that were let in until its peers' grace was over.
    pub heard_before: u64,
    /// And after that.
    pub heard_after: u64,
}

/// When each node gets which keys.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    seed: u64,
    /// By exchange and node: by true time.
    at: Vec<Vec<Nanos>>,
}

impl Schedule {
    /// The secret that a node has at a time; `None`: the configuration's.
    pub(super) fn secret_at(&self, node: usize, now: Nanos) -> Option<Secret> {
        let has = |times: &Vec<Nanos>| times.get(node).is_some_and(|at| *at <= now);
        self.at.iter().rposition(has).map(|number| secret(self.seed, number))
    }

    /// When exchange `number` is begun and when all who get keys have theirs; `None` without one.
    fn span(&self, number: usize) -> Option<(Nanos, Nanos)> {
        let times = self.at.get(number)?.iter().copied().filter(|at| *at != Nanos::NEVER);
        Some((times.clone().min()?, times.max()?))
    }
}

/// The secret of exchange `number`, from 0.
fn secret(seed: u64, number: usize) -> Secret {
    let mut bytes = [0x4B; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&(number as u64).to_le_bytes());
    Secret(bytes)
}

impl Rekeys {
    /// Requests per instrument and second with which so many orders last until after the last
    /// exchange.
    pub fn rate(self, orders: u64) -> u64 {
        let ns = u64::from(self.times + 1) * self.every_ns + self.spread_ns;
        let each = orders.div_ceil(super::instruments().len() as u64);
        (each * Nanos::SECOND / ns.max(1)).max(1)
    }

    /// All secrets after the first.
    pub(super) fn secrets(self, seed: u64) -> impl Iterator<Item = Secret> {
        (0..self.times as usize).map(move |number| secret(seed, number))
    }

    /// When whom what is given, with play from `from` on. Who is left out is given nothing.
    pub(super) fn schedule(self, seed: u64, from: Nanos, places: Places) -> Schedule {
        let mut rng = SplitMix64::new(SplitMix64::mix(seed) ^ 0x4E3C);
        let left_out = self.left_out.map(|proxy| 1 + proxy);
        let mut at = Vec::new();
        for number in 1..=u64::from(self.times) {
            let first = from.after(START_DELAY_NS + number * self.every_ns);
            let mut time = |node| {
                let after = rng.below(self.spread_ns.max(1));
                if Some(node) == left_out { Nanos::NEVER } else { first.after(after) }
            };
            at.push((0..places.listener(0)).map(&mut time).collect());
        }
        Schedule { seed, at }
    }
}

/// What is looked at while the world runs.
#[derive(Default)]
struct Looks {
    figures: RekeyFigures,
    /// Of the links of all nodes when the first exchange begins.
    before: SealedLinkStats,
    /// Of who is left out, let in by anybody when that has to be over.
    heard: u64,
}

/// Exchanges under way.
pub(super) struct Rekeyed {
    looks: Rc<RefCell<Looks>>,
    left_out: Option<NodeId>,
    /// The root is no group: another one that leads is met anew, exchange or not.
    alone: bool,
    /// Everything is done and may be judged, by true time.
    pub(super) over: Nanos,
}

impl Scenario {
    /// Schedules the exchanges of keys in a world in which play begins at `from`.
    pub(super) fn rekey(
        &self,
        seed: u64,
        world: &mut World<Actor>,
        places: Places,
        from: Nanos,
    ) -> Option<Rekeyed> {
        let rekeys = self.rekeys?;
        let config = self.config(seed);
        let fleet = Fleet::of(&config.tree().ok()?.topology);
        let schedule = rekeys.schedule(seed, from, places);
        let looks = Rc::new(RefCell::new(Looks::default()));
        let nodes = places.listener(0);
        let left_out = rekeys.left_out.map(|proxy| NodeId(1 + proxy as u16));
        let (first, all_told) = schedule.span(0)?;
        let (_, last) = schedule.span(schedule.at.len() - 1)?;
        let mut tell = |at: Nanos, node: usize, mut what: Box<Told>| {
            let looks = Rc::clone(&looks);
            let tell = move |actor: &mut Actor, now: ClockReading, _: &mut Outbox| {
                what(actor, now, &mut looks.borrow_mut());
            };
            world.fault(at, Fault::Tell(node, Box::new(tell)));
        };
        for node in 0..nodes {
            let note = |actor: &mut Actor, _: ClockReading, looks: &mut Looks| {
                looks.before += actor.link().unwrap_or_default();
            };
            tell(Nanos(first.0 - 1), node, Box::new(note));
        }
        for (number, times) in schedule.at.iter().enumerate() {
            for (node, at) in times.iter().enumerate() {
                let thief = self.sabotage == Sabotage::LeakSecret;
                let at = match *at {
                    // The control: who is left out has the secret itself.
                    Nanos::NEVER if thief => times[0],
                    Nanos::NEVER => continue,
                    at => at,
                };
                let life = SplitMix64::mix(seed ^ (number as u64) << 32);
                let exchange = Exchange {
                    secret: secret(seed, number),
                    fleet: fleet.clone(),
                    node: NodeId(node as u16),
                    life: life ^ at.0 ^ (node as u64) << 48,
                    abrupt: self.sabotage == Sabotage::DropFormerKeys,
                };
                let config = config.clone();
                let give = move |actor: &mut Actor, now: ClockReading, looks: &mut Looks| {
                    let done = exchange.give(actor, now, &config);
                    let figures = &mut looks.figures;
                    *(if done { &mut figures.rekeyed } else { &mut figures.refused }) += 1;
                };
                tell(at, node, Box::new(give));
            }
        }
        for node in (0..nodes).filter(|_| left_out.is_some()) {
            let note = move |actor: &mut Actor, _: ClockReading, looks: &mut Looks| {
                let heard = left_out.and_then(|peer| actor.role()?.heard(peer));
                looks.heard += heard.unwrap_or(0);
            };
            tell(all_told.after(GRACE_NS + SLACK_NS), node, Box::new(note));
        }
        let over = last.after(GRACE_NS + rekeys.spread_ns + 10 * SLACK_NS);
        Some(Rekeyed { looks, left_out, alone: self.replicas == 0, over })
    }
}

/// What is done to a node, and noted.
type Told = dyn FnMut(&mut Actor, ClockReading, &mut Looks);

/// New keys for one node.
struct Exchange {
    secret: Secret,
    fleet: Fleet,
    node: NodeId,
    life: u64,
    /// The bug: the former keys are gone at once.
    abrupt: bool,
}

impl Exchange {
    fn give(&self, actor: &mut Actor, now: ClockReading, config: &ExchangeConfig) -> bool {
        match actor {
            Actor::Role(Role::Sealed(sealed)) if self.abrupt => {
                let queues =
                    config.options.upstream.is_some() && sealed.node().as_proxy().is_some();
                let life = Life::of(self.life);
                let link = self.secret.link(self.node, &self.fleet, life, queues);
                link.map(|link| sealed.renew(now, link)).is_some()
            }
            Actor::Role(role) => {
                let ring = self.secret.ring(self.node, &self.fleet);
                role.rekey(now, ring, Life::of(self.life))
            }
            Actor::Group(group) => group.rekey(now, &self.secret, &self.fleet, self.life),
            Actor::Eavesdropper(_) => false,
        }
    }
}

impl Rekeyed {
    /// What came of it, and what does not hold. Where links lost something, or nodes were away, what
    /// is lost says nothing of the exchange.
    pub(super) fn judge(&self, world: &World<Actor>, failures: &mut Failures) -> RekeyFigures {
        let mut looks = self.looks.borrow_mut();
        let links = world.nodes().flatten().filter_map(Actor::link);
        let after = links.fold(SealedLinkStats::default(), |mut sum, link| {
            sum += link;
            sum
        });
        let before = looks.before;
        let bad = |stats: SealedLinkStats| {
            let refused = stats.refused() - stats.unproven;
            stats.early + stats.unsent + stats.other_life + refused
        };
        let heard = world.nodes().flatten().filter_map(|actor| actor.role()?.heard(self.left_out?));
        let (heard, until_then) = (heard.sum::<u64>(), looks.heard);
        let figures = &mut looks.figures;
        figures.opened = after.opened.saturating_sub(before.opened);
        figures.lost = bad(after).saturating_sub(bad(before));
        figures.heard_before = until_then;
        figures.heard_after = heard.saturating_sub(until_then);
        let figures = *figures;
        let (total, weather) = (world.links().total(), world.links().weather_stats());
        let intact = total.dropped + total.duplicated + total.blocked + weather.overflowed == 0;
        let awake = world.stats().kills + world.stats().pauses == 0;
        let lossless = intact && awake && self.alone && self.left_out.is_none();
        failures.check(Checker::KeysExchanged, !lossless || figures.lost == 0, || {
            format!("{} datagrams were lost by an exchange of keys: {after:?}", figures.lost)
        });
        failures.check(Checker::LeftOut, figures.heard_after == 0, || {
            format!("{} datagrams of who was left out were let in", figures.heard_after)
        });
        failures.check(Checker::Sound, figures.refused == 0, || {
            format!("{} times a node refused its keys", figures.refused)
        });
        figures
    }
}

impl Scenario {
    /// The same exchange sealed, with its flow spread over the time that it takes to exchange all keys
    /// one to three times, quickly or slowly one after the other.
    pub fn with_rekeys(mut self, seed: u64) -> Scenario {
        let mut dice = Dice(SplitMix64::new(SplitMix64::mix(seed) ^ 0x4E3D));
        self.options.secret.get_or_insert(Secret([0x21; 32]));
        let times = dice.within(1, 3) as u32;
        let every_ns = dice.within(1_600, 2_400) * Nanos::MILLI;
        let spread_ns = dice.within(0, 500) * Nanos::MILLI;
        let rekeys = Rekeys { times, every_ns, spread_ns, left_out: None };
        self.orders = dice.within(200, 300);
        self.rate_per_s = rekeys.rate(self.orders);
        self.rekeys = Some(rekeys);
        self.command.push_str(" --rekey");
        self
    }
}
