//! Datagrams of the clock agents: fixed little-endian fields, checked as a whole when decoded.
//!
//! | kind | from, to | bytes |
//! |---|---|---|
//! | probe | every node to its neighbours, in pairs | 20 |
//! | collect | reference to all, once a window | 12 |
//! | report | all to the reference, once a window | up to [`REPORT_MAX`] |
//! | correction | reference to each, once a window | 92 |
//!
//! Nothing here is authenticated: whoever hosts an agent seals its datagrams as all others. Then a
//! stranger can only lose, delay or repeat them. A late copy looks like a slow probe, which no
//! bound is made of; a delay of all probes of one direction is the asymmetry that no protocol sees.

use types::{Nanos, NodeId};

use crate::hull::Point;

/// First byte of every datagram of the clock protocol.
const MAGIC: u8 = 0xC1;
/// Second byte of every datagram: the version of the protocol.
const VERSION: u8 = 2;
/// Longest report, bytes; with seal and headers it stays below 1,500.
pub const REPORT_MAX: usize = 1_200;
/// Most points of a chain; a longer one is thinned.
pub const CHAIN_MAX: usize = 32;
/// Largest offset of two clocks that are compared, ns: one day.
pub const OFFSET_MAX_NS: i64 = 86_400 * Nanos::SECOND as i64;
const REPORT_HEADER: usize = 12;
const CHAIN_HEADER: usize = 24;

/// One probe of a coded pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Node that sent the probe.
    pub from: NodeId,
    /// Node that the probe is for.
    pub to: NodeId,
    /// Number of the pair on its path.
    pub number: u32,
    /// Whether this is the second probe of the pair.
    pub second: bool,
    /// Time of sending, on the sender's free-running clock, ns.
    pub sent: Nanos,
}

/// A request of the reference for reports about the probes of the last window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Collect {
    /// Node that is the reference.
    pub from: NodeId,
    /// Number of the window that the reports have to be about.
    pub window: u32,
}

/// Probes of one path in one window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chain<'a> {
    /// Node that sent the probes of the path.
    pub sender: NodeId,
    /// Number of pairs used and number of pairs refused.
    pub pairs: (u16, u16),
    base: Point,
    points: &'a [u8],
}

impl<'a> Chain<'a> {
    /// The points, from left to right.
    pub fn points(&self) -> impl ExactSizeIterator<Item = Point> + 'a {
        let base = self.base;
        self.points.as_chunks::<8>().0.iter().map(move |bytes| {
            let [a, b, c, d, e, f, g, h] = *bytes;
            let dx = u32::from_le_bytes([a, b, c, d]);
            let dy = i32::from_le_bytes([e, f, g, h]);
            Point { x: base.x.wrapping_add(dx.into()), y: base.y.wrapping_add(dy.into()) }
        })
    }
}

/// Chains of one node's incoming paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report<'a> {
    /// Node that received the probes and reports them.
    pub from: NodeId,
    /// Number of the window that the report is about.
    pub window: u32,
    chains: &'a [u8],
}

impl<'a> Report<'a> {
    /// The chains of the report, one for each path.
    pub fn chains(&self) -> impl Iterator<Item = Chain<'a>> + 'a {
        let mut rest = self.chains;
        std::iter::from_fn(move || {
            let (chain, after) = chain(rest)?;
            rest = after;
            Some(chain)
        })
    }
}

/// Largest error of a line at a distance from its anchor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bound {
    /// Largest error at the anchor, ns.
    pub ns: u64,
    /// Growth with distance from the anchor, in parts of 10^12.
    pub growth_ppt: u64,
    /// Further growth with the square of the distance: parts of 10^12 per second.
    pub wander_ppt: u64,
}

impl Bound {
    /// The largest error so far from the anchor, in ns.
    pub fn at(&self, passed_ns: u64) -> u64 {
        let (passed, parts) = (u128::from(passed_ns), 1_000_000_000_000);
        let grown = passed.saturating_mul(self.growth_ppt.into()) / parts;
        let seconds = u128::from(Nanos::SECOND) * parts;
        let square = passed.saturating_mul(passed).saturating_mul(self.wander_ppt.into());
        let grown = grown.saturating_add(square / seconds);
        self.ns.saturating_add(u64::try_from(grown).unwrap_or(u64::MAX))
    }

