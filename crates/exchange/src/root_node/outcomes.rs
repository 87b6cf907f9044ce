//! What the engine made of the newest inputs of operators and the timetable, for whoever gave one and waits until it is durable.

use std::collections::VecDeque;

use engine::Applied;
use types::{GatewayId, Input, Seq};

use super::directives::OwnOutcomes;
use crate::Root;

/// So many are kept.
const KEPT: usize = 1_024;

/// The newest of them.
pub(super) struct Outcomes {
    /// In order of the log.
    kept: VecDeque<(Seq, Applied)>,
    /// Of commands for all shards.
    pub(super) directed: OwnOutcomes,
}

impl Outcomes {
    pub(super) fn new() -> Outcomes {
        Outcomes { kept: VecDeque::with_capacity(KEPT), directed: OwnOutcomes::default() }
    }

    #[inline]
    pub(super) fn note(&mut self, input: &Input, applied: Applied) {
        if input.source.gateway == GatewayId(0) {
            if self.kept.len() == KEPT {
                self.kept.pop_front();
            }
            self.kept.push_back((input.seq, applied));
            if input.command.session_seq > 0 {
                self.directed.note(input.command.session_seq, applied);
            }
        }
    }
}

impl Root {
    /// What the engine made of an input that no gateway has sent, of the newest 1,024 of these; `None` for others,
    /// and until it is applied.
    pub fn outcome(&self, seq: Seq) -> Option<Applied> {
        let kept = &self.outcomes.kept;
        let at = kept.binary_search_by_key(&seq, |(of, _)| *of).ok()?;
        kept.get(at).map(|(_, applied)| *applied)
    }
}
