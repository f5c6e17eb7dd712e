//! Runs of definitions: those that nobody waits for travel to shard 0 together.
//!
//! Enters: declarations and bindings with `no-wait` that follow one another on a channel.  Leaves: one letter for all of them.
//! Owns:   what may be part of a run, and what becomes of it if one of them is refused.
//! Never:  lets anything else of the connection be carried out before all of the run is visible on every shard.

use super::{Broker, Flow};
use crate::effects::{Effects, Slot};
use crate::letter::Asker;
use crate::limits::DEFINITIONS_A_RUN_MAX;
use crate::peer::{Awaiting, Run, Then};
use catalog::{Definition, Refusal};
use wire::method::Method;

impl Broker {
    /// Whether a method may follow others in a run: it adds something, its client waits for no answer, and what it needs to know
    /// is known before the run is carried out.
    pub fn gathers(&self, slot: Slot, method: &Method<'_>) -> bool {
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
    pub(super) fn may_gather(&self, definition: &Definition, then: &Then) -> bool {
        let adds = match (definition, then) {
            (
                Definition::DeclareExchange { .. } | Definition::BindExchange { .. } | Definition::BindQueue { .. },
                Then::Reply { no_wait, .. },
            ) => *no_wait,
            (Definition::DeclareQueue { vhost, name, .. }, Then::CountQueue { no_wait, .. }) => {
                *no_wait && self.catalog.queue(*vhost, name.as_bytes()).is_none()
            }
            _ => false,
        };
        adds && !self.catalog.restricts_topics()
    }

    /// Puts a definition, checked, behind those of its connection's run.
    pub(super) fn gather<E: Effects>(
        &mut self,
        slot: Slot,
        channel: u16,
        method: (u16, u16),
        definition: Definition,
        fx: &mut E,
    ) -> Flow {
        let Some(peer) = self.peer_mut(slot) else { return Flow::Go };
        let run = peer.run.get_or_insert_with(|| Box::new(Run { channel, definitions: vec![], methods: vec![] }));
        assert_eq!(run.channel, channel, "a run is of one channel");
        run.definitions.push(definition);
        run.methods.push(method);
        if run.definitions.len() < DEFINITIONS_A_RUN_MAX {
            return Flow::Gather;
        }
        self.end_run(slot, fx);
        Flow::Wait
    }

    /// Nothing more follows in a connection's run: it goes to shard 0, and the connection waits for it.
    pub fn end_run<E: Effects>(&mut self, slot: Slot, fx: &mut E) {
        self.send_run(slot, None, fx);
    }

    fn send_run<E: Effects>(&mut self, slot: Slot, tail: Option<(Refusal, (u16, u16))>, fx: &mut E) {
        let Some(run) = self.peer_mut(slot).and_then(|peer| peer.run.take()) else { return };
        let Run { channel, definitions, methods } = *run;
        let question = self.next_question();
        let asker = Asker { session: self.session_of(slot), channel, question };
        let (refusal, method) = tail.map_or((None, (0, 0)), |(refusal, method)| (Some(Box::new(refusal)), method));
        self.wait_for(slot, Awaiting { channel, method, question, then: Then::Ran { methods, refusal } });
        self.send_definitions(Some(asker), definitions, fx);
    }

    /// A method is refused. If it follows a run, what the run comes to is heard first.
    #[cold]
    pub(super) fn refuse_behind_run<E: Effects>(
        &mut self,
        slot: Slot,
        refusal: Refusal,
        method: (u16, u16),
        fx: &mut E,
    ) -> Result<Flow, Refusal> {
        if self.peer_mut(slot).is_none_or(|peer| peer.run.is_none()) {
            return Err(refusal);
        }
        self.send_run(slot, Some((refusal, method)), fx);
        Ok(Flow::Wait)
    }
}
