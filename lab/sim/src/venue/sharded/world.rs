//! One seed: the venue, what goes wrong, and the checks.

use std::collections::BTreeSet;
use std::sync::Arc;

use engine::{Config, Limits};
use exchange::{
    Account, DirectError, ExchangeConfig, Life, LoginTerms, Secret, ShardPlace, Throttle,
    Timetable, Venue, deploy_venue, venue_edge,
};
use types::{
    AccountId, Channel, Command, CommandKind, Input, Instrument, InstrumentId, InstrumentParam,
    LimitKind, Nanos, Peer, Price, Qty, ShardId, SplitMix64, Symbol,
};
use wire::ouch;

use super::super::actor::Actor;
use super::super::faults::FaultKind;
use super::super::sabotage::Sabotage;
use super::super::scenario::{START, Scenario};
use super::super::seat::ReplicaGroup;
use super::audit::{Audit, audit};
use super::site::{Kind, Site, Sites, Who};
use super::trader::Trader;
use super::{Counts, Mistake, Options, Report};
use crate::clock::SimClock;
use crate::link::LinkModel;
use crate::world::{Fault, NoTap, Place, World, address};

const MILLI: u64 = Nanos::MILLI;
/// Participants.
const ACCOUNTS: u16 = 4;
/// Replicas of each shard's group.
const REPLICAS: u8 = 3;
/// Participants begin.
const BEGIN_NS: u64 = 400 * MILLI;
/// Things go wrong from the beginning until here.
const FAULTY_NS: u64 = 1_800 * MILLI;
/// Everything open is closed until here, and all that was streamed is read.
const CLOSED_NS: u64 = 14_000 * MILLI;
/// Cancels that were sent twice may be on their way so long after orders are closed.
const QUIET_NS: u64 = 500 * MILLI;
/// How long a stream may take to be read again.
const LISTEN_NS: u64 = 6_000 * MILLI;
/// Between two looks.
const STEP_NS: u64 = 10 * MILLI;
/// The operator's commands.
const COMMANDS: usize = 4;
/// Days that end meanwhile, and instruments that are to move.
const ROLLS: usize = 3;
/// A participant's door of an edge.
const ENTRY: Channel = Channel(2);

/// The operator: gives a command for all shards until it is in the first one's log.
struct Operator {
    commands: Vec<(Nanos, Command)>,
    next: usize,
    /// Number it got, and when.
    given: Option<(u32, Nanos)>,
}

struct Run {
    seed: u64,
    config: ExchangeConfig,
    limits: Vec<(LimitKind, u64)>,
    world: World<Site>,
    sites: Arc<Sites>,
    traders: Vec<usize>,
    operator: Operator,
    counts: Counts,
    mistake: Option<Mistake>,
}

pub(super) fn run(seed: u64, options: &Options) -> Report {
    let mut run = Run::new(seed, options);
    let failed = run.play().err();
    let digest = run.world.event_hash();
    Report { seed, failed, counts: run.counts, digest }
}

fn instruments(shards: u16) -> Vec<Instrument> {
    let instrument = |index: u16| Instrument {
        id: InstrumentId(index + 1),
        symbol: Symbol::new(&format!("I{index}")).expect("a valid symbol"),
        tick: Price(1),
        price_max: Price(10_000),
        qty_max: Qty(1_000),
        lot_decimals: 0,
    };
    (0..shards).map(instrument).collect()
}

