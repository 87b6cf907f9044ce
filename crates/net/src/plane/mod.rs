//! Data planes: how overlay datagrams get from a socket to the wire and back.
//!
//! All speak the same bytes, so each node may have another one. Who gets a datagram is decided before:
//! whoever sends calls [`DataPlane::send`] once for each receiver, in order, and [`DataPlane::flush`] when
//! there is nothing more at the moment. What a plane can't do itself goes through the socket that it
//! stands beside, in the same order.
//!
//! - `udp`: what a turn sends leaves by one system call for up to 32 datagrams.
//! - `tc-clone`: one system call for all copies of a datagram; a program at the egress of the interface
//!   clones it and writes into each clone what is its receiver's own ([`COPIES_DIFFER_AT_MOST`]).
//! - `af_xdp`: frames are built here and put into the interface's ring, up to 32 of them by a system call.
//! - `dpdk`: frames are built here and given to a driver of DPDK, by bursts; with the feature `dpdk`.
//!
//! Beside them, in front of the receiving stack: a filter of duplicates ([`DuplicateFilter`]).
//!
//! What a plane attaches is held by descriptors and goes with the process. A program that is taken away, an
//! interface that goes down and comes again: datagrams take the socket until it is there again.

mod asm;
pub mod bare;
mod bpf;
mod clone;
#[cfg(feature = "dpdk")]
mod dpdk;
pub mod drill;
mod egress;
mod filter;
mod frames;
mod memory;
mod outbox;
mod receivers;
mod table;
mod template;
mod ways;
mod xdp;
mod xsk;

use std::fmt;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::str::FromStr;

use clone::TcClone;
pub use filter::{
    Dropped, DuplicateFigures, DuplicateFilter, DuplicateKey, DuplicateModel, Learning, REPORTS,
    WINDOW, interfaces_to,
};
use frames::FramePlane;
use outbox::Outbox;
use xsk::Xsk;

/// Bytes at the start and at the end of a datagram that may differ between copies that are cloned.
pub const COPIES_DIFFER_AT_MOST: (usize, usize) = (table::HEAD, table::TAIL);

/// Which data plane.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PlaneKind {
    /// The socket alone.
    Udp,
    /// Copies are made at the interface's egress.
    TcClone,
    /// Frames go into the interface's ring.
    AfXdp,
    /// Frames go to a driver of DPDK, in programs that were built with it.
    Dpdk,
}

impl PlaneKind {
    /// The planes that there are, in the order of this type.
    pub const ALL: [PlaneKind; 4] =
        [PlaneKind::Udp, PlaneKind::TcClone, PlaneKind::AfXdp, PlaneKind::Dpdk];

    /// Those that this program was built with.
    pub fn built() -> impl Iterator<Item = PlaneKind> {
        let dpdk = cfg!(feature = "dpdk");
        PlaneKind::ALL.into_iter().filter(move |kind| dpdk || *kind != PlaneKind::Dpdk)
    }

    /// Its name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            PlaneKind::Udp => "udp",
            PlaneKind::TcClone => "tc-clone",
            PlaneKind::AfXdp => "af_xdp",
            PlaneKind::Dpdk => "dpdk",
        }
    }
}

impl fmt::Display for PlaneKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PlaneKind {
    type Err = String;

    fn from_str(text: &str) -> Result<PlaneKind, String> {
        let names = || PlaneKind::ALL.map(PlaneKind::name).join(", ");
        let known = PlaneKind::ALL.into_iter().find(|kind| kind.name() == text);
        known.ok_or_else(|| format!("no data plane {text:?}: one of {}", names()))
    }
}

/// Why a data plane can't be had: one line that says what to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlaneError {
    /// `None`: the filter of duplicates.
    kind: Option<PlaneKind>,
    why: String,
}

impl fmt::Display for PlaneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Some(kind) => write!(f, "data plane {kind}: {}", self.why),
            None => write!(f, "filter of duplicates: {}", self.why),
        }
    }
}

impl std::error::Error for PlaneError {}

