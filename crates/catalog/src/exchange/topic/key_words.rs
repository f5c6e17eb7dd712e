//! A routing key as numbered words, and sets of positions between them.
//!
//! Enters: a routing key; what is left of a pattern.  Leaves: which words are alike; whether the rest of the pattern matches.
//! Owns:   where the words of the key begin that is being routed. Scratch: it is kept, so that routing allocates only while it grows.
//!
//! Position `n` lies in front of word `n`; the last one is behind all words. A set of positions says how much of the key
//! a part of a pattern can have taken. So a part of a pattern is looked at once for each key, and not once for each way
//! in which the words in front of it can match.

use super::{
    pattern::{next_word, words_of},
    words::WordTable,
};
use crate::{binding::NONE, limits::TOPIC_WORDS_MAX};

/// Words up to which equal ones are found by comparing all.
const COMPARED_MAX: usize = 8;
/// Words of a pattern that are compared one after the other for one unit of work.
const WORDS_A_UNIT: u64 = 8;
/// Places of the table of longer keys: at least twice as many as words.
const PLACES: usize = 512;

const _: () = assert!(PLACES.is_power_of_two() && PLACES >= 2 * TOPIC_WORDS_MAX);
const _: () = assert!(TOPIC_WORDS_MAX < 64 * WIDE_WORDS);

const WIDE_WORDS: usize = 5;

/// Positions in a key.
pub(super) trait PositionSet: Copy + Default {
    fn insert(&mut self, position: usize);
    fn contains(self, position: usize) -> bool;
    fn lowest(self) -> Option<usize>;
    /// Those that are in both.
    fn and(self, other: Self) -> Self;
    /// Those that are not in the other.
    fn without(self, other: Self) -> Self;
    /// Each moved behind the word that follows it.
    fn next(self) -> Self;
    /// All from the lowest one to `end`: what `#` can have taken from there.
    fn and_all_behind(self, end: usize) -> Self;

    fn is_empty(self) -> bool {
        self.lowest().is_none()
    }

    /// The position, if it is the only one.
    fn only(self) -> Option<usize> {
        let lowest = self.lowest()?;
        let mut one = Self::default();
        one.insert(lowest);
        self.without(one).is_empty().then_some(lowest)
    }
}

/// In keys of at most 63 words.
impl PositionSet for u64 {
    #[inline]
    fn insert(&mut self, position: usize) {
        *self |= 1 << position;
    }
    #[inline]
    fn contains(self, position: usize) -> bool {
        self >> position & 1 == 1
    }
    #[inline]
    fn lowest(self) -> Option<usize> {
        (self != 0).then(|| self.trailing_zeros() as usize)
    }
    #[inline]
    fn and(self, other: Self) -> Self {
        self & other
    }
    #[inline]
    fn without(self, other: Self) -> Self {
        self & !other
    }
    #[inline]
    fn next(self) -> Self {
        self << 1
    }
    #[inline]
    fn and_all_behind(self, end: usize) -> Self {
        match self.lowest() {
            Some(lowest) => u64::MAX << lowest & u64::MAX >> (63 - end),
            None => 0,
        }
    }
}

/// In keys of any length.
#[derive(Clone, Copy, Default)]
pub(super) struct WidePositions([u64; WIDE_WORDS]);

impl PositionSet for WidePositions {
    fn insert(&mut self, position: usize) {
        self.0[position / 64] |= 1 << (position % 64);
    }
    fn contains(self, position: usize) -> bool {
        self.0[position / 64] >> (position % 64) & 1 == 1
    }
    fn lowest(self) -> Option<usize> {
        let at = self.0.iter().position(|&word| word != 0)?;
        Some(at * 64 + self.0[at].trailing_zeros() as usize)
    }
    fn and(self, other: Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] & other.0[at]))
    }
    fn without(self, other: Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] & !other.0[at]))
    }
    fn next(self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] << 1 | at.checked_sub(1).map_or(0, |before| self.0[before] >> 63)))
    }
    fn and_all_behind(self, end: usize) -> Self {
        let Some(lowest) = self.lowest() else { return self };
        // All positions of a word that lie between both ends.
        let of_word = |at: usize| {
            let (from, to) = (lowest.saturating_sub(at * 64), (end + 1).saturating_sub(at * 64).min(64));
            if from >= to { 0 } else { u64::MAX << from & u64::MAX >> (64 - to) }
        };
        Self(std::array::from_fn(of_word))
    }
}

#[derive(Clone, Copy)]
struct KeyWord {
    start: u16,
    end: u16,
    /// The first word with the same text.
    first: u16,
    /// Its number, if any pattern has it as a label.
    label: u32,
    hash: u64,
}

/// The words of one key.
#[derive(Clone, Default)]
pub(super) struct KeyWords {
    words: Vec<KeyWord>,
    /// For longer keys, from the hash of a text to one more than the number of the first word with it; zero is free.
    places: Vec<u16>,
}

