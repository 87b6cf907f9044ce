//! What goes wrong, and when: drawn one fault after the other until all is mended.

use replication::{VERSION, Waits};
use types::SplitMix64;

use super::driver::Machine;
use super::world::{Event, MS, Weather, World};

/// Whether somebody has to be upgraded is looked at this often, ms, once all is mended.
const UPGRADES_MS: u64 = 100;
/// More operations than a disk ever does.
const NO_CRASH: u64 = 1 << 40;

impl World {
    /// One more fault.
    pub(super) fn fault(&mut self) {
        if self.healed {
            return;
        }
        let id = 1 + self.rng.below(self.machines.len() as u64) as u8;
        if self.options.has_old_disks(self.seed) {
            self.copy_or_set_back();
        }
        match self.rng.below(14) {
            0 | 1 => {
                self.counts.crashes += u64::from(self.up(id).is_some());
                self.kill(id);
            }
            2 | 3 => self.kill_leader(),
            4 | 12 => {
                let at = self.rng.below(12);
                self.machine(id).with_disk(|disk| disk.crash_at(at));
            }
            5 | 13 => self.spoil_disk(id),
            6 | 7 => self.part(),
            8 => self.sides.fill(0),
            9 => {
                let until = self.now + (20 + self.rng.below(500)) * MS;
                self.machine(id).paused_until = until;
                self.counts.pauses += 1;
            }
            _ => {
                let mut up_to = |most: u64| self.rng.below(most);
                let (loss, repeat) = (up_to(150), up_to(80));
                let (delay, garble) = (up_to(80), up_to(10));
                self.weather = Weather { loss, repeat, delay, garble };
            }
        }
        let next = (20 + self.rng.below(160)) * MS;
        self.after(next, Event::Fault);
    }

    fn kill_leader(&mut self) {
        let serves = |machine: &Machine| machine.up.as_ref().is_some_and(|up| up.serving.is_some());
        if let Some(id) = self.machines.iter().find(|m| serves(m)).map(|machine| machine.id) {
            self.counts.crashes += 1;
            self.kill(id);
        }
    }

    fn part(&mut self) {
        self.counts.partitions += 1;
        let alone = self.rng.below(self.machines.len() as u64) as usize;
        let split = self.rng.below(3) == 0;
        for place in 0..self.sides.len() {
            let drawn = self.rng.below(2) as u8;
            self.sides[place] = if split { drawn } else { u8::from(place == alone) };
        }
    }

    /// Somebody copies a disk, or sets one back to the copy. Fewer than half of the disks may lack
    /// anything at a time: what is on the others all can get again.
    fn copy_or_set_back(&mut self) {
        // Drawn apart, so that nothing else depends on it.
        let mut rng = SplitMix64::new(SplitMix64::mix(self.seed ^ self.now));
        let place = rng.below(self.machines.len() as u64) as usize;
        if rng.below(2) == 0 {
            self.machines[place].keep_copy();
            return;
        }
        for machine in &mut self.machines {
            let elects = |machine: &Machine| {
                machine.up.as_ref().is_some_and(|up| up.replica.waits().is_none())
            };
            if machine.old && elects(machine) {
                machine.old = false;
                self.counts.readmitted += 1;
            }
        }
        let lacks = |machine: &&Machine| machine.old || machine.rots || machine.lost.is_some();
        let lacking = self.machines.iter().filter(lacks).count();
        let machine = &self.machines[place];
        let more = usize::from(!machine.old && !machine.rots);
        if machine.lost.is_some() || 2 * (lacking + more) >= self.machines.len() {
            return;
        }
        let id = machine.id;
        self.kill(id);
        self.counts.set_back += u64::from(self.machine(id).set_back());
    }

    fn spoil_disk(&mut self, id: u8) {
        let (kind, amount) = (self.rng.below(5), 1 + self.rng.below(200));
        let rots = self.machine(id).rots;
        self.machine(id).with_disk(|disk| {
            let faults = match kind {
                0 => journal::DiskFaults { short: amount, ..<_>::default() },
                1 => journal::DiskFaults { failing: amount / 4, ..<_>::default() },
                2..=4 if rots => {
                    journal::DiskFaults { corrupt: 100 + 2 * amount, ..<_>::default() }
                }
                2 => journal::DiskFaults { slow: amount, ..<_>::default() },
                // Room for nothing new.
                _ => journal::DiskFaults { room: 1, slow: amount, ..<_>::default() },
            };
            disk.set_faults(faults);
        });
    }

    /// All is mended.
    pub(super) fn heal(&mut self) {
        self.healed = true;
        self.weather = Weather::default();
        self.sides.fill(0);
        for place in 0..self.machines.len() {
            self.machines[place].paused_until = 0;
            self.machines[place].with_disk(|disk| {
                disk.set_faults(Default::default());
                disk.crash_at(NO_CRASH);
            });
        }
        self.after(UPGRADES_MS * MS, Event::Upgrade);
    }

    /// Whoever can't know any more what it has promised, because its disk is rotten, waits until others can
    /// say so, which earlier versions can't (docs/replication.md, versions). So an operator upgrades all,
    /// one after the other, each when the one before takes part.
    pub(super) fn upgrade(&mut self) {
        self.after(UPGRADES_MS * MS, Event::Upgrade);
        let living = |machine: &&Machine| machine.lost.is_none() && !machine.gone;
        let (mut somebody_waits, mut next) = (false, None);
        for machine in self.machines.iter().filter(living) {
            let Some(up) = &machine.up else { return };
            match up.replica.waits() {
                None => {}
                Some(Waits::SetBack { .. }) => somebody_waits = true,
                Some(Waits::Asks { .. } | Waits::Doubts { .. }) => return,
            }
            let older = up.replica.config().newest < VERSION && !machine.upgraded;
            next = next.or(older.then_some(machine.id));
        }
        if let Some(id) = next.filter(|_| somebody_waits) {
            self.counts.reversioned += 1;
            self.machine(id).upgraded = true;
            self.kill(id);
        }
    }
}
