//! A network of hosts in a box: up to 64 hosts on one Linux machine, each a network namespace of
//! its own, joined by a relay that delays, loses and duplicates real packets by a model of a cloud.
//!
//! [`Network::start`] makes the hosts, [`Host::spawn`] runs programs in one, [`Host::enter`] opens
//! sockets in one; the methods of [`Network`] cut paths, slow hosts and read counters while it
//! runs, and [`Network::check`] compares the delays that packets had with those of the [`Profile`].
//! Root is needed and no external program. [`Cable`] is a simpler thing: two hosts and an Ethernet cable.
//!
//! Nothing outlives the process: namespaces have no name and exist as long as something holds them,
//! and the programs that were spawned are killed by the kernel when their parent is gone.
//!
//! Not modelled: multicast and broadcast (dropped, counted as unroutable), queues that load fills,
//! and the sending threads of a host (the simulator's hosts have several, these have one).

mod cable;
mod check;
mod disk;
mod host;
mod interface;
mod model;
mod network;
mod profile;
mod relay;
mod shared;
mod sys;

pub use cable::{Cable, CableConfig, End};
pub use check::{Check, distance};
pub use disk::{Disk, own_mounts};
pub use host::{Host, kill, pause, resume};
pub use model::{Fate, Model};
pub use network::{Config, HOSTS_MAX, Network, StartError};
pub use profile::{Bursts, Profile, Stragglers};
pub use shared::PathCounters;
