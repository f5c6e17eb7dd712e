//! Parameters, which are kept: of components in virtual hosts, and global ones.

use super::Planned;
use super::kept_limits::{check_counts, check_entry};
use super::names::{CLUSTER_NAME, CLUSTER_TAGS, GLOBAL_SECTION, forget, keep_name};
use crate::access::AccessDecision;
use crate::api_error::ApiError;
use crate::change_request::{ChangeRequest, made, named};
use crate::json_object::JsonObject;
use crate::planned_change::PlannedChange;
use crate::source::ActionOutcome;
use catalog::ResourceKind;
use definitions::{Json, UnusedSections};

/// Components whose parameters clients set so. Policies and limits have routes of their own.
const COMPONENTS: [&str; 3] = ["federation-upstream", "federation-upstream-set", "shovel"];

const SECTION: &str = "parameters";

fn value<'a>(request: &ChangeRequest<'a>) -> Result<&'a Json, ApiError> {
    request.body.get("value").ok_or_else(|| ApiError::bad_request("key_missing: value"))
}

/// `PUT /api/parameters/{component}/{vhost}/{name}`.
pub fn set(request: &ChangeRequest<'_>) -> Planned {
    let (component, vhost, value) = (request.matched.at("component"), request.vhost_name()?, value(request)?);
    let name = named(ResourceKind::Queue, request.matched.at("name"))?;
    check(component, value).map_err(|why| ApiError::bad_request(format!("Validation failed: {why}")))?;
    let entry = JsonObject::new()
        .put("value", value.clone())
        .text("vhost", &vhost)
        .text("component", component)
        .text("name", &name)
        .build();
    put(request, SECTION, &["component", "vhost", "name"], entry)
}

/// What a component takes. What it says is never part of the reason: addresses have passwords.
fn check(component: &str, value: &Json) -> Result<(), String> {
    match (component, value) {
        ("federation-upstream", Json::Object(_)) => match value.get("uri") {
            Some(Json::Text(_)) => Ok(()),
            Some(Json::List(uris)) if uris.iter().all(|uri| matches!(uri, Json::Text(_))) => Ok(()),
            Some(_) => Err("uri is a string or a list of strings".to_owned()),
            None => Err("Key \"uri\" not found in federation-upstream".to_owned()),
        },
        ("federation-upstream-set", Json::List(upstreams)) => {
            let names = |entry: &Json| matches!(entry.get("upstream"), Some(Json::Text(_)));
            upstreams.iter().all(names).then_some(()).ok_or_else(|| "each entry names its upstream".to_owned())
        }
        ("shovel", Json::Object(_)) => Ok(()),
        ("federation-upstream-set", _) => Err(format!("a list is needed, not {}", value.kind())),
        ("federation-upstream" | "shovel", _) => Err(format!("an object is needed, not {}", value.kind())),
        ("policy" | "operator_policy" | "vhost-limits", _) => {
            Err(format!("{component} may not be set using this method"))
        }
        _ => Err(format!("component {component} not found; there are {}", COMPONENTS.join(", "))),
    }
}

/// `DELETE /api/parameters/{component}/{vhost}/{name}`.
pub fn clear(request: &ChangeRequest<'_>) -> Planned {
    remove(request, SECTION, &["component", "vhost", "name"])
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
    let mut kept: UnusedSections = request.source.kept().clone();
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
