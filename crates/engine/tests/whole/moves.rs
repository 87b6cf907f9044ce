//! An instrument goes to another shard at the end of a day, as the logs of all shards say.

use engine::statement::{draw_up, reconcile};
use engine::{Applied, Config, Engine, InstrumentRules, Limits, MoveFault, Output};
use types::{
    AccountId, CancelReason, Command, CommandKind, ExecutionKind, GatewayId, Incarnation, Input,
    InstrumentId, InstrumentParam, LimitKind, MarketEvent, MovePart, Nanos, PlaceRecord, Price,
    Qty, REQUEST_SENT_AGAIN, RejectReason, Seq, ShardId, Source, SplitMix64, TimeInForce,
    UserRefNum,
};

use crate::bench::{ONE, TWO, buy, cancel, config as plain, replace, sell};

/// Venues of two shards: the first has ONE, the second TWO.
struct Venue {
    engines: Vec<Engine>,
    logs: Vec<Vec<Input>>,
    now: u64,
    next: Vec<u64>,
    directive: u32,
    out: Output,
}

fn config(shard: u16, limits: Limits) -> Config {
    let rules = (0..2)
        .map(|slot| InstrumentRules { held: slot == usize::from(shard), ..plain().rules_of(slot) });
    let rules = rules.collect();
    Config { shard: ShardId(shard), shards: 2, limits, rules, ..plain() }
}

impl Venue {
    fn new(limits: Limits) -> Venue {
        let engines = (0..2).map(|shard| Engine::new(config(shard, limits))).collect();
        let mut venue = Venue {
            engines,
            logs: vec![Vec::new(); 2],
            now: 1_000,
            next: vec![0; 2],
            directive: 0,
            out: Output::default(),
        };
        for shard in 0..2 {
            let source = Source { gateway: GatewayId(1), ..venue.own(shard) };
            let hello =
                Command { user_ref: UserRefNum(7), ..Command::new(CommandKind::GrantIncarnation) };
            assert_eq!(venue.put(shard, source, hello), Applied::Granted(Incarnation(1)));
            assert_eq!(venue.exchange(shard, CommandKind::StartOfDay, 0), Applied::Done);
        }
        venue
    }

    fn own(&self, shard: usize) -> Source {
        Source { shard: ShardId(shard as u16), ..Source::default() }
    }

    fn put(&mut self, shard: usize, source: Source, command: Command) -> Applied {
        self.put_of(shard, Nanos(self.now + 10), source, command)
    }

    fn put_of(&mut self, shard: usize, t_in: Nanos, source: Source, command: Command) -> Applied {
        self.now += 10;
        self.out.clear();
        let (seq, t_seq) = (Seq(self.logs[shard].len() as u64 + 1), Nanos(self.now));
        let input = Input { seq, t_in, t_seq, source, flags: 0, command };
        self.logs[shard].push(input);
        self.engines[shard].apply(&input, &mut self.out)
    }

    /// A participant's request.
    fn ask(&mut self, shard: usize, command: Command) -> Applied {
        self.ask_of(shard, Nanos(self.now + 10), command)
    }

    /// One that came to its gateway at a time.
    fn ask_of(&mut self, shard: usize, t_in: Nanos, command: Command) -> Applied {
        self.next[shard] += 1;
        let (gateway, incarnation) = (GatewayId(1), Incarnation(1));
        let source = Source { gateway, incarnation, seq: self.next[shard], ..self.own(shard) };
        self.put_of(shard, t_in, source, command)
    }

    fn exchange(&mut self, shard: usize, kind: CommandKind, param: u8) -> Applied {
        self.put(shard, self.own(shard), Command { param, ..Command::new(kind) })
    }

    /// A command for all shards.
    fn direct(&mut self, command: Command) -> [Applied; 2] {
        self.directive += 1;
        let command = Command { session_seq: self.directive, ..command };
        [0, 1].map(|shard| self.put(shard, self.own(shard), command))
    }

    fn plan(&mut self, instrument: InstrumentId, to: u64) -> [Applied; 2] {
        let param = InstrumentParam::Shard as u8;
        let qty = Qty(to);
        let kind = CommandKind::SetInstrument;
        self.direct(Command { instrument, param, qty, ..Command::new(kind) })
    }

