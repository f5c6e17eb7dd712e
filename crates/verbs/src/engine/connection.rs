//! One connection: its phase, received messages, pending control messages, and how it ends.

use super::PortShared;
use super::connection_state::{ConnectionPhase, PeerLimits};
use super::credit::CreditWindow;
use super::receive_half::{FreedMemory, ReceiveHalf, StreamSegment};
use super::send_half::{OutgoingMessage, SendHalf};
use crate::ReadinessEdges;
use crate::device::{Device, QueuePairId, WorkRequestId};
use crate::fault::ConnectionFault;
use crate::limits::{
    CONTROL_CREDITS, CREDITS_MAX, CROWDED_SET_UP_DIVISOR, DESCRIPTOR_BYTES, FIRST_PING_INTERVAL, MESSAGE_HEADER_BYTES,
    PAYLOAD_BYTES_MAX,
};
use crate::wire::{
    Hello, MessageHeader, MessageKind, RendezvousDescriptor, decode_close, decode_done, encode_close, encode_done,
};
use link::{PeerAddress, RdmaUsage};
use slab::BlockMut;
use std::time::Duration;

pub(crate) struct Connection {
    pub slot: u32,
    pub pair: QueuePairId,
    pub phase: ConnectionPhase,
    /// When the phase must have ended, if it is not `Open`.
    pub deadline: Duration,
    pub peer: PeerAddress,
    pub token: Option<crate::RdmaToken>,
    pub peer_limits: PeerLimits,
    pub credits: CreditWindow,
    pub receive_half: ReceiveHalf,
    pub send_half: SendHalf,
    /// Messages that arrived before the event that the peer has accepted: length and buffer.
    early_messages: Vec<(u32, BlockMut)>,
    /// There is no link to it: not yet accepted by the owner, or dropped.
    pub is_unowned: bool,
    /// The peer may leave offers unread without limit.
    pub has_no_fetch_deadline: bool,
    /// Why it failed, for the owner.
    pub fault: Option<ConnectionFault>,
    /// The owner has got the fault, or need not get it.
    pub fault_reported: bool,
    /// This end has ended its stream.
    pub sending_ended: bool,
    /// The last `send` returned `Blocked`.
    pub blocked: bool,
    /// It did so because of a body that can be offered only after earlier offers are done.
    pub awaits_done: bool,
    pub edges: ReadinessEdges,
    pub is_dirty: bool,
    /// The sequence number of the next message of the peer.
    sequence_in: u16,
    last_received_at: Duration,
    has_pinged: bool,
    owes_ping: bool,
    /// The peer has to wait for a message of ours, and nothing has arrived: when to send the next PING.
    next_ping_at: Option<Duration>,
    owes_pong: bool,
    owes_done: Option<u32>,
    /// The number of the peer's first rendezvous without a DONE sent or owed.
    first_not_done: u32,
    pub owes_close: bool,
    /// The reason to send in the last CLOSE.
    close_reason: Option<ConnectionFault>,
}

impl Connection {
    /// `credits` are the peer's initial credits.
    pub fn new<D>(
        shared: &PortShared<D>,
        slot: u32,
        pair: QueuePairId,
        peer: PeerAddress,
        phase: ConnectionPhase,
        credits: u16,
    ) -> Self {
        Connection {
            slot,
            pair,
            phase,
            deadline: shared.now + shared.settings.set_up_max,
            peer,
            token: None,
            peer_limits: PeerLimits { payload_max: 0, threshold: 0, rendezvous_max: 0 },
            credits: CreditWindow::new(0, credits),
            receive_half: ReceiveHalf::default(),
            send_half: SendHalf::default(),
            early_messages: Vec::new(),
            is_unowned: false,
            has_no_fetch_deadline: false,
            fault: None,
            fault_reported: false,
            sending_ended: false,
            blocked: false,
            awaits_done: false,
            edges: ReadinessEdges::default(),
            is_dirty: false,
            sequence_in: 0,
            last_received_at: shared.now,
            has_pinged: false,
            owes_ping: false,
            next_ping_at: None,
            owes_pong: false,
            owes_done: None,
            first_not_done: 0,
            owes_close: false,
            close_reason: None,
        }
    }

