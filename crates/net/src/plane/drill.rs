//! What drills do to a machine's data planes from outside: what an administrator, or another program, might.

use std::io;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;

use super::asm::Assembler;
use super::bpf::{self, Place};
use super::xdp::PASS;
use super::{PlaneError, PlaneKind};

/// Programs of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Programs {
    /// Those at the egress of interfaces, and those in front of their stacks.
    All,
    /// The latter alone.
    Xdp,
}

/// Takes programs that a process holds to interfaces off them; how many there were.
///
/// # Errors
/// No such process, a missing right, or the kernel's.
pub fn detach(process: u32, which: Programs) -> io::Result<usize> {
    let mut detached = 0;
    for entry in std::fs::read_dir(format!("/proc/{process}/fdinfo"))? {
        // A descriptor may be closed in between.
        let Ok(text) = std::fs::read_to_string(entry?.path()) else { continue };
        let Some(id) = link_in(&text, which) else { continue };
        match bpf::link(id).and_then(bpf::detach) {
            Ok(()) => detached += 1,
            // It held nothing any more.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOLINK)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(detached)
}

/// Number of the link to an interface that a text of `/proc/PID/fdinfo` is about.
fn link_in(text: &str, which: Programs) -> Option<u32> {
    let of = |key: &str| {
        text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':').map(str::trim))
    };
    let kind = of("link_type")?;
    let wanted = kind == "xdp" || kind == "tcx" && which == Programs::All;
    wanted.then(|| of("link_id")?.parse().ok()).flatten()
}

/// A program of somebody else's at an interface's XDP place: it lets everything pass and has the place until
/// it is dropped.
pub struct Intruder {
    _program: OwnedFd,
    _link: OwnedFd,
}

impl Intruder {
    /// Takes the place, in the driver or behind it.
    ///
    /// # Errors
    /// The place is taken, or a missing right.
    pub fn attach(interface: &str) -> Result<Intruder, PlaneError> {
        let failed = |step| move |error| PlaneError::new(PlaneKind::TcClone, step, &error);
        let socket = UdpSocket::bind(("0.0.0.0", 0)).map_err(failed("a socket"))?;
        let index = rustix::net::netdevice::name_to_index(&socket, interface);
        let index = index.map_err(|error| failed("asking for the interface")(error.into()))?;
        let mut asm = Assembler::default();
        asm.set(0, PASS);
        asm.exit();
        let program = bpf::load("intruder", Place::XdpDriver, &asm.finish());
        let program = program.map_err(failed("loading a program"))?;
        let link = bpf::attach(&program, index, Place::XdpDriver)
            .or_else(|_| bpf::attach(&program, index, Place::XdpGeneric));
        let link = link.map_err(failed("attaching a program"))?;
        Ok(Intruder { _program: program, _link: link })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_interfaces_are_told_from_other_descriptors() {
        let of = |kind: &str| {
            format!("pos:\t0\nflags:\t02\nlink_type:\t{kind}\nlink_id:\t41\nprog_id:\t9\n")
        };
        for (kind, all, xdp) in
            [("tcx", Some(41), None), ("xdp", Some(41), Some(41)), ("perf_event", None, None)]
        {
            let found = [Programs::All, Programs::Xdp].map(|which| link_in(&of(kind), which));
            assert_eq!(found, [all, xdp], "{kind}");
        }
        for text in ["pos:\t0\nflags:\t02\n", "link_type:\txdp\nlink_id:\tmany\n", ""] {
            assert_eq!(link_in(text, Programs::All), None, "{text}");
        }
    }

    #[test]
    fn a_process_without_programs_loses_none_and_one_that_is_not_is_an_error() {
        assert!(detach(u32::MAX, Programs::All).is_err());
        assert_eq!(detach(std::process::id(), Programs::Xdp).expect("readable"), 0);
    }
}
