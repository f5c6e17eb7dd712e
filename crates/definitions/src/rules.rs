//! Policies and limits of a file.
//!
//! Enters: entries of `policies` and `parameters`, `limits` of users and virtual hosts.  Leaves: what a catalog makes of them.
//! Owns:   their keys; where a limit counts.

use crate::file::{DefinitionsFile, EntryReader};
use crate::json_table::table_of_json;
use crate::{DefinitionsFault, Json};
use catalog::{ApplyTo, Name, Policy, UserLimits, VhostLimits};

/// A limit that RabbitMQ does not know.
pub(crate) const MAX_QUEUE_BYTES: &str = "max-queue-bytes";

impl EntryReader<'_> {
    pub(crate) fn policy_name(&self) -> Result<Name, DefinitionsFault> {
        // Policies name themselves as queues do.
        self.name(catalog::ResourceKind::Queue, "name")
    }

    /// What stands in a policy beside its name and its virtual host.
    pub(crate) fn policy(&self, vhost: Name, name: Name, operator: bool) -> Result<Policy, DefinitionsFault> {
        let apply_to = self.optional_text("apply-to")?.unwrap_or_else(|| ApplyTo::All.name().to_owned());
        let Some(apply_to) = ApplyTo::parse(&apply_to) else {
            return Err(self.fault("apply-to", format!("it takes {}, not '{apply_to}'", ApplyTo::NAMES)));
        };
        let priority = match self.get("priority") {
            None => 0,
            Some(Json::Int(priority)) => *priority,
            Some(other) => {
                return Err(self.fault("priority", format!("a whole number is needed, not {}", other.kind())));
            }
        };
        let definition = match self.get("definition") {
            Some(value) => table_of_json(value).map_err(|(path, why)| self.fault(&format!("definition{path}"), why))?,
            None => return Err(self.fault("definition", "it is missing")),
        };
        let policy = Policy { vhost, name, pattern: self.text("pattern")?.into(), apply_to, priority, definition };
        policy.check(operator).map_err(|fault| self.fault(&fault.key, fault.why))?;
        Ok(policy)
    }

    /// The same in a file, which has no two of the name in a virtual host.
    pub(crate) fn policy_of_file(
        &self,
        file: &mut DefinitionsFile,
        vhost: Name,
        name: Name,
        operator: bool,
    ) -> Result<Policy, DefinitionsFault> {
        let policy = self.policy(vhost, name, operator)?;
        let others = if operator { &file.operator_policies } else { &file.policies };
        if others.iter().any(|other| (&other.entry.vhost, &other.entry.name) == (&policy.vhost, &policy.name)) {
            let why = format!("there are two of the name '{}' in virtual host '{}'", policy.name, policy.vhost);
            return Err(self.fault("name", why));
        }
        file.warnings.extend(policy.oddities().iter().map(|odd| format!("{}: {odd}", self.path)));
        Ok(policy)
    }

    /// Limits, by name: RabbitMQ writes an object, or a list of pairs. A negative one is none.
    fn limits<const N: usize>(&self, key: &str, known: [&str; N]) -> Result<[Option<u64>; N], DefinitionsFault> {
        let wrong = |why: &str| Err(self.fault(key, why));
        let pairs: Vec<(&str, &Json)> = match self.get(key) {
            None | Some(Json::Null) => vec![],
            Some(Json::Object(fields)) => fields.iter().map(|(name, value)| (&**name, value)).collect(),
            Some(Json::List(items)) => {
                let pair = |item: &'_ Json| match item {
                    Json::List(pair) => match &pair[..] {
                        [Json::Text(name), value] => Some((name.clone(), value.clone())),
                        _ => None,
                    },
                    _ => None,
                };
                let Some(pairs) = items.iter().map(pair).collect::<Option<Vec<_>>>() else {
                    return wrong("an object is needed, or a list of pairs");
                };
                let fields = Json::Object(pairs);
                return EntryReader { path: self.path, fields: &[(key.to_owned(), fields)] }.limits(key, known);
            }
            Some(_) => return wrong("an object is needed, or a list of pairs"),
        };
        let mut limits = [None; N];
        for (name, value) in pairs {
            let Some(at) = known.iter().position(|known| *known == name) else {
                return Err(
                    self.fault(&format!("{key}.{name}"), format!("no such limit; there are {}", known.join(", ")))
                );
            };
            let Json::Int(limit) = value else {
                return Err(
                    self.fault(&format!("{key}.{name}"), format!("a whole number is needed, not {}", value.kind()))
                );
            };
            limits[at] = u64::try_from(*limit).ok();
        }
        Ok(limits)
    }

    pub(crate) fn vhost_limits(&self, key: &str) -> Result<VhostLimits, DefinitionsFault> {
        let [connections, queues, bytes] = self.limits(key, ["max-connections", "max-queues", MAX_QUEUE_BYTES])?;
        Ok(VhostLimits { connections_max: count(connections), queues_max: count(queues), queue_bytes_max: bytes })
    }

    pub(crate) fn user_limits(&self, key: &str) -> Result<UserLimits, DefinitionsFault> {
        let [connections, channels] = self.limits(key, ["max-connections", "max-channels"])?;
        Ok(UserLimits { connections_max: count(connections), channels_max: count(channels) })
    }
}

/// A limit beyond what can be counted is none.
fn count(limit: Option<u64>) -> Option<u32> {
    limit.and_then(|limit| u32::try_from(limit).ok())
}

impl DefinitionsFile {
    /// What each virtual host may hold: as in RabbitMQ, the parameters say it; but how many bytes its own entry does.
    pub(crate) fn vhost_limits(&self) -> Vec<(&str, Name, VhostLimits)> {
        let mut all: Vec<(&str, Name, VhostLimits)> = Vec::new();
        let parameters = self.limit_parameters.iter().map(|at| (&*at.path, &at.entry));
        let own = self.vhost_limits.iter().map(|at| (&*at.path, &at.entry));
        let own = own.filter(|(_, (_, limits))| limits.queue_bytes_max.is_some());
        for (path, (vhost, limits)) in parameters {
            all.push((path, vhost.clone(), *limits));
        }
        for (path, (vhost, limits)) in own {
            match all.iter_mut().find(|(_, other, _)| other == vhost) {
                Some((.., found)) => found.queue_bytes_max = limits.queue_bytes_max,
                None => all.push((
                    path,
                    vhost.clone(),
                    VhostLimits { queue_bytes_max: limits.queue_bytes_max, ..VhostLimits::default() },
                )),
            }
        }
        all
    }

    /// Warns of limits where they do not count.
    pub(crate) fn warn_of_limits(&mut self) {
        for at in &self.vhost_limits {
            let (vhost, limits) = &at.entry;
            let counts = self.limit_parameters.iter().any(|parameter| parameter.entry.0 == *vhost);
            if !counts && (limits.connections_max.is_some() || limits.queues_max.is_some()) {
                let why = "as in RabbitMQ, the parameters say how many connections and queues there may be";
                self.warnings.push(format!("{}.limits: without effect: {why}", at.path));
            }
        }
    }
}
