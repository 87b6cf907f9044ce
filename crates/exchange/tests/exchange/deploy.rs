//! One configuration makes all nodes, or says why it cannot.

use exchange::{ExchangeConfig, ExchangeError, Role, deploy};
use overlay::topology::TopologyError;
use types::Instrument;

use crate::common::{LISTENERS, config};

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
