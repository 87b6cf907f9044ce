//! Single rules, each with the events it must give.

use engine::{Applied, Config, Engine, Output};
use types::{
    AccountId, CancelReason, Command, CommandKind, ExecutionKind as Kind, FeedSeq, GatewayId,
    Incarnation, Input, InstrumentId, MarketEvent, Nanos, ORDER_POST_ONLY, OrderRef, OrderType,
    Price, Qty, RejectReason, Seq, Side, Source, SystemEventCode, TimeInForce, UserRefNum,
    limits::SEQ_WINDOW,
};

use crate::flow::instruments;

/// An engine with its market open, driven by inputs of the exchange itself.
struct Bench {
    engine: Engine,
    out: Output,
}

impl Bench {
    fn new() -> Bench {
        let mut bench =
            Bench { engine: Engine::new(Config::new(instruments())), out: Output::default() };
        bench.send(Command::new(CommandKind::StartOfDay));
        bench
    }

    fn send(&mut self, command: Command) -> Applied {
        self.send_from(Source::default(), command)
    }

    fn send_from(&mut self, source: Source, command: Command) -> Applied {
        self.out.clear();
        let (seq, t) = (Seq(self.engine.applied() + 1), Nanos(1));
        let input = Input { seq, t_in: t, t_seq: t, source, flags: 0, command };
        self.engine.apply(&input, &mut self.out)
    }

    /// Kind, quantity and leaves of each report of the last command.
    fn reports(&self) -> Vec<(Kind, u64, u64)> {
        self.out.executions.iter().map(|r| (r.kind, r.qty.0, r.leaves.0)).collect()
    }

    fn events(&self) -> Vec<MarketEvent> {
        self.out.market.iter().map(|&(_, event)| event).collect()
    }

    fn reject(&self) -> RejectReason {
        let [report] = self.out.executions[..] else { panic!("one answer: {:?}", self.out) };
        assert_eq!(self.out.market, []);
        report.reject
    }
}

fn order(account: u16, user_ref: u32, side: Side, qty: u64, price: i64) -> Command {
    let mut command = Command::new(CommandKind::NewOrder);
    command.account = AccountId(account);
    command.user_ref = UserRefNum(user_ref);
    command.instrument = InstrumentId(1);
    command.side = side;
    command.qty = Qty(qty);
    command.price = Price(price);
    command
}

fn replace(account: u16, orig: u32, user_ref: u32, qty: u64, price: i64) -> Command {
    let mut command = order(account, user_ref, Side::Buy, qty, price);
    command.kind = CommandKind::Replace;
    command.orig_user_ref = UserRefNum(orig);
    command.instrument = InstrumentId(0);
    command
}

fn cancel(account: u16, user_ref: u32, qty: u64) -> Command {
    let mut command = order(account, user_ref, Side::Buy, qty, 0);
    command.kind = CommandKind::Cancel;
    command
}

