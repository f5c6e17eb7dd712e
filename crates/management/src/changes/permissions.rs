//! Permissions of users in virtual hosts, and on the topics of exchanges.

use super::Planned;
use crate::api_error::ApiError;
use crate::change_request::{ChangeRequest, made, named};
use crate::planned_change::PlannedChange;
use crate::source::ActionOutcome;
use catalog::{Definition, Name, Permission, ResourceKind, TopicPermission, User, VhostId};

/// The user and the virtual host of the path.
struct PermissionOwner<'a> {
    user: &'a User,
    vhost: VhostId,
    vhost_name: Name,
}

fn owner<'a>(request: &ChangeRequest<'a>) -> Option<PermissionOwner<'a>> {
    let (_, user) = request.catalog().user_by_name(request.matched.at("user"))?;
    let vhost = request.catalog().vhost_by_name(request.matched.at("vhost"))?;
    Some(PermissionOwner { user, vhost, vhost_name: request.catalog().vhost_name(vhost).into() })
}

/// As RabbitMQ words it.
fn missing() -> ApiError {
    ApiError::bad_request("vhost_or_user_not_found")
}

/// `PUT /api/permissions/{vhost}/{user}`.
pub fn set(request: &ChangeRequest<'_>) -> Planned {
    let of = |key: &str| request.body.required_text(key).map(str::to_owned);
    let permission = Permission { configure: of("configure")?, write: of("write")?, read: of("read")? };
    let owner = owner(request).ok_or_else(missing)?;
    let existed = owner.user.permission(owner.vhost).is_some();
    let (user, vhost) = (owner.user.name.clone(), owner.vhost_name);
    Ok(PlannedChange::define([Definition::SetPermission { user, vhost, permission }], made(existed)))
}

/// `DELETE /api/permissions/{vhost}/{user}`.
pub fn clear(request: &ChangeRequest<'_>) -> Planned {
    let owner = owner(request).ok_or_else(ApiError::not_found)?;
    owner.user.permission(owner.vhost).ok_or_else(ApiError::not_found)?;
    let (user, vhost) = (owner.user.name.clone(), owner.vhost_name);
    Ok(PlannedChange::define([Definition::ClearPermission { user, vhost }], ActionOutcome::Done))
}

/// `PUT /api/topic-permissions/{vhost}/{user}`, whose body names the exchange, and the same with `/{exchange}`.
pub fn set_topic(request: &ChangeRequest<'_>) -> Planned {
    let of = |key: &str| request.body.required_text(key).map(str::to_owned);
    let exchange = match request.matched.get("exchange") {
        Some(exchange) => named(ResourceKind::Exchange, exchange)?,
        None => named(ResourceKind::Exchange, &of("exchange")?)?,
    };
    let permission = TopicPermission { write: of("write")?, read: of("read")? };
    let owner = owner(request).ok_or_else(missing)?;
    let mut known = owner.user.topic_permissions();
    let existed = known.any(|(vhost, name, _)| vhost == owner.vhost && *name == exchange);
    let (user, vhost) = (owner.user.name.clone(), owner.vhost_name);
    let definition = Definition::SetTopicPermission { user, vhost, exchange, permission };
    Ok(PlannedChange::define([definition], made(existed)))
}

/// `DELETE /api/topic-permissions/{vhost}/{user}`, and the same with `/{exchange}`.
pub fn clear_topics(request: &ChangeRequest<'_>) -> Planned {
    let owner = owner(request).ok_or_else(ApiError::not_found)?;
    let only = request.matched.get("exchange");
    let here = owner.user.topic_permissions().filter(|(vhost, ..)| *vhost == owner.vhost);
    let wanted = here.filter(|(_, exchange, _)| only.is_none_or(|only| ***exchange == *only));
    let definitions: Vec<_> = wanted
        .map(|(_, exchange, _)| {
            let (user, vhost) = (owner.user.name.clone(), owner.vhost_name.clone());
            Definition::ClearTopicPermission { user, vhost, exchange: exchange.clone() }
        })
        .collect();
    match definitions.is_empty() {
        true => Err(ApiError::not_found()),
        false => Ok(PlannedChange::define(definitions, ActionOutcome::Done)),
    }
}
