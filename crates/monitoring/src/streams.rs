//! Records in streams of a Redis server: one for each machine and kind, `PREFIX:MACHINE:STREAM`.
//!
//! The id of an entry is `LIFE-FIRST`, so the server itself refuses to take an entry twice: one whose answer
//! was lost is sent again and is there once. `MAXLEN` bounds a stream; what it deletes unread is missing in
//! the numbers. No call takes longer than [`PATIENCE`] for each of its round trips.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::Value;

use crate::entry::{COUNT_MAX, Entry};
use crate::record::{RECORD, RecordKind};

/// Longest time for a connection, and for an answer.
pub const PATIENCE: Duration = Duration::from_millis(500);
/// Entries that are asked for at a time.
const AT_ONCE: usize = 64;
/// Streams that are read at most.
const STREAMS_MAX: usize = 4_096;
/// Version of the entries.
const VERSION: &[u8] = b"1";

/// A server, connected to when it is needed.
pub struct Server {
    client: redis::Client,
    /// Where it is, for whoever reads an error: no user and no password is in it.
    at: String,
    connection: Option<redis::Connection>,
}

impl Server {
    /// Of an address like `redis://:PASSWORD@HOST:PORT/DATABASE`.
    ///
    /// # Errors
    /// It is no such address.
    pub fn new(url: &str) -> Result<Server, String> {
        if url.starts_with("rediss:") {
            return Err("rediss: this program speaks to Redis without TLS".to_string());
        }
        // The message of the library may repeat the address, and with it a password.
        let form = "must be redis://USER:PASSWORD@HOST:PORT/DATABASE or redis+unix:PATH";
        let client = redis::Client::open(url).map_err(|_| form.to_string())?;
        let at = client.get_connection_info().addr().to_string();
        Ok(Server { client, at, connection: None })
    }

    /// One command; a connection that fails in it is not used again.
    fn ask(&mut self, command: &redis::Cmd) -> Result<Value, String> {
        self.answer(command).map_err(|why| format!("{}: {why}", self.at))
    }

    fn answer(&mut self, command: &redis::Cmd) -> Result<Value, String> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let made = self.client.get_connection_with_timeout(PATIENCE);
                let made = made.map_err(|error| error.to_string())?;
                let patient = made.set_read_timeout(Some(PATIENCE));
                let patient = patient.and_then(|()| made.set_write_timeout(Some(PATIENCE)));
                patient.map_err(|error| error.to_string())?;
                made
            }
        };
        match command.query(&mut connection) {
            Ok(value) => {
                self.connection = Some(connection);
                Ok(value)
            }
            Err(error) => {
                let refused = !error.is_io_error() && !error.is_timeout();
                if refused && error.code().is_some() {
                    self.connection = Some(connection);
                }
                Err(error.to_string())
            }
        }
    }

    /// The id of a stream's last entry: life and number.
    fn last(&mut self, key: &str) -> Result<Option<(u64, u64)>, String> {
        let mut command = redis::cmd("XREVRANGE");
        command.arg(key).arg("+").arg("-").arg("COUNT").arg(1);
        let entries = array(self.ask(&command)?);
        let first = entries.into_iter().next().map(array).unwrap_or_default();
        Ok(first.into_iter().next().map(bytes).and_then(|id| id_of(&id)))
    }

    /// Names of the streams that there are with a prefix, in order.
    ///
    /// # Errors
    /// The server's, or it is not reached.
    pub fn names(&mut self, prefix: &str) -> Result<Vec<String>, String> {
        let (mut names, mut cursor) = (Vec::new(), "0".to_string());
        loop {
            let mut command = redis::cmd("SCAN");
            let wanted = format!("{}:*", escaped(prefix));
            command.arg(&cursor).arg("MATCH").arg(wanted).arg("COUNT").arg(1_000);
            command.arg("TYPE").arg("stream");
            let mut answer = array(self.ask(&command)?).into_iter();
            cursor = answer.next().map(text).unwrap_or_default();
            let keys = answer.next().map(array).unwrap_or_default().into_iter().map(text);
            let skipped = prefix.len() + 1;
            names.extend(keys.filter_map(|key| Some(key.get(skipped..)?.to_string())));
            if cursor == "0" || cursor.is_empty() || names.len() > STREAMS_MAX {
                break;
            }
        }
        names.sort_unstable();
        names.dedup();
        names.truncate(STREAMS_MAX);
        Ok(names)
    }

    /// The next entries of a stream behind those of a life up to a number, with their lives; none when there
    /// are no more. Entries that are none of this form are left, and counted in the second place.
    ///
    /// # Errors
    /// As [`Server::names`].
    pub fn read(&mut self, key: &str, (life, number): (u64, u64)) -> Result<Read, String> {
        let mut command = redis::cmd("XRANGE");
        let from = format!("({life}-{number}");
        command.arg(key).arg(from).arg("+").arg("COUNT").arg(AT_ONCE);
        let mut read = Read { entries: Vec::new(), at: (life, number), strange: 0 };
        for entry in array(self.ask(&command)?) {
            let mut parts = array(entry).into_iter();
            let Some(id) = parts.next().map(bytes).and_then(|id| id_of(&id)) else { continue };
            read.at = id;
            let fields = parts.next().map(array).unwrap_or_default();
            match entry_of(id.1, fields) {
                Some(entry) => read.entries.push((id.0, entry)),
                None => read.strange += 1,
            }
        }
        Ok(read)
    }
}

