//! The exchange under test: the real nodes of `exchange` in a faulty world, and what must hold.
//!
//! A run has five phases: log in and load the opening book, in half of the seeds in an opening
//! call; play the flow while links lose, repeat and reorder, a proxy dies, connections are cut and
//! nodes cannot hear each other; heal the links and wait until everything asked is answered and
//! heard (liveness); hold the closing auction; end the feed's session. Named [`Checker`]s look at
//! the run from outside while it lasts and at its end.
//!
//! Everything follows from the seed: a failing one, printed with the command that repeats it, is
//! all there is to know. Threads exist only between seeds, never inside one.

mod actor;
mod attack;
mod checks;
mod child_set;
mod day;
mod early;
mod eavesdropper;
mod expiry;
mod faults;
mod fuzz;
mod leave;
mod options;
mod rekey;
mod report;
mod sabotage;
mod scenario;
mod seat;
mod seeds;
pub mod sharded;
mod timings;
mod watch;

use std::ops::Range;

use exchange::Role;
use participant::Phase;
use types::{Command, CommandKind, Input, InstrumentId, Nanos, Trace};

pub use attack::{Attack, AttackKind, Harm, HarmCheck, harm};
pub use early::Outlet;
pub use faults::{FaultKind, FaultSpec};
pub use leave::Departure;
pub use rekey::{RekeyFigures, Rekeys};
pub use report::{Checker, FAULTS, Failure, Figures, OPTIONS, SeedReport};
pub use sabotage::Sabotage;
pub use scenario::{START, Scenario, instruments};
pub use seeds::Summary;
pub use timings::{Answer, Delivery, Service, Timings};

use crate::{
    link::LinkModel,
    world::{Blow, Fault, Sent, Tap, Verdict, World, Written},
};
use actor::Actor;
use attack::Forger;
use checks::{Cast, TapeFigures};
use leave::Left;
use rekey::Rekeyed;
use report::Failures;
use sabotage::Saboteur;
use scenario::Places;
use watch::Watch;

/// Granularity at which phases are looked at.
const STEP_NS: u64 = 2 * Nanos::MILLI;
/// Patience with logging in and loading.
const LOAD_NS: u64 = 8 * Nanos::SECOND;
/// Patience with the flow, beyond four times its length.
const FLOW_PATIENCE_NS: u64 = 4 * Nanos::SECOND;
/// What is looked at in the log after a bound has to be so much later.
const LOOK_NS: u64 = 20 * Nanos::MILLI;
/// Patience once the faults are over.
const LIVENESS_NS: u64 = 9 * Nanos::SECOND;

/// Runs one seed and says what did not hold.
pub fn run_seed(seed: u64, scenario: &Scenario) -> SeedReport {
    run_timed(seed, scenario).0
}

/// As [`run_seed`], with the times of everything.
pub fn run_timed(seed: u64, scenario: &Scenario) -> (SeedReport, Timings) {
    let (world, places) = scenario.build(seed);
    let config = scenario.config(seed);
    let trees = config.trees().expect("the exchange was built of them");
    let edges = places.edge(0)..places.listener(0);
    let dishonest = scenario.attack.and_then(|attack| attack.dishonest_edge(places));
    let mut watch = Watch::new(places.root, edges, dishonest, &config, &trees);
    watch.open_with(scenario.tap(seed));
    if scenario.replicas > 0 {
        watch.several_roots();
    }
    let listening = (scenario.snapshots_at(places), scenario.eavesdropper_at(places));
    watch.look_for_early(scenario.clock_bound_ns, listening.0, listening.1);
    let saboteur = Saboteur::new(scenario.sabotage, places.edge(places.receivers - 1));
    let forger = scenario.attack.map(|attack| attack.forger(places));
    let (figures, failures) = (Figures::default(), Failures::default());
    let tap = Eyes { watch, saboteur, forger };
    let receivers = (places.receivers - usize::from(dishonest.is_some())) as u32;
    let timings = Timings { receivers, ..Timings::default() };
    let (left, rekeyed) = (None, None);
    Run { seed, scenario, world, places, tap, left, rekeyed, failures, figures, timings }.play()
}

