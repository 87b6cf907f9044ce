//! The system call bpf(2), as far as data planes need it: maps, programs, links.
//!
//! A link holds a program to an interface as long as its descriptor is open, and nothing is pinned: what
//! a process attached goes with it, however it ends.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use super::asm::Insn;

/// Commands of `enum bpf_cmd`.
#[derive(Clone, Copy)]
enum Command {
    MapCreate = 0,
    ProgramLoad = 5,
    ProgramTestRun = 10,
    InfoOf = 15,
    LinkCreate = 28,
    LinkById = 30,
    LinkDetach = 34,
}

/// Kinds of programs, by where they are attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// Sees each packet that leaves an interface (tcx).
    Egress,
    /// Sees each packet that comes, in the driver.
    XdpDriver,
    /// The same, behind the driver: works with every interface.
    XdpGeneric,
}

const ARRAY: u32 = 2;
/// BPF_F_MMAPABLE.
const MAPPABLE: u32 = 1 << 10;
const SCHED_CLS: u32 = 3;
const XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const ATTACH_TCX_EGRESS: u32 = 47;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;
/// Bytes of the verifier's words that are kept.
const WORDS_MAX: usize = 64 << 10;
/// Nothing in these programs is derived from the kernel's code or needs its licence.
const LICENCE: &CStr = c"Apache-2.0";

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
}

#[repr(C)]
struct ProgramLoad {
    kind: u32,
    count: u32,
    instructions: u64,
    licence: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach: u32,
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach: u32,
    flags: u32,
    relative: u32,
    _pad: u32,
    revision: u64,
}

#[repr(C)]
struct LinkById {
    id: u32,
    next: u32,
    flags: u32,
}

#[repr(C)]
struct InfoOf {
    fd: u32,
    bytes: u32,
    info: u64,
}

/// The start of `struct bpf_link_info`, as links to interfaces have it.
#[derive(Default)]
#[repr(C)]
struct LinkInfo {
    kind: u32,
    id: u32,
    program: u32,
    _pad: u32,
    interface: u32,
    _attach: u32,
}

#[repr(C)]
struct TestRun {
    program: u32,
    verdict: u32,
    in_bytes: u32,
    out_bytes: u32,
    input: u64,
    output: u64,
    repeat: u32,
    duration_ns: u32,
    context_in_bytes: u32,
    context_out_bytes: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch: u32,
    _pad: u32,
}

