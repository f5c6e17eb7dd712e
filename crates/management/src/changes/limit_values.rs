//! Limits of virtual hosts and users: one is set or cleared, and the others stay.

use super::Planned;
use crate::api_error::ApiError;
use crate::change_request::{ChangeRequest, faulty};
use crate::definition_views;
use crate::planned_change::PlannedChange;
use crate::source::ActionOutcome;
use catalog::{Definition, User};
use definitions::Json;

/// The key under which the limits are read again.
const LIMITS: &str = "limits";

/// Limits as an object, with one of them other than it was.
fn changed(request: &ChangeRequest<'_>, limits: Json, value: Option<i64>) -> Json {
    let name = request.matched.at("name");
    let Json::Object(fields) = limits else { unreachable!("limits are shown as an object") };
    let others = fields.into_iter().filter(|(other, _)| other != name);
    let fields = others.chain(value.map(|value| (name.to_owned(), Json::Int(value)))).collect();
    Json::Object(vec![(LIMITS.to_owned(), Json::Object(fields))])
}

fn value(request: &ChangeRequest<'_>) -> Result<i64, ApiError> {
    request.body.number("value")?.ok_or_else(|| ApiError::bad_request("key_missing: value"))
}

/// `PUT /api/vhost-limits/{vhost}/{name}`.
pub fn set_of_vhost(request: &ChangeRequest<'_>) -> Planned {
    let value = value(request)?;
    of_vhost(request, Some(value))
}

/// `DELETE /api/vhost-limits/{vhost}/{name}`.
pub fn clear_of_vhost(request: &ChangeRequest<'_>) -> Planned {
    of_vhost(request, None)
}

fn of_vhost(request: &ChangeRequest<'_>, value: Option<i64>) -> Planned {
    let (id, vhost) = (request.vhost()?, request.vhost_name()?);
    let before = definition_views::vhost_limits(&request.catalog().vhost_limits(id));
    let limits = definitions::read_vhost_limits(&changed(request, before, value), LIMITS);
    let limits = limits.map_err(|fault| faulty(&fault))?;
    Ok(PlannedChange::define([Definition::SetVhostLimits { vhost, limits }], ActionOutcome::Done))
}

/// `PUT /api/user-limits/{user}/{name}`.
pub fn set_of_user(request: &ChangeRequest<'_>) -> Planned {
    let value = value(request)?;
    of_user(request, Some(value))
}

/// `DELETE /api/user-limits/{user}/{name}`.
pub fn clear_of_user(request: &ChangeRequest<'_>) -> Planned {
    of_user(request, None)
}

fn of_user(request: &ChangeRequest<'_>, value: Option<i64>) -> Planned {
    let found = request.catalog().user_by_name(request.matched.at("user"));
    let (_, User { name, limits, .. }) = found.ok_or_else(ApiError::not_found)?;
    let before = definition_views::user_limits(limits);
    let limits = definitions::read_user_limits(&changed(request, before, value), LIMITS);
    let limits = limits.map_err(|fault| faulty(&fault))?;
    Ok(PlannedChange::define([Definition::SetUserLimits { user: name.clone(), limits }], ActionOutcome::Done))
}
