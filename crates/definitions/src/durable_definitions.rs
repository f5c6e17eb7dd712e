//! The durable definitions: what is defined and survives a restart, by names and in order.
//!
//! Enters: journal records, in the order of their journal.  Leaves: what they come to: records again, or definitions.
//! Never:  refuses a record: what it says of things that are not there has no effect, or waits until they are.

use crate::binding_set::{BindingEnd, BindingSet};
use crate::journal_record::{DurableExchange, DurableQueue, JournalRecord, StoredUser};
use catalog::{Name, Permission, Policy, QueueUid, TopicPermission, UserLimits, VhostLimits};
use std::collections::BTreeMap;

/// Something with its place in the order in which things were made.
#[derive(Clone, Debug)]
pub(crate) struct Ordered<T> {
    pub place: u64,
    pub value: T,
}

/// The things of a map in the order of their making.
pub(crate) fn in_order<T>(map: &BTreeMap<Name, Ordered<T>>) -> Vec<(&Name, &T)> {
    let mut all: Vec<_> = map.iter().collect();
    all.sort_by_key(|(_, thing)| thing.place);
    all.into_iter().map(|(name, thing)| (name, &thing.value)).collect()
}

#[derive(Clone, Default, Debug)]
pub(crate) struct DurableVhost {
    pub limits: VhostLimits,
    pub exchanges: BTreeMap<Name, Ordered<DurableExchange>>,
    pub queues: BTreeMap<Name, Ordered<DurableQueue>>,
    pub bindings: BindingSet,
}

#[derive(Clone, Debug)]
pub(crate) struct DurableUser {
    pub user: StoredUser,
    pub limits: UserLimits,
    /// By virtual host.
    pub permissions: BTreeMap<Name, Permission>,
    /// By virtual host and exchange.
    pub topics: BTreeMap<(Name, Name), TopicPermission>,
}

/// What survives a restart.
#[derive(Clone, Default, Debug)]
pub struct DurableDefinitions {
    pub(crate) vhosts: BTreeMap<Name, Ordered<DurableVhost>>,
    pub(crate) users: BTreeMap<Name, Ordered<DurableUser>>,
    /// Policies, and whether each is the operator's.
    pub(crate) policies: Vec<(Policy, bool)>,
    /// The greatest uid that a queue has had, whether the queue is there or not.
    last_uid: u64,
    /// Places that have been given.
    places: u64,
}

impl DurableDefinitions {
    /// Whether nothing is defined.
    pub fn is_empty(&self) -> bool {
        self.vhosts.is_empty() && self.users.is_empty() && self.last_uid == 0
    }

