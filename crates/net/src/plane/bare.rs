//! The bare calls that data planes are measured beside, and a sink that tells when frames came to it.
//!
//! For benchmarks alone: nothing here checks, learns or recovers.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;

use super::asm::{Alu, Assembler, Width};
use super::bpf::{self, Place};
use super::clone::canonical;
use super::egress::Egress;
use super::memory::Memory;
use super::table::{COPIES_MAX, ENTRY_WORDS, Gathered, TABLE};
use super::template::Template;
use super::ways::{LinkLayer, Ways};
use super::xdp::{self, DROP, PASS};
use super::xsk::{FRAME, Xsk};
use super::{PlaneError, PlaneKind};

/// A message of one table that is filled once: what cloning costs without all that prepares it.
pub struct BareClone {
    table: Memory,
    before: usize,
    /// A table takes so many; the words of each.
    parts: Vec<(Gathered, Vec<u64>)>,
    _program: OwnedFd,
    _link: OwnedFd,
}

impl BareClone {
    /// A table of these copies, in order; all leave by the interface of the first.
    ///
    /// # Errors
    /// As [`super::DataPlane::open`]; an address whose hardware address is not known.
    pub fn new(
        socket: &UdpSocket,
        copies: &[(SocketAddr, Vec<u8>)],
    ) -> Result<BareClone, PlaneError> {
        let failed = |step| move |error| PlaneError::new(PlaneKind::TcClone, step, &error);
        let port = socket.local_addr().map_err(failed("asking for the socket's port"))?.port();
        let mut ways = Ways::open().map_err(failed("asking for routes"))?;
        let map = bpf::map(TABLE as u32).map_err(failed("making a map"))?;
        let table = Memory::of(&map, TABLE, 0).map_err(failed("mapping a map"))?;
        let (mut parts, mut interface) = (Vec::new(), 0);
        for part in copies.chunks(COPIES_MAX) {
            let mut gathered = Gathered::new();
            for (to, bytes) in part {
                let to = canonical(*to);
                let way = ways.to(to.ip()).map_err(failed("asking for a route"))?;
                let unknown = || io::Error::other(format!("{to}: nothing has been sent there yet"));
                let way = way.ok_or_else(unknown).map_err(failed("asking for a route"))?;
                interface = way.interface;
                gathered.add(table.words(), to, way.hardware, bytes);
            }
            let words = table.words().iter().map(|word| word.load(Relaxed)).collect();
            parts.push((gathered, words));
        }
        let step = "asking for the interface";
        let link = ways.interface(interface).map_err(failed(step))?.link;
        let is_v6 = copies.first().is_some_and(|(to, _)| canonical(*to).is_ipv6());
        let egress = Egress { link, is_v6, port };
        let program = bpf::load("fairbell_bare", Place::Egress, &egress.program(map.as_raw_fd()));
        let program = program.map_err(failed("loading the program"))?;
        let link = bpf::attach(&program, interface, Place::Egress);
        let link = link.map_err(failed("attaching the program"))?;
        let before = egress.before();
        Ok(BareClone { table, before, parts, _program: program, _link: link })
    }

    /// Sends all copies by one call for as many as a table takes; how many went.
    ///
    /// # Errors
    /// The socket's.
    pub fn send(&self, socket: &UdpSocket) -> io::Result<usize> {
        let table = self.table.words();
        let mut sent = 0;
        for (gathered, words) in &self.parts {
            if self.parts.len() > 1 {
                let entries = (gathered.receivers().len() + 1) * ENTRY_WORDS;
                for (to, word) in table.iter().zip(&words[..entries]) {
                    to.store(*word, Relaxed);
                }
            }
            let Some(to) = gathered.receivers().last() else { continue };
            gathered.arm(table, self.before);
            socket.send_to(gathered.carrier(), to)?;
            sent += 1 + Gathered::disarm(table).unwrap_or(0);
        }
        Ok(sent)
    }
}

