//! What would hurt a machine of a venue, said before it starts: files, names, certificates, ports,
//! clock, limits, ways to the others.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use net::CertificateFacts;
use rustix::fs::{Access, access};
use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
};
use rustix::process::{Resource, getrlimit};
use serde::Serialize;
use types::Nanos;

use super::addresses::IpVersion;
use super::credentials::{self, Credentials, Issuer, RootSecret, generation, named};
use super::file::{ClusterFile, NodeEntry, NodeRole, Port};
use crate::clock_sources;
use crate::config::{Clocks, Config};
use crate::failure::Failure;
use crate::phc::{Device, Hardware};
use crate::replica::certificates;
use crate::sockets;
use crate::strategies::{self, Around};

/// How long a root's door may take to be reached.
const REACH: Duration = Duration::from_secs(1);
/// Days before its end that a certificate is complained of.
const SOON_DAYS: i32 = 30;
/// Receive buffer of a UDP socket that a loop asks for, bytes.
const BUFFER: u64 = 4 << 20;
/// Bytes of the largest datagram.
const PACKET: usize = types::limits::DATAGRAM_BUILT_MAX;

/// How a thing stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Nothing to do.
    Good,
    /// It works, and not as well as it could.
    Poor,
    /// It does not work.
    Bad,
}

/// What was looked at.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// What was looked at, in a word or two.
    pub what: String,
    /// How it stands.
    pub verdict: Verdict,
    /// What was found, and what to do.
    pub found: String,
}

/// Looks at everything that concerns a machine: it is run there, before the machine's process.
#[derive(Default)]
pub struct Doctor {
    /// In the order of looking.
    pub findings: Vec<Finding>,
}

impl Doctor {
    fn say(&mut self, what: &str, verdict: Verdict, found: impl Into<String>) {
        self.findings.push(Finding { what: what.to_string(), verdict, found: found.into() });
    }

    fn judge<T>(
        &mut self,
        what: &str,
        of: Result<T, Failure>,
        good: impl Fn(&T) -> String,
    ) -> Option<T> {
        match of {
            Ok(value) => {
                self.say(what, Verdict::Good, good(&value));
                Some(value)
            }
            Err(failure) => {
                self.say(what, Verdict::Bad, failure.to_string());
                None
            }
        }
    }

    /// Looks at the machine `name` of a cluster file, with its keys in `keys`.
    ///
    /// # Errors
    /// No such machine; the file itself was read before.
    pub fn look(&mut self, file: &ClusterFile, name: &str, keys: &Path) -> Result<(), Failure> {
        let (number, node) = file.node(name)?;
        let counted = [
            (NodeRole::Root, "roots"),
            (NodeRole::Learner, "learners"),
            (NodeRole::Reserve, "in reserve"),
        ];
        let mut found = format!("{} nodes", file.nodes.len());
        if file.shard_count() > 1 {
            found += &format!(", {} shards", file.shard_count());
        }
        for (role, word) in counted {
            match file.nodes.iter().filter(|node| node.is(role)).count() {
                0 => {}
                count => found += &format!(", {count} {word}"),
            }
        }
        self.say("cluster file", Verdict::Good, found);
        let config = file.venue().and_then(|config| {
            let overlay = file.overlay(&config)?;
            Ok((config, overlay.len()))
        });
        let config = self.judge("venue settings", config, |(_, nodes)| {
            format!("a tree of {nodes} nodes below the root")
        });
        if file.shard_count() > 1 {
            file.all_shards().for_each(|of| self.shard(&of, node, number));
        }
        self.names(file, node);
        self.keys(file, node, keys);
        if let Some((config, _)) = &config {
            self.strategies(file, (number, config));
        }
        self.scale(file, node);
        self.ports(file, node);
        self.clock(config.map(|(config, _)| config.clock));
        self.limits();
        self.reach(file, node);
        Ok(())
    }

    /// What a shard has, and what the machine has of it.
    fn shard(&mut self, of: &ClusterFile, own: &NodeEntry, number: u16) {
        let placed = of.venue().and_then(|config| {
            let overlay = of.overlay(&config)?;
            Ok((config, overlay))
        });
        self.judge(&format!("shard {}", of.shard_name()), placed, |(config, overlay)| {
            let here = |(id, machine, port): &(types::NodeId, u16, Port)| {
                let is = *machine == number;
                is.then(|| format!("{port:?} {id} at UDP {}", of.number(own, *port)))
            };
            let mut here: Vec<String> = overlay.iter().filter_map(here).collect();
            here.extend(of.replica(number).map(|replica| format!("root replica {replica}")));
            let here = if here.is_empty() { "nothing".to_string() } else { here.join(", ") };
            let entry = config.shards.0.get(usize::from(of.shard().0));
            let symbols = entry.map_or_else(String::new, |entry| entry.symbols.join(" "));
            let roots = of.replicated().map(|(_, node)| &node.name[..]).collect::<Vec<_>>();
            format!("{symbols}; roots {}; here {here}", roots.join(", "))
        });
    }

