//! A definitions file as a change: tried on a copy of the catalog first, so that a file with a fault changes nothing.

use super::Planned;
use super::kept_limits::{check_counts, check_entry};
use crate::api_error::ApiError;
use crate::change_request::refused;
use crate::planned_change::PlannedChange;
use crate::source::{ActionOutcome, Source};
use catalog::{AllPolicies, Catalog, Definition, VhostId};
use definitions::DefinitionsFile;

/// Takes a file in. Policies and parameters replace those of the same name, everything else must be new or the same.
///
/// Queues, exchanges and bindings name their virtual host by an id, which only the shard that makes changes gives: virtual hosts
/// that the file makes are made first.
pub fn import(source: &dyn Source, file: &DefinitionsFile, vhost: Option<VhostId>) -> Planned {
    // Deleted while the file came.
    if vhost.is_some_and(|vhost| source.catalog().vhost_name(vhost).is_empty()) {
        return Err(ApiError::not_found());
    }
    let new = file.kept();
    new.sections().flat_map(|(_, entries)| entries).try_for_each(check_entry)?;
    let kept = source.kept().with(&new);
    check_counts(source.kept(), &kept)?;
    let facts = source.facts();
    let loopback_only = |user: &str| match source.catalog().user_by_name(user) {
        Some((_, user)) => user.loopback_only,
        None => facts.loopback_users.iter().any(|name| **name == *user),
    };
    let mut trial = source.catalog().clone();
    let loaded = file.load_changes(&mut trial, facts.shards.max(1), loopback_only);
    let mut definitions = loaded.map_err(|fault| ApiError::bad_request(fault.to_string()))?;
    if file.policies().chain(file.operator_policies()).next().is_some() {
        let mut all = AllPolicies::of(source.catalog());
        for (_, policy) in file.policies() {
            all.put(false, policy.clone());
        }
        for (_, policy) in file.operator_policies() {
            all.put(true, policy.clone());
        }
        let definition = all.definition();
        if trial.execute(&definition).map_err(refused)?.changed {
            definitions.push(definition);
        }
    }
    let new = |definition: &Definition| is_new_vhost(source.catalog(), definition);
    if definitions.iter().any(new) {
        return Ok(PlannedChange::DefineFirst(definitions.into_iter().filter(new).collect()));
    }
    Ok(PlannedChange::Define { definitions, kept: Some(kept), outcome: ActionOutcome::Done })
}

fn is_new_vhost(catalog: &Catalog, definition: &Definition) -> bool {
    matches!(definition, Definition::CreateVhost { name } if catalog.vhost_by_name(name).is_none())
}
