//! What routes want: the bindings here, told to the mirrors of dynamic routes as they change; whether static ones are to be stamped.
//!
//! Enters: changes of bindings on this shard's replica.  Leaves: bindings for the sources.
//! Owns:   the watches of exchanges that routes mirror, from their beginning to their end, connected or not.
//! Never:  costs anything while no route is dynamic.

use crate::shard::Shard;
use crate::tie::Stage;
use broker::Effects;
use catalog::{BindingChange, Changed, Name, VhostId};
use federation::{Direction, Mirror, RouteKind, RouteSpec};

impl Shard {
    /// A dynamic route knows what is wanted here, from its beginning to its end, connected or not; and a static one that is pulled
    /// whether it is to be stamped.
    pub(crate) fn watch_wants(&mut self, number: u32, route: usize, spec: &RouteSpec, vhost: VhostId) {
        let has =
            self.ties.get(number).is_none_or(|tie| tie.routes.get(route).is_some_and(|here| here.watch.is_some()));
        if has || spec.direction == Direction::Push || matches!(spec.kind, RouteKind::Queue { .. }) {
            return;
        }
        // What others are to be told must not be told twice.
        self.tell_wants();
        let name = Name::from(&*spec.exchange);
        let watch = self.broker.catalog_mut().watch_bindings(vhost, &name);
        let seed = self.desk.random();
        if let Some(tie) = self.ties.get(number) {
            tie.route(route).watch = Some(watch);
            if spec.kind == RouteKind::Dynamic {
                let mirror = Mirror::new(tie.peering.own().clone(), spec, seed);
                tie.peering.set_mirror(route, mirror);
            }
        }
        self.look_for_stamps(number, route, spec, vhost);
        self.look_anew(number, route, spec, vhost);
    }

    /// Whether somebody asks for stamps of an exchange, as it is now.
    fn look_for_stamps(&mut self, number: u32, route: usize, spec: &RouteSpec, vhost: VhostId) {
        let catalog = self.broker.catalog();
        let exchange = catalog.exchange(vhost, spec.exchange.as_bytes());
        let asks = exchange.is_some_and(|exchange| catalog.asks_for_stamps(exchange));
        if let Some(tie) = self.ties.get(number) {
            tie.peering.set_asks(route, asks);
        }
    }

    /// All that is wanted of an exchange, as it is now.
    pub(crate) fn look_anew(&mut self, number: u32, route: usize, spec: &RouteSpec, vhost: VhostId) {
        let catalog = self.broker.catalog();
        let exchange = catalog.exchange(vhost, spec.exchange.as_bytes());
        let bindings = exchange.into_iter().flat_map(|exchange| catalog.bindings_from(exchange));
        if let Some(mirror) = self.ties.get(number).and_then(|tie| tie.peering.mirror(route)) {
            mirror.resync(bindings.map(|binding| (binding.routing_key, binding.arguments)));
        }
    }

    /// Bindings have changed: dynamic routes hear of it, and tell their sources.
    pub(crate) fn tell_wants(&mut self) {
        if !self.broker.catalog().has_binding_changes() {
            return;
        }
        let changes: Vec<_> = self.broker.catalog_mut().take_binding_changes().collect();
        for number in self.ties.numbers() {
            let Some(tie) = self.ties.get(number) else { continue };
            let routes = tie.routes.iter().enumerate();
            let routes: Vec<_> = routes.filter_map(|(route, here)| Some((route, here.watch?))).collect();
            for (route, watch) in routes {
                self.tell_wants_of(number, route, changes.iter().filter(|change| change.watch == watch));
            }
        }
    }

    pub(crate) fn tell_wants_of<'a>(
        &mut self,
        number: u32,
        route: usize,
        changes: impl Iterator<Item = &'a BindingChange>,
    ) {
        let mut changed = false;
        let mut anew = false;
        let Some(tie) = self.ties.get(number) else { return };
        let Some(spec) = tie.peering.spec(route).cloned() else { return };
        match tie.peering.mirror(route) {
            None => changed = changes.count() > 0,
            Some(mirror) => {
                for change in changes {
                    changed = true;
                    match &change.what {
                        Changed::Bound { routing_key, arguments } => mirror.add(routing_key, arguments.as_deref()),
                        Changed::Unbound { routing_key, arguments } => {
                            anew |= !mirror.remove(routing_key, arguments.as_deref())
                        }
                        Changed::Gone => mirror.resync([]),
                        Changed::Made => {}
                        Changed::Resync => anew = true,
                    }
                }
            }
        }
        if let Some(vhost) = self.vhost_of_tie(number).filter(|_| changed) {
            self.look_for_stamps(number, route, &spec, vhost);
            if anew {
                self.look_anew(number, route, &spec, vhost);
            }
        }
        let Some(tie) = self.ties.get(number) else { return };
        if changed
            && let Stage::Connected { slot } = tie.stage
            && let Some((out, pool)) = self.desk.writer(slot)
        {
            tie.peering.wanted(route, out, pool);
        }
    }

    pub(crate) fn vhost_of_tie(&mut self, number: u32) -> Option<VhostId> {
        let vhost = &self.ties.get(number)?.spec.key.vhost;
        self.broker.catalog().vhost_by_name(vhost)
    }
}
