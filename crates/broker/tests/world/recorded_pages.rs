//! The pages of a shard as its broker sees them: messages that it has taken over, and answers that come when a test wants them.

use catalog::QueueUid;
use queues::{Message, PagedMessage, QueuePosition};
use std::collections::{BTreeMap, VecDeque};

/// What was asked for: from one position up to another.
type Range = (QueuePosition, QueuePosition);

/// It refuses messages unless it is on.
#[derive(Default)]
pub struct RecordedPages {
    pub is_on: bool,
    messages: BTreeMap<(QueueUid, QueuePosition), Message>,
    asked: BTreeMap<QueueUid, VecDeque<Range>>,
    /// Messages that it has taken over, and those that it has given back.
    pub taken: usize,
    pub given: usize,
    /// Messages that it was offered and has refused.
    pub refused: usize,
}

impl RecordedPages {
    /// Messages that it has.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Adds a message of an earlier life of the broker.
    pub fn restore(&mut self, queue: QueueUid, position: QueuePosition, message: Message) {
        self.messages.insert((queue, position), message);
    }

    pub fn page_out(&mut self, queue: QueueUid, messages: &mut dyn Iterator<Item = (QueuePosition, &Message)>) -> bool {
        if !self.is_on {
            self.refused += messages.count();
            return false;
        }
        let mut before: Option<QueuePosition> = None;
        for (position, message) in messages {
            assert!(before.is_none_or(|before| before < position && before.level() == position.level()));
            before = Some(position);
            assert!(self.messages.insert((queue, position), message.clone()).is_none(), "{position:?} twice");
            self.taken += 1;
        }
        assert!(before.is_some(), "a page has messages");
        true
    }

    pub fn page_in(&mut self, queue: QueueUid, first: QueuePosition, end: QueuePosition) {
        assert!(first < end && first.level() == end.level(), "{first:?} {end:?}");
        self.asked.entry(queue).or_default().push_back((first, end));
    }

    pub fn forget_paged(&mut self, queue: QueueUid, first: QueuePosition, end: QueuePosition) {
        assert!(first < end && first.level() == end.level(), "{first:?} {end:?}");
        self.messages.retain(|&(of, position), _| of != queue || position < first || position >= end);
    }

    pub fn drop_queue(&mut self, queue: QueueUid) {
        self.messages.retain(|&(of, _), _| of != queue);
    }

    /// The queues that have asked and have not been answered.
    pub fn asking(&self) -> Vec<QueueUid> {
        self.asked.keys().copied().collect()
    }

    /// Requests of a queue that are under way.
    pub fn asked(&self, queue: QueueUid) -> usize {
        self.asked.get(&queue).map_or(0, VecDeque::len)
    }

    /// The answer to the first request of a queue.
    pub fn answer(&mut self, queue: QueueUid) -> Option<(QueuePosition, Vec<PagedMessage>)> {
        let requests = self.asked.get_mut(&queue)?;
        let (first, end) = requests.pop_front()?;
        if requests.is_empty() {
            self.asked.remove(&queue);
        }
        let wanted = self.messages.range((queue, first)..(queue, end)).map(|(&key, _)| key).collect::<Vec<_>>();
        self.given += wanted.len();
        let messages = wanted.into_iter().filter_map(|key| {
            let message = self.messages.remove(&key)?;
            Some(PagedMessage { position: key.1, message, redelivered: false, times_returned: 0 })
        });
        Some((first, messages.collect()))
    }
}
