//! From streams of Redis, or files of records, to tables: what is new since the last time, and how much is
//! missing.
//!
//! A folder of tables has a file [`STATE`] that says how far each stream was read. It is written after the
//! tables are whole, so that an export which is cut short begins there again and writes the same files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::account::Account;
use crate::entry::Entry;
use crate::files;
use crate::record::{RECORD, RecordKind};
use crate::streams::Server;
use crate::table::{Format, Table};

/// What says how far streams were read.
pub const STATE: &str = "export.json";
/// Rows of a file, about; then another one is begun.
const ROWS_MAX: u64 = 4_000_000;

/// Where records are.
#[expect(clippy::large_enum_variant, reason = "a process has one")]
pub enum Source {
    /// In streams of a Redis server whose keys begin with a prefix.
    Redis {
        /// The server.
        server: Server,
        /// What keys begin with.
        prefix: String,
    },
    /// In files of a folder.
    Files(PathBuf),
}

/// A stream that is exported.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Progress {
    /// What was got and what is missing, in all runs.
    pub account: Account,
    /// The id of the last entry that was read in Redis: life and number.
    #[serde(default)]
    pub at: (u64, u64),
    /// Entries that were none of ours.
    #[serde(default)]
    pub strange: u64,
}

/// How far a folder of tables is.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct State {
    /// By `MACHINE:STREAM`.
    pub streams: BTreeMap<String, Progress>,
}

/// An export into a folder.
pub struct Export {
    source: Source,
    folder: PathBuf,
    format: Format,
    state: State,
    open: BTreeMap<(String, RecordKind), Table>,
    /// By file of records: where to go on.
    read: BTreeMap<PathBuf, u64>,
    /// Files written so far.
    pub files: Vec<PathBuf>,
    /// What was wrong with single files of records.
    pub complaints: Vec<String>,
}

impl Export {
    /// Into a folder, which is made, or goes on from where it is.
    ///
    /// # Errors
    /// It can't be made, or its state can't be read.
    pub fn open(source: Source, folder: &Path, format: Format) -> Result<Export, String> {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let path = folder.join(STATE);
        let state = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| format!("{}: {error}", path.display()))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => State::default(),
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        Ok(Export {
            source,
            folder: folder.to_path_buf(),
            format,
            state,
            open: BTreeMap::new(),
            read: BTreeMap::new(),
            files: Vec::new(),
            complaints: Vec::new(),
        })
    }

    /// How far it is.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Takes all that there is now; how many records that was.
    ///
    /// # Errors
    /// The source is not reached, or a table can't be written.
    pub fn pass(&mut self) -> Result<u64, String> {
        let before = self.got();
        let mut source = std::mem::replace(&mut self.source, Source::Files(PathBuf::new()));
        let outcome = match &mut source {
            Source::Redis { server, prefix } => self.pass_streams(server, prefix),
            Source::Files(folder) => self.pass_files(folder),
        };
        self.source = source;
        outcome?;
        Ok(self.got() - before)
    }

    fn got(&self) -> u64 {
        self.state.streams.values().map(|of| of.account.got).sum()
    }

    fn pass_streams(&mut self, server: &mut Server, prefix: &str) -> Result<(), String> {
        for name in server.names(prefix)? {
            let key = format!("{prefix}:{name}");
            loop {
                let at = self.state.streams.get(&name).map_or((0, 0), |of| of.at);
                let read = server.read(&key, at)?;
                if read.at == at {
                    break;
                }
                for (life, entry) in &read.entries {
                    self.take(&name, *life, entry)?;
                }
                let of = self.state.streams.entry(name.clone()).or_default();
                (of.at, of.strange) = (read.at, of.strange + read.strange);
            }
        }
        Ok(())
    }

    fn pass_files(&mut self, folder: &Path) -> Result<(), String> {
        let found = files::segments(folder)?;
        for (index, segment) in found.iter().enumerate() {
            let next = found.get(index + 1).filter(|next| next.stream == segment.stream);
            let known = self.state.streams.get(&segment.stream).map(|of| &of.account);
            // All of it was read in an earlier run.
            let passed = |next: &files::Segment| {
                known.is_some_and(|known| (next.life, next.first) <= (known.life, known.next))
            };
            if next.is_some_and(passed) {
                continue;
            }
            let at = self.read.get(&segment.path).copied().unwrap_or(0);
            match files::read(&segment.path, at) {
                Ok(read) => {
                    self.read.insert(segment.path.clone(), read.at);
                    for entry in &read.entries {
                        self.take(&segment.stream, segment.life, entry)?;
                    }
                    if read.torn && next.is_some() {
                        let path = segment.path.display();
                        self.complain(format!("{path}: cut short or damaged at byte {}", read.at));
                    }
                }
                Err(why) => self.complain(why),
            }
        }
        Ok(())
    }

    fn complain(&mut self, why: String) {
        if !self.complaints.contains(&why) {
            self.complaints.push(why);
        }
    }

    fn take(&mut self, stream: &str, life: u64, entry: &Entry) -> Result<(), String> {
        let of = self.state.streams.entry(stream.to_string()).or_default();
        let known = of.account.take(life, entry.first, entry.count());
        let (records, _) = entry.data.as_chunks::<RECORD>();
        let new = (entry.first..).zip(records).skip(known as usize);
        let key = (stream.to_string(), entry.kind);
        for (number, record) in new {
            if !self.open.contains_key(&key) {
                let name = stream.replace([':', '/'], ".");
                let name = format!("{name}.{life}-{number:020}.{}", self.format.ending());
                let table = Table::create(&self.folder.join(name), entry.kind, self.format)?;
                self.open.insert(key.clone(), table);
            }
            if let Some(table) = self.open.get_mut(&key) {
                table.push(life, number, *record)?;
            }
        }
        if self.open.get(&key).is_some_and(|table| table.rows() >= ROWS_MAX)
            && let Some(table) = self.open.remove(&key)
        {
            self.files.push(table.finish()?);
        }
        Ok(())
    }

    /// Ends the files that are open and writes down how far it is.
    ///
    /// # Errors
    /// The system's.
    pub fn save(&mut self) -> Result<(), String> {
        for (_, table) in std::mem::take(&mut self.open) {
            self.files.push(table.finish()?);
        }
        let path = self.folder.join(STATE);
        let partial = path.with_extension("partial");
        let on = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let bytes = serde_json::to_vec_pretty(&self.state).map_err(|error| on(&error))?;
        fs::write(&partial, bytes).map_err(|error| on(&error))?;
        fs::rename(&partial, &path).map_err(|error| on(&error))
    }
}
