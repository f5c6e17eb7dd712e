//! The durable bindings of one virtual host, in their order.
//!
//! Enters: bindings that come and go, exchanges and queues that go.  Leaves: the bindings, the oldest first.

use crate::journal_record::DurableBinding;
use catalog::Name;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// One of the two ends of a binding, and what it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum BindingEnd {
    Source,
    DestinationExchange,
    DestinationQueue,
}

/// Bindings by their place in the order, by what they say, and by their ends.
#[derive(Clone, Default, Debug)]
pub(crate) struct BindingSet {
    by_place: BTreeMap<i64, Arc<DurableBinding>>,
    places: HashMap<Arc<DurableBinding>, i64>,
    by_end: BTreeSet<(BindingEnd, Name, i64)>,
}

impl BindingSet {
    /// Adds a binding behind all others, unless it is there.
    pub fn put_newest(&mut self, binding: DurableBinding) {
        let place = self.by_place.last_key_value().map_or(0, |(last, _)| last + 1);
        self.put(binding, place);
    }

    /// Adds a binding before all others, unless it is there.
    pub fn put_oldest(&mut self, binding: DurableBinding) {
        let place = self.by_place.first_key_value().map_or(0, |(first, _)| first - 1);
        self.put(binding, place);
    }

    fn put(&mut self, binding: DurableBinding, place: i64) {
        if self.places.contains_key(&binding) {
            return;
        }
        let binding = Arc::new(binding);
        self.by_end.extend(ends(&binding).map(|(end, name)| (end, name.clone(), place)));
        self.places.insert(Arc::clone(&binding), place);
        self.by_place.insert(place, binding);
    }

    pub fn remove(&mut self, binding: &DurableBinding) {
        if let Some(place) = self.places.get(binding).copied() {
            self.remove_at(place);
        }
    }

    /// Removes the bindings that have this end.
    pub fn remove_end(&mut self, end: BindingEnd, name: &Name) {
        let of_end = (end, name.clone(), i64::MIN)..=(end, name.clone(), i64::MAX);
        let places: Vec<i64> = self.by_end.range(of_end).map(|(.., place)| *place).collect();
        for place in places {
            self.remove_at(place);
        }
    }

    fn remove_at(&mut self, place: i64) {
        let Some(binding) = self.by_place.remove(&place) else { return };
        self.places.remove(&binding);
        for (end, name) in ends(&binding) {
            self.by_end.remove(&(end, name.clone(), place));
        }
    }

    /// The bindings, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &DurableBinding> {
        self.by_place.values().map(|binding| &**binding)
    }

    pub fn len(&self) -> usize {
        self.by_place.len()
    }
}

fn ends(binding: &DurableBinding) -> impl Iterator<Item = (BindingEnd, &Name)> {
    let to = if binding.is_to_queue { BindingEnd::DestinationQueue } else { BindingEnd::DestinationExchange };
    [(BindingEnd::Source, &binding.source), (to, &binding.destination)].into_iter()
}
