//! Which page, or chapter, a number is: a small open-addressing table of one ladder.

use crate::index::random_odd;

/// The number in the upper half, page or chapter + 1 in the lower; 0: empty.
#[derive(Debug)]
pub(crate) struct PageTable {
    places: Vec<u64>,
    mask: usize,
    /// Odd, drawn at random: what a number's product with it begins with says where it goes.
    seed: u64,
    shift: u32,
}

impl PageTable {
    pub(crate) fn new(capacity: u32) -> PageTable {
        let size = (capacity as usize * 2 + 2).next_power_of_two();
        let (mask, shift) = (size - 1, u64::BITS - size.ilog2());
        PageTable { places: vec![0; size], mask, seed: random_odd(), shift }
    }

    #[inline(always)]
    fn home(&self, number: u32) -> usize {
        (u64::from(number).wrapping_mul(self.seed) >> self.shift) as usize
    }

    #[inline(always)]
    pub(crate) fn find(&self, number: u32) -> Option<u32> {
        let mut at = self.home(number);
        loop {
            let place = self.places[at];
            if place == 0 {
                return None;
            }
            if (place >> 32) as u32 == number {
                return Some(place as u32 - 1);
            }
            at = (at + 1) & self.mask;
        }
    }

    /// Puts in a number that is not there.
    pub(crate) fn insert(&mut self, number: u32, page: u32) {
        let mut at = self.home(number);
        while self.places[at] != 0 {
            at = (at + 1) & self.mask;
        }
        self.places[at] = u64::from(number) << 32 | u64::from(page + 1);
    }

    /// Takes out a number, if it is there.
    pub(crate) fn remove(&mut self, number: u32) {
        let mut hole = self.home(number);
        while (self.places[hole] >> 32) as u32 != number {
            if self.places[hole] == 0 {
                return;
            }
            hole = (hole + 1) & self.mask;
        }
        let mut at = hole;
        loop {
            at = (at + 1) & self.mask;
            let place = self.places[at];
            if place == 0 {
                break;
            }
            let home = self.home((place >> 32) as u32);
            if at.wrapping_sub(home) & self.mask >= at.wrapping_sub(hole) & self.mask {
                self.places[hole] = place;
                hole = at;
            }
        }
        self.places[hole] = 0;
    }
}
