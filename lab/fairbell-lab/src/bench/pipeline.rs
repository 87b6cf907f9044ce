//! P2: the whole way of an order through an engine, on one thread: OUCH decoding, sequencing, every
//! risk check, matching, and encoding of feed (ITCH) and execution messages (OUCH).
//!
//! Workload W1 is encoded as OUCH before anything is timed, its orders spread over 16 participants.
//! A replace that would keep its place in the queue, which W1's never do, is sent as a cancel and
//! a new order; so trades and volume must be W1's, and are checked. All limits are set but wide,
//! so that each is worked out and none refuses. No journal, no sockets, no clock inside: engine
//! time is a counter. Both outputs are hashed in the timed part, and every run must give the same
//! hashes.

use std::hint::black_box;
use std::time::Instant;

use book::{BookConfig, Books, Capacity, Order, Sink};
use book_model::tape::{Ids, Tape, TapeCommand, TapeKind, Workload};
use clap::Args;
use engine::{Config, Engine, InstrumentRules, Limits, Output};
use types::{
    AccountId, Allocation, ClOrdId, Command, CommandKind, Digest, GatewayId, Incarnation, Input,
    Instrument, InstrumentId, LimitKind, Nanos, OrderEvent, Phase, Price, Qty, Seq, ShardId,
    Source, Symbol, TickTable, TimeInForce, Trigger, UserRefNum,
};
use wire::{itch, ouch};

use fairbell::report::numbers;
use host::failure::Failure;

/// Participants, one account each.
pub(super) const PARTICIPANTS: u64 = 16;
/// Requests whose outputs are hashed together.
const BATCH: usize = 32;
/// Engine time from one request to the next.
const STEP_NS: u64 = 100;
/// What P2 asks for, commands per second.
const BAR: f64 = 5e6;

/// Options of `fairbell-lab bench engine`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab bench engine                W1 through decoding, risk, matching and encoding\n  \
    fairbell-lab bench engine --runs 9 --json\n  \
    fairbell-lab bench engine --shards 2     two engines on two threads, beside one")]
pub struct EngineArgs {
    /// Timed runs, each in a new engine
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub runs: u32,
    /// So many engines at once, each on a thread of its own and with a log, in turn with one alone
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=types::limits::SHARDS_MAX as i64))]
    pub shards: u16,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// What one run gave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    seconds: f64,
    /// The timed part.
    pub(super) began: Instant,
    pub(super) ended: Instant,
    /// Hashes of the feed's and of the execution messages' bytes.
    pub(super) hashes: [u64; 2],
    /// Messages of the feed and execution messages.
    pub(super) messages: [u64; 2],
}

/// Measures, checks and prints.
pub fn run(args: &EngineArgs) -> Result<(), Failure> {
    if args.shards > 1 {
        return super::shards::run(args);
    }
    let tape = Workload::W1.tape(Ids::Dense);
    let requests = Requests::encode(&tape)?;
    let mut runs: Vec<Run> = Vec::new();
    for run in 0..args.runs {
        if !args.json {
            eprintln!("run {} of {}", run + 1, args.runs);
        }
        let found = play(&requests, &tape)?;
        if runs.first().is_some_and(|first| first.hashes != found.hashes) {
            return Err(Failure::Run("two runs gave different outputs".to_string()));
        }
        runs.push(found);
    }
    print(args, &tape, &requests, &runs);
    Ok(())
}

/// Requests as they come from participants, back to back: account, length, message.
pub(super) struct Requests {
    bytes: Vec<u8>,
    /// Where the timed part begins, in bytes, and how many requests each part has.
    timed_at: usize,
    counts: [usize; 2],
}

/// The last request about an order, by tape id.
#[derive(Clone, Copy, Default)]
struct Current {
    user_ref: u32,
    /// Lots traded under the order since it was new.
    traded: u32,
}

