//! A node's end of the control connection, and an operator's.
//!
//! A thread of its own keeps the connection: to the replica that leads, and to the next one when that
//! is silent or says that another one leads. While no root can be reached the node goes on with the
//! keys it has.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use net::Sealed;

use super::credentials::Credentials;
use super::file::{ClusterFile, NodeEntry, Port, venue_digest};
use super::messages::{
    Followed, FromNode, FromRoot, Health, Observed, Operation, Reader, VERSION, write,
};
use super::plan::Probed;
use crate::config::Config;
use crate::failure::Failure;
use crate::replica::gate;
use crate::replica::node::Status;
use crate::sockets::connect_any;

/// How long an address may not answer.
const CONNECT: Duration = Duration::from_millis(500);
/// How long a root may not answer the first message.
const WELCOME: Duration = Duration::from_secs(6);
/// Between two attempts.
const RETRY: Duration = Duration::from_millis(50);
/// How long a connection may be silent before what there is to say is looked at.
const TURN: Duration = Duration::from_millis(50);
/// A connection that takes nothing for so long is given up.
const STUCK: Duration = Duration::from_secs(2);
/// Between two words on how the node is.
const HEALTH_EVERY: Duration = Duration::from_secs(1);

/// The node whose connection is kept.
pub trait Connected {
    /// A root says something.
    fn told(&mut self, message: FromRoot);
    /// Why a connection ended, or could not be had.
    fn lost(&mut self, why: String);
    /// How the node is, when it knows.
    fn health(&self) -> Option<Health>;
    /// Whose clock it follows.
    fn follows(&self) -> Followed;
    /// What its nodes saw since the last time.
    fn observed(&self) -> Option<Observed>;
    /// What it heard of others' probes, some at a time.
    fn probed(&self) -> Option<Probed>;
    /// The last plan that it was told to remember.
    fn plan(&self) -> Option<String>;
}

/// Who connects.
#[derive(Clone)]
pub struct Identity {
    /// Who is where.
    pub file: ClusterFile,
    /// What it shows.
    pub credentials: Credentials,
    /// Its name, and its number; 0 for an operator.
    pub name: String,
    /// See `name`.
    pub number: u16,
    venue: u64,
    boot: u32,
}

