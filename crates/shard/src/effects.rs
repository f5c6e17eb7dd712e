//! Effects: carries out what the broker core decides. Methods and deliveries are encoded into output queues, messages
//! to other shards are written to the mailbox, and what concerns other connections is noted for the shard.
//!
//! Nothing is sent here: the shard flushes once per batch.

use crate::catalog_replica::DefinitionPublisher;
use crate::copied_bytes::CopiedBytes;
use crate::limits::UNHELD_STORED_BYTES;
use crate::link_output::LinkOutput;
use crate::mailbox::Mailbox;
use crate::output_queues::{OutputQueue, OutputQueues};
use broker::{AdminRequest, AdminRequestError, Confirm, ConfirmOutcome, ConnectionSlot, Delivery, Effects, ShardBatch};
use catalog::{Catalog, Definition, ExecutedDefinition, QueueUid, Refusal, ShardId};
use definitions::journal_changes;
use durability::MessageStore;
use durability::{DefinitionJournal, JournalEvent};
use queues::{AppendResult, BodyRef, Content, Message, MessageStorage, QueuePosition};
use rand::{RngCore, SeedableRng, rngs::StdRng};
use session::{BodyOut, DeliverHead, GetOkHead, Outbound, ReturnHead};
use slab::Pool;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Instant;
use wire::{BodyRun, ChannelNumber, DeliveryTag, Method};

/// A refusal by another shard, to be sent to the client.
pub struct DeferredRefusal {
    pub slot: ConnectionSlot,
    pub channel: ChannelNumber,
    pub refusal: Refusal,
    /// Class and method that were refused.
    pub method: (u16, u16),
}

/// Carries out the effects of one shard.
pub struct ShardEffects {
    pub(crate) pool: Pool,
    rng: StdRng,
    pub outputs: OutputQueues,
    /// Messages to and from the other shards.
    pub mailbox: Mailbox,
    /// Connections that may be read again.
    pub resumed: Vec<ConnectionSlot>,
    /// Publishers to throttle.
    pub throttled: Vec<ConnectionSlot>,
    /// Connections to other brokers that hold acknowledgements back.
    links_with_acks: Vec<ConnectionSlot>,
    /// Refusals to send to clients.
    pub refusals: Vec<DeferredRefusal>,
    pub copied: CopiedBytes,
    /// Where administrative requests go, if the program answers them.
    requests: Option<SyncSender<AdminRequest>>,
    /// Without it everything is kept in memory.
    pub(crate) store: Option<Box<MessageStore>>,
    /// Pages that were wanted while messages were recovered: the store that comes then reads them.
    early_page_ins: Vec<(QueueUid, QueuePosition, QueuePosition)>,
    /// Makes definitions durable, on shard 0 of a broker with a store.
    pub(crate) journal: Option<Box<DefinitionJournal>>,
    /// Replicas of definitions outside of the shards, on shard 0.
    pub(crate) replicas: DefinitionPublisher,
}

impl ShardEffects {
    /// Effects of a shard without connections. `seed` feeds what nobody must guess.
    pub fn new(pool: Pool, mailbox: Mailbox, output_bytes_max: usize, seed: [u8; 32]) -> Self {
        ShardEffects {
            pool,
            rng: StdRng::from_seed(seed),
            outputs: OutputQueues::new(output_bytes_max),
            mailbox,
            resumed: Vec::new(),
            throttled: Vec::new(),
            links_with_acks: Vec::new(),
            refusals: Vec::new(),
            copied: CopiedBytes::default(),
            requests: None,
            store: None,
            early_page_ins: Vec::new(),
            journal: None,
            replicas: DefinitionPublisher::default(),
        }
    }

    /// Polls the journal of definitions, if there is one.
    pub(crate) fn poll_journal(&mut self, catalog: &mut Catalog, now_us: u64) -> Option<JournalEvent> {
        let ShardEffects { journal, rng, .. } = self;
        journal.as_mut()?.poll(catalog, now_us, &mut || salt(rng))
    }

    /// Has messages made durable from now on, and pages read.
    pub(crate) fn set_store(&mut self, mut store: MessageStore) {
        for (queue, first, end) in std::mem::take(&mut self.early_page_ins) {
            store.page_in(queue, first, end);
        }
        self.store = Some(Box::new(store));
    }

