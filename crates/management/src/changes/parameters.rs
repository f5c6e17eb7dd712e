//! Parameters: of components in virtual hosts, and global ones, which have no effect.

use super::Planned;
use super::kept_limits::{check_counts, check_entry};
use super::names::{CLUSTER_NAME, CLUSTER_TAGS, GLOBAL_SECTION, forget, keep_name};
use crate::access::AccessDecision;
use crate::api_error::ApiError;
use crate::change_request::{ChangeRequest, made, named};
use crate::federation_upstream::{FederationUpstream, UPSTREAM, UPSTREAM_SET, UpstreamSetEntry};
use crate::json_object::JsonObject;
use crate::planned_change::PlannedChange;
use crate::shovel_parameter::{SHOVEL, ShovelParameter};
use crate::source::ActionOutcome;
use catalog::ResourceKind;
use definitions::{Json, KeptSections};

/// Components whose parameters clients set so. Policies and limits have routes of their own.
const COMPONENTS: [&str; 3] = [UPSTREAM, UPSTREAM_SET, SHOVEL];

const SECTION: &str = "parameters";
/// By which a parameter is known.
const IDENTITY: [&str; 3] = ["component", "vhost", "name"];
/// Beside RabbitMQ's keys, an entry has the user in whose name its links act, and whether a shovel is paused.
pub const PARAMETER_USER: &str = "user";
pub const PARAMETER_PAUSED: &str = "paused";

fn value<'a>(request: &ChangeRequest<'a>) -> Result<&'a Json, ApiError> {
    request.body.get("value").ok_or_else(|| ApiError::bad_request("key_missing: value"))
}

/// `PUT /api/parameters/{component}/{vhost}/{name}`.
pub fn set(request: &ChangeRequest<'_>) -> Planned {
    let (component, vhost, value) = (request.matched.at("component"), request.vhost_name()?, value(request)?);
    let name = named(ResourceKind::Queue, request.matched.at("name"))?;
    let checked = check(component, value)
        .and_then(|()| request.source.check_parameter(component, &vhost, request.user_name, value));
    checked.map_err(|why| ApiError::bad_request(format!("Validation failed\n\n{why}\n")))?;
    let entry = JsonObject::new()
        .put("value", value.clone())
        .text("vhost", &vhost)
        .text("component", component)
        .text("name", &name)
        // In whose name its links act.
        .text(PARAMETER_USER, request.user_name)
        .build();
    put(request, SECTION, &IDENTITY, entry)
}

/// `PUT /api/shovels/vhost/{vhost}/{name}/pause` and `resume`.
pub fn pause_shovel(request: &ChangeRequest<'_>, is_paused: bool) -> Planned {
    let of_shovel = request.source.kept().section(SECTION).iter().find(|entry| is_shovel(request, entry));
    let Some(Json::Object(fields)) = of_shovel else { return Err(ApiError::not_found()) };
    let mut fields = fields.clone();
    fields.retain(|(key, _)| key != PARAMETER_PAUSED);
    if is_paused {
        fields.push((PARAMETER_PAUSED.to_owned(), Json::Bool(true)));
    }
    put(request, SECTION, &IDENTITY, Json::Object(fields)).map(|change| match change {
        PlannedChange::Define { definitions, kept, .. } => {
            PlannedChange::Define { definitions, kept, outcome: ActionOutcome::Done }
        }
        other => other,
    })
}

/// `DELETE /api/shovels/vhost/{vhost}/{name}`.
pub fn delete_shovel(request: &ChangeRequest<'_>) -> Planned {
    let mut kept = request.source.kept().clone();
    match kept.remove(SECTION, |entry| is_shovel(request, entry)) {
        true => Ok(PlannedChange::keep(kept, ActionOutcome::Done)),
        false => Err(ApiError::not_found()),
    }
}

