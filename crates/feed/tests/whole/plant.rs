//! The ticker plant: what its lines publish is what the exchange sent, each subscriber gets its
//! symbols and nothing else, silence is told, and no bytes do harm.

use fast::opra::stream::{Shape, make};
use fast::opra::{Best, Event, Price, Series, V2, to_event};
use fast::slots::{Message, SlotDecoder, SlotSink};
use feed::plant::{
    Follower, Format, Kind, Line, LineConfig, Request, Subscriptions, UPDATE_BYTES, Update, deal,
    parse_challenge, symbol, symbol_text,
};
use feed::{ArbiterConfig, TopOfBook};
use proptest::prelude::*;
use types::{Nanos, SplitMix64};

const MS: u64 = 1_000_000;

fn config() -> LineConfig {
    let arbiter = ArbiterConfig { stale: Nanos(100 * MS), ..ArbiterConfig::default() };
    LineConfig { format: Format::OpraFastV2, arbiter, quiet: Nanos(500 * MS), series_max: 1 << 20 }
}

/// Quotes and trades of packets, decoded without a plant, with the best prices after each.
struct Plain {
    top: TopOfBook,
    seen: Vec<(u64, Series, i64, Option<Best>)>,
}

impl SlotSink for Plain {
    fn message(&mut self, message: &Message<'_>) {
        match to_event::<V2>(message) {
            Event::Quote(header, quote) => {
                let top = self.top.quote(header.participant, &quote).unwrap();
                self.seen.push((header.sequence, quote.series, quote.bid.0, top.bid));
            }
            Event::LastSale(header, sale) => {
                self.seen.push((header.sequence, sale.series, sale.price.0, None));
            }
            _ => {}
        }
    }
}

#[test]
fn a_line_publishes_what_was_sent_whichever_side_brought_it() {
    let stream = make::<V2>(Shape { seed: 4, bytes: 200_000, ..Shape::default() });
    let packets: Vec<&[u8]> = stream.packets().collect();
    let mut plain = Plain { top: TopOfBook::new(1 << 20), seen: Vec::new() };
    let mut decoder = SlotDecoder::<V2>::default();
    for packet in &packets {
        decoder.packet(packet, &mut plain).unwrap();
    }
    let mut rng = SplitMix64::new(5);
    let mut line = Line::new(3, config(), Nanos(0));
    let mut out = Vec::new();
    for (at, pair) in (0..).zip(packets.chunks(2)) {
        // A brings them in order, B the other way round; each loses some that the other has.
        let lost = rng.below(4);
        let now = Nanos(at * 100_000);
        for (place, packet) in pair.iter().enumerate() {
            if lost != place as u64 {
                line.packet(now, 0, packet, &mut out);
            }
        }
        for (place, packet) in pair.iter().enumerate().rev() {
            if lost != place as u64 + 2 {
                line.packet(now, 1, packet, &mut out);
            }
        }
    }
    let got: Vec<_> = out
        .iter()
        .map(|update| (update.sequence, update.series, update.bid.0, update.best_bid))
        .collect();
    assert_eq!(got, plain.seen);
    assert!(out.iter().all(|update| update.line == 3));
    let health = line.health();
    assert_eq!((health.messages, health.stats.lost, health.strange), (stream.messages, 0, 0));
    assert!(health.stats.duplicates > 100 && health.sides[1].first > 100);
    assert_eq!(health.updates, out.len() as u64);
    assert!(health.series > 100 && line.load() == stream.messages);
}

