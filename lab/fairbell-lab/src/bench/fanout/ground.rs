//! The ground of a fan-out: a cable, a socket, messages whose copies differ at their ends, and who sends them.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use super::calls::{Connected, batched};
use emulator::{Cable, CableConfig, StartError};
use host::failure::Failure;
use host::sockets::io;
use net::plane::bare::{BareClone, BareXdp, Sink};
use net::plane::{COPIES_DIFFER_AT_MOST, DataPlane, PlaneKind};
use rustix::time::{ClockId, clock_gettime};
use types::SplitMix64;

/// Port of all receivers.
const TO: u16 = 5_000;
/// Receivers that have a socket connected to them: a process has some 1,000 descriptors.
pub const CONNECTED_MAX: usize = 100;
/// Messages that are sent again and again.
const MESSAGES: usize = 16;
/// Longest wait for what is on its way.
const ARRIVAL: Duration = Duration::from_millis(20);

/// Who sends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Player {
    /// A loop of `sendto`.
    Sendto,
    /// `sendmmsg`: a call for many.
    Batched,
    /// A loop of `send`, over a socket connected to each receiver; to at most [`CONNECTED_MAX`] of them.
    Connected,
    /// The cloning program with a table that is filled once.
    BareClone,
    /// Frames that are built once, into a ring of AF_XDP.
    BareXdp,
    /// Frames that are built once, to a driver of DPDK.
    #[cfg(feature = "dpdk")]
    BareDpdk,
    /// A data plane.
    Plane(PlaneKind),
}

impl Player {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Player::Sendto => "sendto, bare",
            Player::Batched => "sendmmsg, bare",
            Player::Connected => "connected, bare",
            Player::BareClone => "clone, bare",
            Player::BareXdp => "af_xdp, bare",
            #[cfg(feature = "dpdk")]
            Player::BareDpdk => "dpdk, bare",
            Player::Plane(kind) => kind.name(),
        }
    }

    /// The call that it makes.
    pub fn bare(self) -> Option<Player> {
        match self {
            Player::Plane(PlaneKind::Udp) => Some(Player::Batched),
            Player::Plane(PlaneKind::TcClone) => Some(Player::BareClone),
            Player::Plane(PlaneKind::AfXdp) => Some(Player::BareXdp),
            #[cfg(feature = "dpdk")]
            Player::Plane(PlaneKind::Dpdk) => Some(Player::BareDpdk),
            _ => None,
        }
    }
}

/// All players, each plane beside its bare call.
pub const PLAYERS: &[Player] = &[
    Player::Sendto,
    Player::Batched,
    Player::Connected,
    Player::Plane(PlaneKind::Udp),
    Player::BareClone,
    Player::Plane(PlaneKind::TcClone),
    Player::BareXdp,
    Player::Plane(PlaneKind::AfXdp),
    #[cfg(feature = "dpdk")]
    Player::BareDpdk,
    #[cfg(feature = "dpdk")]
    Player::Plane(PlaneKind::Dpdk),
];

/// What a slice took.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Slice {
    /// By the clock, ns a copy.
    pub wall_ns: f64,
    /// Of the sending thread, ns a copy; what the kernel does at once in its name is in it.
    pub cpu_ns: f64,
    /// Copies sent.
    pub sent: u64,
    /// Of them those that came.
    pub came: u64,
}

/// A message: its copies in order.
type Copies = Vec<(SocketAddr, Vec<u8>)>;

/// Everything that a fan-out of a size needs.
pub struct Ground {
    sink: Option<Sink>,
    socket: UdpSocket,
    messages: Vec<Copies>,
    planes: Vec<(PlaneKind, DataPlane)>,
    connected: Connected,
    bare: BareClone,
    bare_xdp: BareXdp,
    #[cfg(feature = "dpdk")]
    bare_dpdk: net::plane::bare::BareDpdk,
    next: usize,
    _cable: Cable,
}

/// A cable for benchmarks.
///
/// # Errors
/// Where namespaces or `ip` are refused.
pub fn cable() -> Result<Cable, Failure> {
    let config = CableConfig { queues: 2, ..CableConfig::default() };
    Cable::lay(config).map_err(|error| match error {
        StartError::Config(_) => Failure::Usage(error.to_string()),
        StartError::Refused { .. } => Failure::Unavailable(error.to_string()),
    })
}

/// Messages of `copies` copies of `size` bytes for receivers of one port.
pub fn messages(copies: usize, size: usize, seed: u64) -> Vec<Copies> {
    let mut random = SplitMix64::new(seed);
    let (head, tail) = COPIES_DIFFER_AT_MOST;
    let one = |_| {
        let middle: Vec<u8> = (0..size).map(|_| random.next_u64() as u8).collect();
        let copy = |number: usize| {
            let mut bytes = middle.clone();
            let ends = (0..head.min(size)).chain(size.saturating_sub(tail)..size);
            ends.for_each(|at| bytes[at] = random.next_u64() as u8);
            (SocketAddr::new(Cable::receiver(false, number as u16), TO), bytes)
        };
        (0..copies).map(copy).collect()
    };
    (0..MESSAGES).map(one).collect()
}

