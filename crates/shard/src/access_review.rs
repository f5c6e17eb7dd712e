//! What happens to connections when users are deleted or lose permissions: those without access to their virtual host
//! are closed (320), and consumers of queues that their users may no longer read are cancelled.
//!
//! It proceeds by a bounded number of connections and consumers a tick.

use crate::connection::ConnectionPhase;
use crate::dispatcher::Dispatcher;
use crate::limits::CONNECTIONS_REVIEWED_MAX;
use broker::ConnectionSlot;
use std::time::Instant;
use wire::ChannelNumber;

/// The connections that were there when access changed, and are not reviewed yet.
#[derive(Default)]
pub(crate) struct AccessReview {
    waiting: Vec<ConnectionSlot>,
    closed: usize,
    cancelled: usize,
}

impl Dispatcher {
    /// Begins a review if access has changed, and continues one that is not complete.
    pub fn review_access(&mut self, now: Instant) {
        if self.sessions.broker.take_access_change() {
            self.access_review.waiting = self.sessions.connections.slots().collect();
        }
        if !self.reviews_access() {
            return;
        }
        for _ in 0..CONNECTIONS_REVIEWED_MAX {
            let Some(slot) = self.access_review.waiting.pop() else { break };
            self.review_connection(slot, now);
        }
        if self.sessions.broker.reviews_consumers() {
            self.access_review.cancelled += self.sessions.broker.review_consumers(&mut self.sessions.effects);
        }
        if !self.reviews_access() {
            let AccessReview { closed, cancelled, .. } = std::mem::take(&mut self.access_review);
            if closed + cancelled > 0 {
                let shard = self.sessions.options.shard.0;
                tracing::info!(shard, connections = closed, consumers = cancelled, "access was revoked");
            }
        }
    }

    /// Whether a review is not complete.
    pub fn reviews_access(&self) -> bool {
        !self.access_review.waiting.is_empty() || self.sessions.broker.reviews_consumers()
    }

    fn review_connection(&mut self, slot: ConnectionSlot, now: Instant) {
        let phase = self.sessions.connections.get(slot).map(|connection| connection.phase);
        let Some(ConnectionPhase::Open { user, vhost }) = phase else { return };
        if let Some(refusal) = self.sessions.broker.catalog().revoked_access(user, vhost) {
            self.access_review.closed += 1;
            self.refuse(slot, ChannelNumber::CONNECTION, refusal, (0, 0), now);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::connection::ConnectionPhase;
    use crate::dispatcher::Dispatcher;
    use crate::limits::CONNECTIONS_REVIEWED_MAX;
    use crate::test_sessions::{LoginClient, sessions};
    use catalog::{Definition, Name};

    #[test]
    fn connections_of_a_user_without_access_are_closed_a_bounded_number_a_tick() {
        let take = Definition::ClearPermission { user: Name::from("guest"), vhost: Name::from("/") };
        for definition in [Definition::DeleteUser { name: Name::from("guest") }, take] {
            let mut dispatcher = Dispatcher::new(sessions());
            let now = dispatcher.sessions.options.epoch;
            let connections = 2 * CONNECTIONS_REVIEWED_MAX;
            let mut clients = Vec::new();
            for _ in 0..connections {
                let mut client = LoginClient::connect(&mut dispatcher.sessions, None);
                client.write_start("PLAIN", b"\0guest\0guest");
                client.write_open();
                client.send();
                clients.push(client);
            }
            dispatcher.serve_ready(now);
            let open = |dispatcher: &Dispatcher| {
                let slots = dispatcher.sessions.connections.slots();
                let phases =
                    slots.filter_map(|slot| dispatcher.sessions.connections.get(slot)).map(|found| found.phase);
                phases.filter(|phase| matches!(phase, ConnectionPhase::Open { .. })).count()
            };
            assert_eq!(open(&dispatcher), connections);
            dispatcher.review_access(now);
            assert_eq!(open(&dispatcher), connections, "nothing has changed");
            let (broker, effects) = (&mut dispatcher.sessions.broker, &mut dispatcher.sessions.effects);
            broker.define_as_operator(definition.clone(), effects).expect("it is taken");
            let mut ticks = 0;
            loop {
                dispatcher.review_access(now);
                ticks += 1;
                assert!(open(&dispatcher) >= connections.saturating_sub(ticks * CONNECTIONS_REVIEWED_MAX));
                if !dispatcher.reviews_access() {
                    break;
                }
            }
            assert_eq!(open(&dispatcher), 0, "{definition:?}");
            assert!(ticks >= 2);
        }
    }
}
