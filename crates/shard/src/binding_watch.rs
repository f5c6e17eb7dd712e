//! The watch of a pulled route over the bindings of its exchange: changes are propagated to the source of a dynamic route, and
//! decide whether the messages of a static one are stamped.
//!
//! Owns:   the catalog's watch, from the route's first connection to its removal, connected or not.

use crate::link_context::LinkContext;
use broker::Effects;
use catalog::{BindingChange, BindingEvent, Name, VhostId, WatchId};
use federation::{BindingPropagation, LinkSession, RouteDirection, RouteId, RouteKind, RouteSpec};

/// One route's watch.
pub(crate) struct BindingWatch {
    id: WatchId,
    /// The virtual host of its exchange: one of the same name that comes later is another.
    pub vhost: VhostId,
}

impl BindingWatch {
    /// Whether routes of this kind depend on the bindings here.
    pub fn concerns(spec: &RouteSpec) -> bool {
        spec.is_traced() && spec.direction == RouteDirection::Pull && !matches!(spec.kind, RouteKind::Queue { .. })
    }

    /// Starts to watch for a route. Changes made before must have been applied to the other watches.
    pub fn start(
        session: &mut LinkSession,
        route: RouteId,
        spec: &RouteSpec,
        vhost: VhostId,
        cx: &mut LinkContext<'_>,
    ) -> Self {
        let id = cx.broker.catalog_mut().watch_bindings(vhost, &Name::from(&*spec.exchange));
        let seed = cx.effects.random();
        if spec.kind == RouteKind::Dynamic {
            let propagation = BindingPropagation::new(session.own().clone(), spec, seed);
            session.routes.set_propagation(route, propagation);
        }
        refresh_stamps(session, route, spec, vhost, cx);
        resync(session, route, spec, vhost, cx);
        BindingWatch { id, vhost }
    }

    /// Applies changes of bindings to the route. Returns whether any concerns it.
    pub fn apply(
        &self,
        changes: &[BindingChange],
        session: &mut LinkSession,
        route: RouteId,
        vhost: Option<VhostId>,
        cx: &mut LinkContext<'_>,
    ) -> bool {
        let mut is_concerned = false;
        let mut is_stale = false;
        let Some(spec) = session.routes.spec(route).cloned() else { return false };
        let mut propagation = session.routes.propagation(route);
        for change in changes.iter().filter(|change| change.watch == self.id) {
            is_concerned = true;
            let Some(propagation) = &mut propagation else { continue };
            match &change.what {
                BindingEvent::Bound { routing_key, arguments } => propagation.add(routing_key, arguments.as_deref()),
                BindingEvent::Unbound { routing_key, arguments } => {
                    is_stale |= !propagation.remove(routing_key, arguments.as_deref());
                }
                BindingEvent::Gone => propagation.resync([]),
                BindingEvent::Made => {}
                BindingEvent::Resync => is_stale = true,
            }
        }
        if let Some(vhost) = vhost.filter(|_| is_concerned) {
            refresh_stamps(session, route, &spec, vhost, cx);
            if is_stale {
                resync(session, route, &spec, vhost, cx);
            }
        }
        is_concerned
    }

    pub fn stop(self, cx: &mut LinkContext<'_>) {
        cx.broker.catalog_mut().unwatch_bindings(self.id);
    }
}

/// Looks whether messages of the exchange go where they may arrive twice, so that they are to be stamped.
fn refresh_stamps(session: &mut LinkSession, route: RouteId, spec: &RouteSpec, vhost: VhostId, cx: &LinkContext<'_>) {
    let catalog = cx.broker.catalog();
    let exchange = catalog.exchange(vhost, spec.exchange.as_bytes());
    let wants_stamps = exchange.is_some_and(|exchange| catalog.asks_for_stamps(exchange));
    session.routes.set_wants_stamps(route, wants_stamps);
}

/// Compares what is requested of the source with all bindings of the exchange.
fn resync(session: &mut LinkSession, route: RouteId, spec: &RouteSpec, vhost: VhostId, cx: &LinkContext<'_>) {
    let catalog = cx.broker.catalog();
    let exchange = catalog.exchange(vhost, spec.exchange.as_bytes());
    let bindings = exchange.into_iter().flat_map(|exchange| catalog.bindings_from(exchange));
    if let Some(propagation) = session.routes.propagation(route) {
        propagation.resync(bindings.map(|binding| (binding.routing_key, binding.arguments)));
    }
}
