//! Agents and a controller in a small world of virtual time: whole campaigns, and what attackers and
//! dying machines do to them.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use planner::campaign::{Campaign, JobKind, Results};
use planner::cloud::{Cloud, CloudModel};
use planner::schema::{Experiment, Kind, Local, Probes, Run};
use planner::score::Strategy;
use probe::link::Link;
use probe::message::{Message, Order};
use probe::{Agent, Controller, Injection, Key};
use types::{
    AdmissionConfig, Channel, ClockReading, ConnId, Nanos, Node, Op, Outbox, Peer, Yields,
};

const WIRE_NS: u64 = 2_000;
const CONTROLLER: usize = 1_000;

enum Host {
    Agent(Box<Agent>),
    Controller(Box<Controller>),
}

impl Host {
    fn node(&mut self) -> &mut dyn Node {
        match self {
            Host::Agent(agent) => agent.as_mut(),
            Host::Controller(controller) => controller.as_mut(),
        }
    }
}

enum Event {
    Datagram(usize, Vec<u8>),
    Stream(usize, ConnId, Vec<u8>),
    Connected(usize, ConnId),
    Closed(usize, ConnId),
}

struct World {
    now: Nanos,
    hosts: BTreeMap<usize, Host>,
    events: BTreeMap<(Nanos, u64), Event>,
    number: u64,
    /// Both directions of every connection.
    wires: BTreeMap<(usize, ConnId), (usize, ConnId)>,
    accepted: u32,
    /// What somebody outside the world received.
    outside: Vec<u8>,
    outside_closed: bool,
}

const OUTSIDE: usize = 9_999;

fn address(host: usize) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::from_bits(0x7F00_0001 + host as u32), 9_000))
}

fn key() -> Key {
    Key::new(b"a shared key of sixteen bytes and more").unwrap()
}

impl World {
    fn new(agents: usize, model: CloudModel) -> (World, Arc<Cloud>) {
        let cloud = Arc::new(Cloud::new(model, agents, 3));
        let agent = |vm: usize| {
            let injection = Injection::new(Arc::clone(&cloud), vm, 1);
            (vm, Host::Agent(Box::new(Agent::new(key(), [vm as u8; 32], Some(injection)))))
        };
        let world = World {
            now: Nanos(Nanos::SECOND),
            hosts: (0..agents).map(agent).collect(),
            events: BTreeMap::new(),
            number: 0,
            wires: BTreeMap::new(),
            accepted: 0,
            outside: Vec::new(),
            outside_closed: false,
        };
        (world, cloud)
    }

    fn control(&mut self, experiment: Experiment, with: Key) {
        experiment.check().unwrap();
        let addresses = (0..experiment.names().len()).map(address).collect();
        let campaign = Campaign::new(experiment);
        let controller = Controller::new(campaign, addresses, with, [99; 32]);
        self.hosts.insert(CONTROLLER, Host::Controller(Box::new(controller)));
    }

    fn agent(&self, vm: usize) -> &Agent {
        match &self.hosts[&vm] {
            Host::Agent(agent) => agent,
            Host::Controller(_) => panic!("no agent"),
        }
    }

    fn push(&mut self, event: Event) {
        self.number += 1;
        self.events.insert((self.now.after(WIRE_NS), self.number), event);
    }

    fn call(&mut self, host: usize, input: impl FnOnce(&mut dyn Node, ClockReading, &mut Outbox)) {
        let mut out = Outbox::default();
        let reading = ClockReading { now: self.now, bound_ns: 0 };
        let Some(node) = self.hosts.get_mut(&host) else { return };
        input(node.node(), reading, &mut out);
        for op in out.ops().to_vec() {
            match op {
                Op::Datagram { to, bytes, .. } => {
                    if let Some(to) = self.find(to) {
                        self.push(Event::Datagram(to, out.bytes(bytes).to_vec()));
                    }
                }
                Op::Stream { conn, bytes } => {
                    if let Some((to, conn)) = self.wires.get(&(host, conn)).copied() {
                        self.push(Event::Stream(to, conn, out.bytes(bytes).to_vec()));
                    }
                }
                Op::Connect { conn, to } => match self.find(to) {
                    Some(to) => {
                        self.join((host, conn), to);
                        self.push(Event::Connected(host, conn));
                    }
                    None => self.push(Event::Closed(host, conn)),
                },
                Op::Close { conn } => self.cut(host, conn),
                Op::Work { .. } => unreachable!("nothing here needs a worker"),
            }
        }
    }

