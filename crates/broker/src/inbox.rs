//! Messages from other shards, carried out in the order they were written.

use crate::control_plane::ControlPlane;
use crate::dispatcher::Dispatcher;
use crate::early_publishes::{EarlyPublish, EarlyPublishes};
use crate::effects::Effects;
use crate::limits::{CONSUMER_REMOVAL_WORK, SETTLED_PER_WORK};
use crate::payload::Payload;
use crate::requests::Requests;
use crate::shard_answers::RemoteResult;
use crate::shard_message::{PackedMessage, ShardBatch, ShardMessage, ShardPayload};
use catalog::{QueueId, ShardId};
use queues::{AppendResult, BodyRef, ConsumerRef, Content, Message, QueueEntry, QueuePosition, SettledMessages};

/// What a message from another shard may touch.
pub(crate) struct Inbox<'a> {
    pub requests: Requests<'a>,
    pub early: &'a mut EarlyPublishes,
}

impl<'a> Inbox<'a> {
    fn control(&mut self) -> &mut ControlPlane<'a> {
        &mut self.requests.control
    }

    /// Carries out a batch from another shard, and empties it.
    pub fn receive<E: Effects>(&mut self, from: ShardId, batch: &mut ShardBatch, fx: &mut E) {
        if self.early.holds_back(from) {
            return self.early.hold(from, std::mem::take(batch));
        }
        self.carry_out(from, batch, fx);
        self.control().dispatch_due(fx);
    }

    /// Carries out a batch and empties it. At the limit of early publishes, and when the budget of the turn is spent, the rest of
    /// it is held back. Returns whether it was carried out to its end.
    fn carry_out<E: Effects>(&mut self, from: ShardId, batch: &mut ShardBatch, fx: &mut E) -> bool {
        // A commit that is carried out in several turns, or has come in several batches, is one of the store for each of them.
        if self.control().data.confirms.is_commit_open(from) {
            fx.begin_commit();
        }
        let is_done = self.carry_out_messages(from, batch, fx);
        if self.control().data.confirms.is_commit_open(from) {
            // Whoever waits for it waits for its end.
            let _earlier = fx.end_commit();
        }
        is_done
    }

    fn carry_out_messages<E: Effects>(&mut self, from: ShardId, batch: &mut ShardBatch, fx: &mut E) -> bool {
        let mut messages = std::mem::take(&mut batch.messages);
        let mut rest = messages.drain(..);
        while let Some(message) = rest.next() {
            if self.requests.control.data.dispatcher.work.is_spent() {
                self.early.hold_rest(from, message, rest, std::mem::take(batch));
                return false;
            }
            if let Some(held) = self.on_message(from, message, batch, fx) {
                self.early.hold_rest(from, held, rest, std::mem::take(batch));
                return false;
            }
        }
        drop(rest);
        batch.messages = messages;
        batch.clear();
        true
    }

    /// Carries out a message, or returns what is left of it: at the limit of early publishes it must wait, and many answers end the
    /// turn.
    #[inline]
    fn on_message<E: Effects>(
        &mut self,
        from: ShardId,
        message: ShardMessage,
        batch: &ShardBatch,
        fx: &mut E,
    ) -> Option<ShardMessage> {
        match message {
            ShardMessage::Publish { payload, messages, queues, confirm } => {
                let range = queues;
                let queues = batch.queues(&range);
                let definitions = &self.requests.control.definitions;
                if self.early.is_waiting(from) || queues.iter().any(|&id| definitions.is_to_come(id)) {
                    if !self.early.has_capacity(from, messages) {
                        return Some(ShardMessage::Publish { payload, messages, queues: range, confirm });
                    }
                    self.keep_early(from, (payload, messages), queues, confirm, batch, fx);
                    return None;
                }
                match payload {
                    ShardPayload::Packed(packed) => {
                        self.accept_packed(from, queues, (&packed, messages), confirm, batch, fx);
                    }
                    ShardPayload::Shared(message) => {
                        self.accept(from, queues, &message.content(), Some(message.clone()), confirm, fx);
                    }
                }
            }
            ShardMessage::Deliver { consumer, queue, position, redelivered, ack_required, payload, messages } => {
                let Dispatcher { channels, work, .. } = &mut self.requests.control.data.dispatcher;
                work.draw(messages as usize);
                match payload {
                    ShardPayload::Packed(packed) => {
                        let run = batch.bodies(&packed, messages).filter(|_| messages > 1 && !redelivered);
                        let taken = match (run, batch.unpack(&packed, messages).next()) {
                            (Some(bodies), Some(first)) => {
                                channels.deliver_remote_run(consumer, position, &first, bodies, fx)
                            }
                            _ => 0,
                        };
                        for (at, content) in batch.unpack(&packed, messages).enumerate().skip(taken) {
                            let position = QueuePosition(position.0 + at as u64);
                            if channels.consumer(consumer).is_some() {
                                let payload = Payload::Passing(content, None);
                                channels.deliver_remote(consumer, position, redelivered, payload, fx);
                            } else {
                                let message = content.keep(fx.pool());
                                send_back(from, queue, QueueEntry { position, message, redelivered }, ack_required, fx);
                            }
                        }
                    }
                    ShardPayload::Shared(message) if channels.consumer(consumer).is_some() => {
                        work.draw(message.content().copying_work());
                        channels.deliver_remote(consumer, position, redelivered, Payload::Kept(message), fx);
                    }
                    ShardPayload::Shared(message) => {
                        send_back(from, queue, QueueEntry { position, message, redelivered }, ack_required, fx);
                    }
                }
            }
            ShardMessage::BeginCommit => {
                self.control().data.confirms.set_commit_open(from, true);
                fx.begin_commit();
            }
            // Answers are in the order of what they answer.
            ShardMessage::EndCommit if self.early.is_waiting(from) => return Some(ShardMessage::EndCommit),
            ShardMessage::EndCommit => {
                let confirms = &mut self.control().data.confirms;
                confirms.set_commit_open(from, false);
                let result = match fx.end_commit() {
                    AppendResult::Durable => RemoteResult::Accepted,
                    AppendResult::Pending(ticket) => RemoteResult::Pending(ticket),
                };
                confirms.answer_shard(from, result, fx);
            }
            ShardMessage::PublishesAccepted { publishes } => {
                for answered in 0..publishes {
                    let work = &mut self.control().data.dispatcher.work;
                    if answered > 0 && work.is_spent() {
                        return Some(ShardMessage::PublishesAccepted { publishes: publishes - answered });
                    }
                    work.draw(1);
                    let Some(awaited) = self.control().data.confirms.next_answered(from) else { break };
                    self.control().publishing().answers().on_shard_answer(awaited, true, fx);
                }
            }
            ShardMessage::PublishRefused => {
                if let Some(awaited) = self.control().data.confirms.next_answered(from) {
                    self.control().publishing().answers().on_shard_answer(awaited, false, fx);
                }
            }
            ShardMessage::PublishKept => {
                if let Some(awaited) = self.control().data.confirms.next_answered(from) {
                    self.control().publishing().answers().on_kept(awaited, fx);
                }
            }
            ShardMessage::Credit { queue, consumer, messages, bytes } => {
                let dispatcher = &mut self.control().data.dispatcher;
                dispatcher.work.draw(1);
                if let Some((key, priority)) = dispatcher.remotes.grant_credit(from, consumer, messages, bytes) {
                    dispatcher.queues.activate(queue, ConsumerRef::Remote(key), priority);
                }
            }
            ShardMessage::Settled { queue, position, count, bytes, are_rejected } => {
                let run = SettledMessages { first: position, count, bytes, are_rejected };
                let Dispatcher { queues, work, .. } = &mut self.control().data.dispatcher;
                // Each of them may have a count of its returns.
                work.draw(1 + count as usize / SETTLED_PER_WORK);
                queues.settle(queue, run, fx);
            }
            ShardMessage::Taken { queue, position, count } => {
                self.control().data.dispatcher.queues.forget(queue, position, count, fx);
            }
            ShardMessage::Rejected { queue, position, message } => {
                let dispatcher = &mut self.requests.control.data.dispatcher;
                dispatcher.work.draw(1 + dispatcher.queues.reject(queue, position, message, fx));
            }
            ShardMessage::Returned { queue, position, message, redelivered, was_delivered, ack_required } => {
                let entry = QueueEntry { position, message, redelivered };
                let dispatcher = &mut self.requests.control.data.dispatcher;
                dispatcher.work.draw(1 + dispatcher.queues.requeue(queue, entry, was_delivered, ack_required, fx));
            }
            ShardMessage::Request { requester, queue, request } => {
                let response = self.requests.respond(requester, queue, request, fx);
                self.requests.send_response(requester, response, fx);
            }
            ShardMessage::Response { requester, response } => self.requests.on_response(requester, response, fx),
            ShardMessage::ConsumerCancelled { consumer } => {
                self.control().data.dispatcher.work.draw(CONSUMER_REMOVAL_WORK);
                self.control().cancel_consumer(consumer, fx);
            }
            ShardMessage::QueueFull { queue, full } => {
                let control = self.control();
                let Dispatcher { flow, work, .. } = &mut control.data.dispatcher;
                flow.set_full(queue, full, control.sessions, work, fx);
            }
            ShardMessage::QueueDemand { queue, is_wanting } => {
                let ControlPlane { definitions, data, .. } = self.control();
                let demand = &mut data.dispatcher.demand;
                match definitions.is_to_come(queue) {
                    true => demand.note_early(queue, is_wanting),
                    false => demand.note(queue, is_wanting),
                }
            }
            ShardMessage::DirectReply { address, message } => {
                self.control().data.dispatcher.channels.deliver_reply(address, &message.content(), fx);
            }
            ShardMessage::Define { requester, definitions, no_wait } => {
                self.control().send_definitions(requester, definitions, no_wait, fx);
                if requester.is_some() {
                    self.requests.send_outcomes(fx);
                }
            }
            ShardMessage::Apply { version, definition } => {
                self.control().apply(version, &definition, fx);
                fx.batch(from).push_applied(version);
                self.accept_early(fx);
            }
            ShardMessage::Applied { version } => {
                self.control().definitions.note_applied(from, version);
                self.requests.send_outcomes(fx);
            }
            ShardMessage::DefinitionOutcome { requester, result } => {
                self.requests.on_definition_outcome(requester, result, fx);
            }
            // Early publishes of that shard are not carried out.
            ShardMessage::Fence(_) if self.early.is_waiting(from) => return Some(message),
            ShardMessage::Fence(fence) => {
                let version = self.control().definitions.version();
                fx.batch(from).push(ShardMessage::FenceReached { fence, version });
            }
            ShardMessage::FenceReached { fence, version } => self.control().sessions.note_fence(fence, from, version),
        }
        None
    }

    /// Keeps publishes until the declaration of their queues arrives.
    #[cold]
    fn keep_early<E: Effects>(
        &mut self,
        from: ShardId,
        (payload, messages): (ShardPayload, u32),
        queues: &[QueueId],
        confirm: bool,
        batch: &ShardBatch,
        fx: &mut E,
    ) {
        let mut keep = |message| self.early.push(from, EarlyPublish { message, queues: queues.into(), confirm });
        match payload {
            ShardPayload::Packed(packed) => {
                batch.unpack(&packed, messages).for_each(|content| keep(content.keep(fx.pool())));
            }
            ShardPayload::Shared(message) => keep(message),
        }
    }

    /// Publishes for queues of this shard that differ in their bodies alone: behind the first as many as consumers take at once, and
    /// the others one by one.
    fn accept_packed<E: Effects>(
        &mut self,
        from: ShardId,
        queues: &[QueueId],
        (packed, messages): (&PackedMessage, u32),
        confirm: bool,
        batch: &ShardBatch,
        fx: &mut E,
    ) {
        let mut contents = batch.unpack(packed, messages);
        let Some(first) = contents.next() else { return };
        self.accept(from, queues, &first, None, confirm, fx);
        if let Some(rest) = batch.bodies(packed, messages).and_then(|bodies| bodies.skip(1)) {
            let content = Content { body: BodyRef::Small(rest.first()), ..first };
            let answered = Some(from).filter(|_| confirm);
            let taken = self.control().data.accept_repeats(answered, queues, &content, rest, fx);
            if let Some(last) = taken.checked_sub(1) {
                let _taken = contents.nth(last);
            }
        }
        for content in contents {
            self.accept(from, queues, &content, None, confirm, fx);
        }
    }

    /// A publish for queues of this shard.
    fn accept<E: Effects>(
        &mut self,
        from: ShardId,
        queues: &[QueueId],
        content: &Content<'_>,
        kept: Option<Message>,
        confirm: bool,
        fx: &mut E,
    ) {
        let data = &mut *self.control().data;
        let result = data.accept_remote(queues, content, kept, fx);
        if confirm {
            data.confirms.answer_shard(from, result, fx);
        }
    }

    /// Carries out what was held back because the budget of a turn was spent.
    pub fn resume<E: Effects>(&mut self, fx: &mut E) {
        for from in self.requests.control.identity.others() {
            if self.early.awaits_turn(from) {
                self.release(from, fx);
            }
        }
        self.control().dispatch_due(fx);
    }

    /// Accepts the publishes that waited for a declaration, and carries out what was held back behind them.
    fn accept_early<E: Effects>(&mut self, fx: &mut E) {
        if self.early.is_empty() {
            return;
        }
        for from in self.requests.control.identity.others() {
            self.release(from, fx);
        }
    }

    /// Accepts early publishes of a shard and carries out what was held back behind them, as far as declarations and the budget of the
    /// turn allow.
    fn release<E: Effects>(&mut self, from: ShardId, fx: &mut E) {
        while self.accept_early_of(from, fx)
            && !self.requests.control.data.dispatcher.work.is_spent()
            && let Some(mut batch) = self.early.release(from)
            && self.carry_out(from, &mut batch, fx)
        {}
    }

    /// Accepts what it can of one shard. Returns whether others may take the place.
    fn accept_early_of<E: Effects>(&mut self, from: ShardId, fx: &mut E) -> bool {
        loop {
            if self.requests.control.data.dispatcher.work.is_spent() {
                self.early.await_turn(from);
                return false;
            }
            let definitions = &self.requests.control.definitions;
            let Some(early) = self.early.next(from, |id| definitions.is_to_come(id)) else {
                return self.early.has_capacity(from, 1);
            };
            let EarlyPublish { message, queues, confirm } = early;
            self.accept(from, &queues, &message.content(), Some(message.clone()), confirm, fx);
        }
    }
}

