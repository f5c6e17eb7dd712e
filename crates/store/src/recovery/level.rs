//! The messages of a level that are alive, as far as the log has been read.

use std::collections::{BTreeMap, VecDeque};

/// A message in its place in the log.
pub(crate) struct Placed<M> {
    pub message: M,
    /// The index of the extent that has it.
    pub extent: u32,
    pub bytes: u64,
}

struct Slot<M> {
    position: u64,
    /// `None` once it is settled.
    placed: Option<Placed<M>>,
}

/// A priority level of a queue.
pub(crate) struct RecoveredLevel<M> {
    pub number: u8,
    /// The position behind the highest that the log names.
    pub next: u64,
    /// Positions below this one were handed out.
    pub seen_end: u64,
    /// In the order of their positions. Neither end is settled.
    slots: VecDeque<Slot<M>>,
    settled: usize,
    /// Messages that were written behind higher positions.
    late: BTreeMap<u64, Placed<M>>,
    /// How often messages were returned: this may be written before the message is, where that is moved.
    pub returned: BTreeMap<u64, u32>,
}

impl<M> RecoveredLevel<M> {
    pub fn new(number: u8) -> Self {
        RecoveredLevel {
            number,
            next: 0,
            seen_end: 0,
            slots: VecDeque::new(),
            settled: 0,
            late: BTreeMap::new(),
            returned: BTreeMap::new(),
        }
    }

    /// A message was written: for the first time, or again when it was moved.
    pub fn insert(&mut self, position: u64, placed: Placed<M>) {
        self.next = self.next.max(position + 1);
        let is_last = self.slots.back().is_none_or(|last| last.position < position);
        if is_last && !self.late.contains_key(&position) {
            self.slots.push_back(Slot { position, placed: Some(placed) });
            return;
        }
        match self.find(position) {
            Some(before) => *before = placed,
            None => {
                self.late.insert(position, placed);
            }
        }
    }

    /// A message that is alive.
    fn find(&mut self, position: u64) -> Option<&mut Placed<M>> {
        let slot = self.slots.binary_search_by_key(&position, |slot| slot.position);
        match slot.ok().and_then(|at| self.slots[at].placed.as_mut()) {
            Some(placed) => Some(placed),
            None => self.late.get_mut(&position),
        }
    }

    /// The queue is done with what is from `first` to before `end`.
    pub fn settle(&mut self, first: u64, end: u64) {
        self.next = self.next.max(end);
        while let Some(late) = self.late.range(first..end).next().map(|(&late, _)| late) {
            self.late.remove(&late);
        }
        while let Some(returned) = self.returned.range(first..end).next().map(|(&returned, _)| returned) {
            self.returned.remove(&returned);
        }
        let from = match self.slots.front() {
            Some(front) if front.position < first => self.slots.partition_point(|slot| slot.position < first),
            _ => 0,
        };
        for slot in self.slots.range_mut(from..).take_while(|slot| slot.position < end) {
            self.settled += usize::from(slot.placed.take().is_some());
        }
        while self.slots.front().is_some_and(|slot| slot.placed.is_none()) {
            self.slots.pop_front();
            self.settled -= 1;
        }
        while self.slots.back().is_some_and(|slot| slot.placed.is_none()) {
            self.slots.pop_back();
            self.settled -= 1;
        }
        if self.settled > self.slots.len() / 2 {
            self.slots.retain(|slot| slot.placed.is_some());
            self.settled = 0;
        }
    }

    /// All messages, in the order of their positions.
    pub fn take_messages(&mut self) -> Vec<(u64, Placed<M>)> {
        let late = std::mem::take(&mut self.late);
        let slots = std::mem::take(&mut self.slots);
        let mut messages: Vec<_> =
            slots.into_iter().filter_map(|slot| slot.placed.map(|placed| (slot.position, placed))).collect();
        if !late.is_empty() {
            messages.extend(late);
            messages.sort_unstable_by_key(|message| message.0);
        }
        messages
    }
}
