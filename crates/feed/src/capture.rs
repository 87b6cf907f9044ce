//! What a listener received, kept for readers that somebody else wrote.
//!
//! Packets as they came (also repeated and out of order ones), messages in sequence, and our own
//! best prices at some positions to compare theirs with. When one part is full it stops growing;
//! the others go on.

use types::{FeedSeq, InstrumentId, Nanos, Side};

use crate::{image::BookImage, ladder::Level, pcap};

/// Bounds of what is kept of a feed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CaptureConfig {
    /// Destination that the packets are recorded with: IPv4 address and port. A subscriber's further
    /// sessions have the addresses after it.
    pub to: ([u8; 4], u16),
    /// Most bytes of packets that nobody has taken, with the header that pcap puts before each.
    pub packet_bytes_max: usize,
    /// Most bytes of messages, with their length prefixes; `None`: no messages are kept.
    pub message_bytes_max: Option<usize>,
    /// Distance of the feed positions at which the best prices of every instrument are noted.
    pub quote_every: u64,
    /// Most quotes kept, of all instruments together.
    pub quotes_max: usize,
}

/// Best prices of an instrument after the message `seq`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quote {
    /// Feed position of the message after which the prices were noted.
    pub seq: FeedSeq,
    /// Instrument that the prices are of.
    pub instrument: InstrumentId,
    /// Best bid level; `None`: no displayed bid.
    pub bid: Option<Level>,
    /// Best ask level; `None`: no displayed ask.
    pub ask: Option<Level>,
}

/// The packets, messages and quotes that were kept.
#[derive(Clone, Debug)]
pub struct Capture {
    config: CaptureConfig,
    packets: Vec<u8>,
    messages: Vec<u8>,
    quotes: Vec<Quote>,
    messages_full: bool,
    left_out: u64,
}

impl Capture {
    /// An empty capture.
    pub fn new(config: CaptureConfig) -> Capture {
        let (mut packets, messages, quotes) = (Vec::new(), Vec::new(), Vec::new());
        pcap::put_header(&mut packets);
        Capture { config, packets, messages, quotes, messages_full: false, left_out: 0 }
    }

    /// Datagrams in order of arrival: a pcap file, with the times of this listener's clock.
    pub fn packets(&self) -> &[u8] {
        &self.packets
    }

    /// Takes the packets recorded since the last time: the next part of the pcap file.
    pub fn take_packets(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.packets)
    }

    /// Number of packets that were not recorded for want of room.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Messages in sequence from the listener's first one, each behind its length as two bytes,
    /// big-endian: the layout of Nasdaq's ITCH files.
    pub fn messages(&self) -> &[u8] {
        &self.messages
    }

    /// Best prices, only at positions whose messages are all in [`Capture::messages`], where these are kept.
    pub fn quotes(&self) -> &[Quote] {
        &self.quotes
    }

    pub(crate) fn packet(&mut self, now: Nanos, bytes: &[u8]) {
        let length = pcap::UDP_RECORD + bytes.len();
        if self.packets.len() + length <= self.config.packet_bytes_max {
            pcap::put_udp(&mut self.packets, now, self.config.to, bytes);
        } else {
            self.left_out += 1;
        }
    }

    pub(crate) fn message(&mut self, bytes: &[u8]) {
        // Once a message is left out the rest of the stream would be out of step.
        if let (Some(max), false) = (self.config.message_bytes_max, self.messages_full) {
            self.messages_full = !append(&mut self.messages, bytes, max);
        }
    }

    /// Ends the recording of messages, because some were left out.
    pub(crate) fn interrupt(&mut self) {
        self.messages_full = true;
    }

    pub(crate) fn quote(&mut self, seq: u64, instruments: &[InstrumentId], image: &BookImage) {
        let due = self.config.quote_every != 0 && seq.is_multiple_of(self.config.quote_every);
        if !due || self.messages_full {
            return;
        }
        for &instrument in instruments {
            if self.quotes.len() >= self.config.quotes_max {
                return;
            }
            let bid = image.best(instrument, Side::Buy);
            let ask = image.best(instrument, Side::Sell);
            self.quotes.push(Quote { seq: FeedSeq(seq), instrument, bid, ask });
        }
    }
}

/// Appends length and bytes; false when they do not fit.
fn append(buffer: &mut Vec<u8>, bytes: &[u8], max: usize) -> bool {
    let Ok(len) = u16::try_from(bytes.len()) else { return false };
    if buffer.len() + 2 + bytes.len() > max {
        return false;
    }
    buffer.extend_from_slice(&len.to_be_bytes());
    buffer.extend_from_slice(bytes);
    true
}
