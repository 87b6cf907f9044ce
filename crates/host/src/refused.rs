//! Logons that gateways refused, as operators are told of them: who, from where, why.
//!
//! Each goes to output and to the audit file once a second, the same ones of a second as one line;
//! at most eight lines a second, the rest as a count. Wrong passwords that have locked a name
//! or a network out raise an alarm, which is over when nobody has been refused so for a minute.

use std::collections::BTreeMap;

use exchange::{Refusal, Refusals, Refused};
use serde_json::{Value, json};
use types::{Nanos, NodeId};

use crate::alarms::Alarms;

/// Lines about refused logons in a second.
const LINES_MAX: usize = 8;
/// Refused logons of each gateway that `fairbell admin sessions` lists.
const LISTED: usize = 16;
/// The alarm of a lockout is over when it has not come again for so long.
const QUIET_NS: u64 = 60 * Nanos::SECOND;
/// Its key.
const LOCKED_OUT: &str = "logons-locked-out";

/// Tells of what gateways have refused since the last look.
pub fn tell(
    before: &BTreeMap<NodeId, Refusals>,
    now: &BTreeMap<NodeId, Refusals>,
    name: impl Fn(NodeId) -> usize,
    alarms: &Alarms,
) {
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    let mut unseen = 0;
    for (node, refusals) in now {
        let known = before.get(node).map_or(0, Refusals::total);
        let new = refusals.total().saturating_sub(known);
        let kept = refusals.last().count() as u64;
        unseen += new.saturating_sub(kept);
        let skipped = kept.saturating_sub(new) as usize;
        for refused in refusals.last().skip(skipped) {
            let line = format!("gateway {}: {}", name(*node), text(refused));
            if is_lockout(refused.why) {
                alarms.raise(LOCKED_OUT, line.clone());
            }
            *lines.entry(line).or_default() += 1;
        }
    }
    note(lines, unseen, alarms);
    let lockouts = now.values().flat_map(Refusals::last).filter(|one| is_lockout(one.why));
    let last = lockouts.map(|refused| refused.at).max();
    let clock = now.values().flat_map(Refusals::last).map(|one| one.at).max();
    if last.zip(clock).is_none_or(|(last, clock)| clock.since(last) > QUIET_NS) {
        alarms.clear(LOCKED_OUT, "nobody has been refused so for a minute");
    }
}

/// Notes who was refused in a second, where and why, each with how many times, and how many there were besides.
pub fn note(lines: BTreeMap<String, u64>, mut unseen: u64, alarms: &Alarms) {
    for (place, (line, times)) in lines.into_iter().enumerate() {
        match (place < LINES_MAX, times) {
            (false, times) => unseen += times,
            (true, 1) => alarms.note("logon-refused", line),
            (true, times) => alarms.note("logon-refused", format!("{line} ({times} times)")),
        }
    }
    if unseen > 0 {
        alarms.note("logon-refused", format!("{unseen} more logons"));
    }
}

/// Whether it was refused unlooked at, for wrong passwords before it.
fn is_lockout(why: Refusal) -> bool {
    matches!(why, Refusal::Throttled | Refusal::NewAddress)
}

/// One refused logon in words.
fn text(refused: &Refused) -> String {
    let who = match refused.name.as_slice() {
        [] => "somebody".to_string(),
        name => name.escape_ascii().to_string(),
    };
    let from = refused.from.map(|from| format!(" from {from}")).unwrap_or_default();
    let why = refused.why.text();
    match refused.detail.as_str() {
        "" => format!("{who}{from}: {why}"),
        detail => format!("{who}{from}: {why}: {detail}"),
    }
}

/// How many logons each reason has cost at these gateways: a line for people if there were any, and
/// the same for programs.
pub fn counts<'a>(gateways: impl Iterator<Item = &'a Refusals> + Clone) -> (Option<String>, Value) {
    let count = |why: Refusal| gateways.clone().map(|one| one.count(why)).sum::<u64>();
    let counts: Vec<(&str, u64)> =
        Refusal::ALL.iter().map(|why| (why.text(), count(*why))).collect();
    let total: u64 = counts.iter().map(|(_, count)| count).sum();
    let parts = counts.iter().filter(|(_, count)| *count > 0);
    let parts = parts.map(|(why, count)| format!("{count} {why}")).collect::<Vec<_>>().join(", ");
    let document = counts.into_iter().map(|(why, count)| (why.to_string(), json!(count))).collect();
    ((total > 0).then(|| format!("logons refused: {parts}")), Value::Object(document))
}

