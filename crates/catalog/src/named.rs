//! Named things: a table of exchanges or of queues, found by vhost and name or by index.
//!
//! Enters: things with names.  Leaves: indexes, dense.
//! Owns:   the things.

use crate::{copy_budget::CopyBudget, ids::VhostId, segmented_table::SegmentedTable, slot_pages::SlotPages};
use foldhash::fast::FixedState;
use std::hash::{BuildHasher, Hasher};

pub(crate) trait Named {
    fn vhost(&self) -> VhostId;
    fn name(&self) -> &str;
    /// Bytes on the heap behind it. They stay as they are, or the table [is told](NameTable::recount).
    fn heap_bytes(&self) -> usize;
    /// Whether it is being removed: it has no name any more.
    fn is_leaving(&self) -> bool {
        false
    }
}

/// The serial of something that is being removed: that of nothing for half of all serials before and after it, so that no id
/// leads to it.
pub(crate) const fn hidden_serial(serial: u32) -> u32 {
    serial ^ 1 << 31
}

#[derive(Clone)]
pub(crate) struct NameTable<T> {
    things: SlotPages<Option<T>>,
    index: SegmentedTable<u32>,
    serial: u32,
    heap_bytes: usize,
    hash: FixedState,
}

fn hash_of(hash: &FixedState, vhost: VhostId, name: &[u8]) -> u64 {
    let mut hasher = hash.build_hasher();
    hasher.write_u32(vhost.0);
    hasher.write(name);
    hasher.finish()
}

/// The hash of something that is in the index.
fn hash_at<T: Named>(things: &SlotPages<Option<T>>, hash: &FixedState, index: u32) -> u64 {
    let thing = things[index].as_ref().expect("the index holds what is there");
    hash_of(hash, thing.vhost(), thing.name().as_bytes())
}

impl<T: Named> NameTable<T> {
    pub fn new(hash_seed: u64) -> Self {
        Self {
            things: SlotPages::new(),
            index: SegmentedTable::default(),
            serial: 0,
            heap_bytes: 0,
            hash: FixedState::with_seed(hash_seed),
        }
    }

    /// One without things, for [`copy_part`](Self::copy_part).
    pub fn begin_copy(&self) -> Self {
        let NameTable { serial, heap_bytes, .. } = *self;
        let (index, hash) = (self.index.begin_copy(), self.hash.clone());
        Self { things: SlotPages::new(), index, serial, heap_bytes, hash }
    }

    /// Copies more things. Returns whether none is left.
    pub fn copy_part(&self, copy: &mut Self, budget: &mut CopyBudget, copy_of: impl Fn(&T) -> T) -> bool {
        let copied = |thing: &Option<T>| (thing.as_ref().map(&copy_of), thing.as_ref().map_or(0, Named::heap_bytes));
        self.things.copy_part(&mut copy.things, budget, copied) && self.index.copy_part(&mut copy.index, budget)
    }

    /// How many things have a name.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Indexes are below this.
    pub fn end(&self) -> u32 {
        self.things.end()
    }

    /// Bytes of all things, and of their index.
    pub fn bytes(&self) -> usize {
        self.things.bytes() + self.index.allocation_size() + self.heap_bytes
    }

    /// Something that had so many bytes on the heap has another number of them now.
    pub fn recount(&mut self, before: usize, now: usize) {
        self.heap_bytes = self.heap_bytes + now - before;
    }

    #[inline]
    pub fn find(&self, vhost: VhostId, name: &[u8]) -> Option<u32> {
        let same = |&index: &u32| {
            let thing = self.at(index);
            thing.vhost() == vhost && thing.name().as_bytes() == name
        };
        self.index.find(hash_of(&self.hash, vhost, name), same).copied()
    }

    #[inline]
    pub fn get(&self, index: u32) -> Option<&T> {
        self.things.get(index)?.as_ref()
    }

    #[inline]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.things.get_mut(index)?.as_mut()
    }

    /// What is at an index that is known to be in use.
    #[inline]
    pub fn at(&self, index: u32) -> &T {
        self.things[index].as_ref().expect("a binding or index led to a thing that is gone")
    }

    #[inline]
    pub fn at_mut(&mut self, index: u32) -> &mut T {
        self.things[index].as_mut().expect("a binding or index led to a thing that is gone")
    }

    /// The serial that the next thing must carry; no two things get the same until 2^32 came and went.
    pub fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.serial
    }

    /// The serial that was given out last.
    pub fn last_serial(&self) -> u32 {
        self.serial
    }

    /// Whether a serial is still to be given out.
    pub fn is_future_serial(&self, serial: u32) -> bool {
        // Serials wrap, so the nearer half of the circle is the future.
        (serial.wrapping_sub(self.serial) as i32) > 0
    }

    pub fn insert(&mut self, thing: T) -> u32 {
        let hash = hash_of(&self.hash, thing.vhost(), thing.name().as_bytes());
        self.heap_bytes += thing.heap_bytes();
        let index = self.things.insert(Some(thing));
        let (things, state) = (&self.things, &self.hash);
        self.index.insert_unique(hash, index, |&other| hash_at(things, state, other));
        index
    }

    /// Takes a thing's name away: it is found no more, and its index is in use until it is removed.
    pub fn hide(&mut self, index: u32) {
        let thing = self.at(index);
        let hash = hash_of(&self.hash, thing.vhost(), thing.name().as_bytes());
        let (things, state) = (&self.things, &self.hash);
        let hidden = self.index.remove(hash, |&other| other == index, |&other| hash_at(things, state, other));
        assert!(hidden.is_some(), "everything that has a name is in the index");
    }

    /// Removes a thing that is hidden.
    pub fn remove(&mut self, index: u32) -> T {
        let thing = self.things[index].take().expect("a thing is removed once");
        self.heap_bytes -= thing.heap_bytes();
        self.things.free(index);
        thing
    }

    /// All things that have a name, in the order of their indexes.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let things = self.things.iter().filter_map(|(index, thing)| Some((index, thing.as_ref()?)));
        things.filter(|(_, thing)| !thing.is_leaving())
    }

    /// All things that have a name, in the order of their indexes, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        let things = self.things.iter_mut().filter_map(|(index, thing)| Some((index, thing.as_mut()?)));
        things.filter(|(_, thing)| !thing.is_leaving())
    }

    /// Whether something with a name is at an index, of this vhost.
    pub fn has(&self, index: u32, vhost: VhostId) -> bool {
        self.get(index).is_some_and(|thing| thing.vhost() == vhost && !thing.is_leaving())
    }
}
