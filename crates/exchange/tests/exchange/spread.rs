//! Two streams for three instruments: every tick in its own, executions held by their own.

use exchange::{ExchangeConfig, ExchangeError, Spread, TreeShape};
use overlay::hedging::Hedging;
use types::{ExecutionKind, Instrument, InstrumentId, Side, Symbol};

use crate::{
    bench::{Exchange, SERVER, settings},
    common::{MS, config, enter_for},
};

const SYMBOLS: [&str; 3] = ["AAA", "BBB", "CCC"];

/// AAA and CCC on the first tree, BBB on the second.
fn spread() -> ExchangeConfig {
    let mut config = config();
    let like = config.instruments[0];
    let instrument = |(index, name): (usize, &&str)| Instrument {
        id: InstrumentId(index as u16 + 1),
        symbol: Symbol::new(name).expect("valid"),
        ..like
    };
    config.instruments = SYMBOLS.iter().enumerate().map(instrument).collect();
    config.options.hedging = Hedging { planes: 2, ..Hedging::default() };
    config.options.spread = Spread::Symbols(Vec::new());
    config
}

/// Account `n` orders one lot of an instrument, counted from 0.
fn order(exchange: &mut Exchange, n: u32, of: usize, user_ref: u32, side: Side) {
    let (symbol, mut message) = (Symbol::new(SYMBOLS[of]).expect("valid"), Vec::new());
    enter_for(symbol, (user_ref, side, 100, 1), &mut message);
    exchange.say(n, &message);
}

fn exchange(config: &ExchangeConfig) -> Exchange {
    let mut exchange = Exchange::new(config, 2);
    exchange.login(1);
    exchange.login(2);
    exchange
}

/// Trades all instruments, this many rounds; numbers of requests from `first`.
fn trade(exchange: &mut Exchange, first: u32, rounds: u32) {
    for round in 0..rounds {
        for of in 0..3 {
            let user_ref = first + 3 * round + of as u32;
            order(exchange, 1, of, user_ref, Side::Sell);
            order(exchange, 2, of, user_ref, Side::Buy);
        }
    }
}

/// Executions told before their tick was released: looked up in the stream that `stream_of` says.
fn told_early(exchange: &Exchange, stream_of: impl Fn(InstrumentId) -> usize) -> (u32, u32) {
    let (mut early, mut all) = (0, 0);
    for &(conn, position, released) in &exchange.world.told {
        let report = exchange.record(conn, position);
        if report.kind == ExecutionKind::Executed {
            all += 1;
            early += u32::from(report.public_after.0 > released[stream_of(report.instrument)]);
        }
    }
    (early, all)
}

#[test]
fn books_and_bytes_are_equal_stream_by_stream() {
    let config = spread();
    let mut exchange = exchange(&config);
    trade(&mut exchange, 1, 5);
    let root = &exchange.pair.root;
    let published: Vec<u64> = root.publishers().map(|of| of.feed_next().0 - 1).collect();
    let all = root.engine().feed_next().0 - 1;
    assert_eq!(published.len(), 2);
    assert!(published[0] > published[1] && published[1] > 10, "{published:?}");
    // What concerns everybody is in both streams: the steps of the day, from its start on.
    let twice = published.iter().sum::<u64>() - all;
    assert!((1..10).contains(&twice), "{published:?} of {all}");
    assert_eq!(root.counters().unencodable, 0);
    let ears = exchange.world.ears.iter().map(|ear| ear.listener.channels());
    let audit = exchange::audit(root, ears);
    assert!(audit.books_equal && audit.positions > 3, "{audit:?}");
    for ear in &exchange.world.ears {
        let heard: Vec<u64> = ear.listener.channels().iter().map(|c| c.next_seq().0 - 1).collect();
        assert_eq!(heard, published);
        let books: Vec<_> = ear.listener.channels().iter().map(|c| c.instruments()).collect();
        assert_eq!(books, [&[InstrumentId(1), InstrumentId(3)][..], &[InstrumentId(2)]]);
    }
}

#[test]
fn the_audit_finds_a_changed_tick_in_either_stream_and_a_stream_not_followed() {
    for stream in 0..2usize {
        let mut exchange = exchange(&spread());
        trade(&mut exchange, 1, 2);
        // A byte of a price, or of a number: the digest of bytes sees all of them.
        let next = exchange.pair.root.router().next()[stream];
        exchange.world.keep_feed = false;
        exchange.world.ears[1].flip = Some((next, 12));
        order(&mut exchange, 1, stream, 50, Side::Sell);
        exchange.world.ears[1].flip = None;
        trade(&mut exchange, 60, 2);
        let ears = exchange.world.ears.iter().map(|ear| ear.listener.channels());
        let audit = exchange::audit(&exchange.pair.root, ears);
        assert!(!audit.books_equal, "stream {stream}");
        let blamed =
            |problem: &String| problem.contains(&format!("listener 2, stream {}", stream + 1));
        assert!(audit.problems.iter().any(blamed), "stream {stream}: {audit:?}");
        assert!(audit.problems.iter().all(|problem| problem.contains("listener 2")), "{audit:?}");
    }
    let mut exchange = exchange(&spread());
    trade(&mut exchange, 1, 1);
    let half = exchange.world.ears.iter().map(|ear| &ear.listener.channels()[..1]);
    let audit = exchange::audit(&exchange.pair.root, half);
    assert!(!audit.books_equal && audit.problems.len() == 2, "{audit:?}");
}

