//! Names of orders: which an order may have, which the door makes, and what is answered by a name that is
//! used again or whose order has made way for another.

use serde_json::{Value, json};
use types::{Nanos, Price};
use web::account::Ask;
use web::command::{SocketOp, socket_message};
use web::request;

use crate::account::{
    Bench, accepted, buy, cancelled, done, id, message, number_of, replaced, with,
};
use crate::instruments;

const SECOND: u64 = Nanos::SECOND;

/// An account that is up, without orders.
fn up() -> Bench {
    let mut bench = Bench::new();
    drop(bench.ask(Ask::Positions));
    bench.log_in(1, &[]);
    bench
}

fn replace(of: &str, by: &str, qty: &str, price: &str) -> Ask {
    let body = json!({ "client_order_id": by, "qty": qty, "price": price }).to_string();
    Ask::Replace(id(of), request::replace(body.as_bytes()).expect("a replace"))
}

/// An order without a name of its own.
fn nameless() -> Ask {
    with(buy("x", 5), |new| new.client_id = None)
}

fn own_name(answer: &Value) -> String {
    answer["client_order_id"].as_str().expect("a name").to_string()
}

#[test]
fn a_cancel_of_an_order_that_is_replaced_before_it_is_refused() {
    let mut bench = up();
    let mut new = bench.ask(buy("g", 10));
    let mut by = bench.ask(replace("g", "h", "0.9", "100"));
    let mut cancel = bench.ask(Ask::Cancel(id("g")));
    let first = number_of(&bench.sent[0]);
    let second = u32::from_be_bytes(bench.sent[1][5..9].try_into().expect("4 bytes"));
    bench.stream(&accepted(first, 10, "g"));
    assert!(cancel.try_recv().is_err(), "the exchange has not answered it");
    bench.stream(&replaced(first, second, 9, "h"));
    assert_eq!(done(&mut new).expect("taken")["state"], "open");
    assert_eq!(done(&mut by).expect("replaced")["state"], "open");
    let refused = done(&mut cancel).unwrap_err();
    assert_eq!((refused.code, &*refused.message), ("not_open", "the order is replaced"));
    // A moment later the answer is the same.
    let mut later = bench.ask(Ask::Cancel(id("g")));
    assert_eq!(done(&mut later).unwrap_err(), refused);
    // The exchange's own answer comes behind, and nobody waits for it; nor does it go again.
    bench.stream(&message(b'I', &[&first.to_be_bytes()], false));
    bench.account.handle_close(bench.now);
    bench.log_in(4, &[]);
    assert!(bench.sent.is_empty(), "{:?}", bench.sent);
    // Control: what is cancelled says so.
    let mut cancel = bench.ask(Ask::Cancel(id("h")));
    bench.stream(&cancelled(second, 9));
    assert_eq!(done(&mut cancel).expect("done")["state"], "cancelled");
}

#[test]
fn a_cancel_behind_a_replace_that_is_rejected_cancels_the_order() {
    let mut bench = up();
    drop(bench.ask(buy("g", 10)));
    drop(bench.ask(replace("g", "h", "0.9", "100")));
    let mut cancel = bench.ask(Ask::Cancel(id("g")));
    let first = number_of(&bench.sent[0]);
    let second = u32::from_be_bytes(bench.sent[1][5..9].try_into().expect("4 bytes"));
    bench.stream(&accepted(first, 10, "g"));
    let rejected: [&[u8]; 3] = [&second.to_be_bytes(), &0x4602u16.to_be_bytes(), &id("h").0];
    bench.stream(&message(b'J', &rejected, false));
    assert!(cancel.try_recv().is_err(), "the order is open");
    bench.stream(&cancelled(first, 10));
    assert_eq!(done(&mut cancel).expect("done")["state"], "cancelled");
}

#[test]
fn a_cancel_is_answered_when_nothing_of_its_order_is_left() {
    let mut bench = up();
    drop(bench.ask(buy("a", 10)));
    let number = number_of(&bench.sent[0]);
    bench.stream(&accepted(number, 10, "a"));
    let mut cancel = bench.ask(Ask::Cancel(id("a")));
    // An order of the account's own took some of it along.
    bench.stream(&cancelled(number, 4));
    assert!(cancel.try_recv().is_err(), "6 lots are open");
    bench.stream(&cancelled(number, 6));
    let told = done(&mut cancel).expect("done");
    assert_eq!((&told["state"], &told["open"]), (&"cancelled".into(), &"0".into()));
}