fn config(
    seed: u64,
    shards: u16,
    dice: &mut SplitMix64,
) -> (ExchangeConfig, Vec<(LimitKind, u64)>) {
    let scenario =
        Scenario { depth: 2, fanout: 2, receivers: 3, participants: 4, ..Scenario::default() };
    let account = |number: u16| Account {
        firm: String::new(),
        id: AccountId(number),
        username: format!("P{number}"),
        password: format!("secret{number}"),
        terms: LoginTerms::default(),
        cancel_on_disconnect: number == 1,
        throttle: Throttle::UNLIMITED,
        fix: None,
    };
    let credit = (LimitKind::Credit, (10 + dice.below(60)) * 100);
    let orders = (LimitKind::OpenOrders, 3 + dice.below(12));
    let limits = match seed % 3 {
        0 => vec![credit],
        1 => vec![orders],
        _ => vec![credit, orders],
    };
    let mut config = scenario.config(seed);
    // Nine roots for each seed, and a dozen more when they begin anew: small ones.
    (config.store.datagrams, config.store.bytes) = (1 << 12, 1 << 20);
    config.instruments = instruments(shards);
    config.timetable = Timetable::open_at_once();
    config.accounts = (1..=ACCOUNTS).map(account).collect();
    config.limits = limits.iter().fold(Limits::NONE, |all, (kind, limit)| all.with(*kind, *limit));
    config.cancel_grace_ns = 300 * MILLI;
    // In some all datagrams are sealed, each shard's with keys of its own.
    config.options.secret = (seed % 4 == 3).then_some(Secret([seed as u8; 32]));
    // In every other seed an instrument is where the list says.
    let of = match seed % 2 {
        0 => Vec::new(),
        _ => (0..shards).rev().map(ShardId).collect(),
    };
    config.shard = ShardPlace { id: ShardId(0), shards, of };
    (config, limits)
}

impl Run {
    fn new(seed: u64, options: &Options) -> Run {
        let mut dice = SplitMix64::new(SplitMix64::mix(seed) ^ 0x5AD6);
        let (config, limits) = config(seed, options.shards, &mut dice);
        let calm = dice.below(10) == 0;
        let link = LinkModel {
            loss_permille: if calm { 0 } else { dice.below(40) as u16 },
            duplicate_permille: dice.below(40) as u16,
            reorder_permille: dice.below(60) as u16,
            reorder_ns: 20 * MILLI,
            ..Scenario::default().link
        };
        let mut world = World::new(seed, START, link);
        let life = Life::of(SplitMix64::mix(seed) ^ START.0);
        // The public feed is heard by nobody but the edge's own ear.
        let feed_of = |_| Peer::Addr(0);
        let venue = deploy_venue(&config, life, feed_of).expect("a venue");
        let (sites, traders) = build(seed, (&config, options), venue, &mut world);
        let operator = operator(&config, &limits, &mut dice);
        let counts = Counts::default();
        let mistake = options.mistake;
        let mut run =
            Run { seed, config, limits, world, sites, traders, operator, counts, mistake };
        if !calm {
            run.plan(&mut dice);
        }
        run
    }

    /// What goes wrong, and when.
    fn plan(&mut self, dice: &mut SplitMix64) {
        let span = FAULTY_NS - BEGIN_NS;
        let when = |dice: &mut SplitMix64| START.after(BEGIN_NS + dice.below(span));
        let shards = self.sites.roots.len() as u64;
        let kinds = [
            FaultKind::CrashLeader,
            FaultKind::CrashLeader,
            FaultKind::CrashReplica,
            FaultKind::PauseReplica,
            FaultKind::PartReplicas,
            FaultKind::CutReplica,
        ];
        for _ in 0..dice.below(2 + shards) {
            let root = self.sites.roots[dice.below(shards) as usize];
            let kind = kinds[dice.below(kinds.len() as u64) as usize];
            let (at, for_ns) = (when(dice), (50 + dice.below(400)) * MILLI);
            let strike = move |site: &mut Site, now: types::ClockReading, _: &mut types::Outbox| {
                if let Some(group) = site.actor_mut().and_then(Actor::group_mut) {
                    group.strike(kind, now.now, None, for_ns);
                }
            };
            self.counts.leaders_killed += u64::from(kind == FaultKind::CrashLeader);
            self.world.fault(at, Fault::Tell(root, Box::new(strike)));
        }
        for _ in 0..dice.below(3) {
            let edge = self.sites.edge + dice.below(self.sites.edges as u64) as usize;
            let root = self.sites.roots[dice.below(shards) as usize];
            let (from, ns) = (when(dice), (50 + dice.below(800)) * MILLI);
            let links = self.world.links_mut();
            links.block(root, edge, from, from.after(ns));
            links.block(edge, root, from, from.after(ns));
        }
        for _ in 0..dice.below(3) {
            let one = self.sites.roots[dice.below(shards) as usize];
            let other = self.sites.roots[dice.below(shards) as usize];
            let (from, ns) = (when(dice), (50 + dice.below(900)) * MILLI);
            self.counts.shard_links_cut += u64::from(one != other);
            let links = self.world.links_mut();
            if one != other {
                links.block(one, other, from, from.after(ns));
                links.block(other, one, from, from.after(ns));
            }
        }
        if dice.below(3) == 0 {
            let index = dice.below(self.sites.edges as u64) as usize;
            let (sites, config, seed) = (self.sites.clone(), self.config.clone(), self.seed);
            let at = when(dice);
            let again = move |now: Nanos| {
                let life = Life::of(SplitMix64::mix(seed ^ 0xED6E) ^ now.0);
                let edge = venue_edge(&config, index, life, Peer::Addr(0)).expect("an edge");
                Site::new(Who::Actor(Actor::Role(edge)), Kind::Edge, &sites, None)
            };
            self.counts.gateways_killed += 1;
            let node = self.sites.edge + index;
            self.world.fault(at, Fault::Kill(node));
            let later = at.after((1 + dice.below(300)) * MILLI);
            self.world.fault(later, Fault::Restart(node, Box::new(again)));
        }
    }