#[test]
fn silence_and_losses_of_a_line_are_told() {
    let stream = make::<V2>(Shape { seed: 6, bytes: 10_000, ..Shape::default() });
    let packets: Vec<&[u8]> = stream.packets().collect();
    let mut line = Line::new(0, config(), Nanos(0));
    let mut out = Vec::new();
    let mut kinds = |line: &mut Line, now: u64, packets: &[(usize, &[u8])]| {
        out.clear();
        for (side, packet) in packets {
            line.packet(Nanos(now * MS), *side, packet, &mut out);
        }
        line.poll(Nanos(now * MS), &mut out);
        let about = |update: &&Update| !matches!(update.kind, Kind::Quote | Kind::Trade);
        out.iter().filter(about).map(|update| (update.kind, update.participant)).collect::<Vec<_>>()
    };
    assert_eq!(kinds(&mut line, 1, &[(0, packets[0]), (1, packets[0])]), []);
    assert_eq!(kinds(&mut line, 90, &[(0, packets[1])]), []);
    assert_eq!(kinds(&mut line, 150, &[(0, packets[2])]), [(Kind::SideDead, 1)]);
    assert_eq!(kinds(&mut line, 160, &[(1, packets[2])]), [(Kind::SideAlive, 1)]);
    // Packet 3 is missing, and the wait for it is over.
    assert_eq!(kinds(&mut line, 170, &[(0, packets[4])]), []);
    assert_eq!(kinds(&mut line, 190, &[]), [(Kind::Gap, 0)]);
    assert_eq!(kinds(&mut line, 600, &[]), [], "a control: not silent for long enough");
    assert_eq!(kinds(&mut line, 700, &[]), [(Kind::Stale, 0)]);
    assert_eq!(kinds(&mut line, 900, &[]), [], "told once");
    assert!(line.health().stale);
    assert_eq!(kinds(&mut line, 901, &[(0, packets[5])])[0], (Kind::Fresh, 0));
    assert_eq!(line.health().stats.gaps, 1);
}

/// Numbers of the quotes and trades of packets.
fn numbers(packets: &[&[u8]]) -> Vec<u64> {
    let mut plain = Plain { top: TopOfBook::new(1 << 20), seen: Vec::new() };
    let mut decoder = SlotDecoder::<V2>::default();
    packets.iter().for_each(|packet| assert!(decoder.packet(packet, &mut plain).is_ok()));
    plain.seen.iter().map(|(sequence, ..)| *sequence).collect()
}

#[test]
fn twenty_four_lines_keep_apart_and_in_order() {
    const LINES: usize = 24;
    // Of one line side B never speaks, of one both sides lose a packet, one falls silent.
    const ONE_SIDED: usize = 7;
    const BROKEN: usize = 13;
    const SILENT: usize = 20;
    const LOST: usize = 40;
    let stream = |seed| make::<V2>(Shape { seed, bytes: 40_000, ..Shape::default() });
    let streams: Vec<_> = (100..).take(LINES).map(stream).collect();
    let sent = |line: usize| if line == SILENT { 30 } else { 90 };
    let sent = (0..LINES).zip(&streams).map(|(line, s)| s.packets().take(sent(line)).collect());
    let packets: Vec<Vec<&[u8]>> = sent.collect();
    let mut lines: Vec<Line> =
        (0..LINES).map(|line| Line::new(line as u8, config(), Nanos(0))).collect();
    let owners = deal(&[0; LINES], 2);
    let mut rng = SplitMix64::new(8);
    let (mut out, mut datagrams) = (Vec::new(), Vec::new());
    let mut subscriptions: Subscriptions<u8> = Subscriptions::new(1);
    subscriptions.request(Nanos(0), 1, &Request { symbols: vec![], leave: false, token: [0; 16] });
    for at in 0..100 {
        let now = Nanos(10 * MS * (at as u64 + 1));
        // Each of the two loops reads its lines one after the other.
        let mine = |owner| owners.iter().enumerate().filter(move |(_, one)| **one == owner);
        for (number, _) in mine(0).chain(mine(1)) {
            let mut mine = Vec::new();
            let drawn = rng.below(4) as usize;
            for side in 0..2 {
                let lost = match number {
                    ONE_SIDED => side == 1,
                    BROKEN if at == LOST => true,
                    _ => drawn == side,
                };
                if let (Some(packet), false) = (packets[number].get(at), lost) {
                    lines[number].packet(now, side, packet, &mut mine);
                }
            }
            lines[number].poll(now, &mut mine);
            for update in &mine {
                subscriptions.publish(update, |_, bytes| datagrams.push(bytes.to_vec()));
            }
            out.append(&mut mine);
        }
        subscriptions.flush(now, |_, bytes| datagrams.push(bytes.to_vec()));
    }
    let (mut follower, mut told) = (Follower::default(), Vec::new());
    for datagram in &datagrams {
        follower.datagram(datagram, |update| told.push(update));
    }
    assert_eq!((told == out, follower.lost), (true, 0));
    for number in 0..LINES {
        let of_line = told.iter().filter(|update| usize::from(update.line) == number);
        let ticks = of_line.filter(|update| matches!(update.kind, Kind::Quote | Kind::Trade));
        let got: Vec<u64> = ticks.map(|update| update.sequence).collect();
        let mut whole = packets[number].clone();
        let all = numbers(&whole);
        let wanted = if number == BROKEN {
            whole.remove(LOST);
            numbers(&whole)
        } else {
            all.clone()
        };
        assert_eq!(got, wanted, "line {number}");
        assert!(got.is_sorted() && got.len() > 400, "line {number}");
        assert_eq!(all.len() > got.len(), number == BROKEN, "line {number}");
        let health = lines[number].health();
        assert_eq!(health.updates, got.len() as u64);
        let dead = health.sides.map(|side| side.stale);
        assert_eq!(dead, [0, u64::from(number == ONE_SIDED)], "line {number}");
        assert_eq!(health.stats.gaps, u64::from(number == BROKEN), "line {number}");
        assert_eq!(health.stats.lost > 0, number == BROKEN, "line {number}");
        assert_eq!(health.stale, number == SILENT, "line {number}");
    }
}

