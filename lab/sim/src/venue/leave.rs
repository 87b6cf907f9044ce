//! A participant that leaves for good with orders in the book, and wants them cancelled then.
//!
//! It rests orders far from the market and goes on entering more, until at a time drawn from the
//! seed its machine is gone, alone or at the same instant as its gateway. From then on only the
//! exchange can cancel what it has. Whether that is done in time is read from the input log alone.

use std::collections::BTreeMap;

use exchange::ExchangeConfig;
use participant::{
    Action, ClientConfig, Driver, DriverConfig, FlowMessage, Schedule, Source, Special,
};
use types::{
    AccountId, CancelReason, ExecutionKind, Input, Nanos, OrderType, Price, Qty, Side, SplitMix64,
    TimeInForce,
};

use super::checks::Cast;
use super::faults::{Striker, below};
use super::fuzz::Dice;
use super::report::{Checker, Failures};
use super::scenario::{Places, Plan, Scenario};
use crate::world::Fault;

/// How long orders stay when their session is gone, in ns.
pub(super) const GRACE_NS: u64 = 200 * Nanos::MILLI;
/// What looking now and then, asking for the stream and lossy ways may take besides, in ns.
const SLACK_NS: u64 = 300 * Nanos::MILLI;
/// Orders before the play begins.
const RESTING: u64 = 6;
/// Orders in a second from then on.
const PER_S: u64 = 150;

/// How a session ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Departure {
    /// The connection closes.
    HangsUp,
    /// The gateway dies at the same instant and later begins anew, knowing nothing.
    WithGateway,
}

/// A session that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    account: AccountId,
    /// When, by true time.
    at: Nanos,
    with_gateway: bool,
    /// Nothing else went wrong: the bound counts from the end of the session.
    undisturbed: bool,
    /// Its orders have to be gone by then.
    due: Nanos,
}

impl Departure {
    /// Drawn for some of the seeds.
    pub(super) fn random(seed: u64) -> Option<Departure> {
        let mut dice = Dice(SplitMix64::new(SplitMix64::mix(seed) ^ 0x1EAF));
        let how = if dice.chance(500) { Departure::HangsUp } else { Departure::WithGateway };
        dice.chance(300).then_some(how)
    }

    /// The node of the one who leaves.
    pub(super) fn driver(
        scenario: &Scenario,
        config: &ExchangeConfig,
        places: Places,
    ) -> Option<Driver> {
        let index = usize::from(scenario.participants);
        let account = config.accounts.get(index)?;
        let gateways = scenario.gateways(index, places);
        let mut client = ClientConfig::new(&account.username, &account.password, gateways);
        client.orders_max = 1 << 16;
        let mut settings = DriverConfig::new(config.instruments.clone(), vec![client]);
        settings.start_delay_ns = 0;
        let order = |number| order(config, number);
        let flow = (RESTING..RESTING + 1 + PER_S * scenario.flow_ns() / Nanos::SECOND).map(order);
        let mut schedule = Schedule::default();
        schedule.add(Source::Recorded(flow.collect()), PER_S);
        Driver::new(settings, (0..RESTING).map(order).collect(), schedule).ok()
    }

    /// Schedules the end of the session.
    pub(super) fn strike(self, striker: &mut Striker<'_>, plan: &mut Plan) -> Left {
        let (scenario, places) = (striker.scenario, striker.places);
        let quiet = scenario.faults.as_ref().is_some_and(Vec::is_empty);
        let undisturbed = quiet && scenario.replicas == 0;
        let span = striker.until.since(striker.from).max(1);
        let at = striker.from.after(below(&mut striker.rng, span));
        let again = at.after((50 + striker.rng.below(900)) * Nanos::MILLI);
        let first = usize::from(scenario.participants) % scenario.receivers;
        let with_gateway = self == Departure::WithGateway && first < scenario.struck();
        if with_gateway {
            striker.reborn(places.edge(first), at, again);
            plan.edges_restarted += 1;
        }
        striker.world.fault(at, Fault::Kill(places.attacker()));
        let account = AccountId(u16::from(scenario.participants) + 1);
        Left { account, at, with_gateway, undisturbed, due: Nanos::NEVER }
    }
}

