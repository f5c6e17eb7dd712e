//! The links and routes that parameters make: federated exchanges and queues, and shovels.
//!
//! Enters: definitions, parameters, the states of links.  Leaves: commands for the broker's links, what the API shows of them.
//! Owns:   which links parameters have made, so that those are changed and removed that they no longer ask for.

use crate::kept_definitions::KeptDefinitions;
use crate::management::ManagedBroker;
use crate::management::parameter_entry::ParameterEntry;
use crate::management::route_links::{federated_link, live_shovel, object_id};
use crate::management::shovel_route::{PlannedShovel, ShovelRoute, check_shovel, planned_shovels};
use crate::management::upstream_routes::{FederatedObject, check_upstream, federated_objects};
use catalog::Catalog;
use definitions::{Json, KeptSections};
use federation::limits::{LINKS_MAX, ROUTES_MAX};
use federation::{
    FederationCommand, LinkKey, LinkOrigin, LinkSpec, LinkStatus, RouteDirection, RouteEnd, RouteKind, RouteSpec,
};
use management::{LiveFederationLink, LiveShovel, SHOVEL, UPSTREAM};
use shard::AdminHandle;
use std::collections::BTreeMap;

pub use crate::management::parameter_entry::PARAMETERS;

/// A link with its routes, as parameters ask for it.
#[derive(Clone, PartialEq, Eq)]
struct WantedLink {
    spec: LinkSpec,
    routes: Vec<RouteSpec>,
}

/// The links of parameters.
pub struct ParameterLinks {
    operator: AdminHandle,
    kept: KeptDefinitions,
    cluster_name: String,
    addresses: Vec<String>,
    made: BTreeMap<LinkKey, WantedLink>,
    objects: Vec<FederatedObject>,
    shovels: Vec<PlannedShovel>,
    /// The links of the time before the start have been made again.
    is_restored: bool,
}

impl ParameterLinks {
    /// Of a broker, which has none yet.
    pub fn new(broker: &ManagedBroker) -> Self {
        ParameterLinks {
            operator: broker.operator.clone(),
            kept: broker.kept.clone(),
            cluster_name: broker.cluster_name.clone(),
            addresses: broker.addresses.clone(),
            made: BTreeMap::new(),
            objects: Vec::new(),
            shovels: Vec::new(),
            is_restored: false,
        }
    }

    /// Whether definitions make a difference.
    pub fn are_wanted(kept: &KeptSections) -> bool {
        [UPSTREAM, SHOVEL].iter().any(|component| ParameterEntry::of(kept, component).next().is_some())
    }

    /// Checks whether the broker can do what a sound parameter says.
    ///
    /// # Errors
    /// Why not.
    pub fn check(
        &self,
        catalog: &Catalog,
        (component, vhost, user): (&str, &str, &str),
        value: &Json,
    ) -> Result<(), String> {
        let entry = ParameterEntry::new(vhost, user, value);
        match component {
            UPSTREAM => check_upstream(catalog, &entry, user, &self.addresses),
            SHOVEL => check_shovel(catalog, &entry, user, &self.addresses),
            _ => Ok(()),
        }
    }

    /// Has the broker make, change and remove links until they are what definitions and parameters ask for.
    pub fn update(&mut self, catalog: &Catalog, kept: &KeptSections) {
        if self.made.is_empty() && self.objects.is_empty() && self.shovels.is_empty() && !Self::are_wanted(kept) {
            self.is_restored = true;
            return;
        }
        self.objects = federated_objects(catalog, kept, &self.addresses);
        self.shovels = planned_shovels(catalog, kept, &self.cluster_name, &self.addresses);
        self.declare_queues(catalog);
        let wanted = self.wanted();
        let commands = differences(&self.made, &wanted, self.is_restored);
        self.is_restored = true;
        self.made = wanted;
        for command in commands {
            let link = command.link();
            tracing::info!(link = &*link.peer, origin = ?link.origin, "a link is changed as parameters say");
            if self.operator.change_links(self.with_end(command)).is_none() {
                // The broker stops, and its links with it.
                return;
            }
        }
    }

