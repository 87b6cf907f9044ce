//! What machines cost: a price list that the user edits, and the machines that a tree needs.
//!
//! The list is TOML: `currency`, and `[[price]]` entries, of which the first that fits a machine by
//! role and zone counts. `examples/prices.toml` is one to start from.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use host::failure::Failure;
use host::fleet::file::{ClusterFile, NodeEntry, NodeRole};
use host::fleet::plan::{PlanReport, TreeLine};

/// Entries of a list at most.
const ENTRIES_MAX: usize = 1_000;
/// Dearest machine, per hour.
const PER_HOUR_MAX: f64 = 1e6;

/// A price list.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// What `per_hour` is in.
    pub currency: String,
    /// Machines, the first that fits counts.
    #[serde(default, rename = "price")]
    entries: Vec<Entry>,
}

/// What a machine of a kind costs.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// The kind, as the cloud names it.
    machine: String,
    /// Price of an hour.
    per_hour: f64,
    /// For machines with one of these roles; empty: for any.
    #[serde(default)]
    roles: Vec<NodeRole>,
    /// For machines of this zone; none: of any.
    #[serde(default)]
    zone: Option<String>,
}

/// A machine that a tree needs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Provided {
    /// Its name in the cluster file.
    pub name: String,
    /// Where it is reached; empty for one that there is not yet.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// Its zone.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub zone: String,
    /// What it does.
    pub roles: Vec<NodeRole>,
    /// Its kind, as the price list names it; empty without one.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Price of an hour, where the list has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_hour: Option<f64>,
    /// It is in the cluster file already.
    pub exists: bool,
}

/// What a tree costs.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Cost {
    /// Machines: roots, proxies with a place, those that stand by, edges.
    pub machines: usize,
    /// Of those, proxies with a place.
    pub proxies: usize,
    /// Price of an hour of all; `None` without a list.
    pub per_hour: Option<f64>,
    /// Of the proxies alone.
    pub proxies_per_hour: Option<f64>,
}

impl Prices {
    /// Reads a list.
    ///
    /// # Errors
    /// What is wrong with it, with file, line and key.
    pub fn read(path: &Path) -> Result<Prices, Failure> {
        let wrong = |why: String| Failure::Usage(format!("{}: {why}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        Prices::parse(&text).map_err(wrong)
    }

    fn parse(text: &str) -> Result<Prices, String> {
        let list: Prices = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
            format!("line {line}: {}", error.message().lines().collect::<Vec<_>>().join(", "))
        })?;
        if list.entries.len() > ENTRIES_MAX {
            return Err(format!("price: at most {ENTRIES_MAX}"));
        }
        for (at, entry) in list.entries.iter().enumerate() {
            if !(0.0..=PER_HOUR_MAX).contains(&entry.per_hour) {
                return Err(format!("price[{at}].per_hour: 0 to {PER_HOUR_MAX}"));
            }
        }
        Ok(list)
    }

    fn of(&self, machine: &Provided) -> Option<&Entry> {
        self.entries.iter().find(|entry| {
            let role =
                entry.roles.is_empty() || entry.roles.iter().any(|of| machine.roles.contains(of));
            role && entry.zone.as_ref().is_none_or(|zone| *zone == machine.zone)
        })
    }

    /// Sets kinds and prices.
    ///
    /// # Errors
    /// No entry fits a machine.
    fn price(&self, machines: &mut [Provided]) -> Result<(), Failure> {
        for machine in machines {
            let entry = self.of(machine).ok_or_else(|| {
                let Provided { name, zone, roles, .. } = machine;
                Failure::Usage(format!(
                    "no price for {name} (roles {roles:?}, zone {zone:?}): add a [[price]] without roles \
                     and zone as the last one"
                ))
            })?;
            machine.kind.clone_from(&entry.machine);
            machine.per_hour = Some(entry.per_hour);
        }
        Ok(())
    }
}

