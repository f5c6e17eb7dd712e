//! Topic exchange: a trie of words.
//!
//! Enters: a routing key.  Leaves: the bindings whose patterns match it.
//! Owns:   one forest of tries over all topic exchanges: nodes, the table of edges between them, and the words.
//!
//! A pattern that is alone below a node hangs there whole, as the node's *tail*, and is pushed down a word only when
//! another pattern comes along. So a million patterns cost about a million nodes however long they are.
//!
//! Routing visits a node once for each key, with the set of positions at which the words in front of it can have ended
//! in the key; `#` stands for no word as well (AMQP 0-9-1 §3.1.3.3). So a key costs the nodes that it reaches times its
//! different words at most.

mod key_words;
mod pattern;
mod words;

use crate::{
    binding::{BindingList, BindingTable, ListHead, NONE, SelectedList},
    copy_budget::CopyBudget,
    limits::CatalogLimits,
    segmented_table::SegmentedTable,
    slot_pages::SlotPages,
};
use foldhash::fast::FixedState;
use key_words::{KeyWords, PositionSet, WidePositions};
pub(crate) use pattern::matches;
use pattern::{next_word, words_of};
use std::hash::{BuildHasher, Hasher};
use words::{HASH, STAR, WordTable};

#[derive(Clone, Copy)]
struct TrieNode {
    parent: u32,
    /// The label of the edge from the parent.
    word: u32,
    /// Edges from here, the wild ones included.
    children: u32,
    /// Bindings whose pattern ends here, or goes on as the tail.
    alike: ListHead,
    /// Where in a pattern that comes through here the next word begins; one beyond its end if there is none.
    offset: u16,
    has_star: bool,
    has_hash: bool,
}

const _: () = assert!(size_of::<TrieNode>() == 20);

/// A node that a search has yet to visit.
#[derive(Clone, Copy)]
struct TrieVisit<S> {
    node: u32,
    /// Edges from the root.
    depth: u16,
    /// Which edge of its parent leads there.
    edge: u16,
    /// How much of the key can be taken there.
    at: S,
}

/// The edges of a node as a search numbers them: the wild ones, then one for each position at which the key has another word.
const STAR_EDGE: u16 = 0;
const HASH_EDGE: u16 = 1;
const FIRST_WORD_EDGE: u16 = 2;

/// Where a search goes on: the edges from the root to the node that it visits next. They mean the same whatever nodes have come
/// and gone since, so that a search loses no pattern that stays. Without edges it begins.
#[derive(Clone, Debug, Default)]
pub(crate) struct TopicCursor {
    edges: Vec<u16>,
}

impl TopicCursor {
    pub fn clear(&mut self) {
        self.edges.clear();
    }

    pub fn bytes(&self) -> usize {
        self.edges.capacity() * size_of::<u16>()
    }
}

/// Scratch of a search with one kind of set.
#[derive(Clone, Default)]
struct TopicSearch<S> {
    /// The words of the key with the same text, by the first of them.
    alike: Vec<S>,
    /// The words of the key that are labels of edges.
    labelled: S,
    to_visit: Vec<TrieVisit<S>>,
}

impl<S> TopicSearch<S> {
    fn bytes(&self) -> usize {
        self.alike.capacity() * size_of::<S>() + self.to_visit.capacity() * size_of::<TrieVisit<S>>()
    }
}

/// The tries of all topic exchanges.
#[derive(Clone)]
pub(crate) struct TopicTrie {
    nodes: SlotPages<TrieNode>,
    edges: SegmentedTable<u32>,
    words: WordTable,
    hash: FixedState,
    key: KeyWords,
    narrow: TopicSearch<u64>,
    wide: TopicSearch<WidePositions>,
}

fn hash_of(hash: &FixedState, parent: u32, word: u32) -> u64 {
    let mut hasher = hash.build_hasher();
    hasher.write_u64(u64::from(parent) << 32 | u64::from(word));
    hasher.finish()
}

