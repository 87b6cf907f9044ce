//! The data plane `dpdk`: frames built here and handed to a driver of DPDK by bursts.
//!
//! The driver is `net_af_packet`, which works over every interface of the kernel's and leaves addresses, routes
//! and neighbours to it: frames go into a ring of a packet socket, past the stack, by one call for a burst. It
//! sends only; what comes in takes the socket, as with every plane. The environment is started once in a
//! process, without huge pages, and changes neither cores nor signals.

#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::afxdp::source;
use super::clone::{by_socket, canonical};
use super::receivers::Receivers;
use super::template::Template;
use super::ways::{LinkLayer, Way, Ways};
use super::{PlaneError, PlaneFigures, PlaneKind};

/// After this an interface that refused is tried again.
const OPEN_AGAIN: Duration = Duration::from_millis(500);
/// Interfaces at most.
const INTERFACES_MAX: usize = 8;
/// Bytes of a frame, as in the shim.
const FRAME: usize = 2_048;

/// A port of the shim's.
#[repr(C)]
struct RawPort {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn fairbell_dpdk_start(count: c_int, arguments: *mut *mut c_char) -> c_int;
    fn fairbell_dpdk_open(
        name: *const c_char,
        arguments: *const c_char,
        opened: *mut *mut RawPort,
    ) -> c_int;
    fn fairbell_dpdk_close(of: *mut RawPort);
    fn fairbell_dpdk_frame(of: *mut RawPort) -> *mut u8;
    fn fairbell_dpdk_push(of: *mut RawPort, bytes: u16);
    fn fairbell_dpdk_pushed(of: *mut RawPort, at: u32) -> *const u8;
    fn fairbell_dpdk_send(of: *mut RawPort, calls: *mut u64) -> u32;
}

/// Starts the environment once; the error's number where that failed.
fn start() -> Result<(), i32> {
    static STARTED: OnceLock<Result<(), i32>> = OnceLock::new();
    *STARTED.get_or_init(|| {
        // It puts the thread that starts it onto one core.
        let before = sched_getaffinity(None).map_err(|error| error.raw_os_error())?;
        let core = (0..CpuSet::MAX_CPU).find(|core| before.is_set(*core)).unwrap_or(0);
        let core = core.to_string();
        let arguments = [
            "fairbell",
            "-l",
            &core,
            "--no-huge",
            "-m",
            "64",
            "--in-memory",
            "--no-pci",
            "--no-telemetry",
            "--iova-mode=va",
            "--log-level=critical",
        ];
        let owned: Vec<CString> =
            arguments.iter().filter_map(|text| CString::new(*text).ok()).collect();
        let mut pointers: Vec<*mut c_char> =
            owned.iter().map(|text| text.as_ptr().cast_mut()).collect();
        pointers.push(std::ptr::null_mut());
        // The library keeps what it was given.
        std::mem::forget(owned);
        let pointers = Box::leak(pointers.into_boxed_slice());
        // SAFETY: as many texts as are counted, each ended by a zero, and a null behind them; they are never
        // freed. This runs once in a process.
        let failed =
            unsafe { fairbell_dpdk_start(arguments.len() as c_int, pointers.as_mut_ptr()) };
        let _ = sched_setaffinity(None, &before);
        if failed == 0 { Ok(()) } else { Err(failed) }
    })
}

/// A device over one interface.
pub(crate) struct Port {
    raw: NonNull<RawPort>,
    /// Bursts of frames handed to the device so far.
    pub calls: u64,
}

// SAFETY: the shim ties a port to no thread; all calls need this value, and those that change it `&mut`.
unsafe impl Send for Port {}

impl Port {
    /// A device over an interface of the calling thread's namespace.
    ///
    /// # Errors
    /// The step and the library's error.
    pub fn open(interface: &str) -> Result<Port, (&'static str, io::Error)> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let failed = |step, code| (step, io::Error::from_raw_os_error(code));
        start().map_err(|code| failed("starting the environment of DPDK", code))?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let step = "making a device of net_af_packet";
        let texts = (
            CString::new(format!("net_af_packet{number}")),
            CString::new(format!(
                "iface={interface},qpairs=1,framesz=2048,framecnt=512,blocksz=4096"
            )),
        );
        let (Ok(name), Ok(arguments)) = texts else { return Err(failed(step, libc::EINVAL)) };
        let mut raw = std::ptr::null_mut();
        // SAFETY: two texts ended by zeros, which live as long as the call, and a place for its result; the
        // environment has been started.
        let code = unsafe { fairbell_dpdk_open(name.as_ptr(), arguments.as_ptr(), &raw mut raw) };
        if code != 0 {
            return Err(failed(step, code));
        }
        let raw = NonNull::new(raw).ok_or_else(|| failed(step, libc::ENODEV))?;
        Ok(Port { raw, calls: 0 })
    }

    /// Room for the next frame; `None` while all are on their way.
    #[inline]
    pub fn frame(&mut self) -> Option<&mut [u8]> {
        // SAFETY: the port is open; the shim gives room of this size that no driver has, and it is not given
        // again before it was pushed, which needs `&mut self`, too.
        unsafe {
            let room = NonNull::new(fairbell_dpdk_frame(self.raw.as_ptr()))?;
            Some(std::slice::from_raw_parts_mut(room.as_ptr(), FRAME))
        }
    }

    /// Has the frame that was given last go, of so many bytes, with the next [`Port::send`].
    #[inline]
    pub fn push(&mut self, bytes: usize) {
        // SAFETY: the port is open; callers push a frame that they were given.
        unsafe { fairbell_dpdk_push(self.raw.as_ptr(), bytes.min(FRAME) as u16) }
    }

