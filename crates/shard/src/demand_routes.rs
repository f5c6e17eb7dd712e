//! The routes that supply federated queues, by these queues: a queue that tells what it wants has its routes without a search.

use crate::link_context::LinkContext;
use crate::link_id::FederationLinkId;
use crate::link_table::LinkTable;
use federation::{LinkKey, RouteId, RouteSpec};
use std::collections::BTreeMap;

/// A virtual host and a queue.
type QueueName = (Box<str>, Box<str>);

/// The routes of federated queues.
#[derive(Default)]
pub(crate) struct DemandRoutes {
    by_queue: BTreeMap<QueueName, Vec<(FederationLinkId, RouteId)>>,
}

fn name(link: &LinkKey, route: &RouteSpec) -> Option<QueueName> {
    Some((link.vhost.clone(), route.federated_queue()?.into()))
}

impl DemandRoutes {
    /// A route was added to a link.
    pub fn add(&mut self, link: &LinkKey, spec: &RouteSpec, id: (FederationLinkId, RouteId)) {
        if let Some(name) = name(link, spec) {
            self.by_queue.entry(name).or_default().push(id);
        }
    }

    /// A route is removed.
    pub fn remove(&mut self, link: &LinkKey, spec: &RouteSpec, id: (FederationLinkId, RouteId)) {
        let Some(name) = name(link, spec) else { return };
        if let Some(routes) = self.by_queue.get_mut(&name) {
            routes.retain(|other| *other != id);
            if routes.is_empty() {
                self.by_queue.remove(&name);
            }
        }
    }

    /// Tells the upstreams of queues that these want messages, or do not any more. Those of a queue that is gone are removed soon.
    pub fn propagate(&self, links: &mut LinkTable, cx: &mut LinkContext<'_>) {
        for queue in cx.broker.take_demand_changes() {
            let catalog = cx.broker.catalog();
            let Some(definition) = catalog.queue_definition(queue) else { continue };
            let name = (catalog.vhost_name(definition.vhost).into(), (*definition.name).into());
            let is_wanting = cx.broker.wants_messages(queue);
            for &(id, route) in self.by_queue.get(&name).into_iter().flatten() {
                if let Some(link) = links.get_mut(id) {
                    link.set_wanting(route, is_wanting, cx.effects);
                }
            }
        }
    }
}
