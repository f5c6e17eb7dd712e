//! The memory check of a shard: adds up what it holds, and carries out what follows from that.

use crate::effects::DeferredRefusal;
use crate::limits::{CONNECTIONS_ADDED_UP_MAX, SCARCE_FRAME_BYTES_MAX};
use crate::partial_check::PartialCheck;
use crate::sessions::Sessions;
use broker::{ConnectionSlot, MemoryUse};
use catalog::Refusal;
use queues::MessageStorage;
use std::time::Instant;
use wire::{ChannelNumber, ReplyCode};

const PARTIAL_TEXT: &str = "RESOURCE_ERROR - memory is low, and the connection holds much that has not arrived whole";

impl Sessions {
    /// What changes when memory is taken: the blocks of this shard, and the heap of the process.
    #[inline]
    pub fn seen_bytes(&self) -> usize {
        self.effects.pool().used_bytes() + self.shared.heap_bytes().unwrap_or(0) as usize
    }

    /// Bytes in use by this shard. Where nobody counts the heap, its lists of messages are estimated.
    pub fn used_bytes(&self) -> usize {
        let spare_bytes = self.connections.body_room().spare_bytes;
        self.effects.pool().used_bytes().saturating_sub(spare_bytes) + self.list_bytes()
    }

    /// What waiting messages will take beside that once they are delivered and unsettled: a delivery must not take the broker
    /// over its limit. The estimate of lists has it.
    fn settlement_bytes(&self) -> usize {
        if self.shared.heap_bytes().is_some() { self.broker.settlement_bytes() } else { 0 }
    }

    fn list_bytes(&self) -> usize {
        if self.shared.heap_bytes().is_some() {
            return 0;
        }
        let store_bytes = self.effects.store.as_ref().map_or(0, |store| store.heap_bytes());
        self.broker.list_overhead_bytes() + store_bytes
    }

    /// Checks memory in the middle of a tick, if much was taken since the last check.
    #[inline]
    pub fn check_memory_growth(&mut self, now: Instant) {
        if self.memory.exceeds_step(self.seen_bytes()) {
            self.check_memory(now);
        }
    }

    /// Adds up the memory in use, if that is due, and raises or ends the alarms.
    pub fn check_memory(&mut self, now: Instant) {
        if !self.memory.start_check(self.seen_bytes(), now) {
            return;
        }
        self.record_copied_bytes();
        self.effects.pool().collect();
        let list_bytes = self.list_bytes();
        let untouched_bytes = self.connections.body_room().untouched_bytes;
        let provided_bytes = self.effects.pool().mapped_bytes().saturating_sub(untouched_bytes);
        let is_short = self.memory.record_held(provided_bytes + list_bytes, &self.shared);
        if is_short {
            self.connections.give_back_room(self.effects.pool());
            self.effects.pool().trim();
        }
        let occupied_bytes = self.effects.pool().occupied_bytes().saturating_sub(untouched_bytes);
        self.shared.record_occupied_bytes(self.options.shard, occupied_bytes as u64);
        if self.memory.start_share_check(now)
            && let Some(share) = self.shared.definition_share(self.options.shard, self.effects.replicas.subscribers())
        {
            self.broker.catalog_mut().set_definition_share(share);
        }
        let heap_bytes = self.shared.heap_bytes().map_or(list_bytes, |bytes| bytes as usize);
        if self.memory.should_trim_heap(heap_bytes, is_short, now) {
            slab::trim_heap();
        }
        let was_alarmed = self.broker.memory_alarm();
        if let Some(over) =
            self.memory.record_used(self.used_bytes(), self.settlement_bytes(), was_alarmed, &self.shared)
        {
            tracing::warn!(shard = self.options.shard.0, over, bytes = self.shared.used_bytes(), "memory limit");
            self.shared.memory_alarms.change(over);
            self.broker.set_memory_alarm(over, &mut self.effects);
        }
        self.effects.outputs.limit_deliveries(self.memory.pressure());
        self.broker.hold_dead_letters(self.memory.pressure().holds_letters);
        if self.memory.pressure().is_low || was_alarmed {
            self.check_partial_contents(now);
        }
        self.check_vhosts();
    }

    fn check_vhosts(&mut self) {
        let Sessions { options, broker, effects, shared, memory, .. } = self;
        let changed = memory.record_vhosts(broker.vhost_quotas(), |vhost| broker.is_vhost_full(vhost), shared);
        for vhost in changed {
            let (full, vhost_name) = (vhost.is_full, broker.catalog().vhost_name(vhost.vhost));
            let shard = options.shard.0;
            tracing::warn!(shard, vhost = vhost_name, full, bytes = vhost.bytes, "limit of a virtual host's queues");
            broker.set_vhost_full(vhost.vhost, full, effects);
        }
    }

    /// Publishes how many bytes of bodies this shard has copied.
    pub fn record_copied_bytes(&self) {
        self.shared.record_copied_bytes(self.options.shard, self.effects.copied);
    }

    /// Whether the next command of a connection must wait until memory is not low any more. The connection is told.
    #[cold]
    pub fn must_await_memory(&mut self, slot: ConnectionSlot, input: &[u8]) -> bool {
        let Some(connection) = self.connections.get(slot) else { return false };
        let Some(frame) = connection.inbound.peek(input) else { return false };
        let pressure = self.memory.pressure();
        let memory_use = frame.method.and_then(|method| self.broker.memory_use(slot, frame.channel, &method));
        let must_wait = match memory_use {
            _ if frame.payload_bytes > SCARCE_FRAME_BYTES_MAX => true,
            Some(MemoryUse::Message) => pressure.holds_messages,
            Some(MemoryUse::Definition) => pressure.holds_definitions,
            None => false,
        };
        if must_wait {
            self.broker.await_memory(slot, &mut self.effects);
        }
        must_wait
    }

    /// Whether a connection waits for memory whose peer has gone, with a command that is not taken or not whole: nobody
    /// else needs it.
    pub fn waits_in_vain(&self, slot: ConnectionSlot) -> bool {
        self.broker.awaits_memory(slot)
            || (self.broker.is_blocked_by_memory(slot)
                && self.connections.get(slot).is_some_and(|connection| connection.partial_bytes() > 0))
    }

    /// While memory is low nobody reads what completes a message: if too much of it is of messages that are not whole, the
    /// connection with most of them ends, of the user with most. Very many connections are looked at with several checks.
    fn check_partial_contents(&mut self, now: Instant) {
        if !self.memory.pressure().is_low {
            self.memory.partial_check = PartialCheck::default();
            let _none = self.shared.record_partial_bytes(self.options.shard, 0);
            return;
        }
        if !self.memory.partial_check.is_under_way() && !self.memory.start_partial_check(now) {
            return;
        }
        let Some(sums) = self.memory.partial_check.proceed(&self.connections, CONNECTIONS_ADDED_UP_MAX) else { return };
        if !self.shared.record_partial_bytes(self.options.shard, sums.bytes as u64) {
            return;
        }
        if let Some(most) = sums.most
            && most.is_still_there(&self.connections)
        {
            let refusal = Refusal::connection(ReplyCode::ResourceError, PARTIAL_TEXT);
            let (slot, channel) = (most.slot, ChannelNumber::CONNECTION);
            self.effects.refusals.push(DeferredRefusal { slot, channel, refusal, method: (0, 0) });
        }
    }
}
