//! Users: made, changed, deleted. A password that comes as it is is kept as RabbitMQ's hash of it.

use super::Planned;
use crate::api_error::ApiError;
use crate::change_request::{ChangeRequest, faulty, made, named};
use crate::planned_change::PlannedChange;
use crate::source::ActionOutcome;
use catalog::limits::PASSWORD_BYTES_MAX;
use catalog::{Definition, Name, Password, ResourceKind, User, UserLimits};
use definitions::Json;

/// `PUT /api/users/{user}`.
pub fn put(request: &ChangeRequest<'_>) -> Planned {
    let name = request.name(ResourceKind::User, "user")?;
    let known = request.catalog().user_by_name(&name).map(|(_, user)| user);
    let (password, tags) = (password(request, known)?, tags(request)?);
    let loopback_only = match known {
        Some(user) => user.loopback_only,
        None => request.source.facts().loopback_users.iter().any(|user| **user == *name),
    };
    let mut definitions = vec![Definition::PutUser { name: name.clone(), password, tags, loopback_only }];
    if request.body.get("limits").is_some() {
        let limits = definitions::read_user_limits(request.body.fields(), "limits").map_err(|fault| faulty(&fault))?;
        if limits != known.map_or(UserLimits::default(), |user| user.limits) {
            definitions.push(Definition::SetUserLimits { user: name, limits });
        }
    }
    Ok(PlannedChange::define(definitions, made(known.is_some())))
}

/// A password, the hash of one, or none: then only a certificate lets the user in. An empty one is none, too.
fn password(request: &ChangeRequest<'_>, known: Option<&User>) -> Result<Password, ApiError> {
    let (secret, hash) = (request.body.text("password")?, request.body.text("password_hash")?);
    match (secret, hash) {
        (Some(_), Some(_)) => Err(ApiError::bad_request("both_password_and_password_hash_are_provided")),
        (Some(secret), None) if secret.len() > PASSWORD_BYTES_MAX => {
            Err(ApiError::bad_request(format!("a password has {PASSWORD_BYTES_MAX} bytes at most")))
        }
        (Some(""), None) | (None, None) => Ok(Password::Never),
        (Some(secret), None) => Ok(match known {
            // Hashed with another salt, the same password would be a change.
            Some(user) if !user.password.is_slow() && user.password.is(secret.as_bytes()) => user.password.clone(),
            _ => Password::sha256(secret.as_bytes(), request.salt),
        }),
        (None, Some(_)) => read_hash(request),
    }
}

fn read_hash(request: &ChangeRequest<'_>) -> Result<Password, ApiError> {
    let body = request.body;
    let mut fields = vec![("password_hash".to_owned(), Json::text(body.required_text("password_hash")?))];
    let algorithm = match body.text("hashing_algorithm")? {
        // RabbitMQ's own, if the client does not say.
        None if !body.required_text("password_hash")?.starts_with('$') => Some("rabbit_password_hashing_sha256"),
        algorithm => algorithm,
    };
    fields.extend(algorithm.map(|algorithm| ("hashing_algorithm".to_owned(), Json::text(algorithm))));
    definitions::read_password(&Json::Object(fields)).map_err(|fault| faulty(&fault))
}

fn tags(request: &ChangeRequest<'_>) -> Result<Vec<Name>, ApiError> {
    if request.body.get("tags").is_some() {
        return definitions::read_tags(request.body.fields()).map_err(|fault| faulty(&fault));
    }
    match request.body.get("administrator") {
        None => Err(ApiError::bad_request("tags_not_present")),
        Some(_) if request.body.flag("administrator", false)? => Ok(vec![Name::from("administrator")]),
        Some(_) => Ok(Vec::new()),
    }
}

/// `DELETE /api/users/{user}`: also the user who asks, as in RabbitMQ.
pub fn delete(request: &ChangeRequest<'_>) -> Planned {
    let name = request.name(ResourceKind::User, "user")?;
    request.catalog().user_by_name(&name).ok_or_else(ApiError::not_found)?;
    Ok(PlannedChange::define([Definition::DeleteUser { name }], ActionOutcome::Done))
}

/// `POST /api/users/bulk-delete`: those that there are.
pub fn delete_several(request: &ChangeRequest<'_>) -> Planned {
    if request.body.get("users").is_none() {
        return Err(ApiError::bad_request("key_missing: users"));
    }
    let mut definitions = Vec::new();
    for user in request.body.texts("users")? {
        let name = named(ResourceKind::User, &user)?;
        if request.catalog().user_by_name(&name).is_some() {
            definitions.push(Definition::DeleteUser { name });
        }
    }
    Ok(PlannedChange::define(definitions, ActionOutcome::Done))
}
