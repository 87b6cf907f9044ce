//! Packets of capture files: classic pcap in both byte orders and resolutions, and pcapng with its
//! enhanced and simple packet blocks. Of Ethernet frames, with VLAN tags or without, the payloads
//! of UDP and TCP over IPv4; other frames are counted. Lengths come from the IP and UDP headers,
//! since some captures keep a trailer. Nothing is copied, and no length in the file is believed.

use types::Nanos;

/// Why a capture file cannot be read further.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PcapError {
    /// The file is neither pcap nor pcapng.
    Unknown,
    /// The frames are not Ethernet frames; the file's link type.
    LinkType(u32),
    /// The file ends inside a record, or states an impossible length.
    Truncated {
        /// Number of whole frames before the record.
        frames: u64,
        /// Byte of the file at which the record begins.
        at: u64,
    },
    /// An interface's times (if_tsresol of pcapng) are finer than 2^-63 s or 10^-19 s, or it is more
    /// than the 256th.
    Resolution(u8),
}

impl std::fmt::Display for PcapError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PcapError::Unknown => f.write_str("neither pcap nor pcapng"),
            PcapError::LinkType(kind) => write!(f, "link type {kind}, not Ethernet"),
            PcapError::Truncated { frames, at } => write!(
                f,
                "ends inside a record, or it states an impossible length: behind {frames} whole \
                 frames, at byte {at}; get the whole file again, or wait until it is written"
            ),
            PcapError::Resolution(code) => {
                write!(f, "an interface with if_tsresol {code}, or more than {INTERFACES_MAX}")
            }
        }
    }
}

impl std::error::Error for PcapError {}

/// The payload of a captured frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Payload<'a> {
    /// A UDP datagram over IPv4: destination address, destination port, payload.
    Udp([u8; 4], u16, &'a [u8]),
    /// The data of a TCP segment.
    Tcp(&'a [u8]),
    /// Anything else, also TCP segments without data.
    Other,
}

/// One captured frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Captured<'a> {
    /// Time of the capture, ns since the Unix epoch.
    pub time: Nanos,
    /// What the frame carried.
    pub payload: Payload<'a>,
}

#[derive(Clone, Copy, Debug)]
struct Order {
    little: bool,
}

impl Order {
    fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let four = *bytes.get(at..)?.first_chunk::<4>()?;
        Some(if self.little { u32::from_le_bytes(four) } else { u32::from_be_bytes(four) })
    }

    fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let two = *bytes.get(at..)?.first_chunk::<2>()?;
        Some(if self.little { u16::from_le_bytes(two) } else { u16::from_be_bytes(two) })
    }
}

#[derive(Clone, Copy, Debug)]
enum Layout {
    /// Classic pcap; the number is ns per unit of the fraction of a second.
    Classic(u64),
    Blocks,
}

/// Most interfaces of a pcapng section that are told apart.
const INTERFACES_MAX: usize = 256;
/// Ticks per second of an interface without a stated resolution.
const MICROS: u64 = 1_000_000;
/// Code of the interface option that states the resolution of times (if_tsresol).
const TSRESOL: u16 = 9;

/// Reads a capture file; an iterator over its frames that ends after an error.
#[derive(Debug)]
pub struct Pcap<'a> {
    rest: &'a [u8],
    /// Bytes of the file, and frames that were read so far.
    length: usize,
    frames: u64,
    order: Order,
    layout: Layout,
    /// For pcapng: ticks per second of each interface of the section.
    ticks: Vec<u64>,
    failed: bool,
}

const ETHERNET: u32 = 1;
const SECTION: [u8; 4] = [0x0A, 0x0D, 0x0D, 0x0A];