    /// Applies the limits that the peer has announced.
    pub fn apply_hello<D>(&mut self, shared: &PortShared<D>, hello: &Hello) {
        let payload_max = (hello.receive_buffer_bytes as usize - MESSAGE_HEADER_BYTES).min(PAYLOAD_BYTES_MAX as usize);
        let threshold = hello.rendezvous_threshold_bytes.max(shared.settings.rendezvous_threshold_bytes);
        let rendezvous_max = if hello.reads_issued_max > 0 { usize::from(hello.rendezvous_max) } else { 0 };
        self.peer_limits = PeerLimits { payload_max, threshold: threshold as usize, rendezvous_max };
        self.credits = CreditWindow::new(hello.credits.min(CREDITS_MAX), self.credits.promised());
        self.token = hello.token;
    }

    /// The connection is established.
    pub fn open<D>(&mut self, shared: &mut PortShared<D>) {
        self.phase = ConnectionPhase::Open;
        self.last_received_at = shared.now;
        let edges = ReadinessEdges { readable: false, writable: true, closed: false };
        self.raise_edges(shared, edges);
    }

    /// Sends a PING, because the peer has to wait for a message of ours. It is repeated until something arrives: not
    /// every device delivers the first message at once (siw on a busy machine delivers it with the next).
    pub fn send_first_ping(&mut self, now: Duration) {
        self.owes_ping = true;
        self.next_ping_at = Some(now + FIRST_PING_INTERVAL);
    }

    pub fn raise_edges<D>(&mut self, shared: &mut PortShared<D>, edges: ReadinessEdges) {
        if self.is_unowned || !edges.any() {
            return;
        }
        if !self.edges.any() {
            shared.edged.push(self.slot);
        }
        self.edges.merge(edges);
    }

    /// Notes that there may be something to post.
    pub fn mark_dirty<D>(&mut self, shared: &mut PortShared<D>) {
        if !self.is_dirty {
            self.is_dirty = true;
            shared.dirty.push(self.slot);
        }
    }

    /// A message has arrived.
    pub fn on_message<D: Device>(
        &mut self,
        shared: &mut PortShared<D>,
        bytes: u32,
        buffer: BlockMut,
    ) -> Result<(), ConnectionFault> {
        if self.phase == ConnectionPhase::Accepting {
            // The peer's first message has overtaken the event.
            self.open(shared);
        }
        if self.phase == ConnectionPhase::Closing && self.fault.is_some() {
            // The peer is being sent the close reason; its messages have no effect any more.
            shared.free_buffer(buffer);
            return Ok(());
        }
        self.last_received_at = shared.now;
        self.has_pinged = false;
        self.next_ping_at = None;
        shared.counters.messages_received += 1;
        let mut kept = None;
        let heard = self.handle_message(shared, bytes, buffer, &mut kept);
        if let Some(buffer) = kept {
            shared.free_buffer(buffer);
        }
        heard?;
        self.fill_lent(shared)?;
        self.mark_dirty(shared);
        Ok(())
    }

    /// Keeps a message that has arrived before the event with the peer's private data: events are polled before
    /// completions.
    pub fn defer_message<D: Device>(
        &mut self,
        shared: &mut PortShared<D>,
        bytes: u32,
        buffer: BlockMut,
    ) -> Result<(), ConnectionFault> {
        if self.early_messages.len() >= usize::from(self.credits.promised()) {
            shared.free_buffer(buffer);
            return Err(ConnectionFault::CreditExceeded);
        }
        self.early_messages.push((bytes, buffer));
        Ok(())
    }

