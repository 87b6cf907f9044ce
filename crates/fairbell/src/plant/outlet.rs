//! Where updates go: the ring in shared memory, datagrams to whoever asked, and files of ticks.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use feed::plant::{SubscriptionToken, Subscriptions, Update};
use host::failure::Failure;
use net::ring::{RECORD_WORDS, RingWriter};
use overlay::aes_gcm::{KeySource, random_secret};
use ticks::{TickWriter, WriterConfig, WriterCounters};
use types::Nanos;

use super::{failed, listen, now};

/// Where updates go.
pub(super) struct Outlet {
    pub ring: Option<RingWriter>,
    pub desk: Subscriptions<SocketAddr>,
    pub socket: UdpSocket,
    /// Datagrams that the system did not take.
    pub unsent: u64,
    /// Makes the tokens of addresses.
    tokens: KeySource,
    ticks: Option<Files>,
    /// What the files came to.
    files: Option<WriterCounters>,
}

/// What an outlet is made of.
pub(super) struct OutletConfig<'a> {
    /// Where subscribers ask.
    pub desk: SocketAddr,
    pub ring: Option<&'a Path>,
    pub ring_records: u64,
    pub ticks: Option<&'a Path>,
    pub tick_rows: usize,
    pub tick_files: usize,
}

/// What an address has to show in a period.
fn token(source: &KeySource, from: SocketAddr, period: u64) -> SubscriptionToken {
    let mut token = SubscriptionToken::default();
    let tag = source.tag(format!("{from} {period}").as_bytes());
    token.iter_mut().zip(tag).for_each(|(to, byte)| *to = byte);
    token
}

impl Outlet {
    /// Opens everything.
    ///
    /// # Errors
    /// A socket, a ring or a folder cannot be had.
    pub fn open(config: &OutletConfig<'_>, epoch: Nanos) -> Result<Outlet, Failure> {
        // Before the ring, whose file tells others that the plant is there.
        let socket = listen(config.desk)?;
        let secret = random_secret().ok_or_else(|| Failure::Run("no randomness".to_string()))?;
        let writer = WriterConfig { rows: config.tick_rows, files: config.tick_files };
        let files = config.ticks.map(|dir| Files::open(dir, writer)).transpose()?;
        let ring = match config.ring {
            Some(path) => Some(
                RingWriter::create(path, config.ring_records, epoch.0)
                    .map_err(failed(path.display()))?,
            ),
            None => None,
        };
        let (desk, tokens) = (Subscriptions::new(epoch.0), KeySource::new(&secret));
        Ok(Outlet { ring, desk, socket, unsent: 0, tokens, ticks: files, files: None })
    }

    /// Publishes updates, in order, and forgets them.
    pub fn publish(&mut self, updates: &mut Vec<Update>) {
        let Outlet { ring, desk, socket, unsent, ticks, .. } = self;
        let mut send = |to: SocketAddr, bytes: &[u8]| {
            *unsent += u64::from(socket.send_to(bytes, to).is_err());
        };
        for update in updates.iter() {
            if let Some(ring) = ring {
                let mut record = [0; RECORD_WORDS];
                for (place, word) in record.iter_mut().zip(update.to_words()) {
                    *place = word;
                }
                ring.push(&record);
            }
            desk.publish(update, &mut send);
        }
        desk.flush(now(), send);
        if let Some(ticks) = ticks {
            ticks.take(updates);
        }
        updates.clear();
    }

    /// Requests, heartbeats and the sign of life in the ring: for whoever has time, often.
    pub fn keep(&mut self) {
        let mut bytes = [0; 2_048];
        let Outlet { ring, desk, socket, unsent, tokens, ticks, .. } = self;
        while let Ok((len, from)) = socket.recv_from(&mut bytes) {
            let told = desk.datagram(now(), (from, bytes.get(..len).unwrap_or(&[])), |period| {
                token(tokens, from, period)
            });
            if let Some(told) = told {
                *unsent += u64::from(socket.send_to(&told, from).is_err());
            }
        }
        desk.tick(now(), |to, bytes| {
            *unsent += u64::from(socket.send_to(bytes, to).is_err());
        });
        if let Some(ring) = ring {
            ring.alive(now());
        }
        if let Some(ticks) = ticks {
            ticks.pass_on();
        }
    }