    /// Whether names have addresses, and of a version of IP that the machine has, too.
    fn names(&mut self, file: &ClusterFile, own: &NodeEntry) {
        let before = self.findings.len();
        for other in &file.nodes {
            if let Err(failure) = file.known(own, other, Port::Control) {
                self.say("names", Verdict::Bad, failure.to_string());
            }
        }
        if self.findings.len() > before {
            return;
        }
        let by = |version: IpVersion| {
            let of = |at: SocketAddr| IpVersion::of(at.ip()) == version;
            let reached = |node: &&NodeEntry| file.known(own, node, Port::Control).is_ok_and(of);
            file.nodes.iter().filter(|node| node.name != own.name).filter(reached).count()
        };
        let (v4, v6) = (by(IpVersion::Ipv4), by(IpVersion::Ipv6));
        self.judge("names", file.check_ways(own), |()| {
            format!("{v4} nodes are reached by IPv4, {v6} by IPv6")
        });
    }

    fn keys(&mut self, file: &ClusterFile, node: &NodeEntry, keys: &Path) {
        self.modes(keys);
        let read = Credentials::read(file, keys, &node.name);
        let Some(own) = self.judge("keys", read, |own| own.folder.display().to_string()) else {
            return;
        };
        let of = file.of_node(node);
        if let Some(id) = file.node(&node.name).ok().and_then(|(number, _)| of.replica(number)) {
            let authority = (&*file.authority_path(), own.authority());
            let read = certificates::Credentials::in_folder(keys, (of.group(), id), authority);
            self.judge("replica's keys", read, |_| format!("those of replica {id}"));
        }
        let path = keys.join(format!("{}.pem", node.name));
        let chain = crate::tls::read(&path.display().to_string());
        let facts = chain.and_then(|chain| {
            CertificateFacts::of(&chain).map_err(|error| Failure::Usage(error.to_string()))
        });
        if let Some(facts) = self.judge("certificate", facts, |facts| facts.name.clone()) {
            let is_own =
                named(file.id, facts.name.as_bytes()).is_some_and(|(of, _)| of == node.name);
            if !is_own {
                let why = "it is of another node or cluster: issue one here and copy it";
                self.say("certificate", Verdict::Bad, why);
            }
            let left = days_left(facts.holds_until);
            let verdict = match left {
                ..0 => Verdict::Bad,
                0..SOON_DAYS => Verdict::Poor,
                _ => Verdict::Good,
            };
            let what =
                format!("{left} days left: `fairbell cluster issue {}` makes another", node.name);
            self.say("certificate's end", verdict, what);
        }
        if node.keeps_log() {
            let secret = RootSecret::read(keys);
            self.judge("roots' secret", secret, |_| "there".to_string());
            match Issuer::read(keys, own.authority()) {
                Ok(Some(_)) => self.say("issuing key", Verdict::Good, "there"),
                Ok(None) => {
                    let what = format!(
                        "none: no tokens are given; `fairbell cluster issue {}` makes one",
                        node.name
                    );
                    self.say("issuing key", Verdict::Poor, what);
                }
                Err(failure) => self.say("issuing key", Verdict::Bad, failure.to_string()),
            }
        }
        if let Err(failure) = generation(keys) {
            self.say("generation", Verdict::Bad, failure.to_string());
        }
    }

    /// Whether others than their owner may read or write the secret files of a folder.
    fn modes(&mut self, keys: &Path) {
        let Ok(entries) = std::fs::read_dir(keys) else { return };
        let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        files.sort();
        for path in files.iter().filter(|path| credentials::is_secret(path)) {
            let Ok(about) = std::fs::metadata(path) else { continue };
            let mode = about.permissions().mode() & 0o777;
            let verdict = match mode {
                mode if mode & 0o027 != 0 => Verdict::Bad,
                // A group that reads may be wanted, as where it is the process's alone.
                mode if mode & 0o040 != 0 => Verdict::Poor,
                _ => continue,
            };
            let whom = if verdict == Verdict::Bad { "others than its owner" } else { "its group" };
            let path = path.display();
            let found =
                format!("{path} has mode {mode:03o}, open to {whom}: `chmod 600 {path}` closes it");
            self.say("modes of keys", verdict, found);
        }
    }

