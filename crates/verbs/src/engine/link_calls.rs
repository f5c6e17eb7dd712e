//! The calls of a link: `send`, `receive`, `lend`, and the choice between a message and a rendezvous.
//!
//! Nothing that is sent is copied.

use super::PortShared;
use super::connection::Connection;
use super::connection_state::ConnectionPhase;
use super::receive_half::ReadRequest;
use super::send_half::RendezvousOffer;
use crate::device::Device;
use crate::fault::ConnectionFault;
use crate::limits::{MESSAGE_PARTS_MAX, RENDEZVOUS_BYTES_MAX, RESERVE_CREDITS, RESERVE_SLOTS};
use crate::wire::{MessageKind, RendezvousDescriptor};
use link::{LinkError, ReceiveOutcome, SendOutcome};
use slab::{BlockMut, Gather};
use std::ops::Range;
use std::time::Duration;

/// Whether a large body was offered to the peer.
enum OfferOutcome {
    Made,
    /// Earlier offers must be done first.
    Later,
    /// It must be sent in messages.
    No,
}

impl Connection {
    /// The fault, the first time.
    fn take_unreported_fault(&mut self) -> Option<LinkError> {
        let fault = self.fault.as_ref().filter(|_| !self.fault_reported)?;
        self.fault_reported = true;
        Some(LinkError::Lost(fault.into()))
    }

    /// Whether a message of the stream could be sent.
    pub fn can_send<D>(&self, shared: &PortShared<D>) -> bool {
        !self.sending_ended && !self.awaits_done && self.can_queue_data(shared)
    }

    /// Whether an offer of `bytes` must wait until earlier offers are done.
    fn is_offer_limit_reached<D>(&self, shared: &PortShared<D>, bytes: usize) -> bool {
        self.send_half.offer_count() > 0
            && (self.send_half.offer_count() >= self.peer_limits.rendezvous_max
                || self.send_half.offered_bytes + bytes > shared.settings.granted_bytes_max)
    }

    pub fn send<D: Device>(&mut self, shared: &mut PortShared<D>, from: &mut Gather) -> Result<SendOutcome, LinkError> {
        if let Some(error) = self.take_unreported_fault() {
            return Err(error);
        }
        if self.sending_ended {
            return Err(LinkError::Closed);
        }
        while let Some((bytes, is_shared)) = from.front() {
            if !self.can_queue_data(shared) {
                self.blocked = true;
                break;
            }
            if is_shared && bytes >= self.peer_limits.threshold {
                match self.offer(shared, from, bytes) {
                    OfferOutcome::Made => continue,
                    OfferOutcome::Later => {
                        self.blocked = true;
                        self.awaits_done = true;
                        break;
                    }
                    OfferOutcome::No => {}
                }
            }
            self.send_data(shared, from);
        }
        self.post_unless_corked(shared)?;
        Ok(if from.is_empty() { SendOutcome::Drained } else { SendOutcome::Blocked })
    }

    /// Whether there are credits and slots for a message of the stream.
    fn can_queue_data<D>(&self, shared: &PortShared<D>) -> bool {
        self.phase == ConnectionPhase::Open
            && self.credits.left() > RESERVE_CREDITS
            && self.send_half.slots_used() + RESERVE_SLOTS < shared.settings.send_slots
    }

    /// Posts at once, unless the owner of the port calls `flush` for all links.
    fn post_unless_corked<D: Device>(&mut self, shared: &mut PortShared<D>) -> Result<(), LinkError> {
        if shared.settings.corked {
            self.mark_dirty(shared);
            return Ok(());
        }
        self.post_or_fail(shared);
        self.take_unreported_fault().map_or(Ok(()), Err)
    }

    pub fn post_or_fail<D: Device>(&mut self, shared: &mut PortShared<D>) {
        if let Err(fault) = self.post(shared) {
            self.fail(shared, fault);
        }
    }

    fn send_data<D: Device>(&mut self, shared: &mut PortShared<D>, from: &mut Gather) {
        let parts_max = MESSAGE_PARTS_MAX.min(shared.capabilities.sge_max.saturating_sub(1)).max(1);
        let mut parts: [slab::Slice; MESSAGE_PARTS_MAX] = Default::default();
        let mut room = self.peer_limits.payload_max;
        for (at, place) in parts[..parts_max].iter_mut().enumerate() {
            let Some((bytes, is_shared)) = from.front() else { break };
            let is_large = is_shared && bytes >= self.peer_limits.threshold;
            if room == 0 || (is_large && at > 0) {
                break;
            }
            let part = from.pop(room).unwrap_or_default();
            room -= part.len();
            if is_large {
                shared.counters.large_sent_bytes += part.len() as u64;
            }
            *place = part;
        }
        self.queue_message(shared, MessageKind::Data, &[], parts);
    }