impl<'a> Pcap<'a> {
    /// Looks at the file's header.
    ///
    /// # Errors
    /// When it is none, or not of Ethernet frames.
    pub fn new(file: &'a [u8]) -> Result<Pcap<'a>, PcapError> {
        let magic = *file.first_chunk::<4>().ok_or(PcapError::Unknown)?;
        if magic == SECTION {
            let order = section_order(file).ok_or(PcapError::Unknown)?;
            let (layout, ticks) = (Layout::Blocks, Vec::new());
            let (rest, length) = (file, file.len());
            return Ok(Pcap { rest, length, frames: 0, order, layout, ticks, failed: false });
        }
        let (little, unit) = match magic {
            [0xD4, 0xC3, 0xB2, 0xA1] => (true, 1_000),
            [0x4D, 0x3C, 0xB2, 0xA1] => (true, 1),
            [0xA1, 0xB2, 0xC3, 0xD4] => (false, 1_000),
            [0xA1, 0xB2, 0x3C, 0x4D] => (false, 1),
            _ => return Err(PcapError::Unknown),
        };
        let order = Order { little };
        let truncated = PcapError::Truncated { frames: 0, at: 0 };
        let link = order.u32(file, 20).ok_or(truncated)? & 0xFFFF;
        if link != ETHERNET {
            return Err(PcapError::LinkType(link));
        }
        let rest = file.get(24..).unwrap_or(&[]);
        let (layout, ticks) = (Layout::Classic(unit), Vec::new());
        let length = file.len();
        Ok(Pcap { rest, length, frames: 0, order, layout, ticks, failed: false })
    }

    fn classic(&mut self, unit: u64) -> Option<Captured<'a>> {
        let seconds = self.order.u32(self.rest, 0)?;
        let fraction = self.order.u32(self.rest, 4)?;
        let length = self.order.u32(self.rest, 8)? as usize;
        let (frame, rest) = self.rest.get(16..)?.split_at_checked(length)?;
        self.rest = rest;
        let time = u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * unit;
        Some(Captured { time: Nanos(time), payload: payload(frame) })
    }

    /// The next block; `Some(None)` for one without a frame.
    fn block(&mut self) -> Option<Result<Option<Captured<'a>>, PcapError>> {
        if self.rest.first_chunk::<4>() == Some(&SECTION) {
            self.order = section_order(self.rest)?;
            self.ticks.clear();
        }
        let order = self.order;
        let kind = order.u32(self.rest, 0)?;
        let length = order.u32(self.rest, 4)? as usize;
        if length < 12 || !length.is_multiple_of(4) {
            return None;
        }
        let (block, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        let body = block.get(8..length - 4)?;
        Some(match kind {
            1 => match order.u16(body, 0)?.into() {
                ETHERNET => self.interface(order, body.get(8..)?).map(|()| None),
                link => Err(PcapError::LinkType(link)),
            },
            3 => {
                let length = order.u32(body, 0)? as usize;
                let frame = body.get(4..)?;
                let frame = frame.get(..length.min(frame.len()))?;
                Ok(Some(Captured { time: Nanos(0), payload: payload(frame) }))
            }
            6 => {
                let interface = order.u32(body, 0)? as usize;
                let ticks = self.ticks.get(interface).copied().unwrap_or(MICROS);
                let high = u64::from(order.u32(body, 4)?);
                let time = high << 32 | u64::from(order.u32(body, 8)?);
                let length = order.u32(body, 12)? as usize;
                let frame = body.get(20..)?.get(..length)?;
                let ns = u128::from(time) * u128::from(Nanos::SECOND) / u128::from(ticks);
                let time = Nanos(u64::try_from(ns).unwrap_or(u64::MAX));
                Ok(Some(Captured { time, payload: payload(frame) }))
            }
            _ => Ok(None),
        })
    }
}

impl Pcap<'_> {
    /// Notes an interface by its options: code and length, two bytes each, the value, and padding to
    /// four bytes.
    fn interface(&mut self, order: Order, mut options: &[u8]) -> Result<(), PcapError> {
        let mut resolution = 6;
        while let (Some(code), Some(length)) = (order.u16(options, 0), order.u16(options, 2)) {
            let length = usize::from(length);
            if let (TSRESOL, 1, Some(value)) = (code, length, options.get(4)) {
                resolution = *value;
            }
            options = options.get(4 + length.next_multiple_of(4)..).unwrap_or(&[]);
        }
        let base: u64 = if resolution & 0x80 == 0 { 10 } else { 2 };
        let ticks = base.checked_pow((resolution & 0x7F).into());
        let ticks = ticks.filter(|_| self.ticks.len() < INTERFACES_MAX);
        self.ticks.push(ticks.ok_or(PcapError::Resolution(resolution))?);
        Ok(())
    }
}

