//! A slot map in pages: values under keys that are never used again, in memory that goes back when whole pages are empty.
//!
//! Its keys are those of the crate `slotmap`, whose maps keep the size that they once had.

use crate::limits::PAGE_SLOTS;
use slotmap::{Key, KeyData};
use std::marker::PhantomData;

/// A place for a value. Odd versions are occupied.
struct Slot<V> {
    version: u32,
    content: SlotContent<V>,
}

enum SlotContent<V> {
    Value(V),
    /// The next free slot of the page.
    Free(Option<u32>),
}

struct Page<V> {
    /// Grows with what is inserted, to [`PAGE_SLOTS`] at most.
    slots: Vec<Slot<V>>,
    free: Option<u32>,
    len: usize,
    /// The version with which its slots begin: beyond those that the page had before it was empty.
    first_version: u32,
    /// It is on the list of pages with room.
    is_listed: bool,
}

/// Values under keys.
pub struct PagedSlotMap<K, V> {
    /// The first page has its place here: most brokers have no other, and each delivery looks several values up.
    first: Page<V>,
    /// The pages behind it.
    more: Vec<Page<V>>,
    /// Pages with room for more, the last is taken first.
    with_room: Vec<u32>,
    len: usize,
    keys: PhantomData<fn() -> K>,
}

const PAGE_SLOTS_LOG2: u32 = PAGE_SLOTS.ilog2();

fn key_of<K: Key>(page: usize, at: usize, version: u32) -> K {
    KeyData::from_ffi(u64::from(version) << 32 | (page << PAGE_SLOTS_LOG2 | at) as u64).into()
}

/// Page, place in it, and version.
#[inline]
fn place_of<K: Key>(key: K) -> (usize, usize, u32) {
    let bits = key.data().as_ffi();
    let index = bits as u32 as usize;
    (index >> PAGE_SLOTS_LOG2, index & (PAGE_SLOTS - 1), (bits >> 32) as u32)
}

impl<K: Key, V> PagedSlotMap<K, V> {
    pub const fn new() -> Self {
        PagedSlotMap { first: Page::EMPTY, more: Vec::new(), with_room: Vec::new(), len: 0, keys: PhantomData }
    }

    #[inline]
    fn page(&self, number: usize) -> Option<&Page<V>> {
        #[cfg(test)]
        crate::test_visits::note();
        if number == 0 { Some(&self.first) } else { self.more.get(number - 1) }
    }

    #[inline]
    fn page_mut(&mut self, number: usize) -> Option<&mut Page<V>> {
        #[cfg(test)]
        crate::test_visits::note();
        if number == 0 { Some(&mut self.first) } else { self.more.get_mut(number - 1) }
    }

    pub fn count(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn get(&self, key: K) -> Option<&V> {
        let (page, at, version) = place_of(key);
        match self.page(page)?.slots.get(at)? {
            Slot { version: current, content: SlotContent::Value(value) } if *current == version => Some(value),
            _ => None,
        }
    }

    #[inline]
    pub fn get_mut(&mut self, key: K) -> Option<&mut V> {
        let (page, at, version) = place_of(key);
        match self.page_mut(page)?.slots.get_mut(at)? {
            Slot { version: current, content: SlotContent::Value(value) } if *current == version => Some(value),
            _ => None,
        }
    }

    pub fn insert(&mut self, value: V) -> K {
        let number = match self.with_room.last() {
            Some(&number) => number as usize,
            None if self.first.len < PAGE_SLOTS => self.list_page(0),
            None => {
                self.more.push(Page::EMPTY);
                self.list_page(self.more.len())
            }
        };
        let Some(page) = self.page_mut(number) else { unreachable!("a page that is listed exists") };
        let (at, version) = page.insert(value);
        if page.len == PAGE_SLOTS {
            page.is_listed = false;
            self.with_room.pop();
        }
        self.len += 1;
        key_of(number, at, version)
    }

    pub fn remove(&mut self, key: K) -> Option<V> {
        let (number, at, version) = place_of(key);
        let page = self.page_mut(number)?;
        let value = page.remove(at, version)?;
        if !page.is_listed {
            self.list_page(number);
        }
        self.len -= 1;
        Some(value)
    }

    /// A page has room.
    fn list_page(&mut self, number: usize) -> usize {
        self.with_room.push(number as u32);
        if let Some(page) = self.page_mut(number) {
            page.is_listed = true;
        }
        number
    }

    /// Places of values, occupied or not.
    pub fn places(&self) -> usize {
        (1 + self.more.len()) << PAGE_SLOTS_LOG2
    }

    /// The key of the value at a place, if there is one.
    pub fn key_at(&self, place: usize) -> Option<K> {
        let (number, at) = (place >> PAGE_SLOTS_LOG2, place & (PAGE_SLOTS - 1));
        let slot = self.page(number)?.slots.get(at)?;
        matches!(slot.content, SlotContent::Value(_)).then(|| key_of(number, at, slot.version))
    }

    /// The value at a place, if there is one.
    #[inline]
    pub fn value_at_mut(&mut self, place: usize) -> Option<&mut V> {
        let (number, at) = (place >> PAGE_SLOTS_LOG2, place & (PAGE_SLOTS - 1));
        match &mut self.page_mut(number)?.slots.get_mut(at)?.content {
            SlotContent::Value(value) => Some(value),
            SlotContent::Free(_) => None,
        }
    }
}

impl<K: Key, V> Default for PagedSlotMap<K, V> {
    fn default() -> Self {
        PagedSlotMap::new()
    }
}

impl<V> Page<V> {
    const EMPTY: Page<V> = Page { slots: Vec::new(), free: None, len: 0, first_version: 0, is_listed: false };

