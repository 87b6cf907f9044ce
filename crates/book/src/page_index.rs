//! Pages in order of price.
//!
//! 64 neighbouring page numbers make a *chapter*: the pages it holds, and a bit for each that has a
//! level. Chapters with a level somewhere are linked in order; to link one, a sorted directory is
//! searched. A page without levels stays where it is until its memory is needed elsewhere, a
//! chapter as long as it holds a page, and some chapters without levels stay linked, few enough to
//! be walked past: where prices swing, the same pages and chapters come and go with every order.

use crate::order::NOWHERE;
use crate::pages::PageTable;

/// Linked chapters without levels, at most.
const IDLE: u32 = 32;

#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Chapter {
    /// Bit n: page n has levels.
    occupied: u64,
    number: u32,
    /// Neighbours, larger and smaller, of a linked chapter; in a free chapter `worse` is the next
    /// free one.
    better: u32,
    worse: u32,
    /// Pages it holds, those without levels included.
    held: u32,
    linked: bool,
    pages: [u32; 64],
}

#[derive(Debug)]
pub(crate) struct PageIndex {
    list: Vec<Chapter>,
    free: u32,
    table: PageTable,
    /// (chapter number, chapter) of the linked ones, ascending.
    directory: Vec<(u32, u32)>,
    /// Number of linked chapters without levels.
    idle: u32,
}

impl PageIndex {
    /// An index for this many pages.
    pub(crate) fn new(pages: u32) -> PageIndex {
        PageIndex {
            list: Vec::with_capacity(pages as usize),
            free: NOWHERE,
            table: PageTable::new(pages),
            directory: Vec::with_capacity(pages as usize),
            idle: 0,
        }
    }

    /// The page of a number, which may have no levels; `NOWHERE` if there is none.
    #[inline(always)]
    pub(crate) fn find(&self, number: u32) -> u32 {
        let Some(chapter) = self.table.find(number >> 6) else { return NOWHERE };
        self.list[chapter as usize].pages[(number & 63) as usize]
    }

    /// Puts a page without levels into its chapter, which is returned.
    pub(crate) fn put(&mut self, number: u32, page: u32) -> u32 {
        let chapter = match self.table.find(number >> 6) {
            Some(chapter) => chapter,
            None => self.make(number >> 6),
        };
        let data = &mut self.list[chapter as usize];
        data.pages[(number & 63) as usize] = page;
        data.held += 1;
        chapter
    }

    fn make(&mut self, number: u32) -> u32 {
        let mut chapter = self.free;
        if let Some(free) = self.list.get_mut(chapter as usize) {
            // It has neither pages nor levels.
            self.free = free.worse;
            free.number = number;
        } else {
            chapter = self.list.len() as u32;
            let (better, worse, pages) = (NOWHERE, NOWHERE, [NOWHERE; 64]);
            let (occupied, held, linked) = (0, 0, false);
            self.list.push(Chapter { occupied, number, better, worse, held, linked, pages });
        }
        self.table.insert(number, chapter);
        chapter
    }

    /// Takes a page without levels out of its chapter.
    pub(crate) fn take_out(&mut self, chapter: u32, number: u32) {
        let data = &mut self.list[chapter as usize];
        data.pages[(number & 63) as usize] = NOWHERE;
        data.held -= 1;
        if data.held == 0 {
            if data.linked {
                self.idle -= 1;
                self.unlink(chapter);
            }
            self.list[chapter as usize].worse = self.free;
            self.free = chapter;
            self.table.remove(number >> 6);
        }
    }

    /// A page has its first level.
    #[inline(always)]
    pub(crate) fn occupy(&mut self, chapter: u32, number: u32) {
        let data = &mut self.list[chapter as usize];
        let before = data.occupied;
        data.occupied = before | 1 << (number & 63);
        if before == 0 {
            if data.linked {
                self.idle -= 1;
            } else {
                self.link(chapter);
            }
        }
    }

    /// A page has lost its last level.
    #[inline(always)]
    pub(crate) fn vacate(&mut self, chapter: u32, number: u32) {
        let data = &mut self.list[chapter as usize];
        data.occupied &= !(1 << (number & 63));
        if data.occupied == 0 {
            if self.idle < IDLE {
                self.idle += 1;
            } else {
                self.unlink(chapter);
            }
        }
    }