impl Identity {
    /// A process of a node, just started.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn new(
        file: &ClusterFile,
        config: &Config,
        credentials: Credentials,
        (name, number): (&str, u16),
    ) -> Result<Identity, Failure> {
        let random = probe::entropy().ok_or_else(|| Failure::Run("no randomness".to_string()))?;
        Ok(Identity {
            venue: venue_digest(file, config)?,
            file: file.clone(),
            credentials,
            name: name.to_string(),
            number,
            boot: random.first_chunk().map_or(1, |bytes| u32::from_le_bytes(*bytes)),
        })
    }

    fn root(&self, replica: u8) -> Option<&NodeEntry> {
        let place = usize::from(replica).checked_sub(1)?;
        self.file.replicated().nth(place).map(|(_, node)| node)
    }

    fn replicas(&self) -> u8 {
        self.file.replicated().count() as u8
    }

    /// A connection to a replica, past its gate and TLS, with the hello sent.
    ///
    /// # Errors
    /// No such root; it is not reached; it refuses these keys.
    pub fn open(&self, replica: u8, follows: Followed) -> Result<Sealed, Failure> {
        self.connect(replica, follows, None)
    }

    /// The same of a machine that remembers a plan.
    fn connect(
        &self,
        replica: u8,
        follows: Followed,
        plan: Option<String>,
    ) -> Result<Sealed, Failure> {
        let none = || Failure::Run(format!("there is no root {replica}"));
        let node = self.root(replica).ok_or_else(none)?;
        let failed = |error| Failure::Run(lost(&node.name, &error));
        // The name is resolved anew each time. An operator may be anywhere, a node is where it is.
        let ways = match self.file.numbered(self.number) {
            Some(own) => self.file.ways(own, node, Port::Control)?,
            None => self.file.places(node, Port::Control)?,
        };
        let stream = connect_any(&ways, CONNECT).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let until = Instant::now() + gate::HANDSHAKE;
        let ends = (self.number, replica.into());
        gate::enter(&stream, (&self.credentials.gate, ends.0, ends.1), until).map_err(failed)?;
        let stream = Arc::new(stream);
        let tls = self.credentials.to_root(self.file.group(), replica)?;
        let mut sealed = tls.connect(Arc::clone(&stream), until).map_err(failed)?;
        stream.set_read_timeout(Some(TURN)).map_err(failed)?;
        stream.set_write_timeout(Some(STUCK)).map_err(failed)?;
        let hello = FromNode::Hello {
            version: VERSION,
            cluster: self.file.id,
            venue: self.venue,
            name: self.name.clone(),
            boot: self.boot,
            follows,
            plan,
        };
        write(&mut sealed, &hello).map_err(failed)?;
        Ok(sealed)
    }

    /// Has an operation done, by whichever replica leads; its answer.
    ///
    /// # Errors
    /// Why it is not done; no replica answers within `patience`.
    pub fn operate(
        &self,
        operation: &Operation,
        patience: Duration,
    ) -> Result<(String, serde_json::Value), Failure> {
        let until = Instant::now() + patience;
        let (mut replica, mut said) = (1, BTreeMap::new());
        loop {
            let why = match self.ask(replica, operation, until) {
                Ok(Told::Answer(text, data)) => return Ok((text, data)),
                Ok(Told::Refused(why)) => return Err(Failure::Run(why)),
                Ok(Told::Elsewhere(leader)) if leader > 0 && leader != replica => {
                    replica = leader;
                    continue;
                }
                Ok(Told::Elsewhere(_)) => "no root leads at present".to_string(),
                Err(failure) => failure.to_string(),
            };
            said.insert(replica, why);
            if Instant::now() >= until {
                let mut said: Vec<String> = said.into_values().collect();
                said.dedup();
                return Err(Failure::Run(format!("no root did it: {}", said.join("; "))));
            }
            replica = replica % self.replicas() + 1;
            std::thread::sleep(RETRY);
        }
    }

    /// How a replica stands, from 1, whether it leads or not.
    ///
    /// # Errors
    /// Why it does not answer within `patience`.
    pub fn replica(&self, replica: u8, patience: Duration) -> Result<Status, Failure> {
        let until = Instant::now() + patience;
        loop {
            match self.ask(replica, &Operation::Replica, until) {
                Ok(Told::Answer(_, data)) => {
                    return serde_json::from_value(data)
                        .map_err(|error| Failure::Run(format!("root {replica}: {error}")));
                }
                Ok(Told::Refused(why)) => return Err(Failure::Run(why)),
                Err(why) if Instant::now() >= until => return Err(why),
                // Strangers may crowd its door.
                Ok(Told::Elsewhere(_)) | Err(_) => std::thread::sleep(RETRY),
            }
        }
    }

    fn ask(&self, replica: u8, operation: &Operation, until: Instant) -> Result<Told, Failure> {
        let mut sealed = self.open(replica, Followed::default())?;
        let failed = |error: std::io::Error| Failure::Run(format!("root {replica}: {error}"));
        write(&mut sealed, &FromNode::Operate(operation.clone())).map_err(failed)?;
        let mut reader = Reader::default();
        while Instant::now() < until {
            match reader.next::<FromRoot>(&mut sealed).map_err(failed)? {
                None => {}
                Some(FromRoot::Answer { text, data }) => return Ok(Told::Answer(text, data)),
                Some(FromRoot::Refused { why, again: true }) => return Err(Failure::Run(why)),
                Some(FromRoot::Refused { why, .. }) => return Ok(Told::Refused(why)),
                Some(FromRoot::Elsewhere { leader }) => return Ok(Told::Elsewhere(leader)),
                Some(_) => return Err(Failure::Run(format!("root {replica} answers strangely"))),
            }
        }
        Err(Failure::Run(format!("root {replica} does not answer")))
    }

    /// Keeps a node's connection until `stop`, or until the group refuses it: then why.
    ///
    /// # Errors
    /// The group's refusal.
    pub fn keep(&self, stop: &AtomicBool, node: &mut impl Connected) -> Result<(), Failure> {
        let mut replica = 1;
        while !stop.load(Ordering::Relaxed) {
            match self.follow(replica, stop, node) {
                Ok(Some(leader)) if leader > 0 && leader != replica => replica = leader,
                Err(Ended::Refused(why)) => return Err(Failure::Refused(why)),
                outcome => {
                    if let Err(Ended::Lost(why)) = outcome {
                        node.lost(why);
                    }
                    replica = replica % self.replicas() + 1;
                    std::thread::sleep(RETRY);
                }
            }
        }
        Ok(())
    }

    /// One connection; who leads instead, if that was said.
    fn follow(
        &self,
        replica: u8,
        stop: &AtomicBool,
        node: &mut impl Connected,
    ) -> Result<Option<u8>, Ended> {
        let failed = |error: std::io::Error| Ended::Lost(format!("root {replica}: {error}"));
        let sealed = self.connect(replica, node.follows(), node.plan());
        let mut sealed = sealed.map_err(|why| Ended::Lost(why.to_string()))?;
        let (mut reader, begun, mut welcomed) = (Reader::default(), Instant::now(), false);
        let mut health_at = begun;
        while !stop.load(Ordering::Relaxed) {
            match reader.next::<FromRoot>(&mut sealed).map_err(failed)? {
                None if !welcomed && begun.elapsed() > WELCOME => {
                    return Err(Ended::Lost(format!("root {replica} says nothing")));
                }
                None => {}
                Some(FromRoot::Refused { why, again: true }) => {
                    return Err(Ended::Lost(format!("root {replica}: {why}")));
                }
                Some(FromRoot::Refused { why, .. }) => {
                    return Err(Ended::Refused(format!(
                        "root {replica} refuses {}: {why}",
                        self.name
                    )));
                }
                Some(FromRoot::Elsewhere { leader }) => return Ok(Some(leader)),
                Some(message) => {
                    // Whoever appoints a reference waits for its word.
                    if let FromRoot::Reference(_) = message {
                        health_at = begun;
                    }
                    welcomed = true;
                    node.told(message);
                }
            }
            if welcomed && let Some(observed) = node.observed() {
                write(&mut sealed, &FromNode::Observed(observed)).map_err(failed)?;
            }
            if welcomed && let Some(probed) = node.probed() {
                write(&mut sealed, &FromNode::Probed(probed)).map_err(failed)?;
            }
            if welcomed && health_at.elapsed() >= HEALTH_EVERY {
                health_at = Instant::now();
                if let Some(health) = node.health() {
                    write(&mut sealed, &FromNode::Health(health)).map_err(failed)?;
                }
            }
        }
        Ok(None)
    }
}

