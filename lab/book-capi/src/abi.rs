//! The C structures of the interface, and how the messages read.
//!
//! Sizes and offsets are those of the interface's header and checked at compile time. All fields
//! are integers for which every bit pattern is a value, so bytes from C need no checks before they
//! are read; what they mean is checked by the book.

use std::ffi::c_void;

use types::{NewOrder, Price, Side, TimeInForce};

/// The message that enters a new order.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NewMessage {
    /// Number of the order, chosen by the sender.
    pub order_id: u64,
    /// Sequence number of the message, which its reports repeat.
    pub sequence_number: u64,
    /// Limit price of the order, ticks.
    pub price_ticks: i64,
    /// Quantity, lots.
    pub quantity: u32,
    /// Side of the order: 0 buy, 1 sell.
    pub side: u8,
    /// 1: what does not trade at once is cancelled.
    pub ioc: u8,
    /// Padding without a meaning.
    pub reserved: [u8; 2],
}

/// The message that cancels an order.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CancelMessage {
    /// Number of the order, chosen by the sender.
    pub order_id: u64,
    /// Sequence number of the message, which its reports repeat.
    pub sequence_number: u64,
}

/// A modify: the order leaves its queue and comes in again.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ModifyMessage {
    /// Number of the order, chosen by the sender.
    pub order_id: u64,
    /// Sequence number of the message, which its reports repeat.
    pub sequence_number: u64,
    /// Its limit price from now on, in ticks.
    pub new_price_ticks: i64,
    /// Its open lots from now on.
    pub new_quantity: u32,
    /// 0 buy, 1 sell: the order's side.
    pub side: u8,
    /// Padding without a meaning.
    pub reserved: [u8; 3],
}

/// One of the three, as an element of a batch.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Message {
    /// 0 new, 1 cancel, 2 modify.
    pub kind: u8,
    /// Padding without a meaning.
    pub reserved: [u8; 7],
    /// The words of the message; of a cancel only the first two count.
    pub words: [u64; 4],
}

/// [`Report::kind`]: an order was taken.
pub const ORDER_ACK: u8 = 0;
/// [`Report::kind`]: an incoming order traded with a resting one.
pub const TRADE: u8 = 1;
/// [`Report::kind`]: what was open of an order is cancelled.
pub const CANCEL_ACK: u8 = 2;
/// [`Report::kind`]: an order was modified.
pub const MODIFY_ACK: u8 = 3;
/// [`Report::kind`]: the order to cancel does not rest.
pub const CANCEL_REJECT: u8 = 4;
/// [`Report::kind`]: the order to modify does not rest.
pub const MODIFY_REJECT: u8 = 5;

/// One report, a cache line.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Report {
    /// One of the six kinds.
    pub kind: u8,
    /// Side of the order, where it is known.
    pub side: u8,
    /// Padding without a meaning.
    pub reserved: [u8; 6],
    /// Number of the message that led to it.
    pub sequence_number: u64,
    /// The order; of a trade the resting one.
    pub order_id: u64,
    /// Price in ticks; of a trade the resting order's.
    pub price_ticks: i64,
    /// Quantity, lots.
    pub quantity: u32,
    /// Padding without a meaning.
    pub reserved2: u32,
    /// For trades, number of the resting order; otherwise 0.
    pub maker_order_id: u64,
    /// For trades, number of the incoming order; otherwise 0.
    pub taker_order_id: u64,
    /// Padding without a meaning.
    pub reserved3: u64,
}

impl Report {
    /// The report whose bytes are these words. It is stored 16 bytes at a time: a queue copies it at once,
    /// and would wait for what was stored in smaller parts.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(crate) fn of_words(words: [u64; 8]) -> Report {
        use std::arch::x86_64::{__m128i, _mm_set_epi64x, _mm_storeu_si128};
        let mut report = std::mem::MaybeUninit::<Report>::uninit();
        let to = report.as_mut_ptr().cast::<__m128i>();
        for (at, [low, high]) in words.as_chunks::<2>().0.iter().enumerate() {
            // SAFETY: a report is 64 bytes, four of these; every x86-64 processor has SSE2.
            unsafe { _mm_storeu_si128(to.add(at), _mm_set_epi64x(*high as i64, *low as i64)) };
        }
        // SAFETY: all 64 bytes were written, and every bit pattern is a report.
        unsafe { report.assume_init() }
    }

    /// The report whose bytes are these words.
    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn of_words(words: [u64; 8]) -> Report {
        let [first, sequence_number, order_id, price, quantity, maker_order_id, taker_order_id, _] =
            words;
        let (kind, side) = (first as u8, (first >> 8) as u8);
        let (price_ticks, quantity) = (price as i64, quantity as u32);
        let (reserved, reserved2, reserved3) = ([0; 6], 0, 0);
        Report {
            kind,
            side,
            reserved,
            sequence_number,
            order_id,
            price_ticks,
            quantity,
            reserved2,
            maker_order_id,
            taker_order_id,
            reserved3,
        }
    }
}

