//! One configuration to all nodes of an exchange.

use feed::{ListenerConfig, Subscriber};
use gateway::{FixRole, Gateway, GatewayConfig, Login, ShardPath};
use overlay::{
    all_reduce::DelayLimits,
    lives::Life,
    proxy::{Proxy, ProxyConfig},
    receiver::{Receiver, ReceiverConfig},
    sealed_link::Fleet,
    topology::Tree,
};
use types::{Channel, Nanos, NodeId, Peer, SplitMix64};
use wire::moldudp::Session;

use crate::{Edge, ExchangeConfig, ExchangeError, NewLink, Role, Root, Sealed};

/// Makes the root, the proxies and the edges of a venue of one shard; a node's place in the list is its
/// [`NodeId`]. Those of several are made by [`deploy_venue`].
/// `feed_of` says who gets what receiver `index` releases.
///
/// `life` is the process's: boot nonces come from it, and with a secret in the options, which puts
/// every node behind its link, all keys.
pub fn deploy(
    config: &ExchangeConfig,
    life: Life,
    feed_of: impl Fn(usize) -> Peer,
) -> Result<Vec<Role>, ExchangeError> {
    check(config)?;
    if config.shard.shards > 1 {
        return Err(ExchangeError::Shards);
    }
    let (tree, trees) = (config.tree()?, config.trees()?);
    let mut nonces = SplitMix64::new(boot_seed(life));
    let mut nodes = vec![Role::Root(Box::new(Root::new(config, &trees)?))];
    let proxy = |node| proxy(config, (&tree, &trees), node);
    let spares = tree.topology.spare_ids().count();
    let proxies = tree.topology.proxy_ids().count() - spares;
    nodes.extend(tree.topology.proxy_ids().take(proxies).map(proxy));
    for index in 0..tree.topology.receivers() {
        let boot_nonce = nonces.next_u64() as u32;
        let edge = edge(config, (&tree, &trees), index, boot_nonce, feed_of(index));
        nodes.push(Role::Edge(Box::new(edge)));
    }
    nodes.extend(tree.topology.spare_ids().map(proxy));
    seal(config, &tree, life, nodes)
}

/// The nodes of a venue of any number of shards.
pub struct Venue {
    /// By shard: the root and the proxies, by their [`NodeId`]; none for those of edges, which stand
    /// between the proxies and spare ones.
    pub shards: Vec<Vec<Option<Role>>>,
    /// The edges, which are in the overlays of all shards; their numbers there are those that are left
    /// out of each shard's, in their order.
    pub edges: Vec<Role>,
}

/// As [`deploy`], of all shards: each shard has a root, proxies and numbers of nodes of its own, and all
/// edges.
///
/// # Errors
/// [`ExchangeError`].
pub fn deploy_venue(
    config: &ExchangeConfig,
    life: Life,
    feed_of: impl Fn(usize) -> Peer,
) -> Result<Venue, ExchangeError> {
    check(config)?;
    let configs: Vec<ExchangeConfig> = config.all_shards().collect();
    let mut shards = Vec::with_capacity(configs.len());
    for config in &configs {
        let (tree, trees) = (config.tree()?, config.trees()?);
        let proxies: Vec<NodeId> = tree.topology.proxy_ids().collect();
        let edges = tree.topology.receiver_ids();
        let last = proxies.iter().copied().chain(edges).max().unwrap_or_default();
        let mut nodes: Vec<Option<Role>> = (0..=last.0).map(|_| None).collect();
        nodes[0] = Some(Role::Root(Box::new(Root::new(config, &trees)?)));
        for node in proxies {
            nodes[usize::from(node.0)] = Some(proxy(config, (&tree, &trees), node));
        }
        let fleet = Fleet::of(&tree.topology);
        for (node, slot) in nodes.iter_mut().enumerate() {
            *slot = match slot.take() {
                Some(role) => Some(sealed(config, &fleet, life, (node, role))?),
                None => None,
            };
        }
        shards.push(nodes);
    }
    let mut nonces = SplitMix64::new(boot_seed(life));
    let mut edges = Vec::with_capacity(config.receivers);
    for index in 0..config.receivers {
        let boot_nonce = nonces.next_u64() as u32;
        let role = Role::Edge(Box::new(edge_of(&configs, index, boot_nonce, feed_of(index))?));
        edges.push(sealed_edge(&configs, life, index, role)?);
    }
    Ok(Venue { shards, edges })
}

