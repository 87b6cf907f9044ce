//! What the engine made of the newest inputs of operators and the timetable, for whoever gave one and waits until it is durable.

use std::collections::VecDeque;

use engine::Applied;
use types::{GatewayId, Input, Seq};

use crate::Root;

/// So many are kept.
const KEPT: usize = 1_024;

/// The newest of them, in order of the log.
pub(super) struct Outcomes(VecDeque<(Seq, Applied)>);

impl Outcomes {
    pub(super) fn new() -> Outcomes {
        Outcomes(VecDeque::with_capacity(KEPT))
    }

    #[inline]
    pub(super) fn note(&mut self, input: &Input, applied: Applied) {
        if input.source.gateway == GatewayId(0) {
            if self.0.len() == KEPT {
                self.0.pop_front();
            }
            self.0.push_back((input.seq, applied));
        }
    }
}

impl Root {
    /// What the engine made of an input that no gateway has sent, of the newest 1,024 of these; `None` for others,
    /// and until it is applied.
    pub fn outcome(&self, seq: Seq) -> Option<Applied> {
        let Outcomes(kept) = &self.outcomes;
        let at = kept.binary_search_by_key(&seq, |(of, _)| *of).ok()?;
        kept.get(at).map(|(_, applied)| *applied)
    }
}