#[test]
fn a_side_is_not_dead_because_the_other_is_a_little_ahead() {
    let stream = make::<V2>(Shape { seed: 9, bytes: 10_000, ..Shape::default() });
    let packets: Vec<&[u8]> = stream.packets().collect();
    // Times of packets in milliseconds, by side; B begins after A, and is a packet behind at the end.
    let alarms = |last: u64| {
        let mut line = Line::new(0, config(), Nanos(0));
        let mut out = Vec::new();
        let heard = [(1_000, 0, 0), (1_005, 1, 0), (1_090, 0, 1), (last, 0, 2)];
        for (at, side, packet) in heard {
            line.packet(Nanos(at * MS), side, packets[packet], &mut out);
        }
        for at in last..last + 300 {
            line.poll(Nanos(at * MS), &mut out);
        }
        line.health().sides.map(|side| side.stale)
    };
    assert_eq!(alarms(1_100), [0, 0]);
    assert_eq!(alarms(1_120), [0, 1], "a control");
}

fn quote(symbol: u64, sequence: u64) -> Update {
    let series = Series { symbol, month: b'A', day: 3, year: 10, ..Series::default() };
    Update { series, sequence, ..Update::of_line(Kind::Quote, 1, Nanos(9)) }
}

#[test]
fn subscribers_get_their_symbols_and_see_what_is_lost() {
    let [ibm, ge, f] = ["IBM", "GE", "F"].map(|text| symbol(text).unwrap());
    assert_eq!((symbol_text(ibm).as_str(), symbol(""), symbol("TOOLONGER")), ("IBM", None, None));
    let mut subscriptions: Subscriptions<u16> = Subscriptions::new(77);
    let ask = |symbols: &[u64]| Request { symbols: symbols.to_vec(), leave: false, token: [0; 16] };
    let bytes = ask(&[ibm]).encode();
    assert_eq!(Request::parse(&bytes), Some(ask(&[ibm])));
    assert!(subscriptions.request(Nanos(0), 1, &ask(&[ibm])));
    assert!(subscriptions.request(Nanos(0), 1, &ask(&[ge])));
    assert!(subscriptions.request(Nanos(0), 2, &ask(&[])));
    let mut sent: Vec<(u16, Vec<u8>)> = Vec::new();
    for sequence in 0..90 {
        let update = quote([ibm, ge, f][sequence as usize % 3], sequence);
        subscriptions.publish(&update, |to, bytes| sent.push((to, bytes.to_vec())));
    }
    subscriptions
        .publish(&Update::of_line(Kind::Stale, 1, Nanos(9)), |to, b| sent.push((to, b.to_vec())));
    subscriptions.flush(Nanos(1), |to, bytes| sent.push((to, bytes.to_vec())));
    assert!(sent.iter().all(|(_, bytes)| bytes.len() <= 1_400));
    let follow = |to: u16, drop: usize| {
        let (mut follower, mut all) = (Follower::default(), Vec::new());
        for (_, bytes) in sent.iter().filter(|(known, _)| *known == to).skip(drop) {
            follower.datagram(bytes, |update| all.push(update));
        }
        (follower, all)
    };
    let (follower, all) = follow(1, 0);
    assert_eq!((all.len(), follower.lost), (61, 0));
    assert!(all[..60].iter().all(|update| [ibm, ge].contains(&update.series.symbol)));
    assert_eq!(all[60].kind, Kind::Stale);
    assert_eq!(follow(2, 0).1.len(), 91);
    // The second datagram is lost, the first one comes twice.
    let mine: Vec<&Vec<u8>> = sent.iter().filter(|(to, _)| *to == 1).map(|(_, b)| b).collect();
    let mut follower = Follower::default();
    let lost: Vec<u64> =
        [mine[0], mine[0], mine[2]].iter().map(|bytes| follower.datagram(bytes, |_| ())).collect();
    assert_eq!((lost, follower.ignored), (vec![0, 0, 12], 1));
    let other = Subscriptions::<u16>::new(78);
    assert_eq!(other.subscribers(), 0);
}

