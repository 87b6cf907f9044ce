//! Exactly-once delivery (corner 1): what has been seen from each gateway and of each account.

use types::{
    AccountId, Digest, GatewayId, Incarnation, Seen, SeqWindow, Source, UserRefNum,
    limits::{ACCOUNTS_MAX, SEQ_WINDOW},
};

use crate::codec::{Reader, SnapshotError, Writer};
use crate::lives::Lives;

/// Numbers of an account's requests that are remembered, counted down from the highest one seen.
/// A number below counts as seen.
pub const USER_REF_WINDOW: usize = 65_536;

const _: () = assert!(USER_REF_WINDOW.is_multiple_of(64) && USER_REF_WINDOW.is_power_of_two());

/// One gateway's lives.
#[derive(Clone, Debug, Default)]
struct Gateway {
    /// Its incarnations: one for each start.
    lives: Lives,
    window: SeqWindow,
}

/// What a source is to the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// First time: recorded.
    New,
    /// Its number was seen.
    Duplicate,
    /// Not the gateway's present life, or no life at all.
    Stale,
    /// Its number is out of the window's reach: not recorded.
    TooFar,
}

/// All gateways, by number; slots appear with a gateway's first grant.
#[derive(Clone, Debug)]
pub(crate) struct Gateways {
    slots: Vec<Gateway>,
    most: usize,
    unknown: SeqWindow,
}

impl Gateways {
    pub(crate) fn new(most: usize) -> Gateways {
        Gateways { slots: Vec::new(), most, unknown: SeqWindow::default() }
    }

    /// The incarnation for a boot nonce: a known nonce's own, otherwise a new life with an empty
    /// window. `None` for a gateway that can't exist.
    pub(crate) fn grant(&mut self, gateway: GatewayId, nonce: u32) -> Option<Incarnation> {
        let index = usize::from(gateway.0);
        if index == 0 || index > self.most {
            return None;
        }
        if self.slots.len() < index {
            self.slots.resize_with(index, Gateway::default);
        }
        let slot = &mut self.slots[index - 1];
        if let Some(life) = slot.lives.of(nonce) {
            return Some(Incarnation(life));
        }
        let life = slot.lives.begin(nonce)?;
        slot.window = SeqWindow::default();
        Some(Incarnation(life))
    }

    /// Says what a source is and records its number when it is new.
    #[inline]
    pub(crate) fn record(&mut self, source: &Source) -> Standing {
        let slot = usize::from(source.gateway.0).checked_sub(1);
        let Some(slot) = slot.and_then(|index| self.slots.get_mut(index)) else {
            return Standing::Stale;
        };
        let life = slot.lives.newest();
        if life == 0 || life != source.incarnation.0 {
            return Standing::Stale;
        }
        match slot.window.record(source.seq) {
            Seen::New => Standing::New,
            Seen::Duplicate | Seen::TooOld => Standing::Duplicate,
            Seen::TooFar => Standing::TooFar,
        }
    }

    /// The present life of a gateway and what was seen of it; incarnation 0 for none.
    pub(crate) fn received(&self, gateway: GatewayId) -> (Incarnation, &SeqWindow) {
        let slot = usize::from(gateway.0).checked_sub(1).and_then(|index| self.slots.get(index));
        slot.map_or((Incarnation(0), &self.unknown), |slot| {
            (Incarnation(slot.lives.newest()), &slot.window)
        })
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        out.u64(self.slots.len() as u64);
        for slot in &self.slots {
            slot.lives.write(out);
            let base = slot.window.contiguous();
            out.u64(base);
            let words = 0..SEQ_WINDOW as u64 / 64;
            words.for_each(|word| out.u64(slot.window.bitmap_after(base + word * 64)));
        }
    }

    /// Takes up what [`Gateways::write`] wrote.
    pub(crate) fn read(&mut self, bytes: &mut Reader) -> Result<(), SnapshotError> {
        for _ in 0..bytes.count(self.most)? {
            let mut slot = Gateway { lives: Lives::read(bytes)?, ..Gateway::default() };
            let base = bytes.u64()?;
            let mut words = [0; SEQ_WINDOW / 64];
            for word in &mut words {
                *word = bytes.u64()?;
            }
            // Numbers near the end of their range are never reached; sums below stay exact.
            if base > u64::MAX / 2 {
                return Err(bytes.damaged());
            }
            slot.window = SeqWindow::restored(base, &words);
            self.slots.push(slot);
        }
        Ok(())
    }

