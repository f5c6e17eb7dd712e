//! Commands of an operator that change the links and routes of a broker.
//!
//! Each was checked against the `FederationPlan` before, so that carrying it out never fails.

use crate::{LinkKey, LinkSpec, RouteSpec};

/// A change of links and routes.
#[derive(Clone, Debug)]
pub enum FederationCommand {
    /// Adds a link, which dials as soon as it has a route.
    AddLink(LinkSpec),
    /// Gives a link another login: it reconnects, and its routes continue where they were.
    ChangeLink(LinkSpec),
    /// Has a link connect again, as it is; its routes continue where they were.
    RestartLink(LinkKey),
    /// Removes a link and its routes.
    RemoveLink(LinkKey),
    /// Adds a route to a link.
    AddRoute(LinkKey, RouteSpec),
    /// Adds a route that existed before this broker restarted: it takes nothing until the brokers downstream have had the time to
    /// request their bindings again (`limits::RETURN_WAIT`).
    ReturnRoute(LinkKey, RouteSpec),
    /// Gives a route another credit, key or end: its link connects again, and what waits for it at the source is kept.
    ChangeRoute(LinkKey, RouteSpec),
    /// Removes a route and what it has declared at the other end.
    RemoveRoute(LinkKey, RouteSpec),
}

impl FederationCommand {
    /// The link concerned.
    pub fn link(&self) -> &LinkKey {
        match self {
            FederationCommand::AddLink(spec) | FederationCommand::ChangeLink(spec) => &spec.key,
            FederationCommand::RestartLink(key)
            | FederationCommand::RemoveLink(key)
            | FederationCommand::AddRoute(key, _)
            | FederationCommand::ReturnRoute(key, _)
            | FederationCommand::ChangeRoute(key, _)
            | FederationCommand::RemoveRoute(key, _) => key,
        }
    }
}
