//! Slots in pages: values by index, in memory that goes back when whole pages are free.
//!
//! Enters: values.  Leaves: their indexes, dense, those of pages with room reused first.
//! Owns:   which slots are free. What is in a free slot means nothing.

use crate::copy_budget::CopyBudget;
use std::ops::{Index, IndexMut};

/// Slots of a page.
const PAGE_SLOTS: usize = 64;
const PAGE_SLOTS_LOG2: u32 = PAGE_SLOTS.ilog2();

#[derive(Clone)]
struct Page<T> {
    /// Grows with what is inserted.
    slots: Vec<T>,
    /// Those of them that are free, the last is taken first.
    free: Vec<u8>,
    /// It is on the list of pages with room.
    is_listed: bool,
}

#[derive(Clone)]
pub(crate) struct SlotPages<T> {
    pages: Vec<Page<T>>,
    /// Pages with room for more, the last is taken first.
    with_room: Vec<u32>,
    len: usize,
    /// Bytes of all pages.
    pages_bytes: usize,
}

impl<T> Page<T> {
    const EMPTY: Page<T> = Page { slots: Vec::new(), free: Vec::new(), is_listed: false };

    fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Bytes on the heap.
    fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<T>() + self.free.capacity()
    }
}

#[inline(always)]
fn place(index: u32) -> (usize, usize) {
    ((index >> PAGE_SLOTS_LOG2) as usize, index as usize % PAGE_SLOTS)
}

impl<T> SlotPages<T> {
    pub const fn new() -> Self {
        Self { pages: Vec::new(), with_room: Vec::new(), len: 0, pages_bytes: 0 }
    }

    /// Copies more values. `copy_of` tells also how many bytes a value has on the heap. Returns whether none is left.
    pub fn copy_part(
        &self,
        copy: &mut Self,
        budget: &mut CopyBudget,
        mut copy_of: impl FnMut(&T) -> (T, usize),
    ) -> bool {
        loop {
            let copied = copy.pages.len();
            if let Some(to) = copy.pages.last_mut() {
                let (from, before) = (&self.pages[copied - 1], to.bytes());
                let is_copied = budget.copy_each(&from.slots, &mut to.slots, &mut copy_of);
                if is_copied {
                    to.free.clone_from(&from.free);
                    to.is_listed = from.is_listed;
                }
                copy.pages_bytes += to.bytes() - before;
                if !is_copied {
                    return false;
                }
            }
            if copied == self.pages.len() {
                break;
            }
            if budget.is_spent() {
                return false;
            }
            copy.pages.reserve_exact(self.pages.len() - copied);
            copy.pages.push(Page::EMPTY);
            budget.draw(size_of::<Page<T>>());
        }
        copy.len = self.len;
        budget.copy_values(&self.with_room, &mut copy.with_room)
    }

    /// How many slots are in use.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Indexes are below this.
    pub fn end(&self) -> u32 {
        (self.pages.len() * PAGE_SLOTS) as u32
    }

    /// Bytes of all slots.
    pub fn bytes(&self) -> usize {
        self.pages.capacity() * size_of::<Page<T>>() + self.with_room.capacity() * size_of::<u32>() + self.pages_bytes
    }

    #[inline]
    pub fn get(&self, index: u32) -> Option<&T> {
        let (page, at) = place(index);
        self.pages.get(page)?.slots.get(at)
    }