    fn find(&self, peer: Peer) -> Option<usize> {
        self.hosts.keys().copied().find(|host| Peer::from(address(*host)) == peer)
    }

    fn join(&mut self, from: (usize, ConnId), to: usize) {
        self.accepted += 1;
        let accepted = ConnId(1 << 31 | self.accepted);
        self.wires.insert(from, (to, accepted));
        self.wires.insert((to, accepted), from);
        self.push(Event::Connected(to, accepted));
    }

    fn cut(&mut self, host: usize, conn: ConnId) {
        if let Some((to, other)) = self.wires.remove(&(host, conn)) {
            self.wires.remove(&(to, other));
            self.push(Event::Closed(to, other));
        }
    }

    fn kill(&mut self, host: usize) {
        self.hosts.remove(&host);
        let open: Vec<ConnId> =
            self.wires.keys().filter(|(at, _)| *at == host).map(|(_, conn)| *conn).collect();
        open.into_iter().for_each(|conn| self.cut(host, conn));
    }

    fn step(&mut self) -> bool {
        let timer = self.hosts.iter_mut().map(|(host, node)| (node.node().next_timeout(), *host));
        let timer = timer.min().unwrap_or((Nanos::NEVER, 0));
        let event = self.events.keys().next().copied();
        match event {
            Some(at) if at.0 <= timer.0 => {
                self.now = self.now.max(at.0);
                let event = self.events.remove(&at).unwrap();
                self.deliver(event);
            }
            _ if timer.0 == Nanos::NEVER => return false,
            _ => {
                self.now = self.now.max(timer.0);
                self.call(timer.1, |node, now, out| node.handle_timeout(now, out));
            }
        }
        true
    }

    fn deliver(&mut self, event: Event) {
        match event {
            Event::Datagram(to, bytes) => self.call(to, |node, now, out| {
                node.handle_datagram(now, Channel::OVERLAY, Peer::Addr(1), &bytes, out);
            }),
            Event::Stream(OUTSIDE, _, bytes) => self.outside.extend(bytes),
            Event::Closed(OUTSIDE, _) => self.outside_closed = true,
            Event::Stream(to, conn, bytes) => {
                self.call(to, |node, now, out| node.handle_stream(now, conn, &bytes, out));
            }
            Event::Connected(to, conn) => {
                self.call(to, |node, now, out| node.handle_connect(now, conn, out));
            }
            Event::Closed(to, conn) => {
                self.call(to, |node, now, out| node.handle_close(now, conn, out));
            }
        }
    }

    fn run_until(&mut self, mut end: impl FnMut(&World) -> bool) {
        let deadline = self.now.after(600 * Nanos::SECOND);
        while !end(self) && self.step() {
            assert!(self.now < deadline, "no end in sight");
        }
    }

    fn is_finished(&self) -> bool {
        match &self.hosts[&CONTROLLER] {
            Host::Controller(controller) => controller.is_finished(),
            Host::Agent(_) => false,
        }
    }

    fn results(mut self) -> Results {
        match self.hosts.remove(&CONTROLLER) {
            Some(Host::Controller(controller)) => controller.into_campaign().into_results(),
            _ => panic!("no controller"),
        }
    }