    fn parts(&self, from: usize) -> Vec<Command> {
        let leaving = self.engines[from].leaving().next().expect("one that leaves");
        let parts = leaving.bytes.chunks(MovePart::BYTES).enumerate();
        let part = |(index, bytes): (usize, &[u8])| {
            let offset = (index * MovePart::BYTES) as u32;
            let part = MovePart::new(leaving.instrument, leaving.number, offset, bytes);
            part.expect("a part").command()
        };
        parts.map(part).collect()
    }

    /// Carries what leaves one shard to the other, whose events of the last part are kept.
    fn carry(&mut self, from: usize) {
        let to = 1 - from;
        for part in self.parts(from) {
            assert_eq!(self.put(to, self.own(to), part), Applied::Done);
        }
    }

    /// What has arrived is said to all.
    fn place(&mut self, at: usize) -> [Applied; 2] {
        let (instrument, number) = self.engines[at].arrived().next().expect("one that has arrived");
        let (param, qty) = (InstrumentParam::Placed as u8, Qty(at as u64));
        let price = Price(i64::from(number));
        let kind = CommandKind::SetInstrument;
        self.direct(Command { instrument, param, qty, price, ..Command::new(kind) })
    }

    /// Snapshots and replays are what the engines are.
    fn check(&self) {
        for (engine, log) in self.engines.iter().zip(&self.logs) {
            let mut bytes = Vec::new();
            engine.write_snapshot(&mut bytes);
            let again = Engine::read_snapshot(engine.config().clone(), &bytes).expect("a snapshot");
            assert_eq!(again.state_digest(), engine.state_digest());
            let settled = draw_up(engine.config().clone(), log);
            assert_eq!(settled.engine.state_digest(), engine.state_digest());
            assert_eq!(reconcile(&settled.ledger, &settled.tape, engine), []);
        }
    }

    fn reports(&self) -> Vec<(ExecutionKind, u16, u32)> {
        let reports = self.out.executions.iter();
        reports.map(|report| (report.kind, report.account.0, report.user_ref.0)).collect()
    }
}

fn stays(command: Command) -> Command {
    Command { time_in_force: TimeInForce::GoodTillCancelled, ..command }
}

/// Of all instruments.
fn mass_cancel(account: u16, number: u32) -> Command {
    Command {
        account: AccountId(account),
        user_ref: UserRefNum(number),
        ..Command::new(CommandKind::MassCancel)
    }
}

fn again(command: Command) -> Command {
    Command { reserved: REQUEST_SENT_AGAIN, ..command }
}

