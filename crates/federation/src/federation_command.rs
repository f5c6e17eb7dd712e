//! What an operator orders of a broker's links.
//!
//! Enters: links and routes.  Leaves: orders for the shard that has the link.
//! Owns:   what may be ordered.
//! Never:  refuses one: whoever gives it has looked (`Plan`).

use crate::{LinkKey, LinkSpec, RouteSpec};

/// A change of links and routes.
#[derive(Clone, Debug)]
pub enum FederationCommand {
    /// A link that is not there yet: it is dialled as soon as it has a route.
    AddLink(LinkSpec),
    /// One that is there has another login: it is dialled anew, and its routes go on where they were.
    ChangeLink(LinkSpec),
    /// It ends, and its routes with it.
    RemoveLink(LinkKey),
    /// A route on a link that is there.
    AddRoute(LinkKey, RouteSpec),
    /// The same, and it was there before this broker began: what waits for it at the source waits until those below have had the
    /// time to ask again (`limits::RETURN_WAIT`).
    ReturnRoute(LinkKey, RouteSpec),
    /// It ends: what it made at the other end goes.
    RemoveRoute(LinkKey, RouteSpec),
}

impl FederationCommand {
    /// Which link it is for.
    pub fn link(&self) -> &LinkKey {
        match self {
            FederationCommand::AddLink(spec) | FederationCommand::ChangeLink(spec) => &spec.key,
            FederationCommand::RemoveLink(key)
            | FederationCommand::AddRoute(key, _)
            | FederationCommand::ReturnRoute(key, _)
            | FederationCommand::RemoveRoute(key, _) => key,
        }
    }
}
