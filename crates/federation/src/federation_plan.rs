//! The links and routes that an operator wants of one broker.
//!
//! Enters: links and routes to add and to remove.  Leaves: orders for the links concerned, or why there are none, in words.
//! Owns:   what is wanted; what must not be; which of it outlives the broker.
//! Never:  knows whether a link runs; keeps anything itself.

use crate::limits::{LINKS_MAX, ROUTES_MAX};
use crate::{RouteDirection, LinkKey, LinkSpec, FederationCommand, RouteKind, RouteSpec};
use std::fmt;

/// A link with its routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedLink {
    /// The link.
    pub link: LinkSpec,
    /// Its routes, in the order in which they came.
    pub routes: Vec<RouteSpec>,
}

/// What is wanted of one broker, in the order in which it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FederationPlan {
    links: Vec<PlannedLink>,
}

/// Why a plan is not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// There is no such link.
    NoLink(LinkKey),
    /// The link has no such route.
    NoRoute {
        /// The link.
        link: LinkKey,
        /// What was sought.
        route: Box<str>,
    },
    /// The link has a route that carries the same.
    Duplicate {
        /// The link.
        link: LinkKey,
        /// What is there.
        route: Box<str>,
    },
    /// The other broker would be this one.
    ToItself(LinkKey),
    /// What the destination's bindings want is known to the destination, so that it has to be the one that dials.
    DynamicPush,
    /// There are as many links as there may be.
    TooManyLinks,
    /// The link has as many routes as it may have.
    TooManyRoutes(LinkKey),
}

impl PlanError {
    /// For programs.
    pub const fn code(&self) -> &'static str {
        match self {
            PlanError::NoLink(_) => "no-link",
            PlanError::NoRoute { .. } => "no-route",
            PlanError::Duplicate { .. } => "duplicate-route",
            PlanError::ToItself(_) => "to-itself",
            PlanError::DynamicPush => "not-permitted",
            PlanError::TooManyLinks | PlanError::TooManyRoutes(_) => "too-many",
        }
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::NoLink(key) => write!(to, "there is no link to {} in virtual host '{}'", key.peer, key.vhost),
            PlanError::NoRoute { link, route } => write!(to, "the link to {} has no route {route}", link.peer),
            PlanError::Duplicate { link, route } => {
                write!(to, "duplicate route: the link to {} has {route} already", link.peer)
            }
            PlanError::ToItself(key) => write!(to, "{} is this broker: it cannot be linked to itself", key.peer),
            PlanError::DynamicPush => to.write_str(
                "a dynamic route is pulled: --src-local is not permitted on dynamic routes, whose destination must dial",
            ),
            PlanError::TooManyLinks => write!(to, "there are {LINKS_MAX} links, and cannot be more"),
            PlanError::TooManyRoutes(key) => {
                write!(to, "the link to {} has {ROUTES_MAX} routes, and cannot have more", key.peer)
            }
        }
    }
}

impl std::error::Error for PlanError {}

impl RouteSpec {
    /// Which route it is, in the form of listings: exchange and what is carried.
    pub fn title(&self) -> String {
        let pushed = if self.direction == RouteDirection::Push { ", pushed" } else { "" };
        match &self.kind {
            RouteKind::Dynamic => format!("{}(<dynamic>{pushed})", self.exchange),
            RouteKind::Static { key } => format!("{}({key}{pushed})", self.exchange),
            RouteKind::Queue { queue } => format!("{}(queue {queue}{pushed})", self.exchange),
        }
    }
}

impl FederationPlan {
    /// Every link with its routes.
    pub fn links(&self) -> &[PlannedLink] {
        &self.links
    }

    /// A link.
    pub fn link(&self, key: &LinkKey) -> Option<&PlannedLink> {
        self.links.iter().find(|planned| planned.link.key == *key)
    }

