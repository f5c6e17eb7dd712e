//! Reloads the configuration at SIGHUP and applies the differences to the running broker.
//!
//! A configuration with any error changes nothing; virtual hosts are never deleted.

use crate::initial_definitions::initial;
use crate::kept_definitions::KeptDefinitions;
use crate::stated_definitions::{self, StatedDefinitions};
use catalog::{AllPolicies, Catalog, CatalogLimits, Definition, Name, User, UserLimits, VhostLimits};
use config::{BrokerConfig, BrokerInvocation};
use definitions::KeptSections;
use shard::AdminHandle;
use std::collections::HashMap;
use std::ffi::OsString;

/// Settings that a reload applies.
const READ_AGAIN: [&str; 2] = ["definitions", "loopback_users"];

pub struct Reload {
    words: Vec<OsString>,
    config: BrokerConfig,
    limits: CatalogLimits,
    shards: u16,
    last_catalog: Catalog,
    /// What the catalog has no objects for, as parameters.
    kept: KeptDefinitions,
    /// Those that the definitions file had when it was last read.
    last_kept: KeptSections,
    stated: StatedDefinitions,
    operator: AdminHandle,
}

impl Reload {
    /// For a broker that was started with these arguments, this configuration and this catalog.
    pub fn new(
        words: Vec<OsString>,
        config: BrokerConfig,
        limits: CatalogLimits,
        shards: u16,
        (said, kept, last_kept, stated): (Catalog, KeptDefinitions, KeptSections, StatedDefinitions),
        operator: AdminHandle,
    ) -> Self {
        let last_catalog = said;
        Reload { words, config, limits, shards, last_catalog, kept, last_kept, stated, operator }
    }

    /// Reads the files again and applies the differences, durably. If anything is wrong, nothing changes.
    pub fn run(&mut self) {
        if let Err(why) = self.try_run() {
            for line in why.lines() {
                tracing::error!("{line}");
            }
            tracing::error!("the configuration could not be reloaded, and is unchanged");
        }
    }

    fn try_run(&mut self) -> Result<(), String> {
        let request = BrokerConfig::load(self.words.iter().cloned(), std::env::vars_os());
        let BrokerInvocation::Run(config) = request.map_err(|error| error.to_string())? else {
            return Err("the command line asks for something else".to_owned());
        };
        // An absent default file would delete every user.
        if let (Some(path), None) = (&self.config.file, &config.file) {
            return Err(format!("{}: the file is gone", path.display()));
        }
        let begun = initial(&config, &self.limits, self.shards).map_err(|error| error.to_string())?;
        config.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        crate::policies::ineffective_policies(&config).iter().for_each(|odd| tracing::warn!("{odd}"));
        for setting in self.config.settings_changed(&config) {
            if !READ_AGAIN.contains(&setting) {
                tracing::warn!(setting, "a setting has changed, and takes effect at the next start");
            }
        }
        for (_, vhost) in self.last_catalog.vhosts().filter(|(_, name)| begun.catalog.vhost_by_name(name).is_none()) {
            tracing::warn!(
                vhost = &**vhost,
                "a virtual host was removed from the configuration; it stays until the broker stops"
            );
        }
        let mut changes = differences(&self.last_catalog, &begun.catalog);
        // A stopping broker needs no configuration.
        let Some(now) = self.operator.with_catalog(AllPolicies::of) else { return Ok(()) };
        changes.extend(changed_policies(now, &self.last_catalog, &begun.catalog));
        let count = changes.len();
        let Some(refusals) = self.operator.define(changes) else { return Ok(()) };
        for refusal in &refusals {
            tracing::error!(%refusal, "a change of the configuration is refused");
        }
        tracing::info!(changes = count - refusals.len(), "the configuration was reloaded");
        (self.last_catalog, self.config) = (begun.catalog, *config);
        let of_file = begun.file.map(|file| file.kept()).unwrap_or_default();
        self.stated.set(stated_definitions::names(&begun.without_defaults), &of_file);
        let before = std::mem::replace(&mut self.last_kept, of_file.clone());
        self.kept.change(|kept| kept.without(&before).with(&of_file))
    }
}

/// The definitions that turn one catalog into another: virtual hosts, users, permissions and limits.
fn differences(from: &Catalog, to: &Catalog) -> Vec<Definition> {
    let mut changes = Vec::new();
    for (id, vhost) in to.vhosts() {
        let before = from.vhost_by_name(vhost);
        if before.is_none() {
            changes.push(Definition::CreateVhost { name: vhost.clone() });
        }
        let limits = to.vhost_limits(id);
        if before.map_or(VhostLimits::default(), |id| from.vhost_limits(id)) != limits {
            changes.push(Definition::SetVhostLimits { vhost: vhost.clone(), limits });
        }
    }
    let [before, after] = [from, to]
        .map(|catalog| catalog.users().map(|(_, user)| (&*user.name, user)).collect::<HashMap<&str, &User>>());
    for (_, user) in from.users().filter(|(_, user)| !after.contains_key(&*user.name)) {
        changes.push(Definition::DeleteUser { name: user.name.clone() });
    }
    for (_, user) in to.users() {
        let before = before.get(&*user.name).copied();
        let alike = |other: &User| {
            (&other.password, &other.tags, other.loopback_only) == (&user.password, &user.tags, user.loopback_only)
        };
        let name = || user.name.clone();
        if !before.is_some_and(alike) {
            changes.push(Definition::PutUser {
                name: name(),
                password: user.password.clone(),
                tags: user.tags.clone(),
                loopback_only: user.loopback_only,
            });
        }
        if before.map_or(UserLimits::default(), |other| other.limits) != user.limits {
            changes.push(Definition::SetUserLimits { user: name(), limits: user.limits });
        }
        permissions(&mut changes, &name(), before.map(|before| (from, before)), (to, user));
    }
    changes
}

