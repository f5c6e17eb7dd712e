//! Definitions: changes of the catalog, made on every shard alike.
//!
//! Enters: a change.  Leaves: the same change on every replica, in one order; its outcome once all have made it.
//! Owns:   shard 0's list of changes that not every replica has made yet.
//! Never:  answers before the change is visible on every shard.

use super::time::rearm;
use super::{Broker, PendingDefinition, ReadControl, find};
use crate::effects::{Effects, ConnectionSlot};
use crate::features::FeatureState;
use crate::shard_message::{QueueResponse, Requester, ShardMessage, RefusedDefinition};
use crate::session_state::{PendingCommand, PendingReply};
use crate::queue::Queue;
use catalog::{Definition, Executed, Outcome, QueueId, Refusal, ShardId, VhostId};
use std::sync::Arc;

impl Broker {
    /// A change of definitions; `then` follows once every shard has made it.
    pub(super) fn define<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        number: u16,
        method: (u16, u16),
        definition: Definition,
        then: PendingReply,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        let (user, ..) = self.whose(slot)?;
        self.catalog.authorize(user, &definition)?;
        if self.options.shards == 1 {
            let executed = self.catalog.execute(&definition)?;
            self.carry_out(&executed, fx);
            let flow = self.follow(slot, PendingCommand { channel: number, method, request: 0, reply: then }, QueueResponse::Done, fx)?;
            self.dispatch_due(fx);
            return Ok(flow);
        }
        if self.may_gather(&definition, &then) {
            return Ok(self.gather(slot, number, method, definition, fx));
        }
        let question = self.next_question();
        let asker = Some(Requester { session: self.session_of(slot), channel: number, request: question });
        self.wait_for(slot, PendingCommand { channel: number, method, request: question, reply: then });
        self.send_definition(asker, definition, fx);
        Ok(ReadControl::Pause)
    }

    /// A change of definitions that nobody waits for.
    pub(super) fn define_unasked<E: Effects>(&mut self, definition: Definition, fx: &mut E) {
        self.send_definition(None, definition, fx);
    }

    /// A queue goes, with what is in it, whoever has it; nobody waits for that.
    pub fn delete_queue<E: Effects>(&mut self, vhost: VhostId, name: &[u8], fx: &mut E) {
        let id = self.catalog.queue(vhost, name);
        if let Some(name) = id.and_then(|id| self.catalog.queue_definition(id)).map(|queue| queue.name.clone()) {
            self.define_unasked(Definition::DeleteQueue { vhost, name, session: None }, fx);
            self.dispatch_due(fx);
        }
    }

    pub(super) fn send_definition<E: Effects>(&mut self, asker: Option<Requester>, definition: Definition, fx: &mut E) {
        self.send_definitions(asker, vec![definition], fx);
    }

    pub(super) fn send_definitions<E: Effects>(
        &mut self,
        asker: Option<Requester>,
        definitions: Vec<Definition>,
        fx: &mut E,
    ) {
        if self.options.shard == ShardId(0) {
            self.define_here(asker, definitions, fx);
        } else {
            fx.batch(ShardId(0)).push(ShardMessage::Define { requester: asker, definitions });
        }
    }

    /// Shard 0 makes changes, and every replica after it.
    pub(super) fn define_here<E: Effects>(&mut self, asker: Option<Requester>, definitions: Vec<Definition>, fx: &mut E) {
        let mut result = Ok(());
        for (made, definition) in definitions.into_iter().enumerate() {
            if let Err(refusal) = self.execute_here(definition, fx) {
                result = Err(RefusedDefinition { made, refusal });
                break;
            }
        }
        if let Some(asker) = asker {
            // Even a change that changed nothing waits for those before it: what it found may not be visible everywhere yet.
            self.defining.push_back(PendingDefinition { version: self.version, asker, result });
            self.answer_defined(fx);
        }
    }

    /// A change of shard 0, of which the replicas are told.
    fn execute_here<E: Effects>(&mut self, definition: Definition, fx: &mut E) -> Result<(), Refusal> {
        assert_eq!(self.options.shard, ShardId(0), "changes are made by shard 0 first");
        let executed = self.catalog.execute(&definition)?;
        if executed.changed {
            self.version += 1;
            let definition = Arc::new(definition);
            for shard in (1..self.options.shards).map(ShardId) {
                fx.batch(shard).push(ShardMessage::Apply { version: self.version, definition: Arc::clone(&definition) });
            }
        }
        self.carry_out(&executed, fx);
        Ok(())
    }

    /// A change that an operator makes, at shard 0.
    ///
    /// # Errors
    /// What the catalog refuses; nothing is changed then.
    pub fn define_as_operator<E: Effects>(&mut self, definition: Definition, fx: &mut E) -> Result<(), Refusal> {
        self.execute_here(definition, fx)?;
        self.dispatch_due(fx);
        Ok(())
    }

    /// Answers the changes that every replica has made.
    pub(super) fn answer_defined<E: Effects>(&mut self, fx: &mut E) {
        let everywhere = self.applied.iter().skip(1).copied().min().unwrap_or(self.version);
        while self.defining.front().is_some_and(|defining| defining.version <= everywhere) {
            let Some(PendingDefinition { asker, result, .. }) = self.defining.pop_front() else {
                return;
            };
            let to = asker.session.shard;
            if self.is_home(to) {
                self.defined(asker, result, fx);
            } else {
                fx.batch(to).push(ShardMessage::DefinitionOutcome { requester: asker, result });
            }
        }
    }

    /// This replica makes a change of shard 0.
    pub(super) fn apply_definition<E: Effects>(&mut self, version: u64, definition: &Definition, fx: &mut E) {
        assert_eq!(version, self.version + 1, "changes arrive in their order");
        self.version = version;
        match self.catalog.execute(definition) {
            Ok(executed) => self.carry_out(&executed, fx),
            Err(refusal) => {
                unreachable!("replicas are alike, and shard 0 made this change: {refusal}")
            }
        }
    }

    /// What came of changes that a connection of this shard asked for.
    pub(super) fn defined<E: Effects>(&mut self, asker: Requester, result: Result<(), RefusedDefinition>, fx: &mut E) {
        let answer = match result {
            Ok(()) => QueueResponse::Done,
            Err(RefusedDefinition { made, refusal }) => {
                let peer = self.peer_mut(asker.session.slot).filter(|peer| peer.session == asker.session);
                if let Some(awaiting) = peer.and_then(|peer| peer.pending.as_mut())
                    && awaiting.request == asker.request
                    && let PendingReply::DefinitionBatch { methods, .. } = &awaiting.reply
                    && let Some(method) = methods.get(made)
                {
                    awaiting.method = *method;
                }
                QueueResponse::Refused(refusal)
            }
        };
        self.answered(asker, answer, fx);
    }

    /// Queues that a change made, removed or put under other policies and that live here.
    fn carry_out<E: Effects>(&mut self, executed: &Executed, fx: &mut E) {
        for removed in &executed.queues_removed {
            if self.is_home(removed.home) {
                self.drop_queue(removed.id, fx);
            } else {
                self.full.remove(&removed.id);
            }
        }
        if let Outcome::Queue { id, home, created: true } = executed.outcome
            && self.is_home(home)
        {
            self.make_queue(id);
        }
        for id in &executed.queues_changed {
            self.renew_queue(*id);
        }
        // A virtual host that goes takes its limits along.
        let is_gone = |vhost| self.catalog.vhost_name(vhost).is_empty();
        if executed.outcome == Outcome::Limited || self.rooms.iter().any(|(vhost, ..)| is_gone(vhost)) {
            for vhost in self.find_rooms() {
                self.tell_vhost(vhost, false, fx);
            }
        }
    }

    /// Looks up which virtual hosts have their bytes counted. Answers those that were full and are counted no more.
    pub(super) fn find_rooms(&mut self) -> Vec<VhostId> {
        let limits =
            self.catalog.vhosts().filter_map(|(id, _)| Some((id, self.catalog.vhost_limits(id).queue_bytes_max?)));
        self.rooms.set_limits(limits)
    }

    /// A queue is under other policies, or its bytes are counted from now on, or no more.
    fn renew_queue(&mut self, id: QueueId) {
        let Some(definition) = self.catalog.queue_definition(id) else { return };
        let is_counted = self.catalog.vhost_limits(definition.vhost).queue_bytes_max.is_some();
        let mut features = FeatureState::of(definition, is_counted, self.now_us);
        let Some(queue) = find(&mut self.queues, id) else { return };
        self.rooms.remove_queue(queue);
        if let Some(before) = queue.features.take()
            && let Some(features) = &mut features
        {
            features.inherit(*before);
        }
        queue.features = features;
        queue.expiring |= queue.has_ttl();
        self.rooms.update(queue);
        // It gives up at once what has no place any more, and its time may come sooner.
        self.make_due(id);
    }

    /// The queues that were defined before this shard began.
    pub(super) fn make_queues(&mut self) {
        let here: Vec<_> =
            self.catalog.queues().filter(|(_, queue)| self.is_home(queue.home)).map(|(id, _)| id).collect();
        for id in here {
            self.make_queue(id);
        }
    }

    fn make_queue(&mut self, id: QueueId) {
        if let Some(definition) = self.catalog.queue_definition(id) {
            let mut queue =
                Queue::new(id, definition.name.shared(), definition.vhost, definition.durable, definition.auto_delete);
            let is_counted = self.catalog.vhost_limits(definition.vhost).queue_bytes_max.is_some();
            queue.features = FeatureState::of(definition, is_counted, self.now_us);
            queue.expiring = queue.has_ttl();
            rearm(&mut self.timers, &mut queue);
            let index = id.index as usize;
            if self.queues.len() <= index {
                self.queues.resize_with(index + 1, || None);
            }
            assert!(find(&mut self.queues, id).is_none(), "a queue is created once");
            self.queues[index] = Some(Box::new(queue));
        }
    }
}
