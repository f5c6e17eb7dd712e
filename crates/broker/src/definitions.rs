//! The definitions of this shard: its replica of the catalog, and on shard 0 the changes that not every replica has made yet.
//!
//! Shard 0 makes each change first and sends it to the others, so that all replicas make the same changes in one order. A change
//! is answered once every replica has made it, and once it is durable, if it is to survive a restart.

use crate::effects::Effects;
use crate::ids::{SessionIdentity, ShardIdentity};
use crate::limits::{DEFINITIONS_UNDURABLE_MAX, HELD_DEFINITION_BYTES_MAX};
use crate::shard_message::{QueueResponse, RefusedDefinition, ShardMessage};
use catalog::{Catalog, Definition, ExecutedDefinition, PermissionKind, QueueId, Refusal, Resource, ShardId, VhostId};
use queues::Requester;
use std::collections::VecDeque;
use std::sync::Arc;
use wire::ReplyCode;

/// The outcome of changes that wait until every replica has made them and they are durable (shard 0 only).
struct PendingDefinition {
    version: u64,
    /// The last of the changes before it that must be durable.
    journaled: u64,
    requester: Requester,
    result: Result<(), RefusedDefinition>,
}

/// Changes that wait until a copy of the definitions is complete (shard 0 only).
pub(crate) struct HeldDefinitions {
    pub requester: Option<Requester>,
    pub definitions: Vec<Definition>,
    pub no_wait: bool,
}

impl HeldDefinitions {
    fn argument_bytes(&self) -> usize {
        self.definitions.iter().map(Definition::argument_bytes).sum()
    }
}

/// The replica and its version.
pub(crate) struct Definitions {
    identity: ShardIdentity,
    pub catalog: Catalog,
    /// Changes made here.
    version: u64,
    /// Shard 0: the changes that each replica has made.
    applied: Vec<u64>,
    /// Shard 0: the last change that was journaled.
    journaled: u64,
    /// Shard 0: changes up to this one are durable.
    durable: u64,
    pending: VecDeque<PendingDefinition>,
    /// Shard 0: requesters of definitions that further ones finish.
    awaiting_finish: Vec<(Requester, Result<(), RefusedDefinition>)>,
    /// Shard 0: somebody copies the definitions, which stay as they are meanwhile.
    is_being_copied: bool,
    /// Shard 0: the changes that have come since, in their order.
    held: VecDeque<HeldDefinitions>,
    /// Bytes of their arguments.
    held_bytes: usize,
    /// Users may have lost access, and nobody has taken note yet.
    pub access_narrowed: bool,
}

impl Definitions {
    pub fn new(identity: ShardIdentity, catalog: Catalog) -> Self {
        let applied = vec![0; usize::from(identity.shards)];
        Definitions {
            identity,
            catalog,
            version: 0,
            applied,
            journaled: 0,
            durable: 0,
            pending: VecDeque::new(),
            awaiting_finish: Vec::new(),
            is_being_copied: false,
            held: VecDeque::new(),
            held_bytes: 0,
            access_narrowed: false,
        }
    }

    /// Changes whose requesters have no response yet.
    pub fn pending_len(&self) -> usize {
        self.pending.len() + self.awaiting_finish.len() + self.held.len()
    }

    /// Changes made here.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Shard 0: whether the outcomes of changes come later than the changes: other replicas make them, too, or a journal makes
    /// them durable, or they are held back.
    pub fn outcomes_wait(&self) -> bool {
        self.identity.shards > 1 || self.journaled > 0 || self.holds_changes()
    }

    /// Shard 0: the definitions stay as they are until [`end_copy`](Self::end_copy). Returns whether they do: not while some are
    /// unfinished, or held back since an earlier copy.
    pub fn begin_copy(&mut self) -> bool {
        self.is_being_copied = self.may_be_copied();
        self.is_being_copied
    }

    /// Shard 0: whether a copy may begin.
    pub fn may_be_copied(&self) -> bool {
        !self.catalog.has_unfinished() && self.held.is_empty()
    }

    /// Shard 0: a copy is complete. What was held back is made in its order.
    pub fn end_copy(&mut self) {
        self.is_being_copied = false;
    }

    /// Shard 0: whether changes are held back.
    #[inline]
    pub fn holds_changes(&self) -> bool {
        self.is_being_copied || !self.held.is_empty()
    }

