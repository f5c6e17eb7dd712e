//! Runs of publishes: messages that repeat the one before them go straight to consumers, all at once.
//!
//! A publish that differs from the one before it in its body alone takes the same path, as long as nothing on that path has
//! changed. What would be decided anew for each of them is decided once, and how many of them that holds for is known before any
//! of them is delivered. The others are published one by one, as if there were no runs.

use crate::broker::Broker;
use crate::channel::ChannelMode;
use crate::effects::Effects;
use crate::ids::{ConnectionSlot, PublishKey};
use crate::publish_route::same;
use crate::publishing::{Publish, Publishing};
use catalog::RoutedQueue;
use queues::{AppendResult, BodyRef, Content};
use wire::{BodyRun, ChannelNumber, RawProperties};

impl Broker {
    /// Publishes that differ from one that was just accepted in their bodies alone: as many of them as queues take at once. Returns
    /// how many; the publisher may continue with the next by [`Broker::publish`].
    #[inline]
    pub fn publish_repeats<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        number: ChannelNumber,
        publish: &Publish<'_>,
        bodies: BodyRun<'_>,
        fx: &mut E,
    ) -> usize {
        self.publishing().publish_repeats(slot, number, publish, bodies, fx)
    }
}

impl Publishing<'_> {
    /// Publishes that differ from `publish` in their bodies alone, and follow it: it was accepted, and nothing else has happened
    /// since. Delivers as many of them as queues take at once. Returns how many: their publisher may continue with the next.
    pub fn publish_repeats<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        number: ChannelNumber,
        publish: &Publish<'_>,
        bodies: BodyRun<'_>,
        fx: &mut E,
    ) -> usize {
        let properties = publish.properties;
        if looks_at_each(properties) {
            return 0;
        }
        let Some(key) = self.sessions.channel_key(slot, number) else { return 0 };
        let version = self.catalog.version();
        let dispatcher = &mut self.data.dispatcher;
        let Some(channel) = dispatcher.channels.get_mut(key) else { return 0 };
        if matches!(channel.mode, ChannelMode::Transaction(_)) {
            return 0;
        }
        let cache = channel.route_cache.as_mut();
        let known = cache.filter(|cache| cache.version == version && same(&cache.exchange, publish.exchange));
        let Some(route) = known.and_then(|cache| cache.get(publish.routing_key, properties)) else { return 0 };
        if route.stamped || !route.held.is_empty() {
            return 0;
        }
        let content = Content {
            exchange: publish.exchange,
            routing_key: publish.routing_key,
            properties: properties.as_bytes(),
            body: BodyRef::Small(bodies.first()),
            bcc: &[],
            arrived_us: dispatcher.now_us,
        };
        let next_dead_letter = dispatcher.queues.housekeeping.dead_letters.next_number();
        let identity = dispatcher.identity;
        let (delivered, sent_to) = match &*route.queues {
            [only] if !identity.is_home(only.home) => {
                let confirm = matches!(channel.mode, ChannelMode::Confirm);
                (send_run(only, &content, bodies, confirm, fx), Some(only.home))
            }
            queues if queues.iter().all(|queue| identity.is_home(queue.home)) => {
                let queues = queues.iter().map(|queue| queue.id);
                (dispatcher.deliver_run(queues, &content, bodies, fx), None)
            }
            _ => (0, None),
        };
        if delivered == 0 {
            return 0;
        }
        let messages = delivered as u64;
        self.data.published += messages;
        self.data.body_sizes.record_alike(bodies.body_bytes(), messages);
        if let Some(shard) = sent_to {
            self.data.forwarder.mail_tally.note(shard, messages, bodies.body_bytes());
        }
        let dispatcher = &mut self.data.dispatcher;
        let append = dispatcher.run_lists.append;
        let Some((channel, counts)) = dispatcher.channels.get_with_counts(key) else { return delivered };
        channel.stats.publish += messages;
        channel.note_change(key, &mut counts.changes);
        if matches!(channel.mode, ChannelMode::Confirm) {
            let first = channel.confirms.published + 1;
            channel.confirms.published += messages;
            self.data.confirms.mark_due(key, &mut channel.confirms);
            let publish = |number| PublishKey { channel: key, number };
            if let Some(shard) = sent_to {
                for number in first..first + messages {
                    self.data.confirms.await_shard(shard, publish(number));
                    channel.confirms.pending.push_back((number, 1));
                }
            } else if let Some(AppendResult::Pending(ticket)) = append {
                self.data.confirms.await_store_run(ticket, messages, publish(first), &mut channel.confirms, fx);
            }
        }
        if let Some(cache) = &mut channel.route_cache {
            cache.count(&route, messages);
        }
        if self.data.dispatcher.queues.housekeeping.dead_letters.next_number() != next_dead_letter {
            self.route_dead_letters_of(slot, next_dead_letter, fx);
            // A publisher that is throttled from now on learns that with its next publish.
            let _read_control = self.after_publish(slot, false, &route, fx);
        }
        delivered
    }
}

/// Sends messages that are alike to their only queue, which is of another shard. Returns how many: none of those that do not travel
/// as bytes.
fn send_run<E: Effects>(
    queue: &RoutedQueue,
    content: &Content<'_>,
    bodies: BodyRun<'_>,
    confirm: bool,
    fx: &mut E,
) -> usize {
    let batch = fx.batch(queue.home);
    let mut push = |body| {
        let content = Content { body: BodyRef::Small(body), ..*content };
        batch.push_publish(&content, std::iter::once(queue.id), confirm)
    };
    bodies.iter().take_while(|body| push(body)).count()
}

/// Whether something is done for each message with these properties that none before it can spare it.
#[inline]
fn looks_at_each(properties: RawProperties<'_>) -> bool {
    properties.has_headers() || properties.has_expiration() || properties.has_reply_to() || properties.has_user_id()
}
