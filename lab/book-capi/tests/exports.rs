//! The exported functions, called as C calls them.
//!
//! The engine is one per process, so all of it is one test.

// Calls across the C boundary, with pointers to locals that outlive them.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr;

use book_capi::*;

fn new(order_id: u64, side: u8, quantity: u32, price_ticks: i64, ioc: u8) -> NewMessage {
    let sequence_number = 1_000 + order_id;
    NewMessage { order_id, sequence_number, price_ticks, quantity, side, ioc, reserved: [0; 2] }
}

fn cancel(order_id: u64) -> CancelMessage {
    CancelMessage { order_id, sequence_number: 2_000 + order_id }
}

fn modify(order_id: u64, new_quantity: u32, new_price_ticks: i64, side: u8) -> ModifyMessage {
    let sequence_number = 3_000 + order_id;
    let reserved = [0; 3];
    ModifyMessage { order_id, sequence_number, new_price_ticks, new_quantity, side, reserved }
}

/// The bytes of a message as an element of a batch.
fn tagged(kind: u8, words: [u64; 4]) -> Message {
    Message { kind, reserved: [0; 7], words }
}

fn submit(message: NewMessage) {
    unsafe { engine_on_new_order(&message) };
}

/// Kind, order, price, lots, maker, taker.
type Brief = (u8, u64, i64, u32, u64, u64);

fn brief(report: &Report) -> Brief {
    let Report { kind, order_id, price_ticks, quantity, .. } = *report;
    (kind, order_id, price_ticks, quantity, report.maker_order_id, report.taker_order_id)
}

struct Drain {
    transport: &'static Transport,
    queue: *mut c_void,
}

impl Drain {
    fn take(&self) -> Vec<Report> {
        let mut reports = vec![Report::default(); 100];
        engine_flush();
        let drain = self.transport.drain.expect("a drain");
        let count = unsafe { drain(self.queue, reports.as_mut_ptr(), 100) };
        reports.truncate(count as usize);
        reports
    }

    fn briefs(&self) -> Vec<Brief> {
        self.take().iter().map(brief).collect()
    }
}

#[test]
fn the_exported_functions_keep_the_contract() {
    without_an_engine_nothing_happens();
    let transport = unsafe { &*engine_get_transport() };
    let queue = unsafe { transport.create.expect("a create")(1_000) };
    unsafe { engine_init(7, transport, queue) };
    let drain = Drain { transport, queue };
    assert_eq!(drain.take(), [], "warming up tells nobody");
    orders_trade_and_rest(&drain);
    modifies_and_rejects(&drain);
    a_batch_does_the_same(&drain);
    unsafe { engine_on_new_order(ptr::null()) };
    unsafe { engine_on_batch(ptr::null(), 3) };
    assert_eq!(drain.take(), []);
    engine_shutdown();
    unsafe { transport.destroy.expect("a destroy")(queue) };
    without_an_engine_nothing_happens();
    reports_can_be_pushed_elsewhere();
    the_harness_can_be_asked_for_its_queue();
}

fn without_an_engine_nothing_happens() {
    submit(new(1, 0, 5, 100, 0));
    engine_flush();
    assert_eq!((engine_query_best_bid(), engine_query_best_ask()), (i64::MIN, i64::MAX));
    assert_eq!(engine_query_depth_at(100, 0), 0);
}

fn orders_trade_and_rest(drain: &Drain) {
    assert_eq!((engine_query_best_bid(), engine_query_best_ask()), (i64::MIN, i64::MAX));
    submit(new(0, 1, 10, 100, 0));
    submit(new(1, 1, 10, 101, 0));
    submit(new(2, 0, 25, 101, 1));
    submit(new(3, 0, 4, 90, 0));
    let briefs = [
        (ORDER_ACK, 0, 100, 10, 0, 0),
        (ORDER_ACK, 1, 101, 10, 0, 0),
        (ORDER_ACK, 2, 101, 25, 0, 0),
        (TRADE, 0, 100, 10, 0, 2),
        (TRADE, 1, 101, 10, 1, 2),
        (CANCEL_ACK, 2, 101, 5, 0, 0),
        (ORDER_ACK, 3, 90, 4, 0, 0),
    ];
    let reports = drain.take();
    assert_eq!(reports.iter().map(brief).collect::<Vec<_>>(), briefs);
    let sequences: Vec<u64> = reports.iter().map(|report| report.sequence_number).collect();
    assert_eq!(sequences, [1_000, 1_001, 1_002, 1_002, 1_002, 1_002, 1_003]);
    assert_eq!((reports[0].side, reports[2].side), (1, 0));
    assert_eq!((engine_query_best_bid(), engine_query_best_ask()), (90, i64::MAX));
    assert_eq!((engine_query_depth_at(90, 0), engine_query_depth_at(90, 1)), (4, 0));
    // Numbers that are no prices, the last one but for its low half: none of them is 90.
    for no_price in [i64::MIN, -90, 0, 89, 91, i64::MAX, (1 << 32) + 90] {
        assert_eq!(engine_query_depth_at(no_price, 0), 0, "depth at {no_price}");
    }
}

