//! How all machines of a venue are.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::json;
use types::{Nanos, NodeId};

use super::{SILENT, Server, lock};
use crate::fleet::file::digest_text;
use crate::fleet::messages::{FromRoot, Health};
use crate::fleet::observer::{Fairness, Spread};

/// Accounts with a line of their own in a text at most.
const ACCOUNTS_TOLD: usize = 16;

/// Orders of one account in the last span.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
struct AccountOrders {
    account: u16,
    /// Its user name; empty for a number that the venue's settings don't have.
    name: String,
    orders: u64,
    /// Those handled after one that had come to a gateway later.
    inverted: u64,
    /// From the gateway to the log.
    way_ns: Spread,
}

impl Server {
    /// Fairness of the last ten seconds, within a microsecond and twice what the clocks leave
    /// open.
    pub(in crate::fleet) fn fairness(&self) -> Fairness {
        let mut bounds: Vec<u64> = {
            let heard = lock(&self.heard);
            let kept = heard.values().filter(|one| !one.health.quarantined);
            kept.map(|one| one.health.clock_bound_ns).collect()
        };
        bounds.sort_unstable();
        // Any two clocks differ by the two largest bounds at most.
        let uncertainty_ns = bounds.iter().rev().take(2).sum();
        lock(&self.observer).of.fairness(uncertainty_ns, Nanos::MICRO + 2 * uncertainty_ns)
    }

    /// Whether this replica leads for so short a time that nodes that are up may not have come yet.
    fn has_just_begun(&self, term: u64) -> bool {
        let observed = lock(&self.observer);
        observed.term != term || observed.since.is_none_or(|since| since.elapsed() < SILENT)
    }

    fn fairness_lines(&self, of: &Fairness) -> Vec<String> {
        let us = |ns: u64| ns as f64 / 1e3;
        let pair = |spread: &Spread| format!("{:.0} / {:.0}", us(spread.p50), us(spread.p99));
        let lost = lock(&self.observer).lost;
        let orders = &of.orders;
        let mut lines = vec![
            format!(
                "feed, last 10 s: {} sampled datagrams released everywhere, {} not ({lost} observations \
                 lost); us p50 / p99: to the last arrival {}, to the last release {}, from the first \
                 release to the last {}",
                of.messages,
                of.incomplete,
                pair(&of.oml_arrival_ns),
                pair(&of.oml_release_ns),
                pair(&of.dws_ns)
            ),
            format!(
                "released everywhere within {:.0} us: surely {:.1} %, perhaps {:.1} % (two clocks differ \
                 by {:.0} us at most)",
                us(of.window_ns),
                100.0 * of.p_fair.0,
                100.0 * of.p_fair.1,
                us(of.uncertainty_ns)
            ),
            format!(
                "orders, last 10 s: {}, {} handled after one that came to its gateway later, {} of them \
                 whatever the clocks' errors; gateway to log {} us",
                orders.orders,
                orders.inverted,
                orders.surely_inverted,
                pair(&orders.way_ns)
            ),
        ];
        // Those with the most orders.
        let mut accounts = self.accounts(of);
        accounts.sort_by_key(|of| (u64::MAX - of.orders, of.account));
        lines.extend(accounts.iter().take(ACCOUNTS_TOLD).map(|of| {
            let (name, account, way) = (&of.name, of.account, pair(&of.way_ns));
            let (orders, inverted) = (of.orders, of.inverted);
            format!(
                "  {name} (account {account}): {orders}, {inverted} after a later one; {way} us"
            )
        }));
        if let Some(more) = accounts.len().checked_sub(ACCOUNTS_TOLD).filter(|more| *more > 0) {
            lines.push(format!("  {more} more accounts: --json"));
        }
        lines
    }

    /// Orders of the last span by account, in the order of their numbers.
    fn accounts(&self, of: &Fairness) -> Vec<AccountOrders> {
        let named = |account: u16| {
            let place = usize::from(account).checked_sub(1)?;
            self.venue.accounts.get(place).cloned()
        };
        let one =
            |(account, (orders, inverted, way_ns)): (&u16, &(u64, u64, Spread))| AccountOrders {
                account: *account,
                name: named(*account).unwrap_or_default(),
                orders: *orders,
                inverted: *inverted,
                way_ns: *way_ns,
            };
        of.orders.accounts.iter().map(one).collect()
    }

