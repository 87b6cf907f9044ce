//! A store beside each replica, asked all the time while leaders die, and journals read meanwhile on the
//! disks of replicas that run; what was answered is held against the log that is left.
//!
//! The log is what the group committed. An answer says up to which input its store held, so it has to be the
//! one that a store gives which is fed with so many inputs of that log: nothing that was taken back, nothing
//! twice. An export has to be the beginning of that log. No question may fail, whoever is dead: a store
//! whose replica was killed is asked like the others.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use engine::log_file::LogReader;
use serde::Serialize;
use store::{Filter, Found, OrderLine, Progress, Query, StoreError, StoreWriter, TradeLine};
use types::{Digest, Input};
use zerocopy::IntoBytes;

use super::roots::{folder, journal};
use super::site::Artifacts;
use fairbell::store::Places;
use fairbell::store::follow::{Feed, Writing};
use host::config::Config;
use host::failure::{Failure, on};
use host::journal::read;
use host::sockets::io;

/// Between two rounds of questions, and of readings.
const ASK_EVERY: Duration = Duration::from_millis(20);
/// How long stores may take to come at the beginning.
const PATIENCE: Duration = Duration::from_secs(20);
/// Rows of a kind in an answer.
const ROWS: u64 = 20;
/// Rounds from one question by the command to the next.
const BY_COMMAND: u64 = 10;
/// A copy of a folder that is written to may be torn: so often it is made again.
const COPIES: u32 = 20;

/// What a store answered.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Answer {
    held: Progress,
    orders: Vec<OrderLine>,
    trades: Vec<TradeLine>,
}

impl Answer {
    fn of(file: &Path) -> Result<Answer, StoreError> {
        let query = Query::open(file)?;
        let held = query.freeze()?;
        let last = Filter { limit: Some(ROWS), ..Filter::default() };
        let (mut orders, mut trades) = (Vec::new(), Vec::new());
        query.orders(&last, |line| orders.push(line))?;
        query.trades(&last, |line| trades.push(line))?;
        Ok(Answer { held, orders, trades })
    }
}

/// The beginning of a log: inputs, and the digest of all their bytes.
type Beginning = (u64, u64);

fn fold(digest: &mut Digest, input: &Input) {
    let (words, _) = input.as_bytes().as_chunks::<8>();
    words.iter().for_each(|word| digest.fold(u64::from_le_bytes(*word)));
}

fn beginning<'a>(inputs: impl IntoIterator<Item = &'a Input>) -> Beginning {
    let (mut count, mut digest) = (0, Digest::default());
    for input in inputs {
        fold(&mut digest, input);
        count += 1;
    }
    (count, digest.0)
}

/// What was asked and read, and what failed.
#[derive(Default)]
struct Seen {
    answers: Vec<Answer>,
    asked: u64,
    exports: Vec<Beginning>,
    copies: u64,
    torn: u64,
    failed: u64,
    first: Option<String>,
    went_back: u64,
}

impl Seen {
    fn note<T>(&mut self, what: &Path, outcome: Result<T, String>) -> Option<T> {
        outcome.map_err(|why| self.fail(format!("{}: {why}", what.display()))).ok()
    }

    fn fail(&mut self, why: String) {
        self.failed += 1;
        self.first.get_or_insert(why);
    }
}

/// What came of it.
#[derive(Serialize, Clone, PartialEq, Eq, Debug, Default)]
pub struct Stores {
    /// Questions to stores, over all replicas.
    asked: u64,
    /// Inputs of the log up to which stores held when they answered, different ones.
    positions: u64,
    /// Journals of replicas that ran, exported and checked.
    exports: u64,
    /// Copies of their folders, made meanwhile and exported.
    copies: u64,
    /// Copies that were torn and made again.
    torn: u64,
    /// Questions and readings that failed.
    failed: u64,
    /// The first of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_failed: Option<String>,
    /// Answers and exports that the log does not give.
    uncommitted: u64,
    /// Answers of a store that held less than before.
    went_back: u64,
    /// Rows of all stores at the end, and in how many they differ from those that the log gives.
    rows: u64,
    differences: u64,
}

