//! The thread that takes records out of their queues and writes them to Redis or into files.
//!
//! While the place is away or slow, records wait here, up to a bound; what is beyond is dropped and counted,
//! and its numbers are missing for whoever reads the stream. Nobody who has records ever waits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use crate::entry::Entry;
use crate::files::Files;
use crate::queue::{Counts, RecordReceiver};
use crate::record::{Bytes, RecordKind};
use crate::streams::Streams;

/// Between two looks into the queues.
const DRAIN_EVERY: Duration = Duration::from_millis(20);
/// Longest time that a record waits for others to fill its entry.
const FILL_MAX: Duration = Duration::from_millis(100);
/// After a failure the place is left alone for so long.
const RETRY: Duration = Duration::from_millis(250);
/// How long the last records may take, once all is over.
const LAST_MAX: Duration = Duration::from_secs(2);

/// Where records go.
#[expect(clippy::large_enum_variant, reason = "a process has one")]
pub enum Place {
    /// Nowhere: they are only looked at.
    Nowhere,
    /// To a Redis server.
    Redis(Streams),
    /// Into files.
    Files(Files),
}

impl Place {
    fn write(&mut self, stream: &str, entry: &Entry) -> Result<(), String> {
        match self {
            Place::Nowhere => Ok(()),
            Place::Redis(streams) => streams.write(stream, entry),
            Place::Files(files) => files.write(stream, entry),
        }
    }
}

/// A stream on its way out.
struct Outgoing {
    of: RecordReceiver,
    waiting: VecDeque<Entry>,
    /// Records in these.
    held: usize,
    /// The first one may have been written already: it stays as it is.
    tried: bool,
}

impl Outgoing {
    /// Takes what is in the queue.
    fn drain(&mut self, room: usize, look: &mut dyn FnMut(&str, RecordKind, &Bytes)) {
        while let Ok((number, bytes)) = self.of.from.pop() {
            look(&self.of.name, self.of.kind, &bytes);
            if self.held >= room {
                self.of.counts.drop_more(1);
                continue;
            }
            let fixed = self.tried && self.waiting.len() == 1;
            match self.waiting.back_mut().filter(|last| !fixed && last.takes(number)) {
                Some(last) => last.data.extend_from_slice(&bytes),
                None => {
                    let mut entry = Entry::new(self.of.kind, number);
                    entry.data.extend_from_slice(&bytes);
                    self.waiting.push_back(entry);
                }
            }
            self.held += 1;
        }
    }

    /// Writes what waits.
    fn flush(&mut self, place: &mut Place) -> Result<(), String> {
        while let Some(entry) = self.waiting.front() {
            self.tried = true;
            place.write(&self.of.name, entry)?;
            self.tried = false;
            self.of.counts.write_more(entry.count());
            self.held -= entry.count() as usize;
            self.waiting.pop_front();
        }
        Ok(())
    }

    fn has_full(&self) -> bool {
        self.waiting.len() > 1
    }

    /// Nobody has more for it, and everything is written.
    fn is_over(&self) -> bool {
        self.of.from.is_abandoned() && self.of.from.is_empty() && self.waiting.is_empty()
    }
}

/// The thread's work.
pub struct Writer<L, T> {
    place: Place,
    room: usize,
    look: L,
    told: T,
}

