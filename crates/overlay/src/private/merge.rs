//! One numbered stream of an account out of its streams in several shards, the same at every gateway.
//!
//! SoupBinTCP and FIX want one sequence of numbers for an account, and each shard has a private
//! stream of its own. The order between them is decided by the account's home shard, in its log:
//! other shards tell it how far their streams are, and it records "what shard `s` has up to record
//! `n` comes here" ([`MergeOrder`]). In the home's private stream of the account that record is a
//! reference; the contents come from shard `s` itself. A gateway puts them together
//! ([`StreamMerger`]): each number follows from the home's stream alone, whatever arrives first.
//!
//! What is ordered: within a shard everything; a record of another shard after all that the home had
//! streamed when it heard of it. What is not: two records of different shards that neither had heard
//! of. An absent shard delays nothing that it has not told the home of; what it has told of, and what
//! comes after that, waits at the gateways that have not got it yet, until that shard has a leader.
//! An absent home delays the accounts that are at home there, and loses nothing of them.

use std::collections::VecDeque;

use types::ShardId;

/// Records of one shard that a gateway keeps while it waits for the others; more are not taken and
/// stay unacknowledged.
pub const MERGE_EARLY_MAX: usize = 1_024;

/// What the home's stream of an account holds at one position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HomeItem<R> {
    /// A record of the home's own.
    Record(R),
    /// The records of another shard up to its position `up_to`, from 1, follow here.
    Refer {
        /// Shard that the records are of.
        shard: ShardId,
        /// Position of the last of those records, from 1.
        up_to: u64,
    },
}

/// The home's part for one account: how far each shard's stream is in the merged one.
///
/// It follows from the references in the home's log, so it needs no record of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MergeOrder {
    merged: Vec<u64>,
}

impl MergeOrder {
    /// Nothing merged yet, of so many shards.
    pub fn new(shards: u16) -> MergeOrder {
        MergeOrder { merged: vec![0; usize::from(shards)] }
    }

    /// Another shard says that its stream has `up_to` records. Gives the position that a reference to
    /// it would name; `None` when there is nothing new, or no such shard.
    pub fn heard(&self, shard: ShardId, up_to: u64) -> Option<u64> {
        let merged = self.merged.get(usize::from(shard.0))?;
        (up_to > *merged).then_some(up_to)
    }

    /// A reference is in the log. False, and nothing done, when it refers to nothing new: then it has
    /// no place in the stream either.
    pub fn referred(&mut self, shard: ShardId, up_to: u64) -> bool {
        let new = self.heard(shard, up_to).is_some();
        if new {
            self.merged[usize::from(shard.0)] = up_to;
        }
        new
    }

    /// Records of a shard that are merged; 0 for one that there is not.
    pub fn merged(&self, shard: ShardId) -> u64 {
        self.merged.get(usize::from(shard.0)).copied().unwrap_or(0)
    }
}

/// Where a merged stream stands: with it a gateway goes on without reading from the beginning.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MergePoint {
    /// Number of the last record of the merged stream.
    pub number: u64,
    /// Last position of the home's stream that is used up, references included.
    pub home: u64,
    /// Last position of each shard's stream that is used up; of the home 0.
    pub shards: Vec<u64>,
}

/// A record of the merged stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Merged<R> {
    /// Its number in the merged stream, dense from 1.
    pub number: u64,
    /// Shard that the record is of.
    pub shard: ShardId,
    /// The record itself.
    pub record: R,
}

/// The gateway's part for one account. Takes each stream's records in that stream's order.
#[derive(Clone, Debug)]
pub struct StreamMerger<R> {
    home: ShardId,
    at: MergePoint,
    home_items: VecDeque<HomeItem<R>>,
    others: Vec<VecDeque<R>>,
    /// By shard: the last position taken; of the home unused.
    taken: Vec<u64>,
    /// Records with a lower number are passed over.
    skip_to: u64,
}

