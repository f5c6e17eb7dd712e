//! Topic exchange: a trie of words.
//!
//! Enters: a routing key.  Leaves: the bindings whose patterns match it.
//! Owns:   one forest of tries over all topic exchanges: nodes, the table of edges between them, and the words.
//!
//! A pattern that is alone below a node hangs there whole, as the node's *tail*, and is pushed down a word only when
//! another pattern comes along. So a million patterns cost about a million nodes however long they are.
//!
//! Routing keeps the set of nodes that the words so far can have led to. A `#` node stays in the set while words go
//! by, and entering a node enters its `#` child as well, since `#` also stands for no word (AMQP 0-9-1 §3.1.3.3).

mod pattern;
mod words;

use crate::{
    binding::{BindingList, BindingTable, BindingTarget, ListHead, NONE},
    limits::CatalogLimits,
};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use pattern::{matches, next_word, words_of};
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
    /// The last step of routing that entered it.
    mark: u32,
    /// Where in a pattern that comes through here the next word begins; one beyond its end if there is none.
    offset: u16,
    has_star: bool,
    has_hash: bool,
}

const _: () = assert!(size_of::<TrieNode>() == 24);

/// The tries of all topic exchanges.
pub(crate) struct TopicTrie {
    nodes: Vec<TrieNode>,
    free: Vec<u32>,
    edges: HashTable<u32>,
    words: WordTable,
    hash: FixedState,
    step: u32,
    here: Vec<u32>,
    there: Vec<u32>,
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
            edges: HashTable::new(),
            words: WordTable::new(limits.hash_seed),
            hash: FixedState::with_seed(limits.hash_seed),
            step: 0,
            here: Vec::new(),
            there: Vec::new(),
        }
    }

    /// A new, empty trie.
    pub fn insert(&mut self) -> u32 {
        self.new_node(TrieNode {
            parent: NONE,
            word: NONE,
            children: 0,
            alike: ListHead::default(),
            mark: 0,
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
            mark: 0,
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

    pub fn add(&mut self, bindings: &mut BindingTable, root: u32, binding: u32) {
        let mut node = root;
        loop {
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
        bindings.set_node(binding, node);
        bindings.link(BindingList::Alike, &mut self.nodes[node as usize].alike, binding);
    }

    /// Moves a node's tail one word down, to a child of its own.
    fn split_edge(&mut self, bindings: &mut BindingTable, node: u32) {
        let alike = self.nodes[node as usize].alike;
        let mut rest = self.rest_behind(node, bindings.key(alike.0));
        let text = next_word(&mut rest).expect("a tail has a word");
        let child = self.add_child(node, text);
        self.nodes[child as usize].alike = std::mem::take(&mut self.nodes[node as usize].alike);
        let mut next = Some(alike.0);
        while let Some(binding) = next {
            bindings.set_node(binding, child);
            next = bindings.next(BindingList::Alike, binding);
        }
    }

    pub fn remove(&mut self, bindings: &mut BindingTable, binding: u32) {
        let mut node = bindings.get(binding).node;
        bindings.unlink(BindingList::Alike, &mut self.nodes[node as usize].alike, binding);
        loop {
            let TrieNode { parent, word, children, alike, .. } = self.nodes[node as usize];
            if parent == NONE || children != 0 || alike != ListHead::default() {
                return;
            }
            match self.edges.find_entry(hash_of(&self.hash, parent, word), |&other| other == node) {
                Ok(entry) => drop(entry.remove()),
                Err(_) => unreachable!("every node but a root has an edge"),
            }
            self.words.give_back(word);
            self.free.push(node);
            let from = &mut self.nodes[parent as usize];
            from.children -= 1;
            from.has_star &= word != STAR;
            from.has_hash &= word != HASH;
            node = parent;
        }
    }

    /// Appends where the bindings lead whose patterns match. A target can come up more than once.
    pub fn route(&mut self, bindings: &BindingTable, root: u32, key: &[u8], found: &mut Vec<BindingTarget>) {
        let (mut here, mut there) = (std::mem::take(&mut self.here), std::mem::take(&mut self.there));
        let mut rest = words_of(key);
        here.clear();
        self.next_step();
        self.enter(bindings, root, rest, &mut here, found);
        while !here.is_empty()
            && let Some(text) = next_word(&mut rest)
        {
            let word = self.words.find(text);
            there.clear();
            self.next_step();
            for &node in &here {
                let TrieNode { word: label, children, has_star, has_hash, .. } = self.nodes[node as usize];
                if label == HASH {
                    self.enter(bindings, node, rest, &mut there, found);
                }
                if children > u32::from(has_star) + u32::from(has_hash)
                    && let Some(child) = word.and_then(|word| self.child(node, word))
                {
                    self.enter(bindings, child, rest, &mut there, found);
                }
                if has_star && let Some(child) = self.child(node, STAR) {
                    self.enter(bindings, child, rest, &mut there, found);
                }
            }
            std::mem::swap(&mut here, &mut there);
        }
        if rest.is_none() {
            for &node in &here {
                append(bindings, self.nodes[node as usize].alike, found);
            }
        }
        (self.here, self.there) = (here, there);
    }

    fn next_step(&mut self) {
        if self.step == u32::MAX {
            self.nodes.iter_mut().for_each(|node| node.mark = 0);
            self.step = 0;
        }
        self.step += 1;
    }

    /// Adds a node and the `#` nodes right below it to the set, unless they are in it. A tail is settled at once.
    #[inline]
    fn enter(
        &mut self,
        bindings: &BindingTable,
        mut node: u32,
        rest: Option<&[u8]>,
        set: &mut Vec<u32>,
        found: &mut Vec<BindingTarget>,
    ) {
        loop {
            let step = self.step;
            let record = &mut self.nodes[node as usize];
            if std::mem::replace(&mut record.mark, step) == step {
                return;
            }
            let (alike, has_hash, is_hash) = (record.alike, record.has_hash, record.word == HASH);
            if let Some(tail) = self.tail(bindings, node) {
                // A `#` in front of the tail may take more words; as it stays in no set, it is matched along.
                if matches(is_hash, Some(tail), rest) {
                    append(bindings, alike, found);
                }
                return;
            }
            set.push(node);
            match has_hash.then(|| self.child(node, HASH)).flatten() {
                Some(child) => node = child,
                None => return,
            }
        }
    }
}

fn append(bindings: &BindingTable, alike: ListHead, found: &mut Vec<BindingTarget>) {
    found.extend(bindings.iter(BindingList::Alike, alike).map(|binding| bindings.get(binding).target));
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