    fn ports(&mut self, file: &ClusterFile, node: &NodeEntry) {
        let (mut udp, mut tcp) = (vec![Port::Clock, Port::Probe], Vec::new());
        let passes_on = node.is(NodeRole::Proxy) || node.is(NodeRole::Standby);
        let (several, mut overlay) = (file.shard_count() > 1, Vec::new());
        if node.keeps_log() {
            udp.extend([Port::Root, Port::Retransmission]);
            udp.extend(several.then_some(Port::Shards));
            tcp.extend([Port::Link, Port::Control]);
        }
        if passes_on || node.is(NodeRole::Edge) || (several && node.keeps_log()) {
            udp.push(Port::Claims);
        }
        for of in file.all_shards() {
            let is_proxy = of.has(node, NodeRole::Proxy) || of.has(node, NodeRole::Standby);
            overlay.extend(is_proxy.then(|| of.bound(node, Port::Proxy)));
            let is_edge = node.is(NodeRole::Edge);
            overlay.extend(is_edge.then(|| of.bound(node, Port::Edge)));
        }
        if node.is(NodeRole::Edge) {
            udp.push(Port::Release);
            tcp.extend([Port::Ouch, Port::Fix, Port::Subscriptions]);
            tcp.extend(node.web.is_some().then_some(Port::Web));
        }
        if node.is(NodeRole::Snapshot) {
            udp.push(Port::SnapshotFeed);
            tcp.push(Port::Snapshot);
        }
        let (mut free, before) = (0, self.findings.len());
        let mut judge = |kind: &str, at: SocketAddr, bound: std::io::Result<()>| match bound {
            Ok(()) => free += 1,
            Err(error) => self.say("ports", Verdict::Bad, format!("{kind} {at}: {error}")),
        };
        for at in udp.into_iter().map(|port| file.bound(node, port)).chain(overlay) {
            judge("UDP", at, sockets::udp(at).map(drop));
        }
        for port in tcp {
            let at = file.bound(node, port);
            judge("TCP", at, sockets::listener(at).map(drop));
        }
        if self.findings.len() == before {
            self.say("ports", Verdict::Good, format!("{free} can be bound"));
        }
    }

    /// Whether the strategies of the machine's edge would start: one that does not stops the whole edge.
    fn strategies(&mut self, file: &ClusterFile, (number, config): (u16, &Config)) {
        // As the edge counts them at its start.
        let Some(own) = file.of(NodeRole::Edge).position(|(edge, _)| edge == number) else {
            return;
        };
        if config.strategies.0.is_empty() {
            return;
        }
        // Also an edge without any reads whose attestations are believed.
        let around = Around::new(config, net::Clock::start(0));
        let around = around.inspect_err(|failure| {
            self.say("enclaves", Verdict::Bad, failure.to_string());
        });
        let Ok(around) = around else { return };
        let here = config.strategies.0.iter().filter(|entry| entry.edge as usize == own + 1);
        for entry in here {
            let instruments = config.instruments();
            let started = strategies::code(entry)
                .and_then(|code| strategies::start(&code, entry, (&instruments, &around)));
            let started = started.map_err(|failure| {
                let (account, module) = (&entry.account, &entry.module);
                Failure::Usage(format!(
                    "{failure}: the edge does not start with it; sign {module} again for {account} \
                     (`fairbell strategy sign`), or take its [[strategy]] out of {}",
                    file.venue_path().display()
                ))
            });
            let (name, account) = (entry.name(), &entry.account);
            self.judge("strategy", started, |started| {
                format!("{name} of {account} starts with {}", started.how)
            });
        }
    }

    /// Whether a root that comes to lead could have machines made.
    fn scale(&mut self, file: &ClusterFile, node: &NodeEntry) {
        let Some(program) = file.scale.command.first().filter(|_| file.scale.by == "command")
        else {
            return;
        };
        if !node.keeps_log() {
            return;
        }
        let found = program_at(program, std::env::var_os("PATH").as_deref());
        let found = found.map_err(|why| {
            let path = file.path.display();
            Failure::Usage(format!(
                "{path}: scale.command: {program}: {why}: edges neither come nor go while this root leads"
            ))
        });
        self.judge("scale command", found, |at| at.display().to_string());
    }