    fn play(&mut self) -> Result<(), String> {
        while self.world.now() < START.after(FAULTY_NS) {
            self.step();
        }
        self.heal();
        let done = self.settle();
        self.count();
        if !done {
            return Err(self.why_not_closed());
        }
        let logs = self.logs()?;
        let configs: Vec<Config> = self.config.all_shards().map(|config| config.engine()).collect();
        // The auditor's rules have the same mistake where it is one of the rules.
        let of_rules = [Mistake::AnswersForGone, Mistake::ForgetsSeen];
        let mistake = self.mistake.filter(|mistake| of_rules.contains(mistake));
        let fault = mistake.and_then(Mistake::of_moves);
        let audited = audit(&configs, &logs, &self.limits, fault)?;
        self.counts.references += audited.references;
        self.counts.parts_moved += audited.granted;
        self.counts.executions += audited.trades;
        self.counts.orders_moved += audited.moved;
        self.counts.instruments_moved += audited.moves;
        audited.check_states(self.roots())?;
        let streams = self.encoded(&audited);
        self.check_traders(&streams)?;
        self.check_edges()?;
        for gateway in 0..self.sites.edges {
            self.listen_again(gateway, &streams)?;
        }
        Ok(())
    }

    /// Runs until all is closed and, for [`QUIET_NS`], nothing that was still on its way has come to
    /// a log. False when it is too late for that.
    fn settle(&mut self) -> bool {
        loop {
            if !self.until(CLOSED_NS, Run::is_closed) {
                return false;
            }
            let lengths = self.log_lengths();
            let quiet_at = self.world.now().after(QUIET_NS);
            while self.world.now() < quiet_at {
                self.step();
            }
            if self.log_lengths() == lengths && self.is_closed() {
                return true;
            }
        }
    }

    fn log_lengths(&self) -> Vec<Option<usize>> {
        self.roots().map(|root| root.map(|root| root.applied().count())).collect()
    }

    /// Some time passes; the operator looks.
    fn step(&mut self) {
        let until = self.world.now().after(STEP_NS);
        self.world.run_until(until, &mut NoTap);
        self.operate();
    }

    fn until(&mut self, limit_ns: u64, done: impl Fn(&Run) -> bool) -> bool {
        while !done(self) {
            if self.world.now() >= START.after(limit_ns) {
                return false;
            }
            self.step();
        }
        true
    }

