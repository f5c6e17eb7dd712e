//! The store's part of a shard's tick: at its beginning what the disk has done, at its end what it is asked for.

use crate::sessions::Sessions;
use std::time::Instant;

impl Sessions {
    /// Takes what the disk has done, and tells the broker core what is durable.
    pub fn complete_writes(&mut self, now: Instant) {
        let Sessions { options, broker, effects, shared, .. } = self;
        let Some(mut store) = effects.store.take() else { return };
        let now_us = options.time_us(now);
        store.complete(now_us);
        let durable = store.take_durable(shared.store.durable_definitions());
        effects.store = Some(store);
        if let Some(ticket) = durable {
            broker.durable(ticket, effects);
            broker.flush_batch(effects);
        }
    }

    /// Asks the disk for what is due. Without space publishers are held back; a failure ends the broker.
    pub fn submit_writes(&mut self, now: Instant) {
        let Sessions { options, broker, effects, shared, .. } = self;
        let Some(store) = &mut effects.store else { return };
        let now_us = options.time_us(now);
        store.submit(0, now_us);
        store.check_space(now_us, &shared.store);
        if let Some(error) = store.failure()
            && shared.store.fail(&error.text)
        {
            tracing::error!(shard = options.shard.0, %error, "the disk has failed: the broker ends");
            shared.reactor().stop();
            effects.mailbox.wake_others();
        }
        let is_full = shared.store.is_disk_full();
        if is_full != broker.disk_alarm() {
            tracing::warn!(shard = options.shard.0, is_full, "free space of the disk");
            broker.set_disk_alarm(is_full, effects);
        }
    }

    /// Writes what is not durable yet, before the end of the shard.
    pub fn close_store(&mut self, now: Instant, wait: impl FnMut()) {
        let Sessions { options, effects, .. } = self;
        let Some(store) = &mut effects.store else { return };
        if !store.close(0, options.time_us(now), wait) {
            tracing::warn!(shard = options.shard.0, "the disk did not take everything: what was not confirmed is lost");
        }
    }

    /// Whether another shard has told something that the next tick must see.
    #[inline]
    pub fn has_store_news(&self) -> bool {
        let Some(store) = &self.effects.store else { return false };
        store.has_durable(self.shared.store.durable_definitions())
    }
}