/// The hash of the edge that leads to a node.
fn hash_of_edge(nodes: &SlotPages<TrieNode>, hash: &FixedState, node: u32) -> u64 {
    let node = &nodes[node];
    hash_of(hash, node.parent, node.word)
}

impl TopicTrie {
    pub fn new(limits: &CatalogLimits) -> Self {
        Self {
            nodes: SlotPages::new(),
            edges: SegmentedTable::default(),
            words: WordTable::new(limits.hash_seed),
            hash: FixedState::with_seed(limits.hash_seed),
            key: KeyWords::default(),
            narrow: TopicSearch::default(),
            wide: TopicSearch::default(),
        }
    }

    /// One without nodes, for [`copy_part`](Self::copy_part).
    pub fn begin_copy(&self) -> Self {
        Self {
            nodes: SlotPages::new(),
            edges: self.edges.begin_copy(),
            words: self.words.begin_copy(),
            hash: self.hash.clone(),
            key: KeyWords::default(),
            narrow: TopicSearch::default(),
            wide: TopicSearch::default(),
        }
    }

    /// Copies more nodes. Returns whether none is left.
    pub fn copy_part(&self, copy: &mut Self, budget: &mut CopyBudget) -> bool {
        self.nodes.copy_part(&mut copy.nodes, budget, |&node| (node, 0))
            && self.edges.copy_part(&mut copy.edges, budget)
            && self.words.copy_part(&mut copy.words, budget)
    }

    pub fn bytes(&self) -> usize {
        self.nodes.bytes() + self.edges.allocation_size() + self.words.bytes() + self.narrow.bytes() + self.wide.bytes()
    }

    /// A new, empty trie.
    pub fn insert(&mut self) -> u32 {
        self.new_node(TrieNode {
            parent: NONE,
            word: NONE,
            children: 0,
            alike: ListHead::default(),
            offset: 0,
            has_star: false,
            has_hash: false,
        })
    }

    /// Gives an empty trie up.
    pub fn prune(&mut self, root: u32) {
        let node = &self.nodes[root];
        assert!(node.children == 0 && node.alike == ListHead::default(), "a trie goes after its bindings");
        self.nodes.free(root);
    }

    fn new_node(&mut self, node: TrieNode) -> u32 {
        self.nodes.insert(node)
    }

    #[inline]
    fn child(&self, parent: u32, word: u32) -> Option<u32> {
        let same = |&child: &u32| {
            let node = &self.nodes[child];
            node.parent == parent && node.word == word
        };
        self.edges.find(hash_of(&self.hash, parent, word), same).copied()
    }

    fn add_child(&mut self, parent: u32, text: &[u8]) -> u32 {
        let word = self.words.take(text);
        let from = &mut self.nodes[parent];
        from.children += 1;
        from.has_star |= word == STAR;
        from.has_hash |= word == HASH;
        let offset = from.offset + text.len() as u16 + 1;
        let child = self.new_node(TrieNode {
            parent,
            word,
            children: 0,
            alike: ListHead::default(),
            offset,
            has_star: false,
            has_hash: false,
        });
        let (nodes, state) = (&self.nodes, &self.hash);
        self.edges.insert_unique(hash_of(state, parent, word), child, |&other| hash_of_edge(nodes, state, other));
        child
    }

