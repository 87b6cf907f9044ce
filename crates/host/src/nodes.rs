//! Nodes of an exchange as a process has them: in a loop, with sockets, doors, TLS and what an edge grants its
//! subscribers. All nodes on one machine ([`crate::deployment`]) and those of one machine of many
//! ([`crate::fleet::node`]) are put there by the same function.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::{Mutex, MutexGuard, PoisonError};

use exchange::{ExchangeConfig, FIX_DOOR, OUCH_DOOR, Role, SUBSCRIPTION_DOOR, SubscriptionTerms};
use feed::{ListenerConfig, SnapshotServer};
use net::packet_ring::PacketRingWriter;
use net::plane::{DuplicateFigures, DuplicateKey, PlaneFigures, PlaneKind};
use net::{Counters, JobReceiver, Loop, LoopConfig, ServerTls, job_channel};
use overlay::seal::SEALED_VERSION;
use overlay::topology::ROOT;
use types::{Channel, Nanos, NodeId, Peer};
use wire::subscription::Ring;

use crate::config::Config;
use crate::failure::Failure;
use crate::fleet::file::NodeEntry;
use crate::fleet::messages::Health;
use crate::sockets::io;

/// Passwords on their way to be hashed: each gateway has one there at a time.
const JOBS: usize = 512;
/// Doors of an edge, in the order of its listeners.
const DOORS: [u8; 3] = [OUCH_DOOR, FIX_DOOR, SUBSCRIPTION_DOOR];

/// What an edge has of its machine.
pub struct EdgeEnds {
    /// Its overlay sockets in the shards behind the first, by their channels.
    pub shards: Vec<(Channel, UdpSocket)>,
    /// Where its receiver sends the feed from.
    pub release: UdpSocket,
    /// Where participants connect: OUCH, FIX, subscriptions.
    pub doors: [TcpListener; 3],
    /// TLS of these doors; `None`: they speak in clear.
    pub tls: Option<ServerTls>,
    /// What it grants and tells those who subscribe.
    pub terms: SubscriptionTerms,
    /// Whom it hands the feed to from the start.
    pub subscribers: Vec<Peer>,
    /// The ring in shared memory that it writes the feed to, and where that is, if there is one.
    pub ring: Option<(PacketRingWriter, Ring)>,
}

/// Puts a node below the root into its loop, an edge with its `ends`.
///
/// # Errors
/// The kernel's; more subscribers than an edge has places for.
pub fn host(
    of: &mut Loop<Role>,
    (id, mut role): (NodeId, Role),
    overlay: UdpSocket,
    ends: Option<EdgeEnds>,
) -> Result<(), Failure> {
    let mut sockets = vec![(Channel::OVERLAY, overlay)];
    let Some((edge, ends)) = role.as_edge_mut().zip(ends) else {
        return of.add_node(id, role, sockets, None).map_err(io);
    };
    let EdgeEnds { shards, release, doors, tls, mut terms, subscribers, ring } = ends;
    sockets.extend(shards);
    sockets.push((Channel::FEED, release));
    let (writer, place) = ring.unzip();
    terms.ring = place;
    let mut subscribers = writer.as_ref().map(|_| Peer::RING).into_iter().chain(subscribers);
    edge.offer_subscriptions(terms);
    if !subscribers.all(|subscriber| edge.subscribe(subscriber)) {
        return Err(Failure::Usage("too many subscribers".to_string()));
    }
    of.add_node(id, role, sockets, doors).map_err(io)?;
    if let Some(writer) = writer {
        of.publish(id, writer);
    }
    of.connect_peers(id, Channel::FEED).map_err(io)?;
    for (door, tls) in DOORS.into_iter().zip(std::iter::repeat_n(tls, DOORS.len())) {
        if let Some(tls) = tls {
            of.secure_door(id, door, tls);
        }
    }
    Ok(())
}

/// Habits of a loop whose nodes have doors: how many may be in the middle of a TLS handshake, and for how long.
pub fn habits(config: &Config, usual: LoopConfig) -> LoopConfig {
    let doors = &config.doors;
    LoopConfig {
        handshakes_max: doors.half_open as usize,
        handshakes_per_source_max: doors.half_open_per_address as usize,
        handshake_ns: doors.handshake_ms * Nanos::MILLI,
        kernel_stamps: config.overlay.kernel_stamps,
        ..usual
    }
}

/// The overlay sockets of a loop send by the first of these data planes that can be had; `told` hears of each
/// that can't.
///
/// # Errors
/// None of them can be had, and why.
pub fn use_planes(
    of: &mut Loop<Role>,
    planes: &[PlaneKind],
    told: impl FnMut(&str),
) -> Result<(), Failure> {
    of.use_planes(planes, told).map_err(|error| {
        let advice = "or name \"udp\" behind it in data_plane";
        Failure::Usage(format!("{error}; {advice}"))
    })
}