/// Encodes requests; plays the tape in plain books to know what had traded.
struct Writer {
    books: Books,
    current: Vec<Current>,
    /// By account: the next request's number.
    next: [u32; PARTICIPANTS as usize],
    symbol: Symbol,
    bytes: Vec<u8>,
    count: usize,
}

impl Requests {
    pub(super) fn encode(tape: &Tape) -> Result<Requests, Failure> {
        let config = BookConfig {
            ticks: TickTable::uniform(Price(1)),
            allocation: Allocation::PriceTime,
            trigger: Trigger::LastTrade,
        };
        let capacity = Capacity { orders: 1 << 15, levels: 1 << 13, stops: 1, pegs: 1 };
        let mut writer = Writer {
            books: Books::new(&[config], capacity),
            current: vec![Current::default(); tape.checks.max_id as usize + 1],
            next: [1; PARTICIPANTS as usize],
            symbol: instrument()?.symbol,
            bytes: Vec::new(),
            count: 0,
        };
        writer.books.set_phase(0, Phase::Continuous, &mut Traded(&mut writer.current));
        let (prefill, timed) = tape.commands.split_at(tape.prefill);
        prefill.iter().try_for_each(|command| writer.put(command))?;
        let (timed_at, untimed) = (writer.bytes.len(), writer.count);
        timed.iter().try_for_each(|command| writer.put(command))?;
        let counts = [untimed, writer.count - untimed];
        Ok(Requests { bytes: writer.bytes, timed_at, counts })
    }
}

/// Adds up what has traded of each order.
struct Traded<'a>(&'a mut [Current]);

impl Sink for Traded<'_> {
    fn tell(&mut self, event: OrderEvent, order: &Order, other: Option<&Order>) {
        if let OrderEvent::Traded { qty, .. } = event {
            for id in [Some(order), other].into_iter().flatten().map(Order::key) {
                if let Some(current) = self.0.get_mut(id as usize) {
                    current.traded += qty;
                }
            }
        }
    }
}

impl Writer {
    fn put(&mut self, command: &TapeCommand) -> Result<(), Failure> {
        let id = command.id;
        let resting = self.books.get(id).map(|order| (order.price().0, order.open()));
        match (command.kind, resting) {
            (TapeKind::Cancel, _) => self.cancel(id)?,
            (TapeKind::Replace, Some((price, open)))
                if price != command.price || command.qty > open =>
            {
                self.replace(command)?;
            }
            (TapeKind::Replace, _) => {
                self.cancel(id)?;
                self.enter(command)?;
            }
            _ => self.enter(command)?,
        }
        let mut sink = Traded(&mut self.current);
        let mut terms = types::NewOrder::limit(id, command.side, Price(command.price), command.qty);
        let done = match command.kind {
            TapeKind::Cancel => self.books.cancel(id, &mut sink),
            TapeKind::Replace => self.books.replace(id, &terms, false, &mut sink),
            kind => {
                terms.time_in_force = life(kind);
                self.books.submit(0, &terms, &mut sink)
            }
        };
        done.map_err(|reason| Failure::Run(format!("the tape was refused: {reason:?}")))
    }

