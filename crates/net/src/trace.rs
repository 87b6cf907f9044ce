//! A bounded way for traces from one loop to one collector, which never blocks the loop.
//!
//! A fixed set of batches circulates between the two ends, so nothing is allocated after
//! [`trace_channel`]. When the collector holds or leaves waiting all of them, new traces are
//! dropped and counted in [`crate::Counters::traces_dropped`].

use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

use types::Trace;

/// A way with `batches` batches of `batch_len` traces each (both at least 1).
pub fn trace_channel(batches: usize, batch_len: usize) -> (TraceSender, TraceReceiver) {
    let (batches, batch_len) = (batches.max(1), batch_len.max(1));
    let (full_in, full_out) = sync_channel(batches);
    let (free_in, free_out) = sync_channel(batches);
    for _ in 0..batches {
        // The channel has room for all batches, and its other end is alive here.
        let _ = free_in.try_send(Vec::with_capacity(batch_len));
    }
    let sender = TraceSender { full: full_in, free: free_out, batch: None, batch_len };
    (sender, TraceReceiver { full: full_out, free: free_in })
}

/// The loop's end.
pub struct TraceSender {
    full: SyncSender<Vec<Trace>>,
    free: Receiver<Vec<Trace>>,
    batch: Option<Vec<Trace>>,
    batch_len: usize,
}

impl TraceSender {
    /// Queues traces; returns how many were dropped.
    pub(crate) fn push(&mut self, traces: &[Trace]) -> u64 {
        let mut dropped = 0;
        for trace in traces {
            if self.batch.is_none() {
                self.batch = self.free.try_recv().ok();
            }
            match &mut self.batch {
                None => dropped += 1,
                Some(batch) => {
                    assert!(batch.len() < self.batch_len, "a batch does not grow");
                    batch.push(*trace);
                    if batch.len() >= self.batch_len {
                        dropped += self.flush();
                    }
                }
            }
        }
        dropped
    }

    /// Hands over what is queued; returns how many traces were dropped (the collector is gone).
    pub(crate) fn flush(&mut self) -> u64 {
        match self.batch.take() {
            Some(batch) if batch.is_empty() => {
                self.batch = Some(batch);
                0
            }
            Some(batch) => match self.full.try_send(batch) {
                Ok(()) => 0,
                Err(error) => {
                    use std::sync::mpsc::TrySendError::{Disconnected, Full};
                    let (Full(lost) | Disconnected(lost)) = error;
                    lost.len() as u64
                }
            },
            None => 0,
        }
    }

    /// Whether traces wait to be handed over.
    pub(crate) fn is_pending(&self) -> bool {
        self.batch.as_ref().is_some_and(|batch| !batch.is_empty())
    }
}

/// The collector's end; `Send`, to be drained by one thread every few milliseconds.
pub struct TraceReceiver {
    full: Receiver<Vec<Trace>>,
    free: SyncSender<Vec<Trace>>,
}

impl TraceReceiver {
    /// Gives all waiting batches to `take`, in order. Returns false once the loop has ended and
    /// nothing more will come.
    pub fn drain(&self, mut take: impl FnMut(&[Trace])) -> bool {
        loop {
            match self.full.try_recv() {
                Ok(mut batch) => {
                    take(&batch);
                    batch.clear();
                    // Refused only when the loop is gone: then nobody needs the batch.
                    let _ = self.free.try_send(batch);
                }
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use types::{Nanos, NodeId, TracePoint};

    use super::*;

    fn trace(id: u64) -> Trace {
        Trace { point: TracePoint::Arrived, node: NodeId(1), id, at: Nanos(id), value: 0 }
    }

    #[test]
    fn keeps_order_drops_when_full_recovers_and_ends() {
        let (mut sender, receiver) = trace_channel(2, 3);
        let traces: Vec<Trace> = (0..10).map(trace).collect();
        assert_eq!(sender.push(&traces), 4, "two batches of three fit");
        let mut seen = Vec::new();
        assert!(receiver.drain(|batch| seen.extend(batch.iter().map(|trace| trace.id))));
        assert_eq!(seen, [0, 1, 2, 3, 4, 5]);

        assert_eq!(sender.push(&traces[..2]), 0);
        assert!(sender.is_pending());
        assert_eq!(sender.flush(), 0);
        assert!(!sender.is_pending());
        drop(sender);
        seen.clear();
        assert!(!receiver.drain(|batch| seen.extend(batch.iter().map(|trace| trace.id))));
        assert_eq!(seen, [0, 1]);
    }
}