    fn clock(&mut self, settings: Option<Clocks>) {
        let hardware = clock_sources::ptp_clocks();
        let chrony = clock_sources::chrony();
        let told = match &chrony {
            Some(known) => {
                format!("chrony follows {}, within {} ns", known.reference, known.bound_ns)
            }
            None => "chrony does not answer".to_string(),
        };
        let hardware = match hardware.is_empty() {
            true => "no PTP hardware clock".to_string(),
            false => hardware.join(", "),
        };
        let source = settings.as_ref().map_or("unknown", |settings| &settings.source);
        let verdict = match source {
            "chrony" if chrony.is_none() => Verdict::Bad,
            "system" => Verdict::Poor,
            _ => Verdict::Good,
        };
        self.say("clock", verdict, format!("source {source}; {told}; {hardware}"));
        if let Some(settings) = settings.filter(|settings| settings.source == "phc") {
            let read = Device::open(&settings.phc).and_then(|mut device| device.sample());
            let read = read.map_err(|error| Failure::Run(format!("{}: {error}", settings.phc)));
            let ahead_ns = (settings.phc_ahead_s * Nanos::SECOND) as i64;
            self.judge("hardware clock", read, |read| {
                let (off_ns, bound_ns) = (read.offset_ns() + ahead_ns, read.bound_ns());
                let path = &settings.phc;
                format!(
                    "{path}: the system's clock is {off_ns} ns ahead of it, within {bound_ns} ns"
                )
            });
        }
        let kernel = std::fs::read_to_string(
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        );
        if let Ok(kernel) = kernel {
            let slow = ["acpi_pm", "hpet", "jiffies"].contains(&kernel.trim());
            let verdict = if slow { Verdict::Poor } else { Verdict::Good };
            self.say("kernel clock source", verdict, kernel.trim());
        }
    }

    fn limits(&mut self) {
        let number = |path: &str| {
            std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<u64>().ok())
        };
        if let Some(most) = number("/proc/sys/net/core/rmem_max") {
            let verdict = if most >= BUFFER { Verdict::Good } else { Verdict::Poor };
            let found = format!("net.core.rmem_max is {most}; sockets ask for {BUFFER}");
            self.say("socket buffers", verdict, found);
        }
        let files = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        let verdict = if files >= 4_096 { Verdict::Good } else { Verdict::Poor };
        self.say("open files", verdict, format!("at most {files} (LimitNOFILE); 4096 are plenty"));
        let locked = getrlimit(Resource::Memlock).maximum;
        let locked = locked.map_or_else(|| "no limit".to_string(), |most| format!("{most} bytes"));
        self.say("locked memory", Verdict::Good, format!("{locked} (LimitMEMLOCK)"));
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let isolated = std::fs::read_to_string("/sys/devices/system/cpu/isolated");
        let isolated = isolated.unwrap_or_default().trim().to_string();
        let isolated = if isolated.is_empty() { "none".to_string() } else { isolated };
        let verdict = if cores >= 2 { Verdict::Good } else { Verdict::Poor };
        self.say("cores", verdict, format!("{cores}, isolated: {isolated}"));
    }

    /// Whether the roots' doors are reached, and a whole datagram gets to the machines around.
    fn reach(&mut self, file: &ClusterFile, own: &NodeEntry) {
        let roots = file.nodes.iter().filter(|root| root.keeps_log());
        for root in roots.filter(|root| root.name != own.name) {
            let Ok(at) = file.between(own, root, Port::Control) else { continue };
            match TcpStream::connect_timeout(&at, REACH) {
                Ok(_) => self.say("ways", Verdict::Good, format!("{} answers at {at}", root.name)),
                Err(error) => {
                    let why = format!("{} at {at}: {error}: does it run?", root.name);
                    self.say("ways", Verdict::Poor, why);
                }
            }
        }
        let mut small = Vec::new();
        for other in file.nodes.iter().filter(|other| other.name != own.name) {
            let Ok(at) = file.between(own, other, Port::Clock) else { continue };
            if let Err(error) = send_whole(at) {
                small.push(format!("{} at {at}: {error}", other.name));
            }
        }
        match small.is_empty() {
            true => self.say("packet size", Verdict::Good, format!("{PACKET} bytes leave whole")),
            false => self.say("packet size", Verdict::Bad, small.join("; ")),
        }
    }

    /// The worst of what was found.
    pub fn verdict(&self) -> Verdict {
        self.findings.iter().map(|one| one.verdict).max().unwrap_or(Verdict::Good)
    }
}

