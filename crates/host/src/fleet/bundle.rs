//! What engineers on call need from a machine of a venue, in one file: a tar archive, compressed (gzip).
//!
//! No key and no password is in it: the venue's settings are written without them, private keys are not
//! read into it, and at the end each part is looked through for what the folder of keys holds; one that
//! has any of it is left out. What could not be had is said with the reason, and nothing is waited for longer
//! than it takes to say so.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::client::Identity;
use super::credentials::{Credentials, KEYS, OPERATOR};
use super::doctor::Doctor;
use super::file::ClusterFile;
use super::messages::Operation;
use super::node::journal_dir;
use crate::failure::{Failure, on};
use crate::files;
use crate::journal::read::{look, verified};

/// Bytes of a log's end.
const LOG_MAX: u64 = 1 << 20;
/// Logs of a machine's folder at most.
const LOGS_MAX: usize = 16;
/// Files that a folder's listing names at most.
const LISTED_MAX: usize = 2_000;
/// Bytes of a file of secrets that is looked at.
const SECRET_FILE_MAX: usize = 64 << 10;
/// Shortest line of a key or password that parts are looked through for.
const SECRET_MIN: usize = 6;
/// Longest name in the archive, bytes (ustar).
const NAME_MAX: usize = 100;
/// Name of the first file of the archive: what is inside.
const LIST: &str = "contents.json";
/// Unit of the archive, bytes.
const BLOCK: usize = 512;
/// What stands for a password.
const LEFT_OUT: &str = "(left out)";

/// One file of a bundle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// Its name in the archive.
    pub name: String,
    /// What it is, for people.
    pub about: &'static str,
    bytes: Vec<u8>,
}

/// What could not be had.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing {
    /// What it would have been.
    pub name: String,
    /// One line.
    pub why: String,
}

/// Where to look.
pub struct Sources<'a> {
    /// Who is where.
    pub file: &'a ClusterFile,
    /// This machine's name in it, and its folder, if it is one of them.
    pub machine: Option<(&'a str, &'a Path)>,
    /// Folder of its keys, if it isn't the usual one.
    pub keys: Option<&'a Path>,
    /// Logs besides those in its folder.
    pub logs: &'a [PathBuf],
    /// Version of the program.
    pub version: &'a str,
    /// How long the roots may take to say how everybody is.
    pub patience: Duration,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Bundle {
    /// In the order of the archive.
    pub parts: Vec<Part>,
    /// What is not there.
    pub missing: Vec<Missing>,
}

impl Bundle {
    /// Collects what can be had; nothing that it reads is changed.
    pub fn collect(from: &Sources<'_>) -> Bundle {
        let mut bundle = Bundle::default();
        bundle.add("about.json", "versions, machine, time", about(from));
        let path = &from.file.path;
        let text = std::fs::read(path).map_err(|error| on(path, error));
        bundle.add("cluster.toml", "who is where", text);
        bundle.add("venue.toml", "settings, without passwords", settings(from.file));
        bundle.status(from);
        bundle.add("certificates.json", "names and ends of certificates", certificates(from));
        bundle.add("kernel.txt", "limits and state of the kernel", kernel());
        match from.machine {
            Some((name, dir)) => bundle.machine(from, name, dir),
            None => {
                let why = "--name and --dir say which machine this is and where its folder is";
                for name in ["doctor.json", "journal.json", "folder.txt"] {
                    bundle.lack(name, why);
                }
            }
        }
        for log in from.logs {
            bundle.log(log);
        }
        bundle.leave_out_secrets(&secrets(from));
        bundle
    }

    fn lack(&mut self, name: &str, why: impl Into<String>) {
        self.missing.push(Missing { name: name.to_string(), why: why.into() });
    }

    fn add(&mut self, name: &str, about: &'static str, of: Result<Vec<u8>, Failure>) {
        match of {
            Ok(bytes) => {
                let name: String = name.chars().take(NAME_MAX).collect();
                self.parts.push(Part { name, about, bytes });
            }
            Err(why) => self.lack(name, why.to_string()),
        }
    }

