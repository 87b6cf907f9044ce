//! The public's side of the feed: books rebuilt from nothing but ITCH bytes.
//!
//! - [`BookImage`] applies ITCH 5.0 messages in sequence and holds the displayed book of every
//!   instrument, order by order; what contradicts it is a typed error, never a panic.
//! - [`Listener`] is a MoldUDP64 client: it puts packets in sequence, repairs gaps from the
//!   retransmission server, feeds the image and notes digests at agreed feed positions.
//! - [`Subscriber`] is one such client per session, for a feed that is spread over several trees;
//!   [`StreamBooks`] are the books of one whose messages come in sequence already.
//! - [`SnapshotServer`] serves the books of one instant over SoupBinTCP to whoever is too far
//!   behind; a [`Listener`] fetches them when [`CatchUpRule`] says that this beats repair.
//! - [`Arbiter`] makes one line of its A and B copies, for feeds that are sent twice; [`TopOfBook`]
//!   keeps best prices from OPRA's quotes; [`Pcap`] reads captures of any of them.
//! - [`plant`] is the ticker plant: lines in, normalized updates of wanted symbols out; of a venue of
//!   our own by [`plant::VenueFeed`].
//! - [`lab`] plays a line over two lossy ways from a seed.
//! - [`StreamDigest`] and [`Checkpoints`] are used at the source as well, so that both ends compare
//!   like with like: the books by what they hold, the stream by every byte of it.

mod arbiter;
mod capture;
mod catch_up;
mod checkpoint;
mod dbn_frames;
mod image;
pub mod lab;
mod ladder;
mod listener;
mod orders;
pub mod pcap;
pub mod plant;
mod reorder;
mod sides;
mod snapshot;
mod snapshot_server;
mod stream_books;
mod subscriber;
mod ticker;
mod top_of_book;

pub use arbiter::{
    Arbiter, ArbiterConfig, Delivery, LineSink, LineStats, Notice, SIDES, SideStats,
};
pub use capture::{Capture, CaptureConfig, Quote};
pub use catch_up::{Behind, CatchUpConfig, CatchUpCounters, CatchUpRule, ORDER_BYTES};
pub use checkpoint::{Agreement, Checkpoint, Checkpoints, StreamDigest};
pub use dbn_frames::{DbnCut, DbnFrames};
pub use image::{BookImage, FeedError, ImageError, InstrumentStats};
pub use ladder::Level;
pub use listener::{Joined, Listener, ListenerConfig, ListenerCounters};
pub use pcap::Pcap;
pub use snapshot::{Frozen, Loading, SnapshotError};
pub use snapshot_server::{SnapshotServer, SnapshotServerConfig, SnapshotServerCounters};
pub use stream_books::StreamBooks;
pub use subscriber::Subscriber;
pub use top_of_book::{Top, TopOfBook};
