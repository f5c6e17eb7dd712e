//! What the queues of a shard share of their pages: when messages leave the memory, and who may ask for some again.

use crate::ids::Requester;
use crate::limits::{
    PAGE_BYTES_MAX, PAGE_IN_BYTES_MAX, PAGED_QUEUE_UID_FIRST, PAGING_HALVINGS_MAX, PAGING_RETRY_BYTES,
    PAGING_SPAN_DIVISOR, PAGING_THRESHOLD_PER_PAGE,
};
use crate::queue_pages::AskedRange;
use catalog::{QueueId, QueueUid};
use hashbrown::HashMap;
use std::collections::VecDeque;

/// A `basic.get` whose message is on a page.
pub struct WaitingGet {
    pub requester: Requester,
    pub no_ack: bool,
}

/// The paging of a shard.
pub struct Paging {
    /// Bytes of waiting messages that need not leave the memory; zero: none does.
    threshold: u64,
    /// Bytes of waiting messages beyond which a publish looks for some to page out.
    at_bytes: u64,
    /// Bytes of messages that were asked for and have not come.
    asked_bytes: u64,
    /// Queues that ask once others have got what they asked for.
    turns: VecDeque<QueueId>,
    /// One for each connection that waits, at most.
    gets: HashMap<QueueId, VecDeque<WaitingGet>>,
    next_uid: u64,
    /// Pages of all queues.
    pub pages: usize,
    /// The next queue that is looked at for messages to page out.
    pub hand: usize,
}

impl Default for Paging {
    fn default() -> Self {
        Paging {
            threshold: 0,
            at_bytes: u64::MAX,
            asked_bytes: 0,
            turns: VecDeque::new(),
            gets: HashMap::new(),
            next_uid: PAGED_QUEUE_UID_FIRST,
            pages: 0,
            hand: 0,
        }
    }
}

impl Paging {
    pub fn set_threshold(&mut self, bytes: u64) {
        self.threshold = bytes;
        self.at_bytes = if bytes == 0 { u64::MAX } else { bytes };
    }

    /// Whether so many bytes of waiting messages are too many.
    #[inline]
    pub fn is_exceeded(&self, waiting_bytes: u64) -> bool {
        waiting_bytes > self.at_bytes
    }

    /// Bytes that waiting messages may grow by before they are too many.
    #[inline]
    pub fn room(&self, waiting_bytes: u64) -> u64 {
        self.at_bytes.saturating_sub(waiting_bytes)
    }

    /// About how many bytes a queue keeps before its first page, and a page has that is asked for. The more the threshold is
    /// exceeded the fewer, so that any number of queues keeps to it.
    pub fn page_bytes(&self, waiting_bytes: u64) -> u64 {
        if self.threshold == 0 {
            return PAGE_BYTES_MAX;
        }
        let step = (self.threshold / PAGING_SPAN_DIVISOR / PAGING_HALVINGS_MAX).max(1);
        let halvings = waiting_bytes.saturating_sub(self.threshold) / step;
        let most = (self.threshold / PAGING_THRESHOLD_PER_PAGE).min(PAGE_BYTES_MAX);
        most >> halvings.min(PAGING_HALVINGS_MAX)
    }

    /// The store took messages over, or refused to.
    pub fn note_written(&mut self, is_written: bool, waiting_bytes: u64) {
        self.at_bytes = if is_written { self.threshold } else { waiting_bytes.saturating_add(PAGING_RETRY_BYTES) };
    }

    /// The store may take messages over again.
    pub fn retry(&mut self) {
        self.set_threshold(self.threshold);
    }

    /// The number of a queue that is not durable, for its pages.
    pub fn new_uid(&mut self) -> Option<QueueUid> {
        let uid = QueueUid::new(self.next_uid);
        self.next_uid += 1;
        uid
    }

    /// Whether a queue may ask for messages now.
    pub fn has_capacity(&self, range: &AskedRange) -> bool {
        self.asked_bytes == 0 || self.asked_bytes + range.bytes <= PAGE_IN_BYTES_MAX
    }

