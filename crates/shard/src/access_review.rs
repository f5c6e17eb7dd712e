//! What happens to connections when users are deleted or lose permissions: those without access to their virtual host
//! are closed (320), and consumers of queues that their users may no longer read are cancelled.
//!
//! It proceeds by a bounded number of connections and consumers a tick.

use crate::connection::ConnectionPhase;
use crate::limits::CONNECTIONS_REVIEWED_MAX;
use crate::sessions::Sessions;
use broker::ConnectionSlot;
use catalog::Refusal;

/// The connections that were there when access changed, and are not reviewed yet.
#[derive(Default)]
pub(crate) struct AccessReview {
    waiting: Vec<ConnectionSlot>,
    closed: usize,
    cancelled: usize,
}

impl AccessReview {
    /// Begins a review if access has changed, and continues one that is not complete. Returns the connections that are to be
    /// closed, and why.
    pub fn proceed(&mut self, sessions: &mut Sessions) -> Vec<(ConnectionSlot, Refusal)> {
        if sessions.broker.take_access_change() {
            self.waiting = sessions.connections.slots().collect();
        }
        if !self.is_under_way(sessions) {
            return Vec::new();
        }
        let reviewed = self.waiting.split_off(self.waiting.len().saturating_sub(CONNECTIONS_REVIEWED_MAX));
        let revoked: Vec<_> =
            reviewed.into_iter().rev().filter_map(|slot| Some((slot, revoked_access(slot, sessions)?))).collect();
        self.closed += revoked.len();
        if sessions.broker.reviews_consumers() {
            self.cancelled += sessions.broker.review_consumers(&mut sessions.effects);
        }
        if !self.is_under_way(sessions) {
            let AccessReview { closed, cancelled, .. } = std::mem::take(self);
            if closed + cancelled > 0 {
                let shard = sessions.options.shard.0;
                tracing::info!(shard, connections = closed, consumers = cancelled, "access was revoked");
            }
        }
        revoked
    }

    /// Whether a review is not complete.
    pub fn is_under_way(&self, sessions: &Sessions) -> bool {
        !self.waiting.is_empty() || sessions.broker.reviews_consumers()
    }
}

/// Why the user of a connection may not use its virtual host any more.
pub(crate) fn revoked_access(slot: ConnectionSlot, sessions: &Sessions) -> Option<Refusal> {
    let ConnectionPhase::Open { user, vhost } = sessions.connections.get(slot)?.phase else { return None };
    sessions.broker.catalog().revoked_access(user, vhost)
}
