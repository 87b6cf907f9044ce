//! Agents of one machine: a thread with all of them, each on a loopback address of its own.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use net::{Clock, Directory, Loop};
use planner::campaign::Results;
use planner::cloud::Cloud;
use planner::schema::Experiment;
use probe::{Agent, Injection, Key};
use types::{Channel, NodeId};

use super::{control, io, loop_config, randomness};
use host::failure::Failure;

/// Attempts to find a port that is free for both protocols.
const PORT_TRIES: usize = 50;

/// Runs an experiment with agents that get the cloud's delays; one of them may be killed.
pub fn run(
    experiment: Experiment,
    cloud: Arc<Cloud>,
    kill: Option<(u16, Duration)>,
    stop: &Arc<AtomicBool>,
) -> Result<Results, Failure> {
    let key = Key::new(&randomness()?).map_err(|error| Failure::Run(error.to_string()))?;
    let mut agents: Loop<Agent> =
        Loop::new(Clock::start(0), Arc::new(Directory::default()), loop_config()).map_err(io)?;
    let mut addresses = Vec::new();
    for vm in 0..cloud.vms() {
        let (listener, socket, address) = bind(vm)?;
        let injection = Injection::new(Arc::clone(&cloud), vm, experiment.seed);
        let node = Agent::new(key.clone(), randomness()?, Some(injection));
        let sockets = vec![(Channel::OVERLAY, socket)];
        agents.add_node(NodeId(vm as u16), node, sockets, [listener]).map_err(io)?;
        addresses.push(address);
    }
    let handle = agents.handle();
    let ended = Arc::new(AtomicBool::new(false));
    let (flag, killer_flag) = (Arc::clone(&ended), Arc::clone(&ended));
    let hosting = std::thread::spawn(move || {
        agents.run(&flag, Duration::from_secs(1), |_, _| ()).map(|_| ())
    });
    if let Some((vm, after)) = kill {
        std::thread::spawn(move || {
            std::thread::sleep(after);
            // The run may be over by then.
            if !killer_flag.load(Ordering::Relaxed) && handle.kill(NodeId(vm)).is_ok() {
                eprintln!("\nagent {vm} killed");
            }
        });
    }
    let results = control(experiment, addresses, key, stop);
    ended.store(true, Ordering::Relaxed);
    match hosting.join() {
        Ok(hosted) => hosted.map_err(io)?,
        Err(_) => return Err(Failure::Run("the agents' thread panicked".to_string())),
    }
    results
}

/// A loopback address of its own, and a port that is free for both protocols.
fn bind(vm: usize) -> Result<(TcpListener, UdpSocket, SocketAddr), Failure> {
    let ip = Ipv4Addr::new(127, 0, 77, vm as u8 + 1);
    let mut last = None;
    for _ in 0..PORT_TRIES {
        let listener = TcpListener::bind((ip, 0)).map_err(io)?;
        let port = listener.local_addr().map_err(io)?.port();
        match UdpSocket::bind((ip, port)) {
            Ok(socket) => return Ok((listener, socket, SocketAddr::from((ip, port)))),
            Err(error) => last = Some(error),
        }
    }
    let why = last.map(|error| error.to_string()).unwrap_or_default();
    Err(Failure::Run(format!("no port of {ip} is free: {why}")))
}
