//! Random histories: what a journal is asked to do, a disk that fails, and what must hold after.
//!
//! The model is a list of records. A life plays some of the script on the disk, ends by a crash or
//! at the end of the script, and the next one begins with opening the journal again.

mod buggy;

use journal::{
    Config, DiskFaults, DiskStats, Installed, Journal, JournalError, Marks, SimDisk, Storage, Vote,
};
use types::SplitMix64;

use buggy::Buggy;

/// What is checked at the end of each life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checker {
    /// Everything acknowledged can be read.
    AcknowledgedIsThere,
    /// Everything that can be read was appended, in that place.
    NothingInvented,
    /// Term and chain before the first record are those of the record that stood there.
    BaseIsKnown,
    /// The last of the group's own records is known at every position.
    GroupIsKnown,
    /// A snapshot holds exactly the records up to its position.
    SnapshotIsThePrefix,
    /// The vote is not older than the last one promised.
    VoteIsKept,
    /// After honest faults the journal opens.
    Opens,
}

/// Bugs seeded on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A segment is synced only before its next write.
    AckBeforeSync,
    /// Whoever recovers believes what a torn frame says.
    TornTailAccepted,
    /// The writer of snapshots leaves the last record out.
    SnapshotMissesRecord,
    /// Writes of the vote do nothing.
    VoteForgotten,
    /// Retention drops one segment too many.
    SegmentForgottenTooEarly,
    /// A snapshot from elsewhere is not synced before the log goes on behind it.
    InstalledUnsynced,
    /// What the group's own records said is not told with a snapshot from elsewhere.
    InstalledWithoutGroup,
}

/// One step of a history.
#[derive(Clone, Debug)]
pub enum Step {
    Append(Vec<u8>),
    Flush,
    /// Begin to flush, and go on meanwhile.
    Begin,
    Mark,
    /// Take back so many of the records that are not committed.
    Truncate(u64),
    Commit(u64),
    Snapshot,
    /// Install a snapshot from elsewhere, where the log is equal up to what is committed, or as far
    /// as it goes, and then has so many records more.
    Install(bool, u64),
    Vote,
}

/// A history.
#[derive(Clone, Debug)]
pub struct Script {
    pub seed: u64,
    pub steps: Vec<Step>,
    pub marks: Marks,
    /// Copies are counted elsewhere: suffixes may be taken back.
    pub replicated: bool,
    /// The disk may lie: the journal may refuse.
    pub lies: bool,
    pub fault: Option<Fault>,
}

impl Script {
    pub fn random(seed: u64, steps: u64) -> Script {
        let mut rng = SplitMix64::new(seed ^ 0x5eed);
        let replicated = rng.below(3) == 0;
        let step = |rng: &mut SplitMix64| match rng.below(20) {
            0..=8 => {
                let most = if rng.below(8) == 0 { 1_500 } else { 90 };
                let len = rng.below(most) as usize;
                let mut bytes: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
                if rng.below(6) == 0 {
                    bytes.insert(0, GROUP);
                }
                Step::Append(bytes)
            }
            9..=12 => Step::Flush,
            13 | 14 => Step::Begin,
            15 if replicated => Step::Install(rng.below(2) == 0, rng.below(3)),
            15 => Step::Mark,
            16 if replicated => Step::Truncate(rng.below(4)),
            17 if replicated => Step::Commit(rng.below(5)),
            16 | 17 => Step::Flush,
            18 => Step::Snapshot,
            _ => Step::Vote,
        };
        let marks = if rng.below(2) == 0 { Marks::Behind } else { Marks::BeforeAck };
        let steps = (0..steps).map(|_| step(&mut rng)).collect();
        Script { seed, steps, marks, replicated, lies: false, fault: None }
    }

    fn config(&self) -> Config {
        Config {
            block: 512,
            segment_bytes: 8_192,
            batch_bytes: 3_000,
            marks: self.marks,
            alone: !self.replicated,
            snapshots_kept: 2,
            read_later: self.seed.is_multiple_of(2),
            ..Config::new(77, *b"records of a test, any bytes    ")
        }
    }
}

/// First byte of records that are appended as the group's own.
const GROUP: u8 = 0xFE;

fn is_group(record: &[u8]) -> bool {
    record.first() == Some(&GROUP)
}

