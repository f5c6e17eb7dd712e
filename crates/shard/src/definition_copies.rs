//! Copies of the definitions for replicas outside of the shards, made in pieces: a million bindings in one piece hold everybody on shard
//! 0 for 40 ms.
//!
//! While a copy is made the definitions stay as they are: changes wait, and messages go on.

use crate::catalog_replica::CatalogReplica;
use crate::limits::DEFINITION_BYTES_COPIED_PER_TICK;
use crate::sessions::Sessions;
use broker::Broker;
use catalog::CatalogCopy;
use std::collections::VecDeque;
use std::sync::mpsc::Sender;

/// The copies that are asked for, made one after the other.
#[derive(Default)]
pub(crate) struct DefinitionCopies {
    waiting: VecDeque<Sender<Box<CatalogReplica>>>,
    /// The one for the first of these.
    copy: Option<CatalogCopy>,
}

impl DefinitionCopies {
    /// How many are asked for.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether the next tick copies more: none is begun while definitions are unfinished, or wait since the last copy.
    #[inline]
    pub fn has_work(&self, broker: &Broker) -> bool {
        self.copy.is_some() || (!self.waiting.is_empty() && broker.may_copy_definitions())
    }

    pub fn request(&mut self, reply: Sender<Box<CatalogReplica>>) {
        self.waiting.push_back(reply);
    }

    /// Copies one more piece, or begins as soon as no definition is unfinished. A complete copy becomes a replica, which gets every
    /// change from then on.
    #[inline]
    pub fn proceed(&mut self, sessions: &mut Sessions) {
        if !self.waiting.is_empty() {
            self.copy_piece(sessions);
        }
    }

    #[cold]
    fn copy_piece(&mut self, sessions: &mut Sessions) {
        let Sessions { broker, effects, shared, options, .. } = sessions;
        if self.copy.is_none() && !broker.begin_definition_copy() {
            return;
        }
        let mut copy = self.copy.take().unwrap_or_else(|| CatalogCopy::new(broker.catalog()));
        if !copy.proceed(broker.catalog(), DEFINITION_BYTES_COPIED_PER_TICK) {
            self.copy = Some(copy);
            return;
        }
        broker.end_definition_copy();
        let Some(reply) = self.waiting.pop_front() else { return };
        let replica = effects.replicas.subscribe(copy.into_catalog(), broker.definitions_version());
        // It takes as much memory as a shard's.
        if let Some(share) = shared.definition_share(options.shard, effects.replicas.subscribers()) {
            broker.catalog_mut().set_definition_share(share);
        }
        if let Some(replica) = replica {
            // A requester that has gone needs none, and is forgotten with the next change.
            let _sent = reply.send(Box::new(replica));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::DefinitionCopies;
    use crate::limits::DEFINITION_BYTES_COPIED_PER_TICK;
    use crate::test_sessions::sessions;
    use catalog::{Definition, ShardId};
    use std::sync::mpsc;
    use wire::Table;

    #[test]
    fn definitions_are_copied_in_pieces_and_stay_as_they_are_meanwhile() {
        let mut sessions = sessions();
        let (broker, effects) = (&mut sessions.broker, &mut sessions.effects);
        let vhost = broker.catalog().vhost_by_name("/").expect("the first");
        for number in 0..20_000 {
            let definition = Definition::DeclareQueue {
                vhost,
                name: (&*format!("queue-{number}")).into(),
                server_named: false,
                durable: false,
                exclusive: None,
                auto_delete: false,
                arguments: Table::new(),
                home: ShardId(0),
            };
            broker.define_as_operator(definition, effects).expect("a new queue");
        }
        let bytes = sessions.broker.catalog().bytes();
        let mut copies = DefinitionCopies::default();
        let (reply, replicas) = mpsc::channel();
        copies.request(reply.clone());
        copies.request(reply);
        let (mut pieces, mut made) = (0, Vec::new());
        while copies.has_work(&sessions.broker) {
            copies.proceed(&mut sessions);
            pieces += 1;
            made.extend(replicas.try_iter());
            assert_eq!(sessions.broker.holds_definitions(), copies.copy.is_some());
        }
        // Names and what the allocator adds are not counted alike.
        let least = 2 * (bytes / DEFINITION_BYTES_COPIED_PER_TICK) / 3;
        assert!(pieces > 4 && pieces >= least, "{pieces} pieces of {bytes} bytes");
        assert_eq!(made.len(), 2);
        let broker = &sessions.broker;
        for replica in made {
            assert_eq!(replica.version(), broker.definitions_version());
            assert_eq!(replica.catalog().queues().count(), 20_000);
        }
    }
}