    /// Sends administrative requests there; without it they are refused.
    pub(crate) fn send_requests_to(&mut self, requests: SyncSender<AdminRequest>) {
        self.requests = Some(requests);
    }

    /// Whether so much waits for other shards or for the disk that nothing more must be done that may add to it.
    #[inline]
    pub(crate) fn is_congested(&self) -> bool {
        self.mailbox.is_congested() || self.is_disk_congested()
    }

    /// The same of the disk alone.
    #[inline]
    pub(crate) fn is_disk_congested(&self) -> bool {
        self.store.as_ref().is_some_and(|store| store.is_congested())
    }

    /// Whether a connection must not be read by whose turns so many bytes wait for the disk. One by which few do is read although
    /// the disk is behind, as long as not all of them together have added too much: what others publish is not its fault.
    #[inline]
    pub fn holds(&self, stored_bytes: usize) -> bool {
        self.holds_all() || (stored_bytes >= UNHELD_STORED_BYTES && self.is_disk_congested())
    }

    /// Whether no connection must be read.
    #[inline]
    pub(crate) fn holds_all(&self) -> bool {
        self.mailbox.is_congested() || self.store.as_ref().is_some_and(|store| store.is_overfull())
    }

    /// Bytes of messages that wait for the disk.
    #[inline]
    pub(crate) fn disk_pending_bytes(&self) -> usize {
        self.store.as_ref().map_or(0, |store| store.pending_bytes())
    }

    /// The numbers of what waits for the disk, in the order in which the shard's log was told of it.
    pub fn unwritten_entries(&self) -> std::ops::Range<u64> {
        self.store.as_ref().map_or(0..0, |store| store.unwritten())
    }

    /// What the store and the journal hold beside what is on the disk.
    pub fn store_census(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let journal =
            self.journal.iter().map(|journal| ("bytes of definitions to be written", journal.pending_bytes()));
        self.store.iter().flat_map(|store| store.census()).chain(journal)
    }

    /// Bytes in a connection's output beyond which it gets no more deliveries.
    pub fn output_bytes_max(&self) -> usize {
        self.outputs.queue_bytes_max()
    }

    /// A connection's output.
    #[inline]
    pub fn output(&mut self, slot: ConnectionSlot) -> Option<&mut OutputQueue> {
        self.outputs.get_mut(slot)
    }

    /// A connection's encoder and the memory it writes to; what is written will be sent.
    #[inline]
    pub fn writer(&mut self, slot: ConnectionSlot) -> Option<(&mut Outbound, &Pool)> {
        Some((&mut self.outputs.get_dirty(slot)?.out, &self.pool))
    }

    /// The encoder for a session that receives: it answers methods of the protocol itself. It marks nothing dirty.
    #[inline]
    pub(crate) fn session_writer(&mut self, slot: ConnectionSlot) -> Option<(&mut Outbound, &Pool)> {
        Some((&mut self.outputs.get_mut(slot)?.out, &self.pool))
    }

    /// Whether so much waits to be sent to a connection that the shard must not read more requests from it.
    #[inline]
    pub fn is_full(&self, slot: ConnectionSlot) -> bool {
        self.outputs.is_full(slot)
    }

    /// Has a connection flushed.
    pub(crate) fn make_dirty(&mut self, slot: ConnectionSlot) {
        self.outputs.get_dirty(slot);
    }

    /// Bytes that wait in all outputs.
    pub fn output_bytes(&self) -> usize {
        self.outputs.bytes()
    }
}

/// Small bodies are copied behind their heads, large ones are shared.
#[inline]
fn outgoing_body<'a>(body: BodyRef<'a>, copy_threshold_bytes: usize, copied: &mut u64) -> BodyOut<'a> {
    match body {
        BodyRef::Large(slice) if slice.len() >= copy_threshold_bytes => BodyOut::Share(slice),
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

#[inline]
fn deliver_head<'a>(delivery: &Delivery<'a>) -> DeliverHead<'a> {
    let Delivery { consumer_tag, tag, redelivered, content } = *delivery;
    let (exchange, routing_key) = (content.exchange, content.routing_key);
    DeliverHead { consumer_tag, delivery_tag: tag, redelivered, exchange, routing_key }
}