impl PlaneError {
    fn new(kind: impl Into<Option<PlaneKind>>, step: &str, error: &io::Error) -> PlaneError {
        let kind = kind.into();
        let advice = match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) if kind == Some(PlaneKind::AfXdp) => {
                "; the process needs CAP_NET_RAW (run it as root, or with AmbientCapabilities= of systemd)"
            }
            Some(libc::EPERM | libc::EACCES) if kind != Some(PlaneKind::Dpdk) => {
                "; the process needs CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN (run it as root, or with \
                 AmbientCapabilities= of systemd)"
            }
            _ if kind == Some(PlaneKind::Dpdk) => {
                "; it needs CAP_NET_RAW, an interface that is up, and the library's drivers (libdpdk-dev)"
            }
            Some(libc::EBUSY) if kind == Some(PlaneKind::AfXdp) => {
                "; the interface's first queue has a socket of AF_XDP already: one process and one overlay \
                 node can have it"
            }
            Some(libc::EBUSY) => {
                "; another program is attached to the interface already: `ip link show` names it, \
                 `ip link set dev NAME xdp off` takes it away"
            }
            Some(libc::ENOMEM | libc::ENOBUFS) => {
                "; too little memory may be locked: raise `ulimit -l` (LimitMEMLOCK= of systemd), or give \
                 the process CAP_IPC_LOCK"
            }
            Some(libc::ENOSYS) => "; this kernel has no bpf(2)",
            _ => "",
        };
        PlaneError { kind, why: format!("{step}: {error}{advice}") }
    }

    /// Whether the kernel is of that version or a later one.
    fn check_kernel(
        kind: impl Into<Option<PlaneKind>>,
        needed: (u32, u32),
    ) -> Result<(), PlaneError> {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        match version_of(&release) {
            Some(version) if version < needed => {
                let (major, minor) = needed;
                let why = format!("needs Linux {major}.{minor} or later, this is {release}");
                Err(PlaneError { kind: kind.into(), why })
            }
            _ => Ok(()),
        }
    }
}

/// The first two numbers of a kernel's release.
fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// What a data plane did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PlaneFigures {
    /// Datagrams sent, however.
    pub copies: u64,
    /// Of them clones, or frames of our own making.
    pub clones: u64,
    /// System calls for datagrams that were cloned, or for frames.
    pub carriers: u64,
    /// Of the copies those sent through the socket by themselves.
    pub by_socket: u64,
    /// Clones that the interface refused.
    pub dropped: u64,
    /// Times that the program did not see its datagram, or the interface refused; copies then took the socket.
    pub missed: u64,
    /// Times that it was attached again.
    pub attached_again: u64,
    /// Ways asked for again.
    pub refreshed: u64,
}

/// The data plane of one socket.
pub struct DataPlane {
    plane: Plane,
}

enum Plane {
    Udp(Outbox),
    TcClone(Box<TcClone>),
    AfXdp(Box<FramePlane<Xsk>>),
    #[cfg(feature = "dpdk")]
    Dpdk(Box<FramePlane<dpdk::Port>>),
}

impl DataPlane {
    /// The data plane of a kind for `socket`, which sends to `peers` above all.
    ///
    /// # Errors
    /// Why there is none: a right, the kernel's version, memory, another owner.
    pub fn open(
        kind: PlaneKind,
        socket: &UdpSocket,
        peers: &[SocketAddr],
    ) -> Result<DataPlane, PlaneError> {
        let plane = match kind {
            PlaneKind::Udp => Plane::Udp(Outbox::default()),
            PlaneKind::TcClone => Plane::TcClone(Box::new(TcClone::open(socket, peers)?)),
            PlaneKind::AfXdp => Plane::AfXdp(Box::new(FramePlane::open(socket, peers)?)),
            #[cfg(feature = "dpdk")]
            PlaneKind::Dpdk => Plane::Dpdk(Box::new(FramePlane::open(socket, peers)?)),
            #[cfg(not(feature = "dpdk"))]
            PlaneKind::Dpdk => {
                let why = "this program was built without it (cargo build --features dpdk)";
                return Err(PlaneError { kind: Some(kind), why: why.to_string() });
            }
        };
        Ok(DataPlane { plane })
    }

    /// The first of `kinds` that can be had; `told` hears of each that can't, and what is taken instead.
    ///
    /// # Errors
    /// The last one's, and for none at all.
    pub fn first_of(
        kinds: &[PlaneKind],
        socket: &UdpSocket,
        peers: &[SocketAddr],
        mut told: impl FnMut(&str),
    ) -> Result<DataPlane, PlaneError> {
        let mut outcome = Err(PlaneError {
            kind: Some(PlaneKind::Udp),
            why: "no data plane is named".to_string(),
        });
        for (at, kind) in kinds.iter().enumerate() {
            outcome = DataPlane::open(*kind, socket, peers);
            match (&outcome, kinds.get(at + 1)) {
                (Ok(_), _) => break,
                (Err(error), Some(next)) => told(&format!("{error}; {next} is used instead")),
                (Err(_), None) => {}
            }
        }
        outcome
    }