    /// How all nodes are, their alarms among it, as the roots say.
    fn status(&mut self, from: &Sources<'_>) {
        let ask = |of: &ClusterFile| {
            let own = Credentials::folder(from.file, OPERATOR);
            if !own.is_dir() {
                return Err(on(&own, "is not on this machine: ask where the operator's keys are"));
            }
            let own = Credentials::read(from.file, &own, OPERATOR)?;
            let identity = Identity::new(of, &of.venue()?, own, (OPERATOR, 0))?;
            identity.operate(&Operation::Status, from.patience)
        };
        // Of each shard where there are several.
        for of in from.file.all_shards() {
            let name = match of.shard_count() {
                1 => "status".to_string(),
                _ => format!("status-{}", of.shard_name()),
            };
            match ask(&of) {
                Ok((text, data)) => {
                    let text = Ok((text + "\n").into_bytes());
                    self.add(&format!("{name}.txt"), "how all nodes are, alarms", text);
                    self.add(&format!("{name}.json"), "the same for machines", pretty(&data));
                }
                Err(why) => self.lack(&format!("{name}.json"), why.to_string()),
            }
        }
    }

    fn machine(&mut self, from: &Sources<'_>, name: &str, dir: &Path) {
        let keys = keys_of(from, name);
        let mut doctor = Doctor::default();
        let looked = doctor.look(from.file, name, &keys);
        let found = looked.and_then(|()| pretty(&json!(doctor.findings)));
        self.add("doctor.json", "what `fairbell cluster doctor` finds here", found);
        let is_root = from.file.node(name).is_ok_and(|(_, node)| node.keeps_log());
        if is_root {
            self.add("journal.json", "every byte of the log examined", journal(&journal_dir(dir)));
        } else {
            self.lack("journal.json", format!("{name} is no root and has no log"));
        }
        self.add("folder.txt", "files of the machine's folder, sizes and times", listing(dir));
        for log in logs_in(dir) {
            self.log(&log);
        }
    }

    /// The end of a log.
    fn log(&mut self, path: &Path) {
        let file = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
        let mut name = format!("logs/{file}");
        let taken = self.parts.iter().filter(|part| part.name.starts_with(&name)).count();
        if taken > 0 {
            name = format!("logs/{taken}-{file}");
        }
        self.add(&name, "the end of a log", end_of(path));
    }

    /// Leaves out what has a key or a password in it, however it came there.
    fn leave_out_secrets(&mut self, secrets: &[Vec<u8>]) {
        let parts = std::mem::take(&mut self.parts);
        for part in parts {
            match secrets.iter().any(|secret| has(&part.bytes, secret)) {
                true => {
                    self.lack(&part.name, "a key or password of this folder is in it: left out");
                }
                false => self.parts.push(part),
            }
        }
    }