impl Ground {
    /// For messages of so many copies; with a sink before the receiving stack.
    ///
    /// # Errors
    /// Where namespaces, sockets or programs are refused.
    pub fn new(copies: usize, size: usize, seed: u64) -> Result<Ground, Failure> {
        let cable = cable()?;
        let messages = messages(copies, size, seed);
        let refused = |error: net::plane::PlaneError| Failure::Unavailable(error.to_string());
        let (socket, planes, connected, bare, bare_xdp, _bare_dpdk) = cable
            .left()
            .enter(|| {
                let socket = UdpSocket::bind((Cable::left_address(false), 0)).map_err(io)?;
                rustix::net::sockopt::set_socket_send_buffer_size(&socket, 4 << 20)
                    .map_err(|error| io(error.into()))?;
                // Who has the addresses is known before anything is measured.
                settle(&socket, &messages[0])?;
                let peers: Vec<SocketAddr> = messages[0].iter().map(|(to, _)| *to).collect();
                let planes = PlaneKind::built().map(|kind| {
                    DataPlane::open(kind, &socket, &peers)
                        .map(|plane| (kind, plane))
                        .map_err(refused)
                });
                let planes = planes.collect::<Result<Vec<_>, _>>()?;
                let few = &messages[0][..messages[0].len().min(CONNECTED_MAX)];
                let connected = Connected::new(few).map_err(io)?;
                let bare = BareClone::new(&socket, &messages[0]).map_err(refused)?;
                // The plane has the first queue.
                let bare_xdp = BareXdp::new(&socket, 1, &messages[0]).map_err(refused)?;
                #[cfg(feature = "dpdk")]
                let bare_dpdk = net::plane::bare::BareDpdk::new(&socket, &messages[0]);
                #[cfg(feature = "dpdk")]
                let bare_dpdk = bare_dpdk.map_err(refused)?;
                #[cfg(not(feature = "dpdk"))]
                let bare_dpdk = ();
                Ok::<_, Failure>((socket, planes, connected, bare, bare_xdp, bare_dpdk))
            })
            .map_err(io)??;
        let interface = cable.right().interface();
        let sink = cable.right().enter(|| Sink::attach(interface)).map_err(io)?.map_err(refused)?;
        Ok(Ground {
            sink: Some(sink),
            socket,
            messages,
            planes,
            connected,
            bare,
            bare_xdp,
            #[cfg(feature = "dpdk")]
            bare_dpdk: _bare_dpdk,
            next: 0,
            _cable: cable,
        })
    }

    fn send(&mut self, player: Player) -> std::io::Result<u64> {
        let message = &self.messages[self.next % MESSAGES];
        self.next += 1;
        match player {
            Player::Sendto => {
                for (to, bytes) in message {
                    self.socket.send_to(bytes, to)?;
                }
                Ok(message.len() as u64)
            }
            Player::Batched => batched(&self.socket, message),
            Player::Connected => self.connected.send(message),
            Player::BareClone => self.bare.send(&self.socket).map(|sent| sent as u64),
            Player::BareXdp => self.bare_xdp.send().map(|sent| sent as u64),
            #[cfg(feature = "dpdk")]
            Player::BareDpdk => self.bare_dpdk.send().map(|sent| sent as u64),
            Player::Plane(kind) => {
                let found = self.planes.iter_mut().find(|(of, _)| *of == kind);
                let Some((_, plane)) = found else { return Ok(0) };
                for (to, bytes) in message {
                    plane.send(&self.socket, *to, bytes)?;
                }
                plane.flush(&self.socket)?;
                Ok(message.len() as u64)
            }
        }
    }

    fn came(&self) -> u64 {
        self.sink.as_ref().map_or(0, Sink::count)
    }

    fn wait_for(&self, count: u64) {
        let begun = Instant::now();
        while self.came() < count && begun.elapsed() < ARRIVAL {
            std::hint::spin_loop();
        }
    }

    /// Has a player send for so long.
    ///
    /// # Errors
    /// The socket's.
    pub fn play(&mut self, player: Player, time: Duration) -> Result<Slice, Failure> {
        let before = self.came();
        let (mut sent, cpu, begun) = (0, cpu_ns(), Instant::now());
        while begun.elapsed() < time {
            for _ in 0..4 {
                sent += self.send(player).map_err(io)?;
            }
        }
        let (wall, cpu) = (begun.elapsed().as_nanos() as f64, (cpu_ns() - cpu) as f64);
        self.wait_for(before + sent);
        let copies = sent.max(1) as f64;
        Ok(Slice { wall_ns: wall / copies, cpu_ns: cpu / copies, sent, came: self.came() - before })
    }

    /// From the first to the last copy of a message in the receiving driver, ns, of so many messages;
    /// those of which a copy got lost are left out.
    ///
    /// # Errors
    /// The socket's.
    pub fn windows(&mut self, player: Player, messages: usize) -> Result<Vec<u64>, Failure> {
        let mut windows = Vec::new();
        for _ in 0..messages {
            let before = self.came();
            let sent = self.send(player).map_err(io)?;
            self.wait_for(before + sent);
            let times = self.sink.as_ref().map_or_else(Vec::new, |sink| sink.last(sent as usize));
            if self.came() == before + sent
                && let [first, .., last] = times[..]
            {
                windows.push(last - first);
            }
            // As between messages of a market: what one left behind is gone.
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_micros(30) {
                std::hint::spin_loop();
            }
        }
        Ok(windows)
    }
}

/// Has the kernel find out who has the addresses.
///
/// # Errors
/// The socket's.
pub fn settle(socket: &UdpSocket, copies: &[(SocketAddr, Vec<u8>)]) -> Result<(), Failure> {
    for _ in 0..3 {
        for part in copies.chunks(64) {
            for (to, _) in part {
                socket.send_to(b"who", to).map_err(io)?;
            }
            std::thread::sleep(Duration::from_millis(3));
        }
    }
    Ok(())
}

/// CPU time of the calling thread, ns.
fn cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