#[test]
fn a_day_opens_and_closes_with_its_events() {
    use SystemEventCode::*;
    let mut bench = Bench::new();
    let system = |code| MarketEvent::SystemEvent { code };
    let opening = bench.events();
    assert_eq!(opening[..2], [system(StartOfMessages), system(StartOfSystemHours)]);
    assert!(matches!(opening[2], MarketEvent::Directory { instrument: InstrumentId(1) }));
    assert!(matches!(opening[5], MarketEvent::TradingAction { instrument: InstrumentId(2), .. }));
    assert_eq!(opening[6..], [system(StartOfMarketHours)]);
    assert_eq!(bench.out.market[0].0, FeedSeq(1));
    assert_eq!(bench.send(Command::new(CommandKind::StartOfDay)), Applied::Refused);

    bench.send(order(1, 1, Side::Buy, 5, 20));
    let mut gtc = order(1, 2, Side::Buy, 5, 20);
    gtc.time_in_force = TimeInForce::GoodTillCancelled;
    bench.send(gtc);
    bench.send(Command::new(CommandKind::EndOfDay));
    assert_eq!(bench.reports(), [(Kind::Canceled, 5, 0)]);
    assert_eq!(bench.out.executions[0].cancel_reason, CancelReason::EndOfDay);
    let closing = bench.events();
    let halted = |event: &&MarketEvent| matches!(event, MarketEvent::TradingAction { .. });
    assert_eq!(closing.iter().filter(halted).count(), 2);
    assert_eq!(
        closing[3..],
        [system(EndOfMarketHours), system(EndOfSystemHours), system(EndOfMessages)]
    );
    bench.send(order(1, 3, Side::Buy, 5, 20));
    assert_eq!(bench.reject(), RejectReason::MarketClosed);
    bench.send(cancel(1, 2, 0));
    assert_eq!(bench.reject(), RejectReason::MarketClosed);

    // A new day: numbers start again, except for the order that still lives.
    bench.send(Command::new(CommandKind::StartOfDay));
    assert_eq!(bench.send(order(1, 1, Side::Buy, 5, 20)), Applied::Done);
    assert_eq!(bench.send(order(1, 2, Side::Buy, 5, 20)), Applied::DuplicateRequest);
    bench.send(cancel(1, 2, 0));
    assert_eq!(bench.reports(), [(Kind::Canceled, 5, 0)]);
}

#[test]
fn requests_before_the_first_day_are_refused_and_remembered() {
    let mut bench =
        Bench { engine: Engine::new(Config::new(instruments())), out: Output::default() };
    bench.send(order(1, 1, Side::Buy, 5, 20));
    assert_eq!(bench.reject(), RejectReason::MarketClosed);
    bench.send(Command::new(CommandKind::StartOfDay));
    assert_eq!(bench.send(order(1, 1, Side::Buy, 5, 20)), Applied::DuplicateRequest);
}

#[test]
fn refusals_name_the_reason() {
    let mut bench = Bench::new();
    let mut next = 0;
    let mut refused = |change: fn(&mut Command)| {
        next += 1;
        let mut command = order(1, next, Side::Buy, 5, 20);
        change(&mut command);
        bench.send(command);
        bench.reject()
    };
    assert_eq!(refused(|c| c.instrument = InstrumentId(0)), RejectReason::UnknownInstrument);
    assert_eq!(refused(|c| c.instrument = InstrumentId(3)), RejectReason::UnknownInstrument);
    assert_eq!(refused(|c| c.qty = Qty(0)), RejectReason::InvalidQuantity);
    assert_eq!(refused(|c| c.qty = Qty(21)), RejectReason::InvalidQuantity);
    assert_eq!(refused(|c| c.qty = Qty(u64::MAX)), RejectReason::InvalidQuantity);
    assert_eq!(refused(|c| c.price = Price(0)), RejectReason::InvalidPrice);
    assert_eq!(refused(|c| c.price = Price(i64::MIN)), RejectReason::InvalidPrice);
    assert_eq!(refused(|c| c.price = Price(21)), RejectReason::InvalidPrice);
    assert_eq!(refused(|c| c.price = Price(65)), RejectReason::PriceTooHigh);
    assert_eq!(refused(|c| c.price = Price(i64::MAX)), RejectReason::PriceTooHigh);
    assert_eq!(refused(|c| c.flags = 8), RejectReason::Unsupported);
    assert_eq!(refused(|c| c.user_ref = UserRefNum(0)), RejectReason::Unsupported);
    let post_only_market = |c: &mut Command| {
        (c.flags, c.order_type) = (ORDER_POST_ONLY, OrderType::Market);
    };
    assert_eq!(refused(post_only_market), RejectReason::Unsupported);
    let no_account = Command { account: AccountId(0), ..order(1, 99, Side::Buy, 5, 20) };
    assert_eq!(bench.send(no_account), Applied::Refused);
    assert_eq!(bench.engine.counters().rejects(RejectReason::InvalidPrice), 3);
}