    /// Offers the body in front to the peer.
    fn offer<D: Device>(&mut self, shared: &mut PortShared<D>, from: &mut Gather, bytes: usize) -> OfferOutcome {
        let most = shared.settings.granted_bytes_max.min(RENDEZVOUS_BYTES_MAX as usize);
        let bytes = bytes.min(most);
        if self.peer_limits.rendezvous_max == 0 || bytes == 0 {
            return OfferOutcome::No;
        }
        if self.is_offer_limit_reached(shared, bytes) {
            return OfferOutcome::Later;
        }
        if shared.granted_bytes + bytes > shared.settings.granted_bytes_total_max {
            return OfferOutcome::No;
        }
        let Some(body) = from.pop(bytes) else { return OfferOutcome::No };
        match shared.grant(body.clone()) {
            Ok(grant) => {
                let number = self.send_half.next_number();
                let fetch_max = if self.has_no_fetch_deadline { Duration::MAX } else { shared.settings.fetch_max };
                let deadline = shared.now.saturating_add(fetch_max);
                let descriptor =
                    RendezvousDescriptor { number, bytes: bytes as u32, address: grant.address, key: grant.key };
                self.send_half.add_offer(RendezvousOffer { grant, bytes, deadline });
                self.queue_message(shared, MessageKind::Rendezvous, &descriptor.encode(), Default::default());
                OfferOutcome::Made
            }
            Err(_no_room) => {
                // The device cannot register more now; messages need no registration of their own.
                from.unpop(body);
                OfferOutcome::No
            }
        }
    }

    pub fn close_sending<D: Device>(&mut self, shared: &mut PortShared<D>) {
        if self.sending_ended {
            return;
        }
        self.sending_ended = true;
        self.owes_close =
            matches!(self.phase, ConnectionPhase::Open | ConnectionPhase::Connecting | ConnectionPhase::Accepting);
        self.mark_dirty(shared);
    }

    pub fn receive<D: Device>(
        &mut self,
        shared: &mut PortShared<D>,
        direct: &mut [u8],
        scratch: &mut [u8],
    ) -> Result<ReceiveOutcome, LinkError> {
        if let Some(error) = self.take_unreported_fault() {
            return Err(error);
        }
        // Lent memory that is full is returned before the end of the stream.
        if self.receive_half.is_lent_full() {
            return Ok(ReceiveOutcome::Bytes { bytes: 0, drained: false });
        }
        if self.receive_half.is_closed() {
            return Ok(ReceiveOutcome::Closed);
        }
        if self.receive_half.is_lent() {
            return Ok(ReceiveOutcome::Idle);
        }
        let room = direct.len() + scratch.len();
        if room == 0 {
            return Ok(ReceiveOutcome::Bytes { bytes: 0, drained: false });
        }
        let mut bytes = self.receive_half.copy(direct, &mut shared.freed, &mut shared.counters);
        if bytes == direct.len() {
            bytes += self.receive_half.copy(scratch, &mut shared.freed, &mut shared.counters);
        }
        self.release_freed(shared);
        if self.credits.is_due() {
            self.mark_dirty(shared);
        }
        if bytes > 0 {
            // The owner may lend memory for a large body that is next once it has seen the bytes before it.
            let drained = bytes < room && !self.receive_half.wants_read() && !self.receive_half.ended;
            return Ok(ReceiveOutcome::Bytes { bytes, drained });
        }
        if self.receive_half.wants_read() {
            self.read_into_landing(shared);
            if let Some(error) = self.take_unreported_fault() {
                return Err(error);
            }
        }
        Ok(ReceiveOutcome::Idle)
    }

    /// Reads the next body into a landing block of the port, piece by piece, because the owner has lent no memory.
    fn read_into_landing<D: Device>(&mut self, shared: &mut PortShared<D>) {
        let has_slot = self.send_half.slots_used() < shared.settings.send_slots;
        let Some(block) = has_slot.then(|| shared.take_landing()).flatten() else {
            if !self.receive_half.wants_landing {
                self.receive_half.wants_landing = true;
                shared.landing_waiters.push_back(self.slot);
            }
            return;
        };
        match self.receive_half.read_into_landing(block) {
            Ok(request) => self.issue_read(shared, request, true),
            Err(block) => shared.free_landing(block),
        }
        if !shared.settings.corked {
            self.post_or_fail(shared);
        }
    }

    pub fn lend<D: Device>(
        &mut self,
        shared: &mut PortShared<D>,
        memory: BlockMut,
        place: Range<usize>,
    ) -> Result<(), BlockMut> {
        if self.phase != ConnectionPhase::Open || self.receive_half.ended && self.receive_half.is_all_local() {
            return Err(memory);
        }
        self.receive_half.lend(memory, place)?;
        if let Err(fault) = self.fill_lent(shared) {
            self.fail(shared, fault);
        }
        self.mark_dirty(shared);
        if !shared.settings.corked {
            self.post_or_fail(shared);
        }
        Ok(())
    }

    /// Continues to fill lent memory.
    pub fn fill_lent<D: Device>(&mut self, shared: &mut PortShared<D>) -> Result<(), ConnectionFault> {
        if self.phase != ConnectionPhase::Open || self.send_half.slots_used() >= shared.settings.send_slots {
            return Ok(());
        }
        let request = self.receive_half.fill_lent(&mut shared.freed, &mut shared.counters);
        self.release_freed(shared);
        if let Some(request) = request {
            self.issue_read(shared, request, false);
        }
        self.raise_readable(shared);
        Ok(())
    }

    fn issue_read<D: Device>(&mut self, shared: &mut PortShared<D>, request: ReadRequest, landing: bool) {
        self.receive_half.on_read_issued(request.bytes, landing, shared.now + shared.settings.read_max);
        shared.counters.reads += 1;
        self.send_half.queue_read(request, landing);
        self.mark_dirty(shared);
    }
}