    /// How much is defined, by what it is: for the log.
    pub fn counts(&self) -> [(&'static str, usize); 5] {
        let sum = |count: fn(&DurableVhost) -> usize| self.vhosts.values().map(|vhost| count(&vhost.value)).sum();
        [
            ("virtual hosts", self.vhosts.len()),
            ("users", self.users.len()),
            ("exchanges", sum(|vhost| vhost.exchanges.len())),
            ("queues", sum(|vhost| vhost.queues.len())),
            ("bindings", sum(|vhost| vhost.bindings.len())),
        ]
    }

    /// The queues, each with its virtual host and its name.
    pub fn queues(&self) -> impl Iterator<Item = (&Name, &Name, &DurableQueue)> {
        self.vhosts
            .iter()
            .flat_map(|(vhost, entry)| entry.value.queues.iter().map(move |(name, queue)| (vhost, name, &queue.value)))
    }

    /// The uid that the next durable queue gets: none had it yet.
    pub fn next_queue_uid(&self) -> QueueUid {
        QueueUid::new(self.last_uid.saturating_add(1)).unwrap_or(QueueUid::FIRST)
    }

    /// Spreads the queues over so many shards, where there was another number of them: evenly, in the order in which they were
    /// declared.
    pub fn spread_over(&mut self, shards: u16) {
        for vhost in self.vhosts.values_mut() {
            for queue in vhost.value.queues.values_mut() {
                queue.value.home = (queue.value.uid.number() % u64::from(shards.max(1))) as u16;
            }
        }
    }

    /// Makes a change.
    pub fn apply(&mut self, record: JournalRecord) {
        match record {
            // Whoever replays a journal knows what they mean.
            JournalRecord::SnapshotBegin | JournalRecord::SnapshotEnd => {}
            JournalRecord::PutVhost { name } => _ = self.vhost(name),
            JournalRecord::DeleteVhost { name } => self.delete_vhost(&name),
            JournalRecord::SetVhostLimits { vhost, limits } => self.vhost(vhost).limits = limits,
            JournalRecord::PutUser { name, user } => self.put_user(name, user),
            JournalRecord::DeleteUser { name } => _ = self.users.remove(&name),
            JournalRecord::SetUserLimits { user, limits } => self.with_user(&user, |user| user.limits = limits),
            JournalRecord::SetPermission { user, vhost, permission } => {
                self.with_user(&user, |user| _ = user.permissions.insert(vhost, permission));
            }
            JournalRecord::ClearPermission { user, vhost } => {
                self.with_user(&user, |user| _ = user.permissions.remove(&vhost));
            }
            JournalRecord::SetTopicPermission { user, vhost, exchange, permission } => {
                self.with_user(&user, |user| _ = user.topics.insert((vhost, exchange), permission));
            }
            JournalRecord::ClearTopicPermission { user, vhost, exchange } => {
                self.with_user(&user, |user| _ = user.topics.remove(&(vhost, exchange)));
            }
            JournalRecord::ClearPolicies => self.policies.clear(),
            JournalRecord::PutPolicy { policy, is_operator } => self.put_policy(policy, is_operator),
            JournalRecord::PutExchange { vhost, name, exchange } => {
                let place = self.next_place();
                put(&mut self.vhost(vhost).exchanges, name, exchange, place);
            }
            JournalRecord::DeleteExchange { vhost, name } => {
                let vhost = self.vhost(vhost);
                vhost.exchanges.remove(&name);
                vhost.bindings.remove_end(BindingEnd::Source, &name);
                vhost.bindings.remove_end(BindingEnd::DestinationExchange, &name);
            }
            JournalRecord::PutQueue { vhost, name, queue } => {
                self.last_uid = self.last_uid.max(queue.uid.number());
                let place = self.next_place();
                put(&mut self.vhost(vhost).queues, name, queue, place);
            }
            JournalRecord::DeleteQueue { vhost, name } => {
                let vhost = self.vhost(vhost);
                vhost.queues.remove(&name);
                vhost.bindings.remove_end(BindingEnd::DestinationQueue, &name);
            }
            JournalRecord::PutBinding { vhost, binding } => self.vhost(vhost).bindings.put_newest(binding),
            JournalRecord::PutOlderBinding { vhost, binding } => self.vhost(vhost).bindings.put_oldest(binding),
            JournalRecord::DeleteBinding { vhost, binding } => self.vhost(vhost).bindings.remove(&binding),
            JournalRecord::NextQueueUid(uid) => self.last_uid = self.last_uid.max(uid.number() - 1),
        }
    }

    fn next_place(&mut self) -> u64 {
        self.places += 1;
        self.places
    }

    /// A virtual host, which is made where damage has taken the record that made it.
    fn vhost(&mut self, name: Name) -> &mut DurableVhost {
        let place = self.next_place();
        &mut self.vhosts.entry(name).or_insert(Ordered { place, value: DurableVhost::default() }).value
    }

    fn delete_vhost(&mut self, name: &Name) {
        self.vhosts.remove(name);
        self.policies.retain(|(policy, _)| policy.vhost != *name);
        for user in self.users.values_mut() {
            user.value.permissions.remove(name);
            user.value.topics.retain(|(vhost, _), _| vhost != name);
        }
    }

    fn put_user(&mut self, name: Name, user: StoredUser) {
        if let Some(known) = self.users.get_mut(&name) {
            known.value.user = user;
            return;
        }
        let place = self.next_place();
        let (limits, permissions, topics) = (UserLimits::default(), BTreeMap::new(), BTreeMap::new());
        self.users.insert(name, Ordered { place, value: DurableUser { user, limits, permissions, topics } });
    }

    fn with_user(&mut self, name: &Name, change: impl FnOnce(&mut DurableUser)) {
        if let Some(user) = self.users.get_mut(name) {
            change(&mut user.value);
        }
    }

    fn put_policy(&mut self, policy: Policy, is_operator: bool) {
        let same = |(known, known_operator): &&mut (Policy, bool)| {
            (&known.vhost, &known.name, *known_operator) == (&policy.vhost, &policy.name, is_operator)
        };
        match self.policies.iter_mut().find(same) {
            Some((known, _)) => *known = policy,
            None => self.policies.push((policy, is_operator)),
        }
    }
}

/// Puts something under a name, in the place of what has that name.
fn put<T>(map: &mut BTreeMap<Name, Ordered<T>>, name: Name, value: T, place: u64) {
    match map.get_mut(&name) {
        Some(known) => known.value = value,
        None => _ = map.insert(name, Ordered { place, value }),
    }
}
