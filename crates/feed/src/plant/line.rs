//! One line of the plant: packets of both sides in, updates out.

use fast::ErrorCounts;
use fast::opra::{Event, V2, binary, to_event};
use fast::slots::{Message, SlotDecoder, SlotSink, packet_header};
use types::Nanos;

use super::update::{Kind, Update};
use crate::arbiter::{
    Arbiter, ArbiterConfig, Delivery, LineSink, LineStats, Notice, SIDES, SideStats,
};
use crate::top_of_book::TopOfBook;

/// Format of the packets of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// FAST for OPRA, version 2.
    OpraFastV2,
    /// OPRA's binary format, in blocks.
    OpraBinary,
}

/// Settings of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineConfig {
    /// Format of the line's packets.
    pub format: Format,
    /// Waiting times of the arbitration between the sides.
    pub arbiter: ArbiterConfig,
    /// Silence of both sides after which the line's prices count as stale.
    pub quiet: Nanos,
    /// Most series whose best prices are kept.
    pub series_max: usize,
}

/// Figures about the health of a line.
#[derive(Clone, Debug)]
pub struct LineHealth {
    /// Totals of the line's messages.
    pub stats: LineStats,
    /// Figures about each side.
    pub sides: [SideStats; SIDES],
    /// Number of messages decoded.
    pub messages: u64,
    /// Number of updates made of those messages.
    pub updates: u64,
    /// Number of packets whose header could not be read.
    pub strange: u64,
    /// Errors by code of packets that could not be decoded, or not to their end.
    pub errors: ErrorCounts,
    /// Number of series with best prices.
    pub series: usize,
    /// Whether neither side is heard.
    pub stale: bool,
}

/// Decodes the packets that the arbiter delivers.
#[derive(Debug)]
struct Decoding {
    line: u8,
    format: Format,
    decoder: SlotDecoder<V2>,
    errors: ErrorCounts,
    top: TopOfBook,
    messages: u64,
    updates: u64,
    now: Nanos,
}

/// A line of the plant, with the books of its series.
#[derive(Debug)]
pub struct Line {
    arbiter: Arbiter,
    decoding: Decoding,
    quiet: Nanos,
    heard: Nanos,
    stale: bool,
    strange: u64,
}

impl Line {
    /// A line that nothing has been heard of; the silence counts from `now`.
    pub fn new(line: u8, config: LineConfig, now: Nanos) -> Line {
        Line {
            arbiter: Arbiter::new(config.arbiter),
            decoding: Decoding {
                line,
                format: config.format,
                decoder: SlotDecoder::default(),
                errors: ErrorCounts::default(),
                top: TopOfBook::new(config.series_max),
                messages: 0,
                updates: 0,
                now,
            },
            quiet: config.quiet,
            heard: now,
            stale: false,
            strange: 0,
        }
    }

    /// Takes a packet of a side; updates are appended.
    pub fn packet(&mut self, now: Nanos, side: usize, bytes: &[u8], out: &mut Vec<Update>) {
        let head = match self.decoding.format {
            Format::OpraFastV2 => {
                packet_header::<V2>(bytes).map(|packet| (packet.sequence, packet.messages))
            }
            // Blocks are numbered, not messages.
            Format::OpraBinary => binary::BlockHeader::split(bytes)
                .map(|(header, _)| (u64::from(header.sequence()), 1))
                .ok_or(fast::Code::Truncated),
        };
        let head = match head {
            Ok(head) => head,
            Err(code) => {
                self.strange += 1;
                self.decoding.errors.add(code);
                return;
            }
        };
        self.decoding.now = now;
        self.heard = now;
        if std::mem::take(&mut self.stale) {
            out.push(Update::of_line(Kind::Fresh, self.decoding.line, now));
        }
        let mut sink = Out { decoding: &mut self.decoding, out };
        self.arbiter.packet(now, side, head, bytes, &mut sink);
    }

