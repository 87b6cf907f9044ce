//! An exchange's log in a journal: what its records are, taking it up again, and the thread that
//! writes it.
//!
//! Record 1 says what exchange it is ([`Genesis`]); every further one is an input of the engine, so
//! that position n holds input n - 1. The root gives its inputs to a mailbox; the writer makes all
//! that is there durable with one write and one sync, then tells the root how far. What came
//! meanwhile is the next batch.

use std::path::Path;
use std::time::Duration;

use exchange::{ExchangeConfig, Role};
use journal::{Folder, Journal, JournalError, Recovery};
use net::{ControlError, LoopHandle, Mailbox};
use types::{Input, Nanos, Node};
use zerocopy::TryFromBytes;

use super::health::Health;
use crate::failure::{Failure, on};

/// What the records of such a journal are.
pub const LABEL: [u8; 32] = *b"fairbell: genesis, then inputs  ";
const MAGIC: &[u8; 8] = b"FBELLGEN";
/// How long the writer waits for something to write before it writes the watermark.
const IDLE: Duration = Duration::from_millis(5);
/// How long it waits for room on the disk, or in the root's loop, before it tries again.
const RETRY: Duration = Duration::from_millis(50);
/// The only term there is without replicas.
const TERM: u64 = 1;

/// What exchange a journal is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Genesis {
    /// Version of the rules its inputs are applied under.
    pub rules_version: u32,
    /// Digest of the engine's configuration.
    pub config_digest: u64,
    /// MoldUDP64 and SoupBinTCP session.
    pub session: [u8; 10],
    /// Midnight that ITCH and OUCH times count from.
    pub midnight: Nanos,
}

impl Genesis {
    const LEN: usize = 40;

    /// Of an exchange.
    pub fn of(exchange: &ExchangeConfig) -> Genesis {
        Genesis {
            rules_version: engine::RULES_VERSION,
            config_digest: exchange.engine().digest(),
            session: exchange.session,
            midnight: exchange.midnight,
        }
    }

    /// The first record.
    pub fn bytes(&self) -> [u8; Genesis::LEN] {
        let mut bytes = [0; Genesis::LEN];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&self.rules_version.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.config_digest.to_le_bytes());
        bytes[20..30].copy_from_slice(&self.session);
        bytes[32..].copy_from_slice(&self.midnight.0.to_le_bytes());
        bytes
    }

    /// Reads the first record; `None` when it is no such.
    pub fn read(bytes: &[u8]) -> Option<Genesis> {
        let bytes: &[u8; Genesis::LEN] = bytes.try_into().ok()?;
        let word = |at: usize| {
            let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
            u64::from_le_bytes(*word.unwrap_or(&[0; 8]))
        };
        let mut session = [0; 10];
        session.copy_from_slice(&bytes[20..30]);
        let rules_version = word(8) as u32;
        let (config_digest, midnight) = (word(12), Nanos(word(32)));
        let genesis = Genesis { rules_version, config_digest, session, midnight };
        bytes.starts_with(MAGIC).then_some(genesis)
    }
}

/// The input in a record.
pub fn input_of(record: &[u8]) -> Option<Input> {
    Input::try_read_from_bytes(record).ok()
}

/// A journal opened for an exchange.
pub struct Kept {
    /// The journal, everything in it durable.
    pub journal: Journal<Folder>,
    /// What was found.
    pub recovery: Recovery,
    /// What exchange it is of; `None`: of none yet.
    pub genesis: Option<Genesis>,
    /// Inputs that it holds.
    pub inputs: u64,
}

/// Records read at a time.
const BATCH: u64 = 4_096;

/// The inputs of a journal, read in batches: however many there are, few are in memory.
pub struct Inputs<'a> {
    journal: &'a mut Journal<Folder>,
    next: u64,
    last: u64,
    batch: std::collections::VecDeque<Input>,
    /// Why it ended before the last.
    pub failed: Option<JournalError>,
}

