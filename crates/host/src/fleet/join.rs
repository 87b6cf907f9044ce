//! A machine gets its certificate with a one-time token: its end, and what is said.
//!
//! The key pair is made here, and the private key stays here. The machine passes a root's gate by the
//! token's key, is told the authority's certificate in clear, goes on only if its fingerprint is the
//! token's, and asks inside TLS with it. Whoever does not lead says who does. The roots' log knows which
//! public key the token was used for: after any failure the same machine asks again with the same key, and
//! is answered; nobody else is.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use net::ClientTls;
use serde::{Deserialize, Serialize};

use super::credentials::{GATE, bytes_of, keep_generation};
use super::file::{ClusterFile, NodeEntry, Port, venue_digest};
use super::messages::{Reader, write};
use super::token::{JOINING, Token};
use crate::authority::{fresh_key, request};
use crate::failure::{Failure, on};
use crate::files;
use crate::replica::{certificates, gate};
use crate::sockets::connect_any;

/// Version of what is said here.
pub const VERSION: u16 = 1;
/// Longest certificate of an authority, bytes of PEM.
pub const AUTHORITY_MAX: usize = 16 << 10;
/// Longest certificate request, bytes of PEM.
pub const REQUEST_MAX: usize = 8 << 10;
/// Longest file of settings that is handed on, bytes.
const SETTINGS_MAX: usize = 512 << 10;

/// How long an address may not answer, and the whole answer may take.
const CONNECT: Duration = Duration::from_millis(500);
/// See `CONNECT`.
const ANSWER: Duration = Duration::from_secs(6);
/// Between two looks for more of an answer.
const TURN: Duration = Duration::from_millis(50);
/// Between two attempts.
const RETRY: Duration = Duration::from_millis(100);
/// The private key of a request that was not answered yet.
const UNANSWERED: &str = "joining.key.pem";

/// From a machine that wants its certificate.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Ask {
    /// [`VERSION`].
    pub version: u16,
    /// The cluster's id.
    pub cluster: u64,
    /// Its name in the cluster file.
    pub name: String,
    /// The token's secret, 32 hexadecimal digits.
    pub secret: String,
    /// The request for a certificate (PKCS #10, PEM).
    pub request: String,
    /// [`venue_digest`] of its settings; none: it has no file of settings yet.
    pub venue: Option<u64>,
}

/// From a root.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Told {
    /// It has its certificate.
    Joined(Joined),
    /// It has not, for this reason.
    Refused {
        /// One line.
        why: String,
        /// It may be otherwise in a moment.
        again: bool,
    },
    /// Another replica leads, from 1; 0: nobody at present.
    Elsewhere {
        /// Its number.
        leader: u8,
    },
}

/// What a machine is given.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Joined {
    /// Its certificate and the issuer's, PEM.
    pub chain: String,
    /// Generation of its certificate.
    pub generation: u32,
    /// What it proves its number with at the roots' doors, 64 hexadecimal digits.
    pub gate: String,
    /// The file of the venue's settings, for who has none.
    pub venue: Option<String>,
    /// [`venue_digest`] of the roots' settings.
    pub digest: u64,
}

/// Writes the authority's certificate in clear, behind its length (2 bytes, big-endian); 0 for none: too
/// many others are joining.
///
/// # Errors
/// The stream's.
pub fn say_authority(mut stream: &TcpStream, pem: &str) -> std::io::Result<()> {
    let len = u16::try_from(pem.len()).map_err(|_| ErrorKind::InvalidInput)?;
    let mut bytes = len.to_be_bytes().to_vec();
    bytes.extend_from_slice(pem.as_bytes());
    stream.write_all(&bytes)
}

/// Reads what [`say_authority`] writes, before `until`.
///
/// # Errors
/// The stream's; a length that can't be.
pub fn hear_authority(stream: &TcpStream, until: Instant) -> std::io::Result<Option<String>> {
    let mut len = [0; 2];
    net::read_until(stream, &mut len, until)?;
    let len = usize::from(u16::from_be_bytes(len));
    if len > AUTHORITY_MAX {
        return Err(std::io::Error::other(format!("a certificate of {len} bytes")));
    }
    let mut pem = vec![0; len];
    net::read_until(stream, &mut pem, until)?;
    let pem = String::from_utf8(pem).map_err(std::io::Error::other)?;
    Ok(Some(pem).filter(|pem| !pem.is_empty()))
}

/// A machine that joins.
pub struct Joining<'a> {
    /// Who is where.
    pub file: &'a ClusterFile,
    /// Its name there.
    pub name: &'a str,
    /// What it was given by the operator.
    pub token: &'a Token,
    /// Where its keys are to be.
    pub keys: &'a Path,
    /// Whether other keys there may be replaced.
    pub replace: bool,
}

