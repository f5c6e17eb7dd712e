//! The desk: where the broker's effects are carried out.
//!
//! Enters: effects.  Leaves: bytes in the outputs of connections, letters in the mail, notes of what is left to do.
//! Owns:   the output of every connection of the shard, its message memory, its chance.
//! Never:  sends: the reactor flushes once per batch.

use crate::mailbox::Mailbox;
use crate::pushed::TieOut;
use crate::stamped::Stamped;
use broker::{Batch, BodyRef, Content, Delivery, Effects, Message, NotTaken, Place, Request, Slot, Stored};
use catalog::{QueueId, Refusal, ShardId};
use rand::{RngCore, SeedableRng, rngs::StdRng};
use session::{BodyOut, DeliverHead, GetOkHead, Outbound, ReturnHead};
use slab::Pool;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Instant;
use wire::Method;
use wire::method::basic;

/// The output of one connection.
pub struct OutputQueue {
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
    pub slot: Slot,
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
    /// `link::LinkCapabilities::lend_threshold_bytes` if that is less), whoever copied them, each counted once. What the kernel copies is not
    /// counted, and neither is a small body that is kept.
    pub bytes_in: u64,
    /// Between the heads of deliveries: those of small bodies, to each consumer.
    pub bytes_out: u64,
}

/// Carries out effects.
pub struct ShardEffects {
    pool: Pool,
    chance: StdRng,
    output_bytes_max: usize,
    outputs: Vec<Option<OutputQueue>>,
    dirty: Vec<Slot>,
    /// The mail of the shard.
    pub mailbox: Mailbox,
    /// Connections that may be read again.
    pub resumed: Vec<Slot>,
    /// Publishers that must give consumers a moment.
    pub throttled: Vec<Slot>,
    /// Connections to other brokers with acknowledgements that wait.
    ack_holders: Vec<Slot>,
    /// Refusals to carry out.
    pub refusals: Vec<LateRefusal>,
    /// Bytes of bodies that were copied.
    pub copied: Copied,
    /// Who answers administrative requests, if anybody.
    requests: Option<SyncSender<Request>>,
}

impl ShardEffects {
    /// A desk without connections. `seed` feeds what nobody must guess.
    pub fn new(pool: Pool, mail: Mailbox, output_bytes_max: usize, seed: [u8; 32]) -> Self {
        ShardEffects {
            pool,
            chance: StdRng::from_seed(seed),
            output_bytes_max,
            outputs: Vec::new(),
            dirty: Vec::new(),
            mailbox: mail,
            resumed: Vec::new(),
            throttled: Vec::new(),
            ack_holders: Vec::new(),
            refusals: Vec::new(),
            copied: Copied::default(),
            requests: None,
        }
    }

    /// Administrative requests go there; without it there is nobody who answers them.
    pub fn send_requests_to(&mut self, requests: SyncSender<Request>) {
        self.requests = Some(requests);
    }

    /// Bytes of a connection's output beyond which it gets no more deliveries; beyond twice as many nothing of it is read.
    pub fn output_bytes_max(&self) -> usize {
        self.output_bytes_max
    }

    /// A new connection's output.
    pub fn open(&mut self, slot: Slot, out: Outbound, copy_below_bytes: usize) {
        let index = slot as usize;
        if self.outputs.len() <= index {
            self.outputs.resize_with(index + 1, || None);
        }
        self.outputs[index] =
            Some(OutputQueue { out, copy_below_bytes, blocked: false, tie: None, stamped: None, dirty: false });
    }

    /// A connection is gone.
    pub fn close(&mut self, slot: Slot) {
        if let Some(output) = self.outputs.get_mut(slot as usize) {
            *output = None;
        }
    }

    /// A connection's output.
    #[inline]
    pub fn output(&mut self, slot: Slot) -> Option<&mut OutputQueue> {
        self.outputs.get_mut(slot as usize)?.as_mut()
    }

