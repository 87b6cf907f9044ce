//! Orders to a running loop from other threads.
//!
//! Commands are few and rare (a fault injected, a figure asked for), so they may allocate; the
//! loop looks at them only when its wake-up descriptor says so.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use rustix::event::{EventfdFlags, eventfd};
use types::{ClockReading, NodeId, Outbox};

use crate::addr::Directory;
use crate::counters::{Counters, SharedCounters};

/// Commands that may wait for a loop.
const COMMANDS_MAX: usize = 256;

/// What a command does with a node.
pub(crate) type NodeCall<N> = Box<dyn FnOnce(&mut N, ClockReading, &mut Outbox) + Send>;

pub(crate) enum Control<N> {
    Kill(NodeId),
    Call(NodeId, NodeCall<N>),
    Directory(Arc<Directory>),
    Stop,
}

/// Why a command was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControlError {
    /// Too many commands wait.
    Full,
    /// The loop has ended.
    Ended,
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ControlError::Full => "too many commands wait for the loop",
            ControlError::Ended => "the loop has ended",
        })
    }
}

impl std::error::Error for ControlError {}

/// Steers one loop from any thread.
pub struct LoopHandle<N> {
    commands: SyncSender<Control<N>>,
    wake: Arc<OwnedFd>,
    counters: Arc<SharedCounters>,
}

impl<N> Clone for LoopHandle<N> {
    fn clone(&self) -> Self {
        LoopHandle {
            commands: self.commands.clone(),
            wake: Arc::clone(&self.wake),
            counters: Arc::clone(&self.counters),
        }
    }
}

impl<N> LoopHandle<N> {
    /// Drops a node with its sockets and connections, as if its machine had died. Unknown nodes
    /// are ignored.
    ///
    /// # Errors
    /// [`ControlError`]; nothing happens then.
    pub fn kill(&self, node: NodeId) -> Result<(), ControlError> {
        self.send(Control::Kill(node))
    }

    /// Runs `call` on a node between two of its inputs; the outbox is drained as after any other
    /// input. For operator's commands and figures; unknown nodes are ignored.
    ///
    /// # Errors
    /// [`ControlError`]; nothing happens then.
    pub fn call(
        &self,
        node: NodeId,
        call: impl FnOnce(&mut N, ClockReading, &mut Outbox) + Send + 'static,
    ) -> Result<(), ControlError> {
        self.send(Control::Call(node, Box::new(call)))
    }

    /// As [`LoopHandle::call`], and waits while too many commands wait. Not from the loop's own
    /// thread, which would wait for ever.
    ///
    /// # Errors
    /// [`ControlError::Ended`].
    pub fn call_waiting(
        &self,
        node: NodeId,
        call: impl FnOnce(&mut N, ClockReading, &mut Outbox) + Send + 'static,
    ) -> Result<(), ControlError> {
        let sent = self.commands.send(Control::Call(node, Box::new(call)));
        sent.map_err(|_| ControlError::Ended)?;
        self.wake_up();
        Ok(())
    }

    /// From now on nodes are where another directory says: a machine came back with another address.
    ///
    /// # Errors
    /// [`ControlError`]; nothing happens then.
    pub fn set_directory(&self, directory: Directory) -> Result<(), ControlError> {
        self.send(Control::Directory(Arc::new(directory)))
    }

    /// Ends the loop after what it is doing.
    ///
    /// # Errors
    /// [`ControlError`]; nothing happens then.
    pub fn stop(&self) -> Result<(), ControlError> {
        self.send(Control::Stop)
    }

    /// The loop's figures so far.
    pub fn counters(&self) -> Counters {
        self.counters.snapshot()
    }

    fn send(&self, control: Control<N>) -> Result<(), ControlError> {
        self.commands.try_send(control).map_err(|error| match error {
            TrySendError::Full(_) => ControlError::Full,
            TrySendError::Disconnected(_) => ControlError::Ended,
        })?;
        self.wake_up();
        Ok(())
    }

    fn wake_up(&self) {
        // Fails only when 2^64 - 2 wake-ups are pending, and then the loop wakes anyway.
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
    }
}

/// The loop's end: its commands and the descriptor that says there are some.
pub(crate) struct Commands<N> {
    pub waiting: Receiver<Control<N>>,
    pub wake: Arc<OwnedFd>,
    sender: SyncSender<Control<N>>,
}

impl<N> Commands<N> {
    pub fn new() -> std::io::Result<Commands<N>> {
        let (sender, waiting) = sync_channel(COMMANDS_MAX);
        let wake = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        Ok(Commands { waiting, wake, sender })
    }

    pub fn handle(&self, counters: &Arc<SharedCounters>) -> LoopHandle<N> {
        LoopHandle {
            commands: self.sender.clone(),
            wake: Arc::clone(&self.wake),
            counters: Arc::clone(counters),
        }
    }

    /// Takes the wake-up back, so that the next one is seen.
    pub fn acknowledge(&self) {
        let mut count = [0u8; 8];
        // Nothing to read means an earlier wake-up was taken back with this one.
        let _ = rustix::io::read(&*self.wake, &mut count);
    }
}
