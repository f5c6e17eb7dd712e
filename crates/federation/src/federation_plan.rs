//! The plan of a broker's federation: the links and routes that an operator has configured.
//!
//! Enters: links and routes to add and to remove.  Leaves: commands for the links concerned, or why the plan forbids the change.
//! Owns:   which links and routes exist, which combinations are forbidden, and which survive a restart.

use crate::limits::{LINKS_MAX, ROUTES_MAX};
use crate::{FederationCommand, LinkKey, LinkSpec, RouteDirection, RouteKind, RouteSpec};
use std::fmt;

/// A link and its routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedLink {
    pub link: LinkSpec,
    /// In the order in which they were added.
    pub routes: Vec<RouteSpec>,
}

/// The links and routes of one broker, in the order in which they were added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FederationPlan {
    links: Vec<PlannedLink>,
}

/// Why a change of the plan is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// There is no such link.
    NoLink(LinkKey),
    /// The link has no such route.
    NoRoute {
        link: LinkKey,
        /// What was sought.
        route: Box<str>,
    },
    /// The link has a route that carries the same.
    Duplicate { link: LinkKey, route: Box<str> },
    /// The other broker would be this one.
    ToItself(LinkKey),
    /// Only the destination of a dynamic route knows its bindings, so it has to be the one that dials.
    DynamicPush,
    /// There are as many links as there may be.
    TooManyLinks,
    /// The link has as many routes as it may have.
    TooManyRoutes(LinkKey),
}

impl PlanError {
    /// An identifier for programs.
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
    /// The route as listings show it: its exchange and what it carries.
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
    pub fn links(&self) -> &[PlannedLink] {
        &self.links
    }

    pub fn link(&self, key: &LinkKey) -> Option<&PlannedLink> {
        self.links.iter().find(|planned| planned.link.key == *key)
    }

    /// Adds a link, or changes one that exists: with another login it reconnects and keeps its routes; a durable link stays durable.
    /// `own` are the addresses of this broker in the link's virtual host.
    ///
    /// # Errors
    /// The link leads to this broker itself, or there are too many links.
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
    /// There is no such link.
    pub fn remove_link(&mut self, key: &LinkKey) -> Result<Vec<FederationCommand>, PlanError> {
        let at = self.position(key)?;
        self.links.remove(at);
        Ok(vec![FederationCommand::RemoveLink(key.clone())])
    }

    /// Adds a route to a link. A durable route makes its link durable.
    ///
    /// # Errors
    /// There is no such link, a route that carries the same, or too many routes; or a dynamic route would be pushed.
    pub fn add_route(&mut self, key: &LinkKey, route: RouteSpec) -> Result<Vec<FederationCommand>, PlanError> {
        if route.kind == RouteKind::Dynamic && route.direction == RouteDirection::Push {
            return Err(PlanError::DynamicPush);
        }
        let at = self.position(key)?;
        let planned = &mut self.links[at];
        if planned.routes.iter().any(|other| other.carries_same(&route)) {
            return Err(PlanError::Duplicate { link: key.clone(), route: route.title().into() });
        }
        if planned.routes.len() >= ROUTES_MAX {
            return Err(PlanError::TooManyRoutes(key.clone()));
        }
        planned.link.durable |= route.durable;
        planned.routes.push(route.clone());
        Ok(vec![FederationCommand::AddRoute(key.clone(), route)])
    }

    /// Removes the route that carries the same as this one, and with the last route its link if `and_empty_link`.
    ///
    /// # Errors
    /// There is no such link or route.
    pub fn remove_route(
        &mut self,
        key: &LinkKey,
        route: &RouteSpec,
        and_empty_link: bool,
    ) -> Result<Vec<FederationCommand>, PlanError> {
        let at = self.position(key)?;
        let planned = &mut self.links[at];
        let found = planned.routes.iter().position(|other| other.carries_same(route));
        let found = found.ok_or_else(|| PlanError::NoRoute { link: key.clone(), route: route.title().into() })?;
        let route = planned.routes.remove(found);
        let mut commands = vec![FederationCommand::RemoveRoute(key.clone(), route)];
        if planned.routes.is_empty() && and_empty_link {
            commands.extend(self.remove_link(key)?);
        }
        Ok(commands)
    }

    /// The part that survives a restart.
    pub fn durable(&self) -> FederationPlan {
        let links = self.links.iter().filter(|planned| planned.link.durable);
        let kept = links.map(|planned| PlannedLink {
            link: planned.link.clone(),
            routes: planned.routes.iter().filter(|route| route.durable).cloned().collect(),
        });
        FederationPlan { links: kept.collect() }
    }

    /// Commands that set up the whole plan at a broker that starts.
    pub fn commands(&self) -> Vec<FederationCommand> {
        let of = |planned: &PlannedLink| {
            let key = planned.link.key.clone();
            let routes =
                planned.routes.iter().map(move |route| FederationCommand::AddRoute(key.clone(), route.clone()));
            std::iter::once(FederationCommand::AddLink(planned.link.clone())).chain(routes).collect::<Vec<_>>()
        };
        self.links.iter().flat_map(of).collect()
    }

    fn position(&self, key: &LinkKey) -> Result<usize, PlanError> {
        let at = self.links.iter().position(|planned| planned.link.key == *key);
        at.ok_or_else(|| PlanError::NoLink(key.clone()))
    }
}