/// The machines that a tree of a plan needs, with prices where there is a list. Proxies that have no
/// place in it stand by, as many as the file has standing by; others are not needed.
///
/// # Errors
/// No price for one of them.
pub fn provide(
    file: &ClusterFile,
    plan: &PlanReport,
    tree: &TreeLine,
    prices: Option<&Prices>,
) -> Result<Vec<Provided>, Failure> {
    let is_of_pool = |role: &NodeRole| matches!(role, NodeRole::Proxy | NodeRole::Standby);
    let mut standby = file.of(NodeRole::Standby).count();
    let mut machines = Vec::new();
    for node in &file.nodes {
        let mut roles: Vec<NodeRole> =
            node.roles.iter().copied().filter(|role| !is_of_pool(role)).collect();
        if tree.proxies.contains(&node.name) {
            roles.push(NodeRole::Proxy);
        } else if node.roles.iter().any(is_of_pool) && standby > 0 {
            standby -= 1;
            roles.push(NodeRole::Standby);
        }
        if !roles.is_empty() {
            let NodeEntry { name, address, zone, .. } = node.clone();
            machines.push(Provided {
                name,
                address,
                zone,
                roles,
                kind: String::new(),
                per_hour: None,
                exists: true,
            });
        }
    }
    let mut zones = BTreeMap::<String, usize>::new();
    for machine in &machines {
        *zones.entry(machine.zone.clone()).or_default() += 1;
    }
    let known = |name: &str| plan.pool.iter().any(|of| of == name);
    let mut number = 0;
    for _ in tree.proxies.iter().filter(|name| !known(name)) {
        let name = loop {
            number += 1;
            let name = format!("proxy-{number}");
            if file.nodes.iter().all(|node| node.name != name) {
                break name;
            }
        };
        // Into the zone with the fewest machines.
        let zone = zones.iter().min_by_key(|(_, count)| **count).map(|(zone, _)| zone.clone());
        let zone = zone.unwrap_or_default();
        *zones.entry(zone.clone()).or_default() += 1;
        machines.push(Provided {
            name,
            address: String::new(),
            zone,
            roles: vec![NodeRole::Proxy],
            kind: String::new(),
            per_hour: None,
            exists: false,
        });
    }
    if let Some(prices) = prices {
        prices.price(&mut machines)?;
    }
    Ok(machines)
}