/// Why there is no answer from a root.
fn lost(name: &str, error: &std::io::Error) -> String {
    match error.kind() {
        // Its bytes are due and do not come.
        ErrorKind::WouldBlock | ErrorKind::TimedOut => format!("{name} does not answer"),
        _ => format!("{name}: {error}"),
    }
}

/// What came of a question.
enum Told {
    Answer(String, serde_json::Value),
    Refused(String),
    Elsewhere(u8),
}

/// Why a connection ended.
enum Ended {
    /// The stream's trouble, or the group's of the moment.
    Lost(String),
    /// The group does not want the node.
    Refused(String),
}

#[cfg(test)]
mod tests {
    use types::Nanos;

    use super::*;
    use crate::fleet::credentials::{self, OPERATOR};
    use crate::fleet::file::NodeRole;

    #[test]
    fn who_does_not_answer_in_time_is_said_to_be_silent() {
        let late = std::io::Error::from(ErrorKind::WouldBlock);
        assert_eq!(lost("root-1", &late), "root-1 does not answer");
        let away = std::io::Error::from(ErrorKind::ConnectionRefused);
        assert_eq!(lost("root-1", &away), "root-1: connection refused");
    }

    #[test]
    fn an_operator_hears_of_each_root_that_does_not_answer() {
        let dir = std::env::temp_dir().join(format!("fairbell-silent-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        crate::files::folder(&dir).expect("a folder");
        let entry = |(name, port): (&str, u16)| NodeEntry {
            port: Some(port),
            ..NodeEntry::new(name, "127.0.0.1", vec![NodeRole::Root])
        };
        // Nobody listens there.
        let nodes = [("root-1", 1), ("root-2", 40), ("root-3", 80)].map(entry).to_vec();
        let file = ClusterFile::new(&dir.join("cluster.toml"), "lab", Nanos(1), nodes);
        let file = file.expect("a cluster");
        credentials::found(&file).expect("an authority");
        let folder = credentials::issue(&file, OPERATOR, 30).expect("keys");
        let own = Credentials::read(&file, &folder, OPERATOR).expect("keys");
        let operator = Identity::new(&file, &Config::default(), own, (OPERATOR, 0));
        let asked = operator.expect("randomness").operate(&Operation::Status, RETRY * 8);
        let why = asked.expect_err("nobody is there").to_string();
        std::fs::remove_dir_all(&dir).expect("removed");
        for name in ["no root did it: root-1: ", "; root-2: ", "; root-3: "] {
            assert!(why.contains(name), "{why}");
        }
    }
}
