//! The settlement ledger of one channel: which delivery tags still await an acknowledgement.

use crate::chunked_queue::ChunkedQueue;
use crate::ids::{ConsumerKey, QueuePosition};
use crate::limits::{LEDGER_HOLES_MIN, LEDGER_MOVES_MAX};
use crate::message::Message;
use catalog::{QueueId, ShardId};
use std::collections::BTreeMap;
use wire::DeliveryTag;

/// What becomes of a settled delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SettlementOutcome {
    /// It was processed.
    Acknowledged,
    /// It returns to its position in the queue.
    Requeued,
    /// It was refused and is not wanted again: a dead letter, if its queue has a target for them.
    Rejected,
}

/// A delivery that waits for its acknowledgement.
pub struct UnsettledDelivery {
    pub queue: QueueId,
    /// The shard where that queue lives.
    pub home: ShardId,
    pub position: QueuePosition,
    pub message: Message,
    /// The consumer it went to; `None` for `basic.get`.
    pub consumer: Option<ConsumerKey>,
}

/// Deliveries of a queue that are acknowledged together: their messages follow one another there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AcknowledgedRun {
    pub queue: QueueId,
    pub home: ShardId,
    pub first: QueuePosition,
    pub count: u32,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// All of them are, or none.
    pub are_persistent: bool,
    pub consumer: Option<ConsumerKey>,
}

impl AcknowledgedRun {
    /// One delivery alone.
    #[inline]
    pub fn of(delivery: &UnsettledDelivery) -> Self {
        let UnsettledDelivery { queue, home, position, ref message, consumer } = *delivery;
        let (bytes, are_persistent) = (message.body_bytes() as u64, message.is_persistent());
        AcknowledgedRun { queue, home, first: position, count: 1, bytes, are_persistent, consumer }
    }
}

/// To whom deliveries of a queue went whose tags and positions follow one another.
#[derive(Clone, Copy)]
struct DeliveredRun {
    first_tag: u64,
    count: u32,
    home: ShardId,
    queue: QueueId,
    first: QueuePosition,
    consumer: Option<ConsumerKey>,
}

impl DeliveredRun {
    #[inline]
    fn end(&self) -> u64 {
        self.first_tag + u64::from(self.count)
    }

    #[inline]
    fn position(&self, tag: u64) -> QueuePosition {
        QueuePosition(self.first.0 + (tag - self.first_tag))
    }

    #[inline]
    fn delivery(&self, tag: u64, message: Message) -> UnsettledDelivery {
        let DeliveredRun { queue, home, consumer, .. } = *self;
        UnsettledDelivery { queue, home, position: self.position(tag), message, consumer }
    }

    /// Whether another one goes on where this one ends.
    #[inline]
    fn is_before(&self, next: &DeliveredRun) -> bool {
        let follows = self.end() == next.first_tag && self.position(self.end()) == next.first;
        follows
            && (self.queue, self.home, self.consumer) == (next.queue, next.home, next.consumer)
            && self.count <= u32::MAX - next.count
    }
}

/// The oldest unsettled delivery of a channel. Its queue and position recognise its message when that is delivered again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OldestDelivery {
    pub tag: DeliveryTag,
    pub queue: QueueId,
    pub position: QueuePosition,
}

/// The unsettled deliveries of a channel by delivery tag: settling is linear in what is released and never looks at the rest.
///
/// The messages of recent ones are in a list indexed by tag; where they went is noted once for those that follow one another, so that
/// they are delivered and acknowledged together. Where the list has become mostly holes, because few old deliveries stay unsettled among
/// many that were settled, the old ones move to a map, so that the ledger is as large as what it holds.
#[derive(Default)]
pub struct Ledger {
    /// The deliveries before `front`.
    old: BTreeMap<DeliveryTag, UnsettledDelivery>,
    list: ChunkedQueue<Option<Message>>,
    /// Where the deliveries of the list went, by their tags: the first of these has the list's front.
    runs: ChunkedQueue<DeliveredRun>,
    /// Tag of the list's front.
    front: u64,
    /// The tag assigned last.
    last: u64,
    unsettled: usize,
}

impl Ledger {
    /// Bytes of an unsettled delivery here, beside its message, if it is a run of its own.
    pub const ENTRY_BYTES: usize = size_of::<Option<Message>>() + size_of::<DeliveredRun>();

    /// The next tag for a delivery that needs no acknowledgement.
    #[inline]
    pub fn assign_settled(&mut self) -> DeliveryTag {
        self.last += 1;
        if !self.list.is_empty() {
            self.list.push_back(None);
            self.bound_holes(1);
        }
        DeliveryTag(self.last)
    }

