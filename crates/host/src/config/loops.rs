//! `[loops]`: on which cores the loops of `fairbell up` run, and how they wait for something to do.

use net::{LoopConfig, WaitStrategy};
use serde::{Deserialize, Serialize};
use types::Nanos;

use super::Config;
use super::load::Both;
use crate::core;

/// Loops of `fairbell up`: that of root and proxies, that of the edges, that of participants and listeners.
pub const LOOPS: usize = 3;
/// What each key says when it says nothing.
const AUTO: &str = "auto";
/// What [`Loops::edges`] says of edges in the root's loop.
const WITH_ROOT: &str = "root";

/// Where the loops run and how they wait.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Loops {
    /// The loop of the root, unless it is replicated, and of the proxies: see [`LoopHabit`].
    pub root: String,
    /// That of the edges: receivers and gateways. `root`: they are in the root's loop, see
    /// [`Loops::edges_in`].
    pub edges: String,
    /// That of built-in participants and listeners.
    pub outside: String,
    /// How long a loop that spins looks again and again before it sleeps, microseconds.
    pub spin_us: u64,
}

impl Default for Loops {
    fn default() -> Self {
        let auto = || AUTO.to_string();
        Loops { root: auto(), edges: auto(), outside: auto(), spin_us: 20 }
    }
}

/// How a loop waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoopHabit {
    /// `auto`: it spins where there are more cores than loops, and else parks.
    Auto,
    /// `park`: it sleeps as soon as there is nothing to do.
    Park,
    /// `spin`: it looks again and again for `spin_us` before it sleeps.
    Spin,
    /// `core N`: it runs on that core alone and never sleeps.
    Core(u16),
}

impl LoopHabit {
    /// Reads what a key says; `None` for anything else.
    pub fn parse(text: &str) -> Option<LoopHabit> {
        match text {
            AUTO => Some(LoopHabit::Auto),
            "park" => Some(LoopHabit::Park),
            "spin" => Some(LoopHabit::Spin),
            _ => text.strip_prefix("core ")?.parse().ok().map(LoopHabit::Core),
        }
    }

    /// The core that its thread is to take.
    pub fn core(self) -> Option<u16> {
        match self {
            LoopHabit::Core(core) => Some(core),
            LoopHabit::Auto | LoopHabit::Park | LoopHabit::Spin => None,
        }
    }

    /// How it waits, with `spin_us` of [`Loops`], where there are so many cores.
    pub fn wait(self, spin_us: u64, cores: usize) -> WaitStrategy {
        let spin_ns = spin_us * Nanos::MICRO;
        let spin = WaitStrategy { spin_ns, timer_spin_ns: spin_ns };
        match self {
            LoopHabit::Auto if cores > LOOPS => spin,
            LoopHabit::Spin => spin,
            LoopHabit::Auto | LoopHabit::Park => core::shared().wait,
            LoopHabit::Core(_) => core::own().wait,
        }
    }
}

impl Loops {
    /// By loop: root and proxies, edges, participants and listeners. Checked when it was read.
    pub fn habits(&self) -> [LoopHabit; LOOPS] {
        self.texts().map(|(_, text)| LoopHabit::parse(text).unwrap_or(LoopHabit::Auto))
    }

    /// The loop of the edges: 1, or with `edges = "root"` 0, the root's. Then what root, proxies and edges send
    /// each other is handed over in memory, and what root and edges send each other is not sealed.
    pub fn edges_in(&self) -> usize {
        usize::from(self.edges != WITH_ROOT)
    }

    /// The habits of the edges' loop, which releases at deadlines: with a core of its own it begins nothing
    /// shortly before one.
    pub fn of_edges(habit: LoopHabit, usual: LoopConfig) -> LoopConfig {
        match habit {
            LoopHabit::Core(_) => {
                LoopConfig { timer_guard_ns: core::own().timer_guard_ns, ..usual }
            }
            LoopHabit::Auto | LoopHabit::Park | LoopHabit::Spin => usual,
        }
    }

    /// The cores that loops are to have to themselves, each with its key.
    pub fn cores(&self) -> impl Iterator<Item = (&'static str, u16)> {
        let keys = self.texts().map(|(key, _)| key).into_iter();
        keys.zip(self.habits()).filter_map(|(key, habit)| Some((key, habit.core()?)))
    }

    fn texts(&self) -> [(&'static str, &str); LOOPS] {
        [("loops.root", &self.root), ("loops.edges", &self.edges), ("loops.outside", &self.outside)]
    }
}

/// What the keys' texts must be, and that no two loops have one core.
pub(super) fn relations(config: &Config, both: &mut Both<'_>) {
    let texts = config.loops.texts();
    for (at, (key, text)) in texts.into_iter().enumerate() {
        let is_edges = key == "loops.edges";
        if is_edges && text == WITH_ROOT {
            continue;
        }
        let Some(habit) = LoopHabit::parse(text) else {
            let with_root = if is_edges { "\"root\", " } else { "" };
            let why = format!(
                "must be \"auto\", {with_root}\"park\", \"spin\" or \"core N\" with the number of a core, is {text:?}"
            );
            both((key, why.clone()), (key, why));
            continue;
        };
        let before = texts.iter().take(at);
        let same = |(_, other): &&(&str, &str)| LoopHabit::parse(other) == Some(habit);
        if let (Some(core), Some((other, _))) = (habit.core(), before.clone().find(same)) {
            let why =
                |of: &str| format!("core {core} is that of {of}, too: a loop has it to itself");
            both((key, why(other)), (other, why(key)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_waits_as_its_key_says() {
        let wait = |text: &str, cores| {
            let habit = LoopHabit::parse(text).expect("a habit");
            let WaitStrategy { spin_ns, .. } = habit.wait(35, cores);
            (habit.core(), spin_ns)
        };
        assert_eq!(wait("auto", LOOPS), (None, 0), "as many cores as loops");
        assert_eq!(wait("auto", LOOPS + 1), (None, 35_000));
        assert_eq!(wait("park", 64), (None, 0));
        assert_eq!(wait("spin", 1), (None, 35_000));
        assert_eq!(wait("core 7", 1), (Some(7), u64::MAX), "it never sleeps");
        for wrong in ["", "core", "core ", "core -1", "core 65536", "Spin", "core 1 "] {
            assert_eq!(LoopHabit::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn only_the_edges_on_a_core_of_their_own_guard_their_timers() {
        let guard = |habit| Loops::of_edges(habit, LoopConfig::default()).timer_guard_ns;
        assert_eq!(guard(LoopHabit::Spin), LoopConfig::default().timer_guard_ns);
        assert!(guard(LoopHabit::Core(1)) > LoopConfig::default().timer_guard_ns);
    }
}
