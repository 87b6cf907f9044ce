//! The group over the engine: every replica's engine has the leader's state, byte for byte, and said
//! the same, also across leaders.

use crate::common::{Group, State, config};
use engine::{Config as EngineConfig, Engine, Output};
use replication::Entry;
use types::{
    AccountId, Command, CommandKind, Digest, GatewayId, Incarnation, Input, Instrument,
    InstrumentId, Nanos, Price, Qty, Seq, Side, Source, SplitMix64, Symbol,
};
use zerocopy::{IntoBytes, TryFromBytes};

/// An engine, and everything it said.
struct Exchange {
    engine: Engine,
    out: Output,
    said: Digest,
    reports: u64,
}

fn engine_config() -> EngineConfig {
    let instrument = Instrument {
        id: InstrumentId(1),
        symbol: Symbol::new("ONE").expect("a valid symbol"),
        tick: Price(1),
        price_max: Price(10_000),
        qty_max: Qty(1_000),
        lot_decimals: 0,
    };
    EngineConfig { accounts_max: 8, gateways_max: 4, ..EngineConfig::new(vec![instrument]) }
}

impl State for Exchange {
    fn new() -> Exchange {
        let (engine, out) = (Engine::new(engine_config()), Output::default());
        Exchange { engine, out, said: Digest::default(), reports: 0 }
    }

    fn apply(&mut self, entry: &Entry) {
        let Ok(input) = Input::try_read_from_bytes(&entry.record) else { return };
        self.out.clear();
        self.engine.apply(&input, &mut self.out);
        for report in &self.out.executions {
            self.reports += 1;
            let words = report.as_bytes().as_chunks::<8>().0;
            words.iter().for_each(|word| self.said.fold(u64::from_le_bytes(*word)));
        }
        for (position, _) in &self.out.market {
            self.said.fold(position.0);
        }
    }

    fn digest(&self) -> u64 {
        self.engine.state_digest()
    }
}

/// What a leader puts into the log: dense positions, one engine time.
struct Door {
    rng: SplitMix64,
    sent: u64,
}

impl Door {
    fn input(&mut self, seq: u64) -> Input {
        let mut source = Source::default();
        let command = match seq {
            1 => Command::new(CommandKind::StartOfDay),
            2 => {
                source.gateway = GatewayId(1);
                Command::new(CommandKind::GrantIncarnation)
            }
            _ => {
                self.sent += 1;
                let (gateway, incarnation) = (GatewayId(1), Incarnation(1));
                source = Source { gateway, incarnation, seq: self.sent, ..source };
                self.order()
            }
        };
        let t = Nanos(1_000 + seq * 1_000);
        Input { seq: Seq(seq), t_in: t, t_seq: t, source, flags: 0, command }
    }

    fn order(&mut self) -> Command {
        let mut command = Command::new(CommandKind::NewOrder);
        command.side = if self.rng.below(2) == 0 { Side::Buy } else { Side::Sell };
        command.account = AccountId(1 + self.rng.below(4) as u16);
        command.instrument = InstrumentId(1);
        command.user_ref.0 = self.sent as u32;
        command.qty = Qty(1 + self.rng.below(20));
        command.price = Price(100 + self.rng.below(10) as i64);
        command
    }
}

#[test]
fn engines_of_all_replicas_are_equal_also_across_leaders() {
    let mut group: Group<Exchange> = Group::new(config(3));
    let mut door = Door { rng: SplitMix64::new(1), sent: 0 };
    let mut leader = group.elect();
    let mut seq = 0;
    for step in 0..60 {
        let batch: Vec<Vec<u8>> =
            (1..=10).map(|n| door.input(seq + n).as_bytes().to_vec()).collect();
        group.propose(leader, batch).expect("serves");
        seq += 10;
        if step % 15 == 14 {
            // What it has just taken is committed; what it takes now never is.
            group.cut = vec![leader];
            let lost = door.input(seq + 1).as_bytes().to_vec();
            door.sent -= 1;
            group.propose(leader, vec![lost]).expect("it still believes to lead");
            group.kill(leader);
            let killed = leader;
            leader = group.elect();
            group.cut.clear();
            group.start(killed);
            group.pass(20);
        }
    }
    group.pass(20);
    let snapshot = |engine: &Engine| {
        let mut bytes = Vec::new();
        engine.write_snapshot(&mut bytes);
        bytes
    };
    let state = &group.node(leader).state;
    assert_eq!(state.engine.applied(), seq);
    assert!(state.reports > 600, "{} reports", state.reports);
    let (said, bytes) = (state.said, snapshot(&state.engine));
    for id in 1..=3 {
        let other = &group.node(id).state;
        assert_eq!(other.said, said, "replica {id}");
        assert!(snapshot(&other.engine) == bytes, "replica {id}");
    }
    assert!(group.node(leader).replica.counts().compared > 5);
}