    #[inline]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        let (page, at) = place(index);
        self.pages.get_mut(page)?.slots.get_mut(at)
    }

    pub fn insert(&mut self, value: T) -> u32 {
        let number = match self.with_room.last() {
            Some(&number) => number as usize,
            None => {
                self.pages.push(Page { is_listed: true, ..Page::EMPTY });
                self.with_room.push((self.pages.len() - 1) as u32);
                self.pages.len() - 1
            }
        };
        let page = &mut self.pages[number];
        let before = page.bytes();
        let at = match page.free.pop() {
            Some(at) => {
                page.slots[usize::from(at)] = value;
                usize::from(at)
            }
            None => {
                page.slots.push(value);
                page.slots.len() - 1
            }
        };
        self.pages_bytes += page.bytes() - before;
        if page.len() == PAGE_SLOTS {
            page.is_listed = false;
            self.with_room.pop();
        }
        self.len += 1;
        (number << PAGE_SLOTS_LOG2 | at) as u32
    }

    /// Frees a slot that is in use.
    pub fn free(&mut self, index: u32) {
        let (number, at) = place(index);
        let page = &mut self.pages[number];
        debug_assert!(at < page.slots.len() && !page.free.contains(&(at as u8)), "a slot is freed once");
        let before = page.bytes();
        page.free.push(at as u8);
        if page.len() == 0 {
            (page.slots, page.free) = (Vec::new(), Vec::new());
        }
        self.pages_bytes = self.pages_bytes + page.bytes() - before;
        if !page.is_listed {
            page.is_listed = true;
            self.with_room.push(number as u32);
        }
        self.len -= 1;
    }

    /// All slots, free ones too, in the order of their indexes.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let pages = self.pages.iter().enumerate();
        pages.flat_map(|(number, page)| {
            let slots = page.slots.iter().enumerate();
            slots.map(move |(at, slot)| ((number << PAGE_SLOTS_LOG2 | at) as u32, slot))
        })
    }

    /// All slots, free ones too, in the order of their indexes, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        let pages = self.pages.iter_mut().enumerate();
        pages.flat_map(|(number, page)| {
            let slots = page.slots.iter_mut().enumerate();
            slots.map(move |(at, slot)| ((number << PAGE_SLOTS_LOG2 | at) as u32, slot))
        })
    }
}

impl<T> Default for SlotPages<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Index<u32> for SlotPages<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: u32) -> &T {
        let (page, at) = place(index);
        &self.pages[page].slots[at]
    }
}

impl<T> IndexMut<u32> for SlotPages<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        let (page, at) = place(index);
        &mut self.pages[page].slots[at]
    }
}

#[cfg(test)]
mod tests {
    use super::{PAGE_SLOTS, SlotPages};
    use crate::copy_budget::CopyBudget;

    const COUNT: u32 = 20 * PAGE_SLOTS as u32 + 7;

    fn counted(slots: &SlotPages<u64>) -> usize {
        slots.pages.iter().map(|page| page.slots.capacity() * 8 + page.free.capacity()).sum()
    }

    #[test]
    fn slots_are_reused_and_pages_that_are_free_give_their_memory_back() {
        let mut slots = SlotPages::new();
        for round in 0..3 {
            let mut all: Vec<u32> = (0..COUNT).map(|value| slots.insert(u64::from(value))).collect();
            assert!(all.iter().enumerate().all(|(value, &index)| slots[index] == value as u64), "round {round}");
            assert!(all.iter().all(|&index| index < slots.end()) && slots.end() < COUNT + PAGE_SLOTS as u32);
            assert_eq!((slots.len(), slots.pages_bytes), (COUNT as usize, counted(&slots)));
            for &index in all.iter().step_by(2) {
                slots.free(index);
            }
            let end = slots.end();
            for index in all.iter_mut().step_by(2) {
                *index = slots.insert(0);
            }
            all.sort_unstable();
            all.dedup();
            assert_eq!((all.len(), slots.end()), (COUNT as usize, end), "no page is new");
            all.iter().for_each(|&index| slots.free(index));
            assert_eq!((slots.len(), slots.pages_bytes, counted(&slots)), (0, 0, 0));
            assert!(slots.get(7).is_none() && slots.iter().next().is_none());
        }
        assert!(slots.bytes() < 21 * 100, "{} bytes", slots.bytes());
    }

    #[test]
    fn a_copy_is_made_in_pieces_and_gives_the_same_indexes() {
        let mut slots = SlotPages::new();
        (0..COUNT).for_each(|value| _ = slots.insert(u64::from(value)));
        (0..2 * PAGE_SLOTS as u32 + 9).for_each(|index| slots.free(index));
        let (mut copy, mut pieces) = (SlotPages::new(), 1);
        while !slots.copy_part(&mut copy, &mut CopyBudget::new(100 * 8), |&value| (value, 0)) {
            pieces += 1;
        }
        assert!(pieces > COUNT / 110, "{pieces}");
        assert!(slots.iter().eq(copy.iter()) && copy.pages_bytes == counted(&copy));
        for value in 0..3 * PAGE_SLOTS as u64 {
            assert_eq!(slots.insert(value), copy.insert(value));
        }
        assert!(slots.iter_mut().eq(copy.iter_mut()));
    }
}
