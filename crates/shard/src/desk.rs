//! The desk: where the broker's effects are carried out.
//!
//! Enters: effects.  Leaves: bytes in the outputs of connections, letters in the mail, notes of what is left to do.
//! Owns:   the output of every connection of the shard, its message memory, its chance.
//! Never:  sends: the reactor flushes once per batch.

use crate::mail::Mail;
use crate::pushed::TieOut;
use crate::stamped::Stamped;
use broker::{
    ShardBatch, BodyRef, Confirm, ConfirmOutcome, Content, Delivery, Effects, Message, AdminRequestError, QueuePosition, AdminRequest, ConnectionSlot, AppendResult,
};
use catalog::{QueueId, Refusal, ShardId};
use rand::{RngCore, SeedableRng, rngs::StdRng};
use session::{BodyOut, DeliverHead, GetOkHead, Outbound, ReturnHead};
use slab::Pool;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Instant;
use wire::Method;

/// The output of one connection.
pub struct Outlet {
    /// The encoder.
    pub out: Outbound,
    /// Bodies of fewer bytes are copied, others shared.
    pub copy_below_bytes: usize,
    /// The link takes no more at the moment.
    pub blocked: bool,
    /// Of a connection to another broker, where this one is the client.
    pub tie: Option<Box<TieOut>>,
    /// Of a connection to or from another broker: what came over it with a stamp.
    pub stamped: Option<Box<Stamped>>,
    dirty: bool,
}

/// A refusal that came from another shard.
pub struct LateRefusal {
    /// The connection.
    pub slot: ConnectionSlot,
    /// The channel.
    pub channel: u16,
    /// Why.
    pub refusal: Refusal,
    /// What was refused.
    pub method: (u16, u16),
}

/// Bytes of bodies that were copied in user space, of which a broker that is slow with large ones may be asked.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Copied {
    /// On their way into memory of their own: those of large bodies alone (see `session::limits::LARGE_BODY_BYTES`, or
    /// `link::Shape::lend_from_bytes` if that is less), whoever copied them, each counted once. What the kernel copies is not
    /// counted, and neither is a small body that is kept.
    pub bytes_in: u64,
    /// Between the heads of deliveries: those of small bodies, to each consumer.
    pub bytes_out: u64,
}

/// Carries out effects.
pub struct Desk {
    pool: Pool,
    chance: StdRng,
    output_bytes_max: usize,
    outlets: Vec<Option<Outlet>>,
    dirty: Vec<ConnectionSlot>,
    /// The mail of the shard.
    pub mail: Mail,
    /// Connections that may be read again.
    pub resumed: Vec<ConnectionSlot>,
    /// Publishers that must give consumers a moment.
    pub paced: Vec<ConnectionSlot>,
    /// Connections to other brokers with acknowledgements that wait.
    held: Vec<ConnectionSlot>,
    /// Refusals to carry out.
    pub refusals: Vec<LateRefusal>,
    /// Bytes of bodies that were copied.
    pub copied: Copied,
    /// Who answers administrative requests, if anybody.
    requests: Option<SyncSender<AdminRequest>>,
}

impl Desk {
    /// A desk without connections. `seed` feeds what nobody must guess.
    pub fn new(pool: Pool, mail: Mail, output_bytes_max: usize, seed: [u8; 32]) -> Self {
        Desk {
            pool,
            chance: StdRng::from_seed(seed),
            output_bytes_max,
            outlets: Vec::new(),
            dirty: Vec::new(),
            mail,
            resumed: Vec::new(),
            paced: Vec::new(),
            held: Vec::new(),
            refusals: Vec::new(),
            copied: Copied::default(),
            requests: None,
        }
    }

    /// Administrative requests go there; without it there is nobody who answers them.
    pub fn send_requests_to(&mut self, requests: SyncSender<AdminRequest>) {
        self.requests = Some(requests);
    }

    /// Bytes of a connection's output beyond which it gets no more deliveries; beyond twice as many nothing of it is read.
    pub fn output_bytes_max(&self) -> usize {
        self.output_bytes_max
    }

