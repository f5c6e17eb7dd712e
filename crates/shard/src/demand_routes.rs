//! The routes that supply federated queues, by these queues: a queue that tells what it wants has its routes without a search.

use crate::link_context::LinkContext;
use crate::link_id::FederationLinkId;
use crate::link_table::LinkTable;
use catalog::{Catalog, QueueId};
use federation::{LinkKey, RouteId, RouteSpec};
use std::collections::BTreeMap;

/// A virtual host and a queue.
type QueueName = (Box<str>, Box<str>);

/// The routes of federated queues.
#[derive(Default)]
pub(crate) struct DemandRoutes {
    by_queue: BTreeMap<QueueName, Vec<(FederationLinkId, RouteId)>>,
    /// The queues that want messages: one may be gone from the catalog when it is told that it wants none.
    wanting: BTreeMap<QueueId, QueueName>,
}

fn name(link: &LinkKey, route: &RouteSpec) -> Option<QueueName> {
    Some((link.vhost.clone(), route.federated_queue()?.into()))
}

fn find(catalog: &Catalog, (vhost, queue): &QueueName) -> Option<QueueId> {
    catalog.queue(catalog.vhost_by_name(vhost)?, queue.as_bytes())
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

    /// Tells the upstreams of queues that these want messages, or do not any more.
    pub fn propagate(&mut self, links: &mut LinkTable, cx: &mut LinkContext<'_>) {
        for queue in cx.broker.take_demand_changes() {
            let catalog = cx.broker.catalog();
            let known = self.wanting.remove(&queue);
            let definition = catalog.queue_definition(queue);
            let named = definition.map(|of| (catalog.vhost_name(of.vhost).into(), (*of.name).into()));
            let Some(name) = named.or(known) else { continue };
            // Another one may have the name by now.
            let is_wanting = find(catalog, &name).is_some_and(|id| cx.broker.wants_messages(id));
            for &(id, route) in self.by_queue.get(&name).into_iter().flatten() {
                if let Some(link) = links.get_mut(id) {
                    link.set_wanting(route, is_wanting, cx.effects);
                }
            }
            if cx.broker.wants_messages(queue) {
                self.wanting.insert(queue, name);
            }
        }
    }
}