fn modifies_and_rejects(drain: &Drain) {
    submit(new(4, 0, 6, 90, 0));
    unsafe { engine_on_modify(&modify(3, 9, 90, 0)) };
    submit(new(5, 1, 6, 90, 1));
    unsafe { engine_on_modify(&modify(4, 1, 95, 0)) };
    unsafe { engine_on_cancel(&cancel(3)) };
    unsafe { engine_on_cancel(&cancel(3)) };
    let briefs = [
        (ORDER_ACK, 4, 90, 6, 0, 0),
        (MODIFY_ACK, 3, 90, 9, 0, 0),
        (ORDER_ACK, 5, 90, 6, 0, 0),
        (TRADE, 4, 90, 6, 4, 5),
        (MODIFY_REJECT, 4, 0, 0, 0, 0),
        (CANCEL_ACK, 3, 90, 9, 0, 0),
        (CANCEL_REJECT, 3, 0, 0, 0, 0),
    ];
    assert_eq!(drain.briefs(), briefs, "3 lost its place, 4 was first and is gone");
}

fn a_batch_does_the_same(drain: &Drain) {
    let sell = 1 << 32;
    let batch = [
        tagged(0, [6, 1, 100, 8 | sell]),
        tagged(2, [6, 2, 99, 9 | sell]),
        tagged(0, [7, 3, 99, 4]),
        tagged(1, [6, 4, u64::MAX, u64::MAX]),
        tagged(9, [6, 5, 0, 0]),
    ];
    unsafe { engine_on_batch(batch.as_ptr(), batch.len() as u32) };
    let briefs = [
        (ORDER_ACK, 6, 100, 8, 0, 0),
        (MODIFY_ACK, 6, 99, 9, 0, 0),
        (ORDER_ACK, 7, 99, 4, 0, 0),
        (TRADE, 6, 99, 4, 6, 7),
        (CANCEL_ACK, 6, 99, 5, 0, 0),
    ];
    assert_eq!(drain.briefs(), briefs);
}

unsafe extern "C" fn collect(handle: *mut c_void, report: *const Report) -> i32 {
    let reports = unsafe { &mut *handle.cast::<Vec<Report>>() };
    reports.push(unsafe { *report });
    1
}

fn reports_can_be_pushed_elsewhere() {
    let theirs =
        Transport { create: None, push: Some(collect), drain: None, flush: None, destroy: None };
    let mut reports: Vec<Report> = Vec::new();
    unsafe { engine_init(7, &theirs, ptr::from_mut(&mut reports).cast()) };
    submit(new(1, 1, 3, 50, 0));
    submit(new(2, 0, 3, 50, 0));
    engine_shutdown();
    let briefs: Vec<Brief> = reports.iter().map(brief).collect();
    let expected =
        [(ORDER_ACK, 1, 50, 3, 0, 0), (ORDER_ACK, 2, 50, 3, 0, 0), (TRADE, 1, 50, 3, 1, 2)];
    assert_eq!(briefs, expected);
}

fn the_harness_can_be_asked_for_its_queue() {
    // The only thread that reads or writes the environment: there is one test here.
    unsafe { std::env::set_var("FAIRBELL_REFEREE_QUEUE", "harness") };
    assert!(engine_get_transport().is_null());
    unsafe { engine_init(7, ptr::null(), ptr::null_mut()) };
    submit(new(1, 0, 3, 50, 0));
    assert_eq!(engine_query_best_bid(), 50, "without any queue reports go nowhere");
    engine_shutdown();
    unsafe { std::env::remove_var("FAIRBELL_REFEREE_QUEUE") };
    assert!(!engine_get_transport().is_null());
}