/// One edge of a venue of any number of shards, as [`deploy_venue`] makes it.
///
/// # Errors
/// [`ExchangeError`]; [`ExchangeError::NoSuchTree`] for a number that no edge has.
pub fn venue_edge(
    config: &ExchangeConfig,
    index: usize,
    life: Life,
    feed: Peer,
) -> Result<Role, ExchangeError> {
    let role = edge_in_clear(config, index, life, feed)?;
    sealed_edge(&config.all_shards().collect::<Vec<_>>(), life, index, role)
}

/// One edge of a venue of any number of shards, in clear: for whoever has keys of another origin. It hands
/// the feed on to `feed`; its boot nonce comes from `life`.
///
/// # Errors
/// As [`venue_edge`].
pub fn edge_in_clear(
    config: &ExchangeConfig,
    index: usize,
    life: Life,
    feed: Peer,
) -> Result<Role, ExchangeError> {
    check(config)?;
    if index >= config.receivers {
        return Err(ExchangeError::NoSuchTree);
    }
    let configs: Vec<ExchangeConfig> = config.all_shards().collect();
    let boot_nonce = SplitMix64::new(boot_seed(life)).next_u64() as u32;
    Ok(Role::Edge(Box::new(edge_of(&configs, index, boot_nonce, feed)?)))
}

/// A node behind its link, where datagrams are sealed.
fn sealed(
    config: &ExchangeConfig,
    fleet: &Fleet,
    life: Life,
    (node, role): (usize, Role),
) -> Result<Role, ExchangeError> {
    let Some(secret) = &config.options.secret else { return Ok(role) };
    let secret = secret.of_shard(config.shard.id);
    let queues = config.options.upstream.is_some() && role.as_proxy().is_some();
    let link =
        secret.link(NodeId(node as u16), fleet, life, queues).ok_or(ExchangeError::Cipher)?;
    Ok(Role::Sealed(Box::new(Sealed::new(role, link))))
}

/// An edge behind its links, one of each shard.
fn sealed_edge(
    configs: &[ExchangeConfig],
    life: Life,
    index: usize,
    role: Role,
) -> Result<Role, ExchangeError> {
    let mut links = Vec::with_capacity(configs.len());
    for config in configs {
        let Some(secret) = &config.options.secret else { return Ok(role) };
        let topology = config.tree()?.topology;
        let node = topology.node_id(topology.depth() - 1, index).unwrap_or_default();
        let secret = secret.of_shard(config.shard.id);
        let link = secret.link(node, &Fleet::of(&topology), life, false);
        links.push((Channel::of_shard(config.shard.id), link.ok_or(ExchangeError::Cipher)?));
    }
    let mut links = links.into_iter();
    let (_, first) = links.next().ok_or(ExchangeError::Shards)?;
    Ok(Role::Sealed(Box::new(Sealed::new(role, first).with_links(links.collect()))))
}

/// One node of the overlay that is not the root, in clear: a proxy, one that stands by, or an edge,
/// which hands the feed on to `feed`. Its boot nonce comes from `life`.
///
/// # Errors
/// As [`deploy`]; [`ExchangeError::NoSuchTree`] for the root and for a number that no node has.
pub fn overlay_node(
    config: &ExchangeConfig,
    node: NodeId,
    life: Life,
    feed: Peer,
) -> Result<Role, ExchangeError> {
    check(config)?;
    let (tree, trees) = (config.tree()?, config.trees()?);
    if tree.topology.proxy_ids().any(|proxy| proxy == node) {
        return Ok(proxy(config, (&tree, &trees), node));
    }
    let index = tree.topology.receiver_ids().position(|receiver| receiver == node);
    let index = index.ok_or(ExchangeError::NoSuchTree)?;
    let boot_nonce = SplitMix64::new(boot_seed(life)).next_u64() as u32;
    Ok(Role::Edge(Box::new(edge(config, (&tree, &trees), index, boot_nonce, feed))))
}

/// What no exchange can be made of.
fn check(config: &ExchangeConfig) -> Result<(), ExchangeError> {
    config.check_shards()?;
    for account in &config.accounts {
        if account.username.len() > 6 || account.password.len() > 10 {
            return Err(ExchangeError::Login(account.username.clone()));
        }
    }
    let mut sessions: Vec<_> = config.accounts.iter().filter_map(|one| one.fix.as_ref()).collect();
    sessions.sort_by_key(|session| (&session.comp_id, session.version));
    if let Some([twice, _]) = sessions.array_windows().find(|[a, b]| a == b) {
        return Err(ExchangeError::FixSession(twice.comp_id.clone()));
    }
    for account in &config.accounts {
        let session = account.fix.as_ref().filter(|session| session.role == FixRole::DropCopy);
        if let Some(session) = session.filter(|_| account.firm.is_empty()) {
            return Err(ExchangeError::NoFirm(session.comp_id.clone()));
        }
    }
    Ok(())
}