    pub(crate) fn fold(&self, digest: &mut Digest) {
        for slot in &self.slots {
            slot.lives.fold(digest);
            let base = slot.window.contiguous();
            digest.fold(base);
            for word in 0..SEQ_WINDOW as u64 / 64 {
                digest.fold(slot.window.bitmap_after(base + word * 64));
            }
        }
    }
}

/// The request numbers seen of one account. Unlike [`SeqWindow`] it moves with the highest number
/// seen: clients may leave gaps (OUCH 5.0 wants the numbers increasing, not dense).
#[derive(Clone, Debug)]
struct RefWindow {
    highest: u32,
    bits: Box<[u64; USER_REF_WINDOW / 64]>,
}

impl RefWindow {
    fn new() -> RefWindow {
        RefWindow { highest: 0, bits: Box::new([0; USER_REF_WINDOW / 64]) }
    }

    fn clear(&mut self) {
        self.highest = 0;
        self.bits.fill(0);
    }

    /// Whether `number` is new; if so it is recorded.
    #[inline(always)]
    fn record(&mut self, number: u32) -> bool {
        // What nearly always comes: the next number. Its place was that of one a window lower.
        if number == self.highest.wrapping_add(1) && number != 0 {
            let (word, mask) = place(u64::from(number));
            self.bits[word] |= mask;
            self.highest = number;
            return true;
        }
        self.record_other(number)
    }

    #[inline(never)]
    fn record_other(&mut self, number: u32) -> bool {
        if number > self.highest {
            self.forget(u64::from(self.highest) + 1, u64::from(number));
            self.highest = number;
        } else if self.highest - number >= USER_REF_WINDOW as u32 {
            return false;
        }
        let (word, mask) = place(u64::from(number));
        let new = self.bits[word] & mask == 0;
        self.bits[word] |= mask;
        assert!(self.is_within(number), "what is recorded is in reach");
        new
    }

    /// Whether a number is one that the window has a place for.
    fn is_within(&self, number: u32) -> bool {
        number <= self.highest && self.highest - number < USER_REF_WINDOW as u32
    }

    /// Whether a number has been seen, or is below the window.
    fn contains(&self, number: u32) -> bool {
        let (word, mask) = place(u64::from(number));
        number <= self.highest && (!self.is_within(number) || self.bits[word] & mask != 0)
    }

    /// Numbers that the other has seen count as seen here too.
    fn unite(&mut self, other: &RefWindow) {
        let lowest = u64::from(other.highest).saturating_sub(USER_REF_WINDOW as u64 - 1);
        for number in lowest.max(1)..=u64::from(other.highest) {
            let (word, mask) = place(number);
            if other.bits[word] & mask != 0 {
                self.record(number as u32);
            }
        }
        // What is below the other's window counts as seen there.
        if other.highest > self.highest {
            self.forget(u64::from(self.highest) + 1, u64::from(other.highest));
            self.highest = other.highest;
        }
        assert!(self.highest >= other.highest, "nothing that was seen is new again");
    }

    /// Numbers that were seen, as runs of first and last.
    fn runs(&self) -> Vec<(u32, u32)> {
        let lowest = u64::from(self.highest).saturating_sub(USER_REF_WINDOW as u64 - 1).max(1);
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for number in lowest..=u64::from(self.highest) {
            let ((word, mask), number) = (place(number), number as u32);
            match runs.last_mut() {
                _ if self.bits[word] & mask == 0 => {}
                Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
                _ => runs.push((number, number)),
            }
        }
        runs
    }

    /// Clears the places of `from..=to`, which so far belong to numbers one window lower.
    fn forget(&mut self, mut from: u64, to: u64) {
        assert!(from <= to && from > u64::from(self.highest), "only numbers not seen yet");
        if to - from >= USER_REF_WINDOW as u64 {
            self.bits.fill(0);
            return;
        }
        while from <= to {
            let (word, mask) = place(from);
            if from.is_multiple_of(64) && to - from >= 63 {
                self.bits[word] = 0;
                from += 64;
            } else {
                self.bits[word] &= !mask;
                from += 1;
            }
        }
    }
}

fn place(number: u64) -> (usize, u64) {
    let slot = number as usize % USER_REF_WINDOW;
    (slot / 64, 1 << (slot % 64))
}

