//! Cases worked by hand from docs/matching.md, section by section, with all that is told.

use book_model::model::{Capacity, Config, Model, Told};
use types::{
    Allocation, CancelReason, NewOrder, ORDER_HIDDEN, ORDER_POST_ONLY, ORDER_POST_ONLY_SLIDE,
    OrderEvent, OrderType, Phase, Price, RejectReason, SelfTrade, Side, TickTable, TimeInForce,
    Trigger,
};

const ROOMY: Capacity = Capacity { orders: 50, levels: 10, stops: 10, pegs: 10 };

/// One book, open for continuous trading, price-time, stops on the last trade.
fn market() -> Model {
    market_with(Allocation::PriceTime, Trigger::LastTrade, ROOMY)
}

fn market_with(allocation: Allocation, trigger: Trigger, capacity: Capacity) -> Model {
    let ticks = TickTable::uniform(Price(1));
    let mut model = Model::new(&[Config { ticks, allocation, trigger }], capacity);
    model.set_phase(0, Phase::Continuous);
    model
}

fn buy(key: u64, qty: u32, price: i64) -> NewOrder {
    NewOrder::limit(key, Side::Buy, Price(price), qty)
}

fn sell(key: u64, qty: u32, price: i64) -> NewOrder {
    NewOrder::limit(key, Side::Sell, Price(price), qty)
}

/// An order of group 7.
fn of_group(order: NewOrder, self_trade: SelfTrade) -> NewOrder {
    NewOrder { group: 7, self_trade, ..order }
}

fn with_life(order: NewOrder, time_in_force: TimeInForce) -> NewOrder {
    NewOrder { time_in_force, ..order }
}

/// A sentence: keys name orders, `#` references, `&` match numbers, `left` open lots, and in
/// brackets the displayed ones.
fn sentence(told: &Told) -> String {
    let order = &told.order;
    let (key, at, left, shown) = (order.key, order.order_ref, order.open, order.shown);
    match told.event {
        OrderEvent::Accepted => format!("{key} accepted #{at} at {}", order.price.0),
        OrderEvent::Replaced { old_key, old_ref, kept: true, shown_less } => {
            format!(
                "{key} for {old_key} #{old_ref} keeps its place, {left} left, {shown_less} less"
            )
        }
        OrderEvent::Replaced { old_key, old_ref, .. } => {
            format!("{key} #{at} for {old_key} #{old_ref}")
        }
        OrderEvent::Added { instead_of } if instead_of.0 != 0 => {
            format!("{key} added at {} {left} ({shown}) instead of #{instead_of}", order.price.0)
        }
        OrderEvent::Added { .. } => format!("{key} added at {} {left} ({shown})", order.price.0),
        OrderEvent::Withdrawn { order_ref } => format!("#{order_ref} withdrawn for {key}"),
        OrderEvent::Traded { qty, price, match_number, shown: visible, other_shown, auction } => {
            let other = told.other.expect("a trade has two sides");
            let cross = if auction { format!(" crossed {other_shown}") } else { String::new() };
            let (price, other, rest) = (price.0, other.key, other.open);
            format!(
                "&{match_number} {key}/{other} {qty} ({visible}) at {price}, {left}/{rest} left{cross}"
            )
        }
        OrderEvent::Replenished { old_ref } => {
            format!("{key} #{at} for #{old_ref}, {left} left ({shown})")
        }
        OrderEvent::Reduced { qty, shown: visible, reason } => {
            format!("{key} less {qty} ({visible}) {reason:?}, {left} left ({shown})")
        }
        OrderEvent::Canceled { qty, shown: visible, reason } => {
            format!("{key} gone {qty} ({visible}) {reason:?}")
        }
        OrderEvent::Triggered => format!("{key} triggered as {:?}", order.order_type),
        OrderEvent::Repriced { from } => format!("{key} repriced {} to {}", from.0, order.price.0),
        OrderEvent::Interrupted { price } => format!("{key} interrupted at {}", price.0),
        OrderEvent::Uncrossed { price, qty, match_number } => {
            format!("&{match_number} uncrossed {qty} at {}", price.0)
        }
    }
}

