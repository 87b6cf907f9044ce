//! Nothing leaves before it is durable (corner 9), and a root that starts again from its journal
//! goes on where it was: same state, same streams, everything exactly once.

use std::panic::AssertUnwindSafe;

use engine::Applied;
use exchange::{Role, Root, deploy};
use journal::{Config, Journal, SimDisk};
use overlay::frame::FrameKind;
use types::{CommandKind, ConnId, Input, Nanos, Node, Seq, Side, SplitMix64};
use zerocopy::{IntoBytes, TryFromBytes};

use crate::bench::Exchange;
use crate::common::{LISTENERS, MS, Pair, config};

/// An exchange whose log is kept durably by the test, its opening command and its gateway's life
/// already.
fn kept() -> Exchange {
    let mut exchange = Exchange::with(&config(), []);
    // From the first command on: the pair was made and run without a gate.
    assert!(exchange.pair.journal.is_empty());
    exchange.pair.root.keep_durably();
    exchange
}

fn inputs(bytes: &[u8]) -> Vec<Input> {
    let (records, rest) = bytes.as_chunks::<{ size_of::<Input>() }>();
    assert!(rest.is_empty(), "whole records");
    records.iter().map(|bytes| Input::try_read_from_bytes(bytes).expect("an input")).collect()
}

/// Everything given so far is durable up to here.
fn durable(exchange: &mut Exchange, position: u64) {
    let pair = &mut exchange.pair;
    pair.root.handle_durable(pair.now, position, &mut pair.root_out);
    exchange.settle();
    exchange.run(10 * MS);
}

#[test]
fn nothing_leaves_before_it_is_durable_and_then_in_order() {
    let mut exchange = kept();
    exchange.login(1);
    exchange.login(2);
    let quiet = |exchange: &Exchange| {
        // Data frames without messages go on: they are the publisher's sign of life.
        let contiguous = exchange.pair.root.engine().received(types::GatewayId(1)).1.contiguous();
        (exchange.count(FrameKind::Private), exchange.world.released, contiguous)
    };
    let (before, logged) = (quiet(&exchange), exchange.pair.root.log().len() as u64);
    exchange.order(1, 1, Side::Sell, 100, 5);
    exchange.order(2, 1, Side::Buy, 100, 3);
    exchange.order(1, 2, Side::Sell, 101, 5);
    assert_eq!(quiet(&exchange), before, "no report, no tick, no acknowledgement");
    assert_eq!((exchange.answers(1), exchange.answers(2)), (String::new(), String::new()));
    let given = inputs(&exchange.pair.journal);
    let seqs: Vec<u64> = given.iter().map(|input| input.seq.0).collect();
    assert_eq!(seqs, [logged + 1, logged + 2, logged + 3], "each given once, in order");
    durable(&mut exchange, logged + 1);
    assert_eq!((exchange.answers(1), exchange.answers(2)), ("A".to_string(), String::new()));
    // More than was given can't be durable, and less than before changes nothing.
    durable(&mut exchange, logged);
    assert_eq!(exchange.pair.root.waiting(), 2);
    durable(&mut exchange, u64::MAX);
    assert_eq!((exchange.answers(1), exchange.answers(2)), ("AEA".to_string(), "AE".to_string()));
    assert_eq!(exchange.pair.root.waiting(), 0);
    assert_eq!(exchange.pair.root.private().counters().refused, 0);
}

#[test]
fn a_grant_is_asked_of_the_log_once_and_waits_for_it() {
    let mut exchange = kept();
    let mut other = config();
    other.seed = 99;
    // The gateway starts anew and says hello again and again.
    let nodes =
        deploy(&other, exchange::Life::of(5_000), |_| LISTENERS).expect("a possible exchange");
    let edge = nodes.into_iter().find_map(|role| match role {
        Role::Edge(edge) => Some(edge),
        _ => None,
    });
    exchange.pair.edge = edge.expect("an edge");
    let (life, grants) = (exchange.life(), exchange.count(FrameKind::Grant));
    exchange.run(300 * MS);
    assert!(exchange.count(FrameKind::Hello) > 2);
    assert_eq!((exchange.life(), exchange.count(FrameKind::Grant)), (life, grants));
    let asked = inputs(&exchange.pair.journal);
    let asked: Vec<CommandKind> = asked.iter().map(|input| input.command.kind).collect();
    assert_eq!(asked, [CommandKind::GrantIncarnation]);
    durable(&mut exchange, u64::MAX);
    assert_eq!(exchange.life(), life + 1);
    assert!(exchange.count(FrameKind::Grant) > grants);
}

