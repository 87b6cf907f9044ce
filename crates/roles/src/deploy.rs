//! One configuration to all nodes of an exchange.

use feed::ListenerConfig;
use gateway::{CANCEL_GRACE_NS, Gateway, GatewayConfig, Login};
use overlay::{
    all_reduce::DelayLimits,
    proxy::{Proxy, ProxyConfig},
    receiver::{Receiver, ReceiverConfig},
    topology::Tree,
};
use types::{NodeId, Peer, SplitMix64};
use wire::moldudp::Session;

use crate::{Edge, ExchangeConfig, ExchangeError, Role, Root};

/// Makes the root, the proxies and the edges; a node's place in the list is its [`NodeId`].
/// `feed_of` says who gets what receiver `index` releases.
///
/// `start_s` is a number that rises with every start of the deployment (seconds since the epoch
/// will do): it tells a gateway's attachments from those of an earlier life.
pub fn deploy(
    config: &ExchangeConfig,
    start_s: u32,
    feed_of: impl Fn(usize) -> Peer,
) -> Result<Vec<Role>, ExchangeError> {
    for account in &config.accounts {
        if account.username.len() > 6 || account.password.len() > 10 {
            return Err(ExchangeError::Login(account.username.clone()));
        }
    }
    let tree = config.tree()?;
    let mut nonces = SplitMix64::new(config.seed ^ u64::from(start_s));
    let mut nodes = vec![Role::Root(Box::new(Root::new(config, tree)?))];
    let proxies = tree.topology.proxy_ids();
    let delay = DelayLimits { owd_max_ns: config.delay_cap_ns, ..DelayLimits::default() };
    let proxy = ProxyConfig { delay, ..ProxyConfig::default() };
    nodes.extend(proxies.map(|node| Role::Proxy(Box::new(Proxy::new(tree, node, proxy)))));
    for (index, node) in tree.topology.receiver_ids().enumerate() {
        let boot_nonce = nonces.next_u64() as u32;
        let edge = edge(config, tree, node, index, (boot_nonce, start_s), feed_of(index));
        nodes.push(Role::Edge(Box::new(edge)));
    }
    Ok(nodes)
}

fn edge(
    config: &ExchangeConfig,
    tree: Tree,
    node: NodeId,
    index: usize,
    (boot_nonce, start_s): (u32, u32),
    feed: Peer,
) -> Edge {
    let mut receiver = ReceiverConfig::new(config.session, feed);
    receiver.owd_window = config.delay_window;
    receiver.owd_permille = config.delay_permille;
    let gateway = GatewayConfig {
        gateway: ExchangeConfig::gateway(index),
        node,
        root: ExchangeConfig::ROOT,
        epoch: tree.epoch,
        candidates: tree.topology.up_candidates(node, config.hedge, tree.epoch).collect(),
        boot_nonce,
        first_token: start_s,
        session: config.session,
        instruments: config.instruments.clone(),
        midnight: config.midnight,
        logins: config.accounts.iter().map(login).collect(),
        hold_max_ns: config.execution_hold_max_ns,
        cancel_grace_ns: CANCEL_GRACE_NS,
        connections_max: config.connections_max,
    };
    Edge::new(Receiver::new(tree, node, receiver), Gateway::new(gateway))
}

fn login(account: &crate::Account) -> Login {
    Login {
        account: account.id,
        username: account.username.clone().into_bytes(),
        password: account.password.clone().into_bytes(),
        cancel_on_disconnect: account.cancel_on_disconnect,
    }
}

/// A listener's configuration for this exchange, repairing from the public server at `server`.
pub fn listener(config: &ExchangeConfig, server: Peer) -> ListenerConfig {
    let instruments = config.instruments.iter().map(|instrument| instrument.id).collect();
    let mut listener = ListenerConfig::new(Session(config.session), server, instruments);
    listener.orders_max = config.open_orders_max;
    listener
}