impl<'a> Inputs<'a> {
    /// Those in the records of a range of positions; records that are no inputs are passed over.
    pub fn new(journal: &'a mut Journal<Folder>, next: u64, last: u64) -> Inputs<'a> {
        Inputs { journal, next, last, batch: std::collections::VecDeque::new(), failed: None }
    }
}

impl Iterator for Inputs<'_> {
    type Item = Input;

    fn next(&mut self) -> Option<Input> {
        while self.batch.is_empty() && self.next <= self.last && self.failed.is_none() {
            let (from, to) = (self.next, self.last.min(self.next.saturating_add(BATCH - 1)));
            self.next = to + 1;
            let batch = &mut self.batch;
            let read = self.journal.read(from, to, |record| batch.extend(input_of(record.bytes)));
            self.failed = read.err();
        }
        self.batch.pop_front()
    }
}

/// Opens the journal in a folder, or makes one. `start` becomes the name of a new one.
pub fn open(dir: &Path, settings: &crate::config::Journal, start: Nanos) -> Result<Kept, Failure> {
    let wrong = |error: JournalError| on(dir, super::advice(Some(LABEL), &error));
    let mut folder = settings.folder(dir)?;
    let id = journal::identify(&mut folder).map_err(wrong)?.unwrap_or(start.0);
    let config = settings.settings(id, LABEL);
    let (mut journal, recovery) = Journal::open(folder, &config).map_err(wrong)?;
    if recovery.first > 1 {
        let first = recovery.first;
        return Err(on(dir, format!("the inputs before position {first} are not there")));
    }
    let (mut genesis, mut inputs, mut strange) = (None, 0u64, None);
    journal
        .read(1, recovery.last, |record| match record.position {
            1 => genesis = Genesis::read(record.bytes),
            at => match input_of(record.bytes).filter(|input| input.seq.0 == at - 1) {
                Some(_) => inputs += 1,
                None => strange = strange.or(Some(at)),
            },
        })
        .map_err(wrong)?;
    let strange = strange.or(Some(1).filter(|_| recovery.last > 0 && genesis.is_none()));
    if let Some(at) = strange {
        return Err(on(dir, format!("position {at} is no record of an exchange")));
    }
    Ok(Kept { journal, recovery, genesis, inputs })
}

impl Kept {
    /// Gives an exchange the session and the day of the journal, if there are; refuses another
    /// configuration. A new journal is given them, durably.
    pub fn settle(&mut self, dir: &Path, exchange: &mut ExchangeConfig) -> Result<(), Failure> {
        let Some(genesis) = self.genesis else {
            let genesis = Genesis::of(exchange);
            let appended = self.journal.append(TERM, &genesis.bytes());
            let durable = appended.and_then(|_| self.journal.flush());
            self.genesis = Some(genesis);
            return durable.map(|_| ()).map_err(|error| on(dir, error));
        };
        let own = Genesis::of(exchange);
        if genesis.rules_version != own.rules_version {
            let (theirs, ours) = (genesis.rules_version, own.rules_version);
            return Err(on(dir, format!("written under rules version {theirs}, this is {ours}")));
        }
        if genesis.config_digest != own.config_digest {
            return Err(on(
                dir,
                "written under another configuration of instruments, accounts or limits: go on \
                 with that, or name an empty folder with journal.dir",
            ));
        }
        (exchange.session, exchange.midnight) = (genesis.session, genesis.midnight);
        Ok(())
    }
}

/// Writes what comes through the mailbox until it is closed; tells the root how far it is durable.
/// What comes while the kernel writes a batch (`journal.syncing = "io_uring"`) makes the next one.
/// `health` hears how it goes.
///
/// # Errors
/// The journal's, after which nothing more is durable: the exchange then acknowledges nothing.
pub fn write(
    journal: Journal<Folder>,
    mailbox: &Mailbox,
    root: &LoopHandle<Role>,
    health: &Health,
) -> Result<journal::Stats, JournalError> {
    let written = write_all(journal, mailbox, root, health);
    match &written {
        // At the end what waits for room is in no log, and nobody was told of it.
        Ok(_) | Err(JournalError::Full(_)) => {}
        Err(error) => health.failed(error),
    }
    written
}

