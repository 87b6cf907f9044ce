//! Snapshots between replicas: a leader offers, whoever needs it collects it part by part.
//!
//! Nothing is remembered of a transfer by whoever sends: an offer goes out whenever the leader hears
//! of a replica that lacks what its log does not hold any more, and a part whenever one is asked for.
//! So whatever is lost, and whoever stops or leads meanwhile, the next offer sets it right. Whoever
//! collects asks for the next part when one came, and again after [`AGAIN`] ticks; another offer
//! takes the place of the one before; the same snapshot offered by another leader goes on.

use std::collections::BTreeMap;
use std::sync::Arc;

use journal::{SnapshotInfo, snapshot_digest};

use crate::wire::{BYTES_MAX, NOTICE_MAX, PART_MAX, Part, UNFIT};
use crate::{Install, ReplicaId};

/// Ticks after which a part is asked for again.
const AGAIN: u32 = 4;
/// Ticks without progress after which a transfer is given up.
const GIVEN_UP: u32 = 1_000;

const _: () = assert!(GIVEN_UP > 2 * AGAIN, "a part that was lost is asked for again before");
const _: () = assert!(PART_MAX + 64 <= BYTES_MAX && NOTICE_MAX + 64 <= BYTES_MAX);
const _: () = assert!(journal::GROUP_MAX + 128 <= BYTES_MAX, "an offer fits a message");

/// Snapshots that a replica sends and receives.
#[derive(Default)]
pub(crate) struct Transfers {
    /// The replica's own newest snapshot, behind which its log continues.
    own: Option<SnapshotInfo>,
    collecting: Option<Collecting>,
    /// Replicas that have asked for parts of it, each with the ticks since.
    sending: BTreeMap<ReplicaId, u32>,
    /// Ticks for which a newer snapshot, which was requested, is waited for.
    awaited: u32,
}

struct Collecting {
    info: SnapshotInfo,
    group: Vec<u8>,
    bytes: Vec<u8>,
    /// Ticks since the last part was asked for, and since the last one came.
    asked: u32,
    idle: u32,
}

/// Result of an offer of a snapshot, or of a part of one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// There is nothing to do.
    Nothing,
    /// Ask the leader for this part.
    Ask(Part),
    /// The snapshot is complete and its digest fits.
    Whole(Install),
}

impl Collecting {
    fn is(&self, part: &Part) -> bool {
        (self.info.position, self.info.digest) == (part.position, part.digest)
    }

    fn next(&mut self) -> Part {
        self.asked = 0;
        let SnapshotInfo { position, digest, .. } = self.info;
        Part { position, digest, offset: self.bytes.len() as u64 }
    }
}

impl Transfers {
    pub(crate) fn new(own: Option<SnapshotInfo>) -> Transfers {
        Transfers { own, ..Transfers::default() }
    }

    /// The replica's own newest snapshot; `None`: it has none.
    pub(crate) fn own(&self) -> Option<SnapshotInfo> {
        self.own
    }

    pub(crate) fn set_own(&mut self, own: Option<SnapshotInfo>) {
        (self.own, self.awaited) = (own, 0);
    }

    /// A replica needs a snapshot and there is none; returns whether one is to be requested now.
    pub(crate) fn wants_one(&mut self, ticks: u32) -> bool {
        let now = self.awaited == 0;
        if now {
            self.awaited = ticks;
        }
        now
    }

    /// Whether another replica is receiving this one's snapshot.
    pub(crate) fn is_sending(&self) -> bool {
        !self.sending.is_empty()
    }

    /// Position of the snapshot that is being received, and the bytes received so far.
    pub(crate) fn collecting(&self) -> Option<(u64, u64)> {
        let collecting = self.collecting.as_ref()?;
        Some((collecting.info.position, collecting.bytes.len() as u64))
    }

    /// The snapshot that is being received; `None`: none.
    pub(crate) fn wanted_info(&self) -> Option<SnapshotInfo> {
        self.collecting.as_ref().map(|collecting| collecting.info)
    }

    /// The leader offers one that this replica needs; says whether another one is given up for it.
    pub(crate) fn offered(&mut self, info: &SnapshotInfo, group: &[u8]) -> (Next, bool) {
        if self.collecting.as_ref().is_some_and(|known| known.info == *info) {
            return (Next::Nothing, false);
        }
        let group = group.to_vec();
        let fresh = Collecting { info: *info, group, bytes: Vec::new(), asked: 0, idle: 0 };
        let before = self.collecting.replace(fresh);
        let ask = self.collecting.as_mut().map(Collecting::next);
        // An empty one is whole already.
        let next = match info.bytes {
            0 => self.whole(),
            _ => ask.map_or(Next::Nothing, Next::Ask),
        };
        (next, before.is_some())
    }

    /// Takes bytes of a snapshot. Bytes that were not asked for, or are here already, change
    /// nothing.
    pub(crate) fn take(&mut self, part: &Part, bytes: &[u8]) -> Next {
        let Some(collecting) = self.collecting.as_mut().filter(|known| known.is(part)) else {
            return Next::Nothing;
        };
        let have = collecting.bytes.len() as u64;
        let fits = have + bytes.len() as u64 <= collecting.info.bytes;
        if part.offset != have || bytes.is_empty() || !fits {
            return Next::Nothing;
        }
        collecting.bytes.extend_from_slice(bytes);
        assert!(collecting.bytes.len() as u64 <= collecting.info.bytes, "no more than was offered");
        collecting.idle = 0;
        if (collecting.bytes.len() as u64) < collecting.info.bytes {
            return Next::Ask(collecting.next());
        }
        self.whole()
    }