/// What came of it.
pub struct Outcome {
    /// Generation of the certificate.
    pub generation: u32,
    /// Files that were written.
    pub written: Vec<PathBuf>,
    /// What still has to be done, a line each.
    pub notes: Vec<String>,
}

impl Joining<'_> {
    /// Gets the certificate from whichever root leads within `patience`, and writes the files.
    ///
    /// # Errors
    /// A token that is not for this machine; why the roots refuse; no root answers; files that can't be
    /// written, or are there.
    pub fn run(&self, patience: Duration) -> Result<Outcome, Failure> {
        let (number, node) = self.file.node(self.name)?;
        let usage = |why: String| Failure::Usage(why);
        if number != self.token.number {
            let whose = self.file.numbered(self.token.number);
            let whose = whose.map_or("no node of this file", |node| &node.name[..]);
            return Err(usage(format!("--token: it is for {whose}, and this is {}", self.name)));
        }
        if node.keeps_log() {
            return Err(usage(format!("{}: {NO_ROOTS}", self.name)));
        }
        let own = self.keys.join(format!("{}.pem", self.name));
        if own.exists() && !self.replace {
            return Err(on(&own, "is there already; --replace puts another one in its place"));
        }
        self.check_authority()?;
        files::folder(self.keys)?;
        let key = self.key()?;
        let venue = self.file.venue_path();
        let digest = |_| self.file.venue().and_then(|config| venue_digest(self.file, &config));
        let ask = Ask {
            version: VERSION,
            cluster: self.file.id,
            name: self.name.to_string(),
            secret: crate::tls::hex(&self.token.secret),
            request: request(&key, self.name)?,
            venue: Some(()).filter(|()| venue.exists()).map(digest).transpose()?,
        };
        let (joined, authority) = self.ask_all(&ask, patience)?;
        self.keep(node, &joined, &authority)
    }

    /// An authority that is here already has to be the token's.
    fn check_authority(&self) -> Result<(), Failure> {
        let path = self.file.authority_path();
        match std::fs::read_to_string(&path) {
            Ok(pem) if !self.is_pinned(&pem) => Err(on(
                &path,
                "is of another authority than the token's: is it this cluster's token?",
            )),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(on(&path, error)),
        }
    }

    /// Whether a certificate is the one whose fingerprint the token has, and the only one there.
    fn is_pinned(&self, pem: &str) -> bool {
        let one = pem.matches("-----BEGIN CERTIFICATE-----").count() == 1;
        let found = net::Identity::fingerprint(pem.as_bytes());
        one && found.is_ok_and(|found| found == self.token.authority)
    }

    /// The private key: that of an attempt that was not answered, or a fresh one.
    fn key(&self) -> Result<String, Failure> {
        let path = self.keys.join(UNANSWERED);
        match std::fs::read_to_string(&path) {
            Ok(key) => Ok(key),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let key = fresh_key()?;
                files::replace(&path, key.as_bytes()).map_err(|error| on(&path, error))?;
                Ok(key)
            }
            Err(error) => Err(on(&path, error)),
        }
    }

    fn ask_all(&self, ask: &Ask, patience: Duration) -> Result<(Joined, String), Failure> {
        let roots: Vec<&NodeEntry> = self.file.replicated().map(|(_, node)| node).collect();
        let (until, mut at) = (Instant::now() + patience, 0);
        loop {
            let Some(root) = roots.get(at % roots.len().max(1)) else {
                return Err(Failure::Usage(format!("{}: no roots", self.file.path.display())));
            };
            let replica = (at % roots.len()) as u8 + 1;
            let why = match self.ask(root, replica, ask) {
                Ok((Told::Joined(joined), authority)) => return Ok((joined, authority)),
                Ok((Told::Refused { why, again: false }, _)) => {
                    let why = format!("{} refuses {}: {why}", root.name, self.name);
                    return Err(Failure::Refused(why));
                }
                Ok((Told::Refused { why, .. }, _)) => format!("{}: {why}", root.name),
                Ok((Told::Elsewhere { leader }, _)) if leader > 0 && leader != replica => {
                    at = usize::from(leader) - 1;
                    if Instant::now() < until {
                        std::thread::sleep(RETRY);
                        continue;
                    }
                    format!("{} leads, says {}", leader, root.name)
                }
                Ok((Told::Elsewhere { .. }, _)) => "no root leads at present".to_string(),
                Err(why @ Failure::Refused(_)) => return Err(why),
                Err(why) => format!("{}: {why}", root.name),
            };
            if Instant::now() >= until {
                return Err(Failure::Run(format!("no root has answered: {why}")));
            }
            at += 1;
            std::thread::sleep(RETRY);
        }
    }

    /// Asks one root; with its answer the authority's certificate.
    fn ask(&self, root: &NodeEntry, replica: u8, ask: &Ask) -> Result<(Told, String), Failure> {
        let failed = |error: std::io::Error| Failure::Run(error.to_string());
        let ways = self.file.places(root, Port::Control)?;
        let stream = connect_any(&ways, CONNECT).map_err(failed)?;
        let at = stream.peer_addr().map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let until = Instant::now() + ANSWER;
        let key = probe::Key::new(&self.token.gate);
        let key = key.map_err(|error| Failure::Run(error.to_string()))?;
        let ends = (self.token.number | JOINING, replica.into());
        gate::enter(&stream, (&key, ends.0, ends.1), until).map_err(failed)?;
        let authority = hear_authority(&stream, until).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => Failure::Run(
                "it shows the door: is the token of this cluster, and are its roots of this version?"
                    .to_string(),
            ),
            _ => failed(error),
        })?;
        let busy = || Failure::Run("too many others are joining: again".to_string());
        let authority = authority.ok_or_else(busy)?;
        if !self.is_pinned(&authority) {
            let why = format!(
                "{} at {at} is not believed: its authority is not the one whose fingerprint the token has",
                root.name
            );
            return Err(Failure::Refused(why));
        }
        let name = certificates::name(self.file.group(), replica);
        let tls = ClientTls::new(authority.as_bytes(), &name, None);
        let tls = tls.map_err(|error| Failure::Run(error.to_string()))?;
        let stream = Arc::new(stream);
        let mut sealed = tls.connect(Arc::clone(&stream), until).map_err(failed)?;
        stream.set_read_timeout(Some(TURN)).map_err(failed)?;
        write(&mut sealed, ask).map_err(failed)?;
        let told = hear(&mut sealed, until).map_err(failed)?;
        Ok((told, authority))
    }

    /// Writes what the machine was given; the private key last, so that a crash before leaves the attempt
    /// unanswered, and the same token answers it again.
    fn keep(&self, node: &NodeEntry, joined: &Joined, authority: &str) -> Result<Outcome, Failure> {
        if bytes_of(&joined.gate).is_none_or(|gate| gate.len() != 32) {
            return Err(Failure::Run("the root's answer has no key for the gate".to_string()));
        }
        let mut written = Vec::new();
        let mut write = |path: PathBuf, text: &str| {
            files::replace(&path, text.as_bytes()).map_err(|error| on(&path, error))?;
            written.push(path);
            Ok::<(), Failure>(())
        };
        let path = self.file.authority_path();
        if !path.exists() {
            write(path, authority)?;
        }
        let venue = self.file.venue_path();
        if let Some(text) = joined.venue.as_ref().filter(|_| !venue.exists()) {
            write(venue, text)?;
        }
        write(self.keys.join(GATE), &format!("{}\n", joined.gate))?;
        write(self.keys.join(format!("{}.pem", self.name)), &joined.chain)?;
        keep_generation(self.keys, joined.generation)?;
        let (from, to) = (self.keys.join(UNANSWERED), format!("{}.key.pem", self.name));
        let to = self.keys.join(to);
        std::fs::rename(&from, &to).map_err(|error| on(&to, error))?;
        written.push(to);
        let mut notes = Vec::new();
        let digest = self.file.venue().and_then(|config| venue_digest(self.file, &config));
        match digest {
            Ok(digest) if digest == joined.digest => {}
            Ok(_) => notes.push(format!(
                "{} is not as the roots have it, so they will refuse {}: copy theirs",
                self.file.path.display(),
                node.name
            )),
            Err(why) => notes.push(why.to_string()),
        }
        Ok(Outcome { generation: joined.generation, written, notes })
    }
}