    /// Somebody outside connects to an agent and says bytes; gives what came back.
    fn outsider(&mut self, agent: usize, says: &[u8]) -> Vec<u8> {
        self.join((OUTSIDE, ConnId(1)), agent);
        self.settle();
        self.say(says)
    }

    fn say(&mut self, bytes: &[u8]) -> Vec<u8> {
        let (to, conn) = self.wires[&(OUTSIDE, ConnId(1))];
        self.push(Event::Stream(to, conn, bytes.to_vec()));
        self.settle();
        std::mem::take(&mut self.outside)
    }

    fn settle(&mut self) {
        let until = self.now.after(10 * Nanos::MILLI);
        self.run_until(|world| world.events.keys().next().is_none_or(|at| at.0 > until));
    }

    /// An authenticated link from outside.
    fn insider(&mut self, agent: usize, with: &Key) -> Link {
        self.join((OUTSIDE, ConnId(1)), agent);
        self.settle();
        let mut link = Link::connect(with, [42; 32]);
        let mut reply = Vec::new();
        link.take(&std::mem::take(&mut self.outside), &mut reply).unwrap();
        let answer = self.say(&reply);
        let _ = link.take(&answer, &mut Vec::new());
        link
    }

    fn ask(&mut self, link: &mut Link, payload: &[u8]) -> Option<Message> {
        let mut bytes = Vec::new();
        assert!(link.send(payload, &mut bytes));
        let answer = self.say(&bytes);
        link.take(&answer, &mut Vec::new()).unwrap();
        Some(Message::decode(&link.next_frame().unwrap()?).unwrap())
    }
}

fn experiment(vms: usize) -> Experiment {
    let run = |name: &str, kind, candidates| Run {
        candidates,
        root: "egress".to_string(),
        ..Run::new(name, kind, Strategy::P50)
    };
    Experiment {
        tree: planner::Shape { depth: 2, fanout: 2 },
        local: Local { vms, ..Local::default() },
        probes: Probes {
            rate: 1_000,
            duration_ms: 300,
            evaluation_ms: 400,
            warmup_ms: 50,
            gather_ms: 500,
        },
        runs: vec![run("BEST", Kind::Best, 6), run("LEMON", Kind::Lemon, 6)],
        ..Experiment::default()
    }
}

#[test]
fn a_campaign_over_agents_finds_the_truth() {
    let (mut world, cloud) = World::new(12, CloudModel::straggler_test());
    world.control(experiment(12), key());
    world.run_until(World::is_finished);
    let results = world.results();
    assert_eq!((results.failures.len(), results.dead.len()), (0, 0), "{:?}", results.failures);
    for run in &results.runs {
        let tree = run.tree.as_ref().unwrap();
        assert!(cloud.stragglers().iter().all(|vm| !tree.vms.contains(vm)), "{}", run.run.name);
        let evaluation = &run.evaluations[0];
        assert_eq!(evaluation.leaves.len(), 4);
        let (truth, _) = cloud.evaluate(tree, 4_000, &mut types::SplitMix64::new(1));
        for ((_, heard), truth) in evaluation.leaves.iter().zip(&truth) {
            assert_eq!((heard.summary.received, heard.summary.lost), (350, 0));
            // Two wires of 2 us, no time to send copies: within 15 % of the model.
            assert!((heard.summary.p50_ns / truth.p50_ns - 1.0).abs() < 0.15);
        }
        assert_eq!(evaluation.messages.oml.received, 350);
        assert!(evaluation.messages.oml.p50_ns >= evaluation.leaves[0].1.summary.p50_ns);
    }
}