    /// The next tags for so many deliveries that need no acknowledgement.
    #[inline]
    pub fn assign_all_settled(&mut self, deliveries: usize) {
        if self.list.is_empty() {
            self.last += deliveries as u64;
        } else {
            (0..deliveries).for_each(|_| _ = self.assign_settled());
        }
    }

    /// The tag that the next delivery will get.
    #[inline]
    pub fn next_tag(&self) -> DeliveryTag {
        DeliveryTag(self.last + 1)
    }

    /// The tag assigned last; 0 before the first.
    #[inline]
    pub fn last_tag(&self) -> DeliveryTag {
        DeliveryTag(self.last)
    }

    /// Takes deliveries up to a tag, the oldest first and so many at most, to settle or restore them later. Returns also whether none
    /// of them is left.
    #[inline]
    pub fn take_through(&mut self, through: DeliveryTag, max: usize) -> (Vec<(DeliveryTag, UnsettledDelivery)>, bool) {
        let taken = std::iter::from_fn(|| self.take_first(through)).take(max).collect();
        (taken, !self.has_through(through))
    }

    /// Restores deliveries that were taken: they are unsettled again, under their tags.
    pub fn restore(&mut self, taken: impl IntoIterator<Item = (DeliveryTag, UnsettledDelivery)>) {
        for (tag, delivery) in taken {
            self.unsettled += 1;
            let index = tag.0.checked_sub(self.front).and_then(|index| usize::try_from(index).ok());
            match index.and_then(|index| self.list.get_mut(index)) {
                Some(slot) => *slot = Some(delivery.message),
                None => drop(self.old.insert(tag, delivery)),
            }
        }
    }

    /// The next tag for a delivery that must be settled.
    #[inline]
    pub fn assign_unsettled(&mut self, delivery: UnsettledDelivery) -> DeliveryTag {
        let UnsettledDelivery { queue, home, position, message, consumer } = delivery;
        self.begin_run(DeliveredRun { first_tag: self.last + 1, count: 1, home, queue, first: position, consumer });
        self.list.push_back(Some(message));
        self.bound_holes(1);
        DeliveryTag(self.last)
    }

    /// The next tags for deliveries of a queue that must be settled, of messages at positions that follow one another.
    #[inline]
    pub fn assign_all_unsettled(
        &mut self,
        (queue, home): (QueueId, ShardId),
        first: QueuePosition,
        consumer: ConsumerKey,
        messages: impl ExactSizeIterator<Item = Message>,
    ) {
        let (first_tag, count) = (self.last + 1, messages.len() as u32);
        if count == 0 {
            return;
        }
        self.begin_run(DeliveredRun { first_tag, count, home, queue, first, consumer: Some(consumer) });
        self.list.extend(messages.map(Some));
        self.bound_holes(count);
    }

    /// Notes where the next deliveries go, before the list has them.
    #[inline]
    fn begin_run(&mut self, run: DeliveredRun) {
        if self.list.is_empty() {
            self.front = run.first_tag;
        }
        self.last += u64::from(run.count);
        self.unsettled += run.count as usize;
        match self.runs.back_mut() {
            Some(last) if last.is_before(&run) => last.count += run.count,
            _ => self.runs.push_back(run),
        }
    }

    /// The oldest unsettled tag.
    #[inline]
    pub fn oldest(&self) -> Option<DeliveryTag> {
        let first = self.old.first_key_value().map(|(&tag, _)| tag);
        first.or((!self.list.is_empty()).then_some(DeliveryTag(self.front)))
    }

    /// The oldest unsettled delivery.
    pub fn oldest_delivery(&self) -> Option<OldestDelivery> {
        let tag = self.oldest()?;
        let (queue, position) = match self.old.get(&tag) {
            Some(delivery) => (delivery.queue, delivery.position),
            None => self.run_of(tag.0).map(|run| (run.queue, run.position(tag.0)))?,
        };
        Some(OldestDelivery { tag, queue, position })
    }

    /// Deliveries that wait for settlement.
    #[inline]
    pub fn unsettled(&self) -> usize {
        self.unsettled
    }

    /// Entries in memory: at most a few for each unsettled delivery.
    #[cfg(test)]
    fn entries(&self) -> usize {
        assert!(self.runs.len() <= self.list.len(), "a run has an entry");
        self.old.len() + self.list.len()
    }

    /// The run of a tag in the list.
    #[inline]
    fn run_of(&self, tag: u64) -> Option<&DeliveredRun> {
        let front = self.runs.front()?;
        if tag < front.end() {
            return Some(front);
        }
        // The last one that begins at the tag or before it.
        let (mut from, mut to) = (0, self.runs.len());
        while to - from > 1 {
            let middle = from + (to - from) / 2;
            match self.runs.get(middle)?.first_tag <= tag {
                true => from = middle,
                false => to = middle,
            }
        }
        self.runs.get(from)
    }