/// The frames of these copies, and the interface that they leave by.
fn frames(
    kind: PlaneKind,
    socket: &UdpSocket,
    copies: &[(SocketAddr, Vec<u8>)],
    ways: &mut Ways,
) -> Result<(Vec<Vec<u8>>, u32), PlaneError> {
    let failed = |step| move |error| PlaneError::new(kind, step, &error);
    let own = socket.local_addr().map_err(failed("asking for the socket's address"))?;
    let (mut frames, mut interface) = (Vec::new(), 0);
    for (to, bytes) in copies {
        let to = canonical(*to);
        let way = ways.to(to.ip()).map_err(failed("asking for a route"))?;
        let unknown = || io::Error::other(format!("{to}: nothing has been sent there yet"));
        let way = way.ok_or_else(unknown).map_err(failed("asking for a route"))?;
        interface = way.interface;
        let found = ways.interface(interface).map_err(failed("asking for the interface"))?;
        let hardware = (found.link, way.hardware, found.address);
        let from = SocketAddr::new(own.ip().to_canonical(), own.port());
        let template = Template::new(0, hardware, (from, to));
        let mut frame = vec![0; FRAME];
        template.write(&mut frame, bytes);
        frame.truncate(template.header_bytes() + bytes.len());
        frames.push(frame);
    }
    Ok((frames, interface))
}

/// Frames that are built once and put into a ring of AF_XDP again and again.
pub struct BareXdp {
    xsk: Xsk,
    frames: Vec<Vec<u8>>,
}

impl BareXdp {
    /// Frames of these copies for a queue of the interface that they leave by.
    ///
    /// # Errors
    /// As [`BareClone::new`].
    pub fn new(
        socket: &UdpSocket,
        queue: u32,
        copies: &[(SocketAddr, Vec<u8>)],
    ) -> Result<BareXdp, PlaneError> {
        let failed = |step| move |error| PlaneError::new(PlaneKind::AfXdp, step, &error);
        let mut ways = Ways::open().map_err(failed("asking for routes"))?;
        let (frames, interface) = frames(PlaneKind::AfXdp, socket, copies, &mut ways)?;
        let xsk = Xsk::open(interface, queue);
        let xsk = xsk.map_err(|(step, error)| PlaneError::new(PlaneKind::AfXdp, step, &error))?;
        Ok(BareXdp { xsk, frames })
    }

    /// Sends all copies; how many went.
    ///
    /// # Errors
    /// The socket's.
    pub fn send(&mut self) -> io::Result<usize> {
        for bytes in &self.frames {
            let frame = match self.xsk.frame() {
                Some(frame) => frame,
                None => {
                    self.xsk.send()?;
                    self.xsk.frame().ok_or(io::ErrorKind::WouldBlock)?
                }
            };
            self.xsk.bytes(frame)[..bytes.len()].copy_from_slice(bytes);
            self.xsk.push(frame, bytes.len());
        }
        self.xsk.send()?;
        Ok(self.frames.len())
    }
}

/// Frames that are built once and given to a driver of DPDK again and again.
#[cfg(feature = "dpdk")]
pub struct BareDpdk {
    port: super::dpdk::Port,
    frames: Vec<Vec<u8>>,
}

#[cfg(feature = "dpdk")]
impl BareDpdk {
    /// Frames of these copies for the interface that they leave by.
    ///
    /// # Errors
    /// As [`BareClone::new`].
    pub fn new(
        socket: &UdpSocket,
        copies: &[(SocketAddr, Vec<u8>)],
    ) -> Result<BareDpdk, PlaneError> {
        let failed = |step| move |error| PlaneError::new(PlaneKind::Dpdk, step, &error);
        let mut ways = Ways::open().map_err(failed("asking for routes"))?;
        let (frames, interface) = frames(PlaneKind::Dpdk, socket, copies, &mut ways)?;
        let name = ways.interface(interface).map_err(failed("asking for the interface"))?;
        let port = super::dpdk::Port::open(&name.name);
        let port = port.map_err(|(step, error)| failed(step)(error))?;
        Ok(BareDpdk { port, frames })
    }