/// What the last of the group's own records says.
fn group_of(records: &[(u64, Vec<u8>)]) -> &[u8] {
    let group = records.iter().rfind(|(_, record)| is_group(record));
    group.map_or(&[], |(_, record)| record)
}

/// From one start to the next.
#[derive(Clone, Copy, Default)]
pub struct Life {
    pub faults: DiskFaults,
    pub crash_at: Option<u64>,
}

/// How a history went.
pub struct Outcome {
    pub found: Vec<(Checker, String)>,
    pub refused: Option<JournalError>,
    pub operations: u64,
    pub tails: u64,
    /// Segments that were not read at starts.
    pub unread: u64,
    /// The log was seen to begin after the first record.
    pub began_later: bool,
    pub disk: DiskStats,
}

/// What must be true of the journal.
#[derive(Default)]
struct Model {
    records: Vec<(u64, Vec<u8>)>,
    acknowledged: u64,
    committed: u64,
    /// The last vote promised, and the one asked for after it.
    vote: Vote,
    asked: Vote,
    /// After a truncation that was not acknowledged: what the log held before it.
    before: Option<Vec<(u64, Vec<u8>)>>,
    /// While a snapshot is installed in place of the log: what it stands for.
    elsewhere: Option<Vec<(u64, Vec<u8>)>>,
}

/// Plays a script; it goes on in the next life where it stopped.
pub fn play(script: &Script, lives: &[Life]) -> Outcome {
    let mut disk = SimDisk::new(script.seed);
    let mut model = Model::default();
    let mut outcome = Outcome {
        found: Vec::new(),
        refused: None,
        operations: 0,
        tails: 0,
        unread: 0,
        began_later: false,
        disk: DiskStats::default(),
    };
    let mut steps = script.steps.iter();
    let mut rng = SplitMix64::new(script.seed ^ 0xd1ce);
    for (n, life) in lives.iter().enumerate() {
        disk.set_faults(life.faults);
        if let Some(at) = life.crash_at {
            disk.crash_at(at);
        }
        let alive = live(script, &mut disk, &mut model, &mut steps, &mut rng, &mut outcome);
        if !alive {
            break;
        }
        // What the last life left is looked at without further faults.
        if n + 1 < lives.len() || disk.has_crashed() {
            disk.restart();
        }
    }
    disk.set_faults(DiskFaults::default());
    disk.restart();
    if outcome.refused.is_none() {
        live(script, &mut disk, &mut model, &mut [].iter(), &mut rng, &mut outcome);
    }
    outcome.disk = disk.stats();
    outcome.operations = outcome.disk.operations;
    outcome
}

/// One life; false when the journal refused what is on the disk.
fn live<'a>(
    script: &Script,
    disk: &mut SimDisk,
    model: &mut Model,
    steps: &mut impl Iterator<Item = &'a Step>,
    rng: &mut SplitMix64,
    outcome: &mut Outcome,
) -> bool {
    if script.fault == Some(Fault::TornTailAccepted) {
        believe(disk);
    }
    let buggy = Buggy::new(disk, script.fault);
    let opened = Journal::open(buggy, &script.config());
    let (mut journal, recovery) = match opened {
        Ok(opened) => opened,
        Err(JournalError::Disk(_) | JournalError::Full(_)) => return true,
        Err(error) => {
            if !script.lies {
                outcome.found.push((Checker::Opens, error.to_string()));
            }
            outcome.refused = Some(error);
            return false;
        }
    };
    outcome.tails += u64::from(recovery.tail.is_some());
    let checked = check(script, &mut journal, model, outcome);
    if checked.is_none() || !outcome.found.is_empty() {
        return true;
    }
    for step in steps.by_ref() {
        if act(script, &mut journal, model, step, rng).is_err() {
            return true;
        }
    }
    true
}