    /// Puts a message of `id`'s participant behind its account and length.
    fn frame(
        &mut self,
        id: u64,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), wire::EncodeError>,
    ) -> Result<(), Failure> {
        let account = id % PARTICIPANTS + 1;
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[account as u8, 0]);
        encode(&mut self.bytes).map_err(unwritable)?;
        self.bytes[start + 1] = (self.bytes.len() - start - 2) as u8;
        self.count += 1;
        Ok(())
    }

    fn next_ref(&mut self, id: u64) -> u32 {
        let next = &mut self.next[(id % PARTICIPANTS) as usize];
        *next += 1;
        *next - 1
    }

    fn cancel(&mut self, id: u64) -> Result<(), Failure> {
        let user_ref = UserRefNum(self.current[id as usize].user_ref);
        self.frame(id, |out| ouch::encode_cancel(user_ref, Qty(0), out))
    }

    fn enter(&mut self, command: &TapeCommand) -> Result<(), Failure> {
        let user_ref = self.next_ref(command.id);
        self.current[command.id as usize] = Current { user_ref, traded: 0 };
        let order = ouch::NewOrder {
            user_ref: UserRefNum(user_ref),
            side: command.side,
            qty: Qty(command.qty.into()),
            symbol: self.symbol,
            price: Some(Price(command.price)),
            time_in_force: life(command.kind),
            post_only: false,
            cl_ord_id: cl_ord_id(user_ref),
        };
        self.frame(command.id, |out| ouch::encode_enter_order(&order, out))
    }

    fn replace(&mut self, command: &TapeCommand) -> Result<(), Failure> {
        let user_ref = self.next_ref(command.id);
        let current = &mut self.current[command.id as usize];
        let request = ouch::ReplaceRequest {
            orig_user_ref: UserRefNum(current.user_ref),
            user_ref: UserRefNum(user_ref),
            qty: Qty(u64::from(current.traded) + u64::from(command.qty)),
            price: Price(command.price),
            time_in_force: TimeInForce::GoodTillCancelled,
            post_only: false,
            cl_ord_id: cl_ord_id(user_ref),
        };
        current.user_ref = user_ref;
        self.frame(command.id, |out| ouch::encode_replace(&request, out))
    }
}

fn life(kind: TapeKind) -> TimeInForce {
    match kind {
        TapeKind::ImmediateOrCancel => TimeInForce::ImmediateOrCancel,
        _ => TimeInForce::GoodTillCancelled,
    }
}