#[test]
fn a_name_that_the_door_makes_is_no_name_of_another_order() {
    // Control: a name follows the number.
    let mut bench = up();
    let mut reply = bench.ask(nameless());
    let number = number_of(&bench.sent[0]);
    bench.stream(&accepted(number, 5, &format!("W{number:010x}")));
    assert_eq!(own_name(&done(&mut reply).expect("taken")), format!("W{number:010x}"));
    // Names that are taken: of an open order, of one without an answer, and of one that is over.
    let made = |chosen: &[String]| {
        let mut bench = up();
        for name in chosen {
            drop(bench.ask(buy(name, 5)));
        }
        let numbers: Vec<u32> = bench.sent.iter().map(|message| number_of(message)).collect();
        bench.stream(&accepted(numbers[0], 5, &chosen[0]));
        bench.stream(&accepted(numbers[2], 5, &chosen[2]));
        bench.stream(&cancelled(numbers[2], 5));
        let names: Vec<String> = (0..3)
            .map(|_| {
                let sent = bench.sent.len();
                drop(bench.ask(nameless()));
                let message = &bench.sent[sent];
                // Behind it is the length of the appendage.
                let name = &message[message.len() - 16..message.len() - 2];
                String::from_utf8_lossy(name).trim_end().to_string()
            })
            .collect();
        let open = |name: &str| {
            let due = name.to_string();
            let mut order = bench.ask(Ask::Order(id(name), None));
            assert_eq!(own_name(&done(&mut order).expect("known")), due);
        };
        names.iter().map(String::as_str).chain(chosen.iter().map(String::as_str)).for_each(open);
        names
    };
    let chosen: Vec<String> = (4..7).map(|number| format!("W{number:010x}")).collect();
    let names = made(&chosen);
    let mut all = [names.clone(), chosen.clone()].concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 6, "{names:?}");
    assert_eq!(names, made(&chosen), "the same of the same orders");
    // Whoever takes the next candidate, too, has no better luck.
    let further = [chosen[0].clone(), names[0].clone(), chosen[1].clone()];
    let names = made(&further);
    assert!(names.iter().all(|name| !further.contains(name)), "{names:?}");
}

#[test]
fn a_name_that_is_a_step_of_a_path_is_no_name_of_a_new_order() {
    let new = |name: &str| json!({ "symbol": "AAA", "side": "buy", "qty": "1", "price": "1", "client_order_id": name });
    let by = |name: &str| json!({ "qty": "1", "price": "1", "client_order_id": name });
    let over_socket = |mut of: Value, op: &str| {
        of["op"] = op.into();
        if op == "replace" {
            of["order"] = "a".into();
        }
        match socket_message(of.to_string().as_bytes(), &instruments()).op {
            Ok(SocketOp::Refused(_, refused)) => Some(refused),
            Ok(SocketOp::Ask(_)) => None,
            other => panic!("{other:?}"),
        }
    };
    for (name, good) in
        [(".", false), ("..", false), ("...", true), (".a", true), ("a.", true), ("-", true)]
    {
        let answers = [
            request::new_order(new(name).to_string().as_bytes(), &instruments()).err(),
            request::replace(by(name).to_string().as_bytes()).err(),
            over_socket(new(name), "new"),
            over_socket(by(name), "replace"),
        ];
        for answer in answers {
            assert_eq!(answer.is_none(), good, "{name}: {answer:?}");
            if let Some(refused) = answer {
                assert_eq!(refused.code, "bad_field");
                assert!(refused.message.starts_with("client_order_id: "), "{refused:?}");
            }
        }
    }
    // One that came by another door is cancelled all the same.
    let mut bench = up();
    bench.stream(&accepted(7, 5, ".."));
    drop(bench.ask(Ask::Cancel(id(".."))));
    assert_eq!(number_of(&bench.sent[0]), 7);
}

