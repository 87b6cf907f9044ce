//! Peg offsets and ends of orders, from message to terms and back into a report.

use fix::app::request::Request;
use fix::app::{Ledger, LedgerLimits, Refusal};
use fix::dictionary::{Checker, CustomTags, RejectReason, builtin};
use fix::{FieldIndex, Version};
use types::{ExecutionKind, Nanos, TimeInForce};

use crate::orders::{A1, LIMIT, ask, order, words};

/// PegOffsetValue(211) is added to the price that is pegged to; the engine's offset is a distance.
#[test]
fn offsets_have_the_sign_of_fix_and_come_back_as_they_were_asked_for() {
    let (peg, trail) = (Refusal::PEG_OFFSET, Refusal::TRAIL_OFFSET);
    for (side, exec_inst, offset, distance) in [
        ("1", "R", "-0.05", Ok(500)),
        ("1", "R", "0.05", Err(peg)),
        ("2", "R", "0.05", Ok(500)),
        ("2", "R", "-0.05", Err(peg)),
        ("1", "R", "0", Ok(0)),
        ("2", "R", "-0.0", Ok(0)),
        ("1", "a", "0.05", Ok(500)),
        ("1", "a", "-0.05", Err(trail)),
        ("2", "a", "-0.05", Ok(500)),
        ("2", "a", "0.05", Err(trail)),
        ("1", "a", "0", Err(trail)),
        ("2", "a", "0", Err(trail)),
    ] {
        for replaces in [false, true] {
            let asked = LIMIT
                .replace("40=2|44=78350.5|", &format!("40=P|18={exec_inst}|211={offset}|"))
                .replace("54=1|", &format!("54={side}|"));
            let asked = match replaces {
                true => asked.replace("D|11=a1|", "G|41=a1|11=a2|"),
                false => asked,
            };
            let terms = ask(Version::Fix44, &asked).map(|request| match request {
                Some(Request::New { terms, .. } | Request::Replace { terms, .. }) => terms,
                other => panic!("{other:?}"),
            });
            assert_eq!(terms.map(|terms| terms.stop_price.0), distance, "{asked}");
            let Ok(terms) = terms else { continue };
            let mut report = crate::sample::told(ExecutionKind::Accepted, 1, A1);
            (report.order_type, report.side) = (terms.order_type, terms.side);
            report.terms.stop_price = terms.stop_price;
            let taken = Ledger::new(LedgerLimits::default()).apply(&report, 1);
            let echo = if distance == Ok(0) { String::new() } else { format!("|211={offset}") };
            let echo = format!("|59=0|18={exec_inst}{echo}|151=");
            let said = words(Version::Fix44, &taken);
            assert!(said.contains(&echo), "{echo} {said}");
        }
    }
    for refusal in [peg, trail] {
        assert!(refusal.text.starts_with("PegOffsetValue "), "{refusal:?}");
    }
}

/// A text about StopPx is of no use to whoever sent another field, or has to send one.
#[test]
fn a_refusal_names_the_field_that_is_wrong() {
    let (mid, unwanted) = (Refusal::MID_OFFSET, Refusal::OFFSET_UNWANTED);
    for (fields, refusal, field) in [
        ("40=P|18=M|211=0.05|", mid, "PegOffsetValue "),
        ("40=P|18=M|44=78350.5|211=-0.05|", mid, "PegOffsetValue "),
        ("40=2|44=78350.5|211=0.05|", unwanted, "PegOffsetValue "),
        ("40=1|211=0.05|", unwanted, "PegOffsetValue "),
        ("40=K|211=-0.05|", unwanted, "PegOffsetValue "),
        ("40=P|18=a|", Refusal::NO_OFFSET, "PegOffsetValue "),
        ("40=P|18=M|99=1|", Refusal::STOP_UNWANTED, "StopPx "),
        ("40=2|44=78350.5|99=1|", Refusal::STOP_UNWANTED, "StopPx "),
        ("40=3|", Refusal::NO_STOP, "StopPx "),
    ] {
        let found = order("40=2|44=78350.5|", fields).map(|terms| terms.stop_price);
        assert_eq!(found, Err(refusal), "{fields}");
        assert!(refusal.text.starts_with(field), "{refusal:?}");
    }
    // An offset of nothing is none.
    for fields in ["40=P|18=M|211=0|", "40=2|44=78350.5|211=0|"] {
        assert_eq!(order("40=2|44=78350.5|", fields).unwrap().stop_price.0, 0, "{fields}");
    }
}

