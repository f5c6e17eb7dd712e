//! Runs of definitions: those that nobody waits for travel to shard 0 together.
//!
//! Enters: declarations and bindings with `no-wait` that follow one another on a channel.  Leaves: one letter for all of them.
//! Owns:   what may be part of a run, and what becomes of it if one of them is refused.
//! Never:  lets anything else of the connection be carried out before all of the run is visible on every shard.

use super::{Broker, ReadControl};
use crate::effects::{Effects, ConnectionSlot};
use crate::shard_message::Requester;
use crate::limits::DEFINITIONS_PER_BATCH_MAX;
use crate::session_state::{PendingCommand, DefinitionBatch, PendingReply};
use catalog::{Definition, Refusal};
use wire::method::Method;

impl Broker {
    /// Whether a method may follow others in a run: it adds something, its client waits for no answer, and what it needs to know
    /// is known before the run is carried out.
    pub fn may_batch(&self, slot: ConnectionSlot, method: &Method<'_>) -> bool {
        match method {
            Method::ExchangeDeclare(declare) => declare.no_wait && !declare.passive,
            Method::ExchangeBind(bind) => bind.no_wait,
            Method::QueueBind(bind) => bind.no_wait,
            Method::QueueDeclare(declare) => {
                let name = declare.queue.as_bytes();
                // Declaring a queue again is a use of it, of which its home must hear.
                let is_new = || self.whose(slot).is_ok_and(|(_, vhost, _)| self.catalog.queue(vhost, name).is_none());
                declare.no_wait && !declare.passive && !name.starts_with(b"amq.") && is_new()
            }
            _ => false,
        }
    }

    /// Whether a definition of a client waits for others. Where routing keys are restricted the exchange that a binding is
    /// checked against must be known here, and may be part of the run.
    pub(super) fn may_gather(&self, definition: &Definition, then: &PendingReply) -> bool {
        let adds = match (definition, then) {
            (
                Definition::DeclareExchange { .. } | Definition::BindExchange { .. } | Definition::BindQueue { .. },
                PendingReply::Reply { no_wait, .. },
            ) => *no_wait,
            (Definition::DeclareQueue { vhost, name, .. }, PendingReply::CountQueue { no_wait, .. }) => {
                *no_wait && self.catalog.queue(*vhost, name.as_bytes()).is_none()
            }
            _ => false,
        };
        adds && !self.catalog.restricts_topics()
    }

    /// Puts a definition, checked, behind those of its connection's run.
    pub(super) fn gather<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        channel: u16,
        method: (u16, u16),
        definition: Definition,
        fx: &mut E,
    ) -> ReadControl {
        let Some(peer) = self.peer_mut(slot) else { return ReadControl::Continue };
        let run = peer.definition_batch.get_or_insert_with(|| Box::new(DefinitionBatch { channel, definitions: vec![], methods: vec![] }));
        assert_eq!(run.channel, channel, "a run is of one channel");
        run.definitions.push(definition);
        run.methods.push(method);
        if run.definitions.len() < DEFINITIONS_PER_BATCH_MAX {
            return ReadControl::Batch;
        }
        self.flush_definitions(slot, fx);
        ReadControl::Pause
    }

    /// Nothing more follows in a connection's run: it goes to shard 0, and the connection waits for it.
    pub fn flush_definitions<E: Effects>(&mut self, slot: ConnectionSlot, fx: &mut E) {
        self.send_run(slot, None, fx);
    }

    fn send_run<E: Effects>(&mut self, slot: ConnectionSlot, tail: Option<(Refusal, (u16, u16))>, fx: &mut E) {
        let Some(run) = self.peer_mut(slot).and_then(|peer| peer.definition_batch.take()) else { return };
        let DefinitionBatch { channel, definitions, methods } = *run;
        let question = self.next_question();
        let asker = Requester { session: self.session_of(slot), channel, request: question };
        let (refusal, method) = tail.map_or((None, (0, 0)), |(refusal, method)| (Some(Box::new(refusal)), method));
        self.wait_for(slot, PendingCommand { channel, method, request: question, reply: PendingReply::DefinitionBatch { methods, refusal } });
        self.send_definitions(Some(asker), definitions, fx);
    }

    /// A method is refused. If it follows a run, what the run comes to is heard first.
    #[cold]
    pub(super) fn refuse_behind_run<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        refusal: Refusal,
        method: (u16, u16),
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        if self.peer_mut(slot).is_none_or(|peer| peer.definition_batch.is_none()) {
            return Err(refusal);
        }
        self.send_run(slot, Some((refusal, method)), fx);
        Ok(ReadControl::Pause)
    }
}
