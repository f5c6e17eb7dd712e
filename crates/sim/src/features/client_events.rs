//! What clients receive, and what the model learns from it: which answer fits which request, and which refusal was fair.

use super::certainty::Certainty;
use super::crashes::EndReason;
use super::delivery_checks::{DeliveryChecker, Recipient, Suspicions};
use super::shadow_model::{BindingTarget, PublishOutcome, SettlementProgress, ShadowModel};
use crate::broker_limits::AMPLE_MEMORY_BYTES;
use crate::client_connection::{BrokerReply, ClientEvent};
use crate::simulated_client::{ClientRequest, ConnectionState, ConsumerState, PendingRequest, Settlement};
use crate::world::SimulatedWorld;
use wire::ChannelNumber;

/// Why a broker short of memory ends a connection whose message has come in part.
const MEMORY_REFUSAL: &str = "RESOURCE_ERROR - memory is low";

/// Why a broker refuses what names a queue that it has closed.
const CLOSED_QUEUE: &str = "is closed: the disk cannot read some of its messages";

/// Handles the events of clients.
pub struct EventHandler<'a> {
    pub world: &'a mut SimulatedWorld,
    pub model: &'a mut ShadowModel,
    pub suspicions: &'a mut Suspicions,
    /// Why the broker closes all connections.
    pub ending: Option<EndReason>,
}

