//! Which upstreams a policy chooses for the exchanges and queues to which it applies.
//!
//! Enters: the definition of a policy.  Leaves: one upstream, a set of them, or those of a pattern; or what is wrong.

use catalog::{ApplyTo, FEDERATION_KEYS as KEYS, Policy, PolicyPattern};
use wire::Table;

/// The name of the set that all upstreams of a virtual host are in.
pub const ALL_UPSTREAMS: &str = "all";

/// The upstreams of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpstreamChoice {
    One(String),
    /// A set of this name; [`ALL_UPSTREAMS`] needs no parameter.
    Set(String),
    /// All whose names it is in.
    Pattern(PolicyPattern),
}

impl UpstreamChoice {
    /// What the definition of a policy chooses. `None`: it is not about federation.
    ///
    /// # Errors
    /// A value is no name or no pattern, or there are several.
    pub fn of(definition: &Table) -> Result<Option<Self>, String> {
        let mut said = KEYS.iter().filter_map(|key| Some((*key, definition.get(key)?)));
        let Some((key, value)) = said.next() else { return Ok(None) };
        if said.next().is_some() {
            return Err(format!("cannot specify {}, {} and/or {} together", KEYS[0], KEYS[1], KEYS[2]));
        }
        let Some(text) = value.as_str() else { return Err(format!("{key} is a string")) };
        Ok(Some(match key {
            "federation-upstream" => Self::One(text.to_owned()),
            "federation-upstream-set" => Self::Set(text.to_owned()),
            _ => {
                let pattern = PolicyPattern::from(text);
                if let Some(why) = pattern.fault() {
                    return Err(format!("{key}: {why}"));
                }
                Self::Pattern(pattern)
            }
        }))
    }

    /// Checks a policy that is to be set.
    ///
    /// # Errors
    /// What is wrong; a policy for streams alone would have no effect.
    pub fn check(policy: &Policy) -> Result<(), String> {
        match Self::of(&policy.definition)? {
            Some(_) if policy.apply_to == ApplyTo::Streams => {
                Err("federation has no effect on streams: apply-to is exchanges, queues or all".to_owned())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::UpstreamChoice;
    use catalog::PolicyPattern;
    use wire::{Table, Value};

    #[test]
    fn a_definition_chooses_one_way() {
        let of = |entries: &[(&str, Value)]| {
            let table = entries.iter().cloned();
            UpstreamChoice::of(&table.fold(Table::new(), |all, (key, value)| all.with(key, value).expect("short")))
        };
        let text = Value::text;
        assert_eq!(of(&[("max-length", Value::I64(1))]), Ok(None));
        assert_eq!(of(&[("federation-upstream", text("a"))]), Ok(Some(UpstreamChoice::One("a".to_owned()))));
        assert_eq!(of(&[("federation-upstream-set", text("all"))]), Ok(Some(UpstreamChoice::Set("all".to_owned()))));
        let pattern = UpstreamChoice::Pattern(PolicyPattern::from("^a"));
        assert_eq!(of(&[("federation-upstream-pattern", text("^a"))]), Ok(Some(pattern)));
        assert_eq!(of(&[("federation-upstream", Value::I64(1))]), Err("federation-upstream is a string".to_owned()));
        let why = of(&[("federation-upstream-pattern", text("("))]).expect_err("no pattern");
        assert!(why.starts_with("federation-upstream-pattern: "), "{why}");
        let both = [("federation-upstream", text("a")), ("federation-upstream-set", text("all"))];
        assert!(of(&both).expect_err("two").starts_with("cannot specify federation-upstream, "));
    }
}
