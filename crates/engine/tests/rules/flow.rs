//! Random inputs for small books: few prices, small quantities, few accounts, and a little of
//! everything that can be wrong with a request. Fully determined by a seed.

use book::Capacity;
use engine::Config;
use types::{
    AccountId, ClOrdId, Command, CommandKind, GatewayId, Incarnation, Input, Instrument,
    InstrumentId, Nanos, OrderType, Price, Qty, Seq, ShardId, Side, Source, SplitMix64, Symbol,
    TimeInForce, UserRefNum,
};

use crate::model::Room;

pub const ACCOUNTS: u16 = 3;
pub const GATEWAYS: u16 = 2;
const TICK: i64 = 5;
/// One request before the market opens, the opening, a first life for each gateway.
const FIRST_STEPS: u64 = 2 + GATEWAYS as u64;

pub fn instruments() -> Vec<Instrument> {
    let instrument = |id, name| Instrument {
        id: InstrumentId(id),
        symbol: Symbol::new(name).expect("a valid symbol"),
        tick: Price(TICK),
        price_max: Price(60),
        qty_max: Qty(20),
        lot_decimals: 0,
    };
    vec![instrument(1, "ONE"), instrument(2, "TWO")]
}

/// Room for a seed: sometimes ample, sometimes soon used up.
pub fn room(seed: u64) -> Room {
    let mut rng = SplitMix64::new(!seed);
    let ample = rng.below(2) == 0;
    let mut pick = |tight: u64| if ample { 64 } else { 2 + rng.below(tight) as usize };
    let (orders, levels) = (pick(16), pick(4));
    Room { accounts: ACCOUNTS, gateways: GATEWAYS, orders, levels }
}

pub fn config(room: Room) -> Config {
    Config {
        accounts_max: usize::from(room.accounts),
        gateways_max: usize::from(room.gateways),
        book: Capacity {
            orders: room.orders as u32,
            levels: room.levels as u32,
            stops: 8,
            pegs: 8,
        },
        trades_kept: 64,
        ..Config::new(instruments())
    }
}

pub struct Flow {
    rng: SplitMix64,
    seq: u64,
    now: u64,
    /// By account: the last number used.
    user_refs: [u32; ACCOUNTS as usize + 2],
    /// By gateway: life and last transport number.
    lives: [(u32, u64); GATEWAYS as usize + 1],
    nonce: u32,
}

impl Flow {
    pub fn new(seed: u64) -> Flow {
        Flow {
            rng: SplitMix64::new(seed),
            seq: 0,
            now: 1_000,
            user_refs: [0; ACCOUNTS as usize + 2],
            lives: [(0, 0); GATEWAYS as usize + 1],
            nonce: 0,
        }
    }

    /// The next input. The first few open the market and give each gateway its first life.
    pub fn next_input(&mut self) -> Input {
        self.seq += 1;
        self.now += self.rng.below(50);
        let (source, command) = match self.seq {
            1 => self.request(),
            2 => (Source::default(), Command::new(CommandKind::StartOfDay)),
            n if n <= FIRST_STEPS => self.grant(n as u16 - 2, true),
            _ => match self.rng.below(1_000) {
                0..4 => (Source::default(), Command::new(CommandKind::EndOfDay)),
                4..20 => (Source::default(), Command::new(CommandKind::StartOfDay)),
                20..24 => {
                    let (gateway, fresh) = (self.rng.below(4) as u16, self.rng.below(2) == 0);
                    self.grant(gateway, fresh)
                }
                24..28 => (self.source(), Command::new(CommandKind::EndOfDay)),
                _ => self.request(),
            },
        };
        // Now and then the clock goes back: engine time must not.
        let back = if self.rng.below(20) == 0 { self.rng.below(500) } else { 0 };
        Input {
            seq: Seq(self.seq),
            t_in: Nanos(self.now),
            t_seq: Nanos(self.now - back),
            source,
            flags: 0,
            command,
        }
    }

