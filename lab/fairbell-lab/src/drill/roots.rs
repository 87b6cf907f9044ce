//! The roots of a drill's venue: processes of `fairbell node`, each on a loopback address of its own, by a
//! `cluster.toml` that is made for the drill. All other nodes of the file are the drill itself.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use net::Clock;
use probe::{Key, entropy};
use rustix::process::{Pid, Signal, kill_process};
use types::NodeId;

use host::config::Config;
use host::deployment;
use host::failure::{Failure, on};
use host::fleet::client::Identity;
use host::fleet::credentials::{self, Credentials, DAYS, KEYS, OPERATOR, RootSecret};
use host::fleet::file::{ClusterFile, NodeEntry, NodeRole, Port, settled};
use host::fleet::node::journal_dir;
use host::replica::cluster::Cluster;
use host::replica::node::Status;
use host::sockets::io;

/// Ports that nodes may begin at: the system gives none of them to anybody, and strangers come from others.
const BASES: std::ops::Range<u16> = 29_000..32_600;
/// Draws of addresses and ports before none is thought to be free.
const DRAWS: usize = 8;
/// How long a process that was told to end may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a replica may take to say how it stands.
const ANSWER: Duration = Duration::from_secs(1);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Replicas of the root, numbered from 0 here; in reserve those behind the first ones.
pub struct Roots {
    /// Who is where.
    pub file: ClusterFile,
    /// Settings of the venue.
    pub config: Config,
    /// The group as an operator sees it.
    pub cluster: Cluster,
    /// Places go to the first who come.
    pub first_come: bool,
    operator: Identity,
    dir: PathBuf,
    /// By replica: others whose streams it reaches elsewhere.
    links: Vec<Vec<(u8, SocketAddr)>>,
    processes: Vec<Option<Child>>,
}

/// The folder of a replica's machine.
pub fn folder(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("replica-{}", number + 1))
}

/// The journal in it.
pub fn journal(dir: &Path, number: usize) -> PathBuf {
    journal_dir(&folder(dir, number))
}

fn name(number: usize) -> String {
    format!("root-{}", number + 1)
}

impl Roots {
    /// Makes a venue with so many replicas, and so many in reserve, in `dir`; nothing runs yet.
    ///
    /// # Errors
    /// Wrong settings; files that can't be written; no addresses are free.
    pub fn found(
        dir: &Path,
        settings: &str,
        (roots, reserve): (usize, usize),
    ) -> Result<Roots, Failure> {
        let (venue, path) = (dir.join("venue.toml"), dir.join("cluster.toml"));
        std::fs::write(&venue, settings).map_err(|error| on(&venue, error))?;
        let config = settled(host::config::read(Some(&venue))?, roots);
        let mut nodes: Vec<(String, NodeRole)> =
            (0..roots).map(|number| (name(number), NodeRole::Root)).collect();
        nodes.extend((roots..roots + reserve).map(|number| (name(number), NodeRole::Reserve)));
        for (role, word, count) in [
            (NodeRole::Proxy, "proxy", deployment::proxies(&config)),
            (NodeRole::Edge, "edge", config.overlay.receivers),
        ] {
            nodes.extend((1..=count).map(|number| (format!("{word}-{number}"), role)));
        }
        let file = placed(&path, &nodes)?;
        std::fs::write(&path, file.text()?).map_err(|error| on(&path, error))?;
        credentials::found(&file)?;
        let names = file.replicated().map(|(_, node)| &node.name[..]).chain([OPERATOR]);
        names
            .map(|name| credentials::issue(&file, name, DAYS))
            .try_for_each(|made| made.map(drop))?;
        let secret = RootSecret::read(&dir.join(KEYS))?.epoch(0)?;
        let config = file.venue()?;
        let own = Credentials::read(&file, &Credentials::folder(&file, OPERATOR), OPERATOR)?;
        let operator = Identity::new(&file, &config, own, (OPERATOR, 0))?;
        let cluster =
            Cluster::of((&file, &file.nodes[0]), &file.overlay(&config)?, secret, Path::new(""))?;
        Ok(Roots {
            file,
            config,
            cluster,
            first_come: false,
            operator,
            dir: dir.to_path_buf(),
            links: vec![Vec::new(); roots + reserve],
            processes: (0..roots + reserve).map(|_| None).collect(),
        })
    }

    /// How many there are, those in reserve included.
    pub fn count(&self) -> usize {
        self.processes.len()
    }

    /// Has a replica reach the streams of another one, from 1, elsewhere.
    pub fn link(&mut self, from: usize, to: u8, at: SocketAddr) {
        self.links[from].push((to, at));
    }

    /// All nodes but the root in the order of their ids from 1, each with its machine and port.
    ///
    /// # Errors
    /// Never for a file that was made here.
    pub fn overlay(&self) -> Result<Vec<(NodeId, &NodeEntry, Port)>, Failure> {
        let all = self.file.overlay(&self.config)?.into_iter();
        let known = all.map(|(id, number, port)| Some((id, self.file.numbered(number)?, port)));
        let known: Option<_> = known.collect();
        known.ok_or_else(|| Failure::Run("a node without a machine".to_string()))
    }

