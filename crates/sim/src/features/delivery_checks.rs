//! Checks of deliveries: content, routing, order, flags, priorities, prefetch and single active consumers.

use super::certainty::Certainty;
use super::dead_letters::{self, IdentifiedMessage, number_of};
use super::shadow_model::{PublishOutcome, SettlementProgress, ShadowModel};
use crate::client_connection::ReceivedMessage;
use crate::simulated_client::{ClientRequest, ConsumerState, PendingRequest, UnsettledDelivery};
use crate::world::SimulatedWorld;

/// What a message was delivered to.
#[derive(Clone, Copy)]
pub enum Recipient {
    /// A consumer, by its index in the channel.
    Consumer(usize),
    /// A `basic.get`.
    Get {
        /// It needs no acknowledgement.
        no_ack: bool,
    },
}

/// Violations that a later event may excuse; they are decided at the next rest.
#[derive(Default)]
pub struct Suspicions {
    /// Only the final drain is left: deliveries arrive in the order of their queues.
    pub draining: bool,
    /// Deliveries out of order: their queue, the period in which the message was sent, and the violation.
    pub disorder: Vec<(usize, u32, String)>,
    /// Deliveries flagged as redelivered for no known reason: their queue, and the violation.
    pub unexplained_flags: Vec<(usize, String)>,
}

/// Checks what a client receives.
pub struct DeliveryChecker<'a> {
    pub world: &'a mut SimulatedWorld,
    pub model: &'a mut ShadowModel,
    pub suspicions: &'a mut Suspicions,
}