    /// Handles the messages that arrived before the connection was established.
    pub fn replay_deferred<D: Device>(&mut self, shared: &mut PortShared<D>) -> Result<(), ConnectionFault> {
        let mut outcome = Ok(());
        for (bytes, buffer) in std::mem::take(&mut self.early_messages) {
            match outcome {
                Ok(()) => outcome = self.on_message(shared, bytes, buffer),
                Err(_) => shared.free_buffer(buffer),
            }
        }
        outcome
    }

    /// Leaves the buffer in `kept` unless the stream needs it.
    fn handle_message<D: Device>(
        &mut self,
        shared: &mut PortShared<D>,
        bytes: u32,
        buffer: BlockMut,
        kept: &mut Option<BlockMut>,
    ) -> Result<(), ConnectionFault> {
        let buffer = kept.insert(buffer);
        if !matches!(self.phase, ConnectionPhase::Open | ConnectionPhase::Closing) {
            return Err(ConnectionFault::CreditExceeded);
        }
        self.credits.on_receive()?;
        let message = buffer.get(..bytes as usize).ok_or(ConnectionFault::ShortMessage { bytes })?;
        let header = MessageHeader::decode(message).map_err(|code| match code {
            Some(code) => ConnectionFault::UnknownKind { code },
            None => ConnectionFault::ShortMessage { bytes },
        })?;
        let payload = &message[MESSAGE_HEADER_BYTES..];
        if payload.len() != header.payload_bytes as usize {
            return Err(ConnectionFault::LengthMismatch {
                announced: header.payload_bytes,
                arrived: payload.len() as u32,
            });
        }
        let expected = self.sequence_in;
        if header.sequence != expected {
            return Err(ConnectionFault::OutOfSequence { got: header.sequence, expected });
        }
        self.sequence_in = expected.wrapping_add(1);
        let gained = self.credits.on_returned(header.returned)?;
        let is_empty = payload.is_empty();
        let needs = |holds: bool, of| if holds { Ok(()) } else { Err(ConnectionFault::InvalidPayload { of }) };
        let mut urgent = false;
        match header.kind {
            MessageKind::Data => {
                needs(!is_empty, "DATA")?;
                self.check_not_ended()?;
                if self.phase == ConnectionPhase::Open {
                    let end = bytes as usize;
                    let memory = kept.take().unwrap_or_default();
                    self.receive_half.push(StreamSegment::Local {
                        memory,
                        at: MESSAGE_HEADER_BYTES,
                        end,
                        landed: false,
                    });
                    self.raise_readable(shared);
                }
            }
            MessageKind::Rendezvous => {
                needs(payload.len() == DESCRIPTOR_BYTES, "RENDEZVOUS")?;
                let descriptor = RendezvousDescriptor::decode(payload)
                    .ok_or(ConnectionFault::InvalidPayload { of: "RENDEZVOUS" })?;
                self.check_not_ended()?;
                if descriptor.number != self.receive_half.next_number {
                    return Err(ConnectionFault::RendezvousNumber);
                }
                if self.receive_half.open_rendezvous >= shared.settings.rendezvous_max {
                    return Err(ConnectionFault::TooManyRendezvous);
                }
                self.receive_half.next_number = self.receive_half.next_number.wrapping_add(1);
                if self.phase == ConnectionPhase::Open {
                    self.receive_half.open_rendezvous += 1;
                    self.receive_half.push(StreamSegment::Remote { descriptor, read: 0 });
                    self.raise_readable(shared);
                } else {
                    self.decline_offers();
                }
            }
            MessageKind::Done => {
                let number = decode_done(payload).ok_or(ConnectionFault::InvalidPayload { of: "DONE" })?;
                urgent = true;
                self.awaits_done = false;
                for _ in 0..self.send_half.count_done(number)? {
                    if let Some(offered) = self.send_half.take_offer() {
                        shared.revoke(offered.grant, offered.bytes);
                    }
                }
                self.raise_writable(shared);
            }
            MessageKind::Ping => {
                needs(is_empty, "PING")?;
                self.owes_pong = true;
            }
            MessageKind::Pong => needs(is_empty, "PONG")?,
            MessageKind::Credit => needs(is_empty, "CREDIT")?,
            MessageKind::Close if is_empty => {
                self.check_not_ended()?;
                self.receive_half.ended = true;
                self.raise_edges(shared, ReadinessEdges { readable: true, writable: false, closed: true });
            }
            MessageKind::Close => {
                let (code, text) = decode_close(payload).ok_or(ConnectionFault::InvalidPayload { of: "CLOSE" })?;
                return Err(ConnectionFault::ClosedByPeer(code, text));
            }
        }
        if kept.is_some() {
            self.credits.release(urgent);
        }
        if gained {
            self.raise_writable(shared);
        }
        Ok(())
    }

