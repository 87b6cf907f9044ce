//! Machines that ask a root for their certificate with a one-time token.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use engine::JoinToken;
use net::{Sealed, ServerTls};
use serde_json::{Value, json};
use types::{ClOrdId, Command, CommandKind, Nanos, NodeAction, UserRefNum};

use super::{HELLO, STUCK, Server, TURN, lock};
use crate::authority::Request;
use crate::failure::Failure;
use crate::fleet::credentials::{Credentials, Issuer, OPERATOR, bytes_of};
use crate::fleet::file::NodeEntry;
use crate::fleet::join::{self, Ask, Joined, NO_ROOTS, REQUEST_MAX, Told, VERSION, say_authority};
use crate::fleet::messages::{FromRoot, Reader, write};
use crate::fleet::token::{JOINING, key_digest, secret_digest};
use crate::replica::certificates;
use crate::replica::cluster::Cluster;
use crate::replica::gate::Entrant;

/// Machines that join at the same time, at one root.
const AT_ONCE: usize = 8;
/// Longest that a token may be good.
const VALID_MAX_S: u64 = 30 * 86_400;

/// What a root needs to sign with.
pub struct Issuing {
    /// The authority's certificate, PEM: told to whoever joins, before TLS.
    pub authority: String,
    /// TLS without a certificate at the other end.
    pub tls: ServerTls,
    /// None: the root's keys were made before there were issuing keys.
    pub issuer: Option<Issuer>,
}

impl Issuing {
    /// TLS of the control connections of a replica, and what it joins machines with.
    ///
    /// # Errors
    /// Files that are missing, or none.
    pub fn open(
        cluster: &Cluster,
        id: u8,
        own: &Credentials,
    ) -> Result<(ServerTls, Issuing), Failure> {
        let shown = certificates::Credentials::read(cluster, id)?;
        let authority = own.authority().to_string();
        let issuer = Issuer::read(&own.folder, &authority)?;
        Ok((shown.door()?, Issuing { authority, tls: shown.to_anybody()?, issuer }))
    }
}

/// How joining went so far at this root.
#[derive(Default)]
pub(super) struct Joins {
    pub(super) issuing: Option<Issuing>,
    under_way: AtomicUsize,
    signed: AtomicU64,
    refused: AtomicU64,
    busy: AtomicU64,
    /// Who has answered at the gate, and proved nothing.
    pub(super) strangers: Arc<AtomicU64>,
}

/// A place among those that join.
struct Place<'a>(&'a AtomicUsize);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Joins {
    fn enter(&self) -> Option<Place<'_>> {
        let before = self.under_way.fetch_add(1, Ordering::Relaxed);
        let place = Place(&self.under_way);
        (before < AT_ONCE).then_some(place)
    }

    /// For operators.
    pub(super) fn told(&self) -> Value {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        json!({
            "signed": of(&self.signed), "refused": of(&self.refused), "busy": of(&self.busy),
            "strangers": of(&self.strangers),
        })
    }
}

/// Why not, and whether it may be otherwise in a moment.
type Refusal = (String, bool);

fn for_good(why: impl Into<String>) -> Refusal {
    (why.into(), false)
}

impl Server {
    /// Lets machines join by this root.
    #[must_use]
    pub fn with_issuing(mut self, issuing: Issuing) -> Server {
        self.joins.issuing = Some(issuing);
        self
    }

    /// The number of the node that wants to join, if whoever has passed the gate wants that.
    pub(super) fn joining(number: u16) -> Option<u16> {
        number.checked_sub(JOINING).filter(|number| *number > 0)
    }

