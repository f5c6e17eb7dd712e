//! The operator of a federation: configures routes and removes them.

use super::expectations::Expectations;
use crate::world::SimulatedWorld;
use federation::FederationCommand;

/// An operator, who knows which routes there should be.
pub struct RouteOperator<'a> {
    pub world: &'a mut SimulatedWorld,
    pub expectations: &'a mut Expectations,
}

impl RouteOperator<'_> {
    /// An operator removes a route, or configures one that was removed.
    pub fn reroute(&mut self) {
        let route = self.world.chance.below(self.expectations.routes.len() as u64) as usize;
        if !self.expectations.routes[route].exists {
            return self.restore_route(route);
        }
        let (broker, _) = self.expectations.routes[route].settings.ends();
        if self.world.brokers[broker].is_up {
            self.world.tally.reroutes += 1;
            self.expectations.remove_route(route);
            self.send_removal(route);
        }
    }

    /// Configures a route that was removed.
    pub fn restore_route(&mut self, route: usize) {
        let (broker, _) = self.expectations.routes[route].settings.ends();
        if self.world.brokers[broker].is_up {
            self.expectations.restore_route(route);
            self.configure_route(route, false);
        }
    }

    /// An operator configures the link of a route, unless it exists, and the route. `is_restored`: the broker has the route
    /// from its last life.
    pub fn configure_route(&mut self, route: usize, is_restored: bool) {
        let settings = self.expectations.routes[route].settings.clone();
        let ((broker, peer), link) = (settings.ends(), settings.link());
        self.world.links.forget_failures(broker, &link.url);
        let (key, title) = (link.key.clone(), settings.spec.title());
        self.world.trace.note(|| format!("b{broker} gets a route of b{peer}: {title}"));
        let now = self.world.clock.now;
        let broker = &mut self.world.brokers[broker];
        // All routes of a link have the same shard.
        let shard = peer % broker.shards.len();
        broker.wake(shard, |shard| {
            shard.federate(FederationCommand::AddLink(link), now);
            let spec = settings.spec;
            shard.federate(
                if is_restored {
                    FederationCommand::ReturnRoute(key, spec)
                } else {
                    FederationCommand::AddRoute(key, spec)
                },
                now,
            );
        });
    }

    fn send_removal(&mut self, route: usize) {
        let settings = self.expectations.routes[route].settings.clone();
        let ((broker, peer), link) = (settings.ends(), settings.link());
        self.world.links.forget_failures(broker, &link.url);
        let title = settings.spec.title();
        self.world.trace.note(|| format!("b{broker} loses its route of b{peer}: {title}"));
        let now = self.world.clock.now;
        let broker = &mut self.world.brokers[broker];
        let shard = peer % broker.shards.len();
        broker.wake(shard, |shard| shard.federate(FederationCommand::RemoveRoute(link.key, settings.spec), now));
    }
}
