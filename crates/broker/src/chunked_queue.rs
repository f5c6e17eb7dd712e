//! A list that grows at its back and shrinks at its front, in short pieces.
//!
//! Enters: items at the back.  Leaves: items at the front.
//! Owns:   the pieces: the first grows as any list up to a piece's length, the others are made whole.
//! Never:  moves what it holds to make room (a ring of ten million would be copied within one publish), keeps what it
//!         no longer needs.

use crate::limits::{CHUNK_ITEMS, EMPTY_CHUNK_ITEMS_KEPT};
use std::collections::VecDeque;

/// A list in pieces. Indexes count from the front.
pub struct ChunkedQueue<T> {
    /// The oldest items; empty only if there are none.
    front: VecDeque<T>,
    /// The pieces behind it, full but for the last.
    rest: VecDeque<VecDeque<T>>,
    rest_items: usize,
}

impl<T> Default for ChunkedQueue<T> {
    fn default() -> Self {
        ChunkedQueue { front: VecDeque::new(), rest: VecDeque::new(), rest_items: 0 }
    }
}

impl<T> ChunkedQueue<T> {
    /// Items.
    #[inline]
    pub fn len(&self) -> usize {
        self.front.len() + self.rest_items
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.front.is_empty()
    }

    /// The oldest.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        self.front.front()
    }

    /// The item at an index.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        match index.checked_sub(self.front.len()) {
            None => self.front.get(index),
            Some(behind) => self.rest.get(behind / CHUNK_ITEMS)?.get(behind % CHUNK_ITEMS),
        }
    }

    /// The item at an index, to change.
    #[inline]
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        match index.checked_sub(self.front.len()) {
            None => self.front.get_mut(index),
            Some(behind) => self.rest.get_mut(behind / CHUNK_ITEMS)?.get_mut(behind % CHUNK_ITEMS),
        }
    }

    /// One more at the back.
    #[inline]
    pub fn push_back(&mut self, item: T) {
        if self.rest.is_empty() && self.front.len() < CHUNK_ITEMS {
            return self.front.push_back(item);
        }
        self.rest_items += 1;
        match self.rest.back_mut() {
            Some(last) if last.len() < CHUNK_ITEMS => last.push_back(item),
            _ => self.push_piece(item),
        }
    }

    #[cold]
    fn push_piece(&mut self, item: T) {
        let mut piece = VecDeque::with_capacity(CHUNK_ITEMS);
        piece.push_back(item);
        self.rest.push_back(piece);
    }

    /// Takes the oldest.
    #[inline]
    pub fn pop_front(&mut self) -> Option<T> {
        let item = self.front.pop_front()?;
        if self.front.is_empty() {
            self.emptied();
        }
        Some(item)
    }

    /// The front piece is empty: the next takes its place, or little is kept.
    fn emptied(&mut self) {
        match self.rest.pop_front() {
            Some(next) => {
                self.rest_items -= next.len();
                self.front = next;
            }
            None => {
                self.rest = VecDeque::new();
                if self.front.capacity() > EMPTY_CHUNK_ITEMS_KEPT {
                    self.front.shrink_to(EMPTY_CHUNK_ITEMS_KEPT);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Pushes (positive) and pops (negative) by the hundred: a plain ring says the same.
        #[test]
        fn it_is_a_list_like_any_other(steps in prop::collection::vec(-3000_i32..3000, 1..40)) {
            let (mut chain, mut plain) = (ChunkedQueue::default(), VecDeque::new());
            let mut next = 0_u32;
            for step in steps {
                for _ in 0..step {
                    chain.push_back(next);
                    plain.push_back(next);
                    next += 1;
                }
                for _ in step..0 {
                    prop_assert_eq!(chain.pop_front(), plain.pop_front());
                }
                prop_assert_eq!((chain.len(), chain.is_empty()), (plain.len(), plain.is_empty()));
                prop_assert_eq!(chain.front(), plain.front());
                for index in [0, 1, plain.len() / 2, plain.len().saturating_sub(1), plain.len(), plain.len() + 1025] {
                    prop_assert_eq!(chain.get(index), plain.get(index), "{} of {}", index, plain.len());
                    if let (Some(a), Some(b)) = (chain.get_mut(index), plain.get_mut(index)) {
                        *a += 1;
                        *b += 1;
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_not_needed_is_not_kept() {
        let mut chain = ChunkedQueue::default();
        for round in 0..3 {
            (0..100_000).for_each(|item| chain.push_back(item));
            assert_eq!(chain.len(), 100_000, "round {round}");
            let room: usize = chain.rest.iter().chain([&chain.front]).map(VecDeque::capacity).sum();
            assert!(room < 100_000 + 2 * CHUNK_ITEMS, "room for {room}");
            while chain.pop_front().is_some() {}
            assert!(chain.front.capacity() <= EMPTY_CHUNK_ITEMS_KEPT && chain.rest.capacity() == 0);
        }
        let mut short = ChunkedQueue::default();
        short.push_back(1);
        assert!(short.front.capacity() < 16, "a short list is small");
    }
}