    #[inline(never)]
    fn link(&mut self, chapter: u32) {
        let number = self.list[chapter as usize].number;
        let at = self.directory.partition_point(|&(other, _)| other < number);
        let worse = if at == 0 { NOWHERE } else { self.directory[at - 1].1 };
        let better = self.directory.get(at).map_or(NOWHERE, |&(_, chapter)| chapter);
        let data = &mut self.list[chapter as usize];
        (data.better, data.worse, data.linked) = (better, worse, true);
        self.join(worse, better, chapter, chapter);
        self.directory.insert(at, (number, chapter));
    }

    #[inline(never)]
    fn unlink(&mut self, chapter: u32) {
        let data = &mut self.list[chapter as usize];
        data.linked = false;
        let (number, better, worse) = (data.number, data.better, data.worse);
        self.join(worse, better, better, worse);
        let at = self.directory.partition_point(|&(other, _)| other < number);
        self.directory.remove(at);
    }

    /// Says to `worse` what is better than it, and to `better` what is worse.
    fn join(&mut self, worse: u32, better: u32, better_of_worse: u32, worse_of_better: u32) {
        if let Some(data) = self.list.get_mut(worse as usize) {
            data.better = better_of_worse;
        }
        if let Some(data) = self.list.get_mut(better as usize) {
            data.worse = worse_of_better;
        }
    }

    /// The next page with levels below a page of this number.
    #[inline(always)]
    pub(crate) fn worse(&self, chapter: u32, number: u32) -> Option<u32> {
        let mut data = &self.list[chapter as usize];
        let mut bits = data.occupied & ((1 << (number & 63)) - 1);
        while bits == 0 {
            data = self.list.get(data.worse as usize)?;
            bits = data.occupied;
        }
        Some(data.pages[bits.ilog2() as usize])
    }

    /// The next page with levels above a page of this number.
    pub(crate) fn better(&self, chapter: u32, number: u32) -> Option<u32> {
        let mut data = &self.list[chapter as usize];
        let mut bits = data.occupied & (u64::MAX << (number & 63)) << 1;
        while bits == 0 {
            data = self.list.get(data.better as usize)?;
            bits = data.occupied;
        }
        Some(data.pages[(bits.trailing_zeros() & 63) as usize])
    }

    /// The page with levels that has the smallest number.
    pub(crate) fn worst(&self) -> Option<u32> {
        let mut linked = self.directory.iter().map(|&(_, chapter)| &self.list[chapter as usize]);
        let data = linked.find(|data| data.occupied != 0)?;
        Some(data.pages[(data.occupied.trailing_zeros() & 63) as usize])
    }

    /// Whether directory, links, bits and table agree with each other, and `agrees` with each page
    /// that has levels: told ascending by number, with its number and chapter.
    pub(crate) fn is_sound(&self, mut agrees: impl FnMut(u32, u32, u32) -> bool) -> bool {
        let (mut worse, mut idle) = (NOWHERE, 0);
        for &(number, chapter) in &self.directory {
            let data = &self.list[chapter as usize];
            let linked = data.number == number && data.worse == worse && data.linked;
            let other = self.list.get(worse as usize);
            let linked_back = other.is_none_or(|o| o.better == chapter && o.number < number);
            if !linked || !linked_back || self.table.find(number) != Some(chapter) {
                return false;
            }
            let mut bits = data.occupied;
            while bits != 0 {
                let bit = bits.trailing_zeros();
                if !agrees(data.pages[bit as usize], number << 6 | bit, chapter) {
                    return false;
                }
                bits &= bits - 1;
            }
            (worse, idle) = (chapter, idle + u32::from(data.occupied == 0));
        }
        let ends = self.list.get(worse as usize).is_none_or(|data| data.better == NOWHERE);
        let linked = |data: &&Chapter| data.occupied != 0 || data.linked;
        let count = self.list.iter().filter(linked).count();
        let held = |data: &Chapter| data.pages.iter().filter(|&&page| page != NOWHERE).count();
        let holds = self.list.iter().all(|data| held(data) == data.held as usize);
        ends && holds && count == self.directory.len() && idle == self.idle && idle <= IDLE
    }
}