/// A proxy is of one plane, and so of the stream that has this plane for itself.
fn proxy(config: &ExchangeConfig, (tree, trees): (&Tree, &[Tree]), node: NodeId) -> Role {
    let options = &config.options;
    let delay = DelayLimits {
        owd_max_ns: config.delay_cap_ns,
        samples: options.samples(),
        ..DelayLimits::default()
    };
    let settings = ProxyConfig {
        delay,
        slowest_first: options.slowest_first,
        upstream: options.upstream,
        cache: options.cache,
        ..ProxyConfig::default()
    };
    let plane = tree.topology.plane_of_proxy(node).map_or(0, usize::from);
    let tree = *trees.get(plane).unwrap_or(&trees[0]);
    Role::Proxy(Box::new(Proxy::new(tree, node, settings)))
}

fn boot_seed(Life(bytes): Life) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = bytes;
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

/// The root of a deployment, to be one of a group, and what makes its link where datagrams are
/// sealed: each time that it leads it lives anew, as `lives` draws.
pub fn group_root(
    config: &ExchangeConfig,
    lives: impl Fn() -> Option<Life> + Send + 'static,
) -> Result<(Box<Root>, Option<NewLink>), ExchangeError> {
    let (tree, trees) = (config.tree()?, config.trees()?);
    let root = Box::new(Root::new(config, &trees)?);
    let fleet = Fleet::of(&tree.topology);
    let secret = config.options.secret.as_ref().map(|it| it.of_shard(config.shard.id));
    let ring = secret.map(|it| it.ring(ExchangeConfig::ROOT, &fleet));
    Ok((root, ring.map(|ring| NewLink::new(fleet, ring, lives))))
}

/// The nodes that [`deploy`] made will be in one loop: what root and edges send each other there is handed over
/// in memory by [`Channel::LOCAL`] and not sealed. What a proxy passes on stays as its source sealed it.
pub fn share_loop(nodes: &mut [Role]) {
    // Edges have one number after the other.
    let mut edges = (0u16..).zip(nodes.iter()).filter(|(_, role)| role.as_edge().is_some());
    let first = edges.next().map_or(0, |(node, _)| node);
    let edges = first..edges.last().map_or(first, |(node, _)| node) + 1;
    let root = ExchangeConfig::ROOT.0;
    for role in nodes {
        let Role::Sealed(sealed) = role else { continue };
        match sealed.node() {
            Role::Root(_) => sealed.share_loop(edges.clone()),
            Role::Edge(_) => sealed.share_loop(root..root + 1),
            _ => {}
        }
    }
}

/// Puts every node behind its link, where datagrams are sealed.
fn seal(
    config: &ExchangeConfig,
    tree: &Tree,
    life: Life,
    nodes: Vec<Role>,
) -> Result<Vec<Role>, ExchangeError> {
    let Some(secret) = &config.options.secret else { return Ok(nodes) };
    let fleet = Fleet::of(&tree.topology);
    let guarded = |(index, role): (usize, Role)| {
        let queues = config.options.upstream.is_some() && role.as_proxy().is_some();
        let link =
            secret.link(NodeId(index as u16), &fleet, life, queues).ok_or(ExchangeError::Cipher)?;
        Ok(Role::Sealed(Box::new(Sealed::new(role, link))))
    };
    nodes.into_iter().enumerate().map(guarded).collect()
}

/// Where proxies answer repairs, receivers that miss the same ask at different times.
const GAP_JITTER_NS: u64 = 100 * Nanos::MICRO;

fn edge(
    config: &ExchangeConfig,
    trees: (&Tree, &[Tree]),
    index: usize,
    boot_nonce: u32,
    feed: Peer,
) -> Edge {
    let path = path(trees.0, index);
    let receivers = receivers(config, path.node, trees.1, feed);
    let gateway = gateway(config, vec![path.clone()], index, boot_nonce);
    Edge::new(path.node, receivers, gateway).with_books(config.open_orders_max, config.midnight)
}