    /// The larger one, part by part.
    pub(crate) fn max(&self, other: &Bound) -> Bound {
        Bound {
            ns: self.ns.max(other.ns),
            growth_ppt: self.growth_ppt.max(other.growth_ppt),
            wander_ppt: self.wander_ppt.max(other.wander_ppt),
        }
    }
}

/// The correction of one node's clock, computed by the reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Correction {
    /// The node whose clock is corrected.
    pub node: NodeId,
    /// Window that it was computed from.
    pub window: u32,
    /// Free-running reading at which the rest holds.
    pub anchor: Nanos,
    /// Free-running clock less the reference's there, in ns.
    pub offset_ns: i64,
    /// Change of that, in parts of 10^12 of the free-running clock.
    pub drift_ppt: i64,
    /// Largest error of the corrected clock.
    pub bound: Bound,
    /// Largest error of the clocks of all who may be the reference next.
    pub heirs: Bound,
    /// Largest error at the anchor that causality alone leaves, in ns: true whatever the delays'
    /// symmetry.
    pub causal_ns: u64,
}

impl Correction {
    /// The correction towards what the reference's own clock is said to be ahead of: `offset_ns` at the
    /// anchor, with a drift in parts of 10^12, and an error of `error_ns` in that.
    pub(crate) fn compose(&mut self, (offset_ns, drift_ppt): (i64, i64), error_ns: u64) {
        let both = i128::from(self.drift_ppt) * i128::from(drift_ppt) / 1_000_000_000_000;
        self.offset_ns = self.offset_ns.saturating_add(offset_ns);
        self.drift_ppt = self.drift_ppt.saturating_add(drift_ppt).saturating_sub(both as i64);
        self.bound.ns = self.bound.ns.saturating_add(error_ns);
        self.causal_ns = self.causal_ns.saturating_add(error_ns);
    }
}

/// A decoded datagram of any kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message<'a> {
    /// One probe of a coded pair.
    Probe(Probe),
    /// A request of the reference for reports.
    Collect(Collect),
    /// Probes that a node received, by path.
    Report(Report<'a>),
    /// The correction of one node's clock.
    Correction(Correction),
}

const PROBE: u8 = 1;
const COLLECT: u8 = 2;
const REPORT: u8 = 3;
const CORRECTION: u8 = 4;

/// Takes fixed fields off the front.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.take().map(i64::from_le_bytes)
    }
}

/// Reads a datagram; `None` for anything that is not exactly one of these.
pub fn decode(bytes: &[u8]) -> Option<Message<'_>> {
    let mut reader = Reader(bytes);
    let [magic, version, kind, flag] = reader.take()?;
    if (magic, version) != (MAGIC, VERSION) || flag > u8::from(kind == PROBE) {
        return None;
    }
    let message = match kind {
        PROBE => Message::Probe(Probe {
            from: NodeId(reader.u16()?),
            to: NodeId(reader.u16()?),
            number: reader.u32()?,
            second: flag == 1,
            sent: Nanos(reader.u64()?),
        }),
        COLLECT => Message::Collect(collect(&mut reader)?),
        REPORT => {
            let Collect { from, window } = collect(&mut reader)?;
            let chains = std::mem::take(&mut reader.0);
            let mut rest = chains;
            while !rest.is_empty() {
                rest = chain(rest)?.1;
            }
            Message::Report(Report { from, window, chains })
        }
        CORRECTION => {
            let Collect { from: node, window } = collect(&mut reader)?;
            Message::Correction(Correction {
                node,
                window,
                anchor: Nanos(reader.u64()?),
                offset_ns: reader.i64()?,
                drift_ppt: reader.i64()?,
                bound: bound(&mut reader)?,
                heirs: bound(&mut reader)?,
                causal_ns: reader.u64()?,
            })
        }
        _ => return None,
    };
    reader.0.is_empty().then_some(message)
}

fn bound(reader: &mut Reader<'_>) -> Option<Bound> {
    Some(Bound { ns: reader.u64()?, growth_ppt: reader.u64()?, wander_ppt: reader.u64()? })
}

fn collect(reader: &mut Reader<'_>) -> Option<Collect> {
    let from = NodeId(reader.u16()?);
    (reader.u16()? == 0).then_some(())?;
    Some(Collect { from, window: reader.u32()? })
}

