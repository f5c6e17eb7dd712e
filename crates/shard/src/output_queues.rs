//! The output of every connection of a shard: what the session encoded and the link has not taken yet.
//!
//! A queue that was written to is dirty until the shard flushes it, once per batch. Where one batch has written to very many, some
//! wait in the backlog: each flush is a call of the system, and those who come later must not wait for all of them.

use crate::connection_stamps::ConnectionStamps;
use crate::limits::{FLUSHED_AT_ONCE_BYTES, SCARCE_OUTPUT_DIVISOR};
use crate::link_output::LinkOutput;
use crate::memory_pressure::MemoryPressure;
use broker::ConnectionSlot;
use session::Outbound;
use std::collections::VecDeque;

/// The output of one connection.
pub struct OutputQueue {
    /// The encoder, with the bytes that wait to be sent.
    pub out: Outbound,
    /// Bodies of fewer bytes are copied, others shared.
    pub copy_threshold_bytes: usize,
    /// The link takes no more bytes until it becomes writable.
    pub blocked: bool,
    /// Present where this broker is the client of another broker.
    pub link_output: Option<Box<LinkOutput>>,
    /// Present once a stamped message has arrived over the connection.
    pub stamps: Option<Box<ConnectionStamps>>,
    is_dirty: bool,
}

/// The outputs of one shard by slot, and which of them are dirty.
pub struct OutputQueues {
    queues: Vec<Option<OutputQueue>>,
    dirty: Vec<ConnectionSlot>,
    /// Those of earlier batches, in their order. They are marked dirty as well.
    backlog: VecDeque<ConnectionSlot>,
    queue_bytes_max: usize,
    /// The bytes beyond which a connection gets no more deliveries now: fewer while memory is low.
    delivery_bytes_max: usize,
}

impl OutputQueues {
    /// No outputs. Beyond `queue_bytes_max` a connection gets no more deliveries.
    pub fn new(queue_bytes_max: usize) -> Self {
        let (queues, dirty, backlog) = (Vec::new(), Vec::new(), VecDeque::new());
        OutputQueues { queues, dirty, backlog, queue_bytes_max, delivery_bytes_max: queue_bytes_max }
    }

    /// Bytes in a connection's output beyond which it gets no more deliveries; beyond twice as many the shard stops
    /// reading it.
    pub fn queue_bytes_max(&self) -> usize {
        self.queue_bytes_max
    }

    /// How much waits in an output before its connection gets no more deliveries: less while memory is low.
    pub(crate) fn limit_deliveries(&mut self, pressure: MemoryPressure) {
        self.delivery_bytes_max = match pressure {
            MemoryPressure { holds_messages: true, .. } => 1,
            MemoryPressure { is_low: true, .. } => (self.queue_bytes_max / SCARCE_OUTPUT_DIVISOR).max(1),
            _ => self.queue_bytes_max,
        };
    }

    /// Adds the output of a new connection.
    pub fn open(&mut self, slot: ConnectionSlot, out: Outbound, copy_threshold_bytes: usize) {
        let index = slot.index();
        if self.queues.len() <= index {
            self.queues.resize_with(index + 1, || None);
        }
        self.queues[index] = Some(OutputQueue {
            out,
            copy_threshold_bytes,
            blocked: false,
            link_output: None,
            stamps: None,
            is_dirty: false,
        });
    }

    /// Drops the output of a connection that is gone.
    pub fn close(&mut self, slot: ConnectionSlot) {
        if let Some(queue) = self.queues.get_mut(slot.index()) {
            *queue = None;
        }
    }

    /// Takes the output of a connection that leaves this shard.
    pub fn take(&mut self, slot: ConnectionSlot) -> Option<OutputQueue> {
        self.queues.get_mut(slot.index())?.take()
    }

    #[inline]
    pub fn get(&self, slot: ConnectionSlot) -> Option<&OutputQueue> {
        self.queues.get(slot.index())?.as_ref()
    }

    #[inline]
    pub fn get_mut(&mut self, slot: ConnectionSlot) -> Option<&mut OutputQueue> {
        self.queues.get_mut(slot.index())?.as_mut()
    }

    /// The output of a connection, marked dirty because the caller writes to it.
    #[inline]
    pub fn get_dirty(&mut self, slot: ConnectionSlot) -> Option<&mut OutputQueue> {
        let queue = self.queues.get_mut(slot.index())?.as_mut()?;
        if !queue.is_dirty {
            queue.is_dirty = true;
            self.dirty.push(slot);
        }
        Some(queue)
    }

    /// Takes a connection that was written to in this batch, to flush it.
    #[inline]
    pub fn next_dirty(&mut self) -> Option<ConnectionSlot> {
        let slot = self.dirty.pop()?;
        Some(self.clean(slot))
    }

    /// Leaves what else was written to in this batch to the backlog.
    #[inline]
    pub fn leave_dirty(&mut self) {
        if !self.dirty.is_empty() {
            self.backlog.extend(self.dirty.drain(..));
        }
    }

