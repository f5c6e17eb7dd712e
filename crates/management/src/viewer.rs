//! The user who asks: what it sees.

use crate::access::AccessTags;
use crate::source::Source;
use catalog::{Name, User, UserId, VhostId};

/// A user who is logged in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Viewer {
    pub user: UserId,
    pub name: Name,
    pub tags: AccessTags,
}

impl Viewer {
    /// The user of an id, with what the catalog says of it now.
    pub fn of(source: &dyn Source, user: UserId) -> Option<Self> {
        let found = source.catalog().user_at(user)?;
        let tags = AccessTags::of(found.tags.iter().map(|tag| &**tag));
        Some(Self { user, name: found.name.clone(), tags })
    }

    fn found<'a>(&self, source: &'a dyn Source) -> Option<&'a User> {
        source.catalog().user_at(self.user)
    }

    /// Whether it has a permission in a virtual host.
    pub(crate) fn is_permitted(&self, source: &dyn Source, vhost: VhostId) -> bool {
        self.found(source).is_some_and(|user| user.permission(vhost).is_some())
    }

    /// Whether it sees what is in a virtual host.
    pub(crate) fn sees_in(&self, source: &dyn Source, vhost: VhostId) -> bool {
        self.tags.sees_every_object() || self.is_permitted(source, vhost)
    }

    /// Whether it sees that there is a virtual host.
    pub(crate) fn sees_vhost(&self, source: &dyn Source, vhost: VhostId) -> bool {
        self.tags.sees_others() || self.is_permitted(source, vhost)
    }

    /// Whether it sees the connections of a user.
    pub(crate) fn sees_of(&self, user: &str) -> bool {
        self.tags.sees_others() || *self.name == *user
    }
}
