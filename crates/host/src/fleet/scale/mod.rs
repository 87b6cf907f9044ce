//! Edges that come and go with the load, while the venue trades.
//!
//! `[scale]` of the cluster file says how many requests per second an edge is to have. The replica that leads
//! looks once a second at what edges say of themselves, decides ([`Scaler`]), has machines made and taken away
//! ([`machines`]), and ends sessions on edges that are to go or that have more than their share. An edge that
//! goes ends its sessions in good order first; participants log on at another one.
//!
//! All edges of the file have a place in the tree, whether their machines are there or not. Nothing of this is in
//! the log: another replica that comes to lead decides by what it sees.

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub mod kubernetes;
pub mod machines;

/// How long an edge may take from its machine's start until it takes participants; then another one is started.
pub const START_MAX: Duration = Duration::from_secs(120);
/// How long an edge may take to end its sessions and its process; then its machine is taken away as it is.
pub const LEAVE_MAX: Duration = Duration::from_secs(20);

/// `[scale]` of the cluster file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScaleSettings {
    /// What makes machines and takes them away: `command` or `kubernetes`; empty: nobody, edges stay as they are.
    pub by: String,
    /// Edges at least, from 1.
    pub least: u16,
    /// Edges at most; 0: all of the file.
    pub most: u16,
    /// Requests per second of an edge, mean over all, above which edges are added. From 1.
    pub up_at: u64,
    /// An edge goes when the others would have fewer than this each, below `up_at`.
    pub down_at: u64,
    /// How long the load has to be like that, 1 s to an hour, like `5s`.
    pub after: String,
    /// From one change to the next, 1 s to an hour.
    pub cool_down: String,
    /// Program and first arguments of `command`; behind them come `start` or `stop` and the node's name.
    pub command: Vec<String>,
    /// Of `kubernetes`: the StatefulSet whose pods are the edges, named SET-1, SET-2 and so on.
    pub stateful_set: String,
    /// Of `kubernetes`: its namespace; empty: that of the root's own pod.
    pub namespace: String,
}

impl Default for ScaleSettings {
    fn default() -> Self {
        ScaleSettings {
            by: String::new(),
            least: 1,
            most: 0,
            up_at: 2_000,
            down_at: 1_000,
            after: "10s".to_string(),
            cool_down: "60s".to_string(),
            command: Vec::new(),
            stateful_set: "edge".to_string(),
            namespace: String::new(),
        }
    }
}

impl ScaleSettings {
    /// What is wrong with which key, if anything is; `edges`: how many the file has.
    ///
    /// # Errors
    /// The key and what it may be.
    pub fn check(&self, edges: usize) -> Result<(), (String, String)> {
        let wrong = |key: &str, what: String| Err((format!("scale.{key}"), what));
        if !["", "command", "kubernetes"].contains(&&self.by[..]) {
            return wrong("by", format!("{:?}: \"command\" or \"kubernetes\"", self.by));
        }
        if self.by.is_empty() {
            return Ok(());
        }
        if self.least == 0 || usize::from(self.least) > edges {
            return wrong("least", format!("1 to {edges}, the edges of the file"));
        }
        if self.most != 0 && (self.most < self.least || usize::from(self.most) > edges) {
            return wrong(
                "most",
                format!("`least` to {edges}, the edges of the file, or 0 for all"),
            );
        }
        if self.up_at == 0 {
            return wrong("up_at", "from 1".to_string());
        }
        if self.down_at >= self.up_at {
            return wrong("down_at", "below up_at, or edges come and go without end".to_string());
        }
        for (key, text) in [("after", &self.after), ("cool_down", &self.cool_down)] {
            if time(text).is_none() {
                return wrong(key, "a time of 1 s to an hour, like 10s".to_string());
            }
        }
        if self.by == "command" && self.command.first().is_none_or(String::is_empty) {
            return wrong("command", "a program that starts and stops machines".to_string());
        }
        let is_name = |text: &str| {
            text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        };
        if self.stateful_set.is_empty() || !is_name(&self.stateful_set) {
            return wrong("stateful_set", "small letters, digits and -".to_string());
        }
        if !is_name(&self.namespace) {
            return wrong("namespace", "small letters, digits and -".to_string());
        }
        Ok(())
    }

