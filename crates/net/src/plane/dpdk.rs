//! Devices of the data plane `dpdk`: frames handed to a driver of DPDK by bursts.
//!
//! The driver is `net_af_packet`, which works over every interface of the kernel's and leaves addresses, routes
//! and neighbours to it: frames go into a ring of a packet socket, past the stack, by one call for a burst. The
//! environment is started once in a process, without huge pages, and changes neither cores nor signals.

#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int};
use std::io;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::PlaneKind;
use super::frames::FrameDevice;

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
            "--no-shconf",
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

impl FrameDevice for Port {
    const KIND: PlaneKind = PlaneKind::Dpdk;
    // Packet sockets with rings are older than every kernel that this runs on.
    const KERNEL: (u32, u32) = (0, 0);
    const FRAME: usize = FRAME;
    const FRAMES: usize = 512;

    fn open(_interface: u32, name: &str) -> Result<Port, (&'static str, io::Error)> {
        Port::open(name)
    }

    #[inline]
    fn push(&mut self, length: usize, write: impl FnOnce(&mut [u8])) -> Option<u32> {
        write(self.frame()?);
        Port::push(self, length);
        // The shim knows frames by their places.
        Some(0)
    }

    fn send(&mut self, pushed: usize) -> Result<(), usize> {
        let sent = Port::send(self);
        if sent < pushed { Err(sent) } else { Ok(()) }
    }

    fn refused(&mut self, at: usize, _frame: u32, length: usize) -> &[u8] {
        self.pushed(at, length)
    }

    fn calls(&self) -> u64 {
        self.calls
    }
}
