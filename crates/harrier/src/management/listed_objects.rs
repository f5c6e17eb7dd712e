//! Live objects in the order of a list: those that have changed are made anew, however many others there are.
//!
//! Enters: which objects have changed, appeared or gone.  Leaves: the list, as of the last round.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::mem;

/// What a list shows of an object.
pub enum Listing<T> {
    Shown(T),
    /// Something that it needs has not been told yet.
    Hidden,
    Gone,
}

/// Objects of one kind.
pub struct ListedObjects<K, T> {
    list: Vec<T>,
    /// Of each place of the list.
    keys: Vec<K>,
    places: HashMap<K, usize>,
    /// Since the last round, with those that were hidden in it.
    changed: HashSet<K>,
    /// What changed in the last round has a rate, which is over in the next.
    moving: HashSet<K>,
}

impl<K, T> Default for ListedObjects<K, T> {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            keys: Vec::new(),
            places: HashMap::new(),
            changed: HashSet::new(),
            moving: HashSet::new(),
        }
    }
}

impl<K: Copy + Eq + Hash, T> ListedObjects<K, T> {
    /// The object is another than it was, new, or gone.
    pub fn mark(&mut self, key: K) {
        self.changed.insert(key);
    }

    /// All that are listed may be others than they were.
    pub fn mark_all(&mut self) {
        self.changed.extend(&self.keys);
    }

    pub fn list(&self) -> &[T] {
        &self.list
    }

    /// Looks at what has changed. Two versions of an object are equal by `order`.
    pub fn end_round(&mut self, look: impl Fn(K) -> Listing<T>, order: impl Fn(&T, &T) -> Ordering) {
        let changed = mem::take(&mut self.changed);
        let mut looked_at = mem::replace(&mut self.moving, changed.clone());
        looked_at.extend(changed);
        let listed = self.list.len();
        let mut gone = HashSet::new();
        for key in looked_at {
            match (look(key), self.places.get(&key)) {
                (Listing::Shown(object), Some(place)) => self.list[*place] = object,
                (Listing::Shown(object), None) => {
                    self.places.insert(key, self.list.len());
                    self.list.push(object);
                    self.keys.push(key);
                }
                (Listing::Hidden, place) => {
                    gone.extend(place.map(|_| key));
                    self.changed.insert(key);
                    self.moving.remove(&key);
                }
                (Listing::Gone, place) => {
                    gone.extend(place.map(|_| key));
                    self.moving.remove(&key);
                }
            }
        }
        if !gone.is_empty() || self.list.len() > listed {
            self.arrange(&gone, order);
        }
    }

    fn arrange(&mut self, gone: &HashSet<K>, order: impl Fn(&T, &T) -> Ordering) {
        let pairs = mem::take(&mut self.keys).into_iter().zip(mem::take(&mut self.list));
        let mut pairs: Vec<(K, T)> = pairs.filter(|(key, _)| !gone.contains(key)).collect();
        pairs.sort_by(|(_, a), (_, b)| order(a, b));
        (self.keys, self.list) = pairs.into_iter().unzip();
        self.places.clear();
        self.places.extend(self.keys.iter().enumerate().map(|(place, key)| (*key, place)));
    }
}

#[cfg(test)]
mod tests {
    use super::{ListedObjects, Listing};
    use std::cell::RefCell;
    use std::collections::HashMap;

    /// Ends a round of objects with names and counts; returns which were looked at.
    fn end_round(
        listed: &mut ListedObjects<u8, (&'static str, u64)>,
        known: &HashMap<u8, (&'static str, u64)>,
    ) -> Vec<u8> {
        let looked_at = RefCell::new(Vec::new());
        let look = |key| {
            looked_at.borrow_mut().push(key);
            match known.get(&key) {
                Some(("", _)) => Listing::Hidden,
                Some(object) => Listing::Shown(*object),
                None => Listing::Gone,
            }
        };
        listed.end_round(look, |a, b| a.0.cmp(b.0));
        let mut looked_at = looked_at.into_inner();
        looked_at.sort_unstable();
        looked_at
    }

    #[test]
    fn a_round_looks_at_what_has_changed_in_it_and_in_the_one_before() {
        let mut known = HashMap::from([(1, ("c", 1)), (2, ("a", 1)), (3, ("b", 1))]);
        let mut listed = ListedObjects::default();
        (1..=3).for_each(|key| listed.mark(key));
        assert_eq!(end_round(&mut listed, &known), [1, 2, 3]);
        assert_eq!(listed.list(), [("a", 1), ("b", 1), ("c", 1)]);
        assert_eq!(end_round(&mut listed, &known), [1, 2, 3], "what has appeared has no rate any more");
        assert!(end_round(&mut listed, &known).is_empty(), "nothing moves");
        known.insert(3, ("b", 2));
        listed.mark(3);
        listed.mark(3);
        assert_eq!(end_round(&mut listed, &known), [3]);
        assert_eq!(listed.list(), [("a", 1), ("b", 2), ("c", 1)]);
        assert_eq!(end_round(&mut listed, &known), [3]);
        assert!(end_round(&mut listed, &known).is_empty());
        listed.mark_all();
        assert_eq!(end_round(&mut listed, &known), [1, 2, 3]);
    }

    #[test]
    fn what_comes_and_goes_keeps_the_order_and_what_is_hidden_is_asked_for_again() {
        let mut known = HashMap::from([(1, ("d", 1)), (2, ("b", 1)), (3, ("", 1))]);
        let mut listed = ListedObjects::default();
        (1..=3).for_each(|key| listed.mark(key));
        end_round(&mut listed, &known);
        assert_eq!(listed.list(), [("b", 1), ("d", 1)]);
        known.insert(3, ("c", 1));
        known.insert(4, ("a", 1));
        known.remove(&2);
        [4, 2].into_iter().for_each(|key| listed.mark(key));
        end_round(&mut listed, &known);
        assert_eq!(listed.list(), [("a", 1), ("c", 1), ("d", 1)], "3 is told of without being marked again");
        // Its place is another now, and it is found there.
        known.insert(1, ("d", 7));
        listed.mark(1);
        end_round(&mut listed, &known);
        assert_eq!(listed.list(), [("a", 1), ("c", 1), ("d", 7)]);
        known.clear();
        (1..=4).for_each(|key| listed.mark(key));
        end_round(&mut listed, &known);
        assert!(listed.list().is_empty());
        assert!(end_round(&mut listed, &known).is_empty(), "what has gone is forgotten");
    }
}
