//! The public's side of the feed: books rebuilt from nothing but ITCH bytes.
//!
//! - [`BookImage`] applies ITCH 5.0 messages in sequence and holds the displayed book of every
//!   instrument, order by order; what contradicts it is a typed error, never a panic.
//! - [`Listener`] is a MoldUDP64 client: it puts packets in sequence, repairs gaps from the
//!   retransmission server, feeds the image and notes digests at agreed feed positions.
//! - [`Subscriber`] is one such client per session, for a feed that is spread over several trees.
//! - [`StreamDigest`] and [`Checkpoints`] are used at the source as well, so that both ends compare
//!   like with like: the books by what they hold, the stream by every byte of it.

mod capture;
mod checkpoint;
mod image;
mod ladder;
mod listener;
mod orders;
mod reorder;
mod subscriber;

pub use capture::{Capture, CaptureConfig, Quote};
pub use checkpoint::{Agreement, Checkpoint, Checkpoints, StreamDigest};
pub use image::{BookImage, FeedError, ImageError, InstrumentStats};
pub use ladder::Level;
pub use listener::{Listener, ListenerConfig, ListenerCounters};
pub use subscriber::Subscriber;