#[track_caller]
fn tells(model: &mut Model, expected: &[&str]) {
    let told: Vec<String> = model.told.iter().map(sentence).collect();
    assert_eq!(told, expected);
    model.clear_told();
}

#[track_caller]
fn enters(model: &mut Model, orders: &[NewOrder]) {
    for order in orders {
        assert_eq!(model.submit(0, order), Ok(()), "order {}", order.key);
    }
}

/// Enters orders and forgets what was told.
#[track_caller]
fn given(model: &mut Model, orders: &[NewOrder]) {
    enters(model, orders);
    model.clear_told();
}

#[test]
fn section_1_and_3_what_rests_and_what_does_not() {
    let mut model = market();
    enters(&mut model, &[NewOrder { display_qty: 3, ..sell(1, 8, 10) }, sell(2, 2, 10)]);
    tells(
        &mut model,
        &[
            "1 accepted #1 at 10",
            "1 added at 10 8 (3)",
            "2 accepted #2 at 10",
            "2 added at 10 2 (2)",
        ],
    );
    enters(&mut model, &[with_life(buy(3, 4, 9), TimeInForce::ImmediateOrCancel)]);
    tells(&mut model, &["3 accepted #3 at 9", "3 gone 4 (0) ImmediateOrCancel"]);
    let to_limit = NewOrder { order_type: OrderType::MarketToLimit, ..buy(4, 12, 0) };
    enters(&mut model, &[to_limit]);
    tells(
        &mut model,
        &[
            "4 accepted #4 at 0",
            "&1 1/4 3 (3) at 10, 5/9 left",
            "1 #5 for #1, 5 left (3)",
            "&2 2/4 2 (2) at 10, 0/7 left",
            "&3 1/4 3 (3) at 10, 2/4 left",
            "1 #6 for #5, 2 left (2)",
            "&4 1/4 2 (2) at 10, 0/2 left",
            "4 added at 10 2 (2)",
        ],
    );
    assert_eq!(model.market(0).last_price(), Price(10));
    assert_eq!(model.get(4).map(|o| o.order_type), Some(OrderType::Limit));
}

#[test]
fn section_2_the_first_reason_counts() {
    let mut model = market();
    given(&mut model, &[sell(1, 5, 10)]);
    let refused = |model: &mut Model, order: NewOrder| model.submit(0, &order).unwrap_err();
    let both = ORDER_POST_ONLY | ORDER_POST_ONLY_SLIDE;
    assert_eq!(
        refused(&mut model, NewOrder { flags: both, ..buy(1, 5, 9) }),
        RejectReason::DuplicateOrder
    );
    assert_eq!(
        refused(&mut model, NewOrder { flags: both, display_qty: 9, ..buy(2, 5, 9) }),
        RejectReason::Unsupported
    );
    assert_eq!(
        refused(&mut model, NewOrder { display_qty: 9, stop_price: Price(1), ..buy(2, 5, 9) }),
        RejectReason::InvalidQuantityTerms
    );
    let at_open = with_life(buy(2, 5, 9), TimeInForce::AtTheOpen);
    assert_eq!(
        refused(&mut model, NewOrder { stop_price: Price(1), ..at_open }),
        RejectReason::InvalidStopPrice
    );
    assert_eq!(refused(&mut model, at_open), RejectReason::NotInThisPhase);
    let post_only = NewOrder { flags: ORDER_POST_ONLY, ..buy(2, 5, 11) };
    assert_eq!(refused(&mut model, post_only), RejectReason::PostOnlyWouldTrade);
    assert!(model.told.is_empty());
    enters(&mut model, &[NewOrder { flags: ORDER_POST_ONLY_SLIDE, ..post_only }]);
    tells(&mut model, &["2 accepted #2 at 9", "2 added at 9 5 (5)"]);
}

