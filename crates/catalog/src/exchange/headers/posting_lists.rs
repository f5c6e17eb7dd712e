//! Posting lists: the bindings of headers exchanges by what they ask for.
//!
//! Enters: bindings, each with the keys under which it is to be found.  Leaves: the bindings under a key.
//! Owns:   a list for each key, through the postings of all bindings.

use super::MatchMode;
use crate::{
    binding::{BindingMark, BindingTable},
    copy_budget::CopyBudget,
    segmented_table::SegmentedTable,
    slot_pages::SlotPages,
};

/// A posting: which binding has it, and which of its own it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PostingId {
    pub place: u32,
    number: u32,
}

#[derive(Clone, Copy)]
pub(super) struct Posting {
    pub binding: u32,
    /// Which of the binding's arguments asks for this.
    pub entry: u32,
    pub next: Option<PostingId>,
}

/// A posting at which a search goes on, if it is still there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PostingMark {
    id: PostingId,
    binding: BindingMark,
}

#[derive(Clone)]
struct PostingNode {
    key: u64,
    entry: u32,
    previous: Option<PostingId>,
    next: Option<PostingId>,
}

#[derive(Clone)]
struct PostedBinding {
    binding: u32,
    /// The last search that was done with it.
    done: u32,
    mode: MatchMode,
    /// One posting of it is all that it asks for.
    is_whole: bool,
    postings: Box<[PostingNode]>,
}

#[derive(Clone)]
struct PostingList {
    key: u64,
    first: PostingId,
    len: u32,
}

#[derive(Clone, Default)]
pub(super) struct PostingLists {
    lists: SegmentedTable<PostingList>,
    bindings: SlotPages<Option<PostedBinding>>,
    search: u32,
    /// Bytes of the postings.
    postings_bytes: usize,
}

impl PostingLists {
    /// One without bindings, for [`copy_part`](Self::copy_part).
    pub fn begin_copy(&self) -> Self {
        let (lists, postings_bytes) = (self.lists.begin_copy(), self.postings_bytes);
        Self { lists, bindings: SlotPages::new(), search: 0, postings_bytes }
    }

    /// Copies more bindings, with which no search of the copy is done. Returns whether none is left.
    pub fn copy_part(&self, copy: &mut Self, budget: &mut CopyBudget) -> bool {
        let copy_of = |posted: &Option<PostedBinding>| {
            let copied = posted.clone().map(|posted| PostedBinding { done: 0, ..posted });
            (copied, posted.as_ref().map_or(0, |posted| size_of_val(&*posted.postings)))
        };
        self.bindings.copy_part(&mut copy.bindings, budget, copy_of) && self.lists.copy_part(&mut copy.lists, budget)
    }

    pub fn bytes(&self) -> usize {
        self.lists.allocation_size() + self.bindings.bytes() + self.postings_bytes
    }

    /// How many bindings are under a key.
    pub fn len(&self, key: u64) -> u32 {
        self.lists.find(key, |list| list.key == key).map_or(0, |list| list.len)
    }

    pub fn first(&self, key: u64) -> Option<PostingId> {
        self.lists.find(key, |list| list.key == key).map(|list| list.first)
    }

    /// Puts a binding under keys, each with the argument that asks for it; `is_whole` if it asks for one of them alone. Answers
    /// with its place.
    pub fn add(&mut self, binding: u32, mode: MatchMode, is_whole: bool, keys: Vec<(u64, u32)>) -> u32 {
        let node = |(key, entry)| PostingNode { key, entry, previous: None, next: None };
        let posted = PostedBinding { binding, done: 0, mode, is_whole, postings: keys.into_iter().map(node).collect() };
        let count = posted.postings.len() as u32;
        self.postings_bytes += size_of_val(&*posted.postings);
        let place = self.bindings.insert(Some(posted));
        for number in 0..count {
            self.link(PostingId { place, number });
        }
        place
    }

    fn link(&mut self, id: PostingId) {
        let key = self.node(id).key;
        let next = match self.lists.find_mut(key, |list| list.key == key) {
            Some(list) => {
                list.len += 1;
                Some(std::mem::replace(&mut list.first, id))
            }
            None => {
                self.lists.insert_unique(key, PostingList { key, first: id, len: 1 }, |list| list.key);
                None
            }
        };
        self.node_mut(id).next = next;
        if let Some(next) = next {
            self.node_mut(next).previous = Some(id);
        }
    }

    /// Takes a binding away from under its keys.
    pub fn remove(&mut self, place: u32) {
        let count = self.posted(place).postings.len() as u32;
        for number in 0..count {
            let PostingNode { key, previous, next, .. } = *self.node(PostingId { place, number });
            if let Some(next) = next {
                self.node_mut(next).previous = previous;
            }
            if let Some(previous) = previous {
                self.node_mut(previous).next = next;
            }
            let Some(list) = self.lists.find_mut(key, |list| list.key == key) else {
                unreachable!("every posting is on the list of its key")
            };
            list.len -= 1;
            match (previous, next) {
                (None, None) => _ = self.lists.remove(key, |list| list.key == key, |list| list.key),
                (None, Some(next)) => list.first = next,
                _ => {}
            }
        }
        if let Some(posted) = self.bindings[place].take() {
            self.postings_bytes -= size_of_val(&*posted.postings);
        }
        self.bindings.free(place);
    }

    /// Notes a posting, to be found again when bindings have come and gone.
    pub fn mark(&self, id: PostingId, bindings: &BindingTable) -> PostingMark {
        PostingMark { id, binding: bindings.mark(self.posted(id.place).binding) }
    }

    /// A posting that was noted, if it is still there.
    pub fn find(&self, mark: PostingMark, bindings: &BindingTable) -> Option<PostingId> {
        let posted = self.bindings.get(mark.id.place)?.as_ref()?;
        // A binding has the same postings as long as it is there.
        (bindings.find_mark(mark.binding) == Some(posted.binding)).then_some(mark.id)
    }

    pub fn get(&self, id: PostingId) -> Posting {
        let posted = self.posted(id.place);
        let node = &posted.postings[id.number as usize];
        Posting { binding: posted.binding, entry: node.entry, next: node.next }
    }

    /// From here on no binding is done with.
    pub fn next_search(&mut self) {
        if self.search == u32::MAX {
            self.bindings.iter_mut().filter_map(|(_, posted)| posted.as_mut()).for_each(|posted| posted.done = 0);
            self.search = 0;
        }
        self.search += 1;
    }

    /// Whether this search is done with the binding of a posting.
    pub fn is_done(&self, id: PostingId) -> bool {
        self.posted(id.place).done == self.search
    }

    pub fn set_done(&mut self, id: PostingId) {
        let search = self.search;
        self.posted_mut(id.place).done = search;
    }

    /// Whether the binding asks for nothing else than one of its postings.
    pub fn is_whole(&self, id: PostingId) -> bool {
        self.posted(id.place).is_whole
    }

    /// How many of its headers must be there, of the binding at this place.
    pub fn mode(&self, place: u32) -> MatchMode {
        self.posted(place).mode
    }

    fn posted(&self, place: u32) -> &PostedBinding {
        self.bindings[place].as_ref().expect("a posting leads to a binding that is there")
    }

    fn posted_mut(&mut self, place: u32) -> &mut PostedBinding {
        self.bindings[place].as_mut().expect("a posting leads to a binding that is there")
    }

    fn node(&self, id: PostingId) -> &PostingNode {
        &self.posted(id.place).postings[id.number as usize]
    }

    fn node_mut(&mut self, id: PostingId) -> &mut PostingNode {
        &mut self.posted_mut(id.place).postings[id.number as usize]
    }
}
