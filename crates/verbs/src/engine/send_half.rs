//! The send half of a connection: work for the next doorbell, slots of the send queue, memory offered to the peer.
//!
//! Only a completion frees a slot, never a message of the peer.

use crate::device::{ReadGrant, SendHead, WorkRequest, WorkRequestId};
use crate::engine::port_shared::LANDING;
use crate::fault::ConnectionFault;
use crate::wire::{MessageHeader, MessageKind};
use slab::Slice;
use std::collections::VecDeque;
use std::time::Duration;

/// Memory that is offered to the peer.
#[derive(Debug)]
pub(crate) struct RendezvousOffer {
    pub grant: ReadGrant,
    pub bytes: usize,
    pub deadline: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct SendHalf {
    /// Work for the next doorbell.
    pub work_list: Vec<WorkRequest>,
    /// The sequence number of the next message.
    sequence: u16,
    /// Work requests queued so far, and those of them that have completed.
    posted: u64,
    completed: u64,
    /// Messages since the last signalled one, and whether the device holds memory for one of them.
    unsignalled: usize,
    holds_memory: bool,
    /// CLOSE was queued: each message is signalled from now on, because no later one may follow.
    is_closing: bool,
    /// Offers without a DONE. Their numbers are consecutive.
    offers: VecDeque<RendezvousOffer>,
    pub offered_bytes: usize,
    /// Of all offers.
    pub offered_bytes_total: u64,
    next_number: u32,
}

pub(crate) struct OutgoingMessage<'a> {
    pub kind: MessageKind,
    /// Returned credits, from [`CreditWindow::use_for_send`](super::credit::CreditWindow::use_for_send).
    pub returned: u16,
    pub payload: &'a [u8],
    pub parts: [Slice; crate::limits::MESSAGE_PARTS_MAX],
}

impl SendHalf {
    /// Slots of the send queue in use.
    pub fn slots_used(&self) -> usize {
        (self.posted - self.completed) as usize
    }

    /// Whether all work has completed and all offers are done.
    pub fn is_quiet(&self) -> bool {
        self.posted == self.completed && self.offers.is_empty()
    }

    pub fn offer_count(&self) -> usize {
        self.offers.len()
    }

    pub fn first_deadline(&self) -> Option<Duration> {
        Some(self.offers.front()?.deadline)
    }

    /// Queues a message. `signal_every` and `inline_bytes_max` are the port's.
    pub fn queue_message(&mut self, message: OutgoingMessage<'_>, signal_every: usize, inline_bytes_max: usize) {
        let OutgoingMessage { kind, returned, payload, parts } = message;
        let stream_bytes: usize = parts.iter().map(|part| part.len()).sum();
        let payload_bytes = (payload.len() + stream_bytes) as u32;
        let header = MessageHeader { payload_bytes, kind, returned, sequence: self.sequence };
        let head = SendHead::new(&header.encode(), payload);
        let inline = head.as_bytes().len() + stream_bytes <= inline_bytes_max;
        self.sequence = self.sequence.wrapping_add(1);
        self.unsignalled += 1;
        self.holds_memory |= !inline && stream_bytes > 0;
        self.is_closing |= kind == MessageKind::Close;
        let signalled = self.unsignalled >= signal_every || self.is_closing;
        if signalled {
            self.reset_unsignalled();
        }
        let id = self.next_id(0);
        self.work_list.push(WorkRequest::Send { id, head, parts, inline, signalled });
    }

    pub fn queue_read(&mut self, request: super::receive_half::ReadRequest, landing: bool) {
        let super::receive_half::ReadRequest { into, at, bytes, address, key } = request;
        // Its completion completes all work before it.
        self.reset_unsignalled();
        let id = self.next_id(if landing { LANDING } else { 0 });
        self.work_list.push(WorkRequest::Read { id, into, at, bytes, address, key });
    }

    fn reset_unsignalled(&mut self) {
        self.unsignalled = 0;
        self.holds_memory = false;
    }

    fn next_id(&mut self, kind: u64) -> WorkRequestId {
        let number = self.posted;
        self.posted += 1;
        WorkRequestId(number | kind)
    }

    /// Signals the last message if the device holds memory: it must be returned without a later message.
    pub fn signal_last(&mut self) {
        if self.holds_memory
            && let Some(WorkRequest::Send { signalled, .. }) = self.work_list.last_mut()
        {
            *signalled = true;
            self.reset_unsignalled();
        }
    }

    /// This work request and all before it have completed.
    pub fn on_completion(&mut self, id: WorkRequestId) {
        let number = id.0 & !LANDING;
        debug_assert!(number < self.posted, "work that was never put");
        self.completed = self.completed.max(number + 1).min(self.posted);
    }

    pub fn next_number(&self) -> u32 {
        self.next_number
    }

    pub fn add_offer(&mut self, offered: RendezvousOffer) {
        self.offered_bytes += offered.bytes;
        self.offered_bytes_total += offered.bytes as u64;
        self.next_number = self.next_number.wrapping_add(1);
        self.offers.push_back(offered);
    }

    /// The peer has read every rendezvous up to this number. Returns how many that are.
    pub fn count_done(&mut self, number: u32) -> Result<usize, ConnectionFault> {
        let first = self.next_number.wrapping_sub(self.offers.len() as u32);
        let place = number.wrapping_sub(first) as usize;
        if place < self.offers.len() { Ok(place + 1) } else { Err(ConnectionFault::RendezvousNumber) }
    }

    /// Takes the oldest offer.
    pub fn take_offer(&mut self) -> Option<RendezvousOffer> {
        let offered = self.offers.pop_front()?;
        self.offered_bytes -= offered.bytes;
        Some(offered)
    }
}

#[cfg(test)]
mod tests {
    use super::{OutgoingMessage, SendHalf};
    use crate::device::WorkRequest;
    use crate::wire::MessageKind;

    #[test]
    fn what_is_said_after_a_close_is_waited_for() {
        let mut outgoing = SendHalf::default();
        let mut say = |kind| {
            outgoing.queue_message(
                OutgoingMessage { kind, returned: 0, payload: &[], parts: Default::default() },
                16,
                128,
            );
            matches!(outgoing.work_list.last(), Some(WorkRequest::Send { signalled: true, .. }))
        };
        assert_eq!(
            [MessageKind::Data, MessageKind::Credit, MessageKind::Close, MessageKind::Credit, MessageKind::Pong]
                .map(&mut say),
            [false, false, true, true, true]
        );
    }
}
