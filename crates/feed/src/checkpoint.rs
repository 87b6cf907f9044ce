//! Digests of the feed and of books at agreed feed positions, noted at the source and at every
//! listener and then compared.

use types::{Digest, FeedSeq};

/// Digest of every byte of every message in feed order, whatever packets they travelled in.
///
/// It catches what a book cannot show: a changed timestamp or match number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamDigest(Digest);

impl StreamDigest {
    /// Folds in one message without its length prefix: the length, then eight bytes at a time,
    /// little-endian, the last ones padded with zeros.
    pub fn push(&mut self, message: &[u8]) {
        self.0.fold(message.len() as u64);
        let (words, rest) = message.as_chunks::<8>();
        for &word in words {
            self.0.fold(u64::from_le_bytes(word));
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            self.0.fold(u64::from_le_bytes(word));
        }
    }

    /// Digest of the messages so far.
    pub fn value(&self) -> u64 {
        self.0.0
    }
}

/// The digests at one feed position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checkpoint<'a> {
    /// Feed position: number of the last message that the digests cover.
    pub seq: FeedSeq,
    /// [`StreamDigest`] of all messages up to it.
    pub stream: u64,
    /// Displayed-book digest of each instrument, in the order both sides agreed on.
    pub books: &'a [u64],
}

/// Checkpoints at multiples of a distance, in bounded memory.
///
/// When full, every second one is dropped and the distance doubles; so two recorders that started
/// with the same distance always keep positions in common, whichever got further.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checkpoints {
    every: u64,
    max: usize,
    instruments: usize,
    seqs: Vec<FeedSeq>,
    /// For each checkpoint the digest of the stream, then one for each instrument.
    words: Vec<u64>,
}

impl Checkpoints {
    /// At multiples of `every` (at least 1), at most `max` (at least 2) of them, each with the
    /// digests of `instruments` books.
    pub fn new(every: u64, max: usize, instruments: usize) -> Checkpoints {
        let (every, max) = (every.max(1), max.max(2));
        Checkpoints { every, max, instruments, seqs: Vec::new(), words: Vec::new() }
    }

    /// Whether digests are wanted after the message `seq`.
    pub fn due(&self, seq: FeedSeq) -> bool {
        seq.0 != 0 && seq.0.is_multiple_of(self.every)
    }

    /// Notes the digests after message `seq` when they are due there. Fewer books than agreed are
    /// filled up with zeros, more are cut off.
    pub fn record(&mut self, seq: FeedSeq, stream: u64, books: impl IntoIterator<Item = u64>) {
        if self.due(seq) && self.seqs.len() >= self.max {
            self.thin();
        }
        if !self.due(seq) {
            return;
        }
        self.seqs.push(seq);
        self.words.push(stream);
        let padded = books.into_iter().chain(std::iter::repeat(0));
        self.words.extend(padded.take(self.instruments));
    }

    fn thin(&mut self) {
        self.every = self.every.saturating_mul(2);
        let stride = self.instruments + 1;
        let mut kept = 0;
        for index in 0..self.seqs.len() {
            let Some(&seq) = self.seqs.get(index) else { break };
            if self.due(seq) {
                self.words.copy_within(index * stride..(index + 1) * stride, kept * stride);
                self.seqs.swap(index, kept);
                kept += 1;
            }
        }
        self.seqs.truncate(kept);
        self.words.truncate(kept * stride);
    }

    /// All checkpoints, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = Checkpoint<'_>> {
        let rows = self.words.chunks_exact(self.instruments + 1);
        self.seqs.iter().zip(rows).filter_map(|(&seq, row)| {
            let (&stream, books) = row.split_first()?;
            Some(Checkpoint { seq, stream, books })
        })
    }

    /// Removes all checkpoints.
    pub(crate) fn clear(&mut self) {
        self.seqs.clear();
        self.words.clear();
    }

    /// Number of checkpoints that are kept.
    pub fn len(&self) -> usize {
        self.seqs.len()
    }

    /// Whether no checkpoint is kept yet.
    pub fn is_empty(&self) -> bool {
        self.seqs.is_empty()
    }

    /// Compares the digests at the positions that both have.
    pub fn compare(&self, other: &Checkpoints) -> Agreement {
        let mut agreement = Agreement::default();
        let mut theirs = other.iter().peekable();
        for ours in self.iter() {
            while theirs.next_if(|theirs| theirs.seq < ours.seq).is_some() {}
            let Some(theirs) = theirs.next_if(|theirs| theirs.seq == ours.seq) else { continue };
            agreement.compared += 1;
            if ours != theirs && agreement.first_difference.is_none() {
                agreement.first_difference = Some(ours.seq);
            }
        }
        agreement
    }
}

/// Result of comparing two lists of checkpoints.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Agreement {
    /// Number of positions that both have.
    pub compared: u64,
    /// First position at which the stream or a book differs; `None`: none does.
    pub first_difference: Option<FeedSeq>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_digest_sees_every_byte_and_every_boundary() {
        let digest = |messages: &[&[u8]]| {
            let mut digest = StreamDigest::default();
            messages.iter().for_each(|message| digest.push(message));
            digest.value()
        };
        let base = digest(&[b"0123456789", b"abc"]);
        assert_ne!(base, digest(&[b"0123456789a", b"bc"]));
        assert_ne!(base, digest(&[b"0123456789", b"abd"]));
        assert_ne!(base, digest(&[b"1123456789", b"abc"]));
        assert_ne!(digest(&[b"a"]), digest(&[b"a\0"]));
    }

    #[test]
    fn a_full_record_thins_out_and_still_compares() {
        let record = |last: u64, max: usize, wrong_at: u64| {
            let mut checkpoints = Checkpoints::new(10, max, 2);
            for seq in 1..=last {
                let stream = seq + u64::from(seq >= wrong_at);
                checkpoints.record(FeedSeq(seq), stream, [seq, 2 * seq]);
            }
            checkpoints
        };
        let (short, long) = (record(95, 8, u64::MAX), record(1_000, 8, u64::MAX));
        assert_eq!(short.iter().map(|c| c.seq.0).collect::<Vec<_>>(), [20, 40, 60, 80]);
        assert!(long.len() <= 8 && long.iter().all(|c| c.seq.0 % 160 == 0));
        assert!(long.iter().all(|c| c.stream == c.seq.0 && c.books == [c.seq.0, 2 * c.seq.0]));
        let all = record(1_000, 1_000, u64::MAX);
        assert_eq!(long.compare(&all), Agreement { compared: 6, first_difference: None });
        let wrong = record(1_000, 1_000, 500);
        assert_eq!(wrong.compare(&long).first_difference, Some(FeedSeq(640)));
        assert_eq!(wrong.compare(&all).first_difference, Some(FeedSeq(500)));
    }
}
