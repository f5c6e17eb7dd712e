//! The store's part of a shard's tick: at its beginning what the disk has done, at its end what it is asked for.

use crate::limits::PAGES_PER_TICK;
use crate::sessions::Sessions;
use catalog::QueueUid;
use durability::{JournalEvent, ReadPage, StoreDamage};
use queues::MessageStorage;
use std::time::{Duration, Instant};
use store::DiskError;
use store::limits::MARK_DELAY_US;

impl Sessions {
    /// Takes what the disk has done, and tells the broker core what is durable, and whether a disk of any shard is full: without
    /// space publishers are held back.
    pub fn complete_writes(&mut self, now: Instant) {
        let Sessions { options, broker, effects, shared, .. } = self;
        let Some(mut store) = effects.store.take() else { return };
        let now_us = options.time_us(now);
        store.complete(now_us);
        let first_undurable = shared.store.first_undurable();
        if first_undurable > 0 && store.has_unclaimed_uids() {
            store.claim_uids();
        }
        let durable = store.take_durable(first_undurable);
        effects.store = Some(store);
        if let Some(ticket) = durable {
            broker.durable(ticket, effects);
            broker.flush_batch(effects);
        }
        let is_full = shared.store.is_disk_full();
        if is_full != broker.disk_alarm() {
            tracing::warn!(shard = options.shard.0, is_full, "free space of the disk");
            broker.set_disk_alarm(is_full, effects);
        }
        self.take_pages();
    }

    /// Shard 0: writes what definitions have changed, and tells all shards what is durable.
    pub fn poll_journal(&mut self, now: Instant) {
        let Sessions { options, broker, effects, shared, .. } = self;
        let now_us = options.time_us(now);
        let mut failure = None;
        while let Some(event) = effects.poll_journal(broker.catalog_mut(), now_us) {
            match event {
                JournalEvent::Durable(version) => {
                    broker.definitions_durable(version, effects);
                    broker.flush_batch(effects);
                    shared.store.set_durable_definitions(Some(version));
                    // Groups of messages may have waited for it.
                    effects.mailbox.wake_others();
                }
                JournalEvent::NoSpace(error) => {
                    tracing::warn!(%error, "the disk is full");
                    shared.store.set_space(false);
                    effects.mailbox.wake_others();
                }
                JournalEvent::Space => {
                    shared.store.set_space(true);
                    effects.mailbox.wake_others();
                }
                JournalEvent::Damaged(damage) => tracing::error!(%damage, "the journal of definitions is damaged"),
                JournalEvent::Unreadable(error) => {
                    tracing::error!(%error, "the disk cannot read a part of the journal of definitions");
                }
                JournalEvent::Failed(error) => failure = Some(error),
            }
        }
        failure.iter().for_each(|error| self.fail(error));
    }

    /// The disk has failed: the broker ends.
    fn fail(&self, error: &DiskError) {
        if self.shared.store.fail(&error.text) {
            tracing::error!(shard = self.options.shard.0, %error, "the disk has failed: the broker ends");
            self.shared.reactor().stop();
            self.effects.mailbox.wake_others();
        }
    }

    /// Asks the disk for what is due, and tells all shards whether it has space. A failure ends the broker.
    pub fn submit_writes(&mut self, now: Instant) {
        let Sessions { options, broker, effects, shared, .. } = self;
        let Some(store) = &mut effects.store else { return };
        let now_us = options.time_us(now);
        if store.check_space(now_us, &shared.store) {
            // Their publishers are told, although nothing else happens there.
            effects.mailbox.wake_others();
        }
        store.submit(broker.definitions_version(), now_us);
        let failure = store.failure().cloned();
        failure.iter().for_each(|error| self.fail(error));
    }

    /// Writes what is not durable yet, before the end of the shard.
    pub fn close_store(&mut self, now: Instant, mut wait: impl FnMut()) {
        // Of definitions that nobody waits for, too; at a time at which the mark is due that proves them.
        let marked_at = now + Duration::from_micros(MARK_DELAY_US);
        self.effects.journal.iter_mut().for_each(|journal| journal.close());
        self.poll_journal(marked_at);
        while self.effects.journal.as_ref().is_some_and(|journal| journal.is_busy()) {
            wait();
            self.poll_journal(marked_at);
        }
        let Sessions { options, broker, effects, shared, .. } = self;
        let Some(store) = &mut effects.store else { return };
        if shared.store.first_undurable() > 0 {
            store.claim_uids();
        }
        let is_durable = store.close(broker.definitions_version(), options.time_us(now), wait);
        match store.failure().cloned() {
            Some(error) => self.fail(&error),
            None if is_durable => {}
            None => tracing::warn!(
                shard = options.shard.0,
                "the disk did not take everything: what was not confirmed is lost"
            ),
        }
    }

    /// Hands queues the pages that they wanted back, a few in a tick.
    fn take_pages(&mut self) {
        for _ in 0..PAGES_PER_TICK {
            let Some(mut store) = self.effects.store.take() else { return };
            let page = store.take_page(self.effects.pool());
            // A queue of which messages are missing is closed before it gets the others.
            let damage = store.take_damage();
            self.effects.store = Some(store);
            self.close_damaged(damage);
            let Sessions { broker, effects, .. } = self;
            let Some(ReadPage { queue, first, messages }) = page else { return };
            if let Some(queue) = QueueUid::new(queue.0) {
                broker.paged_in(queue, first, messages, effects);
                broker.flush_batch(effects);
            }
        }
    }

    /// Names messages that cannot be read. A queue that wants them is closed; of another one they may be in memory.
    fn close_damaged(&mut self, found: Vec<StoreDamage>) {
        if found.is_empty() {
            return;
        }
        let Sessions { options, broker, effects, .. } = self;
        for damage in found {
            let uid = damage.queue();
            let definition = uid.and_then(|uid| broker.catalog().queue_definition(broker.queue_of(uid)?));
            let queue = definition.map(|definition| definition.name.shared());
            let vhost = definition.map(|definition| broker.catalog().vhost_name(definition.vhost).to_owned());
            let (shard, queue) = (options.shard.0, queue.as_deref());
            if uid.is_some_and(|uid| damage.is_wanted() && broker.close_queue(uid, effects)) {
                tracing::error!(shard, %damage, vhost, queue, "a queue is closed: messages of it cannot be read");
            } else {
                tracing::error!(shard, %damage, vhost, queue, "messages of a queue cannot be read");
            }
        }
        broker.flush_batch(effects);
    }

    /// Whether another shard has told something that the next tick must see, a page may be there, or messages are known to be damaged.
    #[inline]
    pub fn has_store_news(&self) -> bool {
        let Some(store) = &self.effects.store else { return false };
        let first_undurable = self.shared.store.first_undurable();
        let is_durable = store.has_durable(first_undurable) || (store.awaits_claim() && first_undurable > 0);
        let is_alarmed = self.broker.disk_alarm();
        is_durable || is_alarmed != self.shared.store.is_disk_full() || store.has_pages() || store.has_damage()
    }
}