    /// Finishes the files of ticks.
    ///
    /// # Errors
    /// The disk refused some.
    pub fn finish(&mut self) -> Result<(), Failure> {
        if let Some(ticks) = &mut self.ticks {
            self.files = Some(ticks.finish()?);
        }
        Ok(())
    }

    /// What became of ticks; null where none were wanted.
    pub fn ticks_json(&self) -> serde_json::Value {
        let Some(ticks) = &self.ticks else { return serde_json::Value::Null };
        let files = self.files.unwrap_or_default();
        serde_json::json!({
            "written": files.ticks, "files": files.files, "mended": files.mended,
            "removed": files.removed, "left_out": ticks.left_out,
        })
    }

    /// The same as a line.
    pub fn ticks_line(&self) -> Option<String> {
        let (ticks, files) = (self.ticks.as_ref()?, self.files.unwrap_or_default());
        Some(format!(
            "{} ticks in {} files, {} left out because the disk was behind",
            files.ticks, files.files, ticks.left_out
        ))
    }

    /// What the ring holds so far.
    pub fn written(&self) -> u64 {
        self.ring.as_ref().map_or(0, RingWriter::written)
    }
}

/// Batches that wait for the writer of files at most.
const BATCHES_MAX: usize = 256;
/// Updates of a batch.
const BATCH: usize = 4_096;
/// How long the writer waits before it hands what it has to the system.
const FLUSH_EVERY: Duration = Duration::from_millis(100);

/// Files of ticks, written by a thread of their own: the plant never waits for a disk. What it cannot
/// take any more is counted, and told in the files as a gap of line 255.
struct Files {
    to: Option<SyncSender<Vec<Update>>>,
    batch: Vec<Update>,
    /// Updates that the writer had no room for.
    left_out: u64,
    /// Of those, how many the files do not tell yet.
    untold: u64,
    writer: Option<JoinHandle<Result<WriterCounters, std::io::Error>>>,
}

/// Line of reports of the plant itself.
const PLANT: u8 = u8::MAX;

impl Files {
    fn open(dir: &Path, config: WriterConfig) -> Result<Files, Failure> {
        let writer = TickWriter::open(dir, config).map_err(failed(dir.display()))?;
        let (to, from) = sync_channel(BATCHES_MAX);
        let thread = std::thread::Builder::new().name("ticks".to_string());
        let writer = thread.spawn(move || write(writer, &from)).map_err(failed("ticks"))?;
        let batch = Vec::with_capacity(BATCH);
        Ok(Files { to: Some(to), batch, left_out: 0, untold: 0, writer: Some(writer) })
    }

    fn take(&mut self, updates: &[Update]) {
        self.batch.extend_from_slice(updates);
        if self.batch.len() >= BATCH {
            self.pass_on();
        }
    }

    /// Gives what was collected to the writer.
    fn pass_on(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let mut batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        if self.untold > 0 {
            let gap = Update::of_line(feed::plant::Kind::Gap, PLANT, now());
            batch.insert(0, Update { sequence: 0, time: self.untold, ..gap });
        }
        let taken = self.to.as_ref().map(|to| to.try_send(batch));
        match taken {
            Some(Ok(())) => self.untold = 0,
            Some(Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch))) => {
                let lost = batch.len() as u64 - u64::from(self.untold > 0);
                self.left_out += lost;
                self.untold += lost;
            }
            None => {}
        }
    }

    /// Finishes the files; errors are those of the disk.
    fn finish(&mut self) -> Result<WriterCounters, Failure> {
        self.pass_on();
        self.to = None;
        let Some(writer) = self.writer.take() else { return Ok(WriterCounters::default()) };
        let counters = writer.join().map_err(|_| Failure::Run("ticks: panicked".to_string()))?;
        counters.map_err(failed("ticks"))
    }
}

fn write(
    mut writer: TickWriter,
    from: &Receiver<Vec<Update>>,
) -> Result<WriterCounters, std::io::Error> {
    use std::sync::mpsc::RecvTimeoutError::{Disconnected, Timeout};
    let (mut dirty, mut flushed) = (false, Instant::now());
    loop {
        match from.recv_timeout(FLUSH_EVERY) {
            Ok(batch) => {
                writer.append(&batch)?;
                dirty = true;
            }
            Err(Timeout) => {}
            Err(Disconnected) => break,
        }
        if dirty && flushed.elapsed() >= FLUSH_EVERY {
            writer.flush()?;
            (dirty, flushed) = (false, Instant::now());
        }
    }
    writer.finish()?;
    Ok(writer.counters())
}
