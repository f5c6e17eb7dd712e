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
    limits::CatalogLimits,
    segmented_table::SegmentedTable,
};
use foldhash::fast::FixedState;
use key_words::{KeyWords, PositionSet, WidePositions};
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

/// Scratch of a search with one kind of set.
#[derive(Default)]
struct TopicSearch<S> {
    /// The words of the key with the same text, by the first of them.
    alike: Vec<S>,
    /// Nodes, and how much of the key can be taken there.
    to_visit: Vec<(u32, S)>,
}

impl<S> TopicSearch<S> {
    fn bytes(&self) -> usize {
        self.alike.capacity() * size_of::<S>() + self.to_visit.capacity() * size_of::<(u32, S)>()
    }
}

/// The tries of all topic exchanges.
pub(crate) struct TopicTrie {
    nodes: Vec<TrieNode>,
    free: Vec<u32>,
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

impl TopicTrie {
    pub fn new(limits: &CatalogLimits) -> Self {
        Self {
            nodes: Vec::new(),
            free: Vec::new(),
            edges: SegmentedTable::default(),
            words: WordTable::new(limits.hash_seed),
            hash: FixedState::with_seed(limits.hash_seed),
            key: KeyWords::default(),
            narrow: TopicSearch::default(),
            wide: TopicSearch::default(),
        }
    }

    pub fn bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<TrieNode>()
            + self.free.capacity() * size_of::<u32>()
            + self.edges.allocation_size()
            + self.words.bytes()
            + self.narrow.bytes()
            + self.wide.bytes()
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
        let node = &self.nodes[root as usize];
        assert!(node.children == 0 && node.alike == ListHead::default(), "a trie goes after its bindings");
        self.free.push(root);
    }

