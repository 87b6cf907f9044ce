//! Twenty million inputs through a root whose log and streams are spilled at small bounds: what it
//! has allocated does not grow.

use crate::common::{LISTENERS, START, config};
use exchange::{ExchangeConfig, Role, Snapshots, deploy};
use types::{
    AccountId, ClockReading, Command, CommandKind, GatewayId, Incarnation, Input, InstrumentId,
    Nanos, Outbox, Price, Qty, Seq, ShardId, Side, Source, SpillStore, TimeInForce, UserRefNum,
};

/// Inputs that fill what is bounded, those after them, and those between two looks.
const WARM: u64 = 2_000_000;
const INPUTS: u64 = 20_000_000;
const LOOK_EVERY: u64 = 250_000;

/// Takes all and holds nothing: the root alone is weighed.
struct Void;

impl SpillStore for Void {
    fn put(&mut self, _at: u64, _bytes: &[u8]) -> bool {
        true
    }

    fn get(&self, _at: u64, _into: &mut [u8]) -> bool {
        false
    }

    fn free(&mut self, _at: u64, _len: u64) -> bool {
        true
    }
}

impl Snapshots for Void {
    fn keep(&mut self, _applied: u64, _snapshot: &[u8]) -> bool {
        true
    }

    fn forget_before(&mut self, _applied: u64) {}
}

/// The inputs: two accounts that quote, trade and cancel, and a third one's flood of orders that
/// find nothing, over days of two million inputs.
struct Flow {
    seq: u64,
    refs: [u32; 3],
    transport: u64,
}

const DAY: u64 = 2_000_000;

impl Flow {
    fn order(&mut self, account: u16, side: Side, price: i64, life: TimeInForce) -> Command {
        let next = &mut self.refs[usize::from(account) - 1];
        *next += 1;
        let mut command = Command::new(CommandKind::NewOrder);
        (command.account, command.instrument) = (AccountId(account), InstrumentId(1));
        (command.side, command.price, command.qty) = (side, Price::from_whole(price), Qty(1));
        (command.time_in_force, command.user_ref) = (life, UserRefNum(*next));
        command
    }

    fn command(&mut self) -> Command {
        match self.seq % DAY {
            0 => return Command::new(CommandKind::EndOfDay),
            1 => return Command::new(CommandKind::StartOfDay),
            _ => {}
        }
        match self.seq % 8 {
            0 => self.order(1, Side::Sell, 51, TimeInForce::Day),
            1 => self.order(2, Side::Buy, 51, TimeInForce::Day),
            2 => self.order(1, Side::Buy, 49, TimeInForce::Day),
            3 => {
                let mut command = Command::new(CommandKind::Cancel);
                command.account = AccountId(1);
                command.user_ref = UserRefNum(self.refs[0]);
                command
            }
            _ => self.order(3, Side::Buy, 1, TimeInForce::ImmediateOrCancel),
        }
    }
}

impl Iterator for Flow {
    type Item = Input;

    fn next(&mut self) -> Option<Input> {
        let (mut source, mut command) =
            (Source::default(), Command::new(CommandKind::GrantIncarnation));
        command.user_ref = UserRefNum(7);
        source.gateway = GatewayId(1);
        if self.seq > 0 {
            command = self.command();
            let own = !matches!(command.kind, CommandKind::StartOfDay | CommandKind::EndOfDay);
            self.transport += u64::from(own);
            let (incarnation, seq) = (Incarnation(1), self.transport);
            source = match own {
                true => Source { gateway: GatewayId(1), shard: ShardId(0), incarnation, seq },
                false => Source::default(),
            };
        }
        self.seq += 1;
        let at = START.after(self.seq * 40 * Nanos::MICRO);
        Some(Input { seq: Seq(self.seq), t_in: at, t_seq: at, source, flags: 0, command })
    }
}

/// Bytes in use after the warm-up, and the least and the most after that.
fn weigh(inputs: u64, warm: u64, spilled: bool) -> (i64, i64, i64) {
    let config = ExchangeConfig { log_capacity: 0, ..config() };
    let mut role: Role =
        deploy(&config, exchange::Life::of(1), |_| LISTENERS).expect("an exchange").swap_remove(0);
    let now = ClockReading { now: START.after(86_400 * Nanos::SECOND), bound_ns: 0 };
    let (mut level, mut least, mut most) = (0, i64::MAX, 0);
    let done = role.with_root(&mut Outbox::default(), |root, _| {
        if spilled {
            assert!(root.spill_to((Box::new(Void), 0), (Box::new(Void), 4_096)));
            root.bound_spills(1 << 20, 64 << 20, Some(Box::new(Void)));
        }
        let flow = Flow { seq: 0, refs: [0; 3], transport: 0 };
        let weighed = flow.take(inputs as usize).inspect(|input| {
            if input.seq.0 >= warm && input.seq.0.is_multiple_of(LOOK_EVERY) {
                let bytes = counting::live_bytes();
                level = if level == 0 { bytes } else { level };
                (least, most) = (least.min(bytes), most.max(bytes));
            }
        });
        root.resume(now, weighed).expect("they follow one another");
        let counters = root.engine().counters();
        assert!(counters.accepted > inputs / 2, "{} accepted", counters.accepted);
        assert_eq!(root.counters().unencodable, 0, "days later, too");
    });
    done.expect("a root");
    (level, least, most)
}

fn is_flat((level, least, most): (i64, i64, i64)) -> bool {
    least >= level - level / 50 && most <= level + level / 50
}

#[test]
fn a_root_weighs_the_same_after_twenty_million_inputs() {
    let weights = weigh(INPUTS, WARM, true);
    assert!(is_flat(weights), "{weights:?} bytes");
}

#[test]
fn control_a_root_that_keeps_all_in_memory_is_seen_to_grow() {
    let weights = weigh(1_500_000, 500_000, false);
    assert!(!is_flat(weights), "{weights:?} bytes");
}