    /// Shard 0: holds changes back, behind those that are held back already. When the arguments of these are many bytes, what has
    /// arguments is refused.
    #[cold]
    pub fn hold(&mut self, held: HeldDefinitions) {
        let bytes = held.argument_bytes();
        match held.requester {
            Some(requester) if bytes > 0 && self.held_bytes + bytes > HELD_DEFINITION_BYTES_MAX => {
                let refusal = Refusal::channel(
                    ReplyCode::ResourceError,
                    "RESOURCE_ERROR - the definitions are being copied, and too many changes wait for that",
                );
                self.await_durable(requester, Err(RefusedDefinition { made: 0, refusal }));
            }
            _ => {
                self.held_bytes += bytes;
                self.held.push_back(held);
            }
        }
    }

    /// Shard 0: whether there are changes that are held back, and need not be any more.
    #[inline]
    pub fn has_released(&self) -> bool {
        !self.is_being_copied && !self.held.is_empty()
    }

    /// Shard 0: takes the next of these.
    pub fn next_released(&mut self) -> Option<HeldDefinitions> {
        let next = if self.is_being_copied { None } else { self.held.pop_front() };
        self.held_bytes -= next.as_ref().map_or(0, HeldDefinitions::argument_bytes);
        next
    }

    /// Shard 0 makes a change, and sends it to the other replicas.
    pub fn execute<E: Effects>(&mut self, definition: Definition, fx: &mut E) -> Result<ExecutedDefinition, Refusal> {
        assert_eq!(self.identity.shard, ShardId(0), "changes are made by shard 0 first");
        assert!(!self.is_being_copied, "changes are held back while the definitions are copied");
        let executed = self.catalog.execute(&definition)?;
        if executed.changed {
            self.access_narrowed |= definition.narrows_access();
            self.version += 1;
            if fx.journal(self.version, &definition, &executed, &self.catalog) {
                self.journaled = self.version;
            }
            let (version, definition) = (self.version, Arc::new(definition));
            fx.definition_made(version, &definition);
            for shard in self.identity.others() {
                fx.batch(shard).push(ShardMessage::Apply { version, definition: Arc::clone(&definition) });
            }
        }
        Ok(executed)
    }

    /// This replica makes a change of shard 0.
    pub fn apply(&mut self, version: u64, definition: &Definition) -> ExecutedDefinition {
        assert_eq!(version, self.version + 1, "changes arrive in their order");
        self.version = version;
        self.access_narrowed |= definition.narrows_access();
        match self.catalog.execute(definition) {
            Ok(executed) => executed,
            Err(refusal) => unreachable!("replicas are alike, and shard 0 made this change: {refusal}"),
        }
    }

    /// Shard 0: a requester awaits the outcome of changes. Even one that changed nothing waits for those before it: what it
    /// found may not be visible on every shard yet, or not be durable.
    pub fn await_durable(&mut self, requester: Requester, result: Result<(), RefusedDefinition>) {
        let Definitions { version, journaled, .. } = *self;
        self.pending.push_back(PendingDefinition { version, journaled, requester, result });
    }

    /// Shard 0: the same for changes of which a client hears nothing: they become durable while it goes on, within a limit. What
    /// it is answered later waits for them, and so does a refusal.
    pub fn await_replicas(&mut self, requester: Requester, result: Result<(), RefusedDefinition>) {
        let Definitions { version, mut journaled, .. } = *self;
        if result.is_ok() {
            journaled = journaled.saturating_sub(DEFINITIONS_UNDURABLE_MAX);
        }
        self.pending.push_back(PendingDefinition { version, journaled, requester, result });
    }

    /// Shard 0: a requester awaits the outcome of changes of which some do more than one definition may.
    pub fn await_finish(&mut self, requester: Requester, result: Result<(), RefusedDefinition>) {
        self.awaiting_finish.push((requester, result));
    }

    /// Shard 0: all definitions are finished.
    pub fn end_unfinished(&mut self) {
        for (requester, result) in std::mem::take(&mut self.awaiting_finish) {
            self.await_durable(requester, result);
        }
    }

    /// Shard 0: a replica has made all changes up to a version.
    pub fn note_applied(&mut self, shard: ShardId, version: u64) {
        self.applied[usize::from(shard.0)] = version;
    }

    /// Shard 0: the journal has made all changes up to a version durable.
    pub fn note_durable(&mut self, version: u64) {
        debug_assert!(version >= self.durable, "what is durable stays durable");
        self.durable = version;
    }