#[test]
fn an_execution_waits_for_its_own_stream_only() {
    let config = spread();
    let mut exchange = exchange(&config);
    for (n, side) in [(1, Side::Sell), (2, Side::Buy)] {
        if n == 2 {
            (exchange.world.keep_feed, exchange.world.keep_stream) = (true, Some(1));
        }
        order(&mut exchange, n, 0, 1, side);
    }
    assert_eq!((exchange.answers(1), exchange.answers(2)), ("AE".into(), "AE".into()));
    order(&mut exchange, 1, 1, 2, Side::Sell);
    order(&mut exchange, 2, 1, 2, Side::Buy);
    exchange.run(20 * MS);
    assert_eq!((exchange.answers(1), exchange.answers(2)), ("AEA".into(), "AEA".into()));
    exchange.give_feed();
    assert_eq!((exchange.answers(1), exchange.answers(2)), ("AEAE".into(), "AEAE".into()));
    trade(&mut exchange, 3, 5);
    assert_eq!(exchange.pair.edge.gateway().counters().overdue, 0);
    assert_eq!(told_early(&exchange, |id| config.stream_of(id).into()), (0, 34));
}

/// A gateway that looks at the other stream lets something out early, and that is seen.
#[test]
fn looking_at_the_wrong_stream_is_found() {
    let config = spread();
    let mut exchange = exchange(&config);
    let mut wrong = config.clone();
    wrong.options.spread = Spread::Symbols(vec![Some(1), Some(0), Some(1)]);
    exchange.pair.edge = {
        let mut nodes =
            exchange::deploy(&wrong, exchange::Life::of(2_000), |_| crate::common::LISTENERS)
                .unwrap();
        let Some(exchange::Role::Edge(edge)) = nodes.pop() else { panic!("an edge") };
        edge
    };
    exchange.world.clients.clear();
    exchange.world.released = [0; 2];
    exchange.run(300 * MS);
    exchange.login(1);
    exchange.login(2);
    // The first stream runs ahead of the second, so its positions are higher.
    for user_ref in 1..=6 {
        order(&mut exchange, 1, 0, user_ref, Side::Sell);
    }
    (exchange.world.keep_feed, exchange.world.keep_stream) = (true, Some(1));
    order(&mut exchange, 1, 1, 20, Side::Sell);
    order(&mut exchange, 2, 1, 20, Side::Buy);
    let (early, all) = told_early(&exchange, |id| config.stream_of(id).into());
    assert_eq!((early, all), (2, 2), "both sides heard of a trade that nobody can know");
}

#[test]
fn retransmission_requests_are_answered_by_session() {
    let config = spread();
    let mut exchange = exchange(&config);
    trade(&mut exchange, 1, 2);
    let server = exchange.pair.root.publishers().map(|of| of.store().stats()).collect::<Vec<_>>();
    assert!(server.iter().all(|stats| stats.public_requests == 0));
    let sessions: Vec<[u8; 10]> = (0..2).map(|stream| config.session_of(stream)).collect();
    assert_eq!(sessions, [*b"FAIRBELL01", *b"FAIRBELL02"]);
    for session in [*b"FAIRBELL02", *b"FAIRBELL02", *b"FAIRBELL01", *b"FAIRBELL03"] {
        let mut request = session.to_vec();
        request.extend(1u64.to_be_bytes());
        request.extend(1u16.to_be_bytes());
        let pair = &mut exchange.pair;
        let (now, out) = (pair.now, &mut pair.root_out);
        use types::Node;
        pair.root.handle_datagram(now, types::Channel::FEED, SERVER, &request, out);
        exchange.settle();
    }
    let stats: Vec<_> = exchange.pair.root.publishers().map(|of| of.store().stats()).collect();
    assert_eq!((stats[0].public_requests, stats[0].public_replies, stats[0].refused), (1, 1, 1));
    assert_eq!((stats[1].public_requests, stats[1].public_replies), (2, 2));
}

#[test]
fn what_can_not_be_is_refused() {
    let refusal = |change: &dyn Fn(&mut ExchangeConfig)| {
        let mut config = spread();
        change(&mut config);
        exchange::deploy(&config, exchange::Life::of(1), |_| SERVER).err()
    };
    assert_eq!(refusal(&|_| ()), None);
    let no_such = |config: &mut ExchangeConfig| {
        config.options.spread = Spread::Symbols(vec![Some(2)]);
    };
    assert_eq!(refusal(&no_such), Some(ExchangeError::NoSuchTree));
    let changes = |config: &mut ExchangeConfig| {
        config.options.shapes = vec![TreeShape { depth: 2, fanout: 2 }];
    };
    assert_eq!(refusal(&changes), Some(ExchangeError::TreesBySymbolChange));
    let many = |config: &mut ExchangeConfig| config.options.hedging.planes = 37;
    assert_eq!(refusal(&many), Some(ExchangeError::NoSuchTree));
    let config = spread();
    assert_eq!(settings(&config).instruments.len(), 3);
}
