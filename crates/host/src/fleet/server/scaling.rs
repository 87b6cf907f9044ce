//! Edges that come and go with the load, as the replica that leads decides ([`crate::fleet::scale`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use serde_json::json;
use types::ShardId;

use super::{LOOK_EVERY, SILENT, Server, Standing, lock};
use crate::fleet::file::NodeRole;
use crate::fleet::scale::machines::{self, Machines};
use crate::fleet::scale::{EdgeState, Scaler, Step, excess};

/// How long after a replica came to lead it knows which edges there are: they connect to it first.
const SETTLED: Duration = Duration::from_secs(5);
/// Between two looks at the load.
const EVERY: Duration = Duration::from_secs(1);
/// From when an edge takes participants until others have sessions move there: participants have to be told of
/// it first.
const KNOWN: Duration = Duration::from_secs(2);

/// What edges are to be told.
#[derive(Default)]
pub(super) struct Scaling(Mutex<Board>);

#[derive(Default)]
struct Board {
    leaving: BTreeSet<u16>,
    starting: BTreeSet<u16>,
    /// Sessions that an edge is to end.
    shed: BTreeMap<u16, u64>,
    requests_per_s: u64,
    serving: usize,
    /// What was done last.
    last: String,
}

impl Scaling {
    /// Whether an edge is to end its sessions and stop.
    pub(super) fn is_leaving(&self, number: u16) -> bool {
        lock(&self.0).leaving.contains(&number)
    }

    /// How many sessions an edge is to end; said once.
    pub(super) fn shed(&self, number: u16) -> Option<u64> {
        lock(&self.0).shed.remove(&number)
    }
}

/// What is asked of whoever makes machines.
struct Job {
    start: bool,
    names: Vec<String>,
}

impl Server {
    /// Has edges come and go, while this replica leads, until `stop`. Of a venue's shards the first one's
    /// roots do.
    pub fn keep_scaled(&self, stop: &AtomicBool) {
        let file = &self.venue.file;
        if file.shard() != ShardId(0) {
            return;
        }
        let machines = match machines::of(&file.scale) {
            Ok(Some(machines)) => machines,
            Ok(None) => return,
            Err(why) => return self.alarms.raise("scale", why.to_string()),
        };
        let (jobs, work) = channel();
        std::thread::scope(|scope| {
            scope.spawn(move || self.make_machines(machines, &work));
            self.scale(&jobs, stop);
            drop(jobs);
        });
    }

    /// Has machines made and taken away, one job after another: that may take minutes.
    fn make_machines(&self, mut machines: Box<dyn Machines>, work: &Receiver<Job>) {
        for Job { start, names } in work {
            let done = if start { machines.start(&names) } else { machines.stop(&names) };
            match done {
                Ok(()) => self.alarms.clear("scale", "machines are made again"),
                Err(why) => self.alarms.raise("scale", why.to_string()),
            }
        }
    }