impl Stores {
    /// Whether every question was answered by what is committed, and all stores are equal.
    pub fn hold(&self) -> bool {
        let wrong = [self.failed, self.uncommitted, self.went_back, self.differences];
        wrong == [0; 4] && self.asked > 0 && self.exports > 0 && self.copies > 0 && self.rows > 0
    }

    /// In lines.
    pub fn print(&self) {
        println!(
            "  stores: {} questions at {} inputs, {} journals read, {} of them copies; failed {}, \
             uncommitted {}, {} of {} rows differ",
            self.asked,
            self.positions,
            self.exports + self.copies,
            self.copies,
            self.failed,
            self.uncommitted,
            self.differences,
            self.rows
        );
        self.first_failed.iter().for_each(|why| println!("  failed: {why}"));
    }
}

/// Where a replica has its store.
fn store_of(dir: &Path, number: usize) -> PathBuf {
    folder(dir, number).join("out/store.db")
}

/// Whoever asks, and whoever reads.
pub struct Askers {
    over: Arc<AtomicBool>,
    threads: [JoinHandle<Seen>; 2],
}

impl Askers {
    /// Begins when all stores are there.
    ///
    /// # Errors
    /// One does not come.
    pub fn start(dir: &Path, replicas: usize) -> Result<Askers, Failure> {
        let files: Vec<PathBuf> = (0..replicas).map(|number| store_of(dir, number)).collect();
        let folders: Vec<PathBuf> = (0..replicas).map(|number| journal(dir, number)).collect();
        let since = Instant::now();
        while let Some(file) = files.iter().find(|file| Answer::of(file).is_err()) {
            if since.elapsed() > PATIENCE {
                return Err(on(file, "no replica makes it"));
            }
            std::thread::sleep(ASK_EVERY);
        }
        let program = std::env::current_exe().map_err(io)?;
        let over = Arc::new(AtomicBool::new(false));
        let (first, second) = (Arc::clone(&over), Arc::clone(&over));
        let (asking, reading, scratch) = (program.clone(), program, dir.join("read"));
        let threads = [
            std::thread::spawn(move || ask(&asking, &files, &first)),
            std::thread::spawn(move || read_all(&reading, (&folders, &scratch), &second)),
        ];
        Ok(Askers { over, threads })
    }

    /// Ends; all stores may be fed to their end now.
    ///
    /// # Errors
    /// A thread panicked.
    pub fn end(self) -> Result<Asked, Failure> {
        self.over.store(true, Ordering::Relaxed);
        let panicked = |_| Failure::Run("who asks the stores panicked".to_string());
        let [asking, reading] = self.threads;
        Ok(Asked(asking.join().map_err(panicked)?, reading.join().map_err(panicked)?))
    }
}

fn command(program: &Path, args: &[&str], paths: &[&Path]) -> Result<Output, String> {
    let output = Command::new(program).args(args).args(paths).output();
    let output = output.map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(output),
        false => Err(format!("{}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr))),
    }
}

fn ask(program: &Path, files: &[PathBuf], over: &AtomicBool) -> Seen {
    let (mut seen, mut before) = (Seen::default(), vec![0; files.len()]);
    for round in 0.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        for (file, before) in files.iter().zip(&mut before) {
            seen.asked += 1;
            let answer = Answer::of(file).map_err(|error| error.to_string());
            let Some(answer) = seen.note(file, answer) else { continue };
            seen.went_back += u64::from(answer.held.applied < *before);
            *before = answer.held.applied;
            seen.answers.push(answer);
        }
        if let Some(file) =
            files.get(round as usize % files.len()).filter(|_| round % BY_COMMAND == 0)
        {
            seen.asked += 1;
            let args = ["query", "orders", "--json", "--limit", "5", "--file"];
            let answer = command(program, &args, &[file]).and_then(|output| {
                let document: Result<serde_json::Value, _> = serde_json::from_slice(&output.stdout);
                document.map_err(|error| error.to_string())
            });
            seen.note(file, answer);
        }
        std::thread::sleep(ASK_EVERY);
    }
    seen
}