#[test]
fn section_3_fill_or_kill_and_minimum_look_first() {
    let mut model = market();
    let own = of_group(sell(2, 5, 11), SelfTrade::Allow);
    given(&mut model, &[sell(1, 5, 10), own, sell(3, 5, 11)]);
    let kill = |key, self_trade| {
        of_group(with_life(buy(key, 10, 11), TimeInForce::FillOrKill), self_trade)
    };
    enters(&mut model, &[kill(4, SelfTrade::CancelBoth), kill(5, SelfTrade::CancelOldest)]);
    tells(
        &mut model,
        &[
            "4 accepted #4 at 11",
            "4 gone 10 (0) NotEnough",
            "5 accepted #5 at 11",
            "&1 1/5 5 (5) at 10, 0/5 left",
            "2 gone 5 (5) SelfTrade",
            "&2 3/5 5 (5) at 11, 0/0 left",
        ],
    );
    given(&mut model, &[sell(6, 3, 10)]);
    enters(&mut model, &[NewOrder { min_qty: 4, ..buy(7, 6, 10) }]);
    tells(&mut model, &["7 accepted #7 at 10", "7 gone 6 (0) NotEnough"]);
    enters(&mut model, &[NewOrder { min_qty: 3, ..buy(8, 6, 10) }]);
    tells(
        &mut model,
        &["8 accepted #8 at 10", "&3 6/8 3 (3) at 10, 0/3 left", "8 added at 10 3 (3)"],
    );
}

#[test]
fn section_4_hidden_orders_come_last_at_their_price() {
    let mut model = market();
    let hidden = NewOrder { flags: ORDER_HIDDEN, ..sell(1, 4, 10) };
    given(&mut model, &[hidden, sell(2, 4, 10)]);
    enters(&mut model, &[buy(3, 6, 10)]);
    tells(
        &mut model,
        &["3 accepted #3 at 10", "&1 2/3 4 (4) at 10, 0/2 left", "&2 1/3 2 (0) at 10, 2/0 left"],
    );
}

#[test]
fn section_4_pro_rata_shares_and_gives_the_rest_to_the_front() {
    let shares = |top_order, min_allocation| {
        let allocation = Allocation::ProRata { top_order, min_allocation };
        let mut model = market_with(allocation, Trigger::LastTrade, ROOMY);
        given(&mut model, &[sell(1, 10, 10), sell(2, 50, 10), sell(3, 40, 10)]);
        given(&mut model, &[buy(4, 33, 10)]);
        [1, 2, 3].map(|key| model.get(key).map_or(0, |o| o.open))
    };
    // Floors of 3.3, 16.5, 13.2: 3 + 16 + 13 = 32; the lot left goes to the first.
    assert_eq!(shares(false, 0), [6, 34, 27]);
    // Of those 3 is too little: its lots come back to it, being first.
    assert_eq!(shares(false, 4), [6, 34, 27]);
    // Only 16 is enough: the first takes 10, the second 7 more than its share.
    assert_eq!(shares(false, 14), [0, 27, 40]);
    // The first takes 10; 23 over 90 lots: floors of 12.8 and 10.2; one more for the second.
    assert_eq!(shares(true, 0), [0, 37, 30]);
}