#[test]
fn a_trade_is_told_to_both_and_waits_for_its_print() {
    let mut bench = Bench::new();
    bench.send(order(1, 1, Side::Sell, 5, 20));
    bench.send(order(2, 1, Side::Buy, 8, 25));
    let expected = [(Kind::Accepted, 8, 8), (Kind::Executed, 5, 0), (Kind::Executed, 5, 3)];
    assert_eq!(bench.reports(), expected);
    let [accepted, maker, taker] = bench.out.executions[..] else { panic!("three reports") };
    assert_eq!((maker.account, taker.account), (AccountId(1), AccountId(2)));
    assert_eq!((maker.price, taker.price), (Price(20), Price(20)), "the maker's price");
    let print = bench.out.market[0].0;
    assert_eq!((maker.public_after, taker.public_after), (print, print));
    assert_eq!(accepted.public_after, FeedSeq(0));
    assert!(matches!(bench.events()[0], MarketEvent::OrderExecuted { order_ref: OrderRef(1), .. }));
    assert!(matches!(bench.events()[1], MarketEvent::AddOrder { qty: Qty(3), .. }));
    let best = bench.engine.best(InstrumentId(1), Side::Buy).expect("a bid");
    assert_eq!((best.price, best.qty), (Price(25), Qty(3)));
    assert_eq!(bench.engine.best(InstrumentId(1), Side::Sell), None);
}

#[test]
fn market_and_immediate_orders_never_rest() {
    let mut bench = Bench::new();
    let mut market = order(1, 1, Side::Buy, 5, 0);
    market.order_type = OrderType::Market;
    bench.send(market);
    assert_eq!(bench.reports(), [(Kind::Accepted, 5, 5), (Kind::Canceled, 5, 0)]);
    assert_eq!(bench.out.executions[1].cancel_reason, CancelReason::ImmediateOrCancel);
    assert_eq!(bench.events(), []);
    bench.send(order(2, 1, Side::Sell, 2, 60));
    bench.send(Command { user_ref: UserRefNum(2), ..market });
    let expected = [
        (Kind::Accepted, 5, 5),
        (Kind::Executed, 2, 0),
        (Kind::Executed, 2, 3),
        (Kind::Canceled, 3, 0),
    ];
    assert_eq!(bench.reports(), expected);
    let mut ioc = order(1, 3, Side::Buy, 5, 20);
    ioc.time_in_force = TimeInForce::ImmediateOrCancel;
    bench.send(ioc);
    assert_eq!(bench.reports(), [(Kind::Accepted, 5, 5), (Kind::Canceled, 5, 0)]);
    assert_eq!(bench.engine.open_orders(), 0);
}

#[test]
fn a_cancel_takes_away_all_or_part_and_comes_too_late_once_done() {
    let mut bench = Bench::new();
    bench.send(order(1, 1, Side::Sell, 10, 20));
    bench.send(order(2, 1, Side::Buy, 4, 20));
    bench.send(cancel(1, 1, 7));
    assert_eq!(bench.reports(), [(Kind::Canceled, 3, 3)]);
    assert!(matches!(bench.events()[..], [MarketEvent::OrderCancel { qty: Qty(3), .. }]));
    bench.send(cancel(1, 1, 7));
    assert_eq!(bench.reject(), RejectReason::InvalidQuantity, "nothing to take away");
    bench.send(cancel(2, 1, 0));
    assert_eq!(bench.reject(), RejectReason::UnknownOrder, "has traded");
    bench.send(cancel(1, 1, 4));
    assert_eq!(bench.reports(), [(Kind::Canceled, 3, 0)], "no more than has traded");
    bench.send(cancel(1, 1, 0));
    assert_eq!(bench.reject(), RejectReason::UnknownOrder);
    assert_eq!(bench.engine.counters().cancels_too_late, 2);
}

