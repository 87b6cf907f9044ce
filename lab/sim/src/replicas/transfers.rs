//! Snapshots that replicas get from one another.

use replication::Install;

use super::world::World;

/// Of a thousand installations, how many the machine stops in, while things go wrong.
const INSTALL_CRASHES: u64 = 250;
/// Operations of the disk that an installation takes, about.
const INSTALL_OPERATIONS: u64 = 30;

impl World {
    /// Somebody needs a snapshot of this machine, and it has none that is of use.
    pub(super) fn take_snapshot(&mut self, id: u8) {
        let bug = self.options.bug;
        if let Some(up) = self.up(id) {
            up.take_snapshot(bug);
        }
    }

    /// The machine has another one's snapshot.
    pub(super) fn restore(&mut self, id: u8, install: &Install) {
        let bug = self.options.bug;
        let Some(up) = self.up(id) else { return };
        if !up.restore(bug, install) {
            self.stopped.push((id, "a snapshot that can't be read".to_string()));
        }
    }

    /// Perhaps the machine stops in the middle of the installation that comes next.
    pub(super) fn trouble_an_install(&mut self, id: u8) {
        let calm = self.healed || self.options.calm;
        if !calm && self.rng.permille(INSTALL_CRASHES) {
            let at = self.rng.below(INSTALL_OPERATIONS);
            self.machine(id).with_disk(|disk| disk.crash_at(at));
        }
    }

    /// Counts what a machine did, which stops or has come to the end.
    pub(super) fn count_transfers(&mut self, id: u8) {
        let Some(up) = self.up(id) else { return };
        let (did, collecting) = (up.replica.counts(), up.replica.collecting().is_some());
        let sending = up.replica.is_sending();
        let counts = &mut self.counts;
        counts.transfers += did.transfers;
        counts.installs += did.installed;
        counts.parts += did.parts_sent;
        counts.transfers_ended += did.transfers_ended + u64::from(collecting);
        counts.senders_killed += u64::from(sending && !self.healed);
    }
}
