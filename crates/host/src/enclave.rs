//! Enclaves of this machine, for development: a participant's program as a process that can do nothing but read and write the two
//! streams that it is given.
//!
//! The program is a static executable. Its bytes are copied into sealed memory, measured there, and run from there, so that what
//! runs is what was measured. Before it runs the process gives up new privileges, gets its limits, and a filter of system
//! calls after which there is no file to open, no socket, no process or thread to make, and no other program to run. A
//! local attestor signs what was measured. To who owns the machine the process is no secret: that takes Nitro.

#![allow(unsafe_code)]

use std::ffi::CString;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use net::Clock;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use strategy::enclave::attestation::{
    self, Challenges, Measurement, NITRO_ROOT, NONCE_LEN, measure,
};
use strategy::enclave::attestor::{Attestor, Claim};
use strategy::enclave::{Boundary, Enclave, certificate_of};
use strategy::{Action, News, Program};
use types::Nanos;

use crate::failure::{Failure, on};

/// How long an enclave may take to attest itself.
const ATTEST_WITHIN: Duration = Duration::from_secs(5);
/// Documents that an enclave may ask for.
const DOCUMENTS_MAX: usize = 16;
/// Crossings of a boundary by which it is measured.
const CROSSINGS: usize = 1_000;
/// Bytes of an enclave's public key.
const KEY_LEN: usize = 32;
/// What a wait leaves to spinning, ns: a sleep ends later than it is told to.
const SPIN_NS: u64 = 100 * Nanos::MICRO;

/// System calls that a program may make: to read and write what is open, for memory, and to end.
const CALLS: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_close,
    libc::SYS_fcntl,
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_ppoll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_set_tid_address,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_exit,
    libc::SYS_exit_group,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_arch_prctl,
];

/// Whose documents are believed, and who signs for enclaves of this machine.
pub struct Trust {
    /// The root's certificate, DER.
    root: Vec<u8>,
    /// Signs for enclaves of this machine, where one does.
    attestor: Option<Arc<Attestor>>,
    challenges: Mutex<Challenges>,
}

impl Trust {
    /// Reads a root's certificate (`nitro`: Amazon's) and a local attestor's key (`none`: there is none), both PEM.
    ///
    /// # Errors
    /// A file can't be read, or is neither.
    pub fn read(root: &str, attestor: &str) -> Result<Trust, Failure> {
        let text =
            |file: &str| std::fs::read_to_string(file).map_err(|error| on(Path::new(file), error));
        let pem = match root {
            "nitro" => None,
            file => Some(text(file)?),
        };
        let der = match &pem {
            None => NITRO_ROOT.to_vec(),
            Some(pem) => {
                certificate_of(pem).ok_or_else(|| on(Path::new(root), "no certificate in PEM"))?
            }
        };
        let attestor = match (attestor, &pem) {
            ("none", _) => None,
            (file, Some(pem)) => {
                let made = Attestor::new(&text(file)?, pem);
                Some(Arc::new(made.map_err(|error| on(Path::new(file), error))?))
            }
            (file, None) => {
                let why = "a local attestor needs its own root, and Amazon's is none of ours";
                return Err(on(Path::new(file), why));
            }
        };
        Ok(Trust { root: der, attestor, challenges: Mutex::default() })
    }

    /// One whose attestor signs for itself: of a benchmark, and of a check.
    ///
    /// # Errors
    /// The system gives no randomness.
    pub fn own(now: Nanos) -> Result<Trust, Failure> {
        let failed = |error| Failure::Run(format!("{error}"));
        let (key, root) = Attestor::root(now).map_err(failed)?;
        let attestor = Attestor::new(&key, &root).map_err(failed)?;
        let root = attestor.certificate().to_vec();
        Ok(Trust { root, attestor: Some(Arc::new(attestor)), challenges: Mutex::default() })
    }
}

/// What an enclave may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// Memory, bytes.
    pub memory_bytes: usize,
    /// How long it may take for an answer.
    pub answer: Duration,
}

/// A program that was measured and does not run yet.
pub struct Image {
    memory: OwnedFd,
    measurement: Measurement,
}

impl Image {
    /// Copies a program into sealed memory and measures it.
    ///
    /// # Errors
    /// It is no executable, or the system has no memory.
    pub fn new(program: &[u8]) -> Result<Image, Failure> {
        if !program.starts_with(b"\x7fELF") {
            return Err(Failure::Usage("no executable (ELF) for an enclave".to_string()));
        }
        let refused = |error: rustix::io::Errno| Failure::Run(format!("memory: {error}"));
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let memory = memfd_create("enclave", flags).map_err(refused)?;
        let mut file = std::fs::File::from(memory);
        file.write_all(program).map_err(|error| Failure::Run(format!("memory: {error}")))?;
        let memory = OwnedFd::from(file);
        let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        fcntl_add_seals(&memory, seals).map_err(refused)?;
        Ok(Image { memory, measurement: measure(program) })
    }