impl<R> StreamMerger<R> {
    /// From the beginning of all streams.
    ///
    /// # Panics
    /// When the home is none of the shards.
    pub fn new(home: ShardId, shards: u16) -> StreamMerger<R> {
        let shards = vec![0; usize::from(shards)];
        StreamMerger::resume(home, MergePoint { number: 0, home: 0, shards })
    }

    /// From a point on that a merger of the same account was at.
    ///
    /// # Panics
    /// When the home is none of the shards.
    pub fn resume(home: ShardId, at: MergePoint) -> StreamMerger<R> {
        assert!(usize::from(home.0) < at.shards.len(), "the home is one of the shards");
        let others = at.shards.iter().map(|_| VecDeque::new()).collect();
        let taken = at.shards.clone();
        StreamMerger { home, at, home_items: VecDeque::new(), others, taken, skip_to: 0 }
    }

    /// How far everything is that was given out.
    pub fn point(&self) -> &MergePoint {
        &self.at
    }

    /// The position of the home's stream, references included, that is to come next.
    pub fn next_home(&self) -> u64 {
        self.at.home + self.home_items.len() as u64 + 1
    }

    /// The position of another shard's stream that is to come next; 0 for one that there is not.
    pub fn next_of(&self, shard: ShardId) -> u64 {
        self.taken.get(usize::from(shard.0)).map_or(0, |taken| taken + 1)
    }

    /// Passes over records numbered below `number`: they count and are not given out, and what the
    /// others have of them need not have come. From now on, and not of records that are kept already;
    /// a lower number than before ends it earlier.
    pub fn skip_to(&mut self, number: u64) {
        self.skip_to = number;
        self.pass_over();
    }

    /// Records that wait, of the home and of the shard that has most.
    pub fn waiting(&self) -> (usize, usize) {
        let others = self.others.iter().map(VecDeque::len).max();
        (self.home_items.len(), others.unwrap_or(0))
    }

    /// Records of a shard that wait; of the home its own.
    pub fn waiting_of(&self, shard: ShardId) -> usize {
        match shard == self.home {
            true => self.home_items.len(),
            false => self.others.get(usize::from(shard.0)).map_or(0, VecDeque::len),
        }
    }

    /// Counts records before the first one wanted, without giving them out.
    fn pass_over(&mut self) {
        while self.at.number + 1 < self.skip_to
            && let Some(item) = self.home_items.front()
        {
            match item {
                HomeItem::Record(_) => self.at.number += 1,
                HomeItem::Refer { shard, up_to } => {
                    let index = usize::from(shard.0);
                    let used = &mut self.at.shards[index];
                    let unwanted = self.skip_to - 1 - self.at.number;
                    let passed = up_to.saturating_sub(*used).min(unwanted);
                    (*used, self.at.number) = (*used + passed, self.at.number + passed);
                    let kept = &mut self.others[index];
                    let gone = usize::try_from(passed).unwrap_or(usize::MAX).min(kept.len());
                    kept.drain(..gone);
                    if *used < *up_to {
                        return;
                    }
                }
            }
            self.home_items.pop_front();
            self.at.home += 1;
        }
    }

    /// Takes an item of the home's stream. False, and nothing done, when it is not the next one, when
    /// there is no room, or when it refers to a shard that can't be referred to.
    pub fn take_home(&mut self, position: u64, item: HomeItem<R>) -> bool {
        let sound = match &item {
            HomeItem::Record(_) => true,
            HomeItem::Refer { shard, .. } => {
                *shard != self.home && usize::from(shard.0) < self.others.len()
            }
        };
        let fits = self.home_items.len() < MERGE_EARLY_MAX && position == self.next_home();
        if sound && fits {
            self.home_items.push_back(item);
            self.pass_over();
        }
        sound && fits
    }