    /// Edges at most, of a file that has so many.
    pub fn most(&self, edges: usize) -> usize {
        if self.most == 0 { edges } else { usize::from(self.most).min(edges) }
    }
}

/// `10s`, `5m`, `1h`: of 1 s to an hour.
fn time(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        _ => return None,
    };
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let count: u64 = digits.parse().ok().filter(|_| plain)?;
    let all = count.checked_mul(seconds).filter(|all| (1..=3_600).contains(all))?;
    Some(Duration::from_secs(all))
}

/// What an edge of the file is at present.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EdgeState {
    /// It takes participants.
    Serving {
        /// Requests per second.
        requests_per_s: u64,
    },
    /// Nobody hears of it.
    Away,
    /// It is there or not, and takes nobody for another reason: drained by an operator, revoked, in
    /// quarantine. It is left alone.
    Unusable,
}

/// What is to be done now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Machines of these edges are to run, by number.
    Start(Vec<u16>),
    /// These edges are to end their sessions and stop.
    Leave(Vec<u16>),
    /// These edges have left, or are away although nobody wants them: their machines are to go.
    Stop(Vec<u16>),
    /// An edge that was started takes participants: sessions are to be shared out anew.
    Share,
}

/// Decides which edges are to be there. Time is since any moment; without sockets, clock or threads.
#[derive(Debug)]
pub struct Scaler {
    settings: ScaleSettings,
    after: Duration,
    cool_down: Duration,
    /// Edges whose machines were asked for, and when.
    starting: Vec<(u16, Duration)>,
    /// Edges that were told to leave, and when.
    leaving: Vec<(u16, Duration)>,
    /// Since when there is too much or too little load, or too few edges.
    over: Option<Duration>,
    under: Option<Duration>,
    few: Option<Duration>,
    /// Edges that were not seen since: by number, since when.
    away: Vec<(u16, Duration)>,
    changed: Option<Duration>,
}

impl Scaler {
    /// One that knows nothing yet.
    pub fn new(settings: ScaleSettings) -> Scaler {
        let or = |text: &str, seconds| time(text).unwrap_or(Duration::from_secs(seconds));
        Scaler {
            after: or(&settings.after, 10),
            cool_down: or(&settings.cool_down, 60),
            settings,
            starting: Vec::new(),
            leaving: Vec::new(),
            over: None,
            under: None,
            few: None,
            away: Vec::new(),
            changed: None,
        }
    }