    /// What it measures.
    pub fn measurement(&self) -> &Measurement {
        &self.measurement
    }
}

/// The filter of system calls: beside [`CALLS`] the program that is open as `image` may be run, once, for it is closed
/// when it begins. Everything else fails by EPERM.
fn filter(image: i32) -> Result<BpfProgram, seccompiler::BackendError> {
    let is = |place: u8, value: u64| {
        SeccompCondition::new(place, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
    };
    let run = SeccompRule::new(vec![is(0, image as u64)?, is(4, libc::AT_EMPTY_PATH as u64)?])?;
    let mut rules: std::collections::BTreeMap<_, _> =
        CALLS.iter().map(|call| (*call, Vec::new())).collect();
    rules.insert(libc::SYS_execveat, vec![run]);
    let (otherwise, within) = (SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow);
    SeccompFilter::new(rules, otherwise, within, std::env::consts::ARCH.try_into()?)?.try_into()
}

/// An enclave's process, ended when this is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    /// Ends it, unless it has ended by itself.
    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// Starts a process of a measured program; its standard input and output are the two streams.
///
/// # Errors
/// The system refuses a process, or a filter.
pub fn start(
    image: &Image,
    (boundary, attestor): (OwnedFd, OwnedFd),
    bounds: &Bounds,
) -> Result<Process, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::Run(format!("enclave: {error}"));
    let program = image.memory.as_raw_fd();
    let filter = filter(program).map_err(|error| failed(&error))?;
    let name = CString::new("enclave").map_err(|error| failed(&error))?;
    let memory = bounds.memory_bytes as u64;
    let limits =
        [(Resource::As, memory), (Resource::Core, 0), (Resource::Fsize, 0), (Resource::Memlock, 0)];
    let mut command = Command::new("enclave");
    command.env_clear().stdin(boundary).stdout(attestor).stderr(Stdio::null());
    let begin = move || -> std::io::Result<()> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        for (what, most) in limits {
            setrlimit(what, Rlimit { current: Some(most), maximum: Some(most) })?;
        }
        // It sets "no new privileges", too.
        seccompiler::apply_filter(&filter).map_err(|_| std::io::ErrorKind::PermissionDenied)?;
        let arguments = [name.as_ptr(), std::ptr::null()];
        let variables: [*const libc::c_char; 1] = [std::ptr::null()];
        // SAFETY: the path is empty and ends with a zero, both lists end with a null pointer and live to the end of the call,
        // and what they point to is the closure's.
        unsafe {
            libc::syscall(
                libc::SYS_execveat,
                program,
                c"".as_ptr(),
                arguments.as_ptr(),
                variables.as_ptr(),
                libc::AT_EMPTY_PATH,
            );
        }
        Err(std::io::Error::last_os_error())
    };
    // SAFETY: between fork and the program's begin the closure makes system calls alone: it takes no lock and no memory, for
    // the filter, the name and the limits were made before.
    unsafe { command.pre_exec(begin) };
    let child = command.spawn().map_err(|error| failed(&error))?;
    Ok(Process { child })
}

/// Signs what an enclave asks for, about what was measured, until it ends.
fn attest(of: &Attestor, measurement: &Measurement, clock: Clock, mut stream: UnixStream) {
    for _ in 0..DOCUMENTS_MAX {
        let mut asked = [0; 4 + NONCE_LEN + KEY_LEN];
        if stream.read_exact(&mut asked).is_err() {
            return;
        }
        let [a, b, c, d, rest @ ..] = asked;
        let (nonce, public_key) = rest.split_at(NONCE_LEN);
        if u32::from_le_bytes([a, b, c, d]) as usize != rest.len() {
            return;
        }
        let claim = Claim { measurement, public_key, nonce };
        let Ok(document) = of.attest(&claim, clock.now()) else { return };
        let frame = [&(document.len() as u32).to_le_bytes()[..], &document].concat();
        if stream.write_all(&frame).is_err() {
            return;
        }
    }
}

/// A program that runs in an enclave, was attested and has its keys.
#[derive(Debug)]
pub struct Running {
    /// What it is told goes through this.
    pub enclave: Enclave<UnixStream>,
    /// Its process.
    pub process: Process,
}