    /// What of a pattern is left behind a node.
    fn rest_behind<'a>(&self, node: u32, pattern: &'a [u8]) -> Option<&'a [u8]> {
        let node = &self.nodes[node];
        if node.parent == NONE { words_of(pattern) } else { pattern.get(usize::from(node.offset)..) }
    }

    /// The tail of a node, if it has one.
    #[inline]
    fn tail<'a>(&self, bindings: &'a BindingTable, node: u32) -> Option<&'a [u8]> {
        let record = &self.nodes[node];
        // Where there are children every pattern with words left went on to one of them.
        if record.alike == ListHead::default() || record.children != 0 || record.parent == NONE {
            return None;
        }
        bindings.key(record.alike.0).get(usize::from(record.offset)..)
    }

    /// Answers with the work.
    pub fn add(&mut self, bindings: &mut BindingTable, root: u32, binding: u32) -> u64 {
        let (mut node, mut work) = (root, 0);
        loop {
            work += 1;
            let pattern = bindings.key(binding);
            if let Some(tail) = self.tail(bindings, node) {
                if self.rest_behind(node, pattern) == Some(tail) {
                    break;
                }
                self.split_edge(bindings, node);
                continue;
            }
            let mut rest = self.rest_behind(node, pattern);
            let Some(text) = next_word(&mut rest) else { break };
            let known = self.words.find_in_pattern(text).and_then(|word| self.child(node, word));
            match known {
                Some(child) => node = child,
                // Nobody goes this way yet, so the rest of the pattern becomes the tail.
                None => {
                    node = self.add_child(node, text);
                    break;
                }
            }
        }
        // The first of a list alone knows the node: a list moves at once, however long it is.
        bindings.set_node(binding, node);
        bindings.link(BindingList::Alike, &mut self.nodes[node].alike, binding);
        work
    }

    /// Moves a node's tail one word down, to a child of its own.
    fn split_edge(&mut self, bindings: &mut BindingTable, node: u32) {
        let alike = self.nodes[node].alike;
        let mut rest = self.rest_behind(node, bindings.key(alike.0));
        let text = next_word(&mut rest).expect("a tail has a word");
        let child = self.add_child(node, text);
        self.nodes[child].alike = std::mem::take(&mut self.nodes[node].alike);
        bindings.set_node(alike.0, child);
    }

    /// Removes a binding, and the nodes that lead to nothing else. Answers with how many those are.
    pub fn remove(&mut self, bindings: &mut BindingTable, binding: u32) -> u64 {
        if bindings.previous(BindingList::Alike, binding).is_some() {
            // Not the first: the list keeps its head.
            bindings.unlink(BindingList::Alike, &mut ListHead::default(), binding);
            return 0;
        }
        let mut node = bindings.get(binding).node;
        bindings.unlink(BindingList::Alike, &mut self.nodes[node].alike, binding);
        if let Some(first) = self.nodes[node].alike.first() {
            bindings.set_node(first, node);
            return 0;
        }
        let mut removed_nodes = 0;
        loop {
            let TrieNode { parent, word, children, alike, .. } = self.nodes[node];
            if parent == NONE || children != 0 || alike != ListHead::default() {
                return removed_nodes;
            }
            removed_nodes += 1;
            let (nodes, state) = (&self.nodes, &self.hash);
            let hash_of_other = |&other: &u32| hash_of_edge(nodes, state, other);
            let removed = self.edges.remove(hash_of(state, parent, word), |&other| other == node, hash_of_other);
            assert!(removed.is_some(), "every node but a root has an edge");
            self.words.give_back(word);
            self.nodes.free(node);
            let from = &mut self.nodes[parent];
            from.children -= 1;
            from.has_star &= word != STAR;
            from.has_hash &= word != HASH;
            node = parent;
        }
    }

    /// Selects the bindings whose patterns match, until so much work is done, and visits one node in any case. Answers with the
    /// work, and whether all nodes were visited; if not, the cursor has where it goes on.
    pub fn route(
        &mut self,
        bindings: &BindingTable,
        root: u32,
        key: &[u8],
        (cursor, work_max): (&mut TopicCursor, u64),
        found: &mut Vec<SelectedList>,
    ) -> (u64, bool) {
        let mut words = std::mem::take(&mut self.key);
        words.read(key, &self.words);
        // Positions go from 0 to the number of words.
        let outcome = if words.len() < 64 {
            let mut search = std::mem::take(&mut self.narrow);
            let outcome = self.search(bindings, root, (key, &words), &mut search, (cursor, work_max), found);
            self.narrow = search;
            outcome
        } else {
            let mut search = std::mem::take(&mut self.wide);
            let outcome = self.search(bindings, root, (key, &words), &mut search, (cursor, work_max), found);
            self.wide = search;
            outcome
        };
        self.key = words;
        outcome
    }

    /// Visits each node once, with all positions at which a way there can be in the key.
    fn search<S: PositionSet>(
        &self,
        bindings: &BindingTable,
        root: u32,
        (key, words): (&[u8], &KeyWords),
        search: &mut TopicSearch<S>,
        (cursor, work_max): (&mut TopicCursor, u64),
        found: &mut Vec<SelectedList>,
    ) -> (u64, bool) {
        let end = words.len();
        let mut at_start = S::default();
        at_start.insert(0);
        search.alike.clear();
        search.labelled = S::default();
        for word in 0..end {
            search.alike.push(S::default());
            search.alike[words.first_alike(word)].insert(word);
            if words.label(word).is_some() {
                search.labelled.insert(word);
            }
        }
        let mut work = end as u64 + 1;
        search.to_visit.push(TrieVisit { node: root, depth: 0, edge: 0, at: at_start });
        let mut path = std::mem::take(&mut cursor.edges);
        work += self.resume(words, &path, search);
        while let Some(visit) = search.to_visit.pop() {
            work += 1;
            path.truncate(usize::from(visit.depth).saturating_sub(1));
            if visit.depth > 0 {
                path.push(visit.edge);
            }
            let alike = self.nodes[visit.node].alike;
            if let Some(tail) = self.tail(bindings, visit.node) {
                let (matches, units) = words.matches(key, tail, visit.at, &search.alike, &self.words);
                work += units;
                if matches {
                    select(alike, found);
                }
            } else {
                if visit.at.contains(end) {
                    select(alike, found);
                }
                work += self.enter_children(words, visit, u16::MAX, search);
            }
            if work >= work_max
                && let Some(next) = search.to_visit.last()
            {
                path.truncate(usize::from(next.depth) - 1);
                path.push(next.edge);
                cursor.edges = path;
                search.to_visit.clear();
                return (work, false);
            }
        }
        // Its memory is for the next search.
        path.clear();
        cursor.edges = path;
        (work, true)
    }

    /// Goes on where a search has stopped: with the node at the end of these edges if it is still there, and with those that were
    /// yet to be visited behind it. Answers with the work.
    fn resume<S: PositionSet>(&self, words: &KeyWords, edges: &[u16], search: &mut TopicSearch<S>) -> u64 {
        let mut work = 0;
        for &edge in edges {
            let Some(parent) = search.to_visit.pop() else { break };
            work += 1 + self.enter_children(words, parent, edge, search);
            let is_there = |next: &TrieVisit<S>| (next.depth, next.edge) == (parent.depth + 1, edge);
            if !search.to_visit.last().is_some_and(is_there) {
                break;
            }
        }
        work
    }

    /// Has the children of a node visited to which there is a way, up to this edge; the last edge is the first to be visited.
    /// Answers with the work.
    fn enter_children<S: PositionSet>(
        &self,
        words: &KeyWords,
        visit: TrieVisit<S>,
        last_edge: u16,
        search: &mut TopicSearch<S>,
    ) -> u64 {
        let TrieNode { children, has_star, has_hash, .. } = self.nodes[visit.node];
        let (end, at) = (words.len(), visit.at);
        let TopicSearch { alike, labelled, to_visit } = search;
        if has_star {
            let mut last = S::default();
            last.insert(end);
            self.enter(visit, (STAR, STAR_EDGE), at.without(last).next(), to_visit);
        }
        if has_hash && last_edge >= HASH_EDGE {
            self.enter(visit, (HASH, HASH_EDGE), at.and_all_behind(end), to_visit);
        }
        let mut work = 0;
        if children > u32::from(has_star) + u32::from(has_hash) {
            let mut left = at.and(*labelled);
            while let Some(word) = left.lowest() {
                // A key has 256 words at most.
                let edge = FIRST_WORD_EDGE + word as u16;
                if edge > last_edge {
                    break;
                }
                work += 1;
                let alike = alike[words.first_alike(word)];
                left = left.without(alike);
                if let Some(label) = words.label(word) {
                    self.enter(visit, (label, edge), at.and(alike).next(), to_visit);
                }
            }
        }
        work
    }

    /// Has a child visited, if there is one of this label and a way to it.
    #[inline]
    fn enter<S: PositionSet>(
        &self,
        from: TrieVisit<S>,
        (label, edge): (u32, u16),
        at: S,
        to_visit: &mut Vec<TrieVisit<S>>,
    ) {
        if !at.is_empty()
            && let Some(node) = self.child(from.node, label)
        {
            to_visit.push(TrieVisit { node, depth: from.depth + 1, edge, at });
        }
    }
}