/// The machine with root and gateway starts again with what was durable; the clients' connections
/// are gone.
fn restart(exchange: &mut Exchange, log: &[Input], life: u32) {
    let nodes = deploy(&config(), exchange::Life::of(7_000 + u64::from(life)), |_| LISTENERS)
        .expect("a possible exchange");
    for role in nodes {
        match role {
            Role::Root(mut root) => {
                root.resume(exchange.pair.now, log.iter().copied()).expect("the log goes on");
                root.keep_durably();
                exchange.pair.root = root;
            }
            Role::Edge(edge) => exchange.pair.edge = edge,
            _ => panic!("a root and an edge"),
        }
    }
    exchange.pair.root_out.clear();
    exchange.pair.edge_out.clear();
    exchange.pair.journal.clear();
}

/// Lets time pass on a disk that works.
fn go_on(exchange: &mut Exchange, kept: &mut Kept, times: usize) {
    for _ in 0..times {
        exchange.run(10 * MS);
        let given = inputs(&std::mem::take(&mut exchange.pair.journal));
        let position = kept.write(&given).expect("a disk that works");
        durable(exchange, position);
    }
}

/// Account `n` comes back for what it has not heard.
fn login_again(exchange: &mut Exchange, n: u32) {
    let (conn, mut bytes) = (ConnId(n), Vec::new());
    let Pair { edge, edge_out, now, .. } = &mut exchange.pair;
    edge.handle_connect(*now, conn, edge_out);
    let client = exchange.client_mut(n);
    client.closed = false;
    client.soup.handle_close();
    client.soup.connect(Nanos(0), &mut bytes).expect("a login");
    exchange.write(n, &bytes);
}

fn answered(exchange: &Exchange, n: u32) -> usize {
    exchange.answers(n).chars().filter(|kind| matches!(kind, 'A' | 'J')).count()
}

fn streams(root: &Root) -> (u64, u64, Vec<u64>) {
    let next = (1..=3).map(|n| root.private().next_position(types::AccountId(n))).collect();
    (root.engine().state_digest(), root.engine().feed_next().0, next)
}

/// A journal on a simulated disk, and what it is opened with.
struct Kept {
    disk: SimDisk,
    /// Crashes, writes that a crash tore, torn tails that were cut.
    seen: [u64; 3],
}

impl Kept {
    fn config() -> Config {
        let small = Config::new(1, *b"inputs of an exchange under test");
        Config { block: 512, segment_bytes: 32 << 10, batch_bytes: 4 << 10, ..small }
    }

    /// Writes inputs after those that are there; how far it is durable, or `None` when the machine
    /// has crashed.
    fn write(&mut self, inputs: &[Input]) -> Option<u64> {
        let (mut journal, _) = Journal::open(&mut self.disk, &Kept::config()).ok()?;
        for input in inputs {
            journal.append(1, input.as_bytes()).expect("room in a batch");
        }
        journal.flush().ok()
    }

    /// The machine starts again: what is on the disk.
    fn restart(&mut self) -> Vec<Input> {
        self.disk.restart();
        let opened = Journal::open(&mut self.disk, &Kept::config());
        let (mut journal, recovery) = opened.expect("an honest disk");
        self.seen[2] += u64::from(recovery.tail.is_some());
        let mut log = Vec::new();
        let input = |record: journal::Record<'_>| {
            log.push(Input::try_read_from_bytes(record.bytes).expect("an input"));
        };
        journal.read(1, recovery.last, input).expect("whole");
        let stats = journal.into_storage().stats();
        (self.seen[0], self.seen[1]) = (stats.crashes, stats.torn);
        log
    }
}

/// Each request has one answer, requests of a session are in the log in their order, and the log
/// alone gives the same state.
fn check(exchange: &Exchange, asked: [usize; 2], what: &str) {
    let root = &exchange.pair.root;
    for n in 1..=2u32 {
        let answers = exchange.answers(n);
        assert_eq!(answered(exchange, n), asked[n as usize - 1], "{what}: {answers}");
        let of = |input: &&Input| {
            u32::from(input.command.account.0) == n && input.command.kind == CommandKind::NewOrder
        };
        let mut logged: Vec<u32> =
            root.log().iter().filter(of).map(|input| input.command.user_ref.0).collect();
        logged.dedup();
        assert!(logged.is_sorted(), "{what}: a session was reordered");
        // The client has its private stream without a gap, and nothing beside it.
        let next = root.private().next_position(types::AccountId(n as u16));
        assert_eq!(exchange.client(n).sequenced.len() as u64 + 1, next, "{what}");
    }
    let replayed = engine::replay(config().engine(), root.log().iter(), |_, _, _, _| {});
    assert_eq!(replayed.state_digest(), root.engine().state_digest(), "{what}");
}