    /// Which one it is.
    pub fn kind(&self) -> PlaneKind {
        match &self.plane {
            Plane::Udp(_) => PlaneKind::Udp,
            Plane::TcClone(_) => PlaneKind::TcClone,
            Plane::AfXdp(_) => PlaneKind::AfXdp,
            #[cfg(feature = "dpdk")]
            Plane::Dpdk(_) => PlaneKind::Dpdk,
        }
    }

    /// Sends a datagram from `socket`, the one that the plane was made for, now or when it is flushed.
    ///
    /// # Errors
    /// The socket's: about this datagram or, where earlier ones had waited, about one of those.
    pub fn send(&mut self, socket: &UdpSocket, to: SocketAddr, bytes: &[u8]) -> io::Result<()> {
        match &mut self.plane {
            Plane::Udp(outbox) => outbox.send(socket, to, bytes),
            Plane::TcClone(plane) => plane.send(socket, to, bytes),
            Plane::AfXdp(plane) => plane.send(socket, to, bytes),
            #[cfg(feature = "dpdk")]
            Plane::Dpdk(plane) => plane.send(socket, to, bytes),
        }
    }

    /// Sends whatever waits.
    ///
    /// # Errors
    /// As [`DataPlane::send`].
    pub fn flush(&mut self, socket: &UdpSocket) -> io::Result<()> {
        match &mut self.plane {
            Plane::Udp(outbox) => outbox.flush(socket),
            Plane::TcClone(plane) => plane.flush(socket),
            Plane::AfXdp(plane) => plane.flush(socket),
            #[cfg(feature = "dpdk")]
            Plane::Dpdk(plane) => plane.flush(socket),
        }
    }

    /// What it did so far.
    pub fn figures(&self) -> PlaneFigures {
        match &self.plane {
            Plane::Udp(outbox) => outbox.figures(),
            Plane::TcClone(plane) => plane.figures(),
            Plane::AfXdp(plane) => plane.figures(),
            #[cfg(feature = "dpdk")]
            Plane::Dpdk(plane) => plane.figures(),
        }
    }

    /// For drills: takes away what it attached, as an administrator might.
    ///
    /// # Errors
    /// The kernel's.
    #[doc(hidden)]
    pub fn detach(&mut self) -> io::Result<()> {
        match &mut self.plane {
            Plane::Udp(_) => Ok(()),
            Plane::TcClone(plane) => plane.detach(),
            Plane::AfXdp(plane) => {
                plane.detach();
                Ok(())
            }
            #[cfg(feature = "dpdk")]
            Plane::Dpdk(plane) => {
                plane.detach();
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways_and_others_are_refused_with_those_there_are() {
        for kind in PlaneKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        let why = "ebpf".parse::<PlaneKind>().expect_err("unknown");
        assert!(why.contains("\"ebpf\": one of udp, tc-clone, af_xdp, dpdk"), "{why}");
    }

    #[test]
    fn versions_of_kernels_are_read() {
        assert_eq!(version_of("6.18.44-cloud"), Some((6, 18)));
        assert_eq!(version_of("5.10.0"), Some((5, 10)));
        assert_eq!(version_of("linux"), None);
        assert!(PlaneError::check_kernel(PlaneKind::TcClone, (2, 6)).is_ok());
        let why = PlaneError::check_kernel(PlaneKind::TcClone, (9_999, 0)).expect_err("not yet");
        assert!(
            why.to_string().contains("tc-clone: needs Linux 9999.0 or later, this is "),
            "{why}"
        );
    }

    #[test]
    fn each_refusal_says_what_to_do() {
        let of = |code| {
            let error = io::Error::from_raw_os_error(code);
            PlaneError::new(PlaneKind::TcClone, "attaching the program", &error).to_string()
        };
        assert!(of(libc::EPERM).contains("CAP_NET_ADMIN"));
        let refused = io::Error::from_raw_os_error(libc::EPERM);
        let why = PlaneError::new(PlaneKind::AfXdp, "making a socket", &refused).to_string();
        assert!(why.contains("CAP_NET_RAW") && !why.contains("CAP_BPF"), "{why}");
        assert!(of(libc::EBUSY).contains("attached to the interface already"));
        assert!(of(libc::ENOBUFS).contains("ulimit -l"));
        assert!(
            [libc::EPERM, libc::EBUSY, libc::ENOBUFS].iter().all(|code| !of(*code).contains('\n'))
        );
    }
}