    fn check_not_ended(&self) -> Result<(), ConnectionFault> {
        if self.receive_half.ended { Err(ConnectionFault::DataAfterClose) } else { Ok(()) }
    }

    pub fn raise_readable<D>(&mut self, shared: &mut PortShared<D>) {
        if self.receive_half.is_ready() {
            self.raise_edges(shared, ReadinessEdges { readable: true, writable: false, closed: false });
        }
    }

    fn raise_writable<D>(&mut self, shared: &mut PortShared<D>) {
        if self.blocked && self.can_send(shared) {
            self.blocked = false;
            self.raise_edges(shared, ReadinessEdges { readable: false, writable: true, closed: false });
        }
    }

    /// A work request has succeeded; a READ returns its memory.
    pub fn on_completion<D: Device>(
        &mut self,
        shared: &mut PortShared<D>,
        id: WorkRequestId,
        memory: BlockMut,
    ) -> Result<(), ConnectionFault> {
        self.send_half.on_completion(id);
        if !memory.is_empty() {
            if let Some(number) = self.receive_half.on_read_completed(memory, &mut shared.counters) {
                self.owes_done = Some(number);
                self.first_not_done = number.wrapping_add(1);
            }
            self.fill_lent(shared)?;
            self.raise_readable(shared);
        }
        self.raise_writable(shared);
        self.mark_dirty(shared);
        Ok(())
    }

    /// Nothing is received any more: a DONE lets the peer drop its offers. While a READ is in flight the peer's memory
    /// must stay; the DONE follows its completion.
    pub fn decline_offers(&mut self) {
        if self.receive_half.read_in_flight.is_none() && self.first_not_done != self.receive_half.next_number {
            self.owes_done = Some(self.receive_half.next_number.wrapping_sub(1));
            self.first_not_done = self.receive_half.next_number;
        }
    }

    /// A READ whose bytes are not wanted any more has completed.
    pub fn on_unwanted_read<D>(&mut self, shared: &mut PortShared<D>) {
        self.receive_half.read_in_flight = None;
        if self.fault.is_none() {
            self.decline_offers();
            self.mark_dirty(shared);
        }
    }

    /// Checks all deadlines. `is_crowded`: requests of other peers are being refused, so the set-up has less time.
    pub fn check_deadlines<D: Device>(
        &mut self,
        shared: &mut PortShared<D>,
        is_crowded: bool,
    ) -> Result<(), ConnectionFault> {
        let now = shared.now;
        let patience = shared.settings.set_up_max;
        let begun = self.deadline.saturating_sub(patience);
        match self.phase {
            ConnectionPhase::Accepting if is_crowded && now >= begun + patience / CROWDED_SET_UP_DIVISOR => {
                return Err(ConnectionFault::SetUpOverdue);
            }
            ConnectionPhase::Connecting | ConnectionPhase::Accepting if now >= self.deadline => {
                return Err(ConnectionFault::SetUpOverdue);
            }
            ConnectionPhase::Closing if now >= self.deadline => return Err(ConnectionFault::PeerSilent),
            ConnectionPhase::Open => {}
            _ => return Ok(()),
        }
        if now >= self.last_received_at + shared.settings.silent_max {
            return Err(ConnectionFault::PeerSilent);
        }
        if self.send_half.first_deadline().is_some_and(|deadline| now >= deadline) {
            return Err(ConnectionFault::NotFetched);
        }
        if self.receive_half.read_in_flight.as_ref().is_some_and(|reading| now >= reading.deadline) {
            return Err(ConnectionFault::ReadOverdue);
        }
        if self.next_ping_at.is_some_and(|at| now >= at) {
            self.send_first_ping(now);
            self.mark_dirty(shared);
        }
        if now >= self.last_received_at + shared.settings.ping_after && !self.has_pinged {
            self.has_pinged = true;
            self.owes_ping = true;
            self.mark_dirty(shared);
        }
        Ok(())
    }