    /// Gives the next command that is due to whoever leads the first shard.
    fn operate(&mut self) {
        let now = self.world.now();
        let Some((due, command)) = self.operator.commands.get(self.operator.next).copied() else {
            return;
        };
        let root = self.sites.roots[0];
        let known = self.world.node(root).and_then(|site| site.actor()?.as_root());
        let known = known.map(|root| root.engine().directive());
        if let (Some((number, since)), Some(known)) = (self.operator.given, known) {
            if known >= number {
                // The number may have become another command's, of whoever led next.
                let expected = Command { session_seq: number, ..command };
                let taken = self
                    .world
                    .node(root)
                    .and_then(|site| site.actor()?.as_root()?.engine().directive_at(number));
                self.operator.given = None;
                if taken == Some(expected) {
                    self.operator.next += 1;
                    self.counts.commands_for_all += 1;
                    self.counts.rolls += u64::from(command.kind == CommandKind::EndOfDay);
                }
            } else if now.since(since) > 500 * MILLI {
                // Whoever had taken it has led no more before it was in the log.
                self.operator.given = None;
            }
            return;
        }
        if now < due {
            return;
        }
        let mut given = None;
        self.world.poke(root, &mut NoTap, |site, now, out| {
            given = site.call(out, |who, out| match who {
                Who::Actor(actor) => {
                    actor.with_root(out, |root, out| root.direct(now, command, out))
                }
                Who::Trader(_) => None,
            });
        });
        match given {
            Some(Ok(number)) => self.operator.given = Some((number, now)),
            Some(Err(DirectError::NotFirst)) => panic!("the first shard gives the numbers"),
            _ => {}
        }
    }

    /// All is well from now on, and participants close what they have open.
    fn heal(&mut self) {
        let now = self.world.now();
        self.world.links_mut().change_models(|link| LinkModel {
            loss_permille: 0,
            duplicate_permille: 0,
            reorder_permille: 0,
            ..link
        });
        for root in self.sites.roots.clone() {
            let site = self.world.node_mut(root);
            if let Some(group) = site.and_then(Site::actor_mut).and_then(Actor::group_mut) {
                group.heal();
            }
        }
        for trader in self.traders.clone() {
            self.world.poke(trader, &mut NoTap, |site, _, _| {
                if let Who::Trader(trader) = &mut site.who {
                    trader.close(now);
                }
            });
        }
    }

    fn traders(&self) -> impl Iterator<Item = &Trader> {
        self.traders.iter().filter_map(|index| self.world.node(*index)?.trader())
    }

    fn roots(&self) -> impl Iterator<Item = Option<&exchange::Root>> {
        self.sites.roots.iter().map(|root| self.world.node(*root)?.actor()?.as_root())
    }

    /// Each account's stream: its length in each shard, and how much of that is merged at home.
    fn is_merged(&self) -> bool {
        let roots: Option<Vec<_>> = self.roots().collect();
        let Some(roots) = roots else { return false };
        (1..=ACCOUNTS).map(AccountId).all(|account| {
            let home = usize::from((account.0 - 1) % roots.len() as u16);
            roots.iter().zip((0..).map(ShardId)).all(|(root, shard)| {
                let length = root.private().next_position(account) - 1;
                usize::from(shard.0) == home
                    || roots[home].engine().merged(account, shard) == length
            })
        })
    }

    fn directed(&self) -> bool {
        let all = self.operator.commands.len();
        let mut known = self.roots().map(|root| root.map(|root| root.engine().directive()));
        let first = known.next().flatten();
        let equal = first.is_some() && known.all(|known| known == first);
        let done = |root: Option<&exchange::Root>| {
            root.is_some_and(|root| {
                let mut ids = self.config.instruments.iter().map(|instrument| instrument.id);
                root.waiting() == 0 && ids.all(|id| root.engine().moving(id).is_none())
            })
        };
        equal && self.operator.next == all && self.roots().all(done)
    }