/// Encodes a delivery of a pushed route.
#[cold]
fn deliver_over_link(
    link: &mut LinkOutput,
    out: &mut Outbound,
    copy_threshold_bytes: usize,
    pool: &Pool,
    channel: ChannelNumber,
    delivery: &Delivery<'_>,
    copied: &mut u64,
) {
    if let Some(route) = link.push_route(channel) {
        let body = outgoing_body(delivery.content.body, copy_threshold_bytes, copied);
        if route.send(out, pool, channel, delivery, body) {
            link.give_up(channel, delivery.tag);
        }
    }
}

impl ShardEffects {
    /// Confirms publishes over a connection to or from another broker. Where this broker is the client, they are messages
    /// that it pulled: what is safe here is acknowledged in batches, and what was refused is asked for again unless it is
    /// given up, and its stamps are removed from the window.
    #[cold]
    fn confirm_on_link(&mut self, slot: ConnectionSlot, channel: ChannelNumber, confirm: Confirm) {
        let is_dialed = self.output(slot).is_some_and(|output| output.link_output.is_some());
        let mut requeue = is_dialed;
        let is_deferred = match confirm.outcome {
            ConfirmOutcome::Accepted => self.defer_ack(slot, channel, confirm.delivery_tag),
            ConfirmOutcome::Refused => {
                if is_dialed {
                    self.send_acks(slot, None);
                    requeue = !self.take_given_up(slot, channel, confirm.delivery_tag);
                }
                false
            }
        };
        if !is_deferred && let Some((out, pool)) = self.writer(slot) {
            out.method(pool, channel, &confirm.method(requeue));
        }
        let Some(stamps) = self.output(slot).and_then(|output| output.stamps.as_mut()) else { return };
        let Confirm { delivery_tag, multiple, outcome } = confirm;
        match outcome {
            ConfirmOutcome::Accepted => stamps.on_ack(channel, delivery_tag, multiple),
            ConfirmOutcome::Refused => stamps.on_nack(channel, delivery_tag, multiple),
        }
    }
}

impl ShardEffects {
    /// Notes that pulled messages are safe here up to this tag. Returns whether the acknowledgement is batched.
    fn defer_ack(&mut self, slot: ConnectionSlot, channel: ChannelNumber, tag: DeliveryTag) -> bool {
        let Some(output) = self.outputs.get_mut(slot) else { return false };
        let Some(link) = &mut output.link_output else { return false };
        let Some(batcher) = link.ack_batcher(channel) else { return false };
        batcher.accepted_up_to(tag);
        if !std::mem::replace(&mut link.is_queued, true) {
            self.links_with_acks.push(slot);
        }
        true
    }

    /// Whether a pulled message was given up.
    fn take_given_up(&mut self, slot: ConnectionSlot, channel: ChannelNumber, tag: DeliveryTag) -> bool {
        let link = self.output(slot).and_then(|output| output.link_output.as_mut());
        link.is_some_and(|link| !link.take_given_up(channel, tag, false).is_empty())
    }

    /// Sends the acknowledgements to another broker that are due; without a time, all. Returns when the next are due.
    pub(crate) fn send_acks(&mut self, slot: ConnectionSlot, now: Option<Instant>) -> Option<Instant> {
        let output = self.outputs.get_mut(slot)?;
        let link = output.link_output.as_mut().filter(|link| link.is_queued)?;
        let before = output.out.bytes();
        let again = link.write_acks(&mut output.out, &self.pool, now);
        if output.out.bytes() > before {
            self.make_dirty(slot);
        }
        again
    }

    /// Sends the due acknowledgements to all other brokers. Returns when the next are due.
    pub(crate) fn send_due_acks(&mut self, now: Instant) -> Option<Instant> {
        let mut first: Option<Instant> = None;
        let mut at = 0;
        while let Some(&slot) = self.links_with_acks.get(at) {
            match self.send_acks(slot, Some(now)) {
                Some(again) => {
                    first = first.into_iter().chain([again]).min();
                    at += 1;
                }
                None => {
                    self.links_with_acks.swap_remove(at);
                    if let Some(link) = self.output(slot).and_then(|output| output.link_output.as_mut()) {
                        link.is_queued = false;
                    }
                }
            }
        }
        first
    }
}

