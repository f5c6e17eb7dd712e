//! Permissions: may this user do that to a thing of this name?
//!
//! Enters: patterns once, names all the time.  Leaves: yes or no.
//! Owns:   compiled patterns, and a bounded memory of what they said.

use crate::{
    ids::{UserId, VhostId},
    limits::CatalogLimits,
    name_pattern::NamePattern,
    refusal::Refusal,
};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::{BuildHasher, Hasher};

/// What a user may do in a vhost: three regular expressions, each looked for anywhere in the name of an exchange or
/// queue, so that whole names need `^…$`. An empty one permits nothing. The default exchange is `amq.default`.
/// The syntax is that of the `regex` crate, over bytes: no look-around, no back references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    /// Names it may declare and delete.
    pub configure: String,
    /// Names it may publish to, and bind queues and exchanges of.
    pub write: String,
    /// Names it may consume from, and bind to.
    pub read: String,
}

impl Permission {
    /// Everything.
    pub fn all() -> Self {
        Self { configure: ".*".into(), write: ".*".into(), read: ".*".into() }
    }
}

/// Under which routing keys a user may publish to a topic exchange and bind to it: two patterns, as in a `Permission`,
/// in which `{username}` and `{vhost}` stand for the names. A user without one for an exchange may use all keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicPermission {
    /// Keys it may publish with.
    pub write: String,
    /// Keys it may bind with.
    pub read: String,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PermissionKind {
    /// Declare or delete.
    Configure,
    /// Publish to an exchange; bind a queue or exchange to another.
    Write,
    /// Consume from or purge a queue; bind another to an exchange.
    Read,
}

/// To what it is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    Exchange,
    Queue,
}

/// Compiles a pattern of a permission.
fn compile(written: &str) -> Result<NamePattern, Refusal> {
    NamePattern::of_permission(written)
        .map_err(|why| Refusal::precondition(format_args!("invalid permission pattern '{written}': {why}")))
}

/// A permission, ready for use.
#[derive(Clone, Debug)]
pub(crate) struct CompiledPermission {
    pub written: Permission,
    configure: NamePattern,
    write: NamePattern,
    read: NamePattern,
}

impl CompiledPermission {
    pub fn new(written: &Permission) -> Result<Self, Refusal> {
        Ok(Self {
            configure: compile(&written.configure)?,
            write: compile(&written.write)?,
            read: compile(&written.read)?,
            written: written.clone(),
        })
    }

    /// Whether it covers a name.
    pub fn permits(&self, operation: PermissionKind, name: &[u8]) -> bool {
        self.pattern(operation).is_in(name)
    }

    #[inline]
    fn pattern(&self, operation: PermissionKind) -> &NamePattern {
        match operation {
            PermissionKind::Configure => &self.configure,
            PermissionKind::Write => &self.write,
            PermissionKind::Read => &self.read,
        }
    }
}

/// A permission on topics, ready for use.
#[derive(Clone, Debug)]
pub(crate) struct CompiledTopic {
    pub written: TopicPermission,
    write: NamePattern,
    read: NamePattern,
}

impl CompiledTopic {
    /// For a user in a vhost, whose names the patterns may hold.
    pub fn new(written: &TopicPermission, user: &str, vhost: &str) -> Result<Self, Refusal> {
        let pattern = |text: &str| compile(&text.replace("{username}", user).replace("{vhost}", vhost));
        Ok(Self { write: pattern(&written.write)?, read: pattern(&written.read)?, written: written.clone() })
    }

    /// Whether it covers a routing key. To configure a topic means nothing.
    pub fn permits(&self, operation: PermissionKind, routing_key: &[u8]) -> bool {
        let pattern = match operation {
            PermissionKind::Write => &self.write,
            PermissionKind::Read => &self.read,
            PermissionKind::Configure => return true,
        };
        pattern.is_in(routing_key)
    }
}

#[derive(Clone)]
struct CachedDecision {
    user: UserId,
    vhost: VhostId,
    operation: PermissionKind,
    permitted: bool,
    name: Box<[u8]>,
}