    /// Declares the queues of this broker that shovels need and that are not there.
    fn declare_queues(&mut self, catalog: &Catalog) {
        let mut definitions = Vec::new();
        for shovel in self.shovels.iter_mut().filter(|shovel| !shovel.is_paused) {
            let Ok(ShovelRoute { own_queue: Some(queue), .. }) = &shovel.route else { continue };
            match queue.declaration(catalog, self.operator.shards()) {
                Ok(definition) => definitions.extend(definition),
                Err(why) => shovel.route = Err(why),
            }
        }
        if definitions.is_empty() {
            return;
        }
        for refusal in self.operator.define(definitions).unwrap_or_default() {
            tracing::warn!(%refusal, "a queue of a shovel is not declared");
        }
    }

    /// The links that are to be, within the limits of their number. What is beyond them is told to be.
    fn wanted(&mut self) -> BTreeMap<LinkKey, WantedLink> {
        let mut wanted: BTreeMap<LinkKey, WantedLink> = BTreeMap::new();
        let federated = self.objects.iter_mut().map(|object| &mut object.route);
        for asked in federated {
            if let Ok((link, route)) = asked
                && let Err(why) = add(&mut wanted, link, route)
            {
                *asked = Err(why);
            }
        }
        for shovel in self.shovels.iter_mut().filter(|shovel| !shovel.is_paused) {
            if let Ok(ShovelRoute { link, route, .. }) = &shovel.route
                && let Err(why) = add(&mut wanted, link, route)
            {
                shovel.route = Err(why);
            }
        }
        wanted
    }

    /// A pushed route that ends with its queue gets the number of messages that wait there now.
    fn with_end(&self, command: FederationCommand) -> FederationCommand {
        let counted = |key: &LinkKey, mut route: RouteSpec| {
            if route.direction == RouteDirection::Push
                && let RouteKind::Queue { queue } = &route.kind
                && let Some(shovel) = &mut route.options.shovel
                && shovel.end == Some(RouteEnd::QueueLength)
            {
                let report = self.operator.queue_report(&key.vhost, queue.as_bytes());
                shovel.end = Some(RouteEnd::Messages(report.map_or(0, |report| report.ready)));
            }
            route
        };
        match command {
            FederationCommand::AddRoute(key, route) => {
                let route = counted(&key, route);
                FederationCommand::AddRoute(key, route)
            }
            FederationCommand::ChangeRoute(key, route) => {
                let route = counted(&key, route);
                FederationCommand::ChangeRoute(key, route)
            }
            other => other,
        }
    }

    /// Removes the parameters of shovels that have moved all that they should. Returns whether there were any.
    pub fn end_complete(&self) -> bool {
        let has_end = |link: &WantedLink| link.routes.iter().any(|route| end(route).is_some());
        if !self.made.values().any(has_end) {
            return false;
        }
        let Some(statuses) = self.operator.link_statuses() else { return false };
        let complete = statuses
            .iter()
            .filter(|link| self.made.contains_key(&link.spec.key) && link.routes.iter().any(|route| route.is_complete));
        let mut has_changed = false;
        for link in complete {
            let LinkOrigin::Shovel { vhost, name } = &link.spec.key.origin else { continue };
            let removed = self.kept.change(|kept| {
                let mut kept = kept.clone();
                let has =
                    |entry: &Json, key: &str, text: &str| matches!(entry.get(key), Some(Json::Text(of)) if of == text);
                kept.remove(PARAMETERS, |entry| {
                    has(entry, "component", SHOVEL) && has(entry, "vhost", vhost) && has(entry, "name", name)
                });
                kept
            });
            match removed {
                Ok(()) => {
                    tracing::info!(vhost = &**vhost, name = &**name, "a shovel has done its work, and is deleted")
                }
                // It is tried again: the shovel moves nothing more meanwhile.
                Err(why) => tracing::error!(why, "a shovel that has done its work cannot be deleted"),
            }
            has_changed = true;
        }
        has_changed
    }