    /// Writes the archive.
    ///
    /// # Errors
    /// The system's; nothing is left of it then.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        let bytes = self.archive(now_s()).map_err(|error| on(path, error))?;
        files::replace(path, &bytes).map_err(|error| on(path, error))
    }

    /// Whether a bundle may be written there: nothing is there, or another bundle that it takes the place of.
    ///
    /// # Errors
    /// Something else is there.
    pub fn may_replace(path: &Path) -> Result<(), Failure> {
        let mut head = Vec::new();
        match std::fs::File::open(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(on(path, error)),
            Ok(file) if file.metadata().is_ok_and(|of| of.is_file() && of.len() == 0) => {
                return Ok(());
            }
            // What can't be read so is no bundle either.
            Ok(file) => drop(GzDecoder::new(file).take(BLOCK as u64).read_to_end(&mut head)),
        }
        if head.strip_prefix(LIST.as_bytes()).is_some_and(|rest| rest.starts_with(&[0])) {
            return Ok(());
        }
        let why = "is there and is no bundle: name another file with --out";
        Err(Failure::Usage(format!("{}: {why}", path.display())))
    }

    /// The archive, made at a time: seconds since 1970.
    fn archive(&self, at_s: u64) -> std::io::Result<Vec<u8>> {
        let mut out = GzEncoder::new(Vec::new(), Compression::default());
        let list = self.told().to_string() + "\n";
        let list = Part { name: LIST.to_string(), about: "this list", bytes: list.into_bytes() };
        for part in std::iter::once(&list).chain(&self.parts) {
            out.write_all(&header(&part.name, part.bytes.len() as u64, at_s))?;
            out.write_all(&part.bytes)?;
            let rest = part.bytes.len().next_multiple_of(BLOCK) - part.bytes.len();
            out.write_all(&vec![0; rest])?;
        }
        // The end of an archive is two empty blocks.
        out.write_all(&[0; 2 * BLOCK])?;
        out.finish()
    }

    /// What is inside and what is missing, for machines.
    pub fn told(&self) -> Value {
        let inside = self.parts.iter().map(
            |part| json!({ "name": part.name, "bytes": part.bytes.len(), "about": part.about }),
        );
        let missing = self.missing.iter().map(|one| json!({ "name": one.name, "why": one.why }));
        json!({
            "inside": inside.collect::<Vec<_>>(), "missing": missing.collect::<Vec<_>>(),
        })
    }

    /// The same for people, a line each.
    pub fn lines(&self) -> Vec<String> {
        let inside = self
            .parts
            .iter()
            .map(|part| format!("{:<24} {:>9} bytes  {}", part.name, part.bytes.len(), part.about));
        let missing =
            self.missing.iter().map(|one| format!("{:<24}   missing        {}", one.name, one.why));
        inside.chain(missing).collect()
    }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// A file's header in a tar archive (POSIX.1-1988, ustar).
fn header(name: &str, len: u64, at_s: u64) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| {
        block.iter_mut().skip(at).zip(bytes).for_each(|(to, byte)| *to = *byte);
    };
    put(0, name.as_bytes().get(..NAME_MAX).unwrap_or(name.as_bytes()));
    put(100, b"0000600\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{len:011o}\0").as_bytes());
    put(136, format!("{at_s:011o}\0").as_bytes());
    // The sum counts its own place as spaces.
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    let text = format!("{sum:06o}\0 ");
    block.iter_mut().skip(148).zip(text.as_bytes()).for_each(|(to, byte)| *to = *byte);
    block
}

fn pretty(of: &Value) -> Result<Vec<u8>, Failure> {
    Ok(format!("{of:#}\n").into_bytes())
}

fn about(from: &Sources<'_>) -> Result<Vec<u8>, Failure> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_string();
    pretty(&json!({
        "fairbell": from.version,
        "control_messages": super::messages::VERSION,
        "engine_rules": engine::RULES_VERSION,
        "cluster": from.file.name,
        "cluster_id": format!("{:016x}", from.file.id),
        "machine": from.machine.map(|(name, _)| name),
        "host": read("/proc/sys/kernel/hostname"),
        "kernel": read("/proc/version"),
        "at_s": now_s(),
    }))
}

/// The venue's settings without what is secret in them.
fn settings(file: &ClusterFile) -> Result<Vec<u8>, Failure> {
    let path = file.venue_path();
    let text = std::fs::read_to_string(&path).map_err(|error| on(&path, error))?;
    let mut table: toml::Table = text.parse().map_err(|_| on(&path, "is no TOML: left out"))?;
    table.iter_mut().for_each(|(key, value)| blank(key, value));
    let text = toml::to_string(&table).map_err(|error| on(&path, error))?;
    Ok(text.into_bytes())
}

/// Whether what a key of the settings says is nobody's business: passwords, their hashes, and addresses of
/// databases, which may have one in them.
fn is_secret(key: &str) -> bool {
    ["password", "secret", "token", "url"].iter().any(|word| key.contains(word))
}