#[test]
fn orders_that_stay_go_with_their_instrument_and_keep_number_and_place() {
    for goes_on in [0, 1] {
        let mut venue = Venue::new(Limits::NONE);
        let first = stays(Command { display_qty: 2, ..sell(1, 1, 8, 110) });
        for command in
            [first, stays(sell(2, 1, 5, 110)), buy(3, 1, 4, 100), stays(buy(3, 2, 4, 100))]
        {
            assert_eq!(venue.ask(0, command), Applied::Done);
        }
        venue.ask(0, buy(4, 1, 2, 110));
        venue.check();
        assert_eq!(venue.plan(ONE, 1), [Applied::Done; 2]);
        assert_eq!(venue.plan(ONE, 0), [Applied::Refused; 2], "one move at a time");
        assert_eq!(venue.engines[0].leaving().count(), 0, "not before the day ends");
        venue.check();
        venue.exchange(0, CommandKind::EndOfDay, goes_on);
        assert_eq!(venue.reports(), [(ExecutionKind::Canceled, 3, 1)], "an order for the day");
        assert_eq!(venue.engines[0].phase(ONE), None);
        assert_eq!(venue.engines[0].position(AccountId(4), ONE).lots, 0);
        let early = venue.parts(0)[0];
        assert_eq!(venue.put(1, venue.own(1), early), Applied::Refused, "its day has not ended");
        venue.exchange(1, CommandKind::EndOfDay, goes_on);
        venue.carry(0);
        venue.check();
        assert_eq!(venue.engines[1].position(AccountId(4), ONE).lots, 2);
        assert_eq!(venue.reports(), [], "nobody is told of anything");
        assert_eq!(venue.place(1), [Applied::Done; 2]);
        let told: Vec<_> = venue.out.executions.iter().filter_map(PlaceRecord::told).collect();
        assert_eq!(told.len(), venue.out.executions.len());
        let of: Vec<u16> = told.iter().map(|record| record.account.0).collect();
        assert_eq!(of, [2, 4, 6, 8], "those that are at home there");
        assert!(told.iter().all(|told| (told.instrument, told.shard.0) == (ONE, 1)));
        assert_eq!(venue.engines[0].leaving().count(), 0);
        venue.check();
        if goes_on == 0 {
            for shard in 0..2 {
                venue.exchange(shard, CommandKind::StartOfDay, 0);
            }
            let events = venue.out.market.iter();
            let adds = events.filter(|(_, event)| matches!(event, MarketEvent::AddOrder { .. }));
            assert_eq!(adds.count(), 3, "the day tells of them");
        }
        // The iceberg showed two lots, which have traded: it has lost its place to the other order.
        assert_eq!(venue.ask(1, buy(5, 1, 6, 110)), Applied::Done);
        let sold = venue.out.executions.iter().filter(|r| r.kind == ExecutionKind::Executed);
        let sold = sold.filter(|r| r.account.0 != 5);
        let sold: Vec<(u16, u32, u64)> =
            sold.map(|r| (r.account.0, r.user_ref.0, r.qty.0)).collect();
        assert_eq!(sold, [(2, 1, 5), (1, 1, 1)]);
        assert_eq!(venue.ask(1, cancel(3, 2)), Applied::Done);
        assert_eq!(venue.reports(), [(ExecutionKind::Canceled, 3, 2)]);
        // And back: by the night in between, too.
        assert_eq!(venue.plan(ONE, 0), [Applied::Done; 2]);
        venue.exchange(1, CommandKind::EndOfDay, 0);
        venue.exchange(0, CommandKind::EndOfDay, 0);
        venue.carry(1);
        venue.place(0);
        venue.check();
        assert_eq!(venue.engines[0].open_orders(), 1);
        assert_eq!(venue.engines[0].placed(ONE), Some(ShardId(0)));
    }
}

#[test]
fn a_request_has_one_answer_wherever_it_comes() {
    let mut venue = Venue::new(Limits::NONE);
    venue.ask(0, stays(buy(3, 1, 4, 100)));
    venue.plan(ONE, 1);
    venue.exchange(0, CommandKind::EndOfDay, 1);
    venue.exchange(1, CommandKind::EndOfDay, 1);
    // The old shard drops what comes after the instrument has gone, and what follows from that.
    let of_one = |command| Command { instrument: ONE, ..command };
    let asked = [
        buy(3, 2, 1, 105),
        of_one(replace(3, 1, 3, 5, 100)),
        of_one(replace(3, 2, 4, 2, 105)),
        of_one(cancel(3, 3)),
    ];
    for command in asked {
        assert_eq!(venue.ask(0, command), Applied::Refused, "{command:?}");
        assert_eq!(venue.reports(), []);
    }
    assert_eq!(venue.ask(0, of_one(mass_cancel(3, 9))), Applied::Refused);
    // A numbered session's is known by another number.
    assert_eq!(venue.ask(0, Command { session_seq: 1, ..buy(4, 1, 1, 100) }), Applied::Done);
    assert_eq!(venue.out.executions[0].reject, RejectReason::Halted);
    let numbered = Command { session_seq: 2, ..of_one(cancel(4, 1)) };
    assert_eq!(venue.ask(0, numbered), Applied::Done);
    assert_eq!(venue.out.executions[0].reject, RejectReason::Halted);
    // Nor does the new one answer before the instrument is there.
    for command in asked {
        assert_eq!(venue.ask(1, command), Applied::Refused, "{command:?}");
    }
    venue.check();
    venue.carry(0);
    venue.check();
    venue.place(1);
    let answers = [
        (ExecutionKind::Accepted, 3, 2),
        (ExecutionKind::Replaced, 3, 3),
        (ExecutionKind::Replaced, 3, 4),
        (ExecutionKind::Canceled, 3, 3),
    ];
    for (command, answer) in asked.into_iter().zip(answers) {
        assert_eq!(venue.ask(1, again(command)), Applied::Done, "{command:?}");
        assert_eq!(venue.reports(), [answer]);
    }
    // What the old one had answered the new one knows.
    let known = again(stays(buy(3, 1, 4, 100)));
    assert_eq!(venue.ask(1, known), Applied::DuplicateRequest);
    assert_eq!(venue.ask(0, stays(buy(3, 1, 4, 100))), Applied::Refused);
    // However late something comes, the old one has no answer.
    for _ in 0..3 {
        venue.exchange(0, CommandKind::EndOfDay, 1);
        assert_eq!(venue.ask(0, buy(5, 1, 1, 100)), Applied::Refused);
        assert_eq!(venue.ask(0, asked[3]), Applied::Refused);
        assert_eq!(venue.reports(), []);
    }
    venue.check();
}