    /// Takes a snapshot that is complete, or reports that it is unfit.
    fn whole(&mut self) -> Next {
        let Some(Collecting { info, group, bytes, .. }) = self.collecting.take() else {
            return Next::Nothing;
        };
        assert_eq!(bytes.len() as u64, info.bytes, "it is judged when it is whole");
        if snapshot_digest(&bytes) == info.digest {
            return Next::Whole(Install { info, group, bytes: Arc::new(bytes) });
        }
        Next::Ask(Part { position: info.position, digest: info.digest, offset: UNFIT })
    }

    /// Gives up what is being received; returns whether there was something.
    pub(crate) fn give_up(&mut self) -> bool {
        self.collecting.take().is_some()
    }

    /// Handles a request for a part of this replica's snapshot; `None` when it has another snapshot
    /// by now.
    pub(crate) fn wanted(&mut self, who: ReplicaId, part: &Part) -> Option<SnapshotInfo> {
        let own =
            self.own.filter(|own| (own.position, own.digest) == (part.position, part.digest))?;
        if part.offset == UNFIT {
            // Its disk does not hold what was written: another one has to be taken.
            self.own = None;
            self.sending.remove(&who);
            return None;
        }
        self.sending.insert(who, 0);
        (part.offset < own.bytes).then_some(own)
    }

    /// A tick has passed; gives the part that is to be asked for again.
    pub(crate) fn tick(&mut self, sending_ticks: u32) -> Option<Part> {
        self.awaited = self.awaited.saturating_sub(1);
        self.sending.retain(|_, ticks| {
            *ticks += 1;
            *ticks < sending_ticks
        });
        let collecting = self.collecting.as_mut()?;
        (collecting.asked, collecting.idle) = (collecting.asked + 1, collecting.idle + 1);
        if collecting.idle >= GIVEN_UP {
            self.collecting = None;
            return None;
        }
        (collecting.asked >= AGAIN).then(|| collecting.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(position: u64, bytes: &[u8]) -> SnapshotInfo {
        let (len, digest) = (bytes.len() as u64, snapshot_digest(bytes));
        SnapshotInfo { position, term: 2, chain: 3, bytes: len, digest }
    }

    fn part(info: &SnapshotInfo, offset: u64) -> Part {
        Part { position: info.position, digest: info.digest, offset }
    }

    #[test]
    fn parts_are_collected_in_order_whatever_is_lost_or_repeated() {
        let bytes: Vec<u8> = (0..100).collect();
        let info = info(9, &bytes);
        let mut collects = Transfers::default();
        assert_eq!(collects.offered(&info, b"three"), (Next::Ask(part(&info, 0)), false));
        assert_eq!(collects.offered(&info, b"three"), (Next::Nothing, false));
        assert_eq!(collects.take(&part(&info, 40), &bytes[40..80]), Next::Nothing, "too early");
        let next = collects.take(&part(&info, 0), &bytes[..40]);
        assert_eq!(next, Next::Ask(part(&info, 40)));
        assert_eq!(collects.take(&part(&info, 0), &bytes[..40]), Next::Nothing, "there already");
        let again: Vec<_> = (0..AGAIN).filter_map(|_| collects.tick(9)).collect();
        assert_eq!(again, [part(&info, 40)], "lost, so asked for again");
        assert_eq!(collects.take(&part(&info, 40), &bytes[..61]), Next::Nothing, "too long");
        let whole =
            Next::Whole(Install { info, group: b"three".to_vec(), bytes: Arc::new(bytes.clone()) });
        assert_eq!(collects.take(&part(&info, 40), &bytes[40..]), whole);
        assert_eq!(collects.collecting(), None);
    }

    #[test]
    fn another_offer_takes_its_place_and_what_does_not_fit_is_not_installed() {
        let (old, new) = (info(9, b"older"), info(12, b"newer"));
        let mut collects = Transfers::default();
        collects.offered(&old, b"three");
        assert_eq!(collects.offered(&new, b"three"), (Next::Ask(part(&new, 0)), true));
        assert_eq!(collects.take(&part(&old, 0), b"older"), Next::Nothing);
        let unfit = Next::Ask(Part { offset: UNFIT, ..part(&new, 0) });
        assert_eq!(collects.take(&part(&new, 0), b"new_r"), unfit);
        assert_eq!(collects.collecting(), None);
        let mut sends = Transfers::new(Some(new));
        assert_eq!(sends.wanted(ReplicaId(2), &part(&old, 0)), None);
        assert_eq!(sends.wanted(ReplicaId(2), &part(&new, 0)), Some(new));
        assert!(sends.is_sending());
        assert_eq!(sends.wanted(ReplicaId(2), &Part { offset: UNFIT, ..part(&new, 0) }), None);
        assert_eq!((sends.own(), sends.is_sending()), (None, false));
    }

    #[test]
    fn nothing_is_waited_for_without_end() {
        let mut one = Transfers::new(Some(info(5, b"mine")));
        one.wanted(ReplicaId(3), &part(&info(5, b"mine"), 0));
        one.offered(&info(9, b"hers"), b"three");
        let asked = (0..2 * GIVEN_UP).filter_map(|_| one.tick(50)).count();
        assert_eq!(asked as u32, (GIVEN_UP - 1) / AGAIN);
        assert_eq!((one.collecting(), one.is_sending()), (None, false));
    }
}