impl Program for Running {
    fn name(&self) -> &str {
        self.enclave.name()
    }

    fn tell(&mut self, news: &News<'_>, answer: &mut Vec<Action>) -> Result<(), String> {
        let told = self.enclave.tell(news, answer);
        if told.is_err() {
            // Nothing is told to it any more: it is not to go on by itself.
            self.process.end();
        }
        told
    }
}

/// Starts a program, has it attested, and gives it keys if it is what was `expected`.
///
/// # Errors
/// The system refuses a process; the attestation is refused, and why.
pub fn attested(
    trust: &Trust,
    image: &Image,
    (name, settings): (&str, &str),
    (expected, bounds, clock): (&Measurement, &Bounds, Clock),
) -> Result<Running, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::Run(format!("enclave {name}: {error}"));
    let Some(attestor) = trust.attestor.clone() else {
        return Err(failed(&"this machine has no attestor: enclaves.attestor names one"));
    };
    let pair = || UnixStream::pair().map_err(|error| failed(&error));
    let ((host, guest), (signs, asks)) = (pair()?, pair()?);
    let within = |limit: Duration| {
        let set = host.set_read_timeout(Some(limit));
        set.and_then(|()| host.set_write_timeout(Some(limit))).map_err(|error| failed(&error))
    };
    within(ATTEST_WITHIN)?;
    let process = start(image, (guest.into(), asks.into()), bounds)?;
    let measurement = *image.measurement();
    thread::spawn(move || attest(&attestor, &measurement, clock, signs));
    let nonce = attestation::nonce().ok_or_else(|| failed(&"the system gives no randomness"))?;
    let challenges = || trust.challenges.lock().unwrap_or_else(PoisonError::into_inner);
    challenges().issue(nonce, clock.now());
    let stream = host.try_clone().map_err(|error| failed(&error))?;
    let opened = Boundary::open(stream, &nonce, |document| {
        challenges().admit(document, (&trust.root, expected), clock.now())
    });
    let boundary = opened.map_err(|error| failed(&error))?;
    within(bounds.answer)?;
    let enclave = Enclave::new(name, settings, boundary, Box::new(|_| ()));
    Ok(Running { enclave, process })
}

/// Time of the machine's clock since it began, ns: host and enclave have the same.
pub fn monotonic() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * Nanos::SECOND + now.tv_nsec as u64
}

/// How long a boundary takes from the host to its enclave, ns: the median of some crossings.
///
/// # Errors
/// The enclave does not answer.
pub fn measured(enclave: &mut Enclave<UnixStream>) -> Result<u64, Failure> {
    let mut times = Vec::with_capacity(CROSSINGS);
    for _ in 0..CROSSINGS {
        let crossing = enclave.cross(monotonic);
        let crossing = crossing.map_err(|error| Failure::Run(format!("enclave: {error}")))?;
        times.push(crossing.one_way_ns());
    }
    times.sort_unstable();
    Ok(times.get(CROSSINGS / 2).copied().unwrap_or(0))
}

/// What makes all enclaves hear at one instant: each is told later by what the slowest boundary takes longer than its own.
#[derive(Clone, Debug)]
pub struct Equalizer {
    /// What the slowest boundary takes, ns; never less than what the configuration says.
    slowest: Arc<AtomicU64>,
}

impl Equalizer {
    /// One whose slowest boundary takes so long, ns, whether or not there is one.
    pub fn new(least_ns: u64) -> Equalizer {
        Equalizer { slowest: Arc::new(AtomicU64::new(least_ns)) }
    }

    /// Takes a boundary in that takes so long; the hold of its enclave.
    pub fn hold(&self, boundary_ns: u64, clock: Clock) -> strategy::enclave::Hold {
        self.slowest.fetch_max(boundary_ns, Ordering::Relaxed);
        let slowest = Arc::clone(&self.slowest);
        Box::new(move |released| {
            let later = slowest.load(Ordering::Relaxed).saturating_sub(boundary_ns);
            wait(released.after(later), clock);
        })
    }

    /// What the slowest boundary takes, ns.
    pub fn slowest_ns(&self) -> u64 {
        self.slowest.load(Ordering::Relaxed)
    }
}

/// Waits until a time, the end of it without sleep.
fn wait(until: Nanos, clock: Clock) {
    loop {
        let left = until.since(clock.now());
        match left {
            0 => return,
            SPIN_NS.. => thread::sleep(Duration::from_nanos(left - SPIN_NS + 1)),
            _ => std::hint::spin_loop(),
        }
    }
}
