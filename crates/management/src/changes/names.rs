//! The name and the tags of the cluster: for people and their tools. Other brokers know this one by the name that it has from its
//! start.

use super::Planned;
use crate::api_error::ApiError;
use crate::change_request::ChangeRequest;
use crate::json_object::{JsonObject, empty};
use crate::limits::CLUSTER_NAME_BYTES_MAX;
use crate::planned_change::PlannedChange;
use crate::source::{ActionOutcome, Source};
use definitions::Json;

/// The global parameters that are the name and the tags, and where they are kept.
pub const CLUSTER_NAME: &str = "cluster_name";
pub const CLUSTER_TAGS: &str = "cluster_tags";
pub const GLOBAL_SECTION: &str = "global_parameters";

/// `PUT /api/cluster-name`.
pub fn name_cluster(request: &ChangeRequest<'_>) -> Planned {
    keep_name(request, request.body.required_text("name")?)
}

/// Keeps a name as RabbitMQ does: as a global parameter.
pub fn keep_name(request: &ChangeRequest<'_>, name: &str) -> Planned {
    if name.is_empty() || name.len() > CLUSTER_NAME_BYTES_MAX || name.chars().any(char::is_control) {
        let why = format!("the name of a cluster is a line of 1 to {CLUSTER_NAME_BYTES_MAX} bytes");
        return Err(ApiError::bad_request(why));
    }
    let entry = JsonObject::new().text("name", CLUSTER_NAME).text("value", name).build();
    let mut kept = request.source.kept().clone();
    kept.put(GLOBAL_SECTION, &["name"], entry);
    Ok(PlannedChange::keep(kept, ActionOutcome::Done))
}

/// Forgets what was given for one of the parameters that are always there, if anything was.
pub fn forget(request: &ChangeRequest<'_>, name: &str) -> Planned {
    let mut kept = request.source.kept().clone();
    kept.remove(GLOBAL_SECTION, |entry| entry.get("name") == Some(&Json::text(name)));
    Ok(PlannedChange::keep(kept, ActionOutcome::Done))
}

/// A global parameter that was set.
fn given<'a>(source: &'a dyn Source, name: &str) -> Option<&'a Json> {
    let mut kept = source.kept().section(GLOBAL_SECTION).iter();
    kept.find(|entry| entry.get("name") == Some(&Json::text(name)))?.get("value")
}

/// The tags of the cluster: an object, which is empty until somebody sets one.
pub fn cluster_tags(source: &dyn Source) -> Json {
    given(source, CLUSTER_TAGS).filter(|value| matches!(value, Json::Object(_))).cloned().unwrap_or_else(empty)
}

/// The name of the cluster: the one that it was given, or that of the broker.
pub fn cluster_name(source: &dyn Source) -> &str {
    match given(source, CLUSTER_NAME) {
        Some(Json::Text(name)) => name,
        _ => &source.facts().cluster_name,
    }
}