/// The last logons that a gateway refused: lines for people, and the same for programs.
pub fn listed(gateway: usize, refusals: &Refusals, now: Nanos) -> Vec<(String, Value)> {
    let skipped = refusals.last().count().saturating_sub(LISTED);
    let told = |refused: &Refused| {
        let ago = now.since(refused.at);
        let line = format!(
            "refused at gateway {gateway} {:.1} s ago: {}",
            ago as f64 / 1e9,
            text(refused)
        );
        let document = json!({
            "gateway": gateway, "at_ns": refused.at.0, "ago_ns": ago, "why": refused.why.text(),
            "name": refused.name.escape_ascii().to_string(), "detail": refused.detail,
            "from": refused.from.map(|from| from.to_string()),
        });
        (line, document)
    };
    refusals.last().skip(skipped).map(told).collect()
}

#[cfg(test)]
mod tests {
    use types::Address;

    use super::*;

    fn at(seconds: u64, why: Refusal, name: &str, of: &mut BTreeMap<NodeId, Refusals>) {
        let from = Some(Address::v4(0x0A00_0001));
        let detail = if why == Refusal::BadLogon { "HeartBtInt must be 0 to 3600" } else { "" };
        let refusals = of.entry(NodeId(7)).or_default();
        refusals.note(Nanos(seconds * Nanos::SECOND), why, from, name.as_bytes(), detail);
    }

    #[test]
    fn each_is_told_once_and_a_lockout_stands_until_it_is_quiet() {
        let (alarms, mut now) = (Alarms::default(), BTreeMap::new());
        at(1, Refusal::WrongPassword, "GUEST", &mut now);
        at(1, Refusal::WrongPassword, "GUEST", &mut now);
        at(1, Refusal::BadLogon, "a\x1b[2J", &mut now);
        tell(&BTreeMap::new(), &now, |_| 2, &alarms);
        let lines = [
            "note: logon-refused: gateway 2: GUEST from 10.0.0.1: wrong password (2 times)",
            "note: logon-refused: gateway 2: a\\x1b[2J from 10.0.0.1: a logon that is wrong in itself: \
             HeartBtInt must be 0 to 3600",
        ];
        assert_eq!(alarms.take_lines(), lines);
        let before = now.clone();
        tell(&before, &now, |_| 2, &alarms);
        assert_eq!(alarms.take_lines(), [""; 0], "nothing new");
        at(2, Refusal::Throttled, "GUEST", &mut now);
        tell(&before, &now, |_| 2, &alarms);
        assert!(alarms.stands(LOCKED_OUT));
        let before = now.clone();
        at(50, Refusal::NoLogon, "", &mut now);
        tell(&before, &now, |_| 2, &alarms);
        assert!(alarms.stands(LOCKED_OUT));
        let before = now.clone();
        at(63, Refusal::NoLogon, "", &mut now);
        tell(&before, &now, |_| 2, &alarms);
        assert!(!alarms.stands(LOCKED_OUT));
        let (line, document) = counts(now.values());
        let line = line.unwrap_or_default();
        assert!(
            line.starts_with("logons refused: ") && line.contains("2 wrong password"),
            "{line}"
        );
        assert_eq!(document["wrong password"], 2);
        let listed = listed(2, &now[&NodeId(7)], Nanos(70 * Nanos::SECOND));
        assert_eq!(listed.len(), 6);
        assert_eq!(
            listed[5].0,
            "refused at gateway 2 7.0 s ago: somebody from 10.0.0.1: the first message is no logon"
        );
    }

    #[test]
    fn a_flood_of_them_is_a_count() {
        let (alarms, mut now) = (Alarms::default(), BTreeMap::new());
        for number in 0..1_000 {
            at(1, Refusal::UnknownName, &format!("N{number}"), &mut now);
        }
        tell(&BTreeMap::new(), &now, |_| 1, &alarms);
        let lines = alarms.take_lines();
        assert_eq!(lines.len(), LINES_MAX + 1);
        assert_eq!(lines[LINES_MAX], "note: logon-refused: 992 more logons");
    }
}
