//! Bindings: from an exchange to a queue or another exchange.
//!
//! Enters: source, destination, routing key, arguments.  Leaves: the binding's number, and the lists it is on.
//! Owns:   the records of all bindings, the index that finds one by what it says, and three linked lists through
//!         them: of a source, of a destination, and of those that match alike.

use crate::{
    copy_budget::CopyBudget,
    heap::allocated,
    limits::{ARGUMENT_BYTES_A_STEP, CatalogLimits},
    segmented_table::SegmentedTable,
    slot_pages::SlotPages,
    texts::{TextArena, TextId},
};
use foldhash::fast::FixedState;
use std::hash::{BuildHasher, Hash, Hasher};
use wire::Table;

/// No binding: the end of a list.
pub(crate) const NONE: u32 = u32::MAX;

/// Where a binding leads: the index of a queue or of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BindingTarget(u32);

const EXCHANGE_BIT: u32 = 1 << 31;

impl BindingTarget {
    pub fn queue(index: u32) -> Self {
        assert!(index & EXCHANGE_BIT == 0, "the limit on queues keeps their indexes below 2^31");
        Self(index)
    }

    pub fn exchange(index: u32) -> Self {
        assert!(index & EXCHANGE_BIT == 0, "the limit on exchanges keeps their indexes below 2^31");
        Self(index | EXCHANGE_BIT)
    }

    #[inline]
    pub fn as_exchange(self) -> Option<u32> {
        (self.0 & EXCHANGE_BIT != 0).then_some(self.0 & !EXCHANGE_BIT)
    }

    /// The index, of whichever kind.
    #[inline]
    pub fn index(self) -> u32 {
        self.0 & !EXCHANGE_BIT
    }
}

/// The lists that run through the bindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BindingList {
    /// All of one source exchange.
    Source = 0,
    /// All that lead to one queue or exchange.
    Destination = 1,
    /// All that one routing key or pattern of one exchange selects together.
    Alike = 2,
}

#[derive(Clone, Copy)]
struct ListNode {
    previous: u32,
    next: u32,
}

const UNLINKED: ListNode = ListNode { previous: NONE, next: NONE };

/// The head of a list of bindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListHead(pub u32);

impl Default for ListHead {
    fn default() -> Self {
        Self(NONE)
    }
}

impl ListHead {
    /// The first binding on the list.
    #[inline]
    pub fn first(self) -> Option<u32> {
        (self.0 != NONE).then_some(self.0)
    }
}

/// A list of bindings that a message selects, or the rest of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SelectedList {
    pub list: BindingList,
    /// The first binding of it.
    pub first: u32,
}

/// A binding that is to be found again, if it is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BindingMark {
    binding: u32,
    serial: u32,
}

/// 48 bytes; arguments, which few have, are kept aside.
#[derive(Clone)]
pub(crate) struct BindingEntry {
    pub source: u32,
    pub target: BindingTarget,
    pub key: TextId,
    /// For a topic exchange the trie node it hangs on, if it is the first there; for a consistent-hash exchange its place
    /// among the points, if it has one; for a headers exchange its postings, if it has any.
    pub node: u32,
    /// Tells it from those that had its place before and will have it later.
    pub serial: u32,
    arguments: u32,
    links: [ListNode; 3],
}

const _: () = assert!(size_of::<BindingEntry>() == 48);

/// The arguments of one binding.
#[derive(Clone)]
struct KeptArguments {
    table: Table,
    /// So that the index can grow without reading them.
    hash: u64,
    heap_bytes: usize,
}

/// All bindings of the catalog.
#[derive(Clone)]
pub(crate) struct BindingTable {
    records: SlotPages<BindingEntry>,
    /// That of the binding made last.
    serial: u32,
    /// From what a binding says to its record.
    index: SegmentedTable<u32>,
    arguments: SlotPages<Option<Box<KeptArguments>>>,
    /// Bytes of the arguments.
    arguments_bytes: usize,
    pub texts: TextArena,
    /// Where the walk goes on that no removal disturbs.
    walked: u32,
    hash: FixedState,
}

/// What a binding says; two that say the same are one.
pub(crate) struct BindingIdentity<'a> {
    pub source: u32,
    pub target: BindingTarget,
    pub key: &'a [u8],
    /// Sorted by name, see `arguments::sorted`.
    pub arguments: &'a Table,
}

fn hash_of(hash: &FixedState, source: u32, target: BindingTarget, key: &[u8], arguments: u64) -> u64 {
    let mut hasher = hash.build_hasher();
    (u64::from(source) << 32 | u64::from(target.0)).hash(&mut hasher);
    hasher.write_u64(arguments);
    hasher.write(key);
    hasher.finish()
}