    /// How long the merged stream of an account is by its home's log.
    fn merged_length(&self, account: AccountId) -> Option<u64> {
        let roots: Option<Vec<_>> = self.roots().collect();
        let roots = roots?;
        let home = usize::from((account.0 - 1) % roots.len() as u16);
        let mut length = 0;
        for (shard, root) in roots.iter().enumerate() {
            let own = root.private().next_position(account) - 1;
            length += own;
            if shard == home {
                let log = root.applied();
                length -= log
                    .filter(|input| {
                        input.command.kind == CommandKind::MergeStream
                            && input.command.account == account
                    })
                    .count() as u64;
                // A word about where an instrument is: once for each move, however often it was said.
                let places = root.applied().filter(|input| {
                    input.command.kind == CommandKind::SetInstrument
                        && input.command.param == InstrumentParam::Placed as u8
                });
                let moves: BTreeSet<i64> = places.map(|input| input.command.price.0).collect();
                length -= moves.len() as u64;
            }
        }
        Some(length)
    }

    fn is_closed(&self) -> bool {
        if !self.directed() || !self.traders().all(Trader::is_done) || !self.is_merged() {
            return false;
        }
        let accounts = (1..=ACCOUNTS).map(AccountId);
        self.traders()
            .zip(accounts)
            .all(|(trader, account)| self.merged_length(account) == Some(trader.heard.len() as u64))
            && self.is_released()
    }

    /// Every edge has released all that each shard has published.
    fn is_released(&self) -> bool {
        let roots: Option<Vec<_>> = self.roots().collect();
        let Some(roots) = roots else { return false };
        (0..self.sites.edges).all(|edge| {
            let site = self.world.node(self.sites.edge + edge);
            let edge = site.and_then(Site::actor).and_then(Actor::as_edge);
            edge.is_some_and(|edge| {
                edge.receivers()
                    .iter()
                    .zip(&roots)
                    .all(|(receiver, root)| receiver.watermark().0 + 1 == root.router().next()[0].0)
            })
        })
    }

    fn why_not_closed(&self) -> String {
        let lengths: Vec<_> =
            (1..=ACCOUNTS).map(|account| self.merged_length(AccountId(account))).collect();
        let heard: Vec<_> = self.traders().map(|trader| trader.heard.len()).collect();
        let left: Vec<_> = self.traders().map(Trader::left).collect();
        let wrong: Vec<_> = self.traders().flat_map(|trader| trader.wrong.clone()).collect();
        let directives: Vec<_> =
            self.roots().map(|root| root.map(|root| root.engine().directive())).collect();
        format!(
            "not settled: merged {}, streams of {lengths:?}, heard {heard:?}, without answer or open \
             {left:?}, commands for all {directives:?} of {}, released {}, {wrong:?}",
            self.is_merged(),
            self.operator.next,
            self.is_released(),
        )
    }

    fn logs(&self) -> Result<Vec<Vec<Input>>, String> {
        let log = |root: Option<&exchange::Root>| {
            root.map(|root| root.applied().collect()).ok_or("a shard without a leader".to_string())
        };
        self.roots().map(log).collect()
    }

    /// The merged streams as OUCH has them.
    fn encoded(&self, audit: &Audit) -> Vec<Vec<Vec<u8>>> {
        let encoder = ouch::Encoder::new(&self.config.instruments, self.config.midnight);
        let encode = |report: &types::ExecutionReport| {
            let mut bytes = Vec::new();
            encoder.encode_report(report, &mut bytes).expect("a message");
            bytes
        };
        audit.merged.iter().map(|stream| stream.iter().map(encode).collect()).collect()
    }

    fn check_traders(&mut self, streams: &[Vec<Vec<u8>>]) -> Result<(), String> {
        for (number, (trader, stream)) in self.traders().zip(streams).enumerate() {
            if let Some(wrong) = trader.wrong.first() {
                return Err(format!("account {}: {wrong}", number + 1));
            }
            differs(number, "has heard", &trader.heard, stream)?;
        }
        self.counts.messages += streams.iter().map(|stream| stream.len() as u64).sum::<u64>();
        Ok(())
    }

    fn check_edges(&mut self) -> Result<(), String> {
        for edge in 0..self.sites.edges {
            let Some(site) = self.world.node(self.sites.edge + edge) else { continue };
            if site.early > 0 {
                return Err(format!(
                    "gateway {edge} told {} executions before their tick",
                    site.early
                ));
            }
            self.counts.told_public += site.told;
        }
        Ok(())
    }