/// Exports, checks and copies the journals of replicas, one after another.
fn read_all(program: &Path, (folders, to): (&[PathBuf], &Path), over: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    let made = std::fs::create_dir_all(to).map_err(|error| error.to_string());
    seen.note(to, made);
    for dir in folders.iter().cycle() {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let verified = command(program, &["journal", "verify", "--json"], &[dir]);
        seen.note(dir, verified);
        let log = to.join("day.log");
        let exported = command(program, &["journal", "export"], &[dir, Path::new("--out"), &log]);
        let exported = exported.and_then(|_| logged(&log));
        let exported = seen.note(dir, exported);
        seen.exports.extend(exported);
        copied(dir, &to.join("copy"), &mut seen);
        std::thread::sleep(ASK_EVERY);
    }
    let _ = std::fs::remove_dir_all(to);
    seen
}

/// What an input log holds.
fn logged(log: &Path) -> Result<Beginning, String> {
    let file = std::fs::File::open(log).map_err(|error| error.to_string())?;
    let reader =
        LogReader::new(std::io::BufReader::new(file)).map_err(|error| error.to_string())?;
    let inputs: Result<Vec<Input>, _> = reader.collect();
    Ok(beginning(&inputs.map_err(|error| error.to_string())?))
}

/// Copies a folder as it is, the watermark first: what that says is there is copied after it. A frame may be
/// caught half written, and a file go meanwhile; then it is copied again.
fn copied(dir: &Path, to: &Path, seen: &mut Seen) {
    let mut why = String::new();
    for _ in 0..COPIES {
        let _ = std::fs::remove_dir_all(to);
        let read = copy(dir, to).map_err(|error| error.to_string()).and_then(|()| {
            let mut inputs = Vec::new();
            let each = |input: &Input| {
                inputs.push(*input);
                Ok(())
            };
            read::inputs(to, |_| Ok(()), each).map_err(|error| error.to_string())?;
            Ok(beginning(&inputs))
        });
        match read {
            Ok(held) => {
                seen.copies += 1;
                seen.exports.push(held);
                return;
            }
            Err(error) => (seen.torn, why) = (seen.torn + 1, error),
        }
    }
    seen.fail(format!("a copy of {}: {why}", dir.display()));
}

fn copy(dir: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            names.push(entry.file_name());
        }
    }
    names.sort_by_key(|name| (name != "mark", name.clone()));
    names.iter().try_for_each(|name| std::fs::copy(dir.join(name), to.join(name)).map(drop))
}

/// What was asked and read.
pub struct Asked(Seen, Seen);

impl Asked {
    /// Holds it, and the stores at their ends, against the log on a replica's disk.
    ///
    /// # Errors
    /// The log or a store can't be read.
    pub fn judge(self, left: &Artifacts, config: &Config) -> Result<Stores, Failure> {
        let Asked(asking, reading) = self;
        let one = left.members.first().copied().unwrap_or(0);
        let (journal, file) = (journal(&left.dir, one), left.dir.join("due.db"));
        let mut inputs = Vec::new();
        read::inputs(
            &journal,
            |_| Ok(()),
            |input| {
                inputs.push(*input);
                Ok(())
            },
        )?;
        let places = Places { config: config.clone(), journal, store: (&file).into() };
        let feed = Feed::open(&places, Writing::Hurried)?;
        let mut writer = feed.ok_or_else(|| on(&places.journal, read::NO_LOG))?.keeper;
        let mut found = Stores {
            asked: asking.asked,
            exports: reading.exports.len() as u64 - reading.copies,
            copies: reading.copies,
            torn: reading.torn,
            failed: asking.failed + reading.failed,
            first_failed: asking.first.or(reading.first),
            went_back: asking.went_back,
            ..Stores::default()
        };
        let mut answers = asking.answers;
        answers.sort_by_key(|answer| answer.held.applied);
        found.positions = answers.chunk_by(|a, b| a.held.applied == b.held.applied).count() as u64;
        let wrong = |error: StoreError| on(&file, error);
        found.uncommitted = uncommitted(&answers, (&mut writer, &file), &inputs).map_err(wrong)?
            + strange(&reading.exports, &inputs);
        inputs.iter().try_for_each(|input| writer.take(input).map(drop)).map_err(wrong)?;
        writer.flush().map_err(wrong)?;
        let due = Query::open(&file).map_err(wrong)?;
        for number in &left.members {
            let file = store_of(&left.dir, *number);
            let store = Query::open(&file).map_err(|error| on(&file, error))?;
            let mut into = Found::keeping(1);
            store::differences(&due, &store, &mut into).map_err(|error| on(&file, error))?;
            let held = store.progress().map_err(|error| on(&file, error))?;
            found.rows += into.rows;
            found.differences += into.count + u64::from(held != writer.stored());
        }
        drop((due, writer));
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{end}", file.display()));
        }
        Ok(found)
    }
}

