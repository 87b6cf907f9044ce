//! Feeder and store together: every input once, many a transaction.

use engine::Config;
use types::Input;

use crate::error::StoreError;
use crate::feeder::{Feeder, Progress};
use crate::store::Store;

/// Rows after which a batch is written.
pub const BATCH_ROWS: usize = 20_000;
/// Inputs after which it is, however few rows they made.
const BATCH_INPUTS: u64 = 200_000;

/// See the module. The log is fed from its beginning each time: what the store has already brings
/// the engine up to it, is checked, and written no more.
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

    /// This writer with another size of batches, rows.
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

    /// How far the store holds.
    pub fn stored(&self) -> Progress {
        self.stored
    }

    /// How far the log was taken in.
    pub fn taken(&self) -> Progress {
        self.feeder.progress()
    }

    /// Number of rows written.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Feeder and store, apart again; what waits is gone.
    pub fn into_parts(self) -> (Feeder, Store) {
        (self.feeder, self.store)
    }

    /// The feeder, to look at.
    pub fn feeder(&self) -> &Feeder {
        &self.feeder
    }
}