    /// Whether an output has so much that it takes its turn behind others.
    #[inline]
    pub fn joins_backlog(&self, slot: ConnectionSlot) -> bool {
        !self.backlog.is_empty() && self.get(slot).is_some_and(|queue| queue.out.bytes() > FLUSHED_AT_ONCE_BYTES)
    }

    /// Leaves an output to the backlog.
    pub fn leave(&mut self, slot: ConnectionSlot) {
        if let Some(queue) = self.get_mut(slot).filter(|queue| !queue.is_dirty) {
            queue.is_dirty = true;
            self.backlog.push_back(slot);
        }
    }

    /// Takes the connection that has waited longest in the backlog, to flush it.
    pub fn next_in_backlog(&mut self) -> Option<ConnectionSlot> {
        let slot = self.backlog.pop_front()?;
        if self.backlog.is_empty() {
            self.backlog = VecDeque::new();
        }
        Some(self.clean(slot))
    }

    /// Whether connections wait in the backlog.
    #[inline]
    pub fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    #[inline]
    fn clean(&mut self, slot: ConnectionSlot) -> ConnectionSlot {
        if let Some(queue) = self.get_mut(slot) {
            queue.is_dirty = false;
        }
        slot
    }

    /// Whether a connection may get more deliveries.
    #[inline]
    pub fn has_capacity(&self, slot: ConnectionSlot) -> bool {
        self.delivery_room(slot) > 0
    }

    /// Bytes that an output lacks until its connection gets no more deliveries.
    #[inline]
    pub fn delivery_room(&self, slot: ConnectionSlot) -> usize {
        self.get(slot).map_or(0, |queue| self.delivery_bytes_max.saturating_sub(queue.out.bytes()))
    }

    /// Whether so much waits to be sent to a connection that the shard must not read more requests from it.
    #[inline]
    pub fn is_full(&self, slot: ConnectionSlot) -> bool {
        self.get(slot).is_some_and(|queue| queue.out.bytes() >= 2 * self.queue_bytes_max)
    }

    /// Bytes that wait in all outputs.
    pub fn bytes(&self) -> usize {
        self.queues.iter().flatten().map(|queue| queue.out.bytes()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::OutputQueues;
    use broker::ConnectionSlot;
    use session::Outbound;
    use slab::{Pool, PoolOptions};

    #[test]
    fn what_a_batch_leaves_is_flushed_in_its_order_and_once() {
        let pool = Pool::new(PoolOptions::default());
        let slots = [0, 1, 2].map(ConnectionSlot::new);
        let mut outputs = OutputQueues::new(100);
        for slot in slots {
            outputs.open(slot, Outbound::new(), 0);
            outputs.get_dirty(slot).expect("open").out.heartbeat(&pool);
        }
        assert_eq!(outputs.next_dirty(), Some(slots[2]));
        outputs.leave_dirty();
        // One of them is written to again, and another one is written to as well.
        for slot in [slots[1], slots[2]] {
            outputs.get_dirty(slot).expect("open").out.heartbeat(&pool);
        }
        assert_eq!((outputs.next_dirty(), outputs.next_dirty()), (Some(slots[2]), None));
        assert!(outputs.has_backlog());
        let left = [(); 3].map(|()| outputs.next_in_backlog());
        assert_eq!((left, outputs.has_backlog()), ([Some(slots[0]), Some(slots[1]), None], false));
        outputs.get_dirty(slots[0]).expect("open").out.heartbeat(&pool);
        assert_eq!(outputs.next_dirty(), Some(slots[0]), "it is dirty again");
    }

    #[test]
    fn a_written_output_is_flushed_once_and_reports_when_it_is_full() {
        let pool = Pool::new(PoolOptions::default());
        let [absent, slot] = [0, 1].map(ConnectionSlot::new);
        let mut outputs = OutputQueues::new(12);
        outputs.open(slot, Outbound::new(), 0);
        assert!(outputs.get(absent).is_none() && outputs.get_dirty(absent).is_none(), "no connection, no output");
        assert!(outputs.has_capacity(slot) && !outputs.has_capacity(absent) && !outputs.is_full(slot));
        for _ in 0..2 {
            outputs.get_dirty(slot).expect("open").out.heartbeat(&pool);
        }
        assert_eq!(outputs.bytes(), 16);
        assert!(!outputs.has_capacity(slot) && !outputs.is_full(slot), "no more deliveries, but it is still read");
        assert_eq!((outputs.next_dirty(), outputs.next_dirty()), (Some(slot), None));
        outputs.get_dirty(slot).expect("open").out.heartbeat(&pool);
        assert!(outputs.is_full(slot));
        outputs.close(slot);
        assert_eq!(
            (outputs.next_dirty(), outputs.bytes()),
            (Some(slot), 0),
            "the dirty list may name a closed connection"
        );
        assert!(!outputs.is_full(slot) && outputs.get_mut(slot).is_none());
    }
}