    /// Takes a record of another shard's stream. False, and nothing done, when it is not the next one
    /// or there is no room: it comes again.
    pub fn take(&mut self, shard: ShardId, position: u64, record: R) -> bool {
        let next = self.next_of(shard);
        let other = shard != self.home && position == next;
        let index = usize::from(shard.0);
        let used = self.at.shards.get(index).copied().unwrap_or(0);
        let kept = self.others.get_mut(index);
        let Some(kept) = kept.filter(|kept| other && kept.len() < MERGE_EARLY_MAX) else {
            return false;
        };
        if position > used {
            kept.push_back(record);
        }
        self.taken[index] = position;
        true
    }

    /// The next record of the merged stream, when all before it have been given out.
    pub fn next_record(&mut self) -> Option<Merged<R>> {
        loop {
            let (shard, record) = match self.home_items.front()? {
                HomeItem::Record(_) => match self.home_items.pop_front()? {
                    HomeItem::Record(record) => {
                        self.at.home += 1;
                        (self.home, record)
                    }
                    HomeItem::Refer { .. } => return None,
                },
                HomeItem::Refer { shard, up_to } => {
                    let (shard, index) = (*shard, usize::from(shard.0));
                    if self.at.shards[index] >= *up_to {
                        self.home_items.pop_front();
                        self.at.home += 1;
                        continue;
                    }
                    let record = self.others[index].pop_front()?;
                    self.at.shards[index] += 1;
                    (shard, record)
                }
            };
            self.at.number += 1;
            return Some(Merged { number: self.at.number, shard, record });
        }
    }
}

#[cfg(test)]
mod tests {
    use types::SplitMix64;

    use super::*;

    const SEEDS: u64 = 300;

    /// What the shards have streamed: the home's items and the others' records.
    struct Venue {
        home: ShardId,
        items: Vec<HomeItem<u64>>,
        others: Vec<Vec<u64>>,
        order: MergeOrder,
    }

    impl Venue {
        /// Records appear in all shards; the home hears of them late, twice and out of order, and dies
        /// now and then, going on from its log.
        fn random(dice: &mut SplitMix64) -> Venue {
            let shards = 2 + dice.below(3) as u16;
            let home = ShardId(dice.below(u64::from(shards)) as u16);
            let mut venue = Venue {
                home,
                items: Vec::new(),
                others: vec![Vec::new(); usize::from(shards)],
                order: MergeOrder::new(shards),
            };
            let mut letters: Vec<(ShardId, u64)> = Vec::new();
            for record in 0..200 {
                match dice.below(10) {
                    0..3 => venue.items.push(HomeItem::Record(record)),
                    3..6 => {
                        let shard = ShardId(dice.below(u64::from(shards)) as u16);
                        if shard != home {
                            let stream = &mut venue.others[usize::from(shard.0)];
                            stream.push(record);
                            letters.push((shard, stream.len() as u64));
                        }
                    }
                    6..9 if !letters.is_empty() => {
                        let at = dice.below(letters.len() as u64) as usize;
                        let (shard, up_to) = letters[at];
                        if dice.below(3) > 0 {
                            letters.swap_remove(at);
                        }
                        if let Some(up_to) = venue.order.heard(shard, up_to) {
                            assert!(venue.order.referred(shard, up_to));
                            venue.items.push(HomeItem::Refer { shard, up_to });
                        }
                    }
                    _ => venue.order = venue.replayed(),
                }
            }
            venue
        }

        fn replayed(&self) -> MergeOrder {
            let mut order = MergeOrder::new(self.others.len() as u16);
            for item in &self.items {
                if let HomeItem::Refer { shard, up_to } = item {
                    assert!(order.referred(*shard, *up_to), "the log holds no idle reference");
                }
            }
            assert_eq!(order, self.order);
            order
        }

        /// The merged stream as the home's log says, with all records at hand.
        fn model(&self) -> Vec<(ShardId, u64)> {
            let mut used = vec![0; self.others.len()];
            let mut all = Vec::new();
            for item in &self.items {
                match item {
                    HomeItem::Record(record) => all.push((self.home, *record)),
                    HomeItem::Refer { shard, up_to } => {
                        let (index, up_to) = (usize::from(shard.0), *up_to as usize);
                        let new = &self.others[index][used[index]..up_to];
                        all.extend(new.iter().map(|record| (*shard, *record)));
                        used[index] = up_to;
                    }
                }
            }
            all
        }