/// Where a sealed datagram says in clear which one it is, and who sent this copy; of what the root sealed.
const SEALED: DuplicateKey =
    DuplicateKey { version: SEALED_VERSION, stream: (2, ROOT.0), epoch: 4, number: 8, sender: 16 };

/// The proxies and edges of a machine send by its data plane, and have duplicates dropped in front of them if
/// it says so; `told` hears of what can't be had.
///
/// # Errors
/// See [`use_planes`]; a filter is never missed that much.
pub fn use_network(
    of: &mut Loop<Role>,
    (entry, config): (&NodeEntry, &Config),
    told: impl Fn(&str),
) -> Result<(), Failure> {
    use_planes(of, &entry.data_planes(config), &told)?;
    if entry.duplicate_filter.unwrap_or(config.overlay.duplicate_filter) {
        match config.overlay.sealed {
            true if of.filter_duplicates(SEALED, &told) => {
                told("filter of duplicates: attached in front of the stack");
            }
            true => {}
            false => told(
                "filter of duplicates: only sealed datagrams say in clear which one they are \
                 (overlay.sealed); duplicates reach the node",
            ),
        }
    }
    Ok(())
}

/// What stands between a loop and its network did, for whoever is not in its thread.
#[derive(Default)]
pub struct PlanesSeen(Mutex<NetworkFigures>);

#[derive(Default)]
struct NetworkFigures {
    planes: Vec<(PlaneKind, PlaneFigures)>,
    filters: Vec<DuplicateFigures>,
    counters: Counters,
}

impl PlanesSeen {
    fn seen(&self) -> MutexGuard<'_, NetworkFigures> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the loop.
    pub fn look(&self, of: &Loop<Role>) {
        let mut seen = self.seen();
        seen.planes.clear();
        seen.planes.extend(of.plane_figures());
        seen.filters.clear();
        seen.filters.extend(of.filter_figures());
        seen.counters = of.counters();
    }

    /// How a machine is, with what was seen last.
    pub fn add_to(&self, health: Health) -> Health {
        let seen = self.seen();
        Health {
            filtered: seen.counters.copies_filtered,
            untold: seen.filters.iter().map(|of| of.untold).sum(),
            stamped: seen.counters.datagrams_stamped,
            waited_ns: seen.counters.datagram_wait_ns,
            ..health
        }
    }

    /// A line for each socket that does not send by itself, each filter, and what the kernel stamped.
    pub fn lines(&self) -> Vec<String> {
        let seen = self.seen();
        let line = |(kind, of): &(PlaneKind, PlaneFigures)| {
            let PlaneFigures { copies, clones, carriers, by_socket, dropped, .. } = of;
            let PlaneFigures { missed, attached_again, .. } = of;
            format!(
                "data plane {kind}: {copies} datagrams, {clones} of them cloned or framed by {carriers} calls, \
                 {by_socket} by the socket; {dropped} dropped; not seen {missed} times, attached again \
                 {attached_again} times"
            )
        };
        let told = seen.counters.copies_filtered;
        let filter = |of: &DuplicateFigures| {
            let DuplicateFigures { first, duplicates, other, untold, attached_again, .. } = of;
            format!(
                "filter of duplicates: {first} datagrams of the feed passed and {duplicates} were dropped, \
                 {other} others passed; the node was told of {told}, and not of {untold}; attached again \
                 {attached_again} times"
            )
        };
        let Counters { datagrams_stamped, datagram_wait_ns, datagram_wait_ns_max, .. } =
            seen.counters;
        let stamps = (datagrams_stamped > 0).then(|| {
            format!(
                "kernel stamps: {datagrams_stamped} packets waited {} ns for the node on average, {} us at most",
                datagram_wait_ns / datagrams_stamped,
                datagram_wait_ns_max / Nanos::MICRO
            )
        });
        seen.planes.iter().map(line).chain(seen.filters.iter().map(filter)).chain(stamps).collect()
    }
}

/// Has a loop give away what takes its gateways too long; where that comes out.
pub fn worker(of: &mut Loop<Role>) -> JobReceiver {
    let (to, jobs) = job_channel(JOBS);
    of.set_worker(to);
    jobs
}

/// What an edge that releases `from` there grants and tells those who subscribe, without groups. `repair`: the
/// retransmission servers; `snapshots`: servers of the books.
pub fn terms(
    config: &Config,
    from: SocketAddr,
    (repair, snapshots): (Vec<SocketAddr>, Vec<SocketAddr>),
) -> SubscriptionTerms {
    SubscriptionTerms {
        groups: Vec::new(),
        per_account: config.doors.subscriptions as usize,
        from,
        from_for_groups: Vec::new(),
        repair,
        snapshots,
        ring: None,
    }
}

/// A server of the books that it makes of the feed, as `settings` let it hear that.
pub fn snapshot_server(
    config: &Config,
    exchange: &ExchangeConfig,
    settings: &ListenerConfig,
) -> Role {
    let feed = exchange::subscriber(exchange, settings);
    Role::Snapshots(Box::new(SnapshotServer::new(feed, config.snapshot.server())))
}
