//! What dead letters have caused, each so much that others have turns beside it: they go on one after another, turn by turn.

use crate::dead_letter_list::DeadLetterList;
use crate::limits::{
    DEAD_LETTERS_PENDING_MAX, DETACHED_LETTERS_CROWD, DETACHED_LETTERS_MAX, DETACHED_LETTERS_PER_WORK,
};
use std::collections::VecDeque;
use std::ops::Range;

/// A letter that a command or a timer has caused, as the origin of those that it causes in turn.
#[derive(Default)]
pub(crate) struct LetterOrigin {
    /// Its number, from 0 in the order of their arrival. One that has waited for memory has none any more.
    number: Option<u64>,
    /// How many letters it has caused, directly and by those that it caused.
    pub caused: usize,
    /// How many turns have ended while these were routed.
    pub turns: u32,
    /// Others have turns beside these.
    pub is_detached: bool,
}

impl LetterOrigin {
    pub fn numbered(number: u64) -> Self {
        LetterOrigin { number: Some(number), ..LetterOrigin::default() }
    }

    pub fn is_one_of(&self, numbers: &Range<u64>) -> bool {
        self.number.is_some_and(|number| numbers.contains(&number))
    }
}

struct Detached {
    origin: LetterOrigin,
    /// Each list is caused by a letter of the one before it.
    nested: Vec<DeadLetterList>,
    messages: usize,
}

/// What several letters have caused.
#[derive(Default)]
pub(crate) struct DetachedLetters {
    turns: VecDeque<Detached>,
    messages: usize,
}

impl DetachedLetters {
    /// How many letters wait here.
    pub fn messages(&self) -> usize {
        self.messages
    }

    /// Whether so much waits that no more of the kind is to be begun.
    pub fn is_crowd(&self) -> bool {
        self.turns.len() >= DETACHED_LETTERS_CROWD || self.messages >= DEAD_LETTERS_PENDING_MAX / 4
    }

    /// Takes over the lists from an index on, which this letter has caused, unless there are too many such letters.
    pub fn add(&mut self, nested: &mut Vec<DeadLetterList>, from: usize, origin: &mut LetterOrigin) {
        if nested.len() <= from || self.turns.len() >= DETACHED_LETTERS_MAX {
            return;
        }
        let nested = nested.split_off(from);
        let messages = nested.iter().map(DeadLetterList::len).sum();
        if messages > 0 {
            let origin = LetterOrigin { is_detached: true, ..std::mem::take(origin) };
            self.messages += messages;
            self.turns.push_back(Detached { origin, nested, messages });
        }
    }

    /// Returns the lists whose turn it is, and the letter that has caused them. Returns whether there are any.
    pub fn take(&mut self, nested: &mut Vec<DeadLetterList>, origin: &mut LetterOrigin) -> bool {
        let Some(next) = self.turns.pop_front() else { return false };
        self.messages -= next.messages;
        (*nested, *origin) = (next.nested, next.origin);
        true
    }

    /// Whether one of the letters with these numbers has caused any of them.
    pub fn has_one_of(&self, numbers: &Range<u64>) -> bool {
        self.turns.iter().any(|detached| detached.origin.is_one_of(numbers))
    }

    /// Units of work of [`has_one_of`](Self::has_one_of).
    pub fn search_work(&self) -> usize {
        self.turns.len() / DETACHED_LETTERS_PER_WORK
    }
}