#[test]
fn an_agent_killed_in_mid_job_is_reported_and_the_run_goes_on() {
    for victim in 0..4 {
        let (mut world, _) = World::new(12, CloudModel::default());
        world.control(experiment(12), key());
        let busy =
            |world: &World| world.hosts.contains_key(&victim) && world.agent(victim).is_busy();
        world.run_until(|world| busy(world));
        // In the middle of the mesh.
        let middle = world.now.after(250 * Nanos::MILLI);
        world.run_until(|world| world.now >= middle);
        assert!(world.agent(victim).is_busy());
        world.kill(victim);
        let killed_at = world.now;
        world.run_until(World::is_finished);
        assert!(world.now.since(killed_at) < 60 * Nanos::SECOND);
        let results = world.results();
        assert_eq!(results.dead, [victim]);
        assert!(!results.failures.is_empty());
        for run in &results.runs {
            assert_eq!(run.evaluations.len(), 1, "victim {victim}: {run:?}");
            assert!(!run.tree.as_ref().unwrap().vms.contains(&victim));
        }
    }
}

#[test]
fn a_controller_without_the_key_starts_nothing() {
    let (mut world, _) = World::new(8, CloudModel::default());
    world.control(experiment(8), Key::new(&[0; 32]).unwrap());
    world.run_until(World::is_finished);
    let counters: Vec<_> = (0..8).map(|vm| world.agent(vm).counters()).collect();
    assert!(counters.iter().all(|counters| counters.jobs == 0));
    assert!(counters.iter().map(|counters| counters.unauthenticated).sum::<u64>() >= 3);
    let results = world.results();
    assert!(results.runs.iter().all(|run| !run.notes.is_empty() && run.evaluations.is_empty()));
    assert!(!results.failures.is_empty());
}

#[test]
fn bytes_from_strangers_and_silence_are_cut_off() {
    let (mut world, _) = World::new(3, CloudModel::default());
    world.outsider(0, &[0x55; 64]);
    assert!(world.outside_closed);
    assert_eq!(world.agent(0).counters().unauthenticated, 1);
    // A slow one is cut off by time.
    world.outside_closed = false;
    world.outsider(1, b"GET /");
    let until = world.now.after(5 * Nanos::SECOND);
    world.run_until(|world| world.now >= until);
    assert!(world.outside_closed);
    assert_eq!(world.agent(1).counters().unauthenticated, 1);
}

/// Whether a campaign finds its trees although strangers who say nothing want every place of every
/// agent, and come back as soon as they are sent away.
fn goes_on_among_strangers(bounds: Option<AdmissionConfig>) -> bool {
    let (mut world, _) = World::new(12, CloudModel::default());
    if let Some(bounds) = bounds {
        for vm in 0..12 {
            let agent = Agent::new(key(), [vm as u8; 32], None).with_strangers(bounds);
            world.hosts.insert(vm, Host::Agent(Box::new(agent)));
        }
    }
    let mut strangers = 0;
    let mut crowd = |world: &mut World| {
        for agent in 0..12 {
            for _ in 0..200 {
                strangers += 1;
                world.join((OUTSIDE, ConnId(strangers)), agent);
            }
        }
        world.settle();
    };
    crowd(&mut world);
    world.control(experiment(12), key());
    while !world.is_finished() {
        let until = world.now.after(400 * Nanos::MILLI);
        world.run_until(|world| world.is_finished() || world.now >= until);
        crowd(&mut world);
    }
    let results = world.results();
    results.failures.is_empty() && results.runs.iter().all(|run| run.evaluations.len() == 1)
}

#[test]
fn strangers_at_every_agent_keep_no_campaign_from_its_trees() {
    assert!(goes_on_among_strangers(None));
    // Control: the first who come keep their places.
    let first = AdmissionConfig {
        places: 64,
        places_per_source: 64,
        patience_ns: u64::MAX,
        yields: Yields::Newest,
    };
    assert!(!goes_on_among_strangers(Some(first)));
}

fn order() -> Order {
    Order {
        job: 5,
        kind: JobKind::Parent,
        place: 0,
        members: (0..3).map(address).collect(),
        vms: vec![0, 1, 2],
        fanout: 0,
        rate: 1_000,
        duration_ns: 100 * Nanos::MILLI,
        warmup_ns: 0,
        start_ns: 0,
        gather_ns: 100 * Nanos::MILLI,
    }
}