    /// All read their whole streams again at one gateway.
    fn listen_again(&mut self, gateway: usize, streams: &[Vec<Vec<u8>>]) -> Result<(), String> {
        let door = address(self.sites.edge + gateway, ENTRY);
        for trader in self.traders.clone() {
            self.world.poke(trader, &mut NoTap, |site, now, out| {
                site.call(out, |who, out| {
                    if let Who::Trader(trader) = who {
                        trader.listen(now.now, door, out);
                    }
                });
            });
        }
        let limit = self.world.now().since(START) + LISTEN_NS;
        let all = |run: &Run| {
            run.traders().zip(streams).all(|(trader, stream)| trader.heard.len() >= stream.len())
        };
        let read = self.until(limit, all);
        for (number, (trader, stream)) in self.traders().zip(streams).enumerate() {
            differs(number, &format!("hears from gateway {gateway}"), &trader.heard, stream)?;
        }
        self.counts.merge_logins += self.traders.len() as u64;
        if read { Ok(()) } else { Err(format!("gateway {gateway} does not tell all")) }
    }

    fn count(&mut self) {
        let (mut orders, mut logins, mut short) = (0, 0, 0);
        for trader in self.traders() {
            orders += trader.asked;
            logins += trader.logins;
            short += trader.short;
        }
        self.counts.orders += orders;
        self.counts.merge_logins += logins;
        for edge in 0..self.sites.edges {
            let site = self.world.node(self.sites.edge + edge);
            let edge = site.and_then(Site::actor).and_then(Actor::as_edge);
            let again = edge.map_or(0, |edge| edge.gateway().counters().sent_again);
            self.counts.sent_again += again;
        }
        self.counts.parts_short += short;
        self.counts.datagrams_lost += self.world.links().total().dropped;
        for root in self.sites.roots.clone() {
            let site = self.world.node(root);
            let group = site.and_then(Site::actor).and_then(Actor::group);
            self.counts.terms += group.map_or(0, ReplicaGroup::terms);
        }
    }
}

/// Says where what somebody has heard is not what there is.
fn differs(number: usize, who: &str, heard: &[Vec<u8>], stream: &[Vec<u8>]) -> Result<(), String> {
    let same = heard.iter().zip(stream).take_while(|(heard, told)| heard == told).count();
    if same == heard.len() && same == stream.len() {
        return Ok(());
    }
    let (heard, all) = (heard.len(), stream.len());
    Err(format!("account {} {who} {heard} messages of {all}, {same} of them equal", number + 1))
}

fn operator(
    config: &ExchangeConfig,
    limits: &[(LimitKind, u64)],
    dice: &mut SplitMix64,
) -> Operator {
    let mut at = START.after(BEGIN_NS);
    let mut commands = Vec::new();
    let accounts = config.accounts.len() as u64;
    for _ in 0..COMMANDS {
        at = at.after(dice.below(400 * MILLI));
        let account = AccountId(1 + dice.below(accounts) as u16);
        let command = match dice.below(4) {
            0 => Command { account, ..Command::new(CommandKind::MassCancel) },
            1 => Command { account, param: 1, ..Command::new(CommandKind::Kill) },
            2 => Command { account, ..Command::new(CommandKind::Kill) },
            _ => {
                let (kind, limit) = limits[dice.below(limits.len() as u64) as usize];
                let qty = Qty((limit / 2).max(1) + dice.below(limit));
                Command { account, param: kind as u8, qty, ..Command::new(CommandKind::SetLimit) }
            }
        };
        commands.push((at, command));
    }
    // Instruments move at the ends of days, which go over into the next.
    for _ in 0..ROLLS {
        let at = START.after(BEGIN_NS + dice.below(FAULTY_NS - BEGIN_NS));
        let instrument = InstrumentId(1 + dice.below(config.instruments.len() as u64) as u16);
        let to = dice.below(u64::from(config.shard.shards));
        let (param, qty) = (InstrumentParam::Shard as u8, Qty(to));
        let kind = CommandKind::SetInstrument;
        commands.push((at, Command { instrument, param, qty, ..Command::new(kind) }));
        let roll = at.after(dice.below(300 * MILLI));
        commands.push((roll, Command { param: 1, ..Command::new(CommandKind::EndOfDay) }));
    }
    commands.sort_by_key(|(at, _)| *at);
    // What was asked for last moves with a last one.
    let last = commands.last().map_or(START, |(at, _)| *at).after(50 * MILLI);
    commands.push((last, Command { param: 1, ..Command::new(CommandKind::EndOfDay) }));
    Operator { commands, next: 0, given: None }
}