/// A message came for a consumer that has left: it returns to its position.
#[cold]
fn send_back<E: Effects>(from: ShardId, queue: QueueId, entry: QueueEntry, ack_required: bool, fx: &mut E) {
    fx.batch(from).push(ShardMessage::returned(queue, entry, ack_required));
}

#[cfg(test)]
mod tests {
    use super::Inbox;
    use crate::control_plane::ControlPlane;
    use crate::data_plane::DataPlane;
    use crate::definitions::Definitions;
    use crate::dispatcher::Dispatcher;
    use crate::early_publishes::EarlyPublishes;
    use crate::effects::Effects;
    use crate::ids::ShardIdentity;
    use crate::requests::Requests;
    use crate::sessions::Sessions;
    use crate::shard_message::{ShardBatch, ShardMessage};
    use crate::test_effects::RecordedEffects;
    use catalog::{Catalog, CatalogLimits, Definition, DefinitionOutcome, QueueId, ShardId, default_definitions};
    use queues::{BodyRef, Content, GetResult};
    use std::sync::Arc;
    use wire::Table;

    fn catalog() -> Catalog {
        let mut catalog = Catalog::new(CatalogLimits::default());
        for definition in default_definitions() {
            catalog.execute(&definition).expect("the first definitions");
        }
        catalog
    }