fn blank(key: &str, value: &mut toml::Value) {
    match value {
        toml::Value::Table(table) => table.iter_mut().for_each(|(key, value)| blank(key, value)),
        toml::Value::Array(all) => all.iter_mut().for_each(|value| blank(key, value)),
        value if is_secret(key) => *value = toml::Value::String(LEFT_OUT.to_string()),
        _ => {}
    }
}

/// What [`blank`] takes out.
fn blanked(key: &str, value: &toml::Value, out: &mut Vec<Vec<u8>>) {
    match value {
        toml::Value::Table(of) => of.iter().for_each(|(key, value)| blanked(key, value, out)),
        toml::Value::Array(all) => all.iter().for_each(|value| blanked(key, value, out)),
        toml::Value::String(text) if is_secret(key) => out.push(text.clone().into_bytes()),
        _ => {}
    }
}

/// Folders of keys on this machine.
fn key_folders(from: &Sources<'_>) -> Vec<PathBuf> {
    let keys = from.file.path.with_file_name(KEYS);
    let inner = std::fs::read_dir(&keys).into_iter().flatten().flatten().map(|one| one.path());
    let mut all: Vec<PathBuf> = inner.filter(|path| path.is_dir()).collect();
    all.sort();
    all.insert(0, keys);
    all.extend(from.keys.map(Path::to_path_buf));
    all
}

fn keys_of(from: &Sources<'_>, name: &str) -> PathBuf {
    from.keys.map_or_else(|| Credentials::folder(from.file, name), Path::to_path_buf)
}

fn files_in(dir: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|one| one.path());
    let mut files: Vec<PathBuf> = files.filter(|path| path.is_file()).collect();
    files.sort();
    files
}

/// Lines of all private keys, secrets and passwords that this machine has.
fn secrets(from: &Sources<'_>) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for path in key_folders(from).iter().flat_map(|folder| files_in(folder)) {
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
        if !(name.contains("key") || name.contains("secret")) {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap_or_default();
        let kept = bytes.get(..SECRET_FILE_MAX).unwrap_or(&bytes);
        let lines = kept.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        all.extend(lines.filter(|line| !line.starts_with(b"-----")).map(<[u8]>::to_vec));
    }
    let text = std::fs::read_to_string(from.file.venue_path()).unwrap_or_default();
    if let Ok(table) = text.parse::<toml::Table>() {
        table.iter().for_each(|(key, value)| blanked(key, value, &mut all));
    }
    all.retain(|line| line.len() >= SECRET_MIN);
    all.sort();
    all.dedup();
    all
}

fn has(bytes: &[u8], secret: &[u8]) -> bool {
    !secret.is_empty() && bytes.windows(secret.len()).any(|window| window == secret)
}

fn certificates(from: &Sources<'_>) -> Result<Vec<u8>, Failure> {
    let own = key_folders(from).iter().flat_map(|folder| files_in(folder)).collect::<Vec<_>>();
    let all = std::iter::once(from.file.authority_path()).chain(own);
    let public = all.filter(|path| {
        let name = path.to_string_lossy();
        name.ends_with(".pem") && !name.ends_with(".key.pem")
    });
    let told = public.map(|path| {
        let facts = std::fs::read(&path)
            .map_err(|error| error.to_string())
            .and_then(|pem| net::CertificateFacts::of(&pem).map_err(|error| error.to_string()));
        match facts {
            Ok(facts) => json!({
                "file": path, "name": facts.name, "holds_until": facts.holds_until,
            }),
            Err(why) => json!({ "file": path, "why_not": why }),
        }
    });
    pretty(&Value::from(told.collect::<Vec<_>>()))
}

