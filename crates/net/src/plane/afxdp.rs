//! The data plane `af_xdp`: frames built here and put into the interface's ring, past the kernel's stack.
//!
//! It sends only; what comes in takes the socket, as with every plane. So does what stays on the machine. Frames are copied into buffers of the
//! kernel's, which works with every interface. Datagrams that don't fit a frame take the socket, too.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use super::clone::{by_socket, canonical};
use super::receivers::Receivers;
use super::table::{fold, sum};
use super::ways::{LinkLayer, Way, Ways};
use super::xsk::{FRAME, Xsk};
use super::{PlaneError, PlaneFigures, PlaneKind};

/// After this an interface that refused is tried again.
const OPEN_AGAIN: Duration = Duration::from_millis(500);
/// Interfaces at most.
const INTERFACES_MAX: usize = 8;
const UDP: u8 = 17;
const HOPS: u8 = 64;

/// An interface and its socket.
struct Attached {
    interface: u32,
    link: LinkLayer,
    hardware: [u8; 6],
    mtu: usize,
    xsk: Option<Xsk>,
    /// Frames pushed and not sent.
    waiting: usize,
    /// When it was opened or tried last.
    since: Instant,
}

/// A way and the place of its interface.
type Known = (Way, usize);

/// The plane of one socket.
pub(crate) struct AfXdp {
    own: SocketAddr,
    ways: Ways,
    attached: Vec<Attached>,
    receivers: Receivers<Known>,
    /// Frames that are pushed and not sent: the interface, frame, receiver and bytes of the datagram.
    waiting: Vec<(usize, u32, SocketAddr, usize)>,
    now: Instant,
    scratch: Vec<u8>,
    figures: PlaneFigures,
}

impl AfXdp {
    /// A plane for what `socket` sends to `peers` above all.
    ///
    /// # Errors
    /// What is missing, in a line.
    pub fn open(socket: &UdpSocket, peers: &[SocketAddr]) -> Result<AfXdp, PlaneError> {
        let kind = PlaneKind::AfXdp;
        PlaneError::check_kernel(kind, (5, 4))?;
        let failed = |step| move |error| PlaneError::new(kind, step, &error);
        let own = socket.local_addr().map_err(failed("asking for the socket's address"))?;
        let mut plane = AfXdp {
            own,
            ways: Ways::open().map_err(failed("asking for routes"))?,
            attached: Vec::new(),
            receivers: Receivers::default(),
            waiting: Vec::with_capacity(super::xsk::FRAMES as usize),
            now: Instant::now(),
            scratch: Vec::with_capacity(types::limits::DATAGRAM_MAX),
            figures: PlaneFigures::default(),
        };
        for to in peers {
            if let Some(way) = plane.ask(*to) {
                plane.attach(way.interface)?;
            }
        }
        if plane.attached.is_empty() {
            // Whether it could be done shows on an interface that each machine has.
            if let Ok(Some(way)) = plane.ways.to(std::net::Ipv4Addr::LOCALHOST.into()) {
                plane.attach(way.interface)?;
                plane.attached.clear();
            }
        }
        Ok(plane)
    }

    /// The way to an address, but for the loopback interface: the stack takes no packet of its addresses
    /// that has not come through itself.
    fn ask(&mut self, to: SocketAddr) -> Option<Way> {
        let way = self.ways.to(canonical(to).ip()).ok()??;
        let link = self.ways.interface(way.interface).ok()?.link;
        (link != LinkLayer::Loopback).then_some(way)
    }