    /// Declares a queue on shard 2.
    fn declare(catalog: &mut Catalog, name: &str) -> (Arc<Definition>, QueueId) {
        let declaration = Definition::DeclareQueue {
            vhost: catalog.vhost_by_name("/").expect("the default"),
            name: name.into(),
            server_named: false,
            durable: false,
            exclusive: None,
            auto_delete: false,
            arguments: Table::new(),
            home: ShardId(2),
        };
        match catalog.execute(&declaration).expect("a queue").outcome {
            DefinitionOutcome::Queue { id, .. } => (Arc::new(declaration), id),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn early_publishes_are_accepted_in_turns_and_nothing_overtakes_them() {
        let identity = ShardIdentity { shard: ShardId(2), shards: 3 };
        let mut sessions = Sessions::new(identity.shard);
        let mut definitions = Definitions::new(identity, catalog());
        // Less than a definition and ten publishes take.
        let mut data = DataPlane::new(identity, 1 << 20, 0, 16);
        let mut early = EarlyPublishes::new(3, 1_000);
        let mut fx = RecordedEffects::default();
        let (declaration, queue) = declare(&mut catalog(), "q");
        let publishes = |bodies: std::ops::Range<u8>| {
            let mut batch = ShardBatch::default();
            for body in bodies {
                // Two that differ in their lengths do not travel as one.
                let content =
                    Content { body: BodyRef::Small(&[body; 2][..1 + usize::from(body % 2)]), ..Content::EMPTY };
                assert!(batch.push_publish(&content, std::iter::once(queue), true));
            }
            batch
        };
        let mut apply = ShardBatch::default();
        apply.push(ShardMessage::Apply { version: 1, definition: declaration });
        let (mut turns, mut later) = (0, Some(publishes(100..110)));
        for (from, mut batch) in [(1, publishes(0..100)), (0, apply)] {
            data.dispatcher.work.start_turn();
            let (sessions, definitions, data) = (&mut sessions, &mut definitions, &mut data);
            let requests = Requests { control: ControlPlane { identity, sessions, definitions, data } };
            Inbox { requests, early: &mut early }.receive(ShardId(from), &mut batch, &mut fx);
        }
        assert!(early.any_awaits_turn() && early.len() > 80, "{} wait", early.len());
        while early.any_awaits_turn() {
            data.dispatcher.work.start_turn();
            let (sessions, definitions, data) = (&mut sessions, &mut definitions, &mut data);
            let requests = Requests { control: ControlPlane { identity, sessions, definitions, data } };
            let mut inbox = Inbox { requests, early: &mut early };
            inbox.resume(&mut fx);
            if let Some(mut batch) = later.take() {
                inbox.receive(ShardId(1), &mut batch, &mut fx);
            }
            turns += 1;
        }
        assert!(turns > 3 && early.is_empty() && data.dispatcher.work.most() < 32, "{turns} turns");
        for expected in 0..110 {
            let Dispatcher { queues, work, .. } = &mut data.dispatcher;
            let GetResult::Message(entry, _) = queues.get(queue, true, 0, work, &mut fx) else { panic!("a message") };
            let BodyRef::Small(body) = entry.message.content().body else { panic!("a small body") };
            assert_eq!(body[0], expected, "in their order");
        }
    }

    #[test]
    fn links_are_told_what_a_queue_wants_when_its_declaration_has_arrived() {
        let identity = ShardIdentity { shard: ShardId(1), shards: 3 };
        let mut sessions = Sessions::new(identity.shard);
        let mut definitions = Definitions::new(identity, catalog());
        let mut data = DataPlane::new(identity, 1 << 20, 0, 1_000);
        let mut fx = RecordedEffects::default();
        let mut elsewhere = catalog();
        let declarations = [declare(&mut elsewhere, "q"), declare(&mut elsewhere, "other")];
        let [queue, other] = [0, 1].map(|at: usize| declarations[at].1);
        let mut receive = |from, message, data: &mut DataPlane| {
            let mut batch = ShardBatch::default();
            batch.push(message);
            let (sessions, definitions) = (&mut sessions, &mut definitions);
            let requests = Requests { control: ControlPlane { identity, sessions, definitions, data } };
            let mut early = EarlyPublishes::new(3, 4);
            Inbox { requests, early: &mut early }.receive(ShardId(from), &mut batch, &mut fx);
            data.dispatcher.demand.take_changed()
        };
        let demand = |queue, is_wanting| ShardMessage::QueueDemand { queue, is_wanting };
        for (queue, is_wanting) in [(queue, true), (other, true), (other, false)] {
            assert!(receive(2, demand(queue, is_wanting), &mut data).is_empty(), "no link can know it");
        }
        let mut changed = Vec::new();
        for (version, (declaration, _)) in (1..).zip(&declarations) {
            let definition = Arc::clone(declaration);
            changed.extend(receive(0, ShardMessage::Apply { version, definition }, &mut data));
        }
        assert_eq!(changed, [queue]);
        assert!(data.dispatcher.demand.contains(queue));
        assert_eq!(receive(2, demand(queue, false), &mut data), [queue]);
    }

    #[test]
    fn at_the_limit_publishes_for_a_queue_that_is_being_declared_are_held_back_in_their_order() {
        let identity = ShardIdentity { shard: ShardId(2), shards: 3 };
        let mut sessions = Sessions::new(identity.shard);
        let mut definitions = Definitions::new(identity, catalog());
        let mut data = DataPlane::new(identity, 1 << 20, 0, 1_000);
        let mut early = EarlyPublishes::new(3, 4);
        let mut fx = RecordedEffects::default();
        let mut receive = |from, batch: &mut ShardBatch, early: &mut EarlyPublishes, fx: &mut RecordedEffects| {
            let (sessions, definitions, data) = (&mut sessions, &mut definitions, &mut data);
            let requests = Requests { control: ControlPlane { identity, sessions, definitions, data } };
            Inbox { requests, early }.receive(ShardId(from), batch, fx);
        };
        // Shard 1 knows both queues already.
        let mut elsewhere = catalog();
        let declarations = [declare(&mut elsewhere, "other"), declare(&mut elsewhere, "q")];
        let queue = declarations[1].1;
        let mut bodies = 0_u8;
        for publishes in [3, 4, 2] {
            let mut batch = ShardBatch::default();
            for _ in 0..publishes {
                // Two that differ in their lengths do not travel as one.
                let body = &[bodies; 2][..1 + usize::from(bodies % 2)];
                let content = Content { body: BodyRef::Small(body), ..Content::EMPTY };
                assert!(batch.push_publish(&content, std::iter::once(queue), true));
                bodies += 1;
            }
            batch.push(ShardMessage::QueueFull { queue, full: false });
            receive(1, &mut batch, &mut early, &mut fx);
            assert!(batch.is_empty());
        }
        // Four wait; five are held back, and the two other messages that follow them.
        assert!(early.holds_back(ShardId(1)) && !early.has_capacity(ShardId(1), 1));
        assert_eq!(early.len(), 9 + 2);
        assert!(fx.batch(ShardId(1)).is_empty(), "nothing is confirmed");
        // Definitions go on being received. One that concerns none of the publishes releases none.
        for (version, (declaration, _)) in (1..).zip(&declarations) {
            assert_eq!(early.len(), 9 + 2);
            let mut batch = ShardBatch::default();
            batch.push(ShardMessage::Apply { version, definition: Arc::clone(declaration) });
            receive(0, &mut batch, &mut early, &mut fx);
        }
        assert!(early.is_empty() && !early.holds_back(ShardId(1)));
        data.confirms.flush_accepted(&mut fx);
        let sent: Vec<_> = fx.batch(ShardId(1)).messages.iter().map(|message| format!("{message:?}")).collect();
        assert_eq!(sent, ["PublishesAccepted { publishes: 9 }"]);
        for expected in 0..bodies {
            let Dispatcher { queues, work, .. } = &mut data.dispatcher;
            let GetResult::Message(entry, _) = queues.get(queue, true, 0, work, &mut fx) else { panic!("a message") };
            let content = entry.message.content();
            let body = match content.body {
                BodyRef::Small(body) => body,
                BodyRef::Large(slice) => slice,
            };
            assert_eq!(body[0], expected, "in their order");
        }
    }
}