/// What machines cost together.
pub fn cost(machines: &[Provided]) -> Cost {
    let is_proxy = |machine: &&Provided| machine.roles.contains(&NodeRole::Proxy);
    let sum = |of: &mut dyn Iterator<Item = &Provided>| -> Option<f64> {
        of.map(|machine| machine.per_hour).sum()
    };
    let priced = machines.iter().any(|machine| machine.per_hour.is_some());
    Cost {
        machines: machines.len(),
        proxies: machines.iter().filter(is_proxy).count(),
        per_hour: sum(&mut machines.iter()).filter(|_| priced),
        proxies_per_hour: sum(&mut machines.iter().filter(is_proxy)).filter(|_| priced),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::Nanos;

    fn venue() -> (ClusterFile, PlanReport) {
        let node = |name: &str, role, zone: &str| NodeEntry {
            zone: zone.to_string(),
            ..NodeEntry::new(name, name, vec![role])
        };
        let nodes = vec![
            node("root-1", NodeRole::Root, "a"),
            node("proxy-1", NodeRole::Proxy, "a"),
            node("proxy-2", NodeRole::Proxy, "b"),
            node("standby-1", NodeRole::Standby, "a"),
            node("edge-1", NodeRole::Edge, "b"),
        ];
        let file = ClusterFile::new(Path::new("some/cluster.toml"), "lab", Nanos(1 << 60), nodes);
        let pool = ["proxy-1", "proxy-2", "standby-1"].map(String::from).to_vec();
        (file.expect("a file"), PlanReport { pool, ..PlanReport::default() })
    }

    fn tree(proxies: &[&str]) -> TreeLine {
        TreeLine {
            proxies: proxies.iter().map(ToString::to_string).collect(),
            ..TreeLine::default()
        }
    }

    const LIST: &str = "currency = \"USD\"\n[[price]]\nmachine = \"large\"\nper_hour = 1.5\nroles = [\"root\"]\n\
        [[price]]\nmachine = \"far\"\nper_hour = 0.5\nzone = \"b\"\n[[price]]\nmachine = \"usual\"\nper_hour = 0.34\n";

    #[test]
    fn a_tree_names_its_machines_with_roles_zones_and_prices() {
        let (file, plan) = venue();
        let prices = Prices::parse(LIST).expect("a list");
        let machines = provide(&file, &plan, &tree(&["standby-1", "proxy-2"]), Some(&prices));
        let machines = machines.expect("prices for all");
        let of = |name: &str| machines.iter().find(|of| of.name == name).expect("named");
        assert_eq!(
            (&of("standby-1").roles[..], of("standby-1").exists),
            (&[NodeRole::Proxy][..], true)
        );
        assert_eq!(
            (&of("proxy-1").roles[..], &of("proxy-1").kind[..]),
            (&[NodeRole::Standby][..], "usual")
        );
        assert_eq!((&of("root-1").kind[..], &of("edge-1").kind[..]), ("large", "far"));
        let all = cost(&machines);
        assert_eq!((all.machines, all.proxies), (5, 2));
        assert!((all.per_hour.expect("priced") - (1.5 + 0.34 + 0.5 + 0.34 + 0.5)).abs() < 1e-9);
        assert!((all.proxies_per_hour.expect("priced") - 0.84).abs() < 1e-9);
        // Without a list there are machines and no money.
        let plain = provide(&file, &plan, &tree(&["proxy-1"]), None).expect("machines");
        assert_eq!((cost(&plain).machines, cost(&plain).per_hour), (4, None));
    }

    #[test]
    fn machines_that_are_not_there_yet_get_names_and_zones() {
        let (file, plan) = venue();
        let wanted = tree(&["proxy-1", "new-1", "new-2", "proxy-2"]);
        let machines = provide(&file, &plan, &wanted, None).expect("machines");
        let new: Vec<(&str, &str)> = machines
            .iter()
            .filter(|of| !of.exists)
            .map(|of| (&of.name[..], &of.zone[..]))
            .collect();
        // Zone a has three of five.
        assert_eq!(new, [("proxy-3", "b"), ("proxy-4", "a")]);
    }

    /// Row J17: 30 proxies for 100 receivers cost 10.2 an hour at 0.34, and 330 for 1,000 cost 112.2.
    #[test]
    fn the_papers_deployments_cost_what_it_says() {
        let (file, plan) = venue();
        let prices =
            Prices::parse("currency = \"USD\"\n[[price]]\nmachine = \"m\"\nper_hour = 0.34\n");
        let prices = prices.expect("a list");
        for (proxies, dollars) in [(30, 10.2), (330, 112.2)] {
            let names: Vec<String> = (1..=proxies).map(|number| format!("new-{number}")).collect();
            let wanted = TreeLine { proxies: names, ..TreeLine::default() };
            let machines = provide(&file, &plan, &wanted, Some(&prices)).expect("machines");
            let all = cost(&machines);
            assert!((all.proxies_per_hour.expect("priced") - dollars).abs() < 1e-6, "{all:?}");
        }
    }

    #[test]
    fn wrong_lists_and_missing_prices_are_said_with_their_place() {
        for (text, said) in [
            ("", "currency"),
            (
                "currency = \"USD\"\n[[price]]\nmachine = \"m\"\nper_hour = -1\n",
                "price[0].per_hour",
            ),
            (
                "currency = \"USD\"\n[[price]]\nmachine = \"m\"\nper_hour = nan\n",
                "price[0].per_hour",
            ),
            ("currency = \"USD\"\n[[price]]\nper_hour = 1\n", "machine"),
            ("currency = \"USD\"\nper_day = 1\n", "line 2"),
            (
                "currency = \"USD\"\n[[price]]\nmachine = \"m\"\nper_hour = 1\nroles = [\"x\"]\n",
                "line 5",
            ),
        ] {
            let why = Prices::parse(text).expect_err(text);
            assert!(why.contains(said), "{text}: {why}");
        }
        let (file, plan) = venue();
        let some =
            "currency = \"USD\"\n[[price]]\nmachine = \"m\"\nper_hour = 1\nroles = [\"root\"]\n";
        let prices = Prices::parse(some).expect("a list");
        let why = provide(&file, &plan, &tree(&["proxy-1"]), Some(&prices)).expect_err("no price");
        assert!(why.to_string().contains("no price for proxy-1"), "{why}");
    }
}