#[test]
fn a_replace_keeps_its_place_only_with_the_price_and_no_more() {
    let mut bench = Bench::new();
    bench.send(order(1, 1, Side::Buy, 10, 20));
    bench.send(order(2, 1, Side::Buy, 10, 20));
    bench.send(replace(1, 1, 2, 6, 20));
    assert_eq!(bench.reports(), [(Kind::Replaced, 6, 6)]);
    assert_eq!(bench.out.executions[0].order_ref, OrderRef(1));
    assert_eq!(bench.out.executions[0].orig_user_ref, UserRefNum(1));
    assert!(matches!(bench.events()[..], [MarketEvent::OrderCancel { qty: Qty(4), .. }]));
    bench.send(replace(1, 1, 3, 6, 20));
    assert_eq!(bench.reject(), RejectReason::UnknownOrder, "it answers to its new number only");
    assert_eq!(bench.send(replace(1, 1, 2, 6, 20)), Applied::DuplicateRequest);

    bench.send(replace(1, 2, 4, 7, 20));
    let (old_ref, new_ref) = (OrderRef(1), OrderRef(3));
    let (instrument, qty, price) = (InstrumentId(1), Qty(7), Price(20));
    let moved = MarketEvent::OrderReplace { instrument, old_ref, new_ref, qty, price };
    assert_eq!(bench.events(), [moved], "more quantity goes last");
    bench.send(order(3, 1, Side::Sell, 1, 20));
    assert_eq!(bench.out.executions[1].account, AccountId(2));
}

#[test]
fn a_replace_that_trades_is_told_in_the_place_of_the_old_order() {
    let mut bench = Bench::new();
    bench.send(order(1, 1, Side::Sell, 5, 30));
    bench.send(order(2, 1, Side::Buy, 8, 20));
    bench.send(replace(2, 1, 2, 8, 30));
    let expected = [(Kind::Replaced, 8, 8), (Kind::Executed, 5, 0), (Kind::Executed, 5, 3)];
    assert_eq!(bench.reports(), expected);
    assert!(matches!(
        bench.events()[..],
        [
            MarketEvent::OrderExecuted { order_ref: OrderRef(1), .. },
            MarketEvent::OrderReplace {
                old_ref: OrderRef(2),
                new_ref: OrderRef(3),
                qty: Qty(3),
                ..
            },
        ]
    ));
    // Quantity counts what has traded.
    bench.send(replace(2, 2, 3, 5, 30));
    assert_eq!(bench.reject(), RejectReason::NothingLeft);
    bench.send(replace(2, 2, 4, 6, 30));
    assert_eq!(bench.reports(), [(Kind::Replaced, 1, 1)]);
}

#[test]
fn post_only_is_refused_where_it_would_trade() {
    let mut bench = Bench::new();
    bench.send(order(1, 1, Side::Sell, 5, 30));
    let mut post = order(2, 1, Side::Buy, 5, 30);
    post.flags = ORDER_POST_ONLY;
    bench.send(post);
    assert_eq!(bench.reject(), RejectReason::PostOnlyWouldTrade);
    (post.user_ref, post.price) = (UserRefNum(2), Price(25));
    bench.send(post);
    assert_eq!(bench.reports(), [(Kind::Accepted, 5, 5)]);
    let mut crossing = replace(2, 2, 3, 5, 30);
    crossing.flags = ORDER_POST_ONLY;
    bench.send(crossing);
    assert_eq!(bench.reject(), RejectReason::PostOnlyWouldTrade);
    bench.send(cancel(2, 2, 0));
    assert_eq!(bench.reports(), [(Kind::Canceled, 5, 0)], "a refused replace changes nothing");
}