    /// Where leaders say that they lead, and the key of that: one of the nodes that are here.
    ///
    /// # Errors
    /// The address is in use.
    pub fn claims(&self) -> Result<(UdpSocket, Key), Failure> {
        let place = self.count();
        let at = self.file.bound(&self.file.nodes[place], Port::Claims);
        Ok((UdpSocket::bind(at).map_err(io)?, self.cluster.claim_key(place)?))
    }

    /// The group as a replica has it: with its keys, and through whatever its streams go.
    pub fn seen_by(&self, number: usize) -> Cluster {
        let keys = Credentials::folder(&self.file, &name(number));
        let mut seen = Cluster { keys, ..self.cluster.clone() };
        for (to, at) in &self.links[number] {
            seen.replicas[usize::from(*to) - 1].link = *at;
        }
        seen
    }

    /// The folder of a replica's machine.
    pub fn folder(&self, number: usize) -> PathBuf {
        folder(&self.dir, number)
    }

    /// The journal in it.
    pub fn journal(&self, number: usize) -> PathBuf {
        journal(&self.dir, number)
    }

    /// Starts a replica's process, unless it runs.
    ///
    /// # Errors
    /// The system's.
    pub fn revive(&mut self, number: usize) -> Result<(), Failure> {
        let (log, folder) = (self.log(number), self.folder(number));
        let Some(process) = self.processes.get_mut(number).filter(|process| process.is_none())
        else {
            return Ok(());
        };
        let options = std::fs::OpenOptions::new().create(true).append(true).open(&log);
        let log = options.map_err(|error| on(&log, error))?;
        let mut command = Command::new(std::env::current_exe().map_err(io)?);
        command.args(["node", "--name", &name(number), "--cluster"]).arg(&self.file.path);
        command.arg("--dir").arg(folder);
        for (to, at) in &self.links[number] {
            command.arg(format!("--link={to}={at}"));
        }
        if self.first_come {
            command.arg("--first-come");
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        *process = Some(child.map_err(|error| Failure::Run(format!("a replica: {error}")))?);
        Ok(())
    }

    /// The last line of a replica whose process is to end by itself, with a failure.
    ///
    /// # Errors
    /// It does not end, or ends as if all were well.
    pub fn last_words(&mut self, number: usize, patience: Duration) -> Result<String, Failure> {
        let failed = |why: &str| Failure::Run(format!("replica {}: {why}", number + 1));
        let Some(mut child) = self.processes.get_mut(number).and_then(Option::take) else {
            return Err(failed("does not run"));
        };
        let from = Instant::now();
        let ended = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                _ if from.elapsed() > patience => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(failed("runs on a damaged disk"));
                }
                _ => std::thread::sleep(LOOK_EVERY),
            }
        };
        if ended.success() {
            return Err(failed("ended as if nothing were wrong with its disk"));
        }
        self.said(number)
    }

    /// What a replica's processes print.
    fn log(&self, number: usize) -> PathBuf {
        self.dir.join(format!("replica-{}.log", number + 1))
    }

    /// The last line of it.
    fn said(&self, number: usize) -> Result<String, Failure> {
        let log = self.log(number);
        let text = std::fs::read_to_string(&log).map_err(|error| on(&log, error))?;
        Ok(text.lines().last().unwrap_or_default().to_string())
    }

    /// Sets the damaged log of a replica that does not run aside, as an operator would.
    ///
    /// # Errors
    /// What the command says.
    pub fn mend(&self, number: usize) -> Result<(), Failure> {
        let dir = self.journal(number);
        let done = command(&["journal", "mend", "--json"], &[&dir])?;
        match done.status.success() {
            true => Ok(()),
            false => Err(on(&dir, String::from_utf8_lossy(&done.stderr))),
        }
    }

    /// Lets a replica in doubt that does not run elect another one, as an operator would who has been told
    /// what can't be proved. What he was told.
    ///
    /// # Errors
    /// What the command says, or that it asks for nobody's word.
    pub fn recover(&self, number: usize, from: usize) -> Result<String, Failure> {
        let (dir, whole) = (self.journal(number), self.journal(from));
        let numbers = [number, from].map(|number| (number + 1).to_string());
        let recover = |more: &[&str]| {
            let words = ["replica", "recover", "--id", &numbers[0], "--from", &numbers[1]];
            let paths = [Path::new("--dir"), &dir, Path::new("--compare"), &whole];
            command(&[&words[..], more].concat(), &paths)
        };
        let told = recover(&[])?;
        if told.status.success() {
            return Err(on(&dir, "it was recovered without its operator's word"));
        }
        let done = recover(&["--accept-loss"])?;
        if !done.status.success() {
            return Err(on(&dir, String::from_utf8_lossy(&done.stderr)));
        }
        Ok(String::from_utf8_lossy(&told.stderr).into_owned())
    }

    /// What one replica says; nothing when it does not answer.
    pub fn status(&self, number: usize) -> Option<Status> {
        self.operator.replica(number as u8 + 1, ANSWER).ok()
    }

    /// Sends a signal to a replica's process; false when it does not run.
    pub fn signal(&self, number: usize, signal: Signal) -> bool {
        let child = self.processes.get(number).and_then(Option::as_ref);
        let pid = child.and_then(|child| Pid::from_raw(child.id().cast_signed()));
        pid.is_some_and(|pid| kill_process(pid, signal).is_ok())
    }

    /// Kills a replica's process at once, as `kill -9` does, and waits for its end.
    pub fn kill(&mut self, number: usize) -> bool {
        let Some(mut child) = self.processes.get_mut(number).and_then(Option::take) else {
            return false;
        };
        let killed = child.kill().is_ok();
        let _ = child.wait();
        killed
    }

    /// Kills all that run, those in reserve included.
    pub fn kill_all(&mut self) {
        for number in 0..self.count() {
            self.kill(number);
        }
    }

    /// That all processes that were started run.
    ///
    /// # Errors
    /// One has ended by itself: which, and what it said.
    pub fn all_run(&mut self) -> Result<(), Failure> {
        let has_ended = |process: &mut Option<Child>| {
            process.as_mut().is_some_and(|child| child.try_wait().is_ok_and(|it| it.is_some()))
        };
        let Some(number) = self.processes.iter_mut().position(has_ended) else { return Ok(()) };
        let said = self.said(number)?;
        Err(Failure::Run(format!("replica {} ended by itself, and said: {said}", number + 1)))
    }

    /// Tells all processes to end, and waits for that.
    pub fn end(&mut self) {
        for number in 0..self.count() {
            self.signal(number, Signal::TERM);
        }
        let from = Instant::now();
        for child in self.processes.iter_mut().flatten() {
            while matches!(child.try_wait(), Ok(None)) && from.elapsed() < PATIENCE {
                std::thread::sleep(LOOK_EVERY);
            }
        }
    }
}

