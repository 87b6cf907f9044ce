//! Data planes that build frames and give them to a device, past the kernel's stack: `af_xdp` and `dpdk`.
//!
//! They send only; what comes in takes the socket, as with every plane. So does what stays on the machine.
//! Frames are copied into buffers of the device's, which works with every interface. Datagrams that don't fit
//! a frame take the socket, too.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use super::clone::{by_socket, canonical};
use super::receivers::Receivers;
use super::template::Template;
use super::ways::{LinkLayer, Way, Ways};
use super::{PlaneError, PlaneFigures, PlaneKind};

/// After this an interface that refused is tried again.
const OPEN_AGAIN: Duration = Duration::from_millis(500);
/// Interfaces at most.
const INTERFACES_MAX: usize = 8;

/// What puts frames onto one interface.
pub(crate) trait FrameDevice: Sized {
    /// The plane that is made of such devices.
    const KIND: PlaneKind;
    /// The kernel that it needs: major and minor version.
    const KERNEL: (u32, u32);
    /// Bytes of a frame, and how many are on their way at most.
    const FRAME: usize;
    const FRAMES: usize;

    /// A device over an interface, by its number and name, of the calling thread's namespace.
    ///
    /// # Errors
    /// The step and the system's answer; `EBUSY` where somebody else has it.
    fn open(interface: u32, name: &str) -> Result<Self, (&'static str, io::Error)>;

    /// Has a frame of so many bytes, which `write` fills, go with the next [`FrameDevice::send`]; its number.
    /// `None`, and nothing is written, while all are on their way.
    fn push(&mut self, length: usize, write: impl FnOnce(&mut [u8])) -> Option<u32>;

    /// Sends the `pushed` frames that wait.
    ///
    /// # Errors
    /// The interface refuses; how many of them have gone, from the first.
    fn send(&mut self, pushed: usize) -> Result<(), usize>;

    /// The bytes of a frame that was refused: of its place among those pushed, and its number.
    fn refused(&mut self, at: usize, frame: u32, length: usize) -> &[u8];

    /// Calls by which frames were sent so far.
    fn calls(&self) -> u64;
}

/// A frame that is pushed and not sent: its number, its receiver and the bytes of the datagram.
struct Waiting {
    frame: u32,
    to: SocketAddr,
    bytes: usize,
}

/// An interface and its device.
struct Attached<D> {
    interface: u32,
    name: String,
    link: LinkLayer,
    hardware: [u8; 6],
    mtu: usize,
    device: Option<D>,
    waiting: Vec<Waiting>,
    /// When it was opened or tried last.
    since: Instant,
}

/// What is known of the interfaces that frames leave by.
struct Roads<D> {
    own: SocketAddr,
    ways: Ways,
    attached: Vec<Attached<D>>,
    now: Instant,
}

/// The plane of one socket.
pub(crate) struct FramePlane<D> {
    roads: Roads<D>,
    receivers: Receivers<Template>,
    scratch: Vec<u8>,
    figures: PlaneFigures,
}

impl<D: FrameDevice> FramePlane<D> {
    /// A plane for what `socket` sends to `peers` above all.
    ///
    /// # Errors
    /// What is missing, in a line.
    pub fn open(socket: &UdpSocket, peers: &[SocketAddr]) -> Result<FramePlane<D>, PlaneError> {
        PlaneError::check_kernel(D::KIND, D::KERNEL)?;
        let failed = |step| move |error| PlaneError::new(D::KIND, step, &error);
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
        Ok(FramePlane {
            roads,
            receivers: Receivers::default(),
            scratch: Vec::with_capacity(types::limits::DATAGRAM_MAX),
            figures: PlaneFigures::default(),
        })
    }

