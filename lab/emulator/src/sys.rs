//! The system calls that need `unsafe`: new namespaces, requests about interfaces and file systems, and
//! what a child does before it becomes another program.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::Arc;

use rustix::ioctl::{Opcode, Updater, ioctl};
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// `struct ifreq` of `linux/if.h`: the name of an interface and what is said of it.
#[repr(C, align(8))]
pub(crate) struct InterfaceRequest {
    pub(crate) name: [u8; 16],
    pub(crate) value: [u8; 24],
}

/// `struct in6_ifreq` of `linux/ipv6.h`: an IPv6 address for an interface.
#[repr(C)]
pub(crate) struct Ipv6Request {
    pub(crate) address: [u8; 16],
    pub(crate) prefix_length: u32,
    pub(crate) interface: i32,
}

/// Requests with an [`InterfaceRequest`], by their numbers in `linux/sockios.h` and `linux/if_tun.h`.
#[derive(Clone, Copy)]
pub(crate) enum Request {
    SetAddress,
    SetNetmask,
    SetFlags,
    SetMtu,
    SetQueueLength,
    AttachTun,
}

/// Makes a request about an interface.
///
/// # Errors
/// What the kernel answers.
pub(crate) fn request(
    fd: impl AsFd,
    which: Request,
    interface: &mut InterfaceRequest,
) -> io::Result<()> {
    match which {
        Request::SetAddress => updated::<0x8916, _>(fd, interface),
        Request::SetNetmask => updated::<0x891C, _>(fd, interface),
        Request::SetFlags => updated::<0x8914, _>(fd, interface),
        Request::SetMtu => updated::<0x8922, _>(fd, interface),
        Request::SetQueueLength => updated::<0x8943, _>(fd, interface),
        Request::AttachTun => updated::<0x4004_54CA, _>(fd, interface),
    }
}

/// Gives an interface an IPv6 address; `fd` is an IPv6 socket.
///
/// # Errors
/// What the kernel answers.
pub(crate) fn set_ipv6_address(fd: impl AsFd, address: &mut Ipv6Request) -> io::Result<()> {
    updated::<0x8916, _>(fd, address)
}

/// Makes the request of number `OPCODE`, which reads and may write `value`; private to this file,
/// whose callers pair numbers and types.
fn updated<const OPCODE: Opcode, T>(fd: impl AsFd, value: &mut T) -> io::Result<()> {
    // SAFETY: the callers above give each number the structure that the kernel's headers name for
    // it, in C layout and of full size, borrowed for the whole call; what it points to, if anything, lives as long. On a
    // descriptor of another kind the kernel refuses the number.
    unsafe { Ok(ioctl(fd, Updater::<OPCODE, T>::new(value))?) }
}

/// Moves the calling thread into a network namespace of its own.
///
/// # Errors
/// What the kernel answers, above all without the right to do so.
pub(crate) fn leave_for_new_namespace() -> io::Result<()> {
    // SAFETY: what may not be unshared lightly is the table of file descriptors; this unshares the
    // network namespace alone.
    unsafe { Ok(unshare_unsafe(UnshareFlags::NEWNET)?) }
}

/// Gives the calling thread mounts of its own, which are like those that it has.
///
/// # Errors
/// What the kernel answers, above all without the right to do so.
pub(crate) fn leave_for_own_mounts() -> io::Result<()> {
    // SAFETY: as above, the table of file descriptors stays shared.
    unsafe { Ok(unshare_unsafe(UnshareFlags::NEWNS)?) }
}

/// Has a file system write nothing any more, neither data nor its journal, whatever it has in memory.
///
/// # Errors
/// What the kernel answers; a file system that can't.
pub(crate) fn shut_down(fd: impl AsFd) -> io::Result<()> {
    // EXT4_GOING_FLAGS_NOLOGFLUSH of EXT4_IOC_SHUTDOWN.
    updated::<0x8004_587D, u32>(fd, &mut 2)
}

/// `struct ifreq` whose value is the address of something.
#[repr(C)]
struct PointerRequest {
    name: [u8; 16],
    at: u64,
    _rest: [u8; 16],
}

/// Has the kernel compute the sums of what an interface sends, instead of leaving that to the device.
///
/// # Errors
/// What the kernel answers.
pub(crate) fn complete_sums_in_software(interface: &str) -> io::Result<()> {
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    )?;
    // ETHTOOL_STXCSUM, off.
    let mut value: [u32; 2] = [0x17, 0];
    let at = &raw mut value as u64;
    let mut request = PointerRequest { name: [0; 16], at, _rest: [0; 16] };
    request.name.iter_mut().zip(interface.bytes().take(15)).for_each(|(to, from)| *to = from);
    // SIOCETHTOOL. The `struct ethtool_value` that it points to lives until the call is over.
    updated::<0x8946, _>(&socket, &mut request)
}

/// Moves the calling thread into a network namespace.
///
/// # Errors
/// What the kernel answers.
pub(crate) fn enter(namespace: &OwnedFd) -> io::Result<()> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
    Ok(())
}

/// Has a command run in a network namespace and be killed when the thread that spawns it ends.
pub(crate) fn confine(command: &mut Command, namespace: Arc<OwnedFd>) {
    let parent = getpid();
    let prepare = move || {
        enter(&namespace)?;
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have gone before the signal was asked for.
        match getppid() == Some(parent) {
            true => Ok(()),
            false => Err(io::Error::from(io::ErrorKind::BrokenPipe)),
        }
    };
    // SAFETY: between fork and exec the closure makes three system calls and neither allocates nor
    // takes a lock; the descriptor that it uses is owned by it and so is open.
    unsafe { command.pre_exec(prepare) };
}
