//! A queue in chunks: it grows at its back and shrinks at its front, and moves nothing to grow.
//!
//! A ring of ten million items would be copied within one publish. The first chunk grows as any list up to a chunk's length, the
//! others are allocated whole, and memory that is not needed any more is returned.

use crate::limits::{CHUNK_ITEMS, EMPTY_CHUNK_ITEMS_KEPT};
use std::collections::VecDeque;

/// A queue in chunks. Indexes count from the front.
pub struct ChunkedQueue<T> {
    /// The oldest items; empty only if there are none.
    front: VecDeque<T>,
    /// The chunks behind it, full but for the last.
    rest: VecDeque<VecDeque<T>>,
    rest_items: usize,
}

impl<T> Default for ChunkedQueue<T> {
    fn default() -> Self {
        ChunkedQueue { front: VecDeque::new(), rest: VecDeque::new(), rest_items: 0 }
    }
}

impl<T> ChunkedQueue<T> {
    #[inline]
    pub fn len(&self) -> usize {
        self.front.len() + self.rest_items
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.front.is_empty()
    }

    /// The oldest item.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        self.front.front()
    }

    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        match index.checked_sub(self.front.len()) {
            None => self.front.get(index),
            Some(behind) => self.rest.get(behind / CHUNK_ITEMS)?.get(behind % CHUNK_ITEMS),
        }
    }

    #[inline]
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        match index.checked_sub(self.front.len()) {
            None => self.front.get_mut(index),
            Some(behind) => self.rest.get_mut(behind / CHUNK_ITEMS)?.get_mut(behind % CHUNK_ITEMS),
        }
    }

    /// The newest item.
    #[inline]
    pub fn back_mut(&mut self) -> Option<&mut T> {
        self.rest.back_mut().unwrap_or(&mut self.front).back_mut()
    }

    /// Some of the oldest items, side by side in memory; none only if there are none.
    #[inline]
    pub fn oldest(&self) -> &[T] {
        self.front.as_slices().0
    }

    #[inline]
    pub fn push_back(&mut self, item: T) {
        if self.rest.is_empty() && self.front.len() < CHUNK_ITEMS {
            return self.front.push_back(item);
        }
        self.rest_items += 1;
        match self.rest.back_mut() {
            Some(last) if last.len() < CHUNK_ITEMS => last.push_back(item),
            _ => self.push_chunk(item),
        }
    }

    /// Adds items, all at once if the first chunk has room for them.
    #[inline]
    pub fn extend(&mut self, items: impl ExactSizeIterator<Item = T>) {
        if self.rest.is_empty() && self.front.len() + items.len() <= CHUNK_ITEMS {
            self.front.extend(items);
        } else {
            items.for_each(|item| self.push_back(item));
        }
    }

    #[cold]
    fn push_chunk(&mut self, item: T) {
        let mut chunk = VecDeque::with_capacity(CHUNK_ITEMS);
        chunk.push_back(item);
        self.rest.push_back(chunk);
    }

    /// Takes the oldest item.
    #[inline]
    pub fn pop_front(&mut self) -> Option<T> {
        let item = self.front.pop_front()?;
        if self.front.is_empty() {
            self.replace_front();
        }
        Some(item)
    }

    /// Drops so many of [`ChunkedQueue::oldest`].
    #[inline]
    pub fn drop_oldest(&mut self, count: usize) {
        match count {
            1 => drop(self.front.pop_front()),
            count => drop(self.front.drain(..count)),
        }
        if self.front.is_empty() {
            self.replace_front();
        }
    }

    /// The front chunk is empty: the next replaces it, or most of its memory is returned.
    fn replace_front(&mut self) {
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
        /// Pushes (positive) and pops (negative) by the hundred, one by one or together: a plain ring gives the same results.
        #[test]
        fn it_gives_the_same_results_as_a_ring(
            steps in prop::collection::vec((-3000_i32..3000, any::<bool>()), 1..40),
        ) {
            let (mut queue, mut plain) = (ChunkedQueue::default(), VecDeque::new());
            let mut next = 0_u32;
            for (count, together) in steps {
                let pushed = next..next + count.max(0) as u32;
                next = pushed.end;
                match together {
                    true => queue.extend(pushed.clone()),
                    false => pushed.clone().for_each(|item| queue.push_back(item)),
                }
                plain.extend(pushed);
                let mut popped = count.min(0).unsigned_abs() as usize;
                while together && popped > 0 && !plain.is_empty() {
                    let oldest = queue.oldest();
                    prop_assert!(!oldest.is_empty() && oldest.iter().eq(plain.iter().take(oldest.len())));
                    let dropped = popped.min(oldest.len());
                    queue.drop_oldest(dropped);
                    plain.drain(..dropped);
                    popped -= dropped;
                }
                for _ in 0..popped {
                    prop_assert_eq!(queue.pop_front(), plain.pop_front());
                }
                prop_assert_eq!(queue.back_mut(), plain.back_mut());
                prop_assert_eq!(queue.oldest().is_empty(), plain.is_empty());
                prop_assert_eq!((queue.len(), queue.is_empty()), (plain.len(), plain.is_empty()));
                prop_assert_eq!(queue.front(), plain.front());
                for index in [0, 1, plain.len() / 2, plain.len().saturating_sub(1), plain.len(), plain.len() + 1025] {
                    prop_assert_eq!(queue.get(index), plain.get(index), "{} of {}", index, plain.len());
                    if let (Some(a), Some(b)) = (queue.get_mut(index), plain.get_mut(index)) {
                        *a += 1;
                        *b += 1;
                    }
                }
            }
        }
    }

    #[test]
    fn memory_that_is_not_needed_is_returned() {
        let mut queue = ChunkedQueue::default();
        for round in 0..3 {
            (0..100_000).for_each(|item| queue.push_back(item));
            assert_eq!(queue.len(), 100_000, "round {round}");
            let capacity: usize = queue.rest.iter().chain([&queue.front]).map(VecDeque::capacity).sum();
            assert!(capacity < 100_000 + 2 * CHUNK_ITEMS, "a capacity of {capacity}");
            while queue.pop_front().is_some() {}
            assert!(queue.front.capacity() <= EMPTY_CHUNK_ITEMS_KEPT && queue.rest.capacity() == 0);
        }
        let mut short = ChunkedQueue::default();
        short.push_back(1);
        assert!(short.front.capacity() < 16, "a short list is small");
    }
}