/// What an address gets that never shows a token: bytes in, bytes out.
fn unproven(granted: bool) -> (usize, usize) {
    let mut subscriptions: Subscriptions<u16> = Subscriptions::new(1);
    let token = |period: u64| [period as u8 ^ 0x5A; 16];
    let (mut came, mut went) = (0, 0);
    for second in 0..100u64 {
        let now = Nanos(second * 1_000 * MS);
        let ask = Request { symbols: vec![], leave: second % 7 == 6, token: [0; 16] };
        let bytes = ask.encode();
        came += bytes.len();
        match granted {
            true => drop(subscriptions.request(now, 9, &ask)),
            false => {
                went += subscriptions.datagram(now, (9, &bytes), token).map_or(0, |told| told.len())
            }
        }
        for sequence in 0..100 {
            subscriptions.publish(&quote(7, sequence), |_, bytes| went += bytes.len());
        }
        subscriptions.flush(now, |_, bytes| went += bytes.len());
        subscriptions.tick(now, |_, bytes| went += bytes.len());
    }
    (came, went)
}

#[test]
fn an_address_without_its_token_gets_no_more_than_it_sent() {
    let (came, went) = unproven(false);
    assert!(went <= came && went > 0, "{went} for {came}");
    let (came, went) = unproven(true);
    assert!(went > 50 * came, "control: without the rule {went} for {came}");
}

#[test]
fn who_shows_its_token_subscribes_and_nobody_else_ends_that() {
    let mut subscriptions: Subscriptions<u16> = Subscriptions::new(1);
    let of = |from: u16| move |period: u64| [from as u8 ^ period as u8; 16];
    let ask = |leave, token| Request { symbols: vec![], leave, token }.encode();
    let told =
        subscriptions.datagram(Nanos(0), (1, &ask(false, [0xFF; 16])), of(1)).expect("a token");
    let token = parse_challenge(&told).expect("told");
    assert_eq!(subscriptions.subscribers(), 0);
    assert_eq!(subscriptions.datagram(Nanos(1), (1, &ask(false, token)), of(1)), None);
    assert_eq!(subscriptions.subscribers(), 1);
    for forged in [[0xFF; 16], [0x33; 16]] {
        assert!(subscriptions.datagram(Nanos(2), (1, &ask(true, forged)), of(1)).is_some());
    }
    assert!(
        subscriptions.datagram(Nanos(2), (2, &ask(false, token)), of(2)).is_some(),
        "another address"
    );
    assert_eq!((subscriptions.subscribers(), subscriptions.counters().challenged), (1, 4));
    let minute = 60_000 * MS;
    assert_eq!(
        subscriptions.datagram(Nanos(minute), (1, &ask(false, token)), of(1)),
        None,
        "still good"
    );
    assert!(
        subscriptions.datagram(Nanos(2 * minute), (1, &ask(false, token)), of(1)).is_some(),
        "too old"
    );
    assert_eq!(subscriptions.datagram(Nanos(minute), (1, &ask(true, token)), of(1)), None);
    assert_eq!(subscriptions.subscribers(), 0);
}