/// Runs many seeds on `threads` threads; `progress` hears how many are done and how many failed.
pub fn run_seeds(
    seeds: Range<u64>,
    threads: usize,
    scenario: &Scenario,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Summary {
    let again = |seed| scenario.again(seed);
    seeds::run_each(seeds, threads, &|seed| run_seed(seed, scenario), &again, progress)
}

/// Runs many seeds, each a scenario of its own: [`Scenario::random`].
pub fn fuzz_seeds(
    seeds: Range<u64>,
    threads: usize,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Summary {
    run_each_of(seeds, threads, &Scenario::random, progress)
}

/// Runs many seeds, each with the scenario that `of` makes for it.
pub fn run_each_of(
    seeds: Range<u64>,
    threads: usize,
    of: &(dyn Fn(u64) -> Scenario + Sync),
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Summary {
    let run = |seed| run_seed(seed, &of(seed));
    let again = |seed| of(seed).again(seed);
    seeds::run_each(seeds, threads, &run, &again, progress)
}

/// Sees every datagram after the injected bug has had its way with it.
struct Eyes {
    watch: Watch,
    saboteur: Saboteur,
    forger: Option<Forger>,
}

impl Tap<Actor> for Eyes {
    fn datagram(&mut self, sent: Sent<'_>) -> Verdict {
        let verdict = match &mut self.forger {
            Some(forger) => forger.datagram(&sent),
            None => self.saboteur.datagram(&sent),
        };
        match &verdict {
            Verdict::Pass => self.watch.datagram(&sent),
            Verdict::Rewrite(bytes) => self.watch.datagram(&Sent { bytes, ..sent }),
            Verdict::Drop => {}
        }
        verdict
    }

    fn stream(&mut self, written: Written<'_>) {
        self.watch.stream(&written);
    }

    fn trace(&mut self, _at: Nanos, _node: usize, _trace: &Trace) {}

    fn struck(&mut self, _at: Nanos, node: usize, blow: Blow) {
        if blow == Blow::Restarted {
            self.watch.restarted(node);
        }
    }
}

/// One seed being run.
struct Run<'s> {
    seed: u64,
    scenario: &'s Scenario,
    world: World<Actor>,
    places: Places,
    tap: Eyes,
    left: Option<Left>,
    rekeyed: Option<Rekeyed>,
    failures: Failures,
    figures: Figures,
    timings: Timings,
}

impl Run<'_> {
    fn play(mut self) -> (SeedReport, Timings) {
        if self.load() {
            self.open_day();
            self.disturb();
            self.settle();
            self.wait_for_cancels();
            self.close_day();
            self.end_session();
        }
        self.conclude()
    }

    fn phase(world: &World<Actor>, places: Places) -> Phase {
        let driver = world.node(places.driver()).and_then(Actor::as_driver);
        driver.map_or(Phase::Connecting, |driver| driver.phase())
    }

    /// Runs until `done` or the patience ends, which is a failure of liveness.
    fn until(
        &mut self,
        patience_ns: u64,
        what: &str,
        done: impl Fn(&World<Actor>) -> bool,
    ) -> bool {
        let limit = self.world.now().after(patience_ns);
        let came = self.world.run_until_idle(limit, STEP_NS, &mut self.tap, done);
        let places = self.places;
        let world = &self.world;
        self.failures.check(Checker::Liveness, came, || match Cast::find(world, places) {
            None => format!("{what}: a node is missing"),
            Some(cast) => {
                let (status, next) = (cast.driver.status(), cast.root.engine().feed_next());
                let channels = cast.listeners.iter().flat_map(|l| l.channels());
                let heard: Vec<u64> = channels.map(|channel| channel.next_seq().0).collect();
                let (phase, lost, up) = (status.phase, status.ledger.lost(), status.clients_up);
                format!(
                    "{what} did not come: {phase:?}, {lost} requests unanswered, {up} clients up, \
                     listeners at {heard:?} of {next}"
                )
            }
        });
        came
    }

    fn load(&mut self) -> bool {
        let places = self.places;
        self.until(LOAD_NS, "the opening", |world| Run::phase(world, places) >= Phase::Playing)
    }

    /// Tells the root the rest of its day.
    fn open_day(&mut self) {
        let (seed, scenario) = (self.seed, self.scenario);
        if !day::has_auctions(seed, scenario) {
            return;
        }
        let flow_ns = scenario.flow_ns();
        self.world.poke(self.places.root, &mut self.tap, |role, now, out| {
            let plan = day::plan(seed, now.now, flow_ns, scenario.participants);
            role.with_root(out, |root, _| root.set_timetable(plan));
        });
    }

    /// Closing call, closing auction, end of the day; then everybody has heard of it.
    fn close_day(&mut self) {
        if !day::has_auctions(self.seed, self.scenario) {
            return;
        }
        let all = InstrumentId(0);
        self.operator(exchange::set_phase(all, types::Phase::ClosingCall));
        let closing = self.world.now().after(day::CLOSING_NS);
        let patience = 10 * day::CLOSING_NS;
        self.until(patience, "the closing auction", |world| world.now() >= closing);
        self.operator(exchange::set_phase(all, types::Phase::Closed));
        self.operator(Command::new(CommandKind::EndOfDay));
        let places = self.places;
        self.until(LIVENESS_NS, "the end of the day", |world| {
            Cast::find(world, places).is_some_and(|cast| cast.all_heard() && cast.all_told())
        });
    }

    fn operator(&mut self, command: Command) {
        self.world.poke(self.places.root, &mut self.tap, |role, now, out| {
            role.with_root(out, |root, out| root.operator(now, command, out));
        });
    }

    /// Plays the flow with everything that goes wrong, then heals the links.
    fn disturb(&mut self) {
        let places = self.places;
        let from = self.world.now();
        let flow_ns = self.scenario.flow_ns();
        let until = from.after(200 * Nanos::MILLI + flow_ns / 2);
        let plan = self.scenario.plan(self.seed, &mut self.world, places, (from, until));
        self.left = plan.left;
        self.rekeyed = self.scenario.rekey(self.seed, &mut self.world, places, from);
        let until = self.rekeyed.as_ref().map_or(until, |rekeyed| until.max(rekeyed.over));
        if let Some(attack) = self.scenario.attack {
            attack.strike(&mut self.world, places, from);
        }
        let figures = &mut self.figures;
        figures.proxies_killed = plan.proxies_killed;
        figures.proxies_restarted = plan.proxies_restarted;
        figures.edges_restarted = plan.edges_restarted;
        figures.listeners_restarted = plan.listeners_restarted;
        figures.one_way_partitions = plan.one_way_partitions;
        figures.partitions = plan.partitions;
        figures.isolations = plan.isolations;
        figures.cut_off = plan.cut_off;
        let cut_before = self.world.stats().streams_cut;
        let patience = (4 * flow_ns).max(until.since(from)) + FLOW_PATIENCE_NS;
        self.until(patience, "the end of the flow", |world| {
            Run::phase(world, places) >= Phase::Draining && world.now() > until
        });
        self.figures.connections_cut = self.world.stats().streams_cut - cut_before;
        // With restarts there may be nothing left to cut.
        let came = plan.cuts_planned == 0 || self.figures.connections_cut > 0;
        let came = came || plan.edges_restarted > 0;
        self.failures.check(Checker::Sound, came, || "a planned cut did not come".to_string());
        fn heal(model: LinkModel) -> LinkModel {
            LinkModel { loss_permille: 0, duplicate_permille: 0, reorder_permille: 0, ..model }
        }
        self.world.fault(self.world.now(), Fault::ChangeLinks(heal));
        self.world.fault(self.world.now(), Fault::ClearWeather);
        self.world.poke(places.root, &mut self.tap, |actor, _, _| {
            if let Some(group) = actor.group_mut() {
                group.heal();
            }
        });
    }

    /// Everything asked is answered and everything said is heard.
    fn settle(&mut self) {
        let (places, clients) = (self.places, u64::from(self.scenario.participants));
        self.until(LIVENESS_NS, "quiet", |world| {
            Cast::find(world, places).is_some_and(|cast| {
                let status = cast.driver.status();
                let answered = status.phase == Phase::Idle && status.ledger.lost() == 0;
                answered && status.clients_up == clients && cast.all_heard() && cast.all_told()
            })
        });
        self.until(LIVENESS_NS, "the end of all orders that are past theirs", |world| {
            Cast::find(world, places).is_some_and(|cast| !expiry::left_over(&cast, world.now()))
        });
        // What came of that is heard, too.
        self.until(LIVENESS_NS, "quiet again", |world| {
            Cast::find(world, places).is_some_and(|cast| cast.all_heard() && cast.all_told())
        });
        let Some(cast) = Cast::find(&self.world, places) else { return };
        let left = expiry::left_over(&cast, self.world.now());
        self.failures.check(Checker::NothingExpired, !left, || "an order has not ended".into());
        checks::books_equal(&cast, "when all is quiet", &mut self.failures);
        let resting = cast.root.engine().open_orders();
        self.failures.check(Checker::BooksEqual, resting > 0, || "the books are empty".to_string());
    }

    /// The orders of somebody who left have their time to go.
    fn wait_for_cancels(&mut self) {
        let root = self.world.node(self.places.root).and_then(Actor::as_root);
        let lease_ns = root.map_or(0, |root| root.private().lease_ns());
        let now = self.world.now();
        let Some(left) = &mut self.left else { return };
        let due = left.set_bound(lease_ns, now).after(LOOK_NS);
        let patience = due.since(now) + LOOK_NS;
        self.until(patience, "the bound of the cancels", |world| world.now() >= due);
    }

    fn end_session(&mut self) {
        let places = self.places;
        self.world.poke(places.root, &mut self.tap, |role, now, out| {
            role.with_root(out, |root, out| root.end_session(now, out));
        });
        self.until(LIVENESS_NS, "the end of the session", |world| {
            Cast::find(world, places).is_some_and(|cast| {
                let ended = cast.listeners.iter().all(|listener| listener.ended());
                ended && cast.all_heard() && cast.all_told()
            })
        });
        self.until(LIVENESS_NS, "the same at all replicas", |world| {
            let group = world.node(places.root).and_then(Actor::group);
            group.is_none_or(|group| group.is_settled())
        });
    }

    fn conclude(mut self) -> (SeedReport, Timings) {
        let (places, seed) = (self.places, self.seed);
        let tape = self.tape();
        let judge = |rekeyed: &Rekeyed| rekeyed.judge(&self.world, &mut self.failures);
        let rekeys = self.rekeyed.as_ref().map(judge).unwrap_or_default();
        if self.scenario.attack.is_none() {
            checks::clocks(&self.world, &mut self.failures);
        }
        if let Some(group) = self.world.node_mut(places.root).and_then(Actor::group_mut) {
            for (at, stream, messages, deadline) in group.take_unheard() {
                self.tap.watch.unheard(at, stream, messages, deadline);
            }
        }
        self.tap.watch.judge();
        if let Some(group) = self.world.node_mut(places.root).and_then(Actor::group_mut) {
            group.check(&mut self.failures);
            group.count(&mut self.figures);
        }
        if let Some(cast) = Cast::find(&self.world, places) {
            let watch = &self.tap.watch;
            let failures = &mut self.failures;
            checks::answered(&cast, failures);
            self.figures.orders_expired = expiry::check(&cast, failures);
            let mut traded = 0;
            if let Some(left) = &self.left {
                let inputs: Vec<Input> = cast.root.log().iter().copied().collect();
                (self.figures.orders_left, traded) = left.check(&cast, &inputs, failures);
                self.figures.sessions_left = 1;
                self.figures.gateways_left = u64::from(left.with_gateway());
            }
            checks::both_sides(&cast, watch.prints(), (tape, traded), failures);
            checks::books_equal(&cast, "at the end", failures);
            self.figures.checkpoints =
                checks::replayed(&cast, self.scenario.sabotage, watch, failures);
            checks::sound(&cast, failures);
            checks::snapshots(&cast, self.scenario.store, failures);
            collect(&cast, &self.world, watch, &mut self.figures);
            options::collect(self.scenario, (&self.world, watch), failures, &mut self.figures);
        } else {
            self.failures.add(Checker::Sound, || "a node is missing".to_string());
        }
        let mut found = std::mem::take(&mut self.tap.watch.failures).into_vec();
        found.extend(self.failures.into_vec());
        let event_hash = self.world.event_hash();
        let again = self.scenario.again(seed);
        self.timings.deliveries = self.tap.watch.take_deliveries();
        let report =
            SeedReport { seed, failures: found, figures: self.figures, rekeys, event_hash, again };
        (report, self.timings)
    }

    fn tape(&mut self) -> TapeFigures {
        let node = self.world.node_mut(self.places.driver());
        let Some(Actor::Role(Role::Driver(driver))) = node else {
            return TapeFigures { joined: 0, unmatched: 0, mismatched: 0 };
        };
        let tape = driver.tape();
        let answers = &mut self.timings.answers;
        tape.drain_latencies(|latency| answers.push(Answer { at: latency.at, ns: latency.ns }));
        let joined = tape.trades().len() as u64;
        TapeFigures { joined, unmatched: tape.unmatched(), mismatched: tape.mismatched() }
    }
}

fn collect(cast: &Cast<'_>, world: &World<Actor>, watch: &Watch, figures: &mut Figures) {
    let (ledger, links) = (cast.driver.status().ledger, world.links().total());
    figures.proxies_replaced = cast.root.benched().len() as u64;
    figures.orders = checks::orders(cast);
    figures.requests = ledger.asked;
    figures.answered = ledger.answered;
    figures.trades = checks::trades(cast);
    figures.auctions = watch.crosses();
    figures.halts = cast.root.day().halts().len() as u64;
    figures.feed_messages = (0..watch.streams()).map(|stream| watch.published(stream).1 - 1).sum();
    figures.executions_watched = watch.executions;
    figures.feed_watched = watch.looked(Outlet::Feed);
    figures.retransmissions_watched = watch.looked(Outlet::Retransmission);
    figures.snapshots_watched = watch.looked(Outlet::Snapshot);
    figures.copies_watched = watch.looked(Outlet::DropCopy);
    figures.market_data_watched = watch.looked(Outlet::MarketData);
    figures.events = world.stats().events;
    figures.virtual_us = world.now().since(START) / Nanos::MICRO;
    figures.datagrams = links.sent;
    figures.drops = links.dropped;
    figures.duplicates = links.duplicated;
    figures.reordered = links.reordered;
    figures.blocked = links.blocked;
    let (weather, world_stats) = (world.links().weather_stats(), world.stats());
    figures.uneven_paths = weather.uneven_paths;
    figures.straggled = weather.slowed;
    figures.bursts = weather.bursts;
    figures.queued = weather.queued;
    figures.overflowed = weather.overflowed;
    figures.egress_waits = world_stats.egress_waits;
    figures.pauses = world_stats.pauses;
    figures.clock_steps = world_stats.clock_steps;
    let clocks = || (0..world.nodes().count()).filter_map(|index| world.clock(index));
    figures.clock_offsets = clocks().filter(|clock| clock.offset_ns != 0).count() as u64;
    figures.clock_drifts = clocks().filter(|clock| clock.drift_ppb != 0).count() as u64;
    figures.resends = watch.resends;
    figures.client_resends = ledger.resends;
    let receivers = || cast.edges.iter().flat_map(|edge| edge.receivers());
    figures.repairs = receivers().map(|receiver| receiver.stats().repairs_filled).sum();
    figures.skipped = receivers().map(|receiver| receiver.skipped()).sum();
    let caught_up = || cast.listeners.iter().map(|listener| listener.catch_up());
    figures.snapshots = caught_up().map(|counters| counters.loaded).sum();
    figures.joined_over = caught_up().map(|counters| counters.skipped).sum();
    figures.listener_repairs =
        cast.listeners.iter().map(|listener| listener.counters().repaired).sum();
}