#[test]
fn section_4_self_trades_are_prevented() {
    let outcome = |self_trade| {
        let mut model = market();
        let own = of_group(sell(1, 5, 10), SelfTrade::Allow);
        given(&mut model, &[own, sell(2, 5, 10)]);
        enters(&mut model, &[of_group(buy(3, 8, 10), self_trade)]);
        model
    };
    tells(
        &mut outcome(SelfTrade::CancelNewest),
        &["3 accepted #3 at 10", "3 gone 8 (0) SelfTrade"],
    );
    tells(
        &mut outcome(SelfTrade::CancelBoth),
        &["3 accepted #3 at 10", "1 gone 5 (5) SelfTrade", "3 gone 8 (0) SelfTrade"],
    );
    tells(
        &mut outcome(SelfTrade::CancelOldest),
        &[
            "3 accepted #3 at 10",
            "1 gone 5 (5) SelfTrade",
            "&1 2/3 5 (5) at 10, 0/3 left",
            "3 added at 10 3 (3)",
        ],
    );
    tells(
        &mut outcome(SelfTrade::Decrement),
        &[
            "3 accepted #3 at 10",
            "1 gone 5 (5) SelfTrade",
            "3 less 5 (0) SelfTrade, 3 left (0)",
            "&1 2/3 3 (3) at 10, 2/0 left",
        ],
    );
}

#[test]
fn section_4_the_collar_stops_matching() {
    let mut model = market();
    given(&mut model, &[sell(1, 2, 10), sell(2, 2, 11)]);
    model.set_collar(0, Some((Price(9), Price(10))));
    enters(&mut model, &[buy(3, 5, 12)]);
    tells(
        &mut model,
        &[
            "3 accepted #3 at 12",
            "&1 1/3 2 (2) at 10, 0/3 left",
            "3 interrupted at 11",
            "3 added at 12 3 (3)",
        ],
    );
    assert_eq!(model.market(0).phase(), Phase::VolatilityCall);
}

#[test]
fn section_5_a_replace_keeps_its_place_or_moves() {
    let mut model = market();
    given(&mut model, &[buy(1, 8, 10), buy(2, 5, 10)]);
    assert_eq!(model.replace(1, &buy(3, 2, 10), true), Ok(()));
    tells(&mut model, &["3 for 1 #1 keeps its place, 2 left, 6 less"]);
    assert_eq!(model.replace(2, &buy(4, 5, 11), true), Ok(()));
    tells(&mut model, &["4 #3 for 2 #2", "4 added at 11 5 (5) instead of #2"]);
    let hidden = NewOrder { flags: ORDER_HIDDEN, ..buy(4, 5, 11) };
    assert_eq!(model.replace(4, &hidden, true), Ok(()));
    tells(&mut model, &["4 #4 for 4 #3", "4 added at 11 5 (0)", "#3 withdrawn for 4"]);
    assert_eq!(model.replace(9, &hidden, true), Err(RejectReason::UnknownOrder));
    model.set_phase(0, Phase::Halt);
    assert_eq!(model.replace(4, &buy(4, 5, 12), true), Err(RejectReason::Halted));
    assert_eq!(model.replace(4, &NewOrder { qty: 4, ..hidden }, true), Ok(()));
    assert_eq!(model.reduce(4, 1), Ok(()));
    assert_eq!(model.cancel(3), Ok(()));
    tells(
        &mut model,
        &[
            "4 for 4 #4 keeps its place, 4 left, 0 less",
            "4 less 3 (0) Requested, 1 left (0)",
            "3 gone 2 (2) Requested",
        ],
    );
}

#[test]
fn section_5_a_reduction_takes_hidden_lots_first() {
    let mut model = market();
    given(&mut model, &[NewOrder { display_qty: 3, ..buy(1, 8, 10) }]);
    assert_eq!(model.reduce(1, 4), Ok(()));
    assert_eq!(model.reduce(1, 2), Ok(()));
    tells(
        &mut model,
        &["1 less 4 (0) Requested, 4 left (3)", "1 less 2 (1) Requested, 2 left (2)"],
    );
}