/// All accounts, by number; windows appear with an account's first request.
#[derive(Clone, Debug)]
pub(crate) struct Accounts {
    windows: Vec<Option<RefWindow>>,
    /// Largest number that the account's numbered session received; 0: it has none.
    sessions: Vec<u32>,
}

impl Accounts {
    pub(crate) fn new(most: usize) -> Accounts {
        assert!(most <= ACCOUNTS_MAX);
        Accounts { windows: vec![None; most], sessions: vec![0; most] }
    }

    #[inline]
    pub(crate) fn exists(&self, account: AccountId) -> bool {
        account.0 != 0 && usize::from(account.0) <= self.windows.len()
    }

    /// Whether this is the first request with its number; if so it is recorded. The account exists.
    #[inline(always)]
    pub(crate) fn record(&mut self, account: AccountId, user_ref: UserRefNum) -> bool {
        assert!(user_ref.0 != 0, "number 0 is no identity");
        let window = &mut self.windows[usize::from(account.0) - 1];
        window.get_or_insert_with(RefWindow::new).record(user_ref.0)
    }

    /// Largest number the account's session has received.
    pub(crate) fn session_seq(&self, account: AccountId) -> u32 {
        let slot = usize::from(account.0).checked_sub(1);
        slot.and_then(|slot| self.sessions.get(slot)).copied().unwrap_or(0)
    }

    /// The account's session has received this number.
    pub(crate) fn raise_session_seq(&mut self, account: AccountId, number: u32) {
        let slot = usize::from(account.0).checked_sub(1);
        if let Some(highest) = slot.and_then(|slot| self.sessions.get_mut(slot)) {
            *highest = number.max(*highest);
        }
    }

    /// Accounts with a numbered session, by place.
    fn numbered(&self) -> impl Iterator<Item = (usize, u32)> {
        let sessions = self.sessions.iter().copied().enumerate();
        sessions.filter(|(_, highest)| *highest > 0)
    }

    /// A new day: request numbers start again; those of sessions go on.
    pub(crate) fn rotate(&mut self) {
        self.windows.iter_mut().flatten().for_each(RefWindow::clear);
    }

    fn used(&self) -> impl Iterator<Item = (usize, &RefWindow)> {
        let windows = self.windows.iter().enumerate();
        windows.filter_map(|(index, window)| Some((index, window.as_ref()?)))
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        out.u64(self.used().count() as u64);
        for (index, window) in self.used() {
            out.u32(index as u32);
            out.u32(window.highest);
            window.bits.iter().for_each(|&word| out.u64(word));
        }
        out.u64(self.numbered().count() as u64);
        for (index, highest) in self.numbered() {
            out.u32(index as u32);
            out.u32(highest);
        }
    }

    /// Takes up what [`Accounts::write`] wrote: what either had seen has been seen.
    pub(crate) fn read(&mut self, bytes: &mut Reader) -> Result<(), SnapshotError> {
        for _ in 0..bytes.count(self.windows.len())? {
            let (index, highest) = (bytes.u32()? as usize, bytes.u32()?);
            let mut theirs = RefWindow { highest, ..RefWindow::new() };
            for word in theirs.bits.iter_mut() {
                *word = bytes.u64()?;
            }
            let window = self.windows.get_mut(index).ok_or(bytes.damaged())?;
            match window {
                Some(ours) => ours.unite(&theirs),
                None => *window = Some(theirs),
            }
        }
        for _ in 0..bytes.count(self.sessions.len())? {
            let (index, highest) = (bytes.u32()? as usize, bytes.u32()?);
            let session = self.sessions.get_mut(index).ok_or(bytes.damaged())?;
            *session = highest.max(*session);
        }
        Ok(())
    }

    /// The numbers seen of all accounts, for another shard, as runs: they are mostly dense.
    pub(crate) fn write_seen(&self, out: &mut Writer) {
        out.u64(self.used().count() as u64);
        for (index, window) in self.used() {
            out.u32(index as u32);
            out.u32(window.highest);
            let runs: Vec<(u32, u32)> = window.runs();
            out.u64(runs.len() as u64);
            for (first, last) in runs {
                out.u32(first);
                out.u32(last);
            }
        }
    }