    /// What the API shows.
    pub fn shown(&self, statuses: &[LinkStatus], now_ms: u64) -> (Vec<LiveFederationLink>, Vec<LiveShovel>) {
        let links = self.objects.iter().map(|object| federated_link(object, statuses, now_ms));
        let shovels = self.shovels.iter().map(|shovel| live_shovel(shovel, statuses, now_ms));
        (links.collect(), shovels.collect())
    }

    /// The link of a federated exchange or queue by the id under which it is shown.
    pub fn link_of(&self, vhost: &str, id: &str) -> Option<&LinkKey> {
        let object = self.objects.iter().find(|object| object.vhost == vhost && object_id(object) == id)?;
        object.route.as_ref().ok().map(|(link, _)| &link.key)
    }

    /// The link of a shovel, unless it has none.
    pub fn link_of_shovel(&self, vhost: &str, name: &str) -> Option<&LinkKey> {
        let shovel = self.shovels.iter().find(|shovel| shovel.vhost == vhost && shovel.name == name)?;
        shovel.route.as_ref().ok().map(|route| &route.link.key).filter(|key| self.made.contains_key(key))
    }
}

fn end(route: &RouteSpec) -> Option<RouteEnd> {
    route.options.shovel.as_ref().and_then(|shovel| shovel.end)
}

fn add(wanted: &mut BTreeMap<LinkKey, WantedLink>, link: &LinkSpec, route: &RouteSpec) -> Result<(), String> {
    if wanted.len() >= LINKS_MAX && !wanted.contains_key(&link.key) {
        return Err(format!("parameters make {LINKS_MAX} links, and cannot make more"));
    }
    let of_link = wanted.entry(link.key.clone());
    let of_link = of_link.or_insert_with(|| WantedLink { spec: link.clone(), routes: Vec::new() });
    if of_link.routes.iter().any(|other| other.carries_same(route)) {
        return Err("another entry of the set asks for the same".to_owned());
    }
    if of_link.routes.len() >= ROUTES_MAX {
        return Err(format!("an upstream has {ROUTES_MAX} federated exchanges and queues, and cannot have more"));
    }
    of_link.routes.push(route.clone());
    Ok(())
}

/// The commands that turn some links into others. What comes back after a start waits for brokers downstream, if messages may go
/// further than here.
fn differences(
    made: &BTreeMap<LinkKey, WantedLink>,
    wanted: &BTreeMap<LinkKey, WantedLink>,
    is_restored: bool,
) -> Vec<FederationCommand> {
    let gone = made.keys().filter(|key| !wanted.contains_key(key));
    let mut commands: Vec<_> = gone.map(|key| FederationCommand::RemoveLink(key.clone())).collect();
    for (key, link) in wanted {
        let before = made.get(key);
        match before {
            None => commands.push(FederationCommand::AddLink(link.spec.clone())),
            Some(before) if before.spec != link.spec => {
                commands.push(FederationCommand::ChangeLink(link.spec.clone()));
            }
            Some(_) => {}
        }
        let routes_before = before.map_or(&[][..], |before| &before.routes);
        for route in routes_before.iter().filter(|route| !link.routes.iter().any(|other| keeps_queue(route, other))) {
            commands.push(FederationCommand::RemoveRoute(key.clone(), route.clone()));
        }
        for route in &link.routes {
            commands.push(match routes_before.iter().find(|before| keeps_queue(before, route)) {
                Some(before) if before == route => continue,
                Some(_) => FederationCommand::ChangeRoute(key.clone(), route.clone()),
                None if !is_restored && route.is_traced() && route.hops_max > 1 => {
                    FederationCommand::ReturnRoute(key.clone(), route.clone())
                }
                None => FederationCommand::AddRoute(key.clone(), route.clone()),
            });
        }
    }
    commands
}

/// Whether a route differs from another in nothing that its queue and bindings at the source depend on.
fn keeps_queue(one: &RouteSpec, other: &RouteSpec) -> bool {
    let mut changed = one.clone();
    changed.credit = other.credit;
    changed.options.destination_key.clone_from(&other.options.destination_key);
    changed.options.shovel.clone_from(&other.options.shovel);
    changed == *other
}

