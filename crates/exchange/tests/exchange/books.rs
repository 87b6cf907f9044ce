//! The audit says equal when all books are, and names the listener whose book is not.

use exchange::{Audit, audit};
use types::{FeedSeq, Side};

use crate::{
    bench::{Exchange, settings},
    common::config,
};

/// Trades and rests; the listener with index 1 may have been tampered with before.
fn play(exchange: &mut Exchange) {
    for n in 1..=8 {
        exchange.order(1, n, Side::Sell, 100 + i64::from(n), 5);
        exchange.order(2, n, Side::Buy, 100 + i64::from(n), 3);
    }
}

fn traded(listeners: usize) -> Exchange {
    let mut exchange = Exchange::new(&config(), listeners);
    exchange.login(1);
    exchange.login(2);
    exchange
}

fn judge(exchange: &Exchange) -> Audit {
    audit(&exchange.pair.root, exchange.world.ears.iter().map(|ear| ear.listener.channels()))
}

/// Not equal, and every complaint is about the second of the listeners.
fn blames_the_second(audit: &Audit) {
    assert!(!audit.books_equal, "{audit:?}");
    assert!(audit.unequal.iter().all(|unequal| unequal.listener == 1), "{audit:?}");
    assert!(audit.problems.iter().all(|problem| problem.contains("listener 2")), "{audit:?}");
    assert!(!audit.unequal.is_empty() || !audit.problems.is_empty(), "{audit:?}");
}

#[test]
fn equal_books_are_called_equal() {
    let mut exchange = traded(3);
    play(&mut exchange);
    let audit = judge(&exchange);
    assert!(audit.books_equal, "{audit:?}");
    assert!(audit.positions > 5, "{audit:?}");
    assert_eq!(audit.state_digest, exchange.pair.root.engine().state_digest());
    assert!(exchange.pair.root.engine().counters().accepted == 16);
}

#[test]
fn nothing_compared_is_not_equal() {
    let mut exchange = traded(0);
    play(&mut exchange);
    let audit = judge(&exchange);
    assert!(!audit.books_equal && audit.positions == 0);
    assert_eq!((audit.unequal.len(), audit.problems.len()), (0, 0));
}

/// A listener that keeps fewer books than there are has not shown that they are equal.
#[test]
fn a_listener_without_books_is_found() {
    let whole = settings(&config());
    let mut none = whole.clone();
    none.instruments.clear();
    let mut exchange = Exchange::with(&config(), [whole, none]);
    exchange.login(1);
    exchange.login(2);
    play(&mut exchange);
    blames_the_second(&judge(&exchange));
}

/// The last byte of an Add Order is its price, one in its middle its quantity.
#[test]
fn one_flipped_byte_of_a_book_is_found() {
    for at in [35, 23] {
        let mut exchange = traded(3);
        let first_order = FeedSeq(exchange.pair.root.engine().feed_next().0);
        exchange.world.ears[1].flip = Some((first_order, at));
        play(&mut exchange);
        let audit = judge(&exchange);
        blames_the_second(&audit);
        assert!(!audit.unequal.is_empty(), "byte {at}: {audit:?}");
    }
}

/// Byte 10 is of the time, which no book shows.
#[test]
fn one_flipped_byte_outside_the_books_is_found() {
    let mut exchange = traded(2);
    let first_order = FeedSeq(exchange.pair.root.engine().feed_next().0);
    exchange.world.ears[1].flip = Some((first_order, 10));
    play(&mut exchange);
    let audit = judge(&exchange);
    blames_the_second(&audit);
    assert!(audit.unequal.is_empty() && audit.problems.len() == 1, "{audit:?}");
}

#[test]
fn a_missing_last_message_is_found() {
    let mut exchange = traded(3);
    play(&mut exchange);
    exchange.world.ears[1].deaf = true;
    exchange.order(1, 100, Side::Sell, 200, 1);
    let audit = judge(&exchange);
    blames_the_second(&audit);
    let heard = audit.problems.iter().any(|problem| problem.contains("heard up to"));
    assert!(heard, "{audit:?}");
}

#[test]
fn a_listener_that_hears_too_much_is_found() {
    let mut exchange = traded(2);
    play(&mut exchange);
    let mut other = traded(1);
    play(&mut other);
    (200..240).for_each(|n| other.order(1, n, Side::Sell, 300, 1));
    exchange.world.ears[1] = other.world.ears.remove(0);
    blames_the_second(&judge(&exchange));
}