    /// A connection's encoder and the memory it writes to; what is written will be sent.
    #[inline]
    pub fn writer(&mut self, slot: Slot) -> Option<(&mut Outbound, &Pool)> {
        let output = self.outputs.get_mut(slot as usize)?.as_mut()?;
        if !output.dirty {
            output.dirty = true;
            self.dirty.push(slot);
        }
        Some((&mut output.out, &self.pool))
    }

    /// The encoder for a session that reads: it answers by itself what concerns the protocol alone.
    #[inline]
    pub fn session_writer(&mut self, slot: Slot) -> Option<(&mut Outbound, &Pool)> {
        Some((&mut self.outputs.get_mut(slot as usize)?.as_mut()?.out, &self.pool))
    }

    /// The next connection with something to send.
    #[inline]
    pub fn next_dirty(&mut self) -> Option<Slot> {
        let slot = self.dirty.pop()?;
        if let Some(Some(output)) = self.outputs.get_mut(slot as usize) {
            output.dirty = false;
        }
        Some(slot)
    }

    /// Whether so much waits to be sent to a connection that nothing more should be asked for by it.
    #[inline]
    pub fn is_full(&self, slot: Slot) -> bool {
        match self.outputs.get(slot as usize) {
            Some(Some(output)) => output.out.bytes() >= 2 * self.output_bytes_max,
            _ => false,
        }
    }

    /// Notes that a connection has something to send.
    pub fn make_dirty(&mut self, slot: Slot) {
        self.writer(slot);
    }