/// `DELETE /api/shovels/vhost/{vhost}/{name}/restart`.
pub fn restart_shovel(request: &ChangeRequest<'_>) -> Planned {
    match request.source.kept().section(SECTION).iter().any(|entry| is_shovel(request, entry)) {
        true => Ok(PlannedChange::RestartShovel {
            vhost: request.vhost_name()?,
            name: request.matched.at("name").to_owned(),
        }),
        false => Err(ApiError::not_found()),
    }
}

/// Whether a parameter is the shovel of the path.
fn is_shovel(request: &ChangeRequest<'_>, entry: &Json) -> bool {
    let has = |key: &str, text: &str| matches!(entry.get(key), Some(Json::Text(found)) if found == text);
    has("component", SHOVEL) && has("vhost", request.matched.at("vhost")) && has("name", request.matched.at("name"))
}

/// What a component takes. What it says is never part of the reason: addresses have passwords.
fn check(component: &str, value: &Json) -> Result<(), String> {
    match (component, value) {
        (UPSTREAM, _) => FederationUpstream::read(value).map(drop),
        (UPSTREAM_SET, _) => UpstreamSetEntry::read_all(value).map(drop),
        (SHOVEL, _) => ShovelParameter::read(value).map(drop),
        ("policy" | "operator_policy" | "vhost-limits", _) => {
            Err(format!("{component} may not be set using this method"))
        }
        _ => Err(format!("component {component} not found; there are {}", COMPONENTS.join(", "))),
    }
}

/// `DELETE /api/parameters/{component}/{vhost}/{name}`.
pub fn clear(request: &ChangeRequest<'_>) -> Planned {
    remove(request, SECTION, &IDENTITY)
}

/// `PUT /api/global-parameters/{name}`.
pub fn set_global(request: &ChangeRequest<'_>) -> Planned {
    let (name, value) = (request.matched.at("name"), value(request)?);
    if name == CLUSTER_NAME {
        check_administrator(request)?;
        let Json::Text(name) = value else { return Err(ApiError::bad_request("value is a string")) };
        return keep_name(request, name);
    }
    let name = named(ResourceKind::Queue, name)?;
    let entry = JsonObject::new().text("name", &name).put("value", value.clone()).build();
    put(request, GLOBAL_SECTION, &["name"], entry)
}

/// `DELETE /api/global-parameters/{name}`. Without a name that it was given, the cluster has that of the broker; without
/// tags, none.
pub fn clear_global(request: &ChangeRequest<'_>) -> Planned {
    match request.matched.at("name") {
        CLUSTER_NAME => {
            check_administrator(request)?;
            forget(request, CLUSTER_NAME)
        }
        CLUSTER_TAGS => forget(request, CLUSTER_TAGS),
        _ => remove(request, GLOBAL_SECTION, &["name"]),
    }
}

/// The cluster is named by administrators alone, as by its own route.
fn check_administrator(request: &ChangeRequest<'_>) -> Result<(), ApiError> {
    match request.catalog().is_administrator(request.user) {
        true => Ok(()),
        false => Err(ApiError::not_authorised(AccessDecision::NotTagged.reason())),
    }
}

fn put(request: &ChangeRequest<'_>, section: &str, identity: &[&str], entry: Json) -> Planned {
    check_entry(&entry)?;
    let mut kept: KeptSections = request.source.kept().clone();
    let existed = kept.put(section, identity, entry);
    check_counts(request.source.kept(), &kept)?;
    Ok(PlannedChange::keep(kept, made(existed)))
}

/// Removes what the path names by all of these keys.
fn remove(request: &ChangeRequest<'_>, section: &str, identity: &[&str]) -> Planned {
    let mut kept = request.source.kept().clone();
    let is_named =
        |entry: &Json| identity.iter().all(|key| entry.get(key) == Some(&Json::text(request.matched.at(key))));
    match kept.remove(section, is_named) {
        true => Ok(PlannedChange::keep(kept, ActionOutcome::Done)),
        false => Err(ApiError::not_found()),
    }
}
