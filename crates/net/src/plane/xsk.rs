//! A socket of AF_XDP that only sends: frames in memory of our own, a ring that says which are to go, and one
//! that says which have gone. The data plane `af_xdp` is made of them.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Acquire, Release};

use rustix::net::sockopt::{
    set_xdp_tx_ring_size, set_xdp_umem_completion_ring_size, set_xdp_umem_fill_ring_size,
    set_xdp_umem_reg, xdp_mmap_offsets,
};
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING,
    XdpRingOffset, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socket_with};

use super::PlaneKind;
use super::frames::FrameDevice;
use super::memory::Memory;

/// Bytes of a frame.
pub(crate) const FRAME: usize = 2_048;
/// Frames, and places of either ring.
pub(crate) const FRAMES: u32 = 512;
/// A fill ring must be, although nothing is received.
const FILL: u32 = 8;
/// Calls in a row by which the kernel took nothing, until that is trouble.
const TRIES: u32 = 10_000;

/// A ring in memory that the kernel shares.
struct Ring {
    memory: Memory,
    producer: usize,
    consumer: usize,
    entries: usize,
}

impl Ring {
    fn map(socket: &OwnedFd, at: &XdpRingOffset, entry: usize, page: u64) -> io::Result<Ring> {
        let entries = at.desc as usize;
        let memory = Memory::of(socket, entries + FRAMES as usize * entry, page)?;
        Ok(Ring { memory, producer: at.producer as usize, consumer: at.consumer as usize, entries })
    }
}

/// The socket.
pub(crate) struct Xsk {
    frames: Memory,
    sending: Ring,
    sent: Ring,
    socket: OwnedFd,
    /// Frames that are ours.
    free: Vec<u32>,
    /// Numbers of our ends of the rings.
    produced: u32,
    consumed: u32,
    /// Calls of the kernel.
    pub calls: u64,
}