        /// A gateway that hears the streams in an order of its own, asks again for what it missed, and
        /// begins anew now and then where its client stands. `away` never answers.
        fn gateway(&self, dice: &mut SplitMix64, away: Option<ShardId>) -> Vec<(ShardId, u64)> {
            let shards = self.others.len() as u16;
            let mut merger = StreamMerger::new(self.home, shards);
            let mut client: Vec<(ShardId, u64)> = Vec::new();
            for step in 0..4_000 {
                let shard = ShardId(dice.below(u64::from(shards)) as u16);
                if Some(shard) == away {
                    continue;
                }
                // Mostly what is next, sometimes what is not.
                let off = dice.below(8);
                if shard == self.home {
                    let at = merger.next_home() + off.saturating_sub(6);
                    if let Some(item) = self.items.get(at as usize - 1) {
                        let next = at == merger.next_home();
                        assert_eq!(merger.take_home(at, *item), next);
                    }
                } else {
                    let at = merger.next_of(shard) + off.saturating_sub(6);
                    if let Some(record) = self.others[usize::from(shard.0)].get(at as usize - 1) {
                        let next = at == merger.next_of(shard);
                        assert_eq!(merger.take(shard, at, *record), next);
                    }
                }
                while dice.below(4) > 0
                    && let Some(Merged { number, shard, record }) = merger.next_record()
                {
                    assert_eq!(number, client.len() as u64 + 1, "dense");
                    client.push((shard, record));
                }
                match if step < 2_000 { dice.below(200) } else { 2 } {
                    0 => merger = StreamMerger::resume(self.home, merger.point().clone()),
                    1 => {
                        client.clear();
                        merger = StreamMerger::new(self.home, shards);
                    }
                    _ => {}
                }
            }
            client
        }
    }

    #[test]
    fn every_gateway_gives_the_same_stream() {
        let (mut whole, mut records) = (0, 0);
        for seed in 0..SEEDS {
            let mut dice = SplitMix64::new(SplitMix64::mix(seed) ^ 0x3E96);
            let venue = Venue::random(&mut dice);
            let model = venue.model();
            for _ in 0..3 {
                let got = venue.gateway(&mut dice, None);
                assert_eq!(got, model[..got.len()], "seed {seed}");
                whole += u64::from(got.len() == model.len());
            }
            records += model.len() as u64;
        }
        assert!(whole > 2 * SEEDS && records > 20_000, "{whole} whole, {records} records");
    }

    #[test]
    fn a_shard_that_is_away_delays_only_what_was_promised_of_it() {
        for seed in 0..SEEDS {
            let mut dice = SplitMix64::new(SplitMix64::mix(seed) ^ 0x3E97);
            let venue = Venue::random(&mut dice);
            let model = venue.model();
            let away = ShardId(dice.below(venue.others.len() as u64) as u16);
            let got = venue.gateway(&mut dice, Some(away));
            let until = model.iter().position(|(shard, _)| *shard == away);
            let most = if away == venue.home { 0 } else { until.unwrap_or(model.len()) };
            assert!(got.len() <= most, "seed {seed}");
            assert_eq!(got, model[..got.len()], "seed {seed}");
        }
    }

    #[test]
    fn control_gateways_that_give_out_what_they_hear_first_differ() {
        let mut differ = 0;
        for seed in 0..50 {
            let mut dice = SplitMix64::new(SplitMix64::mix(seed) ^ 0x3E98);
            let venue = Venue::random(&mut dice);
            let mut as_heard = || {
                let mut next = vec![0; venue.others.len()];
                let mut all = Vec::new();
                for _ in 0..1_000 {
                    let index = dice.below(next.len() as u64) as usize;
                    if let Some(record) = venue.others[index].get(next[index]) {
                        next[index] += 1;
                        all.push((index, *record));
                    }
                }
                all
            };
            let (one, other) = (as_heard(), as_heard());
            assert_eq!(one.len(), other.len(), "both heard everything");
            differ += u64::from(one != other);
        }
        assert!(differ > 25, "{differ}");
    }

