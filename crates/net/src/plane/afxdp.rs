//! The data plane `af_xdp`: frames built here and put into the interface's ring, past the kernel's stack.
//!
//! It sends only; what comes in takes the socket, as with every plane. So does what stays on the machine.
//! Frames are copied into buffers of the kernel's, which works with every interface. Datagrams that don't fit
//! a frame take the socket, too.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use super::clone::{by_socket, canonical};
use super::receivers::Receivers;
use super::template::Template;
use super::ways::{LinkLayer, Way, Ways};
use super::xsk::{FRAME, Xsk};
use super::{PlaneError, PlaneFigures, PlaneKind};

/// After this an interface that refused is tried again.
const OPEN_AGAIN: Duration = Duration::from_millis(500);
/// Interfaces at most.
const INTERFACES_MAX: usize = 8;

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

/// What is known of the interfaces that frames leave by.
struct Roads {
    own: SocketAddr,
    ways: Ways,
    attached: Vec<Attached>,
    now: Instant,
}

/// A frame that is pushed and not sent: its interface's place, number, receiver and bytes of the datagram.
struct Waiting {
    at: usize,
    frame: u32,
    bytes: u32,
    to: SocketAddr,
}

/// The plane of one socket.
pub(crate) struct AfXdp {
    roads: Roads,
    receivers: Receivers<Template>,
    waiting: Vec<Waiting>,
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
        let ways = Ways::open().map_err(failed("asking for routes"))?;
        let mut roads = Roads { own, ways, attached: Vec::new(), now: Instant::now() };
        for to in peers {
            if let Some(way) = roads.way(*to) {
                roads.attach(way.interface)?;
            }
        }
        if roads.attached.is_empty() {
            // Whether it could be done shows on an interface that each machine has.
            if let Ok(Some(way)) = roads.ways.to(std::net::Ipv4Addr::LOCALHOST.into()) {
                roads.attach(way.interface)?;
                roads.attached.clear();
            }
        }
        Ok(AfXdp {
            roads,
            receivers: Receivers::default(),
            waiting: Vec::with_capacity(super::xsk::FRAMES as usize),
            scratch: Vec::with_capacity(types::limits::DATAGRAM_MAX),
            figures: PlaneFigures::default(),
        })
    }

    /// As [`super::DataPlane::send`].
    pub fn send(&mut self, socket: &UdpSocket, to: SocketAddr, bytes: &[u8]) -> io::Result<()> {
        let AfXdp { roads, receivers, .. } = self;
        let Some(template) = receivers.way(to, roads.now, |to| roads.template(to)) else {
            self.figures.refreshed = self.receivers.refreshed;
            return self.past(socket, to, bytes);
        };
        let at = template.at;
        let Some(known) = roads.attached.get_mut(at) else { return self.past(socket, to, bytes) };
        let length = template.header_bytes() + bytes.len();
        let fits = length <= FRAME && length - template.link_bytes() <= known.mtu;
        let xsk = known.xsk.as_mut().filter(|_| fits);
        let Some((frame, xsk)) = xsk.and_then(|xsk| Some((xsk.frame()?, xsk))) else {
            return self.past(socket, to, bytes);
        };
        template.write(xsk.bytes(frame), bytes);
        xsk.push(frame, length);
        known.waiting += 1;
        self.waiting.push(Waiting { at, frame, bytes: bytes.len() as u32, to });
        Ok(())
    }

    /// By the socket, behind what waits.
    #[cold]
    fn past(&mut self, socket: &UdpSocket, to: SocketAddr, bytes: &[u8]) -> io::Result<()> {
        self.flush(socket)?;
        by_socket(&mut self.figures, socket, to, bytes)
    }

    /// As [`super::DataPlane::flush`].
    pub fn flush(&mut self, socket: &UdpSocket) -> io::Result<()> {
        self.roads.now = Instant::now();
        let now = self.roads.now;
        let (mut outcome, mut doubtful) = (Ok(()), false);
        for (at, known) in self.roads.attached.iter_mut().enumerate() {
            let Some(xsk) = &mut known.xsk else {
                if now.duration_since(known.since) >= OPEN_AGAIN {
                    known.since = now;
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
            for left in self.waiting.iter().filter(|left| left.at == at).skip(taken) {
                let ip = if canonical(left.to).is_ipv4() { 28 } else { 48 };
                let header = known.link.bytes() + ip;
                let datagram = header..header + left.bytes as usize;
                self.scratch.clear();
                self.scratch.extend_from_slice(&xsk.bytes(left.frame)[datagram]);
                let sent = by_socket(&mut self.figures, socket, left.to, &self.scratch);
                outcome = sent.and(outcome);
            }
            known.xsk = None;
            known.since = now;
            doubtful = true;
        }
        self.waiting.clear();
        if doubtful {
            self.roads.ways.forget();
            self.receivers.doubt(now);
        }
        outcome
    }

    /// What it did; a clone is a frame, a carrier a call of the kernel.
    pub fn figures(&self) -> PlaneFigures {
        self.figures
    }

    /// Closes its sockets, as if their interfaces had gone.
    pub fn detach(&mut self) {
        for known in &mut self.roads.attached {
            (known.xsk, known.waiting) = (None, 0);
            known.since = self.roads.now;
        }
        self.waiting.clear();
    }
}

impl Roads {
    /// The way to an address, but for the loopback interface: the stack takes no packet of its addresses
    /// that has not come through itself.
    fn way(&mut self, to: SocketAddr) -> Option<Way> {
        let way = self.ways.to(canonical(to).ip()).ok()??;
        let link = self.ways.interface(way.interface).ok()?.link;
        (link != LinkLayer::Loopback).then_some(way)
    }

    /// What frames to a receiver begin with.
    fn template(&mut self, to: SocketAddr) -> Option<Template> {
        let way = self.way(to)?;
        let at = self.attach(way.interface).ok()?;
        let known = self.attached.get(at)?;
        let to = canonical(to);
        let from = SocketAddr::new(source(self.own, &way, to.ip())?, self.own.port());
        Some(Template::new(at, (known.link, way.hardware, known.hardware), (from, to)))
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
}

/// Where packets come from: the socket's own address, or the route's; none where neither says.
pub(crate) fn source(own: SocketAddr, way: &Way, to: IpAddr) -> Option<IpAddr> {
    let own = own.ip().to_canonical();
    let source = if own.is_unspecified() { way.source } else { own };
    (!source.is_unspecified() && source.is_ipv4() == to.is_ipv4()).then_some(source)
}