impl DeliveryChecker<'_> {
    /// Identifies a received message: as published, or as a dead letter of that.
    fn identify(&mut self, queue: Option<usize>, received: &ReceivedMessage) -> Option<IdentifiedMessage> {
        let id = received.body.first_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes));
        let known = id.and_then(|id| Some((id, self.model.messages.get(&id)?.outcome)));
        let Some((id, outcome)) = known else {
            self.world.trace.fail(format!("a message was delivered that nobody published: {received:?}"));
            return None;
        };
        let identified = match dead_letters::identify(self.model, id, queue, received) {
            Ok(identified) => identified,
            Err(what) => {
                self.world.trace.fail(format!("message {id} has changed: {what}"));
                return None;
            }
        };
        if matches!(outcome, PublishOutcome::Staged | PublishOutcome::Never) {
            self.world
                .trace
                .fail(format!("message {id} was delivered, but its transaction is not committed: {outcome:?}"));
            return None;
        }
        Some(identified)
    }

    /// A queue delivered a message to a client.
    pub fn on_delivery(
        &mut self,
        client: usize,
        channel: usize,
        queue: usize,
        recipient: Recipient,
        received: &ReceivedMessage,
    ) {
        let Some(identified) = self.identify(Some(queue), received) else { return };
        let id = identified.copy;
        let now = self.model.tick();
        self.world.tally.delivered += 1;
        self.world.tally.redelivered += u64::from(received.redelivered);
        self.world.tally.recovered += u64::from(self.model.is_before_crash(id));
        let one = &self.world.clients[client].channels[channel];
        let (uid, name) = (one.uid, self.model.queues[queue].name.clone());
        let flag = if received.redelivered { "!" } else { "" };
        self.world.trace.note(|| format!("channel {uid} gets {id}{flag} from {name} as {}", received.tag));
        let one = &mut self.world.clients[client].channels[channel];
        if received.tag != one.last_tag + 1 {
            let last = one.last_tag;
            return self.world.trace.fail(format!("delivery tag {} after {last} on channel {uid}", received.tag));
        }
        one.last_tag = received.tag;
        if let Some(returns) = identified.returns
            && let Err(what) = self.check_returns(queue, id, returns, received.redelivered)
        {
            return self.world.trace.fail(format!("message {id} was delivered by {name}: {what}"));
        }
        if !identified.deaths.is_empty() {
            if let Err(what) = self.check_deaths(queue, &identified, received) {
                return self.world.trace.fail(format!("dead letter {id} was delivered by {name}: {what}"));
            }
        } else {
            let message = &self.model.messages[&id];
            if !self.model.routes(message, message.routed.unwrap_or(now), false).contains(&queue) {
                return self
                    .world
                    .trace
                    .fail(format!("message {id} was delivered by {name}, where it was never routed"));
            }
            if self.model.is_refused_by(queue, id) {
                return self.world.trace.fail(format!("message {id} was delivered by {name}, which had refused it"));
            }
        }
        if let Err(what) = self.model.check_survival(queue, id) {
            return self.world.trace.fail(what);
        }
        let stream = match recipient {
            Recipient::Consumer(at) => self.world.clients[client].channels[channel].consumers[at].uid << 1,
            Recipient::Get { .. } => u64::from(uid) << 1 | 1,
        };
        if let Recipient::Consumer(at) = recipient {
            let consumer = &self.world.clients[client].channels[channel].consumers[at];
            let (consumer, active) = (consumer.uid, consumer.state == ConsumerState::Active);
            // A delivery to a consumer that was cancelled, or may have been, may have been under way for long.
            if active
                && Certainty::of(self.world, self.model).is_certain(uid)
                && let Some(what) = self.check_single_active(queue, consumer, uid)
            {
                return self.world.trace.fail(what);
            }
        }
        let one = &self.world.clients[client].channels[channel];
        let no_ack = match recipient {
            Recipient::Consumer(at) => one.consumers[at].no_ack,
            Recipient::Get { no_ack } => no_ack,
        };
        // A delivery before recover-ok may have been requeued already, and delivered to others since.
        let recovering = one.pending.as_ref().is_some_and(|pending| matches!(pending.request, ClientRequest::Recover));
        if no_ack || !recovering {
            let order = self.check_order(queue, id, stream, received.redelivered);
            if let Some(what) = order.or(self.check_priority(queue, id, stream, received.redelivered)) {
                let period = self.model.messages[&number_of(id)].period;
                self.world.trace.note(|| format!("perhaps: {what}"));
                self.suspicions.disorder.push((queue, period, what));
            }
            if let Some(suspicion) = self.check_repetition(queue, id, received.redelivered) {
                if Certainty::of(self.world, self.model).is_certain(uid) {
                    self.world.trace.fail(suspicion);
                } else {
                    self.world.trace.note(|| format!("perhaps: {suspicion}"));
                    self.world.clients[client].channels[channel].suspicions.push((now, suspicion));
                }
            }
        } else {
            self.model.queues[queue].disturbed = true;
            self.model.queues[queue].deliveries.entry(id).or_default().times += 1;
        }
        self.record_unsettled(client, channel, queue, id, recipient, received.tag);
    }

    /// A message that was delivered before is flagged; one that is settled is never delivered again, and one that a channel has
    /// not settled is delivered to no other.
    fn check_repetition(&mut self, queue: usize, id: u64, redelivered: bool) -> Option<String> {
        let known = &mut self.model.queues[queue];
        let (name, disturbed) = (known.name.clone(), known.disturbed);
        let delivery = known.deliveries.entry(id).or_default();
        let (times, settled, holder) = (delivery.times, delivery.settled, delivery.holder);
        delivery.times += 1;
        if self.model.may_be_doubled(id) {
            return None;
        }
        if self.model.queues[queue].survival.is_purged(id) {
            return Some(format!("message {id} was delivered by {name} after it was purged"));
        }
        if times > 0 && !redelivered {
            return Some(format!("message {id} was delivered by {name} again, without the flag"));
        }
        if redelivered && times == 0 && !disturbed {
            // A channel may have ended, and its client does not know; it does at the next rest.
            let what = format!("message {id} was delivered by {name} flagged, but nothing was ever requeued");
            self.suspicions.unexplained_flags.push((queue, what));
        }
        if settled == SettlementProgress::Proven {
            return Some(format!("message {id} was delivered by {name} after it was settled"));
        }
        if let Some(holder) = holder
            && Certainty::of(self.world, self.model).is_certain(holder)
        {
            return Some(format!("message {id} was delivered by {name} while channel {holder} has it"));
        }
        None
    }

    /// The messages of one channel are delivered in their order, unless they are delivered again or a consumer left meanwhile,
    /// which its client may not know before the next rest.
    fn check_order(&mut self, queue: usize, id: u64, stream: u64, redelivered: bool) -> Option<String> {
        if !self.model.is_original(id) {
            return None;
        }
        let (publisher, priority) = (self.model.messages[&id].channel, self.model.messages[&id].priority);
        let draining = self.suspicions.draining;
        let known = &mut self.model.queues[queue];
        let excused = redelivered && !draining;
        let level = known.traits.level(priority);
        let newest = known.newest.entry((stream, publisher, level)).or_default();
        let (before, name) = (*newest, &known.name);
        if before > id && !excused {
            let what = format!("message {id} was delivered by {name} behind {before} of the same channel {publisher}");
            return Some(what);
        }
        if !redelivered || draining {
            *newest = before.max(id);
        }
        None
    }

    /// The channel has the delivery now; its prefetch counts must allow that.
    fn record_unsettled(
        &mut self,
        client: usize,
        channel: usize,
        queue: usize,
        message: u64,
        recipient: Recipient,
        tag: u64,
    ) {
        let since_us = self.world.clock.us();
        let one = &mut self.world.clients[client].channels[channel];
        let no_ack = match recipient {
            Recipient::Consumer(at) => one.consumers[at].no_ack,
            Recipient::Get { no_ack } => no_ack,
        };
        let uid = one.uid;
        let known = &mut self.model.queues[queue];
        let delivery = known.deliveries.entry(message).or_default();
        if no_ack {
            delivery.settled = SettlementProgress::Proven;
            known.owed.remove(&message);
            return;
        }
        delivery.holder = Some(uid);
        let consumer = match recipient {
            Recipient::Consumer(at) => Some(at),
            Recipient::Get { .. } => None,
        };
        one.unsettled.insert(tag, UnsettledDelivery { queue, message, consumer, staged: false, since_us });
        let Some(at) = consumer else { return };
        let consumer = &mut one.consumers[at];
        consumer.unsettled += 1;
        one.consumers_unsettled += 1;
        let (held, prefetch, tag) = (consumer.unsettled, consumer.prefetch, consumer.tag.clone());
        let (all, shared) = (one.consumers_unsettled, one.prefetch_shared);
        let lowers_prefetch = |pending: &PendingRequest| {
            matches!(pending.request, ClientRequest::PrefetchShared(_) | ClientRequest::Recover)
        };
        let changing = one.pending.as_ref().is_some_and(lowers_prefetch);
        // Settlements of a transaction count when it is committed.
        if prefetch > 0 && held > prefetch && !changing {
            return self
                .world
                .trace
                .fail(format!("consumer {tag} of channel {uid} has {held} unsettled, its prefetch is {prefetch}"));
        }
        if shared > 0 && all > shared && !changing {
            self.world
                .trace
                .fail(format!("the consumers of channel {uid} have {all} unsettled, its prefetch is {shared}"));
        }
    }

    /// A published message was returned.
    pub fn returned(&mut self, client: usize, channel: usize, received: &ReceivedMessage) {
        let Some(identified) = self.identify(None, received) else { return };
        let id = identified.copy;
        let uid = self.world.clients[client].channels[channel].uid;
        self.world.trace.note(|| format!("channel {uid} gets {id} back"));
        // Dead letters are never returned.
        let Some(message) = self.model.messages.get_mut(&id) else {
            return self
                .world
                .trace
                .fail(format!("message {id} was returned to channel {uid}, and nobody published it"));
        };
        let (mine, mandatory, again) = (message.channel == uid, message.mandatory, message.returned);
        message.returned = true;
        if !mine || !mandatory || again || message.routed.is_some() {
            self.world
                .trace
                .fail(format!("message {id} was returned to channel {uid}: mandatory {mandatory}, again {again}"));
        }
    }

    /// A consumer of a queue with a single active consumer received a message: the consumer of the last one must be gone.
    fn check_single_active(&mut self, queue: usize, consumer: u64, channel: u32) -> Option<String> {
        let known = &mut self.model.queues[queue];
        let before = known.served.replace((consumer, channel));
        let (other, its_channel) = before.filter(|&(other, _)| known.traits.single_active && other != consumer)?;
        let name = known.name.clone();
        let mut channels = self.world.clients.iter().flat_map(|client| &client.channels);
        let channels = channels.find(|one| one.uid == its_channel)?;
        let active = channels.consumers.iter().any(|one| one.uid == other && one.state == ConsumerState::Active);
        (active && Certainty::of(self.world, self.model).is_certain(its_channel))
            .then(|| format!("consumer {consumer} got a message of {name}, where consumer {other} is the active one"))
    }

    /// A message was delivered behind one of a lower priority that was published when this one was already in the queue. While
    /// only the final drain consumes, priorities never rise.
    fn check_priority(&mut self, queue: usize, copy: u64, stream: u64, redelivered: bool) -> Option<String> {
        let message = &self.model.messages[&number_of(copy)];
        // Nobody knows since when a dead letter has been in the queue.
        let (original, sent, accepted) = (self.model.is_original(copy), message.sent, message.accepted);
        let (draining, priority) = (self.suspicions.draining, message.priority);
        let takes_dead_letters = self.model.queues.iter().any(|other| other.traits.dead == Some(queue));
        let known = &mut self.model.queues[queue];
        if known.traits.priority_max == 0 {
            return None;
        }
        let level = known.traits.level(priority);
        let lower = known.sent_below.range((stream, 0)..(stream, level)).map(|(&(_, level), &sent)| (level, sent));
        let overtaken = lower.max_by_key(|&(_, sent)| sent);
        let newest = known.sent_below.entry((stream, level)).or_default();
        *newest = (*newest).max(if original { sent } else { 0 });
        let (low, low_sent) = overtaken?;
        let waited = original && !redelivered && accepted.is_some_and(|accepted| accepted < low_sent);
        let still = draining && !takes_dead_letters;
        (still || waited).then(|| {
            let name = &known.name;
            format!(
                "message {copy} of priority {level} was delivered by {name} behind one of priority {low} that is newer"
            )
        })
    }
}