#[test]
fn what_is_known_goes_along_from_shard_to_shard() {
    let mut venue = Venue::new(Limits::NONE);
    let first = stays(buy(3, 1, 4, 100));
    venue.ask(0, first);
    // A mass cancel of all goes to both shards, and each of them carries it out.
    venue.ask(1, Command { instrument: TWO, ..stays(buy(3, 2, 4, 100)) });
    assert_eq!(venue.ask(0, mass_cancel(3, 3)), Applied::Done);
    venue.ask(0, stays(buy(3, 4, 4, 100)));
    for (from, to) in [(0, 1), (1, 0), (0, 1)] {
        venue.plan(ONE, to as u64);
        (0..2).for_each(|shard| {
            let _ = venue.exchange(shard, CommandKind::EndOfDay, 1);
        });
        venue.carry(from);
        venue.place(to);
        assert_eq!(venue.ask(to, first), Applied::DuplicateRequest, "from {from}");
        venue.check();
    }
    let quiet = Command { reserved: 2, ..mass_cancel(3, 3) };
    assert_eq!(venue.ask(1, quiet), Applied::Done);
    assert_eq!(venue.reports(), [(ExecutionKind::Canceled, 3, 4), (ExecutionKind::Canceled, 3, 2)]);
    assert_eq!(venue.ask(1, mass_cancel(3, 3)), Applied::DuplicateRequest);
    assert_eq!(venue.ask(0, mass_cancel(3, 3)), Applied::DuplicateRequest);
    venue.check();
}

#[test]
fn what_was_sent_again_overnight_is_no_order_of_the_next_day() {
    // The new shard's day may have begun before the instrument is there.
    (0..2).for_each(sent_again_overnight);
}

fn sent_again_overnight(carried_late: u8) {
    let mut venue = Venue::new(Limits::NONE);
    venue.ask(0, stays(buy(3, 1, 4, 100)));
    venue.plan(ONE, 1);
    (0..2).for_each(|shard| {
        assert_eq!(venue.exchange(shard, CommandKind::EndOfDay, 0), Applied::Done)
    });
    if carried_late == 0 {
        venue.carry(0);
    }
    venue.check();
    let early = Nanos(venue.now);
    (0..2).for_each(|shard| {
        assert_eq!(venue.exchange(shard, CommandKind::StartOfDay, 0), Applied::Done)
    });
    venue.check();
    if carried_late == 1 {
        venue.carry(0);
    }
    venue.check();
    venue.place(1);
    let refused = [RejectReason::Halted];
    let reasons = |venue: &Venue| -> Vec<RejectReason> {
        venue.out.executions.iter().map(|report| report.reject).collect()
    };
    let late = [buy(3, 5, 4, 100), replace(3, 1, 6, 2, 100), mass_cancel(3, 7), cancel(3, 1)];
    for late in late.map(|command| again(Command { instrument: ONE, ..command })) {
        assert_eq!(venue.ask_of(1, early, late), Applied::Done, "{late:?}");
        assert_eq!(reasons(&venue), refused, "{late:?}");
        let twice = if late.kind == CommandKind::Cancel {
            Applied::Done
        } else {
            Applied::DuplicateRequest
        };
        assert_eq!(venue.ask_of(1, early, late), twice, "{late:?}");
    }
    assert_eq!(venue.engines[1].open_orders(), 1, "none of them was carried out");
    // What the old shard has answered on the day before has its answer.
    assert_eq!(venue.ask_of(1, early, again(buy(3, 1, 4, 100))), Applied::DuplicateRequest);
    venue.check();
    // Numbers of requests have begun anew, but not that of an order that is open; and none was used up.
    assert_eq!(venue.ask(1, buy(3, 1, 1, 95)), Applied::DuplicateRequest);
    assert_eq!(venue.ask(1, buy(3, 2, 1, 95)), Applied::Done);
    assert_eq!(venue.reports(), [(ExecutionKind::Accepted, 3, 2)]);
    assert_eq!(venue.ask(1, again(buy(3, 5, 1, 95))), Applied::Done, "of the new day");
    assert_eq!(venue.reports(), [(ExecutionKind::Accepted, 3, 5)]);
    venue.check();
}