fn write_all(
    mut journal: Journal<Folder>,
    mailbox: &Mailbox,
    root: &LoopHandle<Role>,
    health: &Health,
) -> Result<journal::Stats, JournalError> {
    let mut bytes = Vec::new();
    let mut told = journal.durable();
    loop {
        let patience = match (journal.is_writing(), told < journal.durable()) {
            (true, _) => Duration::ZERO,
            (false, true) => RETRY,
            (false, false) => IDLE,
        };
        if !mailbox.take(&mut bytes, patience) {
            break;
        }
        if !bytes.is_empty() {
            append(&mut journal, &bytes, mailbox, health)?;
        } else if journal.is_writing() {
            health.during(|| journal.settle())?;
        } else if told == journal.durable() {
            health.during(|| journal.write_mark())?;
        }
        let durable = journal.durable();
        // A loop that has too much to do hears of it with the next batch, or a little later.
        if told < durable && tell(root, durable) != Err(ControlError::Full) {
            told = durable;
        }
    }
    journal.settle()?;
    if told < journal.durable() {
        // A loop that has ended hears nothing.
        let _ = tell(root, journal.durable());
    }
    journal.write_mark()?;
    Ok(journal.stats())
}

/// Says that everything up to a position is durable; position 1 is the genesis.
fn tell(root: &LoopHandle<Role>, durable: u64) -> Result<(), ControlError> {
    root.call(ExchangeConfig::ROOT, move |role, now, out| {
        role.handle_durable(now, durable - 1, out);
    })
}

/// Appends inputs and begins to write them.
fn append(
    journal: &mut Journal<Folder>,
    bytes: &[u8],
    mailbox: &Mailbox,
    health: &Health,
) -> Result<(), JournalError> {
    for record in bytes.chunks(size_of::<Input>()) {
        match journal.append(TERM, record) {
            Err(JournalError::BatchFull) => {
                begin_flush(journal, mailbox, health)?;
                journal.append(TERM, record)?;
            }
            appended => {
                appended?;
            }
        }
    }
    begin_flush(journal, mailbox, health)
}

/// Begins to flush; where there is no room for another segment, waits until there is or all is over.
fn begin_flush(
    journal: &mut Journal<Folder>,
    mailbox: &Mailbox,
    health: &Health,
) -> Result<(), JournalError> {
    loop {
        match health.during(|| journal.begin_flush()) {
            Err(error @ JournalError::Full(_)) if !mailbox.is_closed() => {
                health.no_room(&error);
                std::thread::sleep(RETRY);
            }
            flushed => {
                flushed?;
                health.has_room();
                return Ok(());
            }
        }
    }
}

/// What went wrong with the journal, if anything did, once its writer has ended.
pub fn written(
    writer: std::thread::ScopedJoinHandle<'_, Result<journal::Stats, journal::JournalError>>,
) -> Option<String> {
    match writer.join() {
        Ok(Ok(_)) => None,
        Ok(Err(error)) => Some(format!("the journal: {error}")),
        Err(_) => Some("the journal's thread panicked".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_genesis_is_read_back_and_nothing_else_panics(
            rules_version: u32, config_digest: u64, session: [u8; 10], midnight: u64,
            junk in proptest::collection::vec(any::<u8>(), 0..80),
        ) {
            let midnight = Nanos(midnight);
            let genesis = Genesis { rules_version, config_digest, session, midnight };
            prop_assert_eq!(Genesis::read(&genesis.bytes()), Some(genesis));
            let _ = (Genesis::read(&junk), input_of(&junk));
        }
    }
}