    /// As [`super::DataPlane::send`].
    pub fn send(&mut self, socket: &UdpSocket, to: SocketAddr, bytes: &[u8]) -> io::Result<()> {
        let FramePlane { roads, receivers, .. } = self;
        let Some(template) = receivers.way(to, roads.now, |to| roads.template(to)) else {
            self.figures.refreshed = self.receivers.refreshed;
            return self.past(socket, to, bytes);
        };
        let Some(known) = roads.attached.get_mut(template.at) else {
            return self.past(socket, to, bytes);
        };
        let length = template.header_bytes() + bytes.len();
        let fits = length <= D::FRAME && length - template.link_bytes() <= known.mtu;
        let device = known.device.as_mut().filter(|_| fits);
        let frame = device.and_then(|of| of.push(length, |room| template.write(room, bytes)));
        let Some(frame) = frame else { return self.past(socket, to, bytes) };
        known.waiting.push(Waiting { frame, to, bytes: bytes.len() });
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
        for known in &mut self.roads.attached {
            let Some(device) = &mut known.device else {
                if now.duration_since(known.since) >= OPEN_AGAIN {
                    known.since = now;
                    known.device = D::open(known.interface, &known.name).ok();
                    self.figures.attached_again += u64::from(known.device.is_some());
                }
                continue;
            };
            let pushed = known.waiting.len();
            if pushed == 0 {
                continue;
            }
            let before = device.calls();
            let sent = device.send(pushed);
            self.figures.carriers += device.calls() - before;
            let taken = sent.err().unwrap_or(pushed);
            self.figures.copies += taken as u64;
            self.figures.clones += taken as u64;
            if sent.is_err() {
                // The interface is down or gone: its device goes with all that it has not taken, which the
                // socket then sends, or refuses to.
                self.figures.missed += 1;
                for (at, left) in known.waiting.iter().enumerate().skip(taken) {
                    let ip = if canonical(left.to).is_ipv4() { 28 } else { 48 };
                    let header = known.link.bytes() + ip;
                    let frame = device.refused(at, left.frame, header + left.bytes);
                    self.scratch.clear();
                    self.scratch.extend_from_slice(frame.get(header..).unwrap_or(&[]));
                    let sent = by_socket(&mut self.figures, socket, left.to, &self.scratch);
                    outcome = sent.and(outcome);
                }
                known.device = None;
                known.since = now;
                doubtful = true;
            }
            known.waiting.clear();
        }
        if doubtful {
            self.roads.ways.forget();
            self.receivers.doubt(now);
        }
        outcome
    }

    /// What it did; a clone is a frame, a carrier a call that sends.
    pub fn figures(&self) -> PlaneFigures {
        self.figures
    }

    /// Closes its devices, as if their interfaces had gone.
    pub fn detach(&mut self) {
        for known in &mut self.roads.attached {
            known.device = None;
            known.waiting.clear();
            known.since = self.roads.now;
        }
    }
}

impl<D: FrameDevice> Roads<D> {
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
        let failed = |step, error| PlaneError::new(D::KIND, step, &error);
        if self.attached.len() >= INTERFACES_MAX {
            let error = io::Error::other(format!("more than {INTERFACES_MAX} interfaces"));
            return Err(failed("opening an interface", error));
        }
        let found = self.ways.interface(interface);
        let found = found.map_err(|error| failed("asking for the interface", error))?.clone();
        // A device that was closed a moment ago goes a moment later.
        let begun = Instant::now();
        let device = loop {
            match D::open(interface, &found.name) {
                Ok(device) => break device,
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
            name: found.name,
            link: found.link,
            hardware: found.address,
            mtu: found.mtu as usize,
            device: Some(device),
            waiting: Vec::with_capacity(D::FRAMES),
            since: self.now,
        });
        Ok(self.attached.len() - 1)
    }
}

/// Where packets come from: the socket's own address, or the route's; none where neither says.
fn source(own: SocketAddr, way: &Way, to: IpAddr) -> Option<IpAddr> {
    let own = own.ip().to_canonical();
    let source = if own.is_unspecified() { way.source } else { own };
    (!source.is_unspecified() && source.is_ipv4() == to.is_ipv4()).then_some(source)
}