    /// A queue asks for messages.
    pub fn note_asked(&mut self, range: &AskedRange) {
        self.asked_bytes += range.bytes;
    }

    /// Messages that were asked for have come, or nobody wants them any more.
    pub fn note_answered(&mut self, bytes: u64) {
        self.asked_bytes -= bytes;
    }

    /// A queue asks later.
    pub fn await_turn(&mut self, queue: QueueId) {
        self.turns.push_back(queue);
    }

    /// The queue that was added last is the next.
    pub fn put_back_turn(&mut self) {
        if !self.turns.is_empty() {
            self.turns.rotate_right(1);
        }
    }

    /// Takes the next queue that waits for its turn, if there is room.
    pub fn next_turn(&mut self) -> Option<QueueId> {
        if self.asked_bytes >= PAGE_IN_BYTES_MAX {
            return None;
        }
        self.turns.pop_front()
    }

    /// A `basic.get` waits for the first message of a queue.
    pub fn await_get(&mut self, queue: QueueId, get: WaitingGet) {
        self.gets.entry(queue).or_default().push_back(get);
    }

    #[inline]
    pub fn has_gets(&self) -> bool {
        !self.gets.is_empty()
    }

    pub fn has_get(&self, queue: QueueId) -> bool {
        self.gets.contains_key(&queue)
    }

    /// Takes what waits for the first message of a queue, in its order.
    pub fn take_gets(&mut self, queue: QueueId) -> VecDeque<WaitingGet> {
        self.gets.remove(&queue).unwrap_or_default()
    }

    /// Requests that are under way or wait.
    pub fn len(&self) -> usize {
        self.turns.len() + self.gets.values().map(VecDeque::len).sum::<usize>() + usize::from(self.asked_bytes > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::QueuePosition;

    #[test]
    fn queues_keep_less_the_more_the_threshold_is_exceeded() {
        let mut paging = Paging::default();
        assert!(!paging.is_exceeded(u64::MAX - 1), "without a threshold nothing leaves");
        paging.set_threshold(64 << 20);
        assert!(!paging.is_exceeded(64 << 20) && paging.is_exceeded((64 << 20) + 1));
        assert_eq!([0, 64 << 20].map(|waiting| paging.page_bytes(waiting)), [PAGE_BYTES_MAX; 2]);
        let kept: Vec<u64> = (64..=82).map(|mebibytes| paging.page_bytes(mebibytes << 20)).collect();
        assert!(kept.is_sorted_by(|more, less| more >= less), "{kept:?}");
        assert_eq!(kept.last(), Some(&(PAGE_BYTES_MAX >> PAGING_HALVINGS_MAX)));
        paging.set_threshold(1 << 20);
        assert_eq!(paging.page_bytes(0), (1 << 20) / PAGING_THRESHOLD_PER_PAGE, "a small shard has small pages");
        paging.note_written(false, 1 << 20);
        assert!(!paging.is_exceeded(2 << 20) && paging.is_exceeded((2 << 20) + 1), "it is offered again later");
        paging.note_written(true, 1 << 20);
        assert!(paging.is_exceeded((1 << 20) + 1));
    }

    #[test]
    fn one_large_request_is_let_in_alone_and_others_wait_for_their_turns() {
        let queue = |index| QueueId { index, serial: 1 };
        let range = |bytes| AskedRange { first: QueuePosition(0), end: QueuePosition(1), bytes };
        let mut paging = Paging::default();
        let large = range(PAGE_IN_BYTES_MAX * 2);
        assert!(paging.has_capacity(&large));
        paging.note_asked(&large);
        assert!(!paging.has_capacity(&range(1)));
        (1..=2).for_each(|index| paging.await_turn(queue(index)));
        assert_eq!((paging.next_turn(), paging.len()), (None, 3));
        paging.note_answered(large.bytes);
        assert_eq!(paging.next_turn(), Some(queue(1)));
        paging.await_turn(queue(1));
        paging.put_back_turn();
        assert_eq!([(); 3].map(|()| paging.next_turn()), [Some(queue(1)), Some(queue(2)), None]);
        assert_eq!(paging.len(), 0);
    }
}