/// Compares what the journal found with the model, and takes over what was there beyond it; `None`
/// when the disk failed meanwhile.
fn check<S: Storage>(
    script: &Script,
    journal: &mut Journal<S>,
    model: &mut Model,
    outcome: &mut Outcome,
) -> Option<()> {
    let mut wrong = |checker, what: String| outcome.found.push((checker, what));
    outcome.unread += journal.unread() as u64;
    loop {
        match journal.read_on(900) {
            Ok(true) => break,
            Ok(false) => {}
            Err(JournalError::Disk(_)) => return None,
            Err(error) if script.lies => {
                outcome.refused = Some(error);
                return None;
            }
            Err(error) => {
                wrong(Checker::Opens, error.to_string());
                return None;
            }
        }
    }
    let (first, last) = (journal.first(), journal.last());
    let mut read = Vec::new();
    let mut mixed = 0;
    let known = journal.read(first, last, |record| {
        let bytes = if record.group.is_empty() { record.bytes } else { record.group };
        mixed += u32::from(is_group(bytes) != is_group(record.group));
        read.push((record.term, bytes.to_vec()));
    });
    match known {
        Ok(()) => {}
        Err(JournalError::Disk(_)) => return None,
        Err(error) if script.lies => {
            outcome.refused = Some(error);
            return None;
        }
        Err(error) => wrong(Checker::AcknowledgedIsThere, error.to_string()),
    }
    if mixed > 0 {
        wrong(Checker::NothingInvented, format!("{mixed} are not whose they were"));
    }
    if let Some(elsewhere) = model.elsewhere.take().filter(|all| first == all.len() as u64 + 1) {
        // It counts now, and nothing of the log that was there before.
        (model.acknowledged, model.committed) = (elsewhere.len() as u64, elsewhere.len() as u64);
        model.records = elsewhere;
        model.before = None;
    }
    if last < model.acknowledged {
        let acknowledged = model.acknowledged;
        wrong(Checker::AcknowledgedIsThere, format!("{last} of {acknowledged} acknowledged"));
    }
    let skip = first as usize - 1;
    let equal = |all: &[(u64, Vec<u8>)]| {
        all.get(skip..).and_then(|rest| rest.get(..read.len())) == Some(&read[..])
    };
    if equal(&model.records) {
    } else if model.before.as_deref().is_some_and(equal) {
        model.records = model.before.take().unwrap_or_default();
    } else {
        wrong(Checker::NothingInvented, format!("{} records from {first} differ", read.len()));
    }
    model.before = None;
    outcome.began_later |= first > 1;
    if first > 1 && outcome.found.is_empty() {
        let before = model.records.get(..first as usize - 1).unwrap_or(&[]);
        let due = (before.last().map(|(term, _)| *term), Ok(chain_of(before)));
        // A term of 0 is as good as none.
        let due = (due.0.filter(|term| *term > 0), due.1);
        let found = (journal.term_at(first - 1), journal.chain_at(first - 1));
        if found != due && !script.lies {
            let what = format!("before {first}: {found:?} for {due:?}");
            outcome.found.push((Checker::BaseIsKnown, what));
        }
    }
    if outcome.found.is_empty() && !script.lies {
        groups(journal, model, outcome);
    }
    let mut wrong = |checker, what: String| outcome.found.push((checker, what));
    for info in journal.snapshots().to_vec() {
        let Ok(bytes) = journal.read_snapshot(info.position) else { continue };
        let prefix = model.records.get(..info.position as usize);
        if prefix.map(snapshot_of) != Some(bytes) {
            wrong(Checker::SnapshotIsThePrefix, format!("at position {}", info.position));
        }
    }
    let vote = journal.vote();
    if vote != model.vote && vote != model.asked {
        let lied = script.lies;
        if !lied {
            wrong(Checker::VoteIsKept, format!("{vote:?} after {:?}", model.vote));
        }
    }
    (model.vote, model.asked) = (vote, vote);
    model.records.truncate(last as usize);
    model.acknowledged = last;
    Some(())
}

/// From the oldest snapshot on that the log goes on behind, or from the first record.
fn groups<S: Storage>(journal: &Journal<S>, model: &Model, outcome: &mut Outcome) {
    let first = journal.first();
    let mut snapshots = journal.snapshots().iter().map(|info| info.position);
    let from = if first == 1 { Some(0) } else { snapshots.find(|at| *at + 1 >= first) };
    for position in from.unwrap_or(u64::MAX)..=journal.last() {
        let due = group_of(model.records.get(..position as usize).unwrap_or(&[]));
        let found = journal.group_at(position).unwrap_or(&[]);
        if found != due {
            let what = format!("at {position} of {first}..: {found:?} for {due:?}");
            outcome.found.push((Checker::GroupIsKnown, what));
            return;
        }
    }
}

