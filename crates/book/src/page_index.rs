//! Pages in order of price.
//!
//! 64 neighbouring page numbers make a *chapter*, 64 neighbouring chapters a *volume*: each has a bit for
//! each of its parts that has a level, and says where they lie. So the next page is a bit scan or two away within
//! 262,144 prices. Volumes with a level somewhere are linked in order; to link one, a sorted directory is
//! searched. A page without levels stays where it is until its memory is needed elsewhere, chapters and
//! volumes as long as they hold a page, and some volumes without levels stay linked, few enough to
//! be walked past: where prices swing, the same pages, chapters and volumes come and go with every order.

use crate::order::NOWHERE;
use crate::pages::PageTable;

/// Linked volumes without levels, at most.
const IDLE: u32 = 32;

/// 64 neighbouring pages.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Chapter {
    /// Bit n: page n has levels.
    occupied: u64,
    number: u32,
    volume: u32,
    /// Pages it holds, those without levels included.
    held: u32,
    /// In a free chapter, the next free one.
    next_free: u32,
    pages: [u32; 64],
}

/// 64 neighbouring chapters.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Volume {
    /// Bit n: a page of chapter n has levels.
    occupied: u64,
    number: u32,
    /// Neighbours, larger and smaller, of a linked volume; in a free volume `worse` is the next
    /// free one.
    better: u32,
    worse: u32,
    /// Chapters it holds, those without levels included.
    held: u32,
    linked: bool,
    chapters: [u32; 64],
}

#[derive(Debug)]
pub(crate) struct PageIndex {
    list: Vec<Chapter>,
    free: u32,
    table: PageTable,
    volumes: Vec<Volume>,
    free_volume: u32,
    /// (volume number, volume), ascending: of all volumes, and of the linked ones.
    shelf: Vec<(u32, u32)>,
    directory: Vec<(u32, u32)>,
    /// Number of linked volumes without levels.
    idle: u32,
}

