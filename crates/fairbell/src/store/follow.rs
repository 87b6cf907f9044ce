//! From the journal on disk into the store: opening both, and going on while there is more.

use std::path::Path;
use std::time::Duration;

use engine::Config;
use journal::{DiskErrorKind, Folder, FolderConfig, Follower, JournalError, Record};
use store::{Account, Origin, Store, StoreWriter};
use types::Input;

use super::{Places, at};
use host::failure::{Failure, on};
use host::journal::kept::{Genesis, input_of};
use host::journal::read::NO_LOG;

/// Records taken from the journal at a time.
const AT_ONCE: usize = 1 << 16;

/// How the store's file is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writing {
    /// It may be asked at any time, and survives whatever happens.
    Steady,
    /// It counts only once it is whole.
    Hurried,
}

/// A journal on its way into a store.
pub struct Feed {
    dir: std::path::PathBuf,
    file: std::path::PathBuf,
    follower: Follower<Folder>,
    /// Inputs that a replica's snapshot stands for, and that were not taken yet.
    snapshot: std::vec::IntoIter<Input>,
    /// The store.
    pub keeper: StoreWriter,
    /// What exchange it is of.
    pub genesis: Genesis,
    /// Inputs beyond this one are left.
    until: u64,
    /// Some were.
    left: bool,
    /// Most records that were committed and not stored when it looked.
    pub behind_max: u64,
}

/// A journal opened for following; where its log begins behind a snapshot, that one's bytes.
type Begun = (Follower<Folder>, Option<Vec<u8>>);

/// Opens a journal for following; `None` when there is none yet.
fn open_journal(dir: &Path) -> Result<Option<Begun>, Failure> {
    let config = FolderConfig { direct: false, ..FolderConfig::default() };
    let missing = |kind: DiskErrorKind| kind == DiskErrorKind::Missing;
    let folder = match Folder::open_unlocked(dir, config) {
        Err(error) if missing(error.kind) => return Ok(None),
        folder => folder.map_err(|error| on(dir, error))?,
    };
    match Follower::open(folder, 0) {
        Err(JournalError::Disk(error)) if missing(error.kind) => Ok(None),
        // A replica's log that begins behind a snapshot.
        Err(JournalError::Position(_)) => behind_snapshot(dir).map(Some),
        follower => follower.map(|follower| Some((follower, None))).map_err(|e| on(dir, e)),
    }
}

fn behind_snapshot(dir: &Path) -> Result<Begun, Failure> {
    let wrong = |error: JournalError| on(dir, error);
    let mut folder = host::journal::read::look(dir)?;
    let id = journal::identify(&mut folder).map_err(wrong)?.unwrap_or(0);
    let label = journal::label(&mut folder).map_err(wrong)?.unwrap_or_default();
    let newest = journal::newest_snapshot(&mut folder, (id, label), u64::MAX).map_err(wrong)?;
    let none = || on(dir, "its log begins behind a snapshot, and no whole one is there");
    let (info, bytes) = newest.ok_or_else(none)?;
    let follower = Follower::open(folder, info.position).map_err(wrong)?;
    Ok((follower, Some(bytes)))
}

/// The first record that says what exchange it is; nothing when there is none yet. Leaders of a group
/// begin with an empty one.
fn first_genesis(dir: &Path, follower: &mut Follower<Folder>) -> Result<Option<Genesis>, Failure> {
    loop {
        let mut first = None;
        let polled = follower.poll(1, |record| first = Some(record.bytes.to_vec()));
        polled.map_err(|error| on(dir, error))?;
        match first {
            None => return Ok(None),
            Some(bytes) if bytes.is_empty() => {}
            Some(bytes) => {
                let genesis = Genesis::read(&bytes);
                return genesis.map(Some).ok_or_else(|| on(dir, NO_LOG));
            }
        }
    }
}

/// The engine's configuration that a journal was written under.
fn engine_config(places: &Places, genesis: &Genesis) -> Result<Config, Failure> {
    let dir = &places.journal;
    if genesis.rules_version != engine::RULES_VERSION {
        let (theirs, ours) = (genesis.rules_version, engine::RULES_VERSION);
        return Err(on(dir, format!("rules version {theirs}, this is {ours}")));
    }
    let known = [host::deployment::engine_config(&places.config)];
    let wanted = genesis.config_digest;
    known
        .into_iter()
        .find(|config| config.digest() == wanted)
        .ok_or_else(|| on(dir, "written under another configuration; name it with --config"))
}

fn accounts(places: &Places) -> Vec<Account> {
    let entries = (1..).zip(&places.config.accounts.0);
    let account = |(id, entry): (u16, &host::config::AccountEntry)| Account {
        id,
        name: entry.username.clone(),
        comp_id: entry.fix_comp_id.clone(),
        firm: entry.firm.clone(),
    };
    entries.map(account).collect()
}

/// Gives the store an input, unless that comes after `until`; then something was left.
fn give(
    (keeper, file): (&mut StoreWriter, &Path),
    input: &Input,
    (until, left): (u64, &mut bool),
    visit: &mut impl FnMut(&StoreWriter, &Input),
) -> Result<(), Failure> {
    if input.seq.0 > until {
        *left = true;
    } else if keeper.take(input).map_err(|error| at(file, error))? {
        visit(keeper, input);
    }
    Ok(())
}

