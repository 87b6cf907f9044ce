//! The book behind a small C interface: new, modify, cancel and immediate-or-cancel messages in,
//! a stream of reports out, queries of the book, and a flush.
//!
//! The interface is that of the public benchmark flash1-dev/matching-engine-benchmark; the
//! functions here were written from its header. `scripts/referee.py` runs it.
//!
//! Which thread may call: `engine_*` one thread at a time, and `engine_init` before all others;
//! `create`, `flush` and `destroy` of the transport that same thread, `drain` one other. Calls
//! before `engine_init` or after `engine_shutdown` do nothing. A null message is ignored; other
//! pointers must point to what the interface says.
//!
//! Each message is matched to its end before the next one is looked at; reports reach the consumer
//! in groups, and all of them by the end of a batch and of `engine_flush`.

// The C boundary: each block says why it is sound.
#![allow(unsafe_code)]

mod abi;
mod referee;
mod ring;

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use types::Side;

pub use abi::{
    CANCEL_ACK, CANCEL_REJECT, CancelMessage, MODIFY_ACK, MODIFY_REJECT, Message, ModifyMessage,
    NewMessage, ORDER_ACK, Report, TRADE, Transport,
};
use referee::{Outlet, Push, Pusher, Referee};
use ring::{Producer, Ring};

/// The engine that `engine_init` makes, kept until `engine_shutdown`.
struct Engine {
    referee: Referee,
    out: Out,
}

/// Somebody else's queue.
struct Foreign {
    push: Option<unsafe extern "C" fn(handle: *mut c_void, report: *const Report) -> i32>,
    handle: *mut c_void,
}

impl Push for Foreign {
    #[inline(always)]
    fn push(&mut self, report: &Report) {
        let Some(push) = self.push else { return };
        // SAFETY: who called engine_init said that the handle is of this push and lives until
        // engine_shutdown; the report outlives the call.
        while unsafe { push(self.handle, report) } == 0 {
            std::hint::spin_loop();
        }
    }
}

/// Where reports go: our own ring, or somebody else's queue.
enum Out {
    Ring(Producer),
    Pushed(Pusher<Foreign>),
}

/// Calls the engine with its way out, which is known of what kind it is before the call.
macro_rules! with_engine {
    ($engine:ident, $referee:ident, $out:ident => $call:expr) => {{
        let Engine { referee: $referee, out } = $engine;
        match out {
            Out::Ring($out) => $call,
            Out::Pushed($out) => $call,
        }
    }};
}

static ENGINE: AtomicPtr<Engine> = AtomicPtr::new(ptr::null_mut());

static OWN_TRANSPORT: Transport = Transport {
    create: Some(ring_create),
    push: None,
    drain: Some(ring_drain),
    flush: Some(ring_flush),
    destroy: Some(ring_destroy),
};

/// The engine, between `engine_init` and `engine_shutdown`.
#[inline(always)]
fn engine() -> Option<&'static mut Engine> {
    let engine = ENGINE.load(Ordering::Relaxed);
    // SAFETY: the pointer is null or came from Box::into_raw in engine_init and is taken back only
    // by engine_shutdown, which nulls it first. The interface's contract is one caller at a time,
    // and every caller below drops the reference before it returns.
    unsafe { engine.as_mut() }
}

/// Makes an empty book whose reports go to `report_sink` through `transport`; an engine made before
/// is ended. Nothing here is drawn from `seed`.
///
/// # Safety
/// `transport` is null or points to a transport, and `report_sink` is a handle its `create` made;
/// both live until `engine_shutdown`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn engine_init(
    _seed: u64,
    transport: *const Transport,
    report_sink: *mut c_void,
) {
    engine_shutdown();
    let out = if ptr::eq(transport, &OWN_TRANSPORT) && !report_sink.is_null() {
        let ring = report_sink.cast_const().cast::<Ring>();
        // SAFETY: the caller says that our ring_create made the handle, which is Arc::into_raw of
        // a ring not yet destroyed; the count added here is the producer's own.
        let ring = unsafe {
            Arc::increment_strong_count(ring);
            Arc::from_raw(ring)
        };
        Out::Ring(Producer::new(ring))
    } else {
        // SAFETY: the caller says that the pointer is null or points to a transport.
        let push = unsafe { transport.as_ref() }.and_then(|transport| transport.push);
        Out::Pushed(Pusher::new(Foreign { push, handle: report_sink }))
    };
    let engine = Box::new(Engine { referee: Referee::new(), out });
    ENGINE.store(Box::into_raw(engine), Ordering::Relaxed);
}

/// Frees the engine that `engine_init` has made.
#[unsafe(no_mangle)]
pub extern "C" fn engine_shutdown() {
    let engine = ENGINE.swap(ptr::null_mut(), Ordering::Relaxed);
    if !engine.is_null() {
        // SAFETY: it came from Box::into_raw in engine_init, and the swap made this the only call
        // that sees it.
        drop(unsafe { Box::from_raw(engine) });
    }
}