impl EventHandler<'_> {
    /// A client receives something.
    pub fn on_event(&mut self, client: usize, event: ClientEvent) {
        self.model.tick();
        self.model.now_us = self.world.clock.us();
        let uid = self.world.clients[client].uid;
        // A client that has dropped its link receives nothing more.
        if self.world.clients[client].state == ConnectionState::Gone {
            return;
        }
        self.count(client, &event);
        match event {
            ClientEvent::Opened | ClientEvent::ChannelOpened(_) => {}
            ClientEvent::ChannelRefused(number, text) => self.on_refusal(client, number, &text),
            ClientEvent::ChannelClosed(number) => self.on_close(client, number),
            ClientEvent::Deliver(number, tag, message) => {
                let Some(channel) = self.open_channel_of(client, number, "a delivery") else { return };
                let consumers = &self.world.clients[client].channels[channel].consumers;
                let named = |stage: &[ConsumerState]| {
                    consumers.iter().position(|consumer| consumer.tag == tag && stage.contains(&consumer.state))
                };
                let Some(at) = named(&[ConsumerState::Active, ConsumerState::Cancelling]) else {
                    return self
                        .world
                        .trace
                        .fail(format!("client {uid}: a delivery for '{tag}', which does not consume"));
                };
                let queue = consumers[at].queue;
                if !self.world.clients[client].channels[channel].flow {
                    return self
                        .world
                        .trace
                        .fail(format!("client {uid}: a delivery on channel {number}, whose flow is stopped"));
                }
                self.checker().on_delivery(client, channel, queue, Recipient::Consumer(at), &message);
            }
            ClientEvent::Got(number, message) => {
                let Some(channel) = self.open_channel_of(client, number, "get-ok") else { return };
                let Some(pending) = self.world.clients[client].channels[channel].pending.take() else {
                    return self.world.trace.fail(format!("client {uid}: get-ok without a request"));
                };
                let ClientRequest::Get(queue, no_ack) = pending.request else {
                    return self.world.trace.fail(format!("client {uid}: get-ok after {:?}", pending.request));
                };
                self.prove_sent_before(client, channel, &pending);
                self.checker().on_delivery(client, channel, queue, Recipient::Get { no_ack }, &message);
            }
            ClientEvent::Returned(number, message) => {
                if let Some(channel) = self.open_channel_of(client, number, "a return") {
                    self.checker().returned(client, channel, &message);
                }
            }
            ClientEvent::Confirm(number, tag, multiple, positive) => {
                if let Some(channel) = self.open_channel_of(client, number, "a confirm") {
                    self.on_confirm(client, channel, tag, multiple, positive);
                }
            }
            ClientEvent::CancelledByBroker(number, tag) => {
                if let Some(channel) = self.open_channel_of(client, number, "a cancellation") {
                    self.on_cancellation(client, channel, &tag);
                }
            }
            ClientEvent::Reply(number, reply) => {
                let Some(channel) = self.open_channel_of(client, number, "an answer") else { return };
                let Some(pending) = self.world.clients[client].channels[channel].pending.take() else {
                    return self.world.trace.fail(format!("client {uid}: {reply:?} without a request"));
                };
                self.world.tally.answers += 1;
                let channel_uid = self.world.clients[client].channels[channel].uid;
                self.world.trace.note(|| format!("channel {channel_uid} receives {reply:?}"));
                self.prove_sent_before(client, channel, &pending);
                self.on_reply(client, channel, &pending, reply);
            }
            ClientEvent::Blocked => {
                self.world.trace.note(|| format!("client {uid} is blocked"));
            }
            ClientEvent::BlockedByDisk => {
                self.world.trace.note(|| format!("client {uid} is blocked: a disk is full"));
                if self.world.settings.durable().is_none_or(|durable| durable.full_permille == 0) {
                    self.world.trace.fail(format!("client {uid} is blocked, and no disk is full"));
                }
            }
            ClientEvent::Unblocked => {
                self.world.trace.note(|| format!("client {uid} is unblocked"));
            }
            ClientEvent::Refused(text)
                if text.starts_with(MEMORY_REFUSAL)
                    && self.world.settings.limits.memory_bytes_max < AMPLE_MEMORY_BYTES =>
            {
                self.world.trace.note(|| format!("client {uid} is refused: {text}"));
                self.world.clients[client].cut = true;
            }
            ClientEvent::Refused(text) if self.ending.is_some_and(|reason| reason.text() == text) => {
                self.world.trace.note(|| format!("client {uid} is told: {text}"));
                self.world.clients[client].cut = true;
            }
            ClientEvent::Refused(text) => self.world.trace.fail(format!("client {uid} is refused: {text}")),
            ClientEvent::Over => {
                let one = &self.world.clients[client];
                if !one.cut && one.state != ConnectionState::Closing {
                    return self.world.trace.fail(format!("client {uid} lost its connection, which was not cut"));
                }
                self.world.trace.note(|| format!("client {uid} is gone"));
                self.model.end_connection(&mut self.world.clients[client]);
            }
        }
    }

    /// Counts what a channel receives, as the broker does.
    fn count(&mut self, client: usize, event: &ClientEvent) {
        let (ClientEvent::Deliver(number, ..)
        | ClientEvent::Got(number, ..)
        | ClientEvent::Returned(number, ..)
        | ClientEvent::Confirm(number, ..)
        | ClientEvent::Reply(number, ..)) = event
        else {
            return;
        };
        let one = &mut self.world.clients[client];
        let Some(channel) = one.channel_by_number(*number) else { return };
        let channel = &mut one.channels[channel];
        let gets_no_ack =
            channel.pending.as_ref().is_some_and(|one| matches!(one.request, ClientRequest::Get(_, true)));
        let counts = &mut channel.counts;
        match event {
            ClientEvent::Deliver(_, tag, message) => {
                let no_ack = channel.consumers.iter().rev().any(|one| one.tag == *tag && one.no_ack);
                *if no_ack { &mut counts.deliver_no_ack } else { &mut counts.deliver } += 1;
                counts.redeliver += u64::from(message.redelivered);
            }
            ClientEvent::Got(_, message) => {
                *if gets_no_ack { &mut counts.get_no_ack } else { &mut counts.get } += 1;
                counts.redeliver += u64::from(message.redelivered);
            }
            ClientEvent::Returned(..) => counts.return_unroutable += 1,
            ClientEvent::Reply(_, BrokerReply::Empty) => counts.get_empty += 1,
            &ClientEvent::Confirm(_, tag, multiple, true) => {
                let first = if multiple { 0 } else { tag };
                counts.confirm += channel.unconfirmed.range(first..=tag).count() as u64;
            }
            _ => {}
        }
    }

    fn checker(&mut self) -> DeliveryChecker<'_> {
        DeliveryChecker { world: self.world, model: self.model, suspicions: self.suspicions }
    }

    fn open_channel_of(&mut self, client: usize, number: ChannelNumber, what: &str) -> Option<usize> {
        let channel = self.world.clients[client].channel_by_number(number);
        if let Some(channel) = channel.filter(|&channel| self.world.clients[client].channels[channel].is_open()) {
            return Some(channel);
        }
        // After connection.close the client's session ignores everything on its channels.
        let uid = self.world.clients[client].uid;
        if self.world.clients[client].state != ConnectionState::Closing {
            self.world.trace.fail(format!("client {uid}: {what} on channel {number}, which is not open"));
        }
        None
    }

    /// An answer proves that the broker received everything that was sent before the request.
    fn prove_sent_before(&mut self, client: usize, channel: usize, pending: &PendingRequest) {
        let one = &mut self.world.clients[client].channels[channel];
        // The broker had not closed the channel when it received the request.
        let suspicion = one.suspicions.first().filter(|(noticed, _)| *noticed < pending.sent).cloned();
        let plains: Vec<u64> =
            one.unproven_publishes.drain(..pending.unproven_publishes.min(one.unproven_publishes.len())).collect();
        let settles: Vec<_> = one
            .unproven_settlements
            .drain(..pending.unproven_settlements.min(one.unproven_settlements.len()))
            .collect();
        if let Some((_, what)) = suspicion {
            self.world.trace.fail(what);
        }
        let is_commit = pending.request == ClientRequest::Commit;
        let committed = if is_commit { settles.clone() } else { Vec::new() };
        self.prove(plains, settles, false);
        self.model.store_committed(&committed);
    }

    /// The broker has received these publishes and settlements. `by_name`: it has confirmed these very messages.
    fn prove(&mut self, safe: Vec<u64>, settles: Vec<(usize, u64, bool)>, by_name: bool) {
        for id in safe {
            self.world.tally.confirmed += 1;
            if let Err(what) = self.model.confirm(id, by_name) {
                self.world.trace.fail(what);
            }
        }
        for (queue, message, rejected) in settles {
            let known = &mut self.model.queues[queue];
            known.owed.remove(&message);
            known.deliveries.entry(message).or_default().settled = SettlementProgress::Proven;
            if rejected {
                self.model.dead_letter(queue, message);
            }
        }
    }

    fn on_confirm(&mut self, client: usize, channel: usize, tag: u64, multiple: bool, positive: bool) {
        let one = &mut self.world.clients[client].channels[channel];
        let uid = one.uid;
        self.world.trace.note(|| format!("channel {uid} is confirmed {tag}, multiple: {multiple}"));
        let messages = match one.confirm(tag, multiple) {
            Ok(messages) => messages,
            Err(violation) => return self.world.trace.fail(violation),
        };
        if positive {
            return self.prove(messages, Vec::new(), true);
        }
        for id in messages {
            self.world.tally.declined += 1;
            if let Err(what) = self.model.refuse(id) {
                self.world.trace.fail(what);
            }
        }
    }

    fn on_cancellation(&mut self, client: usize, channel: usize, tag: &str) {
        let one = &mut self.world.clients[client].channels[channel];
        let uid = one.uid;
        let found =
            one.consumers.iter_mut().find(|consumer| consumer.tag == tag && consumer.state != ConsumerState::Gone);
        let Some(consumer) = found else {
            return self.world.trace.fail(format!("channel {uid}: the broker cancels '{tag}', which does not consume"));
        };
        consumer.state = ConsumerState::Gone;
        let (queue, consumer) = (consumer.queue, consumer.uid);
        self.world.trace.note(|| format!("channel {uid}: the broker cancels {tag}"));
        // A queue that the broker closes loses its consumers.
        if self.model.queues[queue].life.ending.is_none() && !self.may_hear_of_closed_queues() {
            let name = self.model.queues[queue].name.clone();
            self.world.trace.fail(format!("channel {uid}: the broker cancels '{tag}', but nobody deleted {name}"));
        }
        self.model.consumer_leaves(queue, consumer);
    }

    fn on_reply(&mut self, client: usize, channel: usize, pending: &PendingRequest, reply: BrokerReply) {
        let now = self.model.now;
        let one = &mut self.world.clients[client].channels[channel];
        let uid = one.uid;
        match (&pending.request, reply) {
            (&ClientRequest::Declare(queue), BrokerReply::QueueDeclared(name)) => {
                let known = &mut self.model.queues[queue];
                if known.name.starts_with('?') {
                    known.name = name;
                } else if known.name != name {
                    self.world.trace.fail(format!("'{name}' is declared, not the queue of the request"));
                    return;
                }
                let is_cut = self.world.clients[client].cut && self.model.queues[queue].owner.is_some();
                let life = &mut self.model.queues[queue].life;
                life.made = Some(now);
                if is_cut {
                    life.may_end(now);
                }
            }
            (ClientRequest::DeclarePassive(_), BrokerReply::QueueDeclared(..)) => {}
            (&ClientRequest::Redeclare(queue, same), BrokerReply::QueueDeclared(name)) => {
                let known = &self.model.queues[queue];
                if known.name != name || !same {
                    let what = format!("{} is declared otherwise, and the answer is declare-ok for {name}", known.name);
                    self.world.trace.fail(what);
                }
            }
            (&ClientRequest::Delete(queue, _), BrokerReply::Other("queue.delete-ok")) => {
                self.model.queues[queue].life.ended = Some(now);
            }
            (&ClientRequest::Purge(queue), BrokerReply::Purged) => {
                let newest = self.model.newest();
                let mut channels = self.world.clients.iter().flat_map(|client| &client.channels);
                if !channels.any(|channel| channel.may_receive_from(queue)) {
                    self.model.purge(queue, pending.sent);
                }
                let known = &mut self.model.queues[queue];
                known.forgiven = known.forgiven.max(newest);
            }
            (&ClientRequest::Bind(binding, life), BrokerReply::Other("queue.bind-ok" | "exchange.bind-ok")) => {
                let binding = &mut self.model.bindings[binding];
                binding.lives[life].made = Some(now);
                binding.locked = false;
            }
            (&ClientRequest::Unbind(binding, life), BrokerReply::Other("queue.unbind-ok" | "exchange.unbind-ok")) => {
                let binding = &mut self.model.bindings[binding];
                binding.lives[life].ended = Some(now);
                binding.locked = false;
            }
            (&ClientRequest::DeclareExchange(exchange), BrokerReply::Other("exchange.declare-ok")) => {
                self.model.exchanges[exchange].life.made = Some(now);
            }
            (&ClientRequest::DeleteExchange(exchange), BrokerReply::Other("exchange.delete-ok")) => {
                self.model.exchanges[exchange].life.ended = Some(now);
            }
            (&ClientRequest::Consume(at), BrokerReply::Consuming(tag)) => {
                let consumer = &mut one.consumers[at];
                if !consumer.tag.is_empty() && consumer.tag != tag {
                    return self.world.trace.fail(format!("consume-ok for '{tag}', not for the tag of the request"));
                }
                consumer.tag = tag;
                consumer.state = ConsumerState::Active;
                // The consumer may have exceeded the consumer timeout before this answer arrived, and be gone.
                let may_be_overdue = self.world.settings.limits.consumer_timeout_ms > 0 && !consumer.no_ack;
                let (queue, consumer, exclusive) = (consumer.queue, consumer.uid, consumer.exclusive);
                // So may all of its channel, for what was sent behind the request.
                let may_be_gone = may_be_overdue || !Certainty::of(self.world, self.model).is_certain(uid);
                self.on_consumer(queue, consumer, uid, exclusive, may_be_gone);
            }
            (&ClientRequest::Cancel(at), BrokerReply::Cancelled(tag)) => {
                if one.consumers[at].tag != tag {
                    return self.world.trace.fail(format!("cancel-ok for '{tag}', not for the tag of the request"));
                }
                one.consumers[at].state = ConsumerState::Gone;
            }
            (ClientRequest::Get(..), BrokerReply::Empty) => {}
            (&ClientRequest::Prefetch(count), BrokerReply::Other("basic.qos-ok")) => one.prefetch = count,
            (&ClientRequest::PrefetchShared(count), BrokerReply::Other("basic.qos-ok")) => one.prefetch_shared = count,
            (&ClientRequest::Flow(active), BrokerReply::Other("channel.flow-ok")) => one.flow = active,
            (ClientRequest::Recover, BrokerReply::Other("basic.recover-ok")) => {
                // Every delivery before the answer is requeued; deliveries that this causes follow the answer.
                for tag in one.unsettled.keys().copied().collect::<Vec<_>>() {
                    self.model.settle(one, tag, Settlement::Requeue);
                }
            }
            (ClientRequest::Select(_), BrokerReply::Other("confirm.select-ok" | "tx.select-ok")) => {}
            (ClientRequest::Commit, BrokerReply::Other("tx.commit-ok")) => {
                let safe = std::mem::take(&mut one.committing);
                self.prove(safe, Vec::new(), true);
            }
            (ClientRequest::Rollback, BrokerReply::Other("tx.rollback-ok")) => {}
            (question, reply) => self.world.trace.fail(format!("channel {uid}: {reply:?} answers {question:?}")),
        }
    }

    fn end_channel(&mut self, client: usize, channel: usize) {
        let mut channel = self.world.clients[client].channels.remove(channel);
        self.model.end_channel(&mut channel, false);
    }

    fn on_consumer(&mut self, queue: usize, consumer: u64, channel: u32, exclusive: bool, may_be_gone: bool) {
        let active = if may_be_gone { Vec::new() } else { self.model.queues[queue].active.clone() };
        let name = self.model.queues[queue].name.clone();
        for (_, other, alone) in active {
            if (alone || exclusive)
                && Certainty::of(self.world, self.model).is_certain(other)
                && self.model.queues[queue].life.ending.is_none()
            {
                let what =
                    format!("channel {channel} consumes from {name} beside channel {other}; exclusive: {exclusive}");
                return self.world.trace.fail(what);
            }
        }
        self.model.queues[queue].active.push((consumer, channel, exclusive));
    }

    /// Whether clients may hear that queues are closed as a disk cannot read their messages: where the broker ends as well.
    fn may_hear_of_closed_queues(&self) -> bool {
        self.ending.is_some() && self.world.brokers[0].has_closed_queue()
    }

    /// The broker closed a channel, which must have had a reason.
    fn on_refusal(&mut self, client: usize, number: ChannelNumber, text: &str) {
        let Some(channel) = self.world.clients[client].channel_by_number(number) else { return };
        let now = self.model.now;
        let pending = self.world.clients[client].channels[channel].pending.take();
        let uid = self.world.clients[client].channels[channel].uid;
        let request = pending.as_ref().map(|pending| pending.request.clone());
        self.world.trace.note(|| format!("channel {uid} is refused: {text}; its request was {request:?}"));
        self.world.tally.refusals += 1;
        // A publish to an exchange that was deleted.
        let mut gone = (0..self.model.exchanges.len()).filter(|&at| self.model.may_be_gone(at));
        let by_publish = gone.any(|at| text.contains(&format!("no exchange '{}'", self.model.exchanges[at].name)));
        let timed_out = text.contains("delivery acknowledgement")
            && Certainty::of(self.world, self.model).may_be_overdue(&self.world.clients[client].channels[channel]);
        self.world.tally.overdue += u64::from(timed_out);
        let is_closed = text.contains(CLOSED_QUEUE) && self.may_hear_of_closed_queues();
        // The pending request was not the reason, or its queue will be there again, and it may have been executed or not.
        let by_publish = by_publish || timed_out || is_closed;
        let is_fair =
            by_publish || pending.as_ref().is_some_and(|pending| self.may_be_refused(client, channel, pending));
        if !is_fair {
            return self.world.trace.fail(format!("channel {uid} is refused: {text}; its request was {request:?}"));
        }
        if let Some(pending) = &pending
            && !by_publish
        {
            match pending.request {
                ClientRequest::Delete(queue, true) => {
                    let known = &mut self.model.queues[queue];
                    // There may be other reasons for its end, which the model does not keep.
                    let alone = known.life.ending == Some(pending.sent) && !known.auto_delete && known.owner.is_none();
                    if alone {
                        known.life.ending = None;
                    }
                }
                ClientRequest::Bind(binding, life) => {
                    let binding = &mut self.model.bindings[binding];
                    binding.lives[life].ended = Some(now);
                    binding.locked = false;
                }
                ClientRequest::Consume(at) => {
                    let consumer = &mut self.world.clients[client].channels[channel].consumers[at];
                    consumer.state = ConsumerState::Gone;
                    let (queue, consumer) = (consumer.queue, consumer.uid);
                    self.model.queues[queue].active.retain(|&(other, ..)| other != consumer);
                }
                _ => {}
            }
        } else if let Some(pending) = pending {
            self.world.clients[client].channels[channel].pending = Some(pending);
        }
        self.end_channel(client, channel);
    }

    fn may_be_refused(&self, client: usize, channel: usize, pending: &PendingRequest) -> bool {
        let ending = |target: BindingTarget| match target {
            BindingTarget::Queue(queue) => self.model.queues[queue].life.ending.is_some(),
            BindingTarget::Exchange(exchange) => self.model.may_be_gone(exchange),
        };
        match pending.request {
            ClientRequest::Redeclare(queue, same) => !same || ending(BindingTarget::Queue(queue)),
            ClientRequest::DeclarePassive(queue) | ClientRequest::Purge(queue) | ClientRequest::Get(queue, _) => {
                ending(BindingTarget::Queue(queue))
            }
            ClientRequest::Delete(queue, conditional) => {
                conditional || self.model.queues[queue].life.ending != Some(pending.sent)
            }
            ClientRequest::Bind(binding, _) | ClientRequest::Unbind(binding, _) => {
                let binding = &self.model.bindings[binding];
                ending(binding.target) || ending(BindingTarget::Exchange(binding.source))
            }
            ClientRequest::Consume(at) => {
                let queue = self.world.clients[client].channels[channel].consumers[at].queue;
                ending(BindingTarget::Queue(queue)) || self.model.queues[queue].contested
            }
            // An auto-delete queue may have been deleted between the change and the answer.
            ClientRequest::Declare(queue) => ending(BindingTarget::Queue(queue)),
            // A full queue may have refused one of the messages.
            ClientRequest::Commit => {
                self.world.clients[client].channels[channel].committing.iter().any(|&id| self.model.may_be_declined(id))
            }
            _ => false,
        }
    }

    /// The client's channel.close is answered: the broker received everything before it.
    fn on_close(&mut self, client: usize, number: ChannelNumber) {
        let Some(channel) = self.world.clients[client].channel_by_number(number) else { return };
        let one = self.world.clients[client].channels.remove(channel);
        let uid = one.uid;
        self.world.trace.note(|| format!("channel {uid} has closed"));
        let doubtful = one.doubtful
            || Certainty::of(self.world, self.model).may_be_refused(&one)
            || Certainty::of(self.world, self.model).may_be_overdue(&one);
        let safe: Vec<u64> = one.unproven_publishes.into_iter().chain(one.unconfirmed.into_values()).collect();
        for id in &safe {
            // It may have been returned when the client no longer listened.
            if let Some(message) = self.model.messages.get_mut(id) {
                message.mandatory = false;
                if doubtful {
                    message.outcome = PublishOutcome::Unknown;
                }
            }
        }
        if !doubtful {
            self.prove(safe, one.unproven_settlements, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::shadow_model::ShadowMessage;
    use crate::settings::{Mode, Settings};
    use crate::simulated_client::{ChannelConsumer, ChannelState, ClientChannel, ClientRole};

    /// A client's channel that waits for the answer to `basic.consume`.
    fn consuming_client(world: &mut SimulatedWorld, uid: u32, queue: usize, exclusive: bool) -> usize {
        let client = world.connect(0, ClientRole::Any);
        let mut channel = ClientChannel::new(ChannelNumber(1), uid);
        channel.state = ChannelState::Open;
        channel.consumers.push(ChannelConsumer {
            uid: uid.into(),
            tag: "c".into(),
            queue,
            no_ack: true,
            exclusive,
            prefetch: 0,
            unsettled: 0,
            state: ConsumerState::Requested,
        });
        channel.await_reply(ClientRequest::Consume(0), 1);
        world.clients[client].state = ConnectionState::Open;
        world.clients[client].channels.push(channel);
        client
    }

    #[test]
    fn who_consumes_beside_an_exclusive_consumer_is_at_fault_unless_its_channel_may_have_ended_meanwhile() {
        for may_have_ended in [false, true] {
            let mut world = SimulatedWorld::new(Settings::of(Mode::Features, 1), false);
            let mut model = ShadowModel::new(true);
            let mut suspicions = Suspicions::default();
            let queue = model.add_queue("q".into(), None, false);
            let late = consuming_client(&mut world, 7, queue, false);
            let exclusive = consuming_client(&mut world, 8, queue, true);
            if may_have_ended {
                // Behind the request it has sent a message to an exchange that is gone, and the answer took its time.
                model.exchanges[0].life.ending = Some(1);
                model.messages.insert(1, ShadowMessage::example(7));
                world.clients[late].channels[0].unproven_publishes.push(1);
            }
            let mut handler =
                EventHandler { world: &mut world, model: &mut model, suspicions: &mut suspicions, ending: None };
            for client in [exclusive, late] {
                let answer = BrokerReply::Consuming("c".into());
                handler.on_event(client, ClientEvent::Reply(ChannelNumber(1), answer));
            }
            assert_eq!(world.trace.has_failed(), !may_have_ended);
        }
    }
}