    #[test]
    fn a_gateway_that_passes_over_the_beginning_gives_the_same_numbers_from_there_on() {
        let (mut passed, mut waited) = (0, 0);
        for seed in 0..SEEDS {
            let mut dice = SplitMix64::new(SplitMix64::mix(seed) ^ 0x3E99);
            let venue = Venue::random(&mut dice);
            let (model, shards) = (venue.model(), venue.others.len() as u16);
            let from = 1 + dice.below(model.len() as u64 + 1);
            // It learns from the home's stream alone where the merged one stands.
            let mut merger = StreamMerger::new(venue.home, shards);
            merger.skip_to(if dice.below(2) == 0 { from } else { u64::MAX });
            let blind = dice.below(venue.items.len() as u64 + 1) as usize;
            for (at, item) in venue.items.iter().enumerate().take(blind) {
                assert!(merger.take_home(at as u64 + 1, *item), "seed {seed}: nothing is kept");
            }
            let from = from.max(merger.point().number + 1);
            merger.skip_to(from);
            let mut got = Vec::new();
            for _ in 0..3_000 {
                let shard = ShardId(dice.below(u64::from(shards)) as u16);
                let index = usize::from(shard.0);
                let (home, other) = (merger.next_home(), merger.next_of(shard));
                if shard == venue.home {
                    let item = venue.items.get(home as usize - 1);
                    assert!(item.is_none_or(|item| merger.take_home(home, *item)));
                } else if let Some(record) = venue.others[index].get(other as usize - 1) {
                    assert!(merger.take(shard, other, *record));
                }
                while let Some(Merged { number, shard, record }) = merger.next_record() {
                    assert_eq!(number, from + got.len() as u64, "seed {seed}");
                    got.push((shard, record));
                }
                waited += u64::from(merger.waiting().1 > 0);
            }
            let after = model.get(from as usize - 1..).unwrap_or(&[]);
            assert_eq!(got, after[..got.len()], "seed {seed}");
            passed += u64::from(got.len() == after.len() && from > 1);
        }
        assert!(passed > SEEDS * 9 / 10 && waited > 1_000, "{passed} {waited}");
    }

    #[test]
    fn what_can_not_be_taken_changes_nothing() {
        let mut merger = StreamMerger::new(ShardId(0), 2);
        let refer = |shard| HomeItem::Refer { shard: ShardId(shard), up_to: 1 };
        assert!(!merger.take_home(1, refer(0)) && !merger.take_home(1, refer(2)));
        assert!(!merger.take_home(2, HomeItem::Record(7)) && !merger.take_home(0, refer(1)));
        assert!(!merger.take(ShardId(0), 1, 7) && !merger.take(ShardId(2), 0, 7));
        assert!(!merger.take(ShardId(1), 2, 7));
        assert_eq!((merger.next_home(), merger.next_of(ShardId(1))), (1, 1));
        for position in 1..=MERGE_EARLY_MAX as u64 {
            assert!(merger.take(ShardId(1), position, position));
        }
        assert!(!merger.take(ShardId(1), MERGE_EARLY_MAX as u64 + 1, 7), "no room");
        assert_eq!(merger.next_record(), None);
        assert!(merger.take_home(1, refer(1)));
        let first = Merged { number: 1, shard: ShardId(1), record: 1 };
        assert_eq!((merger.next_record(), merger.next_record()), (Some(first), None));
        let mut order = MergeOrder::new(2);
        assert!(order.referred(ShardId(1), 3) && !order.referred(ShardId(1), 3));
        assert!(!order.referred(ShardId(9), 3));
        assert_eq!((order.merged(ShardId(1)), order.merged(ShardId(9))), (3, 0));
    }
}