/// Where a program is that is run by this name, as the system looks for it: on `paths` unless it names a folder.
fn program_at(program: &str, paths: Option<&OsStr>) -> Result<PathBuf, String> {
    let candidates: Vec<PathBuf> = match program.contains('/') {
        true => vec![PathBuf::from(program)],
        false => std::env::split_paths(paths.unwrap_or_default())
            .map(|folder| folder.join(program))
            .collect(),
    };
    let mut why = match program.contains('/') {
        true => "there is no such file".to_string(),
        false => "no folder of PATH has it".to_string(),
    };
    for at in candidates {
        let Ok(about) = std::fs::metadata(&at) else { continue };
        if about.is_file() && access(&at, Access::EXEC_OK).is_ok() {
            return Ok(at);
        }
        why = match about.is_file() {
            true => format!("{0} can't be executed by this user: `chmod +x {0}`", at.display()),
            false => format!("{} is no file", at.display()),
        };
    }
    Err(why)
}

/// Sends the longest datagram of the overlay, which must not be cut into fragments. Whoever hears it
/// drops it.
fn send_whole(at: SocketAddr) -> std::io::Result<()> {
    let socket = match at {
        SocketAddr::V4(_) => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?,
        SocketAddr::V6(_) => UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?,
    };
    match at {
        SocketAddr::V4(_) => set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::DO)?,
        SocketAddr::V6(_) => set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::DO)?,
    }
    socket.send_to(&[0; PACKET], at).map(drop)
}

