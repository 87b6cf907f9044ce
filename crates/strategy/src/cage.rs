//! The cage of a WebAssembly module: nothing to import, so much fuel for each piece of news, so much memory.
//!
//! A module has the world in `wit/strategy.wit`, as the canonical ABI of the component model writes it for a
//! core module: what `wit-bindgen` and its like make before a component is wrapped around it. It runs in an
//! interpreter, so that there is nothing to compile and no signal to handle.
//!
//! What a module answers depends on what it is told alone: it has no clock, no randomness and no threads, fuel,
//! unlike time, is counted the same everywhere, and floating point, of which NaNs differ between processors,
//! is refused. One that runs out of fuel, traps or wants more memory than it may have is stopped for good,
//! and why is told.

use wasmi::{
    CompilationMode, Config, Engine, Instance, Linker, Memory, Store, StoreLimits,
    StoreLimitsBuilder, TrapCode, TypedFunc, WasmParams, WasmResults,
};

use feed::Level;
use types::{Instrument, InstrumentId, Price, Side, TimeInForce};

use crate::program::{Action, News, Program};
use crate::strategy::Order;

/// What exported functions begin with.
const HANDLER: &str = "fairbell:strategy/handler@1.0.0#";
/// Bytes of the interpreter's stack, and calls within calls.
const STACK_BYTES: usize = 256 << 10;
const CALLS_MAX: usize = 1_000;
/// Entries of a table at most.
const TABLE_MAX: usize = 1 << 14;
/// Actions that are read of an answer at most, whatever an account may do.
const ACTIONS_MAX: u32 = 1 << 12;
/// Bytes of a reason that are read at most.
const REASON_MAX: u32 = 1_024;

/// What an account's strategy may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Fuel for each piece of news: about one for an instruction.
    pub fuel: u64,
    /// Memory, bytes.
    pub memory_bytes: usize,
    /// Actions in answer to one piece of news.
    pub actions: usize,
    /// Requests that have no answer yet.
    pub unanswered: usize,
    /// Size of the module, bytes.
    pub module_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            fuel: 2_000_000,
            memory_bytes: 16 << 20,
            actions: 64,
            unanswered: 256,
            module_bytes: 1 << 20,
        }
    }
}

/// Why a module is no strategy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CageError {
    /// It has more bytes than it may have: its, and the limit.
    TooLarge(usize, usize),
    /// The bytes are no module, or not one of this interface; why.
    Module(String),
    /// It can't be started within its limits; why.
    Start(String),
}

impl std::fmt::Display for CageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CageError::TooLarge(bytes, most) => write!(f, "{bytes} bytes, above {most}"),
            CageError::Module(why) => write!(f, "no module of fairbell:strategy: {why}"),
            CageError::Start(why) => write!(f, "it does not start: {why}"),
        }
    }
}

impl std::error::Error for CageError {}

/// A module that was read and found valid.
#[derive(Clone)]
pub struct Module {
    name: String,
    engine: Engine,
    module: wasmi::Module,
}

impl Module {
    /// Reads a module that people know as `name`.
    ///
    /// # Errors
    /// It is too large, no module, has floating point, or imports anything.
    pub fn new(name: &str, bytes: &[u8], limits: &Limits) -> Result<Module, CageError> {
        if bytes.len() > limits.module_bytes {
            return Err(CageError::TooLarge(bytes.len(), limits.module_bytes));
        }
        let engine = Engine::new(&config());
        let module = wasmi::Module::new(&engine, bytes);
        let module = module.map_err(|error| CageError::Module(one_line(&error)))?;
        if let Some(import) = module.imports().next() {
            let (from, what) = (bounded(import.module()), bounded(import.name()));
            let why = format!("it imports {what} of {from}, and there is nothing to import");
            return Err(CageError::Module(why));
        }
        Ok(Module { name: name.to_string(), engine, module })
    }