    fn attach(&mut self, interface: u32) -> Result<usize, PlaneError> {
        if let Some(at) = self.attached.iter().position(|one| one.interface == interface) {
            return Ok(at);
        }
        let failed = |step, error| PlaneError::new(PlaneKind::AfXdp, step, &error);
        if self.attached.len() >= INTERFACES_MAX {
            let error = io::Error::other(format!("more than {INTERFACES_MAX} interfaces"));
            return Err(failed("opening a socket", error));
        }
        let found = self.ways.interface(interface);
        let found = found.map_err(|error| failed("asking for the interface", error))?.clone();
        // A socket that was closed a moment ago goes a moment later.
        let begun = Instant::now();
        let xsk = loop {
            match Xsk::open(interface, 0) {
                Ok(xsk) => break xsk,
                Err((_, error))
                    if error.raw_os_error() == Some(libc::EBUSY)
                        && begun.elapsed() < OPEN_AGAIN =>
                {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err((step, error)) => return Err(failed(step, error)),
            }
        };
        self.attached.push(Attached {
            interface,
            link: found.link,
            hardware: found.address,
            mtu: found.mtu as usize,
            xsk: Some(xsk),
            waiting: 0,
            since: self.now,
        });
        Ok(self.attached.len() - 1)
    }

    fn way(&mut self, to: SocketAddr) -> Option<Known> {
        let mut receivers = std::mem::take(&mut self.receivers);
        let way = receivers.way(to, self.now, |to| {
            let way = self.ask(to)?;
            let at = self.attach(way.interface).ok()?;
            Some((way, at))
        });
        self.receivers = receivers;
        self.figures.refreshed = self.receivers.refreshed;
        way
    }

    /// As [`super::DataPlane::send`].
    pub fn send(&mut self, socket: &UdpSocket, to: SocketAddr, bytes: &[u8]) -> io::Result<()> {
        let Some((way, at)) = self.way(to) else { return self.past(socket, to, bytes) };
        let (own, known) = (self.own, self.attached.get_mut(at));
        let Some(known) = known else { return self.past(socket, to, bytes) };
        let to_ip = canonical(to);
        let header = if to_ip.is_ipv4() { 20 } else { 40 };
        let packet = header + 8 + bytes.len();
        let length = known.link.bytes() + packet;
        let (link, hardware) = (known.link, known.hardware);
        let fits = length <= FRAME && packet <= known.mtu;
        let source = source(own, &way, to_ip.ip());
        let frame = known.xsk.as_mut().filter(|_| fits).zip(source);
        let Some((frame, xsk, source)) =
            frame.and_then(|(xsk, source)| Some((xsk.frame()?, xsk, source)))
        else {
            return self.past(socket, to, bytes);
        };
        let from = SocketAddr::new(source, own.port());
        write(xsk.bytes(frame), (link, way.hardware, hardware), (from, to_ip), bytes);
        xsk.push(frame, length);
        known.waiting += 1;
        self.waiting.push((at, frame, to, bytes.len()));
        Ok(())
    }

    /// By the socket, behind what waits.
    fn past(&mut self, socket: &UdpSocket, to: SocketAddr, bytes: &[u8]) -> io::Result<()> {
        self.flush(socket)?;
        by_socket(&mut self.figures, socket, to, bytes)
    }

    /// As [`super::DataPlane::flush`].
    pub fn flush(&mut self, socket: &UdpSocket) -> io::Result<()> {
        self.now = Instant::now();
        let mut outcome = Ok(());
        for at in 0..self.attached.len() {
            let known = &mut self.attached[at];
            let Some(xsk) = &mut known.xsk else {
                if self.now.duration_since(known.since) >= OPEN_AGAIN {
                    known.since = self.now;
                    known.xsk = Xsk::open(known.interface, 0).ok();
                    self.figures.attached_again += u64::from(known.xsk.is_some());
                }
                continue;
            };
            let mine = std::mem::take(&mut known.waiting);
            if mine == 0 {
                continue;
            }
            let before = xsk.calls;
            let sent = xsk.send();
            self.figures.carriers += xsk.calls - before;
            let untaken = xsk.untaken() as usize;
            let taken = mine.saturating_sub(untaken);
            self.figures.copies += taken as u64;
            self.figures.clones += taken as u64;
            if sent.is_ok() {
                continue;
            }
            // The interface is down or gone: its socket goes with all that it has not taken, which the
            // other socket then sends, or refuses to.
            self.figures.missed += 1;
            let left = self.waiting.iter().filter(|(of, ..)| *of == at).skip(taken);
            for (_, frame, to, length) in left {
                let header = known.link.bytes() + if canonical(*to).is_ipv4() { 28 } else { 48 };
                self.scratch.clear();
                self.scratch.extend_from_slice(&xsk.bytes(*frame)[header..header + length]);
                outcome = by_socket(&mut self.figures, socket, *to, &self.scratch).and(outcome);
            }
            known.xsk = None;
            known.since = self.now;
            self.ways.forget();
            self.receivers.doubt(self.now);
        }
        self.waiting.clear();
        outcome
    }

    /// What it did; a clone is a frame, a carrier a call of the kernel.
    pub fn figures(&self) -> PlaneFigures {
        self.figures
    }

    /// Closes its sockets, as if their interfaces had gone.
    pub fn detach(&mut self) {
        for known in &mut self.attached {
            (known.xsk, known.waiting) = (None, 0);
            known.since = self.now;
        }
        self.waiting.clear();
    }
}

/// Where packets come from: the socket's own address, or the route's; none where neither says.
fn source(own: SocketAddr, way: &Way, to: IpAddr) -> Option<IpAddr> {
    let own = own.ip().to_canonical();
    let source = if own.is_unspecified() { way.source } else { own };
    (!source.is_unspecified() && source.is_ipv4() == to.is_ipv4()).then_some(source)
}

/// Writes a frame; the caller has seen to its room.
pub(crate) fn write(
    frame: &mut [u8],
    (link, to, from): (LinkLayer, [u8; 6], [u8; 6]),
    (source, receiver): (SocketAddr, SocketAddr),
    bytes: &[u8],
) {
    let udp_length = (8 + bytes.len()) as u16;
    let rest = match link {
        LinkLayer::Bare => frame,
        LinkLayer::Ethernet | LinkLayer::Loopback => {
            let kind: u16 = if receiver.is_ipv4() { 0x0800 } else { 0x86DD };
            frame[..6].copy_from_slice(&to);
            frame[6..12].copy_from_slice(&from);
            frame[12..14].copy_from_slice(&kind.to_be_bytes());
            &mut frame[14..]
        }
    };
    let (header, addresses) = match (source.ip(), receiver.ip()) {
        (IpAddr::V4(source), IpAddr::V4(receiver)) => {
            let head = &mut rest[..20];
            // Version and length of the header; never in fragments.
            head[..2].copy_from_slice(&[0x45, 0]);
            head[2..4].copy_from_slice(&(20 + udp_length).to_be_bytes());
            head[4..12].copy_from_slice(&[0, 0, 0x40, 0, HOPS, UDP, 0, 0]);
            head[12..16].copy_from_slice(&source.octets());
            head[16..20].copy_from_slice(&receiver.octets());
            let ip = !fold(sum(head));
            head[10..12].copy_from_slice(&ip.to_ne_bytes());
            (20, sum(&head[12..20]))
        }
        (IpAddr::V6(source), IpAddr::V6(receiver)) => {
            let head = &mut rest[..40];
            head[..4].copy_from_slice(&[0x60, 0, 0, 0]);
            head[4..6].copy_from_slice(&udp_length.to_be_bytes());
            head[6..8].copy_from_slice(&[UDP, HOPS]);
            head[8..24].copy_from_slice(&source.octets());
            head[24..40].copy_from_slice(&receiver.octets());
            (40, sum(&head[8..40]))
        }
        // The caller takes care of it.
        _ => (0, 0),
    };
    let udp = &mut rest[header..header + usize::from(udp_length)];
    udp[..2].copy_from_slice(&source.port().to_be_bytes());
    udp[2..4].copy_from_slice(&receiver.port().to_be_bytes());
    udp[4..6].copy_from_slice(&udp_length.to_be_bytes());
    udp[6..8].fill(0);
    udp[8..].copy_from_slice(bytes);
    let pseudo = addresses + sum(&[0, UDP]) + sum(&udp_length.to_be_bytes());
    // Of where they came from: what was just written is not at hand yet.
    let check = !fold(pseudo + sum(&udp[..8]) + sum(bytes));
    let check = if check == 0 { 0xFFFF } else { check };
    udp[6..8].copy_from_slice(&check.to_ne_bytes());
}
