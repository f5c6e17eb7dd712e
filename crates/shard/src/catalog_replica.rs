//! A replica of the definitions for a thread that is no shard: a snapshot, and then each change that shard 0 makes.
//!
//! The same definitions in the same order give the same ids as on the shards. A replica that is too far behind is given up: it
//! holds nobody, and its owner subscribes anew.

use crate::limits::{DEFINITION_SUBSCRIBERS_MAX, DEFINITION_UPDATES_MAX};
use catalog::{Catalog, Definition, DefinitionOutcome, QueueRoute, RouteQuestion};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

/// A change that shard 0 has made.
struct DefinitionUpdate {
    version: u64,
    definition: Arc<Definition>,
}

/// Passes the changes of shard 0 on to replicas outside of the shards.
#[derive(Default)]
pub(crate) struct DefinitionPublisher {
    subscribers: Vec<SyncSender<DefinitionUpdate>>,
}

impl DefinitionPublisher {
    /// A replica with these definitions, a copy, which gets the changes behind this version. `None`: there are too many.
    pub fn subscribe(&mut self, catalog: Catalog, version: u64) -> Option<CatalogReplica> {
        if self.subscribers.len() >= DEFINITION_SUBSCRIBERS_MAX {
            return None;
        }
        let (sender, updates) = sync_channel(DEFINITION_UPDATES_MAX);
        self.subscribers.push(sender);
        Some(CatalogReplica { catalog, version, updates })
    }

    /// The replicas outside of the shards, those included that were lost since the last change.
    pub fn subscribers(&self) -> usize {
        self.subscribers.len()
    }

    /// Shard 0 has made a change. Subscribers that are gone, or have as many changes to make as may wait, are dropped.
    pub fn publish(&mut self, version: u64, definition: &Arc<Definition>) {
        self.subscribers.retain(|subscriber| {
            let definition = Arc::clone(definition);
            subscriber.try_send(DefinitionUpdate { version, definition }).is_ok()
        });
    }
}

/// The replica gets no more changes: it was too slow, or the broker has stopped. Subscribe anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplicaLost;

impl std::fmt::Display for ReplicaLost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the replica of the definitions gets no more changes")
    }
}

impl std::error::Error for ReplicaLost {}

/// A replica of the definitions.
pub struct CatalogReplica {
    catalog: Catalog,
    version: u64,
    updates: Receiver<DefinitionUpdate>,
}

impl CatalogReplica {
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Where a message would go, if that is found with so much work or little more.
    pub fn find_route(&mut self, message: RouteQuestion<'_>) -> Option<Arc<QueueRoute>> {
        message.ask(&mut self.catalog)
    }

    /// The changes that were made, as shard 0 counts them: what it has answered up to this one is here.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Makes the changes that wait, so many at most, and calls `on_change` with each. Returns how many were made.
    ///
    /// # Errors
    /// There will be no more; those that came before the loss are made first.
    pub fn apply(
        &mut self,
        changes_max: usize,
        mut on_change: impl FnMut(&Definition, &DefinitionOutcome),
    ) -> Result<usize, ReplicaLost> {
        for made in 0..changes_max {
            match self.updates.try_recv() {
                Ok(update) => self.make(&update, &mut on_change),
                Err(TryRecvError::Empty) => return Ok(made),
                Err(TryRecvError::Disconnected) if made > 0 => return Ok(made),
                Err(TryRecvError::Disconnected) => return Err(ReplicaLost),
            }
        }
        Ok(changes_max)
    }

    /// Waits for one change and makes it. Returns whether one came in this time.
    ///
    /// # Errors
    /// There will be no more.
    pub fn wait(&mut self, timeout: Duration) -> Result<bool, ReplicaLost> {
        match self.updates.recv_timeout(timeout) {
            Ok(update) => self.make(&update, &mut |_, _| {}),
            Err(RecvTimeoutError::Timeout) => return Ok(false),
            Err(RecvTimeoutError::Disconnected) => return Err(ReplicaLost),
        }
        Ok(true)
    }

    fn make(&mut self, update: &DefinitionUpdate, on_change: &mut impl FnMut(&Definition, &DefinitionOutcome)) {
        assert_eq!(update.version, self.version + 1, "changes arrive in their order");
        self.version = update.version;
        match self.catalog.execute(&update.definition) {
            Ok(executed) => on_change(&update.definition, &executed.outcome),
            Err(refusal) => unreachable!("replicas are alike, and shard 0 made this change: {refusal}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DefinitionPublisher, ReplicaLost};
    use crate::limits::{DEFINITION_SUBSCRIBERS_MAX, DEFINITION_UPDATES_MAX};
    use catalog::{Catalog, CatalogLimits, Definition};
    use std::sync::Arc;

    fn vhost(number: u64) -> Arc<Definition> {
        Arc::new(Definition::CreateVhost { name: (&*format!("v{number}")).into() })
    }

    #[test]
    fn a_replica_follows_and_one_that_is_too_far_behind_is_given_up_and_holds_nobody() {
        let mut catalog = Catalog::new(CatalogLimits { vhosts_max: 10_000, ..CatalogLimits::default() });
        let mut publisher = DefinitionPublisher::default();
        catalog.execute(&vhost(0)).expect("the first");
        let mut replica = publisher.subscribe(catalog.clone(), 1).expect("few");
        let mut slow = publisher.subscribe(catalog.clone(), 1).expect("few");
        let changes = DEFINITION_UPDATES_MAX as u64 + 1;
        for number in 1..=changes {
            let definition = vhost(number);
            catalog.execute(&definition).expect("a new one");
            publisher.publish(number + 1, &definition);
            let mut told = 0;
            assert_eq!(replica.apply(10, |_, _| told += 1), Ok(1));
            assert_eq!(told, 1);
        }
        assert_eq!((replica.version(), publisher.subscribers.len()), (changes + 1, 1), "the slow one is dropped");
        for name in ["v0", "v1", "v4097"] {
            assert_eq!(replica.catalog().vhost_by_name(name), catalog.vhost_by_name(name), "{name}");
        }
        assert_eq!(slow.apply(usize::MAX, |_, _| {}), Ok(DEFINITION_UPDATES_MAX));
        assert_eq!(
            (slow.apply(1, |_, _| {}), slow.wait(std::time::Duration::MAX)),
            (Err(ReplicaLost), Err(ReplicaLost))
        );
        let anew = publisher.subscribe(catalog.clone(), changes + 1).expect("few");
        assert_eq!(anew.catalog().version(), catalog.version());
        drop((replica, anew));
        publisher.publish(changes + 2, &vhost(0));
        assert!(publisher.subscribers.is_empty(), "whoever is gone is forgotten");
        let all: Vec<_> = (0..DEFINITION_SUBSCRIBERS_MAX).map(|_| publisher.subscribe(catalog.clone(), 0)).collect();
        assert!(all.iter().all(Option::is_some) && publisher.subscribe(catalog.clone(), 0).is_none());
        assert_eq!(publisher.subscribers(), DEFINITION_SUBSCRIBERS_MAX);
    }
}