#[test]
fn malformed_jobs_are_refused_and_only_known_ones_exist() {
    let (mut world, _) = World::new(3, CloudModel::default());
    let mut link = world.insider(0, &key());
    let lead = String::from_utf8(Message::Lead(order()).encode()).unwrap();
    let with = |from: &str, to: &str| {
        assert!(lead.contains(from), "{lead}");
        lead.replace(from, to).into_bytes()
    };
    let malformed = [
        b"rm -rf".to_vec(),
        b"{\"exec\":\"id\"}".to_vec(),
        with("PARENT", "SHELL"),
        with("\"rate\":1000", "\"rate\":-1"),
        with("\"rate\":1000", "\"rate\":4000000000"),
        with("\"place\":0", "\"place\":1"),
        with("\"vms\":[0,1,2]", "\"vms\":[0]"),
        with("\"fanout\":0", "\"fanout\":0,\"command\":\"id\""),
        Message::Heard { job: 5, heard: Vec::new(), series: Vec::new() }.encode(),
    ];
    let count = malformed.len() as u64;
    for payload in malformed {
        let answer = world.ask(&mut link, &payload);
        assert!(matches!(answer, Some(Message::Refused { .. })), "{answer:?}");
    }
    assert_eq!(world.agent(0).counters().refused, count);
    assert_eq!(world.agent(0).counters().jobs, 0);
    // Control: the well-formed one is carried out over the same connection.
    assert_eq!(world.ask(&mut link, lead.as_bytes()), None);
    assert!(world.agent(0).is_busy());
    let until = world.now.after(Nanos::SECOND);
    world.run_until(|world| world.now >= until);
    link.take(&std::mem::take(&mut world.outside), &mut Vec::new()).unwrap();
    let answer = Message::decode(&link.next_frame().unwrap().unwrap()).unwrap();
    let Message::Done { report, .. } = answer else { panic!("{answer:?}") };
    assert_eq!(report.heard[1][0].summary.received, 100);
    assert!((0..3).all(|vm| !world.agent(vm).is_busy()));
}

#[test]
fn a_second_job_is_refused_and_a_vanished_controller_frees_everybody() {
    let (mut world, _) = World::new(3, CloudModel::default());
    let mut link = world.insider(0, &key());
    let long = Order { duration_ns: 60 * Nanos::SECOND, ..order() };
    assert_eq!(world.ask(&mut link, &Message::Lead(long).encode()), None);
    assert!(matches!(
        world.ask(&mut link, &Message::Lead(order()).encode()),
        Some(Message::Refused { job: 5, .. })
    ));
    assert!((0..3).all(|vm| world.agent(vm).is_busy()));
    world.cut(OUTSIDE, ConnId(1));
    world.settle();
    assert!((0..3).all(|vm| !world.agent(vm).is_busy()));
}

#[test]
fn forged_probes_change_nothing() {
    let (mut world, _) = World::new(3, CloudModel::default());
    let mut link = world.insider(0, &key());
    world.ask(&mut link, &Message::Lead(order()).encode());
    let forged = probe::packet::Probe { job: 5, sender: 0, number: 1, sent_ns: 1 };
    let wrong = probe::packet::job_key(&Key::new(&[1; 16]).unwrap(), 5);
    for _ in 0..10 {
        world.push(Event::Datagram(1, forged.encode(&wrong).to_vec()));
    }
    let until = world.now.after(Nanos::SECOND);
    world.run_until(|world| world.now >= until);
    assert_eq!(world.agent(1).counters().strangers, 10);
    link.take(&std::mem::take(&mut world.outside), &mut Vec::new()).unwrap();
    let Message::Done { report, .. } =
        Message::decode(&link.next_frame().unwrap().unwrap()).unwrap()
    else {
        panic!("no report")
    };
    assert!(report.heard[1][0].summary.p90_ns < 1e6);
}