    /// Sends all copies; how many went.
    ///
    /// # Errors
    /// The driver takes no more.
    pub fn send(&mut self) -> io::Result<usize> {
        let mut sent = 0;
        for bytes in &self.frames {
            if self.port.frame().is_none() {
                sent += self.port.send();
            }
            let frame = self.port.frame().ok_or(io::ErrorKind::WouldBlock)?;
            frame[..bytes.len()].copy_from_slice(bytes);
            self.port.push(bytes.len());
        }
        Ok(sent + self.port.send())
    }
}

/// Times that a sink remembers.
const TIMES: u32 = 1 << 13;
/// The counter, and the times behind it.
const SINK_BYTES: usize = 8 + TIMES as usize * 8;
const KTIME_GET_NS: i32 = 5;

/// Takes every UDP datagram that comes in on an interface before the stack has any work with it.
pub struct Sink {
    table: Memory,
    _program: OwnedFd,
    _link: OwnedFd,
}

impl Sink {
    /// A sink on an interface, in its driver where that has a place for programs.
    ///
    /// # Errors
    /// Why there is none.
    pub fn attach(interface: &str) -> Result<Sink, PlaneError> {
        let failed = |step| move |error| PlaneError::new(PlaneKind::TcClone, step, &error);
        let socket = UdpSocket::bind(("0.0.0.0", 0)).map_err(failed("a socket"))?;
        let step = "asking for the interface";
        let index = rustix::net::netdevice::name_to_index(&socket, interface);
        let index = index.map_err(|error| failed(step)(error.into()))?;
        let link = Ways::open().and_then(|mut ways| ways.interface(index).map(|one| one.link));
        let link = link.map_err(failed(step))?;
        let map = bpf::map(SINK_BYTES as u32).map_err(failed("making a map"))?;
        let table = Memory::of(&map, SINK_BYTES, 0).map_err(failed("mapping a map"))?;
        let program = sink(link, map.as_raw_fd());
        let loaded = bpf::load("fairbell_sink", Place::XdpDriver, &program);
        let loaded = loaded.map_err(failed("loading the sink"))?;
        let attached = bpf::attach(&loaded, index, Place::XdpDriver)
            .or_else(|_| bpf::attach(&loaded, index, Place::XdpGeneric));
        let attached = attached.map_err(failed("attaching the sink"))?;
        Ok(Sink { table, _program: loaded, _link: attached })
    }

    /// Datagrams that came so far.
    pub fn count(&self) -> u64 {
        self.table.words()[0].load(Relaxed)
    }

    /// When the last `count` of them came, oldest first: CLOCK_MONOTONIC, ns. At most 8,192 are known.
    pub fn last(&self, count: usize) -> Vec<u64> {
        let words = self.table.words();
        let all = words[0].load(Relaxed);
        let from = all.saturating_sub((count as u64).min(u64::from(TIMES)));
        let at = |number: u64| words[1 + (number % u64::from(TIMES)) as usize].load(Relaxed);
        let mut times: Vec<u64> = (from..all).map(at).collect();
        // Several cores may have had the places of one another.
        times.sort_unstable();
        times
    }
}

fn sink(link: LinkLayer, table: i32) -> Vec<super::asm::Insn> {
    let mut asm = Assembler::default();
    let pass = asm.label();
    xdp::find_datagram(&mut asm, link, 8, pass);
    asm.call(KTIME_GET_NS);
    asm.map_value(7, table);
    asm.set(1, 1);
    asm.atomic_fetch_add(7, 0, 1);
    asm.alu_with(Alu::And, 1, TIMES as i32 - 1);
    asm.alu_with(Alu::ShiftLeft, 1, 3);
    asm.alu(Alu::Add, 7, 1);
    asm.store(Width::Eight, 7, 8, 0);
    asm.set(0, DROP);
    asm.exit();
    asm.place(pass);
    asm.set(0, PASS);
    asm.exit();
    asm.finish()
}