    /// A Hello: with a new nonce, or again with the one of the gateway's first life.
    fn grant(&mut self, gateway: u16, fresh: bool) -> (Source, Command) {
        let first = self.seq <= FIRST_STEPS;
        if fresh && let Some(life) = self.lives.get_mut(usize::from(gateway)) {
            *life = (life.0 + 1, 0);
        }
        self.nonce += u32::from(fresh && !first);
        let nonce = if fresh { self.nonce } else { 0 };
        let mut command = Command::new(CommandKind::GrantIncarnation);
        // A nonce belongs to one gateway.
        command.user_ref = UserRefNum(nonce * 8 + u32::from(gateway));
        (Source { gateway: GatewayId(gateway), ..Source::default() }, command)
    }

    fn source(&mut self) -> Source {
        let gateway = self.rng.below(u64::from(GATEWAYS) + 1) as u16;
        let life = &mut self.lives[usize::from(gateway)];
        let (mut incarnation, mut seq) = (life.0, life.1 + 1);
        let mut shard = 0;
        match self.rng.below(60) {
            0 => incarnation = incarnation.wrapping_sub(1),
            1 => shard = 1,
            2 | 3 => seq = 1 + self.rng.below(life.1 + 1),
            _ => life.1 += 1,
        }
        let (gateway, incarnation) = (GatewayId(gateway), Incarnation(incarnation));
        Source { gateway, shard: ShardId(shard), incarnation, seq }
    }

    fn request(&mut self) -> (Source, Command) {
        let account = match self.rng.below(80) {
            0 => 0,
            1 => ACCOUNTS + 1,
            n => 1 + (n % u64::from(ACCOUNTS)) as u16,
        };
        let mut c = match self.rng.below(10) {
            0..5 => Command::new(CommandKind::NewOrder),
            5..8 => Command::new(CommandKind::Replace),
            _ => Command::new(CommandKind::Cancel),
        };
        c.account = AccountId(account);
        c.cl_ord_id = ClOrdId([b'a' + self.rng.below(26) as u8; 14]);
        c.qty = Qty(match self.rng.below(30) {
            0 => 0,
            1 => 21,
            _ => 1 + self.rng.below(12),
        });
        if c.kind == CommandKind::Cancel {
            if c.cl_ord_id.0[0] < b'j' {
                c.cl_ord_id = ClOrdId::default();
            }
            c.user_ref = self.recent(account);
            if self.rng.below(3) != 0 {
                c.qty = Qty(0);
            }
            return (self.source(), c);
        }
        c.user_ref = self.fresh(account);
        c.orig_user_ref = self.recent(account);
        self.terms(&mut c);
        (self.source(), c)
    }

    fn terms(&mut self, c: &mut Command) {
        let rng = &mut self.rng;
        c.instrument = InstrumentId(1 + rng.below(2) as u16 + 2 * u16::from(rng.below(60) == 0));
        c.side = if rng.below(2) == 0 { Side::Buy } else { Side::Sell };
        c.price = Price(match rng.below(60) {
            0 => 0,
            1 => -5,
            2 => 65,
            3 => 31,
            4 => 61,
            _ => TICK * (4 + rng.below(7) as i64),
        });
        c.time_in_force = match rng.below(8) {
            0 => TimeInForce::ImmediateOrCancel,
            1..4 => TimeInForce::Day,
            _ => TimeInForce::GoodTillCancelled,
        };
        if rng.below(5) == 0 {
            c.time_in_force = TimeInForce::GoodTillDate;
            c.expire_at = Nanos(self.now - 20 + rng.below(700));
        } else if rng.below(60) == 0 {
            c.expire_at = Nanos(self.now + 100);
        }
        if rng.below(15) == 0 {
            c.order_type = OrderType::Market;
        }
        c.flags = match rng.below(40) {
            0 => 8,
            1 => 129,
            2..10 => 1,
            _ => 0,
        };
    }

    /// Mostly the next number of the account; now and then one it has used, a jump, or none.
    fn fresh(&mut self, account: u16) -> UserRefNum {
        let jump = match self.rng.below(100) {
            0 => return UserRefNum(0),
            1..5 => return self.recent(account),
            5..9 => 2 + self.rng.below(5) as u32,
            9 if self.rng.below(10) == 0 => 65_530 + self.rng.below(12) as u32,
            _ => 1,
        };
        let last = &mut self.user_refs[usize::from(account)];
        *last += jump;
        UserRefNum(*last)
    }

    fn recent(&mut self, account: u16) -> UserRefNum {
        let last = self.user_refs[usize::from(account)];
        UserRefNum(last.saturating_sub(self.rng.below(10) as u32))
    }
}