    /// Handles what has become due at `now`; updates are appended.
    pub fn poll(&mut self, now: Nanos, out: &mut Vec<Update>) {
        self.decoding.now = now;
        let mut sink = Out { decoding: &mut self.decoding, out };
        self.arbiter.poll(now, &mut sink);
        if !self.stale && now.0.saturating_sub(self.heard.0) > self.quiet.0 {
            self.stale = true;
            out.push(Update::of_line(Kind::Stale, self.decoding.line, now));
        }
    }

    /// Figures about the line's health so far.
    pub fn health(&self) -> LineHealth {
        LineHealth {
            stats: self.arbiter.stats(),
            sides: [self.arbiter.side(0), self.arbiter.side(1)],
            messages: self.decoding.messages,
            updates: self.decoding.updates,
            strange: self.strange,
            errors: self.decoding.errors.clone(),
            series: self.decoding.top.len(),
            stale: self.stale,
        }
    }

    /// Number of messages decoded, as a measure of the line's load.
    pub fn load(&self) -> u64 {
        self.decoding.messages
    }
}

struct Out<'d, 'o> {
    decoding: &'d mut Decoding,
    out: &'o mut Vec<Update>,
}

impl LineSink for Out<'_, '_> {
    fn deliver(&mut self, delivery: Delivery<'_>) {
        let Decoding { line, format, decoder, errors, top, messages, updates, now } = self.decoding;
        let mut making = Making {
            now: *now,
            line: *line,
            skip: delivery.skip,
            top,
            messages: 0,
            updates: 0,
            out: self.out,
        };
        let outcome = match format {
            Format::OpraFastV2 => decoder.packet(delivery.bytes, &mut making).map(|_| ()),
            Format::OpraBinary => {
                // A block is new as a whole or not at all.
                making.skip = 0;
                binary::block(delivery.bytes, |event| making.event(event)).map(|_| ())
            }
        };
        *messages += making.messages;
        *updates += making.updates;
        if let Err(code) = outcome {
            errors.add(code);
        }
    }

    fn notice(&mut self, notice: Notice) {
        let about = |kind| Update::of_line(kind, self.decoding.line, self.decoding.now);
        self.out.push(match notice {
            // Lines of this kind have no retransmission.
            Notice::Request { .. } => return,
            Notice::Gap { from, until } => {
                Update { sequence: from, time: until, ..about(Kind::Gap) }
            }
            Notice::Stale { side } => Update { participant: side as u8, ..about(Kind::SideDead) },
            Notice::Alive { side } => Update { participant: side as u8, ..about(Kind::SideAlive) },
        });
    }
}

/// Turns the messages of a packet into updates.
struct Making<'d> {
    now: Nanos,
    line: u8,
    /// Messages still to be left out, because they came in another packet.
    skip: u32,
    top: &'d mut TopOfBook,
    messages: u64,
    updates: u64,
    out: &'d mut Vec<Update>,
}

impl SlotSink for Making<'_> {
    fn message(&mut self, message: &Message<'_>) {
        if self.skip > 0 {
            self.skip -= 1;
            return;
        }
        self.event(&to_event::<V2>(message));
    }
}

impl Making<'_> {
    fn event(&mut self, event: &Event<'_>) {
        self.messages += 1;
        let about = |kind| Update::of_line(kind, self.line, self.now);
        let (header, update) = match event {
            Event::Quote(header, quote) => {
                let top = self.top.quote(header.participant, quote).unwrap_or_default();
                let update = Update {
                    bbo: quote.bbo,
                    series: quote.series,
                    bid: quote.bid,
                    bid_size: quote.bid_size.into(),
                    offer: quote.offer,
                    offer_size: quote.offer_size.into(),
                    best_bid: top.bid,
                    best_offer: top.offer,
                    ..about(Kind::Quote)
                };
                (header, update)
            }
            Event::LastSale(header, sale) => {
                let update = Update {
                    series: sale.series,
                    bid: sale.price,
                    bid_size: sale.volume.into(),
                    ..about(Kind::Trade)
                };
                (header, update)
            }
            _ => return,
        };
        self.updates += 1;
        self.out.push(Update {
            participant: header.participant,
            sequence: header.sequence,
            time: header.time,
            ..update
        });
    }
}
