//! Identifiers of federation links.

/// Identifies a federation link of one shard, in one direction. The id of a removed link is used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FederationLinkId(pub u32);

impl FederationLinkId {
    pub(crate) fn at(index: usize) -> Self {
        FederationLinkId(index as u32)
    }

    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}
