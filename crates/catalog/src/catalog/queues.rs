//! Queues come and go.
//!
//! Enters: declare, delete, the end of sessions.  Leaves: changed tables, and the queues that went.
//! Owns:   the rules for them.

use super::*;
use crate::{
    arguments,
    catalog::{exchanges::truth, removals::Removal},
    ids::{QueueUid, VhostId},
    name::REQUEST_QUEUE,
    queue::QueueDefinition,
    queue_type::QueueProperties,
};

impl Catalog {
    pub(super) fn declare_queue(&mut self, definition: &Definition) -> Result<ExecutedDefinition, Refusal> {
        let Definition::DeclareQueue { vhost, name, server_named, durable, exclusive, auto_delete, arguments, home } =
            definition
        else {
            unreachable!("the caller matched the variant")
        };
        self.check_vhost(*vhost)?;
        if name.starts_with("amq.") && (!server_named || **name == *REQUEST_QUEUE) {
            return Err(Refusal::reserved(ResourceKind::Queue, name));
        }
        // An exclusive queue goes with its connection, so it is never durable, whatever was asked.
        let durable = *durable && exclusive.is_none();
        let what = ResourceName { kind: ResourceKind::Queue, name, vhost: self.vhost_name(*vhost) };
        if let Some(index) = self.find_queue(*vhost, name.as_bytes()) {
            let current = &self.queues.table.at(index).definition;
            // Stricter than `check_lock`: whether it is exclusive must be the same, too.
            if current.exclusive != *exclusive {
                return Err(Refusal::locked(what));
            }
            let same = |argument: &str, received: bool, current: bool| {
                if received == current {
                    return Ok(());
                }
                let (received, current) = (format!("'{}'", truth(received)), format!("'{}'", truth(current)));
                Err(Refusal::inequivalent(what, argument, &received, &current))
            };
            same("durable", durable, current.is_durable())?;
            same("auto_delete", *auto_delete, current.auto_delete)?;
            arguments::check_queue_equivalence(what, current.arguments.as_deref(), arguments)?;
            let outcome = DefinitionOutcome::Queue { id: self.queues.id(index), home: current.home, created: false };
            return Ok(ExecutedDefinition::new(outcome, false));
        }
        self.check_queue_limit(*vhost, name)?;
        let properties = QueueProperties {
            durable,
            exclusive: exclusive.is_some(),
            auto_delete: *auto_delete,
            server_named: *server_named,
        };
        arguments::check_queue(what, arguments, properties, self.limits.queue_types_as_classic)?;
        if self.queues.table.len() >= self.limits.queues_max {
            return Err(Refusal::precondition(format_args!(
                "cannot declare {what}: queue limit of {} is reached",
                self.limits.queues_max
            )));
        }
        self.check_share(format_args!("declare {what}"))?;
        let under = self.vhosts.at_mut(*vhost);
        under.queues += 1;
        let policy = under.policies.of_queue(name, Some(arguments));
        self.work += under.policies.steps(name);
        let uid = durable.then_some(self.next_queue_uid);
        if durable {
            self.next_queue_uid = self.next_queue_uid.next();
        }
        let id = self.queues.insert(QueueDefinition {
            name: name.clone(),
            vhost: *vhost,
            uid,
            auto_delete: *auto_delete,
            home: *home,
            exclusive: *exclusive,
            arguments: arguments::boxed(arguments),
            policy,
        });
        Ok(ExecutedDefinition::new(DefinitionOutcome::Queue { id, home: *home, created: true }, true))
    }

    pub(super) fn delete_queue(
        &mut self,
        vhost: VhostId,
        name: &Name,
        session: Option<SessionId>,
    ) -> Result<ExecutedDefinition, Refusal> {
        let Some(index) = self.find_queue(vhost, name.as_bytes()) else {
            return Ok(ExecutedDefinition::new(DefinitionOutcome::Deleted { existed: false }, false));
        };
        self.check_lock(index, session)?;
        let mut executed = ExecutedDefinition::new(DefinitionOutcome::Deleted { existed: true }, true);
        executed.queues_removed.push(self.begin_queue_removal(index));
        Ok(executed)
    }

    /// The next durable queue gets this uid.
    pub(super) fn set_next_queue_uid(&mut self, uid: QueueUid) -> ExecutedDefinition {
        self.next_queue_uid = uid;
        ExecutedDefinition::new(DefinitionOutcome::QueuesNumbered, true)
    }

    pub(super) fn remove_queue(&mut self, id: QueueId) -> ExecutedDefinition {
        let existed = self.queues.get(id).is_some();
        let mut executed = ExecutedDefinition::new(DefinitionOutcome::Deleted { existed }, existed);
        if existed {
            executed.queues_removed.push(self.begin_queue_removal(id.index));
        }
        executed
    }

    pub(super) fn forget_session(&mut self, session: SessionId) -> ExecutedDefinition {
        let any = self.queues.of_session(session).is_some();
        if any {
            self.removals.push(Removal::Session(session));
        }
        ExecutedDefinition::new(DefinitionOutcome::SessionForgotten, any)
    }
}