fn build(
    seed: u64,
    (config, options): (&ExchangeConfig, &Options),
    venue: Venue,
    world: &mut World<Site>,
) -> (Arc<Sites>, Vec<usize>) {
    let first_edge = config.tree().expect("a tree").topology.receiver_ids().next();
    let proxies = venue.shards[0].iter().flatten().count();
    let shards = venue.shards.len();
    let sites = Arc::new(Sites {
        roots: (0..shards).map(|shard| shard * proxies).collect(),
        first_edge: first_edge.expect("edges").0,
        edges: venue.edges.len(),
        edge: shards * proxies,
    });
    let mut rng = SplitMix64::new(seed ^ 0xC10D);
    let bound_ns = Scenario::default().clock_bound_ns;
    let mut clock = || SimClock {
        origin: START,
        offset_ns: rng.below(bound_ns) as i64 - bound_ns as i64 / 2,
        bound_ns,
        ..SimClock::default()
    };
    let grants = options.mistake.filter(|mistake| *mistake == Mistake::GrantsDoubled);
    for ((shard, config), nodes) in (0..).map(ShardId).zip(config.all_shards()).zip(venue.shards) {
        let config = ExchangeConfig { seed: seed ^ u64::from(shard.0) << 40, ..config };
        for (group, node) in nodes.into_iter().flatten().enumerate() {
            let (actor, group) = match group {
                0 => {
                    let nothing = Sabotage::Nothing;
                    let mut group = ReplicaGroup::new(&config, REPLICAS, bound_ns, nothing);
                    let fault = options.mistake.and_then(Mistake::of_moves);
                    fault.into_iter().for_each(|fault| group.move_wrongly(fault));
                    (Actor::Group(Box::new(group)), 0)
                }
                _ => (Actor::Role(node), 1),
            };
            let site = Site::new(Who::Actor(actor), Kind::Of(shard), &sites, grants);
            world.add(site, Place { clock: clock(), group, egress_ns: 1_000, ..Place::default() });
        }
    }
    for (index, edge) in venue.edges.into_iter().enumerate() {
        let first = options.mistake.filter(|_| index == 0);
        let edge = match first {
            Some(Mistake::RoutesWrong) => {
                let mut config = config.clone();
                let shards = config.shard.shards;
                let next = |place| ShardId((config.shard.shard_of(place).0 + 1) % shards);
                config.shard.of = (0..config.instruments.len()).map(next).collect();
                let life = Life::of(seed ^ 0xBAD);
                venue_edge(&config, index, life, Peer::Addr(0)).expect("an edge")
            }
            _ => edge,
        };
        let site = Site::new(Who::Actor(Actor::Role(edge)), Kind::Edge, &sites, first);
        let place =
            Place { clock: clock(), group: 2, egress_ns: 1_000, listens: true, overlay: None };
        world.add(site, place);
    }
    let gateways = (0..sites.edges).map(|edge| address(sites.edge + edge, ENTRY));
    let gateways: Vec<Peer> = gateways.collect();
    let trader = |account: &Account| {
        let seed = SplitMix64::mix(seed ^ u64::from(account.id.0) << 32);
        let begin = START.after(BEGIN_NS);
        let names = (account.username.as_str(), account.password.as_str());
        Trader::new(names, gateways.clone(), config.instruments.clone(), seed, begin)
    };
    let mut traders = Vec::new();
    for account in &config.accounts {
        let site =
            Site::new(Who::Trader(Box::new(trader(account))), Kind::Participant, &sites, None);
        traders.push(world.add(site, Place { group: 4, ..Place::default() }));
    }
    (sites, traders)
}