    pub(super) fn status(&self) -> FromRoot {
        let standing = self.standing();
        let epoch = standing.nodes.key_epoch();
        // One after the other: two operators who ask at once must not wait for each other.
        let generations = lock(&self.generations).clone();
        let has_just_begun = self.has_just_begun(standing.term);
        let heard = lock(&self.heard);
        let tree = standing.nodes.tree();
        let replaced = tree.replaced.iter().map(|(old, new)| {
            (self.machine(NodeId(*old)).to_string(), self.machine(NodeId(*new)).to_string())
        });
        let replaced: Vec<(String, String)> = replaced.collect();
        let tree_epoch = tree.changes + 1;
        let mut lines = vec![format!(
            "replica {} leads in term {}; keys are of epoch {epoch}, the tree is of epoch {tree_epoch}",
            standing.leader, standing.term
        )];
        let (log, replicas) = self.replicas(&standing);
        lines.push(log);
        lines.extend(replaced.iter().map(|(old, new)| format!("{new} took the place of {old}")));
        lines.push(format!(
            "{:<16} {:<14} {:>5} {:>6} {:>12} {:>9} {:>10} {:>10} {:>8}",
            "node", "is", "life", "epoch", "clock +-ns", "sessions", "requests", "released", "late"
        ));
        let mut rows = Vec::new();
        for (number, node) in (1u16..).zip(&self.venue.file.nodes) {
            let known = standing.nodes.get(number.into());
            let one = heard.get(&number);
            // Those that have nothing of this shard keep no connection to its roots.
            let is_first = self.venue.file.shard() == types::ShardId(0);
            if !is_first && !self.venue.file.concerns(number) {
                continue;
            }
            let is = match one {
                _ if known.drained => "drained",
                Some(one) if one.at.elapsed() > SILENT => "silent",
                Some(one) if one.health.quarantined => "quarantined",
                Some(_) if self.scaling.is_leaving(number) => "leaving",
                Some(_) => "up",
                None if generations.get(&number).is_some_and(|last| *last <= known.revoked) => {
                    "revoked"
                }
                None if has_just_begun => "unknown",
                None => "away",
            };
            let health = one.map(|one| one.health.clone()).unwrap_or_default();
            lines.push(format!(
                "{:<16} {is:<14} {:>5} {:>6} {:>12} {:>9} {:>10} {:>10} {:>8}",
                node.name,
                known.life(),
                health.key_epoch,
                health.clock_bound_ns,
                health.sessions,
                health.requests,
                health.released,
                health.late
            ));
            rows.push(json!({
                "node": node.name, "is": is, "life": known.life(), "revoked": known.revoked,
                "drained": known.drained, "issued": known.issued,
                "token": known.token.map(|token| json!({
                    "ends_ns": token.ends.0, "used": token.is_used(),
                })),
                "generation": one.map(|one| one.generation),
                "health": one.map(|one| &one.health),
            }));
        }
        for (number, one) in heard.iter().filter(|(_, one)| !one.health.alarms.is_empty()) {
            let name = self.venue.file.numbered(*number).map_or("", |node| &node.name[..]);
            lines.extend(one.health.alarms.iter().map(|alarm| format!("ALARM at {name}: {alarm}")));
        }
        drop(heard);
        let fairness = self.fairness();
        lines.extend(self.fairness_lines(&fairness));
        lines.extend(self.planned_line());
        let scaled = self.scaled();
        lines.extend(scaled.iter().map(|(line, _)| line.clone()));
        let behind = fairness.behind_first.iter();
        let behind: BTreeMap<&str, &Spread> =
            behind.map(|(id, ns)| (self.machine(NodeId(*id)), ns)).collect();
        let mut of = json!(fairness);
        of["behind_first"] = json!(behind);
        of["orders"]["accounts"] = json!(self.accounts(&fairness));
        let data = json!({
            "fairness": of, "scale": scaled.map(|(_, data)| data),
            "leader": standing.leader, "term": standing.term, "key_epoch": epoch,
            "tree_epoch": tree_epoch, "replaced": replaced, "nodes": rows,
            "behind": standing.behind, "replicas": replicas,
            "joins": self.joins.told(), "venue": digest_text(self.venue.digest),
        });
        FromRoot::Answer { text: lines.join("\n"), data }
    }

    pub(super) fn tell_quarantine(&self, name: &str, health: &Health) {
        let key = format!("quarantine-{name}");
        match health.quarantined {
            true => self.alarms.raise(
                &key,
                format!(
                    "{name}'s clock is within {} ns only: nobody waits for it",
                    health.clock_bound_ns
                ),
            ),
            false => self.alarms.clear(&key, format!("{name}'s clock is good enough again")),
        }
    }
}
