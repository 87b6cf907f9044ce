//! From the journal on disk into the store: opening both, and going on while there is more.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use engine::Config;
use store::{Account, Origin, Place, Store, StoreWriter};
use types::Input;

use super::{Places, at};
use host::failure::{Failure, on};
use host::journal::kept::Genesis;
use host::journal::reader::InputReader;

/// Records taken from the journal at a time.
const AT_ONCE: usize = 1 << 16;
/// Looks at all folders before it ends, while somebody goes on writing them.
const ROUNDS: usize = 8;
/// So long a replica's folder may hold less than the store was fed with: another one was read then, and
/// this one gets it from its group.
const LAGS: Duration = Duration::from_secs(10);

/// Between two looks whether somebody else still feeds a store.
const STAND_BY: Duration = Duration::from_millis(500);
const FED_ELSEWHERE: &str = "somebody else feeds it";
/// What a follower says of a store that was made anew.
pub(super) const REPLACED: &str =
    "the file has gone, or another one is in its place: it is opened anew";

/// How the store is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writing {
    /// It may be asked at any time, and survives whatever happens.
    Steady,
    /// It counts only once it is whole.
    Hurried,
}

/// How the reader is asked for more.
type Way = fn(
    &mut InputReader,
    usize,
    &mut dyn FnMut(&Input) -> Result<(), Failure>,
) -> Result<usize, Failure>;

/// What became of opening.
enum Opened {
    Feed(Box<Feed>),
    NoLog,
    FedElsewhere,
}

/// A journal on its way into a store.
pub struct Feed {
    place: Place,
    reader: InputReader,
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
    /// Since when the journal holds less than the store.
    lags: Option<Instant>,
}

