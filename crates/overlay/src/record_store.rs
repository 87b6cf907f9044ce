//! In-memory append-only streams of fixed-length records, one per account.
//!
//! Records lie in chunks cut from large segments, so that an append touches one place and memory is
//! asked for rarely: one segment for every 128 chunks, and now and then a longer chunk list. The
//! store is derived from the log and bounded by a total number of records.

/// Records per chunk.
const CHUNK_RECORDS: u64 = 64;
/// Chunks per segment.
const SEGMENT_CHUNKS: usize = 128;

#[derive(Default)]
struct Stream {
    /// Records so far.
    len: u64,
    /// Chunk numbers, in order.
    chunks: Vec<u32>,
}

/// The streams; positions count from 1.
pub(crate) struct RecordStore {
    record_len: usize,
    records_max: u64,
    records: u64,
    streams: Vec<Stream>,
    segments: Vec<Box<[u8]>>,
    chunks_used: usize,
}

impl RecordStore {
    /// `streams` empty streams, together for at most `records_max` records of `record_len` bytes.
    pub(crate) fn new(streams: usize, record_len: usize, records_max: u64) -> RecordStore {
        let mut all = Vec::new();
        all.resize_with(streams, Stream::default);
        RecordStore {
            record_len,
            records_max,
            records: 0,
            streams: all,
            segments: Vec::new(),
            chunks_used: 0,
        }
    }

    /// Appends a record of the right length; `None` when the store is full or knows no such stream.
    /// Returns the record's position.
    pub(crate) fn append(&mut self, stream: usize, record: &[u8]) -> Option<u64> {
        if self.records >= self.records_max || record.len() != self.record_len {
            return None;
        }
        let chunk_bytes = self.record_len * CHUNK_RECORDS as usize;
        let target = self.streams.get_mut(stream)?;
        if target.len.is_multiple_of(CHUNK_RECORDS) {
            let chunk = u32::try_from(self.chunks_used).ok()?;
            if self.chunks_used == self.segments.len() * SEGMENT_CHUNKS {
                self.segments.push(vec![0; chunk_bytes * SEGMENT_CHUNKS].into_boxed_slice());
            }
            self.chunks_used += 1;
            target.chunks.push(chunk);
        }
        let chunk = *target.chunks.last()? as usize;
        let start = (chunk % SEGMENT_CHUNKS) * chunk_bytes
            + (target.len % CHUNK_RECORDS) as usize * self.record_len;
        let place = self.segments.get_mut(chunk / SEGMENT_CHUNKS)?;
        place.get_mut(start..start + self.record_len)?.copy_from_slice(record);
        target.len += 1;
        self.records += 1;
        Some(target.len)
    }

    /// The position the next record of a stream will have.
    pub(crate) fn next(&self, stream: usize) -> u64 {
        self.streams.get(stream).map_or(1, |stream| stream.len + 1)
    }

    /// The bytes of the records from `position`, as many as lie together, at most `max` of them;
    /// empty when there is none.
    pub(crate) fn run(&self, stream: usize, position: u64, max: u64) -> &[u8] {
        let (Some(target), Some(skip)) = (self.streams.get(stream), position.checked_sub(1)) else {
            return &[];
        };
        let (chunk, first) = (skip / CHUNK_RECORDS, skip % CHUNK_RECORDS);
        let count = target.len.saturating_sub(skip).min(CHUNK_RECORDS - first).min(max);
        let Some(chunk) = target.chunks.get(chunk as usize).map(|chunk| *chunk as usize) else {
            return &[];
        };
        let chunk_bytes = self.record_len * CHUNK_RECORDS as usize;
        let start = (chunk % SEGMENT_CHUNKS) * chunk_bytes + first as usize * self.record_len;
        let end = start + count as usize * self.record_len;
        self.segments.get(chunk / SEGMENT_CHUNKS).and_then(|s| s.get(start..end)).unwrap_or(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::SplitMix64;

    #[test]
    fn agrees_with_plain_vectors() {
        let mut rng = SplitMix64::new(1);
        let mut store = RecordStore::new(3, 8, 20_000);
        let mut model = vec![Vec::new(); 3];
        for n in 0..20_000u64 {
            let stream = rng.below(3) as usize;
            model[stream].push(n);
            let position = store.append(stream, &n.to_le_bytes());
            assert_eq!(position, Some(model[stream].len() as u64));
        }
        assert_eq!(store.append(0, &[0; 8]), None, "full");
        for (stream, records) in model.iter().enumerate() {
            assert_eq!(store.next(stream), records.len() as u64 + 1);
            let mut position = 1;
            while position < store.next(stream) {
                let run = store.run(stream, position, 1 + rng.below(100));
                assert!(!run.is_empty());
                for bytes in run.chunks_exact(8) {
                    assert_eq!(bytes, records[position as usize - 1].to_le_bytes());
                    position += 1;
                }
            }
        }
    }

    #[test]
    fn out_of_range_is_empty_and_refused() {
        let mut store = RecordStore::new(1, 4, 10);
        assert_eq!(store.append(1, &[0; 4]), None);
        assert_eq!(store.append(0, &[0; 3]), None);
        assert_eq!(store.append(0, &[1; 4]), Some(1));
        for (stream, position) in [(0, 0), (0, 2), (0, u64::MAX), (1, 1)] {
            assert!(store.run(stream, position, 9).is_empty());
        }
        assert_eq!(store.run(0, 1, 0), &[] as &[u8]);
    }
}