fn snapshot_of(records: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (term, record) in records {
        bytes.extend_from_slice(&term.to_le_bytes());
        bytes.extend_from_slice(&(record.len() as u64).to_le_bytes());
        bytes.extend_from_slice(record);
    }
    bytes
}

fn act<S: Storage>(
    script: &Script,
    journal: &mut Journal<S>,
    model: &mut Model,
    step: &Step,
    rng: &mut SplitMix64,
) -> Result<(), JournalError> {
    match step {
        Step::Append(bytes) => {
            let term = model.vote.term;
            if is_group(bytes) {
                match journal.append_group(term, bytes) {
                    Err(JournalError::BatchFull) => {
                        flush(journal, model)?;
                        journal.append_group(term, bytes)?;
                    }
                    appended => assert_eq!(appended?, model.records.len() as u64 + 1),
                }
                model.acknowledged = model.acknowledged.max(journal.durable());
                model.records.push((term, bytes.clone()));
                return Ok(());
            }
            match journal.append(term, bytes) {
                Err(JournalError::BatchFull) => {
                    flush(journal, model)?;
                    journal.append(term, bytes)?;
                }
                appended => assert_eq!(appended?, model.records.len() as u64 + 1),
            }
            model.records.push((term, bytes.clone()));
            return Ok(());
        }
        Step::Flush => flush(journal, model)?,
        Step::Begin => {
            let durable = journal.begin_flush()?;
            assert!((model.acknowledged..=model.records.len() as u64).contains(&durable));
            model.acknowledged = durable;
        }
        Step::Mark => journal.write_mark()?,
        Step::Commit(behind) => {
            journal.commit_to(model.acknowledged.saturating_sub(*behind));
            model.committed = journal.committed();
        }
        Step::Truncate(count) => {
            let committed = journal.committed();
            let kept = (model.records.len() as u64).saturating_sub(*count).max(committed);
            flush(journal, model)?;
            if committed > 0 {
                assert_eq!(
                    journal.truncate(committed - 1),
                    Err(JournalError::Position(committed - 1))
                );
            }
            // Asked for, and from now on either may be found.
            model.before = Some(model.records.clone());
            model.records.truncate(kept as usize);
            model.acknowledged = model.acknowledged.min(kept);
            journal.truncate(kept)?;
            model.before = None;
        }
        Step::Snapshot => snapshot(script, journal, model)?,
        Step::Install(differs, more) => install(script, journal, model, (*differs, *more))?,
        Step::Vote => {
            let vote = Vote { term: model.vote.term + rng.below(3), voted_for: rng.below(5) };
            model.asked = vote;
            journal.set_vote(vote)?;
            model.vote = vote;
        }
    }
    Ok(())
}

/// The chain after some records, by what the layout says of it.
fn chain_of(records: &[(u64, Vec<u8>)]) -> u64 {
    let mut chain = types::Digest(0);
    for (term, record) in records {
        chain.fold(*term);
        chain.fold(record.len() as u64 | u64::from(is_group(record)) << 32);
        for piece in record.chunks(8) {
            let mut bytes = [0; 8];
            bytes[..piece.len()].copy_from_slice(piece);
            chain.fold(u64::from_le_bytes(bytes));
        }
    }
    chain.0
}

fn install<S: Storage>(
    script: &Script,
    journal: &mut Journal<S>,
    model: &mut Model,
    (differs, more): (bool, u64),
) -> Result<(), JournalError> {
    let mut all = model.records.clone();
    if differs {
        all.truncate(journal.committed() as usize);
    }
    let replaced = differs || more > 0;
    if replaced {
        let term = model.vote.term + 1;
        all.extend((0..=more).map(|n| (term, vec![0xAB, n as u8])));
    } else {
        // One that this log holds: half of the way to its end.
        all.truncate((journal.committed() as usize + all.len()) / 2);
    }
    let position = all.len() as u64;
    if position == 0 {
        return Ok(());
    }
    let bytes = snapshot_of(&all);
    let term = all.last().map_or(0, |(term, _)| *term);
    let forgets = script.fault == Some(Fault::InstalledWithoutGroup);
    let group = if forgets { &[] } else { group_of(&all) };
    let taken = Installed { position, term, chain: chain_of(&all), group, bytes: &bytes };
    model.elsewhere = replaced.then(|| all.clone());
    match journal.install(&taken) {
        Err(JournalError::Full(_)) => {
            model.elsewhere = None;
            return Ok(());
        }
        installed => installed?,
    }
    assert!(journal.committed() >= position && journal.durable() >= position);
    assert!(journal.first() <= position + 1);
    if replaced {
        assert_eq!((journal.first(), journal.last()), (position + 1, position));
        assert_eq!((journal.term_at(position), journal.chain()), (Some(term), taken.chain));
        (model.records, model.acknowledged, model.elsewhere) = (all, position, None);
    }
    model.acknowledged = model.acknowledged.max(position);
    model.committed = journal.committed();
    Ok(())
}

