//! What the configuration file and the definitions file state, by name: at a start it takes the place of what was changed at run
//! time, so that administrators are told.

use catalog::{Definition, Policy};
use definitions::{Json, KeptSections};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Sections of parameters, which have no definition.
const PARAMETER_SECTIONS: [&str; 2] = ["parameters", "global_parameters"];
/// The keys by which a parameter is known.
const PARAMETER_KEYS: [&str; 3] = ["component", "vhost", "name"];

/// The names, as one object of lists. Clones are handles on the same.
#[derive(Clone)]
pub struct StatedDefinitions(Arc<Mutex<Json>>);

impl Default for StatedDefinitions {
    fn default() -> Self {
        StatedDefinitions(Arc::new(Mutex::new(Json::Object(Vec::new()))))
    }
}

impl StatedDefinitions {
    fn names(&self) -> MutexGuard<'_, Json> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the names of some definitions, as [`names`] lists them, and of parameters.
    pub fn set(&self, of_definitions: Json, parameters: &KeptSections) {
        let Json::Object(mut sections) = of_definitions else { unreachable!("names are an object of lists") };
        for section in PARAMETER_SECTIONS {
            let entries = parameters.section(section).iter().map(|entry| {
                let known = PARAMETER_KEYS.iter().filter_map(|key| Some(((*key).to_owned(), entry.get(key)?.clone())));
                Json::Object(known.collect())
            });
            sections.push((section.to_owned(), Json::List(entries.collect())));
        }
        *self.names() = Json::Object(sections);
    }

    pub fn to_json(&self) -> Json {
        self.names().clone()
    }
}

/// The names of users, virtual hosts, permissions, policies and limits among some definitions.
pub fn names(definitions: &[Definition]) -> Json {
    let mut sections: Vec<(String, Json)> = Vec::new();
    let mut add = |section: &str, keys: &[(&str, &str)]| {
        let keys = keys.iter().map(|(key, name)| ((*key).to_owned(), Json::text(name)));
        let entry = Json::Object(keys.collect());
        match sections.iter_mut().find(|(known, _)| known == section) {
            Some((_, Json::List(entries))) => entries.push(entry),
            _ => sections.push((section.to_owned(), Json::List(vec![entry]))),
        }
    };
    let of_policy = |policy: &Policy| (policy.vhost.clone(), policy.name.clone());
    for definition in definitions {
        match definition {
            Definition::CreateVhost { name } => add("vhosts", &[("name", name)]),
            Definition::SetVhostLimits { vhost, .. } => add("vhost_limits", &[("vhost", vhost)]),
            Definition::PutUser { name, .. } => add("users", &[("name", name)]),
            Definition::SetUserLimits { user, .. } => add("user_limits", &[("user", user)]),
            Definition::SetPermission { user, vhost, .. } => add("permissions", &[("user", user), ("vhost", vhost)]),
            Definition::SetTopicPermission { user, vhost, exchange, .. } => {
                add("topic_permissions", &[("user", user), ("vhost", vhost), ("exchange", exchange)]);
            }
            Definition::SetPolicies { policies, operator_policies } => {
                for (section, policies) in [("policies", policies), ("operator_policies", operator_policies)] {
                    for (vhost, name) in policies.iter().map(of_policy) {
                        add(section, &[("vhost", &vhost), ("name", &name)]);
                    }
                }
            }
            _ => {}
        }
    }
    Json::Object(sections)
}

#[cfg(test)]
mod tests {
    use super::{StatedDefinitions, names};
    use catalog::{Definition, Name, Password, Permission};
    use definitions::{Json, KeptSections};

    #[test]
    fn what_is_stated_is_listed_by_its_names() {
        let name = Name::from;
        let definitions = [
            Definition::CreateVhost { name: name("v") },
            Definition::PutUser { name: name("u"), password: Password::Never, tags: vec![], loopback_only: false },
            Definition::PutUser { name: name("w"), password: Password::Never, tags: vec![], loopback_only: false },
            Definition::SetPermission { user: name("u"), vhost: name("v"), permission: Permission::all() },
        ];
        let kept = r#"{"parameters":[{"component":"c","vhost":"v","name":"p","value":{"uri":"amqp://u:secret@h"}}]}"#;
        let kept = KeptSections::from_json(Json::read(kept.as_bytes()).expect("JSON")).expect("sections");
        let stated = StatedDefinitions::default();
        assert_eq!(stated.to_json().line(), "{}");
        stated.set(names(&definitions), &kept);
        let expect = concat!(
            r#"{"vhosts":[{"name":"v"}],"users":[{"name":"u"},{"name":"w"}],"permissions":[{"user":"u","vhost":"v"}],"#,
            r#""parameters":[{"component":"c","vhost":"v","name":"p"}],"global_parameters":[]}"#
        );
        assert_eq!(stated.to_json().line(), expect);
    }
}
