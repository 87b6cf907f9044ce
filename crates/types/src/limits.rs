//! Every bound of the system, and the relations between them checked at compile time.

/// Largest price an order may carry: ITCH 5.0 prices are 32 bits of 1/10000.
pub const PRICE_MAX: i64 = u32::MAX as i64;
/// Largest quantity an order may carry: OUCH 5.0 and ITCH 5.0 quantities are 32 bits.
pub const QTY_MAX: u64 = u32::MAX as u64;
/// OUCH price that stands for "market order" (the largest value of the eight-byte field).
pub const PRICE_MARKET: u64 = 0x7FFF_FFFF_FFFF_FFFF;

/// Most instruments of one exchange.
pub const INSTRUMENTS_MAX: usize = 4_096;
/// Most accounts of one exchange.
pub const ACCOUNTS_MAX: usize = 4_096;
/// Most gateways of one exchange.
pub const GATEWAYS_MAX: usize = 8_192;
/// Most shards of one exchange.
pub const SHARDS_MAX: usize = 16;

/// Largest datagram we accept: fits a 1500-byte Ethernet frame with IPv4 and UDP.
pub const DATAGRAM_MAX: usize = 1_472;
/// Largest datagram we build: fits such a frame with IPv6 and UDP, too, and never goes in fragments.
pub const DATAGRAM_BUILT_MAX: usize = 1_452;
/// Largest MoldUDP64 packet we accept and answer with.
pub const MOLD_PACKET_MAX: usize = 1_392;
/// Largest MoldUDP64 packet a publisher builds; the rest of a datagram is the overlay's header.
pub const MOLD_PACKET_BUILT_MAX: usize = 1_372;

/// Orders a gateway may have sent upward without an acknowledgement from the engine.
pub const UPLINK_WINDOW: usize = 4_096;
/// Sequence numbers a duplicate window spans (see [`crate::SeqWindow`]).
pub const SEQ_WINDOW: usize = 8_192;
/// Messages the sequencer's resequencing window and parking lot may hold, all gateways together.
pub const SEQUENCER_MAX: usize = 65_536;

/// Slots of a duplicate filter (J4, appendix A): ids older than this are out of reach.
pub const DUPLICATE_FILTER_SLOTS: usize = 65_536;
/// Datagrams a receiver keeps while it waits for a deadline or for a gap to close.
pub const HOLD_MAX: usize = 16_384;

const _: () = assert!(SEQ_WINDOW >= 2 * UPLINK_WINDOW, "a re-sent order must still be in reach");
const _: () = assert!(SEQ_WINDOW.is_multiple_of(64) && SEQ_WINDOW.is_power_of_two());
const _: () = assert!(DUPLICATE_FILTER_SLOTS.is_power_of_two());
const _: () = assert!(DUPLICATE_FILTER_SLOTS > HOLD_MAX);
const _: () = assert!(MOLD_PACKET_MAX + 80 <= DATAGRAM_MAX, "room for the overlay's header");
const _: () = assert!(MOLD_PACKET_BUILT_MAX + 80 <= DATAGRAM_BUILT_MAX, "the same");
const _: () = assert!(DATAGRAM_BUILT_MAX + 40 + 8 <= 1_500, "headers of IPv6 and UDP, a frame");