/// The edge of all shards whose configurations these are.
fn edge_of(
    configs: &[ExchangeConfig],
    index: usize,
    boot_nonce: u32,
    feed: Peer,
) -> Result<Edge, ExchangeError> {
    let (mut paths, mut of_shards) = (Vec::new(), Vec::new());
    for config in configs {
        let path = path(&config.tree()?, index);
        of_shards.push((path.node, receivers(config, path.node, &config.trees()?, feed)));
        paths.push(path);
    }
    let config = configs.first().ok_or(ExchangeError::Shards)?;
    let gateway = gateway(config, paths, index, boot_nonce);
    Ok(Edge::of_shards(of_shards, gateway).with_books(config.open_orders_max, config.midnight))
}

/// Orders go up any plane of the whole tree, so that each carries its share of them.
fn path(tree: &Tree, index: usize) -> ShardPath {
    let topology = &tree.topology;
    let node = topology.node_id(topology.depth() - 1, index).unwrap_or_default();
    let candidates = topology.up_candidates(node, tree.hedge, tree.epoch).collect();
    ShardPath { node, root: ExchangeConfig::ROOT, epoch: tree.epoch, candidates }
}

/// The receivers of one shard's streams.
fn receivers(config: &ExchangeConfig, node: NodeId, trees: &[Tree], feed: Peer) -> Vec<Receiver> {
    let mut receiver = ReceiverConfig::new(config.session, feed);
    receiver.owd_window = config.delay_window;
    receiver.owd_permille = config.delay_permille;
    receiver.samples = config.options.samples();
    // No honest deadline is cut: a root that takes over holds for the cap and the largest bound.
    receiver.hold_limit_ns = receiver.hold_limit_ns.max(2 * config.delay_cap_ns);
    if config.options.release_at_once {
        receiver.hold_limit_ns = 0;
    }
    if config.options.quarantine_ns > 0 {
        receiver.bound_max_ns = config.options.quarantine_ns;
    }
    receiver.parity = config.options.parity > 0;
    receiver.ask_parents = config.options.cache.is_some();
    receiver.gap_jitter_ns = if receiver.ask_parents { GAP_JITTER_NS } else { 0 };
    receiver.channel = Channel::of_shard(config.shard.id);
    let of_stream = |tree: &Tree| {
        let session = config.session_of(tree.stream);
        Receiver::new(*tree, node, ReceiverConfig { session, ..receiver })
    };
    trees.iter().map(of_stream).collect()
}

fn gateway(
    config: &ExchangeConfig,
    shards: Vec<ShardPath>,
    index: usize,
    boot_nonce: u32,
) -> Gateway {
    let places = 0..config.instruments.len();
    let shard_of = |place| config.shard.shard_of(place).0;
    let stream_of = |place| config.options.stream_of(place);
    Gateway::new(GatewayConfig {
        gateway: ExchangeConfig::gateway(index),
        shards,
        shard_of: places.clone().map(shard_of).collect(),
        ways: config.options.order_ways.max(1),
        boot_nonce,
        session: config.session,
        instruments: config.instruments.clone(),
        stream_of: places.map(stream_of).collect(),
        streams: config.options.streams(),
        fix_comp_id: config.fix_comp_id.clone(),
        midnight: config.midnight,
        logins: config.accounts.iter().map(login).collect(),
        hold_max_ns: config.execution_hold_max_ns,
        cancel_grace_ns: config.cancel_grace_ns,
        durable: config.durable,
        outstanding: config.outstanding,
        connections_max: config.connections_max,
        access: config.access,
    })
}

fn login(account: &crate::Account) -> Login {
    Login {
        account: account.id,
        username: account.username.clone().into_bytes(),
        password: account.password.clone().into_bytes(),
        terms: account.terms.clone(),
        cancel_on_disconnect: account.cancel_on_disconnect,
        throttle: account.throttle,
        fix: account.fix.clone(),
    }
}

/// A listener of all streams of this exchange, each as `settings` say.
pub fn subscriber(config: &ExchangeConfig, settings: &ListenerConfig) -> Subscriber {
    Subscriber::new(settings, config.channels())
}

/// A listener's configuration for the whole feed of this exchange in one session, repairing from
/// the public `servers`.
pub fn listener(config: &ExchangeConfig, servers: Vec<Peer>) -> ListenerConfig {
    let instruments = config.instruments.iter().map(|instrument| instrument.id).collect();
    let mut listener = ListenerConfig::new(Session(config.session), servers, instruments);
    listener.orders_max = config.open_orders_max;
    listener
}
