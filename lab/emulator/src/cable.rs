//! Two hosts and a cable between them: a pair of Ethernet interfaces, for what a relay would hide.
//!
//! Nothing is delayed or lost on it but what the kernel drops. The left end is 10.88.0.1 and fd88::1, the
//! right one 10.88.0.2, fd88::2 and, as receivers for many copies, all of 10.88.128.0/17 and
//! fd88::1:0 to fd88::1:f. It is laid by `ip` of iproute2, as root, and goes with the value.

use std::fs::File;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::network::StartError;
use crate::sys;

/// Name of the interface at either end.
const INTERFACE: &str = "cable0";
/// How long packets may take until they get through.
const USABLE: Duration = Duration::from_secs(5);
/// Addresses of IPv6 that the right end has beside its first one.
const V6_RECEIVERS: u16 = 16;
/// Addresses of IPv4 that it hears.
const V4_RECEIVERS: u16 = 1 << 14;

/// What a cable shall be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CableConfig {
    /// Queues of either interface, 1 to 8.
    pub queues: u32,
    /// Largest packet, bytes.
    pub mtu: u16,
    /// Interfaces complete the sums of UDP: packets then cross the cable without them. Off: the kernel
    /// computes and checks each.
    pub sums_offloaded: bool,
}

impl Default for CableConfig {
    fn default() -> Self {
        CableConfig { queues: 1, mtu: 1_500, sums_offloaded: true }
    }
}

/// The cable and its two hosts.
pub struct Cable {
    left: End,
    right: End,
}

/// A host at one end.
#[derive(Clone)]
pub struct End {
    namespace: Arc<OwnedFd>,
}

impl Cable {
    /// Lays one.
    ///
    /// # Errors
    /// Where namespaces, `ip` or the interfaces are refused.
    pub fn lay(config: CableConfig) -> Result<Cable, StartError> {
        let refused = |step| move |cause| StartError::Refused { step, cause };
        if !(1..=8).contains(&config.queues) {
            return Err(StartError::Config("queues must be 1 to 8"));
        }
        let (left, right) = (End::new()?, End::new()?);
        let other = format!("/proc/{}/fd/{}", std::process::id(), right.namespace.as_raw_fd());
        let CableConfig { queues, mtu, .. } = config;
        let shape = format!("mtu {mtu} numtxqueues {queues} numrxqueues {queues}");
        left.ip(&format!(
            "link set lo up\nlink add {INTERFACE} {shape} type veth peer name {INTERFACE} {shape} netns {other}\n\
             addr add 10.88.0.1/16 dev {INTERFACE}\naddr add fd88::1/64 dev {INTERFACE} nodad\n\
             link set {INTERFACE} up\n"
        ))
        .map_err(refused("laying a cable with `ip` of iproute2"))?;
        let more: String = (0..V6_RECEIVERS)
            .map(|n| format!("addr add {}/64 dev {INTERFACE} nodad\n", v6_receiver(n)))
            .collect();
        right
            .ip(&format!(
                "link set lo up\naddr add 10.88.0.2/16 dev {INTERFACE}\n\
                 addr add fd88::2/64 dev {INTERFACE} nodad\n{more}\
                 route add local 10.88.128.0/17 dev lo\nlink set {INTERFACE} up\n"
            ))
            .map_err(refused("giving the cable's other end its addresses with `ip`"))?;
        if !config.sums_offloaded {
            for end in [&left, &right] {
                end.enter(|| sys::complete_sums_in_software(INTERFACE))
                    .and_then(|done| done)
                    .map_err(refused("switching off the interface's sums"))?;
            }
        }
        let cable = Cable { left, right };
        cable.wait().map_err(refused("waiting for the cable's addresses"))?;
        Ok(cable)
    }

    /// Until packets get through: the kernel gives addresses of IPv6 on a thread that may be late.
    fn wait(&self) -> io::Result<()> {
        for is_v6 in [false, true] {
            let ear = self.right.enter(|| UdpSocket::bind((Cable::receiver(is_v6, 0), 0)));
            let mouth = self.left.enter(|| UdpSocket::bind((Cable::left_address(is_v6), 0)));
            let (ear, mouth) = (ear??, mouth??);
            ear.set_read_timeout(Some(Duration::from_millis(20)))?;
            let begun = Instant::now();
            loop {
                // What can't be sent yet can be a moment later.
                let _ = mouth.send_to(b"word", ear.local_addr()?);
                match ear.recv(&mut [0; 8]) {
                    Ok(_) => break,
                    Err(error) if begun.elapsed() > USABLE => return Err(error),
                    Err(_) => {}
                }
            }
        }
        Ok(())
    }

    /// The end that sends.
    pub fn left(&self) -> &End {
        &self.left
    }

    /// The end with many addresses.
    pub fn right(&self) -> &End {
        &self.right
    }

    /// The left end's address.
    pub fn left_address(is_v6: bool) -> IpAddr {
        if is_v6 {
            Ipv6Addr::new(0xFD88, 0, 0, 0, 0, 0, 0, 1).into()
        } else {
            Ipv4Addr::new(10, 88, 0, 1).into()
        }
    }

    /// An address of the right end, by number; of IPv6 there are 16.
    pub fn receiver(is_v6: bool, number: u16) -> IpAddr {
        if is_v6 {
            return v6_receiver(number % V6_RECEIVERS).into();
        }
        let number = number % V4_RECEIVERS;
        Ipv4Addr::new(10, 88, 128 + (number >> 8) as u8, number as u8).into()
    }
}

fn v6_receiver(number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xFD88, 0, 0, 0, 0, 0, 1, number)
}

impl End {
    fn new() -> Result<End, StartError> {
        let refused = |step| move |cause| StartError::Refused { step, cause };
        let made = thread::spawn(|| {
            sys::leave_for_new_namespace()?;
            File::open("/proc/thread-self/ns/net")
        });
        let made = made.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let namespace = made.map_err(refused("making a network namespace"))?;
        Ok(End { namespace: Arc::new(namespace.into()) })
    }

    /// Gives lines to `ip -batch -` in the host.
    ///
    /// # Errors
    /// There is no `ip`; what it says.
    pub fn ip(&self, lines: &str) -> io::Result<()> {
        let mut command = Command::new("ip");
        command.args(["-batch", "-"]).stdin(Stdio::piped());
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        sys::confine(&mut command, Arc::clone(&self.namespace));
        let mut child = command.spawn()?;
        if let Some(mut input) = child.stdin.take() {
            input.write_all(lines.as_bytes())?;
        }
        let output = child.wait_with_output()?;
        match output.status.success() {
            true => Ok(()),
            false => {
                let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
                Err(io::Error::other(said))
            }
        }
    }

    /// Takes the interface down, or up again.
    ///
    /// # Errors
    /// As [`End::ip`].
    pub fn set_up(&self, up: bool) -> io::Result<()> {
        let state = if up { "up" } else { "down" };
        self.ip(&format!("link set {INTERFACE} {state}\n"))
    }

    /// The name of the interface in the host.
    pub fn interface(&self) -> &'static str {
        INTERFACE
    }

    /// Runs `work` on a new thread in the host and returns what it returns. A socket stays in the host that
    /// it was made in.
    ///
    /// # Errors
    /// No thread can be started, or it can't enter the namespace.
    ///
    /// # Panics
    /// When `work` does.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        let inside = || sys::enter(&self.namespace).map(|()| work());
        thread::scope(|scope| {
            let thread = thread::Builder::new().name("cable".to_string());
            let thread = thread.spawn_scoped(scope, inside)?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}
