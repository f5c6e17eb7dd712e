//! The table of a shard's federation links, by their ids.

use crate::federation_link::FederationLink;
use crate::link_id::FederationLinkId;
use federation::{LinkKey, RouteDirection};
use std::time::Instant;

/// The federation links of a shard.
#[derive(Default)]
pub(crate) struct LinkTable {
    links: Vec<Option<Box<FederationLink>>>,
}

impl LinkTable {
    /// Adds the link that `new` makes for its id.
    pub fn insert(&mut self, new: impl FnOnce(FederationLinkId) -> FederationLink) -> FederationLinkId {
        let index = self.links.iter().position(Option::is_none).unwrap_or_else(|| {
            self.links.push(None);
            self.links.len() - 1
        });
        let id = FederationLinkId::at(index);
        self.links[index] = Some(Box::new(new(id)));
        id
    }

    /// Removes a link if `is_over` holds.
    pub fn remove_if(&mut self, id: FederationLinkId, is_over: impl FnOnce(&FederationLink) -> bool) {
        if let Some(link) = self.links.get_mut(id.index()) {
            link.take_if(|link| is_over(link));
        }
    }

    pub fn get(&self, id: FederationLinkId) -> Option<&FederationLink> {
        self.links.get(id.index())?.as_deref()
    }

    #[inline]
    pub fn get_mut(&mut self, id: FederationLinkId) -> Option<&mut FederationLink> {
        self.links.get_mut(id.index())?.as_deref_mut()
    }

    /// The link of one direction, unless the operator has removed it.
    pub fn find(&self, key: &LinkKey, direction: RouteDirection) -> Option<FederationLinkId> {
        let is_it = |link: &FederationLink| link.spec.key == *key && link.direction == direction && !link.is_removed;
        self.links.iter().position(|link| link.as_deref().is_some_and(is_it)).map(FederationLinkId::at)
    }

    /// Every id that was ever in use.
    pub fn ids(&self) -> impl Iterator<Item = FederationLinkId> + use<> {
        (0..self.links.len()).map(FederationLinkId::at)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut FederationLink> {
        self.links.iter_mut().flatten().map(|link| &mut **link)
    }

    /// Whether a link that was removed, and that this one replaces, is not gone yet.
    pub fn has_predecessor(&self, id: FederationLinkId) -> bool {
        let Some(link) = self.get(id) else { return false };
        let mut others = self.links.iter().flatten();
        !link.is_removed
            && others
                .any(|other| other.is_removed && other.direction == link.direction && other.spec.key == link.spec.key)
    }

    /// The first timer of all links.
    pub fn next_due(&self) -> Option<Instant> {
        self.links.iter().flatten().filter_map(|link| link.due()).min()
    }
}