    /// What people know it as.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// How modules are run: everything that is not the same everywhere is off.
fn config() -> Config {
    let mut config = Config::default();
    config
        .consume_fuel(true)
        .floats(false)
        .wasm_memory64(false)
        .wasm_multi_memory(false)
        .set_max_recursion_depth(CALLS_MAX)
        .set_max_stack_height(STACK_BYTES)
        // Translating costs no fuel then.
        .compilation_mode(CompilationMode::Eager)
        .ignore_custom_sections(true);
    config
}

/// A function that frees what an answer was in.
type Post = TypedFunc<u32, ()>;
/// Instruments, decimals of prices, settings.
type StartArgs = (u32, u32, u32, u32, u32);
/// Time, instrument, bids, asks, lots held, own orders.
type BookArgs = (u64, u32, u32, u32, u32, u32, i64, u32, u32);
/// Both times, instrument, price, lots, whether there is a side, the side.
type TradeArgs = (u64, u64, u32, i64, u64, u32, u32);
/// Both times, instrument, number, kind, side, price, lots, lots left, whether it rested.
type ReportArgs = (u64, u64, u32, u32, u32, u32, i64, u64, u64, u32);

/// A function of the interface, and what frees its answer.
struct Handler<P> {
    function: TypedFunc<P, u32>,
    post: Option<Post>,
}

/// What a module exports. Lists and texts are given as their place and length.
struct Exports {
    memory: Memory,
    realloc: TypedFunc<(u32, u32, u32, u32), u32>,
    start: Handler<StartArgs>,
    on_book: Handler<BookArgs>,
    on_trade: Handler<TradeArgs>,
    on_report: Handler<ReportArgs>,
}

impl Exports {
    fn of(instance: &Instance, store: &Store<StoreLimits>) -> Result<Exports, String> {
        let memory = instance.get_memory(store, "memory").ok_or("it exports no memory")?;
        let realloc = exported(instance, store, "cabi_realloc")?;
        Ok(Exports {
            memory,
            realloc,
            start: handler(instance, store, "start")?,
            on_book: handler(instance, store, "on-book")?,
            on_trade: handler(instance, store, "on-trade")?,
            on_report: handler(instance, store, "on-report")?,
        })
    }
}

fn exported<P: WasmParams, R: WasmResults>(
    instance: &Instance,
    store: &Store<StoreLimits>,
    name: &str,
) -> Result<TypedFunc<P, R>, String> {
    instance.get_typed_func(store, name).map_err(|error| format!("{name}: {}", one_line(&error)))
}

/// A function of the interface, and the one that frees its answer.
fn handler<P: WasmParams>(
    instance: &Instance,
    store: &Store<StoreLimits>,
    name: &str,
) -> Result<Handler<P>, String> {
    let function = exported(instance, store, &format!("{HANDLER}{name}"))?;
    let post = exported(instance, store, &format!("cabi_post_{HANDLER}{name}")).ok();
    Ok(Handler { function, post })
}

/// A module that runs.
pub struct Cage {
    name: String,
    store: Store<StoreLimits>,
    exports: Exports,
    fuel: u64,
    settings: String,
    scratch: Vec<u8>,
}

impl std::fmt::Debug for Cage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cage").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Cage {
    /// Starts a module of its own memory; `settings` is told to it before anything else.
    ///
    /// # Errors
    /// It does not export what a strategy has to, or can't be started within its limits.
    pub fn new(module: &Module, settings: &str, limits: &Limits) -> Result<Cage, CageError> {
        let bounds = StoreLimitsBuilder::new()
            .memory_size(limits.memory_bytes)
            .table_elements(TABLE_MAX)
            .instances(1)
            .tables(1)
            .memories(1)
            .trap_on_grow_failure(true)
            .build();
        let mut store = Store::new(&module.engine, bounds);
        store.limiter(|bounds| bounds);
        let failed = |error: wasmi::Error| CageError::Start(one_line(&error));
        store.set_fuel(limits.fuel).map_err(failed)?;
        let linker = Linker::new(&module.engine);
        let instance = linker.instantiate_and_start(&mut store, &module.module);
        let instance = instance.map_err(failed)?;
        let exports = Exports::of(&instance, &store).map_err(CageError::Module)?;
        let (name, settings) = (module.name.clone(), settings.to_string());
        Ok(Cage { name, store, exports, fuel: limits.fuel, settings, scratch: Vec::new() })
    }

    /// Fuel that the last piece of news took.
    pub fn used(&self) -> u64 {
        self.fuel - self.store.get_fuel().unwrap_or(0).min(self.fuel)
    }

    /// Copies the scratch into memory that the module gives for it; where that is.
    fn give(&mut self, align: u32) -> Result<u32, wasmi::Error> {
        if self.scratch.is_empty() {
            return Ok(align);
        }
        let len = self.scratch.len() as u32;
        let at = self.exports.realloc.call(&mut self.store, (0, 0, align, len))?;
        self.exports.memory.write(&mut self.store, at as usize, &self.scratch)?;
        Ok(at)
    }