/// The hash of a binding that is there.
fn hash_at(
    records: &SlotPages<BindingEntry>,
    arguments: &SlotPages<Option<Box<KeptArguments>>>,
    texts: &TextArena,
    hash: &FixedState,
    binding: u32,
) -> u64 {
    let record = &records[binding];
    let arguments = arguments.get(record.arguments).and_then(|kept| kept.as_ref()).map_or(0, |kept| kept.hash);
    hash_of(hash, record.source, record.target, texts.get(record.key), arguments)
}

impl BindingTable {
    pub fn new(limits: &CatalogLimits) -> Self {
        Self {
            records: SlotPages::new(),
            serial: 0,
            index: SegmentedTable::default(),
            arguments: SlotPages::new(),
            arguments_bytes: 0,
            texts: TextArena::default(),
            walked: NONE,
            hash: FixedState::with_seed(limits.hash_seed),
        }
    }

    /// One without bindings, for [`copy_part`](Self::copy_part).
    pub fn begin_copy(&self) -> Self {
        let BindingTable { serial, arguments_bytes, .. } = *self;
        let (records, arguments) = (SlotPages::new(), SlotPages::new());
        let (index, texts) = (self.index.begin_copy(), self.texts.begin_copy());
        let hash = self.hash.clone();
        Self { records, serial, index, arguments, arguments_bytes, texts, walked: NONE, hash }
    }

    /// Copies more bindings. Returns whether none is left.
    pub fn copy_part(&self, copy: &mut Self, budget: &mut CopyBudget) -> bool {
        let kept = |kept: &Option<Box<KeptArguments>>| (kept.clone(), kept.as_ref().map_or(0, |kept| kept.heap_bytes));
        self.records.copy_part(&mut copy.records, budget, |record| (record.clone(), 0))
            && self.index.copy_part(&mut copy.index, budget)
            && self.arguments.copy_part(&mut copy.arguments, budget, kept)
            && self.texts.copy_part(&mut copy.texts, budget)
    }

    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// The serial of the last change.
    pub fn last_serial(&self) -> u32 {
        self.serial
    }

    /// Whether a binding was made after the change with this serial.
    pub fn is_newer(&self, binding: u32, serial: u32) -> bool {
        self.get(binding).serial.wrapping_sub(serial).cast_signed() > 0
    }

    #[inline]
    pub fn get(&self, binding: u32) -> &BindingEntry {
        &self.records[binding]
    }

    /// Notes a binding.
    pub fn mark(&self, binding: u32) -> BindingMark {
        BindingMark { binding, serial: self.get(binding).serial }
    }

    /// A binding that was noted, if it is still there.
    pub fn find_mark(&self, mark: BindingMark) -> Option<u32> {
        self.records.get(mark.binding).filter(|record| record.serial == mark.serial).map(|_| mark.binding)
    }

    pub fn set_node(&mut self, binding: u32, node: u32) {
        self.records[binding].node = node;
    }

    #[inline]
    pub fn key(&self, binding: u32) -> &[u8] {
        self.texts.get(self.get(binding).key)
    }

    pub fn arguments(&self, binding: u32) -> Option<&Table> {
        self.kept(binding).map(|kept| &kept.table)
    }

    fn kept(&self, binding: u32) -> Option<&KeptArguments> {
        match self.get(binding).arguments {
            NONE => None,
            slot => self.arguments[slot].as_deref(),
        }
    }

    /// Units of work that it is to remove a binding.
    pub fn removal_work(&self, binding: u32) -> u64 {
        1 + self.kept(binding).map_or(0, |kept| kept.heap_bytes / ARGUMENT_BYTES_A_STEP) as u64
    }

    /// Bytes of all bindings, and of their index.
    pub fn bytes(&self) -> usize {
        self.records.bytes()
            + self.index.allocation_size()
            + self.arguments.bytes()
            + self.arguments_bytes
            + self.texts.bytes()
    }

    fn hash_of_arguments(&self, arguments: &Table) -> u64 {
        if arguments.is_empty() { 0 } else { self.hash.hash_one(arguments) }
    }

    /// The binding that says this. Adds to the work.
    pub fn find(&self, said: &BindingIdentity<'_>, work: &mut u64) -> Option<u32> {
        let arguments = self.hash_of_arguments(said.arguments);
        let hash = hash_of(&self.hash, said.source, said.target, said.key, arguments);
        let same = |&binding: &u32| {
            *work += 1;
            let record = self.get(binding);
            record.source == said.source
                && record.target == said.target
                && self.texts.get(record.key) == said.key
                && match self.kept(binding) {
                    None => said.arguments.is_empty(),
                    Some(kept) => kept.hash == arguments && kept.table == *said.arguments,
                }
        };
        self.index.find(hash, same).copied()
    }

