//! The two streams of a connection as its owner sees them: what `send` takes and `receive` gives.
//!
//! Enters: bytes to send, memory to fill.  Leaves: messages, bytes.
//! Owns:   the choice between a message and a rendezvous.
//! Never:  copies what it sends, or splits what may be offered whole.

use super::Shared;
use super::connection::{Connection, Phase};
use super::inward::ReadWish;
use super::outward::Offered;
use crate::device::Device;
use crate::fault::Fault;
use crate::limits::{MESSAGE_PARTS_MAX, RENDEZVOUS_BYTES_MAX, RESERVE_CREDITS, RESERVE_SLOTS};
use crate::wire::{Descriptor, Kind};
use link::{LinkError, ReceiveOutcome, SendOutcome};
use slab::{BlockMut, Gather};
use std::ops::Range;
use std::time::Duration;

/// What became of a large body.
enum Offer {
    Made,
    /// Earlier ones must be done first.
    Later,
    /// It is sent like any other bytes.
    No,
}

impl Connection {
    /// The fault, once.
    fn untold(&mut self) -> Option<LinkError> {
        let fault = self.fault.as_ref().filter(|_| !self.told)?;
        self.told = true;
        Some(LinkError::Lost(fault.into()))
    }

    /// Whether a message of the stream could go out.
    pub fn can_send<D>(&self, shared: &Shared<D>) -> bool {
        !self.sending_ended && !self.awaits_done && self.may_go(shared)
    }

    /// Whether so many bytes more must wait for what the peer was offered before.
    fn is_full<D>(&self, shared: &Shared<D>, bytes: usize) -> bool {
        self.outward.offered() > 0
            && (self.outward.offered() >= self.terms.rendezvous_max
                || self.outward.offered_bytes + bytes > shared.settings.granted_bytes_max)
    }

    pub fn send<D: Device>(&mut self, shared: &mut Shared<D>, from: &mut Gather) -> Result<SendOutcome, LinkError> {
        if let Some(error) = self.untold() {
            return Err(error);
        }
        if self.sending_ended {
            return Err(LinkError::Closed);
        }
        while let Some((bytes, is_shared)) = from.front() {
            if !self.may_go(shared) {
                self.blocked = true;
                break;
            }
            if is_shared && bytes >= self.terms.threshold {
                match self.offer(shared, from, bytes) {
                    Offer::Made => continue,
                    Offer::Later => {
                        self.blocked = true;
                        self.awaits_done = true;
                        break;
                    }
                    Offer::No => {}
                }
            }
            self.send_data(shared, from);
        }
        self.ring(shared)?;
        Ok(if from.is_empty() { SendOutcome::Drained } else { SendOutcome::Blocked })
    }

    /// Credits and slots for one more message of the stream.
    fn may_go<D>(&self, shared: &Shared<D>) -> bool {
        self.phase == Phase::Open
            && self.credits.left() > RESERVE_CREDITS
            && self.outward.slots_used() + RESERVE_SLOTS < shared.settings.send_slots
    }

    /// Posts at once, unless the owner of the port does that for all links together.
    fn ring<D: Device>(&mut self, shared: &mut Shared<D>) -> Result<(), LinkError> {
        if shared.settings.corked {
            self.touch(shared);
            return Ok(());
        }
        self.post_or_fail(shared);
        self.untold().map_or(Ok(()), Err)
    }

    pub fn post_or_fail<D: Device>(&mut self, shared: &mut Shared<D>) {
        if let Err(fault) = self.post(shared) {
            self.fail(shared, fault);
        }
    }