/// Answers, by the inputs up to which they hold, that a store does not give which is fed with so many.
fn uncommitted(
    answers: &[Answer],
    (writer, file): (&mut StoreWriter, &Path),
    inputs: &[Input],
) -> Result<u64, StoreError> {
    let (mut wrong, mut inputs) = (0, inputs.iter());
    for answer in answers {
        while writer.taken().applied < answer.held.applied {
            let Some(input) = inputs.next() else { break };
            writer.take(input)?;
        }
        writer.flush()?;
        wrong += u64::from(Answer::of(file)? != *answer);
    }
    Ok(wrong)
}

/// Exports that are not the beginning of the log.
fn strange(exports: &[Beginning], inputs: &[Input]) -> u64 {
    let (mut digest, mut digests) = (Digest::default(), vec![0]);
    for input in inputs {
        fold(&mut digest, input);
        digests.push(digest.0);
    }
    let is_strange = |(count, digest): &&Beginning| digests.get(*count as usize) != Some(digest);
    exports.iter().filter(is_strange).count() as u64
}

#[cfg(test)]
mod tests {
    use store::{Origin, Store};

    use super::*;
    use crate::log::{Generated, generated};

    fn writer(file: &Path) -> StoreWriter {
        let config = generated::config();
        let origin = Origin {
            rules_version: engine::RULES_VERSION,
            config_digest: config.digest(),
            log: 1,
            session: "DRILL".to_string(),
            midnight: 0,
        };
        let store = Store::open(file, &origin, &[], &config.instruments).expect("a store");
        StoreWriter::new(store, config).expect("a store")
    }

    #[test]
    fn an_answer_or_an_export_that_the_log_does_not_give_is_counted() {
        let dir = std::env::temp_dir().join(format!("fairbell-asked-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).expect("a folder");
        let inputs: Vec<Input> = Generated::new(7, 400).take(400).collect();
        let (file, due) = (dir.join("store.db"), dir.join("due.db"));
        let mut of = writer(&file);
        let mut answers = Vec::new();
        for (input, number) in inputs.iter().zip(1..) {
            of.take(input).expect("the next one");
            if number % 50 == 0 {
                of.flush().expect("written");
                answers.push(Answer::of(&file).expect("it answers"));
            }
        }
        assert!(answers.iter().any(|answer| !answer.trades.is_empty()), "nothing to see");
        assert_eq!(uncommitted(&answers, (&mut writer(&due), &due), &inputs).expect("asked"), 0);
        // An order of another leader's in the place of one, and a digest of other reports.
        let last = answers[7].orders.last_mut().expect("an order");
        last.user_ref += 1;
        answers[3].held.reports_digest ^= 1;
        std::fs::remove_file(&due).expect("removed");
        assert_eq!(uncommitted(&answers, (&mut writer(&due), &due), &inputs).expect("asked"), 2);
        let whole = beginning(&inputs);
        let part = beginning(&inputs[..100]);
        assert_eq!(strange(&[whole, part, (0, 0)], &inputs), 0);
        assert_eq!(strange(&[(part.0, whole.1), (401, whole.1)], &inputs), 2);
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