/// What was read of a stream.
pub struct Read {
    /// Entries with their lives.
    pub entries: Vec<(u64, Entry)>,
    /// Where to go on.
    pub at: (u64, u64),
    /// Entries that are none of ours.
    pub strange: u64,
}

fn entry_of(first: u64, fields: Vec<Value>) -> Option<Entry> {
    let (mut version, mut kind, mut count, mut data) = (None, None, None, None);
    let mut fields = fields.into_iter();
    while let (Some(name), Some(value)) = (fields.next(), fields.next()) {
        let value = bytes(value);
        match &bytes(name)[..] {
            b"v" => version = Some(value),
            b"kind" => kind = RecordKind::ALL.into_iter().find(|of| of.name().as_bytes() == value),
            b"count" => count = std::str::from_utf8(&value).ok().and_then(|text| text.parse().ok()),
            b"data" => data = Some(value),
            _ => {}
        }
    }
    let entry = Entry { kind: kind?, first, data: data? };
    let whole = entry.data.len().is_multiple_of(RECORD) && entry.data.len() <= COUNT_MAX * RECORD;
    let ours = version?.as_slice() == VERSION && whole && first > 0;
    (ours && count == Some(entry.count())).then_some(entry)
}

/// A prefix as a pattern that means it alone.
fn escaped(prefix: &str) -> String {
    let mut pattern = String::new();
    for letter in prefix.chars() {
        if "*?[]^\\".contains(letter) {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}

fn array(value: Value) -> Vec<Value> {
    match value {
        Value::Array(values) => values,
        _ => Vec::new(),
    }
}

fn bytes(value: Value) -> Vec<u8> {
    match value {
        Value::BulkString(bytes) => bytes,
        Value::SimpleString(text) => text.into_bytes(),
        Value::Int(number) => number.to_string().into_bytes(),
        _ => Vec::new(),
    }
}

fn text(value: Value) -> String {
    String::from_utf8_lossy(&bytes(value)).into_owned()
}

fn id_of(id: &[u8]) -> Option<(u64, u64)> {
    let (life, number) = std::str::from_utf8(id).ok()?.split_once('-')?;
    Some((life.parse().ok()?, number.parse().ok()?))
}

/// Streams that a machine's records are written to.
pub struct Streams {
    server: Server,
    /// What all their keys begin with: `PREFIX:MACHINE`.
    start: String,
    keep: u64,
    /// By stream: the life that its entries are of, which is later than all before.
    lives: BTreeMap<String, u64>,
    began: u64,
}

impl Streams {
    /// Of a machine whose process began at a time, ms since 1970. `keep`: entries of a stream that stay, about.
    ///
    /// # Errors
    /// See [`Server::new`].
    pub fn new(
        url: &str,
        (prefix, machine): (&str, &str),
        began: u64,
        keep: u64,
    ) -> Result<Streams, String> {
        let start = format!("{prefix}:{machine}");
        Ok(Streams { server: Server::new(url)?, start, keep, lives: BTreeMap::new(), began })
    }

    /// Adds an entry to a stream; nothing when it is there already.
    ///
    /// # Errors
    /// The server's, or it does not answer: the entry is there or not, and this may be called again.
    pub fn write(&mut self, stream: &str, entry: &Entry) -> Result<(), String> {
        let key = format!("{}:{stream}", self.start);
        let life = match self.lives.get(stream) {
            Some(life) => *life,
            None => {
                // Where clocks were set back, or two processes began at once.
                let last = self.server.last(&key)?.map_or(0, |(life, _)| life);
                let life = self.began.max(last.saturating_add(1));
                self.lives.insert(stream.to_string(), life);
                life
            }
        };
        let mut command = redis::cmd("XADD");
        command.arg(&key).arg("MAXLEN").arg("~").arg(self.keep);
        command.arg(format!("{life}-{}", entry.first));
        command.arg("v").arg(VERSION).arg("kind").arg(entry.kind.name());
        command.arg("count").arg(entry.count()).arg("data").arg(&entry.data[..]);
        let Err(why) = self.server.ask(&command) else { return Ok(()) };
        if !why.contains("equal or smaller") {
            return Err(why);
        }
        match self.server.last(&key)? {
            Some((of, first)) if of == life && first >= entry.first => Ok(()),
            _ => Err(format!(
                "somebody else writes to {key}: give the machines names or prefixes of their own"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_judged_before_anything_is_sent() {
        assert!(Server::new("redis://127.0.0.1:6379/0").is_ok());
        assert!(Server::new("redis://:word@localhost").is_ok());
        for wrong in ["", "http://x", "127.0.0.1:6379", "rediss://x:1"] {
            let why = Server::new(wrong).err().unwrap_or_default();
            assert!(why.contains("redis"), "{wrong}: {why}");
        }
    }

    #[test]
    fn an_error_says_where_the_server_is_and_no_password() {
        // Nobody listens there.
        let mut gone = Server::new("redis://user:hush@127.0.0.1:1/0").expect("an address");
        let why = gone.names("p").expect_err("nobody answers");
        assert!(why.starts_with("127.0.0.1:1: ") && !why.contains("hush"), "{why}");
    }

    #[test]
    fn fields_that_are_none_of_ours_are_no_entry() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let fields = |count: &str, length: usize| {
            let data = Value::BulkString(vec![7; length]);
            let mut all = vec![text("v"), text("1"), text("kind"), text("orders")];
            all.extend([text("count"), text(count), text("data"), data]);
            all
        };
        let entry = entry_of(9, fields("2", 64)).expect("an entry");
        assert_eq!((entry.first, entry.count()), (9, 2));
        assert!(entry_of(9, fields("3", 64)).is_none());
        assert!(entry_of(9, fields("2", 65)).is_none());
        assert!(entry_of(0, fields("2", 64)).is_none());
        assert!(entry_of(9, fields("2", 64)[..6].to_vec()).is_none());
        let mut other = fields("2", 64);
        other[1] = text("2");
        assert!(entry_of(9, other).is_none());
        assert!(
            entry_of(9, vec![text("v")]).is_none() && entry_of(9, vec![Value::Nil; 4]).is_none()
        );
    }

    #[test]
    fn a_prefix_means_itself() {
        assert_eq!(escaped("fair*bell[1]"), "fair\\*bell\\[1\\]");
        assert_eq!(id_of(b"12-34"), Some((12, 34)));
        assert_eq!(
            (id_of(b"12"), id_of(b"a-1"), id_of(b"1-99999999999999999999")),
            (None, None, None)
        );
    }
}