    /// Sends what was pushed; how many went, from the first.
    pub fn send(&mut self) -> usize {
        // SAFETY: the port is open; the counter is ours.
        unsafe { fairbell_dpdk_send(self.raw.as_ptr(), &raw mut self.calls) as usize }
    }

    /// The start of a frame that was among the last ones sent or refused.
    fn pushed(&self, at: usize, bytes: usize) -> &[u8] {
        // SAFETY: the port is open; the buffer is of its pool and has this room; no driver writes into what
        // it sends, and writing it anew needs `&mut self`.
        unsafe {
            let start = fairbell_dpdk_pushed(self.raw.as_ptr(), at as u32);
            NonNull::new(start.cast_mut())
                .map_or(&[], |start| std::slice::from_raw_parts(start.as_ptr(), bytes.min(FRAME)))
        }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // SAFETY: it is open, and nobody has it after this.
        unsafe { fairbell_dpdk_close(self.raw.as_ptr()) }
    }
}

/// An interface and its device.
struct Attached {
    interface: u32,
    name: String,
    link: LinkLayer,
    hardware: [u8; 6],
    mtu: usize,
    port: Option<Port>,
    /// Of the frames pushed and not sent: receiver, and bytes of the datagram.
    waiting: Vec<(SocketAddr, usize)>,
    /// When it was opened or tried last.
    since: Instant,
}

struct Roads {
    own: SocketAddr,
    ways: Ways,
    attached: Vec<Attached>,
    now: Instant,
}

/// The plane of one socket.
pub(crate) struct Dpdk {
    roads: Roads,
    receivers: Receivers<Template>,
    scratch: Vec<u8>,
    figures: PlaneFigures,
}

impl Dpdk {
    /// A plane for what `socket` sends to `peers` above all.
    ///
    /// # Errors
    /// What is missing, in a line.
    pub fn open(socket: &UdpSocket, peers: &[SocketAddr]) -> Result<Dpdk, PlaneError> {
        let failed = |step| move |error| PlaneError::new(PlaneKind::Dpdk, step, &error);
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
            Port::open("lo")
                .map_err(|(step, error)| PlaneError::new(PlaneKind::Dpdk, step, &error))?;
        }
        Ok(Dpdk {
            roads,
            receivers: Receivers::default(),
            scratch: Vec::with_capacity(types::limits::DATAGRAM_MAX),
            figures: PlaneFigures::default(),
        })
    }

    /// As [`super::DataPlane::send`].
    pub fn send(&mut self, socket: &UdpSocket, to: SocketAddr, bytes: &[u8]) -> io::Result<()> {
        let Dpdk { roads, receivers, .. } = self;
        let Some(template) = receivers.way(to, roads.now, |to| roads.template(to)) else {
            self.figures.refreshed = self.receivers.refreshed;
            return self.past(socket, to, bytes);
        };
        let Some(known) = roads.attached.get_mut(template.at) else {
            return self.past(socket, to, bytes);
        };
        let length = template.header_bytes() + bytes.len();
        let fits = length <= FRAME && length - template.link_bytes() <= known.mtu;
        let Some(port) = known.port.as_mut().filter(|_| fits) else {
            return self.past(socket, to, bytes);
        };
        let Some(frame) = port.frame() else { return self.past(socket, to, bytes) };
        template.write(frame, bytes);
        port.push(length);
        known.waiting.push((to, bytes.len()));
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
            let Some(port) = &mut known.port else {
                if now.duration_since(known.since) >= OPEN_AGAIN {
                    known.since = now;
                    known.port = Port::open(&known.name).ok();
                    self.figures.attached_again += u64::from(known.port.is_some());
                }
                continue;
            };
            if known.waiting.is_empty() {
                continue;
            }
            let before = port.calls;
            let sent = port.send();
            self.figures.carriers += port.calls - before;
            self.figures.copies += sent as u64;
            self.figures.clones += sent as u64;
            if sent < known.waiting.len() {
                // The interface is down or gone: its device goes with all that is in its ring, which the
                // socket then sends, or refuses to.
                self.figures.missed += 1;
                for (at, (to, bytes)) in known.waiting.iter().enumerate().skip(sent) {
                    let ip = if canonical(*to).is_ipv4() { 28 } else { 48 };
                    let header = known.link.bytes() + ip;
                    self.scratch.clear();
                    let frame = port.pushed(at, header + bytes);
                    self.scratch.extend_from_slice(frame.get(header..).unwrap_or(&[]));
                    let sent = by_socket(&mut self.figures, socket, *to, &self.scratch);
                    outcome = sent.and(outcome);
                }
                known.port = None;
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

    /// What it did; a clone is a frame, a carrier a burst.
    pub fn figures(&self) -> PlaneFigures {
        self.figures
    }

    /// Closes its devices, as if their interfaces had gone.
    pub fn detach(&mut self) {
        for known in &mut self.roads.attached {
            known.port = None;
            known.waiting.clear();
            known.since = self.roads.now;
        }
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
        let failed = |step, error| PlaneError::new(PlaneKind::Dpdk, step, &error);
        if self.attached.len() >= INTERFACES_MAX {
            let error = io::Error::other(format!("more than {INTERFACES_MAX} interfaces"));
            return Err(failed("opening a device", error));
        }
        let found = self.ways.interface(interface);
        let found = found.map_err(|error| failed("asking for the interface", error))?.clone();
        let port = Port::open(&found.name).map_err(|(step, error)| failed(step, error))?;
        self.attached.push(Attached {
            interface,
            name: found.name,
            link: found.link,
            hardware: found.address,
            mtu: found.mtu as usize,
            port: Some(port),
            waiting: Vec::new(),
            since: self.now,
        });
        Ok(self.attached.len() - 1)
    }
}