    fn send_data<D: Device>(&mut self, shared: &mut Shared<D>, from: &mut Gather) {
        let parts_max = MESSAGE_PARTS_MAX.min(shared.abilities.parts_max.saturating_sub(1)).max(1);
        let mut parts: [slab::Slice; MESSAGE_PARTS_MAX] = Default::default();
        let mut room = self.terms.payload_max;
        for (at, place) in parts[..parts_max].iter_mut().enumerate() {
            let Some((bytes, is_shared)) = from.front() else { break };
            let is_large = is_shared && bytes >= self.terms.threshold;
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
        self.put_message(shared, Kind::Data, &[], parts);
    }

    /// Lets the peer read the body in front.
    fn offer<D: Device>(&mut self, shared: &mut Shared<D>, from: &mut Gather, bytes: usize) -> Offer {
        let most = shared.settings.granted_bytes_max.min(RENDEZVOUS_BYTES_MAX as usize);
        let bytes = bytes.min(most);
        if self.terms.rendezvous_max == 0 || bytes == 0 {
            return Offer::No;
        }
        if self.is_full(shared, bytes) {
            return Offer::Later;
        }
        if shared.granted_bytes + bytes > shared.settings.granted_bytes_total_max {
            return Offer::No;
        }
        let Some(body) = from.pop(bytes) else { return Offer::No };
        match shared.grant(body.clone()) {
            Ok(grant) => {
                let number = self.outward.next_number();
                let fetch_max = if self.is_patient { Duration::MAX } else { shared.settings.fetch_max };
                let deadline = shared.now.saturating_add(fetch_max);
                let descriptor = Descriptor { number, bytes: bytes as u32, address: grant.address, key: grant.key };
                self.outward.offer(Offered { grant, bytes, deadline });
                self.put_message(shared, Kind::Rendezvous, &descriptor.encode(), Default::default());
                Offer::Made
            }
            Err(_no_room) => {
                // The device registers no more just now; messages need no registration of their own.
                from.unpop(body);
                Offer::No
            }
        }
    }

    pub fn close_sending<D: Device>(&mut self, shared: &mut Shared<D>) {
        if self.sending_ended {
            return;
        }
        self.sending_ended = true;
        self.owes_close = matches!(self.phase, Phase::Open | Phase::Asking | Phase::Accepting);
        self.touch(shared);
    }

    pub fn receive<D: Device>(
        &mut self,
        shared: &mut Shared<D>,
        direct: &mut [u8],
        scratch: &mut [u8],
    ) -> Result<ReceiveOutcome, LinkError> {
        if let Some(error) = self.untold() {
            return Err(error);
        }
        // What was lent comes before the end of the stream.
        if self.inward.is_lent_full() {
            return Ok(ReceiveOutcome::Bytes { bytes: 0, drained: false });
        }
        if self.inward.is_over() {
            return Ok(ReceiveOutcome::Closed);
        }
        if self.inward.is_lent() {
            return Ok(ReceiveOutcome::Idle);
        }
        let room = direct.len() + scratch.len();
        if room == 0 {
            return Ok(ReceiveOutcome::Bytes { bytes: 0, drained: false });
        }
        let mut bytes = self.inward.copy(direct, &mut shared.frees, &mut shared.counters);
        if bytes == direct.len() {
            bytes += self.inward.copy(scratch, &mut shared.frees, &mut shared.counters);
        }
        self.settle_frees(shared);
        if self.credits.is_due() {
            self.touch(shared);
        }
        if bytes > 0 {
            // A large body that is next may find lent memory when the owner has seen what came before it.
            let drained = bytes < room && !self.inward.wants_read() && !self.inward.ended;
            return Ok(ReceiveOutcome::Bytes { bytes, drained });
        }
        if self.inward.wants_read() {
            self.land(shared);
            if let Some(error) = self.untold() {
                return Err(error);
            }
        }
        Ok(ReceiveOutcome::Idle)
    }

    /// Nobody lent memory for the body that is next: it lands in a block of the port's, in pieces.
    fn land<D: Device>(&mut self, shared: &mut Shared<D>) {
        let has_slot = self.outward.slots_used() < shared.settings.send_slots;
        let Some(block) = has_slot.then(|| shared.take_landing()).flatten() else {
            if !self.inward.wants_landing {
                self.inward.wants_landing = true;
                shared.landing_queue.push_back(self.slot);
            }
            return;
        };
        match self.inward.land(block) {
            Ok(wish) => self.issue(shared, wish, true),
            Err(block) => shared.free_landing(block),
        }
        if !shared.settings.corked {
            self.post_or_fail(shared);
        }
    }

    pub fn lend<D: Device>(
        &mut self,
        shared: &mut Shared<D>,
        memory: BlockMut,
        place: Range<usize>,
    ) -> Result<(), BlockMut> {
        if self.phase != Phase::Open || self.inward.ended && self.inward.is_all_here() {
            return Err(memory);
        }
        self.inward.lend(memory, place)?;
        if let Err(fault) = self.advance(shared) {
            self.fail(shared, fault);
        }
        self.touch(shared);
        if !shared.settings.corked {
            self.post_or_fail(shared);
        }
        Ok(())
    }

    /// Goes on filling lent memory.
    pub fn advance<D: Device>(&mut self, shared: &mut Shared<D>) -> Result<(), Fault> {
        if self.phase != Phase::Open || self.outward.slots_used() >= shared.settings.send_slots {
            return Ok(());
        }
        let wish = self.inward.fill_lent(&mut shared.frees, &mut shared.counters);
        self.settle_frees(shared);
        if let Some(wish) = wish {
            self.issue(shared, wish, false);
        }
        self.raise_readable(shared);
        Ok(())
    }

    fn issue<D: Device>(&mut self, shared: &mut Shared<D>, wish: ReadWish, landing: bool) {
        self.inward.reading(wish.bytes, landing, shared.now + shared.settings.read_max);
        shared.counters.reads += 1;
        self.outward.put_read(wish, landing);
        self.touch(shared);
    }
}
