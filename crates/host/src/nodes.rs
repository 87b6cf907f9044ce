//! Nodes of an exchange as a process has them: in a loop, with sockets, doors, TLS and what an edge grants its
//! subscribers. All nodes on one machine ([`crate::deployment`]) and those of one machine of many
//! ([`crate::fleet::node`]) are put there by the same function.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::{Mutex, PoisonError};

use exchange::{ExchangeConfig, FIX_DOOR, OUCH_DOOR, Role, SUBSCRIPTION_DOOR, SubscriptionTerms};
use feed::{ListenerConfig, SnapshotServer};
use net::packet_ring::PacketRingWriter;
use net::plane::{PlaneFigures, PlaneKind};
use net::{JobReceiver, Loop, LoopConfig, ServerTls, job_channel};
use types::{Channel, Nanos, NodeId, Peer};
use wire::subscription::Ring;

use crate::config::Config;
use crate::failure::Failure;
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

/// What the data planes of a loop did, for whoever is not in its thread.
#[derive(Default)]
pub struct PlanesSeen(Mutex<Vec<(PlaneKind, PlaneFigures)>>);

impl PlanesSeen {
    /// Looks at the loop.
    pub fn look(&self, of: &Loop<Role>) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.clear();
        seen.extend(of.plane_figures());
    }

    /// A line for each socket that does not send by itself.
    pub fn lines(&self) -> Vec<String> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let line = |(kind, of): &(PlaneKind, PlaneFigures)| {
            let PlaneFigures { copies, clones, carriers, by_socket, dropped, .. } = of;
            let PlaneFigures { missed, attached_again, .. } = of;
            format!(
                "data plane {kind}: {copies} datagrams, {clones} of them cloned or framed by {carriers} calls, \
                 {by_socket} by the socket; {dropped} dropped; not seen {missed} times, attached again \
                 {attached_again} times"
            )
        };
        seen.iter().map(line).collect()
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