    /// Releases one tag.
    #[inline]
    pub fn settle(&mut self, tag: DeliveryTag) -> Option<UnsettledDelivery> {
        let Some(index) = tag.0.checked_sub(self.front).filter(|_| !self.list.is_empty()) else {
            return self.settle_old(tag);
        };
        let message = self.list.get_mut(usize::try_from(index).ok()?)?.take()?;
        let released = self.run_of(tag.0)?.delivery(tag.0, message);
        self.unsettled -= 1;
        self.trim();
        Some(released)
    }

    #[cold]
    fn settle_old(&mut self, tag: DeliveryTag) -> Option<UnsettledDelivery> {
        let released = self.old.remove(&tag)?;
        self.unsettled -= 1;
        Some(released)
    }

    /// The last tag that an acknowledgement of all up to `tag` covers; [`DeliveryTag::ALL`] means all.
    /// `None` if `tag` itself is not unsettled.
    #[inline]
    pub fn range(&self, tag: DeliveryTag) -> Option<DeliveryTag> {
        if tag == DeliveryTag::ALL {
            return Some(DeliveryTag(self.last));
        }
        let in_list = || {
            let index = usize::try_from(tag.0.checked_sub(self.front)?).ok()?;
            self.list.get(index)?.as_ref()
        };
        (in_list().is_some() || self.old.contains_key(&tag)).then_some(tag)
    }

    /// Whether a delivery up to a tag is unsettled.
    #[inline]
    pub fn has_through(&self, through: DeliveryTag) -> bool {
        self.oldest().is_some_and(|oldest| oldest <= through)
    }

    /// Releases the oldest delivery, if it is one up to this tag.
    #[inline]
    pub fn take_first(&mut self, through: DeliveryTag) -> Option<(DeliveryTag, UnsettledDelivery)> {
        let tag = self.oldest().filter(|&oldest| oldest <= through)?;
        self.settle(tag).map(|delivery| (tag, delivery))
    }

    /// Releases the oldest deliveries up to a tag, so many at most, as far as their messages follow one another in one queue, and went
    /// to one consumer. What becomes of the messages does not matter.
    #[inline]
    pub fn acknowledge_run(&mut self, through: DeliveryTag, max: usize) -> Option<AcknowledgedRun> {
        if !self.old.is_empty() && self.has_through(through) {
            return self.take_first(through).map(|(_, delivery)| AcknowledgedRun::of(&delivery));
        }
        let &run = self.runs.front()?;
        let end = run.end().min(through.0.saturating_add(1));
        let most = usize::try_from(end.saturating_sub(self.front)).map_or(max, |most| most.min(max));
        let mut released = AcknowledgedRun {
            queue: run.queue,
            home: run.home,
            first: run.position(self.front),
            count: 0,
            bytes: 0,
            are_persistent: false,
            consumer: run.consumer,
        };
        for message in self.list.oldest().iter().take(most).map_while(Option::as_ref) {
            let is_persistent = message.is_persistent();
            if released.count == 0 {
                released.are_persistent = is_persistent;
            } else if released.are_persistent != is_persistent {
                break;
            }
            released.count += 1;
            released.bytes += message.body_bytes() as u64;
        }
        if released.count == 0 {
            return None;
        }
        self.list.drop_oldest(released.count as usize);
        self.front += u64::from(released.count);
        self.unsettled -= released.count as usize;
        self.trim();
        Some(released)
    }

    #[inline]
    fn trim(&mut self) {
        while let Some(None) = self.list.front() {
            self.list.pop_front();
            self.front += 1;
        }
        while self.runs.front().is_some_and(|run| run.end() <= self.front) {
            self.runs.pop_front();
        }
    }

    /// Moves old deliveries from the list to the map while the list has more holes than deliveries, some with each new delivery.
    /// Each moves once.
    #[inline]
    fn bound_holes(&mut self, deliveries: u32) {
        for _ in 0..deliveries {
            if self.list.len() <= LEDGER_HOLES_MIN + 2 * (self.unsettled - self.old.len()) {
                return;
            }
            self.move_old();
        }
    }

    #[cold]
    fn move_old(&mut self) {
        for _ in 0..LEDGER_MOVES_MAX {
            if self.list.len() <= 2 * (self.unsettled - self.old.len()) {
                break;
            }
            let Some(slot) = self.list.pop_front() else { break };
            if let Some(message) = slot
                && let Some(run) = self.run_of(self.front)
            {
                let delivery = run.delivery(self.front, message);
                self.old.insert(DeliveryTag(self.front), delivery);
            }
            self.front += 1;
        }
        self.trim();
    }
}

#[cfg(test)]
mod tests;