/// The policies that there are now, with what has changed between two catalogs; `None` if nothing has. Those that were made at run
/// time stay.
fn changed_policies(mut now: AllPolicies, from: &Catalog, to: &Catalog) -> Option<Definition> {
    let all = |catalog: &Catalog| {
        let policies = catalog
            .policies()
            .map(|(policy, operator)| ((operator, policy.vhost.clone(), policy.name.clone()), policy.clone()));
        policies.collect::<HashMap<_, _>>()
    };
    let (before, after) = (all(from), all(to));
    let mut has_changed = false;
    for (operator, vhost, name) in before.keys().filter(|key| !after.contains_key(*key)) {
        has_changed |= now.remove(*operator, vhost, name);
    }
    for ((operator, ..), policy) in after.iter().filter(|(key, policy)| before.get(*key) != Some(*policy)) {
        now.put(*operator, policy.clone());
        has_changed = true;
    }
    has_changed.then(|| now.definition())
}

/// Changes of the permissions of a user, who may be new.
fn permissions(changes: &mut Vec<Definition>, user: &Name, then: Option<(&Catalog, &User)>, now: (&Catalog, &User)) {
    let written = |(catalog, user): (&Catalog, &User)| {
        let all =
            user.permissions().map(|(vhost, permission)| (Name::from(catalog.vhost_name(vhost)), permission.clone()));
        all.collect::<HashMap<_, _>>()
    };
    let (before, after) = (then.map(written).unwrap_or_default(), written(now));
    for vhost in before.keys().filter(|vhost| !after.contains_key(*vhost)) {
        changes.push(Definition::ClearPermission { user: user.clone(), vhost: vhost.clone() });
    }
    for (vhost, permission) in after.into_iter().filter(|(vhost, permission)| before.get(vhost) != Some(permission)) {
        changes.push(Definition::SetPermission { user: user.clone(), vhost, permission });
    }
    let topics = |(catalog, user): (&Catalog, &User)| {
        let all = user.topic_permissions().map(|(vhost, exchange, permission)| {
            ((Name::from(catalog.vhost_name(vhost)), exchange.clone()), permission.clone())
        });
        all.collect::<HashMap<_, _>>()
    };
    let (before, after) = (then.map(topics).unwrap_or_default(), topics(now));
    for (vhost, exchange) in before.keys().filter(|on| !after.contains_key(*on)) {
        let (user, vhost, exchange) = (user.clone(), vhost.clone(), exchange.clone());
        changes.push(Definition::ClearTopicPermission { user, vhost, exchange });
    }
    for (on, permission) in after.into_iter().filter(|(on, permission)| before.get(on) != Some(permission)) {
        let (vhost, exchange) = on;
        changes.push(Definition::SetTopicPermission { user: user.clone(), vhost, exchange, permission });
    }
}

#[cfg(test)]
mod tests {
    use super::changed_policies;
    use catalog::{AllPolicies, ApplyTo, Catalog, CatalogLimits, Definition, Name, Policy};
    use std::collections::BTreeMap;
    use wire::{Table, Value};

    /// A catalog with policies that have a number each.
    fn catalog(policies: &[(&str, i64)]) -> Catalog {
        let policies = policies.iter().map(|(name, most)| Policy {
            vhost: Name::from("/"),
            name: Name::from(*name),
            pattern: "^a".into(),
            apply_to: ApplyTo::default(),
            priority: *most,
            definition: Table::new().with("max-length", Value::I64(*most)).expect("short"),
        });
        let policies = policies.collect::<Vec<_>>().into();
        let mut catalog = Catalog::new(CatalogLimits::default());
        catalog.execute(&Definition::CreateVhost { name: Name::from("/") }).expect("it is new");
        let definition = Definition::SetPolicies { policies, operator_policies: [].into() };
        catalog.execute(&definition).expect("sound");
        catalog
    }

    #[test]
    fn policies_of_the_run_time_stay_when_those_of_the_file_change() {
        let now = [("of-file", 1), ("changed-since", 9), ("run-time", 3)];
        let before = [("of-file", 1), ("changed-since", 2)];
        for (after, expect) in [
            (&before[..], None),
            (
                &[("of-file", 5), ("changed-since", 2)],
                Some(&[("of-file", 5), ("changed-since", 9), ("run-time", 3)][..]),
            ),
            (&[("changed-since", 2), ("new", 4)], Some(&[("changed-since", 9), ("new", 4), ("run-time", 3)])),
            (&[], Some(&[("run-time", 3)])),
        ] {
            let found = changed_policies(AllPolicies::of(&catalog(&now)), &catalog(&before), &catalog(after));
            let found = found.map(|definition| {
                let Definition::SetPolicies { policies, .. } = definition else { panic!("{definition:?}") };
                policies.iter().map(|policy| (policy.name.to_string(), policy.priority)).collect::<BTreeMap<_, _>>()
            });
            let expect = expect.map(|expect| {
                expect.iter().map(|(name, most)| ((*name).to_owned(), *most)).collect::<BTreeMap<_, _>>()
            });
            assert_eq!(found, expect, "{after:?}");
        }
    }
}