#[test]
fn a_gateways_numbers_count_per_life() {
    let mut bench = Bench::new();
    let gateway = GatewayId(7);
    let mut hello = Command::new(CommandKind::GrantIncarnation);
    hello.user_ref = UserRefNum(1234);
    let from = |incarnation, seq| Source {
        gateway,
        incarnation: Incarnation(incarnation),
        seq,
        ..Source::default()
    };
    assert_eq!(bench.engine.received(gateway).0, Incarnation(0));
    let early = order(1, 1, Side::Buy, 5, 20);
    assert_eq!(bench.send_from(from(0, 1), early), Applied::StaleIncarnation);
    assert_eq!(bench.send_from(from(0, 0), hello), Applied::Granted(Incarnation(1)));
    assert_eq!(bench.send_from(from(0, 0), hello), Applied::Granted(Incarnation(1)));
    let far = SEQ_WINDOW as u64 + 1;
    assert_eq!(bench.send_from(from(1, far), early), Applied::TooFarAhead);
    assert_eq!(bench.send_from(from(1, 2), early), Applied::Done);
    assert_eq!(bench.send_from(from(1, 2), early), Applied::DuplicateTransport);
    let (life, window) = bench.engine.received(gateway);
    assert_eq!((life, window.contiguous(), window.contains(2)), (Incarnation(1), 0, true));

    // Another life of the gateway, or another gateway, brings the same request again.
    hello.user_ref = UserRefNum(99);
    assert_eq!(bench.send_from(from(0, 0), hello), Applied::Granted(Incarnation(2)));
    assert_eq!(bench.send_from(from(1, 3), early), Applied::StaleIncarnation);
    assert_eq!(bench.send_from(from(2, 1), early), Applied::DuplicateRequest);
    assert_eq!(bench.out, Output::default());
    let start = Command::new(CommandKind::EndOfDay);
    assert_eq!(bench.send_from(from(2, 2), start), Applied::Refused, "not a gateway's business");
}

#[test]
fn request_numbers_far_below_the_highest_count_as_seen() {
    let mut bench = Bench::new();
    let highest = 70_000;
    assert_eq!(bench.send(order(1, highest, Side::Buy, 1, 20)), Applied::Done);
    let window = engine::USER_REF_WINDOW as u32;
    assert_eq!(bench.send(order(1, highest - window, Side::Buy, 1, 20)), Applied::DuplicateRequest);
    assert_eq!(bench.send(order(1, highest - window + 1, Side::Buy, 1, 20)), Applied::Done);
    assert_eq!(bench.send(order(2, 1, Side::Buy, 1, 20)), Applied::Done, "per account");
}

#[test]
fn the_state_digest_tells_states_apart_that_look_alike() {
    let resting = |change: fn(&mut Command)| {
        let mut bench = Bench::new();
        let mut command = order(1, 1, Side::Buy, 5, 20);
        change(&mut command);
        bench.send(command);
        assert_eq!(bench.reports(), [(Kind::Accepted, 5, 5)]);
        bench.engine.state_digest()
    };
    // The same number of inputs, answers and orders; each differs from all others in one thing.
    let mut digests = vec![
        resting(|_| {}),
        resting(|c| c.account = AccountId(2)),
        resting(|c| c.user_ref = UserRefNum(2)),
        resting(|c| c.instrument = InstrumentId(2)),
        resting(|c| c.side = Side::Sell),
        resting(|c| c.price = Price(25)),
        resting(|c| c.time_in_force = TimeInForce::GoodTillCancelled),
        resting(|c| c.flags = ORDER_POST_ONLY),
        resting(|c| c.cl_ord_id.0[13] = b'x'),
    ];
    // Nothing rests: what differs is what has been seen.
    for (account, user_ref, nonce, seq) in
        [(1, 1, 5, 1), (2, 1, 5, 1), (1, 2, 5, 1), (1, 1, 6, 1), (1, 1, 5, 2)]
    {
        let mut bench = Bench::new();
        let gateway = GatewayId(1);
        let mut hello = Command::new(CommandKind::GrantIncarnation);
        hello.user_ref = UserRefNum(nonce);
        bench.send_from(Source { gateway, ..Source::default() }, hello);
        let source = Source { gateway, incarnation: Incarnation(1), seq, ..Source::default() };
        bench.send_from(source, order(account, user_ref, Side::Buy, 0, 20));
        assert_eq!(bench.reject(), RejectReason::InvalidQuantity);
        digests.push(bench.engine.state_digest());
    }
    let count = digests.len();
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), count);
}
