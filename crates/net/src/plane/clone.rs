//! The data plane `tc-clone`: one datagram through the stack, cloned at the egress for all receivers.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use super::bpf::{self, Place};
use super::egress::Egress;
use super::memory::Memory;
use super::receivers::Receivers;
use super::table::{Gathered, TABLE};
use super::ways::{Way, Ways};
use super::{PlaneError, PlaneFigures, PlaneKind};

/// After this a program that did not see its packet is attached again.
const ATTACH_AGAIN: Duration = Duration::from_millis(500);
/// Interfaces times versions of IP.
const PROGRAMS_MAX: usize = 16;

/// A program on an interface.
struct Attached {
    interface: u32,
    egress: Egress,
    table: Memory,
    program: OwnedFd,
    /// Holds the program there.
    link: Option<OwnedFd>,
    /// Packets in a row that it did not see, and when it was attached last.
    missed: u32,
    since: Instant,
}

/// The plane of one socket.
pub(crate) struct TcClone {
    port: u16,
    ways: Ways,
    attached: Vec<Attached>,
    receivers: Receivers<(Way, usize)>,
    gathered: Gathered,
    /// The program that they are gathered for.
    of: usize,
    now: Instant,
    scratch: Vec<u8>,
    figures: PlaneFigures,
}

impl TcClone {
    /// A plane for what `socket` sends; programs are attached where packets to `peers` leave.
    ///
    /// # Errors
    /// What is missing, in a line.
    pub fn open(socket: &UdpSocket, peers: &[SocketAddr]) -> Result<TcClone, PlaneError> {
        let kind = PlaneKind::TcClone;
        PlaneError::check_kernel(kind, (6, 6))?;
        let failed = |step| move |error| PlaneError::new(kind, step, &error);
        let port = socket.local_addr().map_err(failed("asking for the socket's port"))?.port();
        let ways = Ways::open().map_err(failed("asking for routes"))?;
        let mut plane = TcClone {
            port,
            ways,
            attached: Vec::new(),
            receivers: Receivers::default(),
            gathered: Gathered::new(),
            of: 0,
            now: Instant::now(),
            scratch: Vec::with_capacity(types::limits::DATAGRAM_MAX),
            figures: PlaneFigures::default(),
        };
        for to in peers {
            // A peer without a way now may have one later.
            if let Ok(Some(way)) = plane.ways.to(to.ip().to_canonical()) {
                plane.attach(way.interface, canonical(*to).is_ipv6())?;
            }
        }
        if plane.attached.is_empty() {
            // Whether it could be done shows on an interface that each machine has.
            let local = std::net::Ipv4Addr::LOCALHOST.into();
            if let Ok(Some(way)) = plane.ways.to(local) {
                plane.attach(way.interface, false)?;
                plane.attached.clear();
            }
        }
        Ok(plane)
    }

    /// The place of the program for an interface and a version of IP.
    fn attach(&mut self, interface: u32, is_v6: bool) -> Result<usize, PlaneError> {
        let known = |one: &Attached| one.interface == interface && one.egress.is_v6 == is_v6;
        if let Some(at) = self.attached.iter().position(known) {
            return Ok(at);
        }
        let failed = |step| move |error| PlaneError::new(PlaneKind::TcClone, step, &error);
        if self.attached.len() >= PROGRAMS_MAX {
            let error = io::Error::other(format!("more than {PROGRAMS_MAX} interfaces"));
            return Err(failed("attaching a program")(error));
        }
        let link = self.ways.interface(interface).map_err(failed("asking for the interface"))?.link;
        let egress = Egress { link, is_v6, port: self.port };
        let map = bpf::map(TABLE as u32).map_err(failed("making a map"))?;
        let table = Memory::of(&map, TABLE, 0).map_err(failed("mapping a map"))?;
        let program = egress.program(map.as_raw_fd());
        let program = bpf::load("fairbell_clone", Place::Egress, &program);
        let program = program.map_err(failed("loading the program"))?;
        let link = bpf::attach(&program, interface, Place::Egress);
        let link = Some(link.map_err(failed("attaching the program"))?);
        let since = self.now;
        self.attached.push(Attached { interface, egress, table, program, link, missed: 0, since });
        Ok(self.attached.len() - 1)
    }

    /// The way to a receiver and its program; none while a socket knows better.
    fn way(&mut self, to: SocketAddr) -> Option<(Way, usize)> {
        let mut receivers = std::mem::take(&mut self.receivers);
        let way = receivers.way(to, self.now, |to| self.ask(to)).copied();
        self.receivers = receivers;
        self.figures.refreshed = self.receivers.refreshed;
        way
    }