fn kernel() -> Result<Vec<u8>, Failure> {
    let mut text = String::new();
    for path in [
        "/proc/self/limits",
        "/proc/loadavg",
        "/proc/meminfo",
        "/proc/net/snmp",
        "/proc/net/softnet_stat",
        "/proc/sys/net/core/rmem_max",
        "/proc/sys/net/core/wmem_max",
        "/proc/sys/net/core/somaxconn",
        "/proc/sys/net/ipv4/ip_local_port_range",
        "/proc/sys/fs/file-nr",
        "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        "/sys/devices/system/cpu/online",
        "/sys/devices/system/cpu/isolated",
    ] {
        let read = std::fs::read_to_string(path);
        let read = read.unwrap_or_else(|error| format!("can't be read: {error}\n"));
        text += &format!("== {path}\n{}\n", read.trim_end());
    }
    Ok(text.into_bytes())
}

/// What [`crate::journal`] says of a log's folder, whether it is whole or not.
fn journal(dir: &Path) -> Result<Vec<u8>, Failure> {
    let mut folder = look(dir).map_err(|error| on(dir, error))?;
    let promises = journal::promises(&mut folder).map_err(|error| error.to_string());
    let promises = match promises {
        Ok(found) => json!({
            "term": found.term, "doubt": found.doubt, "sponsor": found.sponsor,
            "older_copy": found.set_back, "held": found.held,
        }),
        Err(why) => json!({ "why_not": why }),
    };
    pretty(&match verified(dir) {
        Ok(found) => json!({
            "whole": true, "first": found.first, "last": found.last,
            "committed": found.committed, "last_term": found.last_term,
            "records": found.records, "segments": found.segments.len(),
            "snapshots": found.snapshots.len(), "damaged_snapshots": found.damaged_snapshots,
            "damaged_copies": found.damaged_copies, "promises": promises,
        }),
        Err(error) => json!({
            "whole": false, "why": error.to_string(), "promises": promises,
        }),
    })
}

fn listing(dir: &Path) -> Result<Vec<u8>, Failure> {
    if !dir.is_dir() {
        return Err(on(dir, "no such folder"));
    }
    let (mut text, mut folders, mut count) = (String::new(), vec![dir.to_path_buf()], 0);
    while let Some(folder) = folders.pop() {
        let inside = std::fs::read_dir(&folder).map_err(|error| on(&folder, error))?;
        let mut paths: Vec<PathBuf> = inside.flatten().map(|one| one.path()).collect();
        paths.sort();
        for path in paths {
            count += 1;
            if count > LISTED_MAX {
                text += "... and more\n";
                return Ok(text.into_bytes());
            }
            let Ok(of) = std::fs::symlink_metadata(&path) else { continue };
            let at = of.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
            let at_s = at.unwrap_or_default().as_secs();
            text += &format!("{:>12} {at_s:>12} {}\n", of.len(), path.display());
            if of.is_dir() {
                folders.push(path);
            }
        }
    }
    Ok(text.into_bytes())
}

/// Logs in a machine's folder, by their names.
fn logs_in(dir: &Path) -> Vec<PathBuf> {
    let is_log = |path: &PathBuf| {
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
        name.ends_with(".log") || name.contains("audit") || name.ends_with(".err")
    };
    files_in(dir).into_iter().filter(is_log).take(LOGS_MAX).collect()
}