/// `C` and the number in thirteen digits.
fn cl_ord_id(user_ref: u32) -> ClOrdId {
    let mut text = *b"C0000000000000";
    let mut rest = user_ref;
    for digit in text.iter_mut().rev() {
        if rest == 0 {
            break;
        }
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    ClOrdId(text)
}

#[cold]
fn unreadable(error: ouch::OuchError) -> Failure {
    Failure::Run(format!("a request does not parse: {error}"))
}

#[cold]
fn refused(request: ouch::RefusedRequest) -> Failure {
    Failure::Run(format!("a request was refused: {request:?}"))
}

#[cold]
fn unwritable(error: wire::EncodeError) -> Failure {
    Failure::Run(format!("a message has no wire format: {error}"))
}

fn instrument() -> Result<Instrument, Failure> {
    let symbol = Symbol::new("TAPE").ok_or_else(|| Failure::Run("no symbol".to_string()))?;
    Ok(Instrument {
        id: InstrumentId(1),
        symbol,
        tick: Price(1),
        price_max: Price(1_000_000),
        qty_max: Qty(1_000_000),
        lot_decimals: 0,
    })
}

/// Every check of an order on, none in the way. (A dynamic collar is a rule of the market, about
/// trades and not about orders; this one has none.)
fn config() -> Result<Config, Failure> {
    let instrument = instrument()?;
    let mut config = Config::new(vec![instrument]);
    config.accounts_max = PARTICIPANTS as usize;
    config.gateways_max = 1;
    config.book = Capacity { orders: 1 << 15, levels: 1 << 13, stops: 1 << 10, pegs: 1 << 10 };
    config.rules = vec![InstrumentRules {
        static_collar_bp: 9_999,
        reference: Price(10_000),
        ..InstrumentRules::of(&instrument)
    }];
    config.limits = Limits::NONE
        .with(LimitKind::OrderQuantity, 10_000)
        .with(LimitKind::OrderNotional, 1 << 40)
        .with(LimitKind::OpenOrders, 1 << 14)
        .with(LimitKind::Position, 1 << 30)
        .with(LimitKind::Credit, 1 << 50)
        .with(LimitKind::MessageRate, 1 << 30)
        .with(LimitKind::FatFinger, 9_999);
    config.unique_cl_ord_id = true;
    config.check().map_err(|error| Failure::Run(error.to_string()))?;
    Ok(config)
}

/// The pipeline: one engine with the encoders around it.
struct Pipeline {
    engine: Engine,
    feed: itch::Encoder,
    private: ouch::Encoder,
    out: Output,
    source: Source,
    /// Transport number of the last request; 0: none.
    sent: u64,
    now: Nanos,
    /// Requests decoded and sequenced, not applied yet.
    inputs: Vec<Input>,
    /// Where the log's records of a batch are written, when there is a log.
    log: Option<Vec<u8>>,
    /// Bytes of the feed and of execution messages, not hashed yet.
    bytes: [Vec<u8>; 2],
    hashes: [Lanes; 2],
    messages: [u64; 2],
}

impl Pipeline {
    fn new(config: Config, logs: bool) -> Result<Pipeline, Failure> {
        let instruments = [instrument()?];
        let mut pipeline = Pipeline {
            source: Source { shard: config.shard, ..Source::default() },
            engine: Engine::new(config),
            feed: itch::Encoder::new(&instruments, Nanos(0)),
            private: ouch::Encoder::new(&instruments, Nanos(0)),
            out: Output::with_capacity(1 << 10, 1 << 10),
            sent: 0,
            now: Nanos(1),
            inputs: Vec::with_capacity(BATCH),
            log: logs.then(|| Vec::with_capacity(2 * BATCH * size_of::<Input>())),
            bytes: [Vec::with_capacity(1 << 16), Vec::with_capacity(1 << 16)],
            hashes: [Lanes::default(); 2],
            messages: [0; 2],
        };
        let start = Command::new(CommandKind::StartOfDay);
        pipeline.operate(GatewayId(0), start)?;
        let nonce = UserRefNum(7);
        let grant = Command { user_ref: nonce, ..Command::new(CommandKind::GrantIncarnation) };
        pipeline.operate(GatewayId(1), grant)?;
        pipeline.source.incarnation = Incarnation(1);
        // Nobody is told of the start.
        pipeline.bytes.iter_mut().for_each(Vec::clear);
        pipeline.messages = [0; 2];
        Ok(pipeline)
    }

    /// Gives the next command, which is returned to be filled in, its place in the log. It is written
    /// where it stays: what is put together elsewhere and then copied waits for its parts.
    #[inline(always)]
    fn sequence(&mut self) -> Option<&mut Command> {
        const BLANK: Input = Input {
            seq: Seq(0),
            t_in: Nanos(0),
            t_seq: Nanos(0),
            source: Source {
                gateway: GatewayId(0),
                shard: ShardId(0),
                incarnation: Incarnation(0),
                seq: 0,
            },
            flags: 0,
            command: Command::new(CommandKind::NewOrder),
        };
        self.now.0 += STEP_NS;
        let seq = Seq(self.engine.applied() + 1 + self.inputs.len() as u64);
        self.inputs.push(BLANK);
        let input = self.inputs.last_mut()?;
        (input.seq, input.t_in, input.t_seq) = (seq, self.now, self.now);
        input.source = self.source;
        input.source.seq = self.sent;
        Some(&mut input.command)
    }

    /// Has the engine apply what is sequenced; what follows from an input is encoded at once, as the live
    /// root does: which messages these are, the processor has just been taught.
    fn apply(&mut self) -> Result<(), Failure> {
        if let Some(log) = &mut self.log {
            log.clear();
            for input in &self.inputs {
                let written = engine::log_file::write_input(&mut *log, input);
                written.map_err(|error| Failure::Run(format!("the log: {error}")))?;
            }
            black_box(log);
        }
        let Pipeline { engine, inputs, out, feed, private, bytes, messages, now, .. } = self;
        let [public, told] = bytes;
        let mut written = Ok(());
        engine.apply_all(inputs.iter(), out, |_, _, _, out| {
            let encoded = feed.encode_all(&out.market, *now, public);
            let encoded = encoded.and_then(|()| private.encode_reports(&out.executions, told));
            if encoded.is_err() {
                written = encoded;
            }
            messages[0] += out.market.len() as u64;
            messages[1] += out.executions.len() as u64;
            out.clear();
        });
        inputs.clear();
        written.map_err(unwritable)
    }

    /// Has the engine apply one command.
    fn operate(&mut self, gateway: GatewayId, command: Command) -> Result<(), Failure> {
        self.source.gateway = gateway;
        if let Some(place) = self.sequence() {
            *place = command;
        }
        self.apply()
    }

    /// Handles the requests in `bytes`.
    #[inline(never)]
    fn play(&mut self, mut bytes: &[u8]) -> Result<(), Failure> {
        while !bytes.is_empty() {
            for _ in 0..BATCH {
                let Some((&[account, length], rest)) = bytes.split_first_chunk() else { break };
                let Some((message, rest)) = rest.split_at_checked(length.into()) else {
                    return Err(Failure::Run("a request is cut off".to_string()));
                };
                bytes = rest;
                self.decode(account, message)?;
            }
            self.apply()?;
            self.hash();
        }
        Ok(())
    }

    /// As a gateway does: in one step what can be, in two what else there is.
    #[inline(always)]
    fn decode(&mut self, account: u8, message: &[u8]) -> Result<(), Failure> {
        let received = self.now;
        self.sent += 1;
        self.sequence();
        let symbols = self.private.symbols();
        if let Some(Input { command, .. }) = self.inputs.last_mut() {
            if !ouch::read_plain(message, symbols, received, command) {
                let inbound = ouch::parse_inbound(message).map_err(unreadable)?;
                *command = ouch::to_command(&inbound, symbols, received).map_err(refused)?;
            }
            command.account = AccountId(account.into());
        }
        Ok(())
    }

    /// Hashes the bytes that have collected.
    fn hash(&mut self) {
        for (bytes, hash) in self.bytes.iter_mut().zip(&mut self.hashes) {
            hash.fold(bytes);
            bytes.clear();
        }
    }
}

/// Four digests side by side, each of every fourth word, so that a word need not wait for the one
/// before it.
#[derive(Clone, Copy, Default)]
struct Lanes([Digest; 4]);

impl Lanes {
    #[inline]
    fn fold(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        let (rows, last) = words.as_chunks::<4>();
        // Digests of their own, so that they stay in registers.
        let [mut a, mut b, mut c, mut d] = self.0;
        for [first, second, third, fourth] in rows {
            a.fold(u64::from_le_bytes(*first));
            b.fold(u64::from_le_bytes(*second));
            c.fold(u64::from_le_bytes(*third));
            d.fold(u64::from_le_bytes(*fourth));
        }
        self.0 = [a, b, c, d];
        for (lane, word) in self.0.iter_mut().zip(last) {
            lane.fold(u64::from_le_bytes(*word));
        }
        rest.iter().for_each(|byte| self.0[0].fold(u64::from(*byte)));
    }

    fn value(&self) -> u64 {
        let mut all = Digest::default();
        self.0.iter().for_each(|lane| all.fold(lane.0));
        all.0
    }
}

fn play(requests: &Requests, tape: &Tape) -> Result<Run, Failure> {
    play_in(Pipeline::new(config()?, false)?, requests, tape, || ())
}

/// One of several shards, with a log; `ready` is called before the timed part.
pub(super) fn play_shard(
    requests: &Requests,
    tape: &Tape,
    shard: u16,
    shards: u16,
    ready: impl FnOnce(),
) -> Result<Run, Failure> {
    let config = Config { shard: ShardId(shard), shards, ..config()? };
    play_in(Pipeline::new(config, true)?, requests, tape, ready)
}

fn play_in(
    mut pipeline: Pipeline,
    requests: &Requests,
    tape: &Tape,
    ready: impl FnOnce(),
) -> Result<Run, Failure> {
    let (prefill, timed) = requests.bytes.split_at(requests.timed_at);
    let filled = pipeline.play(prefill);
    // Others wait for this one, whatever became of it.
    ready();
    filled?;
    let began = Instant::now();
    pipeline.play(black_box(timed))?;
    let ended = Instant::now();
    let seconds = ended.duration_since(began).as_secs_f64();
    let counted = pipeline.engine.instrument_counters(InstrumentId(1)).unwrap_or_default();
    let expected = tape.checks.sum;
    if (counted.trades, counted.volume) != (expected.trades, expected.volume) {
        return Err(Failure::Run(format!("wrong: {counted:?}, not {expected:?}")));
    }
    let hashes = pipeline.hashes.map(|hash| hash.value());
    Ok(Run { seconds, began, ended, hashes, messages: pipeline.messages })
}

fn print(args: &EngineArgs, tape: &Tape, requests: &Requests, runs: &[Run]) {
    let commands = (tape.commands.len() - tape.prefill) as f64;
    let mut rates: Vec<f64> = runs.iter().map(|run| commands / run.seconds).collect();
    rates.sort_by(f64::total_cmp);
    let (Some(last), Some(&low), Some(&high)) = (runs.last(), rates.first(), rates.last()) else {
        return;
    };
    let rate = rates[rates.len() / 2];
    let [feed_hash, execution_hash] = last.hashes.map(|hash| format!("{hash:016x}"));
    let met = rate >= BAR;
    if args.json {
        let document = serde_json::json!({
            "workload": "w1",
            "participants": PARTICIPANTS,
            "runs": runs.len(),
            "commands": commands as u64,
            "requests": requests.counts[1],
            "commands_per_s": rate,
            "commands_per_s_min": low,
            "commands_per_s_max": high,
            "ns_per_command": 1e9 / rate,
            "requests_per_s": rate * requests.counts[1] as f64 / commands,
            "trades": tape.checks.sum.trades,
            "volume": tape.checks.sum.volume,
            "feed_messages": last.messages[0],
            "execution_messages": last.messages[1],
            "feed_hash": feed_hash,
            "execution_hash": execution_hash,
            "bar_commands_per_s": BAR,
            "bar_met": met,
        });
        println!("{document:#}");
        return;
    }
    let [rate_text, low, high] = [rate, low, high].map(|rate| numbers::grouped(rate as u64));
    println!("{rate_text} commands/s, {low} to {high} in {} runs", runs.len());
    println!(
        "{:.1} ns per command; {} requests for {} commands",
        1e9 / rate,
        numbers::grouped(requests.counts[1] as u64),
        numbers::grouped(commands as u64)
    );
    println!(
        "right: {} trades, volume {}",
        numbers::grouped(tape.checks.sum.trades),
        numbers::grouped(tape.checks.sum.volume)
    );
    let [feed, executions] = last.messages.map(numbers::grouped);
    println!("{feed} feed messages, hash {feed_hash}");
    println!("{executions} execution messages, hash {execution_hash}");
    println!(
        "bar (P2) {} commands/s: {}",
        numbers::grouped(BAR as u64),
        if met { "met" } else { "not met" }
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_tape_goes_through_and_a_wrong_result_is_not_measured() {
        let short = Workload::W1.sized(500, 5_000);
        let mut tape = short.tape(Ids::Dense);
        let requests = Requests::encode(&tape).expect("requests");
        let first = play(&requests, &tape).expect("a run");
        let second = play(&requests, &tape).expect("a run");
        assert_eq!(first.hashes, second.hashes);
        assert!(first.messages.iter().all(|&messages| messages > 5_000));
        tape.checks.sum.volume += 1;
        assert!(matches!(play(&requests, &tape), Err(Failure::Run(_))));
    }

    #[test]
    fn identifiers_are_told_apart() {
        assert_eq!(cl_ord_id(1_203).0, *b"C0000000001203");
    }
}
