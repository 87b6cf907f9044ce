//! What a run does about its journal's standstills, and about participants who know more than the log.

use exchange::Role;
use types::NodeId;

use super::Watch;
use host::journal::health::Standing;

impl Watch<'_> {
    /// Looks how the journal stands: while it stands still gateways refuse requests. What it says is
    /// how the run goes on.
    pub(super) fn follow_journal(&mut self) -> Standing {
        let Some(health) = &self.health else { return Standing::Works };
        let standing = health.look();
        let still = standing != Standing::Works;
        if still != self.suspended {
            let tell = |node: &NodeId| {
                let suspend = move |role: &mut Role, now, out: &mut types::Outbox| {
                    role.with_edge(out, |edge, out| edge.gateway_mut().suspend(now, still, out));
                };
                self.edges.call(*node, suspend).is_ok()
            };
            // A loop that has too much to do is told with the next look; it does no harm to hear it twice.
            if self.gateways.iter().filter(|node| !tell(node)).count() == 0 {
                self.suspended = still;
            }
        }
        standing
    }

    /// Tells whether connections can't be accepted for want of descriptors; once a second.
    pub(super) fn note_starved(&mut self) {
        let starved = self.handles.iter().map(|of| of.counters().accepts_starved).sum();
        let (key, before) = ("descriptors-used-up", std::mem::replace(&mut self.starved, starved));
        if starved > before {
            let text = "no descriptor is free for connections that wait (ulimit -n): they are left \
                        waiting until some are";
            self.run.alarms.raise(key, text);
        } else {
            self.run.alarms.clear(key, "connections are accepted again");
        }
    }

    /// Asks the gateways who named messages never sent.
    pub(super) fn hear_ahead(&self) {
        for node in &self.gateways {
            let (alarms, names) =
                (self.run.alarms.clone(), host::deployment::names(self.run.config));
            // Refused only when the loop has too much to do, or is over: then later, or never.
            let _ = self.edges.call(*node, move |role, _, out| {
                role.with_edge(out, |edge, _| {
                    for ahead in edge.gateway_mut().take_ahead() {
                        let place = usize::from(ahead.account.0).saturating_sub(1);
                        let name = names.get(place).map_or("?", String::as_str);
                        let (asked, next) = (ahead.asked, ahead.next);
                        alarms.raise(
                            &format!("log-older-than-told-{name}"),
                            format!(
                                "{name} asked for message {asked} of its stream, whose next one is \
                                 {next}: it is wrong, or this log is an older copy and lacks what \
                                 was told before"
                            ),
                        );
                    }
                });
            });
        }
    }
}