/// What patterns said before. Forgets everything when it is full or a permission changes.
#[derive(Clone)]
pub(crate) struct PermissionCache {
    remembered: HashTable<CachedDecision>,
    most: usize,
    hash: FixedState,
}

fn hash_of(hash: &FixedState, user: UserId, vhost: VhostId, operation: PermissionKind, name: &[u8]) -> u64 {
    let mut hasher = hash.build_hasher();
    hasher.write_u64(u64::from(user.0) << 32 | u64::from(vhost.0));
    hasher.write_u8(operation as u8);
    hasher.write(name);
    hasher.finish()
}

impl PermissionCache {
    pub fn new(limits: &CatalogLimits) -> Self {
        Self {
            remembered: HashTable::new(),
            most: limits.cached_permissions_max,
            hash: FixedState::with_seed(limits.hash_seed),
        }
    }

    pub fn forget(&mut self) {
        self.remembered.clear();
    }

    /// Whether a permission covers a name.
    #[inline]
    pub fn permits(
        &mut self,
        compiled: &CompiledPermission,
        user: UserId,
        vhost: VhostId,
        operation: PermissionKind,
        name: &[u8],
    ) -> bool {
        match compiled.pattern(operation) {
            NamePattern::Everything => true,
            NamePattern::Nothing => name.is_empty(),
            pattern => self.lookup(pattern, user, vhost, operation, name),
        }
    }

    fn lookup(
        &mut self,
        pattern: &NamePattern,
        user: UserId,
        vhost: VhostId,
        operation: PermissionKind,
        name: &[u8],
    ) -> bool {
        let hash = hash_of(&self.hash, user, vhost, operation, name);
        let same = |known: &CachedDecision| {
            known.user == user && known.vhost == vhost && known.operation == operation && *known.name == *name
        };
        if let Some(known) = self.remembered.find(hash, same) {
            return known.permitted;
        }
        let permitted = pattern.is_in(name);
        if self.remembered.len() >= self.most {
            self.remembered.clear();
        }
        if self.most != 0 {
            let state = &self.hash;
            self.remembered.insert_unique(
                hash,
                CachedDecision { user, vhost, operation, permitted, name: name.into() },
                |known| hash_of(state, known.user, known.vhost, known.operation, &known.name),
            );
        }
        permitted
    }
}

#[cfg(test)]
mod tests {
    use super::{CompiledPermission, Permission, PermissionCache, PermissionKind};
    use crate::ids::{UserId, VhostId};
    use crate::limits::CatalogLimits;

    #[test]
    fn each_decision_is_remembered_once_and_the_cache_is_bounded() {
        let written = Permission { configure: "x.*y".into(), write: "x.*y".into(), read: "".into() };
        let compiled = CompiledPermission::new(&written).expect("patterns");
        let limits = |most| CatalogLimits { cached_permissions_max: most, ..CatalogLimits::default() };
        let mut cache = PermissionCache::new(&limits(50));
        let (write, configure) = (PermissionKind::Write, PermissionKind::Configure);
        for _ in 0..3 {
            for (remembered, (user, vhost, operation, name, permitted)) in [
                (0, 0, write, "x1y", true),
                (1, 0, write, "x1y", true),
                (0, 1, write, "x1y", true),
                (0, 0, configure, "x1y", true),
                (0, 0, write, "x1z", false),
            ]
            .into_iter()
            .enumerate()
            {
                let (user, vhost) = (UserId(user), VhostId(vhost));
                assert_eq!(cache.permits(&compiled, user, vhost, operation, name.as_bytes()), permitted);
                assert!((remembered + 1..=5).contains(&cache.remembered.len()));
            }
            assert_eq!(cache.remembered.len(), 5, "what is known is not remembered again");
        }
        let mut cache = PermissionCache::new(&limits(2));
        let remembered = [0, 1, 2, 3].map(|user| {
            assert!(cache.permits(&compiled, UserId(user), VhostId(0), write, b"x1y"));
            cache.remembered.len()
        });
        assert_eq!(remembered, [1, 2, 1, 2], "a full cache begins anew");
    }
}
