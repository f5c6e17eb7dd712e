//! Policies of the configuration and of the definitions file, combined into one definition.
//!
//! The catalog decides which policy applies to what.

use catalog::{ApplyTo, Catalog, Definition, Name, Policy};
use config::{BrokerConfig, ConfigError, ConfigFault, Origin, TermValue};
use definitions::DefinitionsFile;
use wire::{List, ShortString, Table, Value};

/// All policies, checked and tried on a catalog; `None` if there is none.
///
/// # Errors
/// The first that is wrong, with its line.
pub fn all(
    config: &BrokerConfig,
    file: Option<&DefinitionsFile>,
    trial: &mut Catalog,
) -> Result<Option<Definition>, ConfigError> {
    let of_file = |operator: bool| -> Vec<Policy> {
        let policies = file.into_iter().flat_map(|file| file.policies().map(|(_, policy)| (false, policy)));
        let operators = file.into_iter().flat_map(|file| file.operator_policies().map(|(_, policy)| (true, policy)));
        let wanted = policies.chain(operators).filter(|(is_operator, _)| *is_operator == operator);
        wanted.map(|(_, policy)| policy.clone()).collect()
    };
    let join = |table: &str, written: &[config::PolicyConfig], mut all: Vec<Policy>, operator: bool| {
        for policy in written {
            let checked = read(policy, operator).and_then(|checked| {
                let fault = |key: &str, why: String| Err((policy.origin.clone(), key.to_owned(), why));
                if trial.vhost_by_name(&policy.vhost).is_none() {
                    return fault("vhost", format!("there is no virtual host '{}'", policy.vhost));
                }
                if all.iter().any(|other| (&other.vhost, &other.name) == (&checked.vhost, &checked.name)) {
                    let why = format!("there are two of the name '{}' in virtual host '{}'", policy.name, policy.vhost);
                    return fault("name", why);
                }
                Ok(checked)
            });
            let fault = |(origin, key, why)| ConfigFault { origin, key: format!("{table}.{key}"), why };
            all.push(checked.map_err(fault)?);
        }
        Ok::<_, ConfigFault>(all)
    };
    let policies = join("policy", &config.policies, of_file(false), false)?;
    let operator_policies = join("operator_policy", &config.operator_policies, of_file(true), true)?;
    if policies.is_empty() && operator_policies.is_empty() {
        return Ok(None);
    }
    let definition = Definition::SetPolicies { policies: policies.into(), operator_policies: operator_policies.into() };
    let at = config.policies.iter().chain(&config.operator_policies).next_back();
    trial.execute(&definition).map_err(|refusal| ConfigFault {
        origin: at.map_or(Origin::Default, |policy| policy.origin.clone()),
        key: "policy".to_owned(),
        why: refusal.text,
    })?;
    Ok(Some(definition))
}

/// Parts of the configuration's policies that have no effect, as sentences for the log.
pub fn ineffective_policies(config: &BrokerConfig) -> Vec<String> {
    let both = config.policies.iter().map(|policy| (policy, false));
    let both = both.chain(config.operator_policies.iter().map(|policy| (policy, true)));
    both.filter_map(|(policy, operator)| Some((policy, read(policy, operator).ok()?)))
        .flat_map(|(written, policy)| {
            let place = format!("{}: policy '{}'", written.origin, written.name);
            policy.oddities().into_iter().map(move |odd| format!("{place}: {odd}"))
        })
        .collect()
}

/// A policy of the configuration, checked; or where and in which key it is wrong, and why.
fn read(written: &config::PolicyConfig, operator: bool) -> Result<Policy, (Origin, String, String)> {
    let mut definition = Table::new();
    for said in &written.definition {
        let key = ShortString::try_from(&*said.key)
            .map_err(|_| (said.origin.clone(), "definition".to_owned(), "a key has 255 bytes at most".to_owned()))?;
        definition.set(key, value(&said.value));
    }
    let policy = Policy {
        // The configuration has validated its names.
        vhost: Name::from(written.vhost.as_str()),
        name: Name::from(written.name.as_str()),
        pattern: written.pattern.as_str().into(),
        apply_to: ApplyTo::parse(&written.apply_to).unwrap_or_default(),
        priority: written.priority,
        definition,
    };
    match policy.check(operator) {
        Ok(()) => Ok(policy),
        Err(fault) => {
            let key = fault.key.strip_prefix("definition.");
            let said = key.and_then(|key| written.definition.iter().find(|said| said.key == key));
            Err((said.map_or(&written.origin, |said| &said.origin).clone(), fault.key, fault.why))
        }
    }
}

fn value(term: &TermValue) -> Value {
    match term {
        TermValue::Flag(flag) => Value::Bool(*flag),
        TermValue::Number(number) => Value::I64(*number),
        TermValue::Text(text) => Value::text(text),
        TermValue::List(items) => Value::List(items.iter().map(value).collect::<List>()),
    }
}