    /// A new binding, on no list yet. Nothing may say the same already.
    pub fn add(&mut self, said: &BindingIdentity<'_>) -> u32 {
        debug_assert!(self.find(said, &mut 0).is_none(), "a binding exists once");
        let arguments = if said.arguments.is_empty() {
            NONE
        } else {
            let kept = KeptArguments {
                table: said.arguments.clone(),
                hash: self.hash_of_arguments(said.arguments),
                heap_bytes: said.arguments.heap_bytes(),
            };
            self.arguments_bytes += kept.heap_bytes + allocated(size_of::<KeptArguments>());
            self.arguments.insert(Some(Box::new(kept)))
        };
        self.serial = self.serial.wrapping_add(1);
        let record = BindingEntry {
            source: said.source,
            target: said.target,
            key: self.texts.keep(said.key),
            node: NONE,
            serial: self.serial,
            arguments,
            links: [UNLINKED; 3],
        };
        let binding = self.records.insert(record);
        let Self { index, records, arguments, texts, hash, .. } = self;
        let hash_of = |&binding: &u32| hash_at(records, arguments, texts, hash, binding);
        index.insert_unique(hash_of(&binding), binding, hash_of);
        binding
    }

    /// Forgets a binding that is on no list any more.
    pub fn remove(&mut self, binding: u32) {
        let Self { index, records, arguments, texts, hash, .. } = self;
        let hash_of = |&binding: &u32| hash_at(records, arguments, texts, hash, binding);
        let removed = index.remove(hash_of(&binding), |&other| other == binding, hash_of);
        assert!(removed.is_some(), "every binding is in the index");
        let BindingEntry { arguments, key, .. } = self.records[binding];
        if arguments != NONE {
            if let Some(kept) = self.arguments[arguments].take() {
                self.arguments_bytes -= kept.heap_bytes + allocated(size_of::<KeptArguments>());
            }
            self.arguments.free(arguments);
        }
        self.texts.drop(key);
        // Who remembers the binding does not find it again.
        self.serial = self.serial.wrapping_add(1);
        self.records[binding].serial = self.serial;
        self.records.free(binding);
    }

    /// Puts a binding in front of a list.
    pub fn link(&mut self, list: BindingList, head: &mut ListHead, binding: u32) {
        self.records[binding].links[list as usize] = ListNode { previous: NONE, next: head.0 };
        if head.0 != NONE {
            self.records[head.0].links[list as usize].previous = binding;
        }
        head.0 = binding;
    }

    /// Takes a binding off a list.
    pub fn unlink(&mut self, list: BindingList, head: &mut ListHead, binding: u32) {
        let ListNode { previous, next } = std::mem::replace(&mut self.records[binding].links[list as usize], UNLINKED);
        if list == BindingList::Source && self.walked == binding {
            self.walked = next;
        }
        if previous == NONE {
            debug_assert_eq!(head.0, binding, "a binding is taken off the list that it is on");
            head.0 = next;
        } else {
            self.records[previous].links[list as usize].next = next;
        }
        if next != NONE {
            self.records[next].links[list as usize].previous = previous;
        }
    }

    /// The binding in front of this one.
    #[inline]
    pub fn previous(&self, list: BindingList, binding: u32) -> Option<u32> {
        let previous = self.records[binding].links[list as usize].previous;
        (previous != NONE).then_some(previous)
    }

    /// The binding behind this one.
    #[inline]
    pub fn next(&self, list: BindingList, binding: u32) -> Option<u32> {
        let next = self.records[binding].links[list as usize].next;
        (next != NONE).then_some(next)
    }

    /// Begins to walk through the bindings from an exchange, the newest first. There is one such walk at a time: it comes to each that
    /// stays, whatever else comes and goes.
    pub fn begin_walk(&mut self, from: ListHead) {
        self.walked = from.0;
    }

    /// The next one of the walk.
    pub fn walk_on(&mut self) -> Option<u32> {
        let walked = ListHead(self.walked).first()?;
        self.walked = self.records[walked].links[BindingList::Source as usize].next;
        Some(walked)
    }

    /// Those on a list, the newest first.
    #[inline]
    pub fn iter(&self, list: BindingList, head: ListHead) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(head.first(), move |&binding| self.next(list, binding))
    }
}
