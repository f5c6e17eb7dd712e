//! The review of a federated queue: whether it has consumers who would take more, and nothing for them.

use crate::dispatcher::Dispatcher;
use crate::effects::Effects;
use catalog::QueueId;
use queues::{ConsumerAnswer, ConsumerRef};

/// Consumers of lower priorities want nothing of upstreams: those of links, which would take from each other in circles.
const PRIORITY_MIN: i32 = 0;

impl Dispatcher {
    /// Looks whether a federated queue wants messages: nothing waits in it, and a consumer would take one. If the budget of the turn
    /// is spent on consumers that would not, the others are asked when the queue is dispatched again.
    #[cold]
    pub fn review_demand<E: Effects>(&mut self, id: QueueId, fx: &mut E) {
        let Dispatcher { queues, channels, remotes, work, demand, .. } = self;
        let Some(queue) = queues.table.get_mut(id) else { return };
        let is_open = queue.features.as_ref().is_some_and(|features| features.is_federated && !features.is_closed);
        let mut is_interrupted = false;
        let is_wanting = is_open
            && queue.ready.is_empty()
            && queue.consumers.has_accepting(PRIORITY_MIN, |consumer| {
                let accepts = match consumer {
                    ConsumerRef::Local(key) => {
                        let accepts = channels.accepts(key, fx);
                        if !accepts {
                            channels.await_capacity(key, fx);
                        }
                        accepts
                    }
                    ConsumerRef::Remote(key) => remotes.accepts(key),
                };
                if accepts {
                    return ConsumerAnswer::Accepts;
                }
                work.draw(1);
                is_interrupted = work.is_spent();
                if is_interrupted { ConsumerAnswer::LastIdle } else { ConsumerAnswer::Idle }
            });
        if is_wanting != queue.wants_messages {
            queue.wants_messages = is_wanting;
            demand.tell(id, is_wanting, fx);
        }
        if is_interrupted {
            queues.mark_due(id);
        }
    }
}