fn section_order(block: &[u8]) -> Option<Order> {
    match block.get(8..)?.first_chunk::<4>()? {
        [0x4D, 0x3C, 0x2B, 0x1A] => Some(Order { little: true }),
        [0x1A, 0x2B, 0x3C, 0x4D] => Some(Order { little: false }),
        _ => None,
    }
}

impl<'a> Iterator for Pcap<'a> {
    type Item = Result<Captured<'a>, PcapError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.rest.is_empty() && !self.failed {
            let at = (self.length - self.rest.len()) as u64;
            let truncated = PcapError::Truncated { frames: self.frames, at };
            let next = match self.layout {
                Layout::Classic(unit) => self.classic(unit).map(|frame| Ok(Some(frame))),
                Layout::Blocks => self.block(),
            };
            match next.unwrap_or(Err(truncated)) {
                Ok(Some(frame)) => {
                    self.frames += 1;
                    return Some(Ok(frame));
                }
                Ok(None) => {}
                Err(error) => {
                    self.failed = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

fn payload(frame: &[u8]) -> Payload<'_> {
    carried(frame).unwrap_or(Payload::Other)
}

fn carried(frame: &[u8]) -> Option<Payload<'_>> {
    let number = |bytes: &[u8], at: usize| Order { little: false }.u16(bytes, at);
    let mut at = 12;
    while matches!(number(frame, at)?, 0x8100 | 0x88A8) {
        at += 4;
    }
    if number(frame, at)? != 0x0800 {
        return None;
    }
    let ip = frame.get(at + 2..)?;
    let ip = ip.get(..usize::from(number(ip, 2)?))?;
    let segment = ip.get(usize::from(ip.first()? & 15) * 4..)?;
    let to = *ip.get(16..)?.first_chunk::<4>()?;
    match ip.get(9)? {
        17 => {
            let bytes = segment.get(8..usize::from(number(segment, 4)?))?;
            Some(Payload::Udp(to, number(segment, 2)?, bytes))
        }
        6 => {
            let bytes = segment.get(usize::from(segment.get(12)? >> 4) * 4..)?;
            (!bytes.is_empty()).then_some(Payload::Tcp(bytes))
        }
        _ => None,
    }
}

/// Appends the header of a classic pcap file with times in ns.
pub fn put_header(out: &mut Vec<u8>) {
    for word in [0xA1B2_3C4D_u32, 0x0004_0002, 0, 0, 65_535, ETHERNET] {
        out.extend_from_slice(&word.to_le_bytes());
    }
}

/// Bytes that a datagram's record has before its payload: pcap, Ethernet, IPv4, UDP.
pub const UDP_RECORD: usize = 16 + 14 + 20 + 8;

/// Header checksum of an IPv4 header whose checksum field is 0 (RFC 1071).
fn header_sum(header: &[u8]) -> u16 {
    let words = header.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum: u32 = words.sum();
    let folded = (sum & 0xFFFF) + (sum >> 16);
    !((folded & 0xFFFF) + (folded >> 16)) as u16
}

/// Appends a datagram as a frame; at most 65,000 bytes of it. It has no UDP checksum (RFC 768).
pub fn put_udp(out: &mut Vec<u8>, time: Nanos, (to, port): ([u8; 4], u16), bytes: &[u8]) {
    let bytes = bytes.get(..bytes.len().min(65_000)).unwrap_or(&[]);
    let length = bytes.len() as u16;
    let frame = u32::from(length) + 14 + 20 + 8;
    let (seconds, fraction) = (time.0 / 1_000_000_000, time.0 % 1_000_000_000);
    for word in [seconds as u32, fraction as u32, frame, frame] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(&[1, 0, 0x5E, to[1] & 0x7F, to[2], to[3], 2, 0, 0, 0, 0, 1, 8, 0]);
    let [high, low] = (length + 28).to_be_bytes();
    let [a, b, c, d] = to;
    let mut ip = [0x45, 0, high, low, 0, 0, 0x40, 0, 15, 17, 0, 0, 10, 0, 0, 1, a, b, c, d];
    let sum = header_sum(&ip).to_be_bytes();
    ip[10..12].copy_from_slice(&sum);
    out.extend_from_slice(&ip);
    out.extend_from_slice(&port.to_be_bytes());
    out.extend_from_slice(&port.to_be_bytes());
    out.extend_from_slice(&(length + 8).to_be_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(bytes);
}
