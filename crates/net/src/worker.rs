//! Work that takes too long for a loop, done on a thread beside it.
//!
//! A node asks by [`types::Op::Work`]; the loop passes the bytes on, and the answer comes back as a
//! call of the node between two of its inputs. Bounded: what finds no room is dropped and counted,
//! so a node must not wait for an answer for ever.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use types::{Node, NodeId};

use crate::control::{ControlError, LoopHandle};

/// How long a loop that has no room for an answer is given to make some.
const RETRY: Duration = Duration::from_millis(1);

struct Job {
    node: NodeId,
    ticket: u64,
    bytes: Vec<u8>,
}

/// The loops' end.
#[derive(Clone)]
pub struct JobSender(SyncSender<Job>);

/// The worker's end.
pub struct JobReceiver(Receiver<Job>);

/// A way to a worker on which at most `max` jobs wait.
pub fn job_channel(max: usize) -> (JobSender, JobReceiver) {
    let (sender, receiver) = sync_channel(max);
    (JobSender(sender), JobReceiver(receiver))
}

impl JobSender {
    pub(crate) fn send(&self, node: NodeId, ticket: u64, bytes: &[u8]) -> bool {
        self.0.try_send(Job { node, ticket, bytes: bytes.to_vec() }).is_ok()
    }
}

impl JobReceiver {
    /// Works, one job after the other, until every loop that sends some has ended. `answer` turns
    /// the bytes of a job into those of its answer.
    pub fn serve<N: Node>(self, to: &LoopHandle<N>, mut answer: impl FnMut(&[u8]) -> Vec<u8>) {
        for Job { node, ticket, mut bytes } in self.0 {
            let answered = answer(&bytes);
            // They may have been a secret.
            bytes.fill(0);
            let call = |answered: Vec<u8>| {
                to.call(node, move |node: &mut N, now, out| {
                    node.handle_work(now, ticket, &answered, out);
                })
            };
            while call(answered.clone()) == Err(ControlError::Full) {
                thread::sleep(RETRY);
            }
        }
    }
}