fn chain(bytes: &[u8]) -> Option<(Chain<'_>, &[u8])> {
    let mut reader = Reader(bytes);
    let sender = NodeId(reader.u16()?);
    let count = usize::from(reader.u16()?);
    let pairs = (reader.u16()?, reader.u16()?);
    let base = Point { x: reader.i64()?, y: reader.i64()? };
    if count > CHAIN_MAX || !(-OFFSET_MAX_NS..=OFFSET_MAX_NS).contains(&base.y) {
        return None;
    }
    let (points, rest) = reader.0.split_at_checked(count * 8)?;
    Some((Chain { sender, pairs, base, points }, rest))
}

fn header(kind: u8, flag: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(&[MAGIC, VERSION, kind, flag]);
}

/// Appends an encoded probe to `out`.
pub fn encode_probe(probe: &Probe, out: &mut Vec<u8>) {
    header(PROBE, probe.second.into(), out);
    out.extend_from_slice(&probe.from.0.to_le_bytes());
    out.extend_from_slice(&probe.to.0.to_le_bytes());
    out.extend_from_slice(&probe.number.to_le_bytes());
    out.extend_from_slice(&probe.sent.0.to_le_bytes());
}

fn named(kind: u8, node: NodeId, window: u32, out: &mut Vec<u8>) {
    header(kind, 0, out);
    out.extend_from_slice(&node.0.to_le_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&window.to_le_bytes());
}

/// Appends an encoded request for reports to `out`.
pub fn encode_collect(collect: &Collect, out: &mut Vec<u8>) {
    named(COLLECT, collect.from, collect.window, out);
}

/// Appends an encoded correction to `out`.
pub fn encode_correction(correction: &Correction, out: &mut Vec<u8>) {
    named(CORRECTION, correction.node, correction.window, out);
    let c = correction;
    for field in [c.anchor.0, c.offset_ns as u64, c.drift_ppt as u64] {
        out.extend_from_slice(&field.to_le_bytes());
    }
    for of in [c.bound, c.heirs] {
        for field in [of.ns, of.growth_ppt, of.wander_ppt] {
            out.extend_from_slice(&field.to_le_bytes());
        }
    }
    out.extend_from_slice(&c.causal_ns.to_le_bytes());
}

/// Fills one report with chains until no other fits.
pub struct ReportWriter<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> ReportWriter<'a> {
    /// A writer that appends an empty report.
    pub fn new(from: NodeId, window: u32, out: &'a mut Vec<u8>) -> ReportWriter<'a> {
        let start = out.len();
        named(REPORT, from, window, out);
        ReportWriter { out, start }
    }

    /// Whether it holds no chain yet.
    pub fn is_empty(&self) -> bool {
        self.out.len() == self.start + REPORT_HEADER
    }

    /// Appends a chain; `false` when there is no room for it. Points that a chain can't carry (too
    /// many, too far apart) are left out, which makes a bound wider and never wrong.
    pub fn push(&mut self, sender: NodeId, pairs: (u16, u16), points: &[Point]) -> bool {
        let every = points.len().div_ceil(CHAIN_MAX).max(1);
        let base = points.first().copied().unwrap_or(Point { x: 0, y: 0 });
        let bytes = CHAIN_HEADER + points.len().div_ceil(every) * 8;
        if self.out.len() - self.start + bytes > REPORT_MAX {
            return false;
        }
        let at = self.out.len();
        self.out.extend_from_slice(&sender.0.to_le_bytes());
        self.out.extend_from_slice(&[0, 0]);
        self.out.extend_from_slice(&pairs.0.to_le_bytes());
        self.out.extend_from_slice(&pairs.1.to_le_bytes());
        self.out.extend_from_slice(&base.x.to_le_bytes());
        self.out.extend_from_slice(&base.y.to_le_bytes());
        let mut count = 0u16;
        for point in points.iter().step_by(every) {
            let dx = u32::try_from(point.x.wrapping_sub(base.x));
            let dy = i32::try_from(point.y.wrapping_sub(base.y));
            if let (Ok(dx), Ok(dy)) = (dx, dy) {
                self.out.extend_from_slice(&dx.to_le_bytes());
                self.out.extend_from_slice(&dy.to_le_bytes());
                count += 1;
            }
        }
        if let Some(place) = self.out.get_mut(at + 2..at + 4) {
            place.copy_from_slice(&count.to_le_bytes());
        }
        true
    }
}
