//! Effects of the unit tests: a list of what was carried out, as text.

use crate::admin_request::{AdminRequest, AdminRequestError};
use crate::effects::{Confirm, ConfirmOutcome, Delivery, Effects};
use crate::ids::ConnectionSlot;
use crate::shard_message::ShardBatch;
use catalog::{Name, QueueDefinition, QueueUid, Refusal, ShardId, VhostId};
use queues::{AppendResult, BodyRef, Content, Message, MessageStorage, QueuePosition};
use slab::{Pool, PoolOptions};
use std::collections::BTreeSet;
use wire::method::Method;
use wire::{ChannelNumber, DeliveryTag, Table};

/// What was carried out since the last look, and the batches for four shards.
pub struct RecordedEffects {
    pub pool: Pool,
    pub blocked: BTreeSet<ConnectionSlot>,
    pub batches: [ShardBatch; 4],
    list: Vec<String>,
}

impl Default for RecordedEffects {
    fn default() -> Self {
        let (pool, batches) = (Pool::new(PoolOptions::default()), Default::default());
        RecordedEffects { pool, blocked: BTreeSet::new(), batches, list: Vec::new() }
    }
}

impl RecordedEffects {
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.list).join(" | ")
    }
}

pub fn body_text(content: &Content<'_>) -> String {
    match content.body {
        BodyRef::Small(body) => String::from_utf8_lossy(body).into_owned(),
        BodyRef::Large(slice) => format!("{} bytes", slice.len()),
    }
}

impl Effects for RecordedEffects {
    fn random(&mut self) -> u64 {
        0
    }
    fn has_capacity(&self, slot: ConnectionSlot) -> bool {
        !self.blocked.contains(&slot)
    }
    fn deliver(&mut self, slot: ConnectionSlot, _: ChannelNumber, delivery: Delivery<'_>) {
        let again = if delivery.redelivered { "!" } else { "" };
        self.list.push(format!("{slot}: #{}={}{again}", delivery.tag, body_text(&delivery.content)));
    }
    fn accepted_deliveries(&self, slot: ConnectionSlot, _: &Delivery<'_>, most: usize) -> usize {
        if self.has_capacity(slot) { most } else { 0 }
    }
    fn get_ok(
        &mut self,
        slot: ConnectionSlot,
        _: ChannelNumber,
        tag: DeliveryTag,
        _: bool,
        _: u32,
        content: Content<'_>,
    ) {
        self.list.push(format!("{slot}: get#{tag}={}", body_text(&content)));
    }
    fn return_message(&mut self, slot: ConnectionSlot, _: ChannelNumber, refusal: &Refusal, _: Content<'_>) {
        self.list.push(format!("{slot}: return {}", refusal.text));
    }
    fn reply(&mut self, slot: ConnectionSlot, _: ChannelNumber, method: Method<'_>) {
        self.list.push(format!("{slot}: {}", method.name()));
    }
    fn confirm(&mut self, slot: ConnectionSlot, _: ChannelNumber, confirm: Confirm) {
        let outcome = if confirm.outcome == ConfirmOutcome::Accepted { "ack" } else { "nack" };
        let multiple = if confirm.multiple { "+" } else { "" };
        self.list.push(format!("{slot}: {outcome} {}{multiple}", confirm.delivery_tag));
    }
    fn refuse(&mut self, slot: ConnectionSlot, _: ChannelNumber, refusal: Refusal, _: (u16, u16)) {
        self.list.push(format!("{slot}: refuse {}", refusal.text));
    }
    fn resume(&mut self, slot: ConnectionSlot) {
        self.list.push(format!("{slot}: resume"));
    }
    fn throttle(&mut self, slot: ConnectionSlot) {
        self.list.push(format!("{slot}: throttle"));
    }
    fn batch(&mut self, to: ShardId) -> &mut ShardBatch {
        &mut self.batches[usize::from(to.0)]
    }
    fn admin_request(&mut self, _: AdminRequest) -> Result<(), AdminRequestError> {
        Err(AdminRequestError::Unavailable)
    }
}

impl MessageStorage for RecordedEffects {
    fn pool(&self) -> &Pool {
        &self.pool
    }
    fn append(&mut self, _: QueueUid, _: QueuePosition, _: Message) -> AppendResult {
        AppendResult::Durable
    }
    fn append_run(&mut self, _: QueueUid, _: QueuePosition, _: &[Message]) -> AppendResult {
        AppendResult::Durable
    }
    fn forget(&mut self, _: QueueUid, _: QueuePosition, _count: u32) {}
    fn mark_delivered(&mut self, _: QueueUid, _: QueuePosition, _: u32) {}
    fn mark_returned(&mut self, _: QueueUid, _: QueuePosition, _times: u32) {}
    fn begin_commit(&mut self) {}
    fn end_commit(&mut self) -> AppendResult {
        AppendResult::Durable
    }
    fn settled(&mut self) -> AppendResult {
        AppendResult::Durable
    }
    fn await_durable(&mut self, ticket: u64) {
        self.list.push(format!("await {ticket}"));
    }
    fn drop_queue(&mut self, _: QueueUid) {}
    fn page_out(&mut self, _: QueueUid, _: &mut dyn Iterator<Item = (QueuePosition, &Message)>) -> bool {
        false
    }
    fn page_in(&mut self, _: QueueUid, _first: QueuePosition, _end: QueuePosition) {}
    fn forget_paged(&mut self, _: QueueUid, _first: QueuePosition, _end: QueuePosition) {}
}

/// A queue of virtual host 0 on shard 0.
pub fn queue_definition(name: &str, arguments: Table) -> QueueDefinition {
    QueueDefinition {
        name: Name::from(name),
        vhost: VhostId(0),
        uid: None,
        auto_delete: false,
        home: ShardId(0),
        exclusive: None,
        arguments: Some(Box::new(arguments)),
        policy: None,
    }
}