    /// Puts a value into a free slot, or into a new one: the page has room. Returns its place and version.
    fn insert(&mut self, value: V) -> (usize, u32) {
        self.len += 1;
        let Some(at) = self.free else {
            assert!(self.slots.len() < PAGE_SLOTS, "a page that is listed has room");
            let version = self.first_version | 1;
            self.slots.push(Slot { version, content: SlotContent::Value(value) });
            return (self.slots.len() - 1, version);
        };
        let slot = &mut self.slots[at as usize];
        match std::mem::replace(&mut slot.content, SlotContent::Value(value)) {
            SlotContent::Free(next) => self.free = next,
            SlotContent::Value(_) => unreachable!("a slot on the list of free ones is free"),
        }
        slot.version |= 1;
        (at as usize, slot.version)
    }

    fn remove(&mut self, at: usize, version: u32) -> Option<V> {
        let slot = self.slots.get_mut(at).filter(|slot| slot.version == version)?;
        let content = std::mem::replace(&mut slot.content, SlotContent::Free(self.free));
        let SlotContent::Value(value) = content else {
            slot.content = content;
            return None;
        };
        slot.version = slot.version.wrapping_add(1);
        self.free = Some(at as u32);
        self.len -= 1;
        if self.len == 0 && self.slots.len() == PAGE_SLOTS {
            self.give_back();
        }
        Some(value)
    }

    /// An empty page gives its memory back. No key of it is ever valid again.
    #[cold]
    fn give_back(&mut self) {
        self.first_version = self.slots.iter().map(|slot| slot.version).max().unwrap_or(self.first_version);
        self.slots = Vec::new();
        self.free = None;
    }
}

#[cfg(test)]
mod tests {
    use super::PagedSlotMap;
    use crate::ids::ConsumerKey;
    use crate::limits::PAGE_SLOTS;
    use slotmap::SlotMap;
    use std::collections::HashSet;

    type TestMap = PagedSlotMap<ConsumerKey, usize>;

    fn slots(map: &TestMap) -> usize {
        std::iter::once(&map.first).chain(&map.more).map(|page| page.slots.capacity()).sum()
    }

    fn keys_of(map: &TestMap) -> Vec<ConsumerKey> {
        (0..map.places()).filter_map(|place| map.key_at(place)).collect()
    }

    fn values(map: &mut TestMap) -> Vec<usize> {
        (0..map.places()).filter_map(|place| map.value_at_mut(place).copied()).collect()
    }

    #[test]
    fn pages_that_are_empty_give_their_memory_back_and_no_key_is_used_again() {
        const COUNT: usize = 20 * PAGE_SLOTS;
        let mut map = TestMap::new();
        let mut used = HashSet::new();
        for round in 0..3 {
            let keys: Vec<ConsumerKey> = (0..COUNT).map(|value| map.insert(value)).collect();
            assert!(keys.iter().all(|key| used.insert(*key)), "round {round} has a key of an earlier one");
            assert!(keys.iter().enumerate().all(|(value, key)| map.get(*key) == Some(&value)));
            assert_eq!((map.count(), keys_of(&map).len(), values(&mut map).len()), (COUNT, COUNT, COUNT));
            for (value, key) in keys.iter().enumerate() {
                assert_eq!((map.remove(*key), map.remove(*key), map.get(*key)), (Some(value), None, None));
            }
            assert_eq!((map.count(), slots(&map)), (0, 0), "round {round}");
            assert!(used.iter().all(|key| map.get(*key).is_none()));
        }
    }

    #[test]
    fn a_value_that_stays_keeps_its_page_alone() {
        let mut map = TestMap::new();
        let keys: Vec<ConsumerKey> = (0..8 * PAGE_SLOTS).map(|value| map.insert(value)).collect();
        let stays = keys[3 * PAGE_SLOTS + 5];
        for key in keys.iter().filter(|key| **key != stays) {
            map.remove(*key);
        }
        assert_eq!((slots(&map), keys_of(&map)), (PAGE_SLOTS, vec![stays]));
        let next = map.insert(7);
        assert!(map.get_mut(next).is_some_and(|value| *value == 7) && map.get(stays).is_some());
    }

    #[test]
    fn a_full_page_that_loses_a_value_is_listed_again_and_once() {
        let mut map = TestMap::new();
        let keys: Vec<ConsumerKey> = (0..4 * PAGE_SLOTS).map(|value| map.insert(value)).collect();
        let pages = map.more.len();
        keys.iter().step_by(2).for_each(|key| assert!(map.remove(*key).is_some()));
        assert_eq!(map.with_room.len(), 4, "each page once");
        (0..2 * PAGE_SLOTS).for_each(|value| _ = map.insert(value));
        assert_eq!((map.count(), map.more.len(), map.with_room.len()), (4 * PAGE_SLOTS, pages, 0), "no page is new");
    }

    #[test]
    fn slots_of_a_page_are_reused_as_by_the_crate_slotmap() {
        let (mut map, mut model) = (TestMap::new(), SlotMap::<ConsumerKey, usize>::with_key());
        let mut pairs = Vec::new();
        let mut state = 1_u64;
        for value in 0..10_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if pairs.len() < PAGE_SLOTS - 1 && state >> 63 == 0 {
                pairs.push((map.insert(value), model.insert(value)));
            } else if !pairs.is_empty() {
                let (one, other) = pairs.swap_remove((state >> 33) as usize % pairs.len());
                assert_eq!(map.remove(one), model.remove(other));
            }
            assert!(values(&mut map).iter().eq(model.values()), "after {value} steps");
        }
    }
}
