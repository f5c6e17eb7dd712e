//! All policies of a catalog, as the definition that replaces them takes them: one is put or removed, and the others stay.

use crate::{Catalog, Definition, Policy};

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

#[cfg(test)]
mod tests {
    use super::AllPolicies;
    use crate::{Catalog, CatalogLimits, Definition, Name, Policy};
    use wire::{Table, Value};

    fn policy(name: &str, most: i64) -> Policy {
        Policy {
            vhost: Name::from("/"),
            name: Name::from(name),
            pattern: "^a".into(),
            apply_to: crate::ApplyTo::default(),
            priority: 0,
            definition: Table::new().with("max-length", Value::I64(most)).expect("short"),
        }
    }

    #[test]
    fn one_is_put_over_another_of_its_name_and_those_of_operators_are_apart() {
        let mut catalog = Catalog::new(CatalogLimits::default());
        catalog.execute(&Definition::CreateVhost { name: Name::from("/") }).expect("it is new");
        let mut all = AllPolicies::of(&catalog);
        assert_eq!([all.put(false, policy("a", 1)), all.put(true, policy("a", 2))], [false, false]);
        catalog.execute(&all.definition()).expect("sound");
        let mut all = AllPolicies::of(&catalog);
        assert!(all.put(false, policy("a", 3)) && !all.remove(false, "/", "b") && !all.remove(true, "x", "a"));
        catalog.execute(&all.definition()).expect("sound");
        let found: Vec<_> = catalog.policies().map(|(policy, operator)| (policy.clone(), operator)).collect();
        assert!(found.contains(&(policy("a", 3), false)) && found.contains(&(policy("a", 2), true)), "{found:?}");
        assert_eq!(found.len(), 2);
    }
}