#[test]
fn a_replace_is_repeated_with_its_own_terms_only() {
    let mut bench = up();
    drop(bench.ask(buy("a", 10)));
    let first = number_of(&bench.sent[0]);
    bench.stream(&accepted(first, 10, "a"));
    bench.stream(&crate::account::executed(first, 2, 1_000_000, 1));
    drop(bench.ask(replace("a", "b", "0.9", "100")));
    let second = u32::from_be_bytes(bench.sent[1][5..9].try_into().expect("4 bytes"));
    // Before its answer and after it, with what has traded, and when it is over.
    let steps: [Option<Vec<u8>>; 4] = [
        None,
        Some(replaced(first, second, 7, "b")),
        Some(crate::account::executed(second, 3, 1_000_000, 2)),
        Some(cancelled(second, 4)),
    ];
    for step in steps {
        if let Some(message) = &step {
            bench.stream(message);
        }
        for (qty, price) in [("1", "100"), ("0.9", "101"), ("0.7", "100"), ("0.95", "100")] {
            let mut other = bench.ask(replace("a", "b", qty, price));
            let refused = done(&mut other).unwrap_err();
            assert_eq!(refused.code, "client_order_id_used", "{qty} {price} {step:?}");
        }
        let mut again = bench.ask(replace("a", "b", "0.90", "100.0"));
        match step {
            None => assert!(again.try_recv().is_err(), "it waits for the answer"),
            Some(_) => {
                let told = done(&mut again).expect("known");
                assert_eq!((&told["client_order_id"], &told["qty"]), (&"b".into(), &"0.9".into()));
            }
        }
    }
    assert_eq!(bench.sent.len(), 2, "nothing else was sent");
    // A rejected one keeps its terms.
    drop(bench.ask(buy("c", 10)));
    let third = number_of(&bench.sent[2]);
    bench.stream(&accepted(third, 10, "c"));
    drop(bench.ask(replace("c", "d", "0.9", "100")));
    let fourth = u32::from_be_bytes(bench.sent[3][5..9].try_into().expect("4 bytes"));
    let fields: [&[u8]; 3] = [&fourth.to_be_bytes(), &0x1Du16.to_be_bytes(), &id("d").0];
    bench.stream(&message(b'J', &fields, false));
    let mut again = bench.ask(replace("c", "d", "0.9", "100"));
    assert_eq!(done(&mut again).expect("known")["state"], "rejected");
    let mut other = bench.ask(replace("c", "d", "0.8", "100"));
    assert_eq!(done(&mut other).unwrap_err().code, "client_order_id_used");
}

#[test]
fn post_only_is_a_term_of_an_order() {
    let post = |name: &str, on: bool| with(buy(name, 5), move |new| new.post_only = on);
    // As the exchange says it: an appendage of one field.
    let taken = |number: u32, name: &str, on: bool| {
        let mut bytes = accepted(number, 5, name);
        if on {
            let length = bytes.len();
            bytes[length - 2..].copy_from_slice(&3u16.to_be_bytes());
            bytes.extend([2, 12, b'P']);
        }
        bytes
    };
    for on in [true, false] {
        let mut bench = up();
        let mut first = bench.ask(post("a", on));
        let mut other = bench.ask(post("a", !on));
        assert_eq!(done(&mut other).unwrap_err().code, "client_order_id_used", "{on}, under way");
        let mut again = bench.ask(post("a", on));
        let number = number_of(&bench.sent[0]);
        bench.stream(&taken(number, "a", on));
        assert_eq!(done(&mut first), done(&mut again), "{on}");
        let mut other = bench.ask(post("a", !on));
        assert_eq!(done(&mut other).unwrap_err().code, "client_order_id_used", "{on}, open");
        // A start of the door reads it out of the stream.
        let mut started = Bench::new();
        drop(started.ask(Ask::Positions));
        started.log_in(1, &[taken(number, "a", on)]);
        let mut again = started.ask(post("a", on));
        assert_eq!(done(&mut again).expect("known")["state"], "open", "{on}");
        let mut other = started.ask(post("a", !on));
        assert_eq!(done(&mut other).unwrap_err().code, "client_order_id_used", "{on}, started");
        assert!(started.sent.is_empty() && bench.sent.len() == 1);
        started.pass(SECOND);
        // Control: a price is one, too.
        let mut other = bench.ask(with(buy("a", 5), move |new| {
            (new.post_only, new.price) = (on, Some(Price(990_000)));
        }));
        assert_eq!(done(&mut other).unwrap_err().code, "client_order_id_used");
    }
}