    fn give_text(&mut self, text: &str) -> Result<(u32, u32), wasmi::Error> {
        self.scratch.clear();
        self.scratch.extend_from_slice(text.as_bytes());
        Ok((self.give(1)?, text.len() as u32))
    }

    fn give_levels(&mut self, levels: &[Level]) -> Result<(u32, u32), wasmi::Error> {
        self.scratch.clear();
        for level in levels {
            self.scratch.extend_from_slice(&level.price.0.to_le_bytes());
            self.scratch.extend_from_slice(&level.qty.0.to_le_bytes());
        }
        Ok((self.give(8)?, levels.len() as u32))
    }

    fn give_orders(&mut self, orders: &[Order]) -> Result<(u32, u32), wasmi::Error> {
        self.scratch.clear();
        for order in orders {
            let to = &mut self.scratch;
            to.extend_from_slice(&order.id.to_le_bytes());
            to.extend_from_slice(&[order.side as u8, 0, 0, 0]);
            to.extend_from_slice(&order.price.0.to_le_bytes());
            to.extend_from_slice(&order.open.to_le_bytes());
            let (working, leaving) = (u8::from(order.working), u8::from(order.leaving));
            to.extend_from_slice(&[working, leaving, 0, 0, 0, 0, 0, 0]);
        }
        Ok((self.give(8)?, orders.len() as u32))
    }

    fn give_instruments(&mut self, all: &[Instrument]) -> Result<(u32, u32), wasmi::Error> {
        let mut bytes = Vec::with_capacity(32 * all.len());
        for one in all {
            let (at, len) = self.give_text(one.symbol.as_str())?;
            bytes.extend_from_slice(&u32::from(one.id.0).to_le_bytes());
            bytes.extend_from_slice(&at.to_le_bytes());
            bytes.extend_from_slice(&len.to_le_bytes());
            bytes.extend_from_slice(&[0; 4]);
            bytes.extend_from_slice(&one.tick.0.to_le_bytes());
            bytes.extend_from_slice(&u64::from(one.lot_decimals).to_le_bytes());
        }
        self.scratch = bytes;
        Ok((self.give(8)?, all.len() as u32))
    }

    /// Two numbers of 32 bits in the module's memory.
    fn pair(&self, at: u32) -> Result<(u32, u32), wasmi::Error> {
        let mut bytes = [0; 8];
        self.exports.memory.read(&self.store, at as usize, &mut bytes)?;
        let [a, b, c, d, e, f, g, h] = bytes;
        Ok((u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])))
    }

    /// Starts it; why it refuses, if it does.
    fn start(&mut self, all: &[Instrument], decimals: u8) -> Result<Option<String>, wasmi::Error> {
        let settings = std::mem::take(&mut self.settings);
        let (instruments, count) = self.give_instruments(all)?;
        let (text, len) = self.give_text(&settings)?;
        let given = (instruments, count, decimals.into(), text, len);
        let Handler { function, post } = self.exports.start;
        let at = function.call(&mut self.store, given)?;
        let mut refused = [0];
        self.exports.memory.read(&self.store, at as usize, &mut refused)?;
        let why = match refused {
            [0] => None,
            _ => {
                let (text, len) = self.pair(at.wrapping_add(4))?;
                let mut bytes = vec![0; len.min(REASON_MAX) as usize];
                self.exports.memory.read(&self.store, text as usize, &mut bytes)?;
                Some(bounded(&String::from_utf8_lossy(&bytes)))
            }
        };
        self.free(post, at)?;
        Ok(why)
    }

    /// Frees an answer.
    fn free(&mut self, post: Option<Post>, at: u32) -> Result<(), wasmi::Error> {
        post.map_or(Ok(()), |post| post.call(&mut self.store, at))
    }

    /// Tells it, and reads its answer.
    fn hear(
        &mut self,
        news: &News<'_>,
        answer: &mut Vec<Action>,
    ) -> Result<Answered, wasmi::Error> {
        let (at, post) = match news {
            News::Start { instruments, price_decimals } => {
                let refused = self.start(instruments, *price_decimals)?;
                return Ok(refused.map_or(Answered::Read, Answered::Refused));
            }
            News::Book { now, instrument, bids, asks, held, orders } => {
                let (bids, bids_len) = self.give_levels(bids)?;
                let (asks, asks_len) = self.give_levels(asks)?;
                let (orders, orders_len) = self.give_orders(orders)?;
                let head = (now.0, u32::from(instrument.0));
                let given =
                    (head.0, head.1, bids, bids_len, asks, asks_len, *held, orders, orders_len);
                let Handler { function, post } = self.exports.on_book;
                (function.call(&mut self.store, given)?, post)
            }
            News::Trade { now, trade } => {
                let (some, side) = trade.aggressor.map_or((0, 0), |side| (1, side as u32));
                let instrument = u32::from(trade.instrument.0);
                let (price, lots) = (trade.price.0, trade.qty.0);
                let given = (now.0, trade.time.0, instrument, price, lots, some, side);
                let Handler { function, post } = self.exports.on_trade;
                (function.call(&mut self.store, given)?, post)
            }
            News::Report { now, report } => {
                let instrument = u32::from(report.instrument.0);
                let given = (
                    now.0,
                    report.happened.0,
                    instrument,
                    report.id,
                    report.kind as u32,
                    report.side as u32,
                    report.price.0,
                    report.qty.0,
                    report.left.0,
                    u32::from(report.rested),
                );
                let Handler { function, post } = self.exports.on_report;
                (function.call(&mut self.store, given)?, post)
            }
        };
        let (list, count) = self.pair(at)?;
        if count > ACTIONS_MAX {
            return Ok(Answered::TooMuch(count));
        }
        let mut bytes = [0; 32];
        for number in 0..count {
            let at = list as usize + 32 * number as usize;
            self.exports.memory.read(&self.store, at, &mut bytes)?;
            match action(&bytes) {
                Some(action) => answer.push(action),
                None => return Ok(Answered::Nonsense),
            }
        }
        self.free(post, at)?;
        Ok(Answered::Read)
    }
}

