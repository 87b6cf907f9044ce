//! Tables of a format, worked out at compile time.
//!
//! Sets of slots are 64-bit words with slot 0 in the highest bit, as a presence map has it.

use super::{Category, Format, Kind, More, Rule, SLOTS_MAX};

/// The set of one slot.
pub(super) const fn bit(slot: u8) -> u64 {
    1 << 63 >> slot
}

const fn set(slots: &[u8]) -> u64 {
    let mut all = 0;
    let mut at = 0;
    while at < slots.len() {
        all |= bit(slots[at]);
        at += 1;
    }
    all
}

/// The slot with a name.
///
/// # Panics
/// At compile time, where it is meant to be used, when there is none.
pub const fn slot(format: &Format, name: &str) -> usize {
    let mut at = 0;
    while at < format.slots.len() {
        if same(format.slots[at].name.as_bytes(), name.as_bytes()) {
            return at;
        }
        at += 1;
    }
    panic!("the format has no such slot")
}

/// The slots that every message of a category has, slot 0 in the highest bit; none of a category
/// that is not listed.
pub const fn category_slots(format: &Format, code: u8) -> u64 {
    let mut at = 0;
    while at < format.categories.len() {
        if format.categories[at].code == code {
            return set(format.categories[at].slots);
        }
        at += 1;
    }
    0
}

const fn same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// Mask of the value bits of a word: the lower seven of each byte.
pub(super) const SEVENS: u64 = 0x7F7F_7F7F_7F7F_7F7F;

/// What the fast decoder has to know of a category.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    /// Slots of every message of the category. All 64, of which no message can have the last one,
    /// where it has to go field by field: no such category, repetitions, or long text.
    pub slots: u64,
    /// Whether [`Plan::appendages`] has further slots for the category.
    pub appended: bool,
}

pub(super) struct Plan {
    /// By slot, what of eight bytes without stop bits is of the value.
    pub masks: [u64; SLOTS_MAX + 1],
    pub longs: u64,
    pub increments: u64,
    /// The slots with an increment operator, and how many they are.
    pub counters: ([u8; SLOTS_MAX], usize),
    pub entries: [Entry; 128],
    /// Slot whose value decides on appendages.
    pub appendage_by: usize,
    /// Slots appended, by its value; [`u64::MAX`] where the value is not listed.
    pub appendages: [u64; 128],
}

impl Plan {
    pub const fn of(format: &Format) -> Plan {
        assert!(format.slots.len() <= SLOTS_MAX, "too many slots");
        let mut plan = Plan {
            masks: [SEVENS; SLOTS_MAX + 1],
            longs: 0,
            increments: 0,
            counters: ([0; SLOTS_MAX], 0),
            entries: [Entry { slots: u64::MAX, appended: false }; 128],
            appendage_by: 0,
            appendages: [u64::MAX; 128],
        };
        let mut at = 0;
        while at < format.slots.len() {
            match format.slots[at].kind {
                Kind::Number => {}
                Kind::Short => plan.masks[at] = u64::MAX,
                Kind::Long => plan.longs |= bit(at as u8),
            }
            if let Rule::Increment = format.slots[at].rule {
                assert!(matches!(format.slots[at].kind, Kind::Number), "only numbers are counted");
                plan.increments |= bit(at as u8);
                plan.counters.0[plan.counters.1] = at as u8;
                plan.counters.1 += 1;
            }
            at += 1;
        }
        let mut at = 0;
        while at < format.categories.len() {
            plan.category(&format.categories[at], format.category);
            at += 1;
        }
        plan
    }

    const fn category(&mut self, category: &Category, slot: u8) {
        assert!(category.code < 128, "categories are ASCII");
        assert!(category.slots[0] == slot, "a message begins with its category");
        let mut slots = set(category.slots);
        if matches!(category.more, More::Repeat(_)) || slots & self.longs != 0 {
            slots = u64::MAX;
        }
        let mut appended = false;
        if let More::Appendage(appendage) = &category.more {
            appended = true;
            self.appendage_by = appendage.by as usize;
            let mut case = 0;
            while case < appendage.cases.len() {
                let (values, slots) = appendage.cases[case];
                let mut at = 0;
                while at < values.len() {
                    self.appendages[values[at] as usize] = set(slots);
                    at += 1;
                }
                case += 1;
            }
        }
        self.entries[category.code as usize] = Entry { slots, appended };
    }
}
