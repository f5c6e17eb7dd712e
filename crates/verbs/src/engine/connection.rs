//! One connection: its phase, what it hears, what it owes, how it ends.
//!
//! Enters: messages, completions, deadlines.  Leaves: messages, edges, a fault.
//! Owns:   both halves and the credits.
//! Never:  touches another connection.

use super::credit::Credits;
use super::inward::{Free, Inward, Piece};
use super::outward::{Message, Outward};
use super::{LinkCensus, Shared};
use crate::Readiness;
use crate::device::{Device, QueuePair, WorkId};
use crate::fault::Fault;
use crate::limits::{
    CREDITS_MAX, CROWDED_SET_UP_PART, DESCRIPTOR_BYTES, FIRST_WORD_EVERY, HEADER_BYTES, LAST_CREDITS, PAYLOAD_BYTES_MAX,
};
use crate::wire::{Descriptor, Header, Hello, Kind, decode_close, decode_done, encode_close, encode_done};
use link::PeerAddress;
use slab::BlockMut;
use std::time::Duration;

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// We asked for it, and the peer has not answered.
    Asking,
    /// We accepted it, and the peer has not confirmed.
    Accepting,
    /// It stands.
    Open,
    /// Nothing more is received; what is owed is still said.
    Ending,
    /// The queue pair is gone.
    Over,
}

/// What the peer's [`Hello`] comes to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Bytes behind the header of a message to it.
    pub payload_max: usize,
    /// Bodies from here on are offered.
    pub threshold: usize,
    /// Rendezvous offered to it at once.
    pub rendezvous_max: usize,
}

pub(crate) struct Connection {
    pub slot: u32,
    pub pair: QueuePair,
    pub phase: Phase,
    /// When the phase must be over, if it is not `Open`.
    pub deadline: Duration,
    pub peer: PeerAddress,
    pub token: Option<crate::Token>,
    pub terms: Terms,
    pub credits: Credits,
    pub inward: Inward,
    pub outward: Outward,
    /// Messages that came before we were told that the peer has accepted: their bytes, and where they lie.
    early: Vec<(u32, BlockMut)>,
    /// Nobody holds a link to it.
    pub is_orphan: bool,
    /// The peer may leave unread what it is offered for as long as it lives.
    pub is_patient: bool,
    /// Why it broke, for the owner.
    pub fault: Option<Fault>,
    /// The owner was told, or need not be.
    pub told: bool,
    /// This end's stream is over: nothing more is taken.
    pub sending_ended: bool,
    /// The last `send` took less than it was offered.
    pub blocked: bool,
    /// It was a body that the peer cannot be offered before it has done with others.
    pub awaits_done: bool,
    pub edges: Readiness,
    pub is_dirty: bool,
    /// The number of the next message to come.
    sequence_in: u16,
    heard_at: Duration,
    has_pinged: bool,
    owes_ping: bool,
    /// The peer says nothing before it has heard of us, and has said nothing: when to speak again.
    speaks_again_at: Option<Duration>,
    owes_pong: bool,
    owes_done: Option<u32>,
    /// The number of the first rendezvous of the peer for which no DONE was said or is owed.
    not_done: u32,
    pub owes_close: bool,
    /// What the peer is told before the end.
    last_words: Option<Fault>,
}

impl Connection {
    /// `credits` are what the peer is promised.
    pub fn new<D>(shared: &Shared<D>, slot: u32, pair: QueuePair, peer: PeerAddress, phase: Phase, credits: u16) -> Self {
        Connection {
            slot,
            pair,
            phase,
            deadline: shared.now + shared.settings.set_up_max,
            peer,
            token: None,
            terms: Terms { payload_max: 0, threshold: 0, rendezvous_max: 0 },
            credits: Credits::new(0, credits),
            inward: Inward::default(),
            outward: Outward::default(),
            early: Vec::new(),
            is_orphan: false,
            is_patient: false,
            fault: None,
            told: false,
            sending_ended: false,
            blocked: false,
            awaits_done: false,
            edges: Readiness::default(),
            is_dirty: false,
            sequence_in: 0,
            heard_at: shared.now,
            has_pinged: false,
            owes_ping: false,
            speaks_again_at: None,
            owes_pong: false,
            owes_done: None,
            not_done: 0,
            owes_close: false,
            last_words: None,
        }
    }