impl MessageStorage for ShardEffects {
    #[inline]
    fn pool(&self) -> &Pool {
        &self.pool
    }

    fn append(&mut self, queue: QueueUid, position: QueuePosition, message: Message) -> AppendResult {
        match &mut self.store {
            Some(store) => store.append(queue, position, message),
            None => AppendResult::Durable,
        }
    }

    fn append_run(&mut self, queue: QueueUid, first: QueuePosition, messages: &[Message]) -> AppendResult {
        match &mut self.store {
            Some(store) => store.append_run(queue, first, messages),
            None => AppendResult::Durable,
        }
    }

    fn forget(&mut self, queue: QueueUid, first: QueuePosition, count: u32) {
        if let Some(store) = &mut self.store {
            store.forget(queue, first, count);
        }
    }

    fn mark_delivered(&mut self, queue: QueueUid, first: QueuePosition, count: u32) {
        if let Some(store) = &mut self.store {
            store.mark_delivered(queue, first, count);
        }
    }

    fn mark_returned(&mut self, queue: QueueUid, position: QueuePosition, times: u32) {
        if let Some(store) = &mut self.store {
            store.mark_returned(queue, position, times);
        }
    }

    fn begin_commit(&mut self) {
        if let Some(store) = &mut self.store {
            store.begin_commit();
        }
    }

    fn end_commit(&mut self) -> AppendResult {
        match &mut self.store {
            Some(store) => store.end_commit(),
            None => AppendResult::Durable,
        }
    }

    fn settled(&mut self) -> AppendResult {
        match &mut self.store {
            Some(store) => store.settled(),
            None => AppendResult::Durable,
        }
    }

    fn await_durable(&mut self, ticket: u64) {
        if let Some(store) = &mut self.store {
            store.await_durable(ticket);
        }
    }

    fn drop_queue(&mut self, queue: QueueUid) {
        if let Some(store) = &mut self.store {
            store.drop_queue(queue);
        }
    }

    /// Everything stays in memory.
    fn page_out(&mut self, queue: QueueUid, messages: &mut dyn Iterator<Item = (QueuePosition, &Message)>) -> bool {
        self.store.as_mut().is_some_and(|store| store.page_out(queue, messages))
    }

    fn page_in(&mut self, queue: QueueUid, first: QueuePosition, end: QueuePosition) {
        match &mut self.store {
            Some(store) => store.page_in(queue, first, end),
            None => self.early_page_ins.push((queue, first, end)),
        }
    }

    fn forget_paged(&mut self, queue: QueueUid, first: QueuePosition, end: QueuePosition) {
        if let Some(store) = &mut self.store {
            store.forget_paged(queue, first, end);
        }
    }
}

impl Effects for ShardEffects {
    fn random(&mut self) -> u64 {
        self.rng.next_u64()
    }

    #[inline]
    fn has_capacity(&self, slot: ConnectionSlot) -> bool {
        self.outputs.has_capacity(slot)
    }

    #[inline]
    fn deliver(&mut self, slot: ConnectionSlot, channel: ChannelNumber, delivery: Delivery<'_>) {
        let Some(output) = self.outputs.get_dirty(slot) else { return };
        if let Some(link) = &mut output.link_output {
            let copied = &mut self.copied.bytes_out;
            return deliver_over_link(
                link,
                &mut output.out,
                output.copy_threshold_bytes,
                &self.pool,
                channel,
                &delivery,
                copied,
            );
        }
        let (head, content) = (deliver_head(&delivery), delivery.content);
        let body = outgoing_body(content.body, output.copy_threshold_bytes, &mut self.copied.bytes_out);
        output.out.deliver(&self.pool, channel, &head, content.properties, body);
    }

    fn accepted_deliveries(&self, slot: ConnectionSlot, delivery: &Delivery<'_>, most: usize) -> usize {
        // What goes over a link is looked at one by one.
        let Some(output) = self.outputs.get(slot).filter(|output| output.link_output.is_none()) else { return 0 };
        let Content { properties, body, .. } = delivery.content;
        match output.out.delivery_bytes(&deliver_head(delivery), properties, body.len()) {
            // The last that is accepted may exceed the limit.
            Some(bytes) => most.min(self.outputs.delivery_room(slot).div_ceil(bytes)),
            None => 0,
        }
    }