impl Feed {
    /// Opens both; `None` when there is no log of an exchange yet.
    ///
    /// # Errors
    /// What is wrong with either.
    pub fn open(places: &Places, writing: Writing) -> Result<Option<Feed>, Failure> {
        let dir = &places.journal;
        let Some((mut follower, snapshot)) = open_journal(dir)? else { return Ok(None) };
        let (genesis, inputs) = match &snapshot {
            None => (first_genesis(dir, &mut follower)?, Vec::new()),
            Some(bytes) => {
                let genesis = exchange::compacted_genesis(bytes).and_then(Genesis::read);
                let inputs = exchange::compacted_inputs(bytes);
                let read = genesis.zip(inputs).ok_or_else(|| on(dir, NO_LOG))?;
                (Some(read.0), read.1)
            }
        };
        let Some(genesis) = genesis else { return Ok(None) };
        let snapshot = inputs.into_iter();
        let config = engine_config(places, &genesis)?;
        let origin = Origin {
            rules_version: genesis.rules_version,
            config_digest: genesis.config_digest,
            log: follower.id(),
            session: String::from_utf8_lossy(&genesis.session).trim_end().to_string(),
            midnight: genesis.midnight.0,
        };
        let file = places.file.clone();
        if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|error| on(&file, error))?;
        }
        let wrong = |error| at(&file, error);
        let instruments = &config.instruments;
        let store = Store::open(&file, &origin, &accounts(places), instruments).map_err(wrong)?;
        if writing == Writing::Hurried {
            store.hurry().map_err(wrong)?;
        }
        let keeper = StoreWriter::new(store, config).map_err(wrong)?;
        let (dir, until, left, behind_max) = (dir.clone(), u64::MAX, false, 0);
        Ok(Some(Feed { dir, file, follower, snapshot, keeper, genesis, until, left, behind_max }))
    }

    /// Leaves what comes after an input.
    pub fn until(self, input: u64) -> Feed {
        Feed { until: input, ..self }
    }

    /// Inputs known to be committed.
    pub fn committed(&self) -> u64 {
        self.follower.committed().saturating_sub(1)
    }

    /// Whether the log has no input beyond those that were taken.
    pub fn is_last(&mut self) -> bool {
        let more = self.step(|_, _| {}).is_ok_and(|count| count > 0);
        !more && !self.left
    }

    /// Records known to be committed that are not in the store.
    pub fn behind(&self) -> u64 {
        let waiting = self.keeper.taken().applied.saturating_sub(self.keeper.stored().applied);
        self.follower.committed().saturating_sub(self.follower.shown()) + waiting
    }

    /// Takes what is there, at most so much at a time, and shows `visit` what each input caused.
    /// Says how many records there were.
    ///
    /// # Errors
    /// What is wrong with either.
    pub fn step(&mut self, mut visit: impl FnMut(&StoreWriter, &Input)) -> Result<usize, Failure> {
        let (keeper, until) = (&mut self.keeper, self.until);
        let (dir, file) = (&self.dir, &self.file);
        let (mut failed, mut left): (Result<(), Failure>, bool) = (Ok(()), self.left);
        let mut count = 0;
        for input in self.snapshot.by_ref().take(AT_ONCE) {
            give((keeper, file), &input, (until, &mut left), &mut visit)?;
            count += 1;
        }
        if count > 0 {
            self.left = left;
            return Ok(count);
        }
        let mut take = |record: Record<'_>| {
            // Whoever leads a group of replicas puts records of its own between the inputs.
            if record.bytes.len() != size_of::<Input>() {
                return Ok(());
            }
            let strange = || on(dir, format!("position {} holds no input", record.position));
            let input = input_of(record.bytes).ok_or_else(strange)?;
            give((keeper, file), &input, (until, &mut left), &mut visit)
        };
        let polled = self.follower.poll(AT_ONCE, |record| {
            if failed.is_ok() {
                failed = take(record);
            }
        });
        self.left = left;
        failed?;
        let count = polled.map_err(|error| on(&self.dir, error))?;
        self.behind_max = self.behind_max.max(self.behind());
        Ok(count)
    }

    /// Goes on until `over` says so; it is told whether nothing more was there.
    ///
    /// # Errors
    /// What is wrong with either.
    pub fn run(
        &mut self,
        poll: Duration,
        over: &mut dyn FnMut(&Feed, bool) -> bool,
    ) -> Result<(), Failure> {
        loop {
            let count = self.step(|_, _| {})?;
            self.keeper.flush().map_err(|error| at(&self.file, error))?;
            if count < AT_ONCE {
                self.check_reach()?;
            }
            if over(self, count < AT_ONCE) {
                return Ok(());
            }
            if count < AT_ONCE {
                std::thread::sleep(poll);
            }
        }
    }

    /// What is in the store the journal must have held: one that ends before that is an older copy.
    fn check_reach(&self) -> Result<(), Failure> {
        let unshown = self.follower.read_to().saturating_sub(self.follower.shown());
        let (held, stored) = (self.keeper.taken().applied + unshown, self.keeper.stored().applied);
        if held >= stored {
            return Ok(());
        }
        let file = self.file.display();
        Err(on(
            &self.dir,
            format!(
                "ends at input {held}, and {file} was fed up to input {stored}: this journal is an older \
                 copy, and what came after it is in the store alone"
            ),
        ))
    }

    /// Closes the store's file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn close(self) -> Result<(), Failure> {
        let (_, store) = self.keeper.into_parts();
        store.close().map_err(|error| at(&self.file, error))
    }
}