    /// A new connection's output.
    pub fn open(&mut self, slot: ConnectionSlot, out: Outbound, copy_below_bytes: usize) {
        let index = slot as usize;
        if self.outlets.len() <= index {
            self.outlets.resize_with(index + 1, || None);
        }
        self.outlets[index] =
            Some(Outlet { out, copy_below_bytes, blocked: false, tie: None, stamped: None, dirty: false });
    }

    /// A connection is gone.
    pub fn close(&mut self, slot: ConnectionSlot) {
        if let Some(outlet) = self.outlets.get_mut(slot as usize) {
            *outlet = None;
        }
    }

    /// A connection's output.
    #[inline]
    pub fn outlet(&mut self, slot: ConnectionSlot) -> Option<&mut Outlet> {
        self.outlets.get_mut(slot as usize)?.as_mut()
    }

    /// A connection's encoder and the memory it writes to; what is written will be sent.
    #[inline]
    pub fn writer(&mut self, slot: ConnectionSlot) -> Option<(&mut Outbound, &Pool)> {
        let outlet = self.outlets.get_mut(slot as usize)?.as_mut()?;
        if !outlet.dirty {
            outlet.dirty = true;
            self.dirty.push(slot);
        }
        Some((&mut outlet.out, &self.pool))
    }

    /// The encoder for a session that reads: it answers by itself what concerns the protocol alone.
    #[inline]
    pub fn session_writer(&mut self, slot: ConnectionSlot) -> Option<(&mut Outbound, &Pool)> {
        Some((&mut self.outlets.get_mut(slot as usize)?.as_mut()?.out, &self.pool))
    }

    /// The next connection with something to send.
    #[inline]
    pub fn next_dirty(&mut self) -> Option<ConnectionSlot> {
        let slot = self.dirty.pop()?;
        if let Some(Some(outlet)) = self.outlets.get_mut(slot as usize) {
            outlet.dirty = false;
        }
        Some(slot)
    }

    /// Whether so much waits to be sent to a connection that nothing more should be asked for by it.
    #[inline]
    pub fn is_full(&self, slot: ConnectionSlot) -> bool {
        match self.outlets.get(slot as usize) {
            Some(Some(outlet)) => outlet.out.bytes() >= 2 * self.output_bytes_max,
            _ => false,
        }
    }

    /// Notes that a connection has something to send.
    pub fn make_dirty(&mut self, slot: ConnectionSlot) {
        self.writer(slot);
    }

    /// Bytes that wait in all outputs.
    pub fn output_bytes(&self) -> usize {
        self.outlets.iter().flatten().map(|outlet| outlet.out.bytes()).sum()
    }
}

/// How a body goes out: small ones are copied behind their heads, large ones are shared.
#[inline]
fn body_out<'a>(body: BodyRef<'a>, copy_below_bytes: usize, copied: &mut u64) -> BodyOut<'a> {
    match body {
        BodyRef::Large(slice) if slice.len() >= copy_below_bytes => BodyOut::Share(slice),
        BodyRef::Large(slice) => {
            *copied += slice.len() as u64;
            BodyOut::Copy(slice)
        }
        BodyRef::Small(bytes) => {
            *copied += bytes.len() as u64;
            BodyOut::Copy(bytes)
        }
    }
}

/// A delivery to another broker.
#[cold]
fn push(
    tie: &mut TieOut,
    out: &mut Outbound,
    copy_below_bytes: usize,
    pool: &Pool,
    channel: u16,
    delivery: &Delivery<'_>,
    copied: &mut u64,
) {
    if let Some(pushed) = tie.route(channel) {
        pushed.send(out, pool, channel, delivery, body_out(delivery.content.body, copy_below_bytes, copied));
    }
}