    /// What [`Accounts::write_seen`] wrote, of `most` accounts.
    pub(crate) fn read_seen(bytes: &mut Reader, most: usize) -> Result<Accounts, SnapshotError> {
        let mut all = Accounts::new(most);
        for _ in 0..bytes.count(most)? {
            let (index, highest) = (bytes.u32()? as usize, bytes.u32()?);
            let mut window = RefWindow { highest, ..RefWindow::new() };
            for _ in 0..bytes.count(USER_REF_WINDOW)? {
                let (first, last) = (bytes.u32()?, bytes.u32()?);
                if first == 0 || first > last || !window.is_within(first) || !window.is_within(last)
                {
                    return Err(bytes.damaged());
                }
                for number in first..=last {
                    let (word, mask) = place(u64::from(number));
                    window.bits[word] |= mask;
                }
            }
            *all.windows.get_mut(index).ok_or(bytes.damaged())? = Some(window);
        }
        Ok(all)
    }

    /// Requests that the other has seen count as seen here too.
    pub(crate) fn unite(&mut self, other: &Accounts) {
        assert_eq!(self.windows.len(), other.windows.len(), "accounts of one venue");
        for (ours, theirs) in self.windows.iter_mut().zip(&other.windows) {
            match (ours, theirs) {
                (Some(ours), Some(theirs)) => ours.unite(theirs),
                (ours @ None, Some(theirs)) => *ours = Some(theirs.clone()),
                (_, None) => {}
            }
        }
    }

    /// Whether a request's number has been seen, or is below those that are remembered.
    pub(crate) fn contains(&self, account: AccountId, user_ref: UserRefNum) -> bool {
        let window = usize::from(account.0).checked_sub(1).and_then(|slot| self.windows.get(slot));
        window.is_some_and(|window| window.as_ref().is_some_and(|of| of.contains(user_ref.0)))
    }

    pub(crate) fn fold(&self, digest: &mut Digest) {
        for (index, window) in self.windows.iter().enumerate() {
            let Some(window) = window else { continue };
            digest.fold(index as u64);
            digest.fold(u64::from(window.highest));
            window.bits.iter().for_each(|&word| digest.fold(word));
        }
        for (index, highest) in self.numbered() {
            digest.fold(index as u64);
            digest.fold(u64::from(highest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn a_late_hello_does_not_end_the_present_life() {
        let mut gateways = Gateways::new(4);
        let gateway = GatewayId(2);
        assert_eq!(gateways.received(gateway).0, Incarnation(0));
        assert_eq!(gateways.grant(gateway, 0), Some(Incarnation(1)), "nonce 0 is a nonce");
        assert_eq!(gateways.grant(gateway, 0), Some(Incarnation(1)));
        assert_eq!(gateways.grant(gateway, 77), Some(Incarnation(2)));
        assert_eq!(gateways.grant(gateway, 0), Some(Incarnation(1)));
        assert_eq!(gateways.received(gateway).0, Incarnation(2));
        assert_eq!(gateways.grant(GatewayId(0), 1), None);
        assert_eq!(gateways.grant(GatewayId(5), 1), None);
        let never_granted = Source { gateway: GatewayId(1), ..Source::default() };
        assert_eq!(gateways.record(&never_granted), Standing::Stale);
    }

    proptest! {
        #[test]
        fn user_refs_agree_with_a_set(
            steps in prop::collection::vec(
                prop_oneof![
                    8 => (0u32..300).prop_map(|back| (false, back)),
                    3 => (0u32..500).prop_map(|ahead| (true, ahead)),
                    1 => (0u32..200_000).prop_map(|ahead| (true, ahead)),
                    1 => (65_400u32..65_700).prop_map(|back| (false, back)),
                ],
                1..400,
            ),
        ) {
            let (mut window, mut seen, mut highest) = (RefWindow::new(), HashSet::new(), 0u32);
            for (ahead, distance) in steps {
                let number =
                    if ahead { highest + distance } else { highest.saturating_sub(distance) };
                let below = highest.saturating_sub(number) >= USER_REF_WINDOW as u32;
                let new = !below && seen.insert(number);
                prop_assert_eq!(window.record(number), new, "number {}", number);
                highest = highest.max(number);
            }
        }
    }

    #[test]
    fn the_largest_number_is_no_trap() {
        let mut window = RefWindow::new();
        assert!(window.record(u32::MAX));
        assert!(!window.record(u32::MAX));
        assert!(window.record(u32::MAX - 1) && !window.record(5));
    }
}