    /// Bytes that wait in all outputs.
    pub fn output_bytes(&self) -> usize {
        self.outputs.iter().flatten().map(|output| output.out.bytes()).sum()
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

impl ShardEffects {
    /// To another broker. One that this broker has dialled is acknowledged what is safe here, and nothing else is an answer
    /// to anybody; what this broker did not take comes again, and is not taken for what has been here.
    #[cold]
    fn reply_on_link(&mut self, slot: Slot, channel: u16, method: &Method<'_>) {
        let again;
        let (written, is_answer) = match method {
            Method::BasicAck(_) => (method, true),
            Method::BasicNack(nack) => {
                again = basic::Nack { requeue: true, ..*nack }.into();
                (&again, true)
            }
            _ => (method, false),
        };
        let is_tie = self.output(slot).is_some_and(|output| output.tie.is_some());
        if is_tie && let Method::BasicNack(_) = method {
            self.acknowledge(slot, None);
        }
        let waits = match method {
            Method::BasicAck(ack) => self.hold_ack(slot, channel, ack.delivery_tag),
            _ => false,
        };
        if !waits && let Some((out, pool)) = self.writer(slot).filter(|_| is_answer || !is_tie) {
            out.method(pool, channel, if is_tie { written } else { method });
        }
        let Some(stamped) = self.output(slot).and_then(|output| output.stamped.as_mut()) else { return };
        match method {
            Method::BasicAck(ack) => stamped.confirmed(channel, ack.delivery_tag, ack.multiple),
            Method::BasicNack(nack) => stamped.refuse(channel, nack.delivery_tag, nack.multiple),
            _ => {}
        }
    }
}

impl ShardEffects {
    /// What was pulled is safe here up to this tag. Answers whether its acknowledgement goes when it is time for it.
    fn hold_ack(&mut self, slot: Slot, channel: u16, tag: u64) -> bool {
        let Some(Some(output)) = self.outputs.get_mut(slot as usize) else { return false };
        let Some(tie) = &mut output.tie else { return false };
        let Some(acks) = tie.acks(channel) else { return false };
        acks.safe(tag);
        if !std::mem::replace(&mut tie.holds, true) {
            self.ack_holders.push(slot);
        }
        true
    }

    /// Acknowledges to another broker what it is time for; without a time all that is safe here.
    pub(crate) fn acknowledge(&mut self, slot: Slot, now: Option<Instant>) -> Option<Instant> {
        let output = self.outputs.get_mut(slot as usize)?.as_mut()?;
        let tie = output.tie.as_mut().filter(|tie| tie.holds)?;
        let before = output.out.bytes();
        let again = tie.write_acks(&mut output.out, &self.pool, now);
        if output.out.bytes() > before {
            self.make_dirty(slot);
        }
        again
    }

    /// The same on all connections. Answers when it is time again.
    pub(crate) fn acknowledge_all(&mut self, now: Instant) -> Option<Instant> {
        let mut first: Option<Instant> = None;
        let mut at = 0;
        while let Some(&slot) = self.ack_holders.get(at) {
            match self.acknowledge(slot, Some(now)) {
                Some(again) => {
                    first = first.into_iter().chain([again]).min();
                    at += 1;
                }
                None => {
                    self.ack_holders.swap_remove(at);
                    if let Some(tie) = self.output(slot).and_then(|output| output.tie.as_mut()) {
                        tie.holds = false;
                    }
                }
            }
        }
        first
    }
}

impl Effects for ShardEffects {
    #[inline]
    fn pool(&self) -> &Pool {
        &self.pool
    }

    fn chance(&mut self) -> u64 {
        self.chance.next_u64()
    }

    #[inline]
    fn has_room(&self, slot: Slot) -> bool {
        match self.outputs.get(slot as usize) {
            Some(Some(output)) => output.out.bytes() < self.output_bytes_max,
            _ => false,
        }
    }

    #[inline]
    fn deliver(&mut self, slot: Slot, channel: u16, delivery: Delivery<'_>) {
        let Some(Some(output)) = self.outputs.get_mut(slot as usize) else { return };
        if !output.dirty {
            output.dirty = true;
            self.dirty.push(slot);
        }
        if let Some(tie) = &mut output.tie {
            let copied = &mut self.copied.bytes_out;
            return push(tie, &mut output.out, output.copy_below_bytes, &self.pool, channel, &delivery, copied);
        }
        let Delivery { consumer_tag, tag, redelivered, content } = delivery;
        let head = DeliverHead {
            consumer_tag,
            delivery_tag: tag,
            redelivered,
            exchange: content.exchange,
            routing_key: content.routing_key,
        };
        let body = body_out(content.body, output.copy_below_bytes, &mut self.copied.bytes_out);
        output.out.deliver(&self.pool, channel, &head, content.properties, body);
    }

    fn got(&mut self, slot: Slot, channel: u16, tag: u64, redelivered: bool, messages_left: u32, content: Content<'_>) {
        let mut copied = 0;
        let copy_below_bytes = self.output(slot).map_or(0, |output| output.copy_below_bytes);
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

    fn returned(&mut self, slot: Slot, channel: u16, refusal: &Refusal, content: Content<'_>) {
        let mut copied = 0;
        let copy_below_bytes = self.output(slot).map_or(0, |output| output.copy_below_bytes);
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

    fn reply(&mut self, slot: Slot, channel: u16, method: Method<'_>) {
        let is_links = self.output(slot).is_some_and(|output| output.tie.is_some() || output.stamped.is_some());
        if is_links {
            return self.reply_on_link(slot, channel, &method);
        }
        if let Some((out, pool)) = self.writer(slot) {
            out.method(pool, channel, &method);
        }
    }

    fn refuse(&mut self, slot: Slot, channel: u16, refusal: Refusal, method: (u16, u16)) {
        self.refusals.push(LateRefusal { slot, channel, refusal, method });
    }

    fn resume(&mut self, slot: Slot) {
        self.resumed.push(slot);
    }

    fn pace(&mut self, slot: Slot) {
        self.throttled.push(slot);
    }

    #[inline]
    fn batch(&mut self, to: ShardId) -> &mut Batch {
        self.mailbox.batch(to.0)
    }

    fn request(&mut self, request: Request) -> Result<(), NotTaken> {
        let requests = self.requests.as_ref().ok_or(NotTaken::Nobody)?;
        requests.try_send(request).map_err(|error| match error {
            TrySendError::Full(_) => NotTaken::Busy,
            TrySendError::Disconnected(_) => NotTaken::Nobody,
        })
    }

    // There is no store yet: a durable queue lives in memory like any other, and the documentation says so.
    fn append(&mut self, _queue: QueueId, _place: Place, _message: &Message) -> Stored {
        Stored::Now
    }

    fn forget(&mut self, _queue: QueueId, _place: Place) {}
}
