//! A queue of which messages cannot be read: it is closed, until it is purged or deleted or the broker starts again.
//!
//! Its consumers are cancelled. Whoever asks something of it is refused as for a queue that is down (404), publishes are refused
//! as if it were full, and what else would go to it stays where it is in the store. What it has is left as it is.

use crate::control_plane::ControlPlane;
use crate::deferred_work::DeferredWork;
use crate::dispatcher::Dispatcher;
use crate::effects::Effects;
use crate::shard_message::{QueueRequest, QueueResponse};
use catalog::{QueueId, QueueUid, Refusal};
use wire::ReplyCode;

impl ControlPlane<'_> {
    /// Closes a queue. Returns whether it is there, and was open.
    pub fn close_queue<E: Effects>(&mut self, uid: QueueUid, fx: &mut E) -> bool {
        let Dispatcher { queues, flow, work, now_us, .. } = &mut self.data.dispatcher;
        let Some(id) = queues.by_uid(uid) else { return false };
        let Some(consumers) = queues.close(id, *now_us) else { return false };
        // Whoever waits for its messages or its space waits no longer.
        self.sessions.deferred.leave_gets(id, queues.housekeeping.paging.take_gets(id));
        if let Some(queue) = queues.table.get_mut(id) {
            flow.release(queue, self.sessions, work, fx);
        }
        self.data.dispatcher.review_demand(id, fx);
        self.data.dispatcher.pager().run_turns(fx);
        self.sessions.deferred.leave(DeferredWork::CancelConsumers(Box::new(consumers)));
        true
    }

    /// The response to a request that a closed queue refuses.
    pub fn refuse_closed(&self, id: QueueId, request: &QueueRequest) -> Option<QueueResponse> {
        let is_refused = match request {
            QueueRequest::Counts | QueueRequest::Get { .. } | QueueRequest::Consume(_) => true,
            // These lose what cannot be read, as they are to.
            QueueRequest::Purge | QueueRequest::Deletable { .. } => false,
            QueueRequest::Cancel(_) | QueueRequest::ReplyConsumer(_) => false,
        };
        let queue = self.data.dispatcher.queues.table.get(id).filter(|queue| is_refused && queue.is_closed())?;
        let queue = self.definitions.describe_queue(queue.id);
        let text = format!("NOT_FOUND - {queue} is closed: the disk cannot read some of its messages");
        Some(QueueResponse::Refused(Refusal::channel(ReplyCode::NotFound, text)))
    }
}