#[cfg(test)]
mod tests {
    use super::{WantedLink, add, differences};
    use federation::limits::ROUTES_MAX;
    use federation::{
        AckMode, FederationCommand, LinkKey, LinkOptions, LinkOrigin, LinkSpec, RouteDirection, RouteKind,
        RouteOptions, RouteSpec,
    };
    use std::collections::BTreeMap;

    fn link(upstream: &str, url: &str) -> LinkSpec {
        let origin = LinkOrigin::Upstream(upstream.into());
        let key = LinkKey { vhost: "/".into(), peer: "amqp://h:5672".into(), origin };
        LinkSpec { key, url: url.into(), user: "guest".into(), durable: true, options: LinkOptions::default() }
    }

    fn route(exchange: &str) -> RouteSpec {
        RouteSpec {
            exchange: exchange.into(),
            kind: RouteKind::Dynamic,
            direction: RouteDirection::Pull,
            ack: AckMode::Confirm,
            credit: 10,
            hops_max: 2,
            durable: true,
            forced: false,
            dead_letter_exchange: None,
            options: RouteOptions::default(),
        }
    }

    fn links(all: &[(LinkSpec, RouteSpec)]) -> BTreeMap<LinkKey, WantedLink> {
        let mut wanted = BTreeMap::new();
        for (link, route) in all {
            add(&mut wanted, link, route).expect("within limits");
        }
        wanted
    }

    fn shown(commands: &[FederationCommand]) -> Vec<String> {
        let name = |command: &FederationCommand| match command {
            FederationCommand::AddLink(link) => format!("add link {}", link.url),
            FederationCommand::ChangeLink(link) => format!("change link {}", link.url),
            FederationCommand::RestartLink(_) => "restart".to_owned(),
            FederationCommand::RemoveLink(key) => format!("remove link {:?}", key.origin),
            FederationCommand::AddRoute(_, route) => format!("add {}", route.exchange),
            FederationCommand::ReturnRoute(_, route) => format!("return {}", route.exchange),
            FederationCommand::ChangeRoute(_, route) => format!("change {}", route.exchange),
            FederationCommand::RemoveRoute(_, route) => format!("remove {}", route.exchange),
        };
        commands.iter().map(name).collect()
    }

    #[test]
    fn links_become_what_is_wanted_by_the_fewest_changes() {
        let (a, none) = (link("a", "amqp://u:1@h"), BTreeMap::new());
        let first = links(&[(a.clone(), route("x")), (a.clone(), route("y"))]);
        assert_eq!(shown(&differences(&none, &first, true)), ["add link amqp://u:1@h", "add x", "add y"]);
        assert_eq!(shown(&differences(&none, &first, false)), ["add link amqp://u:1@h", "return x", "return y"]);
        assert!(differences(&first, &first, true).is_empty());
        let with_login = link("a", "amqp://u:2@h");
        let more = RouteSpec { credit: 20, ..route("x") };
        let second = links(&[(with_login.clone(), more.clone()), (with_login, route("z"))]);
        let expected = ["change link amqp://u:2@h", "remove y", "change x", "add z"];
        assert_eq!(shown(&differences(&first, &second, true)), expected);
        // Another queue at the source takes a new route.
        let hops = links(&[(a.clone(), RouteSpec { hops_max: 3, ..route("x") }), (a.clone(), route("y"))]);
        assert_eq!(shown(&differences(&first, &hops, true)), ["remove x", "add x"]);
        assert_eq!(shown(&differences(&first, &none, true)), [r#"remove link Upstream("a")"#]);
    }

    #[test]
    fn what_is_too_much_or_twice_is_told() {
        let mut wanted = links(&[(link("a", "amqp://h"), route("x"))]);
        assert!(add(&mut wanted, &link("a", "amqp://h"), &route("x")).is_err_and(|why| why.contains("the same")));
        for number in 1..ROUTES_MAX {
            add(&mut wanted, &link("a", "amqp://h"), &route(&number.to_string())).expect("within limits");
        }
        let more = add(&mut wanted, &link("a", "amqp://h"), &route("more"));
        assert!(more.is_err_and(|why| why.contains("255 federated exchanges and queues")));
        add(&mut wanted, &link("b", "amqp://h"), &route("x")).expect("another link");
    }
}