    fn new_node(&mut self, node: TrieNode) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.nodes[index as usize] = node;
                index
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        }
    }

    #[inline]
    fn child(&self, parent: u32, word: u32) -> Option<u32> {
        let same = |&child: &u32| {
            let node = &self.nodes[child as usize];
            node.parent == parent && node.word == word
        };
        self.edges.find(hash_of(&self.hash, parent, word), same).copied()
    }

    fn add_child(&mut self, parent: u32, text: &[u8]) -> u32 {
        let word = self.words.take(text);
        let from = &mut self.nodes[parent as usize];
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
        self.edges.insert_unique(hash_of(state, parent, word), child, |&other| {
            let node = &nodes[other as usize];
            hash_of(state, node.parent, node.word)
        });
        child
    }

    /// What of a pattern is left behind a node.
    fn rest_behind<'a>(&self, node: u32, pattern: &'a [u8]) -> Option<&'a [u8]> {
        let node = &self.nodes[node as usize];
        if node.parent == NONE { words_of(pattern) } else { pattern.get(usize::from(node.offset)..) }
    }

    /// The tail of a node, if it has one.
    #[inline]
    fn tail<'a>(&self, bindings: &'a BindingTable, node: u32) -> Option<&'a [u8]> {
        let record = &self.nodes[node as usize];
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
        bindings.link(BindingList::Alike, &mut self.nodes[node as usize].alike, binding);
        work
    }

    /// Moves a node's tail one word down, to a child of its own.
    fn split_edge(&mut self, bindings: &mut BindingTable, node: u32) {
        let alike = self.nodes[node as usize].alike;
        let mut rest = self.rest_behind(node, bindings.key(alike.0));
        let text = next_word(&mut rest).expect("a tail has a word");
        let child = self.add_child(node, text);
        self.nodes[child as usize].alike = std::mem::take(&mut self.nodes[node as usize].alike);
        bindings.set_node(alike.0, child);
    }

    pub fn remove(&mut self, bindings: &mut BindingTable, binding: u32) {
        if bindings.previous(BindingList::Alike, binding).is_some() {
            // Not the first: the list keeps its head.
            return bindings.unlink(BindingList::Alike, &mut ListHead::default(), binding);
        }
        let mut node = bindings.get(binding).node;
        bindings.unlink(BindingList::Alike, &mut self.nodes[node as usize].alike, binding);
        if let Some(first) = self.nodes[node as usize].alike.first() {
            return bindings.set_node(first, node);
        }
        loop {
            let TrieNode { parent, word, children, alike, .. } = self.nodes[node as usize];
            if parent == NONE || children != 0 || alike != ListHead::default() {
                return;
            }
            let removed = self.edges.remove(hash_of(&self.hash, parent, word), |&other| other == node);
            assert!(removed.is_some(), "every node but a root has an edge");
            self.words.give_back(word);
            self.free.push(node);
            let from = &mut self.nodes[parent as usize];
            from.children -= 1;
            from.has_star &= word != STAR;
            from.has_hash &= word != HASH;
            node = parent;
        }
    }

    /// Selects the bindings whose patterns match. Answers with the work.
    pub fn route(&mut self, bindings: &BindingTable, root: u32, key: &[u8], found: &mut Vec<SelectedList>) -> u64 {
        let mut words = std::mem::take(&mut self.key);
        words.read(key, &self.words);
        // Positions go from 0 to the number of words.
        let work = if words.len() < 64 {
            let mut search = std::mem::take(&mut self.narrow);
            let work = self.search(bindings, root, (key, &words), &mut search, found);
            self.narrow = search;
            work
        } else {
            let mut search = std::mem::take(&mut self.wide);
            let work = self.search(bindings, root, (key, &words), &mut search, found);
            self.wide = search;
            work
        };
        self.key = words;
        work
    }

    /// Visits each node once, with all positions at which a way there can be in the key.
    fn search<S: PositionSet>(
        &self,
        bindings: &BindingTable,
        root: u32,
        (key, words): (&[u8], &KeyWords),
        search: &mut TopicSearch<S>,
        found: &mut Vec<SelectedList>,
    ) -> u64 {
        let end = words.len();
        let (mut last, mut at_start, mut labelled) = (S::default(), S::default(), S::default());
        last.insert(end);
        at_start.insert(0);
        search.alike.clear();
        for word in 0..end {
            search.alike.push(S::default());
            search.alike[words.first_alike(word)].insert(word);
            if words.label(word).is_some() {
                labelled.insert(word);
            }
        }
        let mut work = end as u64 + 1;
        search.to_visit.push((root, at_start));
        while let Some((node, at)) = search.to_visit.pop() {
            work += 1;
            let TrieNode { children, has_star, has_hash, alike, .. } = self.nodes[node as usize];
            if let Some(tail) = self.tail(bindings, node) {
                let (matches, units) = words.matches(key, tail, at, &search.alike, &self.words);
                work += units;
                if matches {
                    select(alike, found);
                }
                continue;
            }
            if at.contains(end) {
                select(alike, found);
            }
            if has_star {
                self.enter(node, STAR, at.without(last).next(), &mut search.to_visit);
            }
            if has_hash {
                self.enter(node, HASH, at.and_all_behind(end), &mut search.to_visit);
            }
            if children > u32::from(has_star) + u32::from(has_hash) {
                let mut left = at.and(labelled);
                while let Some(word) = left.lowest() {
                    work += 1;
                    let alike = search.alike[words.first_alike(word)];
                    left = left.without(alike);
                    if let Some(label) = words.label(word) {
                        self.enter(node, label, at.and(alike).next(), &mut search.to_visit);
                    }
                }
            }
        }
        work
    }

    /// Has a child visited, if there is one of this label and a way to it.
    #[inline]
    fn enter<S: PositionSet>(&self, node: u32, label: u32, at: S, to_visit: &mut Vec<(u32, S)>) {
        if !at.is_empty()
            && let Some(child) = self.child(node, label)
        {
            to_visit.push((child, at));
        }
    }
}

fn select(alike: ListHead, found: &mut Vec<SelectedList>) {
    found.extend(alike.first().map(|first| SelectedList { list: BindingList::Alike, first }));
}

#[cfg(test)]
mod tests {
    use super::TopicTrie;
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
            topics.route(&bindings, root, b"a.3.some.more.3.z.x3", &mut found);
            assert_eq!(found.len(), 1);
            for binding in added {
                topics.remove(&mut bindings, binding);
                bindings.remove(binding);
            }
            assert_eq!(topics.nodes.len() - topics.free.len(), 1, "the root stays");
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
        topics.route(&bindings, root, &key.as_bytes()[..253], &mut found);
        assert_eq!(found.len(), 59 * 3);
    }
}