impl<L, T> Writer<L, T>
where
    L: FnMut(&str, RecordKind, &Bytes),
    T: FnMut(Result<(), &str>),
{
    /// For a place; `room`: records of a stream that may wait here. `look` sees each record that was in a
    /// queue, with its stream; `told` hears when the place fails and why, and when it works again.
    pub fn new(place: Place, room: usize, look: L, told: T) -> Writer<L, T> {
        Writer { place, room, look, told }
    }

    /// Works until `stop`, then writes what is left; the counts of all streams.
    pub fn run(
        mut self,
        streams: &Receiver<RecordReceiver>,
        stop: &AtomicBool,
    ) -> Vec<(String, Arc<Counts>)> {
        let (mut all, mut outgoing) = (Vec::new(), Vec::<Outgoing>::new());
        let (mut retry_at, mut filled_at) = (None::<Instant>, Instant::now());
        let (mut works, mut until) = (true, None::<Instant>);
        loop {
            for of in streams.try_iter() {
                all.push((of.name.clone(), Arc::clone(&of.counts)));
                outgoing.push(Outgoing { of, waiting: VecDeque::new(), held: 0, tried: false });
            }
            for of in &mut outgoing {
                of.drain(self.room, &mut self.look);
            }
            let over = stop.load(Ordering::Relaxed);
            let due =
                over || filled_at.elapsed() >= FILL_MAX || outgoing.iter().any(Outgoing::has_full);
            if due && retry_at.is_none_or(|at| Instant::now() >= at) {
                filled_at = Instant::now();
                let written = self.flush(&mut outgoing);
                retry_at = written.is_err().then(|| Instant::now() + RETRY);
                if written.is_ok() != works || written.is_err() {
                    works = written.is_ok();
                    (self.told)(written.as_ref().copied().map_err(|why| &why[..]));
                }
            }
            if over {
                let until = *until.get_or_insert_with(|| Instant::now() + LAST_MAX);
                if outgoing.is_empty() || Instant::now() >= until {
                    break;
                }
            }
            std::thread::sleep(DRAIN_EVERY);
        }
        for of in &mut outgoing {
            of.drain(0, &mut self.look);
            of.of.counts.drop_more(of.held as u64);
        }
        all
    }

    /// Writes what waits; ends streams that are over.
    fn flush(&mut self, outgoing: &mut Vec<Outgoing>) -> Result<(), String> {
        for of in outgoing.iter_mut() {
            of.flush(&mut self.place)?;
        }
        for at in (0..outgoing.len()).rev() {
            if outgoing[at].is_over() {
                let of = &outgoing[at].of;
                let end = Entry::new(of.kind, of.counts.numbered() + 1);
                self.place.write(&of.name, &end)?;
                outgoing.swap_remove(at);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::account::Account;
    use crate::files;
    use crate::queue::queue;

    #[test]
    fn everything_is_written_or_counted_and_looked_at() {
        let folder = std::env::temp_dir().join(format!("fairbell-writer-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let place = Files::new(&folder, "m", 9, 1 << 30).expect("a folder");
        let (sender, streams) = channel();
        let (mut records, receiver) = queue("orders", RecordKind::Orders, 4_096);
        sender.send(receiver).expect("sent");
        // More than the queue has room for.
        (0..10_000u32).for_each(|n| records.push([n as u8; 32]));
        drop(records);
        let (mut looked, mut told) = (0, 0);
        let writer =
            Writer::new(Place::Files(place), 1_000_000, |_, _, _| looked += 1, |_| told += 1);
        let all = writer.run(&streams, &AtomicBool::new(true));
        let counts = &all[0].1;
        assert_eq!((counts.numbered(), counts.dropped(), counts.written()), (10_000, 5_904, 4_096));
        assert_eq!((looked, told), (4_096, 0));
        let mut account = Account::default();
        for segment in files::segments(&folder).expect("a folder") {
            for entry in files::read(&segment.path, 0).expect("a file").entries {
                account.take(segment.life, entry.first, entry.count());
            }
        }
        assert_eq!((account.got, account.missing, account.next), (4_096, 5_904, 10_001));
        let _ = std::fs::remove_dir_all(folder);
    }

    #[test]
    fn a_place_that_is_away_costs_records_and_no_time_of_whoever_has_them() {
        let (sender, streams) = channel();
        let (mut records, receiver) = queue("orders", RecordKind::Orders, 64);
        sender.send(receiver).expect("sent");
        (0..50).for_each(|n| records.push([n; 32]));
        drop(records);
        // Nobody listens there.
        let gone = Streams::new("redis://127.0.0.1:1/", ("p", "m"), 1, 10).expect("an address");
        let mut why = String::new();
        let told = |what: Result<(), &str>| why = what.err().unwrap_or_default().to_string();
        let writer = Writer::new(Place::Redis(gone), 20, |_, _, _| {}, told);
        let all = writer.run(&streams, &AtomicBool::new(true));
        let counts = &all[0].1;
        assert_eq!((counts.numbered(), counts.dropped(), counts.written()), (50, 50, 0));
        assert!(!why.is_empty());
    }
}