#[test]
fn limits_go_with_what_uses_them() {
    let used = |kind, limit, fault: Option<MoveFault>| {
        let mut venue = Venue::new(Limits::NONE.with(kind, limit));
        if let Some(fault) = fault {
            venue.engines[0].move_wrongly(fault);
        }
        // Account 1 is at home in the first shard, 2 in the second: both halves are used up in both.
        for (account, shard, of) in [(1, 0, ONE), (1, 1, TWO), (2, 0, ONE), (2, 1, TWO)] {
            for number in 1..=2 {
                let order = Command {
                    instrument: of,
                    ..stays(buy(account, number + u32::from(shard as u8) * 10, 1, 100))
                };
                assert_eq!(venue.ask(shard, order), Applied::Done);
                assert_eq!(venue.reports()[0].0, ExecutionKind::Accepted, "{order:?}");
            }
        }
        venue.plan(ONE, 1);
        venue.exchange(0, CommandKind::EndOfDay, 1);
        venue.exchange(1, CommandKind::EndOfDay, 1);
        venue.carry(0);
        venue.place(1);
        let part = |venue: &Venue, account, shard: usize| {
            let part = venue.engines[shard].allotment(AccountId(account), kind, Nanos(0));
            part.map(|part| (part.part, part.used))
        };
        // TWO goes to where ONE was: there would be room for two more orders of each.
        venue.plan(TWO, 0);
        venue.exchange(0, CommandKind::EndOfDay, 1);
        venue.exchange(1, CommandKind::EndOfDay, 1);
        venue.carry(1);
        let mut taken = 0;
        for (shard, of) in [(0, TWO), (1, ONE)] {
            for account in [1, 2] {
                for number in 0..4 {
                    let order = Command {
                        instrument: of,
                        ..stays(buy(account, 100 + number + 10 * shard as u32, 1, 95))
                    };
                    venue.ask(shard, order);
                    let accepted = venue.reports().iter().any(|r| r.0 == ExecutionKind::Accepted);
                    taken += u32::from(accepted);
                }
            }
        }
        let parts: Vec<_> = [(1, 0), (1, 1), (2, 0), (2, 1)]
            .into_iter()
            .filter_map(|(account, shard)| part(&venue, account, shard))
            .collect();
        if fault.is_none() {
            venue.check();
        }
        (taken, parts)
    };
    let (kind, limit) = (LimitKind::OpenOrders, 4);
    assert_eq!(used(kind, limit, None), (0, vec![(2, 2); 4]));
    assert_eq!(used(LimitKind::Credit, 400, None), (0, vec![(200, 200); 4]));
    let (taken, parts) = used(kind, limit, Some(MoveFault::ForgetsParts));
    assert!(taken > 0 || parts.iter().map(|(part, _)| part).sum::<u64>() != 8, "{taken} {parts:?}");
}

