//! What a leader says to the others beside the log.

use crate::wire::{Body, NOTICE_MAX, NOTICES};
use crate::{Action, Consensus, Replica};

impl<C: Consensus> Replica<C> {
    /// Says something to all others that know of such messages, if it leads: at most [`NOTICE_MAX`]
    /// bytes, which may get lost. It is not in the log: for what is of use only while it leads.
    pub fn notify(&mut self, notice: &[u8], out: &mut Vec<Action>) {
        if self.stopped.is_some() || self.serving.is_none() || notice.len() > NOTICE_MAX {
            return;
        }
        for to in self.core.membership().others(self.config.id) {
            if self.versions.with(to) >= NOTICES {
                self.tell(to, &Body::Notice(notice), out);
            }
        }
    }
}