    /// Shard 0: takes the next outcome that is visible on every shard, and durable.
    pub fn next_outcome(&mut self) -> Option<(Requester, Result<(), RefusedDefinition>)> {
        let everywhere = self.applied.iter().skip(1).copied().min().unwrap_or(self.version);
        self.pending.front().filter(|pending| pending.version <= everywhere && pending.journaled <= self.durable)?;
        self.pending.pop_front().map(|pending| (pending.requester, pending.result))
    }

    /// Whether the sender of a queue's id knows a declaration that has not arrived here yet.
    pub fn is_to_come(&self, id: QueueId) -> bool {
        self.catalog.is_declared_ahead(id)
    }

    /// Whether the bytes of a virtual host have a quota.
    pub fn has_quota(&self, vhost: VhostId) -> bool {
        self.catalog.vhost_limits(vhost).queue_bytes_max.is_some()
    }

    /// The queue of a name and its home, if the session may do this with it.
    pub fn queue_for(
        &mut self,
        identity: SessionIdentity,
        name: &[u8],
        operation: PermissionKind,
    ) -> Result<(QueueId, ShardId), Refusal> {
        self.catalog.check(identity.user, identity.vhost, operation, Resource::Queue, name)?;
        self.queue(identity, name).map(|(id, home, _)| (id, home))
    }

    /// The queue of a name, its home and its name, if it is not another session's exclusive queue.
    pub fn queue(&self, identity: SessionIdentity, name: &[u8]) -> Result<(QueueId, ShardId, Arc<str>), Refusal> {
        let id = self.catalog.queue_for(identity.vhost, name, identity.session)?;
        let definition =
            self.catalog.queue_definition(id).ok_or_else(|| self.catalog.no_queue(identity.vhost, name))?;
        Ok((id, definition.home, definition.name.shared()))
    }

    /// A queue as error texts name it.
    pub fn describe_queue(&self, id: QueueId) -> String {
        let Some(definition) = self.catalog.queue_definition(id) else { return "queue".into() };
        format!("queue '{}' in vhost '{}'", definition.name, self.catalog.vhost_name(definition.vhost))
    }

    /// The refusal to delete a queue that is not empty or in use.
    pub fn precondition_failed(&self, id: QueueId, what: &str) -> QueueResponse {
        QueueResponse::Refused(Refusal::channel(
            ReplyCode::PreconditionFailed,
            format!("PRECONDITION_FAILED - {} {what}", self.describe_queue(id)),
        ))
    }

    /// The refusal to consume from a queue that another consumer has to itself.
    pub fn exclusive_use(&self, id: QueueId) -> QueueResponse {
        QueueResponse::Refused(Refusal::channel(
            ReplyCode::AccessRefused,
            format!("ACCESS_REFUSED - {} in exclusive use", self.describe_queue(id)),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::Definitions;
    use crate::effects::Effects;
    use crate::ids::ConnectionSlot;
    use crate::ids::ShardIdentity;
    use crate::shard_message::ShardMessage;
    use crate::test_effects::RecordedEffects;
    use catalog::{Catalog, CatalogLimits, Definition, SessionId, ShardId};
    use queues::Requester;
    use wire::ChannelNumber;

    #[test]
    fn an_outcome_waits_until_every_replica_has_made_the_change() {
        let identity = |shard| ShardIdentity { shard: ShardId(shard), shards: 3 };
        let mut first = Definitions::new(identity(0), Catalog::new(CatalogLimits::default()));
        let mut replica = Definitions::new(identity(2), Catalog::new(CatalogLimits::default()));
        let mut fx = RecordedEffects::default();
        let definition = Definition::CreateVhost { name: "v".into() };
        assert!(first.execute(definition, &mut fx).expect("a new virtual host").changed);
        let session = SessionId { shard: ShardId(1), slot: ConnectionSlot::new(0), serial: 0 };
        first.await_durable(Requester { session, channel: ChannelNumber(1), request: 5 }, Ok(()));
        assert!(first.next_outcome().is_none());
        let sent = fx.batch(ShardId(2)).messages.pop();
        let Some(ShardMessage::Apply { version, definition }) = sent else { panic!("{sent:?}") };
        assert!(replica.apply(version, &definition).changed);
        assert!(replica.catalog.vhost_by_name("v").is_some());
        first.note_applied(ShardId(2), version);
        assert!(first.next_outcome().is_none(), "shard 1 has not made it");
        first.note_applied(ShardId(1), version);
        let (requester, result) = first.next_outcome().expect("everywhere");
        assert!(requester.request == 5 && result.is_ok() && first.pending_len() == 0);
    }
}