/// 9999-12-31 stands for never; the exchange's times end in 2554.
#[test]
fn an_end_beyond_the_exchanges_times_is_the_last_of_them() {
    let ends = |fields: &str| order("40=2|", &format!("40=2|59=6|{fields}|")).unwrap().expire_at;
    for far in ["126=99991231-23:59:59", "126=99991231-23:59:59.999", "432=99991231"] {
        assert_eq!(ends(far), Nanos::NEVER, "{far}");
    }
    // The last time that is counted, and the first one that is not.
    assert_eq!(ends("126=25540721-23:34:33.709551614"), Nanos(u64::MAX - 1));
    assert_eq!(ends("126=25540721-23:34:33.709551616"), Nanos::NEVER);
    assert_eq!(ends("432=25540720"), Nanos(213_503 * 86_400 * Nanos::SECOND));
    assert_eq!(ends("432=25540721"), Nanos::NEVER);
    let told = |expire_at| {
        let mut report = crate::sample::told(ExecutionKind::Accepted, 1, A1);
        report.time_in_force = TimeInForce::GoodTillDate;
        report.terms.expire_at = expire_at;
        words(Version::Fix44, &Ledger::new(LedgerLimits::default()).apply(&report, 1))
    };
    let said = told(Nanos::NEVER);
    assert!(said.contains("|59=6|126=25540721-23:34:33.709|"), "{said}");
    // TransactTime is not looked at.
    let late = LIMIT.replace("60=20261122-09:30:00", "60=99991231-23:59:59.999");
    assert_eq!(ask(Version::Fix44, &late), ask(Version::Fix44, LIMIT));
    // Days that there are not stay refused.
    let rules = builtin(Version::Fix44).unwrap();
    for bad in ["126=99991232-00:00:00", "126=99990229-00:00:00", "432=99991131", "432=19691231"] {
        let text = format!(
            "8=FIX.4.4|9=0|35=D|34=7|49=MEM7|52=20261122-09:30:00|56=FAIR|{}59=6|{bad}|",
            &LIMIT[2..]
        );
        let wire = crate::sample::wire(&crate::sample::repaired(&text));
        let mut index = FieldIndex::default();
        let message = index.parse(&wire).unwrap();
        let fault = Checker::default().check(&rules, CustomTags::Refused, &message).unwrap_err();
        assert_eq!(fault.reason, RejectReason::DataFormat, "{bad}");
    }
}

/// What a refused order says: text, OrdRejReason.
fn said(from: &str, to: &str) -> (&'static str, u8) {
    let refusal = order(from, to).expect_err(to);
    (refusal.text, refusal.order)
}

#[test]
fn a_price_that_is_no_price_is_not_called_one_off_the_tick() {
    let (high, low) = ("Price is too high", "Price must be above 0");
    let decimals = "Prices have at most four decimals";
    for (price, text) in [
        ("99999999999999999999999", high),
        ("99999999999999999999999.5000000", high),
        ("922337203685478", high),
        ("0", low),
        ("0.0000", low),
        ("-0", low),
        ("-1", low),
        ("-99999999999999999999999", low),
        ("1.00001", decimals),
        ("99999999999999999999999.00001", decimals),
    ] {
        let to = format!("44={price}|");
        assert_eq!(said("44=78350.5|", &to), (text, 99), "{price}");
        let peg = format!("40=P|18=R|44={price}|");
        assert_eq!(said("40=2|44=78350.5|", &peg), (text, 99), "the limit of a peg: {price}");
    }
    let huge = "99999999999999999999999";
    let stop = said("40=2|44=78350.5|", &format!("40=3|99={huge}|"));
    assert_eq!(stop, ("StopPx is too high", 99));
    for offset in [huge.to_string(), format!("-{huge}")] {
        let trail = said("40=2|44=78350.5|", &format!("40=P|18=a|211={offset}|"));
        assert_eq!(trail, ("PegOffsetValue is too large", 99));
    }
    // Control: the highest and the lowest that can be read.
    for (price, value) in [("99999999999999.9999", 999_999_999_999_999_999), ("0.0001", 1)] {
        let terms = order("44=78350.5|", &format!("44={price}|")).unwrap();
        assert_eq!(terms.price.0, value, "{price}");
    }
}

#[test]
fn a_mass_cancel_says_what_is_wrong_with_its_symbol() {
    let head = "q|11=c1|60=20261122-09:30:00|";
    for version in [Version::Fix44, Version::Fix50Sp2] {
        for (fields, text, business) in [
            ("530=1|", "Symbol is required for MassCancelRequestType 1", 5),
            ("530=1|55=NOTHING|", "Unknown symbol", 2),
            ("530=7|55=BTCUSD|", "Symbol does not go with MassCancelRequestType 7", 0),
        ] {
            let refusal = ask(version, &format!("{head}{fields}")).expect_err(fields);
            assert_eq!((refusal.text, refusal.business), (text, business), "{fields}");
        }
    }
}

/// The engine has one reason for what stands in StopPx and in PegOffsetValue.
#[test]
fn an_offset_that_the_engine_refuses_is_no_stop_price() {
    use types::OrderType;
    for (order_type, text) in [
        (OrderType::PegPrimary, "Invalid PegOffsetValue"),
        (OrderType::PegMid, "Invalid PegOffsetValue"),
        (OrderType::TrailingStop, "Invalid PegOffsetValue"),
        (OrderType::Stop, "Invalid stop price"),
        (OrderType::StopLimit, "Invalid stop price"),
    ] {
        let mut report = crate::sample::told(ExecutionKind::Rejected, 1, A1);
        report.order_type = order_type;
        report.reject = types::RejectReason::InvalidStopPrice;
        let execution = Ledger::new(LedgerLimits::default()).apply(&report, 1);
        let new = words(Version::Fix44, &execution);
        assert!(new.ends_with(&format!("|58={text}|")), "{new}");
        report.orig_user_ref = types::UserRefNum(7);
        let execution = Ledger::new(LedgerLimits::default()).apply(&report, 1);
        let replace = words(Version::Fix44, &execution);
        assert!(replace.starts_with("9|") && replace.ends_with(&format!("|58={text}|")));
    }
}
