//! The words of topic patterns, each kept once.
//!
//! Enters: words.  Leaves: numbers for them.
//! Owns:   the texts of the words in use, with how often they are.

use crate::{
    copy_budget::CopyBudget,
    segmented_table::SegmentedTable,
    slot_pages::SlotPages,
    texts::{TextArena, TextId},
};
use foldhash::fast::FixedState;
use std::hash::{BuildHasher, Hasher};

/// The label of `*` edges.
pub(super) const STAR: u32 = u32::MAX - 1;
/// The label of `#` edges.
pub(super) const HASH: u32 = u32::MAX - 2;

#[derive(Clone)]
struct Word {
    text: TextId,
    uses: u32,
}

#[derive(Clone)]
pub(super) struct WordTable {
    words: SlotPages<Word>,
    index: SegmentedTable<u32>,
    texts: TextArena,
    hash: FixedState,
}

fn hash_of(hash: &FixedState, text: &[u8]) -> u64 {
    let mut hasher = hash.build_hasher();
    hasher.write(text);
    hasher.finish()
}

impl WordTable {
    pub fn new(hash_seed: u64) -> Self {
        Self {
            words: SlotPages::new(),
            index: SegmentedTable::default(),
            texts: TextArena::default(),
            hash: FixedState::with_seed(hash_seed),
        }
    }

    /// One without words, for [`copy_part`](Self::copy_part).
    pub fn begin_copy(&self) -> Self {
        let (index, texts) = (self.index.begin_copy(), self.texts.begin_copy());
        Self { words: SlotPages::new(), index, texts, hash: self.hash.clone() }
    }

    /// Copies more words. Returns whether none is left.
    pub fn copy_part(&self, copy: &mut Self, budget: &mut CopyBudget) -> bool {
        self.words.copy_part(&mut copy.words, budget, |word| (word.clone(), 0))
            && self.index.copy_part(&mut copy.index, budget)
            && self.texts.copy_part(&mut copy.texts, budget)
    }

    pub fn bytes(&self) -> usize {
        self.words.bytes() + self.index.allocation_size() + self.texts.bytes()
    }

    #[inline]
    pub fn hash(&self, text: &[u8]) -> u64 {
        hash_of(&self.hash, text)
    }

    /// A word of a routing key, if any pattern has it.
    #[inline]
    pub fn find_hashed(&self, hash: u64, text: &[u8]) -> Option<u32> {
        let same = |&word: &u32| self.texts.get(self.words[word].text) == text;
        self.index.find(hash, same).copied()
    }

    /// A word of a pattern, if any pattern has it.
    pub fn find_in_pattern(&self, text: &[u8]) -> Option<u32> {
        match text {
            b"*" => Some(STAR),
            b"#" => Some(HASH),
            _ => self.find_hashed(self.hash(text), text),
        }
    }

    /// A word of a pattern, used once more.
    pub fn take(&mut self, text: &[u8]) -> u32 {
        if let Some(word) = self.find_in_pattern(text) {
            if word < HASH {
                self.words[word].uses += 1;
            }
            return word;
        }
        let entry = Word { text: self.texts.keep(text), uses: 1 };
        let word = self.words.insert(entry);
        let (words, texts, state) = (&self.words, &self.texts, &self.hash);
        self.index.insert_unique(hash_of(state, text), word, |&other| hash_of(state, texts.get(words[other].text)));
        word
    }

    /// A word used once less.
    pub fn give_back(&mut self, word: u32) {
        if word >= HASH {
            return;
        }
        let entry = &mut self.words[word];
        entry.uses -= 1;
        if entry.uses != 0 {
            return;
        }
        let text = entry.text;
        let (words, texts, state) = (&self.words, &self.texts, &self.hash);
        let hash_of_other = |&other: &u32| hash_of(state, texts.get(words[other].text));
        let removed = self.index.remove(hash_of(state, texts.get(text)), |&other| other == word, hash_of_other);
        assert!(removed.is_some(), "every word is in the index");
        self.texts.drop(text);
        self.words.free(word);
    }

    /// Whether no pattern has a word.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.index.is_empty() && self.words.len() == 0
    }
}
