//! Which objects of one kind have changed since a reader was last told of them, and which are gone.
//!
//! Enters: keys of objects that have changed, each once until it is reported.  Leaves: what to report next.
//! Owns:   the place in the table up to which a reader that has just come knows it.

use crate::limits::CHANGES_MAX;
use std::collections::VecDeque;

/// What a reader does not know yet. While nobody reads it holds nothing.
pub struct ChangeList<K> {
    is_tracking: bool,
    /// The place in the table from which on the reader knows nothing; `None`: it knows the whole table.
    next_place: Option<usize>,
    changed: VecDeque<K>,
    gone: VecDeque<K>,
    /// The reader is to forget what it knows: it is told everything anew.
    begins_anew: bool,
}

impl<K> Default for ChangeList<K> {
    fn default() -> Self {
        ChangeList {
            is_tracking: false,
            next_place: None,
            changed: VecDeque::new(),
            gone: VecDeque::new(),
            begins_anew: false,
        }
    }
}

impl<K> ChangeList<K> {
    /// A reader has come, which knows nothing.
    pub fn start(&mut self) {
        *self = ChangeList { is_tracking: true, next_place: Some(0), begins_anew: true, ..ChangeList::default() };
    }

    /// Nobody reads any more.
    pub fn stop(&mut self) {
        *self = ChangeList::default();
    }

    /// An object is new, or has changed since it was reported.
    #[cold]
    pub fn note(&mut self, key: K) {
        if self.is_tracking {
            self.changed.push_back(key);
            self.keep_to_limit();
        }
    }

    /// An object is gone.
    #[cold]
    pub fn note_gone(&mut self, key: K) {
        if self.is_tracking {
            self.gone.push_back(key);
            self.keep_to_limit();
        }
    }

    fn keep_to_limit(&mut self) {
        if self.changed.len() + self.gone.len() > CHANGES_MAX {
            self.start();
        }
    }

    /// Whether the reader is to forget what it knows; it is told so once.
    pub fn take_begins_anew(&mut self) -> bool {
        std::mem::take(&mut self.begins_anew)
    }

    /// The next place of a table of so many that a new reader does not know.
    pub fn next_place(&mut self, places: usize) -> Option<usize> {
        let place = self.next_place?;
        self.next_place = (place + 1 < places).then_some(place + 1);
        (place < places).then_some(place)
    }

    /// The next object that has changed. It may be gone.
    pub fn next_changed(&mut self) -> Option<K> {
        self.changed.pop_front()
    }

    /// The next object that is gone.
    pub fn next_gone(&mut self) -> Option<K> {
        self.gone.pop_front()
    }

    pub fn is_empty(&self) -> bool {
        self.next_place.is_none() && self.changed.is_empty() && self.gone.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::ChangeList;
    use crate::limits::CHANGES_MAX;

    #[test]
    fn a_reader_learns_the_table_and_then_what_changes() {
        let mut list = ChangeList::default();
        list.note(1);
        list.note_gone(2);
        assert!(list.is_empty(), "nobody reads");
        list.start();
        list.note(7);
        list.note_gone(8);
        assert_eq!((list.take_begins_anew(), list.take_begins_anew()), (true, false));
        let places: Vec<_> = std::iter::from_fn(|| list.next_place(3)).collect();
        assert_eq!((places, list.next_changed(), list.next_changed()), (vec![0, 1, 2], Some(7), None));
        assert!(!list.is_empty());
        assert_eq!((list.next_gone(), list.next_gone(), list.is_empty()), (Some(8), None, true));
        list.note(9);
        list.stop();
        assert!(list.is_empty() && list.next_changed().is_none());
    }

    #[test]
    fn a_reader_that_does_not_keep_up_begins_anew() {
        let mut list = ChangeList::default();
        list.start();
        assert!(list.take_begins_anew() && list.next_place(0).is_none());
        (0..CHANGES_MAX).for_each(|key| list.note(key));
        assert!(!list.take_begins_anew());
        list.note_gone(0);
        assert!(list.take_begins_anew() && list.next_changed().is_none() && list.next_gone().is_none());
        assert_eq!(list.next_place(1), Some(0));
    }
}
