//! How often a server was started on a folder, and whether the folder is still the one that it wrote.
//!
//! A folder that was set back to an older copy forgets what its server acknowledged and whom it voted
//! for since; nothing inside it can tell. What a copy can't take with it is what the file system says
//! of its files ([`Stamp`]): that is written down here at every start, and compared at the next one. A
//! folder in which it differs is a copy, and stays that ([`Life::set_back`]) until somebody who knows
//! what the server has promised says so: [`crate::Journal::doubt_from`].
//!
//! Looked at: `life`, `mark` and `vote` by number and when they were made, which files put under the
//! same names don't share; and `place`, which is written once and never again, also by when it was
//! changed last, which files copied over these change. Not found: a whole volume set back below the
//! file system (others may know: [`crate::Journal::peers`]), and a copy from before the folder had a
//! `life`.
//!
//! `life` is a register of twelve words: starts, whether it was set back (1), then the stamps, of
//! `place` all three words, of the others two each, and the server's number (0: not known, as before
//! it was kept). One that can't be read is taken for that of a folder that was set back: nobody knows.

use crate::error::JournalError;
use crate::register::{LIFE, MARK, Register, VOTE};
use crate::storage::{DiskErrorKind, Storage};

/// Number of 64-bit words of the register.
pub(crate) const WORDS: usize = 12;
/// Words of it that are stamps.
const STAMPS: usize = WORDS - 3;
/// The word of the server's number.
const SERVER: usize = WORDS - 1;
/// Name of the file that is written once.
const PLACE: &str = "place";
/// Length of the register's file, bytes.
const PLACE_BYTES: u64 = 4_096;

/// The register, and what it says.
pub(crate) struct Life {
    register: Register<WORDS>,
}

impl Life {
    /// Opens it, or makes one in a folder that has none; says so when the folder is a copy. Durable on
    /// return, with one start more. `server`: whose folder it has to be, and is from now on; 0: anybody's.
    pub(crate) fn begin(
        storage: &mut impl Storage,
        journal: u64,
        server: u64,
    ) -> Result<Life, JournalError> {
        let mut life = Life::find(storage, journal)?;
        let of = &mut life.register.words[SERVER];
        match (*of, server) {
            (_, 0) => {}
            (0, server) => *of = server,
            (of, server) if of == server => {}
            (of, server) => return Err(JournalError::Server { of, server }),
        }
        life.compare(storage)?;
        let [lives, set_back, ..] = life.register.words;
        life.write(storage, lives + 1, set_back, true)?;
        Ok(life)
    }

    fn find(storage: &mut impl Storage, journal: u64) -> Result<Life, JournalError> {
        let register = match Register::open(storage, LIFE, Some(journal)) {
            Ok(opened) => opened.register,
            Err(JournalError::Disk(error)) if error.kind == DiskErrorKind::Missing => {
                Register::create(storage, LIFE, journal, [0; WORDS]).map_err(JournalError::full)?
            }
            // Nobody knows whether it is a copy.
            Err(JournalError::Register(_)) => {
                let mut words = [0; WORDS];
                words[1] = 1;
                Register::create(storage, LIFE, journal, words).map_err(JournalError::full)?
            }
            Err(error) => return Err(error),
        };
        Ok(Life { register })
    }

    /// Compares the stamps that were written down with what the file system says.
    fn compare(&mut self, storage: &mut impl Storage) -> Result<(), JournalError> {
        let known = self.stamps();
        if known == [0; STAMPS] {
            return Ok(());
        }
        let is = match stamps(storage) {
            Ok(is) => is,
            // A file that was left out is none that was written here.
            Err(JournalError::Disk(error)) if error.kind == DiskErrorKind::Missing => {
                [u64::MAX; STAMPS]
            }
            Err(error) => return Err(error),
        };
        let differs = |(known, is): (&u64, &u64)| *known != 0 && *is != 0 && known != is;
        if known.iter().zip(&is).any(differs) {
            self.register.words[1] = 1;
        }
        Ok(())
    }

    fn stamps(&self) -> [u64; STAMPS] {
        let [_, _, stamps @ .., _] = self.register.words;
        stamps
    }

    fn write(
        &mut self,
        storage: &mut impl Storage,
        lives: u64,
        set_back: u64,
        stamped: bool,
    ) -> Result<(), JournalError> {
        let mut words = [0; WORDS];
        (words[0], words[1], words[SERVER]) = (lives, set_back, self.register.words[SERVER]);
        if stamped {
            let has = storage.names()?.iter().any(|name| name == PLACE);
            if !has {
                crate::whole::put(storage, PLACE, PLACE_BYTES, |_, _| Ok(()))
                    .map(|file| storage.close(file))?;
            }
            words[2..SERVER].copy_from_slice(&stamps(storage)?);
        }
        Ok(self.register.write_both(storage, words)?)
    }

    /// Prepares a folder for changes by a program that is not its server: whether the folder is a
    /// copy stays known, although its files may change.
    pub(crate) fn let_change(
        storage: &mut impl Storage,
        journal: u64,
    ) -> Result<Life, JournalError> {
        let mut life = Life::find(storage, journal)?;
        life.compare(storage)?;
        let [lives, set_back, ..] = life.register.words;
        life.write(storage, lives, set_back, false)?;
        Ok(life)
    }

    /// Makes the register of a folder that was begun anew, with so many starts before.
    pub(crate) fn found(
        storage: &mut impl Storage,
        journal: u64,
        lives: u64,
    ) -> Result<(), JournalError> {
        let mut words = [0; WORDS];
        words[0] = lives;
        let made = Register::create(storage, LIFE, journal, words).map_err(JournalError::full)?;
        made.close(storage);
        Ok(())
    }

    /// Whether a folder that has the register is a copy; changes nothing.
    pub(crate) fn look(storage: &mut impl Storage, journal: u64) -> Result<bool, JournalError> {
        let register = match Register::open(storage, LIFE, Some(journal)) {
            Err(JournalError::Register(_)) => return Ok(true),
            opened => opened?.register,
        };
        let mut life = Life { register };
        life.compare(storage)?;
        Ok(life.set_back())
    }

    /// Starts so far, this one included.
    pub(crate) fn lives(&self) -> u64 {
        self.register.words[0]
    }

    /// Whether the folder is a copy, and it is not known yet what its server may have promised
    /// since.
    pub(crate) fn set_back(&self) -> bool {
        self.register.words[1] != 0
    }

    /// Says that it is one, or that this is over; durable on return.
    pub(crate) fn say(
        &mut self,
        storage: &mut impl Storage,
        set_back: bool,
    ) -> Result<(), JournalError> {
        let mut words = self.register.words;
        words[1] = u64::from(set_back);
        Ok(self.register.write_both(storage, words)?)
    }
}

/// Stamps of the files that are watched, as the file system has them.
fn stamps(storage: &mut impl Storage) -> Result<[u64; STAMPS], JournalError> {
    let place = storage.stamp(PLACE)?;
    let mut stamps = [0; STAMPS];
    stamps[..3].copy_from_slice(&[place.number, place.made_ns, place.changed_ns]);
    for (name, words) in [LIFE, MARK, VOTE].iter().zip(stamps[3..].chunks_mut(2)) {
        let of = storage.stamp(name)?;
        words.copy_from_slice(&[of.number, of.made_ns]);
    }
    Ok(stamps)
}