    /// Adds a link, or changes one that is there: with another login it is dialled anew, and keeps its routes; one that is durable
    /// stays so. `own` are the addresses by which this broker is known in the link's virtual host.
    ///
    /// # Errors
    /// To this broker itself; one too many.
    pub fn add_link(&mut self, mut link: LinkSpec, own: &[Box<str>]) -> Result<Vec<FederationCommand>, PlanError> {
        if own.contains(&link.key.peer) {
            return Err(PlanError::ToItself(link.key));
        }
        if let Some(there) = self.links.iter_mut().find(|planned| planned.link.key == link.key) {
            link.durable |= there.link.durable;
            let is_same = (&there.link.url, &there.link.user) == (&link.url, &link.user);
            there.link = link.clone();
            return Ok(if is_same { Vec::new() } else { vec![FederationCommand::ChangeLink(link)] });
        }
        if self.links.len() >= LINKS_MAX {
            return Err(PlanError::TooManyLinks);
        }
        self.links.push(PlannedLink { link: link.clone(), routes: Vec::new() });
        Ok(vec![FederationCommand::AddLink(link)])
    }

    /// Removes a link and its routes.
    ///
    /// # Errors
    /// There is none.
    pub fn remove_link(&mut self, key: &LinkKey) -> Result<Vec<FederationCommand>, PlanError> {
        let at = self.position(key)?;
        self.links.remove(at);
        Ok(vec![FederationCommand::RemoveLink(key.clone())])
    }

    /// Adds a route to a link that is there. A durable route makes its link durable.
    ///
    /// # Errors
    /// No such link; a route that carries the same; one too many; a dynamic route that is to be pushed.
    pub fn add_route(&mut self, key: &LinkKey, route: RouteSpec) -> Result<Vec<FederationCommand>, PlanError> {
        if route.kind == RouteKind::Dynamic && route.direction == RouteDirection::Push {
            return Err(PlanError::DynamicPush);
        }
        let at = self.position(key)?;
        let planned = &mut self.links[at];
        if planned.routes.iter().any(|there| there.carries_same(&route)) {
            return Err(PlanError::Duplicate { link: key.clone(), route: route.title().into() });
        }
        if planned.routes.len() >= ROUTES_MAX {
            return Err(PlanError::TooManyRoutes(key.clone()));
        }
        planned.link.durable |= route.durable;
        planned.routes.push(route.clone());
        Ok(vec![FederationCommand::AddRoute(key.clone(), route)])
    }

    /// Removes the route that carries the same as this one; with its last route the link too, if that is wanted.
    ///
    /// # Errors
    /// No such link, no such route.
    pub fn remove_route(
        &mut self,
        key: &LinkKey,
        route: &RouteSpec,
        and_empty_link: bool,
    ) -> Result<Vec<FederationCommand>, PlanError> {
        let at = self.position(key)?;
        let planned = &mut self.links[at];
        let found = planned.routes.iter().position(|there| there.carries_same(route));
        let found = found.ok_or_else(|| PlanError::NoRoute { link: key.clone(), route: route.title().into() })?;
        let route = planned.routes.remove(found);
        let mut orders = vec![FederationCommand::RemoveRoute(key.clone(), route)];
        if planned.routes.is_empty() && and_empty_link {
            orders.extend(self.remove_link(key)?);
        }
        Ok(orders)
    }

    /// What is wanted at the next start, too.
    pub fn durable(&self) -> FederationPlan {
        let links = self.links.iter().filter(|planned| planned.link.durable);
        let kept = links.map(|planned| PlannedLink {
            link: planned.link.clone(),
            routes: planned.routes.iter().filter(|route| route.durable).cloned().collect(),
        });
        FederationPlan { links: kept.collect() }
    }

    /// All of it as orders, for a broker that begins.
    pub fn commands(&self) -> Vec<FederationCommand> {
        let of = |planned: &PlannedLink| {
            let key = planned.link.key.clone();
            let routes = planned.routes.iter().map(move |route| FederationCommand::AddRoute(key.clone(), route.clone()));
            std::iter::once(FederationCommand::AddLink(planned.link.clone())).chain(routes).collect::<Vec<_>>()
        };
        self.links.iter().flat_map(of).collect()
    }

    fn position(&self, key: &LinkKey) -> Result<usize, PlanError> {
        let at = self.links.iter().position(|planned| planned.link.key == *key);
        at.ok_or_else(|| PlanError::NoLink(key.clone()))
    }
}
