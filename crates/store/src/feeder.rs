//! Replays the log through an engine and collects the rows of a batch.

use engine::{Config, Engine, Output};
use types::Input;

use crate::error::StoreError;
use crate::row_builder::RowBuilder;
use crate::rows::{Amendment, Cancel, Order, Refusal, Trade};

/// Position of a store in the log, and totals up to there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Position of the last input that was taken.
    pub applied: u64,
    /// Engine time of the last input, ns since the epoch.
    pub t_last: u64,
    /// Number of execution reports so far.
    pub reports: u64,
    /// Digest of all execution reports so far.
    pub reports_digest: u64,
    /// Feed position after the last event.
    pub feed_next: u64,
    /// Number of reports about orders that this log never opened: orders of an instrument that
    /// joined the shard.
    pub strangers: u64,
}

/// The rows of some inputs, for each table in the order in which they must be written.
#[derive(Default, Debug)]
pub struct Batch {
    /// Orders, new and changed, each once.
    pub orders: Vec<Order>,
    /// Trades of the batch.
    pub trades: Vec<Trade>,
    /// Cancels of the batch.
    pub cancels: Vec<Cancel>,
    /// Trades that were broken or corrected; to be written after the trades.
    pub amendments: Vec<Amendment>,
    /// Refused cancels of the batch.
    pub refusals: Vec<Refusal>,
    /// Number of inputs that the rows are of.
    pub inputs: u64,
}

impl Batch {
    /// Number of rows of all tables.
    pub fn rows(&self) -> usize {
        let changes = self.cancels.len() + self.amendments.len() + self.refusals.len();
        self.orders.len() + self.trades.len() + changes
    }

    fn clear(&mut self) {
        self.orders.clear();
        self.trades.clear();
        self.cancels.clear();
        self.amendments.clear();
        self.refusals.clear();
        self.inputs = 0;
    }
}

/// Replays a log and shapes what the engine reports.
pub struct Feeder {
    engine: Engine,
    output: Output,
    row_builder: RowBuilder,
    batch: Batch,
    t_last: u64,
}

impl Feeder {
    /// Before the first input.
    ///
    /// # Panics
    /// As [`Engine::new`] when the configuration makes no engine.
    pub fn new(config: Config) -> Feeder {
        Feeder {
            engine: Engine::new(config),
            output: Output::default(),
            row_builder: RowBuilder::default(),
            batch: Batch::default(),
            t_last: 0,
        }
    }

    /// Takes the next input; one that was taken before changes nothing. Says whether it was new.
    ///
    /// # Errors
    /// [`StoreError::Gap`] when one before it is missing, with nothing changed.
    pub fn take(&mut self, input: &Input) -> Result<bool, StoreError> {
        let due = self.engine.applied() + 1;
        if input.seq.0 < due {
            return Ok(false);
        }
        if input.seq.0 > due {
            return Err(StoreError::Gap(due, input.seq.0));
        }
        self.output.clear();
        let applied = self.engine.apply(input, &mut self.output);
        self.t_last = input.t_seq.0;
        self.batch.inputs += 1;
        self.row_builder.take(input, &self.output, &mut self.batch);
        self.row_builder.days.take(&input.command, applied);
        Ok(true)
    }

    /// Position up to which the log was read, and totals.
    pub fn progress(&self) -> Progress {
        Progress {
            applied: self.engine.applied(),
            t_last: self.t_last,
            reports: self.row_builder.reports,
            reports_digest: self.row_builder.digest.0,
            feed_next: self.engine.feed_next().0,
            strangers: self.row_builder.strangers,
        }
    }

    /// Approximate number of rows that wait.
    pub fn waiting(&self) -> usize {
        self.batch.rows() + self.row_builder.touched()
    }

    /// Number of inputs since the last batch.
    pub fn inputs(&self) -> u64 {
        self.batch.inputs
    }

    /// The rows collected so far, to be written. The next batch treats all of them as stored.
    pub fn seal(&mut self) -> &Batch {
        self.row_builder.seal(&mut self.batch);
        &self.batch
    }

    /// Begins the next batch, without rows.
    pub fn clear(&mut self) {
        self.batch.clear();
    }

    /// Output of the last input, for comparisons.
    pub fn output(&self) -> &Output {
        &self.output
    }

    /// The engine, as it is now.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Number of open orders.
    pub fn open_orders(&self) -> usize {
        self.row_builder.open()
    }
}