    /// Takes over what the peer said of itself.
    pub fn agree<D>(&mut self, shared: &Shared<D>, hello: &Hello) {
        let payload_max = (hello.receive_buffer_bytes as usize - HEADER_BYTES).min(PAYLOAD_BYTES_MAX as usize);
        let threshold = hello.rendezvous_threshold_bytes.max(shared.settings.rendezvous_threshold_bytes);
        let rendezvous_max = if hello.reads_issued_max > 0 { usize::from(hello.rendezvous_max) } else { 0 };
        self.terms = Terms { payload_max, threshold: threshold as usize, rendezvous_max };
        self.credits = Credits::new(hello.credits.min(CREDITS_MAX), self.credits.promised());
        self.token = hello.token;
    }

    /// The connection stands.
    pub fn open<D>(&mut self, shared: &mut Shared<D>) {
        self.phase = Phase::Open;
        self.heard_at = shared.now;
        let edges = Readiness { readable: false, writable: true, closed: false };
        self.raise(shared, edges);
    }

    /// The peer waits for a word of ours. Not every device passes the first one on when it comes (siw, on a busy machine, only
    /// with the next), so it is repeated until something comes back.
    pub fn speak_first(&mut self, now: Duration) {
        self.owes_ping = true;
        self.speaks_again_at = Some(now + FIRST_WORD_EVERY);
    }

    pub fn raise<D>(&mut self, shared: &mut Shared<D>, edges: Readiness) {
        if self.is_orphan || !edges.any() {
            return;
        }
        if !self.edges.any() {
            shared.edged.push(self.slot);
        }
        self.edges.add(edges);
    }

    /// There may be something to post.
    pub fn touch<D>(&mut self, shared: &mut Shared<D>) {
        if !self.is_dirty {
            self.is_dirty = true;
            shared.dirty.push(self.slot);
        }
    }

    /// A message has arrived in a buffer of ours.
    pub fn hear<D: Device>(&mut self, shared: &mut Shared<D>, bytes: u32, buffer: BlockMut) -> Result<(), Fault> {
        if self.phase == Phase::Accepting {
            // Its first message has overtaken the event.
            self.open(shared);
        }
        if self.phase == Phase::Ending && self.fault.is_some() {
            // It is being told why; what it says meanwhile changes nothing.
            shared.free_buffer(buffer);
            return Ok(());
        }
        self.heard_at = shared.now;
        self.has_pinged = false;
        self.speaks_again_at = None;
        shared.counters.messages_received += 1;
        let mut kept = None;
        let heard = self.understand(shared, bytes, buffer, &mut kept);
        if let Some(buffer) = kept {
            shared.free_buffer(buffer);
        }
        heard?;
        self.advance(shared)?;
        self.touch(shared);
        Ok(())
    }

    /// A message has arrived, and what the peer says of itself has not: that comes by the connection manager, which is
    /// looked at before and not after. It waits for that.
    pub fn keep_early<D: Device>(&mut self, shared: &mut Shared<D>, bytes: u32, buffer: BlockMut) -> Result<(), Fault> {
        if self.early.len() >= usize::from(self.credits.promised()) {
            shared.free_buffer(buffer);
            return Err(Fault::BeyondCredit);
        }
        self.early.push((bytes, buffer));
        Ok(())
    }

    /// The connection stands: what has come before that is heard now.
    pub fn hear_early<D: Device>(&mut self, shared: &mut Shared<D>) -> Result<(), Fault> {
        let mut outcome = Ok(());
        for (bytes, buffer) in std::mem::take(&mut self.early) {
            match outcome {
                Ok(()) => outcome = self.hear(shared, bytes, buffer),
                Err(_) => shared.free_buffer(buffer),
            }
        }
        outcome
    }