fn select(alike: ListHead, found: &mut Vec<SelectedList>) {
    found.extend(alike.first().map(|first| SelectedList { list: BindingList::Alike, first }));
}

#[cfg(test)]
mod tests {
    use super::{TopicCursor, TopicTrie};
    use crate::{
        binding::{BindingIdentity, BindingTable, BindingTarget},
        limits::CatalogLimits,
    };
    use wire::Table;

    #[test]
    fn nodes_words_and_texts_come_back_with_the_last_pattern() {
        let (mut bindings, mut topics) =
            (BindingTable::new(&CatalogLimits::default()), TopicTrie::new(&CatalogLimits::default()));
        let root = topics.insert();
        let mut most = 0;
        for round in 0..3 {
            let patterns = (0..2000).map(|n| format!("a.{}.#.{}.*.x{}", n % 7, n % 11, n));
            let added: Vec<u32> = patterns
                .map(|pattern| {
                    let said = BindingIdentity {
                        source: 0,
                        target: BindingTarget::queue(1),
                        key: pattern.as_bytes(),
                        arguments: &Table::new(),
                    };
                    let binding = bindings.add(&said);
                    topics.add(&mut bindings, root, binding);
                    binding
                })
                .collect();
            let mut found = Vec::new();
            let begin = &mut TopicCursor::default();
            topics.route(&bindings, root, b"a.3.some.more.3.z.x3", (begin, u64::MAX), &mut found);
            assert_eq!(found.len(), 1);
            for binding in added {
                topics.remove(&mut bindings, binding);
                bindings.remove(binding);
            }
            assert_eq!(topics.nodes.len(), 1, "the root stays");
            assert!(topics.edges.is_empty() && topics.words.is_empty());
            assert!(round == 0 || topics.nodes.len() == most, "a second round needs no more nodes");
            most = topics.nodes.len();
        }
        topics.prune(root);
    }

    #[test]
    fn many_wild_patterns_cost_nodes_times_words_at_most() {
        let (mut bindings, mut topics) =
            (BindingTable::new(&CatalogLimits::default()), TopicTrie::new(&CatalogLimits::default()));
        let root = topics.insert();
        for length in 1..60 {
            for ending in ["b", "*", "#", "a"] {
                let pattern = format!("{}{ending}", "#.a.".repeat(length));
                let said = BindingIdentity {
                    source: 0,
                    target: BindingTarget::queue(1),
                    key: pattern.as_bytes(),
                    arguments: &Table::new(),
                };
                let binding = bindings.add(&said);
                topics.add(&mut bindings, root, binding);
            }
        }
        // Taken one possibility after the other this would never end.
        let key = "a.".repeat(127);
        let mut found = Vec::new();
        let begin = &mut TopicCursor::default();
        topics.route(&bindings, root, &key.as_bytes()[..253], (begin, u64::MAX), &mut found);
        assert_eq!(found.len(), 59 * 3);
    }
}