    /// Edges that were told to leave and are not gone.
    pub fn leaving(&self) -> impl Iterator<Item = u16> + '_ {
        self.leaving.iter().map(|(edge, _)| *edge)
    }

    /// Edges whose machines were asked for and that take nobody yet.
    pub fn starting(&self) -> impl Iterator<Item = u16> + '_ {
        self.starting.iter().map(|(edge, _)| *edge)
    }

    /// Looks at all edges of the file, in its order, by number.
    pub fn look(&mut self, now: Duration, edges: &[(u16, EdgeState)]) -> Vec<Step> {
        let mut steps = Vec::new();
        let state = |edge: u16| edges.iter().find(|(of, _)| *of == edge).map(|(_, is)| *is);
        let is_serving = |edge: u16| matches!(state(edge), Some(EdgeState::Serving { .. }));
        // What was begun, and has ended since.
        let came = self.starting.iter().filter(|(edge, _)| is_serving(*edge)).count();
        let mut gone = Vec::new();
        self.starting.retain(|(edge, since)| {
            let late = now.saturating_sub(*since) > START_MAX;
            gone.extend(late.then_some(*edge));
            !is_serving(*edge) && !late
        });
        self.leaving.retain(|(edge, since)| {
            let has_left = state(*edge) != Some(EdgeState::Unusable) && !is_serving(*edge);
            let over = has_left || now.saturating_sub(*since) > LEAVE_MAX;
            gone.extend(over.then_some(*edge));
            !over
        });
        if came > 0 {
            steps.push(Step::Share);
        }
        // Their machines are told to go now, and not again for being away.
        self.away.retain(|(edge, _)| !gone.contains(edge));
        self.away.extend(gone.iter().map(|edge| (*edge, Duration::MAX)));
        gone.extend(self.look_away(now, edges));
        if !gone.is_empty() {
            steps.push(Step::Stop(gone));
        }
        let serving: Vec<u16> = edges
            .iter()
            .filter(|(edge, is)| {
                matches!(is, EdgeState::Serving { .. }) && !self.leaving().any(|of| of == *edge)
            })
            .map(|(edge, _)| *edge)
            .collect();
        let total: u64 = edges
            .iter()
            .map(|(_, is)| match is {
                EdgeState::Serving { requests_per_s } => *requests_per_s,
                _ => 0,
            })
            .fold(0, u64::saturating_add);
        let there = serving.len() + self.starting.len();
        steps.extend(self.decide(now, edges, (&serving, total, there)));
        steps
    }

    /// Which edges are away for long although nobody wants them: told once each.
    fn look_away(&mut self, now: Duration, edges: &[(u16, EdgeState)]) -> Vec<u16> {
        let mut told = Vec::new();
        for (edge, is) in edges {
            let at = self.away.iter().position(|(of, _)| of == edge);
            let idle = *is == EdgeState::Away
                && !self.starting().any(|of| of == *edge)
                && !self.leaving().any(|of| of == *edge);
            match (idle, at) {
                (true, None) => self.away.push((*edge, now)),
                (true, Some(at)) => {
                    let since = &mut self.away[at].1;
                    // So long that no restart takes it.
                    if *since != Duration::MAX && now.saturating_sub(*since) > LEAVE_MAX {
                        *since = Duration::MAX;
                        told.push(*edge);
                    }
                }
                (false, Some(at)) => drop(self.away.swap_remove(at)),
                (false, None) => {}
            }
        }
        told
    }

    fn decide(
        &mut self,
        now: Duration,
        edges: &[(u16, EdgeState)],
        (serving, total, there): (&[u16], u64, usize),
    ) -> Option<Step> {
        let (least, most) = (usize::from(self.settings.least), self.settings.most(edges.len()));
        let held = |since: &mut Option<Duration>, is: bool| match is {
            false => {
                *since = None;
                false
            }
            true => now.saturating_sub(*since.get_or_insert(now)) >= self.after,
        };
        let few = held(&mut self.few, there < least);
        let over = held(&mut self.over, total > self.settings.up_at.saturating_mul(there as u64));
        // By what the others would have, so that none comes back at once.
        let fewer = self.settings.down_at.saturating_mul(there.saturating_sub(1) as u64);
        let under = held(&mut self.under, there > least && total < fewer);
        let rested = self.changed.is_none_or(|at| now.saturating_sub(at) >= self.cool_down);
        let busy = !self.starting.is_empty() || !self.leaving.is_empty();
        // Whoever is missing is replaced at once, whatever was changed before.
        let wanted = if few {
            least
        } else if over && rested {
            usize::try_from(total.div_ceil(self.settings.up_at)).unwrap_or(most).min(most)
        } else {
            there
        };
        if wanted > there {
            let free = |(edge, is): &&(u16, EdgeState)| {
                *is == EdgeState::Away
                    && !self.starting().any(|of| of == *edge)
                    && !self.leaving().any(|of| of == *edge)
            };
            let new: Vec<u16> =
                edges.iter().filter(free).map(|(edge, _)| *edge).take(wanted - there).collect();
            if new.is_empty() {
                return None;
            }
            self.starting.extend(new.iter().map(|edge| (*edge, now)));
            self.changed(now);
            return Some(Step::Start(new));
        }
        // One at a time, the last of the file first, and none while others come.
        let last = serving.last().copied().filter(|_| under && rested && !busy)?;
        self.leaving.push((last, now));
        self.changed(now);
        Some(Step::Leave(vec![last]))
    }

    fn changed(&mut self, now: Duration) {
        (self.changed, self.over, self.under, self.few) = (Some(now), None, None, None);
    }
}

/// By edge: how many of its sessions are to end so that none has more than its share; `(number, sessions)`.
pub fn excess(edges: &[(u16, u64)]) -> Vec<(u16, u64)> {
    let all: u64 = edges.iter().map(|(_, sessions)| *sessions).fold(0, u64::saturating_add);
    let share = all.div_ceil((edges.len() as u64).max(1));
    let over = edges.iter().filter(|(_, sessions)| *sessions > share);
    over.map(|(edge, sessions)| (*edge, sessions - share)).collect()
}

#[cfg(test)]
mod tests;