fn flush<S: Storage>(journal: &mut Journal<S>, model: &mut Model) -> Result<(), JournalError> {
    match journal.flush() {
        Ok(durable) => {
            assert_eq!(durable, model.records.len() as u64);
            model.acknowledged = durable;
            Ok(())
        }
        // No room: what is there stays, and nothing more is acknowledged.
        Err(error) => Err(error),
    }
}

fn snapshot<S: Storage>(
    script: &Script,
    journal: &mut Journal<S>,
    model: &Model,
) -> Result<(), JournalError> {
    let position = journal.committed();
    let records = model.records.get(..position as usize).unwrap_or(&[]);
    let missing = usize::from(script.fault == Some(Fault::SnapshotMissesRecord));
    let taken = snapshot_of(&records[..records.len().saturating_sub(missing)]);
    match journal.write_snapshot(position, &taken) {
        Err(JournalError::Full(_)) => Ok(()),
        written => written,
    }
}

/// What a reader does that trusts a torn frame: makes its checksum fit.
fn believe(disk: &mut SimDisk) {
    let Ok(names) = disk.names() else { return };
    for name in names.iter().filter(|name| name.starts_with("log-")) {
        let Some(bytes) = disk.bytes(name).map(<[u8]>::to_vec) else { continue };
        let number = u64::from_str_radix(&name[4..], 16).unwrap_or(0);
        let mut bytes = bytes;
        let mut at = 512;
        while at + 64 <= bytes.len() && bytes[at..at + 4] == *b"FBJF" {
            let payload = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
            let end = at + (64 + payload).div_ceil(512) * 512;
            if end > bytes.len() {
                break;
            }
            trust(&mut bytes[at..end], number, at as u64);
            at = end;
        }
        disk.put(name, &bytes);
    }
}

/// Makes checksum and chain of a frame fit what is in it.
fn trust(frame: &mut [u8], segment: u64, offset: u64) {
    use types::Digest;
    let word = |frame: &[u8], at: usize| u64::from_le_bytes(frame[at..at + 8].try_into().unwrap());
    let (mut chain, mut at) = (Digest(word(frame, 48)), 64);
    let end = 64 + (word(frame, 8) & 0xffff_ffff) as usize;
    let mut count = 0u32;
    while at + 16 <= end {
        let len = (word(frame, at) & 0xffff_ffff) as usize;
        if at + 16 + len > end {
            break;
        }
        chain.fold(word(frame, at + 8));
        chain.fold(word(frame, at));
        for piece in frame[at + 16..at + 16 + len].chunks(8) {
            let mut bytes = [0; 8];
            bytes[..piece.len()].copy_from_slice(piece);
            chain.fold(u64::from_le_bytes(bytes));
        }
        count += 1;
        at += 16 + len.div_ceil(8) * 8;
    }
    if frame[12] == 1 {
        frame[8..12].copy_from_slice(&(at as u32 - 64).to_le_bytes());
        frame[32..36].copy_from_slice(&count.to_le_bytes());
        frame[56..64].copy_from_slice(&chain.0.to_le_bytes());
    }
    let mut crc = crc32fast::Hasher::new();
    [77, segment, offset].iter().for_each(|word: &u64| crc.update(&word.to_le_bytes()));
    let padded = if frame[12] == 1 { at.div_ceil(512) * 512 } else { frame.len() };
    crc.update(&frame[8..padded]);
    let crc = crc.finalize();
    frame[4..8].copy_from_slice(&crc.to_le_bytes());
}
