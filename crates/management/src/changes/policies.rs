//! Policies: one is set or cleared, and the catalog gets all of them.

use super::Planned;
use crate::api_error::ApiError;
use crate::change_request::{ChangeRequest, faulty, made, named};
use crate::planned_change::PlannedChange;
use crate::source::ActionOutcome;
use crate::upstream_choice::UpstreamChoice;
use catalog::{AllPolicies, ResourceKind};
use definitions::Json;

/// `PUT /api/policies/{vhost}/{name}`, and of `operator-policies`.
pub fn set(request: &ChangeRequest<'_>, is_operator: bool) -> Planned {
    let (vhost, body) = (request.vhost_name()?, request.body);
    let name = named(ResourceKind::Queue, request.matched.at("name"))?;
    let text = |key: &str, default: &str| Ok::<_, ApiError>(Json::text(body.text(key)?.unwrap_or(default)));
    let mut fields = vec![
        ("pattern".to_owned(), Json::text(body.required_text("pattern")?)),
        ("apply-to".to_owned(), text("apply-to", "all")?),
        ("priority".to_owned(), Json::Int(body.number("priority")?.unwrap_or(0))),
    ];
    let definition = body.get("definition").ok_or_else(|| ApiError::bad_request("key_missing: definition"))?;
    fields.push(("definition".to_owned(), definition.clone()));
    let policy = definitions::read_policy(&Json::Object(fields), vhost, name, is_operator);
    let policy = policy.map_err(|fault| faulty(&fault))?;
    UpstreamChoice::check(&policy).map_err(|why| ApiError::bad_request(format!("Validation failed\n\n{why}\n")))?;
    let mut all = AllPolicies::of(request.catalog());
    let existed = all.put(is_operator, policy);
    Ok(PlannedChange::define([all.definition()], made(existed)))
}

/// `DELETE /api/policies/{vhost}/{name}`, and of `operator-policies`.
pub fn clear(request: &ChangeRequest<'_>, is_operator: bool) -> Planned {
    let mut all = AllPolicies::of(request.catalog());
    match all.remove(is_operator, request.matched.at("vhost"), request.matched.at("name")) {
        true => Ok(PlannedChange::define([all.definition()], ActionOutcome::Done)),
        false => Err(ApiError::not_found()),
    }
}