/// A queue of reports between two threads: one pushes, one drains.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Transport {
    /// Makes a queue with room for this many reports; null when it cannot.
    pub create: Option<unsafe extern "C" fn(capacity: u32) -> *mut c_void>,
    /// Puts in one report; 0 when there is no room.
    pub push: Option<unsafe extern "C" fn(handle: *mut c_void, report: *const Report) -> i32>,
    /// Takes out up to `max` reports and says how many.
    pub drain: Option<unsafe extern "C" fn(handle: *mut c_void, out: *mut Report, max: u32) -> u32>,
    /// Shows the consumer everything that was put in.
    pub flush: Option<unsafe extern "C" fn(handle: *mut c_void)>,
    /// Frees a queue that `create` has made.
    pub destroy: Option<unsafe extern "C" fn(handle: *mut c_void)>,
}

const _: () = {
    assert!(size_of::<NewMessage>() == 32 && size_of::<CancelMessage>() == 16);
    assert!(size_of::<ModifyMessage>() == 32 && size_of::<Message>() == 40);
    assert!(size_of::<Report>() == 64 && size_of::<Transport>() == 5 * size_of::<usize>());
    assert!(std::mem::offset_of!(Message, words) == 8);
    assert!(std::mem::offset_of!(NewMessage, side) == 28);
    assert!(std::mem::offset_of!(Report, quantity) == 32);
    assert!(std::mem::offset_of!(Report, maker_order_id) == 40);
};

/// The book's key of an order: numbers begin at 0, keys at 1. The very last number has no key and
/// is refused by the book.
#[inline(always)]
pub(crate) fn key(order_id: u64) -> u64 {
    order_id.wrapping_add(1)
}

/// The order number of a key.
#[inline(always)]
pub(crate) fn order_id(key: u64) -> u64 {
    key.wrapping_sub(1)
}

#[inline(always)]
fn side(code: u8) -> Side {
    if code == 0 { Side::Buy } else { Side::Sell }
}

impl NewMessage {
    /// As the book is asked.
    #[inline(always)]
    pub(crate) fn order(&self) -> NewOrder {
        let mut order = NewOrder::limit(
            key(self.order_id),
            side(self.side),
            Price(self.price_ticks),
            self.quantity,
        );
        if self.ioc != 0 {
            order.time_in_force = TimeInForce::ImmediateOrCancel;
        }
        order
    }
}

impl ModifyMessage {
    /// As the book is asked.
    #[inline(always)]
    pub(crate) fn order(&self) -> NewOrder {
        let price = Price(self.new_price_ticks);
        NewOrder::limit(key(self.order_id), side(self.side), price, self.new_quantity)
    }
}

impl Message {
    /// The words read as a new order.
    #[inline(always)]
    pub(crate) fn new_message(&self) -> NewMessage {
        let [order_id, sequence_number, price, rest] = self.words;
        let [q0, q1, q2, q3, side, ioc, r0, r1] = rest.to_le_bytes();
        NewMessage {
            order_id,
            sequence_number,
            price_ticks: price as i64,
            quantity: u32::from_le_bytes([q0, q1, q2, q3]),
            side,
            ioc,
            reserved: [r0, r1],
        }
    }

    /// The words read as a cancel.
    #[inline(always)]
    pub(crate) fn cancel_message(&self) -> CancelMessage {
        CancelMessage { order_id: self.words[0], sequence_number: self.words[1] }
    }

    /// The words read as a modify.
    #[inline(always)]
    pub(crate) fn modify_message(&self) -> ModifyMessage {
        let new = self.new_message();
        ModifyMessage {
            order_id: new.order_id,
            sequence_number: new.sequence_number,
            new_price_ticks: new.price_ticks,
            new_quantity: new.quantity,
            side: new.side,
            reserved: [new.ioc, new.reserved[0], new.reserved[1]],
        }
    }
}
