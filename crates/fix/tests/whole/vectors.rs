//! The two samples that the codec's cost is measured on, byte for byte, and what parsing refuses.

use fix::app::{Symbols, report, request};
use fix::{FieldIndex, Frame, Framer, Garbled, Version, checksum};
use types::{Nanos, OrderType, Price, Qty, Side, TimeInForce};

#[test]
fn samples_have_the_size_they_are_known_for() {
    for (name, text, bytes, fields) in [
        ("new order", crate::sample::NEW_ORDER, 185, 20),
        ("report", crate::sample::EXECUTION_REPORT, 264, 28),
    ] {
        let wire = crate::sample::wire(text);
        assert_eq!(wire.len(), bytes, "{name}");
        let mut index = FieldIndex::default();
        assert_eq!(index.parse(&wire).unwrap().len() + 1, fields, "{name}");
        let mut framer = Framer::new(1_024);
        framer.push(&wire);
        assert_eq!(framer.next_frame(), Some(Frame::Message(&wire)), "{name}");
    }
}

#[test]
fn the_new_order_says_what_it_says() {
    let wire = crate::sample::wire(crate::sample::NEW_ORDER);
    let mut index = FieldIndex::default();
    let message = index.parse(&wire).unwrap();
    let symbols = Symbols::new(&[crate::sample::instrument()]);
    let Some(request::Request::New { terms, resent }) = request::parse(&message, &symbols).unwrap()
    else {
        panic!("no new order")
    };
    assert!(!resent);
    assert_eq!(terms.cl_ord_id.0, *b"A17-042       ");
    assert_eq!((terms.side, terms.order_type), (Side::Sell, OrderType::Limit));
    assert_eq!((terms.qty, terms.price), (Qty(2_500), Price(783_505_000)));
    assert_eq!(terms.time_in_force, TimeInForce::Day);
    assert_eq!((terms.flags, terms.display_qty), (types::ORDER_POST_ONLY, 500));
}

#[test]
fn the_report_is_written_byte_by_byte() {
    let mut out = Vec::new();
    crate::sample::encode(&mut crate::sample::outbound(), &mut out);
    let text = String::from_utf8(out).unwrap().replace('\x01', "|");
    assert_eq!(text, crate::sample::EXECUTION_REPORT);
    let execution = crate::sample::execution();
    assert_eq!(report::msg_type(&execution).as_bytes(), b"8");
}

/// Replaces part of the sample, and repairs length and sum if `repair`.
fn changed(from: &str, to: &str, repair: bool) -> Result<usize, Garbled> {
    let text = crate::sample::NEW_ORDER;
    assert!(text.contains(from), "{from}");
    let mut text = text.replacen(from, to, 1);
    if repair {
        text = crate::sample::repaired(&text);
    }
    FieldIndex::default().parse(&crate::sample::wire(&text)).map(|message| message.len())
}

#[test]
fn garbled_messages_are_told_from_bad_ones() {
    assert_eq!(changed("|38=2500|", "|38=2501|", false), Err(Garbled::CheckSum));
    assert_eq!(changed("|38=2500|", "|38=2501|", true), Ok(19));
    assert_eq!(changed("|9=161|", "|9=160|", false), Err(Garbled::CheckSum));
    assert_eq!(changed("|38=2500|", "|38|", true), Err(Garbled::Tag));
    assert_eq!(changed("|38=2500|", "|=2500|", true), Err(Garbled::Tag));
    assert_eq!(changed("|38=2500|", "|3x8=2500|", true), Err(Garbled::Tag));
    assert_eq!(changed("|38=2500|", "|1234567890=2500|", true), Err(Garbled::Tag));
    // Bad, but a message all the same: the session answers it.
    assert_eq!(changed("|38=2500|", "|-1=2500|", true), Ok(19));
    assert_eq!(changed("|38=2500|", "|0=2500|", true), Ok(19));
    assert_eq!(changed("|38=2500|", "|38=|", true), Ok(19));
    assert_eq!(changed("35=D|34=43|", "34=43|35=D|", true), Err(Garbled::FirstFields));
    // Data fields hold separators, and end where their length says.
    assert_eq!(changed("|38=2500|", "|95=3|96=a|b|", true), Ok(20));
    assert_eq!(changed("|38=2500|", "|95=4|96=a|b|", true), Err(Garbled::DataLength));
    assert_eq!(changed("|38=2500|", "|95=3|38=abc|", true), Err(Garbled::DataLength));
    assert_eq!(changed("|38=2500|", "|95=x|96=abc|", true), Err(Garbled::DataLength));
    assert_eq!(changed("|38=2500|", "|95=99999|96=abc|", true), Err(Garbled::DataLength));
    let many = format!("|{}", "38=1|".repeat(fix::FIELDS_MAX));
    assert_eq!(changed("|38=2500|", &many, true), Err(Garbled::TooManyFields));
}

#[test]
fn lengths_of_any_width_are_written() {
    let mut outbound = crate::sample::outbound();
    for length in [1usize, 20, 30, 900, 930, 1_000, 20_000] {
        let mut out = b"before".to_vec();
        let text = vec![b'x'; length];
        outbound.send(Nanos(0), fix::app::BUSINESS_MESSAGE_REJECT, &mut out, |writer| {
            writer.text(fix::tag::TEXT, &text);
        });
        let message = out.strip_prefix(b"before").unwrap();
        let mut index = FieldIndex::default();
        assert_eq!(index.parse(message).unwrap().get(58), Some(&text[..]), "{length}");
        assert_eq!(checksum(b"ab"), 195);
    }
    assert_eq!(Version::ALL.len(), 3);
}
