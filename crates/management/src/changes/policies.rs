//! Policies: one is set or cleared, and the catalog gets all of them.

use super::Planned;
use crate::api_error::ApiError;
use crate::change_request::{ChangeRequest, faulty, made, named};
use crate::planned_change::PlannedChange;
use crate::source::ActionOutcome;
use catalog::{Catalog, Definition, Policy, ResourceKind};
use definitions::Json;

/// All policies, those of operators apart.
pub struct AllPolicies {
    policies: Vec<Policy>,
    operator_policies: Vec<Policy>,
}

impl AllPolicies {
    pub fn of(catalog: &Catalog) -> Self {
        let (operators, others): (Vec<_>, Vec<_>) = catalog.policies().partition(|(_, is_operator)| *is_operator);
        let policies = |found: Vec<(&Policy, bool)>| found.into_iter().map(|(policy, _)| policy.clone()).collect();
        Self { policies: policies(others), operator_policies: policies(operators) }
    }

    fn list(&mut self, is_operator: bool) -> &mut Vec<Policy> {
        if is_operator { &mut self.operator_policies } else { &mut self.policies }
    }

    /// Whether one of this name was there; it is there no more.
    pub fn remove(&mut self, is_operator: bool, vhost: &str, name: &str) -> bool {
        let list = self.list(is_operator);
        let before = list.len();
        list.retain(|policy| (&*policy.vhost, &*policy.name) != (vhost, name));
        list.len() != before
    }

    /// Puts a policy in the place of one of its name. Answers whether there was one.
    pub fn put(&mut self, is_operator: bool, policy: Policy) -> bool {
        let existed = self.remove(is_operator, &policy.vhost, &policy.name);
        self.list(is_operator).push(policy);
        existed
    }

    pub fn definition(self) -> Definition {
        let (policies, operator_policies) = (self.policies.into(), self.operator_policies.into());
        Definition::SetPolicies { policies, operator_policies }
    }
}

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
    let mut all = AllPolicies::of(request.catalog());
    let existed = all.put(is_operator, policy.map_err(|fault| faulty(&fault))?);
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
