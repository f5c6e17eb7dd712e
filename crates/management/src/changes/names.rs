//! The name of the cluster.

use super::Planned;
use crate::api_error::ApiError;
use crate::change_request::ChangeRequest;
use crate::limits::CLUSTER_NAME_BYTES_MAX;
use crate::planned_change::PlannedChange;

/// `PUT /api/cluster-name`.
pub fn name_cluster(request: &ChangeRequest<'_>) -> Planned {
    cluster_name(request.body.required_text("name")?)
}

/// What is a name of a cluster.
pub fn cluster_name(name: &str) -> Planned {
    if name.is_empty() || name.len() > CLUSTER_NAME_BYTES_MAX || name.chars().any(char::is_control) {
        let why = format!("the name of a cluster is a line of 1 to {CLUSTER_NAME_BYTES_MAX} bytes");
        return Err(ApiError::bad_request(why));
    }
    Ok(PlannedChange::NameCluster(name.to_owned()))
}
