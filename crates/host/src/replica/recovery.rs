//! Where too few replicas are whole to elect anybody, an operator says whose log counts.
//!
//! Done to the folder of each replica in doubt, while it does not run: its own log is set aside, and from then
//! on it may elect that one and nobody else, until it has the log of that. What can't be proved is said
//! first, and nothing is done before the operator takes it on himself.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use journal::{Folder, FolderConfig, JournalError, Promises};
use serde_json::{Value, json};

use crate::failure::{Failure, on};

/// What an operator wants.
#[derive(Clone, Debug)]
pub struct Order {
    /// The replica whose folder this is: its number, and what people call it.
    pub own: (u8, String),
    /// The one whose log counts.
    pub from: (u8, String),
    /// The folder of the journal of `own`.
    pub dir: PathBuf,
    /// The folder of the journal of `from`, if it is on this machine: to say what it lacks.
    pub compare: Option<PathBuf>,
    /// Do it, whatever is lost by it.
    pub accept_loss: bool,
}

/// What was done.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// Lines for people.
    pub text: String,
    /// The same for machines.
    pub data: Value,
}

impl Order {
    /// Does it, or says what can't be proved.
    ///
    /// # Errors
    /// A folder that is whole, in use or none; what can't be proved, without the operator's word.
    pub fn run(&self) -> Result<Recovered, Failure> {
        let dir = &self.dir;
        if !dir.is_dir() {
            return Err(on(dir, "no such folder"));
        }
        let mut folder = open(dir)?;
        let found = journal::promises(&mut folder).map_err(|error| on(dir, error))?;
        let Some(why) = doubt(&mut folder, &found).map_err(|error| on(dir, error))? else {
            let why = "is whole, and in no doubt: it elects as it is; nothing was changed";
            return Err(on(dir, why));
        };
        let there = self.compare.as_deref().filter(|_| self.own.0 != self.from.0);
        let there = there.map(last).transpose()?;
        let unproved = self.unproved(&found, there);
        self.ask(&why, &unproved)?;
        let ends = (u64::from(self.own.0), u64::from(self.from.0));
        let done = journal::yield_to(&mut folder, ends).map_err(|error| on(dir, error))?;
        let aside =
            format!("set aside   {} files, as {}/damaged-*\n", done.aside.len(), dir.display());
        Ok(self.told(
            &why,
            &unproved,
            &aside,
            json!({
                "doubt": why,
                "held": done.held,
                "compared_with": there,
                "unproved": unproved,
                "doubt_term": done.doubt,
                "set_aside": done.aside,
            }),
        ))
    }

    /// Makes the journal `id` of a replica whose disk is gone, in an empty folder, or says what can't be
    /// proved.
    ///
    /// # Errors
    /// A folder with a journal in it, or in use; the replica's own log was the one that counts; what can't
    /// be proved, without the operator's word.
    pub fn begin(&self, id: u64) -> Result<Recovered, Failure> {
        let dir = &self.dir;
        let ((_, own), (_, from)) = (&self.own, &self.from);
        if self.own.0 == self.from.0 {
            return Err(Failure::Usage(format!("{own}: the disk whose log counts is not gone")));
        }
        crate::files::folder(dir)?;
        let mut folder = open(dir)?;
        let holds = journal::identify(&mut folder).map_err(|error| on(dir, error))?;
        if holds.is_some() {
            let why = "holds a journal: without --disk-gone, or name an empty folder; nothing was \
                       changed";
            return Err(on(dir, why));
        }
        let there = self.compare.as_deref().map(last).transpose()?;
        let why = "its disk is gone";
        let beyond = match there {
            None => String::new(),
            Some(last) => format!("; {from} has the log up to {last}"),
        };
        let unproved = format!(
            "can't tell  how far {own} was, and what it acknowledged{beyond}\n{}",
            self.others()
        );
        self.ask(why, &unproved)?;
        // Seconds since 1970 are more than the terms and starts that any group has had: one every second.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let ends = (u64::from(self.from.0), since.as_secs());
        let done =
            journal::begin_in_doubt(&mut folder, id, ends).map_err(|error| on(dir, error))?;
        let made = format!("made        an empty log in {}\n", dir.display());
        Ok(self.told(
            why,
            &unproved,
            &made,
            json!({
                "doubt": why,
                "compared_with": there,
                "unproved": unproved,
                "doubt_term": done.doubt,
            }),
        ))
    }

    /// Nothing is done without the operator's word.
    fn ask(&self, why: &str, unproved: &str) -> Result<(), Failure> {
        if self.accept_loss {
            return Ok(());
        }
        let what = format!("{}: {why}\n{unproved}", self.own.1);
        Err(Failure::Run(format!("{what}\nnothing was changed; --accept-loss does it")))
    }