    fn deliver_run(&mut self, slot: ConnectionSlot, channel: ChannelNumber, first: Delivery<'_>, bodies: BodyRun<'_>) {
        let Some(output) = self.outputs.get_dirty(slot) else { return };
        self.copied.bytes_out += (bodies.len() * bodies.body_bytes()) as u64;
        output.out.deliver_run(&self.pool, channel, &deliver_head(&first), first.content.properties, bodies);
    }

    fn get_ok(
        &mut self,
        slot: ConnectionSlot,
        channel: ChannelNumber,
        tag: DeliveryTag,
        redelivered: bool,
        messages_left: u32,
        content: Content<'_>,
    ) {
        let mut copied = 0;
        let copy_threshold_bytes = self.output(slot).map_or(0, |output| output.copy_threshold_bytes);
        if let Some((out, pool)) = self.writer(slot) {
            let head = GetOkHead {
                delivery_tag: tag,
                redelivered,
                exchange: content.exchange,
                routing_key: content.routing_key,
                message_count: messages_left,
            };
            out.get_ok(
                pool,
                channel,
                &head,
                content.properties,
                outgoing_body(content.body, copy_threshold_bytes, &mut copied),
            );
        }
        self.copied.bytes_out += copied;
    }

    fn return_message(
        &mut self,
        slot: ConnectionSlot,
        channel: ChannelNumber,
        refusal: &Refusal,
        content: Content<'_>,
    ) {
        let mut copied = 0;
        let copy_threshold_bytes = self.output(slot).map_or(0, |output| output.copy_threshold_bytes);
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
                outgoing_body(content.body, copy_threshold_bytes, &mut copied),
            );
        }
        self.copied.bytes_out += copied;
    }

    fn reply(&mut self, slot: ConnectionSlot, channel: ChannelNumber, method: Method<'_>) {
        if self.output(slot).is_some_and(|output| output.link_output.is_some()) {
            // A broker that this one dialled has asked for nothing. Its input so far is served with the flush.
            return self.make_dirty(slot);
        }
        if let Some((out, pool)) = self.writer(slot) {
            out.method(pool, channel, &method);
        }
    }

    fn confirm(&mut self, slot: ConnectionSlot, channel: ChannelNumber, confirm: Confirm) {
        if self.output(slot).is_some_and(|output| output.link_output.is_some() || output.stamps.is_some()) {
            return self.confirm_on_link(slot, channel, confirm);
        }
        if let Some((out, pool)) = self.writer(slot) {
            out.method(pool, channel, &confirm.method(false));
        }
    }

    fn refuse(&mut self, slot: ConnectionSlot, channel: ChannelNumber, refusal: Refusal, method: (u16, u16)) {
        self.refusals.push(DeferredRefusal { slot, channel, refusal, method });
    }

    fn resume(&mut self, slot: ConnectionSlot) {
        self.resumed.push(slot);
    }

    fn throttle(&mut self, slot: ConnectionSlot) {
        self.throttled.push(slot);
    }

    #[inline]
    fn batch(&mut self, to: ShardId) -> &mut ShardBatch {
        self.mailbox.batch(to)
    }

    fn admin_request(&mut self, request: AdminRequest) -> Result<(), AdminRequestError> {
        let requests = self.requests.as_ref().ok_or(AdminRequestError::Unavailable)?;
        requests.try_send(request).map_err(|error| match error {
            TrySendError::Full(_) => AdminRequestError::Busy,
            TrySendError::Disconnected(_) => AdminRequestError::Unavailable,
        })
    }

    fn journal(
        &mut self,
        version: u64,
        definition: &Definition,
        executed: &ExecutedDefinition,
        catalog: &Catalog,
    ) -> bool {
        let ShardEffects { journal: Some(journal), rng, .. } = self else { return false };
        let records = journal_changes(definition, executed, catalog, || salt(rng));
        journal.append(version, &records)
    }

    fn definition_made(&mut self, version: u64, definition: &Arc<Definition>) {
        self.replicas.publish(version, definition);
    }
}

/// What is hashed in front of a plain password.
pub(crate) fn salt(rng: &mut StdRng) -> [u8; 4] {
    rng.next_u32().to_le_bytes()
}

#[cfg(test)]
mod tests;