#[test]
fn section_5_a_mass_cancel_has_its_order() {
    let mut model = market();
    let stop = |key, side, price| NewOrder {
        order_type: OrderType::Stop,
        stop_price: Price(price),
        ..NewOrder::limit(key, side, Price(0), 1)
    };
    let hidden = NewOrder { flags: ORDER_HIDDEN, ..buy(5, 1, 9) };
    let parked = NewOrder { order_type: OrderType::PegMid, ..buy(7, 1, 0) };
    given(
        &mut model,
        &[
            with_life(buy(1, 1, 5), TimeInForce::AtTheClose),
            parked,
            stop(2, Side::Buy, 20),
            stop(3, Side::Buy, 19),
            hidden,
            buy(6, 1, 9),
            buy(8, 1, 8),
        ],
    );
    assert_eq!(model.cancel_where(0, CancelReason::MassCancel, |o| o.key() != 8), 6);
    tells(
        &mut model,
        &[
            "6 gone 1 (1) MassCancel",
            "5 gone 1 (0) MassCancel",
            "3 gone 1 (0) MassCancel",
            "2 gone 1 (0) MassCancel",
            "7 gone 1 (0) MassCancel",
            "1 gone 1 (0) MassCancel",
        ],
    );
}

#[test]
fn section_6_stops_follow_and_become_active() {
    let mut model = market();
    let trailing =
        NewOrder { order_type: OrderType::TrailingStop, stop_price: Price(2), ..sell(1, 1, 0) };
    let limit =
        NewOrder { order_type: OrderType::StopLimit, stop_price: Price(12), ..buy(2, 4, 13) };
    given(&mut model, &[trailing, limit]);
    assert_eq!(model.get(1).and_then(|o| o.effective_stop), None);
    given(&mut model, &[sell(3, 1, 12), sell(4, 3, 13), buy(5, 1, 10)]);
    enters(&mut model, &[buy(6, 1, 12)]);
    // The last price 12 makes the stop-limit order active; its trade moves the trailing stop.
    tells(
        &mut model,
        &[
            "6 accepted #6 at 12",
            "&1 3/6 1 (1) at 12, 0/0 left",
            "2 triggered as Limit",
            "&2 4/2 3 (3) at 13, 0/1 left",
            "2 added at 13 1 (1)",
        ],
    );
    assert_eq!(model.get(1).and_then(|o| o.effective_stop), Some(Price(11)));
    enters(&mut model, &[sell(7, 2, 10)]);
    tells(
        &mut model,
        &[
            "7 accepted #7 at 10",
            "&3 2/7 1 (1) at 13, 0/1 left",
            "&4 5/7 1 (1) at 10, 0/0 left",
            "1 triggered as Market",
            "1 gone 1 (0) ImmediateOrCancel",
        ],
    );
}

#[test]
fn section_7_pegs_find_their_prices() {
    let mut model = market();
    let peg = |key, kind, offset| NewOrder {
        order_type: kind,
        stop_price: Price(offset),
        ..NewOrder::limit(key, Side::Buy, Price(0), 2)
    };
    given(&mut model, &[buy(1, 1, 10), sell(2, 1, 15)]);
    enters(&mut model, &[peg(3, OrderType::PegPrimary, 1), peg(4, OrderType::PegMid, 0)]);
    tells(
        &mut model,
        &[
            "3 accepted #3 at 0",
            "3 added at 0 2 (0)",
            "3 repriced 0 to 9",
            "4 accepted #4 at 0",
            "4 added at 0 2 (0)",
            "4 repriced 0 to 12",
        ],
    );
    enters(&mut model, &[buy(5, 1, 11)]);
    tells(
        &mut model,
        &[
            "5 accepted #5 at 11",
            "5 added at 11 1 (1)",
            "3 repriced 9 to 10",
            "4 repriced 12 to 13",
        ],
    );
    model.set_phase(0, Phase::Halt);
    tells(&mut model, &["3 repriced 10 to 0", "4 repriced 13 to 0"]);
}