    /// Queues pending control messages, as far as credits and slots allow.
    pub fn queue_control_messages<D: Device>(&mut self, shared: &mut PortShared<D>) {
        if !matches!(self.phase, ConnectionPhase::Open | ConnectionPhase::Closing) {
            return;
        }
        while self.send_half.slots_used() < shared.settings.send_slots {
            let left = self.credits.left();
            if let Some(fault) = self.close_reason.take_if(|_| left > 0) {
                let code = fault.close_code().unwrap_or(crate::wire::CloseCode::PROTOCOL);
                let (payload, bytes) = encode_close(code, &fault.to_string());
                self.queue_control(shared, MessageKind::Close, &payload[..bytes]);
                self.owes_close = false;
            } else if let Some(number) = self.owes_done.take_if(|_| left > CONTROL_CREDITS) {
                self.queue_control(shared, MessageKind::Done, &encode_done(number));
            } else if self.owes_ping && left > CONTROL_CREDITS {
                self.owes_ping = false;
                self.queue_control(shared, MessageKind::Ping, &[]);
            } else if self.owes_pong && left > 0 {
                self.owes_pong = false;
                self.queue_control(shared, MessageKind::Pong, &[]);
            } else if self.owes_close && left > 0 {
                self.owes_close = false;
                self.queue_control(shared, MessageKind::Close, &[]);
            } else if left > 0 && self.credits.is_due() {
                self.queue_control(shared, MessageKind::Credit, &[]);
            } else {
                return;
            }
        }
    }

    fn queue_control<D: Device>(&mut self, shared: &mut PortShared<D>, kind: MessageKind, payload: &[u8]) {
        self.queue_message(shared, kind, payload, Default::default());
    }

    pub fn queue_message<D: Device>(
        &mut self,
        shared: &mut PortShared<D>,
        kind: MessageKind,
        payload: &[u8],
        parts: [slab::Slice; crate::limits::MESSAGE_PARTS_MAX],
    ) {
        let message = OutgoingMessage { kind, returned: self.credits.use_for_send(), payload, parts };
        shared.counters.messages_sent += 1;
        self.send_half.queue_message(message, shared.settings.signal_every, shared.capabilities.inline_bytes_max);
    }

    /// Posts the queued work: one doorbell.
    pub fn post<D: Device>(&mut self, shared: &mut PortShared<D>) -> Result<(), ConnectionFault> {
        if self.send_half.work_list.is_empty() {
            return Ok(());
        }
        shared.replenish()?;
        self.send_half.signal_last();
        shared.counters.doorbells += 1;
        shared.device.post(self.pair, &mut self.send_half.work_list)?;
        Ok(())
    }

    /// Whether a closing connection has nothing more to send or to wait for.
    pub fn is_finished(&self) -> bool {
        let owes = self.owes_close || self.owes_done.is_some() || self.close_reason.is_some();
        self.phase == ConnectionPhase::Closing && !owes && self.send_half.is_quiet()
    }

    /// Revokes everything that the peer may read.
    fn revoke_offers<D: Device>(&mut self, shared: &mut PortShared<D>) {
        while let Some(offered) = self.send_half.take_offer() {
            shared.revoke(offered.grant, offered.bytes);
        }
    }

