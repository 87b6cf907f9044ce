//! A feeder and a store together: each input of the log once, many inputs per transaction.

use engine::Config;
use types::Input;

use crate::error::StoreError;
use crate::feeder::{Feeder, Progress};
use crate::store::Store;

/// Number of rows after which a batch is written.
pub const BATCH_ROWS: usize = 20_000;
/// Number of inputs after which a batch is written, however few rows they made.
const BATCH_INPUTS: u64 = 200_000;

/// Feeds a store with a log, always from the log's beginning: what the store has already brings the
/// engine up to it, is checked, and is not written again.
pub struct StoreWriter {
    feeder: Feeder,
    store: Store,
    stored: Progress,
    rows: u64,
    batch_rows: usize,
}

impl StoreWriter {
    /// Feeds a store with the log of an exchange of this configuration.
    ///
    /// # Errors
    /// Those of the store.
    ///
    /// # Panics
    /// As [`Feeder::new`].
    pub fn new(store: Store, config: Config) -> Result<StoreWriter, StoreError> {
        let stored = store.progress()?;
        let feeder = Feeder::new(config);
        Ok(StoreWriter { feeder, store, stored, rows: 0, batch_rows: BATCH_ROWS })
    }

    /// Sets the number of rows after which a batch is written.
    pub fn with_batches(self, rows: usize) -> StoreWriter {
        StoreWriter { batch_rows: rows.max(1), ..self }
    }

    /// Takes the next input of the log; one that was taken before changes nothing. Says whether it
    /// was new to this writer.
    ///
    /// # Errors
    /// [`StoreError`]; afterwards everything has to be opened again.
    pub fn take(&mut self, input: &Input) -> Result<bool, StoreError> {
        if !self.feeder.take(input)? {
            return Ok(false);
        }
        let applied = self.feeder.progress().applied;
        if applied == self.stored.applied && self.feeder.progress() != self.stored {
            return Err(StoreError::Reports(applied));
        }
        let full = self.feeder.waiting() >= self.batch_rows || self.feeder.inputs() >= BATCH_INPUTS;
        if full || applied == self.stored.applied {
            self.flush()?;
        }
        Ok(true)
    }

    /// Writes what waits.
    ///
    /// # Errors
    /// As [`StoreWriter::take`].
    pub fn flush(&mut self) -> Result<(), StoreError> {
        let progress = self.feeder.progress();
        let batch = self.feeder.seal();
        if progress.applied > self.stored.applied {
            self.store.commit(&self.stored, batch, &progress)?;
            self.rows += batch.rows() as u64;
            self.stored = progress;
        }
        self.feeder.clear();
        Ok(())
    }

    /// Position up to which the store holds the log, and totals.
    pub fn stored(&self) -> Progress {
        self.stored
    }

    /// Position up to which the log was taken in, and totals.
    pub fn taken(&self) -> Progress {
        self.feeder.progress()
    }

    /// Number of rows written.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// As [`Store::is_replaced`].
    pub fn is_replaced(&self) -> bool {
        self.store.is_replaced()
    }

    /// Separates feeder and store; rows that were not written are dropped.
    pub fn into_parts(self) -> (Feeder, Store) {
        (self.feeder, self.store)
    }

    /// The feeder, for reading.
    pub fn feeder(&self) -> &Feeder {
        &self.feeder
    }
}
