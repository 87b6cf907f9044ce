//! The books of one instant as a series of ITCH messages, written and read.
//!
//! Order: the last system event, then per instrument its directory entry, trading action and
//! collar, then per instrument its displayed orders as Add Order, bids before asks, best price
//! first and first in time first; last the end with the number to follow the feed from. Messages
//! other than orders are as they were heard. The image keeps no times of orders: their time is that
//! of the last message contained. Trades so far are not part of a snapshot, nor is an imbalance.

use types::{FeedSeq, InstrumentId, OrderRef, Price, Qty, Side};
use wire::{
    glimpse::{self, EndOfSnapshot},
    itch::{AddOrder, Header, Message, Time},
};

use crate::image::{BookImage, FeedError};

/// Why a message is refused as part of a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SnapshotError {
    /// The bytes are not an ITCH message, or contradict the messages before.
    Feed(FeedError),
    /// Messages of this type have no place in a snapshot.
    Type(u8),
    /// The message that ends the snapshot is malformed.
    End(glimpse::EndError),
    /// There are more messages than the bounded books can need.
    TooLong,
}

impl std::fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SnapshotError::Feed(error) => error.fmt(f),
            SnapshotError::Type(kind) => {
                write!(f, "'{}' in a snapshot", kind.escape_ascii())
            }
            SnapshotError::End(error) => error.fmt(f),
            SnapshotError::TooLong => f.write_str("a snapshot without an end"),
        }
    }
}

impl std::error::Error for SnapshotError {}

/// A copy of the books at one instant, to be sent in parts.
#[derive(Clone, Debug, Default)]
pub struct Frozen {
    /// The messages, each after its length as two bytes, big-endian.
    bytes: Vec<u8>,
    seq: u64,
}

impl Frozen {
    /// Writes down the books as they are, in the memory of what was written down before; `next` is
    /// the feed message that comes next.
    pub fn take(&mut self, image: &BookImage, next: FeedSeq) {
        self.bytes.clear();
        self.seq = next.0;
        if let Some(event) = image.system_event() {
            self.push(Message::SystemEvent(&event).as_bytes());
        }
        for (id, _) in image.instruments() {
            if let Some(entry) = image.directory_entry(id) {
                self.push(Message::StockDirectory(&entry).as_bytes());
            }
            if let Some(action) = image.trading_action(id) {
                self.push(Message::StockTradingAction(&action).as_bytes());
            }
            if let Some(collar) = image.collar(id) {
                self.push(Message::LuldAuctionCollar(&collar).as_bytes());
            }
        }
        let time = image.time().or_else(|| Time::new(0));
        for (id, symbol) in image.instruments() {
            let (Some(time), stock) = (time, symbol.0) else { break };
            let kind = AddOrder::KIND;
            let header = Header { kind, locate: id.0.into(), tracking: 0.into(), time };
            for side in [Side::Buy, Side::Sell] {
                for order in image.orders(id, side) {
                    self.push(Message::AddOrder(&add(header, stock, side, order)).as_bytes());
                }
            }
        }
        self.push(&EndOfSnapshot { seq: next.0 }.bytes());
    }

    /// Number of the first feed message that the copy does not contain.
    pub fn seq(&self) -> FeedSeq {
        FeedSeq(self.seq)
    }

    /// Length of the copy, bytes, with two for each message's length.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether no copy was taken yet.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The message at this place, and the place of the next; places begin at 0.
    pub fn message(&self, place: usize) -> Option<(&[u8], usize)> {
        let (&len, rest) = self.bytes.get(place..)?.split_first_chunk::<2>()?;
        let len = usize::from(u16::from_be_bytes(len));
        Some((rest.get(..len)?, place + 2 + len))
    }

    /// All messages of the copy, in order.
    pub fn messages(&self) -> impl Iterator<Item = &[u8]> {
        let mut place = 0;
        std::iter::from_fn(move || {
            let (message, next) = self.message(place)?;
            place = next;
            Some(message)
        })
    }

    fn push(&mut self, message: &[u8]) {
        // No message is longer than 50 bytes.
        self.bytes.extend_from_slice(&(message.len() as u16).to_be_bytes());
        self.bytes.extend_from_slice(message);
    }
}

fn add(
    header: Header,
    stock: [u8; 8],
    side: Side,
    (order_ref, price, qty): (OrderRef, Price, Qty),
) -> AddOrder {
    AddOrder {
        header,
        order_ref: order_ref.0.into(),
        side: side.into(),
        // The image has them from fields of 32 bits.
        shares: (qty.0 as u32).into(),
        stock,
        price: (price.0 as u32).into(),
    }
}

/// Books that are being rebuilt from the messages of a snapshot, in bounded memory.
#[derive(Debug)]
pub struct Loading {
    image: BookImage,
    /// Number of messages that may still come.
    left: u64,
}

impl Loading {
    /// Empty books with room for `orders_max` orders.
    pub fn new(orders_max: usize) -> Loading {
        let others = 4 * types::limits::INSTRUMENTS_MAX + 1;
        Loading { image: BookImage::new(orders_max), left: (orders_max + others) as u64 }
    }

    /// Takes the next message; the number to follow the feed from when it was the last.
    ///
    /// # Errors
    /// The message has no place in a snapshot; nothing that follows makes sense either.
    pub fn take(&mut self, message: &[u8]) -> Result<Option<FeedSeq>, SnapshotError> {
        match message.first() {
            Some(&glimpse::KIND) => {
                let end = EndOfSnapshot::parse(message).map_err(SnapshotError::End)?;
                return Ok(Some(FeedSeq(end.seq)));
            }
            Some(b'S' | b'R' | b'H' | b'J' | b'A' | b'F') | None => {}
            Some(&other) => return Err(SnapshotError::Type(other)),
        }
        self.left = self.left.checked_sub(1).ok_or(SnapshotError::TooLong)?;
        self.image.apply(message).map(|_| None).map_err(SnapshotError::Feed)
    }

    /// The books as rebuilt so far.
    pub fn image(&self) -> &BookImage {
        &self.image
    }

    /// Digest of the displayed book of an instrument so far.
    pub fn digest(&self, instrument: InstrumentId) -> u64 {
        self.image.digest(instrument)
    }
}