impl KeyWords {
    pub fn read(&mut self, key: &[u8], table: &WordTable) {
        self.words.clear();
        self.places.clear();
        let mut rest = words_of(key);
        let mut start = 0;
        while let Some(text) = next_word(&mut rest) {
            let end = start + text.len();
            let (number, hash) = (self.words.len(), table.hash(text));
            if number == COMPARED_MAX {
                self.index();
            }
            let first = self.find(key, text, hash);
            let label = match first {
                Some(first) => self.words[first].label,
                None => table.find_hashed(hash, text).unwrap_or(NONE),
            };
            // Names and keys are at most 255 bytes long.
            let word =
                KeyWord { start: start as u16, end: end as u16, first: first.unwrap_or(number) as u16, label, hash };
            self.words.push(word);
            if first.is_none() && !self.places.is_empty() {
                self.place(number);
            }
            start = end + 1;
        }
    }

    /// How many words there are, which is also the position behind all of them.
    #[inline]
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// The first word with the same text as this one.
    #[inline]
    pub fn first_alike(&self, word: usize) -> usize {
        self.words[word].first.into()
    }

    /// The label that a word is in patterns.
    #[inline]
    pub fn label(&self, word: usize) -> Option<u32> {
        let label = self.words[word].label;
        (label != NONE).then_some(label)
    }

    #[inline]
    fn text<'k>(&self, key: &'k [u8], word: usize) -> &'k [u8] {
        let KeyWord { start, end, .. } = self.words[word];
        &key[start.into()..end.into()]
    }

    fn index(&mut self) {
        self.places.resize(PLACES, 0);
        for word in 0..self.words.len() {
            if self.first_alike(word) == word {
                self.place(word);
            }
        }
    }

    fn place(&mut self, word: usize) {
        let mut at = self.words[word].hash as usize % PLACES;
        while self.places[at] != 0 {
            at = (at + 1) % PLACES;
        }
        self.places[at] = word as u16 + 1;
    }

    /// The first word with this text.
    fn find(&self, key: &[u8], text: &[u8], hash: u64) -> Option<usize> {
        if self.places.is_empty() {
            return (0..self.words.len()).find(|&word| self.words[word].hash == hash && self.text(key, word) == text);
        }
        let mut at = hash as usize % PLACES;
        loop {
            let word = usize::from(self.places[at].checked_sub(1)?);
            if self.words[word].hash == hash && self.text(key, word) == text {
                return Some(word);
            }
            at = (at + 1) % PLACES;
        }
    }

    /// Whether the rest of a pattern matches the rest of the key from one of these positions. `alike` has the positions of
    /// the words with the same text, by the first of them. Answers with the work.
    pub fn matches<S: PositionSet>(
        &self,
        key: &[u8],
        tail: &[u8],
        mut at: S,
        alike: &[S],
        table: &WordTable,
    ) -> (bool, u64) {
        let (end, mut rest, mut work) = (self.len(), Some(tail), 1);
        // Most patterns have taken one number of words at this point, and need no set as long as they have no `#`.
        if let Some(mut position) = at.only() {
            let begin = position;
            loop {
                work = 1 + (position - begin) as u64 / WORDS_A_UNIT;
                let before = rest;
                let Some(word) = next_word(&mut rest) else { return (position == end, work) };
                if word == b"#" {
                    (rest, at) = (before, S::default());
                    at.insert(position);
                    break;
                }
                if position == end || (word != b"*" && word != self.text(key, position)) {
                    return (false, work);
                }
                position += 1;
            }
        }
        while let Some(word) = next_word(&mut rest) {
            work += 1;
            at = match word {
                b"#" if rest.is_none() => return (true, work),
                b"#" => at.and_all_behind(end),
                _ => {
                    let mut last = S::default();
                    last.insert(end);
                    let before = at.without(last);
                    match word {
                        b"*" => before.next(),
                        _ => match self.find(key, word, table.hash(word)) {
                            Some(first) => before.and(alike[first]).next(),
                            None => S::default(),
                        },
                    }
                }
            };
            if at.is_empty() {
                return (false, work);
            }
        }
        (at.contains(end), work)
    }
}

#[cfg(test)]
mod tests {
    use super::{PositionSet, WidePositions};

    fn positions<S: PositionSet>(mut set: S) -> Vec<usize> {
        let mut all = Vec::new();
        while let Some(lowest) = set.lowest() {
            let mut one = S::default();
            one.insert(lowest);
            set = set.without(one);
            all.push(lowest);
        }
        all
    }

    fn check<S: PositionSet>(last: usize) {
        for from in 0..=last {
            let mut set = S::default();
            assert!(set.is_empty() && positions(set.and_all_behind(last)).is_empty());
            set.insert(from);
            assert!(set.contains(from) && set.only() == Some(from));
            for end in from..=last {
                assert_eq!(positions(set.and_all_behind(end)), (from..=end).collect::<Vec<_>>());
            }
            if from < last {
                assert_eq!(positions(set.next()), [from + 1]);
                set.insert(last);
                assert_eq!(set.only(), None);
                assert_eq!(positions(set), [from, last]);
                assert_eq!(positions(set.and(set.and_all_behind(last))), [from, last]);
            }
        }
    }

    #[test]
    fn both_kinds_of_set_hold_every_position() {
        check::<u64>(63);
        check::<WidePositions>(256);
    }
}