#[test]
fn what_cancels_meanwhile_cancels_what_arrives() {
    for goes_on in [0, 1] {
        let mut venue = Venue::new(Limits::NONE);
        for account in 1..=4 {
            venue.ask(0, stays(buy(account, 1, 4, 100)));
        }
        venue.plan(ONE, 1);
        venue.exchange(0, CommandKind::EndOfDay, goes_on);
        venue.exchange(1, CommandKind::EndOfDay, goes_on);
        let kill = |param, account| Command {
            param,
            account: AccountId(account),
            ..Command::new(CommandKind::Kill)
        };
        venue.direct(kill(1, 1));
        venue.direct(kill(1, 2));
        venue.direct(kill(0, 2));
        venue.direct(Command { account: AccountId(3), ..Command::new(CommandKind::MassCancel) });
        venue.check();
        venue.carry(0);
        let gone: Vec<(u16, CancelReason)> =
            venue.out.executions.iter().map(|r| (r.account.0, r.cancel_reason)).collect();
        let mut expected = vec![(1, CancelReason::Killed), (2, CancelReason::Killed)];
        if goes_on == 1 {
            expected.push((3, CancelReason::MassCancel));
        }
        assert_eq!(gone, expected, "between two days a mass cancel is refused");
        assert_eq!(venue.engines[1].open_orders(), 4 - expected.len());
        venue.check();
    }
}

#[test]
fn a_number_that_is_open_in_both_shards_stays_once() {
    let mut venue = Venue::new(Limits::NONE);
    venue.ask(0, stays(buy(3, 1, 4, 100)));
    venue.ask(1, Command { instrument: TWO, ..stays(buy(3, 1, 9, 100)) });
    venue.plan(ONE, 1);
    (0..2).for_each(|shard| {
        assert_eq!(venue.exchange(shard, CommandKind::EndOfDay, 1), Applied::Done)
    });
    venue.carry(0);
    assert_eq!(venue.reports(), [(ExecutionKind::Canceled, 3, 1)]);
    assert_eq!(venue.out.executions[0].instrument, TWO);
    assert_eq!(venue.engines[1].open_orders(), 1);
    venue.check();
}

/// Parts that are no parts of it, come twice, too early or from elsewhere change nothing; bytes that were
/// changed are not taken up, and the next day brings them again.
#[test]
fn no_part_makes_an_engine_panic_or_take_up_what_is_wrong() {
    let (seed, mut refused, mut again) = (0x30E5, 0, 0);
    let mut dice = SplitMix64::new(seed);
    for round in 0..200 {
        let mut venue = Venue::new(Limits::NONE);
        for number in 1..=1 + dice.below(5) as u32 {
            venue.ask(0, stays(buy(1 + (number % 3) as u16, number, 4, 95)));
        }
        venue.plan(ONE, 1);
        (0..2).for_each(|shard| {
            let _ = venue.exchange(shard, CommandKind::EndOfDay, 1);
        });
        let mut parts = venue.parts(0);
        let wrong = dice.below(parts.len() as u64) as usize;
        let bit = dice.below(320) as usize;
        let part = MovePart::of(&parts[wrong]).expect("a part");
        let mut bytes = part.bytes().to_vec();
        let at = bit / 8 % bytes.len();
        bytes[at] ^= 1 << (bit % 8);
        let changed = MovePart::new(ONE, part.number, part.offset, &bytes).expect("a part");
        let whole = parts.clone();
        parts[wrong] = changed.command();
        for _ in 0..dice.below(4) {
            let (from, to) = (dice.below(whole.len() as u64), dice.below(whole.len() as u64));
            let stray = Command { min_qty: 99 * dice.below(2) as u32, ..whole[from as usize] };
            parts.insert(to as usize, stray);
        }
        for part in &parts {
            venue.put(1, venue.own(1), *part);
        }
        let coming = venue.engines[1].coming(ONE, 1);
        assert_eq!(venue.engines[1].arrived().count(), 0, "seed {seed}, round {round}: {coming:?}");
        refused += 1;
        venue.check();
        venue.exchange(1, CommandKind::EndOfDay, 1);
        if let Some(have) = venue.engines[1].coming(ONE, 1) {
            let rest = whole.iter().filter(|part| part.user_ref.0 >= have);
            for part in rest.copied().collect::<Vec<_>>() {
                venue.put(1, venue.own(1), part);
            }
        }
        assert_eq!(venue.engines[1].arrived().count(), 1, "seed {seed}, round {round}");
        again += 1;
    }
    assert_eq!((refused, again), (200, 200));
}