impl Drop for Roots {
    fn drop(&mut self) {
        self.kill_all();
    }
}

/// Runs a command of the product in this program.
fn command(words: &[&str], paths: &[&Path]) -> Result<Output, Failure> {
    let program = std::env::current_exe().map_err(io)?;
    Command::new(program).args(words).args(paths).output().map_err(io)
}

/// A file of these nodes, each on a loopback address drawn for it alone, with ports that are free: a port
/// could be another process's, or that of a stream of another replica, until its replica comes, or comes back.
fn placed(path: &Path, nodes: &[(String, NodeRole)]) -> Result<ClusterFile, Failure> {
    let mut why = None;
    for _ in 0..DRAWS {
        let [a, b, c, d, ..] =
            entropy().ok_or_else(|| Failure::Run("no randomness".to_string()))?;
        let port = BASES.start + u16::from(d) * 16 % (BASES.end - BASES.start);
        let entry = |(place, (name, role)): (usize, &(String, NodeRole))| {
            let last = (usize::from(c) + place) % 254 + 1;
            let at = Ipv4Addr::new(127, a.clamp(1, 254), b, last as u8);
            let (port, bind) = (Some(port), Some(at.into()));
            NodeEntry { port, bind, ..NodeEntry::new(name.clone(), at.to_string(), vec![*role]) }
        };
        let nodes = nodes.iter().enumerate().map(entry).collect();
        let file = ClusterFile::new(path, "drill", Clock::start(0).now(), nodes)?;
        match held(&file) {
            Ok(_) => return Ok(file),
            Err(error) => why = Some(error),
        }
    }
    let why = why.map_or_else(String::new, |error| error.to_string());
    Err(Failure::Run(format!("no free addresses for a venue: {why}")))
}

/// Sockets at all ports of the roots.
fn held(file: &ClusterFile) -> std::io::Result<(Vec<UdpSocket>, Vec<TcpListener>)> {
    let roots: Vec<&NodeEntry> = file.replicated().map(|(_, node)| node).collect();
    let at = |ports: &'static [Port]| {
        roots.iter().flat_map(|node| ports.iter().map(|port| file.bound(node, *port)))
    };
    Ok((
        at(&[Port::Root, Port::Retransmission]).map(UdpSocket::bind).collect::<Result<_, _>>()?,
        at(&[Port::Link, Port::Control]).map(TcpListener::bind).collect::<Result<_, _>>()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_finds_its_ports_though_others_took_ports_meanwhile() {
        let nodes = [1, 2, 3].map(|number| (format!("root-{number}"), NodeRole::Root));
        let file = placed(Path::new("cluster.toml"), &nodes).expect("a file");
        let elsewhere = |port| (Ipv4Addr::LOCALHOST, file.number(&file.nodes[0], port));
        let _others = [Port::Root, Port::Retransmission].map(|p| UdpSocket::bind(elsewhere(p)));
        let _more = [Port::Link, Port::Control].map(|p| TcpListener::bind(elsewhere(p)));
        let (udp, tcp) = held(&file).expect("free ports");
        assert_eq!((udp.len(), tcp.len()), (6, 6));
        // Control: nobody else can have them meanwhile.
        assert!(held(&file).is_err());
    }
}
