//! What a start reads and refuses before it changes anything; also for those that only look.

use crate::config::Config;
use crate::error::{Damage, JournalError};
use crate::layout::{FrameHeader, LABEL_LEN};
use crate::mend::Doubt;
use crate::recover::{Survey, segment_numbers, survey};
use crate::register::{DOUBT, MARK, Register, VOTE};
use crate::scan::Extent;
use crate::snapshot::{self, Listed};
use crate::storage::Storage;

/// A journal that a start would accept.
pub(crate) struct Examined {
    /// Doubt about promises of its server; see [`crate::Journal::doubt`].
    pub(crate) doubt: Doubt,
    /// Everything found in the log.
    pub(crate) found: Survey,
    /// The snapshots of the folder; an installed one counts whatever name its file has at present.
    pub(crate) snapshots: Listed,
    /// Position of the newest whole snapshot; `None`: there is none.
    pub(crate) snapshot: Option<u64>,
}

/// Reads everything that a start reads, and refuses what it refuses; without a `config` as the files
/// say they are. `visit` sees each good frame.
pub(crate) fn examine(
    storage: &mut impl Storage,
    config: Option<&Config>,
    visit: impl FnMut(&Extent, u64, &FrameHeader, &[u8]),
) -> Result<Examined, JournalError> {
    let names = storage.names()?;
    let has = |name: &str| names.iter().any(|known| known == name);
    for register in [MARK, VOTE] {
        if !has(register) {
            return Err(JournalError::Register(register));
        }
    }
    let doubt = match has(DOUBT) {
        true => {
            let id = match config {
                Some(config) => config.id,
                None => Register::<3>::open(storage, MARK, None)?.register.journal(),
            };
            Doubt::read(storage, id)?
        }
        false => Doubt::default(),
    };
    let found = survey(storage, config, visit)?;
    let header = found.segments.first().map(|segment| segment.header);
    let stands = header.filter(|header| header.installed).map(|header| header.first_position - 1);
    let label = header.map_or([0; LABEL_LEN], |header| header.label);
    let named = Config::new(found.mark.journal(), label);
    let snapshots = snapshot::list(storage, config.unwrap_or(&named), stands)?;
    let first = header.map_or(1, |header| header.first_position);
    let snapshot = snapshots.whole.last().map(|info| info.position);
    let reached = first == 1 || snapshot.is_some_and(|position| position + 1 >= first);
    // What is taken back is never before the segment that a log begins with.
    let behind = found.end.next >= first;
    if !reached || !behind {
        let segment = header.map_or(1, |header| header.number);
        let (offset, committed) = (0, found.committed);
        let damage = if reached { Damage::Order } else { Damage::Before };
        let position = 1;
        return Err(JournalError::Corrupt { segment, offset, damage, position, committed });
    }
    Ok(Examined { doubt, found, snapshots, snapshot })
}

/// Whether anything is left of a journal whose watermark's file is gone.
pub(crate) fn remains(names: &[String]) -> bool {
    let snapshot = |name: &String| name.starts_with("snap-") || name.starts_with("inst-");
    !segment_numbers(names).is_empty() || names.iter().any(snapshot)
}
