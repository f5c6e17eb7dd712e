//! The links and routes that an operator wants of one broker.
//!
//! Enters: links and routes to add and to remove.  Leaves: orders for the links concerned, or why there are none, in words.
//! Owns:   what is wanted; what must not be; which of it outlives the broker.
//! Never:  knows whether a link runs; keeps anything itself.

use crate::limits::{LINKS_MAX, ROUTES_MAX};
use crate::{Direction, LinkKey, LinkSpec, Order, RouteKind, RouteSpec};
use std::fmt;

/// A link with its routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The link.
    pub link: LinkSpec,
    /// Its routes, in the order in which they came.
    pub routes: Vec<RouteSpec>,
}

/// What is wanted of one broker, in the order in which it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    links: Vec<Planned>,
}

/// Why a plan is not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unplanned {
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

impl Unplanned {
    /// For programs.
    pub const fn code(&self) -> &'static str {
        match self {
            Unplanned::NoLink(_) => "no-link",
            Unplanned::NoRoute { .. } => "no-route",
            Unplanned::Duplicate { .. } => "duplicate-route",
            Unplanned::ToItself(_) => "to-itself",
            Unplanned::DynamicPush => "not-permitted",
            Unplanned::TooManyLinks | Unplanned::TooManyRoutes(_) => "too-many",
        }
    }
}

impl fmt::Display for Unplanned {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unplanned::NoLink(key) => write!(to, "there is no link to {} in virtual host '{}'", key.peer, key.vhost),
            Unplanned::NoRoute { link, route } => write!(to, "the link to {} has no route {route}", link.peer),
            Unplanned::Duplicate { link, route } => {
                write!(to, "duplicate route: the link to {} has {route} already", link.peer)
            }
            Unplanned::ToItself(key) => write!(to, "{} is this broker: it cannot be linked to itself", key.peer),
            Unplanned::DynamicPush => to.write_str(
                "a dynamic route is pulled: --src-local is not permitted on dynamic routes, whose destination must dial",
            ),
            Unplanned::TooManyLinks => write!(to, "there are {LINKS_MAX} links, and cannot be more"),
            Unplanned::TooManyRoutes(key) => {
                write!(to, "the link to {} has {ROUTES_MAX} routes, and cannot have more", key.peer)
            }
        }
    }
}

impl std::error::Error for Unplanned {}

impl RouteSpec {
    /// Which route it is, in the form of listings: exchange and what is carried.
    pub fn title(&self) -> String {
        let pushed = if self.direction == Direction::Push { ", pushed" } else { "" };
        match &self.kind {
            RouteKind::Dynamic => format!("{}(<dynamic>{pushed})", self.exchange),
            RouteKind::Static { key } => format!("{}({key}{pushed})", self.exchange),
            RouteKind::Queue { queue } => format!("{}(queue {queue}{pushed})", self.exchange),
        }
    }
}

impl Plan {
    /// Every link with its routes.
    pub fn links(&self) -> &[Planned] {
        &self.links
    }

    /// A link.
    pub fn link(&self, key: &LinkKey) -> Option<&Planned> {
        self.links.iter().find(|planned| planned.link.key == *key)
    }

    /// Adds a link, or changes one that is there: with another login it is dialled anew, and keeps its routes; one that is durable
    /// stays so. `own` are the addresses by which this broker is known in the link's virtual host.
    ///
    /// # Errors
    /// To this broker itself; one too many.
    pub fn add_link(&mut self, mut link: LinkSpec, own: &[Box<str>]) -> Result<Vec<Order>, Unplanned> {
        if own.contains(&link.key.peer) {
            return Err(Unplanned::ToItself(link.key));
        }
        if let Some(there) = self.links.iter_mut().find(|planned| planned.link.key == link.key) {
            link.durable |= there.link.durable;
            let is_same = (&there.link.url, &there.link.user) == (&link.url, &link.user);
            there.link = link.clone();
            return Ok(if is_same { Vec::new() } else { vec![Order::ChangeLink(link)] });
        }
        if self.links.len() >= LINKS_MAX {
            return Err(Unplanned::TooManyLinks);
        }
        self.links.push(Planned { link: link.clone(), routes: Vec::new() });
        Ok(vec![Order::AddLink(link)])
    }

    /// Removes a link and its routes.
    ///
    /// # Errors
    /// There is none.
    pub fn remove_link(&mut self, key: &LinkKey) -> Result<Vec<Order>, Unplanned> {
        let at = self.place(key)?;
        self.links.remove(at);
        Ok(vec![Order::RemoveLink(key.clone())])
    }

    /// Adds a route to a link that is there. A durable route makes its link durable.
    ///
    /// # Errors
    /// No such link; a route that carries the same; one too many; a dynamic route that is to be pushed.
    pub fn add_route(&mut self, key: &LinkKey, route: RouteSpec) -> Result<Vec<Order>, Unplanned> {
        if route.kind == RouteKind::Dynamic && route.direction == Direction::Push {
            return Err(Unplanned::DynamicPush);
        }
        let at = self.place(key)?;
        let planned = &mut self.links[at];
        if planned.routes.iter().any(|there| there.is_like(&route)) {
            return Err(Unplanned::Duplicate { link: key.clone(), route: route.title().into() });
        }
        if planned.routes.len() >= ROUTES_MAX {
            return Err(Unplanned::TooManyRoutes(key.clone()));
        }
        planned.link.durable |= route.durable;
        planned.routes.push(route.clone());
        Ok(vec![Order::AddRoute(key.clone(), route)])
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
    ) -> Result<Vec<Order>, Unplanned> {
        let at = self.place(key)?;
        let planned = &mut self.links[at];
        let found = planned.routes.iter().position(|there| there.is_like(route));
        let found = found.ok_or_else(|| Unplanned::NoRoute { link: key.clone(), route: route.title().into() })?;
        let route = planned.routes.remove(found);
        let mut orders = vec![Order::RemoveRoute(key.clone(), route)];
        if planned.routes.is_empty() && and_empty_link {
            orders.extend(self.remove_link(key)?);
        }
        Ok(orders)
    }

    /// What is wanted at the next start, too.
    pub fn durable(&self) -> Plan {
        let links = self.links.iter().filter(|planned| planned.link.durable);
        let kept = links.map(|planned| Planned {
            link: planned.link.clone(),
            routes: planned.routes.iter().filter(|route| route.durable).cloned().collect(),
        });
        Plan { links: kept.collect() }
    }

    /// All of it as orders, for a broker that begins.
    pub fn orders(&self) -> Vec<Order> {
        let of = |planned: &Planned| {
            let key = planned.link.key.clone();
            let routes = planned.routes.iter().map(move |route| Order::AddRoute(key.clone(), route.clone()));
            std::iter::once(Order::AddLink(planned.link.clone())).chain(routes).collect::<Vec<_>>()
        };
        self.links.iter().flat_map(of).collect()
    }

    fn place(&self, key: &LinkKey) -> Result<usize, Unplanned> {
        let at = self.links.iter().position(|planned| planned.link.key == *key);
        at.ok_or_else(|| Unplanned::NoLink(key.clone()))
    }
}