    fn told(&self, why: &str, unproved: &str, done: &str, mut data: Value) -> Recovered {
        (data["replica"], data["from"]) = (json!(self.own.0), json!(self.from.0));
        let (own, from) = (&self.own.1, &self.from.1);
        let text = format!(
            "{own}   {why}\n{unproved}\n{done}now         start it: it elects {from} and nobody else"
        );
        Recovered { text, data }
    }

    /// What nobody can prove here.
    fn unproved(&self, found: &Promises, there: Option<u64>) -> String {
        let (own, from, held) = (&self.own.1, &self.from.1, found.held);
        let beyond = match (found.set_back, there) {
            (true, _) => format!(
                "can't tell  how far {own} was: its copy ends at position {held}, and it may have\n\
                 \x20           acknowledged anything behind that"
            ),
            (false, None) => format!("it had      the log up to position {held} at least"),
            (false, Some(last)) if last < held => format!(
                "WILL LOSE   what was acknowledged of positions {} to {held}: {own} had them, and\n\
                 \x20           {from} has not",
                last + 1
            ),
            (false, Some(last)) => format!(
                "it had      the log up to position {held} at least; {from} has it up to {last}"
            ),
        };
        format!("{beyond}\n{}", self.others())
    }

    fn others(&self) -> String {
        let (own, from) = (&self.own.1, &self.from.1);
        format!(
            "can't tell  whether {from} has everything that was acknowledged: what {own} and\n\
             \x20           another one acknowledged behind the end of its log is lost by this, and\n\
             \x20           participants have heard of it. A third one that is whole makes this\n\
             \x20           unnecessary: start that first"
        )
    }
}

fn open(dir: &Path) -> Result<Folder, Failure> {
    Folder::open(dir, FolderConfig::default()).map_err(|error| on(dir, error))
}

/// Why a replica is in doubt; nothing when it is not.
fn doubt(folder: &mut Folder, found: &Promises) -> Result<Option<String>, JournalError> {
    let mended = match journal::verify(folder) {
        Err(JournalError::Disk(error)) => return Err(error.into()),
        Err(damage) => return Ok(Some(format!("its log is damaged: {damage}"))),
        Ok(whole) => whole.last_term <= found.doubt && found.doubt > 0,
    };
    let copy = "its folder is an older copy of itself".to_string();
    let aside = "its log was set aside, and it has not got it again".to_string();
    Ok(if found.set_back { Some(copy) } else { mended.then_some(aside) })
}

/// The last position in another one's folder.
fn last(dir: &Path) -> Result<u64, Failure> {
    let folder = Folder::open_unlocked(dir, FolderConfig::default());
    let mut folder = folder.map_err(|error| on(dir, error))?;
    Ok(journal::verify(&mut folder).map_err(|error| on(dir, error))?.last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> Order {
        Order {
            own: (1, "replica 1".to_string()),
            from: (3, "replica 3".to_string()),
            dir: PathBuf::new(),
            compare: None,
            accept_loss: false,
        }
    }

    fn told(set_back: bool, there: Option<u64>) -> String {
        let found = Promises { id: 5, term: 7, doubt: 0, sponsor: 0, set_back, held: 40 };
        order().unproved(&found, there)
    }

    #[test]
    fn it_says_what_is_lost_and_what_cant_be_told() {
        assert!(told(false, Some(30)).contains("positions 31 to 40"));
        assert!(told(false, Some(50)).contains("has it up to 50"));
        assert!(told(false, None).contains("up to position 40 at least"));
        assert!(told(true, Some(50)).contains("ends at position 40"));
    }

    #[test]
    fn a_disk_that_is_gone_is_begun_once_and_with_the_operators_word_alone() {
        let dir = std::env::temp_dir().join(format!("fairbell-begun-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let order = Order { dir: dir.clone(), ..order() };
        let own = Order { from: order.own.clone(), ..order.clone() };
        assert!(own.begin(7).is_err_and(|why| why.to_string().contains("is not gone")));
        let why = order.begin(7).expect_err("without a word").to_string();
        assert!(why.contains("its disk is gone") && why.contains("--accept-loss"), "{why}");
        let sure = Order { accept_loss: true, ..order.clone() };
        let done = sure.begin(7).expect("begun");
        assert_eq!(
            (&done.data["from"], &done.data["doubt"]),
            (&json!(3), &json!("its disk is gone"))
        );
        let why = sure.begin(7).expect_err("there is one").to_string();
        assert!(why.contains("holds a journal"), "{why}");
        // It may elect one alone, and is in doubt: another order can be given.
        let mut folder = open(&dir).expect("a folder");
        let found = journal::promises(&mut folder).expect("read");
        assert_eq!((found.id, found.sponsor, found.held), (7, 3, 0));
        assert!(found.doubt > 1 << 30 && found.term == found.doubt + 1 && !found.set_back);
        drop(folder);
        let again = order.run().expect_err("in doubt").to_string();
        assert!(again.contains("set aside, and it has not got it again"), "{again}");
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