/// What came of telling a module something.
enum Answered {
    Read,
    /// It can't run with its settings.
    Refused(String),
    /// More actions than anybody may do.
    TooMuch(u32),
    /// What is no action.
    Nonsense,
}

impl Program for Cage {
    fn name(&self) -> &str {
        &self.name
    }

    fn tell(&mut self, news: &News<'_>, answer: &mut Vec<Action>) -> Result<(), String> {
        let of = match news {
            News::Start { .. } => "at its start",
            News::Book { .. } => "on a book",
            News::Trade { .. } => "on a trade",
            News::Report { .. } => "on a report",
        };
        self.store.set_fuel(self.fuel).map_err(|error| one_line(&error))?;
        match self.hear(news, answer) {
            Ok(Answered::Read) => Ok(()),
            Ok(Answered::Refused(why)) => Err(format!("refused to start: {why}")),
            Ok(Answered::TooMuch(count)) => Err(format!("answered with {count} actions {of}")),
            Ok(Answered::Nonsense) => Err(format!("answered what is no action {of}")),
            Err(error) => Err(match error.as_trap_code() {
                Some(TrapCode::OutOfFuel) => format!("out of fuel ({}) {of}", self.fuel),
                Some(trap) => format!("trapped {of}: {trap}"),
                None => format!("{} {of}", one_line(&error)),
            }),
        }
    }
}

/// An action as it lies in the module's memory.
fn action(bytes: &[u8; 32]) -> Option<Action> {
    let u32_at = |at: usize| {
        let [a, b, c, d] = [0, 1, 2, 3].map(|next| bytes[at + next]);
        u32::from_le_bytes([a, b, c, d])
    };
    let price = u64::from(u32_at(16)) | u64::from(u32_at(20)) << 32;
    match bytes[0] {
        1 => Some(Action::Cancel { id: u32_at(8) }),
        0 => Some(Action::Order {
            instrument: InstrumentId(u16::from_le_bytes([bytes[8], bytes[9]])),
            side: *[Side::Buy, Side::Sell].get(usize::from(bytes[10]))?,
            qty: u32_at(12),
            price: Price(price.cast_signed()),
            life: *[TimeInForce::Day, TimeInForce::ImmediateOrCancel]
                .get(usize::from(bytes[24]))?,
            rests: bytes[25] != 0,
        }),
        _ => None,
    }
}

/// The start of what a program says, without control characters.
fn bounded(text: &str) -> String {
    text.chars().filter(|one| !one.is_control()).take(200).collect()
}

/// An error in one line.
fn one_line(error: &wasmi::Error) -> String {
    bounded(&error.to_string())
}