    /// Discards unread messages, which frees their buffers and returns the peer's credits.
    pub fn discard_received<D: Device>(&mut self, shared: &mut PortShared<D>) {
        self.receive_half.clear(&mut shared.freed);
        self.release_freed(shared);
    }

    /// Returns freed memory to the port.
    pub fn release_freed<D: Device>(&mut self, shared: &mut PortShared<D>) {
        while let Some(free) = shared.freed.pop() {
            match free {
                FreedMemory::Buffer(buffer) => {
                    shared.free_buffer(buffer);
                    self.credits.release(false);
                }
                FreedMemory::Landing(block) => shared.free_landing(block),
            }
        }
    }

    /// Fails the connection. The owner gets the fault, and the peer a close reason if it is at fault.
    pub fn fail<D: Device>(&mut self, shared: &mut PortShared<D>, fault: ConnectionFault) {
        if self.phase == ConnectionPhase::Closed {
            return;
        }
        let stands = self.phase == ConnectionPhase::Open;
        // A peer may disconnect after it has ended its stream.
        let in_order = fault == ConnectionFault::Disconnected && self.receive_half.is_all_local();
        self.revoke_offers(shared);
        if !in_order {
            self.discard_received(shared);
            self.receive_half.ended = true;
            if !matches!(fault, ConnectionFault::Disconnected) || !self.is_unowned {
                shared.counters.faults += 1;
            }
            self.fault.get_or_insert(fault.clone());
        }
        self.fault_reported |= in_order;
        self.sending_ended = true;
        self.owes_close = false;
        self.owes_done = None;
        self.raise_edges(shared, ReadinessEdges { readable: true, writable: true, closed: true });
        if stands && fault.close_code().is_some() {
            self.close_reason = Some(fault);
            self.begin_close(shared);
        } else {
            self.close(shared);
        }
    }

    /// The owner aborts it; everything in flight is discarded.
    pub fn abort<D: Device>(&mut self, shared: &mut PortShared<D>) {
        self.discard_received(shared);
        self.receive_half.ended = true;
        self.sending_ended = true;
        self.fault_reported = true;
        self.close(shared);
    }

    /// Whether `receive` would not be idle.
    pub fn is_readable(&self) -> bool {
        (self.fault.is_some() && !self.fault_reported) || self.receive_half.is_closed() || self.receive_half.is_ready()
    }

    /// Whether `send` would take something, or fail.
    pub fn is_writable<D>(&self, shared: &PortShared<D>) -> bool {
        self.sending_ended || (self.fault.is_some() && !self.fault_reported) || self.can_send(shared)
    }

    /// Stops receiving; pending control messages are still sent.
    pub fn begin_close<D: Device>(&mut self, shared: &mut PortShared<D>) {
        self.phase = ConnectionPhase::Closing;
        self.deadline = shared.now + shared.settings.ending_max;
        self.mark_dirty(shared);
    }

    /// Disconnects and destroys the queue pair.
    pub fn close<D: Device>(&mut self, shared: &mut PortShared<D>) {
        if self.phase == ConnectionPhase::Closed {
            return;
        }
        self.revoke_offers(shared);
        self.early_messages.drain(..).for_each(|(_, buffer)| shared.free_buffer(buffer));
        self.phase = ConnectionPhase::Closed;
        self.send_half.work_list.clear();
        shared.device.disconnect(self.pair);
        shared.device.destroy(self.pair);
        // `flush` frees its slot.
        self.mark_dirty(shared);
    }

    pub fn usage(&self) -> RdmaUsage {
        RdmaUsage {
            credits_left: self.credits.left(),
            credits_granted: self.credits.window(),
            credits_owed: self.credits.owed(),
            unread_messages: self.credits.unread(),
            send_slots_used: self.send_half.slots_used(),
            grants: self.send_half.offer_count(),
            granted_bytes: self.send_half.offered_bytes,
            open_rendezvous: self.receive_half.open_rendezvous,
            offered_bytes: self.send_half.offered_bytes_total,
            read_bytes: self.receive_half.read_bytes_total,
        }
    }
}
