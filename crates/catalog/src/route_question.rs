//! Where a message would go: asked by who only looks.

use crate::{Catalog, ExchangeId, QueueRoute};
use std::sync::Arc;
use wire::RawProperties;

/// A message that nobody has published, and the work that finding its route may take.
#[derive(Clone, Copy, Debug)]
pub struct RouteQuestion<'a> {
    pub exchange: ExchangeId,
    pub routing_key: &'a [u8],
    pub properties: RawProperties<'a>,
    pub work_max: u64,
}

impl RouteQuestion<'_> {
    /// The queues that it would reach. `None`: finding out takes more work than that.
    pub fn ask(self, catalog: &mut Catalog) -> Option<Arc<QueueRoute>> {
        catalog.route_within(self.exchange, self.routing_key, self.properties, self.work_max).ok()
    }
}