    /// Leaves the buffer in `kept` unless the stream keeps it.
    fn understand<D: Device>(
        &mut self,
        shared: &mut Shared<D>,
        bytes: u32,
        buffer: BlockMut,
        kept: &mut Option<BlockMut>,
    ) -> Result<(), Fault> {
        let buffer = kept.insert(buffer);
        if !matches!(self.phase, Phase::Open | Phase::Ending) {
            return Err(Fault::BeyondCredit);
        }
        self.credits.receive()?;
        let message = buffer.get(..bytes as usize).ok_or(Fault::Short { bytes })?;
        let header = Header::decode(message).map_err(|code| match code {
            Some(code) => Fault::UnknownKind { code },
            None => Fault::Short { bytes },
        })?;
        let payload = &message[HEADER_BYTES..];
        if payload.len() != header.payload_bytes as usize {
            return Err(Fault::Length { says: header.payload_bytes, arrived: payload.len() as u32 });
        }
        let expected = self.sequence_in;
        if header.sequence != expected {
            return Err(Fault::Sequence { got: header.sequence, expected });
        }
        self.sequence_in = expected.wrapping_add(1);
        let gained = self.credits.learn(header.returned)?;
        let is_empty = payload.is_empty();
        let needs = |holds: bool, of| if holds { Ok(()) } else { Err(Fault::Payload { of }) };
        let mut urgent = false;
        match header.kind {
            Kind::Data => {
                needs(!is_empty, "DATA")?;
                self.must_go_on()?;
                if self.phase == Phase::Open {
                    let end = bytes as usize;
                    let memory = kept.take().unwrap_or_default();
                    self.inward.push(Piece::Here { memory, at: HEADER_BYTES, end, landed: false });
                    self.raise_readable(shared);
                }
            }
            Kind::Rendezvous => {
                needs(payload.len() == DESCRIPTOR_BYTES, "RENDEZVOUS")?;
                let descriptor = Descriptor::decode(payload).ok_or(Fault::Payload { of: "RENDEZVOUS" })?;
                self.must_go_on()?;
                if descriptor.number != self.inward.next_number {
                    return Err(Fault::RendezvousNumber);
                }
                if self.inward.open >= shared.settings.rendezvous_max {
                    return Err(Fault::TooManyRendezvous);
                }
                self.inward.next_number = self.inward.next_number.wrapping_add(1);
                if self.phase == Phase::Open {
                    self.inward.open += 1;
                    self.inward.push(Piece::Far { descriptor, read: 0 });
                    self.raise_readable(shared);
                } else {
                    self.decline();
                }
            }
            Kind::Done => {
                let number = decode_done(payload).ok_or(Fault::Payload { of: "DONE" })?;
                urgent = true;
                self.awaits_done = false;
                for _ in 0..self.outward.done(number)? {
                    if let Some(offered) = self.outward.take_offer() {
                        shared.revoke(offered.grant, offered.bytes);
                    }
                }
                self.raise_writable(shared);
            }
            Kind::Ping => {
                needs(is_empty, "PING")?;
                self.owes_pong = true;
            }
            Kind::Pong => needs(is_empty, "PONG")?,
            Kind::Credit => needs(is_empty, "CREDIT")?,
            Kind::Close if is_empty => {
                self.must_go_on()?;
                self.inward.ended = true;
                self.raise(shared, Readiness { readable: true, writable: false, closed: true });
            }
            Kind::Close => {
                let (code, text) = decode_close(payload).ok_or(Fault::Payload { of: "CLOSE" })?;
                return Err(Fault::Told(code, text));
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

    fn must_go_on(&self) -> Result<(), Fault> {
        if self.inward.ended { Err(Fault::AfterEnd) } else { Ok(()) }
    }

    pub fn raise_readable<D>(&mut self, shared: &mut Shared<D>) {
        if self.inward.is_ready() {
            self.raise(shared, Readiness { readable: true, writable: false, closed: false });
        }
    }

    fn raise_writable<D>(&mut self, shared: &mut Shared<D>) {
        if self.blocked && self.can_send(shared) {
            self.blocked = false;
            self.raise(shared, Readiness { readable: false, writable: true, closed: false });
        }
    }

    /// Work of ours has ended well; a READ brings its memory.
    pub fn completed<D: Device>(&mut self, shared: &mut Shared<D>, id: WorkId, memory: BlockMut) -> Result<(), Fault> {
        self.outward.completed(id);
        if !memory.is_empty() {
            if let Some(number) = self.inward.read_done(memory, &mut shared.counters) {
                self.owes_done = Some(number);
                self.not_done = number.wrapping_add(1);
            }
            self.advance(shared)?;
            self.raise_readable(shared);
        }
        self.raise_writable(shared);
        self.touch(shared);
        Ok(())
    }

    /// Nobody receives any more: what the peer has offered it may forget, and does not wait for us, as we do not for it.
    /// While a READ is under way its memory must stay; that is told then.
    pub fn decline(&mut self) {
        if self.inward.reading.is_none() && self.not_done != self.inward.next_number {
            self.owes_done = Some(self.inward.next_number.wrapping_sub(1));
            self.not_done = self.inward.next_number;
        }
    }

    /// A READ for nobody has ended.
    pub fn read_in_vain<D>(&mut self, shared: &mut Shared<D>) {
        self.inward.reading = None;
        if self.fault.is_none() {
            self.decline();
            self.touch(shared);
        }
    }

    /// What one look at the clock finds. `is_crowded`: others wait for the place of one that does not come to stand.
    pub fn check<D: Device>(&mut self, shared: &mut Shared<D>, is_crowded: bool) -> Result<(), Fault> {
        let now = shared.now;
        let patience = shared.settings.set_up_max;
        let begun = self.deadline.saturating_sub(patience);
        match self.phase {
            Phase::Accepting if is_crowded && now >= begun + patience / CROWDED_SET_UP_PART => {
                return Err(Fault::SetUpOverdue);
            }
            Phase::Asking | Phase::Accepting if now >= self.deadline => return Err(Fault::SetUpOverdue),
            Phase::Ending if now >= self.deadline => return Err(Fault::Silent),
            Phase::Open => {}
            _ => return Ok(()),
        }
        if now >= self.heard_at + shared.settings.silent_max {
            return Err(Fault::Silent);
        }
        if self.outward.first_deadline().is_some_and(|deadline| now >= deadline) {
            return Err(Fault::NotFetched);
        }
        if self.inward.reading.as_ref().is_some_and(|reading| now >= reading.deadline) {
            return Err(Fault::ReadOverdue);
        }
        if self.speaks_again_at.is_some_and(|at| now >= at) {
            self.speak_first(now);
            self.touch(shared);
        }
        if now >= self.heard_at + shared.settings.ping_after && !self.has_pinged {
            self.has_pinged = true;
            self.owes_ping = true;
            self.touch(shared);
        }
        Ok(())
    }

    /// Puts what is owed into the list, as far as credits and slots go.
    pub fn pay<D: Device>(&mut self, shared: &mut Shared<D>) {
        if !matches!(self.phase, Phase::Open | Phase::Ending) {
            return;
        }
        while self.outward.slots_used() < shared.settings.send_slots {
            let left = self.credits.left();
            if let Some(fault) = self.last_words.take_if(|_| left > 0) {
                let code = fault.code().unwrap_or(crate::wire::CloseCode::PROTOCOL);
                let (payload, bytes) = encode_close(code, &fault.to_string());
                self.put(shared, Kind::Close, &payload[..bytes]);
                self.owes_close = false;
            } else if let Some(number) = self.owes_done.take_if(|_| left > LAST_CREDITS) {
                self.put(shared, Kind::Done, &encode_done(number));
            } else if self.owes_ping && left > LAST_CREDITS {
                self.owes_ping = false;
                self.put(shared, Kind::Ping, &[]);
            } else if self.owes_pong && left > 0 {
                self.owes_pong = false;
                self.put(shared, Kind::Pong, &[]);
            } else if self.owes_close && left > 0 {
                self.owes_close = false;
                self.put(shared, Kind::Close, &[]);
            } else if left > 0 && self.credits.is_due() {
                self.put(shared, Kind::Credit, &[]);
            } else {
                return;
            }
        }
    }

    fn put<D: Device>(&mut self, shared: &mut Shared<D>, kind: Kind, payload: &[u8]) {
        self.put_message(shared, kind, payload, Default::default());
    }

    pub fn put_message<D: Device>(
        &mut self,
        shared: &mut Shared<D>,
        kind: Kind,
        payload: &[u8],
        parts: [slab::Slice; crate::limits::MESSAGE_PARTS_MAX],
    ) {
        let message = Message { kind, returned: self.credits.send(), payload, parts };
        shared.counters.messages_sent += 1;
        self.outward.put(message, shared.settings.signal_every, shared.abilities.inline_bytes_max);
    }

    /// Rings the doorbell for what is in the list.
    pub fn post<D: Device>(&mut self, shared: &mut Shared<D>) -> Result<(), Fault> {
        if self.outward.list.is_empty() {
            return Ok(());
        }
        shared.replenish()?;
        self.outward.seal();
        shared.counters.doorbells += 1;
        shared.device.post(self.pair, &mut self.outward.list)?;
        Ok(())
    }

    /// An ended connection that owes nothing more.
    pub fn is_finished(&self) -> bool {
        let owes = self.owes_close || self.owes_done.is_some() || self.last_words.is_some();
        self.phase == Phase::Ending && !owes && self.outward.is_quiet()
    }

    /// Everything goes back that is held for the peer.
    fn let_go<D: Device>(&mut self, shared: &mut Shared<D>) {
        while let Some(offered) = self.outward.take_offer() {
            shared.revoke(offered.grant, offered.bytes);
        }
    }

    /// Forgets what was not received. Buffers come back, and with them the peer's credits.
    pub fn forget_inward<D: Device>(&mut self, shared: &mut Shared<D>) {
        self.inward.clear(&mut shared.frees);
        self.settle_frees(shared);
    }

    /// Gives used up memory back.
    pub fn settle_frees<D: Device>(&mut self, shared: &mut Shared<D>) {
        while let Some(free) = shared.frees.pop() {
            match free {
                Free::Buffer(buffer) => {
                    shared.free_buffer(buffer);
                    self.credits.release(false);
                }
                Free::Landing(block) => shared.free_landing(block),
            }
        }
    }

    /// It broke. The owner will be told, and so is the peer where that helps.
    pub fn fail<D: Device>(&mut self, shared: &mut Shared<D>, fault: Fault) {
        if self.phase == Phase::Over {
            return;
        }
        let stands = self.phase == Phase::Open;
        // A peer that has ended its stream and goes then has done nothing wrong.
        let in_order = fault == Fault::Disconnected && self.inward.is_all_here();
        self.let_go(shared);
        if !in_order {
            self.forget_inward(shared);
            self.inward.ended = true;
            if !matches!(fault, Fault::Disconnected) || !self.is_orphan {
                shared.counters.faults += 1;
            }
            self.fault.get_or_insert(fault.clone());
        }
        self.told |= in_order;
        self.sending_ended = true;
        self.owes_close = false;
        self.owes_done = None;
        self.raise(shared, Readiness { readable: true, writable: true, closed: true });
        if stands && fault.code().is_some() {
            self.last_words = Some(fault);
            self.begin_ending(shared);
        } else {
            self.end(shared);
        }
    }

    /// The owner gives it up, with everything that is under way.
    pub fn abort<D: Device>(&mut self, shared: &mut Shared<D>) {
        self.forget_inward(shared);
        self.inward.ended = true;
        self.sending_ended = true;
        self.told = true;
        self.end(shared);
    }

    /// Whether `receive` would not be idle.
    pub fn is_readable(&self) -> bool {
        (self.fault.is_some() && !self.told) || self.inward.is_over() || self.inward.is_ready()
    }

    /// Whether `send` would take something, or say that it never will.
    pub fn is_writable<D>(&self, shared: &Shared<D>) -> bool {
        self.sending_ended || (self.fault.is_some() && !self.told) || self.can_send(shared)
    }

    /// Nothing more is received; the rest is said.
    pub fn begin_ending<D: Device>(&mut self, shared: &mut Shared<D>) {
        self.phase = Phase::Ending;
        self.deadline = shared.now + shared.settings.ending_max;
        self.touch(shared);
    }

    /// The queue pair goes.
    pub fn end<D: Device>(&mut self, shared: &mut Shared<D>) {
        if self.phase == Phase::Over {
            return;
        }
        self.let_go(shared);
        self.early.drain(..).for_each(|(_, buffer)| shared.free_buffer(buffer));
        self.phase = Phase::Over;
        self.outward.list.clear();
        shared.device.disconnect(self.pair);
        shared.device.destroy(self.pair);
        // Its slot is cleared away by whoever looks at the dirty ones.
        self.touch(shared);
    }

    pub fn census(&self) -> LinkCensus {
        LinkCensus {
            credits_left: self.credits.left(),
            credits_owed: self.credits.owed(),
            unread_messages: self.credits.unread(),
            send_slots_used: self.outward.slots_used(),
            grants: self.outward.offered(),
        }
    }
}
