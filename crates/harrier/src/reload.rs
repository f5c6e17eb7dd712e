//! Reloads the configuration at SIGHUP and applies the differences to the running broker.
//!
//! A configuration with any error changes nothing; virtual hosts are never deleted.

use crate::ineffective_definitions::IneffectiveDefinitions;
use crate::initial_definitions::initial;
use catalog::{Catalog, CatalogLimits, Definition, Name, User, UserLimits, VhostLimits};
use config::{BrokerConfig, BrokerInvocation};
use definitions::UnusedSections;
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
    /// Definitions without effect, for exports.
    ineffective: IneffectiveDefinitions,
    /// Those that the definitions file had when it was last read.
    last_ineffective: UnusedSections,
    operator: AdminHandle,
}

impl Reload {
    /// For a broker that was started with these arguments, this configuration and this catalog.
    pub fn new(
        words: Vec<OsString>,
        config: BrokerConfig,
        limits: CatalogLimits,
        shards: u16,
        (said, kept, last_ineffective): (Catalog, IneffectiveDefinitions, UnusedSections),
        operator: AdminHandle,
    ) -> Self {
        Reload { words, config, limits, shards, last_catalog: said, ineffective: kept, last_ineffective, operator }
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
        let changes = differences(&self.last_catalog, &begun.catalog);
        let count = changes.len();
        // A stopping broker needs no configuration.
        let Some(refusals) = self.operator.define(changes) else { return Ok(()) };
        for refusal in &refusals {
            tracing::error!(%refusal, "a change of the configuration is refused");
        }
        tracing::info!(changes = count - refusals.len(), "the configuration was reloaded");
        (self.last_catalog, self.config) = (begun.catalog, *config);
        let of_file = begun.file.map(|file| file.kept()).unwrap_or_default();
        let before = std::mem::replace(&mut self.last_ineffective, of_file.clone());
        self.ineffective.change(|kept| kept.without(&before).with(&of_file))
    }
}

/// The definitions that turn one catalog into another: virtual hosts, users, permissions, limits and policies.
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
    let all = |catalog: &Catalog, wanted: bool| {
        let policies = catalog.policies().filter(|(_, operator)| *operator == wanted);
        policies.map(|(policy, _)| policy.clone()).collect::<Vec<_>>()
    };
    let [before, after] = [from, to].map(|catalog| (all(catalog, false), all(catalog, true)));
    if before != after {
        let (policies, operator_policies) = (after.0.into(), after.1.into());
        changes.push(Definition::SetPolicies { policies, operator_policies });
    }
    changes
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