/// Matches a new order: an ack, a trade per fill, and a cancel ack for what is left of an
/// immediate-or-cancel one.
///
/// # Safety
/// `order` is null or points to a message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn engine_on_new_order(order: *const NewMessage) {
    // SAFETY: the caller says that it is null or points to a message.
    if let (Some(engine), Some(order)) = (engine(), unsafe { order.as_ref() }) {
        with_engine!(engine, referee, out => referee.new_order(order, out));
    }
}

/// Cancels an order: a cancel ack, or a cancel reject when it does not rest.
///
/// # Safety
/// `cancel` is null or points to a message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn engine_on_cancel(cancel: *const CancelMessage) {
    // SAFETY: the caller says that it is null or points to a message.
    if let (Some(engine), Some(cancel)) = (engine(), unsafe { cancel.as_ref() }) {
        with_engine!(engine, referee, out => referee.cancel(cancel, out));
    }
}

/// Takes an order out and puts it in again at its new price and quantity: a modify ack and a trade
/// per fill, or a modify reject when it does not rest.
///
/// # Safety
/// `modify` is null or points to a message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn engine_on_modify(modify: *const ModifyMessage) {
    // SAFETY: the caller says that it is null or points to a message.
    if let (Some(engine), Some(modify)) = (engine(), unsafe { modify.as_ref() }) {
        with_engine!(engine, referee, out => referee.modify(modify, out));
    }
}

/// Handles `count` messages one after the other.
///
/// # Safety
/// `messages` is null or points to `count` messages; all 40 bytes of each are readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn engine_on_batch(messages: *const Message, count: u32) {
    if messages.is_null() {
        return;
    }
    // SAFETY: the caller says that so many messages are there; every bit pattern is one.
    let messages = unsafe { std::slice::from_raw_parts(messages, count as usize) };
    if let Some(engine) = engine() {
        with_engine!(engine, referee, out => referee.batch(messages, out));
    }
}

/// Returns when every report is where the consumer can take it.
#[unsafe(no_mangle)]
pub extern "C" fn engine_flush() {
    if let Some(engine) = engine() {
        with_engine!(engine, _referee, out => out.flush());
    }
}

/// Highest bid in ticks; the least number when there is none.
#[unsafe(no_mangle)]
pub extern "C" fn engine_query_best_bid() -> i64 {
    engine().and_then(|engine| engine.referee.best(Side::Buy)).unwrap_or(i64::MIN)
}

/// Lowest ask in ticks; the greatest number when there is none.
#[unsafe(no_mangle)]
pub extern "C" fn engine_query_best_ask() -> i64 {
    engine().and_then(|engine| engine.referee.best(Side::Sell)).unwrap_or(i64::MAX)
}

/// Lots open at a price; side 0 buy, 1 sell.
#[unsafe(no_mangle)]
pub extern "C" fn engine_query_depth_at(price_ticks: i64, side: u8) -> u64 {
    let side = if side == 0 { Side::Buy } else { Side::Sell };
    engine().map_or(0, |engine| engine.referee.depth_at(side, price_ticks))
}

/// Our own queue of reports; null, which asks the harness for its own, when the environment says
/// `FAIRBELL_REFEREE_QUEUE=harness`, so that engines can be compared over one queue.
#[unsafe(no_mangle)]
pub extern "C" fn engine_get_transport() -> *const Transport {
    let wanted = std::env::var_os("FAIRBELL_REFEREE_QUEUE");
    if wanted.is_some_and(|queue| queue == "harness") { ptr::null() } else { &OWN_TRANSPORT }
}

unsafe extern "C" fn ring_create(capacity: u32) -> *mut c_void {
    Arc::into_raw(Arc::new(Ring::new(capacity))).cast_mut().cast()
}

unsafe extern "C" fn ring_drain(handle: *mut c_void, out: *mut Report, max: u32) -> u32 {
    // SAFETY: the caller says that ring_create made the handle and that it is not destroyed.
    let Some(ring) = (unsafe { handle.cast_const().cast::<Ring>().as_ref() }) else { return 0 };
    // SAFETY: the ring tells places below `max`, and the caller says that `out` has room for so
    // many; a report is plain old data, so writing over what was there drops nothing.
    let drained = ring.drain(max as usize, |place, report| unsafe { out.add(place).write(report) });
    drained as u32
}

/// The producer shows what it wrote in `engine_flush`; the handle alone holds nothing back.
unsafe extern "C" fn ring_flush(_handle: *mut c_void) {}

unsafe extern "C" fn ring_destroy(handle: *mut c_void) {
    if !handle.is_null() {
        // SAFETY: the caller says that ring_create made the handle and that nobody uses it again;
        // the count given back is that of Arc::into_raw there.
        drop(unsafe { Arc::from_raw(handle.cast_const().cast::<Ring>()) });
    }
}