    fn ask(&mut self, to: SocketAddr) -> Option<(Way, usize)> {
        let to = canonical(to);
        let way = self.ways.to(to.ip()).ok()??;
        let program = self.attach(way.interface, to.is_ipv6()).ok()?;
        Some((way, program))
    }

    /// As [`super::DataPlane::send`].
    pub fn send(&mut self, socket: &UdpSocket, to: SocketAddr, bytes: &[u8]) -> io::Result<()> {
        let Some((way, program)) = self.way(to) else {
            self.flush(socket)?;
            return by_socket(&mut self.figures, socket, to, bytes);
        };
        let fits = |gathered: &Gathered| gathered.fits(canonical(to), bytes);
        let alone = self.gathered.receivers().is_empty();
        if !(fits(&self.gathered) && (alone || self.of == program)) {
            self.flush(socket)?;
            if !fits(&self.gathered) {
                return by_socket(&mut self.figures, socket, to, bytes);
            }
        }
        self.of = program;
        let Some(attached) = self.attached.get(program) else { return Ok(()) };
        self.gathered.add(attached.table.words(), canonical(to), way.hardware, bytes);
        Ok(())
    }

    /// As [`super::DataPlane::flush`].
    pub fn flush(&mut self, socket: &UdpSocket) -> io::Result<()> {
        let Some(to) = self.gathered.receivers().last().copied() else { return Ok(()) };
        self.now = Instant::now();
        let count = self.gathered.receivers().len();
        let Some(attached) = self.attached.get_mut(self.of) else { return Ok(()) };
        if count == 1 {
            let sent = by_socket(&mut self.figures, socket, to, self.gathered.carrier());
            self.gathered.clear();
            return sent;
        }
        let table = attached.table.words();
        self.gathered.arm(table, attached.egress.before());
        let sent = socket.send_to(self.gathered.carrier(), to);
        match Gathered::disarm(table) {
            Some(cloned) => {
                attached.missed = 0;
                self.figures.clones += cloned as u64;
                self.figures.copies += 1 + cloned as u64;
                self.figures.carriers += 1;
                self.figures.dropped += (count - 1).saturating_sub(cloned) as u64;
                self.gathered.clear();
                sent.map(drop)
            }
            None => {
                // Detached, another way, or waiting for its neighbour: the others get theirs one by one.
                self.figures.missed += 1;
                attached.missed += 1;
                let mut outcome = sent.map(drop);
                self.figures.copies += u64::from(outcome.is_ok());
                for at in 0..count - 1 {
                    let to = self.gathered.receivers()[at];
                    let table = attached.table.words();
                    self.gathered.datagram(table, at, &mut self.scratch);
                    let sent = by_socket(&mut self.figures, socket, to, &self.scratch);
                    outcome = outcome.and(sent);
                }
                self.gathered.clear();
                self.mend();
                outcome
            }
        }
    }

    /// Attaches the program anew that did not see its packet, and has all ways asked for again.
    fn mend(&mut self) {
        let now = self.now;
        let Some(attached) = self.attached.get_mut(self.of) else { return };
        if now.duration_since(attached.since) < ATTACH_AGAIN {
            return;
        }
        attached.since = now;
        attached.link = None;
        // An interface that has gone: its receivers have another way, which will be found.
        attached.link = bpf::attach(&attached.program, attached.interface, Place::Egress).ok();
        self.ways.forget();
        self.receivers.doubt(now);
        self.figures.attached_again += 1;
    }

    /// What it did.
    pub fn figures(&self) -> PlaneFigures {
        self.figures
    }

    /// Takes its programs off their interfaces, as an administrator might.
    ///
    /// # Errors
    /// The kernel's.
    pub fn detach(&self) -> io::Result<()> {
        self.attached.iter().filter_map(|one| one.link.as_ref()).try_for_each(bpf::detach)
    }
}

/// Sends a datagram through its socket, counted.
pub(crate) fn by_socket(
    figures: &mut PlaneFigures,
    socket: &UdpSocket,
    to: SocketAddr,
    bytes: &[u8],
) -> io::Result<()> {
    socket.send_to(bytes, to)?;
    figures.by_socket += 1;
    figures.copies += 1;
    Ok(())
}

/// An address of IPv4 as such, also where a socket of both versions has it in that of IPv6.
pub(crate) fn canonical(at: SocketAddr) -> SocketAddr {
    SocketAddr::new(at.ip().to_canonical(), at.port())
}
