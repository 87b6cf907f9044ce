//! `provision.toml`: what of a fleet the cluster file does not say. Every key has a default but those of the
//! zones of a cloud; `examples/provision.toml` explains them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use host::failure::Failure;
use host::fleet::file::{ClusterFile, NodeEntry, NodeRole};
use serde::Deserialize;

/// The file.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// By role: which machine.
    pub machines: Machines,
    /// Of `aws`.
    pub aws: Aws,
    /// Of `k8s`.
    pub kubernetes: Kubernetes,
    /// Of `ansible`: variables of the role for all machines.
    pub ansible: BTreeMap<String, toml::Value>,
    /// Where all of this is from; none: the defaults alone.
    #[serde(skip)]
    pub path: Option<PathBuf>,
}

/// A machine of a cloud.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    /// As the cloud names it.
    pub kind: String,
    /// Its physical cores: one thread each is used.
    pub cores: u32,
}

/// By role.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Machines {
    /// Of roots, learners and those in reserve.
    pub root: Kind,
    /// Of proxies and those that stand by.
    pub proxy: Kind,
    /// Of edges.
    pub edge: Kind,
}

impl Default for Machines {
    fn default() -> Self {
        let of = |kind: &str, cores| Kind { kind: kind.to_string(), cores };
        Machines {
            root: of("c7i.4xlarge", 8),
            proxy: of("c7i.2xlarge", 4),
            edge: of("c7i.2xlarge", 4),
        }
    }
}

impl Machines {
    /// That of a node.
    pub fn of(&self, node: &NodeEntry) -> &Kind {
        match () {
            () if node.keeps_log() => &self.root,
            () if node.is(NodeRole::Edge) => &self.edge,
            () => &self.proxy,
        }
    }
}

/// A zone of the cluster file in Amazon's cloud.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// As nodes of cluster.toml name it; empty for nodes that name none.
    #[serde(default)]
    pub name: String,
    /// The availability zone.
    pub az: String,
    /// Its part of `network`.
    pub subnet: String,
}

/// Of Amazon's cloud.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Aws {
    /// Addresses of the fleet.
    pub network: String,
    /// Domain of the nodes' names, which only the fleet sees.
    pub domain: String,
    /// Zones; each that cluster.toml names.
    pub zone: Vec<Zone>,
    /// Who may reach edges' doors and retransmission.
    pub participants: Vec<String>,
    /// Disk of a root's log, GiB.
    pub journal_gib: u32,
    /// Writes a second of that disk.
    pub journal_iops: u32,
    /// ENA Express for UDP between machines of one zone; kinds that lack it refuse it.
    pub ena_express: bool,
}

impl Default for Aws {
    fn default() -> Self {
        Aws {
            network: "10.20.0.0/16".to_string(),
            domain: "fairbell.internal".to_string(),
            zone: Vec::new(),
            participants: Vec::new(),
            journal_gib: 200,
            journal_iops: 6_000,
            ena_express: false,
        }
    }
}

/// Of Kubernetes.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Kubernetes {
    /// The image, without its tag.
    pub image: String,
    /// Its tag; empty: the chart's version.
    pub tag: String,
    /// Pods have the machines' own network.
    pub host_network: bool,
    /// Disk of a root's log.
    pub journal: String,
}

impl Default for Kubernetes {
    fn default() -> Self {
        Kubernetes {
            image: "fairbell".to_string(),
            tag: String::new(),
            host_network: false,
            journal: "100Gi".to_string(),
        }
    }
}

impl Settings {
    /// Reads the file.
    ///
    /// # Errors
    /// What is wrong with it, with file and line.
    pub fn read(path: &Path) -> Result<Settings, Failure> {
        let wrong = |why: String| Failure::Usage(format!("{}: {why}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let mut settings: Settings = toml::from_str(&text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
            let why = error.message().lines().collect::<Vec<_>>().join(", ");
            wrong(format!("line {line}: {why}"))
        })?;
        settings.check().map_err(wrong)?;
        settings.path = Some(path.to_path_buf());
        Ok(settings)
    }

    fn check(&self) -> Result<(), String> {
        for cidr in std::iter::once(&self.aws.network)
            .chain(&self.aws.participants)
            .chain(self.aws.zone.iter().map(|zone| &zone.subnet))
        {
            if !is_cidr(cidr) {
                return Err(format!("aws: {cidr:?}: addresses like 10.20.0.0/16"));
            }
        }
        if !(8..=16_384).contains(&self.aws.journal_gib) {
            return Err("aws.journal_gib: 8 to 16384".to_string());
        }
        if !(3_000..=16_000).contains(&self.aws.journal_iops) {
            return Err("aws.journal_iops: 3000 to 16000".to_string());
        }
        let plain = |text: &str| {
            !text.is_empty()
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-./:_".contains(&b))
        };
        let Machines { root, proxy, edge } = &self.machines;
        for kind in [root, proxy, edge] {
            if !plain(&kind.kind) || !(1..=1_024).contains(&kind.cores) {
                return Err(format!("machines: {:?}: a kind, and 1 to 1024 cores", kind.kind));
            }
        }
        let zones = self.aws.zone.iter().map(|zone| &zone.az);
        for text in zones.chain([&self.aws.domain, &self.kubernetes.image]) {
            if !plain(text) {
                return Err(format!("{text:?}: letters, digits and -./:_"));
            }
        }
        Ok(())
    }
}

/// An IPv4 network: address, `/`, 0 to 32 bits.
fn is_cidr(text: &str) -> bool {
    let Some((ip, bits)) = text.split_once('/') else { return false };
    let bits = bits.parse::<u8>().is_ok_and(|bits| bits <= 32);
    ip.parse::<std::net::Ipv4Addr>().is_ok() && bits
}

/// The file's nodes that are of a role, by the number behind their name: `edge-1`, `edge-2`, without gaps. Kubernetes
/// names pods so.
pub fn counted(file: &ClusterFile, role: NodeRole, word: &str) -> Result<usize, Failure> {
    let all: Vec<&NodeEntry> = file.nodes.iter().filter(|node| node.is(role)).collect();
    for (at, node) in all.iter().enumerate() {
        let expected = format!("{word}-{}", at + 1);
        if node.name != expected {
            let why =
                format!("{}: pods of this role are named {word}-1, {word}-2 and so on", node.name);
            return Err(Failure::Usage(format!("{}: {why}", file.path.display())));
        }
    }
    Ok(all.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_settings_are_said() {
        let check = |text: &str| toml::from_str::<Settings>(text).expect("TOML").check();
        assert_eq!(check(""), Ok(()));
        for (text, said) in [
            ("[aws]\nnetwork = \"everything\"", "10.20.0.0/16"),
            ("[aws]\nparticipants = [\"0.0.0.0/0\", \"10.0.0.0/99\"]", "10.0.0.0/99"),
            ("[aws]\njournal_gib = 1", "journal_gib"),
            ("[aws]\njournal_iops = 1", "journal_iops"),
            ("[machines]\nedge = { kind = \"$(reboot)\", cores = 1 }", "machines"),
            ("[aws]\ndomain = \"a b\"", "a b"),
        ] {
            assert!(check(text).expect_err(text).contains(said), "{text}");
        }
        assert!(toml::from_str::<Settings>("[aws]\nregion = \"x\"").is_err(), "unknown keys");
    }
}
