//! After warm-up the engine allocates nothing.

mod tape;

use book::Capacity;
use counting::allocations;
use engine::{Applied, Config, Engine, Limits, Output};
use types::{
    AccountId, CancelReason, Command, CommandKind, ExecutionReport, GatewayId, Incarnation, Input,
    Instrument, InstrumentId, LimitKind, Nanos, OrderType, Price, Qty, Seq, ShardId, Side, Source,
    SplitMix64, Symbol, TimeInForce, UserRefNum,
};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

const ACCOUNTS: u64 = 4;

/// The only shard, or the second of several.
fn engine(shards: u16) -> Engine {
    let instrument = Instrument {
        id: InstrumentId(1),
        symbol: Symbol::new("ONE").expect("a valid symbol"),
        tick: Price(1),
        price_max: Price(10_000),
        qty_max: Qty(1_000),
        lot_decimals: 0,
    };
    // Every check is on, with room enough.
    let mut limits = Limits::NONE;
    LimitKind::ALL.into_iter().for_each(|kind| limits.set(kind, u64::MAX / 2));
    Engine::new(Config {
        book: Capacity { orders: 2_000, levels: 300, stops: 100, pegs: 100 },
        limits,
        unique_cl_ord_id: true,
        shard: ShardId(shards.min(2) - 1),
        shards,
        ..Config::new(vec![instrument])
    })
}

/// A busy market: every kind of request, duplicates, and a book that runs full.
struct Traffic {
    rng: SplitMix64,
    inputs: u64,
    /// Last transport number.
    sent: u64,
    user_refs: [u32; ACCOUNTS as usize],
}

impl Traffic {
    fn next_input(&mut self) -> Input {
        let rng = &mut self.rng;
        let account = rng.below(ACCOUNTS) as usize;
        let last = &mut self.user_refs[account];
        let recent = |rng: &mut SplitMix64, last: u32| {
            UserRefNum(last.saturating_sub(rng.below(3_000) as u32))
        };
        let mut c = Command::new(match rng.below(100) {
            0..60 => CommandKind::NewOrder,
            60..80 => CommandKind::Replace,
            _ => CommandKind::Cancel,
        });
        c.account = AccountId(account as u16 + 1);
        c.instrument = InstrumentId(1);
        c.qty = Qty(rng.below(100));
        c.side = if rng.below(2) == 0 { Side::Buy } else { Side::Sell };
        let away = rng.below(200) as i64 - 60;
        // The market's level drifts up and down, so that old orders are reached in the end.
        let middle = 4_000 + (self.inputs as i64 / 20 % 2_000 - 1_000).abs();
        c.price = Price(if c.side == Side::Buy { middle - away } else { middle + away });
        c.orig_user_ref = recent(rng, *last);
        if rng.below(4) == 0 {
            c.time_in_force = TimeInForce::ImmediateOrCancel;
        } else if rng.below(6) == 0 {
            c.time_in_force = TimeInForce::GoodTillDate;
            c.expire_at = Nanos(self.inputs + 1 + rng.below(8_000));
        }
        if rng.below(40) == 0 && c.kind == CommandKind::NewOrder {
            c.order_type = OrderType::Market;
        }
        c.user_ref = if c.kind == CommandKind::Cancel || rng.below(50) == 0 {
            recent(rng, *last)
        } else {
            *last += 1 + rng.below(2) as u32;
            UserRefNum(*last)
        };
        let again = self.sent > 0 && rng.below(50) == 0;
        self.sent += u64::from(!again);
        self.inputs += 1;
        let (gateway, incarnation) = (GatewayId(1), Incarnation(1));
        let source = Source { gateway, incarnation, seq: self.sent, ..Source::default() };
        let (seq, t) = (Seq(self.inputs), Nanos(self.inputs));
        Input { seq, t_in: t, t_seq: t, source, flags: 0, command: c }
    }
}

#[test]
fn a_warm_engine_allocates_nothing() {
    allocates_nothing(1);
    allocates_nothing(3);
}

fn allocates_nothing(shards: u16) {
    let mut engine = engine(shards);
    let shard = engine.config().shard;
    let mut out = Output::default();
    let user_refs = [0; ACCOUNTS as usize];
    let mut traffic = Traffic { rng: SplitMix64::new(7), inputs: 0, sent: 0, user_refs };
    for kind in [CommandKind::StartOfDay, CommandKind::GrantIncarnation] {
        let gateway = GatewayId(u16::from(kind == CommandKind::GrantIncarnation));
        let source = Source { gateway, shard, ..Source::default() };
        let (seq, t, command) = (Seq(0), Nanos(0), Command::new(kind));
        engine.apply(&Input { seq, t_in: t, t_seq: t, source, flags: 0, command }, &mut out);
    }
    let mut step = |engine: &mut Engine, out: &mut Output| {
        out.clear();
        let mut input = traffic.next_input();
        input.source.shard = shard;
        engine.apply(&input, out)
    };
    for _ in 0..50_000 {
        step(&mut engine, &mut out);
    }
    // A market order can sweep a side; the caller's buffers grow to that once.
    out = Output::with_capacity(10_000, 10_000);

    let (before, mut done, mut ended) = (allocations(), 0u32, 0);
    for _ in 0..200_000 {
        done += u32::from(step(&mut engine, &mut out) == Applied::Done);
        let expired = |report: &&ExecutionReport| report.cancel_reason == CancelReason::Expired;
        ended += out.executions.iter().filter(expired).count();
    }
    assert_eq!(allocations() - before, 0, "allocations in 200,000 inputs");
    let trades = engine.instrument_counters(InstrumentId(1)).map_or(0, |counts| counts.trades);
    assert!(
        done > 150_000 && trades > 20_000,
        "{done} done, {trades} trades, {:?}",
        engine.counters()
    );
    let counters = engine.counters();
    assert!(counters.duplicate_request > 1_000 && counters.duplicate_transport > 1_000);
    assert!(ended > 500, "{ended} orders ended at their time");
    assert!(counters.rejects(types::RejectReason::CapacityReached) > 100, "{counters:?}");
}
