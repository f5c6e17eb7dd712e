//! What is done to connections, links and counts: only a broker can do it.

use super::Planned;
use crate::api_error::ApiError;
use crate::change_request::ChangeRequest;
use crate::limits::CLOSE_REASON_BYTES_MAX;
use crate::planned_change::{ConnectionsToClose, PlannedChange};
use catalog::ResourceKind;

/// `DELETE /api/connections/{name}`.
pub fn close_connection(request: &ChangeRequest<'_>) -> Planned {
    let name = request.matched.at("name");
    let mut connections = request.source.connections().iter();
    connections.find(|connection| connection.name == name).ok_or_else(ApiError::not_found)?;
    close(request, ConnectionsToClose::Named(name.to_owned()))
}

/// `DELETE /api/connections/username/{user}`.
pub fn close_connections_of_user(request: &ChangeRequest<'_>) -> Planned {
    close(request, ConnectionsToClose::OfUser(request.name(ResourceKind::User, "user")?))
}

fn close(request: &ChangeRequest<'_>, connections: ConnectionsToClose) -> Planned {
    let reason = request.reason.unwrap_or("Closed via management plugin");
    let reason = reason[..reason.floor_char_boundary(CLOSE_REASON_BYTES_MAX)].to_owned();
    Ok(PlannedChange::CloseConnections { connections, reason })
}

/// `DELETE /api/federation-links/vhost/{vhost}/{id}/{node}/restart`.
pub fn restart_federation_link(request: &ChangeRequest<'_>) -> Planned {
    let (vhost, id) = (request.vhost_name()?, request.matched.at("id"));
    let mut links = request.source.federation_links().iter();
    let is_there = links.any(|link| link.vhost == *vhost && link.id == id);
    match is_there && request.matched.at("node") == request.source.facts().node {
        true => Ok(PlannedChange::RestartFederationLink { vhost, id: id.to_owned() }),
        false => Err(ApiError::not_found()),
    }
}

/// `DELETE /api/auth/attempts/{node}`.
pub fn reset_login_counts(request: &ChangeRequest<'_>) -> Planned {
    match request.matched.at("node") == request.source.facts().node {
        true => Ok(PlannedChange::ResetLoginCounts),
        false => Err(ApiError::not_found()),
    }
}

/// `GET /api/aliveness-test/{vhost}`.
pub fn aliveness(request: &ChangeRequest<'_>) -> Planned {
    Ok(PlannedChange::TestAliveness { vhost: request.vhost()? })
}