impl Desk {
    /// Confirms publishes of another broker. On a link that this broker has dialled they are deliveries: those that are safe here
    /// are acknowledged when it is time for it, and those that a queue refused come again and are not taken for duplicates.
    #[cold]
    fn confirm_on_link(&mut self, slot: ConnectionSlot, channel: u16, confirm: Confirm) {
        let is_tie = self.outlet(slot).is_some_and(|outlet| outlet.tie.is_some());
        let is_held = match confirm.outcome {
            ConfirmOutcome::Accepted => self.hold_ack(slot, channel, confirm.delivery_tag),
            ConfirmOutcome::Refused => {
                if is_tie {
                    self.acknowledge(slot, None);
                }
                false
            }
        };
        if !is_held && let Some((out, pool)) = self.writer(slot) {
            out.method(pool, channel, &confirm.method(is_tie));
        }
        let Some(stamped) = self.outlet(slot).and_then(|outlet| outlet.stamped.as_mut()) else { return };
        let Confirm { delivery_tag, multiple, outcome } = confirm;
        match outcome {
            ConfirmOutcome::Accepted => stamped.confirmed(channel, delivery_tag, multiple),
            ConfirmOutcome::Refused => stamped.refuse(channel, delivery_tag, multiple),
        }
    }
}

impl Desk {
    /// What was pulled is safe here up to this tag. Answers whether its acknowledgement goes when it is time for it.
    fn hold_ack(&mut self, slot: ConnectionSlot, channel: u16, tag: u64) -> bool {
        let Some(Some(outlet)) = self.outlets.get_mut(slot as usize) else { return false };
        let Some(tie) = &mut outlet.tie else { return false };
        let Some(acks) = tie.acks(channel) else { return false };
        acks.safe(tag);
        if !std::mem::replace(&mut tie.holds, true) {
            self.held.push(slot);
        }
        true
    }

    /// Acknowledges to another broker what it is time for; without a time all that is safe here.
    pub(crate) fn acknowledge(&mut self, slot: ConnectionSlot, now: Option<Instant>) -> Option<Instant> {
        let outlet = self.outlets.get_mut(slot as usize)?.as_mut()?;
        let tie = outlet.tie.as_mut().filter(|tie| tie.holds)?;
        let before = outlet.out.bytes();
        let again = tie.write_acks(&mut outlet.out, &self.pool, now);
        if outlet.out.bytes() > before {
            self.make_dirty(slot);
        }
        again
    }

    /// The same on all connections. Answers when it is time again.
    pub(crate) fn acknowledge_all(&mut self, now: Instant) -> Option<Instant> {
        let mut first: Option<Instant> = None;
        let mut at = 0;
        while let Some(&slot) = self.held.get(at) {
            match self.acknowledge(slot, Some(now)) {
                Some(again) => {
                    first = first.into_iter().chain([again]).min();
                    at += 1;
                }
                None => {
                    self.held.swap_remove(at);
                    if let Some(tie) = self.outlet(slot).and_then(|outlet| outlet.tie.as_mut()) {
                        tie.holds = false;
                    }
                }
            }
        }
        first
    }
}

impl Effects for Desk {
    #[inline]
    fn pool(&self) -> &Pool {
        &self.pool
    }

    fn random(&mut self) -> u64 {
        self.chance.next_u64()
    }

    #[inline]
    fn has_capacity(&self, slot: ConnectionSlot) -> bool {
        match self.outlets.get(slot as usize) {
            Some(Some(outlet)) => outlet.out.bytes() < self.output_bytes_max,
            _ => false,
        }
    }

    #[inline]
    fn deliver(&mut self, slot: ConnectionSlot, channel: u16, delivery: Delivery<'_>) {
        let Some(Some(outlet)) = self.outlets.get_mut(slot as usize) else { return };
        if !outlet.dirty {
            outlet.dirty = true;
            self.dirty.push(slot);
        }
        if let Some(tie) = &mut outlet.tie {
            let copied = &mut self.copied.bytes_out;
            return push(tie, &mut outlet.out, outlet.copy_below_bytes, &self.pool, channel, &delivery, copied);
        }
        let Delivery { consumer_tag, tag, redelivered, content } = delivery;
        let head = DeliverHead {
            consumer_tag,
            delivery_tag: tag,
            redelivered,
            exchange: content.exchange,
            routing_key: content.routing_key,
        };
        let body = body_out(content.body, outlet.copy_below_bytes, &mut self.copied.bytes_out);
        outlet.out.deliver(&self.pool, channel, &head, content.properties, body);
    }