#[test]
fn section_8_the_ladder_of_prices() {
    let price_of = |reference: i64, orders: &[NewOrder]| {
        let mut model = market();
        model.set_phase(0, Phase::ClosingCall);
        model.set_reference(0, Price(reference));
        given(&mut model, orders);
        model.indicative(0).price.map(|price| price.0)
    };
    // Greatest volume: 10 lots at 11 or 12, 5 at 10 and 13. Without surplus both are as good: the
    // lowest, or the nearest to the reference, or of two as near the higher.
    let level = [buy(1, 5, 13), buy(2, 5, 12), sell(3, 5, 10), sell(4, 5, 11)];
    assert_eq!(price_of(0, &level), Some(11));
    assert_eq!(price_of(13, &level), Some(12));
    assert_eq!(price_of(10, &level), Some(11));
    // Surplus only on the buy side: the highest; only on the sell side: the lowest.
    assert_eq!(price_of(10, &[buy(1, 9, 13), sell(2, 5, 10), sell(3, 1, 14)]), Some(13));
    assert_eq!(price_of(13, &[buy(1, 5, 13), sell(2, 9, 10)]), Some(10));
    // Nothing crosses.
    assert_eq!(price_of(10, &[buy(1, 5, 9), sell(2, 9, 10)]), None);
}

#[test]
fn section_8_an_uncrossing_tells_its_trades() {
    let mut model = market();
    model.set_phase(0, Phase::OpeningCall);
    let market_buy = NewOrder { order_type: OrderType::Market, ..buy(1, 4, 0) };
    let iceberg = NewOrder { display_qty: 2, ..sell(2, 9, 10) };
    let at_open = with_life(sell(4, 1, 11), TimeInForce::AtTheOpen);
    given(&mut model, &[market_buy, iceberg, buy(3, 3, 10), at_open]);
    model.set_phase(0, Phase::Continuous);
    tells(
        &mut model,
        &[
            "&1 1/2 4 (0) at 10, 0/5 left crossed 2",
            "&2 3/2 3 (3) at 10, 0/2 left crossed 0",
            "&3 uncrossed 7 at 10",
            "2 #5 for #2, 2 left (2)",
            "4 gone 1 (1) AuctionOver",
        ],
    );
    assert_eq!(model.market(0).last_price(), Price(10));
}

#[test]
fn section_9_waiting_orders_enter_the_closing_call() {
    let mut model = market();
    given(&mut model, &[with_life(buy(1, 2, 10), TimeInForce::AtTheClose), sell(2, 2, 10)]);
    model.set_phase(0, Phase::ClosingCall);
    tells(&mut model, &["1 added at 10 2 (2)"]);
    model.set_phase(0, Phase::Closed);
    tells(&mut model, &["&1 1/2 2 (2) at 10, 0/0 left crossed 2", "&2 uncrossed 2 at 10"]);
    model.set_phase(0, Phase::Closed);
    model.uncross(0);
    tells(&mut model, &[]);
}

#[test]
fn section_10_room_is_refused_beforehand_or_runs_out() {
    let tight = Capacity { orders: 3, levels: 1, stops: 1, pegs: 1 };
    let mut model = market_with(Allocation::PriceTime, Trigger::LastTrade, tight);
    given(&mut model, &[sell(1, 2, 10), buy(2, 1, 8)]);
    let full = Err(RejectReason::CapacityReached);
    assert_eq!(model.submit(0, &buy(3, 3, 9)), full, "a second level");
    assert_eq!(model.submit(0, &buy(3, 3, 10)), full, "a second level for what is left");
    given(&mut model, &[buy(3, 1, 8)]);
    assert_eq!(model.submit(0, &buy(4, 1, 8)), full, "a fourth order");
    // It trades: no place is needed.
    enters(&mut model, &[buy(4, 1, 10)]);
    tells(&mut model, &["4 accepted #4 at 10", "&1 1/4 1 (1) at 10, 1/0 left"]);
    // What is left of it has no level.
    enters(&mut model, &[NewOrder { order_type: OrderType::MarketToLimit, ..buy(5, 3, 0) }]);
    tells(
        &mut model,
        &["5 accepted #5 at 0", "&2 1/5 1 (1) at 10, 0/2 left", "5 gone 2 (0) Capacity"],
    );
}