    /// Answers a machine that wants to join.
    pub(super) fn join(
        &self,
        entrant: &Entrant<'_>,
        number: u16,
        stop: &AtomicBool,
    ) -> std::io::Result<()> {
        let stream = &entrant.stream;
        let Some(issuing) = &self.joins.issuing else { return Ok(()) };
        stream.set_write_timeout(Some(STUCK))?;
        let Some(_place) = self.joins.enter() else {
            self.joins.busy.fetch_add(1, Ordering::Relaxed);
            return say_authority(stream, "");
        };
        say_authority(stream, &issuing.authority)?;
        let mut sealed = issuing.tls.accept(Arc::clone(stream), entrant.until)?;
        stream.set_read_timeout(Some(TURN))?;
        stream.set_write_timeout(Some(STUCK))?;
        let Some(ask) = hear(&mut sealed, stop)? else { return Ok(()) };
        entrant.settle();
        let standing = self.standing();
        if standing.term == 0 {
            return write(&mut sealed, &Told::Elsewhere { leader: standing.leader });
        }
        let told = match self.judge(issuing, number, &ask) {
            Ok(joined) => {
                self.joins.signed.fetch_add(1, Ordering::Relaxed);
                let (name, generation) = (&ask.name, joined.generation);
                self.alarms.clear(&alarm(number), format!("{name} has joined"));
                let key = format!("joined-{number}");
                self.alarms
                    .note(&key, format!("{name} has a certificate, generation {generation}"));
                Told::Joined(joined)
            }
            Err((why, again)) => {
                self.joins.refused.fetch_add(1, Ordering::Relaxed);
                if let (Some(node), false) = (self.venue.file.numbered(number), again) {
                    let text = format!("somebody with a token for {} is refused: {why}", node.name);
                    self.alarms.raise(&alarm(number), text);
                }
                Told::Refused { why, again }
            }
        };
        write(&mut sealed, &told)
    }

    /// Whether a machine gets its certificate; it is signed, and the token used up in the log.
    fn judge(&self, issuing: &Issuing, number: u16, ask: &Ask) -> Result<Joined, Refusal> {
        let file = &self.venue.file;
        if ask.version != VERSION {
            let version = ask.version;
            let why = format!("it joins by version {version}, and this root by {VERSION}");
            return Err(for_good(why));
        }
        if ask.cluster != file.id {
            let why =
                format!("it is of cluster {:016x}, and this is {:016x}", ask.cluster, file.id);
            return Err(for_good(why));
        }
        let node = file.numbered(number).filter(|node| node.name == ask.name);
        let node = node.ok_or_else(|| {
            let whose = file.numbered(number).map_or("no node of this file", |node| &node.name);
            let asks: String = ask.name.chars().take(32).collect();
            for_good(format!("the token is for {whose}, and it calls itself {asks:?}"))
        })?;
        if node.keeps_log() {
            return Err(for_good(NO_ROOTS));
        }
        let issuer = issuing.issuer.as_ref().ok_or_else(|| for_good(NO_ISSUER))?;
        if let Some(digest) = ask.venue.filter(|digest| *digest != self.venue.digest) {
            return Err(for_good(format!(
                "its settings have digest {digest:016x}, and those of the roots {:016x}: compare \
                 venue.toml and cluster.toml",
                self.venue.digest
            )));
        }
        let secret = bytes_of(&ask.secret).and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
        let digest = secret_digest(&secret.ok_or_else(|| for_good("the secret is none"))?);
        self.good(number, digest)?;
        if ask.request.len() > REQUEST_MAX {
            return Err(for_good(format!("a request of more than {REQUEST_MAX} bytes")));
        }
        let request = Request::read(&ask.request).map_err(|why| for_good(why.to_string()))?;
        let generation = self.use_up(node, number, digest, key_digest(request.key()))?;
        let again = |why: Failure| (why.to_string(), true);
        let chain = issuer.sign(file, node, generation, &request).map_err(again)?;
        let gate = self.secret.gate_of(number).map_err(again)?;
        let venue = ask.venue.is_none().then(|| join::settings(file)).flatten();
        let (gate, digest) = (crate::tls::hex(&gate), self.venue.digest);
        Ok(Joined { chain, generation, gate, venue, digest })
    }

    /// The token of a node, if it is the one with this digest, and not over.
    fn good(&self, number: u16, digest: [u64; 2]) -> Result<JoinToken, Refusal> {
        let standing = self.standing();
        let token = standing.nodes.get(number.into()).token;
        match token {
            None => {
                Err(for_good("no token was given for it, or its certificate was revoked since"))
            }
            Some(token) if token.digest != digest => {
                Err(for_good("this token is not the one that was given for it last"))
            }
            Some(token) if standing.at >= token.ends => {
                Err(for_good("the token is over: `fairbell cluster token` makes another"))
            }
            Some(token) => Ok(token),
        }
    }