    fn scale(&self, jobs: &Sender<Job>, stop: &AtomicBool) {
        let (mut led, mut looked) = (None::<(u64, Instant, Scaler)>, Instant::now());
        let mut share_at = None::<Instant>;
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK_EVERY);
            let standing = self.standing();
            if standing.term == 0 {
                if led.take().is_some() {
                    *lock(&self.scaling.0) = Board::default();
                }
                continue;
            }
            let fresh =
                || (standing.term, Instant::now(), Scaler::new(self.venue.file.scale.clone()));
            let (_, since, scaler) = match &mut led {
                Some(known) if known.0 == standing.term => known,
                other => other.insert(fresh()),
            };
            if since.elapsed() < SETTLED || looked.elapsed() < EVERY {
                continue;
            }
            looked = Instant::now();
            let edges = self.edge_states(&standing);
            for step in scaler.look(since.elapsed(), &edges) {
                match step {
                    Step::Start(edges) => self.job(jobs, (true, "starts"), &edges),
                    Step::Stop(edges) => self.job(jobs, (false, "takes away"), &edges),
                    Step::Leave(edges) => self.note("has leave", &edges),
                    Step::Share => share_at = Some(Instant::now() + KNOWN),
                }
            }
            let serving = |(_, is): &&(u16, EdgeState)| matches!(is, EdgeState::Serving { .. });
            let leaving: BTreeSet<u16> = scaler.leaving().collect();
            let due = share_at.is_some_and(|at| at <= Instant::now());
            let shed = due.then(|| self.excess(edges.iter().filter(serving), &leaving));
            let mut board = lock(&self.scaling.0);
            board.leaving = leaving;
            board.starting = scaler.starting().collect();
            board.serving = edges.iter().filter(serving).count();
            board.requests_per_s = load(&edges);
            if let Some(shed) = shed {
                (share_at, board.shed) = (None, shed);
            }
        }
    }

    /// Sessions that edges have beyond their share, but for those that are to leave.
    fn excess<'a>(
        &self,
        serving: impl Iterator<Item = &'a (u16, EdgeState)>,
        leaving: &BTreeSet<u16>,
    ) -> BTreeMap<u16, u64> {
        let heard = lock(&self.heard);
        let staying = serving.filter(|(edge, _)| !leaving.contains(edge));
        let sessions =
            staying.filter_map(|(edge, _)| heard.get(edge).map(|one| (*edge, one.health.sessions)));
        excess(&sessions.collect::<Vec<_>>()).into_iter().collect()
    }

    /// All edges of the file, in its order.
    fn edge_states(&self, standing: &Standing) -> Vec<(u16, EdgeState)> {
        let (generations, heard) = (lock(&self.generations).clone(), lock(&self.heard));
        let state = |number: u16| {
            let known = standing.nodes.get(number.into());
            let shown = generations.get(&number).copied().unwrap_or(u32::MAX);
            match heard.get(&number) {
                _ if known.drained || shown <= known.revoked => EdgeState::Unusable,
                None => EdgeState::Away,
                Some(one) if one.health.quarantined || one.at.elapsed() > SILENT => {
                    EdgeState::Unusable
                }
                Some(one) => EdgeState::Serving { requests_per_s: one.requests_per_s },
            }
        };
        let edges = self.venue.file.of(NodeRole::Edge);
        edges.map(|(number, _)| (number, state(number))).collect()
    }

    fn edge_names(&self, edges: &[u16]) -> Vec<String> {
        let name = |edge: &u16| self.venue.file.numbered(*edge).map(|node| node.name.clone());
        edges.iter().filter_map(name).collect()
    }

    fn job(&self, jobs: &Sender<Job>, (start, what): (bool, &str), edges: &[u16]) {
        self.note(what, edges);
        let names = self.edge_names(edges);
        let _ = jobs.send(Job { start, names });
    }

    fn note(&self, what: &str, edges: &[u16]) {
        let (names, mut board) = (self.edge_names(edges).join(", "), lock(&self.scaling.0));
        let (serving, load) = (board.serving, board.requests_per_s);
        board.last = format!("{what} {names}: {load} requests/s on {serving} edges");
        self.alarms.note("scale", board.last.clone());
    }

    /// A line for people, and the same for machines; nothing where edges stay as they are.
    pub(super) fn scaled(&self) -> Option<(String, serde_json::Value)> {
        let file = &self.venue.file;
        if file.scale.by.is_empty() || file.shard() != ShardId(0) {
            return None;
        }
        let board = lock(&self.scaling.0);
        let names = |of: &BTreeSet<u16>| self.edge_names(&of.iter().copied().collect::<Vec<_>>());
        let (starting, leaving) = (names(&board.starting), names(&board.leaving));
        let (least, most) = (file.scale.least, file.scale.most(file.of(NodeRole::Edge).count()));
        let mut line = format!(
            "scale: {} edges of {least} to {most} take {} requests/s",
            board.serving, board.requests_per_s
        );
        for (names, what) in [(&starting, "start"), (&leaving, "leave")] {
            if !names.is_empty() {
                line += &format!("; to {what}: {}", names.join(", "));
            }
        }
        if !board.last.is_empty() {
            line += &format!("; last: {}", board.last);
        }
        let data = json!({
            "serving": board.serving, "requests_per_s": board.requests_per_s, "least": least,
            "most": most, "starting": starting, "leaving": leaving, "last": board.last,
        });
        Some((line, data))
    }
}

/// Requests per second of all edges.
fn load(edges: &[(u16, EdgeState)]) -> u64 {
    let of = |(_, is): &(u16, EdgeState)| match is {
        EdgeState::Serving { requests_per_s } => *requests_per_s,
        _ => 0,
    };
    edges.iter().map(of).fold(0, u64::saturating_add)
}