    fn get_ok(&mut self, slot: ConnectionSlot, channel: u16, tag: u64, redelivered: bool, messages_left: u32, content: Content<'_>) {
        let mut copied = 0;
        let copy_below_bytes = self.outlet(slot).map_or(0, |outlet| outlet.copy_below_bytes);
        if let Some((out, pool)) = self.writer(slot) {
            let head = GetOkHead {
                delivery_tag: tag,
                redelivered,
                exchange: content.exchange,
                routing_key: content.routing_key,
                message_count: messages_left,
            };
            out.get_ok(pool, channel, &head, content.properties, body_out(content.body, copy_below_bytes, &mut copied));
        }
        self.copied.bytes_out += copied;
    }

    fn return_message(&mut self, slot: ConnectionSlot, channel: u16, refusal: &Refusal, content: Content<'_>) {
        let mut copied = 0;
        let copy_below_bytes = self.outlet(slot).map_or(0, |outlet| outlet.copy_below_bytes);
        if let Some((out, pool)) = self.writer(slot) {
            let head = ReturnHead {
                code: refusal.code,
                text: refusal.text.as_bytes(),
                exchange: content.exchange,
                routing_key: content.routing_key,
            };
            out.return_(
                pool,
                channel,
                &head,
                content.properties,
                body_out(content.body, copy_below_bytes, &mut copied),
            );
        }
        self.copied.bytes_out += copied;
    }

    fn reply(&mut self, slot: ConnectionSlot, channel: u16, method: Method<'_>) {
        if self.outlet(slot).is_some_and(|outlet| outlet.tie.is_some()) {
            // A broker that this one has dialled has asked for nothing. What it sent meanwhile is served with the flush.
            return self.make_dirty(slot);
        }
        if let Some((out, pool)) = self.writer(slot) {
            out.method(pool, channel, &method);
        }
    }

    fn confirm(&mut self, slot: ConnectionSlot, channel: u16, confirm: Confirm) {
        if self.outlet(slot).is_some_and(|outlet| outlet.tie.is_some() || outlet.stamped.is_some()) {
            return self.confirm_on_link(slot, channel, confirm);
        }
        if let Some((out, pool)) = self.writer(slot) {
            out.method(pool, channel, &confirm.method(false));
        }
    }

    fn refuse(&mut self, slot: ConnectionSlot, channel: u16, refusal: Refusal, method: (u16, u16)) {
        self.refusals.push(LateRefusal { slot, channel, refusal, method });
    }

    fn resume(&mut self, slot: ConnectionSlot) {
        self.resumed.push(slot);
    }

    fn throttle(&mut self, slot: ConnectionSlot) {
        self.paced.push(slot);
    }

    #[inline]
    fn batch(&mut self, to: ShardId) -> &mut ShardBatch {
        self.mail.batch(to.0)
    }

    fn admin_request(&mut self, request: AdminRequest) -> Result<(), AdminRequestError> {
        let requests = self.requests.as_ref().ok_or(AdminRequestError::Unavailable)?;
        requests.try_send(request).map_err(|error| match error {
            TrySendError::Full(_) => AdminRequestError::Busy,
            TrySendError::Disconnected(_) => AdminRequestError::Unavailable,
        })
    }

    // There is no store yet: a durable queue lives in memory like any other, and the documentation says so.
    fn append(&mut self, _queue: QueueId, _place: QueuePosition, _message: &Message) -> AppendResult {
        AppendResult::Durable
    }

    fn forget(&mut self, _queue: QueueId, _place: QueuePosition) {}
}