/// An order far from the market: only what takes everything trades with it.
fn order(config: &ExchangeConfig, number: u64) -> FlowMessage {
    let (side, price) = match number % 2 {
        0 => (Side::Buy, Price(100)),
        _ => (Side::Sell, Price::from_whole(10_000)),
    };
    let instrument = &config.instruments[number as usize % config.instruments.len()];
    FlowMessage {
        id: (1 << 41) + number,
        participant: 0,
        instrument: instrument.id,
        action: Action::New {
            side,
            qty: Qty(1),
            price,
            order_type: OrderType::Limit,
            post_only: false,
            time_in_force: TimeInForce::Day,
        },
        special: Special::None,
    }
}

impl Left {
    /// All is quiet at `now`: sets the bound, which counts from the end of the session where nothing
    /// else went wrong. A root looks for dead gateways by their silence; any gateway may have died
    /// where there are faults, and a new root counts silence from its own beginning.
    pub(super) fn set_bound(&mut self, lease_ns: u64, now: Nanos) -> Nanos {
        let lost = self.with_gateway || !self.undisturbed;
        let wait_ns = GRACE_NS + SLACK_NS + if lost { lease_ns } else { 0 };
        let from = if self.undisturbed { self.at } else { self.at.max(now) };
        self.due = from.after(wait_ns);
        self.due
    }

    /// Reads in the log whether the orders went, all of them, in time and not before their time.
    /// Gives how many went, and how often one traded before.
    pub(super) fn check(
        &self,
        cast: &Cast<'_>,
        inputs: &[Input],
        failures: &mut Failures,
    ) -> (u64, u64) {
        let config = cast.root.engine().config().clone();
        let mut open: BTreeMap<u32, u64> = BTreeMap::new();
        let (mut gone, mut executed, mut late) = (0, 0, 0);
        let earliest = self.at.after(GRACE_NS);
        engine::replay(config, inputs, |_, input, _, output| {
            // What stood in the book when the bound had passed.
            if input.t_seq > self.due {
                late = late.max(open.len());
            }
            for report in &output.executions {
                let ended = report.cancel_reason == CancelReason::Disconnect;
                let own = report.account == self.account;
                // Where other things go wrong its gateway may have been lost before. A clock is a bit
                // wrong.
                let early = self.undisturbed && input.t_seq.after(Nanos::MILLI) < earliest;
                failures.check(Checker::CancelOnDisconnect, !ended || own && !early, || {
                    let (account, seq) = (report.account.0, input.seq);
                    format!("input {seq}: cancels an order of account {account}, who is there")
                });
                if !own {
                    continue;
                }
                gone += u64::from(ended && report.leaves.0 == 0);
                executed += u64::from(report.kind == ExecutionKind::Executed);
                open.remove(&report.orig_user_ref.0);
                let refused = matches!(
                    report.kind,
                    ExecutionKind::Rejected
                        | ExecutionKind::CancelRejected
                        | ExecutionKind::MassCanceled
                );
                match report.leaves.0 {
                    _ if refused => {}
                    0 => _ = open.remove(&report.user_ref.0),
                    leaves => _ = open.insert(report.user_ref.0, leaves),
                }
            }
        });
        let left = late.max(open.len());
        failures.check(Checker::CancelOnDisconnect, left == 0, || {
            let (account, with) = (self.account.0, if self.with_gateway { ", gateway too" } else { "" });
            let waited_ms = self.due.since(self.at) / Nanos::MILLI;
            format!(
                "account {account} left{with}: {left} of its orders were in the book {waited_ms} ms \
                 later"
            )
        });
        (gone, executed)
    }

    /// Whether its gateway died with it.
    pub(super) fn with_gateway(&self) -> bool {
        self.with_gateway
    }
}
