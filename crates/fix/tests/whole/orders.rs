//! Orders and reports: from message to command, from report to message, in each version's words.

use fix::app::ledger::Status;
use fix::app::market::{self, Level, MarketDataRefusal, Print, Refresh, Subscription, Update};
use fix::app::request::{self, Request};
use fix::app::{Ledger, LedgerLimits, Refusal, Symbols, report};
use fix::dictionary::{Checker, CustomTags, builtin};
use fix::session::{MemoryStore, Outbound};
use fix::{FieldIndex, Message, Version};
use types::{
    CancelReason, ClOrdId, Command, CommandKind, ExecutionKind, ExecutionReport, InstrumentId,
    Liquidity, MatchNumber, Nanos, OrderRef, OrderType, Price, Qty, RejectReason, SelfTrade, Side,
    TimeInForce, TradingState, UserRefNum,
};

pub(crate) fn symbols() -> Symbols {
    Symbols::new(&[crate::sample::instrument()])
}

/// A participant's message of `version`; it must be valid by the exchange's own dictionary.
pub(crate) fn with_message<T>(
    version: Version,
    text: &str,
    then: impl FnOnce(&Message<'_>) -> T,
) -> T {
    let begin = version.begin_string();
    let (msg_type, rest) = text.split_once('|').unwrap();
    let head = "|34=7|49=MEM7|52=20261122-09:30:00|56=FAIR|";
    let text = crate::sample::repaired(&format!("8={begin}|9=0|35={msg_type}{head}{rest}"));
    let wire = crate::sample::wire(&text);
    let mut index = FieldIndex::default();
    let message = index.parse(&wire).unwrap();
    let rules = builtin(version).unwrap();
    let checked = Checker::default().check(&rules, CustomTags::Refused, &message);
    assert_eq!(checked, Ok(()), "{version:?} {text}");
    then(&message)
}

pub(crate) fn ask(version: Version, text: &str) -> Result<Option<Request>, Refusal> {
    with_message(version, text, |message| request::parse(message, &symbols()))
}

pub(crate) const LIMIT: &str =
    "D|11=a1|21=1|55=BTCUSD|54=1|60=20261122-09:30:00|38=100|40=2|44=78350.5|";

/// The limit order, changed.
pub(crate) fn order(from: &str, to: &str) -> Result<request::Terms, Refusal> {
    assert!(LIMIT.contains(from), "{from}");
    match ask(Version::Fix50Sp2, &LIMIT.replacen(from, to, 1))? {
        Some(Request::New { terms, .. }) => Ok(terms),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_every_order_manager_sends_beside_is_taken_and_passed_over() {
    let common = "1=ACC|65=WI|22=4|48=US0378331005|167=CS|200=202612|207=XNAS|106=Maker|107=Thing|15=USD|\
                  63=0|64=20261124|77=O|100=XNAS|114=N|58=note|";
    let later = "460=4|461=ESVUFR|526=b|583=link|528=A|529=1|541=20261224|581=1|582=1|660=99|";
    let of = |version: Version| match version {
        Version::Fix42 => format!("{common}47=A|76=BRKR|109=CLNT|"),
        Version::Fix44 => format!("{common}{later}47=A|"),
        Version::Fix50Sp2 => format!("{common}{later}1028=Y|1091=N|"),
    };
    for version in Version::ALL {
        let more = of(version);
        assert_eq!(ask(version, &format!("{LIMIT}{more}")), ask(version, LIMIT), "{version:?}");
        let replace = LIMIT.replacen("D|11=a1|", "G|41=a1|11=a2|", 1);
        assert_eq!(ask(version, &format!("{replace}{more}")), ask(version, &replace));
        let cancel = "F|41=a1|11=a2|55=BTCUSD|54=1|60=20261122-09:30:00|";
        let more = "48=US0378331005|22=4|167=CS|207=XNAS|58=note|";
        assert_eq!(ask(version, &format!("{cancel}{more}")), ask(version, cancel), "{version:?}");
    }
}

#[test]
fn orders_are_read_in_every_version() {
    for version in Version::ALL {
        let Ok(Some(Request::New { terms, resent: false })) = ask(version, LIMIT) else {
            panic!("{version:?}")
        };
        assert_eq!(terms.cl_ord_id, ClOrdId(*b"a1            "));
        assert_eq!((terms.instrument, terms.side), (InstrumentId(1), Side::Buy));
        assert_eq!((terms.qty, terms.price), (Qty(100), Price(783_505_000)));
        assert_eq!(terms.self_trade, SelfTrade::Allow);
        let hidden = if version == Version::Fix50Sp2 { "1138=0|" } else { "111=0|" };
        let Ok(Some(Request::New { terms, .. })) = ask(version, &format!("{LIMIT}{hidden}")) else {
            panic!("{version:?}")
        };
        assert_eq!(terms.flags, types::ORDER_HIDDEN);
    }
}

#[test]
fn terms_go_where_they_belong() {
    let cases = [
        ("40=2|44=78350.5|", "40=1|", OrderType::Market, 0, 0),
        ("40=2|44=78350.5|", "40=K|", OrderType::MarketToLimit, 0, 0),
        ("40=2|44=78350.5|", "40=3|99=5|", OrderType::Stop, 0, 50_000),
        ("40=2|44=78350.5|", "40=4|44=6|99=5|", OrderType::StopLimit, 60_000, 50_000),
        ("40=2|44=78350.5|", "40=P|18=R|211=-0.5|", OrderType::PegPrimary, 0, 5_000),
        ("40=2|44=78350.5|", "40=P|18=M|44=7|", OrderType::PegMid, 70_000, 0),
        ("40=2|44=78350.5|", "40=P|18=a|211=2|", OrderType::TrailingStop, 0, 20_000),
    ];
    for (from, to, order_type, price, stop) in cases {
        let terms = order(from, to).unwrap();
        let found = (terms.order_type, terms.price, terms.stop_price);
        assert_eq!(found, (order_type, Price(price), Price(stop)), "{to}");
    }
    let lives = [
        ("0", TimeInForce::Day),
        ("1", TimeInForce::GoodTillCancelled),
        ("2", TimeInForce::AtTheOpen),
        ("3", TimeInForce::ImmediateOrCancel),
        ("4", TimeInForce::FillOrKill),
        ("7", TimeInForce::AtTheClose),
    ];
    for (code, life) in lives {
        assert_eq!(order("40=2|", &format!("40=2|59={code}|")).unwrap().time_in_force, life);
    }
    let dated = order("40=2|", "40=2|59=6|126=20261231-00:00:00|").unwrap();
    // It may trade all of its last day.
    assert_eq!(order("40=2|", "40=2|59=6|432=20261230|").unwrap(), dated);
    assert_eq!(dated.time_in_force, TimeInForce::GoodTillDate);
    assert_eq!(dated.expire_at, fix::value::timestamp(b"20261231-00:00:00").unwrap());
    let terms = order("40=2|", "40=2|18=6|110=10|2964=3|1138=20|").unwrap();
    assert_eq!((terms.min_qty, terms.display_qty), (10, 20));
    assert_eq!((terms.flags, terms.self_trade), (types::ORDER_POST_ONLY, SelfTrade::CancelBoth));
}

#[test]
fn each_refusal_has_its_words() {
    let cases = [
        ("11=a1|", "11=123456789012345|", Refusal::IDENTIFIER),
        ("11=a1|", "11=a b|", Refusal::IDENTIFIER),
        ("55=BTCUSD|", "55=NOTHING|", Refusal::SYMBOL),
        ("55=BTCUSD|", "55=LONGERNAME|", Refusal::SYMBOL),
        ("38=100|", "", Refusal::NO_QUANTITY),
        ("38=100|", "38=1.5|", Refusal::QUANTITY),
        ("38=100|", "38=4294967296|", Refusal::QUANTITY),
        ("44=78350.5|", "", Refusal::NO_PRICE),
        ("44=78350.5|", "44=1.00001|", Refusal::PRICE),
        ("40=2|", "40=1|", Refusal::PRICE_UNWANTED),
        ("40=2|", "40=4|", Refusal::NO_STOP),
        ("40=2|", "40=2|99=1|", Refusal::STOP_UNWANTED),
        ("40=2|", "40=2|18=R|", Refusal::EXEC_INST),
        ("40=2|", "40=P|", Refusal::EXEC_INST),
        ("40=2|44=78350.5|", "40=P|18=a|", Refusal::NO_OFFSET),
        ("40=2|", "40=2|59=6|", Refusal::EXPIRY),
        ("40=2|", "40=2|126=20261231-00:00:00|", Refusal::EXPIRY),
        ("40=2|", "40=2|432=20261230|", Refusal::EXPIRY),
        ("40=2|", "40=2|59=6|126=20261231-00:00:00|432=20261230|", Refusal::EXPIRY),
    ];
    for (from, to, refusal) in cases {
        assert_eq!(order(from, to), Err(refusal), "{to}");
    }
}

pub(crate) const A1: &[u8; 14] = b"a1            ";
const A2: &[u8; 14] = b"a2            ";
const C1: &[u8; 14] = b"c1            ";

fn request(ledger: &mut Ledger, text: &str) -> Result<Command, Refusal> {
    let request = ask(Version::Fix44, text)?.unwrap();
    ledger.command(&request)
}

/// What a session of `version` is told: valid by its own dictionary, header left out.
pub(crate) fn words(version: Version, execution: &fix::app::Execution) -> String {
    let mut outbound = Outbound::new(version, "FAIR", "MEM7", MemoryStore::new(9, 9_999), 9_999);
    outbound.connect();
    let mut out = Vec::new();
    outbound.send(crate::sample::now(), report::msg_type(execution), &mut out, |writer| {
        report::write(version, execution, &symbols(), writer);
    });
    body(version, &out)
}

pub(crate) fn body(version: Version, out: &[u8]) -> String {
    let mut index = FieldIndex::default();
    let message = index.parse(out).unwrap();
    let rules = builtin(version).unwrap();
    let text = String::from_utf8_lossy(out).replace('\x01', "|");
    let checked = Checker::default().check(&rules, CustomTags::Refused, &message);
    assert_eq!(checked, Ok(()), "{text}");
    let (_, body) = text.split_once("56=MEM7|").unwrap();
    let (body, _) = body.rsplit_once("10=").unwrap();
    let kind = String::from_utf8_lossy(message.msg_type()).into_owned();
    format!("{kind}|{body}").replace("60=20261122-09:30:00.251|", "")
}

#[test]
fn reports_echo_the_terms_that_only_some_orders_have() {
    let until = fix::value::timestamp(b"20261231-00:00:00").unwrap();
    let case = |order_type, side, flags, [display, min, stop]: [u32; 3]| {
        let mut report = crate::sample::told(ExecutionKind::Accepted, 1, A1);
        (report.order_type, report.side, report.flags) = (order_type, side, flags);
        report.terms.stop_price = Price(i64::from(stop));
        (report.terms.display_qty, report.terms.min_qty) = (display, min);
        report
    };
    let mut dated = case(OrderType::Limit, Side::Buy, 0, [0; 3]);
    (dated.time_in_force, dated.terms.expire_at) = (TimeInForce::GoodTillDate, until);
    let (buy, sell) = (Side::Buy, Side::Sell);
    let cases = [
        (case(OrderType::Limit, buy, 0, [20, 10, 0]), "110=10|111=20|", "110=10|1138=20|"),
        (case(OrderType::Limit, buy, types::ORDER_HIDDEN, [0; 3]), "111=0|", "1138=0|"),
        (case(OrderType::Limit, buy, types::ORDER_POST_ONLY, [0; 3]), "18=6|", "18=6|"),
        (case(OrderType::StopLimit, buy, 0, [0, 0, 50_000]), "99=5|", "99=5|"),
        (case(OrderType::PegPrimary, buy, 0, [0, 0, 5_000]), "18=R|211=-0.5|", "18=R|211=-0.5|"),
        (case(OrderType::PegPrimary, sell, 0, [0, 0, 5_000]), "18=R|211=0.5|", "18=R|211=0.5|"),
        (case(OrderType::PegMid, buy, 0, [0; 3]), "18=M|", "18=M|"),
        (case(OrderType::TrailingStop, buy, 0, [0, 0, 20_000]), "18=a|211=2|", "18=a|211=2|"),
        (case(OrderType::TrailingStop, sell, 0, [0, 0, 20_000]), "18=a|211=-2|", "18=a|211=-2|"),
        (dated, "126=20261231-00:00:00.000|", "126=20261231-00:00:00.000|"),
    ];
    for (accepted, mid, new) in cases {
        // Nobody asked this ledger: it is another gateway's, and knows the reports alone.
        let mut ledger = Ledger::new(LedgerLimits::default());
        let taken = ledger.apply(&accepted, 10);
        let mut fill = ExecutionReport { kind: ExecutionKind::Executed, ..accepted };
        (fill.qty, fill.leaves, fill.match_number) = (Qty(30), Qty(70), MatchNumber(5));
        let traded = ledger.apply(&fill, 11);
        let status = ledger.status(&ClOrdId(*A1), 12, crate::sample::now()).unwrap();
        for execution in [taken, traded, status] {
            for (version, echo) in [(Version::Fix44, mid), (Version::Fix50Sp2, new)] {
                let text = words(version, &execution);
                let (_, behind) = text.split_once("|59=").unwrap();
                assert!(behind[2..].starts_with(echo), "{text}");
            }
            // The trailing stop has no name of its own there.
            let text = words(Version::Fix42, &execution);
            assert!(text.contains(mid.trim_start_matches("18=a|")), "{text}");
        }
    }
    // With none of these nothing is added.
    let plain = Ledger::new(LedgerLimits::default())
        .apply(&crate::sample::told(ExecutionKind::Accepted, 1, A1), 1);
    assert!(words(Version::Fix44, &plain).contains("|44=100|59=0|151=100|"));
}

#[test]
fn the_life_of_an_order_in_three_versions() {
    let mut ledger = Ledger::new(LedgerLimits::default());
    let command = request(&mut ledger, LIMIT).unwrap();
    assert_eq!((command.kind, command.user_ref), (CommandKind::NewOrder, UserRefNum(1)));
    let all =
        |execution: &fix::app::Execution| Version::ALL.map(|version| words(version, execution));

    let accepted = ledger.apply(&crate::sample::told(ExecutionKind::Accepted, 1, A1), 10);
    let terms = "55=BTCUSD|54=1|38=100|40=2|44=100|59=0|";
    let [old, mid, new] = all(&accepted);
    let head = "8|37=1001|11=a1|17=E10|";
    assert_eq!(old, format!("{head}20=0|150=0|39=0|{terms}151=100|14=0|6=0|"));
    assert_eq!(mid, format!("{head}150=0|39=0|{terms}151=100|14=0|6=0|"));
    assert_eq!(new, mid);

    let mut fill = crate::sample::told(ExecutionKind::Executed, 1, A1);
    fill.liquidity = Liquidity::Added;
    (fill.qty, fill.leaves, fill.match_number) = (Qty(30), Qty(70), MatchNumber(5));
    let [old, mid, new] = all(&ledger.apply(&fill, 11));
    let head = "8|37=1001|11=a1|17=T5B|";
    let rest = "151=70|14=30|6=100|";
    assert_eq!(old, format!("{head}20=0|150=1|39=1|{terms}32=30|31=100|{rest}"));
    assert_eq!(mid, format!("{head}150=F|39=1|{terms}32=30|31=100|851=1|{rest}"));
    assert_eq!(new, mid.replace("17=T5B|", "17=T5B|880=5|"));

    let text = LIMIT.replace("D|11=a1|", "G|41=a1|37=1001|11=a2|").replace("38=100", "38=90");
    let command = request(&mut ledger, &text).unwrap();
    assert_eq!((command.orig_user_ref, command.user_ref), (UserRefNum(1), UserRefNum(2)));
    let mut replaced = crate::sample::told(ExecutionKind::Replaced, 2, A2);
    (replaced.qty, replaced.leaves) = (Qty(60), Qty(60));
    replaced.orig_user_ref = UserRefNum(1);
    let [old, mid, _] = all(&ledger.apply(&replaced, 12));
    let terms = terms.replace("38=100", "38=90");
    let head = "8|37=1002|11=a2|41=a1|17=E12|";
    assert_eq!(old, format!("{head}20=0|150=5|39=1|{terms}151=60|14=30|6=100|"));
    assert_eq!(mid, format!("{head}150=5|39=1|{terms}151=60|14=30|6=100|"));

    (fill.user_ref, fill.cl_ord_id, fill.order_ref) =
        (UserRefNum(2), ClOrdId(*A2), OrderRef(1_002));
    (fill.qty, fill.leaves, fill.match_number) = (Qty(20), Qty(40), MatchNumber(6));
    fill.price = Price(1_000_100);
    let execution = ledger.apply(&fill, 13);
    assert_eq!((execution.cum, execution.status), (Qty(50), Status::PartiallyFilled));
    assert!(words(Version::Fix44, &execution).contains("6=100.004|"));

    let cancel = "F|41=a2|11=c1|55=BTCUSD|54=1|60=20261122-09:30:00|38=90|";
    let command = request(&mut ledger, cancel).unwrap();
    assert_eq!((command.kind, command.user_ref), (CommandKind::Cancel, UserRefNum(2)));
    assert_eq!(command.qty, Qty(0));
    let mut canceled = crate::sample::told(ExecutionKind::Canceled, 2, C1);
    canceled.cancel_reason = CancelReason::Requested;
    (canceled.qty, canceled.leaves) = (Qty(40), Qty(0));
    let [_, mid, _] = all(&ledger.apply(&canceled, 14));
    let head = "8|37=1002|11=c1|41=a2|17=E14|";
    assert_eq!(mid, format!("{head}150=4|39=4|{terms}151=0|14=50|6=100.004|"));
    assert_eq!(request(&mut ledger, cancel), Err(Refusal::TOO_LATE));

    // The exchange corrects a trade, then breaks it.
    fill.kind = ExecutionKind::TradeCorrected;
    (fill.qty, fill.leaves, fill.price) = (Qty(20), Qty(0), Price(1_000_000));
    let [old, mid, _] = all(&ledger.apply(&fill, 15));
    assert!(old.contains("17=E15|20=2|19=T6B|150=4|39=4|"), "{old}");
    assert!(mid.contains("17=E15|19=T6B|150=G|39=4|"), "{mid}");
    assert!(mid.contains("14=50|6=100|"), "{mid}");
    fill.kind = ExecutionKind::TradeBroken;
    let [old, mid, _] = all(&ledger.apply(&fill, 16));
    assert!(old.contains("20=1|19=T6B|") && mid.contains("19=T6B|150=H|"), "{old} {mid}");
    assert!(mid.contains("14=30|6=100|"), "{mid}");
}

#[test]
fn a_cancel_that_follows_at_once_is_told_by_its_own_identifier() {
    let mut ledger = Ledger::new(LedgerLimits::default());
    request(&mut ledger, LIMIT).unwrap();
    let cancel = "F|41=a1|11=c1|55=BTCUSD|54=1|60=20261122-09:30:00|";
    request(&mut ledger, cancel).unwrap();
    ledger.apply(&crate::sample::told(ExecutionKind::Accepted, 1, A1), 10);
    let mut canceled = crate::sample::told(ExecutionKind::Canceled, 1, C1);
    canceled.cancel_reason = CancelReason::Requested;
    canceled.leaves = Qty(0);
    let said = words(Version::Fix44, &ledger.apply(&canceled, 11));
    assert!(said.contains("|11=c1|41=a1|"), "{said}");
}

#[test]
fn refusals_by_the_engine() {
    let mut ledger = Ledger::new(LedgerLimits::default());
    request(&mut ledger, LIMIT).unwrap();
    let mut rejected = crate::sample::told(ExecutionKind::Rejected, 1, A1);
    rejected.reject = RejectReason::CreditLimit;
    (rejected.order_ref, rejected.leaves) = (OrderRef(0), Qty(0));
    let execution = ledger.apply(&rejected, 1);
    let text = words(Version::Fix44, &execution);
    assert!(text.starts_with("8|37=NONE|11=a1|17=E1|150=8|39=8|103=3|"), "{text}");
    assert!(text.ends_with("151=0|14=0|6=0|58=Credit limit|"), "{text}");
    assert!(ledger.is_empty());
    // Its identifier is free again.
    assert_eq!(request(&mut ledger, LIMIT).unwrap().user_ref, UserRefNum(2));
    ledger.apply(&crate::sample::told(ExecutionKind::Accepted, 2, A1), 2);

    let replace = LIMIT.replace("D|11=a1|", "G|41=a1|11=a2|");
    request(&mut ledger, &replace).unwrap();
    let mut rejected = crate::sample::told(ExecutionKind::Rejected, 3, A2);
    rejected.orig_user_ref = UserRefNum(2);
    rejected.reject = RejectReason::InvalidPrice;
    let text = words(Version::Fix42, &ledger.apply(&rejected, 3));
    let rest = "58=Price is not a multiple of the tick|";
    assert_eq!(text, format!("9|37=1002|11=a2|41=a1|39=0|434=2|102=2|{rest}"));

    let cancel = "F|41=a1|11=c1|55=BTCUSD|54=1|60=20261122-09:30:00|";
    request(&mut ledger, cancel).unwrap();
    let mut late = crate::sample::told(ExecutionKind::CancelRejected, 2, C1);
    late.reject = RejectReason::UnknownOrder;
    let text = words(Version::Fix50Sp2, &ledger.apply(&late, 4));
    assert_eq!(text, "9|37=1002|11=c1|41=a1|39=0|434=1|102=1|58=Unknown order|");
}

#[test]
fn what_crosses_with_a_replace_or_a_fill_is_told_of_the_order_as_it_is() {
    let mut ledger = Ledger::new(LedgerLimits::default());
    ledger.apply(&crate::sample::told(ExecutionKind::Accepted, 1, A1), 1);
    let mut fill = crate::sample::told(ExecutionKind::Executed, 1, A1);
    (fill.qty, fill.leaves, fill.match_number) = (Qty(30), Qty(70), MatchNumber(5));
    ledger.apply(&fill, 2);
    let mut replaced = crate::sample::told(ExecutionKind::Replaced, 2, A2);
    (replaced.orig_user_ref, replaced.leaves) = (UserRefNum(1), Qty(70));
    ledger.apply(&replaced, 3);
    // A cancel and another replace were on their way when the first replace was taken.
    let mut late = crate::sample::told(ExecutionKind::CancelRejected, 1, C1);
    (late.reject, late.order_ref) = (RejectReason::UnknownOrder, OrderRef(0));
    let text = words(Version::Fix44, &ledger.apply(&late, 4));
    assert_eq!(text, "9|37=1002|11=c1|41=a1|39=1|434=1|102=1|58=Unknown order|");
    let mut second = crate::sample::told(ExecutionKind::Rejected, 3, b"a3            ");
    (second.orig_user_ref, second.reject) = (UserRefNum(1), RejectReason::UnknownOrder);
    let text = words(Version::Fix44, &ledger.apply(&second, 5));
    assert_eq!(text, "9|37=1002|11=a3|41=a1|39=1|434=2|102=1|58=Unknown order|");
    // A trade of the order of before is broken: the order is still open.
    fill.kind = ExecutionKind::TradeBroken;
    (fill.leaves, fill.cl_ord_id) = (Qty(0), ClOrdId::default());
    let text = words(Version::Fix44, &ledger.apply(&fill, 6));
    assert!(text.starts_with("8|37=1002|11=a2|41=a1|17=E6|19=T5B|150=H|39=0|"), "{text}");
    assert!(text.contains("151=70|14=0|6=0|"), "{text}");
    // A cancel that crosses with the last fill is too late.
    let mut fill = crate::sample::told(ExecutionKind::Executed, 2, A2);
    (fill.qty, fill.leaves, fill.match_number) = (Qty(70), Qty(0), MatchNumber(6));
    ledger.apply(&fill, 7);
    late.user_ref = UserRefNum(2);
    let text = words(Version::Fix44, &ledger.apply(&late, 8));
    assert_eq!(text, "9|37=1002|11=c1|41=a2|39=2|434=1|102=0|58=Order is done|");
    late.user_ref = UserRefNum(77);
    let text = words(Version::Fix44, &ledger.apply(&late, 9));
    assert_eq!(text, "9|37=NONE|11=c1|41=c1|39=8|434=1|102=1|58=Unknown order|");
}

#[test]
fn refusals_by_the_ledger() {
    let limits = LedgerLimits { pending_max: 2, ..LedgerLimits::default() };
    let mut ledger = Ledger::new(limits);
    let command = request(&mut ledger, LIMIT).unwrap();
    assert_eq!(request(&mut ledger, LIMIT), Err(Refusal::DUPLICATE));
    let cancel = "F|41=a1|11=c1|55=BTCUSD|54=1|60=20261122-09:30:00|";
    assert_eq!(
        request(&mut ledger, &cancel.replace("41=a1", "41=zz")),
        Err(Refusal::UNKNOWN_ORDER)
    );
    assert_eq!(request(&mut ledger, &cancel.replace("54=1", "54=2")), Err(Refusal::MISMATCH));
    let replace = LIMIT.replace("D|11=a1|", "G|41=a1|11=a2|");
    let market = replace.replace("40=2|44=78350.5|", "40=1|");
    assert_eq!(request(&mut ledger, &market), Err(Refusal::MISMATCH));
    let same = replace.replace("11=a2|", "11=a1|");
    assert_eq!(request(&mut ledger, &same), Err(Refusal::DUPLICATE));
    // An order that is not answered yet can be cancelled.
    assert!(request(&mut ledger, cancel).is_ok());
    request(&mut ledger, &LIMIT.replace("11=a1", "11=a2")).unwrap();
    assert_eq!(request(&mut ledger, &LIMIT.replace("11=a1", "11=a3")), Err(Refusal::BUSY));
    ledger.withdraw(&command);
    assert!(request(&mut ledger, LIMIT).is_ok());
}

#[test]
fn a_ledger_of_another_gateway_says_the_same() {
    let mut reports = vec![crate::sample::told(ExecutionKind::Accepted, 1, A1)];
    for number in 0..3 {
        let mut fill = crate::sample::told(ExecutionKind::Executed, 1, A1);
        (fill.qty, fill.leaves) = (Qty(10), Qty(90 - 10 * number));
        fill.match_number = MatchNumber(number + 1);
        reports.push(fill);
    }
    let mut replaced = crate::sample::told(ExecutionKind::Replaced, 2, A2);
    (replaced.leaves, replaced.orig_user_ref) = (Qty(70), UserRefNum(1));
    reports.push(replaced);
    // Requests that only the first gateway saw are named by their answers all the same.
    let mut late = crate::sample::told(ExecutionKind::CancelRejected, 2, C1);
    late.reject = RejectReason::MarketClosed;
    let mut all = ExecutionReport { flags: types::REFUSED_MASS_CANCEL, ..late };
    all.user_ref = UserRefNum(3);
    reports.extend([late, all]);
    let mut first = Ledger::new(LedgerLimits::default());
    request(&mut first, LIMIT).unwrap();
    let mut second = Ledger::new(LedgerLimits::default());
    for (position, report) in (1..).zip(&reports) {
        if position == 5 {
            request(&mut first, &LIMIT.replace("D|11=a1|", "G|41=a1|11=a2|")).unwrap();
        }
        let said = first.apply(report, position);
        assert_eq!(said, second.apply(report, position), "{position}");
        let expected = match position {
            1..=4 => "|11=a1|",
            5 => "|11=a2|41=a1|",
            6 => "|11=c1|41=a2|39=1|434=1|",
            _ => "r|11=c1|37=E7|530=1|531=0|",
        };
        let text = words(Version::Fix44, &said);
        assert!(text.contains(expected), "{position}: {text}");
    }
    let status = |ledger: &Ledger| ledger.status(&ClOrdId(*A2), 9, crate::sample::now());
    assert_eq!(status(&first), status(&second));
    let text = words(Version::Fix44, &status(&first).unwrap());
    assert!(text.contains("17=S9|150=I|39=1|") && text.contains("151=70|14=30|"), "{text}");
    // New orders get numbers nobody has used.
    assert_eq!(request(&mut second, LIMIT).unwrap().user_ref, UserRefNum(4));
    let mut canceled = crate::sample::told(ExecutionKind::Canceled, 2, C1);
    (canceled.cancel_reason, canceled.leaves) = (CancelReason::Requested, Qty(0));
    let text = words(Version::Fix44, &second.apply(&canceled, 8));
    assert!(text.contains("|11=c1|41=a2|"), "{text}");
}

#[test]
fn done_orders_and_trades_are_kept_within_bounds() {
    let limits = LedgerLimits { done_max: 10, trades_max: 5, pending_max: 4, salt: 3 };
    let mut ledger = Ledger::new(limits);
    for number in 1..1_000u32 {
        let mut id = *A1;
        id[2..6].copy_from_slice(&format!("{number:04}").into_bytes());
        ledger.apply(&crate::sample::told(ExecutionKind::Accepted, number, &id), 1);
        let mut fill = crate::sample::told(ExecutionKind::Executed, number, &id);
        (fill.leaves, fill.match_number) = (Qty(0), MatchNumber(u64::from(number)));
        assert_eq!(ledger.apply(&fill, 2).status, Status::Filled);
        assert!(ledger.len() <= 11, "{}", ledger.len());
        // A correction of what is forgotten leaves nothing behind.
        fill.kind = ExecutionKind::TradeBroken;
        fill.user_ref = UserRefNum(number.saturating_sub(500).max(1));
        ledger.apply(&fill, 3);
    }
    assert!(ledger.len() <= 11);
}

#[test]
fn an_open_order_with_the_number_of_one_that_is_done_stays_known() {
    let limits = LedgerLimits { done_max: 4, ..LedgerLimits::default() };
    let mut ledger = Ledger::new(limits);
    let life = |ledger: &mut Ledger, number: u32, id: &[u8; 14]| {
        ledger.apply(&crate::sample::told(ExecutionKind::Accepted, number, id), 1);
        let mut fill = crate::sample::told(ExecutionKind::Executed, number, id);
        (fill.leaves, fill.match_number) = (Qty(0), MatchNumber(u64::from(number)));
        ledger.apply(&fill, 2);
    };
    life(&mut ledger, 1, A1);
    // Over OUCH numbers begin again with a day.
    ledger.apply(&crate::sample::told(ExecutionKind::Accepted, 1, A2), 3);
    (2..20).for_each(|number| life(&mut ledger, number, C1));
    let status = ledger.status(&ClOrdId(*A2), 4, crate::sample::now());
    assert_eq!(status.map(|order| order.status), Some(Status::New));
    assert!(ledger.status(&ClOrdId(*A1), 4, crate::sample::now()).is_none() && ledger.len() <= 5);
}

#[test]
fn mass_cancels() {
    let mut ledger = Ledger::new(LedgerLimits::default());
    let one = "q|11=c1|530=1|55=BTCUSD|54=2|60=20261122-09:30:00|";
    let command = request(&mut ledger, one).unwrap();
    assert_eq!((command.kind, command.param), (CommandKind::MassCancel, 2));
    assert_eq!((command.instrument, command.cl_ord_id), (InstrumentId(1), ClOrdId(*C1)));
    let mut done = crate::sample::told(ExecutionKind::MassCanceled, command.user_ref.0, C1);
    (done.qty, done.leaves) = (Qty(3), Qty(0));
    let execution = ledger.apply(&done, 8);
    let text = words(Version::Fix44, &execution);
    assert_eq!(text, "r|11=c1|37=E8|530=1|531=1|533=3|");
    let text = words(Version::Fix50Sp2, &execution);
    assert_eq!(text, "r|11=c1|37=E8|1369=E8|530=1|531=1|533=3|");
    let all = "q|11=c1|530=7|60=20261122-09:30:00|";
    let command = request(&mut ledger, all).unwrap();
    assert_eq!((command.param, command.instrument), (0, InstrumentId(0)));
    let mut refused = crate::sample::told(ExecutionKind::CancelRejected, command.user_ref.0, C1);
    refused.reject = RejectReason::MarketClosed;
    (refused.instrument, refused.flags) = (InstrumentId(0), types::REFUSED_MASS_CANCEL);
    (refused.qty, refused.leaves) = (Qty(0), Qty(0));
    let text = words(Version::Fix44, &ledger.apply(&refused, 9));
    assert_eq!(text, "r|11=c1|37=E9|530=7|531=0|532=6|533=0|58=Market closed|");
}

#[test]
fn refusals_echo_what_was_asked() {
    let refused = |version, text: &str, refusal: &Refusal| {
        with_message(version, text, |message| {
            let store = MemoryStore::new(9, 9_999);
            let mut outbound = Outbound::new(version, "FAIR", "MEM7", store, 9_999);
            outbound.connect();
            let mut out = Vec::new();
            outbound.send(
                crate::sample::now(),
                report::refusal_type(message),
                &mut out,
                |writer| {
                    report::write_refusal(
                        version,
                        message,
                        refusal,
                        None,
                        crate::sample::now(),
                        writer,
                    );
                },
            );
            body(version, &out)
        })
    };
    let long = LIMIT.replace("11=a1", "11=a-very-long-identifier");
    for version in Version::ALL {
        let text = refused(version, &long, &Refusal::IDENTIFIER);
        assert!(text.starts_with("8|37=NONE|11=a-very-long-identifier|17=R7|"), "{text}");
        assert!(text.contains("150=8|39=8|"), "{text}");
        let text = "58=ClOrdID must be 1 to 14 printable characters without blanks|";
        assert!(refused(version, &long, &Refusal::IDENTIFIER).ends_with(text));
        let cancel = "F|41=zz|11=c1|55=BTCUSD|54=1|60=20261122-09:30:00|";
        let text = refused(version, cancel, &Refusal::UNKNOWN_ORDER);
        assert_eq!(text, "9|37=NONE|11=c1|41=zz|39=8|434=1|102=1|58=Unknown order|");
        let status = "H|11=a1|55=BTCUSD|54=1|";
        assert!(refused(version, status, &Refusal::UNKNOWN_ORDER).contains("|39=8|103=5|"));
    }
    let mass = "q|11=c1|530=1|55=NOTHING|60=20261122-09:30:00|";
    let text = refused(Version::Fix44, mass, &Refusal::SYMBOL);
    assert_eq!(text, "j|45=7|372=q|379=c1|380=2|58=Unknown symbol|");
}

#[test]
fn market_data_lists_and_states() {
    let text = "V|262=m1|263=1|264=0|265=1|267=2|269=0|269=1|146=1|55=BTCUSD|";
    let read = |text: &str, then: fn(Result<market::MarketDataRequest<'_>, MarketDataRefusal>)| {
        with_message(Version::Fix44, text, |message| {
            then(market::market_data_request(message, &symbols()));
        });
    };
    read(text, |read| {
        let request = read.unwrap();
        assert_eq!((request.id, request.depth), (&b"m1"[..], 0));
        assert_eq!(request.subscription, Subscription::Updates);
        assert_eq!(request.wanted, [true, true, false]);
        assert_eq!((request.full, request.instruments), (false, vec![InstrumentId(1)]));
    });
    read(&text.replace("BTCUSD", "NOTHING"), |read| {
        assert_eq!(read, Err(MarketDataRefusal::UnknownSymbol));
    });
    read(&text.replace("265=1", "265=0"), |read| assert!(read.unwrap().full));
    read(&text.replace("265=1", "266=N"), |read| {
        assert_eq!(read, Err(MarketDataRefusal::Aggregation));
    });
    read(&text.replace("263=1", "263=2").replace("BTCUSD", "NOTHING"), |read| {
        assert_eq!(read.unwrap().subscription, Subscription::End);
    });

    let symbol = crate::sample::instrument().symbol;
    let level = |side, price| Level { side, price: Price(price), qty: Qty(5), orders: 2 };
    let (match_number, price) = (MatchNumber(9), Price(25_000));
    let at = Nanos(crate::sample::now().0 - Nanos::SECOND);
    let aggressor = Some(Side::Sell);
    let print = Print { match_number, price, qty: Qty(7), at, aggressor, broken: false };
    let broken = Print { broken: true, ..print };
    let crossed = Print { aggressor: None, ..print };
    let levels = [level(Side::Buy, 20_000), level(Side::Buy, 10_000), level(Side::Sell, 30_000)];
    let refresh = |version| Refresh {
        version,
        id: b"m1",
        symbol: &symbol,
        at: Some(crate::sample::now()),
        told: 9,
    };
    let sent = |version, msg_type, write: &dyn Fn(&mut fix::encode::Writer<'_>)| {
        let mut outbound =
            Outbound::new(version, "FAIR", "MEM7", MemoryStore::new(9, 9_999), 9_999);
        outbound.connect();
        let mut out = Vec::new();
        outbound.send(crate::sample::now(), msg_type, &mut out, write);
        body(version, &out)
    };
    for version in Version::ALL {
        let text = sent(version, fix::app::MARKET_DATA_SNAPSHOT, &|writer| {
            market::write_snapshot(&refresh(version), &levels, Some(&print), writer);
        });
        let (now, then) = ("272=20261122|273=09:30:00.251|", "272=20261122|273=09:29:59.251|");
        let told = if version == Version::Fix50Sp2 { "83=9|" } else { "" };
        let level = |kind, price, place| {
            format!("269={kind}|270={price}|271=5|{now}346=2|290={place}|{told}")
        };
        let levels_told = level(0, 2, 1) + &level(0, 1, 2) + &level(1, 3, 1);
        let last = format!("269=2|270=2.5|271=7|{then}58=SELL|{told}");
        assert_eq!(text, format!("W|262=m1|55=BTCUSD|268=4|{levels_told}{last}"));
        let text = sent(version, fix::app::MARKET_DATA_SNAPSHOT, &|writer| {
            let refresh = Refresh { at: None, ..refresh(version) };
            market::write_snapshot(&refresh, &levels[..1], Some(&crossed), writer);
        });
        let last = format!("269=2|270=2.5|271=7|{then}{told}");
        let level = format!("269=0|270=2|271=5|346=2|290=1|{told}");
        assert_eq!(text, format!("W|262=m1|55=BTCUSD|268=2|{level}{last}"));
        let updates = [(Update::Delete, levels[0]), (Update::New, levels[2])];
        let text = sent(version, fix::app::MARKET_DATA_INCREMENTAL, &|writer| {
            market::write_updates(&refresh(version), [print, broken].iter(), &updates, writer);
        });
        let number = |number| match version {
            Version::Fix50Sp2 => format!("83={number}|"),
            _ => String::new(),
        };
        let entries = [
            format!("279=0|269=2|278=9|55=BTCUSD|270=2.5|271=7|{then}58=SELL|{}", number(10)),
            format!("279=2|269=2|278=9|55=BTCUSD|{then}{}", number(11)),
            format!("279=2|269=0|55=BTCUSD|270=2|{now}{}", number(12)),
            format!("279=0|269=1|55=BTCUSD|270=3|271=5|{now}346=2|{}", number(13)),
        ];
        assert_eq!(text, format!("X|262=m1|268=4|{}", entries.concat()));
        let text = sent(version, fix::app::SECURITY_STATUS, &|writer| {
            let state = Some(TradingState::Paused);
            market::write_security_status(version, b"s", b"BTCUSD", state, writer);
        });
        let told = match version {
            Version::Fix42 => "326=5|",
            _ => "326=23|58=Volatility interruption|",
        };
        assert_eq!(text, format!("f|324=s|55=BTCUSD|{told}"));
        let text = sent(version, fix::app::TRADING_SESSION_STATUS, &|writer| {
            market::write_trading_status(version, None, &symbol, TradingState::Trading, writer);
        });
        let named = if version == Version::Fix50Sp2 { "336=1|55=BTCUSD|" } else { "336=BTCUSD|" };
        assert_eq!(text, format!("h|{named}340=2|58=Trading|"));
        let text = sent(version, fix::app::MARKET_DATA_REQUEST_REJECT, &|writer| {
            market::write_refusal(b"m1", MarketDataRefusal::Depth, writer);
        });
        assert_eq!(text, "Y|262=m1|281=5|58=Unsupported MarketDepth|");
    }
    let list = |version, request: &str| {
        with_message(version, request, |message| {
            sent(version, fix::app::SECURITY_LIST, &|writer| {
                market::write_security_list(version, message, &symbols(), writer);
            })
        })
    };
    let all = list(Version::Fix50Sp2, "x|320=s1|559=4|");
    assert_eq!(all, "y|320=s1|322=L7|560=0|393=1|893=Y|146=1|55=BTCUSD|969=0.01|");
    let none = list(Version::Fix44, "x|320=s1|559=0|55=NOTHING|");
    assert_eq!(none, "y|320=s1|322=L7|560=2|393=0|893=Y|");
    assert_eq!(Nanos(0), Nanos::default());
}
