//! A request that changes something, with what it is checked against.
//!
//! Enters: path, query and body of a client; the catalog.  Leaves: names, ids and permissions, or why not.

use crate::api_error::ApiError;
use crate::definition_views::DEFAULT_EXCHANGE;
use crate::query::Query;
use crate::request_body::RequestBody;
use crate::route_path::RouteMatch;
use crate::source::{ActionOutcome, Source};
use catalog::{
    Catalog, ConnectionSlot, Definition, Name, PermissionKind, Refusal, Resource, ResourceKind, SessionId, ShardId,
    UserId, VhostId,
};
use definitions::DefinitionsFault;

/// The session of a request: no connection has it, so that queues that belong to one are locked.
pub const REQUEST_SESSION: SessionId =
    SessionId { shard: ShardId(u16::MAX), slot: ConnectionSlot::new(u32::MAX), serial: 0 };

/// A request of a user who may use the route.
pub struct ChangeRequest<'a> {
    pub source: &'a dyn Source,
    pub user: UserId,
    pub user_name: &'a Name,
    /// Drawn for this request: of a password that comes with it.
    pub salt: [u8; 4],
    pub matched: &'a RouteMatch,
    pub query: &'a Query,
    pub body: &'a RequestBody,
    /// `X-Reason`.
    pub reason: Option<&'a str>,
}

impl<'a> ChangeRequest<'a> {
    pub fn catalog(&self) -> &'a Catalog {
        self.source.catalog()
    }

    /// What a placeholder of the path stands for, as a name.
    pub fn name(&self, kind: ResourceKind, placeholder: &str) -> Result<Name, ApiError> {
        named(kind, self.matched.at(placeholder))
    }

    /// The name of an exchange; the default exchange has one in paths.
    pub fn exchange_name(&self, placeholder: &str) -> Result<Name, ApiError> {
        match self.matched.at(placeholder) {
            DEFAULT_EXCHANGE => named(ResourceKind::Exchange, ""),
            name => named(ResourceKind::Exchange, name),
        }
    }

    /// The virtual host of the path.
    pub fn vhost(&self) -> Result<VhostId, ApiError> {
        self.catalog().vhost_by_name(self.matched.at("vhost")).ok_or_else(ApiError::not_found)
    }

    /// The virtual host of the path, by name.
    pub fn vhost_name(&self) -> Result<Name, ApiError> {
        self.vhost()?;
        self.name(ResourceKind::Vhost, "vhost")
    }

    /// Whether the user may have this definition executed, as over AMQP.
    pub fn authorize(&self, definition: &Definition) -> Result<(), ApiError> {
        self.catalog().authorize(self.user, definition).map_err(refused)
    }

    /// Whether the user may do this to the exchange or queue of a name, as over AMQP.
    pub fn check(&self, vhost: VhostId, kind: PermissionKind, resource: Resource, name: &Name) -> Result<(), ApiError> {
        self.catalog().check_anew(self.user, vhost, kind, resource, name.as_bytes()).map_err(refused)
    }
}

/// A name of a request. Line breaks are dropped from names over AMQP; here the path would be another's then.
pub fn named(kind: ResourceKind, text: &str) -> Result<Name, ApiError> {
    if text.contains(['\r', '\n']) {
        return Err(ApiError::bad_request("a name has no line breaks"));
    }
    Name::new(kind, text.as_bytes()).map_err(refused)
}

/// A refusal of the catalog as an answer.
pub fn refused(refusal: Refusal) -> ApiError {
    ApiError::of_refusal(&refusal)
}

/// A fault of an entry as an answer: the entry is the body, so that its place begins there.
pub fn faulty(fault: &DefinitionsFault) -> ApiError {
    ApiError::bad_request(fault.to_string().trim_start_matches('.'))
}

/// 201 for what was not there, 204 for what was.
pub fn made(existed: bool) -> ActionOutcome {
    if existed { ActionOutcome::Done } else { ActionOutcome::Created(None) }
}
