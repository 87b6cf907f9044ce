//! A host of the box: its addresses, programs and sockets in it; signals to programs.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use crate::{interface, sys};

/// What the thread that starts programs is told.
pub(crate) enum ProgramRequest {
    /// Start this, and give it back with the answer.
    Spawn(Box<Command>, Sender<(Box<Command>, io::Result<Child>)>),
    /// End; the kernel then kills all that was started.
    End,
}

/// Starts programs until it is told to end.
///
/// It is one thread for all, and not the caller's, because the kernel kills a program when the thread
/// that started it ends.
pub(crate) fn start_programs(requests: Receiver<ProgramRequest>) {
    while let Ok(ProgramRequest::Spawn(mut command, answer)) = requests.recv() {
        let child = command.spawn();
        // Nobody may wait for it any more.
        let _ = answer.send((command, child));
    }
}

/// A host of the box. Copies mean the same host; they may outlive the network, but then nothing
/// reaches the host.
#[derive(Clone)]
pub struct Host {
    pub(crate) index: usize,
    pub(crate) zone: u8,
    pub(crate) namespace: Arc<OwnedFd>,
    pub(crate) programs: Sender<ProgramRequest>,
}

impl Host {
    /// Number of the host, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Number of its zone, from 0.
    pub fn zone(&self) -> u8 {
        self.zone
    }

    /// Its IPv4 address, within 10.77.0.0/16.
    pub fn v4(&self) -> Ipv4Addr {
        interface::v4_of(self.index)
    }

    /// Its IPv6 address, within fd77::/64.
    pub fn v6(&self) -> Ipv6Addr {
        interface::v6_of(self.index)
    }

    /// Runs a program in the host. It is killed when the network is dropped and when this process
    /// ends, however that happens; programs that it starts itself are not, unless they see to it.
    /// The command remembers its host: use each for one host only.
    ///
    /// # Errors
    /// As [`Command::spawn`]; of kind `BrokenPipe` when the network has ended.
    pub fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        let mut own = std::mem::replace(command, Command::new(""));
        sys::confine(&mut own, Arc::clone(&self.namespace));
        let (answer, child) = mpsc::channel();
        let ended = || io::Error::new(io::ErrorKind::BrokenPipe, "the network has ended");
        self.programs.send(ProgramRequest::Spawn(Box::new(own), answer)).map_err(|_| ended())?;
        let (own, child) = child.recv().map_err(|_| ended())?;
        *command = *own;
        child
    }

    /// Runs `work` on a new thread inside the host and returns what it returns. A socket stays in the
    /// host that it was made in, whichever thread uses it.
    ///
    /// # Errors
    /// When no thread can be started or it cannot enter the namespace.
    ///
    /// # Panics
    /// When `work` does.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        let inside = || sys::enter(&self.namespace).map(|()| work());
        thread::scope(|scope| {
            let thread = thread::Builder::new().name(format!("host {}", self.index));
            let thread = thread.spawn_scoped(scope, inside)?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Name of its interface.
    pub fn interface(&self) -> &'static str {
        interface::INTERFACE
    }

    /// Takes its interface down, or has it up again, as an administrator might.
    ///
    /// # Errors
    /// As [`Host::enter`], and the kernel's.
    pub fn set_up(&self, up: bool) -> io::Result<()> {
        self.enter(|| interface::set_up(self.index, up))?
    }

    /// Packets that the host's interface dropped because the relay did not take them quickly
    /// enough, since the start.
    ///
    /// # Errors
    /// As [`Host::enter`], and when the kernel's table of interfaces cannot be read.
    pub fn interface_drops(&self) -> io::Result<u64> {
        let table = self.enter(|| std::fs::read_to_string("/proc/thread-self/net/dev"))??;
        // Behind the colon eight figures of receiving, then bytes, packets, errors, drops of sending.
        let drops = table.lines().find_map(|line| {
            let (name, figures) = line.split_once(':')?;
            (name.trim() == interface::INTERFACE).then_some(figures)?;
            figures.split_whitespace().nth(11)?.parse().ok()
        });
        drops.ok_or_else(|| io::Error::other("/proc/thread-self/net/dev lacks the interface"))
    }
}

/// Stops a program until [`resume`], as a VM that is not scheduled.
///
/// # Errors
/// When there is no such process.
pub fn pause(process: u32) -> io::Result<()> {
    signal(process, Signal::STOP)
}

/// Lets a program that was stopped by [`pause`] go on.
///
/// # Errors
/// When there is no such process.
pub fn resume(process: u32) -> io::Result<()> {
    signal(process, Signal::CONT)
}

/// Ends a program at once, as a VM that fails. Its [`Child`] has still to be waited for.
///
/// # Errors
/// When there is no such process.
pub fn kill(process: u32) -> io::Result<()> {
    signal(process, Signal::KILL)
}

fn signal(process: u32, signal: Signal) -> io::Result<()> {
    let none = || io::Error::new(io::ErrorKind::InvalidInput, "a process has a number above 0");
    let process = i32::try_from(process).ok().and_then(Pid::from_raw).ok_or_else(none)?;
    Ok(kill_process(process, signal)?)
}