fn end_of(path: &Path) -> Result<Vec<u8>, Failure> {
    use std::io::{Read, Seek, SeekFrom};
    let failed = |error: std::io::Error| on(path, error);
    let mut file = std::fs::File::open(path).map_err(failed)?;
    let len = file.metadata().map_err(failed)?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(LOG_MAX))).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(LOG_MAX).read_to_end(&mut bytes).map_err(failed)?;
    if len > LOG_MAX
        && let Some(at) = bytes.iter().position(|byte| *byte == b'\n')
    {
        // The first line is cut.
        bytes.drain(..=at);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::credentials;
    use crate::fleet::file::{NodeEntry, NodeRole};
    use types::Nanos;

    /// Files of an archive.
    fn unpack(archive: &[u8]) -> Vec<(String, Vec<u8>)> {
        let mut bytes = Vec::new();
        GzDecoder::new(archive).read_to_end(&mut bytes).expect("gzip");
        let (mut files, mut rest) = (Vec::new(), &bytes[..]);
        while rest[0] != 0 {
            let (head, more) = rest.split_at(BLOCK);
            let text = |from: usize, len: usize| {
                let field = head[from..from + len].split(|byte| *byte == 0).next().expect("one");
                String::from_utf8(field.to_vec()).expect("ASCII")
            };
            let own = u32::from_str_radix(text(148, 6).trim(), 8).expect("a sum");
            let spaces = (0..8).map(|_| u32::from(b' ')).sum::<u32>();
            let others = head[..148].iter().chain(&head[156..]).map(|byte| u32::from(*byte));
            assert_eq!(own, spaces + others.sum::<u32>());
            let len = usize::from_str_radix(&text(124, 11), 8).expect("a length");
            files.push((text(0, NAME_MAX), more[..len].to_vec()));
            rest = &more[len.next_multiple_of(BLOCK)..];
        }
        assert_eq!(rest, [0; 2 * BLOCK]);
        files
    }

    struct Folder(PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn cluster(name: &str) -> (Folder, ClusterFile) {
        let dir = std::env::temp_dir().join(format!("fairbell-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        files::folder(&dir).expect("a folder");
        let head = "[overlay]\ndepth = 1\nfanout = 1\nreceivers = 1\nhedge = 0\n\n[store]\nurl = \
                    \"postgres://u:hush-hush@db/x\"\n[telemetry]\nredis_url = \"redis://:hush-hush@r/0\"\n";
        let account = |number: u8| {
            format!(
                "\n[[account]]\nname = \"n{number}\"\nusername = \"TEST0{number}\"\npassword = \
                 \"sesame-9\"\n"
            )
        };
        let text = head.to_string() + &(1..=8).map(account).collect::<String>();
        std::fs::write(dir.join("venue.toml"), text).expect("written");
        let entry = |name: &str, role, port| NodeEntry {
            port: Some(port),
            ..NodeEntry::new(name, "127.0.0.1", vec![role])
        };
        let nodes = vec![entry("root-1", NodeRole::Root, 1), entry("edge-1", NodeRole::Edge, 17)];
        let path = dir.join("cluster.toml");
        let file = ClusterFile::new(&path, "lab", Nanos(1), nodes).expect("a cluster");
        std::fs::write(&path, file.text().expect("text")).expect("written");
        credentials::found(&file).expect("an authority");
        for name in ["root-1", "edge-1", OPERATOR] {
            credentials::issue(&file, name, 30).expect("keys");
        }
        (Folder(dir), file)
    }

    fn sources<'a>(file: &'a ClusterFile, dir: &'a Path, logs: &'a [PathBuf]) -> Sources<'a> {
        Sources {
            file,
            machine: Some(("root-1", dir)),
            keys: None,
            logs,
            version: "0.1.0",
            patience: Duration::from_millis(100),
        }
    }

    #[test]
    fn it_has_what_can_be_had_while_the_group_is_away_and_says_what_is_missing() {
        let (folder, file) = cluster("bundle");
        let dir = folder.0.join("data");
        files::folder(&dir).expect("a folder");
        std::fs::write(dir.join("root-1.log"), "one line\n").expect("written");
        let bundle = Bundle::collect(&sources(&file, &dir, &[]));
        let out = folder.0.join("bundle.tar.gz");
        for _ in 0..2 {
            Bundle::may_replace(&out).expect("nothing there, or another bundle");
            bundle.write(&out).expect("written");
        }
        let said = Bundle::may_replace(&dir.join("root-1.log")).map_err(|why| why.to_string());
        assert!(said.is_err_and(|why| why.ends_with("name another file with --out")));
        assert!(Bundle::may_replace(&dir).is_err());
        let names: Vec<&str> = bundle.parts.iter().map(|part| &part.name[..]).collect();
        for name in ["about.json", "cluster.toml", "venue.toml", "kernel.txt", "doctor.json"] {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
        assert!(names.contains(&"logs/root-1.log") && names.contains(&"certificates.json"));
        let why = |name: &str| {
            let one = bundle.missing.iter().find(|one| one.name == name).expect(name);
            one.why.clone()
        };
        assert!(why("status.json").contains("no root did it"), "{}", why("status.json"));
        assert!(why("journal.json").contains("data/journal"), "{}", why("journal.json"));
        let files = unpack(&bundle.archive(1_700_000_000).expect("an archive"));
        assert_eq!(files.len(), bundle.parts.len() + 1);
        let list: Value = serde_json::from_slice(&files[0].1).expect("JSON");
        assert_eq!(list, bundle.told());
        assert_eq!(list["inside"].as_array().map(Vec::len), Some(bundle.parts.len()));
        for (part, (name, bytes)) in bundle.parts.iter().zip(&files[1..]) {
            assert_eq!((&part.name, &part.bytes), (name, bytes));
        }
    }

    #[test]
    fn no_key_and_no_password_is_in_it_even_where_a_log_has_one() {
        let (folder, file) = cluster("secret");
        let dir = folder.0.join("data");
        files::folder(&dir).expect("a folder");
        let secret = folder.0.join("keys/root-1/roots.secret");
        let hex = std::fs::read_to_string(&secret).expect("read");
        std::fs::write(dir.join("talks.log"), format!("a line\nit is {hex}\n")).expect("written");
        std::fs::write(dir.join("quiet.log"), "all is well\n").expect("written");
        let other = folder.0.join("elsewhere.txt");
        std::fs::write(&other, "login TEST01 sesame-9\n").expect("written");
        let bundle = Bundle::collect(&sources(&file, &dir, std::slice::from_ref(&other)));
        let left_out = |name: &str| {
            let one = bundle.missing.iter().find(|one| one.name == name);
            one.is_some_and(|one| one.why.contains("left out"))
        };
        assert!(left_out("logs/talks.log") && left_out("logs/elsewhere.txt"));
        assert!(bundle.parts.iter().any(|part| part.name == "logs/quiet.log"));
        // All private files of all folders, and the passwords: their bytes are nowhere.
        let mut bytes = Vec::new();
        GzDecoder::new(&bundle.archive(0).expect("an archive")[..])
            .read_to_end(&mut bytes)
            .expect("gzip");
        let mut looked = 0;
        let key_folders = key_folders(&sources(&file, &dir, &[]));
        for path in key_folders.iter().flat_map(|folder| files_in(folder)) {
            let text = std::fs::read_to_string(&path).expect("text");
            if path.to_string_lossy().ends_with(".pem") && !text.contains("PRIVATE KEY") {
                continue;
            }
            let lines = text.lines().map(str::trim);
            for line in lines.filter(|line| line.len() > 8 && !line.starts_with("-----")) {
                looked += 1;
                assert!(!has(&bytes, line.as_bytes()), "{}", path.display());
            }
        }
        assert!(looked > 15, "{looked} lines of keys");
        for password in ["sesame-9", "hush-hush"] {
            assert!(!has(&bytes, password.as_bytes()), "{password}");
        }
        assert!(has(&bytes, LEFT_OUT.as_bytes()) && has(&bytes, b"all is well"));
    }

    #[test]
    fn a_long_log_gives_its_last_lines_whole() {
        let path = std::env::temp_dir().join(format!("fairbell-long-{}.log", std::process::id()));
        let line = |number: u64| format!("line {number:>10}\n");
        let text: String = (0..100_000).map(line).collect();
        std::fs::write(&path, &text).expect("written");
        let end = String::from_utf8(end_of(&path).expect("read")).expect("text");
        assert!(end.len() as u64 <= LOG_MAX && end.len() as u64 > LOG_MAX - 100);
        assert!(text.ends_with(&end) && end.starts_with("line "));
        std::fs::remove_file(&path).expect("removed");
        assert!(end_of(&path).is_err());
    }
}
