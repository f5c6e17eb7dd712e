//! The sending half of a connection: the list for the next doorbell, slots of the send queue, what the peer may read.
//!
//! Enters: messages, completions, ends of rendezvous.  Leaves: a list of work, grants to revoke.
//! Owns:   the numbers of messages and work, and who holds a slot.
//! Never:  counts a slot as free before a completion says so, whatever the peer has answered.

use crate::device::{Grant, Head, Work, WorkId};
use crate::engine::shared::LANDING;
use crate::fault::Fault;
use crate::wire::{Header, Kind};
use slab::Slice;
use std::collections::VecDeque;
use std::time::Duration;

/// Memory that the peer was offered.
#[derive(Debug)]
pub(crate) struct Offered {
    pub grant: Grant,
    pub bytes: usize,
    pub deadline: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct Outward {
    /// Work for the next doorbell.
    pub list: Vec<Work>,
    /// The number of the next message.
    sequence: u16,
    /// Pieces of work put into the list so far, and those of them that are known to be over.
    put: u64,
    over: u64,
    /// Messages since the last that gives a completion, and whether the device holds memory for one of them.
    unsignalled: usize,
    holds_memory: bool,
    /// The stream has ended: whatever is said still is waited for, too, since nothing may follow it.
    is_closing: bool,
    /// Offered and not done, by number, which go up by one.
    offered: VecDeque<Offered>,
    pub offered_bytes: usize,
    next_number: u32,
}

/// A message to put into the list.
pub(crate) struct Message<'a> {
    pub kind: Kind,
    /// What the peer gets back, from [`Credits::send`](super::credit::Credits::send).
    pub returned: u16,
    pub payload: &'a [u8],
    pub parts: [Slice; crate::limits::MESSAGE_PARTS_MAX],
}

impl Outward {
    /// Slots of the send queue that are taken.
    pub fn slots_used(&self) -> usize {
        (self.put - self.over) as usize
    }

    /// Whether everything is over and nothing waits.
    pub fn is_quiet(&self) -> bool {
        self.put == self.over && self.offered.is_empty()
    }

    pub fn offered(&self) -> usize {
        self.offered.len()
    }

    pub fn first_deadline(&self) -> Option<Duration> {
        Some(self.offered.front()?.deadline)
    }

    /// Puts a message into the list. `signal_every` and `inline_bytes_max` are the port's.
    pub fn put(&mut self, message: Message<'_>, signal_every: usize, inline_bytes_max: usize) {
        let Message { kind, returned, payload, parts } = message;
        let stream_bytes: usize = parts.iter().map(|part| part.len()).sum();
        let payload_bytes = (payload.len() + stream_bytes) as u32;
        let header = Header { payload_bytes, kind, returned, sequence: self.sequence };
        let head = Head::new(&header.encode(), payload);
        let inline = head.as_bytes().len() + stream_bytes <= inline_bytes_max;
        self.sequence = self.sequence.wrapping_add(1);
        self.unsignalled += 1;
        self.holds_memory |= !inline && stream_bytes > 0;
        self.is_closing |= kind == Kind::Close;
        let signalled = self.unsignalled >= signal_every || self.is_closing;
        if signalled {
            self.signalled();
        }
        let id = self.number(0);
        self.list.push(Work::Send { id, head, parts, inline, signalled });
    }

    /// Puts a READ into the list.
    pub fn put_read(&mut self, wish: super::inward::ReadWish, landing: bool) {
        let super::inward::ReadWish { into, at, bytes, address, key } = wish;
        // Its completion stands for all before it.
        self.signalled();
        let id = self.number(if landing { LANDING } else { 0 });
        self.list.push(Work::Read { id, into, at, bytes, address, key });
    }

    fn signalled(&mut self) {
        self.unsignalled = 0;
        self.holds_memory = false;
    }

    fn number(&mut self, kind: u64) -> WorkId {
        let number = self.put;
        self.put += 1;
        WorkId(number | kind)
    }

    /// Makes the list ready for its doorbell: memory that the device holds must come back without a later message.
    pub fn seal(&mut self) {
        if self.holds_memory
            && let Some(Work::Send { signalled, .. }) = self.list.last_mut()
        {
            *signalled = true;
            self.signalled();
        }
    }

    /// A completion says that this work and all before it are over.
    pub fn completed(&mut self, id: WorkId) {
        let number = id.0 & !LANDING;
        debug_assert!(number < self.put, "work that was never put");
        self.over = self.over.max(number + 1).min(self.put);
    }

    /// The number that the next rendezvous has.
    pub fn next_number(&self) -> u32 {
        self.next_number
    }

    pub fn offer(&mut self, offered: Offered) {
        self.offered_bytes += offered.bytes;
        self.next_number = self.next_number.wrapping_add(1);
        self.offered.push_back(offered);
    }

    /// The peer has read everything up to this number. Answers how many that are.
    pub fn done(&mut self, number: u32) -> Result<usize, Fault> {
        let first = self.next_number.wrapping_sub(self.offered.len() as u32);
        let place = number.wrapping_sub(first) as usize;
        if place < self.offered.len() { Ok(place + 1) } else { Err(Fault::RendezvousNumber) }
    }

    /// Takes the oldest offer.
    pub fn take_offer(&mut self) -> Option<Offered> {
        let offered = self.offered.pop_front()?;
        self.offered_bytes -= offered.bytes;
        Some(offered)
    }
}

#[cfg(test)]
mod tests {
    use super::{Message, Outward};
    use crate::device::Work;
    use crate::wire::Kind;

    #[test]
    fn what_is_said_after_a_close_is_waited_for() {
        let mut outward = Outward::default();
        let mut say = |kind| {
            outward.put(Message { kind, returned: 0, payload: &[], parts: Default::default() }, 16, 128);
            matches!(outward.list.last(), Some(Work::Send { signalled: true, .. }))
        };
        assert_eq!(
            [Kind::Data, Kind::Credit, Kind::Close, Kind::Credit, Kind::Pong].map(&mut say),
            [false, false, true, true, true]
        );
    }
}