#[test]
fn an_exchange_that_starts_again_goes_on_where_its_journal_ends() {
    let mut seen = [0; 3];
    for seed in 0..30 {
        let mut rng = SplitMix64::new(seed);
        let mut exchange = kept();
        let mut kept = Kept { disk: SimDisk::new(seed), seen: [0; 3] };
        let begun: Vec<Input> = exchange.pair.root.log().iter().copied().collect();
        assert_eq!(kept.write(&begun), Some(begun.len() as u64));
        exchange.login(1);
        exchange.login(2);
        let mut asked: [Vec<(Side, i64, u64)>; 2] = Default::default();
        for step in 0..40 {
            let who = rng.below(2) as usize;
            let side = if rng.below(2) == 0 { Side::Buy } else { Side::Sell };
            let (price, qty) = (95 + rng.below(10) as i64, 1 + rng.below(9));
            asked[who].push((side, price, qty));
            exchange.order(who as u32 + 1, asked[who].len() as u32, side, price, qty);
            if rng.below(3) == 0 {
                continue;
            }
            if rng.below(6) == 0 {
                kept.disk.crash_at(rng.below(40));
            }
            let applied = exchange.pair.root.engine().applied();
            let before = streams(&exchange.pair.root);
            let given = inputs(&std::mem::take(&mut exchange.pair.journal));
            if let Some(position) = kept.write(&given) {
                durable(&mut exchange, position);
                continue;
            }
            let log = kept.restart();
            assert!(log.len() as u64 >= applied, "seed {seed}: lost what was acknowledged");
            restart(&mut exchange, &log, step);
            if log.len() as u64 == applied {
                assert_eq!(streams(&exchange.pair.root), before, "seed {seed}");
            }
            go_on(&mut exchange, &mut kept, 30);
            for n in 1..=2 {
                login_again(&mut exchange, n);
                go_on(&mut exchange, &mut kept, 5);
                // Whatever has no answer is asked again, as it was.
                let mine = &asked[n as usize - 1];
                let from = answered(&exchange, n);
                for (place, (side, price, qty)) in mine.iter().enumerate().skip(from) {
                    exchange.order(n, place as u32 + 1, *side, *price, *qty);
                }
                go_on(&mut exchange, &mut kept, 5);
            }
        }
        // On a disk that works, all is answered in the end.
        kept.restart();
        go_on(&mut exchange, &mut kept, 30);
        check(&exchange, [0, 1].map(|n: usize| asked[n].len()), &format!("seed {seed}"));
        let logged: Vec<Input> = exchange.pair.root.log().iter().copied().collect();
        assert!(kept.restart() == logged, "seed {seed}: the journal is the log");
        seen.iter_mut().zip(kept.seen).for_each(|(sum, count)| *sum += count);
    }
    assert!(seen[0] > 60 && seen[1] > 5, "crashes, torn writes, tails: {seen:?}");
}

/// Negative control: a root that acknowledges before its journal has it is caught.
#[test]
fn control_an_acknowledgement_before_the_write_is_caught() {
    let mut exchange = kept();
    let log: Vec<Input> = exchange.pair.root.log().iter().copied().collect();
    exchange.login(1);
    exchange.order(1, 1, Side::Sell, 100, 5);
    // It is told so, and nobody has written it.
    durable(&mut exchange, u64::MAX);
    assert_eq!(exchange.answers(1), "A");
    restart(&mut exchange, &log, 0);
    exchange.run(1_000 * MS);
    durable(&mut exchange, u64::MAX);
    let caught =
        std::panic::catch_unwind(AssertUnwindSafe(|| check(&exchange, [1, 0], "control"))).is_err();
    assert!(caught, "the client has what the exchange no longer knows");
}

#[test]
fn an_operators_kill_is_logged_at_once_and_stops_what_is_still_on_its_way() {
    let mut exchange = kept();
    exchange.login(1);
    // Nothing of this is durable: it waits at the gate.
    for n in 1..=50 {
        exchange.order(1, n, Side::Buy, 90, 1);
    }
    let waiting = exchange.pair.root.waiting();
    let mut kill = types::Command::new(CommandKind::Kill);
    (kill.account, kill.param) = (types::AccountId(1), 1);
    let pair = &mut exchange.pair;
    let applied = pair.root.operator(pair.now, kill, &mut pair.root_out);
    assert_eq!(applied, None, "what becomes of it is known when it is durable");
    assert_eq!(exchange.pair.root.waiting(), waiting + 1, "it does not wait for those before");
    let killed = Seq(exchange.pair.root.log().len() as u64);
    let bust =
        types::Command { qty: types::Qty(999), ..types::Command::new(CommandKind::BustTrade) };
    let pair = &mut exchange.pair;
    assert_eq!(pair.root.operator(pair.now, bust, &mut pair.root_out), None);
    let busted = Seq(killed.0 + 1);
    let outcomes = |root: &Root| [root.outcome(killed), root.outcome(busted)];
    assert_eq!(outcomes(&exchange.pair.root), [None, None]);
    for n in 51..=80 {
        exchange.order(1, n, Side::Buy, 90, 1);
    }
    durable(&mut exchange, u64::MAX);
    assert_eq!(outcomes(&exchange.pair.root), [Some(Applied::Done), Some(Applied::Refused)]);
    let engine = exchange.pair.root.engine();
    assert_eq!(engine.open_orders(), 0);
    assert_eq!(engine.counters().accepted, 50, "none that came after it");
}