    /// Uses a token up for a public key; the generation of that key's certificate.
    fn use_up(
        &self,
        node: &NodeEntry,
        number: u16,
        digest: [u64; 2],
        key: [u64; 2],
    ) -> Result<u32, Refusal> {
        let mut token = self.good(number, digest)?;
        if !token.is_used() {
            // Certificates that were made where the authority's key is begin at 1.
            let newest = lock(&self.generations).get(&number).copied().unwrap_or(0).max(1);
            let command = JoinToken::use_up(number.into(), digest, key, newest);
            let command = signed_by(command, &node.name);
            let settled = move |nodes: &engine::Nodes| {
                let token = nodes.get(number.into()).token;
                token.is_none_or(|token| token.digest != digest || token.is_used())
            };
            self.command(command, settled).map_err(|why| (why, true))?;
            token = self.good(number, digest)?;
        }
        match token.key == key {
            true => Ok(self.standing().nodes.get(number.into()).issued),
            false => Err(for_good(
                "the token was used already, by another machine or with another key: if that was not \
                 you, revoke the node; `fairbell cluster token` makes another",
            )),
        }
    }

    /// Gives a node a token whose secret has this digest.
    pub(super) fn grant(
        &self,
        name: &str,
        digest: &str,
        valid_s: u64,
    ) -> Result<FromRoot, (String, bool)> {
        let node = self.venue.file.node(name).map_err(|why| for_good(why.to_string()))?;
        let (number, node) = node;
        if node.keeps_log() {
            return Err(for_good(format!("{name}: {NO_ROOTS}")));
        }
        let issuing = self.joins.issuing.as_ref().and_then(|issuing| issuing.issuer.as_ref());
        if issuing.is_none() {
            return Err(for_good(NO_ISSUER));
        }
        let words = bytes_of(digest).filter(|bytes| bytes.len() == 16).map(|bytes| {
            let word = |at: usize| {
                bytes.iter().skip(at).take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte))
            };
            [word(0), word(8)]
        });
        let words = words.ok_or_else(|| for_good("32 hexadecimal digits are needed"))?;
        if !(1..=VALID_MAX_S).contains(&valid_s) {
            return Err(for_good("a token is good for 1 s to 30 days"));
        }
        // As it is now: what was looked at may be older.
        self.look();
        let ends = Nanos(self.standing().at.0 + valid_s * Nanos::SECOND);
        let command = signed_by(JoinToken::grant(number.into(), words, ends), OPERATOR);
        let given = move |nodes: &engine::Nodes| {
            let token = nodes.get(number.into()).token;
            token.is_some_and(|token| token.digest == words)
        };
        self.command(command, given).map_err(|why| (why, true))?;
        self.alarms.clear(&alarm(number), format!("{name} has another token"));
        let gate = self.secret.gate_of(number | JOINING).map_err(|why| (why.to_string(), true))?;
        let data = json!({
            "node": name, "number": number, "gate": crate::tls::hex(&gate), "ends_ns": ends.0,
        });
        Ok(FromRoot::Answer { text: format!("{name} has a token"), data })
    }
}

/// Where a root can't sign.
const NO_ISSUER: &str = "this root has no issuing key: `fairbell cluster issue` makes one for each root \
                         where the authority's is; copy issuer.pem and issuer.key.pem and restart it";

fn alarm(number: u16) -> String {
    format!("join-{number}")
}

/// The first message; none when it does not come in time or this root stops.
fn hear(sealed: &mut Sealed, stop: &AtomicBool) -> std::io::Result<Option<Ask>> {
    let (until, mut reader) = (Instant::now() + HELLO, Reader::default());
    while !stop.load(Ordering::Relaxed) && Instant::now() < until {
        if let Some(ask) = reader.next::<Ask>(sealed)? {
            return Ok(Some(ask));
        }
    }
    Ok(None)
}

/// A command in the name of whoever asked.
pub(super) fn signed_by(command: Command, asked_by: &str) -> Command {
    let mut operator = ClOrdId::default();
    operator.0.iter_mut().zip(asked_by.bytes()).for_each(|(to, byte)| *to = byte);
    Command { cl_ord_id: operator, ..command }
}

/// The command of an action on a node, in the name of whoever asked.
pub(super) fn set_node(action: NodeAction, number: u32, operand: u32, asked_by: &str) -> Command {
    let command = Command {
        param: action as u8,
        orig_user_ref: UserRefNum(number),
        user_ref: UserRefNum(operand),
        ..Command::new(CommandKind::SetNode)
    };
    signed_by(command, asked_by)
}