/// The engine's configuration that a journal was written under.
fn engine_config(places: &Places, genesis: &Genesis) -> Result<Config, Failure> {
    let known = host::deployment::engine_configs(&places.config);
    let header = (genesis.rules_version, genesis.config_digest);
    host::deployment::written_under(&known, header).map_err(|why| on(&places.journal, why))
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

impl Feed {
    /// Opens both; `None` when there is no log of an exchange yet.
    ///
    /// # Errors
    /// What is wrong with either; somebody else feeds the store.
    pub fn open(places: &Places, writing: Writing) -> Result<Option<Feed>, Failure> {
        match Feed::look(places, writing)? {
            Opened::Feed(feed) => Ok(Some(*feed)),
            Opened::NoLog => Ok(None),
            Opened::FedElsewhere => Err(on(Path::new(&places.store.to_string()), FED_ELSEWHERE)),
        }
    }

    /// Opens both for feeding while the exchange goes on: waits until there is a log, and until nobody else
    /// feeds the store. `None` when `over` was set before. `told` is given a line when it has to wait for
    /// another one.
    ///
    /// # Errors
    /// What is wrong with either.
    pub fn wait(
        places: &Places,
        over: &AtomicBool,
        mut told: impl FnMut(&str),
    ) -> Result<Option<Feed>, Failure> {
        let poll = Duration::from_millis(places.config.store.poll_ms);
        let mut stands_by = false;
        loop {
            match Feed::look(places, Writing::Steady)? {
                Opened::Feed(feed) => return Ok(Some(*feed)),
                _ if over.load(Ordering::Relaxed) => return Ok(None),
                Opened::NoLog => std::thread::sleep(poll),
                Opened::FedElsewhere => {
                    if !std::mem::replace(&mut stands_by, true) {
                        told(&format!("{}: {FED_ELSEWHERE}; stands by", places.store));
                    }
                    std::thread::sleep(poll.max(STAND_BY));
                }
            }
        }
    }

    fn look(places: &Places, writing: Writing) -> Result<Opened, Failure> {
        let mut reader = InputReader::of(&places.journal, places.of_group());
        let Some(genesis) = reader.genesis()? else { return Ok(Opened::NoLog) };
        let config = engine_config(places, &genesis)?;
        let origin = Origin {
            rules_version: genesis.rules_version,
            config_digest: genesis.config_digest,
            log: reader.id(),
            session: String::from_utf8_lossy(&genesis.session).trim_end().to_string(),
            midnight: genesis.midnight.0,
        };
        let place = places.store.clone();
        let parent = place.file().and_then(Path::parent);
        if let Some(folder) = parent.filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|error| on(folder, error))?;
        }
        let wrong = |error| at(&place, error);
        let instruments = &config.instruments;
        let store = Store::open(&place, &origin, &accounts(places), instruments).map_err(wrong)?;
        if !store.claim().map_err(wrong)? {
            return Ok(Opened::FedElsewhere);
        }
        if writing == Writing::Hurried {
            store.hurry().map_err(wrong)?;
        }
        let keeper = StoreWriter::new(store, config).map_err(wrong)?;
        let (until, left, behind_max, lags) = (u64::MAX, false, 0, None);
        Ok(Opened::Feed(Box::new(Feed {
            place,
            reader,
            keeper,
            genesis,
            until,
            left,
            behind_max,
            lags,
        })))
    }

    /// Leaves what comes after an input.
    pub fn until(self, input: u64) -> Feed {
        Feed { until: input, ..self }
    }

    /// Inputs known to be committed, about.
    pub fn committed(&self) -> u64 {
        self.reader.committed().saturating_sub(1)
    }

    /// Whether the log has no input beyond those that were taken.
    pub fn is_last(&mut self) -> bool {
        let more = self.step_anywhere(|_, _| {}).is_ok_and(|count| count > 0);
        !more && !self.left
    }

    /// Records known to be committed that are not in the store.
    pub fn behind(&self) -> u64 {
        let waiting = self.keeper.taken().applied.saturating_sub(self.keeper.stored().applied);
        self.reader.behind() + waiting
    }

    /// Takes what is there, at most so much at a time, and shows `visit` what each input caused.
    /// Says how many records there were.
    ///
    /// # Errors
    /// What is wrong with either.
    pub fn step(&mut self, visit: impl FnMut(&StoreWriter, &Input)) -> Result<usize, Failure> {
        self.take(visit, InputReader::poll)
    }

    /// As [`Feed::step`]; with replicas, what any of them has.
    ///
    /// # Errors
    /// As there.
    pub fn step_anywhere(
        &mut self,
        mut visit: impl FnMut(&StoreWriter, &Input),
    ) -> Result<usize, Failure> {
        match self.step(&mut visit)? {
            0 => self.take(visit, InputReader::look_around),
            count => Ok(count),
        }
    }

    /// Takes what is there by one of the reader's ways.
    fn take(
        &mut self,
        mut visit: impl FnMut(&StoreWriter, &Input),
        way: Way,
    ) -> Result<usize, Failure> {
        let (keeper, place, until, left) =
            (&mut self.keeper, &self.place, self.until, &mut self.left);
        let mut give = |input: &Input| {
            if input.seq.0 > until {
                *left = true;
            } else if keeper.take(input).map_err(|error| at(place, error))? {
                visit(keeper, input);
            }
            Ok(())
        };
        let count = way(&mut self.reader, AT_ONCE, &mut give)?;
        self.behind_max = self.behind_max.max(self.behind());
        Ok(count)
    }

    /// What there is to say since this was asked last: which replica's folder feeds the store now, and
    /// why.
    pub fn take_notices(&mut self) -> Vec<String> {
        self.reader.take_notices()
    }

    /// Goes on until `over` says so; it is told whether nothing more was there. Before it ends all
    /// folders are looked at.
    ///
    /// # Errors
    /// What is wrong with either.
    pub fn run(
        &mut self,
        poll: Duration,
        over: &mut dyn FnMut(&mut Feed, bool) -> bool,
    ) -> Result<(), Failure> {
        loop {
            let count = self.step(|_, _| {})?;
            self.keeper.flush().map_err(|error| at(&self.place, error))?;
            let all = count < AT_ONCE;
            if over(self, all) {
                return if all { self.end() } else { Ok(()) };
            }
            if all {
                self.check_reach(false)?;
                std::thread::sleep(poll);
            }
        }
    }

    /// Takes what other replicas have beyond that, if there are any.
    fn end(&mut self) -> Result<(), Failure> {
        let mut few = 0;
        while few < ROUNDS {
            match self.take(|_, _| {}, InputReader::look_around)? {
                0 => break,
                count => few += usize::from(count < AT_ONCE),
            }
        }
        self.keeper.flush().map_err(|error| at(&self.place, error))?;
        self.check_reach(true)
    }

    /// What is in the store the journal must have held: one that ends before that is an older copy. A
    /// replica's may get it from its group, if there is time.
    fn check_reach(&mut self, ends: bool) -> Result<(), Failure> {
        let stored = self.keeper.stored().applied;
        let held = self.keeper.taken().applied + self.reader.unread();
        if held >= stored {
            self.lags = None;
            return Ok(());
        }
        let replica = self.reader.is_replica();
        let since = *self.lags.get_or_insert_with(Instant::now);
        if replica && !ends && since.elapsed() < LAGS {
            return Ok(());
        }
        let file = &self.place;
        let or = if replica { ", or it lags: name another replica's with --journal" } else { "" };
        Err(on(
            self.reader.dir(),
            format!(
                "ends at input {held}, and {file} was fed up to input {stored}: this journal is an older \
                 copy, and what came after it is in the store alone{or}"
            ),
        ))
    }

    /// Closes the store.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn close(self) -> Result<(), Failure> {
        let (_, store) = self.keeper.into_parts();
        store.close().map_err(|error| at(&self.place, error))
    }
}