/// Makes the call with a structure of its command; private to this file, whose callers pair both.
fn call<T>(command: Command, with: &mut T) -> io::Result<i32> {
    // SAFETY: each caller gives its command the structure that `union bpf_attr` has for it, a prefix
    // where the kernel's is longer, borrowed for the whole call; addresses in it are of memory that
    // outlives the call and has the length that is said beside them.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command as libc::c_long,
            std::ptr::from_mut(with),
            size_of::<T>() as libc::c_long,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// A new descriptor out of the call.
fn opened<T>(command: Command, with: &mut T) -> io::Result<OwnedFd> {
    let fd = call(command, with)?;
    // SAFETY: the commands that come here return a descriptor of ours alone (close-on-exec).
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A map of one value of so many bytes, which this process maps into its memory, too.
///
/// # Errors
/// The kernel's.
pub(crate) fn map(value_bytes: u32) -> io::Result<OwnedFd> {
    let (kind, flags) = (ARRAY, MAPPABLE);
    let mut with = MapCreate { kind, key_bytes: 4, value_bytes, entries: 1, flags };
    opened(Command::MapCreate, &mut with)
}

/// A program that the kernel has checked.
///
/// # Errors
/// The kernel's; what the verifier said last, where it refused.
pub(crate) fn load(name: &str, place: Place, program: &[Insn]) -> io::Result<OwnedFd> {
    let (kind, attach) = match place {
        Place::Egress => (SCHED_CLS, ATTACH_TCX_EGRESS),
        Place::XdpDriver | Place::XdpGeneric => (XDP, ATTACH_XDP),
    };
    let mut named = [0; 16];
    named.iter_mut().zip(name.bytes().take(15)).for_each(|(to, from)| *to = from);
    let mut with = ProgramLoad {
        kind,
        count: program.len() as u32,
        instructions: program.as_ptr() as u64,
        licence: LICENCE.as_ptr() as u64,
        log_level: 0,
        log_bytes: 0,
        log: 0,
        kernel: 0,
        flags: 0,
        name: named,
        interface: 0,
        attach,
    };
    let refused = match opened(Command::ProgramLoad, &mut with) {
        Ok(program) => return Ok(program),
        Err(refused) => refused,
    };
    // Only the verifier has words, and only for what is not a right or a limit.
    let code = refused.raw_os_error();
    if code != Some(libc::EINVAL) && code != Some(libc::EACCES) {
        return Err(refused);
    }
    let mut words = vec![0u8; WORDS_MAX];
    (with.log_level, with.log_bytes, with.log) = (1, WORDS_MAX as u32, words.as_mut_ptr() as u64);
    match opened(Command::ProgramLoad, &mut with) {
        Ok(program) => Ok(program),
        Err(_) => {
            let end = words.iter().position(|byte| *byte == 0).unwrap_or(0);
            let text = String::from_utf8_lossy(&words[..end]);
            let said: Vec<&str> = text.lines().rev().take(3).collect();
            let said = said.into_iter().rev().collect::<Vec<_>>().join("; ");
            Err(io::Error::new(refused.kind(), format!("{refused}: {said}")))
        }
    }
}

/// Attaches a program to an interface until the descriptor is closed.
///
/// # Errors
/// The kernel's: `EBUSY` where an XDP program is attached already, `EOPNOTSUPP` where the driver has none.
pub(crate) fn attach(program: impl AsFd, interface: u32, place: Place) -> io::Result<OwnedFd> {
    let (attach, flags) = match place {
        Place::Egress => (ATTACH_TCX_EGRESS, 0),
        Place::XdpDriver => (ATTACH_XDP, XDP_FLAGS_DRV_MODE),
        Place::XdpGeneric => (ATTACH_XDP, XDP_FLAGS_SKB_MODE),
    };
    let program = program.as_fd().as_raw_fd() as u32;
    let mut with =
        LinkCreate { program, interface, attach, flags, relative: 0, _pad: 0, revision: 0 };
    opened(Command::LinkCreate, &mut with)
}

/// Takes a program off its interface although its link stays open, as an administrator might.
///
/// # Errors
/// The kernel's.
pub(crate) fn detach(link: impl AsFd) -> io::Result<()> {
    let mut link = link.as_fd().as_raw_fd() as u32;
    call(Command::LinkDetach, &mut link).map(drop)
}

/// Whether a link still holds its program to an interface.
pub(crate) fn is_attached(link: impl AsFd) -> bool {
    let mut info = LinkInfo::default();
    let mut with = InfoOf {
        fd: link.as_fd().as_raw_fd() as u32,
        bytes: size_of::<LinkInfo>() as u32,
        info: std::ptr::from_mut(&mut info) as u64,
    };
    call(Command::InfoOf, &mut with).is_ok() && info.interface != 0
}

/// The link of that number, whoever made it.
///
/// # Errors
/// The kernel's.
pub(crate) fn link(id: u32) -> io::Result<OwnedFd> {
    opened(Command::LinkById, &mut LinkById { id, next: 0, flags: 0 })
}

/// Runs an XDP program on a frame that comes from nowhere; its verdict.
///
/// # Errors
/// The kernel's.
pub(crate) fn test_run(program: impl AsFd, frame: &[u8]) -> io::Result<u32> {
    let mut with = TestRun {
        program: program.as_fd().as_raw_fd() as u32,
        verdict: 0,
        in_bytes: frame.len() as u32,
        out_bytes: 0,
        input: frame.as_ptr() as u64,
        output: 0,
        repeat: 1,
        duration_ns: 0,
        context_in_bytes: 0,
        context_out_bytes: 0,
        context_in: 0,
        context_out: 0,
        flags: 0,
        cpu: 0,
        batch: 0,
        _pad: 0,
    };
    call(Command::ProgramTestRun, &mut with)?;
    Ok(with.verdict)
}
