//! One configuration makes all nodes, or says why it cannot.

use exchange::{ExchangeConfig, ExchangeError, OverlayOptions, Role, Secret, deploy, share_loop};
use overlay::topology::TopologyError;
use types::{Channel, ClockReading, Instrument, Nanos, Node, NodeId, Op, Outbox, Peer};

use crate::common::{EDGE, LISTENERS, START, config};

fn refusal(change: impl FnOnce(&mut ExchangeConfig)) -> ExchangeError {
    let mut config = config();
    change(&mut config);
    let result = deploy(&config, exchange::Life::of(1), |_| LISTENERS);
    let error = result.err().expect("no such exchange");
    assert!(!error.to_string().is_empty());
    error
}

#[test]
fn nodes_come_in_the_order_of_their_numbers() {
    let mut config = config();
    (config.depth, config.fanout, config.receivers, config.hedge) = (2, 3, 9, 1);
    let nodes = deploy(&config, exchange::Life::of(1), |_| LISTENERS).expect("possible");
    let is_proxy = |role: &Role| role.as_proxy().is_some();
    assert_eq!(nodes.len(), 1 + 3 + 9);
    assert!(nodes[0].as_root().is_some());
    assert!(nodes[1..4].iter().all(is_proxy));
    assert!(nodes[4..].iter().all(|role| role.as_edge().is_some()));
}

#[test]
fn impossible_trees_are_refused() {
    let topology = ExchangeError::Topology;
    assert_eq!(refusal(|c| c.depth = 0), topology(TopologyError::Depth(0)));
    assert_eq!(refusal(|c| c.depth = 99), topology(TopologyError::Depth(99)));
    assert_eq!(refusal(|c| c.receivers = 0), topology(TopologyError::EmptyLayer(0)));
    assert_eq!(refusal(|c| c.fanout = 0), topology(TopologyError::Fanout));
    let many = refusal(|c| (c.depth, c.receivers) = (2, 40_000));
    assert!(matches!(many, ExchangeError::Topology(TopologyError::TooManyNodes(_))));
    assert!(matches!(refusal(|c| c.receivers = 10_000), ExchangeError::Engine(_)));
}

#[test]
fn logins_that_do_not_fit_are_refused() {
    let name = refusal(|c| c.accounts[1].username = "SEVENCH".into());
    assert_eq!(name, ExchangeError::Login("SEVENCH".into()));
    let password = refusal(|c| c.accounts[2].password = "elevenchars".into());
    assert_eq!(password, ExchangeError::Login("USER3".into()));
    let mut fits = config();
    fits.accounts[0].username = "SIXCHR".into();
    fits.accounts[0].password = "tenletters".into();
    assert!(deploy(&fits, exchange::Life::of(1), |_| LISTENERS).is_ok());
}

#[test]
fn an_exchange_without_markets_or_accounts_is_none() {
    assert!(matches!(refusal(|c| c.instruments.clear()), ExchangeError::Engine(_)));
    assert!(matches!(refusal(|c| c.accounts.clear()), ExchangeError::Engine(_)));
    assert!(matches!(refusal(|c| c.open_orders_max = 0), ExchangeError::Engine(_)));
    let double = |c: &mut ExchangeConfig| {
        let first: Instrument = c.instruments[0];
        c.instruments.push(first);
    };
    assert!(matches!(refusal(double), ExchangeError::Engine(_)));
    let mut endless = config();
    endless.log_capacity = 0;
    assert!(deploy(&endless, exchange::Life::of(1), |_| LISTENERS).is_ok(), "its log has no end");
}

/// A root and an edge that seal, in one loop or not.
fn sealing_pair(shared: bool) -> [Role; 2] {
    let plain = config();
    let options = OverlayOptions { secret: Some(Secret([7; 32])), ..plain.options };
    let config = ExchangeConfig { options, ..plain };
    let mut nodes = deploy(&config, exchange::Life::of(1), |_| LISTENERS).expect("possible");
    if shared {
        share_loop(&mut nodes);
    }
    nodes.try_into().ok().expect("a root and an edge")
}

/// Delivers what both send each other for a second; how many datagrams went by each channel.
fn talk(nodes: &mut [Role; 2]) -> [usize; 2] {
    const IDS: [NodeId; 2] = [ExchangeConfig::ROOT, EDGE];
    let mut sent = [0; 2];
    let mut now = START;
    while now < START.after(Nanos::SECOND) {
        let reading = ClockReading { now, bound_ns: 0 };
        let mut outs = [Outbox::default(), Outbox::default()];
        for (node, out) in nodes.iter_mut().zip(&mut outs) {
            if node.next_timeout() <= now {
                node.handle_timeout(reading, out);
            }
        }
        while outs.iter().any(|out| !out.ops().is_empty()) {
            let mut answers = [Outbox::default(), Outbox::default()];
            for (from, out) in outs.iter().enumerate() {
                for op in out.ops() {
                    let Op::Datagram { channel, to: Peer::Node(to), bytes } = *op else { continue };
                    let to = usize::from(to == EDGE);
                    sent[usize::from(channel == Channel::LOCAL)] += 1;
                    let (peer, bytes) = (Peer::Node(IDS[from]), out.bytes(bytes));
                    nodes[to].handle_datagram(reading, channel, peer, bytes, &mut answers[to]);
                }
            }
            outs = answers;
        }
        let due = nodes.iter().map(Node::next_timeout).min().unwrap_or(Nanos::NEVER);
        now = due.max(now.after(1));
    }
    sent
}

#[test]
fn root_and_edge_of_one_loop_seal_nothing_for_each_other() {
    let mut apart = sealing_pair(false);
    let [network, local] = talk(&mut apart);
    assert!(network > 20 && local == 0, "{network} by the network, {local} in the loop");
    let mut together = sealing_pair(true);
    let [network, local] = talk(&mut together);
    // Links greet each other all the same.
    assert!(network < 10 && local > 20, "{network} by the network, {local} in the loop");
    for ([root, edge], counts) in [(&apart, true), (&together, false)] {
        let stats = [root, edge].map(|node| node.link().expect("a link"));
        assert!(stats.iter().all(|of| (of.sealed > 0) == counts && of.refused() == 0));
        assert!(root.heard(EDGE) > Some(0) && edge.heard(ExchangeConfig::ROOT) > Some(0));
    }
}

#[test]
fn control_what_is_clear_and_comes_by_the_network_is_refused_in_one_loop_too() {
    let mut nodes = sealing_pair(true);
    let reading = ClockReading { now: START, bound_ns: 0 };
    let mut out = Outbox::default();
    nodes[1].handle_timeout(reading, &mut out);
    let clear = out.ops().iter().find_map(|op| match *op {
        Op::Datagram { channel: Channel::LOCAL, bytes, .. } => Some(out.bytes(bytes).to_vec()),
        _ => None,
    });
    let (clear, mut answer) = (clear.expect("a datagram to the root"), Outbox::default());
    let from = Peer::Node(EDGE);
    nodes[0].handle_datagram(reading, Channel::OVERLAY, from, &clear, &mut answer);
    assert_eq!(nodes[0].link().map(|of| (of.clear, of.opened)), Some((1, 0)));
    assert_eq!(nodes[0].heard(EDGE), Some(0));
    nodes[0].handle_datagram(reading, Channel::LOCAL, from, &clear, &mut answer);
    assert_eq!(nodes[0].heard(EDGE), Some(1));
}