/// Why no root joins with a token.
pub const NO_ROOTS: &str = "it is a root, and the roots' secret is not given away by a token: `fairbell \
                            cluster issue` makes its keys where the authority's is";

/// The next message, before `until`.
fn hear(sealed: &mut impl Read, until: Instant) -> std::io::Result<Told> {
    let mut reader = Reader::default();
    while Instant::now() < until {
        if let Some(told) = reader.next::<Told>(sealed)? {
            return Ok(told);
        }
    }
    Err(ErrorKind::TimedOut.into())
}

/// The text of the venue's settings, for who has none. No root joins, and roots alone feed stores: the address of
/// their database, which may have a password in it, stays with them.
pub(super) fn settings(file: &ClusterFile) -> Option<String> {
    let text = without_store(std::fs::read_to_string(file.venue_path()).ok()?)?;
    // More does not go into a message beside the rest.
    Some(text).filter(|text| text.len() <= SETTINGS_MAX)
}

/// Settings without `store.url`; `None` for what is no TOML.
fn without_store(text: String) -> Option<String> {
    let mut table: toml::Table = text.parse().ok()?;
    let store = table.get_mut("store").and_then(toml::Value::as_table_mut);
    match store.and_then(|store| store.remove("url")) {
        None => Some(text),
        Some(_) => toml::to_string(&table).ok(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn ask() -> Ask {
        Ask {
            version: VERSION,
            cluster: 7,
            name: "edge-1".to_string(),
            secret: "a5".repeat(16),
            request: request(&fresh_key().expect("a key"), "edge-1").expect("a request"),
            venue: None,
        }
    }

    #[test]
    fn who_joins_is_not_told_where_the_store_is() {
        let usual = "# Ours.\n[store]\nfollow = true\n".to_string();
        assert_eq!(without_store(usual.clone()), Some(usual));
        let text = "[journal]\ndurability = \"local\"\n[store]\nurl = \"postgres://fb:pw@db/t\"\n\
                    follow = true\n[day]\nauctions = false\n";
        let told = without_store(text.to_string()).expect("settings");
        assert!(!told.contains("pw") && told.contains("follow = true"), "{told}");
        let config = |text: &str| {
            let loaded = crate::config::Loaded::text("venue.toml", text).expect("settings");
            loaded.finish().expect("settings")
        };
        assert_eq!(config(&told).day, config(text).day);
        assert_eq!(without_store("[store".to_string()), None);
    }

    #[test]
    fn what_is_said_is_read_as_written() {
        let told = [
            Told::Joined(Joined {
                chain: "PEM".to_string(),
                generation: 3,
                gate: "00".repeat(32),
                venue: Some("[day]\n".to_string()),
                digest: 9,
            }),
            Told::Refused { why: "no".to_string(), again: true },
            Told::Elsewhere { leader: 2 },
        ];
        for one in told {
            let mut bytes = Vec::new();
            write(&mut bytes, &one).expect("written");
            let until = Instant::now() + ANSWER;
            assert_eq!(hear(&mut &bytes[..], until).expect("read"), one);
        }
        let mut bytes = Vec::new();
        write(&mut bytes, &ask()).expect("written");
        let mut reader = Reader::default();
        let read: Option<Ask> = reader.next(&mut &bytes[..]).expect("read");
        assert_eq!(read.map(|ask| ask.name).as_deref(), Some("edge-1"));
    }

    #[test]
    fn an_authority_that_is_too_long_or_cut_is_refused() {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let at = listener.local_addr().expect("an address");
        let heard = |bytes: &[u8]| {
            let mut near = TcpStream::connect(at).expect("connected");
            let (far, _) = listener.accept().expect("a connection");
            near.write_all(bytes).expect("sent");
            drop(near);
            hear_authority(&far, Instant::now() + ANSWER)
        };
        let mut said = Vec::new();
        for text in ["", "PEM"] {
            let near = TcpStream::connect(at).expect("connected");
            let (far, _) = listener.accept().expect("a connection");
            say_authority(&near, text).expect("sent");
            said.push(hear_authority(&far, Instant::now() + ANSWER).expect("heard"));
        }
        assert_eq!(said, [None, Some("PEM".to_string())]);
        for bad in [&b""[..], b"\0", b"\0\x04PEM", b"\x40\x01", b"\xff\xffPEM", b"\0\x02\xff\xfe"] {
            assert!(heard(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn changed_bytes_are_refused_or_read_and_never_panic(
            changes in vec((0usize..900, any::<u8>()), 1..6), cut in 0usize..900,
        ) {
            let (mut bytes, own) = (Vec::new(), ask());
            write(&mut bytes, &own).expect("written");
            for (at, byte) in &changes {
                if let Some(place) = bytes.get_mut(*at) {
                    *place = *byte;
                }
            }
            bytes.truncate(cut);
            let read = Reader::default().next::<Ask>(&mut &bytes[..]);
            if let Ok(Some(ask)) = read {
                let _ = crate::authority::Request::read(&ask.request);
            }
            let _ = hear(&mut &bytes[..], Instant::now() + Duration::from_millis(1));
        }

        #[test]
        fn a_changed_request_has_no_valid_signature_or_is_none(at in 30usize..380, to in any::<u8>()) {
            let own = ask().request;
            let mut bytes = own.clone().into_bytes();
            let same = bytes.get(at).is_none_or(|from| *from == to);
            if let Some(place) = bytes.get_mut(at) {
                *place = to;
            }
            let changed = String::from_utf8_lossy(&bytes).into_owned();
            let read = crate::authority::Request::read(&changed);
            // White space and the last bits of base64 carry nothing.
            let known = crate::authority::Request::read(&own).expect("a request");
            let harmless = same || read.as_ref().is_ok_and(|read| read.key() == known.key());
            prop_assert!(read.is_err() || harmless);
        }
    }
}
