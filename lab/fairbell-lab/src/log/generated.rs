//! The exchange of generated logs: four instruments, each traded by other rules.

use book::Capacity;
use engine::{Config, InstrumentRules};
use types::limits::{PRICE_MAX, QTY_MAX};
use types::{
    Allocation, Command, CommandKind, Instrument, InstrumentId, LimitKind, Price, Qty, SelfTrade,
    Symbol, TickTable, Trigger,
};

use super::entry::Entry;
use super::script::{ACCOUNTS, GATEWAYS, Step};

/// Its configuration; a fixed one, because logs are read under it.
pub fn config() -> Config {
    let names = [*b"TIME    ", *b"TOP     ", *b"PRORATA ", *b"BANDS   "];
    let instrument = |(index, name): (usize, [u8; 8])| Instrument {
        id: InstrumentId(index as u16 + 1),
        symbol: Symbol(name),
        tick: Price(100),
        price_max: Price(PRICE_MAX),
        qty_max: Qty(QTY_MAX),
        lot_decimals: 0,
    };
    let instruments: Vec<Instrument> = names.into_iter().enumerate().map(instrument).collect();
    let rules = instruments.iter().map(rules).collect();
    Config {
        rules,
        accounts_max: usize::from(ACCOUNTS),
        gateways_max: usize::from(GATEWAYS),
        book: Capacity { orders: 1 << 16, levels: 1 << 12, stops: 1 << 10, pegs: 1 << 10 },
        limits: engine::Limits::NONE.with(LimitKind::OrderQuantity, 950),
        groups: vec![1, 1, 2],
        self_trade: vec![SelfTrade::Allow, SelfTrade::CancelNewest],
        trades_kept: 1 << 12,
        ..Config::new(instruments)
    }
}

fn rules(instrument: &Instrument) -> InstrumentRules {
    let plain = InstrumentRules::of(instrument);
    let pro_rata = |top_order, min_allocation| Allocation::ProRata { top_order, min_allocation };
    match instrument.id.0 {
        2 => InstrumentRules { allocation: pro_rata(true, 5), ..plain },
        3 => InstrumentRules {
            allocation: pro_rata(false, 0),
            trigger: Trigger::Touch,
            dynamic_collar_bp: 50,
            ..plain
        },
        4 => {
            let bands = [(Price(0), Price(100)), (Price::from_whole(100), Price(500))];
            let ticks = TickTable::new(&bands).unwrap_or(plain.ticks);
            InstrumentRules { ticks, ..plain }
        }
        _ => plain,
    }
}

/// The command as it comes into the log; `None` when a gateway refuses it.
pub fn admitted(entry: &mut Entry, step: &Step) -> Option<Command> {
    match step.command.kind {
        CommandKind::NewOrder | CommandKind::Replace | CommandKind::Cancel => {
            entry.pass(&step.command, step.at)
        }
        CommandKind::MassCancel if step.source.gateway.0 != 0 => entry.pass(&step.command, step.at),
        _ => Some(step.command),
    }
}
