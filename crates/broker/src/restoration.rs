//! Restoration: durable queues, and exchanges that delay, get the messages of an earlier life of the broker, before any client
//! connects.

use crate::dispatcher::Dispatcher;
use crate::effects::Effects;
use crate::forwarder::Forwarder;
use catalog::{Catalog, QueueUid};
use queues::{PageSummary, QueueEntry, QueuePosition, StoredPosition, with_delivery_count};

/// What a message from the store may touch.
pub(crate) struct Restoration<'a> {
    pub catalog: &'a Catalog,
    pub dispatcher: &'a mut Dispatcher,
    pub forwarder: &'a mut Forwarder,
}

impl Restoration<'_> {
    /// A message of a queue, behind those before it. Returns whether it waits there now.
    pub fn restore<E: Effects>(
        &mut self,
        uid: QueueUid,
        mut entry: QueueEntry,
        times_returned: u32,
        fx: &mut E,
    ) -> bool {
        if self.forwarder.delays(uid) {
            let stored = StoredPosition { uid, position: entry.position };
            self.forwarder.restore_delayed(stored, &entry.message, self.catalog, fx.pool());
            return true;
        }
        let queues = &mut self.dispatcher.queues;
        let Some(queue) = queues.by_uid(uid).and_then(|id| queues.table.get_mut(id)) else { return false };
        if times_returned > 0 {
            entry.message = with_delivery_count(&entry.message, Some(times_returned), fx.pool());
        }
        let (position, message) = (entry.position, entry.message.clone());
        if !queue.ready.recover(entry) {
            return false;
        }
        let expires = message.has_expiration();
        queue.expiring |= expires;
        if times_returned > 0
            && let Some(features) = queue.features.as_mut().filter(|features| features.delivery_limit.is_some())
        {
            features.restore_returns(position, times_returned);
        }
        queues.housekeeping.note_waiting(&message);
        true
    }

    /// A page of a queue, in the same order.
    pub fn restore_page(&mut self, uid: QueueUid, page: PageSummary) {
        let queues = &mut self.dispatcher.queues;
        let Some(queue) = queues.by_uid(uid).and_then(|id| queues.table.get_mut(id)) else { return };
        let before = queue.ready.pages_len();
        if queue.ready.recover_page(page) {
            queue.expiring |= page.may_have_expiration;
            queues.housekeeping.paging.pages += queue.ready.pages_len() - before;
        }
    }

    /// A queue has its messages. The positions of new ones go on from these.
    pub fn finish<E: Effects>(&mut self, uid: QueueUid, next: &[QueuePosition], fx: &mut E) {
        if self.forwarder.delays(uid) {
            return self.forwarder.finish_restore(uid, next, self.dispatcher);
        }
        let Dispatcher { queues, flow, channels, now_us, .. } = &mut *self.dispatcher;
        let Some(id) = queues.by_uid(uid) else { return };
        let Some(queue) = queues.table.get_mut(id) else { return };
        for &position in next {
            queue.ready.skip_to(position);
        }
        queues.housekeeping.rearm(queue);
        queues.housekeeping.quotas.update(queue);
        flow.after_push(queue, channels, *now_us, fx);
        // Nobody publishes.
        flow.slow_queue = None;
        // Messages may have expired, or be more than the queue may have now.
        queues.mark_due(id);
    }
}