impl Xsk {
    /// A socket on a queue of an interface, that copies: it works with every driver.
    ///
    /// # Errors
    /// The step and the kernel's answer: `EBUSY` where the queue has a socket already, `ENOBUFS` where too
    /// little memory may be locked.
    pub fn open(interface: u32, queue: u32) -> Result<Xsk, (&'static str, io::Error)> {
        let failed = |step| move |error: rustix::io::Errno| (step, error.into());
        let kind = SocketType::RAW;
        let socket = socket_with(AddressFamily::XDP, kind, SocketFlags::CLOEXEC, None);
        let socket = socket.map_err(failed("making a socket of AF_XDP"))?;
        let bytes = FRAME * FRAMES as usize;
        let frames = Memory::own(bytes).map_err(|error| ("memory for frames", error))?;
        let memory = XdpUmemReg {
            addr: frames.address(),
            len: bytes as u64,
            chunk_size: FRAME as u32,
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        set_xdp_umem_reg(&socket, memory).map_err(failed("locking 1 MiB of memory for frames"))?;
        let step = "making rings";
        set_xdp_umem_fill_ring_size(&socket, FILL).map_err(failed(step))?;
        set_xdp_umem_completion_ring_size(&socket, FRAMES).map_err(failed(step))?;
        set_xdp_tx_ring_size(&socket, FRAMES).map_err(failed(step))?;
        let at = xdp_mmap_offsets(&socket).map_err(failed(step))?;
        let mapping = |error| ("mapping rings", error);
        let sending = Ring::map(&socket, &at.tx, 16, XDP_PGOFF_TX_RING).map_err(mapping)?;
        let sent = Ring::map(&socket, &at.cr, 8, XDP_UMEM_PGOFF_COMPLETION_RING);
        let sent = sent.map_err(mapping)?;
        // XDP_COPY.
        let flags = SocketAddrXdpFlags::from_bits_retain(1 << 1);
        let address = SocketAddrXdp::new(flags, interface, queue);
        rustix::net::bind(&socket, &address).map_err(failed("binding to a queue"))?;
        let free = (0..FRAMES).rev().collect();
        Ok(Xsk { frames, sending, sent, socket, free, produced: 0, consumed: 0, calls: 0 })
    }

    /// A frame to write into; `None` while all are on their way.
    pub fn frame(&mut self) -> Option<u32> {
        if self.free.is_empty() {
            self.reap();
        }
        self.free.pop()
    }

    /// Bytes of a frame that is ours.
    pub fn bytes(&mut self, frame: u32) -> &mut [u8] {
        self.frames.bytes_mut(frame as usize * FRAME, FRAME)
    }

    /// Has a frame of ours go, of so many bytes, with the next [`Xsk::send`].
    pub fn push(&mut self, frame: u32, bytes: usize) {
        let place = (self.produced % FRAMES) as usize;
        let at = self.sending.entries + place * 16;
        let words = self.sending.memory.words();
        words[at / 8].store(u64::from(frame) * FRAME as u64, Release);
        // The length, and no options behind it.
        words[at / 8 + 1].store(length_word(bytes as u32), Release);
        self.produced = self.produced.wrapping_add(1);
    }

    /// Sends what was pushed.
    ///
    /// # Errors
    /// The kernel's; what it has not taken ([`Xsk::untaken`]) is still there.
    pub fn send(&mut self) -> io::Result<()> {
        self.sending.memory.half(self.sending.producer).store(self.produced, Release);
        let (mut left, mut tries) = (self.untaken(), 0);
        while left > 0 {
            self.calls += 1;
            match send(&self.socket, &[], SendFlags::DONTWAIT) {
                Ok(_) => {}
                // A batch has gone and there is more, or the device is full at the moment.
                Err(
                    rustix::io::Errno::AGAIN | rustix::io::Errno::BUSY | rustix::io::Errno::NOBUFS,
                ) => {
                    self.reap();
                }
                Err(error) => return Err(error.into()),
            }
            let now = self.untaken();
            tries = if now < left { 0 } else { tries + 1 };
            left = now;
            if tries > TRIES {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
        Ok(())
    }

    /// Frames that were pushed and the kernel has not taken.
    pub fn untaken(&self) -> u32 {
        let taken = self.sending.memory.half(self.sending.consumer).load(Acquire);
        self.produced.wrapping_sub(taken).min(FRAMES)
    }

    /// Takes back the frames that have gone.
    fn reap(&mut self) {
        let there = self.sent.memory.half(self.sent.producer).load(Acquire);
        let count = there.wrapping_sub(self.consumed).min(FRAMES);
        for _ in 0..count {
            let place = (self.consumed % FRAMES) as usize;
            let at = self.sent.memory.words()[(self.sent.entries + place * 8) / 8].load(Acquire);
            let frame = (at / FRAME as u64) as u32;
            // The kernel gives back what it was given.
            if frame < FRAMES && self.free.len() < FRAMES as usize {
                self.free.push(frame);
            }
            self.consumed = self.consumed.wrapping_add(1);
        }
        self.sent.memory.half(self.sent.consumer).store(self.consumed, Release);
    }
}

impl FrameDevice for Xsk {
    const KIND: PlaneKind = PlaneKind::AfXdp;
    const KERNEL: (u32, u32) = (5, 4);
    const FRAME: usize = FRAME;
    const FRAMES: usize = FRAMES as usize;

    fn open(interface: u32, _name: &str) -> Result<Xsk, (&'static str, io::Error)> {
        Xsk::open(interface, 0)
    }

    #[inline]
    fn push(&mut self, length: usize, write: impl FnOnce(&mut [u8])) -> Option<u32> {
        let frame = self.frame()?;
        write(self.bytes(frame));
        Xsk::push(self, frame, length);
        Some(frame)
    }

    fn send(&mut self, pushed: usize) -> Result<(), usize> {
        Xsk::send(self).map_err(|_| pushed.saturating_sub(self.untaken() as usize))
    }

    fn refused(&mut self, _at: usize, frame: u32, length: usize) -> &[u8] {
        &self.bytes(frame)[..length.min(FRAME)]
    }

    fn calls(&self) -> u64 {
        self.calls
    }
}

fn length_word(length: u32) -> u64 {
    let [a, b, c, d] = length.to_ne_bytes();
    u64::from_ne_bytes([a, b, c, d, 0, 0, 0, 0])
}