/// Whole days from now to a second written as `YYYYMMDDHHMMSS`; below zero when it is over.
pub(super) fn days_left(until: u64) -> i32 {
    let part = |divisor: u64, most: u64| (until / divisor % most) as i8;
    let date = jiff::civil::Date::new(
        (until / 10_000_000_000) as i16,
        part(100_000_000, 100),
        part(1_000_000, 100),
    );
    let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
    let left = date.ok().and_then(|date| today.until(date).ok());
    left.map_or(-1, |left| left.get_days())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::StrategyEntry;
    use crate::fleet::credentials::tests::Made;

    /// What it finds of a machine's keys, without the good.
    fn complaints(of: &Made, name: &str) -> Vec<(Verdict, String)> {
        let (mut doctor, (_, node)) = (Doctor::default(), of.0.node(name).expect("there"));
        doctor.keys(&of.0, node, &of.keys(name));
        let all = doctor.findings.into_iter().filter(|one| one.verdict != Verdict::Good);
        all.map(|one| (one.verdict, one.found)).collect()
    }

    #[test]
    fn keys_that_let_nobody_in_or_are_open_to_others_are_complained_of() {
        let made = Made::new("doctor");
        assert_eq!((complaints(&made, "root-1"), complaints(&made, "edge-1")), (vec![], vec![]));
        let keys = made.keys("root-1");
        let own = keys.join("root-1.key.pem");
        for (mode, verdict) in
            [(0o640, Verdict::Poor), (0o604, Verdict::Bad), (0o660, Verdict::Bad)]
        {
            std::fs::set_permissions(&own, PermissionsExt::from_mode(mode)).expect("set");
            let found = complaints(&made, "root-1");
            assert!(found.len() == 1 && found[0].0 == verdict, "{mode:o}: {found:?}");
            assert!(found[0].1.contains("root-1.key.pem has mode"), "{found:?}");
        }
        std::fs::set_permissions(&own, PermissionsExt::from_mode(0o600)).expect("set");
        for name in ["replica-1.key.pem", "root-1.key.pem"] {
            std::fs::write(keys.join(name), "").expect("written");
            let found = complaints(&made, "root-1");
            assert!(found.len() == 1 && found[0].0 == Verdict::Bad, "{found:?}");
            assert!(found[0].1.contains(&format!("{name}: no private key")), "{found:?}");
        }
    }

    #[test]
    fn a_key_that_signs_what_nobody_takes_is_complained_of() {
        let (made, other) = (Made::new("doctor-issuer"), Made::new("doctor-issuer-other"));
        // The key alone is another root's, then the certificate, too.
        for name in ["issuer.key.pem", "issuer.pem"] {
            std::fs::copy(other.keys("root-1").join(name), made.keys("root-1").join(name))
                .expect("copied");
            let found = complaints(&made, "root-1");
            assert!(found.len() == 1 && found[0].0 == Verdict::Bad, "{found:?}");
            assert!(found[0].1.contains("issuer.key.pem: it is not the key of"), "{found:?}");
        }
    }

    #[test]
    fn a_module_that_is_not_the_one_that_was_signed_is_complained_of_at_its_edge() {
        let made = Made::new("doctor-strategy");
        let guests = concat!(env!("CARGO_MANIFEST_DIR"), "/../strategy/tests/guests");
        let bytes = |name: &str| std::fs::read(format!("{guests}/{name}.wasm")).expect("a guest");
        let module = made.0.path.with_file_name("maker.wasm");
        let (private, key) = strategy::signature::new_key().expect("a key");
        let signed = strategy::signature::sign(&private, "MAKER", &bytes("maker")).expect("signed");
        std::fs::write(&module, bytes("maker")).expect("written");
        std::fs::write(module.with_extension("wasm.sig"), signed).expect("written");
        let entry = StrategyEntry {
            account: "MAKER".to_string(),
            module: module.display().to_string(),
            key,
            ..StrategyEntry::default()
        };
        let mut config = Config::default();
        config.strategies.0.push(entry);
        let found = |config: &Config, name: &str| -> Vec<(Verdict, String)> {
            let (mut doctor, (number, _)) = (Doctor::default(), made.0.node(name).expect("there"));
            doctor.strategies(&made.0, (number, config));
            doctor.findings.into_iter().map(|one| (one.verdict, one.found)).collect()
        };
        let good = found(&config, "edge-1");
        assert!(good.len() == 1 && good[0].0 == Verdict::Good, "{good:?}");
        assert!(good[0].1.contains("maker of MAKER starts with"), "{good:?}");
        // As when another module is copied over it.
        std::fs::write(&module, bytes("taker")).expect("written");
        let bad = found(&config, "edge-1");
        assert!(bad.len() == 1 && bad[0].0 == Verdict::Bad, "{bad:?}");
        assert!(
            bad[0].1.contains("maker.wasm.sig") && bad[0].1.contains("strategy sign"),
            "{bad:?}"
        );
        // It is nobody else's.
        assert_eq!(found(&config, "root-1"), []);
        config.strategies.0[0].edge = 2;
        assert_eq!(found(&config, "edge-1"), []);
    }

    #[test]
    fn a_program_that_makes_machines_has_to_be_there_and_executable_at_a_root() {
        let mut made = Made::new("doctor-scale");
        let program = made.0.path.with_file_name("machine");
        made.0.scale.by = "command".to_string();
        made.0.scale.command = vec![program.display().to_string()];
        let found = |made: &Made, name: &str| -> Vec<(Verdict, String)> {
            let (mut doctor, (_, node)) = (Doctor::default(), made.0.node(name).expect("there"));
            doctor.scale(&made.0, node);
            doctor.findings.into_iter().map(|one| (one.verdict, one.found)).collect()
        };
        let bad = |said: &str| {
            let found = found(&made, "root-1");
            assert!(found.len() == 1 && found[0].0 == Verdict::Bad, "{found:?}");
            assert!(found[0].1.contains("scale.command") && found[0].1.contains(said), "{found:?}");
        };
        bad("no such file");
        std::fs::create_dir(&program).expect("a folder");
        bad("is no file");
        std::fs::remove_dir(&program).expect("removed");
        std::fs::write(&program, "#!/bin/sh\n").expect("written");
        bad("can't be executed");
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o700)).expect("set");
        assert_eq!(found(&made, "root-1"), [(Verdict::Good, program.display().to_string())]);
        assert_eq!(found(&made, "edge-1"), []);
        made.0.scale.by = String::new();
        assert_eq!(found(&made, "root-1"), []);
        // Without a folder it is looked for as the system does.
        let folder = program.parent().expect("a folder").as_os_str();
        assert_eq!(program_at("machine", Some(folder)), Ok(program.clone()));
        let why = program_at("no-such-machine", Some(folder)).expect_err("none");
        assert!(why.contains("PATH"), "{why}");
    }

    #[test]
    fn days_are_counted_to_the_end() {
        let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
        for days in [-3, 0, 40, 825] {
            let end = today.checked_add(jiff::Span::new().days(days)).expect("a day");
            let written = format!("{:04}{:02}{:02}120000", end.year(), end.month(), end.day());
            assert_eq!(i64::from(days_left(written.parse().expect("digits"))), days);
        }
        assert_eq!(days_left(0), -1);
    }
}