#[test]
fn leases_end_and_silence_has_a_heartbeat() {
    let mut subscriptions: Subscriptions<u16> = Subscriptions::new(1);
    let all = Request { symbols: vec![], leave: false, token: [0; 16] };
    for subscriber in 0..64 {
        assert!(subscriptions.request(Nanos(0), subscriber, &all));
    }
    assert!(!subscriptions.request(Nanos(0), 64, &all), "no room");
    assert!(subscriptions.request(Nanos(0), 5, &Request { leave: true, ..all.clone() }));
    assert!(subscriptions.request(Nanos(8_000 * MS), 64, &all), "somebody left");
    let mut beats = 0;
    let mut follower = Follower::default();
    for second in 0..=10 {
        subscriptions.tick(Nanos(second * 1_000 * MS), |to, bytes| {
            beats += u64::from(to == 7);
            assert_eq!(follower.datagram(bytes, |_| panic!("an update")), 0);
        });
    }
    assert_eq!((beats, subscriptions.subscribers()), (10, 64));
    subscriptions.tick(Nanos(11_000 * MS), |_, _| ());
    assert_eq!(
        (
            subscriptions.subscribers(),
            subscriptions.counters().expired,
            subscriptions.counters().refused
        ),
        (1, 63, 1)
    );
}

fn best() -> impl Strategy<Value = Option<Best>> {
    let best = |(participant, price, size)| Best { participant, price: Price(price), size };
    prop::option::of((any::<u8>(), any::<i64>(), any::<u32>()).prop_map(best))
}

fn updates() -> impl Strategy<Value = Update> {
    let series = (any::<u64>(), any::<[u8; 4]>(), any::<i64>());
    let own = (any::<i64>(), any::<u32>(), any::<i64>(), any::<u32>());
    let head = (any::<[u8; 3]>(), any::<u64>(), any::<u64>(), any::<u64>());
    (head, series, own, best(), best()).prop_map(|(head, series, own, best_bid, best_offer)| {
        let ([line, participant, bbo], sequence, heard, time) = head;
        let (symbol, [month, day, year, strike_code], strike) = series;
        Update {
            kind: if bbo < 128 { Kind::Quote } else { Kind::Trade },
            line,
            participant,
            bbo,
            sequence,
            heard: Nanos(heard),
            time,
            series: Series { symbol, month, day, year, strike_code, strike: Price(strike) },
            bid: Price(own.0),
            bid_size: own.1.into(),
            offer: Price(own.2),
            offer_size: own.3.into(),
            best_bid,
            best_offer,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn updates_go_there_and_back(update in updates()) {
        prop_assert_eq!(Update::from_words(&update.to_words()), Some(update));
        let mut bytes = Vec::new();
        update.put(&mut bytes);
        prop_assert_eq!(bytes.len(), UPDATE_BYTES);
        prop_assert_eq!(Update::read(bytes.first_chunk().unwrap()), Some(update));
    }

    #[test]
    fn no_bytes_do_harm(
        noise in prop::collection::vec(any::<u8>(), 0..300),
        changes in prop::collection::vec((any::<u16>(), any::<u8>()), 0..4),
        binary in any::<bool>(),
    ) {
        let format = if binary { Format::OpraBinary } else { Format::OpraFastV2 };
        let mut line = Line::new(0, LineConfig { format, ..config() }, Nanos(0));
        let mut follower = Follower::default();
        let mut subscriptions: Subscriptions<u8> = Subscriptions::new(1);
        let all = Request { symbols: vec![], leave: false, token: [0; 16] };
        subscriptions.request(Nanos(0), 1, &all);
        let mut datagram = Vec::new();
        subscriptions.publish(&quote(7, 1), |_, _| ());
        subscriptions.flush(Nanos(0), |_, bytes| datagram = bytes.to_vec());
        let stream = make::<V2>(Shape { seed: 1, bytes: 300, ..Shape::default() });
        let mut out = Vec::new();
        for mut bytes in [noise, datagram, all.encode(), stream.bytes] {
            for &(at, byte) in &changes {
                let len = bytes.len().max(1);
                if let Some(place) = bytes.get_mut(usize::from(at) % len) {
                    *place = byte;
                }
            }
            follower.datagram(&bytes, |_| ());
            let _ = Request::parse(&bytes);
            let _ = parse_challenge(&bytes);
            line.packet(Nanos(1), 0, &bytes, &mut out);
            prop_assert!(out.len() <= 1_000);
        }
    }
}