impl PageIndex {
    /// An index for this many pages.
    pub(crate) fn new(pages: u32) -> PageIndex {
        PageIndex {
            list: Vec::with_capacity(pages as usize),
            free: NOWHERE,
            table: PageTable::new(pages),
            volumes: Vec::with_capacity(pages as usize),
            free_volume: NOWHERE,
            shelf: Vec::with_capacity(pages as usize),
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
        let volume = self.volume_of(number >> 6);
        let mut chapter = self.free;
        if let Some(free) = self.list.get_mut(chapter as usize) {
            // It has neither pages nor levels.
            self.free = free.next_free;
            (free.number, free.volume) = (number, volume);
        } else {
            chapter = self.list.len() as u32;
            let (pages, next_free) = ([NOWHERE; 64], NOWHERE);
            self.list.push(Chapter { occupied: 0, number, volume, held: 0, next_free, pages });
        }
        self.table.insert(number, chapter);
        let data = &mut self.volumes[volume as usize];
        data.chapters[(number & 63) as usize] = chapter;
        data.held += 1;
        chapter
    }

    /// The volume of a number, made if it does not exist: the caller puts a chapter into it.
    fn volume_of(&mut self, number: u32) -> u32 {
        let at = self.shelf.partition_point(|&(other, _)| other < number);
        match self.shelf.get(at) {
            Some(&(found, volume)) if found == number => return volume,
            _ => {}
        }
        let mut volume = self.free_volume;
        if let Some(free) = self.volumes.get_mut(volume as usize) {
            self.free_volume = free.worse;
            free.number = number;
        } else {
            volume = self.volumes.len() as u32;
            let (better, worse, chapters) = (NOWHERE, NOWHERE, [NOWHERE; 64]);
            let (occupied, held, linked) = (0, 0, false);
            let data = Volume { occupied, number, better, worse, held, linked, chapters };
            self.volumes.push(data);
        }
        self.shelf.insert(at, (number, volume));
        volume
    }

    /// Takes a page without levels out of its chapter.
    pub(crate) fn take_out(&mut self, chapter: u32, number: u32) {
        let data = &mut self.list[chapter as usize];
        data.pages[(number & 63) as usize] = NOWHERE;
        data.held -= 1;
        if data.held == 0 {
            data.next_free = std::mem::replace(&mut self.free, chapter);
            let (number, volume) = (data.number, data.volume);
            self.table.remove(number);
            self.take_chapter_out(volume, number);
        }
    }

    /// Takes a chapter without pages out of its volume.
    fn take_chapter_out(&mut self, volume: u32, number: u32) {
        let data = &mut self.volumes[volume as usize];
        data.chapters[(number & 63) as usize] = NOWHERE;
        data.held -= 1;
        if data.held == 0 {
            let number = data.number;
            if data.linked {
                self.idle -= 1;
                self.unlink(volume);
            }
            self.volumes[volume as usize].worse = std::mem::replace(&mut self.free_volume, volume);
            let at = self.shelf.partition_point(|&(other, _)| other < number);
            self.shelf.remove(at);
        }
    }

    /// A page has a level. Without a branch on whether its chapter had one before: where prices swing,
    /// nobody could predict that.
    #[inline(always)]
    pub(crate) fn occupy(&mut self, chapter: u32, number: u32) {
        let data = &mut self.list[chapter as usize];
        data.occupied |= 1 << (number & 63);
        let (volume, bit) = (data.volume, number >> 6 & 63);
        let data = &mut self.volumes[volume as usize];
        let before = data.occupied;
        data.occupied = before | 1 << bit;
        if before == 0 {
            self.occupy_first(volume);
        }
    }

    /// A volume has its first level.
    #[cold]
    #[inline(never)]
    fn occupy_first(&mut self, volume: u32) {
        if self.volumes[volume as usize].linked {
            self.idle -= 1;
        } else {
            self.link(volume);
        }
    }

    /// A page has lost a level, its last one if `last`.
    #[inline(always)]
    pub(crate) fn vacate(&mut self, chapter: u32, number: u32, last: bool) {
        let data = &mut self.list[chapter as usize];
        data.occupied &= !(u64::from(last) << (number & 63));
        let (volume, bit) = (data.volume, number >> 6 & 63);
        let empty = data.occupied == 0;
        let data = &mut self.volumes[volume as usize];
        data.occupied &= !(u64::from(empty) << bit);
        if data.occupied == 0 {
            self.vacate_last(volume);
        }
    }

    /// A volume has lost its last level.
    #[cold]
    #[inline(never)]
    fn vacate_last(&mut self, volume: u32) {
        if self.idle < IDLE {
            self.idle += 1;
        } else {
            self.unlink(volume);
        }
    }

    #[inline(never)]
    fn link(&mut self, volume: u32) {
        let number = self.volumes[volume as usize].number;
        let (at, [worse, better]) = self.neighbours(number);
        let data = &mut self.volumes[volume as usize];
        (data.better, data.worse, data.linked) = (better, worse, true);
        self.join(worse, better, volume, volume);
        self.directory.insert(at, (number, volume));
    }

    /// Where in the directory a volume of this number, which is not linked, would be, and the linked ones
    /// next to that place, smaller and larger.
    fn neighbours(&self, number: u32) -> (usize, [u32; 2]) {
        let at = self.directory.partition_point(|&(other, _)| other < number);
        let worse = if at == 0 { NOWHERE } else { self.directory[at - 1].1 };
        let better = self.directory.get(at).map_or(NOWHERE, |&(_, volume)| volume);
        (at, [worse, better])
    }

    /// The linked volumes next to one, smaller and larger.
    #[inline(always)]
    fn neighbours_of(&self, volume: &Volume) -> [u32; 2] {
        match volume.linked {
            true => [volume.worse, volume.better],
            false => self.neighbours(volume.number).1,
        }
    }

    #[inline(never)]
    fn unlink(&mut self, volume: u32) {
        let data = &mut self.volumes[volume as usize];
        data.linked = false;
        let (number, better, worse) = (data.number, data.better, data.worse);
        self.join(worse, better, better, worse);
        let at = self.directory.partition_point(|&(other, _)| other < number);
        self.directory.remove(at);
    }

    /// Says to `worse` what is better than it, and to `better` what is worse.
    fn join(&mut self, worse: u32, better: u32, better_of_worse: u32, worse_of_better: u32) {
        if let Some(data) = self.volumes.get_mut(worse as usize) {
            data.better = better_of_worse;
        }
        if let Some(data) = self.volumes.get_mut(better as usize) {
            data.worse = worse_of_better;
        }
    }

    /// The next page with levels below a page of this number.
    #[inline(always)]
    pub(crate) fn worse(&self, chapter: u32, number: u32) -> Option<u32> {
        let data = &self.list[chapter as usize];
        let bits = data.occupied & ((1 << (number & 63)) - 1);
        if bits != 0 {
            return Some(data.pages[bits.ilog2() as usize]);
        }
        let mut volume = &self.volumes[data.volume as usize];
        let mut bits = volume.occupied & ((1 << (number >> 6 & 63)) - 1);
        while bits == 0 {
            let [worse, _] = self.neighbours_of(volume);
            volume = self.volumes.get(worse as usize)?;
            bits = volume.occupied;
        }
        let data = &self.list[volume.chapters[bits.ilog2() as usize] as usize];
        Some(data.pages[data.occupied.checked_ilog2()? as usize])
    }

    /// The next page with levels above a page of this number.
    pub(crate) fn better(&self, chapter: u32, number: u32) -> Option<u32> {
        let data = &self.list[chapter as usize];
        let bits = data.occupied & (u64::MAX << (number & 63)) << 1;
        if bits != 0 {
            return Some(data.pages[(bits.trailing_zeros() & 63) as usize]);
        }
        let mut volume = &self.volumes[data.volume as usize];
        let mut bits = volume.occupied & (u64::MAX << (number >> 6 & 63)) << 1;
        while bits == 0 {
            let [_, better] = self.neighbours_of(volume);
            volume = self.volumes.get(better as usize)?;
            bits = volume.occupied;
        }
        let data = &self.list[volume.chapters[(bits.trailing_zeros() & 63) as usize] as usize];
        Some(data.pages[(data.occupied.trailing_zeros() & 63) as usize])
    }

    /// The page with levels that has the smallest number.
    pub(crate) fn worst(&self) -> Option<u32> {
        let mut linked = self.directory.iter().map(|&(_, volume)| &self.volumes[volume as usize]);
        let volume = linked.find(|data| data.occupied != 0)?;
        let chapter = volume.chapters[(volume.occupied.trailing_zeros() & 63) as usize];
        let data = &self.list[chapter as usize];
        Some(data.pages[(data.occupied.trailing_zeros() & 63) as usize])
    }

    /// Whether directory, links, bits and table agree with each other, and `agrees` with each page
    /// that has levels: told ascending by number, with its number and chapter.
    pub(crate) fn is_sound(&self, mut agrees: impl FnMut(u32, u32, u32) -> bool) -> bool {
        let (mut worse, mut idle) = (NOWHERE, 0);
        for &(number, volume) in &self.directory {
            let data = &self.volumes[volume as usize];
            let linked = data.number == number && data.worse == worse && data.linked;
            let other = self.volumes.get(worse as usize);
            let linked_back = other.is_none_or(|o| o.better == volume && o.number < number);
            if !linked || !linked_back || !self.agree_in_volume(volume, &mut agrees) {
                return false;
            }
            (worse, idle) = (volume, idle + u32::from(data.occupied == 0));
        }
        let ends = self.volumes.get(worse as usize).is_none_or(|data| data.better == NOWHERE);
        let linked = |data: &&Volume| data.occupied != 0 || data.linked;
        let count = self.volumes.iter().filter(linked).count();
        let held = |parts: &[u32; 64]| parts.iter().filter(|&&part| part != NOWHERE).count();
        let holds = self.list.iter().all(|data| held(&data.pages) == data.held as usize)
            && self.volumes.iter().all(|data| held(&data.chapters) == data.held as usize);
        let shelved = self.shelf.is_sorted()
            && self.shelf.len() == self.volumes.iter().filter(|data| data.held > 0).count()
            && self.shelf.iter().all(|&(number, at)| self.volumes[at as usize].number == number);
        let counts = count == self.directory.len() && idle == self.idle && idle <= IDLE;
        ends && holds && shelved && counts
    }

    /// [`PageIndex::is_sound`] of one volume: a chapter has its bit if it has levels.
    fn agree_in_volume(&self, volume: u32, agrees: &mut impl FnMut(u32, u32, u32) -> bool) -> bool {
        let data = &self.volumes[volume as usize];
        (0..64).all(|part| {
            let (number, chapter) = (data.number << 6 | part, data.chapters[part as usize]);
            let Some(held) = self.list.get(chapter as usize) else {
                return data.occupied >> part & 1 == 0;
            };
            let known = (held.number, held.volume) == (number, volume)
                && self.table.find(number) == Some(chapter)
                && (data.occupied >> part & 1 == 1) == (held.occupied != 0);
            let page = |bit: u32| (held.pages[bit as usize], number << 6 | bit);
            let mut pages = (0..64).filter(|bit| held.occupied >> bit & 1 == 1).map(page);
            known && pages.all(|(page, number)| agrees(page, number, chapter))
        })
    }
}
